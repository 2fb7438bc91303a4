"""What one publication is worth: how many groups come out, and how far off their counts are.

Run with ``make utility`` or ``python benchmarks/utility.py [--runs N]``. Users per item, keys
unknown, of 5,000,000 rows by 500,000 users with zipf activity over 100,000 zipf items, asked
through SQL and the public API at (epsilon 1, delta 1e-6), for an account whose costs add up as
such (``composition: basic``). Units with too many groups are sampled or weighted; with ``auto`` no
number of groups is given, and a cascade of rounds finds one.

* groups: how many of the items that have users were released;
* error: over the released groups, the mean absolute difference of the released count from the true
  number of distinct users of the item, nothing bounded and nothing noised;
* times plain: the seconds over those of DuckDB without dpsql, asked in turns.

Both are means over runs, each with a salt and noise of its own; the seconds are a median. Which
words exist, on the corpus of ``benchmarks/set_union.py`` at its (3, e^-10), is asked with ``auto``
of accounts of either composition. Prints a table and writes benchmarks/results/utility.json.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
from set_union import DELTA as UNION_DELTA
from set_union import EPSILON as UNION_EPSILON
from set_union import corpus, database

import dpsql
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition

SEED = 20240607
ROWS = 5_000_000
USERS = ROWS // 10
ITEMS = 100_000
EPSILON, DELTA = 1.0, 1e-6
QUERY = "SELECT item, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY item"


@dataclass(frozen=True)
class Aim:
    """At least so many groups with at most this error, in at most so many times the plain query."""

    groups: float
    error: float = math.inf
    times_plain: float = math.inf

    def words(self, met: bool) -> str:
        """The aim, and whether it was met."""
        parts = [f">= {self.groups:,.0f} groups"]
        if self.error < math.inf:
            parts.append(f"error <= {self.error:.0f}")
        if self.times_plain < math.inf:
            parts.append(f"<= {self.times_plain:g} times plain")
        return f"aim {', '.join(parts)}: {'met' if met else 'missed'}"


Groups = int | Literal["auto"]
AIMS: dict[tuple[str, Groups], Aim] = {
    ("weight", 10): Aim(4150, 155),
    ("weight", 7): Aim(4550, 195),
    ("auto", "auto"): Aim(6200, 55, 4),
}
WORDS_AIM = Aim(10_000)
# By adding the deltas of noise and threshold instead of analysing them together.
REFERENCES: dict[tuple[str, Groups], Aim] = {
    ("sample", 10): Aim(3915, 228),
    ("weight", 10): Aim(4178, 152),
    ("weight", 7): Aim(4567, 191),
    ("weight", 3): Aim(4920, 323),
}


@dataclass(frozen=True)
class Worth:
    """One way of asking, and what it gave: means over runs, and the runs' extremes."""

    bounding: str
    max_groups_contributed: Groups
    mechanism: str
    groups: float
    error: float
    groups_range: tuple[int, int]
    error_range: tuple[float, float]
    noise_std: float
    threshold: float
    seconds: float
    times_plain: float
    reference: Aim | None
    aim: Aim | None

    @property
    def verdict(self) -> str:
        if self.aim is None:
            return ""
        met = self.groups >= self.aim.groups and self.error <= self.aim.error
        return self.aim.words(met and self.times_plain <= self.aim.times_plain)


@dataclass(frozen=True)
class NamedWords:
    """How many words of the corpus come out, by which mechanism and composition."""

    composition: str
    mechanism: str
    named: float
    seconds: float


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
    plain: duckdb.DuckDBPyConnection,
    bounding: Literal["sample", "weight", "auto"],
    groups: Groups,
    runs: int,
) -> Worth:
    counts, errors, times, plain_times = [], [], [], []
    kind: Literal["sample", "weight"] = "sample" if bounding == "auto" else bounding
    for _ in range(runs):
        start = time.perf_counter()
        plain.execute(QUERY).fetchall()
        plain_times.append(time.perf_counter() - start)
        start = time.perf_counter()
        result = con.sql(
            QUERY, contribution_bounding=kind, max_groups_contributed=groups, fresh=True
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
        times_plain=statistics.median(times) / statistics.median(plain_times),
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
        copy = Path(directory) / "plain.duckdb"  # an open file belongs to one way of opening it
        shutil.copy(database, copy)
        with (
            duckdb.connect(str(copy), read_only=True) as plain,
            dpsql.connect(database, POLICY, Path(directory) / "budget.db", "bench") as con,
        ):
            true = dict(plain.execute(QUERY).fetchall())
            found = [
                worth(con, true, plain, bounding, groups, options.runs)
                for groups in (3, 7, 10)
                for bounding in ("sample", "weight")
            ]
            found.append(worth(con, true, plain, "auto", "auto", options.runs))
        words = named_words(Path(directory), options.runs)
    show(found, words, len(true))
    report = {
        "rows": ROWS,
        "items_with_users": len(true),
        "epsilon": EPSILON,
        "delta": DELTA,
        "runs": options.runs,
        "error": "mean over released groups of |released count - true distinct users|",
        "worth": [asdict(one) for one in found],
        "words": [asdict(one) for one in words],
        "versions": {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__},
    }
    target = Path(__file__).parent / "results" / "utility.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")


def named_words(directory: Path, runs: int) -> list[NamedWords]:
    """Ask which words there are with ``auto``, of accounts of either composition."""
    path = directory / "corpus.duckdb"
    database(corpus(), path, np.random.default_rng(SEED))
    found = []
    for composition in (Composition.ZCDP, Composition.BASIC):  # the cascade has no cost in GDP
        account = AccountPolicy("bench", 1000.0, 0.4, composition)
        rules = Policy(
            "corpus",
            defaults=Parameters(epsilon=UNION_EPSILON, delta=UNION_DELTA),
            accounts={"bench": account},
            tables={"words": TablePolicy("words", PrivacyUnit("author", "author"))},
        )
        with dpsql.connect(path, rules, directory / f"{composition}.db", "bench") as con:
            counts, times = [], []
            for _ in range(runs):
                start = time.perf_counter()
                result = con.sql(
                    "SELECT DISTINCT word FROM words", max_groups_contributed="auto", fresh=True
                )
                counts.append(len(result))
                times.append(time.perf_counter() - start)
            (block,) = result.plan.blocks
        named = statistics.fmean(counts)
        found.append(NamedWords(composition, block.mechanism, named, statistics.median(times)))
    return found


def show(found: list[Worth], words: list[NamedWords], items: int) -> None:
    print(f"{items:,} items have users; epsilon {EPSILON:g}, delta {DELTA:g}, one publication")
    print("bounding    G   groups    error   threshold   noise     time   times plain")
    for one in found:
        print(
            f"{one.bounding:8} {one.max_groups_contributed!s:>4} {one.groups:8,.0f} "
            f"{one.error:8.1f} {one.threshold:11.1f} {one.noise_std:7.2f} {one.seconds:7.2f}s "
            f"{one.times_plain:8.1f}  {one.verdict}"
        )
    print(f"\nSELECT DISTINCT of a corpus at epsilon {UNION_EPSILON:g}, delta {UNION_DELTA:.2g}")
    for some in words:
        met = WORDS_AIM.words(some.named >= WORDS_AIM.groups)
        print(
            f"{some.composition:6} {some.mechanism:26} {some.named:8,.0f} keys "
            f"{some.seconds:7.2f}s  {met}"
        )


if __name__ == "__main__":
    main()
