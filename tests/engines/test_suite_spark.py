"""Spark passes the suite of all engines, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from spark_sessions import require

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()

from engine_suite import EngineSuite  # noqa: E402
from spark_world import SparkWorld  # noqa: E402


class TestSpark(EngineSuite):
    """The suite on a local Spark."""

    @pytest.fixture(scope="class")
    @classmethod
    def world(cls) -> Iterator[SparkWorld]:
        """A session with a catalog of its own."""
        world = SparkWorld()
        yield world
        world.close()
