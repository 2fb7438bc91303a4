"""Answers as tables of other libraries, in types that these have.

DuckDB has types that Arrow or pandas lack, and what it makes of them differs by library: an error,
bytes that nothing can read, or a panic of the reader. Here each type has one outcome for each
target: the value itself, its text where the target has no such type, or an error that names the
column. Integers of 128 bits are decimals (Arrow) or integers of 64 bits (pandas) if all of a column
fit, and texts otherwise. Infinite dates have no equal: Arrow's would become a day like any other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb

from dpsql.core.extras import install_hint
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT, TIMESTAMP, VARCHAR, SqlType
from dpsql.engines.duckdb.engine import MaterializedStream
from dpsql.engines.embedded.interruptible import raise_if_interrupted
from dpsql.engines.embedded.lockdown import isolated
from dpsql.engines.embedded.running import aggregated, executed, relation, selected
from dpsql.engines.embedded.types import has_any, plain_type
from dpsql.errors import Error, InterfaceError
from dpsql.results.rows import AddedColumn, Answer

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_T = TypeVar("_T")
_DATES: Final = frozenset(
    {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
    | {"timestamp with time zone"}
)
_MOMENT: Final = "TIMESTAMP WITH TIME ZONE"
_HUGE: Final = frozenset({"hugeint", "uhugeint"})
_ANSWER: Final = f"{INTERNAL_PREFIX}answer"


@dataclass(frozen=True, slots=True)
class _Target:
    """The types of a library: ``texts`` become VARCHAR, ``huge`` is for integers of 128 bits.

    ``zones``: it is given moments with their time zone.
    """

    name: str
    texts: frozenset[str]
    huge: SqlType
    zones: bool


_ARROW: Final = _Target(
    "Arrow",
    _HUGE | {"bignum", "bit", "uuid", "interval", "time with time zone", "union"},
    SqlType.decimal(38, 0),
    zones=True,
)
_PANDAS: Final = _Target(
    "pandas",
    _HUGE | {"bignum", "bit", "time with time zone"},
    BIGINT,
    zones=False,  # DuckDB would set them by what pandas warns about
)


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The first ``width`` columns of an answer, with columns added in between."""

    answer: Answer
    width: int
    added: Sequence[AddedColumn] = ()

    def pandas(self) -> pandas.DataFrame:
        """Return a pandas DataFrame. Raises ``InterfaceError`` for what it cannot hold."""
        require_package("pandas", "pandas")

        def convert(rows: duckdb.DuckDBPyRelation) -> pandas.DataFrame:
            frame: pandas.DataFrame = rows.df()
            for name in zoned.intersection(frame.columns):
                frame[name] = frame[name].dt.tz_localize("UTC")
            return frame

        named = zip(self.answer.names, self.answer.types[: self.width], strict=False)
        zoned = {name for name, type_ in named if type_.kind == _MOMENT}
        return self._converted(_PANDAS, convert)

    def pyarrow(self) -> pyarrow.Table:
        """Return a pyarrow Table. Raises as :meth:`pandas` does."""
        require_package("pyarrow", "arrow")
        table: pyarrow.Table = self._converted(_ARROW, lambda rows: _out(rows).to_arrow_table())
        return table

    def polars(self) -> polars.DataFrame:
        """Return a polars DataFrame. Raises as :meth:`pandas` does."""
        require_package("polars", "polars")
        import polars

        return self._converted(_ARROW, lambda rows: polars.DataFrame(_stream(rows)), "polars")

    def narwhals(self) -> object:
        """Return a pyarrow Table as narwhals hands it around. Raises as :meth:`pandas` does."""
        table = self.pyarrow()
        require_package("narwhals", "arrow")
        import narwhals

        # By its protocol an object hands over a frame of narwhals' own making, which has no
        # public name; versions without that attribute are told apart from broken answers.
        found: object = getattr(narwhals.from_native(table), "_compliant_frame", None)
        if found is None:
            raise InterfaceError(
                "this version of narwhals does not read answers",
                code="no_frame_type",
                hint="Pass it result.df(), result.pl() or result.arrow().",
            )
        return found

    def stream(self) -> object:
        """Return a capsule of the Arrow C stream interface, which needs no library.

        Everything has been computed by then: whoever reads it meets no error of ours. Raises as
        :meth:`pandas` does.
        """

        def convert(rows: duckdb.DuckDBPyRelation) -> object:
            return _stream(rows).__arrow_c_stream__(None)

        return self._converted(_ARROW, convert)

    def _converted(
        self,
        target: _Target,
        convert: Callable[[duckdb.DuckDBPyRelation], _T],
        reader: str | None = None,
    ) -> _T:
        held: list[Sql] = []
        try:
            rows = self.answer.relation(self.width, self.added)
            _refuse_infinite(rows, target)
            held += [_held(rows, position, target) for position in range(len(rows.columns))]
            return convert(selected(rows, held))
        except BaseException as error:  # noqa: BLE001 (a panic of polars is no Exception)
            _raise_if_not_of_a_library(error)
        # Raised outside the handler: the libraries' errors may quote values.
        found = _failing(rows, held, convert) if held else None
        raise _no_type(found, reader or target.name)


def require_package(module: str, extra: str) -> None:
    """Raise ``InterfaceError`` unless a package that one of dpsql's extras installs is there."""
    try:
        importlib.import_module(module)
    except ImportError:
        raise InterfaceError(
            f"{module} is not installed",
            code="missing_package",
            hint=install_hint(extra),
        ) from None


@cache
def _converter() -> duckdb.DuckDBPyConnection:
    """Open the database that writes Arrow for others; nothing is stored there."""
    return isolated(plain_arrow=True)


def _out(rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return rows by way of a database that writes them in Arrow's own types."""
    cursor = _converter().cursor()
    cursor.register(_ANSWER, MaterializedStream(rows))
    return relation(cursor, sql("SELECT * FROM {}", quoted(_ANSWER)))


def _stream(rows: duckdb.DuckDBPyRelation) -> MaterializedStream:
    return MaterializedStream(executed(_out(rows)))


def _held(rows: duckdb.DuckDBPyRelation, position: int, target: _Target) -> Sql:
    """Write a column in the type that holds it in a target."""
    column, type_ = quoted(rows.columns[position]), rows.types[position]
    wanted = plain_type(type_, texts=target.texts) or VARCHAR
    if type_.id in _HUGE:
        huge = target.huge.sql
        fits = sql(
            "(TRY_CAST({column} AS {huge}) IS NULL) = ({column} IS NULL)", column=column, huge=huge
        )
        wanted = target.huge if _all(rows, fits) else VARCHAR
    if type_.id == _MOMENT.lower() and not target.zones:
        wanted = TIMESTAMP
    if wanted == plain_type(type_):
        return column
    return sql("CAST({} AS {}) AS {}", column, wanted.sql, column)


def _refuse_infinite(rows: duckdb.DuckDBPyRelation, target: _Target) -> None:
    for column, type_ in zip(rows.columns, rows.types, strict=True):
        if has_any(type_, _DATES) and not _all(rows, _is_finite(quoted(column))):
            raise InterfaceError(
                f"{target.name} cannot hold the infinite dates of the column {column!r}",
                code="no_frame_type",
                hint="Cast the column to VARCHAR in an outer query, which asks nothing new, or "
                "read the answer with fetchall().",
            )


def _is_finite(column: Sql) -> Sql:
    # Also of dates inside nested values, where texts that hold the word are refused with them.
    return sql("NOT contains(CAST({} AS VARCHAR), 'infinity')", column)


def _all(rows: duckdb.DuckDBPyRelation, condition: Sql) -> bool:
    """Tell whether a condition holds in all rows; one that is NULL does."""
    held = sql("coalesce(bool_and({}), true)", condition)
    (found,) = aggregated(rows, held).fetchall()[0]
    return bool(found)


def _failing(
    rows: duckdb.DuckDBPyRelation,
    held: Sequence[Sql],
    convert: Callable[[duckdb.DuckDBPyRelation], object],
) -> str | None:
    """Find the first column that cannot be converted by itself, or None."""
    for name, column in zip(rows.columns, held, strict=True):
        try:
            convert(selected(rows, [column]))
        except BaseException as error:  # noqa: BLE001 (see above)
            _raise_if_not_of_a_library(error)
            return name
    return None


def _raise_if_not_of_a_library(error: BaseException) -> None:
    """Let errors of ours go on, and what ends a program."""
    if isinstance(error, Error):
        raise error
    if isinstance(error, Exception):
        raise_if_interrupted(error)
    elif type(error).__name__ != "PanicException":
        raise error


def _no_type(column: str | None, library: str) -> InterfaceError:
    if column is None:
        return InterfaceError(
            f"the answer could not be made a table of {library}",
            code="no_frame_type",
            hint="It may be too large for the memory. Read it with fetchall(), or ask for less of "
            "it: the same release answers another statement over the same blocks at no cost.",
        )
    return InterfaceError(
        f"{library} has no type for values of the column {column!r}",
        code="no_frame_type",
        hint="Cast the column to VARCHAR in an outer query, which asks nothing new, or "
        "read the answer with fetchall().",
    )
