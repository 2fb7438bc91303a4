r"""Backslash commands, and ``\help``: all on a page, each in detail, a few topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.state import Shell
from dpsql.policy.parameters import PARAMETER_NAMES, suggestion
from dpsql.present.tables import pairs


class Leave(Exception):
    r"""``\q`` was typed."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A typed command: the shell, the argument, and the text as typed."""

    shell: Shell
    argument: str
    typed: str


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command of the shell: names, the first one shown, argument, summary and action."""

    names: tuple[str, ...]
    takes: Argument
    usage: str
    summary: str
    run: Callable[[Invocation], None]
    details: str = ""

    @property
    def title(self) -> str:
        """The command as it is written, with its arguments."""
        return f"\\{self.names[0]} {self.usage}".rstrip()


def command_named(commands: Mapping[str, ShellCommand], name: str) -> ShellCommand:
    """Return the command of that name. Raises ``InterfaceError`` (``unknown_command``)."""
    command = commands.get(name)
    if command is None:
        near = suggestion(name, tuple(commands)) or "\\? lists all commands."
        raise InterfaceError(
            f"there is no command \\{printable(name, 40)}",
            code="unknown_command",
            hint=_OF_OTHER_SHELLS.get(name, near),
        )
    return command


_CONNECT: Final = (
    "A shell has one connection, which \\l tells of. Leave with \\q, and start dpsql shell DB."
)
_OF_OTHER_SHELLS: Final = {
    "c": _CONNECT,
    "connect": _CONNECT,
    "!": "The shell starts no programs but $EDITOR and the pager. Leave with \\q or suspend your "
    "terminal; \\copy FILE writes the last answer for other programs.",
    "watch": "Asked again, a question is given the same answer for nothing, and fresh noise would "
    "be paid for each time. A materialized view is paid for once, and published step by step: "
    "\\help views.",
}
"""What to do instead of commands that other shells have."""


KEYS_OF_PROMPT: Final = [
    ("Tab", "complete tables, columns, functions, keywords, parameters, commands, files"),
    ("Enter", "run what ends with ; or begin a new line"),
    ("Alt-Enter", "run it without a ;"),
    ("Up", "earlier statements"),
    ("Ctrl-R", "search them; Enter takes what is found, Ctrl-G leaves the search"),
    ("Right", "take the rest that is shown in grey"),
    ("Ctrl-X Ctrl-E", "edit the statement in $EDITOR; Enter then runs it"),
    ("Ctrl-C", "clear the line; cancel a query that runs, and say what that cost"),
    ("Ctrl-D", "leave"),
]
TOPICS: Final[Mapping[str, str]] = {
    "sql": """\
SELECT with GROUP BY or without, over the tables of \\dt: COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN,
QUANTILE_CONT, COUNT(DISTINCT …), SELECT DISTINCT, ORDER BY … LIMIT for the largest groups. Anything
may stand on top of it: HAVING, window functions, joins with public tables, CTEs.
Besides: EXPLAIN SELECT …, SET epsilon = 0.5, RESET epsilon, SHOW BUDGET, SHOW TABLES,
SHOW PARAMETERS, DESCRIBE table. Materialized views: \\help views.
For one query: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) …""",
    "views": """\
A materialized view is paid for once and published step by step, without further cost:
CREATE MATERIALIZED VIEW name WITH (step = '1 day', start = '2026-01-01', steps = 365) AS SELECT …
over one private table, with keys and aggregates. EXPLAIN in front of it shows price and noise.
REFRESH MATERIALIZED VIEW name [UNTIL TIMESTAMP '…'] publishes every step that has closed since;
SELECT … FROM name reads what is published, with the columns step and as_of; DROP MATERIALIZED VIEW
name ends it, and refunds nothing. SHOW MATERIALIZED VIEWS (\\dm) lists them, \\d name its columns.
Other options: window, continual, schedule (of a top-k), and privacy parameters such as epsilon.""",
    "privacy": f"""\
Every answer carries noise, and its interval covers that noise. Each query reserves its worst case
from your account before it reads, and pays what it took once the answer is known, which is never
more. ε in the prompt is what your account has left; \\budget tells the rest. Groups too small to
be named safely are missing. Looking at an answer again, plotting it and computing with it is free.
Privacy parameters, with SET or \\set: {", ".join(PARAMETER_NAMES)}.""",
}


def overview(commands: tuple[ShellCommand, ...]) -> RenderableType:
    """Show all commands, keys and topics."""
    return Group(
        Text("Statements end with ; and commands stand on a line of their own.\n"),
        pairs([(command.title, command.summary) for command in commands]),
        Text("\nKeys", style="bold"),
        pairs(KEYS_OF_PROMPT),
        Text(f"\n\\help TOPIC says more of a command, or of: {', '.join(TOPICS)}."),
    )


def topic(commands: Mapping[str, ShellCommand], name: str) -> RenderableType:
    """Show the help on a command or a topic. Raises ``InterfaceError``."""
    name = name.removeprefix("\\").lower()
    if name in TOPICS:
        return Text(TOPICS[name])
    command = commands.get(name)
    if command is None:
        raise InterfaceError(
            f"there is no help on {name[:40]}",
            code="unknown_topic",
            hint=suggestion(name, (*commands, *TOPICS)) or "\\? lists all commands and topics.",
        )
    parts = [Text(command.title, style="bold cyan"), Text(f"  {command.summary}.")]
    if command.details:
        parts.append(Text(command.details))
    return Group(*parts)
