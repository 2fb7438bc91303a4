"""Requests to the calculator: the options of the command, and their ranges."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import DELTA_UNIT, PrivacyLoss, rho_from_epsilon
from dpsql.privacy.mechanisms.registry import ANY_GROUPS
from dpsql.privacy.streams.factorisation import MAX_STEPS

MAX_BUDGET = 30.0
"""The largest epsilon or rho: beyond it nobody is protected."""
MIN_DELTA = 4 * DELTA_UNIT
"""The least delta: even a quarter of it is something that a ledger can count."""
MAX_SIZE = ANY_GROUPS
"""The largest size there may be."""
BUDGET_QUANTITIES = ("epsilon", "delta", "rho")
SIZES = ("k", "groups", "k_bar", "domain", "sensitivity")
ANALYSES = ("exact", "add-the-deltas", "tight", "integrated", "pure", "zcdp")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the calculator; None for an option that was not given.

    The fields are the options of the command.
    """

    mechanism: str
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    k: int | None = None
    groups: int | None = None
    k_bar: int | None = None
    domain: int | None = None
    sensitivity: int | None = None
    queries: int | None = None
    steps: int | None = None
    window: int | None = None
    analysis: str | None = None
    noise: str | None = None

    def given(self) -> dict[str, float | int | str]:
        """Return the options that are given, by field."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "mechanism"}
        return {name: value for name, value in values.items() if value is not None}


def parameter(name: str) -> str:
    """Return a field's name elsewhere in dpsql."""
    return "max_groups_contributed" if name == "groups" else name


def flag(name: str) -> str:
    """Return the option a field is given by."""
    return f"--{parameter(name).replace('_', '-')}"


def refused(reason: str, hint: str | None = None) -> ParameterError:
    """Build the refusal of options that do not fit together."""
    return ParameterError(reason, code="options_do_not_fit", hint=hint)


def check_numbers(request: Request) -> None:
    """Raise ParameterError for a number that is not finite or out of range."""
    for name, value in request.given().items():
        if name in ("epsilon", "rho"):
            rule = f"greater than 0 and at most {MAX_BUDGET:g}"
            fits = isinstance(value, float | int) and 0 < value <= MAX_BUDGET
        elif name == "delta":
            rule = f"at least {MIN_DELTA:.2g} and less than 1/2"
            fits = isinstance(value, float | int) and MIN_DELTA <= value < 0.5
        elif name in (*SIZES, "queries"):
            rule = f"a whole number from 1 to {MAX_SIZE:,}"
            fits = isinstance(value, int) and 1 <= value <= MAX_SIZE
        elif name in ("steps", "window"):
            rule = f"a whole number from 1 to {MAX_STEPS:,}"
            fits = isinstance(value, int) and 1 <= value <= MAX_STEPS
        else:
            continue
        if not fits or isinstance(value, bool):
            raise ParameterError(f"{flag(name)} must be {rule}", code="bad_parameter")


def check_options(
    request: Request, name: str, needed: Collection[str], allowed: Collection[str]
) -> None:
    """Raise ParameterError for an option that ``name`` needs and lacks, or does not take."""
    given = request.given()
    for option in needed:
        if option not in given:
            raise refused(f"{name} needs {flag(option)}")
    for option in given:
        if option not in (*needed, *allowed):
            takes = ", ".join(flag(o) for o in (*needed, *allowed))
            raise refused(f"{name} does not take {flag(option)}", hint=f"It takes {takes}.")


def check_one_budget(request: Request, name: str) -> None:
    """Raise ParameterError unless exactly one of epsilon and rho is given."""
    if (request.epsilon is None) == (request.rho is None):
        raise refused(f"{name} needs either {flag('epsilon')} or {flag('rho')}")


@dataclass(frozen=True, slots=True)
class ZcdpBudget:
    """The zCDP budget of a mechanism, the delta that converts its rho, and both in words."""

    loss: PrivacyLoss
    conversion: float | None
    how: str


def zcdp_budget(request: Request, use: str | None) -> ZcdpBudget:
    """Divide what is asked for: a part of delta is for ``use``, if any, the rest converts rho."""
    epsilon, delta, rho = request.epsilon, request.delta, request.rho
    if rho is not None and use is None:
        how = "zCDP" if delta is None else "zCDP: delta converts rho to epsilon"
        return ZcdpBudget(PrivacyLoss(rho), delta, how)
    assert delta is not None
    if rho is not None:
        how = f"zCDP: delta for the {use}, and as much again to convert rho to epsilon"
        return ZcdpBudget(PrivacyLoss(rho, delta), delta, how)
    assert epsilon is not None
    if use is None:
        loss = PrivacyLoss(rho_from_epsilon(epsilon, delta))
        return ZcdpBudget(loss, delta, "zCDP at rho(epsilon, delta)")
    half = delta / 2
    how = f"zCDP at rho(epsilon, delta/2), and delta/2 for the {use}"
    return ZcdpBudget(PrivacyLoss(rho_from_epsilon(epsilon, half), delta - half), half, how)
