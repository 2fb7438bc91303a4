"""CHECK conditions as both engines write them: what is read of them, and what is not."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import duckdb
import pytest
from helpers.columns import column_of

from dpsql.core.schema import LeftOut, Table
from dpsql.owner.checks import Checked, checked_values

TABLE = Table(
    "t",
    (
        *(column_of("i", "INTEGER"), column_of("x", "DOUBLE"), column_of("n", "DECIMAL(9,2)")),
        *(column_of("s", "VARCHAR"), column_of("b", "BOOLEAN"), column_of("d", "DATE")),
        *(column_of("Od d", "BIGINT"), column_of("Up", "BIGINT")),
    ),
    left_out=(LeftOut("up", "twice"),),
)


def read(*conditions: str, most: int = 100) -> dict[str, Checked]:
    return dict(checked_values(TABLE, conditions, most))


SAID: Sequence[tuple[str, str, Checked]] = (
    # DuckDB's
    ("(i BETWEEN 0 AND 120)", "i", Checked(0, 120)),
    ("((i > 0) AND (i < 10))", "i", Checked(1, 9, tuple(range(1, 10)))),
    ("((i >= 0.5) AND (9.5 > i))", "i", Checked(1, 9, tuple(range(1, 10)))),
    ("(i BETWEEN 1 AND 31)", "i", Checked(1, 31, tuple(range(1, 32)))),
    ("(i BETWEEN 0 AND 31)", "i", Checked(0, 31)),
    ("(1 <= i)", "i", Checked(lower=1)),
    ("(I < 10)", "i", Checked(upper=9)),
    ('("Od d" > -5)', "od d", Checked(lower=-4)),
    ("(x > 1e2)", "x", Checked(lower=100)),
    ("(n BETWEEN -1.50 AND 2)", "n", Checked(-1.5, 2)),
    ("(s IN ('o', 'it''s'))", "s", Checked(values=("o", "it's"))),
    ("((s = 'a') OR ('b' = s))", "s", Checked(values=("a", "b"))),
    ("((s IS NULL) OR (s IN ('a')))", "s", Checked(values=("a",))),
    ("((i IS NULL) OR (i >= 0))", "i", Checked(lower=0)),
    ("((i IS NOT NULL) AND (i >= 0))", "i", Checked(lower=0)),
    ("(i IN (3, 1, 2))", "i", Checked(1, 3, (3, 1, 2))),
    ("(b IN (true))", "b", Checked(values=(True,))),
    ("(b = CAST('f' AS BOOLEAN))", "b", Checked(values=(False,))),
    ("(d IN (CAST('2020-01-01' AS date)))", "d", Checked(values=(datetime.date(2020, 1, 1),))),
    ("(((s = 'a') AND (i = 1)) OR ((s = 'b') AND (i = 2)))", "s", Checked(values=("a", "b"))),
    # PostgreSQL's
    ("((n >= '-1.50'::numeric) AND (n <= (2)::numeric))", "n", Checked(-1.5, 2)),
    ("(\"Od d\" > '-5'::integer)", "od d", Checked(lower=-4)),
    ("(x <= (10.5)::double precision)", "x", Checked(upper=10.5)),
    (
        "((s)::text = ANY ((ARRAY['o'::character varying, 'i'::character varying])::text[]))",
        "s",
        Checked(values=("o", "i")),
    ),
    ("(i = ANY (ARRAY[1, 2]))", "i", Checked(1, 2, (1, 2))),
)


@pytest.mark.parametrize(("condition", "column", "expected"), SAID)
def test_simple_conditions_are_read(condition: str, column: str, expected: Checked) -> None:
    assert read(condition)[column] == expected


NOTHING = (
    "(NOT (s IN ('a')))",
    "(s <> 'a')",
    "regexp_matches(s, 'a')",
    "(s ~ 'a'::text)",
    "(s = E'a\\nb'::text)",
    "((s COLLATE \"de\") = 'a')",
    "(i OPERATOR(public.>=) 3)",
    "(i BETWEEN SYMMETRIC 120 AND 0)",
    "(i >= n)",
    "(abs(i) <= 5)",
    "((i + 1) >= 0)",
    "(CAST(i AS BIGINT) >= 0)",
    "(i >= '0')",
    "(i >= (1.7)::integer)",
    "(n = (1.25)::numeric(3,1))",
    "(n IN (1.255))",
    "(x IN (0.1, 0.2))",
    "((i >= 0) OR (s = 'a'))",
    "((i IS NULL) OR (n >= (0)::numeric))",
    "((i >= 0) OR (i <= -10))",
    "((s = 'a') OR (s ~ 'b'))",
    "(s IN ('a', upper('b')))",
    "('a' IN (s, 'b'))",
    "(other >= 0)",
    "(up >= 0)",  # which is left out: Up is another one
    "(t.i >= 0)",
    "(i >= 9007199254740993)",
    "(i > 0) AND (i < 0)",
    "i >=",
    "(s = 'a') AND (s = 'b')",
)


@pytest.mark.parametrize("condition", NOTHING)
def test_other_conditions_say_nothing(condition: str) -> None:
    assert read(condition) == {}


def test_several_conditions_hold_at_once() -> None:
    found = read(
        "(i >= 0)", "(i <= 10)", "(i > 2)", "((s = 'a') OR (s = 'b'))", "(s IN ('b', 'c'))"
    )
    assert found == {"i": Checked(3, 10, tuple(range(3, 11))), "s": Checked(values=("b",))}


def test_long_lists_are_left_to_the_owner() -> None:
    condition = f"(i IN ({', '.join(map(str, range(11)))}))"
    assert read(condition, most=11)["i"].values == tuple(range(11))
    assert read(condition, most=10) == {"i": Checked(0, 10)}
    assert read("(n BETWEEN 0 AND 10)") == {"n": Checked(0, 10)}  # which has fractions


ROWS = """
SELECT * FROM (VALUES ('a'), ('b'), ('zz'), (NULL)) l(s),
  (VALUES (-20), (-10), (0), (1), (2), (3), (9), (10), (99), (NULL)) r(i)
"""


@pytest.mark.parametrize(
    "condition", [c for c, column, _ in SAID if column in ("i", "s") and "Od" not in c]
)
def test_no_row_that_a_condition_lets_in_is_another(condition: str) -> None:
    """By DuckDB itself: what passes the check, a NULL included, has a value that was read."""
    with duckdb.connect() as connection:
        asked = f"SELECT s, i FROM ({ROWS}) WHERE ({condition}) IS NOT false"
        passed = connection.execute(asked).fetchall()
        found = read(condition)
    assert passed
    for s, i in passed:
        for name, value in (("s", s), ("i", i)):
            said = found.get(name, Checked())
            if value is not None:
                assert said.values is None or value in said.values
                assert said.lower is None or said.lower <= value
                assert said.upper is None or value <= said.upper
