"""Asks Qrlew to rewrite SQL, and DuckDB to run what it wrote, in Qrlew's PostgreSQL dialect."""

from __future__ import annotations

import math

import duckdb
import pyqrlew
import sqlalchemy
from protocol import Asking, Request, serve

QUERIES = {
    # It counts a user's rows where it is asked to count users, so each pair is one row.
    "users": (
        "SELECT item, COUNT(*) AS users FROM (SELECT DISTINCT user_id, item FROM visits) AS pairs "
        "GROUP BY item"
    ),
    "sums": "SELECT region, SUM(amount) AS total FROM visits GROUP BY region",
}


def described(request: Request, rows: int) -> pyqrlew.Dataset:
    """The columns and the number of rows, which is all that Qrlew is given of the data.

    It learns them from a database, so one is made that has no data.
    """
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                "CREATE TABLE visits (user_id INTEGER, item TEXT, region TEXT, amount INTEGER)"
            )
        )
        connection.execute(
            sqlalchemy.text(
                "INSERT INTO visits WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                f"WHERE i < {rows}) SELECT NULL, NULL, NULL, NULL FROM n"
            )
        )
    dataset = pyqrlew.dataset_from_database("peers", engine)
    dataset = dataset.visits.amount.with_range(request.lower, request.upper)
    if request.task == "sums":
        dataset = dataset.visits.region.with_possible_values(list(request.regions))
    return dataset


def prepare(request: Request) -> Asking:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits AS FROM read_parquet($1)", [request.data])
    (rows,) = connection.execute("SELECT COUNT(*) FROM visits").fetchone()
    dataset = described(request, rows)
    # It clips the norm of what a user adds to all groups: as much as ten groups are allowed.
    each = 1 if request.task == "users" else request.rows_per_group
    norm = math.sqrt(request.max_groups) * each

    def ask() -> list[tuple[str, float]]:
        rewritten = dataset.relation(QUERIES[request.task]).rewrite_with_differential_privacy(
            dataset,
            [("visits", [], "user_id")],
            {"epsilon": request.epsilon, "delta": request.delta},
            max_multiplicity=norm,
            max_multiplicity_share=1.0,
            max_privacy_unit_groups=request.max_groups,
        )
        sql = rewritten.relation().to_query(pyqrlew.Dialect.PostgreSql)
        return connection.execute(sql).fetchall()

    return Asking(
        f"`rewrite_with_differential_privacy` of `{QUERIES[request.task]}` with "
        f"`max_multiplicity={norm:.2f}`, `max_privacy_unit_groups={request.max_groups}`"
        + ("" if request.task == "users" else ", `with_possible_values`")
        + "; its PostgreSQL run by DuckDB",
        ask,
        ("pyqrlew", "duckdb"),
        ("Noise is the engine's RANDOM() in floating point.",),
    )


if __name__ == "__main__":
    serve(prepare)
