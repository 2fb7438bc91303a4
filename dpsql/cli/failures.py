"""Every failure as a message and an exit code.

Exit codes: 0 for success, 2 for anything the user can mend (nothing was spent, unless the message
says otherwise), 70 for a fault in dpsql itself, 130 after Ctrl-C.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dpsql import render
from dpsql.errors import Error

FAILED, INTERNAL, INTERRUPTED = 2, 70, 130


class Commands(click.Group):
    """A command group that turns every failure into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Error as error:
            show_error(error)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            click.echo(
                "\nInterrupted. If the query had begun to read, what it reserved stays spent: "
                "see `dpsql budget`.",
                err=True,
            )
            ctx.exit(INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 (the last resort before the terminal)
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


def show_error(error: Error) -> None:
    """Print an error to stderr."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(render.error_panel(error))
