"""Keys of types that JSON does not have, as the engine's texts and back: for the ledger."""

from __future__ import annotations

from collections.abc import Sequence

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
        texts, same = [], []
        for column in columns:
            key = quote(column.name)
            texts.append(f"list(CAST({key} AS VARCHAR) ORDER BY place)")
            again = f"TRY_CAST(CAST({key} AS VARCHAR) AS {column.type})"
            same.append(f"coalesce(bool_and({again} IS NOT DISTINCT FROM {key}), true)")
        sql = (
            f"SELECT {' AND '.join(same)}, count(*), {', '.join(texts)} "
            f"FROM __dpsql_values JOIN __dpsql_keys USING ({ROW_ID})"
        )
        values = {ROW_ID: row_ids, "place": np.arange(len(row_ids))}
        try:
            stay = self._tenant.stay()
            with stay.registered(values=values, keys=stream):
                ((sound, found, *lists),) = stay.cursor.execute(sql).fetchall()
        except _FAILURES as error:
            raise_if_interrupted(error)
            return None
        return [each or [] for each in lists] if sound and found == len(row_ids) else None

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
