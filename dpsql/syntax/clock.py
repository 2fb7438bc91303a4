"""The clock as statements ask it: ``CURRENT_DATE``, ``now()`` and their synonyms, in UTC.

A statement has one moment, and all that it asks of the clock is of that moment: constants take the
place of the words. ``now() AT TIME ZONE 'Europe/Berlin'`` is that moment on a clock of Berlin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.syntax.text import NAMED, display, put

_UTC: Final = "UTC"
_DATES: Final = (exp.CurrentDate, exp.UtcDate)
_TIMES: Final = (exp.CurrentTime, exp.Localtime, exp.UtcTime)
_MOMENTS: Final = (
    *(exp.CurrentTimestamp, exp.CurrentDatetime, exp.Localtimestamp),
    *(exp.Systimestamp, exp.UtcTimestamp),
)
_CALLED: Final = {
    **dict.fromkeys(("now", "getdate", "getutcdate", "sysdate", "sysdatetime"), "TIMESTAMP"),
    **dict.fromkeys(("transaction_timestamp", "get_current_timestamp"), "TIMESTAMP"),
    "curdate": "DATE",
}
_ZONED: Final = (exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime)
"""Words that take a time zone in brackets, as in GoogleSQL."""


@dataclass(frozen=True, slots=True)
class FixedWord:
    """The constant that stands for a word, its type, and whether it is on a clock of UTC."""

    constant: exp.Expr
    type: str
    utc: bool


def clock_words(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of a statement that ask the clock."""
    return (node for node in tree.walk() if _type_of(node) and not isinstance(node.parent, exp.Dot))


def fix_word(word: exp.Expr, at: datetime) -> FixedWord | None:
    """Put the constant of a moment in the place of a word that asks the clock.

    A time zone around the word is replaced with it. Returns None for a form of which nothing is
    known, which stays as it is.
    """
    type_, zone, place = _type_of(word), _UTC, word
    said = None if isinstance(word, exp.Anonymous) else word.args.get("this")
    if said is not None:
        zone = _text(said) if isinstance(word, _ZONED) else ""
    elif word.expressions:
        return None
    outside = word
    while isinstance(outside.parent, exp.Paren):
        outside = outside.parent
    around = outside.parent
    if isinstance(around, exp.AtTimeZone) and type_ == "TIMESTAMP" and said is None:
        zone = _text(around.args["zone"]) if outside.arg_key == "this" else ""
        place = around
    there = _moment_in(zone, at)
    if there is None:
        return None
    written = {"DATE": there.date().isoformat(), "TIME": there.time().isoformat()}
    constant = exp.cast(exp.Literal.string(written.get(type_, there.isoformat(" "))), type_)
    constant.meta[NAMED] = display(place)
    constant.this.meta.update({k: v for k, v in word.meta.items() if k in ("start", "end")})
    put(place, constant)
    return FixedWord(constant, type_, zone == _UTC)


def _text(node: object) -> str:
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else ""


def _type_of(node: exp.Expr) -> str:
    """Return the type of what a node asks of the clock; empty if it asks something else."""
    for type_, nodes in (("DATE", _DATES), ("TIMESTAMP", _MOMENTS), ("TIME", _TIMES)):
        if isinstance(node, nodes):
            return type_
    return _CALLED.get(fold(node.name), "") if isinstance(node, exp.Anonymous) else ""


def _moment_in(zone: str, at: datetime) -> datetime | None:
    """Return the moment as clocks of a time zone have it; None if there is no such zone."""
    try:
        place = UTC if zone == _UTC else ZoneInfo(zone)
    except (KeyError, OSError, ValueError):
        return None
    return at.astimezone(place).replace(tzinfo=None)
