"""Spark sessions of tests: small, quiet, and only where Spark and Java are."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_JAVA = "/usr/lib/jvm/java-17-openjdk-amd64"


def missing() -> str | None:
    """What is missing for tests in Spark, None if nothing is."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: pip install '.[spark]'"
    if not os.environ.get("JAVA_HOME") and Path(_JAVA).is_dir():
        os.environ["JAVA_HOME"] = _JAVA
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Java is not installed: Debian has it as openjdk-17-jre-headless"
    return None


def require() -> None:
    """Skip what needs Spark where it is not, and fail where it must be."""
    reason = missing()
    if reason is not None and os.environ.get("DPSQL_REQUIRE_SPARK") == "1":
        pytest.fail(reason, pytrace=False)
    if reason is not None:
        pytest.skip(reason, allow_module_level=True)


def started(master: str = "local[2]", **settings: str) -> Any:
    """Start a session with a catalog and tables of its own."""
    missing()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("dpsql")
    for name, value in (_small(tempfile.mkdtemp(prefix="dpsql-spark-")) | settings).items():
        builder = builder.config(name, value)
    from dpsql.engines.spark.sessions import prepared

    return prepared(builder.getOrCreate())


def _small(place: str) -> dict[str, str]:
    """The settings of a Spark that keeps what it writes at a place, and is quiet."""
    return {
        "spark.driver.memory": "1g",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": place,
    }


# -- a Spark Connect server ------------------------------------------------------------------------

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def can_connect() -> bool:
    """Whether this pyspark opens sessions beside others on a server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the versions of other packages
        from pyspark.sql.connect.session import SparkSession

    return hasattr(SparkSession, "newSession")


@contextmanager
def served() -> Iterator[str]:
    """Run a Spark Connect server in a process of its own; gives its URL.

    It is of the installed pyspark, or of that in the directory ``DPSQL_SPARK``.
    """
    missing()
    import pyspark

    home = Path(os.environ.get("DPSQL_SPARK") or Path(pyspark.__file__).parent)
    with tempfile.TemporaryDirectory(prefix="dpsql-spark-") as place:
        port = _free_port()
        settings = _small(place) | {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            # With it, a stage that begins as its question is interrupted runs on, and on.
            "spark.sql.adaptive.enabled": "false",
        }
        settings["spark.master"] = "local[2]"
        options = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        server = subprocess.Popen(
            [home / "bin/spark-submit", "--class", _SERVER, *options, "spark-internal"],
            env=os.environ | {"SPARK_HOME": str(home)},
            cwd=place,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await(server, port)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server listens."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        if server.poll() is not None:
            pytest.fail(f"the Spark Connect server ended with {server.returncode}")
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail("the Spark Connect server does not listen")


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])
