"""Small databases for the worlds of statements that others write.

Rows are the same in every run. Values come from what the statements of a world compare columns
with, so that conditions hold for some rows, and from a pool of awkward ones: texts with case,
spaces and wildcards, last days of months, negative numbers, NULLs. They are skewed and have ties;
some units have many rows and some none; some rows belong to nobody.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from helpers.scripts import script
from sqlglot import exp

from dpsql.policy.load import load_policy
from dpsql.policy.model import Policy, TablePolicy

ROOT = Path(__file__).parents[2]
NOW: Final = datetime(2025, 6, 15, 10, 30)
"""The moment of all questions."""
UNITS: Final = 240
NOBODYS_FROM: Final = 5_000_000
"""Keys from here on are of rows that belong to nobody."""

# Columns that name a row of another table, where the name of its key is not theirs.
NAMED: Final[Mapping[str, str]] = {
    "shop.users.manager_id": "users.user_id",
    "census.trips.city_id": "cities.id",
    "census.riders.home_city": "cities.id",
    "firms.wallet_transactions.merchant_id": "merchants.mid",
    "firms.coupons.merchant_id": "merchants.mid",
    "firms.daily_prices.ticker_id": "tickers.ticker_id",
    "forum.comments.post_id": "posts.id",
    "forum.votes.post_id": "posts.id",
    "forum.concert.stadium_id": "stadium.stadium_id",
    "star.lineorder.orderdate": "dates.datekey",
    "hospital.professors.item": "items.item",
    "hospital.students.item": "items.item",
    "retail.orders.currency": "fx_rates.currency",
    "app.events.session_id": "sessions.session_id",
    "clinic.person.gender_concept_id": "concept.concept_id",
    "clinic.visit_occurrence.visit_concept_id": "concept.concept_id",
    "clinic.condition_occurrence.condition_concept_id": "concept.concept_id",
    "clinic.drug_exposure.drug_concept_id": "concept.concept_id",
    "clinic.measurement.measurement_concept_id": "concept.concept_id",
    "staff.employees.manager_id": "employees.emp_id",
    "staff.employees.level": "bands.level",
    "staff.trades.symbol": "quotes.symbol",
    "telco.cdrs.cell_id": "cells.cell_id",
    "telco.subscribers.plan_id": "plans.plan_id",
    "freight.scans.hub_id": "hubs.hub_id",
    "leisure.flights.origin": "airports.code",
    "leisure.flights.destination": "airports.code",
    "tpch.lineitem.l_partkey": "part.p_partkey",
    "tpch.lineitem.l_suppkey": "supplier.s_suppkey",
    "tpch.partsupp.ps_partkey": "part.p_partkey",
    "tpch.partsupp.ps_suppkey": "supplier.s_suppkey",
    "tpch.supplier.s_nationkey": "nation.n_nationkey",
    "tpch.customer.c_nationkey": "nation.n_nationkey",
}
# Keys that the schema does not say.
KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "tpch": {
        "customer": "c_custkey",
        "orders": "o_orderkey",
        "part": "p_partkey",
        "supplier": "s_suppkey",
    }
}
# Public tables that are as they were made: their rows depend on each other.
MADE: Final = frozenset(
    {
        "calendar",
        "dates",
        "region",
        "nation",
        "countries",
        "dim_date",
        "fx_rates",
        "releases",
        "concept_ancestor",
        "quotes",
        "bands",
    }
)

TEXTS: Final = ("Anna", "anna", " Anna ", "ANNA", "", "o'Neil", "a_b%c", "Zoë", "x-1")
WHOLE: Final = (-7, -2, -1, 0, 1, 2, 3, 5, 10, 12, 30)
DAYS: Final = tuple(
    map(
        date.fromisoformat,
        [
            "2024-01-31",
            "2024-02-29",
            "2024-12-31",
            "2025-01-01",
            "2025-01-31",
            "2025-02-28",
            "2025-03-31",
            "2025-05-31",
            "2025-06-01",
            "2025-06-14",
            "2025-06-15",
        ],
    )
)
TIMES: Final = ("00:00:00", "23:59:59", "10:30:00", "09:59:59.5", "18:00:00", "00:00:01")


@dataclass(frozen=True)
class Literals:
    """What statements compare columns with, by the name of the column."""

    found: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, column: str, value: Any) -> None:
        values = self.found.setdefault(column.lower(), [])
        if value not in values:
            values.append(value)

    def of(self, column: str) -> list[Any]:
        return self.found.get(column.lower(), [])


def read_literals(statements: Iterable[str]) -> Literals:
    """Find the constants beside each column, of comparisons, lists and patterns."""
    literals = Literals()
    for text in statements:
        try:
            tree = sqlglot.parse_one(text, read="duckdb")
        except sqlglot.errors.SqlglotError:
            continue
        for node in tree.find_all(exp.Predicate):
            columns = {column.name for column in node.find_all(exp.Column)}
            if len(columns) == 1 and not node.find(exp.Query):
                for constant in node.find_all(exp.Literal):
                    literals.add(next(iter(columns)), _value(constant))
    return literals


def _value(constant: exp.Literal) -> str | int | float:
    if not constant.is_string:
        number = float(constant.this)
        return int(number) if number.is_integer() else number
    return re.sub(r"[%]", "ab", constant.this).replace("\\", "")


@dataclass(frozen=True)
class World:
    """The statements and the rows of a world."""

    name: str
    policy: Policy
    schema: tuple[str, ...]
    columns: Mapping[str, Sequence[tuple[str, str]]]
    keys: Mapping[str, str]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    nobodys: Mapping[str, Sequence[tuple[Any, ...]]]

    def fill(self, connection: duckdb.DuckDBPyConnection, *, nobodys: bool) -> None:
        """Make the tables; rows that belong to nobody are in private databases alone."""
        for statement in self.schema:
            connection.execute(statement)
        for table, rows in self.rows.items():
            more = self.nobodys.get(table, ()) if nobodys else ()
            connection.execute(f'DELETE FROM "{table}"')
            insert(connection, table, self.columns[table], [*rows, *more])


def insert(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    given = pa.table({name: [row[i] for row in rows] for i, (name, _) in enumerate(columns)})
    connection.register("given", given)
    connection.execute(f'INSERT INTO "{table}" FROM given')
    connection.unregister("given")


@functools.cache
def world(name: str, statements: tuple[str, ...], *, ties: bool = True) -> World:
    """Build a world for these statements; without ``ties`` no unit has two rows of one moment."""
    return _Builder(name, statements, ties=ties).built()


class _Builder:
    """Makes the rows of a world, tables that are referred to first."""

    def __init__(self, name: str, statements: tuple[str, ...], *, ties: bool) -> None:
        self.name, self.ties, self.moments = name, ties, 0
        self.rng = random.Random(f"{name}, 1")
        self.literals = read_literals(statements)
        found = script("benchmarks/statements.py")
        self.policy = load_policy(found.policy_of(name))
        files = [found.WORLDS / f"{name}.sql"]
        if name == "tpch":
            files.insert(0, found.TPCH / "schema.sql")
        self.schema = tuple(path.read_text(encoding="utf-8") for path in files)
        with duckdb.connect(":memory:") as owner:
            for statement in self.schema:
                owner.execute(statement)
            self.tables = [
                each
                for (each,) in owner.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            ]
            self.columns = {
                table: [tuple(row[:2]) for row in owner.execute(f'DESCRIBE "{table}"').fetchall()]
                for table in self.tables
            }
            self.given = {
                table: owner.execute(f'FROM "{table}"').fetchall() for table in self.tables
            }
            keys = owner.execute(
                "SELECT table_name, constraint_column_names[1] FROM duckdb_constraints() "
                "WHERE constraint_type = 'PRIMARY KEY' AND len(constraint_column_names) = 1"
            ).fetchall()
        self.keys = {**dict(keys), **KEYS.get(name, {})}
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.nobodys: dict[str, list[tuple[Any, ...]]] = {}

    def built(self) -> World:
        for table in self.tables:
            self.make(table)
        return World(
            self.name, self.policy, self.schema, self.columns, self.keys, self.rows, self.nobodys
        )

    def refers(self, table: str, column: str) -> tuple[str, str] | None:
        """Find the table and key that a column names a row of."""
        named = NAMED.get(f"{self.name}.{table}.{column}")
        link = self.known(table).link
        if link is not None and link.columns == (column,):
            named = f"{link.parent.table}.{link.parent_columns[0]}"
        if named is not None:
            return tuple(named.split("."))  # type: ignore[return-value]
        for other, key in self.keys.items():
            if key == column and other != table and key != "id" and not self.is_private(other):
                return other, key
        return None

    def known(self, table: str) -> TablePolicy:
        found = self.policy.table(table)
        assert found is not None, table
        return found

    def is_private(self, table: str) -> bool:
        return not self.known(table).public

    def make(self, table: str) -> None:
        if table in self.rows:
            return
        self.rows[table] = []
        for column, _ in self.columns[table]:
            target = self.refers(table, column)
            if target is not None:
                self.make(target[0])
        if not self.is_private(table):
            self.rows[table] = self.public_rows(table)
            return
        known = self.known(table)
        if known.link is not None:
            owner, parent = known.link.columns[0], known.link.parent.table
            place = [c for c, _ in self.columns[parent]].index(known.link.parent_columns[0])
            owners = [row[place] for row in self.rows[parent]]
        else:
            assert known.privacy_unit is not None
            owner, owners = known.privacy_unit.column, list(range(1, UNITS + 1))
        single = self.keys.get(table) == owner
        number = 0
        for each in owners:
            if single:
                count = int(self.rng.random() < 0.92)
            else:
                count = min(int(self.rng.paretovariate(1.1)) if self.rng.random() < 0.8 else 0, 9)
            for _ in range(count):
                number += 1
                self.rows[table].append(self.row(table, {owner: each}, number))
        if not single:
            self.nobodys[table] = [
                self.row(table, {owner: None}, NOBODYS_FROM + i) for i in range(25)
            ]

    def public_rows(self, table: str) -> list[tuple[Any, ...]]:
        given = list(self.given[table])
        if table in MADE:
            return given
        return [*given, *(self.row(table, {}, 100 + i) for i in range(14))]

    def row(self, table: str, fixed: dict[str, Any], number: int) -> tuple[Any, ...]:
        values = []
        for column, type_ in self.columns[table]:
            if column in fixed:
                values.append(fixed[column])
            elif self.keys.get(table) == column:
                values.append(number if type_ != "VARCHAR" else f"k{number}")
            else:
                values.append(self.value(table, column, type_))
        return tuple(values)

    def value(self, table: str, column: str, type_: str) -> Any:
        rng = self.rng
        target = self.refers(table, column)
        if target is not None:
            place = [c for c, _ in self.columns[target[0]]].index(target[1])
            rows = self.rows[target[0]]
            return None if rng.random() < 0.05 else self.skewed([row[place] for row in rows])
        declared = self.known(table).columns.get(column)
        if not self.ties and self.is_private(table) and type_ in ("DATE", "TIMESTAMP"):
            self.moments += 37
            day = date(2024, 1, 1) + timedelta(self.moments % 701)
            return day if type_ == "DATE" else datetime.fromisoformat(f"{day} {rng.choice(TIMES)}")
        if rng.random() < 0.08:
            return None
        if declared is not None and declared.domain is not None:
            return self.skewed(list(declared.domain))
        literals = self.literals.of(column)
        return self.of_type(type_, literals, declared)

    def of_type(self, type_: str, literals: list[Any], declared: Any) -> Any:
        rng = self.rng
        if type_.endswith("[]"):
            elements = (self.of_type(type_[:-2], literals, declared) for _ in range(3))
            return [each for each in elements if rng.random() < 0.6]
        if type_ == "VARCHAR":
            return self.skewed([*[v for v in literals if isinstance(v, str)], *TEXTS])
        if type_ == "BOOLEAN":
            return rng.random() < 0.6
        if type_ in ("DATE", "TIMESTAMP"):
            day = self.skewed([*self.days(literals), *DAYS])
            day += timedelta(rng.choice((0, 0, 0, -1, 1, rng.randrange(-40, 40))))
            if type_ == "DATE":
                return day
            return datetime.fromisoformat(f"{day} {rng.choice(TIMES)}")
        low, high = -20.0, 60.0
        if declared is not None and declared.lower is not None:
            low, high = float(declared.lower), float(declared.upper)
        numbers = [float(v) for v in literals if isinstance(v, int | float) and low <= v <= high]
        pool = [*numbers, *(n + 1 for n in numbers if n < high), *WHOLE, low, high]
        if rng.random() < 0.5:
            number = self.skewed([n for n in pool if low <= n <= high])
        else:
            number = low + (high - low) * rng.random() ** 3
        if type_ == "DOUBLE" or type_.startswith("DECIMAL"):
            step = 0.25 if high - low > 2 else 0.01
            number = min(max(round(round(number / step) * step, 2), low), high)
            return number if type_ == "DOUBLE" else Decimal(f"{number:.2f}")
        limit = {"SMALLINT": 2**15, "INTEGER": 2**31}.get(type_, 2**63) - 1
        return int(min(max(round(number), low), high, limit))

    def days(self, literals: list[Any]) -> Iterator[date]:
        for literal in literals:
            for text in re.findall(r"\d{4}-\d\d-\d\d", str(literal)):
                try:
                    yield date.fromisoformat(text)
                except ValueError:
                    continue

    def skewed(self, values: list[Any]) -> Any:
        return values[int(len(values) * self.rng.random() ** 1.7)] if values else None
