"""Whichever way a question is read, its statements were read before its price was reserved.

Estimates are made beside a block only where the account has no release of them. So a question
goes another way the second time, and a plan that is refused there must not cost anything either.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.engines.duckdb.engine import OpenDuckDB
from dpsql.engines.duckdb.reading import KNOWN, KnownStatements
from dpsql.ledger import Ledger
from dpsql.pipeline.release import RehearsedWays

POLICY = """
version: 1
dataset: d
defaults: {epsilon: 1.0, delta: 1e-9, max_groups_contributed: 2, max_rows_contributed: 2}
accounts: {ana: {epsilon: 1000, delta: 1e-3}}
tables:
  t:
    privacy_unit: {name: person, column: u}
    columns: {m: {lower: 0, upper: 10}, d: {domain: [a, b]}}
"""
COUNT, SUM, AVG = "COUNT(*)", "SUM(m)", "AVG(m)"
HISTORIES: dict[str, list[tuple[str, ...]]] = {
    "none is known": [(COUNT, SUM, AVG)],
    "one of several is known": [(COUNT,), (COUNT, SUM, AVG)],
    "another one is known": [(SUM,), (COUNT, SUM, AVG)],
    "one is left": [(COUNT, SUM), (COUNT, SUM, AVG)],
    "all are known": [(COUNT,), (COUNT, "COUNT(DISTINCT u)")],
}
SHAPES = {
    "unknown keys": "SELECT k, {} FROM t GROUP BY k",
    "declared keys": "SELECT d, {} FROM t GROUP BY d",
    "no keys": "SELECT {} FROM t",
    "twice": "SELECT k, {} FROM t GROUP BY k UNION ALL SELECT k, {} FROM t GROUP BY k",
    "a top-k": "SELECT k, COUNT(DISTINCT u) AS n, {} FROM t GROUP BY k ORDER BY n DESC LIMIT 3",
}


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What happened: statements that were read for the first time, and prices reserved."""
    found: list[str] = []

    def noted(owner: Any, name: str, what: str) -> None:
        kept = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            found.append(what)
            return kept(*given, **named)

        monkeypatch.setattr(owner, name, call)

    noted(KnownStatements, "add", "read")
    noted(Ledger, "reserve", "reserved")
    KNOWN._found.clear()
    yield found
    KNOWN._found.clear()


def connect(place: Path) -> dpsql.Connection:
    engine = dpsql.DuckDBEngine()
    rows = range(400)
    engine.register(
        "t",
        {"u": [i % 40 for i in rows], "k": ["ab"[i % 2] for i in rows], "m": [i % 9 for i in rows]}
        | {"d": ["ab"[i % 2] for i in rows]},
        types={"u": "BIGINT", "k": "VARCHAR", "m": "DOUBLE", "d": "VARCHAR"},
    )
    return dpsql.connect(engine, dpsql.parse_policy(POLICY), place / "b.db", analyst="ana")


def ask(place: Path, shape: str, history: str) -> None:
    with connect(place) as connection:
        for number, measures in enumerate(HISTORIES[history]):
            text = SHAPES[shape].replace("{}", ", ".join(measures))
            connection.sql(text, epsilon=1.0 + number)


def first_read_too_late(moments: list[str]) -> bool:
    """Tell whether a statement was read for the first time between a reservation and the next."""
    reserved = [at for at, what in enumerate(moments) if what == "reserved"]
    # What comes after the last reservation is that question's own; before, of the next question.
    return "read" in moments[reserved[-1] :]


@pytest.mark.slow
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_statement_is_read_for_the_first_time_when_it_is_paid_for(
    shape: str, history: str, tmp_path: Path, moments: list[str]
) -> None:
    ask(tmp_path, shape, history)
    assert "read" in moments
    assert not first_read_too_late(moments)


@pytest.mark.slow
def test_each_way_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[None] = []
    real = OpenDuckDB.rehearse

    def noted(self: OpenDuckDB, read: Any) -> None:
        planned.append(None)
        real(self, read)

    monkeypatch.setattr(OpenDuckDB, "rehearse", noted)
    with connect(tmp_path) as connection:
        # With the estimate, then without as its release is known, then as before.
        for ways in (1, 2, 2):
            connection.sql("SELECT k, COUNT(*) FROM t GROUP BY k", fresh=True)
            assert len(planned) == ways


@pytest.mark.slow
@pytest.mark.parametrize("history", ["one of several is known", "all are known"])
def test_a_way_that_is_not_planned_is_noticed(
    history: str, tmp_path: Path, moments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RehearsedWays.rehearse

    def once(self: RehearsedWays, wanted: Set[str], *waiting: Any) -> None:
        if not self._planned:
            real(self, wanted, *waiting)

    monkeypatch.setattr(RehearsedWays, "rehearse", once)
    # In SQL, which writes another statement for each way; NumPy reads the same rows for all.
    monkeypatch.setattr("dpsql.kinds.streamed.processors", lambda: 8)
    ask(tmp_path, "unknown keys", history)
    assert first_read_too_late(moments)
