"""Queries with ``max_groups_contributed = auto``: steps in SQL, plans, answers."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.cascade_rows import NeverInOrder, PairRows
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.laws import SeededSource, lower_bound
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import Row, normal
from helpers.sql_text import generated, text
from helpers.support import SALT, Planned, planned
from helpers.unchecked_runs import NoSheet, unread
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dpsql
from dpsql.core.schema import Schema, Table, schema_of
from dpsql.engines.base.scratch import Passed
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.duckdb.engine import DuckDBScratch
from dpsql.engines.duckdb.spill import Spill
from dpsql.engines.duckdb.streaming import Streaming, StreamMemory
from dpsql.errors import EngineError, ParameterError, PolicyError
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import BoundsFound
from dpsql.kinds.base import GROUPS
from dpsql.kinds.cascade import (
    CascadeKind,
    ExactCascade,
    StepProgress,
    draw_cascade,
    read_cascade,
    units_alone,
)
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedRows
from dpsql.pipeline.kept import release_codec
from dpsql.pipeline.kept.fingerprint import bounds_choice_fingerprint
from dpsql.planner import plan_block
from dpsql.policy.limits import BoundingLimit, Limits
from dpsql.policy.load import parse_policy
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Automatic, Maxima, Overrides, Parameters, check_value
from dpsql.policy.resolve import resolve
from dpsql.privacy.accounting.zcdp import Composition, rho_from_epsilon
from dpsql.privacy.mechanisms.additive import IndependentNoise, Steps
from dpsql.privacy.mechanisms.cascade import (
    CAP_CHOICES,
    NAMED_ALONE,
    WHOLE_SHARE,
    Caps,
    Cascade,
    CascadeGoal,
    UnitSizes,
)
from dpsql.privacy.mechanisms.naming import GroupWeights
from dpsql.privacy.mechanisms.set_union_weights import vote
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS, weight_of
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.results.explanation import explain_block
from dpsql.sql.rewrite.weighting import rows_within

COLUMNS = (("u", "BIGINT"), ("a", "INTEGER"), ("f", "DOUBLE"), ("s", "VARCHAR"), ("i", "INTEGER"))
SCHEMA: Schema = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
RULES = Policy(
    "rounds",
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
    tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"), {"i": ColumnPolicy(-5, 9)})},
)
Key = tuple[object, ...]
Named = frozenset[Key]
Change = Callable[[str], str]


def same(sql: str) -> str:
    return sql


def asked(sql: str, **parameters: Any) -> Planned:
    return planned(sql, SCHEMA, RULES, max_groups_contributed="auto", **parameters)


@dataclass(frozen=True)
class Stage:
    """The steps of a question over some rows, with keys in place of row ids."""

    exact: ExactCascade
    ids: dict[tuple[object, ...], int]

    def of(self, named: Named) -> NDArray[np.int64]:
        return np.array(sorted(self.ids[key] for key in named if key in self.ids), np.int64)

    @property
    def keys(self) -> dict[int, tuple[object, ...]]:
        return {number: key for key, number in self.ids.items()}

    def weighed(self, named: Named, kept: int) -> tuple[dict[Key, int], set[Key]]:
        """The weights of all groups that somebody keeps, and which have the minimum of units."""
        found = self.exact.rows.unnamed_weights(self.of(named), kept)
        names = [self.keys[number] for number in found.ids.tolist()]
        enough = {name for name, flag in zip(names, found.enough.tolist(), strict=True) if flag}
        return dict(zip(names, found.weights.tolist(), strict=True)), enough

    def weights(self, named: Named, kept: int) -> dict[Key, int]:
        return self.weighed(named, kept)[0]

    def sizes(self, named: Named | None) -> dict[int, int]:
        found = self.exact.rows.unit_sizes(None if named is None else self.of(named))
        return dict(zip(found.sizes.tolist(), found.units.tolist(), strict=True))

    def norms(self, named: Named) -> dict[int, int]:
        found = self.exact.rows.unit_norms(self.of(named))
        return dict(zip(found.sizes.tolist(), found.units.tolist(), strict=True))

    def shares(self, named: Named) -> int:
        return self.exact.rows.norm_shares(self.of(named))

    def votes(self) -> dict[Key, int]:
        """So few for each key that most are full."""
        found = vote(self.exact.rows.units_in_order(), cutoff=2).tolist()
        return {self.keys[code + 1]: votes for code, votes in enumerate(found)}

    def totals(self, named: Named, cap: int) -> list[dict[tuple[object, ...], int]]:
        """The totals of units and values at one cap."""
        ids = self.of(named)
        names = [self.keys[number] for number in ids.tolist()]
        return [
            dict(zip(names, column.tolist(), strict=True))
            for column in self.exact.totals(ids, Caps(cap, cap))
        ]


@contextmanager
def staged(plan: BlockPlan, rows: Sequence[Row], change: Change = same) -> Iterator[Stage]:
    """The stage of a plan over rows, its generated SQL changed as a broken twin would have it."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as connection:
        connection.execute(f"CREATE TABLE r ({', '.join(' '.join(c) for c in COLUMNS)})")
        if rows:
            connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?)", rows)
        sql = CascadeKind(plan).sql(SALT, DUCKDB)
        with _Changed(connection, change) as scratch:
            exact = read_cascade(sql, scratch, lambda ids: {}, StepProgress(lambda _: None))
            listed = connection.execute(f'SELECT * FROM "{GROUPS}"').fetchall()
            yield Stage(exact, {tuple(map(normal, key)): number for number, *key in listed})


class _Changed(DuckDBScratch):
    def __init__(self, connection: duckdb.DuckDBPyConnection, change: Change) -> None:
        super().__init__(connection, NoSheet(), Streaming(StreamMemory(0), Spill()))
        self._change = change

    def _store(self, name: str, passed: Passed) -> int:
        return super()._store(name, self._changed(passed))

    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        return super()._integers(self._changed(passed))

    def _changed(self, passed: Passed) -> Passed:
        return replace(passed, statement=generated(self._change(text(passed.statement))))


# -- one unit more or less ------------------------------------------------------------------------


def l2(one: dict[Any, int], other: dict[Any, int]) -> float:
    """How far weights are apart; a group that nobody keeps weighs nothing."""
    return math.sqrt(sum((one.get(k, 0) - other.get(k, 0)) ** 2 for k in one.keys() | other.keys()))


def violations(
    plan: BlockPlan, mine: Stage, left: Stage, named: Named, kept: int, cap: int
) -> Iterator[str]:
    """What a unit that only the first stage has changes more than the mechanism expects."""
    counted = [noisy for noisy in plan.measures if noisy.noise is not None]
    valued = bool(counted) and not units_alone(plan)
    looks: list[Callable[[Stage], dict[int, int]]] = [
        lambda stage: stage.sizes(None),
        lambda stage: stage.sizes(named),
    ]
    looks += [lambda stage: stage.norms(named)] if valued else []
    for look in looks:
        more, fewer = look(mine), look(left)
        change = [more.get(size, 0) - fewer.get(size, 0) for size in more | fewer]
        if sorted(map(abs, filter(None, change))) not in ([], [1]):
            yield f"a pilot changes by {change}"
    (one, may), (two, might) = mine.weighed(named, kept), left.weighed(named, kept)
    if named & one.keys():
        yield "a round weighs what has a name"
    if l2(one, two) > WEIGHT_STEPS:
        yield f"a round moves by {l2(one, two) / WEIGHT_STEPS}"
    fresh, floor = may - might, plan.block.parameters.min_units_per_group - 1
    if might - may or len(fresh) > kept:
        yield "groups come and go"
    most = floor * WEIGHT_STEPS + weight_of(1, max(1, len(fresh)))
    if any(one[key] > most for key in fresh):
        yield "a fresh group weighs too much"
    if CascadeKind(plan).cascade.votes is not None:
        given, others = mine.votes(), left.votes()
        moved = sum(abs(given.get(key, 0) - others.get(key, 0)) for key in given | others)
        if moved > 1:
            yield f"votes change by {moved}"
    if valued and not 0 <= mine.shares(named) - left.shares(named) <= WHOLE_SHARE:
        yield "shares move by more than a whole one"
    for noisy, with_unit, without in zip(
        counted, mine.totals(named, cap), left.totals(named, cap), strict=True
    ):
        squares = sum(
            (with_unit.get(key, 0) - without.get(key, 0)) ** 2 for key in with_unit | without
        )
        limit = noisy.measure.sensitivity(plan.block.parameters.rows_limit)
        if squares > cap * limit**2:
            yield f"counting {noisy.measure.name} moves by {math.sqrt(squares) / limit}"


def audited(
    plan: BlockPlan,
    rows: Sequence[Row],
    named: Named,
    kept: int,
    cap: int,
    change: Change = same,
) -> list[str]:
    found: list[str] = []
    with staged(plan, rows, change) as mine:
        for unit in {row[0] for row in rows} - {None}:
            others = [row for row in rows if row[0] != unit]
            with staged(plan, others, change) as left:
                found += violations(plan, mine, left, named, kept, cap)
    return found


QUESTIONS = (
    "SELECT a, count(DISTINCT u) FROM r GROUP BY a",
    "SELECT a, s, count(*) FROM r WHERE f > 0 GROUP BY a, s",
    "SELECT f, count(DISTINCT u), sum(i), avg(i) FROM r GROUP BY f",
    "SELECT DISTINCT a FROM r",
    "SELECT a, stddev(i), count(DISTINCT CASE WHEN i > 0 THEN u END) FROM r GROUP BY a",
)
rows_of_units = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2, 2, 3, 4, None]),
        st.sampled_from([0, 1, 2, 3, 4, 5, None]),
        st.sampled_from([0.0, -0.0, 1.5, 2.5, math.nan, math.inf, None]),
        st.sampled_from(["", "1", "é", None]),
        st.sampled_from([-7, -1, 0, 4, 2**31 - 1, None]),
    ),
    max_size=30,
)
names_of = st.sets(st.sampled_from([0, 1, 2, 3, 4, 5, None]), max_size=4)


def keys_named(rows: Sequence[Row], question: str, chosen: set[int | None]) -> Named:
    """The keys of a question whose column ``a`` (or a place of ``f``) is among those chosen."""
    found: set[tuple[object, ...]] = set()
    for row in rows:
        if row[1] in chosen:
            key = (row[1], row[3]) if "GROUP BY a, s" in question else (row[1],)
            found.add(tuple(map(normal, (row[2],) if "GROUP BY f" in question else key)))
    return frozenset(found)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@examples_of(3)
@given(rows_of_units, names_of, st.integers(1, 3), st.sampled_from([1, 2, 7]), st.integers(1, 2))
def test_one_unit_moves_every_step_within_what_the_mechanism_expects(
    question: str, rows: list[Row], chosen: set[int | None], kept: int, cap: int, minimum: int
) -> None:
    found = asked(question, min_units_per_group=minimum, max_rows_contributed=2)
    named = keys_named(rows, question, chosen)
    assert audited(found.plans[0], rows, named, kept, cap) == []


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@many_examples_of(25)
@given(rows_of_units, names_of, st.integers(1, 3), st.sampled_from([1, 2, 7]), st.integers(1, 2))
def test_one_unit_moves_every_step_within_what_the_mechanism_expects_at_length(
    question: str, rows: list[Row], chosen: set[int | None], kept: int, cap: int, minimum: int
) -> None:
    found = asked(question, min_units_per_group=minimum, max_rows_contributed=2)
    named = keys_named(rows, question, chosen)
    assert audited(found.plans[0], rows, named, kept, cap) == []
    assert audited(found.plans[0], rows, named, kept, cap, constant_hash) == []


def constant_hash(sql: str) -> str:
    """Hashes that all collide: the order of keys has to decide."""
    return sql.replace(f"hash(hash({SALT}, ", "(SELECT 5) + 0 * hash(hash(3, ")


CROWD: list[Row] = [
    (unit, (unit * 5 + step) % 11 if unit else step - 90, 1.0, "1", step - 2)
    for unit in range(7)
    for step in range(6)
]
SOME = frozenset({(1,), (2,), (3,)})
WITHOUT_LEFT = (
    'FROM "__dpsql_staged" p ANTI JOIN "__dpsql_named" g ON (p."__dpsql_rid" = g."__dpsql_rid")'
)
WITHOUT_COUNTED = WITHOUT_LEFT.replace("ANTI", "SEMI")


def swapped(old: str, new: str) -> Change:
    return lambda sql: sql.replace(old, new)


NUMBERS = itertools.count()
TWINS: dict[str, Change] = {
    "a round forgets to leave out what has a name": swapped(
        WITHOUT_LEFT, 'FROM "__dpsql_staged" p'
    ),
    "a round caps anew with a salt of its own": lambda sql: sql.replace(
        'ORDER BY "__dpsql_order"', f'ORDER BY hash({next(NUMBERS)}, "__dpsql_order")'
    ),
    "the order is that of row ids, which others change": swapped(
        'ORDER BY "__dpsql_order"', 'ORDER BY hash("__dpsql_rid")'
    ),
    "a unit keeps all of its keys": swapped('"__dpsql_rank" <= 2', '"__dpsql_rank" > 0'),
    "units weigh as much in each key": swapped("THEN 65536 ELSE", "THEN 65536 ELSE 65536 +"),
    "counting weighs nobody down": swapped(
        'CASE WHEN "__dpsql_size" <= 2 THEN 65536', "CASE WHEN TRUE THEN 65536"
    ),
    "a pilot counts pairs": swapped('count(*) AS "__dpsql_units"', 'sum("__dpsql_size")'),
}


@pytest.mark.slow
def test_the_crowd_is_what_the_twins_need() -> None:
    for question in QUESTIONS[:1]:
        assert audited(asked(question).plans[0], CROWD, SOME, 2, 2) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_the_audit_notices(name: str) -> None:
    assert audited(asked(QUESTIONS[0]).plans[0], CROWD, SOME, 2, 2, TWINS[name])


def test_a_counting_over_a_key_without_a_name_is_noticed() -> None:
    plan = asked(QUESTIONS[0]).plans[0]
    for change in (same, swapped(WITHOUT_COUNTED, 'FROM "__dpsql_staged" p')):
        with staged(plan, CROWD, change) as mine:
            try:
                (counted,) = mine.totals(SOME, 7)
            except IndexError:
                counted = {}
            expected = dict.fromkeys(SOME, 0)
            for _, key in {(row[0], row[1]) for row in CROWD}:
                if (key,) in SOME:
                    expected[(key,)] += WEIGHT_STEPS
            assert (counted == expected) == (change is same)


@pytest.mark.slow
def test_steps_are_those_of_the_mechanism() -> None:
    rng = np.random.default_rng(4)
    pairs = {(int(pair[0]), int(pair[1])) for pair in rng.integers(0, (40, 25), (300, 2))}
    rows = [(u, k, 1.0, "1", 1) for u, k in pairs for _ in range(1 + u % 2)]
    units, keys = (np.array(column) for column in zip(*sorted(pairs), strict=True))
    for minimum in (1, 9):
        plan = asked(QUESTIONS[0], min_units_per_group=minimum).plans[0]
        model = PairRows(units, keys, np.zeros(len(units)), minimum)
        with staged(plan, rows) as mine:
            for named in (frozenset(), frozenset({(3,), (4,), (9,)})):
                ids = np.array(sorted(int(str(key[0])) for key in named), np.int64)
                expected = model.unnamed_weights(ids, 100)
                weights = dict(zip(expected.ids.tolist(), expected.weights.tolist(), strict=True))
                enough = expected.ids[expected.enough].tolist()
                assert mine.weighed(named, 100) == (
                    {(k,): w for k, w in weights.items()},
                    {(k,) for k in enough},
                )
                sizes = model.unit_sizes(ids)
                assert mine.sizes(named) == dict(
                    zip(sizes.sizes.tolist(), sizes.units.tolist(), strict=True)
                )
                for cap in (1, 2, 50):
                    counted = model.counted(ids, cap).tolist()
                    (found,) = mine.totals(named, cap)
                    assert list(found.values()) == counted


def test_a_unit_keeps_exactly_as_many_keys_as_it_may() -> None:
    plan = asked(QUESTIONS[0]).plans[0]
    with staged(plan, [(1, key, 1.0, "1", 1) for key in range(40)]) as mine:
        for kept in (1, 3, 39, 40, 100):
            weights = mine.weights(frozenset(), kept)
            assert len(weights) == min(kept, 40)
            assert set(weights.values()) == {weight_of(1, min(kept, 40))}


@pytest.mark.slow
@pytest.mark.parametrize("column", ["unit", "k0"])
def test_votes_in_an_order_that_others_decide_are_noticed(column: str) -> None:
    plan, nothing = asked(QUESTIONS[3]).plans[0], frozenset[Key]()
    pairs = [(u, k) for u in range(10) for k in {u % 4, (u * u) % 5, (u * 3) % 7} if (u + k) % 3]
    rows: list[Row] = [(u, k, 0.0, "", 0) for u, k in pairs]
    others = '(SELECT count(*) FROM "r")'
    wrong = swapped(f'hash({SALT}, "__dpsql_{column}")', f'hash({others}, "__dpsql_{column}")')
    assert audited(plan, rows, nothing, 3, 1) == []
    assert [f for f in audited(plan, rows, nothing, 3, 1, wrong) if f.startswith("votes")]


# -- what is asked of rows is public or released --------------------------------------------------


@dataclass
class Watched(NeverInOrder):
    """Steps that say what they are asked for; nothing that is read tells what comes next."""

    stage: ExactCascade
    log: list[tuple[str, tuple[int, ...]]]

    def unit_sizes(self, named: NDArray[np.int64] | None) -> UnitSizes:
        self.log.append(("look", () if named is None else tuple(named.tolist())))
        return self.stage.rows.unit_sizes(named)

    def unit_norms(self, named: NDArray[np.int64]) -> UnitSizes:
        self.log.append(("norms", tuple(named.tolist())))
        return self.stage.rows.unit_norms(named)

    def norm_shares(self, named: NDArray[np.int64]) -> int:
        self.log.append(("shares", tuple(named.tolist())))
        return self.stage.rows.norm_shares(named)

    def unnamed_weights(self, named: NDArray[np.int64], kept: int) -> GroupWeights:
        self.log.append(("round", tuple(named.tolist())))
        return self.stage.rows.unnamed_weights(named, kept)

    def totals(self, named: NDArray[np.int64], caps: Caps) -> list[NDArray[np.int64]]:
        self.log.append(("count", tuple(named.tolist())))
        return self.stage.totals(named, caps)


def test_a_limit_of_few_groups_cuts_fewer_rows_and_has_a_draw_of_its_own() -> None:
    def drawn(limit: str) -> tuple[int, str]:
        asks = f"SELECT a, count(*) AS n FROM r GROUP BY a {limit}"
        free = replace(RULES, defaults=Parameters(epsilon=1.0, delta=1e-6, left_out_share=0.0))
        (plan,) = planned(asks, SCHEMA, free, usual=False, max_rows_contributed="auto").plans
        assert CascadeKind.fits(plan)
        assert plan.bounds_choice is not None
        return plan.bounds_choice.targets[0], bounds_choice_fingerprint(plan)

    every, one, three, ten = (
        drawn(limit and f"ORDER BY n DESC LIMIT {limit}") for limit in ("", "1", "3", "10")
    )
    assert one[0] < three[0] < every[0]
    assert ten == every
    assert len({one[1], three[1], every[1]}) == 3


def test_norms_are_those_of_what_units_add_in_the_most_that_they_may() -> None:
    """Of one unit with 1 and 3 of 4 rows, and one with 9 of them, in a third of its groups."""
    rows: list[Row] = [(1, 0, 1.0, "1", -2), *[(1, 1, 1.0, "1", 2)] * 3, *[(2, 1, 1.0, "1", 5)] * 9]
    rows += [(2, key, 1.0, "1", 5) for key in (5, 6)]
    named = frozenset({(0,), (1,)})
    for asks, limited, squares in (
        ("count(*)", True, {1: 2}),  # (1 + 9)/16 of 1, and 1
        ("count(*)", False, {1: 1, 6: 1}),  # 81/16, as what is beyond 4 rows counts
        ("sum(i)", True, {1: 2}),
        ("count(DISTINCT u), count(*)", False, {1: 1, 6: 1}),
    ):
        question = f"SELECT a, {asks} FROM r GROUP BY a"
        plan = asked(question, max_rows_contributed=4).plans[0]
        with staged(plan if limited else scaled(plan), rows) as mine:
            assert mine.norms(named) == squares
            # Of the second unit all is in one group: its norm is all that it adds.
            assert mine.shares(named) == (0 if limited else WHOLE_SHARE)


def scaled(plan: BlockPlan) -> BlockPlan:
    """A plan whose number of rows was drawn: it is a scale of norms."""
    found = replace(plan.block.bounds_found or BoundsFound(), rows=True, known=True)
    return replace(plan, block=replace(plan.block, bounds_found=found))


def test_explain_says_how_many_rows_of_a_unit_count() -> None:
    """All rows that are given, and many times a number that was drawn."""
    plan = asked(QUESTIONS[1], max_rows_contributed=4).plans[0]
    assert "at most 4 rows per unit and group" in CascadeKind(plan).bounding
    assert rows_within(plan) == 4
    drawn = scaled(plan)
    assert "measured in 4 rows of a group" in CascadeKind(drawn).bounding
    assert "at most 512 rows count per unit and group" in CascadeKind(drawn).bounding
    found = replace(drawn.block.bounds_found or BoundsFound(), most_rows=30)
    limited = replace(drawn, block=replace(drawn.block, bounds_found=found))
    assert "at most 30 rows count per unit and group" in CascadeKind(limited).bounding


HEAVY: list[Row] = [(1, key, 1.0, "1", 5) for key in range(4) for _ in range(1 + 40 * (key == 0))]
HEAVY += [(2, key, 1.0, "1", -7) for key in (0, 1) for _ in range(9)]


@pytest.mark.parametrize("cap", [1, 2, 7, 1000])
@pytest.mark.parametrize("question", [QUESTIONS[1], QUESTIONS[2], QUESTIONS[4]])
def test_norms_bound_units_where_a_number_of_rows_was_drawn(question: str, cap: int) -> None:
    plan = scaled(asked(question, max_rows_contributed=2).plans[0])
    named = keys_named(HEAVY, question, {0, 1, 2, 3})
    assert audited(plan, HEAVY, named, 2, cap) == []
    # Twins: what a unit adds has the root of the cap, and is not weighed down by it.
    if cap == 2:
        unweighed = re.compile(r'CASE WHEN "__dpsql_squares" <= \d+')
        assert audited(plan, HEAVY, named, 2, cap, lambda s: unweighed.sub("CASE WHEN TRUE", s))


def test_a_unit_with_most_rows_in_one_of_many_groups_loses_next_to_nothing() -> None:
    """Its norm is that of the one group: it used to be weighed down by the number of its groups."""
    rows: list[Row] = [(1, 0, 1.0, "1", 1)] * 20 + [(1, key, 1.0, "1", 1) for key in range(1, 40)]
    plan = asked("SELECT a, count(*) FROM r GROUP BY a", max_rows_contributed=20).plans[0]
    with staged(plan, rows) as mine:
        (found,) = mine.totals(frozenset((key,) for key in range(40)), 1)
    (step,) = (noisy.measure.step for noisy in plan.measures if noisy.noise is not None)
    assert sum(found.values()) * step > 0.9 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS[:2])
def test_steps_ask_for_released_names_only_and_count_no_others(question: str) -> None:
    plan = asked(question, epsilon=20.0, delta=1e-3).plans[0]
    rows: list[Row] = [
        (unit, key, 1.0, "1", 1) for unit in range(400) for key in (0, 1, 2 + unit % 30)
    ]
    with staged(plan, rows) as mine:
        watched = Watched(mine.exact, [])
        exact = ExactCascade(watched, watched.totals, mine.exact.keys_of)
        drawn = draw_cascade(plan, exact, SeededSource(3))
    released = tuple(drawn.named.ids.tolist())
    first, second = ([*drawn.named.ids[drawn.named.rounds == n].tolist()] for n in (0, 1))
    assert first
    assert watched.log == [
        ("look", ()),
        ("round", ()),
        ("round", tuple(first)),
        ("round", tuple(first + second)),
        *([("look", released)] if units_alone(plan) else []),
        *([] if units_alone(plan) else [("norms", released), ("shares", released)]),
        ("count", released),
    ]


# -- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.BASIC])
def test_a_plan_costs_what_the_question_may_and_no_refund(
    question: str, composition: Composition
) -> None:
    block = asked(question, epsilon=1.0, delta=1e-6).plans[0].block
    plan = plan_block(block, composition=composition)
    assert isinstance(plan.selection, Cascade)
    assert plan.loss(0) == plan.loss(None) == plan.loss(12)
    if composition is Composition.BASIC:
        assert plan.loss(None).epsilon <= 1.0
        return
    most = rho_from_epsilon(1.0, 0.5e-6)
    assert 0.99 * most < plan.loss(None).rho <= most
    assert plan.loss(None).delta <= 0.5e-6


def test_explain_shows_steps_shares_noise_and_thresholds() -> None:
    plan = asked(QUESTIONS[2], epsilon=1.0, delta=1e-6).plans[0]
    steps = explain_block(plan, "").steps
    assert [step.step for step in steps] == [
        "pilot of keys per unit",
        "naming, round 1",
        "naming, round 2",
        "naming, round 3",
        "pilot of named groups per unit",
        "pilot of units' norms",
        "pilot of norms' shares",
        "counting units",
        "counting sum(i)",
        "counting centered_sum(i)",
        "counting values(i)",
    ]
    assert sum(step.rho for step in steps) <= plan.loss(None).rho * (1 + 1e-12)
    assert sum(step.delta for step in steps) <= plan.loss(None).delta
    low, high = steps[2].thresholds or (0, 0)
    assert 0 < low < high
    json.dumps([str(step) for step in steps])


@pytest.mark.parametrize(
    ("question", "parts"), [(QUESTIONS[0], 1), (QUESTIONS[1], 2), (QUESTIONS[2], 3)]
)
def test_what_the_second_pilot_draws_costs_its_share(
    question: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever histograms and sums there are."""
    drawn: list[float] = []
    add = IndependentNoise.add

    def counted(self: IndependentNoise, values: NDArray[np.int64], source: EntropySource) -> Steps:
        drawn.append(self.rho(1))
        return add(self, values, source)

    monkeypatch.setattr(IndependentNoise, "add", counted)
    plan = asked(question, epsilon=60.0, delta=1e-6).plans[0]
    rows: list[Row] = [(u, u % 3, float(u % 2), "1", 1) for u in range(200) for _ in range(2)]
    with staged(plan, [*rows, *((u, u % 2, 1.0, "1", 1) for u in range(200))]) as mine:
        named = draw_cascade(plan, mine.exact, SeededSource(1)).named
    assert len(named.ids) > 0
    assert not named.alone
    cascade = CascadeKind(plan).cascade
    limit = cascade.price.rho * cascade.shares.second_pilot
    pilots = [rho for rho in drawn if rho == pytest.approx(limit / parts, rel=1e-6)]  # no others
    assert len(pilots) == parts
    assert sum(pilots) <= limit


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("ends", [(-9.0, 0.0), (-9.0, -5.0), (0.0, 0.0), (5.0, 9.0)])
def test_sums_of_one_sign_have_norms(ends: tuple[float, float], drawn: bool) -> None:
    table = replace(RULES.tables["r"], columns={"i": ColumnPolicy(*ends)})
    rules = replace(RULES, tables={"r": table})
    question = "SELECT a, sum(i), sum(-i) FROM r GROUP BY a"
    (plan,) = planned(
        question, SCHEMA, rules, max_groups_contributed="auto", max_rows_contributed=2
    ).plans
    plan = scaled(plan) if drawn else plan
    assert audited(plan, HEAVY, frozenset((key,) for key in range(4)), 2, 2) == []


def test_what_auto_cannot_answer_yet_is_refused_and_named() -> None:
    for question, what in (
        ("SELECT a, median(i) FROM r GROUP BY a", "quantiles"),
        ("SELECT a, count(DISTINCT s) FROM r GROUP BY a", "distinct values"),
    ):
        with fails_with("no_mechanism", match=what) as refused:
            asked(question)
        assert "max_groups_contributed" in str(refused.value.hint)


def test_a_top_k_needs_no_number_of_groups_and_takes_no_rounds() -> None:
    question = "SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC LIMIT 3"
    plan = asked(question).plans[0]
    assert not CascadeKind.fits(plan)
    unlimited = planned(question, SCHEMA, RULES, max_groups_contributed="unlimited")
    assert plan.selection == unlimited.plans[0].selection
    assert CascadeKind.fits(asked(question.replace("3", "5000")).plans[0])


def test_auto_is_another_question_than_a_number() -> None:
    auto = asked(QUESTIONS[0]).fingerprint
    assert auto != planned(QUESTIONS[0], SCHEMA, RULES).fingerprint
    assert auto == asked(QUESTIONS[0].replace("count", "COUNT")).fingerprint
    limited = replace(RULES, maxima=Maxima(max_groups_contributed=20))
    found = planned(QUESTIONS[0], SCHEMA, limited, max_groups_contributed="AUTO")
    assert found.fingerprint != auto


def test_the_owners_maximum_limits_what_auto_may_choose() -> None:
    limited = replace(RULES, maxima=Maxima(max_groups_contributed=20))
    plan = planned(QUESTIONS[0], SCHEMA, limited, max_groups_contributed="auto").plans[0]
    assert isinstance(plan.selection, Cascade)
    assert plan.selection.most == 20
    assert plan.block.parameters.max_groups_contributed == Automatic(20)
    single = replace(RULES, maxima=Maxima(max_groups_contributed=1))
    alone = planned(QUESTIONS[0], SCHEMA, single, max_groups_contributed="auto").plans[0]
    assert isinstance(alone.selection, Cascade)
    assert alone.selection.single
    with pytest.raises(ParameterError):
        planned(QUESTIONS[0], SCHEMA, RULES, max_groups_contributed="automatic")


@pytest.mark.parametrize(
    ("question", "goal"),
    [
        (QUESTIONS[0], CascadeGoal.COUNTS),
        (QUESTIONS[1], CascadeGoal.VALUES),
        (QUESTIONS[3], CascadeGoal.KEYS),
    ],
)
def test_the_budget_is_divided_for_what_is_asked(question: str, goal: CascadeGoal) -> None:
    plan = asked(question).plans[0]
    assert isinstance(plan.selection, Cascade)
    assert plan.selection.goal is goal


# -- answers --------------------------------------------------------------------------------------

WORLD = """
    CREATE TABLE r AS
    SELECT i % 5000 AS u, CAST(floor(exp(8 * (hash(i) % 1000000) / 1000000.0)) AS INTEGER) AS a,
        1.0 AS f, 's' || i % 3 AS s, i % 12 - 4 AS i FROM range(60000) t(i);
    CREATE TABLE single AS SELECT i AS u, i % 20 AS a FROM range(5000) t(i);
"""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    place = tmp_path_factory.mktemp("rounds")
    with duckdb.connect(str(place / "r.duckdb")) as writer:
        writer.execute(WORLD)
    tables = {**RULES.tables, "single": TablePolicy("single", PrivacyUnit("unit", "u"))}
    rules = replace(RULES, tables=tables, defaults=Parameters(epsilon=3.0, delta=1e-6))
    with dpsql.connect(
        place / "r.duckdb", rules, place / "b.db", "ana", max_groups_contributed="auto"
    ) as con:
        yield con


def plain(sql: str) -> dict[object, tuple[Any, ...]]:
    with duckdb.connect() as engine:
        engine.execute(WORLD)
        return {row[0]: row[1:] for row in engine.execute(sql).fetchall()}


QUERY = (
    "SELECT a, count(DISTINCT u) AS n, count(*) AS c, sum(i) AS t, avg(i) AS m FROM r GROUP BY a"
)


@pytest.mark.slow
def test_answers_are_near_the_true_ones(connection: dpsql.Connection) -> None:
    result, true = connection.sql(QUERY, max_rows_contributed=3), plain(QUERY)
    rows = result.fetchall()
    assert len(rows) > 30
    large = [row for row in rows if true[row[0]][0] > 1000]
    assert large
    for key, units, count, _, mean in large:
        assert units == pytest.approx(true[key][0], rel=0.25)
        assert count == pytest.approx(true[key][1], rel=0.35)
        assert mean == pytest.approx(true[key][3], abs=1.5)
    assert result.cost.settled == result.cost.reserved


@pytest.mark.slow
def test_a_stored_release_knows_where_its_counts_came_from(connection: dpsql.Connection) -> None:
    for sql in (QUERY, "SELECT a, count(DISTINCT u) AS n, count(*) AS c FROM single GROUP BY a"):
        first, again = connection.sql(sql), connection.sql(sql)
        assert again.cost.stored
        assert sorted(first.fetchall()) == sorted(again.fetchall())
        one, two = first.intervals(), again.intervals()
        assert one.keys() == two.keys()
        for name, interval in one.items():
            assert sorted(interval.low) == sorted(two[name].low)
            assert sorted(interval.high) == sorted(two[name].high)
            assert np.isfinite(interval.low).all()


def test_a_stored_release_of_before_tells_no_loss_and_is_read(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = release_codec._drawn

    def of_before(plan: BlockPlan, rows: ReleasedRows) -> list[str]:
        later = release_kind(plan).later_columns
        assert later
        return [name for name in drawn(plan, rows) if name not in later]

    asked_before = "SELECT a, count(*) AS c, avg(i) AS m FROM r WHERE i > -3 GROUP BY a"
    with monkeypatch.context() as patch:
        patch.setattr(release_codec, "_drawn", of_before)
        first = connection.sql(asked_before)
    again = connection.sql(asked_before)
    assert again.cost.stored
    assert sorted(first.fetchall()) == sorted(again.fetchall())
    for interval in again.intervals().values():
        assert np.isfinite(interval.low).all()
        assert np.isfinite(interval.high).all()


def test_intervals_take_in_what_is_released(connection: dpsql.Connection) -> None:
    result = connection.sql(QUERY)
    rows = result.fetchall()
    for position, name in enumerate(("n", "c", "t", "m"), start=1):
        interval = result.intervals()[name]
        values = np.array([row[position] for row in rows], dtype=float)
        assert (interval.low <= values + 1e-9).all()
        assert (values - 1e-9 <= interval.high).all()
        narrow = result.intervals(0.5)[name]
        assert (narrow.high - narrow.low <= interval.high - interval.low + 1e-9).all()


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say_after_scaling() -> None:
    """Of the exact countings, over many runs: the values that are released are scaled ones."""
    plan = asked(QUESTIONS[0], epsilon=8.0, delta=1e-3).plans[0]
    rows: list[Row] = [
        (unit, key, 1.0, "1", 1) for unit in range(150) for key in (0, 1, 2, 3, 4 + unit % 2)
    ]
    inside, trials, scaled, spared = 0, 0, 0, 0
    with staged(plan, rows) as mine:
        for seed in range(400):
            drawn = draw_cascade(plan, mine.exact, SeededSource(seed))
            if len(drawn.named.ids) == 0:
                continue
            (counting,) = drawn.countings
            cap = max(1, abs(counting))
            (true,) = mine.exact.totals(drawn.named.ids, Caps(cap, cap))
            spared += counting < 0
            answers = drawn.answers(plan)
            names = plan.block.interval_columns(0)
            columns = [answers[name].astype(np.float64) for name in names]
            interval = release_kind(plan).interval(len(true), 0, columns, 0.9)
            held = (interval.low <= true / WEIGHT_STEPS) & (true / WEIGHT_STEPS <= interval.high)
            inside, trials = inside + int(held.sum()), trials + len(true)
            scaled += drawn.released[0] is not drawn.counted[0]
    assert trials > 1_000
    assert scaled > 300
    assert spared > 300  # six keys, each of many units: what naming leaves counts them
    assert lower_bound(trials - inside, trials) <= 0.1
    assert inside < trials


@pytest.mark.slow
def test_what_is_asked_of_the_noise_is_answered_by_row(connection: dpsql.Connection) -> None:
    sql = (
        "SELECT a, count(DISTINCT u) AS n, DP_INTERVAL_LOW(count(DISTINCT u)) AS low, "
        "DP_INTERVAL_HIGH(count(DISTINCT u)) AS high, DP_NOISE_SCALE(count(*)) AS scale "
        "FROM r GROUP BY a"
    )
    rows = connection.sql(sql).fetchall()
    assert rows
    assert all(low <= n <= high for _, n, low, high, _ in rows)
    assert {scale > 0 for *_, scale in rows} == {True}


def test_units_with_one_key_are_counted_in_the_round_that_names(
    connection: dpsql.Connection,
) -> None:
    result = connection.sql("SELECT a, count(DISTINCT u) AS n FROM single GROUP BY a", fresh=True)
    rows = result.fetchall()
    assert len(rows) == 20
    assert max(abs(n - 250) for _, n in rows) < 40
    width = result.intervals()["n"].high - result.intervals()["n"].low
    assert width.max() < 50


@pytest.mark.slow
def test_keys_alone_are_named_in_rounds(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT DISTINCT a FROM r")
    rows = result.fetchall()
    assert result.plan.blocks[0].mechanism == "cascade"
    assert len(rows) == len(set(rows)) > 60
    assert {key for (key,) in rows} <= plain("SELECT DISTINCT a FROM r").keys()
    forced = connection.sql("SELECT DISTINCT a FROM r", mechanism="policy_gaussian_set_union")
    assert forced.plan.blocks[0].mechanism == "policy_gaussian_set_union"


def test_the_words_of_an_answer_say_what_decided(connection: dpsql.Connection) -> None:
    text = connection.sql(QUERY).summary()
    assert "named in rounds" in text
    assert "±" not in text
    shown = str(connection.explain(QUERY))
    for words in ("naming, round 2", "pilot of keys per unit", "counting units"):
        assert words in shown


@pytest.mark.slow
def test_an_answer_says_that_rows_left_out_are_not_told(connection: dpsql.Connection) -> None:
    counted = "SELECT a, count(*) AS n FROM r GROUP BY a"
    words = "With auto, what max_rows_contributed (3) leaves out is not told."
    assert words in connection.sql(counted, max_rows_contributed=3).summary()
    unasked = connection.sql(counted, max_rows_contributed=3, left_out_share=0, fresh=True)
    assert words not in unasked.summary()
    units = "SELECT a, count(DISTINCT u) AS n FROM r GROUP BY a"
    assert "leaves out" not in connection.sql(units, max_rows_contributed=3).summary()


def test_nothing_is_left_of_the_stage(connection: dpsql.Connection) -> None:
    connection.sql("SELECT a, count(*) FROM r GROUP BY a", fresh=True)
    engine = connection._answerer.engine
    with engine.run() as run, unread(run).scratch() as scratch:
        (tables,) = scratch.integers("SELECT count(*) FROM duckdb_tables() WHERE temporary")
    assert tables.tolist() == [0]


def test_an_answer_without_groups_costs_as_much(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT a, count(*) FROM r GROUP BY a", epsilon=0.001, fresh=True)
    assert result.fetchall() == []
    assert result.cost.settled == result.cost.reserved
    assert result.intervals() is not None


@pytest.mark.slow
def test_progress_tells_each_percent_once_whatever_comes_out(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "r.duckdb")) as writer:
        writer.execute(WORLD)
    for epsilon in (0.001, 3.0):
        told: list[int] = []
        with dpsql.connect(
            tmp_path / "r.duckdb",
            RULES,
            tmp_path / f"{epsilon}.db",
            "ana",
            max_groups_contributed="auto",
            epsilon=epsilon,
            progress=told.append,
        ) as con:
            con.sql("SELECT a, count(DISTINCT u) FROM r GROUP BY a")
        assert told == list(range(101))


def test_settings_and_options_take_the_word(connection: dpsql.Connection) -> None:
    options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 3)"
    one_round = connection.explain(f"SELECT {options} a, count(*) FROM r GROUP BY a")
    assert one_round.blocks[0].steps == ()
    again = options.replace("3", "auto")
    rounds = connection.explain(f"SELECT {again} a, count(*) FROM r GROUP BY a")
    assert len(rounds.blocks[0].steps) == 7
    assert NAMED_ALONE not in CAP_CHOICES


# -- settings -------------------------------------------------------------------------------------

POLICY_TEXT = """
version: 1
dataset: rounds
defaults: {{epsilon: 3.0, delta: 1e-6, max_groups_contributed: {default}}}
maxima: {{max_groups_contributed: {maximum}}}
accounts:
  ana: {{epsilon: 100.0, delta: 1e-3}}
tables:
  r:
    privacy_unit: {{name: unit, column: u}}
"""


def test_a_policy_may_have_the_word_as_its_default_and_not_as_a_maximum() -> None:
    rules = parse_policy(POLICY_TEXT.format(default="AUTO", maximum="unlimited"))
    assert rules.defaults.max_groups_contributed == Automatic()
    assert resolve(rules).max_groups_contributed == Automatic()
    limited = parse_policy(POLICY_TEXT.format(default="auto", maximum=12))
    assert resolve(limited).max_groups_contributed == Automatic(12)
    assert resolve(limited, Overrides(max_groups_contributed=5)).max_groups_contributed == 5
    with pytest.raises(PolicyError, match="number, or `unlimited`"):
        parse_policy(POLICY_TEXT.format(default=3, maximum="auto"))


def test_the_word_is_none_of_any_other_parameter() -> None:
    for name in ("epsilon", "delta", "k_bar", "min_units_per_group"):
        with pytest.raises(ParameterError):
            check_value(name, "auto")
        with pytest.raises(ParameterError):
            check_value(name, Automatic())


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize(
    ("bounding", "way"), [(BoundingLimit.SQL, "integers"), (BoundingLimit.ANY, "worked")]
)
def test_a_step_that_fails_on_private_rows_keeps_the_price_and_suspends(
    step: int, bounding: BoundingLimit, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks, rounds and counting: what had been reserved for all of them stays spent."""
    calls: list[float] = []
    reading = getattr(DuckDBScratch, way)

    def failing(scratch: DuckDBScratch, *given: Any) -> Any:
        calls.append(con.budget().rho_spent)
        if len(calls) == step + 1:
            raise EngineError(code="engine_failed")
        return reading(scratch, *given)

    limits = Limits(bounding=bounding)
    rules = replace(RULES, defaults=Parameters(epsilon=3.0, delta=1e-6), limits=limits)
    with duckdb.connect(str(tmp_path / "r.duckdb")) as writer:
        writer.execute(WORLD)
    with dpsql.connect(
        tmp_path / "r.duckdb", rules, tmp_path / "b.db", "ana", max_groups_contributed="auto"
    ) as con:
        price = con.explain(QUERY).reserved.rho
        monkeypatch.setattr(DuckDBScratch, way, failing)
        with pytest.raises(EngineError) as caught:
            con.sql(QUERY)
        assert caught.value.__context__ is None
        assert len(calls) == step + 1
        # All of it was reserved before the first step was read.
        assert all(spent == pytest.approx(price, rel=1e-6) for spent in calls)
        monkeypatch.undo()
        with fails_with("account_suspended"):
            con.sql(QUERY)
        assert con.budget().rho_spent == pytest.approx(price, rel=1e-6)
