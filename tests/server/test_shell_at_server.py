"""The shell and ``dpsql budget`` at a real server: commands, prices, prompts and cancelling."""

from __future__ import annotations

import io
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from helpers.failures import fails_with
from helpers.http_serving import HttpServing, filled_with_tokens, http_started

from dpsql.interfaces.cli import cli
from dpsql.interfaces.shell.cancel import Cancelled
from dpsql.interfaces.shell.screen import Screen
from dpsql.interfaces.shell.script import Outcome, run_script
from dpsql.interfaces.shell.server_target import ServerTarget
from dpsql.interfaces.shell.settings import ShellSettings
from dpsql.interfaces.shell.start import prompt, toolbar
from dpsql.interfaces.shell.state import Shell

QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE (a.range * b.range) % 7 = 3"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServing]:
    directory = tmp_path_factory.mktemp("shell")
    found = http_started(directory, filled_with_tokens(directory))
    for name, secret in found.tokens.items():
        kept = directory / f"token-{name}"
        kept.write_text(secret)
        kept.chmod(0o600)
    yield found
    found.process.send_signal(signal.SIGTERM)
    assert found.process.wait(60) == 0
    assert "Traceback" not in found.log.read_text()


def run(server: HttpServing, *words: str, token: str = "ana", typed: str = "") -> Result:
    kept = str(server.directory / f"token-{token}")
    return CliRunner().invoke(cli, [*words, "--token-file", kept], input=typed)


def shell(server: HttpServing, *typed: str, token: str = "ana", more: tuple[str, ...] = ()) -> str:
    done = run(server, "shell", server.url, *more, token=token, typed="\n".join(typed) + "\n")
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def opened(server: HttpServing) -> Iterator[tuple[Shell, io.StringIO, io.StringIO]]:
    out, err = io.StringIO(), io.StringIO()
    target = ServerTarget(server.url, server.tokens["ana"])
    with target.opened(lambda percent: None) as source:
        yield Shell(source, Screen(out, err, interactive=False), ShellSettings()), out, err


def test_statements_and_commands_are_answered(server: HttpServing) -> None:
    told = shell(server, f"{QUESTION};", "\\history", "\\plot", "\\x on", f"{QUESTION};")
    assert "95%" in told
    assert "paid ε 1" in told
    assert "paid for before" in told
    assert told.count(QUESTION) == 1  # once in the history
    assert "█" in told
    assert "─[ 1 ]" in told
    told = shell(server, "\\l", "\\dt", "\\d visits", "\\dm", "\\budget")
    assert server.url in told
    assert re.search(r"dataset +clinic", told)
    assert re.search(r"account +ana", told)
    assert "patient_id" in told
    assert "wards" in told
    assert re.search(r"budget +ε [0-9.,]+ of 1,000 left", told)


def test_what_set_sets_holds_and_is_shown(server: HttpServing) -> None:
    told = shell(server, "\\set epsilon 0.25", "\\set epsilon", f"\\explain {QUESTION}")
    assert "0.25" in told
    assert re.search(r"ε ?0\.25|epsilon +0\.25", told)
    found = shell(server, "\\format json", f"\\explain {QUESTION}", "\\budget")
    assert '"price_epsilon"' in found
    assert '"epsilon_left"' in found


def test_another_account_of_the_token_pays(server: HttpServing) -> None:
    told = shell(server, "\\l", "\\budget", more=("-a", "bob"))
    assert re.search(r"account +bob", told)
    assert "of 1 left" in told
    done = run(server, "shell", server.url, "-a", "carl", "-c", "\\l")
    assert done.exit_code == 2
    assert "not_allowed" in done.output


def test_a_refusal_points_at_its_place(server: HttpServing) -> None:
    done = run(server, "shell", server.url, "-c", "SELECT patient_id FROM visits")
    assert done.exit_code == 2
    assert "raw_rows" in done.stderr
    assert "^" in done.stderr


def test_the_prompt_tells_what_is_left(
    opened: tuple[Shell, io.StringIO, io.StringIO],
) -> None:
    typed, _, _ = opened
    parts = prompt(typed)
    assert parts[0][1] == "ana "
    assert re.fullmatch(r"ε [0-9.,]+ left", parts[1][1])
    typed.answer("SELECT COUNT(*) AS n FROM visits WHERE ward = 'a'")
    assert "ε 1 paid" in toolbar(typed)
    typed.answer("SELECT COUNT(*) AS n FROM visits WHERE ward = 'a'")
    assert "given before, free" in toolbar(typed)
    assert "dataset clinic" in toolbar(typed)
    assert typed.catalog.tables["visits"] == ("patient_id", "cost", "ward", "day")


def test_a_person_is_asked_about_what_costs_and_only_about_that(
    opened: tuple[Shell, io.StringIO, io.StringIO],
) -> None:
    typed, _, _ = opened
    asked: list[str] = []

    def refuse(question: str) -> bool:
        asked.append(question)
        return False

    typed.ask = refuse
    typed.settings = typed.settings.with_text("confirm", "0%")
    before = typed.balance()
    typed.answer("SELECT AVG(cost) AS c FROM visits")
    typed.answer("SELECT beds FROM wards")
    assert len(asked) == 1
    assert "This reserves ε 1: " in asked[0]
    assert "of what is left" in asked[0]
    assert typed.balance() == before
    typed.settings = typed.settings.with_text("confirm", "100%")
    typed.answer("SELECT AVG(cost) AS c FROM visits")
    assert len(asked) == 1
    after = typed.balance()
    assert before is not None
    assert after is not None
    assert after.charges == before.charges + 1


def test_ctrl_c_ends_the_query_at_the_server(
    opened: tuple[Shell, io.StringIO, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed, _, _ = opened
    stop = typed.source.work._stop
    timer = threading.Timer(1.0, stop.set)  # as the handler of SIGINT does
    timer.start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        typed.answer(SLOW)
    assert time.monotonic() - started < 30
    timer.join()
    typed.answer("SELECT beds FROM wards")  # the connection is good for more


def test_a_server_that_goes_away_is_an_error_not_an_end(tmp_path: Path) -> None:
    server = http_started(tmp_path, filled_with_tokens(tmp_path))
    with ServerTarget(server.url, server.tokens["ana"]).opened(lambda percent: None) as source:
        out, err = io.StringIO(), io.StringIO()
        typed = Shell(source, Screen(out, err, interactive=False), ShellSettings())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        lines = [f"{QUESTION};\n", "\\budget\n"]
        assert run_script(typed, lines, "typed", keep_going=True) is Outcome.FAILED
        assert err.getvalue().count("server_not_reached") == 2
        assert prompt(typed) == [("class:prompt", "ana> ")]


@pytest.mark.parametrize("token", ["doras-old", "carl", "eves-old"])
def test_a_token_that_is_none_opens_no_shell(server: HttpServing, token: str) -> None:
    done = run(server, "shell", server.url, "-c", "\\l", token=token)
    assert done.exit_code == 2
    assert "login_failed" in done.stderr


def test_answers_are_not_written_over_the_token(server: HttpServing) -> None:
    kept = server.directory / "token-ana"
    done = run(server, "shell", server.url, typed=f"\\o {kept}\nSELECT 1;\n")
    assert done.exit_code == 2
    assert kept.read_text() == server.tokens["ana"]


def test_options_of_files_are_refused(server: HttpServing, tmp_path: Path) -> None:
    done = run(server, "shell", server.url, "--ledger", "x.db")
    assert done.exit_code == 2
    assert "--ledger is for data of one's own" in done.output
    done = run(server, "shell", str(tmp_path / "x.duckdb"))
    assert "--token-file is for the address of a server" in done.output
    done = CliRunner().invoke(cli, ["shell", str(tmp_path / "x.duckdb")])
    assert "Missing option '--analyst'" in done.output


# -- dpsql budget ---------------------------------------------------------------------------------


def budget(server: HttpServing, *words: str, token: str = "dora") -> str:
    done = run(server, "budget", *words, "-d", server.url, token=token)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_budget_is_that_of_the_server(server: HttpServing) -> None:
    server.query(QUESTION, "dora")
    shown = json.loads(budget(server, "show", "-f", "json"))
    assert shown["account"] == "clinic/ana"
    assert shown == {k: v for k, v in server.ask("GET", "budget").json.items() if k != "room"}
    assert "clinic/ana" in budget(server)
    history = json.loads(budget(server, "history", "-f", "json"))
    assert QUESTION in [one["sql"] for one in history]
    assert QUESTION in budget(server, "history")
    assert budget(server, "history", "-f", "csv", "--limit", "1").startswith("asked,stored,sql\n")


def test_an_estimate_costs_nothing(server: HttpServing) -> None:
    before = server.ledger
    new = "SELECT COUNT(*) AS n FROM visits WHERE cost > 1"
    told = budget(server, "estimate", "--epsilon", "2", new)
    assert re.search(r"reserves +ε 2", told)
    assert "share of what is left" in told
    found = json.loads(budget(server, "estimate", "-f", "json", new))
    assert found["price"]["price_epsilon"] == 1
    assert found["budget"]["account"] == "clinic/ana"
    assert "costs nothing" in budget(server, "estimate", "SELECT beds FROM wards")
    assert server.ledger == before


@pytest.mark.parametrize("words", [["--all"], ["--compare"], ["-l", "x.db"], ["history", "--all"]])
def test_what_a_server_does_not_tell_is_refused(server: HttpServing, words: list[str]) -> None:
    done = run(server, "budget", *words, "-d", server.url)
    assert done.exit_code == 2
    assert "is for data of one's own" in done.output


def test_a_server_of_another_kind_is_no_source(server: HttpServing) -> None:
    with fails_with("login_failed"), ServerTarget(server.url, "x").opened(lambda percent: None):
        pass
