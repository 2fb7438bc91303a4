"""Quantiles by the exponential mechanism: what is drawn, what it costs, how far it errs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.laws import IMPOSSIBLE, ORDERS, SeededSource, chi_square_p, renyi
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms import quantiles
from dpsql.privacy.mechanisms.quantiles import ExponentialQuantile, Histograms, exponential_quantile

FRACTIONS = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(3, 4), Fraction(1))
SIZE = 5

Rows = tuple[int, ...]


def distances(
    rows: Rows, fraction: Fraction, size: int, target: float | None = None
) -> NDArray[np.float64]:
    """The definition: from the rank wanted to the nearest rank that a point has."""
    wanted = float(fraction * len(rows)) if target is None else target
    table = np.asarray(rows, dtype=np.int64)[:, None]
    below, upto = (table < np.arange(size)).sum(axis=0), (table <= np.arange(size)).sum(axis=0)
    found: NDArray[np.float64] = np.maximum(0.0, np.maximum(below - wanted, wanted - upto))
    return found


def target(mechanism: ExponentialQuantile, rows: Rows) -> float:
    """The definition of the rank that an extreme is asked at."""
    inward = min(mechanism.beyond, len(rows) // 2)
    return inward if mechanism.fraction == 0 else len(rows) - inward


def log_law(away: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    weights = -rate * away
    law: NDArray[np.float64] = weights - np.log(np.exp(weights).sum())
    return law


def histograms(*groups: Rows) -> Histograms:
    """Groups of rows as the mechanism takes them."""
    counted = [sorted(Counter(group).items()) for group in groups]
    entries = [entry for group in counted for entry in group]
    return Histograms(
        np.cumsum([len(group) for group in counted], dtype=np.int64),
        np.array([point for point, _ in entries], dtype=np.int64),
        np.array([count for _, count in entries], dtype=np.int64),
    )


def neighbours(rows: int, most: int = 3, size: int = SIZE) -> Iterator[tuple[Rows, Rows]]:
    """Groups of few rows, each once or often, and what they are with up to ``rows`` more."""
    for n, often in itertools.product(range(most + 1), (1, 11)):
        for few in itertools.combinations_with_replacement(range(size), n):
            without = few * often
            for added in range(1, rows + 1):
                for further in itertools.combinations_with_replacement(range(size), added):
                    yield without, (*without, *further)


def spread(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The width of the range of the privacy loss."""
    return float((one - other).max() - (one - other).min())


# -- what it guarantees -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("fraction", FRACTIONS, ids=str)
def test_the_privacy_loss_has_the_stated_range_and_reaches_it(
    fraction: Fraction, rows: int
) -> None:
    mechanism = ExponentialQuantile(fraction, 0.7, rows, SIZE)
    epsilon = math.sqrt(8 * mechanism.rho(1))
    widest = 0.0
    for without, with_unit in neighbours(rows):
        p = log_law(distances(without, fraction, SIZE), mechanism.rate)
        q = log_law(distances(with_unit, fraction, SIZE), mechanism.rate)
        widest = max(widest, spread(p, q))
        for order in (1.01, 30.0):
            worst = max(renyi(p, q, order), renyi(q, p, order))
            assert worst <= order * mechanism.rho(1) * (1 + 1e-9)
    assert widest <= epsilon * (1 + 1e-9)
    assert widest >= epsilon * (1 - 1e-9)


def test_a_target_that_does_not_move_with_the_data_costs_more_and_is_noticed() -> None:
    fraction, rate = Fraction(1, 2), 0.7
    stated = math.sqrt(8 * ExponentialQuantile(fraction, rate, 1, SIZE).rho(1))
    widest = max(
        spread(
            log_law(distances(without, fraction, SIZE, 2.0), rate),
            log_law(distances(with_unit, fraction, SIZE, 2.0), rate),
        )
        for without, with_unit in neighbours(1)
    )
    assert widest > 1.9 * stated


def test_rows_beyond_the_bound_and_extreme_fractions_are_not_free() -> None:
    def widest(fraction: Fraction, rows: int) -> float:
        return max(
            spread(*(log_law(distances(g, fraction, SIZE), 0.7) for g in pair))
            for pair in neighbours(rows)
        )

    median = ExponentialQuantile(Fraction(1, 2), 0.7, 1, SIZE)
    assert widest(Fraction(1, 2), 2) > 1.9 * math.sqrt(8 * median.rho(1))
    assert widest(Fraction(9, 10), 1) > 1.7 * math.sqrt(8 * median.rho(1))


@pytest.mark.slow
def test_groups_and_their_losses_add_up() -> None:
    """One unit in two groups: the divergence of the pair is within two groups' worth."""
    fraction = Fraction(3, 4)
    mechanism = ExponentialQuantile(fraction, 1.1, 1, SIZE)
    pairs = list(neighbours(1, most=2))
    for order in ORDERS:
        each = max(
            max(renyi(p, q, order), renyi(q, p, order))
            for without, with_unit in pairs
            for p in [log_law(distances(without, fraction, SIZE), 1.1)]
            for q in [log_law(distances(with_unit, fraction, SIZE), 1.1)]
        )
        assert 2 * each <= order * mechanism.rho(2) * (1 + 1e-9)
    assert mechanism.rho(2) == pytest.approx(2 * mechanism.rho(1))


@pytest.mark.parametrize("fraction", FRACTIONS, ids=str)
def test_pure_quantiles_lose_at_most_their_epsilon_over_all_groups(fraction: Fraction) -> None:
    mechanism = exponential_quantile(
        PrivacyLoss(epsilon=1.5), fraction, rows=2, groups=3, size=SIZE
    )
    worst = max(
        float(np.abs(log_law(d, mechanism.rate) - log_law(e, mechanism.rate)).max())
        for without, with_unit in neighbours(2, most=2)
        for d in [distances(without, fraction, SIZE)]
        for e in [distances(with_unit, fraction, SIZE)]
    )
    assert 0.3 * 1.5 < 3 * worst <= 1.5
    assert 3 * math.sqrt(8 * mechanism.rho(1)) == pytest.approx(1.5)


@pytest.mark.parametrize("budget", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("pure", [False, True])
def test_a_budget_that_buys_nothing_is_refused(pure: bool, budget: float) -> None:
    def calibrated() -> object:
        price = PrivacyLoss(epsilon=budget) if pure else PrivacyLoss(budget)
        return exponential_quantile(price, Fraction(1, 2), rows=1, groups=1, size=10)

    with pytest.raises(ParameterError):
        calibrated()


@pytest.mark.parametrize("rate", [0.7, 2.4, 5.0], ids=["middle", "two", "one"])
@pytest.mark.parametrize("fraction", [Fraction(0), Fraction(1)], ids=["min", "max"])
def test_the_privacy_loss_of_extremes_has_the_stated_range_and_no_smaller_one(
    fraction: Fraction, rate: float
) -> None:
    """A twin at the price of QUANTILE(x, 1), whose target is the end itself, is caught."""
    mechanism = ExponentialQuantile(fraction, rate, 1, SIZE, extreme=True)
    widest = max(
        spread(
            log_law(distances(without, fraction, SIZE, target(mechanism, without)), rate),
            log_law(distances(with_unit, fraction, SIZE, target(mechanism, with_unit)), rate),
        )
        for without, with_unit in neighbours(1)
    )
    assert widest <= math.sqrt(8 * mechanism.rho(1)) * (1 + 1e-9)
    assert widest > 1.4 * math.sqrt(8 * replace(mechanism, extreme=False).rho(1))


@pytest.mark.parametrize("fraction", [Fraction(0), Fraction(1)], ids=["min", "max"])
def test_extremes_are_priced_for_the_range_they_have(fraction: Fraction) -> None:
    for price in (PrivacyLoss(0.02), PrivacyLoss(epsilon=1.5)):
        plain = exponential_quantile(price, fraction, rows=2, groups=3, size=SIZE)
        extreme = exponential_quantile(price, fraction, rows=2, groups=3, size=SIZE, extreme=True)
        assert extreme.rate == pytest.approx(plain.rate / 2)
        assert extreme.rho(3) == pytest.approx(plain.rho(3))


# -- what is drawn ----------------------------------------------------------------------------

GROUPS: tuple[Rows, ...] = (
    (),
    (0,),
    (4,),
    (2, 2, 2),
    (0, 4),
    (0, 1, 1, 4, 4, 4, 4),
    tuple(range(5)),
    (3,) * 40,
    (0,) * 9 + (4,) * 9,
)
REPEATS = 4_000


def drawn(mechanism: ExponentialQuantile, seed: int) -> list[Counter[int]]:
    """How often each point was drawn for each of GROUPS."""
    rows = [group for group in GROUPS for _ in range(REPEATS)]
    points = mechanism.draw(histograms(*rows), SeededSource(seed)).reshape(len(GROUPS), REPEATS)
    return [Counter(group.tolist()) for group in points]


def p_values(mechanism: ExponentialQuantile, claimed_rate: float, seed: int) -> list[float]:
    laws = (np.exp(log_law(distances(g, mechanism.fraction, SIZE), claimed_rate)) for g in GROUPS)
    return [
        chi_square_p(counts, dict(enumerate(law.tolist())))
        for counts, law in zip(drawn(mechanism, seed), laws, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("fraction", FRACTIONS, ids=str)
def test_points_are_drawn_with_their_stated_probabilities(fraction: Fraction) -> None:
    mechanism = ExponentialQuantile(fraction, 0.6, 1, SIZE)
    assert min(p_values(mechanism, 0.6, seed=1)) > IMPOSSIBLE
    assert min(p_values(mechanism, 0.6 * 1.3, seed=1)) < IMPOSSIBLE
    assert min(p_values(mechanism, 0.6 / 1.3, seed=1)) < IMPOSSIBLE


@pytest.mark.slow
def test_the_rare_paths_draw_from_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "_SLACK", 0.3)
    monkeypatch.setattr(quantiles, "_STRIPS", 4)
    monkeypatch.setattr(quantiles, "_BATCH", 50)
    monkeypatch.setattr(f"{__name__}.REPEATS", 1_000)
    mechanism = ExponentialQuantile(Fraction(3, 4), 0.6, 1, SIZE)
    assert min(p_values(mechanism, 0.6, seed=2)) > IMPOSSIBLE


@pytest.mark.parametrize("fraction", [Fraction(0), Fraction(1)], ids=["min", "max"])
def test_extremes_are_drawn_around_their_targets(fraction: Fraction) -> None:
    mechanism = ExponentialQuantile(fraction, 1.6, 1, SIZE, extreme=True)
    laws = [
        np.exp(log_law(distances(g, fraction, SIZE, target(mechanism, g)), 1.6)) for g in GROUPS
    ]
    found = [
        chi_square_p(counts, dict(enumerate(law.tolist())))
        for counts, law in zip(drawn(mechanism, 4), laws, strict=True)
    ]
    assert min(found) > IMPOSSIBLE


@pytest.mark.slow
def test_the_law_of_gaps_is_that_of_their_points() -> None:
    """A grid far finer than the data: each point of a gap as likely as by the definition."""
    size, rows = 60, (7, 7, 31, 55)
    mechanism = ExponentialQuantile(Fraction(1, 2), 1.5, 1, size)
    points = mechanism.draw(histograms(*[rows] * 60_000), SeededSource(3))
    law = np.exp(log_law(distances(rows, mechanism.fraction, size), 1.5))
    assert chi_square_p(Counter(points.tolist()), dict(enumerate(law.tolist()))) > IMPOSSIBLE


@pytest.mark.parametrize("batch", [1, 7, 2**20])
def test_batches_hold_all_groups_in_order(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles, "_BATCH", batch)
    whole = histograms(*GROUPS)
    parts = list(whole.batches())
    assert len(parts) == {1: len(GROUPS), 7: 7, 2**20: 1}[batch]
    assert np.concatenate([p.points for p in parts]).tolist() == whole.points.tolist()
    assert np.concatenate([p.counts for p in parts]).tolist() == whole.counts.tolist()
    sizes = np.concatenate([np.diff(p.ends, prepend=0) for p in parts])
    assert sizes.tolist() == np.diff(whole.ends, prepend=0).tolist()


def test_no_groups_give_no_answers() -> None:
    mechanism = ExponentialQuantile(Fraction(1, 2), 1.0, 1, SIZE)
    assert len(mechanism.draw(histograms(), SeededSource(0))) == 0


def test_without_noise_to_speak_of_the_answer_lies_between_its_neighbours() -> None:
    rng = np.random.default_rng(5)
    groups = [tuple(rng.integers(0, 1000, rng.integers(1, 60)).tolist()) for _ in range(300)]
    for fraction in FRACTIONS:
        mechanism = ExponentialQuantile(fraction, 1e9, 1, 1000)
        points = mechanism.draw(histograms(*groups), SeededSource(6))
        for group, point in zip(groups, points.tolist(), strict=True):
            assert distances(group, fraction, 1000)[point] == 0


@pytest.mark.parametrize("rate", [1e-15, 1e-3, 1e3, 1e15])
def test_any_rate_and_large_groups_give_points_of_the_grid(rate: float) -> None:
    size = 2**16
    big = Histograms(
        np.array([0, 3, 5]),
        np.array([0, 5, size - 1, 0, size - 1]),
        np.array([10**12, 1, 10**12, 1, 2]),
    )
    mechanism = ExponentialQuantile(Fraction(999_999, 10**6), rate, 1, size)
    points = mechanism.draw(big, SeededSource(7))
    assert ((points >= 0) & (points < size)).all()


# -- how far it errs --------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_margin_in_ranks_holds_for_all_data(confidence: float) -> None:
    rng = np.random.default_rng(8)
    size = 40
    groups = [tuple(rng.integers(0, size, rng.integers(1, 200)).tolist()) for _ in range(30)]
    groups += [(0,) * 300 + (size - 1,) * 300, (20,) * 100, (), (0,) * 50]
    for fraction, rate in itertools.product(FRACTIONS, (0.05, 0.3)):
        margin = ExponentialQuantile(fraction, rate, 1, size).margin(confidence)
        outside = [
            np.exp(log_law(away, rate))[away > margin].sum()
            for away in (distances(group, fraction, size) for group in groups)
        ]
        assert max(outside) <= 1 - confidence


RATES = (0.05, 0.3)
SHAPES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "uniform": lambda rng, n: rng.uniform(0, 60, n),
    "normal": lambda rng, n: rng.normal(40, 8, n),
    "lognormal": lambda rng, n: rng.lognormal(2, 1, n),
    "one value": lambda _, n: np.full(n, 7.0),
    "one far away": lambda _, n: np.append(np.full(n - 1, 3.0), 95.0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_lie_within_the_data_and_near_its_ends_as_often_as_they_say(shape: str) -> None:
    """By the exact law; a twin whose target is the end itself is outside far more often."""
    rng, size = np.random.default_rng(11), 100
    for fraction, rate in itertools.product((Fraction(0), Fraction(1)), RATES):
        mechanism = ExponentialQuantile(fraction, rate, 1, size, extreme=True)
        n = 2 * mechanism.beyond
        drawn_rows = SHAPES[shape](rng, n) if fraction else 99 - SHAPES[shape](rng, n)
        rows = tuple(np.clip(drawn_rows, 0, size - 1).astype(np.int64).tolist())
        points, table = np.arange(size), np.array(rows)[:, None]
        if fraction:
            beyond, upto = (table > points).sum(axis=0), (table >= points).sum(axis=0)
        else:
            beyond, upto = (table < points).sum(axis=0), (table <= points).sum(axis=0)
        kept = (upto > 0) & (beyond < 2 * mechanism.beyond)
        law = np.exp(log_law(distances(rows, fraction, size, target(mechanism, rows)), rate))
        assert law[kept].sum() >= 0.95
        if shape not in ("lognormal", "one far away"):  # where the end of the grid has rows
            at_the_end = np.exp(log_law(distances(rows, fraction, size), rate))
            assert at_the_end[kept].sum() < 0.9
