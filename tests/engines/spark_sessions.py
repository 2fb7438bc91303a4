"""Spark sessions of tests: small, quiet, and only where Spark and Java are."""

from __future__ import annotations

import os
import shutil
import tempfile
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

    place = tempfile.mkdtemp(prefix="dpsql-spark-")
    builder = SparkSession.builder.master(master).appName("dpsql")
    for name, value in {
        "spark.driver.memory": "1g",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{place}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": place,
        **settings,
    }.items():
        builder = builder.config(name, value)
    from dpsql.engines.spark_sessions import prepared

    return prepared(builder.getOrCreate())
