"""The largest groups over a stream whose events may touch any number of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import Steps, correlated_gaussian
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.topk import GumbelTopK
from dpsql.privacy.streams.factorisation import Factorisation, SquareRoot
from dpsql.privacy.streams.keyed import StepKey
from dpsql.privacy.streams.mechanism import (
    ChoosesGroups,
    Listed,
    StreamCounts,
    StreamGroups,
    largest_first,
)
from dpsql.privacy.streams.shared import NamedGroupsNoise, named_groups_noise

_UP = 1 + 1e-12
_DOWN = 1 - 1e-11
_LISTED = 12  # steps of a schedule, in words


def doubling_steps(steps: int) -> tuple[int, ...]:
    """List the steps 1, 2, 4, ... of a stream: what has grown by half since is chosen anew."""
    return tuple(1 << i for i in range(steps.bit_length()))


@dataclass(frozen=True, slots=True)
class ScheduledTopK(ChoosesGroups):
    """The k largest groups, chosen anew at public steps, with running counts in between.

    At each step of ``schedule`` the selection ranks the cumulative counts; between them the groups
    chosen last are listed. Counts are of all steps so far.

    Guarantee: (number of selections * selection.delta)-approximate zCDP, rho the sum of what the
    selections cost and of ``counts``, for a unit that adds to any groups, to each at most the
    sensitivity over all steps; with ``SharedContinualNoise`` only for one that adds at a single
    step (an event). It is in the counts of all later selections, so that each of them is paid for;
    they are adaptive, and a group that is chosen again keeps its noise. Rivera Cardoso & Rogers
    2022 (Theorem 3, for each selection) with noise by factorisation and a schedule. Raises
    ParameterError for a schedule that is not increasing or leaves the stream. Checked by
    ``tests/privacy/streams/test_continual_topk.py``.
    """

    source: ClassVar[str] = "Rivera Cardoso & Rogers 2022, Theorem 3"
    selection: KnownDomainTopK | GumbelTopK
    counts: NamedGroupsNoise
    schedule: tuple[int, ...]

    def __post_init__(self) -> None:
        increasing = all(a < b for a, b in zip(self.schedule, self.schedule[1:], strict=False))
        inside = self.schedule and 1 <= self.schedule[0] <= self.schedule[-1] <= self.steps
        if not (increasing and inside):
            raise ParameterError(
                "the steps at which groups are chosen must increase, within the stream",
                code="bad_parameter",
            )

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return f"scheduled_top_k_{self.selection.name}"

    @property
    def steps(self) -> int:
        """How many steps the stream has."""
        return self.counts.factorisation.steps

    @property
    def choices(self) -> str:
        """How groups are chosen, in words."""
        steps = [f"{step:,}" for step in self.schedule]
        if len(steps) > _LISTED:
            steps = [*steps[: _LISTED - 1], "…", steps[-1]]
        return (
            f"the {self.selection.k:,} largest groups at {len(self.schedule):,} steps "
            f"({', '.join(steps)}); between them the same are listed"
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
        rho = sum(self.selection.rho(None) for _ in self.schedule)
        rho += self.counts.rho(self.counts.most)
        return PrivacyLoss(rho * _UP, self.selection.delta * len(self.schedule) * _UP)

    def latest(self, step: int) -> int | None:
        """Return the step whose choice is listed at ``step``; None before the first."""
        return max((chosen for chosen in self.schedule if chosen <= step), default=None)

    def choose(self, step: int, scores: NDArray[np.int64], key: StepKey) -> NDArray[np.intp]:
        """Choose groups for a step of the schedule: indices into ``scores``, of shape (k,).

        The largest comes first. ``scores``, of shape (groups,), are the cumulative counts as the
        selection takes them: of all declared groups, or the largest in falling order. ``key`` is
        that of the step at which the choice is drawn, ``step`` or a later one, and the choice is
        drawn once: the same scores give the same. Raises ParameterError at another step.
        """
        if step not in self.schedule:
            raise ParameterError("no groups are chosen at this step", code="bad_parameter")
        return self.selection.select(scores, key.source("top k", step)).indices

    def answer(self, counts: StreamCounts) -> Listed:
        """List the groups chosen last; choose where the schedule says so and nothing is chosen yet.

        A choice whose own step was used up by a failure is made at the next one, in its place:
        there are never more than the schedule has.
        """
        step, exact = counts.step, counts.exact
        due = self.latest(step)
        if due is None:
            return Listed(np.empty(0, dtype=np.intp), [np.empty(0, dtype=np.float64)])
        kept = counts.choices().get(due)
        if kept is not None:
            places = np.array(kept.places, dtype=np.intp)
        else:
            ranked = largest_first(counts, exact, self.selection.top_rows_needed)
            places = ranked[self.choose(due, exact[ranked], counts.keys[step - 1])]
            counts.keep(due, places.tolist())
        names = counts.names(places.tolist())
        return Listed(places, [self.noisy(step, exact[places], names, counts.keys)])

    def noisy(
        self, step: int, exact: NDArray[np.int64], groups: Sequence[bytes], keys: Sequence[StepKey]
    ) -> Steps:
        """Add noise to the counts of chosen groups at a step: half-steps, of shape (groups,)."""
        return self.counts.add(step, exact, groups, keys, "top k")


def scheduled_top_k(
    price: PrivacyLoss,
    steps: int,
    groups: StreamGroups,
    *,
    k: int,
    sensitivity: int = 1,
    schedule: tuple[int, ...] | None = None,
    factorisation: Factorisation | None = None,
    one_step: bool = True,
) -> ScheduledTopK | None:
    """Build the mechanism that costs at most ``price``, half of its rho for the counts.

    Groups are chosen at the doubling steps and counted by the square root if not said otherwise.
    ``one_step`` says that a unit adds at a single step only. None if rho is too small for a
    selection at so small a delta. Raises ParameterError for parameters out of range.
    """
    schedule = doubling_steps(steps) if schedule is None else schedule
    selections, named = max(1, len(schedule)), len(schedule) * k
    if groups.size is not None:
        named = min(named, groups.size)
    counts = named_groups_noise(
        price.rho / 2 * _DOWN,
        factorisation or SquareRoot(steps),
        sensitivity,
        named,
        one_step=one_step,
    )
    each = PrivacyLoss(price.rho / 2 / selections * _DOWN, price.delta / selections * _DOWN)
    selection = groups.top_k(each, sensitivity, k)
    return None if selection is None else ScheduledTopK(selection, counts, schedule)


def single_top_k_std(rho: float, sensitivity: int, k: int) -> float:
    """Compute the noise of a top-k that is asked once: half of ``rho`` is for its counts."""
    return correlated_gaussian(PrivacyLoss(rho / 2), sensitivity, k).std(k)
