"""Ranges of what an answer computes from several noisy values: post-processing.

A quotient of sums of counts and sums is placed by the noise of all of them together, as averages
are (:mod:`dpsql.accuracy.joint`): of q = N / D it is N - q D = 0 for the true values, and for noisy
ones with independent Gaussian noise a Gaussian number, whose variance q tells (Fieller 1954).
Anything else is put together from the ranges of its parts, which share the risk.

Where a divisor may be 0 no such range has an end; there the parts are held to ranges of their own,
for which a small part of the risk is left, and a count that is divided by is at least 1: of 0 there
is no quotient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.estimates import FloatArray, PlausibleRange
from dpsql.ir.terms import (
    AggregateTerm,
    ChoiceTerm,
    Comparing,
    ConstantTerm,
    KnownTerm,
    Operator,
    OperatorTerm,
    Term,
    TermComparison,
    parts_of,
)

_APART: Final = 0.05
"""The part of a quotient's risk that is left to its parts, where its divisor may be 0."""
_MOST_TOGETHER: Final = 6
"""The most aggregates whose noise is taken together: for each set of them there is a range."""
_Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TogetherNoise:
    """Noisy values of aggregates with independent Gaussian noise, by aggregate.

    ``margins`` are half the widths of their intervals, ``beyond`` is what bounding supposedly cuts.
    """

    values: Mapping[int, FloatArray]
    margins: Mapping[int, FloatArray]
    beyond: Mapping[int, FloatArray]


class AggregateNoise(Protocol):
    """The noise on the aggregates of a release."""

    def alone(self, aggregate: int, confidence: float) -> PlausibleRange:
        """Compute the range of one aggregate."""

    def are_joint(self, aggregates: Sequence[int]) -> bool:
        """Tell whether the noise of all is Gaussian, large and independent."""

    def together(self, aggregates: Sequence[int], confidence: float) -> TogetherNoise:
        """Return the values and margins of aggregates that are joint."""

    def counts(self, aggregate: int) -> bool:
        """Tell whether an aggregate counts something, so that none is between 0 and 1."""

    def is_positive(self, aggregate: int) -> bool:
        """Tell whether an aggregate cannot be negative."""

    def is_part(self, aggregate: int, of: int) -> bool:
        """Tell whether all that an aggregate counts is counted by another."""

    def known(self, known: int) -> FloatArray:
        """Return values without noise, one for each row."""


def computed_range(
    term: Term, noise: AggregateNoise, confidence: float, rows: int
) -> PlausibleRange:
    """Compute the values that a term may have in each row, with a confidence.

    Without ends, or with nothing in it, where nothing is known.
    """
    placed = dict.fromkeys(_placed(term, noise))
    each = _level(confidence, 1 / max(1, len(placed)))
    with np.errstate(all="ignore"):
        known = {one: _range_of(one, noise, each) for one in placed}
        return _Finder(noise, known, rows).find(term).range


def _level(confidence: float, part: float) -> float:
    """Return the confidence that leaves a part of the risk."""
    return float(np.nextafter(1 - part * (1 - confidence), 1))


@dataclass(frozen=True, slots=True)
class _Found:
    """The range of a term, and where it may be NULL."""

    low: FloatArray
    high: FloatArray
    missing: _Mask

    @classmethod
    def of(cls, found: PlausibleRange) -> _Found:
        """Return a range of what is never NULL."""
        return cls(found.low, found.high, np.zeros(found.low.shape, dtype=np.bool_))

    @property
    def range(self) -> PlausibleRange:
        return PlausibleRange(self.low, self.high)

    def where(self, chosen: _Mask) -> _Found:
        """Leave out all rows but these."""
        low, high = np.where(chosen, self.low, np.inf), np.where(chosen, self.high, -np.inf)
        return _Found(low, high, self.missing & chosen)

    def beside(self, other: _Found) -> _Found:
        """Take in both ranges."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return _Found(low, high, self.missing | other.missing)


# -- quotients of sums ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum of aggregates times numbers, by aggregate, and of a constant."""

    factors: tuple[tuple[int, float], ...] = ()
    constant: float = 0.0

    def plus(self, other: _Linear, times: float = 1.0) -> _Linear:
        factors = dict(self.factors)
        for aggregate, factor in other.factors:
            factors[aggregate] = factors.get(aggregate, 0.0) + times * factor
        kept = tuple(sorted((a, f) for a, f in factors.items() if f))
        return _Linear(kept, self.constant + times * other.constant)

    def times(self, number: float) -> _Linear:
        return _Linear().plus(self, number)

    def of(self, values: Mapping[int, FloatArray]) -> FloatArray:
        """Compute it of values by aggregate."""
        parts = [factor * values[aggregate] for aggregate, factor in self.factors]
        return np.asarray(sum(parts, start=np.float64(self.constant)))

    @property
    def aggregates(self) -> frozenset[int]:
        return frozenset(aggregate for aggregate, _ in self.factors)

    def positive(self, noise: AggregateNoise) -> bool:
        """Tell whether it cannot be negative."""
        factors = all(f > 0 and noise.is_positive(a) for a, f in self.factors)
        return factors and self.constant >= 0

    def least(self, noise: AggregateNoise) -> float | None:
        """Find the least value unless it is 0, of a sum of counts; None for others."""
        if not self.factors or not self.positive(noise):
            return None
        if self.constant > 0:
            return self.constant
        counts = all(noise.counts(aggregate) for aggregate, _ in self.factors)
        return min(factor for _, factor in self.factors) if counts else None


_ONE: Final = _Linear(constant=1.0)


@dataclass(frozen=True, slots=True)
class _Quotient:
    """A sum of aggregates over another one."""

    above: _Linear
    below: _Linear = _ONE

    @property
    def aggregates(self) -> tuple[int, ...]:
        return tuple(sorted(self.above.aggregates | self.below.aggregates))


_Placed: TypeAlias = int | _Quotient
"""What has a range of its own: an aggregate, or a quotient of several."""


def _quotient(term: Term) -> _Quotient | None:
    """Read a term as a quotient of sums."""
    if isinstance(term, AggregateTerm):
        return _Quotient(_Linear(((term.aggregate, 1.0),)))
    if isinstance(term, ConstantTerm):
        return _Quotient(_Linear(constant=term.value))
    if not isinstance(term, OperatorTerm) or term.operator not in _ARITHMETIC:
        return None
    one, other = map(_quotient, term.terms)
    if one is None or other is None:
        return None
    if term.operator is Operator.MULTIPLY:
        return _product(one, other)
    if term.operator is Operator.DIVIDE:
        return _product(one, _Quotient(other.below, other.above))
    if term.operator is Operator.SUBTRACT:
        other = _Quotient(other.above.times(-1.0), other.below)
    return _sum(one, other)


_ARITHMETIC: Final = frozenset(
    {Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.DIVIDE}
)


def _product(one: _Quotient, other: _Quotient) -> _Quotient | None:
    above, below = _multiplied(one.above, other.above), _multiplied(one.below, other.below)
    if above is None or below is None:
        return None
    if below.factors:
        return _Quotient(above, below)
    return _Quotient(above.times(1 / below.constant)) if below.constant else None


def _multiplied(one: _Linear, other: _Linear) -> _Linear | None:
    if one.factors and other.factors:
        return None
    return one.times(other.constant) if one.factors else other.times(one.constant)


def _sum(one: _Quotient, other: _Quotient) -> _Quotient | None:
    if one.below == other.below:
        return _Quotient(one.above.plus(other.above), one.below)
    if not one.aggregates:
        one, other = other, one
    if other.aggregates:
        return None
    return _Quotient(one.above.plus(one.below, other.above.constant), one.below)


def _placed(term: Term, noise: AggregateNoise) -> list[_Placed]:
    """List what a term is computed from, each with a range of its own."""
    if isinstance(term, AggregateTerm):
        return [term.aggregate]
    joint = _joint(term, noise)
    if joint is not None:
        return [joint]
    return [placed for part in parts_of(term) for placed in _placed(part, noise)]


def _joint(term: Term, noise: AggregateNoise) -> _Quotient | None:
    """Read a term as a quotient of several aggregates whose noise is taken together."""
    found = _quotient(term)
    if found is None or not 1 < len(found.aggregates) <= _MOST_TOGETHER:
        return None
    return found if noise.are_joint(found.aggregates) else None


def _range_of(placed: _Placed, noise: AggregateNoise, confidence: float) -> _Found:
    if isinstance(placed, int):
        return _Found.of(noise.alone(placed, confidence))
    if not placed.below.factors:
        return _Found.of(_limited(placed, _fitting(placed, noise, confidence), noise))
    joint = _fitting(placed, noise, _level(confidence, 1 - _APART))
    each = _level(confidence, _APART / len(placed.aggregates))
    alone = {aggregate: noise.alone(aggregate, each) for aggregate in placed.aggregates}
    below = _sum_of(placed.below, alone)
    apart = _divided(_sum_of(placed.above, alone), below, placed.below.least(noise))
    known = np.isfinite(joint.low) & np.isfinite(joint.high)
    low, high = np.where(known, joint.low, apart.low), np.where(known, joint.high, apart.high)
    found = _limited(placed, PlausibleRange(low, high), noise)
    return _Found(found.low, found.high, (below.low <= 0) & (below.high >= 0))


def _fitting(placed: _Quotient, noise: AggregateNoise, confidence: float) -> PlausibleRange:
    """Find all q for which N - q D is within its margin, wherever cut rows may have moved both."""
    found = noise.together(placed.aggregates, confidence)
    above, below = dict(placed.above.factors), dict(placed.below.factors)
    squares = [
        (above.get(a, 0.0), below.get(a, 0.0), found.margins[a] ** 2) for a in placed.aggregates
    ]
    of_total = sum(one * one * square for one, _, square in squares)
    of_divisor = sum(other * other * square for _, other, square in squares)
    of_both = sum(one * other * square for one, other, square in squares)
    ends = []
    for total, divisor in _moved(placed, found):
        first, second = divisor**2 - of_divisor, total * divisor - of_both
        known = first > 0
        root = np.sqrt(np.maximum(second**2 - first * (total**2 - of_total), 0.0))
        scale = np.where(known, first, 1.0)
        low = np.where(known, second - root, -np.inf) / scale
        ends.append((low, np.where(known, second + root, np.inf) / scale))
    lows, highs = zip(*ends, strict=True)
    return PlausibleRange(np.minimum.reduce(lows), np.maximum.reduce(highs))


def _moved(placed: _Quotient, found: TogetherNoise) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield both sums of noisy values, each value without and with what is supposedly cut of it.

    All else lies between these: for each q, N - q D is largest and smallest there.
    """
    cut = [aggregate for aggregate in placed.aggregates if found.beyond[aggregate].any()]
    for number in range(len(cut) + 1):
        for some in combinations(cut, number):
            values = {
                aggregate: value + found.beyond[aggregate] if aggregate in some else value
                for aggregate, value in found.values.items()
            }
            yield placed.above.of(values), placed.below.of(values)


def _sum_of(linear: _Linear, alone: Mapping[int, PlausibleRange]) -> PlausibleRange:
    low = high = np.asarray(linear.constant, dtype=np.float64)
    for aggregate, factor in linear.factors:
        ends = factor * alone[aggregate].low, factor * alone[aggregate].high
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    return PlausibleRange(low, high)


def _divided(total: PlausibleRange, divisor: PlausibleRange, least: float | None) -> PlausibleRange:
    """Divide ranges; without ends where the divisor may be 0. It is ``least`` unless that is so."""
    if least is not None:
        divisor = PlausibleRange(np.maximum(divisor.low, least), np.maximum(divisor.high, least))
    zero = (divisor.low <= 0) & (divisor.high >= 0)
    whole = PlausibleRange(np.where(zero, 1.0, divisor.low), np.where(zero, 1.0, divisor.high))
    found = total.over(whole)
    return PlausibleRange(np.where(zero, -np.inf, found.low), np.where(zero, np.inf, found.high))


def _limited(placed: _Quotient, found: PlausibleRange, noise: AggregateNoise) -> PlausibleRange:
    """Cut off what no true values can make: negative shares, or more than all."""
    least, most = -np.inf, np.inf
    if placed.above.positive(noise) and placed.below.positive(noise):
        least = 0.0
    if len(placed.above.factors) == len(placed.below.factors) == 1 and not (
        placed.above.constant or placed.below.constant
    ):
        ((one, factor),), ((other, divisor),) = placed.above.factors, placed.below.factors
        whole = factor / divisor
        if whole > 0 and noise.is_part(one, other):
            most = whole
        elif whole > 0 and noise.is_part(other, one):
            least = whole
    below = dict(placed.below.factors)
    parts = [factor / below[one] for one, factor in placed.above.factors if one in below]
    whole = max(parts, default=0.0)
    if least == 0 and whole > 0:  # at most that, if all above is among what is below
        rest = placed.below.times(whole).plus(placed.above, -1.0)
        most = min(most, whole) if rest.positive(noise) else most
    return found.clip(least, most)


# -- all other terms --------------------------------------------------------------------------


class _Finder:
    """Finds the ranges of terms, by those of what they are computed from."""

    def __init__(self, noise: AggregateNoise, known: Mapping[_Placed, _Found], rows: int) -> None:
        self._noise = noise
        self._known = known
        self._rows = rows

    def find(self, term: Term | None) -> _Found:
        """Find the range of a term; that of NULL has nothing in it."""
        if term is None:
            return replace(self._nothing(), missing=np.ones(self._rows, dtype=np.bool_))
        placed = term.aggregate if isinstance(term, AggregateTerm) else _joint(term, self._noise)
        if placed is not None:
            return self._known[placed]
        if isinstance(term, ConstantTerm):
            value = np.full(self._rows, term.value)
            return _Found.of(PlausibleRange(value, value))
        if isinstance(term, KnownTerm):
            value = self._noise.known(term.known)
            return _Found.of(PlausibleRange(value, value))
        if isinstance(term, ChoiceTerm):
            return self._chosen(term)
        assert isinstance(term, OperatorTerm)
        found = [self.find(part) for part in term.terms]
        if term.operator is Operator.FIRST:
            return self._first(found)
        if term.operator in (Operator.LEAST, Operator.GREATEST):
            return _extreme(found, least=term.operator is Operator.LEAST)
        missing = np.logical_or.reduce([one.missing for one in found])
        if term.operator is Operator.DIVIDE:
            divisor = _quotient(term.terms[1])
            whole = divisor is not None and not divisor.below.factors
            least = divisor.above.least(self._noise) if divisor is not None and whole else None
            missing = missing | ((found[1].low <= 0) & (found[1].high >= 0))
            made = _divided(found[0].range, found[1].range, least)
        else:
            made = _made(term, [one.range for one in found])
        return _Found(made.low, made.high, missing)

    def _nothing(self) -> _Found:
        end = np.full(self._rows, np.inf)
        return _Found(end, -end, np.zeros(self._rows, dtype=np.bool_))

    def _first(self, found: Sequence[_Found]) -> _Found:
        made, left = self._nothing(), np.ones(self._rows, dtype=np.bool_)
        for one in found:
            made, left = made.beside(one.where(left)), left & one.missing
        return replace(made, missing=left)

    def _chosen(self, term: ChoiceTerm) -> _Found:
        made, left = self._nothing(), np.ones(self._rows, dtype=np.bool_)
        refuted: list[TermComparison] = []
        for condition, value in term.cases:
            one, other = self.find(condition.term), self.find(condition.other)
            surely, possibly = _holds(condition.relation, one, other)
            chosen = self._narrowed(value, [condition], refuted)
            made = made.beside(chosen.where(left & possibly))
            left = left & ~(surely & ~one.missing & ~other.missing)
            refuted.append(condition)
        return made.beside(self._narrowed(term.otherwise, (), refuted).where(left))

    def _narrowed(
        self, value: Term | None, true: Sequence[TermComparison], false: Sequence[TermComparison]
    ) -> _Found:
        """Find the range of a value where comparisons hold, and others do not."""
        found = self.find(value)
        larger = [(one.term, one.other) for one in true if one.relation in _ORDERS]
        larger += [(one.other, one.term) for one in false if one.relation in _ORDERS]
        low, high = found.low, found.high
        for one, other in larger:
            if one == value:
                low = np.maximum(low, self.find(other).low)
            if other == value:
                high = np.minimum(high, self.find(one).high)
        return replace(found, low=low, high=high)


_ORDERS: Final = frozenset({Comparing.LARGER, Comparing.AT_LEAST})


def _holds(relation: Comparing, one: _Found, other: _Found) -> tuple[_Mask, _Mask]:
    """Tell where a comparison surely holds, and where it possibly does."""
    if relation is Comparing.LARGER:
        return one.low > other.high, one.high > other.low
    if relation is Comparing.AT_LEAST:
        return one.low >= other.high, one.high >= other.low
    apart = (one.low > other.high) | (one.high < other.low)
    same = (one.low == other.high) & (one.high == other.low)
    return (same, ~apart) if relation is Comparing.EQUAL else (apart, ~same)


def _extreme(found: Sequence[_Found], *, least: bool) -> _Found:
    """Find the range of the least or the greatest of what is not NULL."""
    end, beyond = (np.minimum, np.inf) if least else (np.maximum, -np.inf)
    ends = [
        (
            np.where(one.missing & (not least), beyond, one.low),
            np.where(one.missing & least, beyond, one.high),
        )
        for one in found
    ]
    low, high = (end.reduce(list(each)) for each in zip(*ends, strict=True))
    return _Found(low, high, np.logical_and.reduce([one.missing for one in found]))


def _made(term: OperatorTerm, found: Sequence[PlausibleRange]) -> PlausibleRange:
    """Compute all that an operator may make of numbers in these ranges."""
    one, other = found[0], found[-1]
    match term.operator:
        case Operator.ADD:
            return PlausibleRange(one.low + other.low, one.high + other.high)
        case Operator.SUBTRACT:
            return PlausibleRange(one.low - other.high, one.high - other.low)
        case Operator.MULTIPLY:
            ends = [a * b for a in (one.low, one.high) for b in (other.low, other.high)]
            ends = [np.where(np.isnan(end), 0.0, end) for end in ends]  # 0 of whatever it may be
            return PlausibleRange(np.minimum.reduce(ends), np.maximum.reduce(ends))
        case Operator.ABSOLUTE:
            crossing = (one.low <= 0) & (one.high >= 0)
            ends = [np.abs(one.low), np.abs(one.high)]
            low = np.where(crossing, 0.0, np.minimum(*ends))
            return PlausibleRange(low, np.maximum(*ends))
        case Operator.ROOT:
            return PlausibleRange(*(np.sqrt(np.maximum(end, 0.0)) for end in (one.low, one.high)))
        case Operator.EXPONENTIAL:
            return PlausibleRange(np.exp(one.low), np.exp(one.high))
        case Operator.LOGARITHM:  # which is NULL, or an error, of what is not positive
            return PlausibleRange(*(np.log(np.maximum(end, 0.0)) for end in (one.low, one.high)))
        case _:
            scale = 10.0**term.digits
            return PlausibleRange(
                np.floor(one.low * scale) / scale, np.ceil(one.high * scale) / scale
            )
