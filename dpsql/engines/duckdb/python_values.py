"""Columns of Python values, which have no type of their own: lists, and arrays of objects.

What a list holds says nothing of what it may hold, so its values become texts that the engine reads
as declared. Columns of arrays and frames that have types keep them.
"""

from __future__ import annotations

import datetime
import json
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column, fold
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import DATE, VARCHAR, SqlType
from dpsql.engines.duckdb.untyped import as_declared
from dpsql.errors import ParameterError

_MOST_BITS: Final = 4096  # of an integer that is written out
_FIXED_WIDTH: Final = {"U": VARCHAR, "S": SqlType.of("BLOB")}
"""Kinds of arrays that DuckDB scans as objects, without a type for empty ones."""
_ZONED: Final = SqlType.of("TIMESTAMP WITH TIME ZONE")
"""The type of pandas' moments of a zone, which DuckDB takes from the first of them."""
_MISSING: Final = frozenset({"NAType", "NaTType"})


@dataclass(frozen=True, slots=True)
class PythonValues:
    """A table of Python values in memory, with columns that may have no types of their own.

    ``data`` is what DuckDB scans: a frame, or arrays by name, or what has types throughout, of
    which no names are known. ``untyped`` are the columns without types, by name; they are texts in
    ``data``. ``kept`` are types that DuckDB would not find, by name. ``loose`` is True where types
    that columns have may follow from values: one that is missing makes integers of pandas floats.
    """

    data: object
    names: tuple[str, ...] = ()
    untyped: frozenset[str] = frozenset()
    kept: Mapping[str, SqlType] = field(default_factory=dict)
    loose: bool = False

    def query(self, frame: str, columns: Sequence[Column]) -> Sql | None:
        """Write the query over the typed columns; None without any.

        Those are the declared ones, and those that have a type and are not declared.
        """
        declared = {fold(column.name): column for column in columns}
        selected = [
            value
            for name in self.names
            if (value := self._value(name, declared.get(fold(name)))) is not None
        ]
        if not selected:
            return None
        return sql("SELECT {} FROM {}", join(", ", selected), quoted(frame))

    def _value(self, name: str, column: Column | None) -> Sql | None:
        source = quoted(name)
        if name in self.kept:
            source = sql("TRY_CAST({} AS {})", source, self.kept[name].sql)
        if name in self.untyped:
            text = sql("CAST({} AS VARCHAR)", source)
            value = None if column is None else as_declared(text, column.type)
        else:
            value = source
            if column is not None:
                value = sql("TRY_CAST({} AS {})", source, column.type.sql)
        return None if value is None else sql("{} AS {}", value, quoted(name))


def python_values(data: object) -> PythonValues:
    """Find which columns of a table in memory have no type, and write their values as texts."""
    if isinstance(data, Mapping):
        _require_distinct(map(str, data))
        return _of_arrays({str(name): values for name, values in data.items()})
    if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
        return _of_pandas(data)
    if type(data).__module__.split(".")[0] == "polars" and hasattr(data, "collect_schema"):
        return _of_polars(data)
    names = tuple(map(str, getattr(getattr(data, "schema", None), "names", ())))
    _require_distinct(names)
    return PythonValues(data, names)


def _require_distinct(names: Iterable[str]) -> None:
    """Refuse columns of no name, or of one: the engine would call them by names of its own."""
    met: set[str] = set()
    for name in names:
        if not name:
            reason = "a column of the data has no name"
        elif fold(name) in met:
            reason = f"two columns of the data are called {name[:60]}, ignoring case"
        else:
            met.add(fold(name))
            continue
        raise ParameterError(reason, code="bad_parameter", hint="Give each a name of its own.")


def _of_arrays(columns: Mapping[str, object]) -> PythonValues:
    arrays: dict[str, NDArray[Any]] = {}
    untyped, kept = set(), {}
    for name, values in columns.items():
        array = _typed(values)
        if array is None:
            array = _texts(values.to_pylist() if hasattr(values, "to_pylist") else values)
            untyped.add(name)
        elif array.dtype.kind in _FIXED_WIDTH:
            kept[name] = _FIXED_WIDTH[array.dtype.kind]
            # Not all that such a text can hold is text.
            array = _texts(array) if array.dtype.kind == "U" else array.astype(object)
        elif array.dtype == "M8[D]":  # which DuckDB scans in seconds
            kept[name] = DATE
            array = array.astype("M8[s]")
        arrays[name] = array
    return PythonValues(arrays, tuple(arrays), frozenset(untyped), kept)


def _typed(values: object) -> NDArray[Any] | None:
    """Return an array in its source's own type; None for a source without one.

    That of a Series is its own if it is NumPy's. Of others, which know missing values, an array has
    the type that its values need: one that is missing makes integers floats, or objects.
    """
    if not isinstance(getattr(values, "dtype", None), np.dtype):
        return None
    array = np.asanyarray(values)
    return None if array.dtype.kind == "O" else array


def _of_pandas(data: Any) -> PythonValues:
    frame = data.copy(deep=False)
    frame.columns = [str(name) for name in data.columns]
    _require_distinct(frame.columns)
    untyped, kept = set(), {}
    for name, dtype in zip(frame.columns, data.dtypes, strict=True):
        if _is_untyped(dtype):
            frame[name] = _texts(frame[name].tolist())
            untyped.add(name)
        elif hasattr(dtype, "tz"):
            kept[name] = _ZONED
    return PythonValues(frame, tuple(frame.columns), frozenset(untyped), kept, loose=True)


def _is_untyped(dtype: Any) -> bool:
    """Tell whether DuckDB would take the type of a column of pandas from its values.

    Of categories it does unless they are texts: one that is missing makes integers floats.
    """
    categories = getattr(dtype, "categories", None)
    if categories is None:
        return str(dtype) == "object"
    return not str(categories.dtype).startswith("str")


def _of_polars(data: Any) -> PythonValues:
    untyped = [name for name, kind in data.collect_schema().items() if str(kind) == "Object"]
    for name in untyped:
        values = data.get_column(name)
        data = data.with_columns(type(values)(name, _texts(values.to_list()).tolist()))
    return PythonValues(data, tuple(data.columns), frozenset(untyped))


def _texts(values: object) -> NDArray[Any]:
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        values = [values]
    texts = [python_text(value) for value in values]
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def python_text(value: object) -> str | None:
    """Write a Python value as a text that the engine reads; None for missing values.

    No value makes it fail, so that no row makes a table unreadable.
    """
    match value:
        case np.datetime64():
            return None if np.isnat(value) else str(value)
        case np.floating():  # some have no Python value of their own
            value = float(value)
        case np.generic():
            value = value.item()
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case str():
            return value if _is_text(value) else None
        case int():
            return str(value) if value.bit_length() <= _MOST_BITS // 4 else None
        case float():
            return None if math.isnan(value) else repr(value)
        case bytes() | bytearray() | memoryview():
            return "".join(f"\\x{byte:02X}" for byte in bytes(value))
        case Decimal():
            return format(value, "f") if _is_short(value) else None
        case datetime.timedelta():
            return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        case datetime.date() | datetime.time() | uuid.UUID():
            return None if type(value).__name__ in _MISSING else _moment(value)
        case list() | tuple() | dict():
            return _nested(value)
    return None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_short(value: Decimal) -> bool:
    return value.is_finite() and abs(value.adjusted()) < 400 and len(value.as_tuple().digits) < 400


def _moment(value: object) -> str | None:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a time zone of the owner's own may raise
        return None


def _nested(value: object) -> str | None:
    try:
        text = json.dumps(value, default=python_text, skipkeys=True, ensure_ascii=False)
    except (ValueError, RecursionError, TypeError):
        return None
    return text if _is_text(text) else None
