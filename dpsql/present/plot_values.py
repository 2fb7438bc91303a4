"""What a plot is made of: values with their intervals, and where keys lie on an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

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
