"""An account that its owner renames keeps all that it spent, and what it was called is closed."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import PLAN, RHO, raw
from test_ledger_ties import forging

from dpsql.errors import BudgetExceeded, LedgerError, ParameterError, UnknownName
from dpsql.ledger import Account, Cause, Charge, Kind, Ledger, Renewal, accounts
from dpsql.ledger.chain import FIELDS, hash_of
from dpsql.ledger.names import NamedAccount
from dpsql.ledger.records import line_of
from dpsql.ledger.sqlite_file import SQLiteBackend
from dpsql.privacy.accounting.zcdp import Amount

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

ANA, ZOE, BOB = (f"sales/{name}" for name in ("ana", "zoe", "bob"))


def ask(ledger: Ledger, path: str, units: int = 10, query: str = "f1", most: int = 100) -> Charge:
    limit = RHO.account("/".join(path.split("/")[:2]), most, most)
    return ledger.reserve(path, RHO.amount(units, 1), query=query, plan=PLAN, limits=[limit])


def code_of(action: Any, *given: Any, **named: Any) -> str:
    """The code of the ledger's refusal, which tells no name that was not asked for."""
    with pytest.raises((LedgerError, ParameterError, UnknownName)) as refusal:
        action(*given, **named)
    return refusal.value.code


def reading(ledger: Ledger, path: str) -> list[Any]:
    """All that can be asked or told under a name; each is one call."""
    stream = RHO.account(path, 100, 100)
    return [
        lambda: ask(ledger, path),
        lambda: ask(ledger, f"{path}/new"),
        lambda: RHO.stream(ledger, "another", stream),
        lambda: ledger.begin_step(path, "s1", 4),
        lambda: ledger.drop_stream(path, "s1"),
        lambda: ledger.streams(path),
        lambda: list(ledger.step_releases(path, "s1")),
        lambda: ledger.stored(path, "f1"),
        lambda: ledger.stored_alike(path, "f", 9),
        lambda: ledger.stored_on_rows(path, "f1", 9),
        lambda: ledger.stored_on_each(path, ["f1"], 9),
        lambda: ledger.spent(path),
        lambda: ledger.total(path),
        lambda: ledger.standing(f"{path}/notebook"),
        lambda: ledger.windows(path),
        lambda: ledger.history(path),
        lambda: ledger.suspensions(path),
        lambda: ledger.estimate(path, RHO.amount(1, 1)),
    ]


def test_all_that_was_spent_goes_along_and_the_old_name_is_closed(ledger: Ledger) -> None:
    owner = ledger.owner("olga")
    ledger.settle(ask(ledger, ANA, 30), RHO.amount(20, 1), b"answer")
    ask(ledger, ANA, 40, "unsettled")
    owner.set_limits(f"{ANA}", RHO.amount(90, 90), terms='{"note": 1}')
    RHO.stream(ledger, "s1", RHO.account(ANA, 100, 100), name="visits")
    ledger.publish_step(ledger.begin_step(ANA, "s1", 1), [b"step"])
    ledger.settle(ask(ledger, f"{ANA}/notebook", 5), RHO.amount(4, 1), b"below")
    spent, dataset = ledger.spent(ANA), ledger.spent("sales")
    before = ledger.history(ANA)

    owner.rename(ANA, ZOE)

    assert (ledger.spent(ZOE), ledger.spent("sales")) == (spent, dataset)
    assert ledger.accounts() == ("sales", ZOE, f"{ZOE}/notebook")
    assert [(e.entry, e.charged, e.stored) for e in ledger.history(ZOE)] == [
        (e.entry, e.charged, e.stored) for e in before
    ]
    assert {e.account for e in ledger.history("sales")} == {ZOE, f"{ZOE}/notebook"}
    kept = ledger.stored(ZOE, "f1")
    assert kept is not None
    assert (kept.payload, kept.account) == (b"below", f"{ZOE}/notebook")
    (stream,) = ledger.streams(ZOE)
    assert (stream.account, stream.begun, ledger.all_streams()) == (ZOE, 1, (stream,))
    assert [(s, list(p)) for s, p in ledger.step_releases(ZOE, "s1")] == [(1, [b"step"])]
    assert ledger.begin_step(ZOE, "s1", 2).step == 2
    standing = ledger.standing(f"{ZOE}/notebook")
    assert [each.path for each in standing] == ["sales", ZOE, f"{ZOE}/notebook"]
    assert standing[1].terms == '{"note": 1}'
    assert {code_of(act) for act in reading(ledger, ANA)} == {"account_renamed"}
    with pytest.raises(BudgetExceeded) as refusal:  # the owner's limit goes along as well
        ask(ledger, ZOE, 90 - spent.amount.rho + 1)
    assert ZOE in refusal.value.reason
    assert ANA not in refusal.value.reason
    ask(ledger, ZOE, 1, most=spent.amount.rho + 1)
    (renamed,) = ledger.renames()
    assert (renamed.former, renamed.given, renamed.name, renamed.who) == (ANA, ZOE, ZOE, "olga")
    assert ledger.verify().sound


def test_refusals_under_a_former_name_tell_the_new_one_to_the_owner_alone(ledger: Ledger) -> None:
    ask(ledger, ANA)
    owner = ledger.owner("olga")
    owner.rename(ANA, ZOE)
    for act in reading(ledger, ANA):
        with pytest.raises(LedgerError) as refusal:
            act()
        assert "zoe" not in f"{refusal.value.reason}{refusal.value.hint}"
    acts: list[Any] = [
        lambda: owner.create(ANA),
        lambda: owner.create(f"{ANA}/notebook"),
        lambda: owner.rename(ANA, "sales/kim"),
        lambda: owner.set_limits(ANA, None),
        lambda: owner.renew(ANA, Renewal.DAY),
        lambda: owner.open_window(ANA),
        lambda: owner.suspend(ANA),
        lambda: owner.reopen(ANA),
        lambda: owner.forget(ANA),
    ]
    head = ledger.head()
    for act in acts:
        with fails_with("account_renamed") as renamed:
            act()
        assert ZOE in (renamed.value.hint or "")
    assert ledger.head() == head


def test_a_rename_revives_no_suspended_account(ledger: Ledger) -> None:
    owner = ledger.owner("olga")
    failing, running = ask(ledger, ANA), ask(ledger, ANA)
    ledger.fail(failing, ANA, Cause.ENGINE)
    owner.rename(ANA, ZOE)
    with fails_with("account_suspended") as refusal:
        ask(ledger, ZOE)
    assert "reopen sales/zoe" in (refusal.value.hint or "")
    assert "ana" not in f"{refusal.value.reason}{refusal.value.hint}"
    assert code_of(ledger.settle, running, RHO.amount(1, 1), b"x") == "account_suspended"
    assert [event.account for event in ledger.suspensions(ZOE)] == [ZOE]
    assert ledger.standing(ZOE)[-1].suspended == ledger.suspensions(ZOE)[0].time
    owner.reopen(ZOE)
    ledger.settle(running, RHO.amount(1, 1), b"x")
    assert ledger.verify().sound


def test_what_runs_meanwhile_is_settled_and_its_failure_recorded(ledger: Ledger) -> None:
    """Its price is reserved already; whoever asked knows the account by the name before."""
    RHO.stream(ledger, "s1", RHO.account(ANA, 100, 100))
    answered, failing = ask(ledger, ANA, 10), ask(ledger, f"{ANA}/notebook", 10)
    step, lost = ledger.begin_steps(ANA, "s1", [1, 2])
    ledger.owner("olga").rename(ANA, ZOE)
    ledger.settle(answered, RHO.amount(5, 1), b"answer")
    ledger.publish_step(step, [b"step"])
    assert ledger.stored(ZOE, "f1") is not None
    ledger.fail_step(lost, ANA, Cause.TIME)
    ledger.owner("olga").reopen(ZOE)
    ledger.fail(failing, ANA, Cause.ENGINE)
    assert ledger.standing(ZOE)[-1].suspended
    assert ledger.spent(ZOE) == RHO.spent(20 + 5 + 10, 2 + 1 + 1, 3, 1)
    assert ledger.verify().sound


def test_a_name_means_one_account_for_ever(ledger: Ledger) -> None:
    owner = ledger.owner("olga")
    ask(ledger, ANA)
    ask(ledger, BOB)
    assert code_of(owner.rename, ANA, BOB) == "ledger_name_taken"
    assert code_of(owner.rename, ANA, ANA) == "ledger_name_taken"
    owner.rename(ANA, ZOE)
    assert code_of(owner.rename, BOB, ANA) == "ledger_name_taken"
    assert code_of(owner.rename, BOB, ZOE) == "ledger_name_taken"
    owner.rename(ZOE, "sales/kim")
    assert code_of(owner.rename, BOB, ZOE) == "ledger_name_taken"
    assert code_of(owner.create, ZOE) == "account_renamed"
    assert code_of(owner.create, "sales/kim") == "ledger_account_exists"
    owner.rename("sales/kim", ANA)  # its own name again: a mistake can be mended
    ask(ledger, ANA)
    assert code_of(ask, ledger, "sales/kim") == "account_renamed"
    owner.rename(ANA, ZOE)
    assert ledger.spent(ZOE).queries == 2
    told = [(each.former, each.given, each.name) for each in ledger.renames()]
    kim = "sales/kim"
    assert told == [(ANA, ZOE, ZOE), (ZOE, kim, ZOE), (kim, ANA, ZOE), (ANA, ZOE, ZOE)]
    assert ledger.verify().sound


def test_what_cannot_be_renamed_is_refused_unchanged(ledger: Ledger) -> None:
    owner = ledger.owner("olga")
    ask(ledger, ANA)
    head = ledger.head()
    names = ("zoe", "other/zoe", "sales", "sales/ana/zoe", "sales/", "sales/z\u200be", "", None)
    for name in names:
        assert code_of(owner.rename, ANA, name) == "bad_parameter"
    assert code_of(owner.rename, "sales/nobody", ZOE) == "unknown_account"
    assert ledger.head() == head


def test_windows_and_the_share_of_delta_go_along(ledger: Ledger) -> None:
    owner = ledger.owner("olga")

    def charge(path: str, share: float) -> None:
        limit = Account(path, RHO.amount(int(200 * share), 100), share)
        ledger.reserve(path, RHO.amount(10, 1), query="f1", plan=PLAN, limits=[limit])

    charge(ANA, 0.5)
    owner.open_window(ANA)
    charge(ANA, 0.5)
    owner.rename(ANA, ZOE)
    assert [window.spent.queries for window in ledger.windows(ZOE)] == [1, 1]
    with fails_with("ledger_other_composition") as refusal:
        charge(ZOE, 0.25)
    assert ZOE in refusal.value.reason
    assert ledger.total(ZOE).queries == 2


def test_of_charges_while_it_is_renamed_none_is_lost_or_made_under_both_names(
    place: str | Path,
) -> None:
    with Ledger.open(place) as ledger:
        ask(ledger, ANA, 1)
    refused: list[str] = []
    paid: list[str] = []

    def asking(path: str) -> None:
        with Ledger.open(place) as mine:
            for _ in range(30):
                try:
                    ask(mine, path, 1)
                    paid.append(path)
                except LedgerError as error:
                    refused.append(error.code)

    with Ledger.open(place) as ledger:
        threads = [threading.Thread(target=asking, args=(ANA,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        ledger.owner("olga").rename(ANA, ZOE)
        for thread in threads:
            thread.join()
        assert set(refused) <= {"account_renamed"}
        assert len(paid) + len(refused) == 90
        assert ledger.spent(ZOE).queries == 1 + len(paid)
        kinds = [event.kind for event in ledger.events()]
        assert Kind.RESERVE not in kinds[kinds.index(Kind.RENAME) :]
        assert ledger.verify().sound


def test_random_renames_agree_with_a_dictionary_of_names(ledger: Ledger) -> None:
    draw, owner = random.Random(5), ledger.owner("olga")
    names = [f"sales/{name}" for name in "abcdefgh"]
    whose = {name: name for name in names[:3]}  # every name that was ever given, and its account
    present = dict(whose)  # the name of each account
    queries = dict.fromkeys(present, 0)
    for name in present:
        owner.create(name)
    for _ in range(150):
        path, other = draw.choice(names), draw.choice(names)
        open_ = path in present.values()
        key = whose.get(path, "")
        if draw.random() < 0.5:
            if open_:
                ask(ledger, path, 1, most=1000)
                queries[key] += 1
            elif key:
                assert code_of(ask, ledger, path) == "account_renamed"
        elif not open_:
            wanted = "account_renamed" if key else "unknown_account"
            assert code_of(owner.rename, path, other) == wanted
        elif path == other or whose.get(other, key) != key:
            assert code_of(owner.rename, path, other) == "ledger_name_taken"
        else:
            owner.rename(path, other)
            whose[other], present[key] = key, other
    assert ledger.accounts() == ("sales", *sorted(present.values()))
    assert {key: ledger.spent(name).queries for key, name in present.items()} == queries
    assert sum(queries.values()) == ledger.spent("sales").queries > 20
    assert len(ledger.renames()) > 5
    assert ledger.verify().sound


def test_a_ledger_that_looks_up_no_names_fails_these_checks(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(ledger, ANA)
    ledger.owner("olga").rename(ANA, ZOE)

    def as_given(sql: object, path: str) -> tuple[NamedAccount, ...]:
        return tuple(NamedAccount(each, each) for each in line_of(path))

    monkeypatch.setattr(accounts, "line_by_name", as_given)
    ask(ledger, ANA)  # nothing refuses it
    assert code_of(ask, ledger, ZOE) == "ledger_failed"  # the database keeps the rule that it can
    monkeypatch.undo()
    assert ledger.spent(ZOE).queries == 2


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO events SELECT seq + 1, at, who, 'rename', 'sales/bob', NULL, NULL, 0, "
        "'{name}', '{{}}', 0, 0, 0, 0, NULL, '[]', hash FROM events ORDER BY seq DESC LIMIT 1",
        "INSERT INTO accounts (path, opened) SELECT '{name}', max(opened) FROM windows",
    ],
)
@pytest.mark.parametrize("name", [ANA, ZOE])
def test_the_database_itself_keeps_names_apart(path: Path, statement: str, name: str) -> None:
    with Ledger.open(path) as ledger:
        ask(ledger, ANA)
        ask(ledger, BOB)
        ledger.owner("olga").rename(ANA, ZOE)
    with raw(path) as connection, pytest.raises(sqlite3.IntegrityError) as refusal:
        connection.execute(statement.format(name=name))
    assert "REPLACE" in str(refusal.value) or "one account for ever" in str(refusal.value)


def test_an_edited_rename_is_noticed_by_the_next_charge(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for name in (ANA, BOB):
            ask(ledger, name)
        ledger.owner("olga").rename(ANA, ZOE)
    with forging(path) as connection:
        connection.execute("UPDATE events SET account = 'sales/bob' WHERE kind = 'rename'")
    with Ledger.open(path) as ledger:
        for name in (ZOE, BOB):
            assert code_of(ask, ledger, name) == "ledger_corrupt"
        assert not ledger.verify().sound


def test_a_rename_that_was_taken_out_is_noticed_by_whoever_was_renamed(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ask(ledger, ANA)
        ledger.owner("olga").rename(ANA, ZOE)
        ask(ledger, BOB)
    with forging(path) as connection:
        connection.execute("DELETE FROM events WHERE kind = 'rename'")
    with Ledger.open(path) as ledger:
        assert code_of(ask, ledger, ANA) == "ledger_corrupt"
        assert not ledger.verify().sound


def test_the_chain_says_what_happened_and_goes_on_with_the_first_name(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ask(ledger, ANA)
        ledger.owner("olga").rename(ANA, ZOE)
        ask(ledger, ZOE)
        told = [event for event in ledger.events() if event.kind in ("rename", "reserve")]
        renamed, charged = told[-2:]
        assert (renamed.kind, renamed.account, renamed.query) == ("rename", ANA, ZOE)
        assert (renamed.who, charged.account) == ("olga", ANA)
    with raw(path) as connection:  # as docs/ledger.md says, without dpsql
        rows = connection.execute(f"SELECT {FIELDS}, hash FROM events ORDER BY seq").fetchall()
    previous = bytes(32)
    for *fields, own in rows:
        previous = hash_of(previous, tuple(fields))
        assert previous == own


def test_who_may_only_charge_may_not_rename(postgres_server: Server) -> None:
    import psycopg
    from test_ledger_postgres import DOCS

    url = postgres_server.without_ledger()
    with Ledger.open(url) as ledger:
        ask(ledger, ANA)
    text = DOCS.read_text()
    grants = text[text.index("CREATE ROLE analysts;") :]
    grants = grants[: grants.index("```")].replace("CREATE ROLE analysts;", "")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS renaming")
        admin.execute(b"CREATE ROLE renaming LOGIN PASSWORD 'p'")
        admin.execute("GRANT CONNECT ON DATABASE postgres TO renaming")
        admin.execute(grants.replace("analysts", "renaming").encode())
    try:
        with Ledger.open(postgres_server.url("postgres", "renaming", "p")) as ledger:
            ask(ledger, ANA)
            assert code_of(ledger.owner("eve").rename, ANA, ZOE) == "ledger_read_only"
            assert ledger.renames() == ()
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("DROP OWNED BY renaming")
            admin.execute("DROP ROLE renaming")


def look_plan(number: int) -> str:
    return (
        '{"blocks": [{"delta": 0.0, "mechanism": "left-out look", "rho": 1e-06}], "statement": "", '
        f'"values": ["{number}"]}}'
    )


def test_estimates_are_counted_for_themselves_in_every_window(ledger: Ledger) -> None:
    limit = [RHO.account(ANA, 1000, 1000)]
    told = '{"blocks": [], "statement": "\\"mechanism\\": \\"left-out look\\""}'  # by an analyst

    def charge(path: str, plan: str) -> Charge:
        return ledger.reserve(path, Amount(rho=1), query="f", plan=plan, limits=limit)

    for number in range(3):
        charge(ANA, look_plan(number))
    charge(f"{ANA}/notebook", look_plan(3))
    ledger.settle(charge(ANA, look_plan(5)), Amount())  # its question did not fit
    ledger.settle(charge(ANA, look_plan(6)), Amount(rho=1), b"look")
    charge(ANA, told)
    ledger.owner("olga").open_window(ANA)
    charge(f"{ANA}/notebook", look_plan(4))
    charge(ANA, PLAN)
    ledger.owner("olga").rename(ANA, ZOE)
    told_of = [(w.spent.queries, w.spent.looks, w.spent.returned) for w in ledger.windows(ZOE)]
    assert told_of == [(7, 5, 1), (2, 1, 0)]
    assert (ledger.spent(ZOE).looks, ledger.total(ZOE).looks) == (1, 6)
    assert ledger.total(f"{ZOE}/notebook").looks == 2
    assert (ledger.total("sales").looks, ledger.total("sales").returned) == (6, 1)
    # Everybody's are not counted for one account: that would take as long as there are many.
    dataset, own = ledger.standing(ZOE)
    assert (dataset.total.looks, own.total.looks) == (0, 6)
    assert [w.spent.looks for w in ledger.windows("sales", estimates=False)] == [0]


def renamed_and_killed(path: Path, statement: int) -> bool:
    """Rename in a process that is killed before its n-th statement; tell whether it was."""
    child = os.fork()
    if child == 0:
        run, count = SQLiteBackend.execute, 0

        def dying(self: SQLiteBackend, sql: str, values: Any = ()) -> Any:
            nonlocal count
            count += 1
            if count == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return run(self, sql, values)

        ledger = Ledger.open(path)
        SQLiteBackend.execute = dying  # type: ignore[method-assign]
        ledger.owner("olga").rename(ANA, ZOE)
        os._exit(0)
    return bool(os.WIFSIGNALED(os.waitpid(child, 0)[1]))


@pytest.mark.slow
def test_a_rename_that_is_killed_anywhere_has_happened_whole_or_not_at_all(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.settle(ask(ledger, ANA, 30), RHO.amount(20, 1), b"answer")
    statement = 1
    while renamed_and_killed(path, statement):
        with Ledger.open(path) as ledger:
            assert ledger.accounts() == ("sales", ANA)
            assert ledger.spent(ANA) == RHO.spent(20, 1, 1, 0)
            assert ledger.verify().sound
        statement += 1
    assert statement > 10
    with Ledger.open(path) as ledger:
        assert ledger.accounts() == ("sales", ZOE)
        assert ledger.spent(ZOE) == RHO.spent(20, 1, 1, 0)
        assert ledger.verify().sound
