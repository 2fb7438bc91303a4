"""Results of Spark's as exact rows: Arrow, read by a DuckDB of our own in the types of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.engines.base import ExactRows
from dpsql.engines.duckdb import exact_from_arrow
from dpsql.engines.isolated import isolated
from dpsql.engines.spark_text import spark_quote as spark_quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def sound(frame: DataFrame) -> DataFrame:
    """Make the texts of a result valid: a STRING of Spark's holds any bytes, and Arrow does not."""
    texts = [f.name for f in frame.schema.fields if type(f.dataType).__name__ == "StringType"]
    if not texts:
        return frame
    names = [field.name for field in frame.schema.fields]
    return frame.selectExpr(
        *(
            f"make_valid_utf8({spark_quote(name)}) AS {spark_quote(name)}"
            if name in texts
            else spark_quote(name)
            for name in names
        )
    )


def spark_rows(table: Any, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
    """Read exact rows from an Arrow table with row ids, keys and measures."""
    return exact_from_arrow(isolated(), table, keys, measures)


def integers_of(table: Any) -> list[NDArray[np.int64]]:
    """Return the columns of an Arrow table that holds integers and no NULL."""
    import pyarrow as pa

    columns = (column.cast(pa.int64()) for column in table.columns)
    return [np.asarray(column.to_numpy(), dtype=np.int64) for column in columns]
