"""Formats that tables of a Spark catalog are stored in: those whose readers take any row.

The list is closed. Readers of text are not in it, as one line can end a statement, or Spark
itself: more than 20,480 fields in CSV, a DECIMAL written as 1e100000000 in JSON. Where a document
has several lines, it is lost with one of its rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dpsql.core.schema import Remark
from dpsql.core.sql import Sql, sql
from dpsql.engines.spark.text import SPARK_TEXT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMATS: Final = frozenset({"parquet", "orc", "delta", "iceberg"})
_HIVE: Final = "hive"
_HIVE_READERS: Final = frozenset(
    {
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    }
)
_DETAILS: Final = "# Detailed Table Information"  # what stands above it are columns
_HINT: Final = "Store its rows: CREATE TABLE … USING parquet AS SELECT * FROM …"
_UNKNOWN: Final = Remark("is of a format that Spark does not tell", _HINT)


def format_remark(session: SparkSession, written: Sql) -> Remark | None:
    """Say why the reader of a table's format may fail on a row; None for a format that is listed.

    ``written`` is the name of the table.
    """
    described = sql("DESCRIBE TABLE EXTENDED {}", written).render(SPARK_TEXT)
    try:
        rows = [(str(row[0]), str(row[1])) for row in session.sql(described).collect()]
    except Exception:  # noqa: BLE001 - whatever a format's own code raises
        return _UNKNOWN
    titles = [title for title, _ in rows]
    details = dict(rows[titles.index(_DETAILS) :]) if _DETAILS in titles else {}
    format_ = details.get("Provider", "").lower()
    if format_ in _FORMATS:
        return None
    if format_ == _HIVE and details.get("InputFormat") in _HIVE_READERS:
        return None
    if not format_.isidentifier():
        return _UNKNOWN
    return Remark(f"is stored as {format_}, whose reader one row can make fail in Spark", _HINT)
