"""Polars: frames by ADBC's driver, by psycopg and by an address."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended

polars = pytest.importorskip("polars")
adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
pytestmark = pytest.mark.slow
QUESTION = "SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward ORDER BY ward"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


def address(server: Serving) -> str:
    trusted = f"sslmode=verify-full&sslrootcert={server.directory / 'both.pem'}"
    return f"postgresql://ana:{quote(PASSWORD)}@127.0.0.1:{server.port}/clinic?{trusted}"


def test_frames_are_the_same_by_every_driver(server: Serving) -> None:
    trusted = {"sslmode": "verify-full", "sslrootcert": str(server.directory / "both.pem")}
    with adbc.connect(address(server), autocommit=True) as con:
        by_adbc = polars.read_database(QUESTION, con)
        with pytest.raises(adbc.NotSupportedError):
            polars.read_database("SELECT * FROM visits", con)
    with psycopg.connect(server.address("ana", PASSWORD, **trusted), autocommit=True) as found:
        by_psycopg = polars.read_database(QUESTION, found)
    by_address = polars.read_database_uri(QUESTION, address(server), engine="adbc")
    assert by_adbc.schema == {"ward": polars.String, "n": polars.Int64, "c": polars.Float64}
    assert by_adbc["ward"].to_list() == ["a", "b"]
    assert all(900 < count < 1100 for count in by_adbc["n"])
    for other in (by_psycopg, by_address):
        assert other.rows() == by_adbc.rows()


def test_parameters_are_values(server: Serving) -> None:
    asked = "SELECT COUNT(*) AS n FROM visits WHERE ward = $1"
    with adbc.connect(address(server), autocommit=True) as con:
        found = polars.read_database(asked, con, execute_options={"parameters": ("a",)})
    assert 900 < found["n"][0] < 1100
