"""Upgrading ledgers of older versions: in one transaction, and a file with a copy of it beside."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import LedgerError
from dpsql.ledger import migration_2, migration_3
from dpsql.ledger.backend import Backend
from dpsql.ledger.replay import BrokenError
from dpsql.ledger.schema import SCHEMA_VERSION
from dpsql.ledger.sqlite import SQLiteBackend, schema_of
from dpsql.ledger.verify import verify


@dataclass(frozen=True, slots=True)
class _Upgrade:
    """From one version to the present one: the SHA-256 of its tables and rules, and the work."""

    schema: str
    rewrite: Callable[[sqlite3.Connection], None]


_UPGRADES = {
    2: _Upgrade(migration_2.SCHEMA, migration_2.rewrite),
    3: _Upgrade(migration_3.SCHEMA, migration_3.rewrite),
}
OLD_VERSIONS = frozenset(_UPGRADES)
"""The versions of files that can be upgraded."""

OLD_POSTGRES = 3
"""The version in PostgreSQL that can be upgraded."""

_TRIGGERS = "SELECT name FROM sqlite_schema WHERE type = 'trigger'"


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the open ledger file at ``path`` to the present version, if nobody has done so yet.

    Raises :class:`LedgerError`, leaving the file as it was, if it is not a sound ledger of its
    version, and ``sqlite3.Error``.
    """
    connection.execute("BEGIN EXCLUSIVE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version in _UPGRADES:
            try:
                _upgrade(connection, _UPGRADES[version])
            except BrokenError as broken:
                raise _damaged(version, str(broken)) from None
            _copy(path, version)  # others still see the old ledger until the commit
            connection.execute("COMMIT")
    finally:
        connection.rollback()


def migrate_postgres(backend: Backend) -> None:
    """Bring a ledger of ``OLD_POSTGRES`` to the present version, if nobody has done so yet.

    Raises :class:`LedgerError`, changing nothing, if it is not sound or not ours to alter.
    """
    backend.begin_write()
    try:
        if backend.execute("SELECT version FROM head") == [(OLD_POSTGRES,)]:
            try:
                migration_3.alter(backend)
                _require_sound(backend)
            except BrokenError as broken:
                raise _damaged(OLD_POSTGRES, str(broken)) from None
            backend.commit()
    finally:
        backend.rollback()


def _upgrade(connection: sqlite3.Connection, upgrade: _Upgrade) -> None:
    schema = hashlib.sha256(json.dumps(schema_of(connection)).encode()).hexdigest()
    integrity = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if schema != upgrade.schema or integrity != ("ok",):
        raise BrokenError("its tables or rules were altered")
    for (trigger,) in connection.execute(_TRIGGERS).fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    upgrade.rewrite(connection)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    _require_sound(SQLiteBackend(connection))


def _require_sound(sql: Backend) -> None:
    found = verify(sql)
    if not found.sound:
        raise BrokenError(f"upgraded, it would not be sound: {found.broken}")


def _copy(path: Path, version: int) -> None:
    """Keep the old ledger beside the new one, under a name that nothing has yet."""
    descriptor, temporary = tempfile.mkstemp(prefix=".ledger-", dir=path.parent)  # mode 0600
    os.close(descriptor)
    try:
        with (
            contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(temporary)) as target,
        ):
            source.backup(target)
        _sync(temporary)
        _link(temporary, _names(path, version))
        _sync(path.parent)
    except OSError:
        raise LedgerError(
            "the old ledger cannot be copied before it is upgraded",
            code="ledger_cannot_create",
            hint="give this user write permission on its directory, and free some space",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _names(path: Path, version: int) -> Iterator[Path]:
    plain = path.with_name(f"{path.name}.version-{version}")
    yield plain
    for number in range(1, 1000):
        yield plain.with_name(f"{plain.name}.{number}")


def _link(existing: str, names: Iterable[Path]) -> None:
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.link(existing, name)
            return
    raise FileExistsError


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(version: int, what: str) -> LedgerError:
    return LedgerError(
        f"the ledger of version {version} is damaged: {what}",
        code="ledger_corrupt",
        hint="restore it from a backup; it was not changed",
    )
