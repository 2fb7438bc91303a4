"""The dialects of the servers that tests run on, by what the package knows of these versions."""

from __future__ import annotations

from typing import Final

from dpsql.engines.evidence.verdicts import EngineVersion, verdicts_on
from dpsql.engines.postgresql.dialect import PostgreSQLDialect
from dpsql.engines.spark.dialect import SparkDialect

POSTGRESQL: Final = PostgreSQLDialect(verdicts_on(EngineVersion("postgresql", "15")))
SPARK: Final = SparkDialect(verdicts_on(EngineVersion("spark", "4.3")))
