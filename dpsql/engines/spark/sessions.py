"""Spark sessions of dpsql's own: opened beside the owner's, with settings that are read back."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from dpsql.core.extras import install_hint
from dpsql.errors import InterfaceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "false",
        "spark.sql.crossJoin.enabled": "true",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.groupByOrdinal": "true",
        "spark.sql.icu.caseMappings.enabled": "true",
        "spark.sql.orderByOrdinal": "true",
        # Whether a row is read follows from that row alone. By statistics and dictionaries Spark
        # passes over parts of files, and of tables that the owner has cached, in which there is
        # NaN or -0.0 that a condition holds for: a row of one unit beside them brings them back.
        "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
        "spark.sql.orc.aggregatePushdown": "false",
        "spark.sql.orc.filterPushdown": "false",
        "spark.sql.parquet.aggregatePushdown": "false",
        "spark.sql.parquet.filterPushdown": "false",
        # All rows of a unit are found wherever they lie: by names of files Spark takes those of a
        # bucket to be in one of them.
        "spark.sql.sources.bucketing.enabled": "false",
        "spark.sql.sources.v2.bucketing.enabled": "false",
        # With these, texts and names of questions would be patterns, or read the environment.
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.parser.quotedRegexColumnNames": "false",
        "spark.sql.variable.substitute": "false",
        # A name is that of a table, never the path of a file: FROM parquet.`/path`.
        "spark.sql.runSQLOnFiles": "false",
        # Neither a type nor a failure follows from the name of a directory, key=value.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.sources.validatePartitionColumns": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
    }
)
"""What results depend on. Never seen by the owner's own session."""
_REBASED: Final = (
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
)
_FAILING: Final = "EXCEPTION"
_CARRIED: Final = ("spark.sql.shuffle.partitions", *_REBASED)
_OTHER_MEANINGS: Final = ("spark.sql.ansi.", "spark.sql.legacy.")
"""What the names of settings begin with under which SQL means, or fails on, something else."""
_SCHEME: Final = "sc://"
_MISSING: Final = "pyspark cannot be imported"


def is_spark_session(value: object) -> bool:
    """Tell whether a value is a session of Spark's, without importing that."""
    module = type(value).__module__
    return module.startswith("pyspark.sql.") and type(value).__name__ == "SparkSession"


def is_spark_url(place: object) -> bool:
    """Tell whether a text is the URL of a Spark Connect server."""
    return isinstance(place, str) and place.startswith(_SCHEME)


def opened(given: SparkSession | str) -> tuple[SparkSession, SparkSession]:
    """Return the owner's session, or the first one on a server, and a session of dpsql's own.

    Raises ``InterfaceError``.
    """
    session = _connected(given) if isinstance(given, str) else given
    if not is_spark_session(session):
        raise InterfaceError(
            "this is neither a SparkSession nor the URL of a Spark Connect server",
            code="server_unsupported",
            hint="Give spark, or 'sc://host:15002'.",
        )
    keep_logs_discreet()
    return session, prepared(session)


def _connected(url: str) -> SparkSession:
    if not is_spark_url(url):
        raise InterfaceError(
            "the address of a Spark Connect server begins with sc://",
            code="server_unsupported",
            hint="Write sc://host:15002.",
        )
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InterfaceError(
            _MISSING, code="server_unsupported", hint=install_hint("spark")
        ) from None
    failed = False
    try:
        session = SparkSession.builder.remote(url).create()
        session.version  # noqa: B018 - asks the server
    except Exception:  # noqa: BLE001 - of the network, of the server; it may quote the token
        failed = True
    if failed:
        raise InterfaceError(
            "there is no Spark Connect server at this address, or it does not let this user in",
            code="server_unreachable",
            hint="Look whether it runs, and at the token in the URL.",
        )
    return session


def session_beside(parent: SparkSession) -> SparkSession:
    """Open a session beside one of ours, with all its settings and in its database."""
    if hasattr(parent, "cloneSession"):  # on a server: one question instead of many
        session: SparkSession = parent.cloneSession()
        return session
    session = _new(parent)
    for name, value in SPARK_SETTINGS.items():
        session.conf.set(name, value)
    return session


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Make a session in this process the active one of this thread, for a while.

    How much a plan shows as text is a setting of that session, whichever the plan is of.
    """
    kind = type(session)._get_j_spark_session_class(session._jvm)
    before = kind.getActiveSession()
    kind.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            kind.setActiveSession(before.get())
        else:
            kind.clearActiveSession()


def stored_once(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Have the rows of a frame of a session computed and held by the executors, now and for good.

    On a server pyspark takes what comes back for a frame of the thread's active session, which is
    the owner's: there it is not found.
    """
    if _is_classic(session):
        return frame.localCheckpoint(eager=True)
    active = type(session)._active_session
    before = getattr(active, "session", None)
    active.session = session
    try:
        return frame.localCheckpoint(eager=True)
    finally:
        active.session = before


def _is_classic(session: SparkSession) -> bool:
    """Tell whether the driver is in a process of ours, and not on a server."""
    return hasattr(session, "_jsparkSession")


def _new(parent: SparkSession) -> SparkSession:
    if not hasattr(parent, "newSession"):
        raise InterfaceError(
            "this pyspark cannot open a session beside another one on a server",
            code="server_unsupported",
            hint="Install pyspark 4.3 or later.",
        )
    session = parent.newSession()
    session.catalog.setCurrentCatalog(parent.catalog.currentCatalog())
    session.catalog.setCurrentDatabase(parent.catalog.currentDatabase())
    for name in _CARRIED:
        session.conf.set(name, str(parent.conf.get(name)))
    for name in _given_other_meanings(session):
        with suppress(Exception):  # what cannot be unset is refused when the engine is made
            session.conf.unset(name)
    return session


def _given_other_meanings(session: SparkSession) -> list[str]:
    """List the settings of a session that Spark's configuration gives another meaning to SQL."""
    given: Mapping[str, str] = session.conf.getAll
    return [
        name for name in given if name.startswith(_OTHER_MEANINGS) and name not in SPARK_SETTINGS
    ]


def prepared(parent: SparkSession) -> SparkSession:
    """Open a session beside the owner's, in its database, and set what results depend on.

    Raises ``InterfaceError`` where that cannot be set.
    """
    session = _new(parent)
    refused = [name for name, value in SPARK_SETTINGS.items() if not _set(session, name, value)]
    if refused:
        raise InterfaceError(
            f"the setting {refused[0]} cannot be {SPARK_SETTINGS[refused[0]]} in this Spark",
            code="server_unsupported",
            hint="Results depend on it. Let sessions set it, or use another cluster.",
        )
    left = _given_other_meanings(session)
    if left:
        raise InterfaceError(
            f"the setting {left[0]} cannot be unset in this Spark",
            code="server_unsupported",
            hint="Results depend on it. Let sessions unset it, or use another cluster.",
        )
    failing = [name for name in _REBASED if str(session.conf.get(name)).upper() == _FAILING]
    if failing:
        raise InterfaceError(
            f"the setting {failing[0]} is {_FAILING}, so that an old date makes a statement fail",
            code="server_unsupported",
            hint="Set it to CORRECTED, or to LEGACY where Spark 2 or Hive has written the files.",
        )
    if not _is_classic(session) and not _sends_rows(session):
        raise InterfaceError(
            f"this pyspark cannot send rows to a server of Spark {session.version}",
            code="server_unsupported",
            hint="Use Spark 4.2 or later on the server, or a session in this process.",
        )
    return session


def _sends_rows(session: SparkSession) -> bool:
    """Tell whether a frame can be made of rows: pyspark asks an older server for what it has not.

    Of several steps, one sends the numbers of units.
    """
    try:
        session.createDataFrame([(0,)], schema="id BIGINT")
    except Exception:  # noqa: BLE001 - of the server, or of what pyspark makes of its settings
        return False
    return True


def _set(session: SparkSession, name: str, value: str) -> bool:
    try:
        with warnings.catch_warnings():  # of settings that nobody here has chosen
            warnings.simplefilter("ignore")
            session.conf.set(name, value)
        return str(session.conf.get(name)) == value
    except Exception:  # noqa: BLE001 - a setting that this Spark has not, or does not let us set
        return False


class _Discreet(logging.Filter):
    """Keeps log records of a ``with`` block out of pyspark's logs, which quote plans and rows."""

    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record of this thread is to be written."""
        return not getattr(self._here, "depth", 0)

    def __enter__(self) -> None:
        self._here.depth = getattr(self._here, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        self._here.depth -= 1


DISCREET: Final = _Discreet()
"""A context in which pyspark writes no errors of this thread into logs."""
_LOGGER: Final = "SQLQueryContextLogger"


def keep_logs_discreet() -> None:
    """Have pyspark's own log of errors ask :data:`DISCREET` first."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before pyspark 4 there is no such log
        return
    PySparkLogger.getLogger(_LOGGER).addFilter(DISCREET)


def closed(session: SparkSession) -> None:
    """End a session of ours on a server; one in this process goes with its last reference."""
    if not _is_classic(session):
        session.stop()
