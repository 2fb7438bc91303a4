"""Presentation of answers, plans and budgets: rich renderables, plain text and HTML.

Everything that comes from data or from a catalog passes through :mod:`dpsql.core.formatting`, which
escapes what a terminal would obey, and reaches rich as text, never as markup.
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpsql.budget import BudgetReport
from dpsql.core.formatting import printable, printable_line
from dpsql.errors import Error
from dpsql.present.budget import budget_panel, headline
from dpsql.present.explanation import (
    ESTIMATE,
    PRIVATE_SQL,
    PUBLIC_TAIL,
    explanation_panel,
    sql_panel,
)
from dpsql.present.html import folded_html, sections_html, table_html
from dpsql.present.result import MAX_ROWS, result_footer, result_panel, result_table, wide_panel
from dpsql.present.tables import INDENT
from dpsql.present.tuning import tuning_panel
from dpsql.results.explanation import Explanation
from dpsql.results.reading import ReadableAnswer
from dpsql.results.tuning import Tuning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MAX_ROWS",
    "budget_panel",
    "budget_text",
    "coloured",
    "error_console",
    "error_panel",
    "explanation_panel",
    "explanation_text",
    "plain",
    "print_error",
    "result_footer",
    "result_html",
    "result_panel",
    "result_table",
    "result_text",
    "sql_panel",
    "tuning_panel",
    "value_html",
    "value_plot",
    "value_text",
    "wide_panel",
]

TEXT_WIDTH = 100
MAX_WIDTH = 400


# -- plain text and HTML ----------------------------------------------------------------------


def value_text(value: ReadableAnswer | Explanation | Tuning | BudgetReport) -> str:
    """Draw a result, an explanation, a tuning or a report as plain text."""
    match value:
        case ReadableAnswer():
            return result_text(value)
        case Explanation():
            return explanation_text(value)
        case Tuning():
            return uncoloured(tuning_panel(value))
    return budget_text(value)


def value_html(value: ReadableAnswer | Explanation | BudgetReport) -> str:
    """Draw a result, an explanation or a report as HTML."""
    match value:
        case ReadableAnswer():
            return result_html(value)
        case Explanation():
            return explanation_html(value)
    return folded_html(f"{value.analyst}: {headline(value)}", budget_text(value))


def value_plot(value: ReadableAnswer, *how: Any) -> Axes:
    """Draw a result with matplotlib."""
    from dpsql.present.plot import plot_result

    return plot_result(value, *how)


def result_text(result: ReadableAnswer) -> str:
    """Write a result as text: first rows, 95% intervals, what they say, mechanism, cost."""
    plan = result.explanation_shown
    if plan is not None:
        return plan if isinstance(plan, str) else explanation_text(plan)
    return uncoloured(result_panel(result))


def result_html(result: ReadableAnswer) -> str:
    """Return the same as a self-contained piece of HTML. All text is escaped."""
    plan = result.explanation_shown
    if plan is not None:
        return sections_html(plan, ()) if isinstance(plan, str) else explanation_html(plan)
    return table_html(result)


def explanation_text(explanation: Explanation) -> str:
    """Return a plan as plain text, on lines that fit a screen."""
    console = _console(color_system=None)
    panel = explanation_panel(explanation)
    # Statements are as long as they are, and are never cut.
    console.width = width_of(console, panel) if explanation.shows_sql else TEXT_WIDTH
    return _captured(console, panel)


def explanation_html(explanation: Explanation) -> str:
    """Return a plan as HTML: its figures, and generated SQL folded away."""
    text = explanation_text(replace(explanation, shows_sql=True))
    return sections_html(text, folded=(PRIVATE_SQL, ESTIMATE, PUBLIC_TAIL))


def budget_text(report: BudgetReport) -> str:
    """Return an account's budget as plain text, with bars."""
    return uncoloured(budget_panel(report))


def uncoloured(renderable: RenderableType) -> str:
    """Render anything as text without colour codes, as wide as its tables need."""
    console = _console(color_system=None)
    console.width = width_of(console, renderable)
    return _captured(console, renderable)


def _captured(console: Console, renderable: RenderableType) -> str:
    """Return what a console prints, without blanks at the ends of lines."""
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().split("\n"))


def coloured(renderable: RenderableType) -> str:
    """Render anything as text with a terminal's colour codes."""
    console = _console(color_system="standard", force_terminal=True)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get().rstrip("\n")


def _console(**options: Any) -> Console:
    """Open a console for texts. In a notebook it must not show anything itself, as rich would."""
    file = io.StringIO()
    return Console(file=file, width=TEXT_WIDTH, highlight=False, force_jupyter=False, **options)


def width_of(console: Console, renderable: RenderableType) -> int:
    """Return the width at which a renderable's tables lose no text, within reason."""
    # Where nothing has loaded the module of coloured SQL, nothing is coloured SQL.
    coloured_sql = getattr(sys.modules.get("rich.syntax"), "Syntax", None)
    kinds = (Table,) if coloured_sql is None else (Table, coloured_sql)
    options = console.options.update(width=MAX_WIDTH)
    rigid = [part for part in _parts(renderable) if isinstance(part, kinds)]
    widths = [Measurement.get(console, options, part).maximum + 2 * INDENT for part in rigid]
    return min(MAX_WIDTH, max([TEXT_WIDTH, *widths]))


def _parts(renderable: RenderableType) -> list[RenderableType]:
    if isinstance(renderable, Group):
        return [part for child in renderable.renderables for part in _parts(child)]
    if isinstance(renderable, Padding):
        return _parts(renderable.renderable)
    return [renderable]


# -- errors -----------------------------------------------------------------------------------


def error_console(file: TextIO) -> Console:
    """Open a stream for errors: no word is broken at a terminal, elsewhere lines have no end."""
    console = Console(file=file, highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


def print_error(console: Console, error: Error) -> None:
    """Print an error as its console writes lines."""
    if console.soft_wrap:
        console.print(error_panel(error))
    else:
        console.print(error_panel(error, console.width))


def error_panel(error: Error, width: int = 102) -> Text:
    """Draw an error: reason, place underlined, hint, code; the line of its place fits a width."""
    where = ""
    if error.place is not None:
        source = "" if error.place.source == "query" else f"{error.place.source}, "
        where = f" ({source}line {error.place.line}, column {error.place.column})"
    reason, hint = printable(error.reason), (error.hint or "").split("\n")
    text = Text.assemble(("error: ", "bold red"), (reason, "bold"), printable(where))
    if error.place is not None and error.place.excerpt:
        line, _, underline = error.place.pointer(width - 2).partition("\n")
        text.append(f"\n  {printable_line(line)}").append(f"\n  {underline}", style="bold red")
    if error.hint:
        text.append("\nhint: ", style="bold cyan").append("\n".join(map(printable, hint)))
    return text.append(f"\n[{error.code}]", style="dim")
