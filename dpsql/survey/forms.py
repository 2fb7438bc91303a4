"""The expressions that are computed on a server and in DuckDB, to be compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from dpsql.core.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    SqlType,
)
from dpsql.engines.evidence.edges import COMPARED, DECIMAL_SIZES
from dpsql.syntax.row_functions import ANY_NUMBERS, PARTS, ROW_FUNCTIONS, RowFunction


@dataclass(frozen=True, slots=True)
class ComparedForm:
    """An expression over columns ``a`` and ``b`` of some types, as an analyst writes it."""

    text: str
    types: tuple[SqlType, ...]

    @property
    def question(self) -> str:
        """The statement that asks for it, of a table ``t``."""
        return f"SELECT {self.text} AS x FROM t"


WIDTHS: Final = tuple(SqlType.decimal(*size) for size in DECIMAL_SIZES)
_NUMBERS: Final = (SMALLINT, INTEGER, BIGINT, DOUBLE, *WIDTHS)
_SECOND: Final = re.compile(r"\bb\b")
_SIGNS: Final = ("+", "-", "*", "/", "//", "%")
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM")
_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_CONSTANTS: Final = (
    *("0", "1", "2", "-3", "7", "0.25", "1.5", "2.5", "1e3", "70000", "2147483647", "3000000000"),
    *("9223372036854775807", "1e308", "1.7e308", "5e-324", "12345678901234567.5"),
    *("0.000000000001", "0.000000000000000000001", "99999999999999999999999999999999999.5"),
)
"""The operands of arithmetic: the extremes of constants."""
_CASTS: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", *WIDTHS),
    *("VARCHAR", "DATE", "TIMESTAMP", "TIME", "UUID"),
)

_OF_ANY: Final = ("a IS NULL", "concat(a, 'x')", "a || 'x'")
_OF_NUMBERS: Final = (
    *("-a", "1 - a", "-a // 3", "abs(a)", "sign(a)", "log(a)", "log10(a)", "log2(a)"),
    *("floor(a)", "ceil(a)"),
    *(
        "trunc(a)",
        "round(a)",
        *(f"round(a, {places})" for places in (0, 1, 2, 6, 9, 15, -1, -3, -15)),
    ),
    *(f"a {sign} {constant}" for sign in _SIGNS for constant in _CONSTANTS),
    *("a > 1", "a <= 1.5", "a = 1e0", "a = 2", "a < 2", "a >= 2", "a IS DISTINCT FROM 0"),
    *("a IS DISTINCT FROM 2", "a BETWEEN 0 AND 1", "a BETWEEN -1 AND 2.5", "a BETWEEN 0 AND 70000"),
    *("a IN (0, 1, 2)", "a IN (1, 2, 3)", "a NOT IN (1, NULL)"),
    *("coalesce(a, 0)", "coalesce(a, 2.5)", "nullif(a, 0)", "nullif(a, 1)", "greatest(a, 1)"),
    *("greatest(a, 2.5)", "least(a, 0, 1)", "if(a > 0, 1, 2)"),
    *("CASE WHEN a > 0 THEN a ELSE 0 END", "CASE WHEN a > 0 THEN 1.5 ELSE a END"),
    *("CASE WHEN a > 0 THEN 1 ELSE 0 END", "CASE WHEN a > 0 THEN 'x' ELSE 'y' END"),
    "CASE WHEN a > 0 THEN 'x' END",
)
_OF_TEXTS: Final = (
    *("trim(a)", "ltrim(a)", "rtrim(a)", "'x' || a", "trim(a, 'a ')", "trim(a, ']^a-z\\')"),
    *("trim(LEADING 'aä' FROM a)", "rtrim(a, '1😀')", "trim(a, '')"),
    *("'ß' || a", "concat(a, NULL)", "concat(a, 'x', a)", "left(a, 0)", "left(a, 1)", "left(a, 2)"),
    *("right(a, 0)", "right(a, 2)", "substr(a, 1, 1)", "substr(a, 1, 2)", "substr(a, 2)"),
    *("substr(a, 2, 3)", "substr(a, 3, 0)", "substr(a, 0, 2)", "substr(a, 0)", "substr(a, -2)"),
    *("substr(a, -2, 1)", "substr(a, -3, 2)", "left(a, -1)", "left(a, -3)", "right(a, -1)"),
    *("right(a, -2)", "substr(a, -2147483647, 2147483647)", "left(a, -2147483647)"),
    *(f"{word}(a, {last})" for word in ("left", "right", "substr") for last in (2**31 - 1,)),
    *(f"{word}(a, 2146435071)" for word in ("left", "right", "substr")),
    *("substr(a, 2, 2147483647)", "substr(a, 2147483647, 2147483647)"),
    *("substr(a, 2, 2146435071)", "substr(a, 2146435071, 2146435071)"),
    *(f"a LIKE '{each}'" for each in ("a%", "%a_", "_", "%\\%", "a\\%b", "a%\\", "%", "", "%$%")),
    *("a LIKE 'a_b'", "a NOT LIKE '%a%'", "a NOT LIKE '%a_'", "a NOT LIKE 'a%'", "a ILIKE 'A%'"),
    *("a = 'a'", "a = 'straße'", "a = '\\'", "a = ''''", "a = '\t x \n'", "a > 'a'", "a <= 'ä'"),
    *("a < '😀'", "a BETWEEN 'a' AND 'z'", "a BETWEEN 'A' AND 'b'", "a IN ('a', '1')"),
    *(
        "a IN ('a', NULL)",
        "a IN ('a', 'straße', '${x}')",
        "coalesce(a, '')",
        "nullif(a, 'a')",
        "greatest(a, 'b')",
    ),
    "CASE a WHEN 'a' THEN 1 ELSE 2 END",
)
_OF_TRUTHS: Final = (
    *("NOT a", "a AND a", "a OR NULL", "a IS TRUE", "a IS NOT FALSE", "coalesce(a, false)"),
    *("a = true", "a < true", "CASE WHEN a THEN 1 ELSE 0 END"),
)
_OF_MOMENTS: Final = (
    *(f"date_trunc('{unit}', a)" for unit in (*_UNITS, "decade")),
    *(f"a {sign} INTERVAL {n} {unit}" for unit in _UNITS for sign in "+-" for n in (1, 7, 99999)),
    *(
        f"a {sign} INTERVAL {shift}"
        for shift in (
            *("400 DAY", "1460000 DAY", "13 MONTH", "48000 MONTH", "2 QUARTER", "16000 QUARTER"),
            *("3 WEEK", "200000 WEEK", "4000 YEAR", "35000000 HOUR", "90 MINUTE"),
            *("999999999 MINUTE", "86401 SECOND", "999999999 SECOND"),
        )
        for sign in "+-"
    ),
    *(
        f"a {sign} {days}"
        for sign in "+-"
        for days in (1, 30, 400, 100000, 1400000, 4000000, 2147483647)
    ),
    *("a >= '2024-02-29'", "a > '2024-01-01'", "a > '1999-12-31'", "a = DATE '2024-02-29'"),
    *("a = DATE '1999-12-31'", "a BETWEEN '1970-01-01' AND '2024-12-31'"),
    *("a IN ('2024-02-29', '1970-01-01')", "a < TIMESTAMP '2024-02-29 12:00:00'"),
    *("a = TIMESTAMP '2021-01-03 00:00:00'", "greatest(a, a)", "coalesce(a, DATE '2000-01-01')"),
    *(f"time_bucket(INTERVAL {w}, a)" for w in ("15 MINUTE", "90 SECOND", "10 DAY", "2 WEEK")),
    "year(a) * 100 + month(a)",
)
_OF_ALIKE: Final = (
    *(f"a {sign} b" for sign in _COMPARISONS),
    *("coalesce(a, b)", "CASE WHEN a IS NULL THEN b ELSE a END", "a IN (b, a)"),
)
"""Operations on two values, of one type or of types that are compared."""
_OF_BESIDE: Final = ("nullif(a, b)", "greatest(a, b)", "least(a, b)")
_OF_TWO_TEXTS: Final = ("a || b", "concat(a, b)", "a LIKE b", "a NOT LIKE b")
_OF_TWO_NUMBERS: Final = tuple(f"a {sign} b" for sign in _SIGNS)
_OF_LENGTHS: Final = ("year", "month", "day", "hour", "minute", "second")
_OF_TWO_MOMENTS: Final = (
    *("a - b", "epoch(a - b)", "a - b BETWEEN INTERVAL 90 MINUTE AND INTERVAL 30 DAY"),
    *(f"date_diff('{unit}', a, b)" for unit in _UNITS),
    *(f"EXTRACT({part} FROM a - b)" for part in _OF_LENGTHS),
    *(f"a - b {sign} INTERVAL 1 DAY" for sign in _COMPARISONS[:6]),
)
_NESTED: Final = (
    ComparedForm("((a + b) * (a - b) + a * a) // (b + 1)", (INTEGER, INTEGER)),
    ComparedForm("((a + b) * (a - b) + a * a) // (b + 1)", (BIGINT, BIGINT)),
    ComparedForm("((a + b) * (a - b) + a * a) / (b + 1)", (DOUBLE, DOUBLE)),
    *(
        ComparedForm("make_date(1990 + a % 40, 1 + b % 12, 1 + a % 31)", (type_, type_))
        for type_ in (INTEGER, BIGINT)
    ),
    ComparedForm("(a + b) * 1.1 - a / 3", (SqlType.decimal(12, 2), INTEGER)),
)
_MOMENTS: Final = (DATE, TIMESTAMP)
_BESIDE: Final = (INTEGER, BIGINT, DOUBLE, SqlType.decimal(10, 2), VARCHAR, BOOLEAN, *_MOMENTS)
"""Types of which each is put beside each."""


def forms() -> Iterator[ComparedForm]:
    """Yield all compared expressions; those over columns of the same types come in a row."""
    for type_ in COMPARED:
        yield from (ComparedForm(text, (type_,)) for text in of_one(type_))
    for types, texts in of_two().items():
        yield from (ComparedForm(text, types) for text in texts)


def of_one(type_: SqlType) -> Iterator[str]:
    """Yield the compared expressions over one column of a type."""
    yield from _OF_ANY
    yield from (f"CAST(a AS {target})" for target in _CASTS)
    yield from (call for call in _called(type_) if not _SECOND.search(call))
    if type_ in _NUMBERS:
        yield from _OF_NUMBERS
    elif type_ in _MOMENTS:
        yield from _OF_MOMENTS
    elif type_ == VARCHAR:
        yield from _OF_TEXTS
    elif type_ == BOOLEAN:
        yield from _OF_TRUTHS


def calls_of(function: RowFunction) -> tuple[str, ...]:
    """List the calls of a function; those by EXTRACT come first."""
    if function.beside:
        return tuple(f"{function.name}(a, {other})" for other in function.beside)
    extracted = (f"extract({part} FROM a)" for part in function.parts)
    return (*extracted, *(f"{word}(a)" for word in (function.name, *function.also)))


def _called(type_: SqlType) -> Iterator[str]:
    """Yield calls of the functions that take a type, or a type it converts to."""
    for function in dict.fromkeys((*ROW_FUNCTIONS.values(), *PARTS.values())):
        numbers = type_ in _NUMBERS and function.takes in (ANY_NUMBERS, ("DOUBLE",))
        moments = type_ in _MOMENTS and "TIMESTAMP" in function.takes
        if numbers or moments or type_.kind in function.takes:
            yield from calls_of(function)


def of_two() -> dict[tuple[SqlType, ...], list[str]]:
    """Return the compared expressions over two columns, by their types."""
    found: dict[tuple[SqlType, ...], list[str]] = {}

    def add(types: tuple[SqlType, ...], *texts: str) -> None:
        found.setdefault(types, []).extend(texts)

    beside = dict.fromkeys((*product(_NUMBERS, _NUMBERS), *product(_BESIDE, _BESIDE)))
    for types in dict.fromkeys((*((k, k) for k in COMPARED), *beside)):
        add(types, *_OF_ALIKE, *(_OF_BESIDE if types in beside else ()))
        shared = set(_called(types[1]))
        add(types, *(call for call in _called(types[0]) if _SECOND.search(call) and call in shared))
    for types in product(_NUMBERS, _NUMBERS):
        add(types, *_OF_TWO_NUMBERS)
    for type_ in map(SqlType.of, ("UUID", "TIME")):
        add((type_, type_), "nullif(a, b)")
    for types in product(_MOMENTS, _MOMENTS):
        add(types, *_OF_TWO_MOMENTS)
    for type_ in (SMALLINT, INTEGER):
        add((DATE, type_), "a + b", "a - b")
    for types in product(_MOMENTS, (SMALLINT, INTEGER, BIGINT, DOUBLE)):
        add(types, *(f"a {sign} INTERVAL (b) {unit}" for sign in "+-" for unit in _UNITS))
    add((VARCHAR, VARCHAR), *_OF_TWO_TEXTS)
    add((BOOLEAN, BOOLEAN), "a AND b", "a OR b")
    for form in _NESTED:
        add(form.types, form.text)
    return found
