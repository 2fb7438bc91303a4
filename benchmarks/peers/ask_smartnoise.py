"""Asks SmartNoise SQL through its reader of an SQLite database."""

from __future__ import annotations

import sqlite3
from typing import Any

import pyarrow.parquet as pq
import snsql
from protocol import Asking, Request, serve

QUERIES = {
    "users": "SELECT item, COUNT(DISTINCT user_id) AS users FROM main.visits GROUP BY item",
    "sums": "SELECT region, SUM(amount) AS total FROM main.visits GROUP BY region",
}


def metadata(request: Request) -> dict[str, Any]:
    """What SmartNoise is told: whose rows, at most how many of them, and bounds.

    Regions are declared by switching off the threshold that undeclared keys have to pass.
    """
    rows = 1 if request.task == "users" else request.rows_per_group
    return {
        "": {
            "main": {
                "visits": {
                    "max_ids": request.max_groups * rows,
                    "sample_max_ids": True,
                    "censor_dims": request.task == "users",
                    "clamp_counts": False,
                    "clamp_columns": True,
                    "use_dpsu": False,
                    "user_id": {"type": "int", "private_id": True},
                    "item": {"type": "string"},
                    "region": {"type": "string"},
                    "amount": {"type": "int", "lower": request.lower, "upper": request.upper},
                }
            }
        }
    }


def loaded(data: str) -> sqlite3.Connection:
    table = pq.read_table(data)
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE visits (user_id INTEGER, item TEXT, region TEXT, amount INTEGER)"
    )
    columns = (table[name].to_pylist() for name in ("user_id", "item", "region", "amount"))
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", zip(*columns, strict=True))
    connection.commit()
    return connection


def prepare(request: Request) -> Asking:
    connection = loaded(request.data)
    privacy = snsql.Privacy(epsilon=request.epsilon, delta=request.delta)
    query = QUERIES[request.task]

    def ask() -> list[tuple[str, float]]:
        reader = snsql.from_connection(
            connection, privacy=privacy, metadata=metadata(request), engine="sqlite"
        )
        _, *rows = reader.execute(query)
        return [(row[0], row[1]) for row in rows]

    sampled = metadata(request)[""]["main"]["visits"]["max_ids"]
    reader = snsql.from_connection(
        connection, privacy=privacy, metadata=metadata(request), engine="sqlite"
    )
    epsilon, delta = (float(cost) for cost in reader.get_privacy_cost(query))
    return Asking(
        f"`from_connection` of SQLite, `{query}` with `max_ids={sampled}` rows of a user sampled, "
        f"`censor_dims={request.task == 'users'}`",
        ask,
        ("smartnoise-sql", "opendp"),
        (f"Its own odometer states a cost of ε = {epsilon:g}, δ = {delta:.2g}.",),
    )


if __name__ == "__main__":
    serve(prepare)
