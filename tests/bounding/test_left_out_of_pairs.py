"""Estimates of what bounding leaves out are in NumPy what they are in SQL, unit by unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.numpy_maker import (
    divided_units,
    memory_for,
    numpy_estimates,
    small_steps,
    takes,
)
from helpers.random_examples import examples_of
from helpers.support import SALT
from hypothesis import given
from hypothesis import strategies as st
from test_left_out_sql import LAB, asked, exact, questions, worlds

from dpsql.bounding import left_out, partitions
from dpsql.bounding.contributions import Contributions
from dpsql.bounding.pairs import tallies_of
from dpsql.bounding.units import FirstGroups
from dpsql.ir.plan import BlockPlan
from dpsql.privacy.mechanisms.left_out import LADDER_SENSITIVITY


def by_numpy(plan: BlockPlan, **how: int) -> list[list[int]]:
    return numpy_estimates(LAB._connection, plan, SALT, **how)


def by_sql(plan: BlockPlan, rows: list[Any]) -> list[list[int]]:
    return [exact(plan, estimate, rows) for estimate in plan.estimates]


@pytest.mark.slow
@examples_of(100)
@given(questions(), worlds, st.integers(0, 2**32))
def test_estimates_are_those_of_sql(
    question: tuple[str, dict[str, Any]], world: Any, seed: int
) -> None:
    (plan,) = asked(*question).plans
    if not plan.estimates or not takes(plan):
        return
    others, own, times = world
    rows = [(unit, *row) for unit, row in others] + [(7, *row) for row in own] * times
    expected = by_sql(plan, rows)
    assert by_numpy(plan, seed=seed, size=7) == expected


OPTIONS = {"max_groups_contributed": 2, "max_rows_contributed": 3, "left_out_share": 0.1}
QUESTIONS = (
    "SELECT a, count(*), count(DISTINCT u), sum(j), sum(x) FROM r GROUP BY a",
    "SELECT c, count(*), sum(x) FROM r GROUP BY c",
    "SELECT count(*), sum(x) FROM r",
)


def many_rows() -> list[Any]:
    rng = np.random.default_rng(5)
    return [
        (unit, int(rng.integers(0, 6)), "1", "pq"[unit % 2], int(rng.integers(0, 9)), x)
        for unit in range(60)
        for x in [-1.0, 2.0, 9.0, None, float("nan"), 3.5][: int(rng.integers(1, 7))]
        for _ in range(int(rng.integers(1, 5)))
    ]


@pytest.mark.parametrize("sql", QUESTIONS)
def test_estimates_of_many_units_are_those_of_sql(sql: str) -> None:
    (plan,) = asked(sql, OPTIONS).plans
    expected = by_sql(plan, many_rows())
    assert by_numpy(plan) == expected


def test_a_unit_in_parts_is_looked_at_as_a_whole() -> None:
    (plan,) = asked(QUESTIONS[0], OPTIONS).plans
    expected = by_sql(plan, many_rows() + large_unit())
    assert by_numpy(plan) == expected
    with small_steps(), divided_units() as parts:
        assert by_numpy(plan, share=memory_for(4)) == expected
    assert max(parts) > 1


def large_unit() -> list[Any]:
    return [(7, a, "1", "pq"[a % 2], a % 9, a / 7) for a in range(60) for _ in range(1 + a % 5)]


def test_one_unit_with_more_than_64_bits_hold_is_added_up_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = OPTIONS | {"max_rows_contributed": 100}
    most = 2.0**37
    sql = f"SELECT a, sum(x, contribution_bounds_per_row => (0, {most})) FROM r GROUP BY a"
    (plan,) = asked(sql, options).plans
    rows = [(1, key, "1", "p", 1, most) for key in range(150) for _ in range(2)]
    with_sql = by_sql(plan, rows)
    assert by_numpy(plan) == with_sql
    with small_steps():
        assert by_numpy(plan, share=memory_for(4)) == with_sql
    monkeypatch.setattr(left_out, "_LARGEST", 1 << 50)
    assert by_numpy(plan) == with_sql


def halved(real: Callable[..., Any]) -> Callable[..., Any]:
    """Keep of each unit what it has within bounds, however many groups it has."""
    return lambda within, groups, kept: within


def after_the_cap(real: Callable[..., Any]) -> Callable[..., Any]:
    """Look at the pairs that the cap has left."""

    def measured(self: Any, pairs: Any, contributions: Any) -> Any:
        spec = contributions._spec
        kept = FirstGroups(spec).of(pairs)
        fields = tallies_of(spec)
        return real(self, kept, Contributions(spec, fields, kept))

    return measured


def twice(real: Callable[..., Any]) -> Callable[..., Any]:
    def chunks(self: Any, *, named: bool = False) -> Any:
        yield from real(self, named=named)
        yield from real(self, named=named)

    return chunks


TWINS: dict[str, tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "units are not capped": (left_out, "_shared", halved),
    "what is left of units is looked at": (left_out.LeftOutSums, "measured", after_the_cap),
    "a partition is read twice": (partitions.OfPartitions, "chunks", twice),
}


@pytest.mark.parametrize("name", TWINS)
def test_broken_twins_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, breaks = TWINS[name]
    (plan,) = asked(QUESTIONS[0], OPTIONS).plans
    expected = by_sql(plan, many_rows())
    assert by_numpy(plan) == expected
    monkeypatch.setattr(place, attribute, breaks(getattr(place, attribute)))
    assert by_numpy(plan) != expected


def test_a_unit_moves_estimates_within_their_sensitivity() -> None:
    (plan,) = asked(QUESTIONS[0], OPTIONS).plans
    own = [(key, "1", "p", 8, 9.0) for key in range(5)]
    before = many_rows()
    LAB.fill(before)
    without = by_numpy(plan)
    LAB.fill([*before, *[(99, *row) for row in own for _ in range(100)]])
    for estimate, one, other in zip(plan.estimates, without, by_numpy(plan), strict=True):
        ladder = estimate.noise.ladder
        assert 0 <= other[0] - one[0] <= estimate.noise.most
        moved = ladder.standing(other[1:]) - ladder.standing(one[1:])
        assert int(np.abs(moved).sum()) <= LADDER_SENSITIVITY
