"""Checks the numbers of a text against released answers: which are ours, and how near the rest is.

It reads the text and answers that were given before, and no data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    localcontext,
)
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


def checked_numbers(text: str, released: Sequence[ReleasedNumber]) -> Iterator[CheckedNumber]:
    """Give the verdict on each number of a text, in order.

    Raises ``ParameterError`` for more than can be compared at once.
    """
    if sum(1 for _ in _NUMBER.finditer(text)) * len(released) > MAX_PAIRS:
        raise ParameterError(
            "the text and the answers have too many numbers to compare",
            code="bad_arguments",
            hint="Check a part of the text, or name fewer answers in release_ids.",
        )
    start = 0
    for end in [*(found.start() for found in _SENTENCE.finditer(text)), len(text)]:
        sentence = text[start:end]
        said = sentence.casefold()
        named = [one for one in released if one.names and all(n in said for n in one.names)]
        for found in _NUMBER.finditer(sentence):
            with localcontext(_ANY_NUMBER):
                verdict = _verdict(found, start, released, named)
            yield verdict
        start = end


def _verdict(
    found: re.Match[str],
    start: int,
    released: Sequence[ReleasedNumber],
    named: Sequence[ReleasedNumber],
) -> CheckedNumber:
    """Give the verdict on a number: of the row that is named, if there is one, else of any."""
    written, position = found[0].strip(), start + found.start()
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


def _nearness(found: re.Match[str], one: ReleasedNumber, *, near: bool) -> int | None:
    """Rank how near a number is to a released one; None if it is not."""
    number, step = _read(found)
    if number == one.value:
        return 0
    if not one.noisy:
        return None
    if _rounds_to(one.value, number, step):
        return 1
    if one.low is None or one.high is None:
        return None
    if any(number == end or _rounds_to(end, number, step) for end in (one.low, one.high)):
        return 2
    return 3 if near and one.low <= number <= one.high else None


def _read(found: re.Match[str]) -> tuple[Decimal, Decimal]:
    """Read a number and the worth of its last written digit, zeros at the end not counted."""
    scale = (found["scale"] or "").strip().casefold()
    digits = found[0][: len(found[0]) - len(found["scale"] or "")]
    digits = re.sub("[,   ]", "", digits).replace("−", "-")
    written = Decimal(digits)
    number = written.scaleb(_SCALES.get(scale, 0))
    if not number.is_finite():
        return number, Decimal(1)
    last = (written if "." in digits else written.normalize()).as_tuple().exponent
    return number, Decimal(1).scaleb(int(last) + _SCALES.get(scale, 0))


def _rounds_to(value: Decimal, number: Decimal, step: Decimal) -> bool:
    """Tell whether a value is a number once rounded to a step."""
    if not value.is_finite() or abs(value) > Decimal("1e300"):
        return False
    return any(
        (value / step).quantize(Decimal(1), way) * step == number
        for way in (ROUND_HALF_EVEN, ROUND_HALF_UP)
    )
