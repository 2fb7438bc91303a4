"""What a session of 100 mixed questions is worth on one account of (epsilon 1, delta 1e-6).

Run with ``make session`` or ``python benchmarks/session.py``. On the demo's flights (4,043 aircraft
are the privacy units) an analyst asks for counts and sums by declared keys, counts by undeclared
ones, largest groups, totals under conditions, and some of it again. The same questions are asked of
accounts that differ in how they are kept: their composition, the part of delta that converts, and
how units with many groups are bounded. Questions go on until the account cannot pay.

* answered: how many of the questions were, asked again or not;
* groups: how many rows the answers have together;
* error: of each answer the median relative error of its values, nothing bounded and nothing noised;
  the median over its kind.

Prints a table and writes benchmarks/results/session.json.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb

import dpsql
from dpsql.errors import BudgetExceeded
from dpsql.interfaces.demo.data import demo_database
from dpsql.policy.load import load_policy
from dpsql.policy.model import AccountPolicy, Policy
from dpsql.policy.parameters import ContributionBounding, Parameters
from dpsql.privacy.accounting.zcdp import Composition

EPSILON, DELTA = 1.0, 1e-6
EACH, EACH_DELTA = 0.1, 8e-9
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Kept:
    """How an account is kept, and how its units are bounded."""

    words: str
    composition: Composition
    delta_for_conversion: float = 0.5
    bounding: ContributionBounding = ContributionBounding.SAMPLE


WAYS = (
    Kept("basic composition", Composition.BASIC),
    Kept("zCDP", Composition.ZCDP),
    Kept("zCDP, units weighed", Composition.ZCDP, bounding=ContributionBounding.WEIGHT),
    Kept("zCDP, 0.8 of delta converts", Composition.ZCDP, 0.8),
    Kept("Gaussian DP", Composition.GDP),
    Kept("Gaussian DP, 0.8 of delta converts", Composition.GDP, 0.8),
)


def questions() -> list[tuple[str, str]]:
    """100 questions with their kinds, in the order in which they are asked."""
    months = [f"month = {m}" for m in range(1, 13)]
    found = []
    for number in range(20):
        where = months[number % 12]
        found += [
            (
                "declared keys",
                f"SELECT carrier, COUNT(*) AS n FROM flights WHERE {where} GROUP BY 1",
            ),
            (
                "undeclared keys",
                f"SELECT dest, COUNT(DISTINCT tailnum) AS n FROM flights "
                f"WHERE month >= {1 + number % 6} GROUP BY 1",
            ),
            (
                "largest groups",
                f"SELECT dest, COUNT(*) AS n FROM flights WHERE {where} "
                "GROUP BY 1 ORDER BY n DESC LIMIT 5",
            ),
            ("sums", f"SELECT carrier, SUM(distance) AS n FROM flights WHERE {where} GROUP BY 1"),
            ("totals", f"SELECT COUNT(*) AS n FROM flights WHERE {where} AND hour < 12"),
        ]
    return found


def rules(base: Policy, way: Kept) -> Policy:
    """The demo's policy with one account, kept in one way."""
    account = AccountPolicy(
        "bench", EPSILON, DELTA, way.composition, delta_for_conversion=way.delta_for_conversion
    )
    defaults = Parameters(
        epsilon=EACH,
        delta=EACH_DELTA,
        max_groups_contributed=10,
        max_rows_contributed=10,
        contribution_bounding=way.bounding,
    )
    return replace(base, defaults=defaults, accounts={"bench": account})


@dataclass(frozen=True)
class Session:
    """What came of it: ``errors`` by kind of question."""

    way: str
    answered: int
    paid: int
    groups: int
    errors: dict[str, float]


def relative(rows: list[tuple[object, ...]], true: dict[tuple[object, ...], float]) -> float:
    """The median relative error of an answer's values."""
    return statistics.median(
        abs(float(str(value)) - true.get(tuple(key), 0.0))
        / max(1.0, abs(true.get(tuple(key), 0.0)))
        for *key, value in rows
    )


def held(path: Path, plain: duckdb.DuckDBPyConnection, base: Policy, way: Kept) -> Session:
    """Ask all questions of one account."""
    errors: dict[str, list[float]] = defaultdict(list)
    answered = paid = groups = 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "budget.db"
        with dpsql.connect(path, rules(base, way), place, "bench") as con:
            for kind, sql in questions():
                try:
                    result = con.sql(sql)
                except BudgetExceeded:
                    continue  # a repeated question may still be free
                rows = result.fetchall()
                answered, groups = answered + 1, groups + len(rows)
                paid += not result.cost.stored
                whole = sql.split(" ORDER BY")[0]
                true = {tuple(key): float(n or 0) for *key, n in plain.execute(whole).fetchall()}
                if rows:
                    errors[kind].append(relative(rows, true))
    found = {kind: statistics.median(each) for kind, each in errors.items()}
    return Session(way.words, answered, paid, groups, found)


def main() -> None:
    found = []
    with tempfile.TemporaryDirectory() as directory:
        path = demo_database(Path(directory))
        base = load_policy(ROOT / "policies.yaml")
        with duckdb.connect(str(path), read_only=True) as plain:
            truth = duckdb.connect()
            truth.register("flights", plain.execute("FROM flights").to_arrow_table())
        kinds = list(dict.fromkeys(kind for kind, _ in questions()))
        print(f"{'account':36} answered  paid  groups  " + "  ".join(f"{k:>15}" for k in kinds))
        for way in WAYS:
            one = held(path, truth, base, way)
            found.append(one)
            errors = "  ".join(f"{one.errors.get(k, float('nan')):15.3f}" for k in kinds)
            print(
                f"{one.way:36} {one.answered:8} {one.paid:5} {one.groups:7}  {errors}", flush=True
            )
    report = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "each": [EACH, EACH_DELTA],
        "sessions": [asdict(one) for one in found],
        "versions": {"duckdb": duckdb.__version__, "dpsql": dpsql.__version__},
    }
    target = Path(__file__).parent / "results" / "session.json"
    target.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
