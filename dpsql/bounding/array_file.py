"""Arrays in a file without a name: written one after the other, and read back."""

from __future__ import annotations

from collections.abc import Callable
from io import RawIOBase
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray


class ArrayFile:
    """Writes arrays to a file without a name, and reads them back.

    ``opener`` opens the file once there are any arrays. It is closed with this.
    """

    def __init__(self, opener: Callable[[], RawIOBase]) -> None:
        self._opener = opener
        self._file: RawIOBase | None = None
        self._end = 0

    def write(self, values: NDArray[Any]) -> int:
        """Write an array of one dimension; returns its place."""
        if self._file is None:
            self._file = self._opener()
            finalize(self, self._file.close)
        place, view, done = self._end, values.data.cast("B"), 0
        self._file.seek(place)
        while done < len(view):
            done += self._file.write(view[done:]) or 0
        self._end += done
        return place

    def read(self, place: int, length: int, type_: np.dtype[Any]) -> NDArray[Any]:
        """Read an array of some length from its place. Raises ``OSError`` where it is shorter."""
        assert self._file is not None
        found = np.empty(length, dtype=type_)
        view, done = found.data.cast("B"), 0
        self._file.seek(place)
        while done < len(view):
            read = self._file.readinto(view[done:])
            if not read:
                raise OSError("a file is shorter than what was written")
            done += read
        return found

    def close(self) -> None:
        """Give the file up, and with it what is there."""
        if self._file is not None:
            self._file.close()
            self._file = None
