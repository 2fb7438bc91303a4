"""What answers to one question are worth, measured against the exact values of the whole table.

All figures are of one column of the question. Answers are dictionaries from groups to what is shown
there, exact values from groups to their value and number of rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LARGEST = 3
"""The groups whose coverage is counted apart: those with the most rows."""
NARROWER = 0.8
"""The part of their width at which intervals must hold less often: a control."""
SUMS_RESOLUTION, MEANS_RESOLUTION = 1e-4, 1e-2
"""The parts of a mean value up to which two errors are alike, of counts and sums, and of others."""

Group = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A released value and its 95% interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Exact:
    """The exact value of a group, None for NULL, and its number of rows."""

    value: float | None
    rows: int


Answer = Mapping[Group, Shown]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of some answers, as means over them. Those of no released value are None.

    ``covered`` is the share of released values whose interval holds the exact one, ``largest`` the
    same of the largest groups, ``narrower`` of all at a smaller width. ``width`` is half the width
    of an interval over the 95% quantile of errors: 1 is exactly as wide as needed. ``bias`` is the
    mean of error over half-width, with its sign. ``error`` is of one answer, ``missed`` of how many
    groups it had nothing, ``empty`` the share of answers without a group.
    """

    covered: float | None
    largest: float | None
    narrower: float | None
    width: float | None
    bias: float | None
    error: float
    missed: float
    empty: float


def figures(
    exact: Mapping[Group, Exact], answers: Sequence[Answer], *, adds: bool, top: int = 0
) -> Figures:
    """Measure answers. ``adds`` is True for counts and sums, of which nothing is 0.

    With ``top`` the largest groups by value were asked for, that many.
    """
    held: list[bool] = []
    held_largest: list[bool] = []
    held_narrower: list[bool] = []
    needed: list[float] = []
    signed: list[float] = []
    order = sorted(exact, key=lambda group: exact[group].rows, reverse=True)
    largest = set(order[:LARGEST])
    for answer in answers:
        for group, shown in answer.items():
            true = _value(exact, group, adds)
            if true is None or shown.low is None or shown.high is None:
                continue
            middle, half = (shown.low + shown.high) / 2, (shown.high - shown.low) / 2
            holds = shown.low <= true <= shown.high
            held.append(holds)
            if group in largest:
                held_largest.append(holds)
            held_narrower.append(abs(true - middle) <= NARROWER * half)
            if half > 0:
                needed.append(abs(shown.value - true) / half)
                signed.append((shown.value - true) / half)
    quantile = float(np.quantile(needed, 0.95)) if needed else 0.0
    wanted = _wanted(exact, top)
    return Figures(
        covered=_share(held),
        largest=_share(held_largest),
        narrower=_share(held_narrower),
        width=1 / quantile if quantile else None,
        bias=statistics.fmean(signed) if signed else None,
        error=statistics.fmean(error(exact, answer, adds=adds, top=top) for answer in answers),
        missed=statistics.fmean(len(wanted - set(answer)) for answer in answers),
        empty=statistics.fmean(not answer and bool(wanted) for answer in answers),
    )


def error(exact: Mapping[Group, Exact], answer: Answer, *, adds: bool, top: int = 0) -> float:
    """Return the mean absolute error of an answer over the groups that it should have.

    A group that is missing has the error of a 0. Of averages and medians groups weigh as many as
    their rows. Of the largest groups, those that are shown have their errors, and all that the
    exact largest ones have more than these is an error too.
    """
    wanted = _wanted(exact, top)
    off = {
        group: abs(shown.value - true)
        for group, shown in answer.items()
        if (true := _value(exact, group, adds)) is not None
    }
    if top:
        best = sum(exact[group].value or 0.0 for group in wanted)
        shown_mass = sum(_value(exact, group, adds) or 0.0 for group in off)
        return (sum(off.values()) + max(best - shown_mass, 0.0)) / len(wanted)
    off |= {group: abs(exact[group].value or 0.0) for group in wanted - set(off)}
    if adds:
        return sum(off.values()) / len(wanted)
    rows = {group: exact[group].rows for group in wanted}
    return sum(off[group] * rows[group] for group in wanted) / sum(rows.values())


def ratio(
    exact: Mapping[Group, Exact], found: float, best: float, *, adds: bool, top: int = 0
) -> float:
    """Return one error over the other; small parts of the values are no error."""
    values = [abs(exact[group].value or 0.0) for group in _wanted(exact, top)]
    least = (SUMS_RESOLUTION if adds else MEANS_RESOLUTION) * statistics.fmean(values)
    return (found + least) / (best + least)


def _wanted(exact: Mapping[Group, Exact], top: int) -> set[Group]:
    """Return the groups with a value, or the largest of them."""
    named = {group: one.value for group, one in exact.items() if one.value is not None}
    return set(sorted(named, key=named.__getitem__, reverse=True)[: top or None])


def _value(exact: Mapping[Group, Exact], group: Group, adds: bool) -> float | None:
    found = exact.get(group)
    if found is None or found.value is None:
        return 0.0 if adds else None
    return found.value


def _share(held: Sequence[bool]) -> float | None:
    return statistics.fmean(held) if held else None
