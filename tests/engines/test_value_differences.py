"""Values that differ between engines are those that the page of engines tells, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
import sqlglot
from helpers.columns import column_of
from helpers.dialects import POSTGRESQL
from helpers.value_differences import DIFFERENCES, SAME

from dpsql.core.schema import Table
from dpsql.engines.base.row_types import BLANKS

if TYPE_CHECKING:
    from helpers.postgresql_server import Server

_PAGE = Path(__file__).parents[2] / "docs" / "engines" / "README.md"
_NAMES = {"VARCHAR": "text", "DATE": "date", "TIMESTAMP": "timestamp"}


def in_duckdb(expression: str, type_: str, value: str) -> str | None:
    sql = f"SELECT CAST(TRY({expression}) AS VARCHAR) FROM (SELECT CAST($1 AS {type_}) AS a)"
    with duckdb.connect() as connection:
        ((found,),) = connection.execute(sql, [value]).fetchall()
    result: str | None = found
    return result


@pytest.mark.parametrize("word", ["trim", "ltrim", "rtrim"])
def test_duckdb_trims_these_characters_and_no_other(word: str) -> None:
    """All that there are, one by one: servers are told them (``BLANKS``)."""
    sides = {"trim": "{0}x{0}", "ltrim": "{0}x", "rtrim": "x{0}"}
    made = f"replace('{sides[word].format('#')}', '#', chr(code::INTEGER))"
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT chr(code::INTEGER) FROM range(1114112) AS t(code) "
            f"WHERE code NOT BETWEEN 55296 AND 57343 AND {word}({made}) = 'x' ORDER BY code"
        ).fetchall()
    assert "".join(character for (character,) in found) == BLANKS


@pytest.mark.parametrize(("expression", "type_", "value", "here", "there", "_"), DIFFERENCES)
def test_postgresql_differs_as_the_page_says(
    postgres_server: Server,
    expression: str,
    type_: str,
    value: str,
    here: str | None,
    there: str | None,
    _: object,
) -> None:
    assert in_duckdb(expression, type_, value) == here
    assert in_postgresql(postgres_server, expression, type_, value) == there
    assert f"| `{expression}` of `{value}` | " in _PAGE.read_text()


@pytest.mark.parametrize(("expression", "type_", "value", "expected"), SAME)
def test_other_values_do_not(
    postgres_server: Server, expression: str, type_: str, value: str, expected: str
) -> None:
    assert in_duckdb(expression, type_, value) == expected
    found = in_postgresql(postgres_server, expression, type_, value)
    assert found == expected.removesuffix(".0")


def in_postgresql(server: Server, expression: str, type_: str, value: str) -> str | None:
    import psycopg

    tree = sqlglot.parse_one(expression, dialect="duckdb")
    written = POSTGRESQL.expression(tree, Table("t", (column_of("a", type_),)))
    text = written.render(POSTGRESQL.renderer)
    sql = f"SELECT ({text})::text FROM (SELECT '{value}'::{_NAMES[type_]} AS a) AS t"
    with psycopg.connect(server.without_ledger(), autocommit=True) as connection:
        ((found,),) = connection.execute(sql.encode()).fetchall()
    result: str | None = found
    return result
