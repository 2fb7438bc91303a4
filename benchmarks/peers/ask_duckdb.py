"""Asks DuckDB without privacy: the plain query that every time is a ratio to."""

from __future__ import annotations

import duckdb
from protocol import Asking, Request, serve

QUERIES = {
    "users": "SELECT item, COUNT(DISTINCT user_id) FROM visits GROUP BY item",
    "sums": "SELECT region, SUM(amount) FROM visits GROUP BY region",
}


def prepare(request: Request) -> Asking:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits AS FROM read_parquet($1)", [request.data])
    query = QUERIES[request.task]
    return Asking(
        asked=f"`{query}`, exactly",
        ask=lambda: connection.execute(query).fetchall(),
        packages=("duckdb",),
    )


if __name__ == "__main__":
    serve(prepare)
