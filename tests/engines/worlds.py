"""The engine worlds that need nothing beside Python."""

from __future__ import annotations

import datetime
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from functools import cache

import duckdb
import pyarrow as pa
from engine_world import EngineWorld, Filled
from helpers.support import FILL, TABLES

from dpsql.core.quoting import quote
from dpsql.engines.duckdb.engine import DuckDBEngine, OpenDuckDB


def sql_of(value: object, type_: str) -> str:
    """A value as SQL that DuckDB and PostgreSQL read alike."""
    if value is None:
        return f"CAST(NULL AS {type_})"
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
        return f"CAST('{name}' AS {type_})"
    if isinstance(value, str):
        return "CAST('{}' AS {})".format(value.replace("'", "''"), type_)
    if isinstance(value, datetime.date | datetime.time):
        text = value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
        return f"CAST('{text}' AS {type_})"
    if isinstance(value, bool | Decimal | uuid.UUID | int | float):
        return f"CAST('{value!s}' AS {type_})"
    raise TypeError(type_)


def values_of(table: Filled, types: Mapping[str, str] | None = None) -> str:
    """The rows of a table as VALUES, cast to its types, or to what an engine calls them."""
    named = [types[kind] if types else kind for _, kind in table.columns]
    rows = (
        ", ".join(sql_of(value, kind) for value, kind in zip(row, named, strict=True))
        for row in table.rows
    )
    return ", ".join(f"({row})" for row in rows)


class DuckDBWorld(EngineWorld):
    """DuckDB in memory: a new engine for every filling."""

    def __init__(self) -> None:
        self._database: DuckDBEngine | None = None

    @property
    def name(self) -> str:
        return "duckdb"

    @property
    def types(self) -> frozenset[str]:
        return frozenset(
            {"BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(12,2)"}
            | {"DECIMAL(38,10)", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "UUID"}
        )

    def engine(self, tables: Mapping[str, Filled]) -> OpenDuckDB:
        return self.database(tables).open(tables)

    def database(self, tables: Mapping[str, Filled]) -> DuckDBEngine:
        """The database that has these tables, for those who connect to it."""
        self.close()
        self._database = engine = DuckDBEngine()
        with duckdb.connect(":memory:", config={"threads": "1"}) as maker:
            for name, table in tables.items():
                columns = ", ".join(f"{quote(c)} {t}" for c, t in table.columns)
                maker.execute(f"CREATE TABLE {quote(name)} ({columns})")
                if table.rows:
                    maker.execute(f"INSERT INTO {quote(name)} VALUES {values_of(table)}")
                arrow: pa.Table = maker.table(name).to_arrow_table()
                engine.register(name, arrow)
        return engine

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None

    @property
    def failing(self) -> str:
        return "SELECT 1 AS __dpsql_rid, CAST('quoted-value' || random() AS INTEGER) AS m"

    @property
    def endless(self) -> str:
        return (
            "SELECT 1 AS __dpsql_rid, count(*) AS m "
            "FROM range(10000000) a(x), range(10000000) b(y) WHERE hash(x, y) = 1"
        )


@cache
def small_tables() -> Mapping[str, Filled]:
    """The small world's tables with their usual rows."""
    with duckdb.connect(":memory:", config={"threads": "1"}) as maker:
        for statement in (*TABLES.values(), *FILL):
            maker.execute(statement)
        found = {}
        for name in TABLES:
            table = maker.table(name)
            columns = tuple((c, str(t)) for c, t in zip(table.columns, table.types, strict=True))
            found[name] = Filled(columns, maker.execute(f"SELECT * FROM {name}").fetchall())
        return found
