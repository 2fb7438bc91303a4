"""The schema of a database: names of tables, names and types of columns, never a row.

A schema is a mapping from a table's key to :class:`Table`. Types are DuckDB's own text
(``BIGINT``, ``VARCHAR``, ``DECIMAL(18,3)``); every engine translates its types to that text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from dpsql.core.table_name import NameRules, TableName
from dpsql.core.table_name import fold as fold

INTEGER_BITS: Mapping[str, tuple[bool, int]] = {
    "TINYINT": (True, 8),
    "SMALLINT": (True, 16),
    "INTEGER": (True, 32),
    "BIGINT": (True, 64),
    "HUGEINT": (True, 128),
    "UTINYINT": (False, 8),
    "USMALLINT": (False, 16),
    "UINTEGER": (False, 32),
    "UBIGINT": (False, 64),
    "UHUGEINT": (False, 128),
}
"""Integer type -> (signed, bits)."""

_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_TEXTS = frozenset({"VARCHAR", "ENUM"})
_MOMENTS = frozenset(
    {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"}
)
_TEMPORALS = _MOMENTS | {"TIME", "TIME_NS", "TIME WITH TIME ZONE"}
_ALIASES: Mapping[str, str] = {
    "INT": "INTEGER",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT4": "INTEGER",
    "INT8": "BIGINT",
    "LONG": "BIGINT",
    "SHORT": "SMALLINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR",
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name, as the database spells it, and its DuckDB type text.

    ``collated`` columns compare text in a way that makes different values equal.
    """

    name: str
    type: str
    collated: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a table or view, such as why it cannot be read, with a hint."""

    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A column that dpsql does not read, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A table or view and its columns in order. A name that is a text has no schema.

    One that is ``unreadable`` cannot be listed in a policy. ``left_out`` are columns it has in the
    database and not here.
    """

    name: TableName
    columns: tuple[Column, ...]
    is_view: bool = False
    unreadable: Remark | None = None
    left_out: tuple[LeftOut, ...] = ()
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: TableName | str,
        columns: tuple[Column, ...],
        is_view: bool = False,
        unreadable: Remark | None = None,
        left_out: tuple[LeftOut, ...] = (),
    ) -> None:
        known: dict[str, object] = {
            "name": TableName.of(name),
            "columns": columns,
            "is_view": is_view,
        }
        known |= {"unreadable": unreadable, "left_out": left_out}
        # Of two columns with one name, the first.
        known["_by_name"] = {fold(column.name): column for column in reversed(columns)}
        for each, value in known.items():
            object.__setattr__(self, each, value)

    def column(self, name: str) -> Column | None:
        """Find the column of that name, compared as DuckDB does (ignoring ASCII case), or None."""
        return self._by_name.get(fold(name))


Schema: TypeAlias = Mapping[str, Table]
"""Key of a table's name -> Table."""


def schema_of(*tables: Table) -> Schema:
    """Return the schema holding these tables, by the keys of their names."""
    return {table.name.key: table for table in tables}


def rules_of(schema: Schema, catalog: str, listed: Iterable[TableName]) -> NameRules:
    """Build the rules by which names of tables are resolved in a database with this schema."""
    return NameRules.of((table.name for table in schema.values()), catalog, listed)


@lru_cache(maxsize=1024)
def base_type(type_text: str) -> str:
    """Return the type without its arguments, aliases resolved: ``numeric(9, 2)`` -> ``DECIMAL``.

    Nested types keep what makes them nested, so that none of the tests below accepts them:
    ``INTEGER[]`` -> ``INTEGER[]``, ``STRUCT(a INTEGER)`` -> ``STRUCT``.
    """
    text = type_text.strip()
    if text.endswith("]"):
        return text.upper()
    name = text.split("(", 1)[0].strip().upper()
    return _ALIASES.get(name, name)


def is_integer(type_text: str) -> bool:
    """Tell whether a type is an integer of fixed width, signed or not."""
    return base_type(type_text) in INTEGER_BITS


def is_huge_integer(type_text: str) -> bool:
    """Tell whether a type is an integer of more than 64 bits, signed or not."""
    return INTEGER_BITS.get(base_type(type_text), (True, 0))[1] > 64


def is_float(type_text: str) -> bool:
    """Tell whether a type is FLOAT or DOUBLE, which can hold NaN and infinities."""
    return base_type(type_text) in _FLOATS


def is_decimal(type_text: str) -> bool:
    """Tell whether a type is DECIMAL, of any width and scale."""
    return base_type(type_text) == "DECIMAL"


_DECIMAL_SIZE = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def exact_digits(type_text: str) -> tuple[int, int] | None:
    """Count the digits before and behind the point that the values of an exact type need.

    None for types that are neither integers nor a DECIMAL with its width and scale.

    >>> exact_digits("INTEGER"), exact_digits("DECIMAL(18,3)"), exact_digits("DOUBLE")
    ((10, 0), (15, 3), None)
    """
    if type_text in INTEGER_BITS:
        signed, bits = INTEGER_BITS[type_text]
        return len(str(2 ** (bits - signed))), 0
    found = _DECIMAL_SIZE.fullmatch(type_text)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def is_numeric(type_text: str) -> bool:
    """Tell whether a type is an integer, float or decimal: one that can carry bounds."""
    return is_integer(type_text) or is_float(type_text) or is_decimal(type_text)


def is_text(type_text: str) -> bool:
    """Tell whether a type is VARCHAR or ENUM, whose values are written as text."""
    return base_type(type_text) in _TEXTS


def is_temporal(type_text: str) -> bool:
    """Tell whether a type is a date, time or timestamp (INTERVAL is a duration, no moment)."""
    return base_type(type_text) in _TEMPORALS


def is_moment(type_text: str) -> bool:
    """Tell whether a type is a date or timestamp, which says when: a time alone does not."""
    return base_type(type_text) in _MOMENTS


def same_values(one: str, other: str) -> bool:
    """Tell whether values of the two types are compared as what they are.

    Otherwise one is cast, which can fail, or make two values equal: 2^53 and 2^53 + 1 are the same
    DOUBLE, and HUGEINT meets UHUGEINT there.
    """
    if one == other:
        return True
    kinds = {base_type(one), base_type(other)}
    return kinds <= INTEGER_BITS.keys() and not kinds & {"HUGEINT", "UHUGEINT"}


class Spellings(Enum):
    """How many ways there are to write values that compare as equal.

    Grouping keeps the spelling that it meets first, which depends on all rows and on the plan that
    the engine chose for them.
    """

    ONE = "one"
    FLOATS = "floats"  # 0.0 and -0.0, NaN with or without a sign
    DURATIONS = "durations"  # 30 days or a month
    NESTED = "nested"  # of values inside a value, which nothing changes


_SEVERAL = frozenset({"FLOAT", "DOUBLE", "REAL", "INTERVAL", "VARIANT"})


def spellings_of(type_text: str) -> Spellings:
    """Tell which values of a type are equal and look different."""
    kind = base_type(type_text)
    if is_float(kind):
        return Spellings.FLOATS
    if kind == "INTERVAL":
        return Spellings.DURATIONS
    nested = kind.endswith("]") or kind in ("STRUCT", "MAP", "UNION", "VARIANT")
    parts = re.split(r"[^A-Z0-9]+", type_text.upper())
    return Spellings.ONE if not nested or _SEVERAL.isdisjoint(parts) else Spellings.NESTED


def has_one_spelling(type_text: str) -> bool:
    """Tell whether a dialect can give equal values one spelling; nested types may have several."""
    return spellings_of(type_text) is not Spellings.NESTED
