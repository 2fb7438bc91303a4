"""ADBC's driver for PostgreSQL, which reads COPY in binary and describes what it prepares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended

adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


def test_a_connection_asks_is_refused_and_lists_tables(server: Serving) -> None:
    trusted = f"sslmode=verify-full&sslrootcert={server.directory / 'both.pem'}"
    url = f"postgresql://ana:{quote(PASSWORD)}@127.0.0.1:{server.port}/clinic?{trusted}"
    with adbc.connect(url, autocommit=True) as con:
        with con.cursor() as cursor:

            def ask(text: str, *values: object) -> Any:
                cursor.execute(text, values or None)
                return cursor.fetchall()

            ((number,),) = ask("SELECT COUNT(*) FROM visits")
            assert 1900 < number < 2100
            ((number,),) = ask("SELECT COUNT(*) FROM visits WHERE ward = $1", "a")
            assert 900 < number < 1100
            ((number,),) = ask("SELECT COUNT(*) FROM visits WHERE cost > $1::float8", 5.0)
            assert 1900 < number < 2100
            with pytest.raises(adbc.NotSupportedError) as refused:
                ask("SELECT * FROM visits")
            assert refused.value.sqlstate == "0A000"
            assert ask("SELECT beds, [1, 2] AS l FROM wards") == [(3, [1, 2])]
        (catalog,) = con.adbc_get_objects(depth="tables").read_all().to_pylist()
    tables = {s["db_schema_name"]: s["db_schema_tables"] for s in catalog["catalog_db_schemas"]}
    assert [table["table_name"] for table in tables["public"]] == ["visits", "wards"]
