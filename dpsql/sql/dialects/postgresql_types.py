"""PostgreSQL's names of types and values of types, and casts that never raise.

A value is SQL text with the type it has in DuckDB, which decides what every operation means. Dates
and timestamps are of the years 1 to 9999: others were made NULL where the table was read.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final
from uuid import UUID

import numpy as np

from dpsql.core.quoting import INTERNAL_PREFIX, literal, quote
from dpsql.core.schema import base_type, is_decimal

INTEGERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
INTEGER_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Decimal digits that hold every integer of a type."""
MOST_DIGITS: Final = 38
MOMENTS: Final = ("DATE", "TIMESTAMP")
_NAMES: Final = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "SMALLINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INTEGER",
    "BIGINT": "BIGINT",
    "FLOAT": "REAL",
    "DOUBLE": "DOUBLE PRECISION",
    "VARCHAR": "TEXT",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIME": "TIME",
    "UUID": "UUID",
}
UNTYPED: Final = "NULL"
"""The type of NULL where nothing says what it is a NULL of."""
DOUBLE: Final = "DOUBLE PRECISION"
INFINITY: Final = f"CAST('Infinity' AS {DOUBLE})"
MINUS_INFINITY: Final = f"CAST('-Infinity' AS {DOUBLE})"
NAN: Final = f"CAST('NaN' AS {DOUBLE})"
_EXACT_DOUBLES: Final = 2**53
_PIECE_BITS: Final = 40
_SHORT: Final = 200  # characters of text that is cheaper to write twice than to compute once
_LONGEST_NUMBER: Final = 100  # characters of a text that is read as a number
_NUMBER: Final = "^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?$"
_NO_NUMBER: Final = "^(nan|[+-]?inf|[+-]?infinity)$"
_SPACES: Final = " || ".join(["' '", *(f"chr({code})" for code in range(9, 14))])


def sql_type(type_: str) -> str | None:
    """Name a DuckDB type in PostgreSQL; None for one that has no equal there."""
    if is_decimal(type_):
        return f"NUMERIC({', '.join(map(str, width_and_scale(type_)))})"
    return _NAMES.get(base_type(type_))


def width_and_scale(type_: str) -> tuple[int, int]:
    """Return the digits of a DECIMAL, and how many of them stand after the point.

    >>> width_and_scale("DECIMAL(12,2)")
    (12, 2)
    """
    found = [int(number) for number in re.findall(r"\d+", type_)]
    return (found[0], found[1] if len(found) > 1 else 0) if found else (18, 3)


def ends(type_: str) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    bits = _BITS[type_]
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


@dataclass(frozen=True, slots=True)
class PgValue:
    """An expression in PostgreSQL's SQL and its type; ``constant`` is that of a literal.

    ``fails`` where it may be NULL for having failed, as TRY would make it.
    """

    sql: str
    type: str
    constant: object = field(default=None, compare=False)
    fails: bool = False

    @property
    def is_literal(self) -> bool:
        """True for a constant as it was written, whose type is not settled."""
        return self.constant is not None

    @property
    def kind(self) -> str:
        """The type without its arguments."""
        return base_type(self.type)


def once(value: str, body: Callable[[str], str]) -> str:
    """Write what reads a value several times so that it is computed once.

    A short value is written several times, a long one is a row of its own: otherwise nested
    expressions would grow with every level. OFFSET keeps the planner from undoing it.
    """
    if len(value) <= _SHORT:
        return body(value)
    digest = hashlib.sha256(value.encode()).hexdigest()[:12]
    name, row = (quote(f"{INTERNAL_PREFIX}{kind}{digest}") for kind in "vr")
    return f"(SELECT {body(name)} FROM (SELECT {value} AS {name} OFFSET 0) AS {row})"


def clamped_or_null(value: str, type_: str) -> str:
    """Write an exact number as an integer of a type, NULL where it does not fit; computed once."""
    low, high = ends(type_)
    kept = f"greatest({low - 1}, least({value}, {high + 1}))"
    return f"CAST(NULLIF(NULLIF({kept}, {high + 1}), {low - 1}) AS {_NAMES[type_]})"


def decimal_or_null(value: str, type_: str) -> str:
    """Write an exact number as a DECIMAL, rounded to its scale; NULL where it does not fit."""
    width, scale = width_and_scale(type_)
    end = 10 ** (width - scale)
    kept = f"greatest({-end}, least(round({value}, {scale}), {end}))"
    return f"CAST(NULLIF(NULLIF({kept}, {end}), {-end}) AS NUMERIC({width}, {scale}))"


def text_literal(text: str) -> str:
    """Write a text, compared by its bytes."""
    return f'(CAST({literal(text)} AS TEXT) COLLATE "C")'


# -- constants of a type ------------------------------------------------------------------------


def constant(value: object, type_: str) -> str | None:
    """Write a constant as the type, as DuckDB casts it; None where it does not fit.

    Raises ``KeyError`` for a type without constants.
    """
    name = sql_type(type_)
    text = str(value)
    if name is None:
        raise KeyError(type_)
    if base_type(type_) == "VARCHAR":
        return None if "\0" in text else text_literal(text)
    found = _READERS["DECIMAL" if is_decimal(type_) else base_type(type_)](value, type_)
    return None if found is None else f"CAST({literal(found)} AS {name})"


def _integer(value: object, type_: str) -> str | None:
    number = _exact(value)
    if number is None:
        return None
    whole = int(_rounded(number, 0))
    low, high = ends(type_)
    return str(whole) if low <= whole <= high else None


def _exact(value: object) -> Decimal | None:
    try:
        number = Decimal(str(value).strip())
        return number if number.is_finite() and abs(number.adjusted()) < 2 * MOST_DIGITS else None
    except InvalidOperation:
        return None


def _rounded(number: Decimal, places: int) -> Decimal:
    digits = len(number.as_tuple().digits) + 4 * MOST_DIGITS
    exact = Context(prec=digits, rounding=ROUND_HALF_UP)
    return exact.quantize(number, Decimal(1).scaleb(-places, exact))


def _decimal(value: object, type_: str) -> str | None:
    number = _exact(value)
    if number is None:
        return None
    width, scale = width_and_scale(type_)
    rounded = _rounded(number, scale)
    return f"{rounded:f}" if rounded.copy_abs() < 10 ** (width - scale) else None


def _double(value: object, type_: str) -> str | None:
    try:
        return repr(float(str(value)))
    except ValueError:
        return None


def _float(value: object, type_: str) -> str | None:
    """Return the nearest value of 32 bits: beyond the largest it is infinite, as in DuckDB."""
    found = _double(value, type_)
    with np.errstate(over="ignore"):
        return None if found is None else str(np.float32(found))


def _boolean(value: object, type_: str) -> str | None:
    words = {"true": "true", "t": "true", "1": "true", "false": "false", "f": "false", "0": "false"}
    return words.get(str(value).lower())


def _date(value: object, type_: str) -> str | None:
    try:
        return datetime.date.fromisoformat(_padded(str(value).strip())).isoformat()
    except ValueError:
        return None


_WRITTEN: Final = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})")


def _padded(text: str) -> str:
    """Return a date with four digits of a year, and two of all else."""
    return _WRITTEN.sub(lambda m: f"{m[1]:0>4}-{m[2]:0>2}-{m[3]:0>2}", text)


_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


def _timestamp(value: object, type_: str) -> str | None:
    text = _padded(str(value).strip())
    if not _MOMENT.fullmatch(text):
        return None
    try:
        return datetime.datetime.fromisoformat(text).isoformat(" ")
    except ValueError:
        return None


def _time(value: object, type_: str) -> str | None:
    try:
        found = datetime.time.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return found.isoformat() if found.tzinfo is None else None


def _uuid(value: object, type_: str) -> str | None:
    try:
        return str(UUID(str(value).strip()))
    except ValueError:
        return None


_READERS: Final[dict[str, Callable[[object, str], str | None]]] = {
    **dict.fromkeys(INTEGERS, _integer),
    "DECIMAL": _decimal,
    "DOUBLE": _double,
    "FLOAT": _float,
    "BOOLEAN": _boolean,
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIME": _time,
    "UUID": _uuid,
}


# -- casts ----------------------------------------------------------------------------------------


def cast(value: PgValue, type_: str) -> PgValue | None:
    """Cast a value to a type, NULL where it does not fit; None where no cast is known.

    It never raises, on any row.
    """
    name = sql_type(type_)
    if name is None:
        return None
    if value.type in (type_, UNTYPED):
        return replace(value, type=type_, sql=f"CAST({value.sql} AS {name})", constant=None)
    for written in _CASTS:
        found = written(value, type_)
        if found is not None:
            return PgValue(found, type_, fails=value.fails or not _always_fits(value, type_))
    return None


def _always_fits(value: PgValue, type_: str) -> bool:
    """Tell whether every value of a type has one in another."""
    kind = value.kind
    if type_ in ("VARCHAR", "BOOLEAN") or kind in (*MOMENTS, "BOOLEAN"):
        return True
    if type_ == "DOUBLE":
        return kind != "VARCHAR"
    if is_decimal(type_) and kind in (*INTEGERS, "DECIMAL"):
        width, scale = width_and_scale(type_)
        own, places = (
            width_and_scale(value.type) if kind == "DECIMAL" else (INTEGER_DIGITS[kind], 0)
        )
        # Digits that are rounded away may make one more before the point.
        return own - places + (places > scale) <= width - scale
    if kind == "DECIMAL" and type_ in INTEGERS:
        width, scale = width_and_scale(value.type)
        return width - scale + 1 < INTEGER_DIGITS[type_]
    return kind in INTEGERS and type_ in INTEGERS and ends(kind)[1] <= ends(type_)[1]


def _to_integer(value: PgValue, type_: str) -> str | None:
    if type_ not in INTEGERS:
        return None
    if value.kind in INTEGERS:
        wider = INTEGERS.index(value.kind) <= INTEGERS.index(type_)
        plain = f"CAST({value.sql} AS {_NAMES[type_]})"
        return plain if wider else clamped_or_null(f"CAST({value.sql} AS BIGINT)", type_)
    if value.kind == "BOOLEAN":
        return f"CAST(CAST({value.sql} AS INTEGER) AS {_NAMES[type_]})"
    if value.kind == "DECIMAL":
        return clamped_or_null(f"round({value.sql})", type_)
    if value.kind == "DOUBLE":
        whole = _nearest(value.sql)  # 127.5 becomes 128, which is found too large after that
        return whole if type_ == "BIGINT" else clamped_or_null(whole, type_)
    if value.kind == "VARCHAR":
        return once(
            value.sql, lambda v: _text_number(v, lambda n: clamped_or_null(f"round({n})", type_))
        )
    return None


def _nearest(value: str) -> str:
    """Write a double as the nearest BIGINT, NULL for what has none; computed once.

    The ends are the doubles next to those that have one; NaN is above all of them.
    """
    low, high = double_sql(-(2.0**63) - 2048), double_sql(2.0**63)
    kept = f"greatest({low}, least({value}, {high}))"
    return f"CAST(NULLIF(NULLIF({kept}, {high}), {low}) AS BIGINT)"


def _text_number(value: str, body: Callable[[str], str]) -> str:
    """Write what is made of the number that a text is; NULL for a text that is none."""
    trimmed = _trimmed(value)
    number = f"CAST({trimmed} AS NUMERIC)"
    return (
        f"CASE WHEN octet_length({value}) <= {_LONGEST_NUMBER} THEN CASE WHEN {trimmed} ~ "
        f"'{_NUMBER}' THEN {body(number)} END END"
    )


def _trimmed(value: str) -> str:
    return f"btrim({value}, {_SPACES})"


def _to_double(value: PgValue, type_: str) -> str | None:
    if type_ != "DOUBLE":
        return None
    if value.kind in INTEGERS or value.kind == "FLOAT":
        return f"CAST({value.sql} AS {DOUBLE})"
    if value.kind == "BOOLEAN":
        return f"CAST(CAST({value.sql} AS INTEGER) AS {DOUBLE})"
    if value.kind == "DECIMAL":
        return _decimal_to_double(value)
    if value.kind == "VARCHAR":
        return once(value.sql, _text_to_double)
    return None


def _decimal_to_double(value: PgValue) -> str:
    """Write as DuckDB does: quotients of what doubles hold, else whole and fraction apart."""
    width, scale = width_and_scale(value.type)
    plain = f"CAST({value.sql} AS {DOUBLE})"
    if width <= 15 or scale == 0:
        return plain
    exact = Decimal(_EXACT_DOUBLES).scaleb(-scale)

    def apart(v: str) -> str:
        parts = f"CAST(trunc({v}) AS {DOUBLE}) + CAST({v} - trunc({v}) AS {DOUBLE})"
        return f"CASE WHEN abs({v}) <= {exact:f} THEN CAST({v} AS {DOUBLE}) ELSE {parts} END"

    return once(value.sql, apart)


_MOST_DOUBLE: Final = "1.7976931348623157e308"
_LEAST_DOUBLE: Final = "1e-320"


def _text_to_double(value: str) -> str:
    def read(number: str) -> str:
        return (
            f"CASE WHEN abs({number}) > {_MOST_DOUBLE} THEN sign({number}) * {INFINITY} "
            f"WHEN abs({number}) < {_LEAST_DOUBLE} THEN 0 ELSE CAST({number} AS {DOUBLE}) END"
        )

    word = f"CAST({_trimmed(value)} AS {DOUBLE})"
    return (
        f"CASE WHEN octet_length({value}) <= {_LONGEST_NUMBER} AND {_trimmed(value)} ~* "
        f"'{_NO_NUMBER}' THEN {word} ELSE {_text_number(value, read)} END"
    )


def _to_decimal(value: PgValue, type_: str) -> str | None:
    if not is_decimal(type_):
        return None
    if value.kind in INTEGERS or value.kind == "DECIMAL":
        return decimal_or_null(f"CAST({value.sql} AS NUMERIC)", type_)
    if value.kind == "DOUBLE":
        return once(value.sql, lambda v: double_to_decimal(v, type_))
    return None


def double_to_decimal(value: str, type_: str) -> str:
    """Write a double as a DECIMAL: its multiple of a power of ten, rounded to an integer, exactly.

    A plain cast keeps 15 digits. Of the multiple, quotients and rests by 2^40 are exact, and as
    many of these are taken as the digits of the type need.
    """
    width, scale = width_and_scale(type_)
    end = 10.0 ** (width - scale)
    pieces = 1
    while 10**width > 2 ** (_PIECE_BITS * pieces):
        pieces += 1

    def exact(steps: str) -> str:
        return _exact_integer(steps, pieces)

    multiple = half_away(f"({value} * {double_sql(10.0**scale)})")
    scaled = decimal_or_null(f"{once(multiple, exact)} * {Decimal(1).scaleb(-scale):f}", type_)
    small, inside = (f"abs({value}) < {double_sql(limit)}" for limit in (1e-100, end))
    return f"CASE WHEN {small} THEN 0 WHEN {inside} THEN {scaled} END"


def _exact_integer(value: str, pieces: int) -> str:
    """Write an integral double of so many times 40 bits as a NUMERIC, piece by piece."""
    if pieces == 1:
        return f"CAST(CAST({value} AS BIGINT) AS NUMERIC)"
    half = double_sql(2.0**_PIECE_BITS)

    def split(whole: str) -> str:
        size = f"trunc({whole} / {half})"
        rest = f"CAST(CAST({whole} - {size} * {half} AS BIGINT) AS NUMERIC)"
        larger = once(size, lambda s: _exact_integer(s, pieces - 1))
        return f"({larger} * {2**_PIECE_BITS} + {rest})"

    return once(value, split)


def half_away(value: str) -> str:
    """Write a double rounded to an integer, halves away from zero: the engine's own is to even.

    What is added is the double below a half: with it a half, and no less, becomes an integer by the
    rounding of the sum, and integers of any size stay what they are.
    """
    below, above = (double_sql(sign * math.nextafter(0.5, 0.0)) for sign in (-1, 1))
    return once(value, lambda v: f"trunc({v} + CASE WHEN {v} < 0 THEN {below} ELSE {above} END)")


def _to_text(value: PgValue, type_: str) -> str | None:
    plain = {*INTEGERS, "BOOLEAN", "DECIMAL", "DATE", "TIMESTAMP", "UUID"}
    if type_ != "VARCHAR" or value.kind not in plain:
        return None
    text = f"CAST({value.sql} AS TEXT)"
    if value.kind == "DECIMAL" and len(set(width_and_scale(value.type))) == 1:
        text = f"regexp_replace({text}, '0', '')"  # no digit stands before the point: .5
    return f'({text} COLLATE "C")'


def _to_boolean(value: PgValue, type_: str) -> str | None:
    if type_ != "BOOLEAN":
        return None
    return f"({value.sql} <> 0)" if value.kind in (*INTEGERS, "DECIMAL", "DOUBLE") else None


def _to_moment(value: PgValue, type_: str) -> str | None:
    if type_ in MOMENTS and value.kind in MOMENTS:
        return f"CAST({value.sql} AS {_NAMES[type_]})"
    return None


_CASTS: Final = (_to_integer, _to_double, _to_decimal, _to_text, _to_boolean, _to_moment)


def double_sql(value: float) -> str:
    return f"CAST('{float(value)!r}' AS {DOUBLE})"
