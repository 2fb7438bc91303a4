"""All readers, by name."""

from __future__ import annotations

from typing import Final

from .files import FILES
from .objects import OBJECTS
from .readers import DuckDBFile, Reader
from .servers import SERVERS

READERS: Final[dict[str, Reader]] = {
    reader.name: reader for reader in (DuckDBFile(), *FILES, *OBJECTS, *SERVERS)
}
"""Each kind of source, with the engine that reads it."""
