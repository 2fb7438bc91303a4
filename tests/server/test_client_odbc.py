"""psqlODBC, through pyodbc: catalogs, questions with parameters, refusals.

The driver is that of Debian's odbc-postgresql, or the library that ``DPSQL_PSQLODBC`` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended, not_installed

pyodbc = pytest.importorskip("pyodbc", exc_type=ImportError)  # without unixODBC as well
pytestmark = pytest.mark.slow
USUAL = "/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so"
DRIVER = Path(os.environ.get("DPSQL_PSQLODBC", USUAL))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    if not DRIVER.exists():
        not_installed("psqlODBC")
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


@pytest.fixture
def con(server: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    # libpq reads from here which certificates to trust.
    monkeypatch.setenv("PGSSLROOTCERT", str(server.directory / "both.pem"))
    found = pyodbc.connect(
        f"DRIVER={DRIVER};SERVER=127.0.0.1;PORT={server.port};DATABASE=clinic;UID=ana;"
        f"PWD={PASSWORD};SSLMODE=verify-full",
        autocommit=True,
    )
    yield found
    found.close()


def test_structure_is_that_of_the_policy(con: Any) -> None:
    cursor = con.cursor()
    assert [row.table_name for row in cursor.tables(tableType="TABLE")] == ["visits", "wards"]
    found = [(row.column_name, row.type_name) for row in cursor.columns(table="visits")]
    assert found == [
        *(("patient_id", "int8"), ("cost", "numeric"), ("ward", "text"), ("day", "date")),
    ]
    assert list(cursor.primaryKeys("visits")) == []
    assert list(cursor.foreignKeys("visits")) == []
    assert [row for row in cursor.statistics("visits") if row.index_name] == []


def test_questions_are_answered(con: Any) -> None:
    cursor = con.cursor()
    rows = cursor.execute("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").fetchall()
    assert [row.ward for row in rows] == ["a", "b"]
    assert all(900 < row.n < 1100 for row in rows)
    one = "SELECT COUNT(*) FROM visits WHERE ward = ? AND cost > ?"
    first = cursor.execute(one, "a", 5.0).fetchval()
    assert 900 < first < 1100
    assert cursor.execute(one, "a", 5.0).fetchval() == first
    assert [*cursor.execute("SELECT beds, note FROM wards").fetchone()] == [3, None]


def test_refusals_are_those_of_sql(con: Any) -> None:
    cursor = con.cursor()
    with pytest.raises(pyodbc.Error, match="private table") as refused:
        cursor.execute("SELECT * FROM visits")
    assert refused.value.args[0] == "0A000"
    assert cursor.execute("SELECT beds FROM wards").fetchval() == 3
