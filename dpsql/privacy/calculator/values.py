"""The values of calibrations: sizes, figures, and the entries of the registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.registry import MechanismEntry, Sizes
from dpsql.privacy.mechanisms.selection import Selection, UtilityBound
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace, LatticeNoise
from dpsql.privacy.sampling.numeric import normal_quantile_sf

OFTEN = 0.95
"""How often a group of size ``appears_95`` is released."""
COUNT = "count"
VALUE = "value"
EXCESS = "count above the (k_bar+1)-th largest"
WEIGHT = "weight, 1 being the most that a unit gives to one group"

BALLE = "Balle & Wang 2018, Theorem 8"
CANONNE = "Canonne, Kamath & Steinke 2020, Theorem 4"
LEBEDA = "Lebeda & Retschmeier 2024"

_Z_OFTEN = normal_quantile_sf(math.log(1 - OFTEN))


@dataclass(frozen=True, slots=True)
class Figures:
    """The noise of one distribution, with its threshold.

    ``scale`` is the distribution's ``parameter`` (sigma, or b of a Laplace or Gumbel
    distribution). A group is released iff its noisy value exceeds ``threshold``; ``tau`` is the
    papers' threshold - 1. ``appears_half`` and ``appears_95`` are the smallest values released with
    at least that probability. All are in the unit that the mechanism's ``measured`` names.
    """

    distribution: str
    parameter: str
    scale: float
    std: float
    threshold: float | None = None
    tau: float | None = None
    appears_half: float | None = None
    appears_95: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a calibration.

    ``drawn`` is what dpsql draws, ``continuous`` the real-valued noise of the papers. ``loss`` is
    the cost as one query of a session, delta-approximate rho-zCDP, where that is known.
    """

    source: str
    drawn: Figures | None = None
    continuous: Figures | None = None
    loss: PrivacyLoss | None = None
    utility_bound: UtilityBound | None = None
    notes: tuple[str, ...] = ()


Calibrate = Callable[[Sizes, PrivacyLoss], Found]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """An entry of the registry.

    ``takes`` are the sizes it needs and ``may_take`` those with a default. ``one_shot`` maps names
    of (epsilon, delta) analyses to calibrations, the usual one first. ``k_is_groups``: --k is
    another name for ``groups``. ``thresholded``: it spends a delta of its own. ``instead`` says
    what to use where one of the two kinds is missing.
    """

    name: str
    summary: str
    takes: tuple[str, ...]
    zcdp: Calibrate | None = None
    one_shot: Mapping[str, Calibrate] = field(default_factory=dict)
    family: str = ""
    noise: str = ""
    aliases: tuple[str, ...] = ()
    may_take: tuple[str, ...] = ()
    k_is_groups: bool = False
    measured: str = COUNT
    thresholded: bool = True
    instead: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which the mechanism is found."""
        pairs = (f"{self.noise}-{self.family}", f"{self.family}-{self.noise}")
        return (self.name, *self.aliases, *(pairs if self.noise else ()))


# -- from the mechanisms themselves -----------------------------------------------------------

_S = TypeVar("_S", bound=Selection)


def registered(
    entry: MechanismEntry[_S],
    found: Callable[[_S, Sizes], Found],
    takes: tuple[str, ...],
    *,
    may_take: tuple[str, ...] = (),
    family: str = "",
    noise: str = "",
    measured: str = COUNT,
    instead: str | None = None,
    out_of_range: Callable[[str], ParameterError] | None = None,
) -> Mechanism:
    """Calibrate a mechanism as it is built for queries.

    ``out_of_range`` makes the refusal of a rho for which its analysis has no noise.
    """
    name = entry.name.replace("_", "-")

    def calibrate(sizes: Sizes, price: PrivacyLoss) -> Found:
        built = entry.within(sizes, price)
        if built is None:
            assert out_of_range is not None
            raise out_of_range(name)
        return found(built, sizes)

    return Mechanism(
        name=name,
        summary=entry.answers,
        takes=takes,
        zcdp=None if entry.one_shot else calibrate,
        one_shot={"exact": calibrate} if Composition.BASIC in entry.priced_in else {},
        family=family,
        noise=noise,
        may_take=may_take,
        measured=measured,
        instead=instead,
    )


def found_of(selection: Selection, sizes: Sizes, drawn: Figures, *notes: str) -> Found:
    """Return a mechanism's properties beside the figures of its noise."""
    rho = selection.rho(None)
    return Found(
        source=selection.source,
        drawn=drawn,
        loss=None if math.isinf(rho) else PrivacyLoss(rho, selection.delta),
        utility_bound=selection.utility_bound(sizes.k),
        notes=notes,
    )


# -- figures ----------------------------------------------------------------------------------


def on_integers_with_tail(noise: IndependentNoise, threshold: int, tail: int) -> Figures:
    """Describe integer noise; ``tail`` is the smallest t it exceeds at most 5% of the time.

    A count c comes out iff Z > T - c. The noise is symmetric, so that happens half the time or
    more iff c > T, and 95% of the time or more iff P[Z >= c - T] <= 5%.
    """
    return Figures(
        distribution=f"{noise.name}, integers",
        parameter="b" if noise.name == "laplace" else "sigma",
        scale=noise.scale,
        std=noise.std(1),
        threshold=threshold,
        appears_half=threshold + 1,
        appears_95=threshold + tail + 1,
    )


def on_integers(noise: LatticeNoise, threshold: int) -> Figures:
    """Describe integer noise on a count, released iff noisy > ``threshold``."""
    assert isinstance(noise, DiscreteGaussian | DiscreteLaplace)
    return on_integers_with_tail(
        IndependentNoise(noise, 1), threshold, noise.quantile_sf(1 - OFTEN)
    )


def in_steps(noise: LatticeNoise, threshold: int, steps: int) -> Figures:
    """Describe integer noise in steps of 1/``steps`` of a unit's weight."""
    found = on_integers(noise, threshold)
    assert found.appears_half is not None
    assert found.appears_95 is not None
    return replace(
        found,
        distribution=found.distribution.replace(
            "integers", f"steps of 2^-{steps.bit_length() - 1}"
        ),
        scale=found.scale / steps,
        std=found.std / steps,
        threshold=threshold / steps,
        appears_half=found.appears_half / steps,
        appears_95=found.appears_95 / steps,
    )


def on_reals(distribution: str, sigma: float, tau: float, std: float) -> Figures:
    """Describe real noise on a whole count, released iff noisy > 1 + ``tau``."""
    return Figures(
        distribution=distribution,
        parameter="sigma",
        scale=sigma,
        std=std,
        threshold=1 + tau,
        tau=tau,
        appears_half=math.ceil(1 + tau),
        appears_95=math.ceil(1 + tau + _Z_OFTEN * std),
    )


def budget_too_large(name: str) -> ParameterError:
    """Build the refusal of a budget too large for the mechanism's analysis."""
    return ParameterError(
        f"the budget is too large for the analysis of {name}",
        code="noise_scale",
        hint="Lower --epsilon or --rho.",
    )


def budget_too_small(name: str) -> ParameterError:
    """Build the refusal of a budget that cannot pay for so many picks."""
    return ParameterError(
        "the budget is too small for this --k", code="noise_scale", hint="Lower --k."
    )
