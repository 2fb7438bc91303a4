"""DuckDB's own extension for PostgreSQL, where it is installed: nothing is downloaded for it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as found:
        try:
            found.execute("LOAD postgres")
        except duckdb.Error:
            pytest.skip("DuckDB's extension for PostgreSQL is not installed")
        yield found


@pytest.fixture(scope="module")
def server(
    con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


def test_queries_pass_through(con: duckdb.DuckDBPyConnection, server: Serving) -> None:
    trusted = {"sslmode": "verify-full", "sslrootcert": str(server.directory / "both.pem")}
    address = server.address("ana", PASSWORD, **trusted).replace("'", "''")
    con.execute(f"ATTACH '{address}' AS clinic (TYPE postgres, READ_ONLY)")

    def ask(text: str) -> list[tuple[object, ...]]:
        return con.execute("SELECT * FROM postgres_query('clinic', ?)", [text]).fetchall()

    assert ask("SELECT beds FROM wards") == [(3,)]
    assert len(ask("SELECT ward, COUNT(*) FROM visits GROUP BY ward")) == 2
    with pytest.raises(duckdb.Error, match="private table"):
        ask("SELECT * FROM visits")
