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
from typing import Any

import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.laws import SeededSource, lower_bound, upper_bound
from numpy.typing import NDArray

import dpsql
from dpsql.engines.base.engine import ExactRows
from dpsql.ir.plan import BlockPlan, Bounding
from dpsql.ir.query import Block
from dpsql.kinds.groups import ExactGroups
from dpsql.planner import plan_block
from dpsql.planner.budget import QueryBudget
from dpsql.planner.histograms import histogram_options
from dpsql.planner.known_domain import known_domain_options
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian
from dpsql.privacy.sampling.noise import EntropySource

pytestmark = pytest.mark.slow

EPSILON, DELTA = 1.5, 0.02
PARAMETERS = Parameters(
    epsilon=EPSILON,
    delta=DELTA,
    max_groups_contributed=2,
    max_rows_contributed=3,
    k_bar=3,
    left_out_share=0.0,
)
FREE = replace(PARAMETERS, max_groups_contributed=None)
THREE = replace(PARAMETERS, max_groups_contributed=3)
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
        present = np.arange(len(columns[0])) if plan.declared else np.flatnonzero(columns[0] > 0)
        order = present
        if plan.score is not None and not plan.declared:
            order = present[np.argsort(-columns[plan.score][present], kind="stable")]
            order = order[: plan.selection.top_rows_needed]
        measures = {plan.block.measure_column(i): c[order] for i, c in enumerate(columns)}
        measures[plan.block.key_column(0)] = order + 1
        return ExactRows(np.arange(1, len(order) + 1), measures, {"k": order})

    rows = {present: exact(present) for present in (True, False)}

    def draw(with_unit: bool, source: EntropySource) -> Hashable:
        released = ExactGroups(rows[with_unit]).release(plan, source)
        # Which groups came out, and all noisy values summed: the direction a unit pushes in.
        keys = (
            released.keys["k"] if isinstance(released.keys, dict) else released.row_ids
        ).tolist()
        names = keys if plan.selection.score_noise is None else sorted(keys)
        total = 0.0
        for index, values in enumerate(released.values.values()):
            total += float(values.sum()) / max(1.0, plan.noise_of(index).scale / 4)
        return (tuple(names), round(total))

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
    "known domain, elliptic": (
        block(THREE, ROWS, domain=7), "known_domain", [[5] * 7], [[3] * 3 + [0] * 4],
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
    if case.endswith("elliptic"):
        assert isinstance(plan.noise_of(0), EllipticGaussian)
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


# -- the largest groups -----------------------------------------------------------------------

ONCE = Composition.BASIC
LARGEST: dict[str, tuple[Block, str, Composition, list[list[int]], list[list[int]], int]] = {
    "gumbel_top_k, capped": (
        block(PARAMETERS, UNITS, limit=2), "gumbel_top_k", Composition.ZCDP,
        [[30, 30, 29, 20]], [[1, 0, 1, 0]], 4,
    ),
    "gumbel_top_k, capped, at the edge": (
        block(PARAMETERS, UNITS, limit=3), "gumbel_top_k", Composition.ZCDP,
        [[0, 0, 0, 0]], [[1, 1, 0, 0]], 15,
    ),
    "gumbel_top_k_chosen_k_bar": (
        block(FREE, UNITS, limit=1), "gumbel_top_k_chosen_k_bar", Composition.ZCDP,
        [[30, 30, 29, 20]], [[1, 0, 1, 1]], 4,
    ),
    "correlated_top_k": (
        block(FREE, UNITS, limit=3), "correlated_top_k", Composition.ZCDP,
        [[60, 50, 45, 2]], [[1, 1, 1, 0]], 4,
    ),
    "correlated_top_k, fresh": (
        block(FREE, UNITS, limit=3), "correlated_top_k", Composition.ZCDP,
        [[60, 0, 0, 0]], [[0, 1, 1, 0]], 8,
    ),
    "correlated_top_k, once": (
        block(FREE, UNITS, limit=3), "correlated_top_k", ONCE,
        [[60, 50, 45, 2]], [[1, 1, 1, 0]], 4,
    ),
    "laplace_top_k": (
        block(PARAMETERS, UNITS, limit=3), "laplace_top_k", ONCE,
        [[60, 50, 9, 8]], [[1, 1, 0, 0]], 4,
    ),
    "laplace_top_k, at the edge": (
        block(PARAMETERS, UNITS, limit=3), "laplace_top_k", ONCE,
        [[60, 8, 8, 8]], [[1, 0, 0, 1]], 8,
    ),
    "fixed_threshold": (
        block(FREE, UNITS, limit=2), "fixed_threshold", ONCE,
        [[28, 28, 5, 4]], [[1, 1, 0, 0]], 4,
    ),
    "known_domain_top_k": (
        block(FREE, ROWS, domain=6, limit=2), "known_domain_top_k", Composition.ZCDP,
        [[9, 9, 8, 7, 0, 0]], [[3, 0, 3, 3, 0, 0]], 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LARGEST)
def test_the_largest_groups_stay_within_the_claimed_epsilon(case: str) -> None:
    b, mechanism, composition, without, rises, _ = LARGEST[case]
    plan = plan_block(b, mechanism, composition)
    assert audit(sampler(plan, without, rises)) <= EPSILON


@pytest.mark.parametrize("case", LARGEST)
def test_the_audit_notices_a_unit_that_raises_the_largest_groups_further(case: str) -> None:
    b, mechanism, composition, without, rises, factor = LARGEST[case]
    plan = plan_block(b, mechanism, composition)
    multiplied = [[factor * rise for rise in column] for column in rises]
    assert audit(sampler(plan, without, multiplied)) > EPSILON


def test_the_audit_notices_a_cap_that_the_rewriting_does_not_enforce() -> None:
    """The stopping symbol of one group per unit, and a unit that touches them all."""
    narrow = replace(PARAMETERS, max_groups_contributed=1, k_bar=40)
    plan = plan_block(block(narrow, UNITS, limit=1), "gumbel_top_k")
    assert plan.bounding == Bounding.sample(1)
    nothing, everywhere = [[0] * 40], [[1] * 40]
    assert audit(sampler(plan, nothing, [[1] + [0] * 39])) <= EPSILON
    assert audit(sampler(plan, nothing, everywhere)) > EPSILON


# -- for a single publication -----------------------------------------------------------------

BASIC = QueryBudget.of(PARAMETERS, Composition.BASIC)
SUM = summed(PARAMETERS, 0, 7)
PUBLICATIONS: dict[str, tuple[Block, str, str, list[list[int]], list[list[int]]]] = {
    "sparse histogram": (
        block(PARAMETERS, UNITS), "gaussian_sparse_histogram", "", [[30, 25, 0, 0]], [[1, 1, 0, 0]],
    ),
    "sparse histogram, fresh": (
        block(PARAMETERS, UNITS), "gaussian_sparse_histogram", "", [[30, 0, 0, 0]], [[0, 0, 1, 1]],
    ),
    "sparse histogram with a sum": (
        block(PARAMETERS, UNITS, SUM), "gaussian_sparse_histogram", "",
        [[60, 55, 0], [90, 90, 0]], [[1, 1, 0], [21, 21, 0]],
    ),
    "sparse histogram with a sum, one fresh": (
        block(PARAMETERS, UNITS, SUM), "gaussian_sparse_histogram", "",
        [[60, 0, 0], [90, 0, 0]], [[1, 1, 0], [21, 21, 0]],
    ),
    "Laplace counts with a sum": (
        block(PARAMETERS, UNITS, SUM), "laplace_positive_counts", "pure epsilon",
        [[60, 55, 0], [90, 90, 0]], [[1, 1, 0], [21, 21, 0]],
    ),
    "known domain, Gaussian": (
        block(PARAMETERS, ROWS, SUM, domain=3), "known_domain",
        "at most 2 groups per unit, exact Gaussian",
        [[5] * 3, [9] * 3], [[3, 3, 0], [21, 21, 0]],
    ),
    "known domain, correlated": (
        block(FREE, SUM, domain=5), "known_domain",
        "a unit may touch every group, exact Gaussian",
        [[9] * 5], [[21] * 5],
    ),
    "known domain, elliptic": (
        block(THREE, SUM, domain=7), "known_domain",
        "at most 3 groups per unit, exact Gaussian",
        [[9] * 7], [[21] * 3 + [0] * 4],
    ),
    "known domain, Laplace": (
        block(PARAMETERS, ROWS, SUM, domain=3), "known_domain",
        "at most 2 groups per unit, Laplace",
        [[5] * 3, [9] * 3], [[3, 3, 0], [21, 21, 0]],
    ),
}  # fmt: skip


def published(b: Block, mechanism: str, variant: str) -> BlockPlan:
    """The plan of one of the options that only a single publication has."""
    known = b.known_domain
    options = known_domain_options(b, BASIC) if known else histogram_options(b, BASIC)
    (plan,) = (o.plan for o in options if (o.mechanism, o.variant) == (mechanism, variant))
    assert plan is not None
    return replace(plan, one_shot=BASIC.loss)


@pytest.mark.parametrize("case", PUBLICATIONS)
def test_one_publication_stays_within_the_claimed_epsilon(case: str) -> None:
    b, mechanism, variant, without, rises = PUBLICATIONS[case]
    plan = published(b, mechanism, variant)
    assert isinstance(plan.noise_of(0), CorrelatedGaussian) == case.endswith("correlated")
    assert isinstance(plan.noise_of(0), EllipticGaussian) == case.endswith("elliptic")
    assert audit(sampler(plan, without, rises)) <= EPSILON


@pytest.mark.parametrize("case", PUBLICATIONS)
def test_the_audit_notices_one_publication_of_a_unit_that_counts_four_times(case: str) -> None:
    """The broken twin; a fresh group then has four units."""
    b, mechanism, variant, without, rises = PUBLICATIONS[case]
    plan = published(b, mechanism, variant)
    multiplied = [[4 * rise for rise in column] for column in rises]
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
        epsilon=EPSILON,
        delta=1e-5,
        max_groups_contributed=2,
        max_rows_contributed=2,
        k_bar=3,
        left_out_share=0.0,
    ),
)
QUERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "declared keys": ("SELECT city, COUNT(*) n FROM visits GROUP BY city", {}),
    "unknown keys": ("SELECT street, COUNT(DISTINCT person) n FROM visits GROUP BY street", {}),
    "rounds": (
        "SELECT street, COUNT(DISTINCT person) n FROM visits GROUP BY street",
        {"max_groups_contributed": "auto"},
    ),
    "sums": ("SELECT SUM(x) n FROM visits", {}),
    "top-k": (
        "SELECT street, COUNT(DISTINCT person) n FROM visits GROUP BY street "
        "ORDER BY n DESC LIMIT 2",
        {"max_groups_contributed": "unlimited"},
    ),
}


def visits(heavy: int) -> dict[str, NDArray[Any]]:
    """120 people with three visits each, and ``heavy`` more with twenty visits everywhere."""
    rows = [(p, c, f"{c} {p % 2}", 5) for p in range(120) for c in ("bern", "oslo", "rome")]
    for person in range(1000, 1000 + heavy):
        rows += [(person, c, f"{c} 1", 10) for c in ("bern", "oslo", "rome") for _ in range(20)]
    names = ("person", "city", "street", "x")
    columns = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(names, columns, strict=True)}


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
                rows = connection.sql(sql, fresh=True, **parameters).fetchall()
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
