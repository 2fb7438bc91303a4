"""What one publication is worth: how many groups come out, and how far off their counts are.

Run with ``make utility`` or ``python benchmarks/utility.py [--runs N]``. Users per item, keys
unknown, of 5,000,000 rows by 500,000 users with zipf activity over 100,000 zipf items, asked
through SQL and the public API at (epsilon 1, delta 1e-6), for an account whose costs add up as
such (``composition: basic``). Units with too many groups are sampled or weighted.

* groups: how many of the items that have users were released;
* error: over the released groups, the mean absolute difference of the released count from the true
  number of distinct users of the item, nothing bounded and nothing noised.

Both are means over runs, each with a salt and noise of its own; the seconds are a median. Prints a
table and writes benchmarks/results/utility.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np

import dpsql
from dpsql.accounting.zcdp import Composition
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

SEED = 20240607
ROWS = 5_000_000
USERS = ROWS // 10
ITEMS = 100_000
EPSILON, DELTA = 1.0, 1e-6
QUERY = "SELECT item, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY item"


@dataclass(frozen=True)
class Aim:
    """At least so many groups with at most this error."""

    groups: float
    error: float


AIMS = {("weight", 10): Aim(4150, 155), ("weight", 7): Aim(4550, 195)}
# By adding the deltas of noise and threshold instead of analysing them together.
REFERENCES = {
    ("sample", 10): Aim(3915, 228),
    ("weight", 10): Aim(4178, 152),
    ("weight", 7): Aim(4567, 191),
    ("weight", 3): Aim(4920, 323),
}


@dataclass(frozen=True)
class Worth:
    """One way of asking, and what it gave: means over runs, and the runs' extremes."""

    bounding: str
    max_groups_contributed: int
    mechanism: str
    groups: float
    error: float
    groups_range: tuple[int, int]
    error_range: tuple[float, float]
    noise_std: float
    threshold: float
    seconds: float
    reference: Aim | None
    aim: Aim | None

    @property
    def verdict(self) -> str:
        if self.aim is None:
            return ""
        met = self.groups >= self.aim.groups and self.error <= self.aim.error
        return (
            f"aim >= {self.aim.groups:,.0f} groups, error <= {self.aim.error:.0f}: "
            f"{'met' if met else 'missed'}"
        )


def zipf(rng: np.random.Generator, size: int, exponent: float) -> np.ndarray:
    """Ranks drawn by inverse CDF with probability proportional to rank^-exponent."""
    weights = np.cumsum(np.arange(1, size + 1) ** -exponent)
    return np.searchsorted(weights / weights[-1], rng.random(ROWS)).astype(np.int64)


def build(path: Path) -> None:
    """The rows, as a database file."""
    rng = np.random.default_rng(SEED)
    rank = zipf(rng, USERS, 0.6)
    user = rng.permutation(USERS)[rank]
    data = {"user": user, "item": zipf(rng, ITEMS, 1.0)}
    with duckdb.connect(str(path)) as connection:
        connection.register("data", data)
        connection.execute(
            "CREATE TABLE visits AS SELECT \"user\" AS user_id, 'item' || item AS item FROM data"
        )


POLICY = Policy(
    dataset="utility",
    defaults=Parameters(epsilon=EPSILON, delta=DELTA),
    accounts={"bench": AccountPolicy("bench", 1000.0, 0.01, Composition.BASIC)},
    tables={"visits": TablePolicy("visits", PrivacyUnit("user", "user_id"))},
)


def worth(
    con: dpsql.Connection,
    true: dict[str, int],
    bounding: Literal["sample", "weight"],
    groups: int,
    runs: int,
) -> Worth:
    counts, errors, times = [], [], []
    for _ in range(runs):
        start = time.perf_counter()
        result = con.sql(
            QUERY, contribution_bounding=bounding, max_groups_contributed=groups, fresh=True
        )
        rows = result.fetchall()
        times.append(time.perf_counter() - start)
        counts.append(len(rows))
        errors.append(statistics.fmean(abs(users - true[item]) for item, users in rows))
        assert result.cost.settled.epsilon <= EPSILON
        assert result.cost.settled.delta <= DELTA
    (block,) = result.plan.blocks
    (chosen,) = (c for c in block.candidates if c.chosen)
    assert chosen.threshold is not None
    assert chosen.noise_std is not None
    return Worth(
        bounding=bounding,
        max_groups_contributed=groups,
        mechanism=block.mechanism,
        groups=statistics.fmean(counts),
        error=statistics.fmean(errors),
        groups_range=(min(counts), max(counts)),
        error_range=(min(errors), max(errors)),
        noise_std=chosen.noise_std,
        threshold=chosen.threshold,
        seconds=statistics.median(times),
        reference=REFERENCES.get((bounding, groups)),
        aim=AIMS.get((bounding, groups)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "utility.duckdb"
        build(database)
        with duckdb.connect(str(database), read_only=True) as plain:
            true = dict(plain.execute(QUERY).fetchall())
        with dpsql.connect(database, POLICY, Path(directory) / "budget.db", "bench") as con:
            found = [
                worth(con, true, bounding, groups, options.runs)
                for groups in (3, 7, 10)
                for bounding in ("sample", "weight")
            ]
    show(found, len(true))
    report = {
        "rows": ROWS,
        "items_with_users": len(true),
        "epsilon": EPSILON,
        "delta": DELTA,
        "runs": options.runs,
        "error": "mean over released groups of |released count - true distinct users|",
        "worth": [asdict(one) for one in found],
        "versions": {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__},
    }
    target = Path(__file__).parent / "results" / "utility.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")


def show(found: list[Worth], items: int) -> None:
    print(f"{items:,} items have users; epsilon {EPSILON:g}, delta {DELTA:g}, one publication")
    print("bounding   G   groups    error   threshold   noise     time")
    for one in found:
        print(
            f"{one.bounding:8} {one.max_groups_contributed:3} {one.groups:8,.0f} {one.error:8.1f} "
            f"{one.threshold:11.1f} {one.noise_std:7.2f} {one.seconds:7.2f}s  {one.verdict}"
        )


if __name__ == "__main__":
    main()
