"""A subquery for a value of a row's group is asked for all groups, and looked up in the release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.support import FILL, TABLES, connect

from dpsql.results.caveats import CaveatKind

AROUND = "SELECT COUNT(*) FROM visits v WHERE n > (SELECT AVG(n) FROM visits w WHERE w.c = v.c)"
GROUPS = "SELECT c, AVG(n) FROM visits GROUP BY c"


@pytest.mark.slow
def test_the_groups_are_a_question_of_their_own_that_is_paid_once(tmp_path: Path) -> None:
    with connect(tmp_path) as con:
        plan = con.explain(AROUND)
        assert len(plan.blocks) == 2
        assert plan.reserved.rho > con.explain(GROUPS).reserved.rho
        con.sql(AROUND)
        assert con.sql(GROUPS).cost.stored
        spent = con.budget().rho_spent
        assert con.sql(AROUND).cost.stored
        assert con.budget().rho_spent == spent


@pytest.mark.parametrize("test", ["w.c < v.c", "w.c = v.c AND w.n < v.n", "w.c = v.c OR v.n = 1"])
def test_other_conditions_on_the_row_around_are_refused_for_nothing(
    tmp_path: Path, test: str
) -> None:
    with connect(tmp_path) as con:
        with fails_with("subquery_over_private_rows"):
            con.sql(AROUND.replace("w.c = v.c", test))
        assert con.budget().queries == 0


@pytest.fixture
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same rows, asked of DuckDB."""
    with duckdb.connect(":memory:") as own:
        for statement in (*TABLES.values(), *FILL):
            own.execute(statement)
        yield own


RARE = ("INSERT INTO visits (uid, k, n) VALUES (1, 99, 20), (1, 99, -5)",)
"""Rows of a group that is too small to come out."""


def test_rows_of_groups_that_did_not_come_out_have_no_value_and_the_answer_says_so(
    tmp_path: Path, no_noise: None, plain: duckdb.DuckDBPyConnection
) -> None:
    with connect(tmp_path, *FILL, *RARE) as con:
        asked = AROUND.replace("w.c = v.c", "w.k = v.k").replace("AVG(n)", "AVG(n) + 0.3")
        answer = con.sql(asked, max_rows_contributed=60, min_units_per_group=2)
        ((kind, strong),) = [
            (each.kind, each.strong)
            for each in answer.warnings
            if "if their group came out of it" in each.text
        ]
        assert kind is CaveatKind.GROUPS_MISSING
        assert strong
        (counted,) = answer.fetchall()
        assert plain.execute(asked).fetchone() == counted
        plain.execute(*RARE)
        assert plain.execute(asked).fetchone() == (counted[0] + 1,)


def test_that_all_groups_come_out_needs_no_words(tmp_path: Path) -> None:
    with connect(tmp_path) as con:
        kinds = {caveat.kind for caveat in con.sql(AROUND).warnings}
        assert CaveatKind.GROUPS_MISSING not in kinds
        least = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (min_units_per_group = 3) AVG"
        kinds = {caveat.kind for caveat in con.sql(AROUND.replace("SELECT AVG", least)).warnings}
        assert CaveatKind.GROUPS_MISSING in kinds


NARROWED = {
    "public rows that are compared": (
        "visits v, shops t WHERE t.k = v.k AND t.size < 30 AND t.name <> 'x'",
        "w.k = t.k",
    ),
    "public rows that are joined": (
        "visits v JOIN shops t ON t.k = v.k WHERE size < 30",
        "w.k = v.k",
    ),
    "constants": ("visits v WHERE v.k IN (1, 2, 3)", "w.k = v.k"),
    "a range": ("visits v WHERE v.k BETWEEN 1 AND 3 AND v.n <> 2", "v.k = w.k"),
}


@pytest.mark.parametrize(("around", "same"), NARROWED.values(), ids=NARROWED)
def test_the_groups_are_those_of_rows_that_other_conditions_leave(
    tmp_path: Path, no_noise: None, plain: duckdb.DuckDBPyConnection, around: str, same: str
) -> None:
    with connect(tmp_path) as con:
        asked = f"(SELECT AVG(w.n) FROM visits w WHERE {same})"
        sql = f"SELECT COUNT(*) FROM {around} AND v.n > {asked}"
        groups = con.explain(sql).blocks[0]
        assert groups.mechanism == "known_domain", "all of them are known"
        assert con.sql(sql, max_rows_contributed=60).fetchall() == plain.execute(sql).fetchall()


KEPT = {
    "a condition of a join": "visits v LEFT JOIN shops t ON t.k = v.k AND t.size < 9 WHERE v.n > 0",
    "a condition under OR": "visits v, shops t WHERE t.k = v.k AND (t.size < 30 OR v.n > 3)",
    "a name that could be another's": "visits v, (SELECT k, size FROM shops) t WHERE size < 30",
}


@pytest.mark.parametrize("around", KEPT.values(), ids=KEPT)
def test_other_conditions_leave_the_groups_as_they_are(
    tmp_path: Path, no_noise: None, plain: duckdb.DuckDBPyConnection, around: str
) -> None:
    with connect(tmp_path) as con:
        asked = "(SELECT AVG(w.n) + 0.3 FROM visits w WHERE w.k = v.k)"
        sql = f"SELECT COUNT(*) FROM {around} AND v.n > {asked}"
        assert con.sql(sql, max_rows_contributed=60).fetchall() == plain.execute(sql).fetchall()


def test_too_many_known_groups_are_refused_for_nothing(tmp_path: Path) -> None:
    with connect(tmp_path) as con:
        asked = AROUND.replace("w.c = v.c", "w.d = v.d")
        between = " AND v.d BETWEEN DATE '2020-01-01' AND DATE '2021-12-31'"
        with fails_with("subquery_over_private_rows") as refused:
            con.sql(asked + between)
        assert "at most 400 groups" in (refused.value.hint or "")
        assert con.budget().queries == 0


@pytest.mark.slow
def test_a_row_around_that_is_public_has_the_value_of_its_group(
    tmp_path: Path, no_noise: None
) -> None:
    with connect(tmp_path) as con:
        asked = "SELECT k, (SELECT COUNT(*) FROM visits v WHERE v.k = shops.k) AS c FROM shops"
        answer = con.sql(asked)
        counts: dict[object, object] = dict(
            con.sql("SELECT k, COUNT(*) FROM visits GROUP BY k").fetchall()
        )
        assert answer.columns == ["k", "c"]
        assert dict(answer.fetchall()) == {k: counts.get(k, 0) for k, _ in answer.fetchall()}
