"""Collects the names that completion suggests, and makes suggestions of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from dpsql.core.schema import fold
from dpsql.interfaces.shell.catalog import Catalog


class Argument(Enum):
    """What a backslash command takes."""

    NOTHING = "nothing"
    NUMBER = "number"
    TABLE = "table"
    FILE = "file"
    NAME = "name of a setting"
    SETTING = "setting and value"
    FORMAT = "format"
    SHARE = "share"
    SWITCH = "switch"
    TOPIC = "topic"
    COLUMN = "column"
    SQL = "SQL"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that would replace the last ``length`` characters before the cursor."""

    text: str
    length: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """All names: of the database, of commands and what they take, and of the last answer."""

    catalog: Catalog
    commands: Mapping[str, Argument] = field(default_factory=dict)
    answer: tuple[str, ...] = ()


def matching(prefix: str, texts: Iterable[str], note: str) -> Iterator[Suggestion]:
    """The texts that begin as typed, in any case; a quoted name also without its quotes."""
    begun = fold(prefix)
    for text in texts:
        if fold(text).startswith(begun) or fold(text.lstrip('"')).startswith(begun):
            yield Suggestion(text, len(prefix), note)
