"""What every mechanism that decides which groups to release has in common."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.additive import Additive, Steps
from dpsql.mechanisms.sampling.noise import EntropySource


@dataclass(frozen=True, slots=True)
class Selected:
    """The released groups, by index into the scores, and their noisy scores if those are released.

    For mechanisms whose output is an ordering, ``indices`` are in the released order.
    """

    indices: NDArray[np.intp]
    noisy: Steps | None


class Selection(Protocol):
    """A mechanism that decides which groups are released.

    ``scores`` are the exact scores of the groups the engine returned, in its order.
    """

    @property
    def name(self) -> str:
        """The mechanism's name, as it can be asked for."""

    @property
    def source(self) -> str:
        """Where the mechanism and its guarantee come from."""

    @property
    def delta(self) -> float:
        """The probability of a differentiating outcome, spent whatever is released."""

    @property
    def score_noise(self) -> Additive | None:
        """The noise on the scores it releases, or None if it releases names only."""

    @property
    def fetch(self) -> int | None:
        """How many of the largest groups the engine must return, or None for all."""

    def rho(self, released: int | None) -> float:
        """zCDP cost when ``released`` groups came out; None asks for the worst case."""

    def appears_above(self, probability: float) -> float | None:
        """How large a score must be to be released with this probability, or None if all are.

        For top-k mechanisms the size is counted from the (k_bar+1)-th score.
        """

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the released groups."""


class Usual:
    """Give the usual answers of a :class:`Selection`, for its kinds to build on.

    All groups are needed, only names come out, and no zCDP cost is stated.
    """

    __slots__ = ()

    @property
    def score_noise(self) -> Additive | None:
        """The noise on the scores it releases, or None if it releases names only."""
        return None

    @property
    def fetch(self) -> int | None:
        """How many of the largest groups the engine must return, or None for all."""
        return None

    def rho(self, released: int | None) -> float:
        """zCDP cost when ``released`` groups came out; None asks for the worst case."""
        return math.inf


class AboveBase(Usual):
    """Give those of the kinds that release what stands out above the (k_bar+1)-th score."""

    __slots__ = ()
    k_bar: int

    @property
    def fetch(self) -> int | None:
        """How many of the largest groups the engine must return."""
        return self.k_bar + 1
