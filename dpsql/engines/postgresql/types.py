"""PostgreSQL's names of types and values of types, and casts that never raise.

A value is SQL with the type it has in DuckDB, which decides what every operation means. Dates
and timestamps are of the years 1 to 9999: others were made NULL where the table was read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import product
from types import MappingProxyType
from typing import Final

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql import Sql, digits, join, literal, name, sql
from dpsql.core.sql_types import BIGINT, BOOLEAN, DOUBLE, INTEGER, VARCHAR, SqlType
from dpsql.engines.base.row_types import (
    INTEGERS,
    UNTYPED,
    TypedValue,
)
from dpsql.engines.base.typed_constants import constant_text
from dpsql.engines.postgresql.reading import POSTGRESQL_TEXT
from dpsql.syntax.row_functions import MOMENTS

_NAMES: Final = {
    "BOOLEAN": sql("BOOLEAN"),
    "TINYINT": sql("SMALLINT"),
    "SMALLINT": sql("SMALLINT"),
    "INTEGER": sql("INTEGER"),
    "BIGINT": sql("BIGINT"),
    "FLOAT": sql("REAL"),
    "DOUBLE": sql("DOUBLE PRECISION"),
    "VARCHAR": sql("TEXT"),
    "DATE": sql("DATE"),
    "TIMESTAMP": sql("TIMESTAMP"),
    "TIME": sql("TIME"),
    "UUID": sql("UUID"),
}
INFINITY: Final = sql("CAST('Infinity' AS DOUBLE PRECISION)")
MINUS_INFINITY: Final = sql("CAST('-Infinity' AS DOUBLE PRECISION)")
NAN: Final = sql("CAST('NaN' AS DOUBLE PRECISION)")
_EXACT_DOUBLES: Final = 2**53
_PIECE_BITS: Final = 40
_SHORT: Final = 200  # characters of text that is cheaper to write twice than to compute once
_LONGEST_NUMBER: Final = 100  # characters of a text that is read as a number
_NUMBER: Final = literal("^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?$")
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT: Final = literal(f"^{_DAY}( ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{{1,6}})?)?$")
_NO_NUMBER: Final = literal("^(nan|[+-]?inf|[+-]?infinity)$")
_WRITTEN_OUT: Final = ("INTEGERS", "BOOLEAN", "DECIMAL", "DATE", "TIMESTAMP", "UUID")
_SPACES: Final = join(" || ", [sql("' '"), *(sql("chr({})", code) for code in range(9, 14))])


def sql_type(type_: SqlType) -> Sql | None:
    """Write a DuckDB type in PostgreSQL; None without an equal."""
    if type_.is_decimal:
        return sql("NUMERIC({}, {})", *type_.digits)
    return _NAMES.get(type_.kind)


def named(type_: SqlType) -> Sql:
    """Write a type's name on the server: its equal, or the type itself without one."""
    if type_.is_opaque:  # which is read as its text
        return _NAMES["VARCHAR"]
    return sql_type(type_) or type_.sql


def cast_to(value: Sql, type_: SqlType) -> Sql:
    """Write a plain cast to a type that all values have a value of."""
    return sql("CAST({} AS {})", value, named(type_))


def once(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    """Write an expression with several readings of a value, which is computed once.

    A short value is written several times, a long one is a row of its own: otherwise nested
    expressions would grow with every level. OFFSET keeps the planner from undoing it.
    """
    text = value.render(POSTGRESQL_TEXT)
    if len(text) <= _SHORT:
        return body(value)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    column, row = (name(f"{INTERNAL_PREFIX}{kind}{digest}") for kind in "vr")
    return sql(
        "(SELECT {body} FROM (SELECT {value} AS {column} OFFSET 0) AS {row})",
        body=body(column),
        value=value,
        column=column,
        row=row,
    )


def clamped_or_null(value: Sql, type_: SqlType) -> Sql:
    """Write an exact number as an integer of a type, NULL where it does not fit; computed once."""
    low, high = type_.ends
    return cast_to(_without(value, digits(low - 1), digits(high + 1)), type_)


def _without(value: Sql, least: Sql, most: Sql) -> Sql:
    """Write a value, NULL where it is one of two ends or beyond; computed once."""
    kept = sql("greatest({}, least({}, {}))", least, value, most)
    return sql("NULLIF(NULLIF({}, {}), {})", kept, most, least)


def decimal_or_null(value: Sql, type_: SqlType) -> Sql:
    """Write an exact number as a DECIMAL, rounded to its scale; NULL where it does not fit."""
    width, scale = type_.digits
    end = 10 ** (width - scale)
    rounded = sql("round({}, {})", value, scale)
    return cast_to(_without(rounded, digits(-end), digits(end)), SqlType.decimal(width, scale))


def text_literal(text: str) -> Sql:
    """Write a text, compared by its bytes."""
    return sql('(CAST({} AS TEXT) COLLATE "C")', literal(text))


# -- constants of a type ------------------------------------------------------------------------


def constant(value: object, type_: SqlType) -> Sql | None:
    """Write a constant in a type as DuckDB casts it; None where it does not fit."""
    text = str(value)
    if sql_type(type_) is None:
        return None
    if type_.kind == "VARCHAR":
        return None if "\0" in text else text_literal(text)
    found = constant_text(value, type_)
    return None if found is None else cast_to(literal(found), type_)


# -- casts ----------------------------------------------------------------------------------------


def cast(value: TypedValue, type_: SqlType) -> TypedValue | None:
    """Cast a value to a type, NULL where it does not fit; None where no cast is known.

    It never raises, on any row.
    """
    if sql_type(type_) is None:
        return None
    if value.type in (type_, UNTYPED):
        return TypedValue(cast_to(value.sql, type_), type_, fails=value.fails)
    source, target = ("INTEGERS" if kind in INTEGERS else kind for kind in (value.kind, type_.kind))
    write = _CASTS.get((source, target))
    if write is None:
        return None
    fails = value.fails or not _always_fits(value, type_)
    return TypedValue(write(value, type_), type_, fails=fails)


def _always_fits(value: TypedValue, type_: SqlType) -> bool:
    """Tell whether every value of a type has one in another."""
    kind = value.kind
    if type_ in (VARCHAR, BOOLEAN) or kind in (*MOMENTS, "BOOLEAN"):
        return True
    if type_ == DOUBLE:
        return kind != "VARCHAR"
    if type_.is_decimal and kind in (*INTEGERS, "DECIMAL"):
        width, scale = type_.digits
        own, places = value.type.digits
        # Digits that are rounded away may make one more before the point.
        return own - places + (places > scale) <= width - scale
    if kind == "DECIMAL" and type_.kind in INTEGERS:
        width, scale = value.type.digits
        return width - scale + 1 < type_.digits[0]
    whole = kind in INTEGERS and type_.kind in INTEGERS
    return whole and value.type.ends[1] <= type_.ends[1]


def _nearest(value: Sql) -> Sql:
    """Write a double as the nearest BIGINT, NULL out of range; computed once.

    The ends are the doubles next to those that have one; NaN is above all of them.
    """
    low, high = double_sql(-(2.0**63) - 2048), double_sql(2.0**63)
    return cast_to(_without(value, low, high), BIGINT)


def _text_number(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    """Write an expression over the number in a text; NULL for a text without one."""
    trimmed = _trimmed(value)
    return sql(
        "CASE WHEN octet_length({value}) <= {longest} THEN CASE WHEN {trimmed} ~ "
        "{form} THEN {made} END END",
        value=value,
        longest=_LONGEST_NUMBER,
        trimmed=trimmed,
        form=_NUMBER,
        made=body(sql("CAST({} AS NUMERIC)", trimmed)),
    )


def _trimmed(value: Sql) -> Sql:
    return sql("btrim({}, {})", value, _SPACES)


def _decimal_to_double(value: TypedValue, type_: SqlType) -> Sql:
    """Write as DuckDB does: quotients of what doubles hold, else whole and fraction apart."""
    width, scale = value.type.digits
    if width <= 15 or scale == 0:
        return cast_to(value.sql, DOUBLE)
    exact = digits(Decimal(_EXACT_DOUBLES).scaleb(-scale))
    return once(
        value.sql,
        lambda v: sql(
            "CASE WHEN abs({v}) <= {exact} THEN CAST({v} AS DOUBLE PRECISION) "
            "ELSE CAST(trunc({v}) AS DOUBLE PRECISION) + "
            "CAST({v} - trunc({v}) AS DOUBLE PRECISION) END",
            v=v,
            exact=exact,
        ),
    )


def _text_to_double(value: Sql) -> Sql:
    def read(number: Sql) -> Sql:
        return sql(
            "CASE WHEN abs({n}) > 1.7976931348623157e308 THEN sign({n}) * {infinity} "
            "WHEN abs({n}) < 1e-320 THEN 0 ELSE CAST({n} AS DOUBLE PRECISION) END",
            n=number,
            infinity=INFINITY,
        )

    return sql(
        "CASE WHEN octet_length({value}) <= {longest} AND {trimmed} ~* "
        "{words} THEN CAST({trimmed} AS DOUBLE PRECISION) ELSE {number} END",
        value=value,
        longest=_LONGEST_NUMBER,
        trimmed=_trimmed(value),
        words=_NO_NUMBER,
        number=_text_number(value, read),
    )


def double_to_decimal(value: Sql, type_: SqlType) -> Sql:
    """Write a double as a DECIMAL: its multiple of a power of ten, rounded to an integer, exactly.

    A plain cast keeps 15 digits. Of the multiple, quotients and rests by 2^40 are exact, and as
    many of these are taken as the digits of the type need.
    """
    width, scale = type_.digits
    pieces = 1
    while 10**width > 2 ** (_PIECE_BITS * pieces):
        pieces += 1
    multiple = half_away(sql("({} * {})", value, double_sql(10.0**scale)))
    whole = once(multiple, lambda steps: _exact_integer(steps, pieces))
    step = digits(Decimal(1).scaleb(-scale))
    return sql(
        "CASE WHEN abs({value}) < {least} THEN 0 WHEN abs({value}) < {end} THEN {scaled} END",
        value=value,
        least=double_sql(1e-100),
        end=double_sql(10.0 ** (width - scale)),
        scaled=decimal_or_null(sql("{} * {}", whole, step), type_),
    )


def _exact_integer(value: Sql, pieces: int) -> Sql:
    """Write an integral double of so many times 40 bits as a NUMERIC, piece by piece."""
    if pieces == 1:
        return sql("CAST(CAST({} AS BIGINT) AS NUMERIC)", value)
    half = double_sql(2.0**_PIECE_BITS)

    def split(whole: Sql) -> Sql:
        size = sql("trunc({} / {})", whole, half)
        return sql(
            "({larger} * {power} + CAST(CAST({whole} - {size} * {half} AS BIGINT) AS NUMERIC))",
            larger=once(size, lambda s: _exact_integer(s, pieces - 1)),
            power=2**_PIECE_BITS,
            whole=whole,
            size=size,
            half=half,
        )

    return once(value, split)


def half_away(value: Sql) -> Sql:
    """Write a double rounded to an integer, halves away from zero: the engine's own is to even.

    What is added is the double below a half: with it a half, and no less, becomes an integer by the
    rounding of the sum, and integers of any size stay what they are.
    """
    below, above = (double_sql(sign * math.nextafter(0.5, 0.0)) for sign in (-1, 1))
    return once(
        value,
        lambda v: sql(
            "trunc({v} + CASE WHEN {v} < 0 THEN {below} ELSE {above} END)",
            v=v,
            below=below,
            above=above,
        ),
    )


def _to_text(value: TypedValue, type_: SqlType) -> Sql:
    text = cast_to(value.sql, VARCHAR)
    if value.kind == "DECIMAL" and len(set(value.type.digits)) == 1:
        text = sql("regexp_replace({}, '0', '')", text)  # no digit stands before the point: .5
    return sql('({} COLLATE "C")', text)


def _between_integers(value: TypedValue, type_: SqlType) -> Sql:
    if value.type.ends[1] <= type_.ends[1]:
        return cast_to(value.sql, type_)
    return clamped_or_null(cast_to(value.sql, BIGINT), type_)


def _double_to_integer(value: TypedValue, type_: SqlType) -> Sql:
    whole = _nearest(value.sql)  # 127.5 becomes 128, which is found too large after that
    return whole if type_ == BIGINT else clamped_or_null(whole, type_)


def _text_to_integer(value: TypedValue, type_: SqlType) -> Sql:
    def read(number: Sql) -> Sql:
        return clamped_or_null(sql("round({})", number), type_)

    return once(value.sql, lambda v: _text_number(v, read))


def _day_of_text(text: Sql) -> Sql:
    """Write the day that a text begins with, of the form 2024-02-29; NULL where it is none."""
    year, month, day = (
        sql("CAST(substr({}, {}, {}) AS INTEGER)", text, first, size)
        for first, size in ((1, 4), (6, 2), (9, 2))
    )
    return date_of_parts(year, month, day)


def _text_to_date(text: Sql) -> Sql:
    """Write the day of a text with or without a time."""
    return sql("CASE WHEN {} ~ {} THEN {} END", text, _MOMENT, _day_of_text(text))


def _text_to_timestamp(text: Sql) -> Sql:
    time = sql("CAST(COALESCE(NULLIF(substr({}, 12), ''), '00:00:00') AS INTERVAL)", text)
    return sql("CASE WHEN {} ~ {} THEN {} + {} END", text, _MOMENT, _day_of_text(text), time)


def date_of_parts(year: Sql, month: Sql, day: Sql) -> Sql:
    """Write make_date, NULL where there is no such day in the years 1 to 9999."""
    whole = [cast_to(each, INTEGER) for each in (year, month, day)]
    first = sql("make_date({}, {}, 1)", *whole[:2])
    last = sql("EXTRACT(day FROM {} + INTERVAL '1 month -1 day')", first)
    return sql(
        "CASE WHEN {year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 "
        "AND {day} BETWEEN 1 AND 31 THEN CASE WHEN {day} <= {last} THEN make_date({parts}) END END",
        year=year,
        month=month,
        day=day,
        last=last,
        parts=join(", ", whole),
    )


def _plain(value: TypedValue, type_: SqlType) -> Sql:
    return cast_to(value.sql, type_)


def _truth_to_number(value: TypedValue, type_: SqlType) -> Sql:
    return cast_to(cast_to(value.sql, INTEGER), type_)


def _exact_to_decimal(value: TypedValue, type_: SqlType) -> Sql:
    return decimal_or_null(sql("CAST({} AS NUMERIC)", value.sql), type_)


def _to_truth(value: TypedValue, type_: SqlType) -> Sql:
    return sql("({} <> 0)", value.sql)


_CASTS: Final[Mapping[tuple[str, str], Callable[[TypedValue, SqlType], Sql]]] = MappingProxyType(
    {
        ("INTEGERS", "INTEGERS"): _between_integers,
        ("BOOLEAN", "INTEGERS"): _truth_to_number,
        ("DECIMAL", "INTEGERS"): lambda v, t: clamped_or_null(sql("round({})", v.sql), t),
        ("DOUBLE", "INTEGERS"): _double_to_integer,
        ("VARCHAR", "INTEGERS"): _text_to_integer,
        ("INTEGERS", "DOUBLE"): _plain,
        ("FLOAT", "DOUBLE"): _plain,
        ("BOOLEAN", "DOUBLE"): _truth_to_number,
        ("DECIMAL", "DOUBLE"): _decimal_to_double,
        ("VARCHAR", "DOUBLE"): lambda v, t: once(v.sql, _text_to_double),
        ("INTEGERS", "DECIMAL"): _exact_to_decimal,
        ("DECIMAL", "DECIMAL"): _exact_to_decimal,
        ("DOUBLE", "DECIMAL"): lambda v, t: once(v.sql, lambda x: double_to_decimal(x, t)),
        **dict.fromkeys(product(_WRITTEN_OUT, ["VARCHAR"]), _to_text),
        **dict.fromkeys(product(("INTEGERS", "DECIMAL", "DOUBLE"), ["BOOLEAN"]), _to_truth),
        ("VARCHAR", "DATE"): lambda v, t: once(v.sql, _text_to_date),
        ("VARCHAR", "TIMESTAMP"): lambda v, t: once(v.sql, _text_to_timestamp),
        **dict.fromkeys(product(MOMENTS, MOMENTS), _plain),
        ("TIMESTAMP", "TIME"): _plain,
    }
)


def double_sql(value: float) -> Sql:
    """Write exactly this double."""
    return sql("CAST({} AS DOUBLE PRECISION)", literal(repr(float(value))))
