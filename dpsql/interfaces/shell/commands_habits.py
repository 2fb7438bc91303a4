"""Commands that users of psql expect, to run and edit a statement, and to list functions.

Those that the shell does not have are refused in words of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.text import Text

from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.candidates import (
    AGGREGATES,
    FUNCTIONS_OF_ROWS,
    NOISE,
    WINDOW_FUNCTIONS,
    Argument,
)
from dpsql.interfaces.shell.command import Invocation, ShellCommand
from dpsql.present.tables import facts, pairs

_FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "aggregates": AGGREGATES,
    "of rows": FUNCTIONS_OF_ROWS,
    "of noise": NOISE,
    "windows": WINDOW_FUNCTIONS,
}


def _go(call: Invocation) -> None:
    text = call.argument or call.typed or call.shell.query
    if not text:
        raise InterfaceError(
            "there is no query to run",
            code="nothing_to_run",
            hint="Write one on the lines before \\g, or end it with a semicolon instead.",
        )
    call.shell.answer(text)


def _edit(call: Invocation) -> None:
    if call.shell.edit is None:
        raise InterfaceError(
            "there is nobody to edit a statement",
            code="unknown_command",
            hint="\\e opens $EDITOR at a terminal alone.",
        )
    call.shell.edit(call.argument or call.typed or call.shell.query)


def _functions(call: Invocation) -> None:
    wanted = call.argument.upper().strip("*%")
    found = {kind: [name for name in names if wanted in name] for kind, names in _FUNCTIONS.items()}
    shown = [(kind, ", ".join(names)) for kind, names in found.items() if names]
    call.shell.screen.show(
        pairs(shown) if shown else Text(f"No function has {wanted} in its name.")
    )


def _schemas(call: Invocation) -> None:
    call.shell.screen.show(facts(call.shell.source.connection.sql("SHOW SCHEMAS")))


HABITS: Final = (
    ShellCommand(
        ("g",),
        Argument.SQL,
        "[SELECT …]",
        "run it, or the statement before it, as a semicolon does, or the last query again",
        _go,
        "A question that was paid for is answered again for nothing.",
    ),
    ShellCommand(
        ("e", "edit"),
        Argument.SQL,
        "[SELECT …]",
        "edit it in $EDITOR, or the statement before it, or the last query; Enter then runs it",
        _edit,
    ),
    ShellCommand(
        ("df",),
        Argument.NAME,
        "[TEXT]",
        "functions of questions, or those with a text in their names",
        _functions,
        "Aggregates and functions of rows are for private rows, in conditions, keys and arguments; "
        "other functions of DuckDB may be used on top, over released values.",
    ),
    ShellCommand(("dn",), Argument.NOTHING, "", "the schemas", _schemas),
)
