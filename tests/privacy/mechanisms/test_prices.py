"""What every mechanism costs in every composition, against the exact laws of what it draws.

A new mechanism has a row in ``CLAIMS``: the law of its release of two small neighbours, and that of
a twin with too little noise, which has to break each of its prices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from helpers.laws import (
    EPSILONS,
    Counts,
    Law,
    above_threshold_law,
    conversion_delta,
    gaussian_top_k_law,
    gumbel_law,
    hockey_stick,
    top_of,
)
from numpy.typing import NDArray
from test_choose_k_bar import orders_law
from test_known_topk import law_of

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_delta
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import (
    CorrelatedGaussian,
    IndependentNoise,
    correlated_gaussian,
    gaussian,
    laplace,
)
from dpsql.privacy.mechanisms.choose_k_bar import GumbelTopKChosenKBar
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK
from dpsql.privacy.mechanisms.elliptic import elliptic_gaussian
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.name_chances import CERTAIN, name_chances
from dpsql.privacy.mechanisms.quantiles import exponential_quantile
from dpsql.privacy.mechanisms.registry import (
    CASCADES,
    ENTRIES,
    GUMBEL_TOP_K,
    SET_UNIONS,
    MechanismEntry,
    Sizes,
)
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS
from dpsql.privacy.mechanisms.topk import GumbelTopK
from dpsql.privacy.mechanisms.topk_laplace import FixedThreshold, LaplaceTopK
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

# -- every mechanism in every composition -----------------------------------------------------

LawOf = Callable[[Any, Counts], Law]
Noise = DiscreteGaussian | DiscreteLaplace

DELTA = 0.05
PRICES = (
    PrivacyLoss(0.5, DELTA),
    PrivacyLoss(0.5, DELTA, gaussian=True),
    PrivacyLoss(0.0, DELTA, 1.0),
)
SIZES = Sizes(k=1, groups=1, k_bar=1, domain=2)
RISES = [((count,), (count + 1,)) for count in range(9)]
FEW_RISES = [((0,), (1,)), ((2,), (3,)), ((5,), (6,))]
FIRST_RISES = [((0, 0), (1, 0)), ((1, 1), (1, 2)), ((2, 2), (3, 2)), ((5, 1), (6, 1))]
ANY_RISES = [*FIRST_RISES, ((3, 1), (4, 2)), *(((c, 0), (c + 1, 0)) for c in range(1, 9))]


def one_shown(noise: Noise, threshold: int, score: int, reach: int = 12) -> Law:
    """Of one group with that score: whether it comes out, and with which noisy score."""
    far = math.ceil(reach * noise.spread)
    values = np.arange(threshold + 1, max(threshold, 9 * WEIGHT_STEPS * (far > 10**4)) + far + 20)
    shown = noise.pmf(values - score)
    return {"out": shown, "hidden": np.array([1 - shown.sum()])}


def one_named(noise: Noise, threshold: int, score: int) -> Law:
    """Of one group with that score: whether its name comes out."""
    named = noise.sf(threshold - score)
    return {"out": np.array([named]), "hidden": np.array([1 - named])}


def narrowed(noise: Noise) -> Noise:
    """A quarter of the noise."""
    return type(noise)(noise.spread / 4)


def counts_law(narrow: Callable[[Noise], Noise], steps: int = 1) -> LawOf:
    """Noise on a count in steps, of groups that somebody has."""

    def law(mechanism: Any, counts: Counts) -> Law:
        noise, (count,) = mechanism.score_noise.noise, counts
        if count <= mechanism.floor:
            return {"hidden": np.ones(1)}
        return one_shown(narrow(noise), mechanism.threshold, count * steps)

    return law


def union_law(narrow: Callable[[Noise], Noise]) -> LawOf:
    """The weight of one key, which every unit that has it raises by a whole."""

    def law(union: SetUnion, counts: Counts) -> Law:
        (count,) = counts
        if count == 0:
            return {"hidden": np.ones(1)}
        # So that a rise is seen where it is seen best: about the threshold.
        score = union.threshold - UNIT_WEIGHT_STEPS // 2 + (count - 5) * UNIT_WEIGHT_STEPS
        alone = count == 1
        return one_named(
            narrow(union.noise), union.threshold, UNIT_WEIGHT_STEPS if alone else score
        )

    return law


def votes_law(factor: int) -> LawOf:
    """Whether a key of so many votes is named, for a price that many times as large."""

    def law(union: GreedySetUnion, counts: Counts) -> Law:
        price = union.price
        larger = replace(price, rho=price.rho * factor**2, epsilon=price.epsilon * factor)
        chances, (count,) = name_chances(larger), counts
        named = chances[min(count, len(chances) - 1)] / CERTAIN
        return {"out": np.array([named]), "hidden": np.array([1 - named])}

    return law


def picked_law(mechanism: KnownDomainTopK, counts: Counts) -> Law:
    return as_law(law_of(mechanism, counts))


def as_law(chances: Mapping[Any, float]) -> Law:
    return {order: np.array([chance]) for order, chance in chances.items()}


def names_law(mechanism: GumbelTopK, counts: Counts) -> Law:
    return as_law(gumbel_law(mechanism, counts))


def chosen_law(mechanism: GumbelTopKChosenKBar, counts: Counts) -> Law:
    return as_law(orders_law(mechanism, counts))


def laplace_top_k_law(mechanism: LaplaceTopK, counts: Counts) -> Law:
    top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
    noise, scores = mechanism.score_noise.noise, {i: counts[i] for i in top}
    far = math.ceil(30 * noise.spread)
    grid = np.arange(-far, far + 40 + mechanism.threshold)
    return above_threshold_law(noise, scores, base + mechanism.threshold, grid)


def fixed_threshold_law(mechanism: FixedThreshold, counts: Counts) -> Law:
    top, base = top_of(counts, mechanism.k, mechanism.floor)
    (first,) = top or (None,)
    if first is None or counts[first] <= base:
        return {"hidden": np.ones(1)}
    noise = DiscreteLaplace(1 / mechanism.epsilon_per_group)
    found = one_named(noise, base + mechanism.threshold, counts[first])
    return {("out", first): found["out"], "hidden": found["hidden"]}


def correlated_law(part: float) -> LawOf:
    """One group against the second: a noise of its own, one for the choice, one for the count."""

    def law(mechanism: CorrelatedTopK, counts: Counts) -> Law:
        top, base = top_of(counts, mechanism.k_bar, mechanism.floor)
        (first,) = top or (None,)
        if first is None or counts[first] <= base:
            return {"hidden": np.ones(1)}
        noise = DiscreteGaussian(2 * mechanism.sigma * part)  # k_bar is 1: the shared one alike
        draws = np.arange(-(reach := math.ceil(12 * noise.sigma)), reach + 1)
        needed = mechanism.half_steps - 2 * (counts[first] - base) - draws
        kept = noise.pmf(draws) * np.array([noise.sf(t) for t in needed.tolist()])
        shown = np.zeros(4 * reach + 41)
        values = np.convolve(kept, noise.pmf(draws))
        shown[2 * counts[first] : 2 * counts[first] + len(values)] = values
        return {("out", first): shown, "hidden": np.array([1 - kept.sum()])}

    return law


def same(noise: Noise) -> Noise:
    return noise


@dataclass(frozen=True)
class Claim:
    """The laws of a mechanism and of its broken twin, for some neighbours."""

    law: LawOf
    twin: LawOf
    pairs: list[Any]
    sizes: Sizes = SIZES


def rated(law: LawOf, name: str) -> LawOf:
    """The law with four times the epsilon."""
    return lambda made, counts: law(replace(made, **{name: 4 * getattr(made, name)}), counts)


def keys_law(mechanism: object, counts: Counts) -> Law:
    return {"all": np.ones(1)}


def kept_keys_law(mechanism: object, counts: Counts) -> Law:
    """Keys without rows are left out."""
    return {tuple(i for i, count in enumerate(counts) if count): np.ones(1)}


GRID = np.arange(-16, 34)
POSITIVE = Claim(counts_law(same), counts_law(narrowed), RISES)
WEIGHTED = Claim(counts_law(same, WEIGHT_STEPS), counts_law(narrowed, WEIGHT_STEPS), FEW_RISES)
UNION = Claim(union_law(same), union_law(narrowed), RISES)
CLAIMS = {
    "known_domain": Claim(keys_law, kept_keys_law, ANY_RISES),
    "known_domain_top_k": Claim(picked_law, rated(picked_law, "epsilon"), ANY_RISES),
    "gaussian_positive_counts": POSITIVE,
    "laplace_positive_counts": POSITIVE,
    "gaussian_sparse_histogram": POSITIVE,
    "weighted_gaussian_positive_counts": WEIGHTED,
    "weighted_gaussian_sparse_histogram": WEIGHTED,
    "gumbel_top_k": Claim(
        names_law, rated(names_law, "epsilon"), FIRST_RISES, replace(SIZES, k_bar=2)
    ),
    "gaussian_top_k": Claim(
        lambda made, counts: gaussian_top_k_law(made, counts, GRID),
        lambda made, counts: gaussian_top_k_law(
            replace(made, noise=replace(made.noise, noise=narrowed(made.noise.noise))),
            counts,
            GRID,
        ),
        FIRST_RISES,
    ),
    "correlated_top_k": Claim(correlated_law(1.0), correlated_law(0.25), ANY_RISES),
    "gumbel_top_k_chosen_k_bar": Claim(
        chosen_law,
        lambda made, counts: chosen_law(
            replace(made, widest=replace(made.widest, epsilon=4 * made.widest.epsilon)), counts
        ),
        ANY_RISES,
        replace(SIZES, k_bar=2),
    ),
    "laplace_top_k": Claim(
        laplace_top_k_law, rated(laplace_top_k_law, "epsilon_per_group"), FIRST_RISES
    ),
    "fixed_threshold": Claim(
        fixed_threshold_law, rated(fixed_threshold_law, "epsilon_per_group"), ANY_RISES
    ),
    "cascade": Claim(
        lambda made, counts: WEIGHTED.law(made.only_round, counts),
        lambda made, counts: WEIGHTED.twin(made.only_round, counts),
        FEW_RISES,
    ),
    "greedy_set_union": Claim(votes_law(1), votes_law(4), RISES),
} | {entry.name: UNION for entry in SET_UNIONS}
PRICED = [
    pytest.param(entry, price, id=f"{entry.name}-{price.composition}")
    for entry in ENTRIES
    for price in PRICES
    if price.composition in entry.priced_in
]


def excess(law: LawOf, made: Selection, claim: Claim, price: PrivacyLoss) -> float:
    """How far neighbours may be told apart beyond what a price allows, at some epsilon."""
    mu = math.sqrt(2 * price.rho)

    def allowed(epsilon: float) -> float:
        match price.composition:
            case Composition.ZCDP:
                return conversion_delta(price.rho, epsilon)
            case Composition.GDP:
                return gaussian_delta(epsilon, mu)
            case Composition.BASIC:
                return 0.0

    epsilons = (price.epsilon,) if price.epsilon else EPSILONS
    laws = [(law(made, one), law(made, other)) for one, other in claim.pairs]
    return max(
        hockey_stick(p, q, epsilon) - allowed(epsilon) - price.delta
        for pair in laws
        for p, q in (pair, pair[::-1])
        for epsilon in epsilons
    )


def test_every_mechanism_has_a_row() -> None:
    assert CLAIMS.keys() == {entry.name for entry in ENTRIES}


@pytest.mark.slow
@pytest.mark.few(100)
@pytest.mark.parametrize(("entry", "price"), PRICED)
def test_what_is_built_for_a_price_keeps_it_and_its_twin_does_not(
    entry: MechanismEntry[Selection], price: PrivacyLoss
) -> None:
    claim = CLAIMS[entry.name]
    made = entry.built(claim.sizes, price)
    assert excess(claim.law, made, claim, price) <= 1e-9
    assert excess(claim.twin, made, claim, price) > 0.01


def built_anyway(entry: MechanismEntry[Selection], sizes: Sizes, price: PrivacyLoss) -> bool:
    """Whether a builder that the registry does not ask builds for such a price."""
    try:
        return entry.build(sizes, price) is not None
    except ParameterError:
        return False


@pytest.mark.slow
@pytest.mark.few(100)
@pytest.mark.parametrize("entry", [*ENTRIES, *CASCADES.values()], ids=lambda entry: entry.name)
def test_what_is_built_for_a_price_costs_that_and_little_less(
    entry: MechanismEntry[Selection],
) -> None:
    """In its own composition and, where it has no price, infinitely much."""
    sizes = Sizes(k=5, groups=3, k_bar=20, sensitivity=2, domain=9)
    for price, part in itertools.product(PRICES, (0.01, 0.1, 1.0)):
        one = replace(price, rho=price.rho * part, epsilon=price.epsilon * part, delta=1e-6)
        if one.composition not in entry.priced_in:
            with pytest.raises(ParameterError, match="not proved"):
                entry.within(sizes, one)
            assert not built_anyway(entry, sizes, one)
            continue
        made = entry.within(sizes, one)
        if made is None:
            continue
        assert made.name == entry.name
        assert made.delta <= one.delta
        cost, asked = made.cost(one.composition, None), one.rho or one.epsilon
        exact = one.composition is Composition.BASIC and cost == math.inf  # as delta_at says
        assert cost <= asked or exact
        if cost and not exact and entry.name != "cascade":  # which keeps a part for counting
            assert cost >= asked * (1 - 1e-6)
        for composition in {*Composition} - entry.priced_in:
            assert made.cost(composition, None) == math.inf


@pytest.mark.parametrize("groups", [1, 2, 30])
@pytest.mark.parametrize("part", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("price", PRICES, ids=lambda price: price.composition)
def test_noise_built_for_a_price_costs_that_and_little_less(
    price: PrivacyLoss, part: float, groups: int
) -> None:
    one = replace(price, rho=price.rho * part, epsilon=price.epsilon * part, delta=1e-6)
    asked, composition = one.rho or one.epsilon, one.composition
    shared = elliptic_gaussian(one, 3, groups, groups + 30)
    quantile = exponential_quantile(one, Fraction(1, 2), rows=2, groups=groups, size=100)
    for made in (
        gaussian(one, 3, groups),
        laplace(one, 3, groups),
        correlated_gaussian(one, 3, groups),
        *([] if shared is None else [shared]),
        quantile,
    ):
        cost = made.cost(composition, groups)
        if composition is Composition.BASIC and made not in (laplace(one, 3, groups), quantile):
            assert cost == math.inf, "of Gaussian noise, what its exact analysis says"
            continue
        lost = 2e-3 if made is shared else 1e-6  # to the lattice, of elliptic noise
        assert asked * (1 - lost) <= cost <= asked
        assert made.cost(composition, max(1, groups // 2)) <= cost


# -- Gaussian DP ------------------------------------------------------------------------------

Flat = NDArray[np.float64]
FINE = tuple(np.linspace(0.0, 6.0, 61))


def exceeds(one: Flat, other: Flat, rho: float, error: float = 1e-11) -> bool:
    """True if two laws are easier to tell apart than the Gaussians of mu**2/2 = rho."""
    mu = math.sqrt(2 * rho)
    for epsilon in FINE:
        factor = math.exp(epsilon)
        found = max(
            np.maximum(one - factor * other, 0.0).sum(), np.maximum(other - factor * one, 0).sum()
        )
        if found > gaussian_delta(float(epsilon), mu) + error:
            return True
    return False


def summed_laws(sigma: float, shift: int, count: int) -> tuple[Flat, Flat]:
    """The laws of the sum of ``count`` discrete Gaussians, each moved by ``shift`` or not.

    The loss of the whole vector is a function of the sum, so these are as hard to tell apart.
    """
    reach = math.ceil(12 * sigma)
    one = np.ones(1)
    alone = DiscreteGaussian(sigma).pmf(np.arange(-reach, reach + 1))
    for _ in range(count):
        one = np.convolve(one, alone)
    pad = np.zeros(shift * count)
    return np.concatenate([one, pad]), np.concatenate([pad, one])


@pytest.mark.parametrize("sigma", [1.0, 1.2, 2.3, 3.0, 5.0, 20.0, 60.0])
@pytest.mark.parametrize(("shift", "count"), [(1, 1), (1, 3), (2, 2), (7, 1)])
def test_discrete_gaussians_are_no_easier_to_tell_apart_than_what_is_charged(
    sigma: float, shift: int, count: int
) -> None:
    noise = IndependentNoise(DiscreteGaussian(sigma), shift)
    rho = noise.cost(Composition.GDP, count)
    exact = Fraction(count * shift**2) / (2 * (Fraction(sigma) ** 2 - Fraction(3, 32)))
    assert exact <= Fraction(rho) <= exact * (1 + Fraction(1, 10**12))
    laws = summed_laws(sigma, shift, count)
    assert not exceeds(*laws, rho)
    if sigma >= 5:  # where little is lost to the lattice
        assert exceeds(*laws, 0.95 * rho)


def test_too_little_noise_has_no_cost() -> None:
    for sigma in (0.3, 0.5, 0.999):
        assert IndependentNoise(DiscreteGaussian(sigma), 1).cost(Composition.GDP, 1) == math.inf
    assert CorrelatedGaussian(0.88, 1).cost(Composition.GDP, 10) == math.inf
    assert IndependentNoise(DiscreteGaussian(0.5), 1).cost(Composition.GDP, 0) == 0.0


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_laplace_noise_is_no_easier_to_tell_apart_than_what_is_charged(
    scale: float, shift: int
) -> None:
    reach = math.ceil(40 * scale) + 40
    alone = DiscreteLaplace(scale).pmf(np.arange(-reach, reach + 1))
    pad = np.zeros(shift)
    one, other = np.concatenate([alone, pad]), np.concatenate([pad, alone])
    rho = IndependentNoise(DiscreteLaplace(scale), shift).cost(Composition.GDP, 1)
    assert not exceeds(one, other, rho)
    if scale <= 1:  # with less noise it is nearly randomized response
        assert exceeds(one, other, 0.5 * rho)


def pick_laws(scores: tuple[int, ...], epsilon: float, picks: int) -> dict[tuple[int, ...], float]:
    """The law of picks without replacement with weights exp(epsilon * score)."""
    found = {}
    for order in itertools.permutations(range(len(scores)), picks):
        chance, left = 1.0, set(range(len(scores)))
        for chosen in order:
            weights = {i: math.exp(epsilon * scores[i]) for i in left}
            chance *= weights[chosen] / sum(weights.values())
            left.remove(chosen)
        found[order] = chance
    return found


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
@pytest.mark.parametrize("picks", [1, 2, 3])
def test_picks_are_no_easier_to_tell_apart_than_what_is_charged(epsilon: float, picks: int) -> None:
    selection = GUMBEL_TOP_K.within(
        Sizes(k=picks, k_bar=10), PrivacyLoss(zcdp_price(epsilon, picks), 1e-6, gaussian=True)
    )
    assert selection is not None
    rho = selection.cost(Composition.GDP, None)
    assert isinstance(selection, GumbelTopK)
    drawn = selection.epsilon
    tightest = False
    for scores in ((0, 0, 0, 0), (3, 1, 0, 0), (1, 0, 0, 2)):
        for raised in itertools.product((0, 1), repeat=4):
            more = tuple(map(sum, zip(scores, raised, strict=True)))
            here, there = pick_laws(scores, drawn, picks), pick_laws(more, drawn, picks)
            one, other = np.array([*here.values()]), np.array([*there.values()])
            assert not exceeds(one, other, rho)
            tightest |= exceeds(one, other, 0.3 * rho)
    assert tightest, "the bound has something to say"


def zcdp_price(epsilon: float, picks: int) -> float:
    """A cost that leaves each pick about this epsilon."""
    return picks * epsilon**2 / 8 * 1.57


def test_picks_that_were_not_made_are_not_charged() -> None:
    selection = GUMBEL_TOP_K.within(Sizes(k=10, k_bar=100), PrivacyLoss(0.02, 1e-6, gaussian=True))
    assert selection is not None
    assert selection.cost(Composition.GDP, None) <= 0.02
    one = selection.cost(Composition.GDP, 0)
    assert selection.cost(Composition.GDP, 3) == pytest.approx(4 * one, rel=1e-12)
    assert selection.cost(Composition.GDP, 10) == pytest.approx(10 * one, rel=1e-12)
