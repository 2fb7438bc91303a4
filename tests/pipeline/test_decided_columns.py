"""Columns of public tables whose key is grouped by stand beside it, as if they were keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.support import FILL, NO_NUMBER, connect

import dpsql

BY_NUMBER = "SELECT sh.name, count(*) FROM visits v JOIN shops sh ON sh.k = v.k GROUP BY sh.k"
BY_BOTH = (
    "SELECT sh.name, count(*) FROM visits v JOIN shops sh ON sh.k = v.k GROUP BY sh.k, sh.name"
)


@pytest.mark.slow
def test_decided_columns_are_the_same_question_as_keys(tmp_path: Path) -> None:
    with connect(tmp_path, defaults=NO_NUMBER) as connection:
        assert connection.explain(BY_NUMBER).reserved == connection.explain(BY_BOTH).reserved
        connection.sql(BY_BOTH)
        assert connection.sql(BY_NUMBER).cost.stored


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sh.name, count(*) FROM visits v, shops sh WHERE sh.k = v.k GROUP BY sh.k",
        "SELECT any_value(sh.name), count(*) FROM visits v JOIN shops sh USING (k) GROUP BY sh.k",
        "SELECT sh.name, count(v.k) FROM shops sh LEFT JOIN visits v ON v.k = sh.k GROUP BY sh.k",
        "SELECT name, count(*) FROM (SELECT k, name FROM shops) t JOIN visits v USING (k) "
        "GROUP BY t.k HAVING any_value(t.name) > 'a' ORDER BY t.name",
    ],
)
def test_each_group_has_the_value_of_its_key(tmp_path: Path, sql: str) -> None:
    with connect(tmp_path, defaults=NO_NUMBER) as connection:
        found = connection.sql(sql).fetchall()
        names = [f"shop {i}" for i in range(7)]
        assert sorted(name for name, _ in found) == names
        assert 1000 < sum(count for _, count in found) <= 1200


@pytest.mark.slow
@pytest.mark.parametrize("row", ["(3, 'shop 3', 30)", "(3, 'other', 1)"])
def test_a_key_that_two_public_rows_have_decides_nothing(tmp_path: Path, row: str) -> None:
    filled = (*FILL, f"INSERT INTO shops VALUES {row}")
    with connect(tmp_path, *filled, defaults=NO_NUMBER) as connection:
        with pytest.raises(dpsql.Error) as refused:
            connection.explain(BY_NUMBER)
        assert refused.value.code == "column_not_grouped"
        connection.explain(BY_BOTH)


@pytest.mark.slow
def test_of_no_rows_the_same_is_decided(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        empty = BY_NUMBER.replace("GROUP BY", "WHERE false GROUP BY")
        assert list(connection.sql(empty).columns) == ["name", "count_star()"]
        with pytest.raises(dpsql.Error):
            connection.sql(empty.replace("sh.name", "v.s"))


def test_what_equals_a_key_by_an_outer_join_decides_nothing(tmp_path: Path) -> None:
    with connect(tmp_path, defaults=NO_NUMBER) as connection:
        with pytest.raises(dpsql.Error) as refused:
            connection.explain(BY_NUMBER.replace("JOIN", "LEFT JOIN").replace("BY sh.k", "BY v.k"))
        assert refused.value.code == "column_not_grouped"


@pytest.mark.slow
def test_a_key_with_null_decides_nothing(tmp_path: Path) -> None:
    filled = (*FILL, "INSERT INTO shops VALUES (NULL, 'no shop', 1)")
    with connect(tmp_path, *filled, defaults=NO_NUMBER) as connection:
        with pytest.raises(dpsql.Error) as refused:
            connection.explain(BY_NUMBER)
        assert refused.value.code == "column_not_grouped"
