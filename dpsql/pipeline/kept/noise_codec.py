"""The noise in a release as JSON values and back: its laws are public, like the plan it was of."""

from __future__ import annotations

import math
from typing import Any, Final

from dpsql.errors import ParameterError
from dpsql.ir.plan import ReleaseNoise
from dpsql.kinds.stored_json import corrupt_release, require_sound
from dpsql.privacy.mechanisms.pooling import PublishedNoise, noise_of_law

_FIELDS: Final = frozenset({"measures", "decided", "appears_half", "appears_95", "alone"})
_SCALES: Final = frozenset({"scale", "shared"})
_MOST: Final = 2**62  # of sensitivities and numbers of groups


def packed_noise(noise: ReleaseNoise) -> dict[str, Any]:
    """Write the noise of a release as values that JSON has."""
    return {
        "measures": [each.law for each in noise.measures],
        "decided": noise.decided,
        "appears_half": noise.appears_half,
        "appears_95": noise.appears_95,
        "alone": noise.alone,
    }


def unpacked_noise(packed: object, measures: int) -> ReleaseNoise | None:
    """Read the noise of a release of so many measures.

    Raises ``LedgerError`` (``ledger_corrupt``) for what :func:`packed_noise` does not write.
    """
    if packed is None:
        return None
    require_sound(isinstance(packed, dict) and packed.keys() == _FIELDS)
    found: dict[str, Any] = packed  # type: ignore[assignment]
    laws, decided = found["measures"], found["decided"]
    require_sound(isinstance(laws, list) and len(laws) == measures)
    require_sound(decided is None or (type(decided) is int and decided >= 0))
    half, surely = found["appears_half"], found["appears_95"]
    require_sound(all(size is None or _is_finite(size) for size in (half, surely)))
    require_sound(type(found["alone"]) is bool)
    return ReleaseNoise(tuple(map(_law, laws)), decided, half, surely, found["alone"])


def _law(packed: object) -> PublishedNoise:
    require_sound(isinstance(packed, dict))
    found: dict[str, Any] = packed  # type: ignore[assignment]
    require_sound(found.keys() >= {"law", "groups"})
    law, groups = found["law"], found["groups"]
    require_sound(type(law) is str)
    require_sound(type(groups) is int and 0 <= groups < _MOST)
    parameters = {name: found[name] for name in found.keys() - {"law", "groups"}}
    for name, value in parameters.items():
        whole = type(value) is int and 0 < value < _MOST
        require_sound(_is_finite(value) if name in _SCALES else whole)
        parameters[name] = float(value) if name in _SCALES else value
    try:
        return noise_of_law(law, groups, parameters)
    except ParameterError:
        raise corrupt_release() from None


def _is_finite(value: object) -> bool:
    if type(value) is int:
        return abs(value) < _MOST
    return type(value) is float and math.isfinite(value)
