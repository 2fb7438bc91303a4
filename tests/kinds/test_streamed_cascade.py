"""The steps of a cascade in NumPy: those of SQL, and moved no further by one unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.numpy_maker import PLENTY, Place, divided_units, memory_for, small_steps
from helpers.random_examples import examples_of
from helpers.sensitivity import Row, normal
from helpers.sql_text import generated, text
from helpers.support import SALT, planned
from hypothesis import given
from hypothesis import strategies as st
from test_cascade_queries import (
    COLUMNS,
    CROWD,
    RULES,
    SOME,
    Change,
    Named,
    Stage,
    asked,
    keys_named,
    names_of,
    rows_of_units,
    same,
    scaled,
    staged,
    violations,
)

from dpsql.bounding import kept_pairs, rounds, units
from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.bounding.units import kept_units
from dpsql.core.schema import Table, schema_of
from dpsql.core.sql import Sql
from dpsql.engines.base.engine import Scratch
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.cascade import CascadeKind, ExactCascade, units_alone
from dpsql.kinds.streamed_cascade import streamed_steps
from dpsql.privacy.mechanisms.cascade import CascadeGoal
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS

QUESTIONS = (
    "SELECT a, count(*) FROM r GROUP BY a",
    "SELECT a, s, count(*), sum(i) FROM r WHERE f > 0 GROUP BY a, s",
    "SELECT f, count(DISTINCT u), sum(i), avg(i) FROM r GROUP BY f",
    "SELECT a, stddev(i), count(s), count(*) FROM r GROUP BY a",
    "SELECT a, count(DISTINCT u) FROM r GROUP BY a",
    "SELECT DISTINCT a FROM r",
)
TEXTS = (("u", "VARCHAR"), *COLUMNS[1:])
OF_TEXTS = schema_of(Table("r", tuple(column_of(*c) for c in TEXTS)))
EVERY = 10**6
"""More keys than any unit has: it keeps all of them, whatever the hash."""
Steps = Callable[[str], tuple[dict[int, int], Any, Any]]


class _Changed(Place):
    """A place whose stored statements are changed as a test wants."""

    change: Change = staticmethod(same)

    def store(self, name: str, statement: Sql) -> int:
        return super().store(name, generated(self.change(text(statement))))


@contextmanager
def in_numpy(
    plan: BlockPlan,
    rows: Sequence[Row],
    columns: Sequence[tuple[str, str]] = COLUMNS,
    change: Change = same,
    **how: int,
) -> Iterator[Stage]:
    """The stage of a plan over rows, in NumPy."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as connection:
        connection.execute(f"CREATE TABLE r ({', '.join(' '.join(c) for c in columns)})")
        if rows:
            connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?)", rows)
        place = _Changed(
            connection, how.get("seed", 0), how.get("size", 3), how.get("share", PLENTY)
        )
        place.change = change
        reading = SimpleNamespace(plan=plan, salt=SALT, dialect=DUCKDB, pairs=None)
        by_hash = CascadeKind(plan).cascade.goal is CascadeGoal.KEYS
        steps = streamed_steps(
            cast(BlockReading, reading), cast(Scratch, place), lambda: None, by_hash=by_hash
        )
        listed = connection.execute(f'SELECT * EXCLUDE ("__dpsql_hash") FROM "{GROUPS}"')
        ids = {tuple(map(normal, key)): number for number, *key in listed.fetchall()}
        yield Stage(ExactCascade(steps, steps.totals, lambda ids: {}), ids)


def steps_of(stage: Stage, named: Named, cap: int, *, alone: bool) -> list[object]:
    """All that is asked of a stage, where units keep all of their keys; ``alone`` if of units."""
    return [
        stage.sizes(None),
        stage.sizes(named),
        *(() if alone else (stage.norms(named), stage.shares(named))),
        stage.weighed(frozenset(), EVERY),
        stage.weighed(named, EVERY),
        stage.totals(named, cap),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
@examples_of(12)
@given(rows_of_units, names_of, st.sampled_from([1, 2, 7, 100]), st.integers(1, 2))
def test_steps_are_those_of_sql(
    question: str, drawn: bool, rows: list[Row], chosen: set[int | None], cap: int, minimum: int
) -> None:
    found = asked(question, min_units_per_group=minimum, max_rows_contributed=2)
    plan, named = found.plans[0], keys_named(rows, question, chosen)
    plan = scaled(plan) if drawn else plan
    with staged(plan, rows) as by_sql, in_numpy(plan, rows) as mine:
        alone = units_alone(plan)
        expected = steps_of(by_sql, named, cap, alone=alone)
        assert steps_of(mine, named, cap, alone=alone) == expected


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@examples_of(12)
@given(rows_of_units, names_of, st.integers(1, 3), st.sampled_from([1, 2, 7]), st.integers(1, 2))
def test_one_unit_moves_every_step_within_what_the_mechanism_expects(
    question: str, rows: list[Row], chosen: set[int | None], kept: int, cap: int, minimum: int
) -> None:
    plan = asked(question, min_units_per_group=minimum, max_rows_contributed=2).plans[0]
    for one in (plan, scaled(plan)):
        assert audited(one, rows, keys_named(rows, question, chosen), kept, cap) == []


def audited(
    plan: BlockPlan, rows: Sequence[Row], named: Named, kept: int, cap: int, *table: Any, **how: Any
) -> list[str]:
    found: list[str] = []
    with in_numpy(plan, rows, *table, **how) as mine:
        for unit in {row[0] for row in rows} - {None}:
            with in_numpy(plan, [row for row in rows if row[0] != unit], *table, **how) as left:
                found += violations(plan, mine, left, named, kept, cap)
    return found


def test_a_unit_keeps_exactly_as_many_keys_as_it_may() -> None:
    plan = asked(QUESTIONS[0]).plans[0]
    rows: list[Row] = [(unit, key, 1.0, "1", 1) for unit in (1, 2) for key in range(40)]
    with in_numpy(plan, rows) as both, in_numpy(plan, rows[:40]) as one:
        for kept in (1, 3, 39, 40, 100):
            weights = one.weights(frozenset(), kept)
            assert len(weights) == min(kept, 40)
            assert sum(both.weights(frozenset(), kept).values()) == 2 * sum(weights.values())


@pytest.mark.parametrize("question", QUESTIONS)
def test_order_batches_and_spilling_change_nothing(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(len(question))
    rows: list[Row] = [
        (int(u), int(a), float(a), str(a % 3), int(i)) for u, a, i in rng.integers(0, 30, (400, 3))
    ]
    plan, named = asked(question, max_rows_contributed=2).plans[0], keys_named(rows, question, {3})
    alone = units_alone(plan)
    with in_numpy(plan, rows) as stage:
        usual = [
            *steps_of(stage, named, 3, alone=alone),
            stage.weights(named, 2),
            stage.votes(),
        ]
    monkeypatch.setattr("dpsql.bounding.partitions._TOGETHER", 2)
    monkeypatch.setattr("dpsql.bounding.unit_order._LEAST", 16)
    for share in (PLENTY, 1 << 14):  # the second holds some of the pairs
        with in_numpy(plan, rows, seed=5, size=7, share=share) as stage:
            pairs = cast(Any, stage.exact.rows).pairs
            spilled = [isinstance(p, kept_pairs._Spilled) for some in pairs.units for p in some]
            assert any(spilled) == (share != PLENTY)
            assert not all(spilled)
            found = [
                *steps_of(stage, named, 3, alone=alone),
                stage.weights(named, 2),
                stage.votes(),
            ]
            assert found == usual


LARGE: list[Row] = [
    *((1, key, key - 60.0, str(key % 3), key % 7) for key in range(120)),
    *((unit, key, 1.0, "", 5) for unit in range(2, 9) for key in range(unit, 20, 3)),
]
"""Rows of which one unit has far more keys than all others."""


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("pairs", [2, 12])
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_unit_with_more_keys_than_memory_comes_in_parts_of_them(
    question: str, pairs: int, drawn: bool
) -> None:
    """Its rows fail no question: steps are those of more memory."""
    plan = asked(question, max_rows_contributed=2).plans[0]
    plan = scaled(plan) if drawn else plan
    named, alone = keys_named(LARGE, question, {3, 5, 90, 100}), units_alone(plan)

    def steps(share: int = PLENTY) -> list[object]:
        with in_numpy(plan, LARGE, share=share) as stage:
            return [
                *steps_of(stage, named, 3, alone=alone),
                *(stage.weights(each, kept) for each in (frozenset(), named) for kept in (2, 90)),
                stage.votes(),
            ]

    usual = steps()
    with small_steps(), divided_units() as parts:
        assert steps(memory_for(pairs)) == usual
    assert max(parts) > 1


def test_a_unit_that_weighs_by_its_last_part_alone_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [*LARGE[:20], *LARGE[120:]]
    plan = asked(QUESTIONS[2], max_rows_contributed=2).plans[0]
    named = keys_named(rows, QUESTIONS[2], {-55, -50, -45, 1})
    none = units.added_up(())
    for module in (rounds, units):
        monkeypatch.setattr(module, "added_up", lambda parts: [none, *parts][-1])
    with small_steps():
        assert audited(plan, rows, named, 4, 2, share=memory_for(2))


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_one_unit_in_parts_moves_every_step_within_what_the_mechanism_expects(
    question: str,
) -> None:
    rows = [*LARGE[:20], *LARGE[120:]]
    plan = asked(question, max_rows_contributed=2).plans[0]
    for one in (plan, scaled(plan)):
        with small_steps():
            named = keys_named(rows, question, {3, 5, 7})
            assert audited(one, rows, named, 4, 2, share=memory_for(2)) == []


def test_products_beyond_64_bits_are_exact() -> None:
    plan = asked("SELECT a, sum(i) FROM r GROUP BY a", max_rows_contributed=2).plans[0]
    with in_numpy(plan, CROWD) as stage:
        source = cast(Any, stage.exact.rows).counted[-1]
    measure = replace(source.measure, weights=replace(source.measure.weights, coarsening=3 << 20))
    values, weights = np.array([2**60, -(2**60) - 1, 5]), np.array([65536, 65535, 1])
    expected = [
        abs(int(v)) * int(w) // (3 << 20) * (1 if v > 0 else -1)
        for v, w in zip(values, weights, strict=True)
    ]
    found = rounds._weighed(replace(source, measure=measure), values, weights)
    assert found.tolist() == expected


# -- units that are texts --------------------------------------------------------------------------


def of_texts(question: str, **parameters: Any) -> BlockPlan:
    found = planned(question, OF_TEXTS, RULES, max_groups_contributed="auto", **parameters)
    return found.plans[0]


def one_hash(statement: str) -> str:
    """All units have one hash: their ranks alone tell them apart."""
    hashed = f'CAST(hash(hash({SALT}, "__dpsql_unit")) >> 32 AS BIGINT)'
    return statement.replace(hashed, "4294967295")


def in_texts(rows: Sequence[Row]) -> list[Row]:
    return [(None if unit is None else f"unit {unit}", *row) for unit, *row in rows]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("change", [same, one_hash])
def test_units_that_are_texts_are_told_apart(question: str, change: Change) -> None:
    named = keys_named(CROWD, question, {1, 2, 3})
    alone = units_alone(asked(question).plans[0])
    with in_numpy(asked(question).plans[0], CROWD) as stage:
        expected = steps_of(stage, named, 2, alone=alone)
    with in_numpy(of_texts(question), in_texts(CROWD), TEXTS, change) as stage:
        assert steps_of(stage, named, 2, alone=alone) == expected


@pytest.mark.slow
@pytest.mark.parametrize("change", [same, one_hash])
def test_other_units_of_texts_do_not_change_what_a_unit_keeps(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, rows = of_texts(QUESTIONS[0]), in_texts(CROWD)
    assert audited(plan, rows, SOME, 2, 2, TEXTS, change) == []
    if change is one_hash:  # where a rank goes into hashes, others do
        monkeypatch.setattr(rounds, "kept_units", ranked(kept_units))
        assert audited(plan, rows, SOME, 2, 2, TEXTS, change)


def ranked(real: Any) -> Any:
    return lambda bounds, units: real(replace(bounds, rank_bits=0), units)


# -- broken twins ---------------------------------------------------------------------------------


def one_more(real: Any) -> Any:
    return lambda bounds, units: real(replace(bounds, kept=bounds.kept + 1), units)


def all_groups(real: Any) -> Any:
    return lambda whole, among: real(whole, None)


def whole_weights(real: Any) -> Any:
    return lambda groups, sizes: np.full_like(sizes, WEIGHT_STEPS)


def unsalted(real: Any) -> Any:
    """The order of a unit's keys is that of their numbers, which others change."""
    return lambda bounds, units: real(replace(bounds, hashes=None), units)


def pairs_counted(real: Any) -> Any:
    """Sizes are numbers of pairs, each unit as many times."""
    return lambda pairs, *among: np.repeat(real(pairs, *among), real(pairs, *among))


TWINS = {
    "a unit keeps one more": ("kept_units", one_more),
    "a round forgets to leave out what has a name": ("_among", all_groups),
    "units weigh as much in each key": ("weights_of", whole_weights),
    "the order is that of row ids, which others change": ("kept_units", unsalted),
    "a pilot counts pairs": ("_sizes", pairs_counted),
}


@pytest.mark.slow
def test_the_crowd_is_what_the_twins_need() -> None:
    assert audited(asked(QUESTIONS[0]).plans[0], CROWD, SOME, 2, 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_audit_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, twin = TWINS[name]
    monkeypatch.setattr(rounds, part, twin(getattr(rounds, part)))
    try:
        found = audited(asked(QUESTIONS[0]).plans[0], CROWD, SOME, 2, 2)
    except ValueError:  # arrays that no longer fit each other
        return
    assert found


def test_pairs_that_are_read_back_are_those_written() -> None:
    plan = asked(QUESTIONS[0]).plans[0]
    with in_numpy(plan, CROWD) as stage:
        real = cast(Any, stage.exact.rows).pairs
        parts: Iterable[Any] = list(real)
    stream = SimpleNamespace(share=0, file=real.stream.file, proceed=list)
    again = KeptPairs.of(cast(Any, stream), parts)
    whole = [[pairs for units in each for pairs in units.parts] for each in (parts, again)]
    for one, other in zip(*whole, strict=True):
        for name in ("units", "groups"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert [n.tolist() for n in one.numbers] == [n.tolist() for n in other.numbers]
