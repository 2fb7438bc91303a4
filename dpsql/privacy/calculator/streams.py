"""Streams: the noise of every step of a continual release, and what other ways to answer cost.

A stream counts all groups, by a factorisation of its noise; or it lists the k largest, which it
chooses by a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dpsql.privacy.accounting.zcdp import PrivacyLoss, epsilon_from_zcdp
from dpsql.privacy.calculator.request import (
    BUDGET_QUANTITIES,
    Request,
    ZcdpBudget,
    check_one_budget,
    check_options,
    flag,
    refused,
    zcdp_budget,
)
from dpsql.privacy.calculator.request import parameter as parameter_name
from dpsql.privacy.streams.buffers import optimal_buffers
from dpsql.privacy.streams.factorisation import (
    Factorisation,
    SlidingWindow,
    SquareRoot,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.mechanism import StreamGroups, few_steps
from dpsql.privacy.streams.meta import MetaHistogram, meta_histogram
from dpsql.privacy.streams.sparse import SparseTopK, sparse_top_k
from dpsql.privacy.streams.streams import (
    ContinualHistogram,
    continual_histogram_for_rho,
    continual_histogram_once,
)
from dpsql.privacy.streams.topk import (
    ScheduledTopK,
    doubling_steps,
    scheduled_top_k,
    single_top_k_std,
)

_CONFIDENCE: Final = 0.95
_K_BAR: Final = 1_000
_SWITCHES: Final = 10


@dataclass(frozen=True, slots=True)
class StepFigures:
    """The figures of a stream's step: the std of its noise, a threshold, a margin, in counts.

    Groups of unknown keys are shown iff their noisy count exceeds ``threshold``; ``margin_95`` is
    the half-width of an interval that covers at least 95%.
    """

    step: int
    std: float
    threshold: int
    margin_95: int


@dataclass(frozen=True, slots=True)
class FactorisationFigures:
    """The worst and the root mean square std of a stream's steps, by one factorisation.

    In units of the std of a single answer that costs as much as the whole stream.
    """

    name: str
    worst: float
    rms: float


@dataclass(frozen=True, slots=True)
class ListedStepFigures:
    """The error of a listed group's counts at a step: std, and the half-width of a 95% interval."""

    step: int
    std: float
    margin_95: float


@dataclass(frozen=True, slots=True)
class ChoiceFigures:
    """A schedule of choosing a stream's groups, with the error of their counts.

    ``choices`` is at most how often it does. A group is chosen with 95% if its count exceeds that
    of the (k_bar+1)-th largest by ``exceeds`` (in a tree's cell by the cell's own counts; of
    declared groups that of the (k+1)-th). ``worst`` and ``rms`` are the std of listed counts, in
    units of that of a single answer at the same cost.
    """

    name: str
    choices: int
    exceeds: float
    worst: float
    rms: float


@dataclass(frozen=True, slots=True)
class StreamCalibration:
    """A stream's guarantee: it is (``epsilon``, ``delta``)-DP as a whole.

    Under zCDP it costs ``rho`` and ``rho_delta``. ``how`` puts the analysis in words.
    """

    mechanism: str
    parameters: dict[str, float | int | str]
    how: str
    source: str
    epsilon: float
    delta: float
    rho: float
    rho_delta: float


@dataclass(frozen=True, slots=True)
class ContinualCalibration(StreamCalibration):
    """A stream of counts: figures of a few steps, and of all ways to add noise.

    ``measured`` says what the figures are counts of. ``analysis`` is put in words by ``how``.
    """

    analysis: str
    measured: str
    sigma: float
    steps: tuple[StepFigures, ...]
    factorisations: tuple[FactorisationFigures, ...]


@dataclass(frozen=True, slots=True)
class ListingCalibration(StreamCalibration):
    """A top-k over a stream: the noise of a few steps, and all ways to choose.

    The figures of steps are those of the doubling schedule, for units that add at any step.
    """

    steps: tuple[ListedStepFigures, ...]
    ways: tuple[ChoiceFigures, ...]


def calibrate_continual(request: Request) -> ContinualCalibration | ListingCalibration:
    """Compute the noise of a stream, for one guarantee of all its steps.

    With ``k``, of one that lists the largest groups. Raises ParameterError for options that do not
    fit or are out of range.
    """
    allowed: tuple[str, ...] = ("groups", "sensitivity", "window", "analysis")
    needed: tuple[str, ...] = ("steps", "delta")
    if request.k is not None:
        allowed, needed = ("k_bar", "sensitivity"), (*needed, "k")
    check_options(request, "continual", needed, (*BUDGET_QUANTITIES, *allowed))
    check_one_budget(request, "continual")
    assert request.steps is not None
    assert request.delta is not None
    if request.k is None:
        return _counted(request, request.steps, request.delta)
    return _listed(request, request.steps, request.k, zcdp_budget(request, "choices"))


def _counted(request: Request, steps: int, delta: float) -> ContinualCalibration:
    if request.window is not None and request.window > steps:
        raise refused(f"{flag('window')} must not exceed {flag('steps')}")
    possible = ("exact", "zcdp") if request.rho is None else ("zcdp",)
    analysis = request.analysis or possible[0]
    if analysis not in possible:
        raise refused(
            f"continual does not take {flag('analysis')} {analysis}",
            hint=f"Possible: {', '.join(possible)}.",
        )
    factorisation: Factorisation = SquareRoot(steps)
    if request.window is not None:
        factorisation = SlidingWindow(steps, request.window)
    groups, sensitivity = request.groups or 1, request.sensitivity or 1
    if analysis == "exact":
        assert request.epsilon is not None
        how = "the stream by the exact analysis of Gaussian noise, half of delta for the thresholds"
        epsilon = request.epsilon
        histogram = continual_histogram_once(
            *(epsilon, delta, factorisation), groups=groups, floor=0, sensitivity=sensitivity
        )
    else:
        price = zcdp_budget(request, "thresholds")
        assert price.conversion is not None
        how, own = price.how, price.loss
        histogram = continual_histogram_for_rho(
            *(own.rho, own.delta, factorisation), groups=groups, floor=0, sensitivity=sensitivity
        )
        epsilon = epsilon_from_zcdp(histogram.loss.rho, price.conversion)
        delta = histogram.loss.delta + price.conversion
    asked = request.given()
    named = (*BUDGET_QUANTITIES, "steps", "window", "groups", "sensitivity")
    return ContinualCalibration(
        mechanism=histogram.name,
        parameters={parameter_name(name): asked[name] for name in named if name in asked},
        analysis=analysis,
        how=how,
        source=f"{histogram.source}, with the factorisation named",
        epsilon=epsilon,
        delta=delta,
        rho=histogram.loss.rho,
        rho_delta=histogram.loss.delta,
        measured="running count" if request.window is None else "count of the window",
        sigma=histogram.noise.sigma,
        steps=tuple(_step_figures(histogram)),
        factorisations=tuple(_compared(steps, request.window)),
    )


def _step_figures(histogram: ContinualHistogram) -> Iterator[StepFigures]:
    thresholds = histogram.thresholds()
    assert thresholds is not None
    for step in few_steps(histogram.noise.steps):
        threshold = int(thresholds[step - 1])
        margin = histogram.margin(step, _CONFIDENCE)
        yield StepFigures(step, histogram.std(step), threshold, margin)


def _compared(steps: int, window: int | None) -> Iterator[FactorisationFigures]:
    """Yield the figures of repetition, a T-th of the budget per step, and of factorisations."""
    repeated = math.sqrt(steps)
    yield FactorisationFigures("repetition", repeated, repeated)
    if window is not None:
        yield _figures("window", SlidingWindow(steps, window))
        return
    tree = best_tree(steps)
    yield _figures(f"tree, base {tree.base}", tree)
    yield _figures("tree from below, base 2", TreeFromBelow(steps))
    yield _figures("toeplitz", SquareRoot(steps))
    for buffers in (2, 3, 4):
        yield _figures(f"buffered toeplitz, {buffers} buffers", optimal_buffers(steps, buffers))


def _figures(name: str, factorisation: Factorisation) -> FactorisationFigures:
    return FactorisationFigures(name, factorisation.worst(), factorisation.rms())


# -- the largest groups ---------------------------------------------------------------------------


def _listed(request: Request, steps: int, k: int, price: ZcdpBudget) -> ListingCalibration:
    if k > (request.k_bar or _K_BAR):
        raise refused(f"{flag('k')} must not exceed {flag('k_bar')}")
    ways = _Ways(steps, k, request.k_bar or _K_BAR, request.sensitivity or 1, price.loss)
    found = ways.scheduled(doubling_steps(steps), one_step=False)
    if found is None:
        raise refused("the budget is too small for so many choices")
    widths = found.half_widths(_CONFIDENCE)
    assert price.conversion is not None
    return ListingCalibration(
        mechanism="scheduled_top_k",
        parameters=request.given(),
        how=price.how,
        source=f"{found.source}, with a schedule",
        epsilon=epsilon_from_zcdp(found.loss.rho, price.conversion),
        delta=found.loss.delta + price.conversion,
        rho=found.loss.rho,
        rho_delta=found.loss.delta,
        steps=tuple(
            ListedStepFigures(step, found.std(step), float(widths[step - 1]))
            for step in few_steps(steps)
        ),
        ways=tuple(ways.all()),
    )


@dataclass(frozen=True, slots=True)
class _Ways:
    """The ways to choose the groups of one stream, at one cost."""

    steps: int
    k: int
    k_bar: int
    sensitivity: int
    price: PrivacyLoss

    def scheduled(self, schedule: tuple[int, ...], *, one_step: bool) -> ScheduledTopK | None:
        """Build the mechanism that chooses on a schedule."""
        return scheduled_top_k(
            *(self.price, self.steps, StreamGroups(k_bar=self.k_bar)),
            k=self.k,
            sensitivity=self.sensitivity,
            schedule=schedule,
            one_step=one_step,
        )

    def all(self) -> Iterator[ChoiceFigures]:
        """Yield all ways that this budget can pay for."""
        every = [n for n in (30, 7) if n < self.steps]
        schedules = [
            ("doubling", doubling_steps(self.steps), False),
            ("doubling, units of one step", doubling_steps(self.steps), True),
            *((f"every {n} steps", tuple(range(1, self.steps + 1, n)), False) for n in every),
            ("every step", tuple(range(1, self.steps + 1)), False),
        ]
        for name, schedule, one_step in schedules:
            mechanism = self.scheduled(schedule, one_step=one_step)
            if mechanism is not None:
                yield self._figures(name, len(schedule), mechanism)
        # Of as many declared groups as a choice of unknown ones looks at.
        sparse = sparse_top_k(
            *(self.price.rho, self.steps),
            k=self.k,
            size=self.k_bar,
            switches=_SWITCHES,
            margin=0,
            sensitivity=self.sensitivity,
            one_step=False,
        )
        name = f"sparse_gumb, of {self.k_bar:,} declared groups"
        yield self._figures(name, _SWITCHES + 1, sparse)
        cells = meta_histogram(
            *(self.price, self.steps, StreamGroups(k_bar=self.k_bar)),
            k=self.k,
            sensitivity=self.sensitivity,
        )
        if cells is not None:
            number = sum(len(cells.completed(step)) for step in range(1, self.steps + 1))
            yield self._figures("meta_algo, units of one step", number, cells)

    def _figures(
        self, name: str, choices: int, mechanism: ScheduledTopK | SparseTopK | MetaHistogram
    ) -> ChoiceFigures:
        once = single_top_k_std(self.price.rho, self.sensitivity, self.k)
        stds = [mechanism.std(step) / once for step in range(1, self.steps + 1)]
        rms = math.sqrt(sum(value * value for value in stds) / self.steps)
        exceeds = mechanism.score_for_inclusion(_CONFIDENCE, 1) or 0.0
        return ChoiceFigures(name, choices, exceeds, max(stds), rms)
