"""Edge values of types: what functions fail on, or differ in, if they do on anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from functools import cache
from typing import Any, Final, TypeAlias

from duckdb.sqltypes import DuckDBPyType

from dpsql.core.sql import Sql, digits, join, literal, name, sql
from dpsql.core.sql_types import DATE, INTEGER_BITS, TIMESTAMP, SqlType
from dpsql.errors import InternalError

_NULL: Final = sql("NULL")
Edge: TypeAlias = "str | Sql"
"""A value of a type: the text that is cast to it, or SQL where none can be."""
_TEXTS = (
    *("", " ", "a", "ä", "ß", "\u0130", "e\u0301", "\U0001f600", "\x00", "%", "_", "\\", "a%\\"),
    *("1", "-1", " 7 ", "0x1F"),
    *("9" * 400, "1e400", "-1e400", "1e-400", "NaN", "inf", "-inf", "true", "0.5", "1_000"),
    *("2024-13-45", "2024-02-29", "24:00:00", "infinity", "5877642-06-25 (BC)", "5881580-07-10"),
    *("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806", "00:00:00+15:59:59"),
    *("[1]", '{"a":1}', "178956970 years", "2024-01-01 00:00:00 Nowhere/City", "x" * 20_000),
)
_NESTED: Final = frozenset({"list", "array", "map", "struct", "union"})
TEMPORAL_RANGES: Final[Mapping[str, tuple[str, str]]] = {
    "DATE": ("5877642-06-25 (BC)", "5881580-07-10"),
    "TIME": ("00:00:00", "24:00:00"),
    "TIME_NS": ("00:00:00", "24:00:00"),
    "TIMESTAMP": ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"),
    "TIMESTAMP WITH TIME ZONE": (
        "290309-12-22 (BC) 00:00:00+00",
        "294247-01-10 04:00:54.775806+00",
    ),
    "TIMESTAMP_S": ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54"),
    "TIMESTAMP_MS": ("290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775"),
    "TIMESTAMP_NS": ("1677-09-22 00:00:00", "2262-04-11 23:47:16.854775806"),
}
"""The first and the last value of a type that has a text, infinite ones apart."""
DECIMALS: Final = tuple(
    SqlType.decimal(*size) for size in ((4, 1), (9, 0), (18, 3), (38, 0), (38, 38))
)


def _integers(type_: SqlType) -> list[str]:
    low, high = type_.ends
    return list(map(str, (low, -1, 0, 1, high) if low else (0, 1, high // 2 + 1, high)))


def _decimals(type_: SqlType) -> list[str]:
    width, scale = type_.digits
    most = ("9" * (width - scale) or "0") + ("." + "9" * scale if scale else "")
    return [f"-{most}", "-0.5" if scale else "-1", "0", most]


def _edges() -> dict[SqlType, tuple[Edge, ...]]:
    """List the extremes of each type, as texts that are cast to it."""
    huge = ["9223372036854775808", "1.7014118346046923e38", "3.4e38", "127.5", "2147483647.5"]
    floats = ["nan", "inf", "-inf", "-0.0", "0", "0.5", "-1.5", "2.5"]
    dates = ["infinity", "-infinity", *TEMPORAL_RANGES["DATE"], "1970-01-01"]
    dates += ["2024-02-29", "0001-01-01 (BC)", "1582-10-10"]
    moments = ["infinity", "-infinity", "1970-01-01", "2024-02-29 23:59:59.999999"]
    found: dict[SqlType, Sequence[Edge]] = {t: _integers(t) for t in map(SqlType.of, INTEGER_BITS)}
    found |= {type_: _decimals(type_) for type_ in DECIMALS}
    others: dict[str, Sequence[Edge]] = {
        "DOUBLE": [*floats, *huge, "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324"],
        "FLOAT": [*floats, "3.4028235e38", "-3.4028235e38", "1e-45"],
        "BOOLEAN": ["true", "false"],
        "VARCHAR": _TEXTS,
        "JSON": ["null", "1", '"a"', "[1]", '{"a":[1e400]}', "true"],
        "BLOB": ["", "a", "\\x00\\xFF", "9" * 50],
        "BIT": ["0", "1", "10" * 100],
        "UUID": ["0" * 32, "f" * 32],
        "BIGNUM": ["0", "-1", "9" * 300],
        "DATE": dates,
        "TIME": ["00:00:00", "12:34:56.789", "23:59:59.999999", "24:00:00"],
        "TIME_NS": ["00:00:00", "23:59:59.999999999", "24:00:00"],
        "TIME WITH TIME ZONE": ["00:00:00+15:59:59", "24:00:00-15:59:59", "12:00:00+00"],
        "TIMESTAMP": [
            *moments,
            *TEMPORAL_RANGES["TIMESTAMP"],
            sql("make_timestamp({})", 2**63 - 2),
        ],
        "TIMESTAMP WITH TIME ZONE": [*moments, *TEMPORAL_RANGES["TIMESTAMP WITH TIME ZONE"]],
        "TIMESTAMP_S": [*moments[:3], *TEMPORAL_RANGES["TIMESTAMP_S"]],
        "TIMESTAMP_MS": [*moments[:3], *TEMPORAL_RANGES["TIMESTAMP_MS"]],
        "TIMESTAMP_NS": [*moments[:3], *TEMPORAL_RANGES["TIMESTAMP_NS"]],
        "INTERVAL": [
            *("0 days", "1 month", "-1 day", "178956970 years", "-178956970 years"),
            *("2147483647 days", "-2147483648 days", "30 days", "720 hours", "1 microsecond"),
            *(sql("to_microseconds({})", digits(end)) for end in (2**63 - 1, 1 - 2**63)),
            sql(
                "to_years(178956970) + to_days(2147483647) + to_microseconds({})",
                digits(2**63 - 1),
            ),
            sql(
                "to_years(-178956970) + to_days(-2147483647) + to_microseconds({})",
                digits(1 - 2**63),
            ),
        ],
        "INTEGER[]": ["[]", "[NULL]", "[1, 2147483647]"],
        "VARCHAR[]": ["[]", "[NULL]", "[a, '']"],
        "INTEGER[2]": ["[1, NULL]", "[2147483647, -1]"],
        "STRUCT(a INTEGER)": ["{'a': NULL}", "{'a': 1}"],
        "UNION(a INTEGER, b VARCHAR)": [
            sql("union_value(a := 1)::UNION(a INTEGER, b VARCHAR)"),
            sql("union_value(b := '')::UNION(a INTEGER, b VARCHAR)"),
        ],
        "MAP(VARCHAR, INTEGER)": ["{}", "{a=1}", "{a=NULL}"],
    }
    found |= {SqlType.of(text): values for text, values in others.items()}
    return {type_: tuple(values) for type_, values in found.items()}


EDGES: Final = _edges()
"""Type -> values at the ends of its range and around, for :func:`edge_sql`."""
SCALARS: Final = tuple(type_ for type_ in EDGES if not type_.is_nested)
"""The types of ``EDGES`` that are not nested."""


def edge_sql(edge: Edge, type_: SqlType) -> Sql:
    """Write an edge value as SQL of its type."""
    if isinstance(edge, Sql):
        return sql("({})", edge)
    return sql("CAST({} AS {})", literal(edge), type_.sql)


@cache
def edge_values(type_: SqlType) -> tuple[Sql, ...]:
    """Return the edge values of a column's type, each as SQL of that type.

    Those of nested types are made of their parts'. Raises ``InternalError`` for a type of which no
    edges are known: what is computed of it could not be tried.
    """
    found = DuckDBPyType(type_.text)
    values = _nested(found) if found.id in _NESTED else _scalars(SqlType.of(str(found)))
    if not values:
        raise InternalError("a type has no values to try things on", code="not_tried")
    return values


def _values_of(part: object) -> tuple[Sql, ...]:
    return edge_values(SqlType.of(str(part)))


def _scalars(type_: SqlType) -> tuple[Sql, ...]:
    edges = _decimals(type_) if type_.is_decimal else EDGES.get(type_, ())
    return tuple(edge_sql(edge, type_) for edge in edges)


def _nested(type_: DuckDBPyType) -> tuple[Sql, ...]:
    parts: list[tuple[str, Any]] = list(type_.children)
    known = dict(parts)
    match type_.id:
        case "list":
            child = _values_of(known["child"])
            made = [_list(()), _list([_NULL]), _list([*child, _NULL]), *(_list([c]) for c in child)]
        case "array":
            child = (*_values_of(known["child"]), _NULL)
            size = int(known["size"])
            starts = range(0, max(1, len(child)), min(size, len(child)))
            made = [_list(_turned(child, start, size)) for start in starts]
        case "map":
            keys, values = (_values_of(known[part]) for part in ("key", "value"))
            pairs = [(key, values[place % len(values)]) for place, key in enumerate(keys)]
            pairs += [(keys[0], value) for value in (*values, _NULL)]
            made = [sql("MAP {{}}"), *(sql("MAP {{{}: {}}}", *pair) for pair in pairs)]
        case "struct":
            members = [(each, (*_values_of(member), _NULL)) for each, member in parts]
            rows = range(max(len(values) for _, values in members))
            made = [_struct(members, row) for row in rows]
        case _:  # a union, whose first part is its tag
            made = [
                sql("union_value({} := {})", name(each), value)
                for each, member in parts[1:]
                for value in (*_values_of(member), _null_of(SqlType.of(str(member))))
            ]
    return tuple(sql("CAST({} AS {})", each, SqlType.of(str(type_)).sql) for each in made)


def _list(values: Iterable[Sql]) -> Sql:
    return sql("[{}]", join(", ", values))


def _null_of(type_: SqlType) -> Sql:
    return sql("CAST(NULL AS {})", type_.sql)


def _turned(values: Sequence[Sql], start: int, size: int) -> Iterator[Sql]:
    return (values[(start + place) % len(values)] for place in range(size))


def _struct(members: Sequence[tuple[str, Sequence[Sql]]], row: int) -> Sql:
    fields = (sql("{}: {}", literal(each), values[row % len(values)]) for each, values in members)
    return sql("{{{}}}", join(", ", fields))


_LONGEST: Final = 500  # characters of a constant in a statement
_POWERS: Final = (*range(-12, 40, 3), 100, 300)


def trial_edges(type_: SqlType) -> tuple[str, ...]:
    """Return texts of edge values that any engine may read as constants of a type.

    One that an engine has no such value for is its own business. Doubles are of all sizes, so that
    one of them is where a product with a constant leaves what an operation can hold.
    """
    known = _decimals(type_) if type_.is_decimal else EDGES.get(type_, ())
    found = [edge for edge in known if isinstance(edge, str)]
    if type_.is_float:
        found += [f"{sign}{size}e{power}" for power in _POWERS for sign, size in _SIZES]
    if type_ in (DATE, TIMESTAMP):
        found += _CALENDAR
    return tuple(edge for edge in found if len(edge) <= _LONGEST)


_SIZES: Final = (("", "1.5"), ("-", "9.5"))
_CALENDAR: Final = ("0001-01-01", "9999-12-31", "2000-02-29", "2021-01-03", "1969-12-31 23:59:59")


# -- what engines are compared on -----------------------------------------------------------------

DECIMAL_SIZES: Final = (
    *((1, 0), (1, 1), (4, 0), (4, 1), (4, 4)),
    *((5, 2), (9, 0), (9, 9)),
    *((10, 2), (10, 5), (12, 2), (18, 0), (18, 3), (18, 18)),
    *((19, 4), (38, 0), (38, 10), (38, 38)),
)
"""Widths and scales at the ends of what is stored alike, and some between."""
_EXACT: Final = Context(prec=100)


def _compared_decimals(width: int, scale: int) -> tuple[str, ...]:
    """List the ends of a decimal, the least step, halves, and what doubles just hold."""
    most = _EXACT.subtract(Decimal(10) ** (width - scale), Decimal(10) ** -scale)
    ends = [most, Decimal(10) ** -scale]
    ends += map(Decimal, ("0", "0.5", "2.5", "1.55", "1", "7", "9007199254740993"))
    ends += map(Decimal, ("0.49", "9223372036854775808", "1234567890123456789012345678.0123456789"))
    found: dict[str, None] = {}
    for end in (end for each in ends for end in (each, each.copy_negate())):
        fits = end.copy_abs() < Decimal(10) ** (width - scale)
        if fits and end == _EXACT.quantize(end, Decimal(10) ** -scale):
            found[f"{end:f}"] = None
    return tuple(found)


_SPACES: Final = "".join(
    map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000))
)
_COMPARED: Final[Mapping[str, Sequence[str]]] = {
    "BOOLEAN": ("true", "false"),
    "SMALLINT": ("-32768", "-1", "0", "1", "2", "7", "32767"),
    "INTEGER": (
        *("-2147483648", "-7", "-1", "0", "1", "2", "3", "7", "46341", "100000", "2147483647"),
    ),
    "BIGINT": (
        *("-9223372036854775808", "-9223372036854775807", "-9007199254740993", "-7", "-1", "0"),
        *("1", "2", "3", "2147483648", "3037000500", "9007199254740992", "9007199254740993"),
        "9223372036854775807",
    ),
    "FLOAT": ("NaN", "Infinity", "-Infinity", "-0.0", "0", "0.1", "-1.5", "3.4028235e38", "1e-45"),
    "DOUBLE": (
        *("NaN", "Infinity", "-Infinity", "-0.0", "0", "0.5", "-0.5", "1.5", "2.5", "-2.5", "1"),
        *("-1", "3", "-7", "0.1", "-0.1", "0.49999999999999994", "0.00005", "2.675", "9.95"),
        *("127.5", "709.5", "-744.4", "999.95", "99999.5", "123456789.125", "2147483647.5"),
        *("-2147483648.5", "4503599627370495.5", "9007199254740993", "-9007199254740992"),
        *("9223372036854775808", "-9223372036854775808", "1e9", "1e15", "1e16", "1e22", "1e24"),
        *("-1e25", "1e31", "-1e31", "1.0141204801825835e31", "1.5e32", "-1.5e32", "1.1e33"),
        *("-7e36", "1.3e37", "9.9999e37", "1e38", "-1e38", "1.7e38", "1e200", "1e-200", "1e308"),
        *("-1e308", "1.7976931348623157e308", "1e-300", "1e-310", "5e-324"),
    ),
    **{f"DECIMAL({w},{s})": _compared_decimals(w, s) for w, s in DECIMAL_SIZES},
    "VARCHAR": (
        *("", " ", "a", "A", "ab", "abcabc", "zzz", "ä", "Ä", "ß", "straße", "İ", "i̇", "Σ", "ς"),
        *(
            "é",
            "e\u0301",
            "😀",
            "%",
            "_",
            "a%b",
            "a_b",
            "\\",
            "a%\\",
            "a\\b",
            "'",
            '"',
            "$",
            "${x}",
        ),
        *(f"{_SPACES}x{_SPACES}", "\u2003 7\xa0", "\u200bx\ufeff", "\x85x\u2028", _SPACES),
        *("\t7", "7\n", "\t x \n", "a\nb", "x\u0000y", "x" * 3000, "--", "null", "epoch"),
        *("1", "-1", "+5", " 7 ", "1 2", "1e3", "1e", "1.5", "2.5", "-2.5", "-0.5", ".5", "5."),
        *("7.", "1_000", "0x1F", "1.5f", "1d", "9" * 30, "1e400", "-1e400", "1e-400", "1e99999"),
        *("2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
        *("true", "NaN", "inf", "-Infinity", "2024", "2024-02-29", "2023-02-29", "2024-2-9"),
        *("2024/02/29", " 2024-02-29 ", "2024-13-01", "0001-01-01", "9999-12-31", "12345-01-01"),
        *("2024-02-29 23:59:59", "2024-02-29T23:59:59.25", "2024-02-29 25:00:00"),
        "2024-02-29 10:00",
    ),
    "DATE": (
        *("0001-01-01", "0099-12-31", "1582-10-10", "1900-01-01", "1969-12-31", "1970-01-01"),
        *("1999-12-31", "2000-02-29", "2020-12-31", "2021-01-03", "2023-01-01", "2023-12-31"),
        *("2024-01-01", "2024-02-29", "2024-12-30", "2024-12-31", "9999-12-31"),
    ),
    "TIMESTAMP": (
        *("0001-01-01 00:00:00", "1582-10-10 12:00:00", "1900-03-01 10:20:30"),
        *("1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2000-02-29 12:34:56.789"),
        *("2020-12-28 07:00:00.5", "2021-01-03 00:00:00", "2021-03-28 02:30:00"),
        *("2024-01-31 23:59:59.999999", "2024-02-29 23:59:59.999999", "2024-12-30 00:00:00.5"),
        "9999-12-31 23:59:59.999999",
    ),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "TIME": ("00:00:00", "12:34:56.789", "23:59:59.999999"),
}
COMPARED: Final[Mapping[SqlType, Sequence[str]]] = {
    SqlType.of(text): values for text, values in _COMPARED.items()
}
"""Type -> texts of values on which servers are compared with DuckDB.

Beside the ends of types: where rounding turns, where a DOUBLE no longer holds integers, texts that
some engines read as numbers or dates, letters that some write otherwise. Dates are those of the
years 1 to 9999: others are NULL where a server's tables are read.
"""


# Ordered by the moment that it is, of which many are one.
_ZONED: Final = SqlType.of("TIME WITH TIME ZONE")
_COMMON: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DECIMAL"})
_INFINITE: Final = (literal("infinity"), literal("-infinity"))


def is_common(type_: SqlType) -> bool:
    """Tell whether conditions on columns of a type usually narrow down which rows are read."""
    return type_.kind in _COMMON


def is_stored_wider(type_: SqlType) -> bool:
    """Tell whether storage can hold values of a type that it should not have.

    Moments are stored as integers, and so are decimals: others' files hold any of them.
    """
    return type_.is_temporal or type_.kind == "DECIMAL"


def beyond(value: Sql, type_: SqlType) -> Sql:
    """Write the condition that a value is none of its type, for statistics to rule out."""
    if type_ == _ZONED:
        return beyond(sql("CAST({} AS TIME)", value), SqlType.of("TIME"))
    first, last = (edge_sql(end, type_) for end in _ends(type_))
    outside = sql("({value} < {} OR {value} > {})", first, last, value=value)
    if not type_.is_moment:
        return outside
    known = join(", ", (sql("CAST({} AS {})", each, type_.sql) for each in _INFINITE))
    return sql("({} AND {} NOT IN ({}))", outside, value, known)


def _ends(type_: SqlType) -> tuple[str, str]:
    """Return the first and the last value of a type that storage may exceed, as texts."""
    if type_.kind != "DECIMAL":
        return TEMPORAL_RANGES[type_.kind]
    first, *_, last = _decimals(type_)
    return first, last


def within(value: Sql, type_: SqlType) -> Sql:
    """Write a value that is NULL where it is none of its type."""
    return sql("CASE WHEN NOT {} THEN {} END", beyond(value, type_), value)
