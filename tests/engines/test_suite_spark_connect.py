"""Spark passes what there is of the suite of all engines on a Spark Connect server, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.unchecked_runs import unread
from spark_sessions import can_connect, require, served

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()
if not can_connect():
    pytest.skip("this pyspark has no sessions beside others", allow_module_level=True)

import test_sensitivity as sensitivity  # noqa: E402
from engine_suite import EngineSuite, one_table  # noqa: E402
from engine_world import EngineWorld, prepared, read_all, schema_for  # noqa: E402
from helpers.sql_text import generated  # noqa: E402
from helpers.support import planned  # noqa: E402
from helpers.unsurveyed import pretend, refused_unseen  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from spark_world import SparkWorld  # noqa: E402
from worlds import DuckDBWorld  # noqa: E402

import dpsql  # noqa: E402
from dpsql.core.sql_types import INTEGER  # noqa: E402
from dpsql.engines.base.scratch import Passed  # noqa: E402
from dpsql.engines.spark.text import spark_quote, view_of  # noqa: E402
from dpsql.survey import keep  # noqa: E402
from dpsql.survey.forms import ComparedForm  # noqa: E402
from dpsql.survey.sameness import survey_sameness  # noqa: E402

ROWS = [
    (unit, place % 3, place / 4, str(unit % 2), "pq"[place % 2], place, 4, 3.5)
    for unit in range(20)
    for place in range(unit % 5)
]
LIMITS = {"max_groups_contributed": 100, "max_rows_contributed": 100}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server in a process of its own."""
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def world(url: str) -> Iterator[SparkWorld]:
    """Tables of that server, written in an owner's session: this thread's active one."""
    session = SparkSession.builder.remote(url).create()
    world = SparkWorld(session)
    yield world
    world.close()
    session.stop()


class TestSparkConnect:
    """What the suite has of runs and of steps."""

    test_scratch = EngineSuite.test_scratch_tables_are_gone_when_it_is_left
    test_errors = EngineSuite.test_errors_say_nothing_of_a_value
    test_time = EngineSuite.test_a_run_is_over_when_its_time_is
    test_interrupted = EngineSuite.test_a_run_is_interrupted_from_another_thread_and_no_other_is


@pytest.mark.slow
class TestSuite(EngineSuite):
    """All of the suite."""

    @pytest.fixture(scope="class")
    @classmethod
    def reference(cls) -> Iterator[EngineWorld]:
        """DuckDB with the same rows."""
        world = DuckDBWorld()
        yield world
        world.close()


@pytest.mark.few(7)
@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT a, count(DISTINCT u) FROM r GROUP BY a", {}),
        ("SELECT s, count(*), sum(x), avg(i) FROM r GROUP BY s", {}),
        ("SELECT a, count(DISTINCT u) FROM r GROUP BY a", {"contribution_bounding": "weight"}),
        ("SELECT a, count(DISTINCT s), sum(x) FROM r GROUP BY a", {}),
        ("SELECT a, median(x) FROM r GROUP BY a", {}),
        ("SELECT DISTINCT s FROM r", {}),
        ("SELECT a, count(DISTINCT u) FROM r GROUP BY a", {"max_groups_contributed": "auto"}),
    ],
    ids=["histogram", "sums", "weights", "distinct", "quantiles", "union", "cascade"],
)
def test_exact_rows_are_those_of_duckdb(
    sql: str, parameters: dict[str, Any], world: SparkWorld
) -> None:
    limits: dict[str, Any] = LIMITS | {"min_units_per_group": 1} | parameters
    tables = one_table(ROWS)
    plans = planned(sql, sensitivity.SCHEMA, sensitivity.RULES, **limits).plans
    blocks = [prepared(plan, schema_for(tables)) for plan in plans]
    reference = DuckDBWorld()
    expected = [read_all(reference.engine(tables), block) for block in blocks]
    assert all(each.groups for each in expected)
    found = [read_all(world.engine(tables), block) for block in blocks]
    reference.close()
    assert [each.groups for each in found] == [each.groups for each in expected]
    assert [each.others for each in found] == [each.others for each in expected]


def test_both_reads_of_a_statement_are_of_rows_that_are_stored(world: SparkWorld) -> None:
    """Whatever is written in between. The owner's word that nothing is does without a copy."""
    both = "SELECT * FROM w UNION ALL SELECT * FROM w"
    for snapshot in ("copy", "fixed"):
        world.engine(one_table(ROWS))
        database = dpsql.SparkEngine(world.session, snapshot=snapshot)
        engine = database.open(["r"])
        view = spark_quote(view_of(engine.schema["r"].name))
        twice = f"SELECT count(*) AS n FROM (WITH w AS (SELECT `u` FROM {view}) {both})"
        read = Passed(generated(twice), (), None)
        with engine.run() as run, unread(run).scratch()._frame(read) as frame:
            world.session.sql("TRUNCATE TABLE r")
            try:
                found = frame.collect()[0]["n"]
            except Exception:  # noqa: BLE001 - its files are gone
                found = 0
        database.close()
        world._clear()
        assert found == (2 * len(ROWS) if snapshot == "copy" else 0)


def test_a_version_that_nobody_has_surveyed_is_refused_until_its_owner_does(
    url: str, world: SparkWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.engine(one_table(ROWS))
    pretend(monkeypatch, "spark", tmp_path)
    policy = dpsql.parse_policy(
        "version: 1\ndataset: d\naccounts: {ana: {epsilon: 100, delta: 1e-3}}\n"
        f"tables: {{{world._database}.r: {{privacy_unit: {{name: person, column: u}}}}}}\n"
    )
    engine = dpsql.SparkEngine(url, schemas=[world._database])
    refused_unseen(engine, policy, "ana", tmp_path)
    few = [ComparedForm("a + b", (INTEGER, INTEGER)), ComparedForm("a > 1", (INTEGER,))]
    monkeypatch.setattr(keep, "survey_sameness", lambda server: survey_sameness(server, few))
    assert "spark-99.9.json" in list(keep.keep_surveys(engine))[1]
    with dpsql.connect(engine, policy, tmp_path / "budget.db", "ana") as connection:
        connection.explain(f"SELECT count(*) FROM {world._database}.r WHERE a + a > 3")
    engine.close()


def test_an_analyst_asks_a_server_by_its_url(url: str, world: SparkWorld, tmp_path: Path) -> None:
    world.engine(one_table(ROWS))
    engine = dpsql.SparkEngine(url, schemas=[world._database])
    policy = dpsql.parse_policy(
        "version: 1\ndataset: d\ndefaults: {epsilon: 20, max_rows_contributed: 5}\n"
        "accounts: {ana: {epsilon: 100, delta: 1e-3}}\n"
        f"tables: {{{world._database}.r: {{privacy_unit: {{name: person, column: u}}}}}}\n"
    )
    with dpsql.connect(engine, policy, tmp_path / "budget.db", "ana") as con:
        found = con.sql(f"SELECT count(DISTINCT u) AS n FROM {world._database}.r").fetchall()
        assert abs(found[0][0] - 16) <= 5
        with pytest.raises(dpsql.QueryRefused):
            con.sql(f"SELECT sign(f) AS k, count(*) FROM {world._database}.r GROUP BY 1")
    engine.close()


def test_a_server_that_takes_no_rows_of_this_pyspark_is_refused(
    world: SparkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of Spark 4.0 and 4.1: pyspark 4.3 asks them for settings that they have not."""

    def failing(*_: object, **__: object) -> None:
        raise ValueError("invalid literal for int() with base 10: '3221225472b'")

    monkeypatch.setattr(type(world.session), "createDataFrame", failing)
    with fails_with("server_unsupported", match="cannot send rows"):
        dpsql.SparkEngine(world.session)


def test_a_pyspark_without_sessions_beside_others_is_refused(
    world: SparkWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before pyspark 4.3: no session of ours could be told from the owner's."""
    monkeypatch.delattr(type(world.session), "newSession")
    with fails_with("server_unsupported", match="cannot open a session") as refused:
        dpsql.SparkEngine(world.session)
    assert "4.3" in str(refused.value.hint)
