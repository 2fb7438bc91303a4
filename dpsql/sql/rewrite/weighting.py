"""Weighting in SQL: a unit keeps more groups than it may contribute to, each for less.

Everything a unit's weight depends on is its own number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dpsql.core.sql import Sql, join, sql
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.privacy.mechanisms.weighted_histogram import MOST_NORM, SQUARE_STEPS, WEIGHT_STEPS
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.rewrite.rows import PrivateRows

UNIT_WEIGHT: Final = "weight"
"""The internal column of a unit's weight."""
_ROOMY: Final = 2**48


def weighted(
    rows: PrivateRows, bounding: Bounding, pairs: Sql, columns: Sequence[Sql]
) -> tuple[Sql, Sql]:
    """Write the WITH and FROM clauses of ``pairs`` (one row per unit and keys) with their weights.

    The FROM clause has the keys, ``columns`` and the unit's weight, an integer. A unit with more
    than ``bounding.kept`` pairs keeps its first ones in the order of a salted hash; only such units
    are sorted, which is faster than one window over all. A unit that has n pairs left weighs
    ``weight_of(groups, n)`` in each. Checked by ``tests/sql/test_sensitivity.py``.
    """
    derived, unit = rows.dialect.derived, rows.unit
    size, all_pairs, all_sizes = (rows.internal(name) for name in ("size", "pairs", "sizes"))
    sizes = sql(
        "SELECT {unit}, count(*) AS {size} FROM {all_pairs} GROUP BY {unit} HAVING "
        "count(*) > {groups}",
        unit=unit,
        size=size,
        all_pairs=all_pairs,
        groups=bounding.groups,
    )
    shown = join(", ", [*rows.keys, *columns])
    # A unit without a size has no more pairs than it may contribute to.
    known = sql("coalesce({}, {})", size, bounding.groups)
    few = sql(
        "SELECT {shown}, {known} AS {size} FROM {all_pairs} LEFT JOIN {all_sizes} "
        "USING ({unit}) WHERE {known} <= {kept}",
        shown=shown,
        known=known,
        size=size,
        all_pairs=all_pairs,
        all_sizes=all_sizes,
        unit=unit,
        kept=bounding.kept,
    )
    units = derived(
        sql(
            "SELECT {unit} FROM {all_sizes} WHERE {size} > {kept}",
            unit=unit,
            all_sizes=all_sizes,
            size=size,
            kept=bounding.kept,
        )
    )
    crowded = sql("SELECT * FROM {} JOIN {} USING ({})", all_pairs, units, unit)
    many = sql(
        "SELECT {shown}, {kept} AS {size} FROM {}",
        rows.capped(crowded),
        shown=shown,
        kept=bounding.kept,
        size=size,
    )
    weight = sql("{} AS {}", unit_weight(rows, bounding.groups).sql, rows.internal(UNIT_WEIGHT))
    stored = ((all_pairs, pairs), (all_sizes, sizes))
    steps = [rows.dialect.materialized(name, written) for name, written in stored]
    both = derived(sql("{} UNION ALL {}", few, many))
    return sql("WITH {}", join(", ", steps)), derived(
        sql("SELECT {}, {} FROM {}", shown, weight, both)
    )


def unit_weight(rows: PrivateRows, groups: int) -> Ranged:
    """Compute ``weight_of(groups, size)``, in steps, of the column ``size``.

    The root's argument is below 2**32: doubles are exact.
    """
    size = column(rows.internal("size"), 1, MOST_ROWS, dialect=rows.dialect)
    return size.split(groups, WEIGHT_STEPS, lambda many: (groups * WEIGHT_STEPS**2 // many).root())


def weight_within(squares: Ranged, groups: int) -> Ranged:
    """Compute the weight, in steps, of a unit by its squared l2 norm, as ``weights_within`` does.

    The root's argument is at most 2**32: doubles are exact.
    """
    most = groups * SQUARE_STEPS

    def less(many: Ranged) -> Ranged:
        return (most * WEIGHT_STEPS**2 // many).narrowed().root()

    return squares.split(most, WEIGHT_STEPS, less)


def rows_within(plan: BlockPlan) -> int:
    """Return how many rows of a unit count in a group, where its l2 norm is bounded besides.

    A number that is given bounds each group. One that was drawn is a scale of norms, and far more
    rows count. Where integers have no room for that, as of values with far ends, it bounds each
    group as well; so it does where all that is counted are units.
    """
    rows, found = plan.block.parameters.rows_limit, plan.block.bounds_found
    reach = max((noisy.measure.reach(rows) for noisy in plan.measures), default=1)
    scale = any(noisy.measure.bounded_by_rows for noisy in plan.measures)
    if found is None or not (found.known and found.rows and scale) or reach > _ROOMY:
        return rows
    most = rows * MOST_NORM
    return most if found.most_rows is None else max(rows, min(most, found.most_rows))


def weighted_sum(
    rows: PrivateRows, measure: Measure, contribution: Ranged, weight_name: str = UNIT_WEIGHT
) -> Ranged:
    """Sum contributions times weights, each product divided and rounded towards zero.

    Integer division truncates, as the l2 norm needs. ``weight_name`` is the weight's column.
    """
    assert measure.weights is not None
    weight = column(rows.internal(weight_name), 0, WEIGHT_STEPS, dialect=rows.dialect)
    if measure.kind is MeasureKind.UNITS:
        return weight.sum()
    product = contribution.narrowed() * weight
    if measure.weights.coarsening > 1:
        product = product // measure.weights.coarsening
    return product.sum().or_zero()
