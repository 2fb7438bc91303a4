"""Bounds of values that questions find: paid once, reserved first, told, and good enough."""

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
from dpsql.policy.parameters import AUTO, Parameters
from dpsql.privacy.accounting.zcdp import Composition

ASKED = "SELECT k, sum(x) AS s FROM t GROUP BY k"
UNITS = 4000
ROWS = (
    "SELECT range, ['a', 'b', 'c'][1 + range % 3], 10.0 + range % 40, -(range % 7), "
    "(range % 50) / 100, NULL FROM range(?)"
)


@contextmanager
def opened(
    directory: Path,
    *extra: str,
    composition: Composition = Composition.ZCDP,
    total: float = 100.0,
    **defaults: Any,
) -> Iterator[dpsql.Connection]:
    """A connection to a table of units with one row each, none of whose values has bounds."""
    path = directory / "data.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as writer:
            writer.execute(
                "CREATE TABLE t (u BIGINT, k VARCHAR, x DOUBLE, i BIGINT, p DECIMAL(8,2), z DOUBLE)"
            )
            writer.execute(f"INSERT INTO t {ROWS}", [UNITS])
            for statement in extra:
                writer.execute(statement)
    usual: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "max_rows_contributed": 1,
        "left_out_share": 0.0,
    }
    rules = Policy(
        "data",
        Parameters(**(usual | defaults)),
        accounts={"ana": AccountPolicy("ana", total, 1e-3, composition)},
        tables={
            "t": TablePolicy(
                "t", PrivacyUnit("unit", "u"), {"k": ColumnPolicy(domain=("a", "b", "c"))}
            )
        },
    )
    with dpsql.connect(path, rules, directory / "budget.db", "ana") as connection:
        yield connection


def entries(directory: Path) -> list[str]:
    """The mechanisms of what was charged, in order."""
    with Ledger.open(directory / "budget.db") as ledger:
        found = sorted(ledger.history("data"), key=lambda entry: entry.entry)
    return [read_record(entry.plan).blocks[0].mechanism for entry in found]


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
def test_a_sum_finds_its_bounds_and_the_truth_for_its_price(
    composition: Composition, tmp_path: Path
) -> None:
    with opened(tmp_path, composition=composition, epsilon=8.0) as con:
        result = con.sql(ASKED)
        truth = UNITS / 3 * 29.5
        assert all(abs(total - truth) < 0.2 * truth for _, total in result.fetchall())
        assert result.cost.settled_epsilon <= 8.0
        if composition is not Composition.BASIC:
            assert result.cost.settled_epsilon > 7.9
        assert "x is clamped to" in " ".join(result.plan.blocks[0].declared)
        (caveat,) = result.warnings
        assert caveat.kind == "bounds_found"
        assert not caveat.strong
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]


@pytest.mark.slow
def test_bounds_are_learned_once_for_rows_and_value(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        explained = con.explain(ASKED)
        assert "the bounds of x are found first" in str(explained)
        first = con.sql(ASKED).cost.settled.rho
        assert first == pytest.approx(explained.reserved.rho)
        assert con.sql(ASKED).cost.stored
        again = con.sql(ASKED, fresh=True)
        assert again.cost.settled.rho == pytest.approx(0.9 * first, rel=1e-6)
        con.sql("SELECT k, avg(x) AS a FROM t GROUP BY k")
        con.sql("SELECT i, sum(x) AS s FROM t WHERE i IN (-1, -2, -3) GROUP BY i")
        assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 2  # one more for the condition
        con.sql("SELECT k, sum(x + 1) AS s FROM t GROUP BY k")
        con.sql(ASKED, epsilon=16.0)  # for which others are best
        assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 4
        con.sql("SELECT k, sum(x, contribution_bounds_per_row => (0, 50)) AS s FROM t GROUP BY k")
        assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 4
    with opened(tmp_path) as con:  # known beyond the connection
        con.sql(ASKED, fresh=True)
    assert entries(tmp_path).count(LEFT_OUT_MECHANISM) == 4


SHAPES = (
    "SELECT sum(x), avg(i), stddev(p), median(x) FROM t",
    "SELECT k, sum(x) AS s FROM t GROUP BY ROLLUP (k) HAVING sum(x) > 5 ORDER BY s",
    "SELECT i, sum(x) AS s FROM t GROUP BY i ORDER BY s DESC LIMIT 2",
    "SELECT i, avg(x * p) AS s FROM t GROUP BY i",
    "SELECT sum(x) FILTER (WHERE k = 'a') AS s FROM t",
    "SELECT sum(s) FROM (SELECT u, sum(x) AS s FROM t GROUP BY u)",
    "SELECT sum(a.x * b.p) FROM t AS a JOIN t AS b USING (u)",
)


@pytest.mark.slow
@pytest.mark.parametrize("asked", SHAPES)
@pytest.mark.parametrize("rows", [1, AUTO])
def test_every_shape_of_question_finds_bounds(asked: str, rows: Any, tmp_path: Path) -> None:
    with opened(tmp_path, max_rows_contributed=rows) as con:
        assert "found first" in " ".join(con.explain(asked).blocks[0].declared)
        assert len(con.sql(asked)) > 0
        assert con.sql(asked).cost.stored


@pytest.mark.slow
def test_no_row_makes_a_question_fail_or_its_bounds_more_than_the_ladder(tmp_path: Path) -> None:
    odd = [
        "INSERT INTO t SELECT 10000 + range, 'a', v, w, 0, v FROM range(3), (VALUES "
        "('nan'::DOUBLE, 9223372036854775807), ('inf', -9223372036854775808), ('-inf', NULL), "
        "(1e308, 0), (-1e308, 1)) AS odd(v, w)"
    ]
    with opened(tmp_path, *odd) as con:
        for asked in ("x", "i", "z", "p / i", "x * i", "i * i * i", "-i", "x * 1e308 * x"):
            result = con.sql(f"SELECT sum({asked}) AS s, avg({asked}) AS a FROM t")
            assert len(result) == 1


@pytest.mark.slow
def test_of_nothing_but_null_the_answer_is_next_to_nothing_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        result = con.sql("SELECT sum(z) AS s FROM t")
        with pytest.warns(dpsql.errors.AnswerWarning, match="Of so few units"):
            result.warn(2)
        assert abs(result.fetchall()[0][0]) < 1
        assert [caveat.strong for caveat in result.warnings if caveat.kind == "bounds_found"] == [
            True
        ]


@pytest.mark.slow
def test_bounds_are_not_paid_for_where_the_question_cannot_be(tmp_path: Path) -> None:
    with opened(tmp_path, total=0.5) as con, fails_with("budget_exceeded"):
        con.sql(ASKED)
    assert entries(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("composition", Composition)
@pytest.mark.parametrize("error", [500.0, 3000.0])
def test_a_maximum_error_finds_bounds_of_values_and_holds_the_truth(
    composition: Composition, error: float, tmp_path: Path
) -> None:
    truth = UNITS / 3 * 29.5
    with opened(tmp_path, composition=composition) as con:
        before = con.explain(ASKED, max_error=error)
        assert before.price_open
        cheapest = before.cheapest or 0.0
        result = con.sql(ASKED, max_error=error)
        assert all(abs(total - truth) < 4 * error for _, total in result.fetchall())
        noise = result.intervals()["s"]
        assert all(h - low <= 2 * error for h, low in zip(noise.high, noise.low, strict=True))
        known = con.explain(ASKED, max_error=error)
        assert not known.price_open
        assert cheapest <= result.cost.settled_epsilon
        assert con.sql(ASKED, max_error=error).cost.stored
    assert entries(tmp_path) == [LEFT_OUT_MECHANISM, "known_domain"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "error", "kept"),
    [
        (ASKED, 1.0, False),
        ("SELECT sum(x, max_error => 2000) AS s, avg(i) AS a, count(*) AS n FROM t", None, True),
        ("SELECT k, count(*, max_error => 40) AS n, sum(x) AS s FROM t GROUP BY k", None, True),
        ("SELECT i, sum(x * p) AS s FROM t GROUP BY i", 3000.0, True),
        ("SELECT sum(z) AS s FROM t", 10.0, True),  # nothing but NULL
        ("SELECT sum(x * CAST('NaN' AS DOUBLE)) AS s FROM t", 10.0, True),
        ("SELECT sum(x - 30) AS s FROM t WHERE u = 7", 10.0, True),  # of one unit
        ("SELECT sum(x * i) AS s FROM t WHERE x > 1e9", 10.0, True),
    ],
)
def test_a_maximum_error_is_kept_or_told_whatever_the_values_are(
    asked: str, error: float | None, kept: bool, tmp_path: Path
) -> None:
    given: dict[str, Any] = {} if error is None else {"max_error": error}
    with opened(tmp_path) as con:
        assert "found first" in " ".join(con.explain(asked, **given).blocks[0].declared)
        result = con.sql(asked, **given)
        assert len(result) > 0
        assert ("error_missed" in {each.kind for each in result.warnings}) == (not kept)
        again = con.sql(asked, **given)
        assert again.cost.stored
        assert again.warnings == result.warnings


@pytest.mark.slow
def test_values_that_public_facts_bound_are_not_drawn_for_a_maximum_error(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        asked = "SELECT sum(i % 10) AS a, sum(CASE WHEN x > 20 THEN 5 ELSE 0 END) AS b FROM t"
        assert not con.explain(asked, max_error=500.0).price_open
        con.sql(asked, max_error=500.0)
    assert LEFT_OUT_MECHANISM not in entries(tmp_path)


PER_UNIT = (
    "FROM (SELECT u, count(*) AS n, count(DISTINCT i) AS d, sum(x) AS total FROM t GROUP BY u)"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "low", "high"),
    [("n", 0, 2), ("d", 0, 2), ("n / 60.0", 0, 0.05), ("3 - n", 1.5, 3), ("total", 0, 96)],
)
def test_bounds_of_counts_and_sums_of_a_unit_are_found(
    value: str, low: float, high: float, tmp_path: Path
) -> None:
    asked = f"SELECT avg({value}) AS a, sum({value}) AS s {PER_UNIT}"
    with opened(tmp_path) as con:
        ((average, total),) = con.sql(asked).fetchall()
        given = con.explain(asked).blocks[0]
    assert low <= average <= high
    assert UNITS * low <= total <= UNITS * high
    assert f"{value} is clamped to" in " ".join(given.declared)


@pytest.mark.slow
def test_bounds_that_are_found_are_within_those_of_a_count(tmp_path: Path) -> None:
    with opened(tmp_path) as con:  # -9 is between -12 and -8, which could be drawn otherwise
        result = con.sql(f"SELECT sum(n - 10) {PER_UNIT}")
    assert any("n - 10 is clamped to -10 to " in each.text for each in result.warnings)
    assert "n - 10 is clamped to -10 to " in result.summary()
    assert "intervals do not have what is beyond" in result.summary()


@pytest.mark.slow
def test_a_value_of_too_few_units_for_bounds_has_no_interval(tmp_path: Path) -> None:
    """Next to 0 whatever the values are, it is no value of theirs."""
    asked = "SELECT sum(x) AS s, avg(x) AS a, sum(x) / count(*) AS q, count(x) AS n FROM t"
    with opened(tmp_path) as con:
        few = con.sql(f"{asked} WHERE u < 12 AND x > 5")
        many = con.sql(asked)
    assert few.plan.blocks[0].declared
    intervals = few.intervals()
    assert all(math.isnan(intervals[name].low[0]) for name in "saq")
    assert not math.isnan(intervals["n"].low[0])
    assert "x is clamped to 0 to 0, found privately" in few.summary()
    assert not any(math.isnan(each.low[0]) for each in many.intervals().values())


@pytest.mark.slow
def test_an_account_that_bounds_make_too_dear_pays_no_more_than_the_epsilon_in_force(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, total=4.0) as con:
        result = con.sql(ASKED, max_error=70.0)
        assert "error_missed" in {each.kind for each in result.warnings}
        assert result.cost.settled_epsilon == pytest.approx(2.0, rel=0.01)
        assert con.sql(ASKED, max_error=70.0).cost.stored


@pytest.mark.slow
def test_no_roll_up_answers_before_bounds_are_known(tmp_path: Path) -> None:
    with opened(tmp_path) as con:
        given = "sum(x, contribution_bounds_per_row => (-100, 100)) AS s"  # those told until then
        con.sql(f"SELECT k, {given} FROM t GROUP BY k")
        with fails_with("nothing_released"):
            con.sql("SELECT sum(x) AS s FROM t", answer_from="released")
        con.sql(f"SELECT {given} FROM t", answer_from="released")


@pytest.mark.slow
def test_bounds_can_be_tried_of_a_sum_that_has_none(tmp_path: Path) -> None:
    asked, given = "SELECT sum(x) AS s FROM t", "sum(x, contribution_bounds_per_row => (0, 100))"
    with opened(tmp_path) as con:
        tried, of_given = (
            con.tune(text, bounds=[(0, 50), (0, 1000)], dry_run=True)
            for text in (asked, asked.replace("sum(x)", given))
        )
        assert str(tried) == str(of_given).replace(given, "sum(x)")
    assert entries(tmp_path) == []


def test_a_price_that_buys_no_bounds_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with opened(tmp_path) as con, fails_with("unbounded_sum", match="too small"):
        con.sql("SELECT sum(x), avg(i) FROM t", epsilon=1e-6)
    assert entries(tmp_path) == []
