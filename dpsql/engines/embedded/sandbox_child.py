"""The child of :mod:`dpsql.engines.embedded.sandbox`: a task on standard input, an answer, an
end."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

import duckdb

from dpsql.core.sql import Sql, Written
from dpsql.engines.embedded.constants import failing_constant
from dpsql.engines.embedded.lockdown import lock_down
from dpsql.engines.embedded.running import execute

_BEYOND_LIMITS = 3
_FAILED = 4
_INTERVAL = 0.005  # seconds between two looks at the memory, in which it grows by some megabytes
_THREADS = 4


def run_task() -> None:
    """Run the task, and end with 0 if it could be done."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # DuckDB may write there
    task = json.load(sys.stdin)
    be_the_first_to_go()
    end = time.monotonic() + task["seconds"]
    threading.Thread(target=_watch, args=(task["memory_bytes"], end), daemon=True).start()
    try:
        found = _done(task)
    except (duckdb.Error, MemoryError):
        os._exit(_FAILED)
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        json.dump(found, out)


def _done(task: dict[str, Any]) -> dict[str, object] | None:
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": task["engine_memory"],
        "temp_directory": "",
        "threads": str(min(_THREADS, os.cpu_count() or 1)),
    }
    with duckdb.connect(task["database"], config=config) as connection:
        lock_down(connection)
        for statement in task["statements"]:
            execute(connection, _taken(statement))
        query = task["query"]
        found = failing_constant(connection, _taken(query), texts=task["texts"]) if query else None
    return None if found is None else asdict(found)


def _taken(text: str) -> Sql:
    """Take over a statement as the parent has written it."""
    return Sql(Written(text))


def _watch(memory_bytes: int, end: float) -> None:
    """End the process when it takes too much; DuckDB lets other threads run all the while."""
    while resident_bytes() <= memory_bytes and time.monotonic() <= end:
        time.sleep(_INTERVAL)
    os._exit(_BEYOND_LIMITS)


def resident_bytes() -> int:
    """Return the memory that this process has now, or the most it ever had."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def be_the_first_to_go() -> None:
    """Let Linux end this process rather than its parent where memory ends before the limit."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
