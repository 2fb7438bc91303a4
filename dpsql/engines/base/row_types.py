"""Typed values of row expressions, with DuckDB's types on every engine.

What ``+`` means, and how it can fail, is a matter of types. So each value is written with its type,
and what operands become and results are is said here once: for DuckDB, which no engine changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dpsql.core.schema import base_type
from dpsql.core.sql import Sql
from dpsql.syntax.row_functions import MOMENTS

UNTYPED: Final = "NULL"
"""The type of an untyped NULL."""
INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""The integer types, from narrow to wide."""
EXACT: Final = frozenset({*INTEGERS, "DECIMAL"})
MOST_DIGITS: Final = 38
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
INTEGER_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Decimal digits that hold every integer of a type."""
_SHORT: Final = 18  # digits of a decimal that 64 bits hold


@dataclass(frozen=True, slots=True)
class TypedValue:
    """An expression in an engine's SQL that never raises, of a type of the schema.

    ``constant`` is that of a literal, whose type is not settled. ``fails`` where it may be NULL for
    having failed, as TRY would make it.
    """

    sql: Sql
    type: str
    constant: int | str | None = field(default=None, compare=False)
    fails: bool = False

    @property
    def is_literal(self) -> bool:
        """True for a constant as written, before its type is settled."""
        return self.constant is not None

    @property
    def kind(self) -> str:
        """The type without its arguments."""
        return base_type(self.type)

    @property
    def settled(self) -> TypedValue:
        """The value with a settled type: no longer a literal."""
        return replace(self, constant=None)


def ends(type_: str) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    bits = _BITS[type_]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def decimal_of(type_: str) -> tuple[int, int]:
    """Return the digits of a DECIMAL in all, and of its fraction; of integers as well.

    >>> decimal_of("DECIMAL(12,2)"), decimal_of("INTEGER")
    ((12, 2), (10, 0))
    """
    kind = base_type(type_)
    if kind in INTEGER_DIGITS:
        return INTEGER_DIGITS[kind], 0
    found = [int(number) for number in re.findall(r"\d+", type_)]
    return (found[0], found[1] if len(found) > 1 else 0) if found else (18, 3)


def number_type(text: str) -> str | None:
    """Name the type of a written number; None for too many digits.

    >>> [number_type(text) for text in ("7", "-2147483648", "1.50", "1e3")]
    ['INTEGER', 'INTEGER', 'DECIMAL(3,2)', 'DOUBLE']
    """
    unsigned = text.lstrip("-")
    if "e" in unsigned.lower():
        return "DOUBLE"
    if "." not in unsigned:
        return next((t for t in INTEGERS[2:] if ends(t)[0] <= int(text) <= ends(t)[1]), None)
    before, after = unsigned.split(".")
    width = len(before) + len(after)  # zeros in front of a number count, too
    return None if width > MOST_DIGITS else f"DECIMAL({width},{len(after)})"


def shared_type(values: Sequence[TypedValue]) -> str | None:
    """Name the common type of several values; None without one.

    Columns decide before constants do: an integer that fits a column's type becomes one of it, and
    a text is read as whatever the others are.
    """
    target = _common(value.type for value in values if not value.is_literal)
    literals = [value for value in values if value.is_literal]
    if target == UNTYPED:
        return _common(value.type for value in literals)
    for value in literals:
        if target is None:
            return None
        if value.kind != "VARCHAR" and not _is_one_of(value, target):
            target = _common((target, value.type))
    return target


def _is_one_of(value: TypedValue, type_: str) -> bool:
    if type_ not in INTEGERS or not isinstance(value.constant, int):
        return False
    low, high = ends(type_)
    return low <= value.constant <= high


def _common(given: Iterable[str]) -> str | None:
    """Name the type that values are widened to; UNTYPED without typed values."""
    types = dict.fromkeys(type_ for type_ in given if type_ != UNTYPED)
    kinds = {base_type(type_) for type_ in types}
    if len(types) <= 1:
        return next(iter(types), UNTYPED)
    if kinds <= set(INTEGERS):
        return max(types, key=INTEGERS.index)
    if kinds <= EXACT:
        shapes = [decimal_of(type_) for type_ in types]
        scale = max(scale for _, scale in shapes)
        width = max(width - scale for width, scale in shapes) + scale
        return f"DECIMAL({width},{scale})" if width <= MOST_DIGITS else None
    if kinds <= {*EXACT, "DOUBLE"} or kinds == {"FLOAT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if kinds == set(MOMENTS) else None


def exact_decimal(sign: str, one: str, two: str) -> tuple[int, int]:
    """Return the digits, in all and of the fraction, that hold each sum or product of two types."""
    (width, scale), (other, places) = decimal_of(one), decimal_of(two)
    if sign == "*":
        return width + other, scale + places
    most = max(scale, places)
    return max(width - scale, other - places) + most + 1, most


def decimal_result(sign: str, one: str, two: str) -> str | None:
    """Name DuckDB's type for a sum, difference or product of decimals; None without one.

    A product of two that have 64 bits has 64 bits as well, which hold 18 digits.
    """
    if sign not in ("+", "-", "*"):
        return None
    width, scale = exact_decimal(sign, one, two)
    if scale > MOST_DIGITS:
        return None
    short = sign == "*" and max(decimal_of(one)[0], decimal_of(two)[0]) <= _SHORT
    return f"DECIMAL({min(width, _SHORT if short and scale < _SHORT else MOST_DIGITS)},{scale})"
