"""Lists of words, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in its order. ``words("a b c")`` is ``("a", "b", "c")``."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """What stands between the commas of a text, on however many lines it does."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))
