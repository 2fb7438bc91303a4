"""The epsilon of a session of equal queries, theorem by theorem: for comparison.

Nothing is charged by this module. It says what the same adaptive queries would cost under the
composition theorems of the literature, next to the one the ledger uses
(:mod:`dpsql.privacy.accounting.zcdp`).

Every figure is a guarantee: rounded up, never down. Two families of queries are compared. Any
epsilon-DP query has a privacy loss in [-epsilon, epsilon]. An epsilon-bounded-range query
(Durfee & Rogers 2019, Definition 4.2), such as one pick of an exponential mechanism whose scores
only grow when a unit is added, has a loss in an interval of length epsilon, and composes to about
half.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss, epsilon_from_zcdp, epsilon_simple

MAX_QUERIES = 1_000_000
MAX_EPSILON = 1_000.0
ANY = "any epsilon-DP query"
BOUNDED_RANGE = "a bounded-range selection"

_UP = 1.0 + 2.0**-48
"""Exceeds the rounding of a few correctly rounded operations (each 2**-52)."""
_DIGITS = 50
_MARGIN = Decimal("1e-30")
"""Exceeds the rounding of 10 * MAX_QUERIES operations of _DIGITS digits on positive numbers."""


@dataclass(frozen=True, slots=True)
class Composed:
    """One theorem's verdict: all queries together are (``epsilon``, ``delta``)-DP.

    ``holds_for`` is the family of queries the theorem is about: :data:`ANY` or
    :data:`BOUNDED_RANGE`.
    """

    theorem: str
    holds_for: str
    epsilon: float
    delta: float
    source: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdicts for ``queries`` queries of ``epsilon`` each, at ``delta``."""

    epsilon: float
    queries: int
    delta: float
    composed: tuple[Composed, ...]


def compare(epsilon: float, queries: int, delta: float) -> tuple[Composed, ...]:
    """Compute the total epsilon of ``queries`` adaptive queries of ``epsilon``, by every theorem.

    The order is fixed: basic, advanced, optimal, zCDP with the simple and the tight conversion;
    then bounded-range composition and zCDP for bounded-range selections. Each entry is its
    theorem's own figure; the least of its family is a guarantee too. ``optimal`` is a lower bound
    for its family: no theorem about all epsilon-DP queries can say less.

    Raises :class:`ParameterError` unless 0 < epsilon <= 1000, 1 <= queries <= 1,000,000 and
    0 < delta < 1.
    """
    rho = queries * rho_of_pure(epsilon)
    rho_selections = queries * rho_of_bounded_range(epsilon)
    tight = "Canonne, Kamath & Steinke 2020, Proposition 12"
    return (
        Composed("basic", ANY, basic(epsilon, queries), 0.0, "Dwork et al. 2006"),
        Composed(
            "advanced",
            ANY,
            advanced(epsilon, queries, delta),
            delta,
            "Durfee & Rogers 2019, Theorem 3",
        ),
        Composed(
            "optimal",
            ANY,
            optimal(epsilon, queries, delta),
            delta,
            "Kairouz, Oh & Viswanath 2015; Murtagh & Vadhan 2016",
        ),
        Composed(
            "zcdp_simple",
            ANY,
            epsilon_simple(rho * _UP, delta) * _UP,
            delta,
            "Bun & Steinke 2016, Proposition 1.3",
        ),
        Composed("zcdp_tight", ANY, epsilon_from_zcdp(rho * _UP, delta), delta, tight),
        Composed(
            "bounded_range",
            BOUNDED_RANGE,
            bounded_range(epsilon, queries, delta),
            delta,
            "Durfee & Rogers 2019, Lemma 4.4",
        ),
        Composed(
            "bounded_range_zcdp",
            BOUNDED_RANGE,
            epsilon_from_zcdp(rho_selections * _UP, delta),
            delta,
            f"Cesar & Rogers 2021; {tight}",
        ),
    )


def comparisons(
    epsilons: Iterable[float], queries: Iterable[int], delta: float
) -> tuple[Comparison, ...]:
    """Call :func:`compare` on a grid, epsilons outside, numbers of queries inside."""
    counts = tuple(queries)
    return tuple(
        Comparison(epsilon, count, delta, compare(epsilon, count, delta))
        for epsilon in epsilons
        for count in counts
    )


def basic(epsilon: float, queries: int) -> float:
    """Compute the sum of the epsilons, at delta = 0."""
    _check(epsilon, queries)
    return queries * epsilon * _UP


def advanced(epsilon: float, queries: int, delta: float) -> float:
    """Compose by the exact mean of the loss (advanced), or by the sum (basic) if that is less.

    ``min(m e, m e tanh(e/2) + e sqrt(2 m ln(1/delta)))`` for m queries of e each: the terms for
    general pure DP in Durfee & Rogers 2019, Theorem 3 and equation (3). The first summand bounds
    the mean of the privacy loss, the second its deviation (Azuma).
    """
    _check(epsilon, queries, delta)
    mean = queries * epsilon * math.tanh(epsilon / 2.0)
    deviation = epsilon * math.sqrt(2.0 * queries * -math.log(delta))
    return min(basic(epsilon, queries), (mean + deviation) * _UP)


def bounded_range(epsilon: float, queries: int, delta: float) -> float:
    """Compose epsilon-bounded-range selections (Durfee & Rogers 2019, Lemma 4.4).

    ``m e^2/2 + e sqrt(m ln(1/delta)/2)`` for m selections of e each, or :func:`advanced` where
    that is less: the loss of each lies in an interval of length e, so its deviation is half of
    what e-DP alone allows (Azuma-Hoeffding).
    """
    _check(epsilon, queries, delta)
    mean = queries * epsilon * epsilon / 2.0
    deviation = epsilon * math.sqrt(queries * -math.log(delta) / 2.0)
    return min(advanced(epsilon, queries, delta), (mean + deviation) * _UP)


def optimal(epsilon: float, queries: int, delta: float) -> float:
    """Find the least epsilon at which all adaptive compositions of epsilon-DP queries are DP.

    Randomized response dominates every epsilon-DP query, and an adaptive composition of such
    queries is dominated by as many independent ones (Kairouz, Oh & Viswanath 2015; Murtagh & Vadhan
    2016). With A_i and B_i the probabilities, on the two neighbours, that at most i of m answers
    point away from the first,

        delta(E) = max over i of A_i - exp(E) B_i,   so   E(delta) = max over i of
        ln((A_i - delta) / B_i),   A_i = sum of C(m,l) p^(m-l) q^l, B_i = sum of C(m,l) p^l q^(m-l),

    l <= i, p = 1 - q = e^epsilon/(1 + e^epsilon). For E >= 0 only i <= m/2 matter. Durfee & Rogers
    2019, Lemma A.1, print the same delta at the corners E = (m - 2i) epsilon only; between two
    corners it is linear in exp(E), which is what is solved here, so no corner has to be rounded up
    to. Computed to 50 digits and rounded up. Checked by
    ``tests/privacy/accounting/test_composition.py`` against an enumeration of all answers of
    randomized response.
    """
    _check(epsilon, queries, delta)
    with localcontext(Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        odds = Decimal(epsilon).exp()
        allowed = Decimal(delta)
        here, there = (1 + 1 / odds) ** -queries, (1 + odds) ** -queries
        mass, mass_there = here, there
        steepest = Decimal(0)
        for away in range(queries // 2 + 1):
            excess = mass * (1 + _MARGIN) - allowed
            steepest = max(steepest, excess / mass_there)
            chance = Decimal(queries - away) / (away + 1)
            here, there = here * chance / odds, there * chance * odds
            mass, mass_there = mass + here, mass_there + there
        if steepest <= 1:
            return 0.0
        return _float_up((steepest * (1 + 4 * _MARGIN)).ln() * (1 + _MARGIN))


def rho_of_pure(epsilon: float) -> float:
    """Compute the rho for which every epsilon-DP query is rho-zCDP: ``epsilon tanh(epsilon/2)``.

    Exact for randomized response, which dominates every epsilon-DP query: its Renyi divergence is
    D_a = ln(cosh((a - 1/2) epsilon) / cosh(epsilon/2)) / (a - 1), and ln cosh(sqrt s) is concave
    in s, so D_a / a = (its secant from s = 1/4 to s = (a - 1/2)^2) is largest as a -> 1, where it
    is the mean of the loss. Less than the epsilon^2/2 of Bun & Steinke 2016, Proposition 1.4.
    """
    _check(epsilon)
    return epsilon * math.tanh(epsilon / 2.0) * _UP


def rho_of_bounded_range(epsilon: float) -> float:
    """Compute rho of an epsilon-bounded-range query: ``epsilon^2/8``, or that of pure DP if less.

    Cesar & Rogers 2021, as in Rogers 2024, Theorem 5: a loss in an interval of length epsilon is
    sub-Gaussian with variance epsilon^2/4. Epsilon-bounded-range queries are epsilon-DP as well.
    """
    return min(epsilon * epsilon / 8.0 * _UP, rho_of_pure(epsilon))


def queries_that_fit(limit: PrivacyLoss, reserved: PrivacyLoss, settled: PrivacyLoss) -> int:
    """Count the equal queries that fit a limit if each reserves, runs, and settles in turn.

    Raises :class:`ParameterError` if a query settles nothing, or more than it reserved.
    """
    parts = [
        (limit.rho, reserved.rho, settled.rho),
        (limit.epsilon, reserved.epsilon, settled.epsilon),
        (limit.delta, reserved.delta, settled.delta),
    ]
    if all(paid == 0.0 for _, _, paid in parts) or any(paid > held for _, held, paid in parts):
        raise ParameterError(
            "a query must settle something, and at most what it reserved", code="bad_parameter"
        )
    return min(_that_fit(*part) for part in parts if part[1] > 0.0)


def _that_fit(limit: float, held: float, paid: float) -> int:
    """Count the queries that fit, the last one with its full reservation."""
    if held > limit:
        return 0
    return MAX_QUERIES if paid == 0.0 else 1 + (Fraction(limit) - Fraction(held)) // Fraction(paid)


def _check(epsilon: float, queries: int = 1, delta: float = 0.5) -> None:
    if not _is_number(epsilon) or not 0.0 < epsilon <= MAX_EPSILON:
        raise _bad("epsilon", f"greater than 0 and at most {MAX_EPSILON:g}")
    if type(queries) is not int or not 1 <= queries <= MAX_QUERIES:
        raise _bad("queries", f"a whole number from 1 to {MAX_QUERIES:,}")
    if not _is_number(delta) or not sys.float_info.min <= delta < 1.0:
        raise _bad("delta", "greater than 0 and less than 1")


def _is_number(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _bad(name: str, rule: str) -> ParameterError:
    return ParameterError(f"{name} must be {rule}", code="bad_parameter")


def _float_up(value: Decimal) -> float:
    nearest = float(value)
    return nearest if Decimal(nearest) >= value else math.nextafter(nearest, math.inf)
