"""Asks dpsql through SQL, of an account whose costs add up as epsilons and deltas."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
from protocol import Asking, Request, serve

import dpsql
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition


def policy(request: Request) -> Policy:
    columns = {"amount": ColumnPolicy(lower=request.lower, upper=request.upper)}
    if request.task == "sums":
        columns["region"] = ColumnPolicy(domain=request.regions)
    return Policy(
        dataset="peers",
        defaults=Parameters(epsilon=request.epsilon, delta=request.delta),
        accounts={"bench": AccountPolicy("bench", 1000.0, 0.01, Composition.BASIC)},
        tables={"visits": TablePolicy("visits", PrivacyUnit("user", "user_id"), columns)},
    )


def question(request: Request) -> str:
    if request.task == "users":
        return "SELECT item, COUNT(DISTINCT user_id) FROM visits GROUP BY item"
    bounds = f"contribution_bounds_per_group => (0, {request.most_per_group})"
    return f"SELECT region, SUM(amount, {bounds}) FROM visits GROUP BY region"


def prepare(request: Request) -> Asking:
    folder = Path(tempfile.mkdtemp())
    database = folder / "peers.duckdb"
    with duckdb.connect(str(database)) as writer:
        writer.execute("CREATE TABLE visits AS FROM read_parquet($1)", [request.data])
    connection = dpsql.connect(database, policy(request), folder / "budget.db", "bench")
    sql = question(request)
    parameters: dict[str, Any] = {
        "max_groups_contributed": "auto" if request.auto else request.max_groups
    }

    def ask() -> list[tuple[Any, ...]]:
        result = connection.sql(sql, fresh=True, **parameters)
        assert result.cost.settled.epsilon <= request.epsilon
        assert result.cost.settled.delta <= request.delta
        return result.fetchall()

    (groups,) = parameters.values()
    return Asking(f"`{sql}` with `max_groups_contributed={groups}`", ask, ("dpsql", "duckdb"))


if __name__ == "__main__":
    serve(prepare)
