# ruff: noqa: E501
"""What is declared of a unit's rows and values: it chooses bounds, and protects nobody less.

Where it is true, nothing is left out; where it is not, a unit moves the exact rows no further than
the plan declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import test_sensitivity
from helpers.failures import fails_with
from helpers.linked_tables import POLICY_TABLES, RULES, planned_here
from helpers.random_examples import many_examples_of
from helpers.sensitivity import Groups, Row
from helpers.sensitivity import audit as audit_of_one_table
from helpers.support import Planned, planned
from hypothesis import given
from hypothesis import strategies as st
from test_lineage_sensitivity import WORLDS, World, audit, groups_of, questions

import dpsql
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block
from dpsql.policy.model import ColumnPolicy, Policy, TablePolicy
from dpsql.policy.parameters import Automatic, Parameters
from dpsql.sql.lineage.relation import Relation

ONE = ColumnPolicy(one_per_unit=True)


def declared(table: str, rows: int | None = None, *single: str) -> TablePolicy:
    """A table of the world of which this is declared besides."""
    known = POLICY_TABLES[table]
    columns = dict(known.columns)
    for name in single:
        columns[name] = replace(columns.get(name, ONE), one_per_unit=True)
    return replace(known, rows_per_unit=rows, columns=columns)


def rules(*tables: TablePolicy, groups: int | Automatic | None = 10) -> Policy:
    defaults = replace(RULES.defaults, max_groups_contributed=groups)
    known = {**POLICY_TABLES, **{table.name.key: table for table in tables}}
    return replace(RULES, tables=known, defaults=defaults)


PROMISED = rules(
    declared("people", 1),
    declared("visits", None, "s"),
    declared("orders", 2, "k"),
    declared("items", 3),
    declared("logins", 1),
)


def block(sql: str, policy: Policy = PROMISED, **parameters: Any) -> Block:
    (plan,) = planned_here(sql, rules=policy, **parameters).plans
    return plan.block


def bounds(sql: str, policy: Policy = PROMISED, **parameters: Any) -> tuple[object, object]:
    """The groups and the rows that a unit may influence."""
    found = block(sql, policy, **parameters).parameters
    return found.max_groups_contributed, found.max_rows_contributed


# -- true or not ----------------------------------------------------------------------------------


def plan_of(sql: str, policy: Policy, **parameters: Any) -> Planned | None:
    try:
        return planned_here(sql, rules=policy, **parameters)
    except QueryRefused as refused:
        if refused.code not in ("no_mechanism", "groups_by_unit"):
            raise
        return None


@pytest.mark.slow
@many_examples_of(150)
@given(questions(), WORLDS)
def test_a_unit_that_breaks_every_promise_stays_within_the_sensitivity(
    question: tuple[str, dict[str, Any]], world: World
) -> None:
    sql, parameters = question
    found = plan_of(sql, PROMISED, **parameters)
    assert found is None or audit(world, found) == {}


def honest(world: World) -> World:
    """A world in which all that is declared is true."""

    def first(table: str, most: int) -> list[Row]:
        kept: dict[object, list[Row]] = {}
        for row in world.get(table, ()):
            kept.setdefault(row[0], []).append(row)
        return [row for rows in kept.values() for row in rows[:most]]

    def said(rows: Sequence[Row], column: int, values: Sequence[object]) -> list[Row]:
        """The same value in all rows of a unit."""
        return [
            (*row[:column], values[(row[0] or 0) % len(values)], *row[column + 1 :]) for row in rows
        ]

    orders = said(first("orders", 2), 2, [3, None, 1, 2])
    owner = {row[1]: row[0] for row in orders}
    items: dict[object, list[Row]] = {}
    for row in world.get("items", ()):
        items.setdefault(owner.get(row[0]), []).append(row)
    return {
        **world,
        "people": first("people", 1),
        "visits": said(world.get("visits", ()), 2, ["1", "bad", None, "2"]),
        "orders": orders,
        "items": [row for rows in items.values() for row in rows[:3]],
        "logins": first("logins", 1),
    }


@pytest.mark.slow
@many_examples_of(250)
@given(questions(), WORLDS)
def test_nothing_is_left_out_where_all_that_is_declared_is_true(
    question: tuple[str, dict[str, Any]], world: World
) -> None:
    sql, parameters = question
    parameters |= {"max_rows_contributed": 10**6, "max_groups_contributed": 10**6}
    parameters["contribution_bounding"] = "sample"
    bounded, free = plan_of(sql, PROMISED, **parameters), plan_of(sql, RULES, **parameters)
    if bounded is None or free is None:
        assert bounded is free
        return
    world = honest(world)
    # The first measures are those that were asked for, and a plan may add a number of units.
    asked = len(free.plans[0].block.measures)
    one, other = (
        {key: values[:asked] for key, values in groups_of(world, each).items()}
        for each in (bounded, free)
    )
    assert one == other


def single_table(change: Callable[[str], str], sql: str, rows: Sequence[Row], **given: Any) -> Any:
    """What the audit of one table says, of which everything is declared."""
    r = test_sensitivity.RULES.tables["r"]
    columns = {name: ColumnPolicy(one_per_unit=True) for name in ("a", "f", "s")}
    columns |= {name: replace(c, one_per_unit=True) for name, c in r.columns.items()}
    table = replace(r, columns=columns, rows_per_unit=given.pop("rows_per_unit"))
    policy = replace(test_sensitivity.RULES, tables={"r": table})
    try:
        found = planned(sql, test_sensitivity.SCHEMA, policy, **given)
    except QueryRefused as refused:
        if refused.code != "no_mechanism":
            raise
        return {}
    plan, statement = found.plans[0], change(found.statements[0])
    return audit_of_one_table(test_sensitivity.LAB, rows, plan, statement)


@pytest.mark.slow
@many_examples_of(120)
@given(test_sensitivity.questions(), test_sensitivity.rows_of_units, st.sampled_from([None, 1, 2]))
def test_every_measure_of_a_unit_that_breaks_them_stays_within_the_sensitivity(
    question: tuple[str, dict[str, Any]], rows: list[Row], most: int | None
) -> None:
    sql, given = question
    assert single_table(lambda text: text, sql, rows, rows_per_unit=most, **given) == {}


def test_the_audit_notices_a_bound_that_is_declared_and_not_kept() -> None:
    rows = [(1, 0, 0.0, key, "p", 0, 0, 0.0) for key in ("x", "y", "z")]
    sql = "SELECT s, count(*) FROM r GROUP BY s"

    def believed(text: str) -> str:
        assert text.count('"__dpsql_rank" <= 1') == 1
        return text.replace('"__dpsql_rank" <= 1', '"__dpsql_rank" <= 9')

    assert single_table(lambda text: text, sql, rows, rows_per_unit=1) == {}
    assert single_table(believed, sql, rows, rows_per_unit=1) != {}


def test_a_column_that_is_taken_for_single_and_is_not_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = (
        "SELECT city, count(*) FROM visits v LEFT JOIN people p ON p.uid = v.uid AND age > v.k "
        "GROUP BY 1"
    )
    world = honest(
        {
            "people": [(1, "x", 2), (2, "x", 2)],
            "visits": [(who, k, "", 0, 0.0) for who in (1, 2) for k in (0, 3)],
        }
    )

    def groups(policy: Policy) -> Groups:
        found = planned_here(sql, rules=policy, max_groups_contributed=9, max_rows_contributed=9)
        return {key: values[:1] for key, values in groups_of(world, found).items()}

    assert groups(PROMISED) == groups(RULES)
    filled = Relation.filled_with_nulls
    monkeypatch.setattr(
        Relation, "filled_with_nulls", lambda self, *, per_unit: filled(self, per_unit=True)
    )
    assert groups(PROMISED) != groups(RULES)


# -- which bounds follow --------------------------------------------------------------------------

NOTHING = (10, 10)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT city, count(*) FROM people GROUP BY city", (1, 1)),
        ("SELECT city, age % 2, sum(age) FROM people GROUP BY 1, 2", (1, 1)),
        ("SELECT s, count(*) FROM visits GROUP BY s", (1, 10)),
        ("SELECT upper(s), count(*) FROM visits WHERE k > 1 GROUP BY 1", (1, 10)),
        ("SELECT s, k, count(*) FROM visits GROUP BY s, k", NOTHING),
        ("SELECT k, count(*) FROM visits GROUP BY k", NOTHING),
        ("SELECT k, count(*) FROM orders GROUP BY k", (1, 2)),
        ("SELECT price > 1, count(*) FROM orders GROUP BY 1", (2, 2)),
        ("SELECT k, count(*) FROM items GROUP BY k", (3, 3)),
        ("SELECT k, count(*) FROM logins GROUP BY k", (1, 1)),
        # joins on the unit: a row meets all rows of its unit
        ("SELECT city, count(*) FROM people JOIN visits USING (uid) GROUP BY city", (1, 10)),
        ("SELECT city, s, count(*) FROM visits LEFT JOIN people USING (uid) GROUP BY 1, 2", (1, 10)),
        ("SELECT o.k, count(*) FROM people p JOIN orders o USING (uid) GROUP BY 1", (1, 2)),
        (
            "SELECT a.price, count(*) FROM orders a JOIN orders b USING (uid) GROUP BY 1",
            (4, 4),
        ),
        (
            "SELECT city, count(*) FROM visits v LEFT JOIN people p ON p.uid = v.uid AND age > v.k "
            "GROUP BY 1",
            NOTHING,  # some rows of a unit may find a match, and others none
        ),
        # along a link: a child meets one parent
        ("SELECT i.k, count(*) FROM items i JOIN orders o USING (okey) GROUP BY 1", (3, 3)),
        ("SELECT o.k, count(*) FROM items i JOIN orders o USING (okey) GROUP BY 1", (1, 3)),
        ("SELECT i.k, count(*) FROM orders o LEFT JOIN items i USING (okey) GROUP BY 1", (6, 6)),
        ("SELECT r.why, count(*) FROM returns r JOIN items i USING (ikey) GROUP BY 1", NOTHING),
        # public rows: any number of them, with any values
        ("SELECT name, count(*) FROM people p JOIN shops s ON s.k = p.age GROUP BY 1", NOTHING),
        ("SELECT p.city, count(*) FROM people p JOIN towns USING (city) GROUP BY 1", (1, 10)),
        ("SELECT city, count(*) FROM people SEMI JOIN towns USING (city) GROUP BY 1", (1, 1)),
        ("SELECT city, count(*) FROM people WHERE age IN (SELECT k FROM shops) GROUP BY 1", (1, 1)),
        # set operations
        (
            "SELECT c, count(*) FROM (SELECT uid, city AS c FROM people UNION ALL "
            "SELECT uid, s FROM visits) GROUP BY c",
            NOTHING,
        ),
        (
            "SELECT c, count(*) FROM (SELECT uid, city AS c FROM people UNION ALL "
            "SELECT uid, 'x' FROM logins) GROUP BY c",
            (2, 2),
        ),
        (
            "SELECT c, count(*) FROM (SELECT uid, s AS c FROM visits EXCEPT ALL "
            "SELECT uid, city FROM people) GROUP BY c",
            (1, 10),
        ),
        # what a subquery makes of a unit is one row of it, whatever is declared
        (
            "SELECT n, count(*) FROM (SELECT uid, count(*) AS n FROM visits GROUP BY uid) GROUP BY n",
            (1, 1),
        ),
        (
            "SELECT n, count(*) FROM (SELECT uid, k, sum(n) AS n FROM visits GROUP BY uid, k) "
            "GROUP BY n",
            NOTHING,
        ),
        (
            "SELECT s, count(*) FROM (SELECT uid, s, sum(n) AS n FROM visits GROUP BY uid, s) "
            "GROUP BY s",
            (1, 1),
        ),
        ("SELECT s, count(*) FROM (SELECT DISTINCT uid, s FROM visits) GROUP BY s", (1, 1)),
        ("SELECT s, count(*) FROM (SELECT DISTINCT uid, s, k FROM visits) GROUP BY s", (1, 10)),
    ],
)  # fmt: skip
def test_bounds_follow_from_what_is_declared(sql: str, expected: tuple[int, int]) -> None:
    assert bounds(sql) == expected


@pytest.mark.parametrize("groups", [Automatic(instead=10), Automatic(), None, 3, 1])
def test_one_group_is_one_however_many_were_asked_for(groups: Any) -> None:
    policy = rules(declared("people", 1), groups=groups)
    found = block("SELECT city, count(*) FROM people GROUP BY city", policy)
    assert found.parameters.max_groups_contributed == 1
    assert found.groups_chosen == ""


def test_several_rows_limit_what_a_question_finds_out() -> None:
    policy = rules(declared("orders", 2), groups=Automatic(instead=10))
    found = block("SELECT k, count(*) FROM orders GROUP BY k", policy)
    assert found.parameters.max_groups_contributed == Automatic(most=2)
    fewer = block("SELECT k, count(*) FROM orders GROUP BY k", policy, max_groups_contributed=1)
    assert (fewer.parameters.max_groups_contributed, fewer.most_groups) == (1, None)


def test_less_noise_follows() -> None:
    sql = "SELECT count(*) AS n FROM people"
    usual, fewer = (
        planned_here(sql, rules=policy).plans[0].measures[0].noise for policy in (RULES, PROMISED)
    )
    assert usual is not None
    assert fewer is not None
    assert fewer.std(1) * 9 < usual.std(1)


# -- fingerprints ---------------------------------------------------------------------------------


def asked(sql: str, policy: Policy) -> str:
    return planned_here(sql, rules=policy).fingerprint


def test_a_declaration_that_changes_the_answer_asks_something_new() -> None:
    sql = "SELECT city, count(*) FROM people GROUP BY city"
    plain, one, single = (
        asked(sql, policy)
        for policy in (
            rules(declared("people")),
            rules(declared("people", 1)),
            rules(declared("people", None, "city")),
        )
    )
    assert len({plain, one, single}) == 3


def test_a_declaration_that_changes_nothing_asks_the_same() -> None:
    sql = "SELECT age, count(DISTINCT uid) FROM people GROUP BY age"
    assert asked(sql, rules(declared("people"))) == asked(
        sql, rules(declared("people", None, "city"))
    )
    few = rules(declared("people", 50))
    assert asked(sql, rules(declared("people"))) == asked(sql, few)
    # With the same numbers, whoever gave them.
    one = rules(replace(declared("people"), defaults={"max_groups_contributed": 3}))
    assert asked(sql, one) == planned_here(sql, max_groups_contributed=3).fingerprint


# -- defaults of tables ---------------------------------------------------------------------------


def with_defaults(**tables: Mapping[str, Any]) -> Policy:
    return rules(*(replace(POLICY_TABLES[name], defaults=given) for name, given in tables.items()))


BOTH = "SELECT v.k, count(*) FROM visits v JOIN orders o USING (uid) GROUP BY 1"
VISITS = "SELECT k, count(*) FROM visits GROUP BY k"


def test_a_tables_default_goes_before_the_policys() -> None:
    policy = with_defaults(visits={"max_rows_contributed": 3, "epsilon": 0.25})
    found = block(VISITS, policy)
    assert (found.parameters.max_rows_contributed, found.parameters.epsilon) == (3, 0.25)
    assert found.table_defaults == (("epsilon", "visits"), ("max_rows_contributed", "visits"))
    assert block("SELECT k, count(*) FROM orders GROUP BY k", policy).parameters.epsilon == 5.0
    assert block(BOTH, policy).parameters.max_rows_contributed == 3  # orders says nothing of it


def test_of_several_tables_the_largest_number_and_the_least_epsilon_hold() -> None:
    policy = with_defaults(
        visits={"max_rows_contributed": 3, "max_groups_contributed": 4, "epsilon": 0.25},
        orders={"max_rows_contributed": 7, "max_groups_contributed": None, "epsilon": 2.0},
    )
    numbers = with_defaults(
        visits={"max_rows_contributed": 3, "max_groups_contributed": 4, "epsilon": 0.25},
        orders={"max_rows_contributed": 7, "max_groups_contributed": 2, "epsilon": 2.0},
    )
    both = block(BOTH, numbers)
    told = both.parameters
    assert (told.max_rows_contributed, told.max_groups_contributed, told.epsilon) == (7, 4, 0.25)
    assert dict(both.table_defaults) == {
        "epsilon": "visits",
        "max_groups_contributed": "visits",
        "max_rows_contributed": "orders",
    }
    top = f"{BOTH} ORDER BY count(*) DESC LIMIT 2"
    assert block(top, policy).parameters.max_groups_contributed is None


def test_what_somebody_asks_for_goes_before_a_tables_default() -> None:
    policy = with_defaults(visits={"max_rows_contributed": 3, "epsilon": 0.25})
    said = block(VISITS, policy, max_rows_contributed=10)
    assert said.parameters.max_rows_contributed == 10  # even what the policy's own default is
    assert said.table_defaults == (("epsilon", "visits"),)
    option = VISITS.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2)")
    found = block(option, policy)
    assert found.parameters.epsilon == 2.0
    assert dict(found.table_defaults) == {"max_rows_contributed": "visits"}


def test_an_error_that_is_asked_for_goes_before_a_tables_epsilon_and_back() -> None:
    policy = with_defaults(visits={"epsilon": 0.25})
    found = block(VISITS, policy, max_error=40)
    assert found.parameters.max_error == 40
    assert found.table_defaults == ()
    by_error = replace(policy, defaults=replace(policy.defaults, max_error=40.0))
    assert block(VISITS, by_error).parameters.max_error is None
    assert block(VISITS, by_error).parameters.epsilon == 0.25


@pytest.mark.parametrize("place", ["connection", "option"])
def test_no_question_goes_below_the_least_units_of_a_table(place: str) -> None:
    policy = with_defaults(visits={"min_units_per_group": 20})
    assert block(VISITS, policy).parameters.min_units_per_group == 20
    assert block(VISITS, policy, min_units_per_group=30).parameters.min_units_per_group == 30
    sql, given = VISITS, {"min_units_per_group": 10}
    if place == "option":
        given = {}
        sql = VISITS.replace(
            "SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (min_units_per_group = 10)"
        )
    with fails_with("parameter_out_of_range", match="at least 20"):
        block(sql, policy, **given)
    joined = with_defaults(visits={"min_units_per_group": 5}, orders={"min_units_per_group": 20})
    assert block(BOTH, joined).parameters.min_units_per_group == 20


def test_each_block_has_the_defaults_of_its_own_tables() -> None:
    policy = with_defaults(visits={"max_rows_contributed": 3}, orders={"max_rows_contributed": 7})
    both = "SELECT (SELECT count(*) FROM visits) / (SELECT count(*) FROM orders) AS r"
    plans = planned_here(both, rules=policy).plans
    assert [plan.block.parameters.max_rows_contributed for plan in plans] == [3, 7]


# -- end to end -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_and_listings_say_where_a_number_comes_from(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "w.duckdb")) as writer:
        writer.execute("CREATE TABLE people (uid BIGINT, city VARCHAR, age INTEGER)")
        writer.execute("CREATE TABLE visits (uid BIGINT, k INTEGER, s VARCHAR)")
    known = {
        "people": declared("people", 1, "city"),
        "visits": TablePolicy(
            "visits", POLICY_TABLES["visits"].privacy_unit, defaults={"max_rows_contributed": 3}
        ),
    }
    policy = replace(RULES, tables=known, defaults=Parameters(epsilon=1.0, delta=1e-6))
    ledger = tmp_path / "b.db"
    with dpsql.connect(tmp_path / "w.duckdb", policy, ledger, "ana") as con:
        told = con.explain("SELECT city, count(*) FROM people GROUP BY city").blocks[0].declared
        assert told == (
            "max_rows_contributed is 1, as no person has more rows here",
            "max_groups_contributed is 1, as no person has two values of the keys",
        )
        asked_for = con.explain("SELECT k, count(*) FROM visits GROUP BY k")
        assert asked_for.blocks[0].declared == ("max_rows_contributed is 3, the default of visits",)
        assert "max_rows_contributed is 3, the default of visits" in str(asked_for)
        tables = con.sql("SHOW TABLES").fetchall()
        assert tables == [
            ("people", "private", "person", 1, None),
            ("visits", "private", "person", None, "max_rows_contributed = 3"),
        ]
        columns = {row[0]: row[2] for row in con.sql("DESCRIBE people").fetchall()}
        assert columns["city"] == "private, one per person"
        assert columns["age"] == "private"


def test_columns_in_which_no_two_rows_agree_are_listed(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "w.duckdb")) as owner:
        owner.execute("CREATE TABLE s (person INT, Year INT, wave INT, x INT)")
    policy = dpsql.parse_policy(
        """
version: 1
dataset: d
accounts: {ana: {epsilon: 1, delta: 1e-6}}
tables:
  s:
    privacy_unit: person
    unique: [[person, year], [person, wave, year]]
"""
    )
    with dpsql.connect(tmp_path / "w.duckdb", policy, tmp_path / "b.db", "ana") as con:
        columns = {row[0]: row[2] for row in con.sql("DESCRIBE s").fetchall()}
    assert columns == {
        "person": "privacy unit: person, unique with Year, unique with Year and wave",
        "Year": "private, unique with person, unique with person and wave",
        "wave": "private, unique with person and Year",
        "x": "private",
    }
