"""Nothing that can fail on a row is computed of private rows: evidence and a trial come first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from helpers.failures import fails_with
from helpers.sql_text import text

import dpsql
from dpsql.core.sql_types import BIGINT, SqlType
from dpsql.engines.base.twin import Twin
from dpsql.engines.evidence.edges import EDGES, edge_sql
from dpsql.engines.evidence.evidence import Evidence, evidence_for
from dpsql.engines.evidence.verdicts import FAILS, NULL, TOTAL, EngineVersion, verdicts_on
from dpsql.errors import InterfaceError, QueryRefused
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.survey.keep import keep_surveys
from dpsql.survey.totality import _call, _Form, survey_totality

RULES = Policy(
    "evidence",
    accounts={"ana": AccountPolicy("ana", 1e4, 1e-3)},
    tables={
        "t": TablePolicy("t", PrivacyUnit("person", "uid"), {"salary": ColumnPolicy(0, 200_000)}),
        "pub": TablePolicy("pub", None),
    },
)
COLUMNS = (
    "uid BIGINT, salary INTEGER, d DATE, ts TIMESTAMP, tm TIME, iv INTERVAL, s VARCHAR, "
    "u8 UTINYINT, dec DECIMAL(38,0)"
)
ROW = "'2024-01-01', '2024-01-01', '10:00', INTERVAL 1 DAY, 'a', 1, 1"


def connected(directory: Path) -> dpsql.Connection:
    """A database in which one unit has a salary of 70000, and the extremes of every other type."""
    path = directory / "t.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute(f"CREATE TABLE t ({COLUMNS})")
        writer.execute(f"INSERT INTO t SELECT i, 100, {ROW} FROM range(200) r(i)")
        writer.execute(
            "INSERT INTO t VALUES (27, 70000, '5877642-06-25 (BC)', '290309-12-22 (BC) 00:00:00', "
            "'24:00:00', INTERVAL '178956970 years', '9', 255, "
            "99999999999999999999999999999999999999)"
        )
        writer.execute("CREATE TABLE pub AS SELECT 100 AS salary, 'x' AS word")
    return dpsql.connect(path, RULES, directory / "ledger.db", "ana")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with connected(tmp_path_factory.mktemp("evidence")) as opened:
        yield opened


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[dpsql.Connection]:
    """A connection for a test that breaks something."""
    with connected(tmp_path) as opened:
        yield opened


GUARD = "uid = 27 AND salary >= 64000"
ORACLES = [
    "week(INTERVAL 1 DAY)",
    "week(iv)",
    "dayofweek(iv)",
    "isodow(iv)",
    "dayofyear(iv)",
    "weekofyear(iv)",
    "extract(timezone FROM d)",
    "extract(timezone_hour FROM d)",
    "extract(era FROM iv)",
    "extract(isoyear FROM iv)",
    "date_trunc('era', iv)",
    "date_trunc('timezone', iv)",
    "date_diff('week', tm, tm)",
    "date_diff('century', tm, TIME '10:00')",
    "date_diff('era', d, d)",
    "nullif('x', 1)",
]


@pytest.mark.slow
@pytest.mark.parametrize("call", ORACLES)
@pytest.mark.parametrize(
    "form",
    [
        "SELECT COUNT(*) FROM t WHERE CASE WHEN {guard} THEN {call} IS NULL ELSE TRUE END",
        "SELECT COUNT(*) FROM t WHERE NOT ({guard} AND {call} IS NULL)",
        "SELECT COUNT(CASE WHEN {guard} THEN {call} END) FROM t",
        "SELECT COUNT(*) FILTER (WHERE {guard} AND {call} IS NULL) FROM t",
        "SELECT CASE WHEN {guard} THEN {call} IS NULL END AS k, COUNT(*) FROM t GROUP BY k",
        "SELECT COUNT(*) FROM (SELECT uid, COUNT(CASE WHEN {guard} THEN {call} END) AS n FROM t "
        "GROUP BY uid) p WHERE n > 0",
        "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM pub "
        "WHERE CASE WHEN {guard} THEN {call} IS NULL ELSE TRUE END)",
        "SELECT COUNT(*) FROM t JOIN pub ON CASE WHEN {guard} THEN {call} IS NULL ELSE TRUE END",
    ],
)
def test_what_can_fail_on_a_row_is_refused_before_anything_is_paid(
    connection: dpsql.Connection, form: str, call: str
) -> None:
    statement = form.format(guard=GUARD.replace("salary", "t.salary"), call=call)
    if "GROUP BY uid" in statement:
        statement = statement.replace("t.salary", "salary")
    before = connection.budget().queries
    with pytest.raises(QueryRefused):
        connection.sql(statement, epsilon=0.1)
    assert connection.budget().queries == before


@pytest.mark.parametrize(
    "call",
    [
        *("week(d)", "weekofyear(d)", "extract(isoyear FROM d)", "extract(yearweek FROM d)"),
        *("date_trunc('week', d)", "date_trunc('month', ts)", "date_diff('day', d, d)"),
        *("u8 + 1", "u8 - 200", "dec * 2", "d + 1", "d - INTERVAL 1 MONTH", "ts + iv"),
        *("abs(CAST('nan' AS DOUBLE)) IN (1, 2)", "salary > CAST('-inf' AS DOUBLE)"),
        *("CAST(s AS INT)", "s || 'x'", "d = '2024-01-01'"),
    ],
)
def test_what_fails_into_null_is_answered_whatever_the_extremes(
    connection: dpsql.Connection, call: str
) -> None:
    rows = connection.sql(
        f"SELECT COUNT(*) FROM t WHERE CASE WHEN {GUARD} THEN {call} IS NULL ELSE TRUE END"
    ).fetchall()
    assert len(rows) == 1


def test_explain_refuses_the_same_for_nothing(connection: dpsql.Connection) -> None:
    with fails_with("can_fail", match="week") as raised:
        connection.explain("SELECT COUNT(*) FROM t WHERE week(iv) = 3")
    assert raised.value.place is not None


class TestTheTable:
    def test_every_edge_is_a_value_of_its_type(self) -> None:
        with duckdb.connect() as engine:
            for kind, edges in EDGES.items():
                for edge in edges:
                    sql = edge_sql(edge, kind)
                    assert engine.execute(f"SELECT {text(sql)} IS NULL").fetchall() == [(False,)]

    def test_it_is_that_of_the_installed_engine(self) -> None:
        table = evidence_for(duckdb.__version__).verdicts
        assert table.made_with == EngineVersion("duckdb", duckdb.__version__)
        assert {verdict.partition(":")[0] for verdict in table.calls.values()} == {
            TOTAL,
            NULL,
            FAILS,
        }
        assert table.calls["+(BIGINT, BIGINT)"] == NULL
        assert table.calls["week(INTERVAL)"].startswith(FAILS)

    def test_another_version_is_refused_until_it_is_surveyed(self, tmp_path: Path) -> None:
        with fails_with("engine_not_surveyed"):
            verdicts_on(EngineVersion("duckdb", "9.9.9"), tmp_path)
        table = {"engine": "duckdb", "version": "9.9.9", "calls": {"week(DATE)": TOTAL}}
        (tmp_path / "duckdb-9.9.9.json").write_text(json.dumps(table))
        found = verdicts_on(EngineVersion("duckdb", "9.9.9"), tmp_path)
        assert found.calls == {"week(DATE)": TOTAL}

    @pytest.mark.slow
    def test_the_owner_can_have_another_version_surveyed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        monkeypatch.setattr(duckdb, "__version__", "9.9.9")
        monkeypatch.setattr(
            "dpsql.survey.totality._forms",
            lambda: [
                _Form(_call("+"), (BIGINT, BIGINT)),
                _Form(_call("week"), (SqlType.of("INTERVAL"),)),
            ],
        )
        with pytest.raises(InterfaceError, match=r"9\.9\.9"):
            dpsql.DuckDBEngine().open(())
        database = dpsql.DuckDBEngine()
        (made,) = keep_surveys(database)
        assert "duckdb-9.9.9.json" in made
        assert list(keep_surveys(database)) == ["DuckDB 9.9.9 has been surveyed"]
        database.open(())
        assert evidence_for("9.9.9").verdicts.calls["+(BIGINT, BIGINT)"] == NULL

    @pytest.mark.slow
    def test_a_new_survey_finds_the_same(self) -> None:
        found = survey_totality()
        assert found.calls == evidence_for(duckdb.__version__).verdicts.calls
        surveys = Path(dpsql.__path__[0]) / "engines" / "evidence" / "surveys"
        place = surveys / found.made_with.file_name
        assert found.text() == place.read_text(encoding="utf-8")


class TestBrokenTwins:
    """Each net catches what another one lets through."""

    @pytest.mark.slow
    def test_without_the_table_the_trial_refuses(
        self, alone: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Evidence, "objection", lambda *_: None)
        with fails_with("fails"):
            alone.explain(f"SELECT COUNT(*) FROM t WHERE {GUARD} AND week(iv) IS NULL")

    @pytest.mark.slow
    def test_without_the_trial_the_table_refuses(
        self, alone: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Twin, "_try", lambda *_: None)
        with fails_with("can_fail"):
            alone.explain(f"SELECT COUNT(*) FROM t WHERE {GUARD} AND week(iv) IS NULL")

    @pytest.mark.slow
    def test_without_both_the_engine_fails_on_one_row(
        self, alone: dpsql.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Evidence, "objection", lambda *_: None)
        monkeypatch.setattr(Twin, "_try", lambda *_: None)
        with pytest.raises(dpsql.EngineError):
            alone.sql(f"SELECT COUNT(*) FROM t WHERE {GUARD} AND week(iv) IS NULL")
