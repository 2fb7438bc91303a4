"""The ledger on SQLite: reserve, settle, and what was spent."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Never

from dpsql.accounting import Amount, check_units
from dpsql.errors import BudgetExceeded, LedgerError, ParameterError
from dpsql.ledger.file import connect, identity, ledger_error, open_file
from dpsql.ledger.values import (
    Account,
    Charge,
    Entry,
    Spent,
    check_accounts,
    check_path,
)

MAX_QUERY = 1024
"""The longest query fingerprint, in characters."""


class Ledger:
    """One ledger file, shared by any number of threads and processes of one machine.

    Promises: a reservation that :meth:`reserve` returned survives a crash of the process and of the
    machine; no account ever exceeds the limits it is reserved under; nothing but :meth:`settle`
    lowers what was spent. Not promised: noticing that an older copy of the file was put back.

    Open one with :meth:`open`, as a context manager or with :meth:`close`. Every method raises
    :class:`LedgerError`, in fixed words, when the file cannot be used.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._identity = identity(path)
        self._connection: sqlite3.Connection | None = connection
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        _ledgers.add(self)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, busy_timeout: float = 10.0) -> Ledger:
        """Open the ledger at ``path``; if nothing is there, create it with mode 0600.

        ``busy_timeout`` is how many seconds to wait for other users of the file.

        Raises :class:`LedgerError`, changing nothing, for a file that is not a ledger of this
        version, is damaged or cannot be written; :class:`ParameterError` for a bad timeout.
        """
        if type(busy_timeout) not in (int, float) or not 0 <= busy_timeout <= 86_400:
            raise ParameterError(
                "busy_timeout must be between 0 and 86400 seconds", code="bad_parameter"
            )
        absolute = Path(path).absolute()
        with _fork_lock:
            return cls(absolute, open_file(absolute, busy_timeout), busy_timeout)

    def close(self) -> None:
        """Close the file. Closing twice does nothing; any other later call is refused."""
        with self._held():
            self._closed = True
            self._disconnect()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> Never:
        raise LedgerError(
            "a ledger cannot be copied or sent to another process",
            code="ledger_not_picklable",
            hint="send the path and open it there",
        )

    def reserve(
        self, accounts: Sequence[Account], amount: Amount, *, query: str, plan: str
    ) -> Charge:
        """Charge a query's worst case to every one of ``accounts``, durably, or change nothing.

        ``amount`` is in rho or in epsilon, not in both, and not nothing; ``query`` is the query's
        fingerprint and ``plan`` the JSON text of its mechanism and parameters.

        Raises :class:`BudgetExceeded` when it does not fit the limits of all accounts,
        :class:`LedgerError` when one was charged under the other composition before, and
        :class:`ParameterError` for malformed arguments.
        """
        payers = check_accounts(accounts)
        if not any(amount.units):
            raise ParameterError("a charge of nothing is not recorded", code="bad_parameter")
        if amount.rho and amount.epsilon:
            raise ParameterError(
                "a charge is made in rho or in epsilon, not in both", code="bad_parameter"
            )
        _check_texts(query, plan)
        with self._transaction() as connection:
            _require_room(connection, payers, amount)
            entry = _insert(connection, payers, amount, query, plan)
        return Charge(entry, tuple(account.path for account in payers), amount)

    def settle(self, charge: Charge, amount: Amount) -> None:
        """Replace a reservation by the actual cost, durably. Call it before showing any row.

        Its rho and epsilon are at most what was reserved and functions of the released output only;
        its delta equals what was reserved, because delta is never refunded.

        Raises :class:`LedgerError`, changing nothing, for more than was reserved, another delta, an
        entry that is unknown or already settled; :class:`ParameterError` for a malformed charge.
        """
        check_units("entry", charge.entry)
        with self._transaction() as connection:
            _require_settleable(connection, charge, amount)
            connection.execute(
                "UPDATE entries SET (settled, settled_rho, settled_epsilon, settled_delta) = "
                "(?, ?, ?, ?) WHERE entry = ?",
                (_now(), *amount.units, charge.entry),
            )

    def spent(self, account_path: str) -> Spent:
        """What the account has spent so far: nothing if never charged. Constant time."""
        check_path(account_path)
        with self._connected() as connection:
            return _spent(connection, account_path)

    def history(self, account_path: str, limit: int = 100) -> tuple[Entry, ...]:
        """The account's latest ``limit`` entries, newest first."""
        check_path(account_path)
        check_units("limit", limit)
        with self._connected() as connection:
            rows = connection.execute(_HISTORY, (account_path, limit)).fetchall()
        return tuple(_entry(row) for row in rows)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction: durable when the block ends, undone if anything escapes from it."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with self._held():
            connection = self._live_connection()
            try:
                yield connection
            except sqlite3.Error as error:
                raise ledger_error(error) from None
            finally:
                if connection.in_transaction:
                    self._roll_back(connection)

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(self._busy_timeout, 0.001)):
            raise LedgerError(
                "the ledger is busy: another thread is using it",
                code="ledger_busy",
                hint="try again, or open one ledger per thread",
            )
        try:
            yield
        finally:
            self._lock.release()

    def _live_connection(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError("the ledger is closed", code="ledger_closed", hint="open it again")
        if self._connection is not None and self._process != os.getpid():
            raise LedgerError(
                "the process was forked while it held the ledger open",
                code="ledger_forked",
                hint="fork with os.fork or multiprocessing, or open the ledger after forking",
            )
        if identity(self._path) != self._identity:
            raise LedgerError(
                "the ledger file was moved, deleted or replaced while it was open",
                code="ledger_missing",
                hint="put the same file back; another one would forget what was spent",
            )
        if self._connection is None:
            self._connection = connect(self._path, self._busy_timeout)
            self._process = os.getpid()
        return self._connection

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            connection.rollback()
        except sqlite3.Error:
            self._disconnect()  # closing rolls back too; the next call connects afresh

    def _disconnect(self) -> None:
        # Closing a connection of the parent process would undo locks the parent relies on.
        if self._connection is not None and self._process == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _let_go(self) -> None:
        self._lock.acquire()
        self._disconnect()

    def _take_up(self) -> None:
        self._lock.release()


_HISTORY = """
SELECT
    entry, created,
    (SELECT group_concat(path, char(10)) FROM charges AS c JOIN accounts USING (account)
     WHERE c.entry = entries.entry),
    query, plan, reserved_rho, reserved_epsilon, reserved_delta,
    settled, settled_rho, settled_epsilon, settled_delta
FROM accounts JOIN charges USING (account) JOIN entries USING (entry)
WHERE path = ? ORDER BY charges.entry DESC LIMIT ?
"""


def _spent(connection: sqlite3.Connection, path: str) -> Spent:
    row = connection.execute(
        "SELECT rho, epsilon, delta, queries, unsettled FROM accounts WHERE path = ?", (path,)
    ).fetchone()
    return Spent() if row is None else Spent(Amount(*row[:3]), *row[3:])


def _entry(row: tuple[Any, ...]) -> Entry:
    entry, created, paths, query, plan, *amounts = row
    settled, *charged = amounts[3:]
    return Entry(
        entry,
        created,
        tuple(sorted(paths.split("\n"))),
        query,
        plan,
        reserved=Amount(*amounts[:3]),
        settled=settled,
        charged=None if settled is None else Amount(*charged),
    )


def _require_room(
    connection: sqlite3.Connection, accounts: Sequence[Account], amount: Amount
) -> None:
    left: list[Amount] = []
    short: list[str] = []
    for account in accounts:
        spent = _spent(connection, account.path).amount
        account.require_same_composition(spent)
        left.append(account.left(spent))
        if not account.has_room(spent, amount):
            short.append(account.path)
    if short:
        least = Amount(*map(min, zip(*(one.units for one in left), strict=True)))
        raise _budget_exceeded(short, amount, least)


def _budget_exceeded(short: list[str], amount: Amount, left: Amount) -> BudgetExceeded:
    currency = "epsilon" if amount.epsilon else "rho"
    requested, remaining = (
        (getattr(loss, currency), loss.delta) for loss in (amount.loss, left.loss)
    )
    return BudgetExceeded(
        f"the budget of {', '.join(short)} cannot pay for this query: it may cost "
        f"{currency} {requested[0]:.4g} and delta {requested[1]:.4g}, "
        f"and {currency} {remaining[0]:.4g} and delta {remaining[1]:.4g} are left",
        remaining=remaining,
        requested=requested,
        hint="ask for less epsilon or delta, or ask the data owner for a larger budget",
    )


def _insert(
    connection: sqlite3.Connection,
    accounts: Sequence[Account],
    amount: Amount,
    query: str,
    plan: str,
) -> int:
    entry = connection.execute(
        "INSERT INTO entries "
        "(created, query, plan, reserved_rho, reserved_epsilon, reserved_delta) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (_now(), query, plan, *amount.units),
    ).lastrowid
    assert entry is not None
    for account in accounts:
        connection.execute(
            "INSERT INTO accounts (path) SELECT ?1 "
            "WHERE NOT EXISTS (SELECT 1 FROM accounts WHERE path = ?1)",
            (account.path,),
        )
        connection.execute(
            "INSERT INTO charges (account, entry) SELECT account, ? FROM accounts WHERE path = ?",
            (entry, account.path),
        )
    return entry


def _require_settleable(connection: sqlite3.Connection, charge: Charge, amount: Amount) -> None:
    row = connection.execute(
        "SELECT settled, reserved_rho, reserved_epsilon, reserved_delta "
        "FROM entries WHERE entry = ?",
        (charge.entry,),
    ).fetchone()
    paths = connection.execute(
        "SELECT path FROM charges JOIN accounts USING (account) WHERE entry = ?",
        (charge.entry,),
    ).fetchall()
    if (
        row is None
        or row[1:] != charge.amount.units
        or {path for (path,) in paths} != set(charge.accounts)
    ):
        raise _cannot_settle("ledger_unknown_entry", "this ledger holds no such reservation")
    if row[0] is not None:
        raise _cannot_settle("ledger_settled_twice", "the charge is settled already")
    if any(map(operator.gt, amount.units, charge.amount.units)):
        raise _cannot_settle("ledger_over_reserved", "a query cannot cost more than it reserved")
    if amount.delta != charge.amount.delta:
        raise _cannot_settle("ledger_delta_refund", "delta is never refunded")


def _cannot_settle(code: str, reason: str) -> LedgerError:
    return LedgerError(reason, code=code, hint="the ledger was not changed")


def _check_texts(query: str, plan: str) -> None:
    if not isinstance(query, str) or not query.isprintable() or not 0 < len(query) <= MAX_QUERY:
        raise ParameterError(
            f"the query's fingerprint must be 1 to {MAX_QUERY} printable characters",
            code="bad_parameter",
        )
    try:
        json.loads(plan)
        plan.encode()
    except (TypeError, ValueError, RecursionError, AttributeError):
        raise ParameterError("the plan must be JSON text", code="bad_parameter") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


# SQLite keeps its locks per process and goes on believing in them after a fork, even for
# connections the child opens itself: the child could lose its writes when the parent closes the
# file. So every ledger lets go of its file before a fork and both sides connect afresh when next
# used. The lock keeps a fork from happening while another thread opens a ledger.
_fork_lock = threading.Lock()
_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()
_let_go: list[Ledger] = []


def _before_fork() -> None:
    _fork_lock.acquire()
    for ledger in list(_ledgers):
        ledger._let_go()
        _let_go.append(ledger)


def _after_fork() -> None:
    while _let_go:
        _let_go.pop()._take_up()
    _fork_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
