"""What the command line says about itself is true: help texts, examples, exit codes, speed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dpsql.cli import cli
from dpsql.cli.failures import EXIT_CODES
from dpsql.cli.group import SECTIONS, entries
from dpsql.demo_data import database

ROOT = Path(__file__).parent.parent
INTERACTIVE = {"shell"}


def every_command() -> Iterator[tuple[str, click.Command]]:
    """All commands by their full names, those of groups included."""
    waiting = [(entry.name, entry.load()) for entry in entries()]
    while waiting:
        name, command = waiting.pop(0)
        yield name, command
        if isinstance(command, click.Group):
            waiting += [(f"{name} {inner}", found) for inner, found in command.commands.items()]


COMMANDS = dict(every_command())


def examples(command: click.Command) -> list[str]:
    """The commands that a help text shows as examples, each on one line."""
    _, _, below = (command.epilog or "").replace("\\\n", " ").partition("Examples:\n")
    text = below.partition("\n\n")[0]
    found: list[str] = []
    for line in text.split("\n"):
        # An example goes on while a quotation is open or its lines are indented further.
        if line.startswith("  ") and line[2:3] not in (" ", ""):
            found.append(line.strip())
        elif found and line.strip():
            found[-1] += " " + line.strip()
    return found


EXAMPLES = [
    (name, example)
    for name, command in COMMANDS.items()
    for example in examples(command)
    if name not in INTERACTIVE
]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_is_explained(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    shown = CliRunner().invoke(cli, [*name.split(), "--help"])
    assert shown.exit_code == 0
    assert f"Usage: cli {name}" in shown.output
    unexplained = [o.name for o in command.params if isinstance(o, click.Option) and not o.help]
    assert unexplained == []


def test_the_overview_lists_every_command_in_its_section_and_every_exit_code() -> None:
    shown = CliRunner().invoke(cli, ["-h"]).output
    for title, section in SECTIONS.items():
        below = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in below.split("\n")] == [e.name for e in section]
    _, _, codes = shown.partition("Exit codes:\n")
    assert all(f"\n  {code} " in f"\n{codes}" for code in EXIT_CODES)


def test_words_that_ask_for_help_are_the_same_everywhere() -> None:
    for name in COMMANDS:
        assert CliRunner().invoke(cli, [*name.split(), "-h"]).exit_code == 0


def test_an_option_that_commands_share_means_the_same_in_all_of_them() -> None:
    meanings: dict[str, set[str | None]] = {}
    for name in ("query", "explain", "budget", "check"):
        for option in COMMANDS[name].params:
            if isinstance(option, click.Option) and option.name != "format_":
                meanings.setdefault(str(option.name), set()).add(option.help)
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_a_letter_stands_for_one_option() -> None:
    letters: dict[str, set[str | None]] = {}
    for command in COMMANDS.values():
        for option in command.params:
            for flag in option.opts:
                if isinstance(option, click.Option) and len(flag) == 2:
                    letters.setdefault(flag, set()).add(option.name)
    letters.pop("-o", None)  # --output, whose variable is named after what is written
    assert {letter: names for letter, names in letters.items() if len(names) > 1} == {}


@pytest.mark.parametrize("name", [n for n, c in COMMANDS.items() if not isinstance(c, click.Group)])
def test_every_command_shows_how_it_is_used(name: str) -> None:
    assert examples(COMMANDS[name])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as the examples expect it: where ``dpsql demo`` has run, with its policies."""
    directory = tmp_path_factory.mktemp("demo")
    database(directory / "demo-data")
    (directory / "policies.yaml").write_text((ROOT / "policies.yaml").read_text("utf-8"))
    (directory / "work.toml").write_text('[dpsql]\nanalyst = "ana"\n[profile.careful]\n')
    return directory


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_examples_do_what_they_say(
    name: str, example: str, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    text, command = ("", example) if "|" not in example else example.split("|")
    assert shlex.split(command)[0] == "dpsql"
    given = " ".join(shlex.split(text)[1:]) if text else None
    done = CliRunner().invoke(cli, shlex.split(command)[1:], input=given)
    assert done.exit_code == 0, done.output
    assert done.output


def test_the_overview_loads_neither_engine_nor_numpy_nor_rich() -> None:
    """``dpsql --help`` takes a tenth of a second because of this."""
    code = (
        "import sys, dpsql.cli\n"
        "dpsql.cli.cli(['--help'], standalone_mode=False)\n"
        "print([m for m in ('duckdb', 'numpy', 'rich', 'sqlglot', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
