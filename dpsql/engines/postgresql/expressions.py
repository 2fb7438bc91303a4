"""How PostgreSQL computes what row expressions are made of, without a way to fail.

PostgreSQL has no TRY: what cannot be computed ends the statement. So every operation is written
with a guard of its own. What is not in the tables below is refused; the reading of expressions, and
their types, are in :mod:`dpsql.engines.base.row_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Final, Literal

from sqlglot import exp

from dpsql.core.sql import EMPTY_SQL, Sql, bare_word, digits, join, literal, number, sql
from dpsql.core.sql_types import BIGINT, DOUBLE, TIMESTAMP, VARCHAR, SqlType
from dpsql.engines.base.row_engine import Refusing, RowEngine, Write, named_by_number
from dpsql.engines.base.row_expressions import number_value
from dpsql.engines.base.row_types import (
    INTEGERS,
    MOST_OF_COMPUTED,
    MOST_TEXT_BYTES,
    PIECES_BETWEEN,
    TypedValue,
)
from dpsql.engines.embedded.letters import by_script
from dpsql.engines.postgresql import types as pg
from dpsql.engines.postgresql.reading import within_years
from dpsql.engines.postgresql.types import once
from dpsql.syntax.arguments import extracted_part
from dpsql.syntax.moment_formats import read_format
from dpsql.syntax.patterns import Pattern, read_pattern
from dpsql.syntax.row_functions import DAYS, MONTHS

_REFUSED: Final = Refusing("of a PostgreSQL database", "postgresql.md")
_YEARS: Final = 4000  # that may be added to a date, so that the server can hold the result
_DAYS: Final = 1_400_000
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}
_MONTHS_KNOWN: Final = (13, 120_001)  # 12 for each year, from the year 1 to the end of 9999
_SECONDS_KNOWN: Final = (-62_135_596_800, 253_402_300_800)  # from 1970 on, of the same years
_FIRST_BUCKET: Final = 946_857_600_000_000  # microseconds from 1970 to Monday, 2000-01-03
_MOST_PLACES: Final = 15
_SECONDS: Final = {"week": 7 * 86_400, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}


# -- integers: computed in a wider type, NULL where the result does not fit ------------------------


def _wide(type_: SqlType) -> Sql:
    return sql("NUMERIC") if type_ == BIGINT else sql("BIGINT")


def _integers(sign: Sql) -> Write:
    return lambda a, b, type_: pg.clamped_or_null(
        sql("(CAST({} AS {}) {} {})", a, _wide(type_), sign, b), type_
    )


def _whole_quotient(a: Sql, b: Sql, type_: SqlType) -> Sql:
    left = sql("CAST({} AS {})", a, _wide(type_))
    if type_ == BIGINT:
        return pg.clamped_or_null(sql("div({}, NULLIF({}, 0))", left, b), type_)
    return pg.clamped_or_null(sql("({} / NULLIF({}, 0))", left, b), type_)


def _rest(a: Sql, b: Sql, type_: SqlType) -> Sql:
    """Write the rest of a division: where the quotient does not fit, DuckDB fails."""

    def rest(divisor: Sql) -> Sql:
        some = sql("NULLIF({}, 0)", divisor)
        plain = sql("(CAST({} AS {}) % {})", a, _wide(type_), some)
        fits = sql("{} <> -1 OR {} > {}", divisor, a, digits(type_.ends[0]))
        return sql("CASE WHEN {} THEN {} END", fits, pg.clamped_or_null(plain, type_))

    return once(b, rest)


def _minus_integer(value: Sql, type_: SqlType) -> Sql:
    return pg.clamped_or_null(sql("(- CAST({} AS {}))", value, _wide(type_)), type_)


def _size_of_integer(value: Sql, type_: SqlType) -> Sql:
    return pg.clamped_or_null(sql("abs(CAST({} AS {}))", value, _wide(type_)), type_)


# -- decimals -------------------------------------------------------------------------------------


def _decimals(sign: Sql) -> Write:
    def operand(value: TypedValue, type_: SqlType) -> Sql:
        """Write an operand of a sum as a value of the sum's type, as DuckDB adds."""
        (width, scale), (most, places) = value.type.digits, type_.digits
        plain = _numeric(value)
        return plain if width - scale <= most - places else pg.decimal_or_null(plain, type_)

    def write(one: TypedValue, two: TypedValue, type_: SqlType) -> Sql:
        plain = sql("({} {} {})", operand(one, type_), sign, operand(two, type_))
        return pg.decimal_or_null(plain, type_)

    return write


def _numeric(value: TypedValue) -> Sql:
    return sql("CAST({} AS NUMERIC)", value.sql)


def _product_of_decimals(one: TypedValue, two: TypedValue, type_: SqlType) -> Sql:
    return pg.decimal_or_null(sql("({} * {})", _numeric(one), _numeric(two)), type_)


def _whole_decimal(word: Sql) -> Write:
    return lambda value, type_: pg.decimal_or_null(sql("{}({})", word, value.sql), type_)


def _integer_to_places(value: Sql, type_: SqlType, places: int) -> Sql:
    """Round half away from zero: NULL where the result does not fit."""
    if places >= 0:
        return value
    size = 10**-places
    half = size // 2

    def rounded(v: Sql) -> Sql:
        rest = sql("({} % {})", v, digits(size))
        wide = sql(
            "(CAST({v} AS {wide}) - {rest} + CASE WHEN {rest} >= {half} THEN {size} "
            "WHEN {rest} <= -{half} THEN -{size} ELSE 0 END)",
            v=v,
            wide=_wide(type_),
            rest=rest,
            half=digits(half),
            size=digits(size),
        )
        return pg.clamped_or_null(wide, type_)

    return once(value, rounded)


def _rounded_decimal(value: TypedValue, type_: SqlType, places: int) -> Sql:
    _, scale = value.type.digits
    if places >= scale:
        why = f"a value with {scale} digits cannot be rounded to {places}"
        raise _REFUSED("round", why)
    return pg.decimal_or_null(sql("round({}, {})", value.sql, places), type_)


def _sign(value: Sql, none: Callable[[Sql], Sql]) -> Sql:
    zero = once(
        value,
        lambda v: sql(
            "CASE WHEN {none} THEN 0 WHEN {v} > 0 THEN 1 WHEN {v} < 0 THEN -1 "
            "WHEN {v} = 0 THEN 0 END",
            none=none(v),
            v=v,
        ),
    )
    return sql("CAST({} AS SMALLINT)", zero)


def _sign_of_exact(value: Sql) -> Sql:
    return _sign(value, lambda v: sql("FALSE"))


# -- doubles: results too large are infinite, results too small are 0, and nothing is raised ------

_BIG, _SMALL = pg.double_sql(1e150), pg.double_sql(1e-150)
_LARGEST: Final = pg.double_sql(1.7976931348623157e308)
_HALF: Final = pg.double_sql(2.0**1023)
_LOG_LARGEST: Final = pg.double_sql(709.7827128)
_LOG_LEAST: Final = pg.double_sql(-745.13)


def _usual(value: Sql) -> Sql:
    return sql("abs({}) BETWEEN {} AND {}", value, _SMALL, _BIG)


def _endless(value: Sql) -> Sql:
    return sql("abs({}) > {}", value, _LARGEST)  # so is NaN


def _sum(sign: Sql) -> Callable[[Sql, Sql], Sql]:
    def half(value: Sql) -> Sql:
        return sql("CASE WHEN abs({v}) < 1 THEN 0 ELSE {v} * 0.5 END", v=value)

    # Halves of what is large do not overflow, and what is small beside it does not count.
    return lambda a, b: sql(
        "CASE WHEN abs({a}) < {half} AND abs({b}) < {half} OR {endless} OR {too} "
        "THEN {a} {sign} {b} "
        "WHEN {total} >= {half} THEN {infinity} "
        "WHEN {total} <= -{half} THEN {minus} "
        "WHEN {total} IS NOT NULL THEN {a} {sign} {b} END",
        a=a,
        b=b,
        sign=sign,
        half=_HALF,
        endless=_endless(a),
        too=_endless(b),
        total=sql("({} {} {})", half(a), sign, half(b)),
        infinity=pg.INFINITY,
        minus=pg.MINUS_INFINITY,
    )


def _product(a: Sql, b: Sql) -> Sql:
    return _scaled(
        sql("{} * {}", a, b),
        log=sql("(ln(abs({})) + ln(abs({})))", a, b),
        operands=(a, b),
        zero=sql("{} = 0 OR {} = 0", a, b),
        grows=sql("abs({}) > 1 AND abs({}) > 1", a, b),
    )


def _quotient(a: Sql, b: Sql) -> Sql:
    """Write a quotient; by zero it is NaN or infinite, as IEEE 754 has it."""
    by_zero = sql(
        "CASE WHEN {nan} OR {a} = 0 THEN {none} "
        "WHEN ({a} * CASE WHEN CAST({b} AS TEXT) = '-0' THEN -1 ELSE 1 END) > 0 "
        "THEN {infinity} ELSE {minus} END",
        nan=_is_nan(a),
        a=a,
        b=b,
        none=pg.NAN,
        infinity=pg.INFINITY,
        minus=pg.MINUS_INFINITY,
    )
    return sql(
        "CASE WHEN {b} = 0 THEN CASE WHEN {a} IS NOT NULL THEN {by_zero} END ELSE {plain} END",
        a=a,
        b=b,
        by_zero=by_zero,
        plain=_quotient_of_some(a, b),
    )


def _only_quotient(a: Sql, b: Sql) -> Sql:
    """Write a quotient; by zero it is NULL."""
    return sql("CASE WHEN {} <> 0 THEN {} END", b, _quotient_of_some(a, b))


def _quotient_of_some(a: Sql, b: Sql) -> Sql:
    """Write a quotient by anything but zero."""
    return _scaled(
        sql("{} / {}", a, b),
        log=sql("(ln(abs({})) - ln(abs({})))", a, b),
        operands=(a, b),
        zero=sql("{} = 0", a),
        grows=sql("abs({}) < 1", b),
    )


def _scaled(plain: Sql, *, log: Sql, operands: tuple[Sql, Sql], zero: Sql, grows: Sql) -> Sql:
    """Write a product or quotient; logarithms tell where it is too large or too small."""
    a, b = operands
    return sql(
        "CASE WHEN {usual} AND {too} THEN {plain} "
        "WHEN {zero} OR {endless} OR {either} THEN {plain} "
        "WHEN {log} > {most} AND {grows} THEN {signs} * {infinity} "
        "WHEN {log} < {least} THEN {signs} * 0e0 "
        "WHEN {log} IS NOT NULL THEN {plain} END",
        usual=_usual(a),
        too=_usual(b),
        plain=plain,
        zero=zero,
        endless=_endless(a),
        either=_endless(b),
        log=log,
        most=_LOG_LARGEST,
        least=_LOG_LEAST,
        grows=grows,
        signs=sql("(sign({}) * sign({}))", a, b),
        infinity=pg.INFINITY,
    )


def _is_nan(value: Sql) -> Sql:
    return sql("{} = {}", value, pg.NAN)


def _logarithm(word: Sql) -> Callable[[Sql], Sql]:
    return lambda v: sql(
        "CASE WHEN {v} > 0 THEN {word}({v}) WHEN {v} = 0 THEN {minus} WHEN {v} < 0 THEN {nan} END",
        v=v,
        word=word,
        minus=pg.MINUS_INFINITY,
        nan=pg.NAN,
    )


def _root(value: Sql) -> Sql:
    return sql("CASE WHEN {v} < 0 THEN {nan} ELSE sqrt({v}) END", v=value, nan=pg.NAN)


def _exponential(value: Sql) -> Sql:
    return sql(
        "CASE WHEN {none} THEN {v} WHEN {v} > {most} "
        "THEN {infinity} WHEN {v} < {least} THEN {zero} "
        "ELSE exp({v}) END",
        v=value,
        none=_is_nan(value),
        most=pg.double_sql(709.782),
        infinity=pg.INFINITY,
        least=pg.double_sql(-745.1),
        zero=pg.double_sql(0),
    )


def _power(a: Sql, b: Sql) -> Sql:
    """Write a power; logarithms tell where it is too large or too small for the server."""
    log = sql("ln(abs({}))", a)
    return sql(
        "CASE WHEN {a} = 0 AND {b} < 0 THEN "
        "CASE WHEN CAST({a} AS TEXT) = '-0' AND {odd} THEN {minus} ELSE {infinity} END "
        "WHEN {a} = {minus} AND trunc({b}) <> {b} THEN "
        "CASE WHEN {b} > 0 THEN {infinity} ELSE 0 END "
        "WHEN {a} < 0 AND trunc({b}) <> {b} THEN {nan} "
        "WHEN {a} = 0 OR abs({a}) = 1 OR {b} IN (0, 1) OR {endless} OR {either} "
        "THEN power({a}, {b}) "
        "WHEN {b} * sign({log}) > abs({most} / {log}) THEN {signed} * {infinity} "
        "WHEN {b} * sign({log}) < -abs({least} / {log}) THEN {signed} * 0e0 "
        "WHEN {b} IS NOT NULL THEN power({a}, {b}) END",
        a=a,
        b=b,
        odd=_odd(b),
        log=log,
        minus=pg.MINUS_INFINITY,
        infinity=pg.INFINITY,
        nan=pg.NAN,
        endless=_endless(a),
        either=_endless(b),
        most=_LOG_LARGEST,
        least=_LOG_LEAST,
        signed=sql("CASE WHEN {} < 0 AND {} THEN -1e0 ELSE 1e0 END", a, _odd(b)),
    )


def _odd(value: Sql) -> Sql:
    """Write whether a double is an odd integer: all of 2^53 and more are even."""
    half = sql("({} * 0.5e0)", value)
    whole = sql("trunc({v}) = {v} AND trunc({half}) <> {half}", v=value, half=half)
    return sql("(abs({}) < {} AND {})", value, pg.double_sql(2.0**53), whole)


def _double_to_places(value: Sql, places: int) -> Sql:
    """Write round to digits through a product, or a quotient, as DuckDB does."""
    if abs(places) > _MOST_PLACES:
        raise _REFUSED("round", f"digits are a constant from -{_MOST_PLACES} to {_MOST_PLACES}")
    size = 10.0 ** abs(places)
    unit = pg.double_sql(size)
    up, down = (sql("*"), sql("/")) if places >= 0 else (sql("/"), sql("*"))

    def rounded(v: Sql) -> Sql:
        made = sql("({} {} {})", pg.half_away(sql("({} {} {})", v, up, unit)), down, unit)
        most, least = (2.0**1023 / size, 0.0) if places >= 0 else (2.0**1023, 1.0)
        return sql(
            "CASE WHEN abs({v}) <= {most} THEN CASE WHEN abs({v}) < {least} THEN {v} * 0e0 "
            "ELSE {made} END ELSE {v} END",
            v=v,
            most=pg.double_sql(most),
            least=pg.double_sql(least),
            made=made,
        )

    return once(value, rounded)


def _twice(write: Callable[[Sql, Sql], Sql]) -> Write:
    """Wrap a writer of two operands so that each operand is computed once."""
    return lambda one, two: once(one, lambda a: once(two, lambda b: write(a, b)))


# -- texts ----------------------------------------------------------------------------------------


def _cased(word: Literal["lower", "upper"]) -> Write:
    """Write upper or lower: of ASCII as the collation "C" has it, and letter by letter beyond."""

    def write(text: Sql) -> Sql:
        called = sql("{}({})", bare_word(word), text)
        made = called
        for letters, others in by_script(word):
            made = once(made, partial(_exchanged, letters, others))
        return sql(
            "CASE WHEN octet_length({text}) = char_length({text}) THEN {called} ELSE {made} END",
            text=text,
            called=called,
            made=made,
        )

    return lambda text: once(text, write)


def _exchanged(letters: str, others: str, text: Sql) -> Sql:
    """Write letters as others where a text has any; translate searches all of them each time."""
    return sql(
        "CASE WHEN {text} ~ {some} THEN translate({text}, {letters}, {others}) ELSE {text} END",
        text=text,
        some=pg.text_literal(f"[{letters}]"),
        letters=pg.text_literal(letters),
        others=pg.text_literal(others),
    )


def _joined(one: Sql, two: Sql) -> Sql:
    """Write texts one behind the other, NULL where the result is longer than any text may be."""
    return sql(
        "CASE WHEN CAST(octet_length({one}) AS BIGINT) + CAST(octet_length({two}) AS BIGINT) < "
        "{most} THEN {one} || {two} END",
        one=one,
        two=two,
        most=MOST_TEXT_BYTES,
    )


def _concat(*texts: Sql) -> Sql:
    whole, *parts = (sql("coalesce({}, '')", text) for text in texts)
    for part in parts:
        whole = _twice(_joined)(whole, part)
    return whole


def _substring(text: Sql, first: int, *size: int) -> Sql:
    """Write substr: DuckDB counts negative places from the end, the server before the first."""
    place = digits(first)
    if first < 0:
        place = sql("char_length({}) - {}", text, digits(-first - 1))
    return sql("substr({}, {})", text, join(", ", [place, *map(digits, size)]))


def _like(negated: Sql) -> Callable[..., Sql]:
    """Write LIKE; with a pattern that columns are part of, NULL where DuckDB is not asked."""

    def write(text: Sql, pattern: Sql, given: object) -> Sql:
        made = sql("({} {}LIKE {} ESCAPE '')", text, negated, pattern)
        if isinstance(given, str):
            return made
        short = sql("octet_length({}) <= {}", pattern, MOST_OF_COMPUTED)
        plain = sql("NOT {} ~ {}", pattern, literal(PIECES_BETWEEN))
        return sql("CASE WHEN {} AND {} THEN {} END", short, plain, made)

    return write


def _replaced(text: Sql, taken: str, put: str) -> Sql:
    """Write replace, NULL where the result could be longer than any text that is read."""
    most = MOST_TEXT_BYTES // max(1, len(put.encode()))
    made = sql("replace({}, {}, {})", text, pg.text_literal(taken), pg.text_literal(put))
    return sql("CASE WHEN octet_length({}) < {} THEN {} END", text, most, made)


def _certain(pattern: str) -> Pattern:
    """Read a pattern that matches in one way: the server prefers the longest, DuckDB the first."""
    found = read_pattern(pattern, captures=True)
    if not found.fixed:
        raise _REFUSED("this regular expression", "it can match in several ways there")
    return found


def _extracted(text: Sql, pattern: str, group: int) -> Sql:
    if group not in (0, 1) or _certain(pattern).groups != group:
        raise _REFUSED("regexp_extract", "the group that is taken is the only one there")
    found = sql("substring({}, {})", text, pg.text_literal(pattern))
    return sql("CASE WHEN {} IS NOT NULL THEN coalesce({}, '') END", text, found)


def _substituted(text: Sql, pattern: str, put: str, flags: str) -> Sql:
    _certain(pattern)

    def replaced(value: Sql) -> Sql:
        most = MOST_TEXT_BYTES // max(1, len(put.encode()))
        given = [pg.text_literal(each) for each in (pattern, put, flags)]
        made = sql("regexp_replace({}, {})", value, join(", ", given))
        return sql("CASE WHEN octet_length({}) < {} THEN {} END", value, most, made)

    return once(text, replaced)


# -- dates ----------------------------------------------------------------------------------------

_FORMATS: Final[Mapping[str, str]] = {
    "%Y": "YYYY",
    "%y": "YY",
    "%m": "MM",
    "%-m": "FMMM",
    "%d": "DD",
    "%-d": "FMDD",
    "%H": "HH24",
    "%-H": "FMHH24",
    "%I": "HH12",
    "%-I": "FMHH12",
    "%M": "MI",
    "%S": "SS",
    "%f": "US",
    "%p": "AM",
    "%j": "DDD",
    "%B": "FMMonth",
    "%b": "Mon",
    "%A": "FMDay",
    "%a": "Dy",
    "%G": "IYYY",
    "%V": "IW",
    "%u": "ID",
}
"""Directives of to_char."""


def _formatted(moment: Sql, text: str) -> Sql:
    pieces = (
        _FORMATS[directive] if directive else _quoted_in_format(between)
        for directive, between in read_format(text) or ()
    )
    # An empty text between directives keeps them apart: YYYY and Y are other words together.
    form = literal('""'.join(pieces))
    return sql("to_char(CAST({} AS TIMESTAMP), {})", moment, form)


def _quoted_in_format(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _part(part: Sql) -> Write:
    return lambda moment: sql("CAST(trunc(EXTRACT({} FROM {})) AS BIGINT)", part, moment)


def _named(part: Sql, names: Sequence[str], first: int) -> Write:
    texts = [pg.text_literal(name) for name in names]
    return lambda moment: sql("({})", named_by_number(_part(part)(moment), texts, first))


def _interval(sign: Sql) -> Write:
    def write(moment: TypedValue, type_: SqlType, count: str, unit: str) -> Sql:
        whole = int(count)
        years = whole * _MONTHS.get(unit, 0) / 12
        years = years or whole * _SECONDS.get(unit, 0) / (365 * 86_400)
        if abs(years) > _YEARS:
            raise _REFUSED("an interval", f"it has more than {_YEARS} years")
        length = f"{3 * whole} month" if unit == "quarter" else f"{whole} {unit}"
        moved = sql("(CAST({} AS TIMESTAMP) {} INTERVAL {})", moment.sql, sign, literal(length))
        return once(moved, within_years)

    return write


def _days(sign: Sql) -> Write:
    def write(date: Sql, count: Sql) -> Sql:
        def moved(days: Sql) -> Sql:
            there = sql("({} {} CAST({} AS INTEGER))", date, sign, days)
            return sql(
                "CASE WHEN {days} BETWEEN {least} AND {most} THEN {there} END",
                days=days,
                least=digits(-_DAYS),
                most=_DAYS,
                there=once(there, within_years),
            )

        return once(count, moved)

    return write


def _moved(sign: Sql, unit: str) -> Write:
    """Move a moment by a number of units, NULL where it leaves the years 1 to 9999."""
    months, seconds = _MONTHS.get(unit, 0), _SECONDS.get(unit, 0)
    days, left = divmod(seconds, _SECONDS["day"])
    length = f"{months} month" if months else f"{left} second" if left else f"{days} day"
    first, end = _MONTHS_KNOWN if months else _SECONDS_KNOWN

    def write(moment: Sql, count: Sql) -> Sql:
        def moved(number_of: Sql) -> Sql:
            place = _month(moment) if months else sql("EXTRACT(epoch FROM {})", moment)
            apart = sql("CAST({} AS NUMERIC) * {}", number_of, months or seconds)
            by = sql("CAST({} AS DOUBLE PRECISION) * INTERVAL {}", number_of, literal(length))
            return sql(
                "CASE WHEN {place} {sign} {apart} >= {first} AND {place} {sign} {apart} < {end} "
                "THEN CAST({moment} AS TIMESTAMP) {sign} {by} END",
                place=place,
                sign=sign,
                apart=apart,
                first=digits(first),
                end=digits(end),
                moment=moment,
                by=by,
            )

        return once(count, moved)

    return write


def _microseconds(moment: Sql) -> Sql:
    return sql("(EXTRACT(epoch FROM CAST({} AS TIMESTAMP)) * 1000000)", moment)


def _bucketed(moment: Sql, length: int) -> Sql:
    since = sql("({} - {})", _microseconds(moment), digits(_FIRST_BUCKET))
    whole = digits(length)
    beyond = sql("((({since} % {whole}) + {whole}) % {whole})", since=since, whole=whole)
    back = sql("INTERVAL '1 microsecond' * CAST({} AS DOUBLE PRECISION)", beyond)
    return once(sql("(CAST({} AS TIMESTAMP) - {})", moment, back), within_years)


def _whole_weeks(end: Sql, start: Sql) -> Sql:
    days = sql("(CAST({} AS DATE) - CAST({} AS DATE))", end, start)
    return sql("CAST({} / 7 AS BIGINT)", days)


def _units_of(seconds: int) -> Callable[[Sql], Sql]:
    """Number the units of so many seconds."""
    length = digits(seconds * 1_000_000)
    return lambda moment: sql("floor({} / {})", _microseconds(moment), length)


def _difference(of: Callable[[Sql], Sql]) -> Write:
    return lambda end, start: sql("CAST({} - {} AS BIGINT)", of(end), of(start))


def _year(moment: Sql) -> Sql:
    return sql("EXTRACT(year FROM {})", moment)


def _quarter(moment: Sql) -> Sql:
    return sql("EXTRACT(quarter FROM {})", moment)


def _seconds(moment: Sql) -> Sql:
    whole = sql("CAST(EXTRACT(epoch FROM {}) * 1000000 AS DOUBLE PRECISION)", moment)
    return sql("({} / {})", whole, pg.double_sql(1e6))


def _month(moment: Sql) -> Sql:
    return sql("({} * 12 + EXTRACT(month FROM {}))", _year(moment), moment)


def _trimmed(word: Sql) -> Write:
    """Remove these characters: left to itself, PostgreSQL trims no blank but U+0020."""
    return lambda text, blanks: sql("{}({}, {})", word, text, literal(blanks))


_OF_LENGTHS: Final = ("year", "month", "day", "hour", "minute", "second")
_PARTS: Final = (
    "year",
    "isoyear",
    "quarter",
    "month",
    "week",
    "day",
    "isodow",
    "hour",
    "minute",
    "second",
)
_OPERATIONS: Final[Mapping[str, Write]] = MappingProxyType(
    {
        "is": lambda a, b: sql("({} IS {})", a, b),
        "is distinct": lambda a, b: sql("({} IS DISTINCT FROM {})", a, b),
        "is not distinct": lambda a, b: sql("({} IS NOT DISTINCT FROM {})", a, b),
        "between": lambda a, low, high: sql("({} BETWEEN {} AND {})", a, low, high),
        "in": lambda a, *items: sql("({} IN ({}))", a, join(", ", items)),
        "case": lambda whole: sql("({})", whole),
        "nullif": lambda a, b, first: sql("NULLIF({}, {})", a, b),
        "greatest": lambda *values: sql("greatest({})", join(", ", values)),
        "least": lambda *values: sql("least({})", join(", ", values)),
        "+ integer": _integers(sql("+")),
        "- integer": _integers(sql("-")),
        "* integer": _integers(sql("*")),
        "// integer": _whole_quotient,
        "% integer": _rest,
        "+ decimal": _decimals(sql("+")),
        "- decimal": _decimals(sql("-")),
        "* decimal": _product_of_decimals,
        "+ double": _twice(_sum(sql("+"))),
        "- double": _twice(_sum(sql("-"))),
        "* double": _twice(_product),
        "/ double": lambda a, b, _: _twice(_quotient)(a, b),
        "// double": _twice(_only_quotient),
        "negative integer": _minus_integer,
        "negative decimal": lambda v, type_: sql("(- {})", v.sql),
        "negative double": lambda v: sql("(- {})", v),
        "abs integer": _size_of_integer,
        "abs decimal": lambda v, type_: sql("abs({})", v.sql),
        "abs double": lambda v: sql("abs({})", v),
        "sign integer": lambda v, type_: _sign_of_exact(v),
        "sign decimal": lambda v, type_: _sign_of_exact(v.sql),
        "sign double": lambda v: _sign(v, _is_nan),
        "floor integer": lambda v, type_: pg.cast_to(v, type_),
        "ceil integer": lambda v, type_: pg.cast_to(v, type_),
        "round integer": lambda v, type_: v,
        "floor decimal": _whole_decimal(sql("floor")),
        "ceil decimal": _whole_decimal(sql("ceil")),
        "trunc decimal": _whole_decimal(sql("trunc")),
        "round decimal": _whole_decimal(sql("round")),
        "round to decimal": _rounded_decimal,
        "floor double": lambda v: sql("floor({})", v),
        "ceil double": lambda v: sql("ceil({})", v),
        "trunc double": lambda v: sql("trunc({})", v),
        "round double": pg.half_away,
        "round to integer": _integer_to_places,
        "round to double": _double_to_places,
        "trunc integer": lambda v, type_: v,
        "pow": _twice(_power),
        "sqrt": lambda v: once(v, _root),
        "exp": lambda v: once(v, _exponential),
        "ln": lambda v: once(v, _logarithm(sql("ln"))),
        **dict.fromkeys(("log", "log10"), lambda v: once(v, _logarithm(sql("log")))),
        "isnan": lambda v: sql("({})", _is_nan(v)),
        "length": lambda v: sql("CAST(char_length({}) AS BIGINT)", v),
        "ascii": lambda v: sql("ascii({})", v),
        "unicode": lambda v: once(
            v, lambda text: sql("CASE WHEN {v} = '' THEN -1 ELSE ascii({v}) END", v=text)
        ),
        "lower": _cased("lower"),
        "upper": _cased("upper"),
        "substr": lambda v, *places: once(v, lambda text: _substring(text, *places)),
        "left": lambda v, size: sql("left({}, {})", v, digits(size)),
        "right": lambda v, size: sql("right({}, {})", v, digits(size)),
        **dict.fromkeys(("trim", "trim both"), _trimmed(sql("btrim"))),
        "ltrim": _trimmed(sql("ltrim")),
        "rtrim": _trimmed(sql("rtrim")),
        "like": _like(EMPTY_SQL),
        "not like": _like(sql("NOT ")),
        "contains": lambda v, part: sql("(strpos({}, {}) > 0)", v, part),
        "starts_with": lambda v, part: sql("starts_with({}, {})", v, part),
        "ends_with": lambda v, part: sql("(right({}, char_length({p})) = {p})", v, p=part),
        "strpos": lambda v, part: sql("CAST(strpos({}, {}) AS BIGINT)", v, part),
        "replace": lambda v, *texts: once(v, lambda text: _replaced(text, *texts)),
        "split_part": lambda v, end, place: sql("split_part({}, {}, {})", v, literal(end), place),
        "md5": lambda v: sql("md5({})", v),
        "sha256": lambda v: sql("encode(sha256(convert_to({}, 'UTF8')), 'hex')", v),
        "regexp_matches": lambda v, pattern: sql("({} ~ {})", v, pg.text_literal(pattern)),
        "regexp_extract": _extracted,
        "regexp_replace": _substituted,
        "||": _twice(_joined),
        "concat": _concat,
        **{name: _part(bare_word(name)) for name in _PARTS},
        "yearweek": lambda v: sql(
            "({} * 100 + {})", _part(sql("isoyear"))(v), _part(sql("week"))(v)
        ),
        "dayofyear": _part(sql("doy")),
        "dayofweek": _part(sql("dow")),
        "epoch": _seconds,
        "make_date": pg.date_of_parts,
        "strftime": _formatted,
        "dayname": _named(sql("dow"), DAYS, 0),
        "monthname": _named(sql("month"), MONTHS, 1),
        "last_day": lambda v: sql(
            "CAST(date_trunc('month', CAST({} AS TIMESTAMP)) + INTERVAL '1 month -1 day' AS DATE)",
            v,
        ),
        "date_trunc": lambda v, unit: sql(
            "date_trunc({}, CAST({} AS TIMESTAMP))", literal(unit), v
        ),
        "date_diff year": _difference(_year),
        "date_diff month": _difference(_month),
        "date_diff quarter": _difference(lambda v: sql("({} * 4 + {})", _year(v), _quarter(v))),
        "date_diff day": _difference(lambda v: sql("CAST({} AS DATE)", v)),
        "date_diff week": _whole_weeks,
        **{
            f"date_diff {unit}": _difference(_units_of(_SECONDS[unit]))
            for unit in ("hour", "minute", "second")
        },
        "time_bucket moment": _bucketed,
        "time_bucket day": lambda v, length: sql("CAST({} AS DATE)", _bucketed(v, length)),
        "length of time": lambda length: sql("INTERVAL {}", literal(f"{length} microsecond")),
        "- moments": lambda a, b: sql("({} - {})", a, b),
        **{f"{name} apart": _part(bare_word(name)) for name in _OF_LENGTHS},
        "epoch apart": _seconds,
        "- date": _difference(lambda v: v),
        "+ days": _days(sql("+")),
        "- days": _days(sql("-")),
        "+ interval": _interval(sql("+")),
        "- interval": _interval(sql("-")),
        **{
            f"{word} number of {unit}s": _moved(sign, unit)
            for unit in (*_MONTHS, *_SECONDS)
            for word, sign in (("+", sql("+")), ("-", sql("-")))
        },
    }
)
"""What is written, by operation."""

_CALLS: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "CAST": "CAST AS {unit}({})",
        "round to": "round({}, CONSTANT)",
        "substr": "substr({}, CONSTANT)",
        "left": "left({}, CONSTANT)",
        "right": "right({}, CONSTANT)",
        "concat": "concat(VARCHAR, ...)",
        "dayofyear": "doy({})",
        "dayofweek": "dow({})",
        "date_trunc": "date_trunc '{unit}'({})",
        "date_diff": "date_diff '{unit}'({})",
        "- moments": None,
        "+ interval": "+ interval '{unit}'({})",
        "- interval": "- interval '{unit}'({})",
    }
)
_WRITTEN_ALIKE: Final = frozenset(
    {
        *("and", "or", "not", "is null", "is", "=", "<>", "<", "<=", ">", ">="),
        *("case", "coalesce", "nullif", "greatest", "least"),
        *("negative decimal", "negative double", "abs decimal", "abs double", "round integer"),
        *("floor double", "ceil double", "trunc double"),
        *("starts_with", "split_part", "md5"),
    }
)


class PostgreSQLRows(RowEngine):
    """PostgreSQL's row expressions."""

    refused = _REFUSED
    operations = _OPERATIONS
    calls = _CALLS
    written_alike = _WRITTEN_ALIKE
    calls_of_given = False
    typed_nulls = True
    mixes = False
    joins_many = False
    longest = None
    last_place = 2**31 - 2**20 - 1
    part_named = staticmethod(extracted_part)

    def column_type(self, type_: SqlType) -> SqlType | None:
        """Keep the type: all that have a name there are computed with; JSON is read as text."""
        if type_.is_opaque:
            return VARCHAR
        return None if pg.sql_type(type_) is None else type_

    def text(self, text: str) -> Sql:
        """Write a text, compared by its bytes."""
        if "\0" in text:
            raise _REFUSED("a text with a zero byte", "no text there has one")
        return pg.text_literal(text)

    def number(self, text: str, type_: SqlType) -> Sql:
        """Write the digits; those of a DOUBLE as one."""
        if type_ == DOUBLE:
            return pg.double_sql(float(text))
        if type_.kind in INTEGERS:
            return number(int(text))
        plain = digits(Decimal(text))
        return sql("({})", plain) if text.startswith("-") else plain

    def negated(self, value: TypedValue, written: exp.Expr) -> TypedValue | None:
        """Write a signed literal as one number, in the type of the negative number."""
        literal_ = value.is_literal and isinstance(written, exp.Literal) and not written.is_string
        return number_value(f"-{written.name}", self) if literal_ else None

    def null(self, value: TypedValue, type_: SqlType) -> TypedValue:
        """Cast NULL to the type."""
        if pg.sql_type(type_) is None:
            return value
        return TypedValue(pg.cast_to(sql("NULL"), type_), type_)

    def reads_text(self, beside: frozenset[str]) -> bool:
        """Read it as any type."""
        return True

    def widened(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Cast numbers and dates; constants are written anew."""
        if value.is_literal:
            if value.type == type_ == VARCHAR:
                return value.settled
            digits_ = str(value.constant).strip().lstrip("+-")
            if type_.kind in INTEGERS and value.kind == "VARCHAR" and not digits_.isdigit():
                return None  # read as a number, and rounded: nobody means that
            return _constant(value, type_)
        widened = {*INTEGERS, "DECIMAL", "DOUBLE"}
        numbers = value.kind in widened | {"FLOAT"} and type_.kind in widened
        moments = value.kind == "DATE" and type_ == TIMESTAMP
        return pg.cast(value, type_) if numbers or moments else None

    def looks_up_widening(self, value: TypedValue, *, choice: bool) -> bool:
        """Look up all but that of constants."""
        return not value.is_literal

    def trivial_cast(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Write a constant as one of the type, NULL where it does not fit."""
        type_ = _plain(type_)
        if not value.is_literal or pg.sql_type(type_) is None:
            return None
        return _constant(value, type_) or TypedValue(pg.cast_to(sql("NULL"), type_), type_)

    def cast(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Cast behind a guard."""
        return pg.cast(value, _plain(type_))

    def guarded(self, operands: Sequence[TypedValue], written: Sql) -> Sql:
        """Leave it as it is: dates of other years were made NULL where the table was read."""
        return written


def _plain(type_: SqlType) -> SqlType:
    """Return a type without arguments that say nothing: texts have any length."""
    return type_ if type_.is_decimal else SqlType.of(type_.kind)


def _constant(value: TypedValue, type_: SqlType) -> TypedValue | None:
    text = pg.constant(value.constant, type_)
    return None if text is None else TypedValue(text, type_)


POSTGRESQL_ROWS: Final = PostgreSQLRows()
