"""COLUMNS in an aggregate is that aggregate of each column, and a row of values is one value."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.failures import fails_with
from helpers.support import connect

import dpsql


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("columns")) as found:
        yield found


@pytest.mark.parametrize(
    ("asked", "written", "names"),
    [
        ("avg(COLUMNS(['x', 'N']))", "avg(n), avg(x)", ["n", "x"]),
        ("sum(COLUMNS(['n', 'x'])) + 1 AS s", "sum(n) + 1, sum(x) + 1", ["s", "s_1"]),
        ("max(COLUMNS(['n'])) - min(COLUMNS(['n']))", "max(n) - min(n)", ["n"]),
        ("count(COLUMNS(['k', 's'])) FILTER (WHERE n > 3)",
         "count(k) FILTER (WHERE n > 3), count(s) FILTER (WHERE n > 3)", ["k", "s"]),
        ("count(DISTINCT COLUMNS(['k', 's']))", "count(DISTINCT k), count(DISTINCT s)", ["k", "s"]),
        ("sum(COLUMNS(* EXCLUDE (uid, k, s, big, x, wide, amount, d, ts, flag, c)))",
         'sum(n), sum("order")', ["n", "order"]),
        ("count(DISTINCT (k, s))", "count(DISTINCT ROW(k, s))", None),
        ("count(DISTINCT {'a': k, 'b': n})", "count(DISTINCT (k, n))", None),
    ],
)  # fmt: skip
def test_it_is_the_question_that_is_written_out(
    connection: dpsql.Connection, asked: str, written: str, names: list[str] | None
) -> None:
    first = connection.sql(f"SELECT {asked} FROM visits")
    again = connection.sql(f"SELECT {written} FROM visits")
    assert not first.cost.stored
    assert again.cost.stored
    assert again.fetchall() == first.fetchall()
    assert names is None or first.columns == names


def test_all_columns_are_those_of_the_schema(connection: dpsql.Connection) -> None:
    whole = connection.sql("SELECT count(COLUMNS(*)) FROM visits")
    assert whole.columns[:4] == ["Uid", "k", "s", "n"]
    assert len(whole.columns) == 13
    inner = connection.sql("SELECT count(COLUMNS(*)) FROM (SELECT uid, k, n + 1 AS m FROM visits)")
    assert inner.columns == ["Uid", "k", "m"]
    joined = "SELECT count(COLUMNS(['k', 'size'])) FROM visits v JOIN shops s ON v.k = s.k"
    assert connection.sql(joined).columns == ["k", "k_1", "size"]


def test_a_name_that_no_column_has_is_refused_with_its_place(connection: dpsql.Connection) -> None:
    with fails_with("unknown_column") as refused:
        connection.sql("SELECT avg(COLUMNS(['x', 'amont'])) FROM visits")
    assert "amount" in str(refused.value.hint)
    assert refused.value.place is not None
