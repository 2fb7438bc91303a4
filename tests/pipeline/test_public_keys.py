"""Keys that are public by themselves: their domains, and rows that try to change or leave them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.key_questions import KNOWN, POLICY, SEVERAL, UNKNOWN, Row, fill, menu, with_buckets
from sqlglot import exp

import dpsql
from dpsql.core.sql_types import SqlType
from dpsql.ir.query import Key
from dpsql.pipeline import public_keys
from dpsql.pipeline.kept.description import VOCABULARY, Descriptions
from dpsql.pipeline.tail import public_tables


def opened(directory: Path, rows: Sequence[Row]) -> dpsql.Connection:
    """A connection to a database with these rows."""
    with duckdb.connect(str(directory / "shop.duckdb")) as made:
        fill(made, rows)
    policy, ledger = dpsql.parse_policy(POLICY), directory / "budget.db"
    return dpsql.connect(directory / "shop.duckdb", policy, ledger=ledger, analyst="ana")


@pytest.fixture(autouse=True)
def _all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show all that is released: which groups of NULL are shown is asked elsewhere."""
    monkeypatch.setattr("dpsql.service.answering.with_null_groups_told", lambda released: released)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with opened(tmp_path_factory.mktemp("menu"), menu()) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same rows without privacy."""
    with duckdb.connect() as made:
        fill(made, menu())
        with_buckets(made)
        yield made


def _asked(key: str, condition: str) -> str:
    return f"SELECT {key}, COUNT(*) AS n FROM menu WHERE {condition} GROUP BY {key}"


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("key", "condition", "groups"), [*KNOWN, *SEVERAL])
def test_all_rows_are_in_a_group_that_was_known(
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    key: str,
    condition: str,
    groups: int,
) -> None:
    question = _asked(key, condition)
    answer = connection.sql(question)
    assert answer.mechanisms == ("known_domain",)
    found = {tuple(row[:-1]): row[-1] for row in answer.fetchall()}
    assert len(found) == groups
    truth = {row[:-1]: row[-1] for row in plain.execute(question).fetchall()}
    assert +Counter(found) == Counter(truth)


@pytest.mark.parametrize(("key", "condition"), UNKNOWN)
def test_what_is_not_recognised_makes_no_key(
    connection: dpsql.Connection, key: str, condition: str
) -> None:
    explained = connection.explain(_asked(key, condition))
    assert explained.blocks[0].mechanism != "known_domain"
    assert explained.blocks[0].keys == ()


# -- two worlds ------------------------------------------------------------------------------------

ASKED = [*(each[:2] for each in (*KNOWN, *SEVERAL))]
STRANGE: Row = (
    *(10**6, "zz", "paid", 4, 99.0, Decimal("7.5"), True),
    *(datetime.date(2031, 7, 7), datetime.datetime(2031, 7, 7, 21, 17)),
)
"""A unit of which nothing is like any other's."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dpsql.Connection]]:
    """Databases that differ in a unit each: no rows, one, other ones, others and that one."""
    filled: list[list[Row]] = [[], [STRANGE], menu(8), [*menu(8), STRANGE]]
    made = [opened(tmp_path_factory.mktemp("world"), rows) for rows in filled]
    yield made
    for each in made:
        each.close()


def _keys(world: dpsql.Connection, question: str) -> tuple[object, ...]:
    """Tell what is said of a question's keys and its price, and all keys that come out."""
    bounds: dict[str, Any] = {"max_rows_contributed": 3, "max_groups_contributed": 5}
    block = world.explain(question, **bounds).blocks[0]
    keys = Counter(tuple(row[:-1]) for row in world.sql(question, **bounds).fetchall())
    return keys, block.keys, block.bounding, block.columns, block.reserved


@pytest.mark.slow
@pytest.mark.parametrize(("key", "condition"), ASKED)
def test_no_unit_changes_the_keys(worlds: list[dpsql.Connection], key: str, condition: str) -> None:
    first, *others = (_keys(world, _asked(key, condition)) for world in worlds)
    assert others == [first] * len(others)


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("key", "condition"), ASKED)
def test_a_unit_of_one_row_moves_one_group_by_one(
    worlds: list[dpsql.Connection], key: str, condition: str
) -> None:
    question = f"{_asked(key, condition)} HAVING COUNT(*) > -9"  # another tail of the same release
    *_, without, with_it = ([*world.sql(question, fresh=True)] for world in worlds)
    moved = Counter({row[:-1]: row[-1] for row in with_it})
    moved.subtract({row[:-1]: row[-1] for row in without})
    assert sum(map(abs, moved.values())) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("key", "condition"), [("month(d)", "TRUE"), ("x % 7", "TRUE")])
def test_keys_that_are_read_off_the_rows_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, condition: str
) -> None:
    """A twin that takes the domain from the data gives itself away."""
    found = []
    for place, rows in enumerate((menu(8), [*menu(8), STRANGE])):
        with duckdb.connect() as made:
            fill(made, rows)
            held = made.execute(f"SELECT DISTINCT {key} FROM menu ORDER BY 1").fetchall()
        values = tuple(value for (value,) in held)
        monkeypatch.setattr(public_keys, "finite_values", lambda *_, v=values: v)
        directory = tmp_path / str(place)
        directory.mkdir()
        with opened(directory, rows) as world:
            found.append(_keys(world, _asked(key, condition)))
    assert found[0] != found[1]


# -- what it is worth ------------------------------------------------------------------------------


def _margin(connection: dpsql.Connection, question: str, **given: Any) -> float:
    (column, *_) = connection.explain(question, **given).blocks[0].columns
    assert column.margin95 is not None
    return column.margin95


def test_a_condition_on_a_declared_key_narrows_its_noise(connection: dpsql.Connection) -> None:
    """One group of two: a unit's part in the other has to be hidden no longer."""
    whole = _margin(connection, "SELECT plan, COUNT(*), AVG(x) FROM menu GROUP BY plan")
    sql = "SELECT plan, COUNT(*), AVG(x) FROM menu WHERE plan = 'free' GROUP BY plan"
    assert _margin(connection, sql) < 0.85 * whole
    assert [row[0] for row in connection.sql(sql).fetchall()] == ["free"]


def test_no_more_groups_than_are_left_are_protected(connection: dpsql.Connection) -> None:
    """Of a cap of 40 groups, and of no cap, nothing is left where there are two."""
    two = "SELECT name, COUNT(*) FROM menu WHERE name IN ('a', 'b') GROUP BY name"
    given: tuple[dict[str, Any], ...] = (
        {},
        {"max_groups_contributed": 40},
        {"max_groups_contributed": "unlimited"},
    )
    for each in given:
        explained = connection.explain(two, **each).blocks[0]
        assert explained.bounding.startswith("a unit may touch all 2 known groups")
    assert (
        connection.explain(two, max_groups_contributed=1)
        .blocks[0]
        .bounding.startswith("at most 1 group per unit")
    )


def test_keys_by_a_condition_need_no_threshold(connection: dpsql.Connection) -> None:
    """Rare names that were asked for come out, of which discovery shows none."""
    asked = "SELECT name, COUNT(*) FROM menu WHERE {} GROUP BY name"
    known = connection.explain(asked.format("name IN ('a', 'rare')")).blocks[0]
    found = connection.explain(asked.format("lower(name) IN ('a', 'rare')")).blocks[0]
    assert known.appears_95 is None
    assert known.reserved.delta == 0
    assert found.reserved.delta > 0
    answered = connection.sql(asked.format("name IN ('a', 'rare')")).fetchall()
    assert [name for name, _ in answered] == ["a", "rare"]


@pytest.mark.slow
def test_too_many_groups_are_found_by_discovery(connection: dpsql.Connection) -> None:
    asked = "SELECT x, COUNT(*) FROM menu WHERE x BETWEEN 1 AND {} GROUP BY x"
    without: dict[str, Any] = {}
    for given in (without, {"max_groups_contributed": 3}):
        few, many = (connection.explain(asked.format(n), **given).blocks[0] for n in (1000, 1001))
        assert few.keys == ("x: 1,000 values, from the conditions on it",)
        assert many.keys == ()


@pytest.mark.slow
def test_half_a_year_by_day_is_answered_whole(tmp_path: Path) -> None:
    """Each day, and nearer to the truth than where the days had to be found."""
    with duckdb.connect(str(tmp_path / "log.duckdb")) as owner:
        owner.execute(
            "CREATE TABLE log AS SELECT i % 1000 AS id, DATE '2024-01-01' + "
            "CAST(i * 7919 % 181 AS INTEGER) AS d FROM range(12000) AS r(i)"
        )
        true: dict[Any, Any] = dict(
            owner.execute("SELECT d, count(*) FROM log GROUP BY d").fetchall()
        )
    policy = dpsql.parse_policy(
        """
version: 1
dataset: log
defaults: {epsilon: 1.0, delta: 1e-8}
accounts: {ana: {epsilon: 10, delta: 1e-5}}
tables:
  log: {privacy_unit: id}
"""
    )
    sql = "SELECT d, COUNT(*) FROM log WHERE d BETWEEN '2024-01-01' AND '2024-06-29' GROUP BY d"
    with dpsql.connect(tmp_path / "log.duckdb", policy, tmp_path / "b.db", "ana") as connection:
        known: dict[Any, Any] = dict(connection.sql(sql).fetchall())
        found: dict[Any, Any] = dict(connection.sql(sql, mechanism="cascade").fetchall())
    assert known.keys() == true.keys() != found.keys()
    off, by_discovery = (
        sum(abs(rows.get(day, 0) - n) for day, n in true.items()) for rows in (known, found)
    )
    assert off < 0.8 * by_discovery


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("key", "condition", "known"),
    [
        ("d - INTERVAL 1 YEAR", "d BETWEEN '0001-01-01' AND '0001-05-05'", False),
        ("d + INTERVAL 1 DAY", "d BETWEEN '9999-12-30' AND '9999-12-31'", False),
        ("d + INTERVAL 1 DAY", "d BETWEEN '2024-01-01' AND '2024-01-05'", True),
        ("DATE '9999-12-31' + x", "x BETWEEN -8 AND 1", False),
        ("CASE WHEN x = 1 THEN DATE 'infinity' ELSE d END", "x BETWEEN 1 AND 2", False),
        ("CASE WHEN x = 1 THEN DATE 'infinity' ELSE NULL END", "x BETWEEN 1 AND 2", False),
        ("CASE WHEN x = 1 THEN TIMESTAMP '-infinity' END", "x BETWEEN 1 AND 2", False),
        ("x - 2147483640", "x BETWEEN -9 AND 2147483647 AND x IN (-8, 7)", True),
    ],
)
def test_keys_that_cannot_be_computed_are_found_by_discovery(
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    key: str,
    condition: str,
    known: bool,
) -> None:
    """Where Python has no such moment; what overflows on a row is NULL, as ever."""
    question = _asked(key, condition)
    assert bool(connection.explain(question).blocks[0].keys) == known
    found = {tuple(map(str, row[:-1])): row[-1] for row in connection.sql(question).fetchall()}
    grouped = plain.sql(question)
    names = ", ".join(f'"{name}"::VARCHAR' for name in grouped.columns[:-1])
    rows = plain.sql(f'SELECT {names}, "{grouped.columns[-1]}" FROM grouped').fetchall()
    truth = {tuple(map(str, row[:-1])): row[-1] for row in rows}
    assert +Counter(found) == Counter(truth)


@pytest.mark.usefixtures("no_noise")
def test_keys_of_the_largest_numbers_are_known(connection: dpsql.Connection) -> None:
    rows = "(SELECT id, CAST(x AS BIGINT) AS n FROM menu)"
    condition = "n BETWEEN 9223372036854775800 AND 9223372036854775807"
    answer = connection.sql(f"SELECT n + 1, COUNT(*) FROM {rows} WHERE {condition} GROUP BY n + 1")
    largest = [*range(2**63 - 7, 2**63), None]
    assert [row[0] for row in answer.fetchall()] == largest


@pytest.mark.parametrize("key", ["month(name)", "x + ok", "d + name"])
def test_a_key_that_does_not_bind_is_refused(connection: dpsql.Connection, key: str) -> None:
    with pytest.raises(dpsql.QueryRefused) as refused:
        connection.sql(_asked(key, "x IN (1, 2)"))
    assert refused.value.code == "does_not_bind"


def test_keys_alone_are_found_by_discovery(connection: dpsql.Connection) -> None:
    """Which keys there could be is no answer to which there are."""
    block = connection.explain("SELECT DISTINCT month(d) FROM menu").blocks[0]
    assert block.keys == ()


@pytest.mark.parametrize("mechanism", ["cascade", "gaussian_positive_counts", "known_domain"])
def test_a_mechanism_by_name_discovers_keys_if_it_is_one_that_does(
    connection: dpsql.Connection, mechanism: str
) -> None:
    sql = "SELECT name, COUNT(*) FROM menu WHERE name IN ('a', 'b') GROUP BY name"
    given: dict[str, Any] = {} if mechanism == "cascade" else {"max_groups_contributed": 2}
    block = connection.explain(sql, mechanism=mechanism, **given).blocks[0]
    assert block.mechanism == mechanism
    assert bool(block.keys) == (mechanism == "known_domain")


def test_an_answer_says_where_its_keys_come_from(connection: dpsql.Connection) -> None:
    answered = connection.sql("SELECT x // 10, COUNT(*) FROM menu GROUP BY 1")
    said = " ".join(str(answered).split())
    assert "All 7 known groups appear, whether they hold rows or not." in said
    assert "Rows outside of declared bounds are in none of them." in said
    explained = connection.explain("SELECT plan, ok, COUNT(*) FROM menu GROUP BY ALL").blocks[0]
    assert explained.keys == (
        "plan: 2 values, from the policy",
        "ok: 3 values, from its type BOOLEAN",
    )


def test_what_is_computed_of_declared_values_has_no_others(connection: dpsql.Connection) -> None:
    """As of a declared key, rows with other values, or with none, are in no group."""
    for key, values in (("plan = 'free'", [False, True]), ("length(plan)", [4])):
        answered = connection.sql(f"SELECT {key} AS k, COUNT(*) FROM menu GROUP BY k")
        assert sorted(row[0] for row in answered.fetchall()) == values
        said = " ".join(str(answered).split())
        assert "Rows outside of declared values are in none of them." in said


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_an_outer_join_adds_null(tmp_path: Path) -> None:
    """A condition below its side that may be missing does not hold of rows without a match."""
    with opened(tmp_path, menu(70)) as world:
        sql = (
            "SELECT b.name, COUNT(*) FROM menu a LEFT JOIN "
            "(SELECT id, name FROM menu WHERE name IN ('a', 'b')) b ON a.id = b.id GROUP BY b.name"
        )
        assert dict(world.sql(sql).fetchall()) == {"a": 10, "b": 10, None: 50}


@pytest.mark.usefixtures("no_noise")
def test_constants_that_a_type_cannot_hold_make_no_group(connection: dpsql.Connection) -> None:
    sql = "SELECT x, COUNT(*) FROM menu WHERE x IN (1, 99999999999) GROUP BY x"
    assert [row[0] for row in connection.sql(sql).fetchall()] == [1]


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("key", ["month(d)", "d > DATE '2024-01-01'", "dayname(d)"])
def test_infinite_moments_are_in_a_group(tmp_path: Path, key: str) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        fill(made, [])
        made.execute("INSERT INTO menu (id, d) VALUES (1, 'infinity'), (2, '-infinity'), (3, NULL)")
    policy, ledger = dpsql.parse_policy(POLICY), tmp_path / "b.db"
    with dpsql.connect(tmp_path / "shop.duckdb", policy, ledger=ledger, analyst="ana") as world:
        answered = world.sql(f"SELECT {key}, COUNT(*) FROM menu GROUP BY 1").fetchall()
    assert sum(row[1] for row in answered) == 3


# -- public tables ---------------------------------------------------------------------------------

PUBLIC = """
version: 1
dataset: shop
defaults: {epsilon: 1, delta: 1e-8, max_rows_contributed: 1}
accounts: {ana: {epsilon: 1000, delta: 1e-2}}
tables:
  person: {privacy_unit: {name: person, column: id}}
  other: {privacy_unit: {name: person, column: id}}
  ref.site: {public: true}
"""
PERSONS = 900
OVER_PUBLIC = (
    ("name", "person JOIN ref.site USING (site)", {"n0", "n1", "n2", "far", None}),
    ("site", "person JOIN ref.site USING (site)", {0, 1, 2, 9, 10}),
    ("p.site", "person p JOIN ref.site r ON p.site = r.site", {0, 1, 2, 9, 10}),
    ("site", "person WHERE site IN (SELECT site FROM ref.site)", {0, 1, 2, 9, 10}),
    ("site", "person WHERE site IN (SELECT site FROM ref.site WHERE site < 9)", {0, 1, 2}),
    (
        "site",
        "person p WHERE EXISTS (SELECT 1 FROM ref.site s WHERE s.site = p.site AND s.site > 1)",
        {2, 9, 10},
    ),
    ("name", "person JOIN ref.site USING (site) WHERE name <> 'far'", {"n0", "n1", "n2"}),
    ("name", "person LEFT JOIN ref.site USING (site)", {"n0", "n1", "n2", "far", None}),
    ("name", "person JOIN ref.site r USING (site) WHERE r.wide % 2 = 1", {"n1", "far"}),
    (
        "name",
        "person JOIN ref.site r USING (site) WHERE upper(r.name) LIKE 'N%'",
        {"n0", "n1", "n2"},
    ),
    ("wide % 3", "person JOIN ref.site USING (site)", {0, 1, 2}),
    ("wide > 1", "person JOIN ref.site USING (site) WHERE name <> 'far'", {False, True}),
    (
        "name",
        "(SELECT id, name FROM person JOIN ref.site USING (site)) x",
        {"n0", "n1", "n2", "far", None},
    ),
    (
        "name",
        "person JOIN ref.site r USING (site) WHERE r.wide BETWEEN 1 AND 9",
        {"n1", "n2", "far"},
    ),
    ("name", "person JOIN ref.site r ON r.site = person.site AND r.wide = 9", {"far"}),
    (
        "name",
        "person p LEFT JOIN (SELECT * FROM ref.site WHERE wide < 1) r USING (site)",
        {"n0", None},
    ),
    ("upper(name)", "person JOIN ref.site USING (site)", {"N0", "N1", "N2", "FAR", None}),
    (
        "substr(name, 1, 1) || wide",
        "person JOIN ref.site USING (site) WHERE wide <> 1",
        {"n0", "n2", "f9", None},
    ),
    ("upper(name) || 'x'", "person JOIN ref.site USING (site) WHERE name LIKE 'f%'", {"FARx"}),
    (
        "coalesce(upper(name), 'none')",
        "person LEFT JOIN (SELECT * FROM ref.site WHERE wide < 2) USING (site)",
        {"N0", "N1", "none"},
    ),
    (
        "code",
        "(SELECT id, concat(name, '/', wide) AS code FROM person JOIN ref.site USING (site)) x",
        {"n0/0", "n1/1", "n2/2", "far/9", "/10"},
    ),
    (
        "a.name",
        "person p JOIN ref.site a ON p.site = a.site JOIN ref.site b ON p.site = b.site "
        "WHERE b.wide > 1",
        {"n2", "far", None},
    ),
    (
        "a.name",
        "person p JOIN ref.site a ON p.site = a.site JOIN ref.site b ON a.wide < b.wide",
        {"n0", "n1", "n2", "far"},
    ),
    (
        "a.name || b.name",
        "person p JOIN ref.site a ON p.site = a.site JOIN ref.site b ON a.wide + b.wide = 2",
        {"n0n2", "n1n1", "n2n0"},
    ),
    (
        "name",
        "person JOIN ref.site r USING (site) WHERE r.wide < person.id",
        {"n0", "n1", "n2", "far", None},
    ),
)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dpsql.Connection]]:
    """Persons at sites of which some are in a public table, and the same without one of them."""
    made = []
    for fewer in (0, 1):
        directory = tmp_path_factory.mktemp("sites")
        with duckdb.connect(str(directory / "shop.duckdb")) as owner:
            owner.execute("CREATE SCHEMA ref")
            owner.execute("CREATE TABLE ref.site (site INTEGER, name VARCHAR, wide BIGINT)")
            owner.execute(
                "INSERT INTO ref.site VALUES (0, 'n0', 0), (1, 'n1', 1), (2, 'n2', 2),"
                " (9, 'far', 9), (10, NULL, 10)"
            )
            owner.execute(
                "CREATE TABLE person AS SELECT i AS id, CAST(i % 4 AS INTEGER) AS site"
                f" FROM range({PERSONS}) r(i) WHERE i >= {fewer}"
            )
            owner.execute("CREATE TABLE other AS SELECT id, site FROM person")
            if not fewer:
                owner.execute("INSERT INTO person VALUES (5000, 77), (5000, 9)")
        policy, ledger = dpsql.parse_policy(PUBLIC), directory / "budget.db"
        made.append(dpsql.connect(directory / "shop.duckdb", policy, ledger, "ana"))
    yield made
    for each in made:
        each.close()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "rows", "values"), OVER_PUBLIC)
def test_values_of_a_public_table_are_known(
    sites: list[dpsql.Connection], key: str, rows: str, values: set[object]
) -> None:
    question = f"SELECT {key}, COUNT(*) FROM {rows} GROUP BY {key}"
    whole, less = (_keys(world, question) for world in sites)
    assert whole == less
    block = sites[0].explain(question).blocks[0]
    assert block.keys[0].endswith("from the rows of ref.site")
    assert {row[0] for row in sites[0].sql(question).fetchall()} == values


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        ("p.site", "person p LEFT JOIN ref.site r ON p.site = r.site"),
        ("p.site", "person p JOIN ref.site r ON p.site = r.wide"),
        ("p.site", "person p JOIN ref.site r ON p.site < r.site"),
        ("p.site", "person p JOIN ref.site r ON p.site = r.site OR r.name = 'far'"),
        ("p.site", "person p JOIN other o ON p.id = o.id AND p.site = o.site"),
        ("site", "person WHERE site NOT IN (SELECT site FROM ref.site)"),
        ("p.site || r.name", "person p LEFT JOIN ref.site r ON p.site = r.site"),
        (
            "upper(r.name) || o.site",
            "person p JOIN ref.site r USING (site) JOIN other o USING (id)",
        ),
        (
            "a.name || b.name",  # which pairs there are, private rows decide
            "person p JOIN ref.site a ON p.site = a.site JOIN ref.site b ON p.site < b.site",
        ),
        (
            "a.name",  # and whether b is missing beside it
            "person p JOIN ref.site a ON p.site = a.site LEFT JOIN ref.site b ON p.site < b.site "
            "WHERE b.wide = 1 OR a.wide = 2 AND b.wide IS NULL",
        ),
    ],
)
def test_values_of_private_rows_are_not(sites: list[dpsql.Connection], key: str, rows: str) -> None:
    block = sites[0].explain(f"SELECT {key}, COUNT(*) FROM {rows} GROUP BY {key}").blocks[0]
    assert block.keys == ()


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("keys", "condition", "groups"),
    [("name, site", "TRUE", 5), ("site, wide, name", "wide IN (1, 2)", 2)],
)
def test_a_column_that_decides_others_is_the_key(
    sites: list[dpsql.Connection], keys: str, condition: str, groups: int
) -> None:
    rows = f"person JOIN ref.site USING (site) WHERE {condition}"
    by_site = f"SELECT site, COUNT(*) FROM {rows} GROUP BY site"
    alone: dict[object, int] = dict(sites[0].sql(by_site).fetchall())
    sql = f"SELECT {keys}, COUNT(*) AS n FROM {rows} GROUP BY {keys}"
    answer = sites[0].sql(sql)
    assert len(answer.fetchall()) == groups
    place = keys.split(", ").index("site")
    assert {row[place]: row[-1] for row in answer.fetchall()} == alone
    assert sites[0].explain(sql).blocks[0].keys == sites[1].explain(sql).blocks[0].keys != ()


SNOWFLAKE = "p.site = s.site JOIN ref.kind k ON k.kind = s.kind"


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_rows_of_several_public_tables_are_joined(tmp_path: Path) -> None:
    """Conditions on each of them say which keys there are, and no private row does."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as owner:
        owner.execute("CREATE SCHEMA ref; CREATE TABLE ref.site (site INTEGER, kind INTEGER)")
        owner.execute("CREATE TABLE ref.kind (kind INTEGER, name VARCHAR, year INTEGER)")
        owner.execute("INSERT INTO ref.site SELECT i, i % 3 FROM range(9) r(i)")
        owner.execute("INSERT INTO ref.kind VALUES (0, 'x', 2012), (1, 'y', 2013), (2, 'x', 2013)")
        owner.execute("CREATE TABLE person AS SELECT i AS id, i % 5 AS site FROM range(900) r(i)")
        owner.execute(
            "ALTER TABLE person ALTER site TYPE INTEGER; CREATE TABLE other AS FROM person"
        )
    policy = dpsql.parse_policy(f"{PUBLIC}\n  ref.kind: {{public: true}}")
    rows = f"person p JOIN ref.site s ON {SNOWFLAKE} WHERE s.site < 7 AND k.year = 2013"
    with dpsql.connect(tmp_path / "shop.duckdb", policy, tmp_path / "b.db", "ana") as world:
        asked = f"SELECT s.site, COUNT(*) FROM {rows} GROUP BY s.site"
        said = "site: 4 values, from the rows of ref.site and ref.kind"
        assert world.explain(asked).blocks[0].keys == (said,)
        assert world.sql(asked).fetchall() == [(1, 180), (2, 180), (4, 180), (5, 0)]
        both = world.sql(f"SELECT k.name, s.site, COUNT(*) FROM {rows} GROUP BY ALL")
        assert both.mechanisms == ("known_domain",)
        found = {("y", 1, 180), ("x", 2, 180), ("y", 4, 180), ("x", 5, 0)}
        assert set(both.fetchall()) == found


@pytest.mark.slow
def test_public_rows_that_take_too_long_are_found_by_discovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read before anything is paid for, and are not waited for without end."""
    monkeypatch.setattr(public_tables, "_SECONDS", 0.2)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as owner:
        owner.execute("CREATE SCHEMA ref; CREATE TABLE other AS SELECT 1 AS id, 1 AS site")
        owner.execute("CREATE TABLE person AS FROM other")
        owner.execute(
            "CREATE TABLE ref.site AS SELECT CAST(i AS INTEGER) AS site, 'n' AS name, i AS wide "
            "FROM range(60000) r(i)"
        )
    policy = dpsql.parse_policy(PUBLIC)
    slow = (
        "SELECT a.name, COUNT(*) FROM person p JOIN ref.site a ON p.site = a.site "
        "JOIN ref.site b ON (a.wide * b.wide) % 1000003 = 1000002 GROUP BY a.name"
    )
    with dpsql.connect(tmp_path / "shop.duckdb", policy, tmp_path / "b.db", "ana") as world:
        assert world.explain(slow).blocks[0].keys == ()
        fast = (
            "SELECT name, COUNT(*) FROM person JOIN ref.site USING (site) WHERE wide < 3 GROUP BY 1"
        )
        assert world.explain(fast).blocks[0].keys != ()


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_columns_of_one_public_table_are_no_product(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as owner:
        owner.execute("CREATE SCHEMA ref; CREATE TABLE ref.site (site INTEGER, name VARCHAR)")
        owner.execute("INSERT INTO ref.site VALUES (1, 'x'), (1, 'y'), (2, 'y')")
        owner.execute("CREATE TABLE person AS SELECT i AS id, 1 AS site FROM range(900) r(i)")
        owner.execute("CREATE TABLE other AS FROM person")
    policy = dpsql.parse_policy(PUBLIC)
    sql = (
        "SELECT site, name, COUNT(DISTINCT id) FROM person JOIN ref.site USING (site) GROUP BY ALL"
    )
    with dpsql.connect(tmp_path / "shop.duckdb", policy, tmp_path / "b.db", "ana") as world:
        assert world.explain(sql).blocks[0].keys == ()
        found = {row[:2] for row in world.sql(sql, max_groups_contributed=2).fetchall()}
        assert found == {(1, "x"), (1, "y")}


@pytest.mark.parametrize(
    ("keys", "condition", "known"),
    [
        ("month(d), quarter(d)", "TRUE", False),
        ("year(d), month(d)", "d BETWEEN '2024-07-01' AND '2025-03-31'", False),
        ("year(d), month(d)", "d BETWEEN '2024-01-01' AND '2024-12-31'", True),
        ("year(d), month(d)", "d BETWEEN '2024-01-01' AND '2025-12-31'", True),
        ("month(d), dayofweek(d)", "TRUE", True),
        ("m, dayofweek(d)", "TRUE", False),  # the column of one, where the other is computed
        ("m, w", "TRUE", True),
        ("date_trunc('week', d), dayname(d)", "d BETWEEN '2024-01-01' AND '2024-01-14'", True),
        ("date_trunc('week', d), dayname(d)", "d BETWEEN '2024-01-01' AND '2024-01-16'", False),
        ("d, dayofweek(d)", "d BETWEEN '2024-01-01' AND '2024-01-14'", False),
        ("month(d), day(d)", "TRUE", False),  # there is no 30 February
        ("day(d), monthname(d)", "TRUE", False),
        ("quarter(d), day(d)", "TRUE", True),
        ("quarter(d), day(d)", "d BETWEEN '2024-01-01' AND '2025-12-31'", True),
        ("quarter(d), dayofweek(d)", "d BETWEEN '2024-01-01' AND '2025-12-31'", True),
        ("day(d), dayofweek(d)", "d BETWEEN '2024-01-01' AND '2025-12-31'", True),
        ("quarter(d), day(d), dayofweek(d)", "d BETWEEN '2024-01-01' AND '2025-12-31'", False),
        ("plan, plan = 'free'", "TRUE", False),
        ("m, quarter(d)", "TRUE", False),
    ],
)
def test_functions_of_one_column_are_no_product(
    connection: dpsql.Connection, keys: str, condition: str, known: bool
) -> None:
    rows = "(SELECT id, plan, d, month(d) AS m, dayofweek(d) AS w FROM menu)"
    sql = f"SELECT {keys}, COUNT(*) FROM {rows} WHERE {condition} GROUP BY {keys}"
    assert bool(connection.explain(sql).blocks[0].keys) == known


def test_a_public_table_lowers_the_noise(sites: list[dpsql.Connection]) -> None:
    """Names of sites are worth as much as numbers of sites that the owner declared."""
    known = "SELECT name, COUNT(*) FROM person JOIN ref.site USING (site) GROUP BY name"
    found = (
        "SELECT name || o.site, COUNT(*) FROM person p JOIN other o USING (id) "
        "JOIN ref.site r ON r.site = p.site GROUP BY 1"
    )
    assert _margin(sites[0], known) < 0.5 * _margin(sites[0], found)


def test_a_twin_that_takes_private_tables_for_public_is_noticed(
    sites: list[dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_keys, "is_public", lambda policy, table: True)
    question = "SELECT site, COUNT(*) AS n FROM person GROUP BY site"
    whole, less = (_keys(world, question) for world in sites)
    assert whole != less


def test_a_release_by_discovery_is_no_release_of_known_keys(
    connection: dpsql.Connection,
) -> None:
    """Nor the other way round; each is found again under its own fingerprint."""
    sql = "SELECT quarter(ts), COUNT(*) FROM menu GROUP BY 1"
    for _ in range(2):
        stored = [connection.sql(sql, mechanism=name).cost.stored for name in ("cascade", None)]
    assert stored == [True, True]
    assert connection.sql(sql).mechanisms == ("known_domain",)
    assert connection.sql(sql, mechanism="cascade").mechanisms == ("cascade",)


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_moments_of_a_public_table_that_python_lacks_are_found_by_discovery(
    tmp_path: Path,
) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as owner:
        owner.execute("CREATE SCHEMA ref; CREATE TABLE ref.site (site INTEGER, day DATE)")
        owner.execute("INSERT INTO ref.site VALUES (0, '2024-01-01'), (1, '10000-01-01')")
        owner.execute(
            "CREATE TABLE person AS SELECT i AS id, CAST(i % 2 AS INTEGER) AS site"
            " FROM range(900) r(i)"
        )
        owner.execute("CREATE TABLE other AS FROM person")
    policy = dpsql.parse_policy(PUBLIC)
    with dpsql.connect(tmp_path / "shop.duckdb", policy, tmp_path / "b.db", "ana") as world:
        asked = "SELECT {}, COUNT(*) FROM person JOIN ref.site USING (site) GROUP BY 1"
        assert world.explain(asked.format("day")).blocks[0].keys == ()
        assert [n for _, n in world.sql(asked.format("day")).fetchall()] == [450, 450]
        assert world.explain(asked.format("site")).blocks[0].keys != ()


def test_lists_of_public_values_do_not_pile_up(
    sites: list[dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_tables, "_MOST_LISTS", 3)
    tables = sites[0]._answerer.tails.public
    monkeypatch.setattr(tables, "_rows", {})
    for wide in (0, 1, 2, 9, 1):
        sites[0].explain(
            "SELECT name, COUNT(*) FROM person JOIN ref.site r USING (site) "
            f"WHERE r.wide <> {wide} GROUP BY name"
        )
    assert len(tables._rows) == 3


@pytest.mark.slow
def test_another_row_of_a_public_table_makes_another_question(tmp_path: Path) -> None:
    policy, path = dpsql.parse_policy(PUBLIC), tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as owner:
        owner.execute("CREATE SCHEMA ref; CREATE TABLE ref.site (site INTEGER, name VARCHAR)")
        owner.execute("CREATE TABLE person AS SELECT i AS id, 1 AS site FROM range(9) r(i)")
        owner.execute("CREATE TABLE other AS FROM person; INSERT INTO ref.site VALUES (1, 'one')")
    sql, found = "SELECT name, COUNT(*) FROM person JOIN ref.site USING (site) GROUP BY name", []
    for _ in range(2):
        with dpsql.connect(path, policy, tmp_path / "b.db", "ana") as world:
            answer = world.sql(sql)
            found.append((answer.cost.stored, [row[0] for row in answer.fetchall()]))
            assert world.sql(sql).cost.stored
        with duckdb.connect(str(path)) as owner:
            owner.execute("INSERT INTO ref.site VALUES (2, 'two')")
    assert found == [(False, ["one"]), (False, ["one", "two"])]


# -- subqueries ------------------------------------------------------------------------------------

BELOW = (
    ("m", "(SELECT id, month(d) AS m FROM menu)", 13),
    ("m", "(SELECT id, month(d) AS m FROM menu WHERE d >= '2024-02-01' AND d <= '2024-03-31')", 2),
    ("m", "(SELECT id, month(d) AS m FROM menu) WHERE m < 3", 2),
    ("m", "(SELECT m FROM (SELECT id, month(d) AS m FROM menu) t)", 13),
    ("dear", "(SELECT id, price > 15 AS dear FROM menu GROUP BY id, dear)", 3),
    ("k", "(SELECT id, CASE WHEN ok THEN 'yes' ELSE 'no' END AS k FROM menu)", 2),
    (
        "k",
        "menu a LEFT JOIN (SELECT id, CASE WHEN ok THEN 'yes' ELSE 'no' END AS k FROM menu "
        "WHERE x > 5) b ON a.id = b.id",
        3,
    ),
)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("key", "rows", "groups"), BELOW)
def test_keys_that_a_subquery_computes_are_known(
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    key: str,
    rows: str,
    groups: int,
) -> None:
    question = f"SELECT {key}, COUNT(*) AS n FROM {rows} GROUP BY {key}"
    answer = connection.sql(question)
    assert answer.mechanisms == ("known_domain",)
    found: Counter[object] = Counter(dict(answer.fetchall()))
    assert len(found) == groups
    assert +found == Counter(dict(plain.execute(question).fetchall()))


@pytest.mark.parametrize(
    ("key", "type_"),
    [
        ("price > 15 OR ok", "BOOLEAN"),
        ("NOT ok", "BOOLEAN"),
        ("month(d)", "BIGINT"),
        ("CASE WHEN ok THEN 'yes' END", "VARCHAR"),
        ("CASE WHEN ok THEN 1 ELSE 2 END", "INTEGER"),
        ("x % 7", "INTEGER"),
    ],
)
def test_a_known_key_has_the_type_of_its_expression(
    connection: dpsql.Connection, key: str, type_: str
) -> None:
    answer = connection.sql(f"SELECT {key}, COUNT(*) FROM menu GROUP BY 1")
    assert answer.types[0] == type_


# -- ordinary questions ----------------------------------------------------------------------------

ORDINARY = (
    ("name", "name IN ('a', 'b')", 13, 54),
    ("CASE WHEN price > 15 THEN 'dear' ELSE 'cheap' END", "TRUE", 13, 54),
    ("price > 15", "TRUE", 15, 54),
    ("dayofweek(d)", "TRUE", 21, 54),
    ("month(d)", "TRUE", 25, 54),
    ("hour(ts)", "TRUE", 33, 54),
    ("date_trunc('week', d)", "d >= '2024-01-01' AND d < '2025-01-01'", 45.5, 54),
)
"""A key, a condition, and the half-widths of 95% intervals of known keys and by discovery."""


@pytest.mark.parametrize(("key", "condition", "known", "found"), ORDINARY)
def test_known_keys_are_worth_what_the_page_says(
    connection: dpsql.Connection, key: str, condition: str, known: float, found: float
) -> None:
    sql = _asked(key, condition)
    bounds: dict[str, Any] = {"max_rows_contributed": 1, "max_groups_contributed": "unlimited"}
    assert _margin(connection, sql, **bounds) == known
    by_discovery = _margin(connection, sql, max_rows_contributed=1, mechanism="cascade")
    assert by_discovery == pytest.approx(found, abs=1)


@pytest.mark.slow
def test_excluded_years_do_not_come_out(tmp_path: Path) -> None:
    """Two years of fifteen that are declared: two rows, and the noise of two."""
    years = ", ".join(str(year) for year in range(1970, 1985))
    policy = dpsql.parse_policy(POLICY.replace("{lower: 0, upper: 59}", f"{{domain: [{years}]}}"))
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        fill(made, menu(70))
    with dpsql.connect(tmp_path / "shop.duckdb", policy, tmp_path / "b.db", "ana") as world:
        whole = "SELECT x, COUNT(*) FROM menu GROUP BY x"
        two = "SELECT x, COUNT(*) FROM menu WHERE x IN (1970, 1980) GROUP BY x"
        assert [row[0] for row in world.sql(two).fetchall()] == [1970, 1980]
        bounds: dict[str, Any] = {"max_rows_contributed": 1, "max_groups_contributed": "unlimited"}
        assert _margin(world, two, **bounds) == 13
        assert _margin(world, whole, **bounds) > 26


def test_a_fingerprint_holds_the_values_and_not_where_they_come_from() -> None:
    values = (False, "a", 7, datetime.date(2024, 2, 29), None)
    key = Key(exp.column("ok"), "ok", values, "the conditions on it", SqlType.of("BOOLEAN"))
    described = "key(of=column('','ok'),declared values=(False,'a',7,moment(2024-02-29),-))"
    assert Descriptions(VOCABULARY).of(key) == described
    assert Descriptions(VOCABULARY).of(Key(exp.column("ok"), "ok", values)) == described
