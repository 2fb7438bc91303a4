"""Asks Tumult Analytics through a session on Spark, which runs in a Java of its own."""

from __future__ import annotations

import os
import sys
import tempfile

from protocol import Asking, Request, serve
from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    QueryBuilder,
    Session,
)

COLUMNS = {"users": ["user_id", "item"], "sums": ["user_id", "region", "amount"]}
SHARE = 0.5
"""The share of epsilon, beside all of delta, that finds the items; the rest counts their users."""


def private(request: Request, rows: DataFrame) -> Session:
    return Session.from_dataframe(
        ApproxDPBudget(request.epsilon, request.delta),
        "visits",
        rows,
        protected_change=AddRowsWithID("user_id"),
    )


def users(request: Request, rows: DataFrame) -> Asking:
    def ask() -> list[tuple[str, float]]:
        session = private(request, rows)
        bounded = (
            QueryBuilder("visits")
            .enforce(MaxGroupsPerID("item", request.max_groups))
            .enforce(MaxRowsPerGroupPerID("item", 1))
        )
        found = session.evaluate(
            bounded.get_groups(["item"]), ApproxDPBudget(SHARE * request.epsilon, request.delta)
        )
        counts = bounded.groupby(KeySet.from_dataframe(found)).count_distinct("user_id", "users")
        released = session.evaluate(counts, ApproxDPBudget((1 - SHARE) * request.epsilon, 0))
        return [(row["item"], row["users"]) for row in released.collect()]

    return Asking(
        "`Session` on Spark with `AddRowsWithID`, `MaxGroupsPerID(item, 10)`, `get_groups` for ε/2 "
        "and δ, then `groupby(keys).count_distinct(user_id)` for ε/2",
        ask,
        ("tmlt.analytics", "tmlt.core", "pyspark"),
    )


def sums(request: Request, rows: DataFrame) -> Asking:
    keys = KeySet.from_dict({"region": list(request.regions)})
    most = request.max_groups * request.rows_per_group

    def ask() -> list[tuple[str, float]]:
        query = (
            QueryBuilder("visits")
            .enforce(MaxRowsPerID(most))
            .groupby(keys)
            .sum("amount", request.lower, request.upper, "total")
        )
        budget = ApproxDPBudget(request.epsilon, request.delta)
        released = private(request, rows).evaluate(query, budget)
        return [(row["region"], row["total"]) for row in released.collect()]

    return Asking(
        "`Session` on Spark with `AddRowsWithID`, `MaxRowsPerID(100)`, "
        "`groupby(KeySet).sum(amount, 0, 100)`",
        ask,
        ("tmlt.analytics", "tmlt.core", "pyspark"),
    )


def prepare(request: Request) -> Asking:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # its workers need this environment too
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", 2 * (os.cpu_count() or 1))
        .config("spark.sql.warehouse.dir", tempfile.mkdtemp())
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    rows = spark.read.parquet(request.data).select(*COLUMNS[request.task]).cache()
    rows.count()  # so that the clock does not see the file read
    return {"users": users, "sums": sums}[request.task](request, rows)


if __name__ == "__main__":
    serve(prepare)
