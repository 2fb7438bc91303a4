"""Letters for terminals that have none of ours: ``eps`` for ε where UTF-8 cannot be written."""

from __future__ import annotations

import codecs
from typing import Final, TextIO

NAME: Final = "dpsql_plain"
SPECIAL: Final = "εδρ±"
"""Letters that stand in nearly all answers."""
LONGER: Final = 12
"""How many characters a line may grow by when these are replaced."""
_PLAIN: Final = dict(zip("│─├┤┼┊█░·–−✓×’", "|-||+:#.---*x'", strict=True)) | {
    "ε": "eps",
    "δ": "delta",
    "ρ": "rho",
    "±": "+-",
    "…": "...",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "√": "sqrt ",
    "²": "^2",
}


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or _escaped(c) for c in lost), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")


codecs.register_error(NAME, _plain)


def adapt(stream: TextIO) -> None:
    """Let a stream write everything, in other letters where it has to."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors=NAME)


def writable(text: str, encoding: str) -> str:
    """A text as a stream of this encoding will show it."""
    return text.encode(encoding, NAME).decode(encoding)
