"""What commands print, and how work is seen to go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dpsql import render
from dpsql.release import Percent


def show(renderable: Any) -> None:
    """Print for people: coloured on a terminal, plain and never cut when piped."""
    if sys.stdout.isatty():
        Console(highlight=False).print(renderable)
    else:
        click.echo(render.plain(renderable))


@contextmanager
def progress_bar() -> Iterator[Percent]:
    """A bar on a terminal's stderr while a set union reads: percent and time, no number of rows.

    Such numbers are private. How fast the bar fills is not protected, as timing never is.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("Reading private rows"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=100)

    def tell(percent: int) -> None:
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=percent)

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()
