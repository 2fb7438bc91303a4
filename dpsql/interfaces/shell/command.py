"""What a backslash command is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.state import Shell
from dpsql.policy.parameters import suggestion


class Leave(Exception):
    r"""``\q`` was typed."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command as it was typed: on which shell, with what after it and what before it."""

    shell: Shell
    argument: str
    typed: str


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command: its names, the first of which is told, what it takes, what it does."""

    names: tuple[str, ...]
    takes: Argument
    usage: str
    summary: str
    run: Callable[[Invocation], None]
    details: str = ""

    @property
    def title(self) -> str:
        """How it is written."""
        return f"\\{self.names[0]} {self.usage}".rstrip()


def command_named(commands: Mapping[str, ShellCommand], name: str) -> ShellCommand:
    """The command of that name. Raises ``InterfaceError`` (``unknown_command``)."""
    command = commands.get(name)
    if command is None:
        raise InterfaceError(
            f"there is no command \\{printable(name, 40)}",
            code="unknown_command",
            hint=suggestion(name, tuple(commands)) or "\\? lists all commands.",
        )
    return command
