"""A subquery for a value of a row's group is asked for all groups, and looked up in the release."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.failures import fails_with
from helpers.support import connect

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


@pytest.mark.parametrize("key", ["big", "k"])
def test_groups_that_may_not_come_out_are_refused_for_nothing(tmp_path: Path, key: str) -> None:
    with connect(tmp_path) as con:
        asked = AROUND.replace("w.c = v.c", f"w.{key} = v.{key}")
        least = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (min_units_per_group = 3) AVG"
        for sql in (asked, AROUND.replace("SELECT AVG", least)):
            with fails_with("subquery_over_private_rows") as refused:
                con.sql(sql)
            assert "all groups come out" in (refused.value.hint or "")
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
