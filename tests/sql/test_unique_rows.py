# ruff: noqa: E501
"""Keys of several columns: one row of a unit in a group, where that follows, and no more ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.linked_tables import POLICY_TABLES, RULES, SCHEMA, planned_here
from helpers.random_examples import many_examples_of
from helpers.support import Planned
from hypothesis import given
from test_lineage_sensitivity import WORLDS, World, audit, questions

import dpsql
from dpsql.errors import Error as DpsqlError
from dpsql.errors import PolicyError, QueryRefused
from dpsql.ir.query import Block
from dpsql.owner.conformance import check_policy
from dpsql.policy.model import EACH_ROW, Policy, TablePolicy

UNIQUE = {
    "visits": (("uid", "k"), ("uid", "s", "n")),
    "orders": (("uid", "k"),),
    "items": (("okey", "k"),),
    "logins": (("uid", "k"),),
}
KEYED = replace(
    RULES,
    tables={
        name: replace(table, unique=UNIQUE.get(name, ())) for name, table in POLICY_TABLES.items()
    },
)


def plan_of(sql: str, policy: Policy = KEYED, **parameters: Any) -> Planned | None:
    try:
        return planned_here(sql, rules=policy, **parameters)
    except QueryRefused as refused:
        if refused.code not in ("no_mechanism", "groups_by_unit"):
            raise
        return None


def block(sql: str, policy: Policy = KEYED, **parameters: Any) -> Block:
    (plan,) = planned_here(sql, rules=policy, **parameters).plans
    return plan.block


ONE = (10, 1)
IN_ALL = (1, 1)
NOTHING = (10, 10)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, count(*) FROM visits GROUP BY k", ONE),
        ("SELECT s, k, sum(n) FROM visits GROUP BY s, k", ONE),
        ("SELECT n, s, count(*) FROM visits GROUP BY 1, 2", ONE),
        ("SELECT DISTINCT k FROM visits", ONE),
        ("SELECT s, count(*) FROM visits WHERE k = 3 AND n > 1 GROUP BY s", IN_ALL),
        ("SELECT s, count(*) FROM visits WHERE (-2 = k) GROUP BY s", IN_ALL),
        ("SELECT n, count(*) FROM visits WHERE s = 'a' GROUP BY n", ONE),
        ("SELECT s, count(*) FROM (SELECT * FROM visits WHERE k = 3) GROUP BY s", IN_ALL),
        ("SELECT y, count(*) FROM (SELECT uid, k AS y FROM visits) GROUP BY y", ONE),
        ("SELECT k, count(*) FROM logins GROUP BY k", ONE),
        # not the column alone, or not one value of it
        ("SELECT s, count(*) FROM visits GROUP BY s", NOTHING),
        ("SELECT k % 2, count(*) FROM visits GROUP BY 1", NOTHING),
        ("SELECT k + 0, count(*) FROM visits GROUP BY 1", NOTHING),
        ("SELECT s, count(*) FROM visits WHERE k IN (1, 2) GROUP BY s", NOTHING),
        ("SELECT s, count(*) FROM visits WHERE k = 1 OR k = 2 GROUP BY s", NOTHING),
        ("SELECT s, count(*) FROM visits WHERE NOT k = 1 GROUP BY s", NOTHING),
        ("SELECT s, count(*) FROM visits WHERE k <= 1 GROUP BY s", NOTHING),
        ("SELECT s, count(*) FROM visits WHERE k = n GROUP BY s", NOTHING),
        ("SELECT s, count(*) FROM visits WHERE k = 1.0 GROUP BY s", NOTHING),
        ("SELECT s, count(*) FILTER (WHERE k = 1) FROM visits GROUP BY s", NOTHING),
        ("SELECT y, count(*) FROM (SELECT uid, k % 2 AS y FROM visits) GROUP BY y", NOTHING),
        ("SELECT k, count(*) FROM items GROUP BY k", NOTHING),  # of each order, not of each person
        # groups and distinct rows of a subquery: whatever is declared
        ("SELECT k, count(*) FROM (SELECT uid, k, sum(n) AS n FROM visits GROUP BY 1, 2) GROUP BY k", ONE),
        ("SELECT age, count(*) FROM (SELECT DISTINCT uid, age FROM people) GROUP BY age", ONE),
        ("SELECT age, count(*) FROM (SELECT DISTINCT uid, age, city FROM people) GROUP BY age", NOTHING),
        (
            "SELECT age, count(*) FROM (SELECT uid, age, city, count(*) AS n FROM people "
            "GROUP BY ALL) GROUP BY age",
            NOTHING,
        ),
        # joins: kept where a row meets one other row at most
        ("SELECT v.k, count(*) FROM visits v JOIN orders o USING (uid, k) GROUP BY 1", ONE),
        ("SELECT v.k, count(*) FROM visits v LEFT JOIN orders o USING (uid, k) GROUP BY 1", ONE),
        ("SELECT o.k, count(*) FROM visits v LEFT JOIN orders o USING (uid, k) GROUP BY 1", NOTHING),
        ("SELECT v.k, count(*) FROM visits v JOIN orders o USING (uid) GROUP BY 1", NOTHING),
        ("SELECT v.k, o.k, count(*) FROM visits v JOIN orders o USING (uid) GROUP BY 1, 2", NOTHING),
        ("SELECT k, count(*) FROM visits SEMI JOIN people USING (uid) GROUP BY k", ONE),
        ("SELECT v.k, count(*) FROM visits v JOIN people USING (uid) GROUP BY 1", NOTHING),
        ("SELECT v.k, count(*) FROM visits v JOIN shops s ON s.k = v.k GROUP BY 1", NOTHING),
        ("SELECT v.k, count(*) FROM visits v LEFT JOIN shops s ON s.k = v.k GROUP BY 1", NOTHING),
        ("SELECT k, count(*) FROM visits WHERE k IN (SELECT k FROM shops) GROUP BY 1", ONE),
        # a list of one row, and of more
        ("SELECT k, count(*) FROM visits, (VALUES (1)) l(y) WHERE n > y GROUP BY k", ONE),
        ("SELECT k, count(*) FROM (VALUES (3)) l(y) JOIN visits ON n > y GROUP BY k", ONE),
        ("SELECT k, count(*) FROM visits LEFT JOIN (VALUES (3)) l(y) ON n = y GROUP BY k", ONE),
        ("SELECT k, count(*) FROM visits, (VALUES (1), (2)) l(y) GROUP BY k", NOTHING),
        ("SELECT v.k, count(*) FROM visits v, (VALUES (1)) l(y), shops GROUP BY 1", NOTHING),
        (
            "SELECT k, count(*) FROM (SELECT uid, k FROM visits UNION ALL SELECT uid, k FROM logins) "
            "GROUP BY k",
            NOTHING,
        ),
    ],
)  # fmt: skip
def test_one_row_in_a_group_follows_from_keys(sql: str, expected: tuple[int, int]) -> None:
    found = block(sql).parameters
    assert (found.max_groups_contributed, found.max_rows_contributed) == expected


def test_a_person_of_one_row_keeps_the_rows_they_meet_apart() -> None:
    tables = {**KEYED.tables, "people": replace(KEYED.tables["people"], rows_per_unit=1)}
    sql = "SELECT v.k, count(*) FROM visits v JOIN people USING (uid) GROUP BY 1"
    assert block(sql, replace(KEYED, tables=tables)).parameters.max_rows_contributed == 1


def test_rows_of_one_person_meet_those_of_a_list() -> None:
    for listed, most in (("(1)", 1), ("(1), (2), (3)", 3), ("(1), (2)", 2)):
        sql = f"SELECT city, count(*) FROM people, (VALUES {listed}) l(x) GROUP BY 1"
        assert block(sql, ONE_PERSON).parameters.max_rows_contributed == most


ONE_PERSON = replace(
    KEYED,
    tables={**KEYED.tables, "people": replace(KEYED.tables["people"], rows_per_unit=1)},
)
NO_KEY = replace(
    KEYED,
    tables={name: table for name, table in KEYED.tables.items() if name in ("people", "visits")},
)
LOOKED_UP = (
    "SELECT k, count(*) FROM visits v WHERE (SELECT age > 1 FROM people p WHERE v.uid = p.uid) GROUP BY k",
    "SELECT (SELECT city FROM people p WHERE p.uid = v.uid) AS c, count(*) FROM visits v GROUP BY c",
    "SELECT k, count(*) FROM visits v WHERE (SELECT age + 1 FROM people p WHERE v.uid = p.uid AND city <> 'b') > 2 GROUP BY k",
    "SELECT k, sum((SELECT coalesce(age, 0) FROM people p WHERE p.uid = v.uid), contribution_bounds_per_row => (0, 90)) FROM visits v GROUP BY k",
    "SELECT count(*) FROM people p WHERE (SELECT n FROM visits v WHERE v.uid = p.uid AND v.k = 1 AND v.uid + 0 = v.uid) > 3",
)


@pytest.mark.parametrize("sql", LOOKED_UP[:4])
def test_a_value_of_a_row_is_looked_up_where_there_is_one(sql: str) -> None:
    block(sql, ONE_PERSON)
    block(sql)  # links lead to that column
    with fails_with("several_rows"):
        block(sql, NO_KEY)


@pytest.mark.parametrize(
    "sql",
    [
        LOOKED_UP[4],  # whichever of a person's visits is not said
        LOOKED_UP[4].replace("v.uid)", "v.uid LIMIT 1)"),
        "SELECT count(*) FROM visits v WHERE (SELECT city FROM people p WHERE p.uid = v.k) = 'b'",
        "SELECT count(*) FROM visits v WHERE (SELECT v.s FROM people p WHERE p.uid = v.uid) = 'b'",
        "SELECT count(*) FROM visits v WHERE (SELECT rank() OVER (ORDER BY age) FROM people p WHERE p.uid = v.uid) = 1",
        "SELECT count(*) FROM visits v WHERE (SELECT city FROM people p WHERE p.uid >= v.uid) = 'b'",
    ],
)
def test_a_value_of_one_of_several_rows_is_refused(sql: str) -> None:
    with pytest.raises(DpsqlError):
        block(sql, ONE_PERSON)


@pytest.mark.slow
@pytest.mark.parametrize("sql", LOOKED_UP[:4])
@many_examples_of(40)
@given(world=WORLDS)
def test_a_value_that_is_looked_up_is_within_the_sensitivity(sql: str, world: World) -> None:
    """Whether a person has one row, as was promised, or several."""
    found = plan_of(sql, ONE_PERSON, max_groups_contributed=3, max_rows_contributed=4)
    assert found is not None
    assert audit(world, found) == {}


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("value", ["city", "b", "city = 'a'", "NOT b OR city = 'a'"])
def test_a_value_that_is_looked_up_is_that_of_a_join(tmp_path: Path, value: str) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE p AS SELECT i AS u, ['a', 'b', NULL][1 + i % 3] AS city, "
            "[true, false, NULL][1 + i % 3] AS b FROM range(90) t(i)"
        )
        owner.execute("CREATE TABLE v AS SELECT i % 120 AS u, i % 4 AS k FROM range(3000) t(i)")
    rules = dpsql.parse_policy(
        "{version: 1, dataset: d, defaults: {epsilon: 9.0, delta: 1e-6, max_groups_contributed: 9, "
        "max_rows_contributed: 99}, accounts: {ana: {epsilon: 500, delta: 0.1}}, "
        "tables: {p: {privacy_unit: u, rows_per_unit: 1}, v: {privacy_unit: u}}}"
    )
    with dpsql.connect(tmp_path / "t.duckdb", rules, tmp_path / "b.db", "ana") as connection:
        looked_up, joined = (
            sorted(connection.sql(sql).fetchall(), key=str)
            for sql in (
                f"SELECT (SELECT {value} FROM p WHERE p.u = v.u) AS c, count(*) FROM v GROUP BY c",
                f"SELECT {value} AS c, count(*) FROM v LEFT JOIN p ON p.u = v.u GROUP BY c",
            )
        )
    assert looked_up == joined
    assert sum(row[1] for row in looked_up) == 3000


def test_each_grouping_set_has_a_bound_of_its_own() -> None:
    found = planned_here("SELECT k, s, count(*) FROM visits GROUP BY ROLLUP (s, k)", rules=KEYED)
    rows = {
        tuple(
            key.expression.sql() for key in plan.block.keys
        ): plan.block.parameters.max_rows_contributed
        for plan in found.plans
    }
    assert rows == {('"s"', '"k"'): 1, ('"s"',): 10, (): 10}


@pytest.mark.slow
@many_examples_of(150)
@given(questions(), WORLDS)
def test_a_unit_that_repeats_keys_stays_within_the_sensitivity(
    question: tuple[str, dict[str, Any]], world: World
) -> None:
    sql, parameters = question
    found = plan_of(sql, **parameters)
    assert found is None or audit(world, found) == {}


SEVERAL: World = {"visits": [(1, 3, "a", 20, 0.0)] * 4 + [(2, 3, "a", 20, 0.0)]}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM visits GROUP BY k",
        "SELECT k, sum(n) FROM visits GROUP BY k",
        "SELECT count(*) FROM visits WHERE k = 3",
    ],
)
def test_of_rows_that_repeat_a_key_one_counts_and_the_audit_would_notice_more(sql: str) -> None:
    kept, free = planned_here(sql, rules=KEYED), planned_here(sql)
    assert audit(SEVERAL, kept) == {}
    assert audit(SEVERAL, replace(kept, statements=free.statements)) != {}


def test_public_tables_and_rows_that_are_units_promise_no_keys() -> None:
    for unit in (None, EACH_ROW):
        table = TablePolicy("t", unit, unique=(("a", "b"),))
        with pytest.raises(PolicyError) as refused:
            replace(RULES, tables={"t": table})
        assert refused.value.code == "policy_invalid"


def test_a_column_that_does_not_exist_is_an_error_of_the_policy() -> None:
    tables = {"visits": replace(POLICY_TABLES["visits"], unique=(("uid", "nope"),))}
    errors = [f for f in check_policy(replace(RULES, tables=tables), SCHEMA) if f.level == "error"]
    assert [(each.subject, each.message) for each in errors] == [
        ("visits.nope", "a column of `unique` does not exist in the table")
    ]
