"""Connections: a session with the words of PEP 249, and ``connect``, which opens one by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from dpsql import errors
from dpsql.budget import payer
from dpsql.client.transport import RemoteServer, is_server_address
from dpsql.core.plain import plain_text
from dpsql.core.progress import Percent
from dpsql.dbapi.cursor import Cursor
from dpsql.dbapi.remote import RemoteConnection
from dpsql.engines.base.engine import Database
from dpsql.ledger import Ledger
from dpsql.pipeline.events import Observer
from dpsql.policy.model import Policy
from dpsql.policy.parameters import NOT_GIVEN, NotGiven, Overrides, PrivacyParameters
from dpsql.policy.resolve import resolve
from dpsql.service.opening import opened_dataset
from dpsql.service.session import Dataset, Session
from dpsql.syntax.placeholders import PlaceholderValues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@overload
def connect(
    database: str | Path | Database | SparkSession,
    policies: str | Path | Policy = "policies.yaml",
    ledger: str | Path | Ledger | NotGiven | None = NOT_GIVEN,
    analyst: str = "",
    *,
    session: str = "",
    progress: Percent | None = None,
    observer: Observer | None = None,
    **parameters: Unpack[PrivacyParameters],
) -> Connection: ...
@overload
def connect(
    database: str,
    *,
    token: str,
    analyst: str = "",
    certificate: str | None = None,
    **parameters: Unpack[PrivacyParameters],
) -> RemoteConnection: ...
def connect(
    database: str | Path | Database | SparkSession,
    policies: str | Path | Policy = "policies.yaml",
    ledger: str | Path | Ledger | NotGiven | None = NOT_GIVEN,
    analyst: str = "",
    *,
    session: str = "",
    progress: Percent | None = None,
    observer: Observer | None = None,
    token: str | None = None,
    certificate: str | None = None,
    **parameters: Unpack[PrivacyParameters],
) -> Connection | RemoteConnection:
    """Open a connection for one analyst.

    ``database``: a DuckDB, Parquet or CSV file, the ``postgresql://`` URL of a server's database,
    the ``sc://`` URL of a Spark Connect server, a Spark session, or an engine the owner has filled.
    ``policies``: a policies file. ``ledger``: the SQLite file that keeps the budget, created if
    missing, or the ``postgresql://`` URL of one; None for a connection that can explain and do
    nothing else. Left out, it is the one that the policies file names, or ``clinic.budget.db``
    beside ``clinic.duckdb``; if that had to be created, a ``NewLedgerWarning`` says so.
    ``analyst``: an account of the policy. ``session``: the name of an account of its own below the
    analyst's, which pays too; the owner may limit it. ``progress``: told 0, 1, ..., 100 percent
    while a query for keys alone reads its rows, which takes long on large tables; the numbers are
    the same for all data, but not when they come. ``observer``: told of each event, as it happens.
    ``parameters``: privacy parameters for all queries of this connection.

    ``https://host:8439`` is the address of a server that ``dpsql serve --http`` runs, and needs a
    ``token``: a ``RemoteConnection`` has the same ``sql``, ``explain``, ``describe`` and
    ``cursor``. ``analyst`` is then the account that pays, the token's usual one if left out,
    ``certificate`` a file of certificates to trust instead of the system's.

    Raises ``PolicyError``, ``LedgerError``, ``UnknownName``, ``ParameterError`` or
    ``InterfaceError``, saying what is wrong and where.
    """
    if is_server_address(database):
        return RemoteConnection(
            RemoteServer.at(str(database), token or "", analyst, certificate), dict(parameters)
        )
    if token is not None or certificate is not None:
        raise errors.InterfaceError(
            "a token is for the address of a server",
            code="bad_address",
            hint="Write https://host:8439 as the database.",
        )
    analyst, session = plain_text("analyst", analyst), plain_text("session", session)

    def accept(policy: Policy) -> None:
        payer(policy, analyst, session)
        resolve(policy.of_account(analyst), Overrides.of(parameters))

    dataset = opened_dataset(database, policies, ledger, accept)
    try:
        return Connection(
            *(dataset, analyst, session, dict(parameters)), progress=progress, observer=observer
        )
    except BaseException:
        dataset.close()
        raise


class Connection(Session):
    """Answers one analyst's queries. Made by ``dpsql.connect``; safe to use from several threads.

    A connection is a :class:`dpsql.Session`, with all that one has: ``sql`` gives a whole answer.
    ``cursor``, ``commit`` and ``rollback`` are those of PEP 249. There are no transactions: a
    charge is final before its answer is shown. So ``commit`` has nothing left to do and
    ``rollback`` refunds nothing, for an answer cannot be unseen.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(
        self,
        dataset: Dataset,
        analyst: str,
        session: str,
        parameters: Mapping[str, object],
        *,
        progress: Percent | None = None,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(
            *(dataset, analyst, session, parameters), progress=progress, observer=observer
        )
        self._dataset = dataset
        self.ledger_created = dataset.ledger_created
        """True if opening the connection has created its ledger: nothing had been spent in it."""

    def cursor(self) -> Cursor:
        """Open a new cursor. Raises ``InterfaceError`` if the connection is closed."""
        self.refuse_closed()
        return Cursor(self)

    def execute(
        self,
        operation: str,
        parameters: PlaceholderValues | None = None,
        *,
        mechanism: str | None = None,
        fresh: bool = False,
        **privacy: Unpack[PrivacyParameters],
    ) -> Cursor:
        """Answer a statement with a new cursor: ``cursor().execute(...)``, in one call."""
        return self.cursor().execute(
            operation, parameters, mechanism=mechanism, fresh=fresh, **privacy
        )

    def commit(self) -> None:
        """Do nothing, but raise ``InterfaceError`` if the connection is closed."""
        self.refuse_closed()

    def rollback(self) -> None:
        """Do nothing (no charge is refunded), but raise ``InterfaceError`` if closed."""
        self.refuse_closed()

    def _release(self) -> None:
        super()._release()
        self._dataset.close()
