"""A question over a stage is that over rows: the same weights to draw of, the same groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from helpers.columns import column_of
from helpers.dialects import POSTGRESQL, SPARK
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import TableLab
from helpers.sql_text import text
from helpers.support import planned
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.core.schema import Schema, Table, schema_of
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan, Maker, PreparedBoundsChoice
from dpsql.kinds.bounds_choice import bounds_choice_sql
from dpsql.kinds.cascade import CascadeKind
from dpsql.kinds.groups import GroupsKind
from dpsql.kinds.registry import release_kind
from dpsql.pipeline.open_bounds import open_bounds
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import AUTO
from dpsql.sql.rewrite.left_out import shared_sql
from dpsql.sql.rewrite.rewrite import Rewriter
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.stage import Stage, stage_of

COLUMNS = (("u", "BIGINT"), ("a", "BIGINT"), ("s", "VARCHAR"), ("c", "VARCHAR"), ("x", "DOUBLE"))
SCHEMA: Schema = schema_of(Table("r", tuple(column_of(*c) for c in COLUMNS)))
RULES = Policy(
    "audit",
    accounts={"a": AccountPolicy("a", 100.0, 1e-3)},
    tables={
        "r": TablePolicy(
            "r",
            PrivacyUnit("unit", "u"),
            {
                "x": ColumnPolicy(-1.0, 3.5),
                "a": ColumnPolicy(0, 2**40),
                "c": ColumnPolicy(domain=("p", "q", "r", "s", "t")),
            },
        )
    },
)
LAB = TableLab("r", COLUMNS)
SALT = 2**61 + 5
Row = tuple[Any, ...]

rows_of_worlds = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 2, 3, None]),
        st.sampled_from([0, 1, 2**40, -5, None]),
        st.sampled_from(["", "1", "bad", None]),
        st.sampled_from(["p", "q", "r", "s", "other", None]),
        st.sampled_from([0.1, -7.0, 3.5, 1e300, float("inf"), float("nan"), None]),
    ),
    max_size=40,
)
KEYS = ("", "s", "c", "c, s", "CAST(s AS INT)")
MEASURES = (
    "count(*)",
    "count(s)",
    "count(DISTINCT u)",
    "count(DISTINCT u) FILTER (WHERE x > 0)",
    "sum(x)",
    "sum(a)",
    "avg(x)",
    "stddev(x)",
    "avg(a)",
    "sum(x, contribution_bounds_per_group => (1, 7))",
    "sum(x) FILTER (WHERE a > 1)",
)
CONDITIONS = ("", " WHERE x > 1", " WHERE CAST(s AS INT) > 0 OR x < 3")


@st.composite
def questions(draw: Any) -> tuple[str, dict[str, Any]]:
    key, where = draw(st.sampled_from(KEYS)), draw(st.sampled_from(CONDITIONS))
    measures = draw(st.lists(st.sampled_from(MEASURES), min_size=1, max_size=3, unique=True))
    selected = ", ".join([*filter(None, [key]), *measures])
    parameters = {
        "max_groups_contributed": draw(st.integers(1, 3)),
        "max_rows_contributed": draw(st.integers(1, 5)),
        "min_units_per_group": draw(st.sampled_from([1, 2])),
        "left_out_share": draw(st.sampled_from([0.0, 0.1])),
        "contribution_bounding": draw(st.sampled_from(["sample", "weight"])),
    }
    return f"SELECT {selected} FROM r{where}{' GROUP BY ' + key if key else ''}", parameters


def plan_of(question: str, **parameters: Any) -> BlockPlan:
    usual: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
    (plan,) = planned(question, SCHEMA, RULES, usual=False, **(usual | parameters)).plans
    return plan


def stage(plan: BlockPlan) -> Stage:
    found = stage_of(PrivateRows(plan, 0, DUCKDB))
    assert found is not None
    return found


def stored(plan: BlockPlan, of: Stage | None = None) -> PrivateRows:
    """The rows of a plan over a stage, by default its own, which is stored."""
    of = of or stage(plan)
    LAB.rows(f"CREATE OR REPLACE TEMP TABLE stage AS {text(of.statement)}")
    return of.under(PrivateRows(plan, SALT, DUCKDB), quoted("stage"))


Read = Callable[[BlockPlan, PrivateRows], Any]


def groups(plan: BlockPlan, rows: PrivateRows) -> Any:
    """The exact rows of a block and of the estimates that it shares its rows with."""
    kind = release_kind(plan)
    assert isinstance(kind, GroupsKind)
    beside = [one for one in plan.estimates if not one.clamped] if kind.shares_rows else []
    if not beside:
        return LAB.groups(text(kind.numbered(rows, Rewriter(rows).groups())), plan)
    shared = shared_sql(rows, beside)
    for name, statement in shared.stored:
        LAB.rows(f'CREATE OR REPLACE TEMP TABLE "{name}" AS {text(statement)}')
    told = [LAB.rows(text(each)) for each in shared.estimates]
    return LAB.groups(text(kind.numbered(rows, shared.groups)), plan), told


def pairs(plan: BlockPlan, rows: PrivateRows) -> Any:
    """What a cascade takes of units and groups."""
    return sorted(map(repr, LAB.rows(text(Rewriter(rows).pairs()))))


def weights(plan: BlockPlan, rows: PrivateRows) -> Any:
    """The weights that bounds are drawn from."""
    assert plan.bounds_choice is not None
    found = LAB.rows(text(bounds_choice_sql(plan, plan.bounds_choice, DUCKDB, rows.staged)))
    return sorted(row[1:] for row in found)


def alike(read: Read, plan: BlockPlan, rows: Sequence[Row], of: Stage | None = None) -> bool:
    LAB.fill(rows)
    return bool(read(plan, PrivateRows(plan, SALT, DUCKDB)) == read(plan, stored(plan, of)))


def search(examples: settings) -> None:
    @examples
    @given(questions(), rows_of_worlds)
    def same(question: tuple[str, dict[str, Any]], rows: list[Row]) -> None:
        plan = plan_of(question[0], **question[1])
        if isinstance(release_kind(plan), GroupsKind):
            assert alike(groups, plan, rows)
        if not any(noisy.measure.kind.value == "distinct" for noisy in plan.measures):
            assert alike(pairs, plan, rows)

    same()


@pytest.mark.slow
def test_groups_and_estimates_are_the_same_over_a_stage() -> None:
    search(examples_of(30))


@pytest.mark.slow
def test_no_random_question_differs_over_its_stage() -> None:
    search(many_examples_of(150))


WORLD: list[Row] = [
    (u, u * k, str(k % 4), "pqrst"[(u + k) % 5], k / 3) for u in range(20) for k in range(u % 11)
]


@pytest.mark.parametrize("measure", ["count(*)", "count(DISTINCT u)", "avg(x), count(*)"])
@pytest.mark.parametrize("key", ["c", "s", "c, s"])
def test_caps_keep_the_same_groups_of_a_unit(key: str, measure: str) -> None:
    bounds: dict[str, Any] = {"max_groups_contributed": 2, "max_rows_contributed": 2}
    plan = plan_of(f"SELECT {key}, {measure} FROM r GROUP BY {key}", **bounds)
    assert alike(groups, plan, WORLD)
    resalted = replace(stored(plan), salt=SALT + 1)
    assert groups(plan, resalted) != groups(plan, stored(plan))


QUESTIONS = (
    "SELECT count(*) FROM r",
    "SELECT c, count(*) FROM r GROUP BY c",
    "SELECT c, s, sum(x), sum(a) FROM r GROUP BY c, s",
    "SELECT c, sum(x), count(DISTINCT u) FROM r WHERE x > 1 GROUP BY c",
    "SELECT c, avg(x), stddev(x) FROM r GROUP BY c",
    "SELECT c, avg(x), avg(a) FROM r GROUP BY c",
    "SELECT s, count(DISTINCT u) AS n FROM r GROUP BY s ORDER BY n DESC LIMIT 3",
    "SELECT s, count(*) AS n FROM r GROUP BY s",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_bounds_are_drawn_from_the_same_weights(question: str) -> None:
    plan = plan_of(question, max_rows_contributed=AUTO)
    assert alike(weights, plan, [*WORLD, (None, 1, "", "p", 1.0), (3, None, None, "q", None)])


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_bounds_are_drawn_from_the_same_weights_of_random_rows(question: str) -> None:
    plan = plan_of(question, max_rows_contributed=AUTO)

    @examples_of(20)
    @given(rows_of_worlds)
    def same(rows: list[Row]) -> None:
        assert alike(weights, plan, rows)

    same()


@pytest.mark.parametrize("question", QUESTIONS)
def test_bounds_decide_nothing_of_a_stage(question: str) -> None:
    open_plan = plan_of(question, max_rows_contributed=AUTO)
    bounds = ({"max_rows_contributed": r, "max_groups_contributed": g} for r, g in ((1, 1), (9, 4)))
    plans = [open_plan, *(plan_of(question, epsilon=0.3, **given) for given in bounds)]
    assert len({text(stage(plan).statement) for plan in plans}) == 1
    assert all(stage(plan) == stage(open_plan) for plan in plans)
    assert str(SALT) not in text(stage(plans[1]).statement)


@pytest.mark.parametrize(
    "other",
    [
        "SELECT c, sum(x) FROM r WHERE x > 1 GROUP BY c",
        "SELECT c, sum(x) FROM r WHERE a > 0 GROUP BY c",
        "SELECT s, sum(x) FROM r WHERE a > 1 GROUP BY s",
        "SELECT sum(x) FROM r WHERE a > 1",
        "SELECT c, sum(x, contribution_bounds_per_row => (0, 1)) FROM r WHERE a > 1 GROUP BY c",
        "SELECT c, sum(a) FROM r WHERE a > 1 GROUP BY c",
    ],
)
def test_what_is_read_otherwise_is_another_stage(other: str) -> None:
    plan = plan_of("SELECT c, sum(x) FROM r WHERE a > 1 GROUP BY c", max_rows_contributed=3)
    assert stage(plan) != stage(plan_of(other, max_rows_contributed=3))


def test_a_stage_of_another_condition_is_noticed() -> None:
    plan = plan_of("SELECT c, count(*) FROM r WHERE x > 1 GROUP BY c", max_rows_contributed=3)
    wrong = stage(plan_of("SELECT c, count(*) FROM r GROUP BY c", max_rows_contributed=3))
    assert alike(groups, plan, WORLD)
    assert not alike(groups, plan, WORLD, wrong)


@pytest.mark.parametrize(
    ("question", "parameters"),
    [
        ("SELECT c, count(*), count(DISTINCT a) FROM r GROUP BY c", {}),
        ("SELECT c, sum(x * 2 + a) FROM r GROUP BY c", {"bounds": ()}),
        ("SELECT c, count(*) FROM r TABLESAMPLE (10 PERCENT) GROUP BY c", {}),
    ],
)
def test_what_is_more_than_pairs_has_no_stage(question: str, parameters: dict[str, Any]) -> None:
    plan = plan_of(question, **parameters)
    assert stage_of(PrivateRows(plan, 0, DUCKDB)) is None


def test_kinds_that_read_more_have_none() -> None:
    plan = plan_of("SELECT c, count(*), median(x) FROM r GROUP BY c", max_rows_contributed=3)
    assert release_kind(plan).stage(DUCKDB) is None
    cascade = plan_of("SELECT s, count(*) FROM r GROUP BY s", max_rows_contributed=3)
    assert isinstance(release_kind(cascade), CascadeKind)
    assert release_kind(cascade).stage(DUCKDB) == stage(cascade)


@pytest.mark.parametrize(("dialect", "kept"), [(DUCKDB, True), (POSTGRESQL, True), (SPARK, False)])
def test_pairs_are_stored_where_the_last_reading_knows_what_reads_them(
    dialect: Dialect, kept: bool
) -> None:
    automatic: dict[str, Any] = {"max_rows_contributed": AUTO, "max_groups_contributed": AUTO}
    plan = plan_of("SELECT c, count(*) FROM r GROUP BY c", **automatic)
    (draw,) = open_bounds(plan, dialect, maker=Maker.SQL)
    assert isinstance(draw, PreparedBoundsChoice)
    assert (draw.block is not None) == kept
