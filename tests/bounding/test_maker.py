"""The maker in NumPy computes what generated SQL does, and one unit moves it no further."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from helpers.numpy_maker import (
    divided_units,
    memory_for,
    numpy_groups,
    small_steps,
    spilling_at_once,
    takes,
)
from helpers.random_examples import examples_of
from helpers.sensitivity import (
    Groups,
    Row,
    TableLab,
    moved_by_units,
    plan_violations,
    rows_without,
    units_of,
)
from helpers.support import Planned
from hypothesis import given
from hypothesis import strategies as st
from test_sensitivity import COLUMNS, plans, questions, rows_of_units

from dpsql.bounding import contributions, pairs, partitions, units
from dpsql.bounding.pairs import kept_flags
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.kinds.registry import release_kind

LAB = TableLab("r", COLUMNS)
SALT = 2**61 + 12345
Question = tuple[str, dict[str, Any]]


def planned_for_numpy(question: Question) -> BlockPlan | None:
    found: Planned | None = plans(*question)
    if found is None or len(found.plans) != 1 or not takes(found.plans[0]):
        return None
    return found.plans[0]


def by_sql(plan: BlockPlan) -> Groups:
    statement = release_kind(plan).statement(SALT, DUCKDB).render(DUCKDB_TEXT)
    return LAB.groups(statement, plan)


def without_cap(plan: BlockPlan) -> BlockPlan:
    return plan if plan.bounding is None else replace(plan, bounding=Bounding.sample(10**6))


def by_numpy(plan: BlockPlan, **how: int) -> Groups:
    return numpy_groups(LAB._connection, plan, SALT, **how)


@pytest.mark.slow
@examples_of(150)
@given(questions(), rows_of_units)
def test_without_a_cap_it_computes_what_sql_does(question: Question, rows: list[Row]) -> None:
    plan = planned_for_numpy(question)
    if plan is None:
        return
    LAB.fill(rows)
    plan = without_cap(plan)
    assert by_numpy(plan) == by_sql(plan)


@pytest.mark.slow
@examples_of(60)
@given(questions(), rows_of_units, st.integers(0, 2**32))
def test_order_batches_partitions_and_spilling_change_nothing(
    question: Question, rows: list[Row], seed: int
) -> None:
    plan = planned_for_numpy(question)
    if plan is None:
        return
    LAB.fill(rows)
    usual = by_numpy(plan)
    assert by_numpy(plan, seed=seed, size=1) == usual
    with small_steps():
        assert by_numpy(plan, seed=seed, size=2) == usual
        # No memory for more than some pairs: partitions are divided, and so are units.
        for share in (1 << 13, memory_for(2)):
            assert by_numpy(plan, seed=seed + 1, size=5, share=share) == usual
        with spilling_at_once():
            assert by_numpy(plan, seed=seed, size=2) == usual


def violations(question: Question, rows: Sequence[Row], **how: int) -> dict[object, list[str]]:
    plan = planned_for_numpy(question)
    if plan is None:
        return {}

    def read(kept: Sequence[Row]) -> Groups:
        LAB.fill(kept)
        return by_numpy(plan, **how)

    return moved_by_units(rows, units_of(rows), rows_without, read, plan_violations(plan))


@examples_of(60)
@given(questions(), rows_of_units)
def test_one_unit_moves_it_within_the_declared_sensitivity(
    question: Question, rows: list[Row]
) -> None:
    assert violations(question, rows) == {}


CAPPED = {
    "max_groups_contributed": 2,
    "max_rows_contributed": 2,
    "k_bar": 10**6,
    "min_units_per_group": 1,
}


def row(unit: int | None, a: int | None, i: int | None = 2, c: str = "p") -> Row:
    return (unit, a, 1.5, "1", c, i, 3, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_units_keep_as_many_groups_as_they_may(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [row(int(u), int(a)) for u, a in rng.integers(0, 12, (300, 2))]
    LAB.fill(rows)
    plan = planned_for_numpy(("SELECT a, sum(i), count(*) FROM r GROUP BY a", CAPPED))
    assert plan is not None
    kept = sum(min(2, len({r[1] for r in rows if r[0] == u})) for u in range(12))
    place = [m.measure.kind.value for m in plan.measures].index("units")
    assert sum(each[place] for each in by_numpy(plan).values()) == kept


def test_other_keys_do_not_change_what_a_unit_keeps() -> None:
    plan = planned_for_numpy(("SELECT a, sum(i), count(*) FROM r GROUP BY a", CAPPED))
    assert plan is not None
    mine = [row(1, a) for a in range(1, 30)]
    LAB.fill(mine)
    alone = by_numpy(plan)
    LAB.fill([*mine, *(row(2, a) for a in (-5, -3, 0, 40))])
    beside = by_numpy(plan)
    assert len(alone) == 2
    assert alone.keys() <= beside.keys()


LARGE = [row(u, a, a % 4) for u in range(40) for a in range(90 if u == 7 else 5)]
"""Rows of which one unit has far more keys than all others."""
CAPS = [{"max_groups_contributed": groups} for groups in (2, 30, 200)]


@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.parametrize("pairs_fit", [2, 5, 40])
def test_a_unit_with_more_groups_than_memory_comes_in_parts_of_them(
    caps: dict[str, int], pairs_fit: int
) -> None:
    """Its rows fail nothing: it keeps the groups that it keeps with more memory."""
    plan = planned_for_numpy(
        ("SELECT a, sum(i), avg(i), count(*) FROM r GROUP BY a", CAPPED | caps)
    )
    assert plan is not None
    LAB.fill(LARGE)
    usual = by_numpy(plan)
    with small_steps(), divided_units() as parts:
        for seed in range(3):
            assert by_numpy(plan, seed=seed, share=memory_for(pairs_fit)) == usual
    assert max(parts) > 1


def test_a_cap_of_each_part_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned_for_numpy(("SELECT a, sum(i), count(*) FROM r GROUP BY a", CAPPED))
    assert plan is not None
    LAB.fill(LARGE)
    usual = by_numpy(plan)
    monkeypatch.setattr(
        units.FirstGroups, "flags", lambda self, pairs: kept_flags(self._spec, pairs)
    )
    assert by_numpy(plan) == usual
    with small_steps():
        assert by_numpy(plan, share=memory_for(2)) != usual


@pytest.mark.slow
@examples_of(20)
@given(questions(), rows_of_units)
def test_one_unit_in_parts_moves_it_within_the_declared_sensitivity(
    question: Question, rows: list[Row]
) -> None:
    with small_steps():
        assert violations(question, rows, share=memory_for(1)) == {}


WIDE = (
    "SELECT c, var_pop(f, contribution_bounds_per_row => (-1e6, 1e6)), sum(x), avg(x) FROM r "
    "GROUP BY c"
)


@pytest.mark.parametrize("rows", [2, 3, 40, 3000])
def test_many_rows_of_a_unit_are_exact(rows: int) -> None:
    plan = planned_for_numpy((WIDE, CAPPED | {"max_groups_contributed": 20}))
    assert plan is not None
    rng = np.random.default_rng(rows)
    values = rng.uniform(-1e6, 1e6, rows).tolist()
    of_one = [(7, 1, value, "1", "p", 1, 1, value / 1e6) for value in values]
    LAB.fill([*of_one, *of_one[:1], (8, 1, -1e6, "1", "p", 1, 1, -2.0)])
    assert by_numpy(plan) == by_sql(plan)


def test_sums_of_128_bits_are_exact() -> None:
    found = contributions.Sums(2)
    values = np.array([2**61, 2**61, 2**61, -(2**61), 5, -7], dtype=np.int64)
    for _ in range(9):
        found.add(np.array([0, 0, 0, 1, 1, 1]), values)
    most, places = 1 << 62, np.array([0, 1])
    total, other = 27 * 2**61, -9 * (2**61) - 18
    assert found.divided(places, 1, most).tolist() == [most, -most]
    assert found.divided(places, 1 << 10, most).tolist() == [total >> 10, -(-other >> 10)]


# -- broken twins ---------------------------------------------------------------------------


def one_more(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda spec, found: real(replace(spec, kept=spec.kept and spec.kept + 1), found)


def merging(real: Callable[..., Any]) -> Callable[..., Any]:
    """Two units of one slot are one."""

    def identified(units: Any, key: Any) -> Any:
        return real(units >> np.uint64(63) << np.uint64(63), key)

    return identified


def twice(real: Callable[..., Any]) -> Callable[..., Any]:
    def chunks(self: Any, *, named: bool = False) -> Any:
        yield from real(self, named=named)
        yield from real(self, named=named)

    return chunks


def unclamped(real: Callable[..., Any]) -> Callable[..., Any]:
    """Clamp rows before they are summed, and not their sum."""
    return lambda self, source, total, number, low, high: total


TWINS: dict[str, tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "a cap one too large": (units, "kept_flags", one_more),
    "units of one hash are one": (pairs, "_identified", merging),
    "a partition is read twice": (partitions.OfPartitions, "chunks", twice),
    "sums are not clamped": (contributions.Contributions, "_bounded", unclamped),
}
NASTY = [row(u, a, 5) for u in range(1, 7) for a in range(5) for _ in range(1 + (u + a) % 4)]


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_broken_makers_are_caught(name: str) -> None:
    place, attribute, breaks = TWINS[name]
    question = "SELECT a, sum(i), count(*) FROM r GROUP BY a", CAPPED
    plan = planned_for_numpy(question)
    assert plan is not None
    LAB.fill(NASTY)
    free = without_cap(plan)
    assert violations(question, NASTY) == {}
    with mock.patch.object(place, attribute, breaks(getattr(place, attribute))):
        moved = violations(question, NASTY)
        LAB.fill(NASTY)
        assert moved or by_numpy(free) != by_sql(free)
