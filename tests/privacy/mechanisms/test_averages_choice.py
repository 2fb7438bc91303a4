"""The draw of a number of rows for averages: its law, its privacy loss, and what it chooses."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest
from helpers.laws import ORDERS, SeededSource, chi_square_p, renyi
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import (
    AVERAGE_PLACES,
    POWER_OF_AVERAGES,
    WHOLE_WEIGHT,
    BoundDraw,
    BoundsChoice,
    CentreDraw,
    bound_draw,
    centre_draw,
    weight_in_steps,
)

RUNGS = (1, 2, 4)
PLACES = range(AVERAGE_PLACES)
HALF = AVERAGE_PLACES // 2
RATE = 0.2
PRICE = PrivacyLoss(RATE**2 / 8)
Pair = tuple[int, int]  # the rows of a unit in a group, and the part that their average is in
Unit = tuple[Pair, ...]
Law = NDArray[np.float64]


def divided(unit: Unit) -> int:
    """What each pair of a unit weighs."""
    return WHOLE_WEIGHT // len(unit)


def weights(units: Sequence[Unit], weight: Callable[[Unit], int] = divided) -> list[int]:
    """The definition: pairs by the rungs below their rows and by part."""
    found = [0] * ((len(RUNGS) + 1) * AVERAGE_PLACES)
    for unit in units:
        for rows, part in unit:
            found[sum(rung < rows for rung in RUNGS) * AVERAGE_PLACES + part] += weight(unit)
    return found


DISTANCES = np.minimum(np.abs(np.subtract.outer(PLACES, PLACES)), HALF) / HALF
"""How far each part is from each centre, in halves of the range."""


def normal(found: Law) -> Law:
    """Take off what a law of weights has too much, along the last axis."""
    most = found.max(axis=-1, keepdims=True)
    law: Law = found - most - np.log(np.exp(found - most).sum(axis=-1, keepdims=True))
    return law


def law_of_centres(rate: float, cells: Sequence[int]) -> Law:
    by_part = np.array(cells).reshape(-1, AVERAGE_PLACES).sum(axis=0) / WHOLE_WEIGHT
    above = np.subtract.outer(PLACES, PLACES).T @ by_part / AVERAGE_PLACES
    return normal(-rate / 2 * np.abs(above))


def law_of_rows(draw: BoundDraw, cells: Sequence[int], distances: Law = DISTANCES) -> Law:
    """The logarithms of what rows are drawn with, of shape (centres, rungs)."""
    by_rung = np.array(cells).reshape(-1, AVERAGE_PLACES) / WHOLE_WEIGHT @ distances
    tails = by_rung[::-1].cumsum(axis=0)[-2::-1]
    beyond = np.maximum(tails - np.array(draw.targets)[:, None] / WHOLE_WEIGHT, 0.0)
    beyond[-1] = 0.0
    bases = np.array([-math.log(math.isqrt(rung**draw.power)) for rung in RUNGS])
    return normal(bases - draw.rate * beyond.T)


def joint_law(choice: BoundsChoice, cells: Sequence[int], distances: Law = DISTANCES) -> Law:
    """The logarithms of what centre and number of rows are drawn with, together."""
    assert choice.centres is not None
    assert choice.rows is not None
    centres = law_of_centres(choice.centres.rate, cells)
    return (centres[:, None] + law_of_rows(choice.rows, cells, distances)).ravel()


def both(price: PrivacyLoss = PRICE, target: float = 1.0) -> BoundsChoice:
    """Draws of a centre and of rows, at one price each."""
    rows = bound_draw(price, RUNGS, POWER_OF_AVERAGES, [target] * len(RUNGS))
    return BoundsChoice(None, rows, (weight_in_steps(target),), centre_draw(price, 1))


def neighbours() -> Iterator[tuple[list[Unit], list[Unit]]]:
    some: list[Unit] = [((1, 0),), ((9, 127),), ((3, 40), (9, 127)), ((2, 64), (9, 64), (1, 5))]
    for few in itertools.chain(
        [()], itertools.combinations(some, 1), itertools.combinations(some, 2)
    ):
        for often in (1, 40):
            without = list(few) * often
            for unit in [*some, ((9, 0),), ((9, 0), (9, 127))]:
                yield without, [*without, unit]


# -- what it guarantees -----------------------------------------------------------------------


def range_of(loss: Law) -> float:
    return float(loss.max() - loss.min())


def ranges(
    choice: BoundsChoice,
    distances: Law = DISTANCES,
    weight: Callable[[Unit], int] = divided,
    times: float = 1.0,
) -> tuple[float, float]:
    """The widest range of the privacy loss of a centre, and of rows whatever the centre."""
    assert choice.rows is not None
    assert choice.centres is not None
    of_centres = of_rows = 0.0
    rate = times * choice.centres.rate
    for without, with_unit in neighbours():
        one, other = weights(without, weight), weights(with_unit, weight)
        loss = law_of_centres(rate, one) - law_of_centres(rate, other)
        of_centres = max(of_centres, range_of(loss))
        losses = law_of_rows(choice.rows, one, distances) - law_of_rows(
            choice.rows, other, distances
        )
        of_rows = max(of_rows, *map(range_of, losses))
    return of_centres, of_rows


def test_each_draw_has_the_stated_range() -> None:
    for widest in ranges(both()):
        assert 0.9 * RATE < widest <= RATE * (1 + 1e-9)


def test_twins_are_noticed() -> None:
    """Pairs that weigh a whole each, no cap on deviations, and scores as if they only rose."""
    assert ranges(both(), weight=lambda _: WHOLE_WEIGHT)[1] > 1.5 * RATE
    whole = np.abs(np.subtract.outer(PLACES, PLACES)) / HALF
    assert ranges(both(), distances=whole)[1] > 1.5 * RATE
    assert ranges(both(), times=2.0)[0] > 1.5 * RATE


def divergence(choice: BoundsChoice) -> float:
    """The largest divergence of neighbours over its order: the rho that the draws cost."""
    found = 0.0
    for without, with_unit in neighbours():
        p, q = (joint_law(choice, weights(units)) for units in (without, with_unit))
        for order in ORDERS:
            found = max(found, max(renyi(p, q, order), renyi(q, p, order)) / order)
    return found


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_a_centre_and_a_number_of_rows_cost_the_sum_of_their_prices(target: float) -> None:
    choice = both(target=target)
    assert choice.loss.rho == pytest.approx(2 * PRICE.rho)
    assert PRICE.rho < divergence(choice) <= choice.loss.rho * (1 + 1e-9)


def test_a_centre_that_is_the_mean_of_the_data_would_tell_of_a_unit() -> None:
    choice = both(target=0.0)
    assert choice.rows is not None
    widest = 0.0
    for without, with_unit in neighbours():
        laws = []
        for units in (without, with_unit):
            cells = weights(units)
            mean = int(law_of_centres(1.0, cells).argmax())
            laws.append(law_of_rows(choice.rows, cells)[mean])
        widest = max(widest, range_of(laws[0] - laws[1]))
    assert widest > 1.9 * choice.rows.rate


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(
    "price", [PrivacyLoss(0.01), PrivacyLoss(0.01, gaussian=True), PrivacyLoss(epsilon=0.05)]
)
def test_centres_cost_what_they_were_built_for_and_little_less(
    price: PrivacyLoss, number: int
) -> None:
    draw = centre_draw(price, number)
    asked = price.rho or price.epsilon
    assert asked * (1 - 1e-6) <= draw.cost(price.composition, None) <= asked
    assert draw.loss == price
    assert draw.cost(Composition.BASIC, None) >= number * draw.rate


def test_nothing_is_built_for_nothing() -> None:
    with pytest.raises(ParameterError):
        centre_draw(PrivacyLoss(), 1)


# -- what is drawn ----------------------------------------------------------------------------

DATA: dict[str, list[Unit]] = {
    "none": [],
    "few": [((9, 3),), ((3, 90), (1, 127))],
    "many": [unit for _ in range(20) for unit in (((1, 60),), ((9, 80),))],
}


@pytest.mark.parametrize("name", sorted(DATA))
def test_centres_are_drawn_from_the_stated_law(name: str) -> None:
    draw, cells = centre_draw(PrivacyLoss(0.02), 1), weights(DATA[name])
    by_part = np.array(cells).reshape(-1, AVERAGE_PLACES).sum(axis=0).tolist()
    source = SeededSource(7)
    found = Counter(draw.draw(by_part, source) for _ in range(2_000))
    law = np.exp(law_of_centres(draw.rate, cells)).reshape(16, -1).sum(axis=1)
    observed: Counter[int] = Counter()
    for centre, times in found.items():
        observed[centre // 8] += times
    assert chi_square_p(observed, {part: float(each) for part, each in enumerate(law)}) > 1e-4


def test_pairs_weigh_what_they_deviate_from_each_centre() -> None:
    class Fixed(CentreDraw):
        __slots__ = ()

        def draw(self, weights: Sequence[int], source: object) -> int:
            return 10 if weights[10] else 100

    one: list[Unit] = [((1, 10),), ((3, 26),)]
    other: list[Unit] = [((1, 100),), ((9, 36),), ((9, 4),)]
    cells = [weight // 2 for weight in [*weights(one), *weights(other)]]
    found = Fixed(2, 1.0, PRICE).by_rung(cells, SeededSource(1))
    half = Fraction(WHOLE_WEIGHT, 2)
    assert found == [0, 0, half / 4, half * 2]


def drawn(units: Sequence[Unit], price: PrivacyLoss, target: float) -> Counter[int | None]:
    choice, cells = both(price, target), weights(units)
    return Counter(choice.draw(cells, [], SeededSource(seed)).rows for seed in range(40))


def of_nine(part: int) -> Unit:
    return ((9, part),)


def of_one(part: int) -> Unit:
    return ((1, part),)


def test_where_averages_are_alike_one_row_is_enough_and_elsewhere_it_is_not() -> None:
    """The same units: 300 with nine rows, and as many with one."""
    price = PrivacyLoss(0.2)
    assert drawn([of_nine(64), of_one(65)] * 300, price, 20.0)[1] >= 30
    for heavy, light in ((110, 20), (20, 110)):  # whichever is nearer to the median
        for more in (1, 4):
            apart = [of_nine(heavy)] * 300 * more + [of_one(light)] * 300
            assert drawn(apart, price, 20.0)[4] >= 30


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_what_is_supposedly_cut_holds_where_a_few_rows_are_drawn_for_their_base_measure(
    rows: int,
) -> None:
    """Units that deviate as little as they may, so that a smaller number is drawn half the time."""
    choice = both(PrivacyLoss(0.02))
    assert choice.rows is not None
    ratio = math.log(math.isqrt(32**choice.rows.power) / math.isqrt(rows**choice.rows.power))
    cut = choice.weight_cut(1, rows) - choice.targets[0] / WHOLE_WEIGHT
    assert cut * choice.rows.rate >= ratio
    assert cut * choice.rows.rate <= ratio + 1 + 1e-9
