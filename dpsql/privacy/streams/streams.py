"""Running histograms over a whole stream, for declared and for unknown keys.

A step is one refresh: its answer is, for each group, the running count (or the sum over a window)
and noise. The guarantee is for all steps together, also if later increments depend on earlier
answers (Denisov et al. 2022: C is lower triangular and the draws are independent).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import mills_ratio
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import one_shot_distance
from dpsql.privacy.mechanisms.calibration import LATTICE_VARIANCE
from dpsql.privacy.sampling.noise import gaussian_sigma_for_rho
from dpsql.privacy.sampling.numeric import (
    SLOP,
    checked_positive,
    log_probability,
    normal_quantile_sf,
    rounded_up,
)
from dpsql.privacy.streams.factorisation import Factorisation
from dpsql.privacy.streams.keyed import (
    MAX_LATTICE_SIGMA,
    KeyedNoise,
    StepKey,
    checked_lattice_sigma,
)
from dpsql.privacy.streams.mechanism import Listed, StreamCounts

UNIT_COUNTS = "units"
"""The measure that says which groups are shown: how many privacy units a group has."""

_SMOOTHING = 4.0  # of a coordinate, in units of the lattice: see rounded_quantiles_sf
_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class ContinualNoise:
    """Noise for one measure of a stream's groups, at every step.

    ``sigma`` is that of a draw, in units of the measure. Over the whole stream one unit changes at
    most ``groups`` groups, and the increments of each by at most ``sensitivity`` in l1: an event is
    one increment; a unit that counts once per group, or at most M in all, costs as much as an event
    of that size.

    Guarantee: ``rho`` zCDP for all steps, groups * sensitivity**2 * norm**2 / (2 sigma**2), where
    norm is the largest column norm of C: the length of C u is convex in u, so over the l1 ball it
    is largest for a single step (Canonne, Kamath & Steinke 2020, Thm 4, on the lattice of C x + z).
    Raises ParameterError for parameters out of range. Checked by
    ``tests/privacy/streams/test_continual_streams.py``.
    """

    factorisation: Factorisation
    sigma: float
    groups: int
    sensitivity: int

    def __post_init__(self) -> None:
        _check_whole(self.groups, "the number of groups")
        _check_whole(self.sensitivity, "the sensitivity")
        checked_positive(self.sigma, "sigma")
        checked_lattice_sigma(self.sigma * 2.0**self.factorisation.bits)

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return f"continual_{self.factorisation.name}"

    @property
    def steps(self) -> int:
        """How many steps the stream has."""
        return self.factorisation.steps

    @property
    def rho(self) -> float:
        """The zCDP cost of the whole stream, rounded up."""
        return rounded_up(self.distance_squared / 2)

    @property
    def gaussian_rho(self) -> float:
        """Half of mu**2 in Gaussian DP for the whole stream, rounded up.

        As for continuous noise with a variance of LATTICE_VARIANCE units of the lattice less
        (docs/mechanisms/accounting.md). A step is an answer whose cost depends on what was shown
        before, and all together cost no more than ``distance_squared`` says.
        """
        squared = Fraction(self.sigma) ** 2
        smoothed = squared - Fraction(LATTICE_VARIANCE) / 4**self.factorisation.bits
        return rounded_up(self.distance_squared * squared / smoothed / 2)

    @property
    def once(self) -> float:
        """The standard deviation of a single answer that costs as much as the whole stream."""
        return self.sigma / math.sqrt(float(self.factorisation.norm_squared))

    @property
    def distance_squared(self) -> Fraction:
        """The squared l2 distance that the draws hide, in units of their sigma."""
        moved = self.groups * self.sensitivity**2 * self.factorisation.norm_squared
        return moved / Fraction(self.sigma) ** 2

    def std(self, step: int) -> float:
        """Compute the standard deviation of a step's noise, rounding included; to about 0.1%.

        (For a standard deviation of at least 1/2, below which rounding takes away more.)
        """
        spread = self.sigma * self.factorisation.row_norms()[_checked(step, self) - 1]
        return float(np.hypot(spread, math.sqrt(1 / 12)))

    def margin(self, step: int, confidence: float) -> int:
        """Find the smallest m for which P[abs(noise) <= m] >= ``confidence`` is proved, at a step.

        For 0 < confidence < 1, else ParameterError.
        """
        return int(self.half_widths(confidence)[_checked(step, self) - 1])

    def half_widths(self, confidence: float) -> NDArray[np.float64]:
        """Find the half-widths of all steps, of shape (steps,)."""
        log_probability(confidence)
        found = np.maximum(self.quantiles_sf((1.0 - confidence) / 2), 0)
        return found.astype(np.float64)

    def quantiles_sf(self, p: float) -> NDArray[np.int64]:
        """Find for each step an integer q with P[noise > q] <= p, for 0 < p < 1/2; shape (steps,).

        See :func:`rounded_quantiles_sf`.
        """
        return rounded_quantiles_sf(self.factorisation, self.sigma, 1, p)

    def add(
        self,
        step: int,
        exact: NDArray[np.int64],
        groups: Sequence[bytes],
        keys: Sequence[StepKey],
        measure: str = UNIT_COUNTS,
    ) -> NDArray[np.int64]:
        """Add noise to the values of a step, of shape (groups,): one answer per step, for ever.

        ``groups`` are encoded keys, one for each of ``exact``; ``keys`` are those of the steps that
        have begun. The noise is a function of the keys up to the step's, of the measure and the
        group: a key must never meet two states of the data. Raises ParameterError for a step out of
        range.
        """
        assert len(exact) == len(groups)
        _checked(step, self)
        return exact + KeyedNoise(keys, measure, self.sigma, self.factorisation).noise(step, groups)


def rounded_quantiles_sf(
    factorisation: Factorisation, sigma: float, parts: int, p: float
) -> NDArray[np.int64]:
    """Find per step an integer q with P[round(X) > q] <= p, X the sum of B_j z_j; shape (steps,).

    ``sigma`` is that of a z_j in the units of the answer; it may be the sum of ``parts``
    independent discrete Gaussians, each of at least 2**10 units of the lattice. For 0 < p < 1/2,
    else ParameterError. Proved, and the smallest such q but for p close to a jump. Rounding is up
    at halves, so round(X) > q iff X >= q + 1/2. Let Y be the sum of B_j y_j, where y_j is normal
    with a std of 4*sqrt(parts) units of the lattice. z_j + y_j has a density within a relative
    exp(-300) of a normal one (Poisson summation), so X + Y has, to 1e-100 of it, the tail of a
    normal. As P[X + Y >= a - 10 std(Y)] >= P[X >= a] P[Y >= -10 std(Y)] and the last factor is
    above 1 - 1e-22, P[X >= a] is at most that tail at a - 10 std(Y), but for 1e-22 of it.
    """
    if not 0 < p < 0.5:
        raise ParameterError("the tail must lie between 0 and 1/2", code="bad_probability")
    norms = factorisation.row_norms()
    eta = _SMOOTHING * math.sqrt(parts) * 2.0**-factorisation.bits
    reach = (_normal_quantile(p) * math.hypot(sigma, eta) + 10 * eta) * norms * _UP
    return np.ceil(reach - 0.5).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ContinualHistogram:
    """A running histogram: the groups shown at each step, with their noisy counts.

    With declared keys, ``floor`` is None: every group of the domain is shown. Otherwise a group
    *exists* from the step on at which its exact count since the stream's start is above ``floor``
    (minimum units - 1), and is shown at a step iff it exists and its noisy count is above the
    step's threshold. That count never falls, and a unit raises it by at most the noise's
    ``sensitivity``. What is shown is this count, or a sum over a sliding window, which is never
    larger.

    Guarantee: delta-approximate rho-zCDP for the whole stream, rho that of the noise, with
    P[noise_t > q_t] <= delta'/T, delta' = 1 - (1 - delta)**(1/groups) and thresholds
    floor + sensitivity + q_t; also if later increments, and which groups a unit adds to, depend on
    earlier answers. After Rivera Cardoso & Rogers 2022, Theorem 6 (UnkBase), for any factorisation.

    Proof, by coupling: beside what runs on the larger of two neighbours there is another, M, which
    shows a group only if it exists in the smaller one; both have the same noise, for all groups
    from the first step on. (1) M and what runs on the smaller one follow one rule (existence in the
    smaller one) over C x + z, whose x differ by what one unit adds, so that one is rho-zCDP beside
    the other, in both directions, for adaptive increments as well: C is lower triangular. (2) The
    other and M differ only if a group of the unit, one of at most ``groups``, is shown while it
    exists in the larger neighbour alone. As the counts since the start never fall, that group has
    existed in the smaller one at no earlier step: M has shown nothing of its noise so far, which is
    fresh, given all of M's answers, at every step until it exists in both. Its count is then at
    most floor + sensitivity, also over a window, so it is shown at none of these steps but with
    probability delta'; noise of different groups is independent, so none is but with probability
    delta, in whatever order an adversary chooses them. So all events are as probable as under M, to
    delta, and such steps add up over mechanisms as conditioning does: deltas and rhos by
    themselves. (Were existence judged by the window, a group could be shown, leave it, and be
    brought back by one unit while part of its noise is known: a break.)

    It takes noise of the law that it would have had from the first step on, which is why it comes
    from keys. Checked by ``tests/privacy/streams/test_continual_streams.py`` and, for streams
    that react to answers, ``test_continual_windows.py``.
    """

    source: ClassVar[str] = "Rivera Cardoso & Rogers 2022, Theorem 6"
    choices: ClassVar[str] = ""
    base_rank: ClassVar[None] = None
    chooses: ClassVar[bool] = False
    keeps_steps: ClassVar[bool] = False
    noise: ContinualNoise
    delta: float = 0.0
    floor: int | None = None

    def __post_init__(self) -> None:
        if self.floor is None:
            if self.delta != 0.0:
                raise ParameterError("declared keys need no delta", code="bad_parameter")
            return
        log_probability(self.delta)
        if not (type(self.floor) is int and self.floor >= 0):
            raise ParameterError("the floor must be a whole number", code="bad_parameter")

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        domain = "known_domain" if self.floor is None else "positive_counts"
        return f"{self.noise.name}_{domain}"

    @property
    def loss(self) -> PrivacyLoss:
        """The cost of the whole stream, under zCDP."""
        return PrivacyLoss(self.noise.rho, self.delta)

    def thresholds(self) -> NDArray[np.int64] | None:
        """Return the noisy count that a group must exceed at each step, of shape (steps,).

        None for declared keys.
        """
        return None if self.floor is None else _thresholds(self)

    def score_for_inclusion(self, probability: float, step: int) -> float | None:
        """Return how large a count must be to be shown at a step with this probability."""
        thresholds = self.thresholds()
        if thresholds is None:
            return None
        margin = 0 if probability <= 0.5 else self.margin(step, 2 * probability - 1)
        return float(thresholds[step - 1]) + 1 + margin

    def answer(self, counts: StreamCounts) -> Listed:
        """Show groups above the threshold at a step, and groups shown at the step before.

        What came out once may stay, with its noisy values: that is post-processing.
        """
        noisy = counts.noisy()
        shown = self.shown(counts.step, counts.since_start, noisy[counts.score]) | counts.before
        places = np.flatnonzero(shown)
        return Listed(places, [values[places] for values in noisy])

    def shown(
        self, step: int, since_start: NDArray[np.int64], noisy: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Tell which groups are shown at a step, of shape (groups,).

        ``since_start`` are their exact counts of all steps so far, never of a window.
        """
        thresholds = self.thresholds()
        if thresholds is None or self.floor is None:
            return np.ones(len(noisy), dtype=np.bool_)
        exists = since_start > self.floor
        shown: NDArray[np.bool_] = exists & (noisy > thresholds[step - 1])
        return shown

    def std(self, step: int) -> float:
        """Return the standard deviation of a step's noise."""
        return self.noise.std(step)

    def half_widths(self, confidence: float) -> NDArray[np.float64]:
        """Return the half-widths of all steps, of shape (steps,)."""
        return self.noise.half_widths(confidence)

    def margin(self, step: int, confidence: float) -> int:
        """Return the half-width of an interval around a noisy count, at a confidence."""
        return self.noise.margin(step, confidence)


@lru_cache(maxsize=64)
def _thresholds(histogram: ContinualHistogram) -> NDArray[np.int64]:
    noise = histogram.noise
    assert histogram.floor is not None
    per_group = -math.expm1(math.log1p(-histogram.delta) / noise.groups) * (1 - 1e-12)
    # Noise may be negative at so large a delta, but a group that one unit brings must not pass.
    tail = min(per_group / noise.steps * (1 - 1e-12), 0.49)
    found = histogram.floor + noise.sensitivity + noise.quantiles_sf(tail)
    found.flags.writeable = False
    return found


# -- calibration ------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def continual_noise_for_rho(
    rho: float, factorisation: Factorisation, groups: int, sensitivity: int = 1
) -> ContinualNoise:
    """Find the noise whose whole stream costs at most ``rho``.

    The lattice is that of the factorisation, or coarser where the noise is very large. Raises
    ParameterError for parameters out of range.
    """
    checked_positive(rho, "rho")

    def sigma(on: Factorisation) -> float:
        return gaussian_sigma_for_rho(rho, groups * sensitivity**2 * on.norm_squared)

    return _on_fitting_lattice(factorisation, sigma, groups, sensitivity)


@lru_cache(maxsize=256)
def one_shot_continual_noise(
    distance: float, factorisation: Factorisation, groups: int, sensitivity: int = 1
) -> ContinualNoise:
    """Find the noise that takes ``distance`` (squared) out of ``additive.one_shot_distance``.

    A discrete Gaussian is as private as a continuous one with a variance of LATTICE_VARIANCE
    units of the lattice less (``calibration.lattice_gaussian_delta``). The lattice and the errors
    are those of :func:`continual_noise_for_rho`.
    """
    checked_positive(distance, "the distance")

    def sigma(on: Factorisation) -> float:
        moved = groups * sensitivity**2 * float(on.norm_squared) / distance
        return math.sqrt(moved + LATTICE_VARIANCE * 4.0**-on.bits) * _UP

    return _on_fitting_lattice(factorisation, sigma, groups, sensitivity)


def continual_histogram_for_rho(
    rho: float,
    delta: float,
    factorisation: Factorisation,
    *,
    groups: int,
    floor: int,
    sensitivity: int = 1,
) -> ContinualHistogram:
    """Build the histogram of unknown keys whose stream is ``delta``-approximate ``rho``-zCDP.

    Raises ParameterError for parameters out of range.
    """
    noise = continual_noise_for_rho(rho, factorisation, groups, sensitivity)
    return ContinualHistogram(noise, delta, floor)


def continual_histogram_once(
    epsilon: float,
    delta: float,
    factorisation: Factorisation,
    *,
    groups: int,
    floor: int,
    sensitivity: int = 1,
) -> ContinualHistogram:
    """Build the histogram of unknown keys whose whole stream is (``epsilon``, ``delta``)-DP.

    Half of delta is for the noise, by the exact analysis of Gaussian noise (Balle & Wang 2018,
    Theorem 8), and half for the thresholds; the deltas add, as a group that one neighbour alone has
    is shown with no more than the second probability. Raises ParameterError for parameters out of
    range.
    """
    distance = one_shot_distance(epsilon, delta / 2)
    noise = one_shot_continual_noise(distance, factorisation, groups, sensitivity)
    return ContinualHistogram(noise, delta - delta / 2, floor)


def _on_fitting_lattice(
    factorisation: Factorisation,
    sigma: Callable[[Factorisation], float],
    groups: int,
    sensitivity: int,
) -> ContinualNoise:
    """Make the noise on the factorisation's lattice, or on the finest whose draws are in range."""
    _check_whole(groups, "the number of groups")
    _check_whole(sensitivity, "the sensitivity")
    finest = math.floor(math.log2(MAX_LATTICE_SIGMA / sigma(factorisation)))
    if finest < factorisation.bits:
        # One place less: the norm of the coarser factorisation may be a little larger.
        factorisation = factorisation.on_lattice(max(0, finest - 1))
    return ContinualNoise(factorisation, sigma(factorisation), groups, sensitivity)


def _normal_quantile(p: float) -> float:
    """Find a z >= 0 with P[N > z] <= p, N standard normal, by a margin of SLOP; for p < 1/2."""
    log_p = math.log(p) - SLOP
    z = normal_quantile_sf(log_p)
    while _normal_log_sf(z) > log_p:
        z = z * (1 + 1e-13) + 1e-15
    return z


def _normal_log_sf(z: float) -> float:
    return math.log(mills_ratio(z)) - 0.5 * z * z - 0.5 * math.log(2 * math.pi)


def _check_whole(value: int, name: str) -> None:
    if not (type(value) is int and value >= 1):
        raise ParameterError(f"{name} must be a positive whole number", code="bad_parameter")


def _checked(step: int, noise: ContinualNoise) -> int:
    if not (type(step) is int and 1 <= step <= noise.steps):
        raise ParameterError(f"the stream has the steps 1 to {noise.steps:,}", code="bad_parameter")
    return step
