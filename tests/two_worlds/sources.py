"""All readers, by name."""

from __future__ import annotations

from typing import Final

from .files import FILES, BrokenText
from .objects import OBJECTS
from .readers import DuckDBAtDoors, DuckDBFile, Lookup, Reader
from .servers import SERVERS

READERS: Final[dict[str, Reader]] = {
    reader.name: reader for reader in (DuckDBFile(), DuckDBAtDoors(), *FILES, *OBJECTS, *SERVERS)
}
"""Each kind of source, with the engine that reads it."""

OF_HOLES: Final[dict[str, Reader]] = {reader.name: reader for reader in (Lookup(), BrokenText())}
"""Readers of worlds that dpsql refuses to open, for twins of it that do."""
