"""The interface of streams: a mechanism decides at each step about groups and noisy values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK, known_domain_top_k
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.topk import GumbelTopK, gumbel_top_k
from dpsql.privacy.streams.keyed import StepKey

_SHOWN: Final = 5  # steps, of those that are spread over all


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen groups, by position, the first chosen first, with the step of the choice."""

    step: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """The groups that come out at a step, by their places, and the noisy values of each measure.

    ``places`` and each of ``values`` have shape (groups,), in any order.
    """

    places: NDArray[np.intp]
    values: Sequence[NDArray[np.int64] | NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """The exact counts of a stream's groups at a step, and what was drawn of earlier steps.

    Groups are known by their places, from 0 on; counts have shape (groups,). ``keys`` are those of
    the steps that have begun, up to this one. ``score`` is the measure, by index, by which groups
    come out: ``exact`` are its values in the steps that a value covers, ``since_start`` in all so
    far. ``before`` tells which groups came out at the step before and stay. ``noisy`` adds the
    noise of the step to all groups' values of each measure, ``names`` returns encoded keys of
    groups, and ``added`` what the steps from one to another have added to the counts. ``choices``
    reads all that were kept, by number; ``keep`` keeps one of this step under a number for good,
    before anything of it comes out.
    """

    step: int
    keys: Sequence[StepKey]
    score: int
    exact: NDArray[np.int64]
    since_start: NDArray[np.int64]
    before: NDArray[np.bool_]
    noisy: Callable[[], list[NDArray[np.int64]]]
    names: Callable[[Iterable[int]], list[bytes]]
    added: Callable[[int, int], NDArray[np.int64]]
    choices: Callable[[], Mapping[int, Choice]]
    keep: Callable[[int, Sequence[int]], None]


class StreamNoise(Protocol):
    """The noise on a measure of a stream, at every step."""

    @property
    def name(self) -> str:
        """The mechanism's standard name."""

    def std(self, step: int) -> float:
        """Compute the standard deviation of a step's noise."""

    def half_widths(self, confidence: float) -> NDArray[np.float64] | None:
        """Find the half-widths of intervals at all steps, of shape (steps,).

        None where values lack more than noise.
        """


class StreamMechanism(StreamNoise, Protocol):
    """A mechanism that selects the groups of a stream at each step, with noisy values.

    ``chooses`` is True if it chooses the groups that it lists; else it counts all that are large
    enough. ``keeps_steps`` is True if it asks what single steps have added.
    """

    source: ClassVar[str]
    chooses: ClassVar[bool]
    keeps_steps: ClassVar[bool]

    @property
    def loss(self) -> PrivacyLoss:
        """The cost of the whole stream."""

    @property
    def choices(self) -> str:
        """How groups are chosen, in words; empty where none are."""

    @property
    def base_rank(self) -> int | None:
        """The rank of the count from which a group's threshold counts; None without one."""

    def thresholds(self) -> NDArray[np.int64] | None:
        """Return the noisy count that a group must exceed at each step; None without fixed ones.

        Of shape (steps,).
        """

    def score_for_inclusion(self, probability: float, step: int) -> float | None:
        """Return how large a count must be to come out at a step with this probability."""

    def answer(self, counts: StreamCounts) -> Listed:
        """Draw the groups and values of a step: a function of the keys of the steps so far.

        What it must not draw twice it keeps before it returns.
        """


@dataclass(frozen=True, slots=True)
class StreamGroups:
    """The groups that a stream may list: ``size`` declared ones, or those of unknown keys.

    Of unknown keys, a choice looks at the ``k_bar`` largest above ``floor``.
    """

    size: int | None = None
    k_bar: int = 0
    floor: int = 0

    def top_k(
        self, price: PrivacyLoss, sensitivity: int, k: int
    ) -> KnownDomainTopK | GumbelTopK | None:
        """Build the selection of the k largest; None if rho is too small for so small a delta."""
        if self.size is not None:
            each = PrivacyLoss(price.rho)
            return known_domain_top_k(each, sensitivity=sensitivity, k=k, size=self.size)
        return gumbel_top_k(price, sensitivity=sensitivity, k=k, k_bar=self.k_bar, floor=self.floor)


class ChoosesGroups:
    """Give the usual answers of a :class:`StreamMechanism` whose ``selection`` chooses groups."""

    __slots__ = ()

    selection: Selection
    chooses: ClassVar[bool] = True
    keeps_steps: ClassVar[bool] = False

    @property
    def base_rank(self) -> int | None:
        """The rank of the count that a choice compares with, or None."""
        return self.selection.base_rank

    def thresholds(self) -> None:
        """Return None: a group is compared with others."""

    def score_for_inclusion(self, probability: float, step: int) -> float | None:
        """Return how large a count must be to be chosen with this probability, at one choice."""
        return self.selection.score_for_inclusion(probability)


def few_steps(count: int) -> list[int]:
    """List the first of ``count`` steps, the last one, and some between them at equal ratios."""
    return sorted({1, count} | {round(count ** (i / (_SHOWN - 1))) for i in range(_SHOWN)})


def largest_first(
    counts: StreamCounts, exact: NDArray[np.int64], needed: int | None
) -> NDArray[np.intp]:
    """Sort the places of the ``needed`` largest groups, ties by their keys; all without a number.

    ``exact`` are the counts of all groups, of shape (groups,).
    """
    if needed is None:
        return np.arange(len(exact))
    # Groups of no count do not exist: some that were counted may lie outside of what is summed.
    least = max(1, int(np.sort(exact)[-needed]) if len(exact) > needed else 1)
    near = np.flatnonzero(exact >= least).tolist()
    named = zip(near, counts.names(near), strict=True)
    ranked = sorted(named, key=lambda pair: (-int(exact[pair[0]]), pair[1]))
    return np.array([place for place, _ in ranked[:needed]], dtype=np.intp)
