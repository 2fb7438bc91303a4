"""The values of a plot: numbers with their intervals, keys along an axis, and series.

Of two keys in one picture, the values of one lie along the axis, those of the other are series.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from dpsql.core.formatting import cell

LABEL_WIDTH = 24
BLUE, GREY, RED = "#3b82c4", "#777e87", "#d1495b"


@dataclass(frozen=True, slots=True)
class PlottedValues:
    """The values of a column, and how far below and above its intervals reach, if it has any."""

    name: str
    values: NDArray[np.float64]
    reach: NDArray[np.float64] | None

    def rows(self, chosen: NDArray[np.intp]) -> PlottedValues:
        """Return some of the rows."""
        reach = None if self.reach is None else self.reach[:, chosen]
        return PlottedValues(self.name, self.values[chosen], reach)


def are_numbers(values: Sequence[object]) -> bool:
    """Tell whether there are numbers and NULL alone."""
    return all(
        v is None or (isinstance(v, int | float | Decimal) and not isinstance(v, bool))
        for v in values
    )


def are_times(keys: Sequence[object]) -> bool:
    """Tell whether keys are dates or timestamps, or NULL, and not all of them NULL."""
    present = [key for key in keys if key is not None]
    return bool(present) and all(isinstance(key, date) for key in present)


def key_positions(keys: Sequence[Any]) -> NDArray[np.float64] | None:
    """Place keys on an axis of numbers or dates, NULL as NaN; None for anything else.

    Keys that are NaN or infinite have no place on an axis.
    """
    present = [key for key in keys if key is not None]
    if not present:
        return None
    if are_times(keys):
        places = [float(date2num(key)) for key in present]  # type: ignore[no-untyped-call]
    elif are_numbers(present):
        places = [float(key) for key in present]
    else:
        return None
    if not np.isfinite(places).all():
        return None
    positions = np.full(len(keys), np.nan)
    positions[[key is not None for key in keys]] = places
    return positions


def set_key_ticks(ax: Axes, keys: Sequence[object]) -> None:
    """Write the labels of an axis of keys: dates as dates, whole numbers as such."""
    if are_times(keys):
        places = AutoDateLocator()  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(places)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(places))  # type: ignore[no-untyped-call]
    elif all(isinstance(key, int) for key in keys if key is not None):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def separate_thousands(ax: Axes) -> None:
    """Write the labels of an axis of values with thousands separated."""
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


MAX_SERIES = 8
_MAX_PLACES = 40
# Told apart by people who do not see all colours, and by their markers in print (Okabe and Ito).
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b59f00", "#000000")
_MARKERS = "os^DvPX*"


@dataclass(frozen=True, slots=True)
class TwoKeys:
    """The key along the axis and the key of the series, by position, with their values.

    ``along`` and ``series`` have a value for each row.
    """

    axis: int
    along: tuple[Any, ...]
    series: tuple[Any, ...]

    @property
    def names(self) -> list[Any]:
        """The values that have a series each, in the order of the answer."""
        return list(dict.fromkeys(self.series))


def two_keys(keys: Sequence[Sequence[Any]], chosen: bool) -> TwoKeys | None:
    """Decide how two keys are drawn; None where there is no room for that, or nothing to compare.

    Times come before numbers and these before anything else along the axis, unless the order of the
    keys was ``chosen``.
    """
    if len(keys) != 2 or not all(isinstance(v, Hashable) for key in keys for v in key):
        return None
    order = [0, 1] if chosen else sorted([0, 1], key=lambda index: _rank(keys[index]))
    for axis in order[:1] if chosen else order:
        found = TwoKeys(axis, tuple(keys[axis]), tuple(keys[1 - axis]))
        rows = list(zip(found.along, found.series, strict=True))
        room = 2 <= len(found.names) <= MAX_SERIES and len(set(rows)) == len(rows)
        compared = len(set(found.along)) < len(rows)
        placed = key_positions(found.along) is not None and None not in found.along
        if room and compared and (placed or len(set(found.along)) <= _MAX_PLACES):
            return found
    return None


def _rank(keys: Sequence[Any]) -> int:
    if are_times(keys):
        return 0
    return 1 if key_positions(keys) is not None else 2


def draw_series(ax: Axes, keys: TwoKeys, drawn: PlottedValues) -> list[Artist]:
    """Draw lines over an axis of numbers or dates, or else groups of bars; one for each series."""
    positions = None if None in keys.along else key_positions(keys.along)
    return _bars(ax, keys, drawn) if positions is None else _lines(ax, keys, positions, drawn)


def name_series(ax: Axes, keys: TwoKeys, title: str, artists: Sequence[Artist]) -> None:
    """Write the legend: the series, and below them all other labels."""
    others, labels = ax.get_legend_handles_labels()
    # Names are written afterwards: matplotlib takes `_` and `$` in labels for its own.
    numbers = [str(n) for n in range(len(artists))]
    legend = ax.legend(
        [*artists, *others], numbers + labels, title="x", frameon=False, fontsize="small",
        alignment="left",
    )  # fmt: skip
    for text, name in zip(legend.get_texts(), keys.names, strict=False):
        _write(text, cell(name, LABEL_WIDTH))
        if name is None:
            text.set_fontstyle("italic")
    _write(legend.get_title(), title)


def _write(text: Any, words: str) -> None:
    text.set_parse_math(False)
    text.set_text(words)


def _colour(name: object, index: int) -> str:
    return GREY if name is None else _COLOURS[index]


def _lines(
    ax: Axes, keys: TwoKeys, positions: NDArray[np.float64], drawn: PlottedValues
) -> list[Artist]:
    artists: list[Artist] = []
    for index, name in enumerate(keys.names):
        mine = np.flatnonzero([each == name for each in keys.series])
        mine = mine[np.argsort(positions[mine], kind="stable")]
        points = drawn.rows(mine)
        container = ax.errorbar(
            positions[mine],
            points.values,
            points.reach,
            fmt=f"{_MARKERS[index]}-",
            color=_colour(name, index),
            markerfacecolor="none" if name is None else None,
            linewidth=1,
            capsize=3,
        )
        artists.append(container.lines[0])
    set_key_ticks(ax, keys.along)
    return artists


def _bars(ax: Axes, keys: TwoKeys, drawn: PlottedValues) -> list[Artist]:
    places = list(dict.fromkeys(keys.along))
    width = 0.8 / len(keys.names)
    artists: list[Artist] = []
    for index, name in enumerate(keys.names):
        mine = np.flatnonzero([each == name for each in keys.series])
        points = drawn.rows(mine)
        colour = _colour(name, index)
        where = [places.index(keys.along[row]) - 0.4 + (index + 0.5) * width for row in mine]
        bars = ax.bar(
            where, points.values, width, yerr=points.reach, color=(colour, 0.5), ecolor=colour,
            hatch="//" if name is None else None, capsize=min(3.0, 12 * width),
        )  # fmt: skip
        artists.append(bars[0])
    label_categories(ax, [cell(place, LABEL_WIDTH) for place in places])
    for place, tick in zip(places, ax.get_xticklabels(), strict=True):
        if place is None:
            tick.set_fontstyle("italic")
    return artists


def label_categories(ax: Axes, labels: Sequence[str]) -> None:
    """Write a label below each place of an axis of categories, steep where they are many."""
    count, longest = len(labels), max(map(len, labels))
    steep = 0 if count * longest <= 60 else 45 if count <= 20 else 90
    ax.set_xticks(
        np.arange(count),
        list(labels),
        rotation=steep,
        ha="right" if steep == 45 else "center",
        parse_math=False,
    )
    margin = 0.6 + max(0, 4 - count) / 2  # a few bars are not to fill the picture
    ax.set_xlim(-margin, count - 1 + margin)
