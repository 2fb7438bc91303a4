"""Spark's names of types and values of types, and casts to what DuckDB casts values to.

Spark's own casts truncate where DuckDB rounds, and read other texts as numbers and dates. So
numbers are rounded first, and texts are read if they have the form of one that both read alike.
What else DuckDB reads, ``1_000`` or ``0x1F``, is NULL here, and so is what does not fit.

Integers of 32 and 64 bits, DOUBLE, DECIMAL, VARCHAR, BOOLEAN, DATE and TIMESTAMP are known here; an
engine makes others one of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final, TypeAlias

from dpsql.core.sql import Sql, digits, literal, sql
from dpsql.core.sql_types import VARCHAR, SqlType
from dpsql.engines.base.row_engine import Refusing
from dpsql.engines.base.row_types import TypedValue
from dpsql.engines.base.typed_constants import constant_text
from dpsql.syntax.row_functions import MOMENTS

SPARK_REFUSED: Final = Refusing("in Spark", "spark.md")
NUMBERS: Final = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")
_SPELLED: Final = {
    "BIGINT": sql("BIGINT"),
    "BOOLEAN": sql("BOOLEAN"),
    "DATE": sql("DATE"),
    "DOUBLE": sql("DOUBLE"),
    "INTEGER": sql("INT"),
    "TIMESTAMP": sql("TIMESTAMP_NTZ"),
    "VARCHAR": sql("STRING"),
}
_CALENDAR: Final = {
    "DATE": (sql("DATE'0001-01-01'"), sql("DATE'9999-12-31'")),
    "TIMESTAMP": (
        sql("TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
        sql("TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
    ),
}
_Cast: TypeAlias = Callable[[TypedValue, Sql], Sql]
"""From a value and the Spark type that it becomes to the cast."""
_WHOLE: Final = ("INTEGER", "BIGINT")

# Exponents of few digits: to write out a number with a longer one takes all memory there is.
_NUMBER: Final = r"[+-]?([0-9]{1,400}[.]?[0-9]{0,400}|[.][0-9]{1,400})([eE][+-]?[0-9]{1,3})?"
_DATE: Final = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME: Final = "[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
_BITS: Final = 18  # digits that 64 bits hold


def spark_type(type_: SqlType) -> Sql:
    """Write a type of the schema as Spark does. Raises ``QueryRefused`` for those it has not."""
    if type_.is_decimal:
        return sql("DECIMAL({},{})", *type_.digits)
    if type_.kind not in _SPELLED:
        raise SPARK_REFUSED(f"a value of type {type_}", "nothing is computed of these there")
    return _SPELLED[type_.kind]


def spark_cast(value: Sql, type_: SqlType) -> Sql:
    """Write a plain cast. Raises ``QueryRefused`` for a type that Spark has not."""
    return sql("CAST({} AS {})", value, spark_type(type_))


def double(value: float) -> Sql:
    """Write exactly this DOUBLE. Raises ``QueryRefused`` for one that is not finite."""
    if not math.isfinite(value):
        raise SPARK_REFUSED("a number of that size", "no type there has it")
    return sql("{}D", digits(value))


def in_calendar(value: TypedValue, made: Sql) -> Sql:
    """Compute ``made`` of a date or timestamp in the years 1 to 9999, beyond which it may fail."""
    first, last = _CALENDAR[value.kind]
    return sql("CASE WHEN {} BETWEEN {} AND {} THEN {} END", value.sql, first, last, made)


def widened(value: TypedValue, type_: SqlType) -> TypedValue | None:
    """Widen a value to a type with all of its values; None without such a widening."""
    kind = type_.kind
    if value.type == type_:
        return value
    if value.kind == "VARCHAR" and isinstance(value.constant, str) and kind in MOMENTS:
        return TypedValue(_moment(value.constant, type_), type_)
    if value.kind == "DATE" and kind == "TIMESTAMP":
        written = in_calendar(value, spark_cast(value.sql, type_))
    elif value.kind in NUMBERS and kind in NUMBERS:
        written = spark_cast(value.sql, type_)
    else:
        return None
    return TypedValue(written, type_, fails=value.fails)


def _moment(text: str, type_: SqlType) -> Sql:
    """Write a date or timestamp that stands in a text as a literal."""
    made = constant_text(text, type_)
    if made is None:
        hint = "Write a date as '2024-02-29', a timestamp as '2024-02-29 13:45:00'."
        raise SPARK_REFUSED(f"this text as a {type_.kind}", "it cannot be read as one", hint)
    return sql("{}{}", spark_type(type_), literal(made))


# -- casts ----------------------------------------------------------------------------------------


def cast_of(value: TypedValue, type_: SqlType) -> Sql | None:
    """Cast a value, to NULL where it does not fit; None for other casts.

    Raises ``QueryRefused`` for a type that Spark has not.
    """
    kind, target = type_.kind, spark_type(type_)
    if value.kind == kind != "DECIMAL":
        return value.sql
    write = _CASTS.get((value.kind, kind))
    if write is None or (value.kind == "VARCHAR" and _is_fraction(type_)):
        return None  # DuckDB reads 0.5 as a fraction, and no 5e-1
    if value.kind == "DOUBLE" and kind == "DECIMAL" and type_.digits[0] <= _BITS:
        return _double_to_decimal(value.sql, *type_.digits)
    if _is_fraction(value.type) and type_ == VARCHAR:
        return _fraction_to_text(value.sql)
    return write(value, target)


def always_fits(value: TypedValue, type_: SqlType) -> bool:
    """Tell whether every value of one type has a value of the other."""
    return _CASTS.get((value.kind, type_.kind)) in (_plain, _of_calendar)


def _double_to_decimal(value: Sql, width: int, scale: int) -> Sql:
    """Round to a multiple of the least step, as DuckDB does: a plain cast reads Spark's own text.

    The number of steps fits 64 bits.
    """
    steps = sql("try_cast(round({} * {}) AS BIGINT)", value, double(10.0**scale))
    exact = sql("CAST({} AS DECIMAL(19,0))", steps)
    if scale:
        step = literal(f"1e-{scale}")
        exact = sql("{} * CAST({} AS DECIMAL({},{}))", exact, step, scale, scale)
    return sql(
        "CASE WHEN abs({}) < {} THEN try_cast({} AS DECIMAL({},{})) END",
        value,
        double(10.0 ** (width - scale)),
        exact,
        width,
        scale,
    )


def _is_fraction(type_: SqlType) -> bool:
    """Tell whether a type is that of decimals without a digit before the point."""
    return type_.kind == "DECIMAL" and len(set(type_.digits)) == 1


def _fraction_to_text(value: Sql) -> Sql:
    """Write .5, as DuckDB does, for what Spark writes as 0.5."""
    return sql(
        "CASE WHEN CAST({value} AS DOUBLE) < 0D "
        "THEN concat('-', substring(CAST({value} AS STRING), 3)) "
        "ELSE substring(CAST({value} AS STRING), 2) END",
        value=value,
    )


def _plain(value: TypedValue, target: Sql) -> Sql:
    return sql("CAST({} AS {})", value.sql, target)


def _tried(value: TypedValue, target: Sql) -> Sql:
    return sql("try_cast({} AS {})", value.sql, target)


def _to_even(value: TypedValue, target: Sql) -> Sql:
    return sql("try_cast(rint({}) AS {})", value.sql, target)


def _below_64_bits(value: TypedValue, target: Sql) -> Sql:
    """Leave 2^63 out, which is a DOUBLE, and would become the largest integer."""
    whole = _to_even(value, target)
    return sql("CASE WHEN {} < 9223372036854775808D THEN {} END", value.sql, whole)


def _rounded(value: TypedValue, target: Sql) -> Sql:
    return sql("try_cast(round({}) AS {})", value.sql, target)


def _read_whole(value: TypedValue, target: Sql) -> Sql:
    """Round by DECIMAL(38,18): it has room for 64 bits, and to see which way they are rounded."""
    exact = sql("try_cast({} AS DECIMAL(38,18))", value.sql)
    return sql("try_cast(round({}) AS {})", exact, target)


def _read(form: str, cast: _Cast = _tried, blanks: str = r"\s*") -> _Cast:
    """Write a cast of texts that have a form; others are NULL."""
    pattern = literal(rf"\A{blanks}({form}){blanks}\z")
    return lambda value, target: sql(
        "CASE WHEN {} RLIKE {} THEN {} END", value.sql, pattern, cast(value, target)
    )


def _read_double(value: TypedValue, target: Sql) -> Sql:
    return sql(
        "CASE WHEN {value} RLIKE {number} THEN try_cast({value} AS DOUBLE) "
        "WHEN {value} RLIKE {infinite} THEN "
        "CASE WHEN contains({value}, '-') THEN double('-Infinity') ELSE double('Infinity') END "
        "WHEN {value} RLIKE {nan} THEN double('NaN') END",
        value=value.sql,
        number=literal(rf"\A\s*({_NUMBER})\s*\z"),
        infinite=literal(r"\A\s*[+-]?(?i:inf|infinity)\s*\z"),
        nan=literal(r"\A\s*[+-]?(?i:nan)\s*\z"),
    )


def _of_calendar(value: TypedValue, target: Sql) -> Sql:
    return in_calendar(value, _plain(value, target))


_CASTS: Final[Mapping[tuple[str, str], _Cast]] = MappingProxyType(
    {
        ("INTEGER", "BIGINT"): _plain,
        ("BIGINT", "INTEGER"): _tried,
        ("DOUBLE", "INTEGER"): _to_even,
        ("DOUBLE", "BIGINT"): _below_64_bits,
        **dict.fromkeys(product(["DECIMAL"], _WHOLE), _rounded),
        **dict.fromkeys(product(_WHOLE, ["BOOLEAN", "DOUBLE", "VARCHAR"]), _plain),
        **dict.fromkeys(product(["BOOLEAN"], [*_WHOLE, "DOUBLE", "VARCHAR"]), _plain),
        ("DOUBLE", "BOOLEAN"): _plain,
        **dict.fromkeys(product(["DECIMAL"], ["DOUBLE", "VARCHAR"]), _plain),
        **dict.fromkeys(product([*_WHOLE, "DECIMAL", "DOUBLE"], ["DECIMAL"]), _tried),
        **dict.fromkeys(product(["VARCHAR"], _WHOLE), _read(_NUMBER, _read_whole)),
        ("VARCHAR", "DECIMAL"): _read(_NUMBER),
        ("VARCHAR", "DOUBLE"): _read_double,
        ("VARCHAR", "DATE"): _read(_DATE),
        ("VARCHAR", "TIMESTAMP"): _read(f"{_DATE}([ T]{_TIME})?", blanks=""),
        **dict.fromkeys(product(MOMENTS, [*MOMENTS, "VARCHAR"]), _of_calendar),
    }
)
