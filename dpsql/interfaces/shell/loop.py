"""The shell of a person at a terminal: read, run, show, and begin again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import dpsql
from dpsql.core.formatting import printable, significant
from dpsql.errors import Error
from dpsql.interfaces.shell.cancel import Cancelled
from dpsql.interfaces.shell.candidates import Known
from dpsql.interfaces.shell.command import Leave
from dpsql.interfaces.shell.screen import writable
from dpsql.interfaces.shell.script import BY_NAME, run_piece
from dpsql.interfaces.shell.splitter import WORDS, pieces, word
from dpsql.interfaces.shell.state import Shell

if TYPE_CHECKING:
    from dpsql.interfaces.shell.editor import Editor

StyledText: TypeAlias = Sequence[tuple[str, str]]
"""Parts of a line, each with its style."""
_MUCH, _SOME = 0.5, 0.1  # shares of a budget that is left, by which it is coloured


def interact(shell: Shell, editor: Editor) -> None:
    r"""Run what is typed, until ``\q`` or Ctrl-D."""
    _greet(shell)
    while True:
        try:
            typed = editor.read(prompt(shell))
            run_typed(shell, typed)
        except KeyboardInterrupt:
            continue
        except (EOFError, Leave):
            return


def run_typed(shell: Shell, typed: str) -> None:
    """Run the text typed at one prompt, up to the first error. Raises ``Leave``."""
    typed = WORDS.get(word(typed), typed)
    for piece in pieces(typed.splitlines(keepends=True)):
        try:
            run_piece(shell, piece)
        except Error as error:
            if error.place is not None and error.place.source == "query" and not piece.command:
                error.place = piece.place(error.place, "query")
            shell.screen.fail(error)
            return
        except Cancelled as cancelled:
            shell.screen.warn(f"Cancelled. {cancelled}")
            return


def prompt(shell: Shell) -> StyledText:
    """Write the prompt ``ana ε 1.39 left>``: who pays, and how far the account's ε may rise."""
    target = shell.source.target
    payer = f"{target.analyst}/{target.session}" if target.session else target.analyst
    now, name = shell.balance(), printable(payer, 24)
    if now is None:
        return [("class:prompt", f"{name}> ")]
    epsilon = writable("ε", shell.screen.encoding)
    left = f"{epsilon} {significant(now.left, 3)} left"
    return [("class:prompt", f"{name} "), (f"class:{_colour(now.share)}", left), ("", "> ")]


def toolbar(shell: Shell) -> str:
    """Write what stands below the prompt: database, dataset, the last answer's cost and time."""
    source = shell.source
    parts = [
        source.target.name,
        f"dataset {source.policy.dataset}",
        shell.last,
        "\\? for help",
    ]
    text = " · ".join(printable(part) for part in parts if part)
    return writable(f" {text}", shell.screen.encoding)


def known(shell: Shell) -> Known:
    """Collect all names to complete."""
    commands = {f"\\{name}": command.takes for name, command in BY_NAME.items()}
    answer = () if shell.result is None else tuple(shell.result.columns)
    return Known(shell.catalog, commands, answer, shell.saved.names())


def _colour(share: float) -> str:
    return "much" if share > _MUCH else "some" if share > _SOME else "little"


def _greet(shell: Shell) -> None:
    now, left = shell.balance(), ""
    if now is not None:
        total = significant(now.budget.epsilon, 3)
        left = f" You have ε {significant(now.left, 3)} of {total} left."
    shell.screen.say(
        f"dpsql {dpsql.__version__} on {printable(shell.source.target.name)}.{left} "
        "\\? for help, \\q to leave."
    )
