"""Groups that a question gives: public rows that an outer join keeps, and lists of VALUES."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.key_questions import GIVEN, POLICY, Row, fill, menu

import dpsql
from dpsql.core.table_name import TableName
from dpsql.pipeline import given_keys

STRANGE: Row = (10**6, "strange", "paid", 4, 99.0, None, True, None, None)
"""A unit of which nothing is like any other's."""


def opened(directory: Path, rows: Sequence[Row]) -> dpsql.Connection:
    with duckdb.connect(str(directory / "shop.duckdb")) as made:
        fill(made, rows)
    policy, ledger = dpsql.parse_policy(POLICY), directory / "budget.db"
    return dpsql.connect(directory / "shop.duckdb", policy, ledger=ledger, analyst="ana")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dpsql.Connection]]:
    """Databases that differ in a unit each: no rows, one, others, and others and that one."""
    filled: list[list[Row]] = [[], [STRANGE], menu(), [*menu(), STRANGE]]
    made = [opened(tmp_path_factory.mktemp("world"), rows) for rows in filled]
    yield made
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with opened(tmp_path_factory.mktemp("menu"), menu()) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same rows without privacy."""
    with duckdb.connect() as made:
        fill(made, menu())
        yield made


def _asked(key: str, rows: str, value: str) -> str:
    return f"SELECT {key}, COUNT({value}) AS n FROM {rows} GROUP BY {key}"


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("key", "rows", "value"), GIVEN)
def test_the_groups_are_those_of_plain_sql(
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    key: str,
    rows: str,
    value: str,
) -> None:
    asked = _asked(key, rows, value)
    answer = connection.sql(asked)
    assert answer.mechanisms == ("known_domain",)
    assert Counter(answer.fetchall()) == Counter(plain.execute(asked).fetchall())
    keys = connection.explain(asked).blocks[0].keys
    assert all(each.endswith("from the rows that the join keeps") for each in keys)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "rows", "value"), GIVEN)
def test_no_unit_changes_the_groups(
    worlds: list[dpsql.Connection], key: str, rows: str, value: str
) -> None:
    asked = _asked(key, rows, value)
    first, *others = (_shape(world, asked) for world in worlds)
    assert others == [first] * len(others)


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("key", "rows", "value"), GIVEN)
def test_a_unit_moves_no_more_than_is_paid_for(
    worlds: list[dpsql.Connection], key: str, rows: str, value: str
) -> None:
    asked = f"{_asked(key, rows, value)} HAVING COUNT({value}) > -9"
    *_, without, with_it = (
        [*world.sql(asked, fresh=True, max_rows_contributed=1)] for world in worlds
    )
    moved = Counter({row[:-1]: row[-1] for row in with_it})
    moved.subtract({row[:-1]: row[-1] for row in without})
    assert max(map(abs, moved.values())) <= 1


def _shape(world: dpsql.Connection, asked: str) -> tuple[object, ...]:
    block = world.explain(asked).blocks[0]
    groups = Counter(tuple(row[:-1]) for row in world.sql(asked).fetchall())
    return groups, block.keys, block.bounding, block.columns, block.reserved


@pytest.mark.slow
def test_groups_that_are_read_off_private_rows_are_noticed(
    worlds: list[dpsql.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin that answers groups with a match alone gives itself away."""
    asked = _asked("k", "(VALUES ('b'), ('strange')) v(k) LEFT JOIN menu ON name = k", "id")
    monkeypatch.setattr("dpsql.pipeline.prepare.with_keys_given", lambda block, *_: block)
    monkeypatch.setattr("dpsql.pipeline.prepare.with_keys_made", lambda block, *_: block)
    assert _shape(worlds[0], asked) != _shape(worlds[2], asked)


def test_private_rows_are_never_looked_at_as_public_ones(
    connection: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an outer join is taken to keep: the policy says which tables are public."""
    monkeypatch.setattr(given_keys, "scanned", lambda rows: (TableName("menu"),))
    with fails_with("join_keeps_public", match="not public"):
        connection.sql("SELECT c.x, COUNT(m.id) FROM codes c LEFT JOIN menu m USING (x) GROUP BY 1")


@pytest.mark.usefixtures("no_noise")
def test_a_count_of_public_rows_would_not_be_plain_sqls(
    connection: dpsql.Connection,
    plain: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row without a match is one to SQL, and belongs to nobody here: so it is refused."""
    asked = (
        "SELECT k, COUNT(k) FROM (VALUES ('a'), ('x')) v(k) LEFT JOIN menu ON name = k GROUP BY k"
    )
    with fails_with("join_keeps_public"):
        connection.sql(asked)
    monkeypatch.setattr(given_keys._Given, "values_unmatched", lambda *_: False)
    assert ("x", 1) in plain.execute(asked).fetchall()
    assert ("x", 0) in connection.sql(asked).fetchall()


JOIN = "FROM codes c LEFT JOIN menu m ON m.x = c.x"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT c.x, COUNT(*) {JOIN} GROUP BY c.x",
        f"SELECT c.x, COUNT(1) {JOIN} GROUP BY c.x",
        f"SELECT c.x, COUNT(c.name) {JOIN} GROUP BY c.x",
        f"SELECT c.x, COUNT(DISTINCT c.name) {JOIN} GROUP BY c.x",
        f"SELECT c.x, COUNT(*) FILTER (WHERE m.ok IS NULL) {JOIN} GROUP BY c.x",
        f"SELECT c.x, COUNT(COALESCE(m.x, 0)) {JOIN} GROUP BY c.x",
        f"SELECT c.x, COUNT_IF(m.x IS NULL) {JOIN} GROUP BY c.x",
        f"SELECT c.x, SUM(c.x, contribution_bounds_per_row => (0, 9)) {JOIN} GROUP BY c.x",
        f"SELECT c.x, MEDIAN(c.x, contribution_bounds_per_row => (0, 9)) {JOIN} GROUP BY c.x",
        f"SELECT COUNT(c.name) {JOIN}",
        f"SELECT c.x, COUNT(m.x) {JOIN} WHERE m.x IS NULL GROUP BY c.x",
        f"SELECT c.x, COUNT(m.x) {JOIN} WHERE m.x > 5 OR m.id IS NULL GROUP BY c.x",
        f"SELECT m.x, COUNT(m.x) {JOIN} GROUP BY m.x",
        f"SELECT c.x, m.plan, COUNT(m.x) {JOIN} GROUP BY c.x, m.plan",
        "SELECT k, l, COUNT(id) FROM (VALUES (0, 0), (0, 1), (1, 1)) v(k, l) "
        "LEFT JOIN menu ON x = k GROUP BY k, l",
        f"SELECT DISTINCT c.x {JOIN}",
        f"SELECT c.x, COUNT(m.x) {JOIN} WHERE c.x > 99 GROUP BY c.x",
        f"SELECT c.x, COUNT(m.x) {JOIN} WHERE c.x IN (SELECT x FROM codes) GROUP BY c.x",
        f"SELECT c.x, COUNT(m.x) {JOIN} LEFT JOIN codes d ON d.x = c.x GROUP BY c.x",
        f"SELECT c.x, COUNT(m.x) {JOIN} JOIN menu n ON n.id = m.id GROUP BY c.x",
        f"SELECT x, COUNT(id) FROM (SELECT c.x, m.id {JOIN}) GROUP BY x",
        f"SELECT CAST(c.x AS DOUBLE), COUNT(m.x) {JOIN} GROUP BY 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'cascade') c.x, COUNT(m.x) "
        f"{JOIN} GROUP BY c.x",
    ],
)
def test_what_plain_sql_would_answer_otherwise_is_refused(
    worlds: list[dpsql.Connection], sql: str
) -> None:
    for world in worlds[::3]:
        before = world.budget()
        with fails_with("join_keeps_public"):
            world.sql(sql)
        assert world.budget() == before


def test_names_and_types_are_free(connection: dpsql.Connection) -> None:
    """Also where there are no public rows."""
    sql = f"SELECT label, COUNT(m.x) AS n {JOIN} WHERE c.x > 99 GROUP BY label LIMIT 0"
    answer = connection.sql(sql)
    assert (list(answer.columns), answer.fetchall()) == (["label", "n"], [])


PUBLIC_GROUPS = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (group_selection_strategy = PUBLIC_GROUPS) "
)


def test_public_groups_are_never_discovered(connection: dpsql.Connection) -> None:
    known = ("plan", "month(d)", "name")
    for key, where in zip(known, ("TRUE", "TRUE", "name IN ('a', 'b')"), strict=True):
        sql = f"{PUBLIC_GROUPS} {key}, COUNT(*) FROM menu WHERE {where} GROUP BY {key}"
        assert connection.explain(sql).blocks[0].reserved.delta == 0
    for key in ("name", "plan, name", "x + length(plan)"):
        with fails_with("groups_not_public"):
            connection.sql(f"{PUBLIC_GROUPS} {key}, COUNT(*) FROM menu GROUP BY ALL")
    with fails_with("groups_not_public"):
        connection.sql(f"{PUBLIC_GROUPS} DISTINCT plan, name FROM menu")
    with fails_with("bad_option"):
        connection.sql(
            f"{PUBLIC_GROUPS.replace('PUBLIC', 'ALL')} plan, COUNT(*) FROM menu GROUP BY 1"
        )


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_a_condition_on_private_rows_leaves_the_groups(connection: dpsql.Connection) -> None:
    """In WHERE as in ON, though SQL drops groups of which WHERE leaves no row."""
    asked = "SELECT c.x, COUNT(m.x) {} {} m.ok GROUP BY c.x"
    where, on = (connection.sql(asked.format(JOIN, word)).fetchall() for word in ("WHERE", "AND"))
    assert where == on
    assert len(on) == 3


OVER_GROUPS = (
    "SELECT max(n), count(label) FROM ({}) t",
    "WITH t AS ({}) SELECT label, x FROM t WHERE name <> 'a' ORDER BY since DESC NULLS LAST, n",
    "SELECT t.name, m.n FROM ({}) t JOIN (SELECT x, COUNT(*) AS n FROM menu WHERE x IN (1, 6) "
    "GROUP BY x) m USING (x) ORDER BY ALL",
    "{} HAVING label IS NULL OR n > 9 ORDER BY n DESC, c.name LIMIT 2",
)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("sql", OVER_GROUPS)
def test_keys_that_others_decide_are_released_columns_like_any(
    connection: dpsql.Connection, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    groups = (
        "SELECT c.x, c.name, label, since, COUNT(m.id) AS n FROM codes c LEFT JOIN menu m "
        "ON m.x = c.x GROUP BY c.x, c.name, label, since"
    )
    asked = sql.format(groups)
    assert connection.sql(asked).fetchall() == plain.execute(asked).fetchall()


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    "number",
    ["c.x / 4", "CAST(c.x AS DECIMAL(9, 2)) / 3", "CAST(c.x AS FLOAT) + 0.1", "c.x / 0.0", "0.25"],
)
def test_a_number_with_a_fraction_stands_beside_the_key_that_decides_it(
    connection: dpsql.Connection, plain: duckdb.DuckDBPyConnection, number: str
) -> None:
    for keys in (f"c.name, {number}", f"{number}, c.name"):
        items = f"{keys}, COUNT(DISTINCT m.id), ({number}) > 1"
        asked = f"SELECT {items} {JOIN} GROUP BY {keys} ORDER BY ALL"
        assert connection.sql(asked).fetchall() == plain.execute(asked).fetchall()


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_values_of_an_inner_join_are_known_keys(
    connection: dpsql.Connection, plain: duckdb.DuckDBPyConnection
) -> None:
    lists = ("('a'), ('b'), ('zz')", "(1), (7), (99)", "(DATE '2024-02-29'), (DATE '2031-07-07')")
    for column, values in zip(("name", "x", "d"), lists, strict=True):
        asked = (
            f"SELECT k, COUNT(*) FROM menu JOIN (VALUES {values}) v(k) ON {column} = k GROUP BY k"
        )
        answer = connection.sql(asked)
        assert answer.mechanisms == ("known_domain",)
        assert +Counter(dict(answer.fetchall())) == Counter(dict(plain.execute(asked).fetchall()))
