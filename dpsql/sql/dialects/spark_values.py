"""Values of Spark's expressions: their SQL, the types DuckDB has for them, and casts of them.

Row expressions are written for Spark value by value, each with its type: what ``+`` means, and how
it can fail, is a matter of types. Types are those of the schema. Two kinds of integers, DOUBLE,
DECIMAL, VARCHAR, BOOLEAN, DATE and TIMESTAMP are known here; an engine makes others one of these.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from dpsql.core.schema import base_type
from dpsql.core.sql import Sql, digits, literal, sql
from dpsql.core.sql_types import type_sql
from dpsql.errors import QueryRefused

SPARK_INTEGERS: Final = ("INTEGER", "BIGINT")
NUMBERS: Final = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")
SPARK_NULL: Final = "NULL"
SPARK_DIGITS: Final = 38
_SPELLED: Final = {
    "BIGINT": "BIGINT",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "DOUBLE": "DOUBLE",
    "INTEGER": "INT",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "VARCHAR": "STRING",
}
_DIGITS: Final = {"INTEGER": 10, "BIGINT": 19}
_LARGEST: Final = {"INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1}
_CALENDAR: Final = {
    "DATE": (sql("DATE'0001-01-01'"), sql("DATE'9999-12-31'")),
    "TIMESTAMP": (
        sql("TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
        sql("TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
    ),
}


@dataclass(frozen=True, slots=True)
class SparkValue:
    """An expression in Spark's SQL that never raises, of a type of the schema.

    ``fails`` where it is NULL for having failed, as TRY would make it. ``constant`` is the number
    or the text of a literal.
    """

    sql: Sql
    type: str
    fails: bool = False
    constant: int | str | None = None

    @property
    def kind(self) -> str:
        """The type without its arguments."""
        return base_type(self.type)


def refused_in_spark(reason: str, hint: str | None = None) -> QueryRefused:
    """Build the error for an expression that Spark does not compute as DuckDB does."""
    return QueryRefused(
        f"{reason}, where the data are in Spark",
        code="expression_not_allowed",
        hint=hint or "docs/engines/spark.md lists what can be computed of private rows there.",
    )


def spark_spelling(type_: str) -> str:
    """Name a type of the schema as Spark does. Raises ``QueryRefused`` for those it has not."""
    kind = base_type(type_)
    if kind == "DECIMAL":
        width, scale = decimal_of(type_)
        return f"DECIMAL({width},{scale})"
    if kind not in _SPELLED:
        raise refused_in_spark(f"values of type {type_} cannot be computed")
    return _SPELLED[kind]


def spark_type_sql(type_: str) -> Sql:
    """Write the name of a type of the schema. Raises ``QueryRefused`` for those Spark has not."""
    return type_sql(spark_spelling(type_))


def decimal_of(type_: str) -> tuple[int, int]:
    """Return the digits of a DECIMAL in all, and of its fraction; of integers as well."""
    kind = base_type(type_)
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    if "(" not in type_:
        return 18, 3
    inside = type_.partition("(")[2].rstrip(") ").split(",")
    return int(inside[0]), int(inside[1]) if len(inside) > 1 else 0


def decimal_type(digits: int, scale: int) -> str:
    """Name a DECIMAL. Raises ``QueryRefused`` where it has too many digits."""
    if digits > SPARK_DIGITS:
        raise refused_in_spark(
            "decimals of more than 38 digits cannot be computed",
            "Cast a value to DOUBLE, or to a DECIMAL of fewer digits.",
        )
    return f"DECIMAL({digits},{scale})"


def integer(value: int) -> SparkValue:
    """Return an integer literal: of the type it has in DuckDB."""
    size = abs(value)
    for type_ in SPARK_INTEGERS:
        if size <= _LARGEST[type_]:
            written = digits(value) if type_ == "INTEGER" else sql("{}L", digits(value))
            return SparkValue(written, type_, constant=value)
    raise refused_in_spark("integers beyond 64 bits cannot be computed")


def written_number(text: str) -> SparkValue:
    """Return the value of a number as it is written: an integer, a decimal or a DOUBLE."""
    if "e" in text.lower():
        return SparkValue(double(float(text)), "DOUBLE")
    if "." not in text:
        return integer(int(text))
    whole, _, fraction = text.partition(".")
    width = max(len(whole.lstrip("0")), 1) + len(fraction)
    type_ = decimal_type(width, len(fraction))
    return SparkValue(sql("CAST({} AS {})", literal(text), spark_type_sql(type_)), type_)


def double(value: float) -> Sql:
    """Write exactly this finite DOUBLE."""
    return sql("{}D", digits(value))


def in_calendar(value: SparkValue, made: Sql) -> Sql:
    """Compute ``made`` of a date or timestamp in the years 1 to 9999, beyond which it may fail."""
    first, last = _CALENDAR[value.kind]
    return sql("CASE WHEN {} BETWEEN {} AND {} THEN {} END", value.sql, first, last, made)


def common(values: list[SparkValue]) -> str:
    """Find the type that values are compared in. Raises ``QueryRefused`` where there is none."""
    kinds = {value.kind for value in values} - {SPARK_NULL}
    typed = [value for value in values if value.kind != SPARK_NULL]
    if not kinds:
        return SPARK_NULL
    if len(kinds) == 1 and "DECIMAL" not in kinds:
        return typed[0].type
    if kinds <= set(SPARK_INTEGERS):
        return "BIGINT"
    if kinds <= set(NUMBERS):
        if "DOUBLE" in kinds:
            return "DOUBLE"
        shapes = [decimal_of(value.type) for value in typed]
        scale = max(scale for _, scale in shapes)
        return decimal_type(max(digits - scale for digits, scale in shapes) + scale, scale)
    if kinds == {"DATE", "TIMESTAMP"}:
        return "TIMESTAMP"
    if "VARCHAR" in kinds and len(kinds - {"VARCHAR"}) == 1:
        return _of_text(typed)
    raise refused_in_spark(f"values of types {' and '.join(sorted(kinds))} cannot be put together")


def _of_text(values: list[SparkValue]) -> str:
    """Return the type that texts beside values of one other type are read as: constants alone."""
    other = next(value.type for value in values if value.kind != "VARCHAR")
    texts = [value for value in values if value.kind == "VARCHAR"]
    if base_type(other) in _CALENDAR and all(isinstance(t.constant, str) for t in texts):
        return other
    raise refused_in_spark(
        f"a text cannot be put beside a value of type {other}", "Cast one of them."
    )


def widened(value: SparkValue, type_: str) -> SparkValue:
    """Return a value as one of a type that holds all values of its own."""
    if value.type == type_:
        return value
    if value.kind == "VARCHAR" and isinstance(value.constant, str):
        return SparkValue(moment(value.constant, base_type(type_)), type_)
    if value.kind == "DATE":
        text = in_calendar(value, sql("CAST({} AS TIMESTAMP_NTZ)", value.sql))
        return SparkValue(text, type_, value.fails)
    return SparkValue(sql("CAST({} AS {})", value.sql, spark_type_sql(type_)), type_, value.fails)


def moment(text: str, kind: str) -> Sql:
    """Write a date or timestamp that stands in a text as a literal."""
    made: datetime.date | None = None
    try:
        if kind == "DATE":
            made = datetime.date.fromisoformat(text.strip())
        else:
            made = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        pass
    odd = isinstance(made, datetime.datetime) and made.tzinfo is not None
    if made is None or odd:
        raise refused_in_spark(
            f"a text cannot be read as a {kind}",
            "Write a date as '2024-02-29', a timestamp as '2024-02-29 13:45:00'.",
        )
    if isinstance(made, datetime.datetime):
        return sql("TIMESTAMP_NTZ{}", literal(made.isoformat(sep=" ")))
    return sql("DATE{}", literal(made.isoformat()))
