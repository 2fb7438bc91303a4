"""Rows that LIMIT chose by their own noise: of their intervals as many hold as is said.

Groups that are alike are the worst case: which of them are shown is decided by noise alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

import dpsql
from dpsql import parse_policy
from dpsql.accuracy import intervals
from dpsql.accuracy.chosen import ChosenNoise
from dpsql.ir.query import LimitedOrder
from dpsql.kinds import base as kinds
from dpsql.kinds import computed
from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace, LatticeNoise

GROUPS, SIZE, LIMIT, K_BAR = 40, 4000, 5, 40
POLICY = """
version: 1
dataset: alike
defaults: {{epsilon: 1.0, delta: 1e-6, max_groups_contributed: 1, k_bar: {k_bar}}}
accounts: {{ana: {{epsilon: 1000, delta: 0.4, composition: {composition}}}}}
tables:
  visits:
    privacy_unit: {{name: patient, column: uid}}
    columns:
      declared: {{domain: [{domain}]}}
"""
UNKNOWN = f"SELECT k, count(DISTINCT uid) AS n FROM visits GROUP BY k ORDER BY n DESC LIMIT {LIMIT}"
DECLARED = UNKNOWN.replace("k,", "declared,").replace("BY k", "BY declared")
ORDERED = DECLARED.partition(" ORDER BY")[0]
CHOICES = [  # that no top-k can answer, and LIMIT makes by noisy values all the same
    f"{ORDERED} ORDER BY n LIMIT {LIMIT}",
    f"{ORDERED} ORDER BY 2 LIMIT {LIMIT}",
    f"{ORDERED} ORDER BY 2 * n + 1 DESC LIMIT {LIMIT}",
    f"{ORDERED} ORDER BY count(DISTINCT uid) + 0.5 FETCH FIRST {LIMIT} ROWS ONLY",
    f"{ORDERED} ORDER BY declared > 90, -n LIMIT {LIMIT}",
    f"{ORDERED} HAVING n > 0 ORDER BY n DESC LIMIT {LIMIT}",
    f"{ORDERED} ORDER BY n DESC LIMIT {100 * LIMIT / GROUPS}%",
    "SELECT count(DISTINCT uid) AS n, declared FROM visits GROUP BY declared "
    f"ORDER BY ALL LIMIT {LIMIT}",
    ORDERED.replace("SELECT", "SELECT DISTINCT") + f" ORDER BY n LIMIT {LIMIT}",
]
AFTER = [  # what chooses rows by noisy values beside an ORDER BY and LIMIT that are known
    f"{ORDERED} HAVING n > {SIZE}",
    f"{ORDERED} HAVING n > {SIZE + 5}",
    f"{ORDERED} HAVING n < {SIZE - 4} ORDER BY declared",
    f"{ORDERED} HAVING count(DISTINCT uid) NOT BETWEEN {SIZE - 6} AND {SIZE + 6}",
    f"{ORDERED} QUALIFY row_number() OVER (ORDER BY n DESC) <= {LIMIT}",
    f"{ORDERED} QUALIFY n >= max(n) OVER () - 3",
    f"{ORDERED} QUALIFY rank() OVER w <= {LIMIT} WINDOW w AS (ORDER BY n)",
    f"{ORDERED.replace(' FROM', ', row_number() OVER (ORDER BY n) AS r FROM')} QUALIFY r <= 3",
    f"{ORDERED} ORDER BY n LIMIT 2 + 3",
    f"{ORDERED} ORDER BY n DESC LIMIT {LIMIT} OFFSET 2",
    f"{ORDERED} ORDER BY n DESC OFFSET {GROUPS - LIMIT}",
    f"{ORDERED} HAVING n > {SIZE} ORDER BY n DESC LIMIT {GROUPS}",
]
FRACTIONS = ["0.6", "0.5", "2.5", "5e-1", "15e-1", "25e-1", "29%", "35.5%"]


@pytest.fixture(scope="module")
def engine() -> dpsql.DuckDBEngine:
    import pyarrow as pa

    engine = dpsql.DuckDBEngine()
    k = np.repeat(np.arange(GROUPS), SIZE)
    table = pa.table({"uid": np.arange(GROUPS * SIZE), "k": k, "declared": k})
    engine.register("visits", table)
    return engine


@pytest.fixture
def connect(engine: dpsql.DuckDBEngine, tmp_path: Path) -> Callable[[str], dpsql.Connection]:
    def connected(composition: str) -> dpsql.Connection:
        domain = ", ".join(map(str, range(GROUPS)))
        policy = parse_policy(POLICY.format(k_bar=K_BAR, composition=composition, domain=domain))
        return dpsql.connect(engine, policy, tmp_path / f"{composition}.db", "ana")

    return connected


def covered(con: dpsql.Connection, asked: str, confidence: float, **options: Any) -> float:
    """Measure which share of the shown intervals holds the true value."""
    held = shown = 0
    for _ in range(80):
        found = con.sql(asked, fresh=True, combine="off", **options)
        interval = found.intervals(confidence)["n"]
        inside = (interval.low <= SIZE) & (interval.high >= SIZE)
        held, shown = held + int(inside.sum()), shown + len(inside)
    assert shown >= 200
    return held / shown


AUTO = {"max_groups_contributed": "auto", "k_bar": LIMIT - 1}  # which no top-k can rank
WEIGHED = {"contribution_bounding": "weight", "max_groups_contributed": 2}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("zcdp", UNKNOWN, {"mechanism": "gaussian_top_k"}),
    ("zcdp", UNKNOWN, {"mechanism": "correlated_top_k"}),
    ("zcdp", UNKNOWN, {"mechanism": "gumbel_top_k"}),
    ("basic", UNKNOWN, {"mechanism": "laplace_top_k"}),
    ("basic", UNKNOWN, {"mechanism": "correlated_top_k"}),
    ("basic", UNKNOWN, {"mechanism": "laplace_positive_counts"}),
    ("basic", UNKNOWN, {"mechanism": "gaussian_sparse_histogram"}),
    ("basic", UNKNOWN, {"mechanism": "weighted_gaussian_sparse_histogram"} | WEIGHED),
    ("zcdp", UNKNOWN, {"mechanism": "gaussian_positive_counts"}),
    ("zcdp", UNKNOWN, {"mechanism": "weighted_gaussian_positive_counts"} | WEIGHED),
    ("zcdp", UNKNOWN, AUTO),
    ("basic", UNKNOWN, AUTO),
    ("zcdp", DECLARED, {}),
    ("basic", DECLARED, {}),
    *(("zcdp", asked, {}) for asked in CHOICES),
    *(("zcdp", asked, {}) for asked in AFTER),
    ("basic", AFTER[0], {}),
    ("basic", f"{ORDERED} HAVING n > {SIZE + 1}", {}),
    ("zcdp", f"{UNKNOWN.partition(' ORDER')[0]} HAVING n > {SIZE + 5}", {}),
    ("zcdp", f"{UNKNOWN} OFFSET 2", {"mechanism": "gaussian_top_k"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("composition", "asked", "options"), CASES)
def test_intervals_hold_where_groups_are_alike(
    connect: Callable[[str], dpsql.Connection],
    composition: str,
    asked: str,
    options: dict[str, Any],
) -> None:
    with connect(composition) as con:
        assert covered(con, asked, 0.9, **options) >= 0.87  # of some 400


FORGETFUL = [
    *(0, 1, 3, 8, 10, 12),
    *range(14, 14 + len(CHOICES)),
    *(14 + len(CHOICES) + place for place in (1, 3, 4, 6, 7, 8, 10)),
]


@pytest.mark.parametrize("asked", [DECLARED, *CHOICES])
def test_a_sentence_says_that_the_choice_is_allowed_for(
    connect: Callable[[str], dpsql.Connection], asked: str
) -> None:
    with connect("zcdp") as con:
        assert "LIMIT's choice allowed for" in con.sql(asked).summary()


@pytest.mark.parametrize(
    "clause",
    [
        f"ORDER BY declared LIMIT {LIMIT}",
        f"ORDER BY declared, n LIMIT {LIMIT}",
        f"ORDER BY ALL LIMIT {LIMIT}",
        f"QUALIFY row_number() OVER (ORDER BY declared) <= {LIMIT}",
        f"HAVING declared < {LIMIT}",
    ],
)
def test_a_sentence_says_of_other_choices_that_it_is_not(
    connect: Callable[[str], dpsql.Connection], clause: str
) -> None:
    with connect("zcdp") as con:
        assert "before rows were chosen" in con.sql(f"{ORDERED} {clause}").summary()


@pytest.mark.parametrize("asked", AFTER)
def test_a_sentence_says_of_further_clauses_that_they_are_allowed_for(
    connect: Callable[[str], dpsql.Connection], asked: str
) -> None:
    with connect("zcdp") as con:
        said = con.sql(asked).summary()
        assert "the choice of rows allowed for" in said or "choice allowed for" in said


@pytest.mark.parametrize("asked", [DECLARED, AFTER[0], AFTER[5], CHOICES[0]])
def test_a_maximum_error_of_rows_that_were_chosen_says_of_what_it_is(
    connect: Callable[[str], dpsql.Connection], asked: str
) -> None:
    with connect("zcdp") as con:
        assert "max_error is of the noise before rows" in str(con.explain(asked, max_error=30))
        found = con.sql(asked, max_error=30)
        (said,) = [each.text for each in found.warnings if each.kind == "error_missed"]
        assert "and not ± 30" in said
        plain = con.sql(ORDERED, max_error=30)
        assert not [each for each in plain.warnings if each.kind == "error_missed"]


@pytest.mark.parametrize("limit", FRACTIONS)
def test_rows_that_a_fraction_shows_are_counted_as_the_tail_does(
    connect: Callable[[str], dpsql.Connection], limit: str
) -> None:
    with connect("zcdp") as con:
        found = con.sql(f"{ORDERED} ORDER BY n LIMIT {limit}")
        assert not len(found.fetchall()) or "LIMIT's choice allowed for" in found.summary()


@pytest.mark.parametrize("released", [50, 100, 365])
def test_a_share_of_rows_is_counted_as_the_tail_does(released: int) -> None:
    with duckdb.connect() as engine:
        for percent in range(101):
            asked = f"SELECT count(*) FROM (FROM range({released}) LIMIT {percent}%)"
            ((rows,),) = engine.execute(asked).fetchall()
            assert LimitedOrder((0,), percent, percent=True).shown(released) == rows


def test_fetch_is_the_limit_that_it_is(connect: Callable[[str], dpsql.Connection]) -> None:
    with connect("zcdp") as con:
        con.sql(DECLARED)
        fetched = f"{ORDERED} ORDER BY n DESC FETCH NEXT {LIMIT} ROWS ONLY"
        assert con.sql(fetched).cost.stored


@pytest.mark.slow
@pytest.mark.parametrize(("composition", "asked", "options"), [CASES[i] for i in FORGETFUL])
def test_intervals_that_forget_the_choice_are_noticed(
    connect: Callable[[str], dpsql.Connection],
    monkeypatch: pytest.MonkeyPatch,
    composition: str,
    asked: str,
    options: dict[str, Any],
) -> None:
    for module in (intervals, kinds):
        monkeypatch.setattr(
            module, "risked_confidence", lambda plan, released, index, confidence: confidence
        )
    monkeypatch.setattr(
        computed, "kept_confidence", lambda plan, released, rows, confidence: confidence
    )
    with connect(composition) as con:
        assert covered(con, asked, 0.9, **options) < 0.85


# -- the law of a value that was chosen --------------------------------------------------------

NOISES = [DiscreteGaussian(4.0), DiscreteGaussian(1.2), DiscreteLaplace(3.0)]


def missed(chosen: ChosenNoise, true: int, tie: float) -> float:
    """How often an interval misses a value, of which c = 0 has lost, with its exact law.

    ``tie`` is the chance that a value that equals c is chosen.
    """
    window = chosen.window
    values = np.arange(max(0, true - window), true + window + 1)
    if not len(values):
        return 0.0
    law = chosen.noise.pmf(values - true)
    law[values == 0] *= tie
    down, up = chosen.ends(values)
    misses = (true < values - down) | (true > values + up)
    return float(law[misses].sum() / law.sum())


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("shown", "among"), [(1, 6), (5, 40), (20, 40), (10, 1000)])
def test_given_the_choice_an_interval_misses_as_rarely_as_it_says(
    noise: LatticeNoise, shown: int, among: int
) -> None:
    chosen = ChosenNoise(noise, shown, among, 0.1)
    trues = range(-chosen.window, 2 * chosen.window, max(1, chosen.window // 12))
    worst = max(missed(chosen, true, tie) for true in trues for tie in (1e-9, 0.5, 1.0))
    assert worst <= 2 * chosen.each_tail
    assert 2 * chosen.each_tail + 0.1 * chosen.risk * (1 - 2 * chosen.each_tail) <= chosen.risk


@dataclass(frozen=True)
class Unconditional(ChosenNoise):
    """Intervals of the noise alone."""

    def ends(self, above: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        margin = np.full(len(above), self.noise.margin(1 - self.risk))
        return margin, margin


def test_intervals_of_the_noise_alone_miss_far_more_of_what_was_chosen() -> None:
    noise = DiscreteGaussian(4.0)
    assert missed(Unconditional(noise, 5, 40, 0.1), -12, 1.0) > 0.25


def test_far_above_what_was_left_out_an_interval_is_that_of_the_noise_alone() -> None:
    noise = DiscreteGaussian(20.0)
    chosen, plain = ChosenNoise(noise, 5, 400, 0.05), noise.margin(0.95)
    (down,), (up,) = chosen.ends(np.array([10_000]))
    assert plain <= down == up <= plain * 1.03
    assert noise.margin(1 - 0.05 * 5 / 400) > 1.7 * plain
    down, up = chosen.ends(np.arange(0, 300))
    assert np.all(np.diff(down) <= 0)
    assert np.all(np.diff(up) >= 0)
    assert down[1] > 1.8 * plain
    assert up[1] < 0.8 * plain


def test_many_rows_take_no_more_than_some_of_them() -> None:
    """Ends are found for some distances; others have those of the next that reaches further."""
    noise = DiscreteGaussian(2_000.0)
    chosen = ChosenNoise(noise, 500, 1_000, 0.05)
    above = np.arange(0, 20_000, 20)
    down, up = chosen.ends(above)
    assert np.all((down >= 0) & (up >= 0))  # an interval takes in its value
    for place in (0, 17, 333, 999):
        exact = chosen.ends(above[[place]])
        assert exact[0][0] <= down[place] <= exact[0][0] + 0.3 * noise.sigma
        assert exact[1][0] <= up[place] <= exact[1][0] + 0.3 * noise.sigma
