"""What the command line says about itself is true: help texts, examples, exit codes, speed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from helpers.scripts import script

import dpsql
from dpsql.interfaces.cli import cli
from dpsql.interfaces.cli.config import load_settings
from dpsql.interfaces.cli.failures import EXIT_CODES
from dpsql.interfaces.cli.options import SettingOption
from dpsql.interfaces.cli.registry import SECTIONS, entries
from dpsql.interfaces.demo.data import demo_database

ROOT = Path(__file__).parents[2]


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


EXAMPLES = [example for command in COMMANDS.values() for example in examples(command)]
PARSED_ONLY = re.compile(
    r"dpsql (shell|mcp|user|serve|audit|demo --|budget (owner|verify .*--heads))|[<>]|https:"
)
"""Only parsed: they need a terminal, a client, a server, a file, time or what was done before."""


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
        shown_names = [line.strip().partition("  ")[0] for line in below.split("\n")]
        assert shown_names == [entry.name for entry in section]
        assert set(shown_names) <= set(COMMANDS)
    _, _, codes = shown.partition("Exit codes:\n")
    assert all(f"\n  {code} " in f"\n{codes}" for code in EXIT_CODES)


def test_slips_are_answered_with_what_was_meant() -> None:
    slip = CliRunner().invoke(cli, ["qurey", "SELECT 1"])
    assert slip.exit_code == 2
    assert "No such command: qurey. Did you mean `query`?" in slip.stderr
    late = CliRunner().invoke(cli, ["explain", "SELECT 1", "--profile", "careful"])
    assert late.exit_code == 2
    assert "--profile goes before the command: dpsql --profile" in late.stderr


def test_words_that_ask_for_help_are_the_same_everywhere() -> None:
    for name in COMMANDS:
        assert CliRunner().invoke(cli, [*name.split(), "-h"]).exit_code == 0


def test_a_setting_means_the_same_in_every_command() -> None:
    meanings: dict[str, set[str | None]] = {}
    for name, command in COMMANDS.items():
        for option in command.params:
            if isinstance(option, SettingOption) and (name, option.key) != ("shell", "database"):
                meanings.setdefault(option.key, set()).add(option.help)
    assert len(meanings) > 10
    assert {key: found for key, found in meanings.items() if len(found) > 1} == {}


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
    demo_database(directory / "demo-data")
    (directory / "policies.yaml").write_text((ROOT / "policies.yaml").read_text("utf-8"))
    (directory / "work.toml").write_text('[dpsql]\nanalyst = "ana"\n[profile.careful]\n')
    made = directory / "demo-data"  # with a ledger, whichever example comes first
    policies, ledger = directory / "policies.yaml", made / "demo.budget.db"
    dpsql.connect(made / "demo.duckdb", policies, ledger, "ana").close()
    return directory


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_do_what_they_say(
    example: str, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo)
    text, command = ("", example) if "|" not in example else example.split("|")
    program, *words = shlex.split(re.split(r" [<>]", command)[0])
    assert program == "dpsql"
    if PARSED_ONLY.search(command):
        parse(words)
        return
    given = " ".join(shlex.split(text)[1:]) if text else None
    done = CliRunner().invoke(cli, words, input=given)
    assert done.exit_code == 0, done.output
    assert done.output


def parse(words: list[str]) -> None:
    """Raises a click.UsageError unless the words are a command with options that it has."""
    ctx = cli.make_context("dpsql", words)
    while isinstance(ctx.command, click.Group):
        name, command, rest = ctx.command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert command is not None
        ctx = command.make_context(name, rest, parent=ctx)


def test_an_example_with_a_slip_would_be_found() -> None:
    with pytest.raises(click.UsageError):
        parse(shlex.split("budget owner forgets dpsql-demo/ana"))
    with pytest.raises(click.UsageError):
        parse(shlex.split("shell x.duckdb -a ana --formats csv"))


def test_the_reference_is_what_the_commands_say() -> None:
    """If this fails, run ``python tools/docs/cli.py``."""
    pages = script("tools/docs/cli.py")
    page = pages.PAGE.read_text(encoding="utf-8")
    assert page == pages.page()
    for name, command in COMMANDS.items():
        _, _, section = page.partition(f"\n### dpsql {name}\n")
        section = section.partition("\n### ")[0]
        for option in command.params:
            assert not isinstance(option, click.Option) or f"`{option.opts[0]}`" in section
        assert all(example.split()[-1] in section for example in examples(command))


def test_the_settings_file_of_the_reference_can_be_read(tmp_path: Path) -> None:
    text = script("tools/docs/cli.py").SETTINGS_FILE
    (tmp_path / "dpsql.toml").write_text(text, encoding="utf-8")
    found = load_settings(tmp_path / "dpsql.toml", "careful")
    assert found.values["epsilon"] == 0.1
    assert found.values["database"] == str(tmp_path / "clinic.duckdb")
    assert found.values["ledger"].startswith("postgresql://")


def test_the_overview_loads_neither_engine_nor_numpy_nor_rich() -> None:
    """``dpsql --help`` takes a tenth of a second because of this."""
    code = (
        "import sys, dpsql.interfaces.cli\n"
        "dpsql.interfaces.cli.cli(['--help'], standalone_mode=False)\n"
        "print([m for m in ('duckdb', 'numpy', 'rich', 'sqlglot', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
