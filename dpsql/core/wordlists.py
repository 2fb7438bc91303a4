"""Lists of words, written as text."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Split a text into its words, in order. ``words("a b c")`` is ``("a", "b", "c")``."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Split a text at its commas, on however many lines it is."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))
