"""The small world of end-to-end tests: tables, a policy, connections, and plans without data."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import dpsql
from dpsql.core.quoting import quote, quote_table
from dpsql.core.schema import Column, Schema
from dpsql.core.sql import Sql
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Database, Engine
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.opening import open_engine
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Query
from dpsql.kinds.registry import release_kind
from dpsql.pipeline.kept.fingerprint import fingerprint
from dpsql.planner import plan_query
from dpsql.planner.groups import with_groups_decided
from dpsql.policy.model import (
    EACH_ROW,
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    ViewsPolicy,
)
from dpsql.policy.parameters import Overrides, Parameters
from dpsql.policy.resolve import resolve
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.sql.blocks.validate import validate
from dpsql.syntax.parse import parse
from helpers.attacks import GRID, PLAYS, VIEWS
from helpers.columns import column_of

SALT = 7
ANALYST = "ana"

# One private table with a column of every kind, one with another unit, a public one, and one that
# the policy does not list. ``Uid`` and ``order`` need care with case and quoting.
TABLES: Mapping[str, str] = {
    "visits": """CREATE TABLE visits (
        "Uid" BIGINT, k INTEGER, s VARCHAR, n INTEGER, big BIGINT, x DOUBLE, wide DOUBLE,
        amount DECIMAL(12, 2), d DATE, ts TIMESTAMP, flag BOOLEAN, c VARCHAR, "order" INTEGER)""",
    "mails": "CREATE TABLE mails (email VARCHAR, k INTEGER, n INTEGER)",
    "shops": "CREATE TABLE shops (k INTEGER, name VARCHAR, size INTEGER)",
    "secret": "CREATE TABLE secret (k INTEGER, v VARCHAR)",
}
VISITS = TablePolicy(
    "visits",
    PrivacyUnit("person", "uid"),
    {
        "n": ColumnPolicy(-5, 20),
        "big": ColumnPolicy(0, 1000),
        "x": ColumnPolicy(-2.5, 10.0),
        "wide": ColumnPolicy(0, 2**30),
        "amount": ColumnPolicy(0, 100),
        "c": ColumnPolicy(domain=("red", "green", "blue")),
        "order": ColumnPolicy(0, 9),
    },
)
POLICY_TABLES = {
    "visits": VISITS,
    "mails": TablePolicy("mails", PrivacyUnit("mailbox", "email"), {"n": ColumnPolicy(0, 10)}),
    "shops": TablePolicy("shops", None),
}


# What tests about other things are not to pay for, is not looked at.
USUAL = Parameters(
    epsilon=5.0,
    delta=1e-6,
    max_groups_contributed=10,
    max_rows_contributed=10,
    left_out_share=0.0,
)
NO_NUMBER = Parameters(epsilon=5.0, delta=1e-6, max_rows_contributed=10, left_out_share=0.0)
"""Defaults by which a question decides for itself in how many groups a unit counts."""


def policy(defaults: Parameters | None = None, **accounts: AccountPolicy) -> Policy:
    """The policy of the small world, with a large account unless others are given."""
    return Policy(
        "world",
        defaults=defaults or USUAL,
        accounts=accounts or {ANALYST: AccountPolicy(ANALYST, 1000.0, 1e-3)},
        tables=POLICY_TABLES,
    )


@contextlib.contextmanager
def world_file(path: Path, *statements: str) -> Iterator[Path]:
    """A database file with the small world's tables, filled by ``statements``."""
    path.write_bytes(_small_world(*statements))
    yield path


@functools.cache  # many tests ask of the same rows, and a file is copied in no time
def _small_world(*statements: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "world.duckdb"
        with duckdb.connect(str(path)) as writer:
            for statement in (*TABLES.values(), *statements):
                writer.execute(statement)
        return path.read_bytes()


FILL = (
    """INSERT INTO visits SELECT i % 60, i % 7, 's' || (i % 5), i % 23 - 4, i % 1001, i % 13 - 2.0,
        i * 1000.0, i % 101, DATE '2024-01-01' + (i % 50)::INT,
        TIMESTAMP '2024-01-01' + to_hours(i), i % 2 = 0, ['red', 'green', 'blue'][1 + i % 3],
        i % 10 FROM range(1200) r(i)""",
    "INSERT INTO mails SELECT 'm' || (i % 40), i % 5, i % 11 FROM range(400) r(i)",
    "INSERT INTO shops SELECT i, 'shop ' || i, 10 * i FROM range(7) r(i)",
    "INSERT INTO secret SELECT i, 'secret ' || i FROM range(7) r(i)",
)


def connect(
    directory: Path, *statements: str, defaults: Parameters | None = None, **parameters: Any
) -> dpsql.Connection:
    """A connection to the small world in ``directory``, filled with FILL unless told otherwise."""
    with world_file(directory / "world.duckdb", *(statements or FILL)) as path:
        rules = policy(defaults)
        return dpsql.connect(path, rules, directory / "budget.db", ANALYST, **parameters)


def connect_to_grid(directory: Path) -> dpsql.Connection:
    """A connection to a table, for GRID_ATTACKS, whose declared keys are too many to answer all."""
    values = ColumnPolicy(domain=tuple(range(2000)))
    grid = TablePolicy("grid", PrivacyUnit("person", "uid"), {"a": values, "b": values})
    tables = {"grid": grid, "answers": TablePolicy("answers", EACH_ROW)}
    accounts = {ANALYST: AccountPolicy(ANALYST, 10.0, 1e-3)}
    rules = Policy("grid", accounts=accounts, tables=tables)
    with duckdb.connect(str(directory / "grid.duckdb")) as writer:
        writer.execute(GRID)
    return dpsql.connect(directory / "grid.duckdb", rules, directory / "grid_budget.db", ANALYST)


def connect_to_views(directory: Path) -> dpsql.Connection:
    """A connection for VIEW_ATTACKS: with two views, one of them made under other bounds.

    Its account may create no further ones.
    """
    place = directory / "plays.duckdb"
    with duckdb.connect(str(place)) as writer:
        writer.execute(PLAYS)
    with dpsql.connect(place, plays_policy(8), directory / "plays.db", ANALYST) as before:
        for statement in VIEWS:
            before.sql(statement)
    rules = replace(plays_policy(9), views=ViewsPolicy(create=()))
    return dpsql.connect(place, rules, directory / "plays.db", ANALYST)


def plays_policy(upper: float) -> Policy:
    """The policy of the table PLAYS, whose n goes up to ``upper``."""
    columns = {"n": ColumnPolicy(0, upper)}
    unit, time = PrivacyUnit("person", "uid"), TimeColumn("played_at")
    return Policy(
        "plays",
        defaults=Parameters(epsilon=1.0, delta=1e-6, max_groups_contributed=2, left_out_share=0.0),
        accounts={ANALYST: AccountPolicy(ANALYST, 100.0, 1e-3)},
        tables={"plays": TablePolicy("plays", unit, columns, time=time)},
    )


def binding(schema: Schema) -> Callable[[Sql], tuple[Column, ...]]:
    """What an engine says of the columns of a query, from an empty copy of the schema."""
    twin = duckdb.connect(":memory:", config={"threads": "1"})
    for table in schema.values():
        columns = ", ".join(f"{quote(c.name)} {c.type}" for c in table.columns)
        twin.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(table.name.schema)}")
        twin.execute(f"CREATE TABLE {quote_table(table.name)} ({columns})")

    def bind(statement: Sql) -> tuple[Column, ...]:
        found = twin.sql(statement.render(DUCKDB.renderer))
        return tuple(column_of(n, str(t)) for n, t in zip(found.columns, found.types, strict=True))

    return bind


@dataclass(frozen=True, slots=True)
class Planned:
    """A query with its plans and the SQL that reads private rows, all without a connection."""

    query: Query
    plans: tuple[BlockPlan, ...]
    statements: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """What the ledger knows the question by."""
        return fingerprint(self.plans)


def planned(
    sql: str,
    schema: Schema,
    rules: Policy,
    *,
    mechanism: str | None = None,
    salt: int = SALT,
    dialect: Dialect = DUCKDB,
    usual: bool = True,
    bounds: Sequence[FoundBounds | None] | None = None,
    **parameters: Any,
) -> Planned:
    """Parse, validate, plan and rewrite with a fixed salt.

    Where no number of groups per unit is given: with the usual one, or as a connection would.
    ``bounds`` are those found for its blocks; without, bounds of values cannot be found.
    """
    resolved = resolve(rules, Overrides.of(parameters))
    resolved = resolved.with_usual_numbers if usual else resolved
    decide = partial(with_groups_decided, mechanism=mechanism)
    asked = parse(sql), sql, rules, schema, resolved, binding(schema), dialect, decide
    query = validate(*asked, bounds=bounds)
    plan = plan_query(query, mechanism)
    statements = (
        release_kind(b).statement(salt, dialect).render(dialect.renderer) for b in plan.blocks
    )
    return Planned(query, plan.blocks, tuple(statements))


def listed_engine(database: Database, *tables: str) -> Engine:
    """The engine of some tables of a database, by their keys, or of all that can be read."""
    database.prove(tables or database.catalog().tables)
    return database.open(tables or database.catalog().tables)


def checked(path: str | Path) -> str | Path:
    """Read files whole once, as their owner does with ``dpsql check``; returns their path."""
    with contextlib.closing(open_engine(path)) as database:
        database.prove(database.catalog().tables)
    return path


def cursor_of(database: DuckDBEngine, *tables: str) -> duckdb.DuckDBPyConnection:
    """A cursor on which names mean these tables, as generated SQL has it."""
    database.prove(tables or None)
    return database.open(tables or database.catalog().tables)._cursor()
