"""How much bounding left out of an answer, in numbers and in plain words.

All is computed from what an estimate released and from the plan: post-processing. A ladder is cut
at the height that suits its noise (:mod:`dpsql.privacy.mechanisms.left_out`): where units have more
left out than that, an estimate is one of "at least". All heights are looked at, so the confidence
is shared among them: what is said of the one that is chosen holds with the confidence stated,
whichever it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from dpsql.core.formatting import level, printable, significant
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, LeftOutSubject
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.left_out import LADDER_STEPS, LeftOutNoise, LeftOutRelease

LEFT_OUT_CONFIDENCE: Final = 0.95
_PERCENT = 0.01
_FEW = 0.05  # the largest share that is told where its lower end says nothing
_CLOSE = 0.2  # the widest interval of which both ends are told


@dataclass(frozen=True, slots=True)
class LeftOutPart:
    """How much bounding left out of columns of an answer, by an estimate with noise.

    ``columns`` show what was counted as it was released; none do where the query computes with it.
    ``of`` says of what: ``rows``, ``groups of units``, ``sum(x)``. ``share`` is the part of it that
    was left out, over all groups, released or not; it lies between ``low`` and ``high`` with 95%
    confidence. ``at_least`` is True where the noise hides how much single units have left out: then
    ``share`` is that of most units, and only ``low`` says something. ``limits`` names what caused
    it. With ``clamped`` it is the part of values that lay outside their bounds and were moved to
    them, of an average unit. Where bounding cannot leave out anything, all figures are 0. Where it
    is not told, they are None.
    """

    columns: tuple[str, ...]
    of: str
    share: float | None
    low: float | None
    high: float | None
    at_least: bool
    limits: tuple[str, ...]
    clamped: bool = False

    @property
    def told(self) -> bool:
        """True if there are figures."""
        return self.share is not None

    @property
    def nothing(self) -> bool:
        """True if bounding cannot have left out anything."""
        return self.told and not self.limits  # an estimate of nothing has some


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """An estimate of the share that bounding leaves out, with its interval.

    ``there`` is the estimated total, left out or not, in the steps of the estimate.
    """

    share: float
    low: float
    high: float
    there: float = 0.0

    @property
    def vague(self) -> bool:
        """True if the interval is too wide, so that only its lower end is shown."""
        return self.high - self.low > _CLOSE


@lru_cache(maxsize=256)  # one answer asks for it several times, each repeat of it again
def estimated_share(
    noise: LeftOutNoise,
    release: LeftOutRelease,
    confidence: float = LEFT_OUT_CONFIDENCE,
    *,
    beyond: int = 0,
) -> ShareEstimate:
    """Compute the share of a total that bounding leaves out.

    Half of the risk is that of what is kept, the rest is shared by all heights of the ladder. So
    all of their bounds hold at once: the largest of the lower ones is taken, with the upper one of
    the whole ladder. It holds of the share, of each unit at most the ladder's top being counted.

    ``beyond`` asks what bounds that keep so much more of each unit would leave out, of an estimate
    whose bounds keep the first of what a unit has and no other. Of a unit that has x beyond that
    they would leave out max(0, x - beyond), which is straight between rungs if ``beyond`` is one:
    then it adds up exactly. Else sums over the rungs are more, and those beyond the next rung less.
    Raises ``ValueError`` where the ladder does not reach beyond it.
    """
    heights = noise.ladder.heights
    if not 0 <= beyond < heights[-1]:
        raise ValueError(f"the ladder reaches to {heights[-1]:,}, not beyond {beyond:,}")
    risk = (1 - confidence) / 2
    kept, slack = _kept(noise, release, beyond, risk)
    least, most = max(0.0, kept - slack), max(0.0, kept + slack)
    surely_beyond = min(height for height in (0, *heights) if height >= beyond)
    found = []
    first = 1 + sum(height <= beyond for height in heights)
    for rungs in range(first, len(heights) + 1):
        left, margin = _beyond(noise, release, rungs, beyond, risk / len(heights))
        less, less_margin = _beyond(noise, release, rungs, surely_beyond, risk / len(heights))
        low = _part(less - less_margin, most)
        found.append((low, _part(left, kept), _part(left + margin, least), left))
    # Where nothing is certain, the first rung says most: noise grows with the height.
    low, share, _, left = max(found, key=lambda one: one[0])
    high = max(low, found[-1][2])
    return ShareEstimate(min(share, high), low, high, max(0.0, kept) + max(0.0, left))


def _kept(
    noise: LeftOutNoise, release: LeftOutRelease, beyond: int, risk: float
) -> tuple[float, float]:
    """Estimate the kept sum, with a margin that noise exceeds with a chance of ``risk``."""
    own = risk if beyond == 0 else risk / 2
    slack = noise.kept_noise.margin(1 - own, 1) * noise.coarsening + noise.coarsening - 1
    if beyond == 0:
        return release.kept, slack
    parts = [min(height, beyond) for height in noise.ladder.heights]
    more = sum(part * units for part, units in zip(parts, release.rungs, strict=True))
    return release.kept + more, slack + _margin(noise.rung_noise, parts, risk / 2)


def _beyond(
    noise: LeftOutNoise, release: LeftOutRelease, rungs: int, beyond: int, risk: float
) -> tuple[float, float]:
    """Sum the excess of units on the first rungs, with the margin of its noise."""
    parts = [height - beyond for height in noise.ladder.heights[:rungs] if height > beyond]
    if not parts:
        return 0.0, 0.0  # of these rungs nothing is
    units = release.rungs[rungs - len(parts) : rungs]
    left = sum(part * on_rung for part, on_rung in zip(parts, units, strict=True))
    return left, _margin(noise.rung_noise, parts, risk)


def _part(left: float, kept: float) -> float:
    """Compute ``left`` of both together; 1 where nothing is known to be kept."""
    left = max(0.0, left)
    if left == 0.0:
        return 0.0
    return left / (left + max(0.0, kept))


def _margin(noise: IndependentNoise, heights: Sequence[int], risk: float) -> float:
    """Bound the noise of a sum over rungs, which it exceeds with a chance of at most ``risk``.

    Counts on rungs were rounded, by half a step at most. Gaussian noises add up to one, others are
    bounded by their moments (Chernoff).
    """
    rounding = sum(heights) / 2
    if noise.name == "gaussian":
        std = noise.std(1) * math.sqrt(sum(height**2 for height in heights))
        margin = NormalDist().inv_cdf(1 - risk / 2) * std
    else:
        margin = _laplace_margin(noise.scale, heights, risk)
    return (margin + rounding) / LADDER_STEPS


def _laplace_margin(scale: float, heights: Sequence[int], risk: float) -> float:
    """Bound a weighted sum of Laplace noises: the least of Chernoff's bounds at some exponents.

    E exp(sX) is at most 1/(1 - (s b)**2) for a discrete Laplace of scale b too.
    """
    widest = scale * max(heights)
    bounds = []
    for place in range(1, 100):
        rate = place / 100 / widest
        logs = sum(math.log1p(-((rate * scale * height) ** 2)) for height in heights)
        bounds.append((math.log(2 / risk) - logs) / rate)
    return min(bounds)


@dataclass(frozen=True, slots=True)
class EstimateEvidence:
    """A released estimate with its noise, from which shares at any confidence are computed."""

    noise: LeftOutNoise
    release: LeftOutRelease

    def share(self, confidence: float = LEFT_OUT_CONFIDENCE) -> ShareEstimate:
        """Estimate the share that was left out."""
        return estimated_share(self.noise, self.release, confidence)

    @property
    def reach(self) -> int:
        """The most that is counted of one unit, in the steps of the estimate."""
        return self.noise.most + self.noise.ladder.top


# -- totals that are put right -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CorrectedTotal:
    """A total corrected by an estimate of its left-out part.

    ``value`` is what was released in ``column``, ``corrected`` what it would be by estimate without
    ``limits``. That lies between ``low`` and ``high`` with the confidence asked for, the noise in
    the value and in the estimate taken together, counting at most ``reach`` of each unit. ``high``
    is None where the noise hides how much single units have left out. Values of sums count as their
    bounds make them.
    """

    column: str
    of: str
    value: float
    corrected: float
    low: float
    high: float | None
    reach: float
    limits: tuple[str, ...]


def confidence_of_each(confidence: float) -> float:
    """Return the confidence that two intervals need to hold together with this one."""
    return min(math.nextafter(1 - (1 - confidence) / 2, 1.0), math.nextafter(1.0, 0.0))


def corrected_ends(low: float, high: float, found: ShareEstimate) -> tuple[float, float | None]:
    """Compute the interval of a total from the intervals of its kept part and left-out share.

    What is kept is what there is times 1 - share: the interval holds it where both others hold.
    """
    upper = None if found.vague or found.high >= 1.0 else max(0.0, high) / (1 - found.high)
    return max(0.0, low) / most_kept(found.low), upper


def most_kept(left_out: float) -> float:
    """Return the largest share that is kept where at least a share is left out; some always is."""
    return 1 - min(left_out, 1 - 1e-12)


def corrected_words(found: CorrectedTotal, confidence: float) -> str:
    """Word a total that is corrected for its left-out part."""
    of, name = printable(found.of, 40), printable(found.column, 40)
    low = significant(found.low)
    said = f"at least {low}"
    if found.high is not None:
        said = f"about {significant(found.corrected)} ({low} to {significant(found.high)})"
    return (
        f"Corrected for what {' and '.join(found.limits)} left out, {name} is {said} with "
        f"{level(confidence)} confidence, noise in both included, where no unit has more than "
        f"{significant(found.reach)} {'' if of.startswith('sum') else of}".rstrip()
        + f". The value of {name} in the answer is not corrected."
    )


# -- words ------------------------------------------------------------------------------------


def left_out_of(
    plan: BlockPlan, subject: LeftOutSubject, columns: tuple[str, ...], found: ShareEstimate
) -> LeftOutPart:
    """Label an estimate with its subject and cause."""
    counted = subject.bounded_measure(plan)
    return LeftOutPart(
        columns,
        _name_of(counted),
        found.share,
        found.low,
        found.high,
        found.vague,
        left_out_limits(plan, counted),
    )


def clamped_values(
    plan: BlockPlan, subject: LeftOutSubject, columns: tuple[str, ...], found: ShareEstimate
) -> LeftOutPart:
    """Return an estimate of how many values of a sum lay outside their bounds."""
    told = left_out_of(plan, subject, columns, found)
    return replace(told, limits=("contribution_bounds_per_row",), clamped=True)


def left_out_limits(plan: BlockPlan, measure: Measure) -> tuple[str, ...]:
    """Name the parameters that bound a unit's contribution to a measure."""
    names = [] if plan.bounding is None or not plan.block.keys else ["max_groups_contributed"]
    if not measure.counts_units:
        per_group = measure.per_group is not None
        names.append("contribution_bounds_per_group" if per_group else "max_rows_contributed")
    return tuple(names)


def _name_of(measure: Measure) -> str:
    """Name what a part of is left out."""
    match measure.kind:
        case MeasureKind.UNITS | MeasureKind.MATCHING_UNITS:
            return "groups of units"
        case MeasureKind.SUM:
            return measure.name
        case MeasureKind.ROWS:
            return "rows"
    return f"rows with {measure.text}" if measure.text else "rows"


def no_estimate(text: str, columns: tuple[str, ...], *, nothing: bool) -> LeftOutPart:
    """Return what is said of an aggregate without an estimate: nothing, or not told."""
    if nothing:
        return LeftOutPart(columns, text, 0.0, 0.0, 0.0, False, ())
    return LeftOutPart(columns, text, None, None, None, False, ())


def left_out_words(found: LeftOutPart) -> str:
    """Say in a sentence how much was left out."""
    of = printable(found.of, 40)
    if found.share is None or found.low is None or found.high is None:
        return f"How much bounding left out of {of} is not told."
    if found.nothing:
        return f"Bounding leaves nothing out of {of}: no unit has more than is counted."
    limits = " and ".join(found.limits)
    were = "was" if of.startswith(MeasureKind.SUM.value) else "were"
    low, high = _percent(found.low, math.floor), _percent(found.high, math.ceil)
    share = _percent(found.share, round)
    if found.clamped:
        return _clamped_words(of, found, f"about {share} ({low} to {high})", high)
    if found.low <= 0.0 and found.high >= 1.0:
        return f"How much of the {of} {limits} left out cannot be told from so little budget."
    if found.high <= 0.0:
        text = f"By estimate, none of the {of} {were} left out by {limits}"
    elif found.low <= 0.0 and found.at_least:
        text = (
            f"Of what {limits} left out of the {of}, nothing was found beyond noise, units that "
            "may have lost very much apart"
        )
    elif found.low <= 0.0:
        text = (
            f"Of what {limits} left out of the {of}, nothing was found beyond noise: at most {high}"
        )
    elif found.at_least and found.low < _PERCENT and found.share > _FEW:
        text = f"Some of the {of} {were} left out by {limits}: noise hides how much"
    elif found.at_least and found.low < _PERCENT:
        text = (
            f"By estimate {share} of the {of} {were} left out by {limits}, units that may have "
            "lost very much apart"
        )
    elif found.at_least:
        text = f"At least {low} of the {of} {were} left out by {limits} (by estimate {share})"
    else:
        text = f"About {share} ({low} to {high}) of the {of} {were} left out by {limits}"
    return f"{text}, groups that do not appear included."


def _clamped_words(of: str, found: LeftOutPart, share: str, most: str) -> str:
    """Say how many values were moved to their bounds."""
    if found.low == 0.0 and found.at_least:
        return (
            f"How many values of {of} lie outside their bounds cannot be told from so little "
            "budget."
        )
    if found.low == 0.0:
        return (
            f"Of an average unit's values in {of}, none were found outside their bounds beyond "
            f"noise: at most {most} are."
        )
    return (
        f"Of an average unit's values in {of}, {share} lie outside their bounds and count as the "
        "nearest of these."
    )


def _percent(share: float, rounded: Callable[[float], int]) -> str:
    return f"{rounded(100 * share)}%"
