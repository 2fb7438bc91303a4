"""Writes docs/engines/functions.md, what differs by engine: ``make pictures``.

Each call is validated as an analyst's, and written in the dialect of each engine. A list of calls
that no longer has all that the allow-list of row expressions has fails its test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
from sqlglot import exp

import dpsql
from dpsql.core.schema import Column, Table, schema_of
from dpsql.core.sql import name
from dpsql.core.sql_types import BIGINT, SqlType
from dpsql.engines.base.row_expressions import RowExpressions
from dpsql.engines.base.server_dialect import ServerDialect
from dpsql.engines.base.twin import Twin
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.evidence.evidence import evidence_for
from dpsql.engines.evidence.verdicts import EngineVersion, verdicts_on
from dpsql.engines.postgresql.dialect import PostgreSQLDialect
from dpsql.engines.spark.dialect import SparkDialect
from dpsql.planner.groups import with_groups_decided
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.policy.resolve import resolve
from dpsql.sql.blocks.validate import validate
from dpsql.sql.expressions.totality import total, total_sql
from dpsql.survey.forms import calls_of
from dpsql.syntax.parse import parse
from dpsql.syntax.row_functions import (
    ANY_NUMBERS,
    MOMENTS,
    PARTS,
    ROW_FUNCTIONS,
    TEXTS,
    WHOLE_NUMBERS,
)

POSTGRESQL: Final = PostgreSQLDialect(verdicts_on(EngineVersion("postgresql", "15")))
SPARK: Final = SparkDialect(verdicts_on(EngineVersion("spark", "4.3")))
PAGE: Final = Path(__file__).parents[2] / "docs" / "engines" / "functions.md"

NUMBERS: Final = ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL(12,2)")
FLOATS: Final = (*NUMBERS, "FLOAT")
ALL: Final = (*FLOATS, "BOOLEAN", "VARCHAR", *MOMENTS, "TIME", "UUID")
INSIDE: Final = {"VARCHAR[]": "list_", "STRUCT(f VARCHAR)": "struct_"}
_COLUMNS: Final = {name: re.sub(r"\W.*", "", name).lower() + "_" for name in ALL} | INSIDE
_TABLE: Final = Table(
    "r",
    (
        Column("unit", BIGINT),
        *(
            Column(f"{name}{n}", SqlType.of(type_))
            for type_, name in _COLUMNS.items()
            for n in (1, 2)
        ),
    ),
)
_CASTS: Final = ("BIGINT", "BOOLEAN", "DATE", "DECIMAL(12,2)", "DOUBLE", "FLOAT", "INTEGER")
_CASTS_AFTER: Final = ("SMALLINT", "TIME", "TIMESTAMP", "TINYINT", "UBIGINT", "VARCHAR")
_PARTS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")

_SHOWN: Final = {
    MOMENTS: MOMENTS,
    ("TIMESTAMP",): ("TIMESTAMP", "TIME"),
    TEXTS: TEXTS,
    WHOLE_NUMBERS: ("INTEGER", "BIGINT"),
    ANY_NUMBERS: ("DOUBLE", "INTEGER"),
    ("DOUBLE",): ("DOUBLE",),
}
"""The types that functions are shown for, by what they take."""
CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("a + b", "a - b", "a * b", "a / b", "a // b", "a % b"), NUMBERS),
    **dict.fromkeys(("-a", "abs(a)", "sign(a)", "ceil(a)", "floor(a)", "round(a)"), NUMBERS),
    **dict.fromkeys(("round(a, 1)", "round(a, -1)", "trunc(a)"), NUMBERS),
    **dict.fromkeys(("log(a)", "log2(a)"), ("DOUBLE", "INTEGER")),
    **dict.fromkeys(("a = b", "a <> b", "a < b", "a <= b", "a > b", "a >= b"), ALL),
    **dict.fromkeys(("a BETWEEN b AND b", "a IN (b)", "a IS DISTINCT FROM b"), ALL),
    **dict.fromkeys(("a IS NOT DISTINCT FROM b", "a IS NULL", "nullif(a, b)"), ALL),
    **dict.fromkeys(("coalesce(a, b)", "CASE WHEN a IS NULL THEN b ELSE a END"), ALL),
    **dict.fromkeys(("greatest(a, b)", "least(a, b)"), ALL),
    **dict.fromkeys(("a AND b", "a OR b", "NOT a"), ("BOOLEAN",)),
    **dict.fromkeys(("a LIKE 'x%'", "a ILIKE 'x%'", "a || b", "concat(a, b)"), ("VARCHAR",)),
    **dict.fromkeys(("trim(a)", "ltrim(a)", "rtrim(a)"), ("VARCHAR",)),
    **dict.fromkeys(("left(a, 2)", "right(a, 2)", "left(a, -2)"), ("VARCHAR",)),
    **dict.fromkeys(("substr(a, 2)", "substr(a, 2, 3)", "substr(a, -2)"), ("VARCHAR",)),
    "extract(month FROM a)": MOMENTS,
    **{
        call: _SHOWN[function.takes]
        for function in dict.fromkeys((*ROW_FUNCTIONS.values(), *PARTS.values()))
        for call in calls_of(function)[: 1 if function.beside else None]
        if not call.startswith("extract")
    },
    **{f"date_trunc('{part}', a)": MOMENTS for part in _PARTS},
    **dict.fromkeys(("a & 4", "a | 4", "xor(a, 4)", "a >> 2"), WHOLE_NUMBERS[1:]),
    "time_bucket(INTERVAL 15 MINUTE, a)": MOMENTS,
    **{f"date_diff('{part}', a, b)": MOMENTS for part in _PARTS},
    **{f"date_sub('{part}', a, b)": MOMENTS for part in ("month", "day", "hour", "minute")},
    **{f"a {sign} INTERVAL 1 {part}": MOMENTS for sign in "+-" for part in _PARTS},
    **{f"CAST(a AS {type_})": ALL for type_ in (*_CASTS, *_CASTS_AFTER)},
    "TRY_CAST(a AS INTEGER)": ("VARCHAR",),
    **dict.fromkeys(
        ("a[1]", "list_contains(a, 'x')", "list_position(a, 'x')", "'x' = ANY(a)"), ("VARCHAR[]",)
    ),
    "a.f": ("STRUCT(f VARCHAR)",),
    **dict.fromkeys(("a ->> 'f'", "a ->> '$.f[0]'"), ("VARCHAR",)),
}
"""Calls of ``a`` and ``b``, two columns of one type, with the types they are shown for."""

INTRODUCTION: Final = """\
# What differs by engine

Analysts write DuckDB's SQL whatever holds the data, and it means the same: what an engine cannot be
made to compute as DuckDB does is refused before anything is paid for. So engines differ in what may
be computed of private rows: in conditions, keys and arguments of aggregates. All else is the same,
as blocks are made of dpsql's own SQL and the tail runs in DuckDB.

A call is *same* where it is written alike, *rewritten* where it is written otherwise with the same
result, on all of the edge values that a survey of each engine tries. This page is made by asking
dpsql (`python tools/docs/functions.py`); more about [PostgreSQL](postgresql.md) and
[Spark](spark.md).

"""


@cache
def written(call: str, type_: str) -> tuple[str, str, str]:
    """Say of a call with operands of a type what DuckDB, PostgreSQL and Spark make of it."""
    try:
        tree = _validated(call, type_)
        objection = _twin().examine(name("r"), [total_sql(tree, _TABLE, DUCKDB)]).objection
    except dpsql.QueryRefused as refused:
        return (f"refused: {_reason(refused)}",) * 3
    if objection is not None:
        return (f"refused: {objection} may fail on a row",) * 3
    plain = _letters(tree.sql("duckdb"))
    on_postgresql = _on_server(tree.copy(), plain, POSTGRESQL)
    return "same", on_postgresql, _on_server(tree, plain, SPARK)


def _on_server(tree: exp.Expr, plain: str, dialect: ServerDialect) -> str:
    verdicts = dialect.verdicts
    rules = RowExpressions(_TABLE, dialect.rows, verdicts)
    try:
        sql = rules.settled(total(tree, _TABLE, dialect)).sql.render(dialect.renderer)
    except dpsql.QueryRefused as refused:
        return f"refused: {_reason(refused)}"
    found = dict.fromkeys(verdicts.calls[call] for call, _ in rules.calls)
    buts = [each for each in found if each.startswith("same but")]
    return "; ".join([_verdict(sql, plain), *(but.removeprefix("same ") for but in buts)])


def _verdict(sql: str, plain: str) -> str:
    return "same" if _letters(sql) == plain else "rewritten"


def _letters(sql: str) -> str:
    """What is written, whatever the quotes, brackets and spaces."""
    return re.sub(r'[\s()"`]', "", sql).upper().replace("!=", "<>")


def _validated(call: str, type_: str) -> exp.Expr:
    name = _COLUMNS[type_]
    text = re.sub(r"\b([ab])\b", lambda m: name + ("1" if m[1] == "a" else "2"), call)
    sql = f"SELECT {text} AS e, COUNT(*) AS n FROM r GROUP BY 1"
    rules = Policy(
        "functions",
        accounts={"a": AccountPolicy("a", 1.0, 1e-6)},
        tables={"r": TablePolicy("r", PrivacyUnit("unit", "unit"))},
    )
    query = validate(
        parse(sql),
        sql,
        rules,
        schema_of(_TABLE),
        resolve(rules, base=Parameters(max_groups_contributed=1)),
        _twin().bind,
        DUCKDB,
        with_groups_decided,
    )
    return query.blocks[0].keys[0].expression


@cache
def _twin() -> Twin:
    return Twin(schema_of(_TABLE), evidence_for(duckdb.__version__))


def _reason(refused: dpsql.QueryRefused) -> str:
    """The reason of a refusal, without what every one of the engine says."""
    said = r" is not available over private rows (of a PostgreSQL database|in Spark): "
    return re.split(said, refused.reason)[-1]


def rows() -> Iterator[tuple[str, str, tuple[str, str, str]]]:
    """Calls, the types of operands and the verdicts on them: types of one verdict together."""
    for call, types in CALLS.items():
        found: dict[tuple[str, str, str], list[str]] = {}
        for type_ in types:
            found.setdefault(written(call, type_), []).append(_COLUMNS[type_][:-1].upper())
        for verdicts, names in found.items():
            if not all(each.startswith("refused") for each in verdicts):
                yield call, ", ".join(names), verdicts


def page() -> str:
    """The page as Markdown."""
    heads = ["call", "of values of type", "DuckDB", "PostgreSQL", "Spark"]
    lines = [heads, ["---"] * 5]
    lines += [[f"`{call}`", names, *verdicts] for call, names, verdicts in rows()]
    return INTRODUCTION + "".join(map(_line, lines))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
