"""Proofs of files: each is read whole once, after which no statement over it can fail on a row.

A Parquet file may hold what makes its reader raise (text of invalid UTF-8, a time beyond a day, a
damaged page), and which parts are read depends on rows. So ``dpsql check`` reads every file to its
end and remembers those that can be, by what they are: size, time and a digest of both ends. Opening
reads no row to find out, since a refusal would tell of one: it compares. Files that nobody has
read, or that have changed since, are refused as a fact of their names and times.

What is remembered lies among the owner's own data, as the tables of surveys do.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import duckdb

from dpsql.core.data_files import as_read, is_address
from dpsql.core.sql import join, literal, sql
from dpsql.engines.embedded.interruptible import interruptibly
from dpsql.engines.embedded.running import execute
from dpsql.engines.evidence.verdicts import owners_directory
from dpsql.errors import InterfaceError

_HEAD: Final = 1 << 12
_TAIL: Final = 1 << 16
"""Bytes of both ends of a file that are digested: the footer of a Parquet file is at its end."""
Stamp = tuple[int, int]
"""The size of a file and the time it was written, in nanoseconds."""


def proofs_directory() -> Path:
    """Return where it is remembered which files were read whole, among this user's data."""
    return owners_directory().parent / "proved"


def stamps_of(files: Sequence[str]) -> Mapping[str, Stamp | None]:
    """Read size and time of local files; None for a missing file."""
    found: dict[str, Stamp | None] = {}
    for file in files:
        if not is_address(file):
            found[file] = None
            with suppress(OSError, ValueError):  # of a path that no file can have, too
                known = os.stat(file)
                found[file] = (known.st_size, known.st_mtime_ns)
    return found


def prove(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> bool:
    """Read Parquet files whole, and remember those that can be; tells whether all can.

    Files that were read before are not read again. Raises ``InterfaceError`` (``proof_not_kept``)
    if it cannot be remembered.
    """
    known = _remembered(files)
    before = {file: _identity(connection, file) for file in files}
    missing = [file for file in files if before[file] is None or known.get(file) != before[file]]
    readable = missing if _reads_all(connection, missing) else []
    if missing and not readable:
        readable = [file for file in missing if _reads_all(connection, [file])]
    # What was written while it was read is not what was read.
    kept = {file: found for file in readable if (found := _identity(connection, file)) is not None}
    _remember({file: found for file, found in kept.items() if found == before[file]})
    return len(kept) == len(missing) and all(kept[file] == before[file] for file in missing)


def is_proved(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> bool:
    """Tell whether files are those that were read whole. Reads none of their rows."""
    known = _remembered(files)
    return all(
        file in known and known[file] == _identity(connection, file)
        for file in dict.fromkeys(files)
    )


def _reads_all(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> bool:
    """Tell whether every value of some files can be read."""
    if not files:
        return True
    paths = (file if is_address(file) else as_read(file) for file in files)
    every = sql(
        "SELECT bit_xor(hash(whole)) FROM read_parquet([{}], hive_partitioning=false) AS whole",
        join(", ", map(literal, paths)),
    )
    try:
        interruptibly(lambda: execute(connection, every).fetchall(), connection.interrupt)
    except duckdb.Error:
        return False
    return True


def _identity(connection: duckdb.DuckDBPyConnection, file: str) -> str | None:
    """Identify a file without reading its rows; None for a missing file."""
    if is_address(file):
        return _remote_identity(connection, file)
    try:
        with open(file, "rb") as opened:
            known = os.fstat(opened.fileno())
            digest = hashlib.sha256(opened.read(_HEAD))
            opened.seek(max(0, known.st_size - _TAIL))
            digest.update(opened.read(_TAIL))
    except OSError:
        return None
    return _written(known.st_size, known.st_mtime_ns, digest.hexdigest())


def _remote_identity(connection: duckdb.DuckDBPyConnection, address: str) -> str | None:
    try:
        place = literal(address)
        about = sql("SELECT size, last_modified::VARCHAR FROM read_blob({})", place)
        row = execute(connection, about).fetchone()
        digest = sql(
            "SELECT md5(string_agg(f::VARCHAR, '' ORDER BY f::VARCHAR)) "
            "FROM parquet_metadata({}) AS f",
            place,
        )
        footer = execute(connection, digest).fetchone()
    except duckdb.Error:
        return None
    return None if row is None or footer is None else _written(*row, *footer)


def _written(*parts: object) -> str:
    """Write the identity of a file, for this version of its reader."""
    return " ".join(map(str, (f"duckdb-{duckdb.__version__}", *parts)))


# -- what is remembered ---------------------------------------------------------------------------


def _remembered(files: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for directory in {os.path.dirname(file) for file in files}:
        found |= _kept(_place(directory))
    return found


def _place(directory: str) -> Path:
    """Name the file that stores the proofs of a directory."""
    digest = hashlib.sha256(directory.encode("utf-8", "surrogatepass")).hexdigest()
    return proofs_directory() / f"{digest[:32]}.json"


def _kept(place: Path) -> dict[str, str]:
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(proved: Mapping[str, str]) -> None:
    by_directory: dict[str, dict[str, str]] = defaultdict(dict)
    for file, identity in proved.items():
        by_directory[os.path.dirname(file)][file] = identity
    for directory, found in by_directory.items():
        place = _place(directory)
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as whole:
                json.dump(_kept(place) | found, whole)
            Path(whole.name).replace(place)
        except OSError:
            raise InterfaceError(
                f"the proofs of files cannot be stored in {place.parent}",
                code="proof_not_kept",
                hint="Make the directory, or set XDG_DATA_HOME to one that this user may write to.",
            ) from None
