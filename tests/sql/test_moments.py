"""Dates and timestamps written by their parts are constants; nothing else is."""

from __future__ import annotations

import datetime

import duckdb
import pytest
from helpers.present import present
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.syntax.parse import parse, place_of


def written(text: str) -> str:
    (condition,) = parse(f"SELECT 1 FROM t WHERE d < {text}").find_all(exp.LT)
    return str(condition.expression.sql("duckdb"))


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("make_date(2024, 2, 29)", "CAST('2024-02-29' AS DATE)"),
        ("MAKE_DATE(0012, 1, 1)", "CAST('0012-01-01' AS DATE)"),
        (
            "make_timestamp(2024, 1, 3, 4, 5, 6.789)",
            "CAST('2024-01-03 04:05:06.789000' AS TIMESTAMP)",
        ),
        ("make_timestamp(2024, 1, 3, 0, 0, 0.0)", "CAST('2024-01-03 00:00:00' AS TIMESTAMP)"),
    ],
)
def test_moments_of_numbers_are_constants(text: str, constant: str) -> None:
    assert written(text) == constant


@pytest.mark.parametrize(
    "text",
    [
        "make_date(2024, 2, 30)",
        "make_date(2024, 13, 1)",
        "make_date(0, 1, 1)",
        "make_date(99999, 1, 1)",
        "make_date(1e999999999, 1, 1)",
        "make_date(2024.5, 1, 1)",
        "make_date(-1, 1, 1)",
        "make_date(y, 1, 1)",
        "make_date('2024', 1, 1)",
        "make_date(19000)",
        "make_timestamp(2024, 1, 3, 4, 5, 60)",
        "make_timestamp(2024, 1, 3, 24, 5, 0)",
        "make_timestamp(2024, 1, 3, 4, 5, 0.0000001)",
        "make_timestamp(2024, 1, 3, 4, 5, n)",
        "make_timestamp(1700000000000)",
    ],
)
def test_what_is_no_moment_of_numbers_is_left_alone(text: str) -> None:
    assert "CAST" not in written(text)


def test_a_column_that_is_a_moment_keeps_its_name() -> None:
    tree = parse("SELECT make_date(2024, 1, 1), make_date(2024, 1, 1) AS d")
    assert not tree.find(exp.Cast)


def test_a_constant_stands_where_the_moment_did() -> None:
    text = "SELECT 1 FROM t WHERE d < make_date(2024, 1, 31)"
    place = place_of(text, parse(text).find(exp.Cast))
    assert place is not None
    assert text[place.column - 1 :].startswith("make_date(2024, 1, 31")


@pytest.mark.slow
@given(
    st.datetimes(min_value=datetime.datetime(1, 1, 1), max_value=datetime.datetime(9999, 12, 31))
)
def test_constants_are_what_the_engine_makes_of_the_parts(moment: datetime.datetime) -> None:
    parts = [moment.year, moment.month, moment.day, moment.hour, moment.minute]
    seconds = f"{moment.second}.{moment.microsecond:06}"
    day = f"make_date({', '.join(map(str, parts[:3]))})"
    time = f"make_timestamp({', '.join(map(str, parts))}, {seconds})"
    sql = f"SELECT {day} = {written(day)}, {time} = {written(time)}"
    assert "CAST" in sql
    assert present(duckdb.sql(sql)).fetchall() == [(True, True)]
