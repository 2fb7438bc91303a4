"""The base of opened engines: the twin, rehearsals, and trials on a server."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import duckdb

from dpsql.core.schema import Column, Schema
from dpsql.core.sql import Sql
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Examined, Misfit, PrivateSource
from dpsql.engines.base.rehearsal import Rehearsal
from dpsql.engines.base.run_base import RunBase
from dpsql.engines.base.twin import Twin
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.engines.evidence.trials import Trials
from dpsql.engines.evidence.verdicts import Verdicts
from dpsql.errors import EngineError


class EngineBase(ABC):
    """The listed tables of a database, with a twin that is made once it is asked."""

    def __init__(self, name: str, schema: Schema, verdicts: Verdicts) -> None:
        self._name = name
        self._schema = schema
        self._verdicts = verdicts
        self._twin: Twin | None = None
        self._twin_lock = threading.Lock()

    # -- what an engine does ------------------------------------------------------------------

    @property
    @abstractmethod
    def written(self) -> str | None:
        """When the data was last written; None where that is not known."""

    @property
    @abstractmethod
    def edition(self) -> str | None:
        """The snapshot that all statements read; None without one."""

    @abstractmethod
    def refuse_changed(self) -> None:
        """Raise ``InterfaceError`` if files are others than were opened."""

    @abstractmethod
    def try_out(
        self, rows: Sql, expressions: Sequence[Sql], write: Callable[[Sequence[Sql]], Sql]
    ) -> None:
        """Compute generated expressions over rows of constants, where rows are elsewhere."""

    @abstractmethod
    def run(self, seconds: float | None = None) -> RunBase:
        """Begin a run of one query."""

    @abstractmethod
    def _rehearsal(self) -> AbstractContextManager[Rehearsal]:
        """Return where statements are planned, and read no row, until it is left."""

    # -- the same for all ---------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the database itself."""
        return self._name

    @property
    def schema(self) -> Schema:
        """The tables that the policy lists."""
        return self._schema

    @property
    def verdicts(self) -> Verdicts:
        """The survey's verdicts on this version of the engine, which generated SQL depends on."""
        return self._verdicts

    def bind(self, statement: Sql) -> tuple[Column, ...]:
        """Find the columns a query would return, on the twin."""
        return self._empty_twin().bind(statement)

    def examine(
        self,
        source: Sql,
        expressions: Sequence[Sql],
        typed: Sql | None = None,
        tried: Sql | None = None,
    ) -> Examined:
        """Examine expressions over the rows of a FROM clause, on the twin."""
        return self._empty_twin().examine(source, expressions, typed, tried)

    def compute_constants(self, statement: Sql) -> list[int | None]:
        """Compute a statement over constants alone, on the twin."""
        return self._empty_twin().compute_constants(statement)

    def rehearse(self, read: Callable[[PrivateSource], None]) -> None:
        """Have each generated statement of ``read`` read and planned, for none of its rows."""
        with self._rehearsal() as rehearsal:
            try:
                read(rehearsal)
                return
            except EngineError:
                refusal = rehearsal.refusal()
        # Raised outside the handler, so that its context quotes nothing.
        raise refusal

    def _empty_twin(self) -> Twin:
        with self._twin_lock:
            if self._twin is None:
                self._twin = Twin(self._schema, evidence_for(duckdb.__version__))
            return self._twin

    def close(self) -> None:
        """Close the twin: nothing is bound any more. What reads rows is the database's."""
        with self._twin_lock:
            if self._twin is not None:
                self._twin.close()


class ServerEngine(EngineBase):
    """The listed tables of a server, which computes its own text of expressions."""

    def __init__(self, name: str, schema: Schema, verdicts: Verdicts) -> None:
        super().__init__(name, schema, verdicts)
        self._trials = Trials(self._computed)

    @abstractmethod
    def _computed(self, statement: Sql) -> None:
        """Run a statement over constants. Raises ``EngineError``, or that nobody answers."""

    @property
    def written(self) -> str | None:
        """None: servers do not say when data were last written."""
        return None

    @property
    def edition(self) -> str | None:
        """None: each question reads the tables as they are then."""
        return None

    def refuse_changed(self) -> None:
        """Do nothing: there are no files that dpsql reads itself."""

    def try_out(
        self, rows: Sql, expressions: Sequence[Sql], write: Callable[[Sequence[Sql]], Sql]
    ) -> None:
        """Have the server compute generated expressions over rows of constants."""
        self._trials.hold(rows, expressions, write)


class ServerDatabase:
    """A database of tables with types of their own, and without files that dpsql reads itself."""

    def declare(self, columns: Mapping[str, tuple[Column, ...]]) -> None:
        """Do nothing: all tables have types of their own."""

    def prove(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Return nothing: there are no files that dpsql reads itself."""
        return ()

    def misfits(self, table: TableName) -> tuple[Misfit, ...]:
        """Return nothing: all tables have types of their own."""
        return ()
