"""The fingerprint of a question: one for all spellings, another for what changes the release."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import planned

from dpsql.accounting import Composition
from dpsql.fingerprint import fingerprint
from dpsql.planner import plan_query
from dpsql.policy import AccountPolicy, ColumnPolicy, Link, Parameters, Policy, PrivacyUnit
from dpsql.policy import TablePolicy as Rules
from dpsql.schema import Column, Table, schema_of

SCHEMA = schema_of(
    Table(
        "visits",
        tuple(
            Column(*pair)
            for pair in [("uid", "BIGINT"), ("k", "VARCHAR"), ("n", "BIGINT"), ("x", "DOUBLE")]
        ),
    ),
    Table("users", (Column("uid", "BIGINT"), Column("age", "BIGINT"), Column("z", "VARCHAR"))),
)
UNIT = PrivacyUnit("user", "uid")
VISITS = Rules("visits", UNIT, {"n": ColumnPolicy(0, 10), "x": ColumnPolicy(0.0, 1.0)})
POLICY = Policy(
    "clinic",
    Parameters(delta=1e-6),
    accounts={"ana": AccountPolicy("ana", 5.0, 1e-4)},
    tables={"visits": VISITS, "users": Rules("users", UNIT)},
)
ASKED = "SELECT k, count(*) AS c, sum(x) FROM visits WHERE n > 3 GROUP BY k"


def of(sql: str, policy: Policy = POLICY, **parameters: object) -> str:
    return planned(sql, SCHEMA, policy, **parameters).fingerprint


@pytest.mark.parametrize(
    "sql",
    [
        "select K,COUNT( * ) AS other, SUM(X)\nfrom Visits -- a comment\n where N>3 group by 1",
        "SELECT v.k AS a, count(*), sum(v.x) FROM visits AS v WHERE (v.n > 003) GROUP BY v.k",
        'SELECT "k", count(*), sum("x") FROM "visits" WHERE "n" > 3 GROUP BY ALL',
        "SELECT k, count(*) AS c, sum(x) FROM visits WHERE n > 3 GROUP BY k ORDER BY c",
        "SELECT upper(k), 100 * c, s FROM (SELECT k, count(*) AS c, sum(x) AS s FROM visits "
        "WHERE n > 3 GROUP BY k) WHERE c > 50",
        "WITH w AS (SELECT k, count(*), sum(x) FROM visits WHERE n > 3 GROUP BY k) TABLE w",
        "SELECT k, count(*) AS c, sum(x), dp_interval_low(c) FROM visits WHERE n > 3 GROUP BY k",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true) k, count(*), sum(x) FROM visits "
        "WHERE n > 3 GROUP BY k",
    ],
)
def test_names_layout_and_what_is_done_with_the_answer_do_not_matter(sql: str) -> None:
    assert of(sql) == of(ASKED)


@pytest.mark.parametrize(
    ("one", "other"),
    [("1e2", "1.0E2"), (".5", "0.5"), ("0010", "10"), ("1_000", "1000"), ("'a'", "$$a$$")],
)
def test_how_a_literal_is_written_does_not_matter(one: str, other: str) -> None:
    asked = "SELECT count(*) FROM visits WHERE k || {} = 'q'"
    assert of(asked.format(one)) == of(asked.format(other))


@pytest.mark.parametrize(
    "sql",
    [
        ASKED.replace("n > 3", "n > 4"),
        ASKED.replace("n > 3", "n >= 3"),
        ASKED.replace("n > 3", "n > 3.0"),
        ASKED.replace("sum(x)", "avg(x)"),
        ASKED.replace("sum(x)", "sum(x, contribution_bounds_per_row => (0, 0.5))"),
        ASKED.replace("sum(x)", "sum(x) FILTER (k = 'a')"),
        ASKED.replace("count(*) AS c", "count(DISTINCT uid) AS c"),
        ASKED.replace("k, count", "lower(k), count").replace("GROUP BY k", "GROUP BY 1"),
        ASKED.replace("GROUP BY k", "GROUP BY k, n").replace("k, count", "k, n, count"),
        ASKED.replace("visits", "visits JOIN users USING (uid)"),
        ASKED + " ORDER BY c DESC LIMIT 3",
        ASKED.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.25)"),
        f"({ASKED}) UNION ALL ({ASKED})",
    ],
)
def test_what_changes_the_release_changes_the_fingerprint(sql: str) -> None:
    assert of(sql) != of(ASKED)


def test_digits_that_make_another_type_are_told_apart() -> None:
    asked = "SELECT count(*) FROM visits WHERE k = CAST({} AS VARCHAR)"
    assert len({of(asked.format(text)) for text in ("1", "1.0", "1.00", "1e0", "'1'")}) == 5


@pytest.mark.parametrize(
    "parameters",
    [{"epsilon": 0.4}, {"delta": 1e-7}, {"max_groups_contributed": 3}, {"max_rows_contributed": 2}],
)
def test_other_parameters_are_another_question(parameters: dict[str, object]) -> None:
    assert of(ASKED, **parameters) != of(ASKED)


def test_rows_per_group_are_told_apart_where_the_noise_is_the_same() -> None:
    bounds = "contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (0, 1)"
    asked = f"SELECT k, sum(x, {bounds}) FROM visits GROUP BY k"
    assert of(asked, max_rows_contributed=2) != of(asked, max_rows_contributed=50)


def test_parameters_that_play_no_part_do_not_matter() -> None:
    assert of(ASKED, k_bar=77) == of(ASKED)


def with_table(**changes: object) -> Policy:
    return replace(POLICY, tables={**POLICY.tables, "visits": replace(VISITS, **changes)})


CHANGED = {
    "bounds": with_table(columns={**VISITS.columns, "x": ColumnPolicy(0.0, 2.0)}),
    "domain": with_table(columns={**VISITS.columns, "k": ColumnPolicy(domain=("a", "b"))}),
    "unit": with_table(privacy_unit=PrivacyUnit("person", "uid")),
    "unit column": with_table(privacy_unit=PrivacyUnit("user", "n")),
    "link": with_table(privacy_unit=None, link=Link("n", "users", "age")),
    "defaults": replace(POLICY, defaults=Parameters(delta=1e-6, epsilon=0.4)),
    "least units": replace(POLICY, defaults=Parameters(delta=1e-6, min_units_per_group=20)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_policy_that_changes_the_answer_makes_it_another_question(name: str) -> None:
    assert of(ASKED, CHANGED[name]) != of(ASKED)


def test_a_policy_that_only_grew_leaves_answers_where_they_are() -> None:
    grown = replace(
        POLICY,
        tables={**POLICY.tables, "other": Rules("other", UNIT)},
        accounts={**POLICY.accounts, "bo": AccountPolicy("bo", 1.0, 1e-6)},
    )
    assert of(ASKED, grown) == of(ASKED)


def test_other_columns_of_the_table_make_it_another_question() -> None:
    # What a name meant when the question was answered must be what it means now.
    visits = SCHEMA["visits"]
    changed = schema_of(
        replace(visits, columns=(*visits.columns, Column("c", "DATE"))), SCHEMA["users"]
    )
    assert planned(ASKED, changed, POLICY).fingerprint != of(ASKED)


def test_compositions_that_plan_differently_are_told_apart() -> None:
    query = planned(ASKED, SCHEMA, POLICY).query
    prints = {fingerprint(plan_query(query, None, c).blocks) for c in Composition}
    assert len(prints) == len(Composition)
