"""Numbers of rows per unit that questions find: paid once, reserved first, and enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.failures import fails_with

import dpsql
from dpsql.budget.question import read_record
from dpsql.ledger import LEFT_OUT_MECHANISM, Ledger
from dpsql.policy.model import (
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import AUTO, USUAL_ROWS, Automatic, Maxima, Parameters
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.bounds_choice import BoundsChoice
from dpsql.service.rights import SessionLimits
from dpsql.service.statements import Arguments

ASKED = "SELECT k, count(*) AS n FROM t GROUP BY k"
FOUND = Automatic(instead=USUAL_ROWS)
LARGE = 40  # rows of a unit in its group
UNITS = 3000


@contextmanager
def opened(
    directory: Path,
    *,
    epsilon: float = 1.0,
    total: float = 100.0,
    composition: Composition = Composition.ZCDP,
    rows_per_unit: int | None = None,
    declared: bool = True,
    most: float | None = None,
    **defaults: Any,
) -> Iterator[dpsql.Connection]:
    """A connection to a table of units with 40 rows each, in one of three groups."""
    path = directory / "data.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as writer:
            writer.execute("CREATE TABLE t (u BIGINT, k VARCHAR, x DOUBLE)")
            writer.execute(
                "INSERT INTO t SELECT range % ?, ['a', 'b', 'c'][1 + (range % ?) % 3], 1.0 "
                "FROM range(?)",
                [UNITS, UNITS, UNITS * LARGE],
            )
    usual: dict[str, Any] = {"max_rows_contributed": FOUND, "left_out_share": 0.0}
    settings = Parameters(epsilon, **({"delta": 1e-6} | usual | defaults))
    columns = {"x": ColumnPolicy(0.0, 2.0)}
    if declared:
        columns["k"] = ColumnPolicy(domain=("a", "b", "c"))
    rules = Policy(
        "data",
        settings,
        maxima=Maxima(epsilon=most),
        accounts={"ana": AccountPolicy("ana", total, 1e-3, composition)},
        tables={
            "t": TablePolicy("t", PrivacyUnit("unit", "u"), columns, rows_per_unit=rows_per_unit)
        },
    )
    with dpsql.connect(path, rules, directory / "budget.db", "ana") as connection:
        yield connection


def entries(directory: Path) -> list[str]:
    """The mechanisms of what was charged, in order."""
    with Ledger.open(directory / "budget.db") as ledger:
        found = sorted(ledger.history("data"), key=lambda entry: entry.entry)
    return [read_record(entry.plan).blocks[0].mechanism for entry in found]


def numbers(result: Any) -> list[float]:
    return [float(row[-1]) for row in sorted(result.fetchall())]


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
def test_a_count_finds_its_number_and_the_truth_for_its_price(
    composition: Composition, tmp_path: Path
) -> None:
    with opened(tmp_path, composition=composition) as con:
        result = con.sql(ASKED)
        truth = UNITS / 3 * LARGE
        assert all(abs(n - truth) < 0.1 * truth for n in numbers(result))
        cost = result.cost
        assert cost.settled_epsilon <= 1.0
        if composition is not Composition.BASIC:
            assert cost.settled_epsilon > 0.99
        assert "found privately" in " ".join(result.plan.blocks[0].declared)
    names = entries(tmp_path)
    assert names == [LEFT_OUT_MECHANISM, "known_domain"]


@pytest.mark.slow
def test_with_the_usual_number_the_same_question_is_wrong_by_far(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        given = con.sql(ASKED, max_rows_contributed=10)
        assert all(n < 0.3 * UNITS / 3 * LARGE for n in numbers(given))
        assert given.cost.settled_epsilon > 0.99
    assert entries(tmp_path) == ["known_domain"]


@pytest.mark.slow
def test_a_number_is_learned_once_for_rows_and_keys(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        first = con.sql(ASKED).cost.settled.rho
        again = con.sql(ASKED)
        assert again.cost.stored
        sums = con.sql("SELECT k, sum(x) AS s, avg(x) AS a FROM t GROUP BY k")
        assert sums.cost.settled.rho == pytest.approx((1 - 0.25 / math.sqrt(3)) * first, rel=1e-6)
        con.sql("SELECT k, avg(x) AS a FROM t GROUP BY k")  # for which a smaller number is best
        con.sql(ASKED, fresh=True)
        assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 2
        con.sql("SELECT count(*) AS n FROM t")
        con.sql("SELECT k, count(*) AS n FROM t WHERE x > 0.5 GROUP BY k")
        con.sql(ASKED, epsilon=8.0)  # for which another number is best
        assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 5
    with opened(tmp_path) as con:  # known beyond the connection
        con.sql(ASKED, fresh=True)
    assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 5


@pytest.mark.slow
def test_questions_whose_answer_no_number_changes_buy_none(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        con.sql("SELECT k, count(DISTINCT u) AS n FROM t GROUP BY k")
        con.sql(ASKED, max_rows_contributed=5)
        con.sql(ASKED, max_rows_contributed=5, max_error=500.0)
    assert LEFT_OUT_MECHANISM not in entries(tmp_path)


@pytest.mark.slow
def test_of_one_row_per_unit_nothing_is_to_be_found(tmp_path: Path) -> None:
    with opened(tmp_path, rows_per_unit=1) as con:
        result = con.sql(ASKED)
        assert "max_rows_contributed is 1" in " ".join(result.plan.blocks[0].declared)
    assert entries(tmp_path) == ["known_domain"]


@pytest.mark.slow
def test_a_policy_s_maximum_and_a_promise_limit_what_is_found(tmp_path: Path) -> None:
    with opened(tmp_path, rows_per_unit=20) as con:
        largest = UNITS / 3 * 20
        assert all(n < 1.2 * largest for n in numbers(con.sql(ASKED)))
        assert con.sql("SELECT count(*) AS n FROM t").cost.settled_epsilon > 0.9


SHAPES = (
    "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 2",
    "SELECT count(*) AS n FROM t",
    "SELECT k, median(x) AS n FROM t GROUP BY k",
    "SELECT k, stddev(x) AS n FROM t GROUP BY k",
    "SELECT k, count(*) AS n FROM t GROUP BY ROLLUP (k)",
    "SELECT max(n) AS n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g",
    "SELECT a.n + b.n AS n FROM (SELECT count(*) AS n FROM t) AS a, "
    "(SELECT count(*) AS n FROM t WHERE x > 0) AS b",
)


@pytest.mark.slow
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("asked", SHAPES)
def test_every_shape_is_answered_within_its_price(
    asked: str, declared: bool, tmp_path: Path
) -> None:
    with opened(tmp_path, epsilon=2.0, declared=declared) as con:
        explained = con.explain(asked)
        result = con.sql(asked)
        blocks = len(explained.blocks)
        assert result.cost.settled.rho <= explained.reserved.rho * (1 + 1e-9)
        assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == blocks
        if "median" not in asked and "stddev" not in asked:
            assert len(result)
        assert con.sql(asked).cost.stored
        known = con.explain(asked)
        assert known.reserved.rho < explained.reserved.rho
        assert all("found privately" in " ".join(b.declared) for b in known.blocks)


# -- a maximum error ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
@pytest.mark.parametrize("error", [1500.0, 6000.0])
def test_a_maximum_error_finds_its_bounds_and_holds_the_truth(
    composition: Composition, error: float, tmp_path: Path
) -> None:
    """Three times the error: what is cut may come to about as much as the noise."""
    with opened(tmp_path, composition=composition) as con:
        before = con.explain(ASKED, max_error=error)
        assert before.price_open
        assert "max_rows_contributed is found first, for" in before.blocks[0].declared[0]
        result = con.sql(ASKED, max_error=error)
        truth = UNITS / 3 * LARGE
        assert all(abs(n - truth) < 3 * error for n in numbers(result))
        noise = result.intervals()["n"]
        widths = zip(noise.high, noise.low, strict=True)
        assert all(high - low <= 2 * error for high, low in widths)
        known = con.explain(ASKED, max_error=error)
        assert not known.price_open
        drawn = before.reserved.rho - before.blocks[0].reserved.rho
        assert result.cost.settled.rho == pytest.approx(known.reserved.rho + drawn, rel=1e-9)
        assert con.sql(ASKED, max_error=error).cost.stored
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]


@pytest.mark.slow
def test_bounds_of_one_error_are_not_those_of_another_one_or_of_an_epsilon(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        for error in (6000.0, 5900.0, 1500.0):
            con.sql(ASKED, max_error=error)
        con.sql(ASKED)
    assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 3


@pytest.mark.slow
def test_unknown_keys_find_both_bounds_for_a_maximum_error(tmp_path: Path) -> None:
    with opened(tmp_path, declared=False) as con:
        result = con.sql(ASKED, max_error=6000.0)
        assert len(result) == 3
        assert len([said for said in result.plan.blocks[0].declared if "found" in said]) == 2


def missed(result: dpsql.Result) -> list[str]:
    """What strong warnings say of a maximum error that is not kept."""
    found = [each for each in result.warnings if each.kind == "error_missed"]
    assert all(each.strong for each in found)
    return [each.text for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
def test_a_price_beyond_the_maximum_is_no_refusal_once_the_bounds_are_paid_for(
    composition: Composition, tmp_path: Path
) -> None:
    """Of the usual ten rows it would be kept; forty cost more than the policy allows."""
    with opened(tmp_path, most=1.0, composition=composition) as con:
        assert con.explain(ASKED, max_error=100.0).price_open
        result = con.sql(ASKED, max_error=100.0)
        (text,) = missed(result)
        noise = result.intervals()["n"]
        widths = zip(noise.high, noise.low, strict=True)
        assert all(high - low > 2 * 100.0 for high, low in widths)
        assert "at epsilon 1 count_star() is within ±" in text
        assert "and not ± 100" in text
        assert result.cost.settled_epsilon == pytest.approx(1.0, rel=0.01)
        again = con.sql(ASKED, max_error=100.0)
        assert again.cost.stored
        assert missed(again) == [text]
        told = " ".join(con.explain(ASKED, max_error=100.0).blocks[0].declared)
        assert "max_error takes more than can be spent" in told
        assert not missed(con.sql(ASKED, max_error=6000.0))
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"] * 2


@pytest.mark.slow
def test_what_an_account_cannot_pay_is_answered_within_it_once_the_bounds_are_paid_for(
    tmp_path: Path,
) -> None:
    """And refused, for nothing, where they were known before."""
    error = 100.0
    with opened(tmp_path, total=2.0) as con:
        result = con.sql(ASKED, max_error=error)
        assert "at epsilon 1 " in missed(result)[0]
        assert con.sql(ASKED, max_error=error).cost.stored
        known = con.explain(ASKED, max_error=error)
        assert known.answered
        assert not known.price_open
        assert known.taken is not None
        assert known.taken > 1
        before = spent(con)
        with fails_with("budget_exceeded"):
            con.sql(ASKED, max_error=error, fresh=True)
        assert spent(con) == before
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]


@pytest.mark.slow
def test_explain_tells_what_an_error_costs_at_least(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        told = con.explain(ASKED, max_error=400.0)
        assert told.cheapest is not None
        assert 0 < told.cheapest < told.reserved_epsilon
        words = " ".join(str(told).split())
        assert "bounds that are found first, from ε 0." in words
        assert "answered at the epsilon in force, with wider intervals" in words
        con.sql(ASKED, max_error=400.0)
        assert con.explain(ASKED, max_error=400.0).cheapest is None


def test_an_error_that_no_bounds_keep_is_refused_before_any_are_paid_for(tmp_path: Path) -> None:
    with opened(tmp_path, most=1.0) as con:
        with fails_with("max_error_too_small") as caught:
            con.sql(ASKED, max_error=1.0)
        assert "found privately" not in str(caught.value)
        assert spent(con) == 0.0


@pytest.mark.slow
def test_an_account_without_room_for_what_may_come_pays_for_no_bounds(tmp_path: Path) -> None:
    """For the error at the smallest numbers, and for the answer at the epsilon in force."""
    with opened(tmp_path, total=0.3) as con:
        with fails_with("budget_exceeded"):
            con.sql(ASKED, max_error=10.0)
        with fails_with("budget_exceeded") as caught:
            con.sql(ASKED, max_error=400.0, max_groups_contributed=1)
        assert "SET a smaller epsilon" in str(caught.value.hint)
        assert spent(con) == 0.0
        con.sql("SET epsilon = 0.4")
        assert len(con.sql(ASKED, max_error=400.0, max_groups_contributed=1)) == 3
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]


# -- what is refused, and what fails ----------------------------------------------------------


def spent(con: dpsql.Connection) -> float:
    return con.budget().rho_spent


@pytest.mark.slow
def test_an_account_that_cannot_pay_for_all_pays_for_nothing(tmp_path: Path) -> None:
    """Not even for the number, which it could pay for."""
    with opened(tmp_path, total=1.5, composition=Composition.BASIC) as con:
        con.sql("SELECT k, count(DISTINCT u) AS n FROM t GROUP BY k")
        with fails_with("budget_exceeded"):
            con.sql(ASKED)
        assert con.budget().epsilon_spent == pytest.approx(1.0)
        assert con.sql(ASKED, epsilon=0.5).cost.settled_epsilon == pytest.approx(0.5)


@pytest.mark.slow
def test_an_account_that_cannot_pay_is_told_of_the_release_that_answers(tmp_path: Path) -> None:
    with opened(tmp_path, total=1.0, composition=Composition.BASIC) as connection:
        connection.sql(ASKED, epsilon=0.9)
        with pytest.raises(dpsql.BudgetExceeded, match="answer_from = released"):
            connection.sql("SELECT count(*) FROM t", epsilon=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("composition", list(Composition))
@pytest.mark.parametrize("epsilon", [1e-5, 1e-3, 1e-1, 2.0])
def test_every_number_that_can_be_found_can_be_answered(
    composition: Composition, epsilon: float, tmp_path: Path
) -> None:
    with opened(tmp_path, composition=composition, epsilon=epsilon) as connection:
        for asked in (
            ASKED,
            "SELECT avg(x), sum(x) FROM t",
            "SELECT x, count(*) FROM t GROUP BY x",
        ):
            statement = connection._statements.question(asked, Arguments((), None, {}))
            ((choice,),) = connection._answerer.preparer.prepare(statement).open_bounds
            assert isinstance(choice.choice, BoundsChoice)
            assert choice.choice.rows is not None
            connection.explain(asked, max_rows_contributed=choice.choice.rows.rungs[-1])


@pytest.mark.slow
def test_a_question_that_no_large_number_answers_is_refused_before_one_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.planner.bounds_choice._SPARE", 1e-9)
    with opened(tmp_path, epsilon=1e-6, delta=1e-12) as connection:
        with pytest.raises(dpsql.Error, match="give max_rows_contributed"):
            connection.sql(ASKED)
        assert connection.budget().queries == 0
        assert entries(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("composition", [Composition.ZCDP, Composition.BASIC])
def test_an_estimate_for_the_usual_number_is_none_for_the_one_to_be_found(
    composition: Composition, tmp_path: Path
) -> None:
    with opened(tmp_path, composition=composition, left_out_share=0.03) as con:
        con.sql(ASKED, max_rows_contributed=USUAL_ROWS)
        assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]
        explained = con.explain(ASKED).reserved_epsilon
        assert explained > 0.99
        assert con.sql(ASKED).cost.settled_epsilon <= explained * (1 + 1e-9)


@pytest.mark.slow
def test_an_account_that_lacks_the_price_of_an_estimate_buys_no_number(tmp_path: Path) -> None:
    """It could pay for the number and the question, were the estimate known."""
    with opened(tmp_path, total=1.985, composition=Composition.BASIC, left_out_share=0.03) as con:
        con.sql(ASKED, max_rows_contributed=USUAL_ROWS)
        with fails_with("budget_exceeded"):
            con.sql(ASKED)
        assert con.budget().epsilon_spent == pytest.approx(1.0)


def test_what_is_answered_from_releases_alone_buys_no_number(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        with fails_with("nothing_released"):
            con.sql(ASKED, answer_from="released")
        assert spent(con) == 0.0


@pytest.mark.slow
def test_a_failure_while_weights_are_read_keeps_the_price_and_suspends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise ZeroDivisionError("row 17 of ana")

    with opened(tmp_path) as con:
        price = 0.25 / math.sqrt(3) * con.explain(ASKED).reserved.rho
        monkeypatch.setattr("dpsql.pipeline.purchase.release_bounds", failing)
        with fails_with("engine_failed") as caught:
            con.sql(ASKED)
        assert "17" not in str(caught.value)
        assert caught.value.__context__ is None
        assert spent(con) == pytest.approx(price, rel=1e-5)
        monkeypatch.undo()
        with fails_with("account_suspended"):
            con.sql(ASKED)


@pytest.mark.slow
def test_the_word_is_taken_wherever_a_number_is(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        con.sql("SET max_rows_contributed = 3")
        con.sql(ASKED)
        assert entries(tmp_path) == ["known_domain"]
        con.sql("SET max_rows_contributed = auto")
        con.sql(ASKED)
        options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows_contributed = 'auto')"
        con.sql(f"SELECT {options} count(*) AS n FROM t")
        con.sql("SELECT k, sum(x) AS n FROM t GROUP BY k", max_rows_contributed=AUTO)
    assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 3  # that of sums is another


@pytest.mark.slow
def test_what_a_session_may_not_ask_is_answered_within_it_once_the_bounds_are_paid_for(
    tmp_path: Path,
) -> None:
    """Draws and answer have one limit; where bounds are known, a refusal costs nothing."""
    limits = SessionLimits(epsilon_per_question=1.2)
    with opened(tmp_path) as con, con._dataset.session("ana", session="run", limits=limits) as run:
        result = run.sql(ASKED, max_error=100.0)
        assert "and not ± 100" in missed(result)[0]
        assert result.cost.settled_epsilon <= 1.2
        before = spent(con)
        with fails_with("question_too_dear"):
            run.sql(ASKED, max_error=100.0, fresh=True)
        assert spent(con) == before
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]
