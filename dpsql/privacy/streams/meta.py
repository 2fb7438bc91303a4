"""Any mechanism that answers once, applied to the cells of a tree over a stream."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.additive import Additive, correlated_gaussian, gaussian
from dpsql.privacy.mechanisms.histogram import KnownDomain
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.topk import gaussian_top_k
from dpsql.privacy.streams.factorisation import BaseTree, best_tree
from dpsql.privacy.streams.keyed import StepKey
from dpsql.privacy.streams.mechanism import (
    ChoosesGroups,
    Listed,
    StreamCounts,
    StreamGroups,
    largest_first,
)

_UP = 1 + 1e-12
_DOWN = 1 - 1e-11

Cell = tuple[int, int]
"""A node of the tree: its level, and its number there from 0."""


@dataclass(frozen=True, slots=True)
class CellRelease:
    """The release of a cell: encoded keys of groups and their noisy counts."""

    groups: tuple[bytes, ...]
    counts: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MetaHistogram(ChoosesGroups):
    """A running histogram as the sum of histograms of a tree's cells, each released once.

    The histogram of a cell counts the events of its steps alone; ``selection`` decides which of its
    groups are released, and ``counts`` puts noise on those, unless the selection releases noisy
    counts itself. A step's answer is the sum over the few cells that its count is made of; a group
    that a cell has not released counts nothing there.

    Guarantee, at event level: an event is in one cell of each level, so all steps together cost
    levels times what one cell costs, ``changed`` being how many of a cell's released counts an
    event may change (Rivera Cardoso & Rogers 2022, Algorithm 7 and Theorem 3, which the cost of
    counts makes complete). Checked by ``tests/privacy/streams/test_continual_meta.py``.
    """

    source: ClassVar[str] = "Rivera Cardoso & Rogers 2022, Algorithm 7"
    keeps_steps: ClassVar[bool] = True
    tree: BaseTree
    selection: Selection
    counts: Additive | None
    changed: int

    @property
    def name(self) -> str:
        """The mechanism's standard name."""
        return f"meta_algo_{self.selection.name}"

    @property
    def loss(self) -> PrivacyLoss:
        """The cost of the whole stream."""
        rho = self.selection.rho(None)
        if self.counts is not None:
            rho += self.counts.rho(self.changed)
        levels = self.tree.levels
        return PrivacyLoss(levels * rho * _UP, levels * self.selection.delta * _UP)

    @property
    def cell_noise(self) -> Additive:
        """The noise on the counts that a cell releases."""
        found = self.counts or self.selection.score_noise
        assert found is not None
        return found

    @property
    def choices(self) -> str:
        """How groups are chosen, in words."""
        tree = self.tree
        most = max(len(tree.nodes(step)) for step in range(1, tree.steps + 1))
        missing = "" if isinstance(self.selection, KnownDomain) else ", and nothing elsewhere"
        return (
            f"by each cell of a tree of base {tree.base} with {tree.levels} levels, from the rows "
            f"of its own steps; a step adds up at most {most:,} cells: a group counts in those "
            f"that have released it{missing}"
        )

    def std(self, step: int) -> float:
        """Compute the standard deviation of a count that all cells of a step have released."""
        return math.sqrt(len(self.tree.nodes(step))) * self.cell_noise.std(self.changed)

    def margin(self, step: int, confidence: float) -> float | None:
        """Find the half-width of an interval around a running count, by a union over its cells.

        None where cells release some groups only: what they leave out has no noise.
        """
        if not isinstance(self.selection, KnownDomain):
            return None
        cells = len(self.tree.nodes(step))
        each = 1 - (1 - confidence) / cells
        return cells * self.cell_noise.margin(each, self.changed)

    def half_widths(self, confidence: float) -> NDArray[np.float64] | None:
        """Find the half-widths of all steps, of shape (steps,); None as for :meth:`margin`."""
        found = [self.margin(step, confidence) for step in range(1, self.tree.steps + 1)]
        return None if None in found else np.array(found, dtype=np.float64)

    def answer(self, counts: StreamCounts) -> Listed:
        """Sum the releases of a step's cells, each the same at every reading."""
        released: dict[Cell, CellRelease] = {}
        places: dict[bytes, int] = {}
        for cell in self.tree.nodes(counts.step):
            exact = counts.added(*self.steps_of(cell))
            order = largest_first(counts, exact, self.selection.top_rows_needed)
            names = counts.names(order.tolist())
            released[cell] = self.release_cell(cell, exact[order], names, counts.keys)
            places |= zip(names, order.tolist(), strict=True)
        totals = self.running(counts.step, released)
        found = np.array([places[name] for name in totals], dtype=np.intp)
        return Listed(found, [np.array(list(totals.values()), dtype=np.float64)])

    def completed(self, step: int) -> list[Cell]:
        """List the cells to be released at a step: those that end there and are of use later.

        The last child of a node is not: what ends with it is counted by the node.
        """
        found = []
        for level in range(self.tree.levels):
            node, rest = divmod(step, self.tree.base**level)
            if rest == 0 and node % self.tree.base != 0:
                found.append((level, node - 1))
        return found

    def steps_of(self, cell: Cell) -> tuple[int, int]:
        """Return the first and the last step of a cell."""
        level, node = cell
        width = self.tree.base**level
        return node * width + 1, (node + 1) * width

    def release_cell(
        self,
        cell: Cell,
        scores: NDArray[np.int64],
        groups: Sequence[bytes],
        keys: Sequence[StepKey],
    ) -> CellRelease:
        """Release a cell from the counts of its own steps, in the order the selection needs.

        ``scores`` has shape (groups,), and ``groups`` are the encoded keys. All that is drawn comes
        from the key of its last step: a cell has one answer for ever, which must not be asked of
        two states of the data.
        """
        _, last = self.steps_of(cell)
        source = keys[last - 1].source(f"cell of level {cell[0]}", cell[1])
        selected = self.selection.select(scores, source)
        noisy = selected.noisy
        if noisy is None or self.counts is not None:
            assert self.counts is not None
            noisy = self.counts.add(scores[selected.indices], source)
        names = tuple(groups[int(i)] for i in selected.indices)
        return CellRelease(names, tuple(float(value) for value in noisy))

    def running(self, step: int, released: Mapping[Cell, CellRelease]) -> dict[bytes, float]:
        """Sum the noisy running counts at a step, by encoded key, from what its cells released.

        Raises ParameterError if one of them is missing.
        """
        totals: dict[bytes, float] = {}
        for cell in self.tree.nodes(step):
            part = released.get(cell)
            if part is None:
                raise ParameterError("a cell of this step is missing", code="bad_parameter")
            for group, count in zip(part.groups, part.counts, strict=True):
                totals[group] = totals.get(group, 0.0) + count
        return totals


def meta_histogram(
    price: PrivacyLoss,
    steps: int,
    among: StreamGroups,
    *,
    k: int | None = None,
    groups: int | None = None,
    sensitivity: int = 1,
) -> MetaHistogram | None:
    """Build the histogram that costs at most the rho and delta of ``price``.

    An event is in at most ``groups`` groups: of declared ones all have noise, of unknown keys each
    cell releases those above its threshold. Without that number, it is in any number of them, and
    each cell releases its k largest: half of rho is for their counts then. None if rho is too small
    for a selection at so small a delta. Raises ParameterError for parameters out of range.
    """
    tree = best_tree(steps)
    rho, delta = price.rho / tree.levels, price.delta / tree.levels * _DOWN
    if groups is not None and among.size is not None:
        noise = gaussian(PrivacyLoss(rho * _DOWN), sensitivity, groups)
        return MetaHistogram(tree, KnownDomain(among.size), noise, groups)
    if groups is not None:
        above = gaussian_top_k(
            PrivacyLoss(rho * _DOWN, delta),
            sensitivity=sensitivity,
            groups=groups,
            k_bar=among.k_bar,
            floor=among.floor,
        )
        return MetaHistogram(tree, above, None, groups)
    assert k is not None, "either number bounds what a cell releases"
    k = k if among.size is None else min(k, among.size)
    selection = among.top_k(PrivacyLoss(rho / 2 * _DOWN, delta), sensitivity, k)
    if selection is None:
        return None
    counts = correlated_gaussian(PrivacyLoss(rho / 2 * _DOWN), sensitivity, k)
    return MetaHistogram(tree, selection, counts, k)
