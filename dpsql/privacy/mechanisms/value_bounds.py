"""Bounds of values, drawn from public ladders before anything is summed.

A sum of values that are clamped to B errs by what B cuts, and by noise in proportion to B. As for
numbers of rows (:mod:`dpsql.privacy.mechanisms.bounds_choice`), its mean error is least where as
many values are cut as the noise is wide, which is a rank from the top, and one private draw.

Each unit weighs 1, divided among its rows that have a value. The upper bound is drawn by the weight
of the rows above it, the lower one by that of the rows below it. Both ladders begin with 0, so that
values of one sign are bounded by 0 on the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    """Draws of an upper and a lower bound of values, on one ladder, in steps of ``unit``.

    Sensitivity: the weights of a unit, on both sides, are its own and sum to ``WHOLE_WEIGHT`` at
    most, so that each draw has the guarantee of a :class:`BoundDraw`. They compose. Checked by
    ``tests/privacy/mechanisms/test_value_bounds.py``.
    """

    side: BoundDraw
    unit: float

    @property
    def loss(self) -> PrivacyLoss:
        """The price of both draws."""
        return self.side.loss + self.side.loss

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes that a bound can have."""
        return tuple(rung * self.unit for rung in self.side.rungs)

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
        upper = self.side.draw(above, source) * self.unit
        lower = -self.side.draw(below, source) * self.unit
        return FoundBounds(values=((lower + 0.0, upper),))


def value_bounds(
    price: PrivacyLoss,
    target: float,
    *,
    whole: bool,
    base_of_zero: int = BASE_OF_ZERO,
    falling: bool = False,
) -> ValueBounds:
    """Build the draws of the bounds of values, at ``price`` each.

    ``target`` is the weight in units to be cut on each side. ``whole`` values are integers, and
    their bounds are. ``base_of_zero`` is the base measure of 0, by that of 1. Where the noise is
    as wide whatever the bounds are, the ``target`` is that for a bound of 1, and ``falling``: what
    a bound cuts is as large as it is. Raises ParameterError if the price is not positive.
    """
    least = 0 if whole else _LEAST_EXPONENT
    powers = [2**exponent for exponent in range(_MOST_EXPONENT - least + 1)]
    rungs = sorted({0, *powers, *(3 * power // 2 for power in powers[1:-1])})
    unit = 2.0**least
    targets = [target / (max(1, rung) * unit) if falling else target for rung in rungs]
    draw = bound_draw(
        *(price, rungs, POWER_OF_VALUES, targets), lasting=falling, base_of_zero=base_of_zero
    )
    return ValueBounds(draw, unit)
