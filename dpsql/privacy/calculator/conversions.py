"""Calculations without a mechanism: rho and epsilon, and what many queries come to."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.privacy.accounting.composition import Comparison, compare
from dpsql.privacy.accounting.gdp import epsilon_from_gaussian
from dpsql.privacy.accounting.zcdp import epsilon_from_zcdp, epsilon_simple, rho_from_epsilon
from dpsql.privacy.calculator.request import Request, check_one_budget, check_options


@dataclass(frozen=True, slots=True)
class Conversion:
    """``rho``-zCDP implies (``epsilon``, ``delta``)-DP.

    ``epsilon_simple`` is what the looser formula rho + 2 sqrt(rho ln(1/delta)) says instead, and
    ``epsilon_gaussian`` what rho is worth where it is mu**2/2 of Gaussian DP.
    """

    rho: float
    epsilon: float
    delta: float
    epsilon_simple: float
    epsilon_gaussian: float
    source: str


def convert(request: Request) -> Conversion:
    """Convert tightly, either way: to the epsilon of a rho, or the largest rho for an epsilon."""
    check_options(request, "rho", needed=("delta",), allowed=("epsilon", "rho"))
    check_one_budget(request, "rho")
    assert request.delta is not None
    rho, epsilon = request.rho, request.epsilon
    if rho is None:
        assert epsilon is not None
        rho = rho_from_epsilon(epsilon, request.delta)
    return Conversion(
        rho=rho,
        epsilon=epsilon_from_zcdp(rho, request.delta) if epsilon is None else epsilon,
        delta=request.delta,
        epsilon_simple=epsilon_simple(rho, request.delta),
        epsilon_gaussian=epsilon_from_gaussian(rho, request.delta),
        source="Canonne, Kamath & Steinke 2020, Proposition 12",
    )


def compare_compositions(request: Request) -> Comparison:
    """Return the total epsilon of equal queries, by each composition theorem."""
    check_options(request, "composition", needed=("epsilon", "queries", "delta"), allowed=())
    assert request.epsilon is not None
    assert request.queries is not None
    assert request.delta is not None
    composed = compare(request.epsilon, request.queries, request.delta)
    return Comparison(request.epsilon, request.queries, request.delta, composed)
