"""What a reading says is true: of the noise that is drawn, for every mechanism."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pytest
from helpers.blocks import ROWS, UNITS, block, summed
from helpers.laws import SeededSource, lower_bound, tail, upper_bound
from numpy.typing import NDArray
from sqlglot import exp

import dpsql
from dpsql.accuracy.appearance import appearance, threshold
from dpsql.accuracy.wording import Part, ShownAggregate
from dpsql.ir.measures import Aggregate, AggregateKind, Measure, Quantile, Ranked
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.summary import summary
from dpsql.planner import plan_block
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import ContributionBounding, Parameters
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.histogram import PositiveCounts
from dpsql.privacy.mechanisms.quantiles import Histograms
from dpsql.privacy.mechanisms.selection import Selected
from dpsql.privacy.mechanisms.set_union import SetUnion
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS
from dpsql.sql.expressions.lattices import lattice_for

BASIC, ZCDP = Composition.BASIC, Composition.ZCDP
SAMPLE = Parameters(
    epsilon=1.0, delta=1e-6, max_groups_contributed=3, max_rows_contributed=4, left_out_share=0.0
)
WEIGHT = replace(SAMPLE, contribution_bounding=ContributionBounding.WEIGHT)
TOP = replace(SAMPLE, k_bar=6)
K, BASE = 2, 5000


def histogram(name: str, parameters: Parameters = SAMPLE, paid: Composition = ZCDP) -> BlockPlan:
    return plan_block(block(parameters, UNITS), name, paid)


def top_k(name: str, paid: Composition = ZCDP) -> BlockPlan:
    return plan_block(block(TOP, UNITS, limit=K), name, paid)


HISTOGRAMS = {
    "gaussian": histogram("gaussian_positive_counts"),
    "gaussian, large groups only": histogram(
        "gaussian_positive_counts", replace(SAMPLE, min_units_per_group=40)
    ),
    "gaussian, hardly any noise": histogram(
        "gaussian_positive_counts", replace(SAMPLE, epsilon=9.0, max_groups_contributed=1)
    ),
    "laplace": histogram("laplace_positive_counts"),
    "sparse": histogram("gaussian_sparse_histogram", SAMPLE, BASIC),
    "weighted": histogram("weighted_gaussian_positive_counts", WEIGHT),
    "weighted sparse": histogram("weighted_gaussian_sparse_histogram", WEIGHT, BASIC),
}
SCORED = {
    "gaussian": top_k("gaussian_top_k"),
    "correlated": top_k("correlated_top_k"),
    "laplace": top_k("laplace_top_k", BASIC),
}
TOPS = SCORED | {
    "gumbel": top_k("gumbel_top_k"),
    "gumbel, chosen k_bar": top_k("gumbel_top_k_chosen_k_bar"),
    "fixed threshold": top_k("fixed_threshold", BASIC),
}


def told(plan: BlockPlan, *, released: int = 9, rows: int = 9, confidence: float = 0.95) -> str:
    """The reading of an answer that shows every aggregate as released."""
    shown = tuple(ShownAggregate(i, a.text) for i, a in enumerate(plan.block.aggregates))
    return summary([Part(plan, released, shown, rows)], confidence)


def margin(plan: BlockPlan) -> int:
    """What the sentence says the noise is within, where LIMIT has left nothing out."""
    fewer = told(plan, released=K - 1, rows=K - 1)
    (found,) = re.findall(r"are within ± ([\d,.]+) of", fewer)
    return math.ceil(float(found.replace(",", "")))


# -- groups that exceed a threshold -----------------------------------------------------------


def released(plan: BlockPlan, size: float, runs: int = 40_000) -> Selected:
    """Many groups of the same size, each with a draw of its own."""
    steps = WEIGHT_STEPS if plan.bounding is not None and plan.bounding.weighted else 1
    scores = np.full(runs, round(size * steps), dtype=np.int64)
    return plan.selection.select(scores, SeededSource(11))


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_groups_of_a_histogram_appear_as_often_as_is_said(name: str) -> None:
    plan, runs = HISTOGRAMS[name], 40_000
    found = appearance(plan)
    assert found is not None
    sizes = (found.rarely, found.half, found.surely)
    rarely, half, surely = (len(released(plan, size).indices) for size in sizes)
    assert lower_bound(rarely, runs) <= 0.05
    assert upper_bound(half, runs) >= 0.5
    assert upper_bound(surely, runs) >= 0.95


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_groups_a_little_smaller_appear_less_often_than_that(name: str) -> None:
    """The negative control: figures that were a fifth off would be noticed."""
    plan, runs = HISTOGRAMS[name], 40_000
    found = appearance(plan)
    assert found is not None
    off = max(1.0, (found.surely - found.half) / 5)
    assert upper_bound(len(released(plan, found.half - off).indices), runs) < 0.5
    assert upper_bound(len(released(plan, found.surely - off).indices), runs) < 0.95
    if found.rarely + off < found.half and "hardly" not in name:
        assert lower_bound(len(released(plan, found.rarely + 1.2 * off).indices), runs) > 0.05


@pytest.mark.parametrize("name", ["gaussian", "laplace", "gaussian, hardly any noise"])
def test_sizes_are_the_smallest_of_which_it_is_true(name: str) -> None:
    """By the exact tails of what is drawn."""
    plan = HISTOGRAMS[name]
    found, selection = appearance(plan), plan.selection
    assert found is not None
    assert isinstance(selection, PositiveCounts)
    noise = selection.noise.noise

    def appears(size: float) -> float:
        at = selection.threshold - int(size)
        return tail(noise, at) if at >= 0 else 1 - tail(noise, -at - 1)

    assert appears(found.half) >= 0.5 > appears(found.half - 1)
    assert appears(found.surely) >= 0.95 > appears(found.surely - 1)
    assert appears(found.rarely) <= 0.05 < appears(found.rarely + 2)


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_counts_of_groups_that_appear_half_the_time_are_covered_given_that_they_appear(
    name: str,
) -> None:
    plan, allowed = HISTOGRAMS[name], margin(HISTOGRAMS[name])
    found, step = appearance(plan), plan.measures[0].measure.step
    assert found is not None
    for size in (found.half, (found.half + found.surely) // 2, found.surely, 3 * found.surely):
        noisy = released(plan, size).noisy
        assert noisy is not None
        hits = int((np.abs(noisy * step - size) <= allowed).sum())
        assert upper_bound(hits, len(noisy)) >= 0.95, size
        if allowed > 4 and size in (found.half, 3 * found.surely):  # in between they err one way
            assert lower_bound(hits, len(noisy)) <= 0.97, size


@pytest.mark.parametrize("name", [name for name in HISTOGRAMS if "hardly" not in name])
def test_counts_of_smaller_groups_are_not_and_are_always_too_high(name: str) -> None:
    """Why the sentence has a condition."""
    plan, allowed = HISTOGRAMS[name], margin(HISTOGRAMS[name])
    found, step = appearance(plan), plan.measures[0].measure.step
    assert found is not None
    noisy = released(plan, found.rarely).noisy
    assert noisy is not None
    errors = noisy * step - found.rarely
    assert upper_bound(int((np.abs(errors) <= allowed).sum()), len(errors)) < 0.95
    assert (errors > 0).all()
    assert "in groups of" in told(plan)
    assert "what appears is counted too high" in told(plan)


def test_values_with_noise_of_their_own_need_no_condition() -> None:
    plan = plan_block(block(SAMPLE, ROWS), "gaussian_positive_counts")
    assert "in groups of" not in told(plan)
    assert "counted too high" not in told(plan)


# -- top-k ------------------------------------------------------------------------------------


def ranking(plan: BlockPlan, excess: float) -> NDArray[np.int64]:
    """One group that far above all others, which are level with the base."""
    assert plan.selection.top_rows_needed is not None
    others = [BASE] * (plan.selection.top_rows_needed - 1)
    return np.array([BASE + int(excess), *others], dtype=np.int64)


def cleared(plan: BlockPlan, excess: float, runs: int = 2000) -> Iterator[float]:
    """The noisy score of the group above all others, whenever it comes out; NaN if names only."""
    source, scores = SeededSource(7), ranking(plan, excess)
    for _ in range(runs):
        selected = plan.selection.select(scores, source)
        (places,) = np.nonzero(selected.indices == 0)
        if len(places):
            yield math.nan if selected.noisy is None else float(selected.noisy[places[0]])


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", TOPS)
def test_groups_of_a_top_k_clear_the_threshold_as_often_as_is_said(name: str) -> None:
    plan, runs = TOPS[name], 2000
    found = appearance(plan)
    assert found is not None
    half, surely = (len(list(cleared(plan, at))) for at in (found.half, found.surely))
    assert upper_bound(half, runs) >= 0.5
    assert upper_bound(surely, runs) >= 0.95
    if "chosen" not in name:  # whose figures are bounds
        assert lower_bound(half, runs) <= 0.6
        assert upper_bound(len(list(cleared(plan, found.half - found.half / 4))), runs) < 0.5


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("name", SCORED)
def test_scores_that_come_out_of_a_top_k_are_covered_from_half_the_time_on(name: str) -> None:
    plan, allowed = SCORED[name], margin(SCORED[name])
    found = appearance(plan)
    assert found is not None
    for excess in (found.half, found.surely):
        errors = np.abs(np.array(list(cleared(plan, excess))) - BASE - int(excess))
        assert upper_bound(int((errors <= allowed).sum()), len(errors)) >= 0.95
    errors = np.abs(np.array(list(cleared(plan, found.rarely, 4000))) - BASE - int(found.rarely))
    assert upper_bound(int((errors <= allowed).sum()), len(errors)) < 0.95
    assert "in groups that clear the threshold at least half the time" in told(plan)


@pytest.mark.slow
@pytest.mark.parametrize("size", [7, 40])
def test_groups_of_a_declared_top_k_are_among_them_as_often_as_is_said(size: int) -> None:
    plan = plan_block(block(TOP, UNITS, domain=size, limit=K), "known_domain_top_k")
    found, runs, source = appearance(plan), 2000, SeededSource(3)
    assert found is not None
    assert f"It always names {K} of the {size} declared groups" in told(plan, released=K, rows=K)

    def among(excess: float) -> int:
        scores = np.full(size, BASE, dtype=np.int64)
        scores[0], scores[1] = BASE + int(excess), 10**9  # the worst case: one place is taken
        return sum(0 in plan.selection.select(scores, source).indices for _ in range(runs))

    half, surely = among(found.half), among(found.surely)
    assert upper_bound(half, runs) >= 0.5
    assert upper_bound(surely, runs) >= 0.95
    assert upper_bound(among(found.half / 2), runs) < 0.5


@pytest.mark.parametrize(
    ("score", "cap", "said"), [(UNITS, None, False), (UNITS, 3, True), (ROWS, None, True)]
)
def test_sizes_are_said_to_be_bounded_where_they_are(
    score: Measure, cap: int | None, said: bool
) -> None:
    parameters = replace(TOP, max_groups_contributed=cap)
    plan = plan_block(block(parameters, score, limit=K), "gumbel_top_k")
    capped = cap is not None and plan.bounding is not None
    assert told(plan).endswith("(after bounding).") == (said and (capped or score is ROWS))


# -- keys alone -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_keys_of_a_set_union_are_listed_as_often_as_is_said(kind: str) -> None:
    plan = plan_block(block(SAMPLE), f"weighted_{kind}_set_union")
    found, runs, union = appearance(plan), 40_000, plan.selection
    assert found is not None
    assert isinstance(union, SetUnion)

    def listed(units: float) -> int:
        weight = round(units) * union.item_weights[-1]  # units with as many keys as they may have
        return len(union.select(np.full(runs, weight), SeededSource(5)).indices)

    assert upper_bound(listed(found.half), runs) >= 0.5
    assert upper_bound(listed(found.surely), runs) >= 0.95
    assert upper_bound(listed(found.half * 0.8), runs) < 0.5
    assert upper_bound(listed(found.surely * 0.9), runs) < 0.95
    assert f"A key that keeps {found.half:,} units (person) is listed" in told(plan)


def test_a_key_that_no_unit_has_is_never_listed() -> None:
    plan = plan_block(block(SAMPLE), "weighted_gaussian_set_union")
    assert isinstance(plan.selection, SetUnion)
    generous = replace(plan.selection, delta=0.99)
    scores = np.zeros(40_000, dtype=np.int64)
    assert len(generous.select(scores, SeededSource(5)).indices) == 0
    assert len(generous.select(scores + 1, SeededSource(5)).indices) > 0
    assert "All that is listed exists" in told(plan)


def test_figures_of_a_policy_are_called_an_estimate() -> None:
    plan = plan_block(block(SAMPLE), "policy_gaussian_set_union")
    assert "By an estimate a key needs about" in told(plan)
    assert "at least half the time" not in told(plan)


# -- declared keys ----------------------------------------------------------------------------


@pytest.mark.slow
def test_counts_of_declared_groups_are_within_what_is_said_nineteen_times_of_twenty() -> None:
    parameters = replace(SAMPLE, max_groups_contributed=None)
    plan = plan_block(block(parameters, UNITS, domain=4))
    noise = plan.measures[0].noise
    assert noise is not None
    assert "correlated" in noise.name
    allowed, source = margin(plan), SeededSource(2)
    hits = [abs(float(noise.add(np.zeros(4, dtype=np.int64), source)[0])) for _ in range(3000)]
    within = [error <= allowed for error in hits]
    assert upper_bound(sum(within), len(within)) >= 0.95
    narrower = [error <= 0.7 * allowed for error in hits]
    assert upper_bound(sum(narrower), len(narrower)) < 0.95


@pytest.mark.parametrize(
    ("shown", "rows", "said"),
    [
        (True, 4, "All 4 declared groups appear, whether they hold rows or not."),
        (True, 2, "All 4 declared groups were answered, whether they hold rows or not."),
        (False, 9, "All 4 declared groups were answered, whether they hold rows or not."),
    ],
)
def test_declared_groups_appear_unless_the_outer_query_leaves_them_out(
    shown: bool, rows: int, said: str
) -> None:
    plan = plan_block(block(SAMPLE, UNITS, domain=4))
    columns = (ShownAggregate(0, "n"),) if shown else ()
    assert said in summary([Part(plan, 4, columns, rows)])


@pytest.mark.parametrize("rows", [4, 2])
def test_values_that_were_chosen_among_say_so(rows: int) -> None:
    """The largest of several noisy counts is too high on average, by no fault of its noise."""
    plan = plan_block(block(SAMPLE, UNITS, domain=4))
    said = summary([Part(plan, 4, (ShownAggregate(0, "n"),), rows)])
    assert ("before rows were chosen" in said) == (rows < 4)


def test_a_full_correlated_top_k_was_chosen_among() -> None:
    plan, allowed = SCORED["correlated"], "LIMIT's choice allowed for"
    (alone,), (chosen,) = (
        re.findall(r"are within ± ([\d,.]+) of", told(plan, released=n, rows=n)) for n in (K - 1, K)
    )
    assert float(alone) < float(chosen)
    assert allowed in told(plan, released=K, rows=K)
    assert allowed not in told(plan, released=K - 1, rows=K - 1)


def test_a_choice_of_limit_is_allowed_for_and_another_is_not() -> None:
    plan = SCORED["gaussian"]
    for released in (K, 2 * K, 8 * K):
        said = told(plan, released=released, rows=K)
        assert ("LIMIT's choice allowed for" in said) == (released > K)
        # Given the choice, each row has an interval of its own width.
        assert ("such intervals hold the true count" in said) == (released > K)
        assert ("are within ±" in said) == (released == K)
    assert "before rows were chosen" in told(plan, released=2 * K, rows=K - 1)


# -- averages, several columns, several blocks ------------------------------------------------


def test_several_columns_are_listed_and_averages_refer_to_their_interval() -> None:
    measures = (summed(SAMPLE, -5, 20, centered=True), ROWS)
    plan = plan_block(block(SAMPLE, *measures, domain=4, average=True))
    assert told(plan, rows=4, released=4).startswith(
        "At least 95% of such intervals hold the true average (after bounding)."
    )
    both = plan_block(block(SAMPLE, summed(SAMPLE, 0, 20), ROWS, domain=4))
    assert re.match(
        r"At least 99% of such intervals, a0 ± [\d,]+, a1 ± [\d,]+, hold the true value \(after",
        told(both, rows=4, released=4, confidence=0.99),
    )


def test_a_condition_names_the_columns_that_it_is_for() -> None:
    plan = plan_block(block(SAMPLE, UNITS, ROWS), "gaussian_positive_counts")
    assert re.search(r"hold the true value, that of a0 in groups of \d+ units", told(plan))


def test_averages_that_are_computed_with_are_not_spoken_of() -> None:
    measures = (summed(SAMPLE, -5, 20, centered=True), ROWS)
    plan = plan_block(block(SAMPLE, *measures, domain=4, average=True))
    assert summary([Part(plan, 4, (), 4)]).startswith("All 4 declared groups")


def test_each_block_has_a_line_and_a_flood_of_them_is_cut() -> None:
    part = Part(plan_block(block(SAMPLE, UNITS, domain=4)), 4, (), 4)
    lines = summary([part, part]).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("By k: At least 95% of such counts") for line in lines)
    assert summary([part] * 9).splitlines()[-1] == "… and 5 more parts."


def test_nothing_is_said_where_nothing_was_released() -> None:
    assert summary([]) == ""


def test_a_stored_answer_says_that_it_cost_nothing_again() -> None:
    part = Part(plan_block(block(SAMPLE, UNITS, domain=4)), 4, (), 4)
    first, *rest = summary([part], stored=True).splitlines()
    assert first == "This answer was given before; it cost nothing again."
    assert rest == summary([part]).splitlines()


# -- quantiles --------------------------------------------------------------------------------


def quantiles(*fractions: Fraction) -> BlockPlan:
    lattice = lattice_for((0, 999), True, SAMPLE.rows_limit)
    ranked = Ranked(exp.column("x"), lattice)
    aggregates = tuple(
        Aggregate(AggregateKind.QUANTILE, (), f"q{f}", Quantile(ranked, f, True)) for f in fractions
    )
    return plan_block(replace(block(SAMPLE, domain=4), aggregates=aggregates))


def rank_margin(plan: BlockPlan) -> int:
    return max(int(n.replace(",", "")) for n in re.findall(r"± ([\d,]+) rows", told(plan)))


def misses(plan: BlockPlan, rows: int, allowed: float, runs: int = 20_000) -> int:
    """Of medians of rows that are all on one point, those whose rank is further off."""
    (noisy,) = plan.quantiles
    where, groups = 500, np.ones(runs, dtype=np.int64)
    drawn = noisy.mechanism.draw(
        Histograms(np.cumsum(groups), where * groups, rows * groups), SeededSource(9)
    )
    return int((drawn != where).sum()) if rows / 2 > allowed else 0


def test_medians_are_within_the_ranks_that_are_said_and_the_figure_is_not_idle() -> None:
    """All rows on one point are the worst case: every other point is half of them off."""
    plan, runs = quantiles(Fraction(1, 2)), 20_000
    allowed = rank_margin(plan)
    worst = misses(plan, 2 * allowed + 2, allowed)
    assert 0 < lower_bound(worst, runs) <= 0.05
    assert upper_bound(worst, runs) > 0.02
    assert lower_bound(misses(plan, round(1.6 * allowed), 0.8 * allowed - 1), runs) > 0.05


def test_quantiles_of_the_same_values_share_the_risk() -> None:
    """They are put in order, which takes all of them to be within their margins at once."""
    several = quantiles(Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    mechanisms = [noisy.mechanism for noisy in several.quantiles]
    assert rank_margin(several) == math.ceil(max(m.margin(1 - 0.05 / 3) for m in mechanisms))
    assert told(several).count("is within ±") == 3


# -- thresholds -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_a_group_appears_exactly_if_its_noisy_count_exceeds_the_threshold(name: str) -> None:
    plan = HISTOGRAMS[name]
    line, found = threshold(plan, 0), appearance(plan)
    assert line is not None
    assert found is not None
    assert line.base_rank is None
    noisy = released(plan, found.half).noisy
    assert noisy is not None
    values = noisy * plan.measures[0].measure.step
    assert (values > line.value).all()
    assert values.min() <= line.value + 1


def test_thresholds_of_a_top_k_count_from_the_minimum_and_name_the_base() -> None:
    plan = SCORED["gaussian"]
    line = threshold(plan, 0)
    assert line is not None
    assert (line.value, line.base_rank) == (plan.selection.threshold, TOP.k_bar + 1)


def test_there_is_no_threshold_on_values_that_decide_nothing() -> None:
    assert threshold(plan_block(block(SAMPLE, UNITS, domain=4)), 0) is None
    assert threshold(plan_block(block(SAMPLE, ROWS), "gaussian_positive_counts"), 0) is None


# -- whole answers ----------------------------------------------------------------------------

POLICY = Policy(
    "world",
    tables={
        "t": TablePolicy(
            "t",
            PrivacyUnit("person", "u"),
            {
                "year": ColumnPolicy(domain=(2000, 2001, 2002)),
                "x": ColumnPolicy(0, 10),
                "n": ColumnPolicy(-5, 20),
            },
        )
    },
    accounts={"ana": AccountPolicy("ana", 5000.0, 1e-2)},
    defaults=Parameters(
        epsilon=2.0,
        delta=1e-6,
        max_groups_contributed=1,
        max_rows_contributed=2,
        k_bar=10,
        left_out_share=0.0,
    ),
)


def world(units: int, seed: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        "u": np.arange(units),
        "key": random.integers(0, 4, units),
        "year": 2000 + random.integers(0, 3, units),
        "x": random.uniform(0, 10, units),
        "n": random.integers(-5, 21, units),
    }


def asking(directory: Path, units: int, seed: int) -> dpsql.Connection:
    engine = dpsql.DuckDBEngine()
    engine.register("t", world(units, seed))
    return dpsql.connect(engine, POLICY, directory / f"budget{seed}.db", "ana")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    with asking(tmp_path_factory.mktemp("world"), 8000, 1) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("asked", "key", "bounding"),
    [
        ("COUNT(DISTINCT u)", "key", "sample"),
        ("COUNT(DISTINCT u)", "key", "weight"),
        ("COUNT(*)", "year", "sample"),
        ("SUM(x)", "year", "weight"),
        ("SUM(n)", "key", "sample"),
    ],
)
def test_answers_are_as_close_as_their_sentence_says_and_not_much_closer(
    asked: str, key: str, bounding: Literal["sample", "weight"], connection: dpsql.Connection
) -> None:
    """From SQL to sentence, over known and unknown keys: groups here are far above thresholds."""
    sql, table = f"SELECT {key}, {asked} AS v FROM t GROUP BY {key}", world(8000, 1)
    with duckdb.connect() as plain:
        plain.register("t", table)
        exact = dict(plain.execute(f"SELECT {key}, {asked} FROM t GROUP BY {key}").fetchall())
    errors: list[float] = []
    for _ in range(40):
        result = connection.sql(sql, contribution_bounding=bounding, fresh=True)
        errors += [abs(value - exact[group]) for group, value in result.fetchall()]
    (allowed,) = (
        float(m.replace(",", "")) for m in re.findall(r"within ± ([\d,.]+) of", result.summary())
    )
    trials = len(errors)
    assert upper_bound(sum(error <= allowed for error in errors), trials) >= 0.95
    assert upper_bound(sum(error <= 0.25 * allowed for error in errors), trials) < 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT year, COUNT(*) n, AVG(x) a FROM t GROUP BY year",
        "SELECT year, COUNT(*) n FROM t GROUP BY ROLLUP(year)",
        "SELECT MEDIAN(x), STDDEV(x) FROM t",
        "SELECT key, COUNT(DISTINCT u) n FROM t GROUP BY key",
    ],
)
def test_data_have_no_say_in_a_reading(
    sql: str, connection: dpsql.Connection, tmp_path: Path
) -> None:
    with asking(tmp_path, 3000, 2) as other:
        said = other.sql(sql).summary()
        assert said == connection.sql(sql, fresh=True).summary()
        assert said


def test_a_rollup_says_of_each_set_what_is_said_of_it_alone(connection: dpsql.Connection) -> None:
    result = connection.sql("SELECT year, COUNT(*) c FROM t GROUP BY ROLLUP(year)")
    by_year, in_all = result.summary().split("\n")[-2:]
    assert by_year.startswith("By year: At least 95% of such counts are within ±")
    assert by_year.endswith("All 3 declared groups appear, whether they hold rows or not.")
    assert in_all.startswith("In all: At least 95% of such counts are within ±")
    assert in_all.endswith("(after bounding).")


def test_filtered_counts_are_read_like_counts_and_groups_by_all_their_units(
    connection: dpsql.Connection,
) -> None:
    said = connection.sql(
        "SELECT key, COUNT(DISTINCT u) FILTER (WHERE x > 5) n FROM t GROUP BY key"
    ).summary()
    assert re.fullmatch(
        r"At least 95% of such counts are within ± \d+ of the true ones \(after bounding\)\. "
        r"A group that keeps \d+ units \(person\) appears at least half the time, one with \d+ at "
        r"least 95%, one with \d+ or fewer at most 5%\.",
        said,
    )


@pytest.mark.parametrize("sql", ["SHOW BUDGET", "DESCRIBE t", "EXPLAIN SELECT COUNT(*) FROM t"])
def test_statements_that_release_nothing_have_no_reading(
    sql: str, connection: dpsql.Connection
) -> None:
    assert connection.sql(sql).summary() == ""
    assert connection.sql(sql).thresholds() == {}


def test_an_answer_that_was_given_before_says_so(connection: dpsql.Connection) -> None:
    sql = "SELECT year, SUM(x) s FROM t GROUP BY year"
    first, again = connection.sql(sql), connection.sql(sql)
    assert not first.cost.stored
    assert again.cost.stored
    assert "given before" not in repr(first)
    assert again.summary() == (
        f"This answer was given before; it cost nothing again.\n{first.summary()}"
    )
    assert "paid for before" in repr(again)
    assert "paid ε" not in repr(again)


def test_names_in_a_reading_hold_nothing_that_a_terminal_obeys(
    connection: dpsql.Connection,
) -> None:
    said = connection.sql(
        'SELECT key, COUNT(*) AS "a\x1b[31m", COUNT(DISTINCT u) AS "b\nc" FROM t GROUP BY key'
    ).summary()
    assert said.isprintable()
    assert "a\\x1b[31m ±" in said


@pytest.mark.parametrize("confidence", [0, 1, math.nan])
def test_a_confidence_outside_zero_and_one_is_refused(
    confidence: float, connection: dpsql.Connection
) -> None:
    result = connection.sql("SELECT COUNT(*) n FROM t")
    with pytest.raises(dpsql.ParameterError, match="between 0 and 1"):
        result.summary(confidence)
