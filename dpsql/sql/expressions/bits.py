"""Bits of whole numbers, written as divisions and remainders, which every engine computes alike.

Of ``x & m`` the mask is a constant: each run of its bits, from ``2^a`` up to ``2^b``, is the rest
of ``x`` by ``2^b`` without that by ``2^a``. A number below 0 has the bits of its two's complement,
so rests are those from 0 on. None of them leaves the type of ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from dpsql.core.sql_types import SqlType
from dpsql.sql.expressions.silent_casts import TypeHere
from dpsql.syntax.arguments import extracted_part

_MOST_RUNS: Final = 4
_MOST_NODES: Final = 40
_HIGHEST: Final = 2**62
_BITS_OF_TYPES: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_LEAST_BITS: Final = 8  # of a whole number of whatever type
_WHOLE_BY_FORM: Final = (
    *(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.Hour, exp.Minute, exp.Second),
    *(exp.Length, exp.DateDiff),
)
_WHOLE_PARTS: Final = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second"}
    | {"dow", "isodow", "doy", "isoyear"}
)
"""Parts of moments that are whole numbers: seconds since 1970 and Julian days have fractions."""
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv)


def bits_of_both(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ``x & m`` with a constant mask, in the place of a node that has both."""
    found = _sides(node, type_of)
    return None if found is None else _masked(*found)


def bits_of_either(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ``x | m`` as ``x + (m - (x & m))``."""
    found = _sides(node, type_of)
    both = None if found is None else _masked(*found)
    if found is None or both is None:
        return None
    value, mask = found
    added = exp.Sub(this=_number(mask), expression=both)
    return exp.paren(exp.Add(this=value.copy(), expression=exp.paren(added)))


def bits_of_one(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ``xor(x, m)`` as ``(x - (x & m)) + (m - (x & m))``."""
    found = _sides(node, type_of)
    both = None if found is None else _masked(*found)
    if found is None or both is None:
        return None
    value, mask = found
    kept = exp.paren(exp.Sub(this=value.copy(), expression=both))
    added = exp.paren(exp.Sub(this=_number(mask), expression=both.copy()))
    return exp.paren(exp.Add(this=kept, expression=added))


def of_fewer_bits(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write chr(n) of any whole number as of an INTEGER: there is no character of a larger one."""
    number = node.this.unnest()
    bits = _bits(number, type_of)
    fits = isinstance(number, exp.Literal) or (isinstance(number, exp.Cast) and bits != 64)
    if bits is None or fits:
        return None
    made = node.copy()
    made.set("this", exp.cast(number.copy(), exp.DType.INT))
    return made


def shifted_right(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write ``x >> n`` as a division by ``2^n`` that rounds down."""
    value, places = node.this, _constant(node.expression)
    bits = None if places is None else _bits(value, type_of)
    if bits is None or places is None or not 0 < places < min(bits, _HIGHEST.bit_length()):
        return None
    if not _is_small(value):
        return None
    rest = exp.paren(exp.Sub(this=_operand(value), expression=_rest(value, 2**places)))
    return exp.paren(exp.IntDiv(this=rest, expression=_number(2**places)))


def shifted_left(node: exp.Expr, type_of: TypeHere) -> exp.Expr | None:
    """Write a constant ``1 << n``; one of a column overflows on some rows."""
    value, places = _constant(node.this), _constant(node.expression)
    if value is None or places is None or value < 0 or not 0 <= places < 31:
        return None
    found = value << places
    return _number(found) if found < 2**31 - 1 else None


def _constant(node: object) -> int | None:
    """Read a constant whole number."""
    if isinstance(node, exp.Paren):
        return _constant(node.this)
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _sides(node: exp.Expr, type_of: TypeHere) -> tuple[exp.Expr, int] | None:
    """Read the value, and the mask, on whichever side it stands."""
    for value, other in ((node.this, node.expression), (node.expression, node.this)):
        mask = _constant(other)
        if mask is not None and mask < _HIGHEST and _is_small(value):
            bits = _bits(value, type_of)
            if bits is not None and mask < 2 ** (bits - 1):
                return value, mask
    return None


def _is_small(value: exp.Expr) -> bool:
    """Tell whether a value may stand in several places."""
    return sum(1 for _ in value.walk()) <= _MOST_NODES


def _masked(value: exp.Expr, mask: int) -> exp.Expr | None:
    runs = list(_runs(mask))
    if len(runs) > _MOST_RUNS:
        return None
    if not runs:
        return exp.paren(exp.Mul(this=_operand(value), expression=_number(0)))
    parts = [_run(value, *run) for run in runs]
    found = parts[0]
    for part in parts[1:]:
        found = exp.Add(this=found, expression=part)
    return exp.paren(found) if len(parts) > 1 else found


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    """Yield the first bit of each run of a mask, and the one behind it."""
    place = 0
    while mask >> place:
        if mask >> place & 1:
            end = place
            while mask >> end & 1:
                end += 1
            yield place, end
            place = end
        else:
            place += 1


def _run(value: exp.Expr, first: int, end: int) -> exp.Expr:
    rest = _rest(value, 2**end)
    if not first:
        return rest
    whole = exp.paren(exp.IntDiv(this=rest, expression=_number(2**first)))
    return exp.paren(exp.Mul(this=whole, expression=_number(2**first)))


def _rest(value: exp.Expr, divisor: int) -> exp.Expr:
    """Write the rest of a division that rounds down, from 0 to below the divisor."""
    signed = exp.Mod(this=_operand(value), expression=_number(divisor))
    above = exp.paren(exp.Add(this=exp.paren(signed), expression=_number(divisor)))
    return exp.paren(exp.Mod(this=above, expression=_number(divisor)))


def _operand(value: exp.Expr) -> exp.Expr:
    value = value.copy()
    plain = isinstance(value, exp.Column | exp.Literal | exp.Paren | exp.Func)
    return value if plain else exp.paren(value)


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _bits(node: exp.Expr, type_of: TypeHere) -> int | None:
    """Return at least how many bits the type of a whole number has; None for other values."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return _BITS_OF_TYPES.get((type_of(node) or SqlType.of("ANY")).kind)
    if isinstance(node, exp.Cast):
        kind = {exp.DType.INT: 32, exp.DType.BIGINT: 64, exp.DType.SMALLINT: 16}
        return kind.get(node.to.this)
    if isinstance(node, _ARITHMETIC):
        sides = [_bits(each, type_of) for each in (node.this, node.expression)]
        known = [each for each in sides if each is not None]
        return max(known) if len(known) == len(sides) else None
    if isinstance(node, exp.Literal):
        return _LEAST_BITS if node.is_int else None
    if isinstance(node, exp.Extract):
        return _BITS_OF_TYPES["BIGINT"] if extracted_part(node.this) in _WHOLE_PARTS else None
    return _BITS_OF_TYPES["BIGINT"] if isinstance(node, _WHOLE_BY_FORM) else None
