"""Where DuckDB puts what does not fit in memory: rows, in a directory nobody else can enter."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from weakref import finalize


class Spill:
    """A private directory that is made when it may be needed, and removed with what is in it.

    It lies where the system keeps temporary files (TMPDIR), never in the working directory.
    """

    def __init__(self) -> None:
        self._parent = Path(tempfile.gettempdir()).absolute() / f"dpsql-{secrets.token_hex(16)}"
        self._remove = finalize(self, shutil.rmtree, self._parent, ignore_errors=True)

    @property
    def directory(self) -> str:
        """The path of DuckDB's temp_directory, which DuckDB makes and others cannot look into."""
        return str(self._parent / "spill")

    def make(self) -> None:
        """Make the directory. Where that fails, queries that need it will, and no others."""
        with suppress(OSError):
            os.mkdir(self._parent, 0o700)

    def remove(self) -> None:
        """Remove the directory; what is still open in it stays readable until it is closed."""
        self._remove()
