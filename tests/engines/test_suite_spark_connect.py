"""Spark passes the suite of all engines on a Spark Connect server, too, where pyspark has sessions
beside others there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from spark_sessions import can_connect, require, served

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore"),  # of pyspark's own
]
require()
if not can_connect():
    pytest.skip("this pyspark opens no sessions beside others", allow_module_level=True)

from engine_suite import EngineSuite  # noqa: E402
from spark_world import SparkWorld  # noqa: E402


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server in a process of its own."""
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def world(url: str) -> Iterator[SparkWorld]:
    """Tables on that server, which an owner's session has written."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(url).create()
    world = SparkWorld(session)
    yield world
    world.close()
    session.stop()


class TestSparkConnect(EngineSuite):
    """The suite on a Spark Connect server."""
