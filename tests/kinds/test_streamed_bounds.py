"""Weights that bounds are drawn from are in NumPy what they are in SQL, pair by pair."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from helpers.numpy_maker import PLENTY, Place, divided_units, memory_for, small_steps
from helpers.random_examples import examples_of
from hypothesis import given
from test_bounds_choice_kind import LAB, asked, chosen, exact, questions, worlds

from dpsql.bounding import weights
from dpsql.engines.base.engine import Scratch
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.streamed_bounds import streamed_draw, streamed_weights
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.bounds_choice import MOST_CHOSEN, WHOLE_WEIGHT, ladder

SALT = 2**61 + 777


def by_numpy(
    plan: BlockPlan, rows: list[Any], seed: int = 0, share: int = PLENTY, *, keep: bool = False
) -> list[int] | None:
    draw = streamed_draw(plan, chosen(plan), DUCKDB, BoundingLimit.ANY)
    if draw is None:
        return None
    LAB.fill(rows)
    place = Place(LAB._connection, seed, 7, share)
    found, _, _ = streamed_weights(draw, chosen(plan), SALT, cast(Scratch, place), keep=keep)
    return [weight for part in found for weight in part]


@pytest.mark.slow
@examples_of(100)
@given(questions(), worlds)
def test_weights_are_those_of_sql(question: str, world: Any) -> None:
    (plan,) = asked(question).plans
    others, own, times = world
    rows = [(unit, *row) for unit, row in others] + [(99, *row) for row in own] * times
    found = by_numpy(plan, rows)
    assert found is None or found == exact(plan, rows)


QUESTIONS = (
    "SELECT c, count(*) FROM r GROUP BY c",
    "SELECT c, sum(x) FROM r GROUP BY c",
    "SELECT sum(x) FROM r",
    "SELECT a, s, avg(x), count(s) FROM r GROUP BY a, s",
    "SELECT c, avg(x), avg(7 - 2 * x) FROM r GROUP BY c",
)


def many_rows(question: str) -> list[Any]:
    rng = np.random.default_rng(len(question))
    one: Any = worlds_row(rng)
    return [(unit, *next(one)) for unit in range(40) for _ in range(int(rng.integers(1, 30)))]


def worlds_row(rng: np.random.Generator) -> Any:
    while True:
        x = float(rng.choice([-9.0, 0.5, 3.5, 1e9, np.nan]))
        yield int(rng.integers(0, 4)), str(rng.integers(0, 3)), "pq"[int(rng.integers(2))], x


@pytest.mark.parametrize("question", QUESTIONS)
def test_weights_of_many_units_are_those_of_sql(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan,) = asked(question).plans
    rows = many_rows(question)
    found = by_numpy(plan, rows)
    assert found == exact(plan, rows)
    # A twin that gives each pair a whole weight is caught, where units have several.
    monkeypatch.setattr(weights, "WHOLE_WEIGHT", WHOLE_WEIGHT + 1)
    assert by_numpy(plan, rows) != found


@pytest.mark.parametrize("question", QUESTIONS[:3])
def test_a_unit_with_thousands_of_rows_is_weighed_as_in_sql(question: str) -> None:
    (plan,) = asked(question).plans
    one = worlds_row(np.random.default_rng(3))
    some = [(unit, *next(one)) for unit in range(3) for _ in range(4)]
    rows = some + [(9, 1, "1", "p", 9.0)] * 3000
    assert by_numpy(plan, rows) == exact(plan, rows)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("question", ["SELECT a, count(*) FROM r GROUP BY a", *QUESTIONS[3:4]])
def test_a_unit_with_more_groups_than_memory_is_weighed_as_in_sql(
    question: str, keep: bool
) -> None:
    (plan,) = asked(question).plans
    one = worlds_row(np.random.default_rng(4))
    some = [(unit, *next(one)) for unit in range(9) for _ in range(4)]
    rows = some + [(9, a, str(a % 3), "p", 3.5) for a in range(70) for _ in range(1 + a % 4)]
    expected = exact(plan, rows)
    with small_steps(), divided_units() as parts:
        assert by_numpy(plan, rows, share=memory_for(4), keep=keep) == expected
    assert max(parts) > 1


def test_rungs_below_numbers_are_counted_by_table_and_by_search() -> None:
    (plan,) = asked(QUESTIONS[0]).plans
    draw = chosen(plan).rows
    assert draw is not None
    assert draw.rungs[-1] > 1 << 10
    near = {rung + step for rung in ladder() for step in (-1, 0, 1)} | {0, MOST_CHOSEN + 1}
    numbers = np.array(sorted(near))
    found = weights._Rungs(draw).below(numbers)
    assert list(found) == [sum(rung < number for rung in draw.rungs) for number in numbers]
