"""The statements of a view's steps are read before a view is paid for, and before a step begins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.plays import REFRESH, rows, spent
from helpers.plays import clock as clock
from test_materialized_views import connect
from test_materialized_views import place as place
from test_view_parameters import create

import dpsql
from dpsql.dbapi.connection import Connection
from dpsql.engines.duckdb.plan import FORMS
from dpsql.engines.duckdb.reading import KnownStatements


def forget(connection: Connection, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """Have the last reading know nothing, and not this function."""
    reading = connection._answerer.engine.last_reading  # type: ignore[attr-defined]
    monkeypatch.setattr(reading, "known", KnownStatements())
    forms = replace(FORMS, functions=FORMS.functions - {function})
    monkeypatch.setattr(reading, "_forms", forms)


@pytest.mark.slow
def test_a_view_whose_steps_are_not_recognised_is_not_paid_for(
    place: Path, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(connect(place)) as ana:
        before = set(place.rglob("*"))
        with monkeypatch.context() as patch:
            forget(ana, patch, "least")
            with pytest.raises(dpsql.InternalError) as caught:
                ana.sql(create())
        assert caught.value.code == "statement_unrecognised"
        assert spent(ana) == 0
        assert set(place.rglob("*")) == before
        ana.sql(create())
        assert spent(ana) > 0
        assert set(place.rglob("*")) > before


@pytest.mark.slow
@pytest.mark.parametrize("days", [2, 4], ids=["one step", "several steps"])
def test_a_step_that_is_not_recognised_is_not_begun(
    days: int, place: Path, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(connect(place)) as ana:
        ana.sql(create())
        clock(days)
        paid = spent(ana)
        with monkeypatch.context() as patch:
            forget(ana, patch, "least")
            with pytest.raises(dpsql.InternalError) as caught:
                ana.sql(REFRESH)
        assert caught.value.code == "statement_unrecognised"
        assert spent(ana) == paid
        ana.sql(REFRESH)
        assert {row[0] for row in rows(ana)} <= set(range(1, days + 1))
        (record,) = ana._answerer.views.all()
        assert record.record.begun == days - 1
