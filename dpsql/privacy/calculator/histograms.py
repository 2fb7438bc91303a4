"""Unknown keys: every group that is large enough to be named, by its count or by set unions."""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.calculator.values import (
    COUNT,
    LEBEDA,
    WEIGHT,
    Calibrate,
    Found,
    Mechanism,
    found_of,
    in_steps,
    on_integers,
    on_reals,
    registered,
)
from dpsql.privacy.mechanisms.registry import (
    GAUSSIAN_POSITIVE_COUNTS,
    GAUSSIAN_SPARSE_HISTOGRAM,
    HISTOGRAMS,
    JOINT_HISTOGRAMS,
    LAPLACE_POSITIVE_COUNTS,
    SET_UNIONS,
    WEIGHTED_POSITIVE_COUNTS,
    WEIGHTED_SPARSE_HISTOGRAM,
    Family,
    MechanismEntry,
    Sizes,
    weights,
)
from dpsql.privacy.mechanisms.selection import Histogram
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS
from dpsql.privacy.mechanisms.sparse_histogram import DeltaAnalysis, calibrate_sparse_histogram


def _histogram(mechanism: Histogram, sizes: Sizes) -> Found:
    noise = mechanism.score_noise
    if noise.sensitivity == 1:
        return found_of(mechanism, sizes, on_integers(noise.noise, mechanism.threshold))
    kept = f"a unit keeps up to {weights(sizes).kept:,} groups"
    more = f"with more than {sizes.groups:,} each weighs less"
    drawn = in_steps(noise.noise, mechanism.threshold, noise.sensitivity)
    return found_of(mechanism, sizes, drawn, f"{kept}; {more}")


def _laplace_positive_counts_once(sizes: Sizes, price: PrivacyLoss) -> Found:
    found = _histogram(LAPLACE_POSITIVE_COUNTS.built(sizes, price), sizes)
    return replace(found, source="Gopi et al. 2020, Section 1.1, releasing the counts as well")


def _sparse_histogram(analysis: DeltaAnalysis) -> Calibrate:
    def calibrate(sizes: Sizes, price: PrivacyLoss) -> Found:
        found = calibrate_sparse_histogram(price.epsilon, price.delta, sizes.groups, analysis)
        continuous = on_reals("gaussian, continuous", found.sigma, found.tau, found.sigma)
        if analysis is not DeltaAnalysis.EXACT:
            note = "for comparison: what is drawn is calibrated by the exact analysis"
            return Found(source=f"{LEBEDA}, Lemma 2.6", continuous=continuous, notes=(note,))
        drawn = GAUSSIAN_SPARSE_HISTOGRAM.built(sizes, price)
        shown = math.log1p(-drawn.score_noise.noise.sf(drawn.threshold - 1))
        own_delta = -math.expm1(sizes.groups * shown) * (1 + 1e-12)
        return Found(
            source=drawn.source,
            drawn=on_integers(drawn.score_noise.noise, drawn.threshold),
            continuous=continuous,
            loss=PrivacyLoss(drawn.score_noise.rho(sizes.groups), own_delta),
        )

    return calibrate


_NAMED: dict[str, Mechanism] = {
    LAPLACE_POSITIVE_COUNTS.name: replace(
        registered(
            LAPLACE_POSITIVE_COUNTS,
            _histogram,
            takes=("groups",),
            family="positive-counts",
            noise="laplace",
        ),
        one_shot={"exact": _laplace_positive_counts_once},
    ),
    GAUSSIAN_POSITIVE_COUNTS.name: registered(
        GAUSSIAN_POSITIVE_COUNTS,
        _histogram,
        takes=("groups",),
        family="positive-counts",
        noise="gaussian",
        instead="gaussian-sparse-histogram",
    ),
    GAUSSIAN_SPARSE_HISTOGRAM.name: Mechanism(
        name="gaussian-sparse-histogram",
        summary=GAUSSIAN_SPARSE_HISTOGRAM.answers,
        takes=("groups",),
        one_shot={
            "exact": _sparse_histogram(DeltaAnalysis.EXACT),
            "add-the-deltas": _sparse_histogram(DeltaAnalysis.ADD_THE_DELTAS),
        },
        aliases=("gshm",),
        k_is_groups=True,
        instead="gaussian-positive-counts",
    ),
}
_INSTEAD = {
    WEIGHTED_POSITIVE_COUNTS.name: "weighted-gaussian-sparse-histogram",
    WEIGHTED_SPARSE_HISTOGRAM.name: "weighted-gaussian-positive-counts",
}

HISTOGRAM_MECHANISMS: tuple[Mechanism, ...] = (
    *_NAMED.values(),
    *(
        registered(
            entry,
            _histogram,
            takes=("groups",),
            measured=WEIGHT if entry.family is Family.WEIGHTED else COUNT,
            instead=_INSTEAD.get(entry.name),
        )
        for entry in (*HISTOGRAMS, *JOINT_HISTOGRAMS)
        if entry.name not in _NAMED
    ),
)
"""Those with more than one name or analysis, then all others of the registry."""


def _union(union: SetUnion, sizes: Sizes) -> Found:
    cutoff = f"the policy stops raising an item at weight {union.cutoff / UNIT_WEIGHT_STEPS:.6g}"
    notes = (cutoff,) if union.weighting is Weighting.POLICY else ()
    return found_of(union, sizes, in_steps(union.noise, union.threshold, UNIT_WEIGHT_STEPS), *notes)


def _set_union(entry: MechanismEntry[SetUnion]) -> Mechanism:
    weighting, noise, *_ = entry.name.split("_")
    family = f"{weighting}-set-union"
    return registered(entry, _union, ("groups",), family=family, noise=noise, measured=WEIGHT)


SET_UNION_MECHANISMS = tuple(_set_union(entry) for entry in reversed(SET_UNIONS))
