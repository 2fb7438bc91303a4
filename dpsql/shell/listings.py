"""Small tables of facts."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from dpsql.figures import cell
from dpsql.result import Result


def facts(result: Result, only: str = "") -> Table:
    """Facts as a table; nothing is written where there is nothing to say."""
    table = titled(*(name.replace("_", " ") for name in result.columns))
    for row in result:
        if only in ("", row[0]):
            table.add_row(*(Text("" if value is None else cell(value)) for value in row))
    return table


def titled(*titles: str, right: tuple[int, ...] = ()) -> Table:
    """A table without rows yet; ``right`` are the columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for index, title in enumerate(titles):
        table.add_column(
            Text(title), justify="right" if index in right else "left", overflow="fold"
        )
    return table


def pairs(rows: list[tuple[str, str]]) -> Table:
    """Names and what they are, in two columns."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, meaning in rows:
        grid.add_row(Text(name), Text(meaning))
    return grid
