"""Keys of types that JSON does not have, as the engine's texts and back: for the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import ROW_ID, quote
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream
from dpsql.engines.duckdb import MaterializedStream, raise_if_interrupted
from dpsql.errors import EngineError
from dpsql.pipeline.rooms import Tenant
from dpsql.results.rows import unnest

_FAILURES = (duckdb.Error, EngineError, MemoryError, RuntimeError)

_JOINED = f"__dpsql_values JOIN __dpsql_keys USING ({ROW_ID})"


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
        texts = [f"list(CAST({quote(c.name)} AS VARCHAR) ORDER BY place)" for c in columns]
        same = [_is_same(column) for column in columns]
        sql = f"SELECT {' AND '.join(same)}, count(*), {', '.join(texts)} FROM {_JOINED}"
        try:
            stay = self._tenant.stay()
            with stay.registered(values=_places(row_ids), keys=stream):
                ((sound, found, *lists),) = stay.cursor.execute(sql).fetchall()
        except _FAILURES as error:
            raise_if_interrupted(error)
            return None
        return [each or [] for each in lists] if sound and found == len(row_ids) else None

    def exact(
        self, columns: Sequence[Column], stream: ArrowStream, row_ids: NDArray[np.int64]
    ) -> bool:
        """Tell whether the engine's texts of some groups' keys stand for them, and all are there.

        ``row_ids``: int64 array of shape (groups,). False as well if the engine cannot say.
        """
        same = [_is_same(column) for column in columns]
        sql = f"SELECT {' AND '.join(same)}, count(*) FROM {_JOINED}"
        try:
            stay = self._tenant.stay()
            with stay.registered(values=_places(row_ids), keys=stream):
                ((sound, found),) = stay.cursor.execute(sql).fetchall()
        except _FAILURES as error:
            raise_if_interrupted(error)
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
        texts = [
            f"CAST({quote(column.name)} AS VARCHAR) AS text_{i}" for i, column in enumerate(columns)
        ]
        order = ", ".join(f"text_{i} NULLS LAST" for i in range(len(columns)))
        sql = f"SELECT place, {', '.join(texts)} FROM {_JOINED} ORDER BY {order}"
        stay = self._tenant.stay()
        try:
            with stay.registered(values=_places(row_ids), keys=stream):
                found = stay.cursor.execute(sql)
                while rows := found.fetchmany(at_once):
                    places, *lists = zip(*rows, strict=True)
                    yield np.array(places, dtype=np.int64), [list(column) for column in lists]
        except _FAILURES as error:
            raise_if_interrupted(error)
            raise EngineError(EngineError.FIXED_REASON, code="engine_failed") from None

    def keys_of_texts(
        self, columns: Sequence[Column], texts: list[list[str | None]], row_ids: list[int]
    ) -> ArrowStream | None:
        """Read the keys that :meth:`key_texts` wrote, with row numbers; None for other texts."""
        names = [ROW_ID, *(quote(column.name) for column in columns)]
        keys = [f"CAST({quote(c.name)} AS {c.type}) AS {quote(c.name)}" for c in columns]
        unnested = unnest(names, ["BIGINT", *("VARCHAR" for _ in columns)])
        sql = f"SELECT {', '.join([ROW_ID, *keys])} FROM ({unnested})"
        try:
            rows = self._tenant.stay().cursor.cursor().sql(sql, params=[row_ids, *texts])
            return MaterializedStream(rows.materialize())
        except (*_FAILURES, ValueError) as error:
            raise_if_interrupted(error)
            return None


def _is_same(column: Column) -> str:
    """Write that the text of each key of a column is read as that key again."""
    key = quote(column.name)
    again = f"TRY_CAST(CAST({key} AS VARCHAR) AS {column.type})"
    return f"coalesce(bool_and({again} IS NOT DISTINCT FROM {key}), true)"


def _places(row_ids: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    return {ROW_ID: row_ids, "place": np.arange(len(row_ids))}
