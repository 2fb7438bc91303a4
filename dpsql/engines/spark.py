"""Spark 4: tables of a catalog, read by generated SQL in sessions of dpsql's own.

A session of the owner's is never used itself: each question gets a new one, with settings that are
read back. In it there is a view of each table that is asked for, with the columns and types of the
schema, and nothing else that generated SQL could mean. Statements are bound and examined on the
twin, an empty DuckDB, as for every engine: no text of Spark's reaches anybody.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.catalog import Catalog
from dpsql.core.schema import Column, Schema, Table
from dpsql.core.sql import Name, Sql, Written, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.arrow_rows import exact_rows, integers
from dpsql.engines.base import (
    ArrowStream,
    Definition,
    ExactRows,
    Examined,
    Misfit,
    PrivateSource,
    Reads,
)
from dpsql.engines.deadline import Deadline
from dpsql.engines.evidence import evidence_for
from dpsql.engines.nets import TRIED, definitions_changed
from dpsql.engines.rehearsal import Rehearsal, unrecognised
from dpsql.engines.spark_reading import SparkReading, SparkSheet
from dpsql.engines.spark_results import sound
from dpsql.engines.spark_schema import catalog_tables, is_same, read_as
from dpsql.engines.spark_sessions import DISCREET, closed, opened, session_beside, stored_once
from dpsql.engines.spark_text import SPARK_GIVEN, SPARK_TEXT, spark_quote, view_of
from dpsql.engines.spark_waiting import ExecutorClock
from dpsql.engines.trials import TRIAL_SECONDS, Trials
from dpsql.engines.twin import Twin
from dpsql.engines.verdicts import EngineVersion, Verdicts, verdicts_on
from dpsql.errors import EngineError, InterfaceError, ParameterError, QueryRefused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")
_WITH: Final = re.compile(r"\bWITH ")
Snapshot = Literal["copy", "fixed"]
_SNAPSHOTS: Final = ("copy", "fixed")


class SparkEngine:
    """An owner-side handle on tables of a Spark catalog.

    ``session``: a ``SparkSession``, or the URL of a Spark Connect server, ``sc://host:port``. Its
    current database has the tables without a schema; ``schemas`` are further ones to be listed.
    ``snapshot`` says what keeps a table as it is while a statement reads it twice: ``copy`` has the
    columns it needs stored by the executors first, ``fixed`` is the owner's word that the data do
    not change while questions run. Raises ``InterfaceError`` if this is no Spark 4, or a setting
    that results depend on cannot be set.
    """

    def __init__(
        self,
        session: SparkSession | str,
        *,
        schemas: Sequence[str] = (),
        snapshot: Snapshot = "copy",
    ) -> None:
        if snapshot not in _SNAPSHOTS:
            raise ParameterError(
                f"snapshot is {' or '.join(_SNAPSHOTS)}", code="bad_parameter", hint="Leave it out."
            )
        self._given, self._session = opened(session)
        self.version = EngineVersion.of("spark", str(self._session.version))
        self._owns = isinstance(session, str)
        self._schemas = tuple(schemas)
        self._snapshot: Snapshot = snapshot
        self._catalog: Catalog | None = None
        self._opened: dict[frozenset[str], OpenSpark] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return "<dpsql.SparkEngine>"

    def prove(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Return nothing: there are no files that dpsql reads itself."""
        return ()

    def misfits(self, table: TableName) -> tuple[Misfit, ...]:
        """Return nothing: all tables have types of their own."""
        return ()

    def open(self, tables: Iterable[str], memory: str | None = None) -> OpenSpark:
        """Check that tables are readable. Sessions are dpsql's own: there is nothing to give up.

        ``memory`` limits what runs in this process; what Spark may take is its own settings.
        """
        verdicts = verdicts_on(self.version)  # without them nothing private could be asked
        evidence_for(duckdb.__version__)
        schema = self.catalog().cut(tables)
        for table in schema.values():
            self._prove(table)
        name = str(quietly(lambda: self._session.catalog.currentCatalog()))
        with self._lock:
            engine = OpenSpark(self._session, name, schema, self._snapshot, verdicts)
            return self._opened.setdefault(frozenset(schema), engine)

    def _prove(self, table: Table) -> None:
        try:
            quietly(lambda: _frame(self._session, sql("{} LIMIT 1", read_as(table))).toArrow())
            return
        except EngineError:
            pass
        raise InterfaceError(
            f"the table {table.name} cannot be read",
            code="table_unreadable",
            hint="Grant SELECT on it to the user of the session, and look at its files.",
        )

    def declare(self, columns: Mapping[str, tuple[Column, ...]]) -> None:
        """Do nothing: all tables have types of their own."""

    def catalog(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                self._catalog = Catalog.of(*quietly(lambda: self._tables()))
            return self._catalog

    def _tables(self) -> list[Table]:
        return list(catalog_tables(self._session, self._schemas))

    def definition(self, table: TableName) -> Definition:
        return Definition(self.catalog().tables[table.key].unreadable)

    def close(self) -> None:
        """Forget the session; one that was opened from a URL is ended."""
        for engine in self._opened.values():
            engine.close()
        for session in (self._session, *([self._given] if self._owns else [])):
            with suppress(Exception):
                closed(session)


class OpenSpark:
    """The listed tables of a Spark catalog: views of them are all that its sessions have."""

    def __init__(
        self,
        session: SparkSession,
        name: str,
        schema: Schema,
        snapshot: Snapshot,
        verdicts: Verdicts,
    ) -> None:
        self._verdicts = verdicts
        self._session = session
        self._name = name
        self._schema = schema
        self._snapshot: Snapshot = snapshot
        self._twin: Twin | None = None
        self._trials = Trials(self._computed)
        self._lock = threading.Lock()
        self.last_reading = SparkReading(session, schema.values())

    @property
    def name(self) -> str:
        """The name of Spark's current catalog."""
        return self._name

    @property
    def schema(self) -> Schema:
        return self._schema

    def refuse_changed(self) -> None:
        """Do nothing: there are no files that dpsql reads itself."""

    def bind(self, statement: Sql) -> tuple[Column, ...]:
        return self._empty_twin().bind(statement)

    def examine(self, source: Sql, expressions: Sequence[Sql]) -> Examined:
        return self._empty_twin().examine(source, expressions)

    def try_out(
        self, rows: Sql, expressions: Sequence[Sql], write: Callable[[Sequence[Sql]], Sql]
    ) -> None:
        self._trials.hold(rows, expressions, write)

    def _computed(self, statement: Sql) -> None:
        with self.run(TRIAL_SECONDS) as run:
            run.compute(statement)

    def rehearse(self, read: Callable[[PrivateSource], None]) -> None:
        """Have Spark analyse each statement over views of the tables, and read its plan.

        No table is read.
        """
        objected = False
        try:
            with self.run() as run, run.over(Reads(())).scratch() as place:
                analysed = _Analysed(place, self.last_reading)
                try:
                    read(analysed)
                    return
                except EngineError:
                    objected = analysed.objected
        except EngineError:
            pass
        if objected:
            raise unrecognised()
        raise QueryRefused(
            "the query does not fit its tables: Spark does not take what it becomes there",
            code="does_not_bind",
            hint="Give values that stand for each other, in UNION or CASE, one type by a cast; "
            "nest expressions less deeply.",
        )

    def _empty_twin(self) -> Twin:
        with self._lock:
            if self._twin is None:
                self._twin = Twin(self._schema, evidence_for(duckdb.__version__))
            return self._twin

    @property
    def verdicts(self) -> Verdicts:
        return self._verdicts

    @property
    def written(self) -> str | None:
        """Not known: catalogs do not say when data were last written."""
        return None

    @property
    def edition(self) -> str | None:
        """None: each question reads the tables as they are then."""
        return None

    def run(self, seconds: float | None = None) -> SparkRun:
        return SparkRun(self._session, self._schema, self._snapshot, self.last_reading, seconds)

    def close(self) -> None:
        """Close the twin and the session of the last reading; that of rows is the database's."""
        self.last_reading.close()
        if self._twin is not None:
            self._twin.close()


class SparkRun:
    """The statements of one question, in sessions of their own: what is interrupted is these."""

    def __init__(
        self,
        session: SparkSession,
        schema: Schema,
        snapshot: Snapshot,
        reading: SparkReading,
        seconds: float | None,
    ) -> None:
        self._parent = session
        self._reading = reading
        self._tables = {view_of(table.name): table for table in schema.values()}
        self._snapshot: Snapshot = snapshot
        self._sessions: list[SparkSession] = []
        stop = _Stop(self._sessions)
        self._stop = stop
        self._deadline = None if seconds is None else Deadline(seconds, stop)
        self._clock = (
            None if self._deadline is None else ExecutorClock(self._deadline, self._sessions)
        )

    def begin(self, tables: Iterable[TableName]) -> None:
        """Compare the columns of tables with what they were when opened."""
        found = [self._tables[view_of(name)] for name in tables]
        try:
            same = quietly(lambda: all(is_same(self._parent, table) for table in found))
        except EngineError:
            same = False
        TRIED["definitions"] += 1
        if not same:
            raise definitions_changed()

    def release(self) -> None:
        """Close the sessions of the run."""
        sessions, self._sessions[:] = list(self._sessions), []
        for session in sessions:
            with suppress(Exception):
                closed(session)

    @property
    def expired(self) -> bool:
        return self._deadline is not None and self._deadline.expired

    def __enter__(self) -> SparkRun:
        if self._deadline is not None and self._clock is not None:
            self._deadline.__enter__()
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._deadline is not None and self._clock is not None:
            self._clock.stop()
            self._deadline.__exit__()
        self.release()

    def interrupt(self) -> None:
        self._stop()

    def over(self, reads: Reads) -> SparkReader:
        sheet = self._reading.over(reads)
        return SparkReader(lambda: self._place(sheet))

    def stream(self, table: Table) -> ArrowStream:
        columns = join(", ", (quoted(column.name) for column in table.columns))
        rows = sql("SELECT {} FROM {}", columns, quoted(view_of(table.name)))
        return self.over(Reads((table.name,))).pairs(rows)

    def compute(self, statement: Sql) -> None:
        """Compute a generated statement over constants.

        Raises ``EngineError``, or ``InternalError`` if its plan is none of dpsql's.
        """
        sheet = self._reading.over(Reads(()))
        with self._place(sheet) as place:
            try:
                place.pairs(statement)
                return
            except EngineError as error:
                code = error.code
        # Raised outside the handler, so that its context quotes nothing.
        raise unrecognised() if sheet.objected else EngineError(code=code)

    def _place(self, sheet: SparkSheet) -> SparkScratch:
        """Make a session with its settings, and no views yet."""
        session = quietly(lambda: session_beside(self._parent))
        self._sessions.append(session)
        if self._clock is not None:
            self._clock.hear(session)
        return SparkScratch(session, self._tables, self._snapshot, sheet, self._stop)


class SparkReader:
    """Where the statements of one reading run, each in a session of its own."""

    def __init__(self, place: Callable[[], SparkScratch]) -> None:
        self._place = place

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        with self._place() as place:
            return place.exact(statement, keys, measures)

    def pairs(self, statement: Sql) -> ArrowStream:
        with self._place() as place:
            return place.pairs(statement)

    def scratch(self) -> SparkScratch:
        return self._place()


class _Stop:
    """Interrupts all that a run executes; knows nothing of the run itself."""

    def __init__(self, sessions: list[SparkSession]) -> None:
        self._sessions = sessions
        self.called = False

    def __call__(self) -> None:
        self.called = True
        for session in tuple(self._sessions):
            with suppress(Exception):
                session.interruptAll()


class SparkScratch:
    """Views of one session over rows that the executors hold, in memory or on their disks.

    Rows that are stored are computed once: their plan is forgotten, so a lost executor makes the
    question fail, and never has them computed again, of other data or with other row numbers.
    """

    def __init__(
        self,
        session: SparkSession,
        tables: dict[str, Table],
        snapshot: Snapshot,
        sheet: SparkSheet,
        stop: _Stop,
    ) -> None:
        self._session = session
        self._tables = tables
        self._snapshot: Snapshot = snapshot
        self._sheet = sheet
        self._stop = stop
        self._stored: dict[str, DataFrame] = {}

    def __enter__(self) -> SparkScratch:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._stored.values():
            _forget(frame)
        self._stored.clear()

    def store(self, name: str, statement: Sql, *parameters: list[int]) -> int:
        def run() -> int:
            with self._reading(statement, parameters) as frame:
                stored = stored_once(frame, self._session)
            self._stored[name] = stored
            stored.createOrReplaceTempView(spark_quote(name))
            self._sheet.stored(name)
            return int(stored.count())

        return self._quietly(run)

    def drop(self, name: str) -> None:
        def run() -> None:
            self._session.catalog.dropTempView(name)
            self._sheet.dropped(name)
            _forget(self._stored.pop(name))

        self._quietly(run)

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        return self._exact(statement, keys, measures)

    def pairs(self, statement: Sql) -> ArrowStream:
        def run() -> ArrowStream:
            with self._reading(statement, ()) as frame:
                table: ArrowStream = sound(frame).toArrow()
                return table

        return self._quietly(run)

    def integers(self, statement: Sql, *parameters: int | list[int]) -> list[NDArray[np.int64]]:
        def run() -> list[NDArray[np.int64]]:
            with self._reading(statement, parameters) as frame:
                return [integers(column) for column in frame.toArrow().columns]

        return self._quietly(run)

    def keys(self, statement: Sql, keys: Sequence[Column], row_ids: NDArray[np.int64]) -> ExactRows:
        return self._exact(statement, keys, (), row_ids.tolist())

    def _exact(
        self,
        statement: Sql,
        keys: Sequence[Column],
        measures: Sequence[str],
        *parameters: list[int],
    ) -> ExactRows:
        def run() -> ExactRows:
            with self._reading(statement, parameters) as frame:
                return exact_rows(sound(frame).toArrow(), keys, measures)

        return self._quietly(run)

    # -- statements ---------------------------------------------------------------------------

    def analyse(
        self,
        sheet: SparkSheet,
        statement: Sql,
        parameters: Sequence[int | list[int]] = (),
        name: str | None = None,
    ) -> int:
        """Have a statement analysed and read, for none of its rows; returns its columns' number.

        Under a ``name`` it becomes a view for statements after it. Raises ``EngineError``.
        """

        sheet.read(statement, parameters)  # first: a command would be executed by being analysed

        def run() -> int:
            for view, table in self._tables.items():
                if view in statement.names:
                    rows = _frame(self._session, read_as(table))
                    rows.createOrReplaceTempView(spark_quote(view))
            frame = self._frame(statement, parameters)
            columns = len(frame.schema.fields)  # asked for, as some sessions analyse no earlier
            if name is not None:
                frame.createOrReplaceTempView(spark_quote(name))
                sheet.stored(name)
            return columns

        return self._quietly(run)

    def forget_view(self, name: str) -> None:
        """Drop the view of a statement that was analysed. Raises ``EngineError``."""
        self._quietly(lambda: self._session.catalog.dropTempView(name))

    def _frame(self, statement: Sql, parameters: Sequence[int | list[int]]) -> DataFrame:
        """Make the frame of a statement with what it is given."""
        numbers = [value for value in parameters if isinstance(value, int)]
        for value in parameters:
            if not isinstance(value, int):
                self._give(value)
        return _frame(self._session, statement, numbers)

    def _quietly(self, run: Callable[[], _T]) -> _T:
        return quietly(run, self._stop)

    @contextmanager
    def _reading(
        self, statement: Sql, parameters: Sequence[int | list[int]]
    ) -> Iterator[DataFrame]:
        """Read a statement and make its frame: the one door to rows, for all that is sent."""
        self._sheet.read(statement, parameters)
        copies = [self._show(view, statement) for view in self._tables if view in statement.names]
        try:
            yield self._frame(statement, parameters)
        finally:
            for copy in copies:
                if copy is not None:
                    _forget(copy)

    def _show(self, view: str, statement: Sql) -> DataFrame | None:
        """Make the view of a table for one statement; returns the copy that it reads, if any.

        A statement may read a table twice if it names it twice, or if it has a WITH, whose members
        Spark computes as often as they are read. Both times must be of the same rows: what a unit
        weighs follows from all of them.
        """
        table = self._tables[view]
        once = statement.pieces.count(Name(view)) == 1 and not _has_with(statement)
        if self._snapshot == "fixed" or once:
            _frame(self._session, read_as(table)).createOrReplaceTempView(spark_quote(view))
            return None
        needed = [column for column in table.columns if _is_read(column, statement)]
        rows = _frame(self._session, read_as(table, needed))
        copy = stored_once(rows, self._session)
        copy.createOrReplaceTempView(spark_quote(view))
        return copy

    def _give(self, values: list[int]) -> None:
        """Make the view of what a statement is given."""
        import pyarrow as pa

        ids = pa.table({"id": pa.array(values, type=pa.int64())})
        # The schema is said, as a server finds out none from no values.
        given = self._session.createDataFrame(ids, schema="id BIGINT")
        given.createOrReplaceTempView(spark_quote(SPARK_GIVEN))


class _Analysed(Rehearsal):
    """Statements that Spark analyses; what would be stored is a view that nobody reads."""

    def __init__(self, place: SparkScratch, reading: SparkReading) -> None:
        super().__init__()
        self._place = place
        self._reading = reading
        self._sheet = reading.over(Reads(()))

    @property
    def objected(self) -> bool:
        """True if a statement is none of dpsql's by its plan."""
        return self._sheet.objected

    def over(self, reads: Reads) -> _Analysed:
        self._sheet = self._reading.over(reads)
        return self

    def planned(self, statement: Sql, parameters: Sequence[int | list[int]]) -> int:
        return self._place.analyse(self._sheet, statement, parameters)

    def sent(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> Sql:
        return statement

    def make(self, name: str, statement: Sql, parameters: Sequence[list[int]]) -> None:
        self._place.analyse(self._sheet, statement, parameters, name)

    def forget(self, name: str) -> None:
        self._place.forget_view(name)
        self._sheet.dropped(name)


def _frame(session: SparkSession, statement: Sql, numbers: Sequence[int] = ()) -> DataFrame:
    """Make the frame of a statement: the only place where it becomes the text that Spark reads."""
    text = statement.render(SPARK_TEXT)
    return session.sql(text, args=list(numbers)) if numbers else session.sql(text)


def _has_with(statement: Sql) -> bool:
    """Tell whether a statement has a WITH anywhere: numbered rows are selected from one."""
    texts = (p.text if isinstance(p, Written) else p for p in statement.pieces)
    return any(isinstance(text, str) and _WITH.search(text) for text in texts)


def _is_read(column: Column, statement: Sql) -> bool:
    """Tell whether a statement may read a column: one of that name, also in checked trees."""
    if column.name in statement.names:
        return True
    written = (piece.text for piece in statement.pieces if isinstance(piece, Written))
    return any(spark_quote(column.name) in text for text in written)


def _forget(frame: DataFrame) -> None:
    """Drop what the executors hold of stored rows.

    Elsewhere than in the process of Spark's driver the server does so, once the frame is gone.
    """
    plan = getattr(frame, "_jdf", None)
    if plan is not None:
        with suppress(Exception):
            plan.queryExecution().logical().rdd().unpersist(False)


def quietly(run: Callable[[], _T], stop: Any = None) -> _T:
    """Run something; replace its errors by one with a fixed text, as Spark's quote rows."""
    try:
        with DISCREET:
            return run()
    except InterfaceError:
        raise
    except Exception:  # noqa: BLE001 - of Spark, of the bridge to it, of the network
        code = "interrupted" if stop is not None and stop.called else "engine_failed"
    # Raised outside the handler, so that not even its context quotes a row.
    raise EngineError(code=code)
