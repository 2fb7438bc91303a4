r"""Splits a text into the pieces that the shell runs: statements, and lines with a command.

A command stands on a line of its own and begins with a backslash. Inside of quotes and comments
there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dpsql.errors import Place
from dpsql.syntax.split import split


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement without its semicolon, or a command with its backslash.

    It begins on ``line`` of its text, after ``indent`` on the same line. ``typed`` is the statement
    without a semicolon that stands before a command.
    """

    text: str
    line: int
    indent: str = ""
    typed: str = ""

    @property
    def command(self) -> bool:
        """True for a command."""
        return self.text.startswith("\\")

    def place(self, within: Place | None, source: str) -> Place:
        """Find the place in a whole text of a place within this piece, or of its first line."""
        found = within or Place.in_text(self.text, 0, len(self.text))
        moved = found.after("\n" * (self.line - 1) + self.indent)
        return Place(moved.line, moved.column, moved.length, moved.excerpt, source)


def pieces(lines: Iterable[str]) -> Iterator[Piece]:
    """Split a text that comes line by line into pieces, each as soon as it is complete.

    What remains at the end is a statement as well.
    """
    held, first, indent = "", 1, ""
    for number, line in enumerate(lines, start=1):
        if word(line) in WORDS and not _worded(held) and not _open(held):
            line = WORDS[word(line)]
        if line.lstrip().startswith("\\") and not _open(held):
            yield Piece(line.strip(), number, typed=held.strip() if _worded(held) else "")
            held, first, indent = "", number + 1, ""
            continue
        held += line if line.endswith("\n") else f"{line}\n"
        if ";" not in line:
            continue
        found = split(held)
        for start, end in found.statements:
            yield _statement(held, start, end, first, indent)
        if found.statements or not _worded(held):
            indent = _indent(held, found.rest, indent)
            first += held.count("\n", 0, found.rest)
            held = held[found.rest :]
    if _worded(held):
        found = split(held)
        yield _statement(held, found.rest, len(held), first, indent)


WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("exit", "quit", ".exit", ".quit"), "\\q"),
    **dict.fromkeys(("help", ".help"), "\\?"),
    **dict.fromkeys((".tables", ".schema"), "\\dt"),
}
"""Words alone on a line that other shells take for commands, and ours for them."""


def finished(text: str) -> bool:
    """Tell whether Enter runs a text, which is complete, blank, or one word of the shell's."""
    if word(text) in WORDS:
        return True
    last = text.rstrip().rpartition("\n")
    if last[2].lstrip().startswith("\\") and not _open(last[0]):
        return True
    return not _worded(text) and not _open(text)


def word(text: str) -> str:
    """Normalise a text for comparison with WORDS."""
    return text.strip().removesuffix(";").rstrip().lower()


def _worded(text: str) -> bool:
    """Tell whether there is more after the last statement than blanks and comments."""
    return split(text).rest < len(text)


def _open(text: str) -> bool:
    return bool(text) and split(text).open


def _statement(held: str, start: int, end: int, first: int, indent: str) -> Piece:
    line = first + held.count("\n", 0, start)
    return Piece(held[start:end].rstrip(), line, _indent(held, start, indent))


def _indent(held: str, start: int, indent: str) -> str:
    """Return the text before a place on its line."""
    before = held[:start]
    return before[before.rfind("\n") + 1 :] if "\n" in before else indent + before
