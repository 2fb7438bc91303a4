"""Top-k of declared groups that is chosen anew only when another group has grown above it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK, known_domain_top_k
from dpsql.privacy.sampling.noise import MIN_SCALE, DiscreteLaplace, EntropySource
from dpsql.privacy.sampling.numeric import checked_positive
from dpsql.privacy.streams.factorisation import Factorisation, SquareRoot
from dpsql.privacy.streams.keyed import StepKey
from dpsql.privacy.streams.mechanism import ChoosesGroups, Listed, StreamCounts
from dpsql.privacy.streams.shared import NamedGroupsNoise, named_groups_noise

_UP = 1 + 1e-12
_DOWN = 1 - 1e-11


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Whether any of many counts is above a public threshold, until one is.

    The threshold has one noise for as long as the answer is no, each count a new one whenever it is
    asked; both are discrete Laplace with scale 2*sensitivity/epsilon.

    Guarantee: epsilon-DP for all answers up to and with the first yes, hence epsilon**2/2 zCDP, if
    an event moves all counts one way, by at most ``sensitivity`` each, and thresholds depend on
    earlier answers alone. Half of epsilon is for moving the threshold along by the sensitivity,
    half for the count that is above: where counts fall no threshold has to move, where they rise
    one does, and then the other counts only help (Lyu, Su & Li 2017, Theorem 4, for monotone
    queries and one yes). Raises ParameterError for parameters out of range. Checked by
    ``tests/privacy/streams/test_continual_sparse.py``.
    """

    epsilon: float
    sensitivity: int

    def __post_init__(self) -> None:
        checked_positive(self.epsilon, "epsilon")
        if self.sensitivity < 1:
            raise ParameterError("the sensitivity must be at least 1", code="not_positive")

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise on the threshold and on every count."""
        return DiscreteLaplace(max(2 * self.sensitivity / self.epsilon * _UP, MIN_SCALE))

    @property
    def rho(self) -> float:
        """The cost of all answers up to the first yes."""
        return self.epsilon**2 / 2 * _UP

    def above(
        self,
        counts: NDArray[np.int64],
        threshold: int,
        kept: EntropySource,
        fresh: EntropySource,
    ) -> bool:
        """Tell whether any noisy count is above the noisy threshold.

        ``counts`` has shape (groups,). ``kept`` must give the same words until the first yes,
        ``fresh`` others every time.
        """
        limit = threshold + int(self.noise.sample(1, kept)[0])
        return bool((counts + self.noise.sample(len(counts), fresh) > limit).any())


@dataclass(frozen=True, slots=True)
class SparseChoice:
    """The listed declared groups by index, the number of choices, and all groups ever chosen.

    ``step`` is the one at which these were.
    """

    listed: tuple[int, ...]
    choices: int
    ever: frozenset[int]
    step: int


@dataclass(frozen=True, slots=True)
class SparseTopK(ChoosesGroups):
    """The k largest of declared groups, chosen anew at most ``switches`` times.

    A choice stands until a group outside of it seems to exceed its smallest noisy count by more
    than ``margins[step - 1]``, which costs nothing while it does not happen. Counts are running
    counts with noise of one stream: a group that is chosen again keeps its own.

    Guarantee: rho is (switches + 1) selections, ``counts`` of all groups that can come out, and
    ``switches`` sparse vectors, whatever the margins, for a unit that adds to any groups, to each
    at most the sensitivity over all steps; with ``SharedContinualNoise`` only for one that adds at
    a single step (an event). In the terms of the paper (its
    tau, independent noise): k/2 for the choices, k/2 for the counts, 1/2 for the sparse vectors,
    over tau**2. After Rivera Cardoso & Rogers 2022, Algorithm 8 (SparseGumb), whose sparse vector
    here uses that counts move one way, and whose counts share a noise. Raises ParameterError for
    parameters that do not fit together. Checked by
    ``tests/privacy/streams/test_continual_sparse.py``.
    """

    source: ClassVar[str] = "Rivera Cardoso & Rogers 2022, Algorithm 8"
    selection: KnownDomainTopK
    counts: NamedGroupsNoise
    vector: SparseVector
    switches: int
    margins: tuple[int, ...]

    def __post_init__(self) -> None:
        possible = self.switches >= 0 and len(self.margins) == self.counts.factorisation.steps
        if not (possible and min(self.margins) >= 0):
            raise ParameterError(
                "switches and margins must not be negative, and every step has a margin",
                code="bad_parameter",
            )
        if self.counts.most < min((self.switches + 1) * self.selection.picks, self.selection.size):
            raise ParameterError("more groups can come out than are counted", code="bad_parameter")

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return f"sparse_gumb_{self.selection.name}"

    @property
    def choices(self) -> str:
        """How groups are chosen, in words."""
        return (
            f"the {self.selection.picks:,} largest declared groups at the first step, and at most "
            f"{self.switches:,} times anew: once another seems to exceed the smallest noisy count "
            f"listed by more than {self.margins[0]:,}, with Laplace noise of scale "
            f"{self.vector.noise.scale:.4g} on both sides"
        )

    def std(self, step: int) -> float:
        """Compute the standard deviation of a listed count at a step."""
        return self.counts.std(step)

    def half_widths(self, confidence: float) -> NDArray[np.float64]:
        """Find the half-widths of intervals around listed counts, of shape (steps,)."""
        return self.counts.half_widths(confidence)

    @property
    def loss(self) -> PrivacyLoss:
        """The largest cost of the stream."""
        rho = (self.switches + 1) * self.selection.rho(None)
        rho += self.switches * self.vector.rho
        rho += self.counts.rho(self.counts.most)
        return PrivacyLoss(rho * _UP, 0.0)

    def answer(self, counts: StreamCounts) -> Listed:
        """List the groups chosen last; choose anew once the sparse vector says yes."""
        step, exact, keys = counts.step, counts.exact, counts.keys
        names, kept = counts.names(range(len(exact))), counts.choices()
        before = None
        if kept:
            ever = frozenset(place for each in kept.values() for place in each.places)
            last = kept[max(kept)]
            before = SparseChoice(last.places, max(kept), ever, last.step)
        choice = (
            self.first(step, exact, keys)
            if before is None
            else self.advance(before, step, exact, names, keys)
        )
        if choice is not before:
            counts.keep(choice.choices, choice.listed)
        noisy = self.noisy(choice, step, exact, names, keys)
        return Listed(np.array(choice.listed, dtype=np.intp), [noisy])

    def first(self, step: int, exact: NDArray[np.int64], keys: Sequence[StepKey]) -> SparseChoice:
        """Choose for the first time, from the counts of all declared groups, of shape (groups,)."""
        return self._chosen(None, step, exact, keys)

    def advance(
        self,
        before: SparseChoice,
        step: int,
        exact: NDArray[np.int64],
        groups: Sequence[bytes],
        keys: Sequence[StepKey],
    ) -> SparseChoice:
        """Choose at a step after the one of the choice before, from the counts of all groups.

        ``exact`` has shape (groups,), ``groups`` are their encoded keys; ``keys`` are those of the
        steps that have begun. All that is drawn comes from them: from that of this step, and the
        threshold's noise, which stays until the next choice, from that of the first step at which
        it is used. The same choice before and the same counts give the same, and a step is asked
        once.
        """
        if before.choices > self.switches:
            return before
        noisy = self.noisy(before, step, exact, groups, keys)
        threshold = math.floor(noisy.min()) + self.margins[step - 1]
        others = np.delete(exact, list(before.listed))
        kept = keys[before.step].source("threshold of a choice", before.choices)
        if not self.vector.above(others, threshold, kept, keys[step - 1].source("above")):
            return before
        return self._chosen(before, step, exact, keys)

    def noisy(
        self,
        choice: SparseChoice,
        step: int,
        exact: NDArray[np.int64],
        groups: Sequence[bytes],
        keys: Sequence[StepKey],
    ) -> Steps:
        """Add noise to the counts of the listed groups at a step: half-steps, shape (listed,).

        ``exact`` are the counts of all declared groups, of shape (groups,), and ``groups`` their
        encoded keys.
        """
        listed = list(choice.listed)
        names = [groups[i] for i in listed]
        return self.counts.add(step, exact[listed], names, keys, "sparse top k")

    def _chosen(
        self,
        before: SparseChoice | None,
        step: int,
        exact: NDArray[np.int64],
        keys: Sequence[StepKey],
    ) -> SparseChoice:
        choices, ever = (0, frozenset[int]()) if before is None else (before.choices, before.ever)
        source = keys[step - 1].source("sparse top k", choices)
        listed = tuple(self.selection.select(exact, source).indices.tolist())
        return SparseChoice(listed, choices + 1, ever | set(listed), step)


def sparse_top_k(
    rho: float,
    steps: int,
    *,
    k: int,
    size: int,
    switches: int,
    margin: int,
    sensitivity: int = 1,
    factorisation: Factorisation | None = None,
    one_step: bool = True,
) -> SparseTopK:
    """Build the mechanism that costs at most ``rho``, by the paper's shares: k, k and 1 of 2k + 1.

    ``margin`` is that of every step; ``one_step`` says that a unit adds at a single one. Raises
    ParameterError for parameters out of range.
    """
    checked_positive(rho, "rho")
    if min(k, size) < 1 or switches < 0:
        raise ParameterError("k, size and switches must be positive", code="not_positive")
    k = min(k, size)
    share = rho / (2 * k + 1) * _DOWN
    each = PrivacyLoss(share * k / (switches + 1))
    selection = known_domain_top_k(each, sensitivity=sensitivity, k=k, size=size)
    named = min((switches + 1) * k, size)
    found = factorisation or SquareRoot(steps)
    counts = named_groups_noise(share * k, found, sensitivity, named, one_step=one_step)
    vector = SparseVector(math.sqrt(2 * share / max(1, switches)) * _DOWN, sensitivity)
    return SparseTopK(selection, counts, vector, switches, (margin,) * steps)
