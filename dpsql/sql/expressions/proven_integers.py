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
from functools import partial
from typing import TypeAlias

from dpsql.core.sql import Sql, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused

MOST_ROWS = 2**40
"""Rows that there can be, and units: beyond any one machine's disk."""

_NARROW = (-(2**63), 2**63 - 1)
_EXACT_DOUBLES = 2**52


@dataclass(frozen=True, slots=True)
class Ranged:
    """An integer expression: NULL or a value from ``low`` to ``high``, and never an error.

    It is of the dialect's wide type if ``wide``, else of 64 bits. ``parts`` are what it was built
    of; columns and aggregates have none. Raises ``QueryRefused`` where no type holds the range.
    """

    sql: Sql
    low: int
    high: int
    wide: bool = False
    parts: tuple[Ranged, ...] = field(default=(), compare=False, repr=False)
    dialect: Dialect = field(compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError("a range has its lower end first")
        _refuse_beyond(self.low, self.high, self.dialect.widest if self.wide else _NARROW)

    @property
    def type(self) -> SqlType:
        """The engine's type of the values."""
        return self.dialect.integer_type(wide=self.wide)

    def _made(self, text: Sql, low: int, high: int, wide: bool, *parts: Ranged | int) -> Ranged:
        """Build an expression of this one and of others."""
        built_of = (self, *[part for part in parts if isinstance(part, Ranged)])
        return Ranged(text, low, high, wide, built_of, dialect=self.dialect)

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Ranged | int) -> Ranged:
        low, high = _ends(other)
        return self._with(_joined_by(sql("+")), other, self.low + low, self.high + high)

    def __sub__(self, other: Ranged | int) -> Ranged:
        low, high = _ends(other)
        return self._with(_joined_by(sql("-")), other, self.low - high, self.high - low)

    def __mul__(self, other: Ranged | int) -> Ranged:
        corners = [a * b for a in (self.low, self.high) for b in _ends(other)]
        return self._with(_joined_by(sql("*")), other, min(corners), max(corners))

    def squared(self) -> Ranged:
        """Square the value, which makes it never negative."""
        product = self * self
        corners = (self.low**2, self.high**2)
        least = 0 if self.low <= 0 <= self.high else min(corners)
        return replace(product, low=least, high=max(corners))

    def __floordiv__(self, divisor: Ranged | int) -> Ranged:
        """Divide by something positive, rounding towards zero."""
        _check_positive(divisor)
        corners = [_quotient(a, b) for a in (self.low, self.high) for b in _ends(divisor)]
        return self._with(self._divided(divisor), divisor, min(corners), max(corners))

    def __rfloordiv__(self, dividend: int) -> Ranged:
        _check_positive(self)
        corners = [_quotient(dividend, b) for b in (self.low, self.high)]
        wide = self.wide or not _within(dividend, dividend, _NARROW)
        text = self.dialect.divided(self._constant(dividend), self.sql, wide=wide)
        return self._made(text, min(corners), max(corners), wide)

    def _divided(self, divisor: Ranged | int) -> _Spelled:
        """Return the division for this width: a quotient is no wider than its operands."""
        return partial(self.dialect.divided, wide=self.wide or _is_wide(divisor))

    def __mod__(self, divisor: Ranged | int) -> Ranged:
        """Compute the remainder of division by a positive number, with the sign of the dividend."""
        _check_positive(divisor)
        most = _ends(divisor)[1] - 1
        low, high = max(-most, min(self.low, 0)), min(most, max(self.high, 0))
        return self._with(self.dialect.remainder, divisor, low, high)

    def root(self) -> Ranged:
        """Compute the square root, rounded down; of integers that doubles hold exactly."""
        if not 0 <= self.low <= self.high < _EXACT_DOUBLES:
            raise ValueError("roots are exact below 2**52 only")
        low, high = math.isqrt(self.low), math.isqrt(self.high)
        return self._made(self.dialect.root(self.sql), low, high, False)

    def _with(self, spelled: _Spelled, other: Ranged | int, low: int, high: int) -> Ranged:
        """Combine two operands, the first of them widened if the result needs it."""
        wide = self.wide or not _within(low, high, _NARROW) or _is_wide(other)
        left = self.widened().sql if wide and not _is_wide(other) else self.sql
        return self._made(spelled(left, self._operand(other)), low, high, wide, other)

    def _operand(self, value: Ranged | int) -> Sql:
        """Write the right operand of a sign."""
        if isinstance(value, Ranged):
            return value.sql
        text = self._constant(value)
        return sql("({})", text) if -(2**63) < value < 0 else text  # two signs begin a comment

    def _constant(self, value: int) -> Sql:
        """Write a literal in the type of its neighbour; wider if the value needs it."""
        if abs(value) < 2**63:
            return self.dialect.integer(value)
        _refuse_beyond(value, value, self.dialect.widest)
        return self.dialect.wide_literal(value)

    # -- limits -------------------------------------------------------------------------------

    def at_most(self, most: int) -> Ranged:
        """Return the value, or ``most`` if it is larger."""
        text = self.dialect.least(self.sql, self._constant(most))
        return self._limited(text, min(self.low, most), min(self.high, most), most)

    def larger(self, other: Ranged) -> Ranged:
        """Return the larger of two values, neither of which is NULL."""
        one, two = (self, other) if self.wide == other.wide else (self.widened(), other.widened())
        text = self.dialect.greatest(one.sql, two.sql)
        low, high = max(self.low, other.low), max(self.high, other.high)
        return one._made(text, low, high, one.wide, two)

    def clamped(self, low: int, high: int) -> Ranged:
        """Return the nearest value from ``low`` to ``high``. Of NULL it is ``high``."""
        text = self.dialect.least(self._constant(high), self.sql)
        text = self.dialect.greatest(self._constant(low), text)
        return self._limited(text, low, high, low, high)

    def _limited(self, text: Sql, low: int, high: int, *ends: int) -> Ranged:
        wide = self.wide or any(map(_is_wide, ends))
        return self._made(text, low, high, wide)

    def or_zero(self) -> Ranged:
        """Return the value, 0 for NULL."""
        low, high = min(0, self.low), max(0, self.high)
        return self._made(sql("coalesce({}, 0)", self.sql), low, high, self.wide)

    def split(
        self, limit: int, lower: Ranged | int, above: Callable[[Ranged], Ranged | int]
    ) -> Ranged:
        """Choose ``lower`` where the value is at most ``limit``, else the result of ``above``.

        There the value is known to be larger.
        """
        beyond = above(replace(self, low=max(self.low, limit + 1)))
        (low, high), (least, most) = _ends(lower), _ends(beyond)
        text = sql(
            "CASE WHEN {self} <= {} THEN {} ELSE {} END",
            self._constant(limit),
            self._operand(lower),
            self._operand(beyond),
            self=self.sql,
        )
        wide = _is_wide(lower) or _is_wide(beyond)
        return self._made(text, min(low, least), max(high, most), wide, lower, beyond)

    # -- names, types, rows -------------------------------------------------------------------

    def named(self, name: Sql) -> Ranged:
        """Return the column ``name`` that holds these values."""
        return Ranged(name, self.low, self.high, self.wide, dialect=self.dialect)

    def unless_null(self, name: Sql) -> Ranged:
        """Return the value where the column ``name`` is not NULL, else NULL."""
        return self.only_if(sql("{} IS NOT NULL", name))

    def only_if(self, condition: Sql) -> Ranged:
        """Return the value where something holds, else NULL."""
        return replace(
            self, sql=sql("CASE WHEN {} THEN {} END", condition, self.sql), parts=(self,)
        )

    def widened(self) -> Ranged:
        """Return the same value in the wide type."""
        return self if self.wide else self._cast(wide=True)

    def narrowed(self) -> Ranged:
        """Return the same value in 64 bits if the range fits them."""
        fits = _within(self.low, self.high, _NARROW)
        return self._cast(wide=False) if self.wide and fits else self

    def _cast(self, *, wide: bool) -> Ranged:
        text = self.dialect.cast(self.sql, self.dialect.integer_type(wide=wide))
        return self._made(text, self.low, self.high, wide)

    def sum(self, *, distinct: bool = False) -> Ranged:
        """Sum the values over rows, or each once; NULL where all of them are."""
        low, high = min(self.low, MOST_ROWS * self.low), max(self.high, MOST_ROWS * self.high)
        text = self.dialect.sum(self.sql, wide=self.wide, distinct=distinct)
        return Ranged(text, low, high, True, dialect=self.dialect)

    def sum_over(self, divisor: int) -> Ranged:
        """Sum over rows, 0 for none, divided by a power of two and rounded towards zero.

        Where the sum itself fits no type, values are divided as far as needed before they are
        added. One row of at most r then still moves the result by at most r // ``divisor`` + 1.
        """
        first = 1
        while first < divisor and not self._summable(first):
            first *= 2
        values = self if first == 1 else self // first
        total = values.sum().or_zero()
        return total if divisor == first else total // (divisor // first)

    def _summable(self, divisor: int) -> bool:
        """Tell whether the sum over rows fits the wide type once values are divided."""
        ends = (_quotient(end, divisor) * MOST_ROWS for end in (self.low, self.high))
        return all(_within(end, end, self.dialect.widest) for end in ends)

    def fits_times(self, factor: int) -> bool:
        """Tell whether a product with something positive fits the wide type."""
        low, high = self.dialect.widest
        return low <= self.low * factor and self.high * factor <= high


def column(name: Sql, low: int, high: int, *, wide: bool = False, dialect: Dialect) -> Ranged:
    """Return a column, or an expression whose values are made sure of elsewhere."""
    return Ranged(name, low, high, wide, dialect=dialect)


def count(of: Sql, *, dialect: Dialect) -> Ranged:
    """Count the rows that have a value: ``count(of)``."""
    return Ranged(sql("count({})", of), 0, MOST_ROWS, dialect=dialect)


_Spelled: TypeAlias = Callable[[Sql, Sql], Sql]


def _joined_by(sign: Sql) -> _Spelled:
    """Return how two operands are written with a sign that all dialects share."""
    return lambda left, right: sql("({} {} {})", left, sign, right)


def _within(low: int, high: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= low and high <= limits[1]


def _refuse_beyond(low: int, high: int, limits: tuple[int, int]) -> None:
    if not _within(low, high, limits):
        raise QueryRefused(
            "with these bounds sums could exceed the largest integers the engine has",
            code="bounds_too_large",
            hint="Bring the bounds per row and per group closer together in size.",
        )


def _ends(value: Ranged | int) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value.low, value.high)


def _is_wide(value: Ranged | int) -> bool:
    return not _within(value, value, _NARROW) if isinstance(value, int) else value.wide


def _quotient(dividend: int, divisor: int) -> int:
    """Divide as SQL does, towards zero."""
    size = abs(dividend) // divisor
    return size if dividend >= 0 else -size


def _check_positive(divisor: Ranged | int) -> None:
    if _ends(divisor)[0] < 1:
        raise ValueError("divisors are positive")
