"""Correlated noise, for units that raise any number of groups."""

from __future__ import annotations

import math

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.calculator.values import (
    EXCESS,
    LEBEDA,
    OFTEN,
    Calibrate,
    Figures,
    Found,
    Mechanism,
    budget_too_large,
    found_of,
    on_reals,
    registered,
)
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian
from dpsql.privacy.mechanisms.correlated_histogram import CorrelatedAnalysis, calibrate_correlated
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK, correlated_top_k
from dpsql.privacy.mechanisms.registry import CORRELATED_TOP_K, Sizes

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
