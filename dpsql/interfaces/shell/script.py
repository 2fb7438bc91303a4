r"""Runs pieces of text in order: typed, piped, given with -c, or read by ``\i``."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from dpsql.errors import Error, InterfaceError, InternalError, SQLSyntaxError
from dpsql.interfaces.shell import command as pages
from dpsql.interfaces.shell.cancel import Cancelled
from dpsql.interfaces.shell.candidates import Argument
from dpsql.interfaces.shell.command import Invocation, Leave, ShellCommand, command_named
from dpsql.interfaces.shell.commands_files import KEEPING, list_saved
from dpsql.interfaces.shell.commands_habits import HABITS
from dpsql.interfaces.shell.commands_inspect import INQUIRIES
from dpsql.interfaces.shell.commands_settings import ADJUSTMENTS
from dpsql.interfaces.shell.splitter import Piece, pieces
from dpsql.interfaces.shell.state import Shell

_MAX_FILES = 16  # files that include one another


class Outcome(Enum):
    """How a script ended."""

    DONE = "done"
    FAILED = "failed"
    FAULT = "fault"  # of dpsql itself
    CANCELLED = "cancelled"


def run_script(
    shell: Shell, lines: Iterable[str], source: str, *, keep_going: bool = False
) -> Outcome:
    """Run the pieces of a text in order, up to the first that fails unless told to keep going.

    Errors are shown with their place in ``source``. Ctrl-C always ends it. Raises ``Leave``.
    """
    outcome = Outcome.DONE
    for piece in pieces(lines):
        try:
            run_piece(shell, piece)
        except Error as error:
            if error.place is None or error.place.source == "query":
                within = None if piece.command else error.place
                error.place = piece.place(within, source)
            shell.screen.fail(error)
            fault = isinstance(error, InternalError) or outcome is Outcome.FAULT
            outcome = Outcome.FAULT if fault else Outcome.FAILED
            if not keep_going:
                break
        except Cancelled as cancelled:
            shell.screen.warn(f"Cancelled. {cancelled}")
            return Outcome.CANCELLED
    return outcome


def run_piece(shell: Shell, piece: Piece) -> None:
    """Run one piece. Raises ``Error``, whatever goes wrong, ``Cancelled`` or ``Leave``."""
    try:
        if piece.command:
            _run_command(shell, piece)
        else:
            shell.answer(piece.text)
    except (Error, Cancelled, Leave, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 (the last resort before the terminal)
        place = traceback.extract_tb(error.__traceback__)[-1]
        found = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        # Raised outside the handler: the text of an unforeseen error may quote rows.
        failure = InternalError(
            f"dpsql failed in a way nobody foresaw: {found}",
            code="unforeseen",
            hint="Its text is withheld because it may quote data. If a query had begun to read, "
            "what it reserved stays spent: see \\budget.",
        )
    else:
        return
    raise failure


def _run_command(shell: Shell, piece: Piece) -> None:
    name, _, argument = piece.text[1:].partition(" ")
    command = command_named(BY_NAME, name.rstrip(";"))
    if piece.typed and command.takes not in (Argument.SQL, Argument.NAMED_SQL):
        raise InterfaceError(
            f"a statement before \\{command.names[0]} is not finished",
            code="unfinished_statement",
            hint="End it with a semicolon. \\g, \\e, \\explain and \\save take it as it stands.",
        )
    command.run(Invocation(shell, argument.strip().removesuffix(";").rstrip(), piece.typed))


def _include(call: Invocation) -> None:
    _run_file(call, call.argument.strip("'\""))


def _run_saved(call: Invocation) -> None:
    if call.argument:
        _run_file(call, str(call.shell.saved.file(call.argument)))
    else:
        list_saved(call.shell)


def _run_file(call: Invocation, path: str) -> None:
    if call.shell.files == _MAX_FILES:
        raise InterfaceError(
            "files include one another too deeply",
            code="too_many_files",
            hint=f"At most {_MAX_FILES} may; does one include itself?",
        )
    lines = read_lines(path)
    call.shell.files += 1
    try:
        outcome = run_script(call.shell, lines, path)
    finally:
        call.shell.files -= 1
    if outcome is Outcome.CANCELLED:
        raise Cancelled(f"The rest of {path} was not run.")
    if outcome is not Outcome.DONE:
        raise InterfaceError(
            f"{path} was not run to its end",
            code="script_failed",
            hint="What came before the error was run, and is paid for.",
        )


def read_lines(path: str) -> list[str]:
    """Read the lines of a file. Raises ``InterfaceError`` or ``SQLSyntaxError``."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InterfaceError(
            f"{path or 'a file without a name'} cannot be read: {error.strerror}",
            code="file_unreadable",
        ) from None
    except UnicodeError:
        raise not_utf8(path) from None
    return text.splitlines(keepends=True)


def not_utf8(source: str) -> SQLSyntaxError:
    """Build the error for what is not UTF-8 text."""
    return SQLSyntaxError(
        f"{source} is not UTF-8 text", code="syntax_error", hint="Save it as UTF-8."
    )


def _leave(call: Invocation) -> None:
    raise Leave


def _help(call: Invocation) -> None:
    found = pages.topic(BY_NAME, call.argument) if call.argument else pages.overview(ALL)
    call.shell.screen.show(found, paged=call.shell.settings.pager)


ALL: Final = (
    *INQUIRIES,
    *HABITS,
    *ADJUSTMENTS,
    *KEEPING,
    ShellCommand(
        ("run", "n"),
        Argument.QUERY,
        "[NAME]",
        "run a saved query; without a name, list them",
        _run_saved,
    ),
    ShellCommand(
        ("i",),
        Argument.FILE,
        "FILE",
        "run the statements and commands of a file",
        _include,
        "It stops at the first error, and says on which line that is.",
    ),
    ShellCommand(
        ("?", "help", "h"), Argument.TOPIC, "[TOPIC]", "this page, or more on one topic", _help
    ),
    ShellCommand(("q", "quit", "exit"), Argument.NOTHING, "", "leave; so does Ctrl-D", _leave),
)
BY_NAME: Final[Mapping[str, ShellCommand]] = {
    name: command for command in ALL for name in command.names
}
