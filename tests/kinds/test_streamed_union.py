"""Keys alone in NumPy: weights are those of SQL, and move no further by one unit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.numpy_maker import PLENTY, Place, divided_units, memory_for, small_steps
from helpers.random_examples import examples_of
from helpers.sensitivity import Row, moved_by_units, normal, rows_without, units_of
from helpers.sql_text import generated, text
from helpers.support import SALT, planned
from hypothesis import given
from test_set_union_sql import (
    COLUMNS,
    LAB,
    MECHANISMS,
    RULES,
    VOTES,
    Keys,
    asked,
    fixed_weights,
    questions,
    rows_of_units,
    taken,
    violations,
)

import dpsql
from dpsql.bounding import kept_pairs, partitions, unit_order
from dpsql.core.schema import Table, schema_of
from dpsql.core.sql import Sql
from dpsql.engines.base.engine import Scratch
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.errors import InternalError
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.kinds import streamed_union
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.streamed_union import streamed_weights_of_keys
from dpsql.policy.limits import BoundingLimit, Limits
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS, UnitItems, vote

FIXED = [name for name in MECHANISMS if name.startswith("weighted")]
TEXTS = (("u", "VARCHAR"), *COLUMNS[1:])
OF_TEXTS = schema_of(Table("r", tuple(column_of(*c) for c in TEXTS)))
MANY: list[Row] = [
    *((u, k, 0.0, "") for u in range(9) for k in range(u % 3, 8) for _ in range(2)),
    (0, -1, 0.0, ""),
]
"""Rows of which one unit has a key of its own, before those of all others."""
Passed = tuple[list[tuple[Keys, ...]], dict[Keys, int]]
Change = Callable[[str], str]


def same(statement: str) -> str:
    return statement


def one_hash(statement: str) -> str:
    """All units have one hash: their ranks alone tell them apart."""
    hashed = f'CAST(hash(hash({SALT}, "__dpsql_unit")) >> 32 AS BIGINT)'
    return statement.replace(hashed, "4294967295")


@dataclass
class Recorded:
    """A set union that keeps what passes it; votes end early, so that most keys are full."""

    real: SetUnion | GreedySetUnion
    batches: list[UnitItems] = field(default_factory=list)

    @property
    def keys_by_hash(self) -> bool:
        return self.real.keys_by_hash

    def weigh(self, batches: Iterable[UnitItems], *told: Any) -> Any:
        def passing() -> Iterator[UnitItems]:
            for batch in batches:
                self.batches.append(batch)
                yield batch

        if isinstance(self.real, GreedySetUnion):
            return vote(passing(), cutoff=2)
        return self.real.weigh(passing(), *told)


@contextmanager
def filled(
    rows: Sequence[Row], columns: Sequence[tuple[str, str]] = COLUMNS
) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": "1"}) as connection:
        connection.execute(f"CREATE TABLE r ({', '.join(' '.join(c) for c in columns)})")
        if rows:
            connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
        yield connection


class _Changed(Place):
    """A place whose stored statements are changed as a test wants."""

    change: Change = staticmethod(same)

    def store(self, name: str, statement: Sql) -> int:
        return super().store(name, generated(self.change(text(statement))))


def passed(
    plan: BlockPlan,
    rows: Sequence[Row],
    columns: Sequence[tuple[str, str]] = COLUMNS,
    change: Change = same,
    **how: int,
) -> Passed:
    """The keys of units in the order of the pass, and the weight of each key.

    Of units that vote all keys are listed, and their votes are those for fewer keys.
    """
    found = _passed(plan, rows, columns, change, **how)
    if isinstance(plan.selection, SetUnion):
        return found
    with mock.patch.object(unit_order, "_first_groups", lambda pairs, most: pairs):
        every = _passed(plan, rows, columns, change, **how)
    assert found[1] == every[1]
    assert found[0] == [unit[: len(every[0])] for unit in every[0]]
    return every


def _passed(
    plan: BlockPlan,
    rows: Sequence[Row],
    columns: Sequence[tuple[str, str]],
    change: Change,
    **how: int,
) -> Passed:
    union = Recorded(cast(SetUnion, plan.selection))
    with filled(rows, columns) as connection:
        place = _Changed(
            connection, how.get("seed", 0), how.get("size", 3), how.get("share", PLENTY)
        )
        place.change = change
        reading = SimpleNamespace(plan=plan, salt=SALT, dialect=DUCKDB)
        weights = streamed_weights_of_keys(
            cast(BlockReading, reading),
            cast(Any, union),
            cast(Scratch, place),
            lambda done, total: None,
            lambda: None,
        )
        listed = connection.execute(f'SELECT * EXCLUDE ("__dpsql_hash") FROM "{GROUPS}"')
        keys = {number: tuple(map(normal, key)) for number, *key in listed.fetchall()}
    assert sorted(keys) == list(range(1, len(keys) + 1))
    units: list[tuple[Keys, ...]] = []
    for batch in union.batches:
        for unit, item in zip(batch.units.tolist(), batch.items.tolist(), strict=True):
            assert unit in (len(units) - 1, len(units)), "positions are 0, 1, 2, ..."
            if unit == len(units):
                units.append(())
            units[-1] += (keys[item + 1],)
    return units, {keys[place + 1]: int(w) for place, w in enumerate(weights) if w}


def uncapped(plan: BlockPlan) -> BlockPlan:
    assert plan.bounding is not None
    return replace(plan, bounding=Bounding.sample(10**6))


# -- as in SQL ------------------------------------------------------------------------------------


@pytest.mark.slow
@examples_of(60)
@given(questions, rows_of_units)
def test_fixed_weights_are_those_of_sql(
    question: tuple[list[str], str, str, int], rows: list[Row]
) -> None:
    keys, where, mechanism, _ = question
    found = asked(keys, where, mechanism.replace("policy", "weighted"), 8)
    LAB.fill(rows)
    most = max((len(unit) for unit in passed(uncapped(found.plans[0]), rows)[0]), default=0)
    if most <= 8:  # so that the cap leaves out nothing, whatever the hash
        assert passed(found.plans[0], rows)[1] == fixed_weights(found.statements[0])


@pytest.mark.slow
@examples_of(60)
@given(questions, rows_of_units)
def test_units_have_the_keys_that_they_have_in_sql(
    question: tuple[list[str], str, str, int], rows: list[Row]
) -> None:
    keys, where, _, cap = question
    found = asked(keys, where, VOTES, cap)  # units have all of their keys
    LAB.fill(rows)
    expected, _ = taken(found.statements[0])
    units, _ = passed(found.plans[0], rows)
    assert sorted(map(listed, units)) == sorted(map(listed, expected))


def listed(unit: tuple[Keys, ...]) -> list[str]:
    return sorted(map(repr, unit))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("share", [PLENTY, 1 << 12])
def test_a_unit_keeps_exactly_as_many_keys_as_it_may(mechanism: str, share: int) -> None:
    rows: list[Row] = [(unit, key, 0.0, "") for unit in range(30) for key in range(unit % 7 + 1)]
    for cap in (2, 7):
        units, _ = passed(asked(["a"], "", mechanism, cap).plans[0], rows, share=share)
        expected = [min(cap, number % 7 + 1) for number in range(30)]
        assert sorted(map(len, units)) == sorted(expected)
        assert all(len(set(unit)) == len(unit) for unit in units)


def test_one_unit_has_all_rows_and_every_row_is_a_unit() -> None:
    for rows in ([(1, key, 0.0, "") for key in range(500)], [(n, 1, 0.0, "") for n in range(500)]):
        units, votes = passed(asked(["a"], "", VOTES, 2).plans[0], cast(list[Row], rows))
        assert sum(map(len, units)) == 500
        assert votes == ({units[0][0]: 1} if len(units) == 1 else {(1,): 2})


@pytest.mark.parametrize("mechanism", [*MECHANISMS, VOTES])
def test_without_rows_nothing_has_weight(mechanism: str) -> None:
    plan = asked(["a"], "", mechanism, 2).plans[0]
    assert passed(plan, []) == ([], {})
    assert passed(plan, [(None, 1, 0.0, "")]) == ([], {})


@pytest.mark.parametrize("mechanism", [*MECHANISMS, VOTES])
def test_order_batches_and_spilling_change_nothing(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    drawn = rng.integers(0, [60, 20], (900, 2))
    rows: list[Row] = [(int(u), int(a), 0.0, "") for u, a in drawn]
    plan = asked(["a"], "", mechanism, 3).plans[0]
    usual = passed(plan, rows, size=100)
    monkeypatch.setattr(partitions, "_TOGETHER", 2)
    monkeypatch.setattr(partitions, "_SORTED_AT", 16)
    monkeypatch.setattr(unit_order, "_LEAST", 16)
    assert passed(plan, rows, seed=5, size=7) == usual
    monkeypatch.setattr(kept_pairs, "_PART", 1 << 20)  # all pairs are in the file
    for share in (1 << 12, 1 << 14):
        assert passed(plan, rows, seed=3, size=5, share=share) == usual


LARGE: list[Row] = [(1, key, 0.0, "") for key in range(120)] * 2 + [
    (unit, key, 0.0, "") for unit in range(2, 9) for key in range(unit, 20, 3)
]
"""Rows of which one unit has far more keys than all others."""


@pytest.mark.parametrize("pairs", [4, 12])
@pytest.mark.parametrize("mechanism", [*MECHANISMS, VOTES])
def test_a_unit_with_more_keys_than_memory_comes_in_parts_of_them(
    mechanism: str, pairs: int
) -> None:
    """Its rows fail nothing: it keeps the keys that it keeps with more memory."""
    plan = asked(["a"], "", mechanism, 3).plans[0]
    usual = passed(plan, LARGE)
    assert sum(usual[1].values()) > 0
    with small_steps():
        for seed in range(3):
            with divided_units() as parts:
                assert passed(plan, LARGE, seed=seed, share=memory_for(pairs)) == usual
            assert max(parts) > 1


def test_a_unit_votes_for_its_first_key_that_others_have_left_open() -> None:
    """Of many more keys than there are units no more than that take memory in the pass."""
    plan = asked(["a"], "", VOTES, 2).plans[0]
    with small_steps():
        units, _ = _passed(plan, LARGE, COLUMNS, same, share=memory_for(4))
    assert max(map(len, units)) == len(units) == 8


# -- one unit more or less ------------------------------------------------------------------------


def moved(
    plan: BlockPlan,
    rows: Sequence[Row],
    columns: Sequence[tuple[str, str]] = COLUMNS,
    change: Change = same,
    **how: int,
) -> dict[object, list[str]]:
    """Every way in which a unit's departure changes more than the proofs allow."""

    def changed(short: Passed, full: Passed) -> list[str]:
        if isinstance(plan.selection, SetUnion):
            return violations(plan.selection, short, full)
        found = [abs(full[1].get(k, 0) - short[1].get(k, 0)) for k in full[1] | short[1]]
        left = [full[0][:place] + full[0][place + 1 :] for place in range(len(full[0]))]
        problems = ["votes"] * (sum(found) > 1)
        return problems + ["others"] * (short[0] not in [full[0], *left])

    return moved_by_units(
        rows,
        units_of(rows),
        rows_without,
        lambda kept: passed(plan, kept, columns, change, **how),
        changed,
    )


@pytest.mark.slow
@examples_of(40)
@given(questions, rows_of_units)
def test_a_unit_that_leaves_changes_nothing_but_its_own_weight(
    question: tuple[list[str], str, str, int], rows: list[Row]
) -> None:
    assert moved(asked(*question).plans[0], rows) == {}
    keys, where, _, cap = question
    kept = [row for row in rows if row[0] is not None]
    assert moved(asked(keys, where, VOTES, cap).plans[0], kept) == {}


def in_texts(rows: Sequence[Row]) -> list[Row]:
    return [(None if unit is None else f"unit {unit}", *row) for unit, *row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("change", [same, one_hash])
@pytest.mark.parametrize("mechanism", ["policy_laplace_set_union", VOTES])
def test_units_that_are_texts_have_an_order_of_their_own(mechanism: str, change: Change) -> None:
    found = planned(
        "SELECT DISTINCT a FROM r", OF_TEXTS, RULES, mechanism=mechanism, max_groups_contributed=2
    )
    assert moved(found.plans[0], in_texts(MANY), TEXTS, change) == {}


def test_other_units_do_not_move_units_of_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit's rank is in its name as a partition, whose order others change."""
    found = planned(
        "SELECT DISTINCT a FROM r",
        OF_TEXTS,
        RULES,
        mechanism="policy_laplace_set_union",
        max_groups_contributed=2,
    )
    rows, plan = in_texts([(unit, unit, 0.0, "") for unit in range(10, 330)]), found.plans[0]
    short = rows[1:]

    def order(kept: list[Row]) -> list[Any]:
        return [unit[0] for unit in passed(plan, kept, TEXTS, one_hash)[0]]

    assert order(rows)[1:] == order(short)
    monkeypatch.setattr(unit_order, "unit_numbers", lambda names, key: names)
    assert order(rows)[1:] != order(short)


# -- broken twins ---------------------------------------------------------------------------------


def one_more(real: Any) -> Any:
    return lambda spec, units: real(replace(spec, kept=spec.kept + 1), units)


def unsalted(real: Any) -> Any:
    """The order of a unit's keys is that of their numbers, which others change."""
    return lambda spec, units: real(replace(spec, hashes=None), units)


def read_twice(real: Any) -> Any:
    def whole(*given: Any) -> Iterator[Any]:
        for units in real(*given):
            yield from (units, units)

    return whole


def two_merged(real: Any) -> Any:
    """Units whose names are alike but for some bits are one."""

    def merged(pairs: Any) -> Any:
        units = pairs.units & ~np.uint64(7 << 56)
        return replace(pairs, units=units).at(np.lexsort((pairs.groups, units)))

    return lambda *given: (units.changed(merged) for units in real(*given))


TWINS = {
    "a unit keeps one more": (streamed_union, "kept_units", one_more),
    "the order of keys is that of row ids": (streamed_union, "kept_units", unsalted),
    "a partition is read twice": (streamed_union, "gathered_units", read_twice),
    "two units are one": (streamed_union, "gathered_units", two_merged),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_audit_notices(name: str, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = asked(["a"], "", mechanism, 2).plans[0]
    assert moved(plan, MANY) == {}
    place, part, twin = TWINS[name]
    monkeypatch.setattr(place, part, twin(getattr(place, part)))
    with contextlib.suppress(InternalError):  # the pass itself refuses these
        assert moved(plan, MANY) != {}


def test_an_order_of_units_by_partition_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units in the order in which memory has them, which is the one of parts, are not in theirs."""
    rows: list[Row] = [(unit, unit, 0.0, "") for unit in range(200)]
    plan = asked(["a"], "", "policy_laplace_set_union", 2).plans[0]
    usual = passed(plan, rows)
    monkeypatch.setattr(unit_order, "_LEAST", 16)
    monkeypatch.setattr(unit_order, "_MOST", 16)
    assert passed(plan, rows) == usual
    monkeypatch.setattr(unit_order, "scrambled", lambda units, key: np.zeros_like(units))
    assert passed(plan, rows) != usual


# -- whole questions ------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [{}, {"max_groups_contributed": 3}])
@pytest.mark.parametrize("unit", ["n % 5000", "'u' || n % 5000"])
def test_whole_questions_name_the_same_keys(
    bounds: dict[str, Any], unit: str, tmp_path: Path
) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute(
            f"CREATE TABLE r AS SELECT {unit} AS u, n % 3 AS a FROM range(20000) t(n)"
        )
    found: dict[BoundingLimit, set[Any]] = {}
    for limit in (BoundingLimit.ANY, BoundingLimit.SQL):
        policy = Policy(
            f"keys {limit}",
            accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
            tables={"r": TablePolicy("r", PrivacyUnit("unit", "u"))},
            limits=Limits(bounding=limit),
        )
        told: list[int] = []
        with dpsql.connect(
            tmp_path / "d.duckdb", policy, tmp_path / f"{limit}.db", "ana", progress=told.append
        ) as con:
            question = "SELECT DISTINCT a FROM r WHERE a < 9"
            asked_for: dict[str, Any] = dict(bounds, epsilon=1.0, delta=1e-5)
            maker = con.explain(question, **asked_for).blocks[0].maker
            assert maker.startswith("NumPy" if limit is BoundingLimit.ANY else "SQL")
            found[limit] = set()
            for number in range(6):  # a key that has all votes may stay without a name
                told.clear()
                text_asked = f"{question}{number}"
                found[limit] |= set(con.sql(text_asked, **asked_for).fetchall())
                assert told == list(range(101))
    assert found[BoundingLimit.ANY] == found[BoundingLimit.SQL] == {(0,), (1,), (2,)}


def test_weights_are_whole_ones_of_units_with_one_key() -> None:
    rows: list[Row] = [(unit, unit % 4, math.nan, "") for unit in range(20)]
    for mechanism in FIXED:
        _, weights = passed(asked(["a"], "", mechanism, 2).plans[0], rows)
        assert weights == {(key,): 5 * UNIT_WEIGHT_STEPS for key in range(4)}
