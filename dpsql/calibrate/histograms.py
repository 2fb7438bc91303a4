"""Unknown keys: every group that is large enough to be named."""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.accounting.zcdp import PrivacyLoss
from dpsql.calibrate.values import (
    LEBEDA,
    WEIGHT,
    Calibrate,
    Found,
    Mechanism,
    Sizes,
    in_steps,
    on_integers,
    on_reals,
)
from dpsql.mechanisms.additive import IndependentNoise, gaussian, laplace, one_shot_laplace
from dpsql.mechanisms.histogram import PositiveCounts
from dpsql.mechanisms.sparse_histogram import (
    Analysis,
    calibrate_sparse_histogram,
    sparse_histogram,
)
from dpsql.mechanisms.weighted_histogram import (
    STEPS,
    Weights,
    kept_groups,
    weighted_positive_counts,
    weighted_sparse_histogram,
)


def _laplace_positive_counts(sizes: Sizes, rho: float, delta: float) -> Found:
    return _positive_counts(laplace(rho, 1, sizes.groups), sizes.groups, delta)


def _gaussian_positive_counts(sizes: Sizes, rho: float, delta: float) -> Found:
    return _positive_counts(gaussian(rho, 1, sizes.groups), sizes.groups, delta)


def _laplace_positive_counts_exact(sizes: Sizes, epsilon: float, delta: float) -> Found:
    """(epsilon, delta)-DP: epsilon for the noise and delta for the threshold, neither divided.

    Of the ``groups`` groups that a unit raises by one let j exist without it, and let psi >=
    1 - delta be the chance that none of the others, which only the unit has, is released. With the
    unit an event has probability at most 1 - psi plus e^(j/b) times that without it. Without the
    unit it has A <= e^(j/b) B, where B psi is at most that with the unit: A exceeds e^epsilon times
    that by at most A (1 - psi). Checked by ``tests/calibrate/test_calibrate.py``.
    """
    found = _positive_counts(one_shot_laplace(epsilon, 1, sizes.groups), sizes.groups, delta)
    return replace(found, source="Gopi et al. 2020, Section 1.1, releasing the counts as well")


def _positive_counts(noise: IndependentNoise, groups: int, delta: float) -> Found:
    mechanism = PositiveCounts(noise, groups, delta, floor=0)
    drawn = on_integers(noise.noise, mechanism.threshold)
    return Found(mechanism.source, drawn, loss=PrivacyLoss(mechanism.rho(None), delta))


def _sparse_histogram(analysis: Analysis) -> Calibrate:
    def calibrate(sizes: Sizes, epsilon: float, delta: float) -> Found:
        found = calibrate_sparse_histogram(epsilon, delta, sizes.groups, analysis)
        drawn = sparse_histogram(epsilon, delta, sizes.groups)
        shown = math.log1p(-drawn.score_noise.noise.sf(drawn.threshold - 1))
        own_delta = -math.expm1(sizes.groups * shown) * (1 + 1e-12)
        return Found(
            source=drawn.source if analysis is Analysis.EXACT else f"{LEBEDA}, Lemma 2.6",
            drawn=on_integers(drawn.score_noise.noise, drawn.threshold),
            continuous=on_reals("gaussian, continuous", found.sigma, found.tau, found.sigma),
            loss=PrivacyLoss(drawn.score_noise.rho(sizes.groups), own_delta),
        )

    return calibrate


def _weighted_positive_counts(sizes: Sizes, rho: float, delta: float) -> Found:
    mechanism = weighted_positive_counts(rho, delta, _weights(sizes))
    return Found(
        source=mechanism.source,
        drawn=in_steps(mechanism.noise, mechanism.threshold, STEPS),
        loss=PrivacyLoss(mechanism.rho(None), delta),
        notes=_kept(sizes),
    )


def _weighted_sparse_histogram(sizes: Sizes, epsilon: float, delta: float) -> Found:
    mechanism = weighted_sparse_histogram(epsilon, delta, _weights(sizes))
    drawn = in_steps(mechanism.noise, mechanism.threshold, STEPS)
    return Found(mechanism.source, drawn, notes=_kept(sizes))


def _weights(sizes: Sizes) -> Weights:
    return Weights(sizes.groups, kept_groups(sizes.groups))


def _kept(sizes: Sizes) -> tuple[str, ...]:
    kept = kept_groups(sizes.groups)
    return (
        f"a unit keeps up to {kept:,} groups; with more than {sizes.groups:,} each weighs less",
    )


MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name="laplace-positive-counts",
        summary="unknown keys; groups whose noisy unit count exceeds a threshold",
        takes=("groups",),
        zcdp=_laplace_positive_counts,
        one_shot={"exact": _laplace_positive_counts_exact},
        family="positive-counts",
        noise="laplace",
    ),
    Mechanism(
        name="gaussian-positive-counts",
        summary="unknown keys; groups whose noisy unit count exceeds a threshold",
        takes=("groups",),
        zcdp=_gaussian_positive_counts,
        family="positive-counts",
        noise="gaussian",
        instead="gaussian-sparse-histogram",
    ),
    Mechanism(
        name="gaussian-sparse-histogram",
        summary="gaussian-positive-counts by its (epsilon, delta) analyses",
        takes=("groups",),
        one_shot={
            "exact": _sparse_histogram(Analysis.EXACT),
            "add-the-deltas": _sparse_histogram(Analysis.ADD_THE_DELTAS),
        },
        aliases=("gshm",),
        k_is_groups=True,
        instead="gaussian-positive-counts",
    ),
    Mechanism(
        name="weighted-gaussian-positive-counts",
        summary="gaussian-positive-counts; units keep more groups, each for less",
        takes=("groups",),
        zcdp=_weighted_positive_counts,
        measured=WEIGHT,
        instead="weighted-gaussian-sparse-histogram",
    ),
    Mechanism(
        name="weighted-gaussian-sparse-histogram",
        summary="gaussian-sparse-histogram; units keep more groups, each for less",
        takes=("groups",),
        one_shot={"exact": _weighted_sparse_histogram},
        measured=WEIGHT,
        instead="weighted-gaussian-positive-counts",
    ),
)
