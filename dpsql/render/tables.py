"""Tables as all of them look: bold titles with a line below, and nothing around."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text


def bare(*, footer: bool = False) -> Table:
    """Make a table without columns yet."""
    return Table(
        box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", show_footer=footer
    )


def titled(*titles: str, right: Collection[int] = ()) -> Table:
    """Make a table without rows yet; ``right`` are the columns of numbers."""
    table = bare()
    for index, title in enumerate(titles):
        table.add_column(
            Text(title), justify="right" if index in right else "left", overflow="fold"
        )
    return table


def pairs(rows: Iterable[tuple[str, str]] = ()) -> Table:
    """List names and what they are, in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, meaning in rows:
        grid.add_row(Text(name), Text(meaning))
    return grid
