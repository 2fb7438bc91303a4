"""Every mechanism that can be calibrated, by name."""

from __future__ import annotations

from difflib import get_close_matches

from dpsql.errors import ParameterError
from dpsql.privacy.calculator import histograms, known_domain, topk
from dpsql.privacy.calculator.request import flag, refused
from dpsql.privacy.calculator.values import Mechanism

MECHANISMS: tuple[Mechanism, ...] = (
    *known_domain.KNOWN_DOMAIN_MECHANISMS,
    *histograms.HISTOGRAM_MECHANISMS,
    *topk.TOP_K_MECHANISMS,
    *topk.CORRELATED_MECHANISMS,
    *histograms.SET_UNION_MECHANISMS,
)


def find_mechanism(name: str, noise: str | None = None) -> Mechanism:
    """Find a mechanism by name or alias, or the member of a family with this noise.

    Underscores count as hyphens. Raises ParameterError if there is none.
    """
    wanted = name.lower().replace("_", "-")
    family = [m for m in MECHANISMS if wanted == m.family]
    found = family or [m for m in MECHANISMS if wanted in m.names]
    if not found:
        raise _unknown(name, wanted)
    noises = ", ".join(m.noise for m in found if m.noise)
    if family and noise is None:
        raise refused(f"{wanted} needs {flag('noise')}", hint=f"Possible: {noises}.")
    for mechanism in found:
        if noise in (None, mechanism.noise):
            return mechanism
    hint = f"Possible: {noises}." if noises else f"Leave {flag('noise')} out."
    raise refused(f"{wanted} does not come with {flag('noise')} {noise}", hint=hint)


def _unknown(name: str, wanted: str) -> ParameterError:
    known = {known for m in MECHANISMS for known in (*m.names, m.family) if known}
    near = get_close_matches(wanted, sorted(known), n=3, cutoff=0.7)
    hint = f"Did you mean {' or '.join(near)}?" if near else "See dpsql calibrate --help."
    return ParameterError(f"there is no mechanism {name}", code="unknown_mechanism", hint=hint)
