"""The SQLite file of a server's users: how it is made, recognised and opened.

It appears whole or not at all, readable by its owner alone. A file that is not one of these, or one
that others may read, is refused as it is.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from dpsql.core.formatting import printable
from dpsql.errors import InterfaceError

if sys.platform != "win32":
    import fcntl

USERS_APPLICATION: Final = 0x64707375
"""Marks a SQLite file as one of users: the letters ``dpsu``."""

USERS_VERSION: Final = 3

# ``secret`` and ``no_hash`` answer for users who do not exist. All verifiers have the same number
# of iterations, as another number would tell who exists.
USERS_SCHEMA: Final = """
CREATE TABLE settings (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    secret     BLOB NOT NULL CHECK (length(secret) = 32),
    iterations INTEGER NOT NULL CHECK (iterations >= 4096),
    no_hash    TEXT NOT NULL
) STRICT;
CREATE TABLE users (
    name     TEXT PRIMARY KEY,
    roles    TEXT NOT NULL,
    accounts TEXT NOT NULL CHECK (json_valid(accounts)),
    verifier TEXT NOT NULL,
    hash     TEXT NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    created  INTEGER NOT NULL,
    changed  INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (
    user      TEXT NOT NULL REFERENCES users,
    name      TEXT NOT NULL,
    digest    BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    verifier  TEXT NOT NULL,
    roles     TEXT NOT NULL,
    accounts  TEXT NOT NULL CHECK (json_valid(accounts)),
    scopes    TEXT NOT NULL,
    created   INTEGER NOT NULL,
    expires   INTEGER,
    revoked   INTEGER NOT NULL DEFAULT 0 CHECK (revoked IN (0, 1)),
    last_used INTEGER,
    PRIMARY KEY (user, name)
) STRICT;
CREATE TABLE requests (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset TEXT NOT NULL,
    user    TEXT NOT NULL REFERENCES users,
    account TEXT NOT NULL,
    epsilon REAL NOT NULL CHECK (epsilon > 0),
    why     TEXT NOT NULL,
    asked   INTEGER NOT NULL,
    state   TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'approved', 'refused')),
    owner   TEXT CHECK ((owner IS NULL) = (state = 'open')),
    note    TEXT NOT NULL DEFAULT '',
    decided INTEGER CHECK ((decided IS NULL) = (state = 'open'))
) STRICT;
CREATE INDEX requests_of_user ON requests (user, dataset, asked);
"""

_PATIENCE: Final = 5.0
_OPENED_TO_LOCK: Final = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
)
_PAUSE: Final = 0.02  # between two tries to be the only one who decides
_FOREIGN_HINT: Final = "Give another path with --users; the file was not changed."


class UserFile:
    """An open file of users: its transactions, one at a time. Safe for threads.

    Raises ``InterfaceError`` as :func:`open_user_file` does, and for a file that cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection = open_user_file(path)
        # It writes nothing, and waits for no writer: SQLite tells it of all that others commit.
        self._watch_lock = threading.Lock()
        self._watch = _connected(path, "mode=ro")

    def close(self) -> None:
        """Close the file."""
        with self._lock, self._watch_lock:
            self._watch.close()
            self._connection.close()

    def version(self) -> int:
        """Return a number that differs after each change of the file by any process."""
        with self._watch_lock, users_told(self._path):
            found: int = self._watch.execute("PRAGMA data_version").fetchone()[0]
            return found

    def read(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self._lock, users_told(self._path):
            return self._connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Callable[[str, Sequence[object]], sqlite3.Cursor]]:
        """Begin a transaction and lend its execution of statements; undo it if anything fails."""
        with self._lock, users_told(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Keep all other processes that have the file from a decision.

        Others read and write it meanwhile. The end of a process ends this, too. Raises
        ``InterfaceError`` (``users_busy``) where another one decides for too long.
        """
        # A file of its own: SQLite loses its locks where the file of users is opened and closed.
        path = self._path.with_name(f"{self._path.name}-deciding")
        try:
            place = os.open(path, _OPENED_TO_LOCK, 0o600)
        except OSError as error:
            raise _not_written(path, error) from None
        try:
            patience = time.monotonic() + _PATIENCE
            while not _locked(place, path):
                if time.monotonic() > patience:
                    raise _busy(self._path)
                time.sleep(_PAUSE)
            try:
                yield
            finally:
                _unlock(place)
        finally:
            os.close(place)


def _locked(place: int, path: Path) -> bool:
    """Lock an open file, unless somebody else has."""
    if sys.platform != "win32":
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:  # a file system without locks
            raise _not_written(path, error) from None
    return True


def _unlock(place: int) -> None:
    """End the lock of an open file: closing it would not, where a fork has it open as well."""
    if sys.platform != "win32":
        fcntl.flock(place, fcntl.LOCK_UN)


def open_user_file(path: Path) -> sqlite3.Connection:
    """Open the file of users at a path.

    Raises ``InterfaceError`` for one that is missing, not private, of another program or version,
    or altered.
    """
    _require_private(path)
    with users_told(path):
        with closing(_connected(path, "mode=ro&immutable=1")) as probe:
            # Read without locking or recovering anything: it may be anybody's.
            (application,) = probe.execute("PRAGMA application_id").fetchone()
        if application != USERS_APPLICATION:
            raise _foreign(path)
        connection = _connected(path, "mode=rw")
        try:
            _require_schema(connection, path)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def create_user_file(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Put a file of users at a path, readable by its owner alone; ``fill`` writes its settings.

    Raises ``InterfaceError`` (``users_not_written``, ``file_exists``), and leaves nothing behind.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=".users-", dir=path.parent)  # mode 0600
        os.close(descriptor)
    except (OSError, ValueError) as error:
        raise _not_written(path, error) from None
    try:
        with users_told(path), closing(_connected(Path(name), "mode=rw")) as connection:
            connection.execute("BEGIN")
            for statement in USERS_SCHEMA.strip().removesuffix(";").split(";\n"):
                connection.execute(statement)
            fill(connection)
            connection.execute(f"PRAGMA application_id = {USERS_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {USERS_VERSION}")
            connection.execute("COMMIT")
            # Last, so that nothing of it is in a log beside it.
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise sqlite3.OperationalError
        os.link(name, path)  # takes the place of nothing
    except FileExistsError:
        raise InterfaceError(
            f"{_shown(path)} exists already", code="file_exists", hint=_FOREIGN_HINT
        ) from None
    except (OSError, ValueError) as error:
        raise _not_written(path, error) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


@contextlib.contextmanager
def users_told(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into errors in fixed words: its own may quote what is stored."""
    try:
        yield
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if primary == sqlite3.SQLITE_NOTADB:
            raise _foreign(path) from None
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _busy(path) from None
        if primary == sqlite3.SQLITE_CORRUPT:
            raise _altered(path) from None
        raise InterfaceError(
            f"{_shown(path)} cannot be read or written",
            code="users_not_written",
            hint="Check the disk, and that this user may write the file and its directory, which "
            "must be on a local file system.",
        ) from None


def _connected(path: Path, options: str) -> sqlite3.Connection:
    # Transactions are ours to begin (isolation_level); a lock keeps threads apart.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )


def _require_private(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        raise InterfaceError(
            f"there is no file of users {_shown(path)}",
            code="users_missing",
            hint="Name it with --users; `dpsql user add` creates one.",
        ) from None
    if not stat.S_ISREG(mode):
        raise _foreign(path)
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InterfaceError(
            f"others than its owner may read or write {_shown(path)}",
            code="users_not_private",
            hint="It is as secret as the passwords: chmod 600, and think of copies.",
        )


def _require_schema(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != USERS_VERSION:
        raise InterfaceError(
            f"{_shown(path)} is of version {version}, and this dpsql reads {USERS_VERSION}",
            code="users_version",
            hint="Use the dpsql that wrote it; the file was not changed.",
        )
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(USERS_SCHEMA)
        if _schema(connection) != _schema(fresh):
            raise _altered(path)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    return connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    ).fetchall()


def _foreign(path: Path) -> InterfaceError:
    return InterfaceError(
        f"{_shown(path)} is not a file of dpsql's users", code="users_foreign", hint=_FOREIGN_HINT
    )


def _busy(path: Path) -> InterfaceError:
    return InterfaceError(
        f"another process kept {_shown(path)} locked for too long",
        code="users_busy",
        hint="Try again.",
    )


def _altered(path: Path) -> InterfaceError:
    return InterfaceError(
        f"{_shown(path)} is damaged, or was altered by something else than dpsql",
        code="users_altered",
        hint="Restore it from a backup; it was not changed.",
    )


def _not_written(path: Path, error: OSError | ValueError) -> InterfaceError:
    reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not a path"
    return InterfaceError(
        f"{_shown(path)} cannot be written: {reason}",
        code="users_not_written",
        hint="Name a place that this user may write to with --users.",
    )


def _shown(path: Path) -> str:
    return printable(str(path))
