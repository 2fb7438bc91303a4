"""How answers, plans and budgets look: rich renderables, plain text and HTML made from them.

Everything that comes from data or from a catalog passes through :mod:`dpsql.figures`, which
escapes what a terminal would obey, and reaches rich as text, never as markup.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from dpsql.errors import Error
from dpsql.explain import Explanation
from dpsql.figures import (
    MISSING,
    cell,
    common_decimals,
    fixed,
    printable,
    printable_line,
    significant,
)
from dpsql.render_budget import budget_panel
from dpsql.render_plan import INDENT, explanation_panel, sql_panel

if TYPE_CHECKING:
    from dpsql.budget import BudgetReport
    from dpsql.intervals import Interval
    from dpsql.result import Result

__all__ = [
    "budget_panel",
    "budget_text",
    "error_panel",
    "explanation_panel",
    "explanation_text",
    "plain",
    "result_html",
    "result_panel",
    "result_table",
    "result_text",
    "sql_panel",
]

MAX_ROWS = 40
TEXT_WIDTH = 100
MAX_WIDTH = 400
CAVEAT = "Intervals cover the noise, not the effect of bounding contributions"


# -- plain text and HTML ----------------------------------------------------------------------


def result_text(result: Result) -> str:
    """A result as plain text: at most 40 rows, 95% intervals, mechanism and cost."""
    return plain(result_panel(result))


def explanation_text(explanation: Explanation) -> str:
    """A plan as plain text."""
    return plain(explanation_panel(explanation))


def budget_text(report: BudgetReport) -> str:
    """An account's budget as plain text, with bars."""
    return plain(budget_panel(report))


def plain(renderable: RenderableType) -> str:
    """Any renderable as text without colour codes, as wide as its tables need."""
    console = Console(file=io.StringIO(), width=TEXT_WIDTH, color_system=None, highlight=False)
    console.width = width_of(console, renderable)
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().rstrip().split("\n"))


def width_of(console: Console, renderable: RenderableType) -> int:
    """The width at which no table of a renderable loses text, within reason."""
    options = console.options.update(width=MAX_WIDTH)
    rigid = [part for part in _parts(renderable) if isinstance(part, Table | Syntax)]
    widths = [Measurement.get(console, options, part).maximum + 2 * INDENT for part in rigid]
    return min(MAX_WIDTH, max([TEXT_WIDTH, *widths]))


def _parts(renderable: RenderableType) -> list[RenderableType]:
    if isinstance(renderable, Group):
        return [part for child in renderable.renderables for part in _parts(child)]
    if isinstance(renderable, Padding):
        return _parts(renderable.renderable)
    return [renderable]


_STYLE = {
    "table": "border-collapse:collapse;font-variant-numeric:tabular-nums",
    "head": "text-align:{0};padding:2px 10px;border-bottom:1px solid #8888",
    "cell": "text-align:{0};padding:1px 10px",
    "dim": "opacity:.6",
    "foot": "opacity:.7;font-size:90%;margin-top:4px",
}


def result_html(result: Result) -> str:
    """A result as a self-contained HTML table for notebooks. All text is escaped."""
    if not result.released and result.plan.blocks:
        return f"<pre>{escape(explanation_text(result.plan))}</pre>"
    columns, hidden = _columns(result, 0.95, MAX_ROWS)
    head = "".join(
        f'<th style="{_STYLE["head"].format(c.justify)}">{escape(c.title)}</th>'
        + (
            f'<th style="{_STYLE["head"].format("left")};{_STYLE["dim"]}">95%</th>'
            * (c.intervals is not None)
        )
        for c in columns
    )
    rows = "".join(
        "<tr>" + "".join(_html_cell(column, index) for column in columns) + "</tr>"
        for index in range(len(result) - hidden)
    )
    more = f"<div>{_more(hidden)}</div>" if hidden else ""
    foot = "<br>".join(escape(line) for line in _footer_lines(result) if result.released)
    return (
        f'<div><table style="{_STYLE["table"]}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>{more}"
        f'<div style="{_STYLE["foot"]}">{foot}</div></div>'
    )


def _html_cell(column: _Column, index: int) -> str:
    value = escape(column.values[index])
    if column.missing[index]:
        value = f'<span style="{_STYLE["dim"]}">{value}</span>'
    shown = f'<td style="{_STYLE["cell"].format(column.justify)}">{value}</td>'
    if column.intervals is None:
        return shown
    interval = escape(column.intervals[index])
    return f'{shown}<td style="{_STYLE["cell"].format("left")};{_STYLE["dim"]}">{interval}</td>'


# -- results ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as text. ``intervals`` is None where it is not an aggregate as released."""

    title: str
    justify: str
    values: Sequence[str]
    missing: Sequence[bool]
    intervals: Sequence[str] | None


def result_panel(
    result: Result, confidence: float = 0.95, max_rows: int | None = MAX_ROWS
) -> Group:
    """A result with its footer: what answered it, what it cost, what the intervals cover.

    What EXPLAIN, SHOW and the like answer has no footer, as nothing was released for it.
    """
    if not result.released and result.plan.blocks:
        return explanation_panel(result.plan)
    table = result_table(result, confidence, max_rows)
    if not result.released:
        return Group(table)
    return Group(table, Text(), result_footer(result, confidence))


def result_table(
    result: Result, confidence: float = 0.95, max_rows: int | None = MAX_ROWS
) -> RenderableType:
    """The rows, each aggregate followed by its interval; ``max_rows`` None shows all."""
    columns, hidden = _columns(result, confidence, max_rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        right = column.justify == "right"
        table.add_column(Text(column.title), justify="right" if right else "left", overflow="fold")
        if column.intervals is not None:
            table.add_column(Text(_level(confidence)), style="dim", no_wrap=True)
    for index in range(len(result) - hidden):
        table.add_row(*(text for column in columns for text in _texts(column, index)))
    if not len(result) and result.released:
        return Group(table, Text("no groups were released", style="italic dim"))
    return Group(table, Text(_more(hidden), style="dim")) if hidden else table


def result_footer(result: Result, confidence: float = 0.95) -> Text:
    """Mechanism, cost and what the intervals mean."""
    return Text("\n".join(_footer_lines(result, confidence)), style="dim")


def _texts(column: _Column, index: int) -> list[Text]:
    value = Text(column.values[index], style="dim italic" if column.missing[index] else "")
    return [value] if column.intervals is None else [value, Text(column.intervals[index])]


def _level(confidence: float) -> str:
    return f"{100 * confidence:.6g}%"


def _more(hidden: int) -> str:
    return f"… {hidden:,} more row{'s' * (hidden != 1)}"


def _columns(result: Result, confidence: float, max_rows: int | None) -> tuple[list[_Column], int]:
    """The columns as text, cut to ``max_rows``, and how many rows were cut."""
    rows = result.fetchall()
    shown = rows if max_rows is None or len(rows) <= max_rows else rows[:max_rows]
    intervals = result.intervals(confidence)
    columns = []
    for position, (name, type_) in enumerate(zip(result.columns, result.types, strict=True)):
        values = [row[position] for row in shown]
        interval = intervals.get(name)
        if interval is None:
            columns.append(_exact_column(name, type_, values))
        else:
            columns.append(_noisy_column(name, type_, values, interval))
    return columns, len(rows) - len(shown)


def _exact_column(name: str, type_: str, values: Sequence[object]) -> _Column:
    present = [v for v in values if v is not None]
    numeric = bool(present) and all(
        isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in present
    )
    total = type_ == "HUGEINT"  # a sum made by the tail, never a key such as a year
    return _Column(
        title=printable(name),
        justify="right" if numeric else "left",
        values=[f"{v:,}" if total and isinstance(v, int) else cell(v) for v in values],
        missing=[v is None for v in values],
        intervals=None,
    )


def _noisy_column(name: str, type_: str, values: Sequence[object], interval: Interval) -> _Column:
    count = len(values)
    lows, highs = interval.low[:count].tolist(), interval.high[:count].tolist()
    decimals = 0 if type_ == "BIGINT" else common_decimals(lows, highs)
    numbers = [math.nan if v is None else float(str(v)) for v in values]
    spans = [
        _span(value, low, high, decimals)
        for value, low, high in zip(numbers, lows, highs, strict=True)
    ]
    return _Column(
        title=printable(name),
        justify="right",
        values=[
            MISSING if v is None else fixed(n, decimals)
            for v, n in zip(values, numbers, strict=True)
        ],
        missing=[v is None for v in values],
        intervals=spans,
    )


def _span(value: float, low: float, high: float, decimals: int) -> str:
    """``± 54`` where the interval is centred on the value, else ``8.1 to 28.7``."""
    if math.isnan(low) or math.isnan(high):
        return ""
    if math.isclose(value - low, high - value, rel_tol=1e-6, abs_tol=1e-9):
        return f"± {fixed((high - low) / 2, decimals)}"
    return f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def _footer_lines(result: Result, confidence: float = 0.95) -> list[str]:
    cost = result.cost
    mechanisms = list(dict.fromkeys(block.mechanism for block in result.plan.blocks))
    paid, reserved = significant(cost.settled_epsilon), significant(cost.reserved_epsilon)
    if cost.settled_epsilon < cost.reserved_epsilon:
        paid = f"{paid} of {reserved} reserved"
    delta = significant(cost.settled.delta + cost.conversion_delta)
    lines = [f"{' + '.join(mechanisms)} · paid ε {paid} at δ {delta}"]
    if cost.conversion_delta:
        lines[0] += f" · ρ {significant(cost.settled.rho)}, δ {significant(cost.settled.delta)}"
    if result.intervals(confidence):
        lines.append(f"{_level(confidence)} {CAVEAT[0].lower()}{CAVEAT[1:]}")
    return lines


# -- errors -----------------------------------------------------------------------------------


def error_panel(error: Error) -> Text:
    """An error: reason, place underlined, hint, code."""
    where = ""
    if error.place is not None:
        source = "" if error.place.source == "query" else f"{error.place.source}, "
        where = f" ({source}line {error.place.line}, column {error.place.column})"
    reason, hint = printable(error.reason), (error.hint or "").split("\n")
    text = Text.assemble(("error: ", "bold red"), (reason, "bold"), printable(where))
    if error.place is not None and error.place.excerpt:
        line, _, underline = error.place.pointer().partition("\n")
        text.append(f"\n  {printable_line(line)}").append(f"\n  {underline}", style="bold red")
    if error.hint:
        text.append("\nhint: ", style="bold cyan").append("\n".join(map(printable, hint)))
    return text.append(f"\n[{error.code}]", style="dim")
