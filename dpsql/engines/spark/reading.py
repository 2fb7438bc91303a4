"""The last reading on Spark: what is about to be sent is analysed by Spark, and its plan is read.

It is analysed in a session of its own, over empty views that are called like those of the tables
and of what the question has stored, with columns of the same types. There it has neither literals
nor names of anybody's (:mod:`dpsql.engines.spark.masked`), so that no text can pass for a part of
its plan: a server of Spark Connect tells plans as text alone. The plan is the one before
optimisation. It may hold the views of the tables that the relations of the question scan, each as
often, or none of them; views of what the same question has stored; and what
:mod:`dpsql.engines.spark.forms` lists. Anything else is not sent.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from dpsql.core.schema import Table
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.engine import GivenValues, Reads
from dpsql.engines.spark.casts import spark_type
from dpsql.engines.spark.masked import Unmasked, mask_names, masked_name
from dpsql.engines.spark.plan import SPARK_FORMS, SparkForms, UnknownWord, views_read
from dpsql.engines.spark.sessions import DISCREET, active, closed, session_beside
from dpsql.engines.spark.text import SPARK_GIVEN, SPARK_TEXT, spark_quote, view_of
from dpsql.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REMEMBERED: Final = 1000  # statements, by their text without literals and salt
_UNCUT: Final = ("spark.sql.debug.maxToStringFields", "2147483647")
_ANALYSED: Final = "\n== Analyzed Logical Plan ==\n"
_NEXT: Final = "\n== Optimized Logical Plan ==\n"


@dataclass(frozen=True, slots=True)
class KnownStatement:
    """A statement that was read: a number of its own, and its columns as Spark takes them."""

    number: int
    columns: Any


@dataclass(frozen=True, slots=True)
class _Planned:
    """Spark's analysis of a statement."""

    plan: str
    columns: Any


class _Refused(Enum):
    """Why there is no plan of a statement."""

    NOT_TAKEN = auto()
    UNREADABLE = auto()


class SparkReading:
    """Reads statements before they are sent; safe to use from several threads.

    Statements that differ in their salt, or in their literals alone, are one.
    """

    def __init__(
        self, parent: SparkSession, tables: Iterable[Table], forms: SparkForms = SPARK_FORMS
    ) -> None:
        self._parent = parent
        self._tables = tuple(tables)
        self._forms = forms
        self._session: SparkSession | None = None
        self._shown: dict[str, int] = {}  # views of stored rows, by the statement of each
        self._known: OrderedDict[Hashable, KnownStatement] = OrderedDict()
        self._numbers = count()
        self._lock = Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """How many statements have been read, known ones among them."""
        return self._count

    def over(self, reads: Reads) -> SparkSheet:
        """Return the last reading for statements over these tables."""
        return SparkSheet(self, reads)

    def close(self) -> None:
        """End its session."""
        with self._lock:
            self._forget_session()

    # -- for its sheets -----------------------------------------------------------------------

    def read(
        self,
        key: Hashable,
        text: str,
        numbers: int,
        tables: Counter[str],
        stored: Mapping[str, KnownStatement],
    ) -> KnownStatement | None:
        """Read a masked statement that may scan these tables and stored ones.

        Returns None for one that Spark does not take. Raises ``EngineError`` for what it may not
        be, and where it cannot be read.
        """
        with self._lock:
            self._count += 1
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            planned = self._planned(text, numbers, stored)
            if planned is _Refused.NOT_TAKEN:
                return None
            if isinstance(planned, _Planned) and self._is_known(planned.plan, tables, stored):
                found = KnownStatement(next(self._numbers), planned.columns)
                self._known[key] = found
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
                return found
        raise EngineError()

    def _is_known(self, plan: str, tables: Counter[str], stored: Iterable[str]) -> bool:
        try:
            found = views_read(plan, self._forms)
        except UnknownWord:
            return False
        for own in (SPARK_GIVEN, *stored):
            del found[own]
        return not found or found == tables

    def _planned(
        self, text: str, numbers: int, stored: Mapping[str, KnownStatement]
    ) -> _Planned | _Refused:
        """Have a statement analysed, once more in a new session where the first has ended."""
        from pyspark.errors import AnalysisException

        given = [1] * numbers
        for _ in range(2):
            try:
                with DISCREET:
                    session = self._opened()
                    for name, made in stored.items():
                        if self._shown.get(name) != made.number:
                            _show(session, name, made.columns)
                            self._shown[name] = made.number
                    frame = session.sql(text, args=given) if given else session.sql(text)
                    planned = _planned(frame)
            except AnalysisException:
                return _Refused.NOT_TAKEN
            except Exception:  # noqa: BLE001 - of Spark, of the bridge to it, of the network
                self._forget_session()  # a server ends those that nobody has used for long
                continue
            return planned or _Refused.UNREADABLE
        return _Refused.UNREADABLE

    def _opened(self) -> SparkSession:
        """Return the session that analyses statements, with a view of each table."""
        if self._session is None:
            session = session_beside(self._parent)
            session.conf.set(*_UNCUT)
            for table in self._tables:
                view = spark_quote(view_of(table.name))
                session.sql(_empty(table).render(SPARK_TEXT)).createOrReplaceTempView(view)
            given = sql("SELECT CAST(NULL AS BIGINT) AS id WHERE FALSE").render(SPARK_TEXT)
            session.sql(given).createOrReplaceTempView(spark_quote(SPARK_GIVEN))
            self._session = session
        return self._session

    def _forget_session(self) -> None:
        session, self._session = self._session, None
        self._shown.clear()
        if session is not None:
            with suppress(Exception):
                closed(session)


class SparkSheet:
    """The last reading of one question's statements over some tables of Spark.

    Used by one thread at a time.
    """

    def __init__(self, reading: SparkReading, reads: Reads) -> None:
        self._reading = reading
        self._salt = reads.salt
        self._tables = Counter(view_of(name) for name in reads.tables)
        self._over: Hashable = frozenset(self._tables.items())
        self._stored: dict[str, KnownStatement] = {}
        self._last: KnownStatement | None = None
        self.objected = False

    def read(self, statement: Sql, given: GivenValues = ()) -> None:
        """Read a statement.

        Raises ``EngineError`` for what Spark does not take, and for what it may not be: then it is
        ``objected`` to.
        """
        self._last = None
        self.objected = True
        numbers = sum(isinstance(value, int) for value in given)
        text = _masked(statement)
        key = self._key(text, numbers)
        self._last = self._reading.read(key, text, numbers, self._tables, self._stored)
        self.objected = False
        if self._last is None:
            raise EngineError()

    def stored(self, name: str, statement: Sql, given: GivenValues = ()) -> None:
        """Record that the statement read last has been stored as a view."""
        if self._last is None:
            raise EngineError()
        self._stored[name] = self._last

    def dropped(self, name: str) -> None:
        """Forget what was stored."""
        self._stored.pop(name, None)

    def _key(self, text: str, numbers: int) -> Hashable:
        """Return a key that is equal for statements with the same plan.

        A salt is digits, always as many: where it stands in a text, digits stand in the other.
        """
        unsalted = text if self._salt is None else tuple(text.split(str(self._salt)))
        stored = frozenset((name, made.number) for name, made in self._stored.items())
        return self._over, stored, unsalted, numbers


def _masked(statement: Sql) -> str:
    """Write a statement as it is analysed: in brackets it can be a query alone.

    A command would be executed, not analysed.
    """
    with suppress(Unmasked):
        return mask_names(sql("SELECT * FROM ({})", statement).render(SPARK_TEXT))
    raise EngineError()


def _empty(table: Table) -> Sql:
    """Write the statement that has the columns of a table, masked, and no rows."""
    columns = join(
        ", ",
        (
            sql("CAST(NULL AS {}) AS {}", spark_type(c.type), quoted(masked_name(c.name)))
            for c in table.columns
        ),
    )
    return sql("SELECT {} WHERE FALSE", columns or sql("1"))


def _show(session: SparkSession, name: str, columns: Any) -> None:
    """Make an empty view with the columns of stored rows."""
    session.createDataFrame([], schema=columns).createOrReplaceTempView(spark_quote(name))


def _planned(frame: DataFrame) -> _Planned | None:
    """Return Spark's analysis of a frame; None where Spark does not show it."""
    classic = getattr(frame, "_jdf", None)
    if classic is not None:
        with active(frame.sparkSession):
            return _Planned(str(classic.queryExecution().analyzed().toString()), frame.schema)
    told: Any = frame
    explained = str(told._explain_string(extended=True))
    if explained.count(_ANALYSED) != 1 or explained.count(_NEXT) != 1:
        return None
    columns, _, plan = explained.split(_ANALYSED)[1].split(_NEXT)[0].partition("\n")
    return _Planned(plan, columns)
