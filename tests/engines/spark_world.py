"""Spark as an engine world: a local session, each filling a database of Parquet tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from engine_world import EngineWorld, Filled
from spark_sessions import can_connect, served, started

from dpsql.engines.evidence.verdicts import EngineVersion, is_surveyed
from dpsql.engines.spark.engine import OpenSpark, SparkEngine
from dpsql.engines.spark.text import spark_quote
from dpsql.survey.keep import keep_surveys

_ARROW = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}
_NUMBERS = itertools.count()


def arrow_of(table: Filled) -> pa.Table:
    """The rows of a table in Arrow's types."""
    lists = list(zip(*table.rows, strict=True)) or [() for _ in table.columns]
    arrays = {}
    for (name, type_), values in zip(table.columns, lists, strict=True):
        kind = _ARROW.get(type_)
        if kind is None:
            digits, scale = type_.removeprefix("DECIMAL(").rstrip(")").split(",")
            kind = pa.decimal128(int(digits), int(scale))
        arrays[name] = pa.array(values, type=kind)
    return pa.table(arrays)


class SparkWorld(EngineWorld):
    """Tables are written where the catalog keeps them, and read by an engine of their own."""

    def __init__(self, session: Any = None, snapshot: Any = "copy") -> None:
        self.session = started() if session is None else session
        if not is_surveyed(EngineVersion.of("spark", self.session.version)):
            list(keep_surveys(SparkEngine(self.session)))  # as an owner would
        self._snapshot = snapshot
        self._database = ""
        self._engine: SparkEngine | None = None
        self._filled: dict[str, Filled] = {}

    @property
    def name(self) -> str:
        return "spark"

    @property
    def types(self) -> frozenset[str]:
        return frozenset(
            {"BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(12,2)"}
            | {"DECIMAL(38,10)", "VARCHAR", "DATE", "TIMESTAMP"}
        )

    def engine(self, tables: Mapping[str, Filled]) -> OpenSpark:
        if self._engine is not None and self._filled == dict(tables):
            return self._engine.open(tables)
        self._clear()
        self._database = f"world{next(_NUMBERS)}"
        self.session.sql(f"CREATE DATABASE {self._database}")
        for name, table in tables.items():
            self._fill(f"{self._database}.{spark_quote(name)}", table)
        self.session.sql(f"USE {self._database}")
        self._filled = dict(tables)
        self._engine = SparkEngine(self.session, snapshot=self._snapshot)
        return self._engine.open(tables)

    def _fill(self, name: str, table: Filled) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        rows = arrow_of(table)
        frame = self.session.createDataFrame(rows, schema=from_arrow_schema(rows.schema, True))
        frame = frame.coalesce(1)
        frame.write.format("parquet").saveAsTable(name)

    def _clear(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self.session.sql("USE default")
            self.session.sql(f"DROP DATABASE {self._database} CASCADE")
        self._engine = None

    def close(self) -> None:
        self._clear()

    @property
    def failing(self) -> str:
        return "SELECT 1 AS __dpsql_rid, CAST(concat('quoted-value', rand()) AS INT) AS m"

    @property
    def endless(self) -> str:
        return (
            "SELECT 1 AS __dpsql_rid, count(*) AS m FROM range(0, 10000000, 1, 4) a "
            "CROSS JOIN range(10000000) b WHERE xxhash64(a.id, b.id) = 1"
        )

    @property
    def lenient(self) -> Callable[[str, str], str | None]:
        return lambda title, code: REFUSED.get(title)


@contextmanager
def spark_world(kind: str) -> Iterator[SparkWorld]:
    """A world of a session in this process (``classic``), or of one on a server (``connect``)."""
    if kind == "classic":
        world = SparkWorld()
        yield world
        world.close()
        return
    if not can_connect():
        pytest.skip("this pyspark has no sessions beside others")
    from pyspark.sql import SparkSession

    with served() as url:
        session = SparkSession.builder.remote(url).create()
        world = SparkWorld(session)
        yield world
        world.close()
        session.stop()


REFUSED: Mapping[str, str] = {
    "A key that is an interval, made distinct first": "it has no intervals",
}
"""The golden cases that Spark's table refuses, and why."""
