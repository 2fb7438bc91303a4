"""Limited tokens at each door, and which opening of the data each answer is told to be of."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from helpers.agent_worlds import COUNTS, clinic
from helpers.http_serving import POLICY, HttpServing, Reply, filled_with_tokens, http_started

from dpsql.errors import ParameterError
from dpsql.server.people.records import Role, TokenScope, require_scopes

QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3"
ONE = "SELECT COUNT(DISTINCT patient) AS n FROM visits"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM visits"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory = tmp_path_factory.mktemp("scopes")
    found = http_started(directory, filled_with_tokens(directory))
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


def connected(server: HttpServing, scope: str) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host="127.0.0.1",
        port=server.wire_port,
        dbname="clinic",
        user=f"ana+{scope}",
        password=server.tokens[f"ana-{scope}"],
        autocommit=True,
    )


# -- scopes ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["explain", "views"])
def test_who_may_not_ask_can_look_and_spends_nothing_at_any_door(
    server: HttpServing, scope: str
) -> None:
    token = f"ana-{scope}"
    server.query("SELECT 1", "dora")
    before = server.ledger, server.database
    for route in ("tables", "tables/visits", "budget", "history", "views"):
        assert server.ask("GET", route, None, token).status == 200
    for route in ("explain", "describe"):
        assert server.ask("POST", route, {"sql": QUESTION}, token).status == 200
    for sql in (QUESTION, "SELECT 1", "SELECT beds FROM wards"):
        refused = server.query(sql, token)
        assert (refused.status, refused.code) == (403, "not_allowed")
    with connected(server, scope) as con:
        assert con.execute(f"EXPLAIN {QUESTION}").fetchall()
        assert con.execute("SHOW BUDGET").fetchall()
        with pytest.raises(psycopg.Error, match="may not ask questions"):
            con.execute(QUESTION)
        with pytest.raises(psycopg.Error, match="may not ask questions"):
            con.execute(f"COPY ({QUESTION}) TO STDOUT")
        con.execute("SET epsilon = 0.5")
    assert (server.ledger, server.database) == before


@pytest.mark.slow
def test_views_are_for_who_may_make_them(server: HttpServing) -> None:
    for scope in ("explain", "ask", "agent"):
        refused = server.query(VIEW, f"ana-{scope}")
        assert (refused.status, refused.code) == (403, "not_allowed")
    assert server.query(VIEW, "ana-views").code != "not_allowed"  # it gets further than that


def test_an_agents_token_pays_from_its_own_account_at_every_door(server: HttpServing) -> None:
    report = server.ask("GET", "budget", None, "ana-agent").json
    assert re.fullmatch(r"clinic/ana/ana\+agent 2.*", report["account"])
    assert report["epsilon_limit"] == 8
    paid = server.query("SELECT COUNT(*) AS n FROM visits WHERE cost > 1", "ana-agent")
    assert paid.json["cost"]["epsilon_paid"] > 0
    # Nobody can be asked here, so what a person would have to agree to is refused.
    dear = server.query(QUESTION, "ana-agent", fresh=True, options={"epsilon": 4.5})
    assert (dear.status, dear.code) == (402, "question_too_dear")
    with connected(server, "agent") as con:
        assert "ana/ana+agent 2" in str(con.execute("SHOW BUDGET").fetchall())
        with pytest.raises(psycopg.Error, match="epsilon"):
            con.execute(
                "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4.5) COUNT(*) "
                "FROM visits WHERE cost > 2"
            )
    assert server.ask("GET", "budget", None, "dora").json["account"] == "clinic/ana"
    text = (server.directory / "audit.jsonl").read_text("utf-8")
    logins = [json.loads(line) for line in text.splitlines() if '"event": "login"' in line]
    of_agent = [one for one in logins if one["token"] == "agent"]
    assert of_agent
    assert all(one["run"].startswith("ana+agent 2") for one in of_agent)
    assert all(one["scopes"] == ["agent"] for one in of_agent)
    assert all(one["scopes"] == ["ask", "views"] for one in logins if one["token"] == "laptop")


def test_a_limited_token_cancels_its_own_queries_alone(server: HttpServing) -> None:
    replies: list[Reply] = []

    def ask() -> None:
        replies.append(server.query(SLOW, "ana", id="nightly"))

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(100):
        if SLOW in (server.directory / "audit.jsonl").read_text("utf-8"):
            break
        time.sleep(0.1)
    for token in ("ana-explain", "ana-agent"):
        refused = server.ask("DELETE", "queries/nightly", None, token)
        assert (refused.status, refused.code) == (404, "query_not_running")
    assert not replies
    assert server.ask("DELETE", "queries/nightly", None, "ana").status == 204
    asking.join(60)
    assert replies[0].status >= 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("roles", "scopes"),
    [
        ({Role.OWNER}, {TokenScope.ASK}),
        ({Role.ANALYST}, set()),
        ({Role.ANALYST}, {TokenScope.AGENT, TokenScope.ASK}),
        ({Role.ANALYST}, {TokenScope.AGENT, TokenScope.VIEWS}),
    ],
)
def test_scopes_that_mean_nothing_are_refused(roles: set[Role], scopes: set[TokenScope]) -> None:
    with pytest.raises(ParameterError) as refused:
        require_scopes(frozenset(roles), scopes)
    assert refused.value.code == "bad_scope"


# -- editions -------------------------------------------------------------------------------------


def opened_again(server: HttpServing, times: int) -> None:
    server.process.send_signal(signal.SIGHUP)
    for _ in range(300):
        if server.log.read_text().count("were opened again") >= times:
            return
        time.sleep(0.1)
    raise AssertionError(server.log.read_text())


def edition_of(con: psycopg.Connection[Any]) -> str:
    found = con.info.parameter_status("dpsql.edition")
    assert found is not None
    return found


def header(reply: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.headers["dpsql-edition"])
    return found


@pytest.mark.slow
def test_each_answer_tells_the_opening_of_the_data_it_is_of(tmp_path: Path) -> None:
    server = http_started(tmp_path, filled_with_tokens(tmp_path))
    server.tokens["ana-laptop"] = server.tokens["ana"]
    try:
        with connected(server, "laptop") as con:
            assert edition_of(con).startswith("opening 1 at 20")
            first = server.query(QUESTION)
            told = first.json["edition"]
            assert (told["number"], told["name"], told["made_on"]) == (1, None, "this")
            assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["opened"])
            assert header(first)["number"] == 1
            for route in ("tables", "tables/visits", "budget", "history", "views"):
                assert header(server.ask("GET", route)) == header(first)
            csv = server.query(QUESTION, accept="text/csv")
            assert json.loads(csv.headers["dpsql-answer"])["edition"]["made_on"] == "unknown"
            opened_again(server, 1)
            again = server.query(QUESTION)
            assert again.json["cost"]["free"]
            told = again.json["edition"]
            # It was made on the opening before, and nothing says that it was.
            assert (told["number"], told["made_on"]) == (2, "unknown")
            fresh = server.query(QUESTION, fresh=True).json["edition"]
            assert (fresh["number"], fresh["made_on"]) == (2, "this")
            notices: list[str] = []
            con.add_notice_handler(lambda one: notices.append(str(one.message_primary)))
            con.execute(QUESTION)
            assert any("on data that have no name" in one for one in notices)
            status = edition_of(con)
            assert status.startswith("opening 2 at")
            assert con.execute("SHOW dpsql.edition").fetchall() == [(status,)]
            named = POLICY.replace("dataset: clinic", "dataset: clinic\nedition: autumn")
            (tmp_path / "policies.yaml").write_text(named, "utf-8")
            opened_again(server, 2)
            for _ in range(2):  # paid, and stored: of data of this name
                told = server.query(QUESTION).json["edition"]
                assert (told["number"], told["name"], told["made_on"]) == (3, "autumn", "this")
            con.execute(QUESTION)
            assert edition_of(con).startswith("autumn, opening 3 at")
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_an_edition_does_not_follow_from_the_data(tmp_path: Path) -> None:
    told = []
    for rows in (10, 500):
        directory = tmp_path / str(rows)
        directory.mkdir()
        tokens = filled_with_tokens(directory)
        with duckdb.connect(str(directory / "clinic.duckdb")) as owner:
            owner.execute("DELETE FROM visits WHERE patient_id > ?", [rows])
        server = http_started(directory, tokens)
        try:
            told.append(header(server.ask("GET", "tables")))
        finally:
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
    assert [{**one, "opened": ""} for one in told] == [{"number": 1, "opened": "", "name": ""}] * 2


@pytest.mark.slow
def test_what_stands_on_earlier_answers_is_not_taken_for_this_edition(tmp_path: Path) -> None:
    with clinic(tmp_path) as dataset, dataset.session("ana") as session:
        assert session.sql(COUNTS).from_edition is True
        assert session.sql("SELECT COUNT(*) AS n FROM days").from_edition is True
        assert session.sql(COUNTS).from_edition is None
        session.sql(ONE)
        pooled = session.sql(ONE, epsilon=0.3)
        assert pooled.pooled == 2
        assert not pooled.cost.stored
        assert pooled.from_edition is None
        first = f"{COUNTS.replace('GROUP', 'WHERE cost > (SELECT AVG(cost) FROM visits) GROUP')}"
        assert session.sql(first).from_edition is None
