"""Streams that list the k largest groups: their noise, and what each schedule of choices costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from dpsql.privacy.accounting.zcdp import PrivacyLoss, epsilon_from_zcdp, rho_from_epsilon
from dpsql.privacy.calculator.request import (
    BUDGET_QUANTITIES,
    Request,
    check_one_budget,
    check_options,
    flag,
    refused,
)
from dpsql.privacy.mechanisms.additive import correlated_gaussian
from dpsql.privacy.streams.meta import MetaHistogram, meta_unknown_top_k
from dpsql.privacy.streams.sparse import SparseTopK, sparse_top_k
from dpsql.privacy.streams.topk import (
    ScheduledTopK,
    doubling_steps,
    scheduled_top_k_unknown,
)

_CONFIDENCE: Final = 0.95
_SHOWN: Final = 5  # steps
_K_BAR: Final = 1_000
_SWITCHES: Final = 10


@dataclass(frozen=True, slots=True)
class ListedStepFigures:
    """What the counts of a listed group have at a step: std, and a half-width that covers 95%."""

    step: int
    std: float
    margin_95: float


@dataclass(frozen=True, slots=True)
class ChoiceFigures:
    """A way to choose the groups of a stream, by how often it chooses and what that leaves.

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
class ListingCalibration:
    """A top-k over a stream: its guarantee, the noise of a few steps, and all ways to choose.

    The whole stream is (``epsilon``, ``delta``)-DP; under zCDP it costs ``rho`` and ``rho_delta``.
    The figures of steps are those of the doubling schedule, for units that add at any step.
    """

    mechanism: str
    parameters: dict[str, float | int | str]
    how: str
    source: str
    epsilon: float
    delta: float
    rho: float
    rho_delta: float
    steps: tuple[ListedStepFigures, ...]
    ways: tuple[ChoiceFigures, ...]


def calibrate_listing(request: Request) -> ListingCalibration:
    """Compute the noise of a stream that lists ``k`` groups, for one guarantee of all its steps.

    Raises ParameterError for options that do not fit or are out of range.
    """
    allowed = (*BUDGET_QUANTITIES, "k_bar", "sensitivity")
    check_options(request, "continual", needed=("steps", "delta", "k"), allowed=allowed)
    check_one_budget(request, "continual")
    assert request.steps is not None
    assert request.delta is not None
    if (request.k or 1) > (request.k_bar or _K_BAR):
        raise refused(f"{flag('k')} must not exceed {flag('k_bar')}")
    if request.rho is None:
        assert request.epsilon is not None
        conversion = request.delta / 2
        rho, own = rho_from_epsilon(request.epsilon, conversion), request.delta - conversion
        how = "zCDP at rho(epsilon, delta/2), and delta/2 for the choices"
    else:
        rho, own, conversion = request.rho, request.delta, request.delta
        how = "zCDP: delta for the choices, and as much again to convert rho to epsilon"
    ways = _Ways(request, rho, own)
    found = ways.scheduled(doubling_steps(request.steps), one_step=False)
    if found is None:
        raise refused("the budget is too small for so many choices")
    loss, asked = found.loss, request.given()
    return ListingCalibration(
        mechanism="scheduled_top_k",
        parameters={name: asked[name] for name in asked if name != "mechanism"},
        how=how,
        source="Rivera Cardoso & Rogers 2022, Theorem 3, with a schedule",
        epsilon=epsilon_from_zcdp(loss.rho, conversion),
        delta=loss.delta + conversion,
        rho=loss.rho,
        rho_delta=loss.delta,
        steps=tuple(_figures_of_steps(found)),
        ways=tuple(ways.all()),
    )


def _figures_of_steps(found: ScheduledTopK) -> Iterator[ListedStepFigures]:
    """Yield those of the first step, the last, and a few between at equal ratios."""
    last, counts = found.steps, found.counts
    margins = counts.half_widths(_CONFIDENCE)
    for step in sorted({round(last ** (i / (_SHOWN - 1))) for i in range(_SHOWN)}):
        yield ListedStepFigures(step, counts.std(step), float(margins[step - 1]))


class _Ways:
    """The ways to choose the groups of one stream, at one cost."""

    def __init__(self, request: Request, rho: float, delta: float) -> None:
        assert request.steps is not None
        assert request.k is not None
        self.steps, self.k, self.rho, self.delta = request.steps, request.k, rho, delta
        self.k_bar, self.sensitivity = request.k_bar or _K_BAR, request.sensitivity or 1
        # A single top-k spends half on its choice, and half on the counts, which share a noise.
        self.once = correlated_gaussian(PrivacyLoss(rho / 2), self.sensitivity, self.k).std(self.k)

    def scheduled(self, schedule: tuple[int, ...], *, one_step: bool) -> ScheduledTopK | None:
        """Build the mechanism that chooses on a schedule."""
        return scheduled_top_k_unknown(
            self.rho,
            self.delta,
            self.steps,
            k=self.k,
            k_bar=self.k_bar,
            floor=0,
            sensitivity=self.sensitivity,
            schedule=schedule,
            one_step=one_step,
        )

    def all(self) -> Iterator[ChoiceFigures]:
        """Yield all ways that this budget can pay for."""
        found = [
            self._on_schedule("doubling", doubling_steps(self.steps)),
            self._on_schedule("doubling, units of one step", doubling_steps(self.steps), one=True),
            *(
                self._on_schedule(f"every {every} steps", tuple(range(1, self.steps + 1, every)))
                for every in (30, 7)
                if every < self.steps
            ),
            self._on_schedule("every step", tuple(range(1, self.steps + 1))),
            self._sparse(),
            self._cells(),
        ]
        yield from (each for each in found if each is not None)

    def _on_schedule(
        self, name: str, schedule: tuple[int, ...], *, one: bool = False
    ) -> ChoiceFigures | None:
        mechanism = self.scheduled(schedule, one_step=one)
        if mechanism is None:
            return None
        return self._figures(name, len(schedule), mechanism, mechanism.counts.std)

    def _sparse(self) -> ChoiceFigures:
        """Return those of as many declared groups as a choice of unknown ones looks at."""
        mechanism = sparse_top_k(
            self.rho,
            self.steps,
            k=self.k,
            size=self.k_bar,
            switches=_SWITCHES,
            margin=0,
            sensitivity=self.sensitivity,
            one_step=False,
        )
        name = f"sparse_gumb, of {self.k_bar:,} declared groups"
        return self._figures(name, _SWITCHES + 1, mechanism, mechanism.counts.std)

    def _cells(self) -> ChoiceFigures | None:
        mechanism = meta_unknown_top_k(
            self.rho,
            self.delta,
            self.steps,
            k=self.k,
            k_bar=self.k_bar,
            floor=0,
            sensitivity=self.sensitivity,
        )
        if mechanism is None:
            return None
        cells = sum(len(mechanism.completed(step)) for step in range(1, self.steps + 1))
        return self._figures("meta_algo, units of one step", cells, mechanism, mechanism.std)

    def _figures(
        self,
        name: str,
        choices: int,
        mechanism: ScheduledTopK | SparseTopK | MetaHistogram,
        std: Callable[[int], float],
    ) -> ChoiceFigures:
        stds = [std(step) / self.once for step in range(1, self.steps + 1)]
        rms = math.sqrt(sum(value * value for value in stds) / self.steps)
        exceeds = mechanism.selection.score_for_inclusion(_CONFIDENCE) or 0.0
        return ChoiceFigures(name, choices, exceeds, max(stds), rms)
