"""Values that Python has not come out of an answer as what they are, and never as others."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.agents.values import json_cell
from dpsql.kinds.base import ReleaseKind

POLICY = """
version: 1
dataset: shop
defaults: {epsilon: 1, delta: 1e-8, max_rows_contributed: 1}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables:
  visits: {privacy_unit: {name: person, column: id}}
  known: {public: true}
"""
LAST, FIRST = date(9999, 12, 31), datetime(1, 1, 1)


def test_intervals_of_an_answer_are_computed_once(
    con: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, counted = ReleaseKind.interval, []

    def interval(self: ReleaseKind, *given: Any) -> Any:
        counted.append(given)
        return whole(self, *given)

    monkeypatch.setattr(ReleaseKind, "interval", interval)
    result = con.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day")
    ends, said = result.ends(), result.summary()
    low = result.intervals()["n"].low
    low[:] = 0
    assert (result.ends()["n"][0].values, result.summary()) == (ends["n"][0].values, said)
    assert len(counted) == 1


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    directory = tmp_path_factory.mktemp("rows")
    with duckdb.connect(str(directory / "shop.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE visits AS SELECT range AS id, CASE range % 3 WHEN 0 THEN DATE 'infinity' "
            "WHEN 1 THEN DATE '9999-12-31' END AS day FROM range(3000)"
        )
        owner.execute("CREATE TABLE known AS SELECT INTERVAL '1 month' AS term, 1 AS one")
    policy, ledger = dpsql.parse_policy(POLICY), directory / "budget.db"
    with dpsql.connect(directory / "shop.duckdb", policy, ledger, "ana") as found:
        yield found


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("DATE 'infinity'", "infinity"),
        ("DATE '-infinity'", "-infinity"),
        ("DATE '9999-12-31'", LAST),
        ("DATE '20000-01-01'", "20000-01-01"),
        ("TIMESTAMP '-infinity'", "-infinity"),
        ("TIMESTAMP '0001-01-01'", FIRST),
        ("TIMESTAMP_S 'infinity'", "infinity"),
        ("TIMESTAMP_MS 'infinity'", "infinity"),
        ("TIMESTAMP_NS 'infinity'", "infinity"),
        ("TIMESTAMPTZ '-infinity'", "-infinity"),
        ("TIMESTAMPTZ '2026-01-01 00:00:00+00'", datetime(2026, 1, 1, tzinfo=UTC)),
        ("INTERVAL '14 months'", "1 year 2 months"),
        ("INTERVAL '-1 month'", "-1 month"),
        ("INTERVAL '32 days 1 second'", timedelta(days=32, seconds=1)),
        ("[DATE 'infinity', NULL, DATE '9999-12-31']", ["infinity", None, LAST]),
        ("[[INTERVAL '1 month'], [INTERVAL '1 day']]", [["1 month"], [timedelta(days=1)]]),
        ("NULL::DATE[]", None),
        ("{'a': DATE 'infinity'}", "{'a': infinity}"),
        ("{'a': DATE '9999-12-31'}", {"a": LAST}),
        ("{'a': INTERVAL '1 month'}", "{'a': 1 month}"),
        ("MAP {'a': TIMESTAMP '-infinity'}", "{a=-infinity}"),
        ("{'a': 'infinity'}", {"a": "infinity"}),
    ],
)
def test_a_value_is_what_it_is(con: dpsql.Connection, written: str, found: object) -> None:
    answer = con.sql(f"SELECT {written} AS v")
    assert answer.fetchall() == [(found,)]
    assert pickle.loads(pickle.dumps(answer)).fetchall() == [(found,)]
    assert not str(json_cell(found)).startswith("9999") or "9999" in written


def test_released_keys_are_what_they_are(con: dpsql.Connection) -> None:
    for _ in range(2):  # and from the ledger
        found = con.sql("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").fetchall()
        assert {key for key, _ in found} == {"infinity", LAST, None}


def test_a_constant_of_a_subquery_is_what_it_was(con: dpsql.Connection) -> None:
    """A month stands beside private rows as a month, or not at all: never as 30 days."""
    asked = (
        "SELECT COUNT(*) FROM visits WHERE DATE '2026-03-31' - (SELECT max(term) FROM known) "
        "= TIMESTAMP '2026-03-01'"
    )
    with pytest.raises(dpsql.QueryRefused):
        con.explain(asked)
    last = "SELECT COUNT(*) FROM visits WHERE day <= (SELECT DATE '9999-12-31' FROM known)"
    assert con.explain(last).blocks
