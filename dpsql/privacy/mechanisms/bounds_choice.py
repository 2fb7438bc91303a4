"""Contribution bounds of a unit, drawn from ladders before anything is counted with them.

A count whose units add at most R rows to each of at most G groups errs by what the bounds cut, and
by noise in proportion to R and to the root of G. Its mean error over groups is least where *as many
units and pairs of a unit and a group are cut as the noise is wide*: those are ranks from the top,
so a bound is one private draw. Of units fewer are cut here: each is missing in many groups, and
intervals do not say so.

Each unit weighs 1, divided among its groups. The tail of R is the weight of the pairs with more
than R rows, that of G the weight of the units in more than G groups. A bound B is drawn with
probability proportional to

    base(B) * exp(-rate * max(tail(B) - target(B), 0)).

The base measure stands for the noise, which grows with B: R ** -5 and G ** -1.5. The score
stands for what B cuts; a part of all weight may be free. A score of both sides, with
\\|tail - target\\|, would have twice the range, so four times the price.

An average is not off by the number of rows that are cut, as these are missing above and below: it
is off by how far their values are from those that are kept. So there a pair counts as much as its
own average deviates from a centre, which is drawn before: about the mean of all pairs.

Values that units share are lost only where no unit keeps them, so tails say nothing of a count of
them. There a rung is scored by what larger ones name besides, as a part of their size: the
generalized exponential mechanism (Raskhodnikova & Smith 2016), as used for counts of distinct
values by Knop & Steinke 2023, of one side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np

from dpsql.privacy.accounting.zcdp import ZERO, Composition, PrivacyLoss
from dpsql.privacy.mechanisms.price import Priced, cost_of_pick, rho_of_picks
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.privacy.sampling.lattice import uniform_below
from dpsql.privacy.sampling.numeric import checked_positive, rounded_up
from dpsql.privacy.sampling.uniform import uniform_integers

WHOLE_WEIGHT: Final = 2**20
"""The steps of a unit's whole weight, which its groups share."""
MOST_CHOSEN: Final = 2**22
"""The largest number on a ladder."""

POWER_OF_ROWS: Final = 10
"""Of the base measure of rows, squared: R ** -5; powers of 4 to 8 do as well."""
POWER_OF_GROUPS: Final = 3
"""Of the base measure of groups, squared: G ** -1.5.

A larger power takes too few groups where a few units are in very many: their counts then lack more
than intervals say."""

POWER_OF_RANKED: Final = 10
"""Of the base measure of groups that a top-k ranks, squared: G ** -5, as its threshold
grows with the root of G, and what it leaves out is missing whole."""
POWER_OF_NAMED: Final = 8
"""Of the base measure of groups, squared, where a part of all units may be cut: G ** -4."""

POWER_OF_SHARED: Final = 4
"""Of the base measure of distinct values, squared: N ** -2."""
POWER_OF_AVERAGES: Final = 6
"""Of the base measure of rows where averages alone are asked for, squared: R ** -3.

Their noise grows less than R, as so does the number of rows that it is divided by."""

AVERAGE_PLACES: Final = 128
"""The parts of the range of values by which averages of pairs are told apart."""
_HALF_PLACES: Final = AVERAGE_PLACES // 2
_PARTS: Final = range(AVERAGE_PLACES)

BASE_OF_ZERO: Final = 32
"""The base measure of the rung 0, by that of 1: values of one sign have 0 for the other."""

NONE: Final = 0
"""The rung of a ladder that says that too few units have rows to find a number.

Its tail is the weight of all units, and nothing of that should be cut."""
BASE_OF_NONE: Final = 2**20
"""Its base measure, by that of 1: over no rows another is drawn once in a million times."""

_STRIPS = 40  # bits of the resolution that proposals are drawn with
_SLACK = 2.0**-36  # relative error ascribed to float64 weights; the real one is below 2**-40
_CUT_PER_NOISE = 1.0  # pairs to cut for each standard deviation of the noise on a group
_BEYOND_TARGET = 2.5  # inverse rates that a draw supposedly cuts beyond its target
_ENOUGH_ROWS = 32.0  # rows that cut nothing, supposedly: smaller numbers are drawn before them
_FARTHER: Final = 2  # times a rung: the least that what others name besides is a part of
_LEFT_PER_NOISE = 0.1  # units to cut, likewise: each lacks in many groups


@lru_cache(maxsize=64)
def ladder(most: int | None = None) -> tuple[int, ...]:
    """List the bounds that can be chosen: 1, 2, 3, 4, 6, 8, 11, ..., up to ``most``.

    They grow by the root of 2, so that none is further than a fifth from the best.
    """
    limit = MOST_CHOSEN if most is None else min(most, MOST_CHOSEN)
    steps = {round(2 ** (step / 2)) for step in range(2 * MOST_CHOSEN.bit_length())}
    return tuple(sorted({rows for rows in steps if rows < limit} | {limit}))


def rows_target(groups: int, kept: int, sigma: float) -> float:
    """Compute the weight of pairs to be cut, for the least mean error of a count by group.

    ``groups`` come out, a unit may be in ``kept`` of them, and ``sigma`` is the noise on a count to
    which each unit adds one row in one group. The noise on a group is sqrt(kept) times as wide; a
    pair weighs 1 / ``kept``.
    """
    return _CUT_PER_NOISE * groups * sigma / math.sqrt(kept)


def groups_target(groups: int, kept: int, sigma: float) -> float:
    """Compute the number of units to be cut, if a unit may be in ``kept`` of ``groups``.

    A quarter of those for the least mean error: intervals do not say what is cut, and hold for it.
    """
    return _LEFT_PER_NOISE * groups * sigma / math.sqrt(kept)


def weight_in_steps(weight: float) -> int:
    """Return a weight in units in steps of ``WHOLE_WEIGHT``."""
    return min(round(weight * WHOLE_WEIGHT), 2**62)


@dataclass(frozen=True, slots=True)
class BoundDraw(Priced[int | None]):
    """A draw of one bound from a ladder.

    ``power`` is twice that of the base measure, ``targets`` the weight that should be cut at each
    rung, in steps of which a unit has ``WHOLE_WEIGHT``. What the last rung cuts cannot be helped:
    its score is 0. ``loss`` is the price that it was built for, and costs. If ``lasting``, a rung
    is held against the targets of all from it on, the worst of them: where targets fall, few pairs
    above it may hold many rows. ``part`` of all weight may be cut besides. ``base_of_zero`` is the
    base measure of the rung 0, by that of 1.

    If ``shared``, weights are those of values that units share, by the number of rungs below the
    first place at which a unit has it: for each rung, those of the heaviest unit that names a value
    up to there, beyond what rungs before have of it. A rung is scored by the most that another
    above it names besides, beyond its target for each further value, as a part of that rung, or of
    twice the own if that is more.

    Sensitivity: weights of a unit depend on its own rows alone, and sum to ``WHOLE_WEIGHT`` at
    most. So a further unit raises every tail by 0 to 1 units, and what may be cut by ``part`` of
    one at most. What is cut beyond that, and so the worst of several, and every score changes
    within a range of 1, which is one for all rungs.

    A unit names N values in each of its groups up to the rung N, each with the weight that its
    groups share. Of a value that it names up to a rung N, one above it, M, gains no more weight
    than N does, so what M names besides falls by N units at most, and it rises by the M - N
    values between at most. As a part of M or of 2N, that is -1/2 to 1, also of the most of several:
    a range of 3/2, by which the rate is divided.

    Guarantee: ``rate``-bounded range; hence rate**2/8-zCDP (Cesar & Rogers 2021, as in Rogers 2024,
    Theorem 5), ``rate``-DP, and the Gaussian DP of such a pick. The base measure and the targets
    are public. Checked by ``tests/privacy/mechanisms/test_bounds_choice.py``.
    """

    name: ClassVar[str] = "bounds_choice"
    rungs: tuple[int, ...]
    power: int
    rate: float
    targets: tuple[int, ...]
    loss: PrivacyLoss
    lasting: bool = False
    part: Fraction = Fraction(0)
    base_of_zero: int = BASE_OF_ZERO
    shared: bool = False

    @property
    def inverse_rate(self) -> Fraction:
        """The change of a score, in units, that makes a rung e times as likely."""
        return (1 + Fraction(1, _FARTHER) if self.shared else 1) / Fraction(self.rate)

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Compute the price of the draw, rounded up; ``reach`` changes nothing."""
        if composition is Composition.BASIC:
            return rounded_up(Fraction(self.rate))
        return cost_of_pick(composition, self.rate)

    def bases(self) -> list[Fraction]:
        """List the base measure of each rung, of which their ratios matter."""
        return [
            Fraction(1, math.isqrt(rung**self.power)) if rung else Fraction(self.base_of_zero)
            for rung in self.rungs
        ]

    def draw(self, weights: Sequence[int | Fraction], source: EntropySource) -> int:
        """Draw a bound, from exactly the stated distribution.

        ``weights`` are those of pairs by the number of rungs below their rows, or the groups of
        their unit, or of values, in steps: of shape (rungs + 1,).
        """
        scores = self._scores_of_shared(weights) if self.shared else self._scores(weights)
        return self.rungs[_picked(self.bases(), scores, 1 / self.inverse_rate, source)]

    def _scores(self, weights: Sequence[int | Fraction]) -> list[Fraction]:
        """List what each rung cuts beyond its target, in steps."""
        over = list(accumulate(reversed(weights)))[-2::-1]  # of what is above each rung
        free = self.part * sum(weights)
        beyond = [
            max(Fraction(0), tail - target - free)
            for tail, target in zip(over, self.targets, strict=True)
        ]
        beyond[-1] = Fraction(0)
        return list(accumulate(reversed(beyond), max))[::-1] if self.lasting else beyond

    def _scores_of_shared(self, weights: Sequence[int | Fraction]) -> list[Fraction]:
        """List the most that a larger rung names besides, as a part of it, in steps.

        Beyond targets for each value more, or ``lasting`` ones in all, as these fall with the rung.
        """
        rungs = list(zip(self.rungs, accumulate(weights[:-1]), self.targets, strict=True))
        scores = []
        for place, (rung, named, target) in enumerate(rungs):
            besides = (
                Fraction(
                    more - named - target * (rung if self.lasting else larger - rung),
                    max(larger, _FARTHER * rung),
                )
                for larger, more, _ in rungs[place + 1 :]
            )
            scores.append(max((Fraction(0), *besides)))
        return scores


def _picked(
    bases: Sequence[Fraction], scores: Sequence[Fraction], rate: Fraction, source: EntropySource
) -> int:
    """Draw a place with probability proportional to its base times exp(-rate * score), exactly.

    Scores are in steps. Rejection, from bars of whole strips, each just above the curve of a place.
    """
    least = min(scores)
    energies = [rate * Fraction(score - least, WHOLE_WEIGHT) for score in scores]
    heights = [
        float(base) * math.exp(-float(energy)) for base, energy in zip(bases, energies, strict=True)
    ]
    scale = math.ldexp(1.0, _STRIPS - math.frexp(sum(heights))[1])
    curve = [height * scale for height in heights]
    ends = list(accumulate(math.floor(top * (1 + _SLACK)) + 1 for top in curve))
    while True:
        strip = int(uniform_integers(np.array([ends[-1]]), source)[0])
        place = next(place for place, end in enumerate(ends) if strip < end)
        height = strip - (ends[place - 1] if place else 0)
        if height + 1 <= curve[place] * (1 - _SLACK):
            return place
        if uniform_below(Fraction(scale) * bases[place], energies[place], height, source):
            return place


@dataclass(frozen=True, slots=True)
class CentreDraw(Priced[int | None]):
    """A draw of a centre for each of ``number`` values whose averages are asked for.

    The range of a value has ``AVERAGE_PLACES`` parts, and a pair of a unit and a group is at the
    part of its own average. A part is drawn with probability proportional to
    exp(-rate / 2 * \\|score\\|), where the score is the weight of all pairs times how far they are
    above it, as parts of the range. So the mean of all pairs is drawn most often: about that, what
    is cut and what is left deviate in the same measure. About their median, one of them would not.
    ``loss`` is the price of all that it was built for, and costs.

    Sensitivity: weights of a unit depend on its own rows alone, and of each value they sum to
    ``WHOLE_WEIGHT`` over ``number`` at most; scores are ``number`` times that. So a further unit
    moves every score by 1 at most, up or down: a range of 2, by which the rate is divided.

    Guarantee: ``rate``-bounded range of each centre, and the prices of such picks, which compose.
    Checked by ``tests/privacy/mechanisms/test_averages_choice.py``.
    """

    name: ClassVar[str] = "centre_choice"
    number: int
    rate: float
    loss: PrivacyLoss

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Compute the price of all draws, rounded up; ``reach`` changes nothing."""
        if composition is Composition.BASIC:
            return rounded_up(self.number * Fraction(self.rate))
        return rounded_up(self.number * Fraction(cost_of_pick(composition, self.rate)))

    def draw(self, weights: Sequence[int], source: EntropySource) -> int:
        """Draw the centre of one value from the weights by part, of shape (AVERAGE_PLACES,)."""
        total, moment = sum(weights), sum(part * weight for part, weight in enumerate(weights))
        scores = [
            Fraction(self.number * abs(moment - centre * total), AVERAGE_PLACES)
            for centre in _PARTS
        ]
        return _PARTS[_picked([Fraction(1)] * len(_PARTS), scores, Fraction(self.rate) / 2, source)]

    def by_rung(self, weights: Sequence[int], source: EntropySource) -> list[Fraction]:
        """Draw the centres, and weigh pairs by how far they are from these.

        ``weights`` are in steps, by value, the number of rungs below the rows of a pair, and part:
        of shape (number * (rungs + 1) * AVERAGE_PLACES,). What is returned has shape (rungs + 1,).
        """
        size = len(weights) // self.number
        found = [Fraction(0)] * (size // AVERAGE_PLACES)
        for start in range(0, len(weights), size):
            by_part = [
                sum(weights[start + part : start + size : AVERAGE_PLACES]) for part in _PARTS
            ]
            centre = self.draw(by_part, source)
            for rung in range(len(found)):
                first = start + rung * AVERAGE_PLACES
                there = enumerate(weights[first : first + AVERAGE_PLACES])
                found[rung] += Fraction(_deviating(there, centre), _HALF_PLACES)
        return found


def _deviating(weights: Iterable[tuple[int, int]], centre: int) -> int:
    """Sum weights by part, each times its distance from a centre, in parts of the range."""
    return sum(min(abs(part - centre), _HALF_PLACES) * weight for part, weight in weights)


@dataclass(frozen=True, slots=True)
class FoundBounds:
    """Bounds that were drawn: of a unit's rows in a group, of its groups. None where given.

    ``values`` are those of values without declared bounds, lower and upper, in their order.
    """

    rows: int | None = None
    groups: int | None = None
    values: tuple[tuple[float, float], ...] = ()

    def beside(self, other: FoundBounds) -> FoundBounds:
        """Return these bounds and others of the same block."""
        return FoundBounds(
            self.rows if other.rows is None else other.rows,
            self.groups if other.groups is None else other.groups,
            self.values + other.values,
        )


@dataclass(frozen=True, slots=True)
class BoundsChoice:
    """Draws of a unit's number of groups, and of its rows in each; None for one that is given.

    ``targets`` are those of rows, for each rung of groups, or one without these. If the draw of
    rows is ``lasting``, they are for one row, and fall in proportion. With ``centres`` a pair
    weighs as much as its average deviates from one that is drawn before the number of rows.
    """

    groups: BoundDraw | None
    rows: BoundDraw | None
    targets: tuple[int, ...] = ()
    centres: CentreDraw | None = None

    @property
    def loss(self) -> PrivacyLoss:
        """The price of the draws: they compose."""
        draws = (self.groups, self.rows, self.centres)
        return sum((draw.loss for draw in draws if draw is not None), ZERO)

    @property
    def row_places(self) -> int:
        """The number of places that the weights of pairs by their rows have."""
        if self.rows is None:
            return 0
        parts = 1 if self.centres is None else self.centres.number * AVERAGE_PLACES
        return (len(self.rows.rungs) + 1) * parts

    @property
    def most(self) -> FoundBounds:
        """The largest bounds that can be drawn."""
        rows = None if self.rows is None else self.rows.rungs[-1]
        return FoundBounds(rows, None if self.groups is None else self.groups.rungs[-1])

    @property
    def least(self) -> FoundBounds:
        """The smallest bounds that can be drawn."""
        rows = None if self.rows is None else self.rows.rungs[0]
        return FoundBounds(rows, None if self.groups is None else self.groups.rungs[0])

    def weight_cut(self, groups: int, rows: int) -> float:
        """Return the weight of pairs that a drawn number of rows supposedly cuts, in units.

        ``groups`` is the number of groups that counts, and ``rows`` the number that was drawn. A
        draw cuts more than its target by some inverses of its rate, seldom by more than 2.5 where
        numbers of rows fall off like a power from -2 to -4. Of averages it may cut all that does
        not outweigh the base measure: a small number is drawn before one that cuts nothing, unless
        it cuts more by the logarithm of how much its base measure is larger. Zero where no number
        of rows is drawn.
        """
        if self.rows is None:
            return 0.0
        beyond = _BEYOND_TARGET
        if self.centres is not None:
            beyond = 1 + self.rows.power / 2 * max(0.0, math.log(_ENOUGH_ROWS / max(1, rows)))
        return self._row_target(groups) + beyond * float(self.rows.inverse_rate)

    def weight_untold(self, groups: int) -> float:
        """Return the weight of pairs, in units, of which the draw of rows hardly tells anything.

        If all pairs there are had 32 times as many rows as were drawn, and weighed less than this,
        the number drawn would be more likely than that one, for its base measure. Zero where no
        number of rows is drawn.
        """
        if self.rows is None:
            return 0.0
        nats = self.rows.power / 2 * math.log(_ENOUGH_ROWS)
        return self._row_target(groups) + nats * float(self.rows.inverse_rate)

    def _row_target(self, groups: int) -> float:
        rungs = () if self.groups is None else self.groups.rungs
        place = rungs.index(groups) if groups in rungs else 0
        return self.targets[place] / WHOLE_WEIGHT

    def draw(
        self, of_rows: Sequence[int], of_groups: Sequence[int], source: EntropySource
    ) -> FoundBounds:
        """Draw the bounds from the weights by rows and by groups, those of groups first.

        ``of_rows`` has shape (row_places,), ``of_groups`` (rungs + 1,); (0,) where none is drawn.
        """
        groups = None if self.groups is None else self.groups.draw(of_groups, source)
        if self.rows is None:
            return FoundBounds(None, groups)
        place = 0 if self.groups is None else self.groups.rungs.index(groups or 0)
        aimed = replace(self.rows, targets=self.row_targets(place))
        found = of_rows if self.centres is None else self.centres.by_rung(of_rows, source)
        return FoundBounds(aimed.draw(found, source), groups)

    def row_targets(self, place: int) -> tuple[int, ...]:
        """List the targets of all rungs of rows, at a rung of groups."""
        assert self.rows is not None
        target, falling = self.targets[place], self.rows.lasting
        return tuple(
            0 if rung == NONE else target // rung if falling else target for rung in self.rows.rungs
        )


def bound_draw(
    price: PrivacyLoss,
    rungs: Sequence[int],
    power: int,
    targets: Sequence[float],
    *,
    lasting: bool = False,
    part: Fraction = Fraction(0),
    base_of_zero: int = BASE_OF_ZERO,
    shared: bool = False,
) -> BoundDraw:
    """Build the most accurate draw of at most ``price``.

    ``targets`` are weights in units, of each rung, the worst of which from it on decides if they
    are ``lasting``. ``part`` of all weight may be cut besides, and ``base_of_zero`` is the base
    measure of the rung 0. ``shared`` says that weights are those of values. Raises
    ParameterError if the price is not positive.
    """
    rate = _rate_of(price, 1)
    aims = tuple(map(weight_in_steps, targets))
    return BoundDraw(tuple(rungs), power, rate, aims, price, lasting, part, base_of_zero, shared)


def centre_draw(price: PrivacyLoss, number: int) -> CentreDraw:
    """Build the most accurate draws of a centre for each of ``number`` values, of ``price`` in all.

    Raises ParameterError if the price is not positive.
    """
    return CentreDraw(number, _rate_of(price, number), price)


def _rate_of(price: PrivacyLoss, draws: int) -> float:
    """Return the rate of each of so many draws that cost at most ``price`` together."""
    if price.composition is Composition.BASIC:
        checked_positive(price.epsilon, "epsilon")
        return price.epsilon / draws * (1 - 1e-12)
    rho = rho_of_picks(price, draws) if price.rho else 0.0
    checked_positive(rho, "rho")
    return math.sqrt(8 * rho / draws) * (1 - 1e-11)
