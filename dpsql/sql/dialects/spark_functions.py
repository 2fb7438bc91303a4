"""Operators and functions of values in Spark's SQL: each as DuckDB computes it, or refused.

What is written never raises: integers are added by ``try_add``, dates are looked at before they are
computed with, and what Spark computes otherwise is put together from what it computes alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.sql import EMPTY_SQL, Sql, bare_word, digits, join, literal, sql
from dpsql.sql.dialects.spark_patterns import searched_pattern
from dpsql.sql.dialects.spark_values import (
    NUMBERS,
    SPARK_DIGITS,
    SPARK_INTEGERS,
    SparkValue,
    common,
    decimal_of,
    decimal_type,
    in_calendar,
    refused_in_spark,
    spark_type_sql,
    widened,
)

_SIGN: Final[Mapping[str, Sql]] = {"+": sql("+"), "-": sql("-"), "*": sql("*")}
_MOST_DECIMALS: Final = 15
_SHORT: Final = 18  # digits of a decimal that 64 bits hold
_KEPT_PLACES: Final = 6  # that Spark never rounds away
_MOST_DAYS: Final = 4_000_000  # beyond all days from the year 1 to 9999
_ESCAPES: Final = "\x07\x06\x05\x04\x03\x02\x01"


@dataclass(frozen=True, slots=True)
class Call:
    """An operation by name and operands, as it is looked up, and its value."""

    name: str
    operands: tuple[SparkValue | str, ...]
    value: SparkValue


_Make: TypeAlias = Callable[[exp.Expr, list[SparkValue], list[str]], Call]


@dataclass(frozen=True, slots=True)
class Rule:
    """How a node is written.

    ``parts`` are its operands in order, ``flags`` what the parser notes beside them, as
    :mod:`dpsql.sql.syntax.arguments` has it. ``swallows``: a NULL among the operands does not
    make the value NULL. ``word`` is the part that is no operand but a single word, as DAY.
    """

    make: _Make
    parts: tuple[str, ...] = ("this",)
    flags: tuple[str, ...] = ()
    swallows: bool = False
    word: str = ""

    @property
    def arguments(self) -> str:
        """All arguments that the rule reads."""
        return " ".join((*self.parts, *self.flags))


def _made(
    name: str, operands: list[SparkValue], written: Sql, type_: str, *, fails: bool = False
) -> Call:
    failed = fails or any(operand.fails for operand in operands)
    return Call(name, tuple(operands), SparkValue(written, type_, failed))


def _unfit(name: str, values: list[SparkValue]) -> Exception:
    kinds = ", ".join(value.type for value in values)
    return refused_in_spark(f"{name}({kinds}) is not available")


# -- arithmetic -----------------------------------------------------------------------------------


def _numeric(name: str, values: list[SparkValue]) -> None:
    if any(value.kind not in NUMBERS for value in values):
        raise _unfit(name, values)


def _arithmetic(sign: str, guarded: Sql) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        if any(value.kind in ("DATE", "TIMESTAMP") for value in values):
            return _moved(sign, values)
        _numeric(sign, values)
        kinds = {value.kind for value in values}
        if "DOUBLE" in kinds:
            one, other = (widened(value, "DOUBLE").sql for value in values)
            return _made(sign, values, sql("({} {} {})", one, _SIGN[sign], other), "DOUBLE")
        if "DECIMAL" in kinds:
            return _of_decimals(sign, values)
        type_ = common(values)
        one, other = (widened(value, type_).sql for value in values)
        return _made(sign, values, sql("{}({}, {})", guarded, one, other), type_, fails=True)

    return make


def _of_decimals(sign: str, values: list[SparkValue]) -> Call:
    """Compute with decimals as the type that DuckDB gives the result; NULL where it is too small.

    There a product of two with 64 bits has 64 bits, which hold 18 digits.
    """
    (own, scale), (others, other) = (decimal_of(value.type) for value in values)
    if sign == "*":
        width, places = own + others, scale + other
    else:
        places = max(scale, other)
        width = max(own - scale, others - other) + places + 1
    exact = decimal_type(width, places)
    if sign == "*" and width == SPARK_DIGITS and places > _KEPT_PLACES:
        decimal_type(width + 1, places)  # which Spark would round to, and lose a place
    short = sign == "*" and max(own, others) <= _SHORT < width and places < _SHORT
    type_ = decimal_type(_SHORT if short else width, places)
    one, two = (widened(v, decimal_type(*decimal_of(v.type))).sql for v in values)
    computed = sql("CAST(({} {} {}) AS {})", one, _SIGN[sign], two, spark_type_sql(exact))
    text = sql("try_cast({} AS {})", computed, spark_type_sql(type_))
    return _made(sign, values, text, type_, fails=True)


def _negated(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    (value,) = values
    _numeric("-", values)
    if isinstance(value.constant, int):
        made = SparkValue(sql("(-{})", value.sql), value.type, constant=-value.constant)
        return Call("-", (value,), made)
    if value.kind in SPARK_INTEGERS:
        zero = widened(SparkValue(sql("0"), "INTEGER"), value.type).sql
        return _made(
            "-", values, sql("try_subtract({}, {})", zero, value.sql), value.type, fails=True
        )
    _refuse_longest(value)
    return _made("-", values, sql("(-{})", value.sql), value.type)


def _refuse_longest(value: SparkValue) -> None:
    """Refuse decimals of 38 digits, which Spark rounds to fewer first, and then raises."""
    if value.kind == "DECIMAL":
        decimal_type(decimal_of(value.type)[0] + 1, 0)


def _divided(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    """Divide DOUBLEs, by zero as IEEE 754 has it."""
    _numeric("/", values)
    one, other = (widened(value, "DOUBLE").sql for value in values)
    constant = values[1].constant
    if isinstance(constant, int) and constant != 0:
        return _made("/", values, sql("({} / {})", one, other), "DOUBLE")
    infinite = sql(
        "CASE WHEN CAST({} AS STRING) = '-0.0' THEN double('-Infinity') ELSE "
        "double('Infinity') END",
        other,
    )
    text = sql(
        "CASE WHEN {other} = 0 THEN {one} * {infinite} ELSE try_divide({one}, {other}) END",
        other=other,
        one=one,
        infinite=infinite,
    )
    return _made("/", values, text, "DOUBLE")


def _whole(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    """Divide integers: the least one by -1 overflows."""
    if any(value.kind not in SPARK_INTEGERS for value in values):
        raise _unfit("//", values)
    type_ = common(values)
    one, other = (widened(value, type_).sql for value in values)
    zero = widened(SparkValue(sql("0"), "INTEGER"), type_).sql
    text = sql(
        "CASE WHEN {other} = -1 THEN try_subtract({zero}, {one}) WHEN {other} <> 0 "
        "THEN CAST(({one} div {other}) AS {type_}) END",
        other=other,
        zero=zero,
        one=one,
        type_=spark_type_sql(type_),
    )
    return _made("//", values, text, type_, fails=True)


def _remainder(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    if any(value.kind not in SPARK_INTEGERS for value in values):
        raise _unfit("%", values)
    type_ = common(values)
    one, other = (widened(value, type_).sql for value in values)
    zero = widened(SparkValue(sql("0"), "INTEGER"), type_).sql
    none = sql(
        "try_multiply(try_subtract({zero}, {one}), {zero})", zero=zero, one=one
    )  # the least integer fails
    text = sql(
        "CASE WHEN {other} = -1 THEN {none} ELSE try_mod({one}, {other}) END",
        other=other,
        none=none,
        one=one,
    )
    return _made("%", values, text, type_, fails=True)


def _absolute(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    (value,) = values
    _numeric("abs", values)
    if value.kind in SPARK_INTEGERS:
        zero = widened(SparkValue(sql("0"), "INTEGER"), value.type).sql
        text = sql(
            "CASE WHEN {value} < 0 THEN try_subtract({zero}, {value}) ELSE {value} END",
            value=value.sql,
            zero=zero,
        )
        return _made("abs", values, text, value.type, fails=True)
    _refuse_longest(value)
    return _made("abs", values, sql("abs({})", value.sql), value.type)


# -- rounding -------------------------------------------------------------------------------------


def _down(value: Sql) -> Sql:
    """Round a DOUBLE down, as a DOUBLE: ``floor`` makes it a BIGINT."""
    return sql("CASE WHEN rint({v}) > {v} THEN rint({v}) - 1D ELSE rint({v}) END", v=value)


def _up(value: Sql) -> Sql:
    return sql("CASE WHEN rint({v}) < {v} THEN rint({v}) + 1D ELSE rint({v}) END", v=value)


def _to_zero(value: Sql) -> Sql:
    return sql("CASE WHEN {} < 0 THEN {} ELSE {} END", value, _up(value), _down(value))


def _away(value: Sql) -> Sql:
    return sql("round({})", value)


def _rounding(name: str, double: Callable[[Sql], Sql]) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        if len(values) == 2:
            return _to_places(name, values)
        (value,) = values
        _numeric(name, values)
        if value.kind == "DECIMAL":
            type_ = decimal_type(decimal_of(value.type)[0], 0)
            whole = sql("{}({})", bare_word(name), value.sql)
            if name == "trunc":
                whole = _truncated(value.sql)
            text = sql("try_cast({} AS {})", whole, spark_type_sql(type_))
            return _made(name, values, text, type_, fails=True)
        if value.kind == "DOUBLE":
            return _made(name, values, double(value.sql), "DOUBLE")
        if name in ("round", "trunc"):
            return _made(name, values, value.sql, value.type)
        return _made(name, values, widened(value, "DOUBLE").sql, "DOUBLE")

    return make


def _truncated(value: Sql) -> Sql:
    # Beside an integer, a decimal of many places is rounded: -1e-38 is not below 0.
    return sql("CASE WHEN CAST({v} AS DOUBLE) < 0D THEN ceil({v}) ELSE floor({v}) END", v=value)


def _to_places(name: str, values: list[SparkValue]) -> Call:
    """Round to some decimals, through a product, as DuckDB does."""
    value, places = values
    wanted = places.constant
    if name != "round" or not isinstance(wanted, int) or not 0 <= wanted <= _MOST_DECIMALS:
        raise refused_in_spark("ROUND takes a constant number of decimals, from 0 to 15")
    if value.kind in SPARK_INTEGERS:
        return Call("round", (value, "places"), SparkValue(value.sql, value.type, value.fails))
    if value.kind == "DECIMAL":
        digits, scale = decimal_of(value.type)
        type_ = decimal_type(digits, min(scale, wanted))
        text = sql("try_cast(round({}, {}) AS {})", value.sql, wanted, spark_type_sql(type_))
        return Call("round", (value, "places"), SparkValue(text, type_, fails=True))
    if value.kind != "DOUBLE":
        raise _unfit("round", values)
    rounded = sql("(round({v} * 1e{n}D) / 1e{n}D)", v=value.sql, n=wanted)
    text = sql(
        "CASE WHEN abs({rounded}) < double('Infinity') THEN {rounded} ELSE {value} END",
        rounded=rounded,
        value=value.sql,
    )
    return Call("round", (value, "places"), SparkValue(text, "DOUBLE", value.fails))


# -- functions of DOUBLEs -------------------------------------------------------------------------


def _of_double(name: str, write: Callable[[Sql], Sql]) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        _numeric(name, values)
        return _made(name, values, write(widened(values[0], "DOUBLE").sql), "DOUBLE")

    return make


def _log(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    """Write the logarithm to base 10; one of another base comes with that first."""
    base = 10 if len(values) == 1 else values[0].constant
    if base not in (10, 2):
        raise refused_in_spark("LOG is available to the bases 10 and 2")
    word = sql("log10") if base == 10 else sql("log2")
    return _of_double(f"log{base}", _logarithm(word))(node, values[-1:], units)


def _logarithm(word: Sql) -> Callable[[Sql], Sql]:
    return lambda x: sql(
        "CASE WHEN {x} = 0 THEN double('-Infinity') WHEN {x} < 0 THEN double('NaN') "
        "ELSE {word}({x}) END",
        x=x,
        word=word,
    )


def _power(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    _numeric("pow", values)
    one, other = (widened(value, "DOUBLE").sql for value in values)
    text = sql(
        "CASE WHEN {other} IS NULL THEN NULL "
        "WHEN {one} = 1 OR ({one} = -1 AND abs({other}) = double('Infinity')) THEN 1D "
        "ELSE pow({one}, {other}) END",
        one=one,
        other=other,
    )
    return _made("pow", values, text, "DOUBLE")


def _is_nan(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    (value,) = values
    if value.kind != "DOUBLE":
        raise _unfit("isnan", values)
    return _made("isnan", values, sql("({} = double('NaN'))", value.sql), "BOOLEAN")


# -- of several values ----------------------------------------------------------------------------


def _extreme(name: str) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        type_ = common(values)
        kinds = sorted({value.kind for value in values})
        typed = [v.sql if v.kind == "NULL" else widened(v, type_).sql for v in values]
        text = sql("{}({})", bare_word(name), join(", ", typed))
        if len(values) == 1:
            text = values[0].sql
        return Call(name, tuple(kinds), SparkValue(text, type_))

    return make


def _nullif(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    one, other = values
    if other.fails:
        raise refused_in_spark("NULLIF with a value that can fail is not available")
    type_ = common(values)
    test = sql("{} = {}", widened(one, type_).sql, widened(other, type_).sql)
    text = sql("CASE WHEN {} THEN NULL ELSE {} END", test, one.sql)
    return _made("nullif", values, text, one.type)


# -- texts ----------------------------------------------------------------------------------------


def _texts(name: str, values: list[SparkValue]) -> None:
    if any(value.kind != "VARCHAR" for value in values):
        raise _unfit(name, values)


def _of_text(name: str, write: Callable[..., Sql], type_: str) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        _texts(name, values)
        return _made(name, values, write(*(value.sql for value in values)), type_)

    return make


def _constants(name: str, values: list[SparkValue], least: int) -> list[int]:
    found = [value.constant for value in values]
    numbers = [number for number in found if isinstance(number, int) and least <= number < 2**31]
    if len(numbers) < len(found):
        raise refused_in_spark(f"{name} takes constants from {least} on as places and lengths")
    return numbers


def _substring(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    text, *places = values
    _texts("substring", [text])
    start = _constants("SUBSTRING", places[:1], 1)
    length = _constants("SUBSTRING", places[1:], 0)
    given = join(", ", map(digits, [*start, *length]))
    value = SparkValue(sql("substring({}, {})", text.sql, given), "VARCHAR", text.fails)
    return Call("substring", (text, *["place"] * len(places)), value)


def _end(name: str) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        text, length = values
        _texts(name, [text])
        (given,) = _constants(name.upper(), [length], 0)
        written = sql("{}({}, {})", bare_word(name), text.sql, given)
        return Call(name, (text, "place"), SparkValue(written, "VARCHAR", text.fails))

    return make


def _trim(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    _texts("trim", values)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    return _made(name, values, sql("{}({})", bare_word(name), values[0].sql), "VARCHAR")


def _like(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    """Compare with a constant pattern, in which no character is an escape."""
    _texts("like", values)
    text, pattern = values
    given = pattern.constant
    if not isinstance(given, str):
        raise refused_in_spark("LIKE takes a constant pattern")
    escape = next((character for character in _ESCAPES if character not in given), None)
    if escape is None:
        raise refused_in_spark("this pattern of LIKE is not available")
    negated = sql("NOT ") if node.args.get("negate") else EMPTY_SQL
    searched = searched_pattern(given)
    if searched is not None:
        matched = sql("({}{} RLIKE {})", negated, text.sql, literal(searched))
    else:
        escaped = literal(escape)
        matched = sql("({} {}LIKE {} ESCAPE {})", text.sql, negated, pattern.sql, escaped)
    return Call("like", (text, "pattern"), SparkValue(matched, "BOOLEAN", text.fails))


# -- dates ----------------------------------------------------------------------------------------

_PARTS: Final[Mapping[str, Callable[[Sql], Sql]]] = {
    "YEAR": lambda x: sql("year({})", x),
    "QUARTER": lambda x: sql("quarter({})", x),
    "MONTH": lambda x: sql("month({})", x),
    "WEEK": lambda x: sql("weekofyear({})", x),
    "DAY": lambda x: sql("day({})", x),
    "DAYOFWEEK": lambda x: sql("(dayofweek({}) - 1)", x),
    "ISODOW": lambda x: sql("(weekday({}) + 1)", x),
    "DAYOFYEAR": lambda x: sql("dayofyear({})", x),
    "HOUR": lambda x: sql("hour({})", x),
    "MINUTE": lambda x: sql("minute({})", x),
    "SECOND": lambda x: sql("second({})", x),
}
_CLOCK: Final = ("HOUR", "MINUTE", "SECOND")
_SAME_PARTS: Final = {
    "DOW": "DAYOFWEEK",
    "DOY": "DAYOFYEAR",
    "WEEKOFYEAR": "WEEK",
    "DAYOFMONTH": "DAY",
}
_TRUNCATED: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_INTERVALS: Final = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def _moment(name: str, value: SparkValue) -> SparkValue:
    if value.kind not in ("DATE", "TIMESTAMP"):
        raise _unfit(name, [value])
    return value


def _part(part: str) -> _Make:
    def make(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
        value = _moment(part.lower(), values[0])
        if part in _CLOCK and value.kind == "DATE":
            raise _unfit(part.lower(), values)
        made = sql("CAST({} AS BIGINT)", _PARTS[part](value.sql))
        return _made(part.lower(), values, in_calendar(value, made), "BIGINT")

    return make


def _unit(units: list[str]) -> str:
    if len(units) != 1:
        raise refused_in_spark("a part of a date is named by a single word")
    return units[0]


def _extract(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    unit = _unit(units)
    part = _SAME_PARTS.get(unit, unit)
    if part not in _PARTS:
        raise refused_in_spark(f"the part {unit} of a date is not available")
    return _part(part)(node, values, [])


def _truncated_to(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    unit = _unit(units)
    value = _moment("date_trunc", values[0])
    if unit not in _TRUNCATED:
        raise refused_in_spark(f"DATE_TRUNC to {unit} is not available")
    made = sql(
        "CAST(date_trunc({}, CAST({} AS TIMESTAMP)) AS TIMESTAMP_NTZ)", literal(unit), value.sql
    )
    text = in_calendar(value, made)
    return Call(
        "date_trunc", (f"'{unit.lower()}'", value), SparkValue(text, "TIMESTAMP", value.fails)
    )


_DIFFERENCES: Final[Mapping[str, Callable[[Sql, Sql], Sql]]] = {
    "DAY": lambda a, b: sql("datediff({}, {})", a, b),
    "MONTH": lambda a, b: sql("((year({a}) - year({b})) * 12 + month({a}) - month({b}))", a=a, b=b),
    "QUARTER": lambda a, b: sql(
        "((year({a}) - year({b})) * 4 + quarter({a}) - quarter({b}))", a=a, b=b
    ),
    "YEAR": lambda a, b: sql("(year({}) - year({}))", a, b),
}


def _between_dates(node: exp.Expr, values: list[SparkValue], units: list[str]) -> Call:
    """Count the boundaries between two dates; the parser has the later one first."""
    unit = _unit(units)
    end, start = (_moment("date_diff", value) for value in values)
    write = _DIFFERENCES.get(unit)
    if write is None:
        raise refused_in_spark(f"DATE_DIFF in {unit} is not available")
    made = sql("CAST({} AS BIGINT)", write(end.sql, start.sql))
    text = in_calendar(end, in_calendar(start, made))
    value = SparkValue(text, "BIGINT", end.fails or start.fails)
    return Call("date_diff", (f"'{unit.lower()}'", start, end), value)


def _moved(sign: str, values: list[SparkValue]) -> Call:
    """Add to a date, or take from it: a constant interval, days, another date."""
    one, other = values
    if one.kind == other.kind == "DATE" and sign == "-":
        made = sql("CAST(datediff({}, {}) AS BIGINT)", one.sql, other.sql)
        return _made("-", values, in_calendar(one, in_calendar(other, made)), "BIGINT")
    if sign == "*" or one.kind not in ("DATE", "TIMESTAMP"):
        raise _unfit(sign, values)
    if other.kind == "INTERVAL" and other.constant in _INTERVALS:
        moment = widened(one, "TIMESTAMP").sql
        unit = bare_word(str(other.constant))
        made = sql("({} {} INTERVAL {} {})", moment, _SIGN[sign], other.sql, unit)
        operands = (one, f"INTERVAL {str(other.constant).lower()}")
        return Call(sign, operands, SparkValue(in_calendar(one, made), "TIMESTAMP", one.fails))
    if one.kind == "DATE" and other.kind == "INTEGER":
        days = other.sql if sign == "+" else sql("-{}", other.sql)
        made = sql(
            "CASE WHEN {other} BETWEEN -{most} AND {most} THEN date_add({one}, {days}) END",
            other=other.sql,
            most=_MOST_DAYS,
            one=one.sql,
            days=days,
        )
        return _made(sign, values, in_calendar(one, made), "DATE", fails=True)
    raise _unfit(sign, values)


_BOTH: Final = ("this", "expression")
_MANY: Final = ("this", "expressions")

RULES: Final[Mapping[type[exp.Expr], Rule]] = MappingProxyType(
    {
        exp.Add: Rule(_arithmetic("+", sql("try_add")), _BOTH),
        exp.Sub: Rule(_arithmetic("-", sql("try_subtract")), _BOTH),
        exp.Mul: Rule(_arithmetic("*", sql("try_multiply")), _BOTH),
        exp.Neg: Rule(_negated),
        exp.Div: Rule(_divided, _BOTH),
        exp.IntDiv: Rule(_whole, _BOTH),
        exp.Mod: Rule(_remainder, _BOTH),
        exp.Abs: Rule(_absolute),
        exp.Floor: Rule(_rounding("floor", _down)),
        exp.Ceil: Rule(_rounding("ceil", _up)),
        exp.Trunc: Rule(_rounding("trunc", _to_zero)),
        exp.Round: Rule(_rounding("round", _away), ("this", "decimals")),
        exp.Sqrt: Rule(_of_double("sqrt", lambda x: sql("sqrt({})", x))),
        exp.Exp: Rule(_of_double("exp", lambda x: sql("exp({})", x))),
        exp.Ln: Rule(_of_double("ln", _logarithm(sql("ln")))),
        exp.Log: Rule(_log, _BOTH),
        exp.Pow: Rule(_power, _BOTH),
        exp.IsNan: Rule(_is_nan),
        exp.Greatest: Rule(_extreme("greatest"), _MANY, ("ignore_nulls!",), swallows=True),
        exp.Least: Rule(_extreme("least"), _MANY, ("ignore_nulls!",), swallows=True),
        exp.Nullif: Rule(_nullif, _BOTH),
        exp.DPipe: Rule(
            _of_text("||", lambda a, b: sql("concat({}, {})", a, b), "VARCHAR"), _BOTH, ("safe?",)
        ),
        exp.Concat: Rule(
            lambda node, values, units: _joined(values),
            ("expressions",),
            ("safe?", "coalesce!"),
            swallows=True,
        ),
        exp.Contains: Rule(
            _of_text("contains", lambda a, b: sql("contains({}, {})", a, b), "BOOLEAN"), _BOTH
        ),
        exp.StartsWith: Rule(
            _of_text("starts_with", lambda a, b: sql("startswith({}, {})", a, b), "BOOLEAN"), _BOTH
        ),
        exp.Length: Rule(
            _of_text("length", lambda a: sql("CAST(char_length({}) AS BIGINT)", a), "BIGINT")
        ),
        exp.Lower: Rule(_of_text("lower", lambda a: sql("lower({})", a), "VARCHAR")),
        exp.Upper: Rule(_of_text("upper", lambda a: sql("upper({})", a), "VARCHAR")),
        exp.Substring: Rule(_substring, ("this", "start", "length")),
        exp.Left: Rule(_end("left"), _BOTH),
        exp.Right: Rule(_end("right"), _BOTH),
        exp.Trim: Rule(_trim, ("this",), ("position",)),
        exp.Like: Rule(_like, _BOTH, ("negate",)),
        exp.Year: Rule(_part("YEAR")),
        exp.Quarter: Rule(_part("QUARTER")),
        exp.Month: Rule(_part("MONTH")),
        exp.Week: Rule(_part("WEEK")),
        exp.WeekOfYear: Rule(_part("WEEK")),
        exp.Day: Rule(_part("DAY")),
        exp.DayOfMonth: Rule(_part("DAY")),
        exp.DayOfWeek: Rule(_part("DAYOFWEEK")),
        exp.DayOfWeekIso: Rule(_part("ISODOW")),
        exp.DayOfYear: Rule(_part("DAYOFYEAR")),
        exp.Hour: Rule(_part("HOUR")),
        exp.Minute: Rule(_part("MINUTE")),
        exp.Second: Rule(_part("SECOND")),
        exp.Extract: Rule(_extract, _BOTH, word="this"),
        exp.TimestampTrunc: Rule(_truncated_to, ("this", "unit"), word="unit"),
        exp.DateDiff: Rule(_between_dates, (*_BOTH, "unit"), ("date_part_boundary!",), word="unit"),
    }
)
"""Operators and functions, by the parser's names."""


def _joined(values: list[SparkValue]) -> Call:
    """Join texts; those that are NULL are left out."""
    typed = [value for value in values if value.kind != "NULL"]
    _texts("concat", typed)
    return Call(
        "concat",
        ("VARCHAR",),
        SparkValue(sql("concat_ws('', {})", join(", ", (v.sql for v in values))), "VARCHAR"),
    )
