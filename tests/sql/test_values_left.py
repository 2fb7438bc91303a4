"""Values that conditions on a part of a moment leave: all that the engine finds, and no others."""

from __future__ import annotations

import datetime
import math

import duckdb
import pytest

from dpsql.core.sql_types import SqlType
from dpsql.sql.expressions.values_left import EVERYTHING, WholeSpan, as_value, values_left
from dpsql.syntax.parse import parse

DAYS = ("1969-12-29", "1970-01-01", "1972-02-29", "2023-12-31", "2024-01-01", "2024-05-15")
PARTS = (
    *("CAST(a AS DATE)", "a::DATE", "year(a)", "EXTRACT(YEAR FROM a)"),
    *(f"date_trunc('{unit}', a)" for unit in ("day", "week", "month", "quarter", "year")),
)
FORMS = ("{part} {sign} {value}", "{value} {sign} {part}")
BETWEEN = "{part} BETWEEN {value} AND {value}"
AMONG = "{part} IN ({value}, NULL)"


def constants(part: str, kind: str) -> list[str]:
    if "year(" in part.lower() or "YEAR" in part:
        return [day[:4] for day in DAYS]
    days = [f"'{day}'" for day in DAYS] + ["DATE '2024-02-01'"]
    return [*days, "'2024-04-01 13:00:00'"] if kind == "TIMESTAMP" and "trunc" in part else days


def conditions(part: str, value: str) -> list[str]:
    compared = [
        form.format(part=part, sign=sign, value=value)
        for form in FORMS
        for sign in ("=", "<", "<=", ">", ">=")
    ]
    return [*compared, BETWEEN.format(part=part, value=value), AMONG.format(part=part, value=value)]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
@pytest.mark.parametrize("part", PARTS)
def test_a_condition_on_a_part_of_a_moment_leaves_what_fulfils_it(part: str, kind: str) -> None:
    wrong = []
    with duckdb.connect() as engine:
        for value in constants(part, kind):
            for text in conditions(part, value):
                tree = parse(f"SELECT 1 FROM t WHERE {text}").args["where"].this
                left = values_left(tree, "a", SqlType.of(kind))
                assert isinstance(left, WholeSpan)
                assert left != EVERYTHING
                ends = [int(end) for end in (left.low, left.high) if not math.isinf(end)]
                for whole in {end + step for end in ends for step in (-1, 0, 1)}:
                    moment = as_value(whole, SqlType.of(kind))
                    asked = f"SELECT {text} FROM (SELECT CAST(? AS {kind}) AS a)"
                    ((found,),) = engine.execute(asked, [moment]).fetchall()
                    if bool(found) != (left.low <= whole <= left.high):
                        wrong.append((text, moment))
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        *("year(a) = 0", "year(a) >= 9999", "year(a) = 2024.0", "year(a) = b", "month(a) = 2"),
        *("date_trunc('hour', a) = '2024-01-01'", "date_trunc(b, a) = '2024-01-01'"),
        *("CAST(a AS DATE) = '2024-01-01 12:00'", "CAST(a AS VARCHAR) = '2024-01-01'"),
        *("year(a + INTERVAL 1 DAY) = 2024", "NOT year(a) = 2024", "year(a) = 2024 OR b"),
        *("date_trunc('month', a) <> '2024-01-01'", "CAST(a AS DATE) > '10000-01-01'"),
    ],
)
def test_what_is_not_read_leaves_everything(text: str) -> None:
    tree = parse(f"SELECT 1 FROM t WHERE {text}").args["where"].this
    assert values_left(tree, "a", SqlType.of("TIMESTAMP")) == EVERYTHING


def test_the_days_of_a_year_are_counted() -> None:
    tree = parse("SELECT 1 FROM t WHERE year(a) = 2024").args["where"].this
    left = values_left(tree, "a", SqlType.of("DATE"))
    assert isinstance(left, WholeSpan)
    assert left.size == 366
    assert as_value(int(left.low), SqlType.of("DATE")) == datetime.date(2024, 1, 1)
