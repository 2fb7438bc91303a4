"""Weighting in SQL: a unit keeps more groups than it may contribute to, each for less.

Everything a unit's weight depends on is its own number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.core.quoting import INTERNAL_PREFIX, quote
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import Bounding
from dpsql.mechanisms.weighted_histogram import STEPS
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.rewrite.rows import UNIT, PrivateRows

WEIGHT = quote(f"{INTERNAL_PREFIX}weight")
"""The column of a unit's weight, an integer, in the rows of ``weighted``."""
_SIZE = quote(f"{INTERNAL_PREFIX}size")
_PAIRS = quote(f"{INTERNAL_PREFIX}pairs")
_SIZES = quote(f"{INTERNAL_PREFIX}sizes")


def weighted(
    rows: PrivateRows, bounding: Bounding, pairs: str, columns: Sequence[str]
) -> tuple[str, str]:
    """A WITH clause and a FROM clause: ``pairs`` (one row per unit and keys) with their weights.

    The FROM clause has the keys, ``columns`` and WEIGHT. A unit with more than ``bounding.kept``
    pairs keeps its first ones in the order of a salted hash; only such units are sorted, which is
    faster than one window over all. A unit that has n pairs left weighs ``weight_of(groups, n)`` in
    each. Checked by ``tests/sql/test_sensitivity.py``.
    """
    sizes = (
        f"SELECT {UNIT}, count(*) AS {_SIZE} FROM {_PAIRS} GROUP BY {UNIT} "
        f"HAVING count(*) > {bounding.groups}"
    )
    shown = ", ".join([*rows.keys, *columns])
    # A unit without a size has no more pairs than it may contribute to.
    size = f"coalesce({_SIZE}, {bounding.groups})"
    few = (
        f"SELECT {shown}, {size} AS {_SIZE} FROM {_PAIRS} LEFT JOIN {_SIZES} USING ({UNIT}) "
        f"WHERE {size} <= {bounding.kept}"
    )
    crowded = (
        f"SELECT * FROM {_PAIRS} JOIN "
        f"(SELECT {UNIT} FROM {_SIZES} WHERE {_SIZE} > {bounding.kept}) USING ({UNIT})"
    )
    many = f"SELECT {shown}, {bounding.kept} AS {_SIZE} FROM {rows.capped(crowded)}"
    weight = f"{_weight(bounding.groups).sql} AS {WEIGHT}"
    return (
        f"WITH {_PAIRS} AS MATERIALIZED ({pairs}), {_SIZES} AS MATERIALIZED ({sizes})",
        f"(SELECT {shown}, {weight} FROM ({few} UNION ALL {many}))",
    )


def _weight(groups: int) -> Ranged:
    """``weight_of(groups, size)``. The root's argument is below 2**32, so doubles are exact."""
    size = column(_SIZE, 1, MOST_ROWS)
    return size.split(groups, STEPS, lambda many: (groups * STEPS**2 // many).root())


def weighted_sum(measure: Measure, contribution: Ranged) -> Ranged:
    """The sum of contributions times weights, each product divided and rounded towards zero.

    Integer division truncates, as the l2 norm needs.
    """
    assert measure.weights is not None
    weight = column(WEIGHT, 0, STEPS)
    if measure.kind is MeasureKind.UNITS:
        return weight.sum()
    product = contribution.narrowed() * weight
    if measure.weights.coarsening > 1:
        product = product // measure.weights.coarsening
    return product.sum().or_zero()
