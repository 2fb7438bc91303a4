"""Running counts of groups that are named one after the other, each with noise of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.sampling.numeric import rounded_up
from dpsql.privacy.streams.factorisation import Factorisation
from dpsql.privacy.streams.keyed import StepKey
from dpsql.privacy.streams.shared import SharedContinualNoise, shared_continual_noise
from dpsql.privacy.streams.streams import ContinualNoise, continual_noise_for_rho


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
