"""The interface of mechanisms that select the groups to release.

A bound on how good a top-k will be is known before it runs: it follows from the parameters alone,
whatever the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.additive import Additive, IndependentNoise, Steps
from dpsql.privacy.mechanisms.price import Priced
from dpsql.privacy.sampling.noise import EntropySource

BETA = 0.05  # how often a bound may fail, unless told otherwise


@dataclass(frozen=True, slots=True)
class UtilityBound:
    """How good the first k released groups are, with probability at least 1 - ``beta``.

    Both hold at once, h_(j) being the j-th largest true score: every released group has a true
    score of at least h_(k) - ``shortfall``; and if h_(k) >= base + ``gap``, k groups come out,
    where the base is the score that the threshold starts from (h_(k_bar+1), or the floor).
    In steps of the score. ``gap`` is None where k groups always come out.

    After Durfee & Rogers 2019, Lemma 8.1, which states the two separately and bounds each pick
    alone; the mechanisms say how theirs are derived. Checked by ``tests/accuracy/test_utility.py``.
    """

    beta: float
    shortfall: float
    gap: float | None


def intruder_weight(picks: int, beta: float) -> float:
    """Tell how much weight intruders may have for ``picks`` draws to avoid them, but for ``beta``.

    In an exponential mechanism peeled ``picks`` times, as many wanted outcomes weigh at least 1
    each and intruders W in all. While r wanted ones remain a draw avoids intruders with probability
    at least r/(r + W), so all do with at least the product over r = 1, ..., picks; that is at least
    exp(-W*H), H the harmonic number, hence 1 - beta for W = -ln(1 - beta)/H.
    """
    harmonic = math.log(picks) + 0.57721567 + 1 / (2 * picks)  # above the harmonic number
    return -math.log1p(-beta) / harmonic


@dataclass(frozen=True, slots=True)
class Selected:
    """The released groups, by index into the scores, and their noisy scores if those are released.

    Arrays of shape (released,). For mechanisms whose output is an ordering, ``indices`` are in the
    released order.
    """

    indices: NDArray[np.intp]
    noisy: Steps | None


class Selection(Protocol):
    """A mechanism that selects the groups to release.

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
        """The noise on released scores, or None for a release of names only."""

    @property
    def top_rows_needed(self) -> int | None:
        """How many of the largest groups the engine must return, or None for all."""

    @property
    def declared(self) -> int | None:
        """How many declared groups it answers or chooses from, or None if keys are unknown."""

    @property
    def base_rank(self) -> int | None:
        """The rank of the score from which a group's threshold counts; None without one."""

    @property
    def threshold(self) -> float | None:
        """The threshold of a noisy score, above the base if there is one; None without a fixed one.

        In steps of the score.
        """

    @property
    def leaves_out(self) -> bool:
        """True if of the groups that clear the threshold only the largest by noisy score appear."""

    @property
    def refunds(self) -> bool:
        """True if the values of few groups cost less than was planned for."""

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Compute its price when ``reach`` groups came out; None asks for the worst case."""

    def rho(self, reach: int | None) -> float:
        """Compute its price under zCDP."""

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound | None:
        """Bound how good the first k groups are, but for ``beta``; None if not a top-k."""

    def score_for_inclusion(self, probability: float) -> float | None:
        """Tell how large a score must be to be released with this probability, or None if all are.

        For top-k mechanisms the size is counted from the (k_bar+1)-th score.
        """

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the released groups from true scores in steps: an int64 array of shape (groups,)."""


class Histogram(Selection, Protocol):
    """A selection that releases the noisy scores above a threshold."""

    @property
    def score_noise(self) -> IndependentNoise:
        """The noise on the scores."""

    @property
    def threshold(self) -> int:
        """The threshold of a noisy score, in steps of the score."""


class JointHistogram(Histogram, Protocol):
    """A histogram whose (epsilon, delta) covers further values of the released groups."""

    @property
    def others(self) -> float:
        """The allowance for Gaussian noise on further values: their squared change per group.

        Each in units of its own standard deviation, with ``LATTICE_VARIANCE`` less.
        """


class Usual(Priced[int | None]):
    """Give the usual answers of a :class:`Selection`, for its kinds to build on.

    Keys are unknown, all groups are needed, only names come out, no price is stated.
    """

    __slots__ = ()
    word: ClassVar[str]
    """What the class is called where questions are described for ever: see the registry's kinds."""

    @property
    def score_noise(self) -> Additive | None:
        """The noise on released scores, or None for a release of names only."""
        return None

    @property
    def top_rows_needed(self) -> int | None:
        """How many of the largest groups the engine must return, or None for all."""
        return None

    @property
    def declared(self) -> int | None:
        """How many declared groups it answers or chooses from, or None if keys are unknown."""
        return None

    @property
    def base_rank(self) -> int | None:
        """The rank of the score from which a group's threshold counts: the last fetched."""
        return self.top_rows_needed

    @property
    def threshold(self) -> float | None:
        """The threshold of a noisy score, or None without a fixed one."""
        return None

    @property
    def leaves_out(self) -> bool:
        """True if of the groups that clear the threshold only the largest by noisy score appear."""
        return False

    @property
    def refunds(self) -> bool:
        """True if the values of few groups cost less: of declared ones all come out."""
        return self.declared is None

    def utility_bound(self, k: int, beta: float = BETA) -> UtilityBound | None:
        """Bound how good the first k groups are; None if not a top-k."""
        return None


class AboveBase(Usual):
    """Give top-k mechanisms that release groups above the (k_bar+1)-th score."""

    __slots__ = ()
    k_bar: int

    @property
    def top_rows_needed(self) -> int | None:
        """How many of the largest groups the engine must return."""
        return self.k_bar + 1
