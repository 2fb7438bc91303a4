"""What is PostgreSQL's own: servers, schemas, roles, locks and broken connections."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.failures import fails_with
from helpers.ledgers import PLAN, RHO, finish, start

from dpsql.errors import LedgerError
from dpsql.ledger import Ledger
from dpsql.ledger.releases import _ON_ROWS

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

ENDED = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'dpsql'"
)
DOCS = Path(__file__).parents[2] / "docs" / "ledger.md"


@pytest.fixture
def url(postgres_server: Server) -> str:
    return postgres_server.without_ledger()


@pytest.fixture
def admin(url: str) -> Iterator[Any]:
    """A connection of the superuser's, beside the ledger's."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = dpsql_ledger")
        yield connection


def test_every_commit_is_synced_and_waiting_has_an_end(url: str) -> None:
    with Ledger.open(url, busy_timeout=7) as ledger:
        for setting, value in [
            ("synchronous_commit", "on"),
            ("lock_timeout", "7s"),
            ("idle_in_transaction_session_timeout", "1min"),
            ("search_path", "dpsql_ledger, pg_temp"),
            ("fsync", "on"),
        ]:
            shown = ledger._link.use(methodcaller("execute", f"SHOW {setting}"))
            assert shown == [(value,)]


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_could_lose_commits_is_refused(url: str, admin: Any, setting: str) -> None:
    def set_to(value: str) -> None:
        admin.execute(f"ALTER SYSTEM SET {setting} = {value}")
        admin.execute("SELECT pg_reload_conf()")
        while admin.execute(f"SHOW {setting}").fetchone() != (value,):
            pass

    set_to("off")
    try:
        with pytest.raises(LedgerError) as refusal:
            Ledger.open(url)
    finally:
        set_to("on")
    assert refusal.value.code == "ledger_unsupported"
    assert setting in refusal.value.reason
    Ledger.open(url).close()


def test_what_cannot_be_reached_is_a_clear_error(url: str, postgres_server: Server) -> None:
    address = f"127.0.0.1:{postgres_server.port}"
    secret = postgres_server.password
    cases = [
        (f"postgresql://dpsql:wrong@{address}/postgres", "ledger_cannot_open"),
        (f"postgresql://dpsql:{secret}@{address}/nowhere", "ledger_cannot_open"),
        ("postgresql://dpsql@127.0.0.1:1/postgres", "ledger_cannot_open"),
        ("postgresql://[", "ledger_cannot_open"),
    ]
    for place, code in cases:
        with fails_with(code) as refusal:
            Ledger.open(place, busy_timeout=2)
        assert refusal.value.__suppress_context__
        assert secret not in str(refusal.value)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("CREATE TABLE dpsql_ledger.precious (x int)", "ledger_foreign"),
        ("CREATE TABLE dpsql_ledger.head (x int)", "ledger_foreign"),
        ("CREATE TABLE dpsql_ledger.head (ledger text, version int)", "ledger_foreign"),
        ("CREATE TABLE dpsql_ledger.head AS SELECT 'x' AS ledger, 3 AS version", "ledger_version"),
    ],
)
def test_a_schema_of_that_name_that_is_no_ledger_is_refused_untouched(
    url: str, admin: Any, statement: str, code: str
) -> None:
    admin.execute("CREATE SCHEMA dpsql_ledger")
    admin.execute(statement)
    with fails_with(code):
        Ledger.open(url)
    tables = admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'dpsql_ledger'")
    assert len(tables.fetchall()) == 1


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE head SET version = version + 1, seq = seq + 1", "ledger_version"),
        ("SET session_replication_role = replica; UPDATE head SET version = version - 1",
         "ledger_version"),
        ("DROP TRIGGER events_no_delete ON events", "ledger_corrupt"),
        ("ALTER TABLE events DISABLE TRIGGER events_no_update", "ledger_corrupt"),
        ("ALTER TABLE events DISABLE TRIGGER ALL", "ledger_corrupt"),
        ("CREATE TRIGGER more AFTER INSERT ON events EXECUTE FUNCTION refuse('x')",
         "ledger_corrupt"),
        ("DROP TABLE events CASCADE", "ledger_corrupt"),
        ("DROP TABLE head", "ledger_foreign"),
    ],
)  # fmt: skip
def test_a_ledger_of_another_version_or_an_altered_one_is_refused(
    url: str, admin: Any, statement: str, code: str
) -> None:
    Ledger.open(url).close()
    admin.execute(statement)
    with fails_with(code):
        Ledger.open(url)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events",
        "DELETE FROM windows",
        "DELETE FROM accounts",
        "DELETE FROM head",
        "TRUNCATE events CASCADE",
        "TRUNCATE head",
        "UPDATE events SET rho = 0",
        "UPDATE windows SET rho = rho - 1",
        "UPDATE windows SET delta = delta - 1, unsettled = unsettled - 1",
        "UPDATE windows SET path = 'x'",
        "UPDATE accounts SET path = 'x'",
        "UPDATE head SET seq = seq - 1",
        "UPDATE releases SET payload = ''",
        "INSERT INTO windows (opened, path, period, rho) VALUES (99, 'x', '', 5)",
    ],
)
def test_the_database_itself_refuses_to_forget(url: str, admin: Any, statement: str) -> None:
    import psycopg

    with Ledger.open(url) as ledger:
        charge = RHO.reserve(ledger, 100, 7)
        ledger.settle(charge, RHO.amount(60, 7), b"answer")
        RHO.reserve(ledger, 100, 7)
        before = ledger.head()
        with pytest.raises(psycopg.Error):
            admin.execute(statement)
        assert ledger.head() == before
        assert ledger.verify().sound


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE events SET who = 'eve' WHERE seq = 3",
        "UPDATE windows SET rho = 0",
        "UPDATE accounts SET policy_rho = 7",
        "UPDATE releases SET payload = ''",
        "DELETE FROM releases",
        "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
    ],
)
def test_edits_behind_the_rules_back_are_found(url: str, admin: Any, edit: str) -> None:
    with Ledger.open(url) as ledger:
        ledger.settle(RHO.reserve(ledger, 100, 7), RHO.amount(60, 7), b"answer")
        RHO.reserve(ledger, 1, 1)
        assert ledger.verify().sound
        admin.execute("SET session_replication_role = replica")  # no triggers, as superuser
        admin.execute(edit)
        assert not ledger.verify().sound


def test_a_ledger_locked_for_too_long_is_busy_and_unchanged(url: str, admin: Any) -> None:
    with Ledger.open(url, busy_timeout=0.1) as ledger:
        charge = RHO.reserve(ledger, 5, 1)
        admin.execute("BEGIN")
        admin.execute("SELECT 1 FROM head FOR UPDATE")
        for attempt in (
            lambda: RHO.reserve(ledger, 1, 1),
            lambda: ledger.settle(charge, RHO.amount(1, 1)),
        ):
            with fails_with("ledger_busy"):
                attempt()
        assert ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
        admin.execute("ROLLBACK")
        ledger.settle(charge, RHO.amount(1, 1))


def test_a_connection_that_broke_while_it_was_idle_is_made_again_by_the_next_call(
    url: str, admin: Any
) -> None:
    with Ledger.open(url) as ledger:
        charge = RHO.reserve(ledger, 5, 1)
        admin.execute(ENDED)
        ledger.settle(charge, RHO.amount(1, 1))
        assert ledger.spent("sales") == RHO.spent(1, 1, 1, 0)


def test_a_connection_that_breaks_in_a_transaction_is_an_error_and_nothing_is_written_twice(
    url: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.ledger.postgres import PostgresBackend

    commit = PostgresBackend.commit

    def broken(backend: PostgresBackend) -> None:
        admin.execute(ENDED)
        commit(backend)

    with Ledger.open(url) as ledger:
        RHO.reserve(ledger, 5, 1)
        with monkeypatch.context() as patch:
            patch.setattr(PostgresBackend, "commit", broken)
            with pytest.raises(LedgerError) as refusal:
                RHO.reserve(ledger, 1, 1)
        assert refusal.value.code == "ledger_cannot_open"
        assert ledger.spent("sales") == RHO.spent(5, 1, 1, 1)
        assert ledger.verify().sound


def test_a_ledger_that_was_replaced_is_noticed_when_connecting_again(url: str, admin: Any) -> None:
    with Ledger.open(url) as ledger:
        admin.execute("DROP SCHEMA dpsql_ledger CASCADE")
        Ledger.open(url).close()
        admin.execute(ENDED)
        for code in ("ledger_missing", "ledger_missing"):
            with fails_with(code):
                RHO.reserve(ledger, 1, 1)


def test_clients_that_find_no_ledger_create_one(url: str) -> None:
    failed: list[LedgerError] = []
    heads: list[str] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        try:
            with Ledger.open(url) as ledger:
                heads.append(next(iter(ledger.events())).detail)
                RHO.reserve(ledger, 1, 1)
        except LedgerError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(set(heads)) == 1
    with Ledger.open(url) as ledger:
        assert ledger.spent("sales").queries == 8
        assert ledger.verify().sound


@pytest.mark.slow
def test_a_connection_is_let_go_before_a_fork(url: str) -> None:
    finish(
        start(
            """
ledger = Ledger.open(path)
reserve(ledger)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        for _ in range(5):
            reserve(ledger)
        os._exit(0)
    children.append(child)
for _ in range(5):
    reserve(ledger)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
assert ledger.spent("sales").queries == 26
assert ledger.verify().sound
ledger.close()
""",
            url,
        )
    )


def grants() -> list[str]:
    """The statements that docs/ledger.md gives to owners of a shared ledger."""
    (block,) = re.findall(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return [statement.strip() for statement in block.split(";") if statement.strip()]


def test_the_documented_role_of_analysts_can_ask_and_not_act_as_owner(
    url: str, admin: Any, postgres_server: Server
) -> None:
    with Ledger.open(url) as ledger:
        owner = ledger.owner("olga")
        owner.create("sales/alice")
        owner.set_limits("sales/alice", RHO.amount(1000, 1000))
    admin.execute("DROP ROLE IF EXISTS analysts")
    for statement in grants():
        admin.execute(statement)
    admin.execute("ALTER ROLE analysts WITH LOGIN PASSWORD 'pw'")
    try:
        with Ledger.open(postgres_server.url("postgres", "analysts", "pw")) as ledger:
            charge = RHO.reserve(ledger, 100, 7, RHO.account("sales/alice/notebook"))
            ledger.settle(charge, RHO.amount(60, 7), b"answer")
            assert ledger.stored("sales/alice", "f1") is not None
            assert ledger.verify().sound
            alice = RHO.account("sales/alice")
            for stream in ("s1", "s2"):
                RHO.stream(ledger, stream, alice)
                ledger.publish_step(ledger.begin_step("sales/alice", stream, 1), [b"released"])
            ledger.drop_stream("sales/alice", "s2")
            failing = RHO.reserve(ledger, 1, 1, alice)
            ledger.fail(failing, "sales/alice", "memory")
            owner = ledger.owner("eve")
            for action in (
                lambda: owner.set_limits("sales/alice", RHO.amount(10**9, 10**9)),
                lambda: owner.renew("sales/alice", None),
                lambda: owner.forget("sales"),
                lambda: owner.reopen("sales/alice"),
            ):
                with fails_with("ledger_read_only"):
                    action()
            assert ledger.verify().sound
            ((step, parts),) = ledger.step_releases("sales/alice", "s1")
            assert (step, list(parts)) == (1, [b"released"])
            assert ledger.spent("sales") == RHO.spent(101, 12, 4, 1)
    finally:
        admin.execute("DROP OWNED BY analysts")
        admin.execute("DROP ROLE analysts")


def test_without_its_driver_a_url_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dpsql.ledger.postgres", raising=False)
    with pytest.raises(LedgerError, match=r"pip install .*'psycopg\[binary\]>="):
        Ledger.open("postgresql://localhost/x")


@pytest.mark.slow
def test_a_server_that_crashes_has_kept_all_that_it_confirmed(postgres_server: Server) -> None:
    from helpers.postgresql_server import running

    with running() as server:  # not the one of the other tests
        url = server.url("postgres")
        with Ledger.open(url) as ledger:
            for crash in range(3):
                charge = RHO.reserve(ledger, 5, 1)
                server.crash()
                with pytest.raises(LedgerError):
                    ledger.settle(charge, RHO.amount(1, 1), b"answer")
                server.start()
                assert ledger.spent("sales") == RHO.spent(crash + 5, crash + 1, crash + 1, 1)
                ledger.settle(charge, RHO.amount(1, 1), b"answer")
                server.crash()
                server.start()
                with contextlib.suppress(LedgerError):  # it may not know yet that the line is dead
                    ledger.spent("sales")
                assert ledger.spent("sales") == RHO.spent(crash + 1, crash + 1, crash + 1, 0)
                assert ledger.verify().sound


@pytest.fixture
def words(postgres_server: Server) -> Iterator[str]:
    """The URL of a database whose texts are sorted as people do, punctuation least of all."""
    sorted_by = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'"
    postgres_server.run(f"CREATE DATABASE words {sorted_by}")
    yield postgres_server.url("words")
    postgres_server.run("DROP DATABASE words WITH (FORCE)")


def test_answers_are_found_by_parts_of_fingerprints_in_any_language(words: str) -> None:
    """As a range of texts, 9 to : would be empty in English."""
    with Ledger.open(words) as ledger:
        for digit in "09af":
            for account in ("sales", "sales/eve", "sales-eve", "sales0"):
                charge = ledger.reserve(
                    account,
                    RHO.amount(1, 1),
                    query=digit * 64 + "c" * 31 + digit,
                    plan=PLAN,
                    limits=(RHO.account(account),),
                )
                ledger.settle(charge, RHO.amount(1, 1), f"{account} {digit}".encode())
        for digit in "09af":
            expected = [f"{account} {digit}".encode() for account in ("sales", "sales/eve")]
            alike = ledger.stored_alike("sales", digit * 32, 10)
            assert [each.payload for each in alike] == expected
            on_rows = ledger.stored_on_rows("sales", "c" * 31 + digit, 10)
            assert [each.payload for each in on_rows] == expected
            assert ledger.stored_on_rows("sales", "c" * 31 + digit, 1) == on_rows[1:]
            assert ledger.stored_on_rows("sales/eve", "c" * 31 + digit, 10) == on_rows[1:]
        assert ledger.stored_on_rows("sales", "c" * 31, 10) == ()
        assert ledger.verify().sound


def test_answers_on_the_same_rows_are_found_by_an_index(url: str, admin: Any) -> None:
    Ledger.open(url).close()
    admin.execute("SET enable_seqscan = off")
    asked = _ON_ROWS.replace("?", "%s")
    plan = admin.execute(f"EXPLAIN {asked}", ("c" * 32, "a", "c" * 32, "a/", "a0", 3)).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert text.count("releases_by_rows") >= 2
    assert text.count("account = 'a'") == text.count("account < 'a0'") == 1
    assert "Filter" not in text
