# ruff: noqa: E501
"""Elements of lists and fields of structs are those of the engine, and no row makes them fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

import duckdb
import pytest

import dpsql
from dpsql.core.sql_types import SqlType
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

COLUMNS: Final = (
    "tags VARCHAR[], nums INTEGER[], two BIGINT[2], days DATE[], xs DOUBLE[], lists INTEGER[][], s VARCHAR, "
    'place STRUCT(city VARCHAR, "Zip Code" INTEGER, geo STRUCT(code VARCHAR, lat DOUBLE), kinds VARCHAR[])'
)
ROWS: Final = (
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "[], [], [NULL, 1], [], [], [], '', {'city': NULL, 'Zip Code': NULL, 'geo': NULL, 'kinds': ['k']}",
    "[NULL], [NULL], [1, 1], [NULL], ['nan'::DOUBLE], [NULL], 'a', {'city': 'x', 'Zip Code': 1, 'geo': NULL, 'kinds': ['k']}",
    "['a', 'b', NULL], [1, 2], [2, 1], ['infinity'], [-0.0, 'inf'::DOUBLE], [[1]], 'b', "
    "{'city': 'y', 'Zip Code': 2, 'geo': {'code': 'g', 'lat': 'nan'}, 'kinds': []}",
    "['A', repeat('x', 100000)], [-2147483648], [1, 9223372036854775807], ['2024-01-01'], [0], [[], "
    "NULL], 'A', {'city': 'y', 'Zip Code': 1, 'geo': {'code': '', 'lat': -0.0}, 'kinds': NULL}",
)
VALUES: Final = (
    *("list_contains(tags, 'a')", "list_contains(tags, s)", "array_contains(nums, 1)", "list_has(two, 1)"),
    *("list_has_all(tags, ['a', 'b'])", "tags @> ['b']", "array_has_all(nums, [1, 2])", "cardinality(tags)"),
    *("list_contains(days, '2024-01-01')", "list_contains(xs, 0e0)", "NOT list_contains(tags, 'b')"),
    *("list_contains(tags, NULL)", "list_contains(tags, concat(s, ''))", "'a' IN tags", "2 NOT IN nums"),
    *("tags[1]", "list_extract(tags, 2)", "tags[2147483647]", "two[2]", "days[1]", "len(tags)"),
    *("place.city", "place['Zip Code']", 'place."zip code" + 1', "t.place.geo.code", "place['geo'].code"),
    *("struct_extract(place, 'city')", "list_contains(nums, place.\"Zip Code\")", "tags[1][1:1]"),
    *("place.kinds[1]", "list_contains(place.kinds, 'k')", "list_extract(place.kinds, 1)[1:1]"),
    *("coalesce(place.city, tags[1])", "CAST(place.geo.lat AS VARCHAR)", "list_contains(xs, NULL)"),
    *("list_position(tags, 'b')", "list_position(tags, NULL)", "array_position(two, 1)", "list_indexof(xs, 0e0)"),
    *("'a' = ANY(tags)", "NOT ('a' = ANY(tags))", "'a' <> ALL(tags)", "NOT (s <> ALL(tags))", "s = ANY(tags)"),
    *("NULL = ANY(nums)", "1 = ANY(two)", "NOT (2 = ANY(two))", "'k' = ANY(place.kinds)", "s = SOME(tags)"),
)  # fmt: skip
REFUSED: Final = (
    *("tags[0]", "tags[-1]", "tags[s]", "tags[1:2]", "tags[nums[1]]", "list_contains(lists, [1])"),
    *("list_contains(nums, 1.5)", "list_contains(tags, 1)", "list_contains(s, 'a')", "place.nothing"),
    *("place[1]", "place[s]", "nothing.city", "s.city", "s['city']", "struct_extract(place, s)"),
    *("place.city.x", "list_contains(nums, 'x')", "'a' = ALL(tags)", "'a' <> ANY(tags)", "place.geo.*"),
    *("list_position(lists, [1])", "list_position(tags, 1)", "list_position(s, 'a')"),
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with 40 units, each with one of the rows."""
    path = tmp_path_factory.mktemp("inner") / "t.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(f"CREATE TABLE t (u BIGINT, {COLUMNS})")
        for unit in range(40):
            writer.execute(f"INSERT INTO t VALUES ({unit}, {ROWS[unit % len(ROWS)]})")
    return path


@pytest.fixture
def connection(tables: Path, tmp_path: Path) -> Iterator[dpsql.Connection]:
    """A connection to it."""
    rules = Policy(
        "inner",
        defaults=Parameters(epsilon=5.0, delta=1e-6, max_groups_contributed=9),
        accounts={"ana": AccountPolicy("ana", 10_000.0, 0.4)},
        tables={"t": TablePolicy("t", PrivacyUnit("unit", "u"))},
    )
    with dpsql.connect(tables, rules, tmp_path / "budget.db", "ana") as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise", "discovered_keys")
def test_values_inside_values_are_those_of_the_engine(
    connection: dpsql.Connection, tables: Path
) -> None:
    differ: dict[str, object] = {}
    for value in VALUES:
        asked = f"SELECT {value} AS x, COUNT(*) AS n FROM t GROUP BY ALL"
        found: Counter[object] = Counter(dict(connection.sql(asked).fetchall()))
        with duckdb.connect(str(tables), read_only=True) as engine:
            rows = engine.execute(asked).fetchall()
        # DuckDB's infinite dates are the last one of Python there.
        exact = Counter({"infinity" if x == date.max else x: n for x, n in rows})
        if found != exact:
            differ[value] = (found, exact)
    assert differ == {}


@pytest.mark.usefixtures("no_noise")
def test_in_a_list_is_list_contains(connection: dpsql.Connection) -> None:
    asked = "SELECT COUNT(*) AS n FROM t WHERE {}"
    for condition in ("list_contains(tags, 'a')", "('a' IN tags)"):
        assert connection.sql(asked.format(condition)).fetchall()[0][0] == 8
        assert connection.sql(asked.format(f"NOT {condition}")).fetchall()[0][0] == 24


@pytest.mark.usefixtures("no_noise")
def test_fields_come_out_of_subqueries_by_their_names(connection: dpsql.Connection) -> None:
    inner = "SELECT u, place.city, nums[1] AS first FROM t"
    found = connection.sql(
        f"SELECT SUM(first, contribution_bounds_per_row => (0, 9)) AS s FROM ({inner}) WHERE city = 'y'"
    )
    assert found.fetchall()[0][0] == 8
    assert connection.sql("SELECT place.city, COUNT(*) FROM t GROUP BY 1").columns[0] == "city"


@pytest.mark.parametrize("value", REFUSED)
def test_what_is_not_in_the_type_is_refused(value: str, connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.Error) as refused:
        connection.explain(f"SELECT COUNT(*) FROM t WHERE ({value}) IS NULL")
    assert refused.value.code in {
        *(
            "expression_not_allowed",
            "can_fail",
            "does_not_bind",
            "unknown_column",
            "constant_fails",
        ),
        *("raw_rows", "fails", "syntax_error"),
    }


def test_types_inside_types_are_read_with_any_names() -> None:
    type_ = SqlType.of(
        'STRUCT("a, (b" INTEGER, "c ""d""" STRUCT(e DECIMAL(9,2)[], f DATE), g DOUBLE)'
    )
    assert [type_.member(name) for name in ("A, (B", "G", "nothing")] == [
        SqlType.of("INTEGER"),
        SqlType.of("DOUBLE"),
        None,
    ]
    inner = type_.member('c "d"')
    assert inner is not None
    list_ = inner.member("e")
    assert list_ is not None
    assert (list_.element, list_.member("e")) == (SqlType.of("DECIMAL(9,2)"), None)
    assert SqlType.of("VARCHAR").member("a") is None
    assert SqlType.of("STRUCT(a mood)").member("a") is None
