"""Lakes: tables of DuckLake, Delta and Iceberg, each read as one snapshot has it.

Among the files of a lake are some that its tables have no more, and writers add others while
questions run. So what is read is a snapshot, which is settled when the data are opened, before a
connection is locked: all steps of all its questions see that one, however many come after it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from dpsql.core.data_files import (
    DUCKLAKE,
    SQLITE,
    DataFiles,
    FileKind,
    bare_path,
    is_address,
    is_in_sqlite,
)
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Remark
from dpsql.core.sql import Sql, literal, name, sql
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Definition
from dpsql.engines.duckdb.attached import not_attached, refuse_missing
from dpsql.engines.duckdb.extensions import load_extension
from dpsql.engines.duckdb.views import DATA
from dpsql.engines.embedded.running import execute
from dpsql.errors import InterfaceError

_NEEDED_BY: Final = "tables of lakes"
_INSTEAD: Final = "write the tables to Parquet files or to a DuckDB file, and open these"
_EXTENSIONS: Final = {FileKind.DELTA: ("delta",), FileKind.ICEBERG: ("avro", "iceberg")}
_LOOKED_INTO: Final = f"{INTERNAL_PREFIX}lake"
_VERSION: Final = re.compile(r"(\d{20})\.(?:json|checkpoint\b.*\.parquet)")
_LOCAL: Final = re.compile(r"(?i)^file:(?://(?=/))?")
_DELETED: Final = "DELETED"

_VIEW: Final = Remark(
    "is a view of a lake, and dpsql cannot tell whether what it computes can fail on a row",
    "List the tables that it reads, or store its rows as a table.",
)
_ELSEWHERE: Final = Remark(
    "has files that are not on this computer, or whose paths are not whole",
    "Give lakes a data path on this computer that begins with a slash, or write the table to "
    "Parquet files: these are read over the network.",
)
_GONE: Final = Remark(
    "has files that are gone, or may not be read by this user",
    "Open the data again for the snapshot of now, and look at who may read its files.",
)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table of a lake as one snapshot has it.

    ``query`` reads its rows, from ``files`` and from no others. ``snapshot`` names it: ``delta 7``.
    """

    query: Sql
    files: tuple[str, ...]
    snapshot: str


# -- Delta and Iceberg -------------------------------------------------------------------------


def pinned(connection: duckdb.DuckDBPyConnection, table: DataFiles) -> Pinned:
    """Find the present snapshot of a lake's table, in a connection that is not locked yet.

    Raises ``InterfaceError``: ``extension_missing`` where DuckDB's extension is not installed,
    ``table_unreadable`` for what it cannot read.
    """
    for extension in _EXTENSIONS[table.kind]:
        load_extension(connection, extension, _NEEDED_BY, _INSTEAD)
    (path,) = table.paths
    with suppress(duckdb.Error, OSError, ValueError, KeyError):
        found = _of_delta if table.kind is FileKind.DELTA else _of_iceberg
        return found(connection, path)
    raise InterfaceError(
        f"{path} cannot be read as a table of {table.kind.name.title()}",
        code="table_unreadable",
        hint="It may have no rows yet, be written in a way that the extension of "
        f"DuckDB {duckdb.__version__} does not know, or not be for this user to read.",
    )


def _of_delta(connection: duckdb.DuckDBPyConnection, path: str) -> Pinned:
    """Find the last version of the table in its log, and the files of that version."""
    found = map(_VERSION.fullmatch, os.listdir(os.path.join(path, "_delta_log")))
    version = max(int(name[1]) for name in found if name is not None)
    at = sql("{}, version => {}", literal(path), version)
    files = execute(connection, sql("SELECT data_file FROM delta_list_files({})", at)).fetchall()
    return Pinned(
        sql("SELECT * FROM delta_scan({})", at),
        _local(file for (file,) in files),
        f"delta {version}",
    )


def _of_iceberg(connection: duckdb.DuckDBPyConnection, path: str) -> Pinned:
    """Find the current snapshot of the metadata, its files, and the lists that name these."""
    snapshot = int(json.loads(Path(path).read_text(encoding="utf-8"))["current-snapshot-id"])
    at = sql("{}, snapshot_from_id => {}", literal(path), snapshot)
    snapshots = sql("SELECT manifest_list FROM iceberg_snapshots({})", literal(path))
    lists = execute(connection, sql("{} WHERE snapshot_id = {}", snapshots, snapshot)).fetchall()
    manifests = execute(
        connection,
        sql("SELECT manifest_path, file_path, status FROM iceberg_metadata({})", at),
    ).fetchall()
    named = [path, *(name for (name,) in lists), *(manifest for manifest, _, _ in manifests)]
    named += [file for _, file, status in manifests if status != _DELETED]
    return Pinned(sql("SELECT * FROM iceberg_scan({})", at), _local(named), f"iceberg {snapshot}")


# -- DuckLake ----------------------------------------------------------------------------------


def attach_ducklake(connection: duckdb.DuckDBPyConnection, path: str | Path) -> int:
    """Open the data of a DuckLake for reading, as they are now; returns the snapshot's number.

    ``path``: ``ducklake:clinic.ducklake``, or ``ducklake:sqlite:clinic.sqlite``. Raises
    ``InterfaceError`` if it is missing, cannot be read, or is being written to, and
    (``extension_missing``) where an extension of DuckDB is not installed.
    """
    catalog = Path(bare_path(path))
    refuse_missing(catalog)
    in_sqlite = is_in_sqlite(path)
    for extension in (*(["sqlite_scanner"] if in_sqlite else []), "ducklake"):
        load_extension(connection, extension, _NEEDED_BY, _INSTEAD)
    source = literal(f"{DUCKLAKE}{SQLITE if in_sqlite else ''}{catalog.absolute()}")
    try:
        looked_into = name(_LOOKED_INTO)
        execute(connection, sql("ATTACH {} AS {} (READ_ONLY)", source, looked_into))
        current = sql("SELECT id FROM ducklake_current_snapshot({})", literal(_LOOKED_INTO))
        ((snapshot,),) = execute(connection, current).fetchall()
        execute(connection, sql("DETACH {}", looked_into))
        attached = sql(
            "ATTACH {} AS {} (READ_ONLY, SNAPSHOT_VERSION {})", source, name(DATA), int(snapshot)
        )
        execute(connection, attached)
    except duckdb.Error as error:
        refusal = not_attached(catalog, error, "DuckLake catalog")
    else:
        return int(snapshot)
    raise refusal


def ducklake_definition(
    connection: duckdb.DuckDBPyConnection, table: TableName, is_view: bool, snapshot: int
) -> Definition:
    """Describe the files that a table of a DuckLake has in a snapshot."""
    if is_view:
        return Definition(_VIEW)
    listed = sql(
        "SELECT data_file, delete_file FROM ducklake_list_files("
        "{}, {}, schema => {}, snapshot_version => {})",
        literal(DATA),
        literal(table.table),
        literal(table.schema),
        snapshot,
    )
    rows = execute(connection, listed).fetchall()
    return files_definition(_local(file for row in rows for file in row if file))


# -- files -------------------------------------------------------------------------------------


def files_definition(files: Sequence[str]) -> Definition:
    """Describe the definition of a table that reads exactly these files."""
    if any(is_address(file) or not os.path.isabs(file) for file in files):
        return Definition(_ELSEWHERE)
    if not all(os.access(file, os.R_OK) for file in files):
        return Definition(_GONE)
    proved = tuple(file for file in files if file.lower().endswith(".parquet"))
    return Definition(None, files=tuple(files), proved=proved)


def _local(names: Iterable[str]) -> tuple[str, ...]:
    """Return each file once, those that are named as URLs of this computer by their paths."""
    return tuple(dict.fromkeys(_LOCAL.sub("", name) for name in names))
