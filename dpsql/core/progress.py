"""Progress of reading, in percent."""

from __future__ import annotations

from collections.abc import Callable

Percent = Callable[[int], None]
"""Told 0, 1, ..., 100 in this order while a set union or a cascade reads private rows.

Each number comes once, whatever the data. When it comes is not protected, as timing never is.
"""


class ReadingProgress:
    """Tells every percent up to the one that is reached, each once; 0 at the start."""

    def __init__(self, percent: Percent) -> None:
        self._percent = percent
        self._next = 0
        self.reach(0)

    def reach(self, percent: int) -> None:
        """Tell the percents that are not told yet, up to this one."""
        while self._next <= percent:
            self._percent(self._next)
            self._next += 1
