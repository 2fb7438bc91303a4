r"""``\plot``: bars in text, with the interval of each value and the threshold of its groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from dpsql.core.formatting import level, printable, significant
from dpsql.errors import InterfaceError
from dpsql.present.result import more, text_columns
from dpsql.results.reading import ReadableAnswer

MAX_BARS = 100
_LEAST_BAR = 12
_BARS = ("cyan", "green", "blue", "red", "bright_cyan", "bright_green", "bright_blue", "bright_red")
_BELOW, _WHISKER, _THRESHOLD = "magenta", "bold", "yellow"


@dataclass(frozen=True, slots=True)
class SketchBar:
    """One row of a sketch. ``value`` is NaN for NULL; ``low`` and ``high`` may be NaN as well.

    ``series`` numbers what is to have a colour of its own.
    """

    keys: tuple[str, ...]
    text: str
    value: float
    low: float
    high: float
    series: int = 0

    @property
    def label(self) -> str:
        """The keys as one text."""
        return " · ".join(self.keys)

    @property
    def ends(self) -> list[float]:
        """The numbers that have to fit on the axis."""
        return [end for end in (self.value, self.low, self.high) if math.isfinite(end)]


@dataclass(frozen=True, slots=True)
class Axis:
    """Values on ``cells`` places of a line, 0 among them."""

    low: float
    high: float
    cells: int

    def place(self, value: float) -> int:
        """Find the cell of a value."""
        span = self.high - self.low
        share = 0.0 if span <= 0 else (value - self.low) / span
        return min(self.cells - 1, max(0, round(share * (self.cells - 1))))

    def holds(self, value: float) -> bool:
        """Tell whether a value is within the axis."""
        return self.low <= value <= self.high


def sketch_column(result: ReadableAnswer, column: str, confidence: float, width: int) -> Text:
    """Draw a column as bars over its keys; the first noisy one if ``column`` is empty.

    Raises ``InterfaceError`` (``nothing_to_plot``) for an answer without rows or numbers.
    """
    name = _column(result, column)
    threshold = result.thresholds().get(name)
    mark = math.nan if threshold is None else threshold.value
    lines = sketch(grouped(bars(result, name, confidence)), mark, width)
    title = Text(printable(name), style="bold")
    if name in result.intervals(confidence):
        title.append(f"  ├─┤ {level(confidence)} interval of the noise", style="not bold dim")
    if threshold is not None:
        least = "" if threshold.base_rank is None else " at least"
        title.append(f"  ┊ threshold{least} {significant(mark)}", style=f"not bold {_THRESHOLD}")
    if len(result) > MAX_BARS:
        lines.append(Text(more(len(result) - MAX_BARS), style="dim"))
    return Text("\n").join([title, *lines])


def bars(result: ReadableAnswer, name: str, confidence: float) -> list[SketchBar]:
    """Turn the rows of an answer into bars, labelled with the columns that have no noise."""
    columns, _ = text_columns(result, confidence, MAX_BARS)
    position, interval = result.columns.index(name), result.intervals(confidence).get(name)
    plotted = columns[position]
    keys = [c for c in columns if c.intervals is None and c is not plotted]
    found = []
    for row, values in enumerate(result.fetchall()[:MAX_BARS]):
        span = "" if plotted.intervals is None else f" {plotted.intervals[row]}"
        found.append(
            SketchBar(
                keys=tuple(key.values[row] for key in keys) or (plotted.title,),
                text=f"{plotted.values[row]}{span}".rstrip(),
                value=_number(values[position]),
                low=math.nan if interval is None else float(interval.low[row]),
                high=math.nan if interval is None else float(interval.high[row]),
            )
        )
    return found


def grouped(rows: list[SketchBar]) -> list[SketchBar]:
    """Put together the bars of a first key where a second makes a few series, in their order.

    The first key is then told once, and each series has a colour.
    """
    if not rows or any(len(row.keys) != 2 for row in rows):
        return rows
    firsts = list(dict.fromkeys(row.keys[0] for row in rows))
    series = list(dict.fromkeys(row.keys[1] for row in rows))
    if len(series) > len(_BARS) or len(firsts) in (1, len(rows)):
        return rows
    wide = max(map(cell_len, firsts))
    found: list[SketchBar] = []
    for first in firsts:
        told = first
        mine = (row for row in rows if row.keys[0] == first)
        for row in sorted(mine, key=lambda row: series.index(row.keys[1])):
            label = f"{set_cell_size(told, wide)}  {row.keys[1]}"
            found.append(replace(row, keys=(label,), series=series.index(row.keys[1])))
            told = ""
    return found


def sketch(rows: list[SketchBar], threshold: float, width: int) -> list[Text]:
    """Draw lines of up to ``width`` characters: label, bar with interval, value; then the axis."""
    text_width = max(cell_len(row.text) for row in rows)
    longest = max(cell_len(row.label) for row in rows)
    label_width = min(longest, max(8, (width - text_width) // 3))
    axis = _axis(rows, threshold, max(_LEAST_BAR, width - label_width - text_width - 4))
    lines = []
    for row in rows:
        line = Text(f"{_fitted(row.label, label_width)}  ")
        line.append_text(_drawn(row, threshold, axis)).append(f"  {row.text:>{text_width}}")
        line.truncate(width)
        lines.append(line)
    scale = Text(" " * (label_width + 2)).append(_scale(axis), style="dim")
    scale.truncate(width)
    return [*lines, scale]


def _axis(rows: list[SketchBar], threshold: float, cells: int) -> Axis:
    ends = [0.0, *(end for row in rows for end in row.ends)]
    if math.isfinite(threshold):
        ends.append(threshold)
    return Axis(min(ends), max(ends), cells)


def _drawn(row: SketchBar, threshold: float, axis: Axis) -> Text:
    """Draw the cells of one bar, from the axis' low end to its high end."""
    cells: list[tuple[str, str]] = [(" ", "")] * axis.cells
    zero = axis.place(0.0)
    if axis.low < 0:
        cells[zero] = ("│", "dim")
    if math.isfinite(row.value):
        end = axis.place(row.value)
        style = _BELOW if row.value < 0 else _BARS[row.series]
        for cell in range(min(zero, end), max(zero, end) + 1) if end != zero else ():
            cells[cell] = ("█", style)
    if math.isfinite(threshold) and axis.holds(threshold):
        cells[axis.place(threshold)] = ("┊", _THRESHOLD)
    if math.isfinite(row.low) and math.isfinite(row.high):
        low, high = axis.place(row.low), axis.place(row.high)
        for cell in range(low + 1, high):
            cells[cell] = ("─", _WHISKER)
        cells[low], cells[high] = ("├", _WHISKER), ("┤", _WHISKER)
        if math.isfinite(row.value) and low <= axis.place(row.value) <= high:
            cells[axis.place(row.value)] = ("┼", _WHISKER)
    return Text.assemble(*cells)


def _scale(axis: Axis) -> str:
    """Write the ends of the axis, and 0."""
    marks = {axis.place(axis.low): axis.low, axis.place(axis.high): axis.high, axis.place(0.0): 0.0}
    line = ""
    for place, value in sorted(marks.items()):
        text = significant(value, 3)
        start = min(place, axis.cells - len(text))
        if start >= len(line) + (1 if line else 0):
            line = f"{line:<{start}}{text}"
    return line


def _fitted(text: str, width: int) -> str:
    return set_cell_size(text if cell_len(text) <= width else f"{text[: width - 1]}…", width)


def _column(result: ReadableAnswer, wanted: str) -> str:
    """Choose the column to plot."""
    noisy = result.intervals()
    numeric = [
        name
        for position, name in enumerate(result.columns)
        if name in noisy or any(not math.isnan(_number(row[position])) for row in result)
    ]
    chosen = [name for name in numeric if name == wanted] if wanted else []
    if not wanted:
        chosen = [name for name in numeric if name in noisy] or numeric[-1:]
    if not chosen or not len(result):
        what = f"{wanted[:60]} is no column of numbers" if wanted else "there are no numbers"
        raise InterfaceError(
            f"{what} in the last answer",
            code="nothing_to_plot",
            hint=f"Columns: {', '.join(map(printable, numeric))}." if numeric else None,
        )
    return chosen[0]


def _number(value: object) -> float:
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return math.nan
    return float(value)
