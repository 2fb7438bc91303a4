"""DuckDB passes the suite of all engines: it is compared with itself, under other salts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engine_suite import EngineSuite
from worlds import DuckDBWorld


@pytest.mark.slow  # the quick tests of rewriting ask DuckDB anyway
class TestDuckDB(EngineSuite):
    """The suite on DuckDB."""

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls) -> Iterator[DuckDBWorld]:
        """A DuckDB of its own."""
        world = DuckDBWorld()
        yield world
        world.close()
