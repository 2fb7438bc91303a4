"""How Spark computes what row expressions are made of: each as DuckDB does, or refused.

What is written never raises: integers are added by ``try_add``, dates are looked at before they are
computed with, and what Spark computes otherwise is put together from what it computes alike. What
is not in the tables below is refused; the reading of expressions, and their types, are in
:mod:`dpsql.engines.base.row_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, starmap
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from dpsql.core.sql import EMPTY_SQL, Sql, bare_word, digits, join, literal, sql
from dpsql.core.sql_types import BIGINT, DOUBLE, INTEGER, SqlType
from dpsql.engines.base.row_engine import RowEngine, Write, named_by_number
from dpsql.engines.base.row_types import (
    MOST_DIGITS,
    MOST_TEXT_BYTES,
    UNTYPED,
    TypedValue,
    exact_decimal,
)
from dpsql.engines.spark import casts as spark
from dpsql.engines.spark.casts import NUMBERS, SPARK_REFUSED, in_calendar, spark_cast
from dpsql.syntax.arguments import word_of
from dpsql.syntax.moment_formats import read_format
from dpsql.syntax.patterns import like_pattern, part_pattern, read_pattern
from dpsql.syntax.row_functions import DAYS, MOMENTS, MONTHS

_MOST: Final = 50_000  # characters of an expression: rounding writes its argument several times
_MOST_DECIMALS: Final = 15
_MOST_WAYS: Final = 1000  # of trying a regular expression at a place
_KEPT_PLACES: Final = 6  # that Spark never rounds away
_SECOND: Final = 1_000_000  # microseconds
_HOUR: Final = 3600 * _SECOND
_LENGTHS: Final[Mapping[str, int]] = {
    "week": 7 * 24 * _HOUR,
    "day": 24 * _HOUR,
    "hour": _HOUR,
    "minute": _HOUR // 60,
    "second": _SECOND,
}
_FIRST_BUCKET: Final = 946_857_600 * _SECOND  # from 1970 to Monday, 2000-01-03
_FIRST_MOMENT: Final = -62_135_596_800 * _SECOND  # of the year 1
_MOST_DAYS: Final = 4_000_000  # beyond all days from the year 1 to 9999
_MOST_MONTHS: Final = 9999 * 12
_MONTHS: Final[Mapping[str, int]] = {"year": 12, "quarter": 3, "month": 1}
_ESCAPES: Final = "\x07\x06\x05\x04\x03\x02\x01"
_KINDS: Final = frozenset({*NUMBERS, "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"})
_READ_AS: Final = {"TINYINT": INTEGER, "SMALLINT": INTEGER, "FLOAT": DOUBLE}


# -- integers -------------------------------------------------------------------------------------


def _zero(type_: SqlType) -> Sql:
    return sql("0") if type_ == INTEGER else spark_cast(sql("0"), type_)


def _minus_integer(value: Sql, type_: SqlType) -> Sql:
    return sql("try_subtract({}, {})", _zero(type_), value)


def _size_of_integer(value: Sql, type_: SqlType) -> Sql:
    minus = _minus_integer(value, type_)
    return sql("CASE WHEN {value} < 0 THEN {} ELSE {value} END", minus, value=value)


def _whole_quotient(a: Sql, b: Sql, type_: SqlType) -> Sql:
    """Divide integers: the least one by -1 overflows."""
    return sql(
        "CASE WHEN {b} = -1 THEN {minus} WHEN {b} <> 0 THEN {quotient} END",
        b=b,
        minus=_minus_integer(a, type_),
        quotient=spark_cast(sql("({} div {})", a, b), type_),
    )


def _rest(a: Sql, b: Sql, type_: SqlType) -> Sql:
    # Of the least integer by -1, it fails.
    none = sql("try_multiply({}, {})", _minus_integer(a, type_), _zero(type_))
    return sql("CASE WHEN {b} = -1 THEN {none} ELSE try_mod({a}, {b}) END", a=a, b=b, none=none)


# -- decimals -------------------------------------------------------------------------------------


def _decimals(sign: str, written: Sql) -> Write:
    """Compute as the type that holds all results, then cast to DuckDB's: NULL where it is less."""

    def write(one: TypedValue, two: TypedValue, type_: SqlType) -> Sql:
        width, places = exact_decimal(sign, one.type, two.type)
        # With this many digits, Spark would round a product to fewer places.
        rounds = sign == "*" and width == MOST_DIGITS and places > _KEPT_PLACES
        _refuse_beyond(width + rounds)
        a, b = (_as_decimal(value) for value in (one, two))
        exact = spark_cast(sql("({} {} {})", a, written, b), SqlType.decimal(width, places))
        return _tried(exact, type_)

    return write


def _refuse_beyond(width: int) -> None:
    if width > MOST_DIGITS:
        hint = "Cast a value to DOUBLE, or to a DECIMAL of fewer digits."
        raise SPARK_REFUSED("a decimal of more than 38 digits", "no type there has them", hint)


def _as_decimal(value: TypedValue) -> Sql:
    shape = SqlType.decimal(*value.type.digits)
    return value.sql if value.type == shape else spark_cast(value.sql, shape)


def _tried(value: Sql, type_: SqlType) -> Sql:
    return sql("try_cast({} AS {})", value, spark.spark_type(type_))


def _short(write: Callable[[Sql], Sql]) -> Write:
    """Refuse decimals of 38 digits, which Spark rounds to fewer first, and then raises."""

    def made(value: TypedValue, type_: SqlType) -> Sql:
        _refuse_beyond(value.type.digits[0] + 1)
        return write(value.sql)

    return made


def _whole_decimal(write: Callable[[Sql], Sql]) -> Write:
    return lambda value, type_: _tried(write(value.sql), type_)


def _truncated(value: Sql) -> Sql:
    # Beside an integer, a decimal of many places is rounded: -1e-38 is not below 0.
    return sql("CASE WHEN CAST({v} AS DOUBLE) < 0D THEN ceil({v}) ELSE floor({v}) END", v=value)


# -- rounding to places, through a product, as DuckDB does ----------------------------------------


def _few(places: int) -> int:
    if not 0 <= places <= _MOST_DECIMALS:
        raise SPARK_REFUSED("round", f"digits are a constant from 0 to {_MOST_DECIMALS} there")
    return places


def _integer_to_places(value: Sql, type_: SqlType, places: int) -> Sql:
    """Round half away from zero: NULL where the result does not fit."""
    if places >= 0:
        _few(places)
        return value
    size = 10**-places
    unit, half = (spark_cast(digits(each), type_) for each in (size, size // 2))
    rest = sql("({} % {})", value, unit)
    return sql(
        "try_add({value} - {rest}, CASE WHEN {rest} >= {half} THEN {unit} "
        "WHEN {rest} <= -{half} THEN -{unit} ELSE {zero} END)",
        value=value,
        rest=rest,
        half=half,
        unit=unit,
        zero=_zero(type_),
    )


def _decimal_to_places(value: TypedValue, type_: SqlType, places: int) -> Sql:
    return _tried(sql("round({}, {})", value.sql, _few(places)), type_)


def _double_to_places(value: Sql, places: int) -> Sql:
    size = sql("1e{}D", _few(abs(places)))
    up, down = (sql("*"), sql("/")) if places >= 0 else (sql("/"), sql("*"))
    rounded = sql("(round({} {} {}) {} {})", value, up, size, down, size)
    return sql(
        "CASE WHEN abs({rounded}) < double('Infinity') THEN {rounded} ELSE {value} END",
        rounded=rounded,
        value=value,
    )


# -- doubles --------------------------------------------------------------------------------------


def _quotient(a: Sql, b: Sql, divisor: object) -> Sql:
    """Divide, by zero as IEEE 754 has it."""
    if isinstance(divisor, int) and divisor != 0:
        return sql("({} / {})", a, b)
    infinite = sql(
        "CASE WHEN CAST({} AS STRING) = '-0.0' THEN double('-Infinity') ELSE "
        "double('Infinity') END",
        b,
    )
    return sql(
        "CASE WHEN {b} = 0 THEN {a} * {infinite} ELSE try_divide({a}, {b}) END",
        a=a,
        b=b,
        infinite=infinite,
    )


def _only_quotient(a: Sql, b: Sql) -> Sql:
    """Divide, by zero to NULL."""
    return sql("try_divide({}, {})", a, b)


def _rest_of_doubles(a: Sql, b: Sql) -> Sql:
    """Write the rest of a division, by zero NaN."""
    return sql("CASE WHEN {b} = 0 THEN {a} * double('NaN') ELSE try_mod({a}, {b}) END", a=a, b=b)


def _down(value: Sql) -> Sql:
    """Round a DOUBLE down, as a DOUBLE: ``floor`` makes it a BIGINT."""
    return sql("CASE WHEN rint({v}) > {v} THEN rint({v}) - 1D ELSE rint({v}) END", v=value)


def _up(value: Sql) -> Sql:
    return sql("CASE WHEN rint({v}) < {v} THEN rint({v}) + 1D ELSE rint({v}) END", v=value)


def _to_zero(value: Sql) -> Sql:
    return sql("CASE WHEN {} < 0 THEN {} ELSE {} END", value, _up(value), _down(value))


def _logarithm(word: Sql) -> Write:
    return lambda x: sql(
        "CASE WHEN {x} = 0 THEN double('-Infinity') WHEN {x} < 0 THEN double('NaN') "
        "ELSE {word}({x}) END",
        x=x,
        word=word,
    )


def _power(one: Sql, other: Sql) -> Sql:
    return sql(
        "CASE WHEN {other} IS NULL THEN NULL "
        "WHEN {one} = 1 OR ({one} = -1 AND abs({other}) = double('Infinity')) THEN 1D "
        "ELSE pow({one}, {other}) END",
        one=one,
        other=other,
    )


# -- texts and several values ---------------------------------------------------------------------


def _call(word: Sql) -> Write:
    return lambda *values: sql("{}({})", word, join(", ", values))


def _extreme(word: Sql) -> Write:
    return lambda *values: values[0] if len(values) == 1 else _call(word)(*values)


def _substring(text: Sql, first: int, *size: int) -> Sql:
    """Write substring: place 0 is before the first character, which Spark takes for the first."""
    places = (first, *size) if first else (1, *(max(each - 1, 0) for each in size))
    return sql("substring({}, {})", text, join(", ", map(digits, places)))


def _side(word: Sql) -> Write:
    """Write left or right, which leave as many characters as a negative number says out."""

    def write(text: Sql, size: int) -> Sql:
        kept = digits(size)
        if size < 0:
            kept = sql("greatest(char_length({}) - {}, 0)", text, digits(-size))
        return sql("{}({}, {})", word, text, kept)

    return write


def _trimmed(side: Sql) -> Write:
    """Remove these characters: left to itself, Spark trims no blank but U+0020."""
    return lambda text, blanks: sql("trim({} {} FROM {})", side, literal(blanks), text)


def _like(negated: Sql) -> Write:
    """Compare with a constant pattern without escapes."""

    def write(text: Sql, pattern: Sql, given: object) -> Sql:
        if not isinstance(given, str):
            raise SPARK_REFUSED("like", "its pattern is a constant there")
        escape = next((character for character in _ESCAPES if character not in given), None)
        if escape is None:
            raise SPARK_REFUSED("this pattern of LIKE", "it has no equal there")
        searched = like_pattern(given, backtracks=True)
        if searched is not None:
            return sql("({}{} RLIKE {})", negated, text, literal(searched))
        return sql("({} {}LIKE {} ESCAPE {})", text, negated, pattern, literal(escape))

    return write


def _searched(pattern: str) -> Sql:
    """Write a pattern, if a search for it tries each place of a text in few ways.

    Java tries one way after the other: what may be of any length stands in a pattern once, at its
    end, or where there is one place to begin.
    """
    found = read_pattern(pattern, captures=True, ends=(r"\A", r"\z"))
    once = found.open_end or (found.from_start and found.endless == 1)
    if found.ways > _MOST_WAYS or not once:
        why = "* and + stand there once, at the end or in a pattern that begins with ^"
        raise SPARK_REFUSED("this regular expression", why)
    return literal(found.text)


def _part(text: Sql, mark: str, place: int) -> Sql:
    pattern = part_pattern(mark, place, backtracks=True)
    return sql("regexp_extract({}, {}, 1)", text, literal(pattern))


def _substituted(text: Sql, pattern: str, put: str, flags: str) -> Sql:
    if flags != "g":
        raise SPARK_REFUSED("regexp_replace of the first match", "all are replaced there")
    escaped = put.replace("$", "\\$")
    made = sql("regexp_replace({}, {}, {})", text, _searched(pattern), literal(escaped))
    return _of_few_bytes([text], MOST_TEXT_BYTES // max(1, len(put.encode())), made)


def _replaced(text: Sql, taken: str, put: str) -> Sql:
    made = sql("replace({}, {}, {})", text, literal(taken), literal(put))
    return _of_few_bytes([text], MOST_TEXT_BYTES // max(1, len(put.encode())), made)


def _of_few_bytes(texts: Sequence[Sql], most: int, made: Sql) -> Sql:
    """Compute a text of others, NULL where it could be longer than any that is read.

    Spark fails on texts of two gigabytes, and takes several times the bytes of each.
    """
    sizes = (sql("CAST(coalesce(octet_length({}), 0) AS BIGINT)", text) for text in texts)
    return sql("CASE WHEN {} < {} THEN {} END", join(" + ", sizes), most, made)


def _joined(*texts: Sql) -> Sql:
    return _of_few_bytes(texts, MOST_TEXT_BYTES, sql("concat({})", join(", ", texts)))


def _concat(*texts: Sql) -> Sql:
    return _of_few_bytes(texts, MOST_TEXT_BYTES, sql("concat_ws('', {})", join(", ", texts)))


# -- dates ----------------------------------------------------------------------------------------

_FORMATS: Final[Mapping[str, str]] = {
    "%Y": "yyyy",
    "%y": "yy",
    "%m": "MM",
    "%-m": "M",
    "%d": "dd",
    "%-d": "d",
    "%H": "HH",
    "%-H": "H",
    "%I": "hh",
    "%-I": "h",
    "%M": "mm",
    "%S": "ss",
    "%f": "SSSSSS",
    "%p": "a",
    "%j": "DDD",
    "%B": "MMMM",
    "%b": "MMM",
    "%A": "EEEE",
    "%a": "EEE",
}
"""Directives of date_format."""


def _formatted(moment: Sql, text: str) -> Sql:
    pieces: list[Sql] = []
    for computed, found in groupby(read_format(text) or (), lambda each: each[0] in _COMPUTED):
        if computed:
            pieces.extend(_COMPUTED[directive](moment) for directive, _ in found)
        else:
            pieces.append(_date_format(moment, "".join(starmap(_format_word, found))))
    return pieces[0] if len(pieces) == 1 else sql("concat({})", join(", ", pieces))


def _format_word(directive: str, between: str) -> str:
    quoted = between.replace("'", "''")
    return _FORMATS[directive] if directive else f"'{quoted}'"


def _date_format(moment: Sql, words: str) -> Sql:
    return sql("date_format(CAST({} AS TIMESTAMP), {})", moment, literal(words))


def _thursday(moment: Sql) -> Sql:
    """Write the Thursday of a moment's week, whose year is the year of the week."""
    return sql("date_add(CAST({v} AS DATE), 3 - weekday({v}))", v=moment)


def _week_year(moment: Sql) -> Sql:
    return sql("year({})", _thursday(moment))


def _year_and_week(moment: Sql) -> Sql:
    return sql("({} * 100 + weekofyear({}))", _week_year(moment), moment)


_COMPUTED: Final[Mapping[str, Callable[[Sql], Sql]]] = {
    "%G": lambda v: _date_format(_thursday(v), "yyyy"),
    "%V": lambda v: sql("substring(CAST(weekofyear({}) + 100 AS STRING), 2)", v),
    "%u": lambda v: sql("CAST(weekday({}) + 1 AS STRING)", v),
}
"""Directives that date_format has no letters for."""


def _date_of_parts(year: Sql, month: Sql, day: Sql) -> Sql:
    """Write make_date, NULL where there is no such day in the years 1 to 9999."""
    whole = [sql("CAST({} AS INT)", each) for each in (year, month, day)]
    first = sql("make_date({}, {}, 1)", *whole[:2])
    return sql(
        "CASE WHEN {year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 "
        "AND {day} BETWEEN 1 AND 31 THEN CASE WHEN {day} <= day(last_day({first})) "
        "THEN make_date({parts}) END END",
        year=year,
        month=month,
        day=day,
        first=first,
        parts=join(", ", whole),
    )


def _bigint(write: Callable[..., Sql]) -> Write:
    return lambda *moments: sql("CAST({} AS BIGINT)", write(*moments))


def _named(part: Sql, names: Sequence[str]) -> Write:
    texts = [literal(name) for name in names]
    return lambda moment: named_by_number(sql("{}({})", part, moment), texts, 1)


def _interval(sign: Sql) -> Write:
    def write(moment: TypedValue, type_: SqlType, count: str, unit: str) -> Sql:
        if not count.isdigit() or len(count) > 5 or unit == "quarter":
            raise SPARK_REFUSED("an interval", "it has at most 99999 of a unit, and no quarters")
        found = spark.widened(moment, type_) or moment
        length = sql("INTERVAL {} {}", literal(count), bare_word(unit.upper()))
        return sql("({} {} {})", found.sql, sign, length)

    return write


def _microseconds(moment: Sql) -> Sql:
    return sql("unix_micros(CAST({} AS TIMESTAMP))", moment)


def _beyond(since: Sql, length: Sql) -> Sql:
    """Write the rest of a division that rounds down."""
    return sql("((({since} % {length}) + {length}) % {length})", since=since, length=length)


def _bucketed(moment: Sql, length: int) -> Sql:
    since = sql("({} - {}L)", _microseconds(moment), digits(_FIRST_BUCKET))
    there = sql("({} - {})", _microseconds(moment), _beyond(since, sql("{}L", digits(length))))
    made = sql("CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)", there)
    return sql("CASE WHEN {} >= {}L THEN {} END", there, digits(_FIRST_MOMENT), made)


def _unit_of(length: int) -> Callable[[Sql], Sql]:
    """Number the units of so many microseconds."""
    whole = sql("{}L", digits(length))

    def number_of(moment: Sql) -> Sql:
        since = _microseconds(moment)
        return sql("(({} - {}) div {})", since, _beyond(since, whole), whole)

    return number_of


def _moved(sign: Sql, length: int) -> Write:
    """Move a moment by a number of units, NULL where it is beyond all moments."""
    return lambda moment, count: sql(
        "CASE WHEN {count} BETWEEN -{most}L AND {most}L THEN "
        "CAST(timestamp_micros({since} {sign} {count} * {length}L) AS TIMESTAMP_NTZ) END",
        count=count,
        most=digits(_MOST_DAYS * 24 * _HOUR // length),
        since=_microseconds(moment),
        sign=sign,
        length=digits(length),
    )


def _between(number_of: Callable[[Sql], Sql]) -> Write:
    return lambda a, b: sql("({} - {})", number_of(a), number_of(b))


def _part_of_length(unit: int, whole: int) -> Write:
    """Write how many units a length of time has beyond those in larger, whole ones."""
    return lambda v: sql("(({} % {}L) div {}L)", v, digits(whole), digits(unit))


def _days(sign: Sql) -> Write:
    return lambda date, days: sql(
        "CASE WHEN {days} BETWEEN -{most} AND {most} THEN date_add({date}, {sign}{days}) END",
        days=days,
        most=_MOST_DAYS,
        date=date,
        sign=sign,
    )


def _months_later(sign: Sql, months: int) -> Write:
    """Move a moment by a number of months, NULL where it leaves the years 1 to 9999."""

    def write(moment: Sql, count: Sql) -> Sql:
        day = sql("CAST({} AS DATE)", moment)
        by = sql("CAST({} AS INT) * {}", count, months)
        there = sql("add_months({}, {}({}))", day, sign, by)
        time = sql("{} - {}", _microseconds(moment), _microseconds(day))
        made = sql("timestamp_micros({} + {})", _microseconds(there), time)
        since = sql("year({v}) * 12 + month({v})", v=moment)
        return sql(
            "CASE WHEN {count} BETWEEN -{most} AND {most} THEN "
            "CASE WHEN {since} + {sign}({by}) BETWEEN {first} AND {last} "
            "THEN CAST({made} AS TIMESTAMP_NTZ) END END",
            count=count,
            most=digits(_MOST_MONTHS // months),
            since=since,
            sign=sign,
            by=by,
            first=13,
            last=digits(_MOST_MONTHS + 12),
            made=made,
        )

    return write


_PARTS: Final = ("year", "quarter", "month", "day", "dayofyear", "hour", "minute", "second")
_ALIKE: Final = ("sqrt", "exp", "lower", "upper", "contains", "ascii")
_OPERATIONS: Final[Mapping[str, Write]] = MappingProxyType(
    {
        "try": lambda whole: whole,
        "is": lambda a, b: sql("({} <=> {})", a, b),
        "is distinct": lambda a, b: sql("(NOT ({} <=> {}))", a, b),
        "is not distinct": lambda a, b: sql("({} <=> {})", a, b),
        "case": lambda whole: whole,
        "nullif": lambda a, b, first: sql("CASE WHEN {} = {} THEN NULL ELSE {} END", a, b, first),
        "greatest": _extreme(sql("greatest")),
        "least": _extreme(sql("least")),
        "+ integer": lambda a, b, type_: sql("try_add({}, {})", a, b),
        "- integer": lambda a, b, type_: sql("try_subtract({}, {})", a, b),
        "* integer": lambda a, b, type_: sql("try_multiply({}, {})", a, b),
        "// integer": _whole_quotient,
        "% integer": _rest,
        "+ decimal": _decimals("+", sql("+")),
        "- decimal": _decimals("-", sql("-")),
        "* decimal": _decimals("*", sql("*")),
        "+ double": lambda a, b: sql("({} + {})", a, b),
        "- double": lambda a, b: sql("({} - {})", a, b),
        "* double": lambda a, b: sql("({} * {})", a, b),
        "/ double": _quotient,
        "// double": _only_quotient,
        "% double": _rest_of_doubles,
        "negative integer": _minus_integer,
        "negative decimal": _short(lambda v: sql("(-{})", v)),
        "negative double": lambda v: sql("(-{})", v),
        "abs integer": _size_of_integer,
        "abs decimal": _short(lambda v: sql("abs({})", v)),
        "abs double": lambda v: sql("abs({})", v),
        "floor integer": spark_cast,
        "ceil integer": spark_cast,
        "round integer": lambda v, type_: v,
        "trunc integer": lambda v, type_: v,
        "floor decimal": _whole_decimal(lambda v: sql("floor({})", v)),
        "ceil decimal": _whole_decimal(lambda v: sql("ceil({})", v)),
        "round decimal": _whole_decimal(lambda v: sql("round({})", v)),
        "trunc decimal": _whole_decimal(_truncated),
        "floor double": _down,
        "ceil double": _up,
        "round double": lambda v: sql("round({})", v),
        "trunc double": _to_zero,
        "round to integer": _integer_to_places,
        "round to decimal": _decimal_to_places,
        "round to double": _double_to_places,
        "ln": _logarithm(sql("ln")),
        "log": _logarithm(sql("log10")),
        "log10": _logarithm(sql("log10")),
        "log2": _logarithm(sql("log2")),
        "pow": _power,
        "isnan": lambda v: sql("({} = double('NaN'))", v),
        "length": lambda v: sql("CAST(char_length({}) AS BIGINT)", v),
        **{name: _call(bare_word(name)) for name in _ALIKE},
        "unicode": lambda v: sql("CASE WHEN {v} = '' THEN -1 ELSE ascii({v}) END", v=v),
        "substr": _substring,
        "left": _side(sql("left")),
        "right": _side(sql("right")),
        **dict.fromkeys(("trim", "trim both"), _trimmed(sql("BOTH"))),
        "ltrim": _trimmed(sql("LEADING")),
        "rtrim": _trimmed(sql("TRAILING")),
        "like": _like(EMPTY_SQL),
        "not like": _like(sql("NOT ")),
        "starts_with": _call(sql("startswith")),
        "ends_with": _call(sql("endswith")),
        "strpos": _bigint(_call(sql("instr"))),
        "replace": _replaced,
        "split_part": _part,
        "md5": lambda v: sql("md5(CAST({} AS BINARY))", v),
        "sha256": lambda v: sql("sha2(CAST({} AS BINARY), 256)", v),
        "regexp_matches": lambda v, pattern: sql("({} RLIKE {})", v, _searched(pattern)),
        "regexp_extract": lambda v, pattern, group: sql(
            "regexp_extract({}, {}, {})", v, _searched(pattern), group
        ),
        "regexp_replace": _substituted,
        "||": _joined,
        "concat": _concat,
        **{name: _bigint(_call(bare_word(name))) for name in _PARTS},
        "week": _bigint(_call(sql("weekofyear"))),
        "dayofweek": _bigint(lambda v: sql("(dayofweek({}) - 1)", v)),
        "isoyear": _bigint(_week_year),
        "yearweek": _bigint(_year_and_week),
        "isodow": _bigint(lambda v: sql("(weekday({}) + 1)", v)),
        "epoch": lambda v: sql("(unix_micros(CAST({} AS TIMESTAMP)) / 1000000D)", v),
        "make_date": _date_of_parts,
        "strftime": _formatted,
        "dayname": _named(sql("dayofweek"), DAYS),
        "monthname": _named(sql("month"), MONTHS),
        "last_day": lambda v: sql("last_day(CAST({} AS DATE))", v),
        "date_trunc": lambda v, unit: sql(
            "CAST(date_trunc({}, CAST({} AS TIMESTAMP)) AS TIMESTAMP_NTZ)", literal(unit.upper()), v
        ),
        "date_diff year": _bigint(lambda a, b: sql("(year({}) - year({}))", a, b)),
        "date_diff quarter": _bigint(
            lambda a, b: sql(
                "((year({a}) - year({b})) * 4 + quarter({a}) - quarter({b}))", a=a, b=b
            )
        ),
        "date_diff month": _bigint(
            lambda a, b: sql("((year({a}) - year({b})) * 12 + month({a}) - month({b}))", a=a, b=b)
        ),
        "date_diff week": _bigint(lambda a, b: sql("(datediff({}, {}) div 7)", a, b)),
        "date_diff hour": _between(_unit_of(_HOUR)),
        "date_diff minute": _between(_unit_of(_HOUR // 60)),
        "date_diff second": _between(_unit_of(_SECOND)),
        "time_bucket moment": _bucketed,
        "time_bucket day": lambda v, length: sql("CAST({} AS DATE)", _bucketed(v, length)),
        "length of time": lambda length: sql("{}L", digits(length)),
        "- moments": _between(_microseconds),
        **{
            f"{word} number of {unit}s": _moved(sign, length)
            for unit, length in _LENGTHS.items()
            for word, sign in (("+", sql("+")), ("-", sql("-")))
        },
        **{
            f"{word} number of {unit}s": _months_later(sign, months)
            for unit, months in _MONTHS.items()
            for word, sign in (("+", EMPTY_SQL), ("-", sql("-")))
        },
        "day apart": lambda v: sql("({} div {}L)", v, digits(24 * _HOUR)),
        **dict.fromkeys(("year apart", "month apart"), _part_of_length(1, 1)),  # days are no months
        "hour apart": _part_of_length(_HOUR, 24 * _HOUR),
        "minute apart": _part_of_length(_HOUR // 60, _HOUR),
        "second apart": _part_of_length(_SECOND, _HOUR // 60),
        "epoch apart": lambda v: sql("({} / 1000000D)", v),
        "date_diff day": _bigint(lambda a, b: sql("datediff({}, {})", a, b)),
        "- date": _bigint(lambda a, b: sql("datediff({}, {})", a, b)),
        "+ days": _days(EMPTY_SQL),
        "- days": _days(sql("-")),
        "+ interval": _interval(sql("+")),
        "- interval": _interval(sql("-")),
    }
)
"""What is written, by operation."""

_CALLS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(("and", "or", "not", "is", "is null", "case", "coalesce")),
        **dict.fromkeys(("=", "<>", ">", ">=", "<", "<="), "compare({})"),
        "CAST": "cast({}, {unit})",
        "round to": "round({}, places)",
        "log": "log10({})",
        "substr": "substring({})",
        "concat": "concat(VARCHAR)",
        "date_trunc": "date_trunc('{unit}', {})",
        "date_diff": "date_diff('{unit}', {})",
        "- moments": None,
        "+ interval": "+({}, INTERVAL {unit})",
        "- interval": "-({}, INTERVAL {unit})",
    }
)


class SparkRows(RowEngine):
    """Spark's row expressions."""

    refused = SPARK_REFUSED
    operations = _OPERATIONS
    calls = _CALLS
    calls_of_given = True
    typed_nulls = False
    mixes = True
    joins_many = True
    longest = _MOST
    last_place = 2**31 - 1
    part_named = staticmethod(word_of)

    def column_type(self, type_: SqlType) -> SqlType | None:
        """Return the type that an engine makes of narrow ones."""
        found = _READ_AS.get(type_.kind, type_)
        if found.kind not in _KINDS:
            return None
        return found if found.is_decimal else SqlType.of(found.kind)

    def text(self, text: str) -> Sql:
        """Write any text."""
        return literal(text)

    def number(self, text: str, type_: SqlType) -> Sql:
        """Write a number's digits, with the suffix of its type."""
        if type_ == DOUBLE:
            return spark.double(float(text))
        if type_ == BIGINT:
            return sql("{}L", digits(int(text)))
        return digits(int(text)) if type_ == INTEGER else spark_cast(literal(text), type_)

    def negated(self, value: TypedValue, written: exp.Expr) -> TypedValue | None:
        """Put the sign before an integer, which keeps its type."""
        if not isinstance(value.constant, int):
            return None
        return TypedValue(sql("(-{})", value.sql), value.type, -value.constant)

    def null(self, value: TypedValue, type_: SqlType) -> TypedValue:
        """Leave NULL as it is."""
        return value

    def reads_text(self, beside: frozenset[str]) -> bool:
        """Read it as a date or a timestamp."""
        return beside in ({"DATE"}, {"TIMESTAMP"})

    def widened(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Cast numbers and dates; a text that is a date becomes one here."""
        return spark.widened(value, type_)

    def looks_up_widening(self, value: TypedValue, *, choice: bool) -> bool:
        """Look it up where one of several values is taken: all else has a verdict of its own."""
        return choice

    def trivial_cast(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Leave a value of the type as it is, and cast NULL."""
        if value.type == UNTYPED:
            return TypedValue(spark_cast(value.sql, type_), type_, fails=True)
        return value if value.type == type_ else None

    def cast(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Cast behind a guard."""
        if type_.is_decimal:
            type_ = SqlType.decimal(*type_.digits)
        plain = "(" not in type_.text or "," in type_.text
        made = spark.cast_of(value, type_) if plain else None
        fails = value.fails or not spark.always_fits(value, type_)
        return None if made is None else TypedValue(made, type_, fails=fails)

    def guarded(self, operands: Sequence[TypedValue], written: Sql) -> Sql:
        """Look first whether dates are in the years 1 to 9999."""
        for operand in reversed(operands):
            if operand.kind in MOMENTS:
                written = in_calendar(operand, written)
        return written


SPARK_ROWS: Final = SparkRows()
