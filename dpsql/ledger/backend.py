"""The ledger's interface to databases: one code path, two implementations.

SQL goes through it with ``?`` for values, in words that SQLite and PostgreSQL share. Errors come
out as :class:`dpsql.errors.LedgerError`, in fixed words and with nothing chained: a database's own
message may quote what is in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = int | str | bytes | None
LedgerRow: TypeAlias = tuple[Any, ...]

State: TypeAlias = tuple[Any, ...]
"""A row after an event: the table's name, then the columns that decide something."""

Said: TypeAlias = tuple[int, tuple[State, ...]]
"""The number of an event, and its fields."""


class Backend(Protocol):
    """One connection to a ledger's database.

    ``said`` is what events are known to say, by their hashes.
    """

    said: dict[bytes, Said]

    def begin_write(self) -> None:
        """Begin a transaction that nobody else can write beside, waiting for the others first."""

    def begin_read(self) -> None:
        """Begin a transaction that sees one state of the ledger throughout."""

    def execute(self, sql: str, values: Sequence[Value] = ()) -> list[LedgerRow]:
        """Run one statement and return its rows."""

    def commit(self) -> None:
        """Commit the transaction; on return it is on disk."""

    def rollback(self) -> None:
        """Undo the transaction, if there is one."""

    def now(self) -> int:
        """Read the clock of the machine that keeps the ledger, in microseconds since 1970."""

    def damage(self) -> str | None:
        """Report damage that the database finds in its files, in fixed words."""

    def forget_deleted(self) -> None:
        """Make the database overwrite, after deletions, what they left in its files."""

    def close(self) -> None:
        """Close the connection; an open transaction is undone."""


class Home(Protocol):
    """Where a ledger lives: it makes connections."""

    @property
    def created(self) -> bool:
        """True if connecting has created the ledger."""

    def connect(self) -> Backend:
        """Return a connection to the ledger that is there."""

    def require_same(self) -> None:
        """Raise :class:`LedgerError` if the opened ledger was replaced by another."""
