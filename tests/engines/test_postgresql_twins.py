# ruff: noqa: E501
"""Dialects that break one promise on PostgreSQL, each noticed by what the suite looks at."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from engine_suite import EngineSuite
from engine_world import EngineWorld, Row
from helpers.dialects import POSTGRESQL
from helpers.postgresql_server import Server
from helpers.sql_text import Spelled, of_text
from helpers.unchecked_runs import unread
from postgresql_world import PostgreSQLWorld
from sqlglot import exp
from worlds import DuckDBWorld

from dpsql.core.schema import Table
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.postgresql.dialect import PostgreSQLDialect
from dpsql.errors import EngineError

pytestmark = pytest.mark.slow  # they start a server

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")
SUITE = EngineSuite()


@pytest.fixture(scope="module")
def world(postgres_server: Server) -> Iterator[PostgreSQLWorld]:
    """A database of this process."""
    world = PostgreSQLWorld(postgres_server, f"twins_{os.getpid()}")
    yield world
    world.close()


@pytest.fixture(scope="module")
def reference() -> Iterator[DuckDBWorld]:
    """DuckDB with the same rows."""
    world = DuckDBWorld()
    yield world
    world.close()


def broken(**methods: Callable[..., Any]) -> Dialect:
    """The dialect with some methods in place of its own."""
    known = {name: of_text(name, method) for name, method in methods.items()}
    made = type("Broken", (PostgreSQLDialect,), {"__slots__": (), **known})(POSTGRESQL.verdicts)
    assert isinstance(made, Dialect)
    return made


def unguarded(self: Dialect, tree: exp.Expr, table: Table) -> str:
    return tree.sql("postgres", identify=True)


def with_collation(self: Dialect, table: Table) -> str:
    rows: str = Spelled(POSTGRESQL).table(table)
    return rows.replace('COLLATE "C"', 'COLLATE "en-x-icu"')


def once_hashed(self: Dialect, salt: int, columns: Sequence[str]) -> str:
    return f"hash_record_extended(ROW({', '.join(columns)}), {salt})"


def narrow_sum(self: Dialect, sql: str, *, wide: bool, distinct: bool = False) -> str:
    return f"CAST(sum({sql}) AS BIGINT)"


NAN, INF = float("nan"), float("inf")
USUAL: Row = (1, 1, 0.5, "1", "p", 2, 3, 1.0)


def changed(**values: object) -> Row:
    """The usual row with other values of some columns."""
    names = ("u", "a", "f", "s", "c", "i", "j", "x")
    return tuple(values.get(name, value) for name, value in zip(names, USUAL, strict=True))


ROWS = [USUAL, changed(u=2, i=None, x=None, f=None), changed(u=3, i=2**31 - 1, f=NAN, x=INF)]
MANY = [changed(x=3.5, u=1) for _ in range(60)] + [changed(x=-2.0, u=2) for _ in range(60)]
TWINS = {
    "guards are dropped": (broken(expression=unguarded), "SELECT a, sum(i * i * i) FROM r GROUP BY a", ROWS),
    "sums have 64 bits": (broken(sum=narrow_sum), "SELECT a, var_pop(x) FROM r GROUP BY a", MANY),
    "NaN is a number": (
        broken(is_nan=lambda self, sql: "FALSE"),
        "SELECT a, avg(x) FROM r GROUP BY a",
        [*ROWS, changed(u=4, x=NAN)],
    ),
}  # fmt: skip


def answer(world: EngineWorld, dialect: Dialect, sql: str, rows: Sequence[Row]) -> object:
    try:
        return SUITE.asked(world, dialect, sql, rows, max_rows_contributed=4)
    except EngineError as error:
        return error.code


@pytest.mark.few(1000)
@pytest.mark.parametrize("why", list(TWINS))
def test_a_twin_that_breaks_a_promise_is_noticed(
    why: str, world: PostgreSQLWorld, reference: DuckDBWorld
) -> None:
    dialect, sql, rows = TWINS[why]
    expected = answer(reference, DUCKDB, sql, rows)
    assert answer(world, POSTGRESQL, sql, rows) == expected
    assert answer(world, dialect, sql, rows) != expected


NUMBERS = (0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 2.0**52 + 1, 2.0**53 + 2, -7.0, 5e-324)
ROUNDED = (1, 2, 3, -3, 0, 2**52 + 1, 2**53 + 2, -7, 0)


def rounded(world: PostgreSQLWorld, dialect: Dialect) -> list[int]:
    """What doubles are rounded to."""
    said = Spelled(dialect)
    rows = ", ".join(f"({place}, {said.double(x)})" for place, x in enumerate(NUMBERS, 1))
    text = f"CAST({said.rounded(said.quotient('x', 1.0))} AS BIGINT)"
    return measured(world, f"SELECT p AS __dpsql_rid, {text} AS m FROM (VALUES {rows}) v(p, x)")


def quotients(world: PostgreSQLWorld, dialect: Dialect) -> list[int]:
    """Quotients of integers that doubles do not hold."""
    said = Spelled(dialect)
    pairs = ((7, 2), (-7, 2), (2**63 - 1, 3), (-(2**62) - 1, 2))
    rows = ", ".join(
        f"({place}, CAST({a} AS BIGINT), {b})" for place, (a, b) in enumerate(pairs, 1)
    )
    text = f"CAST({said.divided('a', 'b', wide=False)} AS BIGINT)"
    wide = f"CAST({said.divided('CAST(a AS NUMERIC)', 'b', wide=True)} AS BIGINT)"
    source = f"FROM (VALUES {rows}) v(p, a, b)"
    return [
        *measured(world, f"SELECT p AS __dpsql_rid, {text} AS m {source}"),
        *measured(world, f"SELECT p AS __dpsql_rid, {wide} AS m {source}"),
    ]


def measured(world: PostgreSQLWorld, sql: str) -> list[int]:
    """A column of integers."""
    with world.engine({}).run() as run:
        found: list[int] = unread(run).exact(sql, (), ["m"]).measures["m"].tolist()
        return found


def test_doubles_are_rounded_as_duckdb_rounds(world: PostgreSQLWorld) -> None:
    assert rounded(world, POSTGRESQL) == list(ROUNDED)
    to_even = broken(rounded=lambda self, sql: f"round({sql})")
    digits = broken(rounded=lambda self, sql: f"round(CAST({sql} AS NUMERIC))")
    assert rounded(world, to_even) != list(ROUNDED)
    assert rounded(world, digits) != list(ROUNDED)
    bare = broken(quotient=lambda self, sql, quantum: f"{sql} / {self.double(quantum * 4)}")
    with pytest.raises(EngineError):
        rounded(world, bare)  # what is too small for a double is raised


def test_integers_are_divided_towards_zero(world: PostgreSQLWorld) -> None:
    expected = [3, -3, (2**63 - 1) // 3, -(2**61)] * 2
    assert quotients(world, POSTGRESQL) == expected
    halves = broken(divided=lambda self, a, b, *, wide: f"CAST({a} AS NUMERIC) / {b}")
    doubles = broken(divided=lambda self, a, b, *, wide: f"trunc(CAST({a} AS FLOAT8) / {b})")
    assert quotients(world, halves) != expected
    assert quotients(world, doubles) != expected


def test_a_hash_of_one_level_favours_some_keys(world: PostgreSQLWorld) -> None:
    assert SUITE.fairness(world, broken(salted_hash=once_hashed), 7) < 1e-9


def test_null_first_is_noticed(world: PostgreSQLWorld, reference: DuckDBWorld) -> None:
    twin = broken(ascending=lambda self, sql: f"{sql} NULLS FIRST")
    expected = SUITE.ordered(reference, DUCKDB, "a")
    assert SUITE.ordered(world, twin, "a") != expected
    assert SUITE.ordered(world, POSTGRESQL, "a") == expected


def test_a_collation_of_the_database_is_noticed(
    world: PostgreSQLWorld, reference: DuckDBWorld
) -> None:
    expected = SUITE.ordered(reference, DUCKDB, "s")
    assert SUITE.ordered(world, broken(table=with_collation), "s") != expected


def test_joined_rows_are_found_by_hashes() -> None:
    text = Spelled(POSTGRESQL).same("a", "b")
    assert re.search(r"hash_record_extended\(ROW\(a\), 0\) = hash_record_extended", text)
