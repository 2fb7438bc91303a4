"""Runs SQL in a process of its own, which may die: for work DuckDB cannot limit or interrupt.

A list of a billion numbers is not counted by DuckDB's memory limit and a text of as many characters
is not interrupted while it is made. So such statements run in a child process that watches itself
(:mod:`dpsql.engines.embedded.sandbox_child`): over its limits it ends, and nothing else does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from dpsql.core.sql import Sql
from dpsql.engines.embedded.constants import FailingConstant
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.errors import EngineError

_GRACE: Final = 10.0  # seconds for a process to start, and to end by itself
# What this process imports, the child imports, whatever its environment says.
_START: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from dpsql.engines.embedded.sandbox_child import run_task; run_task()"
)


class ApartFailed(Exception):
    """The process failed, or went beyond its limits."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of a process: its memory, the memory that DuckDB counts, and its time."""

    memory_bytes: int
    engine_memory: str
    seconds: float


class Apart:
    """Runs one task after the other, each in a process of its own, which can be interrupted."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._interrupted: subprocess.Popen[str] | None = None

    def run(self, database: str, statements: Sequence[Sql], limits: SandboxLimits) -> None:
        """Run statements on a database file. Raises ``ApartFailed``."""
        self._ask({"database": database, "statements": _texts(statements), "query": None}, limits)

    def failing_constant(
        self, statements: Sequence[Sql], query: Sql, limits: SandboxLimits, *, texts: bool = False
    ) -> FailingConstant | None:
        """Run :func:`failing_constant` for a query over tables that ``statements`` create.

        Raises ``ApartFailed`` if the query cannot be planned, or a constant computed, within
        limits.
        """
        task = {
            "database": ":memory:",
            "statements": _texts(statements),
            "query": query.render(DUCKDB_TEXT),
            "texts": texts,
        }
        try:
            found = json.loads(self._ask(task, limits))
        except json.JSONDecodeError:  # some other program stands where Python should
            raise ApartFailed from None
        return found and FailingConstant(
            found["reason"], tuple(found["literals"]), found["read_as"]
        )

    def interrupt(self) -> None:
        """End the process that runs, if one does; the task fails. For other threads to call."""
        child = self._child
        if child is not None:
            self._interrupted = child
            child.kill()

    def _ask(self, task: Mapping[str, object], limits: SandboxLimits) -> str:
        """Return the child's answer to a task.

        Raises ``ApartFailed``, and ``EngineError`` (``interrupted``) where it was interrupted.
        """
        path = [entry or os.getcwd() for entry in sys.path]
        try:
            child = subprocess.Popen(  # noqa: S603 (this interpreter, with this program)
                [sys.executable, "-I", "-c", _START, *path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        except (OSError, ValueError):
            raise ApartFailed from None
        with child:
            self._child = child
            try:
                said, _ = child.communicate(
                    json.dumps({**task, **asdict(limits)}), limits.seconds + _GRACE
                )
            except (OSError, ValueError, subprocess.TimeoutExpired):
                raise ApartFailed from None
            finally:
                self._child = None
                child.kill()  # where it is not over
        if self._interrupted is child:
            raise EngineError("the query was interrupted", code="interrupted")
        if child.returncode != 0:
            raise ApartFailed
        return said


def _texts(statements: Sequence[Sql]) -> list[str]:
    return [statement.render(DUCKDB_TEXT) for statement in statements]
