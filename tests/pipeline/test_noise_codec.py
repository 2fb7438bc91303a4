"""The noise of a stored release is read as it was written, and nothing else is read as noise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpsql.errors import LedgerError
from dpsql.ir.plan import ReleaseNoise
from dpsql.pipeline.kept.release_codec import packed_noise, unpacked_noise
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.mechanisms.pooling import PublishedNoise
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

NOISES = [
    IndependentNoise(DiscreteGaussian(3.7), 2),
    IndependentNoise(DiscreteLaplace(0.3), 1),
    CorrelatedGaussian(12.5, 7),
    EllipticGaussian(13.60752461064397, 3.7471519110863794, 128, 3, 20),
]


def release(noise: Any, groups: int = 5) -> ReleaseNoise:
    return ReleaseNoise((PublishedNoise(noise, groups),), None, None, 4.5, alone=False)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_noise_is_read_as_it_was_written(noise: Any) -> None:
    written = json.loads(json.dumps(packed_noise(release(noise))))
    assert unpacked_noise(written, 1) == release(noise)


@pytest.mark.parametrize(
    "changed",
    [
        {"fineness": 3},
        {"fineness": 1},
        {"fineness": 8.0},
        {"fineness": 2**61},
        {"of": 0},
        {"of": True},
        {"of": None},
        {"shared": -1.0},
        {"shared": "1"},
        {"shared": None},
        {"scale": 1e300},
        {"law": "gaussian"},
        {"law": "correlated_gaussian"},
        {"law": ["elliptic_gaussian"]},
        {"more": 1},
    ],
    ids=str,
)
def test_damaged_elliptic_noise_is_refused(changed: dict[str, object]) -> None:
    packed = packed_noise(release(NOISES[-1]))
    packed["measures"] = [packed["measures"][0] | changed]
    with pytest.raises(LedgerError):
        unpacked_noise(packed, 1)


@pytest.mark.parametrize("lost", ["shared", "fineness", "of", "law", "groups"])
def test_elliptic_noise_that_lacks_a_part_is_refused(lost: str) -> None:
    packed = packed_noise(release(NOISES[-1]))
    (law,) = packed["measures"]
    packed["measures"] = [{name: value for name, value in law.items() if name != lost}]
    with pytest.raises(LedgerError):
        unpacked_noise(packed, 1)
