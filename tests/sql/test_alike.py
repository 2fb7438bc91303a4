"""What is written as something else of the same meaning has DuckDB's values, on every row."""

from __future__ import annotations

import duckdb
import pytest
from test_spellings import ELSEWHERE, FRAMES, compare, connections

import dpsql

__all__ = ["connections"]

DUCKDBS = (
    *("date_part('hour', ts)", "date_part('dow', d)", "datepart('month', ts)", "weekday(d)"),
    *("date(ts)", "date_add(d, INTERVAL 3 DAY)", "d + INTERVAL (3) DAY", "weekday(ts) + 1"),
    *("k = ANY([1, 3])", "k = ANY([1, NULL])", "k <> ALL([1, 3])", "k <> ALL([1, NULL])"),
    *("s = ANY(ARRAY['s1', 's2']::text[])", "list_contains([1, 2], k)", "list_has(['s1'], s)"),
    *("s[1:1]", "s[2]", "s[:1]", "s[2:]", "s[-1:]", "s[9]", "s[2:1]", "s[3:1]", "c[2:3]"),
    *("s.upper()", "c.upper().left(2)", "visits.s.length()", "c[2:].upper()"),
    *("trim(c).upper()", "c.left(2) || 'x'", "upper(s)[1:1]"),
    *("ts::timestamptz AT TIME ZONE 'UTC'", "d::timestamptz AT TIME ZONE 'utc'"),
    "date_trunc('week', (ts::timestamptz AT TIME ZONE 'UTC'))",
    *("s COLLATE \"C\"", "s COLLATE posix = 's1'", "prefix(c, 're')"),
    *("concat_ws('-', s, c)", "concat_ws('', c, 'x')", "concat_ws(', ', k, s, amount, flag)"),
    *("concat_ws('-', s)", "concat_ws('ä😀', c, s, c)"),
)  # fmt: skip
"""Calls that DuckDB has as well."""
OTHERS = {
    "k = SOME(ARRAY[1, 3])": "k IN (1, 3)",
    "k = ANY(ARRAY[1, 3])": "k IN (1, 3)",
    "dateadd(day, 40, d)": "d + INTERVAL 40 DAY",
    "dateadd('month', -1, ts)": "ts - INTERVAL 1 MONTH",
    "date_add('day', 2, ts)": "ts + INTERVAL 2 DAY",
    "date_sub(d, INTERVAL 1 DAY)": "d - INTERVAL 1 DAY",
    "s LIKE ANY (ARRAY['%1', '%2'])": "s LIKE '%1' OR s LIKE '%2'",
    "s NOT LIKE ALL ('%1', '%2')": "s NOT LIKE '%1' AND s NOT LIKE '%2'",
    "s ILIKE ANY ('S1', 'S2')": "s ILIKE 'S1' OR s ILIKE 'S2'",
    "width_bucket(k, 0, 4, 2)": "CASE WHEN k < 0 THEN 0 WHEN k < 4 THEN k // 2 + 1 "
    "WHEN k >= 4 THEN 3 END",
    "width_bucket(k + 0.5, (-1), 1.5, 1)": "CASE WHEN k + 0.5 < -1 THEN 0 "
    "WHEN k + 0.5 >= 1.5 THEN 2 WHEN k IS NOT NULL THEN 1 END",
}
"""Calls of other systems, and what they mean."""
REFUSED = (
    *("k = ANY('{1, 3}')", "k = ALL([1])", "k <> ANY([1, 3])", "k = ANY(ARRAY[]::int[])"),
    *("list_contains([1, NULL], k)", "list_contains([k], 1)", "list_contains(s, 'a')"),
    *("s[k:2]", "s[1:2:1]", "s[-2]", "s[1:-1]", "n[1:2]", "[k, n][1]", "s.nothing()"),
    *("ts AT TIME ZONE 'Europe/Berlin'", "s::timestamptz AT TIME ZONE 'UTC'", "s COLLATE nocase"),
    *("concat_ws(s, s, c)", "date_part(s, ts)", "date_part('hour; drop', ts)"),
    *("width_bucket(k, 4, 0, 2)", "width_bucket(k, 0, k, 2)", "width_bucket(k, 0, 4, 2.5)"),
    *("width_bucket(k, 0, 1e300, 2)", "width_bucket(k, 0, 4)", "width_bucket(k, 0, 4, 0)"),
    *("width_bucket(width_bucket(k, 0, 4, 999), 0, 4, 999)", "width_bucket(k, [1, 2])"),
    *("dateadd(day, k, d)", "(k, n) = (1, 2)", "(k, n) IN ((1, 2))", "timezone('UTC', s)"),
)  # fmt: skip


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_what_is_written_otherwise_has_the_values_of_duckdb(
    step: int,
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for typed, meant in OTHERS.items():
        monkeypatch.setitem(ELSEWHERE, typed, meant)
    tried = (*DUCKDBS, *OTHERS)[::step]
    found = {e: compare(*connections, FRAMES["key"], e) for e in tried}
    assert {e: f for e, f in found.items() if f != "same"} == {}


@pytest.mark.parametrize("call", REFUSED)
def test_what_means_something_else_is_refused(
    call: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    with pytest.raises(dpsql.Error) as refused:
        connections[0].sql(f"SELECT count(*) FROM visits WHERE ({call}) IS NOT NULL")
    assert "this construct" not in refused.value.reason
    assert refused.value.code in ("expression_not_allowed", "not_understood", "unknown_column")
