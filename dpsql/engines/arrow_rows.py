"""Exact rows from Arrow, which servers send: keys in the types that the schema has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import INTEGER_BITS, Column, base_type, is_decimal, is_float
from dpsql.engines.base import ArrowStream, ExactRows

if TYPE_CHECKING:
    import pyarrow as pa

_IN_NUMPY: Final = frozenset({"BOOLEAN", "VARCHAR", *INTEGER_BITS} - {"HUGEINT", "UHUGEINT"})
"""Types whose every value survives NumPy, as DuckDB's engine has them."""
_ARROW: Final = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "VARCHAR": "string",
    "DATE": "date32",
}


def exact_rows(table: pa.Table, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
    """Return exact rows in the order of their row ids.

    ``table`` has a row id, key columns and measures, which are integers of at most 64 bits.
    """
    row_ids = integers(table[ROW_ID])
    order = np.argsort(row_ids, kind="stable")
    typed = {key.name: as_type(table[key.name], key.type) for key in keys}
    found = {name: integers(table[name])[order] for name in measures}
    if all(base_type(key.type) in _IN_NUMPY for key in keys):
        arrays = {name: masked(column)[order] for name, column in typed.items()}
        return ExactRows(row_ids[order], found, arrays)
    return ExactRows(row_ids[order], found, _stream(table[ROW_ID], typed))


def integers(column: Any) -> NDArray[np.int64]:
    """Return integers as an array of 64 bits, 0 for NULL."""
    return np.asarray(column.fill_null(0).to_numpy(), dtype=np.int64)


def masked(column: Any) -> NDArray[Any]:
    """Return a column as an array that is masked where it is NULL; texts are objects."""
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    kind = str(column.type)
    if kind == "string":
        values = np.array(column.to_pylist(), dtype=object)
        values[missing] = ""
    else:
        values = column.fill_null(False if kind == "bool" else 0).to_numpy()
    return np.ma.masked_array(values, mask=missing)


def as_type(column: Any, type_: str) -> Any:
    """Return a column as Arrow has a DuckDB type: equal values in one spelling.

    Decimals arrive as texts, since servers send them in forms of their own.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_decimal(type_):
        width, _, scale = type_[8:-1].partition(",")
        return column.cast(pa.decimal128(int(width), int(scale or 0)))
    name = _ARROW.get(base_type(type_))
    if name is not None:
        column = column.cast(getattr(pa, name)() if name != "bool" else pa.bool_())
    if is_float(type_):
        zero = pa.scalar(0.0, column.type)
        nan = pa.scalar(float("nan"), column.type)
        column = pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))
    return column


def _stream(row_ids: Any, keys: dict[str, Any]) -> ArrowStream:
    import pyarrow as pa

    stream: ArrowStream = pa.table({ROW_ID: row_ids.cast(pa.int64()), **keys})
    return stream
