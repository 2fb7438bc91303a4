"""Aggregates that list groups are made of released groups, each a block of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.support import NO_NUMBER, connect

import dpsql


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connect(tmp_path_factory.mktemp("listed"), defaults=NO_NUMBER) as opened:
        yield opened


@pytest.mark.parametrize(
    ("sql", "names", "blocks"),
    [
        ("SELECT mode(s), count(*) FROM visits", ["mode(s)", "count_star()"], 2),
        ("SELECT mode(s), 1 AS one FROM visits WHERE n > 1", ["mode(s)", "one"], 1),
        ("SELECT upper(mode(s)), sum(n) AS t FROM visits", ["upper(mode(s))", "t"], 2),
        ("SELECT list(DISTINCT s) FROM visits", ["list(DISTINCT s)"], 1),
        ("SELECT histogram(k) FROM visits", ["histogram(k)"], 1),
    ],
)
def test_a_list_of_groups_is_named_as_it_was_written(
    connection: dpsql.Connection, sql: str, names: list[str], blocks: int
) -> None:
    assert list(connection.sql(sql).columns) == names
    assert len(connection.explain(sql).blocks) == blocks


def test_a_list_is_the_same_question_as_its_groups(connection: dpsql.Connection) -> None:
    connection.sql("SELECT DISTINCT s FROM visits WHERE k = 3 AND n > 1")
    listed = "SELECT list(DISTINCT s) FILTER (WHERE n > 1) FROM visits WHERE k = 3"
    assert connection.sql(listed).cost.stored
