"""Dashboards that refresh: running counts of real data, published step by step, paid for once.

Run it with ``python examples/dashboard.py [directory]``; it needs
``pip install '.[demo,plot]'``. It builds the database, the ledger and the private states of the
views in the directory (``dashboard-data`` unless named), where there must be none of them yet.

Two views. How many aircraft have flown to each destination by the end of each day of 2013, the keys
found by the mechanism itself, beside the exact numbers, which only the owner can see. And the ten
films that most people have rated by the end of each month, a top-10 that changes over the years.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb

import dpsql
from dpsql.interfaces.demo.data import demo_database

POLICIES = """
version: 1
dataset: dashboard
tables:
  flights:
    privacy_unit: {name: aircraft, column: tailnum}
    time: {column: time_hour, zone: UTC}
  ratings:
    privacy_unit: {name: user, column: userId}
    time: {column: rated_at, zone: UTC}
defaults: {epsilon: 1, delta: 1e-6, max_groups_contributed: 20}
accounts:
  ana: {epsilon: 20, delta: 1e-3}
"""
AIRCRAFT = """
CREATE MATERIALIZED VIEW aircraft_by_destination
WITH (step = '1 day', start = '2013-01-01', steps = 365, epsilon = 2, delta = 1e-6) AS
SELECT dest, COUNT(DISTINCT tailnum) AS aircraft FROM flights GROUP BY dest
"""
FILMS = """
CREATE MATERIALIZED VIEW most_rated
WITH (step = '1 month', start = '1996-01-01', steps = 250, epsilon = 10, delta = 1e-6) AS
SELECT title, COUNT(DISTINCT userId) AS people FROM ratings
GROUP BY title ORDER BY people DESC LIMIT 10
"""
SHOWN = """
SELECT step, as_of, aircraft, DP_INTERVAL_LOW(aircraft) AS low, DP_INTERVAL_HIGH(aircraft) AS high
FROM aircraft_by_destination WHERE dest = 'ORD' AND step % 73 = 0 ORDER BY step
"""
EXACT = """
SELECT count(DISTINCT tailnum) FROM flights
WHERE dest = 'ORD' AND tailnum IS NOT NULL AND time_hour >= DATE '2013-01-01' AND time_hour < ?
"""


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "dashboard-data")
    directory.mkdir(exist_ok=True)
    place, ledger = prepare(directory), directory / "dashboard.budget.db"
    with dpsql.connect(place, dpsql.parse_policy(POLICIES), ledger, "ana") as connection:
        for (line,) in connection.sql(f"EXPLAIN {AIRCRAFT}").fetchall():
            print(line)
        connection.sql(AIRCRAFT)
        connection.sql(FILMS)
        print("\nday by day through the year:", refreshed(connection, "aircraft_by_destination"))
        print("month by month:", refreshed(connection, "most_rated"))
        aircraft(connection, place)
        films(connection)
        print("\nwrote", draw(connection, place))
        print(f"\n{connection.budget()}")


def prepare(directory: Path) -> Path:
    """Copy the owner's tables; ratings get the time at which they were given."""
    place = directory / "dashboard.duckdb"
    with duckdb.connect(str(place)) as owner:
        owner.execute(f"ATTACH '{demo_database(directory)}' AS demo (READ_ONLY)")
        owner.execute("CREATE TABLE flights AS FROM demo.flights")
        owner.execute(
            "CREATE TABLE ratings AS SELECT title, userId, rating, "
            "TIMESTAMP '1970-01-01' + to_seconds(\"timestamp\") AS rated_at FROM demo.movielens"
        )
    return place


def refreshed(connection: dpsql.Connection, view: str) -> str:
    """Publish every step that has closed, and say how long that took."""
    began = time.perf_counter()
    ((_, published, rows, _),) = connection.sql(f"REFRESH MATERIALIZED VIEW {view}").fetchall()
    return f"{published} steps, {rows:,} rows, {time.perf_counter() - began:.1f} s"


def aircraft(connection: dpsql.Connection, place: Path) -> None:
    """Compare some days of one destination with what only the owner can see."""
    shown = connection.sql(SHOWN).fetchall()
    print("\naircraft that have flown to Chicago O'Hare (ORD)")
    print("  by          published   95% interval   exact")
    for _, as_of, count, low, high in shown:
        with duckdb.connect(str(place), read_only=True) as owner:
            found = owner.execute(EXACT, [as_of]).fetchone()
        exact = 0 if found is None else found[0]
        print(f"  {as_of:%Y-%m-%d}  {count:9,}   {low:6,.0f} {high:6,.0f}   {exact:5,}")


def draw(connection: dpsql.Connection, place: Path) -> Path:
    """Draw the running count of one destination with its error band, beside the exact one."""
    from matplotlib.figure import Figure

    shown = connection.sql(SHOWN.replace("step % 73 = 0", "true")).fetchall()
    days = [row[1] for row in shown]
    with duckdb.connect(str(place), read_only=True) as owner:
        found = [owner.execute(EXACT, [day]).fetchone() for day in days]
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(
        days, [row[3] for row in shown], [row[4] for row in shown], alpha=0.3, label="95% intervals"
    )
    axes.plot(days, [row[2] for row in shown], linewidth=1, label="published")
    axes.plot(days, [0 if row is None else row[0] for row in found], "k--", label="exact")
    axes.set_title("Aircraft that have flown to Chicago O'Hare by the end of each day")
    axes.legend()
    target = place.with_name("aircraft.svg")
    figure.savefig(target)
    return target


def films(connection: dpsql.Connection) -> None:
    """Show how the top of the list changes, from year to year."""
    leaders = connection.sql(
        "SELECT year(as_of), title, people FROM most_rated WHERE month(as_of) = 1 "
        "QUALIFY row_number() OVER (PARTITION BY step ORDER BY people DESC, title) <= 3 "
        "ORDER BY as_of, people DESC"
    ).fetchall()
    print("\nthe three films that most people had rated by the end of each year, as published")
    for year in dict.fromkeys(row[0] for row in leaders):
        print(f"  {year - 1}: {'; '.join(title for each, title, _ in leaders if each == year)}")


if __name__ == "__main__":
    main()
