"""Tables in which each row is a unit: one row moves exact rows within the declared sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.columns import column_of
from helpers.failures import fails_with
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import Groups, Row, TableLab, moved_by_units, plan_violations
from helpers.support import Planned, planned
from hypothesis import given
from hypothesis import strategies as st

import dpsql
from dpsql.core.schema import Table, schema_of
from dpsql.policy.model import (
    EACH_ROW,
    ROW_PROMISE,
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import Parameters
from dpsql.sql.lineage.relation import Relation

COLUMNS = (("k", "INTEGER"), ("n", "INTEGER"), ("s", "VARCHAR"))
TABLES = schema_of(
    Table("survey", tuple(column_of(*c) for c in COLUMNS)),
    Table("other", tuple(column_of(*c) for c in COLUMNS)),
    Table("visits", (column_of("uid", "BIGINT"), column_of("k", "INTEGER"))),
    Table("regions", (column_of("k", "INTEGER"), column_of("title", "VARCHAR"))),
)
RULES = Policy(
    "census",
    defaults=Parameters(epsilon=5.0, delta=1e-6),
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
    tables={
        "survey": TablePolicy("survey", EACH_ROW, {"n": ColumnPolicy(-5, 20)}),
        "other": TablePolicy("other", EACH_ROW),
        "visits": TablePolicy("visits", PrivacyUnit("row", "uid")),
        "regions": TablePolicy("regions", None),
    },
)


def asked(sql: str, **parameters: Any) -> Planned:
    return planned(sql, TABLES, RULES, **parameters)


def audited(rows: Sequence[Row], found: Planned) -> dict[object, list[str]]:
    """What the removal of each row violates."""
    lab, plan = TableLab("survey", COLUMNS), found.plans[0]

    def read(kept: Sequence[Row]) -> Groups:
        lab.fill(kept)
        return lab.groups(found.statements[0], plan)

    def without(whole: Sequence[Row], place: int) -> Sequence[Row]:
        return [*whole[:place], *whole[place + 1 :]]

    return moved_by_units(rows, range(len(rows)), without, read, plan_violations(plan))


QUESTIONS = [
    "SELECT COUNT(*), SUM(n), AVG(n) FROM survey",
    "SELECT k, COUNT(*) FROM survey GROUP BY k",
    "SELECT k, COUNT(*), SUM(n), COUNT(s), STDDEV(n) FROM survey GROUP BY k",
    "SELECT k, COUNT(DISTINCT s), COUNT(*) FROM survey GROUP BY k",
    "SELECT k, COUNT(DISTINCT n) FROM survey WHERE s <> 'a' GROUP BY k",
    "SELECT k, COUNT(*) FROM survey WHERE k IN (SELECT k FROM range(3) r(k)) GROUP BY k",
    "SELECT k % 2, SUM(n) FROM (SELECT k, n + 1 AS n FROM survey WHERE n > 0) GROUP BY 1",
    "SELECT k, COUNT(*) FROM survey GROUP BY k ORDER BY 2 DESC LIMIT 2",
    "SELECT k, COUNT(*), COUNT(*) FILTER (WHERE n > 0) FROM survey GROUP BY k",
]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.integers(-9, 30)),
        st.sampled_from(["a", "b", "", None]),
    ),
    max_size=12,
)
STREAMS = (st.sampled_from(QUESTIONS), st.integers(1, 3), st.integers(1, 3), ROWS)


@pytest.mark.slow
@examples_of(15)
@given(*STREAMS)
def test_one_row_moves_exact_rows_within_the_declared_sensitivity(
    sql: str, groups: int, smallest: int, rows: list[Row]
) -> None:
    found = asked(sql, max_groups_contributed=groups, min_units_per_group=smallest)
    assert audited(rows, found) == {}


@pytest.mark.slow
@many_examples_of(200)
@given(*STREAMS)
def test_one_row_moves_exact_rows_within_the_declared_sensitivity_at_length(
    sql: str, groups: int, smallest: int, rows: list[Row]
) -> None:
    found = asked(sql, max_groups_contributed=groups, min_units_per_group=smallest)
    assert audited(rows, found) == {}


TWICE = [
    "SELECT x, COUNT(*) FROM survey, (VALUES (1), (2)) v(x) GROUP BY x",
    "SELECT k, COUNT(*) FROM (FROM survey UNION ALL FROM survey) GROUP BY k",
    "WITH s AS (SELECT k FROM survey) SELECT COUNT(*) FROM (FROM s UNION ALL FROM s)",
    "SELECT title, COUNT(*) FROM survey JOIN regions ON survey.k >= regions.k GROUP BY title",
    "SELECT title, COUNT(*) FROM survey JOIN regions USING (k) GROUP BY title",
    "SELECT title, COUNT(*) FROM regions LEFT JOIN survey USING (k) GROUP BY title",
    "SELECT COUNT(*) FROM survey, regions",
    "SELECT COUNT(*) FROM survey, (VALUES (1), (2)) v",
    "SELECT COUNT(*) FROM survey CROSS JOIN range(9)",
    "SELECT k, COUNT(*) FROM (FROM survey UNION ALL FROM other) GROUP BY k",
    "SELECT COUNT(*) FROM (SELECT * FROM (SELECT DISTINCT title FROM survey JOIN regions USING (k))"
    " WHERE title = 'a')",
]


@pytest.mark.parametrize("sql", TWICE)
def test_a_row_that_could_stand_twice_is_refused(sql: str) -> None:
    with fails_with("unit_row_repeats"):
        asked(sql)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT COUNT(*) FROM survey a JOIN survey b ON a.k = b.k", "join_units_differ"),
        ("SELECT COUNT(*) FROM survey a JOIN other b USING (k)", "join_units_differ"),
        ("SELECT COUNT(*) FROM survey a JOIN visits v ON a.k = v.uid", "join_units_differ"),
        ("SELECT COUNT(*) FROM survey a SEMI JOIN visits v ON a.k = v.uid", "join_units_differ"),
        (f'SELECT COUNT(DISTINCT "{ROW_PROMISE}") FROM survey', "unknown_column"),
        (f'SELECT "{ROW_PROMISE}", COUNT(*) FROM survey GROUP BY 1', "unknown_column"),
        ("SELECT rowid, COUNT(*) FROM survey GROUP BY 1", "unknown_column"),
        (
            "SELECT k, COUNT(*) FROM (FROM survey UNION FROM survey) GROUP BY k",
            "set_operation_unit",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT k FROM survey EXCEPT ALL SELECT k FROM survey)",
            "set_operation_unit",
        ),
        (
            "SELECT k FROM (FROM survey INTERSECT ALL FROM survey) GROUP BY k",
            "set_operation_unit",
        ),
    ],
)
def test_rows_meet_no_other_private_rows_and_have_no_name(sql: str, code: str) -> None:
    with fails_with(code):
        asked(sql)


def test_the_audit_notices_rows_that_stand_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the refusal, a row that stands in two groups counts in both."""
    monkeypatch.setattr(Relation, "may_repeat_units", False)
    rows = [(k, 1, "a") for k in range(3)]
    assert audited(rows, asked(TWICE[0], max_groups_contributed=1))


def test_a_row_counts_once_and_nothing_is_drawn_for_its_bounds() -> None:
    (plan,) = asked("SELECT k, COUNT(*), SUM(n) FROM survey GROUP BY k", usual=False).plans
    assert (plan.groups, plan.block.parameters.rows_limit) == (1, 1)
    assert plan.bounds_choice is None
    assert not plan.block.cascades


@pytest.fixture
def survey(tmp_path: Path) -> dpsql.Connection:
    """A session over the answers of 900 people."""
    with duckdb.connect(str(tmp_path / "census.duckdb")) as writer:
        writer.execute(
            "CREATE TABLE survey AS SELECT i % 3 AS k, i % 9 AS n, TIMESTAMP '2024-01-01' AS t "
            "FROM range(900) r(i)"
        )
    (tmp_path / "policies.yaml").write_text(
        "version: 1\ndataset: census\naccounts: {ana: {epsilon: 1000, delta: 1e-3}}\n"
        "defaults: {epsilon: 20}\ntables:\n"
        "  survey: {privacy_unit: row, time: {column: t}, columns: {n: {lower: 0, upper: 8}}}\n"
    )
    return dpsql.connect(tmp_path / "census.duckdb", tmp_path / "policies.yaml", analyst="ana")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_questions_are_answered_and_the_promise_is_told(survey: dpsql.Connection) -> None:
    with survey:
        ((people, nearly, middle),) = survey.sql("SELECT COUNT(*), SUM(n), MEDIAN(n) FROM survey")
        assert abs(people - 900) < 30
        assert abs(nearly - 3600) < 240
        assert 3 <= middle <= 5
        assert {k for (k,) in survey.sql("SELECT DISTINCT k FROM survey")} == {0, 1, 2}
        told = [
            "SHOW TABLES",
            "DESCRIBE survey",
            "EXPLAIN SELECT k, COUNT(*) FROM survey GROUP BY k",
        ]
        for text in told:
            said = " ".join(str(value) for row in survey.sql(text) for value in row)
            assert ROW_PROMISE in " ".join(said.split()), text
        assert ROW_PROMISE in " ".join(str(survey.budget()).split())
        with fails_with("no_view"):
            survey.sql(
                "CREATE MATERIALIZED VIEW v WITH (step = '1 day', start = '2024-01-01', steps = 9) "
                "AS SELECT COUNT(*) AS n FROM survey"
            )
