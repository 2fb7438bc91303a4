"""The base of mechanisms' prices, in each composition.

A mechanism states what it costs under zCDP, in Gaussian DP (as mu**2/2) and in basic composition.
What it does not state costs infinitely much there, and so is charged to nobody. The proofs for
Gaussian DP are in ``docs/mechanisms/accounting.md``. In short:

* A discrete Gaussian of variance sigma**2 on integers, moved by whole steps, costs no more than a
  continuous one of variance sigma**2 - LATTICE_VARIANCE (``calibration.lattice_gaussian_delta``).
* A pick whose scores move one way by at most epsilon is of bounded range; a Laplace answer is
  epsilon-DP. Both cost what the two-point laws do that are easiest to tell apart.
* Where a group that only one neighbour has may come out, what is left of the mechanism without
  that event is Gaussian noise on what both have, or picks from it: delta pays for the event.

Checked by ``tests/privacy/mechanisms/test_prices.py``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Generic, TypeVar

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import (
    bounded_range_of_gaussian_rho,
    gaussian_rho_of_bounded_range,
)
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.calibration import LATTICE_VARIANCE, LEAST_SIGMA
from dpsql.privacy.sampling.noise import DiscreteGaussian
from dpsql.privacy.sampling.numeric import rounded_up

RHO_UP = 1.0 + 2.0**-46
"""Exceeds the rounding of a few prices in Gaussian DP that are added or multiplied."""
EPSILON_UP = 1.0 + 1e-12
"""Exceeds the rounding of an epsilon that a price is computed from."""

_Reach = TypeVar("_Reach", bound=int | None, contravariant=True)


class Priced(Generic[_Reach]):
    """Price a release in each composition; each kind declares its prices.

    ``reach`` is what the price depends on: in how many groups a unit changes values, or how many
    groups came out, where None asks for the worst case.
    """

    __slots__ = ()

    def cost(self, composition: Composition, reach: _Reach) -> float:
        """Compute rho of zCDP, mu**2/2 of Gaussian DP or the epsilon of basic composition.

        Rounded up; infinite where no price is proved. Its delta is the mechanism's own.
        """
        return math.inf

    def rho(self, reach: _Reach) -> float:
        """Compute the zCDP parameter."""
        return self.cost(Composition.ZCDP, reach)


_Made = TypeVar("_Made", bound=Priced[int | None])


def priced(made: _Made, price: PrivacyLoss) -> _Made:
    """Return a mechanism built for a price, after a check that the price is proved.

    Raises ParameterError if it has no price of that kind.
    """
    if math.isinf(made.cost(price.composition, None)):
        raise ParameterError(
            "nothing is proved of such a mechanism for a price of this kind", code="bad_parameter"
        )
    return made


def lattice_gaussian_rho(noise: DiscreteGaussian, squared: int | Fraction) -> float:
    """Compute mu**2/2 of lattice noise: half of ``squared``, the l2 distance, over what is left.

    That is its variance less LATTICE_VARIANCE. Rounded up; infinite for too little noise.
    """
    if noise.sigma < LEAST_SIGMA:
        return math.inf
    left = Fraction(noise.sigma) ** 2 - Fraction(LATTICE_VARIANCE)
    return rounded_up(Fraction(squared) / (2 * left))


def cost_of_pick(composition: Composition, epsilon: float) -> float:
    """Compute the cost of one pick of ``epsilon``-bounded range, rounded up."""
    match composition:
        case Composition.ZCDP:
            return epsilon**2 / 8 * (1 + 1e-12)
        case Composition.GDP:
            return gaussian_rho_of_bounded_range(epsilon * EPSILON_UP) * RHO_UP
        case Composition.BASIC:
            return math.inf


def rho_of_picks(price: PrivacyLoss, picks: int) -> float:
    """Find the zCDP, epsilon**2/8 each, of so many picks that cost ``price`` together.

    The price is one of zCDP or of Gaussian DP.
    """
    if not price.gaussian:
        return price.rho
    return picks * bounded_range_of_gaussian_rho(price.rho / picks) ** 2 / 8 * (1 - 1e-11)
