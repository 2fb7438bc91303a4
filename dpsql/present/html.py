"""An answer as HTML for notebooks: self-contained, escaped, on a light page and on a dark one.

Colours are those of the page it stands on; what stands back is translucent.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from dpsql.core.formatting import DEFAULT_CONFIDENCE, level
from dpsql.present.result import MAX_ROWS, ResultColumn, more, text_columns

if TYPE_CHECKING:
    from dpsql.results.reading import ReadableAnswer

_STYLE = {
    "table": "border-collapse:collapse;font-variant-numeric:tabular-nums",
    "head": "text-align:{0};padding:2px 10px;border-bottom:1px solid #8888",
    "cell": "text-align:{0};padding:1px 10px",
    "dim": "opacity:.6",
    "said": "margin-top:6px;max-width:60em",
    "pre": "margin:4px 0;overflow-x:auto;white-space:pre",
    "foot": "opacity:.7;font-size:90%;margin-top:4px",
}


def table_html(result: ReadableAnswer) -> str:
    """Return the first rows with intervals, what they say in plain words, mechanism and cost."""
    columns, hidden = text_columns(result, DEFAULT_CONFIDENCE, MAX_ROWS)
    head = "".join(map(_head, columns))
    rows = "".join(
        "<tr>" + "".join(_cell(column, index) for column in columns) + "</tr>"
        for index in range(len(result) - hidden)
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<div><table style="{_STYLE["table"]}">{table}</table>{_below(result, hidden)}</div>'


def sections_html(text: str, folded: Sequence[str]) -> str:
    """Lay out text with sections that fold away: the indented parts below these headings."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        fold_ends = _folds(parts[-1], folded) and bool(line) and not line.startswith(" ")
        if line.startswith(tuple(folded)) or fold_ends:
            parts.append([])
        parts[-1].append(line)
    return f"<div>{''.join(_section(part, folded) for part in parts if part)}</div>"


def _folds(lines: Sequence[str], folded: Sequence[str]) -> bool:
    return bool(lines) and lines[0].startswith(tuple(folded))


def _section(lines: Sequence[str], folded: Sequence[str]) -> str:
    if _folds(lines, folded):
        return folded_html(lines[0], "\n".join(lines[1:]).rstrip())
    return _preformatted("\n".join(lines).rstrip())


def folded_html(summary: str, text: str) -> str:
    """Write text folded away below a line that sums it up."""
    return f"<details><summary>{escape(summary)}</summary>{_preformatted(text)}</details>"


def _preformatted(text: str) -> str:
    return f'<pre style="{_STYLE["pre"]}">{escape(text)}</pre>'


def _below(result: ReadableAnswer, hidden: int) -> str:
    lines = [("dim", more(hidden))] if hidden else []
    if result.released:
        if not len(result):
            lines.append(("dim", "no groups were released"))
        lines += [("said", line) for line in result.summary(DEFAULT_CONFIDENCE).splitlines()]
        lines.append(("foot", result.footer))
    return "".join(f'<div style="{_STYLE[style]}">{escape(line)}</div>' for style, line in lines)


def _head(column: ResultColumn) -> str:
    title = f'<th style="{_STYLE["head"].format(column.justify)}">{escape(column.title)}</th>'
    if column.intervals is None:
        return title
    style = f"{_STYLE['head'].format('left')};{_STYLE['dim']}"
    return f'{title}<th style="{style}">{level(DEFAULT_CONFIDENCE)}</th>'


def _cell(column: ResultColumn, index: int) -> str:
    value = escape(column.values[index])
    if column.missing[index]:
        value = f'<span style="{_STYLE["dim"]};font-style:italic">{value}</span>'
    shown = f'<td style="{_STYLE["cell"].format(column.justify)}">{value}</td>'
    if column.intervals is None:
        return shown
    interval = escape(column.intervals[index])
    return f'{shown}<td style="{_STYLE["cell"].format("left")};{_STYLE["dim"]}">{interval}</td>'
