"""Releases put together: intervals of counts that decided for themselves whether they appear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest
from helpers.columns import column_of
from helpers.laws import SeededSource
from helpers.support import POLICY_TABLES, TABLES, policy
from helpers.support import planned as statement
from numpy.typing import NDArray

from dpsql.accuracy.estimates import FloatArray
from dpsql.core.schema import Schema, Table
from dpsql.ir.plan import BlockPlan, ReleaseNoise
from dpsql.kinds.groups import deciding_measure
from dpsql.kinds.pooled import (
    PooledKind,
    pooled_values,
    releases_in,
)
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import ReleasedRows
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.privacy.mechanisms.pooling import pooled_margin, pooling_weights

COUNTS = "SELECT k, count(DISTINCT uid) AS n, count(*) AS rows FROM visits GROUP BY k"
DRAWS = 40_000


def catalogue() -> Schema:
    """The columns of the small world's tables, as a database that holds them says."""
    database, found = duckdb.connect(":memory:"), {}
    for name in POLICY_TABLES:
        database.execute(TABLES[name])
        rows = database.execute(f"DESCRIBE {name}").fetchall()
        found[name] = Table(name, tuple(column_of(str(row[0]), str(row[1])) for row in rows))
    return found


SCHEMA = catalogue()


def planned(sql: str, **options: Any) -> BlockPlan:
    (plan,) = statement(sql, SCHEMA, policy(), **options).plans
    return plan


def noise_of(sql: str, epsilon: float) -> ReleaseNoise:
    plan = planned(sql, epsilon=epsilon)
    found = release_kind(plan).published(5, alone=False)
    assert found is not None
    return found


def joined(sql: str, *epsilons: float) -> BlockPlan:
    releases = tuple(noise_of(sql, epsilon) for epsilon in epsilons)
    plan = planned(sql, epsilon=epsilons[-1])
    return replace(plan, block=replace(plan.block, pools=True), kept=releases)


def missed(plan: BlockPlan, size: int, error: float) -> tuple[float, int]:
    """How often the mean of what came out of every release is further off, and how many did."""
    source, drawn, out = SeededSource(20261123), [], np.ones(DRAWS, dtype=bool)
    releases = PooledKind(plan).releases
    for release in releases:
        noise = release.measures[0].noise.add(np.zeros(DRAWS, dtype=np.int64), source)
        assert release.appears_half is not None
        out &= size + noise >= release.appears_half
        drawn.append(noise)
    mean = pooled_values(
        np.array(drawn),
        np.ones((len(drawn), DRAWS), bool),
        [release.measures[0] for release in releases],
    )
    return float((np.abs(np.rint(mean[out])) > error).mean()), int(out.sum())


@pytest.mark.parametrize("epsilons", [(1.0, 1.0), (0.5, 1.0), (1.0, 1.0, 1.0), (1.0, 1.1, 0.9, 1)])
def test_selected_counts_at_the_threshold_are_within_their_intervals(
    epsilons: tuple[float, ...],
) -> None:
    plan = joined(COUNTS, *epsilons)
    assert [release.decided for release in PooledKind(plan).releases] == [0] * len(epsilons)
    error = PooledKind(plan).margin(1, 0, True, 0.95)
    size = max(release.appears_half or 0 for release in PooledKind(plan).releases)
    risk, appeared = missed(plan, int(size), error)
    assert appeared > DRAWS / 2 ** len(epsilons)
    assert risk < 0.05 + 2 * math.sqrt(0.05 * 0.95 / appeared)


def test_a_twin_that_takes_selected_counts_for_others_is_caught() -> None:
    """The interval of counts whose noise decided nothing does not cover at the threshold."""
    plan = joined(COUNTS, 1.0, 1.0, 1.0)
    careless = tuple(replace(release, decided=None) for release in PooledKind(plan).releases)
    twin = replace(plan, kept=careless)
    error = PooledKind(twin).margin(1, 0, True, 0.95)
    size = max(release.appears_half or 0 for release in PooledKind(plan).releases)
    assert missed(plan, int(size), error)[0] > 0.06


def pooled_columns(kind: PooledKind, counts: Sequence[NDArray[Any]]) -> list[FloatArray]:
    """The columns of the first count's interval, of groups that all releases have."""
    block, number = kind.plan.block, len(counts[0])
    released = [
        ReleasedRows(
            np.arange(number),
            None,
            {block.aggregate_column(index): each for index in range(len(block.aggregates))},
            ZERO,
        )
        for each in counts
    ]
    found = kind.values(released, np.tile(np.arange(number), (len(counts), 1)))
    return [found[name].astype(np.float64) for name in block.interval_columns(0)]


def missed_by_intervals(kind: PooledKind, *sizes: int) -> float:
    """How often the interval of a count that came out of every release misses its mean.

    ``sizes`` are those of its group at each release, or the one at all of them.
    """
    source, drawn, out = SeededSource(20261129), [], np.ones(DRAWS, dtype=bool)
    noises = [release.measures[0] for release in kind.releases]
    sizes *= len(noises) // len(sizes)
    for release, size in zip(kind.releases, sizes, strict=True):
        drawn.append(size + release.measures[0].noise.add(np.zeros(DRAWS, dtype=np.int64), source))
        assert release.appears_half is not None
        out &= drawn[-1] >= release.appears_half
    true = float(np.dot(pooling_weights(noises), sizes))
    found = kind.interval(5, 0, pooled_columns(kind, [each[out] for each in drawn]), 0.95)
    return float(((found.low > true + 0.5) | (found.high < true - 0.5)).mean())


@pytest.mark.parametrize("epsilons", [(1.0, 1.0), (0.5, 1.0), (1.0, 1.1, 0.9, 1), (1.0,) * 8])
def test_large_groups_have_narrower_intervals_that_hold(epsilons: tuple[float, ...]) -> None:
    kind = PooledKind(joined(COUNTS, *epsilons))
    half = max(release.appears_half or 0 for release in kind.releases)
    surely = max(release.appears_95 or 0 for release in kind.releases)
    wide, few = kind.margin(5, 0, True, 0.95), 2 * math.sqrt(0.05 * 0.95 / DRAWS)
    beyond = max(pooled_margin([release.measures[0]], 1e-6) for release in kind.releases)
    for size in np.linspace(half, surely + 1.5 * beyond, 9):
        appeared = 0.5 ** len(epsilons) if size < surely else 0.95 ** len(epsilons)
        assert missed_by_intervals(kind, int(size)) < 0.05 + few / math.sqrt(appeared)
    counts = np.array([int(surely + beyond) + 2, int(surely + beyond) - 2])
    found = kind.interval(5, 0, pooled_columns(kind, [counts] * len(epsilons)), 0.95)
    large, small = (found.high - found.low) / 2
    assert small == pytest.approx(wide)
    # Noise that decided nothing: what is left is 0.95 for each release but one.
    plain = PooledKind(
        replace(kind.plan, kept=tuple(replace(r, decided=None) for r in kind.releases))
    )
    assert large <= min(0.95 * wide, 1.12 * plain.margin(5, 0, True, 0.95) + 1)


@pytest.mark.parametrize("number", [3, 8])
@pytest.mark.parametrize("growth", [60, 200, 1_000])
def test_a_group_that_grew_between_releases_is_within_its_interval(
    number: int, growth: int
) -> None:
    """It was at the threshold but once: the mean is large, and most conditions were doubtful."""
    kind = PooledKind(joined(COUNTS, *(1.0,) * number))
    half = int(kind.releases[0].appears_half or 0)
    assert missed_by_intervals(kind, *(half,) * (number - 1), half + growth) < 0.05


def test_a_twin_that_goes_by_the_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = PooledKind(joined(COUNTS, *(1.0,) * 8))
    half = int(kind.releases[0].appears_half or 0)

    def by_the_mean(
        self: PooledKind, released: Sequence[ReleasedRows], places: NDArray[np.int64], index: int
    ) -> NDArray[np.bool_]:
        values = [rows.values[self.plan.block.aggregate_column(index)] for rows in released]
        return np.asarray(np.mean(values, axis=0) > 2 * half)

    monkeypatch.setattr(PooledKind, "_surely_large", by_the_mean)
    assert missed_by_intervals(kind, *(half,) * 7, half + 1_200) > 0.1


@pytest.mark.slow
def test_a_twin_that_narrows_every_interval_is_caught() -> None:
    careless = [replace(noise_of(COUNTS, 1.0), appears_95=-math.inf) for _ in range(4)]
    plan = replace(joined(COUNTS, 1.0), kept=tuple(careless))
    assert missed_by_intervals(PooledKind(plan), int(careless[0].appears_half or 0)) > 0.06


def test_other_values_need_no_more_confidence() -> None:
    plan = joined(COUNTS, 1.0, 1.0, 1.0)
    careless = replace(
        plan, kept=tuple(replace(release, decided=None) for release in PooledKind(plan).releases)
    )
    both = [PooledKind(p).margin(1, 1, True, 0.95) for p in (plan, careless)]
    assert both[0] == both[1]
    selected = [PooledKind(p).margin(1, 0, True, 0.95) for p in (plan, careless)]
    assert selected[0] > selected[1]


def test_bits_name_releases() -> None:
    plan = joined(COUNTS, 0.3, 0.5, 1.0)
    kind = PooledKind(plan)
    assert releases_in(0b101, kind.releases) == [kind.releases[0], kind.releases[2]]
    alone = PooledKind(replace(plan, kept=(kind.releases[1],)))
    assert kind.margin(1, 0, True, 0.95, 0b10) == alone.margin(1, 0, True, 0.95)


def test_the_choice_of_a_limit_is_allowed_for_however_few_rows_are_shown() -> None:
    largest = "SELECT c, count(DISTINCT uid) AS n FROM visits GROUP BY c ORDER BY n DESC LIMIT 1"
    kind = PooledKind(joined(largest, 0.5, 1.0))
    shown = [np.array([40.0]), np.array([float(kind.every)])]
    (chosen, alone) = (kind.interval(released, 0, shown, 0.5) for released in (3, 1))
    assert chosen.high[0] - chosen.low[0] > alone.high[0] - alone.low[0]


def test_a_mean_leaves_out_what_a_release_does_not_have() -> None:
    noises = [noise_of(COUNTS, epsilon).measures[0] for epsilon in (0.5, 1.0)]
    values = np.array([[10.0, 20.0, 7.0], [40.0, 30.0, 9.0]])
    held = np.array([[True, True, False], [True, False, True]])
    first, second, third = pooled_values(values, held, noises)
    assert 25 < first < 40
    assert (second, third) == (20.0, 9.0)


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT 3", {}),
        ("SELECT c, median(x) FROM visits GROUP BY c", {}),
        ("SELECT DISTINCT k FROM visits", {}),
        ("SELECT k, count(*) FROM visits GROUP BY k", {"max_groups_contributed": "auto"}),
    ],
)
def test_what_has_no_known_variance_is_not_put_together(
    sql: str, options: dict[str, object]
) -> None:
    plan = planned(sql, **options)
    assert release_kind(plan).published(3, alone=False) is None


def test_what_decides_is_known() -> None:
    declared = "SELECT c, count(DISTINCT uid), count(*) FROM visits GROUP BY c"
    assert deciding_measure(planned(COUNTS)) == 0
    assert deciding_measure(planned(declared)) is None
    assert deciding_measure(planned(declared, min_units_per_group=5)) == 0
