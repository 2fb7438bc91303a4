"""JupySQL finds tables and columns, and draws what can be answered. Skipped where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from helpers.support import FILL, policy, world_file
from IPython.core.interactiveshell import InteractiveShell

import dpsql

pytest.importorskip("sql.magic", reason="JupySQL is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with world_file(tmp_path / "world.duckdb", *FILL) as path:
        engine = sqlalchemy.create_engine(
            f"dpsql:///{path}?analyst=ana&ledger={tmp_path / 'budget.db'}",
            connect_args={"policies": policy()},  # one per pool
        )
        shell = InteractiveShell()
        shell.user_ns["engine"] = engine
        shell.run_line_magic("load_ext", "sql")
        shell.run_line_magic("sql", "engine")
        yield shell
        engine.dispose()


def spent(shell: InteractiveShell) -> float:
    with shell.user_ns["engine"].connect() as connection:
        rows: list[Any] = connection.exec_driver_sql("SHOW BUDGET").all()
    return next(float(row.spent) for row in rows if row.quantity == "rho")


def test_tables_and_columns_are_found_at_no_cost(shell: InteractiveShell) -> None:
    tables = str(shell.run_line_magic("sqlcmd", "tables"))
    assert "visits" in tables
    assert "secret" not in tables
    columns = str(shell.run_line_magic("sqlcmd", "columns -t visits"))
    assert "amount" in columns
    assert "DECIMAL" in columns.upper() or "NUMERIC" in columns.upper()
    assert spent(shell) == 0


def test_bars_of_a_private_table_are_drawn_and_paid_for(shell: InteractiveShell) -> None:
    axes = shell.run_line_magic("sqlplot", "bar --table visits --column c")
    assert axes.patches
    assert spent(shell) > 0


def test_a_histogram_lies_between_private_ends(shell: InteractiveShell) -> None:
    axes = shell.run_line_magic("sqlplot", "histogram --table visits --column n --bins 3")
    assert axes.patches
    assert spent(shell) > 0


def test_what_cannot_be_answered_says_why(shell: InteractiveShell) -> None:
    with pytest.raises(sqlalchemy.exc.NotSupportedError) as refused:
        shell.run_line_magic("sqlplot", "bar --table visits --column Uid")
    assert isinstance(refused.value.orig, dpsql.QueryRefused)
    assert spent(shell) == 0
