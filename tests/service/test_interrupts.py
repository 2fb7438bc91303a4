"""An interrupt that is told once ends its question, wherever that is, and reserves nothing more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql.pipeline.buyer import Buyer
from dpsql.pipeline.prepare import Preparer
from dpsql.pipeline.till import Till
from dpsql.service.answering import Answerer

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 1, delta: 1e-8}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables:
  visits:
    privacy_unit: {name: person, column: id}
    columns: {k: {domain: [0, 1, 2]}}
"""
QUESTION = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"
MOMENTS: dict[str, tuple[type, str]] = {
    "before it is prepared": (Preparer, "with_stand_ins"),
    "before bounds are drawn": (Answerer, "_buy_bounds"),
    "between draw and question": (Answerer, "_with_bounds"),
    "before the question is reserved": (Answerer, "_buy"),
    "while it is reserved": (Till, "reserve"),
    "before the run begins": (Buyer, "begun"),
}


@pytest.fixture
def con(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE visits AS SELECT range // 2 AS id, range % 3 AS k FROM range(3000)"
        )
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(tmp_path / "shop.duckdb", policy, tmp_path / "b.db", "ana") as found:
        yield found


def once(
    patch: pytest.MonkeyPatch, place: tuple[type, str], work: Callable[[], object]
) -> list[str]:
    """Do work before a method, once, in another thread; returns a list that tells it is done."""
    owner, name = place
    real, done = getattr(owner, name), list[str]()

    def before(self: Any, *given: Any, **named: Any) -> Any:
        if not done:
            done.append(name)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return real(self, *given, **named)

    patch.setattr(owner, name, before)
    return done


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_single_interrupt_ends_the_question_wherever_it_is(
    moment: str, con: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        done = once(patch, MOMENTS[moment], con.interrupt)
        with fails_with("interrupted"):
            con.sql(QUESTION)
        assert done
    spent = con.budget()
    if moment != "while it is reserved":
        assert spent.unsettled == 0, "nothing was reserved after it"
    assert not con.sql(QUESTION).cost.stored, "it can be asked again"
    assert con.sql(QUESTION).cost.stored


def test_a_single_interrupt_ends_a_trial_of_settings(
    con: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        once(patch, (Answerer, "take_estimates"), con.interrupt)
        with fails_with("interrupted"):
            con.tune(QUESTION, max_rows_contributed=2)
    assert con.budget().unsettled == 0
