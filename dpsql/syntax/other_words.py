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
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.moment_words import MOMENT_WORDS
from dpsql.syntax.row_functions import BitCount, Character
from dpsql.syntax.word_builders import (
    READ_WHOLE,
    TWO,
    Build,
    by_number,
    left_as_written,
    operand,
    twice,
    written_text,
)

_WEEKS: Final = (
    "'week' is that from Monday; without quotes systems begin it on other days, but for ISOWEEK."
)
_TRUNCATED: Final = f"Write the unit first and in quotes, date_trunc('month', d): {_WEEKS}"
_DIFFERENCE: Final = f"Write the unit first and in quotes, date_diff('day', a, b): {_WEEKS}"
_MOVED: Final = "Write d + INTERVAL 1 DAY, with a whole number."
_WHOLE_UNITS: Final = (
    "Systems count whole units or the boundaries between: date_sub('hour', a, b) counts whole "
    "hours, date_diff('day', a, b) midnights."
)
_PATTERN: Final = (
    "A pattern is a constant of characters, lists of them ([a-z], \\d, \\w, \\s), groups, "
    "alternatives, ^ and $, and repetitions; \\b stands at the ends of a search, \\bno\\b."
)
_OF_BITS: Final = "One side is a whole number, the other one a constant from 0 on: flags & 4."
_READ_AS_MOMENT: Final = (
    "CAST(s AS DATE) and CAST(s AS TIMESTAMP) read texts as ISO writes them. Formats are for "
    "constants: TO_DATE('31.12.2024', 'DD.MM.YYYY'), of a date without a time."
)
_BUCKETS: Final = "Moments in steps are time_bucket(INTERVAL '15 minutes', t)."
_PARTS_OF_JSON: Final = (
    "Write x->>'$.a.b', whose value is a text; CAST(x->>'$.a' AS INT) makes a number of it."
)
INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("date_trunc", "datetrunc", "timestamp_trunc", "datetime_trunc"), _TRUNCATED),
    **dict.fromkeys(("datediff", "date_diff"), _DIFFERENCE),
    **dict.fromkeys(
        ("datepart", "date_part"),
        f"Write the unit in quotes, date_part('week', d): {_WEEKS} Days of the week are isodow(d), "
        "1 to 7 from Monday, and dayofweek(d), 0 to 6 from Sunday.",
    ),
    **dict.fromkeys(("dateadd", "date_add", "timestampadd"), _MOVED),
    "date_sub": "Write d - INTERVAL 1 DAY. Between moments date_diff('month', a, b) counts the "
    "months that begin; whole years are EXTRACT(YEAR FROM AGE(b, a)).",
    **dict.fromkeys(
        ("any", "all"), "Compare with one value: x > (SELECT MAX(y) FROM …), or x IN (SELECT y …)."
    ),
    **dict.fromkeys(("timestamp_add", "timestamp_sub", "datetime_add", "datetime_sub"), _MOVED),
    **dict.fromkeys(("timestampdiff", "timestamp_diff", "datetime_diff"), _WHOLE_UNITS),
    **dict.fromkeys(("&", "|", "<<", ">>", "xor", "bitwise xor"), _OF_BITS),
    **dict.fromkeys(("get_bit", "bit_count", "bit_get"), f"A bit is flags >> 3 & 1. {_OF_BITS}"),
    **dict.fromkeys(("to_date", "try_to_date", "str_to_date", "parse_date"), _READ_AS_MOMENT),
    **dict.fromkeys(("parse_timestamp", "parse_datetime", "strptime"), _READ_AS_MOMENT),
    **dict.fromkeys(
        ("to_timestamp", "from_unixtime"),
        f"Of seconds they take whole numbers, CAST(x AS BIGINT). {_BUCKETS} {_READ_AS_MOMENT}",
    ),
    **dict.fromkeys(
        ("tostartofinterval", "date_bin", "time_bucket"),
        f"{_BUCKETS} The width is a constant; in other words it divides a day.",
    ),
    "trunc": f"Of a moment: {_TRUNCATED}",
    "months_between": "It is of two columns of dates. Else write date_diff('month', a, b), which "
    "counts the months that begin.",
    **dict.fromkeys(
        ("convert", "try_convert"),
        "Write CAST(x AS VARCHAR), or strftime(d, '%Y-%m-%d') for a date.",
    ),
    **dict.fromkeys(
        ("to_number", "try_to_number", "touint8", "toint32", "toint64", "tofloat64"),
        "Systems round or keep fractions: write CAST(s AS INT), CAST(s AS DOUBLE) or "
        "CAST(s AS DECIMAL(18, 2)).",
    ),
    **dict.fromkeys(
        ("farm_fingerprint", "crc32", "cityhash64", "murmurhash3_32", "checksum"),
        "What has few values by its form is a key: user_id % 10. Of texts there are md5(s) and "
        "sha256(s).",
    ),
    "to_char": "Of moments its words are YYYY, MM, DD, HH24, MI, SS, Mon, Dy, IYYY, IW and others; "
    "names of months and days without blanks are FMMonth and FMDay. Of a number write "
    "CAST(x AS VARCHAR).",
    **dict.fromkeys(("~*", "~", "regexp_matches", "regexp_like", "regexp_i_like"), _PATTERN),
    **dict.fromkeys(
        ("sinh", "cosh", "tanh", "cot", "gamma", "lgamma", "factorial", "gcd", "lcm"),
        "Of such functions there are sqrt, exp, ln, log, pow, cbrt, sin, cos, tan, asin, acos, "
        "atan and atan2; others are for released rows, or a column that the owner computes.",
    ),
    **dict.fromkeys(
        ("approx_top_count", "approx_top_k", "approx_top_sum"),
        "Group by the value: SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY n DESC LIMIT 5.",
    ),
    "regexp_extract": "With several groups say which: regexp_extract(s, '(a)(b)', 1), or 0 for the "
    "whole.",
    "collate": "Letter case does not count in s ILIKE 'a%' and lower(s) = 'a'.",
    "add_months": "It adds a constant number to a date. Else write d + INTERVAL (n) MONTH; systems "
    "differ on the last days of months.",
    "anon_avg": "It averages the averages of units, within bounds of these: "
    "ANON_AVG(x CLAMPED BETWEEN 0 AND 100).",
    **dict.fromkeys(
        ("rand", "random"),
        "WHERE random() < 0.1, with a number from 0 to 1, takes a sample of the privacy units; "
        "it stands alone between AND, and has no seed.",
    ),
    **dict.fromkeys(("json_extract", "json_extract_path", "->"), _PARTS_OF_JSON),
    **dict.fromkeys(
        ("json_value", "json_query"), f"DuckDB keeps the quotes of a text. {_PARTS_OF_JSON}"
    ),
    "datetime": "Write CAST(x AS TIMESTAMP), or CAST(x AS VARCHAR).",
    "age": "Write the whole years of an age of dates, EXTRACT(YEAR FROM AGE(a, b)), or "
    "date_diff('day', b, a).",
    **dict.fromkeys(
        ("domain", "parse_url", "host", "url_extract_host"),
        "Systems differ on users, ports and texts that are no URL: "
        "regexp_extract(url, '^[a-z]+://([^/?#:]*)', 1).",
    ),
    "mad": "Ask MEDIAN(x) first, then MEDIAN(ABS(x - 52000)) with what came out.",
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
        ("array_to_string", "list_aggregate", "list_filter", "list_transform"),
        "Of a list there are list_contains(tags, 'a'), list_has_any(tags, ['a', 'b']), tags[1] and "
        "len(tags).",
    ),
    **dict.fromkeys(
        ("unnest", "explode", "flatten"),
        "It stands once in a select list or beside the tables of FROM, of a column that is a list "
        "or of string_split(s, ','): FROM t, UNNEST(t.tags) AS e(tag). Windows go into a query "
        "around it, and Spark's split by a pattern has no equal.",
    ),
    "similar to": "It compares the whole with a regular expression, as in DuckDB: s SIMILAR TO "
    "'n.*'. SQL's % and _ belong to LIKE.",
    "escape": "LIKE … ESCAPE takes a constant pattern of texts, with % at its ends or once between "
    "two. Else write s ~ '…', a regular expression.",
    "glob": "GLOB takes a constant pattern of texts and *. Else write LIKE, with _ for ?, or "
    "s ~ '…', a regular expression.",
}
"""What to write instead of a call that is refused, by the name of the function."""


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


def _choice(test: exp.Expr, true: exp.Expr, false: exp.Expr) -> exp.Expr:
    return exp.If(this=test, true=true, false=false)


def _choice_by_null(value: exp.Expr, other: exp.Expr, null: exp.Expr) -> exp.Expr:
    return _choice(_null_test(value), null, other)


def _if(kind: type[exp.Expr]) -> Callable[[exp.Expr, exp.Expr], exp.Expr]:
    return lambda value, test: exp.Filter(this=kind(this=value), expression=exp.Where(this=test))


def _square(value: exp.Expr) -> exp.Expr:
    return exp.Pow(this=value, expression=exp.Literal.number(2))


def _end_part(text: exp.Expr, delimiter: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Read the text before the first delimiter, or behind the last; others are written later."""
    if count not in (exp.Literal.number(1), exp.Literal.number(-1)):
        return left_as_written("SUBSTRING_INDEX", [text, delimiter, count])
    return exp.SplitPart(this=text, delimiter=delimiter, part_index=count)


def _filled(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=value, expressions=[other])


def _zero() -> exp.Expr:
    return exp.Literal.number(0)


def _json_text(document: exp.Expr, path: exp.Expr) -> exp.Expr:
    return exp.JSONExtractScalar(this=document, expression=path)


def _called(kind: type[exp.Expr]) -> Callable[[exp.Expr], exp.Expr]:
    return lambda value: kind(this=value)


# -- choices --------------------------------------------------------------------------------------


def _chosen(
    value: exp.Expr, pairs: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None
) -> exp.Expr:
    ifs = [exp.If(this=test, true=found) for test, found in pairs]
    return exp.Case(this=value, ifs=ifs, default=default)


def _decoded(arguments: list[exp.Expr]) -> exp.Expr:
    """Build DECODE(x, a, 1, b, 2, 0), for which NULL is equal to NULL.

    With two arguments it makes a text of bytes, and is left to be refused.
    """
    value, *rest = arguments
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    default = rest[-1] if len(rest) % TWO else None
    constant = all(isinstance(test, exp.Literal | exp.Null | exp.Neg) for test, _ in pairs)
    if len(rest) < TWO or not constant:
        return left_as_written("DECODE", arguments)
    nulls = [found for test, found in pairs if isinstance(test, exp.Null)]
    others = [pair for pair in pairs if not isinstance(pair[0], exp.Null)]
    if not others:
        return exp.Case(ifs=[exp.If(this=_null_test(value), true=nulls[0])], default=default)
    found = _chosen(value, others, default)
    if not nulls:
        return found
    return exp.Case(ifs=[exp.If(this=_null_test(value.copy()), true=nulls[0])], default=found)


def _picked(name: str) -> Build:
    """Build CHOOSE(n, a, b), the first of them where n is 1."""

    def build(arguments: list[exp.Expr]) -> exp.Expr:
        place, *values = arguments
        if not values:
            return left_as_written(name, arguments)
        pairs = [(exp.Literal.number(n), value) for n, value in enumerate(values, start=1)]
        return _chosen(place, pairs, None)

    return build


def _place_of(arguments: list[exp.Expr]) -> exp.Expr:
    """Build MySQL's FIELD(x, a, b), the place of x among constants, or 0."""
    value, *items = arguments
    if not items or not all(isinstance(item, exp.Literal) for item in items):
        return left_as_written("FIELD", arguments)
    pairs = [(item, exp.Literal.number(n)) for n, item in enumerate(items, start=1)]
    return _chosen(value, pairs, exp.Literal.number(0))


def _first_that_holds(arguments: list[exp.Expr]) -> exp.Expr:
    """Build ClickHouse's multiIf(test, value, test, value, other)."""
    if len(arguments) % TWO == 0:
        return left_as_written("MULTIIF", arguments)
    *pairs, default = arguments
    ifs = [exp.If(this=t, true=v) for t, v in zip(pairs[::2], pairs[1::2], strict=True)]
    return exp.Case(ifs=ifs, default=default) if ifs else left_as_written("MULTIIF", arguments)


def _divided_or_zero(dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
    """Build Snowflake's DIV0, which is 0 where the divisor is, and NULL where either is NULL."""
    zero = exp.EQ(this=operand(divisor.copy()), expression=exp.Literal.number(0))
    none = exp.Case(
        ifs=[exp.If(this=exp.Not(this=_null_test(dividend.copy())), true=exp.Literal.number(0))]
    )
    return exp.Case(ifs=[exp.If(this=zero, true=none)], default=_divided(dividend, divisor))


def _divided_or_zero_null(dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
    """Build Snowflake's DIV0NULL, which is 0 where the divisor is 0 or NULL."""
    zero = exp.EQ(this=operand(divisor.copy()), expression=exp.Literal.number(0))
    none = exp.Or(this=zero, expression=_null_test(divisor.copy()))
    nothing = exp.Case(
        ifs=[exp.If(this=exp.Not(this=_null_test(dividend.copy())), true=exp.Literal.number(0))]
    )
    return exp.Case(ifs=[exp.If(this=none, true=nothing)], default=_divided(dividend, divisor))


def _connected(kind: type[exp.Expr]) -> Callable[[exp.Expr, exp.Expr], exp.Expr]:
    return lambda one, other: exp.Paren(
        this=kind(this=exp.Paren(this=one), expression=exp.Paren(this=other))
    )


# -- texts, lists and bits ------------------------------------------------------------------------


def _found_part(text: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """Build REGEXP_SUBSTR(s, '…'), which is NULL where there is no such part."""
    found = exp.RegexpExtract(this=text, expression=pattern, group=exp.Literal.number(0))
    return exp.Nullif(this=found, expression=exp.Literal.string(""))


def _length_of(listed: exp.Expr, dimension: exp.Expr) -> exp.Expr:
    if _whole(dimension) != 1:
        return left_as_written("ARRAY_LENGTH", [listed, dimension])
    return exp.Length(this=listed)


def _is_empty(text: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.EQ(this=operand(text), expression=exp.Literal.string("")))


def _split_by(mark: exp.Expr, text: exp.Expr) -> exp.Expr:
    return exp.Split(this=text, expression=mark)


def _held(listed: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.ArrayContains(this=listed, expression=value)


def _joined_by(kind: type[exp.Expr]) -> Callable[[exp.Expr, exp.Expr], exp.Expr]:
    return lambda one, other: exp.Paren(this=kind(this=operand(one), expression=operand(other)))


_BIT_STRINGS: Final = ("BITSTRING", "BITSTRING_AGG", "SET_BIT")


def _bit_at(value: exp.Expr, place: exp.Expr) -> exp.Expr:
    shifted = exp.BitwiseRightShift(this=operand(value), expression=operand(place))
    return exp.Paren(
        this=exp.BitwiseAnd(this=exp.Paren(this=shifted), expression=exp.Literal.number(1))
    )


def _bit_of_number(value: exp.Expr, place: exp.Expr) -> exp.Expr:
    """Build a number's bit; places of a bit string are counted from its other end."""
    strings = (cast.to.is_type(exp.DType.BIT) for cast in value.find_all(exp.Cast))
    made = any(call.name.upper() in _BIT_STRINGS for call in value.find_all(exp.Anonymous))
    if made or any(strings):
        return left_as_written("GET_BIT", [value, place])
    return _bit_at(value, place)


def _text_of_format(moment: exp.Expr, form: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="to_char", expressions=[moment, form])


def _by_directives(moment: exp.Expr, form: exp.Expr) -> exp.Expr:
    """Build ClickHouse's formatDateTime; its %M is minutes, or a month, by version."""
    if "%M" in (written_text(form) or "%M"):
        return left_as_written("FORMATDATETIME", [moment, form])
    return exp.Anonymous(this="date_format", expressions=[moment, form])


def _unquoted(value: exp.Expr) -> exp.Expr:
    """Build MySQL's JSON_UNQUOTE(JSON_EXTRACT(j, '$.a')), a part of JSON as a text."""
    if not isinstance(value, exp.JSONExtract):
        return left_as_written("JSON_UNQUOTE", [value])
    return _json_text(value.this, value.expression)


def _formatted_number(arguments: list[exp.Expr]) -> exp.Expr:
    """Build MySQL's FORMAT(x, 2), a text with commas; other calls are DuckDB's."""
    first, *rest = arguments
    places = _whole(rest[0]) if len(rest) == 1 else None
    if places is None or places > _MOST_PLACES:
        return exp.Format(this=first, expressions=rest)
    form = exp.Literal.string(f"{{:,.{places}f}}")
    rounded = exp.Round(this=first, decimals=exp.Literal.number(places))
    return exp.Format(this=form, expressions=[exp.cast(rounded, exp.DType.DOUBLE)])


_MOST_PLACES: Final = 9
_BITS: Final[Mapping[str, type[exp.Expr]]] = {
    **dict.fromkeys(("BITAND", "BITWISE_AND"), exp.BitwiseAnd),
    **dict.fromkeys(("BITOR", "BITWISE_OR"), exp.BitwiseOr),
    **dict.fromkeys(("BITXOR", "BITWISE_XOR"), exp.BitwiseXor),
    **dict.fromkeys(("BITSHIFTRIGHT", "SHIFTRIGHT"), exp.BitwiseRightShift),
    **dict.fromkeys(("BITSHIFTLEFT", "SHIFTLEFT"), exp.BitwiseLeftShift),
}

_BUILDS: Final[Mapping[str, Build]] = {
    **MOMENT_WORDS,
    "DECODE": twice("DECODE", _decoded),
    **{name: _picked(name) for name in ("CHOOSE", "ELT")},
    "FIELD": _place_of,
    "FORMAT": _formatted_number,
    "MULTIIF": _first_that_holds,
    "DIV0": twice("DIV0", by_number("DIV0", two=_divided_or_zero)),
    "DIV0NULL": twice("DIV0NULL", by_number("DIV0NULL", two=_divided_or_zero_null)),
    "BOOLAND": by_number("BOOLAND", two=_connected(exp.And)),
    "BOOLOR": by_number("BOOLOR", two=_connected(exp.Or)),
    "CARDINALITY": by_number("CARDINALITY", one=_called(exp.Length)),
    **{
        name: by_number(name, two=_joined_by(exp.ArrayContainsAll))
        for name in ("LIST_HAS_ALL", "ARRAY_HAS_ALL")
    },
    "INTDIV": by_number("INTDIV", two=_joined_by(exp.IntDiv)),
    "REGEXP_SUBSTR": by_number("REGEXP_SUBSTR", two=_found_part),
    "REGEXP_CONTAINS": by_number(
        "REGEXP_CONTAINS", two=lambda text, form: exp.RegexpLike(this=text, expression=form)
    ),
    "ARRAY_LENGTH": by_number("ARRAY_LENGTH", one=_called(exp.Length), two=_length_of),
    "EMPTY": by_number("EMPTY", one=_is_empty),
    "ARRAYJOIN": by_number("ARRAYJOIN", one=_called(exp.Explode)),
    "SPLITBYCHAR": by_number("SPLITBYCHAR", two=_split_by),
    "HAS": by_number("HAS", two=_held),
    **{name: by_number(name, two=_joined_by(kind)) for name, kind in _BITS.items()},
    "BIT_AND": by_number("BIT_AND", one=_called(exp.BitwiseAndAgg), two=_joined_by(exp.BitwiseAnd)),
    "BIT_OR": by_number("BIT_OR", one=_called(exp.BitwiseOrAgg), two=_joined_by(exp.BitwiseOr)),
    "BITTEST": by_number("BITTEST", two=_bit_at),
    "GETBIT": by_number("GETBIT", two=_bit_at),
    "GET_BIT": by_number("GET_BIT", two=_bit_of_number),
    "TO_VARCHAR": by_number("TO_VARCHAR", two=_text_of_format),
    "FORMATDATETIME": by_number("FORMATDATETIME", two=_by_directives),
    "JSON_UNQUOTE": by_number("JSON_UNQUOTE", one=_unquoted),
    "IFF": by_number("IFF", three=_choice),
    "ISNULL": by_number("ISNULL", one=_null_test, two=_filled),
    "NVL2": by_number("NVL2", three=_choice_by_null),
    "ZEROIFNULL": by_number("ZEROIFNULL", one=lambda value: _filled(value, _zero())),
    "SAFE_DIVIDE": by_number("SAFE_DIVIDE", two=_divided),
    **{
        name: by_number(name, two=_json_text)
        for name in (
            *("GET_JSON_OBJECT", "JSON_EXTRACT_PATH_TEXT", "JSON_EXTRACT_STRING"),
            "JSON_EXTRACT_SCALAR",
        )
    },
    **{
        name: by_number(name, two=_if(kind))
        for name, kind in (("SUMIF", exp.Sum), ("AVGIF", exp.Avg), ("MINIF", exp.Min))
    },
    "MAXIF": by_number("MAXIF", two=_if(exp.Max)),
    **{
        name: by_number(name, one=_called(exp.ApproxDistinct))
        for name in ("UNIQ", "UNIQCOMBINED", "UNIQHLL12", "HLL")
    },
    "TOTAL": by_number("TOTAL", one=lambda value: _filled(exp.Sum(this=value), _zero())),
    "UNIQEXACT": by_number(
        "UNIQEXACT", one=lambda value: exp.Count(this=exp.Distinct(expressions=[value]))
    ),
    "TRY_TO_NUMBER": by_number(
        "TRY_TO_NUMBER", one=lambda text: exp.TryCast(this=text, to=exp.DataType.build("BIGINT"))
    ),
    "COUNT_BIG": by_number("COUNT_BIG", one=_called(exp.Count)),
    "SIZE": by_number("SIZE", one=_called(exp.Length)),
    "BIT_COUNT": by_number("BIT_COUNT", one=_called(BitCount)),
    "CHR": by_number("CHR", one=_called(Character)),
    "SQUARE": by_number("SQUARE", one=_square),
    "SUBSTRING_INDEX": by_number("SUBSTRING_INDEX", three=_end_part),
    "VAR": by_number("VAR", one=_called(exp.Variance)),
    "VARP": by_number("VARP", one=_called(exp.VariancePop)),
    "STD": by_number(
        "STD", one=_called(exp.Stddev)
    ),  # of a sample, but in MySQL; docs/sql.md says so
    "EVERY": by_number("EVERY", one=_called(exp.LogicalAnd)),
    "STDEVP": by_number("STDEVP", one=_called(exp.StddevPop)),
    "NDV": by_number("NDV", one=_called(exp.ApproxDistinct)),
    "APPROX_MEDIAN": by_number("APPROX_MEDIAN", one=_called(exp.Median)),
    **{
        name: by_number(name, two=_quantile, three=_quantile)
        for name in ("APPROX_PERCENTILE", "PERCENTILE_APPROX", "RESERVOIR_QUANTILE")
    },
    **{name: by_number(name, one=_called(exp.Sum)) for name in ("FSUM", "KAHAN_SUM", "SUMKAHAN")},
    "FAVG": by_number("FAVG", one=_called(exp.Avg)),
    **{name: twice(name, by_number(name, two=_weighted)) for name in ("WEIGHTED_AVG", "WAVG")},
    **{name: by_number(name, one=_geometric_mean) for name in ("GEOMEAN", "GEOMETRIC_MEAN")},
}


def _marked(build: Build) -> Build:
    def marked(arguments: list[exp.Expr]) -> exp.Expr:
        found = build(arguments)
        found.meta.setdefault(READ_WHOLE, True)
        return found

    return marked


OTHER_WORDS: Final[Mapping[str, Build]] = {name: _marked(each) for name, each in _BUILDS.items()}
"""Builders of calls by the name of the function, in upper case."""


def settle_quantile_lists(tree: exp.Expr) -> None:
    """Read one of a list of quantiles as that quantile; ``tree`` is changed.

    ``APPROX_QUANTILES(x, 4)[OFFSET(1)]`` is the first of the three that divide rows in four, and
    ``QUANTILE_CONT(x, [0.5, 0.9])[1]`` that of 0.5.
    """
    for bracket in list(tree.find_all(exp.Bracket)):
        listed = bracket.this.unnest()
        match bracket.expressions:
            case [exp.Literal() | exp.Neg()] if type(listed) in _LISTED_IN:
                _settle_one_of(bracket, listed)
                continue
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


def _settle_one_of(bracket: exp.Expr, call: exp.Expr) -> None:
    """Replace an element of a list of quantiles by its quantile."""
    listed, place = call.args.get(_LISTED_IN[type(call)]), _place(bracket.expressions[0])
    if not isinstance(listed, exp.Array) or not place:
        return
    if abs(place) <= len(listed.expressions):
        call.set(_LISTED_IN[type(call)], listed.expressions[place - 1 if place > 0 else place])
        bracket.replace(call)


def _place(node: exp.Expr) -> int | None:
    number = _whole(node.this if isinstance(node, exp.Neg) else node)
    return number if number is None or not isinstance(node, exp.Neg) else -number


_LISTED_IN: Final[Mapping[type[exp.Expr], str]] = {
    exp.Quantile: "quantile",
    exp.ApproxQuantile: "quantile",
    exp.PercentileCont: "expression",
    exp.PercentileDisc: "expression",
}
_FIRST: Final = {"OFFSET": 0, "ORDINAL": 1}


def _whole(node: exp.Expr | None) -> int | None:
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def settle_memberships(tree: exp.Expr) -> None:
    """Read MySQL's ``FIND_IN_SET(x, s) > 0`` as membership in a list; ``tree`` is changed."""
    for test in list(tree.find_all(exp.GT, exp.NEQ)):
        call, zero = test.this, test.expression
        named = isinstance(call, exp.Anonymous) and fold(call.name) == "find_in_set"
        if named and len(call.expressions) == TWO and _whole(zero) == 0:
            value, text = call.expressions
            if constant := written_text(text):
                items = [exp.Literal.string(item) for item in constant.split(",")]
                test.replace(exp.In(this=operand(value), expressions=items))
                continue
            listed = exp.Split(this=text, expression=exp.Literal.string(","))
            test.replace(exp.ArrayContains(this=listed, expression=value))


def settle_patterns(tree: exp.Expr) -> None:
    """Read T-SQL's ``PATINDEX('%a', s) > 0`` as LIKE; ``tree`` is changed."""
    for test in list(tree.find_all(exp.GT, exp.NEQ)):
        call, zero = test.this, test.expression
        named = isinstance(call, exp.Anonymous) and fold(call.name) == "patindex"
        if named and len(call.expressions) == TWO and _whole(zero) == 0:
            pattern, value = call.expressions
            constant = written_text(pattern)
            if constant and not set(constant) & set("[]\\"):
                test.replace(exp.Like(this=operand(value), expression=pattern))


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


def settle_elements(tree: exp.Expr) -> None:
    """Read ``x IN (SELECT UNNEST(l))`` as ``x = ANY (l)``; ``tree`` is changed."""
    for test in list(tree.find_all(exp.In)):
        query = test.args.get("query")
        select = query.this if isinstance(query, exp.Subquery) and _ALONE.hold(query) else None
        if not isinstance(select, exp.Select) or not _LISTED.hold(select):
            continue
        listed = select.expressions[0] if len(select.expressions) == 1 else None
        if isinstance(listed, exp.Explode) and _ALONE.hold(listed):
            test.replace(exp.EQ(this=operand(test.this), expression=exp.Any(this=listed.this)))


_ALONE: Final = NodeArguments("this")
_LISTED: Final = NodeArguments("expressions")
