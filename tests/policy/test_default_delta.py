"""The δ of a query where the policies file says nothing of it: a part of its account's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.budget.payer import policy_budget
from dpsql.core.schema import schema_of
from dpsql.errors import BudgetExceeded, PolicyError
from dpsql.owner.conformance import check_policy
from dpsql.policy.load import parse_policy
from dpsql.policy.model import DELTA_SHARE, AccountPolicy, Policy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Amount

HEAD = "version: 1\ndataset: shop\n"
TABLES = "tables:\n  t: {privacy_unit: u}\n"
THRESHOLD = "SELECT k, count(DISTINCT u) AS n FROM t GROUP BY k"


def policy(delta: str = "1e-6", defaults: str = "", more: str = "", account: str = "") -> Policy:
    found = f"accounts:\n  ana: {{epsilon: 1000, delta: {delta}{account}}}\n"
    return parse_policy(f"{HEAD}{defaults}{more}{found}{TABLES}")


def connect(tmp_path: Path, rules: Policy, analyst: str = "ana", **settings: Any) -> Any:
    path = tmp_path / "shop.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as writer:
            writer.execute("CREATE TABLE t AS SELECT i AS u, i % 2 AS k FROM range(200) r(i)")
    return dpsql.connect(path, rules, tmp_path / "l.db", analyst, **settings)


@pytest.mark.parametrize("defaults", ["", "defaults: {}\n", "defaults: {delta: auto, k_bar: 3}\n"])
def test_it_is_a_part_of_the_whole_account(defaults: str) -> None:
    for delta in ("1e-6", "1e-3", "0.3"):
        found = policy(delta, defaults)
        assert found.of_account("ana").defaults.delta == DELTA_SHARE * float(delta)
        assert found.of_account("ana").of_account("ana") == found.of_account("ana")


@pytest.mark.slow
def test_each_account_has_its_own(tmp_path: Path) -> None:
    accounts = "accounts: {ana: {epsilon: 1, delta: 1e-6}, bo: {epsilon: 1, delta: 1e-4}}\n"
    rules = parse_policy(f"{HEAD}{accounts}{TABLES}")
    for name, delta in (("ana", 1e-8), ("bo", 1e-6)):
        with connect(tmp_path, rules, name) as opened:
            shown = {row[0]: row[1] for row in opened.sql("SHOW PARAMETERS").fetchall()}
            assert float(shown["delta"]) == pytest.approx(delta)
            plan = opened.explain(THRESHOLD)
            assert plan.reserved.delta + plan.conversion_delta == pytest.approx(delta)


@pytest.mark.slow
def test_what_is_explicit_keeps_its_meaning(tmp_path: Path) -> None:
    given = policy(defaults="defaults: {delta: 1e-7}\n")
    assert given.delta_share is None
    assert given.of_account("ana") == given
    cases: list[tuple[Policy, dict[str, Any], float]] = [
        (given, {}, 1e-7),
        (policy(), {"delta": 3e-8}, 3e-8),
        (replace(given, defaults=Parameters(delta=2e-9)), {}, 2e-9),
    ]
    for rules, settings, delta in cases:
        with connect(tmp_path, rules, **settings) as opened:
            plan = opened.explain(THRESHOLD)
            assert plan.reserved.delta + plan.conversion_delta == pytest.approx(delta)


def test_it_is_never_above_the_maximum_nor_below_what_noise_can_have() -> None:
    capped = policy("1e-2", more="maxima: {delta: 1e-9}\n")
    assert capped.of_account("ana").defaults.delta == 1e-9
    assert policy("1e-17").of_account("ana").defaults.delta == 1e-18
    found = check_policy(policy("1e-18"), schema_of())
    assert not [finding for finding in found if "delta" in finding.message]


@pytest.mark.parametrize("word", ["automatic", "none", "''", "null", "true"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(PolicyError):
        policy(defaults=f"defaults: {{delta: {word}}}\n")
    with pytest.raises(PolicyError):
        policy(more="maxima: {delta: auto}\n")


COMPOSITIONS = ["", ", composition: basic", ", delta_for_conversion: 0.9", ", composition: gdp"]


@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("delta", ["1e-6", "7.7e-9", "1e-12"])
def test_a_hundred_questions_with_thresholds_fit(
    composition: str, delta: str, tmp_path: Path
) -> None:
    rules = policy(delta, account=composition)
    with connect(tmp_path, rules) as opened:
        price = Amount.charge(opened.explain(THRESHOLD).reserved).delta
    limit = policy_budget(rules.account("ana")).limit.delta
    assert 100 * price <= limit < 101 * price


@pytest.mark.slow
@pytest.mark.parametrize("composition", COMPOSITIONS)
@pytest.mark.parametrize("delta", ["1e-6", "3.3e-7", "1e-11", "1e-16"])
def test_the_default_never_overdraws_an_account_and_the_number_it_buys_is_told(
    composition: str, delta: str, tmp_path: Path
) -> None:
    rules = policy(delta, account=composition)
    with connect(tmp_path, rules, epsilon=0.01) as opened:
        told = opened.explain(THRESHOLD).delta_buys
        assert told is not None
        assert told == 100 or float(delta) < 1e-14
        assert f"for {told:,} such question" in str(opened.explain(THRESHOLD))
        for _ in range(told):
            opened.sql(THRESHOLD, fresh=True)
        with pytest.raises(BudgetExceeded):
            opened.sql(THRESHOLD, fresh=True)
        report = opened.budget()
        assert report.delta_spent <= report.delta_limit


@pytest.mark.slow
def test_the_same_question_stays_the_same_however_much_was_spent(tmp_path: Path) -> None:
    with connect(tmp_path, policy()) as opened:
        first = opened.sql(THRESHOLD)
        for number in range(3):
            opened.sql(THRESHOLD, epsilon=0.1 + number)
        again = opened.sql(THRESHOLD)
        assert again.cost.stored
        assert again.fetchall() == first.fetchall()


@pytest.mark.slow
def test_questions_without_thresholds_take_no_delta(tmp_path: Path) -> None:
    with connect(tmp_path, policy()) as opened:
        plan = opened.explain("SELECT count(*) FROM t")
        assert plan.delta_buys is None
        assert "such question" not in str(plan)
        assert opened.sql("SELECT count(*) FROM t").cost.settled.delta == 0


def test_forecasts_are_of_the_accounts_own_queries(tmp_path: Path) -> None:
    from dpsql.budget import budget_report

    small = replace(policy(), accounts={"ana": AccountPolicy("ana", 1000, 1e-5)})
    usual, *_ = budget_report(small, "ana", None).forecasts
    other, *_ = budget_report(small.of_account("ana"), "ana", None).forecasts
    assert usual == other
