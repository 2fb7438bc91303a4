"""The largest groups by name alone: nothing is paid for scores that nobody sees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.blocks import ROWS, UNITS, block
from helpers.support import planned, policy
from test_sql import SCHEMA

import dpsql
from dpsql.ir.measures import Measure
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, TopK
from dpsql.planner import plan_block
from dpsql.planner.budget import BudgetSplit, QueryBudget
from dpsql.planner.topk import _TopK
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK
from dpsql.service.answering import Answerer

LIMIT = 5
GIVEN = Parameters(
    epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=4, left_out_share=0.0
)
COMPOSED = [Composition.ZCDP, Composition.GDP]


def unseen(asked: Block) -> Block:
    """The same block, of which names alone are asked for."""
    return replace(asked, top_k=TopK(0, LIMIT, unseen=True))


def offered(
    asked: Block, split: BudgetSplit, cap: int | None, composition: Composition
) -> BlockPlan:
    """The plan of Gumbel noise at a part of a budget."""
    assert asked.top_k is not None
    budget = QueryBudget.of(asked.parameters, composition)
    plan = _TopK(asked, asked.top_k, budget).gumbel(cap, split).plan
    assert plan is not None
    return replace(plan, gaussian=budget.gaussian)


# -- the price --------------------------------------------------------------------------------


@pytest.mark.parametrize("composition", COMPOSED)
@pytest.mark.parametrize("cap", [None, 3])
@pytest.mark.parametrize("measure", [UNITS, ROWS])
def test_the_same_names_cost_half_of_what_they_cost_with_their_scores(
    composition: Composition, cap: int | None, measure: Measure
) -> None:
    asked = block(GIVEN, measure, limit=LIMIT)
    split = QueryBudget.of(GIVEN, composition).halved()
    alone = offered(unseen(asked), split, cap, composition)
    both = offered(asked, replace(split, rho=2 * split.rho), cap, composition)
    assert alone.selection == both.selection
    assert alone.bounding == both.bounding
    for released in (None, LIMIT):
        assert alone.loss(released).rho == pytest.approx(both.loss(released).rho / 2, rel=1e-6)
    assert alone.loss(None).rho <= split.rho
    assert alone.loss(None).rho == pytest.approx(split.rho, rel=1e-6)
    assert alone.loss(None).delta == both.loss(None).delta
    # With scores at the same price, what is paid for the names is half of it.
    dear = offered(asked, split, cap, composition).selection.cost(composition, None)
    assert dear == pytest.approx(split.rho / 2, rel=1e-6)


@pytest.mark.parametrize("composition", COMPOSED)
def test_fewer_names_cost_their_picks_alone(composition: Composition) -> None:
    asked = unseen(block(GIVEN, UNITS, limit=LIMIT))
    plan = offered(asked, QueryBudget.of(GIVEN, composition).halved(), None, composition)
    for released in range(LIMIT + 1):
        assert plan.loss(released).rho == plan.selection.cost(composition, released)


@pytest.mark.parametrize("composition", list(Composition))
def test_known_names_alone_have_the_whole_price(composition: Composition) -> None:
    asked = block(GIVEN, UNITS, domain=40, limit=LIMIT)
    alone = plan_block(unseen(asked), "known_domain_top_k", composition)
    both = plan_block(asked, "known_domain_top_k", composition)
    assert alone.names_alone
    assert not both.names_alone
    assert isinstance(alone.selection, KnownDomainTopK)
    assert isinstance(both.selection, KnownDomainTopK)
    if composition is Composition.ZCDP:
        assert alone.selection.epsilon == pytest.approx(2**0.5 * both.selection.epsilon, rel=1e-6)
    assert alone.selection.epsilon > 1.39 * both.selection.epsilon
    for each in ("rho", "epsilon", "delta"):
        price, whole = getattr(alone.loss(None), each), getattr(both.loss(None), each)
        assert price <= whole * (1 + 1e-9)


def test_a_minimum_of_units_is_measured_and_paid_for_all_the_same() -> None:
    hiding = replace(GIVEN, min_units_per_group=20)
    asked = unseen(block(hiding, UNITS, domain=40, limit=LIMIT))
    plan = plan_block(asked, "known_domain_top_k")
    assert not plan.names_alone
    assert plan.noise_of(0).std(1) > 0


# -- which questions --------------------------------------------------------------------------

ALONE = (
    "SELECT k FROM visits GROUP BY k ORDER BY COUNT(DISTINCT uid) DESC LIMIT 3",
    "SELECT upper(k) AS name FROM visits GROUP BY k ORDER BY COUNT(*) DESC, k LIMIT 3 OFFSET 1",
    "SELECT k FROM visits WHERE n > 1 GROUP BY k "
    "ORDER BY (SUM(n, contribution_bounds_per_row => (0, 9))) DESC LIMIT 3",
    "SELECT count(*) FROM (SELECT k FROM visits GROUP BY k ORDER BY COUNT(*) DESC LIMIT 3) AS s",
)
SEEN = (
    "SELECT k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 3",
    "SELECT k, COUNT(*) FROM visits GROUP BY k ORDER BY 2 DESC LIMIT 3",
    "SELECT k, COUNT(*) > 100 AS large FROM visits GROUP BY k ORDER BY COUNT(*) DESC LIMIT 3",
    "SELECT k, MEDIAN(x) FROM visits GROUP BY k ORDER BY COUNT(*) DESC LIMIT 3",
    "SELECT k FROM visits GROUP BY k ORDER BY COUNT(*) DESC, COUNT(DISTINCT uid) LIMIT 3",
    "SELECT k, row_number() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY k "
    "ORDER BY COUNT(*) DESC LIMIT 3",
    "SELECT k, DP_INTERVAL_LOW(COUNT(*)) FROM visits GROUP BY k ORDER BY COUNT(*) DESC LIMIT 3",
    "SELECT k FROM visits GROUP BY k ORDER BY COUNT(*, max_error => 90) DESC LIMIT 3",
)


@pytest.mark.parametrize(
    ("asked", "alone"), [(a, True) for a in ALONE] + [(a, False) for a in SEEN]
)
def test_a_score_is_unseen_where_order_alone_is_made_of_it(asked: str, alone: bool) -> None:
    top_k = planned(asked, SCHEMA, policy()).query.blocks[0].top_k
    assert top_k is not None
    assert top_k.unseen == alone


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT k FROM visits GROUP BY k HAVING COUNT(*) > 9 ORDER BY COUNT(*) DESC LIMIT 3",
        "SELECT k FROM visits GROUP BY k ORDER BY COUNT(*) LIMIT 3",
        "SELECT k FROM visits GROUP BY k ORDER BY COUNT(*) + 1 DESC LIMIT 3",
    ],
)
def test_what_is_no_top_k_has_its_scores(asked: str) -> None:
    assert planned(asked, SCHEMA, policy()).query.blocks[0].top_k is None


# -- answers ----------------------------------------------------------------------------------


@pytest.fixture
def connection(tmp_path: Path) -> dpsql.Connection:
    """A connection to one row for each of many units, in groups a to h, the first the largest."""
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE t (u BIGINT, k VARCHAR, c VARCHAR)")
        writer.execute(
            "INSERT INTO t SELECT row_number() OVER (), chr((97 + i)::INT), chr((97 + i)::INT) "
            "FROM range(8) AS g(i), range((9 - i) * 1000)"
        )
    columns = {"c": ColumnPolicy(domain=tuple("abcdefghij"))}
    rules = Policy(
        "data",
        replace(GIVEN, epsilon=4.0, left_out_share=0.03),
        accounts={"ana": AccountPolicy("ana", 100.0, 1e-3)},
        tables={"t": TablePolicy("t", PrivacyUnit("unit", "u"), columns)},
    )
    return dpsql.connect(path, rules, tmp_path / "budget.db", "ana")


@pytest.mark.slow
@pytest.mark.parametrize(("key", "mechanism"), [("k", "gumbel_top_k"), ("c", "known_domain_top_k")])
def test_names_come_in_their_order_and_no_score_is_drawn(
    connection: dpsql.Connection, key: str, mechanism: str
) -> None:
    asked = f"SELECT {key} FROM t GROUP BY {key} ORDER BY COUNT(DISTINCT u) DESC LIMIT 4"
    with connection as con:
        explained = con.explain(asked, mechanism=mechanism)
        assert "names alone, in order" in str(explained)
        result = con.sql(asked, mechanism=mechanism)
        assert result.fetchall() == [("a",), ("b",), ("c",), ("d",)]
        assert result.cost.settled.rho <= explained.reserved.rho
        assert "names alone" not in result.summary()
        assert con.budget().queries == 1  # and no estimate of what bounding leaves out
        assert con.sql(asked, mechanism=mechanism).fetchall() == result.fetchall()
        assert con.budget().queries == 1
        seen = asked.replace(" FROM", ", COUNT(DISTINCT u) AS n FROM", 1)
        counted = con.sql(seen, mechanism=mechanism)
        assert not counted.cost.stored  # their scores were not drawn
        assert [name for name, _ in counted.fetchall()] == ["a", "b", "c", "d"]
        assert all(n > 1000 for _, n in counted.fetchall())


def test_what_is_kept_of_names_alone_says_their_order_and_no_more(
    connection: dpsql.Connection,
) -> None:
    asked = "SELECT k FROM t GROUP BY k ORDER BY COUNT(DISTINCT u) DESC LIMIT 4"
    drawn: list[Any] = []
    usual = Answerer._settle

    def settled(self: Any, *args: Any) -> Any:
        drawn.extend(args[2])
        return usual(self, *args)

    with connection as con, pytest.MonkeyPatch.context() as patched:
        patched.setattr(Answerer, "_settle", settled)
        con.sql(asked, mechanism="gumbel_top_k")
    (values,) = [each.blocks[0].rows.values for each in drawn]
    assert [list(column) for column in values.values()] == [[4, 3, 2, 1]]


@pytest.mark.slow
def test_no_group_large_enough_is_an_empty_answer_with_advice(connection: dpsql.Connection) -> None:
    asked = "SELECT k FROM t WHERE u < 3 GROUP BY k ORDER BY COUNT(DISTINCT u) DESC LIMIT 4"
    with connection as con:
        result = con.sql(asked, mechanism="gumbel_top_k")
        assert result.fetchall() == []
        assert result.cost.settled.rho < result.cost.reserved.rho
        assert str(result)
