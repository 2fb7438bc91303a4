"""Rows that LIMIT chose by their own noise: of their intervals as many hold as is said.

Groups that are alike are the worst case: which of them are shown is decided by noise alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsql
from dpsql import parse_policy
from dpsql.accuracy import intervals

GROUPS, SIZE, LIMIT, K_BAR = 40, 4000, 5, 40
POLICY = """
version: 1
dataset: alike
defaults: {{epsilon: 1.0, delta: 1e-6, max_groups_contributed: 1, k_bar: {k_bar}}}
accounts: {{ana: {{epsilon: 1000, delta: 0.4, composition: {composition}}}}}
tables:
  visits:
    privacy_unit: {{name: patient, column: uid}}
    columns:
      declared: {{domain: [{domain}]}}
"""
UNKNOWN = f"SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT {LIMIT}"
DECLARED = UNKNOWN.replace("k,", "declared,").replace("BY k", "BY declared")


@pytest.fixture(scope="module")
def engine() -> dpsql.DuckDBEngine:
    import pyarrow as pa

    engine = dpsql.DuckDBEngine()
    k = np.repeat(np.arange(GROUPS), SIZE)
    table = pa.table({"uid": np.arange(GROUPS * SIZE), "k": k, "declared": k})
    engine.register("visits", table)
    return engine


@pytest.fixture
def connect(engine: dpsql.DuckDBEngine, tmp_path: Path) -> Callable[[str], dpsql.Connection]:
    def connected(composition: str) -> dpsql.Connection:
        domain = ", ".join(map(str, range(GROUPS)))
        policy = parse_policy(POLICY.format(k_bar=K_BAR, composition=composition, domain=domain))
        return dpsql.connect(engine, policy, tmp_path / f"{composition}.db", "ana")

    return connected


def covered(con: dpsql.Connection, asked: str, confidence: float, **options: Any) -> float:
    """Measure which share of the shown intervals holds the true value."""
    held = shown = 0
    for _ in range(40):
        found = con.sql(asked, fresh=True, combine="off", **options)
        interval = found.intervals(confidence)["n"]
        inside = (interval.low <= SIZE) & (interval.high >= SIZE)
        held, shown = held + int(inside.sum()), shown + len(inside)
    assert shown >= 100
    return held / shown


CASES = [
    ("zcdp", UNKNOWN, "gaussian_top_k"),
    ("zcdp", UNKNOWN, "correlated_top_k"),
    ("basic", UNKNOWN, "laplace_top_k"),
    ("basic", UNKNOWN, "correlated_top_k"),
    ("zcdp", UNKNOWN, "gaussian_positive_counts"),
    ("zcdp", DECLARED, "known_domain"),
]


@pytest.mark.parametrize(("composition", "asked", "mechanism"), CASES)
def test_intervals_hold_where_groups_are_alike(
    connect: Callable[[str], dpsql.Connection], composition: str, asked: str, mechanism: str
) -> None:
    with connect(composition) as con:
        options = {} if mechanism == "known_domain" else {"mechanism": mechanism}
        assert covered(con, asked, 0.9, **options) >= 0.9


@pytest.mark.parametrize(("composition", "asked", "mechanism"), CASES[:2])
def test_intervals_that_forget_the_choice_are_noticed(
    connect: Callable[[str], dpsql.Connection],
    monkeypatch: pytest.MonkeyPatch,
    composition: str,
    asked: str,
    mechanism: str,
) -> None:
    monkeypatch.setattr(
        intervals, "risked_confidence", lambda plan, released, index, confidence: confidence
    )
    with connect(composition) as con:
        assert covered(con, asked, 0.9, mechanism=mechanism) < 0.85
