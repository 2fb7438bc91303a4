"""Tails whose values could grow beyond any limit: run in a process of its own, over a file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.duckdb.engine import MaterializedStream
from dpsql.engines.embedded.lockdown import MEMORY_LIMIT, isolated
from dpsql.engines.embedded.running import execute, relation
from dpsql.engines.embedded.sandbox import Apart, SandboxLimits
from dpsql.results.rows import StoredAnswer, answer_columns

TIME_LIMIT_SECONDS: Final = 60.0
# Of a process of its own: what DuckDB counts, and half as much again for what it does not.
RUN_LIMITS: Final = SandboxLimits(3 << 30, MEMORY_LIMIT, TIME_LIMIT_SECONDS)
_ANSWER: Final = quoted(f"{INTERNAL_PREFIX}answer")


_MAIN: Final = quoted("main")
_ROWS: Final = f"{INTERNAL_PREFIX}rows"


@dataclass(frozen=True, slots=True)
class Copied:
    """A table of the file: its quoted name, and the query over the room that gives its rows.

    ``schema`` is the quoted name of its schema, if it has one.
    """

    name: Sql
    rows: Sql
    parameters: list[list[object]] | None = None
    schema: Sql = _MAIN


def run_apart(
    apart: Apart,
    tail: Sql,
    room: duckdb.DuckDBPyConnection,
    tables: Sequence[Copied],
    names: Sequence[str],
) -> StoredAnswer:
    """Run a tail over copies of the room's tables. Raises ``ApartFailed`` as well."""
    columns = join(", ", answer_columns(len(names)))
    made = sql("CREATE TABLE {}({}) AS SELECT * FROM ({})", _ANSWER, columns, tail)
    with tempfile.TemporaryDirectory(prefix="dpsql-") as directory:
        path = str(Path(directory) / f"{INTERNAL_PREFIX}tail.duckdb")  # no schema is called that
        with isolated(path) as new:
            for table in tables:
                _copy(table, room, new)
        apart.run(path, [made], RUN_LIMITS)
        # It is read from while it is needed, and gone when it is closed.
        file = isolated(path, read_only=True)
        ((rows,),) = execute(file, sql("SELECT count(*) FROM {}", _ANSWER)).fetchall()
        return StoredAnswer(file, _ANSWER, names, rows)


def _copy(table: Copied, room: duckdb.DuckDBPyConnection, file: duckdb.DuckDBPyConnection) -> None:
    found = relation(room.cursor(), table.rows, table.parameters).materialize()
    file.register(_ROWS, MaterializedStream(found))
    execute(file, sql("CREATE SCHEMA IF NOT EXISTS {}", table.schema))
    execute(file, sql("CREATE TABLE {} AS SELECT * FROM {}", table.name, quoted(_ROWS)))
    file.unregister(_ROWS)
