"""The owner's side and the analyst's side in one file, on made-up clinic visits.

Run it with ``python examples/quickstart.py``; it needs nothing but dpsql.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

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


def made_up_visits() -> dict[str, np.ndarray]:
    """30,000 visits of 8,000 patients to six wards, one of them with a single patient."""
    random = np.random.default_rng(1)
    wards = np.array(["eyes", "ears", "heart", "lungs", "skin"], dtype="U20")
    visits = {
        "patient_id": random.integers(1, 8_001, 30_000),
        "ward": wards[random.integers(0, 5, 30_000)],
        "cost": random.gamma(2.0, 60.0, 30_000).round(2),
    }
    visits["ward"][7] = "very rare disease"
    return visits


def main() -> None:
    # The owner loads the data. From connect() on, it can only be reached through the policy.
    engine = dpsql.DuckDBEngine()
    engine.register("visits", made_up_visits())

    with tempfile.TemporaryDirectory() as directory:
        ledger = Path(directory) / "budget.db"
        with dpsql.connect(engine, parse_policy(POLICY), ledger, analyst="ana") as connection:
            ask(connection)


def ask(connection: dpsql.Connection) -> None:
    """What an analyst does: look at the price, ask, look at what is left."""
    query = """
        SELECT ward, COUNT(DISTINCT patient_id) AS patients, AVG(cost) AS cost
        FROM visits GROUP BY ward ORDER BY patients DESC
    """
    print(f"This will reserve ε = {connection.explain(query).reserved_epsilon:.3g}.\n")

    answer = connection.sql(query)
    print(answer)

    interval = answer.intervals(0.95)["patients"]
    for (ward, *_), low, high in zip(answer, interval.low, interval.high, strict=True):
        print(f"{ward}: between {low:,.0f} and {high:,.0f} patients")

    try:
        connection.sql("SELECT patient_id, cost FROM visits")
    except dpsql.Error as error:
        print(f"\nRefused: {error}")

    print(f"\n{connection.budget()}")


if __name__ == "__main__":
    main()
