"""Opens the engine of a place: files of data, or the address of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard
from urllib.parse import unquote, urlsplit

import duckdb

from dpsql.core.data_files import shown_name
from dpsql.engines.base.engine import Database
from dpsql.engines.duckdb.engine import open_database
from dpsql.engines.evidence.verdicts import EngineVersion, is_surveyed
from dpsql.engines.spark.sessions import is_spark_session, is_spark_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DatabasePlace: TypeAlias = str | Path
"""The path of a database or of files, or the URL of a database on a server."""
_SCHEMES = ("postgresql://", "postgres://")


def is_server(place: object) -> bool:
    """Tell whether a place is the URL of a database on a server: no path, and no file's address."""
    return isinstance(place, str) and (place.lower().startswith(_SCHEMES) or is_spark_url(place))


def open_engine(place: DatabasePlace) -> Database:
    """Open the database at a place. Raises ``InterfaceError`` if there is none."""
    if not is_server(place):
        return open_database(place)
    if str(place).lower().startswith(_SCHEMES):
        from dpsql.engines.postgresql.engine import PostgreSQLEngine

        return PostgreSQLEngine(str(place))
    from dpsql.engines.spark.engine import SparkEngine

    return SparkEngine(str(place))


def unsurveyed(version: EngineVersion) -> tuple[EngineVersion, ...]:
    """List the versions without a survey, among a database's own and DuckDB's."""
    needed = dict.fromkeys((EngineVersion.of("duckdb", duckdb.__version__), version))
    return tuple(each for each in needed if not is_surveyed(each))


def is_session(place: object) -> TypeGuard[SparkSession]:
    """Tell whether a value is an engine's session with tables."""
    return is_spark_session(place)


def engine_of_session(session: SparkSession) -> Database:
    """Return an engine over the tables of a session. Raises ``InterfaceError``."""
    from dpsql.engines.spark.engine import SparkEngine

    return SparkEngine(session)


def place_name(place: DatabasePlace) -> str:
    """Return a short name of a database: that of its file, or the one on its server."""
    if not is_server(place):
        return shown_name(place)
    try:
        return unquote(urlsplit(str(place)).path.strip("/")) or "database"
    except ValueError:
        return "database"
