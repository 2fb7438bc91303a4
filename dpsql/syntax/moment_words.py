"""Words of other systems about dates and timestamps, read as words of DuckDB.

A unit may stand without quotes, behind the moment or in front of it. Weeks are read where they
begin on Mondays alone, as DuckDB's do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final, cast

from sqlglot import exp
from sqlglot.parsers.duckdb import DuckDBParser

from dpsql.syntax.moment_formats import of_date_format, of_to_char
from dpsql.syntax.word_builders import (
    FROM_MONDAY,
    READ_WHOLE,
    THREE,
    TWO,
    UNITS_OF_TIME,
    Build,
    bare_unit,
    by_number,
    left_as_written,
    part_named,
    twice,
    unit_of,
    written_text,
)

_OF_TRUNC: Final[Mapping[str, str]] = {
    **dict.fromkeys(("YYYY", "YEAR", "YY"), "YEAR"),
    "Q": "QUARTER",
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MM", "MON", "MONTH"), "MONTH"),
    "IW": "WEEK",
    **dict.fromkeys(("DD", "DDD"), "DAY"),
    **dict.fromkeys(("HH", "HH24", "HOUR"), "HOUR"),
    **dict.fromkeys(("MI", "MINUTE"), "MINUTE"),
}
"""Units of TRUNC(d, 'MM'). A week there, and a DAY, begin on other days in Oracle and Spark."""
_NAMES_OF_PARTS: Final[Mapping[str, type[exp.Expr]]] = {
    **dict.fromkeys(("WEEKDAY", "DW"), exp.Dayname),
    **dict.fromkeys(("MONTH", "MM"), exp.Monthname),
}
_PARTS_BY_WORD: Final[Mapping[str, str]] = {
    **{unit: unit for unit in UNITS_OF_TIME},
    **dict.fromkeys(FROM_MONDAY, "WEEK"),
    **dict.fromkeys(("DAYOFYEAR", "DOY", "DY"), "DOY"),
}
_MICROSECONDS: Final[Mapping[str, int]] = {
    "SECOND": 10**6,
    "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6,
    "DAY": 86_400 * 10**6,
}
_READ_FROM_TEXT: Final = re.compile(r"%[YmdHMSfbB]|%-[md]|[^%]")
_WRITTEN_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?")
_SECONDS_OF_A_DAY: Final = 86_400
_JULIAN_DAY_OF_1970: Final = "2440587.5"
_SHIFT: Final = re.compile(r"([+-]?)(\d{1,4}) (day|month|year|hour|minute|second)s?", re.IGNORECASE)


def _as_in_duckdb(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """Build a call with its unit in quotes in front.

    The parser would take a column for the unit of its name: ``date_trunc(s, ts)`` for seconds. It
    leaves out what it has no room for, so not all is read.
    """
    if not arguments or isinstance(arguments[0], exp.Column):
        return left_as_written(name, arguments)
    call = cast(exp.Expr, DuckDBParser.FUNCTIONS[name](arguments))
    call.meta[READ_WHOLE] = False
    return call


def _truncated(name: str) -> Build:
    """Build a truncation with a bare unit in front or, as in GoogleSQL, behind, but not both."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        units = [bare_unit(each) for each in arguments]
        match arguments, units:
            case [exp.Literal(), *_], _:
                return _as_in_duckdb(name, arguments)  # what follows may be called like a unit
            case (_, moment), (str(unit), None):
                pass
            case (_, moment), (str(unit), _) if name == "DATETRUNC":
                pass
            case (moment, _), (None, str(unit)) if name != "DATETRUNC":
                pass
            case _:
                return _as_in_duckdb(name, arguments)
        if unit == "WEEK":
            return left_as_written(name, arguments)
        return exp.TimestampTrunc(this=moment, unit=_unit(unit))

    return build


def _truncated_behind(name: str) -> Build:
    """Build a truncation of GoogleSQL's, which has its unit behind the moment."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        unit = bare_unit(arguments[1]) if len(arguments) == TWO else None
        if unit is None or unit == "WEEK":
            return left_as_written(name, arguments)
        return exp.TimestampTrunc(this=arguments[0], unit=_unit(unit))

    return build


def _difference(name: str) -> Build:
    """Build a difference: ``(unit, start, end)``, ``(end, start, unit)``, or days of two moments.

    The last unit counts in DATE_DIFF, which is GoogleSQL's, and the first one in DATEDIFF.
    """

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        units = [bare_unit(each) for each in arguments]
        match arguments, units:
            case (exp.Literal() as first, _, _), _ if not str(first.this)[:1].isdigit():
                return _as_in_duckdb(name, arguments)  # what follows may be called like a unit
            case (end, start), _:
                unit = "DAY"
            case (end, start, _), (_, _, str(unit)) if name == "DATE_DIFF":
                pass
            case (_, start, end), (str(unit), _, _):
                pass
            case _:
                return _as_in_duckdb(name, arguments)
        if unit == "WEEK":
            return left_as_written(name, arguments)
        return exp.DateDiff(this=end, expression=start, unit=_unit(unit), date_part_boundary=True)

    return build


def _moved(name: str, *, back: bool = False) -> Build:
    """Build a sum with an interval: ``(moment, INTERVAL 1 DAY)`` or ``(unit, number, moment)``."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        if back and len(arguments) == THREE and written_text(arguments[0]) is not None:
            return exp.Anonymous(this="date_sub", expressions=arguments)  # DuckDB's whole units
        if len(arguments) == TWO and isinstance(arguments[1], exp.Interval):
            return _shifted(*arguments, back=back)
        if len(arguments) == THREE and not back:
            unit, (_, number, moment) = unit_of(arguments[0]), arguments
            if _is_zero(moment) and isinstance(number, exp.DateDiff):
                # T-SQL's DATEADD(month, DATEDIFF(month, 0, d), 0), the beginning of a month
                same = number.args["unit"] == exp.var(unit or "")
                if same and unit != "WEEK" and _is_zero(number.expression):
                    return exp.TimestampTrunc(this=number.this, unit=_unit(cast(str, unit)))
            negative = isinstance(number, exp.Neg)
            size = number.this if negative else number
            if unit is not None and isinstance(size, exp.Column) and bare_unit(size) is None:
                days = exp.Interval(this=exp.Paren(this=size), unit=_unit(unit))
                return _shifted(moment, days, back=negative)
            if unit is not None and isinstance(size, exp.Literal) and size.is_int:
                interval = exp.Interval(this=exp.Literal.string(size.this), unit=_unit(unit))
                return _shifted(moment, interval, back=negative)
        return left_as_written(name, arguments)

    return build


def _shifted(moment: exp.Expr, interval: exp.Expr, *, back: bool) -> exp.Expr:
    operator = exp.Sub if back else exp.Add
    moment = _typed(moment)
    return exp.Paren(this=operator(this=exp.Paren(this=moment), expression=interval))


def _typed(moment: exp.Expr) -> exp.Expr:
    """Cast a constant text of a date or a timestamp to its type."""
    found = _WRITTEN_MOMENT.fullmatch(written_text(moment) or "")
    if found is None:
        return moment
    return exp.cast(moment, exp.DType.TIMESTAMP if found[1] else exp.DType.DATE)


def _is_zero(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and str(node.this) == "0"


def _unit(word: str) -> exp.Expr:
    return exp.var("WEEK" if word in FROM_MONDAY else word)


def _date(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DType.DATE)


def _date_of_parts(year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr:
    return exp.DateFromParts(year=year, month=month, day=day)


def _age(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="age", expressions=[later, earlier])


def _age_today(value: exp.Expr) -> exp.Expr:
    return _age(exp.CurrentDate(), value)


def _part(unit: str, value: exp.Expr) -> exp.Expr:
    return exp.Extract(this=exp.var(unit), expression=value)


def _part_named(name: str) -> Build:
    """Build a part of a moment with a bare unit in front; in quotes it is DuckDB's."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        word = part_named(arguments[0]) if len(arguments) == TWO else None
        part = _PARTS_BY_WORD.get(word or "")
        return left_as_written(name, arguments) if part is None else _part(part, arguments[1])

    return build


def _name_of_part(arguments: list[exp.Expr]) -> exp.Expr:
    """Build T-SQL's DATENAME(weekday, d)."""
    word = part_named(arguments[0]) if len(arguments) == TWO else None
    kind = _NAMES_OF_PARTS.get(word or "")
    return left_as_written("DATENAME", arguments) if kind is None else kind(this=arguments[1])


def _year_and_month(value: exp.Expr) -> exp.Expr:
    hundred = exp.Mul(this=_part("YEAR", value), expression=exp.Literal.number(100))
    return exp.Paren(this=exp.Add(this=hundred, expression=_part("MONTH", value.copy())))


def _start_of(unit: str, *, day: bool) -> Callable[[exp.Expr], exp.Expr]:
    def build(value: exp.Expr) -> exp.Expr:
        start = exp.TimestampTrunc(this=value, unit=_unit(unit))
        return _date(start) if day else start

    return build


def _formatted(pattern: exp.Expr, moment: exp.Expr) -> exp.Expr:
    return exp.TimeToStr(this=moment, format=pattern)


def _whole_seconds(value: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Floor(this=exp.TimeToUnix(this=value)), exp.DType.BIGINT)


def _boundaries(arguments: list[exp.Expr]) -> exp.Expr:
    """Build GoogleSQL's DATETIME_DIFF(end, start, DAY), which counts boundaries as DATE_DIFF."""
    return _difference("DATE_DIFF")(arguments) if len(arguments) == THREE else _left_diff(arguments)


def _left_diff(arguments: list[exp.Expr]) -> exp.Expr:
    return left_as_written("DATETIME_DIFF", arguments)


def _whole_between(arguments: list[exp.Expr]) -> exp.Expr:
    """Build GoogleSQL's TIMESTAMP_DIFF(end, start, HOUR), which counts whole units."""
    unit = bare_unit(arguments[2]) if len(arguments) == THREE else None
    if unit is None or unit not in _MICROSECONDS:
        return left_as_written("TIMESTAMP_DIFF", arguments)
    end, start = arguments[:TWO]
    named = exp.Literal.string(unit.lower())
    return exp.Anonymous(this="date_sub", expressions=[named, start, end])


def _cut_by_letters(arguments: list[exp.Expr]) -> exp.Expr:
    """Build TRUNC(d, 'MM') of a date; TRUNC(x, 2) is one of numbers."""
    word = written_text(arguments[1]) if len(arguments) == TWO else None
    if word is None:
        call = cast(exp.Expr, DuckDBParser.FUNCTIONS["TRUNC"](arguments))
        call.meta[READ_WHOLE] = False
        return call
    unit = _OF_TRUNC.get(word.upper())
    if unit is None:
        return left_as_written("TRUNC", arguments)
    return exp.TimestampTrunc(this=arguments[0], unit=exp.var(unit))


# -- constants that are read from texts ------------------------------------------------------------


def _read(text: exp.Expr, form: str | None, *, date: bool) -> exp.Expr | None:
    """Read a constant moment by a format of strftime; None for anything else.

    A date has no time: systems keep it, or cut it off.
    """
    written = written_text(text)
    if written is None or form is None or _READ_FROM_TEXT.sub("", form):
        return None
    try:
        found = datetime.strptime(written.strip(), form.replace("%-", "%"))
    except ValueError:
        return None
    if date and found.time() != datetime.min.time():
        return None
    value = found.date().isoformat() if date else found.isoformat(" ")
    return exp.cast(exp.Literal.string(value), exp.DType.DATE if date else exp.DType.TIMESTAMP)


def _read_by(
    name: str,
    read: Callable[[str], str | None],
    *,
    date: bool = False,
    form_first: bool = False,
    one: Callable[[exp.Expr], exp.Expr] | None = None,
) -> Build:
    """Build a moment that is read from a constant text by a format."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        if len(arguments) == 1 and one is not None:
            return one(arguments[0])
        found = None
        if len(arguments) == TWO:
            form, text = arguments if form_first else reversed(arguments)
            found = _read(text, read(written_text(form) or ""), date=date)
        return left_as_written(name, arguments) if found is None else found

    return build


def _same(form: str) -> str:
    return form


# -- SQLite's moments -----------------------------------------------------------------------------


def _is_now(node: exp.Expr) -> bool:
    return (written_text(node) or "").lower() == "now"


def _of_sqlite(name: str, target: exp.DType, now: type[exp.Expr]) -> Build:
    """Build DATE('now', '-30 days'): moments from now, by whole units."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        moment, *shifts = arguments
        if not _is_now(moment):
            return left_as_written(name, arguments)
        found: exp.Expr = now()
        for shift in shifts:
            parts = _SHIFT.fullmatch((written_text(shift) or "").strip())
            if parts is None:
                return left_as_written(name, arguments)
            interval = exp.Interval(
                this=exp.Literal.string(parts[2]), unit=exp.var(parts[3].upper())
            )
            found = _shifted(found, interval, back=parts[1] == "-")
        return exp.cast(found, target) if shifts else found

    return build


def _day(arguments: list[exp.Expr]) -> exp.Expr:
    """Build DATE(x), DATE(y, m, d), and SQLite's DATE('now', …)."""
    if arguments and _is_now(arguments[0]):
        return _of_sqlite("DATE", exp.DType.DATE, exp.CurrentDate)(arguments)
    return by_number("DATE", one=_date, three=_date_of_parts)(arguments)


def _julian_day(value: exp.Expr) -> exp.Expr:
    """Count the days since noon of the Julian day 0, as SQLite does."""
    text = written_text(value)
    if text is not None:
        value = exp.CurrentTimestamp() if _is_now(value) else exp.cast(value, exp.DType.TIMESTAMP)
    days = exp.Div(
        this=exp.TimeToUnix(this=value), expression=exp.Literal.number(_SECONDS_OF_A_DAY)
    )
    start = exp.Literal.number(_JULIAN_DAY_OF_1970)
    return exp.Paren(this=exp.Add(this=days, expression=start))


# -- moments in steps -----------------------------------------------------------------------------


def _stepped(count: int, unit: str) -> Callable[[exp.Expr], exp.Expr]:
    def build(moment: exp.Expr) -> exp.Expr:
        width = exp.Interval(this=exp.Literal.string(str(count)), unit=exp.var(unit))
        return exp.DateBin(this=width, expression=moment)

    return build


def _sliced(arguments: list[exp.Expr]) -> exp.Expr:
    """Build Snowflake's TIME_SLICE(ts, 2, 'HOUR') of slices that divide a day, by their starts."""
    unit = unit_of(arguments[2]) if len(arguments) == THREE else None
    if unit is None or not isinstance(arguments[1], exp.Literal):
        return left_as_written("TIME_SLICE", arguments)
    width = exp.Interval(this=exp.Literal.string(arguments[1].this), unit=exp.var(unit))
    if not divides_day(width):
        return left_as_written("TIME_SLICE", arguments)
    return exp.DateBin(this=width, expression=arguments[0])


def _last_day(moment: exp.Expr, unit: exp.Expr | None = None) -> exp.Expr:
    """Build LAST_DAY(d), and Snowflake's LAST_DAY(d, 'month')."""
    if unit is not None and unit_of(unit) != "MONTH":
        return left_as_written("LAST_DAY", [moment, unit])
    return exp.LastDay(this=moment)


def _start_of_interval(moment: exp.Expr, width: exp.Expr) -> exp.Expr:
    """Build ClickHouse's toStartOfInterval of steps that divide a day: others begin elsewhere."""
    if not divides_day(width):
        return left_as_written("TOSTARTOFINTERVAL", [moment, width])
    return exp.DateBin(this=width, expression=moment)


def divides_day(width: object) -> bool:
    """Tell whether an interval is constant, and a day a number of such intervals."""
    if not isinstance(width, exp.Interval):
        return False
    unit = str(getattr(width.args.get("unit"), "name", "")).upper().removesuffix("S")
    text = str(getattr(width.this, "this", ""))
    size = _MICROSECONDS.get(unit, 0) * int(text) if text.isdecimal() and len(text) <= 9 else 0
    return size > 0 and _MICROSECONDS["DAY"] % size == 0


def settle_now(tree: exp.Expr) -> None:
    """Read SQLite's ``strftime('%Y', 'now')`` as of the clock; ``tree`` is changed."""
    for node in list(tree.find_all(exp.TimeToStr)):
        form, moment = node.this, node.args.get("format")
        if written_text(form) is not None and isinstance(moment, exp.Expr) and _is_now(moment):
            node.set("this", exp.CurrentTimestamp())
            node.set("format", form)
        computed = written_text(form) == "%J" and isinstance(node.parent, exp.Sub | exp.Add)
        if computed and isinstance(moment, exp.Expr):  # a text of digits there, a number here
            node.replace(_julian_day(moment if node.this is form else node.this))


MOMENT_WORDS: Final[Mapping[str, Build]] = {
    **{name: _truncated(name) for name in ("DATE_TRUNC", "DATETRUNC")},
    **{name: _truncated_behind(name) for name in ("TIMESTAMP_TRUNC", "DATETIME_TRUNC")},
    "TRUNC": _cut_by_letters,
    **{name: _difference(name) for name in ("DATE_DIFF", "DATEDIFF")},
    "TIMESTAMPDIFF": partial(left_as_written, "TIMESTAMPDIFF"),
    "TIMESTAMP_DIFF": _whole_between,
    "DATETIME_DIFF": _boundaries,
    **{
        name: _moved(name)
        for name in ("DATE_ADD", "DATEADD", "TIMESTAMPADD", "TIMESTAMP_ADD", "DATETIME_ADD")
    },
    **{name: _moved(name, back=True) for name in ("DATE_SUB", "TIMESTAMP_SUB", "DATETIME_SUB")},
    "DATE": _day,
    "DATETIME": _of_sqlite("DATETIME", exp.DType.TIMESTAMP, exp.CurrentTimestamp),
    "TIMESTAMP": by_number("TIMESTAMP", one=lambda value: exp.cast(value, exp.DType.TIMESTAMP)),
    "JULIANDAY": by_number("JULIANDAY", one=_julian_day),
    "TIME": by_number("TIME", one=lambda value: exp.cast(value, exp.DType.TIME)),
    "TIME_SLICE": _sliced,
    "LAST_DAY": by_number("LAST_DAY", one=_last_day, two=_last_day),
    "EOMONTH": by_number("EOMONTH", one=lambda value: exp.LastDay(this=value)),
    "AGE": by_number("AGE", one=_age_today, two=_age),
    **{name: _part_named(name) for name in ("DATEPART", "DATE_PART")},
    "DATENAME": _name_of_part,
    **{
        f"TO{unit}": by_number(f"TO{unit}", one=partial(_part, unit))
        for unit in ("YEAR", "QUARTER", "MONTH", "HOUR", "MINUTE", "SECOND")
    },
    "TODAYOFMONTH": by_number("TODAYOFMONTH", one=partial(_part, "DAY")),
    "TODAYOFWEEK": by_number("TODAYOFWEEK", one=partial(_part, "ISODOW")),
    "TOYYYYMM": twice("TOYYYYMM", by_number("TOYYYYMM", one=_year_and_month)),
    "TODATE": by_number("TODATE", one=_date),
    "TOMONDAY": by_number("TOMONDAY", one=_start_of("WEEK", day=True)),
    **{
        f"TOSTARTOF{unit}": by_number(
            f"TOSTARTOF{unit}", one=_start_of(unit, day=unit in ("MONTH", "QUARTER", "YEAR"))
        )
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR")
    },
    "TOSTARTOFFIVEMINUTES": by_number("TOSTARTOFFIVEMINUTES", one=_stepped(5, "MINUTE")),
    "TOSTARTOFFIVEMINUTE": by_number("TOSTARTOFFIVEMINUTE", one=_stepped(5, "MINUTE")),
    "TOSTARTOFTENMINUTES": by_number("TOSTARTOFTENMINUTES", one=_stepped(10, "MINUTE")),
    "TOSTARTOFFIFTEENMINUTES": by_number("TOSTARTOFFIFTEENMINUTES", one=_stepped(15, "MINUTE")),
    "TOSTARTOFINTERVAL": by_number("TOSTARTOFINTERVAL", two=_start_of_interval),
    **{
        name: by_number(name, two=_formatted)
        for name in ("FORMAT_DATE", "FORMAT_TIMESTAMP", "FORMAT_DATETIME")
    },
    "STRPTIME": _read_by("STRPTIME", _same),
    "TO_DATE": _read_by("TO_DATE", of_to_char, date=True, one=_date),
    "TRY_TO_DATE": _read_by("TRY_TO_DATE", of_to_char, date=True, one=_date),
    "TO_TIMESTAMP": _read_by("TO_TIMESTAMP", of_to_char),
    "STR_TO_DATE": _read_by("STR_TO_DATE", of_date_format, date=True),
    "PARSE_DATE": _read_by("PARSE_DATE", _same, date=True, form_first=True),
    **{
        name: _read_by(name, _same, form_first=True)
        for name in ("PARSE_TIMESTAMP", "PARSE_DATETIME")
    },
    **{name: by_number(name, one=_whole_seconds) for name in ("UNIX_TIMESTAMP", "UNIX_SECONDS")},
}
"""Builders by the name of the function, in upper case."""
