"""The table of what PostgreSQL answers as DuckDB does is the one that both engines give today."""

from __future__ import annotations

import json

import pytest
from postgres import Server
from survey_postgresql import PLACE, Survey, forms

from dpsql.sql.dialects.verdicts import REWRITTEN, SAME, verdicts_on

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
    verdicts = verdicts_on("postgresql")
    assert sum(v in (SAME, REWRITTEN) for v in verdicts.calls.values()) > 300
    assert len(list(forms())) > 900
    assert verdicts.objection("+(INTEGER, INTEGER)") is None
    assert "never compared" in str(verdicts.objection("upper(VARCHAR)"))
