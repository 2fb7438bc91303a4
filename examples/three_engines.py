"""One policy and one question, asked of Parquet files, of PostgreSQL and of Spark.

``python examples/three_engines.py`` makes up a directory of Parquet files and asks it. What changes
for another engine is the place that is asked: ``… three_engines.py postgresql://reader@host/clinic``
asks a server that has the table ``visits``, ``… three_engines.py spark`` a Spark session of this
machine, which needs ``pip install '.[spark]'`` and Java.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpsql
from dpsql import parse_policy

POLICY = """
version: 1
dataset: clinic
defaults: {epsilon: 1.0, delta: 1e-8, max_groups_contributed: 3}
accounts:
  ana: {epsilon: 3.0, delta: 1e-6}
tables:
  visits:
    privacy_unit: {name: patient, column: patient_id}
    columns:
      cost: {lower: 0, upper: 500}
"""
QUESTION = """
    SELECT ward, COUNT(DISTINCT patient_id) AS patients, AVG(cost) AS mean_cost
    FROM visits GROUP BY ward ORDER BY patients DESC
"""


def made_up(directory: Path) -> Path:
    """Write 30,000 visits of 8,000 patients as two Parquet files."""
    random = np.random.default_rng(1)
    wards = np.array(["eyes", "ears", "heart", "lungs", "skin"])
    visits = pa.table(
        {
            "patient_id": random.integers(1, 8_001, 30_000),
            "ward": wards[random.integers(0, 5, 30_000)],
            "cost": random.gamma(2.0, 60.0, 30_000).round(2),
        }
    )
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(visits.slice(0, 15_000), directory / "1.parquet")
    pq.write_table(visits.slice(15_000), directory / "2.parquet")
    return directory


def spark_session(files: Path) -> Any:
    """Start Spark on this machine, with the files as a table of its catalog."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(files.with_name("warehouse").resolve()))
        .getOrCreate()
    )
    spark.read.parquet(str(files.resolve())).write.mode("overwrite").saveAsTable("visits")
    return spark


def main(word: str, directory: Path) -> None:
    """Ask the place that a word names."""
    place: Any = word if "://" in word else made_up(directory / "visits")
    if word == "spark":
        place = spark_session(place)
    if isinstance(place, Path):  # files are read whole once, before anybody asks
        place = dpsql.DuckDBEngine(files={"visits": place})
        place.prove()
    with dpsql.connect(
        place, policies=parse_policy(POLICY), ledger=str(directory / "budget.db"), analyst="ana"
    ) as connection:
        print(connection.sql(QUESTION))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "files", Path("engines-data"))
