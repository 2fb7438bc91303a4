"""Plots of answers: values with intervals, the threshold, and the cost.

Everything drawn is on the answer already. This module needs matplotlib, which the rest of dpsql
does not; it is imported when somebody asks for a plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dpsql.core.formatting import MISSING, cell, level, printable, significant
from dpsql.errors import ParameterError
from dpsql.present.plot_series import (
    BLUE,
    GREY,
    LABEL_WIDTH,
    RED,
    PlottedValues,
    are_numbers,
    are_times,
    draw_series,
    key_positions,
    label_categories,
    name_series,
    separate_thousands,
    set_key_ticks,
    two_keys,
)

if TYPE_CHECKING:
    from dpsql.results.reading import ReadableAnswer

MAX_CATEGORIES = 40
_CAPTION_WIDTH = 90
_PALE = (BLUE, 0.4)
_NULL = {"facecolor": "none", "edgecolor": GREY, "hatch": "//"}


def plot_result(
    result: ReadableAnswer,
    x: str | Sequence[str] | None,
    y: str | None,
    confidence: float,
    ax: Axes | None,
) -> Axes:
    """Draw an answer; see :meth:`dpsql.results.reading.ReadableAnswer.plot`."""
    if ax is not None and not isinstance(ax, Axes):
        raise ParameterError("ax must be a matplotlib Axes", code="not_axes")
    intervals = result.intervals(confidence)
    value = _value_column(result, y, list(intervals), [x] if isinstance(x, str) else x)
    keys = _key_columns(result, x, value, list(intervals))
    drawn = _values(result, value, confidence)
    columns = [_column(result, key) for key in keys]
    ax = _new_axes() if ax is None else ax
    series = two_keys(columns, chosen=x is not None)
    artists = None if series is None else draw_series(ax, series, drawn)
    note = _draw(ax, columns, drawn) if artists is None else ""
    _draw_threshold(ax, result, value)
    if series is not None and artists is not None:
        name_series(ax, series, printable(keys[1 - series.axis], 40), artists)
        keys = [keys[series.axis]]
    separate_thousands(ax)
    _describe(ax, keys, value, _caption(result, value in intervals, confidence, note))
    return ax


# -- which columns ----------------------------------------------------------------------------


def _value_column(
    result: ReadableAnswer, y: str | None, noisy: list[str], x: Sequence[str] | None
) -> str:
    """Choose the column to draw: the first noisy one, or the first number that is no key."""
    if y is not None:
        if not are_numbers(_column(result, _known(result, y, "y"))):
            raise ParameterError(
                f"the column {printable(y, 40)} does not hold numbers",
                code="column_not_numeric",
                hint="Choose another for y.",
            )
        return y
    others = [name for name in result.columns[1:] or result.columns if name not in (x or ())]
    found = noisy or [name for name in others if are_numbers(_column(result, name))]
    if not found:
        raise ParameterError(
            "the answer has no column of numbers to draw",
            code="nothing_to_draw",
            hint="Ask for a count, a sum or an average.",
        )
    return found[0]


def _key_columns(
    result: ReadableAnswer, x: str | Sequence[str] | None, value: str, noisy: list[str]
) -> list[str]:
    """Choose the columns that tell groups apart: those before the value without noise."""
    if x is not None:
        return [_known(result, name, "x") for name in ([x] if isinstance(x, str) else x)]
    plain = [name for name in result.columns if name != value and name not in noisy]
    position = result.columns.index(value)
    return [name for name in plain if name in result.columns[:position]] or plain


def _known(result: ReadableAnswer, name: str, role: str) -> str:
    if name not in result.columns:
        raise ParameterError(
            f"{role} names no column of the answer",
            code="column_not_in_answer",
            hint=f"Columns: {', '.join(printable(c, 40) for c in result.columns)}.",
        )
    return name


def _column(result: ReadableAnswer, name: str) -> list[Any]:
    position = result.columns.index(name)
    return [row[position] for row in result.fetchall()]


def _values(result: ReadableAnswer, name: str, confidence: float) -> PlottedValues:
    values = np.array([np.nan if v is None else float(v) for v in _column(result, name)])
    interval = result.intervals(confidence).get(name)
    if interval is None:
        return PlottedValues(name, values, None)
    reach = np.array([values - interval.low, interval.high - values])
    return PlottedValues(name, values, np.maximum(reach, 0.0))


# -- drawing ----------------------------------------------------------------------------------


def _new_axes() -> Axes:
    """Create a figure of pyplot's, which a notebook shows by itself."""
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(layout="constrained")
    return ax


def _draw(ax: Axes, keys: list[list[Any]], drawn: PlottedValues) -> str:
    """Draw the values, and return remarks on them."""
    if not len(drawn.values):
        ax.text(0.5, 0.5, "no groups were released", transform=ax.transAxes, ha="center")
        return ""
    positions = key_positions(keys[0]) if len(keys) == 1 else None
    if positions is not None:
        _draw_points(ax, keys[0], positions, drawn)
        return ""
    shown = min(len(drawn.values), MAX_CATEGORIES)
    _draw_bars(ax, keys, drawn.rows(np.arange(shown)))
    return f"first {shown} of {len(drawn.values):,} groups" if shown < len(drawn.values) else ""


def _draw_points(
    ax: Axes, keys: list[Any], positions: NDArray[np.float64], drawn: PlottedValues
) -> None:
    """Draw points on an axis of numbers or dates, those of dates along a line.

    NULL stands apart, behind the largest.
    """
    there = np.isfinite(positions)
    in_order = np.argsort(positions, kind="stable")[: there.sum()]  # NaN come last
    points = drawn.rows(in_order)
    ax.errorbar(
        positions[in_order],
        points.values,
        points.reach,
        fmt="o-" if are_times(keys) else "o",
        linewidth=1,
        color=BLUE,
        capsize=3,
    )
    set_key_ticks(ax, keys)
    if there.all():
        return
    low, high = positions[there].min(), positions[there].max()
    gap = (high - low) / 12 or 1.0
    apart = drawn.rows(np.flatnonzero(~there))
    where = np.full(len(apart.values), high + 2 * gap)
    ax.errorbar(
        where, apart.values, apart.reach, fmt="s", color=GREY, markerfacecolor="none", capsize=3
    )
    ax.axvline(high + gap, color=GREY, linewidth=0.8, linestyle=":")
    ax.annotate(
        MISSING,
        (high + 2 * gap, 0.02),
        xycoords=("data", "axes fraction"),
        ha="center",
        style="italic",
        color=GREY,
    )


def _draw_bars(ax: Axes, keys: list[list[Any]], drawn: PlottedValues) -> None:
    """Draw a bar for each row, in the order of the answer; those of NULL keys are hatched."""
    count = len(drawn.values)
    rows = list(zip(*keys, strict=True))[:count] if keys else [()] * count
    bars = ax.bar(
        np.arange(count), drawn.values, yerr=drawn.reach, color=_PALE, ecolor=BLUE, capsize=3
    )
    labels = [" · ".join(cell(value, LABEL_WIDTH) for value in row) for row in rows]
    label_categories(ax, labels)
    for bar, row, tick in zip(bars, rows, ax.get_xticklabels(), strict=True):
        if any(value is None for value in row):
            bar.set(**_NULL)
            tick.set_fontstyle("italic")


def _draw_threshold(ax: Axes, result: ReadableAnswer, value: str) -> None:
    """Draw the threshold of the noisy score, where the drawn column is the score."""
    line = result.thresholds().get(value)
    if line is None:
        return
    if line.base_rank is None:
        label, style = f"threshold: groups appear above {significant(line.value)}", "--"
    else:
        base = f"group {line.base_rank:,} by size"
        label, style = f"threshold: {significant(line.value)} above {base}", ":"
    ax.axhline(line.value, color=RED, linewidth=1.2, linestyle=style, label=label)
    ax.legend(frameon=False, fontsize="small")


def _caption(result: ReadableAnswer, noisy: bool, confidence: float, note: str) -> str:
    parts = [f"{level(confidence)} intervals"] if noisy else []
    parts += [result.footer] if result.released else []
    said = [fill(each.text, _CAPTION_WIDTH) for each in result.warnings if each.strong]
    return "\n".join([*said, " · ".join([*parts, note] if note else parts)])


def _describe(ax: Axes, keys: list[str], value: str, caption: str) -> None:
    """Write columns' names and the caption. A query's texts are no mathematics to matplotlib."""
    ax.set_xlabel(", ".join(printable(key, 40) for key in keys), parse_math=False)
    ax.set_ylabel(printable(value, 40), parse_math=False)
    ax.set_title(caption, loc="left", fontsize="small", color=GREY, parse_math=False)
