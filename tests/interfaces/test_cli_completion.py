"""Completion in a shell: commands, options and values, also beside files that are broken."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from dpsql.interfaces.cli import cli
from dpsql.interfaces.cli.registry import entries
from dpsql.planner import MECHANISM_NAMES

POLICY = """\
version: 1
dataset: world
accounts: {ana: {epsilon: 1, delta: 1e-6}, anton: {epsilon: 1, delta: 1e-6}, bo: {epsilon: 1,
  delta: 1e-6}}
tables:
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "PROFILE", "POLICIES", "ANALYST"):
        monkeypatch.delenv(f"DPSQL_{name}", raising=False)
    return tmp_path


def completions(line: str) -> list[str]:
    """What a shell offers at the end of a command line."""
    *words, incomplete = line.split(" ")[1:]
    found = ShellComplete(cli, {}, "dpsql", "_DPSQL_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in found]


def test_commands_and_options_are_offered() -> None:
    assert completions("dpsql ") == [entry.name for entry in entries()]
    assert completions("dpsql ex") == ["explain"]
    assert "--max-groups-contributed" in completions("dpsql query --max")
    assert {"--config", "--profile"} <= set(completions("dpsql --"))


def test_formats_are_those_of_the_command() -> None:
    assert completions("dpsql query --format ") == [
        *("table", "csv", "json", "jsonl", "markdown", "arrow", "parquet")
    ]
    assert completions("dpsql explain -f ") == ["table", "json"]


def test_mechanisms_and_ways_to_bound_are_offered() -> None:
    assert completions("dpsql query --mechanism ") == list(MECHANISM_NAMES)
    assert completions("dpsql explain --mechanism known_domain") == [
        name for name in MECHANISM_NAMES if name.startswith("known_domain")
    ]
    assert completions("dpsql query --contribution-bounding ") == ["sample", "weight"]


def test_analysts_are_those_of_the_policies_file(directory: Path) -> None:
    assert completions("dpsql query -a ") == []
    (directory / "p.yaml").write_text(POLICY)
    assert completions("dpsql query --policies p.yaml -a ") == ["ana", "anton", "bo"]
    assert completions("dpsql query --policies p.yaml -a an") == ["ana", "anton"]
    (directory / "dpsql.toml").write_text('[dpsql]\npolicies = "p.yaml"\n')
    assert completions("dpsql explain -a b") == ["bo"]
    (directory / "dpsql.toml").unlink()
    (directory / "p.yaml").rename(directory / "policies.yaml")
    assert completions("dpsql query -a b") == ["bo"]
    (directory / "policies.yaml").write_text("{broken")
    assert completions("dpsql query -a ") == []


def test_profiles_are_those_of_the_settings_file(directory: Path) -> None:
    (directory / "dpsql.toml").write_text("[profile.work]\n[profile.home]\n")
    assert completions("dpsql --profile ") == ["work", "home"]
    (directory / "other.toml").write_text("[profile.third]\n")
    assert completions("dpsql --config other.toml --profile t") == ["third"]


def test_a_broken_settings_file_does_not_break_completion(directory: Path) -> None:
    (directory / "dpsql.toml").write_text("broken")
    assert completions("dpsql --profile ") == []
    assert "--epsilon" in completions("dpsql query --e")
    assert completions("dpsql --profile none query --format j") == ["json", "jsonl"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell_and_says_how_to_install_it(shell: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    assert "_DPSQL_COMPLETE" in done.stdout
    assert f"dpsql completion {shell}" in done.stdout.splitlines()[-1]
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True)


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(cli, ["completion", "csh"]).exit_code == 2
