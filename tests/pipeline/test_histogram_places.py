"""Histograms of groups are told apart by row ids, which are large where engines are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpsql.kinds.quantiles import _histograms


class Scratch:
    """Counts of groups as an engine sends them, in no order."""

    def integers(self, sql: str, given: list[int]) -> list[Any]:
        counts = [(given[2], 7, 70), (given[0], 1, 10), (given[2], 5, 50)]
        return [np.array(column, dtype=np.int64) for column in zip(*counts, strict=True)]


class Statements:
    """A statement for one ranked value."""

    counts = (("ranked", "SELECT"),)


@pytest.mark.parametrize("ids", [[1, 2, 3], [2**33 + 1, 1, 2**60], [9, 4, 2**62]])
def test_counts_go_to_their_groups_whatever_numbers_these_have(ids: list[int]) -> None:
    found = _histograms(Statements(), Scratch())("ranked", np.array(ids))  # type: ignore[arg-type]
    assert found.ends.tolist() == [1, 1, 3]
    assert found.points.tolist() == [1, 7, 5]
    assert found.counts.tolist() == [10, 70, 50]


def test_no_groups_have_no_counts() -> None:
    class Empty(Scratch):
        def integers(self, sql: str, given: list[int]) -> list[Any]:
            return [np.array([], dtype=np.int64)] * 3

    found = _histograms(Statements(), Empty())("ranked", np.array([], dtype=np.int64))  # type: ignore[arg-type]
    assert found.ends.tolist() == []
