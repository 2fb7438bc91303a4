"""Tunes the bounds of a question: compares the left-out share and the noise of settings.

Settings are planned like questions, which reads nothing. What they leave out is told by estimates,
which are priced, reserved, released and kept as those beside questions are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from dpsql.accuracy.left_out import ShareEstimate, estimated_share
from dpsql.core.formatting import DEFAULT_CONFIDENCE
from dpsql.core.plain import plain_number, plain_whole
from dpsql.errors import InterfaceError, ParameterError, QueryRefused
from dpsql.ir.measures import AggregateKind
from dpsql.ir.plan import BlockPlan, LeftOutStatus, PreparedEstimate
from dpsql.ir.relations import Scan, bottom_up
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedEstimate
from dpsql.pipeline.prepare import Prepared, Question
from dpsql.planner.max_error import error_targets
from dpsql.planner.tuning import (
    CandidateSetting,
    TuningEstimate,
    bound_estimates,
    cap_estimates,
    cap_of,
    summed_aggregates,
    tunable_aggregates,
    usual_groups,
    usual_rows,
)
from dpsql.policy.resolve import over_tables
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.results.result import Cost
from dpsql.results.tuning import (
    TriedSetting,
    TunedAggregate,
    Tuning,
    tried_setting,
    tuned_bounds,
    tuned_caps,
)
from dpsql.service.answering import Answerer
from dpsql.sql.expressions.lattices import with_bounds

USUAL_SHARE: Final = 0.1
"""The part of a question's price that tuning takes where none is given."""
MOST_TRIED: Final = 30
"""How many settings can be tried at once."""

_NOTHING_LEFT_OUT: Final = ShareEstimate(0.0, 0.0, 0.0)
AskWith = Callable[[Mapping[str, object]], Question]
"""Builds the question that is tuned, with some privacy parameters in the place of its own."""


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """The settings to try, and the share of the price for it. None of caps takes the usual ones.

    ``bounds`` are those of the values of the one sum of the question, ``size`` is that of the
    groups that matter, in the units of the answer.
    """

    groups: tuple[int, ...] | None = None
    rows: tuple[int, ...] | None = None
    bounds: tuple[tuple[float, float], ...] = ()
    size: float | None = None
    share: float = USUAL_SHARE
    dry_run: bool = False

    @classmethod
    def of(
        cls, groups: object, rows: object, bounds: object, size: object, share: object, dry: object
    ) -> TuningRequest:
        """Check what a program has passed. Raises ``ParameterError`` (``bad_parameter``)."""
        part = plain_number(share)
        if part is None or not 0 < part <= 1:
            raise _bad("share must be a number above 0, and 1 at most")
        least = None if size is None else plain_number(size)
        if size is not None and (least is None or not 0 < least < math.inf):
            raise _bad("size must be a number above 0")
        if not isinstance(dry, bool):
            raise _bad("dry_run must be True or False")
        caps = _caps("groups", groups), _caps("rows", rows)
        return cls(*caps, _pairs(bounds), least, part, dry)

    @property
    def tries_caps(self) -> bool:
        """True unless bounds are all that is tried."""
        return not self.bounds or self.groups is not None or self.rows is not None


def _as_planned(setting: CandidateSetting, plan: BlockPlan) -> CandidateSetting:
    """Return a setting with its caps lowered to the policy's promises on units."""
    block = plan.block
    groups = setting.groups if block.most_groups is None else block.most_groups
    rows = setting.rows if block.most_rows is None else block.most_rows
    return replace(setting, groups=groups, rows=rows)


def _caps(name: str, given: object) -> tuple[int, ...] | None:
    """Read the caps to try; whether a question may have them is checked with it."""
    if given is None:
        return None
    wholes = [plain_whole(one) for one in _items(name, given)]
    found = tuple(whole for whole in wholes if whole is not None)
    if len(found) < len(wholes):
        raise _bad(f"{name} must be whole numbers")
    return found


def _pairs(given: object) -> tuple[tuple[float, float], ...]:
    return () if given is None else tuple(map(_pair, _items("bounds", given)))


def _pair(given: object) -> tuple[float, float]:
    ends = [plain_number(end) for end in given] if isinstance(given, list | tuple) else []
    low, high = ends if len(ends) == 2 else (None, None)
    if low is None or high is None or not -math.inf < low < high < math.inf:
        raise _bad("bounds must be pairs of numbers, the lower one first")
    return low, high


def _items(name: str, given: object) -> tuple[object, ...]:
    if not isinstance(given, list | tuple | range) or not 0 < len(given) <= MOST_TRIED:
        raise _bad(f"{name} must be a list of 1 to {MOST_TRIED} settings to try")
    return tuple(given)


def _bad(reason: str) -> ParameterError:
    return ParameterError(reason, code="bad_parameter")


class Tuner:
    """Tunes the questions of one account."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer

    def tune(self, ask: AskWith, request: TuningRequest) -> Tuning:
        """Try settings for a question. Raises as ``Connection.tune`` does."""
        trial = _Trial(self._answerer, ask, request)
        estimates = trial.estimates
        prepared = [trial.prepared_estimate(estimate, len(estimates)) for estimate in estimates]
        if request.dry_run:
            missing = self._answerer.estimates_to_pay(trial.base, prepared)
            loss = sum((estimate.plan.noise.loss for estimate in missing), ZERO)
            cost = Cost(loss, ZERO, trial.base.plan.conversion_delta)
            released: Mapping[str, ReleasedEstimate] = {}
        else:
            released, cost = self._answerer.take_estimates(trial.base, trial.asked, prepared)
        found = [
            (estimate, known)
            for estimate, one in zip(estimates, prepared, strict=True)
            if (known := released.get(one.fingerprint)) is not None
        ]
        aggregates = trial.tuned(found)
        return Tuning(trial.asked.text, aggregates, cost, request.share, request.dry_run)


class _Trial:
    """A question with the planned settings that tuning tries."""

    def __init__(self, answerer: Answerer, ask: AskWith, request: TuningRequest) -> None:
        self._preparer = answerer.preparer
        self._maxima = answerer.policy.maxima
        self._ask = ask
        self._request = request
        self.asked = ask({})
        self.base = self._prepared_with({"max_groups_contributed": 1})
        self._plan = self.base.blocks[0].plan
        self._block = self._plan.block
        nodes = bottom_up(self._block.source.rows)
        tables = [node.table.name for node in nodes if isinstance(node, Scan)]
        _, parameters, _ = over_tables(answerer.policy, self.asked.parameters, tables)
        groups = parameters.max_groups_contributed
        self._groups = groups if isinstance(groups, int) else None
        self._rows = self._block.parameters.rows_limit
        self._refuse_untold()

    # -- what is tried ------------------------------------------------------------------------

    @cached_property
    def caps(self) -> dict[CandidateSetting, BlockPlan]:
        """The settings of caps, each with its plan."""
        if not self._request.tries_caps:
            return {}
        block, maxima, given = self._block, self._maxima, self._request
        groups = given.groups or usual_groups(block, self._groups, maxima.max_groups_contributed)
        rows = given.rows or (self._rows,)
        if given.rows is None and not (block.keys and given.groups):
            rows = usual_rows(block, self._rows, maxima.max_rows_contributed)
        pairs = dict.fromkeys((group, row) for row in rows for group in groups)
        if len(pairs) > MOST_TRIED:
            raise _bad(f"{len(pairs)} settings are too many to try at once: {MOST_TRIED} at most")
        found: dict[CandidateSetting, BlockPlan] = {}
        for setting in (CandidateSetting(*pair) for pair in pairs):
            try:
                plan = self._prepared(setting).blocks[0].plan
            except (ParameterError, QueryRefused):
                if given.groups is not None or given.rows is not None:
                    raise
                continue  # one of the usual caps that the question cannot have
            if plan.bounding is not None and plan.bounding.weighted:
                raise _nothing(
                    "weighted units have no left-out estimate",
                    "Tune with contribution_bounding = sample.",
                )
            found.setdefault(_as_planned(setting, plan), plan)
        return found

    @cached_property
    def bounds(self) -> dict[CandidateSetting, BlockPlan]:
        """The settings of bounds, each with its plan, at the caps of the question."""
        if not self._request.bounds:
            return {}
        groups = self._groups
        if groups is None and self._block.keys:
            raise _nothing(
                "bounds are tried at the caps of the question, and it has none on groups",
                "Give max_groups_contributed, a number.",
            )
        prepared = self._prepared(CandidateSetting(groups or 1, self._rows))
        block = prepared.blocks[0].plan.block
        measure = block.aggregates[self._summed].measures[0]
        found = {}
        for bounds in self._request.bounds:
            summed = with_bounds(block.measures[measure], bounds, self._rows)
            measures = list(block.measures)
            measures[measure] = summed
            tried = replace(block, measures=tuple(measures), bounds_found=None)  # none to be found
            plan = prepared.terms.replan(tried)
            found[CandidateSetting(groups or 1, self._rows, bounds)] = plan
        return found

    @property
    def estimates(self) -> tuple[TuningEstimate, ...]:
        """The estimates that compare all settings."""
        found: tuple[TuningEstimate, ...] = ()
        if self.caps:
            found = cap_estimates(self.caps, self.caps.values(), self._narrowest)
        if self.bounds:
            found += bound_estimates(self.bounds, self.bounds.values(), self._summed)
        if not found:
            raise _nothing(
                "bounding leaves out nothing of it, whatever the cap",
                "Without groups, or where a unit may be in all of them, units are all counted.",
            )
        return found

    @property
    def _narrowest(self) -> BlockPlan:
        """The plan with the least cap: of an estimate that tells of all."""
        if self._block.keys:
            return self._plan
        return self._prepared(CandidateSetting(1, 1)).blocks[0].plan

    @property
    def _summed(self) -> int:
        """The sum that bounds are tried for, by index: the only one there is."""
        found = summed_aggregates(self._block)
        if len(found) != 1:
            raise _nothing(
                "bounds are tried for the sum of a question, and it must have just one",
                "Ask for one SUM, without contribution_bounds_per_group.",
            )
        return found[0]

    def prepared_estimate(self, estimate: TuningEstimate, estimates: int) -> PreparedEstimate:
        """Price an estimate and write its SQL."""
        budget = self._preparer.budget_of(self._block.parameters)
        try:
            priced = estimate.priced(budget, self._request.share, estimates)
        except ParameterError:
            raise _nothing(
                "so little budget buys no estimate",
                "Raise epsilon or the share, or try fewer settings.",
            ) from None
        return self._preparer.estimate(estimate.plan, priced)

    def _prepared(self, setting: CandidateSetting) -> Prepared:
        """Prepare the question with a setting. Raises what preparing it raises."""
        asked = {"max_groups_contributed": setting.groups, "max_rows_contributed": setting.rows}
        return self._prepared_with(asked)

    def _prepared_with(self, asked: Mapping[str, int]) -> Prepared:
        question = self._ask(asked)
        prepared = self._preparer.prepare(question)
        if len(prepared.blocks) != 1:
            raise _nothing(
                "one private block is tuned at a time, and the question has "
                f"{len(prepared.blocks) or 'none'}",
                "Ask for one SELECT with its GROUP BY, without GROUPING SETS and UNION.",
            )
        block = prepared.blocks[0].plan.block
        most = {
            "max_groups_contributed": block.most_groups,
            "max_rows_contributed": block.most_rows,
        }
        for name in asked:
            expected = getattr(question.parameters, name) if most[name] is None else most[name]
            if getattr(block.parameters, name) != expected:
                raise _nothing(
                    f"the OPTIONS of the SELECT set {name}, so nothing else can be tried",
                    "Leave it out there.",
                )
        return prepared

    def _refuse_untold(self) -> None:
        """Raise ``InterfaceError`` where no estimate tells anything of the question."""
        obstacle = _obstacle(self._plan)
        if obstacle is None and self._request.tries_caps and not tunable_aggregates(self._block):
            obstacle = (
                "averages, spreads, counts of distinct values and sums that can be negative do not "
                "tell what is left out of them",
                "Tune a COUNT of the same rows, or try bounds of a sum.",
            )
        if obstacle is not None:
            raise _nothing(*obstacle)

    # -- what was found -----------------------------------------------------------------------

    def tuned(
        self, found: Sequence[tuple[TuningEstimate, ReleasedEstimate]]
    ) -> tuple[TunedAggregate, ...]:
        """Compute the figures of each aggregate from the released estimates."""
        caps = [self._tuned_caps(i, found) for i in tunable_aggregates(self._block) if self.caps]
        sums = [self._tuned_bounds(self._summed, found)] if self.bounds else []
        return (*caps, *sums)

    def _tuned_caps(
        self, aggregate: int, found: Sequence[tuple[TuningEstimate, ReleasedEstimate]]
    ) -> TunedAggregate:
        tried, there = [], []
        for setting, plan in self.caps.items():
            estimate = self._estimate(setting, plan, aggregate, found)
            if estimate is not None and estimate.there > 0:
                there.append(estimate.there)
            tried.append(_tried(plan, aggregate, setting, estimate))
        total = None
        if there:
            lattice = self._block.measures[self._block.aggregates[aggregate].measures[0]].lattice
            total = statistics.median(there) * (1.0 if lattice is None else lattice.quantum)
        size, size_is = self._size(aggregate, tried, total)
        return tuned_caps(self._block.aggregates[aggregate].text, tried, size, size_is)

    def _estimate(
        self,
        setting: CandidateSetting,
        plan: BlockPlan,
        aggregate: int,
        found: Sequence[tuple[TuningEstimate, ReleasedEstimate]],
    ) -> ShareEstimate | None:
        """Estimate the left-out share of a setting; None if it is not known."""
        status = release_kind(plan).left_out_status(plan.block.aggregates[aggregate])
        if setting.bounds is None and status is LeftOutStatus.NOTHING:
            return _NOTHING_LEFT_OUT
        for estimate, known in found:
            if estimate.aggregate != aggregate or estimate.subject.clamped != (
                setting.bounds is not None
            ):
                continue
            if estimate.setting is None:
                beyond = cap_of(self._block, setting) - 1
                return estimated_share(known.noise, known.release, beyond=beyond)
            if estimate.setting == setting:
                return estimated_share(known.noise, known.release)
        return None

    def _size(
        self, aggregate: int, tried: Sequence[TriedSetting], total: float | None
    ) -> tuple[float | None, str]:
        """Find the size of groups that a setting is recommended for, and its words."""
        block = self._block
        if self._request.size is not None:
            return self._request.size, "groups of the size that was given"
        if not block.keys:
            return total, "all there is, by estimate"
        if block.known_domain:
            each = None if total is None else total / block.domain_size
            groups = f"{block.domain_size:,} {block.known_word} groups"
            return each, f"an average one of the {groups}, by estimate"
        sums = block.aggregates[aggregate].kind is AggregateKind.SUM
        scores = [one.appears_95 for one in tried if one.appears_95 is not None]
        if sums or not scores:
            return None, ""
        return min(scores), "the smallest groups that one of these is sure to show"

    def _tuned_bounds(
        self, aggregate: int, found: Sequence[tuple[TuningEstimate, ReleasedEstimate]]
    ) -> TunedAggregate:
        tried = [
            _tried(plan, aggregate, setting, self._estimate(setting, plan, aggregate, found))
            for setting, plan in self.bounds.items()
        ]
        return tuned_bounds(self._block.aggregates[aggregate].text, tried)


def _tried(
    plan: BlockPlan, aggregate: int, setting: CandidateSetting, found: ShareEstimate | None
) -> TriedSetting:
    margin = release_kind(plan).widest_margin(aggregate, DEFAULT_CONFIDENCE)
    assert margin is not None
    score = plan.selection.score_for_inclusion(DEFAULT_CONFIDENCE)
    appears = None
    if score is not None and plan.base_rank is None:
        appears = score * (1.0 if plan.score is None else plan.measures[plan.score].measure.step)
    return tried_setting(setting, margin, appears, found)


def _obstacle(plan: BlockPlan) -> tuple[str, str] | None:
    """Find the obstacle to left-out estimates of a block, with a hint; None without one."""
    block = plan.block
    if plan.gaussian:
        return (
            "estimates have no price under composition gdp",
            "Tune it on an account with composition zcdp or basic.",
        )
    if not block.aggregates:
        return (
            "a query of keys alone has no values to leave out",
            "Tune a COUNT of the same rows.",
        )
    if block.quantiles:
        return (
            "quantiles, and aggregates beside them, have no left-out estimate",
            "Leave the quantiles out: tune a COUNT of the same rows.",
        )
    if error_targets(block):
        return (
            "with max_error all settings have the same noise, and differ in price",
            "Give epsilon instead of max_error.",
        )
    return None


def _nothing(reason: str, hint: str) -> InterfaceError:
    return InterfaceError(f"it cannot be tuned: {reason}", code="nothing_to_tune", hint=hint)
