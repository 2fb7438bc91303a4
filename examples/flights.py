"""Flights from New York: where does an airline fly, and with how many of its aircraft?

Run ``dpsql demo`` first, then this from the same directory: ``python examples/flights.py``.
Another directory of the demo can be named as an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dpsql

AIRLINE = "B6"  # JetBlue


def main(directory: Path) -> None:
    with dpsql.connect(
        directory / "demo.duckdb",
        policies=Path(__file__).parent.parent / "policies.yaml",
        ledger=directory / "demo-budget.db",
        analyst="ana",
    ) as connection:
        # An aircraft may have flown anywhere, so no limit on the groups it touches: top-k can
        # bear that, and what does not come out is not paid for.
        print(f"Where {AIRLINE} flies with the most aircraft:\n")
        airports = connection.sql(
            f"""
            SELECT dest, COUNT(DISTINCT tailnum) AS aircraft FROM flights
            WHERE carrier = '{AIRLINE}' GROUP BY dest ORDER BY aircraft DESC LIMIT 5
            """,
            epsilon=2.0,
            max_groups_contributed="unlimited",
        )
        print(airports)

        # Declared keys are all answered. Joins and arithmetic on released values are free.
        print("\nIts share of the aircraft seen at each airport:\n")
        shares = connection.sql(
            f"""
            SELECT origin, own, everyone, ROUND(100.0 * own / everyone, 1) AS percent
            FROM (SELECT origin, COUNT(DISTINCT tailnum) AS everyone FROM flights GROUP BY origin)
            JOIN (SELECT origin, COUNT(DISTINCT tailnum) AS own FROM flights
                  WHERE carrier = '{AIRLINE}' GROUP BY origin) USING (origin)
            ORDER BY percent DESC
            """
        )
        print(shares)
        print(f"\n{connection.budget()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-data"))
