"""Tables as all of them look: bold titles with a line below, and nothing around."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpsql.core.formatting import cell

if TYPE_CHECKING:
    from dpsql.results.result import Result

INDENT = 2


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


def indented(part: RenderableType, above: int = 0) -> Padding:
    """Move a part to the right, with so many empty lines above."""
    return Padding(part, (above, 0, 0, INDENT))


def facts(result: Result, only: str = "") -> Table:
    """Show facts as a table; nothing is written where there is nothing to say."""
    table = titled(*(name.replace("_", " ") for name in result.columns))
    for row in result:
        if only in ("", row[0]):
            table.add_row(*(Text("" if value is None else cell(value)) for value in row))
    return table
