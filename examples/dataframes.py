"""Private answers in polars and pandas: intervals through a calculation, a join, a chart.

Run ``dpsql demo`` first, then this from the same directory: ``python examples/dataframes.py``. It
needs ``pip install '.[demo,pandas,polars,plot]'`` and writes ``ratings.svg`` here. Another
directory of the demo can be named as an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl

import dpsql

POLICIES = Path(__file__).parent.parent / "policies.yaml"
CHART = Path("ratings.svg")
STARS = """
    SELECT rating AS stars, COUNT(*) AS ratings FROM movielens GROUP BY rating ORDER BY stars
"""
DECADES = """
    SELECT 10 * (year // 10) AS decade, AVG(rating) AS stars,
        DP_INTERVAL_LOW(stars) AS low, DP_INTERVAL_HIGH(stars) AS high
    FROM movielens WHERE year >= 1970 GROUP BY decade ORDER BY decade
"""


def main(directory: Path) -> None:
    mpl.use("Agg")
    with dpsql.connect(
        directory / "demo.duckdb", POLICIES, directory / "demo.budget.db", analyst="ana"
    ) as connection:
        # How many ratings of one user count is found privately, and what that leaves out widens
        # the intervals: they hold the numbers of all ratings.
        stars = connection.sql(STARS, epsilon=2.0)
        print(mean_rating(stars))
        chart(stars)
        print(f"\n{decades(connection)}")
        print(f"\nLeft: ε {connection.budget().epsilon_remaining:.2f}")


def mean_rating(stars: dpsql.Result) -> pl.DataFrame:
    """The mean of all ratings with an interval, from ten noisy counts.

    If each interval may miss with a tenth of 5%, all ten hold at once with a probability of 95%.
    Then the mean lies between the least and the greatest that counts inside them allow: those have
    counts at one end up to some star, and at the other end beyond it.
    """
    frame = stars.pl()
    interval = stars.intervals(1 - 0.05 / frame.height)["ratings"]
    low, high = np.maximum(interval.low, 0), np.maximum(interval.high, 0)
    values = frame["stars"].to_numpy().astype(float)

    def means(up_to: np.ndarray, beyond: np.ndarray) -> list[float]:
        cuts = range(frame.height + 1)
        counts = [np.concatenate([up_to[:cut], beyond[cut:]]) for cut in cuts]
        return [float(np.average(values, weights=each)) for each in counts]

    mean = float(np.average(values, weights=frame["ratings"].to_numpy()))
    ends = {"low": min(means(high, low)), "high": max(means(low, high))}
    return pl.DataFrame({"mean": mean, **ends}).with_columns(pl.all().round(3))


def chart(stars: dpsql.Result) -> None:
    """The histogram with its error bars, as a file. The Axes is matplotlib's: go on from there."""
    axes = stars.plot(x="stars", y="ratings")
    axes.set_title("Ratings by stars")
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(CHART)
    print(f"\nWrote {CHART}.")


def decades(connection: dpsql.Connection) -> pd.DataFrame:
    """Averages by decade, whose error bars came with the answer, joined with public knowledge."""
    answer = connection.sql(
        DECADES, epsilon=2.0, max_groups_contributed=5, max_rows_contributed=50
    ).df()
    home = pd.DataFrame({"decade": [1970, 1980, 1990, 2000, 2010]})
    home["at_home"] = ["broadcast", "cassette", "cassette", "disc", "stream"]
    return answer.merge(home, on="decade", how="left").round({"stars": 2, "low": 2, "high": 2})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-data"))
