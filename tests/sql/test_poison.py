"""Every awkward value of every type comes out of its release as it went in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sized
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

LONG = "repeat('9', 1000000)"
# Column -> its type, an ordinary value, and values that break naive engines. All are SQL.
COLUMNS: dict[str, tuple[str, str, list[str]]] = {
    "i": ("BIGINT", "3", ["'-9223372036854775808'", "'9223372036854775807'", "9007199254740993"]),
    "n": ("INTEGER", "2", ["'-2147483648'", "2147483647", "0"]),
    "tiny": ("TINYINT", "1", ["'-128'", "127"]),
    "ub": ("UBIGINT", "1", ["'18446744073709551615'"]),
    "h": (
        "HUGEINT",
        "1",
        [
            "'170141183460469231731687303715884105727'",
            "'-170141183460469231731687303715884105728'",
        ],
    ),
    "uh": ("UHUGEINT", "1", ["'340282366920938463463374607431768211455'"]),
    "x": ("DOUBLE", "1.5", ["'nan'", "'inf'", "'-inf'", "'-0.0'", "1e308", "-1e308", "5e-324"]),
    "r": ("FLOAT", "1.5", ["'nan'", "'inf'", "'-inf'", "'-0.0'", "3.4e38"]),
    "wide": ("DOUBLE", "1.5", ["'nan'", "'inf'", "'-inf'", "1e308"]),
    "dec": ("DECIMAL(18, 3)", "1.5", ["999999999999999.999", "-999999999999999.999"]),
    "big": ("DECIMAL(38, 0)", "1", ["99999999999999999999999999999999999999"]),
    "s": (
        "VARCHAR",
        "'3'",
        [
            "''",
            "'bad'",
            "'2024-13-45'",
            "'NaN'",
            "'inf'",
            "'1e400'",
            "chr(0)",
            LONG,
            "'😀'",
            "'-9223372036854775809'",
            "'true'",
            "' 3 '",
            "'0x1F'",
            "'\"'';--'",
        ],
    ),
    "d": (
        "DATE",
        "'2024-01-01'",
        ["'infinity'", "'-infinity'", "'5877642-06-25 (BC)'", "'5881580-07-10'"],
    ),
    "ts": ("TIMESTAMP", "'2024-01-01'", ["'infinity'", "'-infinity'", "'290309-12-22 (BC)'"]),
    "tz": ("TIMESTAMPTZ", "'2024-01-01'", ["'infinity'", "'-infinity'"]),
    "tm": ("TIME", "'12:00:00'", ["'00:00:00'", "'24:00:00'"]),
    "b": ("BOOLEAN", "TRUE", ["FALSE"]),
    "iv": ("INTERVAL", "INTERVAL 1 DAY", ["INTERVAL 178956970 YEAR", "INTERVAL (-30) DAY"]),
    "blob": ("BLOB", "'a'", ["'\\x00\\xFF'::BLOB", "''"]),
    "id": ("UUID", "'00000000-0000-0000-0000-000000000001'", ["gen_random_uuid()"]),
    "e": ("ENUM ('red', 'green')", "'red'", ["'green'"]),
    "list": ("INTEGER[]", "[1]", ["[]", "[NULL]", "[1, 2]"]),
    "st": ("STRUCT(a INTEGER)", "{'a': 1}", ["{'a': NULL}"]),
}
UNITS, POISON = 300, 9999


def database(path: Path, *, poisoned: bool) -> Path:
    """Ordinary units, and on request one unit whose rows hold every awkward value."""
    columns = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    ordinary = ", ".join(f"CAST({value} AS {type_})" for type_, value, _ in COLUMNS.values())
    writer = duckdb.connect(str(path))
    writer.execute(f"CREATE TABLE t (u BIGINT, {columns})")
    writer.execute(f"INSERT INTO t SELECT r.i, {ordinary} FROM range({UNITS}) r(i)")
    if poisoned:
        writer.execute(f"INSERT INTO t SELECT {POISON}, {', '.join(['NULL'] * len(COLUMNS))}")
        for name, (type_, _, values) in COLUMNS.items():
            for value in values:
                writer.execute(
                    f"INSERT INTO t (u, {name}) VALUES ({POISON}, CAST({value} AS {type_}))"
                )
    writer.close()
    return path


BOUNDS = {name: ColumnPolicy(0, 1000) for name in ("i", "n", "x", "wide")}
RULES = Policy(
    "poison",
    defaults=Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=100),
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
    tables={"t": TablePolicy("t", PrivacyUnit("unit", "u"), BOUNDS)},
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    """A connection to the database with the poisonous unit."""
    directory = tmp_path_factory.mktemp("poison")
    path = database(directory / "t.duckdb", poisoned=True)
    with dpsql.connect(path, RULES, directory / "budget.db", "ana") as opened:
        yield opened


AS_KEYS = [f"SELECT {name}, count(DISTINCT u) FROM t GROUP BY 1" for name in COLUMNS]
RANKED = [
    f"SELECT {name}, count(*) AS n FROM t GROUP BY 1 ORDER BY 2 DESC LIMIT 3" for name in COLUMNS
]
TWICE = [
    "SELECT sum(i * i), sum(i * i + 1) FROM t",
    "SELECT count(CAST(s AS INT) + 1), count(CAST(s AS INT) + 2) FROM t",
    "SELECT CAST(s AS INT) AS a, CAST(s AS INT) + 1 AS b, count(*) FROM t GROUP BY 1, 2",
    "SELECT CAST(s AS INT) AS a, count(*) FROM t WHERE CAST(s AS INT) > 0 GROUP BY 1",
    "SELECT DISTINCT s FROM t",
    "SELECT s, x, i, count(*), sum(n), avg(x), sum(wide) FROM t GROUP BY 1, 2, 3",
]


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("sql", [*AS_KEYS, *RANKED, *TWICE])
def test_every_awkward_value_survives_its_release(sql: str, connection: dpsql.Connection) -> None:
    """Without noise every group comes out, so every awkward key passes through the tail."""
    with contextlib.suppress(dpsql.QueryRefused):
        answer = connection.sql(sql, fresh=True)
        found = [rows_by(read) for read in (answer.arrow, answer.fetchall)]
        assert max(found) > 0  # Arrow has no infinite dates, Python no intervals of months
        odd = ("DATE", "INTERVAL", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
        assert found[0] == found[1] or answer.types[0] in odd


def rows_by(read: Callable[[], Sized]) -> int:
    """How many rows an answer has in a form; 0 where a key of it has no such form."""
    try:
        return len(read())
    except dpsql.InterfaceError:
        return 0
