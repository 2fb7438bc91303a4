"""The dpsql command: formats, exit codes, and that bad input costs nothing and shows no trace."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.interfaces import cli
from dpsql.ledger import Ledger, Spent
from dpsql.policy.load import load_policy

POLICY = """\
version: 1
dataset: world
defaults: {epsilon: 1.0, delta: 1e-6, max_groups_contributed: 3, max_rows_contributed: 2}
maxima: {epsilon: 5.0}
accounts:
  ana: {epsilon: 20, delta: 1e-3}
  poor: {epsilon: 0.1, delta: 1e-4}
tables:
  visits:
    privacy_unit: {name: person, column: uid}
    columns:
      cost: {lower: 0, upper: 50}
      color: {domain: [blue, green, red]}
"""
GROUPED = "SELECT color, COUNT(DISTINCT uid) AS n, AVG(cost) AS cost FROM visits GROUP BY color"
UNKNOWN_KEYS = "SELECT day, COUNT(DISTINCT uid) AS n FROM visits GROUP BY day"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "world.duckdb"
    with contextlib.closing(duckdb.connect(str(path))) as connection:
        connection.execute(
            """CREATE TABLE visits AS SELECT
                i % 3000 AS uid,
                ['red', 'green', 'blue'][1 + i % 3] AS color,
                CASE WHEN i % 4 > 0 THEN DATE '2024-02-28' + CAST(i % 2 AS INTEGER) END AS day,
                CAST(i % 2 AS DECIMAL(5, 2)) / 2 AS price,
                CAST(i % 40 AS DOUBLE) AS cost
            FROM range(9000) t(i)"""
        )
    return path


@pytest.fixture
def world(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a policy, and the environment variables that name everything."""
    (tmp_path / "policies.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    for name, value in (
        ("DATABASE", database),
        ("POLICIES", "policies.yaml"),
        ("LEDGER", "budget.db"),
        ("ANALYST", "ana"),
    ):
        monkeypatch.setenv(f"DPSQL_{name}", str(value))
    monkeypatch.setenv("PYTHONPATH", str(Path(dpsql.__file__).parent.parent))
    return tmp_path


def run(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli.cli, arguments, input=text)


def ok(*arguments: str, text: str | bytes | None = None) -> str:
    result = run(*arguments, text=text)
    assert result.exit_code == 0, result.output
    return result.stdout


def spent(world: Path, analyst: str = "ana") -> Spent:
    if not (world / "budget.db").exists():
        return Spent()
    with Ledger.open(world / "budget.db") as ledger:
        return ledger.spent(f"world/{analyst}")


# -- query ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_query_prints_a_table_with_intervals_and_cost(world: Path) -> None:
    output = ok("query", GROUPED)
    assert "±" in output
    assert "paid ε 1" in output
    assert "\x1b" not in output
    assert spent(world).queries == 1


@pytest.mark.slow
def test_query_reads_sql_from_standard_input(world: Path) -> None:
    assert "blue" in ok("query", "-", text=GROUPED)
    assert "blue" in ok("query", "-", text=b"\xef\xbb\xbf" + GROUPED.encode())


def test_json_holds_columns_rows_intervals_and_cost(world: Path) -> None:
    answer = json.loads(ok("query", GROUPED, "--format", "json"))
    assert answer["columns"] == ["color", "n", "cost"]
    assert [row[0] for row in answer["rows"]] == ["blue", "green", "red"]
    assert set(answer["intervals"]) == {"n", "cost"}
    for row, low, high in zip(
        answer["rows"], *(answer["intervals"]["n"][end] for end in ("low", "high")), strict=True
    ):
        assert isinstance(low, int)
        assert low < row[1] < high
    assert answer["confidence"] == 0.95
    assert answer["mechanisms"] == ["known_domain"]
    assert answer["cost"]["settled"]["rho"] == pytest.approx(spent(world).amount.rho / 2**40)
    assert answer["cost"]["reserved"]["epsilon"] == pytest.approx(1.0)


@pytest.mark.slow
def test_json_writes_dates_decimals_and_nulls_that_any_reader_understands(world: Path) -> None:
    sql = "SELECT day, price, COUNT(DISTINCT uid) AS n FROM visits GROUP BY day, price"
    answer = json.loads(ok("query", sql, "--format", "json"))
    days = {row[0] for row in answer["rows"]}
    prices = {row[1] for row in answer["rows"]}
    assert days == {None, "2024-02-28", "2024-02-29"}
    assert prices == {0.0, 0.5}


@pytest.mark.slow
def test_privacy_parameters_reach_the_plan(world: Path) -> None:
    options = "--epsilon 2 --delta 1e-5 --max-groups-contributed 2 --max-rows-contributed 1"
    more = "--k-bar 77 --min-units-per-group 5 --mechanism laplace_positive_counts"
    ok("query", UNKNOWN_KEYS, *options.split(), *more.split())
    with Ledger.open(world / "budget.db") as ledger:
        (plan,) = json.loads(ledger.history("world/ana")[0].plan)["blocks"]
    assert plan["mechanism"] == "laplace_positive_counts"
    assert plan["parameters"] == {
        "epsilon": 2.0,
        "delta": 1e-5,
        "max_groups_contributed": 2,
        "max_rows_contributed": 1,
        "k_bar": 77,
        "min_units_per_group": 5,
        "combine": "series",
        "answer_from": "rows",
        "contribution_bounding": "sample",
        "max_error": None,
        "left_out_share": 0.03,
        "max_age": None,
    }


def test_unlimited_groups_can_be_asked_for(world: Path) -> None:
    sql = f"{UNKNOWN_KEYS} ORDER BY n DESC LIMIT 2"
    assert "gumbel_top_k" in ok("query", sql, "--max-groups-contributed", "unlimited")


@pytest.mark.slow
def test_confidence_widens_the_intervals(world: Path) -> None:
    def width(confidence: str) -> int:
        answer = json.loads(ok("query", GROUPED, "--format", "json", "--confidence", confidence))
        interval = answer["intervals"]["n"]
        return int(interval["high"][0] - interval["low"][0])

    assert width("0.5") < width("0.999")


@pytest.mark.slow
def test_statements_beside_select_work_on_the_command_line_and_cost_nothing(world: Path) -> None:
    budget = ok("query", "SHOW BUDGET")
    assert "epsilon" in budget
    assert "paid" not in budget
    assert ok("query", f"EXPLAIN {GROUPED}").startswith("Reserves")
    described = json.loads(ok("query", "DESCRIBE visits", "--format", "json"))
    assert "privacy unit" in str(described["rows"])
    assert (described["intervals"], described["mechanisms"]) == ({}, [])
    assert described["cost"]["settled"] == {"epsilon": 0.0, "rho": 0.0, "delta": 0.0}
    tables = ok("query", "show tables", "--format", "csv")
    assert tables.splitlines()[0] == "name,access,privacy_unit,rows_per_unit,defaults"
    assert ok("explain", f"EXPLAIN {GROUPED}").startswith("Reserves")
    assert run("query", "SHOW BUDGET", "--epsilon", "1").exit_code == 2
    assert spent(world).queries == 0


# -- bad input --------------------------------------------------------------------------------


def broken_policy(world: Path) -> None:
    path = world / "policies.yaml"
    path.write_text(POLICY.replace("lower: 0, upper: 50", "lower: 50, upper: 0"))


def text_ledger(world: Path) -> None:
    (world / "budget.db").write_text("this is a shopping list, not a ledger\n" * 9)


def no_policy(world: Path) -> None:
    (world / "policies.yaml").unlink()


def nothing(world: Path) -> None:
    pass


BAD: dict[str, tuple[list[str], str, Callable[[Path], None]]] = {
    "malformed SQL": (["SELECT color FROM visits GROUP BY ("], "not valid SQL", nothing),
    "not a query": (["DROP TABLE visits"], "this is not a query", nothing),
    "several statements": (["SELECT 1; SELECT 2"], "one statement", nothing),
    "empty SQL": ([""], "the query is empty", nothing),
    "unknown table": (["SELECT COUNT(*) FROM visit"], "Did you mean visits?", nothing),
    "unknown column": (["SELECT COUNT(price2) FROM visits"], "no column price2", nothing),
    "bounds of nothing": (
        ["SELECT SUM(price, contribution_bounds_per_row => (9, 1)) FROM visits"],
        "For example contribution_bounds_per_row",
        nothing,
    ),
    "raw rows": (["SELECT * FROM visits"], "rows of a private table", nothing),
    "grouping by unit": (
        ["SELECT uid, COUNT(*) FROM visits GROUP BY uid"],
        "privacy unit itself",
        nothing,
    ),
    "missing LIMIT": (
        [UNKNOWN_KEYS, "--max-groups-contributed", "unlimited"],
        "ORDER BY",
        nothing,
    ),
    "epsilon above the maximum": ([GROUPED, "--epsilon", "6"], "at most 5.0", nothing),
    "epsilon zero": ([GROUPED, "--epsilon", "0"], "epsilon must be between", nothing),
    "epsilon negative": ([GROUPED, "--epsilon", "-1"], "epsilon must be between", nothing),
    "epsilon nan": ([GROUPED, "--epsilon", "nan"], "must be a finite number", nothing),
    "epsilon inf": ([GROUPED, "--epsilon", "inf"], "must be a finite number", nothing),
    "epsilon text": ([GROUPED, "--epsilon", "lots"], "'lots' is not a valid float", nothing),
    "delta one": ([GROUPED, "--delta", "1"], "delta must be between", nothing),
    "k_bar zero": ([GROUPED, "--k-bar", "0"], "k_bar must be between", nothing),
    "rows huge": ([GROUPED, "--max-rows-contributed", str(2**63)], "must be between", nothing),
    "groups text": ([GROUPED, "--max-groups-contributed", "many"], "whole number", nothing),
    "unknown mechanism": ([GROUPED, "--mechanism", "magic"], "known_domain", nothing),
    "confidence nan": ([GROUPED, "--confidence", "nan"], "between 0 and 1", nothing),
    "confidence one": ([GROUPED, "--confidence", "1"], "between 0 and 1", nothing),
    "exhausted budget": ([GROUPED, "--analyst", "poor"], "budget of world/poor", nothing),
    "unknown analyst": ([GROUPED, "--analyst", "eve"], "no account 'eve'", nothing),
    "unknown format": ([GROUPED, "--format", "xml"], "'xml' is not one of", nothing),
    "unknown option": ([GROUPED, "--noise", "off"], "No such option", nothing),
    "broken policies": ([GROUPED], "policies.yaml, line 12", broken_policy),
    "missing policies": ([GROUPED], "policies.yaml does not exist", no_policy),
    "missing database": ([GROUPED, "--database", "no.duckdb"], "no database file", nothing),
    "not a database": ([GROUPED, "--database", "policies.yaml"], "cannot be opened", nothing),
    "text ledger": ([GROUPED], "not a ledger", text_ledger),
    "ledger in no directory": ([GROUPED, "--ledger", "no/b.db"], "cannot be created", nothing),
    "surrogate in SQL": (["SELECT '\udcff'"], "not UTF-8", nothing),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_exits_with_2_says_why_and_spends_nothing(world: Path, name: str) -> None:
    arguments, message, prepare = BAD[name]
    prepare(world)
    result = run("query", *arguments)
    assert result.exit_code == 2, result.output
    assert " ".join(message.split()) in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if prepare is text_ledger:
        assert "shopping list" in (world / "budget.db").read_text()
    else:
        assert spent(world) == Spent()
        assert spent(world, "poor") == Spent()


def test_an_error_underlines_the_place_and_names_its_code(world: Path) -> None:
    result = run("query", "SELECT COUNT(*)\nFROM visit")
    assert "error: there is no table visit (line 2, column 6)" in result.stderr
    assert "  FROM visit\n       ^^^^^\n" in result.stderr
    assert "hint: Did you mean visits?\n[unknown_table]\n" in result.stderr


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["malformed SQL", "broken policies", "text ledger", "epsilon nan"])
def test_a_real_process_fails_as_cleanly(world: Path, name: str) -> None:
    arguments, message, prepare = BAD[name]
    prepare(world)
    process = dpsql_process("query", *arguments)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert (output, "Traceback" in errors) == ("", False)
    assert " ".join(message.split()) in " ".join(errors.split())


def test_sql_from_standard_input_must_be_utf8(world: Path) -> None:
    result = run("query", "-", text=b"SELECT '\xff'")
    assert result.exit_code == 2
    assert "not UTF-8" in result.stderr


def dpsql_process(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    process: subprocess.Popen[str] = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "dpsql", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )
    return process


# -- faults and interruptions -----------------------------------------------------------------


def test_an_unforeseen_error_shows_its_type_and_nothing_else(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("row 17 holds the diagnosis flu")

    monkeypatch.setattr("dpsql.dbapi.connection.connect", fail)
    result = run("query", GROUPED)
    assert result.exit_code == 70
    assert "internal error: RuntimeError" in result.stderr
    assert "flu" not in result.output
    assert "Traceback" not in result.output
    assert "test_cli.py" in result.stderr
    assert "in fail" in result.stderr


def test_interrupting_exits_with_130_and_says_what_stays_spent(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsql.dbapi.connection.connect", interrupt)
    result = run("query", GROUPED)
    assert result.exit_code == 130
    assert "stays spent" in result.stderr


@pytest.mark.slow
def test_ctrl_c_while_waiting_for_sql_ends_a_real_process(world: Path) -> None:
    # Background shells start their children with SIGINT ignored.
    code = (
        "import signal, dpsql.interfaces.cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('ready', flush=True); dpsql.interfaces.cli.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "query", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stays spent" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("format_", ["table", "json"])
def test_a_closed_pipe_leaves_no_trace_on_stderr(world: Path, format_: str) -> None:
    process = dpsql_process("query", "-", "--format", format_)
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(GROUPED, timeout=60)
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert process.returncode == 1


@pytest.mark.slow
def test_a_terminal_gets_colour_and_a_pipe_does_not(world: Path) -> None:
    terminal = in_terminal("query", GROUPED)
    assert "\x1b[1m" in terminal
    assert "\x1b" not in ok("query", GROUPED)


def in_terminal(*arguments: str) -> str:
    """What a command writes to a terminal of 100 columns."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsql", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={name: value for name, value in environment.items() if name != "NO_COLOR"},
    )
    os.close(theirs)
    chunks = []
    with contextlib.suppress(OSError):
        while chunk := os.read(ours, 65536):
            chunks.append(chunk)
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return b"".join(chunks).decode()


# -- explain ----------------------------------------------------------------------------------


def test_explain_costs_nothing_and_needs_no_ledger(world: Path) -> None:
    output = ok("explain", GROUPED, "--epsilon", "2")
    assert "Reserves  ε 2" in output
    assert "of the account's whole budget" in output
    assert "With epsilon" in output
    assert not (world / "budget.db").exists()


def test_explain_as_json_is_the_whole_plan(world: Path) -> None:
    plan = json.loads(ok("explain", GROUPED, "--format", "json"))
    assert plan["reserved_epsilon"] == pytest.approx(1.0)
    assert plan["blocks"][0]["mechanism"] == "known_domain"
    assert {column["aggregate"] for column in plan["blocks"][0]["columns"]} == {
        "count(DISTINCT uid)",
        "avg(cost)",
    }


def test_explain_refuses_what_query_refuses(world: Path) -> None:
    result = run("explain", "SELECT * FROM visits")
    assert result.exit_code == 2
    assert "[raw_rows]" in result.stderr


def test_explain_needs_no_write_access(world: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in world.iterdir()}
    ok("explain", GROUPED)
    assert {path: path.stat().st_mtime_ns for path in world.iterdir()} == before


# -- tune -------------------------------------------------------------------------------------

COUNTED = "SELECT COUNT(*) AS n FROM visits"


@pytest.mark.slow
def test_tuning_is_priced_before_paid_once_and_then_free(world: Path) -> None:
    assert "nothing was read" in ok("tune", COUNTED, "--dry-run")
    assert not (world / "budget.db").exists()
    shown = ok("tune", COUNTED, "--try-rows", "1,2,40", "--share", "0.5")
    assert "left out" in shown
    assert "→" in shown
    paid = spent(world).amount.loss.rho
    assert paid > 0
    document = json.loads(ok("tune", COUNTED, "--try-rows", "1,2,40", "-f", "json"))
    assert document["cost"]["settled"]["rho"] == 0.0
    (found,) = document["aggregates"]
    assert [one["max_rows_contributed"] for one in found["tried"]] == [1, 2, 40]
    assert spent(world).amount.loss.rho == paid


@pytest.mark.slow
def test_bounds_of_a_sum_are_tried(world: Path) -> None:
    asked = "SELECT SUM(cost) AS s FROM visits"
    document = json.loads(ok("tune", asked, "--try-bounds", "-5:10,0:100", "-f", "json"))
    (found,) = document["aggregates"]
    assert [one["bounds"] for one in found["tried"]] == [[-5.0, 10.0], [0.0, 100.0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--try-rows", "few"), "whole numbers"),
        (("--try-rows", ""), "whole numbers"),
        (("--try-bounds", "1"), "give bounds"),
        (("--try-bounds", "2:1"), "lower one first"),
        (("--share", "2"), "share must be"),
        (("--size", "-1"), "size must be"),
    ],
)
def test_what_cannot_be_tried_is_refused_for_nothing(
    world: Path, options: tuple[str, ...], words: str
) -> None:
    result = run("tune", COUNTED, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert spent(world).amount.loss.rho == 0.0


def test_a_question_that_cannot_be_tuned_says_why(world: Path) -> None:
    result = run("tune", "SELECT AVG(cost) FROM visits")
    assert result.exit_code == 2
    assert "[nothing_to_tune]" in result.stderr
    assert "hint: Tune a COUNT" in result.stderr


# -- budget -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_owner_who_changes_the_composition_of_a_charged_account_is_told_how_to_go_on(
    world: Path,
) -> None:
    ok("query", GROUPED)
    before = spent(world)
    basic = "ana: {epsilon: 20, delta: 1e-3, composition: basic}"
    (world / "policies.yaml").write_text(POLICY.replace("ana: {epsilon: 20, delta: 1e-3}", basic))
    for arguments in (("query", GROUPED), ("budget",)):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "world/ana was charged under `composition: zcdp`" in result.stderr
        assert "restore `composition: zcdp`" in result.stderr
    assert spent(world) == before


def test_a_budget_runs_out_and_stays_out(world: Path) -> None:
    policy = POLICY.replace("ana: {epsilon: 20", "ana: {epsilon: 2")
    (world / "policies.yaml").write_text(policy)
    codes = [run("query", GROUPED, "--fresh").exit_code for _ in range(8)]
    assert codes == sorted(codes)
    assert set(codes) == {0, 2}
    assert spent(world).queries == codes.count(0)


# -- check and init ---------------------------------------------------------------------------


WITHOUT_POOR = "".join(line for line in POLICY.splitlines(keepends=True) if "poor" not in line)


@pytest.mark.slow
def test_check_passes_a_policy_that_fits(world: Path) -> None:
    (world / "policies.yaml").write_text(WITHOUT_POOR)
    assert "fit" in ok("check")
    assert "kept in" in run("check").stderr  # another place is another budget


def test_check_lists_what_does_not_fit_and_exits_with_2(world: Path) -> None:
    (world / "policies.yaml").write_text(POLICY.replace("cost:", "costs:"))
    result = run("check")
    assert result.exit_code == 2
    assert "visits.costs" in result.stdout
    assert "error" in result.stdout
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_check_says_what_agents_may_spend(world: Path) -> None:
    agents = "agents: {ana: {epsilon_per_question: 0.001, confirm_above: 0.5}}\n"
    (world / "policies.yaml").write_text(WITHOUT_POOR + agents)
    output = ok("check")
    assert "Agents of ana: at most epsilon " in output
    assert "0.001 a question, a person is asked above 0.5." in output
    found = json.loads(ok("check", "--format", "json"))
    assert {each["subject"] for each in found} == {"agents.ana"}
    assert any("nobody is asked" in each["message"] for each in found)
    (world / "policies.yaml").write_text(WITHOUT_POOR)
    assert "Agents of" not in ok("check")


def test_check_tells_programs_what_it_finds(world: Path) -> None:
    (world / "policies.yaml").write_text(WITHOUT_POOR)
    assert json.loads(ok("check", "--format", "json")) == []
    (world / "policies.yaml").write_text(WITHOUT_POOR.replace("cost:", "costs:"))
    (finding,) = json.loads(run("check", "--format", "json").stdout)
    assert (finding["level"], finding["subject"]) == ("error", "visits.costs")
    assert set(finding) == {"level", "subject", "message", "hint"}


def test_check_only_warns_about_tables_left_out(world: Path) -> None:
    with contextlib.closing(duckdb.connect(str(world / "two.duckdb"))) as connection:
        connection.execute("CREATE TABLE visits (uid BIGINT, cost DOUBLE, color VARCHAR)")
        connection.execute("CREATE TABLE other (a INTEGER)")
    output = ok("check", "--database", "two.duckdb")
    assert "warning" in output
    assert "other" in output


def test_init_never_overwrites_unless_forced(world: Path, database: Path) -> None:
    result = run("init", str(database))
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert (world / "policies.yaml").read_text() == POLICY
    ok("init", str(database), "--force", "--dataset", "another")
    assert load_policy("policies.yaml").dataset == "another"


@pytest.mark.parametrize("target", ["no/policies.yaml", "."])
def test_init_says_when_it_cannot_write(world: Path, database: Path, target: str) -> None:
    result = run("init", str(database), "--output", target)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_init_refuses_what_is_not_a_database(world: Path) -> None:
    assert run("init", "policies.yaml", "-o", "new.yaml").exit_code == 2
    assert not (world / "new.yaml").exists()


# -- the command itself -----------------------------------------------------------------------


def test_the_version_is_told(world: Path) -> None:
    assert dpsql.__version__ in ok("--version")


def test_the_module_runs_as_the_command_does(world: Path) -> None:
    process = dpsql_process("--version")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert dpsql.__version__ in output


def test_duckdbs_word_for_ctrl_c_is_understood() -> None:
    with pytest.raises(KeyboardInterrupt):
        raise_if_interrupted(RuntimeError("Query interrupted"))
    raise_if_interrupted(RuntimeError("row 17 holds the diagnosis flu"))
    raise_if_interrupted(duckdb.Error("Query interrupted"))


def test_a_connection_without_a_ledger_can_only_explain(world: Path, database: Path) -> None:
    with dpsql.connect(database, "policies.yaml", None, "ana") as connection:
        assert connection.explain(GROUPED).reserved_epsilon == pytest.approx(1.0)
        for ask in (lambda: connection.sql(GROUPED), connection.budget):
            with pytest.raises(dpsql.InterfaceError, match="no_ledger"):
                ask()


@pytest.mark.parametrize(
    ("where", "words", "told"),
    [
        ("dpsql.interfaces.shell.target._opened", ["shell"], "No query was running."),
        ("dpsql.dbapi.connection.connect", ["explain", GROUPED], "No query was running."),
        ("dpsql.policy.load.load_policy", ["check"], "No query was running."),
        ("dpsql.dbapi.connection.connect", ["query", GROUPED], "stays spent"),
    ],
)
def test_ctrl_c_speaks_of_the_budget_only_where_a_query_may_have_run(
    world: Path, monkeypatch: pytest.MonkeyPatch, where: str, words: list[str], told: str
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, pressed)
    command, *rest = words
    place = [os.environ["DPSQL_DATABASE"]] if command == "shell" else []
    done = run(command, *place, *rest)
    assert done.exit_code == 130
    assert done.stderr.strip().startswith("Interrupted. ")
    assert told in done.stderr
    assert ("spent" in done.stderr) == (told == "stays spent")
