"""Intervals cover what they promise, by exact tails and by measurement, and not absurdly more."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from helpers.laws import log_pmf, lower_bound, tail, upper_bound

import dpsql
from dpsql.accuracy.estimates import PlausibleRange, estimate_range
from dpsql.accuracy.intervals import GroupsTotal
from dpsql.accuracy.joint import joint_average, joint_range
from dpsql.errors import ParameterError
from dpsql.ir.measures import Aggregate, AggregateKind, Lattice, Measure, MeasureKind
from dpsql.kinds.registry import release_kind
from dpsql.policy.model import AccountPolicy, ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.privacy.mechanisms.additive import CorrelatedGaussian, IndependentNoise
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace

CONFIDENCES = (0.5, 0.8, 0.95, 0.99, 1 - 1e-6)

# -- exactly ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [DiscreteGaussian(0.4), DiscreteGaussian(7.7), DiscreteLaplace(0.5), DiscreteLaplace(11.0)],
    ids=repr,
)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_margins_of_independent_noise_are_the_smallest_that_cover(
    noise: DiscreteGaussian | DiscreteLaplace, confidence: float
) -> None:
    margin = IndependentNoise(noise, 1).margin(confidence, 3)
    assert margin == int(margin)
    assert 2 * tail(noise, int(margin)) <= (1 - confidence) * (1 + 1e-9)
    assert margin == 0 or 2 * tail(noise, int(margin) - 1) > (1 - confidence) * (1 - 1e-6)


def sum_tail(one: DiscreteGaussian, two: DiscreteGaussian, t: int) -> float:
    """P[Z1 + Z2 > t]."""
    x = np.arange(-1000, 1001)
    first, second = np.exp(log_pmf(one, x)), np.exp(log_pmf(two, x))
    above = np.concatenate((np.cumsum(second[::-1])[::-1], np.zeros(2001 + abs(t))))
    starts = np.clip(t + 1 - x + 1000, 0, None)
    return math.fsum(first * above[starts])


@pytest.mark.parametrize("groups", [1, 4, 100])
@pytest.mark.parametrize("sigma", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_margins_of_correlated_noise_are_the_smallest_half_steps_that_cover(
    groups: int, sigma: float, confidence: float
) -> None:
    own, shared = DiscreteGaussian(2 * sigma), DiscreteGaussian(2 * sigma / groups**0.25)
    margin = CorrelatedGaussian(sigma, 1).margin(confidence, groups)
    half_steps = round(2 * margin)
    assert 2 * margin == half_steps
    assert 2 * sum_tail(own, shared, half_steps) <= (1 - confidence) * (1 + 1e-9)
    assert 2 * sum_tail(own, shared, half_steps - 2) > 1 - confidence


def test_an_average_is_placed_by_the_noise_of_sum_and_number_together() -> None:
    """The ends are where the sum of both noises is as large as its margin; never beyond bounds."""
    lattice = Lattice(0.0, 8.0, 1.0, 0, 8, 1, integral=True)
    total, number, margins = (
        np.array([-300.0, 60.0, 5.0]),
        np.array([400.0, 100.0, 9.0]),
        (40.0, 10.0),
    )
    found = joint_average(lattice, (total, number), margins)
    for end in (found.low, found.high):
        centred = end[:2] - 4.0
        off = np.abs(total[:2] - centred * number[:2])
        assert off == pytest.approx(np.hypot(margins[0], centred * margins[1]))
    assert found.low[2] == 0.0  # of which there may be no number at all
    assert found.high[2] == 8.0
    average = Aggregate(AggregateKind.AVG, (0, 1), "avg(x)")
    measures = [Measure(MeasureKind.CENTERED_SUM, lattice=lattice), Measure(MeasureKind.NUMBERS)]
    apart = [
        PlausibleRange.around(part, m) for part, m in zip((total, number), margins, strict=True)
    ]
    rectangle = estimate_range(average, measures, apart)
    assert np.all((found.high - found.low)[:2] < (rectangle.high - rectangle.low)[:2])


@pytest.mark.parametrize("percent", [80, 95])
@pytest.mark.parametrize("number", [25, 120, 400, 5000])
@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.15), (1.0, 0.4), (0.5, 0.0), (1.7, 0.7)])
@pytest.mark.parametrize("noises", [(20.0, 10.0, 20.0), (9.0, 9.0, 150.0), (90.0, 5.0, 9.0)])
def test_a_spread_is_placed_by_the_noise_of_all_its_parts_together(
    percent: int, number: int, mean: float, deviation: float, noises: tuple[float, float, float]
) -> None:
    """Whatever the number of values is, and whichever part has the most noise.

    Intervals of many values are narrower than by parts.
    """
    confidence = percent / 100
    lattice, squares = (
        Lattice(-2.0, 2.0, 1.0, -2, 2, 1, False),
        Lattice(0.0, 4.0, 1.0, 0, 4, 1, False),
    )
    kinds = (MeasureKind.CENTERED_SUM, MeasureKind.NUMBERS, MeasureKind.CENTERED_SQUARES)
    lattices = (lattice, None, squares)
    measures = [Measure(kind, lattice=of) for kind, of in zip(kinds, lattices, strict=True)]
    sums = (number * mean, number, number * (deviation**2 + mean**2 - 2.0))
    rng = np.random.default_rng(number + percent)
    tries = 10_000
    noisy = [s + rng.normal(0.0, noise, tries) for s, noise in zip(sums, noises, strict=True)]

    def margins(level: float) -> list[float]:
        return [-statistics.NormalDist().inv_cdf((1 - level) / 2) * noise for noise in noises]

    for kind in (AggregateKind.VAR_POP, AggregateKind.STDDEV_SAMP):
        spread = Aggregate(kind, (0, 1, 2), "spread(x)")
        each = margins(1 - (1 - confidence) / 3)
        parts = [PlausibleRange.around(n, m) for n, m in zip(noisy, each, strict=True)]
        apart = estimate_range(spread, measures, parts)
        found = joint_range(spread, measures, noisy, margins, confidence, apart)
        shown = estimate_range(spread, measures, [PlausibleRange(n, n) for n in noisy]).low
        assert np.all((found.low <= shown + 1e-9) & (shown <= found.high + 1e-9))
        sample = kind is AggregateKind.STDDEV_SAMP
        true = deviation * math.sqrt(number / (number - 1)) if sample else deviation**2
        held = (found.low <= true + 1e-12) & (true <= found.high + 1e-12)
        assert np.mean(held) >= confidence - 5 * math.sqrt(confidence * (1 - confidence) / tries)
        if number == 5000:
            narrow = np.mean(found.high - found.low) / np.mean(apart.high - apart.low)
            assert narrow < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("composition", list(Composition))
def test_averages_and_spreads_drift_whatever_the_noise_within_the_bounds_of_values(
    composition: Composition, tmp_path: Path
) -> None:
    """By as much if they are of a few groups of the answer alone, as LIMIT may show."""
    engine = dpsql.DuckDBEngine()
    engine.register("visits", data())
    policy = replace(POLICY, accounts={"ana": AccountPolicy("ana", 900.0, 0.1, composition)})
    with dpsql.connect(engine, policy, tmp_path / "budget.db", "ana") as con:
        asked = f"SELECT place, AVG(x) v, STDDEV_POP(x) w {DECLARED}"
        result = con.sql(asked, max_rows_contributed="auto", max_groups_contributed=2, epsilon=5.0)
    noise = result._noise
    (plan,), (released,), (totals,) = noise.plans, noise.released, noise.totals
    assert plan.weight_cut > 0
    assert "Intervals reach further" in result.summary()
    kind, none = release_kind(plan), release_kind(replace(plan, weight_cut=0.0))
    measured = [np.array([-20.0, 0.0, 30.0]), np.array([120.0, 150.0, 90.0])]
    squares = np.array([-90.0, 40.0, -150.0])
    for index, columns, ends in ((0, measured, (-1, 4)), (1, [*measured, squares], (0, 2.5))):
        total = totals[index]
        wide, plain = (
            k.interval(released, index, columns, 0.95, None, total) for k in (kind, none)
        )
        assert np.all((wide.high >= plain.high) & (wide.low <= plain.low))
        assert np.any(wide.high > plain.high)
        assert np.all((wide.low >= ends[0]) & (wide.high <= ends[1]))
        alone = [column[:1] for column in columns]
        few = kind.interval(released, index, alone, 0.95, None, total)
        assert few.high[0] == wide.high[0]


def test_the_largest_groups_lack_more_than_in_proportion() -> None:
    alike = np.full(10, 30.0)
    assert GroupsTotal.of(alike).parts(alike, 1.0) == pytest.approx(0.1)
    some = np.array([600.0, 200.0, 100.0, 100.0, -50.0])
    parts = GroupsTotal.of(some).parts(some, 1.0)
    assert parts[0] == pytest.approx(0.36 / 0.42)
    assert parts[1:] == pytest.approx([0.2, 0.1, 0.1, 0.0])
    nothing = np.zeros(3)
    assert (GroupsTotal.of(nothing).parts(nothing, 1.0) == 0).all()


def test_upper_ends_of_a_cascade_reach_further_by_what_its_cap_supposedly_takes(
    tmp_path: Path,
) -> None:
    """Of 3,000 units in 8 groups each, a few with very many rows: the upper ends reach further."""
    engine = dpsql.DuckDBEngine()
    person, place = (each.ravel() for each in np.mgrid[:3000, :8])
    times = np.where(person < 200, 21, 1)
    engine.register(
        "visits", {"person": np.repeat(person, times), "place": np.repeat(place, times)}
    )
    rules = replace(
        POLICY, tables={"visits": TablePolicy("visits", PrivacyUnit("person", "person"))}
    )
    with dpsql.connect(engine, rules, tmp_path / "budget.db", "ana") as con:
        result = con.sql(
            "SELECT place, COUNT(*) n FROM visits GROUP BY place",
            max_rows_contributed="auto",
            max_groups_contributed="auto",
            epsilon=2.0,
        )
    noise = result._noise
    (plan,), (released,), (totals,) = noise.plans, noise.released, noise.totals
    assert plan.weight_cut > 0
    kind, values = release_kind(plan), np.array([4000.0, 4000.0])

    def above(lost: float, cap: float) -> float:
        columns = [values, values, np.full(2, lost), np.full(2, cap)]
        ends, plain = (
            kind.interval(released, 0, columns, 0.95, None, t) for t in (totals[0], None)
        )
        assert (ends.low == plain.low).all()
        return float((ends.high - plain.high)[0])

    # What a cap supposedly takes of all groups is divided among them.
    part = totals[0].parts(values, 1.0)[0]
    assert above(0.0, 6.0) == 0
    assert above(700.0, 6.0) == pytest.approx(700 * part)
    # Releases of before do not tell it: their rows were cut in as many groups as the cap says.
    assert above(np.nan, 6.0) == pytest.approx(6 * above(np.nan, 1.0))
    assert above(np.nan, 1.0) > 0


# -- measured ---------------------------------------------------------------------------------

PLACES = tuple(range(40))
PEOPLE = 3000


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(PEOPLE), 2)
    return {
        "person": person,
        "place": (person * 7 + np.tile([0, 13], PEOPLE)) % 40,
        "few": person % 4,
        "day": (person + np.tile([0, 3], PEOPLE)) % 7,
        "n": rng.integers(-3, 9, 2 * PEOPLE),
        "x": rng.uniform(-1.0, 4.0, 2 * PEOPLE),
        "big": rng.integers(0, 10**8, 2 * PEOPLE),
    }


POLICY = Policy(
    "world",
    tables={
        "visits": TablePolicy(
            "visits",
            PrivacyUnit("person", "person"),
            {
                "place": ColumnPolicy(domain=PLACES),
                "few": ColumnPolicy(domain=(0, 1, 2, 3)),
                "day": ColumnPolicy(domain=tuple(range(7))),
                "n": ColumnPolicy(-3, 8),
                "x": ColumnPolicy(-1.0, 4.0),
                "big": ColumnPolicy(0, 10**8),
            },
        )
    },
    accounts={"ana": AccountPolicy("ana", 1000.0, 0.1)},
    defaults=Parameters(
        epsilon=1.0,
        delta=1e-6,
        max_groups_contributed=2,
        max_rows_contributed=2,
        k_bar=100,
        left_out_share=0.0,
    ),
)
DECLARED = "FROM visits GROUP BY place ORDER BY place"
INDEPENDENT = {
    "counts": (f"SELECT place, COUNT(*) v {DECLARED}", "COUNT(*)"),
    "units": (f"SELECT place, COUNT(DISTINCT person) v {DECLARED}", "COUNT(DISTINCT person)"),
    "integer sums": (f"SELECT place, SUM(n) v {DECLARED}", "SUM(n)"),
    "real sums": (f"SELECT place, SUM(x) v {DECLARED}", "SUM(x)"),
    "coarse sums": (f"SELECT place, SUM(big) v {DECLARED}", "SUM(big)"),
    "averages": (f"SELECT place, AVG(x) v {DECLARED}", "AVG(x)"),
    "integer averages": (f"SELECT place, AVG(n) v {DECLARED}", "AVG(n)"),
    "filtered counts": (
        f"SELECT place, COUNT(*) FILTER (WHERE n > 2) v {DECLARED}",
        "COUNT(*) FILTER (WHERE n > 2)",
    ),
    "filtered units": (
        f"SELECT place, COUNT(DISTINCT person) FILTER (WHERE n > 2) v {DECLARED}",
        "COUNT(DISTINCT person) FILTER (WHERE n > 2)",
    ),
    "distinct values": (f"SELECT place, COUNT(DISTINCT big) v {DECLARED}", "COUNT(DISTINCT big)"),
    "sums bounded per group": (
        f"SELECT place, SUM(n, contribution_bounds_per_group => (-6, 16)) v {DECLARED}",
        "SUM(n)",
    ),
    "averages of bounds in the query": (
        f"SELECT place, AVG(n * 1.5, contribution_bounds_per_row => (-9, 12)) v {DECLARED}",
        "AVG(n * 1.5)",
    ),
    "ratios": (
        f"SELECT place, COUNT(*) / COUNT(DISTINCT person) v {DECLARED}",
        "COUNT(*) / COUNT(DISTINCT person)",
    ),
    "shares in percent": (
        f"SELECT place, 100.0 * COUNT_IF(n > 2) / NULLIF(COUNT(*), 0) v {DECLARED}",
        "100.0 * COUNT_IF(n > 2) / COUNT(*)",
    ),
    "sums by unit": (
        f"SELECT place, SUM(x) / COUNT(DISTINCT person) v {DECLARED}",
        "SUM(x) / COUNT(DISTINCT person)",
    ),
    "differences of averages": (f"SELECT place, AVG(x) - AVG(n) v {DECLARED}", "AVG(x) - AVG(n)"),
    "variances": (f"SELECT place, VAR_POP(x) v {DECLARED}", "VAR_POP(x)"),
    "variances of samples": (f"SELECT place, VARIANCE(n) v {DECLARED}", "VARIANCE(n)"),
    "deviations": (f"SELECT place, STDDEV_POP(n) v {DECLARED}", "STDDEV_POP(n)"),
    "deviations of samples": (f"SELECT place, STDDEV(x) v {DECLARED}", "STDDEV(x)"),
}
WIDER = ("variances", "deviations", "differences of averages")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    engine = dpsql.DuckDBEngine()
    engine.register("visits", data())
    ledger = tmp_path_factory.mktemp("ledger") / "budget.db"
    with dpsql.connect(engine, POLICY, ledger, "ana") as opened:
        yield opened


def truth(aggregate: str, key: str) -> np.ndarray:
    """The exact answer by plain DuckDB (no unit contributes more than the bounds allow)."""
    plain = duckdb.connect()
    table = data()
    plain.register("visits", table)
    sql = f"SELECT {aggregate} FROM visits GROUP BY {key} ORDER BY {key}"
    return np.array([float(row[0]) for row in plain.execute(sql).fetchall()])


def covered(
    connection: dpsql.Connection, sql: str, exact: np.ndarray, confidence: float, runs: int
) -> np.ndarray:
    """For each run, which rows' intervals hold the exact value."""
    found = []
    for _ in range(runs):
        interval = connection.sql(sql, fresh=True).intervals(confidence)["v"]
        found.append((interval.low <= exact) & (exact <= interval.high))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_measured_coverage_is_at_least_nominal_and_for_sums_not_much_more(
    connection: dpsql.Connection, name: str, confidence: float
) -> None:
    sql, aggregate = INDEPENDENT[name]
    hits = covered(connection, sql, truth(aggregate, "place"), confidence, 20)
    rate_at_most = upper_bound(int(hits.sum()), hits.size)
    assert rate_at_most >= confidence
    if not any(word in name for word in WIDER):
        assert lower_bound(int(hits.sum()), hits.size) <= confidence + 0.04


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.8, pytest.param(0.95, marks=pytest.mark.slow)])
def test_correlated_noise_is_covered_too(connection: dpsql.Connection, confidence: float) -> None:
    """The rows of an answer share a draw: only the first of each run is counted."""
    sql = "SELECT few, COUNT(*) v FROM visits GROUP BY few ORDER BY few"
    assert "correlated" in repr(connection.explain(sql, max_groups_contributed="unlimited"))
    exact = truth("COUNT(*)", "few")
    hits = 0
    for _ in range(150):
        result = connection.sql(sql, max_groups_contributed="unlimited", fresh=True)
        interval = result.intervals(confidence)["v"]
        hits += bool(interval.low[0] <= exact[0] <= interval.high[0])
    assert upper_bound(hits, 150) >= confidence
    assert lower_bound(hits, 150) <= confidence + 0.04


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(big)"])
def test_elliptic_noise_is_covered_too(
    connection: dpsql.Connection, aggregate: str, confidence: float
) -> None:
    """The rows of an answer share a draw: only the first of each run is counted."""
    sql = f"SELECT day, {aggregate} v FROM visits GROUP BY day ORDER BY day"
    assert "elliptic_gaussian" in repr(connection.explain(sql, max_groups_contributed=3))
    exact = truth(aggregate, "day")
    hits = 0
    for _ in range(150):
        result = connection.sql(sql, max_groups_contributed=3, fresh=True)
        interval = result.intervals(confidence)["v"]
        hits += bool(interval.low[0] <= exact[0] <= interval.high[0])
    assert upper_bound(hits, 150) >= confidence
    assert lower_bound(hits, 150) <= confidence + 0.04


@pytest.mark.slow
def test_elliptic_noise_is_covered_where_two_releases_are_put_together(
    connection: dpsql.Connection,
) -> None:
    sql = "SELECT day, COUNT(*) v FROM visits GROUP BY day ORDER BY day"
    exact, hits = truth("COUNT(*)", "day"), 0
    for run in range(40):
        connection.sql(sql, max_groups_contributed=3, epsilon=0.5, fresh=True)
        result = connection.sql(sql, max_groups_contributed=3, epsilon=0.7 + run / 1000)
        assert result.pooled == 2
        interval = result.intervals(0.8)["v"]
        hits += bool(interval.low[0] <= exact[0] <= interval.high[0])
    assert upper_bound(hits, 40) >= 0.8


@pytest.mark.slow
def test_released_groups_of_a_top_k_query_are_covered(connection: dpsql.Connection) -> None:
    """Names are drawn first, counts afterwards: selection does not spoil the intervals."""
    sql = "SELECT n % 3 AS g, COUNT(*) v FROM visits GROUP BY ALL ORDER BY v DESC LIMIT 2"
    plain = dict(zip(*np.unique(np.fmod(data()["n"], 3), return_counts=True), strict=True))
    hits = []
    for _ in range(60):
        result = connection.sql(sql, max_groups_contributed="unlimited", epsilon=4.0, fresh=True)
        interval = result.intervals(0.8)["v"]
        first = result.fetchall()[0][0]
        hits.append(interval.low[0] <= plain[first] <= interval.high[0])
    assert upper_bound(sum(hits), len(hits)) >= 0.8


@pytest.mark.slow
def test_intervals_at_half_their_width_are_noticed(connection: dpsql.Connection) -> None:
    """The negative control: coverage is measured sharply enough to see too narrow intervals."""
    sql, aggregate = INDEPENDENT["counts"]
    exact, hits, runs = truth(aggregate, "place"), 0, 30
    for _ in range(runs):
        interval = connection.sql(sql, fresh=True).intervals(0.95)["v"]
        middle, margin = (interval.high + interval.low) / 2, (interval.high - interval.low) / 4
        hits += int((np.abs(exact - middle) <= margin).sum())
    assert upper_bound(hits, runs * 40) < 0.95


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 2, math.nan])
def test_a_confidence_outside_zero_and_one_is_refused(
    connection: dpsql.Connection, confidence: float
) -> None:
    result = connection.sql("SELECT COUNT(*) v FROM visits")
    with pytest.raises(ParameterError, match="between 0 and 1"):
        result.intervals(confidence)


def test_a_wider_confidence_gives_a_wider_interval(connection: dpsql.Connection) -> None:
    result = connection.sql(INDEPENDENT["averages"][0])
    narrow, wide = result.intervals(0.5)["v"], result.intervals(0.99)["v"]
    assert bool((wide.low <= narrow.low).all())
    assert bool((wide.high >= narrow.high).all())
