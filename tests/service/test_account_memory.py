"""What sessions of an account are told of its budget is read once, and never out of date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.ledger import Ledger
from dpsql.policy.model import AccountPolicy
from dpsql.privacy.accounting.zcdp import Budget, Composition

COUNT = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[dpsql.Dataset]:
    rules = policy(None, **{ANALYST: AccountPolicy(ANALYST, 1000.0, 1e-3)})
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.open_dataset(path, rules, tmp_path / "budget.db") as found,
    ):
        yield found


@pytest.fixture
def standings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The accounts whose standing was read from the ledger."""
    found: list[str] = []
    real = Ledger.standing

    def counted(self: Ledger, account: str, *given: Any) -> Any:
        found.append(account)
        return real(self, account, *given)

    monkeypatch.setattr(Ledger, "standing", counted)
    return found


def told(dataset: dpsql.Dataset, session: str = "") -> tuple[object, ...]:
    with dataset.session(ANALYST, session=session) as opened:
        return opened.accounts()


def test_a_stored_answer_reads_no_standing_again(
    dataset: dpsql.Dataset, standings: list[str]
) -> None:
    with dataset.session(ANALYST) as session:
        session.sql(COUNT)
    first = told(dataset)
    read = len(standings)
    for _ in range(3):
        with dataset.session(ANALYST) as session:
            assert session.sql(COUNT).cost.stored
            assert session.accounts() == first
    assert len(standings) == read


def test_each_payer_is_told_of_its_own(dataset: dpsql.Dataset) -> None:
    assert len(told(dataset)) == 1
    assert len(told(dataset, "run")) == 2
    assert len(told(dataset)) == 1


def test_whatever_the_ledger_is_told_is_seen_at_once(
    dataset: dpsql.Dataset,
    standings: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A charge of another session or process, the owner's limits and suspensions, a new day."""
    seen = [told(dataset)]

    def differs() -> None:
        seen.append(told(dataset))
        assert seen[-1] != seen[-2]

    with dataset.session(ANALYST) as session:
        session.sql(COUNT)
    differs()
    (own,) = dataset.session(ANALYST).accounts()
    with Ledger.open(tmp_path / "budget.db") as ledger:  # as another process has it
        owner = ledger.owner("owner")
        owner.set_limits(own.path, Budget.of(1.0, 1e-6, Composition.ZCDP, 0.5).limit)
        differs()
        owner.suspend(own.path)
        differs()
    position = Ledger.position

    def tomorrow(self: Ledger, account: str) -> Any:
        return "2999-12-31", *position(self, account)[1:]

    monkeypatch.setattr(Ledger, "position", tomorrow)
    read = len(standings)
    told(dataset)
    assert len(standings) > read


def test_what_others_ask_has_nothing_read_again(tmp_path: Path, standings: list[str]) -> None:
    """How long that takes would tell an analyst that, and when, somebody else has asked."""
    accounts = {name: AccountPolicy(name, 1000.0, 1e-3) for name in (ANALYST, "bob")}
    with (
        world_file(tmp_path / "world.duckdb", *FILL) as path,
        dpsql.open_dataset(path, policy(None, **accounts), tmp_path / "budget.db") as dataset,
    ):
        with dataset.session(ANALYST) as session:
            session.sql(COUNT)
        first, read = told(dataset), standings.count(f"{dataset.policy.dataset}/{ANALYST}")
        for limit in (1, 2):
            with dataset.session("bob") as session:
                session.sql(f"SELECT COUNT(*) FROM visits WHERE n > {limit}")
            assert told(dataset) == first
        assert standings.count(f"{dataset.policy.dataset}/{ANALYST}") == read


def test_intervals_that_were_asked_for_again_are_nobody_elses(dataset: dpsql.Dataset) -> None:
    with dataset.session(ANALYST) as session:
        result = session.sql(COUNT)
        before = result.summary()
        first = result.intervals()["n"]
        known = first.low.copy()
        first.low[:] = np.inf
        assert (result.intervals()["n"].low == known).all()
        assert result.summary() == before
