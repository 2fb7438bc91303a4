"""PEP 249, the Python Database API 2.0: ``import dpsql.dbapi``.

Connections may be shared by threads, cursors may not. Parameters are ``?`` with a sequence of
values; ``$1`` with a sequence and ``:name`` or ``$name`` with a mapping are understood as well.

Departures, all for one reason (a database that is only read, with a price on every answer):
``executemany`` is refused; ``commit`` does nothing and ``rollback`` refunds nothing; there are no
stored procedures and no further result sets, hence no ``callproc`` and no ``nextset``. Values of
``Binary`` are refused by queries: bytes have no literal that private rows may meet.
``tests/service/test_dbapi20.py`` runs the public compliance suite.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date as Date  # noqa: N812
from datetime import datetime as Timestamp  # noqa: N812
from datetime import time as Time  # noqa: N812
from typing import ClassVar, Final

from dpsql.core.sql_types import SqlType
from dpsql.dbapi.connection import Connection, connect
from dpsql.dbapi.cursor import Cursor
from dpsql.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel: Final = "2.0"
threadsafety: Final = 2
paramstyle: Final = "qmark"

Binary = bytes


def DateFromTicks(ticks: float) -> Date:  # noqa: N802
    """Return the local date at this many seconds after the epoch."""
    return Date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> Time:  # noqa: N802
    """Return the local time of day at this many seconds after the epoch."""
    return Timestamp.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> Timestamp:  # noqa: N802
    """Return the local date and time at this many seconds after the epoch."""
    return Timestamp.fromtimestamp(ticks)


class TypeObject:
    """Equal to every type code of its kind; the codes themselves are DuckDB's names of types.

    BOOLEAN, INTERVAL, UUID and nested types are of no kind that PEP 249 knows.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]  # equal to texts of many hashes

    def __init__(self, name: str, holds: Callable[[SqlType], bool]) -> None:
        self._name = name
        self._holds = holds

    def __eq__(self, other: object) -> bool:
        return self._holds(SqlType.of(other)) if isinstance(other, str) else self is other

    def __repr__(self) -> str:
        return self._name


STRING: Final = TypeObject("STRING", lambda code: code.is_text or code.kind == "JSON")
BINARY: Final = TypeObject("BINARY", lambda code: code.kind == "BLOB")
NUMBER: Final = TypeObject("NUMBER", lambda code: code.is_numeric)
DATETIME: Final = TypeObject("DATETIME", lambda code: code.is_temporal)
ROWID: Final = TypeObject("ROWID", lambda code: False)
