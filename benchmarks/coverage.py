"""How often what a reader is told holds of the true values, what bounding leaves out included.

Run ``make coverage``. It prints a table and writes ``benchmarks/results/coverage.json``.

On several shapes of data, of which one is like the laboratory values of ``survival::nafld3`` (few
events for most patients, very many for some), the same question is asked again and again, with new
noise each time, of a policy that gives 3% of the price to looks. Three statements are held against
the values of the whole table, without any bounds:

* *intervals of groups*: that a count lies in its 95% interval, which is one of noise alone;
* *the total from the counts*: that the sum of all counts lies within their added margins;
* *what was left out*: that the true share lies in the interval told for it, or above its lower end
  where only that is told. This is the one that should hold 95% of the time, whatever the shape.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import numpy as np

import dpsql
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters

RUNS = 50
EPSILONS = (1.0, 4.0)
SHARE = 0.03
CAP, ROWS = 3, 5
KEYS = 40
RESULTS = Path(__file__).parent / "results" / "coverage.json"
QUESTION = "SELECT k, count(*) AS n, count(DISTINCT u) AS m FROM events GROUP BY k"

# Events of each unit, and how they are spread over groups: the SQL of one row per event.
SHAPES = {
    "nafld3-like": "SELECT u, 1 + floor(exp(0.5 + 1.05 * sqrt(-2 * ln(1 - r)) * cos(6.2831853 * "
    "random())))::INT AS n FROM (SELECT u, random() AS r FROM range(12454) t(u))",
    "one event each": "SELECT u, 1 AS n FROM range(20000) t(u)",
    "within the bounds": "SELECT u, 1 + (u % 3)::INT AS n FROM range(20000) t(u)",
    "steep": "SELECT u, least(500, floor(1 / power(1 - random(), 0.9)))::INT AS n "
    "FROM range(20000) t(u)",
    "a few very heavy": "SELECT u, CASE WHEN u % 100 = 0 THEN 400 ELSE 2 END AS n "
    "FROM range(20000) t(u)",
}


@dataclass(frozen=True, slots=True)
class CoverageFigure:
    """What was told in some runs, and how often it was right, as parts of 1.

    ``left_out`` is the true share, ``told_low`` and ``told_high`` are means of what was told.
    """

    shape: str
    epsilon: float
    counted: str
    left_out: float
    told: float
    told_low: float
    told_high: float
    both_ends: float
    share_holds: float
    group_intervals_hold: float
    total_holds: float


@contextmanager
def database(shape: str) -> Iterator[Path]:
    """Make a file with the table ``events`` of a shape."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "events.duckdb"
        with duckdb.connect(str(place)) as writer:
            writer.execute("SELECT setseed(0.42)")
            writer.execute(
                "CREATE TABLE events AS SELECT u, "
                f"floor({KEYS} * power(random(), 3))::INT AS k FROM ({shape}), range(n)"
            )
        yield place


def rules(epsilon: float) -> Policy:
    return Policy(
        "coverage",
        defaults=Parameters(
            epsilon=epsilon,
            delta=1e-6,
            max_groups_contributed=CAP,
            max_rows_contributed=ROWS,
            left_out_share=SHARE,
        ),
        accounts={},
        tables={
            "events": TablePolicy(
                "events",
                PrivacyUnit("patient", "u"),
                {"k": ColumnPolicy(domain=tuple(range(KEYS)))},
            )
        },
    )


def figures(name: str, epsilon: float, place: Path) -> Iterator[CoverageFigure]:
    """Ask the question again and again, each time by an analyst who knows nothing yet."""
    with duckdb.connect(str(place), read_only=True) as reader:
        true = dict.fromkeys(range(KEYS), (0, 0))
        asked = "SELECT k, count(*), count(DISTINCT u) FROM events GROUP BY k"
        true |= {k: (n, m) for k, n, m in reader.execute(asked).fetchall()}
        kept = reader.execute(
            "SELECT sum(if(g > $cap, c * $cap / g, c)), sum(least(g, $cap)) FROM (SELECT u, "
            "count(*) AS g, sum(least(n, $rows)) AS c FROM (SELECT u, k, count(*) AS n "
            "FROM events GROUP BY ALL) GROUP BY u)",
            {"cap": CAP, "rows": ROWS},
        ).fetchall()[0]
    names = [f"analyst{run}" for run in range(RUNS)]
    policy = rules(epsilon)
    policy = Policy(
        policy.dataset,
        defaults=policy.defaults,
        accounts={one: AccountPolicy(one, 10 * epsilon, 1e-5) for one in names},
        tables=policy.tables,
    )
    told: dict[str, list[tuple[float, float, float, bool]]] = {"n": [], "m": []}
    held: dict[str, list[float]] = {"n": [], "m": []}
    totals: dict[str, list[bool]] = {"n": [], "m": []}
    for one in names:
        with dpsql.connect(place, policy, place.parent / "budget.db", one) as connection:
            result = connection.sql(QUESTION)
        rows, intervals = result.fetchall(), result.intervals()
        for part in result.left_out:
            assert part.share is not None
            assert part.low is not None
            assert part.high is not None
            high = 1.0 if part.at_least else part.high
            told[part.columns[0]].append((part.share, part.low, high, part.at_least))
        for index, column in enumerate(("n", "m")):
            exact = np.array([true[row[0]][index] for row in rows], dtype=np.float64)
            low, high_ends = intervals[column].low, intervals[column].high
            held[column].append(float(((low <= exact) & (exact <= high_ends)).mean()))
            totals[column].append(bool(low.sum() <= exact.sum() <= high_ends.sum()))
    for index, (column, counted) in enumerate((("n", "rows"), ("m", "groups of units"))):
        share = 1 - float(kept[index]) / sum(pair[index] for pair in true.values())
        found = told[column]
        yield CoverageFigure(
            shape=name,
            epsilon=epsilon,
            counted=counted,
            left_out=share,
            told=float(np.mean([one[0] for one in found])),
            told_low=float(np.mean([one[1] for one in found])),
            told_high=float(np.mean([one[2] for one in found])),
            both_ends=float(np.mean([not one[3] for one in found])),
            # A share of nothing is kept apart from rounding in the last digit of a double.
            share_holds=float(
                np.mean([one[1] <= share + 1e-12 <= one[2] + 2e-12 for one in found])
            ),
            group_intervals_hold=float(np.mean(held[column])),
            total_holds=float(np.mean(totals[column])),
        )


def main() -> None:
    found: list[CoverageFigure] = []
    head = (
        "shape",
        "ε",
        "counted",
        "left out",
        "told",
        "told in",
        "both",
        "right",
        "groups",
        "sum",
    )
    print("{:18} {:>3} {:16} {:>8} {:>6} {:>14} {:>5} {:>6} {:>6} {:>5}".format(*head))
    for name, shape in SHAPES.items():
        with database(shape) as place:
            for epsilon in EPSILONS:
                (place.parent / "budget.db").unlink(missing_ok=True)
                for one in figures(name, epsilon, place):
                    found.append(one)
                    within = f"{one.told_low:.1%}-{one.told_high:.1%}"
                    print(
                        f"{name:18} {epsilon:3g} {one.counted:16} {one.left_out:8.1%} "
                        f"{one.told:6.1%} {within:>14} {one.both_ends:5.0%} {one.share_holds:6.0%} "
                        f"{one.group_intervals_hold:6.0%} {one.total_holds:5.0%}",
                        flush=True,
                    )
    document = {
        "question": QUESTION,
        "share": SHARE,
        "delta": 1e-6,
        "max_groups_contributed": CAP,
        "max_rows_contributed": ROWS,
        "runs": RUNS,
        "figures": [asdict(one) for one in found],
    }
    RESULTS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
