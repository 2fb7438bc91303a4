"""Whether ``auto`` can be left alone: against the best number of groups that hindsight would give.

Run with ``make robust`` or ``python benchmarks/robust.py [--runs N] [--epsilon E]``. Units per
key, keys unknown, asked through SQL at (epsilon 1, delta 1e-6) of an account under zCDP, on five
generated shapes and three real tables. Each is asked with every number of groups of ``CAPS``,
sampled and weighted, and with ``max_groups_contributed = auto``. The best number is the one that
releases the most keys: nobody could know it without spending budget, or looking.

* groups: the keys that were released;
* error: over them, the mean absolute difference of the released count from the true number of units
  with the key, nothing bounded and nothing noised.

Means over runs, each with a salt and noise of its own; ten times as many of the real tables, which
are small. Prints a table and writes benchmarks/results/robust.json, where shapes that are not asked
keep their figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

import dpsql
from dpsql.interfaces.demo.data import demo_database
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition

SEED = 20240911
DELTA = 1e-6
CAPS = (1, 3, 10, 30, 100, 300)
LEAST_GROUPS, MOST_ERROR = 0.9, 1.0
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
Groups = int | Literal["auto"]


@dataclass(frozen=True)
class Shape:
    """Rows of one kind: what they look like, their table's unit and key, and how they are made."""

    name: str
    words: str
    unit: str = "unit"
    key: str = "key"
    table: str = "pairs"
    make: Callable[[np.random.Generator], Pairs] | None = None  # None for a table of the demo


@dataclass(frozen=True)
class Way:
    """One way of asking, and what it gave: means over runs."""

    bounding: Literal["sample", "weight", "auto"]
    max_groups_contributed: Groups
    groups: float
    error: float


@dataclass(frozen=True)
class Verdict:
    """``auto`` on one shape beside the best way in hindsight."""

    shape: str
    words: str
    units: int
    keys: int
    best: Way
    auto: Way

    @property
    def groups_ratio(self) -> float:
        return self.auto.groups / max(self.best.groups, 1.0)

    @property
    def error_ratio(self) -> float:
        return self.auto.error / self.best.error if self.best.error else 1.0

    @property
    def met(self) -> bool:
        return self.groups_ratio >= LEAST_GROUPS and self.error_ratio <= MOST_ERROR


def zipf(rng: np.random.Generator, size: int, exponent: float, draws: int) -> NDArray[np.int64]:
    """Ranks drawn by inverse CDF with probability proportional to rank^-exponent."""
    weights = np.cumsum(np.arange(1, size + 1) ** -exponent)
    return np.searchsorted(weights / weights[-1], rng.random(draws)).astype(np.int64)


def users(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each unit as often as it has rows."""
    return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)


def heavy(rng: np.random.Generator) -> Pairs:
    sizes = np.where(rng.random(20_000) < 0.1, rng.geometric(1 / 1500, 20_000), 3)
    owner = users(sizes.astype(np.int64))
    return owner, zipf(rng, 60_000, 0.9, len(owner))


def flat(rng: np.random.Generator) -> Pairs:
    owner = users(rng.geometric(1 / 16, 60_000).astype(np.int64))
    return owner, zipf(rng, 20_000, 0.5, len(owner))


def steep(rng: np.random.Generator) -> Pairs:
    owner = users(rng.geometric(1 / 40, 60_000).astype(np.int64))
    return owner, zipf(rng, 30_000, 1.5, len(owner))


def single(rng: np.random.Generator) -> Pairs:
    owner = np.arange(1_000_000, dtype=np.int64)
    return owner, zipf(rng, 100_000, 1.0, len(owner))


def many(rng: np.random.Generator) -> Pairs:
    """Nearly every key is of one unit alone, a few thousand are of many."""
    owner = users(rng.geometric(1 / 8, 200_000).astype(np.int64))
    own = 10_000 + rng.permutation(4_000_000)[: len(owner)]
    return owner, np.where(rng.random(len(owner)) < 0.4, zipf(rng, 10_000, 1.0, len(owner)), own)


SHAPES = (
    Shape("heavy", "one unit in ten has a thousand keys, the others two or three", make=heavy),
    Shape("flat", "20,000 keys that are alike in size", make=flat),
    Shape("steep", "few keys hold most of the rows", make=steep),
    Shape("single", "one key per unit", make=single),
    Shape("many", "10^6 keys, nearly all of one unit alone", make=many),
    Shape("flights", "aircraft per destination (nycflights13)", "tailnum", "dest", "flights"),
    Shape("movielens", "users per film (dslabs)", "userId", "title", "movielens"),
    Shape("nafld", "patients per test (survival::nafld2)", "id", "test", "nafld2"),
)


def built(shape: Shape, directory: Path) -> Path:
    """Write the rows of a shape as a database file."""
    if shape.make is None:
        return demo_database(directory)
    path = directory / "robust.duckdb"
    unit, key = shape.make(np.random.default_rng(SEED))
    with duckdb.connect(str(path)) as connection:
        connection.register("drawn", {"unit": unit, "key": key})
        connection.execute("CREATE TABLE pairs AS SELECT unit, 'key ' || key AS key FROM drawn")
    return path


def rules(shape: Shape, epsilon: float) -> Policy:
    """A policy with one account, whose budget does not end."""
    return Policy(
        dataset="robust",
        defaults=Parameters(epsilon=epsilon, delta=DELTA),
        accounts={"bench": AccountPolicy("bench", 1000.0, 0.01, Composition.ZCDP)},
        tables={shape.table: TablePolicy(shape.table, PrivacyUnit("unit", shape.unit))},
    )


def ways() -> Iterator[tuple[Literal["sample", "weight", "auto"], Groups]]:
    for cap in CAPS:
        yield "sample", cap
        if cap > 1:  # with one group there is nothing to weigh
            yield "weight", cap
    yield "auto", "auto"


def asked(con: dpsql.Connection, shape: Shape, true: dict[object, int], runs: int) -> list[Way]:
    query = f"SELECT {shape.key}, COUNT(DISTINCT {shape.unit}) FROM {shape.table} GROUP BY 1"
    found = []
    for bounding, groups in ways():
        counts, errors = [], []
        for _ in range(runs):
            rows = con.sql(
                query,
                contribution_bounding="weight" if bounding == "weight" else "sample",
                max_groups_contributed=groups,
                fresh=True,
            ).fetchall()
            counts.append(len(rows))
            errors.extend([statistics.fmean(abs(n - true[k]) for k, n in rows)] if rows else [])
        error = statistics.fmean(errors) if errors else 0.0
        found.append(Way(bounding, groups, statistics.fmean(counts), error))
    return found


def judged(shape: Shape, epsilon: float, runs: int) -> Verdict:
    """Ask of one shape in all ways."""
    with tempfile.TemporaryDirectory() as directory:
        path = built(shape, Path(directory))
        truth = f"SELECT {shape.key}, COUNT(DISTINCT {shape.unit}) FROM {shape.table} GROUP BY 1"
        sizes = f"SELECT COUNT(DISTINCT {shape.unit}) FROM {shape.table}"
        with duckdb.connect(str(path), read_only=True) as plain:
            true = dict(plain.execute(truth).fetchall())
            (units,) = plain.execute(sizes).fetchone() or (0,)
        place = Path(directory) / "budget.db"
        with dpsql.connect(path, rules(shape, epsilon), place, "bench") as con:
            found = asked(con, shape, true, runs if shape.make else 10 * runs)
    *numbers, auto = found
    best = max(numbers, key=lambda way: (way.groups, -way.error))
    return Verdict(shape.name, shape.words, units, len(true), best, auto)


def show(verdict: Verdict) -> None:
    best, auto = verdict.best, verdict.auto
    print(
        f"{verdict.shape:10} {best.bounding:>7} {best.max_groups_contributed!s:>4} "
        f"{best.groups:8,.0f} {best.error:8.1f}   {auto.groups:8,.0f} {auto.error:8.1f}   "
        f"{verdict.groups_ratio:6.2f} {verdict.error_ratio:6.2f}  "
        f"{'met' if verdict.met else 'missed'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shape", choices=[shape.name for shape in SHAPES], action="append")
    options = parser.parse_args()
    chosen = [
        shape for shape in SHAPES if shape.name in (options.shape or [s.name for s in SHAPES])
    ]
    print(f"epsilon {options.epsilon:g}, delta {DELTA:g}, {options.runs} runs; aim: at least")
    print(f"{LEAST_GROUPS:g} of the best number's groups, with at most its error\n")
    print("shape         best number   groups    error       auto    error   groups  error")
    found = []
    for shape in chosen:
        found.append(judged(shape, options.epsilon, options.runs))
        show(found[-1])
    target = Path(__file__).parent / "results" / "robust.json"
    before = json.loads(target.read_text()) if target.exists() else {"verdicts": []}
    verdicts = {verdict["shape"]: verdict for verdict in before["verdicts"]}
    for v in found:
        verdicts[v.shape] = {
            **asdict(v),
            "groups_ratio": v.groups_ratio,
            "error_ratio": v.error_ratio,
        }
    report = {
        "epsilon": options.epsilon,
        "delta": DELTA,
        "runs": options.runs,
        "caps": CAPS,
        "verdicts": [verdicts[shape.name] for shape in SHAPES if shape.name in verdicts],
        "versions": {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__},
    }
    target.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
