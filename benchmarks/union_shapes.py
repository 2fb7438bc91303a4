"""Which keys exist, on shapes of data: what the default names beside each mechanism by name.

Run with ``make union`` or ``python benchmarks/union_shapes.py [--only NAME] [--runs N]``. Units
have geometric numbers of keys, drawn by Zipf's law from so many; the last shapes have about the
numbers of units, keys and pairs of published data sets (Chen et al. 2025), of which no more
is known here. Each is asked through SQL at (1, 1e-5), of an account under zCDP and of one of
basic composition. Prints a table; nothing is written.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dpsql
from dpsql.policy.model import AccountPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition

SEED = 20260309
EPSILON, DELTA = 1.0, 1e-5
WAYS = ("default", "greedy_set_union", "cascade", "policy_gaussian_set_union")


@dataclass(frozen=True)
class Shape:
    """Units with ``drawn`` keys each on average, by rank to the power of -``exponent``."""

    name: str
    units: int
    keys: int
    drawn: float
    exponent: float = 1.0


SHAPES = (
    Shape("one", 200_000, 60_000, 1.0),
    Shape("1.5", 280_000, 60_000, 1.5),
    Shape("2.2, few large keys", 280_000, 60_000, 2.5, 1.3),
    Shape("2.6", 300_000, 100_000, 2.6),
    Shape("3.9", 300_000, 100_000, 4.0),
    Shape("9.3", 40_000, 60_000, 10.0),
    Shape("41", 60_000, 100_000, 50.0),
    Shape("170", 20_000, 60_000, 250.0),
    Shape("Higgs", 280_000, 59_000, 1.65),
    Shape("IMDb", 50_000, 200_000, 180.0),
    Shape("Reddit", 220_000, 150_000, 45.0),
)


def engine_of(shape: Shape) -> dpsql.DuckDBEngine:
    """The distinct pairs of a shape, as the table ``pairs``."""
    rng = np.random.default_rng(SEED)
    sizes = rng.geometric(1 / shape.drawn, shape.units)
    units = np.repeat(np.arange(shape.units), sizes)
    shares = np.cumsum(np.arange(1, shape.keys + 1) ** -shape.exponent)
    keys = np.searchsorted(shares / shares[-1], rng.random(len(units)))
    pairs = np.unique(units * shape.keys + rng.permutation(shape.keys)[keys])
    engine = dpsql.DuckDBEngine()
    engine.register("pairs", {"unit": pairs // shape.keys, "item": pairs % shape.keys})
    return engine


def named(connection: dpsql.Connection, way: str, runs: int) -> float:
    """How many keys an answer names, on average."""
    asked: dict[str, Any] = {} if way == "default" else {"mechanism": way}
    if way.startswith("policy"):
        asked |= {"max_groups_contributed": 100}
    counts = [
        len(connection.sql("SELECT DISTINCT item FROM pairs", fresh=True, **asked))
        for _ in range(runs)
    ]
    return statistics.mean(counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", choices=[shape.name for shape in SHAPES])
    options = parser.parse_args()
    rules = Policy(
        "shapes",
        defaults=Parameters(epsilon=EPSILON, delta=DELTA),
        accounts={str(c): AccountPolicy(str(c), 1e4, 0.4, c) for c in Composition},
        tables={"pairs": TablePolicy("pairs", PrivacyUnit("unit", "unit"))},
    )
    print(f"{'shape':<22}{'account':<9}" + "".join(f"{way:>28}" for way in WAYS))
    for shape in SHAPES:
        if options.only not in (None, shape.name):
            continue
        engine = engine_of(shape)
        for composition in (Composition.ZCDP, Composition.BASIC):
            with tempfile.TemporaryDirectory() as place:
                ledger = Path(place) / "budget.db"
                with dpsql.connect(engine, rules, ledger, str(composition)) as connection:
                    found = [named(connection, way, options.runs) for way in WAYS]
            print(f"{shape.name:<22}{composition:<9}" + "".join(f"{n:>28,.0f}" for n in found))


if __name__ == "__main__":
    main()
