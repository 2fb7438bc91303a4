"""The versions of servers that the package has verdicts on, and dialects by two of these."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from dpsql.engines.evidence.verdicts import EngineVersion, verdicts_on
from dpsql.engines.postgresql.dialect import PostgreSQLDialect
from dpsql.engines.spark.dialect import SparkDialect

SHIPPED: Final = [
    EngineVersion(engine, version)
    for engine, _, version in sorted(
        each.name.removesuffix(".json").partition("-")
        for each in files("dpsql.engines.evidence").joinpath("surveys").iterdir()
        if each.name.endswith(".json")
    )
]
SERVERS: Final = [version for version in SHIPPED if version.engine != "duckdb"]

POSTGRESQL: Final = PostgreSQLDialect(verdicts_on(EngineVersion("postgresql", "15")))
SPARK: Final = SparkDialect(verdicts_on(EngineVersion("spark", "4.3")))
