"""The rows that expressions are tried on: of however many tables, nearly all values of two meet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import combinations, product

import duckdb
import pytest
from helpers.columns import column_of
from helpers.sql_text import text
from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.table_name import TableName
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.relations import Join, JoinKind, RowSet, Scan
from dpsql.ir.trial_rows import unfiltered
from dpsql.sql.relations.from_clause import from_clause

TABLES = 7
ROWS = 50
VALUES = 9  # NULL is one of them


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        for place in range(TABLES):
            value = f"(r + {place} * (1 + r // {VALUES})) % {VALUES}"
            opened.execute(
                f"CREATE TABLE t{place} AS SELECT nullif({value}, 0) AS v{place} "
                f"FROM range({ROWS}) AS g(r)"
            )
        yield opened


def tables(count: int) -> list[RowSet]:
    return [
        Scan(Table(TableName(f"t{n}", "main"), (column_of(f"v{n}", "BIGINT"),)))
        for n in range(count)
    ]


def all_joined(rows: list[RowSet], kind: JoinKind, *conditions: exp.Expr) -> RowSet:
    return reduce(lambda left, right: Join(left, right, kind, conditions), rows)


def read(
    connection: duckdb.DuckDBPyConnection, rows: RowSet, count: int
) -> list[tuple[int | None, ...]]:
    columns = ", ".join(f"v{n}" for n in range(count))
    found = connection.execute(f"SELECT {columns} FROM {text(from_clause(rows, DUCKDB))}")
    return found.fetchall()


@pytest.mark.parametrize("kind", JoinKind)
@pytest.mark.parametrize("count", range(2, TABLES + 1))
def test_nearly_all_values_of_any_two_tables_meet(
    connection: duckdb.DuckDBPyConnection, kind: JoinKind, count: int
) -> None:
    never = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(2))
    found = read(connection, unfiltered(all_joined(tables(count), kind, never)), count)
    assert len(found) <= ROWS**2
    values = [None, *range(1, VALUES)]
    for one, other in combinations(range(count), 2):
        pairs = {(row[one], row[other]) for row in found}
        assert len(pairs & set(product(values, values))) >= 0.95 * len(values) ** 2


def test_a_join_of_joins_has_no_more_rows(connection: duckdb.DuckDBPyConnection) -> None:
    each = tables(6)
    left, right = all_joined(each[:3], JoinKind.INNER), all_joined(each[3:], JoinKind.INNER)
    found = read(connection, unfiltered(Join(left, right, JoinKind.INNER, ())), 6)
    assert 0 < len(found) <= ROWS**2


@pytest.mark.parametrize("count", [2, 3, 5])
def test_rows_that_must_be_alike_are(connection: duckdb.DuckDBPyConnection, count: int) -> None:
    joined = tables(count)[0]
    for place, table in enumerate(tables(count)[1:], 1):
        same = exp.EQ(this=exp.column("v0", quoted=True), expression=exp.column(f"v{place}"))
        less = exp.LT(this=exp.column(f"v{place}"), expression=exp.column("v0"))
        joined = Join(joined, table, JoinKind.INNER, (same, less))
    found = read(connection, unfiltered(joined), count)
    assert {row[0] for row in found} == set(range(1, VALUES))
    assert all(len(set(row)) == 1 for row in found)
    assert len(found) <= ROWS**2
    apart = read(connection, unfiltered(joined, paired=False), count)
    assert any(len(set(row)) > 1 for row in apart)


@pytest.mark.parametrize("first", range(2, 11))
def test_values_meet_however_often_they_come_back(
    connection: duckdb.DuckDBPyConnection, first: int
) -> None:
    """Five decimals of one table, say, meet the five of another, and not each only itself."""
    joined = all_joined(tables(2), JoinKind.INNER)
    for second in range(2, 11):
        for table, count in enumerate((first, second)):
            connection.execute(f"UPDATE t{table} SET v{table} = rowid % {count}")
        met = set(read(connection, unfiltered(joined), 2))
        assert met == set(product(range(first), range(second)))


@pytest.mark.parametrize("count", [3, 5])
def test_rows_that_meet_meet_again_by_columns_of_other_names(
    connection: duckdb.DuckDBPyConnection, count: int
) -> None:
    once = unfiltered(all_joined(tables(count), JoinKind.INNER))
    again = unfiltered(once, paired=False)
    assert 0 < len(read(connection, again, count)) <= ROWS**2
    names = [column.name for column in again.columns]
    assert len(names) == len(set(names))
