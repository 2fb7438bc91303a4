# ruff: noqa: E501
"""The attacked databases: two of each, which differ in one unit, and the policy over them.

``plain`` has a column of every type, links, public tables and views. The others have an owner
whose file is against them: macros named like built-ins, types made of rows, collations, views
that fail. A world that is refused when it is opened must be refused on both sides alike.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
from helpers.installed_duckdb import OF_ALL_TYPES
from helpers.linked_tables import COLUMNS as LINEAGE_COLUMNS
from helpers.linked_tables import POLICY_TABLES as LINEAGE_TABLES
from helpers.open_doors import OpenDoors
from helpers.support import POLICY_TABLES, TABLES

import dpsql
from dpsql.policy.model import (
    EACH_ROW,
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import USUAL_ROWS, Automatic, Parameters

from .values import MARKS, ODD, SCALARS, TARGET, Kind

ANALYST: Final = "ana"
PERSON = PrivacyUnit("person", "uid")
UNITS, ROWS = 40, 5  # ordinary units, and rows of each in the wide tables
_RANDOM_ROWS = 90

_BOUNDS: Final = {
    **{
        k.name: ColumnPolicy(-5, 100)
        for k in SCALARS
        if k.name in ("i8", "i16", "i32", "i64", "i128")
    },
    **{name: ColumnPolicy(0, 100) for name in ("u8", "u16", "u64", "u128")},
    **{name: ColumnPolicy(-2.5, 10.0) for name in ("f64",)},
    **{name: ColumnPolicy(0, 50) for name in ("dec4", "dec38", "deep")},
    "e": ColumnPolicy(domain=("red", "green", "blue")),
}
_CORPUS_UNITS: Final = {
    "visits": '"Uid"', "people": "uid", "orders": "uid", "badges": "uid",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wide:
    """A wide table: a unit, and a column of each kind."""

    name: str
    kinds: tuple[Kind, ...]

    @property
    def create(self) -> str:
        """Its definition."""
        columns = ", ".join(f"{k.name} {k.type}" for k in self.kinds)
        return f"CREATE TABLE {self.name} (uid BIGINT, {columns})"

    @property
    def fill(self) -> str:
        """Ordinary rows of ordinary units."""
        values = ", ".join(f"CAST({k.ordinary} AS {k.type})" for k in self.kinds)
        return (
            f"INSERT INTO {self.name} SELECT i % {UNITS} + 100, {values} "
            f"FROM range({UNITS * ROWS}) t(i)"
        )

    def nasty(self) -> list[str]:
        """The rows of the unit in which the databases differ, each as its values.

        Every nasty value stands alone among ordinary ones, with all others of its position, and
        among random others.
        """
        rng = random.Random(self.name)
        rows = []
        plain = {k.name: re.sub(r"\bi\b", "3", k.ordinary) for k in self.kinds}
        for kind in self.kinds:
            for value in (*kind.nasty, "NULL"):
                rows.append({**plain, kind.name: value})
        for position in range(max(len(k.nasty) for k in self.kinds)):
            rows.append({k.name: k.nasty[position % len(k.nasty)] for k in self.kinds})
        for _ in range(_RANDOM_ROWS):
            rows.append({k.name: rng.choice((*k.nasty, "NULL")) for k in self.kinds})
        return [
            f"({TARGET}, {', '.join(f'CAST({row[k.name]} AS {k.type})' for k in self.kinds)})"
            for row in rows
        ]


WIDE: Final = (Wide("t", SCALARS), Wide("w", (*ODD, SCALARS[2], SCALARS[18])))


@dataclass(frozen=True)
class World:
    """Statements that fill a database; ``nasty`` add the unit in which two of them differ.

    ``before`` and ``after`` are run on both; ``after`` may look at rows, as owners do. Where
    ordinary rows stand there, those of the unit come first, and theirs is the spelling met first.
    """

    name: str
    before: tuple[str, ...]
    nasty: tuple[str, ...]
    after: tuple[str, ...] = ()
    tables: dict[str, TablePolicy] = field(default_factory=dict)

    @property
    def policy(self) -> Policy:
        """The rules of this world."""
        return Policy(
            "attacked",
            defaults=Parameters(
                epsilon=1.0, delta=1e-9, max_rows_contributed=Automatic(instead=USUAL_ROWS)
            ),
            accounts={ANALYST: AccountPolicy(ANALYST, 1e6, 0.4)},
            tables=self.tables,
        )

    def write(self, path: Path, nasty: Sequence[str]) -> Path:
        """A database file whose rows of the unit are those of ``nasty``."""
        with duckdb.connect(str(path), config=OF_ALL_TYPES) as writer:
            for statement in (*self.before, *_together(nasty), *self.after):
                writer.execute(statement)
        return path


def place_of(directory: Path, name: str) -> Path:
    """Where a database lies: both have one file name, which answers may tell."""
    place = directory / name / "world.duckdb"
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _together(inserts: Sequence[str]) -> Iterator[str]:
    """The same INSERTs, of many rows each."""
    for head, group in itertools.groupby(inserts, lambda text: text.partition(" VALUES ")[0]):
        texts = list(group)
        for batch in (texts[i : i + 60] for i in range(0, len(texts), 60)):
            rows = [text.partition(" VALUES ")[2] for text in batch]
            yield f"{head} VALUES {', '.join(rows)}" if rows[0] else head


def _nasty_corpus() -> Iterator[str]:
    """Rows of the unit in the tables that other tests have statements over."""
    for k, s, n, big, x, amount, d, ts, flag, c, order in (
        ("3", "'1'", "5", "7", "1.5", "3", "'2024-01-01'", "'2024-01-01'", "TRUE", "'red'", "1"),
        (
            "'-2147483648'",
            "''",
            "2147483647",
            "'9223372036854775807'",
            "'nan'",
            "'9999999999.99'",
            "'5877642-06-25 (BC)'",
            "'infinity'",
            "FALSE",
            "'other'",
            "'-2147483648'",
        ),
        (
            "2147483647",
            f"'{MARKS[0]}'",
            "'-2147483648'",
            "'-9223372036854775808'",
            "'-inf'",
            "'-9999999999.99'",
            "'infinity'",
            "'290309-12-22 (BC)'",
            "NULL",
            "''",
            "2147483647",
        ),
        (
            "0",
            "'bad'",
            "0",
            "0",
            "'-0.0'",
            "0",
            "'5881580-07-10'",
            "'294247-01-10 04:00:54.775806'",
            "TRUE",
            "NULL",
            "0",
        ),
        ("NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"),
    ):
        yield f"INSERT INTO visits VALUES ({TARGET}, {k}, {s}, {n}, {big}, {x}, {x}, {amount}, {d}, {ts}, {flag}, {c}, {order})"
    yield f"INSERT INTO visits SELECT {TARGET}, i, 'k' || i, i, i, i, i, i, DATE '2024-01-01' + CAST(i AS INTEGER), TIMESTAMP '2024-01-01' + to_hours(i), TRUE, 'red', i FROM range(60) t(i)"
    yield f"INSERT INTO people VALUES ({TARGET}, '{MARKS[0]}', {MARKS[1]}), ({TARGET}, '', -2147483648), ({TARGET}, NULL, NULL)"
    yield f"INSERT INTO orders VALUES ({TARGET}, 9001, 3, 'nan'), ({TARGET}, 9002, 2147483647, 1e308), ({TARGET}, 9003, NULL, '-inf')"
    yield "INSERT INTO items SELECT 9001 + i % 3, 90001 + i, CASE i WHEN 0 THEN 2147483647 WHEN 1 THEN -2147483648 ELSE i END, i * 1000 FROM range(40) t(i)"
    yield f"INSERT INTO returns SELECT 90001 + i, CASE WHEN i = 3 THEN '{MARKS[0]}' ELSE 'w' || i END, 2147483647 - i FROM range(20) t(i)"
    yield f"INSERT INTO logins SELECT {TARGET}, i FROM range(5) t(i)"
    yield f"INSERT INTO badges VALUES ('{TARGET}', 2147483647), ('{TARGET}', NULL)"


_CORPUS_FILL: Final = (
    """INSERT INTO visits SELECT i % 40 + 100, i % 7, 's' || (i % 5), i % 23 - 4, i % 1001, i % 13 - 2.0,
        i * 1000.0, i % 101, DATE '2024-01-01' + (i % 50)::INT, TIMESTAMP '2024-01-01' + to_hours(i),
        i % 2 = 0, ['red', 'green', 'blue'][1 + i % 3], i % 10 FROM range(240) r(i)""",
    "INSERT INTO people SELECT i + 100, 'c' || (i % 4), 20 + i FROM range(40) r(i)",
    "INSERT INTO orders SELECT i % 40 + 100, i, i % 5, i * 1.5 FROM range(80) r(i)",
    "INSERT INTO items SELECT i % 80, i, i % 6, i % 50 FROM range(160) r(i)",
    "INSERT INTO returns SELECT i, 'w' || (i % 3), i % 5 FROM range(50) r(i)",
    "INSERT INTO logins SELECT i + 100, i % 3 FROM range(40) r(i)",
    "INSERT INTO badges SELECT CAST(i + 100 AS VARCHAR), i % 3 FROM range(40) r(i)",
    "INSERT INTO boxes SELECT i % 40 + 100, i % 9, i, i % 5 FROM range(80) r(i)",
    "INSERT INTO parts SELECT i % 9, i, i % 6 FROM range(80) r(i)",
    "INSERT INTO refunds SELECT i % 41 + 100, i % 9, i, i % 5 FROM range(80) r(i)",
    "INSERT INTO stamps SELECT i % 40 + 100, i % 50, i % 5 FROM range(100) r(i)",
    "INSERT INTO mails SELECT 'm' || (i % 40), i % 5, i % 11 FROM range(100) r(i)",
    "INSERT INTO shops SELECT i, 'shop ' || i, 10 * i, i FROM range(7) r(i)",
    "INSERT INTO towns SELECT 'c' || i, 'r' || (i % 2) FROM range(4) r(i)",
    "INSERT INTO secret SELECT i, 'secret ' || i FROM range(7) r(i)",
)  # fmt: skip
_CREATE: Final = {
    **{
        name: f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, t in columns)})"
        for name, columns in LINEAGE_COLUMNS.items()
    },
    **{name: text for name, text in TABLES.items() if name not in ("shops", "mails")},
    "mails": TABLES["mails"],
}


def _plain() -> World:
    pub = ", ".join(f"{k.name} {k.type}" for k in SCALARS)
    values = ", ".join(f"CAST({k.ordinary} AS {k.type})" for k in SCALARS)
    before = [*_CREATE.values(), *_CORPUS_FILL]
    before += [
        f"CREATE TABLE pub (k INTEGER, {pub})",
        f"INSERT INTO pub SELECT i, {values} FROM range(8) t(i)",
    ]
    for wide in WIDE:
        before += [wide.create, wide.fill]
    nasty = [f"INSERT INTO {wide.name} VALUES {row}" for wide in WIDE for row in wide.nasty()]
    before += [
        "CREATE TABLE answers (i32 INTEGER, f64 DOUBLE, s VARCHAR, d DATE)",
        "INSERT INTO answers SELECT i % 20, i % 13 - 2.0, 's' || i % 5, DATE '2024-01-01' + CAST(i % 9 AS INTEGER) FROM range(90) t(i)",
    ]
    # Of which one row is a unit: all that is nasty at once.
    nasty += [f"INSERT INTO answers VALUES (2147483647, 'nan', '{MARKS[0]}', 'infinity')"]
    tables = {
        **LINEAGE_TABLES,
        **{name: POLICY_TABLES[name] for name in ("visits", "mails")},
        "t": TablePolicy("t", PERSON, _BOUNDS),
        "w": TablePolicy("w", PERSON, {"i32": ColumnPolicy(-5, 100)}),
        "v": TablePolicy(
            "v", PERSON, {n: b for n, b in _BOUNDS.items() if n in ("i32", "f64", "u128")}
        ),
        "answers": TablePolicy(
            "answers", EACH_ROW, {"i32": ColumnPolicy(-5, 100), "f64": ColumnPolicy(-2.5, 10.0)}
        ),
        "pub": TablePolicy("pub", None, {"i32": ColumnPolicy(-5, 100), "f64": ColumnPolicy(0, 10)}),
    }
    views = (
        "CREATE VIEW v AS SELECT uid, i32, f64, u128, s, d, upper(s2) AS up FROM t WHERE i8 IS NOT NULL",
    )
    return World("plain", tuple(before), (*nasty, *_nasty_corpus()), views, tables)


_SMALL_CREATE = (
    "CREATE TABLE t (uid BIGINT, i32 INTEGER, f64 DOUBLE, s VARCHAR, d DATE, u128 UHUGEINT)"
)
_FILL = "INSERT INTO t SELECT i % 40 + 100, i % 20, i % 13 - 2.0, CASE WHEN i % 3 = 0 THEN 'HIV' ELSE 'flu' END, DATE '2024-01-01' + CAST(i % 9 AS INTEGER), i % 7 FROM range(200) r(i)"
_SMALL = (
    _SMALL_CREATE,
    "CREATE TABLE pub (k INTEGER, i32 INTEGER, s VARCHAR)",
    "INSERT INTO pub SELECT i, i, 's' || i FROM range(5) r(i)",
)  # fmt: skip
_SMALL_NASTY = (
    f"INSERT INTO t VALUES ({TARGET}, 2147483647, 'nan', 'hiv', '5877642-06-25 (BC)', '{2**128 - 1}')",
    f"INSERT INTO t VALUES ({TARGET}, -2147483648, 1e308, '{MARKS[0]}', 'infinity', '{2**127}'), ({TARGET}, 5, -1e308, '', NULL, 0)",
    f"INSERT INTO t SELECT {TARGET}, i, i, 'k' || i, DATE '2024-01-01', i FROM range(50) r(i)",
)  # fmt: skip
_SMALL_BOUNDS = {
    "i32": ColumnPolicy(-5, 20),
    "f64": ColumnPolicy(-2.5, 10.0),
    "u128": ColumnPolicy(0, 9),
}
_SMALL_TABLES = {
    "t": TablePolicy("t", PERSON, _SMALL_BOUNDS),
    "pub": TablePolicy("pub", None, {"i32": ColumnPolicy(0, 9)}),
}
# Functions that generated SQL uses; as macros each answers something of its own.
_REPLACED = {
    "least": "(a, b) AS a", "greatest": "(a, b) AS a", "hash": "(a, b) AS b", "isnan": "(a) AS FALSE", "round": "(a) AS a * 1000",
    "normalized_interval": "(a) AS a", "list_position": "(a, b) AS 1", "floor": "(a) AS a", "coalesce": "(a, b) AS b",
}  # fmt: skip


def _macros() -> World:
    made = tuple(
        f"CREATE MACRO {name}{body}" for name, body in _REPLACED.items() if name != "coalesce"
    )
    aggregate = (
        "CREATE MACRO sum(a) AS max(a) * 1000",
        "CREATE MACRO count_if(a) AS max(length(CAST(a AS VARCHAR)))",
    )
    return World("macros", _SMALL, _SMALL_NASTY, (_FILL, *made, *aggregate), _SMALL_TABLES)


def _types() -> World:
    after = (
        _FILL,
        "CREATE TYPE words AS ENUM (SELECT DISTINCT s FROM t WHERE s IS NOT NULL ORDER BY s)",
        "CREATE TABLE typed AS SELECT uid, i32, CAST(s AS words) AS s, f64, {'a': CAST(s AS words)} AS st FROM t",
        "CREATE TYPE count AS INTEGER",
    )
    tables = {**_SMALL_TABLES, "typed": TablePolicy("typed", PERSON, {"i32": ColumnPolicy(-5, 20)})}
    return World("types", _SMALL, _SMALL_NASTY, after, tables)


def _collations() -> World:
    after = (
        _FILL,
        "CREATE VIEW folded AS SELECT uid, i32, f64, s COLLATE NOCASE AS s FROM t",
        "CREATE TABLE kept AS SELECT uid, i32, s FROM t",
    )
    tables = {
        name: TablePolicy(name, PERSON, {"i32": ColumnPolicy(-5, 20)})
        for name in ("folded", "kept")
    }
    return World("collations", _SMALL, _SMALL_NASTY, after, {**_SMALL_TABLES, **tables})


def _oracles() -> World:
    """Views whose own expressions fail on rows: nothing may be asked of them."""
    after = (
        _FILL,
        "CREATE VIEW sums AS SELECT uid, i32, i32 * i32 AS f64, CAST(i32 AS VARCHAR) AS s FROM t",
        "CREATE VIEW weeks AS SELECT uid, i32, f64, s, week(d) AS w FROM t",
    )
    return World(
        "oracles", _SMALL, _SMALL_NASTY, after, {**_SMALL_TABLES, **_viewed("sums", "weeks")}
    )


def _views() -> World:
    after = (
        _FILL,
        "CREATE VIEW sums AS SELECT uid, i32, TRY(i32 * i32) AS f64, CAST(i32 AS VARCHAR) AS s FROM t",
        "CREATE VIEW weeks AS SELECT uid, i32, f64, s, TRY(week(d)) AS w FROM t WHERE i32 IS NOT NULL",
        "CREATE VIEW joined AS SELECT t.uid, t.i32, t.f64, p.s FROM t LEFT JOIN pub p ON t.i32 = p.k",
        "CREATE VIEW tops AS SELECT uid, max(i32) AS i32, max(f64) AS f64, min(s) AS s FROM t GROUP BY uid",
    )
    viewed = _viewed("sums", "weeks", "joined", "tops")
    return World("views", _SMALL, _SMALL_NASTY, after, {**_SMALL_TABLES, **viewed})


def _viewed(*names: str) -> dict[str, TablePolicy]:
    return {name: TablePolicy(name, PERSON, {"i32": ColumnPolicy(-5, 20)}) for name in names}


def _crowd() -> World:
    """A unit with very many rows, and bounds that leave the sums of no engine."""
    many = (
        f"INSERT INTO t SELECT {TARGET}, 2147483647 - i % 3, 1e308, 'k' || (i % 400), DATE '2024-01-01', {2**127} FROM range(6000) r(i)",
    )
    return World("crowd", _SMALL, (*many, *_SMALL_NASTY), (_FILL,), _SMALL_TABLES)


WORLDS: Final = {
    world.name: world
    for world in (_plain(), _macros(), _types(), _collations(), _views(), _oracles(), _crowd())
}


@dataclass
class Pair:
    """Two connections, to the databases without and with the unit; or how opening was refused."""

    world: World
    directory: Path
    without: dpsql.Connection | None = None
    with_unit: dpsql.Connection | None = None
    refused: tuple[str, str] = ("", "")
    opened: int = 0
    doors: dict[int, OpenDoors] = field(default_factory=dict)  # by side, once they are asked at

    @classmethod
    def open(cls, world: World, directory: Path, nasty: Sequence[str] | None = None) -> Pair:
        """Write both databases and connect to them."""
        directory.mkdir(parents=True, exist_ok=True)
        pair = cls(world, directory)
        world.write(place_of(directory, "without"), ())
        world.write(place_of(directory, "with_unit"), world.nasty if nasty is None else nasty)
        pair.reopen()
        return pair

    def reopen(self) -> None:
        """Connect anew, with empty ledgers."""
        self.close()
        self.opened += 1
        found: list[dpsql.Connection | None] = []
        refusals = []
        for name in ("without", "with_unit"):
            ledger = self.directory / f"{name}.{self.opened}.ledger"
            try:
                database = place_of(self.directory, name)
                found.append(dpsql.connect(database, self.world.policy, ledger, ANALYST))
                refusals.append("")
            except dpsql.Error as error:
                found.append(None)
                refusals.append(str(error))
        self.refused = (refusals[0], refusals[1])
        self.without, self.with_unit = found

    @property
    def usable(self) -> bool:
        """True if both sides can be asked."""
        return self.without is not None and self.with_unit is not None

    @property
    def sides(self) -> tuple[dpsql.Connection, dpsql.Connection]:
        """Both connections."""
        assert self.without is not None
        assert self.with_unit is not None
        return self.without, self.with_unit

    def close(self) -> None:
        """Close what is open."""
        for connection in (self.without, self.with_unit):
            if connection is not None:
                connection.close()
        self.without = self.with_unit = None
        for doors in self.doors.values():
            doors.close()
        self.doors.clear()
