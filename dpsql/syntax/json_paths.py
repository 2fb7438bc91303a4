"""Paths into JSON documents: constants of a closed form that name one part.

``$.os.name``, ``$."first name"[0].x``, or the name of a field alone. There are no wildcards, by
which a part would be a list, and no places from the end.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

JsonPath: TypeAlias = tuple[str | int, ...]
"""The names of fields and the places in lists, from 0, from a document down to its part."""

MOST_OF_PATH: Final = 200
"""Characters of a path."""
_MOST_STEPS: Final = 16
# An asterisk is a wildcard to DuckDB within quotes as well.
_NAMED: Final = r'[^"\\*\x00-\x1f]+'
_STEP: Final = re.compile(
    rf'\.(?P<word>[\w-]+)|\."(?P<quoted>{_NAMED})"|\[(?P<place>[0-9]{{1,9}})\]'
)
_NAME: Final = re.compile(_NAMED)


def read_path(text: str) -> JsonPath | None:
    """Read a path; None for one of another form.

    >>> read_path("$.os.name[0]"), read_path("speed"), read_path("$.*")
    (('os', 'name', 0), ('speed',), None)
    """
    if len(text) > MOST_OF_PATH:
        return None
    if not text.startswith("$"):
        return None if text.startswith("/") else read_name(text)
    steps: list[str | int] = []
    place = 1
    while place < len(text):
        found = _STEP.match(text, place)
        if found is None:
            return None
        number = found["place"]
        steps.append(found["word"] or found["quoted"] if number is None else int(number))
        place = found.end()
    return tuple(steps) if 0 < len(steps) <= _MOST_STEPS else None


def read_name(text: str) -> JsonPath | None:
    """Read the name of a field as a path; None for a name that no path can hold."""
    return (text,) if len(text) <= MOST_OF_PATH and _NAME.fullmatch(text) else None


def write_path(steps: JsonPath) -> str:
    """Write a path in its one spelling: all names in quotes.

    >>> write_path(("os", "first name", 0))
    '$."os"."first name"[0]'
    """
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f'."{step}"' for step in steps)
