"""Functions of a row's values that need no rule of their own: a line each, for all engines.

A line says what holds on every engine: the parser's classes, what the function takes, the type that
DuckDB gives it, and between which numbers it lies. From it follow what may stand in an expression,
ranges and types, the calls that surveys compare, completion, and the table of the docs. How an
engine writes it stands in that engine's table of operations, under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from dpsql.core.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TINYINT, VARCHAR, SqlType
from dpsql.syntax.moment_formats import DIRECTIVES

MOMENTS: Final = ("DATE", "TIMESTAMP")
TEXTS: Final = ("VARCHAR",)
WHOLE_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
PATTERNS_TRIED: Final = (
    *("a", "", "^a", "a$", "^$", ".", "a.c", "x+", "^[^0-9]+$", "[a-c]{2,3}", "ß|(ä|b)b?$"),
    *("^[+-]?\\d+(\\.\\d+)?$", "^\\w+\\s", "[\\]\\[\\^&-]", "\\$\\{.\\}", "é?😀", "^%|_|\\\\"),
)
"""Regular expressions that surveys compare."""
PATHS_TRIED: Final = ('$."a"', "$[0]", '$."a"[0]."c"')
"""Paths into JSON that surveys compare, in their one spelling."""
ANY_NUMBERS: Final = ("NUMBERS",)
"""All that become DOUBLE without a way to fail."""


class Character(exp.Expression, exp.Func):
    """``chr(65)``: the parser's own class takes many, of other sets of characters."""

    arg_types = {"this": True}  # noqa: RUF012 (sqlglot's convention)
    _sql_names = ["CHR"]  # noqa: RUF012


class BitCount(exp.Expression, exp.Func):
    """``bit_count(n)``, which the parser knows by no class."""

    arg_types = {"this": True}  # noqa: RUF012
    _sql_names = ["BIT_COUNT"]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function of operands of some kinds, with the type of its result.

    ``beside`` is what surveys put beside column ``a``, where it has more than one operand:
    constants, and column ``b``. ``reads`` names the parser's arguments, as
    :mod:`dpsql.syntax.arguments` writes them; those after the first are ``constant`` where engines
    must see them while planning. A part of a date may have other names; EXTRACT knows it by
    ``parts``.
    """

    name: str
    nodes: tuple[type[exp.Expr], ...]
    takes: tuple[str, ...]
    gives: SqlType
    beside: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    between: tuple[float, float] | None = None
    reads: str = "this"
    constant: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """The parser's names of the operands."""
        return tuple(name for name in self.reads.split() if not name.endswith("?"))


def _part(
    name: str,
    *nodes: type[exp.Expr],
    takes: tuple[str, ...] = MOMENTS,
    also: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    between: tuple[float, float] | None = None,
) -> RowFunction:
    """Describe a part of a date, which EXTRACT knows by all names of its functions, and others."""
    names = (name, *also, *parts)
    return RowFunction(name, nodes, takes, BIGINT, (), also, names, between)


DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
"""The names of days, from day 0 of ``dayofweek``."""
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_TWO: Final = "this expression"
_ROW_FUNCTIONS: Final = (
    _part("year", exp.Year),
    _part("quarter", exp.Quarter, between=(1, 4)),
    _part("month", exp.Month, between=(1, 12)),
    _part("week", exp.Week, exp.WeekOfYear, also=("weekofyear",), between=(1, 53)),
    _part("day", exp.Day, exp.DayOfMonth, also=("dayofmonth",), between=(1, 31)),
    _part("dayofyear", exp.DayOfYear, parts=("doy",), between=(1, 366)),
    _part("dayofweek", exp.DayOfWeek, parts=("dow", "weekday"), between=(0, 6)),
    _part("isodow", exp.DayOfWeekIso, between=(1, 7)),
    _part("isoyear"),
    _part("yearweek"),
    _part("hour", exp.Hour, takes=("TIMESTAMP",), between=(0, 23)),
    _part("minute", exp.Minute, takes=("TIMESTAMP",), between=(0, 59)),
    _part("second", exp.Second, takes=("TIMESTAMP",), between=(0, 59)),
    RowFunction("dayname", (exp.Dayname,), MOMENTS, VARCHAR),
    RowFunction("monthname", (exp.Monthname,), MOMENTS, VARCHAR),
    RowFunction("last_day", (exp.LastDay,), MOMENTS, DATE),
    RowFunction("length", (exp.Length,), TEXTS, BIGINT),
    RowFunction("lower", (exp.Lower,), TEXTS, VARCHAR),
    RowFunction("upper", (exp.Upper,), TEXTS, VARCHAR),
    RowFunction("reverse", (exp.Reverse,), TEXTS, VARCHAR),
    RowFunction("ascii", (exp.Ascii,), TEXTS, INTEGER, between=(0, 0x10FFFF)),
    RowFunction("unicode", (exp.Unicode,), TEXTS, INTEGER, between=(-1, 0x10FFFF)),
    RowFunction("contains", (exp.Contains,), TEXTS, BOOLEAN, ("'a'", "''", "b"), reads=_TWO),
    RowFunction("starts_with", (exp.StartsWith,), TEXTS, BOOLEAN, ("'a'", "''", "b"), reads=_TWO),
    RowFunction("ends_with", (exp.EndsWith,), TEXTS, BOOLEAN, ("'a'", "''", "b"), reads=_TWO),
    RowFunction(
        *("strpos", (exp.StrPosition,), TEXTS, BIGINT, ("'a'", "''", "b")), reads="this substr"
    ),
    RowFunction(
        *("replace", (exp.Replace,), TEXTS, VARCHAR, ("'a', 'xyz'", "'', 'x'", "'ß', ''")),
        reads="this expression replacement",
        constant=True,
    ),
    RowFunction(
        *("split_part", (exp.SplitPart,), TEXTS, VARCHAR, ("'a', 1", "' ', 2", "'b', 3")),
        reads="this delimiter part_index",
        constant=True,
    ),
    RowFunction("md5", (exp.MD5,), TEXTS, VARCHAR),
    RowFunction("sha256", (exp.SHA2,), TEXTS, VARCHAR),
    RowFunction("epoch", (exp.TimeToUnix,), MOMENTS, DOUBLE, parts=("epoch",)),
    RowFunction(
        *("make_date", (exp.DateFromParts,), WHOLE_NUMBERS, DATE, ("2, 29", "b, 1", "1, b")),
        reads="year month day",
    ),
    RowFunction(
        *("strftime", (exp.TimeToStr,), MOMENTS, VARCHAR),
        tuple(f"'{text}'" for text in ("%Y-%m-%d %H:%M:%S.%f", *DIRECTIVES, "a%%'' \\ é%Y")),
        reads="this format",
        constant=True,
    ),
    RowFunction(
        *("regexp_matches", (exp.RegexpLike,), TEXTS, BOOLEAN),
        tuple(f"'{pattern}'" for pattern in PATTERNS_TRIED),
        reads=_TWO,
        constant=True,
    ),
    RowFunction(
        *("regexp_extract", (exp.RegexpExtract,), TEXTS, VARCHAR),
        ("'[0-9]+', 0", "'a([b-z]+)', 1", "'x|y', 0", "'^[^ ]', 0", "'[0-9]{4}-[0-9]{1,2}', 0"),
        reads="this expression group null_if_pos_overflow?",
        constant=True,
    ),
    RowFunction(
        *("regexp_replace", (exp.RegexpReplace,), TEXTS, VARCHAR),
        ("'[^0-9]', '', 'g'", "'a+', 'x', ''", "' +', '--', 'g'", "'ß|.', '$1', 'g'"),
        reads="this expression replacement modifiers single_replace?",
        constant=True,
    ),
    RowFunction(
        *("json_extract_string", (exp.JSONExtractScalar,), TEXTS, VARCHAR),
        tuple(f"'{path}'" for path in PATHS_TRIED),
        reads="this expression only_json_types? scalar_only?",
        constant=True,
    ),
    RowFunction("isnan", (exp.IsNan,), ("DOUBLE",), BOOLEAN),
    RowFunction("sqrt", (exp.Sqrt,), ANY_NUMBERS, DOUBLE),
    RowFunction("exp", (exp.Exp,), ANY_NUMBERS, DOUBLE),
    RowFunction("ln", (exp.Ln,), ANY_NUMBERS, DOUBLE),
    RowFunction("pow", (exp.Pow,), ANY_NUMBERS, DOUBLE, ("2", "0.5", "b"), reads=_TWO),
    RowFunction("sin", (exp.Sin,), ANY_NUMBERS, DOUBLE),
    RowFunction("cos", (exp.Cos,), ANY_NUMBERS, DOUBLE),
    RowFunction("tan", (exp.Tan,), ANY_NUMBERS, DOUBLE),
    RowFunction("asin", (exp.Asin,), ANY_NUMBERS, DOUBLE),
    RowFunction("acos", (exp.Acos,), ANY_NUMBERS, DOUBLE),
    RowFunction("atan", (exp.Atan,), ANY_NUMBERS, DOUBLE),
    RowFunction("atan2", (exp.Atan2,), ANY_NUMBERS, DOUBLE, ("2", "-1", "b"), reads=_TWO),
    RowFunction("cbrt", (exp.Cbrt,), ANY_NUMBERS, DOUBLE),
    RowFunction("bit_count", (BitCount,), WHOLE_NUMBERS, TINYINT, between=(0, 64)),
    RowFunction("chr", (Character,), WHOLE_NUMBERS, VARCHAR),
    RowFunction("hex", (exp.Hex,), WHOLE_NUMBERS, VARCHAR, reads="this"),
    RowFunction(
        *("levenshtein", (exp.Levenshtein,), TEXTS, BIGINT, ("'Lyon'", "''")),
        reads=_TWO,
        constant=True,
    ),
)
ROW_FUNCTIONS: Final[Mapping[type[exp.Expr], RowFunction]] = MappingProxyType(
    {node: function for function in _ROW_FUNCTIONS for node in function.nodes}
)
"""Functions by the parser's classes; parts of moments without one are known to EXTRACT alone."""
PARTS: Final[Mapping[str, RowFunction]] = MappingProxyType(
    {part: function for function in _ROW_FUNCTIONS for part in function.parts}
)
"""What EXTRACT computes, by the name of the part."""


def nodes_giving(type_: SqlType) -> tuple[type[exp.Expr], ...]:
    """Return the classes of functions whose results are of a type."""
    return tuple(node for node, function in ROW_FUNCTIONS.items() if function.gives == type_)


def nodes_giving_integers() -> tuple[type[exp.Expr], ...]:
    """Return the classes of functions whose results are of an integer type."""
    return tuple(node for node, function in ROW_FUNCTIONS.items() if function.gives.is_integer)
