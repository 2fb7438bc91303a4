"""pg8000, which speaks the protocol itself: prepared, and text."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended

pg8000 = pytest.importorskip("pg8000.dbapi")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


def test_a_connection_asks_is_refused_and_lists_tables(server: Serving) -> None:
    trusted = ssl.create_default_context(cafile=str(server.directory / "both.pem"))
    where = {"host": "127.0.0.1", "port": server.port, "database": "clinic"}
    con = pg8000.connect("ana", password=PASSWORD, ssl_context=trusted, **where)
    cursor = con.cursor()

    def ask(text: str, *values: object) -> Any:
        cursor.execute(text, values)
        return cursor.fetchall()

    ((number,),) = ask("SELECT COUNT(*) FROM visits WHERE ward = %s AND cost > %s", "a", 5)
    assert 900 < number < 1100
    assert ask("SELECT COUNT(*) FROM visits WHERE day > %s", date(2026, 1, 2))
    with pytest.raises(pg8000.DatabaseError) as refused:
        ask("SELECT * FROM visits")
    assert refused.value.args[0]["C"] == "0A000"
    with pytest.raises(pg8000.DatabaseError, match="25P02"):
        ask("SELECT beds FROM wards")
    con.rollback()
    listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1"
    assert ask(listed, "public") == (["visits"], ["wards"])
    assert ask("SELECT relname FROM pg_class WHERE relname = ANY(%s)", ["wards", "x"]) == (
        ["wards"],
    )
    con.commit()
    con.close()
