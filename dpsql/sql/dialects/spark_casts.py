"""Casts of values in Spark's SQL to what DuckDB casts them to, and to NULL where that fails.

Spark's own casts truncate where DuckDB rounds, and read other texts as numbers and dates. So
numbers are rounded first, and texts are read if they have the form of one that both read alike.
What else DuckDB reads, ``1_000`` or ``0x1F``, is NULL here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from dpsql.core.schema import base_type
from dpsql.sql.dialects.spark_values import (
    SparkValue,
    decimal_of,
    double,
    in_calendar,
    refused_in_spark,
    spark_literal,
    spark_spelling,
)

_Cast: TypeAlias = Callable[[str, str], str]
"""From the text of a value and the Spark type that it becomes to the text of the cast."""

# Exponents of few digits: to write out a number with a longer one takes all memory there is.
_NUMBER: Final = r"[+-]?([0-9]{1,400}[.]?[0-9]{0,400}|[.][0-9]{1,400})([eE][+-]?[0-9]{1,3})?"
_DATE: Final = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME: Final = "[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
_BITS: Final = 18  # digits that 64 bits hold
_ROOMY: Final = "DECIMAL(38,18)"  # room for 64 bits, and to see which way they are rounded


def cast_of(value: SparkValue, type_: str) -> str:
    """Cast a value, to NULL where it does not fit. Raises ``QueryRefused`` for other casts."""
    target = spark_spelling(type_)
    if value.kind == "NULL" or (value.kind == base_type(type_) != "DECIMAL"):
        return f"CAST({value.sql} AS {target})" if value.kind == "NULL" else value.sql
    found = _CASTS.get((value.kind, base_type(type_)))
    if value.kind == "VARCHAR" and _is_fraction(type_):
        found = None  # DuckDB reads 0.5 as one, and no 5e-1
    if found is None:
        raise refused_in_spark(f"values of type {value.type} cannot be cast to {type_}")
    if value.kind == "DOUBLE" and base_type(type_) == "DECIMAL" and decimal_of(type_)[0] <= _BITS:
        return _double_to_decimal(value.sql, *decimal_of(type_))
    if _is_fraction(value.type) and type_ == "VARCHAR":
        return _fraction_to_text(value.sql)
    return found(value.sql, target)


def _double_to_decimal(sql: str, digits: int, scale: int) -> str:
    """Round to a multiple of the least step, as DuckDB does: a plain cast reads Spark's own text.

    The number of steps fits 64 bits.
    """
    steps = f"try_cast(round({sql} * {double(10.0**scale)}) AS BIGINT)"
    exact = f"CAST({steps} AS DECIMAL(19,0))"
    if scale:
        exact = f"{exact} * CAST('1e-{scale}' AS DECIMAL({scale},{scale}))"
    inside = f"abs({sql}) < {double(10.0 ** (digits - scale))}"
    return f"CASE WHEN {inside} THEN try_cast({exact} AS DECIMAL({digits},{scale})) END"


def _is_fraction(type_: str) -> bool:
    """Tell whether a type is that of decimals without a digit before the point."""
    return base_type(type_) == "DECIMAL" and len(set(decimal_of(type_))) == 1


def _fraction_to_text(sql: str) -> str:
    """Write .5, as DuckDB does, for what Spark writes as 0.5."""
    text = f"CAST({sql} AS STRING)"
    positive = f"substring({text}, 2)"
    negative = f"concat('-', substring({text}, 3))"
    return f"CASE WHEN CAST({sql} AS DOUBLE) < 0D THEN {negative} ELSE {positive} END"


def is_known(kind: str, target: str) -> bool:
    """Tell whether values of a type can be cast to another."""
    return (kind, target) in _CASTS


def _plain(sql: str, target: str) -> str:
    return f"CAST({sql} AS {target})"


def _tried(sql: str, target: str) -> str:
    return f"try_cast({sql} AS {target})"


def _rounded_to_even(sql: str, target: str) -> str:
    return f"try_cast(rint({sql}) AS {target})"


def _rounded_to_bigint(sql: str, target: str) -> str:
    # 2^63 is a DOUBLE, and would become the largest integer.
    return f"CASE WHEN {sql} < 9223372036854775808D THEN try_cast(rint({sql}) AS BIGINT) END"


def _rounded_away(sql: str, target: str) -> str:
    return f"try_cast(round({sql}) AS {target})"


def _like(sql: str, form: str, then: str, blanks: str = r"\s*") -> str:
    pattern = rf"\A{blanks}({form}){blanks}\z"
    return f"CASE WHEN {sql} RLIKE {spark_literal(pattern)} THEN {then} END"


def _text_to_integer(sql: str, target: str) -> str:
    return _like(sql, _NUMBER, f"try_cast(round(try_cast({sql} AS {_ROOMY})) AS {target})")


def _text_to_decimal(sql: str, target: str) -> str:
    return _like(sql, _NUMBER, f"try_cast({sql} AS {target})")


def _text_to_double(sql: str, target: str) -> str:
    number = _like(sql, _NUMBER, f"try_cast({sql} AS DOUBLE)")
    inside = number.removesuffix(" END")
    sign = f"CASE WHEN contains({sql}, '-') THEN double('-Infinity') ELSE double('Infinity') END"
    infinite = spark_literal(r"\A\s*[+-]?(?i:inf|infinity)\s*\z")
    nan = spark_literal(r"\A\s*[+-]?(?i:nan)\s*\z")
    return (
        f"{inside} WHEN {sql} RLIKE {infinite} THEN {sign} "
        f"WHEN {sql} RLIKE {nan} THEN double('NaN') END"
    )


def _text_to_date(sql: str, target: str) -> str:
    return _like(sql, _DATE, f"try_cast({sql} AS DATE)")


def _text_to_timestamp(sql: str, target: str) -> str:
    return _like(sql, f"{_DATE}([ T]{_TIME})?", f"try_cast({sql} AS TIMESTAMP_NTZ)", "")


def _of_calendar(kind: str) -> _Cast:
    return lambda sql, target: in_calendar(SparkValue(sql, kind), _plain(sql, target))


def _casts() -> dict[tuple[str, str], _Cast]:
    found: dict[tuple[str, str], _Cast] = {
        ("INTEGER", "BIGINT"): _plain,
        ("BIGINT", "INTEGER"): _tried,
        ("DOUBLE", "BIGINT"): _rounded_to_bigint,
        ("DOUBLE", "DECIMAL"): _tried,
        ("DOUBLE", "INTEGER"): _rounded_to_even,
        ("DECIMAL", "DECIMAL"): _tried,
        ("DECIMAL", "DOUBLE"): _plain,
        ("DECIMAL", "VARCHAR"): _plain,
        ("BOOLEAN", "VARCHAR"): _plain,
        ("VARCHAR", "DECIMAL"): _text_to_decimal,
        ("VARCHAR", "DOUBLE"): _text_to_double,
        ("VARCHAR", "DATE"): _text_to_date,
        ("VARCHAR", "TIMESTAMP"): _text_to_timestamp,
        ("DATE", "VARCHAR"): _of_calendar("DATE"),
        ("DATE", "TIMESTAMP"): _of_calendar("DATE"),
        ("TIMESTAMP", "VARCHAR"): _of_calendar("TIMESTAMP"),
        ("TIMESTAMP", "DATE"): _of_calendar("TIMESTAMP"),
        ("DOUBLE", "VARCHAR"): _plain,
        ("DOUBLE", "BOOLEAN"): _plain,
    }
    for integer in ("INTEGER", "BIGINT"):
        found[integer, "DOUBLE"] = found[integer, "VARCHAR"] = _plain
        found[integer, "BOOLEAN"] = found["BOOLEAN", integer] = _plain
        found[integer, "DECIMAL"] = _tried
        found["DECIMAL", integer] = _rounded_away
        found["VARCHAR", integer] = _text_to_integer
    found["BOOLEAN", "DOUBLE"] = _plain
    return found


_CASTS: Final[Mapping[tuple[str, str], _Cast]] = MappingProxyType(_casts())
