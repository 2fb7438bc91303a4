"""Typed values of row expressions, with DuckDB's types on every engine.

What ``+`` means, and how it can fail, is a matter of types. So each value is written with its type,
and what operands become and results are is said here once: for DuckDB, which no engine changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dpsql.core.sql import Sql
from dpsql.core.sql_types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, SqlType
from dpsql.syntax.row_functions import MOMENTS

UNTYPED: Final = SqlType.of("NULL")
"""The type of an untyped NULL."""
INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""The kinds of integers, from narrow to wide."""
EXACT: Final = frozenset({*INTEGERS, "DECIMAL"})
MOST_DIGITS: Final = 38
MOST_OF_COMPUTED: Final = 100
"""Bytes of a pattern of LIKE that columns are part of."""
PIECES_BETWEEN: Final = "%.*%.*[^%]"
"""A regular expression of patterns of LIKE with a piece between two %, for which all is tried."""
MOST_TEXT_BYTES: Final = 2**19
"""Bytes that no text has on a server: of 1664, as many as a row of PostgreSQL has, a gigabyte."""
BLANKS: Final = "".join(
    map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))
)
"""What DuckDB trims: all separators of Unicode that are spaces, no tabs, no ends of lines."""
_SHORT: Final = 18  # digits of a decimal that 64 bits hold


@dataclass(frozen=True, slots=True)
class TypedValue:
    """An expression in an engine's SQL that never raises, of a type of the schema.

    ``constant`` is that of a literal, whose type is not settled. ``fails`` where it may be NULL for
    having failed, as TRY would make it.
    """

    sql: Sql
    type: SqlType
    constant: int | str | None = field(default=None, compare=False)
    fails: bool = False

    @property
    def is_literal(self) -> bool:
        """True for a constant as written, before its type is settled."""
        return self.constant is not None

    @property
    def kind(self) -> str:
        """The type without its arguments."""
        return self.type.kind

    @property
    def settled(self) -> TypedValue:
        """The value with a settled type: no longer a literal."""
        return replace(self, constant=None)


def number_type(text: str) -> SqlType | None:
    """Return the type of a written number; None for too many digits.

    >>> [str(number_type(text)) for text in ("7", "-2147483648", "1.50", "1e3")]
    ['INTEGER', 'INTEGER', 'DECIMAL(3,2)', 'DOUBLE']
    """
    unsigned = text.lstrip("-")
    if "e" in unsigned.lower():
        return DOUBLE
    if "." not in unsigned:
        return next((t for t in (INTEGER, BIGINT) if t.ends[0] <= int(text) <= t.ends[1]), None)
    before, after = unsigned.split(".")
    width = len(before) + len(after)  # zeros in front of a number count, too
    return None if width > MOST_DIGITS else SqlType.decimal(width, len(after))


def shared_type(values: Sequence[TypedValue]) -> SqlType | None:
    """Find the common type of several values; None without one.

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


def _is_one_of(value: TypedValue, type_: SqlType) -> bool:
    if type_.kind not in INTEGERS or not isinstance(value.constant, int):
        return False
    low, high = type_.ends
    return low <= value.constant <= high


def _common(given: Iterable[SqlType]) -> SqlType | None:
    """Find the type that values are widened to; UNTYPED without typed values."""
    types = dict.fromkeys(type_ for type_ in given if type_ != UNTYPED)
    kinds = {type_.kind for type_ in types}
    if len(types) <= 1:
        return next(iter(types), UNTYPED)
    if kinds <= set(INTEGERS):
        return max(types, key=lambda type_: type_.digits)
    if kinds <= EXACT:
        shapes = [type_.digits for type_ in types]
        scale = max(scale for _, scale in shapes)
        width = max(width - scale for width, scale in shapes) + scale
        return SqlType.decimal(width, scale) if width <= MOST_DIGITS else None
    if kinds <= {*EXACT, "DOUBLE"} or kinds == {"FLOAT", "DOUBLE"}:
        return DOUBLE
    return TIMESTAMP if kinds == set(MOMENTS) else None


def exact_decimal(sign: str, one: SqlType, two: SqlType) -> tuple[int, int]:
    """Return the digits, in all and of the fraction, that hold each sum or product of two types."""
    (width, scale), (other, places) = one.digits, two.digits
    if sign == "*":
        return width + other, scale + places
    most = max(scale, places)
    return max(width - scale, other - places) + most + 1, most


def decimal_result(sign: str, one: SqlType, two: SqlType) -> SqlType | None:
    """Find DuckDB's type for a sum, difference or product of decimals; None without one.

    A product of two that have 64 bits has 64 bits as well, which hold 18 digits.
    """
    if sign not in ("+", "-", "*"):
        return None
    width, scale = exact_decimal(sign, one, two)
    if scale > MOST_DIGITS:
        return None
    short = sign == "*" and max(one.digits[0], two.digits[0]) <= _SHORT
    return SqlType.decimal(min(width, _SHORT if short and scale < _SHORT else MOST_DIGITS), scale)
