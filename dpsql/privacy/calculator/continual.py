"""Streams: the noise of every step of a continual release, and what each factorisation costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.privacy.accounting.zcdp import epsilon_from_zcdp, rho_from_epsilon
from dpsql.privacy.calculator.listings import ListingCalibration, calibrate_listing
from dpsql.privacy.calculator.request import (
    BUDGET_QUANTITIES,
    Request,
    check_one_budget,
    check_options,
    flag,
    refused,
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
from dpsql.privacy.streams.streams import (
    ContinualHistogram,
    continual_histogram_for_rho,
    continual_histogram_once,
)

_CONFIDENCE = 0.95
_SHOWN = 5  # steps


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step of a stream has: the std of its noise, a threshold, a margin, in counts.

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
class ContinualCalibration:
    """A stream's guarantee and figures: of a few steps, and of all ways to add noise.

    The whole stream is (``epsilon``, ``delta``)-DP; under zCDP it costs ``rho`` and ``rho_delta``.
    ``measured`` says what the figures are counts of. ``analysis`` is put in words by ``how``.
    """

    mechanism: str
    parameters: dict[str, float | int | str]
    analysis: str
    how: str
    source: str
    epsilon: float
    delta: float
    rho: float
    rho_delta: float
    measured: str
    sigma: float
    steps: tuple[StepFigures, ...]
    factorisations: tuple[FactorisationFigures, ...]


def calibrate_continual(request: Request) -> ContinualCalibration | ListingCalibration:
    """Compute the noise of a stream: with ``k`` of one that lists the largest groups.

    Raises ParameterError for options that do not fit or are out of range.
    """
    return calibrate_stream(request) if request.k is None else calibrate_listing(request)


def calibrate_stream(request: Request) -> ContinualCalibration:
    """Calibrate the noise of ``steps`` refreshes of a stream for one guarantee of them all.

    Raises ParameterError for options that do not fit or are out of range.
    """
    allowed = (*BUDGET_QUANTITIES, "groups", "sensitivity", "window", "analysis")
    check_options(request, "continual", needed=("steps", "delta"), allowed=allowed)
    check_one_budget(request, "continual")
    assert request.steps is not None
    assert request.delta is not None
    if request.window is not None and request.window > request.steps:
        raise refused(f"{flag('window')} must not exceed {flag('steps')}")
    found = _calibrated(request, _factorisation(request))
    histogram, loss = found.histogram, found.histogram.loss
    epsilon, delta = request.epsilon, request.delta
    if found.conversion is not None:
        epsilon = epsilon_from_zcdp(loss.rho, found.conversion)
        delta = loss.delta + found.conversion
    assert epsilon is not None
    asked = request.given()
    named = (*BUDGET_QUANTITIES, "steps", "window", "groups", "sensitivity")
    return ContinualCalibration(
        mechanism=histogram.name,
        parameters={parameter_name(name): asked[name] for name in named if name in asked},
        analysis=found.analysis,
        how=found.how,
        source="Rivera Cardoso & Rogers 2022, Theorem 6, with the factorisation named",
        epsilon=epsilon,
        delta=delta,
        rho=loss.rho,
        rho_delta=loss.delta,
        measured="running count" if request.window is None else "count of the window",
        sigma=histogram.noise.sigma,
        steps=tuple(_step_figures(histogram)),
        factorisations=tuple(_compared(request.steps, request.window)),
    )


def _factorisation(request: Request) -> Factorisation:
    assert request.steps is not None
    if request.window is None:
        return SquareRoot(request.steps)
    return SlidingWindow(request.steps, request.window)


@dataclass(frozen=True, slots=True)
class _Found:
    """The mechanism, its analysis by name and in words, and the delta that converts its rho."""

    histogram: ContinualHistogram
    analysis: str
    how: str
    conversion: float | None


def _calibrated(request: Request, factorisation: Factorisation) -> _Found:
    possible = ("exact", "zcdp") if request.rho is None else ("zcdp",)
    analysis = request.analysis or possible[0]
    if analysis not in possible:
        raise refused(
            f"continual does not take {flag('analysis')} {analysis}",
            hint=f"Possible: {', '.join(possible)}.",
        )
    return (_once if analysis == "exact" else _through_zcdp)(request, factorisation)


def _once(request: Request, factorisation: Factorisation) -> _Found:
    assert request.epsilon is not None
    assert request.delta is not None
    histogram = continual_histogram_once(
        request.epsilon,
        request.delta,
        factorisation,
        groups=request.groups or 1,
        floor=0,
        sensitivity=request.sensitivity or 1,
    )
    how = "the stream by the exact analysis of Gaussian noise, half of delta for the thresholds"
    return _Found(histogram, "exact", how, None)


def _through_zcdp(request: Request, factorisation: Factorisation) -> _Found:
    assert request.delta is not None
    if request.rho is None:
        assert request.epsilon is not None
        conversion = request.delta / 2
        rho, own = rho_from_epsilon(request.epsilon, conversion), request.delta - conversion
        how = "zCDP at rho(epsilon, delta/2), and delta/2 for the thresholds"
    else:
        rho, own, conversion = request.rho, request.delta, request.delta
        how = "zCDP: delta for the thresholds, and as much again to convert rho to epsilon"
    histogram = continual_histogram_for_rho(
        rho,
        own,
        factorisation,
        groups=request.groups or 1,
        floor=0,
        sensitivity=request.sensitivity or 1,
    )
    return _Found(histogram, "zcdp", how, conversion)


def _step_figures(histogram: ContinualHistogram) -> Iterator[StepFigures]:
    """Yield the figures of the first step, the last, and a few between at equal ratios."""
    last = histogram.noise.steps
    thresholds = histogram.thresholds()
    assert thresholds is not None
    for step in sorted({round(last ** (i / (_SHOWN - 1))) for i in range(_SHOWN)}):
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
