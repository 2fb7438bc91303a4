# ruff: noqa: E501
"""Query parameters: values reach the tree as literals, whatever they hold."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import sqlglot
from helpers.failures import fails_with
from helpers.support import connect
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

import dpsql
from dpsql.syntax.parse import parse
from dpsql.syntax.placeholders import bind_values


def bound(sql: str, values: object) -> str:
    tree = bind_values(parse(sql), values, sql)  # type: ignore[arg-type]
    return tree.sql("duckdb", comments=False)


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("SELECT ?, a FROM t WHERE b = ? LIMIT ?", [1, "x", 3], "SELECT 1, a FROM t WHERE b = 'x' LIMIT 3"),
        ("SELECT :a + :b FROM t", {"a": -1, "b": 2.5}, "SELECT (-1) + 2.5 FROM t"),
        ("SELECT $b, $a FROM t", {"a": 1, "b": None}, "SELECT NULL, 1 FROM t"),
        ("SELECT $2, $1 FROM t", (True, np.int64(7)), "SELECT 7, TRUE FROM t"),
        ("WITH q AS (SELECT ? AS z) SELECT ? FROM q WHERE x = ?", [1, 2, 3], "WITH q AS (SELECT 1 AS z) SELECT 2 FROM q WHERE x = 3"),
        ("SELECT ?", [Decimal("1.50")], "SELECT 1.50"),
        ("SELECT ?", [datetime.date(2024, 2, 29)], "SELECT CAST('2024-02-29' AS DATE)"),
        ("SELECT ?", [datetime.datetime(2024, 1, 2, 3, 4)], "SELECT CAST('2024-01-02 03:04:00' AS TIMESTAMP)"),
        ("SELECT ?", [datetime.time(3, 4, 5)], "SELECT CAST('03:04:05' AS TIME)"),
        ("SELECT $a || $a", {"a": "it's"}, "SELECT 'it''s' || 'it''s'"),
        ("SELECT '?', \"?\" FROM t /* ? */ WHERE x = ? -- ?", ["?"], "SELECT '?', \"?\" FROM t WHERE x = '?'"),
    ],
)  # fmt: skip
def test_values_stand_where_their_parameters_stood(sql: str, values: object, expected: str) -> None:
    assert bound(sql, values) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_can_leave_its_quotes(value: str) -> None:
    tree = sqlglot.parse_one(bound("SELECT ? AS a", [value]), read="duckdb")
    (item,) = tree.expressions
    assert isinstance(item.this, exp.Literal)
    assert item.this.is_string
    assert item.this.this == value


@pytest.mark.parametrize(
    ("sql", "values", "code"),
    [
        ("SELECT ?", [], "parameter_missing"),
        ("SELECT ?, ?", [1], "parameter_missing"),
        ("SELECT $a", {"b": 1}, "parameter_missing"),
        ("SELECT ?", [1, 2], "parameter_unused"),
        ("SELECT 1", [1], "parameter_unused"),
        ("SELECT ? + $a", {"a": 1, "1": 2}, "parameter_styles_mixed"),
        ("SELECT ?", "1", "bad_values"),
        ("SELECT ?", 1, "bad_values"),
        ("SELECT ?", [float("nan")], "bad_value"),
        ("SELECT ?", [float("-inf")], "bad_value"),
        ("SELECT ?", [2**127], "bad_value"),
        ("SELECT ?", [b"bytes"], "bad_value"),
        ("SELECT ?", [[1, 2]], "bad_value"),
        ("SELECT ?", [object()], "bad_value"),
        ("SELECT ?", ["\ud800"], "bad_value"),
        ("SELECT ?", ["x" * 200_000], "bad_value"),
        ("SELECT ?", [datetime.datetime.now(datetime.UTC)], "bad_value"),
        ("SELECT ?", [datetime.time(3, 4, tzinfo=datetime.UTC)], "bad_value"),
    ],
)
def test_values_that_do_not_fit_are_refused_without_being_quoted(
    sql: str, values: object, code: str
) -> None:
    with fails_with(code):
        bound(sql, values)


@pytest.mark.slow
def test_a_session_answers_the_same_with_values_as_with_literals(
    tmp_path: Path, no_noise: None
) -> None:
    with connect(tmp_path, max_groups_contributed=100, max_rows_contributed=100) as con:
        sql = "SELECT k, COUNT(*) AS n FROM visits WHERE s = {} AND n > {} GROUP BY k ORDER BY k"
        plain = con.sql(sql.format("'s1'", "-2")).fetchall()
        assert plain
        assert con.sql(sql.format("?", "?"), ["s1", -2]).fetchall() == plain
        assert con.sql(sql.format("$s", ":n"), {"s": "s1", "n": -2}).fetchall() == plain
        assert con.sql(sql.format("?", "?"), ["s2", -2]).fetchall() != plain
        before = con.budget()
        with pytest.raises(dpsql.Error, match="no value"):
            con.sql(sql.format("?", "?"), ["s1"])
        with pytest.raises(dpsql.Error):
            con.explain(sql.format("?", "?"), ["s1", "x' OR TRUE --"], epsilon=-1)
        assert con.budget() == before
