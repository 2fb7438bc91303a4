"""The shell at a terminal: typed into through a pseudo-terminal, read off an emulator's screen."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from helpers.present import present
from test_docs_pages import generator

from dpsql.ledger import Ledger

if TYPE_CHECKING:
    from screens import Terminal

SCREENS = generator("screens")
WARDS = "SELECT ward, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward;"
SEXES = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex;"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a clinic of which one table never ends, and an account to spend."""
    directory = tmp_path_factory.mktemp("clinic")
    SCREENS.clinic(directory)
    with duckdb.connect(str(directory / "clinic.duckdb")) as connection:
        connection.execute(
            "CREATE VIEW endless AS SELECT TRY(i % 1000) AS patient_id, TRY(hash(i) % 9) AS k "
            "FROM range(1_000_000_000_000) t(i)"
        )
        connection.execute(
            "CREATE TABLE many AS SELECT i // 100 AS patient_id, i % 100 AS k "
            "FROM range(10000) t(i)"
        )
    policy = SCREENS.POLICY.replace("ana: {epsilon: 3,", "ana: {epsilon: 50,")
    unit = "    privacy_unit: {name: patient, column: patient_id}\n"
    policy += f"  endless:\n{unit}  many:\n{unit}    columns:\n"
    policy += f"      k: {{domain: [{', '.join(map(str, range(100)))}]}}\n"
    (directory / "policies.yaml").write_text(policy, encoding="utf-8")
    return directory


Opening = Callable[..., "Terminal"]


@pytest.fixture
def opening(home: Path) -> Iterator[Opening]:
    """Opens terminals with a shell each, and closes them."""
    opened: list[Terminal] = []

    def open_(directory: Path = home, **options: Any) -> Terminal:
        arguments = ["shell", "clinic.duckdb", "--analyst", "ana"]
        terminal: Terminal = SCREENS.Terminal(arguments, directory, **options)
        opened.append(terminal)
        terminal.see(lambda: terminal.waits)
        return terminal

    yield open_
    for terminal in opened:
        terminal.close()


@pytest.fixture(scope="module")
def shared(home: Path) -> Iterator[Terminal]:
    """One shell for many tests."""
    terminal = SCREENS.Terminal(
        ["shell", "clinic.duckdb", "--analyst", "ana"], home, columns=100, lines=40
    )
    try:
        terminal.see(lambda: terminal.waits)
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def terminal(shared: Terminal) -> Terminal:
    """That shell at an empty prompt on an empty screen."""
    if not shared.waits:
        shared.send("\x03")
    shared.see(lambda: shared.waits)
    shared.clear()
    return shared


def left(terminal: Terminal) -> float:
    """ε in the prompt."""
    return float(present(re.search(r"([\d.]+) left>", terminal.line)).group(1))


# -- asking -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_query_prints_its_table_and_the_prompt_shows_what_is_left(
    terminal: Terminal,
) -> None:
    before = left(terminal)
    text = terminal.run(WARDS)
    assert re.search(r"^ears +[\d,]+ +± \d+$", text, re.MULTILINE)
    assert "paid ε 0.5" in text
    assert left(terminal) < before
    toolbar = text.splitlines()[-1]
    assert "clinic.duckdb" in toolbar
    assert "dataset clinic" in toolbar
    assert re.search(r"ε 0\.5 paid, \d+ ms", toolbar)


def test_a_statement_goes_over_lines_until_its_semicolon(terminal: Terminal) -> None:
    terminal.send("SELECT sex, ';' AS semicolon,\r")
    terminal.see("...")
    terminal.send("COUNT(*) AS n FROM visits -- not yet;\r")
    terminal.see(lambda: terminal.text.count("...") == 2)
    text = terminal.run("GROUP BY sex;")
    assert re.search(r"^f +; +[\d,]+", text, re.MULTILINE)


def test_highlighting_leaves_the_text_as_it_was_typed(terminal: Terminal) -> None:
    statement = "SELECT 'it''s', \"a b\", 1.5e3, $$x$$, é /* c */ FROM nowhere -- end"
    terminal.raw = b""
    text = terminal.type(statement)
    assert statement in text
    assert re.search(rb"\x1b\[[\d;]*3[0-9]", terminal.raw), "nothing was coloured"
    terminal.send("\x01\x1b[C\x1b[C\x7fX")  # back to the beginning, two to the right, change one
    assert "SXLECT 'it''s'" in terminal.see("SXLECT")


@pytest.mark.slow
def test_tab_completes_tables_columns_and_commands(terminal: Terminal) -> None:
    terminal.send("SELECT wa\t")
    terminal.see("SELECT ward")
    terminal.type(" FROM visits v WHERE v.")
    terminal.send("\t")
    assert "patient_id" in terminal.see("cost")
    terminal.send("\x03")
    terminal.see(lambda: terminal.waits)
    terminal.send("SELECT * FROM vi\t")
    terminal.see("SELECT * FROM visits")
    terminal.send("\x03")
    terminal.see(lambda: terminal.waits)
    terminal.send("\\hist\t")
    terminal.see("\\history")
    terminal.send("\r")
    told = terminal.see(lambda: terminal.waits)  # whether other tests have asked before or not
    assert re.search(r"^(when +paid|Nothing )", told, re.MULTILINE)


def test_an_error_is_shown_with_its_place_and_is_no_traceback(terminal: Terminal) -> None:
    terminal.send("SELECT ward,\r")
    terminal.see("...")
    text = terminal.run("  nope FROM visits GROUP BY ward;")
    assert "error: " in text
    assert "line 2, column 3" in text
    assert re.search(r"^ +\^\^\^\^$", text, re.MULTILINE)
    assert "Traceback" not in text
    assert "privacy unit" not in terminal.run("SHOW NOTHING; SHOW TABLES;")


# -- commands ---------------------------------------------------------------------------------


def test_commands_describe_and_plot(terminal: Terminal) -> None:
    assert "privacy unit: patient" in terminal.run("\\d visits")
    terminal.run(WARDS)
    text = terminal.run("\\plot")
    assert re.search(r"^eyes +█+┊█+├─*┼─*┤ +[\d,]+ ± \d+$", text, re.MULTILINE)
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.slow
def test_explaining_what_is_being_typed_costs_nothing(terminal: Terminal) -> None:
    before = left(terminal)
    terminal.run("\\set pager off")
    terminal.send(f"{SEXES[:-1]}\r")
    terminal.see("...")
    terminal.type("\\explain")
    terminal.send("\r")
    explained = terminal.see(lambda: terminal.waits)
    assert re.search(r"^Reserves +ε 0\.5 ", explained, re.MULTILINE)
    assert "__dpsql_released_0" not in explained  # generated SQL is for EXPLAIN (SQL)
    assert left(terminal) == before
    terminal.run("\\set pager on")


def test_wide_answers_are_shown_line_by_line(terminal: Terminal) -> None:
    columns = ", ".join(f"COUNT(*) AS a_rather_long_name_{i}" for i in range(5))
    text = terminal.run(f"SELECT sex, {columns} FROM visits GROUP BY sex;")
    assert "─[ 2 ]─" in text
    assert re.search(r"^a_rather_long_name_4 │ [\d,]+  ± \d+$", text, re.MULTILINE)


# -- prices -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_price_that_bounds_decide_is_asked_about_however_small(terminal: Terminal) -> None:
    question = "SELECT COUNT(*, max_error => 900) AS rough FROM visits WHERE cost > 18;"
    terminal.run("SET max_rows_contributed = auto;")
    terminal.type(question)
    terminal.send("\r")
    assert "found first make it more or less" in " ".join(terminal.see("[y/N]").split())
    terminal.send("y\r")
    assert "paid ε" in terminal.see(lambda: terminal.waits)
    terminal.clear()
    assert "[y/N]" not in terminal.run(question.replace("rough", "again"))
    terminal.run("RESET max_rows_contributed;")


@pytest.mark.slow
def test_an_expensive_query_is_asked_about_and_run_only_if_told_so(
    terminal: Terminal,
) -> None:
    before = left(terminal)
    terminal.run("\\confirm 0%")
    question = "SELECT COUNT(*) AS dear FROM visits WHERE cost > 17;"
    for answer in ("n", "", "\x03", "\x04"):
        terminal.clear()
        terminal.type(question)
        terminal.send("\r")
        text = terminal.see("[y/N]")
        assert re.search(r"reserves ε 0\.5 at δ 5e-09: [<\d.]+% of what is left", text)
        assert re.search(r"Afterwards ε [\d.]+ is left, enough for\s+about\s+[\d,]+ more", text)
        terminal.send(answer if answer.startswith(("\x03", "\x04")) else f"{answer}\r")
        assert "Nothing was spent" in terminal.see(lambda: terminal.waits)
        assert left(terminal) == before
    terminal.type(question)
    terminal.send("\r")
    terminal.see("[y/N]")
    terminal.send("what?\r")
    terminal.see(lambda: terminal.text.count("[y/N]") > 1)
    terminal.send("y\r")
    assert "paid ε 0.5" in terminal.see(lambda: terminal.waits)
    assert left(terminal) < before
    terminal.clear()
    assert "[y/N]" not in terminal.run(question)  # it is given again, for nothing
    assert "paid for before" in terminal.text
    terminal.run("SET epsilon = 0.25;")
    terminal.type(question)
    terminal.send("\r")
    terminal.see("[y/N]")
    terminal.send("n\r")
    terminal.see(lambda: terminal.waits)
    terminal.run("RESET epsilon;")
    terminal.run("\\confirm off")
    terminal.clear()
    assert "[y/N]" not in terminal.run("SELECT COUNT(*) AS cheap FROM visits WHERE cost > 18;")
    terminal.run("\\confirm on")


# -- Ctrl-C and Ctrl-D ------------------------------------------------------------------------


def test_ctrl_c_while_typing_clears_the_line_and_costs_nothing(terminal: Terminal) -> None:
    before = left(terminal)
    terminal.type(WARDS)
    terminal.send("\x03")
    terminal.see(lambda: terminal.waits)
    terminal.send("SELECT 1\r")
    terminal.see("...")
    terminal.send("\x03")
    text = terminal.see(lambda: terminal.waits)
    assert "ears" not in text
    assert "error" not in text
    assert left(terminal) == before


@pytest.mark.slow
def test_ctrl_c_cancels_a_running_query_and_says_what_that_cost(
    terminal: Terminal, home: Path
) -> None:
    with Ledger.open(home / "clinic.budget.db") as ledger:
        unsettled = ledger.spent("clinic/ana").unsettled
    before = left(terminal)
    terminal.send("SELECT COUNT(DISTINCT k) AS n FROM endless;\r")
    terminal.see(lambda: "Ctrl-C cancels" in terminal.text, 30)
    terminal.send("\x03")
    text = terminal.see(lambda: terminal.waits, 30)
    told = re.search(r"Cancelled\. It took ε ([\d.]+) of the account's, which stays spent; ε", text)
    assert told is not None
    assert left(terminal) == pytest.approx(before - float(told.group(1)), abs=0.15)
    assert "Ctrl-C cancels" not in text
    with Ledger.open(home / "clinic.budget.db") as ledger:
        assert ledger.spent("clinic/ana").unsettled == unsettled + 1
    assert "± " in terminal.run("SELECT COUNT(*) AS after FROM visits WHERE cost > 20;")


@pytest.mark.slow
def test_what_an_editor_leaves_is_shown_at_the_prompt_and_not_run(
    opening: Opening, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/eaves/edited/ "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    terminal = opening(environment={"EDITOR": str(editor)}, columns=100)
    before = left(terminal)
    terminal.type("SELECT COUNT(*) AS eaves FROM visits WHERE cost > 21;")
    terminal.send("\x18\x05")
    terminal.see(lambda: terminal.line.endswith("AS edited FROM visits WHERE cost > 21;"))
    assert "±" not in terminal.text
    terminal.send("\r")
    terminal.see("±")
    assert left(terminal) < before


@pytest.mark.slow
def test_e_opens_the_last_query_in_the_editor(opening: Opening, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/eaves/edited/ "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    terminal = opening(environment={"EDITOR": str(editor)}, columns=100, lines=40)
    terminal.run("SELECT COUNT(*) AS eaves FROM visits WHERE cost > 22;")
    terminal.clear()
    terminal.send("\\e\r")
    terminal.see(lambda: terminal.line.endswith("AS edited FROM visits WHERE cost > 22"))
    assert "±" not in terminal.text
    terminal.send(";\r")
    terminal.see("±")


# -- history, pages, other terminals ----------------------------------------------------------


@pytest.mark.slow
def test_ctrl_d_leaves_and_history_is_kept_across_shells_for_its_owner_alone(
    opening: Opening, home: Path, tmp_path: Path
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    one = opening(environment=state)
    one.run("SHOW BUDGET;")
    one.send("\x04")
    assert one.end() == 0
    kept = tmp_path / "state" / "dpsql" / "shell_history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    kept.chmod(0o644)
    two = opening(environment=state, columns=60)
    two.send("\x1b[A")
    assert "SHOW BUDGET;" in two.see("SHOW BUDGET;")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def searched(terminal: Terminal, typed: str) -> str:
    """The screen after Ctrl-R and some letters, once it says that it searches for them."""
    terminal.send("\x12")
    terminal.see(lambda: "-search" in terminal.text)
    terminal.send(typed)
    return terminal.see(lambda: re.search(f"-search.*{typed}", terminal.text) is not None)


@pytest.mark.slow
def test_ctrl_r_shows_the_match_and_enter_takes_it(terminal: Terminal) -> None:
    terminal.run("SHOW BUDGET;")
    terminal.run("SHOW TABLES;")
    terminal.clear()
    assert "SHOW BUDGET;" in searched(terminal, "budg")
    terminal.send("\r")
    terminal.see(lambda: "-search" not in terminal.text and "SHOW BUDGET;" in terminal.text)
    terminal.send("\r")
    assert re.search(r"^account ", terminal.see(lambda: terminal.waits), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("begun", ["", "SELECT sex,"], ids=["empty prompt", "begun statement"])
@pytest.mark.parametrize("leave", ["\x03", "\x07"], ids=["Ctrl-C", "Ctrl-G"])
def test_a_search_is_left_as_it_was_begun(terminal: Terminal, begun: str, leave: str) -> None:
    terminal.run("SHOW BUDGET;")
    terminal.clear()
    if begun:
        terminal.type(begun)
    found = searched(terminal, "budg")
    assert "SHOW BUDGET;" in found
    terminal.send(leave)
    text = terminal.see(lambda: "-search" not in terminal.text)
    assert "Unhandled" not in text
    assert "SHOW BUDGET;" not in text
    assert begun in text
    assert "-search" not in terminal.run("\x15SHOW TABLES;")


@pytest.mark.slow
def test_long_answers_are_paged_unless_told_not_to(terminal: Terminal) -> None:
    question = "SELECT k, COUNT(*) AS n FROM many GROUP BY k ORDER BY k;"
    terminal.type(question)
    terminal.send("\r")
    first = terminal.see(lambda: terminal.line.startswith(":"))
    assert re.search(r"^ 5 +", first, re.MULTILINE)
    assert re.search(r"^99 +", first, re.MULTILINE) is None
    terminal.send(" ")
    terminal.see(lambda: re.search(r"^50 +", terminal.text, re.MULTILINE) is not None)
    terminal.send("\x03")  # is the pager's
    terminal.see(lambda: terminal.line.startswith(":"))
    terminal.send("q")
    terminal.see(lambda: terminal.waits)
    terminal.run("\\set pager off")
    assert re.search(r"^99 +", terminal.run(question), re.MULTILINE)
    terminal.run("\\set pager on")


@pytest.mark.slow
def test_sixty_columns_are_enough(opening: Opening) -> None:
    one = opening(columns=60, lines=50)
    one.run(WARDS)
    text = one.run("\\plot")
    assert re.search(r"^eyes +█+┊█+├?─*┼?─*┤? +[\d,]+ ± \d+$", text, re.MULTILINE)
    one.clear()
    sums = "SUM(cost) AS the_sum_of_all, AVG(cost) AS the_average, COUNT(*) AS the_number"
    assert "─[ 1 ]" in one.run(f"SELECT ward, {sums} FROM visits GROUP BY ward;")


@pytest.mark.slow
def test_suggestions_while_typing_are_shown_to_those_who_ask(terminal: Terminal) -> None:
    terminal.type("SELECT cost, wa")
    assert "ward" not in terminal.text
    terminal.send("\x15")
    terminal.run("\\set complete typing")
    terminal.clear()
    terminal.send("SELECT cost, wa")
    terminal.see("ward")
    terminal.send("\x03")
    terminal.see(lambda: terminal.waits)
    terminal.run("\\unset complete")
    terminal.clear()
    terminal.type("SELECT cost, wa")
    assert "ward" not in terminal.text


@pytest.mark.slow
def test_completion_while_typing_can_be_set_in_the_environment(opening: Opening) -> None:
    one = opening(environment={"DPSQL_COMPLETE": "typing"})
    one.send("SELECT pati")
    one.see("patient_id")
    assert one.see("pati").count("patient_id") >= 1


@pytest.mark.slow
def test_words_of_other_shells_are_understood(terminal: Terminal) -> None:
    assert re.search(r"^visits +private", terminal.run(".tables"), re.MULTILINE)
    assert re.search(r"^dataset +clinic$", terminal.run("\\l"), re.MULTILINE)


@pytest.mark.slow
def test_a_query_is_saved_listed_completed_and_run(terminal: Terminal, home: Path) -> None:
    terminal.run(SEXES)
    assert "Saved: \\run by_sex runs it again." in terminal.run("\\save by_sex")
    terminal.clear()
    assert re.search(r"^by_sex +SELECT sex", terminal.run("\\n"), re.MULTILINE)
    terminal.clear()
    terminal.send("\\run by\t")
    terminal.see("\\run by_sex")
    terminal.send("\r")
    assert re.search(r"^f +[\d,]+ +± ", terminal.see(lambda: terminal.waits), re.MULTILINE)
    terminal.run("\\copy by_sex.csv")
    assert (home / "by_sex.csv").read_text(encoding="utf-8").startswith("sex,n\n")


@pytest.mark.slow
def test_forty_columns_break_no_word_of_a_description(opening: Opening) -> None:
    one = opening(columns=40, lines=60)
    text = one.run("\\d visits")
    assert "─[ patient_id ]─" in text
    assert re.search(r"^column type │ BIGINT$", text, re.MULTILINE)
    assert "privacy unit: patient" in " ".join(text.split())


@pytest.mark.slow
def test_no_color_means_no_colour(opening: Opening) -> None:
    one = opening(environment={"NO_COLOR": "1"})
    one.run("\\d visits")
    one.run(WARDS)
    one.run("\\plot")
    one.run("SELECT nope FROM visits;")
    one.type("SELECT 'a', 1 -- comment")
    coloured = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[\d;]*)?m")
    assert coloured.search(one.raw) is None
    assert coloured.search(b"\x1b[0;1;31mred") is not None


@pytest.mark.slow
def test_a_dumb_terminal_is_spared_colours_and_pages(opening: Opening) -> None:
    one = opening(environment={"TERM": "dumb"})
    one.raw = b""
    text = one.run("SELECT k, COUNT(*) AS n FROM many GROUP BY k ORDER BY k;")
    assert re.search(r"^99 +", text, re.MULTILINE)
    one.send("SELECT sex,\r")
    text = one.run("COUNT(*) AS n FROM visits GROUP BY sex;")
    assert "± " in text
    assert b"\x1b[3" not in one.raw
    one.send("\x04")
    assert one.end() == 0


@pytest.mark.slow
def test_a_terminal_without_utf8_shows_letters_it_has(opening: Opening) -> None:
    one = opening(environment={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
    assert re.fullmatch(r"ana eps [\d.]+ left> ?", one.line)
    text = one.run(WARDS)
    assert re.search(r"^ears +\| +[\d,]+ \| \+- \d+", text, re.MULTILINE)
    assert "?" not in text.replace("\\?", "")
    assert all(ord(character) < 128 for character in text)


@pytest.mark.slow
def test_without_prompt_toolkit_a_terminal_is_told_what_to_install(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['prompt_toolkit'] = None\n"
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'prompt_toolkit' else find(name, *a)\n",
        encoding="utf-8",
    )
    path = os.pathsep.join([str(tmp_path), str(SCREENS.ROOT)])
    one = SCREENS.Terminal(
        ["shell", "clinic.duckdb", "--analyst", "ana"], home, environment={"PYTHONPATH": path}
    )
    try:
        assert one.end() == 2
        assert "pip install 'prompt-toolkit>=" in one.text
        assert "[missing_package]" in one.text
    finally:
        one.close()
