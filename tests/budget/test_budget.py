"""Budgets: who pays, and that every figure of a report is what the ledger will really allow."""

from __future__ import annotations

import io
import itertools
import json
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.present import present
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import dpsql
from dpsql.budget import Guarantee, account_reports, budget_report, payer
from dpsql.budget.forecasts import ForecastQuestion, forecast, question_of
from dpsql.budget.question import LoggedQuery, read_record
from dpsql.core.periods import Period
from dpsql.errors import BudgetExceeded, LedgerError, ParameterError, PolicyError, UnknownName
from dpsql.ledger import Account, Entry, Ledger, Renewal, Spent, Standing, Window
from dpsql.policy.model import (
    AccountPolicy,
    ColumnPolicy,
    Policy,
    PrivacyUnit,
    TablePolicy,
    UnitPeriod,
)
from dpsql.policy.parameters import Maxima, Parameters
from dpsql.present import uncoloured
from dpsql.present.budget import accounts_table, budget_panel, promise
from dpsql.privacy.accounting.zcdp import (
    Amount,
    Budget,
    Composition,
    PrivacyLoss,
    epsilon_from_zcdp,
)

HOSTILE = ["a/b", "/", " a", "a ", "a\n", "\x1b[2J", "\u202e", "\x00", "a" * 201, "\udcff"]


def account(name: str, epsilon: float = 1.0, **more: Any) -> AccountPolicy:
    return AccountPolicy(name, epsilon, 1e-6, **more)


def limit(epsilon: float, composition: Composition = Composition.ZCDP) -> Amount:
    return Budget.of(epsilon, 1e-6, composition).limit


# -- who pays ---------------------------------------------------------------------------------


def test_an_analyst_pays_from_an_account_named_after_the_dataset() -> None:
    found = payer(Policy("sales", accounts={"ana": account("ana")}), "ana")
    assert found.path == "sales/ana"
    assert found.limits == (Account("sales/ana", limit(1.0), 0.5),)


@pytest.mark.parametrize("composition", Composition)
def test_a_session_pays_below_its_analyst_and_a_total_binds_them_all(
    composition: Composition,
) -> None:
    policy = Policy(
        "sales",
        accounts={"ana": account("ana", composition=composition)},
        total=account("sales", 3.0, composition=composition),
    )
    share = None if composition is Composition.BASIC else 0.5
    limits = (
        Account("sales", limit(3.0, composition), share),
        Account("sales/ana", limit(1.0, composition), share),
    )
    for session in ("", "notebook", "2026-01-31 12:00"):
        found = payer(policy, "ana", session)
        assert found.path == "/".join(filter(None, ("sales", "ana", session)))
        assert found.limits == limits


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_could_reach_another_account_are_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="the name of the account"):
        Policy("sales", accounts={"ana": account("ana"), name: account(name)})
    policy = Policy("sales", accounts={"ana": account("ana")})
    with pytest.raises(ParameterError, match="the name of the session is not one"):
        payer(policy, "ana", name)


@pytest.mark.parametrize("composition", Composition)
def test_a_total_that_adds_up_otherwise_than_the_accounts_is_refused(
    composition: Composition,
) -> None:
    accounts = {"ana": account("ana", composition=composition)}
    for other in set(Composition) - {composition}:
        total = account("sales", composition=other)
        with pytest.raises(PolicyError, match="differ in their composition"):
            payer(Policy("sales", accounts=accounts, total=total), "ana")


def test_nobody_pays_for_an_unknown_analyst() -> None:
    with pytest.raises(UnknownName):
        payer(Policy("sales", total=account("sales")), "ana")


# -- reports ----------------------------------------------------------------------------------

DELTA = 2.0**-20
TOP = "SELECT key, COUNT(DISTINCT u) AS n FROM t GROUP BY key ORDER BY n DESC LIMIT 10"
KNOWN = "SELECT colour, COUNT(*) AS n FROM t GROUP BY colour"
UNKNOWN = "SELECT key, COUNT(*) AS n FROM t GROUP BY key"
TOTALLED = "SELECT SUM(n) AS n FROM (SELECT key, COUNT(*) AS n FROM t GROUP BY key)"
QUESTIONS = (
    TOP,
    KNOWN,
    UNKNOWN,
    TOTALLED,
    "SELECT COUNT(*) AS n FROM t",
    "SELECT DISTINCT key FROM t",
)


def rules(composition: Composition = Composition.ZCDP, *, total: float | None = None) -> Policy:
    return Policy(
        "world",
        accounts={name: AccountPolicy(name, 4.0, DELTA, composition) for name in ("ana", "bo")},
        total=None if total is None else AccountPolicy("world", total, DELTA, composition),
        tables={
            "t": TablePolicy(
                "t",
                PrivacyUnit("person", "u"),
                {"colour": ColumnPolicy(domain=("blue", "red"))},
            )
        },
        defaults=Parameters(
            epsilon=0.5,
            delta=2.0**-30,
            max_groups_contributed=2,
            max_rows_contributed=10,
            k_bar=50,
            left_out_share=0.0,
        ),
        maxima=Maxima(max_groups_contributed=None),
    )


@pytest.fixture(scope="module")
def engine() -> dpsql.DuckDBEngine:
    made = dpsql.DuckDBEngine()
    u = np.arange(8000)
    made.register("t", {"u": u, "key": u % 4, "colour": np.where(u % 3, "red", "blue")})
    return made


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "budget.db", who="tests") as opened:
        yield opened


def ask(
    engine: dpsql.DuckDBEngine,
    policy: Policy,
    ledger: Ledger,
    sql: str,
    session: str = "",
    **more: Any,
) -> None:
    with dpsql.connect(engine, policy, ledger, "ana", session=session) as connection:
        connection.sql(sql, fresh=True, **more)


@pytest.mark.slow
def test_a_report_says_what_the_ledger_says(engine: dpsql.DuckDBEngine, ledger: Ledger) -> None:
    policy = rules()
    for sql in (TOP, KNOWN, UNKNOWN):
        ask(engine, policy, ledger, sql)
    report, spent = budget_report(policy, "ana", ledger), ledger.spent("world/ana")
    assert (report.account, report.queries, report.unsettled) == ("world/ana", 3, 0)
    assert report.own.spent.loss == spent.amount.loss
    assert (report.epsilon, report.delta) == (4.0, DELTA)
    assert report.epsilon_spent == epsilon_from_zcdp(report.rho_spent, DELTA / 2)
    assert report.delta_spent <= report.delta_limit <= DELTA / 2
    assert [account.path for account in report.accounts] == ["world/ana"]
    assert report.promise == Guarantee("world/ana", 4.0, DELTA, per_window=False)
    assert not report.total
    (dataset, _) = account_reports(ledger)
    assert (dataset.path, dataset.limits, dataset.left) == ("world", (), None)
    assert dataset.spent.loss == spent.amount.loss


def test_a_promise_says_which_units_are_protected_in_one_period_at_a_time() -> None:
    unit = PrivacyUnit("user-day", "who", UnitPeriod("at", Period(seconds=86_400)))
    tables = {"plays": TablePolicy("plays", unit), "users": TablePolicy("users", None)}
    policy = Policy("music", accounts={"ana": account("ana")}, tables=tables)
    report = budget_report(policy, "ana", None)
    assert report.promise is not None
    assert report.promise.periods == ("user-day (who per 1 day of at)",)
    assert "each period for itself" in promise(report).plain
    assert "user-day (who per 1 day of at)" in promise(report).plain
    plain = budget_report(rules(), "ana", None)
    assert "period" not in promise(plain).plain


@pytest.mark.parametrize("session", ["", "notebook"])
def test_without_a_ledger_nothing_has_been_spent(session: str) -> None:
    report = budget_report(rules(total=6.0), "ana", None, session)
    assert report.queries == report.epsilon_spent == 0
    assert report.accounts[-1].path == "world/ana"
    assert report.promise == Guarantee("world", 6.0, DELTA, per_window=False)
    assert report.own.opened == ""
    assert repr(report)


def test_a_session_reports_its_own_account_below_the_analysts_that_limits_it(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules(total=6.0)
    ask(engine, policy, ledger, KNOWN)
    ask(engine, policy, ledger, KNOWN, "notebook")
    report = budget_report(policy, "ana", ledger, "notebook")
    assert report.account == "world/ana/notebook"
    session, own = report.accounts
    assert (session.spent.queries, own.spent.queries) == (1, 2)
    assert session.limits == ()
    assert [limit.budget.epsilon for limit in own.limits] == [4.0]
    assert (report.epsilon, report.queries) == (4.0, 2)
    assert "world/ana/notebook (session, " in repr(report)
    text = " ".join(repr(report).split())
    assert "all that all analysts together see is (ε 6, δ 9.537e-07)-differentially private" in text
    assert "another policy shares" not in text  # all accounts are in it


def test_the_owners_limit_binds_where_it_is_lower_and_says_whose_it_is(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules()
    ask(engine, policy, ledger, KNOWN)
    lower = Budget.of(1.0, DELTA, Composition.ZCDP)
    terms = json.dumps({"epsilon": 1.0, "delta": DELTA, "composition": "zcdp"})
    ledger.owner("olga").set_limits("world/ana", lower.limit, terms=terms)
    report = budget_report(policy, "ana", ledger)
    assert [limit.source for limit in report.own.limits] == ["policy", "owner"]
    assert (report.epsilon, report.delta) == (1.0, DELTA)
    assert (
        report.own.left
        == present(ledger.standing("world/ana", payer(policy, "ana").limits)[-1].left).loss
    )
    theirs = budget_report(rules(), "bo", ledger).forecasts[0].at_worst
    assert present(report.forecasts[0].at_worst) < present(theirs)
    assert "the owner's ε 1 at δ 9.537e-07 (binds)" in repr(report)
    higher = Budget.of(40.0, DELTA, Composition.ZCDP)
    ledger.owner("olga").set_limits("world/ana", higher.limit, terms=terms)
    assert budget_report(policy, "ana", ledger).epsilon == 4.0


@pytest.mark.parametrize(
    "terms", ["{}", '{"epsilon": 0.001, "delta": 1e-9, "composition": "zcdp"}']
)
def test_a_limit_is_stated_as_what_it_is_whatever_is_written_beside_it(
    ledger: Ledger, terms: str
) -> None:
    owner, most = ledger.owner("olga"), Amount.limit(PrivacyLoss(0.01, 1e-7))
    owner.create("world/ana")
    owner.set_limits("world/ana", most, terms=terms)
    report = budget_report(rules(), "ana", ledger)
    delta = most.loss.delta
    assert report.epsilon == epsilon_from_zcdp(most.loss.rho, delta)
    assert report.delta == 2 * delta
    assert report.rho_limit == most.loss.rho


def test_an_account_that_the_owner_closed_affords_nothing(ledger: Ledger) -> None:
    owner = ledger.owner("olga")
    owner.create("world/ana")
    owner.set_limits("world/ana", Amount())
    for composition in Composition:
        report = budget_report(rules(composition), "ana", ledger)
        assert report.forecasts[0].at_worst == 0
        assert report.epsilon_remaining == report.delta_remaining == 0.0
        assert "0 more at the policy's defaults, at worst" in repr(report)


def test_what_was_spent_before_the_window_is_reported_and_counts_no_more(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules()
    for sql in (KNOWN, UNKNOWN):
        ask(engine, policy, ledger, sql)
    spent = ledger.spent("world/ana").amount
    ledger.owner("olga").open_window("world/ana")
    report = budget_report(policy, "ana", ledger)
    assert (report.queries, report.epsilon_spent, report.own.windows) == (0, 0.0, 2)
    total = report.own.total
    assert (total.loss, total.queries) == (spent.loss, 2)
    assert total.epsilon == epsilon_from_zcdp(spent.loss.rho, DELTA / 2)
    assert total.delta == pytest.approx(spent.loss.delta + DELTA / 2)
    assert "over all 2 windows" in repr(report)
    assert "all answers of one window" in " ".join(repr(report).split())


# -- how many more ----------------------------------------------------------------------------


def spend(ledger: Ledger, policy: Policy, reserved: Amount, cost: Amount) -> int:
    """How many questions really fit, each settled before the next."""
    paying = payer(policy, "ana")
    for count in itertools.count():
        try:
            charge = ledger.reserve(
                paying.path, reserved, query="q", plan="{}", limits=paying.limits
            )
        except BudgetExceeded:
            return count
        ledger.settle(charge, cost)
    raise AssertionError


@pytest.mark.parametrize("total", [None, 1.7])
@pytest.mark.parametrize("composition", Composition)
def test_exactly_as_many_questions_fit_as_the_worst_case_says(
    ledger: Ledger, composition: Composition, total: float | None
) -> None:
    policy = rules(composition, total=total)
    promised = budget_report(policy, "ana", ledger).forecasts[0]
    reserved = Amount.charge(promised.reserved)
    assert promised.at_worst is not None
    assert spend(ledger, policy, reserved, reserved) == promised.at_worst > 0
    (after, again) = budget_report(policy, "ana", ledger).forecasts
    assert (after.at_worst, again.at_worst, again.about) == (0, 0, 0)
    assert again.max_queries == promised.max_queries


@pytest.mark.parametrize("composition", Composition)
def test_about_as_many_fit_as_do_when_each_costs_the_usual(
    ledger: Ledger, composition: Composition
) -> None:
    policy = rules(composition, total=3.0)
    whole = Amount.charge(budget_report(policy, "ana", ledger).forecasts[0].reserved)
    third = Amount(whole.rho // 3, whole.epsilon // 3, whole.delta)
    paying = payer(policy, "ana")
    for cost in (third, whole, third):
        charge = ledger.reserve(paying.path, whole, query="q", plan="{}", limits=paying.limits)
        ledger.settle(charge, cost)
    again = budget_report(policy, "ana", ledger).forecasts[-1]
    mean = Amount(*(-(-(2 * t + w) // 3) for t, w in zip(third.units, whole.units, strict=True)))
    assert (again.sample, again.usual) == (3, mean.loss)
    assert again.about == spend(ledger, policy, whole, mean) > present(again.at_worst)


PAIR = st.tuples(st.integers(0, 60), st.integers(0, 60))


@pytest.mark.slow
@given(st.sampled_from(["rho", "epsilon"]), st.lists(PAIR, min_size=1, max_size=3), PAIR, PAIR)
@settings(max_examples=200, deadline=None)
def test_counts_are_those_of_asking_one_by_one(
    currency: str, limits: list[tuple[int, int]], held: tuple[int, int], paid: tuple[int, int]
) -> None:
    held = (held[0] // 6, held[1] // 6)
    cost = (min(paid[0], held[0]), held[1])
    standings = [
        Standing(
            f"d{number}",
            (Amount(**{currency: most}, delta=delta),),
            *(None, "{}", Window("", "", Spent()), Spent()),
        )
        for number, (most, delta) in enumerate(limits)
    ]
    reserved, charged = (Amount(**{currency: u}, delta=delta) for u, delta in (held, cost))
    entry = Entry(1, "", "", "d", "q", "{}", reserved, "", charged, False)
    question = ForecastQuestion("given", "", (), reserved, lambda *_: True)
    found = forecast(question, standings, [(entry, LoggedQuery())], 5)

    def asked(each: tuple[int, ...]) -> int | None:
        """None once it is seen to go on for ever."""
        left = [list(units) for units in limits]
        for count in range(62):
            if not all(h <= room for units in left for h, room in zip(held, units, strict=True)):
                return count
            left = [[a - b for a, b in zip(units, each, strict=True)] for units in left]
        return None

    assert found.at_worst == asked(held)
    assert found.about == asked(cost)
    least = min(delta for _, delta in limits)
    assert found.by_delta == (least // held[1] if held[1] else None)
    assert found.max_queries == (None if found.by_delta is None else found.by_delta + 5)


def test_delta_alone_bounds_the_number_of_queries(ledger: Ledger) -> None:
    policy = rules()
    first = budget_report(policy, "ana", ledger).forecasts[0]
    assert first.max_queries == round((DELTA / 2) / (2.0**-30 / 2)) == 1024
    charge = Amount(rho=1, delta=Amount.charge(first.reserved).delta)
    paying = payer(policy, "ana")
    for _ in range(3):
        ledger.reserve(paying.path, charge, query="q", plan="{}", limits=paying.limits)
    found = budget_report(policy, "ana", ledger).forecasts
    assert [each.max_queries for each in found] == [1024, 1024]
    assert found[-1].at_worst == found[-1].by_delta == 1021
    assert repr(budget_report(policy, "ana", ledger)).startswith("3 of 1,024 queries · ε ")


@pytest.mark.parametrize("composition", Composition)
def test_no_question_of_one_block_at_the_defaults_reserves_more_than_is_forecast(
    engine: dpsql.DuckDBEngine, composition: Composition
) -> None:
    policy = rules(composition)
    dearest = budget_report(policy, "ana", None).forecasts[0]
    worst = Amount.charge(dearest.reserved).units
    reached = set()
    with dpsql.connect(engine, policy, None, "ana") as connection:
        for sql in QUESTIONS:
            found = Amount.charge(connection.explain(sql).reserved).units
            assert all(map(operator.le, found, worst)), sql
            reached |= {found} & {worst}
    assert reached, "the bound is not loose"


def test_a_top_k_that_returned_little_makes_room_for_more(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules()
    unlimited = {"max_groups_contributed": "unlimited", "mechanism": "gumbel_top_k"}
    for _ in range(3):
        ask(engine, policy, ledger, TOP, **unlimited)  # 4 of 10 groups exist
    again = budget_report(policy, "ana", ledger).forecasts[-1]
    assert (again.which, again.kind, again.sample) == ("again", "top-10 of t", 3)
    assert present(again.usual).rho < 0.7 * again.reserved.rho
    assert present(again.about) > 1.4 * present(again.at_worst)
    text = repr(budget_report(policy, "ana", ledger))
    assert f"about {again.about:,} more like the last (top-10 of t)" in text.split("\n")[0]
    counts = f"{again.at_worst:,} more at worst, about {again.about:,} at the average cost of 3"
    assert counts in " ".join(text.split())


def test_only_questions_of_the_same_kind_and_price_are_averaged(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules()
    ask(engine, policy, ledger, KNOWN, epsilon=0.25)
    ask(engine, policy, ledger, UNKNOWN)
    ask(engine, policy, ledger, KNOWN)
    defaults, again = budget_report(policy, "ana", ledger).forecasts
    assert (defaults.sample, again.sample) == (2, 1)
    assert again.settings == ((0.5, 2.0**-30),)


def test_a_given_question_is_forecast_at_its_own_price(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules()
    ask(engine, policy, ledger, TOP)
    with dpsql.connect(engine, policy, None, "ana") as connection:
        plan = connection.explain(TOP)
    given = question_of(plan)
    found = budget_report(policy, "ana", ledger, asking=[given]).forecasts[-1]
    assert (found.which, found.kind, found.sample) == ("given", "top-10 of t", 1)
    assert found.reserved == Amount.charge(plan.reserved).loss


# -- other analyses ---------------------------------------------------------------------------


@pytest.mark.parametrize("composition", Composition)
def test_other_analyses_are_beside_the_one_that_the_promise_rests_on(
    engine: dpsql.DuckDBEngine, ledger: Ledger, composition: Composition
) -> None:
    policy = rules(composition)
    for epsilon in (0.5, 0.5, 0.25):
        ask(engine, policy, ledger, KNOWN, epsilon=epsilon)
    assert budget_report(policy, "ana", ledger).analyses == ()
    report = budget_report(policy, "ana", ledger, compare=True)
    found = {each.name: each for each in report.analyses}
    assert list(found) == ["ledger", "basic", "advanced", "optimal", "zcdp"]
    assert [each.name for each in report.analyses if each.promised] == ["ledger"]
    total = report.own.total
    assert found["ledger"].epsilon <= total.epsilon
    assert found["basic"].epsilon == pytest.approx(1.25, rel=1e-5)
    (delta,) = {each.delta for each in report.analyses}
    assert delta >= total.delta
    if composition is Composition.ZCDP:  # nothing was refunded
        assert found["zcdp"].epsilon == pytest.approx(found["ledger"].epsilon, rel=1e-6)
    text = repr(report)
    assert "what the ledger counts" in text
    assert "The promise rests on the first line alone." in " ".join(text.split())


# -- many accounts ----------------------------------------------------------------------------


def test_every_account_of_a_ledger_is_reported_with_or_without_the_policy(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules(total=6.0)
    ask(engine, policy, ledger, KNOWN, "notebook")
    ledger.owner("olga").create("other/eve")
    for known in (policy, None):
        found = {account.path: account for account in account_reports(ledger, known)}
        assert list(found) == ["other", "other/eve", "world", "world/ana", "world/ana/notebook"]
        own = found["world/ana"]
        assert [limit.source for limit in own.limits] == ["policy"]
        assert present(own.binding).budget.epsilon == pytest.approx(4.0, rel=1e-6)
        assert present(own.binding).budget.delta == pytest.approx(DELTA)
        assert present(found["world"].binding).budget.epsilon == pytest.approx(6.0, rel=1e-6)
        assert found["other/eve"].limits == found["world/ana/notebook"].limits == ()
        text = uncoloured(accounts_table(tuple(found.values())))
        assert "world/ana/notebook" in text


# -- how it looks -----------------------------------------------------------------------------


def at_width(renderable: object, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get().split("\n")


@pytest.mark.parametrize("composition", Composition)
def test_sixty_columns_are_enough_for_every_figure(
    engine: dpsql.DuckDBEngine, ledger: Ledger, composition: Composition
) -> None:
    policy = rules(composition, total=6.0)
    ledger.owner("olga").create("world/ana")
    ledger.owner("olga").renew("world/ana", Renewal.MONTH)
    for sql in (TOP, KNOWN):
        ask(engine, policy, ledger, sql, "notebook")
    report = budget_report(policy, "ana", ledger, "notebook", compare=True)
    lines = at_width(budget_panel(report), 60)
    assert max(map(len, lines)) <= 60
    assert "…" not in "".join(lines)
    flat = " ".join(" ".join(lines).split())
    for line in repr(report).split("\n"):
        words = [word for word in line.split() if set(word) - set("█░─")]
        assert all(word in flat.split() for word in words), line
    table = at_width(accounts_table(account_reports(ledger, policy)), 60)
    assert max(map(len, table)) <= 60
    assert "…" not in "".join(table)


def test_a_report_of_basic_composition_shows_sums_and_no_rho(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules(Composition.BASIC)
    ask(engine, policy, ledger, KNOWN)
    text = repr(budget_report(policy, "ana", ledger))
    assert "Budget of world/ana (basic composition)" in text
    assert "0.5 of 4 (12.5%)" in text
    assert "ε and δ add up query by query" in text
    assert "ρ" not in text
    assert "zCDP" not in text


def test_queries_without_an_end_are_mentioned(ledger: Ledger) -> None:
    policy = rules()
    paying = payer(policy, "ana")
    for _ in range(2):
        ledger.reserve(paying.path, Amount(rho=1), query="q", plan="{}", limits=paying.limits)
    text = " ".join(repr(budget_report(policy, "ana", ledger)).split())
    assert "2 queries charged, 2 of them unsettled: running, or failed after reserving" in text


@pytest.mark.parametrize(("share", "full"), [(0.0, 0), (1e-9, 1), (0.5, 12), (1.0, 24)])
def test_bars_are_never_empty_once_something_is_spent_nor_longer_than_full(
    ledger: Ledger, share: float, full: int
) -> None:
    policy = rules()
    paying = payer(policy, "ana")
    amount = Amount(rho=int(share * paying.limits[0].limit.rho))
    if amount.rho:
        ledger.reserve(paying.path, amount, query="q", plan="{}", limits=paying.limits)
    lines = repr(budget_report(policy, "ana", ledger)).split("\n")
    (line,) = [line for line in lines if line.startswith("  ρ  ")]
    assert (line.count("█"), line.count("░")) == (full, 24 - full)


def test_no_promise_is_made_that_a_lowered_limit_could_not_keep(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules()
    for _ in range(3):
        ask(engine, policy, ledger, KNOWN)
    before = " ".join(repr(budget_report(policy, "ana", ledger)).split())
    assert "are (ε 4, δ 9.537e-07)-differentially private" in before
    # A later policy may share others, which is not known yet.
    assert "A view of others that the policy shares later adds its own price" in before
    ledger.owner("olga").set_limits("world/ana", Budget.of(0.4, DELTA, Composition.ZCDP).limit)
    report = budget_report(policy, "ana", ledger)
    text = " ".join(repr(report).split())
    assert "(ε 0.4" not in text
    assert "More was charged to world/ana than its limit now allows" in text
    assert report.own.spent.epsilon > report.epsilon
    assert (
        report.own.spent.delta
        == report.own.spent.loss.delta + present(report.own.binding).budget.delta_conversion
    )
    assert report.epsilon_remaining == 0.0


def test_show_budget_has_a_row_for_every_account_and_quantity(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    policy = rules(total=6.0)
    with dpsql.connect(engine, policy, ledger, "ana", session="notebook") as connection:
        connection.sql(KNOWN)
        result, report = connection.sql("SHOW BUDGET"), connection.budget()
    rows = {(account, name): rest for account, name, *rest in result.fetchall()}
    quantities = ["epsilon", "rho", "delta", "queries", "looks", "unsettled queries"]
    own = [(a.path, name) for a in report.accounts for name in quantities]
    assert list(rows) == [*own, ("world", "promised epsilon"), ("world", "promised delta")]
    assert report.account == "world/ana/notebook"
    assert rows["world/ana/notebook", "rho"] == [report.rho_spent, None, None]
    known = [report.rho_spent, report.rho_remaining, report.rho_limit]
    assert rows["world/ana", "rho"] == known
    assert rows["world", "promised epsilon"] == [None, None, 6.0]
    assert rows["world", "promised delta"] == [None, None, DELTA]


# -- what the ledger keeps of a question ------------------------------------------------------


def create_stream(
    ledger: Ledger, policy: Policy, name: str, amount: Amount, session: str = ""
) -> str:
    paying = payer(policy, "ana", session)
    plan = json.dumps({"stream": {"name": name, "steps": 365}, "text": "SELECT 1 FROM t"})
    ledger.create_stream(
        paying.path, amount, name=name, stream=f"id {name}", plan=plan, limits=paying.limits
    )
    return paying.path


@pytest.mark.parametrize("composition", Composition)
def test_streams_are_reported_as_streams_and_not_forecast_as_the_last_question(
    engine: dpsql.DuckDBEngine, ledger: Ledger, composition: Composition
) -> None:
    policy = rules(composition)
    ask(engine, policy, ledger, TOTALLED)
    before = budget_report(policy, "ana", ledger)
    assert before.streams == ()
    amount = Amount(rho=2**36, delta=2**20)
    if composition is Composition.BASIC:
        amount = Amount(epsilon=2**36, delta=2**20)
    if composition is Composition.GDP:
        amount = Amount(gaussian=2**36, delta=2**20)
    path = create_stream(ledger, policy, "visits", amount)
    ledger.publish_step(ledger.begin_step(path, "id visits", 2), [b"x"])
    ledger.begin_step(path, "id visits", 3)
    report = budget_report(policy, "ana", ledger)
    (stream,) = report.streams
    assert (stream.account, stream.name, stream.steps) == (path, "visits", 365)
    assert (stream.begun, stream.published, stream.charged) == (3, 1, amount.loss)
    assert report.queries == before.queries + 1
    spent = (report.rho_spent + report.own.spent.loss.epsilon) - (
        before.rho_spent + before.own.spent.loss.epsilon
    )
    assert spent == 2.0**-4
    last, now = before.forecasts[-1], report.forecasts[-1]
    assert (now.which, now.kind, now.reserved) == (last.which, last.kind, last.reserved)
    assert (now.usual, now.sample) == (last.usual, last.sample)
    assert now.at_worst is not None
    assert last.at_worst is not None
    assert now.at_worst < last.at_worst  # what it was charged counts
    shown = " ".join(repr(report).split())
    assert "visits: 1 of 365 steps published" in shown
    asked = read_record(ledger.history(path)[0].plan)
    assert (asked.kind, asked.statement) == ("stream visits", "SELECT 1 FROM t")
    ledger.drop_stream(path, "id visits")
    after = budget_report(policy, "ana", ledger)
    assert (after.streams, after.queries) == ((), report.queries)
    assert after.own.spent == report.own.spent


def test_an_account_with_nothing_but_a_stream_has_no_last_question(ledger: Ledger) -> None:
    policy = rules()
    create_stream(ledger, policy, "visits", Amount(rho=2**36, delta=2**20))
    report = budget_report(policy, "ana", ledger, compare=True)
    assert [each.which for each in report.forecasts] == ["defaults"]
    assert report.analyses


def test_an_analyst_is_told_the_streams_of_the_own_accounts_alone(ledger: Ledger) -> None:
    policy = rules()
    amount = Amount(rho=2**36, delta=2**20)
    create_stream(ledger, policy, "mine", amount)
    create_stream(ledger, policy, "session's", amount, session="notebook")
    other = payer(policy, "bo")
    ledger.create_stream(
        other.path,
        amount,
        name="bo's",
        stream="b",
        plan='{"stream": {"steps": 1}}',
        limits=other.limits,
    )
    assert [s.name for s in budget_report(policy, "ana", ledger).streams] == ["mine"]
    both = budget_report(policy, "ana", ledger, "notebook")
    assert [s.name for s in both.streams] == ["mine", "session's"]


def test_a_question_is_kept_with_its_values_and_read_back(
    engine: dpsql.DuckDBEngine, ledger: Ledger
) -> None:
    statement = f"SELECT COUNT(*) AS n FROM t WHERE key < $most -- {'x' * 20_000}"
    with dpsql.connect(engine, rules(), ledger, "ana") as connection:
        connection.sql(statement, {"most": 3})
    asked = read_record(ledger.history("world/ana")[0].plan)
    assert asked.statement == statement[:9999] + "…"
    assert asked.values == ("most = 3",)
    assert (asked.kind, asked.settings) == ("t", ((0.5, 2.0**-30),))
    (block,) = asked.blocks
    assert (block.mechanism, block.conversion_delta) == ("known_domain", 2.0**-31)


@pytest.mark.parametrize("stream", [None, 5, [], {}, {"name": 3, "steps": "x"}])
def test_a_strange_stream_in_a_record_is_read_as_far_as_it_goes(stream: object) -> None:
    found = read_record(json.dumps({"stream": stream})).stream
    assert (found is None) == (not isinstance(stream, dict))
    assert found is None or (found.name, found.steps) == ("", 0)


def test_records_of_older_versions_and_of_others_are_read_as_far_as_they_go() -> None:
    old = '[{"table": "t", "mechanism": "m", "parameters": {"epsilon": 1, "delta": 1e-6}}]'
    assert read_record(old).settings == ((1.0, 1e-6),)
    assert read_record(old).shape == (("t", "m"),)
    hostile = (
        '{"statement": 7, "values": {"a": 1}, "blocks": [3, {"table": [], "limit": "x", '
        '"parameters": {"epsilon": 1e999, "delta": true}, "conversion_delta": NaN}]}'
    )
    asked = read_record(hostile)
    assert (asked.statement, asked.values, asked.settings, asked.kind) == ("", (), (), "")
    for text in ("", "nonsense", "[" * 100_000, "null", '"text"', "{}"):
        assert read_record(text) == LoggedQuery()


def test_a_ledger_that_was_closed_reports_nothing(ledger: Ledger) -> None:
    ledger.close()
    for report in (lambda: budget_report(rules(), "ana", ledger), lambda: account_reports(ledger)):
        with pytest.raises(LedgerError):
            report()


def test_raw_limits_of_basic_composition_are_stated_as_they_are(ledger: Ledger) -> None:
    owner, most = ledger.owner("olga"), Amount.limit(PrivacyLoss(0.0, 1e-7, 0.5))
    owner.create("world/ana")
    owner.set_limits("world/ana", most)
    report = budget_report(rules(Composition.BASIC), "ana", ledger)
    assert (report.epsilon, report.delta) == (most.loss.epsilon, most.loss.delta)
    assert report.delta_limit == most.loss.delta
    assert "are (ε 0.5, δ 1e-07)-differentially private" in " ".join(repr(report).split())
