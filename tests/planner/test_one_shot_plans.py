"""Every option for a single publication keeps its block's (epsilon, delta), by a second opinion.

The delta of a plan is computed here from nothing but what would be drawn and what the rewriting
enforces: scales, threshold, groups that a unit keeps. How the planner shared the budget is not
looked at, so noise made for another share, another sensitivity or another bound is noticed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.laws import log_pmf, tail
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special

from dpsql.errors import Error
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, Bounding, NoisyMeasure
from dpsql.ir.query import Block
from dpsql.planner import plan_block
from dpsql.planner.budget import QueryBudget
from dpsql.planner.histograms import histogram_options
from dpsql.planner.known_domain import known_domain_options
from dpsql.planner.option import Option
from dpsql.planner.topk import top_k_options
from dpsql.policy.parameters import COUNT_LIMITS, DELTA_LIMITS, EPSILON_LIMITS, Parameters
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import (
    Additive,
    CorrelatedGaussian,
    IndependentNoise,
    correlated_gaussian,
    gaussian,
    laplace,
    one_shot_distance,
)
from dpsql.privacy.mechanisms.calibration import LATTICE_VARIANCE
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian, elliptic_gaussian
from dpsql.privacy.mechanisms.histogram import KnownDomain, PositiveCounts
from dpsql.privacy.mechanisms.sparse_histogram import SparseHistogram, sparse_histogram
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

Array = NDArray[np.float64]
Noise = tuple[Additive, int]  # and the steps by which a unit moves the value of a group
ROUNDING = 1e-6  # relative; the conversion from zCDP is only found so closely here


# -- what a unit can do -----------------------------------------------------------------------


def steps(measure: Measure, rows: int) -> int:
    """How far ``rows`` rows move a measure, from its definition."""
    if measure.kind is MeasureKind.UNITS:
        return 1
    lattice = measure.lattice
    if lattice is None:
        return rows
    middle = 0 if measure.kind is MeasureKind.SUM else (lattice.low + lattice.high) // 2
    fine = rows * max(abs(lattice.low - middle), abs(lattice.high - middle))
    return max(1, fine) if lattice.coarsening == 1 else fine // lattice.coarsening + 1


def may_fall(measure: Measure) -> bool:
    if measure.kind is MeasureKind.SUM:
        assert measure.lattice is not None
        return measure.lattice.low < 0
    return measure.kind is MeasureKind.CENTERED_SUM


def released(plan: BlockPlan) -> float:
    """The most groups that can come out."""
    if isinstance(plan.selection, KnownDomain):
        return plan.block.domain_size
    top_k = plan.block.top_k
    return top_k.limit if top_k and isinstance(plan.selection, GumbelTopK) else math.inf


def touched(plan: BlockPlan) -> int:
    """How many of the released groups one unit changes, as the rewriting enforces it."""
    kept = math.inf if plan.bounding is None else plan.bounding.kept
    return int(min(kept, released(plan)))


def noises(plan: BlockPlan) -> list[Noise]:
    """The noise on every released value; a score's is that of the selection."""
    rows = plan.block.parameters.rows_limit
    found = []
    for index, noisy in enumerate(plan.measures):
        noise = noisy.noise
        if noise is None:
            assert index == plan.score
            assert not isinstance(plan.selection, KnownDomain | GumbelTopK)
            noise = plan.selection.score_noise
            assert noise is not None
        found.append((noise, steps(noisy.measure, rows)))
    return found


def named(plan: BlockPlan) -> float:
    """P[a group is named that one unit lifts to the minimum of units]."""
    selection = plan.selection
    if isinstance(selection, KnownDomain):
        return 0.0
    assert isinstance(selection, PositiveCounts | SparseHistogram)
    return tail(selection.score_noise.noise, selection.threshold - minimum(plan))


def minimum(plan: BlockPlan) -> int:
    return plan.block.parameters.min_units_per_group


# -- the second opinion -----------------------------------------------------------------------


def delta_of(plan: BlockPlan) -> float:
    """An upper bound on the delta of a plan at its epsilon: the least of those that apply."""
    if unfit_for_correlation(plan):
        return 1.0
    epsilon = plan.block.parameters.epsilon
    groups, drawn = touched(plan), noises(plan)
    if isinstance(plan.selection, GumbelTopK | GaussianTopK):
        values = zip(drawn, plan.measures, strict=True)
        rho = sum(rho_of(noise, plan) for noise, noisy in values if noisy.noise is not None)
        return plan.selection.delta + converted(epsilon, rho + plan.selection.rho(None))
    fresh = -math.expm1(groups * math.log1p(-named(plan)))
    bounds = [fresh + converted(epsilon, sum(rho_of(noise, plan) for noise in drawn))]
    kinds = {type(noise.noise) for noise, _ in drawn if isinstance(noise, IndependentNoise)}
    correlated = any(isinstance(noise, CorrelatedGaussian | EllipticGaussian) for noise, _ in drawn)
    if kinds == {DiscreteLaplace} and not correlated:
        pure = sum(groups * step / noise.scale for noise, step in drawn)
        bounds.append(fresh if pure <= epsilon * (1 + 1e-9) else 1.0)
    if DiscreteLaplace not in kinds:
        bounds.append(exact_delta(plan, groups, drawn))
    return min(bounds)


def unfit_for_correlation(plan: BlockPlan) -> bool:
    """Correlated noise is for values of all released groups, none of which a unit can lower.

    How many groups these are decides how large it is, so something must limit them.
    """
    return any(
        isinstance(noisy.noise, CorrelatedGaussian | EllipticGaussian)
        and (may_fall(noisy.measure) or math.isinf(released(plan)))
        for noisy in plan.measures
    )


def correlated_parts(noise: CorrelatedGaussian, plan: BlockPlan) -> tuple[int, float, float]:
    """How many groups share the noise, and the variances of their own and the shared draws."""
    groups = int(released(plan))
    own, shared = noise._parts(groups)
    return groups, own.sigma**2, shared.sigma**2


def elliptic_squared(drawn: Noise, plan: BlockPlan, raised: int, less: float) -> float:
    """The squared Mahalanobis length of the worst rise of so many values, and of its rounding."""
    noise, step = drawn
    assert isinstance(noise, EllipticGaussian)
    own, shared = (
        max(1e-300, (noise.fineness * part) ** 2 - less) for part in (noise.sigma, noise.shared)
    )
    size = int(released(plan))
    assert size <= noise.of, "more values than the noise was made for"
    inverse = np.linalg.inv(own * np.eye(size) + shared * np.ones((size, size)))
    corners = [inverse[:j, :j].sum() for j in range(1, raised + 1)]
    return float((noise.fineness * step) ** 2 * max(corners) + (1 / shared + size / own) / 4)


def rho_of(drawn: Noise, plan: BlockPlan) -> float:
    noise, step = drawn
    if isinstance(noise, EllipticGaussian):
        return elliptic_squared(drawn, plan, touched(plan), 0.0) / 2
    if isinstance(noise, CorrelatedGaussian):
        groups, own, shared = correlated_parts(noise, plan)
        return step**2 * (groups / own + 1 / shared) / 2
    groups = touched(plan)
    assert isinstance(noise, IndependentNoise)
    if isinstance(noise.noise, DiscreteGaussian):
        return groups * step**2 / (2 * noise.scale**2)
    q = math.exp(-1 / noise.scale)
    return groups / noise.scale * (step - 2 * q * (1 - q**step) / (1 - q * q))


def converted(epsilon: float, rho: float) -> float:
    """The delta of rho-zCDP at epsilon, by the best order (Canonne, Kamath & Steinke 2020)."""
    if rho == 0:
        return 0.0

    def log_delta(x: float) -> float:
        a = math.exp(x)  # the order less 1
        return a * ((a + 1) * rho - epsilon) - (a + 1) * math.log1p(1 / a) - math.log(a)

    grid = np.linspace(-12, 12, 600)
    best = float(min(grid, key=log_delta))
    found = optimize.minimize_scalar(log_delta, bounds=(best - 0.1, best + 0.1), method="bounded")
    return math.exp(min(0.0, float(found.fun)))


def exact_delta(plan: BlockPlan, groups: int, drawn: list[Noise]) -> float:
    """Lemma 2.7 of Lebeda & Retschmeier 2024, one division into old and fresh after the other."""
    epsilon = plan.block.parameters.epsilon
    log_hidden = math.log1p(-named(plan))
    alone = lattice(plan)
    curve = lattice_curve(drawn[0][0].scale, groups) if alone else smooth_curve(plan, drawn)
    oldest = groups if isinstance(plan.selection, KnownDomain) else 1
    worst = -math.expm1(groups * log_hidden)
    for old in range(oldest, groups + 1):
        log_psi = (groups - old) * log_hidden
        with_unit = -math.expm1(log_psi) + math.exp(log_psi) * curve(epsilon - log_psi, old)
        worst = max(worst, with_unit, curve(epsilon + log_psi, old))
    return worst


def lattice(plan: BlockPlan) -> bool:
    """Unit counts alone are analysed as the integers they are."""
    return len(plan.measures) == 1 and not isinstance(plan.selection, KnownDomain)


def smooth_curve(plan: BlockPlan, drawn: list[Noise]) -> Callable[[float, int], float]:
    """The curve of continuous Gaussians with LATTICE_VARIANCE less, if ``old`` groups move."""

    def per_variance(variance: float) -> float:
        return 1 / (variance - LATTICE_VARIANCE) if variance > LATTICE_VARIANCE else math.inf

    def curve(epsilon: float, old: int) -> float:
        squared = 0.0
        for noise, step in drawn:
            if isinstance(noise, CorrelatedGaussian):
                groups, own, shared = correlated_parts(noise, plan)
                squared += step**2 * (groups * per_variance(own) + per_variance(shared))
            elif isinstance(noise, EllipticGaussian):
                squared += elliptic_squared((noise, step), plan, old, LATTICE_VARIANCE)
            else:
                squared += step**2 * old * per_variance(noise.scale**2)
        d = math.sqrt(squared)
        if math.isinf(d):
            return 1.0
        beyond = math.exp(epsilon + special.log_ndtr(-d / 2 - epsilon / d))
        return float(special.ndtr(d / 2 - epsilon / d)) - beyond

    return curve


def lattice_curve(sigma: float, groups: int) -> Callable[[float, int], float]:
    """The curve of sums of discrete Gaussians that each move by 1."""
    reach = math.ceil(9 * sigma) + 2
    law = np.exp(log_pmf(DiscreteGaussian(sigma), np.arange(-reach, reach + 1)))
    sums = [np.ones(1)]
    for _ in range(groups):
        sums.append(np.convolve(sums[-1], law))

    def curve(epsilon: float, old: int) -> float:
        gap = np.zeros(old)
        one, other = np.append(sums[old], gap), np.append(gap, sums[old])
        return float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())

    return curve


# -- random blocks ----------------------------------------------------------------------------


def spread(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


@st.composite
def blocks(draw: st.DrawFn, shape: str) -> Block:
    domain = draw(st.integers(1, 40)) if shape == "declared keys" else None
    parameters = Parameters(
        epsilon=draw(spread(0.05, 8.0)),
        delta=draw(spread(1e-9, 0.2)),
        max_groups_contributed=draw(
            st.one_of(st.none(), st.integers(1, 9)) if domain else st.integers(1, 9)
        ),
        max_rows_contributed=draw(st.sampled_from([1, 2, 7, 1000])),
        k_bar=draw(st.integers(1, 300)),
        min_units_per_group=draw(st.sampled_from([1, 1, 4])),
        left_out_share=0.0,
    )
    available = [
        UNITS,
        ROWS,
        summed(parameters, 0, 100),
        summed(parameters, -50, 10**9),
        summed(parameters, 0, 7, centered=True),
    ]
    measures = draw(st.lists(st.sampled_from(available), min_size=1, max_size=4, unique=True))
    limit = None
    if shape == "top-k":
        measures.sort(key=may_fall)
        limit = draw(st.integers(1, 50)) if not may_fall(measures[0]) else None
    return block(parameters, *measures, domain=domain, limit=limit)


def options_of(b: Block) -> list[Option]:
    """What can be planned, of the mechanisms that are judged here."""
    budget = QueryBudget.of(b.parameters, Composition.BASIC)
    found = known_domain_options(b, budget) if b.known_domain else histogram_options(b, budget)
    if b.top_k is not None:
        found = [*top_k_options(b, b.top_k, budget), *found]
    return [o for o in found if o.plan is not None and isinstance(o.plan.selection, JUDGED)]


def judged(b: Block) -> list[str]:
    """The mechanisms of the options, each of which has been found to keep the block's delta."""
    for o in (found := options_of(b)):
        assert o.plan is not None
        assert delta_of(o.plan) <= b.parameters.delta * (1 + ROUNDING)
    return [o.mechanism for o in found]


JUDGED = (KnownDomain, PositiveCounts, SparseHistogram, GaussianTopK, GumbelTopK)
SHAPES = ["declared keys", "unknown keys", "top-k"]


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_option_keeps_the_delta_of_its_block(shape: str, data: st.DataObject) -> None:
    assert judged(data.draw(blocks(shape)))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_of_many_blocks_every_option_keeps_the_delta(shape: str, data: st.DataObject) -> None:
    assert judged(data.draw(blocks(shape)))


def test_all_mechanisms_of_a_single_publication_are_judged() -> None:
    limited = block(replace(USUAL, min_units_per_group=1), UNITS, SUM, limit=5)
    assert judged(DECLARED) == ["known_domain"] * 6
    assert set(judged(limited)) >= {
        "gaussian_positive_counts",
        "laplace_positive_counts",
        "gaussian_sparse_histogram",
        "gaussian_top_k",
        "gumbel_top_k",
    }


@pytest.mark.parametrize("rows", [1, COUNT_LIMITS[1]])
@pytest.mark.parametrize("groups", [1, 10_000, COUNT_LIMITS[1]])
def test_no_publication_is_refused_where_a_query_of_a_session_is_answered(
    rows: int, groups: int
) -> None:
    """Noise of one kind may be out of range where that of another is not."""
    answered = 0
    for epsilon, delta in itertools.product((*EPSILON_LIMITS, 1.0), (*DELTA_LIMITS, 1e-6)):
        parameters = Parameters(epsilon, delta, groups, rows, left_out_share=0.0)
        value = summed(parameters, 0, 10**9)
        for domain, measures in itertools.product(
            (None, 1, 3000), ((UNITS,), (UNITS, ROWS, value))
        ):
            b = block(parameters, *measures, domain=domain)
            try:
                plan_block(b)
            except Error:
                continue
            answered += plan_block(b, composition=Composition.BASIC).one_shot is not None
    assert answered >= 20


# -- broken twins -----------------------------------------------------------------------------

EPSILON, DELTA = 0.4, 1e-4
USUAL = Parameters(
    epsilon=EPSILON,
    delta=DELTA,
    max_groups_contributed=4,
    max_rows_contributed=3,
    min_units_per_group=25,
    left_out_share=0.0,
)
EVERY = replace(USUAL, min_units_per_group=1)  # with a minimum, units are measured as well
FREE = replace(EVERY, max_groups_contributed=None)
SUM = summed(USUAL, 0, 100)
COUNTED = block(USUAL, UNITS, SUM)
DECLARED = block(EVERY, ROWS, SUM, domain=9)
LARGE_ONES = block(USUAL, ROWS, SUM, domain=9)
FREELY = block(FREE, ROWS, SUM, domain=9)
FALLING = block(FREE, summed(FREE, -100, 100), domain=9)
WHOLE = one_shot_distance(EPSILON, DELTA)
Broken = Callable[[BlockPlan], BlockPlan]


def option(b: Block, mechanism: str, variant: str = "") -> BlockPlan:
    """The option of that name whose variant ends so."""
    found = [o for o in options_of(b) if o.mechanism == mechanism and o.variant.endswith(variant)]
    plan = found[0].plan
    assert plan is not None
    return plan


def with_noise(plan: BlockPlan, *noise: Additive | None) -> BlockPlan:
    measures = zip(plan.measures, noise, strict=True)
    return replace(plan, measures=tuple(NoisyMeasure(m.measure, n) for m, n in measures))


def counts_forget_the_sum(plan: BlockPlan) -> BlockPlan:
    return replace(plan, selection=sparse_histogram(EPSILON, DELTA, 4, 24))


def sum_takes_it_all(plan: BlockPlan) -> BlockPlan:
    return with_noise(plan, None, gaussian(PrivacyLoss(WHOLE / 2, gaussian=True), 300, 4))


def sum_for_one_group(plan: BlockPlan) -> BlockPlan:
    assert isinstance(plan.selection, SparseHistogram)
    return with_noise(
        plan, None, gaussian(PrivacyLoss((4 * plan.selection.others) / 2, gaussian=True), 300, 1)
    )


def sum_for_one_row(plan: BlockPlan) -> BlockPlan:
    assert isinstance(plan.selection, SparseHistogram)
    return with_noise(
        plan, None, gaussian(PrivacyLoss((4 * plan.selection.others) / 2, gaussian=True), 100, 4)
    )


def no_floor(plan: BlockPlan) -> BlockPlan:
    assert isinstance(plan.selection, SparseHistogram | PositiveCounts)
    return replace(plan, selection=replace(plan.selection, floor=0))


def more_kept(plan: BlockPlan) -> BlockPlan:
    return replace(plan, bounding=Bounding(4, 6))


def delta_twice(plan: BlockPlan) -> BlockPlan:
    """All of delta for naming groups, although the conversion has spent a part of it."""
    assert isinstance(plan.selection, PositiveCounts)
    return replace(plan, selection=replace(plan.selection, delta=DELTA))


def pure_sum_takes_it_all(plan: BlockPlan) -> BlockPlan:
    return with_noise(plan, None, laplace(PrivacyLoss(epsilon=EPSILON), 300, 4))


def declared_unshared(plan: BlockPlan) -> BlockPlan:
    return with_noise(
        plan,
        gaussian(PrivacyLoss(WHOLE / 2, gaussian=True), 3, 4),
        gaussian(PrivacyLoss(WHOLE / 2, gaussian=True), 300, 4),
    )


def declared_pure_unshared(plan: BlockPlan) -> BlockPlan:
    return with_noise(
        plan,
        laplace(PrivacyLoss(epsilon=EPSILON), 3, 4),
        laplace(PrivacyLoss(epsilon=EPSILON), 300, 4),
    )


def units_for_nothing(plan: BlockPlan) -> BlockPlan:
    """What decides which groups are large enough is a third thing that noise is added to."""
    assert len(plan.measures) == 3
    rows, total, units = ((WHOLE / 2, 3), (WHOLE / 2, 300), (WHOLE / 3, 1))
    return with_noise(
        plan, *(gaussian(PrivacyLoss(d / 2, gaussian=True), s, 4) for d, s in (rows, total, units))
    )


def no_cap(plan: BlockPlan) -> BlockPlan:
    return replace(plan, bounding=None)


def correlated_though_it_may_fall(plan: BlockPlan) -> BlockPlan:
    return with_noise(plan, correlated_gaussian(PrivacyLoss(WHOLE / 2, gaussian=True), 300, 9))


def correlated_for_fewer(plan: BlockPlan) -> BlockPlan:
    share = WHOLE / 2
    return with_noise(
        plan, *(correlated_gaussian(PrivacyLoss(share / 2, gaussian=True), s, 4) for s in (3, 300))
    )


def elliptic_for_fewer(plan: BlockPlan) -> BlockPlan:
    """Made for units that have two groups, where they keep four."""
    found = elliptic_gaussian(PrivacyLoss((WHOLE / 2) / 2, gaussian=True), 3, 2, 9)
    other = elliptic_gaussian(PrivacyLoss((WHOLE / 2) / 2, gaussian=True), 300, 2, 9)
    assert found is not None
    assert other is not None
    return with_noise(plan, found, other)


def elliptic_though_it_may_fall(plan: BlockPlan) -> BlockPlan:
    found = elliptic_gaussian(PrivacyLoss(WHOLE / 2, gaussian=True), 300, 4, 9)
    assert found is not None
    return with_noise(plan, found)


TWINS: list[tuple[Block, str, str, Broken]] = [
    (COUNTED, "gaussian_sparse_histogram", "", counts_forget_the_sum),
    (COUNTED, "gaussian_sparse_histogram", "", sum_takes_it_all),
    (COUNTED, "gaussian_sparse_histogram", "", sum_for_one_group),
    (COUNTED, "gaussian_sparse_histogram", "", sum_for_one_row),
    (COUNTED, "gaussian_sparse_histogram", "", no_floor),
    (COUNTED, "gaussian_sparse_histogram", "", more_kept),
    (COUNTED, "laplace_positive_counts", "", delta_twice),
    (COUNTED, "gaussian_positive_counts", "", no_floor),
    (COUNTED, "gaussian_positive_counts", "", more_kept),
    (COUNTED, "laplace_positive_counts", "pure epsilon", pure_sum_takes_it_all),
    (COUNTED, "laplace_positive_counts", "pure epsilon", more_kept),
    (DECLARED, "known_domain", "4 groups per unit, exact Gaussian", declared_unshared),
    (DECLARED, "known_domain", "4 groups per unit, exact Gaussian", no_cap),
    (DECLARED, "known_domain", "4 groups per unit, Laplace", declared_pure_unshared),
    (LARGE_ONES, "known_domain", "4 groups per unit, exact Gaussian", units_for_nothing),
    (FREELY, "known_domain", "exact Gaussian", correlated_for_fewer),
    (FALLING, "known_domain", "exact Gaussian", correlated_though_it_may_fall),
    (DECLARED, "known_domain", "4 groups per unit, exact Gaussian", elliptic_for_fewer),
    (FALLING, "known_domain", "exact Gaussian", elliptic_though_it_may_fall),
]


@pytest.mark.parametrize(
    ("b", "mechanism", "variant", "broken"),
    TWINS,
    ids=[f"{mechanism}-{broken.__name__}" for _, mechanism, _, broken in TWINS],
)
def test_the_second_opinion_notices_a_plan_made_for_something_else(
    b: Block, mechanism: str, variant: str, broken: Broken
) -> None:
    plan = option(b, mechanism, variant)
    assert delta_of(plan) <= DELTA * (1 + ROUNDING)
    assert delta_of(broken(plan)) > 1.2 * DELTA


@pytest.mark.parametrize("b", [DECLARED, FREELY, FALLING], ids=["capped", "free", "falling"])
def test_exact_noise_on_declared_keys_spends_nearly_all_of_delta(b: Block) -> None:
    """So the second opinion is not lenient, and the planner wastes nothing."""
    assert 0.9 * DELTA <= delta_of(option(b, "known_domain", "exact Gaussian")) <= DELTA
