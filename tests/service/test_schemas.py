# ruff: noqa: E501
"""Tables of several schemas, in files of DuckDB: who names one reads that one and no other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.present import present
from helpers.sql_text import generated
from helpers.support import listed_engine

import dpsql
from dpsql.core.quoting import quote
from dpsql.core.table_name import TableName, fold, written
from dpsql.policy.model import AccountPolicy, Link, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

UNIT = PrivacyUnit("person", "uid")
ROWS = 1000  # of a table, times its place among them: the count says which one was read
NEAR = 100  # within which a count of epsilon 100 lies, but once in e^1000
PRIVATE = [
    TableName("fact"),
    TableName("fact", "mart"),
    TableName("mart.fact"),
    TableName("fact", "my schema"),
    TableName('my schema"."fact'),
    TableName("t.1", "a.b"),
    TableName("1", "a.b.t"),
    TableName("b.t.1", "a"),
    TableName('q"', "😀"),
    TableName('😀."q"""'),
    TableName("Main", "MART"),
]
"""Private tables; many of their names are the same text if joined by a dot, or without quotes."""
PUBLIC = [TableName("dim"), TableName("dim", "mart"), TableName("mart.dim"), TableName("d", "é ö")]
UNLISTED = [TableName("secret", "mart"), TableName("secret"), TableName("fact", "hidden")]


def qualified(name: TableName) -> str:
    return f"{quote(name.schema)}.{quote(name.table)}"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "shop.duckdb"
    with duckdb.connect(str(path)) as owner:
        for place, name in enumerate([*PRIVATE, *UNLISTED], 1):
            owner.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name.schema)}")
            owner.execute(
                f"CREATE TABLE {qualified(name)} AS SELECT i AS uid, i % 3 AS k, "
                f"{place} AS own_{place} FROM range({place * ROWS}) t(i)"
            )
        for place, name in enumerate(PUBLIC):
            owner.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name.schema)}")
            owner.execute(
                f"CREATE TABLE {qualified(name)} AS SELECT i AS k, '{place}-' || i AS label "
                "FROM range(3) t(i)"
            )
    return path


def rules(*more: TablePolicy) -> Policy:
    tables = [TablePolicy(name, UNIT) for name in PRIVATE]
    tables += [TablePolicy(name, None) for name in PUBLIC]
    return Policy(
        "shop",
        Parameters(epsilon=100.0, delta=1e-9, max_rows_contributed=1, left_out_share=0.0),
        accounts={"ana": AccountPolicy("ana", 1e6, 0.4)},
        tables={table.name.key: table for table in (*tables, *more)},
    )


@pytest.fixture(scope="module")
def con(file: Path) -> Iterator[dpsql.Connection]:
    with dpsql.connect(file, rules(), file.with_name("ledger.db"), "ana") as opened:
        yield opened


def count(con: dpsql.Connection, source: str, before: str = "") -> float:
    ((found,),) = con.sql(f"{before} SELECT count(*) FROM {source}").fetchall()
    assert isinstance(found, int | float)
    return found


def refused(con: dpsql.Connection, sql: str) -> dpsql.Error:
    spent = present(con.budget().rho_spent)
    with pytest.raises(dpsql.Error) as caught:
        con.sql(sql)
    assert con.budget().rho_spent == spent
    return caught.value


# -- which table is read ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.few(6)
@pytest.mark.parametrize("name", PRIVATE, ids=str)
def test_a_name_with_its_schema_reads_that_table_however_it_is_written(
    con: dpsql.Connection, name: TableName
) -> None:
    expected = (PRIVATE.index(name) + 1) * ROWS
    spellings = [qualified(name), f'"shop".{qualified(name)}', qualified(name).upper()]
    spellings += [written(name.schema, name.table)]
    spellings += [quote(name.table)] if name.in_main else []
    for source in spellings:
        assert abs(count(con, source) - expected) < NEAR
        assert abs(count(con, f"{source} AS t WHERE t.uid >= 0") - expected) < NEAR
    own = f"own_{PRIVATE.index(name) + 1}"
    described = [row[0] for row in con.sql(f"DESCRIBE {qualified(name)}").fetchall()]
    assert described == ["uid", "k", own]


@pytest.mark.slow
def test_all_spellings_of_a_table_are_one_question_and_two_tables_are_two(
    con: dpsql.Connection,
) -> None:
    main = ["fact", "main.fact", "PUBLIC.FACT", '"shop"."main"."fact"', "shop.fact"]
    everywhere = [qualified(name) for name in PRIVATE]
    for source in everywhere:  # each is paid for
        assert not con.sql(f"SELECT k, count(*) FROM {source} WHERE k > 1 GROUP BY k").cost.stored
    for source in (*main, *everywhere):
        assert con.sql(f"SELECT k, count(*) FROM {source} WHERE k > 1 GROUP BY k").cost.stored
    con.sql("SELECT k, count(*) FROM main.fact WHERE k > 0 GROUP BY k")
    again = con.sql("SELECT k, count(*) FROM public.fact WHERE public.fact.k > 0 GROUP BY fact.k")
    assert again.cost.stored
    other = con.sql("SELECT k, count(*) FROM mart.fact WHERE k > 0 GROUP BY k")
    assert not other.cost.stored


def test_a_name_alone_means_the_main_schema(con: dpsql.Connection) -> None:
    error = refused(con, 'SELECT count(*) FROM "t.1"')
    assert error.code == "unknown_table"
    assert error.hint == 'Did you mean "a.b"."t.1"?'
    assert refused(con, 'DESCRIBE "t.1"').hint == 'Did you mean "a.b"."t.1"?'


@pytest.mark.parametrize("name", [*UNLISTED, TableName("no", "mart"), TableName("fact", "no")])
def test_what_the_policy_does_not_list_does_not_exist(
    con: dpsql.Connection, name: TableName
) -> None:
    for sql in (f"SELECT count(*) FROM {qualified(name)}", f"DESCRIBE {qualified(name)}"):
        error = refused(con, sql)
        assert error.code == "unknown_table"
        assert "there is no table" in error.reason
    listed = [row[0] for row in con.sql("SHOW TABLES").fetchall()]
    assert sorted(listed) == sorted(map(str, [*PRIVATE, *PUBLIC]))


def test_tables_that_exist_and_do_not_are_refused_in_the_same_words(con: dpsql.Connection) -> None:
    hidden = refused(con, "SELECT count(*) FROM mart.secret")
    absent = refused(con, "SELECT count(*) FROM mart.sevret")
    assert hidden.code == absent.code
    assert hidden.reason.replace("secret", "") == absent.reason.replace("sevret", "")
    assert hidden.hint == absent.hint
    for sql in (
        "SELECT count(*) FROM {}",
        "SELECT * FROM {}",
        "SELECT count({}.x) FROM {}",
        "DESCRIBE {}",
        "SELECT count(*) FROM fact JOIN {} USING (uid)",
    ):
        for before in ("", "shop."):
            one, other = (
                refused(con, sql.replace("{}", f"{before}{schema}.fact"))
                for schema in ("hidden", "hid_en")  # one is there, and not listed
            )
            assert str(one).replace("hidden", "") == str(other).replace("hid_en", "")


OTHERS = (
    "other.main.fact memory.main.fact shop.shop.fact temp.fact system.main.fact a.shop.main.fact "
    "mart.main.fact pg_catalog.pg_class"
)


@pytest.mark.parametrize("source", OTHERS.split())
def test_other_databases_do_not_exist(con: dpsql.Connection, source: str) -> None:
    error = refused(con, f"SELECT count(*) FROM {source}")
    assert error.code in ("unknown_table", "table_function")


# -- CTEs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["main.fact", "public.fact", "shop.main.fact"])
def test_no_cte_answers_a_name_with_a_schema(con: dpsql.Connection, source: str) -> None:
    cte = "WITH fact AS (SELECT 7 AS k)"
    assert abs(count(con, source, cte) - ROWS) < NEAR
    assert con.sql(f"{cte} SELECT k FROM fact").fetchall() == [(7,)]
    assert refused(con, f"{cte} SELECT k FROM {source}").code == "raw_rows"
    both = f"{cte} SELECT a.k, n FROM fact a, (SELECT count(*) AS n FROM {source}) b"
    ((k, n),) = con.sql(both).fetchall()
    assert k == 7
    assert abs(float(str(n)) - ROWS) < NEAR


def test_a_cte_named_like_both_parts_is_not_the_table(con: dpsql.Connection) -> None:
    cte = 'WITH "mart.fact" AS (SELECT 1 AS k)'
    assert con.sql(f'{cte} SELECT k FROM "mart.fact"').fetchall() == [(1,)]
    assert abs(count(con, "mart.fact", cte) - 2 * ROWS) < NEAR
    assert abs(count(con, 'main."mart.fact"', cte) - 3 * ROWS) < NEAR


def test_public_tables_with_a_schema_are_read_beside_ctes_of_the_same_name(
    con: dpsql.Connection,
) -> None:
    cte = "WITH dim AS (SELECT 'cte' AS label)"
    for source, first in (("dim", "cte"), ("main.dim", "0-0"), ("mart.dim", "1-0")):
        found = con.sql(f"{cte} SELECT min(label) FROM {source}").fetchall()
        assert found == [(first,)]


# -- columns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        ("SELECT count(main.fact.own_1) FROM fact", ROWS),
        ("SELECT count(shop.main.fact.own_1) FROM public.fact", ROWS),
        ("SELECT count(MART.Fact.own_2) FROM mart.fact WHERE fact.uid >= 0", 2 * ROWS),
        ("SELECT count(mart.fact.own_2) FROM mart.fact JOIN fact USING (uid)", ROWS),
        ("SELECT count(main.fact.own_1) FROM mart.fact LEFT JOIN main.fact ON main.fact.uid = mart.fact.uid", ROWS),
        ("SELECT count(mart.fact.own_2) FROM mart.fact LEFT JOIN main.fact ON main.fact.uid = mart.fact.uid", 2 * ROWS),
        ('SELECT count("mart.fact".own_3) FROM mart.fact RIGHT JOIN "mart.fact" ON mart.fact.uid = "mart.fact".uid', 3 * ROWS),
        ("SELECT sum(n) FROM (SELECT mart.fact.k, count(*) AS n FROM mart.fact GROUP BY mart.fact.k)", 2 * ROWS),
        ('SELECT count("my schema".fact.own_4) FROM "my schema".fact', 4 * ROWS),
        ("SELECT count(*) FROM mart.fact WHERE k IN (SELECT mart.dim.k FROM mart.dim)", 2 * ROWS),
        ("SELECT count(*) FROM mart.fact WHERE EXISTS (SELECT 1 FROM mart.dim WHERE mart.dim.k = mart.fact.k)", 2 * ROWS),
    ],
)  # fmt: skip
def test_columns_may_be_written_with_their_schema(
    con: dpsql.Connection, sql: str, known: int
) -> None:
    ((found,),) = con.sql(sql).fetchall()
    assert abs(float(str(found)) - known) < 3 * NEAR


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(main.fact.own_2) FROM mart.fact",
        "SELECT count(mart.fact.own_2) FROM mart.fact AS f",
        "SELECT count(main.f.own_1) FROM fact AS f",
        "SELECT count(other.mart.fact.own_2) FROM mart.fact",
        "SELECT count(mart.fact.own_1) FROM mart.fact JOIN main.fact USING (uid)",
        "SELECT count(mart.fact.own_2) FROM (SELECT * FROM mart.fact) AS fact",
        "SELECT count(mart.fact.own_2) FROM (SELECT * FROM mart.fact)",
        "WITH fact AS (SELECT * FROM mart.fact) SELECT count(main.fact.own_2) FROM fact",
        'SELECT count("mart.fact".own_2) FROM mart.fact',
        'SELECT count(mart.fact.own_3) FROM "mart.fact"',
    ],
)
def test_a_column_of_a_table_that_is_not_there_does_not_exist(
    con: dpsql.Connection, sql: str
) -> None:
    assert refused(con, sql).code == "unknown_column"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(fact.own_2) FROM mart.fact JOIN main.fact ON main.fact.uid = mart.fact.uid",
        "SELECT fact.*, mart.fact.uid FROM mart.fact JOIN main.fact USING (uid)",
        # without this, what stands alone would be the outer table's
        "SELECT count(*) FROM dim WHERE EXISTS (SELECT 1 FROM main.dim, mart.dim WHERE main.dim.k = mart.dim.k AND dim.k = 9)",
    ],
)
def test_a_bare_name_beside_two_tables_of_that_name_is_refused(
    con: dpsql.Connection, sql: str
) -> None:
    assert refused(con, sql).code == "ambiguous_column"


HIDDEN = [
    "SELECT label, (SELECT max(mart.dim.k) FROM mart.dim WHERE mart.dim.k = main.dim.k) FROM main.dim",
    "SELECT dim.label, (SELECT max(dim.k) FROM mart.dim WHERE dim.k = main.dim.k) FROM main.dim",
    "SELECT (SELECT main.dim.label || dim.label FROM mart.dim WHERE dim.k = main.dim.k) AS both FROM dim ORDER BY dim.k DESC",
    "SELECT dim.* FROM mart.dim WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k < mart.dim.k) ORDER BY mart.dim.k",
]


@pytest.mark.parametrize("sql", HIDDEN)
def test_a_name_that_an_inner_table_hides_means_the_outer_one(
    con: dpsql.Connection, file: Path, sql: str
) -> None:
    with duckdb.connect(str(file), read_only=True) as owner:
        rows = owner.execute(sql).fetchall()
    assert len(rows) > 1
    assert con.sql(sql).fetchall() == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PRIVATE, *PUBLIC], ids=str)
def test_columns_alone_of_every_schema_are_told_for_nothing(
    con: dpsql.Connection, name: TableName
) -> None:
    spent = con.budget()
    described = con.sql(f"DESCRIBE {qualified(name)}")
    columns = [*zip(described["column_name"], described["column_type"], strict=True)]
    for sql in (
        f"SELECT * FROM {qualified(name)} LIMIT 0",
        f"SELECT * FROM {qualified(name)} WHERE 1 = 0",
        f"SELECT t.* FROM {qualified(name)} AS t JOIN dim USING (k) JOIN mart.dim d USING (k) LIMIT 0",
        f"SELECT * FROM (SELECT * FROM {qualified(name)}) v WHERE 1 = 0",
    ):
        empty = con.sql(sql)
        assert [*zip(empty.columns, empty.types, strict=True)] == columns
        assert empty.fetchall() == []
    assert con.budget() == spent
    bad = f"SELECT k + CAST('x' AS INTEGER) AS n, list(k) OVER () FROM {qualified(name)} LIMIT 0"
    assert refused(con, bad).code == "constant_fails"


def test_the_catalog_says_the_name_that_stands_before_schemas(con: dpsql.Connection) -> None:
    listed = con.sql(
        "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"
    ).fetchall()
    assert len(listed) == len([*PRIVATE, *PUBLIC])
    for names in listed:
        con.sql(f"SELECT * FROM {'.'.join(map(quote, names))} LIMIT 0")
    for row in con.sql("SHOW ALL TABLES").fetchall():
        con.sql(f"SELECT * FROM {'.'.join(map(quote, row[:3]))} LIMIT 0")
    assert con.sql("SHOW DATABASES").fetchall() == [("shop",)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM mart.fact", "raw_rows"),
        ("SELECT mart.fact.* FROM mart.fact", "raw_rows"),
        ("SELECT mart.fact.uid FROM mart.fact", "raw_rows"),
        ("SELECT mart.fact FROM mart.fact", "unknown_column"),
        ("SELECT count(*) FROM mart.fact USING SAMPLE 10 ROWS", "sample_not_available"),
        ("SELECT count(*) FROM mart.fact JOIN mart.secret USING (uid)", "unknown_table"),
        ("SELECT (SELECT any_value(uid) FROM mart.fact) FROM mart.dim", "aggregate_not_supported"),
    ],
)
def test_private_rows_of_every_schema_stay_private(
    con: dpsql.Connection, sql: str, code: str
) -> None:
    assert refused(con, sql).code == code


# -- the tail --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("place", range(len(PUBLIC)))
def test_the_tail_reads_public_tables_of_every_schema(con: dpsql.Connection, place: int) -> None:
    name = PUBLIC[place]
    alone = con.sql(f"SELECT label FROM {qualified(name)} ORDER BY k").fetchall()
    assert alone == [(f"{place}-{i}",) for i in range(3)]
    column = f"{qualified(name)}.label" if name != TableName("mart.dim") else '"mart.dim".label'
    sql = (
        f"SELECT {column}, n FROM {qualified(name)} JOIN "
        "(SELECT k, count(*) AS n FROM mart.fact GROUP BY k) AS g USING (k) ORDER BY 1"
    )
    rows = con.sql(sql).fetchall()
    assert [row[0] for row in rows] == [f"{place}-{i}" for i in range(3)]
    assert sum(float(str(row[1])) for row in rows) == pytest.approx(2 * ROWS, abs=3 * NEAR)
    grown = con.sql(f"SELECT repeat(label, 2) FROM {qualified(name)} WHERE k = 0").fetchall()
    assert grown == [(f"{place}-0" * 2,)]


def test_public_tables_of_one_name_stand_side_by_side(con: dpsql.Connection) -> None:
    rows = con.sql(
        'SELECT main.dim.label, mart.dim.label, "mart.dim".label FROM main.dim '
        'JOIN mart.dim ON main.dim.k = mart.dim.k JOIN "mart.dim" ON mart.dim.k = "mart.dim".k '
        "ORDER BY main.dim.k"
    ).fetchall()
    assert rows == [(f"0-{i}", f"1-{i}", f"2-{i}") for i in range(3)]
    private = con.sql(
        "SELECT mart.dim.label, count(*) FROM mart.fact JOIN mart.dim USING (k) "
        "JOIN main.dim ON main.dim.k = mart.dim.k WHERE main.dim.label <> '0-1' GROUP BY 1"
    ).fetchall()
    assert sorted(str(row[0]) for row in private) == ["1-0", "1-2"]


@pytest.mark.slow
def test_rooms_keep_public_tables_of_two_schemas_apart(file: Path) -> None:
    engine = dpsql.DuckDBEngine(file)
    for _ in range(3):  # the second and third connection find the room of the first
        with dpsql.connect(engine, rules(), file.with_name("ledger.db"), "ana") as opened:
            for name, first in (("dim", "0-0"), ("mart.dim", "1-0"), ('"mart.dim"', "2-0")):
                assert opened.sql(f"SELECT min(label) FROM {name}").fetchall() == [(first,)]
    engine.close()


# -- joins, links and views ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_link_leads_to_a_table_of_another_schema(file: Path) -> None:
    with duckdb.connect(str(file.with_name("links.duckdb"))) as owner:
        owner.execute("CREATE SCHEMA a; CREATE SCHEMA b")
        for schema, rows in (("a", 1000), ("b", 3000), ("main", 9000)):
            owner.execute(
                f"CREATE TABLE {schema}.orders AS SELECT i AS okey, i AS uid FROM range({rows}) t(i)"
            )
        owner.execute("CREATE TABLE b.items AS SELECT i AS okey FROM range(9000) t(i)")
    tables = [TablePolicy(TableName("orders", s), UNIT) for s in ("a", "b", "main")]
    for schema, expected in (("a", 1000), ("b", 3000), ("main", 9000)):
        link = Link("okey", TableName("orders", schema), "okey")
        items = TablePolicy(TableName("items", "b"), None, link=link)
        policy = Policy(
            f"links-{schema}",
            Parameters(epsilon=100.0, delta=1e-9, max_rows_contributed=1, left_out_share=0.0),
            accounts={"ana": AccountPolicy("ana", 1e6, 0.4)},
            tables={table.name.key: table for table in (*tables, items)},
        )
        ledger = file.with_name("links.db")
        with dpsql.connect(file.with_name("links.duckdb"), policy, ledger, "ana") as con:
            assert abs(count(con, "b.items") - expected) < NEAR
            joined = f"b.items JOIN {schema}.orders ON b.items.okey = {schema}.orders.okey"
            assert abs(count(con, joined) - expected) < NEAR
            described = con.sql("DESCRIBE b.items").fetchall()
            shown = TableName("orders", schema)
            assert described[0][2] == f"link to {shown}.okey, privacy unit: person"


@pytest.mark.slow
def test_a_view_of_the_owners_reads_the_tables_that_it_means(tmp_path: Path) -> None:
    """A view over a name without a schema means what it meant to the owner."""
    path = tmp_path / "views.duckdb"
    with duckdb.connect(str(path)) as owner:
        owner.execute("CREATE SCHEMA a; CREATE SCHEMA b")
        for schema, rows in (("a", 1000), ("b", 3000), ("main", 9000)):
            owner.execute(f"CREATE TABLE {schema}.t AS SELECT i AS uid FROM range({rows}) t(i)")
        owner.execute("CREATE VIEW a.v AS SELECT uid FROM b.t")
        owner.execute("CREATE VIEW b.v AS SELECT uid FROM main.t")
        owner.execute("CREATE VIEW a.w AS SELECT uid FROM t")
        ((own,),) = owner.execute("SELECT count(*) FROM a.w").fetchall()
    names = [TableName("v", "a"), TableName("v", "b"), TableName("w", "a")]
    tables = {name.key: TablePolicy(name, UNIT) for name in names}
    policy = Policy(
        "views",
        Parameters(epsilon=100.0, delta=1e-9, max_rows_contributed=1, left_out_share=0.0),
        accounts={"ana": AccountPolicy("ana", 1e6, 0.4)},
        tables=tables,
    )
    with dpsql.connect(path, policy, tmp_path / "ledger.db", "ana") as con:
        for source, expected in (("a.v", 3000), ("b.v", 9000), ("a.w", own)):
            assert abs(count(con, source) - expected) < NEAR


# -- names that the database itself has ------------------------------------------------------------


def with_tables(path: Path, *names: TableName) -> Policy:
    with duckdb.connect(str(path)) as owner:
        ((catalog,),) = owner.execute("SELECT current_database()").fetchall()
        for place, name in enumerate(names, 1):
            schema = f"{quote(catalog)}.{quote(name.schema)}"
            owner.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            owner.execute(
                f"CREATE TABLE {schema}.{quote(name.table)} AS "
                f"SELECT i AS uid FROM range({place * ROWS}) t(i)"
            )
    tables = {name.key: TablePolicy(name, UNIT) for name in names}
    parameters = Parameters(epsilon=100.0, delta=1e-9, max_rows_contributed=1, left_out_share=0.0)
    accounts = {"ana": AccountPolicy("ana", 1e6, 0.4)}
    return Policy(path.stem, parameters, accounts=accounts, tables=tables)


def test_public_is_a_schema_like_others_where_there_is_one(tmp_path: Path) -> None:
    names = TableName("t"), TableName("t", "Public"), TableName("alone")
    policy = with_tables(tmp_path / "x.duckdb", *names)
    with dpsql.connect(tmp_path / "x.duckdb", policy, tmp_path / "l.db", "ana") as con:
        assert abs(count(con, "public.t") - 2 * ROWS) < NEAR
        assert abs(count(con, "t") - ROWS) < NEAR
        assert refused(con, "SELECT count(*) FROM public.alone").code == "unknown_table"


def test_a_schema_that_nothing_is_listed_of_does_not_exist(tmp_path: Path) -> None:
    """So ``public`` stands for ``main``, whether or not the owner has another schema of its name."""
    names = TableName("t"), TableName("t", "public")
    policy = with_tables(tmp_path / "x.duckdb", *names)
    policy = Policy(
        "x", policy.defaults, accounts=policy.accounts, tables={"t": policy.tables["t"]}
    )
    with dpsql.connect(tmp_path / "x.duckdb", policy, tmp_path / "l.db", "ana") as con:
        assert abs(count(con, "public.t") - ROWS) < NEAR


CATALOGS = {
    "shop.duckdb": "shop",
    "a b.duckdb": "a b",
    "x.y.duckdb": "x",
    "main.duckdb": "main_db",
    "Temp.db": "Temp_db",
    "noending": "noending",
    "é.duckdb": "é",
    "memory.db": "memory",
}


@pytest.mark.few(3)
@pytest.mark.parametrize(("file", "catalog"), CATALOGS.items())
def test_the_database_has_the_name_that_duckdb_gives_it(
    tmp_path: Path, file: str, catalog: str
) -> None:
    policy = with_tables(tmp_path / file, TableName("t", "s"))
    with duckdb.connect(str(tmp_path / file), read_only=True) as owner:
        assert owner.execute("SELECT current_database()").fetchall() == [(catalog,)]
    with dpsql.connect(tmp_path / file, policy, tmp_path / "ledger.db", "ana") as con:
        assert abs(count(con, f"{quote(catalog)}.s.t") - ROWS) < NEAR
        assert refused(con, "SELECT count(*) FROM other.s.t").code == "unknown_table"


def test_a_schema_called_like_the_database_is_the_schema(tmp_path: Path) -> None:
    policy = with_tables(tmp_path / "s.duckdb", TableName("t"), TableName("t", "s"))
    with dpsql.connect(tmp_path / "s.duckdb", policy, tmp_path / "ledger.db", "ana") as con:
        assert abs(count(con, "s.t") - 2 * ROWS) < NEAR
        assert abs(count(con, "s.main.t") - ROWS) < NEAR
        assert abs(count(con, "s.s.t") - 2 * ROWS) < NEAR


@pytest.mark.parametrize("schema", ["memory", "Temp", "system", "__dpsql_data", "__DPSQL_x"])
def test_schemas_that_could_be_taken_for_a_database_cannot_be_listed(
    tmp_path: Path, schema: str
) -> None:
    policy = with_tables(tmp_path / "x.duckdb", TableName("t", schema))
    with fails_with("policy_does_not_fit"):
        dpsql.connect(tmp_path / "x.duckdb", policy, tmp_path / "ledger.db", "ana")


@pytest.mark.slow  # a process of its own for each
@pytest.mark.parametrize("schema", ["tail", "shop", "__public", "dpsql", "information schema"])
def test_any_other_schema_can(tmp_path: Path, schema: str) -> None:
    policy = with_tables(tmp_path / "x.duckdb", TableName("t", schema))
    name = TableName("open", schema)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as owner:
        owner.execute(f"CREATE TABLE {qualified(name)} AS SELECT 'a' AS label")
    policy = Policy(
        "x",
        policy.defaults,
        accounts=policy.accounts,
        tables={**policy.tables, name.key: TablePolicy(name, None)},
    )
    with dpsql.connect(tmp_path / "x.duckdb", policy, tmp_path / "ledger.db", "ana") as con:
        assert abs(count(con, qualified(TableName("t", schema))) - ROWS) < NEAR
        grown = con.sql(f"SELECT repeat(label, 3) FROM {qualified(name)}").fetchall()
        assert grown == [("aaa",)]


def test_each_table_has_its_own_types_where_statements_are_tried(tmp_path: Path) -> None:
    """The empty copies are as many as the tables: what fits one does not fit its namesakes."""
    names = {"t": "VARCHAR", "s.t": "BIGINT", '"s.t"': "DATE"}
    path = tmp_path / "types.duckdb"
    with duckdb.connect(str(path)) as owner:
        owner.execute("CREATE SCHEMA s")
        for name, type_ in names.items():
            owner.execute(f"CREATE TABLE {name} (uid BIGINT, k {type_})")
    engine = dpsql.DuckDBEngine(path)
    assert set(engine.catalog().tables) == set(names)
    for name, type_ in names.items():
        (column,) = listed_engine(engine).bind(generated(f"SELECT k FROM {name}"))
        assert str(column.type) == type_
        assert listed_engine(engine).examine(generated(name), [generated("k")]).types == (
            column.type,
        )
        found = engine.catalog().tables[name].column("k")
        assert found is not None
        assert str(found.type) == type_
    engine.close()


def test_no_two_of_these_names_have_one_key() -> None:
    """The net under this page: tables that are one text when joined are not one table."""
    names = [*PRIVATE, *PUBLIC, *UNLISTED]
    assert len({name.key for name in names}) == len(names)
    joined = [f"{name.schema}.{name.table}" for name in names]
    joined += [name.table for name in names if name.in_main]
    twice = [a for a, b in itertools.combinations(joined, 2) if a == b]
    assert {"mart.fact", "a.b.t.1", "mart.dim"} <= set(twice)


def test_the_catalog_lists_tables_with_their_schemas_and_no_others(con: dpsql.Connection) -> None:
    names = {(fold(name.schema), name.table) for name in (*PRIVATE, *PUBLIC)}
    listed = con.sql("SELECT table_schema, table_name FROM information_schema.tables").fetchall()
    assert {(fold(str(schema)), table) for schema, table in listed} == names
    schemas = con.sql("SELECT schema_name FROM information_schema.schemata").fetchall()
    assert {fold(str(schema)) for (schema,) in schemas} == {schema for schema, _ in names}
    columns = con.sql("PRAGMA table_info('mart.fact')").fetchall()
    assert [row[1] for row in columns] == ["uid", "k", "own_2"]


def test_what_has_no_rows_tells_types_of_its_own_table(con: dpsql.Connection) -> None:
    assert con.sql("SELECT * FROM main.fact LIMIT 0").columns == ["uid", "k", "own_1"]
    assert con.sql("SELECT * FROM mart.fact LIMIT 0").columns == ["uid", "k", "own_2"]
    assert con.sql("SELECT * FROM mart.dim LIMIT 0").columns == ["k", "label"]
