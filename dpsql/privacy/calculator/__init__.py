"""A calculator: the noise and threshold a mechanism needs for a guarantee, and what they cost.

It needs no data, policy or ledger. A guarantee is asked for in one of two ways. As (rho, delta)
the mechanism is calibrated in zCDP, as one query of a session. As (epsilon, delta) it is calibrated
for a single publication: by its own (epsilon, delta) analysis where it has one, else through zCDP.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from dpsql.privacy.accounting.composition import Comparison
from dpsql.privacy.accounting.zcdp import PrivacyLoss, epsilon_from_zcdp
from dpsql.privacy.calculator.conversions import Conversion, compare_compositions, convert
from dpsql.privacy.calculator.registry import find_mechanism
from dpsql.privacy.calculator.request import (
    BUDGET_QUANTITIES,
    SIZES,
    Request,
    check_numbers,
    check_one_budget,
    check_options,
    flag,
    parameter,
    refused,
    zcdp_budget,
)
from dpsql.privacy.calculator.streams import (
    ContinualCalibration,
    ListingCalibration,
    calibrate_continual,
)
from dpsql.privacy.calculator.values import Figures, Found, Mechanism
from dpsql.privacy.mechanisms.registry import Sizes
from dpsql.privacy.mechanisms.selection import UtilityBound

__all__ = ["CALCULATIONS", "Calculated", "Calibration", "Request", "answer_json", "calibrate"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A mechanism's figures and its guarantee.

    One publication is (``epsilon``, ``delta``)-DP; None where no delta was given to convert with.
    As one query of a session it costs ``rho`` and ``rho_delta`` (delta-approximate rho-zCDP); None
    where that is not known. ``drawn`` is what dpsql draws, ``continuous`` the real-valued noise of
    the papers; their values are in the unit that ``measured`` names. ``how`` puts ``analysis`` in
    words.
    """

    mechanism: str
    parameters: dict[str, float | int | str]
    analysis: str
    how: str
    source: str
    epsilon: float | None
    delta: float | None
    rho: float | None
    rho_delta: float | None
    measured: str
    drawn: Figures | None
    continuous: Figures | None
    utility_bound: UtilityBound | None
    notes: tuple[str, ...]


Calculated = Calibration | ContinualCalibration | ListingCalibration | Conversion | Comparison

CALCULATIONS: Mapping[str, Callable[[Request], Calculated]] = {
    "continual": calibrate_continual,
    "rho": convert,
    "composition": compare_compositions,
}
"""The requests other than mechanisms of a single answer."""


def calibrate(request: Request) -> Calculated:
    """Calibrate what a request asks for.

    Raises :class:`ParameterError` for an unknown mechanism, an option it needs and lacks or does
    not take, and values out of range; the message names the option.
    """
    check_numbers(request)
    calculation = CALCULATIONS.get(request.mechanism.lower())
    if calculation is not None:
        return calculation(request)
    mechanism = find_mechanism(request.mechanism, request.noise)
    request = _resolved(request, mechanism)
    _check(request, mechanism)
    analysis = _analysis(request, mechanism)
    given = request.given()
    sizes = Sizes(**{name: int(given[name]) for name in SIZES if name in given})
    if analysis == "zcdp":
        return _through_zcdp(request, mechanism, sizes)
    return _one_shot(request, mechanism, analysis, sizes)


def answer_json(answer: Calculated) -> str:
    """Write an answer as JSON text."""
    return json.dumps(asdict(answer), indent=2, ensure_ascii=False, allow_nan=False)


# -- what the mechanism takes -----------------------------------------------------------------


def _resolved(request: Request, mechanism: Mechanism) -> Request:
    """Put --k where the mechanism means it."""
    if not mechanism.k_is_groups or request.k is None:
        return request
    if request.groups is not None:
        raise refused(f"{mechanism.name} takes {flag('k')} or {flag('groups')}, not both")
    return replace(request, k=None, groups=request.k)


def _check(request: Request, mechanism: Mechanism) -> None:
    allowed = (*mechanism.may_take, *BUDGET_QUANTITIES, "analysis", "noise")
    check_options(request, mechanism.name, mechanism.takes, allowed)
    check_one_budget(request, mechanism.name)
    if request.k is not None and request.k_bar is not None and request.k > request.k_bar:
        raise refused(f"{flag('k')} must not exceed {flag('k_bar')}")


def _analysis(request: Request, mechanism: Mechanism) -> str:
    """Name the analysis to use: the one asked for, or the mechanism's usual one."""
    possible = [*mechanism.one_shot, *(["zcdp"] if mechanism.zcdp else [])]
    hint = f"See {mechanism.instead}." if mechanism.instead else None
    if request.rho is not None:
        if mechanism.zcdp is None:
            raise refused(f"{mechanism.name} does not take {flag('rho')}", hint=hint)
        possible = ["zcdp"]
    wanted = request.analysis or possible[0]
    if wanted not in possible:
        hint = " ".join(filter(None, (f"Possible here: {', '.join(possible)}.", hint)))
        raise refused(f"{mechanism.name} does not take {flag('analysis')} {wanted}", hint=hint)
    _check_delta(request, mechanism, wanted)
    return wanted


def _check_delta(request: Request, mechanism: Mechanism, analysis: str) -> None:
    if analysis == "pure":
        if request.delta is not None:
            raise refused(
                f"{mechanism.name} by its pure analysis does not take {flag('delta')}",
                hint=f"With {flag('analysis')} zcdp it does.",
            )
    elif request.delta is None and (mechanism.thresholded or request.rho is None):
        raise refused(f"{mechanism.name} needs {flag('delta')}")


# -- the two ways -----------------------------------------------------------------------------


_ONE_SHOT = {
    "pure": "one publication, by epsilon alone",
    "add-the-deltas": "one publication, the deltas of noise and threshold added up",
}


def _one_shot(request: Request, mechanism: Mechanism, analysis: str, sizes: Sizes) -> Calibration:
    assert request.epsilon is not None
    delta = request.delta or 0.0
    price = PrivacyLoss(0.0, delta, request.epsilon)
    found = mechanism.one_shot[analysis](sizes, price)
    how = _ONE_SHOT.get(analysis, "one publication, by the mechanism's (epsilon, delta) analysis")
    return _calibration(request, mechanism, found, (analysis, how), (request.epsilon, delta))


def _through_zcdp(request: Request, mechanism: Mechanism, sizes: Sizes) -> Calibration:
    """Calibrate by zCDP: the mechanism's own delta first, then what converts its rho."""
    assert mechanism.zcdp is not None
    budget = zcdp_budget(request, "threshold" if mechanism.thresholded else None)
    found = mechanism.zcdp(sizes, budget.loss)
    assert found.loss is not None
    guarantee: tuple[float | None, float | None] = (None, None)
    if budget.conversion is not None:
        epsilon = epsilon_from_zcdp(found.loss.rho, budget.conversion)
        guarantee = (epsilon, found.loss.delta + budget.conversion)
    return _calibration(request, mechanism, found, ("zcdp", budget.how), guarantee)


def _calibration(
    request: Request,
    mechanism: Mechanism,
    found: Found,
    analysis: tuple[str, str],
    guarantee: tuple[float | None, float | None],
) -> Calibration:
    given = request.given()
    loss = found.loss
    return Calibration(
        mechanism=mechanism.name,
        parameters={parameter(n): given[n] for n in (*BUDGET_QUANTITIES, *SIZES) if n in given},
        analysis=analysis[0],
        how=analysis[1],
        source=found.source,
        epsilon=guarantee[0],
        delta=guarantee[1],
        rho=None if loss is None else loss.rho,
        rho_delta=None if loss is None else loss.delta,
        measured=mechanism.measured,
        drawn=found.drawn,
        continuous=found.continuous,
        utility_bound=found.utility_bound,
        notes=found.notes,
    )
