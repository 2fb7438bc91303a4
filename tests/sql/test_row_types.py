"""Row expressions have the types that DuckDB gives them; engines' tables hold what is asked for."""

from __future__ import annotations

import re
from itertools import product
from typing import Any, Final

import duckdb
import pytest
from helpers.columns import column_of
from helpers.dialects import SPARK
from helpers.failures import fails_with
from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import sql
from dpsql.core.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    SqlType,
)
from dpsql.engines.base.row_engine import RowEngine
from dpsql.engines.base.row_expressions import RowExpressions
from dpsql.engines.base.row_types import TypedValue, decimal_result, number_type, shared_type
from dpsql.engines.postgresql.expressions import POSTGRESQL_ROWS
from dpsql.engines.spark.expressions import SPARK_ROWS
from dpsql.errors import QueryRefused
from dpsql.sql.expressions.alike import write_alike
from dpsql.survey.forms import calls_of
from dpsql.syntax.parse import parse
from dpsql.syntax.row_functions import PARTS, ROW_FUNCTIONS

DECIMALS: Final = tuple(
    SqlType.decimal(*size)
    for size in ((1, 0), (4, 4), (9, 2), (18, 0), (18, 18), (19, 4), (38, 0), (38, 10))
)
NUMBERS: Final = (TINYINT, SMALLINT, INTEGER, BIGINT, *DECIMALS)
TYPES: Final = (*NUMBERS, DOUBLE, VARCHAR, BOOLEAN, DATE, TIMESTAMP)
CONSTANTS: Final = ("1", "300", "70000", "3000000000", "1.5", "0.0001", "1e3")


def typed(text: str, *types: object) -> SqlType:
    """The type that DuckDB gives an expression over ``a`` and ``b``."""
    columns = ", ".join(f"CAST(NULL AS {t}) AS {n}" for n, t in zip("ab", types, strict=False))
    with duckdb.connect() as connection:
        (found,) = connection.sql(f"SELECT {text} FROM (SELECT {columns or '1'})").types
    return SqlType.of(str(found).replace(", ", ","))


@pytest.mark.parametrize(
    "text",
    [
        *("7", "2147483647", "2147483648", "9223372036854775807", "1.5", "0.5"),
        *(
            "1e3",
            "1.50",
            "5.",
            "00.10",
            "007.5",
            "12345678901234567890.5",
            "-1",
            "-9223372036854775807",
        ),
    ],
)
def test_a_number_has_the_type_that_duckdb_gives_it(text: str) -> None:
    assert number_type(text) == typed(text)


@pytest.mark.parametrize("text", ["9223372036854775808", "1" * 39 + ".5"])
def test_a_number_of_too_many_digits_has_no_type(text: str) -> None:
    assert number_type(text) is None


@pytest.mark.slow
def test_values_beside_each_other_get_the_type_that_duckdb_gives_them() -> None:
    seen = 0
    for one, two in product(TYPES, TYPES):
        found = shared_type([TypedValue(sql("a"), one), TypedValue(sql("b"), two)])
        if found is not None:
            assert found == typed("coalesce(a, b)", one, two), (one, two)
            seen += 1
    assert seen > 120


@pytest.mark.slow
def test_constants_beside_a_column_get_the_type_that_duckdb_gives_them() -> None:
    for column, text in product((*NUMBERS, DOUBLE), CONSTANTS):
        kind = number_type(text)
        assert kind is not None
        constant = None if kind == DOUBLE else text if "." in text else int(text)
        found = shared_type([TypedValue(sql("a"), column), TypedValue(sql("b"), kind, constant)])
        if found is not None:
            assert found == typed(f"coalesce(a, {text})", column), (column, text)


@pytest.mark.slow
def test_decimals_have_the_results_that_duckdb_gives_them() -> None:
    for sign, one, two in product("+-*", DECIMALS, DECIMALS):
        found = decimal_result(sign, one, two)
        if found is not None:
            assert found == typed(f"a {sign} b", one, two), (sign, one, two)


TABLE: Final = Table(
    "r",
    (
        *(
            column_of("i", "INTEGER"),
            column_of("j", "BIGINT"),
            column_of("x", "DOUBLE"),
            column_of("b", "BOOLEAN"),
        ),
        *(column_of("m", "DECIMAL(9,2)"), column_of("s", "VARCHAR"), column_of("d", "DATE")),
        column_of("t", "TIMESTAMP"),
    ),
)


def parsed(text: str) -> exp.Expr:
    found = parse(f"SELECT {text} AS x FROM r").expressions[0].this
    assert isinstance(found, exp.Expr)
    return write_alike(found, lambda column: None)


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        *(
            (POSTGRESQL_ROWS, f"{text}")
            for text in ("m + NULL", "NULL * m", "2.5 - NULL", "m // m")
        ),
        *((SPARK_ROWS, text) for text in ("x > 1e999", "1e999 = 1e999", "i + NULL", "m // m")),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_has_no_type_or_no_value_there_is_refused(engine: RowEngine, text: str) -> None:
    """Once, these two were errors of dpsql's own: of NULL beside decimals, of infinite numbers."""
    with fails_with("expression_not_allowed"):
        RowExpressions(TABLE, engine, None).value(parsed(text))


OF_LENGTHS: Final = ("year", "month", "day", "hour", "minute", "second")
LENGTHS: Final = ("week", "day", "hour", "minute", "second")
MONTHS: Final = ("month", "quarter", "year")
_TAKEN: Final = {"NUMBERS": "x", "DOUBLE": "x", "VARCHAR": "s", "TIMESTAMP": "t", "BIGINT": "i"}
ASKED: Final = (
    *(f"{n} {sign} {n}" for n in "ijmx" for sign in ("+", "-", "*", "/", "//", "%")),
    *(f"{word}({n})" for n in "imx" for word in ("-", "abs", "sign", "floor", "ceil", "trunc")),
    *(f"{form}" for n in "imx" for form in (f"round({n})", f"round({n}, 1)")),
    *(f"{word}(x)" for word in ("log", "log10", "log2")),
    *("substr(s, 1)", "left(s, 1)", "right(s, 1)"),
    *(
        re.sub(r"\b[ab]\b", _TAKEN[each.takes[-1]], call)
        for each in dict.fromkeys((*ROW_FUNCTIONS.values(), *PARTS.values()))
        for call in calls_of(each)
        if "'" not in call
    ),
    *("trim(s)", "trim(BOTH FROM s)", "ltrim(s)", "rtrim(s)", "s LIKE 'x'", "s NOT LIKE 'x'"),
    *("replace(s, 'a', 'b')", "split_part(s, 'a', 1)", "strftime(t, '%Y')", "sha256(s)"),
    *("regexp_matches(s, 'a')", "regexp_extract(s, 'a', 0)", "regexp_replace(s, 'a', 'b', 'g')"),
    *("s || s", "concat(s, s)", "b IS TRUE", "i IN (1, 2)"),
    *("i IS DISTINCT FROM j", "i IS NOT DISTINCT FROM j", "i BETWEEN 1 AND 2"),
    *("CASE WHEN b THEN i END", "nullif(i, i)", "greatest(i, j)", "least(i, j)", "d - d"),
    *("date_trunc('day', t)", "d + 1", "d - 1", "t + INTERVAL 1 DAY", "t - INTERVAL 1 DAY"),
    *(f"date_diff('{unit}', t, t)" for unit in (*LENGTHS, *MONTHS)),
    *(f"t {sign} INTERVAL (i) {unit}" for sign in "+-" for unit in (*LENGTHS, *MONTHS)),
    *(f"EXTRACT({part} FROM t - t)" for part in (*OF_LENGTHS, "epoch")),
    *("t - t > INTERVAL 1 DAY", "time_bucket(INTERVAL 1 DAY, t)", "time_bucket(INTERVAL 1 DAY, d)"),
)


class _Asked(dict[str, Any]):
    """A table of operations that remembers which were asked for."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


def _never_asked(engine: RowEngine, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    table = _Asked(engine.operations)
    monkeypatch.setattr(engine, "operations", table, raising=False)
    for tree in (*map(parsed, ASKED), SPARK.try_(parsed("i"), TABLE)):
        try:
            RowExpressions(TABLE, engine, None).value(tree)
        except QueryRefused:
            continue
    return set(table) - table.names


@pytest.mark.parametrize("engine", [POSTGRESQL_ROWS, SPARK_ROWS], ids=["postgresql", "spark"])
def test_no_engine_has_an_operation_that_nothing_asks_for(
    engine: RowEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is misspelt in a table would be a function that is refused."""
    assert _never_asked(engine, monkeypatch) == set()


def test_an_operation_that_nothing_asks_for_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    misspelt = {**POSTGRESQL_ROWS.operations, "lenght": POSTGRESQL_ROWS.operations["length"]}
    monkeypatch.setattr(POSTGRESQL_ROWS, "operations", misspelt, raising=False)
    assert _never_asked(POSTGRESQL_ROWS, monkeypatch) == {"lenght"}


@pytest.mark.parametrize("engine", [POSTGRESQL_ROWS, SPARK_ROWS], ids=["postgresql", "spark"])
def test_lengths_of_time_are_of_1000_years_at_most(engine: RowEngine) -> None:
    """A bucket of more could begin where a server has no moments, for some rows only."""
    for weeks, is_written in ((52_000, True), (53_000, False), (15_250_284, False)):
        for text in ("time_bucket(INTERVAL {} WEEK, t)", "t - t > INTERVAL {} WEEK"):
            tree = parsed(text.format(weeks))
            if is_written:
                RowExpressions(TABLE, engine, None).value(tree)
                continue
            with fails_with("expression_not_allowed"):
                RowExpressions(TABLE, engine, None).value(tree)


@pytest.mark.parametrize("engine", [POSTGRESQL_ROWS, SPARK_ROWS], ids=["postgresql", "spark"])
def test_what_is_not_in_the_table_of_an_engine_is_refused(
    engine: RowEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "operations", {}, raising=False)
    pairwise = {"i BETWEEN 1 AND 2", "i IN (1, 2)"}  # two comparisons, which all engines have
    for text in set(ASKED) - pairwise:
        with pytest.raises(QueryRefused):
            RowExpressions(TABLE, engine, None).value(parsed(text))
