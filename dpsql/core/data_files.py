"""Files of data that are no database: which there are, of which kind, and which table they make."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from dpsql.errors import InterfaceError

_GLOB = re.compile(r"[*?\[{]")
_COMPRESSED = (".gz", ".zst")


class FileKind(Enum):
    """A format of files, by its suffixes."""

    PARQUET = (".parquet",)
    CSV = (".csv", ".tsv")
    JSON = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files of one kind that are one table, called ``table``.

    ``paths`` are the whole paths of the files, or a pattern for them. Those of a directory are
    listed: a pattern would match what tools keep there while they write.
    """

    table: str
    kind: FileKind
    paths: tuple[str, ...]


def data_files(path: str | os.PathLike[str]) -> DataFiles | None:
    """Tell which table files make: one, those of a pattern, or all below a directory.

    It is called after the file, or after the directory that they are in. None for a path that is
    that of a database. Raises ``InterfaceError`` (``file_missing``) where there is no such file,
    and (``file_kinds``) for a directory with files of several kinds.
    """
    text = os.fspath(path)
    if os.path.isdir(text):
        return _of_directory(os.path.abspath(text))
    several = _is_pattern(text)
    kind = _kind(text)
    if kind is None:
        if several:
            raise _missing(text)
        return None
    if several:
        return DataFiles(os.path.basename(home(text)), kind, (os.path.abspath(text),))
    if not os.path.isfile(text):
        raise _missing(text)
    return DataFiles(_stem(text), kind, (os.path.abspath(text),))


def home(path: str | os.PathLike[str]) -> str:
    """Return the whole path of what files are called after, beside which their ledger is.

    A directory and all patterns of files below it have one.
    """
    text = os.fspath(path)
    if not _is_pattern(text):
        return os.path.abspath(text)
    found = _GLOB.search(text)
    assert found is not None
    return os.path.abspath(os.path.dirname(text[: found.start()]))


def last_written(path: str | os.PathLike[str]) -> datetime | None:
    """Return when a file, or the last of a pattern's, was written, in UTC; None without one.

    A file that has gone while it was looked for counts for none.
    """
    text = os.fspath(path)
    files = glob.glob(text, recursive=True) if _is_pattern(text) else [text]
    times = []
    for file in files:
        with contextlib.suppress(OSError):
            times.append(os.stat(file).st_mtime)
    return datetime.fromtimestamp(max(times), UTC) if times else None


def is_several(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is that of a directory, or a pattern."""
    return os.path.isdir(path) or _is_pattern(os.fspath(path))


def _is_pattern(text: str) -> bool:
    return _GLOB.search(text) is not None and not os.path.exists(text)


def _of_directory(directory: str) -> DataFiles:
    files = sorted(file for file in _below(directory) if _suffix(file))
    suffixes = set(map(_suffix, files))
    if not suffixes:
        raise InterfaceError(
            f"there is no Parquet, CSV or JSON file in {directory}",
            code="file_missing",
            hint="A directory is one table: that of the files of one kind below it.",
        )
    if len(suffixes) > 1:
        raise InterfaceError(
            f"{directory} has files of several kinds: {', '.join(sorted(suffixes))}",
            code="file_kinds",
            hint=f"Name those that are meant: {directory}/**/*{min(suffixes)}",
        )
    (suffix,) = suffixes
    kind = _kind(suffix)
    assert kind is not None
    return DataFiles(os.path.basename(directory), kind, tuple(files))


def _below(directory: str) -> Iterator[str]:
    """Yield the files below a directory, but not what is hidden or marked by tools as theirs."""
    for place, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith((".", "_"))]
        yield from (os.path.join(place, name) for name in files if not name.startswith((".", "_")))


def _suffix(name: str) -> str:
    """Return the suffix of a file of data, with that of its compression; empty for others."""
    bare, end = os.path.splitext(name.lower())
    if end in _COMPRESSED:
        end = os.path.splitext(bare)[1] + end
    return end if _kind(end) is not None else ""


def _kind(text: str) -> FileKind | None:
    lower = text.lower()
    compressed = next((end for end in _COMPRESSED if lower.endswith(end)), "")
    bare = lower.removesuffix(compressed)
    found = next((kind for kind in FileKind if bare.endswith(kind.value)), None)
    return None if compressed and found is FileKind.PARQUET else found


def _stem(text: str) -> str:
    path = Path(text)
    return Path(path.stem).stem if path.suffix.lower() in _COMPRESSED else path.stem


def _missing(text: str) -> InterfaceError:
    return InterfaceError(
        f"there is no file {text}",
        code="file_missing",
        hint="Give a DuckDB database, a Parquet, CSV or JSON file, a directory of such files, or a "
        "pattern that ends in their suffix: 'visits/*.parquet'.",
    )
