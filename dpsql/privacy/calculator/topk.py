"""The largest groups: of unknown keys from the k_bar + 1 largest alone, or of declared ones.

Correlated noise is here too: a histogram of at most k groups is the top-k that keeps them all.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.calculator.values import (
    EXCESS,
    LEBEDA,
    OFTEN,
    Calibrate,
    Figures,
    Found,
    Mechanism,
    budget_too_large,
    budget_too_small,
    found_of,
    on_integers,
    on_integers_with_tail,
    on_reals,
    registered,
)
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian
from dpsql.privacy.mechanisms.choose_k_bar import GumbelTopKChosenKBar
from dpsql.privacy.mechanisms.correlated_histogram import CorrelatedAnalysis, calibrate_correlated
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK, correlated_top_k
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.privacy.mechanisms.price import cost_of_pick
from dpsql.privacy.mechanisms.registry import (
    CORRELATED_TOP_K,
    FIXED_THRESHOLD,
    GAUSSIAN_TOP_K,
    GUMBEL_TOP_K,
    GUMBEL_TOP_K_CHOSEN_K_BAR,
    KNOWN_DOMAIN_TOP_K,
    LAPLACE_TOP_K,
    Sizes,
)
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK
from dpsql.privacy.mechanisms.topk_laplace import FixedThreshold, LaplaceTopK, overtaking_delta
from dpsql.privacy.sampling.noise import DiscreteLaplace, difference_quantile_sf
from dpsql.privacy.sampling.numeric import smallest


def _gaussian_top_k(mechanism: GaussianTopK, sizes: Sizes) -> Found:
    noise = mechanism.noise
    tail = difference_quantile_sf(noise.scale, noise.scale, 1 - OFTEN)
    return found_of(mechanism, sizes, on_integers_with_tail(noise, mechanism.threshold, tail))


def _gumbel_top_k(mechanism: GumbelTopK, sizes: Sizes) -> Found:
    found = found_of(mechanism, sizes, _ranking(mechanism, mechanism), _picks(mechanism))
    return replace(found, source=f"{found.source}; utility: Durfee & Rogers 2019, Lemma 8.1")


def _gumbel_top_k_chosen_k_bar(mechanism: GumbelTopKChosenKBar, sizes: Sizes) -> Found:
    return found_of(
        mechanism,
        sizes,
        _ranking(mechanism.widest, mechanism),
        _picks(mechanism.widest) + ", and one for the choice of k_bar",
        "the threshold is that of the largest k_bar; a smaller one is drawn where it helps",
    )


def _ranking(
    mechanism: GumbelTopK | KnownDomainTopK,
    whole: GumbelTopK | KnownDomainTopK | GumbelTopKChosenKBar,
) -> Figures:
    scale = mechanism.sensitivity / mechanism.epsilon
    half, often = whole.score_for_inclusion(0.5), whole.score_for_inclusion(OFTEN)
    return Figures(
        distribution="gumbel, exact ranking",
        parameter="b",
        scale=scale,
        std=scale * math.pi / math.sqrt(6),
        threshold=mechanism.threshold,
        appears_half=None if half is None else math.ceil(half),
        appears_95=None if often is None else math.ceil(often),
    )


def _pick(mechanism: GumbelTopK | KnownDomainTopK) -> str:
    return f"a pick costs ρ {cost_of_pick(Composition.ZCDP, mechanism.epsilon):.4g}"


def _picks(mechanism: GumbelTopK) -> str:
    return (
        f"{_pick(mechanism)}; {mechanism.k} are reserved, and charged is one "
        "for each released group, plus one where fewer than k came out"
    )


def _known_domain_top_k(mechanism: KnownDomainTopK, sizes: Sizes) -> Found:
    picks = f"{_pick(mechanism)}; {mechanism.picks} come out, always"
    return found_of(mechanism, sizes, _ranking(mechanism, mechanism), picks)


def _laplace_top_k(mechanism: LaplaceTopK, sizes: Sizes) -> Found:
    noise, scale = mechanism.score_noise, 1 / mechanism.epsilon_per_group
    tail = smallest(
        lambda t: t >= 0 and overtaking_delta(scale, 1, t) <= 1 - OFTEN, math.ceil(3 * scale)
    )
    return found_of(mechanism, sizes, on_integers_with_tail(noise, mechanism.threshold, tail))


def _fixed_threshold(mechanism: FixedThreshold, sizes: Sizes) -> Found:
    noise = DiscreteLaplace(1 / mechanism.epsilon_per_group)
    return found_of(mechanism, sizes, on_integers(noise, mechanism.threshold))


TOP_K_MECHANISMS: tuple[Mechanism, ...] = (
    replace(
        registered(
            KNOWN_DOMAIN_TOP_K,
            _known_domain_top_k,
            takes=("k", "domain"),
            may_take=("sensitivity",),
            family="known-domain",
            noise="gumbel",
            measured="count above the (k+1)-th largest",
        ),
        aliases=("known-gumbel",),
        thresholded=False,
    ),
    registered(
        GAUSSIAN_TOP_K,
        _gaussian_top_k,
        takes=("k", "k_bar", "groups"),
        may_take=("sensitivity",),
        family="top-k",
        noise="gaussian",
        measured=EXCESS,
    ),
    registered(
        GUMBEL_TOP_K,
        _gumbel_top_k,
        takes=("k", "k_bar"),
        may_take=("groups", "sensitivity"),
        family="top-k",
        noise="gumbel",
        measured=EXCESS,
        out_of_range=budget_too_small,
    ),
    registered(
        GUMBEL_TOP_K_CHOSEN_K_BAR,
        _gumbel_top_k_chosen_k_bar,
        takes=("k", "k_bar"),
        may_take=("sensitivity",),
        measured=EXCESS,
        out_of_range=budget_too_small,
    ),
    registered(
        LAPLACE_TOP_K,
        _laplace_top_k,
        takes=("k", "k_bar", "groups"),
        family="top-k",
        noise="laplace",
        measured=EXCESS,
        instead="gaussian-top-k",
    ),
    registered(
        FIXED_THRESHOLD,
        _fixed_threshold,
        takes=("k",),
        measured="count above the (k+1)-th largest",
        instead="gumbel-top-k",
    ),
)


_STABILITY_THEOREMS = {
    CorrelatedAnalysis.ADD_THE_DELTAS: "Theorem 3.3",
    CorrelatedAnalysis.TIGHT: "Theorem 3.5",
    CorrelatedAnalysis.INTEGRATED: "Theorem 3.5, integrated over the shared noise",
}


def _stability_histogram(analysis: CorrelatedAnalysis) -> Calibrate:
    def calibrate(sizes: Sizes, price: PrivacyLoss) -> Found:
        k = sizes.k
        found = calibrate_correlated(price.epsilon, price.delta, k, analysis)
        drawn = correlated_top_k(price, sensitivity=1, k=k, k_bar=k, floor=0, with_counts=False)
        assert drawn is not None
        std = found.sigma * math.hypot(1.0, k**-0.25)
        return Found(
            source=f"{LEBEDA}, Algorithm 2 and {_STABILITY_THEOREMS[analysis]}",
            drawn=half_steps(drawn),
            continuous=on_reals("correlated gaussian, continuous", found.sigma, found.tau, std),
            loss=PrivacyLoss(drawn.rho(None), drawn.delta),
            notes=(
                "drawn as correlated-top-k without counts, k_bar = k, by its own exact analysis; "
                "counted from the (k+1)-th largest count, 0 where there are at most k groups",
            ),
        )

    return calibrate


def _correlated_top_k(mechanism: CorrelatedTopK, sizes: Sizes) -> Found:
    return found_of(mechanism, sizes, half_steps(mechanism))


def half_steps(mechanism: CorrelatedTopK) -> Figures:
    noise = CorrelatedGaussian(mechanism.sigma, mechanism.sensitivity)
    often = mechanism.score_for_inclusion(OFTEN)
    assert often is not None
    return Figures(
        distribution="correlated gaussian, half-integers",
        parameter="sigma",
        scale=mechanism.sigma,
        std=noise.std(mechanism.k_bar),
        threshold=mechanism.threshold,
        appears_half=math.ceil((mechanism.half_steps + 1) / 2),
        appears_95=math.ceil(often),
    )


CORRELATED_MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name="correlated-stability-histogram",
        summary="histograms of at most k groups, of which a unit raises any number",
        takes=("k",),
        one_shot={
            "tight": _stability_histogram(CorrelatedAnalysis.TIGHT),
            "add-the-deltas": _stability_histogram(CorrelatedAnalysis.ADD_THE_DELTAS),
            "integrated": _stability_histogram(CorrelatedAnalysis.INTEGRATED),
        },
        aliases=("csh",),
        instead="correlated-top-k",
    ),
    registered(
        CORRELATED_TOP_K,
        _correlated_top_k,
        takes=("k", "k_bar"),
        may_take=("sensitivity",),
        family="top-k",
        noise="correlated",
        measured=EXCESS,
        out_of_range=budget_too_large,
    ),
)
