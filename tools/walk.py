"""Traces statements through the package: how many files they enter, and how often: ``make walk``.

A reader who follows a statement reads each function when it is first called, and goes on where that
calls another. A *stay* is a run of such functions in one file; a walk of few stays through few
files is one that can be followed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

import dpsql

PACKAGE = str(Path(dpsql.__file__).parent)
POLICY = """
version: 1
dataset: walk
accounts: {ana: {epsilon: 100, delta: 1e-4}}
tables:
  visits:
    privacy_unit: {name: person, column: uid}
    columns: {n: {lower: 0, upper: 20}}
"""
STATEMENTS = (
    "SELECT k, COUNT(DISTINCT uid) AS people FROM visits GROUP BY k",
    "SELECT k, COUNT(*) AS visits, SUM(n) AS total, MEDIAN(n) AS half FROM visits GROUP BY k",
    "SELECT DISTINCT k FROM visits",
)
WALKS: dict[str, tuple[str, str]] = {
    "prepare": ("pipeline/prepare.py", "prepare"),
    "read and release": ("pipeline/buyer.py", "buy_all"),
    "answer, all of it": ("service/answering.py", "answer"),
}
"""The function that each walk is in, by its file."""


class Walk:
    """The stays of one walk."""

    def __init__(self, file: str, function: str) -> None:
        self._start = f"{PACKAGE}/{file}", function
        self._inside: FrameType | None = None
        self._last = ""
        self._read: set[CodeType] = set()
        self.stays: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call; for ``sys.setprofile``."""
        code: CodeType = frame.f_code
        if self._inside is None:
            if event == "call" and (code.co_filename, code.co_name) == self._start:
                self._inside, self._last = frame, ""
            else:
                return
        new = event == "call" and code.co_filename.startswith(PACKAGE) and code not in self._read
        if new:
            self._read.add(code)
            if code.co_filename != self._last:
                self.stays.append(code.co_filename.removeprefix(PACKAGE))
            self._last = code.co_filename
        elif event == "return" and frame is self._inside:
            self._inside = None


def walked(walk: Walk, work: Callable[[], object]) -> Walk:
    """Do some work, watched."""
    sys.setprofile(walk)
    try:
        work()
    finally:
        sys.setprofile(None)
    return walk


def main() -> None:
    """Print a table: stays and files of each walk of each statement."""
    numbers = np.arange(3000)
    with tempfile.TemporaryDirectory() as directory:
        for number, statement in enumerate(STATEMENTS):
            print(statement)
            for name, place in WALKS.items():
                ledger = Path(directory) / f"{number}{name[0]}.db"
                engine = dpsql.DuckDBEngine()
                engine.register(
                    "visits", {"uid": numbers % 700, "k": numbers % 5, "n": numbers % 17}
                )
                with dpsql.connect(engine, dpsql.parse_policy(POLICY), ledger, "ana") as connection:
                    connection.sql("SELECT COUNT(*) AS n FROM visits")  # loads what is loaded once
                    walk = walked(Walk(*place), partial(connection.sql, statement))
                print(f"  {name:18} {len(walk.stays):6} stays in {len(set(walk.stays)):3} files")


if __name__ == "__main__":
    main()
