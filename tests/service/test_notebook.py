"""Questions in notebooks: the magics as IPython runs them, and the example notebook."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import duckdb
import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output
from nbclient import NotebookClient
from traitlets.config import Config

import dpsql
from dpsql.ledger import Ledger
from dpsql.notebook import Refused
from dpsql.policy.parameters import PARAMETER_NAMES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "notebook.ipynb"
POLICIES = """\
version: 1
dataset: clinic
defaults: {epsilon: 1.0, delta: 1e-8, max_groups_contributed: 1, max_rows_contributed: 1}
accounts:
  ana: {epsilon: 50.0, delta: 1e-6}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 500}
"""
WARDS = "SELECT ward, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY ward"


class Notebook:
    """A shell that runs cells; ``shown`` holds what each of them displayed, by MIME type."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.shown: list[dict[str, Any]] = []
        self.printed = ""

    def run(self, cell: str) -> ExecutionResult:
        with capture_output() as captured:
            result = self.shell.run_cell(cell)
        assert isinstance(captured, CapturedIO)
        self.shown = [output.data for output in captured.outputs]
        self.printed = captured.stdout + captured.stderr
        return result

    def shows(self, cell: str) -> list[dict[str, Any]]:
        """What a cell displays; it must not fail."""
        self.run(cell).raise_error()
        return self.shown

    def refuses(self, cell: str) -> dpsql.Error:
        """The error of a cell that fails."""
        result = self.run(cell)
        assert isinstance(result.error_in_exec, Refused)
        return result.error_in_exec.error


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    home = str(tmp_path_factory.mktemp("ipython"))
    found = InteractiveShell.instance(config=config, ipython_dir=home)
    yield found
    found.restore_sys_module_state()
    InteractiveShell.clear_instance()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE visits AS SELECT range AS patient_id, "
            "['eyes', 'ears', 'heart'][1 + range % 3] AS ward, (range % 400)::DOUBLE AS cost "
            "FROM range(6000)"
        )
    return path


@pytest.fixture
def notebook(
    shell: InteractiveShell, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notebook]:
    monkeypatch.chdir(tmp_path)
    Path("policies.yaml").write_text(POLICIES, encoding="utf-8")
    Path("clinic.duckdb").hardlink_to(database)
    shell.reset()
    found = Notebook(shell)
    found.shows("%load_ext dpsql.notebook")
    yield found
    found.shows("%unload_ext dpsql.notebook")


@pytest.fixture
def connected(notebook: Notebook) -> Notebook:
    notebook.shows("%dpsql connect clinic.duckdb --analyst ana")
    return notebook


def spent(line: dict[str, Any]) -> float:
    """The epsilon that a line on the budget says is spent."""
    (found,) = re.findall(r"^clinic/ana: .* · ε ([\d.]+) of 50 · ", line["text/plain"])
    return float(found)


# -- connections ------------------------------------------------------------------------------


@pytest.mark.slow
def test_connecting_tells_where_the_account_stands(notebook: Notebook) -> None:
    new, line = notebook.shows("%dpsql connect clinic.duckdb --analyst ana")
    place = Path("clinic.budget.db").absolute()
    assert new["text/plain"] == (f"a new ledger was created: {place}: nothing has been spent in it")
    assert spent(line) == 0
    assert line["text/plain"].startswith("clinic/ana: 0 of ")
    (line,) = notebook.shows("%dpsql connect clinic.duckdb --analyst ana")
    assert spent(line) == 0
    notebook.shows("%dpsql connect clinic.duckdb --analyst ana --ledger other.db")
    assert Path("other.db").exists()


@pytest.mark.slow
def test_a_connection_of_the_notebook_can_be_used_and_stays_open(notebook: Notebook) -> None:
    with dpsql.connect("clinic.duckdb", ledger="budget.db", analyst="ana") as connection:
        notebook.shell.user_ns["con"] = connection
        notebook.shows("%dpsql use con")
        assert notebook.shows(f"%%dpsql\n{WARDS}")
        notebook.shows("%dpsql close")
        assert (connection.budget().queries, connection.budget().looks) == (1, 1)


@pytest.mark.slow
def test_a_connection_that_was_opened_by_the_magic_is_closed_by_it(connected: Notebook) -> None:
    magics = connected.shell.magics_manager.registry["DpsqlMagics"]
    first = magics._connection
    connected.shows("%dpsql connect clinic.duckdb --analyst ana --epsilon 0.25")
    assert magics._connection is not first
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        first.budget()
    connected.shows(f"%%dpsql --into wards\n{WARDS}")
    assert connected.shell.user_ns["wards"].cost.settled_epsilon == pytest.approx(0.25)
    connected.shows("%dpsql close")
    assert connected.refuses(f"%%dpsql\n{WARDS}").code == "not_connected"


@pytest.mark.slow
def test_a_session_of_its_own_pays_too(notebook: Notebook) -> None:
    notebook.shows("%dpsql connect clinic.duckdb --analyst ana --session tuesday")
    _, budget = notebook.shows(f"%%dpsql\n{WARDS}")
    assert "clinic/ana" in budget["text/plain"]
    with Ledger.open("clinic.budget.db") as ledger:
        assert ledger.spent("clinic/ana/tuesday") == ledger.spent("clinic/ana")


def test_the_budget_is_shown_when_asked_for(connected: Notebook) -> None:
    (report,) = connected.shows("%dpsql budget")
    assert "Budget of clinic/ana" in report["text/plain"]


# -- questions --------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_is_shown_as_a_table_with_the_budget_below(connected: Notebook) -> None:
    answer, budget = connected.shows(f"%%dpsql --into wards\n{WARDS}")
    wards = connected.shell.user_ns["wards"]
    assert answer["text/html"] == wards._repr_html_()
    assert "<table" in answer["text/html"]
    assert answer["text/plain"] == repr(wards)
    connection = connected.shell.magics_manager.registry["DpsqlMagics"]._connection
    assert spent(budget) == pytest.approx(connection.budget().epsilon_spent, rel=1e-3)
    assert spent(budget) > 0
    assert budget["text/plain"].startswith("clinic/ana: 1 of ")
    assert escape(budget["text/plain"]) in budget["text/html"]


@pytest.mark.slow
def test_an_answer_is_kept_only_where_a_name_is_given(connected: Notebook) -> None:
    before = set(connected.shell.user_ns)
    connected.shows(f"%%dpsql\n{WARDS}")
    assert {n for n in set(connected.shell.user_ns) - before if not n.startswith("_")} == set()


@pytest.mark.slow
def test_privacy_parameters_are_options(connected: Notebook) -> None:
    connected.shows(
        "%%dpsql --into wards --epsilon 0.5 --delta 1e-9 --max-groups-contributed unlimited "
        "--max-rows-contributed 2 --k-bar 20 --min-units-per-group 5 "
        f"--contribution-bounding sample --mechanism gumbel_top_k\n{WARDS} ORDER BY n DESC LIMIT 2"
    )
    wards = connected.shell.user_ns["wards"]
    assert wards.cost.reserved_epsilon == pytest.approx(0.5)
    (block,) = wards.plan.blocks
    assert block.mechanism == "gumbel_top_k"
    assert block.base_rank == 21
    assert "a unit may touch any number of groups, at most 2 rows" in block.bounding


def test_every_privacy_parameter_is_an_option(connected: Notebook) -> None:
    magics = connected.shell.magics_manager.registry["DpsqlMagics"]
    for method in (magics.manage, magics.ask):
        options = {action.dest for action in method.parser._actions}
        assert set(PARAMETER_NAMES) <= options


@pytest.mark.slow
def test_explaining_shows_the_plan_and_costs_nothing(connected: Notebook) -> None:
    (plan,) = connected.shows(f"%%dpsql --explain --into plan\n{WARDS}")
    assert "Reserves  ε 1" in plan["text/plain"]
    assert isinstance(connected.shell.user_ns["plan"], dpsql.Explanation)
    assert "0 queries charged" in connected.shows("%dpsql budget")[0]["text/plain"]


@pytest.mark.slow
def test_a_plot_is_shown_as_a_picture(connected: Notebook) -> None:
    _, _, picture = connected.shows(f"%%dpsql --plot\n{WARDS}")
    assert "image/png" in picture


@pytest.mark.slow
def test_statements_that_cost_nothing_show_no_budget(connected: Notebook) -> None:
    assert len(connected.shows("%%dpsql\nSHOW TABLES")) == 1
    assert len(connected.shows("%%dpsql\nEXPLAIN SELECT COUNT(*) FROM visits")) == 1


@pytest.mark.slow
def test_an_answer_that_is_asked_for_again_is_free_unless_it_is_to_be_fresh(
    connected: Notebook,
) -> None:
    for number, line in enumerate(["--into a", "--into b", "--into c --fresh"]):
        connected.shows(f"%%dpsql {line}\n{WARDS}")
        answer = connected.shell.user_ns["abc"[number]]
        assert answer.cost.stored == (number == 1)


# -- values -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mark", [":ward", "$ward"])
def test_named_parameters_take_the_values_of_variables(connected: Notebook, mark: str) -> None:
    connected.shell.user_ns |= {"ward": "eyes", "least": np.int64(100)}
    connected.shows(
        "%%dpsql --into eyes\n"
        f"SELECT COUNT(*) AS n FROM visits WHERE ward = {mark} AND cost > {mark[0]}least"
    )
    ((count,),) = connected.shell.user_ns["eyes"].fetchall()
    assert 1000 < count < 2000


@pytest.mark.slow
def test_variables_are_values_and_never_become_sql(connected: Notebook) -> None:
    connected.shell.user_ns["ward"] = "eyes' OR '1'='1"
    connected.shows(
        "%%dpsql --into none\nSELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE ward = :ward"
    )
    ((count,),) = connected.shell.user_ns["none"].fetchall()
    assert abs(count) < 200


@pytest.mark.slow
def test_variables_that_the_statement_does_not_name_are_left_alone(connected: Notebook) -> None:
    connected.shell.user_ns |= {"ward": object(), "visits": "DROP"}
    assert connected.shows(f"%%dpsql\n{WARDS}")
    assert connected.shows("%%dpsql\nSELECT COUNT(*) FROM visits WHERE ward = ':ward' -- :ward")


@pytest.mark.parametrize(
    ("variables", "code"), [({}, "parameter_missing"), ({"ward": object()}, "bad_value")]
)
def test_variables_that_are_missing_or_no_values_are_refused(
    connected: Notebook, variables: dict[str, object], code: str
) -> None:
    connected.shell.user_ns |= variables
    error = connected.refuses("%%dpsql\nSELECT COUNT(*) FROM visits WHERE ward = :ward")
    assert error.code == code


@pytest.mark.slow
def test_variables_can_be_explained_with(connected: Notebook) -> None:
    connected.shell.user_ns["ward"] = "eyes"
    sql = "SELECT COUNT(*) FROM visits WHERE ward = :ward"
    assert connected.shows(f"%%dpsql --explain\n{sql}")
    assert connected.shows(f"%%dpsql\nEXPLAIN {sql}")


# -- errors -----------------------------------------------------------------------------------


def test_an_error_is_a_panel_without_a_traceback(connected: Notebook) -> None:
    error = connected.refuses("%%dpsql\nSELECT nothing FROM visits")
    assert error.code == "unknown_column"
    plain = re.sub(r"\x1b\[[0-9;]*m", "", connected.printed)
    assert plain.startswith("error: table visits has no column nothing (line 1, column 8)\n")
    assert plain.split("\n")[1:3] == ["  SELECT nothing FROM visits", "         ^^^^^^^"]
    assert "Traceback" not in plain
    assert "notebook.py" not in plain


@pytest.mark.slow
def test_a_plot_that_cannot_be_made_leaves_the_answer(connected: Notebook) -> None:
    error = connected.refuses("%%dpsql --into keys --plot\nSELECT DISTINCT ward FROM visits")
    assert error.code == "nothing_to_draw"
    assert "keys" in connected.shell.user_ns
    assert len(connected.shown) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%dpsql connect", "%dpsql connect DATABASE --analyst NAME"),
        ("%dpsql use nothing", "the variable that holds a connection"),
        ("%dpsql use", "the variable that holds a connection"),
        ("%dpsql dance", "invalid choice"),
        ("%%dpsql --epsilon much\nSELECT 1", "invalid float value"),
        ("%%dpsql --max-groups-contributed few\nSELECT 1", "give a whole number, or: unlimited"),
        ("%%dpsql --into 1x\nSELECT 1", "cannot be the name of a variable"),
    ],
)
def test_misuse_is_told_in_a_line(connected: Notebook, line: str, said: str) -> None:
    assert not connected.run(line).success
    assert "UsageError" in connected.printed
    assert said in connected.printed
    assert "Traceback" not in connected.printed


def test_without_the_extension_there_are_no_magics(notebook: Notebook) -> None:
    notebook.shows("%unload_ext dpsql.notebook")
    assert not notebook.run("%dpsql budget").success
    notebook.shows("%load_ext dpsql.notebook")


# -- the example ------------------------------------------------------------------------------


def example() -> nbformat.NotebookNode:
    example: nbformat.NotebookNode = nbformat.read(EXAMPLE, as_version=4)  # type: ignore[no-untyped-call]
    return example


def test_the_example_is_kept_without_outputs() -> None:
    for cell in example().cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Jupyter's own
def test_the_example_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a kernel of its own, on data that it builds itself; a cell that fails fails this test."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    directory = tmp_path / "examples"
    directory.mkdir()
    shutil.copy(ROOT / "policies.yaml", tmp_path)
    notebook = example()
    resources = {"metadata": {"path": str(directory)}}
    NotebookClient(notebook, timeout=120, resources=resources).execute()

    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert all(cell.execution_count for cell in code)
    assert all(output.output_type != "error" for output in outputs)
    said = [output.text for output in outputs if output.get("name") == "stderr"]
    assert all("font cache" in text for text in said)  # matplotlib's, the first time it runs
    shown = [output.data for output in outputs if "data" in output]
    assert all(data["text/plain"].strip() for data in shown)
    html = "".join(data.get("text/html", "") for data in shown)
    assert "At least 95% of such" in html
    assert "This answer was given before" in html
    assert html.count("dpsql-demo/ana: ") >= 5
    assert sum("image/png" in data for data in shown) == 2
    assert any("(True, True)" in data.get("text/plain", "") for data in shown)
    assert any("Budget of dpsql-demo/ana" in data.get("text/plain", "") for data in shown)


# -- looks --------------------------------------------------------------------------------------


@pytest.fixture
def opened(connected: Notebook) -> Iterator[dpsql.Connection]:
    """A connection of the notebook's own, in its variable ``con``."""
    with dpsql.connect("clinic.duckdb", analyst="ana") as con:
        connected.shell.user_ns["con"] = con
        yield con


def test_the_extension_has_the_name_of_the_package(notebook: Notebook) -> None:
    notebook.shows("%unload_ext dpsql.notebook")
    notebook.shows("%load_ext dpsql")
    notebook.shows("%dpsql connect clinic.duckdb --analyst ana")
    notebook.shows("%unload_ext dpsql")
    notebook.run("%dpsql budget")
    assert "not found" in notebook.printed
    notebook.shows("%load_ext dpsql.notebook")


@pytest.mark.slow
def test_a_short_statement_stands_on_the_line_of_the_magic(connected: Notebook) -> None:
    table, line = connected.shows(f"%dpsql {WARDS}")
    assert "eyes" in table["text/html"]
    assert spent(line) > 0
    (listed,) = connected.shows("%dpsql show tables")
    assert "visits" in listed["text/html"]
    assert connected.refuses("%dpsql SELECT * FROM visits").code == "raw_rows"


@pytest.mark.slow
def test_plans_and_budgets_fold_away_what_is_long(opened: dpsql.Connection) -> None:
    shown, folded = opened.explain(WARDS)._repr_html_().split("<details>", 1)
    assert "Reserves" in shown
    assert "Private block" in shown
    assert "Candidates" in shown
    assert "SELECT" not in shown
    assert "SELECT" in folded
    summary, rest = opened.budget()._repr_html_().split("</summary>")
    assert summary.startswith("<details><summary>clinic/ana: ")
    assert "Budget of clinic/ana" in rest


@pytest.mark.slow
@pytest.mark.usefixtures("opened")
def test_a_refusal_shows_the_callers_frames_alone(notebook: Notebook) -> None:
    notebook.run("def ask():\n    return con.sql('SELECT * FROM visits')\nask()")
    assert "in ask" in notebook.printed
    assert "raw_rows" in notebook.printed
    assert "Hint: " in notebook.printed
    assert "answering.py" not in notebook.printed
    assert "interactiveshell" not in notebook.printed


@pytest.mark.slow
def test_a_connection_says_whose_it_is(opened: dpsql.Connection) -> None:
    assert repr(opened) == "<dpsql.Connection of clinic/ana>"
    opened.close()
    assert repr(opened) == "<dpsql.Connection of clinic/ana, closed>"
