"""DuckDB's own extension for PostgreSQL, in the version that its wheel is for.

Both lie in a directory of their own, ``duckdb-postgres`` of the environment (``make tools``), or
the one that ``DPSQL_DUCKDB_POSTGRES`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended, not_installed

pytestmark = pytest.mark.slow
PACKAGES = Path(os.environ.get("DPSQL_DUCKDB_POSTGRES", Path(sys.prefix) / "duckdb-postgres"))
PROGRAM = """
import json, sys
import duckdb
extension, address, *asked = json.loads(sys.argv[1])
con = duckdb.connect(config={"autoinstall_known_extensions": "false"})
con.execute(f"LOAD '{extension}'")
con.execute(f"ATTACH '{address}' AS clinic (TYPE postgres, READ_ONLY)")
found = []
for text in asked:
    try:
        found.append(con.execute(text).fetchall())
    except duckdb.Error as error:
        found.append(str(error))
print(json.dumps(found, default=str))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    if not extensions():
        not_installed("DuckDB's extension for PostgreSQL")
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


def extensions() -> list[Path]:
    return sorted(PACKAGES.rglob("postgres_scanner.duckdb_extension"))


def asked(server: Serving, *statements: str) -> list[Any]:
    trusted = {"sslmode": "verify-full", "sslrootcert": str(server.directory / "both.pem")}
    address = server.address("ana", PASSWORD, **trusted).replace("'", "''")
    given = json.dumps([str(extensions()[0]), address, *statements])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, given],
        env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])  # after the bar of its progress
    return found


def passed(text: str) -> str:
    return f"SELECT * FROM postgres_query('clinic', '{text}')"


def test_queries_pass_through(server: Serving) -> None:
    question = passed("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    beds, counts, again, refused = asked(
        server,
        passed("SELECT beds FROM wards"),
        question,
        question,
        passed("SELECT * FROM visits"),
    )
    assert beds == [[3]]
    assert [ward for ward, _ in counts] == ["a", "b"]
    assert all(900 < n < 1100 for _, n in counts)
    assert again == counts
    assert "private table" in refused


def test_tables_are_attached(server: Serving) -> None:
    tables, wards, refused = asked(
        server, "SHOW TABLES FROM clinic", "SELECT * FROM clinic.wards", "FROM clinic.visits"
    )
    assert tables == [["visits"], ["wards"]]
    assert wards == [["a", 3, None]]
    assert "private" in refused
