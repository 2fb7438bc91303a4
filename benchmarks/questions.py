"""The table and the questions that every engine is measured with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

SEED = 20240607
ANALYST = "bench"
TABLE = "plays"


@dataclass(frozen=True)
class Question:
    """A question, which is also the plain query, and the parameters that dpsql is given."""

    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


_UNITS = f"SELECT item, COUNT(DISTINCT uid) AS n FROM {TABLE} GROUP BY item"
_ROWS = f"SELECT item, COUNT(*) AS n FROM {TABLE} GROUP BY item"
QUESTIONS = {
    "units by item": Question(_UNITS),
    "rows by item": Question(_ROWS),
    "rows by item, units weighted": Question(_ROWS, {"contribution_bounding": "weight"}),
    "top 10 items by units": Question(f"{_UNITS} ORDER BY n DESC LIMIT 10"),
    "sum and average by 20 categories": Question(
        f"SELECT kind, SUM(x) AS s, AVG(x) AS a FROM {TABLE} GROUP BY kind"
    ),
    "four aggregates by 20 categories": Question(
        f"SELECT kind, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, VARIANCE(x) AS v FROM {TABLE} "
        "GROUP BY kind"
    ),
    "median by 20 categories": Question(
        f"SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS m FROM {TABLE} "
        "GROUP BY kind"
    ),
    "median by item": Question(
        f"SELECT item, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS m FROM {TABLE} "
        "GROUP BY item"
    ),
    "items by 20 categories": Question(
        f"SELECT kind, COUNT(DISTINCT item) AS n FROM {TABLE} GROUP BY kind"
    ),
    "items": Question(f"SELECT DISTINCT item FROM {TABLE}"),
}


def rows(count: int) -> pa.Table:
    """Draw rows of a tenth as many units, of up to 80,000 items, of 20 categories; the same ones.

    Few units have many rows, and few items.
    """
    drawn = np.random.default_rng(SEED)
    return pa.table(
        {
            "uid": np.floor(drawn.random(count) ** 2 * (count // 10)).astype(np.int64),
            "item": np.floor(drawn.random(count) ** 3 * 80_000).astype(np.int32),
            "kind": drawn.integers(0, 20, count).astype(np.int32),
            "x": drawn.random(count) * 100,
        }
    )


def policy() -> Policy:
    """Write a policy of the table and of a large account.

    Numbers of groups and rows are given, so that nothing is looked at or found beside answers.
    """
    columns = {"x": ColumnPolicy(0, 100), "kind": ColumnPolicy(domain=tuple(range(20)))}
    return Policy(
        "bench",
        defaults=Parameters(
            epsilon=1.0,
            delta=1e-7,
            max_groups_contributed=10,
            max_rows_contributed=10,
            left_out_share=0.0,
        ),
        accounts={ANALYST: AccountPolicy(ANALYST, 1000.0, 1e-2)},
        tables={TABLE: TablePolicy(TABLE, PrivacyUnit("person", "uid"), columns)},
    )
