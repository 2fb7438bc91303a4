"""What a survey finds is what the package knows, and what an owner needs where it knows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.dialects import SERVERS, SHIPPED
from helpers.failures import fails_with
from helpers.postgresql_server import Server
from helpers.support import ANALYST, policy
from helpers.unsurveyed import pretend, refused_unseen
from postgresql_world import PostgreSQLWorld
from surveyed_sql import digests, kept
from worlds import small_tables

import dpsql
from dpsql.core.sql import Sql, sql
from dpsql.core.sql_types import DOUBLE, INTEGER, VARCHAR, SqlType
from dpsql.engines.evidence.edges import COMPARED, DECIMAL_SIZES
from dpsql.engines.evidence.verdicts import (
    DIFFERS,
    REWRITTEN,
    EngineVersion,
    Verdicts,
    owners_directory,
    verdict_type,
    verdicts_on,
)
from dpsql.engines.postgresql import types as pg
from dpsql.engines.postgresql.engine import PostgreSQLEngine
from dpsql.engines.postgresql.expressions import POSTGRESQL_ROWS
from dpsql.errors import EngineError
from dpsql.survey import keep
from dpsql.survey.forms import ComparedForm
from dpsql.survey.sameness import survey_sameness

POSTGRESQL_15 = EngineVersion("postgresql", "15")


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SERVERS, ids=str)
def test_the_table_is_large_and_what_it_lacks_is_refused(version: EngineVersion) -> None:
    verdicts = verdicts_on(version)
    assert sum(verdicts.objection(call) is None for call in verdicts.calls) > 400
    assert verdicts.objection("+(INTEGER, INTEGER)") is None
    assert "never compared" in str(verdicts.objection("soundex(VARCHAR)"))


@pytest.mark.slow
@pytest.mark.parametrize("version", SERVERS, ids=str)
def test_a_verdict_is_on_the_sql_that_is_written_today(version: EngineVersion) -> None:
    """After a change that is meant the engine is surveyed again: ``write_surveys.py``."""
    written = digests(version)
    assert written == kept()[str(version)]
    assert written.keys() == verdicts_on(version).calls.keys()


def test_sql_that_nobody_has_surveyed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [ComparedForm(text, (DOUBLE,)) for text in ("sqrt(a)", "exp(a)")]
    before = digests(POSTGRESQL_15, asked)
    changed = {**POSTGRESQL_ROWS.operations, "sqrt": lambda value: sql("sqrt({})", value)}
    monkeypatch.setattr(POSTGRESQL_ROWS, "operations", changed, raising=False)
    after = digests(POSTGRESQL_15, asked)
    assert [call for call in before if before[call] != after[call]] == ["sqrt(DOUBLE)"]


def test_tables_are_kept_as_they_are_written() -> None:
    directory = Path(dpsql.__path__[0]) / "engines" / "evidence" / "surveys"
    found = [path for path in directory.iterdir() if path.suffix == ".json"]
    assert len(found) == len(SHIPPED)
    for version in SHIPPED:
        text = (directory / version.file_name).read_text(encoding="utf-8")
        assert verdicts_on(version).text() == text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"engine": "spark", "version"', "null"])
def test_a_file_that_is_no_table_is_none(text: str, tmp_path: Path) -> None:
    version = EngineVersion("postgresql", "99")
    (tmp_path / version.file_name).write_text(text)
    with fails_with("engine_not_surveyed"):
        verdicts_on(version, tmp_path)


def test_a_table_of_another_version_is_none(tmp_path: Path) -> None:
    other = Verdicts(POSTGRESQL_15, {})
    version = EngineVersion("postgresql", "99")
    (tmp_path / version.file_name).write_text(other.text(), encoding="utf-8")
    with fails_with("engine_not_surveyed"):
        verdicts_on(version, tmp_path)


@pytest.mark.parametrize("told", ["", "../../x", "4/../x", "Spark", "4.3\n"])
def test_what_is_no_version_names_no_file(told: str) -> None:
    with fails_with("server_unsupported"):
        EngineVersion.of("spark", told)


def test_decimals_are_tried_at_the_ends_of_what_is_stored_alike() -> None:
    """A cast that holds for 12 digits may fail with 38: a verdict is on widths that were tried."""
    kinds: dict[str, set[tuple[int, int]]] = {}
    for width, scale in DECIMAL_SIZES:
        kinds.setdefault(verdict_type(SqlType.decimal(width, scale)), set()).add((width, scale))
    narrow = 1
    for most in (4, 9, 18, 38):
        tried = kinds.pop(f"DECIMAL({most})")
        assert {(most, 0), (most, most)} <= tried
        assert narrow in {width for width, _ in tried}
        assert any(0 < scale < width for width, scale in tried)
        narrow = most + 1
    assert not kinds
    assert {verdict_type(SqlType.of("DECIMAL(38, 0)")), verdict_type(DOUBLE)} == {
        "DECIMAL(38)",
        "DOUBLE",
    }


# -- a server --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database(postgres_server: Server) -> PostgreSQLEngine:
    """A database without tables, of a role that may create nothing."""
    pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")
    postgres_server.run("DROP DATABASE IF EXISTS survey WITH (FORCE)")
    postgres_server.run("CREATE DATABASE survey TEMPLATE template0 ENCODING 'UTF8'")
    postgres_server.run("DROP ROLE IF EXISTS surveyor")
    postgres_server.run("CREATE ROLE surveyor LOGIN PASSWORD 'secret'")
    postgres_server.run("REVOKE ALL ON DATABASE survey FROM PUBLIC")
    postgres_server.run("GRANT CONNECT ON DATABASE survey TO surveyor")
    return PostgreSQLEngine(postgres_server.url("survey", "surveyor", "secret"))


@pytest.mark.slow
def test_a_new_survey_of_postgresql_finds_the_same(database: PostgreSQLEngine) -> None:
    """After a change that is meant: CONTRIBUTING has how the table is made again."""
    if database.version not in SHIPPED:
        pytest.skip(f"the package has no table of {database.version}")
    found = survey_sameness(database)
    assert found.made_with == database.version
    assert found.calls == verdicts_on(database.version).calls


@pytest.mark.slow
def test_a_cast_that_holds_for_few_digits_alone_is_noticed(
    database: PostgreSQLEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, a double that became a wide decimal went through two pieces of 64 bits."""

    def two_pieces(value: Sql, pieces: int) -> Sql:
        return real(value, min(pieces, 2))

    real = pg._exact_integer
    monkeypatch.setattr(pg, "_exact_integer", two_pieces)
    casts = [ComparedForm(f"CAST(a AS DECIMAL({w},{s}))", (DOUBLE,)) for w, s in DECIMAL_SIZES]
    found = survey_sameness(database, casts).calls
    assert found["CAST AS DECIMAL(18)(DOUBLE)"] == REWRITTEN
    assert found["CAST AS DECIMAL(38)(DOUBLE)"] == (
        f"{DIFFERS}: CAST(a AS DECIMAL(38,0)) fails on some values"
    )


@pytest.mark.slow
def test_a_call_that_computes_something_else_is_noticed(
    database: PostgreSQLEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the type of what it computes."""
    asked = {
        "a + 1": "INTEGER",
        "a * 2.5": "DOUBLE",
        "a + INTERVAL 1 DAY": "TIMESTAMP",
        "trim(a)": "VARCHAR",
        "a > 1": "BIGINT",
        "abs(a)": "DECIMAL(12,2)",
    }
    some = [ComparedForm(text, (SqlType.of(kind),)) for text, kind in asked.items()]
    assert not any(v.startswith(DIFFERS) for v in survey_sameness(database, some).calls.values())
    real = PostgreSQLEngine.over_constants

    def backwards(self: PostgreSQLEngine, statement: Sql) -> object:
        answer = real(self, statement)
        return answer.take(list(reversed(range(len(answer)))))

    monkeypatch.setattr(PostgreSQLEngine, "over_constants", backwards)
    found = survey_sameness(database, some).calls
    assert len(found) == len(asked)
    assert all(verdict.startswith(DIFFERS) for verdict in found.values())


@pytest.mark.slow
def test_a_server_that_is_lost_is_no_verdict(
    database: PostgreSQLEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: PostgreSQLEngine, statement: Sql) -> object:
        raise EngineError()

    monkeypatch.setattr(PostgreSQLEngine, "over_constants", lost)
    with pytest.raises(EngineError):
        survey_sameness(database, [ComparedForm("a + 1", (INTEGER,))])


@pytest.mark.slow
def test_all_edge_values_but_nul_are_computed_with(database: PostgreSQLEngine) -> None:
    from dpsql.survey.sameness import _Comparison

    comparison = _Comparison(database)
    left_out = {k: {*COMPARED[k]} - {*comparison._held_values(k)} for k in COMPARED}
    comparison.close()
    assert {kind: values for kind, values in left_out.items() if values} == {VARCHAR: {"x\u0000y"}}


@pytest.mark.slow
def test_a_survey_of_the_owners_opens_another_version(
    postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")
    world = PostgreSQLWorld(postgres_server, "surveyed_by_its_owner")
    world.engine(small_tables())
    version = pretend(monkeypatch, "postgresql", tmp_path)
    refused_unseen(world.url, policy(), ANALYST, tmp_path)
    few = [ComparedForm("a + b", (INTEGER, INTEGER)), ComparedForm("a > 1", (INTEGER,))]
    monkeypatch.setattr(keep, "survey_sameness", lambda server: survey_sameness(server, few))
    database = PostgreSQLEngine(world.url)
    duckdb, server = keep.keep_surveys(database)
    database.close()
    assert "has been surveyed" in duckdb
    assert server == f"{version}: {owners_directory() / 'postgresql-99.json'}"
    assert verdicts_on(version).made_with == version
    with dpsql.connect(world.url, policy(), tmp_path / "budget.db", ANALYST) as connection:
        connection.explain("SELECT count(*) FROM visits WHERE n + n > 3")
        with pytest.raises(dpsql.QueryRefused, match="never compared"):
            connection.explain("SELECT count(*) FROM visits WHERE n - n > 3")
    world.close()
