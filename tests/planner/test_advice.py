"""Answers that say nothing are told what would change that; others are left alone."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.support import connect

import dpsql

EMPTY = "SELECT ts, count(*) FROM visits GROUP BY ts"
NUMBER: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8, "max_groups_contributed": 10}


@pytest.fixture
def con(tmp_path: Path) -> dpsql.Connection:
    return connect(tmp_path)


@pytest.mark.slow
def test_an_empty_answer_says_what_groups_would_have_to_be_with_other_bounds(
    con: dpsql.Connection,
) -> None:
    said = " ".join(con.sql(EMPTY, **NUMBER).advice.split())
    found = re.fullmatch(
        r"No group was large enough to appear, which takes about (\d+) units \(person\)\. It "
        r"would need about (\d+) with max_groups_contributed = 1 or about (\d+) with epsilon = 2\. "
        r"Coarser keys make larger groups\.",
        said,
    )
    assert found is not None, said
    asked = (NUMBER, {**NUMBER, "max_groups_contributed": 1}, {**NUMBER, "epsilon": 2.0})
    needed = [con.explain(EMPTY, **options).blocks[0].appears_half for options in asked]
    # A plan tells the threshold, an answer the whole units above it.
    told = zip(map(int, found.groups()), needed, strict=True)
    assert all(one - 1 <= float(at or 0) <= one for one, at in told)


@pytest.mark.slow
def test_an_empty_top_k_says_which_bounds_would_lower_its_threshold(
    con: dpsql.Connection,
) -> None:
    top = f"{EMPTY} ORDER BY 2 DESC LIMIT 100"
    options = {**NUMBER, "max_rows_contributed": 5, "epsilon": 0.5}
    said = " ".join(con.sql(top, **options).advice.split())
    found = re.fullmatch(
        r"No group was large enough to appear, which takes about ([\d,]+) rows above the 1,001st "
        r"largest\. It would need about (\d+) with max_groups_contributed = 1 or about (\d+) with "
        r"max_rows_contributed = 1 or about (\d+) with both or about (\d+) with epsilon = 1\. "
        r"Coarser keys make larger groups\.",
        said,
    )
    assert found is not None, said
    fewer = {"max_groups_contributed": 1}, {"max_rows_contributed": 1}
    others: tuple[dict[str, Any], ...] = ({}, *fewer, fewer[0] | fewer[1], {"epsilon": 1.0})
    plans = [con.explain(top, **{**options, **other}).blocks[0] for other in others]
    told = [int(number.replace(",", "")) for number in found.groups()]
    assert all(
        one - 1 <= float(plan.appears_half or 0) <= one
        for one, plan in zip(told, plans, strict=True)
    )


def test_a_value_within_its_noise_says_which_noise_would_be_less(con: dpsql.Connection) -> None:
    sql = "SELECT count(DISTINCT uid) AS people FROM visits WHERE uid < 0"
    answer = con.sql(sql, epsilon=0.01)
    found = answer.intervals()["people"]
    if not found.low[0] <= 0 <= found.high[0]:  # once in twenty times
        assert answer.advice == ""
        return
    assert "is larger than its noise" in answer.advice
    margin = re.search(r"± ([\d,]+) with epsilon = 0\.02", answer.advice)
    assert margin is not None
    (column,) = con.explain(sql, epsilon=0.02).blocks[0].columns
    assert int(margin[1].replace(",", "")) == pytest.approx(column.margin95, abs=1.5)


def test_an_average_within_its_noise_has_no_margin_to_compare(con: dpsql.Connection) -> None:
    sql = "SELECT avg(x, contribution_bounds_per_row => (-1000, 1000)) AS mean FROM visits"
    answer = con.sql(sql, epsilon=0.001)
    found = answer.intervals()["mean"]
    if not found.low[0] <= 0 <= found.high[0]:  # once in twenty times
        assert answer.advice == ""
        return
    assert answer.advice == (
        "No value of avg(x) is larger than its noise. A larger epsilon, closer bounds or larger "
        "groups make it less."
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM visits GROUP BY k",
        "SELECT count(*) FROM visits",
        "SELECT name FROM shops WHERE k < 0",
        "SELECT c, count(*) FROM visits GROUP BY c",
    ],
)
def test_an_answer_that_says_something_is_given_no_advice(con: dpsql.Connection, sql: str) -> None:
    answer = con.sql(sql, epsilon=200.0, max_groups_contributed=7, max_rows_contributed=20)
    assert answer.advice == ""


@pytest.mark.slow
def test_advice_is_a_part_of_what_an_answer_says_and_goes_with_it(con: dpsql.Connection) -> None:
    answer = con.sql(EMPTY, **NUMBER)
    assert answer.advice
    assert answer.summary().endswith(answer.advice)
    assert pickle.loads(pickle.dumps(answer)).advice == answer.advice


@pytest.mark.slow
def test_no_more_epsilon_is_advised_than_there_may_be(con: dpsql.Connection) -> None:
    sql = "SELECT count(*) FROM visits WHERE k < 0"
    answer = con.sql(sql, epsilon=1000.0, max_rows_contributed=30)
    assert "epsilon =" not in answer.advice


@pytest.mark.slow
def test_asking_as_advised_is_another_question_at_its_own_price(con: dpsql.Connection) -> None:
    con.sql(EMPTY, **NUMBER)
    before = con.budget().rho_spent
    again = con.sql(EMPTY, **{**NUMBER, "max_groups_contributed": 1})
    assert not again.cost.stored
    assert con.budget().rho_spent > before
