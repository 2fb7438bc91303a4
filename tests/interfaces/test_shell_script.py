"""The shell without a terminal: files, pipes and --command, its commands and its formats."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result
from helpers.present import present

from dpsql.interfaces.cli import cli
from dpsql.interfaces.shell.candidates import AGGREGATES, FUNCTIONS_OF_ROWS
from dpsql.interfaces.shell.commands_files import ENDINGS
from dpsql.interfaces.shell.screen import Screen
from dpsql.interfaces.shell.settings import ShellSettings
from dpsql.interfaces.shell.state import Shell
from dpsql.interfaces.shell.target import DataTarget
from dpsql.ledger import Ledger

ROOT = Path(__file__).parents[2]
POLICY = """\
version: 1
dataset: clinic
defaults:
  {epsilon: 0.5, delta: 1e-8, max_groups_contributed: 3, max_rows_contributed: 2, left_out_share: 0}
maxima: {epsilon: 3}
accounts:
  ana: {epsilon: 20, delta: 1e-6}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 500}
      sex: {domain: [f, m]}
  wards: {public: true}
  endless:
    privacy_unit: {name: patient, column: patient_id}
"""
WARDS = "SELECT ward, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward"
SEXES = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex ORDER BY sex"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT range % 3000 AS patient_id, "
            "['ears', 'eyes', NULL][1 + range % 3] AS ward, "
            "['f', 'm'][1 + range % 2] AS sex, (range % 400)::DOUBLE AS cost FROM range(9000)"
        )
        connection.execute("CREATE TABLE wards AS SELECT 'eyes' AS ward, 3 AS floor")
        connection.execute(
            "CREATE VIEW endless AS SELECT TRY(i % 1000) AS patient_id, TRY(hash(i) % 9) AS k "
            "FROM range(1_000_000_000_000) t(i)"
        )
    return path


@pytest.fixture
def clinic(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "policies.yaml").write_text(POLICY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPSQL_ANALYST", "ana")
    monkeypatch.setenv("DPSQL_DATABASE", str(database))
    monkeypatch.setenv("DPSQL_LEDGER", "budget.db")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    Ledger.open("budget.db").close()  # a new one would be announced
    return tmp_path


def shell(*arguments: str, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["shell", *arguments], input=text)


def ok(*arguments: str, text: str | bytes | None = None) -> str:
    done = shell(*arguments, text=text)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


def queries(clinic: Path) -> int:
    if not (clinic / "budget.db").exists():
        return 0
    with Ledger.open(clinic / "budget.db") as ledger:
        return ledger.spent("clinic/ana").queries


# -- statements -------------------------------------------------------------------------------


@pytest.mark.slow
def test_piped_statements_run_in_order_and_print_plain_tables(clinic: Path) -> None:
    output = ok(text=f"SHOW TABLES; -- all;\n{WARDS};\n\\d visits\nSET epsilon = 0.25")
    places = [output.index(part) for part in ("wards", "± ", "patient_id", "at most 3.0")]
    assert places == sorted(places)
    assert "\x1b" not in output
    assert "paid ε 0.5" in output
    assert queries(clinic) == 1


@pytest.mark.slow
def test_the_database_may_be_an_argument_an_option_or_a_variable(
    clinic: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPSQL_DATABASE")
    assert "visits" in ok(str(database), "-c", "SHOW TABLES")
    assert "visits" in ok("--database", str(database), "-c", "SHOW TABLES")
    done = shell("-c", "SHOW TABLES")
    assert done.exit_code == 2
    assert "name a database" in done.stderr


@pytest.mark.slow
def test_a_statement_may_go_over_lines_and_hold_semicolons(clinic: Path) -> None:
    text = "\ufeffSELECT sex, ';' AS \"a;b\",\n COUNT(*) AS n /* ; */\nFROM visits\nGROUP BY sex;\n"
    output = ok("--format", "csv", text=text.encode())
    rows = list(csv.reader(io.StringIO(output)))
    assert rows[0] == ["sex", "a;b", "n"]
    assert [row[:2] for row in rows[1:]] == [["f", ";"], ["m", ";"]]


def test_the_first_error_ends_a_script_with_its_line_and_code_2(clinic: Path) -> None:
    done = shell(text=f"SHOW TABLES;\n\n  SELECT nope\n  FROM visits; {SEXES};")
    assert done.exit_code == 2
    assert "wards" in done.stdout
    assert "(standard input, line 3, column 10)" in done.stderr
    assert "    SELECT nope\n           ^^^^\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert queries(clinic) == 0


@pytest.mark.slow
def test_an_error_without_a_place_is_given_that_of_its_statement(clinic: Path) -> None:
    done = shell(
        text=f"\n{WARDS.replace('SELECT', 'SELECT WITH DIFFERENTIAL_PRIVACY')};\n\\nope 1\n"
    )
    assert done.exit_code == 2
    assert "there is no command \\nope (standard input, line 3, column 1)" in done.stderr
    assert queries(clinic) == 1


def test_keep_going_runs_the_rest_and_still_exits_with_2(clinic: Path) -> None:
    done = shell("--keep-going", text=f"SELECT nope FROM visits;\n{SEXES};\n\\nope\nSHOW TABLES;")
    assert done.exit_code == 2
    assert "paid ε 0.5" in done.stdout
    assert "wards" in done.stdout
    assert "line 1" in done.stderr
    assert "line 3" in done.stderr


@pytest.mark.slow
def test_commands_given_as_options_run_one_after_the_other(clinic: Path) -> None:
    assert ok("-c", "\\set format csv", "-c", f"{SEXES}; \n\\format json\n{SEXES}").startswith(
        "sex,n\n"
    )
    done = shell("-c", "SELECT nope FROM visits", "-c", "SHOW TABLES")
    assert (done.exit_code, done.stdout) == (2, "")
    done = shell("-k", "-c", "SELECT nope FROM visits", "-c", "SHOW TABLES")
    assert done.exit_code == 2
    assert "visits" in done.stdout


@pytest.mark.slow
def test_nobody_is_asked_where_nobody_is(clinic: Path) -> None:
    ok("-c", "\\confirm 0%", "-c", "SET epsilon = 3", "-c", SEXES)
    assert queries(clinic) == 1


@pytest.mark.slow
def test_what_cannot_be_paid_for_is_refused_for_nothing(clinic: Path) -> None:
    text = "SET epsilon = 3;\n" + "".join(
        f"SELECT COUNT(*) AS n{i} FROM visits WHERE cost > {i};\n" for i in range(60)
    )
    done = shell(text=text)
    assert done.exit_code == 2
    assert "[budget_exceeded]" in done.stderr
    assert 5 < queries(clinic) < 60


def test_text_that_is_not_utf8_is_refused(clinic: Path) -> None:
    done = shell(text=b"SHOW TABLES;\nSELECT '\xff';\n")
    assert done.exit_code == 2
    assert "not UTF-8" in done.stderr


@pytest.mark.slow
def test_an_unforeseen_failure_shows_no_text_of_its_own(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("row 17 holds the diagnosis flu")

    monkeypatch.setattr("dpsql.interfaces.shell.state.formatted", fail)
    done = shell("--keep-going", text=f"{SEXES};\nSELECT nope FROM visits;")
    assert done.exit_code == 70
    assert shell("-k", "-c", SEXES, "-c", "SELECT nope FROM visits").exit_code == 70
    assert "flu" not in done.output
    assert "ValueError in" in done.stderr
    assert "[unforeseen]" in done.stderr


@pytest.mark.slow
def test_a_failed_query_says_what_it_took(clinic: Path) -> None:
    done = shell("-c", "SELECT (SELECT n FROM (" + SEXES + "))")
    assert done.exit_code == 2
    assert "[tail_failed]" in done.stderr
    assert re.search(r"It took ε 0\.\d+ of the account's, which stays spent; ε 19\.\d left|is left",
                     done.stderr)  # fmt: skip
    assert queries(clinic) == 1


@pytest.mark.slow
def test_a_person_is_asked_about_what_costs_and_only_about_that(
    clinic: Path, database: Path
) -> None:
    asked: list[str] = []
    target = DataTarget(database, clinic / "policies.yaml", str(clinic / "budget.db"), "ana")
    with target.opened(lambda percent: None) as source:
        screen = Screen(io.StringIO(), io.StringIO(), interactive=False)

        def agree(text: str) -> bool:
            asked.append(text)
            return True

        shell = Shell(source, screen, ShellSettings(confirm=0.0), ask=agree)

        def questions(*statements: str) -> int:
            asked.clear()
            for statement in statements:
                shell.answer(statement)
            return len(asked)

        assert questions("SHOW TABLES", f"EXPLAIN {SEXES}", "SET k_bar = 9", "RESET k_bar") == 0
        assert questions(SEXES) == 1
        assert questions(SEXES, SEXES) == 0  # given again
        assert questions("SET epsilon = 0.4", SEXES) == 1
        assert questions("RESET epsilon", SEXES) == 0
        fresh = SEXES.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (fresh = true)")
        assert questions(fresh, fresh) == 2
        with Ledger.open(clinic / "budget.db") as ledger:
            ledger.owner("olga").forget("clinic")
        assert questions(SEXES) == 1  # its answer is kept no longer
        shell.settings = shell.settings.with_text("confirm", "100%")
        assert questions(WARDS) == 0
        shell.ask = lambda text: False
        shell.settings = shell.settings.with_text("confirm", "0%")
        spent = queries(clinic)
        assert questions("SELECT SUM(cost) FROM visits") == 0
        assert queries(clinic) == spent


# -- formats ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_format_is_written(clinic: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(ok("-f", "csv", "-c", f"\\set intervals on\n{SEXES}"))))
    assert list(rows[0]) == ["sex", "n", "n_low", "n_high"]
    answer = json.loads(ok("-f", "json", "-c", SEXES))
    assert answer["columns"] == ["sex", "n"]
    assert "explain" not in answer
    lines = ok("-f", "jsonl", "-c", SEXES).splitlines()
    assert [json.loads(line)["sex"] for line in lines] == ["f", "m"]
    assert ok("-f", "markdown", "-c", SEXES).startswith("| sex | n |")
    assert "─[ 2 ]" in ok("-f", "vertical", "-c", SEXES)
    assert "─[ 2 ]" in ok("-c", f"\\x on\n{SEXES}")
    assert json.loads(ok("-f", "json", "-c", f"\\explain {SEXES}"))["blocks"]
    assert json.loads(ok("-f", "json", "-c", f"EXPLAIN {SEXES}"))["blocks"]
    assert "account" in json.loads(ok("-f", "json", "-c", "\\budget"))


@pytest.mark.slow
def test_a_null_is_told_from_a_text_in_data_formats(clinic: Path) -> None:
    output = ok("-f", "jsonl", "-c", WARDS)
    assert {json.loads(line)["ward"] for line in output.splitlines()} == {"ears", "eyes", None}
    assert {row[0] for row in csv.reader(io.StringIO(ok("-f", "csv", "-c", WARDS)))} == {
        *("ward", "ears", "eyes", "")
    }


@pytest.mark.slow
def test_an_answer_is_given_again_for_nothing(clinic: Path) -> None:
    output = ok("-c", f"{SEXES};{SEXES};")
    assert queries(clinic) == 1
    assert "paid for before" in output
    first, second = re.findall(r"^f +([\d,]+)", output, re.MULTILINE)
    assert first == second


# -- commands ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_tables_and_columns_say_what_the_policy_says(clinic: Path) -> None:
    listed = ok("-c", "\\dt")
    assert listed == ok("-c", "\\d")
    assert re.search(r"visits +private +patient", listed)
    assert re.search(r"wards +public *\n", listed)
    described = ok("-c", "\\d visits;")
    assert re.search(r"cost +DOUBLE +private +0 +500", described)
    assert "privacy unit: patient" in described
    assert "NULL" not in described
    assert "[unknown_table]" in shell("-c", "\\d nope").stderr


@pytest.mark.slow
def test_explain_takes_a_query_or_the_one_before_it_or_the_last_one(clinic: Path) -> None:
    plan = "Reserves  ε 0.5"
    assert plan in ok("-c", f"\\explain {SEXES};")
    assert plan in ok("-c", f"{SEXES}\n\\explain")
    assert queries(clinic) == 0
    assert plan in ok("-c", f"{SEXES};\n\\explain")
    assert queries(clinic) == 1
    assert "[nothing_to_explain]" in shell("-c", "\\explain").stderr
    assert "[unfinished_statement]" in shell("-c", f"{SEXES}\n\\dt").stderr


@pytest.mark.slow
def test_budget_and_history_tell_what_was_charged(clinic: Path) -> None:
    assert "Nothing was charged yet" in ok("-c", "\\history")
    output = ok(
        "-c", f"{WARDS};\n{SEXES};", "-c", "\\budget", "-c", "\\history", "-c", "\\history 1"
    )
    assert "2 queries" in output
    both, last = output[output.index("when  ") :].split("when  ")[1:]
    charge = r"^20\d\d-\d\d-\d\d \d\d:\d\d +ε 0\.5 +[<\d.]+% +(SELECT .*)$"
    assert re.findall(charge, both, re.MULTILINE) == [WARDS, SEXES]
    assert re.findall(charge, last, re.MULTILINE) == [SEXES]


@pytest.mark.slow
def test_history_says_what_came_back_and_what_is_held(
    clinic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    top = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 10"
    ok("-c", "SET max_groups_contributed = unlimited", "-c", top)
    with monkeypatch.context() as patched:
        patched.setattr("dpsql.service.answering.Answerer._settle", fail)
        assert shell("-c", SEXES).exit_code == 70
    output = ok("-c", "\\history")
    assert re.search(r" ε 0\.[1-4]\d* of 0\.5 .* ORDER BY n DESC LIMIT 10$", output, re.MULTILINE)
    assert re.search(r" ε 0\.5, held +[<\d.]+% +SELECT sex", output)


@pytest.mark.slow
def test_privacy_parameters_are_set_and_reset(clinic: Path) -> None:
    output = ok(
        "-c", "\\set epsilon 0.25\n" + SEXES + ";\n\\unset epsilon\n\\set epsilon = 1\n\\set"
    )
    assert "paid ε 0.25" in output
    assert re.search(r"epsilon +1(\.0)? +SET +at most 3", output)
    assert re.search(r"epsilon +0\.5 +policy", output)
    assert "[parameter_out_of_range]" in shell("-c", "\\set epsilon 99").stderr
    assert re.search(r"\nk_bar +1000 +policy", ok("-c", "\\set k_bar"))
    for written in ("3 days", "= '3 days'"):
        assert re.search(r"\nmax_age +3 days +SET", ok("-c", f"\\set max_age {written}"))
    assert re.search(r"\nmax_age +none +SET", ok("-c", "\\set max_age none"))
    assert "[unknown_setting]" in shell("-c", "\\set nope").stderr
    assert "[unknown_parameter]" in shell("-c", "\\set nope 1").stderr


@pytest.mark.slow
def test_settings_are_set_shown_and_unset(clinic: Path) -> None:
    text = "\\set confidence 0.5\n\\set confidence\n\\unset confidence\n\\set confidence\n"
    assert ok(text=text) == "confidence is 0.5\nconfidence is 0.95\n"
    assert ok("-c", "\\confirm 35%\n\\confirm").startswith("confirm is 35%")
    assert ok("-c", "\\format csv\n\\format") == "format is csv\n"
    assert "50%" in ok("-c", f"\\set confidence 0.5\n{SEXES}")
    assert "[bad_setting]" in shell("-c", "\\format xml").stderr


@pytest.mark.slow
def test_a_plot_shows_bars_intervals_and_the_threshold(clinic: Path) -> None:
    output = ok("-c", f"{WARDS};\n\\plot\n\\plot patients")
    plots = output[output.index("patients  ├") :]
    assert plots.count("┊ threshold") == 2
    assert re.search(r"eyes +█+┊█+├─*┼─*┤ +[\d,]+ ± \d+", plots)
    assert queries(clinic) == 1
    assert "[nothing_to_plot]" in shell("-c", "\\plot").stderr
    assert "[nothing_to_plot]" in shell("-c", f"{WARDS};\n\\plot ward").stderr


@pytest.mark.slow
def test_answers_of_a_shell_go_over_nothing_that_it_reads(clinic: Path, database: Path) -> None:
    (clinic / "dpsql.toml").write_text("[dpsql]\nepsilon = 0.5\n")
    (clinic / "link").symlink_to("budget.db")
    files = [database, clinic / "policies.yaml", clinic / "budget.db", clinic / "dpsql.toml"]
    before = [file.read_bytes() for file in files]
    for target in (*files, "link", "budget.db-wal", f"{database}.wal"):
        assert "[file_in_use]" in shell("-c", f"\\o {target}").stderr
    assert [file.read_bytes() for file in files] == before
    assert "[file_not_writable]" in shell("-c", "\\o ~nobody-of-this-name/x/y").stderr


@pytest.mark.slow
def test_answers_go_to_a_file_and_back(clinic: Path) -> None:
    text = f"\\format csv\n\\o out.csv\n{SEXES};\nSHOW TABLES;\n\\o\n\\format table\n{SEXES};\n"
    output = ok(text=text)
    written = (clinic / "out.csv").read_text(encoding="utf-8")
    assert written.startswith("sex,n\nf,")
    assert "visits,private,patient" in written
    assert "sex,n" not in output
    assert "± " in output
    assert "[file_not_writable]" in shell("-c", "\\o no/such/directory").stderr
    assert "[file_not_writable]" in shell("-c", "\\o | cat").stderr


@pytest.mark.slow
def test_a_file_is_read_and_its_errors_have_its_lines(clinic: Path) -> None:
    (clinic / "good.sql").write_text(f"SHOW TABLES;\n\\format csv\n{SEXES}\n", encoding="utf-8")
    assert "sex,n" in ok("-c", "\\i good.sql")
    (clinic / "bad.sql").write_text("SHOW TABLES;\nSELECT 1 +;\nSHOW BUDGET;", encoding="utf-8")
    done = shell(text="\n\\i bad.sql\nSHOW PARAMETERS;")
    assert done.exit_code == 2
    assert "(bad.sql, line 2, column" in done.stderr
    assert "bad.sql was not run to its end (standard input, line 2, column 1)" in done.stderr
    assert "k_bar" not in done.stdout
    assert "[file_unreadable]" in shell("-c", "\\i nope.sql").stderr
    (clinic / "loop.sql").write_text("\\i loop.sql", encoding="utf-8")
    assert "[too_many_files]" in shell("-c", "\\i loop.sql").stderr


def test_quitting_ends_a_script_at_once(clinic: Path) -> None:
    assert "wards" in ok(text="SHOW TABLES;\n\\q\nSELECT nope FROM visits;")
    (clinic / "quit.sql").write_text("\\q\n", encoding="utf-8")
    assert ok(text="\\i quit.sql\nSELECT nope FROM visits;") == ""


@pytest.mark.slow
@pytest.mark.parametrize("word", ["quit", "exit", "EXIT;", "  quit  "])
def test_words_of_other_shells_hold_in_scripts(clinic: Path, word: str) -> None:
    assert "wards" in ok(text=f".tables\n{word}\nSELECT nope FROM visits;")
    assert ok("-c", word) == ""
    assert "still" in ok(text=f"SELECT '\n{word}\n' AS x\n/*\n{word}\n*/, 'still' AS y")


@pytest.mark.slow
def test_a_statement_is_run_by_g_and_again_for_nothing(clinic: Path) -> None:
    asked = "SELECT COUNT(*) AS n\nFROM visits WHERE cost > 17"
    before = queries(clinic)
    _, first, again = ok(text=f"\\format csv\n{asked}\n\\g\n\\g\n").split("n\n")
    assert first == again
    assert queries(clinic) == before + 1
    assert "[nothing_to_run]" in shell("-c", "\\g").stderr


@pytest.mark.slow
def test_functions_and_schemas_are_listed(clinic: Path) -> None:
    page = ok("-c", "\\df")
    for name in (*AGGREGATES, *FUNCTIONS_OF_ROWS):
        assert re.search(rf"\b{name}\b", page)
    assert ok("-c", "\\df date_d").split() == ["of", "rows", "DATE_DIFF"]
    assert "No function" in ok("-c", "\\df nope")
    assert "main" in ok("-c", "\\dn")
    assert ok("-c", "\\d+ visits") == ok("-c", "\\d visits")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("\\c other", "dpsql shell DB"),
        ("\\! ls", "no programs"),
        ("\\watch 5", "paid for"),
        ("\\e", "terminal"),
    ],
)
def test_what_other_shells_have_is_refused_in_words_of_its_own(
    clinic: Path, typed: str, told: str
) -> None:
    found = shell("-c", typed)
    assert (found.exit_code, told in found.stderr) == (2, True)
    assert "Did you mean" not in found.stderr


@pytest.mark.slow
def test_help_lists_every_command_and_explains_each(clinic: Path) -> None:
    from dpsql.interfaces.shell.script import ALL

    page = ok("-c", "\\?")
    topics = ok(text="".join(f"\\help {command.names[0]}\n" for command in ALL))
    for command in ALL:
        assert command.title in page
        assert f"{command.title}\n  {command.summary.split(',')[0]}" in topics
    assert "max_groups_contributed" in ok("-c", "\\help privacy", "-c", "\\help sql")
    assert "[unknown_topic]" in shell("-c", "\\help nope").stderr


def test_timing_is_for_people(clinic: Path) -> None:
    assert "Time" not in ok("-c", "\\timing on\nSHOW TABLES")


# -- processes --------------------------------------------------------------------------------


def environment(clinic: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in os.environ if name.startswith("DPSQL_")}
    return kept | {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | more


@pytest.mark.slow
def test_a_pipe_needs_no_prompt_toolkit(clinic: Path) -> None:
    (clinic / "prompt_toolkit.py").write_text("raise ImportError", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "dpsql", "shell"],
        input="SHOW TABLES;\n\\?\n",
        env=environment(clinic, PYTHONPATH=f"{clinic}:{ROOT}"),
        cwd=clinic,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "visits" in done.stdout


@pytest.mark.slow
def test_a_shell_in_letters_of_ascii_writes_all_it_has(clinic: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpsql", "shell", "-c", f"{WARDS};\n\\plot\n\\budget"],
        env=environment(clinic, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0"),
        cwd=clinic,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    output = done.stdout.decode("ascii")
    assert re.search(r"ears +[\d,]+ +\+- \d+", output)
    assert "paid eps 0.5 at delta" in output
    assert re.search(r"ears +#+:#+\|-*\+-*\|", output)
    assert "\\u" not in output


@contextlib.contextmanager
def running(clinic: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell that reads a pipe."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dpsql", "shell"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(clinic),
        cwd=clinic,
        text=True,
    )
    try:
        with process:
            yield process
    finally:
        process.kill()


@pytest.mark.slow
def test_ctrl_c_ends_a_script_with_130_and_says_what_it_cost(clinic: Path) -> None:
    with running(clinic) as process:
        present(process.stdin).write("SELECT COUNT(DISTINCT k) FROM endless;\nSHOW TABLES;\n")
        present(process.stdin).close()
        deadline = time.monotonic() + 30
        while queries(clinic) == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert present(process.stdout).read() == ""
        assert present(process.stderr).read().startswith("Cancelled. It took ε 0.")
    with Ledger.open(clinic / "budget.db") as ledger:
        assert ledger.spent("clinic/ana").unsettled == 1


@pytest.mark.slow
def test_a_reader_that_stops_reading_is_no_failure_of_the_shell(clinic: Path) -> None:
    with running(clinic) as process:
        present(process.stdout).close()
        present(process.stdin).write(f"{SEXES};\n{WARDS};\n")
        present(process.stdin).close()
        assert "Traceback" not in present(process.stderr).read()
        assert process.wait(30) == 1


# -- what is kept -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_saved_query_is_plain_sql_for_its_owner_and_runs_by_its_name(clinic: Path) -> None:
    ok(text=f"{SEXES};\n\\save sexes\n\\save wards-1 {WARDS};\nSELECT 1\n\\save one")
    folder = clinic / "config" / "dpsql" / "queries"
    assert (folder / "sexes.sql").read_text(encoding="utf-8") == f"{SEXES};\n"
    assert sorted(path.name for path in folder.iterdir()) == ["one.sql", "sexes.sql", "wards-1.sql"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    listed = ok(text="\\run").splitlines()
    assert [line.split()[0] for line in listed[2:]] == ["one", "sexes", "wards-1"]
    assert SEXES in listed[3]
    assert "eyes" in ok(text="\\n wards-1")
    assert queries(clinic) == 2
    ok(text="\\save one SELECT 22\n\\forget sexes")
    assert ok("--format", "csv", text="\\run one").splitlines()[-1] == "22"
    failed = shell(text="\\run sexes")
    assert (failed.exit_code, "unknown_query" in failed.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["../x", "a/b", ".hidden", "", "a b; x", "x" * 65, "ü", "-rf", "a\x00"]
)
def test_a_name_is_no_path(clinic: Path, name: str) -> None:
    failed = shell(text=f"SELECT 1;\n\\save {name}\n")
    if name == "a b; x":  # a name and a statement
        assert (clinic / "config/dpsql/queries/a.sql").read_text(encoding="utf-8") == "b; x;\n"
        return
    assert failed.exit_code == 2
    assert "bad_query_name" in failed.stderr
    assert not (clinic / "config").exists()
    if name:
        assert "unknown_query" in shell(text=f"\\run {name}\n").stderr


@pytest.mark.slow
@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_the_last_answer_is_written_as_the_name_of_its_file_ends(clinic: Path, ending: str) -> None:
    ok(text=f"{SEXES};\n\\copy out{ending}\n\\w asked.sql")
    again = ["--format", ENDINGS[ending], "--output", "again"]
    done = CliRunner().invoke(cli, ["query", SEXES, *again])
    assert done.exit_code == 0, done.output
    written, expected = (clinic / f"out{ending}").read_bytes(), (clinic / "again").read_bytes()
    if ending in (".csv", ".jsonl", ".md"):
        assert written == expected
    else:  # these say what was paid, and the second was given again for nothing
        assert len(written) == pytest.approx(len(expected), rel=0.1)
    assert (clinic / "asked.sql").read_text(encoding="utf-8") == f"{SEXES};\n"
    assert queries(clinic) == 1


@pytest.mark.slow
def test_what_cannot_be_written_is_refused_and_nothing_is_written_over(
    clinic: Path, database: Path
) -> None:
    (clinic / "there.csv").write_text("precious")
    for typed, code in (
        ("\\copy there.csv", "file_exists"),
        ("\\copy out.xls", "unknown_ending"),
        ("\\copy", "file_not_writable"),
        ("\\w nowhere/out.sql", "file_not_writable"),
        ("\\w budget.db", "file_in_use"),
        (f"\\w {database}", "file_in_use"),
        ("\\w policies.yaml", "file_in_use"),
    ):
        failed = shell(text=f"SELECT 1 AS a;\n{typed}\n")
        assert failed.exit_code == 2, typed
        assert code in failed.stderr, typed
        assert "--output" not in failed.stderr
    assert (clinic / "there.csv").read_text() == "precious"
    assert "nothing_to_write" in shell(text="\\copy out.csv").stderr
    assert "nothing_to_write" in shell(text="\\w out.sql").stderr
    assert "nothing_to_write" in shell(text="\\save name").stderr
    assert not list(clinic.glob("out*"))


def test_what_the_shell_is_connected_to_is_told(clinic: Path, database: Path) -> None:
    told = dict(line.split(maxsplit=1) for line in ok(text="\\l").splitlines())
    assert told["database"] == str(database)
    assert (told["dataset"], told["account"], told["ledger"]) == ("clinic", "ana", "budget.db")
