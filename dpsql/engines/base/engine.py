"""The protocol of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import RawIOBase
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.core.catalog import Catalog
from dpsql.core.constraints import ConstraintsOf
from dpsql.core.schema import Column, Remark, Schema, Table
from dpsql.core.sql import Sql
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.engines.embedded.constants import FailingConstant
from dpsql.engines.evidence.verdicts import EngineVersion, Verdicts

_T = TypeVar("_T")


class ArrowStream(Protocol):
    """Anything that exports rows through the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


GivenValues: TypeAlias = Sequence[int | list[int]]
"""The values given to a statement when it runs: integers, and lists of integers."""
KeyArrays: TypeAlias = dict[str, NDArray[Any]]
"""Key columns by name, masked where they are NULL."""


@dataclass(frozen=True, slots=True)
class ExactRows:
    """The exact rows of one private block. They never leave the release step.

    ``row_ids`` are 1..n ascending; ``measures`` maps a measure's column to int64 values in that
    order. ``keys`` holds the key columns in that order where NumPy has their types; else it streams
    the row id and the key columns, in any order. The types decide, never the number of rows.
    """

    row_ids: NDArray[np.int64]
    measures: dict[str, NDArray[np.int64]]
    keys: KeyArrays | ArrowStream


@dataclass(frozen=True, slots=True)
class Examined:
    """The examination of expressions over private rows: their types, and a possible failure.

    None stands for types without a short name. ``objection`` names the first call that may fail
    where it stands, as the engine's table has it: ``week(INTERVAL)``; None if all are total.
    ``failing`` is the first constant among them, as they were typed, that can never be computed.
    ``rows`` is the number of synthetic rows that they were tried on.
    """

    types: tuple[SqlType | None, ...]
    objection: str | None
    failing: FailingConstant | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a table or view of the owner's, as far as an engine knows it.

    ``refusal`` says why it cannot be listed in a policy. ``files`` are those it reads outside the
    database, of which ``proved`` are such as a value can make unreadable: each is to be read whole
    before anybody asks. ``remarks`` say what dpsql cannot answer for.
    """

    refusal: Remark | None
    files: tuple[str, ...] = ()
    proved: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class Reads:
    """The tables that one reading of private rows may scan, with its salt.

    ``tables`` are those that the relations of the question scan, each as often as they do: a
    statement scans all of them, or none. ``salt`` is the number that its statements are salted
    with, of as many digits as any other salt.
    """

    tables: tuple[TableName, ...]
    salt: int | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """A value of the data that does not fit the policy's declaration; for the owner alone.

    ``column`` is None for what concerns whole rows. With ``wrong`` the declaration is, without it
    some rows are.
    """

    column: str | None
    reason: str
    hint: str
    wrong: bool = False


class IntegerStream(Protocol):
    """The rows of a statement that returns integers and no NULL, some rows at a time.

    Each column is an array. What fails raises an error that is replaced where the stream was asked
    for, so that nobody sees its text.
    """

    def __iter__(self) -> Iterator[Sequence[NDArray[Any]]]: ...

    def proceed(self) -> None:
        """Raise an error if the statement was interrupted: to be called between steps of work."""

    @property
    def share(self) -> int:
        """The bytes of memory for work on the stream, which may change meanwhile."""

    def file(self) -> RawIOBase:
        """Open a file without a name, which nobody else can read, for rows beyond the share."""


class Scratch(Protocol):
    """Where one query keeps intermediate private rows as tables, until it is left.

    The tables are its own. Every method raises ``EngineError`` with a fixed text.
    """

    def __enter__(self) -> Scratch: ...

    def __exit__(self, *_: object) -> None:
        """Drop what is left of the tables."""

    def within(self) -> AbstractContextManager[Scratch]:
        """Lend the place for one reading of several, and drop its tables afterwards."""

    def store(self, name: str, statement: Sql, *parameters: list[int]) -> int:
        """Keep the rows of a generated query as a table; returns how many there are."""

    def drop(self, name: str) -> None:
        """Drop a table that is no longer needed."""

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Run a generated query over stored rows."""

    def pairs(self, statement: Sql) -> ArrowStream:
        """Run a generated query over stored rows, whose rows go on to a place as private."""

    def integers(self, statement: Sql, *parameters: int | list[int]) -> list[NDArray[np.int64]]:
        """Read the columns of a generated query that returns integers and no NULL."""

    def streamed(self, statement: Sql, work: Callable[[IntegerStream], _T]) -> _T:
        """Do work on the rows of a generated query, while they are read; returns its result."""

    def worked(self, work: Callable[[], _T]) -> _T:
        """Do work on rows that were streamed before; returns its result."""

    def keys(self, statement: Sql, keys: Sequence[Column], row_ids: NDArray[np.int64]) -> ExactRows:
        """Read the key columns of a generated query with one parameter, a list of row ids."""


class PrivateReader(Protocol):
    """Where generated SQL over private rows runs."""

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Run a generated query over private rows. Raises ``EngineError`` with a fixed text."""

    def pairs(self, statement: Sql) -> ArrowStream:
        """Stream the rows of a generated query into a store that is as private as the rows.

        Raises ``EngineError`` with a fixed text.
        """

    def scratch(self) -> AbstractContextManager[Scratch]:
        """Make scratch space for a query that reads private rows in several steps."""


class PrivateSource(Protocol):
    """The source of private rows, opened for a given set of tables."""

    def over(self, reads: Reads) -> PrivateReader:
        """Return the reader for statements that read these tables and no others.

        Each is read by the engine's own plan of it before it is sent. What the plan may not hold is
        never sent: it raises ``EngineError``.
        """


class Run(PrivateSource, Protocol):
    """The statements of one query, all of which end at its deadline.

    Runs of one engine do not know of each other: interrupting one leaves all others alone.
    """

    def begin(self, tables: Iterable[TableName]) -> None:
        """Keep these tables as they are until the run is over, before anything is reserved.

        Raises ``InterfaceError`` (``definitions_changed``), for everybody who asks, if they are not
        made of what was proved when they were opened. Reads no row.
        """

    def release(self) -> None:
        """Give back the resources of the run, which ends it."""

    @property
    def expired(self) -> bool:
        """True once the time is over: what was running then has been interrupted."""

    def paused(self) -> AbstractContextManager[None]:
        """Let no time of the run pass while its caller does something else."""

    def interrupt(self) -> None:
        """Stop the statement of this run that is executed now, as if the engine had failed.

        Called from another thread. What begins a moment later is not stopped: whoever wants the end
        of a query calls this until the query is over.
        """

    def __enter__(self) -> Run: ...

    def __exit__(self, *_: object) -> None:
        """End the watch over the time."""

    def stream(self, table: Table) -> ArrowStream:
        """Stream all rows of a public table of the schema. Raises ``EngineError``: a fixed text."""

    def stream_found(
        self, tables: Sequence[TableName], statement: Sql, columns: Sequence[Column]
    ) -> ArrowStream:
        """Stream what a generated query over public tables finds, with columns of these types.

        Raises ``EngineError``: a fixed text.
        """


class Engine(Protocol):
    """The tables of a database that a policy lists, open for reading only.

    Nothing that is held by it, or sent through it, can name any other table.
    """

    @property
    def verdicts(self) -> Verdicts:
        """The survey's verdicts on this version of the engine, which generated SQL depends on."""

    @property
    def name(self) -> str:
        """The name of the database itself, which may qualify a schema."""

    @property
    def written(self) -> str | None:
        """When the data was last written, a UTC time in ISO 8601; None where that is not known."""

    @property
    def edition(self) -> str | None:
        """The snapshot that all statements read, in a few words; None without one."""

    @property
    def schema(self) -> Schema:
        """The tables that the policy lists."""

    def refuse_changed(self) -> None:
        """Raise ``InterfaceError`` if files are others than were opened, by size and time."""

    def bind(self, statement: Sql) -> tuple[Column, ...]:
        """Find the columns a query would return, without reading any row.

        Raises ``QueryRefused`` with the reason where the query does not bind.
        """

    def examine(
        self,
        source: Sql,
        expressions: Sequence[Sql],
        typed: Sql | None = None,
        tried: Sql | None = None,
    ) -> Examined:
        """Examine expressions over the rows of a FROM clause, without a row of the owner's.

        ``typed`` computes them as they were typed, before they were made total: its constants are
        computed. They are computed over the synthetic rows of ``tried``, if that is given, which
        has the columns of ``source``. Raises ``QueryRefused`` where one does not bind, or fails.
        """

    def compute_constants(self, statement: Sql) -> list[int | None]:
        """Compute a statement over constants alone, which returns one column of integers or NULLs.

        Raises ``QueryRefused`` where it takes too long or too much memory.
        """

    def try_out(
        self, rows: Sql, expressions: Sequence[Sql], write: Callable[[Sequence[Sql]], Sql]
    ) -> None:
        """Compute generated expressions over rows of constants, where rows are elsewhere.

        ``write`` makes a statement of some of them. Raises ``QueryRefused`` (``fails``) for what
        the engine does not compute on all of these rows.
        """

    def rehearse(self, read: Callable[[PrivateSource], None]) -> None:
        """Have each generated statement of ``read`` planned and its plan read; reads no rows.

        Raises ``QueryRefused`` (``does_not_bind``) for one that the engine does not take, and
        ``InternalError`` for one whose plan is none of dpsql's.
        """

    def run(self, seconds: float | None = None) -> Run:
        """Begin a run of one query, of up to ``seconds``: the only way to rows."""


class Database(Protocol):
    """A database as its owner has it, with all that there is: for opening, init and check alone."""

    @property
    def version(self) -> EngineVersion:
        """The engine and its version, as far as evidence goes by it."""

    def catalog(self) -> Catalog:
        """Return all tables of the database."""

    def declare(self, columns: Mapping[str, tuple[Column, ...]]) -> None:
        """Read data that have no types of their own as declared, by the keys of their tables.

        Idempotent; before the catalog is asked for. Raises ``InterfaceError`` for an engine that is
        in use with other types, or where they cannot be read.
        """

    def definition(self, table: TableName) -> Definition:
        """Describe the definition of a table or view of the catalog."""

    def constraints(self) -> ConstraintsOf:
        """Read what the engine holds all rows of tables to, before :meth:`open`; reads no row."""

    def prove(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Read the files of the tables with these keys whole, and remember that they can be.

        Returns the keys of tables that cannot. Before :meth:`open`, which refuses tables of files
        that were not read, or that have changed since. Raises ``InterfaceError``.
        """

    def misfits(self, table: TableName) -> tuple[Misfit, ...]:
        """Read an untyped table, and list the values that do not fit their declarations."""

    def open(self, tables: Iterable[str], memory: str | None = None) -> Engine:
        """Open the tables with these keys, and no others: they are all that is left.

        The first time, every way is given up to change settings or to reach files and the network,
        but for what these tables read, which is proved to be readable. ``memory`` is how much the
        engine may take from then on. Engines of the same tables are one. Raises ``InterfaceError``
        if a table is not readable, or too much.
        """

    def close(self) -> None:
        """Release the connection, and end all engines that were opened of it."""
