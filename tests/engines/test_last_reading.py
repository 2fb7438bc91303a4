"""The last reading: nothing is sent to rows whose plan is not what dpsql sends."""

from __future__ import annotations

import ast
import inspect
import runpy
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers.attacks import ANSWERS, ATTACKS
from helpers.failures import fails_with
from helpers.installed_duckdb import IS_DUCKDB_1, since_2_0
from helpers.sql_text import generated, text
from helpers.support import FILL, connect, listed_engine

from dpsql.core.sql import Sql
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import Reads
from dpsql.engines.duckdb import engine as door
from dpsql.engines.duckdb import reading as duckdb_reading
from dpsql.engines.duckdb.engine import DuckDBEngine, OpenDuckDB
from dpsql.engines.duckdb.forms import CONDITIONS, ELEMENTS, EXPRESSIONS, OPERATORS, Form
from dpsql.engines.duckdb.plan import FORMS, Forms, UnknownPart, read_by_forms
from dpsql.engines.duckdb.reading import KnownStatements, LastReading
from dpsql.engines.duckdb.shapes import shape
from dpsql.engines.embedded.plans import Plan, nodes, plan_of
from dpsql.errors import EngineError, Error
from dpsql.survey.totality import _forms as surveyed


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests have had statements read in this process."""
    monkeypatch.setattr(duckdb_reading, "KNOWN", KnownStatements())


VISITS = Reads((TableName("visits"),))
SENT = "SELECT row_number() OVER () AS __dpsql_rid, k, count(*) AS m FROM visits GROUP BY k"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[OpenDuckDB]:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE visits AS SELECT range AS uid, range % 3 AS k FROM range(60)")
        writer.execute("CREATE TABLE secret AS SELECT range AS uid, 'p' AS k FROM range(9)")
        writer.execute("CREATE VIEW seen AS SELECT v.* FROM visits v JOIN secret USING (uid)")
        writer.execute("CREATE MACRO counted(x) AS 7")
        writer.execute("CREATE MACRO count(x) AS 7")
        writer.execute("CREATE SCHEMA s")
        writer.execute("CREATE TABLE s.visits AS SELECT 1 AS uid, 'a' AS k")
    engine = DuckDBEngine(path)
    opened = listed_engine(engine)
    assert isinstance(opened, OpenDuckDB)
    yield opened
    engine.close()


def sent(engine: OpenDuckDB, sql: str, reads: Reads = VISITS) -> None:
    """Send a statement, as questions are."""
    with engine.run() as run:
        run.over(reads).pairs(generated(sql))


@pytest.mark.slow
def test_what_dpsql_sends_is_sent(engine: OpenDuckDB) -> None:
    sent(engine, SENT)
    sent(engine, "SELECT uid FROM seen", Reads((TableName("seen"),)))


PLANTED = {
    "a second scan": f"{SENT} HAVING count(*) > (SELECT min(uid) FROM visits)",
    "a second scan beside": "SELECT a.k FROM visits a JOIN visits b USING (uid)",
    "a union with itself": "SELECT uid FROM visits UNION ALL SELECT uid FROM visits",
    "a foreign table": "SELECT k FROM secret",
    "a foreign table beside": "SELECT v.k FROM visits v JOIN secret s USING (uid)",
    "a table of that name elsewhere": "SELECT k FROM s.visits",
    "a view for its table": "SELECT k FROM seen",
    "the owner's catalog": "SELECT k FROM __dpsql_data.main.visits",
    "the owner's catalog beside": "SELECT 1 FROM visits, __dpsql_data.main.secret",
    "a macro of the owner's": "SELECT __dpsql_data.main.counted(k) FROM visits",
    "a table function": "SELECT * FROM visits, duckdb_tables()",
    "a table function alone": "SELECT * FROM duckdb_settings()",
    "a file": "SELECT * FROM read_text('/etc/passwd')",
    "lateral numbers": "SELECT n FROM visits, range(k) AS r(n)",
    "numbers of rows": "SELECT n FROM visits, range((SELECT max(uid) FROM visits)) AS r(n)",
    "chance": "SELECT random() FROM visits",
    "an error": "SELECT error(k::VARCHAR) FROM visits",
    "the clock": "SELECT now() FROM visits",
    "a setting": "SELECT current_setting('threads') FROM visits",
    "a list of all rows": "SELECT list(k ORDER BY uid) FROM visits",
    "an aggregate of no noise": "SELECT quantile_cont(k, 0.5) FROM visits",
    "a lambda": "SELECT list_transform([k], lambda x: x + 1) FROM visits",
    "a lambda within a key": "SELECT list_transform([k], lambda x: [x]) FROM visits",
    "the first row": "SELECT first(k) FROM visits",
    "the share of rows before": "SELECT percent_rank() OVER (ORDER BY uid) FROM visits",
    "a sample": "SELECT * FROM visits USING SAMPLE 50%",
    "a limit by rows": "SELECT * FROM visits LIMIT (SELECT max(k) FROM visits)",
    "a limit in percent": "SELECT * FROM visits LIMIT 10%",
    "an offset": "SELECT * FROM visits LIMIT 1 OFFSET 3",
    "a correlated subquery": "SELECT (SELECT min(v.k)) FROM visits v",
    "a part of the rows": "SELECT ntile(2) OVER (ORDER BY uid) FROM visits",
    "a window of so many rows": "SELECT sum(k) OVER (ORDER BY uid ROWS k PRECEDING) FROM visits",
    "a window of integers some way off": "SELECT sum(k) OVER (ORDER BY uid RANGE 1 PRECEDING) "
    "FROM visits",
    "a window without the row": "SELECT sum(k) OVER (ORDER BY uid ROWS BETWEEN 1 PRECEDING AND "
    "CURRENT ROW EXCLUDE CURRENT ROW) FROM visits",
    "several groupings": "SELECT k FROM visits GROUP BY GROUPING SETS ((k), ())",
    "one row of each": "SELECT DISTINCT ON (k) uid FROM visits",
    "a filter in an aggregate": "SELECT count(*) FILTER (k > 1) FROM visits",
    "a full join": "SELECT 1 FROM visits a FULL JOIN (SELECT 1 AS uid) b USING (uid)",
    "rows by their position": "SELECT 1 FROM visits POSITIONAL JOIN (SELECT 1) b",
    "a cast to another type": "SELECT CAST([k] AS INTEGER[]) FROM visits",
    "a text as a nested value": "SELECT CAST(k::VARCHAR AS INTEGER[]) FROM visits",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) "
    "SELECT n FROM r",
    "rows of its own": "VALUES (1)",
    "another statement": "CREATE TABLE x AS SELECT 1",
    "two statements": f"{SENT}; {SENT}",
    "no statement": "SELECT FROM WHERE",
}


@pytest.mark.parametrize("sql", PLANTED.values(), ids=PLANTED)
def test_what_dpsql_does_not_send_is_not_sent(sql: str, engine: OpenDuckDB) -> None:
    with pytest.raises(EngineError) as caught:
        sent(engine, sql)
    assert caught.value.reason == EngineError.FIXED_REASON
    assert caught.value.__context__ is None
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        scratch.store("__dpsql_stage", generated("SELECT uid, k FROM visits"))
        for way in (scratch.pairs, scratch.integers, lambda text: scratch.store("x", text)):
            with pytest.raises(EngineError):
                way(generated(sql))
        with pytest.raises(EngineError):
            scratch.exact(generated(sql), (), ["m"])


def test_a_table_is_known_by_its_schema(engine: OpenDuckDB) -> None:
    there = Reads((TableName("visits", "s"),))
    sent(engine, "SELECT k FROM s.visits", there)
    with pytest.raises(EngineError):
        sent(engine, SENT, there)


def test_tables_are_scanned_as_often_as_predicted(engine: OpenDuckDB) -> None:
    twice = Reads((TableName("visits"),) * 2)
    sent(engine, PLANTED["a second scan beside"], twice)
    with pytest.raises(EngineError):
        sent(engine, SENT, twice)


@pytest.mark.slow
def test_stored_tables_are_those_of_the_same_question(engine: OpenDuckDB) -> None:
    with engine.run() as run, run.over(VISITS).scratch() as one:
        one.store("__dpsql_stage", generated("SELECT uid, k FROM visits"))
        one.pairs(generated("SELECT a.k FROM __dpsql_stage a JOIN __dpsql_stage b USING (uid)"))
        with engine.run() as other, pytest.raises(EngineError):
            other.over(VISITS).pairs(generated("SELECT k FROM __dpsql_stage"))
        one.drop("__dpsql_stage")
        with pytest.raises(EngineError):
            one.pairs(generated("SELECT k FROM __dpsql_stage"))
    with engine.run() as run, run.over(VISITS).scratch() as one:  # all of which is known
        one.store("__dpsql_stage", generated("SELECT uid, k FROM visits"))
        one.store("__dpsql_next", generated("SELECT k FROM __dpsql_stage"))
        one.drop("__dpsql_stage")
        (found,) = one.integers(generated("SELECT count(*) FROM __dpsql_next"))
        assert found.tolist() == [60]


def test_a_stored_table_that_is_called_like_a_listed_one_is_none(engine: OpenDuckDB) -> None:
    with engine.run() as run, run.over(VISITS).scratch() as one:
        one.store("visits", generated("SELECT uid, k FROM visits WHERE k = 1"))
        (found,) = one.integers(generated("SELECT count(*) FROM visits"))
        assert found.tolist() == [20]


# -- what is remembered ---------------------------------------------------------------------------


def test_a_statement_is_bound_once_whatever_its_salt(
    engine: OpenDuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[str] = []
    real = LastReading._plan

    def noted(self: LastReading, connection: Any, statement: Sql) -> Any:
        bound.append(text(statement))
        return real(self, connection, statement)

    monkeypatch.setattr(LastReading, "_plan", noted)
    salted = "SELECT hash(hash({}, uid)) AS h FROM visits"
    for salt in (2**61, 2**61 + 5, 2**62 - 1):
        sent(engine, salted.format(salt), Reads(VISITS.tables, salt))
    assert len(bound) == 1
    with pytest.raises(EngineError):
        sent(engine, "SELECT hash(random()) AS h FROM visits", Reads(VISITS.tables, 2**61))
    before = engine.last_reading.count
    sent(engine, SENT)
    sent(engine, SENT)
    assert engine.last_reading.count == before + 2
    # What is known over some tables is not known over others.
    with pytest.raises(EngineError):
        sent(engine, SENT, Reads((TableName("secret"),)))


@pytest.mark.slow
def test_statements_of_one_shape_are_bound_once_and_others_each(
    engine: OpenDuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[str] = []
    real = LastReading._plan

    def noted(self: LastReading, connection: Any, statement: Sql) -> Any:
        bound.append(text(statement))
        return real(self, connection, statement)

    monkeypatch.setattr(LastReading, "_plan", noted)
    asked = "SELECT uid FROM visits WHERE k > {} AND CAST(k AS VARCHAR) <> {}"
    sent(engine, asked.format(1, "'a'"))
    sent(engine, asked.format(7, "'it''s -- é'"))
    assert len(bound) == 1
    # Of another type, or more than a constant: read, and what is not dpsql's is not sent.
    sent(engine, asked.format(17, "'a'"))
    sent(engine, asked.format("1.5", "'a'"))
    assert len(bound) == 3
    for forged in ("'a' OR random() > 0.5", "'' || version()", "'a' -- '", "error('a')"):
        before = len(bound)
        with suppress(EngineError):
            sent(engine, asked.format(1, forged))
        assert len(bound) == before + 1
    # Statements over stored tables are known by the columns of these.
    for condition in ("k = 1", "uid < 5"):
        with engine.run() as run, run.over(VISITS).scratch() as scratch:
            scratch.store("__dpsql_stage", generated(f"SELECT k FROM visits WHERE {condition}"))
            scratch.integers(generated("SELECT count(*) FROM __dpsql_stage"))
    assert bound.count("SELECT count(*) FROM __dpsql_stage") == 1
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        scratch.store("__dpsql_stage", generated("SELECT k::VARCHAR AS k FROM visits"))
        scratch.integers(generated("SELECT count(*) FROM __dpsql_stage"))
    assert bound.count("SELECT count(*) FROM __dpsql_stage") == 2
    # Those of others that are stored beside it have no part in it.
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        scratch.store("__dpsql_stage", generated("SELECT k FROM visits WHERE uid > 5"))
        scratch.store("__dpsql_other", generated("SELECT uid FROM visits"))
        scratch.integers(generated("SELECT count(*) FROM __dpsql_stage"))
    assert bound.count("SELECT count(*) FROM __dpsql_stage") == 2
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        scratch.store("__dpsql_stage", generated("SELECT uid FROM visits"))
        scratch.integers(generated("SELECT count(*) FROM __DPSQL_STAGE"))
        scratch.drop("__dpsql_stage")
        scratch.store("__dpsql_stage", generated("SELECT k::VARCHAR AS k FROM visits"))
        scratch.integers(generated("SELECT count(*) FROM __DPSQL_STAGE"))
    assert bound.count("SELECT count(*) FROM __DPSQL_STAGE") == 2  # names have no case


@pytest.mark.parametrize("stored_anew", [False, True])
def test_a_stored_table_is_there_as_long_as_it_is_stored(
    engine: OpenDuckDB, stored_anew: bool
) -> None:
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        scratch.store("__dpsql_first", generated("SELECT k FROM visits"))
        scratch.store("__dpsql_other", generated("SELECT k FROM __dpsql_first"))
        scratch.drop("__dpsql_first")
        if stored_anew:
            scratch.store("__dpsql_first", generated("SELECT uid FROM visits"))
        scratch.integers(generated("SELECT count(*) FROM __dpsql_other WHERE k > 17"))
        with pytest.raises(EngineError):
            scratch.integers(generated("SELECT count(*) FROM __dpsql_first WHERE k > 17"))


def test_the_columns_of_a_stored_table_are_known_whatever_is_scanned_beside(
    engine: OpenDuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "SELECT 1 AS __dpsql_rid, 0.5 AS k"
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        scratch.store("__dpsql_first", generated(made))

    def unbound(*_: object) -> None:
        raise AssertionError("it was read before")

    monkeypatch.setattr(duckdb_reading, "relation", unbound)
    with engine.run() as run, run.over(Reads((TableName("seen"),))).scratch() as scratch:
        scratch.store("__dpsql_first", generated(made))
        scratch.integers(generated("SELECT __dpsql_rid FROM __dpsql_first"))


def test_readings_share_a_connection_and_no_stored_table(
    engine: OpenDuckDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[duckdb.DuckDBPyConnection] = []
    cursor = engine.last_reading._cursor

    def noted() -> duckdb.DuckDBPyConnection:
        opened.append(cursor())
        return opened[-1]

    monkeypatch.setattr(engine.last_reading, "_cursor", noted)
    count = "SELECT count(*) FROM __dpsql_stage WHERE {} IS NULL"
    with engine.run() as run:
        for column in ("k", "uid"):
            with run.over(VISITS).scratch() as scratch:
                scratch.store("__dpsql_stage", generated(f"SELECT {column} FROM visits"))
                scratch.integers(generated(count.format(column)))
        assert len(opened) == 1
        with run.over(VISITS).scratch() as scratch:
            with pytest.raises(EngineError):
                scratch.integers(generated(count.format("uid") + " AND TRUE"))
            scratch.store("__dpsql_stage", generated("SELECT uid AS n FROM visits"))
            scratch.integers(generated(count.format("n")))
        assert len(opened) == 2  # what it has after an error nobody knows
    for connection in opened[1:]:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    engine.close()
    with pytest.raises(duckdb.Error):
        opened[1].execute("SELECT 1")


TYPES_OF_KEYS = [
    *("BOOLEAN", "VARCHAR", "BLOB", "BIT", "UUID", "HUGEINT", "DOUBLE", "INTERVAL", "TIME"),
    *("DECIMAL(7,3)", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "ENUM('a', 'b''c')"),
    *("BIGINT[][3]", 'STRUCT(a INTEGER, "b c" DATE[])', "MAP(VARCHAR, UUID)"),
    "UNION(a INTEGER, b DATE)",
]


@pytest.mark.parametrize("type_", TYPES_OF_KEYS)
def test_a_plan_tells_the_columns_that_the_engine_binds(type_: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (x {type_})")
        asked = 'SELECT x AS k, count(*) AS "m n", 1 AS one, 0.5 AS half FROM t GROUP BY x'
        plan = plan_of(connection, generated(asked))
        assert plan is not None
        told = read_by_forms(plan.root, FORMS).columns()
        if told is None:
            assert type_.startswith("UNION")
            return
        listed = ", ".join(f'"{name}" {kind}' for name, kind in told)
        connection.execute(f"CREATE TABLE u ({listed})")
        bound, made = connection.sql(asked), connection.sql("FROM u")
        assert (made.columns, made.types) == (bound.columns, bound.types)


SHAPES = {
    "k > 5": "k > 9",
    "k > 51 OR 3 < k": "k > 99 OR 3 < k",
    # Another digit for each type of integers that does not hold it.
    "k > 100": "k > 999",
    "k > 200": "k > 888",  # beside a TINYINT the column is cast
    "k = 1234567890": "k = 5555555555",
    "k = 2234567890": "k = 4444444444",
    "k = 12345678901": "k = 33333333333",
    "x * 1.50 <= 2": "x * 9.99 <= 9",
    "x > 1e5": "x > 1e5",
    "k BETWEEN 1 AND 2": "k BETWEEN 9 AND 9",
    "s = 'it''s'": "s = ''",
    "s LIKE 'é%' AND s <> 'b'": "s LIKE '' AND s <> ''",
    "d >= CAST('2020-01-01' AS DATE)": "d >= CAST('' AS DATE)",
    "CAST(x AS DECIMAL(5, 2)) = 0": "CAST(x AS DECIMAL(5, 2)) = 9",
    "date_trunc('month', d) = '1'": "date_trunc('month', d) = ''",
    "s = $$it's$$": "s = $$it's$$",
    "s = E'\\''": "s = E'\\''",
    "s = 'a' -- 'b'": "s = '' -- 'b'",
    "s = 'a' /* = 'b' */ = 'c'": "s = '' /* = 'b' */ = ''",
    "round(x, 2) ORDER BY 2 LIMIT 5": "round(x, 2) ORDER BY 2 LIMIT 5",
}


@pytest.mark.parametrize(("sql", "expected"), SHAPES.items(), ids=SHAPES)
def test_a_shape_leaves_out_constants_that_no_plan_follows_from(sql: str, expected: str) -> None:
    if IS_DUCKDB_1 and ("--" in sql or "/*" in sql):
        pytest.skip("its lexer tells nothing of comments: a constant before one stays as it is")
    assert shape(sql).decode() == expected


# -- the lists ------------------------------------------------------------------------------------


QUESTIONS = [attack.sql for attack in ATTACKS if attack.outcome == ANSWERS]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    """What answered questions send, and each function that they may call, with its plan."""
    found: dict[str, Plan] = {}
    grouped: dict[str, Plan] = {}
    real = LastReading._plan

    def noted(self: LastReading, connection: Any, statement: Sql) -> Any:
        plan = plan_of(connection, statement)
        if plan is not None:
            found[text(statement)] = plan
        return real(self, connection, statement)

    with pytest.MonkeyPatch.context() as patch, connect(tmp_path_factory.mktemp("c"), *FILL) as con:
        patch.setattr(duckdb_reading, "KNOWN", KnownStatements())
        patch.setattr(LastReading, "_plan", noted)
        patch.setattr("dpsql.kinds.streamed.processors", lambda: 8)  # SQL bounds what NumPy can
        for question in QUESTIONS:
            con.explain(question)
        for question in MORE:
            con.explain(question, **MORE[question])
    with duckdb.connect() as connection:
        for kind in (
            *("BIT", "TIME WITH TIME ZONE", "INTERVAL"),
            *("BIT[]", "TIMETZ[][]", "STRUCT(b BIT, n INTEGER)", "STRUCT(b TIMETZ)[]"),
            *("BIT[3]", "STRUCT(b TIMETZ[2])", "INTERVAL[3]", "BIT[2][3]"),
        ):
            connection.execute(f"CREATE OR REPLACE TABLE edges (a {kind})")
            sql = "SELECT a, count(*) FROM edges GROUP BY a ORDER BY a"
            plan = plan_of(connection, generated(sql))
            assert plan is not None
            grouped[f"{sql} {kind}"] = plan
        for form in surveyed():
            types = form.types or ("INTEGER",)
            columns = ", ".join(f"a{place} {type_}" for place, type_ in enumerate(types))
            connection.execute(f"CREATE OR REPLACE TABLE edges ({columns})")
            sql = f"SELECT {text(form.over_columns())} FROM edges"
            plan = plan_of(connection, generated(sql))
            if plan is not None:
                found.setdefault(f"{sql} {columns}", plan)
    read = {sql: plan for sql, plan in found.items() if reads(plan, FORMS)}
    return dict(_telling(read)) | grouped


def is_cast(node: dict[str, Any]) -> bool:
    return node.get("type") == "OPERATOR_CAST"


def _telling(plans: dict[str, Plan]) -> Iterator[tuple[str, Plan]]:
    """The plans that hold something which those before did not."""
    seen: set[tuple[object, ...]] = set()
    for sql, plan in plans.items():
        held = {
            (
                str(node.get("type"))[:40],
                key,
                value if isinstance(value, str | bool) else str(value)[-40:],
            )
            for node in nodes(plan.root)
            if node.keys() & {"type", "path", "comparison", "check_overflow"}
            for key, value in node.items()
            if isinstance(value, str | bool | type(None)) or key == "path"
            if key not in ("alias", "table", "value", "identifier", "ctename", "names")
        }
        held |= {
            ("type", "id", str(node["return_type"]["id"]))
            for node in nodes(plan.root)
            if is_cast(node) and "return_type" in node  # a frame is said again, unbound
        }
        held |= {
            (str(node["type"]), "orders", order["type"])
            for node in nodes(plan.root)
            for order in node.get("orders") or ()
            if "type" in node
        }
        if not held <= seen:
            seen |= held
            yield sql, plan


MORE: dict[str, dict[str, Any]] = {
    "SELECT count(*) FROM visits v RIGHT JOIN visits w ON v.uid = w.uid AND v.k = w.k": {},
    **{
        f"SELECT count(*) FROM visits v {side} JOIN visits w "
        "ON v.uid = w.uid AND (v.k = 1 OR w.n > v.n)": {}
        for side in ("LEFT", "RIGHT")
    },
    **{
        f"SELECT count(*) FROM visits v JOIN visits w ON v.uid = w.uid AND v.k {sign} w.k": {}
        for sign in ("<", "<=", ">", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    },
    "SELECT count(s.size) FROM visits v LEFT JOIN shops s ON v.k + 1 = s.k": {},
    "SELECT count(s.size) FROM shops s RIGHT JOIN visits v ON v.k + 1 = s.k": {},
    "SELECT s, count(DISTINCT uid) AS n FROM visits GROUP BY s ORDER BY n DESC LIMIT 3": {},
    "SELECT s, count(*) AS n FROM visits GROUP BY s ORDER BY n DESC LIMIT 3": {
        "max_groups_contributed": "unlimited"
    },
    "SELECT k, count(*) FROM visits GROUP BY k": {"contribution_bounding": "weight"},
    "SELECT s, sum(n) FROM visits GROUP BY s": {"left_out_share": 0.1},
    "SELECT sum(n) FROM visits": {"left_out_share": 0.1, "max_rows_contributed": 2},
    "SELECT median(n) FROM visits": {},
    "SELECT c, median(n) FROM visits GROUP BY c": {},
    "SELECT c, flag, count(*) FROM visits WHERE (k > 1 AND n > 2) OR s = 'x' GROUP BY c, flag": {},
    "SELECT c FROM visits GROUP BY c": {},
    "SELECT count(*) FROM visits": {"left_out_share": 0.1, "max_rows_contributed": 2},
    "SELECT count(*) FROM (SELECT uid, sum(x) AS t FROM visits GROUP BY uid) WHERE t > 1": {},
    "SELECT CAST(s AS DATE), count(*) FROM visits GROUP BY 1": {},
    "SELECT count(*) FROM visits v JOIN visits w ON v.uid = w.uid "
    "WHERE v.k NOT IN (SELECT k FROM shops)": {},
    "SELECT count(*) FROM visits v WHERE v.k NOT IN (SELECT k FROM shops WHERE k IS NOT NULL)": {},
    "SELECT count(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM shops s WHERE s.k = v.k)": {},
    "SELECT count(*) FROM visits v WHERE EXISTS "
    "(SELECT 1 FROM shops s WHERE s.k = v.k OR s.size > v.n)": {},
    "SELECT count(*) FROM (SELECT uid, k FROM visits UNION SELECT uid, n FROM visits)": {},
    "SELECT count(*) FROM (SELECT uid, k FROM visits UNION ALL SELECT uid, n FROM visits)": {},
    "SELECT count(*) FROM (SELECT uid, k FROM visits EXCEPT ALL SELECT uid, n FROM visits)": {},
    "SELECT count(*) FROM (SELECT uid, k FROM visits INTERSECT SELECT uid, n FROM visits)": {},
    "SELECT count(*) FROM (SELECT uid, k FROM visits INTERSECT ALL SELECT uid, n FROM visits)": {},
    "SELECT count(*) FROM (SELECT uid, min(n) AS m FROM visits GROUP BY uid) WHERE m > 1": {},
    "SELECT count(*) FROM visits WHERE k > 1 AND n > 2": {},
    "SELECT c, count(*), median(n) FROM visits GROUP BY c": {},
    "SELECT k, count(DISTINCT n) FROM visits GROUP BY k": {},
    "SELECT count(DISTINCT n), count(DISTINCT c), count(DISTINCT k) FROM visits": {},
    "SELECT count(*) FROM (SELECT uid, n, lag(n) OVER (PARTITION BY uid {0}) AS a, "
    "lead(n, 2) OVER (PARTITION BY uid {0}) AS b, first_value(s) OVER (PARTITION BY uid {0}) AS c, "
    "rank() OVER (PARTITION BY uid {0}) + max(n) OVER (PARTITION BY uid {0}) AS r FROM visits "
    "QUALIFY row_number() OVER (PARTITION BY uid {0}) > 1) "
    "WHERE a < b OR c = 'x' OR r = 3".format("ORDER BY k DESC NULLS FIRST"): {},
    "SELECT count(*) FROM (SELECT uid, sum(n) OVER ({0} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) "
    "+ sum(n) OVER ({0} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) "
    "+ sum(n) OVER ({0} ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) "
    "+ sum(n) OVER ({0} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) "
    "+ sum(n) OVER ({0} ROWS UNBOUNDED PRECEDING) "
    "+ sum(n) OVER ({0} RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) "
    "+ sum(n) OVER ({0} RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) "
    "+ sum(n) OVER ({0} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a FROM visits) "
    "WHERE a > 3".format("PARTITION BY uid ORDER BY k"): {},
}


def refuses(corpus: dict[str, Plan], forms: Forms) -> bool:
    """Whether something is refused by these lists that is read by the whole ones."""
    return not all(reads(plan, forms) for plan in corpus.values())


def reads(plan: Plan, forms: Forms) -> bool:
    try:
        read_by_forms(plan.root, forms)
    except UnknownPart:
        return False
    return True


def shorter(form: Form) -> Iterator[tuple[str, Form]]:
    """The form without one value that may stand somewhere in it, for each of them."""
    match form:
        case frozenset():
            yield from ((str(one), form - {one}) for one in form)
        case dict():
            for name, part in form.items():
                for what, less in shorter(part):
                    yield f"{name} {what}", {**form, name: less}
        case list():
            yield from ((what, [less]) for what, less in shorter(form[0]))
        case tuple():
            for place, part in enumerate(form):
                for what, less in shorter(part):
                    yield what, (*form[:place], less, *form[place + 1 :])


def entries() -> Iterator[tuple[str, Forms]]:
    """Every entry of the lists, with the lists without it."""
    for name, several in OPERATORS.items():
        less = {key: value for key, value in OPERATORS.items() if key != name}
        yield name, replace(FORMS, operators=less)
        for place, one in enumerate(several):
            for what, without in shorter(dict(one)):
                those: Any = (*several[:place], without, *several[place + 1 :])
                yield f"{name} {place} {what}", replace(FORMS, operators={**OPERATORS, name: those})
    for name, several in EXPRESSIONS.items():
        rest = {key: value for key, value in EXPRESSIONS.items() if key != name}
        yield name, replace(FORMS, expressions=rest)
        for place, one in enumerate(several):
            for what, without in shorter(dict(one)):
                those = (*several[:place], without, *several[place + 1 :])
                forms = replace(FORMS, expressions={**EXPRESSIONS, name: those})
                yield f"{name} {place} {what}", forms
    for name, several in ELEMENTS.items():
        rest = {key: value for key, value in ELEMENTS.items() if key != name}
        yield f"element {name}", replace(FORMS, elements=rest)
        if several is not EXPRESSIONS.get(name):
            for place, one in enumerate(several):
                for what, without in shorter(dict(one)):
                    those = (*several[:place], without, *several[place + 1 :])
                    forms = replace(FORMS, elements={**ELEMENTS, name: those})
                    yield f"element {name} {place} {what}", forms
    for name in FORMS.of_elements:
        yield f"of elements {name}", replace(FORMS, of_elements=FORMS.of_elements - {name})
    for name in CONDITIONS:
        others = {key: value for key, value in CONDITIONS.items() if key != name}
        yield f"condition {name}", replace(FORMS, conditions=others)
    for name in FORMS.functions:
        yield f"function {name}", replace(FORMS, functions=FORMS.functions - {name})
    for name in FORMS.aggregates:
        yield f"aggregate {name}", replace(FORMS, aggregates=FORMS.aggregates - {name})
    for name in FORMS.types:
        yield f"type {name}", replace(FORMS, types=FORMS.types - {name})


@pytest.mark.slow
def test_what_is_answered_is_read_in_every_version(tmp_path: Path) -> None:
    asked = {question: MORE.get(question, {}) for question in (*QUESTIONS, *MORE)}
    refused: dict[str, str | None] = {}
    with connect(tmp_path, *FILL) as con:
        for question, parameters in asked.items():
            try:
                con.explain(question, **parameters)
            except Error as error:
                refused[question] = error.code
    known = {"can_fail"} if IS_DUCKDB_1 else set()
    assert set(refused.values()) <= known, refused
    assert len(refused) < len(asked) / 20


@pytest.mark.slow
@since_2_0  # its plans are told in fewer words
def test_without_any_entry_of_the_lists_something_is_refused(corpus: dict[str, Plan]) -> None:
    assert not refuses(corpus, FORMS)
    idle = [name for name, forms in entries() if not refuses(corpus, forms)]
    assert idle == []


# -- the door -------------------------------------------------------------------------------------


def test_there_is_one_way_to_rows() -> None:
    """No statement is sent by what runs or stores, except where it has been read."""
    module = ast.parse(inspect.getsource(door))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for name in ("DuckDBRun", "_Rehearsed"):
        assert list(sending(classes[name])) == [], name
    sent = {
        method.name: [ast.unparse(call) for call in sending(method)]
        for method in classes["DuckDBScratch"].body
        if isinstance(method, ast.FunctionDef)
    }
    assert {name for name, found in sent.items() if found} == {
        *("_executed", "_materialized", "_stream", "_store", "_drop")
    }


SENDING = frozenset({"execute", "executemany", "sql", "query", "from_query"})


def sending(tree: ast.AST) -> Iterator[ast.expr]:
    """The calls of DuckDB that run SQL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SENDING:
            yield node
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in ("execute", "materialized", "relation"):
            yield called


@pytest.mark.slow
def test_a_question_is_read_before_it_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path, *FILL) as connection:
        engine = connection._answerer.engine
        assert isinstance(engine, OpenDuckDB)
        asked = "SELECT k, count(*) FROM visits WHERE n > {} GROUP BY k"
        connection.sql(asked.format(1))
        count = engine.last_reading.count
        connection.sql(asked.format(2))
        assert engine.last_reading.count > count
        spent = connection.budget()
        forms = replace(FORMS, functions=FORMS.functions - {"hash"})
        monkeypatch.setattr(engine.last_reading, "_forms", forms)
        monkeypatch.setattr(engine.last_reading, "known", KnownStatements())
        with fails_with("statement_unrecognised"):
            connection.sql(asked.format(3))
        assert connection.budget() == spent
        # What is found out when it is sent was paid for, and stays so.
        real = OpenDuckDB.rehearse
        monkeypatch.setattr(OpenDuckDB, "rehearse", lambda self, read: None)
        with fails_with("engine_failed"):
            connection.sql(asked.format(4))
        assert connection.budget() != spent
        monkeypatch.setattr(OpenDuckDB, "rehearse", real)


def test_a_net_that_cannot_be_set_up_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(tmp_path, *FILL) as connection:
        monkeypatch.setattr("dpsql.engines.duckdb.reading.plan_of", lambda *_: None)
        spent = connection.budget()
        with fails_with("statement_unrecognised"):
            connection.sql("SELECT k, count(*) FROM visits GROUP BY k")
        assert connection.budget() == spent


def test_the_page_has_the_lists() -> None:
    place = Path(__file__).parents[2] / "tools" / "docs" / "last_reading.py"
    script = runpy.run_path(str(place))
    text = script["PAGE"].read_text(encoding="utf-8")
    assert script["page"](text) == text, "python tools/docs/last_reading.py"


@pytest.mark.parametrize(
    ("type_", "cast", "read"),
    [
        ("BIT[3]", "BIT[]", True),
        ("INTEGER[3][2]", "INTEGER[3][]", True),
        ("INTEGER[3]", "BIGINT[]", False),  # elements are cast
        ("VARCHAR[3]", "INTEGER[]", False),
        ("INTEGER[]", "INTEGER[3]", False),  # which fails where there are not three
        ("INTEGER[3]", "VARCHAR[]", False),
        ("INTEGER[3]", "INTEGER[2]", False),
        ("INTEGER[]", "BIGINT[]", False),
    ],
)
def test_an_array_becomes_a_list_of_the_same_and_nothing_else(
    type_: str, cast: str, read: bool
) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE edges (a {type_})")
        plan = plan_of(connection, generated(f"SELECT CAST(a AS {cast}) AS b FROM edges"))
    assert plan is not None
    assert reads(plan, FORMS) is read
