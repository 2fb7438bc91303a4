"""Caveats: what the readers of an answer must know, whichever way its rows reach them.

``Result.warnings`` decides which an answer has; everything that passes on an answer passes on
these. They follow from the plan and from what was released, and are as public as the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dpsql.accuracy.left_out import LeftOutPart, left_out_words
from dpsql.accuracy.wording import enumerated, printable_name
from dpsql.core.formatting import figure_above
from dpsql.errors import AnswerWarning, StaleAnswerWarning
from dpsql.ir.query import UnboundedValue
from dpsql.kinds.summary import COUNTED

_MUCH: Final = 0.1  # of a total, left out for sure


class CaveatKind(StrEnum):
    """The kind of a caveat."""

    STALE = "stale"
    CLOCK = "clock"
    ANSWERED_FIRST = "answered_first"
    EMPTY = "empty"
    DROWNED = "drowned"
    LEFT_OUT = "left_out"
    GROUPS_MISSING = "groups_missing"
    BOUNDS_FOUND = "bounds_found"
    ERROR_MISSED = "error_missed"


@dataclass(frozen=True, slots=True)
class Caveat:
    """What limits the meaning of an answer, in a sentence.

    ``strong`` ones are Python warnings as well: who knows only the numbers misreads them.
    """

    kind: CaveatKind
    text: str
    strong: bool

    def python_warning(self) -> AnswerWarning:
        """Return the Python warning that says the same."""
        stale = self.kind is CaveatKind.STALE
        return (StaleAnswerWarning if stale else AnswerWarning)(self.text)


GROUPS_MISSING: Final = Caveat(CaveatKind.GROUPS_MISSING, COUNTED, strong=True)


def stale(text: str) -> Caveat:
    """Return the caveat of an answer that is older than the data."""
    return Caveat(CaveatKind.STALE, text, strong=True)


def clock_read(text: str) -> Caveat:
    """Return the caveat of an answer that depends on the time, with the time in words."""
    return Caveat(CaveatKind.CLOCK, f"In this answer {text}.", strong=False)


def answered_first(texts: Sequence[str]) -> Caveat:
    """Return the caveat of an answer in which released answers of subqueries stand."""
    text = (
        f"Answered first, with noise and a price of its own: {'; '.join(texts)}. The answer is for "
        "what was released of that, and its intervals are of its own noise."
    )
    return Caveat(CaveatKind.ANSWERED_FIRST, text, strong=False)


def of_some_groups(texts: Sequence[str]) -> Caveat:
    """Return the caveat of values of groups, which only rows of released groups have."""
    text = (
        f"Rows have a value of {'; '.join(texts)} if their group came out of it. Of groups too "
        "small to appear it is NULL, which no comparison holds for, and a count is 0."
    )
    return Caveat(CaveatKind.GROUPS_MISSING, text, strong=True)


def empty(advice: str, *, groups_came_out: bool) -> Caveat:
    """Return the caveat of an answer without rows, with the advice that there is on it."""
    why = "nothing that came out fits the query" if groups_came_out else "no group came out"
    return Caveat(CaveatKind.EMPTY, advice or f"The answer is empty: {why}.", strong=True)


def all_drowned(names: Sequence[str], advice: str) -> Caveat:
    """Return the caveat of columns of which noise alone is to be seen."""
    columns = enumerated([printable_name(name) for name in names])
    text = advice or f"No value of {columns} is larger than its noise."
    return Caveat(CaveatKind.DROWNED, text, strong=True)


def mostly_drowned(name: str, hidden: int, rows: int) -> Caveat:
    """Return the caveat of a column of which at least half is noise alone."""
    text = f"Beware: {hidden:,} of {rows:,} values of {printable_name(name)} are no larger than"
    return Caveat(CaveatKind.DROWNED, f"{text} their noise.", strong=False)


def bounds_found(value: UnboundedValue) -> Caveat:
    """Return the caveat of a value whose bounds were found.

    It is strong where they are as close as they can be: of few units no others can be found.
    """
    text = (
        f"{printable_name(value.text)} is clamped to {value.range}, found privately: intervals do "
        "not have what is beyond."
    )
    if value.closest:
        text = (
            f"Beware: {text} Of so few units, or at so small a price, no wider ones can be found."
        )
    give = "Bounds of your own: contribution_bounds_per_row => (lower, upper)."
    return Caveat(CaveatKind.BOUNDS_FOUND, f"{text} {give}", strong=value.closest)


def few_rows(names: Sequence[str], rows: int) -> Caveat:
    """Return the caveat of columns that are too small to tell how many ``rows`` should count."""
    columns = enumerated([printable_name(name) for name in names])
    are, their = ("is", "its interval does") if len(names) == 1 else ("are", "their intervals do")
    text = (
        f"Beware: {columns} {are} too small to tell how many rows a unit has: max_rows_contributed "
        f"is {rows:,}, and of so few units it is drawn even if they have far more. What units "
        f"have beyond it is missing, and {their} not say so. Units with few rows are best told by "
        "rows_per_unit in the policy, others by max_rows_contributed in the question."
    )
    return Caveat(CaveatKind.BOUNDS_FOUND, text, strong=True)


def error_missed(missed: str) -> Caveat:
    """Return the caveat of a maximum error that found bounds made too dear, ``missed`` in words."""
    text = (
        f"Beware: max_error takes more than can be spent with the bounds that were found: {missed}."
    )
    hint = "For less noise give closer bounds."
    return Caveat(CaveatKind.ERROR_MISSED, f"{text} {hint}", strong=True)


def error_before_choice(name: str, margin: float, asked: float) -> Caveat:
    """Return the caveat of a maximum error of a column whose rows were chosen by their noise."""
    text = (
        f"Beware: max_error is of the noise before rows were chosen by it. Of the rows that are "
        f"shown {printable_name(name)} is within ± {figure_above(margin)}, and not ± {asked:g}."
    )
    return Caveat(CaveatKind.ERROR_MISSED, text, strong=True)


def view_bounds(view: str, words: str, *, told: bool) -> Caveat:
    """Return the caveat of a view's bounds that nobody gave; ``words`` tell the bounds.

    It is strong where too few units had rows for others than these to be ``told``.
    """
    text = f"{printable_name(view)} {words}"
    if told:
        return Caveat(CaveatKind.BOUNDS_FOUND, f"{text}: found privately.", strong=False)
    why = "as too few had rows to find other bounds when it was created."
    return Caveat(CaveatKind.BOUNDS_FOUND, f"Beware: {text}, {why}", strong=True)


def left_out(found: LeftOutPart, beware: str) -> Caveat | None:
    """Return the caveat of a left-out part, None for a small one.

    ``beware`` says that it is more than intervals take in, if it is.
    """
    much = found.low is not None and found.low >= _MUCH
    if not (much or beware):
        return None
    text = " ".join(filter(None, (left_out_words(found), beware)))
    return Caveat(CaveatKind.LEFT_OUT, text, strong=much)
