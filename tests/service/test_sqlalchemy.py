"""The SQLAlchemy dialect: statements of Core and text, reflection, pandas and polars, refusals."""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
import sqlalchemy as sa
from helpers.present import present
from sqlalchemy.pool import QueuePool

import dpsql
from dpsql import dbapi
from dpsql.interfaces.sqlalchemy import DpsqlDialect

POLICIES = """
version: 1
dataset: clinic
defaults: {epsilon: 5.0, delta: 1e-6, max_groups_contributed: 50, max_rows_contributed: 50}
accounts:
  ana: {epsilon: 1000.0, delta: 1e-3}
tables:
  Visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 500}
      ward: {domain: [eyes, ears, heart]}
  wards: {public: true}
"""
TABLES = """
CREATE TABLE Visits (patient_id BIGINT, ward VARCHAR, cost DOUBLE, day DATE, "select" INTEGER,
    paid BOOLEAN, moment TIMESTAMP);
INSERT INTO Visits SELECT i % 300, ['eyes', 'ears', 'heart'][1 + i % 3], i % 400,
    DATE '2024-01-01' + (i % 10)::INTEGER, i % 4, i % 2 = 0,
    TIMESTAMP '2024-01-01' FROM range(900) r(i);
CREATE TABLE wards (ward VARCHAR, beds SMALLINT, rate DECIMAL(9, 2), plan UUID, tags VARCHAR[],
    opened TIMESTAMPTZ, closes TIME, kind ENUM ('a', 'b'), photo BLOB, small FLOAT, huge HUGEINT,
    stay INTERVAL, exact TIMESTAMP_NS);
INSERT INTO wards (ward, beds, rate) VALUES ('eyes', 10, 1.25), ('ears', 20, 2.50);
CREATE TABLE secret (v INTEGER);
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clinic")
    with duckdb.connect(str(directory / "clinic.duckdb")) as owner:
        owner.execute(TABLES)
    (directory / "policies.yaml").write_text(POLICIES, encoding="utf-8")
    return directory


def address(clinic: Path, query: str = "") -> str:
    path, policies, ledger = (clinic / n for n in ("clinic.duckdb", "policies.yaml", "budget.db"))
    return f"dpsql:///{path}?policies={policies}&ledger={ledger}&analyst=ana{query}"


@pytest.fixture(scope="module")
def engine(clinic: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(address(clinic))
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def visits(engine: sa.Engine) -> sa.Table:
    return sa.Table("Visits", sa.MetaData(), autoload_with=engine)


@pytest.fixture(scope="module")
def wards(engine: sa.Engine) -> sa.Table:
    return sa.Table("wards", sa.MetaData(), autoload_with=engine)


def rows(engine: sa.Engine, statement: sa.Executable, **values: object) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(statement, values or None)]


# -- addresses ------------------------------------------------------------------------------------


def test_the_package_registers_the_dialect(engine: sa.Engine) -> None:
    assert isinstance(engine.dialect, DpsqlDialect)
    assert engine.dialect.supports_statement_cache
    assert isinstance(engine.pool, QueuePool)


def test_an_address_says_everything_that_connect_takes(clinic: Path) -> None:
    url = address(clinic, "&epsilon=0.5&k_bar=70&max_groups_contributed=unlimited&delta=1e-9")
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        shown = connection.exec_driver_sql("SHOW PARAMETERS").all()
        values = {row.parameter: (row.value, row.source) for row in shown}
        raw = connection.connection.driver_connection
        assert isinstance(raw, dpsql.Connection)
    engine.dispose()
    assert values["epsilon"] == ("0.5", "connect()")
    assert values["k_bar"] == ("70", "connect()")
    assert values["max_groups_contributed"] == ("unlimited", "connect()")
    assert values["delta"] == ("1e-09", "connect()")
    assert values["max_rows_contributed"] == ("50", "policy")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda url: url.replace("dpsql:////", "dpsql://host/"), sa.exc.ArgumentError),
        (lambda url: url.replace("dpsql:////", "dpsql://ana@/"), sa.exc.ArgumentError),
        (lambda url: url + "&analyst=bob", sa.exc.ArgumentError),
        (lambda url: url + "&epsilom=0.5", dpsql.ParameterError),
        (lambda url: url + "&progress=print", dpsql.ParameterError),
        (lambda url: url + "&epsilon=much", sa.exc.ProgrammingError),
        (lambda url: url.replace("analyst=ana", "analyst=eve"), sa.exc.ProgrammingError),
        (lambda url: url.replace("clinic.duckdb", "nothing.duckdb"), sa.exc.InterfaceError),
    ],
)
def test_an_address_that_is_wrong_is_refused(
    clinic: Path, change: Callable[[str], str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        sa.create_engine(change(address(clinic))).connect()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda url: re.sub("&analyst=ana", "", url), r"add \?analyst=NAME"),
        (lambda url: url.replace("analyst=ana", "analyst="), r"add \?analyst=NAME"),
        (lambda url: url.replace("?policies=", "?policy="), "Did you mean `policies`"),
        (lambda url: url.replace("analyst=", "analist="), "Did you mean `analyst`"),
        (lambda url: url + "&epsilom=0.5", "Did you mean `epsilon`"),
        (lambda url: url + "&qqq=0.5", "One of: policies, ledger, analyst, "),
    ],
)
def test_a_wrong_address_is_told_what_to_write(
    clinic: Path, change: Callable[[str], str], told: str
) -> None:
    wrong = change(address(clinic))
    assert wrong != address(clinic)
    with pytest.raises((sa.exc.ArgumentError, dpsql.ParameterError), match=told):
        sa.create_engine(wrong).connect()


def test_an_engine_of_tables_in_memory_can_be_given(tmp_path: Path) -> None:
    tables = dpsql.DuckDBEngine()
    visits = {"patient_id": [1, 2], "ward": ["eyes", "ears"], "cost": [1.0, 2.0]}
    tables.register("Visits", pa.table(visits))
    tables.register("wards", pa.table({"ward": ["eyes"]}))
    (tmp_path / "policies.yaml").write_text(POLICIES, encoding="utf-8")
    engine = sa.create_engine(
        f"dpsql://?policies={tmp_path / 'policies.yaml'}&ledger={tmp_path / 'b.db'}&analyst=ana",
        connect_args={"database": tables},
    )
    assert sa.inspect(engine).get_table_names() == ["Visits", "wards"]
    engine.dispose()


def test_a_pool_tests_its_connections_without_cost(clinic: Path) -> None:
    engine = sa.create_engine(address(clinic), pool_pre_ping=True, pool_size=1)
    for _ in range(2):
        with engine.connect() as connection:
            before = driver(connection).budget()
    assert before.queries == connection_budget(engine)
    engine.dispose()


def test_what_set_has_set_ends_with_the_loan_of_a_connection(clinic: Path) -> None:
    engine = sa.create_engine(address(clinic, "&epsilon=0.5"), pool_size=1, max_overflow=0)
    with engine.connect() as connection:
        lent = connection.connection.driver_connection
        connection.exec_driver_sql("SET epsilon = 4")
        connection.exec_driver_sql("SET k_bar = 7")
        connection.commit()
        assert parameter(connection, "epsilon") == ("4.0", "SET")
        connection.rollback()
        assert parameter(connection, "k_bar") == ("7", "SET")
    with engine.connect() as connection:
        assert connection.connection.driver_connection is lent
        assert parameter(connection, "epsilon") == ("0.5", "connect()")
        assert parameter(connection, "k_bar")[1] == "policy"
    engine.dispose()


def test_a_pool_replaces_a_connection_that_somebody_closed(clinic: Path) -> None:
    engine = sa.create_engine(address(clinic), pool_pre_ping=True, pool_size=1)
    with engine.connect() as connection:
        closed = driver(connection)
    closed.close()
    with engine.connect() as connection:
        assert connection.connection.driver_connection is not closed
        assert parameter(connection, "epsilon")
    engine.dispose()


def parameter(connection: sa.Connection, name: str) -> tuple[str, str]:
    shown = connection.exec_driver_sql("SHOW PARAMETERS").all()
    return {row.parameter: (row.value, row.source) for row in shown}[name]


def driver(connection: sa.Connection) -> dpsql.Connection:
    """What SQLAlchemy has wrapped."""
    found = connection.connection.driver_connection
    assert isinstance(found, dbapi.Connection)
    return found


def connection_budget(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return driver(connection).budget().queries


# -- reflection -----------------------------------------------------------------------------------


def test_only_the_tables_of_the_policy_exist(engine: sa.Engine) -> None:
    found = sa.inspect(engine)
    assert found.get_schema_names() == ["main"]
    assert found.default_schema_name == "main"
    assert found.get_table_names() == found.get_table_names("main") == ["Visits", "wards"]
    assert found.get_table_names("other") == found.get_view_names() == []
    assert found.has_table("visits")
    assert found.has_table("Visits", schema="main")
    assert not found.has_table("secret")
    assert not found.has_table("Visits", schema="other")
    for ask in (found.get_columns, found.get_indexes, found.get_pk_constraint):
        with pytest.raises(sa.exc.NoSuchTableError):
            ask("secret")


def test_columns_have_their_types_and_say_what_the_policy_declares(engine: sa.Engine) -> None:
    found = sa.inspect(engine)
    columns = {c["name"]: c for c in found.get_columns("Visits")}
    assert list(columns) == ["patient_id", "ward", "cost", "day", "select", "paid", "moment"]
    assert columns["patient_id"]["comment"] == "privacy unit: patient"
    assert columns["cost"]["comment"] == "private, from 0 to 500"
    assert columns["ward"]["comment"] == "private, one of 'eyes', 'ears', 'heart'"
    assert all(c["nullable"] for c in columns.values())
    assert found.get_table_comment("Visits") == {"text": "private, privacy unit: patient"}
    assert found.get_table_comment("wards") == {"text": "public"}
    assert found.get_pk_constraint("Visits") == {"constrained_columns": [], "name": None}
    for nothing in (found.get_foreign_keys, found.get_indexes):
        assert nothing("Visits") == []
    assert found.get_unique_constraints("wards") == []
    assert found.get_check_constraints("wards") == []


def test_types_come_from_the_catalog(visits: sa.Table, wards: sa.Table) -> None:
    kinds = {c.name: type(c.type) for c in (*visits.columns, *wards.columns)}
    assert kinds == {
        "patient_id": sa.BigInteger,
        "ward": sa.String,
        "cost": sa.Double,
        "day": sa.Date,
        "select": sa.Integer,
        "paid": sa.Boolean,
        "moment": sa.DateTime,
        "beds": sa.SmallInteger,
        "rate": sa.Numeric,
        "plan": sa.Uuid,
        "tags": sa.types.NullType,
        "opened": sa.DateTime,
        "closes": sa.Time,
        "kind": sa.String,
        "photo": sa.LargeBinary,
        "small": sa.REAL,
        "huge": sa.BigInteger,
        "stay": sa.types.NullType,
        "exact": sa.DateTime,
    }
    rate, opened, moment = wards.c.rate.type, wards.c.opened.type, visits.c.moment.type
    assert isinstance(rate, sa.Numeric)
    assert isinstance(opened, sa.DateTime)
    assert isinstance(moment, sa.DateTime)
    assert (rate.precision, rate.scale) == (9, 2)
    assert opened.timezone
    assert not moment.timezone


def test_all_tables_can_be_reflected_at_once(engine: sa.Engine) -> None:
    before = connection_budget(engine)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    assert sorted(metadata.tables) == ["Visits", "wards"]
    assert connection_budget(engine) == before


# -- statements -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_noise")
def test_core_groups_orders_and_limits(engine: sa.Engine, visits: sa.Table) -> None:
    patients = sa.func.count(visits.c.patient_id.distinct()).label("patients")
    grouped = sa.select(visits.c.ward, patients, sa.func.count()).group_by(visits.c.ward)
    ordered = grouped.order_by(visits.c.ward.desc())
    every = [("heart", 100, 300), ("eyes", 100, 300), ("ears", 100, 300)]
    assert rows(engine, ordered) == every
    assert rows(engine, ordered.limit(2)) == every[:2]
    assert rows(engine, ordered.limit(2).offset(1)) == every[1:]
    assert rows(engine, ordered.offset(1)) == every[1:]
    assert rows(engine, ordered.where(visits.c.cost < 100, visits.c.ward != "ears")) == [
        ("heart", 100, 100),
        ("eyes", 100, 100),
    ]


@pytest.mark.usefixtures("no_noise")
def test_the_same_statement_with_other_values_is_another_question(
    engine: sa.Engine, visits: sa.Table
) -> None:
    for part in (0, 1):
        chosen = sa.select(sa.func.count()).where(visits.c.select == part)
        assert rows(engine, chosen) == [(225,)]
        assert rows(engine, chosen.where(visits.c.patient_id < 10 * (part + 1))) == [
            (len([i for i in range(900) if i % 4 == part and i % 300 < 10 * (part + 1)]),)
        ]


@pytest.mark.usefixtures("no_noise")
def test_text_takes_named_values(engine: sa.Engine) -> None:
    statement = sa.text('SELECT COUNT(*) AS n FROM visits WHERE ward = :ward AND "select" < :most')
    assert rows(engine, statement, ward="eyes", most=2) == [(150,)]
    wanted = len([i for i in range(900) if i % 3 == 0 and i % 4 < 3])
    assert rows(engine, statement, ward="eyes", most=3) == [(wanted,)]


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_expressions_are_written_as_duckdb_reads_them(
    engine: sa.Engine, visits: sa.Table, wards: sa.Table
) -> None:
    def count(*conditions: sa.ColumnElement[bool]) -> object:
        ((n,),) = rows(engine, sa.select(sa.func.count()).select_from(visits).where(*conditions))
        return n

    v = visits.c
    assert count(v.ward.in_(["eyes", "ears"])) == 600
    assert count(v.ward.in_([])) == 0
    assert count(v.ward.not_in([])) == 900
    assert count(v.ward.startswith("e")) == 600
    assert count(v.ward.ilike("E%")) == 600
    assert count(v.day == datetime.date(2024, 1, 2)) == 90
    assert count(v.moment >= datetime.datetime(2024, 1, 1, 0, 0, 1)) == 0
    assert count(v.paid.is_(True), v.cost.between(0, 9)) == 15
    assert count(sa.not_(v.paid)) == 450
    assert count(sa.extract("day", v.day) == 3) == 90
    assert count(v.select / 2 == 0.5) == 225
    assert count(v.select // 2 == 1) == 450
    assert count(v.select % 2 == 1) == 450
    assert count(sa.cast(v.select, sa.Float) / 4 == 0.25) == 225
    assert count(sa.cast(v.day, sa.DateTime) < sa.cast("2024-01-02", sa.DateTime)) == 90
    assert count(sa.cast(v.select, sa.String) + "x" == "1x") == 225
    assert count(sa.cast(v.cost, sa.Double) < 1, sa.cast(v.cost, sa.Numeric(9, 2)) < 1) == 3
    assert count(v.ward == sa.literal("it's")) == 0
    bands = sa.case((v.cost < 200, "low"), else_="high")
    assert sorted(rows(engine, sa.select(bands, sa.func.count()).group_by(bands))) == [
        ("high", 400),
        ("low", 500),
    ]


@pytest.mark.usefixtures("no_noise")
def test_subqueries_and_joins_with_public_tables(
    engine: sa.Engine, visits: sa.Table, wards: sa.Table
) -> None:
    counted = (
        sa.select(visits.c.ward, sa.func.count().label("n")).group_by(visits.c.ward).cte("counted")
    )
    joined = (
        sa.select(wards.c.ward, wards.c.beds, wards.c.rate, counted.c.n)
        .join(counted, counted.c.ward == wards.c.ward)
        .order_by(wards.c.beds)
    )
    assert rows(engine, joined) == [
        ("eyes", 10, Decimal("1.25"), 300),
        ("ears", 20, Decimal("2.50"), 300),
    ]
    assert isinstance(counted.element, sa.Select)
    inner = counted.element.subquery("s")
    assert rows(engine, sa.select(sa.func.max(inner.c.n))) == [(300,)]


def test_one_statement_can_have_privacy_parameters_of_its_own(
    engine: sa.Engine, visits: sa.Table
) -> None:
    statement = sa.select(sa.func.count()).select_from(visits)
    with engine.connect() as connection:
        for epsilon in (0.25, 0.5):
            asked = statement.execution_options(dpsql={"epsilon": epsilon})
            cursor = connection.execute(asked).context.cursor
            assert cursor.cost.settled_epsilon == pytest.approx(epsilon, rel=0.1)
            assert cursor.intervals()
        with pytest.raises(sa.exc.ProgrammingError):
            connection.execute(statement.execution_options(dpsql={"epsilon": -1}))


@pytest.mark.parametrize(
    "options",
    [
        *(7, None, "epsilon", ["epsilon"], [("epsilon", 1)], object()),
        *({1: 1}, {"query": "SELECT 1"}, {"operation": "x"}, {"parameters": ()}, {"self": 1}),
        *({"epsilom": 1}, {"epsilon": object()}, {"fresh": "yes"}, {"mechanism": 7}),
        {f"a{i}": i for i in range(100)},
    ],
)
def test_odd_options_of_a_statement_are_refused_with_an_error_of_ours(
    engine: sa.Engine, options: object
) -> None:
    statement = sa.text("SELECT count(*) FROM visits").execution_options(dpsql=options)
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError) as refused:
        connection.execute(statement)
    assert isinstance(refused.value.orig, dpsql.Error)


@pytest.mark.slow
def test_every_name_survives_quoting(tmp_path: Path) -> None:
    """Every keyword of DuckDB can name a column, however SQLAlchemy spells it."""
    found = duckdb.sql("SELECT DISTINCT keyword_name FROM duckdb_keywords() ORDER BY ALL")
    words = [word for (word,) in present(found).fetchall()]
    words += ['a"b', "a b", "Ünï", "MiXed", "percent%", "colon:a", "?"]
    tables = dpsql.DuckDBEngine()
    tables.register("Visits", pa.table({"patient_id": [1], "ward": ["eyes"], "cost": [1.0]}))
    tables.register("wards", pa.table({word: [0] for word in words}))
    (tmp_path / "policies.yaml").write_text(POLICIES, encoding="utf-8")
    engine = sa.create_engine(
        f"dpsql://?policies={tmp_path / 'policies.yaml'}&ledger={tmp_path / 'b.db'}&analyst=ana",
        connect_args={"database": tables},
    )
    table = sa.Table("wards", sa.MetaData(), autoload_with=engine)
    assert [column.name for column in table.columns] == words
    visits = sa.select(sa.func.count().label("n")).select_from(sa.table("Visits")).subquery()
    joined = sa.join(visits, table, sa.true())
    with engine.connect() as connection:
        for first in range(0, len(words), 200):  # a query has fewer columns than DuckDB has words
            some = list(table.columns)[first : first + 200]
            answer = connection.execute(sa.select(*some).select_from(joined))
            assert list(answer.keys()) == words[first : first + 200]
            assert set(answer.one()) == {0}
    engine.dispose()


# -- several schemas ------------------------------------------------------------------------------

SEVERAL = """\
version: 1
dataset: several
defaults: {epsilon: 20.0, delta: 1.0e-9, max_rows_contributed: 1}
accounts: {ana: {epsilon: 1000, delta: 0.4}}
tables:
  fact: {privacy_unit: {name: person, column: uid}}
  mart.fact: {privacy_unit: {name: person, column: uid}}
  '"mart.fact"': {privacy_unit: {name: person, column: uid}}
  '"My Schema"."a.b"': {public: true}
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sa.Engine]:
    place = tmp_path_factory.mktemp("several")
    with duckdb.connect(str(place / "shop.duckdb")) as owner:
        owner.execute('CREATE SCHEMA mart; CREATE SCHEMA "My Schema"; CREATE SCHEMA hidden')
        for rows_, name in ((1000, "fact"), (3000, "mart.fact"), (9000, '"mart.fact"')):
            owner.execute(
                f"CREATE TABLE {name} AS "
                f"SELECT i AS uid, i % 3 AS k_{rows_} FROM range({rows_}) t(i)"
            )
        owner.execute('CREATE TABLE "My Schema"."a.b" AS SELECT \'x\' AS label')
        owner.execute("CREATE TABLE hidden.secret AS SELECT 1 AS uid")
    (place / "policies.yaml").write_text(SEVERAL, encoding="utf-8")
    made = sa.create_engine(
        f"dpsql:///{place / 'shop.duckdb'}?policies={place / 'policies.yaml'}"
        f"&ledger={place / 'b.db'}&analyst=ana"
    )
    yield made
    made.dispose()


def test_schemas_are_those_of_the_policy(several: sa.Engine) -> None:
    found = sa.inspect(several)
    assert found.get_schema_names() == ["main", "My Schema", "mart"]
    assert sorted(found.get_table_names()) == ["fact", "mart.fact"]
    assert (
        found.get_table_names() == found.get_table_names("MAIN") == found.get_table_names("public")
    )
    assert found.get_table_names("mart") == ["fact"]
    assert found.get_table_names("My Schema") == ["a.b"]
    assert found.get_table_names("hidden") == found.get_table_names("other") == []
    assert found.has_table("fact", schema="mart")
    assert found.has_table("a.b", schema="my schema")
    assert found.has_table("mart.fact")
    assert not found.has_table("mart.fact", schema="mart")
    assert not found.has_table("secret", schema="hidden")
    for schema, column in ((None, "k_1000"), ("main", "k_1000"), ("mart", "k_3000")):
        assert [c["name"] for c in found.get_columns("fact", schema)] == ["uid", column]
    assert [c["name"] for c in found.get_columns("mart.fact")] == ["uid", "k_9000"]
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("a.b", "mart")


@pytest.mark.parametrize(
    ("name", "schema", "rows_"),
    [
        ("fact", None, 1000),
        ("fact", "main", 1000),
        ("fact", "public", 1000),
        ("fact", "mart", 3000),
        ("mart.fact", None, 9000),
        ("mart.fact", "main", 9000),
    ],
)
def test_statements_read_the_table_of_their_schema(
    several: sa.Engine, name: str, schema: str | None, rows_: int
) -> None:
    table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=several)
    key = table.c[f"k_{rows_}"]
    counted = sa.select(key, sa.func.count().label("n")).where(table.c.uid >= 0).group_by(key)
    found = rows(several, counted.order_by(key))
    assert [row[0] for row in found] == [0, 1, 2]
    assert sum(float(str(row[1])) for row in found) == pytest.approx(rows_, abs=300)
    inner = counted.subquery()
    assert len(rows(several, sa.select(inner.c.n).order_by(inner.c.n))) == 3


def test_tables_of_two_schemas_are_joined(several: sa.Engine) -> None:
    one = sa.Table("fact", sa.MetaData(), autoload_with=several, schema="main")
    other = sa.Table("fact", sa.MetaData(), autoload_with=several, schema="mart")
    joined = sa.select(sa.func.count(other.c.k_3000)).select_from(
        sa.join(one, other, one.c.uid == other.c.uid)
    )
    ((found,),) = rows(several, joined)
    assert float(str(found)) == pytest.approx(1000, abs=200)


# -- refusals -------------------------------------------------------------------------------------


def test_nothing_can_be_created_or_changed(engine: sa.Engine, visits: sa.Table) -> None:
    before = connection_budget(engine)
    new = sa.Table("new", sa.MetaData(), sa.Column("a", sa.Integer))
    statements: list[sa.Executable] = [
        sa.insert(visits).values(patient_id=1),
        sa.update(visits).values(patient_id=1),
        sa.delete(visits),
        sa.schema.CreateTable(new),
        sa.schema.DropTable(visits),
        sa.text("INSERT INTO visits SELECT * FROM visits"),
        sa.select(visits),
    ]
    with engine.connect() as connection:
        for statement in statements:
            with pytest.raises(sa.exc.NotSupportedError):
                connection.execute(statement)
        with pytest.raises(sa.exc.NotSupportedError, match="pay for every answer"):
            connection.execute(
                sa.text("SELECT COUNT(*) FROM visits WHERE cost > :c"), [{"c": 1}, {"c": 2}]
            )
    with pytest.raises(sa.exc.NotSupportedError):
        new.create(engine)
    with pytest.raises(sa.exc.NotSupportedError):
        pandas.DataFrame({"a": [1]}).to_sql("new", engine)
    assert connection_budget(engine) == before


def test_errors_are_those_of_sqlalchemy_with_ours_inside(clinic: Path) -> None:
    engine = sa.create_engine(address(clinic).replace("budget.db", "spent.db"))
    with engine.connect() as connection:
        with pytest.raises(sa.exc.ProgrammingError) as unknown:
            connection.execute(sa.text("SELECT COUNT(*) FROM secret"))
        assert isinstance(unknown.value.orig, dpsql.UnknownName)
        counted = sa.text("SELECT COUNT(*) FROM visits")
        expensive = counted.execution_options(dpsql={"epsilon": 900, "fresh": True})
        connection.execute(expensive)
        with pytest.raises(sa.exc.OperationalError) as refused:
            connection.execute(expensive)
        assert isinstance(refused.value.orig, dpsql.BudgetExceeded)
    engine.dispose()


# -- data frames ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_pandas_reads_through_an_engine_without_warnings(clinic: Path, visits: sa.Table) -> None:
    engine = sa.create_engine(address(clinic).replace("budget.db", "pandas.db"))
    grouped = sa.select(visits.c.ward, sa.func.count().label("n")).group_by(visits.c.ward)
    text = sa.text("SELECT day, AVG(cost) AS cost FROM visits WHERE ward = :w GROUP BY day")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dpsql.AnswerWarning)
        frame = pandas.read_sql(grouped.order_by(visits.c.ward), engine)
        means = pandas.read_sql(text, engine, params={"w": "eyes"}, index_col="day")
    assert frame.to_dict("list") == {"ward": ["ears", "eyes", "heart"], "n": [300, 300, 300]}
    assert len(means) == 10
    assert means["cost"].dtype == "float64"
    engine.dispose()


@pytest.mark.usefixtures("no_noise")
def test_polars_reads_through_an_engine(clinic: Path) -> None:
    engine = sa.create_engine(address(clinic).replace("budget.db", "polars.db"))
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward"
    frame = polars.read_database(sql, engine)
    assert frame.rows() == [("ears", 300), ("eyes", 300), ("heart", 300)]
    engine.dispose()
