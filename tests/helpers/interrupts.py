"""Ctrl-C at a chosen line of a part of the package."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupt:
    """Raises KeyboardInterrupt at one line of the code in a directory, in the thread that traces.

    Not where a ``with`` statement is left: the interpreter looks for signals after calls and jumps,
    and there are none before what ends the statement is called.
    """

    def __init__(self, home: str, moment: int) -> None:
        self.home = home
        self.left = moment
        self.raised = False
        self._inside: set[tuple[int, int]] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(self.home):
            return None
        if event == "line" and not self.raised and not self._leaves_with(frame):
            if self.left == 0:
                self.raised = True
                raise KeyboardInterrupt
            self.left -= 1
        return self

    def _leaves_with(self, frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        place = id(frame), frame.f_lineno
        if not line.strip().startswith("with "):
            return False
        seen = place in self._inside
        self._inside ^= {place}
        return seen


def interrupted_in(home: str, work: Callable[[], object], moment: int) -> KeyboardInterrupt | None:
    """Do the work, interrupted at a line of the code in a directory; None if it is done before."""
    interrupt = Interrupt(home, moment)
    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        work()
    except KeyboardInterrupt as caught:
        return caught  # with its traceback, whose frames go on living
    finally:
        sys.settrace(before)
    assert not interrupt.raised, "the interrupt was lost"
    return None
