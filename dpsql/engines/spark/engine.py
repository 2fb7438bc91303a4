"""Spark 4: tables of a catalog, read by generated SQL in sessions of dpsql's own.

A session of the owner's is never used itself: each question gets a new one, with settings that are
read back. In it there is a view of each table that is asked for, with the columns and types of the
schema, and nothing else that generated SQL could mean. Statements are bound and examined on the
twin, an empty DuckDB, as for every engine: no text of Spark's reaches anybody.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.core.catalog import Catalog
from dpsql.core.constraints import NO_CONSTRAINTS, ConstraintsOf
from dpsql.core.schema import Column, Schema, Table
from dpsql.core.sql import Name, Sql, Written, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.arrow_rows import exact_rows, integers
from dpsql.engines.base.discreet import withholding_texts
from dpsql.engines.base.engine import ArrowStream, Definition, ExactRows, Reads
from dpsql.engines.base.engine_base import ServerDatabase, ServerEngine
from dpsql.engines.base.rehearsal import Rehearsal, not_taken, unrecognised
from dpsql.engines.base.run_base import RunBase
from dpsql.engines.base.scratch import Passed, ScratchBase, Sheet
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.engines.evidence.trials import TRIAL_SECONDS, TRIED, definitions_changed
from dpsql.engines.evidence.verdicts import EngineVersion, Verdicts, verdicts_on
from dpsql.engines.spark.reading import SparkReading
from dpsql.engines.spark.schema import catalog_tables, is_same, read_as
from dpsql.engines.spark.sessions import DISCREET, closed, opened, session_beside, stored_once
from dpsql.engines.spark.text import SPARK_GIVEN, SPARK_TEXT, spark_quote, view_of
from dpsql.engines.spark.waiting import ExecutorClock
from dpsql.errors import EngineError, InterfaceError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


_T = TypeVar("_T")
_CALLED: Final = "Spark"
_WITH: Final = re.compile(r"\bWITH ")
Snapshot = Literal["copy", "fixed"]
_NOWHERE: Final = "noop"  # a format that reads all rows and writes none
_SNAPSHOTS: Final = ("copy", "fixed")


class SparkEngine(ServerDatabase):
    """An owner-side handle on tables of a Spark catalog.

    ``session``: a ``SparkSession``, or the URL of a Spark Connect server, ``sc://host:port``. Its
    current database has the tables without a schema; ``schemas`` are further ones to be listed.
    ``snapshot`` says what keeps a table as it is while a statement reads it twice: ``copy`` has the
    columns it needs stored by the executors first, ``fixed`` is the owner's word that the data do
    not change while questions run. Raises ``InterfaceError`` if this is no Spark, or a setting that
    results depend on cannot be set.
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

    def constraints(self) -> ConstraintsOf:
        """Return none: keys of Spark's catalogs are informational, and no row has to obey them."""
        return NO_CONSTRAINTS

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

    def prove(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Read tables whole; returns the unreadable ones, with values no reader takes or damage.

        ``dpsql check`` does this. What is read goes nowhere, and nothing is remembered.
        """
        found = self.catalog().cut(tables).values()
        return tuple(table.name.key for table in found if not self._reads_all(table))

    def _reads_all(self, table: Table) -> bool:
        rows = quietly(lambda: _frame(self._session, read_as(table)))
        try:
            quietly(lambda: rows.write.format(_NOWHERE).mode("overwrite").save())
        except EngineError:
            return False
        return True

    def catalog(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                self._catalog = Catalog.of(*quietly(lambda: self._tables()))
            return self._catalog

    def _tables(self) -> list[Table]:
        return list(catalog_tables(self._session, self._schemas))

    def definition(self, table: TableName) -> Definition:
        return Definition(self.catalog().tables[table.key].unreadable)

    def over_constants(self, statement: Sql) -> pa.Table:
        """Run a statement that reads no table. Raises ``EngineError`` with a fixed text."""
        return quietly(lambda: _frame(self._session, statement).toArrow())

    def close(self) -> None:
        """Forget the session; one that was opened from a URL is ended."""
        for engine in self._opened.values():
            engine.close()
        for session in (self._session, *([self._given] if self._owns else [])):
            with suppress(Exception):
                closed(session)


class OpenSpark(ServerEngine):
    """The listed tables of a Spark catalog: views of them are all that its sessions have."""

    def __init__(
        self,
        session: SparkSession,
        name: str,
        schema: Schema,
        snapshot: Snapshot,
        verdicts: Verdicts,
    ) -> None:
        super().__init__(name, schema, verdicts)
        self._session = session
        self._snapshot: Snapshot = snapshot
        self.last_reading = SparkReading(session, schema.values())

    def _computed(self, statement: Sql) -> None:
        with self.run(TRIAL_SECONDS) as run:
            run.compute(statement)

    @contextmanager
    def _rehearsal(self) -> Iterator[Rehearsal]:
        """Have Spark analyse each statement over views of the tables. No table is read."""
        with self.run() as run:
            place: SparkScratch | None = None
            with suppress(EngineError):
                place = run.place(self.last_reading.over(Reads(())))
            if place is None:
                raise not_taken(_CALLED)
            with place:
                yield _Analysed(place, self.last_reading)

    def run(self, seconds: float | None = None) -> SparkRun:
        return SparkRun(self._session, self._schema, self._snapshot, self.last_reading, seconds)

    def close(self) -> None:
        """Close the twin and the session of the last reading; that of rows is the database's."""
        self.last_reading.close()
        super().close()


class SparkRun(RunBase):
    """The statements of one question, in sessions of their own that an interrupt ends."""

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
        self._interrupted = _Stop(self._sessions)
        super().__init__(seconds, self._interrupted)
        deadline = self._deadline
        self._clock = None if deadline is None else ExecutorClock(deadline, self._sessions)

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

    def __enter__(self) -> Self:
        super().__enter__()
        if self._clock is not None:
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._clock is not None:
            self._clock.stop()
        super().__exit__()

    def _sheet(self, reads: Reads) -> Sheet:
        return self._reading.over(reads)

    def _all_of(self, table: Table) -> Sql:
        columns = join(", ", (quoted(column.name) for column in table.columns))
        return sql("SELECT {} FROM {}", columns, quoted(view_of(table.name)))

    def compute(self, statement: Sql) -> None:
        """Compute a generated statement over constants.

        Raises ``EngineError``, or ``InternalError`` if its plan is none of dpsql's.
        """
        sheet = self._reading.over(Reads(()))
        with self.place(sheet) as place:
            try:
                place.pairs(statement)
                return
            except EngineError as error:
                code = error.code
        # Raised outside the handler, so that its context quotes nothing.
        raise unrecognised() if sheet.objected else EngineError(code=code)

    def place(self, sheet: Sheet) -> SparkScratch:
        """Make a session with its settings, and no views yet."""
        session = quietly(lambda: session_beside(self._parent))
        self._sessions.append(session)
        if self._clock is not None:
            self._clock.hear(session)
        return SparkScratch(session, self._tables, self._snapshot, sheet, self._interrupted)


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


class SparkScratch(ScratchBase):
    """Views of one session over rows that the executors hold, in memory or on their disks.

    Rows that are stored are computed once: their plan is forgotten, so a lost executor makes the
    question fail, and never has them computed again, of other data or with other row numbers.
    """

    def __init__(
        self,
        session: SparkSession,
        tables: dict[str, Table],
        snapshot: Snapshot,
        sheet: Sheet,
        stop: _Stop,
    ) -> None:
        super().__init__(sheet)
        self._session = session
        self._tables = tables
        self._snapshot: Snapshot = snapshot
        self._stop = stop
        self._stored: dict[str, DataFrame] = {}

    def _discreetly(self, run: Callable[[], _T]) -> _T:
        return quietly(run, self._stop)

    def _exact(self, passed: Passed, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        with self._frame(passed) as frame:
            return exact_rows(sound(frame).toArrow(), keys, measures)

    def _pairs(self, passed: Passed) -> ArrowStream:
        with self._frame(passed) as frame:
            table: ArrowStream = sound(frame).toArrow()
            return table

    def _integers(self, passed: Passed) -> list[NDArray[np.int64]]:
        with self._frame(passed) as frame:
            return [integers(column) for column in frame.toArrow().columns]

    def _store(self, name: str, passed: Passed) -> int:
        with self._frame(passed) as frame:
            stored = self._stored[name] = stored_once(frame, self._session)
        stored.createOrReplaceTempView(spark_quote(name))
        return int(stored.count())

    def _drop(self, name: str) -> None:
        self._session.catalog.dropTempView(name)
        _forget(self._stored.pop(name))

    def _leave(self, tables: set[str]) -> None:
        """Have executors forget stored rows; views go with the session."""
        for table in tables & self._stored.keys():
            _forget(self._stored.pop(table))

    # -- for rehearsals -----------------------------------------------------------------------

    def analyse(self, passed: Passed, name: str | None = None) -> int:
        """Have a statement analysed, for none of its rows; returns how many columns it has.

        Under a ``name`` it becomes a view for statements after it. Raises ``EngineError``.
        """

        def run() -> int:
            for view, table in self._tables.items():
                if view in passed.statement.names:
                    rows = _frame(self._session, read_as(table))
                    rows.createOrReplaceTempView(spark_quote(view))
            frame = self._given(passed)
            columns = len(frame.schema.fields)  # asked for, as some sessions analyse no earlier
            if name is not None:
                frame.createOrReplaceTempView(spark_quote(name))
            return columns

        return self._discreetly(run)

    def forget_view(self, name: str) -> None:
        """Drop the view of a statement that was analysed. Raises ``EngineError``."""
        self._discreetly(lambda: self._session.catalog.dropTempView(name))

    # -- statements ---------------------------------------------------------------------------

    def _given(self, passed: Passed) -> DataFrame:
        """Make the frame of a statement with its given values."""
        numbers = [value for value in passed.given if isinstance(value, int)]
        for value in passed.given:
            if not isinstance(value, int):
                self._give(value)
        return _frame(self._session, passed.statement, numbers)

    @contextmanager
    def _frame(self, passed: Passed) -> Iterator[DataFrame]:
        """Make the frame of a statement over views of its tables, which are there until it ends."""
        statement = passed.statement
        copies = [self._show(view, statement) for view in self._tables if view in statement.names]
        try:
            yield self._given(passed)
        finally:
            for copy in copies:
                if copy is not None:
                    _forget(copy)

    def _show(self, view: str, statement: Sql) -> DataFrame | None:
        """Make the view of a table for one statement; returns the copy behind it, if any.

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
    """Statements that Spark analyses and does not run; a stored table is an unread view."""

    def __init__(self, place: SparkScratch, reading: SparkReading) -> None:
        super().__init__(reading.over, _CALLED)
        self._place = place

    def _planned(self, passed: Passed) -> int:
        return self._place.analyse(passed)

    def _make(self, name: str, passed: Passed) -> None:
        self._place.analyse(passed, name)

    def _drop(self, name: str) -> None:
        self._place.forget_view(name)


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


def quietly(run: Callable[[], _T], stop: _Stop | None = None) -> _T:
    """Run something; replace its errors by one with a fixed text, as Spark's quote rows."""

    def code(error: Exception) -> str | None:
        """Name the kind: what is none of dpsql's own is of Spark, of the bridge, of the network."""
        if isinstance(error, InterfaceError):
            return None
        return "interrupted" if stop is not None and stop.called else "engine_failed"

    with DISCREET:
        return withholding_texts(run, code)


def sound(frame: DataFrame) -> DataFrame:
    """Make the texts of a result valid: a STRING of Spark's holds any bytes, and Arrow does not."""
    texts = [f.name for f in frame.schema.fields if type(f.dataType).__name__ == "StringType"]
    if not texts:
        return frame
    names = [field.name for field in frame.schema.fields]
    valid = [
        sql("make_valid_utf8({name}) AS {name}", name=quoted(name))
        if name in texts
        else quoted(name)
        for name in names
    ]
    return frame.selectExpr(*(each.render(SPARK_TEXT) for each in valid))
