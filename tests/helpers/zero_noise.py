"""Noise of zero, for tests of exact answers: the product has no such switch."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.privacy.mechanisms import choose_k_bar, known_topk, topk, topk_laplace
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK
from dpsql.privacy.mechanisms.histogram import PositiveCounts
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.privacy.sampling.noise import LatticeNoise
from dpsql.privacy.streams.streams import ContinualHistogram
from dpsql.views.noise import ViewNoise


def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have draws be zero, and every group above the minimum named, in the exact order."""

    def zeros(self: LatticeNoise, n: int, source: EntropySource) -> NDArray[np.int64]:
        return np.zeros(n, dtype=np.int64)

    def exact_order(
        scores: Sequence[Fraction | int] | NDArray[np.int64],
        epsilon: float,
        offsets: NDArray[np.float64] | None,
        limit: int,
        source: EntropySource,
    ) -> NDArray[np.intp]:
        return np.argsort(-np.asarray(scores), kind="stable")[:limit]

    monkeypatch.setattr(LatticeNoise, "sample", zeros)
    monkeypatch.setattr(PositiveCounts, "threshold", property(lambda self: self.floor))
    monkeypatch.setattr(SetUnion, "threshold", property(lambda self: 0))
    monkeypatch.setattr(topk.GaussianTopK, "threshold", property(lambda self: 0))
    monkeypatch.setattr(CorrelatedTopK, "half_steps", property(lambda self: 0))
    for laplace in (topk_laplace.LaplaceTopK, topk_laplace.FixedThreshold):
        monkeypatch.setattr(laplace, "threshold", property(lambda self: 0))
    for module in (topk, known_topk, choose_k_bar):
        monkeypatch.setattr(module, "gumbel_order", exact_order)


def silence_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the steps of views be exact, with every group that anybody is in."""
    drawn = ViewNoise.at

    def none(self: ViewNoise, *arguments: Any, **named: Any) -> list[NDArray[np.int64]]:
        return [np.zeros_like(each) for each in drawn(self, *arguments, **named)]

    def shown(self: Any, step: int, exact: NDArray[np.int64], *_: Any) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = exact > 0
        return found

    monkeypatch.setattr(ViewNoise, "at", none)
    monkeypatch.setattr(ContinualHistogram, "shown", shown)
