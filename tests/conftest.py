"""Fixtures shared by the end-to-end tests."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.mechanisms import choose_k_bar, known_topk, topk, topk_laplace
from dpsql.mechanisms.correlated_topk import CorrelatedTopK
from dpsql.mechanisms.entropy import EntropySource
from dpsql.mechanisms.histogram import PositiveCounts
from dpsql.mechanisms.noise import LatticeNoise
from dpsql.mechanisms.set_union import SetUnion


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are zero and every group above the minimum is named, in the exact order.

    Done by replacing internals for the length of a test: the product has no such switch.
    """

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
