"""Set unions: which keys exist at all."""

from __future__ import annotations

from dpsql.accounting.zcdp import PrivacyLoss
from dpsql.calibrate.values import WEIGHT, Calibrate, Found, Mechanism, Sizes, in_steps
from dpsql.mechanisms.set_union import (
    SetUnion,
    Weighting,
    set_union_for_rho,
    set_union_one_shot,
)
from dpsql.mechanisms.set_union_weights import STEPS


def _set_union(weighting: Weighting, norm: int) -> Calibrate:
    def calibrate(sizes: Sizes, rho: float, delta: float) -> Found:
        return _union(set_union_for_rho(weighting, norm, rho, groups=sizes.groups, delta=delta))

    return calibrate


def _set_union_exact(weighting: Weighting, norm: int) -> Calibrate:
    def calibrate(sizes: Sizes, epsilon: float, delta: float) -> Found:
        union = set_union_one_shot(weighting, norm, epsilon, groups=sizes.groups, delta=delta)
        return _union(union)

    return calibrate


def _union(union: SetUnion) -> Found:
    cutoff = f"the policy stops raising an item at weight {union.cutoff / STEPS:.6g}"
    return Found(
        source=union.source,
        drawn=in_steps(union.noise, union.threshold, STEPS),
        loss=PrivacyLoss(union.rho(None), union.delta),
        notes=(cutoff,) if union.weighting is Weighting.POLICY else (),
    )


def _set_unions() -> tuple[Mechanism, ...]:
    return tuple(
        Mechanism(
            name=f"{weighting.value}-{noise}-set-union",
            summary=f"which keys exist; {noise} noise on {what}",
            takes=("groups",),
            zcdp=_set_union(weighting, norm),
            one_shot={"exact": _set_union_exact(weighting, norm)},
            family=f"{weighting.value}-set-union",
            noise=noise,
            measured=WEIGHT,
        )
        for weighting, what in (
            (Weighting.COUNT, "unit counts"),
            (Weighting.WEIGHTED, "equal shares"),
            (Weighting.POLICY, "weights by descent"),
        )
        for norm, noise in ((1, "laplace"), (2, "gaussian"))
    )


MECHANISMS = _set_unions()
