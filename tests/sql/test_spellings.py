# ruff: noqa: E501
"""What the parser and DuckDB might read differently: refused, or the same value on every row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from helpers.installed_duckdb import NULL_FOR_ZERO
from helpers.random_examples import LENGTH
from helpers.support import ANALYST, TABLES, policy, world_file
from test_equivalence import ROWS as MANY_ROWS
from test_equivalence import WIDE, same

import dpsql
from dpsql.policy.model import AccountPolicy

ROWS = MANY_ROWS.replace("range(600)", "range(90)")
SPELLINGS = [
    line.replace("\\n", "\n")
    for line in Path(__file__).with_name("spellings.sql").read_text().splitlines()
]
FRAMES = {
    "key": "SELECT {} AS v, count(*) AS c FROM visits GROUP BY ALL ORDER BY ALL",
    "condition": "SELECT count(*) AS c FROM visits WHERE {}",
    "tail": "SELECT {} AS v, c FROM (SELECT k, s, n, d, x, flag, ts, amount, count(*) AS c "
    "FROM visits GROUP BY ALL) AS visits ORDER BY ALL",
}
# The parser knows these from other dialects; DuckDB does not, and the meaning is the usual one.
ELSEWHERE = {
    "'a' 'b' || s": "'ab' || s",
    "s || 'a' 'b'": "s || 'ab'",
    "!flag": "NOT flag",
    "! flag = true": "NOT flag = true",
    "!(k = 2)": "NOT (k = 2)",
    "k BETWEEN SYMMETRIC 3 AND 1": "k BETWEEN 1 AND 3",
    "s LIKE ALL ('s%', '%1')": "s LIKE 's%' AND s LIKE '%1'",
    "s LIKE ANY ('s1', 's2')": "s LIKE 's1' OR s LIKE 's2'",
    "list_transform([k], x -> x + 1)": "list_transform([k], lambda x: x + 1)",
    "list_filter([k, n], x -> x > 2)": "list_filter([k, n], lambda x: x > 2)",
    "startswith(s, 's')": "starts_with(s, 's')",
    "truncate(x)": "trunc(x)",
    "nvl(k, 0)": "coalesce(k, 0)",
    "iif(flag, 1, 2)": "if(flag, 1, 2)",
    "if(flag, 1)": "CASE WHEN flag THEN 1 END",
    "k <=> 2": "k IS NOT DISTINCT FROM 2",
    "DECODE(k, 1, 'a', 2, 'b', 'c')": "CASE k WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END",
    "decode(s, NULL, 'none', 's1', 'one')": "CASE WHEN s IS NULL THEN 'none' WHEN s = 's1' THEN 'one' END",
    "CHOOSE(k, 'a', 'b')": "CASE k WHEN 1 THEN 'a' WHEN 2 THEN 'b' END",
    "elt(k + 1, 'a', 'b')": "CASE k + 1 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END",
    "FIELD(s, 's2', 's1')": "CASE s WHEN 's2' THEN 1 WHEN 's1' THEN 2 ELSE 0 END",
    "multiIf(k < 1, 'a', k < 3, 'b', 'c')": "CASE WHEN k < 1 THEN 'a' WHEN k < 3 THEN 'b' ELSE 'c' END",
    "DIV0(n, k - 1)": "CASE WHEN k = 1 THEN 0 * n ELSE n / (k - 1) END",
    "DIV0NULL(n, nullif(k, 2) - 1)": "CASE WHEN k IS NULL OR k IN (1, 2) THEN 0 * n ELSE n / (k - 1) END",
    "BOOLAND(flag, k = 2)": "flag AND k = 2",
    "BOOLOR(flag, k = 2)": "flag OR k = 2",
    "TIME(ts) > TIME '10:00:00'": "ts::TIME > TIME '10:00:00'",
    "TIME_SLICE(ts, 2, 'HOUR')": "time_bucket(INTERVAL 2 HOUR, ts)",
    "LAST_DAY(d, 'month')": "last_day(d)",
    "DATEADD(week, 1, '2024-01-20') > d": "DATE '2024-01-27' > d",
    "DATE_SUB('2024-01-20 10:30', INTERVAL 30 MINUTE) > ts": "TIMESTAMP '2024-01-20 10:00:00' > ts",
    "intDiv(n, 3)": "n // 3",
    "BITAND(k, 2)": "k & 2",
    "bitwise_or(k, 2)": "k | 2",
    "bit_and(k, 1)": "k & 1",
    "bitTest(k, 1)": "(k >> 1) & 1",
    "SHIFTRIGHT(n, 1)": "n >> 1",
    "REGEXP_SUBSTR(c, '[d-g]+')": "nullif(regexp_extract(c, '[d-g]+'), '')",
    "REGEXP_CONTAINS(c, r'^\\w{3}$')": "regexp_matches(c, '^[a-zA-Z0-9_]{3}$')",
    "FIND_IN_SET('s1', s || ',x') > 0": "s = 's1'",
    "TIMESTAMP_DIFF(ts, TIMESTAMP '2024-01-01', DAY)": "date_sub('day', TIMESTAMP '2024-01-01', ts)",
    "FIND_IN_SET(s, 's1,s2') > 0": "s IN ('s1', 's2')",
    "has(splitByChar('e', c), 'r')": "list_contains(string_split(c, 'e'), 'r')",
    "ARRAY_LENGTH(string_to_array(c, 'e'), 1)": "len(string_split(c, 'e'))",
    "TO_DATE('05.01.2024', 'DD.MM.YYYY') > d": "DATE '2024-01-05' > d",
    "STR_TO_DATE('2024-01-05', '%Y-%m-%d') > d": "DATE '2024-01-05' > d",
    "PARSE_DATE('%Y%m%d', '20240105') > d": "DATE '2024-01-05' > d",
    "TO_TIMESTAMP('2024-01-05 10:00:00.0', 'YYYY-MM-DD HH24:MI:SS.US') > ts": "TIMESTAMP '2024-01-05 10:00:00' > ts",
    "TO_DATE(ts)": "ts::DATE",
    "TRUNC(d, 'MM')": "date_trunc('month', d)",
    "DATEADD(month, DATEDIFF(month, 0, d), 0)": "date_trunc('month', d)",
    "DATE_TRUNC(d, WEEK(MONDAY))": "date_trunc('week', d)",
    "DATENAME(weekday, d)": "dayname(d)",
    "DATEPART(dayofyear, d)": "dayofyear(d)",
    "CONVERT(VARCHAR(7), ts, 120)": "left(strftime(ts, '%Y-%m-%d'), 7)",
    "CONVERT(VARCHAR, d, 103)": "strftime(d, '%d/%m/%Y')",
    "CONVERT(DATE, ts)": "ts::DATE",
    "TRY_CONVERT(INT, s)": "TRY_CAST(s AS INT)",
    "TO_VARCHAR(d, 'YYYY-MM')": "strftime(d, '%Y-%m')",
    "formatDateTime(ts, '%Y-%m %H:%i')": "strftime(ts, '%Y-%m %H:%M')",
    "toStartOfInterval(ts, INTERVAL 15 minute)": "time_bucket(INTERVAL 15 MINUTE, ts)",
    "toStartOfFiveMinutes(ts)": "time_bucket(INTERVAL 5 MINUTE, ts)",
    "date_bin('15 minutes', ts, TIMESTAMP '2001-01-01')": "time_bucket(INTERVAL 15 MINUTE, ts)",
    "TIMESTAMP_DIFF(TIMESTAMP '2024-03-01', ts, HOUR)": "date_sub('hour', ts, TIMESTAMP '2024-03-01')",
    "DATETIME_DIFF(TIMESTAMP '2024-03-01', ts, DAY)": "date_diff('day', ts, TIMESTAMP '2024-03-01')",
    "MONTHS_BETWEEN(DATE '2024-02-29', d)": "(year(DATE '2024-02-29') - year(d)) * 12 + 2 - month(d) + "
    "CASE WHEN d = last_day(d) THEN 0.0 ELSE (29 - day(d)) / 31.0 END",
    "JULIANDAY(d) - JULIANDAY('2024-01-01')": "epoch(d) / 86400 + 2440587.5 - (epoch(DATE '2024-01-01') / 86400 + 2440587.5)",
    "width_bucket(k, [1, 3])": "CASE WHEN k < 1 THEN 0 WHEN k < 3 THEN 1 WHEN k >= 3 THEN 2 END",
    "dateadd(day, 1, ts)": "ts + INTERVAL 1 DAY",
    "DATEADD('month', -1, d)": "d - INTERVAL 1 MONTH",
    "DATEADD(day, k, d)": "d + to_days(k)",
    "date_add('day', 3, d)": "d + INTERVAL 3 DAY",
    "DATE_SUB(d, INTERVAL 1 MONTH)": "d - INTERVAL 1 MONTH",
    "timestamp_sub(ts, INTERVAL 90 MINUTE)": "ts - INTERVAL 90 MINUTE",
    "DATETRUNC(month, d)": "date_trunc('month', d)",
    "DATE_TRUNC(d, MONTH)": "date_trunc('month', d)",
    "DATE_TRUNC(d, ISOWEEK)": "date_trunc('week', d)",
    "TIMESTAMP_TRUNC(ts, HOUR)": "date_trunc('hour', ts)",
    "DATEDIFF(day, d, DATE '2024-03-01')": "date_diff('day', d, DATE '2024-03-01')",
    "DATEDIFF(DATE '2024-03-01', d)": "date_diff('day', d, DATE '2024-03-01')",
    "DATE_DIFF(DATE '2024-03-01', d, MONTH)": "date_diff('month', d, DATE '2024-03-01')",
    "date(ts)": "ts::DATE",
    "DATE(2024, 1, 5) > d": "DATE '2024-01-05' > d",
    "timestamp(d)": "d::TIMESTAMP",
    "eomonth(d)": "last_day(d)",
    "iff(flag, 1, 2)": "if(flag, 1, 2)",
    "IFF(flag, s, 'no')": "if(flag, s, 'no')",
    "isnull(n, 7)": "coalesce(n, 7)",
    "isnull(k)": "k IS NULL",
    "NOT isnull(k)": "k IS NOT NULL",
    "nvl2(n, 1, 2)": "CASE WHEN n IS NULL THEN 2 ELSE 1 END",
    "zeroifnull(n)": "coalesce(n, 0)",
    "SAFE_DIVIDE(n, k - 2)": "n / nullif(k - 2, 0)",
    "10 - SAFE_DIVIDE(n + 1, k)": "10 - ((n + 1) / nullif(k, 0))",
    "CAST(k AS FLOAT64)": "CAST(k AS DOUBLE)",
    "`k` + visits.`n`": "k + n",
    "initcap(s)": "upper(s)",
    "position('1', s)": "strpos(s, '1')",
    "d + INTERVAL 1 m": "d + INTERVAL 1 MINUTE",
    "d + INTERVAL '1' m": "d + INTERVAL 1 MINUTE",
    "d + INTERVAL 1 mon": "d + INTERVAL 1 MONTH",
    "ts + INTERVAL 90 s": "ts + INTERVAL 90 SECOND",
}
# Errors on a row: NULL on that row over private rows, and an error at the end over released ones.
ON_A_ROW = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)


@pytest.fixture(scope="module")
def connections(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dpsql.Connection, duckdb.DuckDBPyConnection]]:
    directory = tmp_path_factory.mktemp("spellings")
    rules = policy(None, ana=AccountPolicy(ANALYST, 1e6, 0.4))
    settings = {**WIDE, "epsilon": 1.0, "delta": 1e-9}
    with world_file(directory / "world.duckdb", ROWS) as path:
        private = dpsql.connect(path, rules, directory / "budget.db", ANALYST, **settings)
    with private, duckdb.connect(":memory:") as plain:
        plain.execute(NULL_FOR_ZERO)
        for statement in (*TABLES.values(), ROWS):
            plain.execute(statement)
        yield private, plain


def compare(private: dpsql.Connection, plain: duckdb.DuckDBPyConnection, frame: str, e: str) -> str:
    """``refused``, ``fails`` (on some row), ``same``, or what is different."""
    try:
        rows = private.sql(frame.format(e)).fetchall()
    except dpsql.EngineError as error:
        return f"engine error: {error}"
    except dpsql.Error as error:
        rows = None
        if not isinstance(error, dpsql.DataError):
            return "refused"
    try:
        expected = plain.sql(frame.format(ELSEWHERE.get(e, e))).fetchall()
    except ON_A_ROW:
        return "fails"
    except duckdb.Error as error:
        return f"DuckDB refuses: {error}"
    if rows is None:
        return "DuckDB answers"
    if len(rows) != len(expected):
        return f"{len(rows)} rows, not {len(expected)}"
    pairs = zip(rows, expected, strict=True)
    wrong = [pair for pair in pairs if not all(map(alike, *pair))]
    return f"{wrong[0][0]} is not {wrong[0][1]}" if wrong else "same"


def alike(value: object, right: object) -> bool:
    """The same type and value; infinities are equal, rounding is not looked at.

    An interval with months is text in Python; DuckDB counts them as 30 days there.
    """
    if isinstance(value, str) and isinstance(right, timedelta):
        ((value,),) = duckdb.execute("SELECT CAST(? AS INTERVAL)", [value]).fetchall()
    return type(value) is type(right) and (
        value == right or repr(value) == repr(right) or same(value, right)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        "condition",
        pytest.param("key", marks=pytest.mark.slow),
        pytest.param("tail", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_every_spelling_is_refused_or_means_what_it_means_to_duckdb(
    place: str, connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection]
) -> None:
    some = SPELLINGS[:: math.ceil(1 / min(1, LENGTH))]
    found = {e: compare(*connections, FRAMES[place], e) for e in some}
    different = [(e, f) for e, f in found.items() if f not in ("refused", "fails", "same")]
    assert different == []
    assert sum(f == "same" for f in found.values()) > len(some) / 6


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_the_comparison_notices_what_is_read_differently(
    connections: tuple[dpsql.Connection, duckdb.DuckDBPyConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ELSEWHERE, "n // 3", "n / 3")
    assert compare(*connections, FRAMES["tail"], "n // 3") not in ("refused", "fails", "same")
