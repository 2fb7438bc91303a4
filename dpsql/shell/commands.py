r"""The backslash commands, each with its help: ``\?`` lists them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dpsql import render
from dpsql.accounting import Amount
from dpsql.errors import InterfaceError
from dpsql.figures import cell, percent, printable, significant
from dpsql.ledger import Entry
from dpsql.output import explanation_json
from dpsql.output_budget import budget_json
from dpsql.policy import PARAMETER_NAMES, suggestion
from dpsql.record import read_record
from dpsql.result import Result
from dpsql.schema import fold
from dpsql.shell.completion import Argument
from dpsql.shell.settings import (
    SETTINGS,
    Expanded,
    Format,
    is_setting,
    percent_of,
    unknown_setting,
)
from dpsql.shell.sketch import plot
from dpsql.shell.state import Shell


class Leave(Exception):
    r"""``\q`` was typed."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command as it was typed: on which shell, with what after it and what before it."""

    shell: Shell
    argument: str
    typed: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its names, the first of which is told, what it takes, what it does."""

    names: tuple[str, ...]
    takes: Argument
    usage: str
    summary: str
    run: Callable[[Call], None]
    details: str = ""

    @property
    def title(self) -> str:
        """How it is written."""
        return f"\\{self.names[0]} {self.usage}".rstrip()


def find(commands: Mapping[str, Command], name: str) -> Command:
    """The command of that name. Raises ``InterfaceError`` (``unknown_command``)."""
    command = commands.get(name)
    if command is None:
        raise InterfaceError(
            f"there is no command \\{printable(name, 40)}",
            code="unknown_command",
            hint=suggestion(name, tuple(commands)) or "\\? lists all commands.",
        )
    return command


# -- about data, plans and budgets ------------------------------------------------------------


def _describe(call: Call) -> None:
    shell = call.shell
    if not call.argument:
        _tables(call)
        return
    found = shell.source.connection.sql(f"DESCRIBE {call.argument}")
    shell.screen.show(_listing(found), paged=shell.settings.pager)


def _tables(call: Call) -> None:
    call.shell.screen.show(_listing(call.shell.source.connection.sql("SHOW TABLES")))


def _listing(result: Result, only: str = "") -> Table:
    """Facts as a table; nothing is written where there is nothing to say."""
    table = _table(*(name.replace("_", " ") for name in result.columns))
    for row in result:
        if only in ("", row[0]):
            table.add_row(*(Text("" if value is None else cell(value)) for value in row))
    return table


def _table(*titles: str, right: tuple[int, ...] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for index, title in enumerate(titles):
        justify: RenderableType = Text(title)
        table.add_column(justify, justify="right" if index in right else "left", overflow="fold")
    return table


def _explain(call: Call) -> None:
    shell = call.shell
    text = call.argument or call.typed or shell.query
    if not text:
        raise InterfaceError(
            "there is no query to explain",
            code="nothing_to_explain",
            hint="Write \\explain SELECT …, or \\explain after a query.",
        )
    explanation = shell.run(lambda: shell.source.connection.explain(text))
    as_json = shell.settings.format is Format.JSON
    content = explanation_json(explanation) + "\n" if as_json else None
    shell.screen.show(content or render.explanation_panel(explanation), paged=shell.settings.pager)


def _budget(call: Call) -> None:
    report = call.shell.source.connection.budget()
    as_json = call.shell.settings.format is Format.JSON
    content = budget_json(report) + "\n" if as_json else None
    call.shell.screen.show(content or render.budget_panel(report))


def _history(call: Call) -> None:
    shell = call.shell
    limit = int(call.argument) if call.argument.isdecimal() and len(call.argument) < 10 else 20
    entries = shell.source.ledger.history(shell.source.payer.analyst, limit)
    if not entries:
        shell.screen.show(Text("Nothing was charged yet."))
        return
    most = shell.source.payer.limits[-1].limit
    table = _table("when", "paid", "budget", "asked", right=(2,))
    for entry in reversed(entries):
        table.add_row(*map(Text, _told(entry, most)))
    shell.screen.show(table, paged=shell.settings.pager)


def _told(entry: Entry, most: Amount) -> tuple[str, ...]:
    """A charge in words: when, how much, how much of the account's limit that is, what for."""
    asked = read_record(entry.plan)
    conversion = sum(block.conversion_delta for block in asked.blocks)
    statement = " ".join(asked.statement.split()) or asked.kind
    counted, reserved = entry.charged or entry.reserved, _epsilon(entry.reserved, conversion)
    paid = _epsilon(counted, conversion)
    if entry.charged is None:
        paid += ", held"
    elif paid != reserved:
        paid += f" of {reserved[2:]}"
    share = percent(counted.rho or counted.epsilon, most.rho or most.epsilon)
    return _local(entry.created), paid, share, printable(statement, 200)


def _local(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def _epsilon(amount: Amount, conversion: float) -> str:
    """What a charge was worth alone, or its rho where the ledger does not say at which delta."""
    loss = amount.loss
    if loss.rho and not conversion:
        return f"ρ {significant(loss.rho, 3)}"
    return f"ε {significant(loss.worth(conversion), 3)}"


def _plot(call: Call) -> None:
    shell = call.shell
    if shell.result is None:
        raise InterfaceError(
            "there is no answer to plot",
            code="nothing_to_plot",
            hint="Ask a query first; \\plot shows its last answer again, at no cost.",
        )
    width = shell.screen.width or 100
    drawn = plot(shell.result, call.argument, shell.settings.confidence, width)
    shell.screen.show(drawn, paged=shell.settings.pager)


# -- settings ---------------------------------------------------------------------------------


def _set(call: Call) -> None:
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
        shell.screen.show(_listing(found, only=fold(name)))
    elif is_setting(name):
        _change(shell, name, value)
    else:
        found = shell.source.connection.sql(f"SET {name} = {value.strip()}")
        shell.screen.show(_listing(found))


def _unset(call: Call) -> None:
    shell = call.shell
    if is_setting(call.argument):
        shell.settings = shell.settings.without(call.argument)
        return
    shell.screen.show(_listing(shell.source.connection.sql(f"RESET {call.argument}")))


def _change(shell: Shell, name: str, value: str) -> None:
    shell.settings = shell.settings.with_text(name, value)
    shown = {setting: text for setting, text, _ in shell.settings.shown()}
    shell.screen.say(f"{name.lower()} is {shown[name.lower()]}")


def _all_settings(shell: Shell) -> RenderableType:
    table = _table("setting", "value", "meaning")
    for row in shell.settings.shown():
        table.add_row(*map(Text, row))
    parameters = _listing(shell.source.connection.sql("SHOW PARAMETERS"))
    return Group(parameters, Text(), table)


def _timing(call: Call) -> None:
    _change(call.shell, "timing", call.argument or _other(call.shell.settings.timing))


def _other(switch: bool) -> str:
    return "off" if switch else "on"


def _expanded(call: Call) -> None:
    on = call.shell.settings.expanded is Expanded.ON
    _change(call.shell, "expanded", call.argument or ("auto" if on else "on"))


def _format(call: Call) -> None:
    if call.argument:
        _change(call.shell, "format", call.argument)
    else:
        call.shell.screen.show(Text(f"format is {call.shell.settings.format}"))


def _confirm(call: Call) -> None:
    if call.argument:
        _change(call.shell, "confirm", call.argument)
    else:
        share = percent_of(call.shell.settings.confirm)
        call.shell.screen.show(Text(f"confirm is {share}: {SETTINGS['confirm'].meaning}"))


# -- the shell itself -------------------------------------------------------------------------


def _output(call: Call) -> None:
    if call.argument.startswith("|"):
        raise InterfaceError(
            "answers can be written to files, not to programs",
            code="file_not_writable",
            hint="Write \\o FILE, or pipe the shell: dpsql shell DB < queries.sql | program.",
        )
    call.shell.screen.redirect(call.argument)
    call.shell.screen.say(
        f"Answers go to {call.argument}." if call.argument else "Answers are shown here."
    )


def _leave(call: Call) -> None:
    raise Leave


COMMANDS: Final = (
    Command(
        ("d",),
        Argument.TABLE,
        "[TABLE]",
        "columns of a table, and what the policy says of each; without one, the tables",
        _describe,
        "Bounds and domains are what the policy declares, never what the data hold.",
    ),
    Command(("dt",), Argument.NOTHING, "", "the tables, and whom each protects", _tables),
    Command(
        ("explain",),
        Argument.SQL,
        "[SELECT …]",
        "how a query would be answered and what it would cost, at no cost",
        _explain,
        "Without a query it explains the one that is being typed, when it stands on the line "
        "below, or else the last one. Nothing is read and nothing is spent.",
    ),
    Command(("budget",), Argument.NOTHING, "", "what is spent and what is left", _budget),
    Command(
        ("history",),
        Argument.NUMBER,
        "[N]",
        "the last charges (20): when, what was asked, what was paid",
        _history,
        "They come from the ledger, so those of other programs on the same account are among "
        "them. What a query reserved and did not pay comes after `of`; the reservation of one that "
        "runs, failed or was cancelled is held.",
    ),
    Command(
        ("plot",),
        Argument.COLUMN,
        "[COLUMN]",
        "the last answer as bars, with intervals and threshold; free",
        _plot,
        "Plots the first column with noise, or the one named. Bars are labelled with the columns "
        "that have none.",
    ),
    Command(
        ("set",),
        Argument.SETTING,
        "[NAME [VALUE]]",
        "privacy parameters and settings of the shell; without a value, show them",
        _set,
        "A privacy parameter holds until \\unset or the end of the session, within the policy's "
        "maxima; SET epsilon = 0.5; does the same. Settings of the shell:\n"
        + "\n".join(f"  {s.name:<10}  {s.meaning}" for s in SETTINGS.values()),
    ),
    Command(("unset",), Argument.NAME, "NAME", "back to what it was at first", _unset),
    Command(
        ("confirm",),
        Argument.SHARE,
        "[SHARE|off]",
        "ask before a query that reserves more than this share of what is left (20%)",
        _confirm,
        "The question says what is reserved, what would be left, and for how many such queries. "
        "What is not paid in the end comes back. Files, pipes and -c are never asked.",
    ),
    Command(
        ("format",),
        Argument.FORMAT,
        "[FORMAT]",
        "how answers are written: table, vertical, csv, json, jsonl, markdown",
        _format,
        "\\set intervals on adds the ends of the intervals to CSV.",
    ),
    Command(
        ("x",),
        Argument.SWITCH,
        "[on|off|auto]",
        "one line for each value; auto does so where a table is too wide",
        _expanded,
    ),
    Command(("timing",), Argument.SWITCH, "[on|off]", "say how long statements take", _timing),
    Command(
        ("o",), Argument.FILE, "[FILE]", "answers to a file; without one, back to here", _output
    ),
)
LEAVE: Final = Command(("q", "quit", "exit"), Argument.NOTHING, "", "leave; so does Ctrl-D", _leave)


def listed(rows: list[tuple[str, str]]) -> Table:
    """Names and what they are, in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, meaning in rows:
        grid.add_row(Text(name), Text(meaning))
    return grid
