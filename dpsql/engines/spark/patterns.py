"""Patterns of LIKE as regular expressions that take time in proportion to the text, on Spark.

Spark makes of LIKE a regular expression of Java's, which looks for a place for each ``%`` and goes
back to all the places before when a later one finds none: of k of them over a text of n characters
that takes n to the power of k, within one row, where nothing interrupts it. What is between two
``%`` need be found only once, at the first place after what was found before it: a later one leaves
less for the rest. So each is looked for in a group that is never gone back into (``(?>...)``).
"""

from __future__ import annotations

from typing import Final

_ANY: Final = "%"
_ONE: Final = "_"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def searched_pattern(pattern: str) -> str | None:
    """Write a pattern of LIKE, without an escape, as a regular expression for RLIKE.

    None for one with a single ``%``, or two around one piece: there is one place to look for.
    """
    count = pattern.count(_ANY)
    if count < 2 or (count == 2 and pattern[0] == pattern[-1] == _ANY):
        return None
    first, *inner, last = pattern.split(_ANY)
    inner = [piece for piece in inner if piece]  # several in a row are one
    found = "".join(f"(?>.*?{_piece(piece)})" for piece in inner)
    # The end is one place: from there on nothing is searched, only tried.
    return rf"(?s)\A{_piece(first)}{found}.*{_piece(last)}\z"


def _piece(piece: str) -> str:
    """Write what has no ``%``; of ASCII, all but letters and digits may mean something."""
    return "".join(
        "." if each == _ONE else each if each in _PLAIN or each > "\x7f" else f"\\{each}"
        for each in piece
    )
