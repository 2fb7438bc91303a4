"""Bounds of values, drawn from public ladders before anything is summed.

A sum of values that are clamped to B errs by what B cuts, and by noise in proportion to B. As for
numbers of rows (:mod:`dpsql.privacy.mechanisms.bounds_choice`), its mean error is least where as
many values are cut as the noise is wide, which is a rank from the top, and one private draw.

Each unit weighs 1, divided among its rows that have a value. The size of both bounds is drawn by
the weight of the rows beyond it on either side, as noise on a sum grows with the larger bound
alone. Then each bound is that size or 0, by the weight of the rows on its side of 0: values of one
sign are bounded by 0 on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import (
    BASE_OF_ZERO,
    BoundDraw,
    FoundBounds,
    bound_draw,
)
from dpsql.privacy.sampling.entropy import EntropySource

POWER_OF_VALUES: Final = 5
"""Of the base measure of values, squared: B ** -2.5.

A larger power needs more units to climb to their values, a smaller one takes bounds far above."""

_LEAST_EXPONENT: Final = -10
_MOST_EXPONENT: Final = 49  # of a bound that can still be computed with


@dataclass(frozen=True, slots=True)
class ValueBounds:
    """Draws of bounds of values: of their size, in steps of ``unit``, and of a sign for each.

    The target of a sign is that of the size that was drawn: the bound is 0 if no more is cut.

    Sensitivity: the weights of a unit, on both sides, are its own and sum to ``WHOLE_WEIGHT`` at
    most, so that each draw has the guarantee of a :class:`BoundDraw`. They compose. Checked by
    ``tests/privacy/mechanisms/test_value_bounds.py``.
    """

    size: BoundDraw
    sign: BoundDraw
    unit: float

    @property
    def loss(self) -> PrivacyLoss:
        """The price of all draws."""
        return self.size.loss + self.sign.loss + self.sign.loss

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes that a bound can have."""
        return tuple(rung * self.unit for rung in self.size.rungs)

    @property
    def most(self) -> FoundBounds:
        """The widest bounds that can be drawn."""
        return FoundBounds(values=((-self.sizes[-1], self.sizes[-1]),))

    @property
    def least(self) -> FoundBounds:
        """The closest bounds that can be drawn."""
        return FoundBounds(values=((0.0, 0.0),))

    def draw(
        self, above: Sequence[int], below: Sequence[int], source: EntropySource
    ) -> FoundBounds:
        """Draw the bounds from weights by the number of rungs below the size of values.

        Those of values above 0, and those of values below; others are at place 0 of either.
        """
        size = self.size.draw([sum(pair) for pair in zip(above, below, strict=True)], source)
        if not size:
            return self.least
        target = self.size.targets[self.size.rungs.index(size)]
        sign = replace(self.sign, targets=(target, 0))
        upper, lower = (
            size * sign.draw((weights[0], sum(weights[1:]), 0), source) * self.unit
            for weights in (above, below)
        )
        return FoundBounds(values=((0.0 - lower, upper),))


def value_bounds(
    size: PrivacyLoss,
    sign: PrivacyLoss,
    target: float,
    *,
    whole: bool,
    base_of_zero: int = BASE_OF_ZERO,
    falling: bool = False,
) -> ValueBounds:
    """Build the draws of the bounds of values, at the prices of their size and of each sign.

    ``target`` is the weight in units to be cut. ``whole`` values are integers, and
    their bounds are. ``base_of_zero`` is the base measure of 0, by that of 1. Where the noise is
    as wide whatever the bounds are, the ``target`` is that for a bound of 1, and ``falling``: what
    a bound cuts is as large as it is. Raises ParameterError if a price is not positive.
    """
    least = 0 if whole else _LEAST_EXPONENT
    powers = [2**exponent for exponent in range(_MOST_EXPONENT - least + 1)]
    rungs = sorted({0, *powers, *(3 * power // 2 for power in powers[1:-1])})
    unit = 2.0**least
    targets = [target / (max(1, rung) * unit) if falling else target for rung in rungs]
    draw = bound_draw(
        *(size, rungs, POWER_OF_VALUES, targets), lasting=falling, base_of_zero=base_of_zero
    )
    return ValueBounds(draw, bound_draw(sign, (0, 1), 0, (target, 0.0)), unit)
