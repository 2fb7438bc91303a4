"""Starting a shell: for a person at a terminal, or for a file, a pipe or ``--command``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec

from dpsql.core.extras import install_hint
from dpsql.errors import InterfaceError
from dpsql.interfaces.shell.command import Leave
from dpsql.interfaces.shell.loop import interact, known, toolbar
from dpsql.interfaces.shell.screen import Screen
from dpsql.interfaces.shell.script import Outcome, not_utf8, run_script
from dpsql.interfaces.shell.settings import Completing, ShellSettings
from dpsql.interfaces.shell.state import Shell
from dpsql.interfaces.shell.target import Target, open_target
from dpsql.policy.ledger_place import announcement


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
            source = stack.enter_context(open_target(target, screen.progress))
        if source.connection.ledger_created:
            screen.warn(announcement(target.ledger))
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

    shell.ask = ask
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
