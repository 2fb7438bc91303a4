"""PostgreSQL passes the suite of all engines, on a real server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from engine_suite import EngineSuite
from helpers.postgresql_server import Server
from postgresql_world import PostgreSQLWorld

pytestmark = pytest.mark.slow  # they start a server

pytest.importorskip("adbc_driver_postgresql", reason="the driver is not installed")


class TestPostgreSQL(EngineSuite):
    """The suite on a server of this test run."""

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls, postgres_server: Server) -> Iterator[PostgreSQLWorld]:
        """A database of this process."""
        world = PostgreSQLWorld(postgres_server, f"suite_{os.getpid()}")
        yield world
        world.close()
