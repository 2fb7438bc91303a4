"""The calculator: reference values, figures that keep what they promise, and clear refusals."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.laws import apart, neighbours, positive_counts_law
from helpers.one_shot import one_shot_delta
from numpy.typing import NDArray
from scipy import special, stats

from dpsql.interfaces import cli
from dpsql.privacy.accounting.composition import compare
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import PrivacyLoss, epsilon_from_zcdp, rho_from_epsilon
from dpsql.privacy.calculator import CALCULATIONS
from dpsql.privacy.calculator.registry import MECHANISMS
from dpsql.privacy.calculator.request import SIZES, flag
from dpsql.privacy.mechanisms.additive import IndependentNoise
from dpsql.privacy.mechanisms.calibration import lattice_gaussian_delta
from dpsql.privacy.mechanisms.correlated_histogram import CorrelatedAnalysis, correlated_delta
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK, fresh_released
from dpsql.privacy.mechanisms.histogram import PositiveCounts
from dpsql.privacy.mechanisms.known_topk import known_domain_top_k
from dpsql.privacy.mechanisms.sparse_histogram import (
    DeltaAnalysis,
    sparse_histogram_delta,
    sparse_histogram_lattice_delta,
)
from dpsql.privacy.mechanisms.topk_laplace import FixedThreshold, overtaking_delta
from dpsql.privacy.mechanisms.weighted_histogram import Weights, weighted_histogram_delta
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

Answer = dict[str, Any]
EPSILON, DELTA, RHO = 0.8, 1e-6, 0.01

SIZES_ASKED = {"k": 5, "groups": 7, "k_bar": 40, "domain": 50, "sensitivity": 3}
ELLIPTIC_SIZES = {"k": 24}  # a unit has some of the groups


def run(text: str) -> Any:
    return CliRunner().invoke(cli.cli, ["calibrate", *shlex.split(text)])


def ask(text: str) -> Answer:
    result = run(f"{text} --format json")
    assert result.exit_code == 0, result.output
    answer: Answer = json.loads(result.stdout)
    return answer


def sized(name: str) -> str:
    """A mechanism with every size it takes."""
    (mechanism,) = (m for m in MECHANISMS if m.name == name)
    sizes = (*mechanism.takes, *mechanism.may_take)
    return " ".join([name, *(f"{flag(size)} {asked_of(name)[size]}" for size in sizes)])


def asked_of(name: str) -> dict[str, int]:
    return SIZES_ASKED | ELLIPTIC_SIZES if name.startswith("elliptic") else SIZES_ASKED


def one_shot(name: str, analysis: str) -> Answer:
    delta = "" if analysis == "pure" else f"--delta {DELTA}"
    return ask(f"{sized(name)} --epsilon {EPSILON} {delta} --analysis {analysis}")


def in_zcdp(name: str) -> Answer:
    return ask(f"{sized(name)} --rho {RHO} --delta {DELTA}")


ONE_SHOT = [(m.name, analysis) for m in MECHANISMS for analysis in m.one_shot]
ZCDP = [m.name for m in MECHANISMS if m.zcdp is not None]


# -- reference values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [(1, 1e-6, 0.02436), (0.5, 1e-6, 0.00664), (5, 1e-6, 0.46306), (1, 1e-9, 0.01497)],
)
def test_rho_and_epsilon_convert_tightly_both_ways(
    epsilon: float, delta: float, rho: float
) -> None:
    forth = ask(f"rho --epsilon {epsilon} --delta {delta}")
    assert forth["rho"] == pytest.approx(rho, rel=0.005)
    back = ask(f"rho --rho {forth['rho']!r} --delta {delta}")
    assert back["epsilon"] == pytest.approx(epsilon, rel=1e-9)
    assert back["epsilon"] <= epsilon < back["epsilon_simple"]
    assert back["epsilon_gaussian"] < back["epsilon"]


def test_composition_lists_what_every_theorem_says() -> None:
    answer = ask("composition --epsilon 0.1 --queries 100 --delta 1e-6")
    expected = {c.theorem: c.epsilon for c in compare(0.1, 100, 1e-6)}
    assert {c["theorem"]: c["epsilon"] for c in answer["composed"]} == expected
    assert expected["zcdp_tight"] < expected["basic"]


def test_the_paper_example_answers_at_once_in_words_and_figures() -> None:
    start = time.perf_counter()
    result = run("gshm --epsilon 0.35 --delta 1e-5 --k 51914 --analysis exact")
    assert result.exit_code == 0
    assert time.perf_counter() - start < 2
    for word in ("gaussian-sparse-histogram", "ε 0.35 at δ 1e-05", "exact", "13,914", "Lemma 2.7"):
        assert word in result.stdout
    assert "\x1b" not in result.stdout


# -- noise: what is stated is paid for, and hardly more ---------------------------------------


def gaussian_rho(answer: Answer, shrink: float, changes: float) -> float:
    scale: float = answer["drawn"]["scale"] * shrink
    return changes / (2 * scale**2)


def correlated_rho(answer: Answer, shrink: float, groups: int, shared: int) -> float:
    sigma: float = answer["drawn"]["scale"] * shrink
    step: int = answer["parameters"].get("sensitivity", 1)
    return step**2 * (groups + shared * math.sqrt(groups)) / (8 * sigma**2)


def elliptic_distance(answer: Answer, shrink: float) -> float:
    """The squared Mahalanobis length of 7 rises among 24 values."""
    own = answer["drawn"]["scale"] ** 2
    shared = answer["drawn"]["std"] ** 2 - own
    inverse = np.linalg.inv(own * np.eye(24) + shared * np.ones((24, 24)))
    return float(3**2 * max(inverse[:j, :j].sum() for j in range(1, 8)) / shrink**2)


def laplace_rho(scale: float, shift: int) -> float:
    """The mean privacy loss of discrete Laplace noise moved by ``shift``, summed up."""
    z = np.arange(-math.ceil(50 * scale), math.ceil(50 * scale) + 1)
    mass = np.exp(-np.abs(z) / scale)
    return float(mass @ (np.abs(z + shift) - np.abs(z)) / mass.sum() / scale)


def continuous_laplace_rho(scale: float) -> float:
    return 1 / scale + math.expm1(-1 / scale)


# From the scale alone, with other formulas than the mechanisms use.
RHO_OF: dict[str, Callable[[Answer, float], float]] = {
    "laplace-known-domain": lambda a, c: 7 * laplace_rho(a["drawn"]["scale"] * c, 3),
    "gaussian-known-domain": lambda a, c: gaussian_rho(a, c, 7 * 3**2),
    "correlated-gaussian-known-domain": lambda a, c: correlated_rho(a, c, 7, 1),
    "elliptic-gaussian-known-domain": lambda a, c: elliptic_distance(a, c) / 2,
    "laplace-positive-counts": lambda a, c: 7 * laplace_rho(a["drawn"]["scale"] * c, 1),
    "gaussian-positive-counts": lambda a, c: gaussian_rho(a, c, 7),
    "weighted-gaussian-positive-counts": lambda a, c: gaussian_rho(a, c, 7),
    "gaussian-top-k": lambda a, c: gaussian_rho(a, c, 7 * 3**2),
    "known-domain-top-k": lambda a, c: 5 * (3 / (a["drawn"]["scale"] * c)) ** 2 / 8,
    "gumbel-top-k": lambda a, c: 5 * (3 / (a["drawn"]["scale"] * c)) ** 2 / 8,
    "gumbel-top-k-chosen-k-bar": lambda a, c: 6 * (3 / (a["drawn"]["scale"] * c)) ** 2 / 8,
    "correlated-top-k": lambda a, c: correlated_rho(a, c, 40, 2),
    "count-laplace-set-union": lambda a, c: 7 * continuous_laplace_rho(a["drawn"]["scale"] * c),
    "count-gaussian-set-union": lambda a, c: gaussian_rho(a, c, 7),
    "weighted-laplace-set-union": lambda a, c: continuous_laplace_rho(a["drawn"]["scale"] * c),
    "weighted-gaussian-set-union": lambda a, c: gaussian_rho(a, c, 1),
    "policy-laplace-set-union": lambda a, c: continuous_laplace_rho(a["drawn"]["scale"] * c),
    "policy-gaussian-set-union": lambda a, c: gaussian_rho(a, c, 1),
}


@pytest.mark.parametrize("name", ZCDP)
def test_a_calibration_in_zcdp_spends_its_rho_and_no_more(name: str) -> None:
    answer = in_zcdp(name)
    assert answer["rho"] <= RHO
    assert RHO_OF[name](answer, 1.0) == pytest.approx(RHO, rel=2e-3)
    assert RHO_OF[name](answer, 0.98) > RHO  # two per cent less noise would cost too much


@pytest.mark.parametrize("name", ZCDP)
def test_an_epsilon_through_zcdp_is_kept_with_half_of_delta_for_the_threshold(name: str) -> None:
    answer = ask(f"{sized(name)} --epsilon {EPSILON} --delta {DELTA} --analysis zcdp")
    own = answer["rho_delta"]
    assert own in (0.0, DELTA / 2)
    assert answer["epsilon"] == epsilon_from_zcdp(answer["rho"], DELTA - own)
    assert answer["epsilon"] <= EPSILON
    assert answer["delta"] == DELTA
    assert answer["rho"] == pytest.approx(rho_from_epsilon(EPSILON, DELTA - own), rel=1e-3)
    assert ("delta/2 for the threshold" in answer["how"]) == (own > 0)


def gaussian_noise_delta(answer: Answer, shrink: float, changes: float) -> float:
    """The worse of the continuous noise and of what is drawn."""
    drawn = lattice_gaussian_delta(EPSILON, answer["drawn"]["scale"] * shrink, math.sqrt(changes))
    if answer["continuous"] is None:
        return drawn
    sigma = answer["continuous"]["scale"] * shrink
    return max(drawn, gaussian_delta(EPSILON, math.sqrt(changes) / sigma))


def correlated_noise_delta(answer: Answer, shrink: float) -> float:
    sigma = answer["continuous"]["scale"] * shrink
    return gaussian_delta(EPSILON, 3 * math.sqrt(7 + math.sqrt(7)) / 2 / sigma)


NOISE_DELTA: dict[str, Callable[[Answer, float], float]] = {
    "gaussian-known-domain": lambda a, c: gaussian_noise_delta(a, c, 7 * 3**2),
    "analytic-gaussian": lambda a, c: gaussian_noise_delta(a, c, 7 * 3**2),
    "correlated-gaussian-known-domain": correlated_noise_delta,
    "elliptic-gaussian-known-domain": lambda a, c: gaussian_delta(
        EPSILON, math.sqrt(elliptic_distance(a, c))
    ),
}
PURE_EPSILON: dict[str, Callable[[Answer], float]] = {
    "laplace-known-domain": lambda a: 7 * 3 / a["drawn"]["scale"],
    "laplace-positive-counts": lambda a: 7 / a["drawn"]["scale"],
    "laplace-top-k": lambda a: 7 / a["drawn"]["scale"],
    "count-laplace-set-union": lambda a: 7 / a["drawn"]["scale"],
    "weighted-laplace-set-union": lambda a: 1 / a["drawn"]["scale"],
    "policy-laplace-set-union": lambda a: 1 / a["drawn"]["scale"],
}


@pytest.mark.parametrize("name", NOISE_DELTA)
def test_gaussian_noise_keeps_epsilon_and_delta_and_a_hair_less_does_not(name: str) -> None:
    answer = one_shot(name, "exact")
    assert NOISE_DELTA[name](answer, 1.0) <= DELTA
    assert NOISE_DELTA[name](answer, 0.98) > DELTA


@pytest.mark.parametrize("name", PURE_EPSILON)
def test_laplace_noise_spends_epsilon_and_no_more(name: str) -> None:
    answer = one_shot(name, "pure" if name == "laplace-known-domain" else "exact")
    assert PURE_EPSILON[name](answer) <= EPSILON
    assert PURE_EPSILON[name](answer) == pytest.approx(EPSILON, rel=1e-9)


# -- thresholds: delta recomputed -------------------------------------------------------------


def lattice_tail(answer: Answer, threshold: float, steps: int = 1) -> float:
    """P[Z > threshold] for what is drawn."""
    scale = answer["drawn"]["scale"] * steps
    laplace = answer["drawn"]["parameter"] == "b"
    noise = DiscreteLaplace(scale) if laplace else DiscreteGaussian(scale)
    return noise.sf(math.floor(threshold * steps))


def one_of(groups: int, tail: float) -> float:
    return -math.expm1(groups * math.log1p(-tail))


def union_shown(weight: Callable[[int], float]) -> Callable[[Answer, float], float]:
    """The chance that one of t fresh items is named, for the worst t up to 7."""
    steps = 2**26

    def shown(answer: Answer, threshold: float) -> float:
        return max(
            one_of(
                t, lattice_tail(answer, threshold - math.floor(weight(t) * steps) / steps, steps)
            )
            for t in range(1, 8)
        )

    return shown


def weighted_shown(answer: Answer, threshold: float) -> float:
    steps = 2**16
    weights = {n: math.floor(min(1.0, math.sqrt(7 / n)) * steps) / steps for n in range(1, 50)}
    return max(
        one_of(n, lattice_tail(answer, threshold - weight, steps)) for n, weight in weights.items()
    )


def correlated_shown(answer: Answer, threshold: float) -> float:
    own, step = 2 * answer["drawn"]["scale"], answer["parameters"].get("sensitivity", 1)
    fresh = 40 * (1 if step == 1 else 2)
    limit = math.floor(2 * threshold) - 2 * step
    return fresh_released(own, own / 40**0.25, fresh, limit)


def difference_tail(answer: Answer, threshold: float) -> float:
    """P[Z - Z' > threshold] by summing the two laws."""
    noise = DiscreteGaussian(answer["drawn"]["scale"])
    z = np.arange(-12 * math.ceil(noise.sigma), 12 * math.ceil(noise.sigma) + 1)
    return sum(
        float(p) * noise.sf(math.floor(threshold) + int(x))
        for x, p in zip(z, noise.pmf(z), strict=True)
    )


def gumbel_shown(answer: Answer, threshold: float) -> float:
    """K fresh groups of score base + 3, each against the stopping symbol alone."""
    crossing: float = answer["crossing"]
    return crossing * math.exp((3 - threshold) / answer["drawn"]["scale"])


# The delta of the threshold, from the figures alone, by other code than what chose them.
SHOWN: dict[str, Callable[[Answer, float], float]] = {
    "laplace-positive-counts": lambda a, t: one_of(7, lattice_tail(a, t - 1)),
    "gaussian-positive-counts": lambda a, t: one_of(7, lattice_tail(a, t - 1)),
    "weighted-gaussian-positive-counts": weighted_shown,
    "gaussian-top-k": lambda a, t: 7 * difference_tail(a, t - 3),
    "gumbel-top-k": lambda a, t: gumbel_shown(a | {"crossing": 7}, t),
    "gumbel-top-k-chosen-k-bar": lambda a, t: gumbel_shown(a | {"crossing": 40}, t),
    "correlated-top-k": correlated_shown,
    "count-laplace-set-union": union_shown(lambda t: 1.0),
    "count-gaussian-set-union": union_shown(lambda t: 1.0),
    "weighted-laplace-set-union": union_shown(lambda t: 1 / t),
    "weighted-gaussian-set-union": union_shown(lambda t: 1 / math.sqrt(t)),
    "policy-laplace-set-union": union_shown(lambda t: 1 / t),
    "policy-gaussian-set-union": union_shown(lambda t: 1 / math.sqrt(t)),
}
THRESHOLDED = [name for name in ZCDP if "known-domain" not in name]


@pytest.mark.parametrize("name", THRESHOLDED)
def test_a_threshold_in_zcdp_hides_fresh_groups_and_a_lower_one_does_not(name: str) -> None:
    answer = in_zcdp(name)
    threshold = answer["drawn"]["threshold"]
    assert answer["rho_delta"] == DELTA
    assert SHOWN[name](answer, threshold) <= DELTA * (1 + 1e-9)
    assert SHOWN[name](answer, 0.98 * threshold) > DELTA


def set_union_delta(name: str) -> Callable[[Answer, float], float]:
    """Laplace noise leaves all of delta to the threshold, Gaussian noise takes its own part.

    Of a policy in any case; with fixed weights no unit is at its worst for both.
    """

    def delta(answer: Answer, threshold: float) -> float:
        shown = SHOWN[name](answer, threshold)
        if "laplace" in name:
            return shown
        changes = (7 if name.startswith("count") else 1) * 2**52
        scaled = answer | {"drawn": {"scale": answer["drawn"]["scale"] * 2**26}}
        moved = gaussian_noise_delta(scaled, 1.0, changes)
        return shown + moved if "policy" in name else max(shown, moved)

    return delta


def fixed_threshold_delta(answer: Answer, threshold: float) -> float:
    """By advanced composition of 5 answers if that is how the noise was chosen."""
    each = 1 / answer["drawn"]["scale"]
    basic = 5 * each <= EPSILON
    part = 0.0 if basic else DELTA / 2
    shown = lattice_tail(answer, threshold - 1)
    found = FixedThreshold(each * (1 - 1e-12), 5, shown, part, floor=0)
    assert found.epsilon <= EPSILON
    return found.delta


ONE_SHOT_DELTA: dict[str, Callable[[Answer, float], float]] = {
    "laplace-positive-counts": SHOWN["laplace-positive-counts"],
    "gaussian-sparse-histogram": lambda a, t: sparse_histogram_lattice_delta(
        EPSILON, a["drawn"]["scale"], math.floor(t), 7
    ),
    "weighted-gaussian-sparse-histogram": lambda a, t: weighted_histogram_delta(
        EPSILON,
        DiscreteGaussian(a["drawn"]["scale"] * 2**16),
        math.floor(t * 2**16),
        Weights(7, 49),
    ),
    "laplace-top-k": lambda a, t: overtaking_delta(a["drawn"]["scale"], 7, math.floor(t) - 1),
    "fixed-threshold": fixed_threshold_delta,
    **{name: set_union_delta(name) for name in SHOWN if name.endswith("set-union")},
}


@pytest.mark.parametrize("name", ONE_SHOT_DELTA)
def test_a_threshold_for_one_publication_keeps_delta_and_a_lower_one_does_not(name: str) -> None:
    answer = one_shot(name, "exact")
    threshold = answer["drawn"]["threshold"]
    assert ONE_SHOT_DELTA[name](answer, threshold) <= DELTA * (1 + 1e-9)
    assert ONE_SHOT_DELTA[name](answer, 0.98 * threshold) > DELTA


@pytest.mark.parametrize("analysis", DeltaAnalysis)
def test_continuous_figures_of_the_sparse_histogram_keep_delta_and_lower_ones_do_not(
    analysis: DeltaAnalysis,
) -> None:
    found = one_shot("gaussian-sparse-histogram", analysis.value.replace("_", "-"))["continuous"]
    sigma, tau = found["scale"], found["tau"]
    assert sparse_histogram_delta(EPSILON, sigma, tau, 7, analysis) <= DELTA
    assert sparse_histogram_delta(EPSILON, sigma, 0.98 * tau, 7, analysis) > DELTA
    assert sparse_histogram_delta(EPSILON, 0.9 * sigma, tau, 7, analysis) > DELTA


@pytest.mark.parametrize("analysis", CorrelatedAnalysis)
def test_continuous_figures_of_the_stability_histogram_keep_delta_and_lower_ones_do_not(
    analysis: CorrelatedAnalysis,
) -> None:
    name = "correlated-stability-histogram"
    found = one_shot(name, analysis.value.replace("_", "-"))["continuous"]
    sigma, tau = found["scale"], found["tau"]
    assert correlated_delta(EPSILON, sigma, tau, 5, analysis) <= DELTA
    assert correlated_delta(EPSILON, sigma, 0.98 * tau, 5, analysis) > DELTA
    assert correlated_delta(EPSILON, 0.9 * sigma, tau, 5, analysis) > DELTA


def test_a_correlated_top_k_for_one_publication_keeps_delta_and_less_noise_does_not() -> None:
    answer = one_shot("correlated-top-k", "exact")
    sigma, threshold = answer["drawn"]["scale"], answer["drawn"]["threshold"]
    found = CorrelatedTopK(sigma, 3, 5, 40, answer["rho_delta"], floor=0)
    assert found.threshold == threshold
    assert one_shot_delta(found, EPSILON) <= DELTA
    less = CorrelatedTopK(0.98 * sigma, 3, 5, 40, answer["rho_delta"], floor=0)
    assert one_shot_delta(less, EPSILON) > DELTA
    assert correlated_shown(answer, 0.95 * threshold) > DELTA


def test_what_is_drawn_for_a_stability_histogram_keeps_delta_and_less_noise_does_not() -> None:
    drawn = one_shot("correlated-stability-histogram", "tight")
    sigma, part = drawn["drawn"]["scale"], drawn["rho_delta"]

    def delta(shrink: float) -> float:
        found = CorrelatedTopK(shrink * sigma, 1, 5, 5, part, floor=0, with_counts=False)
        return one_shot_delta(found, EPSILON)

    assert delta(1.0) <= DELTA
    assert delta(0.9) > DELTA
    shared = 2 * sigma / 5**0.25
    threshold = drawn["drawn"]["threshold"]
    assert fresh_released(2 * sigma, shared, 5, math.floor(2 * threshold) - 2) <= part
    assert fresh_released(2 * sigma, shared, 5, math.floor(2 * 0.98 * threshold) - 2) > part


def test_laplace_noise_and_a_threshold_need_not_share_epsilon_and_delta() -> None:
    epsilon, delta = 1.2, 0.04
    answer = ask(f"laplace-positive-counts --groups 2 --epsilon {epsilon} --delta {delta}")
    scale, threshold = answer["drawn"]["scale"], answer["drawn"]["threshold"]
    grid = np.arange(-60, 80)

    def worst(scale: float, delta: float) -> float:
        noise = IndependentNoise(DiscreteLaplace(scale), 1)
        mechanism = PositiveCounts(noise, 2, delta, floor=0)
        return max(
            apart(p, q, epsilon)
            for p, q in (
                tuple(positive_counts_law(mechanism, counts, grid) for counts in pair)
                for pair in neighbours(2, 4, 2, 1)
            )
        )

    noise = IndependentNoise(DiscreteLaplace(scale), 1)
    assert PositiveCounts(noise, 2, delta, floor=0).threshold == threshold
    assert worst(scale, delta) <= delta
    assert worst(0.6 * scale, delta) > delta  # less noise
    assert worst(scale, 2 * delta) > delta  # a lower threshold


# -- what size appears ------------------------------------------------------------------------


def integer_law(answer: Answer, steps: int = 1) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    scale = answer["drawn"]["scale"] * steps
    laplace = answer["drawn"]["parameter"] == "b"
    noise = DiscreteLaplace(scale) if laplace else DiscreteGaussian(scale)
    z = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale) + 1)
    return z, noise.pmf(z)


def alone(answer: Answer, excess: float) -> float:
    """P[Z > -excess], ``excess`` being the score above the threshold."""
    z, mass = integer_law(answer)
    return float(mass[z > -excess].sum())


def against_noise(answer: Answer, excess: float) -> float:
    """P[Z - Z' > -excess] for two noises alike."""
    z, mass = integer_law(answer)
    both = np.convolve(mass, mass)
    return float(both[np.arange(len(both)) - 2 * (len(z) // 2) > -excess].sum())


def with_shared(answer: Answer, excess: float) -> float:
    """P[(Z + Z')/2 > -excess], Z' being shared."""
    own = DiscreteGaussian(2 * answer["drawn"]["scale"])
    shared = DiscreteGaussian(own.sigma / answer["k_bar"] ** 0.25)
    z = np.arange(-math.ceil(12 * own.sigma), math.ceil(12 * own.sigma) + 1)
    both = np.convolve(own.pmf(z), shared.pmf(z))
    return float(both[np.arange(len(both)) - 2 * (len(z) // 2) > -2 * excess].sum())


def against_stop(answer: Answer, excess: float) -> float:
    return float(special.expit(excess / answer["drawn"]["scale"]))


APPEARS: dict[str, Callable[[Answer, float], float]] = {
    "laplace-positive-counts": alone,
    "gaussian-positive-counts": alone,
    "gaussian-sparse-histogram": alone,
    "fixed-threshold": alone,
    "gaussian-top-k": against_noise,
    "laplace-top-k": against_noise,
    "gumbel-top-k": against_stop,
    "correlated-top-k": lambda a, x: with_shared(a | {"k_bar": 40}, x),
    "correlated-stability-histogram": lambda a, x: with_shared(a | {"k_bar": 5}, x),
}


@pytest.mark.parametrize("name", APPEARS)
def test_the_sizes_that_appear_are_the_smallest_that_do_so_often_enough(name: str) -> None:
    answer = ask(f"{sized(name)} --epsilon {EPSILON} --delta {DELTA}")
    drawn = answer["drawn"]
    for size, probability in ((drawn["appears_half"], 0.5), (drawn["appears_95"], 0.95)):
        assert size == math.floor(size)
        assert APPEARS[name](answer, size - drawn["threshold"]) >= probability
        assert APPEARS[name](answer, size - 1 - drawn["threshold"]) < probability


@pytest.mark.parametrize("name", [m.name for m in MECHANISMS if m.measured.startswith("weight")])
def test_weights_that_appear_are_the_smallest_to_a_step(name: str) -> None:
    drawn = ask(f"{sized(name)} --epsilon {EPSILON} --delta {DELTA}")["drawn"]
    law = stats.laplace if drawn["parameter"] == "b" else stats.norm
    for weight, probability in ((drawn["appears_half"], 0.5), (drawn["appears_95"], 0.95)):
        expected = drawn["threshold"] + drawn["scale"] * law.ppf(probability)
        assert weight == pytest.approx(expected, abs=1e-4 * drawn["scale"])


@pytest.mark.parametrize("name", ["gaussian-sparse-histogram", "correlated-stability-histogram"])
def test_counts_that_appear_under_continuous_noise_are_the_smallest(name: str) -> None:
    found = ask(f"{sized(name)} --epsilon {EPSILON} --delta {DELTA}")["continuous"]
    for size, probability in ((found["appears_half"], 0.5), (found["appears_95"], 0.95)):
        chance = stats.norm.sf(found["threshold"] - size, scale=found["std"])
        before = stats.norm.sf(found["threshold"] - size + 1, scale=found["std"])
        assert before < probability <= chance


def test_the_gumbel_top_k_says_what_to_promise() -> None:
    answer = ask("gumbel-top-k --epsilon 1 --delta 1e-6 --k 10 --k-bar 100")
    epsilon = 1 / answer["drawn"]["scale"]
    # Durfee & Rogers 2019, Lemma 8.1 states a little more than is needed.
    shortfall = math.log(10 * 100 / 0.05) / epsilon
    gap = 1 + (math.log(100 / 5e-7) + math.log(10 / 0.05)) / epsilon
    assert 0.8 * shortfall < answer["utility_bound"]["shortfall"] <= shortfall
    assert 0.9 * gap < answer["utility_bound"]["gap"] <= 1.02 * gap
    text = run("gumbel-top-k --epsilon 1 --delta 1e-6 --k 10 --k-bar 100").stdout
    assert "every returned group counts at least h_(10) - 68.2" in text
    assert "10 come back if h_(10) is at least h_(101) + 177.1" in text


# -- names and options ------------------------------------------------------------------------


def test_every_name_means_one_mechanism() -> None:
    names = [name for m in MECHANISMS for name in dict.fromkeys(m.names)]
    assert len(names) == len(set(names))
    assert not set(names) & ({m.family for m in MECHANISMS} | set(CALCULATIONS))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gshm --groups 7", "gaussian-sparse-histogram"),
        ("csh --k 5", "correlated-stability-histogram"),
        ("analytic-gaussian --groups 2", "analytic-gaussian"),
        ("Gaussian_Positive_Counts --groups 7", "gaussian-positive-counts"),
        ("positive-counts-gaussian --groups 7", "gaussian-positive-counts"),
        ("positive-counts --noise laplace --groups 7", "laplace-positive-counts"),
        ("top-k --noise gumbel --k 2 --k-bar 9", "gumbel-top-k"),
        ("policy-set-union --noise gaussian --groups 7", "policy-gaussian-set-union"),
    ],
)
def test_mechanisms_go_by_their_usual_names(name: str, meant: str) -> None:
    assert ask(f"{name} --epsilon 1 --delta 1e-6")["mechanism"] == meant


def test_k_and_groups_mean_the_same_for_the_sparse_histogram() -> None:
    answers = [ask(f"gshm --epsilon 1 --delta 1e-6 {o} 9") for o in ("--k", "--groups")]
    assert answers[0] == answers[1]
    assert answers[0]["parameters"]["max_groups_contributed"] == 9


@pytest.mark.parametrize(("name", "analysis"), ONE_SHOT)
def test_every_analysis_answers_in_words_with_its_source(name: str, analysis: str) -> None:
    answer = one_shot(name, analysis)
    assert answer["analysis"] == analysis
    assert answer["epsilon"] == EPSILON
    assert answer["delta"] == (0 if analysis == "pure" else DELTA)
    delta = "" if analysis == "pure" else f"--delta {DELTA}"
    text = run(f"{sized(name)} --epsilon {EPSILON} {delta} --analysis {analysis}").stdout
    for word in (name, analysis, answer["source"], "ε 0.8", answer["measured"]):
        assert word in text


@pytest.mark.parametrize("name", ["rho --epsilon 1", "composition --epsilon 0.1 --queries 9"])
def test_calculations_answer_in_words(name: str) -> None:
    text = run(f"{name} --delta 1e-6").stdout
    assert "Canonne, Kamath & Steinke 2020" in text
    assert "\x1b" not in text


def test_rho_alone_is_enough_without_a_threshold() -> None:
    answer = ask("gaussian-known-domain --groups 3 --rho 0.1")
    assert (answer["epsilon"], answer["delta"]) == (None, None)
    assert answer["rho"] <= 0.1
    with_delta = ask("gaussian-known-domain --groups 3 --rho 0.1 --delta 1e-6")
    assert with_delta["epsilon"] == pytest.approx(epsilon_from_zcdp(0.1, 1e-6))


def refusal(text: str) -> str:
    result = run(text)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    said: str = result.stderr
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("name", [m.name for m in MECHANISMS])
def test_an_option_that_is_missing_or_not_taken_is_named(name: str) -> None:
    (mechanism,) = (m for m in MECHANISMS if m.name == name)
    budget = f"--delta {DELTA} " + (f"--rho {RHO}" if mechanism.zcdp else f"--epsilon {EPSILON}")
    for size in SIZES:
        option = f"{flag(size)} {asked_of(name)[size]}"
        if size in mechanism.takes:
            assert f"needs {flag(size)}" in refusal(sized(name).replace(option, "") + f" {budget}")
        elif size not in mechanism.may_take and not (size == "k" and mechanism.k_is_groups):
            assert f"does not take {flag(size)}" in refusal(f"{sized(name)} {option} {budget}")
    assert "does not take --queries" in refusal(f"{sized(name)} {budget} --queries 3")
    assert "needs either --epsilon or --rho" in refusal(f"{sized(name)} --delta {DELTA}")
    both = f"{sized(name)} --epsilon 1 --rho 1 --delta {DELTA}"
    assert "needs either --epsilon or --rho" in refusal(both)
    if mechanism.zcdp is None:
        assert "does not take --rho" in refusal(f"{sized(name)} --rho {RHO} --delta {DELTA}")
    if mechanism.thresholded:
        assert "needs --delta" in refusal(sized(name) + f" --{budget.split('--')[2]}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gshm --epsilon 1 --delta 1e-6 --k 3 --groups 3", "--k or --max-groups-contributed"),
        ("gumbel-top-k --rho 1 --delta 1e-6 --k 9 --k-bar 3", "--k must not exceed --k-bar"),
        ("gshm --epsilon 1 --delta 1e-6 --k 3 --analysis tight", "--analysis tight"),
        ("laplace --epsilon 1 --delta 1e-6 --groups 3", "does not take --delta"),
        ("positive-counts --rho 1 --delta 1e-6 --groups 3", "needs --noise"),
        ("positive-counts --noise gumbel --rho 1 --groups 3", "--noise gumbel"),
        ("gshm --noise laplace --epsilon 1 --delta 1e-6 --k 3", "--noise laplace"),
        ("gaussian-positive-counts --epsilon 1 --groups 3", "needs --delta"),
        ("rho --epsilon 1", "needs --delta"),
        ("rho --delta 1e-6", "needs either --epsilon or --rho"),
        ("rho --epsilon 1 --delta 1e-6 --k 3", "does not take --k"),
        ("composition --epsilon 1 --delta 1e-6", "needs --queries"),
        ("composition --rho 1 --delta 1e-6 --epsilon 1 --queries 3", "does not take --rho"),
        ("correlated-top-k --rho 30 --delta 1e-6 --k 1 --k-bar 9", "too large"),
        ("gumbel-top-k --rho 1e-19 --delta 0.1 --k 9 --k-bar 9", "too small"),
        ("set_union --rho 1 --delta 1e-6 --groups 3", "there is no mechanism set_union"),
        ("gausian-top-k --rho 1", "Did you mean gaussian-top-k"),
        ("nothing --rho 1", "dpsql calibrate --help"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-1", "0", str(2**63), "x", "1e400"])
@pytest.mark.parametrize("option", ["--epsilon", "--delta", "--rho"])
def test_a_budget_out_of_range_is_refused(option: str, value: str) -> None:
    budget = {"--epsilon": "1", "--delta": "1e-6"} | {option: value}
    if option == "--rho":
        del budget["--epsilon"]
    given = " ".join(f"{name} {text}" for name, text in budget.items())
    assert option in refusal(f"gaussian-positive-counts --groups 3 {given}")


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1.5", str(2**63), "x"])
@pytest.mark.parametrize("size", [*SIZES, "queries"])
def test_a_size_out_of_range_is_refused(size: str, value: str) -> None:
    assert flag(size) in refusal(f"gaussian-top-k --rho 1 --delta 1e-6 {flag(size)} {value}")


def test_help_lists_every_mechanism() -> None:
    text = run("--help").stdout
    for name in [*(m.name for m in MECHANISMS), *CALCULATIONS]:
        assert f"  {name} " in text


def test_what_is_not_drawn_is_not_said_to_be() -> None:
    asked = "gshm --epsilon 0.35 --delta 1e-5 --k 100 --analysis "
    added, exact = ask(f"{asked}add-the-deltas"), ask(f"{asked}exact")
    assert (added["drawn"], added["rho"]) == (None, None)
    assert added["continuous"]["threshold"] > exact["drawn"]["threshold"]


@pytest.mark.parametrize("name", ["known_gumbel", "known-domain-top-k"])
def test_declared_keys_are_named_as_a_query_would(name: str) -> None:
    found = ask(f"{name} --epsilon 1 --delta 1e-6 --k 10 --domain 300")
    drawn = known_domain_top_k(
        PrivacyLoss(rho_from_epsilon(1.0, 1e-6)), sensitivity=1, k=10, size=300
    )
    assert (found["rho"], found["rho_delta"]) == (drawn.rho(None), 0.0)
    assert found["drawn"]["scale"] == pytest.approx(1 / drawn.epsilon)
