"""Casts that fail on many rows are written so that failing takes no time, and mean the same."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
import sqlglot
from helpers.columns import column_of
from helpers.sql_text import text
from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql_types import VARCHAR, SqlType
from dpsql.engines.duckdb import dialect as spelled
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.evidence.edges import EDGES, SCALARS, edge_sql
from dpsql.sql.expressions.legality import CAST_TYPES
from dpsql.sql.expressions.totality import total_sql

# An example of each node that is NULL where an operand is: x is a number, s a text, d a moment.
EXAMPLES = {
    "Paren": "(x)",
    "Neg": "-x",
    "Add": "x + y",
    "Sub": "x - y",
    "Mul": "x * y",
    "Div": "x / y",
    "IntDiv": "x // y",
    "Mod": "x % y",
    "EQ": "x = y",
    "NEQ": "x <> y",
    "GT": "x > y",
    "GTE": "x >= y",
    "LT": "x < y",
    "LTE": "x <= y",
    "Like": "s LIKE t",
    "ILike": "s ILIKE t",
    "Abs": "ABS(x)",
    "Ceil": "CEIL(x)",
    "Floor": "FLOOR(x)",
    "Round": "ROUND(x, 2)",
    "Sign": "SIGN(x)",
    "Sqrt": "SQRT(x)",
    "Ln": "LN(x)",
    "Exp": "EXP(x)",
    "Pow": "POW(x, y)",
    "Extract": "EXTRACT(minute FROM d)",
    "Year": "YEAR(d)",
    "Quarter": "QUARTER(d)",
    "Month": "MONTH(d)",
    "Week": "WEEK(d)",
    "Day": "DAY(d)",
    "Hour": "HOUR(d)",
    "Minute": "MINUTE(d)",
    "TimestampTrunc": "DATE_TRUNC('hour', d)",
    "DateTrunc": "DATE_TRUNC('month', CAST(d AS DATE))",
    "Lower": "LOWER(s)",
    "Upper": "UPPER(s)",
    "Length": "LENGTH(s)",
}
ONE = {"x": "1.5", "y": "2", "s": "'a'", "t": "'a'", "d": "TIMESTAMP '2024-01-02 03:04:05'"}
TYPES = {"x": "DOUBLE", "y": "DOUBLE", "s": "VARCHAR", "t": "VARCHAR", "d": "TIMESTAMP"}
TARGETS = sorted({exp.DataType(this=kind).sql("duckdb") for kind in CAST_TYPES})
TABLE = Table(
    "t",
    (
        column_of("s", "VARCHAR"),
        column_of("n", "BIGINT"),
        column_of("b", "BIGNUM"),
        column_of("x", "DOUBLE"),
    ),
)


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[None]:
    global ENGINE
    with duckdb.connect(":memory:", config={"threads": "1"}) as ENGINE:
        yield


ENGINE: duckdb.DuckDBPyConnection


def query(sql: str) -> list[tuple[Any, ...]]:
    return ENGINE.execute(sql).fetchall()


def spelled_total(expression: str) -> str:
    return text(total_sql(sqlglot.parse_one(expression, read="duckdb"), TABLE, DUCKDB))


def evaluated(text: str, row: dict[str, str]) -> object:
    columns = ", ".join(f"CAST({value} AS {TYPES[name]}) AS {name}" for name, value in row.items())
    return query(f"SELECT {text} FROM (SELECT {columns})")[0][0]


def test_every_kind_has_an_example() -> None:
    kinds = {kind.__name__ for kind in spelled._NULL_OF_NULL}
    assert kinds == set(EXAMPLES)
    for name, example in EXAMPLES.items():
        # DATE_TRUNC is one function with two nodes.
        found = type(sqlglot.parse_one(example, read="duckdb")).__name__
        assert found == name or {found, name} == {"TimestampTrunc", "DateTrunc"}


@pytest.mark.parametrize("text", EXAMPLES.values())
def test_null_in_any_place_makes_null(text: str) -> None:
    tree = sqlglot.parse_one(text, read="duckdb")
    names = {column.name for column in tree.find_all(exp.Column)}
    row = {name: ONE[name] for name in names}
    assert evaluated(text, row) is not None
    for name in names:
        assert evaluated(text, row | {name: "NULL"}) is None


def same(source: SqlType, targets: Sequence[str]) -> list[tuple[str, str]]:
    """The edges of a type that TRY_CAST makes something else of than TRY(CAST())."""
    bad: list[tuple[str, str]] = []
    rows = ", ".join(f"({text(edge_sql(edge, source))})" for edge in EDGES[source])
    for target in targets:
        one, other = f"TRY(CAST(x AS {target}))", f"TRY(TRY_CAST(x AS {target}))"
        alike = f"CAST({one} AS VARCHAR) IS NOT DISTINCT FROM CAST({other} AS VARCHAR)"
        try:
            found = query(f"SELECT CAST(x AS VARCHAR) FROM (VALUES {rows}) v(x) WHERE NOT {alike}")
        except duckdb.BinderException:
            continue
        bad += [(edge, target) for (edge,) in found]
    return bad


def test_texts_are_cast_to_the_same() -> None:
    assert same(VARCHAR, ["BIGINT", "DOUBLE", "DATE"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("source", [each for each in SCALARS if each.kind != "BIGNUM"], ids=str)
def test_everything_is_cast_to_the_same(source: SqlType) -> None:
    assert same(source, TARGETS) == []


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("CAST(s AS INT) > 3", 'TRY(TRY_CAST("s" AS INT) > 3)'),
        (
            "ABS(CAST(CAST(s AS INT) * 2 AS SMALLINT)) + 1",
            'TRY(ABS(TRY_CAST(TRY_CAST("s" AS INT) * 2 AS SMALLINT)) + 1)',
        ),
        # CONCAT leaves NULLs out, so that a failure would not show.
        ("CONCAT(CAST(s AS INT), 'a')", "TRY(CONCAT(CAST(\"s\" AS INT), 'a'))"),
        ("GREATEST(CAST(s AS INT), 3)", 'TRY(GREATEST(CAST("s" AS INT), 3))'),
        ("CAST(n AS TEXT)", 'TRY(CAST("n" AS TEXT))'),
        # TRY_CAST of these fails as nothing may.
        ("CAST(b AS INT)", 'TRY(CAST("b" AS INT))'),
    ],
)
def test_casts_are_quick_where_their_null_is_the_whole(text: str, written: str) -> None:
    assert spelled_total(text) == written


@pytest.mark.slow
def test_rows_that_fail_take_about_the_time_of_others() -> None:
    """With exceptions 100,000 rows that fail take seconds, and milliseconds so."""
    source = "SELECT CASE WHEN range % 9 < 2 THEN 'x' ELSE '7' END AS s FROM range(100000)"
    ours, caught = (
        cpu_seconds(f"SELECT count({text}) FROM ({source})")
        for text in (spelled_total("CAST(s AS INT) * 2"), "TRY(CAST(s AS INT) * 2)")
    )
    assert ours < caught / 4


def cpu_seconds(sql: str) -> float:
    start = time.process_time()
    query(sql)
    return time.process_time() - start
