"""Keys of types that JSON does not have, as the engine's texts and back: for the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import Column
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT, VARCHAR
from dpsql.engines.base.engine import ArrowStream
from dpsql.engines.duckdb.engine import MaterializedStream
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.running import execute, materialized
from dpsql.errors import EngineError
from dpsql.pipeline.tail.rooms import Tenant
from dpsql.results.rows import unnest

_FAILURES = (duckdb.Error, EngineError, MemoryError, RuntimeError)

_JOINED: Final = sql("__dpsql_values JOIN __dpsql_keys USING ({})", quoted(ROW_ID))


class KeySpelling:
    """Writes the keys of released groups as texts, and reads them again."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    def key_texts(
        self, columns: Sequence[Column], stream: ArrowStream, row_ids: NDArray[np.int64]
    ) -> list[list[str | None]] | None:
        """Spell the keys of some groups as the engine's texts, by column.

        ``row_ids``: int64 array of shape (groups,). None where some text does not stand for its key
        again, or if the engine cannot say.
        """
        texts = [sql("list(CAST({} AS VARCHAR) ORDER BY place)", quoted(c.name)) for c in columns]
        same = join(" AND ", map(_is_same, columns))
        asked = sql("SELECT {}, count(*), {} FROM {}", same, join(", ", texts), _JOINED)
        try:
            stay = self._tenant.stay()
            with stay.registered(values=_places(row_ids), keys=stream):
                ((sound, found, *lists),) = execute(stay.cursor, asked).fetchall()
        except _FAILURES as error:
            _raise_if_ended(error)
            return None
        return [each or [] for each in lists] if sound and found == len(row_ids) else None

    def exact(
        self, columns: Sequence[Column], stream: ArrowStream, row_ids: NDArray[np.int64]
    ) -> bool:
        """Tell whether the engine's texts of some groups' keys stand for them, and all are there.

        ``row_ids``: int64 array of shape (groups,). False as well if the engine cannot say.
        """
        same = join(" AND ", map(_is_same, columns))
        asked = sql("SELECT {}, count(*) FROM {}", same, _JOINED)
        try:
            stay = self._tenant.stay()
            with stay.registered(values=_places(row_ids), keys=stream):
                ((sound, found),) = execute(stay.cursor, asked).fetchall()
        except _FAILURES as error:
            _raise_if_ended(error)
            return False
        return bool(sound) and found == len(row_ids)

    def texts_in_order(
        self,
        columns: Sequence[Column],
        stream: ArrowStream,
        row_ids: NDArray[np.int64],
        at_once: int,
    ) -> Iterator[tuple[NDArray[np.int64], list[list[str | None]]]]:
        """Spell the keys of some groups, so many at once, in an order that the texts decide.

        Yields which of ``row_ids``, an array of shape (groups,), and their texts by column. Raises
        ``EngineError`` where the engine fails.
        """
        names = [quoted(f"text_{place}") for place in range(len(columns))]
        spelled = [
            sql("CAST({} AS VARCHAR) AS {}", quoted(column.name), name)
            for column, name in zip(columns, names, strict=True)
        ]
        order = join(", ", (sql("{} NULLS LAST", name) for name in names))
        rows = sql("SELECT place, {} FROM {}", join(", ", spelled), _JOINED)
        asked = sql("{} ORDER BY {}", rows, order)
        stay = self._tenant.stay()
        try:
            with stay.registered(values=_places(row_ids), keys=stream):
                found = execute(stay.cursor, asked)
                while some := found.fetchmany(at_once):
                    places, *lists = zip(*some, strict=True)
                    yield np.array(places, dtype=np.int64), [list(column) for column in lists]
        except _FAILURES as error:
            _raise_if_ended(error)
            raise EngineError(EngineError.FIXED_REASON, code="engine_failed") from None

    def keys_of_texts(
        self, columns: Sequence[Column], texts: list[list[str | None]], row_ids: list[int]
    ) -> ArrowStream | None:
        """Read the keys that :meth:`key_texts` wrote, with row numbers; None for other texts."""
        names = [quoted(ROW_ID), *(quoted(column.name) for column in columns)]
        keys = [
            sql("CAST({name} AS {type}) AS {name}", name=quoted(c.name), type=c.type.sql)
            for c in columns
        ]
        unnested = unnest(names, [BIGINT, *(VARCHAR for _ in columns)])
        asked = sql("SELECT {} FROM ({})", join(", ", [names[0], *keys]), unnested)
        try:
            cursor = self._tenant.stay().cursor.cursor()
            return MaterializedStream(materialized(cursor, asked, [row_ids, *texts]))
        except (*_FAILURES, ValueError) as error:
            _raise_if_ended(error)
            return None


def _raise_if_ended(error: Exception) -> None:
    """Raise an interrupt as an interrupt, and not as a key without text or a damaged release."""
    raise_if_interrupted(error)
    told = isinstance(error, EngineError) and error.code == "interrupted"
    if told or isinstance(error, duckdb.InterruptException):
        raise EngineError("the query was interrupted", code="interrupted") from None


def _is_same(column: Column) -> Sql:
    """Write a test that the text of each key in a column casts back to the same key."""
    key = quoted(column.name)
    again = sql("TRY_CAST(CAST({} AS VARCHAR) AS {})", key, column.type.sql)
    return sql("coalesce(bool_and({} IS NOT DISTINCT FROM {}), true)", again, key)


def _places(row_ids: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {ROW_ID: row_ids, "place": np.arange(len(row_ids))}
