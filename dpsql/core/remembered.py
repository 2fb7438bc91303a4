"""A memory for what was computed last, bounded in number and size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class Remembered(Generic[_Key, _Value]):
    """Keeps the values that were looked up last. Safe for threads.

    ``most`` is how many are kept, ``size`` how large they may be together, in any unit.
    """

    def __init__(self, most: int, size: int) -> None:
        self._most = most
        self._room = self._size = size
        self._kept: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: _Key) -> _Value | None:
        """Look up a value; None for one that is not kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def keep(self, key: _Key, value: _Value, size: int) -> None:
        """Keep a value of a size, and forget those that were not looked up for longest."""
        with self._lock:
            self._forget(key)
            if size > self._size:
                return
            self._kept[key] = value, size
            self._room -= size
            while self._room < 0 or len(self._kept) > self._most:
                self._forget(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._kept.clear()
            self._room = self._size

    def _forget(self, key: _Key) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._room += found[1]
