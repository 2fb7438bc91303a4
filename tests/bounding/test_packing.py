"""Rows are words and lie in partitions without a loss, whatever their units, groups and steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from helpers.numpy_maker import PLENTY, Batches, memory_for
from numpy.typing import NDArray

from dpsql.bounding import maker, partitions
from dpsql.bounding.maker import gathered_units
from dpsql.bounding.packing import Packing
from dpsql.bounding.pairs import Pairs, merged, tallies_of
from dpsql.bounding.specification import MeasureColumns, Specification, StepColumn
from dpsql.ir.measures import Measure, MeasureKind

ROWS = 4000
BATCH = 700
STEPS: dict[str, list[StepColumn]] = {
    "none": [],
    "beside the group": [StepColumn(0, 1 << 30, None)],
    "without room for units": [StepColumn(0, (1 << 33) - 1, None)],
    "below zero": [StepColumn(-(1 << 29), 5, -(1 << 29) - 1)],
    "with a zero that is NULL and no step": [StepColumn(7, 900, 0), StepColumn(0, 1, 0)],
    "of several words": [StepColumn(-(1 << 40), 1 << 40, None), *[StepColumn(0, 1 << 30, -1)] * 3],
    "as large as steps are": [StepColumn(-(1 << 61), 1 << 61, -(1 << 61) - 1)],
}
UNITS: dict[str, Callable[[np.random.Generator], NDArray[np.int64]]] = {
    "that follow each other": lambda rng: rng.integers(0, 300, ROWS),
    "from a large number on": lambda rng: rng.integers(0, 300, ROWS) + (1 << 61),
    "of multiples of 256": lambda rng: rng.integers(0, 300, ROWS) << 8,
    "far apart": lambda rng: rng.choice(rng.integers(-(1 << 62), 1 << 62, 300), ROWS),
    "below zero": lambda rng: rng.integers(-150, 150, ROWS),
    "that are one": lambda rng: np.full(ROWS, -1),
    "of both ends": lambda rng: rng.choice(np.array([-(2**63), 2**63 - 1]), ROWS),
}
Row = tuple[int, ...]


def specification(groups: int, columns: list[StepColumn]) -> Specification:
    measure = Measure(MeasureKind.SUM)
    sources = tuple(MeasureColumns(measure, place, None, place) for place in range(len(columns)))
    return Specification(tuple(columns), sources, groups, None, 5, 1, salt=2**61 + 5)


def steps_of(rng: np.random.Generator, column: StepColumn) -> NDArray[np.int64]:
    """Steps with both ends, and some of no value."""
    found = rng.integers(column.low, column.high, ROWS, endpoint=True)
    found[:2] = column.low, column.high
    if column.missing is not None:
        found[rng.integers(0, ROWS, ROWS // 4)] = column.missing
    return found


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("groups", [1, 20, 5000, 1 << 31])
def test_words_are_read_as_they_were_written(steps: str, groups: int) -> None:
    rng = np.random.default_rng(groups)
    spec = specification(groups, STEPS[steps])
    numbers = rng.integers(0, groups, ROWS).astype(np.int32)
    columns = [steps_of(rng, column) for column in spec.columns]
    packing = Packing(spec)
    words = packing.packed(numbers, columns)
    assert int(words[0].max()) < 1 << (64 - packing.room)
    assert packing.groups(words).tolist() == numbers.tolist()
    for place, column in enumerate(columns):
        assert packing.column(words, place).tolist() == column.tolist()


@pytest.mark.parametrize("steps", [name for name, columns in STEPS.items() if columns])
def test_steps_and_groups_out_of_their_bounds_fail(steps: str) -> None:
    """They would change a group or a unit beside them."""
    spec = specification(20, STEPS[steps])
    packing, lows = Packing(spec), [np.array([column.low]) for column in spec.columns]
    packing.packed(np.array([19]), lows)
    for number in (20, -1):
        with pytest.raises(RuntimeError):
            packing.packed(np.array([number]), lows)
    for place, column in enumerate(spec.columns):
        ends = column.low, column.high, column.missing or 0
        for value in (min(ends) - 1, max(ends) + 1):
            wrong = [np.array([value]) if n == place else low for n, low in enumerate(lows)]
            with pytest.raises(RuntimeError):
                packing.packed(np.array([3]), wrong)


def expected(spec: Specification, rows: list[NDArray[Any]]) -> list[list[Row]]:
    """What each unit has by group, in the order of what that is: its name is another."""
    found: defaultdict[int, dict[int, list[int]]] = defaultdict(dict)
    fields = tallies_of(spec)
    for unit, group, *steps in zip(*(each.tolist() for each in rows), strict=True):
        totals = found[unit].setdefault(group, [0] * len(fields))
        for place, field in enumerate(fields):
            if field.column is None:
                totals[place] += 1
                continue
            step = steps[field.column]
            if step != spec.columns[field.column].missing:
                part = {None: step, 1: step >> 32, 0: step & 0xFFFFFFFF}[field.part]
                totals[place] += part if field.summed else 1
    return sorted(sorted((g, *t) for g, t in groups.items()) for groups in found.values())


def keeping(share: int) -> Callable[..., partitions.Partitions]:
    return lambda key, room, _, file: partitions.Partitions(key, room, lambda: share, file)


@pytest.mark.parametrize("together", [1, 1 << 16])
@pytest.mark.parametrize("groups", [2, 20, 3000, 1 << 31, 1 << 50])
@pytest.mark.parametrize("units", UNITS)
def test_pairs_are_those_of_the_rows(units: str, groups: int, together: int) -> None:
    """One partition at a time and several, in memory and spilled, and the same names each time."""
    rng = np.random.default_rng(groups + together)
    for columns in STEPS.values():
        spec = specification(groups, columns)
        rows = [UNITS[units](rng), rng.integers(0, groups, ROWS)]
        rows += [steps_of(rng, column) for column in columns]
        names = set()
        with (
            mock.patch.object(partitions, "_SORTED_AT", 1 << 10),
            mock.patch.object(partitions, "_TOGETHER", together),
        ):
            for kept in (PLENTY, 0):
                stream = Batches(rows, BATCH, PLENTY)
                with mock.patch.object(maker, "Partitions", keeping(kept)):
                    parts = [part for units in gathered_units(stream, spec) for part in units.parts]
                assert bool(stream.spilled) is (kept == 0)
                found: defaultdict[int, list[Row]] = defaultdict(list)
                for part in parts:
                    numbers = zip(*(each.tolist() for each in part.numbers), strict=True)
                    pairs = zip(part.units.tolist(), part.groups.tolist(), numbers, strict=True)
                    assert not found.keys() & set(part.units.tolist())
                    for unit, group, totals in pairs:
                        found[unit].append((group, *totals))
                assert sorted(map(sorted, found.values())) == expected(spec, rows)
                names.add(frozenset(found))
        assert len(names) == 1


@pytest.mark.parametrize("fit", [PLENTY, 2000])
@pytest.mark.parametrize("groups", [1500, 1 << 40])
def test_pairs_are_merged_in_proportion_to_the_rows(
    groups: int, fit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many chunks a unit has, of pairs that are new or there before."""
    merged_pairs = 0
    real = merged

    def counted(parts: Sequence[Pairs]) -> Pairs:
        nonlocal merged_pairs
        merged_pairs += sum(map(len, parts)) if len(parts) > 1 else 0
        return real(parts)

    monkeypatch.setattr(maker, "merged", counted)
    monkeypatch.setattr(maker, "_MERGED_AT", 20)
    monkeypatch.setattr(partitions, "_LEAST_CHUNK", 10)
    monkeypatch.setattr(partitions, "CHUNK_ROWS", 10)
    rng = np.random.default_rng(groups)
    rows = [np.full(ROWS, 7), rng.integers(0, groups, ROWS)]
    spec = specification(groups, [])
    found = gathered_units(Batches(rows, BATCH, memory_for(fit)), spec)
    assert sum(len(pairs) for units in found for pairs in units.parts) == len(np.unique(rows[1]))
    assert merged_pairs < 8 * ROWS


@pytest.mark.parametrize("kept", [PLENTY, 0])
def test_a_unit_in_parts_that_is_read_too_late_is_not_taken_for_an_empty_one(kept: int) -> None:
    rows = [np.full(ROWS, 7), np.arange(ROWS)]
    with (
        mock.patch.object(partitions, "CHUNK_ROWS", 10),
        mock.patch.object(maker, "Partitions", keeping(kept)),
    ):
        stream = Batches(rows, BATCH, memory_for(100))
        (units,) = gathered_units(stream, specification(ROWS, []))
        assert units.divided
        with pytest.raises(AssertionError):
            list(units.parts)
