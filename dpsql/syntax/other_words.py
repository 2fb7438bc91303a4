"""Words of other systems that DuckDB lacks, read as words of DuckDB with the same meaning.

    DATEADD(day, 1, ts)           ts + INTERVAL 1 DAY
    DATE_TRUNC(d, MONTH)          date_trunc('month', d)
    IFF(a, b, c)                  if(a, b, c)

A word has one reading, whatever system the statement was written for. Those that systems read
differently are left as they are, to be refused, and ``INSTEAD`` says what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Final, TypeAlias, cast

from sqlglot import exp
from sqlglot.parsers.duckdb import DuckDBParser

from dpsql.core.schema import fold

_Build: TypeAlias = Callable[[list[exp.Expr]], exp.Expr]

_UNITS: Final = frozenset({"SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR"})
_FROM_MONDAY: Final = frozenset({"ISOWEEK", "ISO_WEEK"})
_BARE: Final = _UNITS | _FROM_MONDAY | {"WEEK"}
"""Units that may stand without quotes. A column of such a name is none there, as in no system."""
_TWO, _THREE = 2, 3
READ_WHOLE: Final = "read_whole"
"""The key, among the metadata of a call, which says that all its arguments were read."""

_WEEKS: Final = (
    "'week' is that from Monday; without quotes systems begin it on other days, but for ISOWEEK."
)
_TRUNCATED: Final = f"Write the unit first and in quotes, date_trunc('month', d): {_WEEKS}"
_DIFFERENCE: Final = f"Write the unit first and in quotes, date_diff('day', a, b): {_WEEKS}"
_MOVED: Final = "Write d + INTERVAL 1 DAY, with a whole number."
_WHOLE_UNITS: Final = (
    "Systems count whole days or midnights between: date_diff('day', a, b) counts midnights."
)
_PARTS_OF_JSON: Final = (
    "Write x->>'$.a.b', whose value is a text; CAST(x->>'$.a' AS INT) makes a number of it."
)
INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("date_trunc", "datetrunc", "timestamp_trunc", "datetime_trunc"), _TRUNCATED),
    **dict.fromkeys(("datediff", "date_diff"), _DIFFERENCE),
    **dict.fromkeys(
        ("datepart", "date_part"), f"Write the unit in quotes, date_part('week', d): {_WEEKS}"
    ),
    **dict.fromkeys(("dateadd", "date_add", "timestampadd"), _MOVED),
    "date_sub": "Write d - INTERVAL 1 DAY. Between moments date_diff('month', a, b) counts the "
    "months that begin; whole years are EXTRACT(YEAR FROM AGE(b, a)).",
    **dict.fromkeys(
        ("any", "all"), "Compare with one value: x > (SELECT MAX(y) FROM …), or x IN (SELECT y …)."
    ),
    **dict.fromkeys(("timestamp_add", "timestamp_sub", "datetime_add", "datetime_sub"), _MOVED),
    **dict.fromkeys(("timestampdiff", "timestamp_diff", "datetime_diff"), _WHOLE_UNITS),
    "add_months": "Write d + INTERVAL 1 MONTH; systems differ on the last days of months.",
    "anon_avg": "It averages the averages of units, within bounds of these: "
    "ANON_AVG(x CLAMPED BETWEEN 0 AND 100).",
    **dict.fromkeys(
        ("rand", "random"),
        "WHERE random() < 0.1, with a number from 0 to 1, takes a sample of the privacy units; "
        "it stands alone between AND, and has no seed.",
    ),
    **dict.fromkeys(("json_extract", "json_extract_path", "->"), _PARTS_OF_JSON),
    **dict.fromkeys(("json_value", "json_extract_scalar", "json_query"), _PARTS_OF_JSON),
    "datetime": "Write CAST(x AS TIMESTAMP), or CAST(x AS VARCHAR).",
    "age": "Write the whole years of an age of dates, EXTRACT(YEAR FROM AGE(a, b)), or "
    "date_diff('day', b, a).",
    "initcap": "Words are not told apart. Of one it is upper(left(s, 1)) || lower(s[2:]).",
    "hash": "What has few values by its form is a key: user_id % 10. WHERE random() < 0.1 takes a "
    "sample of privacy units.",
    "translate": "translate(s, 'abc', 'xyz') takes constant texts that do not exchange characters; "
    "replace(s, 'a', 'x') takes one.",
    **dict.fromkeys(
        ("printf", "format"),
        "printf('%s-%02d', s, n) and format('{}-{}', s, n) take texts and whole numbers. Else "
        "write s || '-' || CAST(x AS VARCHAR).",
    ),
    **dict.fromkeys(
        ("string_split", "string_to_array", "split", "str_split", "string_split_regex"),
        "Of its parts there are split_part(s, ',', 2), string_split(s, ',')[2] and "
        "len(string_split(s, ',')).",
    ),
    **dict.fromkeys(
        ("array_to_string", "list_aggregate", "list_filter", "list_transform", "unnest"),
        "Of a list there are list_contains(tags, 'a'), list_has_any(tags, ['a', 'b']), tags[1] and "
        "len(tags).",
    ),
    "similar to": "It compares the whole with a regular expression, as in DuckDB: s SIMILAR TO "
    "'n.*'. SQL's % and _ belong to LIKE.",
    "escape": "LIKE … ESCAPE takes a constant pattern of texts, with % at its ends or once between "
    "two. Else write s ~ '…', a regular expression.",
    "glob": "GLOB takes a constant pattern of texts and *. Else write LIKE, with _ for ?, or "
    "s ~ '…', a regular expression.",
}
"""What to write instead of a call that is refused, by the name of the function."""


def unit_of(node: exp.Expr) -> str | None:
    """Return the unit of time that a bare word or a text names; None for anything else."""
    if isinstance(node, exp.Literal):
        word = str(node.this).upper() if node.is_string else ""
        return word if word in _UNITS | {"WEEK"} else None
    return bare_unit(node)


def bare_unit(node: exp.Expr) -> str | None:
    if not isinstance(node, exp.Column) or node.table or node.this.args.get("quoted"):
        return None
    word = str(node.name).upper()
    return word if word in _BARE else None


def _left(name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Leave a call as it is, to be refused; what can be a unit is no column in the refusal."""
    kept = [exp.var(each.name) if bare_unit(each) else each for each in arguments]
    return exp.Anonymous(this=name, expressions=kept)


def _as_in_duckdb(name: str, arguments: list[exp.Expr]) -> exp.Expr:
    """Build a call with its unit in quotes in front.

    The parser would take a column for the unit of its name: ``date_trunc(s, ts)`` for seconds. It
    leaves out what it has no room for, so not all is read.
    """
    if not arguments or isinstance(arguments[0], exp.Column):
        return _left(name, arguments)
    call = cast(exp.Expr, DuckDBParser.FUNCTIONS[name](arguments))
    call.meta[READ_WHOLE] = False
    return call


def _truncated(name: str) -> _Build:
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
            return _left(name, arguments)
        return exp.TimestampTrunc(this=moment, unit=_unit(unit))

    return build


def _truncated_behind(name: str) -> _Build:
    """Build a truncation of GoogleSQL's, which has its unit behind the moment."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        unit = bare_unit(arguments[1]) if len(arguments) == _TWO else None
        if unit is None or unit == "WEEK":
            return _left(name, arguments)
        return exp.TimestampTrunc(this=arguments[0], unit=_unit(unit))

    return build


def _difference(name: str) -> _Build:
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
            return _left(name, arguments)
        return exp.DateDiff(this=end, expression=start, unit=_unit(unit), date_part_boundary=True)

    return build


def _moved(name: str, *, back: bool = False) -> _Build:
    """Build a sum with an interval: ``(moment, INTERVAL 1 DAY)`` or ``(unit, number, moment)``."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        if len(arguments) == _TWO and isinstance(arguments[1], exp.Interval):
            return _shifted(*arguments, back=back)
        if len(arguments) == _THREE and not back:
            unit, (_, number, moment) = unit_of(arguments[0]), arguments
            negative = isinstance(number, exp.Neg)
            size = number.this if negative else number
            if unit is not None and isinstance(size, exp.Column) and bare_unit(size) is None:
                days = exp.Interval(this=exp.Paren(this=size), unit=_unit(unit))
                return _shifted(moment, days, back=negative)
            if unit is not None and isinstance(size, exp.Literal) and size.is_int:
                interval = exp.Interval(this=exp.Literal.string(size.this), unit=_unit(unit))
                return _shifted(moment, interval, back=negative)
        return _left(name, arguments)

    return build


def _shifted(moment: exp.Expr, interval: exp.Expr, *, back: bool) -> exp.Expr:
    operator = exp.Sub if back else exp.Add
    return exp.Paren(this=operator(this=exp.Paren(this=moment), expression=interval))


def _unit(word: str) -> exp.Expr:
    return exp.var("WEEK" if word in _FROM_MONDAY else word)


def _of(name: str, **builds: Callable[..., exp.Expr]) -> _Build:
    """Build a call by how many arguments it has: ``two`` takes two. Others are left as they are."""
    by_number = {_NUMBERS[word]: build for word, build in builds.items()}

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        found = by_number.get(len(arguments))
        return _left(name, arguments) if found is None else found(*arguments)

    return build


_NUMBERS: Final = {"one": 1, "two": 2, "three": 3}


def _twice(name: str, build: _Build) -> _Build:
    """Build a call that uses its arguments twice, if few such calls stand within each other.

    Each of them would double the statement. Others are left as they are.
    """

    def built(arguments: list[exp.Expr]) -> exp.Expr:
        within = (node.meta.get(_DOUBLINGS, 0) for each in arguments for node in each.walk())
        doublings = max(within, default=0) + 1
        if doublings > _MOST_DOUBLINGS:
            return _left(name, arguments)
        found = build(arguments)
        found.meta[_DOUBLINGS] = doublings
        return found

    return built


_DOUBLINGS: Final = "doublings"
_MOST_DOUBLINGS: Final = 2


def _null_test(value: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=exp.Paren(this=value), expression=exp.null()))


def _divided(dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
    """Divide where the divisor is not 0, which DuckDB's ``/`` does over other values as well."""
    nonzero = exp.Nullif(this=divisor, expression=exp.Literal.number(0))
    return exp.Paren(this=exp.Div(this=exp.Paren(this=dividend), expression=nonzero))


def _quantile(value: exp.Expr, fraction: exp.Expr, _accuracy: object = None) -> exp.Expr:
    return exp.ApproxQuantile(this=value, quantile=fraction)


def _weighted(value: exp.Expr, weight: exp.Expr) -> exp.Expr:
    """Average values by weights; rows without a value have none."""
    valued = exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.null()))
    weights = exp.Case(ifs=[exp.If(this=valued, true=weight.copy())])
    product = exp.Mul(this=exp.Paren(this=value), expression=exp.Paren(this=weight))
    return _divided(exp.Sum(this=product), exp.Sum(this=weights))


def _geometric_mean(value: exp.Expr) -> exp.Expr:
    return exp.Exp(this=exp.Avg(this=exp.Ln(this=value)))


def _date(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DType.DATE)


def _date_of_parts(year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr:
    return exp.DateFromParts(year=year, month=month, day=day)


def _age(later: exp.Expr, earlier: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="age", expressions=[later, earlier])


def _age_today(value: exp.Expr) -> exp.Expr:
    return _age(exp.CurrentDate(), value)


def _choice(test: exp.Expr, true: exp.Expr, false: exp.Expr) -> exp.Expr:
    return exp.If(this=test, true=true, false=false)


def _choice_by_null(value: exp.Expr, other: exp.Expr, null: exp.Expr) -> exp.Expr:
    return _choice(_null_test(value), null, other)


def _part(unit: str, value: exp.Expr) -> exp.Expr:
    return exp.Extract(this=exp.var(unit), expression=value)


def _part_named(name: str) -> _Build:
    """Build a part of a moment with a bare unit in front; in quotes it is DuckDB's."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        unit = bare_unit(arguments[0]) if len(arguments) == _TWO else None
        return _left(name, arguments) if unit not in _UNITS else _part(unit, arguments[1])

    return build


def _year_and_month(value: exp.Expr) -> exp.Expr:
    hundred = exp.Mul(this=_part("YEAR", value), expression=exp.Literal.number(100))
    return exp.Paren(this=exp.Add(this=hundred, expression=_part("MONTH", value.copy())))


def _start_of(unit: str, *, day: bool) -> Callable[[exp.Expr], exp.Expr]:
    def build(value: exp.Expr) -> exp.Expr:
        start = exp.TimestampTrunc(this=value, unit=_unit(unit))
        return _date(start) if day else start

    return build


def _if(kind: type[exp.Expr]) -> Callable[[exp.Expr, exp.Expr], exp.Expr]:
    return lambda value, test: exp.Filter(this=kind(this=value), expression=exp.Where(this=test))


def _formatted(pattern: exp.Expr, moment: exp.Expr) -> exp.Expr:
    return exp.TimeToStr(this=moment, format=pattern)


def _square(value: exp.Expr) -> exp.Expr:
    return exp.Pow(this=value, expression=exp.Literal.number(2))


def _whole_seconds(value: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Floor(this=exp.TimeToUnix(this=value)), exp.DType.BIGINT)


def _end_part(text: exp.Expr, delimiter: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Read the text before the first delimiter, or behind the last one."""
    if count not in (exp.Literal.number(1), exp.Literal.number(-1)):
        return _left("SUBSTRING_INDEX", [text, delimiter, count])
    return exp.SplitPart(this=text, delimiter=delimiter, part_index=count)


def _filled(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=value, expressions=[other])


def _json_text(document: exp.Expr, path: exp.Expr) -> exp.Expr:
    return exp.JSONExtractScalar(this=document, expression=path)


def _called(kind: type[exp.Expr]) -> Callable[[exp.Expr], exp.Expr]:
    return lambda value: kind(this=value)


_BUILDS: Final[Mapping[str, _Build]] = {
    **{name: _truncated(name) for name in ("DATE_TRUNC", "DATETRUNC")},
    **{name: _truncated_behind(name) for name in ("TIMESTAMP_TRUNC", "DATETIME_TRUNC")},
    **{name: _difference(name) for name in ("DATE_DIFF", "DATEDIFF")},
    **{name: partial(_left, name) for name in ("TIMESTAMP_DIFF", "TIMESTAMPDIFF", "DATETIME_DIFF")},
    **{
        name: _moved(name)
        for name in ("DATE_ADD", "DATEADD", "TIMESTAMPADD", "TIMESTAMP_ADD", "DATETIME_ADD")
    },
    **{name: _moved(name, back=True) for name in ("DATE_SUB", "TIMESTAMP_SUB", "DATETIME_SUB")},
    "DATE": _of("DATE", one=_date, three=_date_of_parts),
    "TIMESTAMP": _of("TIMESTAMP", one=lambda value: exp.cast(value, exp.DType.TIMESTAMP)),
    "EOMONTH": _of("EOMONTH", one=_called(exp.LastDay)),
    "AGE": _of("AGE", one=_age_today, two=_age),
    "IFF": _of("IFF", three=_choice),
    "ISNULL": _of("ISNULL", one=_null_test, two=_filled),
    "NVL2": _of("NVL2", three=_choice_by_null),
    "ZEROIFNULL": _of("ZEROIFNULL", one=lambda value: _filled(value, exp.Literal.number(0))),
    "SAFE_DIVIDE": _of("SAFE_DIVIDE", two=_divided),
    **{
        name: _of(name, two=_json_text)
        for name in ("GET_JSON_OBJECT", "JSON_EXTRACT_PATH_TEXT", "JSON_EXTRACT_STRING")
    },
    **{name: _part_named(name) for name in ("DATEPART", "DATE_PART")},
    **{
        f"TO{unit}": _of(f"TO{unit}", one=partial(_part, unit))
        for unit in ("YEAR", "QUARTER", "MONTH", "HOUR", "MINUTE", "SECOND")
    },
    "TODAYOFMONTH": _of("TODAYOFMONTH", one=partial(_part, "DAY")),
    "TODAYOFWEEK": _of("TODAYOFWEEK", one=partial(_part, "ISODOW")),
    "TOYYYYMM": _twice("TOYYYYMM", _of("TOYYYYMM", one=_year_and_month)),
    "TODATE": _of("TODATE", one=_date),
    "TOMONDAY": _of("TOMONDAY", one=_start_of("WEEK", day=True)),
    **{
        f"TOSTARTOF{unit}": _of(
            f"TOSTARTOF{unit}", one=_start_of(unit, day=unit in ("MONTH", "QUARTER", "YEAR"))
        )
        for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR")
    },
    **{
        name: _of(name, two=_if(kind))
        for name, kind in (("SUMIF", exp.Sum), ("AVGIF", exp.Avg), ("MINIF", exp.Min))
    },
    "MAXIF": _of("MAXIF", two=_if(exp.Max)),
    "UNIQ": _of("UNIQ", one=_called(exp.ApproxDistinct)),
    "UNIQEXACT": _of(
        "UNIQEXACT", one=lambda value: exp.Count(this=exp.Distinct(expressions=[value]))
    ),
    "COUNT_BIG": _of("COUNT_BIG", one=_called(exp.Count)),
    **{
        name: _of(name, two=_formatted)
        for name in ("FORMAT_DATE", "FORMAT_TIMESTAMP", "FORMAT_DATETIME")
    },
    **{name: _of(name, one=_whole_seconds) for name in ("UNIX_TIMESTAMP", "UNIX_SECONDS")},
    "SIZE": _of("SIZE", one=_called(exp.Length)),
    "SQUARE": _of("SQUARE", one=_square),
    "SUBSTRING_INDEX": _of("SUBSTRING_INDEX", three=_end_part),
    "VAR": _of("VAR", one=_called(exp.Variance)),
    "VARP": _of("VARP", one=_called(exp.VariancePop)),
    "STD": _of("STD", one=_called(exp.Stddev)),  # of a sample, but in MySQL; docs/sql.md says so
    "EVERY": _of("EVERY", one=_called(exp.LogicalAnd)),
    "STDEVP": _of("STDEVP", one=_called(exp.StddevPop)),
    "NDV": _of("NDV", one=_called(exp.ApproxDistinct)),
    "APPROX_MEDIAN": _of("APPROX_MEDIAN", one=_called(exp.Median)),
    **{
        name: _of(name, two=_quantile, three=_quantile)
        for name in ("APPROX_PERCENTILE", "PERCENTILE_APPROX", "RESERVOIR_QUANTILE")
    },
    **{name: _of(name, one=_called(exp.Sum)) for name in ("FSUM", "KAHAN_SUM", "SUMKAHAN")},
    "FAVG": _of("FAVG", one=_called(exp.Avg)),
    **{name: _twice(name, _of(name, two=_weighted)) for name in ("WEIGHTED_AVG", "WAVG")},
    **{name: _of(name, one=_geometric_mean) for name in ("GEOMEAN", "GEOMETRIC_MEAN")},
}


def _marked(build: _Build) -> _Build:
    def marked(arguments: list[exp.Expr]) -> exp.Expr:
        found = build(arguments)
        found.meta.setdefault(READ_WHOLE, True)
        return found

    return marked


OTHER_WORDS: Final[Mapping[str, _Build]] = {name: _marked(each) for name, each in _BUILDS.items()}
"""Builders of calls by the name of the function, in upper case."""


def settle_quantile_lists(tree: exp.Expr) -> None:
    """Read one of a list of quantiles as that quantile; ``tree`` is changed.

    ``APPROX_QUANTILES(x, 4)[OFFSET(1)]`` is the first of the three that divide rows in four.
    """
    for bracket in list(tree.find_all(exp.Bracket)):
        listed = bracket.this
        match bracket.expressions:
            case [exp.Anonymous(expressions=[place])] if isinstance(listed, exp.ApproxQuantiles):
                first = _FIRST.get(str(bracket.expressions[0].name).upper())
                parts, number = _whole(listed.expression), _whole(place)
            case _:
                continue
        if first is None or parts is None or number is None or not parts or 10**6 % parts:
            continue
        if first <= number <= parts + first:
            fraction = exp.Literal.number(str(Decimal(number - first) / parts))
            bracket.replace(exp.ApproxQuantile(this=listed.this, quantile=fraction))


_FIRST: Final = {"OFFSET": 0, "ORDINAL": 1}


def _whole(node: exp.Expr | None) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def settle_shares(tree: exp.Expr) -> None:
    """Read ``RATIO_TO_REPORT(x) OVER (…)`` as ``x / SUM(x) OVER (…)``; ``tree`` is changed."""
    for window in list(tree.find_all(exp.Window)):
        share = window.this
        named = isinstance(share, exp.Anonymous) and fold(share.name) == "ratio_to_report"
        if named and len(share.expressions) == 1:
            value = exp.Paren(this=share.expressions[0])
            whole = window.copy()
            whole.set("this", exp.Sum(this=value.this.copy()))
            nonzero = exp.Nullif(this=whole, expression=exp.Literal.number(0))
            window.replace(exp.Paren(this=exp.Div(this=value, expression=nonzero)))


def settle_quantified(tree: exp.Expr) -> None:
    """Read ``x = ANY (SELECT …)`` as IN, ``x <> ALL (SELECT …)`` as NOT IN; ``tree`` is changed."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ)):
        word, equal = node.expression, isinstance(node, exp.EQ)
        if type(word) is not (exp.Any if equal else exp.All):
            continue
        query = word.this if isinstance(word.this, exp.Subquery) else exp.Subquery(this=word.this)
        if isinstance(query.this, exp.Query):
            among = exp.In(this=node.this, query=query)
            node.replace(among if equal else exp.Not(this=among))
