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

from dpsql.core.sql_types import BIGINT, BOOLEAN, DATE, DOUBLE, VARCHAR, SqlType

MOMENTS: Final = ("DATE", "TIMESTAMP")
TEXTS: Final = ("VARCHAR",)
ANY_NUMBERS: Final = ("NUMBERS",)
"""All that become DOUBLE without a way to fail."""


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function of one or two operands of some kinds, with the type of its result.

    ``beside`` is what surveys put beside column ``a``, where it has two operands: constants, and
    column ``b``. A part of a date may have other names; EXTRACT knows it by ``parts``.
    """

    name: str
    nodes: tuple[type[exp.Expr], ...]
    takes: tuple[str, ...]
    gives: SqlType
    beside: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    between: tuple[float, float] | None = None


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
_ROW_FUNCTIONS: Final = (
    _part("year", exp.Year),
    _part("quarter", exp.Quarter, between=(1, 4)),
    _part("month", exp.Month, between=(1, 12)),
    _part("week", exp.Week, exp.WeekOfYear, also=("weekofyear",), between=(1, 53)),
    _part("day", exp.Day, exp.DayOfMonth, also=("dayofmonth",), between=(1, 31)),
    _part("dayofyear", exp.DayOfYear, parts=("doy",), between=(1, 366)),
    _part("dayofweek", exp.DayOfWeek, parts=("dow", "weekday"), between=(0, 6)),
    _part("isodow", exp.DayOfWeekIso, between=(1, 7)),
    _part("hour", exp.Hour, takes=("TIMESTAMP",), between=(0, 23)),
    _part("minute", exp.Minute, takes=("TIMESTAMP",), between=(0, 59)),
    _part("second", exp.Second, takes=("TIMESTAMP",), between=(0, 59)),
    RowFunction("dayname", (exp.Dayname,), MOMENTS, VARCHAR),
    RowFunction("monthname", (exp.Monthname,), MOMENTS, VARCHAR),
    RowFunction("last_day", (exp.LastDay,), MOMENTS, DATE),
    RowFunction("length", (exp.Length,), TEXTS, BIGINT),
    RowFunction("lower", (exp.Lower,), TEXTS, VARCHAR),
    RowFunction("upper", (exp.Upper,), TEXTS, VARCHAR),
    RowFunction("contains", (exp.Contains,), TEXTS, BOOLEAN, ("'a'", "''", "b")),
    RowFunction("starts_with", (exp.StartsWith,), TEXTS, BOOLEAN, ("'a'", "''", "b")),
    RowFunction("isnan", (exp.IsNan,), ("DOUBLE",), BOOLEAN),
    RowFunction("sqrt", (exp.Sqrt,), ANY_NUMBERS, DOUBLE),
    RowFunction("exp", (exp.Exp,), ANY_NUMBERS, DOUBLE),
    RowFunction("ln", (exp.Ln,), ANY_NUMBERS, DOUBLE),
    RowFunction("pow", (exp.Pow,), ANY_NUMBERS, DOUBLE, ("2", "0.5", "b")),
)
ROW_FUNCTIONS: Final[Mapping[type[exp.Expr], RowFunction]] = MappingProxyType(
    {node: function for function in _ROW_FUNCTIONS for node in function.nodes}
)
"""Functions by the parser's classes."""
OF_ONE: Final = tuple(node for node, function in ROW_FUNCTIONS.items() if not function.beside)
OF_TWO: Final = tuple(node for node, function in ROW_FUNCTIONS.items() if function.beside)
PARTS: Final[Mapping[str, RowFunction]] = MappingProxyType(
    {part: function for function in _ROW_FUNCTIONS for part in function.parts}
)
"""What EXTRACT computes, by the name of the part."""


def nodes_giving(type_: SqlType) -> tuple[type[exp.Expr], ...]:
    """Return the classes of functions whose results are of a type."""
    return tuple(node for node, function in ROW_FUNCTIONS.items() if function.gives == type_)
