"""The first plans of a process: nothing is imported for them that takes long to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

PLANS = """
import sys
import dpsql

engine = dpsql.DuckDBEngine()
engine.register("t", {"u": [1, 2], "k": ["a", "b"]}, types={"u": "BIGINT", "k": "VARCHAR"})
policy = dpsql.parse_policy('''
version: 1
dataset: first
defaults: {epsilon: 1.0, delta: 1e-8}
accounts: {ana: {epsilon: 3.0, delta: 1e-6}}
tables:
  t: {privacy_unit: {name: person, column: u}}
''')
with dpsql.connect(engine, policy, ledger=sys.argv[1], analyst="ana") as con:
    con.explain(sys.argv[2])
print("scipy" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["count(*)", "count(DISTINCT u)", "avg(u)"])
def test_no_top_k_waits_for_scipy(measure: str, tmp_path: object) -> None:
    question = f"SELECT k, {measure} FROM t GROUP BY k ORDER BY 2 DESC LIMIT 1"
    found = subprocess.run(
        [sys.executable, "-c", PLANS, f"{tmp_path}/budget.db", question],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert found.stdout.strip() == "False"
