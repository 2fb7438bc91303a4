"""The noise in a release as JSON values and back: its laws are public, like the plan it was of."""

from __future__ import annotations

import math
from typing import Any, Final

from dpsql.errors import ParameterError
from dpsql.ir.plan import ReleaseNoise
from dpsql.pipeline.kept.damaged_release import corrupt_release, require_sound
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.combination import PublishedNoise
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

_FIELDS: Final = frozenset({"measures", "decided", "appears_half", "appears_95", "alone"})
_LAWS: Final = frozenset({"law", "scale", "sensitivity", "groups"})
_ELLIPTIC: Final = _LAWS | {"shared", "fineness", "of"}
_MOST: Final = 2**62  # of sensitivities and numbers of groups


def packed_noise(noise: ReleaseNoise) -> dict[str, Any]:
    """Write the noise of a release as values that JSON has."""
    return {
        "measures": [
            {
                "law": each.noise.name,
                "scale": each.noise.scale,
                "sensitivity": each.noise.sensitivity,
                "groups": each.groups,
                **_shared_law(each.noise),
            }
            for each in noise.measures
        ],
        "decided": noise.decided,
        "appears_half": noise.appears_half,
        "appears_95": noise.appears_95,
        "alone": noise.alone,
    }


def _shared_law(noise: IndependentNoise | CorrelatedGaussian | EllipticGaussian) -> dict[str, Any]:
    if not isinstance(noise, EllipticGaussian):
        return {}
    return {"shared": noise.shared, "fineness": noise.fineness, "of": noise.of}


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
    elliptic = found.get("law") == EllipticGaussian.name
    require_sound(found.keys() == (_ELLIPTIC if elliptic else _LAWS))
    sensitivity, groups = found["sensitivity"], found["groups"]
    require_sound(type(sensitivity) is int and 0 < sensitivity < _MOST)
    require_sound(type(groups) is int and 0 <= groups < _MOST)
    require_sound(_is_finite(found["scale"]))
    scale = float(found["scale"])
    try:
        match found["law"]:
            case "gaussian":
                return PublishedNoise(
                    IndependentNoise(DiscreteGaussian(scale), sensitivity), groups
                )
            case "laplace":
                return PublishedNoise(IndependentNoise(DiscreteLaplace(scale), sensitivity), groups)
            case "correlated_gaussian":
                DiscreteGaussian(2 * scale)  # which refuses what is out of range
                DiscreteGaussian(2 * scale / max(1, groups) ** 0.25)
                return PublishedNoise(CorrelatedGaussian(scale, sensitivity), groups)
            case EllipticGaussian.name:
                return PublishedNoise(_elliptic(found, scale, sensitivity), groups)
    except ParameterError:
        pass
    raise corrupt_release()


def _elliptic(found: dict[str, Any], scale: float, sensitivity: int) -> EllipticGaussian:
    fineness, of = found["fineness"], found["of"]
    require_sound(_is_finite(found["shared"]))
    require_sound(all(type(size) is int and 0 < size < _MOST for size in (fineness, of)))
    return EllipticGaussian(scale, float(found["shared"]), fineness, sensitivity, of)


def _is_finite(value: object) -> bool:
    if type(value) is int:
        return abs(value) < _MOST
    return type(value) is float and math.isfinite(value)
