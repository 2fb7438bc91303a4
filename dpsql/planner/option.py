"""A way to answer a block: a mechanism with its plan, or the reason why it cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpsql.errors import ParameterError
from dpsql.ir.plan import BlockPlan, Candidate


@dataclass(frozen=True, slots=True)
class Option:
    """A mechanism with its plan, or with the ``obstacle`` that rules it out, and a hint.

    ``rank`` is what options are compared by: the predicted threshold or error, smaller is better.
    ``variant`` tells options of one mechanism apart.
    """

    mechanism: str
    plan: BlockPlan | None
    rank: float = 0.0
    obstacle: str = ""
    hint: str = ""
    variant: str = ""

    @property
    def order(self) -> float:
        """The rank, after all others where there is no plan."""
        return math.inf if self.plan is None else self.rank

    def candidate(self, chosen: bool, forced: bool) -> Candidate:
        """Return the option as EXPLAIN lists it."""
        if self.plan is None:
            return Candidate(self.mechanism, None, False, None, self.obstacle, False)
        plan = self.plan
        step = 1.0 if plan.score is None else plan.measures[plan.score].measure.step
        threshold = plan.selection.score_for_inclusion(0.5)
        chosen_for = "asked for" if forced else "smallest threshold or error"
        variant = f" ({self.variant})" if self.variant else ""
        return Candidate(
            mechanism=self.mechanism,
            threshold=None if threshold is None else threshold * step,
            relative=plan.base_rank is not None,
            noise_std=_noise_std(plan),
            verdict=(chosen_for if chosen else "possible") + variant,
            chosen=chosen,
        )


def impossible(mechanism: str, obstacle: str, hint: str = "") -> Option:
    """List a mechanism that cannot answer the block."""
    return Option(mechanism, None, obstacle=obstacle, hint=hint)


def attempted(mechanism: str, build: Callable[[], Option]) -> Option:
    """Return the option, or the reason why no noise or threshold in range makes it private."""
    try:
        return build()
    except ParameterError as error:
        return impossible(mechanism, error.reason, error.hint or "")


def _noise_std(plan: BlockPlan) -> float | None:
    if not plan.measures or not (plan.measures[0].noise or plan.selection.score_noise):
        return None  # names only, or the number of units that decides on these
    groups = plan.groups if plan.groups is not None else plan.max_released
    assert groups is not None
    return plan.noise_of(0).std(groups) * plan.measures[0].measure.step
