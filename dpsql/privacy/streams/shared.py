"""Running counts of named groups, with noise of their own, and shared where events change all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.sampling.numeric import checked_positive, log_probability, rounded_up
from dpsql.privacy.streams.factorisation import Factorisation
from dpsql.privacy.streams.keyed import (
    KeyedDraws,
    StepKey,
    checked_lattice_sigma,
    rounded_products,
)
from dpsql.privacy.streams.streams import (
    ContinualNoise,
    continual_noise_for_rho,
    rounded_quantiles_sf,
)

_SHARED = b"shared"  # no encoded key: those begin with how many values they have


@dataclass(frozen=True, slots=True)
class SharedContinualNoise:
    """h_i + B(z_i + z_0)/2 at every step, for groups that are named one after the other.

    z_i ~ N_Z(0, 4 sigma**2) belongs to group i and z_0 ~ N_Z(0, 4 sigma**2/sqrt(most)) to all; both
    are on the lattice, in half-steps. An *event* adds to any of the groups, at one step, between 0
    and ``sensitivity`` each. ``most`` groups can be named in all.

    Guarantee: if ``named`` groups are, however they were chosen from earlier answers, all steps
    cost (named + sqrt(most)) * sensitivity**2 * norm**2 / (8 sigma**2) zCDP. An event at step t
    moves the draws of group i by C u (2v_i - sensitivity) and the shared ones by C u sensitivity, u
    being 1 at t (after Lebeda & Retschmeier 2024, Algorithm 2, for a matrix mechanism). Raises
    ParameterError for parameters out of range. Checked by
    ``tests/privacy/streams/test_continual_topk.py``.
    """

    factorisation: Factorisation
    sigma: float
    sensitivity: int
    most: int

    def __post_init__(self) -> None:
        checked_positive(self.sigma, "sigma")
        if min(self.sensitivity, self.most) < 1:
            raise ParameterError("sensitivity and groups must be at least 1", code="not_positive")
        for sigma in self._sigmas:
            checked_lattice_sigma(sigma * 2.0**self.factorisation.bits)

    @property
    def _sigmas(self) -> tuple[float, float]:
        """Of a group's own draws and of the shared ones, in half-steps."""
        return 2 * self.sigma, 2 * self.sigma / self.most**0.25

    def rho(self, named: int) -> float:
        """Return the zCDP cost of the stream if ``named`` groups are named in all, rounded up."""
        moved = self.sensitivity**2 * self.factorisation.norm_squared / 2
        own, shared = (moved / Fraction(sigma) ** 2 for sigma in self._sigmas)
        return rounded_up(named * own + shared)

    def std(self, step: int) -> float:
        """Return the standard deviation of a step's noise, rounding to half-steps included."""
        spread = math.hypot(*self._sigmas) * float(self.factorisation.row_norms()[step - 1])
        return math.hypot(spread, math.sqrt(1 / 12)) / 2

    def half_widths(self, confidence: float) -> NDArray[np.float64]:
        """Find the half-widths of all steps, of shape (steps,)."""
        log_probability(confidence)
        tail = (1.0 - confidence) / 2
        quantiles = rounded_quantiles_sf(self.factorisation, math.hypot(*self._sigmas), 2, tail)
        return np.maximum(quantiles, 0) / 2

    def add(
        self,
        step: int,
        exact: NDArray[np.int64],
        groups: Sequence[bytes],
        keys: Sequence[StepKey],
        measure: str,
    ) -> Steps:
        """Add noise to the counts of the named groups at a step: half-steps, of shape (groups,).

        One answer per step, for ever: see ``ContinualNoise.add``.
        """
        unit = 2.0**self.factorisation.bits
        own, shared = (
            KeyedDraws(keys, f"{measure} {part}", sigma * unit, self.factorisation)
            for part, sigma in zip(("own", "shared"), self._sigmas, strict=True)
        )
        numbers = self.factorisation.row(step).draws
        draws = own.draw(groups, numbers) + shared.draw([_SHARED], numbers)
        half_steps = rounded_products(self.factorisation, step, draws)
        # Whole steps first, as integers: a float sum would round the exact value before its noise.
        noisy: Steps = exact + half_steps // 2 + half_steps % 2 / 2
        return noisy


@lru_cache(maxsize=256)
def shared_continual_noise(
    rho: float, factorisation: Factorisation, sensitivity: int, most: int
) -> SharedContinualNoise:
    """Find the noise that costs at most ``rho`` if all ``most`` groups are named.

    Raises ParameterError for parameters out of range.
    """
    checked_positive(rho, "rho")
    if min(sensitivity, most) < 1:
        raise ParameterError("sensitivity and groups must be at least 1", code="not_positive")
    norm = math.sqrt(factorisation.norm_squared)
    sigma = sensitivity * norm * math.sqrt((most + math.sqrt(most)) / (8 * rho))
    noise = SharedContinualNoise(factorisation, sigma, sensitivity, most)
    while noise.rho(most) > rho:
        noise = SharedContinualNoise(factorisation, noise.sigma * (1 + 1e-12), sensitivity, most)
    return noise


@dataclass(frozen=True, slots=True)
class SeparateContinualNoise:
    """Noise of its own for each of up to ``noise.groups`` groups, named one after the other.

    A unit may add to any of the groups, at any steps, at most ``noise.sensitivity`` to each in all.

    Guarantee: if ``named`` groups are, however they were chosen from earlier answers, all steps
    cost named * sensitivity**2 * norm**2 / (2 sigma**2) zCDP: naming a group runs a mechanism of
    its own, of which each costs what one group of ``ContinualNoise`` does. A shared part
    (``SharedContinualNoise``) is cheaper, but only for units that add at one step: those that add
    to different groups at different steps move it by sums of different columns of C, which hide
    less of each other. Checked by ``tests/privacy/streams/test_continual_separate.py``.
    """

    noise: ContinualNoise

    @property
    def factorisation(self) -> Factorisation:
        """How the noise of all steps is factored."""
        return self.noise.factorisation

    @property
    def most(self) -> int:
        """How many groups can be named in all."""
        return self.noise.groups

    def rho(self, named: int) -> float:
        """Bound the zCDP cost of the whole stream if ``named`` groups are named, rounded up."""
        return rounded_up(self.noise.distance_squared * Fraction(named, 2 * self.most))

    def std(self, step: int) -> float:
        """Compute the standard deviation of a step's noise."""
        spread = self.noise.sigma * float(self.factorisation.row_norms()[step - 1])
        return math.hypot(spread, math.sqrt(1 / 12))

    def half_widths(self, confidence: float) -> NDArray[np.float64]:
        """Find the half-widths of all steps, of shape (steps,)."""
        return self.noise.half_widths(confidence)

    def add(
        self,
        step: int,
        exact: NDArray[np.int64],
        groups: Sequence[bytes],
        keys: Sequence[StepKey],
        measure: str,
    ) -> Steps:
        """Add the noise of a step to exact counts of shape (groups,), once for ever."""
        return self.noise.add(step, exact, groups, keys, measure).astype(np.float64)


NamedGroupsNoise: TypeAlias = SharedContinualNoise | SeparateContinualNoise
"""Noise on the running counts of up to ``most`` groups, which earlier answers have named."""


def named_groups_noise(
    rho: float, factorisation: Factorisation, sensitivity: int, most: int, *, one_step: bool
) -> NamedGroupsNoise:
    """Build the noise that costs at most ``rho`` if all ``most`` groups are named.

    ``one_step`` says that each unit adds at a single step only: then they may share a part of it.
    Raises ParameterError for parameters out of range.
    """
    if one_step:
        return shared_continual_noise(rho, factorisation, sensitivity, most)
    return SeparateContinualNoise(continual_noise_for_rho(rho, factorisation, most, sensitivity))
