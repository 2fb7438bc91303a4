"""Compares what Spark computes of edge values with DuckDB, call by call.

Each expression goes both ways that it does in a question: through DuckDB as it stands, and as
Spark's dialect writes it with all verdicts open. The last call of an expression gets the verdict.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
from edge_decimals import DECIMALS, decimals
from spelled import text as text_of
from surveyed import SPARK

from dpsql.core.quoting import quote_text
from dpsql.core.schema import Column, Table
from dpsql.errors import QueryRefused
from dpsql.sql.dialects.duckdb import DUCKDB
from dpsql.sql.dialects.row_expressions import RowExpressions
from dpsql.sql.dialects.spark_rows import SPARK_ROWS
from dpsql.sql.expressions.totality import total, total_sql
from dpsql.sql.syntax.parse import parse

SAME, CLOSE = "same", "same but for the last digits of a DOUBLE"
NOTES = {
    "lower(VARCHAR)": "for letters that Unicode writes otherwise in lower case, as İ",
    "upper(VARCHAR)": "for letters that become two in upper case, as ß",
    "cast(VARCHAR, INTEGER)": "numbers such as 1_000, 0x1F and 0b1 are NULL",
    "cast(VARCHAR, BIGINT)": "numbers such as 1_000, 0x1F and 0b1 are NULL",
    "cast(VARCHAR, DOUBLE)": "numbers such as 1_000 are NULL",
    **{f"cast(VARCHAR, DECIMAL({n}))": "numbers such as 1_000 are NULL" for n in (4, 9, 18, 38)},
    "cast(VARCHAR, DATE)": "texts other than 2024-02-29 are NULL",
    "cast(VARCHAR, TIMESTAMP)": "texts other than 2024-02-29 and 2024-02-29 23:59:59.5 are NULL",
    "+(DATE, INTEGER)": "dates out of the years 1 to 9999 are NULL",
    "-(DATE, INTEGER)": "dates out of the years 1 to 9999 are NULL",
}
"""Differences that were looked at, are the same on every row that has them, and are documented."""

TYPES = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL(10,2)", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP")
WIDTHS = tuple(f"DECIMAL({width},{scale})" for width, scale in DECIMALS)
PAIRED = (
    *("DECIMAL(1,0)", "DECIMAL(4,4)", "DECIMAL(5,2)", "DECIMAL(9,0)", "DECIMAL(9,9)"),
    *("DECIMAL(10,2)", "DECIMAL(18,0)", "DECIMAL(18,18)"),
    *("DECIMAL(19,4)", "DECIMAL(38,0)", "DECIMAL(38,10)", "DECIMAL(38,38)"),
)
"""Decimals that are put beside each other, and beside other numbers."""
NUMERIC = TYPES[:4]
EDGES: dict[str, Sequence[str]] = {
    "INTEGER": ("-2147483648", "-7", "-1", "0", "1", "2", "7", "46341", "2147483647"),
    "BIGINT": (
        *("-9223372036854775808", "-9223372036854775807", "-9007199254740993", "-1", "0", "1", "3"),
        *("9007199254740992", "9007199254740993", "3037000500", "9223372036854775807"),
    ),
    "DOUBLE": (
        *("nan", "inf", "-inf", "-0.0", "0", "0.5", "-0.5", "1.5", "2.5", "-2.5", "1", "-1", "3"),
        *("0.49999999999999994", "2.675", "1e308", "-1e308", "1.7976931348623157e308", "5e-324"),
        *("9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808"),
        *("2147483647.5", "-2147483648.5", "4503599627370495.5", "1e-300", "0.1", "1e16"),
        *("0.00005", "9.95", "999.95", "99999.5", "1e9", "1e24", "-1e31", "1.5e32", "1.3e37"),
        *("9.9999e37", "1e38", "-1e38"),
    ),
    **{f"DECIMAL({w},{s})": decimals(w, s) for w, s in (*DECIMALS, (10, 2))},
    "VARCHAR": (
        *(
            "",
            " ",
            "a",
            "A",
            "ab",
            "ä",
            "Ä",
            "straße",
            "İ",
            "i̇",
            "Σ",
            "ς",
            "e\u0301",
            "😀",
            "a%b",
            "a_b",
        ),
        *("a\\b", "\\", "'", '"', "$", "${x}", "\t x \n", "x\u0000y", "null", "zzz", "é", "a\nb"),
        *(
            "1",
            "-1",
            "+5",
            " 7 ",
            "1e3",
            "2.5",
            "-2.5",
            ".5",
            "7.",
            "1_000",
            "0x1F",
            "1e400",
            "1e-400",
        ),
        *(
            "9" * 30,
            "9223372036854775807",
            "9223372036854775808",
            "NaN",
            "inf",
            "-Infinity",
            "1.5f",
            "1d",
        ),
        *(
            "2024-02-29",
            "2023-02-29",
            "2024-2-9",
            "2024/02/29",
            " 2024-02-29 ",
            "2024-02-29 23:59:59",
        ),
        *(
            "2024-02-29T23:59:59.25",
            "2024-02-29 25:00:00",
            "2024-02-29 10:00",
            "0001-01-01",
            "9999-12-31",
        ),
        *("12345-01-01", "2024-13-01", "true", "x" * 3000, "2024", "1e99999", "epoch"),
    ),
    "BOOLEAN": ("true", "false"),
    "DATE": (
        *("0001-01-01", "1582-10-10", "1900-01-01", "1969-12-31", "1970-01-01", "2000-02-29"),
        *("2021-01-03", "2023-01-01", "2024-02-29", "2024-12-30", "2024-12-31", "9999-12-31"),
        *("5881580-07-10", "5877642-06-25 (BC)", "0001-12-31 (BC)", "10000-01-01"),
    ),
    "TIMESTAMP": (
        *("0001-01-01 00:00:00", "1582-10-10 12:00:00", "1969-12-31 23:59:59.999999"),
        *("1970-01-01 00:00:00", "2024-02-29 23:59:59.999999", "2024-12-30 00:00:00.5"),
        *("2021-03-28 02:30:00", "9999-12-31 23:59:59.999999", "290309-12-22 (BC) 00:00:00"),
        *("294247-01-10 04:00:54.775806", "10000-01-01 00:00:00"),
    ),
}
CALENDAR = (datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
_SIGNS = ("+", "-", "*", "/", "//", "%")
_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM")
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_PARTS = (*_UNITS, "dayofweek", "isodow", "dayofyear", "dow", "doy")
_OF_ONE = {
    "numbers": (
        *(
            "-a",
            "abs(a)",
            "floor(a)",
            "ceil(a)",
            "round(a)",
            "trunc(a)",
            "sqrt(a)",
            "exp(a)",
            "ln(a)",
        ),
        *("log(a)", "log10(a)", "log2(a)", "isnan(a)", "round(a, 0)", "round(a, 1)", "round(a, 2)"),
        *(
            "round(a, 6)",
            "a + 1",
            "1 - a",
            "a * 3",
            "a * 1.5",
            "a - 0.25",
            "a / 2",
            "a // 2",
            "a % 7",
        ),
        *(
            "a * 1e3",
            "a > 1",
            "a <= 1.5",
            "a = 1e0",
            "a BETWEEN 0 AND 1",
            "a IN (0, 1, 2)",
            "-a // 3",
        ),
        *("coalesce(a, 0)", "nullif(a, 0)", "nullif(a, 1)", "greatest(a, 1)", "least(a, 0, 1)"),
        *(
            "CASE WHEN a > 0 THEN a ELSE 0 END",
            "a IS NULL",
            "pow(a, 2)",
            "pow(a, 0.5)",
            "a + 2147483647",
        ),
        *("CASE WHEN a > 0 THEN 'x' ELSE 'y' END", "coalesce(a, 2.5)", "a IS DISTINCT FROM 0"),
        *(
            "greatest(a, 2.5)",
            "round(a, 15)",
            "a * 1e308",
            "a / 5e-324",
            "a - 1.7e308",
            "a * 12345678901234567.5",
            "a + 0.000000000000000000001",
            "a * 0.000000000001",
            "a % 2147483647",
            "a // 9223372036854775807",
            "a + 9223372036854775807",
            "a * 9223372036854775807",
            "a + 3000000000",
            "a NOT IN (1, NULL)",
            "if(a > 0, 1, 2)",
            "a / 0",
            "a // 0",
        ),
    ),
    "VARCHAR": (
        *(
            "lower(a)",
            "upper(a)",
            "length(a)",
            "trim(a)",
            "ltrim(a)",
            "rtrim(a)",
            "a || 'x'",
            "'x' || a",
        ),
        *(
            "concat(a, 'x')",
            "concat(a, NULL)",
            "substr(a, 1, 1)",
            "substr(a, 2)",
            "substr(a, 2, 3)",
        ),
        *(
            "left(a, 1)",
            "left(a, 0)",
            "right(a, 2)",
            "right(a, 0)",
            "left(a, 2147483647)",
            "right(a, 2147483647)",
            "substr(a, 2147483647)",
            "substr(a, 2, 2147483647)",
            "substr(a, 2147483647, 2147483647)",
            "contains(a, 'a')",
            "contains(a, '')",
        ),
        *(
            "starts_with(a, 'a')",
            "starts_with(a, '')",
            "a LIKE 'a%'",
            "a LIKE '_'",
            "a LIKE '%\\%'",
        ),
        *(
            "a LIKE 'a\\%b'",
            "a LIKE '%'",
            "a LIKE ''",
            "a LIKE '%$%'",
            "a LIKE 'a_b'",
            "a NOT LIKE '%a%'",
        ),
        *(
            "a = 'a'",
            "a > 'a'",
            "a <= 'ä'",
            "a BETWEEN 'a' AND 'z'",
            "a IN ('a', 'straße', '${x}')",
        ),
        *(
            "coalesce(a, '')",
            "nullif(a, 'a')",
            "a = '\\'",
            "a = ''''",
            "greatest(a, 'b')",
            "a < '😀'",
        ),
        *("CASE a WHEN 'a' THEN 1 ELSE 2 END", "a IS NULL", "a = '\t x \n'"),
    ),
    "BOOLEAN": (
        *(
            "NOT a",
            "a AND a",
            "a OR NULL",
            "a IS TRUE",
            "a IS NOT FALSE",
            "coalesce(a, false)",
            "a = true",
        ),
        *("CASE WHEN a THEN 1 ELSE 0 END", "a IS NULL", "a < true"),
    ),
    "moments": (
        *(f"extract({part} FROM a)" for part in _PARTS),
        *(
            "year(a)",
            "quarter(a)",
            "month(a)",
            "week(a)",
            "weekofyear(a)",
            "day(a)",
            "dayofmonth(a)",
        ),
        *("dayofweek(a)", "isodow(a)", "dayofyear(a)", "hour(a)", "minute(a)", "second(a)"),
        *(f"date_trunc('{unit}', a)" for unit in _UNITS),
        *(f"a + INTERVAL 7 {unit}" for unit in _UNITS),
        *(f"a - INTERVAL 1 {unit}" for unit in _UNITS),
        *(f"a {sign} INTERVAL 99999 {unit}" for unit in _UNITS for sign in "+-"),
        *("a + 4000000", "a - 4000000", "a + 2147483647", "a - 2147483647"),
        *("a + 1", "a - 1", "a + 30", "a >= '2024-02-29'", "a = DATE '2024-02-29'", "a IS NULL"),
        *("a BETWEEN '1970-01-01' AND '2024-12-31'", "a IN ('2024-02-29', '1970-01-01')"),
        *(
            "a < TIMESTAMP '2024-02-29 12:00:00'",
            "greatest(a, a)",
            "coalesce(a, DATE '2000-01-01')",
        ),
    ),
}
_CAST_TO = (
    "INTEGER",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(10,2)",
    *WIDTHS,
    "VARCHAR",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
)
_OF_TWO = (
    *(f"a {sign} b" for sign in (*_SIGNS, *_COMPARED, "||")),
    *(
        "coalesce(a, b)",
        "nullif(a, b)",
        "greatest(a, b)",
        "least(a, b)",
        "concat(a, b)",
        "pow(a, b)",
    ),
    *(
        "CASE WHEN a IS NULL THEN b ELSE a END",
        "contains(a, b)",
        "starts_with(a, b)",
        "a IN (b, a)",
    ),
    *(f"date_diff('{unit}', a, b)" for unit in _UNITS),
)


@dataclass(frozen=True)
class Case:
    """An expression over ``a`` and ``b``, the call that it is about, and both texts of it."""

    text: str
    call: str
    type: str
    duckdb: str
    spark: str


def worlds(*, pairs: bool) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The types of columns and the expressions over them; of two columns where ``pairs``."""
    for type_ in (*TYPES, *WIDTHS):
        kind = "moments" if type_ in ("DATE", "TIMESTAMP") else "numbers"
        texts = _OF_ONE.get(type_, _OF_ONE[kind])
        casts = [f"CAST(a AS {target})" for target in _CAST_TO]
        yield (type_,), [*texts, *casts]
    for types in paired() if pairs else ():
        yield types, list(_OF_TWO)


def paired() -> dict[tuple[str, ...], None]:
    """The types of two columns that are computed with."""
    numbers = [*(each for each in NUMERIC if not each.startswith("DECIMAL")), *PAIRED]
    return dict.fromkeys((*product(TYPES, TYPES), *product(numbers, numbers)))


def cases_of(types: Sequence[str], texts: Sequence[str]) -> list[Case]:
    """What has a rule in Spark, and a meaning in DuckDB."""
    table = Table("t", tuple(Column(n, t) for n, t in zip("ab", types, strict=False)))
    columns = ", ".join(f"{c.name} {c.type}" for c in table.columns)
    found = []
    with duckdb.connect() as twin:
        twin.execute(f"CREATE TABLE t ({columns})")
        for text in texts:
            node = parse(f"SELECT {text} AS x FROM t").expressions[0].this
            rules = RowExpressions(table, SPARK_ROWS, None)
            try:
                made = rules.value(total(node, table, SPARK))
                sql = text_of(total_sql(node, table, DUCKDB))
                (type_,) = twin.sql(f"SELECT {sql} FROM t").types
            except (QueryRefused, duckdb.Error):
                continue
            call = rules.calls[-1][0] if rules.calls else text
            spark = made.sql.render(SPARK.renderer)
            found.append(Case(text, call, f"{made.type} {type_}", sql, spark))
    return found


def rows_of(types: Sequence[str]) -> pa.Table:
    """All combinations of edge values and NULL, numbered."""
    lists = []
    for name, type_ in zip("ab", types, strict=False):
        values = ", ".join(f"(CAST({quote_text(edge)} AS {type_}))" for edge in EDGES[type_])
        lists.append(f"(VALUES {values}, (NULL)) v{name}({name})")
    sql = f"SELECT row_number() OVER () AS n, * FROM {', '.join(lists)}"
    with duckdb.connect() as connection:
        return connection.sql(sql).to_arrow_table()


def verdicts(session: Any, *, pairs: bool = True) -> dict[str, str]:
    """The verdict on each call, in the order of their names."""
    found: dict[str, list[str]] = {}
    for types, texts in worlds(pairs=pairs):
        cases = cases_of(types, texts)
        if cases:
            for case, verdict in zip(cases, compared(session, types, cases), strict=True):
                if verdict is not None:
                    found.setdefault(case.call, []).append(verdict)
    return {call: _worst(call, each) for call, each in sorted(found.items())}


def _worst(call: str, found: Sequence[str]) -> str:
    differs = [verdict for verdict in found if verdict.startswith("differs")]
    if differs:
        letters = call in ("lower(VARCHAR)", "upper(VARCHAR)")
        sure = not any(verdict.startswith("differs: raises") for verdict in differs)
        return _noted(call) if letters and sure else differs[0]
    if call in NOTES and _noted(call) in found:
        return _noted(call)
    return CLOSE if CLOSE in found else SAME


def _noted(call: str) -> str:
    return f"same but {NOTES[call]}"


def compared(session: Any, types: Sequence[str], cases: Sequence[Case]) -> list[str | None]:
    """Compute the cases of one world in both engines."""
    rows = rows_of(types)
    session.createDataFrame(rows).createOrReplaceTempView("t")
    with duckdb.connect() as connection:
        connection.register("arrow", rows)
        columns = ", ".join(f"CAST({n} AS {t}) AS {n}" for n, t in zip("ab", types, strict=False))
        connection.execute(f"CREATE TABLE t AS SELECT n, {columns} FROM arrow")
        expected = [_expected(connection, case) for case in cases]
        inside = _inside(connection, types)
    found = _together(session, cases) or [None] * len(cases)
    return [
        None if column is None else _verdict(session, case, column, inside, found[place])
        for place, (case, column) in enumerate(zip(cases, expected, strict=True))
    ]


def _expected(connection: duckdb.DuckDBPyConnection, case: Case) -> Any:
    """What DuckDB computes; None where a row makes it fail, so that it is refused there already."""
    try:
        return connection.sql(f"SELECT {case.duckdb} FROM t ORDER BY n").to_arrow_table().column(0)
    except duckdb.Error:
        return None


def _together(session: Any, cases: Sequence[Case]) -> list[Any] | None:
    listed = ", ".join(f"{case.spark} AS x{i}" for i, case in enumerate(cases))
    try:
        found = session.sql(f"SELECT n, {listed} FROM t ORDER BY n").toArrow()
    except Exception:  # noqa: BLE001 - one by one it shows which call it is
        return None
    return [found.column(i + 1) for i in range(len(cases))]


def _inside(connection: duckdb.DuckDBPyConnection, types: Sequence[str]) -> list[bool]:
    """Which rows have dates in the years 1 to 9999 alone."""
    tests = [
        f"({name} IS NULL OR {name} BETWEEN '0001-01-01' "
        "AND '9999-12-31 23:59:59.999999'::TIMESTAMP)"
        for name, type_ in zip("ab", types, strict=False)
        if type_ in ("DATE", "TIMESTAMP")
    ]
    sql = f"SELECT {' AND '.join(tests) or 'true'} FROM t ORDER BY n"
    return [row[0] for row in connection.execute(sql).fetchall()]


def _verdict(
    session: Any, case: Case, expected: Any, inside: Sequence[bool], column: Any = None
) -> str:
    ours, theirs = case.type.split(" ", 1)
    if ours.replace(" ", "") not in (theirs.replace(" ", ""), "NULL") and theirs != '"NULL"':
        return f"differs: {case.text} has the type {theirs}, not {ours}"
    if column is None:
        try:
            found = session.sql(f"SELECT n, {case.spark} AS x FROM t ORDER BY n").toArrow()
        except Exception as error:  # noqa: BLE001 - whatever it raises
            return f"differs: raises {_condition(error)}"
        column = found.column(1)
    close = noted = False
    for one, other, counts in zip(_plain(column), _plain(expected), inside, strict=True):
        if not counts or _equal(one, other):
            continue
        if one is None and NOTES.get(case.call, "").endswith("NULL"):
            noted = True
            continue
        if not _close(one, other):
            return f"differs: {case.text} is {_short(one)}, not {_short(other)}"
        close = True
    if noted:
        return _noted(case.call)
    return CLOSE if close else SAME


def _condition(error: Exception) -> str:
    condition = getattr(error, "getCondition", getattr(error, "getErrorClass", lambda: None))()
    return str(condition or type(error).__name__)


def _plain(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        wide = pa.int64() if pa.types.is_timestamp(column.type) else pa.int32()
        column = column.cast(pa.timestamp("us") if wide == pa.int64() else column.type).cast(wide)
    return list(column.to_pylist())


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, int | Decimal) and isinstance(other, int | Decimal):
        return one == other
    return type(one) is type(other) and one == other


def _close(one: Any, other: Any) -> bool:
    both = isinstance(one, float) and isinstance(other, float)
    return both and math.isclose(one, other, rel_tol=4e-15)


def _short(value: Any) -> str:
    return repr(value)[:40]
