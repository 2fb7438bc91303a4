"""The child of :mod:`dpsql.server.catalog.room_process`: queries on standard input, answers on
standard output, each a line of JSON.

It reads one file, writes none, and watches its memory and its time: DuckDB counts no texts that a
query makes, and does not stop while it makes one.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Final

import duckdb

from dpsql.core.sql import Sql, Written
from dpsql.engines.embedded.lockdown import isolated
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.embedded.sandbox_child import be_the_first_to_go, resident_bytes
from dpsql.server.catalog.packed_values import packed_value
from dpsql.server.wire.values import OID_LIST, PLACES

_ENGINE_MEMORY: Final = "128MB"
_MOST_MEMORY: Final = 500_000_000  # bytes of the whole process
_MOST_KEPT: Final = 250_000_000  # bytes after a query, with which it takes another
_MOST_SECONDS: Final = 6.0  # a little more than whoever asks waits
_MOST_ROWS: Final = 100_000
_MOST_BYTES: Final = 15_000_000
_AT_ONCE: Final = 100
_NOTHING: Final = '{"columns": null}'
_MOST_KNOWN: Final = 100  # queries that are planned already
_BEYOND_LIMITS: Final = 3
_OTHER_TYPES: Final = {"NULL": "VARCHAR", "BIGINT[]": OID_LIST, "USMALLINT[]": PLACES}
_INTERVAL: Final = 0.005  # seconds between two looks at the memory


def answer_queries(database: str) -> None:
    """Answer queries over a file until there are none; end at once beyond the limits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when it ends
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # DuckDB may write there
    be_the_first_to_go()
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(limit, (0, 0))
    watch = _Watch()
    with isolated(database, read_only=True, memory=_ENGINE_MEMORY) as connection:
        answers.write(_NOTHING + "\n")
        answers.flush()
        last = False
        while not last and (line := sys.stdin.readline()):
            with watch:
                answer = _answer(connection, *json.loads(line))
                last = resident_bytes() > _MOST_KEPT
                answers.write(f'{answer[:-1]}, "last": {json.dumps(last)}}}\n')
            answers.flush()


def _answer(connection: duckdb.DuckDBPyConnection, text: str, rows: bool) -> str:
    """Answer a query: ``_NOTHING`` where there is no answer, or a longer one than is sent."""
    try:
        head = _described(connection, text)
        if not rows:
            return head[:-1] + ', "rows": []}'
        written: list[str] = []
        size = 0
        found = execute(connection, Sql(Written(text)))
        while some := found.fetchmany(_AT_ONCE):
            written += (json.dumps([packed_value(value) for value in row]) for row in some)
            size += sum(map(len, written[-len(some) :]))
            if len(written) > _MOST_ROWS or size > _MOST_BYTES:
                return _NOTHING
    except (duckdb.Error, MemoryError, ValueError, RecursionError):
        return _NOTHING
    return f'{head[:-1]}, "rows": [{", ".join(written)}]}}'


@lru_cache(_MOST_KNOWN)
def _described(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """Plan one query and write its columns. Raises ``ValueError`` for what is no query."""
    (statement,) = connection.extract_statements(text)
    if statement.type is not duckdb.StatementType.SELECT:
        raise ValueError
    bound = relation(connection, Sql(Written(text)))
    return json.dumps({"columns": bound.columns, "types": list(map(_told, bound.types))})


def _told(type_: object) -> str:
    """Name a type; what is NULL in all rows is a text, and lists are of OIDs, as in PostgreSQL."""
    named = str(type_).strip('"')
    return _OTHER_TYPES.get(named, str(type_))


class _Watch:
    """Ends the process where a query takes too much memory, or too long."""

    def __init__(self) -> None:
        self._busy = threading.Event()
        self._end = 0.0
        threading.Thread(target=self._look, daemon=True).start()

    def __enter__(self) -> None:
        self._end = time.monotonic() + _MOST_SECONDS
        self._busy.set()

    def __exit__(self, *_: object) -> None:
        self._busy.clear()

    def _look(self) -> None:
        while self._busy.wait():
            if resident_bytes() > _MOST_MEMORY or time.monotonic() > self._end:
                os._exit(_BEYOND_LIMITS)
            time.sleep(_INTERVAL)
