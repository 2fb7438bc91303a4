"""Formats of dates and timestamps: DuckDB's directives, and those of to_char and date_format.

Only what all engines write alike in all years is listed; the rest is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LITERAL: Final = ""
"""The directive of text that stands for itself."""
DIRECTIVES: Final = (
    *("%Y", "%y", "%m", "%-m", "%d", "%-d", "%H", "%-H", "%I", "%-I", "%M", "%S", "%f", "%p"),
    *("%j", "%B", "%b", "%A", "%a", "%G", "%V", "%u"),
)
MOST_OF_FORMAT: Final = 100
"""Characters of a format."""
_TOGETHER: Final = {"%T": "%H:%M:%S", "%x": "%Y-%m-%d", "%X": "%H:%M:%S"}
_DIRECTIVE: Final = re.compile(r"%-?.?|[^%]+", re.DOTALL)
_OF_TO_CHAR: Final[Mapping[str, str]] = {
    "YYYY": "%Y",
    "YY": "%y",
    "MM": "%m",
    "FMMM": "%-m",
    "DD": "%d",
    "FMDD": "%-d",
    "HH24": "%H",
    "FMHH24": "%-H",
    "HH12": "%I",
    "FMHH12": "%-I",
    "HH": "%I",
    "FMHH": "%-I",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "AM": "%p",
    "PM": "%p",
    "DDD": "%j",
    "FMMonth": "%B",
    "Mon": "%b",
    "FMDay": "%A",
    "Dy": "%a",
    "IYYY": "%G",
    "IW": "%V",
    "ID": "%u",
    "Q": "%q",
    **{word: f"%{{{word}}}" for word in ("Day", "DAY", "day", "Month", "MONTH", "month")},
}
BLANK_PADDED: Final = re.compile(r"(?<!%)(%\{\w+\})")
"""Names of days and months with blanks behind them, which no directive writes."""
_WORDS: Final = "|".join(sorted(_OF_TO_CHAR, key=len, reverse=True))
_PIECE: Final = re.compile(rf'(?P<word>{_WORDS})|"(?P<quoted>[^"\\]*)"|(?P<mark>[^A-Za-z"\\%])')
_OF_PATTERN: Final[Mapping[str, str]] = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "EEEE": "%A",
    "DDD": "%j",
}
_OF_LETTERS: Final = re.compile(
    rf"(?P<word>{'|'.join(rf'(?<!{name[0]}){name}(?!{name[0]})' for name in _OF_PATTERN)})"
    r"|'(?P<quoted>[^'%]+)'|(?P<mark>[^A-Za-z'%])"
)
_OF_DATE_FORMAT: Final[Mapping[str, str]] = {
    **{f"%{same}": f"%{same}" for same in "YymdHfpjabT"},
    "%i": "%M",
    "%s": "%S",
    "%S": "%S",
    "%M": "%B",
    "%W": "%A",
    "%h": "%I",
    "%e": "%-d",
    "%c": "%-m",
    "%k": "%-H",
    "%l": "%-I",
    "%%": "%%",
}


def read_format(text: str) -> list[tuple[str, str]] | None:
    """Read a format of strftime: directives, and the texts between; None for an unknown one.

    >>> read_format("%Y-%m")
    [('%Y', ''), ('', '-'), ('%m', '')]
    """
    whole = re.sub(r"%[TxX]", lambda found: _TOGETHER.get(found[0], found[0]), text)
    found: list[tuple[str, str]] = []
    for piece in _DIRECTIVE.findall(whole):
        if piece in DIRECTIVES:
            found.append((piece, ""))
        elif piece == "%%" or not piece.startswith("%"):
            before = found.pop()[1] if found and found[-1][0] == LITERAL else ""
            found.append((LITERAL, before + piece.replace("%%", "%")))
        else:
            return None
    return found if len(text) <= MOST_OF_FORMAT and "\0" not in text else None


def of_to_char(text: str) -> str | None:
    """Write a format of to_char as one of strftime; None for an unknown one.

    >>> of_to_char('YYYY-MM "at" HH24')
    '%Y-%m at %H'
    """
    found, at = [], 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        word = piece["word"]
        found.append(_OF_TO_CHAR[word] if word else piece["quoted"] or piece["mark"] or "")
        at = piece.end()
    return "".join(found)


def of_pattern(text: str) -> str | None:
    """Write a pattern of letters as a format of strftime; None for an unknown one.

    >>> of_pattern("dd MMM yyyy"), of_pattern("YYYY")
    ('%d %b %Y', None)
    """
    found, at = [], 0
    while at < len(text):
        piece = _OF_LETTERS.match(text, at)
        if piece is None:
            return None
        word = piece["word"]
        found.append(_OF_PATTERN[word] if word else piece["quoted"] or piece["mark"] or "")
        at = piece.end()
    return "".join(found)


def of_date_format(text: str) -> str | None:
    """Write a format of MySQL's or Spark's date_format as one of strftime; None for an unknown one.

    MySQL's directives begin with ``%``; without any it is a pattern of letters, as Java has them.

    >>> of_date_format("%Y-%m %H:%i"), of_date_format("yyyy-MM HH:mm")
    ('%Y-%m %H:%M', '%Y-%m %H:%M')
    """
    if "%" not in text:
        return of_pattern(text)
    pieces = [_OF_DATE_FORMAT.get(p, p) for p in re.findall(r"%.?|[^%]+", text, re.DOTALL)]
    known = all(not p.startswith("%") or p in (*DIRECTIVES, "%%", "%T") for p in pieces)
    return "".join(pieces) if known else None
