"""What is logged: events with codes, costs and digests, never values and never the text."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.failures import fails_with
from helpers.support import connect

import dpsql
import dpsql.engines.duckdb.engine as engine_module

SECRET = "zqsecret"
QUESTION = f"SELECT count(*) AS {SECRET} FROM visits WHERE s <> '{SECRET}'"
ACCOUNT = "world/ana"


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="dpsql")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Levels and messages since the last time, of loggers of the package's own."""
    found = [(r.levelname, r.getMessage()) for r in caplog.records if r.name.startswith("dpsql.")]
    caplog.clear()
    return found


@pytest.mark.slow
def test_connecting_and_answers_are_told_with_what_they_cost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(tmp_path) as opened:
        assert said(caplog) == [("INFO", f"{ACCOUNT}: connected")]
        cost = opened.sql(QUESTION).cost.settled
        ((level, message),) = said(caplog)
        assert level == "INFO"
        found = re.fullmatch(
            rf"{ACCOUNT}: answered ([0-9a-f]{{12}}), cost rho (.*), epsilon 0, delta (.*), "
            r"in \d+\.\d{3} seconds",
            message,
        )
        assert found is not None
        assert float(found[2]) == pytest.approx(cost.rho, rel=1e-4)
        assert float(found[3]) == pytest.approx(cost.delta, rel=1e-4)
        opened.sql(QUESTION)
        ((_, again),) = said(caplog)
        start = f"{ACCOUNT}: answered {found[1]}, stored, cost rho 0, epsilon 0, delta 0, in "
        assert again.startswith(start)
        opened.sql("SELECT name FROM shops")
        ((_, free),) = said(caplog)
        assert free.startswith(f"{ACCOUNT}: answered from public tables, cost rho 0, ")


@pytest.mark.parametrize(
    ("sql", "values", "code"),
    [
        (f"SELECT {SECRET} FROM visits", (), "unknown_column"),
        (f"SELECT '{SECRET}', * FROM visits", (), "raw_rows"),
        ("SELECT count(*) FROM visits WHERE s = ?", (SECRET, SECRET), "parameter_unused"),
        (f"SHOW {SECRET}", (), "syntax_error"),
    ],
)
def test_a_refusal_is_told_with_its_code_alone(
    sql: str, values: Any, code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(tmp_path) as opened:
        said(caplog)
        with pytest.raises(dpsql.Error):
            opened.sql(sql, values)
        assert said(caplog) == [("INFO", f"{ACCOUNT}: refused, {code}")]


def test_a_failure_is_an_error_and_a_suspension_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(SECRET)

    with connect(tmp_path) as opened:
        said(caplog)
        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "discreetly", fail)
            with pytest.raises(dpsql.EngineError):
                opened.sql(QUESTION)
        suspended, failed = said(caplog)
        assert suspended == ("WARNING", f"{ACCOUNT}: account suspended, cause engine")
        assert failed[0] == "ERROR"
        assert re.fullmatch(rf"{ACCOUNT}: failed [0-9a-f]{{12}}, engine_failed", failed[1])
        with pytest.raises(dpsql.LedgerError):
            opened.sql(QUESTION)
        assert said(caplog) == [("INFO", f"{ACCOUNT}: refused, account_suspended")]


@pytest.mark.slow
def test_no_text_no_value_and_no_row_is_logged_by_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(tmp_path) as opened:
        opened.sql(QUESTION).fetchall()
        opened.sql("SELECT s, count(*) FROM visits WHERE s <> ? GROUP BY s", [SECRET]).fetchall()
        opened.sql("SET epsilon = 0.98765")
        for sql in (f"SELECT {SECRET} FROM visits", f"SELECT '{SECRET}"):
            with pytest.raises(dpsql.Error):
                opened.sql(sql)
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert text.count(ACCOUNT) == 5
    for never in (SECRET, "visits", "SELECT", "0.98765", "s1"):
        assert never not in text
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.slow
def test_a_handler_that_fails_does_not_keep_a_failure_from_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("no space is left")

    def fail(*_: object, **__: object) -> None:
        raise ValueError(SECRET)

    with connect(tmp_path) as opened:
        handler = Broken(logging.WARNING)
        logging.getLogger("dpsql").addHandler(handler)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(engine_module, "discreetly", fail)
                with pytest.raises(OSError, match="no space"):
                    opened.sql(QUESTION)
        finally:
            logging.getLogger("dpsql").removeHandler(handler)
        with fails_with("account_suspended"):
            opened.sql(QUESTION)


@pytest.mark.slow
def test_programs_that_do_not_ask_see_nothing(tmp_path: Path) -> None:
    program = f"""
import logging
import dpsql.dbapi.connection
logging.getLogger("dpsql.service.answering").error({SECRET!r})
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (found.stdout, found.stderr) == ("", "")
