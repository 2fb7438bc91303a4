"""Unknown keys: the largest groups, from the k_bar + 1 largest alone."""

from __future__ import annotations

import math

from dpsql.accounting.zcdp import PrivacyLoss
from dpsql.calibrate.values import (
    EXCESS,
    OFTEN,
    Figures,
    Found,
    Mechanism,
    Sizes,
    budget_too_large,
    on_integers,
    on_integers_with_tail,
)
from dpsql.errors import ParameterError
from dpsql.mechanisms.additive import IndependentNoise, gaussian
from dpsql.mechanisms.choose_k_bar import GumbelTopKChosenKBar, gumbel_top_k_chosen_k_bar
from dpsql.mechanisms.sampling.noise import DiscreteLaplace, difference_quantile_sf
from dpsql.mechanisms.sampling.numeric import smallest
from dpsql.mechanisms.topk import GaussianTopK, GumbelTopK, gumbel_top_k
from dpsql.mechanisms.topk_laplace import FixedThreshold, LaplaceTopK, overtaking_delta


def _gaussian_top_k(sizes: Sizes, rho: float, delta: float) -> Found:
    noise = gaussian(rho * (1 - 4e-7), sizes.sensitivity, sizes.groups)
    if noise.scale < 1:
        raise budget_too_large("gaussian-top-k")
    mechanism = GaussianTopK(noise, sizes.groups, sizes.k_bar, delta, floor=0)
    tail = difference_quantile_sf(noise.scale, noise.scale, 1 - OFTEN)
    return Found(
        source=mechanism.source,
        drawn=on_integers_with_tail(noise, mechanism.threshold, tail),
        loss=PrivacyLoss(mechanism.rho(None), delta),
        promise=mechanism.promise(sizes.k),
    )


def _gumbel_top_k(sizes: Sizes, rho: float, delta: float) -> Found:
    mechanism = gumbel_top_k(
        rho,
        sensitivity=sizes.sensitivity,
        k=sizes.k,
        k_bar=sizes.k_bar,
        delta=delta,
        floor=0,
        groups=sizes.groups,
    )
    if mechanism is None:
        raise _too_small()
    return Found(
        source=f"{mechanism.source}; promise: Durfee & Rogers 2019, Lemma 8.1",
        drawn=_ranking(mechanism, mechanism),
        loss=PrivacyLoss(mechanism.rho(None), delta),
        promise=mechanism.promise(sizes.k),
        notes=(_picks(mechanism),),
    )


def _gumbel_top_k_chosen_k_bar(sizes: Sizes, rho: float, delta: float) -> Found:
    mechanism = gumbel_top_k_chosen_k_bar(
        rho,
        sensitivity=sizes.sensitivity,
        k=sizes.k,
        k_bar=sizes.k_bar,
        delta=delta,
        floor=0,
    )
    if mechanism is None:
        raise _too_small()
    return Found(
        source=mechanism.source,
        drawn=_ranking(mechanism.widest, mechanism),
        loss=PrivacyLoss(mechanism.rho(None), delta),
        promise=mechanism.promise(sizes.k),
        notes=(
            _picks(mechanism.widest) + ", and one for the choice of k_bar",
            "the threshold is that of the largest k_bar; a smaller one is drawn where it helps",
        ),
    )


def _ranking(mechanism: GumbelTopK, whole: GumbelTopK | GumbelTopKChosenKBar) -> Figures:
    scale = mechanism.sensitivity / mechanism.epsilon
    half, often = whole.appears_above(0.5), whole.appears_above(OFTEN)
    assert half is not None
    assert often is not None
    return Figures(
        distribution="gumbel, exact ranking",
        parameter="b",
        scale=scale,
        std=scale * math.pi / math.sqrt(6),
        threshold=mechanism.threshold,
        appears_half=math.ceil(half),
        appears_95=math.ceil(often),
    )


def _picks(mechanism: GumbelTopK) -> str:
    return (
        f"a pick costs ρ {mechanism.pick_rho:.4g}; {mechanism.k} are reserved, and charged is one "
        "for each released group, plus one where fewer than k came out"
    )


def _laplace_top_k(sizes: Sizes, epsilon: float, delta: float) -> Found:
    each = epsilon / sizes.groups * (1 - 2.0**-48)
    mechanism = LaplaceTopK(each, sizes.groups, sizes.k_bar, delta, floor=0)
    noise = IndependentNoise(DiscreteLaplace(1 / each), 1)
    tail = smallest(
        lambda t: t >= 0 and overtaking_delta(1 / each, 1, t) <= 1 - OFTEN, math.ceil(3 / each)
    )
    drawn = on_integers_with_tail(noise, mechanism.threshold, tail)
    return Found(mechanism.source, drawn, promise=mechanism.promise(sizes.k))


def _fixed_threshold(sizes: Sizes, epsilon: float, delta: float) -> Found:
    """By basic composition, or by advanced composition at half of delta if that is lower."""
    options = (_fixed_threshold_at(sizes.k, epsilon, delta, part) for part in (0.0, delta / 2))
    mechanism = min(options, key=lambda option: option.threshold)
    drawn = on_integers(DiscreteLaplace(1 / mechanism.epsilon_per_group), mechanism.threshold)
    return Found(mechanism.source, drawn, promise=mechanism.promise(sizes.k))


def _fixed_threshold_at(k: int, epsilon: float, delta: float, composition: float) -> FixedThreshold:
    rest = (delta - composition) * (1 - 1e-12)
    per_group = -math.expm1(math.log1p(-rest) / k)

    def at(each: float) -> FixedThreshold:
        return FixedThreshold(each, k, per_group, composition, floor=0)

    low, high = epsilon / k * (1 - 2.0**-40), epsilon
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if at(middle).epsilon <= epsilon else (low, middle)
    return at(low)


def _too_small() -> ParameterError:
    return ParameterError(
        "the budget is too small for this --k", code="noise_scale", hint="Lower --k."
    )


MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name="gaussian-top-k",
        summary="the largest groups with counts, a limited number of groups per unit",
        takes=("k", "k_bar", "groups"),
        may_take=("sensitivity",),
        zcdp=_gaussian_top_k,
        family="top-k",
        noise="gaussian",
        measured=EXCESS,
    ),
    Mechanism(
        name="gumbel-top-k",
        summary="the names of the k largest groups in order, any number of groups per unit",
        takes=("k", "k_bar"),
        may_take=("groups", "sensitivity"),
        zcdp=_gumbel_top_k,
        family="top-k",
        noise="gumbel",
        measured=EXCESS,
    ),
    Mechanism(
        name="gumbel-top-k-chosen-k-bar",
        summary="gumbel-top-k that spends one more pick on choosing k_bar",
        takes=("k", "k_bar"),
        may_take=("sensitivity",),
        zcdp=_gumbel_top_k_chosen_k_bar,
        measured=EXCESS,
    ),
    Mechanism(
        name="laplace-top-k",
        summary="the largest groups with counts, a limited number of groups per unit",
        takes=("k", "k_bar", "groups"),
        one_shot={"exact": _laplace_top_k},
        family="top-k",
        noise="laplace",
        measured=EXCESS,
        instead="gaussian-top-k",
    ),
    Mechanism(
        name="fixed-threshold",
        summary="the names of groups far above the (k+1)-th, any number of groups per unit",
        takes=("k",),
        one_shot={"exact": _fixed_threshold},
        measured="count above the (k+1)-th largest",
        instead="gumbel-top-k",
    ),
)
