"""Without a number of groups a question finds out by itself, or takes the usual one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.attacks import PLAYS, VIEW_WITH
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.failures import fails_with
from helpers.support import ANALYST, NO_NUMBER, connect, plays_policy, policy

import dpsql
from dpsql.errors import ParameterError, QueryRefused
from dpsql.interfaces.shell.candidates import Nameable
from dpsql.ir.measures import MaxError, Measure
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, BoundsFound
from dpsql.kinds.cascade import CascadeKind
from dpsql.pipeline.kept.fingerprint import fingerprint
from dpsql.planner import plan_block
from dpsql.planner.groups import FOUND, RANKED, with_groups_decided, with_usual_groups
from dpsql.policy.load import parse_policy
from dpsql.policy.parameters import (
    USUAL_GROUPS,
    Automatic,
    ContributionBounding,
    Maxima,
    Overrides,
    Parameters,
    Pooling,
    check_value,
)
from dpsql.policy.resolve import resolve
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.cascade import Cascade

DEFAULTS = Parameters(epsilon=1.0, delta=1e-6, max_rows_contributed=10, left_out_share=0.0)
NUMBER = replace(DEFAULTS, max_groups_contributed=USUAL_GROUPS)
AUTO = replace(DEFAULTS, max_groups_contributed=Automatic())


def both(plan: BlockPlan) -> tuple[bool, str]:
    """Whether a plan has rounds, and what it says of its number of groups."""
    return CascadeKind.fits(plan), plan.block.groups_chosen


# -- which of both --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        block(DEFAULTS, UNITS),
        block(DEFAULTS, ROWS),
        block(DEFAULTS, summed(DEFAULTS, 0, 10), ROWS),
        block(DEFAULTS),
        block(replace(DEFAULTS, min_units_per_group=20), UNITS),
        block(replace(DEFAULTS, left_out_share=0.1)),
        block(replace(DEFAULTS, combine=Pooling.ALL), ROWS),
    ],
)
@pytest.mark.parametrize("composition", list(Composition))
def test_unknown_keys_are_named_in_rounds_as_if_auto_were_asked_for(
    made: Block, composition: Composition
) -> None:
    plan = plan_block(made, None, composition)
    assert both(plan) == (True, FOUND)
    named = replace(made.parameters, max_groups_contributed=Automatic())
    asked = plan_block(replace(made, parameters=named), None, composition)
    assert both(asked) == (True, "")
    assert fingerprint([plan]) == fingerprint([asked])
    assert plan.loss(None) == asked.loss(None)


NUMBERED: dict[str, tuple[Block, str | None, Composition, str]] = {
    "declared, without aggregates": (block(DEFAULTS, domain=40), None, Composition.ZCDP, "decl"),
    "weighted": (
        block(replace(DEFAULTS, contribution_bounding=ContributionBounding.WEIGHT), UNITS),
        None,
        Composition.ZCDP,
        "weight",
    ),
    "a mechanism": (
        block(DEFAULTS, UNITS),
        "gaussian_positive_counts",
        Composition.ZCDP,
        "mechanism",
    ),
    "a mechanism of its own": (
        replace(block(DEFAULTS, UNITS), mechanism="laplace_positive_counts"),
        None,
        Composition.ZCDP,
        "mechanism",
    ),
    "a set union": (block(DEFAULTS), "weighted_gaussian_set_union", Composition.ZCDP, "mechanism"),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_all_else_has_the_usual_number_and_is_the_same_question_as_with_it(name: str) -> None:
    made, mechanism, composition, why = NUMBERED[name]
    plan = plan_block(made, mechanism, composition)
    rounds, said = both(plan)
    assert not rounds
    assert said.startswith(f"{USUAL_GROUPS}, the usual number, as ")
    assert why in said
    given = replace(made.parameters, max_groups_contributed=USUAL_GROUPS)
    number = plan_block(replace(made, parameters=given), mechanism, composition)
    assert number.block.groups_chosen == ""
    assert fingerprint([plan]) == fingerprint([number])
    assert plan.loss(None) == number.loss(None)


def test_what_no_rounds_can_name_finds_a_number() -> None:
    telling = block(replace(DEFAULTS, left_out_share=0.1), UNITS)
    for composition in (Composition.GDP, Composition.ZCDP):
        plan = plan_block(telling, None, composition)
        assert both(plan) == (False, "")
        assert plan.bounds_choice is not None
        assert plan.bounds_choice.groups is not None
        assert plan.bounds_choice.loss.gaussian == (composition is Composition.GDP)


@pytest.mark.parametrize("composition", list(Composition))
def test_of_known_keys_the_number_is_found(composition: Composition) -> None:
    """Of few, all count, which costs nothing."""
    for asked in (DEFAULTS, replace(DEFAULTS, max_groups_contributed=Automatic())):
        plan = plan_block(block(asked, UNITS, domain=40), None, composition)
        assert plan.bounds_choice is not None
        assert plan.bounds_choice.groups is not None
        assert plan.bounds_choice.groups.rungs[-1] == 40
        few = plan_block(block(asked, UNITS, domain=3), None, composition)
        assert few.bounds_choice is None
        assert few.block.parameters.max_groups_contributed == 3
        assert few.block.groups_chosen == "3, all groups, as their keys are declared"
    limited = replace(DEFAULTS, max_groups_contributed=Automatic(most=6, instead=USUAL_GROUPS))
    plan = plan_block(block(limited, UNITS, domain=40), None, composition)
    assert plan.bounds_choice is not None
    assert plan.bounds_choice.groups is not None
    assert plan.bounds_choice.groups.rungs == (1, 2, 3, 4, 6)


@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize(("error", "dearer"), [(5000.0, False), (2.0, True)])
def test_draws_for_a_maximum_error_cost_what_they_do_without_or_their_share_of_it(
    error: float, dearer: bool, composition: Composition
) -> None:
    made = block(DEFAULTS, UNITS, domain=40)
    aggregate = replace(made.aggregates[0], max_error=MaxError(error))
    plan = plan_block(replace(made, aggregates=(aggregate,)), None, composition)
    usual = plan_block(made, None, composition)
    assert plan.bounds_choice is not None
    assert usual.bounds_choice is not None
    assert plan.price_open
    assert not usual.price_open
    found, other = plan.bounds_choice.loss, usual.bounds_choice.loss
    if dearer:
        assert found.rho + found.epsilon > 2 * (other.rho + other.epsilon)
    else:
        assert found == other
        assert plan.block.parameters.epsilon < 0.1 * DEFAULTS.epsilon


@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.BASIC])
def test_a_few_largest_are_ranked_by_units_and_others_named_in_rounds(
    composition: Composition,
) -> None:
    few = plan_block(block(DEFAULTS, UNITS, limit=3), None, composition)
    assert few.bounds_choice is not None
    assert few.bounds_choice.groups is not None
    assert few.block.top_k is not None
    for limit, measure in ((51, UNITS), (3000, UNITS), (3, ROWS)):
        plan = plan_block(block(DEFAULTS, measure, limit=limit), None, composition)
        assert both(plan) == (True, FOUND)
        assert plan.block.top_k is None
    one_row = replace(DEFAULTS, max_rows_contributed=1)
    plan = plan_block(block(one_row, ROWS, limit=3), None, composition)
    assert plan.block.top_k is not None
    found = replace(block(one_row, ROWS, limit=3), bounds_found=BoundsFound(rows=True, known=True))
    plan = plan_block(found, None, composition)
    assert plan.block.parameters.max_groups_contributed is None
    assert plan.block.groups_chosen == RANKED


def test_rounds_that_are_asked_for_by_name_are_planned_where_they_can_be() -> None:
    for composition in (Composition.ZCDP, Composition.BASIC):
        weighing = replace(DEFAULTS, contribution_bounding=ContributionBounding.WEIGHT)
        plan = plan_block(block(weighing, UNITS), Cascade.name, composition)
        assert both(plan) == (True, FOUND)
    with fails_with("mechanism_does_not_fit"):
        plan_block(block(DEFAULTS, UNITS, domain=4), Cascade.name)


@pytest.mark.parametrize("measures", [(UNITS,), (ROWS,), (UNITS, ROWS), ()])
def test_what_is_too_little_for_rounds_is_spent_with_the_usual_number(
    measures: tuple[Measure, ...],
) -> None:
    least = replace(DEFAULTS, epsilon=1e-6, delta=1e-18)
    automatic = replace(least, max_groups_contributed=Automatic())
    with pytest.raises(QueryRefused):
        plan_block(block(automatic, *measures), Cascade.name)
    plan = plan_block(block(least, *measures))
    assert not CascadeKind.fits(plan)
    assert plan.block.parameters.max_groups_contributed == USUAL_GROUPS
    said = f"{USUAL_GROUPS}, the usual number, as " if not measures else ""
    assert plan.block.groups_chosen.startswith(said)


def test_a_block_is_decided_once() -> None:
    for made in (block(DEFAULTS, UNITS), block(DEFAULTS, UNITS, limit=3)):
        decided = with_groups_decided(made)
        assert not decided.parameters.undecided
        assert with_groups_decided(decided, None, Composition.GDP) is decided
        assert with_usual_groups(decided, "it is late") is decided
    for given in (NUMBER, AUTO, replace(DEFAULTS, max_groups_contributed=None)):
        assert with_groups_decided(block(given, UNITS)).parameters == given


# -- the policy's maximum -------------------------------------------------------------------------


def limited(most: int | None) -> Parameters:
    return resolve(replace(policy(DEFAULTS), maxima=Maxima(max_groups_contributed=most)))


@pytest.mark.parametrize(("most", "number"), [(None, 10), (30, 10), (10, 10), (4, 4), (2, 2)])
def test_a_maximum_limits_both(most: int | None, number: int) -> None:
    parameters = limited(most)
    plan = plan_block(block(parameters, UNITS))
    assert CascadeKind.fits(plan)
    assert plan.block.parameters.max_groups_contributed == Automatic(most)
    assert plan_block(block(parameters, UNITS, limit=9)).block.parameters.groups_limit == number


def test_a_policy_with_a_maximum_below_the_usual_number_need_not_give_a_default() -> None:
    text = (
        "version: 1\ndataset: small\naccounts: {ana: {epsilon: 1, delta: 1e-6}}\n"
        "maxima: {max_groups_contributed: 4}\n"
        "tables: {visits: {privacy_unit: {name: patient, column: uid}}}\n"
    )
    parameters = resolve(parse_policy(text))
    assert str(parameters.max_groups_contributed) == "auto, else 4"
    with pytest.raises(ParameterError):
        resolve(parse_policy(text), Overrides(max_groups_contributed=5))


def test_a_maximum_of_one_leaves_nothing_to_find_out() -> None:
    plan = plan_block(block(limited(1), UNITS))
    assert not CascadeKind.fits(plan)
    assert plan.groups == 1
    assert plan.block.groups_chosen.startswith("1, the usual number, as the policy allows no more")


@pytest.mark.parametrize("instead", [0, -1, 2**31, 1.5, "10", True, object()])
def test_the_number_in_its_place_is_checked_like_any_other(instead: Any) -> None:
    with pytest.raises(ParameterError):
        check_value("max_groups_contributed", Automatic(instead=instead))
    with pytest.raises(ParameterError):
        resolve(policy(), Overrides(max_groups_contributed=Automatic(instead=instead)))


# -- through SQL ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("usual"), defaults=NO_NUMBER) as opened:
        yield opened


DRAWN_SQL = (
    "SELECT k, MEDIAN(x) AS m FROM visits GROUP BY k",
    "SELECT k, COUNT(DISTINCT n) AS d FROM visits GROUP BY k",
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_error = 99) k, SUM(n) FROM visits GROUP BY k",
    "SELECT k, COUNT(*, max_error => 20) AS n FROM visits GROUP BY k",
)


@pytest.mark.slow
@pytest.mark.parametrize("sql", DRAWN_SQL)
def test_unknown_keys_that_no_rounds_name_find_a_number(
    sql: str, connection: dpsql.Connection
) -> None:
    (explained,) = connection.explain(sql).blocks
    assert explained.groups_chosen == ""
    assert explained.steps == ()
    assert any("max_groups_contributed is found first" in said for said in explained.declared)
    assert len(connection.sql(sql))
    (known,) = connection.explain(sql).blocks
    assert any("found privately" in said for said in known.declared)


@pytest.mark.parametrize("sql", DRAWN_SQL[:2])
def test_auto_by_name_is_refused_where_rounds_cannot_answer(
    sql: str, connection: dpsql.Connection
) -> None:
    with pytest.raises(QueryRefused) as caught:
        connection.explain(sql, max_groups_contributed="auto")
    assert "Set max_groups_contributed to a number" in str(caught.value.hint)


@pytest.mark.slow
def test_answers_and_listings_say_what_was_chosen(connection: dpsql.Connection) -> None:
    sql = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"
    explained = connection.explain(sql)
    assert explained.blocks[0].groups_chosen == FOUND
    assert json.loads(explained.to_json())["blocks"][0]["groups_chosen"] == FOUND
    assert f"max_groups_contributed is {FOUND}." in connection.sql(sql).summary()
    named = connection.sql(sql, mechanism="gaussian_positive_counts").summary()
    assert "max_groups_contributed is 10, the usual number, as a mechanism is" in named
    for given in (3, "auto"):
        text = connection.sql(sql, max_groups_contributed=given).summary()
        assert "max_groups_contributed is" not in text
    assert "max_groups_contributed" not in connection.sql("SELECT COUNT(*) FROM visits").summary()
    rows = connection.sql("SHOW PARAMETERS").fetchall()
    assert ("max_groups_contributed", "auto, else 10", "policy", None) in rows
    offered = Nameable.of(replace(policy(NO_NUMBER), tables={}), {}).parameters
    assert offered["max_groups_contributed"] == ("10", "unlimited", "auto")


@pytest.mark.slow
def test_a_statement_decides_for_each_of_its_parts(connection: dpsql.Connection) -> None:
    sql = (
        "WITH a AS (SELECT k, COUNT(*) AS n FROM visits GROUP BY k), "
        "b AS (SELECT k, MEDIAN(x) AS m FROM visits GROUP BY k) SELECT * FROM a JOIN b USING (k)"
    )
    rounds = [bool(each.steps) for each in connection.explain(sql).blocks]
    assert sorted(rounds) == [False, True]
    assert connection.sql(sql).columns == ["k", "n", "m"]


@pytest.mark.slow
def test_a_release_with_a_number_does_not_answer_for_auto_nor_the_other_way(
    tmp_path: Path,
) -> None:
    """One ledger, one question, a policy that stays as it is while the default becomes another."""
    sql = "SELECT k, COUNT(*) AS n FROM visits GROUP BY k"
    with connect(tmp_path) as before:
        assert not before.sql(sql).cost.stored
        assert before.sql(sql).cost.stored
    rules = policy(NO_NUMBER)
    place = tmp_path / "world.duckdb", rules, tmp_path / "budget.db", ANALYST
    with dpsql.connect(*place) as now:
        first = now.sql(sql)
        assert not first.cost.stored
        assert first.pooled == 1
        assert now.sql(sql).cost.stored
        assert now.sql(sql, max_groups_contributed="auto").cost.stored
        assert now.sql(sql, max_groups_contributed=10).cost.stored
        # What has a number as before is the same question as before.
        declared = "SELECT c, COUNT(*) AS n FROM visits GROUP BY c"
        now.sql(declared)
        assert now.sql(declared, max_groups_contributed=10).cost.stored


@pytest.mark.slow
def test_a_view_finds_its_number_and_keeps_it(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "plays.duckdb")) as writer:
        writer.execute(PLAYS)
    rules = plays_policy(8)

    def connected(defaults: Parameters) -> dpsql.Connection:
        place = tmp_path / "plays.duckdb", replace(rules, defaults=defaults)
        return dpsql.connect(*place, tmp_path / "plays.db", ANALYST)

    view = f"CREATE MATERIALIZED VIEW v {VIEW_WITH} AS "
    view += "SELECT song, COUNT(*) AS n FROM plays GROUP BY song"
    listed = f"{VIEW_WITH[:-1]}, continual = 'scheduled_top_k')"
    listed = view.replace(VIEW_WITH, listed) + " ORDER BY n DESC LIMIT 2"
    with connected(DEFAULTS) as con:
        told = " ".join(" ".join(row) for row in con.sql(f"EXPLAIN {view}").fetchall())
        assert "max_groups_contributed is found first" in " ".join(told.split())
        con.sql(view)
        told = " ".join(" ".join(row) for row in con.sql(f"EXPLAIN {listed}").fetchall())
        assert "max_groups_contributed is 10, the usual number, as a view" in told
    for later in (DEFAULTS, replace(DEFAULTS, max_groups_contributed=3), AUTO):
        with connected(later) as con:
            con.sql("DESCRIBE v")  # refused if its plan were another one
    with connected(AUTO) as con:
        con.sql(view.replace(" v ", " w "))
        with fails_with("no_view"):
            con.sql(listed.replace(" v ", " x "))
