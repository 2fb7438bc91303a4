"""Three ways to a private quantile, at equal cost: how far their ranks and values are off.

Run ``python benchmarks/quantiles.py``. It prints the figures of ``docs/mechanisms/quantiles.md``
and writes them to ``benchmarks/results/quantiles.json``.

* *exponential mechanism*: what dpsql draws, once for each quantile;
* *tree*: Gaussian noise on every node of a tree of counts with 16 children each, made consistent
  (Hay, Rastogi, Miklau & Suciu 2010), from which all quantiles are read;
* *search*: a binary search, asking at each step how many rows lie below, with Gaussian noise.

Values are lognormal (median 245, a tenth above 880) in bounds [0, 4096], on a grid of 65,536
points. A unit adds one row to each of ten groups; the query has epsilon 1 and delta 1e-6, half of
whose rho names the groups. Errors are root mean squares over the quantiles and over the runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import PrivacyLoss, rho_from_epsilon
from dpsql.privacy.mechanisms.additive import gaussian
from dpsql.privacy.mechanisms.quantiles import Histograms, exponential_quantile
from dpsql.privacy.sampling.noise import OSEntropy

POINTS, UPPER = 2**16, 4096.0
CHILDREN, LEVELS = 16, 4
GROUPS = 10
RHO = rho_from_epsilon(1.0, 5e-7) / 2
SIZES = (100, 1_000, 10_000, 100_000)
ASKED = (
    (Fraction(1, 2),),
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)),
    (Fraction(99, 100),),
)
RUNS = 200
RESULTS = Path(__file__).parent / "results" / "quantiles.json"

Counts = NDArray[np.int64]
Method = Callable[[Counts, Sequence[Fraction]], list[int]]
_entropy = OSEntropy()


@dataclass(frozen=True, slots=True)
class Figure:
    """Errors of one method: in ranks, and in percent of the true value."""

    rows: int
    fractions: str
    method: str
    ranks: float
    percent: float


def exponential(counts: Counts, fractions: Sequence[Fraction]) -> list[int]:
    points = np.flatnonzero(counts)
    group = Histograms(np.array([len(points)]), points, counts[points])
    part = RHO / len(fractions)
    return [
        int(
            exponential_quantile(PrivacyLoss(part), f, rows=1, groups=GROUPS, size=POINTS).draw(
                group, _entropy
            )[0]
        )
        for f in fractions
    ]


def tree(counts: Counts, fractions: Sequence[Fraction]) -> list[int]:
    noise = gaussian(PrivacyLoss(RHO / LEVELS), 1, GROUPS)
    levels = [counts]
    while len(levels[-1]) > CHILDREN:
        levels.append(levels[-1].reshape(-1, CHILDREN).sum(axis=1))
    noisy = [noise.add(level, _entropy) for level in levels]
    best = [noisy[0]]
    for height, level in enumerate(noisy[1:], start=2):
        weight = (CHILDREN**height - CHILDREN ** (height - 1)) / (CHILDREN**height - 1)
        below = best[-1].reshape(-1, CHILDREN).sum(axis=1)
        best.append(weight * level + (1 - weight) * below)
    found = best[-1]
    for level in best[-2::-1]:
        children = level.reshape(-1, CHILDREN)
        missing = (found - children.sum(axis=1)) / CHILDREN
        found = (children + missing[:, None]).ravel()
    ranks = np.maximum.accumulate(np.cumsum(found))
    return [int(np.searchsorted(ranks, float(f) * ranks[-1])) for f in fractions]


def search(counts: Counts, fractions: Sequence[Fraction]) -> list[int]:
    steps = POINTS.bit_length() - 1
    noise = gaussian(PrivacyLoss(RHO / len(fractions) / (steps + 1)), 1, GROUPS)
    below = np.concatenate(([0], np.cumsum(counts)))
    answers = []
    for fraction in fractions:
        low, high = 0, POINTS
        wanted = float(fraction) * noise.add(below[-1:], _entropy)[0]
        while high - low > 1:
            middle = (low + high) // 2
            if noise.add(below[middle : middle + 1], _entropy)[0] <= wanted:
                low = middle
            else:
                high = middle
        answers.append(low)
    return answers


METHODS: dict[str, Method] = {"exponential mechanism": exponential, "tree": tree, "search": search}


def errors(counts: Counts, fraction: Fraction, point: int) -> tuple[float, float]:
    """How far an answer is off, in ranks and relative to the true value."""
    ranks = np.concatenate(([0], np.cumsum(counts)))
    wanted = float(fraction) * ranks[-1]
    true = int(np.searchsorted(ranks[1:], wanted))
    off = max(ranks[min(point, POINTS - 1)] - wanted, wanted - ranks[min(point, POINTS - 1) + 1], 0)
    return float(off), (point - true) / true


def measured(rows: int, fractions: Sequence[Fraction], name: str) -> Figure:
    rng = np.random.default_rng(rows)
    found = []
    for _ in range(RUNS):
        values = np.clip(rng.lognormal(5.5, 1.0, rows), 0, UPPER)
        points = np.minimum(np.rint(values / UPPER * POINTS), POINTS - 1).astype(np.int64)
        counts = np.bincount(points, minlength=POINTS)
        answers = METHODS[name](counts, fractions)
        found += [errors(counts, f, point) for f, point in zip(fractions, answers, strict=True)]
    ranks, percent = np.sqrt(np.mean(np.square(found), axis=0))
    text = ", ".join(f"{float(f):g}" for f in fractions)
    return Figure(rows, text, name, float(ranks), 100 * float(percent))


def main() -> None:
    figures = [measured(n, asked, name) for asked in ASKED for n in SIZES for name in METHODS]
    print(f"| fractions | rows | {' | '.join(METHODS)} |")
    print(f"| --- | --: |{' --: |' * len(METHODS)}")
    for start in range(0, len(figures), len(METHODS)):
        line = figures[start : start + len(METHODS)]
        cells = " | ".join(f"{f.ranks:,.1f} ({f.percent:,.2g}%)" for f in line)
        print(f"| {line[0].fractions} | {line[0].rows:,} | {cells} |")
    RESULTS.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")


if __name__ == "__main__":
    main()
