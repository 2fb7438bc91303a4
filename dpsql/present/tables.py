"""The common style of tables: bold titles with a line below, and no frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpsql.core.formatting import cell

if TYPE_CHECKING:
    from dpsql.results.reading import ReadableAnswer

INDENT = 2
LONG_WORD = 24
_BETWEEN = 3  # characters between two columns


class ListedTable(Table):
    """A table that becomes a list of its rows, a line for each value, where it would break words.

    Texts without a blank, such as hashes, may be broken beyond ``LONG_WORD`` characters.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.row_count and self._least_width() > options.max_width:
            yield from map(self._listed, range(self.row_count))
        else:
            yield from super().__rich_console__(console, options)

    def _least_width(self) -> int:
        cells = [[_plain(c.header), *map(_plain, c.cells)] for c in self.columns]
        longest = [
            max(cell_len(word) for text in t for word in text.split() or [""]) for t in cells
        ]
        return sum(min(each, LONG_WORD) for each in longest) + _BETWEEN * (len(longest) - 1)

    def _listed(self, row: int) -> RenderableType:
        """Show a row: its first value as a heading, and a line for each other that is not empty."""
        first, *others = [[*column.cells][row] for column in self.columns]
        titles = [column.header for column in self.columns[1:]]
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        for title, value in zip(titles, others, strict=True):
            if _plain(value):
                grid.add_row(title, "│", value)
        return Group(Text(f"─[ {_plain(first)} ]───", style="dim", overflow="fold"), grid)


def _plain(cell_: RenderableType) -> str:
    return cell_.plain if isinstance(cell_, Text) else str(cell_)


def bare(*, footer: bool = False) -> Table:
    """Make a table without columns yet."""
    return Table(
        box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", show_footer=footer
    )


def titled(*titles: str, right: Collection[int] = ()) -> Table:
    """Make a table without rows yet, a list where it is too narrow; ``right`` are numbers."""
    table = ListedTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
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


def facts(result: ReadableAnswer, only: str = "") -> Table:
    """Show facts as a table; nothing is written where there is nothing to say."""
    table = titled(*(name.replace("_", " ") for name in result.columns))
    for row in result:
        if only in ("", row[0]):
            table.add_row(*(Text("" if value is None else cell(value)) for value in row))
    return table
