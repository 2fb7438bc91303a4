"""Where DuckDB puts what does not fit in memory: rows, in a directory nobody else can enter."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Final
from weakref import finalize

if sys.platform != "win32":  # where nothing tells that a process is gone
    import fcntl

_PREFIX: Final = "dpsql-"
_NAME: Final = re.compile(f"{_PREFIX}[0-9a-f]{{32}}")
_LOCK: Final = "in-use"
_YOUNG: Final = 60.0  # seconds in which a directory may not be locked yet


class Spill:
    """A private directory for spilled data, made on demand and removed with its contents.

    It lies where the system keeps temporary files (TMPDIR), never in the working directory. What
    a process that was killed left there is removed by the next that makes one.
    """

    def __init__(self) -> None:
        self._parent = Path(tempfile.gettempdir()).absolute() / f"{_PREFIX}{secrets.token_hex(16)}"
        self._remove = finalize(self, shutil.rmtree, self._parent, ignore_errors=True)
        self._unlock: finalize[[int], Spill] | None = None

    @property
    def directory(self) -> str:
        """The path of DuckDB's temp_directory, which DuckDB makes and others cannot look into."""
        return str(self._parent / "spill")

    def make(self) -> None:
        """Make the directory. Where that fails, queries that need it will, and no others."""
        if self._unlock is not None:
            return
        with suppress(OSError):
            os.mkdir(self._parent, 0o700)
            lock = os.open(self._parent / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            self._unlock = finalize(self, os.close, lock)
            if _locked(lock):
                _remove_abandoned(self._parent.parent)

    def file(self) -> RawIOBase:
        """Open a file without a name in the directory, which its owner alone may read.

        Raises ``OSError`` where there is none.
        """
        self.make()
        return tempfile.TemporaryFile(dir=self._parent, buffering=0)

    def remove(self) -> None:
        """Remove the directory; files that are open in it stay readable until they are closed."""
        self._remove()
        if self._unlock is not None:
            self._unlock()


def _locked(file: int) -> bool:
    """Take the lock of a directory, which is free once its owner's process is gone."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _remove_abandoned(place: Path) -> None:
    """Remove the directories there that no process uses any more: they may hold rows."""
    for found in os.scandir(place):
        if not _NAME.fullmatch(found.name):
            continue
        with suppress(OSError):  # it is another user's, or another process removes it just now
            if time.time() - found.stat(follow_symlinks=False).st_mtime < _YOUNG:
                continue
            file = os.open(os.path.join(found.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _locked(file):
                    shutil.rmtree(found.path, ignore_errors=True)
            finally:
                os.close(file)
