"""The budget on the command line: reports, the chain, the owner's actions; and what goes wrong."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import click
import duckdb
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.core.formatting import upper_figure
from dpsql.interfaces.cli import cli
from dpsql.ledger import Account, Cause, Head, Kind, Ledger
from dpsql.present.budget_files import to_csv
from dpsql.privacy.accounting.zcdp import Amount, Budget, Composition

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

POLICY = """\
version: 1
dataset: world
defaults: {epsilon: 0.5, delta: 1e-8, max_groups_contributed: 3, max_rows_contributed: 2}
maxima: {max_groups_contributed: unlimited}
accounts:
  ana: {epsilon: 4, delta: 1e-5}
  bo: {epsilon: 1, delta: 1e-6}
total: {epsilon: 4.5, delta: 1e-5}
tables:
  visits:
    privacy_unit: {name: person, column: uid}
    columns:
      colour: {domain: [blue, red]}
  colours: {public: true}
"""
KNOWN = "SELECT colour, COUNT(DISTINCT uid) AS n FROM visits GROUP BY colour"
LESS = {"epsilon": 0.25}
TOP = "SELECT day, COUNT(DISTINCT uid) AS n FROM visits GROUP BY day ORDER BY n DESC LIMIT 10"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "world.duckdb"
    with contextlib.closing(duckdb.connect(str(path))) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT i % 3000 AS uid, i % 4 AS day, "
            "['red', 'blue'][1 + i % 2] AS colour FROM range(9000) t(i)"
        )
        connection.execute("CREATE TABLE colours AS SELECT 'red' AS name")
    return path


@pytest.fixture
def world(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "policies.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    given = {"DATABASE": database, "LEDGER": "budget.db", "ANALYST": "ana", "OWNER": "olga"}
    for name, value in given.items():
        monkeypatch.setenv(f"DPSQL_{name}", str(value))
    return tmp_path


@pytest.fixture(scope="module")
def asked(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of three questions, one of them in a session."""
    directory = tmp_path_factory.mktemp("asked")
    (directory / "policies.yaml").write_text(POLICY)
    place = directory / "budget.db"
    top = {"max_groups_contributed": "unlimited", "mechanism": "gumbel_top_k"}
    for session, sql, more in (("", KNOWN, {}), ("", TOP, top), ("notebook", KNOWN, LESS)):
        with dpsql.connect(
            database, directory / "policies.yaml", place, "ana", session=session
        ) as connection:
            connection.sql(sql, fresh=True, **more)
    return place


@pytest.fixture
def used(world: Path, asked: Path) -> Path:
    """A world in which these were asked."""
    shutil.copy(asked, world / "budget.db")
    return world


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=text)


def ok(*arguments: str, text: str | None = None) -> str:
    result = run(*arguments, text=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def budget(*arguments: str) -> str:
    return ok("budget", *arguments)


def owner(*arguments: str, text: str | None = None) -> Result:
    return run("budget", "owner", *arguments, text=text)


def refused(*arguments: str) -> str:
    result = run("budget", *arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    return " ".join(result.stderr.split())


def ledger() -> contextlib.AbstractContextManager[Ledger]:
    return Ledger.open("budget.db")


def last_event(path: str) -> tuple[str, str, str]:
    with ledger() as opened:
        assert opened.verify().sound
        event = list(opened.events())[-1]
    assert event.account == path
    return event.kind, event.who, event.detail


# -- where accounts stand ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_budget_without_a_command_is_shown(used: Path) -> None:
    assert budget() == budget("show") == budget("-a", "ana")
    first, *_ = budget().split("\n")
    assert first.startswith("3 queries · ε ")
    assert first.endswith("more like the last (visits)")
    assert " · about " not in first, "all of these paid in full: no estimate is needed"


def test_json_says_where_every_account_stands_and_what_is_left(used: Path) -> None:
    report = json.loads(budget("--format", "json", "--compare", "-s", "notebook"))
    assert report["account"] == "world/ana/notebook"
    paths = [account["path"] for account in report["accounts"]]
    assert paths == ["world/ana/notebook", "world/ana"]
    session, own = report["accounts"]
    assert (session["left"], session["limits"], session["spent"]["queries"]) == (None, [], 1)
    with ledger() as opened:
        spent = opened.spent("world/ana").amount.loss
    assert own["spent"]["charged"]["rho"] == upper_figure(spent.rho)
    assert [limit["epsilon"] for limit in own["limits"]] == [4.0]
    assert report["promise"] == {
        "account": "world",
        "epsilon": 4.5,
        "delta": 1e-5,
        "per_window": False,
        "periods": [],
        "rows": [],
        "views": 0,
    }
    nothing = {"epsilon": 0.0, "rho": 0.0, "delta": 0.0}
    assert report["shown"] == {
        "bought": own["spent"]["charged"],
        "carried": nothing,
        "shared": nothing,
        "views": 0,
    }
    assert report["total"] is True
    assert [each["which"] for each in report["forecasts"]] == ["defaults", "again"]
    assert [a["name"] for a in report["analyses"] if a["promised"]] == ["ledger"]


def test_all_accounts_are_shown_with_or_without_the_policies_file(used: Path) -> None:
    with_policy = json.loads(budget("--all", "--format", "json"))["accounts"]
    (used / "policies.yaml").unlink()
    without = json.loads(budget("--all", "--format", "json"))["accounts"]
    for accounts in (with_policy, without):
        assert [a["path"] for a in accounts] == ["world", "world/ana", "world/ana/notebook"]
        assert [a["spent"]["queries"] for a in accounts] == [3, 3, 1]
        (limit,) = accounts[1]["limits"]
        assert limit["source"] == "policy"
        assert limit["epsilon"] == pytest.approx(4.0, rel=1e-6)
    assert "world/ana/notebook" in budget("--all")


def test_reports_on_a_ledger_that_is_not_there_do_not_create_it(world: Path) -> None:
    budget()
    budget("estimate", KNOWN)
    for arguments in (
        ("--all",),
        ("history",),
        ("verify",),
        ("head",),
        ("export",),
        ("owner", "limit", "world/ana", "--none"),
        ("owner", "window", "world/ana", "--yes"),
        ("owner", "accept-clock"),
    ):
        assert "there is no ledger budget.db" in refused(*arguments)
    assert not (world / "budget.db").exists()


def test_an_unknown_analyst_or_none_is_refused(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no account 'eve'" in refused("-a", "eve")
    assert "no account 'eve'" in refused("estimate", KNOWN, "-a", "eve")
    monkeypatch.delenv("DPSQL_ANALYST")
    assert "'--analyst'" in refused("show")
    assert "No such command" in refused("shwo")


@pytest.mark.slow
def test_the_estimate_is_what_can_really_be_asked(world: Path) -> None:
    owner("create", "world/ana")
    owner("limit", "world/ana", "--epsilon", "1", "--delta", "1e-5")
    said = json.loads(budget("estimate", KNOWN, "--epsilon", "0.5", "--format", "json"))
    count = said["forecasts"][-1]["at_worst"]
    assert said["forecasts"][-1]["which"] == "given"
    codes = [run("query", KNOWN, "--fresh").exit_code for _ in range(count + 1)]
    assert codes == [0] * count + [2]
    assert count > 2
    text = " ".join(budget("estimate", KNOWN).split())
    assert "this question (visits, ε 0.5, δ 5e-09): 0 more at worst" in text
    with ledger() as opened:
        assert opened.spent("world/ana").queries == count


@pytest.mark.slow
def test_an_estimate_spends_nothing_and_reads_the_session_and_the_total(used: Path) -> None:
    before = budget("head")
    assert "It reserves ρ" in budget("estimate", TOP, "-s", "notebook")
    found = json.loads(budget("estimate", KNOWN, "-a", "bo", "-f", "json"))["forecasts"][-1]
    assert found["sample"] == 0
    assert found["about"] is None
    assert "costs nothing" in budget("estimate", "SELECT name FROM colours")
    assert "asked again it costs nothing" in budget("estimate", KNOWN, "-s", "another")
    assert "asked again" not in budget("estimate", KNOWN, "--epsilon", "0.123")
    assert "[raw_rows]" in refused("estimate", "SELECT * FROM visits")
    assert budget("head") == before


# -- who asked what ---------------------------------------------------------------------------


def test_the_history_says_what_was_asked_and_what_it_cost(used: Path) -> None:
    text = " ".join(budget("history").split())
    assert text.index("world/ana/notebook") < text.index(TOP) < text.rindex(KNOWN)
    assert "top-10 of visits by gumbel_top_k, at ε 0.5, δ 1e-08" in text
    assert "max_groups_contributed unlimited" in text
    assert text.count("· stored") == 3
    entries = json.loads(budget("history", "--format", "json"))
    assert [entry["account"] for entry in entries] == ["world/ana/notebook"] + 2 * ["world/ana"]
    assert [entry["plan"]["statement"] for entry in entries] == [KNOWN, TOP, KNOWN]
    top = entries[1]
    assert top["charged"]["rho"] < top["reserved"]["rho"]
    assert top["charged"]["units"]["rho"] / 2**40 == top["charged"]["rho"]
    assert "(ε 0.5 at δ 1e-08) · paid" in text


def test_the_history_tells_of_a_share_for_what_is_left_out_where_there_was_one(
    world: Path, database: Path
) -> None:
    with dpsql.connect(database, "policies.yaml", "budget.db", "ana") as connection:
        connection.sql(KNOWN)
        assert "left_out_share" not in budget("history")
        connection.sql(KNOWN, left_out_share=0.05, epsilon=0.4)
    assert " ".join(budget("history").split()).count("left_out_share 0.05") == 1


def test_the_history_is_told_page_by_page_for_one_account_or_for_all(used: Path) -> None:
    ok("query", KNOWN, "-a", "bo")
    numbers = [entry["entry"] for entry in json.loads(budget("history", "--all", "-f", "json"))]
    assert len(numbers) == 4
    assert numbers == sorted(numbers, reverse=True)
    pages = [
        json.loads(budget("history", "--all", "-f", "json", "--limit", "2", *before))
        for before in ((), ("--before", str(numbers[1])))
    ]
    assert [entry["entry"] for page in pages for entry in page] == numbers
    own = json.loads(budget("history", "-f", "json"))
    assert {entry["account"].split("/")[1] for entry in own} == {"ana"}
    (one,) = json.loads(budget("history", "--account", "world/ana/notebook", "-f", "json"))
    assert one["entry"] == own[0]["entry"]
    assert budget("history", "--account", "nobody") == "No questions.\n"


def test_values_of_parameters_and_failed_questions_are_in_the_history(
    world: Path, database: Path
) -> None:
    with dpsql.connect(database, "policies.yaml", "budget.db", "ana") as connection:
        connection.sql("SELECT COUNT(*) AS n FROM visits WHERE colour = ?", ["\x1b[2Jred"])
        paying = connection._answerer.payer
    with ledger() as opened:
        opened.reserve(
            paying.path,
            Budget.of(0.01, 1e-8, Composition.ZCDP).limit,
            query="f",
            plan='{"statement": "\\u001b[2J[bold]", "blocks": 7}',
            limits=paying.limits,
        )
    text = budget("history")
    assert "\x1b" not in text
    assert "\\x1b[2J[bold]" in text
    assert "unsettled: running, or failed and held in full" in text
    assert "with 1 = '\\x1b[2Jred'" in text


# -- the chain --------------------------------------------------------------------------------


def damage(place: Path, sql: str) -> None:
    """Change a ledger behind its back."""
    with contextlib.closing(sqlite3.connect(place)) as connection:
        rules = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        kept = rules.fetchall()
        for name, _ in kept:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(sql)
        for _, text in kept:
            connection.execute(text)
        connection.commit()


@pytest.mark.slow
def test_a_sound_ledger_verifies_and_goes_on_from_heads_that_were_kept(used: Path) -> None:
    first = budget("head").strip()
    ok("query", KNOWN, "--fresh")
    (used / "heads.txt").write_text(f"# kept by mail\n\n{first}  # Monday\n")
    assert "No head was given" in budget("verify")
    text = budget("verify", "--heads", "heads.txt", "--head", budget("head").strip())
    assert text.startswith("sound: ")
    assert "The chain goes on from all 2 heads" in text
    found = json.loads(budget("verify", "--head", first, "-f", "json"))
    assert (found["sound"], found["broken"], found["anchors"]) == (True, None, [first])
    assert json.loads(budget("head", "-f", "json")) == {"head": found["head"]}


def test_an_altered_ledger_exits_with_2_and_names_the_first_broken_place(used: Path) -> None:
    with ledger() as opened:
        (entry, *_) = opened.history("world/ana")
    damage(used / "budget.db", f"UPDATE events SET rho = rho - 1 WHERE seq = {entry.entry}")
    result = run("budget", "verify")
    assert result.exit_code == 2
    assert result.stdout.startswith(f"broken at event {entry.entry}: ")
    found = json.loads(run("budget", "verify", "-f", "json").stdout)
    assert (found["sound"], found["place"]) == (False, entry.entry)


def test_an_older_copy_is_noticed_by_a_head_that_was_kept(used: Path) -> None:
    shutil.copy("budget.db", "copy.db")
    ok("query", KNOWN, "--fresh")
    head = budget("head").strip()
    assert run("budget", "verify", "-l", "copy.db").exit_code == 0
    result = run("budget", "verify", "-l", "copy.db", "--head", head)
    assert result.exit_code == 2
    assert "the chain ends before a head that was written down" in result.stdout


@pytest.mark.parametrize("head", ["", "7", "0:" + 64 * "0", "1:xyz", "1:" + 62 * "0"])
def test_what_is_no_head_is_refused(used: Path, head: str) -> None:
    assert "64 hexadecimal digits" in refused("verify", "--head", head)
    assert "cannot be read as text" in refused("verify", "--heads", "no.txt")


def test_an_export_holds_every_entry_and_account(used: Path) -> None:
    whole = json.loads(budget("export"))
    assert Head.parse(whole["head"]) == Head.parse(budget("head"))
    assert [entry["plan"]["statement"] for entry in whole["entries"]] == [KNOWN, TOP, KNOWN]
    paths = [account["path"] for account in whole["accounts"]]
    assert paths == ["world", "world/ana", "world/ana/notebook"]
    rows = list(csv.DictReader(io.StringIO(budget("export", "-f", "csv"))))
    assert [row["statement"] for row in rows] == [KNOWN, TOP, KNOWN]
    assert [float(row["reserved_rho"]) for row in rows] == [
        entry["reserved"]["rho"] for entry in whole["entries"]
    ]
    accounts = budget("export", "-f", "csv", "--table", "accounts")
    assert [row["queries"] for row in csv.DictReader(io.StringIO(accounts))] == ["3", "3", "1"]


def test_an_export_is_written_whole_and_over_nothing(used: Path) -> None:
    budget("export", "-o", "out.json", "-q")
    assert json.loads((used / "out.json").read_text()) == json.loads(budget("export"))
    assert "exists already" in refused("export", "-o", "out.json")
    budget("export", "-o", "out.json", "--force")


def test_long_histories_are_exported_in_pieces(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.budget.owner.RECENT", 5)
    monkeypatch.setattr("dpsql.present.budget_files.PIECE", 7)
    limit = Budget.of(4.0, 1e-5, Composition.ZCDP).limit
    with ledger() as opened:
        for number in range(23):
            opened.reserve(
                "world/ana",
                Amount(rho=1),
                query=f"q{number}",
                plan='"=1+1"' if number else "{}",
                limits=[Account("world/ana", limit)],
            )
    entries = json.loads(budget("export"))["entries"]
    assert [entry["query"] for entry in entries] == [f"q{n}" for n in reversed(range(23))]
    rows = list(csv.DictReader(io.StringIO(budget("export", "-f", "csv"))))
    assert len(rows) == 23


@pytest.mark.parametrize(
    "plan",
    [
        "7",
        '{"blocks": [{"table": "t", "parameters": {"a": ' + "[" * 400 + "]" * 400 + "}}]}",
        "[" * 900 + "]" * 900,
        '{"statement": "\\udcff \\u0000", "blocks": [{"parameters": {"a": NaN}}]}',
        '{"blocks": [{"table": "[red]", "mechanism": 7, "parameters": {"epsilon": 1e400}}]}',
    ],
)
def test_whatever_others_wrote_into_a_ledger_is_reported(world: Path, plan: str) -> None:
    limit = Account("world/ana", Amount(rho=2**40, delta=2**50))
    with ledger() as opened:
        opened.reserve("world/ana", Amount(rho=1), query="q", plan=plan, limits=[limit])
    assert "#" in budget("history")
    assert len(json.loads(budget("history", "-f", "json"))) == 1
    budget("export", "-o", "out.json")
    assert len(json.loads((world / "out.json").read_bytes())["entries"]) == 1
    assert len(list(csv.reader(io.StringIO(budget("history", "-f", "csv"))))) == 2
    assert budget("--compare").startswith("1 query")


def test_a_spreadsheet_runs_nothing_that_was_asked() -> None:
    hostile = ["=1+1", "+1", "-1", "@x", "\tx", "plain", -1.5, None]
    (row,) = csv.reader(io.StringIO(to_csv((), [hostile])))
    assert row == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "plain", "-1.5", ""]


# -- the owner --------------------------------------------------------------------------------


def test_owners_need_a_name_which_is_recorded_with_what_they_do(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert owner("create", "world/ana", "--as", "oscar").exit_code == 0
    assert last_event("world/ana")[:2] == (Kind.ACCOUNT, "oscar")
    assert owner("create", "world/bo").exit_code == 0
    assert last_event("world/bo")[:2] == (Kind.ACCOUNT, "olga")
    monkeypatch.delenv("DPSQL_OWNER")
    assert "'--as'" in refused("owner", "create", "world/cy")


@pytest.mark.slow
def test_a_limit_is_converted_as_the_policys_and_binds_from_then_on(used: Path) -> None:
    assert owner("limit", "world/ana", "--epsilon", "1", "--delta", "1e-6").exit_code == 0
    kind, who, detail = last_event("world/ana")
    assert (kind, who) == (Kind.LIMITS, "olga")
    assert json.loads(detail)["terms"] == {"epsilon": 1.0, "delta": 1e-6, "composition": "zcdp"}
    with ledger() as opened:
        (standing,) = opened.standing("world/ana", ())[1:]
    assert standing.limits == (Budget.of(1.0, 1e-6, Composition.ZCDP).limit,)
    assert "the owner's ε 1 at δ 1e-06 (binds)" in budget()
    codes = [run("query", KNOWN, "--fresh").exit_code for _ in range(9)]
    assert set(codes) == {0, 2}
    assert owner("limit", "world/ana", "--none").exit_code == 0
    assert run("query", KNOWN, "--fresh").exit_code == 0
    assert "the owner's" not in budget()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["world/ana"], "give --epsilon and --delta, or --none"),
        (["world/ana", "--epsilon", "1"], "needs both"),
        (["world/ana", "--none", "--delta", "1"], "or --none"),
        (["world/ana", "--epsilon", "0", "--delta", "1e-6"], "epsilon must be"),
        (["world/ana", "--epsilon", "nan", "--delta", "1e-6"], "epsilon must be"),
        (["world/ana", "--epsilon", "1", "--delta", "1"], "delta must be"),
        (["world/eve", "--epsilon", "1", "--delta", "1e-6"], "no account world/eve"),
        (["world//ana", "--none"], "non-empty printable parts"),
        (["world/\x1b[2J", "--none"], "non-empty printable parts"),
        (
            ["world/ana", "--epsilon", "1", "--delta", "1e-6", "--composition", "basic"],
            "was charged under zcdp composition",
        ),
    ],
)
def test_a_bad_limit_changes_nothing(used: Path, arguments: list[str], message: str) -> None:
    before = budget("head")
    assert message in refused("owner", "limit", *arguments)
    assert budget("head") == before


def test_a_new_window_is_opened_after_a_warning_that_says_what_it_means(used: Path) -> None:
    before = budget("head")
    stopped = owner("window", "world/ana", text="n\n")
    assert stopped.exit_code == 130
    warning = " ".join(stopped.stderr.split())
    assert "learn up to ε 4 at δ 1e-05 once more about the same people" in warning
    assert "nothing takes it back" in warning
    assert budget("head") == before
    assert owner("window", "world/ana", text="y\n").exit_code == 0
    assert last_event("world/ana")[:2] == (Kind.WINDOW, "olga")
    report = json.loads(budget("--format", "json"))
    assert (report["queries"], report["accounts"][0]["total"]["queries"]) == (0, 3)
    world, *_ = json.loads(budget("--all", "--format", "json"))["accounts"]
    assert (world["path"], world["spent"]["queries"]) == ("world", 3)
    assert "over all 2 windows" in budget()
    assert owner("window", "world/ana", "--yes").exit_code == 0
    assert "no account world/eve" in refused("owner", "window", "world/eve", "--yes")


def fail(account: str = "world/ana", cause: Cause = Cause.ENGINE) -> int:
    """A question on which the engine failed."""
    with ledger() as opened:
        limits = [Account("world/ana", Amount(rho=10**15, delta=10**15))]
        charge = opened.reserve(
            account, Amount(rho=10, delta=1), query="f", plan="{}", limits=limits
        )
        opened.fail(charge, "world/ana", cause)
    return charge.entry


@pytest.mark.slow
def test_a_suspended_account_is_told_everywhere_and_answers_nothing_new(used: Path) -> None:
    entry = fail(cause=Cause.MEMORY)
    assert budget().startswith("suspended · ")
    assert "until the owner of the data has reopened it" in " ".join(budget().split())
    assert "world/ana suspended" in " ".join(budget("--all").split())
    text = " ".join(budget("history").split())
    assert f"suspended: the engine failed on question #{entry} (its limit of memory)" in text
    assert "· failed: held in full" in text
    (failed, *others) = json.loads(budget("history", "-f", "json"))
    assert failed["entry"] == entry
    assert failed["charged"] is None
    assert failed["failed"] is not None
    assert [other["failed"] for other in others] == 3 * [None]
    report = json.loads(budget("-f", "json"))
    assert [a["suspended"] for a in report["accounts"]] == [report["suspended"]]
    exported = json.loads(budget("export"))
    (told,) = exported["suspensions"]
    assert (told["kind"], told["entry"], told["cause"]) == ("failure", entry, "memory")
    (row, *_) = csv.DictReader(io.StringIO(budget("export", "-f", "csv")))
    assert (row["entry"], row["failed"]) == (str(entry), failed["failed"])
    rows = csv.DictReader(io.StringIO(budget("export", "-f", "csv", "--table", "accounts")))
    assert {r["account"] for r in rows if r["suspended"]} == {"world/ana"}
    answer = run("query", KNOWN, "--fresh")
    assert answer.exit_code == 2
    assert "dpsql budget owner reopen world/ana" in " ".join(answer.stderr.split())
    assert ok("query", KNOWN), "what was answered before is answered still"
    assert run("query", KNOWN, "-a", "bo").exit_code == 0


@pytest.mark.slow
def test_the_owner_reopens_an_account_after_a_look_at_what_failed(used: Path) -> None:
    entry = fail()
    stopped = owner("reopen", "world/ana", text="n\n")
    assert stopped.exit_code == 130
    assert f"#{entry} of `dpsql budget history`" in " ".join(stopped.stderr.split())
    assert run("query", KNOWN, "--fresh").exit_code == 2
    assert owner("reopen", "world/ana", text="y\n").exit_code == 0
    assert last_event("world/ana")[:2] == (Kind.REOPEN, "olga")
    assert run("query", KNOWN, "--fresh").exit_code == 0
    assert "suspended" not in budget()
    assert "reopened by the owner" in budget("history")
    assert "is not suspended" in refused("owner", "reopen", "world/ana", "--yes")


@pytest.mark.slow
def test_the_owner_suspends_an_account_without_a_failure(used: Path) -> None:
    assert owner("suspend", "world").exit_code == 0
    assert last_event("world")[:2] == (Kind.SUSPEND, "olga")
    answer = run("query", KNOWN, "--fresh")
    assert answer.exit_code == 2
    assert "the owner of the data has suspended it" in " ".join(answer.stderr.split())
    assert "suspended by the owner" in budget("history")
    for told in (budget(), ok("query", "SHOW BUDGET", "--format", "csv")):
        assert "suspended" in told
    assert "world is suspended since" in budget()
    assert owner("reopen", "world").exit_code == 0  # there is nothing to warn of
    assert run("query", KNOWN, "--fresh").exit_code == 0
    assert "no account world/eve" in refused("owner", "suspend", "world/eve")


@pytest.mark.slow
def test_an_account_is_renamed_after_a_question_and_everything_tells_it(used: Path) -> None:
    asked = owner("rename", "world/ana", "world/zoe", text="n\n")
    assert asked.exit_code == 130
    told = " ".join(asked.stderr.split())
    assert "Who asks as world/zoe from now on pays from what world/ana has left" in told
    before = json.loads(budget("show", "--all", "-f", "json"))["accounts"]

    assert owner("rename", "world/ana", "world/zoe", "--yes").exit_code == 0
    assert last_event("world/ana")[:2] == (Kind.RENAME, "olga")
    assert "renamed by the owner: it was world/ana" in " ".join(budget("history", "--all").split())
    assert "world/zoe (was world/ana)" in " ".join(budget("show", "--all").split())

    def findings() -> list[str]:
        with Path("policies.yaml").open("a") as file:
            file.write("ledger: budget.db\n")
        return [each["message"] for each in json.loads(ok("check", "-f", "json"))]

    (closed,) = findings()  # the policies file still has ana
    assert "it is world/zoe now" in closed
    for words in (("query", KNOWN), ("budget",), ("budget", "history"), ("query", "SHOW BUDGET")):
        refusal = run(*words)
        assert refusal.exit_code == 2
        assert "[account_renamed]" in refusal.stderr
        assert "zoe" not in refusal.output
    assert "hint: it is world/zoe" in refused("owner", "suspend", "world/ana")

    Path("policies.yaml").write_text(POLICY.replace("  ana:", "  zoe:"))
    assert findings() == []
    again = run("query", KNOWN, "--analyst", "zoe")
    assert "it cost nothing again" in " ".join(again.output.split())
    assert budget("-a", "zoe").startswith("3 ")
    accounts = json.loads(budget("show", "--all", "-f", "json"))["accounts"]
    assert [each["spent"] for each in accounts] == [each["spent"] for each in before]
    assert [each["path"] for each in accounts] == ["world", "world/zoe", "world/zoe/notebook"]
    assert accounts[1]["former"] == ["world/ana"]
    whole = json.loads(budget("export"))
    assert [(each["former"], each["name"]) for each in whole["renames"]] == [
        ("world/ana", "world/zoe")
    ]
    assert {entry["account"] for entry in whole["entries"]} == {"world/zoe", "world/zoe/notebook"}
    assert "[ledger_name_taken]" in refused("owner", "rename", "world/zoe", "world/zoe", "--yes")


@pytest.mark.slow
def test_estimates_are_told_beside_queries(world: Path, database: Path) -> None:
    sql = "SELECT colour, COUNT(*) AS n FROM visits GROUP BY colour"
    with dpsql.connect(database, "policies.yaml", "budget.db", "ana") as connection:
        for fresh in (False, True):  # the estimate is known the second time
            connection.sql(sql, left_out_share=0.03, epsilon=1.0, fresh=fresh)
        report = connection.budget()
        listed = {name: spent for _, name, spent, *_ in connection.sql("SHOW BUDGET").fetchall()}
    assert (report.queries, report.looks) == (2, 1)
    assert (listed["queries"], listed["looks"]) == (2.0, 1.0)
    assert " ".join(budget().split()).startswith("2 queries and 1 estimate · ε ")
    assert "2 queries and 1 estimate charged" in budget()
    assert "2, 1 estimate" in budget("show", "--all")
    (own,) = json.loads(budget("-f", "json"))["accounts"]
    assert (own["spent"]["queries"], own["spent"]["looks"]) == (2, 1)
    text = " ".join(budget("history").split())
    assert text.count("an estimate beside a question left-out look: what bounding leaves out") == 1
    kinds = [entry["kind"] for entry in json.loads(budget("history", "-f", "json"))]
    assert kinds == ["query", "query", "look"]
    rows = csv.DictReader(io.StringIO(budget("export", "-f", "csv")))
    assert [row["kind"] for row in rows] == kinds
    accounts = csv.DictReader(io.StringIO(budget("export", "-f", "csv", "--table", "accounts")))
    assert [(row["queries"], row["looks"]) for row in accounts] == [("2", "1")] * 2
    compared = json.loads(budget("--compare", "-f", "json"))["analyses"]
    assert len(compared) > 1


def test_windows_are_renewed_by_the_calendar_when_the_owner_says_so(used: Path) -> None:
    asked = owner("renew", "world/ana", "month", text="n\n")
    assert asked.exit_code == 130
    assert "Every month, a new window lets" in " ".join(asked.stderr.split())
    assert owner("renew", "world/ana", "month", "--yes").exit_code == 0
    assert last_event("world/ana")[0] == Kind.RENEWAL
    assert "a new window every month (UTC)" in budget()
    assert owner("renew", "world/ana", "never").exit_code == 0
    assert "every month" not in budget()
    assert "'week' is not one of" in refused("owner", "renew", "world/ana", "week")


def test_stored_answers_are_deleted_after_a_question(used: Path) -> None:
    assert owner("forget", "world/ana", text="n\n").exit_code == 130
    early = owner("forget", "world/ana", "--before", "2020-01-01", "--yes")
    assert "Deleted 0 stored answers." in early.stderr
    done = owner("forget", "world", "--yes")
    assert "Deleted 3 stored answers." in done.stderr
    assert last_event("world")[0] == Kind.FORGET
    text = budget("history")
    assert text.count("· not stored") == 3
    assert json.loads(budget("-f", "json"))["queries"] == 3


def test_the_clock_is_accepted_by_the_owner(used: Path) -> None:
    assert owner("accept-clock").exit_code == 0
    assert last_event("")[:2] == (Kind.CLOCK, "olga")


# -- what goes wrong --------------------------------------------------------------------------

REPORTS = (
    ("show",),
    ("--all",),
    ("estimate", KNOWN),
    ("history",),
    ("verify",),
    ("head",),
    ("export",),
    ("owner", "create", "world/cy"),
    ("owner", "accept-clock"),
)


def text_file(place: Path) -> None:
    place.write_text("this is a shopping list\n" * 99)


def foreign_database(place: Path) -> None:
    with contextlib.closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE shopping (what)")


def cut_short(place: Path) -> None:
    Ledger.open(place).close()
    damage(place, "DELETE FROM head")


def directory(place: Path) -> None:
    place.mkdir()


def read_only(place: Path) -> None:
    Ledger.open(place).close()
    place.chmod(0o400)


def newer(place: Path) -> None:
    Ledger.open(place).close()
    with contextlib.closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (text_file, "ledger_corrupt"),
        (foreign_database, "ledger_foreign"),
        (cut_short, "ledger_corrupt"),
        (directory, "ledger_not_a_file"),
        (newer, "ledger_version"),
        (read_only, "ledger_read_only"),
    ],
)
def test_a_ledger_that_cannot_be_used_is_a_clear_error_everywhere(
    world: Path, make: Callable[[Path], None], code: str
) -> None:
    make(world / "budget.db")
    for arguments in REPORTS:
        assert f"[{code}]" in refused(*arguments)


def test_a_ledger_that_another_process_keeps_locked_is_a_clear_error(
    used: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {"busy_timeout": 0.05, "who": None}
    function = Ledger.open.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(function, "__kwdefaults__", defaults)
    with contextlib.closing(sqlite3.connect("budget.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "[ledger_busy]" in refused("owner", "create", "world/cy")
        assert "3 queries" in budget()


@pytest.mark.slow
def test_names_that_could_hurt_a_terminal_do_not(world: Path) -> None:
    name = "a[bold]b"
    (world / "policies.yaml").write_text(POLICY.replace("  bo:", f"  '{name}':"))
    ok("query", KNOWN, "-a", name, "-s", "[red]")
    for text in (budget("-a", name, "-s", "[red]"), budget("--all"), budget("history", "--all")):
        assert f"world/{name}/[red]" in text
    for session in ("a/b", "\x1b[2J", " a", "a" * 201):
        assert "the name of the session is not one" in refused("-s", session)


def test_nothing_shows_the_password_of_a_url(world: Path) -> None:
    place = "postgresql://dpsql:hunter2@127.0.0.1:1/postgres"
    for arguments in REPORTS:
        result = run("budget", *arguments, "--ledger", place)
        assert result.exit_code == 2
        assert "[ledger_cannot_open]" in result.stderr
        assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("postgresql://u:hunter2@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u:hun/ter2@x@h:5/db", "postgresql://u:***@h:5/db"),
        ("postgresql://u@h/db?password=hunter2&x=1", "postgresql://u@h/db?password=***&x=1"),
        ("postgresql://h/db?x=1&sslpassword=hunter2", "postgresql://h/db?x=1&sslpassword=***"),
        ("postgresql:///db", "postgresql:///db"),
        ("u:hunter2@h.db", "u:hunter2@h.db"),
    ],
)
def test_settings_are_shown_without_the_password_of_a_url(
    world: Path, place: str, shown: str
) -> None:
    (line,) = [line for line in ok("config", "-l", place).split("\n") if line.startswith("ledger")]
    assert line.split() == ["ledger", shown, "--ledger"]


@pytest.mark.slow
def test_a_ledger_in_postgresql_is_named_by_its_url(world: Path, postgres_server: Server) -> None:
    url = postgres_server.without_ledger()
    with_url = ("--ledger", url)
    ok("query", KNOWN, *with_url)
    assert (
        owner("limit", "world/ana", "--epsilon", "1", "--delta", "1e-6", *with_url).exit_code == 0
    )
    assert "the owner's ε 1 at δ 1e-06 (binds)" in budget(*with_url)
    assert KNOWN in budget("history", *with_url)
    head = budget("head", *with_url).strip()
    assert budget("verify", "--head", head, *with_url).startswith("sound: ")
    assert len(json.loads(budget("export", *with_url))["entries"]) == 1
    assert not (world / "budget.db").exists()


# -- the command itself -----------------------------------------------------------------------


Words = tuple[str, ...]


def commands(group: click.Group, path: Words) -> Iterator[tuple[Words, click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def named(words: list[str]) -> click.Command:
    """The command that begins a line; the budget itself is shown."""
    found: click.Command = cli
    for word in words:
        inner = found.get_command(click.Context(found), word) if is_group(found) else None
        found = inner or found
    return found.commands["show"] if is_group(found) else found


def is_group(command: click.Command) -> TypeGuard[click.Group]:
    return isinstance(command, click.Group)


def test_the_commands_of_the_ledgers_page_and_their_options_exist() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `dpsql (budget[^`]*)` \| (.*) \|$", page, re.MULTILINE)
    assert {named(line.split()).name for line, _ in rows} >= {"show", "verify", "accept-clock"}
    for line, words in rows:
        known = {name for parameter in named(line.split()).params for name in parameter.opts}
        assert set(re.findall(r"--[a-z]+", f"{line} {words}")) <= known, line


# -- streams ----------------------------------------------------------------------------------


def test_a_stream_is_shown_as_one_with_the_steps_it_has_published(used: Path) -> None:
    plan = json.dumps({"stream": {"name": "visits", "steps": 365}, "text": "SELECT 1 FROM t"})
    with ledger() as opened:
        path, amount = "world/ana", Amount(rho=2**20, delta=2**10)
        limits = [Account(path, Budget.of(4.0, 1e-5, Composition.ZCDP).limit)]
        charge = opened.create_stream(
            path, amount, name="visits", stream="s1", plan=plan, limits=limits
        )
        opened.publish_step(opened.begin_step(path, "s1", 1), [b"x"])
        failed = opened.begin_step(path, "s1", 7)
        opened.fail_step(failed, path, "time")
    shown = " ".join(budget("history", "--all").split())
    assert "stream visits: 1 of 365 steps published" in shown
    assert "SELECT 1 FROM t" in shown
    assert "paid in full for all steps" in shown
    assert f"the engine failed on step 7 of stream #{charge.entry} (its limit of time)" in shown
    newest, *others = json.loads(budget("history", "--all", "--format", "json"))
    assert newest["entry"] == charge.entry
    assert (newest["kind"], {other["kind"] for other in others}) == ("stream", {"query"})
    progress = {"name": "visits", "steps": 365, "begun": 7, "published": 1, "dropped": False}
    assert newest["stream"] == progress
    rows = list(csv.DictReader(io.StringIO(budget("history", "--all", "--format", "csv"))))
    assert (rows[0]["stream"], rows[0]["steps"], rows[0]["published"]) == ("visits", "365", "1")
    assert rows[1]["stream"] == ""
    whole = json.loads(budget("export"))
    assert whole["suspensions"][0]["stream"] == charge.entry
    assert whole["suspensions"][0]["step"] == 7
