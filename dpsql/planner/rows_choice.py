"""Prices the choice of the number of rows per unit, from public parameters only."""

from __future__ import annotations

import math
from typing import Final

from dpsql.errors import ParameterError
from dpsql.ir.query import Block
from dpsql.planner.budget import QueryBudget
from dpsql.privacy.mechanisms.rows_choice import RowsChoice, ladder, rows_choice, usual_target
from dpsql.privacy.sampling.numeric import MAX_SCALE

_LEAST_SHARE: Final = 0.05
_TOTAL_SHARE: Final = 0.25
_CUT_OF_AVERAGES: Final = 80.0
"""How many times as many pairs are cut where only averages, spreads and quantiles are asked for.

Rows that are cut are missing from a count, but of an average they are missing above and below: it
is off by how their values differ from those kept, supposed to be an 80th of half its range."""
_GROUPS_NAMED: Final = 50
"""The number of groups that are supposed to come out where nothing public says it."""

_SPARE: Final = 16.0
"""How many times the noise of a count must be in range at the largest number of rows."""


def priced_rows_choice(block: Block, budget: QueryBudget, others: float = 0.0) -> RowsChoice | None:
    """Return the draw of a block's number of rows; None where it is known, or not asked for.

    It aims at the least mean error of a count by group: of the declared groups, of those that a
    top-k shows, or of a usual number of them. ``others`` is the part of the price that goes to
    estimates. The ladder ends before noise would be out of range. None where no draw in range is so
    cheap.
    """
    found = block.rows_found
    if found is None or found.known:
        return None
    groups, limit = _groups(block), block.parameters.groups_limit
    kept = groups if limit is None else min(limit, groups)
    try:
        price = budget.part_beside(rows_share(block), others)
        sigma = math.sqrt(max(1, len(block.measures)) / (2 * budget.noise_rho))
        target = usual_target(groups, kept, sigma)
        if not block.totals:
            target *= _CUT_OF_AVERAGES
        most = math.floor(MAX_SCALE / (_SPARE * kept * sigma))
        return rows_choice(price, ladder(min(most, found.most or most)), target) if most else None
    except ParameterError:
        return None


def rows_share(block: Block) -> float:
    """Return the part of a block's price that chooses its number of rows per unit.

    The noise on a single total is small beside what a wrong number cuts: its choice has a quarter,
    that of several groups less, down to a twentieth, which that of averages has. Found best by
    simulation, over counts of light and heavy tails.
    """
    return max(_LEAST_SHARE, _TOTAL_SHARE / _groups(block)) if block.totals else _LEAST_SHARE


def _groups(block: Block) -> int:
    size = block.domain_size if block.known_domain else _GROUPS_NAMED
    return size if block.top_k is None else min(size, block.top_k.limit)
