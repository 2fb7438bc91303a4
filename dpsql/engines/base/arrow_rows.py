"""Exact rows from a server's Arrow data, with keys in the types of the schema."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import Column
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.engine import ArrowStream, ExactRows
from dpsql.engines.embedded.types import numpy_safe

if TYPE_CHECKING:
    import pyarrow as pa

_WIDEST: Final = 76
"""The digits of Arrow's largest decimals: any that a server sends, in any scale."""
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

    ``table`` has a row id, key columns and measures, whose values are integers of 64 bits. A key
    that has no equal in its type is NULL: no row of theirs makes this fail.
    """
    row_ids = integers(table[ROW_ID])
    order = np.argsort(row_ids, kind="stable")
    typed = {key.name: as_type(table[key.name], key.type) for key in keys}
    found = {name: integers(table[name])[order] for name in measures}
    if numpy_safe(keys):
        arrays = {name: masked(column)[order] for name, column in typed.items()}
        return ExactRows(row_ids[order], found, arrays)
    return ExactRows(row_ids[order], found, _stream(table[ROW_ID], typed))


def integers(column: Any) -> NDArray[np.int64]:
    """Return integers of any type, of at most 64 bits, as an array; 0 for NULL."""
    import pyarrow as pa

    return np.asarray(column.fill_null(0).cast(pa.int64()).to_numpy(), dtype=np.int64)


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


def as_type(column: Any, type_: SqlType) -> Any:
    """Return a column as Arrow has a DuckDB type: equal values in one spelling.

    Decimals may arrive as texts, since servers send them in forms of their own.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_.is_decimal:
        kind = pa.decimal128(*type_.digits)
        # Made of digits: arithmetic of decimals rounds to 28, up to the next power of ten.
        least, most = (Decimal((sign, (9,) * kind.precision, -kind.scale)) for sign in (1, 0))
        wide = column.cast(pa.decimal256(_WIDEST, kind.scale))
        return _within(wide, least, most).cast(kind)
    name = _ARROW.get(type_.kind)
    if name is None:
        return column
    kind = getattr(pa, name)() if name != "bool" else pa.bool_()
    if type_.is_integer and column.type != kind:
        end = 2 ** (kind.bit_width - 1)
        column = _within(column, -end, end - 1)
    column = column.cast(kind)
    if type_.is_float:
        zero = pa.scalar(0.0, column.type)
        nan = pa.scalar(float("nan"), column.type)
        column = pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))
    return column


def _within(column: Any, low: Decimal | int, high: Decimal | int) -> Any:
    """Return a column with NULL for what is below or above."""
    import pyarrow as pa
    import pyarrow.compute as pc

    least, most = (pa.scalar(value, column.type) for value in (low, high))
    fits = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))
    return pc.if_else(fits, column, pa.scalar(None, column.type))


def _stream(row_ids: Any, keys: dict[str, Any]) -> ArrowStream:
    import pyarrow as pa

    stream: ArrowStream = pa.table({ROW_ID: row_ids.cast(pa.int64()), **keys})
    return stream
