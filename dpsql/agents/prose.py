"""Checks the numbers of a text against released answers: which are ours, and how near the rest is.

It reads the text and answers that were given before, and no data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    Context,
    Decimal,
    localcontext,
)
from itertools import islice
from typing import Final

from dpsql.agents.replies import CheckedNumber
from dpsql.errors import ParameterError

_NUMBER: Final = re.compile(
    r"(?<![\w.])[-+−]?(?:\d{1,3}(?:[,   ]\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?"
    r"(?P<scale>\s?%|\s?(?:thousand|million|billion)\b|[kKMB]\b)?(?![\w])"
)
_SCALES: Final = {"k": 3, "thousand": 3, "m": 6, "million": 6, "b": 9, "billion": 9, "%": -2}
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
_ANY_NUMBER: Final = Context(Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Numbers that no decimal holds, such as 1e9999999999999999999, are infinite or NaN."""
MAX_PAIRS: Final = 1_000_000
"""How many numbers of a text, times how many released ones, are compared at most."""
_CHARACTERS: Final = 1000
"""Of a text, in which the names of a released number are searched as quickly as two compare."""
_VERDICTS: Final = ("released", "rounded", "interval_end", "within_interval")


@dataclass(frozen=True, slots=True)
class ReleasedNumber:
    """A number of an answer: a noisy value with the ends of its interval, or what stands beside.

    ``names`` are the texts of the row's keys, by which a sentence speaks of it.
    """

    column: str
    row: int
    value: Decimal
    low: Decimal | None
    high: Decimal | None
    names: tuple[str, ...]
    noisy: bool


@dataclass(frozen=True, slots=True)
class _WrittenNumber:
    """A number of a text, its place there, and the worth of its last digit."""

    text: str
    position: int
    value: Decimal
    step: Decimal


def checked_numbers(text: str, released: Iterable[ReleasedNumber]) -> Iterator[CheckedNumber]:
    """Give the verdict on each number of a text, in order.

    Of the released ones no more are taken than can be compared. Raises ``ParameterError`` for more
    than can be compared at once.
    """
    count = sum(1 for _ in _NUMBER.finditer(text))
    if count == 0:
        return
    most = MAX_PAIRS // (count + len(text) // _CHARACTERS)
    taken = list(islice(released, most + 1))
    if len(taken) > most:
        raise ParameterError(
            "the text and the answers have too many numbers to compare",
            code="bad_arguments",
            hint="Check a part of the text, or name fewer answers in release_ids.",
        )
    start = 0
    for end in [*(found.start() for found in _SENTENCE.finditer(text)), len(text)]:
        sentence = text[start:end]
        if _NUMBER.search(sentence) is not None:
            said = sentence.casefold()
            named = [one for one in taken if one.names and all(n in said for n in one.names)]
            for found in _NUMBER.finditer(sentence):
                with localcontext(_ANY_NUMBER):
                    verdict = _verdict(_read(found, start), taken, named)
                yield verdict
        start = end


def _verdict(
    found: _WrittenNumber, released: Sequence[ReleasedNumber], named: Sequence[ReleasedNumber]
) -> CheckedNumber:
    """Give the verdict on a number: of the row that is named, if there is one, else of any."""
    written, position = found.text, found.position
    for candidates in (named, () if named else released):
        ranked = [
            (verdict, one)
            for one in candidates
            if (verdict := _nearness(found, one, near=candidates is named)) is not None
        ]
        if ranked:
            verdict, one = min(ranked, key=lambda pair: pair[0])
            name = "key" if not one.noisy and verdict < 2 else _VERDICTS[verdict]
            return CheckedNumber(
                text=written, position=position, verdict=name, column=one.column, row=one.row
            )
    keys = (one for one in released if not one.noisy and _nearness(found, one, near=False) == 0)
    key = next(keys, None)
    if key is not None:
        return CheckedNumber(
            text=written, position=position, verdict="key", column=key.column, row=key.row
        )
    outside = next((one for one in named if one.noisy), None)
    return CheckedNumber(
        text=written,
        position=position,
        verdict="not_ours" if outside is None else "outside_interval",
        column=None if outside is None else outside.column,
        row=None if outside is None else outside.row,
    )


def _nearness(found: _WrittenNumber, one: ReleasedNumber, *, near: bool) -> int | None:
    """Rank how near a number is to a released one; None if it is not."""
    number = found.value
    if number == one.value:
        return 0
    if not one.noisy:
        return None
    if _rounds_to(one.value, found):
        return 1
    if one.low is None or one.high is None:
        return None
    if any(number == end or _rounds_to(end, found) for end in (one.low, one.high)):
        return 2
    return 3 if near and one.low <= number <= one.high else None


def _read(found: re.Match[str], start: int) -> _WrittenNumber:
    """Read a number of a sentence that begins at a place; zeros at its end are no digits."""
    scale = (found["scale"] or "").strip().casefold()
    digits = found[0][: len(found[0]) - len(found["scale"] or "")]
    digits = re.sub("[,   ]", "", digits).replace("−", "-")
    written = Decimal(digits)
    number, step = written.scaleb(_SCALES.get(scale, 0)), Decimal(1)
    if number.is_finite():
        last = (written if "." in digits else written.normalize()).as_tuple().exponent
        step = step.scaleb(int(last) + _SCALES.get(scale, 0))
    return _WrittenNumber(found[0].strip(), start + found.start(), number, step)


def _rounds_to(value: Decimal, found: _WrittenNumber) -> bool:
    """Tell whether a value is the number once rounded to its last digit, ties either way."""
    away, half = abs(value - found.value), found.step / 2
    if away != half:
        return away < half
    return abs(found.value) > abs(value) or found.value / found.step % 2 == 0
