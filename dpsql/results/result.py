"""The result of a query: released rows, their intervals, and their cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Threshold
from dpsql.accuracy.intervals import GroupsTotal, Interval, check_confidence
from dpsql.accuracy.left_out import (
    CorrectedTotal,
    EstimateEvidence,
    LeftOutPart,
    clamped_values,
    confidence_of_each,
    corrected_ends,
    corrected_words,
    left_out_of,
    left_out_words,
    most_kept,
    no_estimate,
)
from dpsql.accuracy.wording import Part, ShownAggregate, ShownTerm
from dpsql.core.formatting import (
    DEFAULT_CONFIDENCE,
    printable,
    significant,
    upper_figures,
)
from dpsql.ir.plan import BlockPlan, LeftOutStatus, LeftOutSubject, RolledUp
from dpsql.ir.query import ComputedColumn, ReleasedValue
from dpsql.ir.terms import AggregateTerm
from dpsql.kinds.computed import NoisyRelease, NoisyRows
from dpsql.kinds.registry import release_kind
from dpsql.kinds.summary import summary
from dpsql.planner.max_error import error_targets, margins_missed
from dpsql.privacy.accounting.zcdp import ZERO, PrivacyLoss
from dpsql.results import caveats
from dpsql.results.caveats import Caveat, CaveatKind
from dpsql.results.edition import DataEdition
from dpsql.results.explanation import Explanation
from dpsql.results.reading import ReadableAnswer
from dpsql.results.rows import Answer, HeldAnswer

_ADVISED_ROWS = 1000
_COMPARED_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The reservation of a query, and its final charge.

    The losses are what the account is charged: under zCDP composition rho and delta (the chance of
    a differentiating outcome), under basic composition epsilon and delta. ``reserved_epsilon`` and
    ``settled_epsilon`` are what the query is worth alone, at ``conversion_delta`` on top of its
    delta. Under zCDP they do not add up over queries, rho does; under basic composition they are
    the charge itself, and ``conversion_delta`` is 0. ``answered`` is when a release that the ledger
    has stored was paid for (a UTC time in ISO 8601), and None for a new one. Where an answer
    follows from several, it is that of the latest. ``data_written`` is when the data was last
    written, if that was after the answer, as far as the engine knows; else None.
    """

    reserved: PrivacyLoss
    settled: PrivacyLoss
    conversion_delta: float
    answered: str | None = None
    data_written: str | None = None

    def beside(self, other: Cost) -> Cost:
        """Return the cost of an answer for which another was given first."""
        stored = self.answered if other.stored else None
        return replace(
            self,
            reserved=self.reserved + other.reserved,
            settled=self.settled + other.settled,
            conversion_delta=self.conversion_delta + other.conversion_delta,
            answered=stored,
        )

    @property
    def stored(self) -> bool:
        """True if the release was paid for before, by the same account, and cost nothing now."""
        return self.answered is not None

    @property
    def reserved_epsilon(self) -> float:
        """The ε of the reservation, at delta = reserved.delta + conversion_delta."""
        return self.reserved.epsilon_at(self.conversion_delta)

    @property
    def settled_epsilon(self) -> float:
        """The ε of the charge, at delta = settled.delta + conversion_delta."""
        return self.settled.epsilon_at(self.conversion_delta)

    def figures(self) -> dict[str, object]:
        """Return the losses, each with its epsilon, for documents of JSON."""

        def figure(loss: PrivacyLoss, epsilon: float) -> dict[str, float]:
            return {"epsilon": epsilon, "rho": loss.rho, "delta": loss.delta}

        return {
            "reserved": figure(self.reserved, self.reserved_epsilon),
            "settled": figure(self.settled, self.settled_epsilon),
            "conversion_delta": self.conversion_delta,
        }


FREE = Cost(ZERO, ZERO, 0.0)
"""The cost of an answer that took nothing from private rows."""


@dataclass(frozen=True, slots=True)
class AnswerNoise:
    """The noise in an answer: the plans behind it, and the noisy columns.

    ``outputs``, ``computed`` and ``hidden`` are those of the query, ``released`` is how many
    groups came out of each plan's block, ``uniform`` whether all of them came out of the same
    releases, ``left_out`` the largest value that LIMIT left out of them, ``totals`` what was
    counted in all, by aggregate. An answer without noise has none of these. ``beforehand`` are the
    caveats of the views that it reads, and of the clock.
    """

    outputs: tuple[ReleasedValue | None, ...] = ()
    computed: tuple[tuple[ComputedColumn, ...], ...] = ()
    hidden: int = 0
    plans: tuple[BlockPlan, ...] = ()
    released: tuple[int, ...] = ()
    uniform: tuple[bool, ...] = ()
    left_out: tuple[float | None, ...] = ()
    totals: tuple[tuple[GroupsTotal, ...], ...] = ()
    beforehand: tuple[Caveat, ...] = ()


@dataclass(frozen=True, slots=True)
class _Explained:
    """An explained plan, which an answer keeps when it leaves its connection."""

    plan: Explanation

    def __call__(self) -> Explanation:
        return self.plan


@dataclass(frozen=True, slots=True)
class _Advised:
    """Given advice, which an answer keeps when it leaves its connection."""

    text: str

    def __call__(self, drowned: Sequence[int | None]) -> str:
        return self.text


@dataclass(slots=True)
class _Known:
    """What was computed of an answer, once for all who read it. Only its readers know it."""

    caveats: tuple[Caveat, ...] | None = None
    left_out: tuple[LeftOutPart, ...] | None = None
    intervals: tuple[float, dict[str, Interval]] | None = None
    summary: tuple[float, str] | None = None


Advise = Callable[[Sequence[int | None]], str]
"""Advises on an empty or drowned answer; empty for others.

It is told, of each block, an aggregate of which only noise is to be seen, if there is one.
"""
LeftOutEvidence = Mapping[tuple[int, LeftOutSubject], EstimateEvidence]
"""The evidence of left-out estimates, by block and subject."""


class Result(ReadableAnswer):
    """The answer to one statement.

    ``columns``: names. ``cost``: a :class:`Cost`. ``plan``: an :class:`Explanation`, with no blocks
    where nothing private was asked for. Rows come as Python tuples (``fetchall``), Arrow, pandas or
    polars. It can be pickled, for other processes and caches, and what comes back needs no
    connection.
    """

    def __init__(
        self,
        answer: Answer,
        explain: Callable[[], Explanation],
        cost: Cost = FREE,
        noise: AnswerNoise = AnswerNoise(),
        left_out: LeftOutEvidence = MappingProxyType({}),
        advise: Advise | None = None,
    ) -> None:
        super().__init__(answer, len(answer.names) - noise.hidden)
        self._evidence = left_out
        self._advise = advise
        self._noise = noise
        self._known = _Known()
        self._warned = False
        self._explain = explain
        self.cost = cost
        self.edition: DataEdition | None = None
        """Which opening of the data was asked."""
        self.of_views = False
        """True if rows of materialized views are among what it was computed of."""

    @property
    def from_edition(self) -> bool | None:
        """True if all of its values were computed on ``edition``; None where that is not known.

        A stored release is of data with the same name, where they have one. Views go on over all
        editions.
        """
        named = self.edition is not None and bool(self.edition.name)
        earlier = self.cost.stored or self.pooled > 1
        first = any(one.kind is CaveatKind.ANSWERED_FIRST for one in self._noise.beforehand)
        return None if self.of_views or (not named and (earlier or first)) else True

    @property
    def plan(self) -> Explanation:
        """The plan: how the query was answered and priced, or would be."""
        return self._explain()

    @property
    def released(self) -> bool:
        """True if the rows were computed from private ones, by drawing noise."""
        return bool(self._noise.plans)

    @property
    def pooled(self) -> int:
        """The number of releases that the values are pooled from: 1 for a single one.

        0 if nothing was released.
        """
        return max((release_kind(plan).pooled for plan in self._noise.plans), default=0)

    @property
    def rolled_up(self) -> tuple[RolledUp, ...]:
        """The releases whose groups were summed (a roll-up), one per block.

        ``cost.answered`` says when the latest of them was paid for.
        """
        found = (release_kind(plan).rolled_up for plan in self._noise.plans)
        return tuple(rolled_up for rolled_up in found if rolled_up is not None)

    @property
    def tells_by_sentences(self) -> bool:
        """True if a released value has no interval, as quantiles: the summary says how near it is.

        Where nothing else does, nobody may take it for exact.
        """
        told = {(each.block, each.aggregate) for each in self._noise.outputs if each is not None}
        computed = (one for ways in self._noise.computed for one in ways)
        told |= {(each.block, each.aggregate) for one in computed for each in one.values}
        return any(
            (block, place) not in told
            for block, plan in enumerate(self._noise.plans)
            for place in range(len(plan.block.aggregates))
        )

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The names of the mechanisms that released its blocks, in their order."""
        return tuple(plan.selection.name for plan in self._noise.plans)

    def intervals(self, confidence: float = 0.95) -> dict[str, Interval]:
        """Compute confidence intervals for the noise of each aggregate returned as released.

        Each interval covers, with at least this probability, the value the query would have
        returned without noise (after bounding what one unit contributes). Where keys are found by a
        threshold on a noisy score, this is before the threshold: of the groups close to it, those
        with large noise come out. Of rows that ORDER BY a noisy value LIMIT k chose, at least such
        a part holds on average, given that they were chosen: their intervals reach further down
        than up. Where a number of rows per unit was drawn, those of counts, sums, averages and
        spreads also reach as far as the rows that it supposedly cuts. A column that computes with
        released values has an interval of all their noise together, if it does so by arithmetic,
        rounding, CASE and the like: of its row, of others (``LAG``, ``SUM`` over a window), or of
        several subqueries that are joined. It is NaN where a divisor may be 0, and where of so few
        units no bounds of values were found but 0 and 0. Raises
        ``ParameterError`` unless 0 < confidence < 1.
        """
        confidence = check_confidence(confidence)
        if len(self) > _COMPARED_ROWS:
            return self._intervals_found(confidence)
        known = self._intervals_compared(confidence).items()
        # Copied, as whoever asks may write into them.
        return {name: Interval(one.low.copy(), one.high.copy()) for name, one in known}

    def _intervals_found(self, confidence: float) -> dict[str, Interval]:
        rows = self._noisy_rows()
        found = {name: rows.alone(one, confidence) for _, name, one in self._noisy_columns()}
        for place, ways in enumerate(self._noise.computed):
            if ways:
                found[self.columns[place]] = self._computed_interval(rows, place, ways, confidence)
        return {name: found[name] for name in self.columns if name in found}

    def _noisy_columns(self) -> Iterator[tuple[int, str, ReleasedValue]]:
        """List the columns that show an aggregate as released: place, name, aggregate."""
        pairs = zip(self.columns, self._noise.outputs, strict=False)
        for position, (name, output) in enumerate(pairs):
            if output is not None:
                yield position, name, output

    def _noisy_rows(self) -> NoisyRows:
        """Return the rows, with the columns that intervals need."""
        noise = self._noise
        releases = [
            NoisyRelease(release_kind(plan), released, left_out, totals)
            for plan, released, left_out, totals in zip(
                noise.plans, noise.released, noise.left_out, noise.totals, strict=True
            )
        ]
        computed = [one for ways in noise.computed for one in ways]
        values = [one for one in noise.outputs if one is not None]
        values += [value for one in computed for value in one.values]
        places = {place for one in values for place in one.columns}
        places |= {place for one in computed for place in one.known}
        for one in values:
            if one.summed is not None:
                places |= {one.summed.count, *one.summed.least, *one.summed.own}
        places |= {place for one in computed for place, _ in one.branches}
        return NoisyRows(releases, {place: self._numbers(place) for place in places}, len(self))

    def _computed_interval(
        self, rows: NoisyRows, place: int, ways: Sequence[ComputedColumn], confidence: float
    ) -> Interval:
        """Compute the interval of a column, in the rows of each side of UNION ALL by its way."""
        found, shown = _unknown(len(self)), self._numbers(place)
        for one in ways:
            of = rows.of(one)
            interval = rows.among(of).interval(one, shown[of], confidence)
            found.low[of], found.high[of] = interval.low, interval.high
        return found

    def thresholds(self) -> dict[str, Threshold]:
        """Return the threshold of appearance by column, for columns with one."""
        found = {name: self._threshold(output) for _, name, output in self._noisy_columns()}
        return {name: one for name, one in found.items() if one is not None}

    def _threshold(self, output: ReleasedValue) -> Threshold | None:
        plan = self._noise.plans[output.block]
        return release_kind(plan).threshold(output.aggregate)

    def summary(self, confidence: float = 0.95) -> str:
        """Put into plain words how close the values of the answer are, and which groups appear.

        Empty for an answer without noise. It follows from the plan and from what was released.
        Raises ``ParameterError`` unless 0 < confidence < 1.
        """
        confidence = check_confidence(confidence)
        self._warned = True  # by the sentences themselves
        known = self._known.summary
        if known is None or known[0] != confidence:
            known = self._known.summary = confidence, self._summary(confidence)
        return known[1]

    def _summary(self, confidence: float) -> str:
        rows, noise = len(self), self._noise
        parts = [
            Part(plan, released, self._told(block), rows, uniform, self._computed(block))
            for block, (plan, released, uniform) in enumerate(
                zip(noise.plans, noise.released, noise.uniform, strict=True)
            )
        ]
        said = summary(parts, confidence, self.cost.stored)
        last = [
            caveat.text
            for caveat in self.warnings
            if caveat.kind in (CaveatKind.EMPTY, CaveatKind.DROWNED)
        ]
        last += [caveat.text for caveat in (*self._bounds_caveats(), *self._few_caveats())]
        beforehand = [caveat.text for caveat in noise.beforehand]
        lines = [self.staleness, said, *self._left_out_sentences(confidence), *beforehand, *last]
        return "\n".join(line for line in lines if line)

    @property
    def warnings(self) -> tuple[Caveat, ...]:
        """What the numbers alone do not say: each a :class:`Caveat`, with a ``kind`` and a text.

        That the data was written since, that the answer is empty or noise alone, that bounding
        left out more than intervals take in, that groups are missing from a sum, that bounds of
        values, or of units in a view, were found, or what time it was. Empty where there is
        nothing of the kind. All
        ways to read an answer pass them on.
        """
        if self._known.caveats is None:
            self._known.caveats = tuple(self._found_caveats())
        return self._known.caveats

    def _found_caveats(self) -> Iterator[Caveat]:
        if self.staleness:
            yield caveats.stale(self.staleness)
        yield from self._noise.beforehand
        if not self.released:
            return
        if len(self):
            yield from self._drowned_caveats()
        else:
            yield caveats.empty(self.advice, groups_came_out=any(self._noise.released))
        for part in self._left_out_shown():
            found = caveats.left_out(part, self._narrower_than_left_out(part, DEFAULT_CONFIDENCE))
            if found is not None:
                yield found
        if any(plan.block.counted for plan in self._noise.plans):
            yield caveats.GROUPS_MISSING
        yield from map(caveats.error_missed, filter(None, map(margins_missed, self._noise.plans)))
        yield from self._errors_before_choice()
        yield from self._bounds_caveats()
        yield from self._few_caveats()

    def _bounds_caveats(self) -> Iterator[Caveat]:
        """Yield caveats of found bounds of values, beyond which no interval reaches."""
        blocks = (plan.block.bounds_found for plan in self._noise.plans)
        values = (each for bounds in blocks if bounds and bounds.known for each in bounds.values)
        yield from dict.fromkeys(map(caveats.bounds_found, values))

    def _few_caveats(self) -> Iterator[Caveat]:
        """Yield caveats of numbers of rows that were drawn of too few rows to say anything."""
        for block, (plan, totals) in enumerate(
            zip(self._noise.plans, self._noise.totals, strict=True)
        ):
            kind = release_kind(plan)
            behind = [
                *((one.aggregate, one.name) for one in self._told(block)),
                *((index, one.name) for one in self._computed(block) for index in one.aggregates),
            ]
            names = [name for index, name in behind if not kind.tells_of_rows(index, totals)]
            if names and len(self):
                rows = plan.block.parameters.rows_limit
                yield caveats.few_rows(tuple(dict.fromkeys(names)), rows)

    def _drowned_caveats(self) -> Iterator[Caveat]:
        rows = len(self)
        found = [each for block in range(len(self._noise.plans)) for each in self._hidden(block)]
        drowned = [one.name for one, hidden in found if hidden == rows]
        if drowned:
            yield caveats.all_drowned(drowned, self.advice)
        for one, hidden in found:
            if rows / 2 <= hidden < rows:
                yield caveats.mostly_drowned(one.name, hidden, rows)

    def warn(self, stacklevel: int) -> None:
        """Raise the strong ones of ``warnings`` as Python warnings, once for an answer.

        None are raised once ``summary`` has said them, as tables and notebooks do.
        ``stacklevel`` is as in ``warnings.warn``: 2 for the caller of this method.
        """
        if self._warned:
            return
        self._warned = True
        raised = [caveat.python_warning() for caveat in self.warnings if caveat.strong]
        for category in dict.fromkeys(map(type, raised)):
            text = " ".join(str(one) for one in raised if type(one) is category)
            warnings.warn(text, category, stacklevel=stacklevel)

    def attributes(self) -> dict[str, object]:
        """Return facts for the ``attrs`` of pandas frames: when it was paid for, and its warnings.

        ``dpsql_answered`` is None for a new answer, ``dpsql_data_written`` unless the data was
        written since. ``dpsql_warnings`` has the kind, the text and the strength of each.
        """
        if not self.released:
            return {}
        return {
            "dpsql_answered": self.cost.answered,
            "dpsql_data_written": self.cost.data_written,
            "dpsql_warnings": [asdict(caveat) for caveat in self.warnings],
        }

    @property
    def staleness(self) -> str:
        """That the data was written after the answer was paid for, in a sentence; else empty."""
        written = self.cost.data_written
        if written is None:
            return ""
        return (
            "The data was written or replaced since this was answered, on "
            f"{written[:16].replace('T', ' ')} UTC: fresh asks the present rows."
        )

    @property
    def advice(self) -> str:
        """Advice on settings that would have made an empty or drowned answer say more.

        Empty for others. It follows from the plan and from what was released.
        """
        blocks = range(len(self._noise.plans))
        return "" if self._advise is None else self._advise([self._drowned(b) for b in blocks])

    def _drowned(self, block: int) -> int | None:
        """Find an aggregate of a block that is within its 95% margin of 0 in every row."""
        rows = len(self)
        return next((one.aggregate for one, n in self._hidden(block) if rows and n == rows), None)

    def _hidden(self, block: int) -> Iterator[tuple[ShownAggregate, int]]:
        """Count the values of each column that are within their 95% margin of 0.

        Of large answers nothing is counted.
        """
        shown = self._shown(block)
        if not shown or not 0 < len(self) <= _ADVISED_ROWS:
            return
        intervals = self._intervals_compared(DEFAULT_CONFIDENCE)
        for one in shown:
            found = intervals.get(one.name)
            if found is not None:
                yield one, int(((found.low <= 0) & (found.high >= 0)).sum())

    @property
    def left_out(self) -> tuple[LeftOutPart, ...]:
        """How much bounding left out of each aggregate, by the columns that show it as released.

        By private estimates, where ``left_out_share`` of the price went to them; aggregates that
        count alike have one. They follow from what was released, and cost nothing more.
        """
        if self._known.left_out is None:
            self._known.left_out = self._found_left_out()
        return self._known.left_out

    def _found_left_out(self) -> tuple[LeftOutPart, ...]:
        found: dict[tuple[object, ...], LeftOutPart] = {}
        for block, plan in enumerate(self._noise.plans):
            shown = self._shown(block)
            for index in range(len(plan.block.aggregates)):
                columns = tuple(one.name for one in shown if one.aggregate == index)
                for one in self._left_out_of(block, index, columns):
                    if shown and not columns and not one.told:
                        continue  # nobody sees it
                    key = (block, plan.block.aggregates[index].measures, one.of, one.clamped)
                    before = found[key].columns if key in found else ()
                    found[key] = replace(one, columns=(*before, *columns))
        return tuple(found.values())

    def _left_out_of(
        self, block: int, index: int, columns: tuple[str, ...]
    ) -> Iterator[LeftOutPart]:
        """Yield the left-out parts of an aggregate, and of its values where these are clamped."""
        plan = self._noise.plans[block]
        subject = LeftOutSubject.of(plan, plan.block.aggregates[index])
        evidence = None if subject is None else self._evidence.get((block, subject))
        if subject is None or evidence is None:
            aggregate = plan.block.aggregates[index]
            status = release_kind(plan).left_out_status(aggregate)
            nothing = status is LeftOutStatus.NOTHING
            yield no_estimate(aggregate.text, columns, nothing=nothing)
        else:
            yield left_out_of(plan, subject, columns, evidence.share())
        clamped = None if subject is None else replace(subject, clamped=True)
        outside = None if clamped is None else self._evidence.get((block, clamped))
        if clamped is not None and outside is not None:
            yield clamped_values(plan, clamped, columns, outside.share())

    def corrected(self, confidence: float = 0.95) -> tuple[CorrectedTotal, ...]:
        """Compute totals corrected by the estimates of their left-out parts.

        Of counts and sums over all rows of a query without groups, where ``left_out_share`` of the
        price went to knowing what is left out; there are none of others. Of groups it is not known
        for each of them what is missing, and which of a unit's groups an answer keeps is a draw.
        The answer itself is not changed. They follow from what was released, and cost nothing more.
        Raises ``ParameterError`` unless 0 < confidence < 1.
        """
        confidence = check_confidence(confidence)
        if len(self) != 1:
            return ()
        both = confidence_of_each(confidence)
        intervals = self._intervals_found(both)
        found = []
        for position, name, output in self._noisy_columns():
            one = self._corrected(position, output, both, intervals[name])
            if one is not None:
                found.append(one)
        return tuple(found)

    def _corrected(
        self, position: int, output: ReleasedValue, confidence: float, interval: Interval
    ) -> CorrectedTotal | None:
        plan = self._noise.plans[output.block]
        subject = LeftOutSubject.of(plan, plan.block.aggregates[output.aggregate])
        evidence = None if subject is None else self._evidence.get((output.block, subject))
        if subject is None or evidence is None or plan.block.keys:
            return None
        (value,) = self._numbers(position).tolist()
        found, name = evidence.share(confidence), self.columns[position]
        if not math.isfinite(value) or found.share >= 1.0:
            return None
        part = left_out_of(plan, subject, (name,), found)
        low, high = corrected_ends(float(interval.low[0]), float(interval.high[0]), found)
        lattice = subject.bounded_measure(plan).lattice
        reach = evidence.reach * (1.0 if lattice is None else lattice.quantum)
        best = max(low, max(0.0, value) / (1 - found.share))
        best = best if high is None else min(best, high)
        return CorrectedTotal(name, part.of, value, best, low, high, reach, part.limits)

    @property
    def tells_left_out(self) -> bool:
        """True if a part of the price was for telling what bounding left out.

        Also where that was asked for, by more than the usual share, and nothing can be told.
        """
        return any(plan.tells_left_out for plan in self._noise.plans)

    def _left_out_sentences(self, confidence: float) -> list[str]:
        """Word the left-out estimates that the question paid for."""
        lines = []
        for one in self._left_out_shown():
            wider = self._narrower_than_left_out(one, confidence)
            lines.append(left_out_words(one) + (f" {wider}" if wider else ""))
        if lines:
            lines += [corrected_words(one, confidence) for one in self.corrected(confidence)]
        return lines

    def _left_out_shown(self) -> Iterator[LeftOutPart]:
        """Yield the left-out parts that the sentences of an answer are about."""
        if self.tells_left_out:
            wished = any(plan.block.parameters.estimates_anywhere for plan in self._noise.plans)
            yield from (one for one in self.left_out if one.told or wished)

    def _narrower_than_left_out(self, found: LeftOutPart, confidence: float) -> str:
        """Warn of intervals, for noise alone, that are narrower than the left-out part."""
        if not found.low or found.clamped:
            return ""
        if len(self) > _COMPARED_ROWS:
            return "Beware: intervals are of noise alone, and may not take that in."
        rows, short = 0, 0
        intervals = self._intervals_compared(confidence)
        for name in found.columns:
            values = self._numbers(self.columns.index(name))
            rows += len(values)
            short += int((values / most_kept(found.low) > intervals[name].high).sum())
        if not short:
            return ""
        return (
            f"Beware: in {short:,} of {rows:,} values that is more than their intervals take in, "
            "which are of noise alone."
        )

    def _intervals_compared(self, confidence: float) -> dict[str, Interval]:
        """Return the intervals of an answer without many rows, kept for several comparisons."""
        known = self._known.intervals
        if known is None or known[0] != confidence:
            known = self._known.intervals = confidence, self._intervals_found(confidence)
        return known[1]

    def _errors_before_choice(self) -> Iterator[Caveat]:
        """Yield caveats of maximum errors that rows chosen by their noise do not keep."""
        for _, name, output in self._noisy_columns():
            plan = self._noise.plans[output.block]
            targets = {t.aggregate: t for t in error_targets(plan.block)}
            target = targets.get(output.aggregate)
            if target is None or not plan.block.chooses_rows or not len(self):
                continue
            interval = self.intervals(target.confidence)[name]
            widest = float(np.max(interval.high - interval.low)) / 2
            if widest > target.error.value and target.kept(plan):
                yield caveats.error_before_choice(name, widest, target.error.value)

    def _shown(self, block: int) -> tuple[ShownAggregate, ...]:
        """List the columns that show aggregates of a block as released."""
        return tuple(
            ShownAggregate(output.aggregate, name)
            for _, name, output in self._noisy_columns()
            if output.block == block
        )

    def _told(self, block: int) -> tuple[ShownAggregate, ...]:
        """List the columns of which one sentence tells how wide the intervals are.

        Those that show aggregates of a block as released, in some of their rows at least.
        """
        shown = [
            (name, output)
            for _, name, output in self._noisy_columns()
            if output.block == block and self._is_alike(output)
        ]
        for place, ways in enumerate(self._noise.computed):
            alike = (one.values[0] for one in ways if self._shows_alone(one))
            shown += [(self.columns[place], one) for one in alike if one.block == block]
        return tuple(dict.fromkeys(ShownAggregate(one.aggregate, name) for name, one in shown))

    def _is_alike(self, value: ReleasedValue) -> bool:
        """Tell whether the intervals of a value are as wide as those of its release alone."""
        chosen = value.repeated and self._noise.plans[value.block].block.chosen_after
        return value.summed is None and not chosen

    def _shows_alone(self, column: ComputedColumn) -> bool:
        return column.term == AggregateTerm(0) and self._is_alike(column.values[0])

    def _computed(self, block: int) -> tuple[ShownTerm, ...]:
        """List the columns that compute with aggregates of a block."""
        found: dict[int, list[ReleasedValue]] = {}
        for place, output in enumerate(self._noise.outputs):
            if output is not None and not self._is_alike(output):
                found[place] = [output]
        for place, ways in enumerate(self._noise.computed):
            behind = [value for one in ways if not self._shows_alone(one) for value in one.values]
            found.setdefault(place, []).extend(behind)
        of_block = {
            place: tuple(dict.fromkeys(one.aggregate for one in values if one.block == block))
            for place, values in sorted(found.items())
        }
        return tuple(ShownTerm(each, self.columns[at]) for at, each in of_block.items() if each)

    def _numbers(self, position: int) -> NDArray[np.float64]:
        """Read a column as numbers: NaN for NULL, and for keys that are none."""
        column = self._answer.column(position)
        return np.array(list(map(_number, column)), dtype=np.float64)

    @property
    def explanation_shown(self) -> Explanation | None:
        """The plan, where the answer is one to EXPLAIN."""
        return None if self.released or not self.plan.blocks else self.plan

    @property
    def footer(self) -> str:
        """The mechanisms, and what the answer cost."""
        cost = self.cost
        joined = f" · pooled from {self.pooled} releases" if self.pooled > 1 else ""
        mechanisms = " + ".join(dict.fromkeys(self.mechanisms))
        if cost.stored:
            when = printable(str(cost.answered))[:16].replace("T", " ")
            joined += " · rolled up from finer groups" if self.rolled_up else ""
            return f"{mechanisms} · paid for before, at {when} UTC{joined}"
        paid, reserved = significant(cost.settled_epsilon), significant(cost.reserved_epsilon)
        if cost.settled_epsilon < cost.reserved_epsilon:
            paid = f"{paid} of {reserved} reserved"
        delta = significant(cost.settled.delta + cost.conversion_delta)
        text = f"{mechanisms} · paid ε {paid} at δ {delta}"
        if cost.conversion_delta:
            text += f" · ρ {significant(cost.settled.rho)}, δ {significant(cost.settled.delta)}"
        return text + joined

    def circumstances(self, confidence: float) -> dict[str, object]:
        """Return how the answer came about: mechanisms, cost, warnings, what was left out."""
        found: dict[str, object] = {
            "confidence": confidence,
            "mechanisms": list(self.mechanisms),
            "cost": upper_figures(self.cost.figures()),
            "answered": self.cost.answered,
            "data_written": self.cost.data_written,
            "warnings": [asdict(caveat) for caveat in self.warnings],
        }
        if self.tells_left_out:
            found["left_out"] = [asdict(one) for one in self.left_out]
            corrected = [asdict(one) for one in self.corrected(confidence)]
            if corrected:
                found["corrected"] = corrected
        return found

    def __getstate__(self) -> dict[str, object]:
        state = {**self.__dict__, "_evidence": dict(self._evidence), "_unread": None}
        advised = _Advised(self.advice) if self.released else None
        return {**state, "_explain": _Explained(self.plan), "_advise": advised}

    def __deepcopy__(self, memo: object) -> Result:
        return copy(self)  # nothing that it refers to ever changes


def held_size(answer: Result) -> int | None:
    """Return the size of an answer's rows in characters of texts and numbers of other values.

    None unless all of them are Python values of plain types, outside of engines.
    """
    rows = answer._answer
    if not isinstance(rows, HeldAnswer):
        return None
    return sum(len(each) if isinstance(each, str) else 1 for row in rows.rows for each in row)


def for_another_reader(answer: Result, explain: Callable[[], Explanation]) -> Result:
    """Return an answer for another reader, who has read and was warned of nothing yet.

    What is computed of it for one of them is known to all. ``explain`` is the plan for that reader.
    """
    again = Result(
        *(answer._answer, explain, answer.cost, answer._noise, answer._evidence, answer._advise)
    )
    again._known, again.of_views = answer._known, answer.of_views
    return again


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float | Decimal) else math.nan


def _unknown(rows: int) -> Interval:
    return Interval(np.full(rows, np.nan), np.full(rows, np.nan))
