"""Looks beside questions: reserved before reading, paid once, in the price that was asked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, POLICY_TABLES, connect, policy, world_file

import dpsql
from dpsql.accuracy.left_out import left_out_words
from dpsql.budget.question import read_record
from dpsql.engines.duckdb import engine as engine_module
from dpsql.errors import BudgetExceeded, EngineError, LedgerError, ParameterError
from dpsql.ir.plan import PreparedEstimate
from dpsql.kinds.left_out import decode_estimate
from dpsql.ledger import LEFT_OUT_MECHANISM, Ledger
from dpsql.ledger.transactions import DatabaseLink
from dpsql.pipeline.clock import present_moment
from dpsql.pipeline.prepare import Question
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import (
    USUAL_LEFT_OUT_SHARE,
    Overrides,
    Parameters,
    PrivacyParameters,
)
from dpsql.policy.resolve import resolve
from dpsql.present.html import table_html
from dpsql.present.result_files import result_csv, result_json
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.left_out import LeftOutNoise

ASKED = "SELECT k, count(*) AS n FROM visits GROUP BY k"
SHARE: PrivacyParameters = {"left_out_share": 0.03}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[dpsql.Connection]:
    with connect(tmp_path) as opened:
        yield opened


@contextlib.contextmanager
def opened_with(rules: Policy, directory: Path) -> Iterator[dpsql.Connection]:
    """A connection to the small world under another policy."""
    with (
        world_file(directory / "world.duckdb", *FILL) as path,
        dpsql.connect(path, rules, directory / "budget.db", ANALYST) as opened,
    ):
        yield opened


def entries(directory: Path) -> list[tuple[str, bool]]:
    """What was charged, in order: the mechanism, and whether it was settled."""
    with Ledger.open(directory / "budget.db") as ledger:
        found = ledger.history("world")
    return [
        (read_record(entry.plan).blocks[0].mechanism, entry.charged is not None)
        for entry in sorted(found, key=lambda entry: entry.entry)
    ]


@pytest.mark.slow
def test_a_share_of_zero_looks_at_nothing(connection: dpsql.Connection, tmp_path: Path) -> None:
    result = connection.sql(ASKED)
    assert [part.told for part in result.left_out] == [False]
    assert "bounding left out" not in result.summary()
    assert "left_out" not in json.loads(result_json(result, 0.95))
    assert len(entries(tmp_path)) == 1


DEFAULTS = Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=10, max_rows_contributed=10)
ANY = Parameters().max_groups_contributed


@pytest.mark.slow
def test_the_default_tells_for_a_share_of_the_price_and_once(tmp_path: Path) -> None:
    assert DEFAULTS.left_out_share == USUAL_LEFT_OUT_SHARE == 0.03
    with opened_with(policy(DEFAULTS), tmp_path) as opened:
        first = opened.sql(ASKED)
        assert [part.told for part in first.left_out] == [True]
        assert "max_groups_contributed and max_rows_contributed" in first.summary()
        (figure,) = first.plan.blocks[0].left_out
        assert figure.loss.rho == pytest.approx(0.03 * first.cost.reserved.rho, rel=1e-6)
        assert 4.99 <= first.cost.reserved_epsilon <= 5.0
        again = opened.sql(ASKED, fresh=True)
        assert again.left_out == first.left_out
        assert again.cost.reserved.rho == pytest.approx(0.97 * first.cost.reserved.rho, rel=1e-6)
    assert entries(tmp_path) == [(LEFT_OUT_MECHANISM, True), *entries(tmp_path)[1:]]
    assert len(entries(tmp_path)) == 3


UNTOLD = (
    "SELECT k, count(DISTINCT c) AS d, count(*) AS n FROM visits GROUP BY k",  # of its own rows
    "SELECT k, avg(x) AS a FROM visits GROUP BY k",
    "SELECT count(DISTINCT uid) AS u FROM visits",
)


@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize("asked", UNTOLD)
def test_the_default_asks_nothing_that_cannot_be_told_or_takes_long(
    asked: str, tmp_path: Path
) -> None:
    with opened_with(policy(DEFAULTS), tmp_path) as opened:
        result = opened.sql(asked)
        assert "left out" not in result.summary()
        assert "leaves" not in result.summary()
        assert "left_out" not in json.loads(result_json(result, 0.95))
        whole = opened.explain(asked, left_out_share=0.0).reserved
        assert result.cost.reserved == whole
        assert len(entries(tmp_path)) == 1
        told = [part.told for part in opened.sql(asked, left_out_share=0.05).left_out]
        assert told == ([False, True] if asked is UNTOLD[0] else [asked is UNTOLD[2]])


@pytest.mark.slow
def test_the_default_leaves_it_to_a_question_to_find_its_number_of_groups(tmp_path: Path) -> None:
    asked = "SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k"
    with opened_with(policy(replace(DEFAULTS, max_groups_contributed=ANY)), tmp_path) as opened:
        assert opened.explain(asked).blocks[0].steps
        assert opened.sql(asked).left_out[0].told is False
        assert not opened.explain(asked, left_out_share=0.04).blocks[0].steps
        assert opened.sql(asked, left_out_share=0.04).left_out[0].told


@pytest.mark.slow
def test_values_out_of_bounds_are_looked_at_by_default_beside_a_cap_on_groups(
    tmp_path: Path,
) -> None:
    with opened_with(policy(DEFAULTS), tmp_path) as opened:
        for key, share, told in (("k", 0.03, 2), ("", 0.03, 1), ("", 0.04, 2)):
            grouped = f"SELECT {key}, sum(amount) AS s FROM visits GROUP BY {key}"
            asked = grouped if key else "SELECT sum(amount) AS s FROM visits"
            figures = opened.explain(asked, left_out_share=share).blocks[0].left_out
            assert len(figures) == told


def test_a_price_that_buys_too_little_buys_no_estimate_by_default(tmp_path: Path) -> None:
    with opened_with(policy(DEFAULTS), tmp_path) as opened:
        asked = "SELECT count(*) AS n FROM visits"
        plans = [opened.explain(asked, epsilon=e) for e in (0.5, 0.05, 0.0005)]
        assert [len(plan.blocks[0].left_out) for plan in plans] == [1, 1, 0]
        wished = opened.explain(asked, epsilon=0.0005, left_out_share=0.04)
        assert wished.blocks[0].left_out


@pytest.mark.slow
def test_blocks_that_ask_the_same_estimate_take_it_once_and_both_are_told(tmp_path: Path) -> None:
    """One as its first aggregate, the other as its second."""
    one = "SELECT k, count(*) AS n FROM visits GROUP BY k"
    other = "SELECT k, sum(amount) AS s, count(*) AS m FROM visits GROUP BY k"
    with opened_with(policy(DEFAULTS), tmp_path) as opened:
        result = opened.sql(f"SELECT n, m, s FROM ({one}) a JOIN ({other}) b USING (k)")
        rows = [part for part in result.left_out if part.of == "rows"]
        assert len(rows) == 2
        assert rows[0].told
        assert rows[0] == rows[1]
    names = [name for name, _ in entries(tmp_path)]
    assert names.count(LEFT_OUT_MECHANISM) == 3


def test_gaussian_accounts_are_told_nothing_and_pay_for_no_estimate(tmp_path: Path) -> None:
    account = AccountPolicy(ANALYST, 4.0, 1e-4, Composition.GDP)
    with opened_with(replace(policy(), accounts={ANALYST: account}), tmp_path) as connection:
        result = connection.sql(ASKED, **SHARE)
        assert [part.told for part in result.left_out] == [False]
        assert len(entries(tmp_path)) == 1


@pytest.mark.slow
def test_an_estimate_is_reserved_before_anything_is_read_and_settled_before_it_is_shown(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []
    original = engine_module.discreetly

    def watched(*arguments: Any, **named: Any) -> Any:
        seen.append(connection.budget())
        return original(*arguments, **named)

    monkeypatch.setattr(engine_module, "discreetly", watched)
    result = connection.sql(ASKED, **SHARE)
    assert {report.unsettled for report in seen} == {2}
    assert min(report.rho_spent for report in seen) >= result.cost.reserved.rho
    assert entries(tmp_path)[0] == (LEFT_OUT_MECHANISM, True)
    assert [settled for _, settled in entries(tmp_path)] == [True, True]


def test_an_estimate_is_kept_whenever_its_question_is(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever is killed after any write of settling has what was paid for, or neither."""
    write, writes = DatabaseLink.write, []

    def dying(link: DatabaseLink, work: Any) -> Any:
        found = write(link, work)
        if any(kept for _, kept in entries(tmp_path)):
            writes.append(found)
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(DatabaseLink, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            connection.sql(ASKED, **SHARE)
    assert len(writes) == 1
    spent = connection.budget()
    again = connection.sql(ASKED, **SHARE)
    assert again.cost.stored
    assert again.left_out
    assert connection.budget() == spent
    assert spent.unsettled == 0


@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize(
    "asked", [ASKED, "SELECT k, count(*) n, sum(amount) s FROM visits GROUP BY k", f"({ASKED})"]
)
def test_question_and_estimates_together_cost_what_was_asked(
    asked: str, connection: dpsql.Connection
) -> None:
    result = connection.sql(asked, epsilon=2.0, left_out_share=0.03)
    assert 1.99 <= result.cost.reserved_epsilon <= 2.0
    without = connection.sql(asked, epsilon=2.0)
    assert result.cost.reserved.rho <= without.cost.reserved.rho * (1 + 1e-12)
    assert result.plan.blocks[0].columns[0].noise_std is not None


def test_the_share_of_the_price_is_that_asked_for(connection: dpsql.Connection) -> None:
    plain = connection.explain(ASKED, epsilon=2.0)
    (figure,) = connection.explain(ASKED, epsilon=2.0, left_out_share=0.1).blocks[0].left_out
    whole = plain.reserved.rho
    assert figure.loss.rho == pytest.approx(0.1 * whole, rel=0.01)
    assert figure.limits == ("max_groups_contributed", "max_rows_contributed")


@pytest.mark.slow
def test_what_is_known_is_not_paid_again(connection: dpsql.Connection, tmp_path: Path) -> None:
    first = connection.sql(ASKED, **SHARE)
    other = connection.sql(f"{ASKED} HAVING n > 0", fresh=True, **SHARE)
    renamed = "SELECT k AS key, count(DISTINCT uid) AS m, count(*) AS n FROM visits GROUP BY k"
    third = connection.sql(renamed, **SHARE)
    again = connection.sql(ASKED, **SHARE)
    told = {part.of: part for part in third.left_out}
    assert replace(told["rows"], columns=("n",)) == first.left_out[0] == again.left_out[0]
    assert again.cost.stored
    names = [name for name, _ in entries(tmp_path)]
    assert names.count(LEFT_OUT_MECHANISM) == 2  # of rows, and of groups of units
    assert other.cost.settled.rho < first.cost.settled.rho


@pytest.mark.slow
@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("change", "options"),
    [
        (ASKED.replace("GROUP", "WHERE n > 3 GROUP"), {}),
        (ASKED.replace("SELECT k", "SELECT c").replace("BY k", "BY c"), {}),
        (ASKED, {"max_groups_contributed": 3}),
        (ASKED, {"max_rows_contributed": 3}),
        (ASKED.replace("(*)", "(n)"), {}),
    ],
)
def test_other_conditions_keys_and_caps_are_looked_at_anew(
    change: str, options: PrivacyParameters, connection: dpsql.Connection, tmp_path: Path
) -> None:
    connection.sql(ASKED, **SHARE)
    asked: PrivacyParameters = {**options, **SHARE}
    connection.sql(change, **asked)
    assert [name for name, _ in entries(tmp_path)].count(LEFT_OUT_MECHANISM) == 2


@pytest.mark.slow
def test_a_noisy_estimate_is_replaced_by_a_much_better_one_and_serves_a_worse(
    connection: dpsql.Connection, tmp_path: Path
) -> None:
    for epsilon, estimates in ((0.5, 1), (0.4, 1), (0.7, 1), (2.0, 2), (0.5, 2)):
        connection.sql(ASKED, epsilon=epsilon, fresh=True, left_out_share=0.03)
        names = [name for name, _ in entries(tmp_path)]
        assert names.count(LEFT_OUT_MECHANISM) == estimates


@pytest.mark.slow
def test_another_analyst_learns_nothing_for_free(tmp_path: Path) -> None:
    accounts = {name: AccountPolicy(name, 100.0, 1e-4) for name in ("one", "other")}
    rules = policy(None, **accounts)
    with world_file(tmp_path / "world.duckdb", *FILL) as path:
        for number, name in enumerate(accounts, start=1):
            with dpsql.connect(path, rules, tmp_path / "budget.db", name) as opened:
                opened.sql(ASKED, **SHARE)
            with Ledger.open(tmp_path / "budget.db") as ledger:
                paid = [
                    read_record(entry.plan).blocks[0].mechanism for entry in ledger.history("world")
                ]
            assert paid.count(LEFT_OUT_MECHANISM) == number


@pytest.mark.slow
def test_the_same_costs_are_known_under_basic_composition(tmp_path: Path) -> None:
    accounts = {ANALYST: AccountPolicy(ANALYST, 10.0, 1e-4, Composition.BASIC)}
    given = Parameters(epsilon=2.0, delta=1e-6, max_rows_contributed=10, left_out_share=0.1)
    rules = policy(replace(given, max_groups_contributed=10), **accounts)
    with opened_with(rules, tmp_path) as opened:
        result = opened.sql(ASKED)
        assert result.cost.settled.epsilon == pytest.approx(2.0, rel=1e-9)
        assert result.cost.settled.epsilon <= 2.0
        assert result.cost.settled.rho == 0.0
        (figure,) = result.plan.blocks[0].left_out
        assert figure.loss.epsilon == pytest.approx(0.2, rel=1e-9)
        assert opened.sql(ASKED, fresh=True).cost.settled.epsilon == pytest.approx(1.8)


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("composition", list(Composition))
def test_a_question_for_all_that_is_left_fits(composition: Composition, tmp_path: Path) -> None:
    accounts = {ANALYST: AccountPolicy(ANALYST, 2.0, 1e-6, composition)}
    rules = policy(Parameters(epsilon=2.0, delta=1e-6, left_out_share=0.04), **accounts)
    asked = "SELECT k, count(*), count(DISTINCT uid), sum(amount) FROM visits GROUP BY k"
    with opened_with(rules, tmp_path) as opened:
        told = opened.sql(asked).left_out
        # Gaussian accounts are told nothing, and so of no values of the sum either.
        assert len(told) == (3 if composition is Composition.GDP else 4)


def test_a_question_that_is_too_dear_spends_nothing_on_estimates(tmp_path: Path) -> None:
    accounts = {ANALYST: AccountPolicy(ANALYST, 1.0, 1e-6)}
    rules = policy(Parameters(epsilon=1.5, delta=1e-7, left_out_share=0.03), **accounts)
    with opened_with(rules, tmp_path) as opened:
        with pytest.raises(BudgetExceeded):
            opened.sql(ASKED)
        assert opened.budget().rho_spent == 0.0
        assert opened.budget().unsettled == 0


def test_a_failing_estimate_suspends_the_account_and_says_nothing(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def failing(*arguments: object) -> None:
        raise ValueError("row 4711")

    monkeypatch.setattr(LeftOutNoise, "release", failing)
    with pytest.raises(EngineError) as caught:
        connection.sql(ASKED, **SHARE)
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(LedgerError):
        connection.sql(ASKED)
    with Ledger.open(tmp_path / "budget.db", who="olga") as ledger:
        question, estimate = ledger.history("world", 100)
        assert question.failed
        assert estimate.failed


DAMAGES = (
    b"",
    b"[]",
    b"{}",
    b'{"look":1,"rho":NaN,"epsilon":0.0,"kept":1.0,"rungs":[1.0]}',
    ("rho", -1.0),
    ("epsilon", 0.5),
    ("kept", "1"),
    ("kept", 1e305),
    ("rungs", [1.0]),
    ("rungs", None),
    ("other", 1),
)


@pytest.mark.few(4)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_release_of_an_estimate_is_no_answer(
    damage: bytes | tuple[str, object], connection: dpsql.Connection, tmp_path: Path
) -> None:
    connection.sql(ASKED, **SHARE)
    estimate = prepared_estimate(connection)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        kept = ledger.stored(f"world/{ANALYST}", estimate.fingerprint)
    assert kept is not None
    assert decode_estimate(estimate, kept.payload) is not None
    payload = damage
    if isinstance(damage, tuple):
        payload = json.dumps({**json.loads(kept.payload), damage[0]: damage[1]}).encode()
    with fails_with("ledger_corrupt"):
        decode_estimate(estimate, payload)  # type: ignore[arg-type]


def prepared_estimate(connection: dpsql.Connection) -> PreparedEstimate:
    question = Question(
        ASKED, (), None, resolve(policy(), Overrides.of(SHARE)), False, present_moment()
    )
    (estimate,) = connection._answerer.preparer.prepare(question).estimates
    return estimate


@pytest.mark.slow
def test_it_is_told_in_every_output(connection: dpsql.Connection) -> None:
    result = connection.sql(ASKED, epsilon=50.0, left_out_share=0.3)
    (part,) = result.left_out
    assert part.columns == ("n",)
    assert part.of == "rows"
    assert part.low is not None
    assert part.high is not None
    words = left_out_words(part)
    assert words in " ".join(result.summary().split())
    assert words in " ".join(repr(result).split())
    assert words in table_html(result)
    exported = json.loads(result_json(result, 0.95))["left_out"]
    assert exported[0]["share"] == part.share
    assert "left" not in result_csv(result, None)
    explained = connection.explain(f"EXPLAIN (SQL) {ASKED}", left_out_share=0.3)
    assert "Left out of" in repr(explained)
    assert "Estimate" in repr(explained)
    assert explained.blocks[0].left_out[0].status == "looked"


@pytest.mark.slow
def test_options_set_and_the_policy_say_it(connection: dpsql.Connection) -> None:
    options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (left_out_share = 0.05)"
    assert connection.sql(ASKED.replace("SELECT", options)).left_out[0].told
    connection.sql("SET left_out_share = 0.05")
    assert connection.sql(ASKED, fresh=True).left_out[0].told
    with fails_with("parameter_out_of_range"):
        connection.sql(ASKED, left_out_share=0.9)


@pytest.mark.slow
def test_a_warning_says_where_intervals_are_narrower_than_what_is_missing(tmp_path: Path) -> None:
    heavy = "INSERT INTO visits (uid, k) SELECT i % 400, i % 2 FROM range(60000) r(i)"
    with connect(tmp_path, heavy) as opened:
        result = opened.sql(ASKED, epsilon=20.0, max_rows_contributed=5, left_out_share=0.03)
    (part,) = result.left_out
    assert part.low is not None
    assert part.low > 0.5
    assert "Beware: in 2 of 2 values that is more than their intervals take in" in result.summary()


@pytest.mark.filterwarnings("error")
def test_all_may_be_left_out_of_a_value_of_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path) as opened:
        result = opened.sql(ASKED, left_out_share=0.03)
    (part,) = result.left_out
    monkeypatch.setattr(type(result), "_numbers", lambda self, position: np.array([0.0, 5.0]))
    monkeypatch.setattr(
        type(result), "left_out", [replace(part, share=1.0, low=1.0, high=1.0, columns=("n",))]
    )
    assert "Beware: in 1 of 2 values" in result.summary()


def test_nothing_is_left_out_where_bounding_cannot(connection: dpsql.Connection) -> None:
    asked = "SELECT count(DISTINCT uid) AS n FROM visits"
    result = connection.sql(asked, left_out_share=0.04)
    assert [part.nothing for part in result.left_out] == [True]
    assert "Bounding leaves nothing out of count(DISTINCT Uid)" in result.summary()


COUNTS = "SELECT k, count(*) AS n, count(x) AS s, count(DISTINCT uid) AS u FROM visits GROUP BY k"


@pytest.mark.slow
@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("most", "asked"), [(1, {}), (2, {"max_rows_contributed": 2, "max_groups_contributed": 2})]
)
def test_no_estimate_is_bought_of_what_no_bound_can_cut(
    most: int, asked: PrivacyParameters, tmp_path: Path
) -> None:
    asked = {**asked, "left_out_share": 0.3}
    visits = replace(POLICY_TABLES["visits"], rows_per_unit=most)
    known = replace(policy(), tables={**POLICY_TABLES, "visits": visits})
    for rules, cut in ((known, False), (policy(), True)):
        with opened_with(rules, tmp_path) as opened:
            figures = opened.explain(COUNTS, **asked).blocks[0].left_out
            told = [f.status for f in figures if not f.aggregate.startswith("values of")]
            assert told == ["looked" if cut else "nothing"] * 3
            whole = opened.explain(f"EXPLAIN (SQL) {ASKED}", **asked)
            assert ("Estimate" in repr(whole)) is cut
    with opened_with(known, tmp_path) as opened:  # fewer groups than a unit may have rows in
        fewer = opened.explain(ASKED, left_out_share=0.3, max_groups_contributed=1)
        assert [f.status for f in fewer.blocks[0].left_out] == ["looked" if most > 1 else "nothing"]


@pytest.mark.slow
def test_what_a_query_computes_with_is_told_too(connection: dpsql.Connection) -> None:
    rolled = connection.sql(
        "SELECT k, c, count(*) AS n FROM visits GROUP BY ROLLUP (k, c)",
        epsilon=50.0,
        left_out_share=0.1,
    )
    assert [part.columns for part in rolled.left_out] == [()] * 3
    assert rolled.summary().count("of the rows") == 3
    ranked = connection.sql(
        "SELECT k, avg(x) AS a FROM visits GROUP BY k ORDER BY count(*) DESC", left_out_share=0.1
    )
    assert sorted((part.of, part.columns, part.told) for part in ranked.left_out) == [
        ("avg(x)", ("a",), False),
        ("rows", (), True),
    ]


@pytest.mark.slow
def test_values_out_of_bounds_are_told_of_each_sum(connection: dpsql.Connection) -> None:
    """Of the small world's values of n, which are spread over -4 to 18."""
    result = connection.sql(
        "SELECT sum(n, contribution_bounds_per_row => (0, 30)) AS a, "
        "sum(n, contribution_bounds_per_row => (0, 7)) AS b FROM visits",
        epsilon=100.0,
        left_out_share=0.5,
    )
    told = {part.columns: part for part in result.left_out if part.clamped}
    assert set(told) == {("a",), ("b",)}
    for column, true in (("a", 4 / 23), ("b", 15 / 23)):
        part = told[column,]
        assert part.low is not None
        assert part.high is not None
        assert part.low - 0.02 <= true <= part.high + 0.02
        assert part.high - part.low < 0.2
    assert "lie outside their bounds and count as the nearest of these" in result.summary()
    assert "values of sum" in repr(result.plan)


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("composition", list(Composition))
def test_shares_below_the_units_of_a_ledger_buy_nothing(
    composition: Composition, tmp_path: Path
) -> None:
    accounts = {ANALYST: AccountPolicy(ANALYST, 2.0, 1e-6, composition)}
    rules = policy(Parameters(epsilon=1e-6, delta=1e-7, left_out_share=1e-15), **accounts)
    with opened_with(rules, tmp_path) as opened:
        assert opened.explain("SELECT count(*) FROM visits").blocks[0].left_out == ()
        assert opened.sql("SELECT count(*) FROM visits").left_out[0].told is False


@pytest.mark.slow
def test_totals_are_corrected_beside_the_answer_and_hold_the_true_value(tmp_path: Path) -> None:
    asked = "SELECT count(*) AS n, sum(big) AS s, count(DISTINCT uid) AS u, avg(x) AS a FROM visits"
    with connect(tmp_path) as opened:
        result = opened.sql(asked, epsilon=1000.0, max_rows_contributed=5, left_out_share=0.3)
        # 60 units with 20 rows each, of which 5 count.
        found = {one.column: one for one in result.corrected()}
        assert found.keys() == {"n", "s"}
        for name, true in (("n", 1200), ("s", sum(i % 1001 for i in range(1200)))):
            one = found[name]
            assert one.value == result.fetchall()[0][result.columns.index(name)]
            assert one.value < 0.7 * true
            assert one.high is not None
            assert one.low <= one.corrected <= one.high
            assert one.corrected == pytest.approx(true, rel=0.1)
            surely = {w.column: w for w in result.corrected(1 - 1e-10)}[name]
            assert surely.low < one.low
            assert surely.high is None or surely.high > one.high
            assert surely.low <= true <= (surely.high or true)
        assert "Corrected for what max_rows_contributed left out, n is about" in result.summary()
        told = json.loads(result_json(result, 0.95))["corrected"]
        assert [one["column"] for one in told] == ["n", "s"]
        again = opened.sql(asked, epsilon=1000.0, max_rows_contributed=5, left_out_share=0.3)
        assert again.cost.stored
        assert again.corrected() == result.corrected()
        with pytest.raises(ParameterError):
            result.corrected(1.0)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        (ASKED, SHARE),  # which of a unit's groups are kept is a draw
        ("SELECT c, count(*) AS n FROM visits GROUP BY c", SHARE),
        ("SELECT count(DISTINCT uid) AS n FROM visits", SHARE),  # nothing is left out
        ("SELECT avg(x) AS n FROM visits", SHARE),
        ("SELECT 2 * count(*) AS n FROM visits", SHARE),  # not as it was released
        ("SELECT count(*) AS n FROM visits", {}),
        ("SELECT sum(n) AS n FROM visits", SHARE),  # values below zero
    ],
)
def test_what_is_no_total_of_known_share_is_not_corrected(
    asked: str, options: PrivacyParameters, connection: dpsql.Connection
) -> None:
    result = connection.sql(asked, **options)
    assert result.corrected() == ()
    assert "Corrected" not in result.summary()


def test_rows_are_told_of_where_a_unit_may_add_one(connection: dpsql.Connection) -> None:
    asked = "SELECT count(*) AS n, count(DISTINCT uid) AS u FROM visits"
    result = connection.sql(asked, epsilon=200.0, max_rows_contributed=1, left_out_share=0.3)
    told = {part.columns: part for part in result.left_out}
    rows, units = told["n",], told["u",]
    assert rows.of == "rows"
    assert rows.limits == ("max_rows_contributed",)
    assert rows.share == pytest.approx(1 - 60 / 1200, abs=0.02)
    assert units.nothing
