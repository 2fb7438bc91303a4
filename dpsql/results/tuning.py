"""The result of tuning: per setting of bounds the left-out share and the noise, and the best one.

Everything is computed from plans and from what estimates have released: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dpsql.accuracy.left_out import ShareEstimate
from dpsql.core import display
from dpsql.core.formatting import figure_above, significant
from dpsql.planner.tuning import CandidateSetting
from dpsql.results.result import Cost

TOLERATED_OUTSIDE: Final = 0.05
"""The part of values that may lie outside of bounds that are recommended."""
_UNKNOWN = "What is left out is not known of all of them, so none is recommended."


@dataclass(frozen=True, slots=True)
class TriedSetting:
    """A setting of bounds, with its effect on an aggregate.

    Its values would be within ± ``margin95`` of what is counted, with 95% confidence, and a group
    would need a score of ``appears_95`` to appear with that probability (None where all appear, or
    where it depends on other groups). ``share`` of what there is would be left out: by estimate,
    between ``low`` and ``high`` with 95% confidence, or ``low`` and more with ``at_least``. With
    ``bounds``, it is the part of an average unit's values that lie outside of them.

    ``error`` is how far a value of a group of the ``size`` in question would be off: by the margin
    and by what is left out. Of all that were tried it is the least for groups from ``best_from`` to
    ``best_to``: both are None where it never is, and ``best_to`` is infinite for all larger ones.
    What is not known, as no estimate was taken, is None.
    """

    max_groups_contributed: int
    max_rows_contributed: int
    bounds: tuple[float, float] | None
    margin95: float
    appears_95: float | None
    share: float | None = None
    low: float | None = None
    high: float | None = None
    at_least: bool = False
    error: float | None = None
    best_from: float | None = None
    best_to: float | None = None


@dataclass(frozen=True, slots=True)
class TunedAggregate:
    """The tried settings of an aggregate, and the recommended one with its reason.

    ``size`` is that of the groups that it is recommended for, before anything is left out, in the
    units of the answer; ``size_is`` says where it comes from. ``sure`` tells whether the intervals
    leave no doubt that it is the best. ``recommended`` is None where nothing is.
    """

    aggregate: str
    tried: tuple[TriedSetting, ...]
    size: float | None
    size_is: str
    recommended: int | None
    sure: bool
    reason: str

    @property
    def of_bounds(self) -> bool:
        """True if bounds of values were tried, and not caps."""
        return self.tried[0].bounds is not None


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of tuning a question, and its cost; with ``dry_run`` the cost alone.

    With ``dry_run``, what it would cost. ``share`` is the part of the question's price that goes to
    estimates the account has no release of; what of them is known costs nothing.
    """

    query: str
    aggregates: tuple[TunedAggregate, ...]
    cost: Cost
    share: float
    dry_run: bool

    def __repr__(self) -> str:
        return display.text(self)


def tried_setting(
    setting: CandidateSetting,
    margin95: float,
    appears_95: float | None,
    found: ShareEstimate | None,
) -> TriedSetting:
    """Return a setting with its noise and, if it is known, its left-out share."""
    tried = TriedSetting(setting.groups, setting.rows, setting.bounds, margin95, appears_95)
    if found is None:
        return tried
    return replace(tried, share=found.share, low=found.low, high=found.high, at_least=found.vague)


# -- caps --------------------------------------------------------------------------------------


def tuned_caps(
    aggregate: str, tried: Sequence[TriedSetting], size: float | None, size_is: str
) -> TunedAggregate:
    """Recommend the cap whose margin and part left out add up to the least, for groups of a size.

    A group of V is off by the margin, with 95% confidence, and by share · V: a straight line for
    each setting, so that each is the best from one size to another, or never.
    """
    tuned = TunedAggregate(aggregate, tuple(tried), size, size_is, None, False, "")
    if any(one.share is None for one in tried):
        return replace(tuned, reason=_UNKNOWN)
    found = tuple(_ranged(one, tried) for one in tried)
    if size is None:
        why = "Which of them is best depends on the size of the groups: give one."
        return replace(tuned, tried=found, reason=why)
    found = tuple(replace(one, error=_error(one, one.share, size)) for one in found)
    best = min(range(len(found)), key=lambda place: found[place].error or 0.0)
    doubtful = _doubtful(found, best, size)
    return replace(
        tuned,
        tried=found,
        recommended=best,
        sure=not doubtful,
        reason=_reason(found, best, size, size_is, len(doubtful)),
    )


def _error(one: TriedSetting, share: float | None, size: float) -> float:
    return one.margin95 + (share or 0.0) * size


def _ranged(one: TriedSetting, others: Sequence[TriedSetting]) -> TriedSetting:
    """Find the sizes of groups at which no other setting has a smaller error.

    Of equal ones it is the first.
    """
    start, end = 0.0, math.inf
    for other in others:
        if other is one:
            continue
        steeper = (other.share or 0.0) - (one.share or 0.0)
        cheaper = one.margin95 - other.margin95
        if steeper > 0:
            start = max(start, cheaper / steeper)
        elif steeper < 0:
            end = min(end, cheaper / steeper)
        elif cheaper > 0 or (cheaper == 0 and _before(other, one, others)):
            return one
    return replace(one, best_from=start, best_to=end) if start < end else one


def _before(first: TriedSetting, second: TriedSetting, order: Sequence[TriedSetting]) -> bool:
    places = {id(one): place for place, one in enumerate(order)}
    return places[id(first)] < places[id(second)]


def _doubtful(found: Sequence[TriedSetting], best: int, size: float) -> list[int]:
    """List the settings that may be better than the best one, as far as intervals tell."""
    worst = _error(found[best], found[best].high, size)
    return [
        place
        for place, one in enumerate(found)
        if place != best and _error(one, one.low, size) < worst
    ]


def _reason(
    found: Sequence[TriedSetting], place: int, size: float, size_is: str, doubtful: int
) -> str:
    """Say why a setting is recommended, and how far it is certain."""
    best = found[place]
    left = (best.share or 0.0) * size
    text = (
        f"{setting_words(best, found)}: ± {significant(best.margin95, 3)} of noise and "
        f"{significant(left, 3)} left out ({100 * (best.share or 0.0):.2g}%) are together the "
        f"least for {size_is}, {significant(size, 3)}."
    )
    if doubtful:
        others = "another one" if doubtful == 1 else f"{doubtful} others"
        text += f" By the intervals {others} may be as good: a larger share tells more."
    return text


# -- bounds ------------------------------------------------------------------------------------


def tuned_bounds(aggregate: str, tried: Sequence[TriedSetting]) -> TunedAggregate:
    """Recommend the bounds with the least noise that few values lie outside of.

    How far values outside are moved is not known, so there is no error to compare.
    """
    tuned = TunedAggregate(aggregate, tuple(tried), None, "", None, False, "")
    if any(one.share is None for one in tried):
        return replace(tuned, reason=_UNKNOWN)
    order = sorted(range(len(tried)), key=lambda place: tried[place].margin95)
    few = [place for place in order if (tried[place].share or 0.0) <= TOLERATED_OUTSIDE]
    if not few:
        why = (
            f"More than {100 * TOLERATED_OUTSIDE:.0f}% of values lie outside of all that were "
            "tried: try wider ones."
        )
        return replace(tuned, reason=why)
    best = tried[few[0]]
    narrower = [tried[place] for place in order[: order.index(few[0])]]
    sure = (best.high or 0.0) <= TOLERATED_OUTSIDE
    sure = sure and all((one.low or 0.0) > TOLERATED_OUTSIDE for one in narrower)
    why = (
        f"{setting_words(best, tried)}: of those outside of which lie at most "
        f"{100 * TOLERATED_OUTSIDE:.0f}% of an average unit's values it has the least noise, "
        f"± {significant(best.margin95, 3)}. How far the rest is moved is not known."
    )
    if not sure:
        why += " The intervals leave doubt: a larger share tells more."
    return replace(tuned, recommended=few[0], sure=sure, reason=why)


# -- words -------------------------------------------------------------------------------------


def setting_words(one: TriedSetting, among: Sequence[TriedSetting]) -> str:
    """Name a candidate by the parameters in which candidates differ."""
    if one.bounds is not None:
        low, high = one.bounds
        return f"bounds {significant(low, 6)} to {significant(high, 6)}"
    groups = len({other.max_groups_contributed for other in among}) > 1
    rows = len({other.max_rows_contributed for other in among}) > 1
    words = []
    if groups or not rows:
        words.append(f"max_groups_contributed {one.max_groups_contributed}")
    if rows:
        words.append(f"max_rows_contributed {one.max_rows_contributed}")
    return ", ".join(words)


def best_sizes(one: TriedSetting) -> str:
    """Name the sizes of groups at which a setting is the best."""
    if one.best_from is None or one.best_to is None:
        return "none"
    if math.isinf(one.best_to):
        return "all" if one.best_from == 0 else f"from {figure_above(one.best_from)}"
    upper = figure_above(one.best_to)
    return f"up to {upper}" if one.best_from == 0 else f"{figure_above(one.best_from)} to {upper}"
