"""The rows of both worlds, the unit in which they differ, and the canaries that nobody may see.

Ordinary rows are the same everywhere. The unit's are nasty in the ways of the reader that reads
them: values that break arithmetic, that are unlike what is declared, that make names or types.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa

TARGET: Final = 27
"""The unit that only one of two worlds has."""
MARKS: Final = ("zqm7", "731623117")
"""A text and a number of the unit's rows, which no statement holds."""
CANARIES: Final = ("kxcanary", "881726354")
"""A text and a number of tables that the policy does not list."""
NEVER_SEEN: Final = (*MARKS, *CANARIES)
"""What may be in no text that anybody hears, in no generated SQL and in no file that is written."""

Rows = list[tuple[Any, ...]]
UNITS, PER_UNIT = 60, 5
DAY_ONE: Final = datetime.datetime(2026, 1, 1)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns with their types, and its ordinary rows."""

    name: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def arrow(self) -> pa.Table:
        """The rows in Arrow's types."""
        return arrow_of(self.columns, self.rows)


_ARROW: Final = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}


def arrow_of(columns: tuple[tuple[str, str], ...], rows: Any) -> pa.Table:
    """Rows as an Arrow table of these types."""
    lists = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pa.table(
        {
            name: pa.array(values, _ARROW[type_])
            for (name, type_), values in zip(columns, lists, strict=True)
        }
    )


T: Final = (
    ("uid", "BIGINT"),
    ("i32", "INTEGER"),
    ("f64", "DOUBLE"),
    ("s", "VARCHAR"),
    ("d", "DATE"),
    ("ts", "TIMESTAMP"),
)


@cache
def ordinary() -> dict[str, Table]:
    """The tables of both worlds, by name, without the unit."""
    t = tuple(
        (
            100 + i % UNITS,
            i % 20,
            i % 13 - 2.0,
            f"s{(i // UNITS + i) % 5}",
            datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 9),
            DAY_ONE + datetime.timedelta(hours=i * 9 % 240),
        )
        for i in range(UNITS * PER_UNIT)
    )
    o = tuple((100 + i % UNITS, i, float(i % 50)) for i in range(2 * UNITS))
    l = tuple((i % (2 * UNITS), i % 7) for i in range(4 * UNITS))
    pub = tuple((i, i, f"s{i}") for i in range(6))
    secret = tuple(
        (100 + i, f"{CANARIES[0]} {i}", int(CANARIES[1]), DAY_ONE + datetime.timedelta(days=i))
        for i in range(9)
    )
    made = (
        Table("t", T, t),
        Table("o", (("uid", "BIGINT"), ("okey", "INTEGER"), ("price", "DOUBLE")), o),
        Table("l", (("okey", "INTEGER"), ("qty", "INTEGER")), l),
        Table("pub", (("k", "INTEGER"), ("i32", "INTEGER"), ("s", "VARCHAR")), pub),
        Table(
            "salaries",
            (("uid", "BIGINT"), ("who", "VARCHAR"), ("pay", "INTEGER"), ("ts", "TIMESTAMP")),
            secret,
        ),
    )
    return {table.name: table for table in made}


# -- the unit --------------------------------------------------------------------------------------

_I32: Final = (0, 5, -1, 2**31 - 1, -(2**31), int(MARKS[1]), None)
_F64: Final = (1.5, float("nan"), float("inf"), -float("inf"), -0.0, 1e308, -1e308, 5e-324, None)
_S: Final = ("", "s1", MARKS[0], f"{MARKS[0]}'; --", "x" * 5000, "\x01", "ſ", "S1", "%", None)
_D: Final = (
    datetime.date(2026, 1, 2),
    datetime.date.min,
    datetime.date.max,
    datetime.date(1582, 10, 10),
    None,
)
_TS: Final = (
    datetime.datetime(2026, 1, 1, 5),
    datetime.datetime(2026, 1, 4, 5),
    datetime.datetime.min,
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
)


def unit_rows(variant: int) -> Rows:
    """Rows of the unit in ``t``, as Python has values: one of several lots of them.

    Some lots have each odd value alone, others many at random, one very many ordinary rows.
    """
    rng = random.Random(f"unit {variant}")
    if variant % 4 == 3:
        return [(TARGET, i % 20, 1.0, f"{MARKS[0]}{i}", _D[0], _TS[i % 2]) for i in range(300)]
    usual = (3, 1.0, "s2", datetime.date(2026, 1, 3), datetime.datetime(2026, 1, 2, 7))
    rows: Rows = []
    for place, values in enumerate((_I32, _F64, _S, _D, _TS)):
        if variant % 4 == 0 or rng.random() < 0.5:
            rows += [(TARGET, *usual[:place], v, *usual[place + 1 :]) for v in values]
    if variant % 4:
        rows += [
            (TARGET, *(rng.choice(values) for values in (_I32, _F64, _S, _D, _TS)))
            for _ in range(20)
        ]
    return rows


def other_rows(variant: int) -> dict[str, Rows]:
    """Rows of the unit in the other private tables."""
    rng = random.Random(f"others {variant}")
    o: Rows = [(TARGET, 9000 + i, rng.choice(_F64)) for i in range(3)]
    l: Rows = [(9000 + i % 3, rng.choice(_I32)) for i in range(rng.choice((1, 40)))]
    return {"o": o, "l": l}


_SQL: Final = {  # values that Python has none for, as DuckDB writes them
    "i32": ("'2147483647'", "'-2147483648'", "0", MARKS[1]),
    "f64": ("'nan'", "'-inf'", "1e308", "5e-324", "-0.0"),
    "s": (f"'{MARKS[0]}'", "''", "repeat('9', 5000)", "chr(0)", "'\U0010ffff'"),
    "d": ("'5877642-06-25 (BC)'", "'5881580-07-10'", "'infinity'", "'-infinity'", "'0001-01-01'"),
    "ts": ("'infinity'", "'-infinity'", "'290309-12-22 (BC)'", "'294247-01-10 04:00:54.775806'"),
}


def unit_sql(variant: int) -> list[str]:
    """Further rows of the unit in ``t``, as VALUES of DuckDB's."""
    rng = random.Random(f"sql {variant}")
    types = dict(T)
    usual = {"i32": "4", "f64": "1", "s": "'s3'", "d": "'2026-01-04'", "ts": "'2026-01-03 10:00'"}
    rows = []
    for name, values in _SQL.items():
        for value in values:
            rows.append(usual | {name: value})
    rows += [{name: rng.choice(values) for name, values in _SQL.items()} for _ in range(10)]
    return [
        f"({TARGET}, {', '.join(f'CAST({row[n]} AS {types[n]})' for n in _SQL)})" for row in rows
    ]
