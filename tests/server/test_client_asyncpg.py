"""asyncpg, which speaks the protocol itself: always prepared, always binary."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.serving import PASSWORD, Serving, encrypted, ended

asyncpg = pytest.importorskip("asyncpg")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    found = encrypted(tmp_path_factory.mktemp("served"))
    yield found
    ended(found)


def login(server: Serving) -> dict[str, Any]:
    trusted = ssl.create_default_context(cafile=str(server.directory / "both.pem"))
    where = {"host": "127.0.0.1", "port": server.port, "database": "clinic", "ssl": trusted}
    return {**where, "user": "ana", "password": PASSWORD}


def test_a_connection_asks_and_is_refused(server: Serving) -> None:
    async def asked() -> None:
        con = await asyncpg.connect(**login(server))
        wards = await con.fetch("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
        assert [row["ward"] for row in wards] == ["a", "b"]
        with_values = "SELECT COUNT(*) FROM visits WHERE ward = $1 AND cost > $2::float8"
        assert 900 < await con.fetchval(with_values, "a", 5.0) < 1100
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="private table") as refused:
            await con.fetch("SELECT * FROM visits")
        assert refused.value.sqlstate == "0A000"
        async with con.transaction():
            assert [row async for row in con.cursor("SELECT beds FROM wards")] == [(3,)]
        await con.close()

    asyncio.run(asked())


def test_tables_and_types_are_looked_up(server: Serving) -> None:
    async def asked() -> None:
        con = await asyncpg.connect(**login(server))
        tables = "SELECT relname FROM pg_class WHERE relname = ANY($1) AND relnamespace = $2::oid"
        assert await con.fetch(tables, ["visits", "x"], 2200) == [("visits",)]
        of_schemas = "SELECT relname FROM pg_class WHERE relnamespace = ANY($1::oid[]) ORDER BY 1"
        assert await con.fetch(of_schemas, [2200]) == [("visits",), ("wards",)]
        lists = "SELECT [1, 2]::BIGINT[] AS a, [DATE '2026-01-02'] AS b"
        row = await con.fetchrow(lists)
        assert row["a"] == [1, 2]
        await con.set_type_codec("json", encoder=str, decoder=str, schema="pg_catalog")
        with pytest.raises(ValueError, match="unknown type"):
            await con.set_builtin_type_codec("hstore", codec_name="pg_contrib.hstore")
        await con.close()

    asyncio.run(asked())


def test_a_pool_takes_connections_back_and_a_timeout_cancels(server: Serving) -> None:
    async def asked() -> None:
        async with asyncpg.create_pool(**login(server), min_size=1, max_size=3) as pool:
            counts = [pool.fetchval("SELECT beds FROM wards") for _ in range(6)]
            assert await asyncio.gather(*counts) == [3] * 6
            long = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c"
            with pytest.raises(TimeoutError):
                await pool.fetchval(long, timeout=0.5)
            assert await pool.fetchval("SELECT beds FROM wards") == 3

    asyncio.run(asked())
