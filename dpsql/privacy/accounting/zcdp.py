"""Accounting: costs of mechanisms, their composition, and conversion to (epsilon, delta).

A mechanism states its cost as delta-approximate rho-zCDP (``docs/mechanisms/coupling.md``, of which
Bun & Steinke 2016, Def. 8.1, is a special case) or as (epsilon, delta)-DP; :class:`Composition`
says which. Either kind adds under adaptive composition, also when each query is chosen after seeing
earlier answers, as long as the totals stay inside limits fixed beforehand (for zCDP Whitehouse,
Ramdas, Rogers & Wu 2023 and Rogers 2024; for (epsilon, delta) Rogers, Roth, Ullman & Vadhan 2016).

Floats describe costs (:class:`PrivacyLoss`); the ledger counts them in exact integers
(:class:`Amount`). Every rounding in this module is against the analyst: an epsilon is rounded up,
a permitted rho is rounded down, a charge is rounded up and a limit is rounded down.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Final

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import epsilon_from_gaussian, gaussian_rho_from_epsilon

RHO_BITS = 40
EPSILON_BITS = 40
DELTA_BITS = 62
DELTA_UNIT = 2.0**-DELTA_BITS
"""One ledger unit of delta."""
MAX_LEDGER_UNITS = 2**63 - 1
"""The largest count of units a ledger column holds."""
CONVERSION_SHARE = 0.5
"""The part of an account's delta that turns rho into epsilon, where nothing else is said."""

_SLACK = 2.0**-48
"""Relative allowance for the rounding of a few correctly rounded operations (each 2**-52)."""


def _log_inverse(delta: float) -> float:
    """Compute ln(1/delta), for a delta strictly between 0 and 1."""
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
    GDP: mu**2/2 and delta add; the exact conversion of a Gaussian comes last
    (:mod:`dpsql.privacy.accounting.gdp`). Best for a session of noisy counts and sums.
    """

    ZCDP = "zcdp"
    BASIC = "basic"
    GDP = "gdp"


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """The cost of a mechanism. ``+`` composes.

    ``delta``-approximate ``rho``-zCDP composed with pure ``epsilon``-DP. Under zCDP composition
    epsilon is 0; under basic composition rho is 0, and this is (epsilon, delta)-DP. All are finite
    and non-negative, else :class:`ParameterError`.

    If ``gaussian``, rho is more than that: it is mu**2/2 of mu-GDP, which implies zCDP of that rho.
    """

    rho: float = 0.0
    delta: float = 0.0
    epsilon: float = 0.0
    gaussian: bool = False

    def __post_init__(self) -> None:
        _require_cost("rho", self.rho)
        _require_cost("delta", self.delta)
        _require_cost("epsilon", self.epsilon)

    @property
    def composition(self) -> Composition:
        """The composition that a loss of this kind is a price in."""
        if self.gaussian:
            return Composition.GDP
        return Composition.BASIC if self.epsilon else Composition.ZCDP

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        """Compose adaptively in sequence (Bun & Steinke 2016, Lemma 8.2; basic for epsilon).

        For GDP Smith & Thakurta 2022; with what is not Gaussian it is zCDP and no more.
        """
        gaussian = (self.gaussian or not self.rho) and (other.gaussian or not other.rho)
        return PrivacyLoss(
            self.rho + other.rho,
            self.delta + other.delta,
            self.epsilon + other.epsilon,
            gaussian and (self.gaussian or other.gaussian),
        )

    def epsilon_at(self, delta_conversion: float) -> float:
        """Compute the epsilon of this loss by itself, at delta plus ``delta_conversion``.

        Without any rho nothing is converted, and ``delta_conversion`` may be 0.
        """
        if self.rho == 0.0:
            return self.epsilon
        return self.epsilon + self.converted(self.rho, delta_conversion)

    def converted(self, rho: float, delta_conversion: float) -> float:
        """Find the epsilon of a cost of ``rho`` of the kind that this loss has, rounded up."""
        if not self.gaussian:
            return epsilon_from_zcdp(rho, delta_conversion)
        _require_cost("rho", rho)
        _log_inverse(delta_conversion)
        return epsilon_from_gaussian(rho, delta_conversion)


ZERO = PrivacyLoss(0.0, 0.0)
"""The cost of doing nothing; ``sum(losses, ZERO)`` composes."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A cost or a limit in whole ledger units, because sums of floats depend on their order.

    ``rho``, ``epsilon`` and ``gaussian``, which is mu**2/2 of mu-GDP, count 2**-40, ``delta``
    counts 2**-62. Raises :class:`ParameterError` unless each is an int from 0 to 2**63 - 1.
    """

    rho: int = 0
    epsilon: int = 0
    delta: int = 0
    gaussian: int = 0

    def __post_init__(self) -> None:
        check_units("gaussian", self.gaussian)
        check_units("rho", self.rho)
        check_units("epsilon", self.epsilon)
        check_units("delta", self.delta)

    @classmethod
    def charge(cls, loss: PrivacyLoss) -> Amount:
        """Compute the charge for ``loss``: each part rounded up, exactly."""
        return cls._of(loss, _units_up)

    @classmethod
    def limit(cls, loss: PrivacyLoss) -> Amount:
        """Compute the limit that permits ``loss``: each part rounded down."""
        return cls._of(loss, _units_down)

    @classmethod
    def _of(cls, loss: PrivacyLoss, units: Callable[[float, int], int]) -> Amount:
        rho = units(loss.rho, RHO_BITS)
        return cls(
            0 if loss.gaussian else rho,
            units(loss.epsilon, EPSILON_BITS),
            units(loss.delta, DELTA_BITS),
            rho if loss.gaussian else 0,
        )

    def __add__(self, other: Amount) -> Amount:
        """Add up what is charged for both, exactly."""
        parts = zip(self.units, other.units, strict=True)
        rho, epsilon, delta, gaussian = (one + more for one, more in parts)
        return Amount(rho, epsilon, delta, gaussian)

    @property
    def units(self) -> tuple[int, int, int, int]:
        """``(rho, epsilon, delta, gaussian)``."""
        return self.rho, self.epsilon, self.delta, self.gaussian

    @property
    def currencies(self) -> int:
        """How many of rho, epsilon and ``gaussian`` there is anything of: no charge mixes them."""
        return sum(units > 0 for units in (self.rho, self.epsilon, self.gaussian))

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss this amounts to, each part rounded up to a float.

        What is Gaussian is zCDP as well, and with other rho no more than that.
        """
        return PrivacyLoss(
            rho=_float_up(self.rho + self.gaussian, RHO_BITS),
            delta=_float_up(self.delta, DELTA_BITS),
            epsilon=_float_up(self.epsilon, EPSILON_BITS),
            gaussian=self.gaussian > 0 and self.rho == 0,
        )


def check_units(name: str, units: int) -> None:
    """Refuse a count that is not a plain integer from 0 to 2**63 - 1 (:class:`ParameterError`)."""
    if type(units) is not int:
        # bool is an int to Python, and a float here would be a cost nobody rounded up.
        raise ParameterError(
            f"{name} must be a whole number of ledger units, not {type(units).__name__}",
            code="bad_parameter",
            hint="convert a privacy loss with Amount.charge",
        )
    if not 0 <= units <= MAX_LEDGER_UNITS:
        raise ParameterError(
            f"{name} must be between 0 and 2**63 - 1 ledger units", code="bad_parameter"
        )


NO_CHARGE: Final = Amount()
"""A charge of nothing."""


def epsilon_from_zcdp(rho: float, delta_conversion: float) -> float:
    """Find the epsilon for which rho-zCDP implies (epsilon, ``delta_conversion``)-DP, rounded up.

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


@lru_cache(1024, typed=True)
def rho_from_epsilon(epsilon: float, delta_conversion: float) -> float:
    """Find the largest rho whose zCDP implies (``epsilon``, ``delta_conversion``)-DP, rounded down.

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
    """Compute ``rho + 2 sqrt(rho ln(1/delta))``, the looser textbook conversion, to compare with.

    Bun & Steinke 2016, Prop. 1.3. Raises as :func:`epsilon_from_zcdp`. Nothing is charged by it.
    """
    _require_cost("rho", rho)
    return rho + 2.0 * math.sqrt(rho) * math.sqrt(_log_inverse(delta))


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of an account: (``epsilon``, ``delta``)-DP in all, split once and for good.

    Queries run while their costs add up to at most ``most``: the whole session is then (epsilon,
    delta)-DP, as ``delta_conversion`` is kept for turning rho into epsilon. Build it with
    :meth:`of`.
    """

    epsilon: float
    delta: float
    composition: Composition
    delta_conversion: float
    most: PrivacyLoss

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float,
        composition: Composition,
        delta_for_conversion: float = CONVERSION_SHARE,
    ) -> Budget:
        """Build the budget (``epsilon``, ``delta``), spent by the rules of ``composition``.

        ``delta_for_conversion`` is the part of delta, between 0 and 1, that turns rho into epsilon;
        basic composition converts nothing. Raises :class:`ParameterError` unless epsilon is finite
        and > 0 and 0 < delta < 1, or when a part is too small or too large for the ledger to count.
        """
        if composition is Composition.BASIC:
            return cls.basic(epsilon, delta)
        build = cls.zcdp if composition is Composition.ZCDP else cls.gdp
        return build(epsilon, delta, delta_for_conversion)

    @classmethod
    def zcdp(
        cls, epsilon: float, delta: float, delta_for_conversion: float = CONVERSION_SHARE
    ) -> Budget:
        """Limit by zCDP: a part of delta converts, the rest is what mechanisms charge beside rho.

        Raises as :meth:`of`.
        """
        _require_positive("epsilon", epsilon)
        conversion, own = _countable_parts(delta, delta_for_conversion)
        most = PrivacyLoss(rho_from_epsilon(epsilon, conversion), own)
        return cls(epsilon, delta, Composition.ZCDP, conversion, most)._countable()

    @classmethod
    def gdp(
        cls, epsilon: float, delta: float, delta_for_conversion: float = CONVERSION_SHARE
    ) -> Budget:
        """Limit by Gaussian DP: delta is divided as for zCDP, the conversion is exact.

        Raises as :meth:`of`.
        """
        _require_positive("epsilon", epsilon)
        conversion, own = _countable_parts(delta, delta_for_conversion)
        rho = gaussian_rho_from_epsilon(epsilon, conversion)
        most = PrivacyLoss(rho, own, gaussian=True)
        return cls(epsilon, delta, Composition.GDP, conversion, most)._countable()

    @classmethod
    def basic(cls, epsilon: float, delta: float) -> Budget:
        """Limit the sums of the queries' own epsilon and delta. Raises as :meth:`of`."""
        _require_positive("epsilon", epsilon)
        _require_delta_of_units(delta, 1)
        most = PrivacyLoss(0.0, delta, epsilon)
        return cls(epsilon, delta, Composition.BASIC, 0.0, most)._countable()

    @property
    def limit(self) -> Amount:
        """``most`` in ledger units, rounded down."""
        return Amount.limit(self.most)

    def epsilon_spent(self, spent: PrivacyLoss) -> float:
        """Compute the epsilon that ``spent`` amounts to: a plain sum, or rho converted."""
        worth = spent.epsilon_at(self.delta_conversion)
        # Spending all of rho is spending all of epsilon; rounding must not report a hair more.
        inside = spent.rho <= self.most.rho and spent.epsilon <= self.most.epsilon
        return min(worth, self.epsilon) if inside else worth

    def _countable(self) -> Budget:
        if not self.limit.currencies:
            raise _bad_parameter("epsilon", "is too small to pay for any query", self.epsilon)
        return self


def divided_delta(delta: float, share: float) -> tuple[float, float]:
    """Divide delta into ``share`` of it, for the conversion, and the rest; never more together.

    Raises :class:`ParameterError` unless 0 < share < 1.
    """
    if not _is_number(share) or not 0.0 < share < 1.0:
        raise _bad_parameter("delta_for_conversion", "must be between 0 and 1", share)
    conversion = delta * share
    own = delta - conversion
    # Exact from a half of delta on; below that, the difference may have been rounded up.
    if Fraction(conversion) + Fraction(own) > Fraction(delta):
        own = math.nextafter(own, 0.0)
    return conversion, own


def _countable_parts(delta: float, share: float) -> tuple[float, float]:
    """Divide delta into parts that the ledger can count."""
    _require_delta_of_units(delta, 2)
    conversion, own = divided_delta(delta, share)
    if min(conversion, own) < DELTA_UNIT:
        raise _bad_parameter("delta_for_conversion", "leaves a part too small", share)
    return conversion, own


def _require_delta_of_units(delta: float, units: int) -> None:
    _log_inverse(delta)
    if delta < units * DELTA_UNIT:
        raise _bad_parameter("delta", f"must be at least {units * DELTA_UNIT:.3g}", delta)


def _epsilon_at_order(rho: float, log_inverse_delta: float, order: float) -> float:
    """Compute the conversion at alpha = 1 + ``order``, rounded up."""
    log_order = math.log1p(order)
    divergence = (1.0 + order) * rho
    gain = math.log1p(1.0 / order)  # -ln(1 - 1/alpha), without cancellation
    tail = (log_inverse_delta - log_order) / order
    error = _SLACK * (divergence + gain + (log_inverse_delta + log_order) / order)
    return max(0.0, divergence - gain + tail + error)


def _rho_at_order(epsilon: float, log_inverse_delta: float, order: float) -> float:
    """Find the rho whose conversion at alpha = 1 + ``order`` is epsilon."""
    gain = math.log1p(1.0 / order)
    tail = (log_inverse_delta - math.log1p(order)) / order
    return (epsilon + gain - tail) / (1.0 + order)


@lru_cache(1024)
def _best_order(rho: float, log_inverse_delta: float) -> float:
    """Find alpha - 1 of the tightest conversion.

    It is the root t of ``rho t^2 + ln(1 + t) = ln(1/delta)``. In u = ln t the left side is convex
    and increasing, and each of its terms alone bounds the root from above: Newton's method started
    at the smaller bound descends to the root.
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
    """Invert :func:`epsilon_simple`: a rho that is certainly small enough."""
    root = epsilon / (math.sqrt(log_inverse_delta + epsilon) + math.sqrt(log_inverse_delta))
    return root * root


def _units_up(value: float, bits: int) -> int:
    # as_integer_ratio is the exact value of a float: no float multiplication, no rounding.
    numerator, denominator = value.as_integer_ratio()
    return -((-numerator << bits) // denominator)


def _units_down(value: float, bits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << bits) // denominator


def _float_up(units: int, bits: int) -> float:
    nearest = math.ldexp(units, -bits)
    exact = _units_down(nearest, bits) >= units
    return nearest if exact else math.nextafter(nearest, math.inf)
