"""Where rows come from: each reader writes both worlds in its own way, and opens them.

A reader writes a directory once for each lot of the unit's rows, and the same without the unit;
worlds are copies of that.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import duckdb
from helpers.open_doors import DOORS

import dpsql

from .rows import ordinary, other_rows, unit_rows, unit_sql

VARIANTS: Final = 8
"""How many lots of rows of the unit there are."""
ALL_WAYS: Final = ("api", "dbapi", "sqlalchemy", "shell", "query")
IN_PROCESS: Final = ("api", "dbapi")

KNOWS_TYPES: Final = "types" in inspect.signature(dpsql.DuckDBEngine.register).parameters
"""Whether policies can declare the types of columns."""
_BOUNDS: Final[dict[str, dict[str, dict[str, object]]]] = {
    "t": {"i32": {"lower": -5, "upper": 20}, "f64": {"lower": -2.5, "upper": 10.0}},
    "o": {"price": {"lower": 0, "upper": 50}},
    "l": {"qty": {"lower": 0, "upper": 10}},
    "pub": {"i32": {"lower": 0, "upper": 9}},
    "seen": {"i32": {"lower": -5, "upper": 20}},
    "looked": {},
}
_UNIT: Final = {"privacy_unit": {"name": "person", "column": "uid"}}
_MINIMUM: Final = {"defaults": {"min_units_per_group": "MINIMUM"}}
_TABLES: Final[dict[str, dict[str, object]]] = {
    "t": {**_UNIT, "time": {"column": "ts"}, **_MINIMUM},
    "o": {**_UNIT, **_MINIMUM},
    "l": {},
    "pub": {"public": True},
    "seen": {**_UNIT},
    "looked": {**_UNIT},
}


def policy_tables(names: tuple[str, ...], *, typed: bool) -> str:
    """The tables of a policies file; with all names and types where sources have none."""
    tables = {}
    for name in names:
        columns: dict[str, dict[str, object]] = {}
        if typed and KNOWS_TYPES:
            columns = {column: {"type": type_} for column, type_ in ordinary()[name].columns}
        for column, bounds in _BOUNDS[name].items():
            columns[column] = {**columns.get(column, {}), **bounds}
        tables[name] = {**_TABLES[name], "columns": columns}
    text = json.dumps({"tables": tables, "links": ["l.okey -> o.okey"]}, indent=1)
    return text.strip()[1:-1].replace('"MINIMUM"', "MINIMUM")


class Reader(ABC):
    """One kind of source."""

    name: str
    ways: tuple[str, ...] = IN_PROCESS
    share_of_ways = 0.12  # of the statements that are asked in any of these ways
    edits = False  # whether the owner can change rows between statements
    has_views = True  # whether materialized views are made of its rows
    typed = False  # whether the policy has to say all names and types
    hides = re.compile("(?!)")  # what each world calls otherwise: addresses, names of databases
    own_files = False  # whether the unit has files of its own, which are listed at opening
    listed: tuple[str, ...] = ("t", "o", "l", "pub")  # the tables of the policy
    with_minimum = frozenset({"t", "o", "l"})  # tables that need as many units as the policy says

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], Path] = {}
        self._home: Path | None = None

    @property
    def tables(self) -> str:
        """The tables of the policies file; MINIMUM stands for a number."""
        return policy_tables(self.listed, typed=self.typed)

    @abstractmethod
    def write(self, place: Path, variant: int, unit: bool) -> None:
        """Write the rows of one world into an empty directory."""

    @abstractmethod
    def database(self) -> Any:
        """What ``connect`` takes, in the directory that is the current one."""

    def make(self, home: Path, place: Path, variant: int, unit: bool) -> None:
        """Put one world at a place: a copy of what was written for this lot of rows before."""
        if self._home != home:
            self._home, self._made = home, {}
        made = self._made.get((variant, unit))
        if made is None:
            made = home / f"{self.name}-{variant}-{unit}"
            made.mkdir(parents=True)
            self.write(made, variant, unit)
            self._made[variant, unit] = made
        shutil.copytree(made, place)

    def written(self, now: datetime) -> None:
        """Say of all files of the current directory that they were written at a time."""
        for directory, _, names in os.walk("."):
            for name in names:
                os.utime(os.path.join(directory, name), (now.timestamp(), now.timestamp()))

    def missing(self) -> str | None:
        """Say what is not installed, None if nothing is missing."""
        return None

    def close(self) -> None:
        """End what was started for it, and forget what was written."""
        self._home = None

    def edit(self, number: int) -> None:
        """Change rows of ordinary units, as their owner."""
        raise NotImplementedError


class DuckDBFile(Reader):
    """A database file, with a listed view, unlisted tables and views, macros and types."""

    name = "duckdb"
    ways: tuple[str, ...] = ALL_WAYS
    edits = True
    listed: tuple[str, ...] = ("t", "o", "l", "pub", "seen")

    def write(self, place: Path, variant: int, unit: bool) -> None:
        with duckdb.connect(str(place / "world.duckdb"), config={"threads": "1"}) as owner:
            fill(owner, variant, unit)
            owner.execute("CREATE VIEW seen AS SELECT uid, i32, s FROM t WHERE i32 IS NOT NULL")
            owner.execute(
                "CREATE VIEW wages AS SELECT who, sum(pay) AS pay FROM salaries GROUP BY 1"
            )
            owner.execute("CREATE VIEW everybody AS SELECT * FROM t")
            owner.execute("CREATE MACRO least(a, b) AS a")
            owner.execute("CREATE SCHEMA vault")
            owner.execute("CREATE TABLE vault.salaries AS SELECT * FROM salaries")

    def database(self) -> str:
        return "world.duckdb"

    def edit(self, number: int) -> None:
        with duckdb.connect("world.duckdb") as owner:
            owner.execute(
                f"INSERT INTO t SELECT 100 + i, 1 + i % 3, 2.0, 's{number % 5}', '2026-01-02', "
                f"TIMESTAMP '2026-01-01 01:00' + to_hours(CAST(i % 70 AS INTEGER)) "
                f"FROM range({10 + number % 30}) r(i)"
            )


def fill(owner: duckdb.DuckDBPyConnection, variant: int, unit: bool) -> None:
    """Make the tables in a database of DuckDB's; rows of the unit come first."""
    rows = {"t": unit_rows(variant), **other_rows(variant)}
    for table in ordinary().values():
        columns = ", ".join(f"{name} {type_}" for name, type_ in table.columns)
        owner.execute(f"CREATE TABLE {table.name} ({columns})")
        mine = rows.get(table.name)
        if unit and mine:
            marks = f"({', '.join('?' * len(table.columns))})"
            owner.execute(
                f"INSERT INTO {table.name} VALUES {', '.join([marks] * len(mine))}",
                [value for row in mine for value in row],
            )
        if unit and table.name == "t":
            owner.execute(f"INSERT INTO t VALUES {', '.join(unit_sql(variant))}")
        found = table.arrow
        owner.register("__given", found)
        owner.execute(f"INSERT INTO {table.name} SELECT * FROM __given")
        owner.unregister("__given")


class DuckDBAtDoors(DuckDBFile):
    """The same file behind the doors of a server."""

    name = "duckdb at doors"
    ways = DOORS
    share_of_ways = 0.9


class Lookup(DuckDBFile):
    """A database file with a listed view that looks up one value for each row, by a subquery.

    It is refused when it is opened: what one unit has twice would make it fail.
    """

    name = "duckdb with a lookup"
    listed = (*DuckDBFile.listed, "looked")

    def write(self, place: Path, variant: int, unit: bool) -> None:
        super().write(place, variant, unit)
        found = "(SELECT o.okey FROM o WHERE o.uid = t.uid AND o.okey >= 60)"
        with duckdb.connect(str(place / "world.duckdb"), config={"threads": "1"}) as owner:
            owner.execute(f"CREATE VIEW looked AS SELECT uid, i32, {found} AS okey FROM t")
