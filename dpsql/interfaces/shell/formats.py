"""An answer in each of the formats the shell writes."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpsql import present as render
from dpsql.interfaces.shell.settings import Expanded, Format, ShellSettings
from dpsql.present.result import more, result_table, text_columns
from dpsql.present.result_files import encoded, explanation_json
from dpsql.results.explanation import Explanation
from dpsql.results.reading import ReadableAnswer

_FOR_PEOPLE = (Format.TABLE, Format.VERTICAL)
_WIDE = 10_000  # characters; more than any terminal has


def formatted(result: ReadableAnswer, settings: ShellSettings, width: int | None) -> RenderableType:
    """Format an answer as the settings ask: something to render, or text that is to stay as it is.

    ``width`` is that of the terminal, and None for files and pipes, where no table is too wide.
    """
    plan = result.explanation_shown
    if isinstance(plan, str) and settings.format is not Format.JSON:
        return Text(plan) if width is not None else plan + "\n"
    if isinstance(plan, Explanation):
        if settings.format is Format.JSON:
            return explanation_json(plan) + "\n"
        if width is None:
            return render.explanation_text(plan) + "\n"
        return render.explanation_panel(plan)
    if settings.format in _FOR_PEOPLE:
        return _for_people(result, settings, width)
    return encoded(result, settings.format, settings.confidence, settings.intervals).decode()


def vertical(result: ReadableAnswer, confidence: float, max_rows: int | None) -> Group:
    """Show a line for each value, under a line for each row."""
    columns, hidden = text_columns(result, confidence, max_rows)
    widest = max(len(column.title) for column in columns)
    parts: list[RenderableType] = []
    for row in range(len(result) - hidden):
        parts.append(Text(f"─[ {row + 1} ]{'─' * max(3, widest)}", style="dim"))
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="bold", no_wrap=True, min_width=widest)
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        for column in columns:
            value = Text(column.values[row], style="dim italic" if column.missing[row] else "")
            if column.intervals is not None and column.intervals[row]:
                value.append(f"  {column.intervals[row]}", style="dim not italic")
            grid.add_row(Text(column.title), "│", value)
        parts.append(grid)
    if hidden:
        parts.append(Text(more(hidden), style="dim"))
    return Group(*parts)


def _for_people(
    result: ReadableAnswer, settings: ShellSettings, width: int | None
) -> RenderableType:
    table = result_table(result, settings.confidence, settings.max_rows)
    always = settings.format is Format.VERTICAL or settings.expanded is Expanded.ON
    narrow = width is not None and _natural_width(table) > width
    if len(result) and (always or (narrow and settings.expanded is Expanded.AUTO)):
        table = vertical(result, settings.confidence, settings.max_rows)
    if not result.released:
        return table
    said = [Text(line) for line in result.summary(settings.confidence).splitlines()]
    return Group(table, Text(), *said, Text(result.footer, style="dim"))


def _natural_width(table: RenderableType) -> int:
    """Measure how wide a table is where there is room."""
    first = table.renderables[0] if isinstance(table, Group) else table
    console = Console(file=io.StringIO(), width=_WIDE)
    return Measurement.get(console, console.options, first).maximum
