"""Requests for more budget: who makes and sees them, what owners decide, and what that changes."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.failures import fails_with
from helpers.http_serving import HttpServing, Reply, filled_with_tokens, http_started

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.ledger import Ledger
from dpsql.server.audit import verify_audit
from dpsql.server.people import user_file
from dpsql.server.people.budget_requests import (
    MOST_A_DAY,
    MOST_WAITING,
    BudgetRequest,
    RequestState,
)
from dpsql.server.people.records import Role
from dpsql.server.people.users import Users

WHY = "Wards by month, for the annual report"
PASSWORD = "a long and rather good passphrase"


def serving(directory: Path) -> Iterator[HttpServing]:
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()
    verify_audit(directory / "audit.jsonl")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServing]:
    yield from serving(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    """A server on which nobody has a request."""
    yield from serving(tmp_path_factory.mktemp("requests"))


def asked(server: HttpServing, token: str = "ana", epsilon: float = 5, **headers: str) -> Reply:
    body = {"epsilon": epsilon, "why": WHY}
    return server.ask("POST", "budget/requests", body, token, **headers)


def listed(server: HttpServing, token: str) -> list[int]:
    path = "requests" if token == "olga" else "budget/requests"
    return [one["number"] for one in server.ask("GET", path, token=token).json["requests"]]


def decided(server: HttpServing, number: int, how: str = "approve") -> Reply:
    return server.ask("POST", f"requests/{how}", {"number": number, "note": "Well."}, "olga")


def limits(server: HttpServing, path: str) -> list[dict[str, object]]:
    found = server.ask("GET", "accounts", token="olga").json["accounts"]
    (one,) = (each for each in found if each["path"] == path)
    return list(one["limits"])


def limited(server: HttpServing, account: str, epsilon: float) -> None:
    body = {"account": account, "epsilon": epsilon, "delta": 1e-7}
    assert server.ask("POST", "accounts", {"account": account}, "olga").status in (200, 409)
    assert server.ask("POST", "accounts/limit", body, "olga").status == 200


# -- over HTTP ------------------------------------------------------------------------------------


def test_a_request_is_seen_by_its_user_and_by_owners_alone(server: HttpServing) -> None:
    mine = asked(server)
    assert mine.status == 200
    assert mine.json["state"] == "open"
    assert mine.json["account"] == "ana"
    # Eve and dora share the account, and another token of ana's is ana.
    assert [listed(server, name) for name in ("ana", "ana-explain", "eve", "dora", "bert")] == [
        *([1], [1], [], [], [])
    ]
    assert listed(server, "olga") == [1]
    assert asked(server, "bert").json["number"] == 2
    assert [listed(server, name) for name in ("ana", "bert", "olga")] == [[1], [2], [2, 1]]
    # A decided one goes behind the open ones; an account that is chosen is the one asked for.
    assert decided(server, 2, "refuse").status == 200
    assert listed(server, "olga") == [1, 2]
    assert asked(server, dpsql_account="bob").json["account"] == "bob"
    assert asked(server, "dora", dpsql_account="bob").code == "not_allowed"
    assert server.ask("GET", "requests", token="ana").status == 403
    assert decided(server, 4).code == "unknown_request"


def test_approval_raises_the_limit_that_an_owner_has_set(server: HttpServing) -> None:
    limited(server, "clinic/ana", 2)
    question = "SELECT COUNT(*) AS n FROM visits"
    assert server.query(question, options={"epsilon": 3}).status == 402
    asked(server, epsilon=4)
    before = server.ask("GET", "ledger", token="olga").status
    assert before == 403  # an owner decides without reading what was asked
    found = decided(server, 1)
    assert found.status == 200
    assert (found.json["state"], found.json["owner"], found.json["note"]) == (
        *("approved", "olga", "Well."),
    )
    (own,) = (one for one in limits(server, "clinic/ana") if one["source"] == "owner")
    assert (own["epsilon"], own["delta"]) == (4, 1e-7)
    assert server.query(question, options={"epsilon": 3}).status == 200
    assert decided(server, 1).code == "request_decided"
    assert decided(server, 1, "refuse").status == 409
    assert found.json["raised"] is True
    # One that asks for less than there is changes nothing, and the owner is told.
    asked(server, epsilon=1)
    assert decided(server, 2).json["raised"] is False
    assert limits(server, "clinic/ana")[-1]["epsilon"] == 4
    with Ledger.open(server.directory / "clinic.budget.db") as ledger:
        assert ledger.verify().sound


def test_what_the_policies_give_is_raised_in_the_policies_first(server: HttpServing) -> None:
    asked(server, "bert", epsilon=3)  # bob's account has 1
    refused = decided(server, 1)
    assert (refused.status, refused.code) == (409, "policies_give_less")
    assert server.ask("GET", "budget/requests", token="bert").json["requests"][0]["state"] == "open"
    policies = (server.directory / "policies.yaml").read_text()
    digest = server.ask("GET", "policies", token="olga").json["digest"]
    more = policies.replace("bob: {epsilon: 1,", "bob: {epsilon: 3,")
    body = {"policies": more, "replaces": digest}
    assert server.ask("POST", "policies", body, "olga").status == 200
    assert decided(server, 1).json["state"] == "approved"
    assert server.ask("GET", "budget", token="bert").json["epsilon_limit"] == 3


@pytest.mark.parametrize(
    "body",
    [
        {"epsilon": 0, "why": WHY},
        {"epsilon": -1, "why": WHY},
        {"epsilon": 1e9, "why": WHY},
        {"epsilon": "2", "why": WHY},
        {"epsilon": 2, "why": ""},
        {"epsilon": 2, "why": "x" * 501},
        {"epsilon": 2},
        {"epsilon": 2, "why": WHY, "user": "eve"},
        {"epsilon": 2, "why": "half a letter: \ud800"},
        b'{"epsilon": NaN, "why": "x"}',
        b'{"epsilon": 2, "epsilon": 3, "why": "x"}',
    ],
)
def test_what_is_no_request_is_refused(shared: HttpServing, body: object) -> None:
    assert shared.ask("POST", "budget/requests", body).code == "bad_request"
    assert listed(shared, "olga") == []


@pytest.mark.parametrize("scope", ["explain", "views", "agent", "loop"])
def test_tokens_that_ask_no_questions_ask_for_no_budget(shared: HttpServing, scope: str) -> None:
    assert asked(shared, f"ana-{scope}").code == "not_allowed"
    assert listed(shared, "olga") == []


def test_few_requests_wait_at_once_and_none_is_lost(server: HttpServing) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(asked(server).status)) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [200] * MOST_WAITING + [429] * (8 - MOST_WAITING)
    assert asked(server).code == "too_many_requests"
    assert asked(server, "eve").status == 200  # another user of the account
    assert decided(server, 1, "refuse").status == 200
    assert asked(server).status == 200
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)
    again = http_started(server.directory, server.tokens)
    server.process, server.port = again.process, again.port
    assert len(listed(server, "ana")) == MOST_WAITING + 1


def test_the_audit_log_has_all_but_the_reason(server: HttpServing) -> None:
    asked(server)
    decided(server, 1)
    text = (server.directory / "audit.jsonl").read_text()
    assert WHY not in text
    lines = [json.loads(line) for line in text.splitlines()]
    (made,) = (line for line in lines if line["event"] == "budget_requested")
    assert (made["user"], made["token"], made["account"], made["number"], made["epsilon"]) == (
        *("ana", "laptop", "ana", 1, 5.0),
    )
    actions = [line["event"] for line in lines if line.get("operation") == "approve_request"]
    assert actions == ["action", "action_done"]


# -- what is kept ---------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 11, 29, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def users(tmp_path: Path, clock: Clock) -> Iterator[Users]:
    with Users.create(tmp_path / "users.db", iterations=4096, clock=clock) as found:
        found.add("ana", PASSWORD, [Role.ANALYST], ["ana"])
        yield found


def unnoted(one: BudgetRequest) -> None:
    pass


def test_a_day_has_so_many_requests(users: Users, clock: Clock) -> None:
    for _ in range(MOST_A_DAY):
        made = users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted)
        users.requests.decide("clinic", made.number, RequestState.REFUSED, "olga", "", unnoted)
        clock.now += timedelta(hours=1)
    with fails_with("too_many_requests"):
        users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted)
    clock.now += timedelta(hours=24 - MOST_A_DAY)
    assert users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted).number == MOST_A_DAY + 1


def test_what_cannot_be_noted_or_done_leaves_all_as_it_was(users: Users) -> None:
    def fails(one: BudgetRequest) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        users.requests.file("clinic", "ana", "ana", 2.0, WHY, fails)
    assert users.requests.all("clinic", 10) == ()
    made = users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted)
    decision = "clinic", made.number, RequestState.APPROVED, "olga", ""
    with pytest.raises(ArithmeticError):
        users.requests.decide(*decision, fails)
    assert users.requests.request("clinic", made.number).state is RequestState.OPEN


def test_a_decision_that_takes_long_holds_up_no_login_and_no_request(users: Users) -> None:
    made = users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted)
    acting, may_end = threading.Event(), threading.Event()

    def slow(one: BudgetRequest) -> str:
        acting.set()
        assert may_end.wait(20)
        return "done"

    decision = "clinic", made.number, RequestState.APPROVED, "olga", ""
    with ThreadPoolExecutor(2) as threads:
        deciding = threads.submit(lambda: users.requests.decide(*decision, slow))
        assert acting.wait(20)
        other = threads.submit(users.issue_token, "ana", "laptop")
        assert other.result(10).secret
        assert not deciding.done()
        may_end.set()
        assert deciding.result(20) == "done"
    with fails_with("request_decided"):
        users.requests.decide(*decision, slow)


def test_of_two_processes_one_decides_and_the_other_does_nothing(
    users: Users, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted)
    acting, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(one: BudgetRequest) -> None:
        acting.set()
        assert may_end.wait(20)
        done.append("raised")

    def refuse(by: Users) -> None:
        state = RequestState.REFUSED
        by.requests.decide("clinic", number, state, "otto", "", lambda one: done.append("refused"))

    def approve() -> None:
        users.requests.decide("clinic", number, RequestState.APPROVED, "olga", "", slow)

    number = made.number
    with (
        Users(tmp_path / "users.db") as other,  # opened apart, as in another process
        ThreadPoolExecutor(2) as threads,
    ):
        deciding = threads.submit(approve)
        assert acting.wait(20)
        with monkeypatch.context() as patched:
            patched.setattr(user_file, "_PATIENCE", 0.1)
            with fails_with("users_busy"):
                refuse(other)
        late = threads.submit(refuse, other)
        assert other.requests.request("clinic", number).state is RequestState.OPEN
        may_end.set()
        deciding.result(20)
        with fails_with("request_decided"):
            late.result(20)
    assert done == ["raised"]
    assert users.requests.request("clinic", number).owner == "olga"


def test_servers_of_other_datasets_have_other_requests(users: Users) -> None:
    made = users.requests.file("clinic", "ana", "ana", 2.0, WHY, unnoted)
    assert users.requests.all("sales", 10) == users.requests.of_user("sales", "ana", 10) == ()
    decision = "sales", made.number, RequestState.APPROVED, "olga", ""
    with fails_with("unknown_request"):
        users.requests.decide(*decision, unnoted)
    assert users.requests.all("clinic", 10) == (made,)


# -- the command line -----------------------------------------------------------------------------


def invoked(server: HttpServing, token: str, *words: str) -> Result:
    kept = server.directory / f"token-{token}"
    kept.write_text(server.tokens[token] + "\n")
    kept.chmod(0o600)
    where = ["-d", server.url, "--token-file", str(kept)]
    return CliRunner().invoke(cli, ["budget", *words, *where])


def test_the_command_line_asks_lists_and_decides(server: HttpServing) -> None:
    found = invoked(server, "ana", "request", WHY, "--epsilon", "2000")
    assert (found.exit_code, found.output) == (0, "Request 1 waits for an owner.\n")
    assert invoked(server, "ana", "request", "\x1b[2J\x9b2J", "--epsilon", "3").exit_code == 0
    table = invoked(server, "olga", "requests", "--all")
    assert WHY in table.output
    assert not {"\x1b", "\x9b"} & set(table.output)
    assert invoked(server, "ana", "approve", "1").exit_code != 0
    assert "policies_give_less" in invoked(server, "olga", "approve", "1").output
    assert invoked(server, "olga", "refuse", "1", "--note", "In July").exit_code == 0
    assert invoked(server, "olga", "approve", "2").output == (
        "Request 2 is approved. Its account may spend as much already: no limit was raised.\n"
    )
    found = invoked(server, "ana", "requests", "-f", "json")
    assert not {"\x1b", "\x9b"} & set(found.output)
    assert json.loads(found.output)[0]["why"] == "\x1b[2J\x9b2J"
    told = [(one["number"], one["state"], one["note"]) for one in json.loads(found.output)]
    assert told == [(2, "approved", ""), (1, "refused", "In July")]
    assert invoked(server, "eve", "requests").output == "No requests.\n"


def test_data_of_ones_own_have_nobody_to_ask(tmp_path: Path) -> None:
    where = ["-d", str(tmp_path / "x.duckdb")]
    found = CliRunner().invoke(cli, ["budget", "request", WHY, "--epsilon", "2", *where])
    assert found.exit_code == 2
    assert "dpsql budget owner limit" in found.output


def test_others_may_not_read_the_file_with_a_token(shared: HttpServing) -> None:
    kept = shared.directory / "token"
    kept.write_text(shared.tokens["ana"])
    words = ["budget", "requests", "-d", shared.url, "--token-file", str(kept)]
    for mode, fits in ((0o640, False), (0o604, False), (0o600, True), (0o400, True)):
        kept.chmod(mode)
        found = CliRunner().invoke(cli, words)
        assert (found.exit_code == 0) is fits
        assert ("token_not_private" in found.output) is not fits


def test_a_connection_asks_for_more(server: HttpServing) -> None:
    con = dpsql.connect(server.url, token=server.tokens["ana"])
    assert isinstance(con, dpsql.RemoteConnection)
    with con:
        made = con.request_budget(7, WHY)
        assert (made.number, made.epsilon, made.why) == (1, 7.0, WHY)
        assert con.budget_requests() == (made,)
        with fails_with("bad_request"):
            con.request_budget(-1, WHY)
