"""Compares row expressions on PostgreSQL with DuckDB's, on edge rows: the table of verdicts.

``python tests/sql/survey_postgresql.py`` starts a server of its own and writes
``dpsql/engines/surveys/postgresql-15.json``. A test makes the table again and compares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import psycopg
import sqlglot
from edge_decimals import DECIMALS, decimals
from surveyed import POSTGRESQL

from dpsql import engines
from dpsql.core.schema import Column, Table
from dpsql.engines.verdicts import REWRITTEN, SAME, EngineVersion, Verdicts
from dpsql.errors import QueryRefused
from dpsql.sql.dialects.postgresql_rows import POSTGRESQL_ROWS
from dpsql.sql.dialects.postgresql_types import sql_type
from dpsql.sql.dialects.row_expressions import RowExpressions
from dpsql.sql.expressions.totality import total

PLACE: Final = Path(engines.__path__[0]) / "surveys" / "postgresql-15.json"
_DOUBLES: tuple[str, ...] = (
    "NaN",
    "Infinity",
    "-Infinity",
    "-0.0",
    "0",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-2.5",
)
_DOUBLES += ("0.49999999999999994", "1e308", "-1e308", "1.7976931348623157e308", "5e-324", "1e-310")
_DOUBLES += ("9007199254740993", "-9007199254740992", "9223372036854775808", "-9223372036854775808")
_DOUBLES += ("0.1", "3", "-7", "1e15", "127.5", "2147483647.5", "-2147483648.5", "1e200", "1e-200")
_DOUBLES += ("999.95", "99999.5", "1e9", "1e24", "-1e25", "1e31", "-1.5e32", "1.1e33", "-7e36")
_DOUBLES += ("1.0141204801825835e31", "1.3e37", "9.9999e37", "1e38", "-1e38", "1.7e38")
_DOUBLES += ("709.5", "-744.4", "-0.1", "1e22", "123456789.125")
_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "a",
    "A",
    "ä",
    "ß",
    "İ",
    "straße",
    "e\u0301",
    "😀",
    "%",
    "_",
    "\\",
    "a%\\",
    "a_b",
)
_TEXTS += (
    "1",
    "-1",
    " 7 ",
    "+5",
    "1e3",
    "1.5",
    "2.5",
    "-0.5",
    ".5",
    "5.",
    "1e400",
    "-1e400",
    "1e-400",
)
_TEXTS += ("9223372036854775807", "9223372036854775808", "-9223372036854775808", "2147483648")
_TEXTS += (
    "true",
    "NaN",
    "inf",
    "2024-02-29",
    "x" * 3000,
    "\t7",
    "7\n",
    "1 2",
    "--",
    "1e",
    "abcabc",
)
EDGES: Final[dict[str, Sequence[str]]] = {
    "BOOLEAN": ("true", "false"),
    "SMALLINT": ("-32768", "-1", "0", "1", "2", "7", "32767"),
    "INTEGER": ("-2147483648", "-7", "-1", "0", "1", "2", "3", "100000", "2147483647"),
    "BIGINT": (
        "-9223372036854775808",
        "-9007199254740993",
        "-7",
        "-1",
        "0",
        "1",
        "2",
        "3",
        "2147483648",
        "9007199254740993",
        "9223372036854775807",
        "3037000500",
    ),
    "FLOAT": ("NaN", "Infinity", "-Infinity", "-0.0", "0", "0.1", "-1.5", "3.4028235e38", "1e-45"),
    "DOUBLE": _DOUBLES,
    **{f"DECIMAL({w},{s})": decimals(w, s) for w, s in DECIMALS},
    "VARCHAR": _TEXTS,
    "DATE": (
        "0001-01-01",
        "0099-12-31",
        "1582-10-10",
        "1970-01-01",
        "1999-12-31",
        "2000-02-29",
        "2024-01-01",
        "2024-02-29",
        "2023-12-31",
        "2021-01-03",
        "2020-12-31",
        "9999-12-31",
    ),
    "TIMESTAMP": (
        "0001-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2000-02-29 12:34:56.789",
        "2024-01-31 23:59:59.999999",
        "2021-01-03 00:00:00",
        "2020-12-28 07:00:00.5",
        "9999-12-31 23:59:59.999999",
        "1900-03-01 10:20:30",
    ),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "TIME": ("00:00:00", "12:34:56.789", "23:59:59.999999"),
}
_MOST: Final = 500
MOVES: Final = ("1", "400", "100000", "1400000", "2147483647")
CONSTANTS: Final = (
    *("0", "2", "-3", "2.5", "70000", "2147483647", "9223372036854775807", "1e308", "5e-324"),
    *("12345678901234567.5", "0.000000000000000000001", "99999999999999999999999999999999999.5"),
)
"""What is added, multiplied and so on: at the ends of what a constant may be."""
_NUMBERS = ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE")
WIDTHS: Final = tuple(f"DECIMAL({width},{scale})" for width, scale in DECIMALS)


@dataclass(frozen=True)
class Form:
    """An expression over columns ``a`` and ``b`` of some types."""

    text: str
    types: tuple[str, ...]


def forms() -> Iterator[Form]:
    """All that is compared."""
    yield from casts()
    plain = [kind for kind in EDGES if kind != "FLOAT"]
    for kind in EDGES:
        for sign in ("=", "<>", "<", "<=", ">", ">="):
            yield Form(f"a {sign} b", (kind, kind))
        yield Form("CASE WHEN a IS NULL THEN b ELSE a END", (kind, kind))
        yield Form("coalesce(a, b)", (kind, kind))
    for kind in plain:
        yield Form("nullif(a, b)", (kind, kind))
    for kind in ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE", *WIDTHS, "VARCHAR", "DATE"):
        yield from (Form(f"{word}(a, b)", (kind, kind)) for word in ("least", "greatest"))
    yield from (Form(text, ("BOOLEAN", "BOOLEAN")) for text in ("a AND b", "a OR b", "NOT a"))
    yield from (Form(text, ("BOOLEAN",)) for text in ("a IS TRUE", "a IS NULL", "a IS NOT FALSE"))
    numbers = [*_NUMBERS, *WIDTHS]
    signs = ("+", "-", "*", "/", "//", "%")
    for pair in itertools.product(numbers, numbers):
        yield from (Form(f"a {sign} b", pair) for sign in signs)
    for kind in numbers:
        for sign in signs:
            yield from (Form(f"a {sign} {c}", (kind,)) for c in CONSTANTS)
    for kind in numbers:
        yield from (Form(text, (kind,)) for text in ("-a", "abs(a)", "sign(a)", "round(a)"))
        yield from (Form(f"{word}(a)", (kind,)) for word in ("floor", "ceil", "trunc"))
        yield from (Form(f"a {sign} 2", (kind,)) for sign in ("=", "<", ">="))
        yield from (Form(f"a BETWEEN {pair}", (kind,)) for pair in ("-1 AND 2.5", "0 AND 70000"))
        yield Form("a IN (1, 2, 3)", (kind,))
        yield Form("a IS DISTINCT FROM 2", (kind,))
    yield from (Form(f"round(a, {n})", (kind,)) for kind in WIDTHS for n in (0, 1, 9))
    for kind in ("DOUBLE", "INTEGER", "BIGINT", *WIDTHS):
        words = ("sqrt", "ln", "exp", "log", "log10")
        yield from (Form(f"{word}(a)", (kind,)) for word in words)
    yield Form("isnan(a)", ("DOUBLE",))
    yield from of_texts()
    yield from of_dates()
    yield from mixed()


def casts() -> Iterator[Form]:
    """Casts of every type to every type."""
    targets: tuple[str, ...] = (
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "DOUBLE",
        *WIDTHS,
    )
    targets += ("VARCHAR", "DATE", "TIMESTAMP", "FLOAT", "UUID")
    for source in EDGES:
        yield from (Form(f"CAST(a AS {target})", (source,)) for target in targets)


def of_texts() -> Iterator[Form]:
    """What is computed of texts."""
    one: tuple[str, ...] = (
        "length(a)",
        "trim(a)",
        "upper(a)",
        "lower(a)",
        "substr(a, 1, 2)",
        "substr(a, 2)",
    )
    one += ("substr(a, 3, 0)", "left(a, 2)", "right(a, 2)", "left(a, 0)", "a LIKE '%a_'")
    one += (
        "a LIKE 'a%\\'",
        "a LIKE '_'",
        "a || 'x'",
        "'ß' || a",
        "concat(a, 'x', a)",
        "a IN ('a', '1')",
    )
    one += (
        "contains(a, 'a')",
        "starts_with(a, 'a')",
        "a = 'straße'",
        "a > 'a'",
        "a BETWEEN 'A' AND 'b'",
    )
    one += ("left(a, 2146435071)", "right(a, 2146435071)", "substr(a, 2146435071)")
    one += ("substr(a, 2, 2146435071)", "substr(a, 2146435071, 2146435071)")
    one += ("a ILIKE 'A%'", "right(a, 0)", "a NOT LIKE '%a_'", "a NOT LIKE 'a%'")
    yield from (Form(text, ("VARCHAR",)) for text in one)
    two: tuple[str, ...] = (
        "a || b",
        "concat(a, b)",
        "a LIKE b",
        "a NOT LIKE b",
        "contains(a, b)",
        "starts_with(a, b)",
    )
    yield from (Form(text, ("VARCHAR", "VARCHAR")) for text in two)
    kinds = (
        "INTEGER",
        "BIGINT",
        "BOOLEAN",
        "DATE",
        *WIDTHS,
        "UUID",
        "TIMESTAMP",
        "SMALLINT",
    )
    yield from (Form("concat(a, 'x')", (kind,)) for kind in kinds)
    yield from (Form("a || 'x'", (kind,)) for kind in kinds)


def of_dates() -> Iterator[Form]:
    """What is computed of dates and timestamps."""
    words: tuple[str, ...] = (
        "year",
        "quarter",
        "month",
        "day",
        "dayofmonth",
        "dayofyear",
        "dayofweek",
        "isodow",
    )
    words += ("week", "weekofyear", "hour", "minute", "second")
    units: tuple[str, ...] = (
        "year",
        "quarter",
        "month",
        "week",
        "day",
        "hour",
        "minute",
        "second",
        "decade",
    )
    shifts: tuple[str, ...] = (
        "1 DAY",
        "400 DAY",
        "1 MONTH",
        "13 MONTH",
        "1 YEAR",
        "2 QUARTER",
        "3 WEEK",
    )
    shifts += ("4000 YEAR", "48000 MONTH", "16000 QUARTER", "200000 WEEK", "1460000 DAY")
    shifts += ("35000000 HOUR", "999999999 MINUTE", "999999999 SECOND")
    shifts += ("1 HOUR", "90 MINUTE", "86401 SECOND")
    for kind in ("DATE", "TIMESTAMP"):
        yield from (Form(f"{word}(a)", (kind,)) for word in words)
        yield from (Form(f"extract({word} FROM a)", (kind,)) for word in ("year", "doy", "dow"))
        yield from (Form(f"date_trunc('{unit}', a)", (kind,)) for unit in units)
        for shift, sign in itertools.product(shifts, "+-"):
            yield Form(f"a {sign} INTERVAL {shift}", (kind,))
        yield from (
            Form(f"date_diff('{unit}', a, b)", (kind, kind))
            for unit in ("year", "month", "day", "week")
        )
        for text in ("2024-01-01", "1999-12-31"):
            yield Form(f"a > '{text}'", (kind,))
            yield Form(f"a = DATE '{text}'", (kind,))
        yield Form("a - b", (kind, kind))
    yield from (Form(f"a {sign} {n}", ("DATE",)) for sign in "+-" for n in MOVES)
    yield from (
        Form(f"a {sign} b", ("DATE", kind)) for sign in "+-" for kind in ("INTEGER", "SMALLINT")
    )
    yield Form("a < b", ("DATE", "TIMESTAMP"))
    yield Form("a = TIMESTAMP '2021-01-03 00:00:00'", ("TIMESTAMP",))


def mixed() -> Iterator[Form]:
    """Values of different types beside each other, and operations within operations."""
    numbers: tuple[str, ...] = (
        "SMALLINT",
        "INTEGER",
        "BIGINT",
        "DOUBLE",
        *WIDTHS,
    )
    for pair in itertools.permutations(numbers, 2):
        yield Form("a = b", pair)
        yield Form("a < b", pair)
        yield Form("CASE WHEN a IS NULL THEN b ELSE a END", pair)
    yield Form("CASE WHEN a > 0 THEN 1 ELSE 0 END", ("INTEGER",))
    yield Form("CASE WHEN a > 0 THEN 1.5 ELSE a END", ("INTEGER",))
    yield Form("CASE WHEN a > 0 THEN 'x' END", ("DOUBLE",))
    yield Form("((a + b) * (a - b) + a * a) // (b + 1)", ("INTEGER", "INTEGER"))
    yield Form("((a + b) * (a - b) + a * a) // (b + 1)", ("BIGINT", "BIGINT"))
    yield Form("((a + b) * (a - b) + a * a) / (b + 1)", ("DOUBLE", "DOUBLE"))
    yield Form("(a + b) * 1.1 - a / 3", ("DECIMAL(12,2)", "INTEGER"))
    yield Form("CAST(a AS INTEGER) + CAST(b AS INTEGER) * 2", ("VARCHAR", "VARCHAR"))
    yield Form("year(a) * 100 + month(a)", ("DATE",))


class Survey:
    """Both engines side by side."""

    def __init__(self, url: str) -> None:
        self._server = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        for setting in (
            "TimeZone = 'UTC'",
            "DateStyle = 'ISO'",
            "extra_float_digits = 1",
            "jit = off",
        ):
            self._server.execute(f"SET {setting}".encode())
        self._duckdb = duckdb.connect(":memory:", config={"threads": "1"})
        self._duckdb.execute("SET error_on_division_by_zero = false")
        self._made: tuple[str, ...] = ()

    def close(self) -> None:
        """Close both."""
        self._server.close()
        self._duckdb.close()

    def calls(self) -> dict[str, str]:
        """The verdicts on all calls: of several forms with one call the worst."""
        found: dict[str, str] = {}
        for form in forms():
            self._judge(form, found)
        return dict(sorted(found.items()))

    def _judge(self, form: Form, found: dict[str, str]) -> None:
        table = Table("t", tuple(Column(n, t) for n, t in zip("ab", form.types, strict=False)))
        rules = RowExpressions(table, POSTGRESQL_ROWS, None)
        tree = sqlglot.parse_one(form.text, read="duckdb")
        try:
            written = rules.settled(total(tree, table, POSTGRESQL))
        except QueryRefused:
            return
        calls = rules.calls
        single = written.type == "FLOAT"  # the driver shows few digits of these
        sql = written.sql.render(POSTGRESQL.renderer)
        sql = f"CAST({sql} AS DOUBLE PRECISION)" if single else sql
        verdict = self._compared(form, sql)
        known = Verdicts(EngineVersion("postgresql", "15"), found)
        # What differs is laid to the outermost call, if all others are known to be the same.
        suspects = [call for call, _ in calls[-1:]]
        if verdict is None:
            for call, plain in calls:
                found.setdefault(call, SAME if plain else REWRITTEN)
        elif all(known.objection(call) is None for call, _ in calls[:-1]) or len(calls) == 1:
            found.update((call, verdict) for call in suspects)

    def _compared(self, form: Form, sql: str) -> str | None:
        """What is different, in words; None if all rows are the same."""
        self._fill(form.types)
        try:
            expected = self._duckdb.execute(f"SELECT TRY({form.text}) FROM t ORDER BY i").fetchall()
        except duckdb.Error as error:
            return f"DuckDB does not compute it: {type(error).__name__}"
        try:
            answer = self._server.execute(
                f"SELECT {sql} FROM (SELECT * FROM t OFFSET 0) AS t ORDER BY i".encode()
            ).fetchall()
        except psycopg.Error as error:
            return f"it fails on some values there ({type(error).__name__})"
        bad = [
            (one, two)
            for (one,), (two,) in zip(expected, answer, strict=True)
            if normal(one) != normal(two)
        ]
        if bad and __name__ == "__main__":
            print(form.text, form.types, "DuckDB, PostgreSQL:", bad[:4], sql[:0])
        return f"it differs on {len(bad)} of {len(expected)} rows of edge values" if bad else None

    def _fill(self, types: tuple[str, ...]) -> None:
        if types == self._made:
            return
        rows = list(itertools.product(*([*EDGES[kind], None] for kind in types)))
        stride = max(1, len(rows) / _MOST)
        rows = [rows[int(i * stride)] for i in range(min(len(rows), _MOST))]
        for engine, names in (
            (self._duckdb, list(types)),
            (self._server, [sql_type(t) for t in types]),
        ):
            columns = ", ".join(f"{n} {t}" for n, t in zip("ab", names, strict=False))
            run: Any = engine.execute
            values = ", ".join(
                "(" + ", ".join([str(i), *map(_cast, row, names)]) + ")"
                for i, row in enumerate(rows)
            )
            run("DROP TABLE IF EXISTS t")
            run(f"CREATE TABLE t (i INTEGER, {columns})")
            run(f"INSERT INTO t VALUES {values}")
        self._made = types


def _cast(value: str | None, type_: str | None) -> str:
    text = "NULL" if value is None else "'{}'".format(value.replace("'", "''"))
    return f"CAST({text} AS {type_})"


def normal(value: object) -> object:
    """A value by which two are the same: zeros and NaN alike, moments that both engines have."""
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float.hex(value + 0.0)
    if isinstance(value, Decimal):
        return value.normalize() if value else Decimal(0)
    if isinstance(value, int):
        return Decimal(value).normalize() if value else Decimal(0)
    text = str(value)
    years = "(BC)" in text or (len(text.partition("-")[0]) > 4 and text[:5].isdigit())
    return None if years else value


def main() -> None:
    """Write the table."""
    from postgres import running

    with running() as server:
        survey = Survey(server.url("postgres"))
        calls = survey.calls()
        survey.close()
    text = Verdicts(EngineVersion("postgresql", "15"), calls).text()
    PLACE.write_text(text, encoding="utf-8")
    print(len(calls), "calls,", sum(v in (SAME, REWRITTEN) for v in calls.values()), "available")


if __name__ == "__main__":
    main()
