"""The exact delta of one release of a top-k with shared noise."""

from __future__ import annotations

from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK, _one_shot_bound
from dpsql.privacy.mechanisms.sparse_histogram import worst_over


def one_shot_delta(mechanism: CorrelatedTopK, epsilon: float) -> float:
    """A delta with which one release is (epsilon, delta)-DP, rounded up."""
    return min(1.0, worst_over(0, mechanism.k_bar, _one_shot_bound(mechanism, epsilon)))
