"""Measures in SQL: what a row adds, what a unit adds to a group, what a group has in all.

Values are integers on the measure's lattice from the first step on, so that sums are exact and do
not depend on the order of rows.
"""

from __future__ import annotations

from dpsql.measures import Lattice, Measure, MeasureKind
from dpsql.sql.weighting import weighted_sum

_SATURATION = 2**62


def step(measure: Measure, name: str) -> str:
    """What a row's value ``name`` counts as: in lattice steps within its bounds, NULL for none."""
    lattice = measure.lattice
    if lattice is not None:
        return _squared(lattice.root, name) if lattice.root else clamped_step(lattice, name)
    if measure.kind is MeasureKind.NUMBERS:
        return f"CASE WHEN NOT isnan(TRY_CAST({name} AS DOUBLE)) THEN 1 END"
    return name


def clamped_step(lattice: Lattice, name: str) -> str:
    """A row's value clamped to its bounds, in lattice steps; NULL if NULL or NaN."""
    if lattice.integral and lattice.quantum == 1.0:
        clamped = f"greatest({lattice.low}, least({lattice.high}, {name}))"
        return f"CASE WHEN {name} IS NOT NULL THEN CAST({clamped} AS BIGINT) END"
    value = f"TRY_CAST({name} AS DOUBLE)"
    clamped = f"greatest({lattice.lower!r}, least({lattice.upper!r}, {value}))"
    rounded = f"CAST(round({clamped} / {lattice.quantum!r}) AS BIGINT)"
    # isnan(NULL) is NULL, so NULL falls through to NULL as NaN does.
    return f"CASE WHEN NOT isnan({value}) THEN {rounded} END"


def _squared(root: Lattice, name: str) -> str:
    distance = f"({clamped_step(root, name)} - ({root.midpoint}))"
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
    centred = f"coalesce(sum({name} - ({lattice.midpoint})), 0)"
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
