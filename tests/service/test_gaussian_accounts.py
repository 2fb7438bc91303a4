"""Accounts that add up mu squared: what they answer, what they refuse, what the ledger keeps."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.attacks import PLAYS, VIEWS
from helpers.failures import fails_with
from helpers.support import ANALYST, FILL, plays_policy, policy, world_file
from rich.console import Console, RenderableType

import dpsql
from dpsql.core.formatting import significant
from dpsql.errors import BudgetExceeded, QueryRefused
from dpsql.ledger import Ledger
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import Parameters
from dpsql.present.ledger import history_panel
from dpsql.privacy.accounting.gdp import epsilon_from_gaussian
from dpsql.privacy.accounting.zcdp import Budget, Composition

QUESTION = "SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k"
ANSWERED = (
    QUESTION,
    f"{QUESTION} ORDER BY n DESC LIMIT 3",
    "SELECT DISTINCT k FROM visits",
    "SELECT count(*) AS n FROM visits",
)


def rules(
    composition: Composition = Composition.GDP, epsilon: float = 100.0, share: float = 0.5
) -> Policy:
    account = AccountPolicy(ANALYST, epsilon, 1e-5, composition, share)
    return policy(
        Parameters(1.0, 1e-8, max_groups_contributed=2, max_rows_contributed=10), ana=account
    )


def opened(directory: Path, rules: Policy) -> dpsql.Connection:
    place = directory / "world.duckdb"
    if not place.exists():
        with world_file(place, *FILL):
            pass
    return dpsql.connect(place, rules, directory / "budget.db", ANALYST)


@pytest.mark.slow
def test_costs_are_mu_squared_and_add_up_in_the_ledger(tmp_path: Path) -> None:
    with opened(tmp_path, rules()) as connection:
        costs = [connection.sql(question).cost for question in ANSWERED]
        costs.append(connection.sql(ANSWERED[1], mechanism="correlated_top_k", k_bar=5).cost)
        report = connection.budget()
    assert all(cost.settled.gaussian and cost.reserved.gaussian for cost in costs)
    rho = sum(cost.settled.rho for cost in costs)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        assert ledger.verify().sound
        spent = ledger.spent(f"world/{ANALYST}").amount
        kinds = {entry.reserved.currencies for entry in ledger.history(f"world/{ANALYST}")}
    assert spent.rho == spent.epsilon == 0
    assert kinds == {1}
    assert spent.gaussian / 2**40 == pytest.approx(rho, abs=2.0**-38)
    assert report.rho_spent == pytest.approx(rho, rel=1e-9)
    assert report.epsilon_spent == pytest.approx(epsilon_from_gaussian(rho, 5e-6), rel=1e-6)
    assert str(report.composition) == "gdp"


@pytest.mark.slow
def test_a_histogram_gets_less_noise_than_from_a_zcdp_account(tmp_path: Path) -> None:
    noise = []
    for composition in (Composition.GDP, Composition.ZCDP):
        directory = tmp_path / composition
        directory.mkdir()
        with opened(directory, rules(composition)) as connection:
            plan = connection.explain(QUESTION, epsilon=0.1)
        margin = plan.blocks[0].columns[0].margin95
        assert margin is not None
        noise.append(margin)
    assert noise[0] < 0.95 * noise[1]


@pytest.mark.slow
def test_rounds_find_the_number_of_groups_for_their_price_in_gaussian_dp(tmp_path: Path) -> None:
    for composition in (Composition.GDP, Composition.ZCDP):
        (tmp_path / composition).mkdir()
        with opened(tmp_path / composition, rules(composition)) as connection:
            cost = connection.sql(QUESTION, max_groups_contributed="auto").cost
            split = Budget.of(1.0, 1e-8, composition).most
        assert cost.settled == cost.reserved
        assert cost.settled.gaussian == (composition is Composition.GDP)
        assert 0.999 * split.rho < cost.settled.rho <= split.rho
        assert cost.settled.delta <= split.delta


def test_what_has_no_proof_is_refused_before_anything_is_reserved(tmp_path: Path) -> None:
    top = f"{QUESTION} ORDER BY n DESC LIMIT 3"
    with opened(tmp_path, rules()) as connection:
        refused: tuple[tuple[str, dict[str, Any], str], ...] = (
            (top, {"mechanism": "laplace_top_k"}, "a session can add up"),
            (QUESTION, {"mechanism": "gaussian_sparse_histogram"}, "a session can add up"),
        )
        for question, options, words in refused:
            with pytest.raises(QueryRefused, match=words):
                connection.sql(question, **options)
        assert connection.budget().queries == 0


@pytest.mark.slow
def test_a_view_of_running_counts_costs_what_it_adds_to_the_account(tmp_path: Path) -> None:
    """With less noise than under zCDP at the same ε; what chooses groups has no proof."""
    place, sigmas = tmp_path / "plays.duckdb", {}
    with duckdb.connect(str(place)) as writer:
        writer.execute(PLAYS)
    for composition in (Composition.GDP, Composition.ZCDP):
        account = AccountPolicy(ANALYST, 100.0, 1e-3, composition)
        policy = replace(plays_policy(8), accounts={ANALYST: account})
        ledger = tmp_path / f"{composition}.db"
        with dpsql.connect(place, policy, ledger, ANALYST) as connection:
            paid = [connection.sql(view).cost.settled for view in VIEWS]
            connection.sql("REFRESH MATERIALIZED VIEW songs")
            assert connection.sql("SELECT max(step) AS n FROM songs").fetchall()
            views = connection._answerer.views
            sigmas[composition] = [
                views.plan_of(views.named(name)).plan.noises[0].sigma for name in ("songs", "sums")
            ]
            if composition is Composition.GDP:
                assert all(loss.gaussian and loss.delta > 0 for loss in paid)
                chosen = VIEWS[0].replace(" songs ", " top ") + " order by plays desc limit 2"
                chosen = chosen.replace("(step", "(schedule = 'doubling', step")
                with fails_with("no_view"):
                    connection.sql(chosen)
                assert connection.budget().queries == 2
        with Ledger.open(ledger) as opened_again:
            spent = opened_again.spent(f"{policy.dataset}/{ANALYST}").amount.loss
            assert spent.rho == pytest.approx(sum(loss.rho for loss in paid))
            assert opened_again.verify().sound
    for gaussian, other in zip(*sigmas.values(), strict=True):
        assert 0.92 * other < gaussian < 0.95 * other


@pytest.mark.slow
def test_an_account_ends_where_its_mu_does(tmp_path: Path) -> None:
    with opened(tmp_path, rules(epsilon=2.0)) as connection:
        asked = 0
        with contextlib.suppress(BudgetExceeded):
            while asked < 50:
                connection.sql(QUESTION, fresh=True)
                asked += 1
        report = connection.budget()
    assert report.epsilon_spent <= 2.0
    with Ledger.open(tmp_path / "budget.db") as ledger:
        spent = ledger.spent(f"world/{ANALYST}").amount
        assert spent.gaussian <= Budget.gdp(2.0, 1e-5).limit.gaussian
        assert ledger.verify().sound
    assert 2 <= asked < 50, "the question's epsilon is half of the account's"


@pytest.mark.slow
@pytest.mark.parametrize("before", Composition)
def test_an_account_keeps_its_composition_and_its_part_of_delta(
    tmp_path: Path, before: Composition
) -> None:
    changed = [rules(other) for other in {*Composition} - {before}]
    if before is not Composition.BASIC:
        changed.append(rules(before, share=0.8))
    with opened(tmp_path, rules(before)) as connection:
        connection.sql(QUESTION)
        charged = connection.budget().queries
    for each in changed:
        with opened(tmp_path, each) as con, fails_with("ledger_other_composition") as refused:
            con.sql(QUESTION, fresh=True)
        kept = (
            "delta_for_conversion: 0.5"
            if each.accounts[ANALYST].composition is before
            else (f"composition: {before}")
        )
        assert f"restore `{kept}`" in (refused.value.hint or "")
    with opened(tmp_path, rules(before)) as connection:
        connection.sql(QUESTION, fresh=True)
        assert connection.budget().queries == charged + 1


@pytest.mark.slow
def test_show_budget_and_the_page_tell_what_is_left(tmp_path: Path) -> None:
    with opened(tmp_path, rules(share=0.8)) as connection:
        connection.sql(ANSWERED[-1])
        shown = {row[1]: row[2:] for row in connection.sql("SHOW BUDGET").fetchall()}
        report = connection.budget()
    limit = Budget.of(100.0, 1e-5, Composition.GDP, 0.8).limit.loss
    assert shown["rho"][2] == pytest.approx(limit.rho)
    assert shown["delta"][2] == pytest.approx(2e-6)
    assert "gdp composition" in str(report)


@pytest.mark.slow
def test_the_history_tells_what_each_question_paid(tmp_path: Path) -> None:
    top = f"{QUESTION} ORDER BY n DESC LIMIT 3"
    with opened(tmp_path, rules()) as connection:
        cost = connection.sql(top, mechanism="gumbel_top_k", k_bar=5, epsilon=20.0).cost
        report = connection.budget(compare=True)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        entries = ledger.history(f"world/{ANALYST}")
    shown = in_text(history_panel(entries))
    assert f"ρ {significant(cost.reserved.rho)}" in shown
    assert "ε 0, δ" not in shown
    (promised,) = (each for each in report.analyses if each.promised)
    assert promised.source == "Gaussian DP of what was charged"
    aside = promised.delta - cost.settled.delta
    assert promised.epsilon == pytest.approx(epsilon_from_gaussian(cost.settled.rho, aside))


def in_text(panel: RenderableType) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(panel)
    return console.export_text()
