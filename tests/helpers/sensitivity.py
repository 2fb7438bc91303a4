"""The sensitivity audit: what one unit changes in exact rows, against what the plan declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Any, TypeVar

import duckdb

from dpsql.ir.measures import MeasureKind
from dpsql.ir.plan import BlockPlan
from dpsql.privacy.mechanisms.bounds_choice import WHOLE_WEIGHT, BoundsChoice
from dpsql.privacy.mechanisms.value_bounds import ValueBounds
from helpers.installed_duckdb import NULL_FOR_ZERO

Row = tuple[Any, ...]
Groups = dict[tuple[object, ...], tuple[int, ...]]
World = TypeVar("World")
Exact = TypeVar("Exact")


class Lab:
    """A DuckDB connection, configured like the private one, whose tables are replaced at will."""

    def __init__(self, tables: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": "1"})
        self._connection.execute(NULL_FOR_ZERO)
        self._connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        self._tables = tables

    def replace(self, table: str, rows: Sequence[Row]) -> None:
        """A table holding exactly these rows, so that its statistics know of no others."""
        columns = self._tables[table]
        declared = ", ".join(f"{name} {type_}" for name, type_ in columns)
        self._connection.execute(f"CREATE OR REPLACE TABLE {table} ({declared})")
        if rows:
            marks = ", ".join([f"({', '.join('?' * len(columns))})"] * len(rows))
            values = [value for row in rows for value in row]
            self._connection.execute(f"INSERT INTO {table} VALUES {marks}", values)

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


class TableLab(Lab):
    """A lab of one table."""

    def __init__(self, table: str, columns: Sequence[tuple[str, str]]) -> None:
        super().__init__({table: columns})
        self._table = table

    def fill(self, rows: Sequence[Row]) -> None:
        """The table holding exactly these rows."""
        self.replace(self._table, rows)


class WorldLab(Lab):
    """A lab of several tables, of which those that change are replaced."""

    def __init__(self, tables: Mapping[str, Sequence[tuple[str, str]]]) -> None:
        super().__init__(tables)
        self._filled: dict[str, Sequence[Row]] = {}

    def fill(self, world: Mapping[str, Sequence[Row]]) -> None:
        """The tables holding exactly these rows; what is not in the world has none."""
        for table in self._tables:
            rows = world.get(table, ())
            if table not in self._filled or self._filled[table] != rows:
                self.replace(table, rows)
                self._filled[table] = rows


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
        rows = plan.block.parameters.rows_limit
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


def moved_by_units(
    world: World,
    units: Iterable[object],
    without: Callable[[World, Any], World],
    read: Callable[[World], Exact],
    violations: Callable[[Exact, Exact], Iterable[str]],
) -> dict[object, list[str]]:
    """What each unit's departure violates, by what is read without it and with it."""
    whole = read(world)
    found = {unit: list(violations(read(without(world, unit)), whole)) for unit in units}
    return {unit: told for unit, told in found.items() if told}


def units_of(rows: Sequence[Row], column: int = 0) -> set[object]:
    """Who has rows."""
    return {row[column] for row in rows} - {None}


def rows_without(rows: Sequence[Row], unit: object, column: int = 0) -> Sequence[Row]:
    """The rows of all others."""
    return [row for row in rows if row[column] != unit]


def audit(
    lab: TableLab, rows: Sequence[Row], plan: BlockPlan, statement: str
) -> dict[object, list[str]]:
    """Violations for each unit, whose identifier is the first column of the rows."""

    def read(kept: Sequence[Row]) -> Groups:
        lab.fill(kept)
        return lab.groups(statement, plan)

    return moved_by_units(rows, units_of(rows), rows_without, read, plan_violations(plan))


def plan_violations(plan: BlockPlan) -> Callable[[Groups, Groups], list[str]]:
    """What a unit may not change of the exact rows of a plan."""
    return lambda without, whole: Difference(without, whole).violations(plan)


def shared_moves_beyond(rungs: Sequence[int], moved: Sequence[int], whole: int) -> list[str]:
    """Tell where a unit moves the weights of values between two rungs by more than it may.

    Up by as many wholes as there are numbers between them, and down by as many as the lower one is.
    """
    up_to = list(accumulate(moved[: len(rungs)]))
    found = [
        f"{below} to {above}: {more - less}"
        for (below, less), (above, more) in combinations(zip(rungs, up_to, strict=True), 2)
        if not -below * whole <= more - less <= (above - below) * whole
    ]
    return found + [f"up to {r}: {n}" for r, n in zip(rungs, up_to, strict=True) if n < 0]


def choice_moves_beyond(
    choice: BoundsChoice | ValueBounds,
    without: Sequence[Sequence[int]],
    with_unit: Sequence[Sequence[int]],
) -> list[str]:
    """Tell where a further unit moves the weights that bounds are drawn from by more than it may.

    Those by rows and by groups, or above 0 and below: all up, by its own weight of 1. Those of
    shared values otherwise.
    """
    rows = choice.rows if isinstance(choice, BoundsChoice) else None
    found = []
    for part, (before, after) in enumerate(zip(without, with_unit, strict=True)):
        moved = [more - less for less, more in zip(before, after, strict=True)]
        if part == 0 and rows is not None and rows.shared:
            found += shared_moves_beyond(rows.rungs, moved, WHOLE_WEIGHT)
        elif min(moved, default=0) < 0 or sum(moved) > WHOLE_WEIGHT:
            found.append(f"weights of a unit move by {moved}")
    return found
