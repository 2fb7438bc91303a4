"""Set union on a generated corpus shaped like the one of Gopi et al. 2020 (their Tables 1 to 3).

Run ``python benchmarks/set_union.py [--units N] [--repeats N]``. It prints how many items each of
the six algorithms names, next to the published figures, and how many privacy units a second the
policies weigh; and writes both to ``benchmarks/results/set_union.json``. Delta is divided in
halves, as the paper has it. With ``--sql`` it asks for the same through SQL, ``SELECT DISTINCT
word`` over a DuckDB file, all of the query included, with the thresholds of the package, and writes
``benchmarks/results/set_union_sql.json``.

The paper's corpus, 223,388 Reddit users and their distinct words, is described by three tables. Set
sizes are drawn from Table 1's distribution, interpolated between its quantiles. Words follow
Zipf's law with exponent 1 up to rank 2,850 and fall off faster after that (exponent 1.7), which
reproduces Table 3, the number of words that at least k users have. ``--pure-zipf`` uses exponent 1
throughout (``set_union_zipf.json``): four times as many words as in Table 3 then have five users,
the Gaussian algorithms name more than the paper's, and the Laplace policy falls behind weighted
Gaussian from 50 groups on, where the paper has it ahead.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import dpsql
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting, set_union_for
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.privacy.sampling.noise import OSEntropy

UNITS = 223_388
EPSILON, DELTA = 3.0, math.exp(-10)
GROUPS = (1, 10, 50, 100, 200, 300)
SEED = 20200225

# Table 1: the share of users with at most so many distinct words; and "the top 10 users contribute
# between 850 and 2000".
SIZES = (1, 10, 50, 100, 300, 850, 2000)
SHARES = (0.0278, 0.2982, 0.7916, 0.9313, 0.9959, 1 - 10 / UNITS, 1.0)
# Table 3: how many words at least k users have.
COMMON = {5: 34_699, 10: 23_471, 15: 18_461, 18: 16_612, 20: 15_550, 25: 13_638}
# Table 2, columns as GROUPS.
PUBLISHED = {
    "count_laplace": (4484, 3666, 2199, 1502, 882, 647),
    "count_gaussian": (3179, 6616, 6998, 6470, 5492, 4813),
    "weighted_laplace": (4479, 4309, 4012, 3875, 3726, 3648),
    "weighted_gaussian": (3194, 6591, 8570, 8904, 8996, 8936),
    "policy_laplace": (4482, 12840, 15268, 14739, 14173, 13870),
    "policy_gaussian": (3169, 11010, 16181, 16954, 17113, 17022),
}
# Counting units names the same keys with or without their counts. The planner calibrates counts
# more tightly than the paper: Gaussian ones exactly, Laplace ones through zCDP where that gains.
SQL_NAMES = {
    "count_laplace": "laplace_positive_counts",
    "count_gaussian": "gaussian_sparse_histogram",
    "weighted_laplace": "weighted_laplace_set_union",
    "weighted_gaussian": "weighted_gaussian_set_union",
    "policy_laplace": "policy_laplace_set_union",
    "policy_gaussian": "policy_gaussian_set_union",
}


@dataclass(frozen=True)
class Corpus:
    """Distinct items of every unit: ``items[starts[u]:starts[u + 1]]`` are unit u's."""

    items: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def units(self) -> int:
        return len(self.starts) - 1

    def sampled(self, groups: int, rng: np.random.Generator) -> Corpus:
        """Units in random order, each with a random ``groups`` of its items, sorted."""
        sizes = np.diff(self.starts)
        unit = np.repeat(rng.permutation(self.units), sizes)
        order = np.lexsort((rng.random(len(unit)), unit))
        unit, items = unit[order], self.items[order]
        rank = np.arange(len(unit)) - np.searchsorted(unit, unit)
        kept = rank < groups
        unit, items = unit[kept], items[kept]
        items = items[np.lexsort((items, unit))]
        return Corpus(items, np.searchsorted(unit, np.arange(self.units + 1)))

    def batches(self, size: int = 20_000) -> Iterator[UnitItems]:
        """As a query would deliver them."""
        for first in range(0, self.units, size):
            starts = self.starts[first : first + size + 1]
            units = np.repeat(np.arange(first, first + len(starts) - 1), np.diff(starts))
            yield UnitItems(units, self.items[starts[0] : starts[-1]])


def set_sizes(units: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Table 1's distribution, log size interpolated linearly in the normal score of the share."""
    normal = statistics.NormalDist()
    score = [normal.inv_cdf(min(share, 1 - 1e-7)) for share in SHARES]
    shares = np.clip(rng.random(units), SHARES[0], 1 - 1e-7)
    grid = np.linspace(score[0], score[-1], 4001)
    table = np.array([normal.cdf(x) for x in grid])
    log_size = np.interp(np.interp(shares, table, grid), score, np.log(SIZES))
    return np.maximum(1, np.ceil(np.exp(log_size) - 1e-9)).astype(np.int64)


def word_weights(vocabulary: int, knee: float, exponent: float) -> NDArray[np.float64]:
    """1/rank up to the knee, then falling with the exponent, joined."""
    rank = np.arange(1, vocabulary + 1, dtype=np.float64)
    return np.where(rank <= knee, 1 / rank, knee ** (exponent - 1) / rank**exponent)


def corpus(
    units: int = UNITS,
    *,
    vocabulary: int = 150_000,
    knee: float = 2850.0,
    exponent: float = 1.7,
    seed: int = SEED,
) -> Corpus:
    """Each unit draws words until it has as many distinct ones as its size says."""
    rng = np.random.default_rng(seed)
    sizes = set_sizes(units, rng)
    shares = np.cumsum(word_weights(vocabulary, knee, exponent))
    shares /= shares[-1]
    pairs = np.empty(0, dtype=np.int64)  # unit * vocabulary + word, in the order drawn
    draws, short = sizes + sizes // 3 + 2, np.arange(units)
    while len(short):
        unit = np.repeat(short, draws)
        pairs = np.concatenate(
            (pairs, unit * vocabulary + shares.searchsorted(rng.random(len(unit))))
        )
        _, first = np.unique(pairs, return_index=True)
        pairs = pairs[np.sort(first)]
        missing = sizes - np.bincount(pairs // vocabulary, minlength=units)
        short = np.flatnonzero(missing > 0)
        draws = 3 * missing[short] + 2
    pairs = pairs[np.argsort(pairs // vocabulary, kind="stable")]
    unit = pairs // vocabulary
    pairs = pairs[np.arange(len(unit)) - np.searchsorted(unit, unit) < sizes[unit]]
    return Corpus(pairs % vocabulary, np.concatenate(([0], np.cumsum(sizes))))


@dataclass(frozen=True)
class Row:
    """Items named on average, their spread over the repeats, units weighed per second (median)."""

    algorithm: str
    groups: int
    named: float
    spread: float
    published: int
    units_per_second: float


def named(union: SetUnion, sample: Corpus) -> tuple[int, float]:
    """How many items come out, and the seconds it took to weigh them."""
    start = time.perf_counter()
    weights = union.weigh(sample.batches(), total=sample.units)
    seconds = time.perf_counter() - start
    return len(union.select(weights, OSEntropy()).indices), seconds


def measure(data: Corpus, repeats: int, groups: tuple[int, ...] = GROUPS) -> list[Row]:
    """Every algorithm at every cap, over fresh orders, samples and noise."""
    rng = np.random.default_rng(SEED + 1)
    rows = []
    for cap in groups:
        samples = [data.sampled(cap, rng) for _ in range(repeats)]
        for weighting in Weighting:
            for norm, kind in ((1, "laplace"), (2, "gaussian")):
                union = set_union_for(
                    weighting, norm, PrivacyLoss(0.0, DELTA, EPSILON), groups=cap, halves=True
                )
                outcomes = [named(union, sample) for sample in samples]
                counts = [count for count, _ in outcomes]
                name = f"{weighting.value}_{kind}"
                rows.append(
                    Row(
                        name,
                        cap,
                        statistics.mean(counts),
                        statistics.pstdev(counts),
                        PUBLISHED[name][GROUPS.index(cap)],
                        data.units / statistics.median(seconds for _, seconds in outcomes),
                    )
                )
    return rows


def database(data: Corpus, path: Path, rng: np.random.Generator) -> None:
    """A table of authors and words, its rows in random order."""
    order = rng.permutation(len(data.items))
    columns = {
        "author": np.repeat(np.arange(data.units), np.diff(data.starts))[order],
        "item": data.items[order],
    }
    with duckdb.connect(str(path)) as writer:
        writer.register("columns", columns)
        writer.execute("CREATE TABLE words AS SELECT author, 'w' || item AS word FROM columns")


def measure_sql(data: Corpus, repeats: int, groups: tuple[int, ...] = GROUPS) -> list[Row]:
    """Every algorithm at every cap as whole queries: planning, ledger, engine, noise, answer."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "corpus.duckdb"
        database(data, path, np.random.default_rng(SEED + 2))
        rules = Policy(
            "corpus",
            defaults=Parameters(epsilon=EPSILON, delta=DELTA),
            accounts={"bench": AccountPolicy("bench", 1000.0, 0.4, Composition.BASIC)},
            tables={"words": TablePolicy("words", PrivacyUnit("author", "author"))},
        )
        with dpsql.connect(path, rules, Path(directory) / "budget.db", "bench") as connection:
            for cap in groups:
                for name, mechanism in SQL_NAMES.items():
                    outcomes = [asked(connection, mechanism, cap) for _ in range(repeats)]
                    counts = [count for count, _ in outcomes]
                    rows.append(
                        Row(
                            name,
                            cap,
                            statistics.mean(counts),
                            statistics.pstdev(counts),
                            PUBLISHED[name][GROUPS.index(cap)],
                            data.units / statistics.median(seconds for _, seconds in outcomes),
                        )
                    )
    return rows


def asked(connection: dpsql.Connection, mechanism: str, cap: int) -> tuple[int, float]:
    """How many words a query names, and the seconds it took."""
    start = time.perf_counter()
    result = connection.sql(
        "SELECT DISTINCT word FROM words",
        mechanism=mechanism,
        max_groups_contributed=cap,
        fresh=True,
    )
    return len(result), time.perf_counter() - start


def show(rows: list[Row], data: Corpus) -> None:
    sizes = np.diff(data.starts)
    users = np.bincount(data.items)
    print(
        f"{data.units:,} units, {len(data.items):,} unit-item pairs, mean {sizes.mean():.1f} items"
    )
    for size, share in zip(SIZES[:5], SHARES, strict=False):
        print(f"  at most {size:>3} items: {(sizes <= size).mean():7.2%}  (Table 1: {share:.2%})")
    for k, count in COMMON.items():
        print(f"  items of at least {k:>2} units: {(users >= k).sum():>6,}  (Table 3: {count:,})")
    print("\nItems named, and in brackets Table 2; eps = 3, delta = exp(-10), alpha = 5")
    caps = sorted({row.groups for row in rows})
    print(f"{'max_groups_contributed':<22}" + "".join(f"{cap:>18}" for cap in caps))
    for name in PUBLISHED:
        cells = [row for row in rows if row.algorithm == name]
        print(f"{name:<22}" + "".join(f"{r.named:>9,.0f} ({r.published:>6,})" for r in cells))
    print("\nPrivacy units weighed per second")
    for name in PUBLISHED:
        cells = [row for row in rows if row.algorithm == name]
        print(f"{name:<22}" + "".join(f"{r.units_per_second:>18,.0f}" for r in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pure-zipf", action="store_true")
    parser.add_argument("--sql", action="store_true")
    options = parser.parse_args()
    data = corpus(options.units, exponent=1.0 if options.pure_zipf else 1.7)
    if options.sql:
        rows = measure_sql(data, options.repeats, GROUPS[1:])  # at 1 there is nothing to weigh
    else:
        rows = measure(data, options.repeats)
    show(rows, data)
    result = {
        "units": options.units,
        "corpus": "zipf(1)" if options.pure_zipf else "zipf(1) to rank 2850, then exponent 1.7",
        "epsilon": EPSILON,
        "delta": DELTA,
        "repeats": options.repeats,
        "rows": [asdict(row) for row in rows],
    }
    name = "set_union" + "_sql" * options.sql + "_zipf" * options.pure_zipf
    path = Path(__file__).parent / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
