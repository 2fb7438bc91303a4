"""Measures in SQL: what a row adds, what a unit adds to a group, what a group has in all.

Values are integers on the measure's lattice from the first step on, so that sums are exact and do
not depend on the order of rows.
"""

from __future__ import annotations

from dpsql.measures import Lattice, Measure, MeasureKind
from dpsql.sql.weighting import weighted_sum

_SATURATION = 2**62


def step(measure: Measure, name: str, *, exact: bool) -> str:
    """What a row's value ``name`` counts as: in lattice steps within its bounds, NULL for none.

    ``exact`` values are never NaN.
    """
    lattice = measure.lattice
    if lattice is not None:
        if lattice.root:
            return _squared(lattice.root, name, exact=exact)
        return clamped_step(lattice, name, exact=exact)
    if measure.kind is MeasureKind.NUMBERS:
        return f"CASE WHEN NOT isnan(TRY_CAST({name} AS DOUBLE)) THEN 1 END"
    return name


def clamped_step(lattice: Lattice, name: str, *, exact: bool) -> str:
    """A row's value clamped to its bounds, in lattice steps; NULL if NULL or NaN.

    CASE takes half the time of least() and greatest(). TRY_CAST, so that a cast which is skipped
    for values out of bounds would not fail if it were not.
    """
    if lattice.integral and lattice.quantum == 1.0:
        return (
            f"CASE WHEN {name} <= {lattice.low} THEN {lattice.low} "
            f"WHEN {name} >= {lattice.high} THEN {lattice.high} "
            f"ELSE TRY_CAST({name} AS BIGINT) END"
        )
    value = f"TRY_CAST({name} AS DOUBLE)"

    def rounded(double: str) -> str:
        return f"TRY_CAST(round({double} / {lattice.quantum!r}) AS BIGINT)"

    nan = "" if exact else f"WHEN isnan({value}) THEN NULL "
    return (
        f"CASE {nan}WHEN {value} <= {lattice.lower!r} THEN {rounded(repr(lattice.lower))} "
        f"WHEN {value} >= {lattice.upper!r} THEN {rounded(repr(lattice.upper))} "
        f"ELSE {rounded(value)} END"
    )


def _squared(root: Lattice, name: str, *, exact: bool) -> str:
    distance = f"({clamped_step(root, name, exact=exact)} - ({root.midpoint}))"
    return f"{distance} * {distance}"


def gathered(measure: Measure, name: str, max_rows: int) -> str:
    """What a unit's rows add to one group, before clamping."""
    if measure.argument is None:
        return "count(*)"
    lattice = measure.lattice
    if lattice is None:
        return f"count({name})"
    if measure.kind is MeasureKind.SUM:
        # Bounds per group that leave out zero are those of units that have values.
        return f"sum({name})" if _leaves_out_zero(measure) else f"coalesce(sum({name}), 0)"
    # In this form a sum and an average of the same values share their sum.
    middle = f"CAST({lattice.midpoint} AS HUGEINT)"
    centred = f"(coalesce(sum({name}), 0) - {middle} * count({name}))"
    # With more rows than allowed, scale the sum down: the unit's average is kept.
    return (
        f"CASE WHEN count({name}) > {max_rows} THEN {centred} * {max_rows} // count({name}) "
        f"ELSE {centred} END"
    )


def clamped(measure: Measure, name: str, max_rows: int) -> str:
    """What a unit adds to one group, within what one unit may add."""
    low, high = measure.contribution(max_rows)
    if measure.lattice is None:
        return f"least({name}, {high})"
    if _leaves_out_zero(measure):
        assert measure.per_group is not None
        low, high = measure.per_group
        return f"CASE WHEN {name} IS NOT NULL THEN greatest({low}, least({high}, {name})) END"
    return f"greatest({low}, least({high}, {name}))"


def summed(measure: Measure, contribution: str, max_rows: int) -> str:
    """The group's total of contributions, saturated far above any real total."""
    if measure.weights is not None:
        value = weighted_sum(measure, contribution, measure.reach(max_rows))
    else:
        value = f"coalesce(sum({contribution}), 0)"
        if measure.lattice is not None and measure.lattice.coarsening > 1:
            value = f"({value} // {measure.lattice.coarsening})"
    return f"CAST(greatest(-{_SATURATION}, least({_SATURATION}, {value})) AS BIGINT)"


def _leaves_out_zero(measure: Measure) -> bool:
    bounds = measure.per_group
    return bounds is not None and not bounds[0] <= 0 <= bounds[1]
