"""Spark as an engine beyond the suite: what is refused, kept quiet, pinned; broken twins."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from helpers.failures import fails_with
from helpers.unchecked_runs import unread
from spark_sessions import require

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()

import test_sensitivity as sensitivity  # noqa: E402
from engine_suite import EngineSuite, one_table  # noqa: E402
from engine_world import (  # noqa: E402
    Filled,
    Groups,
    prepared,
    read_all,
    schema_for,
    statement_groups,
)
from helpers.columns import column_of  # noqa: E402
from helpers.dialects import SPARK  # noqa: E402
from helpers.reached_texts import reached_texts  # noqa: E402
from helpers.sql_text import Spelled, generated  # noqa: E402
from helpers.support import planned  # noqa: E402
from helpers.unsurveyed import pretend, refused_unseen  # noqa: E402
from helpers.value_differences import DIFFERENCES  # noqa: E402
from spark_world import SparkWorld  # noqa: E402
from worlds import DuckDBWorld  # noqa: E402

import dpsql  # noqa: E402
from dpsql.core.schema import Table  # noqa: E402
from dpsql.core.sql import Sql, join, literal  # noqa: E402
from dpsql.core.sql import name as quoted  # noqa: E402
from dpsql.core.sql import sql as template  # noqa: E402
from dpsql.core.sql_types import INTEGER  # noqa: E402
from dpsql.engines.base.scratch import Passed  # noqa: E402
from dpsql.engines.evidence.trials import TRIED  # noqa: E402
from dpsql.engines.evidence.verdicts import EngineVersion, owners_directory, verdicts_on  # noqa: E402
from dpsql.engines.spark.dialect import SparkDialect  # noqa: E402
from dpsql.engines.spark.engine import SparkScratch  # noqa: E402
from dpsql.engines.spark.sessions import SPARK_SETTINGS  # noqa: E402
from dpsql.engines.spark.text import SPARK_TEXT, spark_quote, view_of  # noqa: E402
from dpsql.errors import EngineError  # noqa: E402
from dpsql.survey import keep  # noqa: E402
from dpsql.survey.forms import ComparedForm, forms  # noqa: E402
from dpsql.survey.sameness import survey_sameness  # noqa: E402

POLICY = """
version: 1
dataset: spark-tests
defaults: {max_rows_contributed: 5}
accounts:
  ana: {epsilon: 200, delta: 1e-3}
tables:
  visits:
    privacy_unit: {name: patient, column: u}
    columns:
      v: {lower: 0, upper: 10}
"""
VISITS = Filled(
    (("u", "BIGINT"), ("k", "VARCHAR"), ("v", "DOUBLE"), ("at", "TIMESTAMP"), ("n", "INTEGER")),
    [(unit, f"k{unit % 3}", float(unit % 11), None, unit % 7) for unit in range(600)],
)


@pytest.fixture(scope="module")
def world() -> Iterator[SparkWorld]:
    world = SparkWorld()
    yield world
    world.close()


@pytest.fixture
def connection(world: SparkWorld, tmp_path: Path) -> Iterator[dpsql.Connection]:
    world.engine({"visits": VISITS})
    policy = dpsql.parse_policy(POLICY)
    ledger = tmp_path / "budget.db"
    with dpsql.connect(world.session, policy, ledger=ledger, analyst="ana") as found:
        yield found


def test_a_version_that_nobody_has_surveyed_is_refused_before_anything(
    world: SparkWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.engine({"visits": VISITS})
    assert pretend(monkeypatch, "spark", tmp_path) == EngineVersion("spark", "99.9")
    refused_unseen(world.session, dpsql.parse_policy(POLICY), "ana", tmp_path)


def test_a_survey_of_the_owners_opens_another_version(
    world: SparkWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.engine({"visits": VISITS})
    version = pretend(monkeypatch, "spark", tmp_path)
    few = [ComparedForm("a + b", (INTEGER, INTEGER)), ComparedForm("a > 1", (INTEGER,))]
    monkeypatch.setattr(keep, "survey_sameness", lambda server: survey_sameness(server, few))
    duckdb, server = keep.keep_surveys(dpsql.SparkEngine(world.session))
    assert "has been surveyed" in duckdb
    assert server == f"{version}: {owners_directory() / 'spark-99.9.json'}"
    policy = dpsql.parse_policy(POLICY)
    with dpsql.connect(world.session, policy, tmp_path / "budget.db", "ana") as connection:
        connection.explain("SELECT count(*) FROM visits WHERE n + n > 3")
        with pytest.raises(dpsql.QueryRefused, match="never compared"):
            connection.explain("SELECT count(*) FROM visits WHERE n - n > 3")


# -- questions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, count(DISTINCT u) AS n FROM visits GROUP BY k ORDER BY k", 200),
        ("SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 2", 200),
        ("SELECT upper(k) AS k, sum(v) / count(*) AS n FROM visits WHERE n < 5 GROUP BY 1", 5),
        ("SELECT k, median(v) AS n FROM visits GROUP BY k", 5),
        ("SELECT k, avg(strlen(k || 'aß\u07ff\u0800€\uffff😀')) AS n FROM visits GROUP BY k", 20),
        ("SELECT k, skewness(v) + if(bool_or(v = 5), 6, 0) AS n FROM visits GROUP BY k", 6),
    ],
)
def test_questions_are_answered(sql: str, expected: float, connection: dpsql.Connection) -> None:
    rows = connection.sql(sql, epsilon=20, max_groups_contributed=1).fetchall()
    assert 2 <= len(rows) <= 3
    assert all(key.lower() in ("k0", "k1", "k2") for key, _ in rows)
    assert all(abs(value - expected) < 0.2 * expected + 1 for _, value in rows)


def test_what_spark_computes_otherwise_is_refused_before_it_is_paid_for(
    connection: dpsql.Connection,
) -> None:
    before = connection.budget()
    for sql in (
        "SELECT v::VARCHAR AS k, count(DISTINCT u) FROM visits GROUP BY 1",
        "SELECT k, count(DISTINCT u) FROM visits WHERE k LIKE k || '%' GROUP BY k",
        "SELECT sign(v) AS k, count(DISTINCT u) FROM visits GROUP BY 1",
    ):
        with fails_with("expression_not_allowed"):
            connection.sql(sql)
    assert str(connection.budget()) == str(before)


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT k, count(*), sum(v) FROM visits GROUP BY k", {"max_groups_contributed": "auto"}),
        ("SELECT DISTINCT k FROM visits", {"mechanism": "policy_gaussian_set_union"}),
        ("SELECT k, median(v) FROM visits GROUP BY k", {}),
    ],
)
def test_a_later_step_that_spark_does_not_take_costs_nothing(
    sql: str,
    options: dict[str, Any],
    connection: dpsql.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = repr(connection.budget())
    with monkeypatch.context() as broken:
        broken.setattr(
            SparkDialect,
            "among_given",
            lambda self, value, *, few: template("no_such_function({})", value),
        )
        with pytest.raises(dpsql.QueryRefused) as refused:
            connection.sql(sql, **options)
    assert refused.value.code == "does_not_bind"
    assert repr(connection.budget()) == before
    assert connection.sql(sql, **options).cost.reserved.rho > 0  # as it is, it is taken


def test_a_session_has_no_ledger_of_its_own(world: SparkWorld) -> None:
    world.engine({"visits": VISITS})
    with fails_with("ledger_not_given"):
        dpsql.connect(world.session, dpsql.parse_policy(POLICY), analyst="ana")


# -- tables ----------------------------------------------------------------------------------------


def test_columns_of_other_types_are_left_out_and_views_refused(world: SparkWorld) -> None:
    world.engine({"visits": VISITS})
    world.session.sql(
        "CREATE TABLE odd (u BIGINT, c CHAR(3), w VARCHAR(5), f FLOAT, b BINARY, "
        "l ARRAY<INT>, t TIMESTAMP, s STRING COLLATE UTF8_LCASE) USING parquet"
    )
    world.session.sql("CREATE VIEW seen AS SELECT * FROM visits")
    world.session.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS u")
    schema = dpsql.SparkEngine(world.session).catalog().tables
    odd = schema["odd"]
    assert {c.name: str(c.type) for c in odd.columns} == {
        "u": "BIGINT",
        "w": "VARCHAR",
        "f": "DOUBLE",
        "t": "TIMESTAMP",
    }
    assert [left.name for left in odd.left_out] == ["c", "b", "l", "s"]
    assert schema["seen"].unreadable is not None
    assert "passing" not in schema


def test_settings_of_the_owners_session_stay_and_are_not_inherited(world: SparkWorld) -> None:
    world.session.conf.set("spark.sql.ansi.enabled", "false")
    world.session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        engine = world.engine({"visits": VISITS})
        with engine.run() as run:
            place = unread(run).scratch()
            assert {
                name: place._session.conf.get(name) for name in SPARK_SETTINGS
            } == SPARK_SETTINGS
        assert world.session.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        world.session.conf.set("spark.sql.ansi.enabled", "true")
        world.session.conf.set("spark.sql.session.timeZone", "UTC")


def test_no_setting_of_the_cluster_gives_sql_another_meaning(world: SparkWorld) -> None:
    """Under the first a date makes ``date_format`` fail; others write, read and order otherwise."""
    others = {
        "spark.sql.legacy.timeParserPolicy": "EXCEPTION",
        "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
        "spark.sql.ansi.relationPrecedence": "true",
        "spark.sql.parquet.filterPushdown": "true",
    }
    cluster = world.session.sparkContext._jsc.sc().conf()
    for name, value in others.items():
        cluster.set(name, value)
    try:
        assert world.session.newSession().conf.get("spark.sql.ansi.relationPrecedence") == "true"
        engine = world.engine({"visits": VISITS})
        with engine.run() as run:
            found = unread(run).scratch()._session.conf
            assert {name: found.get(name) for name in others} == {
                "spark.sql.legacy.timeParserPolicy": "CORRECTED",
                "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
                "spark.sql.ansi.relationPrecedence": "false",
                "spark.sql.parquet.filterPushdown": "false",
            }
    finally:
        for name in others:
            cluster.remove(name)


def test_a_name_is_never_the_path_of_a_file(world: SparkWorld, tmp_path: Path) -> None:
    secret = str(tmp_path / "secret")
    world.session.sql("SELECT 'password' AS p").write.parquet(secret)
    engine = world.engine({"visits": VISITS})
    statement = f"SELECT * FROM parquet.`{secret}`"
    assert world.session.newSession().sql(statement).count() == 1
    with engine.run() as run, pytest.raises(EngineError):
        unread(run).pairs(statement)


def test_no_type_follows_from_the_name_of_a_directory(world: SparkWorld) -> None:
    world.session.sql("CREATE TABLE named (uid INT, k INT) USING parquet PARTITIONED BY (k)")
    try:
        world.session.sql("INSERT INTO named VALUES (1, 2)")
        found = dpsql.SparkEngine(world.session).catalog().tables
        assert [c.type for c in found["named"].columns] == [INTEGER, INTEGER]
    finally:
        world.session.sql("DROP TABLE named")


def test_a_statement_that_reads_a_table_twice_reads_a_copy(world: SparkWorld) -> None:
    world.engine({"visits": VISITS})
    for snapshot, files in (("copy", 0), ("fixed", 2)):
        database = dpsql.SparkEngine(world.session, snapshot=snapshot)  # type: ignore[arg-type]
        engine = database.open(["visits"])
        view = spark_quote(view_of(engine.schema["visits"].name))
        both = f"WITH a AS (SELECT `u` FROM {view}) SELECT * FROM a JOIN a AS b USING (`u`)"
        twice = f"SELECT monotonically_increasing_id() AS n, * FROM ({both})"
        with engine.run() as run:
            with unread(run).scratch()._frame(Passed(generated(twice), (), None)) as frame:
                plan = frame._jdf.queryExecution().optimizedPlan().toString()
                assert plan.count("parquet") == files, plan
            once = Passed(generated(f"SELECT `u` FROM {view}"), (), None)
            with unread(run).scratch()._frame(once) as frame:
                assert "parquet" in frame._jdf.queryExecution().optimizedPlan().toString()


def members(frame: Any) -> list[Any]:
    """The plans of what a statement has in WITH clauses, wherever these stand."""
    found, todo = [], [frame._jdf.queryExecution().analyzed()]
    while todo:
        plan = todo.pop()
        if plan.getClass().getSimpleName() == "WithCTE":
            found += listed(plan.cteDefs())
        todo += listed(plan.children())
    return found


def listed(several: Any) -> list[Any]:
    """What a Seq of Scala's has in it."""
    return [several.apply(place) for place in range(several.size())]


def same_each_time(member: Any) -> bool:
    """Whether a plan computes the same rows again, of the same rows."""
    return bool(member.deterministic()) and "row_number(" not in member.toString()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT a, count(DISTINCT u) FROM r GROUP BY a", {"contribution_bounding": "weight"}),
        ("SELECT a, count(*), sum(x) FROM r GROUP BY a", {"contribution_bounding": "weight"}),
        ("SELECT a, count(DISTINCT s), sum(x) FROM r GROUP BY a", {}),
        ("SELECT a, sum(DISTINCT x), sum(DISTINCT i), sum(x) FROM r GROUP BY a", {}),
    ],
)
def test_what_a_statement_computes_again_is_the_same(
    sql: str, parameters: dict[str, Any], world: SparkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark computes members of WITH as often as they are read, of rows that are stored."""
    seen: list[Any] = []
    made = SparkScratch._frame

    @contextmanager
    def watched(self: SparkScratch, passed: Passed) -> Iterator[Any]:
        with made(self, passed) as frame:
            found = members(frame)
            assert all(map(same_each_time, found)), passed.statement.render(SPARK_TEXT)
            if found:
                plan = frame._jdf.queryExecution().optimizedPlan().toString()
                assert "parquet" not in plan, plan
            seen.extend(found)
            yield frame

    monkeypatch.setattr(SparkScratch, "_frame", watched)
    rows = [_row(unit, a=place) for unit in range(9) for place in range(unit % 4)]
    limits: dict[str, Any] = {"max_groups_contributed": 2, "max_rows_contributed": 3} | parameters
    plans = planned(sql, sensitivity.SCHEMA, sensitivity.RULES, **limits).plans
    engine = world.engine(one_table(rows))
    for plan in plans:
        read_all(engine, prepared(plan, schema_for(one_table(()))))
    assert seen


def test_a_member_of_chance_is_noticed(world: SparkWorld) -> None:
    for computed in ("rand()", "monotonically_increasing_id()", "row_number() OVER (ORDER BY 1)"):
        frame = world.session.sql(
            f"WITH w AS (SELECT {computed} AS x FROM range(9)) "
            "SELECT * FROM w JOIN w AS v USING (x)"
        )
        assert not all(map(same_each_time, members(frame)))


def test_stored_rows_are_given_back(world: SparkWorld) -> None:
    engine = world.engine({"visits": VISITS})
    stored = world.session.sparkContext._jsc.sc().getRDDStorageInfo
    before = len(stored())
    with engine.run() as run, unread(run).scratch() as scratch:
        view = spark_quote(view_of(engine.schema["visits"].name))
        assert scratch.store("__dpsql_t", generated(f"SELECT * FROM {view}")) == 600
        assert len(stored()) == before + 1
    assert len(stored()) == before


# -- quiet -----------------------------------------------------------------------------------------


def test_pyspark_logs_nothing_of_a_failed_question(world: SparkWorld) -> None:
    engine = world.engine({"visits": VISITS})
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    loggers = [logging.getLogger(), logging.getLogger("SQLQueryContextLogger")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with engine.run() as run, pytest.raises(dpsql.EngineError):
            unread(run).exact(world.failing, (), ["m"])
        assert written.getvalue() == ""
        with pytest.raises(Exception, match="quoted"):
            world.session.sql("SELECT CAST(concat('quoted', rand()) AS INT)").collect()
        assert "quoted" in written.getvalue()  # of the owner's own questions, as ever
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


# -- the table of calls ----------------------------------------------------------------------------


def test_texts_of_questions_are_texts(world: SparkWorld) -> None:
    texts = ("${spark.app.name}", "a\\nb", "\\", "'", '"', "`", "\u0000", "%", "😀", "--", "/*")
    engine = world.engine({"visits": VISITS})
    listed = [template("{} AS {}", literal(text), quoted(f"c{n}")) for n, text in enumerate(texts)]
    with engine.run() as run:
        found = unread(run).pairs(template("SELECT {}", join(", ", listed)))
    assert tuple(found.to_pylist()[0].values()) == texts


def test_the_table_of_calls_is_that_of_this_spark(world: SparkWorld) -> None:
    """What is computed of two columns takes minutes: ``dpsql.survey`` compares it as well."""
    database = dpsql.SparkEngine(world.session)
    known = verdicts_on(database.version).calls
    found = survey_sameness(database, (form for form in forms() if len(form.types) == 1)).calls
    assert len(found) > 100
    worse = {
        call: verdict
        for call, verdict in found.items()
        if verdict.startswith("differs") and not known.get(call, "differs").startswith("differs")
    }
    assert worse == {}
    assert found.keys() <= known.keys()


# -- broken twins ----------------------------------------------------------------------------------


class _Narrow(SparkDialect):
    """Sums BIGINTs."""

    __slots__ = ()

    def sum(self, value: Sql, *, wide: bool, distinct: bool = False) -> Sql:
        return template("CAST(sum(CAST({} AS BIGINT)) AS DECIMAL(38,0))", value)


class _NaNIsNumber(SparkDialect):
    """Takes NaN for a number."""

    __slots__ = ()

    def is_nan(self, value: Sql) -> Sql:
        return template("FALSE")


class _NullsFirst(SparkDialect):
    """Sorts as Spark does by itself."""

    __slots__ = ()

    def ascending(self, value: Sql) -> Sql:
        return value


def _groups(world: Any, sql: str, rows: Sequence[Any], dialect: Any, **parameters: Any) -> Groups:
    limits = {"max_groups_contributed": 100, "max_rows_contributed": 100} | parameters
    found = planned(sql, sensitivity.SCHEMA, sensitivity.RULES, **limits)
    block = prepared(found.plans[0], schema_for(one_table(())))
    with world.engine(one_table(rows)).run() as run:
        return statement_groups(run, block, dialect)


def _row(unit: int, **others: Any) -> tuple[Any, ...]:
    names = [name for name, _ in sensitivity.COLUMNS]
    usual = dict(zip(names, (unit, 1, 0.0, "1", "p", 5, 4, 3.5), strict=True))
    return tuple((usual | others).values())


def test_a_twin_that_sums_64_bits_is_caught(world: SparkWorld) -> None:
    rows = [_row(unit, x=1e6) for unit in range(80)]
    sql = "SELECT a, var_pop(x) FROM r GROUP BY a"
    assert _groups(world, sql, rows, world.dialect)
    with pytest.raises(dpsql.EngineError):
        _groups(world, sql, rows, _Narrow(SPARK.verdicts))


def test_a_twin_to_which_nan_is_a_number_is_caught(world: SparkWorld) -> None:
    rows = [_row(1, x=None), _row(2), _row(3, x=float("nan"))]
    sql = "SELECT a, avg(x), count(x) FROM r GROUP BY a"
    expected = _groups(reference := DuckDBWorld(), sql, rows, reference.dialect)
    reference.close()
    assert _groups(world, sql, rows, world.dialect) == expected
    assert _groups(world, sql, rows, _NaNIsNumber(SPARK.verdicts)) != expected


def test_a_twin_that_sorts_nulls_first_is_caught(world: SparkWorld) -> None:
    rows = [_row(1, s=None), _row(2, s="a"), _row(3, s="b")]
    sql = "SELECT s, count(DISTINCT u) AS n FROM r GROUP BY 1 ORDER BY n DESC LIMIT 1"
    limits = {"k_bar": 1, "max_groups_contributed": None}
    assert list(_groups(world, sql, rows, world.dialect, **limits)) == [("a",), ("b",)]
    assert (None,) in _groups(world, sql, rows, _NullsFirst(SPARK.verdicts), **limits)


def test_the_hash_tells_where_a_null_stands(world: SparkWorld) -> None:
    engine = world.engine(one_table([]))
    dialect = Spelled(SPARK)
    one, other = (dialect.salted_hash(7, columns) for columns in (["NULL", "'a'"], ["'a'", "NULL"]))
    broken, twin = "xxhash64(7L, NULL, 'a')", "xxhash64(7L, 'a', NULL)"
    sql = f"SELECT CAST({one} = {other} AS INT) AS x, CAST({broken} = {twin} AS INT) AS y"
    with engine.run() as run, unread(run).scratch() as scratch:
        assert [column.tolist() for column in scratch.integers(sql)] == [[0], [1]]


def test_a_twin_without_guards_is_caught(world: SparkWorld) -> None:
    rows = [_row(1), _row(2, j=2**63 - 1)]
    sql = "SELECT j + 1 AS k, count(DISTINCT u) FROM r GROUP BY 1"

    class Plain(SparkDialect):
        __slots__ = ()

        def expression(self, tree: Any, table: Any) -> Sql:
            guarded = super().expression(tree, table).render(SPARK_TEXT)
            return generated(guarded.replace("try_add", "").replace(", ", " + "))

    assert set(_groups(world, sql, rows, world.dialect)) == {(5,), (None,)}
    with pytest.raises(dpsql.EngineError):
        _groups(world, sql, rows, Plain(SPARK.verdicts))


def test_a_hash_that_favours_keys_is_caught(world: SparkWorld) -> None:
    class Unsalted(SparkDialect):
        __slots__ = ()

        def salted_hash(self, salt: int, columns: Sequence[Sql]) -> Sql:
            return template("xxhash64({})", columns[-1])

    suite = EngineSuite()
    assert suite.fairness(world, Unsalted(SPARK.verdicts), 7) < 1e-9
    assert suite.fairness(world, world.dialect, 7) > 1e-9


# -- patterns --------------------------------------------------------------------------------------


def test_no_text_makes_a_pattern_slow(world: SparkWorld) -> None:
    """As Spark's own LIKE, the second would take some hundred million years."""
    table = Table("t", (column_of("s", "VARCHAR"),))
    texts = ["a" * 20_000, "ab" * 3000, "a\nb", "", "b", "xaxbx"]
    frame = world.session.createDataFrame([(text,) for text in texts], "s string")
    for pattern in ("%a%b%", "%a%a%a%a%a%a%b", "%_%a%", "a%%b", "%%b%%x"):
        tree = sqlglot.parse_one(f"s LIKE '{pattern}'", dialect="duckdb")
        written = SPARK.expression(tree, table).render(SPARK.renderer)
        began = time.monotonic()
        found = [row[0] for row in frame.selectExpr(written).collect()]
        assert time.monotonic() - began < 30
        expected = duckdb.execute(f"SELECT unnest($1) LIKE '{pattern}'", [texts]).fetchall()
        assert found == [value for (value,) in expected]


# -- values that differ ----------------------------------------------------------------------------


@pytest.mark.parametrize(("expression", "type_", "value", "here", "_", "there"), DIFFERENCES)
def test_values_differ_as_the_page_says(
    world: SparkWorld,
    expression: str,
    type_: str,
    value: str,
    here: str | None,
    _: object,
    there: str | None,
) -> None:
    tree = sqlglot.parse_one(expression, dialect="duckdb")
    written = SPARK.expression(tree, Table("t", (column_of("a", type_),))).render(SPARK.renderer)
    spark_type = "STRING" if type_ == "VARCHAR" else type_
    frame = world.session.sql(f"SELECT CAST('{value}' AS {spark_type}) AS a")
    ((found,),) = frame.selectExpr(f"CAST({written} AS STRING)").collect()
    assert found == there
    assert found != here


# -- definitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        ["DROP TABLE visits", "CREATE TABLE visits (u STRING, k STRING, v DOUBLE) USING parquet"],
        ["ALTER TABLE visits RENAME TO former", "CREATE VIEW visits AS SELECT * FROM former"],
        ["DROP TABLE visits"],
    ],
    ids=["another type", "a view", "gone"],
)
def test_a_table_that_is_another_now_is_refused_for_nothing(
    change: list[str], world: SparkWorld, tmp_path: Path
) -> None:
    world.engine({"visits": VISITS})
    sql, tried = "SELECT k, count(DISTINCT u) FROM visits GROUP BY k", TRIED["definitions"]
    ledger, policy = tmp_path / "budget.db", dpsql.parse_policy(POLICY)
    try:
        with dpsql.connect(world.session, policy, ledger, "ana") as opened:
            assert len(opened.sql(sql).fetchall()) == 3
            spent = opened.budget().rho_spent
            for statement in change:
                world.session.sql(statement)
            for _ in range(2):
                with fails_with("definitions_changed"):
                    opened.sql(sql, fresh=True)
            assert opened.budget().rho_spent == spent
            assert opened.budget().unsettled == 0
        assert TRIED["definitions"] >= tried + 3
    finally:
        world._clear()


def test_a_run_has_views_of_listed_tables_alone(world: SparkWorld) -> None:
    world.engine({"visits": VISITS, "salaries": VISITS})
    database = dpsql.SparkEngine(world.session)
    engine = database.open(["visits"])
    assert list(engine.schema) == ["visits"]
    unlisted = database.catalog().tables["salaries"]
    with engine.run() as run, pytest.raises(dpsql.EngineError):
        run.stream(unlisted)
    with pytest.raises(dpsql.QueryRefused):
        engine.bind(template("SELECT u FROM salaries"))
    texts = reached_texts(engine, skip=("_session", "_parent"))
    assert "visits" in texts
    assert "salaries" not in texts
    database.close()
    world._clear()
