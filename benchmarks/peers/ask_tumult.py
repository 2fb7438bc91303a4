"""Asks Tumult Analytics through a session on Spark, which runs in a Java of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from protocol import Asking, Request, serve
from pyspark.sql import DataFrame, SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    ColumnType,
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
    keys = KeySet.from_dict({"place": list(request.regions)})
    most = request.most_per_group

    def clamped(visits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        totals: dict[str, int] = {}
        for visit in visits:
            totals[visit["region"]] = totals.get(visit["region"], 0) + visit["amount"]
        return [{"place": region, "total": min(total, most)} for region, total in totals.items()]

    def ask() -> list[tuple[str, float]]:
        query = (
            QueryBuilder("visits")
            .flat_map_by_id(clamped, {"place": ColumnType.VARCHAR, "total": ColumnType.INTEGER})
            .enforce(MaxRowsPerID(request.max_groups))
            .groupby(keys)
            .sum("total", request.lower, most, "sum")
        )
        budget = ApproxDPBudget(request.epsilon, request.delta)
        released = private(request, rows).evaluate(query, budget)
        return [(row["place"], row["sum"]) for row in released.collect()]

    return Asking(
        "`Session` on Spark with `AddRowsWithID`, `flat_map_by_id` into a user's clamped sums, "
        "`MaxRowsPerID(20)`, `groupby(KeySet).sum(total, 0, 1000)`",
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
