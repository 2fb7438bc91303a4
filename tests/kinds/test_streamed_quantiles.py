"""Values of groups are in NumPy what they are in SQL, and one unit moves them no further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import duckdb
import numpy as np
import pytest
from helpers.laws import IMPOSSIBLE, chi_square_p
from helpers.numpy_maker import (
    PLENTY,
    Place,
    divided_units,
    memory_for,
    small_steps,
    spilling_at_once,
)
from helpers.random_examples import examples_of
from helpers.sensitivity import Row, TableLab, moved_by_units, normal, rows_without, units_of
from helpers.support import Planned
from hypothesis import given
from hypothesis import strategies as st
from test_quantile_queries import (
    COLUMNS,
    MANY,
    RULES,
    Counted,
    counted,
    prepared,
    questions,
    rows_of_units,
    violations,
)

import dpsql
from dpsql.bounding import partitions, points, units
from dpsql.core.quoting import ROW_ID
from dpsql.engines.base.engine import Scratch
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.quantiles import _asked, _streamed_points
from dpsql.kinds.registry import release_kind
from dpsql.kinds.streamed import streamed_rows
from dpsql.kinds.streamed_quantiles import streamed_histograms
from dpsql.policy.limits import BoundingLimit, Limits
from dpsql.policy.model import AccountPolicy
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed

LAB = TableLab("r", COLUMNS)
SALT = 2**61 + 4321


def takes(plan: BlockPlan) -> bool:
    return Streamed(PrivateRows(plan, 0, DUCKDB)).objection(read_often=True) is None


def by_numpy(plan: BlockPlan, salt: int = SALT, **how: int) -> Counted:
    """Of each group with rows the rows of each point, for each kind of value."""
    place = Place(LAB._connection, how.get("seed", 0), how.get("size", 3), how.get("share", PLENTY))
    reading = cast(
        BlockReading,
        SimpleNamespace(plan=plan, salt=salt, dialect=DUCKDB, estimates=(), pairs=None),
    )
    scratch = cast(Scratch, place)
    exact, _ = streamed_rows(reading, scratch)
    names = [plan.block.key_column(index) for index in range(len(plan.block.keys))]
    if plan.declared:
        columns = [exact.measures[name].tolist() for name in names]
        keys = list(zip(*columns, strict=True)) or [()] * len(exact.row_ids)
    else:
        listed = ", ".join(f'"{each}"' for each in (ROW_ID, *names))
        stored = LAB._connection.execute(f'SELECT {listed} FROM "{GROUPS}"').fetchall()
        by_id = {row[0]: tuple(map(normal, row[1:])) for row in stored}
        keys = [by_id[each] for each in exact.row_ids.tolist()]
    found: Counted = {key: [] for key in keys}
    histograms = streamed_histograms(reading, scratch, _streamed_points)
    asked = np.concatenate([[0], exact.row_ids, [0]]).astype(np.int64)
    for ranked in _asked(plan):
        counts = histograms(ranked, asked)
        begins = [0, *counts.ends.tolist()]
        assert begins[0] == begins[1]
        assert begins[-1] == begins[-2]
        for place_, key in enumerate(keys, 1):
            entries = slice(begins[place_], begins[place_ + 1])
            at = counts.points[entries].tolist()
            assert at == sorted(set(at))
            found[key].append(Counter(dict(zip(at, counts.counts[entries].tolist(), strict=True))))
    return {key: counters for key, counters in found.items() if any(counters)}


def by_sql(plan: BlockPlan) -> Counted:
    statement = release_kind(plan).statement(SALT, DUCKDB).render(DUCKDB_TEXT)
    return {key: found for key, found in counted(LAB, statement, plan).items() if any(found)}


def bounded_by(plan: BlockPlan, rows: int | None = None) -> BlockPlan:
    """The plan without its cap on groups, and with another one on rows."""
    if plan.bounding is not None:
        plan = replace(plan, bounding=Bounding.sample(10**6))
    if rows is None:
        return plan
    parameters = replace(plan.block.parameters, max_rows_contributed=rows)
    return replace(plan, block=replace(plan.block, parameters=parameters))


@pytest.mark.slow
@examples_of(80)
@given(questions(), rows_of_units)
def test_without_caps_values_are_those_of_sql(question: Planned, rows: list[Row]) -> None:
    (plan,) = question.plans
    if not takes(plan):
        return
    LAB.fill(rows)
    free = bounded_by(plan, 1000)
    assert by_numpy(free) == by_sql(free)
    # Of more rows than may be kept others are, and as many.
    some = bounded_by(plan)
    mine, theirs = by_numpy(some), by_sql(some)
    assert totals(mine) == totals(theirs)


def totals(found: Counted) -> dict[tuple[object, ...], list[int]]:
    return {key: [counter.total() for counter in counters] for key, counters in found.items()}


@pytest.mark.slow
@examples_of(40)
@given(questions(), rows_of_units, st.integers(0, 2**32))
def test_order_batches_partitions_and_spilling_change_nothing(
    question: Planned, rows: list[Row], seed: int
) -> None:
    (plan,) = question.plans
    if not takes(plan):
        return
    LAB.fill(rows)
    usual = by_numpy(plan)
    assert by_numpy(plan, seed=seed, size=1) == usual
    with small_steps():
        assert by_numpy(plan, seed=seed, size=2) == usual
        assert by_numpy(plan, seed=seed + 1, size=5, share=1 << 13) == usual
        with spilling_at_once():
            assert by_numpy(plan, seed=seed, size=2) == usual


def moved(plan: BlockPlan, rows: Sequence[Row]) -> dict[object, list[str]]:
    def read(kept: Sequence[Row]) -> Counted:
        LAB.fill(kept)
        return by_numpy(plan)

    def changed(without: Counted, whole: Counted) -> list[str]:
        none = [Counter[int]() for _ in _asked(plan)]
        keys = without.keys() | whole.keys()
        before, after = ({key: side.get(key, none) for key in keys} for side in (without, whole))
        return violations(before, after, plan)

    return moved_by_units(rows, units_of(rows), rows_without, read, changed)


@pytest.mark.slow
@examples_of(40)
@given(questions(), rows_of_units)
def test_one_unit_moves_values_within_what_the_plan_declares(
    question: Planned, rows: list[Row]
) -> None:
    (plan,) = question.plans
    if takes(plan):
        assert moved(plan, rows) == {}


CAPS: dict[str, Any] = {"max_groups_contributed": 2, "max_rows_contributed": 3, "delta": 1e-4}
MEDIAN = "SELECT a, median(i) FROM r GROUP BY a"
NASTY = [
    (unit, key, 0.0, "p", value, 0.1, "1", None)
    for unit in range(1, 6)
    for key in range(unit)
    for value in (0, 0, 1, 2, 3, 4, None)
]


def test_the_bounds_are_reached() -> None:
    (plan,) = prepared(MEDIAN, **CAPS).plans
    LAB.fill(MANY)
    assert sorted(parts[0].total() for parts in by_numpy(plan).values()) == [3, 3]


def test_a_key_is_kept_with_its_rows_without_a_value() -> None:
    """Which keys a unit keeps does not depend on which of its rows have values."""
    (plan,) = prepared(MEDIAN, **CAPS | {"max_groups_contributed": 1}).plans
    kept = set()
    for missing in range(3):
        LAB.fill(
            [(1, key, 0.0, "p", None if key == missing else 2, 0.1, "1", None) for key in range(3)]
        )
        kept |= {(missing, *key) for key in by_numpy(plan)}
    ((one,),) = ({key for _, key in kept},)
    assert kept == {(missing, one) for missing in range(3) if missing != one}


@pytest.mark.parametrize("rows", [1, 3, 7, 10])
def test_each_row_of_a_unit_is_as_likely_to_be_kept(rows: int) -> None:
    """Every n/m-th row is kept, from a start that is uniform and differs by group."""
    question = "SELECT a, median(i, contribution_bounds_per_row => (0, 9)) FROM r GROUP BY a"
    (plan,) = prepared(question, **CAPS | {"max_rows_contributed": rows}).plans
    groups = 400
    LAB.fill(
        [(1, a, 0.0, "p", value, 0.1, "1", None) for a in range(groups) for value in range(10)]
    )
    kept = [parts[0] for parts in by_numpy(bounded_by(plan), size=999).values()]
    assert len(kept) == groups
    systematic = [
        frozenset(
            value
            for value in range(10)
            if ((value + 1) * rows + start) // 10 > (value * rows + start) // 10
        )
        for start in range(10)
    ]
    starts = Counter(frozenset(counter) for counter in kept)
    law = {each: systematic.count(each) / 10 for each in systematic}
    assert starts.keys() == law.keys()
    assert rows == 10 or chi_square_p(starts, law) > IMPOSSIBLE


def test_rows_of_one_value_are_sampled_as_others() -> None:
    """Of 9 rows at two points with a cap of 4, as many of each as of nine points in that order."""
    (plan,) = prepared(MEDIAN, **CAPS | {"max_rows_contributed": 4}).plans
    (ranked,) = _asked(plan)
    first, second = (
        int(ranked.number(step) - ranked.number(ranked.lattice.low)) for step in (1, 4)
    )
    LAB.fill([(1, 7, 0.0, "p", 1 if n < 6 else 4, 0.1, "1", None) for n in range(9)])
    seen = set()
    for salt in range(40):
        (counts,) = by_numpy(plan, SALT + salt)[(7,)]
        seen.add((counts[first], counts[second]))
    taken = [((6 * 4 + start) // 9, (9 * 4 + start) // 9) for start in range(9)]
    assert seen == {(before, whole - before) for before, whole in taken}


def test_a_unit_with_all_rows_and_many_units_with_one() -> None:
    rng = np.random.default_rng(7)
    values = [(int(rng.integers(0, 4)), float(rng.normal(0, 2))) for _ in range(3000)]
    (plan,) = prepared("SELECT a, median(x), max(i) FROM r GROUP BY a", **CAPS).plans
    for number in (1, 3000):
        LAB.fill(
            [
                (n % number, key, 0.0, "p", n % 9 - 3, x, "1", None)
                for n, (key, x) in enumerate(values)
            ]
        )
        free = bounded_by(plan, 10**4)
        assert by_numpy(free, size=500) == by_sql(free)


@pytest.mark.parametrize(("keys", "share"), [(12, 40), (12, 12), (4, 4)])
def test_a_unit_with_more_values_than_memory_comes_in_parts_of_its_groups(
    keys: int, share: int
) -> None:
    """Its rows fail nothing: it keeps what it keeps with more memory, of groups and of rows."""
    (plan,) = prepared(MEDIAN, **CAPS).plans
    LAB.fill(
        [
            (unit, key, 0.0, "p", value, 0.1, "1", None)
            for unit in (1, 2, 3)
            for key in range(unit, keys)
            for value in (-3, -2, -1, 0, 1, 2, 3, 4, 5, None)
        ]
    )
    memory = memory_for(share)  # all groups of a unit, not all values
    for question in (plan, bounded_by(plan, 1000)):
        usual = by_numpy(question)
        with small_steps(), divided_units() as parts:
            assert by_numpy(question, share=memory) == usual
        assert max(parts) > 1


# -- broken twins ---------------------------------------------------------------------------


def one_more_group(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda spec, found: real(replace(spec, kept=spec.kept and spec.kept + 1), found)


def one_more_row(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda spec, *rest: real(replace(spec, max_rows=spec.max_rows + 1), *rest)


def twice(real: Callable[..., Any]) -> Callable[..., Any]:
    def chunks(self: Any, *, named: bool = False) -> Any:
        yield from real(self, named=named)
        yield from real(self, named=named)

    return chunks


def units_together(real: Callable[..., Any]) -> Callable[..., Any]:
    """Rows of a group are sampled whoever has them."""

    def sampled(spec: Any, pairs: Any, owners: Any, rows: Any) -> Any:
        return real(spec, pairs, pairs.groups[owners] * 0, rows)

    return sampled


TWINS: dict[str, tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "a group too many": (units, "kept_flags", one_more_group),
    "a row too many": (points, "_sampled", one_more_row),
    "a partition is read twice": (partitions.OfPartitions, "chunks", twice),
    "a sample of all units": (points, "_sampled", units_together),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_broken_makers_are_caught(name: str) -> None:
    place, attribute, breaks = TWINS[name]
    (plan,) = prepared(MEDIAN, **CAPS).plans
    assert moved(plan, NASTY) == {}
    with mock.patch.object(place, attribute, breaks(getattr(place, attribute))):
        found = moved(plan, NASTY)
        LAB.fill(NASTY)
        free = bounded_by(plan, 1000)
        assert found or by_numpy(free) != by_sql(free)


# -- questions as they are asked -----------------------------------------------------------------

QUESTIONS = (
    "SELECT c, MEDIAN(i) AS m FROM r GROUP BY c",
    "SELECT a, MEDIAN(i) AS m, AVG(i) AS v, COUNT(*) AS n FROM r GROUP BY a",
    "SELECT MAX(i) AS m FROM r",
)
ROWS_OF_MANY = """SELECT n, n % 2, 0.5, ['p', 'q'][1 + n % 2], n % 9 - 3, 0.5, '1', 0.5
    FROM range(4000) t(n)"""


@pytest.mark.parametrize("sql", QUESTIONS)
@pytest.mark.parametrize("bounding", [BoundingLimit.ANY, BoundingLimit.SQL])
def test_answers_lie_near_the_rank_asked_for(
    sql: str, bounding: BoundingLimit, tmp_path: Path
) -> None:
    with duckdb.connect(str(tmp_path / "r.duckdb")) as writer:
        writer.execute(f"CREATE TABLE r ({', '.join(f'{n} {t}' for n, t in COLUMNS)})")
        writer.execute(f"INSERT INTO r {ROWS_OF_MANY}")
    account = AccountPolicy("a", 1000.0, 1e-3)
    rules = replace(RULES, accounts={"a": account}, limits=Limits(bounding=bounding))
    given_bounds: dict[str, Any] = {"max_groups_contributed": 2, "max_rows_contributed": 3}
    with dpsql.connect(tmp_path / "r.duckdb", rules, tmp_path / "budget.db", "a") as con:
        none: dict[str, Any] = {}
        for bounds in (none, given_bounds):
            told = con.explain(sql, epsilon=4.0, **bounds).blocks[0].maker
            assert told.startswith("NumPy" if bounding is BoundingLimit.ANY else "SQL: limits")
            answer = con.sql(sql, epsilon=4.0, **bounds).fetchall()
            assert len(answer) == (2 if "GROUP BY" in sql else 1)
            for row in answer:
                lowest, highest = (4, 5) if "MAX" in sql else (0, 2)
                assert lowest <= row[1 if "GROUP BY" in sql else 0] <= highest
