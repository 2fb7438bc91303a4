"""The last reading on Spark: nothing is sent to rows whose plan is not what dpsql sends."""

from __future__ import annotations

import ast
import inspect
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_last_reading as on_duckdb
from helpers.failures import fails_with
from helpers.sql_text import generated
from spark_sessions import require

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()

import duckdb  # noqa: E402
from engine_world import Filled  # noqa: E402
from helpers.support import TABLES, policy  # noqa: E402
from spark_evidence_cases import evident  # noqa: E402
from spark_world import SparkWorld, spark_world  # noqa: E402

import dpsql  # noqa: E402
from dpsql.core.sql import Sql, literal, sql  # noqa: E402
from dpsql.core.sql import name as quoted  # noqa: E402
from dpsql.core.table_name import TableName  # noqa: E402
from dpsql.engines.base.engine import Reads  # noqa: E402
from dpsql.engines.spark import engine as door  # noqa: E402
from dpsql.engines.spark.engine import OpenSpark  # noqa: E402
from dpsql.engines.spark.masked import Unmasked, mask_names  # noqa: E402
from dpsql.engines.spark.plan import SPARK_FORMS, SparkForms, UnknownWord, views_read  # noqa: E402
from dpsql.engines.spark.reading import SparkReading  # noqa: E402
from dpsql.engines.spark.text import spark_quote, view_of  # noqa: E402
from dpsql.errors import EngineError  # noqa: E402
from dpsql.owner.promises import broken_promises  # noqa: E402

VISITS = Reads((TableName("visits"),))
V = spark_quote(view_of(TableName("visits")))
COLUMNS = (("uid", "BIGINT"), ("k", "INTEGER"), ("s", "VARCHAR"))
FILLED = {
    "visits": Filled(COLUMNS, [(i % 60, i % 3, "a") for i in range(600)]),
    "secret": Filled(COLUMNS, [(i, i, "p") for i in range(9)]),
}
POLICY = """
version: 1
dataset: spark-tests
defaults: {max_rows_contributed: 5}
accounts:
  ana: {epsilon: 200, delta: 1e-3}
tables:
  visits:
    privacy_unit: {name: person, column: uid}
"""
SENT = (
    "SELECT monotonically_increasing_id() + 1 AS `__dpsql_rid`, `k`, count(*) AS `m` "
    f"FROM {V} GROUP BY `k`"
)


@pytest.fixture(scope="module", params=["classic", "connect"])
def world(request: pytest.FixtureRequest) -> Iterator[SparkWorld]:
    """A session in this process, and one on a server."""
    with spark_world(request.param) as world:
        yield world


@pytest.fixture(scope="module")
def engine(world: SparkWorld) -> Iterator[OpenSpark]:
    world.engine(FILLED)
    world.session.sql("CREATE VIEW seen AS SELECT * FROM visits")
    database = dpsql.SparkEngine(world.session)
    yield database.open(["visits"])
    world.session.sql("DROP VIEW IF EXISTS seen")
    database.close()


def sent(engine: OpenSpark, text: str, reads: Reads = VISITS) -> Any:
    """Send a statement, as questions are."""
    with engine.run() as run:
        return run.over(reads).pairs(generated(text))


def test_what_dpsql_sends_is_sent(engine: OpenSpark) -> None:
    assert sent(engine, SENT).num_rows == 3
    twice = Reads(VISITS.tables * 2)
    sent(engine, PLANTED["a second scan"], twice)
    with pytest.raises(EngineError):
        sent(engine, SENT, twice)


@pytest.mark.parametrize("ending", ["WHERE `b`", "JOIN (SELECT 1 AS `__dpsql_rid`) ON `b`"])
def test_a_column_is_a_whole_condition(ending: str, engine: OpenSpark) -> None:
    asked = f"SELECT `k` FROM (SELECT `k`, `k` = 1 AS `b` FROM {V}) {ending}"
    assert sent(engine, asked).num_rows == 200


def test_a_statement_of_many_columns_is_read_whichever_session_was_used_last(
    world: SparkWorld, engine: OpenSpark
) -> None:
    columns = ", ".join(f"sum(`k` + {place}) AS `__dpsql_m{place}`" for place in range(60))
    asked = f"SELECT 1 AS `__dpsql_rid`, {columns} FROM {V}"
    world.session.createDataFrame([(1,)], "a INT").collect()  # makes it the active one
    assert sent(engine, asked).num_columns == 61


JOINED = f"FROM {V} a JOIN {V} b ON a.`uid` = b.`uid`"
PLANTED = {
    "a second scan": f"SELECT a.`k` {JOINED}",
    "a second scan in a subquery": f"SELECT `k` FROM {V} WHERE `k` IN (SELECT `k` FROM {V})",
    "a union with itself": f"SELECT `k` FROM {V} UNION ALL SELECT `k` FROM {V}",
    "a foreign table": "SELECT `k` FROM `secret`",
    "a foreign table by its whole name": "SELECT `k` FROM spark_catalog.{database}.secret",
    "a foreign table beside": f"SELECT v.`k` FROM {V} v JOIN secret s ON v.`uid` = s.`uid`",
    "a foreign table that is called like a view": f"WITH {V} AS (SELECT * FROM secret) "
    f"SELECT `k` FROM {V}",
    "the table itself": "SELECT k FROM visits",
    "a view of the owner's": "SELECT k FROM seen",
    "a file": "SELECT * FROM parquet.`/etc`",
    "a text file": "SELECT * FROM text.`/etc/passwd`",
    "Java": f"SELECT reflect('java.lang.System', 'getProperty', 'user.name') FROM {V}",
    "Java by another name": f"SELECT java_method('java.lang.System', 'exit', 1) FROM {V}",
    "another program": f"SELECT TRANSFORM(`k`) USING 'cat' AS (`k` STRING) FROM {V}",
    "chance": f"SELECT rand() AS `x` FROM {V}",
    "a name of chance": f"SELECT uuid() AS `x` FROM {V}",
    "the clock": f"SELECT now() AS `x` FROM {V}",
    "the clock as a word": f"SELECT current_date AS `x` FROM {V}",
    "the clock as a name": f"SELECT `current_date` AS `x` FROM {V}",
    "the user": f"SELECT current_user() AS `x` FROM {V}",
    "the user as a word": f"SELECT current_user AS `x` FROM {V}",
    "where rows are": f"SELECT spark_partition_id() AS `x` FROM {V}",
    "the file of a row": f"SELECT input_file_name() AS `x` FROM {V}",
    "an error": f"SELECT raise_error(`s`) AS `x` FROM {V}",
    "a list of all rows": f"SELECT collect_list(`k`) AS `x` FROM {V}",
    "an aggregate of no noise": f"SELECT percentile(`k`, 0.5D) AS `x` FROM {V}",
    "the first row": f"SELECT first(`k`) AS `x` FROM {V}",
    "any row": f"SELECT any_value(`k`) AS `x` FROM {V}",
    "an unlisted function": f"SELECT reverse(`s`) AS `x` FROM {V}",
    "a hash of another kind": f"SELECT sha1(`s`) AS `x` FROM {V}",
    "a lambda": f"SELECT transform(array(`k`), x -> x + 1) AS `x` FROM {V}",
    "a nested value": f"SELECT struct(`k`) AS `x` FROM {V}",
    "another type": f"SELECT CAST(`k` AS INTERVAL YEAR) AS `x` FROM {V}",
    "bits": f"SELECT `k` & 1 AS `x` FROM {V}",
    "a pattern from a row": f"SELECT `s` LIKE `s` AS `x` FROM {V}",
    "an average of distinct values": f"SELECT avg(DISTINCT `k`) AS `x` FROM {V}",
    "a filter in an aggregate": f"SELECT count(*) FILTER (WHERE `k` > 1) AS `x` FROM {V}",
    "quarters of all rows": f"SELECT ntile(4) OVER (ORDER BY `uid`) AS `x` FROM {V}",
    "a window of integers some way off": "SELECT sum(`k`) OVER (ORDER BY `uid` RANGE BETWEEN 1 "
    f"PRECEDING AND CURRENT ROW) AS `x` FROM {V}",
    "a share of all rows": f"SELECT percent_rank() OVER (ORDER BY `uid`) AS `x` FROM {V}",
    "several groupings": f"SELECT `k` FROM {V} GROUP BY GROUPING SETS ((`k`), ())",
    "a sample": f"SELECT `k` FROM {V} TABLESAMPLE (50 PERCENT)",
    "an offset": f"SELECT `k` FROM {V} LIMIT 1 OFFSET 3",
    "a limit that is computed": f"SELECT `k` FROM {V} LIMIT CAST(rand() * 9 AS INT)",
    "a correlated subquery": f"SELECT (SELECT max(id) FROM `__dpsql_given` g WHERE g.id = v.`k`) "
    f"AS `x` FROM {V} v",
    "a subquery of one value": f"SELECT (SELECT max(`k`) FROM {V}) AS `x`",
    "a subquery that is correlated": f"SELECT `k` FROM {V} v WHERE `k` IN "
    "(SELECT id FROM `__dpsql_given` g WHERE g.id < v.`uid`)",
    "a subquery that exists": f"SELECT `k` FROM {V} v WHERE EXISTS "
    "(SELECT 1 FROM `__dpsql_given` g WHERE g.id < v.`uid`)",
    "numbers of rows": f"SELECT explode(sequence(1, `k`)) AS `x` FROM {V}",
    "a lateral view": f"SELECT x FROM {V} LATERAL VIEW explode(array(`k`)) t AS x",
    "a lateral subquery": f"SELECT x FROM {V} v, LATERAL (SELECT v.`k` + 1 AS x)",
    "a full join": f"SELECT 1 AS `x` FROM {V} a FULL JOIN (SELECT 1 AS i) b ON a.`k` = b.i",
    "a table function": f"SELECT v.`k` FROM {V} v, explode(array(1)) e",
    "a pivot": f"SELECT * FROM {V} PIVOT (count(`uid`) FOR `k` IN (1, 2))",
    "recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9) "
    "SELECT n FROM r",
    "a variable": f"SELECT session.x FROM {V}",
    "a name that is computed": f"SELECT IDENTIFIER('uid') AS `x` FROM {V}",
    "a hint": f"SELECT /*+ REPARTITION(3) */ `k` FROM {V}",
    "a comment": f"SELECT `k` -- 'x\n FROM {V}",
    "a text of another form": f"SELECT r'\\' AS `x` FROM {V}",
    "a text in other quotes": f'SELECT "k" AS `x` FROM {V}',
    "two statements": f"{SENT}; {SENT}",
    "a script": f"BEGIN {SENT}; END",
    "another statement": "CREATE TABLE x AS SELECT 1",
    "a table that goes": "DROP TABLE visits",
    "a table that goes, in brackets": "SELECT 1) t; DROP TABLE visits; SELECT * FROM (SELECT 1",
    "rows that change": "INSERT INTO visits SELECT * FROM secret",
    "rows that change behind a query": f"WITH w AS ({SENT}) INSERT INTO visits SELECT * FROM w",
    "rows that go": "TRUNCATE TABLE visits",
    "rows that are written": f"FROM {V} INSERT INTO visits SELECT *",
    "a setting": "SET spark.sql.ansi.enabled=false",
    "no statement": "SELECT FROM WHERE",
}


@pytest.mark.few(200)
@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_what_dpsql_does_not_send_is_not_sent(
    text: str, engine: OpenSpark, world: SparkWorld
) -> None:
    text = text.replace("{database}", world._database)
    with pytest.raises(EngineError) as caught:
        sent(engine, text)
    assert caught.value.reason == EngineError.FIXED_REASON
    assert caught.value.__context__ is None
    assert world.session.sql("SELECT count(*) AS n FROM visits").collect()[0]["n"] == 600


@pytest.mark.few(2)
@pytest.mark.parametrize("text", [PLANTED["a foreign table"], PLANTED["chance"]])
def test_there_is_no_other_way_to_send_it(text: str, engine: OpenSpark) -> None:
    with engine.run() as run, run.over(VISITS).scratch() as scratch:
        for way in (
            scratch.pairs,
            scratch.integers,
            lambda statement: scratch.store("__dpsql_stage", statement),
            lambda statement: scratch.exact(statement, (), ["m"]),
            lambda statement: scratch.keys(statement, (), np.arange(1, 2)),
        ):
            with pytest.raises(EngineError):
                way(generated(text))


# -- texts that would be plans ---------------------------------------------------------------------


FORGED = (
    f"x\n+- View ({V}, [k#1])",
    "x]\n+- OneRowRelation\n\n== Optimized Logical Plan ==\nx",
    "0)#1, rand() AS y#2",
    "\n== Analyzed Logical Plan ==\nx: int\nOneRowRelation",
    "it's \\ `one` \"text\" -- /* of ' many",
)


@pytest.mark.few(20)
@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_a_text_is_no_part_of_a_plan(text: str, engine: OpenSpark) -> None:
    view = quoted(view_of(TableName("visits")))
    for statement, is_sent in (
        (sql("SELECT {} AS {} FROM {}", literal(text), quoted(text), view), True),
        (sql("SELECT {} AS {} FROM {}", literal(text), quoted(text), quoted("secret")), False),
        (sql("SELECT {} AS {}, rand() FROM {}", literal(text), quoted(text), view), False),
    ):
        with engine.run() as run:
            reader = run.over(VISITS)
            if is_sent:
                found: Any = reader.pairs(statement)
                assert found.column_names == [text]
                assert set(found.column(0).to_pylist()) == {text}
                continue
            with pytest.raises(EngineError):
                reader.pairs(statement)


def test_a_text_that_ends_too_early_is_read_as_what_it_becomes(engine: OpenSpark) -> None:
    for text in (
        f"SELECT 'a' || (SELECT max(s) FROM secret) || '' AS `x` FROM {V}",
        f"SELECT 'a\\\\' || (SELECT max(s) FROM secret) || '' AS `x` FROM {V}",
        f"SELECT 'a''' || (SELECT max(s) FROM secret) || '' AS `x` FROM {V}",
        "SELECT 1 AS `x``` FROM secret WHERE `s` = `x```",
    ):
        with pytest.raises(EngineError):
            sent(engine, text)


def test_literals_and_names_are_found_where_spark_finds_them() -> None:
    for text, read in (
        (r"SELECT 'a\'b', `a``b`", "SELECT '0', `c_3bb04ab5e7e5`"),
        (r"SELECT 'a\\', 'b'", "SELECT '0', '0'"),
        ("SELECT 'a''b'", "SELECT '0''0'"),
        ("SELECT DATE'2024-01-01', INTERVAL '1' DAY", "SELECT DATE'2024-01-01', INTERVAL '1' DAY"),
    ):
        assert re.sub(r"`c_\w+`", "`c`", mask_names(text)) == re.sub(r"`c_\w+`", "`c`", read)
    for text in ("r'a'", "x'00'", "DATE'a'", '"a"', "a -- b", "/* a", "${a}", "a\\b", "'a", "`a"):
        with pytest.raises(Unmasked):
            mask_names(text)


# -- what is stored and remembered -----------------------------------------------------------------


def test_stored_rows_are_those_of_the_same_question(engine: OpenSpark) -> None:
    joined = generated(
        "SELECT a.`k` AS `k` FROM `__dpsql_stage` a JOIN `__dpsql_stage` b USING(`uid`)"
    )
    few = generated(
        "SELECT `uid` FROM `__dpsql_stage` WHERE `k` IN (SELECT id FROM `__dpsql_given`)"
    )
    with engine.run() as run, run.over(VISITS).scratch() as one:
        one.store("__dpsql_stage", generated(f"SELECT DISTINCT `uid`, `k` FROM {V}"))
        one.pairs(joined)
        assert len(one.integers(few, [1])[0]) > 0
        with engine.run() as other, pytest.raises(EngineError):
            other.over(VISITS).pairs(joined)
        one.drop("__dpsql_stage")
        with pytest.raises(EngineError):
            one.pairs(joined)
    # The same name again, of other columns.
    with engine.run() as run, run.over(VISITS).scratch() as one:
        one.store("__dpsql_stage", generated(f"SELECT `s` FROM {V}"))
        one.pairs(generated("SELECT `s` FROM `__dpsql_stage`"))
        with pytest.raises(EngineError):
            one.pairs(joined)


def test_a_statement_is_analysed_once_whatever_its_salt_and_literals(
    engine: OpenSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[str] = []
    real = SparkReading._planned

    def noted(self: SparkReading, text: str, *others: Any) -> Any:
        analysed.append(text)
        return real(self, text, *others)

    monkeypatch.setattr(SparkReading, "_planned", noted)
    before = engine.last_reading.count
    for salt, text in ((2**61, "a"), (2**61 + 5, "b"), (2**62 - 1, "it's")):
        statement = sql(
            "SELECT xxhash64({}L, {}) AS h FROM {}",
            salt,
            literal(text),
            quoted(view_of(TableName("visits"))),
        )
        with engine.run() as run:
            run.over(Reads(VISITS.tables, salt)).pairs(statement)
    assert len(analysed) == 1
    assert engine.last_reading.count == before + 3
    with pytest.raises(EngineError):  # what is known over some tables is not known over others
        sent(engine, text_of(statement), Reads((TableName("secret"),), salt))


def text_of(statement: Sql) -> str:
    from dpsql.engines.spark.text import SPARK_TEXT

    return statement.render(SPARK_TEXT)


def test_a_session_that_has_ended_is_opened_again(engine: OpenSpark) -> None:
    sent(engine, f"SELECT `k` AS `one` FROM {V}")
    session = engine.last_reading._session
    assert session is not None
    if hasattr(session, "_jsparkSession"):
        pytest.skip("in this process it ends with the last reference to it")
    session.stop()
    sent(engine, f"SELECT `k` AS `two` FROM {V}")


def test_a_reading_takes_some_milliseconds(engine: OpenSpark) -> None:
    sheet = engine.last_reading.over(VISITS)
    best = 9.0
    for place in range(15):
        statement = generated(SENT.replace("`m`", f"`m{place}`"))
        began = time.perf_counter()
        sheet.read(statement)
        best = min(best, time.perf_counter() - began)
    assert best < 0.6


# -- questions -------------------------------------------------------------------------------------


def test_a_question_is_read_before_it_is_paid_for(
    engine: OpenSpark, world: SparkWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "SELECT k, count(*) FROM visits WHERE uid > {} GROUP BY k"
    rules = dpsql.parse_policy(POLICY)
    with dpsql.connect(world.session, rules, tmp_path / "budget.db", "ana") as connection:
        connection.sql(asked.format(1))
        opened = connection._answerer.engine
        assert isinstance(opened, OpenSpark)
        assert opened.last_reading.count > 1
        spent = connection.budget()
        whole = opened.last_reading
        narrow = SparkReading(
            opened._session,
            opened.schema.values(),
            replace(SPARK_FORMS, called=SPARK_FORMS.called - {"xxhash64"}),
        )
        monkeypatch.setattr(opened, "last_reading", narrow)
        with fails_with("statement_unrecognised"):
            connection.sql(asked.format(2))
        assert connection.budget() == spent
        # What is found out when it is sent was paid for, and stays so.
        with monkeypatch.context() as late:
            late.setattr(OpenSpark, "rehearse", lambda self, read: None)
            late.setattr(OpenSpark, "try_out", lambda self, *others: None)
            with pytest.raises(dpsql.EngineError) as failed:
                connection.sql(asked.format(3))
        assert failed.value.code == "engine_failed"
        assert connection.budget() != spent
        # A net that cannot be set up refuses.
        spent = connection.budget()
        monkeypatch.setattr(opened, "last_reading", whole)
        monkeypatch.setattr("dpsql.engines.spark.reading._planned", lambda frame: None)
        with fails_with("statement_unrecognised"):
            connection.sql("SELECT s, count(*) FROM visits GROUP BY s")
        assert connection.budget() == spent


def test_what_an_owner_checks_and_public_tables_are_read_and_sent(
    world: SparkWorld, engine: OpenSpark, tmp_path: Path
) -> None:
    rules = dpsql.parse_policy(
        POLICY
        + "    rows_per_unit: 3\n    columns: {s: {one_per_unit: true}, k: {one_per_unit: true}}"
        "\n  secret: {public: true}\n"
    )
    with dpsql.connect(world.session, rules, tmp_path / "budget.db", "ana") as connection:
        opened = connection._answerer.engine
        assert isinstance(opened, OpenSpark)
        before = opened.last_reading.count
        (found,) = broken_promises(rules, opened)  # each unit has ten rows
        assert "60" in found.message
        assert opened.last_reading.count == before + 3
        before = opened.last_reading.count
        assert connection.sql("SELECT count(*) FROM secret").fetchall() == [(9,)]
        assert opened.last_reading.count > before
        joined = "SELECT z.k, count(*) FROM visits v JOIN secret z ON v.k = z.k GROUP BY z.k"
        assert len(connection.sql(joined, epsilon=20).fetchall()) > 0


def test_there_is_one_way_to_rows() -> None:
    module = ast.parse(inspect.getsource(door))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    computing = ("toArrow", "collect", "localCheckpoint", "count", "toPandas", "stored_once")
    sent = {
        f"{name}.{method.name}"
        for name in ("SparkRun", "SparkScratch", "_Analysed")
        for method in classes[name].body
        if isinstance(method, ast.FunctionDef)
        if any(re.search(rf"\b{word}\(", ast.unparse(method)) for word in computing)
    }
    ways = ("_exact", "_pairs", "_integers", "_store", "_show")  # what a statement reads is shown
    assert sent == {f"SparkScratch.{way}" for way in ways}


# -- the lists -------------------------------------------------------------------------------------


MORE: dict[str, dict[str, Any]] = {
    **on_duckdb.MORE,
    "SELECT k, count(*), sum(n) FROM visits GROUP BY k": {"max_groups_contributed": "auto"},
    "SELECT z.k, count(*) FROM visits v JOIN (SELECT k, size > 3 AS large FROM shops) z "
    "ON v.k = z.k WHERE z.large GROUP BY z.k": {},
    "SELECT DISTINCT s FROM visits": {"mechanism": "policy_gaussian_set_union"},
}


@pytest.fixture(scope="module")
def plans() -> Iterator[list[str]]:
    """The plans of all that answered questions send, and of each call that analysts may write."""
    found: dict[str, None] = {}
    world = SparkWorld()
    real = views_read

    def noted(plan: str, forms: SparkForms) -> Any:
        found[plan] = None
        return real(plan, forms)

    world.engine({name: empty(created) for name, created in TABLES.items()})
    with (
        pytest.MonkeyPatch.context() as patch,
        dpsql.SparkEngine(world.session).open(list(TABLES)).run() as run,
    ):
        patch.setattr("dpsql.engines.spark.reading.views_read", noted)
        place = Path(world.session.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))
        with dpsql.connect(world.session, policy(), place / "budget.db", "ana") as connection:
            for question in on_duckdb.QUESTIONS:
                ask(connection, question, {})
            for question, options in MORE.items():
                ask(connection, question, options)
        sheet = run._reading.over(Reads(()))
        for statement in evident():
            sheet.read(generated(statement))
    yield list(found)
    world.close()


def empty(created: str) -> Filled:
    """A table of the small world, of no rows."""
    with duckdb.connect() as connection:
        connection.execute(created)
        (name,) = connection.execute("SELECT table_name FROM duckdb_tables()").fetchone() or ()
        columns = connection.execute(f'DESCRIBE "{name}"').fetchall()
    return Filled(tuple((column[0], column[1]) for column in columns), [])


def ask(connection: dpsql.Connection, question: str, options: dict[str, Any]) -> None:
    """Have a question rehearsed; Spark's table of calls does not have all of DuckDB's."""
    refused = ""
    try:
        connection.explain(question, **options)
    except dpsql.Error as refusal:
        refused = refusal.code
    assert refused in ("", "expression_not_allowed"), question


def is_read(plan: str, forms: SparkForms) -> bool:
    try:
        views_read(plan, forms)
    except UnknownWord:
        return False
    return True


def entries() -> Iterator[tuple[str, SparkForms]]:
    """Every entry of the lists, with the lists without it."""
    for head, forms in SPARK_FORMS.operators.items():
        for form in forms:
            less = {**SPARK_FORMS.operators, head: tuple(each for each in forms if each != form)}
            yield form, replace(SPARK_FORMS, operators=less)
    for name in SPARK_FORMS.called:
        yield name, replace(SPARK_FORMS, called=SPARK_FORMS.called - {name})
    for name in SPARK_FORMS.signs:
        yield name, replace(SPARK_FORMS, signs=SPARK_FORMS.signs - {name})
    for name in SPARK_FORMS.words:
        yield name, replace(SPARK_FORMS, words=SPARK_FORMS.words - {name})
    for name in SPARK_FORMS.types:
        yield name, replace(SPARK_FORMS, types=SPARK_FORMS.types - {name})
    for name in SPARK_FORMS.shapes:
        rest = {key: form for key, form in SPARK_FORMS.shapes.items() if key != name}
        yield name, replace(SPARK_FORMS, shapes=rest)


@pytest.mark.slow
def test_without_any_entry_of_the_lists_something_is_refused(plans: list[str]) -> None:
    assert [plan for plan in plans if not is_read(plan, SPARK_FORMS)] == []
    assert len(plans) > 500
    idle = [name for name, less in entries() if all(is_read(plan, less) for plan in plans)]
    assert idle == []
