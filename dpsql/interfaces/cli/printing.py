"""Printing of commands, with progress of work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

SILENT_SECONDS: Final = 1.0
"""Work that takes no longer shows no progress."""


def show(renderable: Any) -> None:
    """Print for people: coloured on a terminal, plain and never cut when piped."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console(highlight=False).print(renderable)
    else:
        from dpsql import present as render

        click.echo(render.uncoloured(renderable))


def remark(text: str, quiet: bool = False) -> None:
    """Tell people something beside the answer, on stderr."""
    if not quiet:
        click.echo(text, err=True)


@contextmanager
def progress_bar(
    quiet: bool = False, what: str = "Reading private rows"
) -> Iterator[Callable[[int], None]]:
    """Show on a terminal's stderr that ``what`` is being done, after a second of silence.

    A spinner and the time, and a bar for a set union, which tells percent: how many rows there are
    would be private. How fast the bar fills is not protected, as timing never is.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda percent: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=None, told="")
    delay = threading.Timer(SILENT_SECONDS, progress.start)
    delay.daemon = True
    delay.start()
    try:
        yield lambda n: progress.update(task, completed=n, total=100, told=f"{n}%")
    finally:
        delay.cancel()
        delay.join()
        if progress.live.is_started:
            progress.stop()
