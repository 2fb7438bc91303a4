"""Every failure as a message and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from dpsql.errors import Error

SUCCESS, CLOSED_PIPE, FAILED, INTERNAL, INTERRUPTED = 0, 1, 2, 70, 130

EXIT_CODES: Final[Mapping[int, str]] = {
    SUCCESS: "Done. A query was paid for.",
    CLOSED_PIPE: "Whoever read the output stopped reading. A query was paid for all the same.",
    FAILED: "Something to mend, such as an option, a file, the SQL or an empty account. Nothing "
    "was spent, unless the message says that a query had begun to read.",
    INTERNAL: "A fault in dpsql itself. If a query had begun to read, what it reserved stays "
    "spent: see dpsql budget.",
    INTERRUPTED: "Stopped by Ctrl-C. If a query had begun to read, what it reserved stays spent.",
}
"""What each exit code means, for the caller and for the budget."""


_INTERRUPTED: Final = {
    True: "If the query had begun to read, what it reserved stays spent: see `dpsql budget`.",
    False: "No query was running.",
}


def guarded(ctx: click.Context, run: Callable[[], Any], pays: Callable[[str | None], bool]) -> Any:
    """Run a command; every failure becomes a message on stderr and an exit code.

    ``pays`` tells of a command's name whether Ctrl-C can find one of its queries at work.
    """
    try:
        return run()
    except Error as error:
        show_error(error)
        ctx.exit(FAILED)
    except KeyboardInterrupt:
        _interrupted(ctx, pays)
    except click.Abort:  # Ctrl-C or the end of input at a question
        click.echo("\nStopped. Nothing was written and nothing was spent.", err=True)
        ctx.exit(INTERRUPTED)
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 (the last resort before the terminal)
        if str(error) == "Query interrupted":  # DuckDB's own word for Ctrl-C
            _interrupted(ctx, pays)
        # The message of an unforeseen error may quote rows; places in the code cannot.
        frames = traceback.extract_tb(error.__traceback__)[-5:]
        places = [f"  {Path(f.filename).name}:{f.lineno} in {f.name}" for f in frames]
        click.echo(
            f"internal error: {type(error).__name__}. Its text is withheld because it may\n"
            "quote data. If the query had begun to read, what it reserved stays spent.\n"
            "To report it, say what you did and where it happened:\n" + "\n".join(places),
            err=True,
        )
        ctx.exit(INTERNAL)


def _interrupted(ctx: click.Context, pays: Callable[[str | None], bool]) -> NoReturn:
    click.echo(f"\nInterrupted. {_INTERRUPTED[pays(ctx.invoked_subcommand)]}", err=True)
    ctx.exit(INTERRUPTED)


def show_error(error: Error) -> None:
    """Print an error to stderr."""
    from dpsql import present as render

    render.print_error(render.error_console(sys.stderr), error)
