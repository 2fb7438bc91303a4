"""What a unit adds to a group: the four kinds of contribution, in integers.

They are those of ``dpsql.sql.rewrite.contributions``, number for number: divisions round towards
zero, as the engine's do. Where 64 bits do not hold a number it is computed in Python's integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.pairs import Int64s, Pairs, PairTally, step_size, sum_tallies
from dpsql.bounding.specification import MeasureColumns, Specification
from dpsql.ir.measures import Lattice, MeasureKind

_EXACT: Final = 1 << 62
_Any = NDArray[Any]


class Contributions:
    """The contributions of pairs, by measure."""

    def __init__(self, spec: Specification, fields: tuple[PairTally, ...], pairs: Pairs) -> None:
        self._spec = spec
        self._numbers = dict(zip(fields, pairs.numbers, strict=True))
        self._known: dict[MeasureColumns, Int64s] = {}

    def of(self, source: MeasureColumns) -> Int64s:
        """Compute a measure's contributions, each within ``measure.contribution``, once."""
        if source not in self._known:
            self._known[source] = self._of(source)
        return self._known[source]

    def _of(self, source: MeasureColumns) -> Int64s:
        measure, most = source.measure, self._spec.max_rows
        low, high = measure.contribution(most)
        number = self.counted(source.counted)
        if source.summed is None:
            return np.minimum(number, high)
        found = np.empty(len(number), dtype=np.int64)
        for rows, total in self._totals(source, number):
            ours = number[rows].astype(total.dtype, copy=False)
            found[rows] = self._bounded(source, total, ours, low, high)
        return found

    def whole(self, source: MeasureColumns, most: int, *, negated: bool = False) -> Int64s:
        """Compute what units have in groups without any bounds, from 0 to ``most``.

        ``negated`` is of its opposite.
        """
        number = self.counted(source.counted)
        if source.summed is None:
            return np.minimum(number, most)
        found = np.empty(len(number), dtype=np.int64)
        for rows, total in self._totals(source, number):
            found[rows] = _clamped(-total if negated else total, 0, most)
        return found

    def averaged(self, source: MeasureColumns) -> Int64s:
        """Compute what units have on average, as a distance from the middle, 0 without values."""
        number = self.counted(source.counted)
        found = np.empty(len(number), dtype=np.int64)
        lattice = source.measure.of_rows
        assert lattice is not None
        for rows, total in self._totals(source, number):
            ours = number[rows].astype(total.dtype, copy=False)
            found[rows] = _average(lattice, total, ours)
        return found

    def counted(self, column: int | None) -> Int64s:
        """Count the rows of pairs, or those with a value in a column."""
        found = self._numbers.get(PairTally(column))
        return self._numbers[PairTally()] if found is None else found

    def _bounded(
        self, source: MeasureColumns, total: _Any, number: _Any, low: int, high: int
    ) -> _Any:
        measure = source.measure
        assert measure.lattice is not None
        if measure.kind is MeasureKind.SUM:
            bounds = measure.per_group
            if bounds is not None and not bounds[0] <= 0 <= bounds[1]:
                return np.where(number > 0, _clamped(total, *bounds), 0)
            return _clamped(total, low, high)
        lattice, most = measure.lattice, self._spec.max_rows
        if measure.kind is MeasureKind.CENTERED_AVERAGES:
            return _average(lattice, total, number)
        ends = min(0, most * lattice.low), max(0, most * lattice.high)
        if total.dtype != object:  # further ends change nothing of a sum that fits 64 bits
            ends = max(-_EXACT, ends[0]), min(_EXACT, ends[1])
        found = _clamped(total, *ends) - np.minimum(number, most) * lattice.midpoint
        beyond = np.flatnonzero(number > most)
        divisor = number[beyond]
        whole = total[beyond] - divisor * lattice.midpoint
        average = quotients(whole, divisor)
        rest = whole - average * divisor
        found[beyond] = average * most + quotients(rest * most, divisor)
        return _clamped(found, low, high)

    def _totals(
        self, source: MeasureColumns, number: Int64s
    ) -> Iterator[tuple[slice | NDArray[np.intp], _Any]]:
        """Yield pairs by their places with the totals of their rows, of 64 bits where they do."""
        assert source.summed is not None
        size = step_size(self._spec, source.summed, source.midpoint)
        few = number <= _EXACT // max(1, 2 * size)  # of which sums and distances fit 64 bits
        if few.all():
            yield slice(None), self._total(source, slice(None), wide=False)
            return
        for rows, wide in ((np.flatnonzero(few), False), (np.flatnonzero(~few), True)):
            if len(rows):
                yield rows, self._total(source, rows, wide=wide)

    def _total(self, source: MeasureColumns, rows: slice | NDArray[np.intp], *, wide: bool) -> _Any:
        fields = sum_tallies(self._spec, source.summed, source.midpoint)
        parts: list[_Any] = [self._numbers[field][rows] for field in fields]
        if wide:
            parts = [each.astype(object) for each in parts]
        return parts[0] if len(parts) == 1 else parts[0] * (1 << 32) + parts[1]


def _average(lattice: Lattice, total: _Any, number: _Any) -> _Any:
    average = _clamped(quotients(total, np.maximum(number, 1)), lattice.low, lattice.high)
    return np.where(number > 0, average - lattice.midpoint, 0)


class Sums:
    """Sums over pairs by group, of 64 bits as long as all sizes together fit them, then of 128.

    Then numbers are added as their high and low bits.
    """

    def __init__(self, groups: int) -> None:
        self._low = np.zeros(groups, np.int64)
        self._high: Int64s | None = None
        self._size = 0  # that no sum exceeds

    def add(self, groups: Int64s, values: Int64s) -> None:
        """Add values to groups."""
        if not len(values):
            return
        self._size += len(values) * max(int(values.max()), -int(values.min()))
        if self._high is None and self._size >= _EXACT:
            self._high, self._low = self._low >> 32, self._low & 0xFFFFFFFF
        if self._high is None:
            np.add.at(self._low, groups, values)
            return
        np.add.at(self._high, groups, values >> 32)
        np.add.at(self._low, groups, values & 0xFFFFFFFF)

    def divided(self, groups: Int64s, divisor: int, most: int) -> Int64s:
        """Divide the sums of some groups, rounding towards zero, up to ``most`` in size."""
        low = self._low[groups]
        if self._high is None:
            return np.asarray(_clamped(quotients(low, divisor), -most, most))
        high, low = self._high[groups] + (low >> 32), low & 0xFFFFFFFF
        fits = (high > -(1 << 29)) & (high < 1 << 29)
        found = np.empty(len(groups), dtype=np.int64)
        small = (high[fits] << 32) + low[fits]
        found[fits] = _clamped(quotients(small, divisor), -most, most)
        for place in np.flatnonzero(~fits):
            total = int(high[place]) * (1 << 32) + int(low[place])
            quotient = abs(total) // divisor
            found[place] = max(-most, min(most, quotient if total >= 0 else -quotient))
        return found


def _clamped(values: _Any, low: int, high: int) -> _Any:
    found: _Any = np.clip(values, low, high)
    return found


def quotients(values: _Any, divisor: _Any | int) -> _Any:
    """Divide by something positive, rounding towards zero."""
    sizes = abs(values) // divisor
    found: _Any = np.where(values >= 0, sizes, -sizes)
    return found
