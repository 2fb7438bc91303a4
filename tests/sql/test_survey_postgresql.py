"""The table of what PostgreSQL answers as DuckDB does is the one that both engines give today."""

from __future__ import annotations

import json

import pytest
from edge_decimals import DECIMALS
from postgres import Server
from survey_postgresql import PLACE, Form, Survey, forms

from dpsql.core.sql import Sql
from dpsql.engines.verdicts import REWRITTEN, SAME, EngineVersion, verdict_type, verdicts_on
from dpsql.sql.dialects import postgresql_types as pg

pytestmark = pytest.mark.slow  # they start a server


@pytest.mark.slow
def test_the_table_is_that_of_the_engines(postgres_server: Server) -> None:
    """After a change that is meant: ``python tests/sql/survey_postgresql.py``; read the diff."""
    postgres_server.run("DROP DATABASE IF EXISTS survey WITH (FORCE)")
    postgres_server.run("CREATE DATABASE survey TEMPLATE template0 ENCODING 'UTF8'")
    survey = Survey(postgres_server.url("survey"))
    try:
        found = survey.calls()
    finally:
        survey.close()
    assert found == json.loads(PLACE.read_text(encoding="utf-8"))["calls"]


def test_the_table_is_large_and_what_it_lacks_is_refused() -> None:
    verdicts = verdicts_on(EngineVersion("postgresql", "15"))
    assert sum(v in (SAME, REWRITTEN) for v in verdicts.calls.values()) > 300
    assert len(list(forms())) > 900
    assert verdicts.objection("+(INTEGER, INTEGER)") is None
    assert "never compared" in str(verdicts.objection("upper(VARCHAR)"))


def test_decimals_are_tried_at_the_ends_of_what_is_stored_alike() -> None:
    """A cast that holds for 12 digits may fail with 38: a verdict is on widths that were tried."""
    kinds: dict[str, set[tuple[int, int]]] = {}
    for width, scale in DECIMALS:
        kinds.setdefault(verdict_type(f"DECIMAL({width},{scale})"), set()).add((width, scale))
    narrow = 1
    for most in (4, 9, 18, 38):
        tried = kinds.pop(f"DECIMAL({most})")
        assert {(most, 0), (most, most)} <= tried
        assert narrow in {width for width, _ in tried}
        assert any(0 < scale < width for width, scale in tried)
        narrow = most + 1
    assert not kinds
    assert {verdict_type("DECIMAL(38, 0)"), verdict_type("DOUBLE")} == {"DECIMAL(38)", "DOUBLE"}


@pytest.mark.slow
def test_a_cast_that_holds_for_few_digits_alone_is_noticed(
    postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, a double that became a wide decimal went through two pieces of 64 bits."""

    def two_pieces(value: Sql, pieces: int) -> Sql:
        return real(value, min(pieces, 2))

    real = pg._exact_integer
    monkeypatch.setattr(pg, "_exact_integer", two_pieces)
    survey = Survey(postgres_server.url("postgres"))
    found: dict[str, str] = {}
    try:
        for width, scale in DECIMALS:
            survey._judge(Form(f"CAST(a AS DECIMAL({width},{scale}))", ("DOUBLE",)), found)
    finally:
        survey.close()
    assert found["CAST AS DECIMAL(18)(DOUBLE)"] == REWRITTEN
    assert found["CAST AS DECIMAL(38)(DOUBLE)"].startswith("it fails on some values")
