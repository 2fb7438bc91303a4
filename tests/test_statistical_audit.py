"""End to end: many answers on D and on D without one unit do not tell them apart beyond the claim.

Events are chosen on one half of the runs, by their likelihood ratio, and judged on the other half:
a Clopper-Pearson lower bound on epsilon must stay below the claim, and must exceed it for a
mechanism that is broken on purpose.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from blocks import ROWS, UNITS, block, summed
from privacy import SeededSource, lower_bound, upper_bound

import dpsql
from dpsql.engines.base import ExactRows
from dpsql.mechanisms.noise import EntropySource
from dpsql.plan import BlockPlan
from dpsql.planner import plan_block
from dpsql.policy import (
    AccountPolicy,
    ColumnPolicy,
    Parameters,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.query import Block
from dpsql.release import release

pytestmark = pytest.mark.slow

EPSILON, DELTA = 1.5, 0.02
PARAMETERS = Parameters(
    epsilon=EPSILON, delta=DELTA, max_groups_contributed=2, max_rows_contributed=3, k_bar=3
)
FREE = replace(PARAMETERS, max_groups_contributed=None)
RUNS = 24_000
Sample = Callable[[bool, EntropySource], Hashable]


def epsilon_at_least(with_unit: list[Hashable], without: list[Hashable]) -> float:
    """A lower bound on epsilon at DELTA, wrong at most about once in 10**8 samples."""
    best = 0.0
    for one, other in ((with_unit, without), (without, with_unit)):
        half = len(one) // 2
        event = likely_event(Counter(one[:half]), Counter(other[:half]))
        hits = sum(outcome in event for outcome in one[half:])
        others = sum(outcome in event for outcome in other[half:])
        least = lower_bound(hits, len(one) - half) - DELTA
        most = upper_bound(others, len(other) - half)
        if least > 0:
            best = max(best, math.log(least / most))
    return best


def likely_event(one: Counter[Hashable], other: Counter[Hashable]) -> set[Hashable]:
    """The outcomes by likelihood ratio, cut where the estimated lower bound is largest."""
    ranked = sorted(one, key=lambda o: (one[o] + 1) / (other[o] + 1), reverse=True)
    best, chosen, hits, others = -math.inf, 0, 0, 0
    runs = one.total()
    for taken, outcome in enumerate(ranked, 1):
        hits, others = hits + one[outcome], others + other[outcome]
        least = lower_bound(hits, runs) - DELTA
        if least > 0 and (value := math.log(least / upper_bound(others, runs))) > best:
            best, chosen = value, taken
    return set(ranked[:chosen])


def audit(sample: Sample, runs: int = RUNS) -> float:
    source = SeededSource(17)
    with_unit = [sample(True, source) for _ in range(runs)]
    without = [sample(False, source) for _ in range(runs)]
    return epsilon_at_least(with_unit, without)


# -- at the release step ----------------------------------------------------------------------


def sampler(plan: BlockPlan, without: list[list[int]], rises: list[list[int]]) -> Sample:
    """Releases of the exact rows without one unit, or with its contributions added."""

    def exact(with_unit: bool) -> ExactRows:
        columns = np.array(without) + (np.array(rises) if with_unit else 0)
        present = (
            np.flatnonzero(columns[0] > 0) if plan.score is not None else np.arange(len(columns[0]))
        )
        order = present
        if plan.score is not None:
            order = present[np.argsort(-columns[plan.score][present], kind="stable")]
            order = order[: plan.selection.fetch]
        measures = {plan.block.measure_column(i): c[order] for i, c in enumerate(columns)}
        measures[plan.block.key_column(0)] = order + 1
        return ExactRows(np.arange(1, len(order) + 1), measures, {"k": order})

    rows = {present: exact(present) for present in (True, False)}

    def draw(with_unit: bool, source: EntropySource) -> Hashable:
        released = release(plan, rows[with_unit], source)
        # Which groups came out, and all noisy values summed: the direction a unit pushes in.
        keys = released.keys["k"].tolist() if isinstance(released.keys, dict) else []
        names = keys if plan.selection.score_noise is None else sorted(keys)
        total = sum(float(values.sum()) for values in released.values.values())
        width = max(1.0, plan.noise_of(0).scale / 4)
        return (tuple(names), round(total / width))

    return draw


CASES: dict[str, tuple[Block, str, list[list[int]], list[list[int]]]] = {
    "gaussian_positive_counts": (
        block(PARAMETERS, UNITS), "gaussian_positive_counts", [[30, 25, 0, 0]], [[1, 1, 0, 0]],
    ),
    "gaussian_positive_counts, fresh": (
        block(PARAMETERS, UNITS), "gaussian_positive_counts", [[30, 0, 0, 0]], [[0, 0, 1, 1]],
    ),
    "laplace_positive_counts": (
        block(PARAMETERS, UNITS), "laplace_positive_counts", [[30, 25, 0, 0]], [[1, 1, 0, 0]],
    ),
    "gaussian_top_k": (
        block(PARAMETERS, ROWS, limit=3), "gaussian_top_k", [[60, 50, 9, 8]], [[3, 3, 0, 0]],
    ),
    "gaussian_top_k, at the edge": (
        block(PARAMETERS, ROWS, limit=3), "gaussian_top_k", [[60, 8, 8, 8]], [[3, 0, 0, 3]],
    ),
    "gumbel_top_k": (
        block(FREE, UNITS, limit=2), "gumbel_top_k", [[30, 30, 29, 20]], [[1, 0, 1, 1]],
    ),
    "known domain, every group": (
        block(FREE, ROWS, domain=4), "known_domain", [[5, 5, 5, 5]], [[3, 3, 0, 3]],
    ),
    "known domain, capped sums": (
        block(PARAMETERS, summed(PARAMETERS, -4, 7), domain=5), "known_domain",
        [[5, 5, 5, 5, 5]], [[21, 21, 0, 0, 0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_answers_with_and_without_a_unit_stay_within_the_claimed_epsilon(case: str) -> None:
    b, mechanism, without, rises = CASES[case]
    plan = plan_block(b, mechanism)
    assert audit(sampler(plan, without, rises)) <= EPSILON


@pytest.mark.parametrize(
    ("case", "factor"),
    [
        ("gaussian_positive_counts", 2),
        ("gaussian_top_k", 2),
        ("laplace_positive_counts", 4),
        ("gaussian_positive_counts, fresh", 3),
        ("gaussian_top_k, at the edge", 3),
        ("gumbel_top_k", 4),
        ("known domain, every group", 3),
        ("known domain, capped sums", 3),
    ],
)
def test_the_audit_notices_noise_made_for_a_fraction_of_the_sensitivity(
    case: str, factor: int
) -> None:
    """The broken twin: a unit contributes ``factor`` times what the noise was made for."""
    b, mechanism, without, rises = CASES[case]
    plan = plan_block(b, mechanism)
    multiplied = [[factor * rise for rise in column] for column in rises]
    assert audit(sampler(plan, without, multiplied)) > EPSILON


# -- through SQL ------------------------------------------------------------------------------

POLICY = Policy(
    "world",
    tables={
        "visits": TablePolicy(
            "visits",
            PrivacyUnit("person", "person"),
            {"x": ColumnPolicy(0, 10), "city": ColumnPolicy(domain=("bern", "oslo", "rome"))},
        )
    },
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.4)},
    defaults=Parameters(
        epsilon=EPSILON, delta=1e-5, max_groups_contributed=2, max_rows_contributed=2, k_bar=3
    ),
)
QUERIES = {
    "declared keys": ("SELECT city, COUNT(*) n FROM visits GROUP BY city", {}),
    "unknown keys": ("SELECT street, COUNT(DISTINCT person) n FROM visits GROUP BY street", {}),
    "sums": ("SELECT SUM(x) n FROM visits", {}),
    "top-k": (
        "SELECT street, COUNT(DISTINCT person) n FROM visits GROUP BY street "
        "ORDER BY n DESC LIMIT 2",
        {"max_groups_contributed": "unlimited"},
    ),
}


def visits(heavy: int) -> dict[str, list[object]]:
    """120 people with three visits each, and ``heavy`` more with twenty visits everywhere."""
    rows = [(p, c, f"{c} {p % 2}", 5) for p in range(120) for c in ("bern", "oslo", "rome")]
    for person in range(1000, 1000 + heavy):
        rows += [(person, c, f"{c} 1", 10) for c in ("bern", "oslo", "rome") for _ in range(20)]
    names = ("person", "city", "street", "x")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def answers(directory: Path, heavy: int, name: str, runs: int) -> list[Hashable]:
    """Each answer as (which groups, the sum of the noisy values in coarse steps)."""
    engine = dpsql.DuckDBEngine()
    engine.register("visits", visits(heavy))
    sql, parameters = QUERIES[name]
    found: list[Hashable] = []
    for part in range(0, runs, 300):  # a fresh ledger now and then: budgets end
        ledger = directory / f"{heavy}-{part}.db"
        with dpsql.connect(engine, POLICY, ledger, "ana") as connection:
            for _ in range(min(300, runs - part)):
                rows = connection.sql(sql, **parameters).fetchall()
                keys = tuple(row[0] for row in rows) if len(rows[0:1]) and len(rows[0]) > 1 else ()
                found.append((keys, round(sum(row[-1] for row in rows) / 12)))
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_sql_answers_hide_a_person_with_sixty_visits(name: str, tmp_path: Path) -> None:
    with_unit, without = (answers(tmp_path, heavy, name, 600) for heavy in (1, 0))
    assert epsilon_at_least(with_unit, without) <= EPSILON


@pytest.mark.parametrize("name", ["declared keys", "sums"])
def test_the_sql_audit_notices_ten_people(name: str, tmp_path: Path) -> None:
    """The negative control: ten people are not one."""
    with_units, without = (answers(tmp_path, heavy, name, 600) for heavy in (10, 0))
    assert epsilon_at_least(with_units, without) > EPSILON
