"""What no policy lists does not exist: whatever an analyst calls a view of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.plays import COUNTED, WITH, change
from helpers.plays import ROWS as PLAYS
from helpers.plays import clock as clock
from helpers.reached_texts import reached_texts
from helpers.sql_text import generated
from helpers.unchecked_runs import unread

import dpsql
from dpsql.dbapi.connection import Connection
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy, TimeColumn
from dpsql.policy.parameters import Parameters

CANARY = 987_654_321
ROWS = f"""{PLAYS}
CREATE TABLE genres AS SELECT 'a' || range AS artist FROM range(3);
CREATE TABLE salaries AS SELECT 'ana' AS artist, {CANARY} AS users, 'canary' AS canary_column;
CREATE VIEW raw_plays AS SELECT user_id + {CANARY} AS users, artist FROM plays;
CREATE SCHEMA mart;
CREATE TABLE mart.pay AS SELECT {CANARY} AS users, 'canary' AS artist;
CREATE TABLE "mart.pay" AS SELECT {CANARY} AS users, 'canary' AS artist;
"""
HIDDEN = ("salaries", "raw_plays", '"mart.pay"')


def policy(*further: str, **others: Any) -> Policy:
    unit = PrivacyUnit("user", "user_id")
    table = TablePolicy("plays", unit, time=TimeColumn("played_at"))
    accounts = {name: AccountPolicy(name, 500.0, 0.1) for name in ("ana", "bob")}
    parameters = Parameters(
        epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=2
    )
    tables = {"plays": table, "genres": TablePolicy("genres", None)}
    tables |= {name: TablePolicy(name, None) for name in further}
    return Policy("d", parameters, accounts=accounts, tables=tables, **others)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    found = tmp_path / "here"
    found.mkdir()
    change(found, ROWS)
    return found


def connect(place: Path, analyst: str = "ana", *further: str) -> Connection:
    return dpsql.connect(place / "x.duckdb", policy(*further), str(place / "l.db"), analyst)


@pytest.fixture
def connection(place: Path) -> Iterator[Connection]:
    with connect(place) as opened:
        yield opened


def made(connection: Connection, name: str, clock: Callable[[int], None]) -> None:
    """Make a view, and publish some steps of it."""
    connection.sql(f"CREATE MATERIALIZED VIEW {name} {WITH} AS {COUNTED}")
    clock(3)
    connection.sql(f"REFRESH MATERIALIZED VIEW {name}")


WAYS = (
    "SELECT * FROM {0}",
    f"SELECT * FROM ({COUNTED}) p LEFT JOIN (SELECT * FROM {{0}}) USING (artist)",
    "SELECT * FROM {0} LIMIT 0",
)
FURTHER = (
    "SELECT * FROM main.{0}",
    "WITH c AS (SELECT * FROM {0}) SELECT * FROM c",
    "SELECT s.* FROM {0} AS s JOIN genres USING (artist)",
    "SELECT sum(users), max(artist) FROM {0}",
    "SELECT repeat(artist, 3) FROM {0}",
    "SELECT DP_INTERVAL_LOW(users), DP_INTERVAL_HIGH(users) FROM {0}",
    "SELECT repeat(artist, 3) FROM {0} LIMIT 0",
)


def assert_is_the_view(connection: Connection, name: str, ways: Sequence[str] = WAYS) -> None:
    """Whatever asks for the name finds the view, and nothing of the table of that name."""
    listed = list(connection.sql(f"DESCRIBE {name}"))
    assert [row[0] for row in listed] == ["step", "as_of", "artist", "users"]
    assert len(list(connection.sql(f"SELECT * FROM {name}"))) > 0
    for sql in (way.format(name) for way in ways):
        described = connection.describe(sql)
        rows = list(connection.sql(sql))
        seen = f"{[column.name for column in described.columns]} {rows}"
        assert str(CANARY) not in seen, sql
        assert "canary" not in seen, sql


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDDEN)
def test_a_view_named_like_an_unlisted_table_is_the_view(
    connection: Connection, clock: Callable[[int], None], name: str
) -> None:
    made(connection, name.swapcase(), clock)
    assert_is_the_view(connection, name, (*WAYS, *FURTHER) if name == "salaries" else WAYS)


@pytest.mark.slow
def test_a_table_that_appears_later_changes_nothing(
    place: Path, clock: Callable[[int], None]
) -> None:
    with connect(place) as connection:
        made(connection, "later", clock)
    change(place, f"CREATE TABLE later AS SELECT 'canary' AS artist, {CANARY} AS users")
    with connect(place) as connection:
        assert_is_the_view(connection, "later")
    change(place, "DROP TABLE later; CREATE VIEW later AS SELECT * FROM salaries")
    with connect(place) as connection:
        assert_is_the_view(connection, "later")


@pytest.mark.slow
def test_a_table_that_the_policy_lists_later_hides_the_view(
    place: Path, clock: Callable[[int], None]
) -> None:
    with connect(place) as connection:
        made(connection, "salaries", clock)
    with connect(place, "ana", "salaries") as connection:
        assert list(connection.sql("SELECT users FROM salaries")) == [(CANARY,)]
        names = [row[0] for row in connection.sql("DESCRIBE salaries")]
        assert names == ["artist", "users", "canary_column"]
        assert [row[0] for row in connection.sql("SHOW MATERIALIZED VIEWS")] == ["salaries"]
        clock(6)
        connection.sql("REFRESH MATERIALIZED VIEW salaries")
        with pytest.raises(dpsql.ParameterError, match="there is a table"):
            connection.sql(f"CREATE MATERIALIZED VIEW Salaries {WITH} AS {COUNTED}")
        connection.sql("DROP MATERIALIZED VIEW salaries")
    with connect(place) as connection, pytest.raises(dpsql.UnknownName):
        connection.sql("SELECT * FROM salaries")


@pytest.mark.slow
def test_connections_of_one_engine_know_their_own_tables_alone(
    place: Path, clock: Callable[[int], None]
) -> None:
    """Rooms, twins and views of an engine are shared by nobody whose policy lists other tables."""
    engine, ledger = dpsql.DuckDBEngine(place / "x.duckdb"), str(place / "l.db")
    views = replace(policy().views, directory=str(place))
    listing = dpsql.connect(engine, policy("salaries", views=views), ledger, "ana")
    other = dpsql.connect(engine, policy(views=views), ledger, "bob")
    try:
        assert list(listing.sql("SELECT users FROM salaries")) == [(CANARY,)]
        with pytest.raises(dpsql.UnknownName):
            other.sql("SELECT * FROM salaries")
        made(other, "salaries", clock)
        assert_is_the_view(other, "salaries")
        assert list(listing.sql("SELECT users FROM salaries")) == [(CANARY,)]
        assert_is_the_view(other, "salaries")
    finally:
        listing.close()
        other.close()
        engine.close()


STATEMENTS = (
    "SELECT * FROM {}",
    "SELECT COUNT(*) FROM {}",
    "SELECT COUNT(*) FROM plays JOIN {} USING (artist)",
    "SELECT COUNT(*) FROM plays WHERE artist IN (SELECT artist FROM {})",
    "SELECT * FROM {} LIMIT 0",
    "DESCRIBE {}",
    "PRAGMA table_info({})",
    "REFRESH MATERIALIZED VIEW {}",
    "EXPLAIN SELECT COUNT(*) FROM {}",
    "SELECT * FROM genres, LATERAL (SELECT * FROM {})",
    "SELECT * FROM genres WHERE artist > (SELECT max({}.artist) FROM genres)",
    "SELECT {}.canary_column FROM genres",
    "SELECT * FROM genre_ JOIN {} USING (x)",
)
NAMES = ("salaries", "Raw_plays", "mart.pay", '"mart.pay"', "x.main.salaries", "main.pay")


@pytest.mark.slow
def test_refusals_do_not_tell_an_unlisted_table_from_none(place: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    change(bare, ROWS.split("CREATE TABLE salaries", 1)[0])

    def told(connection: Connection, sql: str) -> str:
        try:
            return str(list(connection.sql(sql)))
        except dpsql.Error as error:
            return f"{type(error).__name__} {error.code} {error} {error.hint} {error.place}"

    with connect(place) as connection, connect(bare) as without:
        for name in NAMES:
            for sql in (text.format(name) for text in STATEMENTS):
                assert told(connection, sql) == told(without, sql), sql


def test_a_policy_that_does_not_fit_is_refused_without_names_of_unlisted_tables(
    place: Path,
) -> None:
    for wrong, hidden in (("salarie", "salaries"), ("pay", "mart")):
        with pytest.raises(dpsql.PolicyError) as raised:
            connect(place, "ana", wrong)
        assert hidden not in f"{raised.value} {raised.value.hint}"


@pytest.mark.slow
def test_names_of_unlisted_schemas_change_no_meaning(place: Path) -> None:
    """`public` stands for `main`, whether or not the owner has an unlisted schema of that name."""
    with connect(place) as connection:
        before = sorted(connection.sql("SELECT artist FROM public.genres"))
    change(place, f"CREATE SCHEMA public; CREATE TABLE public.genres AS SELECT {CANARY} AS artist")
    change(place, "CREATE SCHEMA x.x; CREATE TABLE x.x.genres AS SELECT 'canary' AS artist")
    with connect(place) as connection:
        assert sorted(connection.sql("SELECT artist FROM public.genres")) == before
        assert sorted(connection.sql("SELECT artist FROM x.genres")) == before


@pytest.mark.slow
def test_listings_hold_listed_tables_alone(
    connection: Connection, clock: Callable[[int], None]
) -> None:
    made(connection, "salaries", clock)
    asked = (
        "SHOW TABLES",
        "SHOW ALL TABLES",
        "SHOW SCHEMAS",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.columns",
        "SELECT * FROM information_schema.schemata",
        "SELECT * FROM duckdb_tables()",
        "SELECT * FROM duckdb_columns()",
    )
    for sql in asked:
        seen = str(list(connection.sql(sql)))
        assert "plays" in seen or "main" in seen, sql
        for hidden in ("raw_plays", "mart", "canary_column", "salaries"):
            assert hidden not in seen, sql


@pytest.mark.slow
def test_nothing_of_an_unlisted_table_can_be_reached_from_a_connection(
    place: Path, connection: Connection
) -> None:
    """Not even its name, which opening held and other connections of the process may list."""
    with connect(place, "ana", "salaries") as other:
        other.sql("SELECT * FROM salaries")
        other.sql("SELECT artist, count(*) FROM plays JOIN salaries USING (artist) GROUP BY 1")
    connection.sql("SELECT * FROM genres")
    connection.sql(COUNTED)
    texts = reached_texts(connection, skip=("_owned",))
    assert "played_at" in texts  # the net is not blind
    assert not [t for t in texts if "canary" in t or "salaries" in t or "raw_plays" in t]


def test_generated_sql_cannot_name_an_unlisted_table(connection: Connection) -> None:
    """Should generated SQL ever name one, the engine does not know it."""
    engine = connection._answerer.engine
    for name in ("salaries", "raw_plays", "mart.pay", "main.salaries", "memory.main.salaries"):
        sql = f'SELECT 1 AS "__dpsql_rid", count(*) AS "m" FROM {name}'
        with pytest.raises(dpsql.EngineError), engine.run() as run:
            unread(run).exact(sql, (), ["m"])
        with pytest.raises(dpsql.QueryRefused):
            engine.bind(generated(sql))
    with engine.run() as run:
        sql = 'SELECT 1 AS "__dpsql_rid", count(*) AS "m" FROM plays'
        assert unread(run).exact(sql, (), ["m"]).measures["m"].tolist() == [4800]
