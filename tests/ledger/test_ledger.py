"""What the ledger promises about charges, in a file and in a database alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import EPSILON, GAUSSIAN, PLAN, RHO, Currency, sum_of_events

from dpsql.errors import BudgetExceeded, LedgerError, ParameterError, UnknownName
from dpsql.ledger import Account, Charge, Ledger, Spent, accounts
from dpsql.privacy.accounting.zcdp import MAX_LEDGER_UNITS, Amount, PrivacyLoss


@pytest.fixture(params=[RHO, EPSILON, GAUSSIAN], ids=lambda currency: currency.name)
def currency(request: pytest.FixtureRequest) -> Currency:
    found: Currency = request.param
    return found


def contents(ledger: Ledger) -> tuple[object, ...]:
    """All that a ledger says."""
    accounts = ledger.accounts()
    return (tuple(ledger.events()), accounts, *(ledger.standing(path) for path in accounts))


LIMITS = (RHO.account("sales"),)


# Reserving and settling


def kept(share: float | None, rho: int, delta: int) -> Account:
    """An account that keeps a part of its delta for conversion, with the limits it leads to."""
    return Account("sales", RHO.amount(rho, delta), share)


def test_the_part_of_delta_for_conversion_stays_while_anything_is_spent(ledger: Ledger) -> None:
    RHO.reserve(ledger, 10, 1, kept(0.5, 100, 100))
    before = contents(ledger)
    for other in (kept(0.8, 120, 40), kept(0.2, 80, 160), kept(0.8, 200, 200)):
        with fails_with("ledger_other_composition", match=r"delta_for_conversion: 0\.5"):
            RHO.reserve(ledger, 10, 1, other)
    assert contents(ledger) == before, "a refusal changes nothing"
    RHO.reserve(ledger, 10, 1, kept(0.5, 200, 50))
    assert ledger.spent("sales") == RHO.spent(20, 2, 2, 2)
    assert ledger.verify().sound


def test_a_part_of_delta_that_was_dropped_on_the_way_is_remembered(ledger: Ledger) -> None:
    whole = Account("sales/ana", RHO.amount(1000, 1000))
    RHO.reserve(ledger, 10, 1, kept(0.5, 100, 100), whole)
    RHO.reserve(ledger, 10, 1, whole)
    with pytest.raises(LedgerError, match=r"delta_for_conversion: 0\.5"):
        RHO.reserve(ledger, 10, 1, kept(0.8, 120, 40), whole)


def test_verification_finds_a_part_of_delta_that_was_changed_all_the_same(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: a ledger that does not look."""
    RHO.reserve(ledger, 10, 1, kept(0.5, 100, 100))
    monkeypatch.setattr(accounts, "_require_same_share", lambda *_: None)
    RHO.reserve(ledger, 10, 1, kept(0.8, 120, 40))
    found = ledger.verify()
    assert not found.sound
    assert "another part of delta" in str(found.broken)


def test_a_new_window_may_keep_another_part_of_delta(ledger: Ledger) -> None:
    RHO.reserve(ledger, 10, 1, kept(0.5, 100, 100))
    ledger.owner("olga").open_window("sales")
    RHO.reserve(ledger, 110, 1, kept(0.8, 120, 40))
    assert ledger.spent("sales") == RHO.spent(110, 1, 1, 1)
    assert ledger.verify().sound


def test_a_new_account_has_spent_nothing(ledger: Ledger) -> None:
    assert ledger.spent("sales") == Spent()
    assert ledger.history("sales") == ()


def test_limits_of_64_bits_do_not_overflow(ledger: Ledger, currency: Currency) -> None:
    account = currency.account("sales", MAX_LEDGER_UNITS, MAX_LEDGER_UNITS)
    currency.reserve(ledger, MAX_LEDGER_UNITS, MAX_LEDGER_UNITS, account)
    with pytest.raises(BudgetExceeded):
        currency.reserve(ledger, MAX_LEDGER_UNITS, MAX_LEDGER_UNITS, account)
    with pytest.raises(BudgetExceeded):
        currency.reserve(ledger, 1, 0, account)
    assert ledger.spent("sales") == currency.spent(MAX_LEDGER_UNITS, MAX_LEDGER_UNITS, 1, 1)


def test_a_refused_reservation_says_what_is_left_and_changes_nothing(
    ledger: Ledger, currency: Currency
) -> None:
    currency.reserve(ledger, 2**39, 2**60, currency.account("sales/alice", 2**40, 2**62))
    before = contents(ledger)
    with pytest.raises(BudgetExceeded) as refusal:
        currency.reserve(
            ledger,
            2**39,
            2**60,
            currency.account("sales", 2**40, 2**62),
            currency.account("sales/alice", 2**39 + 2**38, 2**61),
        )
    assert contents(ledger) == before
    assert refusal.value.remaining == (0.25, 0.25)
    assert refusal.value.requested == (0.5, 0.25)
    assert "the budget of sales/alice cannot pay" in str(refusal.value)
    assert f"{currency.word} 0.25 and delta 0.25 are left" in refusal.value.reason
    (strange,) = {"rho", "epsilon"} - {currency.word}
    assert strange not in refusal.value.reason


@pytest.mark.parametrize("bobs", [(2**39, 2**60), (2**39 + 77, 2**60 + 77)])
@pytest.mark.parametrize("alices", [(2**40, 2**62), None])
def test_a_refusal_tells_no_figures_of_an_account_that_others_pay_from_too(
    ledger: Ledger, currency: Currency, bobs: tuple[int, int], alices: tuple[int, int] | None
) -> None:
    owner = ledger.owner("olga")
    owner.create("sales/alice")
    owner.set_limits("sales", currency.amount(2**39 + 2**38, 2**61))
    currency.reserve(ledger, *bobs, currency.account("sales/bob", 2**40, 2**62))
    account = () if alices is None else (currency.account("sales/alice", *alices),)
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.reserve(
            "sales/alice", currency.amount(2**39, 2**60), query="q", plan="{}", limits=account
        )
    assert refusal.value.reason == (
        "the total of all analysts leaves no room for this query: "
        f"it may cost {currency.word} 0.5 and delta 0.25"
    )
    assert refusal.value.remaining == (None if alices is None else (1.0, 1.0))


def test_a_lowered_limit_leaves_nothing_rather_than_a_negative_amount(
    ledger: Ledger, currency: Currency
) -> None:
    currency.reserve(ledger, 100, 100)
    with pytest.raises(BudgetExceeded) as refusal:
        currency.reserve(ledger, 1, 0, currency.account("sales", 50, 50))
    assert refusal.value.remaining == (0.0, 0.0)


def test_a_charge_this_ledger_did_not_make_is_refused(ledger: Ledger, currency: Currency) -> None:
    charge = currency.reserve(ledger, 100, 7)
    for forged in (
        Charge(charge.entry + 1, charge.account, currency.amount(100, 7)),
        Charge(charge.entry, charge.account, currency.amount(101, 7)),
        Charge(charge.entry, charge.account, currency.amount(100, 8)),
        Charge(charge.entry, "sales/alice", currency.amount(100, 7)),
    ):
        with fails_with("ledger_unknown_entry"):
            ledger.settle(forged, currency.amount(0, forged.amount.delta))
    assert ledger.spent("sales") == currency.spent(100, 7, 1, 1)


def test_what_was_added_up_in_two_ways_is_limited_in_neither(ledger: Ledger) -> None:
    """Analysts of a dataset without a limit of its own may be charged in different ways."""
    RHO.reserve(ledger, 100, 1, RHO.account("sales/ana"))
    GAUSSIAN.reserve(ledger, 100, 1, GAUSSIAN.account("sales/bo"))
    assert ledger.spent("sales").amount == Amount(rho=100, gaussian=100, delta=2)
    assert ledger.spent("sales").amount.loss == PrivacyLoss(200 / 2**40, 2 / 2**62)
    for currency in (RHO, GAUSSIAN):
        limits = (currency.account("sales"), currency.account("sales/cy"))
        with fails_with("ledger_other_composition"):
            currency.reserve(ledger, 1, 1, *limits)
    assert ledger.verify().sound


def test_a_cost_in_another_currency_gives_nothing_back(ledger: Ledger, currency: Currency) -> None:
    charge = currency.reserve(ledger, 100, 7)
    assert charge.lowered_to(currency.other.amount(1, 7)) == charge.amount
    assert charge.lowered_to(currency.amount(1, 7)) == currency.amount(1, 7)
    assert charge.lowered_to(Amount(delta=7)) == currency.amount(0, 7)


def test_no_charge_and_no_limit_is_in_two_currencies(ledger: Ledger, currency: Currency) -> None:
    both = Amount(**{currency.name: 5, currency.other.name: 5})
    with pytest.raises(ParameterError, match="not in several"):
        Account("sales", both)
    with pytest.raises(ParameterError, match="not in several"):
        ledger.reserve("sales", both, query="q", plan=PLAN, limits=[currency.account("sales")])


def test_an_account_whose_composition_was_changed_after_a_charge_is_refused_until_it_is_restored(
    ledger: Ledger, currency: Currency
) -> None:
    former = {"rho": "zcdp", "epsilon": "basic", "gaussian": "gdp"}[currency.name]
    charge = currency.reserve(ledger, 100, 7)
    switched = currency.other.account("sales")
    before = contents(ledger)
    for payers in [(switched,), (currency.other.account("sales/alice"), switched)]:
        with fails_with("ledger_other_composition") as refusal:
            currency.other.reserve(ledger, 1, 1, *payers)
        assert f"the account sales was charged under `composition: {former}`" in str(refusal.value)
        assert f"restore `composition: {former}`" in (refusal.value.hint or "")
        assert "another name" in (refusal.value.hint or "")
    assert contents(ledger) == before
    ledger.settle(charge, currency.amount(1, 7))
    with pytest.raises(LedgerError):
        currency.other.reserve(ledger, 1, 1, switched)
    currency.reserve(ledger, 1, 1)
    assert ledger.spent("sales") == currency.spent(2, 8, 2, 1)


def test_an_account_that_was_refunded_everything_but_delta_may_change_its_composition(
    ledger: Ledger, currency: Currency
) -> None:
    ledger.settle(currency.reserve(ledger, 100, 7), currency.amount(0, 7))
    account = currency.other.account("sales", 5, 10)
    currency.other.reserve(ledger, 5, 3, account)
    with pytest.raises(BudgetExceeded):
        currency.other.reserve(ledger, 0, 1, account)
    assert ledger.spent("sales") == currency.other.spent(5, 10, 2, 1)


@pytest.mark.parametrize("bad", [True, 1.0, -1, 2**63, "1", None, float("nan")])
def test_amounts_are_integers_of_64_bits(file_ledger: Ledger, bad: Any, currency: Currency) -> None:
    charge = currency.reserve(file_ledger, 1, 1)
    refusals: list[Callable[[], object]] = [
        lambda: currency.reserve(file_ledger, bad, 1),
        lambda: currency.reserve(file_ledger, 1, bad),
        lambda: file_ledger.settle(charge, currency.amount(bad, 1)),
        lambda: file_ledger.settle(charge, currency.amount(1, bad)),
        lambda: file_ledger.settle(Charge(bad, "sales", charge.amount), charge.amount),
        lambda: file_ledger.history("sales", bad),
        lambda: currency.account("sales", bad, 1),
        lambda: currency.account("sales", 1, bad),
    ]
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()
    assert file_ledger.spent("sales") == currency.spent(1, 1, 1, 1)


def test_a_charge_of_nothing_or_to_nobody_is_refused(
    file_ledger: Ledger, currency: Currency
) -> None:
    with pytest.raises(ParameterError):
        currency.reserve(file_ledger, 0, 0)
    with pytest.raises(ParameterError):
        currency.reserve(file_ledger, 1, 1, currency.account("sales"), currency.account("other"))
    with pytest.raises(ParameterError):
        currency.reserve(
            file_ledger, 1, 1, currency.account("sales"), currency.account("sales", 5, 5)
        )
    with pytest.raises(ParameterError):
        file_ledger.reserve(
            "sales",
            currency.amount(1, 1),
            query="f1",
            plan=PLAN,
            limits=["sales"],  # type: ignore[list-item]
        )


@pytest.mark.parametrize(
    "bad", ["", "/", "a/", "/a", "a//b", " a", "a/ b", "a\nb", "a\0b", "\ud800", "a" * 513, 5, None]
)
def test_malformed_account_paths_are_refused(file_ledger: Ledger, bad: Any) -> None:
    def reserve(path: Any) -> object:
        return file_ledger.reserve(path, RHO.amount(1, 1), query="f1", plan=PLAN, limits=LIMITS)

    refusals: tuple[Callable[[], object], ...] = (
        lambda: Account(bad, Amount()),
        lambda: file_ledger.spent(bad),
        lambda: reserve(bad),
    )
    for refused in refusals:
        with pytest.raises(ParameterError):
            refused()


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 1025, None])
def test_a_malformed_fingerprint_is_refused(file_ledger: Ledger, bad: Any) -> None:
    with pytest.raises(ParameterError):
        file_ledger.reserve("sales", RHO.amount(1, 1), query=bad, plan=PLAN, limits=LIMITS)


@pytest.mark.parametrize("bad", ["", "{", "[" * 100_000, '"\ud800"', None, {"a": 1}])
def test_a_plan_that_is_not_json_is_refused(file_ledger: Ledger, bad: Any) -> None:
    with pytest.raises(ParameterError):
        file_ledger.reserve("sales", RHO.amount(1, 1), query="f1", plan=bad, limits=LIMITS)


def test_history_tells_what_happened_newest_first(ledger: Ledger, currency: Currency) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    first = currency.reserve(
        ledger, 100, 7, currency.account("sales/alice"), currency.account("sales")
    )
    second = currency.reserve(ledger, 50, 3)
    ledger.settle(first, currency.amount(60, 7), b"answer")
    newest, oldest = ledger.history("sales")
    assert (newest.entry, oldest.entry) == (second.entry, first.entry)
    assert (newest.account, oldest.account) == ("sales", "sales/alice")
    assert (oldest.query, oldest.plan) == ("f1", PLAN)
    assert (oldest.reserved, oldest.charged) == (currency.amount(100, 7), currency.amount(60, 7))
    assert (newest.reserved, newest.charged) == (currency.amount(50, 3), None)
    assert (newest.stored, oldest.stored) == (False, True)
    assert newest.settled is None
    assert oldest.settled is not None
    for moment in map(datetime.fromisoformat, (newest.created, oldest.created, oldest.settled)):
        assert moment.utcoffset() == timedelta(0)
        assert before <= moment <= datetime.now(UTC) + timedelta(milliseconds=1)
    assert ledger.history("sales", 1) == (newest,)
    assert ledger.history("sales", 0) == ()
    assert ledger.history("sales", before=second.entry) == (oldest,)
    assert ledger.history("sales/alice") == (oldest,)
    assert ledger.history("sales/al") == ledger.history("ales") == ()


# The tree


def test_an_account_above_the_charged_one_refuses_it_for_all(
    ledger: Ledger, currency: Currency
) -> None:
    owner = ledger.owner("olga")
    owner.create("sales")
    owner.set_limits("sales", currency.amount(10, 10))
    alice, bob = currency.account("sales/alice", 8, 8), currency.account("sales/bob", 8, 8)
    currency.reserve(ledger, 8, 1, alice)
    with pytest.raises(BudgetExceeded, match="the total of all analysts leaves no room"):
        currency.reserve(ledger, 3, 1, bob)
    currency.reserve(ledger, 2, 1, bob)
    with pytest.raises(BudgetExceeded, match="the budget of sales/alice cannot pay"):
        currency.reserve(ledger, 1, 1, alice)
    assert ledger.spent("sales") == currency.spent(10, 2, 2, 2)
    assert ledger.spent("sales/alice") == currency.spent(8, 1, 1, 1)
    assert ledger.spent("sales/bob") == currency.spent(2, 1, 1, 1)


def test_a_session_has_an_account_of_its_own_below_its_analyst(
    ledger: Ledger, currency: Currency
) -> None:
    alice = currency.account("sales/alice", 10, 10)
    session = currency.account("sales/alice/notebook", 4, 4)
    charge = currency.reserve(ledger, 4, 1, alice, session)
    with pytest.raises(BudgetExceeded, match="sales/alice/notebook"):
        currency.reserve(ledger, 1, 1, alice, session)
    ledger.settle(charge, currency.amount(1, 1))
    for path in ("sales", "sales/alice", "sales/alice/notebook"):
        assert ledger.total(path) == sum_of_events(ledger, path) == currency.spent(1, 1, 1, 0)
    assert ledger.spent("sales/alice/other") == Spent()


def test_an_account_nobody_gave_a_budget_is_refused(ledger: Ledger, currency: Currency) -> None:
    owner = ledger.owner("olga")
    owner.create("sales")
    owner.set_limits("sales", currency.amount(10, 10))
    for path in ("sales/mallory", "sales/mallory/notebook", "other"):
        with fails_with("unknown_account"):
            ledger.reserve(path, currency.amount(1, 1), query="f1", plan=PLAN)
    assert ledger.accounts() == ("sales",)
    owner.create("sales/mallory")
    ledger.reserve("sales/mallory/notebook", currency.amount(1, 1), query="f1", plan=PLAN)
    owner.create("free")
    with pytest.raises(UnknownName):  # known, but nobody has limited what it may spend
        ledger.reserve("free", currency.amount(1, 1), query="f1", plan=PLAN)


def test_a_dataset_without_limits_adds_up_analysts_of_both_compositions(ledger: Ledger) -> None:
    RHO.reserve(ledger, 5, 1, RHO.account("sales/alice"))
    EPSILON.reserve(ledger, 7, 1, EPSILON.account("sales/bob"))
    assert ledger.spent("sales").amount == Amount(5, 7, 2)


def test_sums_that_would_not_fit_into_64_bits_are_refused(ledger: Ledger) -> None:
    RHO.reserve(ledger, MAX_LEDGER_UNITS, 1, RHO.account("sales/alice", MAX_LEDGER_UNITS))
    with fails_with("ledger_overflow"):
        RHO.reserve(ledger, 1, 1, RHO.account("sales/bob"))
    ledger.owner("olga").open_window("sales")
    RHO.reserve(ledger, 1, 1, RHO.account("sales/bob"))
    assert ledger.total("sales").amount == RHO.amount(MAX_LEDGER_UNITS, 2)


def test_a_limit_that_the_policy_changed_goes_into_the_chain_once(
    ledger: Ledger, currency: Currency
) -> None:
    for units in (10, 10, 12, 12):
        currency.reserve(ledger, 1, 1, currency.account("sales", units, 10))
    told = [event.amount for event in ledger.events() if event.kind == "policy"]
    assert told == [currency.amount(10, 10), currency.amount(12, 10)]
    assert ledger.standing("sales")[0].limits == (currency.amount(12, 10),)


def test_standing_and_estimate_say_what_can_still_be_asked(
    ledger: Ledger, currency: Currency
) -> None:
    owner = ledger.owner("olga")
    owner.create("sales")
    owner.set_limits("sales", currency.amount(100, 50), terms='{"epsilon": 1.5}')
    alice = currency.account("sales/alice", 70, 90)
    assert ledger.estimate("sales/alice", currency.amount(10, 1), [alice]) == 7
    ledger.settle(currency.reserve(ledger, 20, 10, alice), currency.amount(15, 10))
    above, below = ledger.standing("sales/alice", [alice])
    assert (above.path, above.left) == ("sales", currency.amount(85, 40))
    assert above.terms == '{"epsilon": 1.5}'
    assert (below.path, below.left) == ("sales/alice", currency.amount(55, 80))
    assert below.window.spent == below.total == currency.spent(15, 10, 1, 0)
    for units, delta, count in [(10, 1, 5), (1, 4, 10), (0, 1, 40), (56, 1, 0)]:
        amount = currency.amount(units, delta)
        assert ledger.estimate("sales/alice", amount, [alice]) == count
        assert ledger.estimate("sales/alice", amount) == count
    assert ledger.estimate("sales/alice", currency.other.amount(1, 0), [alice]) == 0
    assert ledger.estimate("elsewhere", currency.amount(1, 0)) is None
    for _ in range(5):
        currency.reserve(ledger, 10, 1, alice)
    with pytest.raises(BudgetExceeded):
        currency.reserve(ledger, 10, 1, alice)


# Nothing else lowers what was spent


def test_the_ledger_has_no_call_that_refunds() -> None:
    public = {name for name in dir(Ledger) if not name.startswith("_")}
    queries = {"reserve", "settle", "settle_together", "fail", "stored", "stored_alike"}
    queries |= {"stored_on_rows", "stored_on_each", "release_parts"}
    streams = {"create_stream", "begin_step", "begin_steps", "publish_step", "fail_step"}
    streams |= {"drop_stream", "streams", "all_streams", "step_releases"}
    streams |= {"readable_streams", "ended_streams", "note_read", "streams_read"}
    reports = {
        "spent",
        "total",
        "standing",
        "estimate",
        "windows",
        "accounts",
        "history",
        "renames",
        "suspensions",
    }
    chain = {"events", "head", "position", "verify", "owner", "now"}
    assert public == {"open", "close"} | queries | streams | reports | chain
