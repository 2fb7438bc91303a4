"""Exact output laws of mechanisms on small inputs, and the divergences that judge them.

The laws are written from the definitions, with their own tails; of a mechanism they use its stated
parameters only (noise scale, threshold). Tests tie them to the code that draws.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.histogram import PositiveCounts
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace, LatticeNoise

IMPOSSIBLE = 1e-9  # a correct build's p-value is below this less than once in 10**9 seeds
ORDERS = (1.001, 1.01, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
EPSILONS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0)

Counts = tuple[int, ...]
Law = Mapping[Any, NDArray[np.float64]]
"""Probabilities of outcomes: a discrete part, and for each an array over the noisy values."""


@dataclass(slots=True)
class SeededSource:
    """Reproducible words, so that a passing test keeps passing."""

    seed: int
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def words(self, n: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 2**64, size=n, dtype=np.uint64)


# -- one noise ------------------------------------------------------------------------------------


def log_pmf(noise: LatticeNoise, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """log P[Z = x], normalised by plain summation."""
    width = math.ceil(60 * noise.spread) + 60
    energies = _energy(noise, np.arange(-width, width + 1))
    return -_energy(noise, x) - float(special.logsumexp(-energies))


def _energy(noise: LatticeNoise, x: NDArray[np.int64]) -> NDArray[np.float64]:
    if isinstance(noise, DiscreteGaussian):
        return x.astype(float) ** 2 / (2 * noise.sigma**2)
    assert isinstance(noise, DiscreteLaplace)
    return np.abs(x) / noise.scale


def sums_law(
    own: DiscreteGaussian, shared: DiscreteGaussian, centers: Counts, grid: NDArray[np.int64]
) -> NDArray[np.float64]:
    """log P[center_i + Z_i + Z = y_i for all i] for y in grid**d, Z being shared."""
    width = int(np.abs(grid).max()) + max(centers)  # a shared draw has no reason to go further
    terms = []
    for z in range(-width, width + 1):
        log_law = np.asarray(log_pmf(shared, np.array([z]))[0])
        for center in centers:
            log_law = np.add.outer(log_law, log_pmf(own, grid - center - z))
        terms.append(log_law)
    found: NDArray[np.float64] = np.logaddexp.reduce(terms)
    return found


def log_cdf(noise: LatticeNoise, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """log P[Z <= x] for consecutive integers x."""
    width = math.ceil(60 * noise.spread) + 60
    first, last = int(x[0]) - width, max(int(x[-1]), width)
    logs = np.logaddexp.accumulate(log_pmf(noise, np.arange(first, last + 1)))
    found: NDArray[np.float64] = np.minimum(0.0, logs[int(x[0]) - first : int(x[-1]) - first + 1])
    return found


def tail(noise: LatticeNoise, t: int) -> float:
    """P[Z > t] by summation from the far end."""
    far = max(t, 0) + math.ceil(60 * noise.spread) + 60
    return math.fsum(np.exp(log_pmf(noise, np.arange(t + 1, far)))[::-1])


def difference_tail(noise: LatticeNoise, t: int) -> float:
    """P[Z - Z' > t] for two independent draws."""
    width = math.ceil(45 * noise.spread) + abs(t) + 10
    z = np.arange(-width, width + 1)
    return math.fsum(np.exp(log_pmf(noise, z) + log_cdf(noise, z - t - 1)))


# -- whole mechanisms -----------------------------------------------------------------------------


def positive_counts_law(mechanism: PositiveCounts, counts: Counts, grid: NDArray[np.int64]) -> Law:
    """Which groups come out and with which noisy counts; the counts range over ``grid``."""
    noise = mechanism.noise.noise
    shown, hidden = [], []
    for count in counts:
        pmf = np.exp(log_pmf(noise, grid - count))
        present = count > mechanism.floor
        out = np.where((grid > mechanism.threshold) & present, pmf, 0.0)
        shown.append(out)
        hidden.append(1.0 - out.sum())
    law: dict[Hashable, NDArray[np.float64]] = {}
    for released in _subsets(range(len(counts))):
        values = np.ones(())
        for i in range(len(counts)):
            values = np.multiply.outer(values, shown[i]) if i in released else values * hidden[i]
        law[released] = values
    return law


@dataclass(frozen=True, slots=True)
class AtThreshold(PositiveCounts):
    """Positive counts whose threshold is given."""

    given: int = 0

    @property
    def threshold(self) -> int:
        return self.given


def at_threshold_law(
    sigma: float, threshold: int, counts: Counts, grid: NDArray[np.int64], floor: int = 0
) -> Law:
    """Which counts exceed a given threshold with Gaussian noise, and their noisy values."""
    noise = IndependentNoise(DiscreteGaussian(sigma), 1)
    return positive_counts_law(AtThreshold(noise, 1, 0.1, floor, threshold), counts, grid)


def gaussian_top_k_law(
    mechanism: GaussianTopK, counts: Counts, grid: NDArray[np.int64], hard: bool = False
) -> Law:
    """Which of the k_bar largest come out and with which noisy counts (ties to the lower index).

    ``hard`` is the printed mistake of looking at the true count before drawing noise.
    """
    top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
    center = base + mechanism.threshold
    if hard:
        top = tuple(i for i in top if counts[i] > center)
    return above_threshold_law(mechanism.noise.noise, {i: counts[i] for i in top}, center, grid)


def above_threshold_law(
    noise: LatticeNoise,
    scores: Mapping[int, int],
    center: int,
    grid: NDArray[np.int64],
    unseen: Sequence[int] = (),
) -> Law:
    """Which noisy scores exceed a noisy threshold, and their values, where no ``unseen`` one does.

    With unseen scores the law lacks the probability that one of them exceeds the threshold.
    """
    threshold = np.exp(log_pmf(noise, grid - center))
    for score in unseen:
        threshold = threshold * np.exp(log_cdf(noise, grid - score))
    pmf = {i: np.exp(log_pmf(noise, grid - score)) for i, score in scores.items()}
    cdf = {i: np.exp(log_cdf(noise, grid - score)) for i, score in scores.items()}
    law: dict[Hashable, NDArray[np.float64]] = {}
    for released in _subsets(scores):
        hidden = threshold.copy()
        for i in set(scores) - set(released):
            hidden *= cdf[i]
        below = np.concatenate(([0.0], np.cumsum(hidden)[:-1]))  # threshold < value, strictly
        values = np.asarray(hidden.sum()) if not released else np.ones(())
        for i in released:
            values = np.multiply.outer(values, pmf[i])
        if released:
            least = _outer_minimum(len(released), len(grid))
            values = values * below[least]
        law[released] = values
    return law


def gumbel_law(mechanism: GumbelTopK, counts: Counts) -> dict[tuple[int, ...], float]:
    """The ordered releases (ties to the lower index) of k peeled exponential mechanisms."""
    top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
    rate = mechanism.epsilon / mechanism.sensitivity
    weights = {i: math.exp(rate * (counts[i] - base)) for i in top}
    return peeled_law(weights, math.exp(mechanism.stop_offset), mechanism.k)


def peeled_law(weights: Mapping[int, float], stop: float, k: int) -> dict[tuple[int, ...], float]:
    """Draws without replacement, proportional to weight, until the stopping symbol or k draws."""
    law: dict[tuple[int, ...], float] = {}

    def extend(prefix: tuple[int, ...], probability: float) -> None:
        rest = [i for i in weights if i not in prefix]
        if len(prefix) == k:
            law[prefix] = probability
            return
        total = stop + sum(weights[i] for i in rest)
        law[prefix] = probability * stop / total
        for i in rest:
            extend((*prefix, i), probability * weights[i] / total)

    extend((), 1.0)
    return law


def top_of(counts: Counts, k_bar: int, floor: int) -> tuple[tuple[int, ...], int]:
    """The indices of the k_bar largest counts above the floor, and the base of the threshold."""
    present = sorted((i for i, c in enumerate(counts) if c > floor), key=lambda i: (-counts[i], i))
    base = counts[present[k_bar]] if len(present) > k_bar else floor
    return tuple(sorted(present[:k_bar])), base


def as_returned(counts: Counts, k_bar: int, floor: int) -> tuple[NDArray[np.int64], list[int]]:
    """The scores an engine returns (k_bar + 1 largest, ties to the lower index) and whose."""
    present = sorted((i for i, c in enumerate(counts) if c > floor), key=lambda i: (-counts[i], i))
    whose = present[: k_bar + 1]
    return np.array([counts[i] for i in whose], dtype=np.int64), whose


def neighbours(
    size: int, largest: int, groups: int, sensitivity: int, floor: int = 0
) -> Iterator[tuple[Counts, Counts]]:
    """All pairs (without, with) one unit: up to ``groups`` counts rise by up to ``sensitivity``."""
    for without in itertools.product(range(floor, largest + 1), repeat=size):
        for rise in itertools.product(range(sensitivity + 1), repeat=size):
            if 0 < sum(r > 0 for r in rise) <= groups:
                yield without, tuple(c + r for c, r in zip(without, rise, strict=True))


def _subsets(items: Iterable[int]) -> Iterator[tuple[int, ...]]:
    chosen = tuple(items)
    for size in range(len(chosen) + 1):
        yield from itertools.combinations(chosen, size)


def _outer_minimum(dimensions: int, size: int) -> NDArray[np.intp]:
    index = np.arange(size)
    least = index
    for _ in range(dimensions - 1):
        least = np.minimum.outer(least, index)
    return least


# -- divergences ----------------------------------------------------------------------------------


def total_mass(law: Law) -> float:
    return sum(float(values.sum()) for values in law.values())


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    """sup over events of P - e**epsilon Q."""
    total = 0.0
    for key, values in p.items():
        other = q.get(key)
        excess = values if other is None else values - math.exp(epsilon) * other
        total += float(np.maximum(excess, 0.0).sum())
    return total


def apart(p: Law, q: Law, epsilon: float) -> float:
    """The larger hockey-stick divergence of two laws, in either direction."""
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def renyi(log_p: NDArray[np.float64], log_q: NDArray[np.float64], order: float) -> float:
    """D_order(P || Q) of two laws on one grid, given as logs; a missing tail only lowers it."""
    found = np.isfinite(log_p)
    log_terms = order * log_p[found] + (1 - order) * log_q[found]
    return float(special.logsumexp(log_terms)) / (order - 1)


@cache
def conversion_delta(rho: float, epsilon: float) -> float:
    """A delta for which rho-zCDP implies (epsilon, delta)-DP (Canonne, Kamath & Steinke 2020)."""
    order = 1 + np.logspace(-3, 4, 4000)
    logs = (order - 1) * (order * rho - epsilon) + order * np.log1p(-1 / order) - np.log(order - 1)
    return float(np.exp(min(0.0, logs.min())))


def implied_delta(rho: float, delta: float, epsilon: float) -> float:
    """What delta-approximate rho-zCDP allows a hockey-stick divergence to be."""
    return delta + (1 - delta) * conversion_delta(rho, epsilon)


def coupled_delta(rho: float, delta: float, epsilon: float) -> float:
    """What delta-approximate rho-zCDP by coupling allows it to be (docs/mechanisms/coupling.md)."""
    return delta + conversion_delta(rho, epsilon)


def worst_excess(
    p: Law,
    q: Law,
    rho: float,
    delta: float,
    allowed: Callable[[float, float, float], float] = implied_delta,
) -> float:
    """How far the two laws exceed what the claim allows, over EPSILONS and both directions."""
    return max(apart(p, q, e) - allowed(rho, delta, e) for e in EPSILONS)


# -- statistics -----------------------------------------------------------------------------------


def lower_bound(successes: int, trials: int, risk: float = IMPOSSIBLE) -> float:
    """Clopper-Pearson: the true probability is below this with probability at most ``risk``."""
    if successes == 0:
        return 0.0
    return float(special.betaincinv(successes, trials - successes + 1, risk))


def upper_bound(successes: int, trials: int, risk: float = IMPOSSIBLE) -> float:
    """Clopper-Pearson: the true probability is above this with probability at most ``risk``."""
    return 1 - lower_bound(trials - successes, trials, risk)


def chi_square_p(observed: Counter[Any], law: Mapping[Any, float]) -> float:
    """p-value of observed outcomes against their probabilities; rare outcomes are pooled."""
    trials = sum(observed.values())
    common = [key for key, p in law.items() if p * trials >= 10]
    counts = [observed[key] for key in common]
    expected = [law[key] * trials for key in common]
    rest = trials - sum(expected)
    statistic = sum((o - e) ** 2 / e for o, e in zip(counts, expected, strict=True))
    seen = trials - sum(counts)
    if rest >= 10:
        statistic += (seen - rest) ** 2 / rest
        return float(special.chdtrc(len(common), statistic))
    too_many = float(special.gammainc(seen, max(rest, 1e-12))) if seen else 1.0
    return min(2 * too_many, float(special.chdtrc(max(1, len(common) - 1), statistic)))


def flat(law: Law, grid: NDArray[np.int64]) -> dict[Hashable, float]:
    """A law as one mapping from (released groups, noisy values) to probability."""
    found: dict[Hashable, float] = {}
    for key, values in law.items():
        for index in zip(*np.nonzero(values > 1e-12), strict=True) if values.ndim else [()]:
            found[key, tuple(int(grid[i]) for i in index)] = float(values[index])
    return found


def outcome(indices: Sequence[int], noisy: Iterable[float]) -> Hashable:
    """A drawn release in the form of ``flat``'s keys."""
    pairs = sorted(zip(indices, noisy, strict=True))
    return tuple(i for i, _ in pairs), tuple(int(v) for _, v in pairs)


def drawn(mechanism: Selection, scores: Counts, runs: int, seed: int = 11) -> Counter[Hashable]:
    """How often a mechanism releases what of these scores, in the form of ``flat``'s keys."""
    source, found = SeededSource(seed), Counter[Hashable]()
    for _ in range(runs):
        selected = mechanism.select(np.array(scores, dtype=np.int64), source)
        assert selected.noisy is not None
        found[outcome(selected.indices.tolist(), selected.noisy)] += 1
    return found
