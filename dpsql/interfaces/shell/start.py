"""Starting a shell: for a person at a terminal, or for a file, a pipe or ``--command``.

For a person it reads, runs, shows, and begins again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import dpsql
from dpsql.core.extras import install_hint
from dpsql.core.formatting import printable, significant
from dpsql.errors import Error, InterfaceError
from dpsql.interfaces.shell.cancel import Cancelled
from dpsql.interfaces.shell.candidates import Known
from dpsql.interfaces.shell.command import Leave
from dpsql.interfaces.shell.screen import Screen, writable
from dpsql.interfaces.shell.script import BY_NAME, Outcome, not_utf8, run_piece, run_script
from dpsql.interfaces.shell.settings import Completing, ShellSettings
from dpsql.interfaces.shell.source import Target
from dpsql.interfaces.shell.splitter import pieces
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
    now, name = shell.balance(), printable(shell.source.payer, 24)
    if now is None:
        return [("class:prompt", f"{name}> ")]
    epsilon = writable("ε", shell.screen.encoding)
    left = f"{epsilon} {significant(now.left, 3)} left"
    return [("class:prompt", f"{name} "), (f"class:{_colour(now.share)}", left), ("", "> ")]


def toolbar(shell: Shell) -> str:
    """Write the line below the prompt: database, dataset, the last answer's cost and time."""
    source = shell.source
    parts = [
        source.name,
        f"dataset {source.dataset}",
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
        total = significant(now.limit, 3)
        left = f" You have ε {significant(now.left, 3)} of {total} left."
    shell.screen.say(
        f"dpsql {dpsql.__version__} on {printable(shell.source.name)}.{left} "
        "\\? for help, \\q to leave."
    )


def start(
    target: Target,
    settings: ShellSettings,
    commands: Sequence[str] = (),
    *,
    keep_going: bool = False,
) -> Outcome:
    """Run a shell to its end: ``commands``, or standard input, or what a person types.

    Raises ``Error`` where nothing can be started.
    """
    interactive = not commands and sys.stdin.isatty() and sys.stdout.isatty()
    if interactive:
        _require_editor()
    else:
        settings = replace(settings, max_rows=None)  # nothing is cut for a program
    screen = Screen(sys.stdout, sys.stderr, interactive)
    with ExitStack() as stack:
        with screen.opening(target.name):
            source = stack.enter_context(target.opened(screen.progress))
        if source.news:
            screen.warn(source.news)
        shell = Shell(source, screen, settings)
        try:
            if interactive:
                _interact(shell)
                return Outcome.DONE
            return _run(shell, commands, keep_going)
        except Leave:
            return Outcome.DONE
        finally:
            screen.close()


def _interact(shell: Shell) -> None:
    from dpsql.interfaces.shell.editor import Editor

    editor = Editor(
        lambda: known(shell),
        lambda: toolbar(shell),
        lambda: shell.settings.complete is Completing.TYPING,
    )

    def ask(question: str) -> bool:
        shell.screen.say(question)
        return editor.agree()

    shell.ask, shell.edit = ask, editor.edit
    interact(shell, editor)


def _run(shell: Shell, commands: Sequence[str], keep_going: bool) -> Outcome:
    if not commands:
        return run_script(shell, _standard_input(), "standard input", keep_going=keep_going)
    worst = Outcome.DONE
    for command in commands:
        lines = command.splitlines(keepends=True)
        outcome = run_script(shell, lines, "--command", keep_going=keep_going)
        if outcome is Outcome.CANCELLED:
            return outcome
        worst = worst if outcome is Outcome.DONE or worst is Outcome.FAULT else outcome
        if worst is not Outcome.DONE and not keep_going:
            break
    return worst


def _standard_input() -> Iterator[str]:
    """Yield the lines of standard input, which are UTF-8 whatever the terminal writes."""
    lines: Iterable[bytes] = sys.stdin.buffer
    for number, line in enumerate(lines):
        try:
            yield line.decode("utf-8-sig" if number == 0 else "utf-8")
        except UnicodeError:
            raise not_utf8("standard input") from None


def _require_editor() -> None:
    if find_spec("prompt_toolkit") is None:
        raise InterfaceError(
            "prompt_toolkit is not installed, which the shell needs at a terminal",
            code="missing_package",
            hint=f"{install_hint('shell')}\nWithout it, pipe statements into the shell, or give "
            "them with --command.",
        )
