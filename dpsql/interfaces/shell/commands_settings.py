"""Commands that change the shell: parameters, settings, and the destination of answers."""

from __future__ import annotations

import os
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from dpsql.core.kept_files import refuse_kept
from dpsql.core.quoting import quote_text
from dpsql.core.schema import fold
from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.command import Invocation, ShellCommand
from dpsql.interfaces.shell.settings import (
    SHELL_SETTINGS,
    Expanded,
    is_setting,
    percent_of,
    unknown_setting,
)
from dpsql.interfaces.shell.state import Shell
from dpsql.policy.parameters import PARAMETER_NAMES, PARAMETERS
from dpsql.present.tables import facts, titled


def _set(call: Invocation) -> None:
    shell = call.shell
    name, _, value = call.argument.replace("=", " ", 1).partition(" ")
    if not name:
        shell.screen.show(_all_settings(shell))
    elif not value.strip() and is_setting(name):
        shown = {setting: text for setting, text, _ in shell.settings.shown()}
        shell.screen.show(Text(f"{name.lower()} is {shown[name.lower()]}"))
    elif not value.strip() and fold(name) not in PARAMETER_NAMES:
        raise unknown_setting(name)
    elif not value.strip():
        found = shell.source.connection.sql("SHOW PARAMETERS")
        shell.screen.show(facts(found, only=fold(name)))
    elif is_setting(name):
        _change(shell, name, value)
    else:
        found = shell.source.connection.sql(f"SET {name} = {_written(name, value.strip())}")
        shell.screen.show(facts(found))


def _written(name: str, value: str) -> str:
    """Write a value as SET has it: periods of time are texts, in quotes or without."""
    spec = PARAMETERS.get(fold(name))
    text = spec is not None and spec.period and not value.startswith("'")
    return quote_text(value) if text else value


def _unset(call: Invocation) -> None:
    shell = call.shell
    if is_setting(call.argument):
        shell.settings = shell.settings.without(call.argument)
        return
    shell.screen.show(facts(shell.source.connection.sql(f"RESET {call.argument}")))


def _change(shell: Shell, name: str, value: str) -> None:
    shell.settings = shell.settings.with_text(name, value)
    shown = {setting: text for setting, text, _ in shell.settings.shown()}
    shell.screen.say(f"{name.lower()} is {shown[name.lower()]}")


def _all_settings(shell: Shell) -> RenderableType:
    table = titled("setting", "value", "meaning")
    for row in shell.settings.shown():
        table.add_row(*map(Text, row))
    parameters = facts(shell.source.connection.sql("SHOW PARAMETERS"))
    return Group(parameters, Text(), table)


def _timing(call: Invocation) -> None:
    _change(call.shell, "timing", call.argument or ("off" if call.shell.settings.timing else "on"))


def _expanded(call: Invocation) -> None:
    on = call.shell.settings.expanded is Expanded.ON
    _change(call.shell, "expanded", call.argument or ("auto" if on else "on"))


def _format(call: Invocation) -> None:
    if call.argument:
        _change(call.shell, "format", call.argument)
    else:
        call.shell.screen.show(Text(f"format is {call.shell.settings.format}"))


def _confirm(call: Invocation) -> None:
    if call.argument:
        _change(call.shell, "confirm", call.argument)
    else:
        share = percent_of(call.shell.settings.confirm)
        call.shell.screen.show(Text(f"confirm is {share}: {SHELL_SETTINGS['confirm'].meaning}"))


def _output(call: Invocation) -> None:
    if call.argument.startswith("|"):
        raise InterfaceError(
            "answers can be written to files, not to programs",
            code="file_not_writable",
            hint="Write \\o FILE, or pipe the shell: dpsql shell DB < queries.sql | program.",
        )
    if call.argument:
        refuse_kept(os.path.expanduser(call.argument), call.shell.source.files)
    call.shell.screen.redirect(call.argument)
    call.shell.screen.say(
        f"Answers go to {call.argument}." if call.argument else "Answers are shown here."
    )


ADJUSTMENTS: Final = (
    ShellCommand(
        ("set",),
        Argument.SETTING,
        "[NAME [VALUE]]",
        "privacy parameters and settings of the shell; without a value, show them",
        _set,
        "A privacy parameter holds until \\unset or the end of the session, within the policy's "
        "maxima; SET epsilon = 0.5; does the same. Settings of the shell:\n"
        + "\n".join(f"  {s.name:<10}  {s.meaning}" for s in SHELL_SETTINGS.values()),
    ),
    ShellCommand(("unset",), Argument.NAME, "NAME", "back to what it was at first", _unset),
    ShellCommand(
        ("confirm",),
        Argument.SHARE,
        "[SHARE|off]",
        "ask before a query that reserves more than this share of what is left (20%)",
        _confirm,
        "The question says what is reserved, what would be left, and for how many such queries. "
        "What is not paid in the end comes back. Files, pipes and -c are never asked.",
    ),
    ShellCommand(
        ("format",),
        Argument.FORMAT,
        "[FORMAT]",
        "how answers are written: table, vertical, csv, json, jsonl, markdown",
        _format,
        "\\set intervals on adds the ends of the intervals to CSV.",
    ),
    ShellCommand(
        ("x",),
        Argument.SWITCH,
        "[on|off|auto]",
        "one line for each value; auto does so where a table is too wide",
        _expanded,
    ),
    ShellCommand(("timing",), Argument.SWITCH, "[on|off]", "say how long statements take", _timing),
    ShellCommand(
        ("o",), Argument.FILE, "[FILE]", "answers to a file; without one, back to here", _output
    ),
)
