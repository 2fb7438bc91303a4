"""A table that says when its rows happened, for tests of materialized views, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.dbapi.connection import Connection
from dpsql.views import views as views_module

ROWS = """
CREATE TABLE plays AS SELECT (range * 7919 % 400) AS user_id, 'a' || (range * 31 % 6) AS artist,
    TIMESTAMP '2026-01-01' + INTERVAL (range * 3) MINUTE AS played_at, (range % 9 - 4) AS score
FROM range(4800);
"""  # ten days
WITH = "WITH (step = '1 day', start = '2026-01-01', steps = 12, epsilon = 20, delta = 1e-4)"
COUNTED = "SELECT artist, COUNT(DISTINCT user_id) AS users FROM plays GROUP BY artist"
REFRESH = "REFRESH MATERIALIZED VIEW v"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the day of January 2026 that it is."""

    def set_day(day: int) -> None:
        now = datetime(2026, 1, day, 0, 30, tzinfo=UTC)
        monkeypatch.setattr(views_module, "_now", lambda: now)

    set_day(1)
    return set_day


def change(place: Path, sql: str) -> None:
    """Change the owner's data."""
    with duckdb.connect(str(place / "x.duckdb")) as owner:
        owner.execute(sql)


def rows(connection: Connection, sql: str = "SELECT * FROM v ORDER BY ALL") -> list[Any]:
    """The rows of an answer."""
    return list(connection.sql(sql))


def spent(connection: Connection) -> float:
    """What the analyst has spent."""
    return connection.budget().accounts[0].spent.loss.rho
