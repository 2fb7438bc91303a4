"""Set unions: which keys exist at all."""

from __future__ import annotations

from dpsql.privacy.calculator.values import WEIGHT, Found, Mechanism, found_of, in_steps, registered
from dpsql.privacy.mechanisms.registry import SET_UNIONS, MechanismEntry, Sizes
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS


def _union(union: SetUnion, sizes: Sizes) -> Found:
    cutoff = f"the policy stops raising an item at weight {union.cutoff / UNIT_WEIGHT_STEPS:.6g}"
    notes = (cutoff,) if union.weighting is Weighting.POLICY else ()
    return found_of(union, sizes, in_steps(union.noise, union.threshold, UNIT_WEIGHT_STEPS), *notes)


def _set_union(entry: MechanismEntry[SetUnion]) -> Mechanism:
    weighting, noise, *_ = entry.name.split("_")
    family = f"{weighting}-set-union"
    return registered(entry, _union, ("groups",), family=family, noise=noise, measured=WEIGHT)


SET_UNION_MECHANISMS = tuple(_set_union(entry) for entry in reversed(SET_UNIONS))
