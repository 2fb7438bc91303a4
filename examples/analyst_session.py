"""An analyst's session: real questions about flights from New York in 2013, and what they cost.

Run ``dpsql demo`` first (it needs ``pip install '.[demo]'``), then this from the same
directory: ``python examples/analyst_session.py``. Another directory of the demo can be named as an
argument. Single aircraft are protected: everything that one tail number did in that year.
"""

from __future__ import annotations

import sys
from pathlib import Path

import dpsql

POLICIES = Path(__file__).parent.parent / "policies.yaml"


def main(directory: Path) -> None:
    with dpsql.connect(
        directory / "demo.duckdb", POLICIES, directory / "demo.budget.db", analyst="ana"
    ) as connection:
        price(connection)
        averages(connection)
        largest(connection)
        rows_per_aircraft(connection)
        two_answers(connection)
        refused(connection)
        print(f"\n{connection.budget()}")


def price(connection: dpsql.Connection) -> None:
    """What is there, and what will it cost? Neither question costs anything."""
    print(connection.sql("SHOW TABLES"))
    query = "SELECT origin, MEDIAN(distance) AS miles FROM flights GROUP BY origin"
    for epsilon in (0.25, 0.5, 1.0):
        plan = connection.explain(query, epsilon=epsilon)
        (figure,) = plan.blocks[0].columns
        print(f"ε {epsilon}: the median is off by at most {figure.margin95:,.0f} rows")


def averages(connection: dpsql.Connection) -> None:
    """Is one airline later than another? The intervals say whether the data can tell.

    The question's own bounds are tighter than the policy's, so there is less noise. Delays beyond
    an hour then count as an hour, in the answer without noise too.
    """
    print("\nMean departure delay of three airlines, delays from -20 to 60 minutes:\n")
    answer = connection.sql(
        """
        SELECT carrier, AVG(dep_delay, contribution_bounds_per_row => (-20, 60)) AS delay
        FROM flights
        WHERE carrier IN ('EV', 'UA', 'US') GROUP BY carrier ORDER BY carrier
        """,
        epsilon=2.0,
        max_groups_contributed=1,  # an aircraft flies for one airline
        max_rows_contributed=50,
    )
    interval = answer.intervals()["delay"]
    rows = {
        row[0]: (low, high)
        for row, low, high in zip(answer, interval.low, interval.high, strict=True)
    }
    for carrier in ("EV", "UA", "US"):
        print(f"{carrier}: between {rows[carrier][0]:.1f} and {rows[carrier][1]:.1f} minutes")
    clear = rows["EV"][0] > rows["US"][1]
    print(f"EV is {'clearly' if clear else 'perhaps'} later than US")


def largest(connection: dpsql.Connection) -> None:
    """A top-k over keys nobody declared. An aircraft may count at any number of airports."""
    print("\nThe airports that most aircraft served:\n")
    print(
        connection.sql(
            """
            SELECT dest, COUNT(DISTINCT tailnum) AS aircraft FROM flights
            GROUP BY dest ORDER BY aircraft DESC LIMIT 5
            """,
            epsilon=1.0,
            max_groups_contributed="unlimited",
        )
    )


def rows_per_aircraft(connection: dpsql.Connection) -> None:
    """A CTE with one row per aircraft is computed exactly; only its histogram is noisy."""
    print("\nAircraft by how often they left New York:\n")
    print(
        connection.sql(
            """
            WITH fleet AS (SELECT tailnum, COUNT(*) AS departures FROM flights GROUP BY tailnum)
            SELECT CASE WHEN departures > 100 THEN 'more than 100'
                        WHEN departures > 10 THEN '11 to 100'
                        ELSE 'up to 10' END AS departures,
                COUNT(DISTINCT tailnum) AS aircraft
            FROM fleet GROUP BY ALL ORDER BY aircraft DESC
            """,
            max_groups_contributed=1,  # an aircraft has one number of departures
        )
    )


def two_answers(connection: dpsql.Connection) -> None:
    """Two private answers joined, a share computed from them: the arithmetic is free."""
    print("\nOf the aircraft at each airport, how many also left from another one?\n")
    print(
        connection.sql(
            """
            WITH seen AS (
                SELECT origin, COUNT(DISTINCT tailnum) AS aircraft FROM flights GROUP BY origin
            ), shared AS (
                SELECT a.origin, COUNT(DISTINCT a.tailnum) AS elsewhere
                FROM flights a SEMI JOIN flights b ON a.tailnum = b.tailnum AND a.origin <> b.origin
                GROUP BY a.origin
            )
            SELECT origin, aircraft, elsewhere, round(100.0 * elsewhere / aircraft, 1) AS percent
            FROM seen JOIN shared USING (origin) ORDER BY origin
            """
        )
    )


def refused(connection: dpsql.Connection) -> None:
    """A question about single aircraft is refused before anything is read or spent."""
    try:
        connection.sql("SELECT tailnum, MAX(dep_delay) FROM flights GROUP BY tailnum")
    except dpsql.QueryRefused as error:
        print(f"\nRefused [{error.code}]: {error.reason}\n{error.hint}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-data"))
