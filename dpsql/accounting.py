"""zCDP accounting: what mechanisms cost, how costs add up, what they mean as (epsilon, delta).

A mechanism states its cost as delta-approximate rho-zCDP (Bun & Steinke 2016, Def. 8.1). Costs add
under adaptive composition, also when each query is chosen after seeing earlier answers, as long as
the totals stay inside limits fixed beforehand (Whitehouse, Ramdas, Rogers & Wu 2023; Rogers 2024).
Only :class:`Budget` turns a total into epsilon, once, at the end.

Floats describe costs; the ledger counts them in exact integers (:data:`RHO_UNIT`,
:data:`DELTA_UNIT`). Every rounding in this module is against the analyst: an epsilon is rounded up,
a permitted rho is rounded down, a charge is rounded up and a limit is rounded down.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from dpsql.errors import ParameterError

RHO_BITS = 40
DELTA_BITS = 62
RHO_UNIT = 2.0**-RHO_BITS
"""One ledger unit of rho."""
DELTA_UNIT = 2.0**-DELTA_BITS
"""One ledger unit of delta."""
MAX_UNITS = 2**63 - 1
"""The largest count of units a ledger column holds."""

_SLACK = 2.0**-48
"""Relative allowance for the rounding of a few correctly rounded operations (each 2**-52)."""


def _log_inverse(delta: float) -> float:
    """ln(1/delta), for a delta strictly between 0 and 1."""
    if not _is_number(delta) or not 0.0 < delta < 1.0:
        raise _bad_parameter("delta", "must be greater than 0 and less than 1", delta)
    return -math.log(delta)


def _require_cost(name: str, value: float) -> None:
    if not _is_number(value) or not 0.0 <= value <= sys.float_info.max:
        raise _bad_parameter(name, "must be finite and not negative", value)


def _require_positive(name: str, value: float) -> None:
    if not _is_number(value) or not 0.0 < value <= sys.float_info.max:
        raise _bad_parameter(name, "must be finite and greater than 0", value)


def _is_number(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _bad_parameter(name: str, rule: str, value: object) -> ParameterError:
    shown = f"{value:.6g}" if isinstance(value, float) else f"of type {type(value).__name__}"
    if type(value) is int and abs(value) < 10**15:
        shown = str(value)
    return ParameterError(f"{name} {rule}, not {shown}", code="bad_parameter")


class Composition(StrEnum):
    """How the costs of an account's queries add up.

    ZCDP: rho and delta add; the tight conversion to epsilon comes last. Best for a session.
    BASIC: the epsilon and delta of each query add, and each query may use the exact analysis of its
    mechanism. Best for a single publication.
    """

    ZCDP = "zcdp"
    BASIC = "basic"


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The cost of a mechanism. ``+`` composes.

    ``delta``-approximate ``rho``-zCDP composed with pure ``epsilon``-DP. Under zCDP composition
    epsilon is 0; under basic composition rho is 0, and this is (epsilon, delta)-DP. All are finite
    and non-negative, else :class:`ParameterError`.
    """

    rho: float
    delta: float
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        _require_cost("rho", self.rho)
        _require_cost("delta", self.delta)
        _require_cost("epsilon", self.epsilon)

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Adaptive sequential composition (Bun & Steinke 2016, Lemma 8.2; basic for epsilon)."""
        return PrivacyLoss(
            self.rho + other.rho, self.delta + other.delta, self.epsilon + other.epsilon
        )


ZERO = PrivacyLoss(0.0, 0.0)
"""The cost of doing nothing; ``sum(losses, ZERO)`` composes."""


def epsilon_from_zcdp(rho: float, delta_conversion: float) -> float:
    """The epsilon for which rho-zCDP implies (epsilon, ``delta_conversion``)-DP; never too small.

    The least, over the order alpha > 1, of
    ``alpha rho + ln(1 - 1/alpha) - (ln delta_conversion + ln alpha) / (alpha - 1)``
    (Canonne, Kamath & Steinke 2020, Prop. 12 and Cor. 13). Every alpha gives a valid epsilon, so an
    inexact search costs tightness only; the result is rounded up and never negative.

    Raises :class:`ParameterError` unless rho is finite and >= 0 and 0 < delta_conversion < 1.
    """
    _require_cost("rho", rho)
    log_inverse_delta = _log_inverse(delta_conversion)
    if rho == 0.0:
        return 0.0
    return _epsilon_at_order(rho, log_inverse_delta, _best_order(rho, log_inverse_delta))


def rho_from_epsilon(epsilon: float, delta_conversion: float) -> float:
    """The largest rho whose zCDP implies (``epsilon``, ``delta_conversion``)-DP, rounded down.

    ``epsilon_from_zcdp(result, delta_conversion) <= epsilon`` always holds.

    Epsilon is concave in rho (a minimum of lines, one per alpha), so Newton's method started below
    the answer climbs to it and never passes it.

    Raises :class:`ParameterError` unless epsilon is finite and > 0 and 0 < delta_conversion < 1.
    """
    _require_positive("epsilon", epsilon)
    log_inverse_delta = _log_inverse(delta_conversion)
    rho = _rho_simple(epsilon, log_inverse_delta)
    for _ in range(64):
        order = _best_order(rho, log_inverse_delta)
        better = _rho_at_order(epsilon, log_inverse_delta, order)
        if better <= rho * (1.0 + 2.0**-50):
            break
        rho = better
    step = 2.0**-52
    while epsilon_from_zcdp(rho, delta_conversion) > epsilon:
        rho *= 1.0 - step
        step = min(0.5, step * 2.0)
    return rho


def epsilon_simple(rho: float, delta: float) -> float:
    """``rho + 2 sqrt(rho ln(1/delta))``, the looser textbook conversion, for comparison tables.

    Bun & Steinke 2016, Prop. 1.3. Raises as :func:`epsilon_from_zcdp`. Nothing is charged by it.
    """
    _require_cost("rho", rho)
    return rho + 2.0 * math.sqrt(rho) * math.sqrt(_log_inverse(delta))


@dataclass(frozen=True, slots=True)
class Budget:
    """What an account may spend: (``epsilon``, ``delta``)-DP in all, split once and for good.

    Half of delta pays for the conversion from zCDP (``delta_conversion``), half for the mechanisms'
    own failures (``delta_mechanisms``). Queries run while their rho add up to at most ``rho`` and
    their delta to at most ``delta_mechanisms``: the whole session is then (epsilon, delta)-DP.
    Build it with :meth:`zcdp`.
    """

    epsilon: float
    delta: float
    delta_conversion: float
    rho: float
    delta_mechanisms: float

    @classmethod
    def zcdp(cls, epsilon: float, delta: float) -> Budget:
        """Split (``epsilon``, ``delta``).

        Raises :class:`ParameterError` unless epsilon is finite and > 0 and 0 < delta < 1, or when
        either is too small or too large for the ledger to count.
        """
        _require_positive("epsilon", epsilon)
        _log_inverse(delta)
        if delta < 2.0 * DELTA_UNIT:
            raise _bad_parameter("delta", f"must be at least {2.0 * DELTA_UNIT:.3g}", delta)
        half = delta / 2.0
        budget = cls(
            epsilon=epsilon,
            delta=delta,
            delta_conversion=half,
            rho=rho_from_epsilon(epsilon, half),
            delta_mechanisms=delta - half,
        )
        if budget.rho_limit == 0:
            raise _bad_parameter("epsilon", "is too small to pay for any query", epsilon)
        return budget

    @property
    def rho_limit(self) -> int:
        """``rho`` in ledger units, rounded down."""
        return rho_units_down(self.rho)

    @property
    def delta_limit(self) -> int:
        """``delta_mechanisms`` in ledger units, rounded down."""
        return delta_units_down(self.delta_mechanisms)

    def epsilon_spent(self, rho_spent: float) -> float:
        """The epsilon that ``rho_spent`` amounts to at ``delta_conversion``."""
        converted = epsilon_from_zcdp(rho_spent, self.delta_conversion)
        # Spending all of rho is spending all of epsilon; rounding must not report a hair more.
        return min(converted, self.epsilon) if rho_spent <= self.rho else converted


def rho_units_up(rho: float | Fraction) -> int:
    """A charge of ``rho`` in ledger units of 2**-40, rounded up exactly.

    Raises :class:`ParameterError` for NaN, infinities, negatives and 2**63 units or more.
    """
    return _units(rho, "rho", RHO_BITS, up=True)


def rho_units_down(rho: float | Fraction) -> int:
    """A limit of ``rho`` in ledger units of 2**-40, rounded down exactly. Raises alike."""
    return _units(rho, "rho", RHO_BITS, up=False)


def delta_units_up(delta: float | Fraction) -> int:
    """A charge of ``delta`` in ledger units of 2**-62, rounded up exactly. Raises alike."""
    return _units(delta, "delta", DELTA_BITS, up=True)


def delta_units_down(delta: float | Fraction) -> int:
    """A limit of ``delta`` in ledger units of 2**-62, rounded down exactly. Raises alike."""
    return _units(delta, "delta", DELTA_BITS, up=False)


def rho_of_units(units: int) -> float:
    """The rho that ``units`` ledger units amount to, rounded up to a float."""
    return _float_up(Fraction(units, 1 << RHO_BITS))


def delta_of_units(units: int) -> float:
    """The delta that ``units`` ledger units amount to, rounded up to a float."""
    return _float_up(Fraction(units, 1 << DELTA_BITS))


def _epsilon_at_order(rho: float, log_inverse_delta: float, order: float) -> float:
    """The conversion at alpha = 1 + ``order``, rounded up."""
    log_order = math.log1p(order)
    divergence = (1.0 + order) * rho
    gain = math.log1p(1.0 / order)  # -ln(1 - 1/alpha), without cancellation
    tail = (log_inverse_delta - log_order) / order
    error = _SLACK * (divergence + gain + (log_inverse_delta + log_order) / order)
    return max(0.0, divergence - gain + tail + error)


def _rho_at_order(epsilon: float, log_inverse_delta: float, order: float) -> float:
    """The rho whose conversion at alpha = 1 + ``order`` is epsilon."""
    gain = math.log1p(1.0 / order)
    tail = (log_inverse_delta - math.log1p(order)) / order
    return (epsilon + gain - tail) / (1.0 + order)


def _best_order(rho: float, log_inverse_delta: float) -> float:
    """alpha - 1 of the tightest conversion: the root t of ``rho t^2 + ln(1 + t) = ln(1/delta)``.

    In u = ln t the left side is convex and increasing, and each of its terms alone bounds the root
    from above: Newton's method started at the smaller bound descends to the root.
    """
    log_order = log_inverse_delta + math.log(-math.expm1(-log_inverse_delta))
    if rho > 0.0:
        log_order = min(log_order, 0.5 * (math.log(log_inverse_delta) - math.log(rho)))
    order = math.exp(min(log_order, 700.0))
    for _ in range(64):
        square = rho * order * order
        excess = square + math.log1p(order) - log_inverse_delta
        if excess <= 1e-14 * log_inverse_delta:
            break
        order *= math.exp(-excess / (2.0 * square + order / (1.0 + order)))
    return order


def _rho_simple(epsilon: float, log_inverse_delta: float) -> float:
    """The inverse of :func:`epsilon_simple`: a rho that is certainly small enough."""
    root = epsilon / (math.sqrt(log_inverse_delta + epsilon) + math.sqrt(log_inverse_delta))
    return root * root


def _units(value: float | Fraction, name: str, bits: int, *, up: bool) -> int:
    # as_integer_ratio is the exact value of a float: no float multiplication, no rounding.
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ParameterError(f"{name} must be a number", code="bad_parameter")
    if not isinstance(value, Fraction):
        _require_cost(name, value)
    numerator, denominator = value.as_integer_ratio()
    if numerator < 0:
        raise ParameterError(f"{name} must not be negative", code="bad_parameter")
    scaled = numerator << bits
    units = -(-scaled // denominator) if up else scaled // denominator
    if units > MAX_UNITS:
        raise ParameterError(
            f"{name} is too large for the ledger to count",
            code="bad_parameter",
            hint=f"{name} must be below 2**{63 - bits}",
        )
    return units


def _float_up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
