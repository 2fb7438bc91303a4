"""Integer expressions of generated SQL that cannot overflow, whatever the rows hold.

An engine raises where an integer does not fit its type, and whether it does must not depend on
private rows. So the integers of a rewriting are not written as text: they are built of values whose
ranges are known, and every step computes the range of its result, takes the narrower of two types
that holds it, and refuses what fits neither. There is no expression without this.

It holds for up to ``MOST_ROWS`` rows, and as many units, in every table that a query reads or makes
on its way. Checked against the engine by ``tests/sql/test_ranged.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dpsql.errors import QueryRefused

MOST_ROWS = 2**40
"""Rows that there can be, and units: beyond any one machine's disk."""

_NARROW = (-(2**63), 2**63 - 1)
_WIDE = (-(2**127) + 1, 2**127 - 1)  # the engine's products stop short of the minimum
_EXACT_DOUBLES = 2**52


@dataclass(frozen=True, slots=True)
class Ranged:
    """An integer expression: NULL or a value from ``low`` to ``high``, and never an error.

    It is of type HUGEINT if ``wide``, else of BIGINT. ``parts`` are what it was built of; columns
    and aggregates have none. Raises ``QueryRefused`` where no type holds the range.
    """

    sql: str
    low: int
    high: int
    wide: bool = False
    parts: tuple[Ranged, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError("a range has its lower end first")
        if not _within(self.low, self.high, _WIDE if self.wide else _NARROW):
            raise QueryRefused(
                "with these bounds sums could exceed the largest integers the engine has",
                code="bounds_too_large",
                hint="Bring the bounds per row and per group closer together in size.",
            )

    @property
    def type(self) -> str:
        """The engine's type of the values."""
        return "HUGEINT" if self.wide else "BIGINT"

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Ranged | int) -> Ranged:
        low, high = _ends(other)
        return self._with("+", other, self.low + low, self.high + high)

    def __sub__(self, other: Ranged | int) -> Ranged:
        low, high = _ends(other)
        return self._with("-", other, self.low - high, self.high - low)

    def __mul__(self, other: Ranged | int) -> Ranged:
        corners = [a * b for a in (self.low, self.high) for b in _ends(other)]
        return self._with("*", other, min(corners), max(corners))

    def squared(self) -> Ranged:
        """The square, which is never negative."""
        product = self * self
        corners = (self.low**2, self.high**2)
        least = 0 if self.low <= 0 <= self.high else min(corners)
        return replace(product, low=least, high=max(corners))

    def __floordiv__(self, divisor: Ranged | int) -> Ranged:
        """The quotient by something positive, rounded towards zero."""
        _check_positive(divisor)
        corners = [_quotient(a, b) for a in (self.low, self.high) for b in _ends(divisor)]
        return self._with("//", divisor, min(corners), max(corners))

    def __rfloordiv__(self, dividend: int) -> Ranged:
        _check_positive(self)
        corners = [_quotient(dividend, b) for b in (self.low, self.high)]
        wide = self.wide or not _within(dividend, dividend, _NARROW)
        text = f"({_constant(dividend)} // {self.sql})"
        return Ranged(text, min(corners), max(corners), wide, (self,))

    def __mod__(self, divisor: Ranged | int) -> Ranged:
        """What division by something positive leaves, with the sign of the dividend."""
        _check_positive(divisor)
        most = _ends(divisor)[1] - 1
        low, high = max(-most, min(self.low, 0)), min(most, max(self.high, 0))
        return self._with("%", divisor, low, high)

    def root(self) -> Ranged:
        """The square root, rounded down; of integers that doubles hold exactly."""
        if not 0 <= self.low <= self.high < _EXACT_DOUBLES:
            raise ValueError("roots are exact below 2**52 only")
        text = f"CAST(floor(sqrt({self.sql})) AS BIGINT)"
        return Ranged(text, math.isqrt(self.low), math.isqrt(self.high), False, (self,))

    def _with(self, sign: str, other: Ranged | int, low: int, high: int) -> Ranged:
        """Two operands, the first of them widened if the result needs it."""
        wide = self.wide or not _within(low, high, _NARROW) or _is_wide(other)
        left = self.widened().sql if wide and not _is_wide(other) else self.sql
        parts = (self, other) if isinstance(other, Ranged) else (self,)
        return Ranged(f"({left} {sign} {_operand(other)})", low, high, wide, parts)

    # -- limits -------------------------------------------------------------------------------

    def at_most(self, most: int) -> Ranged:
        """The value, or ``most`` if it is larger."""
        text = f"least({self.sql}, {_constant(most)})"
        return self._limited(text, min(self.low, most), min(self.high, most), most)

    def clamped(self, low: int, high: int) -> Ranged:
        """The nearest value from ``low`` to ``high``. Of NULL it is ``high``."""
        text = f"greatest({_constant(low)}, least({_constant(high)}, {self.sql}))"
        return self._limited(text, low, high, low, high)

    def _limited(self, text: str, low: int, high: int, *ends: int) -> Ranged:
        wide = self.wide or any(map(_is_wide, ends))
        return Ranged(text, low, high, wide, (self,))

    def or_zero(self) -> Ranged:
        """The value, 0 for NULL."""
        low, high = min(0, self.low), max(0, self.high)
        return Ranged(f"coalesce({self.sql}, 0)", low, high, self.wide, (self,))

    def split(
        self, limit: int, lower: Ranged | int, above: Callable[[Ranged], Ranged | int]
    ) -> Ranged:
        """``lower`` where the value is at most ``limit``, else what ``above`` makes of it.

        There the value is known to be larger.
        """
        beyond = above(replace(self, low=max(self.low, limit + 1)))
        (low, high), (least, most) = _ends(lower), _ends(beyond)
        text = (
            f"CASE WHEN {self.sql} <= {_constant(limit)} THEN {_operand(lower)} "
            f"ELSE {_operand(beyond)} END"
        )
        parts = tuple(part for part in (self, lower, beyond) if isinstance(part, Ranged))
        wide = _is_wide(lower) or _is_wide(beyond)
        return Ranged(text, min(low, least), max(high, most), wide, parts)

    # -- names, types, rows -------------------------------------------------------------------

    def named(self, name: str) -> Ranged:
        """The column ``name`` that holds these values."""
        return Ranged(name, self.low, self.high, self.wide)

    def unless_null(self, name: str) -> Ranged:
        """The value where the column ``name`` is not NULL, else NULL."""
        return replace(self, sql=f"CASE WHEN {name} IS NOT NULL THEN {self.sql} END", parts=(self,))

    def widened(self) -> Ranged:
        """The same as a HUGEINT."""
        return self if self.wide else self._cast(wide=True)

    def narrowed(self) -> Ranged:
        """The same as a BIGINT if the range fits one."""
        fits = _within(self.low, self.high, _NARROW)
        return self._cast(wide=False) if self.wide and fits else self

    def _cast(self, *, wide: bool) -> Ranged:
        target = "HUGEINT" if wide else "BIGINT"
        return Ranged(f"CAST({self.sql} AS {target})", self.low, self.high, wide, (self,))

    def sum(self) -> Ranged:
        """The sum over rows; NULL where all values are."""
        low, high = min(self.low, MOST_ROWS * self.low), max(self.high, MOST_ROWS * self.high)
        return Ranged(f"sum({self.sql})", low, high, True)

    def sum_over(self, divisor: int) -> Ranged:
        """The sum over rows, 0 for none, divided by a power of two and rounded towards zero.

        Where the sum itself fits no type, values are divided as far as needed before they are
        added. One row of at most r then still moves the result by at most r // ``divisor`` + 1.
        """
        first = 1
        while first < divisor and not _summable(self, first):
            first *= 2
        values = self if first == 1 else self // first
        total = values.sum().or_zero()
        return total if divisor == first else total // (divisor // first)


def column(name: str, low: int, high: int, *, wide: bool = False) -> Ranged:
    """A column, or an expression whose values are made sure of elsewhere."""
    return Ranged(name, low, high, wide)


def count(of: str) -> Ranged:
    """How many rows have a value: ``count(of)``."""
    return Ranged(f"count({of})", 0, MOST_ROWS)


def double(value: float) -> str:
    """A literal of type DOUBLE with exactly this value. Without an exponent it were a DECIMAL."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _within(low: int, high: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= low and high <= limits[1]


def _summable(values: Ranged, divisor: int) -> bool:
    ends = (_quotient(end, divisor) * MOST_ROWS for end in (values.low, values.high))
    return all(_within(end, end, _WIDE) for end in ends)


def _ends(value: Ranged | int) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value.low, value.high)


def _is_wide(value: Ranged | int) -> bool:
    return not _within(value, value, _NARROW) if isinstance(value, int) else value.wide


def _quotient(dividend: int, divisor: int) -> int:
    """Division as SQL has it, towards zero."""
    size = abs(dividend) // divisor
    return size if dividend >= 0 else -size


def _check_positive(divisor: Ranged | int) -> None:
    if _ends(divisor)[0] < 1:
        raise ValueError("divisors are positive")


def _operand(value: Ranged | int) -> str:
    """What may stand on the right of a sign."""
    if isinstance(value, Ranged):
        return value.sql
    text = _constant(value)
    return f"({text})" if text.startswith("-") else text


def _constant(value: int) -> str:
    """A literal, which takes on the type of what it stands beside; HUGEINT if it has to."""
    return Ranged(str(value), value, value).sql if abs(value) < 2**63 else _huge(value)


def _huge(value: int) -> str:
    return Ranged(f"CAST('{value}' AS HUGEINT)", value, value, True).sql
