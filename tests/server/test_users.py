"""A server's users and tokens: enrolment, scopes, logins, and that nobody learns who exists."""

from __future__ import annotations

import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.failures import fails_with

from dpsql.server.people import passwords
from dpsql.server.people.records import ALL_SCOPES, IssuedToken, Login, Role, Token, TokenScope
from dpsql.server.people.scram import LEAST_ITERATIONS, ScramExchange, ScramVerifier
from dpsql.server.people.users import Users

pytestmark = pytest.mark.few(20)  # all of them: they are quick

ANALYST, OWNER, AUDITOR = Role.ANALYST, Role.OWNER, Role.AUDITOR
PASSWORD = "correct horse battery"


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def users(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Users]:
    monkeypatch.setattr(passwords, "_KIBIBYTES", 64)
    monkeypatch.setattr(passwords, "_PASSES", 1)
    path = tmp_path / "users.db"
    with Users.create(path, iterations=LEAST_ITERATIONS, clock=clock) as created:
        yield created


@pytest.fixture
def ana(users: Users) -> Users:
    users.add("ana", PASSWORD, [ANALYST], ["ana", "ana-tools"])
    return users


def proves(users: Users, name: str, password: str) -> Login | None:
    """Who is let in on the wire with this name and password."""
    credential = users.credential(name)
    verifier = credential.verifier
    made = ScramVerifier.of_password(password, verifier.iterations, verifier.salt)
    return credential.login if made == verifier else None


# -- users ------------------------------------------------------------------------------------


def test_an_enrolment_is_for_every_door(ana: Users) -> None:
    expected = Login("ana", None, frozenset({ANALYST}), ("ana", "ana-tools"))
    assert proves(ana, "ana", PASSWORD) == expected
    assert ana.check_password("ana", PASSWORD) == expected
    assert proves(ana, "ana", PASSWORD + "!") is None
    with fails_with("login_failed"):
        ana.check_password("ana", PASSWORD + "!")


def test_every_change_is_another_version_whoever_writes_it(ana: Users, tmp_path: Path) -> None:
    seen = [ana.version()]
    assert ana.version() == seen[0]
    ana.issue_token("ana", "laptop")
    seen.append(ana.version())
    with Users(tmp_path / "users.db") as other:
        other.revoke_token("ana", "laptop")
        seen.append(ana.version())
        other.disable("ana")
    seen.append(ana.version())
    assert len(set(seen)) == len(seen)


def test_a_token_is_no_other_of_its_name_and_second(ana: Users) -> None:
    before = ana.check_token(ana.issue_token("ana", "laptop").secret)
    ana.revoke_token("ana", "laptop")
    after = ana.check_token(ana.issue_token("ana", "laptop").secret)
    assert before.issued == after.issued
    ana.require_current(after)
    with fails_with("login_failed"):
        ana.require_current(before)


def test_names_are_folded_when_they_are_given_and_when_they_log_in(users: Users) -> None:
    assert users.add("Zoë.Miller@Example", PASSWORD, [OWNER]).name == "zoë.miller@example"
    assert users.check_password("ZOë.miller@EXAMPLE", PASSWORD).user == "zoë.miller@example"
    assert users.credential("Zoë.Miller@Example").login is not None
    for taken in ("zoë.miller@example", "ZOË.Miller@example", "ｚoë.miller@example"):
        with fails_with("user_exists"):
            users.add(taken, PASSWORD, [OWNER])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * 64,
        "ana+tools",
        "-ana",
        ".ana",
        "ana b",
        "ana/b",
        "a\0",
        "a\n",
        "a'b",
        "\ud800",
        "zoe\u0308",
        "a\u200bb",
    ],
)
def test_other_names_are_refused(name: str, users: Users) -> None:
    with fails_with("bad_user_name"):
        users.add(name, PASSWORD, [OWNER])
    assert users.users() == ()


@pytest.mark.parametrize(
    ("roles", "accounts"),
    [
        ([], ["ana"]),
        ([ANALYST], []),
        ([OWNER], ["ana"]),
        ([ANALYST], ["a/b"]),
        ([ANALYST, AUDITOR], []),
    ],
)
def test_roles_and_accounts_belong_together(
    roles: list[Role], accounts: list[str], ana: Users
) -> None:
    with fails_with("bad_scope"):
        ana.add("bob", PASSWORD, roles, accounts)
    with fails_with("bad_scope"):
        ana.assign("ana", roles, accounts)
    assert [user.name for user in ana.users()] == ["ana"]
    assert ana.user("ana").roles == {ANALYST}


def test_a_password_can_be_changed(ana: Users, clock: Clock) -> None:
    clock.time += timedelta(hours=1)
    changed = ana.set_password("Ana", "another horse battery")
    assert changed.changed == clock.time == changed.created + timedelta(hours=1)
    assert proves(ana, "ana", PASSWORD) is None
    assert proves(ana, "ana", "another horse battery") is not None
    assert ana.check_password("ana", "another horse battery").user == "ana"
    with fails_with("bad_password"):
        ana.set_password("ana", "short")
    with fails_with("unknown_user"):
        ana.set_password("bob", PASSWORD)


def test_a_disabled_user_is_refused_like_a_stranger(ana: Users) -> None:
    issued = ana.issue_token("ana", "laptop")
    before = ana.credential("ana").verifier
    assert ana.disable("ana").disabled
    # What the wire says of her is what it said before.
    assert ana.credential("ana").verifier == before
    assert proves(ana, "ana", PASSWORD) is None
    assert proves(ana, "ana+laptop", issued.secret) is None
    for name in ("ana", "mallory"):
        with fails_with("login_failed"):
            ana.check_password(name, PASSWORD)
    for secret in (issued.secret, "dpsql_"):
        with fails_with("login_failed"):
            ana.check_token(secret)
    assert not ana.enable("ana").disabled
    assert ana.check_password("ana", PASSWORD).user == "ana"


def test_changes_are_seen_by_other_processes(ana: Users, tmp_path: Path) -> None:
    with Users(tmp_path / "users.db") as other:
        ana.disable("ana")
        assert other.user("ana").disabled
        other.assign("ana", [AUDITOR, OWNER], [])
    assert ana.user("ana").roles == {AUDITOR, OWNER}


def test_threads_share_users(ana: Users) -> None:
    done: list[str] = []

    def work(name: str) -> None:
        ana.add(name, PASSWORD, [OWNER])
        done.append(ana.check_password(name, PASSWORD).user)

    threads = [threading.Thread(target=work, args=(f"user{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [f"user{i}" for i in range(6)]
    assert len(ana.users()) == 7


# -- who exists -------------------------------------------------------------------------------

NOBODY = [
    "mallory",
    "ana+nothing",
    "mallory+laptop",
    "ana+",
    "+laptop",
    "",
    "a" * 5_000,
    "\ud800",
    "a\0b",
    "+",
]


@pytest.mark.parametrize("name", NOBODY)
def test_mallory_is_answered_like_ana_and_refused(name: str, ana: Users) -> None:
    credential = ana.credential(name)
    assert credential.login is None
    assert ana.credential(name).verifier == credential.verifier  # the same each time
    assert credential.verifier.iterations == ana.credential("ana").verifier.iterations
    assert len(credential.verifier.salt) == len(ana.credential("ana").verifier.salt)
    for password in ("", PASSWORD, name):
        assert proves(ana, name, password) is None
        with fails_with("login_failed"):
            ana.check_password(name, password)


def test_the_work_of_known_and_unknown_users_is_the_same(
    ana: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted are all that takes time: keyed hashes, argon2, and statements to the file."""
    ana.issue_token("ana", "laptop")
    done: list[str] = []
    digest, hashing = hmac.digest, passwords._hasher

    def counted(key: bytes, text: bytes, name: str) -> bytes:
        done.append("hmac")
        return digest(key, text, name)

    class CountedHasher:
        def verify(self, hashed: str, password: bytes) -> bool:
            done.append(hashed.rsplit("$", 2)[0])  # without salt and hash: what it takes
            return hashing().verify(hashed, password)

    monkeypatch.setattr("dpsql.server.people.scram.hmac.digest", counted)
    monkeypatch.setattr(passwords, "_hasher", CountedHasher)
    ana._file._connection.set_trace_callback(lambda sql: done.append("statement"))

    def work(name: str) -> list[str]:
        done.clear()
        credential = ana.credential(name)
        exchange = ScramExchange(credential.verifier, allowed=credential.login is not None)
        first = exchange.begin("SCRAM-SHA-256", b"n,,n=,r=abc").split(b",")[0]
        with fails_with("login_failed"):
            exchange.finish(b"c=biws," + first + b",p=" + b"A" * 43 + b"=")
        with fails_with("login_failed"):
            ana.check_password(name, "a wrong password")
        return done.copy()

    works = [work(name) for name in ("ana", "mallory", "ana+laptop", "ana+nothing", "")]
    assert works[0].count("hmac") == 5
    assert works[0][-1] == "$argon2id$v=19$m=64,t=1,p=4"
    assert works == [works[0]] * 5


# -- tokens -----------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_logs_in_at_every_door(ana: Users) -> None:
    issued = ana.issue_token("Ana", "Laptop")
    assert re.fullmatch(r"dpsql_[A-Za-z0-9_-]{43}", issued.secret)
    assert issued.secret not in repr(issued)
    assert issued.token.wire_name == "ana+laptop"
    issued_at = int(issued.token.created.timestamp())
    digest = hashlib.sha256(issued.secret.encode()).digest()
    expected = Login(
        *("ana", "laptop", frozenset({ANALYST}), ("ana", "ana-tools"), ALL_SCOPES),
        *(issued_at, digest),
    )
    assert ana.check_token(issued.secret) == expected
    assert proves(ana, "ana+laptop", issued.secret) == expected
    assert proves(ana, "ANA+Laptop", issued.secret) == expected
    # It is no password of hers, nor her password one of its.
    assert proves(ana, "ana", issued.secret) is None
    assert proves(ana, "ana+laptop", PASSWORD) is None
    with fails_with("login_failed"):
        ana.check_password("ana", issued.secret)
    with fails_with("login_failed"):
        ana.check_token(issued.secret[:-1])


def test_a_token_gives_no_more_than_its_scope_and_its_user_has(users: Users) -> None:
    users.add("ana", PASSWORD, [ANALYST, AUDITOR], ["ana", "tools"])
    issued = users.issue_token("ana", "bi", roles=[ANALYST], accounts=["tools"])
    audit = users.issue_token("ana", "audit", roles=[AUDITOR])
    asks, audits = (users.check_token(each.secret) for each in (issued, audit))
    assert (asks.token, asks.roles, asks.accounts) == ("bi", frozenset({ANALYST}), ("tools",))
    assert (audits.token, audits.roles, audits.accounts) == ("audit", frozenset({AUDITOR}), ())
    assert (asks.scopes, audits.scopes) == (ALL_SCOPES, frozenset())
    limited = users.issue_token("ana", "look", roles=[ANALYST], scopes=[TokenScope.EXPLAIN])
    assert users.check_token(limited.secret).scopes == {TokenScope.EXPLAIN}
    with fails_with("bad_scope"):
        users.issue_token("ana", "more", roles=[AUDITOR], scopes=[TokenScope.ASK])
    for roles, accounts in (([OWNER], None), (None, ["bob"]), ([], None), ([AUDITOR], ["tools"])):
        with fails_with("bad_scope"):
            users.issue_token("ana", "more", roles=roles, accounts=accounts)
    users.assign("ana", [ANALYST], ["ana"])  # of what it had, nothing is left
    for each in (issued, audit):
        with fails_with("login_failed"):
            users.check_token(each.secret)
    users.assign("ana", [ANALYST, OWNER], ["ana", "bob", "tools"])
    assert users.check_token(issued.secret).accounts == ("tools",)


def test_a_token_expires(ana: Users, clock: Clock) -> None:
    issued = ana.issue_token("ana", "short", expires=clock.time + timedelta(hours=1))
    clock.time += timedelta(minutes=59)
    assert ana.check_token(issued.secret).token == "short"
    clock.time += timedelta(minutes=1)
    with fails_with("login_failed"):
        ana.check_token(issued.secret)
    assert ana.credential("ana+short").login is None
    with fails_with("bad_expiry"):
        ana.issue_token("ana", "late", expires=clock.time)
    assert ana.issue_token("ana", "short").secret != issued.secret  # its name is free again


def test_a_token_is_revoked_for_good(ana: Users) -> None:
    issued, other = ana.issue_token("ana", "laptop"), ana.issue_token("ana", "phone")
    with fails_with("token_exists"):
        ana.issue_token("ana", "laptop")
    assert ana.revoke_token("Ana", "Laptop").revoked
    assert ana.revoke_token("ana", "laptop").revoked
    with fails_with("login_failed"):
        ana.check_token(issued.secret)
    assert ana.credential("ana+laptop").login is None
    assert ana.check_token(other.secret).token == "phone"
    with fails_with("unknown_token"):
        ana.revoke_token("ana", "tablet")
    with fails_with("unknown_user"):
        ana.revoke_token("bob", "laptop")
    anew = ana.issue_token("ana", "laptop")
    assert proves(ana, "ana+laptop", anew.secret) is not None
    with fails_with("login_failed"):
        ana.check_token(issued.secret)


@pytest.mark.parametrize("change", ["revoke", "replace", "expire", "disable", "assign", "none"])
def test_a_login_is_current_while_it_would_be_the_same(
    ana: Users, clock: Clock, change: str
) -> None:
    end = clock.time + timedelta(minutes=1)
    token = ana.check_token(ana.issue_token("ana", "short", expires=end).secret)
    by_password = ana.check_password("ana", PASSWORD)
    for login in (token, by_password):  # what is known of it then holds no longer than it does
        ana.require_current(login)
    if change in ("revoke", "replace"):
        ana.revoke_token("ana", "short")
    if change in ("replace", "expire"):
        clock.time = end
    if change == "replace":
        ana.issue_token("ana", "short")
    if change == "disable":
        ana.disable("ana")
    if change == "assign":
        ana.assign("ana", [OWNER], [])
    for login, ends in ((token, change != "none"), (by_password, change in ("disable", "assign"))):
        if ends:
            with fails_with("login_failed"):
                ana.require_current(login)
        else:
            ana.require_current(login)


def test_the_last_day_of_use_is_recorded_once_a_day(ana: Users, clock: Clock) -> None:
    login = ana.check_token(ana.issue_token("ana", "laptop").secret)
    assert ana.tokens("ana")[0].last_used is None
    written: list[str] = []
    ana._file._connection.set_trace_callback(
        lambda sql: written.append(sql) if sql.startswith("UPDATE") else None
    )
    for hours in (0, 6, 24, 1):
        clock.time += timedelta(hours=hours)
        ana.record_use(login)
    ana.record_use(ana.check_password("ana", PASSWORD))
    assert len(written) == 2
    assert ana.tokens("ana")[0].last_used == clock.time.date()


def test_tokens_are_listed(ana: Users, clock: Clock) -> None:
    ana.add("bob", PASSWORD, [OWNER])
    ana.issue_token("bob", "b")
    ana.issue_token("ana", "z", expires=clock.time + timedelta(days=1))
    ana.issue_token("ana", "a")
    assert [(t.user, t.name) for t in ana.tokens()] == [("ana", "a"), ("ana", "z"), ("bob", "b")]
    found = ana.tokens("ana")[1]
    assert isinstance(found, Token)
    assert found.expires == clock.time + timedelta(days=1)
    assert found.is_valid(clock.time)
    assert not found.is_valid(found.expires)
    with fails_with("unknown_user"):
        ana.tokens("mallory")


def test_no_secret_is_stored_or_shown(ana: Users, tmp_path: Path) -> None:
    issued: IssuedToken = ana.issue_token("ana", "laptop")
    ana.set_password("ana", "another horse battery")
    ana._file._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stored = (tmp_path / "users.db").read_bytes()
    assert b"ana-tools" in stored
    for secret in (PASSWORD, "another horse battery", issued.secret, issued.secret[6:]):
        assert secret.encode() not in stored
    shown = repr(
        (ana.user("ana"), ana.tokens(), ana.check_token(issued.secret), ana.credential("ana"))
    )
    assert "argon2" not in shown
    assert "SCRAM" not in shown
