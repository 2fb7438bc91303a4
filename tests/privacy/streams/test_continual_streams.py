"""Running histograms: the guarantee of the whole stream, thresholds and tails that hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from helpers.step_keys import step_keys
from numpy.typing import NDArray
from scipy import special, stats

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import PrivacyLoss, rho_from_epsilon
from dpsql.privacy.mechanisms.additive import one_shot_distance
from dpsql.privacy.mechanisms.calibration import gaussian_deltas
from dpsql.privacy.sampling.noise import DiscreteGaussian
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import (
    Factorisation,
    SlidingWindow,
    SquareRoot,
    Toeplitz,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.keyed import KeyedNoise, rounded_products
from dpsql.privacy.streams.streams import (
    ContinualHistogram,
    ContinualNoise,
    continual_histogram_for_rho,
    continual_histogram_once,
    continual_noise_for_rho,
    one_shot_continual_noise,
)

KEYS = step_keys(200)
NOTHING = np.zeros(0, dtype=np.int64)
RHO = rho_from_epsilon(1.0, 5e-7)


def matrix(factorisation: Factorisation) -> NDArray[np.float64]:
    """B as floats, a column for each draw."""
    rows = [factorisation.row(step) for step in range(1, factorisation.steps + 1)]
    found = np.zeros((len(rows), 1 + max(int(row.draws.max()) for row in rows)))
    for t, row in enumerate(rows):
        found[t, row.draws] = row.weights
    return found


# -- cost -------------------------------------------------------------------------------------


def test_no_contribution_within_the_bound_costs_more_than_rho() -> None:
    factorisation = SquareRoot(40)
    noise = ContinualNoise(factorisation, 7.0, 3, 5)
    c = np.array(factorisation.coefficients()) / 2.0**factorisation.bits
    full = np.array([[c[t - s] if t >= s else 0.0 for s in range(40)] for t in range(40)])
    generator = np.random.default_rng(1)
    costs = []
    for _ in range(300):
        u = generator.standard_exponential(40) ** generator.integers(1, 8)
        u *= generator.choice([-1, 1], 40) * 5 / np.abs(u).sum()
        costs.append(3 * float(np.sum((full @ u) ** 2)) / (2 * 7.0**2))
    assert max(costs) <= noise.rho
    event = 3 * float(np.sum((full[:, 0] * 5) ** 2)) / (2 * 7.0**2)
    assert event == pytest.approx(noise.rho, rel=1e-12)
    # At most twice of 1 each costs less than once of 2: the bound on the sum is what counts.
    assert np.linalg.norm(full[:, :2].sum(axis=1)) < 2 * np.linalg.norm(full[:, 0])


@pytest.mark.parametrize(
    "factorisation", [SquareRoot(52), best_tree(52), SlidingWindow(52, 7)], ids=repr
)
@pytest.mark.parametrize("sensitivity", [1, 1000, 10**9])
def test_calibration_spends_the_budget_and_no_more(
    factorisation: Factorisation, sensitivity: int
) -> None:
    noise = continual_noise_for_rho(0.01, factorisation, 10, sensitivity)
    assert 0.01 * (1 - 1e-9) <= noise.rho <= 0.01
    exact = (
        10 * sensitivity**2 * noise.factorisation.norm_squared / (2 * Fraction(noise.sigma) ** 2)
    )
    assert exact <= Fraction(noise.rho)
    assert noise.factorisation.worst() == pytest.approx(factorisation.worst(), rel=1e-4)
    distance = one_shot_distance(1.0, 1e-6)
    once = one_shot_continual_noise(distance, factorisation, 10, sensitivity)
    hidden = math.sqrt(once.distance_squared)
    assert gaussian_delta(1.0, hidden) <= 1e-6
    assert gaussian_delta(1.0, hidden * (1 + 1e-5)) > 1e-6 * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_its_price_in_gaussian_dp_covers_the_exact_law(epsilon: float) -> None:
    """And not of noise that is a thousandth smaller, on the coarsest lattice there is."""
    noise = ContinualNoise(SquareRoot(1).on_lattice(10), 1.0, 1, 1)
    assert noise.rho < noise.gaussian_rho < noise.rho * (1 + 1e-5)
    units = np.arange(-12 * 1024, 13 * 1024 + 1)

    def exact(sigma: float) -> float:
        """The delta of a shift by 1, from the law on the lattice."""
        laws = [np.exp(-((units - shift) ** 2) / (2 * (1024 * sigma) ** 2)) for shift in (0, 1024)]
        p, q = (law / law.sum() for law in laws)
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())

    covered = gaussian_delta(epsilon, math.sqrt(2 * noise.gaussian_rho))
    assert exact(1.0) <= covered < exact(0.999)


def gaussian_divergence(shift: NDArray[np.float64], covariance: NDArray[np.float64]) -> float:
    """The Renyi divergence of two Gaussians, over its order; infinite where one is not shifted."""
    values, vectors = np.linalg.eigh(covariance)
    along = vectors.T @ shift
    flat = values < 1e-9 * values.max()
    if np.abs(along[flat]).max(initial=0) > 1e-6 * np.abs(shift).max():
        return math.inf
    return float(np.sum(along[~flat] ** 2 / values[~flat])) / 2


def test_all_steps_together_cost_rho_and_broken_twins_are_caught() -> None:
    sigma, factorisation = 3.0, SquareRoot(3)
    b = matrix(factorisation)
    cost = ContinualNoise(factorisation, sigma, 1, 1).rho
    covariance = sigma**2 * b @ b.T
    shift = np.array([1.0, 1.0, 1.0])  # an event at the first step
    assert gaussian_divergence(shift, covariance) == pytest.approx(cost, rel=1e-9)
    later = np.array([0.0, 1.0, 1.0])
    assert gaussian_divergence(later, covariance) < cost
    # Two streams, in one of which the event is filtered out: of two keys, and of one.
    both = np.concatenate((shift, 0 * shift))
    two = np.block([[covariance, 0 * covariance], [0 * covariance, covariance]])
    one = np.block([[covariance, covariance], [covariance, covariance]])
    assert gaussian_divergence(both, two) == pytest.approx(cost, rel=1e-9)
    assert gaussian_divergence(both, one) == math.inf
    # The last step answered again after an event was inserted.
    again = np.vstack((b, b[-1:]))
    inserted = np.array([0.0, 0.0, 0.0, 1.0])
    assert gaussian_divergence(inserted, sigma**2 * again @ again.T) == math.inf
    # A row that is taken away and put back again: not within the bound on what a unit adds.
    assert gaussian_divergence(np.array([1.0, 0.0, 1.0]), covariance) > 1.1 * cost


def test_one_key_for_two_streams_shows_their_exact_difference() -> None:
    noise = ContinualNoise(SquareRoot(20), 10.0, 1, 1)
    groups = [encode_group((str(i),)) for i in range(200)]
    one, two = np.arange(200), np.arange(200) * 2
    same = noise.add(9, two, groups, KEYS) - noise.add(9, one, groups, KEYS)
    assert (same == two - one).all()  # the broken twin
    keys = [step_keys(9, name) for name in ("a", "b")]
    apart = noise.add(9, two, groups, keys[0]) - noise.add(9, one, groups, keys[1])
    spread = noise.std(9) * math.sqrt(2)
    assert (apart - two + one).std() == pytest.approx(spread, rel=6.5 / math.sqrt(400))
    other = noise.add(9, two, groups, KEYS, "rows") - noise.add(9, one, groups, KEYS)
    assert (other - two + one).std() == pytest.approx(spread, rel=6.5 / math.sqrt(400))


# -- unknown keys -----------------------------------------------------------------------------


def divergence_of_shown(
    larger: NDArray[np.float64],
    smaller: NDArray[np.float64],
    covariances: tuple[NDArray[np.float64], NDArray[np.float64]],
    threshold: NDArray[np.float64],
    order: float,
) -> float:
    """The divergence of what steps 2 and 3 show, over the order, given that step 1 shows nothing.

    The item exists at step 1 with the larger counts only. Each of steps 2 and 3 shows its value if
    above the threshold and otherwise nothing: quadrature over both values. Of each neighbour, the
    law is conditioned on the first value staying below its threshold.
    """

    def law(
        mean: NDArray[np.float64], covariance: NDArray[np.float64]
    ) -> list[NDArray[np.float64]]:
        spread = np.sqrt(np.diag(covariance))
        gain = covariance[0, 1:] @ np.linalg.inv(covariance[1:, 1:])
        rest = math.sqrt(max(covariance[0, 0] - gain @ covariance[1:, 0], 1e-12))
        density = stats.multivariate_normal(mean[1:], covariance[1:, 1:]).pdf(
            np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        )
        grids = np.meshgrid(
            *[axis - m for axis, m in zip(axes, mean[1:], strict=True)], indexing="ij"
        )
        below = stats.norm.cdf(
            (threshold[0] - mean[0] - gain[0] * grids[0] - gain[1] * grids[1]) / rest
        )
        hidden = stats.norm.cdf((threshold[0] - mean[0]) / spread[0])
        mass = density * below / hidden * cell
        high = [axis > t for axis, t in zip(axes, threshold[1:], strict=True)]
        shown = mass[np.ix_(*high)].ravel()
        return [
            shown,
            mass[np.ix_(high[0], ~high[1])].sum(axis=1),
            mass[np.ix_(~high[0], high[1])].sum(axis=0),
            np.array([mass[np.ix_(~high[0], ~high[1])].sum()]),
        ]

    width = 9 * math.sqrt(max(np.diag(c).max() for c in covariances))
    axes = [np.linspace(-width, width, 1201) + t for t in threshold[1:]]
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    p = np.concatenate(law(larger, covariances[0]))
    q = np.concatenate(law(smaller, covariances[1]))
    kept = (p > 1e-250) & (q > 1e-250)

    def renyi(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
        terms = order * np.log(one) + (1 - order) * np.log(two)
        return float(special.logsumexp(terms)) / (order - 1) / order

    return max(renyi(p[kept], q[kept]), renyi(q[kept], p[kept]))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.7, 2.0, 10.0])
@pytest.mark.parametrize("cut", [-1.0, 0.5, 2.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 8.0])
def test_what_is_shown_costs_no_more_than_rho(sigma: float, cut: float, order: float) -> None:
    b = matrix(SquareRoot(3))
    rho = ContinualNoise(SquareRoot(3), sigma, 1, 1).rho
    covariance = sigma**2 * b @ b.T
    threshold = 1 + cut * np.sqrt(np.diag(covariance))
    larger, smaller = np.array([1.0, 2.0, 2.0]), np.array([0.0, 1.0, 1.0])
    found = divergence_of_shown(larger, smaller, (covariance, covariance), threshold, order)
    assert found <= rho * (1 + 1e-6)


@pytest.mark.slow
def test_noise_that_begins_at_first_sight_would_be_caught() -> None:
    """The broken twin: the smaller neighbour's process starts at step 2, with other variances."""
    sigma = 30.0
    b = matrix(SquareRoot(3))
    rho = ContinualNoise(SquareRoot(3), sigma, 1, 1).rho
    covariance = sigma**2 * b @ b.T
    late = covariance.copy()
    late[1:, 1:] = sigma**2 * (b @ b.T)[:2, :2]
    late[0, 1:] = late[1:, 0] = 0
    threshold = 1 + 2.0 * np.sqrt(np.diag(covariance))
    larger, smaller = np.array([1.0, 2.0, 2.0]), np.array([0.0, 1.0, 1.0])
    right = divergence_of_shown(larger, smaller, (covariance, covariance), threshold, 2.0)
    assert right <= rho * (1 + 1e-6)
    wrong = divergence_of_shown(larger, smaller, (covariance, late), threshold, 2.0)
    assert wrong > 3 * rho


def exactly_ever_shown(histogram: ContinualHistogram) -> float:
    """P[one unit's own group is shown at step 1 or 2], by summing over the first draw."""
    noise, unit = histogram.noise, 1 << histogram.noise.factorisation.bits
    thresholds = histogram.thresholds()
    assert thresholds is not None
    q1, q2 = (int(t) - 1 for t in thresholds)  # its count is 1 at both steps
    gaussian = DiscreteGaussian(noise.sigma * unit)
    first, last = noise.factorisation.row(2).weights
    assert last == 1.0
    z = np.arange(-9 * math.ceil(gaussian.sigma), 9 * math.ceil(gaussian.sigma) + 1)
    shown = z + unit // 2 >= (q1 + 1) * unit
    # Of the second draw what is needed for round(first * z + z2) > q2.
    needed = np.ceil((q2 + 0.5) * unit - first * z).astype(np.int64)
    tails = np.array([gaussian.sf(int(n) - 1) for n in needed])
    return float(np.sum(gaussian.pmf(z) * np.where(shown, 1.0, tails)))


@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-5])
def test_a_group_of_one_unit_is_ever_shown_with_at_most_delta(delta: float) -> None:
    noise = ContinualNoise(SquareRoot(2, 10), 1.3, 1, 1)
    histogram = ContinualHistogram(noise, delta, 0)
    assert exactly_ever_shown(histogram) <= delta
    thresholds = histogram.thresholds()
    assert thresholds is not None
    for step, threshold in enumerate(thresholds, start=1):
        # No smaller threshold has the share of delta that the step was given, but for the lattice.
        spread = noise.sigma * noise.factorisation.row_norms()[step - 1]
        assert stats.norm.sf((threshold - 1 - 1 + 0.5) / spread) > delta / 2 * 0.9


def test_a_threshold_one_lower_would_be_caught() -> None:
    found = []
    for delta in np.geomspace(0.3, 1e-4, 12):
        histogram = ContinualHistogram(ContinualNoise(SquareRoot(1, 20), 1.3, 1, 1), delta, 0)
        thresholds = histogram.thresholds()
        assert thresholds is not None
        gaussian = DiscreteGaussian(1.3 * 2.0**20)
        for lower in (0, 1):  # shown iff round(z) > threshold - 1 - lower
            first = ((int(thresholds[0]) - 1 - lower) << 20) + (1 << 19)
            chance = gaussian.sf(first - 1)
            found.append((lower, chance <= delta))
    assert all(holds for lower, holds in found if lower == 0)
    assert not any(holds for lower, holds in found if lower == 1)


@pytest.mark.parametrize(
    ("steps", "first", "largest"),
    [(12, 117, 158), (52, 136, 207), (365, 161, 275), (1000, 174, 313)],
)
def test_thresholds_are_those_of_the_table(steps: int, first: int, largest: int) -> None:
    """epsilon 1, delta 1e-6 (half each), 10 groups for a unit."""
    histogram = continual_histogram_for_rho(RHO, 5e-7, SquareRoot(steps), groups=10, floor=0)
    thresholds = histogram.thresholds()
    assert thresholds is not None
    assert (int(thresholds[0]), int(thresholds.max())) == (first, largest)
    assert histogram.loss.delta == 5e-7
    assert histogram.loss.rho <= RHO


def test_thresholds_of_trees_are_much_higher() -> None:
    for steps, largest in ((365, 673), (1000, 800)):
        thresholds = continual_histogram_for_rho(
            RHO, 5e-7, best_tree(steps), groups=10, floor=0
        ).thresholds()
        assert thresholds is not None
        assert thresholds.max() == largest


def test_the_floor_and_the_sensitivity_raise_thresholds_by_themselves() -> None:
    noise = ContinualNoise(SquareRoot(5), 5.0, 1, 1)
    low = ContinualHistogram(noise, 1e-6, 0).thresholds()
    high = ContinualHistogram(noise, 1e-6, 9).thresholds()
    wide = ContinualHistogram(ContinualNoise(SquareRoot(5), 5.0, 1, 4), 1e-6, 0).thresholds()
    assert low is not None
    assert high is not None
    assert wide is not None
    assert (high - low).tolist() == [9] * 5
    assert (wide - low).tolist() == [3] * 5


def test_a_group_at_the_floor_is_never_shown_and_others_by_their_threshold() -> None:
    noise = ContinualNoise(SquareRoot(5), 5.0, 1, 1)
    histogram = ContinualHistogram(noise, 1e-2, 20)
    groups = [encode_group((str(i),)) for i in range(500)]
    exact = np.arange(500) // 10
    noisy = noise.add(3, exact, groups, KEYS)
    shown = histogram.shown(3, exact, noisy)
    thresholds = histogram.thresholds()
    assert thresholds is not None
    assert (shown == ((exact > 20) & (noisy > thresholds[2]))).all()
    assert 0 < shown.sum() < (exact > 20).sum()
    low = ContinualHistogram(noise, 1e-2, 0)
    assert low.shown(3, exact, noisy)[exact <= 20].sum() > 0


def test_declared_groups_are_all_shown_and_cost_no_delta() -> None:
    histogram = ContinualHistogram(ContinualNoise(SquareRoot(5), 5.0, 2, 1))
    zeros = np.zeros(3, dtype=np.int64)
    noisy = histogram.noise.add(5, zeros, [b"a", b"b", b"c"], KEYS)
    assert histogram.shown(5, zeros, noisy).all()
    assert noisy.dtype == np.int64
    assert histogram.loss == PrivacyLoss(histogram.noise.rho, 0.0)
    assert histogram.thresholds() is None


def test_one_publication_divides_delta_between_noise_and_thresholds() -> None:
    histogram = continual_histogram_once(1.0, 1e-6, SquareRoot(52), groups=10, floor=0)
    assert histogram.delta == 5e-7
    assert gaussian_delta(1.0, math.sqrt(histogram.noise.distance_squared)) <= 5e-7
    through_zcdp = continual_histogram_for_rho(RHO, 5e-7, SquareRoot(52), groups=10, floor=0)
    assert histogram.std(52) < through_zcdp.std(52)


# -- tails ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1.3, 20.0])
@pytest.mark.parametrize("p", [0.4, 0.025, 1e-6, 1e-12])
def test_tails_of_the_rounded_noise_hold_and_are_tight(sigma: float, p: float) -> None:
    """At the first step, where the law of one draw is known exactly."""
    bits = 12
    quantile = int(ContinualNoise(SquareRoot(3, bits), sigma, 1, 1).quantiles_sf(p)[0])
    exact = DiscreteGaussian(sigma * 2.0**bits)
    half = 1 << (bits - 1)
    # round(z) > q iff z >= (q + 1/2) steps of the lattice.
    assert exact.sf((quantile << bits) + half - 1) <= p
    assert exact.sf(((quantile - 1) << bits) + half - 1) > p * 0.9


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, -1.0, math.nan])
def test_a_tail_out_of_range_is_refused(p: float) -> None:
    with pytest.raises(ParameterError):
        ContinualNoise(SquareRoot(3), 5.0, 1, 1).quantiles_sf(p)


@pytest.mark.slow
@pytest.mark.parametrize(
    "factorisation", [SquareRoot(100), best_tree(100), TreeFromBelow(100)], ids=repr
)
def test_margins_cover(factorisation: Factorisation) -> None:
    noise = ContinualNoise(factorisation, 4.0, 1, 1)
    groups = [encode_group((str(i),)) for i in range(5000)]
    for step in (1, 15, 63, 100):
        drawn = noise.add(step, np.zeros(5000, dtype=np.int64), groups, KEYS)
        covered = float(np.mean(np.abs(drawn) <= noise.margin(step, 0.95)))
        assert 0.95 - 6.5 * 0.0031 < covered < 0.97 + 6.5 * 0.0031
        assert drawn.std() == pytest.approx(noise.std(step), rel=6.5 / 100)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "about"), [(0.2, 0.092), (0.05, 0.0265)])
def test_a_group_of_one_unit_is_ever_shown_as_rarely_as_computed(
    delta: float, about: float
) -> None:
    """The shipped code over a whole stream, each group's one unit there from the first step."""
    noise = ContinualNoise(SquareRoot(365), 2.0, 1, 1)
    histogram = ContinualHistogram(noise, delta, 0)
    groups = [encode_group((str(i),)) for i in range(1500)]
    exact = np.ones(len(groups), dtype=np.int64)
    ever = np.zeros(len(groups), dtype=np.bool_)
    draws = KeyedNoise(step_keys(365), "units", 2.0, noise.factorisation).draws
    z = draws.draw(groups, np.arange(365))
    for step in range(1, 366):
        noisy = exact + rounded_products(noise.factorisation, step, z[:, :step])
        ever |= histogram.shown(step, exact, noisy)
    share = float(ever.mean())
    assert share <= delta
    assert share == pytest.approx(about, abs=6.5 * math.sqrt(about / len(groups)))


@pytest.mark.parametrize(
    "build",
    [
        lambda: ContinualNoise(SquareRoot(5), 1.0, 0, 1),
        lambda: ContinualNoise(SquareRoot(5), 1.0, 1, 0),
        lambda: ContinualNoise(SquareRoot(5), 1e-9, 1, 1),
        lambda: ContinualNoise(SquareRoot(5), math.nan, 1, 1),
        lambda: ContinualNoise(SquareRoot(5), 1.0, 1, 1).add(0, NOTHING, [], KEYS),
        lambda: ContinualNoise(SquareRoot(5), 1.0, 1, 1).add(6, NOTHING, [], KEYS),
        lambda: ContinualNoise(SquareRoot(5), 1.0, 1, 1).std(6),
        lambda: ContinualHistogram(ContinualNoise(SquareRoot(5), 1.0, 1, 1), 0.0, 0),
        lambda: ContinualHistogram(ContinualNoise(SquareRoot(5), 1.0, 1, 1), 0.1, None),
        lambda: ContinualHistogram(ContinualNoise(SquareRoot(5), 1.0, 1, 1), 0.1, -1),
        lambda: continual_noise_for_rho(0.0, SquareRoot(5), 1, 1),
        lambda: continual_noise_for_rho(1e-9, SquareRoot(5), 10**9, 10**9),
    ],
)
def test_parameters_out_of_range_are_refused(build: object) -> None:
    with pytest.raises(ParameterError):
        build()  # type: ignore[operator]


def test_every_toeplitz_begins_with_one() -> None:
    """The first step of a stream is a single answer plus what C costs, for any shape."""
    for factorisation in (SquareRoot(9), SlidingWindow(9, 4)):
        assert isinstance(factorisation, Toeplitz)
        assert factorisation.row_norms()[0] == pytest.approx(1.0)


def told_apart_by_reacting(epsilon: float, for_noise: float, for_names: float) -> list[float]:
    """The delta of a stream that goes on as its first answer tells, or in one of both ways.

    A unit has ten groups. Three are others', too, from step 1 on. The other seven are from step 2
    on, or stay the unit's own to the end.
    """
    steps, groups, others = 100, 10, 3
    column = np.array([special.binom(2 * k, k) / 4.0**k for k in range(steps)]) ** 2
    each = one_shot_distance(epsilon, for_noise) / groups / column.sum()
    first, rest = others * each * column[0], others * each * column[1:].sum()
    joined = rest + (groups - others) * each * column[:-1].sum()
    shown = -math.expm1((groups - others) / groups * (steps - 1) / steps * math.log1p(-for_names))
    x = math.sqrt(first) + np.linspace(-9.0, 9.0, 8_001)
    density = np.exp(-((x - math.sqrt(first)) ** 2) / 2) / math.sqrt(2 * math.pi)
    weights, left = density * (x[1] - x[0]), epsilon - math.sqrt(first) * x + first / 2
    with_others = gaussian_deltas(left, np.full(len(x), math.sqrt(joined)))
    hidden = gaussian_deltas(left - math.log1p(-shown), np.full(len(x), math.sqrt(rest)))
    alone = shown + (1 - shown) * hidden
    courses = (np.maximum(with_others, alone), with_others, alone)
    return [float(weights @ course) for course in courses]


def test_noise_and_names_need_a_delta_each_in_streams_that_react() -> None:
    delta = 1e-6
    reacting, *fixed = told_apart_by_reacting(1.0, delta, delta)
    assert max(fixed) <= delta
    assert reacting > 1.3 * delta
    assert told_apart_by_reacting(1.0, delta / 2, delta / 2)[0] <= delta
