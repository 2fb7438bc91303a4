"""Names in brackets, as T-SQL writes them, where a text has no other reading."""

from __future__ import annotations

import pytest
from helpers.failures import fails_with
from sqlglot import exp

from dpsql.syntax.parse import parse, place_of

SAME = {
    "SELECT [t0].[channel], SUM([t0].[amount]) AS [a0] FROM [orders] AS [t0] "
    "GROUP BY [t0].[channel]": 'SELECT "t0"."channel", SUM("t0"."amount") AS "a0" '
    'FROM "orders" AS "t0" GROUP BY "t0"."channel"',
    "SELECT TOP (1000001) * FROM (SELECT [k] FROM [dbo].[t]) AS [MainTable] "
    "WHERE (NOT(([a0] IS NULL)))": 'SELECT * FROM (SELECT "k" FROM "dbo"."t") AS "MainTable" '
    'WHERE (NOT(("a0" IS NULL))) LIMIT 1000001',
    "SELECT COUNT(*) AS [number of rows] FROM [t] [o]": 'SELECT COUNT(*) AS "number of rows" '
    'FROM "t" "o"',
    "SELECT COUNT(*) AS n FROM [order] WHERE a = [select]": "SELECT COUNT(*) AS n "
    'FROM "order" WHERE a = "select"',
    "SELECT x[i] FROM [t]": 'SELECT x[i] FROM "t"',
    "SELECT [a] [i], [1, b], ['c'] FROM [t]": 'SELECT "a" AS "i", [1, b], [\'c\'] FROM "t"',
    "SELECT k FROM [t] WHERE k IN (SELECT TOP (3) [k] FROM u)": "SELECT k "
    'FROM "t" WHERE k IN (SELECT "k" FROM u LIMIT 3)',
}
LISTS = [
    "SELECT [k] FROM t",
    "SELECT [k], [1, 2], ['a'], [k][1], x[k] FROM t WHERE [k] = [l]",
    "SELECT list_contains([a], b) FROM t",
]
NO_NAMES = [
    "SELECT a FROM [1]",
    "SELECT a FROM ['t']",
    "SELECT a FROM [t, u]",
    "SELECT a FROM []",
    "SELECT a FROM [t",
    "SELECT a FROM [a.b]",
    "SELECT a FROM [a-b]",
    "SELECT a FROM [a -- b\n]",
    "SELECT a FROM [t] WHERE",
    "SELECT a FROM [ t]",
    f"SELECT a FROM [{'a ' * 20}a]",
]


def same(one: exp.Expr, other: exp.Expr) -> bool:
    return one.sql("duckdb") == other.sql("duckdb")


@pytest.mark.parametrize("text", SAME)
def test_brackets_are_names_where_there_is_no_other_reading(text: str) -> None:
    assert same(parse(text), parse(SAME[text]))


@pytest.mark.parametrize("text", LISTS)
def test_what_parses_with_lists_has_lists(text: str) -> None:
    found = parse(text)
    assert found.find(exp.Array, exp.Bracket) is not None
    assert all(not each.args.get("quoted") for each in found.find_all(exp.Identifier))


@pytest.mark.parametrize("text", NO_NAMES)
def test_other_brackets_are_no_names(text: str) -> None:
    with fails_with("syntax_error"):
        parse(text)


def test_a_name_in_brackets_has_its_place() -> None:
    text = "SELECT [order date] FROM [t]"
    place = place_of(text, parse(text).find(exp.Column))
    assert place is not None
    assert (place.column, place.length) == (text.index("[") + 1, len("[order date]"))


def test_top_in_brackets_is_a_limit_and_a_name_otherwise() -> None:
    assert same(parse("SELECT TOP (5) a FROM t"), parse("SELECT a FROM t LIMIT 5"))
    assert same(
        parse("SELECT DISTINCT TOP (5) a FROM t"), parse("SELECT DISTINCT a FROM t LIMIT 5")
    )
    assert parse("SELECT top FROM t").find(exp.Limit) is None
    assert parse("SELECT top(a) FROM t").find(exp.Limit) is None
    for text in ("SELECT TOP (5) PERCENT a FROM t", "SELECT TOP (5) WITH TIES a FROM t"):
        with fails_with("syntax_error"):
            parse(text)
