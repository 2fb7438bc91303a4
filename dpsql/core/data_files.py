"""Data files outside of databases: their kinds, and the tables they make."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from dpsql.core.barred import is_barred, may_not_read
from dpsql.errors import InterfaceError

DUCKLAKE: Final = "ducklake:"
"""What stands before the path of a catalog of DuckLake's."""
SQLITE: Final = "sqlite:"
"""What stands before it as well, if that is a file of SQLite's."""
_GLOB = re.compile(r"[*?\[{]")
_ESCAPED: Final = re.compile(r"\[([*?\[{])\]")
_BEFORE_PATTERN: Final = re.compile(rf"(?:[^*?\[{{]|{_ESCAPED.pattern})*")
_COMPRESSED = (".gz", ".zst")
_WEB: Final = ("https", "http")
_MANGLED: Final = re.compile(r"(?i)(https?|s3|gs|gcs|r2):/[^/]")
_CATALOG: Final = re.compile(
    r"(?i)(ducklake:(?:mysql|postgres|quack|md)|iceberg|delta|quack|md|motherduck|postgres|mysql|"
    r"sqlite):"
)
_DELTA_LOG: Final = "_delta_log"
_METADATA: Final = re.compile(r"(?:^|[/\\])metadata[/\\][^/\\]+\.metadata\.json$")
_HINT: Final = "version-hint.text"
_STORES: Final = ("s3", "gs", "gcs", "r2")  # which list what they hold, as the web does not
MAX_FILES: Final = 10_000
"""The most files that are one table: each is looked into before any is read."""


class FileKind(Enum):
    """A format of files, by suffix; lakes are known by the contents of a directory."""

    PARQUET = (".parquet",)
    CSV = (".csv", ".tsv")
    JSON = (".json", ".jsonl", ".ndjson")
    DELTA = ("/_delta_log",)
    ICEBERG = (".metadata.json",)

    @property
    def is_lake(self) -> bool:
        """True if a log or metadata list the table's current files."""
        return self in (FileKind.DELTA, FileKind.ICEBERG)


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files of one kind that make a single table, called ``table``.

    ``paths`` are the whole paths of the files as DuckDB reads them (:func:`as_read`), or a pattern
    that is yet to be listed. Those of a directory are listed: a pattern would match what tools keep
    there while they write. Files elsewhere than on this computer (``remote``) have addresses
    instead. A table of a lake has one path, as it is: of Delta's
    directory, or of Iceberg's metadata as they are now.
    """

    table: str
    kind: FileKind
    paths: tuple[str, ...]
    remote: bool = False

    @property
    def pattern(self) -> str | None:
        """The pattern of files that are not listed yet; None if there is nothing to list."""
        (first, *_) = self.paths
        several = _is_remote_pattern(first) if self.remote else only_file(first) is None
        return first if several and not self.kind.is_lake else None

    def listed(self, found: Iterable[str]) -> DataFiles:
        """Return the same table of the files that its pattern was found to match.

        Without what is hidden or what tools mark as theirs, as in a directory. Raises
        ``InterfaceError`` (``file_missing``) if none is left, and (``file_kinds``) if they are too
        many or if the name of one could be taken for a pattern.
        """
        assert self.pattern is not None
        start = len(_fixed(self.pattern) if self.remote else directories_of(self.pattern)[-1])
        kept = sorted(each for each in found if not _is_hidden(each[start:].lstrip("/")))
        if not kept:
            raise _missing(self.pattern)
        if len(kept) > MAX_FILES:
            raise InterfaceError(
                f"{self.pattern} matches more than {MAX_FILES:,} files, the most of one table",
                code="file_kinds",
                hint="Write them again as fewer and larger files, which are read faster besides.",
            )
        if not self.remote:
            return replace(self, paths=tuple(map(as_read, kept)))
        if any(map(_is_remote_pattern, kept)):
            raise InterfaceError(
                f"{self.pattern} matches a file whose name could be taken for a pattern",
                code="file_kinds",
                hint="Give it a name without * ? [ and {.",
            )
        return replace(self, paths=tuple(kept))


def data_files(path: str | os.PathLike[str]) -> DataFiles | None:
    """Find the table that files make: one file, a pattern, or a directory.

    It is called after the file, or after the directory that they are in. None for a path that is
    that of a database, or of a lake's catalog. Raises ``InterfaceError`` (``file_missing``) where
    there is no such file, (``file_kinds``) for a directory with files of several kinds, or with
    tables of a lake, and (``address_unknown``) for an address that is none of files of data.
    """
    text = os.fspath(path)
    if is_address(text):
        return _of_address(text)
    _refuse_named_otherwise(text)
    if is_ducklake(text):
        return None
    table = _of_lake(text)
    if table is not None:
        return table
    if os.path.isdir(text):
        return _of_directory(os.path.abspath(text))
    _refuse_pattern_in_lake(text)
    several = _is_pattern(text)
    kind = _kind(text)
    if kind is None:
        if several:
            raise _missing(text)
        return None
    if several:
        return DataFiles(os.path.basename(home(text)), kind, (_whole_pattern(text),))
    if not os.path.isfile(text):
        raise _missing(text)
    return DataFiles(_stem(text), kind, (as_read(os.path.abspath(text)),))


def as_read(path: str) -> str:
    """Escape a file's path, as DuckDB would read it as a pattern.

    ``visits[1].parquet`` as it is would be read as ``visits1.parquet``.
    """
    return _GLOB.sub(r"[\g<0>]", path)


def only_file(path: str) -> str | None:
    """Return the file behind an escaped path; None for a pattern of several files."""
    file = _ESCAPED.sub(r"\1", path)
    return file if as_read(file) == path else None


def directories_of(pattern: str) -> tuple[str, ...]:
    """Return the directory above all files of a pattern, and its spelling in the pattern."""
    found = _BEFORE_PATTERN.match(pattern)
    assert found is not None
    written = os.path.dirname(found[0]) + "/"
    return tuple(dict.fromkeys((written, _ESCAPED.sub(r"\1", written))))


def is_address(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is the address of something that is not on this computer."""
    return "://" in os.fspath(path)


def is_ducklake(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is that of a catalog of DuckLake's: ``ducklake:clinic.ducklake``."""
    return os.fspath(path).lower().startswith(DUCKLAKE)


def is_in_sqlite(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is that of a catalog of DuckLake's in a file of SQLite's."""
    return os.fspath(path).lower().startswith(DUCKLAKE + SQLITE)


def bare_path(path: str | os.PathLike[str]) -> str:
    """Return a path without the names of formats before it."""
    text = os.fspath(path)
    for prefix in (DUCKLAKE + SQLITE, DUCKLAKE):
        if text.lower().startswith(prefix):
            return text[len(prefix) :]
    return text


def shown_address(address: str | os.PathLike[str]) -> str:
    """Return an address as it may be shown: without passwords and signatures."""
    bare = urlsplit(os.fspath(address))
    host = bare.netloc.rpartition("@")[2]
    return f"{bare.scheme}://{host}{bare.path}"


def table_name_for(path: str | os.PathLike[str]) -> str:
    """Return the name of a database or of files, without the suffix."""
    text = bare_path(path)
    if is_address(text):
        return _of_address(text).table
    return Path(_table_directory(text) or text).stem


def shown_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a database's file, or an address, as it may be shown."""
    text = bare_path(path)
    return shown_address(text) if is_address(text) else Path(text).name


def home(path: str | os.PathLike[str]) -> str:
    """Return the whole path that names a table of files, with its ledger beside it.

    A directory and all patterns of files below it have one, and so have a table of Iceberg's and
    each file of its metadata: another snapshot is no other budget.
    """
    text = bare_path(path)
    directory = _table_directory(text)
    if directory is not None:
        return directory
    if not _is_pattern(text):
        return os.path.abspath(text)
    found = _GLOB.search(text)
    assert found is not None
    return os.path.abspath(os.path.dirname(text[: found.start()]))


def last_written(path: str | os.PathLike[str]) -> datetime | None:
    """Return when a file, or the last of a pattern's, was written, in UTC; None without one.

    One that was moved or copied here counts as written then: it may be older than what it replaced.
    A file that has gone while it was looked for counts for none.
    """
    text = os.fspath(path)
    files = glob.glob(text, recursive=True) if _is_pattern(text) else [text]
    times = []
    for file in files:
        with contextlib.suppress(OSError):
            known = os.stat(file)
            times.append(max(known.st_mtime, known.st_ctime))
    return datetime.fromtimestamp(max(times), UTC) if times else None


def is_several(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path stands for all in a directory: its own, a pattern, or metadata of it."""
    text = bare_path(path)
    return os.path.isdir(text) or _is_pattern(text) or _table_directory(text) is not None


def _is_pattern(text: str) -> bool:
    return _GLOB.search(text) is not None and not os.path.exists(text)


def _whole_pattern(text: str) -> str:
    """Return a pattern with a whole path. The directory it is of now is part of no pattern."""
    return os.path.normpath(os.path.join(as_read(os.getcwd()), text))


def _of_address(text: str) -> DataFiles:
    """Tell which table the files of an address make. Nothing is looked up."""
    problem = _address_problem(text)
    if problem is not None:
        reason, hint = problem
        raise InterfaceError(reason, code="address_unknown", hint=hint)
    path = PurePosixPath(_path_of(text))
    kind = _kind(path.name)
    if kind is None:
        raise InterfaceError(
            f"{shown_address(text)} is no address of Parquet, CSV or JSON files",
            code="address_unknown",
            hint="It is told by the suffix: s3://bucket/visits.parquet, or a pattern for the files "
            "of a directory: s3://bucket/visits/**/*.parquet.",
        )
    table = PurePosixPath(_fixed(text)).name if _is_remote_pattern(text) else _stem(path.name)
    return DataFiles(table, kind, (text,), remote=True)


def _refuse_named_otherwise(text: str) -> None:
    """Refuse a mangled address or path that could name no file."""
    if os.path.exists(text):
        return
    if _MANGLED.match(text) is not None:
        raise InterfaceError(
            f"{text} has lost a slash: an address cannot be a Path",
            code="address_unknown",
            hint="Give it as text: 's3://bucket/visits.parquet'.",
        )
    found = _CATALOG.match(text)
    if found is not None:
        raise InterfaceError(
            f"{found[1]}: catalogs are not read",
            code="address_unknown",
            hint="Write the table to files or to a DuckDB database of yours, with the engine that "
            "reads it: COPY (FROM visits) TO 'visits.parquet'.",
        )


def _address_problem(text: str) -> tuple[str, str] | None:
    """Find a problem in an address: reason and hint, or None."""
    scheme, _, rest = text.partition("://")
    shown = f"{scheme}://…"
    if scheme not in (*_WEB, *_STORES):
        known = ", ".join(f"{each}://" for each in (*_WEB, *_STORES))
        return f"addresses of the kind {shown} are not read", f"Files are read from {known}."
    if not rest or re.search(r"[\x00-\x20\x7f]", rest):
        return (
            f"{shown} has a space or a control character in it",
            "Write it as %20 or the like.",
        )
    if scheme in _WEB:
        if "@" in rest.partition("/")[0]:
            hint = "Give them as a secret of type http: DuckDBEngine(files=…, secrets=[…])."
            return f"{shown} has a name or a password in it", hint
        if "*" in rest:
            return (
                f"{shown} is a pattern, and a web server does not list its files",
                "Give the address of one file.",
            )
    elif "?" in rest:
        hint = "Give what is meant as a secret: DuckDBEngine(files=…, secrets=[…])."
        return f"{shown} has a question mark in it", hint
    return None


def _path_of(address: str) -> str:
    """Return the path of an address: what follows the host or the bucket, without a query."""
    _, _, path = address.partition("://")[2].partition("/")
    return re.split(r"[?#]", path)[0] if address.startswith(_WEB) else path


def _is_remote_pattern(address: str) -> bool:
    return not address.startswith(_WEB) and _GLOB.search(address) is not None


def _fixed(pattern: str) -> str:
    """Return the directory that all files of a pattern of addresses are below."""
    found = _GLOB.search(pattern)
    assert found is not None
    return pattern[: found.start()].rpartition("/")[0]


def _is_hidden(path: str) -> bool:
    """Tell whether part of a path is hidden, or is marked by tools as theirs."""
    return any(part.startswith((".", "_")) for part in path.split("/"))


def _of_lake(text: str) -> DataFiles | None:
    """Find the lake's table at a path, if there is one."""
    directory = _table_directory(text)
    if directory is not None and os.path.isfile(text):
        whole = os.path.abspath(text)
        return DataFiles(os.path.basename(directory), FileKind.ICEBERG, (whole,))
    if not os.path.isdir(text):
        return None
    whole = os.path.abspath(text)
    if _is_delta(whole):
        return DataFiles(os.path.basename(whole), FileKind.DELTA, (whole,))
    if _is_iceberg(whole):
        return DataFiles(os.path.basename(whole), FileKind.ICEBERG, (_hinted(whole),))
    return None


def _is_delta(directory: str) -> bool:
    return os.path.isdir(os.path.join(directory, _DELTA_LOG))


def _is_iceberg(directory: str) -> bool:
    return any(glob.iglob(os.path.join(glob.escape(directory), "metadata", "*.metadata.json")))


def _table_directory(text: str) -> str | None:
    """Return the directory of the Iceberg table that a file is metadata of; None for others."""
    if _METADATA.search(text) is None:
        return None
    return os.path.dirname(os.path.dirname(os.path.abspath(text)))


def _hinted(directory: str) -> str:
    """Return the metadata that an Iceberg table says are its own. Raises ``InterfaceError``."""
    metadata = os.path.join(directory, "metadata")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        version = Path(metadata, _HINT).read_text(encoding="utf-8").strip()
        found = os.path.join(metadata, f"v{version}.metadata.json")
        if version.isdecimal() and os.path.isfile(found):
            return found
    raise InterfaceError(
        f"{directory} is an Iceberg table that does not say which of its metadata are current",
        code="file_missing",
        hint="Give the file that its catalog names: 'visits/metadata/00003-….metadata.json'.",
    )


def _refuse_pattern_in_lake(text: str) -> None:
    """Refuse a pattern of a lake's files: some of them have rows that are in the table no more."""
    if not _is_pattern(text):
        return
    seen = set()
    for file in glob.iglob(_whole_pattern(text), recursive=True):
        directory = os.path.dirname(file)
        while directory not in seen:
            seen.add(directory)
            if _is_delta(directory) or _is_iceberg(directory):
                raise _in_lake(directory)
            directory = os.path.dirname(directory)


def _in_lake(directory: str) -> InterfaceError:
    return InterfaceError(
        f"{directory} is a table of a lake, among whose files are some that it has no more",
        code="file_kinds",
        hint="Give the directory itself, and one for each table.",
    )


def _of_directory(directory: str) -> DataFiles:
    for place, directories, _ in os.walk(directory):
        if _DELTA_LOG in directories or ("metadata" in directories and _is_iceberg(place)):
            raise _in_lake(place)
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
    return DataFiles(os.path.basename(directory), kind, tuple(map(as_read, files)))


def _below(directory: str) -> Iterator[str]:
    """Yield the files below a directory, but not what is hidden or marked by tools as theirs."""
    for place, directories, files in os.walk(directory, onerror=_refuse_unread):
        directories[:] = [name for name in directories if not name.startswith((".", "_"))]
        yield from (os.path.join(place, name) for name in files if not name.startswith((".", "_")))


def _refuse_unread(error: OSError) -> None:
    """Refuse a directory that cannot be listed: a table without some of its files is another."""
    raise may_not_read(error.filename)


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
    if not is_address(text) and is_barred(home(text)):
        return may_not_read(text)
    return InterfaceError(
        f"there is no file {text}",
        code="file_missing",
        hint="Give a DuckDB database, a Parquet, CSV or JSON file, a directory of such files, or a "
        "pattern that ends in their suffix: 'visits/*.parquet'.",
    )
