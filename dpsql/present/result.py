"""Presentation of answers: rows with intervals, sentences on their meaning, and the cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from dpsql.core.formatting import (
    MISSING,
    all_numbers,
    cell,
    common_decimals,
    fixed,
    level,
    printable,
    several,
)
from dpsql.present.explanation import explanation_panel
from dpsql.present.tables import bare, titled

if TYPE_CHECKING:
    from dpsql.accuracy.intervals import Interval
    from dpsql.results.reading import ReadableAnswer

MAX_ROWS = 50


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column as text. ``intervals`` is None where it is not an aggregate as released."""

    title: str
    justify: str
    values: Sequence[str]
    missing: Sequence[bool]
    intervals: Sequence[str] | None


def result_panel(
    result: ReadableAnswer, confidence: float = 0.95, max_rows: int | None = MAX_ROWS
) -> Group:
    """Show a result with its sentences, mechanism and cost.

    What EXPLAIN, SHOW and the like answer is shown by itself, as nothing was released for it.
    """
    plan = result.explanation_shown
    if plan is not None:
        return Group(Text(plan)) if isinstance(plan, str) else explanation_panel(plan)
    table = result_table(result, confidence, max_rows)
    if not result.released:
        said = [Text(caveat.text) for caveat in result.warnings]
        return Group(table, Text(), *said) if said else Group(table)
    return Group(table, Text(), result_footer(result, confidence))


def wide_panel(result: ReadableAnswer, columns: Sequence[tuple[str, Sequence[object]]]) -> Group:
    """Show an answer in the given columns, names and values."""
    right = [index for index, (_, values) in enumerate(columns) if all_numbers(values)]
    table = titled(*(printable(name) for name, _ in columns), right=right)
    for row in zip(*(values for _, values in columns), strict=True):
        table.add_row(*(Text(cell(value)) for value in row))
    warned = [Text(caveat.text) for caveat in result.warnings]
    return Group(table, Text(), *warned, Text(result.footer, style="dim"))


def result_table(
    result: ReadableAnswer, confidence: float = 0.95, max_rows: int | None = MAX_ROWS
) -> RenderableType:
    """Return the rows, each aggregate followed by its interval; ``max_rows`` None shows all."""
    columns, hidden = text_columns(result, confidence, max_rows)
    table = bare()
    for column in columns:
        right = column.justify == "right"
        table.add_column(Text(column.title), justify="right" if right else "left", overflow="fold")
        if column.intervals is not None:
            table.add_column(Text(level(confidence)), style="dim", no_wrap=True)
    for index in range(len(result) - hidden):
        table.add_row(*(text for column in columns for text in _texts(column, index)))
    if not len(result) and result.released:
        return Group(table, Text("no groups were released", style="italic dim"))
    return Group(table, Text(more(hidden), style="dim")) if hidden else table


def _texts(column: ResultColumn, index: int) -> list[Text]:
    value = Text(column.values[index], style="dim italic" if column.missing[index] else "")
    return [value] if column.intervals is None else [value, Text(column.intervals[index])]


def more(hidden: int) -> str:
    """Write the line below rows that were cut, saying how many."""
    return f"… {several(hidden, 'more row')}"


def text_columns(
    result: ReadableAnswer, confidence: float, max_rows: int | None
) -> tuple[list[ResultColumn], int]:
    """Return the columns as text, cut to ``max_rows``, and how many rows were cut."""
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


def _exact_column(name: str, type_: str, values: Sequence[object]) -> ResultColumn:
    total = type_ == "HUGEINT"  # a sum made by the tail, never a key such as a year
    return ResultColumn(
        title=printable(name),
        justify="right" if all_numbers(values) else "left",
        values=[f"{v:,}" if total and isinstance(v, int) else cell(v) for v in values],
        missing=[v is None for v in values],
        intervals=None,
    )


def _noisy_column(
    name: str, type_: str, values: Sequence[object], interval: Interval
) -> ResultColumn:
    count = len(values)
    lows, highs = interval.low[:count].tolist(), interval.high[:count].tolist()
    decimals = 0 if type_ == "BIGINT" else common_decimals(lows, highs)
    numbers = [math.nan if v is None else float(str(v)) for v in values]
    spans = [
        _span(value, low, high, decimals)
        for value, low, high in zip(numbers, lows, highs, strict=True)
    ]
    return ResultColumn(
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
    """Write ``± 54`` where the interval is centred on the value, else ``8.1 to 28.7``."""
    if math.isnan(low) or math.isnan(high):
        return ""
    if math.isclose(value - low, high - value, rel_tol=1e-6, abs_tol=1e-9):
        return f"± {fixed((high - low) / 2, decimals)}"
    return f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def result_footer(result: ReadableAnswer, confidence: float = 0.95) -> Text:
    """Return the sentences on a release, and its footer."""
    text = Text("".join(f"{line}\n" for line in result.summary(confidence).splitlines()))
    return text.append(result.footer, style="dim")
