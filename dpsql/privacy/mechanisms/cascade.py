"""Histograms without a number of groups to choose: name narrow, count wide, scale.

One question takes several steps, each a mechanism of its own over the same rows. What a step does
depends on public parameters and on what earlier steps *released*, on nothing else:

1. **A pilot**: how many units have 1, 2-3, 4-7, ... keys, with noise. It chooses how many keys K of
   a unit are kept.
2. **Naming**, in rounds (:mod:`dpsql.privacy.mechanisms.naming`): a unit that has n of the keys
   without a name counts 1/sqrt(min(n, K)) in each of them, so that all it adds has l2 norm 1 at
   most, whatever K is. Keys whose noisy weight, in the mean over the rounds so far, clears the
   round's threshold are named, and their rows are left out of later rounds, where units divide
   their weight anew among what is left. Small first rounds take the largest keys out of the way of
   the others.
3. **A second pilot**: how many units have 1, 2-3, ... *named* keys. Where values are counted, how
   large the l2 norms are of what units add to these, and how much larger than that their sums. It
   chooses a cap C, and tells how much that takes.
4. **Counting** the named keys, whose set is public by then: a unit that has m of them counts min(1,
   sqrt(C/m)) in each, and min(1, sqrt(C)/n) of what it adds, of norm n. There is no threshold and
   no sampling.
5. **Scaling**, which is free: narrow rounds see little of a unit, but tell keys apart with little
   noise. Each round's values are multiplied by what the counting says they are too small by, and
   both are averaged by their variances.

Where the first pilot says that nearly all pairs of a unit and a key are those of units with one
key, there is nothing to divide: one round at one key per unit takes all that is left. Of keys alone
each unit has one vote instead (:mod:`dpsql.privacy.mechanisms.greedy_union`), also where units have
a few keys, as long as that promises more names. Where the
second round names few more keys than the first, though it can tell keys of half the size, small
keys are unlikely: as in a column with few values. Then there is no third. What is left of the
naming's rho is spent on counting the named, units or else all values alike, and what is left of
delta on a lower threshold for what the second round has measured.

**Guarantee.** Neighbours differ in one unit. Fix what earlier steps released.

* A pilot counts each unit in one bucket, so adding one moves one count by 1: rho = 1/(2 sigma**2).
  A unit's part in the sum of the second one is 1 at most, at the same price. So are the parts of
  the second pilot, which divide its budget.
* The rounds together are delta-approximate rho-zCDP, with the sums of what they draw and of their
  chances to name a key of one unit, however many of them there are
  (:mod:`dpsql.privacy.mechanisms.naming`). The only round of units with one key is a weighted
  histogram with G = 1 and one key kept.
* Votes have a price of their own, which is all that the pilot has left.
* Counting has a fixed set of groups and no threshold. The weights of a unit have l2 norm sqrt(C) at
  most, so each value costs rho = C Delta**2/(2 sigma**2) and no delta.
* Choices of K and C, of what follows a pilot or a round, and scaling are functions of what is
  released. Whatever is released, what follows has no more than the rest of rho and of delta.

Adaptive composition of approximate zCDP adds these up (docs/mechanisms/coupling.md, Lemma 2): rho
is the sum of the steps', delta that of the rounds'. All that is drawn is Gaussian noise, so that in
Gaussian DP mu**2/2 adds up in the same way (docs/mechanisms/accounting.md, Theorems 1 and 2). A key
that one unit brings and that is not named in one round may be named in the next, with a chance of
its own: so the rounds divide delta, and do not each have all of it.

*One publication* of keys alone is (epsilon, delta)-DP by basic composition: the pilot has Laplace
noise for a part of epsilon, and what is chosen by it, votes or rounds, is (epsilon, delta)-DP for
the rest, rounds by the Gaussian DP that they have. Nothing is refunded where a
step has nothing to do: the price is fixed. Checked by ``tests/privacy/mechanisms/test_cascade.py``.

Shares were chosen by simulation on eleven shapes of data and those of ``benchmarks/robust.py``. No
guarantee rests on that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import IndependentNoise, Steps, gaussian, laplace
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion, greedy_set_union
from dpsql.privacy.mechanisms.naming import (
    GroupWeights,
    Integers64,
    NamingRound,
    RoundMemory,
    naming_rounds,
)
from dpsql.privacy.mechanisms.selection import Selected, Selection, Usual
from dpsql.privacy.mechanisms.set_union_weights import UnitItems
from dpsql.privacy.mechanisms.sparse_histogram import normal_sf
from dpsql.privacy.mechanisms.weighted_histogram import (
    MOST_NORM,
    WEIGHT_STEPS,
    WeightedPositiveCounts,
    Weights,
    weighted_positive_counts,
)
from dpsql.privacy.sampling.noise import EntropySource

KEPT_CHOICES = (1, 3, 10, 30, 100, 300, 1000, 3000)
"""How many keys of a unit the rounds may keep."""
CAP_CHOICES: Final[tuple[int, ...]] = tuple(
    factor * 10**power for power in range(4) for factor in range(1, 8)
)
"""How many keys of a unit the counting may count in full."""
WHOLE_SHARE: Final = 2**16
"""The steps of the share of a unit that adds something to one named group alone."""
MOST_SQUARES: Final = MOST_NORM**2
"""Squares of norms above count as so many."""
NAMED_ALONE = 0
"""Stands for a cap where a value is that of the only round, and was not counted again."""
COUNTINGS: Final[tuple[int, ...]] = (NAMED_ALONE, *CAP_CHOICES, *(-cap for cap in CAP_CHOICES))
"""How a value may have been counted: at a cap, which is negative where naming left some budget."""

ONCE_PILOT: Final = 0.02
"""The part of epsilon that a pilot has in one publication."""

_BUCKETS = 14  # by powers of two; the last has all units with 2**13 keys or more
_CUT_OFF = (
    4.0  # in standard deviations: a false bucket of many keys misleads (at 3, one in 50 runs)
)
_FALSE = 3.2e-5  # the chance of Gaussian noise to exceed that, which Laplace noise must not
_UNSEEN_SIZE = 2.0**8  # keys: a pilot may hide units of so many, about as many as its noise
_ALONE = 0.9  # the part of the pairs in units with one key from which one round is enough
_VOTES_SPREAD = 1.3  # by which votes name more than their number says, beside rounds: measured
_NEAR = 2.0  # times the threshold: keys below are near it
_SEVERAL = 5  # keys: were there a tail of small ones, the next round would hardly name none
_HELD = 0.05  # the odds that a bucket is not empty, for each standard deviation of units in it
_FAR = 30.0  # standard deviations: beyond them noise explains nothing, and its density is near 0
_SPREAD = 16  # numbers of keys that stand for a bucket, where what a cap loses of each is weighed
_LEAST_RATIO = 0.5
_MEAN_ABSOLUTE = 0.8  # of Gaussian noise, in standard deviations
_NORM_BUCKETS = 8  # of norms rounded up: the last has those above 127
_ODDS: Final[NDArray[np.float64]] = 0.01 * np.power(0.5, np.arange(_NORM_BUCKETS))
"""The odds of each bucket of norms: units in one lose twice as much as in the one before."""
_TOLD = 3.0  # times these odds, by which intervals suppose units
_ABOVE = 1.0  # standard deviations by which intervals suppose more units than are shown
_USUAL_SHARE = 0.6  # of norms, as of units that add something to three groups
_DOUBT = 2.0  # standard deviations of units that are supposed to have it
_LEAST_SHARE = 0.2  # of a norm in a sum: as of units that add as much to each of 25 groups
_SLACK = 2.0**-40


@dataclass(frozen=True, slots=True)
class UnitSizes:
    """How many units have how many keys: int64 arrays of shape (sizes,), sizes from 1 on."""

    sizes: Integers64
    units: Integers64


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of a counting: of numbers of units, and of values."""

    units: int
    values: int


class CascadeRows(Protocol):
    """Exact rows, as the steps of a cascade ask for them. ``named`` are row ids of groups."""

    def units_in_order(self) -> Iterator[UnitItems]:
        """Read the groups of each unit, as ``vote`` takes them, by their row ids less 1."""

    def unit_sizes(self, named: Integers64 | None) -> UnitSizes:
        """Count units by their number of keys, of all keys or of the named ones alone."""

    def unit_norms(self, named: Integers64) -> UnitSizes:
        """Count units by the square of the l2 norm of what they add to the named groups.

        In the most that a unit may add to a group, rounded up, from 1 on; of several values it is
        the largest.
        """

    def norm_shares(self, named: Integers64) -> int:
        """Sum, in steps, the l2 norms of units above 1, each divided by the l1 norm.

        In the named groups; of several values it is the larger norm of each kind.
        """

    def unnamed_weights(self, named: Integers64, kept: int) -> GroupWeights:
        """Weigh groups without a name over units that keep so many groups.

        Those that keep fewer units than the minimum are weighed, too, and marked.
        """


class CascadeGoal(Enum):
    """The goal of a cascade, which decides how its budget is divided."""

    COUNTS = "counts"
    """The number of units in each group, and maybe more."""
    VALUES = "values"
    """Values whose counting has a budget of its own."""
    KEYS = "keys"
    """Which keys there are."""


@dataclass(frozen=True, slots=True)
class CascadeShares:
    """Parts of the budget: of each pilot, of counting units, and of the rounds among themselves.

    ``parts`` divide the ρ of the naming in proportion, ``deltas`` all of δ. Where ``ends_after`` is
    given, naming ends after so many rounds if the last of them names few more than the first, up to
    ``few_more`` as a part: then the ρ of the others goes to the counting, and their δ to the
    threshold of the last one.
    """

    pilot: float
    second_pilot: float
    counting: float
    parts: tuple[int, ...]
    deltas: tuple[float, ...]
    ends_after: int | None = None
    few_more: float = 0.0

    @property
    def naming(self) -> float:
        """The share of all rounds."""
        return 1 - self.pilot - self.second_pilot - self.counting


_SHARES = {
    CascadeGoal.COUNTS: CascadeShares(0.01, 0.05, 0.04, (1, 4, 15), (0.05, 0.1, 0.85), 2, 0.2),
    CascadeGoal.VALUES: CascadeShares(0.01, 0.05, 0.0, (1, 4, 15), (0.05, 0.1, 0.85), 2, 0.05),
    CascadeGoal.KEYS: CascadeShares(0.01, 0.0, 0.0, (3, 10, 30, 57), (0.03, 0.06, 0.1, 0.81)),
}


@dataclass(frozen=True, slots=True)
class PilotNoise:
    """Noise on a pilot histogram: the number of units in each bucket of keys per unit.

    Guarantee: 1/(2σ²)-zCDP, as a unit is in one bucket at most.
    """

    noise: IndependentNoise

    def histogram(self, exact: UnitSizes, source: EntropySource) -> NDArray[np.float64]:
        """Release how many units are in each bucket, with noise: float64 of shape (buckets,)."""
        buckets = np.minimum(np.frexp(exact.sizes.astype(np.float64))[1] - 1, _BUCKETS - 1)
        counts = np.zeros(_BUCKETS, dtype=np.int64)
        np.add.at(counts, buckets, exact.units)
        return np.asarray(self.noise.add(counts, source), dtype=np.float64)

    def certain(self, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Set the buckets that noise alone may make to 0: float64 of shape (buckets,).

        Those are counts within four standard deviations of 0, of Laplace noise as unlikely ones.
        """
        cut_off = max(_CUT_OFF * self.noise.noise.std, self.noise.noise.quantile_sf(_FALSE))
        return np.where(noisy < cut_off, 0.0, noisy)

    def expected(
        self, noisy: NDArray[np.float64], odds: float | NDArray[np.float64] = _HELD
    ) -> NDArray[np.float64]:
        """Estimate how many units each bucket holds, given what Gaussian noise shows of it.

        The mean a posteriori, of shape (buckets,): before, a bucket is most likely empty, and else
        may hold any number of units, all alike, each standard deviation of units at these ``odds``.
        So a count that noise would often make is taken for a few units, one far above the noise as
        it is.
        """
        std = self.noise.noise.std
        score = np.clip(noisy / std, -_FAR, _FAR)
        # How likely such a score or a lower one is, over its density: Mills' ratio.
        mills = normal_sf(-score) / (np.exp(-(score**2) / 2) / math.sqrt(2 * math.pi))
        held = odds * mills / (1 + odds * mills)
        return np.maximum(0.0, held * (np.maximum(noisy, -_FAR * std) + std / mills))

    def with_unseen(self, units: NDArray[np.float64], most: float) -> NDArray[np.float64]:
        """Add what the cut-off may hide: in each empty bucket, as many units as noise is wide.

        Takes and returns arrays of shape (buckets,). Buckets of more keys than ``most`` stay empty.
        Where units are many this weighs nothing; where they are few it keeps choices moderate.
        """
        hidden = (units == 0) & (_bucket_sizes() <= most)
        return np.where(hidden, self.noise.noise.std, units)


def _bucket_sizes() -> NDArray[np.float64]:
    """Compute a number of keys to stand for each bucket: the geometric mean of its ends."""
    low = 2.0 ** np.arange(_BUCKETS)
    sizes: NDArray[np.float64] = np.sqrt(low * (2 * low - 1))
    return sizes


def _sizes_within_buckets() -> NDArray[np.float64]:
    """List numbers of keys spread over each bucket: float64 of shape (buckets, sizes)."""
    low = 2.0 ** np.arange(_BUCKETS)[:, None]
    listed: NDArray[np.float64] = low * (2 - 1 / low) ** ((np.arange(_SPREAD) + 0.5) / _SPREAD)
    return listed


@dataclass(frozen=True, slots=True)
class NamedGroups:
    """The groups named by the rounds, in the order of their ids.

    ``ids``, ``rounds`` (from 0) and ``weights`` (noisy, in steps) are of shape (groups,).
    ``scales`` are the standard deviations of the rounds' noise, in steps. ``alone`` is True where
    there was only one round, at one key per unit, or a count of votes, whose weights are 0;
    ``spared`` where naming ended before its budget.
    """

    ids: Integers64
    rounds: NDArray[np.intp]
    weights: Steps
    scales: tuple[float, ...]
    alone: bool
    spared: bool = False


@dataclass(frozen=True, slots=True)
class ChosenCap:
    """The cap of a counting, and an estimate of what it takes.

    ``lost`` is so much of a value, over all groups, in what a unit adds to a group at most:
    post-processing of the second pilot.
    """

    cap: int
    lost: float


@dataclass(frozen=True, slots=True)
class Cascade(Usual):
    """Rounds that name keys, after a pilot histogram of the keys per unit.

    ``price`` is the ρ of the pilots, the rounds and, for ``CascadeGoal.COUNTS``, of counting units
    in the named groups, of zCDP or of Gaussian DP, and the δ of the rounds; ``floor`` the minimum
    units - 1, ``most`` the owner's limit on the groups that a unit may count in, None without one.
    ``once`` is the (ε, δ) of one publication of keys alone: then all of ``price`` is the rounds',
    and (ε, δ) but for the pilot's part of ε has to imply it.

    Guarantee: δ-approximate ``rho(None)``-zCDP of pilots and rounds together, or so much in
    Gaussian DP, by adaptive composition (see the module). Checked by
    ``tests/privacy/mechanisms/test_cascade.py``.
    """

    word: ClassVar[str] = "cascade"
    name: ClassVar[str] = "cascade"
    source: ClassVar[str] = (
        "Rogers 2024, Theorem 7, with weights; adaptive rounds by Bun & Steinke 2016, Lemma 8.2"
    )
    price: PrivacyLoss
    floor: int
    most: int | None
    goal: CascadeGoal
    once: PrivacyLoss | None = None

    # -- how the budget is divided ------------------------------------------------------------

    @property
    def shares(self) -> CascadeShares:
        """How the budget is divided."""
        shares = _SHARES[self.goal]
        return shares if self.once is None else replace(shares, pilot=0.0)

    @property
    def caps(self) -> tuple[int, ...]:
        """The possible caps, up to the first at which every unit counts in full."""
        last = CAP_CHOICES[-1] if self.most is None else _cap_for(self.most)
        return tuple(cap for cap in CAP_CHOICES if cap <= last)

    @property
    def single(self) -> bool:
        """True if one key per unit is all that there may be: then nothing has to be looked at."""
        return self.most == 1

    @property
    def delta(self) -> float:
        """The chance of all rounds together to name a key of one unit."""
        return self.price.delta

    @property
    def counting(self) -> IndependentNoise | None:
        """The noise of counting units, in steps, at a cap of 1; None where that is not asked."""
        share = self.shares.counting
        return gaussian(self._part(share), WEIGHT_STEPS, 1) if share else None

    def spared_noise(self, sensitivity: int, measures: int) -> IndependentNoise:
        """Build the noise of counting, in steps, at a cap of 1, with what naming left.

        Where units are counted that is theirs. Else it is divided equally between the ``measures``
        that are counted, each of which has a whole price of its own besides.
        """
        shares = self.shares
        left = shares.naming * sum(shares.parts[shares.ends_after :]) / sum(shares.parts)
        share = shares.counting + left if shares.counting else 1 + left / measures
        return gaussian(self._part(share), sensitivity, 1)

    @property
    def refunds(self) -> bool:
        """False: the price is one for all steps, whatever comes of them."""
        return False

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Compute the cost of pilots and rounds: all of the price but the counting's."""
        kinds = {Composition.ZCDP, Composition.GDP} if self.price.gaussian else {Composition.ZCDP}
        priced = composition in kinds
        return self.price.rho * (1 - self.shares.counting) if priced else math.inf

    def _part(self, share: float, delta: float = 0.0) -> PrivacyLoss:
        return replace(self.price, rho=self.price.rho * share * (1 - _SLACK), delta=delta)

    @property
    def pilot(self) -> PilotNoise:
        """The noise of the first pilot histogram."""
        if self.once is not None:
            return PilotNoise(laplace(PrivacyLoss(epsilon=self.once.epsilon * ONCE_PILOT), 1, 1))
        return PilotNoise(gaussian(self._part(self.shares.pilot), 1, 1))

    @property
    def votes(self) -> GreedySetUnion | None:
        """The votes of units for keys alone, at all but the pilot's share; None where none fit."""
        if self.goal is not CascadeGoal.KEYS:
            return None
        price = self._part(1.0 if self.single else 1 - self.shares.pilot, self.delta)
        if self.once is not None:
            price = after_pilot(self.once)
        try:
            return greedy_set_union(price, self.floor)
        except ParameterError:
            return None

    def second_pilot(self, parts: int) -> PilotNoise:
        """Build the noise of each of so many ``parts`` of the second pilot: of its histograms."""
        return PilotNoise(gaussian(self._part(self.shares.second_pilot / parts), 1, 1))

    def shares_noise(self, parts: int) -> IndependentNoise:
        """Build the noise on the sum of units' norms, in steps, if that is one of the parts."""
        return gaussian(self._part(self.shares.second_pilot / parts), WHOLE_SHARE, 1)

    def rounds(self, kept: int) -> tuple[NamingRound, ...]:
        """Build the rounds of a naming that keeps so many keys of a unit."""
        shares = self.shares
        deltas = [self.delta * share * (1 - _SLACK) for share in shares.deltas]
        price = self._part(shares.naming)
        return naming_rounds(price, shares.parts, deltas, Weights(1, kept), self.floor)

    def brief_round(self, kept: int) -> NamingRound | None:
        """Build the round after which naming may end early; None if it never ends early.

        It has what all later rounds would have had of δ, and draws what it would have drawn.
        """
        ends = self.shares.ends_after
        if self.single or ends is None:
            return None
        held, *rest = self.rounds(kept)[ends - 1 :]
        return replace(held, delta=held.delta + sum(later.delta for later in rest))

    def naming_rounds(self, kept: int) -> tuple[NamingRound | WeightedPositiveCounts, ...]:
        """Build the rounds: one where nothing is to be divided, however many keys are kept."""
        return (self.only_round,) if self.single else self.rounds(kept)

    @property
    def only_round(self) -> WeightedPositiveCounts:
        """The one round where units have one key each, at all but the first pilot's share."""
        pilot = 0.0 if self.single else self.shares.pilot
        # What the price of counting is taken for is spent here.
        price = self._part(1 - pilot, self.delta)
        return weighted_positive_counts(price, Weights(1, 1), self.floor)

    # -- figures for plans --------------------------------------------------------------------

    @property
    def last_round(self) -> NamingRound | WeightedPositiveCounts:
        """The round that decides about keys, at the largest number of kept keys."""
        return self.naming_rounds(KEPT_CHOICES[-1])[-1]

    def score_for_inclusion(self, probability: float) -> float | None:
        """Return the weight in the last round, in steps, for this probability of being named."""
        return self.last_round.score_for_inclusion(probability)

    def score_if_brief(self, probability: float) -> float | None:
        """Return the weight for inclusion after a brief naming; None if naming never ends early."""
        last = self.brief_round(KEPT_CHOICES[-1])
        return None if last is None else last.score_for_inclusion(probability)

    # -- drawing ------------------------------------------------------------------------------

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Refuse an array of shape (groups,): each round reads rows anew."""
        raise NotImplementedError

    def name_groups(self, rows: CascadeRows, source: EntropySource) -> NamedGroups:
        """Take the pilot, and name groups round by round: the first two steps of the module."""
        kept = None if self.single else self._kept(rows, source)
        if kept is None:
            votes = self.votes
            return (
                self._named_at_once(rows, source) if votes is None else voted(votes, rows, source)
            )
        evidence, done = RoundMemory(), [np.zeros(0, np.int64)]
        weights, scales = [np.zeros(0)], list[float]()
        for one in self.rounds(kept):
            if self._enough_named(kept, weights[1:]):
                last = self.brief_round(kept)
                assert last is not None
                ids, means = evidence.named_after_all(last)
                done[-1] = np.concatenate([done[-1], ids])
                weights[-1] = np.concatenate([weights[-1], means])
                break
            left = rows.unnamed_weights(np.concatenate(done), kept)
            ids, means = evidence.named(one, left, source)
            done, weights, scales = [*done, ids], [*weights, means], [*scales, one.noise.std]
        named, rounds = np.concatenate(done), np.arange(len(scales))
        order = np.argsort(named, kind="stable")
        return NamedGroups(
            named[order],
            np.repeat(rounds, [len(found) for found in done[1:]])[order],
            np.concatenate(weights)[order],
            tuple(scales),
            alone=False,
            spared=len(scales) < len(self.shares.parts),
        )

    def _named_at_once(self, rows: CascadeRows, source: EntropySource) -> NamedGroups:
        """Name groups in the only round."""
        mechanism, none = self.only_round, np.zeros(0, np.int64)
        found = rows.unnamed_weights(none, 1)
        order = np.flatnonzero(found.enough)[np.argsort(found.ids[found.enough], kind="stable")]
        chosen = mechanism.select(found.weights[order], source)
        assert chosen.noisy is not None
        ids, rounds = found.ids[order][chosen.indices], np.zeros(len(chosen.indices), np.intp)
        return NamedGroups(ids, rounds, chosen.noisy, (mechanism.noise.std,), alone=True)

    def _enough_named(self, kept: int, weights: Sequence[Steps]) -> bool:
        """Tell whether the rounds so far say that few keys are left to name.

        They do where the last of them named few more, with several times the budget, although the
        first named several, or a few far above its threshold.
        """
        if len(weights) != self.shares.ends_after:
            return False
        first, last = weights[0], weights[-1]
        near = np.count_nonzero(first < _NEAR * self.rounds(kept)[0].threshold)
        many = len(first) >= _SEVERAL or (len(first) > 0 and near == 0)
        return many and len(last) <= self.shares.few_more * len(first)

    def _kept(self, rows: CascadeRows, source: EntropySource) -> int | None:
        """Choose the number of keys kept of a unit, or None for one round at one key or votes.

        The choice names most where a key's weight is about a unit's times how many have it.
        """
        noisy, sizes = self.pilot.histogram(rows.unit_sizes(None), source), _bucket_sizes()
        units = self.pilot.certain(noisy)
        pairs, votes = float(units @ sizes), self.votes
        if units[0] > _ALONE * pairs:
            return None
        units = self.pilot.with_unseen(units, _UNSEEN_SIZE)
        gains = {
            kept: float(units @ np.sqrt(np.minimum(sizes, kept))) / self.rounds(kept)[-1].threshold
            for kept in KEPT_CHOICES
        }
        if votes is not None:
            of_votes = float(units.sum()) / (votes.floor + votes.votes_needed) / WEIGHT_STEPS
            if _VOTES_SPREAD * of_votes >= max(gains.values()):
                return None
        return max(KEPT_CHOICES, key=lambda kept: gains[kept])

    def choose_cap_of_units(
        self,
        rows: CascadeRows,
        named: NamedGroups,
        scale: float,
        source: EntropySource,
        *,
        parts: int = 1,
    ) -> ChosenCap:
        """Choose the cap for numbers of units by how many named groups they have, with noise.

        ``scale`` is the standard deviation of the noise at a cap of 1, in units. A unit with m
        groups loses sqrt(m) - sqrt(C) in the l2 norm, and sqrt(m) times as much in all.
        """
        if named.alone:
            return ChosenCap(CAP_CHOICES[0], 0.0)
        # A unit has no more named groups than there are.
        groups = max(1, len(named.ids))
        enough = _cap_for(groups)
        pilot = self.second_pilot(parts)
        noisy = pilot.histogram(rows.unit_sizes(named.ids), source)
        possible = 2 ** np.arange(_BUCKETS) <= groups
        units = np.where(possible, pilot.expected(noisy), 0.0)
        sizes = np.minimum(_sizes_within_buckets(), groups)
        return self._best_cap(units, sizes, np.sqrt(sizes), scale, groups, enough)

    def choose_cap_of_values(
        self,
        rows: CascadeRows,
        named: NamedGroups,
        scales: Sequence[float],
        source: EntropySource,
        *,
        limited: bool,
        cut: float = 0.0,
        parts: int = 2,
    ) -> ChosenCap:
        """Choose the cap for values by the l2 norms of what units add to the named groups.

        ``scales`` are the standard deviations of the values' noise at a cap of 1, each in what a
        unit adds to a group at most; ``limited`` tells that it adds no more to any, as by a number
        of rows that was given. A unit with norm n loses n - sqrt(C) of it, and of its sum as
        many times more as that is larger than the norm: on average over the units that may lose
        any, by the noisy sum of their norms' shares. What the cap takes is told with a standard
        deviation more units in each bucket than are shown, and at least with those that are beyond
        a number of rows that was drawn: it supposedly ``cut`` so many units.
        """
        squares, beyond = _sizes_within_buckets()[:_NORM_BUCKETS] ** 2, _beyond_a_draw(cut)
        groups, scale = max(1, len(named.ids)), float(np.mean(scales))
        if named.alone:
            cap = CAP_CHOICES[0]
            return ChosenCap(cap, float(beyond @ _taken(squares, 1.0, cap)))
        pilot, noise = self.second_pilot(parts), self.shares_noise(parts)
        exact = rows.unit_norms(named.ids)
        norms = np.ceil(np.sqrt(exact.sizes)).astype(np.int64)
        seen = pilot.histogram(UnitSizes(norms, exact.units), source)[:_NORM_BUCKETS]
        possible = 2.0 ** np.arange(_NORM_BUCKETS) <= (
            math.ceil(math.sqrt(groups)) if limited else MOST_NORM
        )
        odds = np.where(possible, _ODDS, 0.0)
        units = pilot.expected(seen, odds)
        noisy = float(noise.add(np.array([rows.norm_shares(named.ids)]), source)[0])
        doubt = _DOUBT * noise.noise.std
        share = (max(0.0, noisy) + _USUAL_SHARE * doubt) / (
            float(units[1:].sum()) * WHOLE_SHARE + doubt
        )
        spread = 1 / min(1.0, max(_LEAST_SHARE, share))
        cap = self._best_cap(units, squares, spread, scale, groups, CAP_CHOICES[-1]).cap
        more = pilot.expected(seen + _ABOVE * pilot.noise.noise.std, _TOLD * odds)
        lost = np.maximum(more, beyond) @ _taken(squares, spread, cap)
        return ChosenCap(cap, float(lost))

    def _best_cap(
        self,
        units: NDArray[np.float64],
        squares: NDArray[np.float64],
        spread: NDArray[np.float64] | float,
        scale: float,
        groups: int,
        enough: int,
    ) -> ChosenCap:
        """Weigh noise against what each cap takes, for each group on average.

        ``units`` of shape (buckets,) have ``squares`` of norms of shape (buckets, values), and sums
        ``spread`` times these norms.
        """

        def lost(cap: int) -> float:
            return float(units @ _taken(squares, spread, cap))

        def error(cap: int) -> float:
            return _MEAN_ABSOLUTE * scale * math.sqrt(cap) + lost(cap) / groups

        cap = min((cap for cap in self.caps if cap <= enough), key=error)
        return ChosenCap(cap, lost(cap))


def _cap_for(groups: int) -> int:
    """Return the first cap at which a unit in so many groups counts in full in each."""
    return next((cap for cap in CAP_CHOICES if cap >= groups), CAP_CHOICES[-1])


def _beyond_a_draw(cut: float) -> NDArray[np.float64]:
    """Guess how many units are in each bucket of norms where a draw supposedly cut so many.

    Their numbers fall by the square of norms: float64 of shape (norm buckets,).
    """
    found: NDArray[np.float64] = 3 * cut * np.power(4.0, -np.arange(_NORM_BUCKETS))
    return found


def _taken(
    squares: NDArray[np.float64], spread: NDArray[np.float64] | float, cap: int
) -> NDArray[np.float64]:
    """Compute what a cap takes of a unit in each bucket, on average: of shape (buckets,)."""
    taken = np.maximum(0.0, np.sqrt(squares) - math.sqrt(cap)) * spread
    found: NDArray[np.float64] = taken.mean(axis=1)
    return found


def voted(votes: GreedySetUnion, rows: CascadeRows, source: EntropySource) -> NamedGroups:
    """Name groups by one vote of each unit."""
    ids = votes.select(votes.weigh(rows.units_in_order()), source).indices + 1
    rounds, weights = np.zeros(len(ids), np.intp), np.zeros(len(ids))
    return NamedGroups(ids.astype(np.int64), rounds, weights, (0.0,), alone=True)


def after_pilot(once: PrivacyLoss) -> PrivacyLoss:
    """Return what the pilot of one publication leaves."""
    return replace(once, epsilon=once.epsilon * (1 - ONCE_PILOT) * (1 - _SLACK))


def cascade_in(selection: Selection) -> Cascade | None:
    """Return a selection if it is a cascade, else None."""
    return selection if isinstance(selection, Cascade) else None


def spread_noise(noise: IndependentNoise, groups: int) -> IndependentNoise:
    """Build noise that costs no more over ``groups`` groups than ``noise`` does over one.

    In Gaussian DP as well: its variance is that of so many groups, of which less is lost to the
    lattice, and a little more than rounding takes away.
    """
    return gaussian(PrivacyLoss(noise.rho(1) * (1 - _SLACK)), noise.sensitivity, groups)


def scaled_counts(named: NamedGroups, counted: Steps, counted_scale: float) -> NDArray[np.float64]:
    """Average the counts of units with the estimates of the rounds, in steps: of shape (groups,).

    Post-processing of released values. A round's weights are too small by a factor that depends on
    how many keys the units of a group have, and too large only of groups that noise has named. That
    of the round as a whole is estimated, and one below 1 raised by a standard deviation of the
    estimate, to 1 at most. How far single groups are from it is estimated, too, as a variance in
    proportion to their size, by which the round is trusted less.
    """
    found = counted.copy()
    for number, scale in enumerate(named.scales):
        mine = named.rounds == number
        weights, counts = named.weights[mine], counted[mine]
        if len(weights) == 0 or weights.sum() <= 0:
            continue
        fitted = float(counts.sum() / weights.sum())
        known_to = counted_scale * math.sqrt(len(counts)) / float(weights.sum())
        ratio = max(_LEAST_RATIO, fitted, min(1.0, fitted + known_to))
        noise, sizes = (ratio * scale) ** 2, np.maximum(ratio * weights, scale)
        excess = (counts - fitted * weights) ** 2 - noise - counted_scale**2
        spread = max(0.0, float(excess @ sizes / (sizes @ sizes)))
        variance = noise + spread * sizes
        trust = counted_scale**2 / (variance + counted_scale**2)
        found[mine] = counts + trust * (ratio * weights - counts)
    return found
