"""Owners and auditors over HTTP: who may do what, what it does, and what no reply ever holds."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from helpers.http_serving import POLICY, HttpServing, Reply, filled_with_tokens, http_started

from dpsql.ledger import Ledger
from dpsql.server.audit import verify_audit
from dpsql.server.http.operations import OPERATIONS
from dpsql.server.people.records import Role, TokenScope
from dpsql.server.people.users import Users
from dpsql.server.workers import Workers

QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
PASSWORD = "a long and rather good passphrase"
NOBODY = {"user": "nobody"}
CLINIC = "clinic/bob"


def opened(directory: Path, *more: str) -> HttpServing:
    tokens = filled_with_tokens(directory)
    with Users(directory / "users.db") as users:
        for name, role in (("otto", Role.OWNER), ("adam", Role.AUDITOR)):
            users.add(name, secrets.token_hex(12), [role], [])
            tokens[name] = users.issue_token(name, "laptop").secret
    return http_started(directory, tokens, *more)


def ended(server: HttpServing) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert "Traceback" not in server.log.read_text()
    verify_audit(server.directory / "audit.jsonl")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    found = opened(tmp_path_factory.mktemp("administration"))
    yield found
    ended(found)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[HttpServing]:
    """A server whose policies and accounts a test may change."""
    found = opened(tmp_path)
    yield found
    ended(found)


def audited(server: HttpServing) -> list[dict[str, Any]]:
    lines = (server.directory / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def account(server: HttpServing, path: str) -> dict[str, Any]:
    found = server.ask("GET", "accounts", token="olga").json["accounts"]
    (one,) = (each for each in found if each["path"] == path)
    return dict(one)


# -- roles ----------------------------------------------------------------------------------------

# What each role is answered: analyst, owner, auditor.
A, O, W, U = (200, 403, 403), (403, 200, 403), (403, 200, 200), (403, 403, 200)
TABLE: dict[str, tuple[object, tuple[int, int, int]]] = {
    "query": ({"sql": "SELECT 1"}, A),
    "explain": ({"sql": QUESTION}, A),
    "describe": ({"sql": QUESTION}, A),
    "tables": (None, A),
    "table": (None, (404, 403, 403)),
    "budget": (None, A),
    "history": (None, A),
    "views": (None, A),
    "request_budget": ({"epsilon": 0, "why": "x"}, (400, 403, 403)),
    "own_requests": (None, A),
    "budget_requests": (None, O),
    "approve_request": ({"number": 99}, (403, 404, 403)),
    "refuse_request": ({"number": 99}, (403, 404, 403)),
    "cancel": (None, (404, 403, 403)),
    "metrics": (None, W),
    "users": (None, W),
    "accounts": (None, W),
    "policies": (None, W),
    "ledger": (None, U),
    "verify_ledger": (None, U),
    "audit": (None, U),
    "add_user": ({"user": "x y", "roles": ["owner"], "password": PASSWORD}, (403, 422, 403)),
    "set_password": ({**NOBODY, "password": PASSWORD}, (403, 404, 403)),
    "assign_scope": ({**NOBODY, "roles": ["owner"]}, (403, 404, 403)),
    "disable_user": (NOBODY, (403, 404, 403)),
    "enable_user": (NOBODY, (403, 404, 403)),
    "issue_token": ({**NOBODY, "token": "t"}, (403, 404, 403)),
    "revoke_token": ({**NOBODY, "token": "t"}, (403, 404, 403)),
    "create_account": ({"account": "other/x"}, (403, 422, 403)),
    "rename_account": ({"account": "other/x", "name": "other/y"}, (403, 422, 403)),
    "limit_account": ({"account": "other/x"}, (403, 422, 403)),
    "renew_account": ({"account": "other/x", "every": "day"}, (403, 422, 403)),
    "open_window": ({"account": "clinicx"}, (403, 422, 403)),
    "suspend_account": ({"account": ""}, (403, 400, 403)),
    "reopen_account": ({"account": "other"}, (403, 422, 403)),
    "forget_answers": ({"account": "../clinic"}, (403, 422, 403)),
    "check_policies": ({"policies": POLICY}, O),
    "diff_policies": ({"policies": POLICY}, O),
    "apply_policies": ({"policies": POLICY, "replaces": "0" * 64}, (403, 409, 403)),
    "health": (None, (200, 200, 200)),
    "ready": (None, (200, 200, 200)),
    "openapi": (None, (200, 200, 200)),
}


@pytest.mark.slow
def test_each_role_may_do_what_the_table_of_operations_says(server: HttpServing) -> None:
    assert TABLE.keys() == {one.name for one in OPERATIONS}
    for one in OPERATIONS:
        body, expected = TABLE[one.name]
        path = one.path.format(name="none", id="none")
        found = tuple(
            server.ask(one.method, path, body, token).status for token in ("ana", "olga", "adam")
        )
        assert found == expected, one.name
        status = 200 if one.roles is None else 401
        assert server.ask(one.method, path, body, None).status == status, one.name
    assert server.ask("GET", "users", token="carl").status == 401


@pytest.mark.slow
def test_an_owner_or_auditor_cannot_ask_without_an_account_of_an_analyst(
    server: HttpServing,
) -> None:
    before = server.ledger
    for token in ("olga", "adam"):
        for account_ in ("ana", "bob", "clinic"):
            asked = {"sql": QUESTION}
            found = server.ask("POST", "query", asked, token, dpsql_account=account_)
            assert (found.status, found.code) == (403, "not_allowed")
    assert server.ledger == before


@pytest.mark.slow
def test_a_token_of_limited_scope_does_nothing_that_owners_do(server: HttpServing) -> None:
    with Users(server.directory / "users.db") as users:
        users.add("oana", PASSWORD, [Role.OWNER, Role.ANALYST], ["ana"])
        whole = users.issue_token("oana", "whole").secret
        limited = users.issue_token("oana", "limited", scopes=[TokenScope.EXPLAIN]).secret
    assert server.ask("GET", "users", token=whole).status == 200
    assert server.ask("GET", "budget", token=limited).status == 200
    assert server.ask("GET", "users", token=limited).code == "not_allowed"


# -- users ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_users_and_tokens_come_and_go(server: HttpServing) -> None:
    new = {"user": "nina", "password": PASSWORD, "roles": ["analyst"], "accounts": ["ana"]}
    assert server.ask("POST", "users", new, "olga").json["accounts"] == ["ana"]
    assert server.ask("POST", "users", new, "otto").status == 409
    weak = {**new, "user": "walter", "password": "short"}
    assert server.ask("POST", "users", weak, "olga").status == 422
    issued = server.ask("POST", "tokens", {"user": "nina", "token": "lap", "days": 3}, "olga").json
    assert issued["token"]["expires"] is not None
    assert server.ask("GET", "budget", token=issued["secret"]).status == 200
    assert server.ask("POST", "users/disable", {"user": "nina"}, "olga").json["disabled"]
    assert server.ask("GET", "budget", token=issued["secret"]).status == 401
    assert not server.ask("POST", "users/enable", {"user": "nina"}, "olga").json["disabled"]
    scope = {"user": "nina", "roles": ["analyst"], "accounts": ["bob", "ana"]}
    assert server.ask("POST", "users/scope", scope, "olga").json["accounts"] == ["bob", "ana"]
    assert server.ask("GET", "budget", token=issued["secret"]).status == 200
    lap = {"user": "nina", "token": "lap"}
    assert not server.ask("POST", "tokens/revoke", lap, "olga").json["valid"]
    assert server.ask("GET", "budget", token=issued["secret"]).status == 401
    other = {"user": "nina", "password": PASSWORD + "!"}
    assert server.ask("POST", "users/password", other, "olga").status == 200
    with Users(server.directory / "users.db") as users:
        assert users.check_password("nina", PASSWORD + "!").user == "nina"
    few = {"user": "nina", "token": "few", "scopes": ["explain"]}
    issued = server.ask("POST", "tokens", few, "olga").json
    assert issued["token"]["scopes"] == ["explain"]
    assert server.ask("GET", "budget", token=issued["secret"]).status == 200
    assert server.query(QUESTION, issued["secret"]).code == "not_allowed"
    for scopes, code in (
        (["all"], "bad_request"),
        (["agent", "ask"], "bad_scope"),
        ([], "bad_scope"),
    ):
        wrong = {"user": "nina", "token": "wrong", "scopes": scopes}
        assert server.ask("POST", "tokens", wrong, "olga").code == code
    beyond = {"user": "nina", "token": "more", "roles": ["owner"]}
    assert server.ask("POST", "tokens", beyond, "olga").code == "bad_scope"
    done = [each for each in audited(server) if each["event"] == "action_done"]
    assert {each["user"] for each in done} >= {"olga"}
    assert any(each["operation"] == "disable_user" for each in done)


def test_no_reply_and_no_log_has_a_secret_a_verifier_or_sql_of_others(server: HttpServing) -> None:
    private = "SELECT COUNT(*) AS n FROM visits WHERE cost > 12.3456"
    server.query(private, "ana")
    secret = "another passphrase of nobody"
    server.ask(
        "POST",
        "users",
        {"user": "sam", "password": secret, "roles": ["analyst"], "accounts": ["bob"]},
        "olga",
    )
    sam = server.ask("POST", "tokens", {"user": "sam", "token": "t"}, "olga").json["secret"]
    with sqlite3.connect(server.directory / "users.db") as kept:
        users = kept.execute("SELECT verifier, hash FROM users").fetchall()
        tokens = kept.execute("SELECT verifier, hex(digest) FROM tokens").fetchall()
        (own_secret,) = kept.execute("SELECT hex(secret) FROM settings").fetchone()
    # A part of each: an escape of JSON would not hide it.
    hidden = [each[-20:] for row in [*users, *tokens] for each in row]
    hidden += [own_secret, secret, *server.tokens.values()]
    for one in OPERATIONS:
        body, _ = TABLE[one.name]
        path = one.path.format(name="visits", id="none")
        for token in ("bert", "olga", "adam", sam):
            told = server.ask(one.method, path, body, token).body.decode()
            assert not [each for each in hidden if each.lower() in told.lower()], one.name
            assert sam not in told
            if token in ("bert", sam):
                assert "12.3456" not in told
                assert "clinic/ana" not in told
    log = server.log.read_text() + (server.directory / "audit.jsonl").read_text()
    assert not [each for each in [*hidden, sam, PASSWORD] if each in log]


@pytest.mark.parametrize("one", [each for each in OPERATIONS if each.takes], ids=lambda o: o.name)
def test_hostile_bodies_are_refused_and_never_an_internal_error(
    server: HttpServing, one: Any
) -> None:
    body, _ = TABLE[one.name]
    assert isinstance(body, dict)
    values: list[object] = [None, -1, 1e308, True, [], [[]], {}, {"a": 1}, "", "\0", "\ud800"]
    values += ["x" * 70_000, "'; DROP TABLE users; --", "../../etc/passwd", "%s%n", "clinic/a/../b"]
    path = one.path[4:]
    token = "ana" if Role.ANALYST in one.roles else "olga"
    for name in body:
        for value in values:
            found = server.ask("POST", path, {**body, name: value}, token)
            assert found.status < 500, (name, value)
        without = {key: each for key, each in body.items() if key != name}
        assert server.ask("POST", path, without, token).status < 500
    assert server.ask("POST", path, {**body, "more": 1}, token).code == "bad_request"
    for broken in (b"", b"[]", b"{", b'{"a":' * 2000, b"\xff\xfe", b'{"user": "a", "user": "b"}'):
        assert server.ask("POST", path, broken, token).code == "bad_request"


# -- accounts -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_owners_do_to_accounts_binds_analysts_and_is_in_the_ledger(own: HttpServing) -> None:
    assert own.query(QUESTION, "bert", options={"epsilon": 0.5}).status == 200

    def act(what: str, **more: object) -> Reply:
        return own.ask("POST", f"accounts/{what}", {"account": CLINIC, **more}, "olga")

    asked = "SELECT COUNT(*) AS n FROM visits WHERE cost > ?"

    def ask(value: int) -> Reply:
        return own.query(asked, "bert", parameters=[value], options={"epsilon": 0.3})

    assert act("suspend").status == 200
    refused = ask(1)
    assert (refused.status, refused.code) == (503, "account_suspended")
    assert act("reopen").status == 200
    assert act("reopen").status == 409
    assert ask(1).status == 200
    assert act("limit", epsilon=0.4, delta=1e-6).status == 200
    assert ask(2).code == "budget_exceeded"
    assert act("limit", epsilon=0.8).status == 422
    assert act("limit").status == 200
    assert act("window").status == 200
    assert ask(2).status == 200
    assert account(own, CLINIC)["windows"] == 2
    assert act("renewal", every="month").status == 200
    assert account(own, CLINIC)["renews"] == "month"
    assert act("forget", before="yesterday").status == 422
    assert act("forget").json["deleted"] >= 3
    assert own.ask("POST", "accounts", {"account": "clinic/new"}, "olga").status == 200
    assert own.ask("POST", "accounts", {"account": "clinic/new"}, "otto").status == 409
    renamed = {"account": "clinic/new", "name": "clinic/newer"}
    assert own.ask("POST", "accounts/rename", renamed, "olga").status == 200
    entries = own.ask("GET", "ledger?limit=2", token="adam").json["entries"]
    assert [each["account"] for each in entries] == [CLINIC, CLINIC]
    before = entries[-1]["entry"]
    older = own.ask("GET", f"ledger?before={before}", token="adam").json["entries"]
    assert all(each["entry"] < before for each in older)
    assert own.ask("GET", "ledger/verification", token="adam").json["sound"]
    with Ledger.open(own.directory / "clinic.budget.db") as ledger:
        assert {each.who for each in ledger.suspensions(CLINIC)} == {"olga"}


@pytest.mark.slow
def test_two_owners_at_once_are_both_recorded_and_one_of_them_is_last(own: HttpServing) -> None:
    own.ask("POST", "accounts", {"account": "clinic/new"}, "olga")
    wrong: list[object] = []

    def limit(token: str, epsilon: float) -> None:
        for _ in range(8):
            body = {"account": "clinic/new", "epsilon": epsilon, "delta": 1e-6}
            found = own.ask("POST", "accounts/limit", body, token)
            if found.status != 200:
                wrong.append(found.body)

    together(lambda: limit("olga", 2.0), lambda: limit("otto", 3.0))
    assert not wrong
    (found,) = account(own, "clinic/new")["limits"]
    assert found["epsilon"] in (2.0, 3.0)
    assert own.ask("GET", "ledger/verification", token="adam").json["sound"]
    done = [each for each in audited(own) if each["event"] == "action_done"]
    users = [each["user"] for each in done if each["operation"] == "limit_account"]
    assert (users.count("olga"), users.count("otto")) == (8, 8)
    # Of two who suspend and reopen, one reopens.
    own.ask("POST", "accounts/suspend", {"account": "clinic/new"}, "olga")
    statuses: list[int] = []

    def reopen(token: str) -> None:
        body = {"account": "clinic/new"}
        statuses.append(own.ask("POST", "accounts/reopen", body, token).status)

    together(lambda: reopen("olga"), lambda: reopen("otto"))
    assert sorted(statuses) == [200, 409]


def together(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


# -- policies -------------------------------------------------------------------------------------


def test_policies_are_checked_and_compared_without_being_served(server: HttpServing) -> None:
    def check(text: str) -> Reply:
        return server.ask("POST", "policies/check", {"policies": text}, "olga")

    same = check(POLICY).json
    assert (same["fits"], same["changes"]) == (True, [])
    assert not [each for each in same["findings"] if each["level"] == "error"]
    wider = POLICY.replace("upper: 100", "upper: 200").replace("epsilon: 1,", "epsilon: 2,")
    found = check(wider).json
    assert found["fits"]
    assert {(each["where"], each["before"], each["after"]) for each in found["changes"]} == {
        ("accounts.bob.epsilon", "1.0", "2.0"),
        ("tables.visits.columns.cost.upper", "100", "200"),
    }
    diff = server.ask("POST", "policies/diff", {"policies": wider}, "olga").json
    assert diff["changes"] == found["changes"]
    unfit = check(POLICY.replace("      cost:", "      price:")).json
    assert not unfit["fits"]
    assert any("price" in each["subject"] for each in unfit["findings"])
    wrong = check(POLICY.replace("lower: 0", "lower: x").replace("bob: {", "bob: {epsilom: 1, "))
    assert (wrong.status, wrong.code) == (422, "policy_invalid")
    assert wrong.json["line"] == 5
    (line,) = (n for n, text in enumerate(POLICY.split("\n"), 1) if "lower: 0" in text)
    assert f"line {line}," in wrong.json["hint"]
    secret = check(POLICY + 'ledger: "postgresql://me:pass-word@host/db"\n').body.decode()
    assert "me:***@host" in secret
    assert "pass-word" not in secret
    assert "pass-word" not in (server.directory / "audit.jsonl").read_text()


@pytest.mark.slow
def test_policies_are_applied_whole_or_not_at_all(own: HttpServing) -> None:
    file = own.directory / "policies.yaml"

    def served() -> dict[str, Any]:
        return dict(own.ask("GET", "policies", token="olga").json)

    def apply(text: str, token: str = "olga", digest: str | None = None) -> Reply:
        body = {"policies": text, "replaces": digest or served()["digest"]}
        return own.ask("POST", "policies", body, token)

    wards = "  wards: {public: true}\n"
    refused = {
        POLICY.replace("      cost:", "      price:"): (422, "policy_does_not_fit"),
        POLICY.replace("lower: 0", "lower: x"): (422, "policy_invalid"),
        "": (422, "policy_empty"),
        POLICY.replace("dataset: clinic", "dataset: other"): (403, "protection_changed"),
        POLICY.replace("{name: patient, column: patient_id}", "row"): (403, "protection_changed"),
        POLICY + "ledger: other.db\n": (403, "protection_changed"),
        POLICY + "views: {directory: elsewhere}\n": (403, "protection_changed"),
        "version: 1\ndataset: clinic\ntables:\n  visits: {public: true}\n" + wards: (
            403,
            "protection_changed",
        ),
    }
    for text, expected in refused.items():
        found = apply(text)
        assert (found.status, found.code) == expected
        assert file.read_text() == POLICY
    assert own.ask("GET", "budget", token="bert").json["epsilon_limit"] == 1.0

    more = POLICY.replace("bob: {epsilon: 1,", "bob: {epsilon: 2,") + "edition: second\n"
    file.chmod(0o640)
    applied = apply(more)
    assert applied.json["edition"] == "second"
    assert file.read_text() == more
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in own.directory.glob(".policies*")] == []
    assert own.ask("GET", "budget", token="bert").json["epsilon_limit"] == 2.0
    assert served()["digest"] == applied.json["digest"]

    # Of two owners who follow the same policies, one is told that these have changed.
    texts = {name: more.replace("second", name) for name in ("olga", "otto")}
    found_: dict[str, Reply] = {}
    digest = served()["digest"]

    def apply_as(name: str) -> None:
        found_[name] = apply(texts[name], name, digest)

    together(lambda: apply_as("olga"), lambda: apply_as("otto"))
    assert sorted(each.status for each in found_.values()) == [200, 409]
    (winner,) = (name for name, each in found_.items() if each.status == 200)
    assert file.read_text() == texts[winner]
    assert served()["edition"] == winner

    # What somebody writes in the file itself is not lost.
    file.write_text(more.replace("second", "by hand"))
    assert served()["changed_in_place"]
    assert apply(more).code == "policies_changed"
    assert "by hand" in file.read_text()
    events = [each["event"] for each in audited(own)]
    assert events.count("edition") == 2
    assert "edition_refused" in events


# -- records --------------------------------------------------------------------------------------


def test_auditors_read_the_log_with_its_head(server: HttpServing) -> None:
    server.query("SELECT COUNT(*) AS seen FROM visits")
    found = server.ask("GET", "audit?limit=3", token="adam").json
    lines = audited(server)
    assert [each["number"] for each in found["found"]] == list(
        range(found["lines"] - 2, found["lines"] + 1)
    )
    assert [each["line"] for each in found["found"]] == lines[found["lines"] - 3 : found["lines"]]
    assert verify_audit(server.directory / "audit.jsonl", found["head"]).lines >= found["lines"]
    first = server.ask("GET", "audit?first=1&limit=2", token="adam").json["found"]
    assert [each["line"] for each in first] == lines[:2]
    assert first[0]["line"]["event"] == "started"
    for wrong in ("first=0", "limit=x", "first=1&first=2", "head=1"):
        assert server.ask("GET", f"audit?{wrong}", token="adam").code == "bad_request"
    asked = [each for each in lines if each["event"] == "asked"]
    assert any("seen" in each["text"] for each in asked)


@pytest.mark.slow
def test_what_cannot_be_audited_is_not_done(tmp_path: Path) -> None:
    from dpsql.errors import OperationalError
    from dpsql.server.audit import AuditLog
    from dpsql.server.desk import Desk
    from dpsql.server.http.administration.act import Act
    from dpsql.server.http.administration.bodies import UserRequest
    from dpsql.server.http.administration.doing import done
    from dpsql.server.people.records import Login

    log = AuditLog(tmp_path / "audit.jsonl")
    log.close()
    with Users.create(tmp_path / "users.db", iterations=4096) as users:
        users.add("ana", PASSWORD, [Role.ANALYST], ["ana"])
        desk = Desk(None, users, log, None)  # type: ignore[arg-type]
        login = Login("olga", "t", frozenset({Role.OWNER}), ())
        with pytest.raises(OperationalError) as caught:
            done(desk, Act("disable_user", login, "", UserRequest(user="ana"), {}))
        assert caught.value.code == "audit_not_written"
        assert not users.user("ana").disabled


# -- metrics --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_metrics_count_and_name_nobody(own: HttpServing) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    own.query(QUESTION, "bert", options={"epsilon": 0.5})
    own.query(QUESTION, "bert", options={"epsilon": 0.5})
    assert own.query("SELECT cost FROM visits WHERE cost > 12.3456", "ana").status == 422
    assert own.ask("GET", "users", token="ana").status == 403
    assert own.ask("GET", "nowhere/clinic", token="ana").status == 404
    assert own.ask("GET", "budget", token="dpsql_wrong").status == 401
    body = POLICY.replace("      cost:", "      price:")
    digest = own.ask("GET", "policies", token="olga").json["digest"]
    own.ask("POST", "policies", {"policies": body, "replaces": digest}, "olga")
    tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for token in ("ana", "dpsql_wrong"):
        own.ask("POST", "/mcp", tools, token, accept="application/json, text/event-stream")
    page = own.ask("GET", "/metrics", token="olga")
    assert page.headers["content-type"].startswith("text/plain")
    text = page.body.decode()
    found = {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["dpsql_questions_total", ("paid",)] == 1
    assert found["dpsql_questions_total", ("free",)] == 1
    assert found["dpsql_statements_total", ("asked",)] == 3
    assert found["dpsql_statements_total", ("refused",)] == 1
    assert found["dpsql_requests_total", ("200", "query")] == 2
    assert found["dpsql_requests_total", ("403", "users")] == 1
    assert found["dpsql_requests_total", ("404", "none")] == 1
    assert found["dpsql_requests_total", ("200", "mcp")] == 1
    assert found["dpsql_requests_total", ("401", "mcp")] == 1
    assert found["dpsql_logins_total", ("failed", "http")] == 2
    assert found["dpsql_reopenings_total", ("refused",)] == 1
    assert found["dpsql_connections", ("http",)] == 1
    assert found["dpsql_connections", ("postgresql",)] == 0
    assert found["dpsql_audit_failures", ()] == 0
    assert found["dpsql_places", ()] >= 4
    assert found["process_resident_memory_bytes", ()] > 1e6
    assert found["process_cpu_seconds_total", ()] > 0
    told = (
        "bert",
        "bob",
        "ana",
        "olga",
        "visits",
        "clinic",
        "12.3456",
        "seconds_bucket",
        "nowhere",
    )
    assert not [each for each in told if each in text]


# -- the response grid ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_place_is_free_at_the_next_multiple_of_the_grid() -> None:
    async def run() -> list[float]:
        workers = Workers(1, grid=0.5)
        ends = []

        async def ask(seconds: float) -> None:
            with suppress(ValueError):
                await workers.run("ana", lambda: worked(seconds))
            ends.append(time.monotonic())

        # The second waits for the place of the first: that it begins tells nothing either.
        await asyncio.gather(ask(0.02), ask(0.03), ask(-1))
        workers.close()
        return ends

    def worked(seconds: float) -> None:
        if seconds < 0:
            raise ValueError
        time.sleep(seconds)

    ends = asyncio.run(run())
    assert all(end % 0.5 < 0.2 for end in ends)
    assert [round(after - before, 1) for before, after in pairwise(ends)] == [0.5, 0.5]


@pytest.mark.slow
def test_with_a_grid_replies_of_both_doors_leave_at_its_multiples(tmp_path: Path) -> None:
    server = opened(tmp_path, "--response-grid", "1.5")
    with Users(tmp_path / "users.db") as users:
        users.set_password("dora", PASSWORD)
    port = re.search(r"served on 127\.0\.0\.1:(\d+)", server.log.read_text())
    assert port is not None
    try:
        ends = []
        for number in range(3):
            found = server.query("SELECT COUNT(*) FROM visits WHERE cost > ?", parameters=[number])
            assert found.status == 200
            ends.append(time.monotonic())
        server.query("SELECT nothing FROM visits")
        ends.append(time.monotonic())
        address = f"host=127.0.0.1 port={port[1]} dbname=clinic user=dora sslmode=disable"
        with psycopg.connect(address, password=PASSWORD, autocommit=True) as con:
            for _ in range(2):
                con.execute("SELECT COUNT(*) FROM visits WHERE ward = 'a'")
                ends.append(time.monotonic())
        late = [end % 1.5 for end in ends]
        assert max(late) < 0.6, late
        assert min(after - before for before, after in pairwise(ends)) > 0.8
    finally:
        ended(server)
