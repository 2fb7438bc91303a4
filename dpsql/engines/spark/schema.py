"""Tables of a Spark catalog as a schema, and the statements that read them in its types.

What is read has one type for each kind of values: integers of 32 and 64 bits, DOUBLE, DECIMAL,
texts compared by their bytes, dates, timestamps in UTC. Columns of other types are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from dpsql.core.schema import Column, LeftOut, Remark, Table
from dpsql.core.sql import Sql, join, literal, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType
from dpsql.core.table_name import MAIN, TableName
from dpsql.engines.base.row_types import MOST_TEXT_BYTES
from dpsql.engines.spark.casts import spark_type
from dpsql.engines.spark.text import SPARK_TEXT, spark_quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_VIEW: Final = Remark(
    "is a view, and Spark does not tell whether what it computes can fail on a row, or is the same "
    "every time",
    "List the tables that it reads, or store its rows as a table.",
)
_UNREADABLE: Final = Remark(
    "has a definition that Spark cannot read",
    "Look at its files, and at what the user of the session may read.",
)
_TYPES: Final = {
    "ByteType": INTEGER,
    "ShortType": INTEGER,
    "IntegerType": INTEGER,
    "LongType": BIGINT,
    "FloatType": DOUBLE,
    "DoubleType": DOUBLE,
    "BooleanType": BOOLEAN,
    "DateType": DATE,
    "TimestampType": TIMESTAMP,
    "TimestampNTZType": TIMESTAMP,
}
_CALENDAR: Final = {
    "DATE": ("0001-01-01", "9999-12-31"),
    "TIMESTAMP": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
}
_BYTES: Final = "UTF8_BINARY"
_CHARS: Final = "__CHAR_VARCHAR_TYPE_STRING"  # Spark's own note on columns of CHAR and VARCHAR
_VIEWS: Final = ("VIEW", "TEMPORARY")


def catalog_tables(session: SparkSession, schemas: Sequence[str]) -> Iterator[Table]:
    """Yield the tables of the current database, and those of further ones, as ``schema.table``."""
    current = session.catalog.currentDatabase()
    for database in dict.fromkeys((current, *schemas)):
        for listed in session.catalog.listTables(spark_quote(database)):
            if listed.isTemporary:
                continue
            schema = MAIN if database == current else database
            name = TableName(listed.name, schema)
            if listed.tableType in _VIEWS:
                yield Table(name, (), is_view=True, unreadable=_VIEW)
            elif (remark := format_remark(session, _written(name))) is not None:
                yield Table(name, (), unreadable=remark)
            else:
                yield table_of(session, name)


def table_of(session: SparkSession, name: TableName) -> Table:
    """Describe a table, as Spark has it now."""
    try:
        fields = session.table(_written(name).render(SPARK_TEXT)).schema.fields
    except Exception:  # noqa: BLE001 - whatever a format's own code raises
        return Table(name, (), unreadable=_UNREADABLE)
    names = [field.name.lower() for field in fields]
    columns, left_out = [], []
    for field in fields:
        type_, reason = _type(field)
        if names.count(field.name.lower()) > 1:
            type_, reason = None, "another column has the same name in other letters"
        if type_ is None:
            left_out.append(LeftOut(field.name, reason))
        else:
            columns.append(Column(field.name, type_))
    return Table(name, tuple(columns), left_out=tuple(left_out))


def is_same(session: SparkSession, table: Table) -> bool:
    """Tell whether a table is still one, with these columns, of a format that no row makes fail."""
    written = _written(table.name).render(SPARK_TEXT)
    session.catalog.refreshTable(written)  # a session remembers what others have changed since
    if session.catalog.getTable(written).tableType in _VIEWS:
        return False
    stored = format_remark(session, _written(table.name)) is None
    return stored and table_of(session, table.name) == table


def _type(field: Any) -> tuple[SqlType | None, str]:
    """Return the type of a column in the schema, or why it has none."""
    kind = type(field.dataType).__name__
    if kind == "DecimalType":
        return SqlType.decimal(field.dataType.precision, field.dataType.scale), ""
    if kind == "StringType":
        if getattr(field.dataType, "collation", _BYTES) != _BYTES:
            return None, "its collation makes different texts equal: cast it to STRING"
        if str((field.metadata or {}).get(_CHARS, "")).startswith("char"):
            return None, "is a CHAR, which is padded with blanks: make it a STRING"
        return VARCHAR, ""
    if kind in _TYPES:
        return _TYPES[kind], ""
    return None, f"has the type {field.dataType.simpleString()}, which cannot be read here"


def read_as(table: Table, columns: Sequence[Column] | None = None) -> Sql:
    """Write the statement that reads a table, or some of its columns, in the types of the schema.

    No row makes it fail: each cast has room for all values of the column. NULL are dates and
    timestamps outside of the years 1 to 9999, and decimals of more digits than their type has:
    files can hold them, and what Spark computes of them may fail.

    A DOUBLE is multiplied by 1, which changes none: of a product no format has statistics, by which
    it would leave out NaN that a condition holds for. A text of ``MOST_TEXT_BYTES`` is NULL: Spark
    fails where a text, or a row, takes two gigabytes, and what it computes of one takes more.
    """
    listed = [_read(column) for column in (table.columns if columns is None else columns)]
    return sql("SELECT {} FROM {}", join(", ", listed or [sql("1")]), _written(table.name))


def _read(column: Column) -> Sql:
    own, spelled = quoted(column.name), spark_type(column.type)
    value = sql("CAST({} AS {})", own, spelled)
    if column.type == DOUBLE:
        value = sql("({} * 1D)", value)
    if column.type == VARCHAR:
        value = sql("CASE WHEN octet_length({v}) < {} THEN {v} END", MOST_TEXT_BYTES, v=value)
    ends = _ends(column.type)
    if ends is not None:
        least, most = (sql("CAST({} AS {})", literal(end), spelled) for end in ends)
        value = sql("CASE WHEN {v} BETWEEN {} AND {} THEN {v} END", least, most, v=value)
    return sql("{} AS {}", value, own)


def _ends(type_: SqlType) -> tuple[str, str] | None:
    """Return texts of the least and the greatest value of a type, if files can hold others."""
    if not type_.is_decimal:
        return _CALENDAR.get(type_.kind)
    width, scale = type_.digits
    most = f"{'9' * (width - scale)}.{'9' * scale}"
    return f"-{most}", most


def _written(name: TableName) -> Sql:
    """Write a table's name in the current database, or in its own."""
    own = quoted(name.table)
    return own if name.in_main else sql("{}.{}", quoted(name.schema), own)


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
