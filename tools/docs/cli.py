"""Writes docs/cli.md, the reference of the command line, from its commands: ``make pictures``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from dpsql.interfaces.cli.config import config_command
from dpsql.interfaces.cli.failures import EXIT_CODES
from dpsql.interfaces.cli.options import SettingOption
from dpsql.interfaces.cli.registry import SECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

SETTINGS_FILE = """\
[dpsql]
database = "clinic.duckdb"  # paths are relative to this file
policies = "policies.yaml"
ledger = "postgresql://dpsql@ledger.example/budget"
analyst = "ana"
confidence = 0.9

[profile.careful]  # with --profile careful, these go before those above
epsilon = 0.1
min_units_per_group = 20
"""

INTRODUCTION = """\
# The command line

`dpsql --help` lists all commands and `dpsql COMMAND --help` explains one. This page is written by
`tools/docs/cli.py` from the same source.

The examples are of the demo's data: `dpsql demo` puts them into `demo-data`, and they are asked
under the [policies.yaml](../policies.yaml) of this repository.

## Exit codes

| Code | Meaning |
| ---: | --- |
"""

SETTINGS = """
## Settings

A setting is an option that several commands share. It comes from the first of these that has it:
the option itself, its environment variable, the settings file, the default. `dpsql config` shows
each setting, its value and where it comes from.

| Option | Variable | Key in the file | Meaning |
| --- | --- | --- | --- |
"""

FILE = """
The settings file is the one that `dpsql --config FILE` or `DPSQL_CONFIG` names, else the
`dpsql.toml` in the working directory or the nearest directory above it, up to the home directory;
outside of the home directory, only the working directory is looked at.

```toml
{file}```

`dpsql --profile NAME` or `DPSQL_PROFILE` chooses a `[profile.NAME]`. Keys that dpsql does not know
and values of the wrong type are errors, with file and line.
"""


def page() -> str:
    """The reference, in Markdown."""
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    settings = "".join(
        f"| {_flags(option)} | `{option.envvar}` | `{option.key}` | {option.help} |\n"
        for option in config_command.params
        if isinstance(option, SettingOption)
    )
    commands = "".join(
        f"\n## {title}\n"
        + "".join(_command(entry.name, entry.load()) for entry in section if not entry.below)
        for title, section in SECTIONS.items()
    )
    return INTRODUCTION + codes + SETTINGS + settings + FILE.format(file=SETTINGS_FILE) + commands


def _command(name: str, command: click.Command) -> str:
    """The section of a command, and those of the commands below it."""
    inner = command.commands if isinstance(command, click.Group) else {}
    usage = " ".join(["dpsql", name, *command.collect_usage_pieces(click.Context(command))])
    parts = [f"\n### dpsql {name}\n", f"`{usage}`\n", *_paragraphs(command), *_examples(command)]
    if rows := [_row(option) for option in command.params if isinstance(option, click.Option)]:
        parts.append("| Option | Meaning | Default |\n| --- | --- | --- |\n" + "".join(rows))
    below = (_command(f"{name} {word}", found) for word, found in inner.items())
    return "\n".join(parts) + "".join(below)


def _paragraphs(command: click.Command) -> Iterator[str]:
    for paragraph in (command.help or "").replace("\b\n", "").split("\n\n"):
        yield _escaped(" ".join(paragraph.split())) + "\n"


def _examples(command: click.Command) -> Iterator[str]:
    """The examples of the help text, as a console block."""
    _, _, below = (command.epilog or "").partition("Examples:\n")
    lines = [line.removeprefix("  ") for line in below.partition("\n\n")[0].split("\n")]
    if below:
        shown = (line if line.startswith(" ") else f"$ {line}" for line in lines)
        yield "```console\n" + "\n".join(shown) + "\n```\n"


def _row(option: click.Option) -> str:
    meaning = _escaped(option.help or "")
    default = "required" if option.required else _default(option)
    return f"| {_flags(option)} | {meaning} | {default} |\n"


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is, in a table too; what is in backquotes stays so."""
    return re.sub(r"([\\<>|*])", r"\\\1", text)


def _flags(option: click.Option) -> str:
    """``--format``, ``-f``, and what stands behind them."""
    names = sorted(
        (*option.opts, *option.secondary_opts), key=lambda name: not name.startswith("--")
    )
    value = "" if option.is_flag else f" {_value(option)}"
    return ", ".join(f"`{name}`" for name in names) + value.replace("|", "\\|")


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice) and option.metavar is None:
        return " ".join(f"`{choice}`" for choice in option.type.choices)
    words = {click.STRING: "TEXT", click.INT: "INTEGER", click.FLOAT: "NUMBER"}
    return option.metavar or words.get(option.type, "PATH")


def _default(option: click.Option) -> str:
    shown = option.show_default and isinstance(option.default, str | int | float)
    return f"`{option.default}`" if shown and not option.is_flag else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
