"""Weighting in SQL: a unit keeps more groups than it may contribute to, each for less.

Everything a unit's weight depends on is its own number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.measures import Measure, MeasureKind
from dpsql.mechanisms.weighted_histogram import STEPS
from dpsql.plan import Bounding
from dpsql.query import INTERNAL_PREFIX
from dpsql.quoting import quote
from dpsql.sql.rows import UNIT, PrivateRows

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
    each. Checked by ``tests/test_sensitivity.py``.
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
    return (
        f"WITH {_PAIRS} AS MATERIALIZED ({pairs}), {_SIZES} AS MATERIALIZED ({sizes})",
        f"(SELECT {shown}, {_weight(bounding.groups)} AS {WEIGHT} FROM ({few} UNION ALL {many}))",
    )


def _weight(groups: int) -> str:
    """``weight_of(groups, size)``. The root's argument is below 2**32, so doubles are exact."""
    root = f"CAST(floor(sqrt({groups * STEPS**2} // {_SIZE})) AS BIGINT)"
    return f"CASE WHEN {_SIZE} <= {groups} THEN {STEPS} ELSE {root} END"


def weighted_sum(measure: Measure, contribution: str, reach: int) -> str:
    """The sum of contributions of at most ``reach`` times weights, each rounded towards zero.

    Integer division truncates, as the l2 norm needs. The sum is HUGEINT.
    """
    assert measure.weights is not None
    if measure.kind is MeasureKind.UNITS:
        return f"sum({WEIGHT})"
    wide = "HUGEINT" if reach * STEPS >= 2**63 else "BIGINT"
    product = f"(CAST({contribution} AS {wide}) * {WEIGHT})"
    if measure.weights.coarsening > 1:
        product += f" // {measure.weights.coarsening}"
    return f"coalesce(sum({product}), 0)"
