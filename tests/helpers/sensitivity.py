"""The sensitivity audit: what one unit changes in exact rows, against what the plan declares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from dpsql.ir.measures import MeasureKind
from dpsql.ir.plan import BlockPlan

Row = tuple[Any, ...]
Groups = dict[tuple[object, ...], tuple[int, ...]]


class Lab:
    """One DuckDB connection, configured like the private one, whose table is replaced at will."""

    def __init__(self, table: str, columns: Sequence[tuple[str, str]]) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": "1"})
        self._connection.execute("SET error_on_division_by_zero = false")
        self._connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        self._table = table
        self._columns = columns

    def fill(self, rows: Sequence[Row]) -> None:
        """A table holding exactly these rows, so that its statistics know of no others."""
        columns = ", ".join(f"{name} {type_}" for name, type_ in self._columns)
        self._connection.execute(f"CREATE OR REPLACE TABLE {self._table} ({columns})")
        if rows:
            marks = f"({', '.join('?' * len(self._columns))})"
            values = ", ".join([marks] * len(rows))
            self._connection.execute(
                f"INSERT INTO {self._table} VALUES {values}", [v for row in rows for v in row]
            )

    def rows(self, sql: str) -> list[Row]:
        """The rows of a query."""
        return self._connection.execute(sql).fetchall()

    def groups(self, statement: str, plan: BlockPlan) -> Groups:
        """The exact rows of a rewritten statement: key values to measures."""
        keys = len(plan.block.keys)
        found: Groups = {}
        for _, *row in self.rows(statement):
            key = tuple(map(normal, row[:keys]))
            assert key not in found, "a group appears twice"
            found[key] = tuple(int(value or 0) for value in row[keys:])
        return found


def normal(value: object) -> object:
    """A key value as DuckDB compares it: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


@dataclass(frozen=True, slots=True)
class Difference:
    """What adding one unit changes."""

    without: Groups
    with_unit: Groups

    def violations(self, plan: BlockPlan) -> list[str]:
        """Every way in which the difference exceeds what the plan declares."""
        thresholds = plan.score is not None and not plan.declared
        floor = plan.block.parameters.min_units_per_group - 1 if thresholds else 0
        measures = [noisy.measure for noisy in plan.measures]
        rows = plan.block.parameters.max_rows_contributed
        absent = (0,) * len(measures)
        found, touched = [], 0
        squares = [0] * len(measures)
        for key in {**self.without, **self.with_unit}:
            before, after = self.without.get(key, absent), self.with_unit.get(key, absent)
            touched += before != after
            crossing = floor > 0 and (key in self.without) != (key in self.with_unit)
            for index, measure in enumerate(measures):
                change = after[index] - before[index]
                limit = measure.sensitivity(rows)
                if crossing:
                    # A group crosses the minimum with all it has; what may name it is its score.
                    bound = (floor + 1) * limit if measure.kind is MeasureKind.UNITS else None
                    if index == plan.score and (bound is None or max(change, -change) > bound):
                        found.append(f"{key} crosses the minimum with a score of {change}")
                    if change < 0 and measure.monotone:
                        found.append(f"{key} vanishes when a unit is added")
                    continue
                squares[index] += change * change
                if abs(change) > limit:
                    found.append(f"{measure.kind.value} of {key} changes by {change} > {limit}")
                if change < 0 and measure.monotone:
                    found.append(f"{measure.kind.value} of {key} falls by {-change}")
        bounding = plan.bounding
        if bounding is None:
            return found
        if touched > bounding.kept:
            found.append(f"{touched} groups change, more than {bounding.kept}")
        for square, measure in zip(squares, measures, strict=True):
            if square > bounding.groups * measure.sensitivity(rows) ** 2:
                found.append(f"{measure.kind.value} changes by {math.sqrt(square)} in l2")
        return found


def audit(
    lab: Lab, rows: Sequence[Row], unit: int, plan: BlockPlan, statement: str
) -> dict[object, list[str]]:
    """Violations for each unit, whose identifier is column ``unit`` of the rows."""
    lab.fill(rows)
    with_unit = lab.groups(statement, plan)
    violations = {}
    for leaver in {row[unit] for row in rows} - {None}:
        lab.fill([row for row in rows if row[unit] != leaver])
        difference = Difference(lab.groups(statement, plan), with_unit)
        found = difference.violations(plan)
        if found:
            violations[leaver] = found
    return violations
