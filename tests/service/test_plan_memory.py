"""Plans are remembered for all sessions of an account, and for no other account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.support import ANALYST, FILL, policy, world_file

import dpsql
from dpsql.core.remembered import Remembered
from dpsql.pipeline.prepare import Preparer
from dpsql.policy.model import AccountPolicy

OTHER = "bob"
COUNT = "SELECT k, COUNT(DISTINCT uid) AS n FROM visits GROUP BY k"
PUBLIC = "SELECT name FROM shops ORDER BY name"
OVER_PUBLIC = "SELECT COUNT(*) AS n FROM visits WHERE k = (SELECT max(k) FROM shops)"


def opened(directory: Path, path: Path) -> dpsql.Dataset:
    accounts = {name: AccountPolicy(name, 1000.0, 1e-3) for name in (ANALYST, OTHER)}
    return dpsql.open_dataset(path, policy(None, **accounts), directory / "budget.db")


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[dpsql.Dataset]:
    with world_file(tmp_path / "world.duckdb", *FILL) as path, opened(tmp_path, path) as found:
        yield found


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were planned, in their order."""
    texts: list[str] = []
    real = Preparer._planned

    def counted(self: Preparer, question: Any, stages: Any) -> Any:
        texts.append(question.text)
        return real(self, question, stages)

    monkeypatch.setattr(Preparer, "_planned", counted)
    return texts


def test_sessions_of_an_account_share_plans_and_answers_are_as_before(
    dataset: dpsql.Dataset, planned: list[str]
) -> None:
    with dataset.session(ANALYST) as session:
        paid = session.sql(COUNT)
        assert planned.count(COUNT) == 1
    with dataset.session(ANALYST, session="other") as session:
        given = session.sql(COUNT)
        assert planned.count(COUNT) == 1
        assert given.cost.stored
        assert (given.fetchall(), given.columns, given.types) == (
            paid.fetchall(),
            paid.columns,
            paid.types,
        )
        assert session.describe(COUNT, ()).columns[0].name == "k"
        assert planned.count(COUNT) == 1


def test_no_account_finds_the_plans_of_another(dataset: dpsql.Dataset, planned: list[str]) -> None:
    for name in (ANALYST, OTHER, ANALYST, OTHER):
        with dataset.session(name) as session:
            session.explain(COUNT)
    assert planned.count(COUNT) == 2
    assert dataset.memory_of(ANALYST).plans is not dataset.memory_of(OTHER).plans


def test_other_settings_are_other_plans(dataset: dpsql.Dataset, planned: list[str]) -> None:
    prices = []
    for epsilon in (1.0, 0.5, 1.0, 0.5):
        with dataset.session(ANALYST) as session:
            session.sql(f"SET epsilon = {epsilon}")
            prices.append(session.explain(COUNT).reserved_epsilon)
    assert prices[0] > prices[1]
    assert prices[:2] == prices[2:]
    assert planned.count(COUNT) == 2
    with dataset.session(ANALYST) as session:
        assert session.explain(COUNT, max_groups_contributed=2).reserved_epsilon
    assert planned.count(COUNT) == 3


@pytest.mark.parametrize("text", [PUBLIC, OVER_PUBLIC])
def test_what_was_planned_by_public_rows_is_remembered_by_its_session_alone(
    dataset: dpsql.Dataset, planned: list[str], text: str
) -> None:
    for times in (1, 2):
        with dataset.session(ANALYST) as session:
            session.sql(text)
            begun = len(planned)
            session.sql(text)
            assert len(planned) == begun
        assert planned.count(text) % times == 0
        assert planned.count(text) >= times
    assert len(dataset.memory_of(ANALYST).plans) == 0


def test_another_edition_of_the_data_plans_anew(
    dataset: dpsql.Dataset, planned: list[str], tmp_path: Path
) -> None:
    with dataset.session(ANALYST) as session:
        session.sql(COUNT)
        session.describe(COUNT)
        begun = planned.count(COUNT)
        (tmp_path / "next").mkdir()
        with world_file(tmp_path / "next" / "world.duckdb", *FILL) as path:
            following = opened(tmp_path, path)
            following.follow(dataset)
            dataset.replace_by(following)
            assert session.known_description(COUNT) is None
            session.explain(COUNT)
            assert planned.count(COUNT) == begun + 1
            following.close()


def test_a_description_is_known_until_a_setting_changes(dataset: dpsql.Dataset) -> None:
    with dataset.session(ANALYST) as session:
        assert session.known_description(COUNT) is None
        described = session.describe(COUNT)
        assert session.known_description(COUNT) == described
        assert session.known_description(COUNT, []) is None  # values that are known are others
        session.sql("SET epsilon = 0.5")
        assert session.known_description(COUNT) is None
        session.describe("SELECT now() AS n")
        session.sql("RESET epsilon")
        assert session.known_description(COUNT) is None
        session.describe(COUNT)
        session.restore({"epsilon": 0.5})
        assert session.known_description(COUNT) is None
        session.describe(COUNT)
        session.reset()
        assert session.known_description(COUNT) is None
    assert session.known_description(COUNT) is None


def test_values_count_among_what_is_remembered(dataset: dpsql.Dataset) -> None:
    """A text of some letters can have values as long as several of the longest texts."""
    asked, long = "SELECT COUNT(*) FROM visits WHERE s <> ?", "x" * 80_000
    with dataset.session(ANALYST) as session:
        for number in range(8):
            session.describe(asked, (f"{number}{long}",))
        assert len(dataset.memory_of(ANALYST).plans) == 6
        known = [
            session.known_description(asked, (f"{number}{long}",)) is not None
            for number in range(8)
        ]
        assert known == [False] * 2 + [True] * 6


def test_what_is_remembered_is_bounded_in_number_and_size() -> None:
    memory: Remembered[int, str] = Remembered(3, 10)
    for key in range(5):
        memory.keep(key, f"{key}", 1)
    assert [memory.get(key) for key in range(5)] == [None, None, "2", "3", "4"]
    assert memory.get(2) == "2"
    memory.keep(5, "5", 1)
    assert [memory.get(key) for key in (2, 3, 4, 5)] == ["2", None, "4", "5"]
    memory.keep(6, "6", 9)
    assert [memory.get(key) for key in (2, 4, 5, 6)] == [None, None, "5", "6"]
    memory.keep(7, "7", 11)
    assert memory.get(7) is None
    memory.keep(6, "six", 1)
    memory.keep(8, "8", 8)
    assert [memory.get(key) for key in (5, 6, 8)] == ["5", "six", "8"]
    memory.clear()
    assert len(memory) == 0
    memory.keep(9, "9", 10)
    assert memory.get(9) == "9"
