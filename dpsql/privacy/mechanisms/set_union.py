"""Set unions: private release of as much of the union of units' items as possible.

Every unit gives weight to its items, at most ``groups`` of them; each item's total weight gets
noise and its name is released iff that exceeds a threshold (Gopi et al. 2020). Unlike a count, the
weight is spent where it helps. No count is released, names only.

Weights, noise and thresholds are integers, in steps of 1/STEPS of a unit's whole weight, so that
sensitivities and tails are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.gdp import gaussian_rho_of_pure, pure_of_gaussian_rho
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.calibration import (
    lattice_gaussian_delta,
    lattice_gaussian_sigma,
    lattice_sigma,
    smooth_sigma,
)
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion
from dpsql.privacy.mechanisms.price import EPSILON_UP, RHO_UP, lattice_gaussian_rho
from dpsql.privacy.mechanisms.selection import Selected, Selection, Usual
from dpsql.privacy.mechanisms.set_union_weights import (
    UNIT_WEIGHT_STEPS,
    Progress,
    UnitItems,
    add_up,
    descend,
    l2_sensitivity,
)
from dpsql.privacy.mechanisms.sparse_histogram import crossing, lowest_tau
from dpsql.privacy.mechanisms.weighted_histogram import shared_out_delta
from dpsql.privacy.sampling.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    EntropySource,
    gaussian_sigma_for_rho,
    laplace_scale_for_rho,
)
from dpsql.privacy.sampling.numeric import checked_positive, rounded_up

MAX_GROUPS = 2**20
STILL_RISING = 0.38
"""About so is the power of a unit's number of items that are below the cutoff: an estimate."""
_LARGE_DELTA = 0.1  # of no use to anyone: not worth an exact analysis, which is slow there

ScoreNoise = DiscreteLaplace | DiscreteGaussian


class Weighting(StrEnum):
    """How a unit weighs its items.

    COUNT: 1 each. WEIGHTED: an equal share, 1/n for Laplace and 1/sqrt(n) for Gaussian noise.
    POLICY: by l1- or l2-descent towards a cutoff above the threshold, which needs all units in
    sequence.
    """

    COUNT = "count"
    WEIGHTED = "weighted"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class SetUnion(Usual):
    """Noise on every item's weight; an item is named iff its noisy weight exceeds the threshold.

    A unit has at most ``groups`` items. ``noise`` is on the lattice of STEPS to the unit weight.
    ``alpha`` places the policy's cutoff that many noise scales above the threshold.

    Guarantee: δ-approximate ρ-zCDP, and (ε, ``delta_at(ε)``)-DP, for one unit more or less. With
    t the number of items that only that unit has, the threshold T is the smallest integer for which
    1 - (1 - P[Z > T - w_t])^t <= δ for every t <= groups, w_t being the most such an item weighs,
    by the exact tail of the sampled distribution. Given that none of them is named, the rest is
    noise on the weights of items both neighbours have, which differ by at most the sensitivity
    (Gopi et al. 2020, Theorems 4.1, 5.1, B.1 and B.2). For (ε, δ) with Gaussian noise the deltas of
    both are added, but for fixed weights: there no unit is at its worst for both. The printed
    Algorithm 6 takes its cutoff from the Laplace threshold; here it is the Gaussian one's. Checked
    by ``tests/privacy/mechanisms/test_set_union.py``.
    """

    word: ClassVar[str] = "set union"
    keys_by_hash: ClassVar[bool] = False
    weighting: Weighting
    noise: ScoreNoise
    groups: int
    delta: float
    alpha: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= MAX_GROUPS:
            raise ParameterError(
                f"max_groups_contributed must lie between 1 and {MAX_GROUPS}", code="bad_parameter"
            )
        if not 0 < self.delta < 1:
            raise ParameterError("delta must lie strictly between 0 and 1", code="bad_parameter")
        if not 0 <= self.alpha <= 1000:
            raise ParameterError("alpha must lie between 0 and 1000", code="bad_parameter")

    @property
    def name(self) -> str:
        kind = "laplace" if self.norm == 1 else "gaussian"
        return f"{self.weighting.value}_{kind}_set_union"

    @property
    def source(self) -> str:
        places = {
            Weighting.COUNT: "Section 1.1",
            Weighting.WEIGHTED: f"Theorem B.{self.norm}",
            Weighting.POLICY: "Theorem 4.1" if self.norm == 1 else "Theorem 5.1",
        }
        return f"Gopi et al. 2020, {places[self.weighting]}"

    @property
    def in_sequence(self) -> bool:
        """True if units are read one after the other."""
        return self.weighting is Weighting.POLICY

    @property
    def bounding(self) -> str:
        """What bounds a unit's weights."""
        most = f"{self.groups} group{'s' * (self.groups != 1)}"
        groups = f"at most {most} per unit (sampled by a salted hash)"
        return f"{groups}, together of weight 1 in l{self.norm}"

    @property
    def norm(self) -> int:
        """The norm that bounds one unit's weights: 1 for Laplace, 2 for Gaussian noise."""
        return 1 if isinstance(self.noise, DiscreteLaplace) else 2

    @property
    def threshold(self) -> int:
        """T: the noisy weight an item must exceed, in steps."""
        return _threshold(self.weighting, self.noise, self.groups, self.delta)

    @property
    def cutoff(self) -> int:
        """Γ: the weight at which the policy stops raising an item, in steps."""
        # A delta above 1/2 could put the threshold below zero.
        return max(UNIT_WEIGHT_STEPS, self.threshold + round(self.alpha * self.noise.spread))

    @property
    def sensitivity(self) -> float:
        """How far one unit moves the vector of weights, in ``norm``, in steps; rounded up."""
        if self.norm == 1:
            return float(
                UNIT_WEIGHT_STEPS * (self.groups if self.weighting is Weighting.COUNT else 1)
            )
        if self.weighting is Weighting.POLICY:
            return l2_sensitivity(self.cutoff, self.groups)
        squared = UNIT_WEIGHT_STEPS**2 * (self.groups if self.weighting is Weighting.COUNT else 1)
        root = math.sqrt(squared)
        return root if Fraction(root) ** 2 >= squared else math.nextafter(root, math.inf)

    @property
    def item_weights(self) -> tuple[int, ...]:
        """The weight of each item of a unit with 1, 2, ..., groups items, in steps.

        Raises ParameterError for the policies, whose weights depend on earlier units.
        """
        if self.weighting is Weighting.POLICY:
            raise ParameterError(
                "a policy's weights are not fixed in advance", code="no_fixed_weights"
            )
        sizes = range(1, self.groups + 1)
        return tuple(_fresh_weight(self.weighting, self.norm, n) for n in sizes)

    def cost(self, composition: Composition, reach: int | None) -> float:
        """Compute its price; the same whatever is released. For a Gaussian's epsilon: ``delta_at``.

        For Laplace noise the divergence is convex in the shift and zero at zero, so no way of
        spreading an l1 distance over items costs more than one item taking all of it; a count
        spreads it evenly.
        """
        match composition, self.noise:
            case Composition.ZCDP, DiscreteLaplace() if self.weighting is Weighting.COUNT:
                return self.groups * self.noise.rho(UNIT_WEIGHT_STEPS) * (1 + 2.0**-50)
            case Composition.ZCDP, noise:
                return noise.rho(self.sensitivity)
            case Composition.GDP, DiscreteGaussian() as noise:
                return lattice_gaussian_rho(noise, Fraction(self.sensitivity) ** 2)
            case Composition.GDP, DiscreteLaplace(scale):
                return gaussian_rho_of_pure(self.sensitivity / scale * EPSILON_UP) * RHO_UP
            case Composition.BASIC, DiscreteLaplace(scale):
                return rounded_up(Fraction(self.sensitivity) / Fraction(scale))
        return math.inf

    def delta_at(self, epsilon: float) -> float:
        """Find a delta for which one publication is (epsilon, delta)-DP; 1.0 if there is none.

        Gaussian noise on fixed weights: of a unit's n items let f*n be old, in the union without
        it. Their weights rise by sqrt(f) times the sensitivity in l2 at most, and the others, each
        of the same weight, stay hidden with probability (1 - p)^((1 - f)n) >= (1 - δ)^(1 - f), as
        (1 - p)^n >= 1 - δ by the threshold. That is the case of ``shared_out_delta``.
        """
        checked_positive(epsilon, "epsilon")
        if isinstance(self.noise, DiscreteLaplace):
            cost = Fraction(self.sensitivity) / Fraction(self.noise.scale)
            return self.delta if cost <= Fraction(epsilon) else 1.0
        moved = lattice_gaussian_delta(epsilon, self.noise.sigma, self.sensitivity)
        added = min(1.0, (self.delta + moved) * (1 + 2.0**-50))
        if self.weighting is Weighting.POLICY or self.delta > _LARGE_DELTA or added == 1.0:
            return added
        distance = self.sensitivity / smooth_sigma(self.noise.sigma)
        log_hidden = math.log1p(-self.delta) * (1 + 1e-12)
        return min(added, shared_out_delta(epsilon, distance, log_hidden))

    @property
    def share(self) -> float:
        """The weight, in steps, that a unit of ``groups`` items adds to each item below the cutoff.

        For a policy an estimate: about groups**0.38 of a unit's items are still below the cutoff.
        On the corpus of ``benchmarks/set_union.py`` the noise it favours then names at most a tenth
        less than the other, for epsilon up to 10 and 2 to 300 groups. No guarantee rests on it.
        """
        if self.weighting is not Weighting.POLICY:
            return float(_fresh_weight(self.weighting, self.norm, self.groups))
        return UNIT_WEIGHT_STEPS / math.pow(self.groups, STILL_RISING / self.norm)

    def score_for_inclusion(self, probability: float) -> float | None:
        """Tell how many units of ``groups`` items each an item needs to be named this often."""
        steps = self.threshold
        if probability > 0.5:
            steps += self.noise.quantile_sf(1 - probability)
        return steps / self.share

    def weigh(
        self,
        batches: Iterable[UnitItems],
        progress: Progress | None = None,
        total: int | None = None,
    ) -> NDArray[np.int64]:
        """Weigh every item code, as ``select`` takes it: int64 of shape (codes,), in steps.

        For COUNT and WEIGHTED an engine can sum ``item_weights`` itself; then this is not needed.
        Errors are those of ``descend``.
        """
        if self.weighting is Weighting.POLICY:
            return descend(
                batches,
                norm=self.norm,
                cutoff=self.cutoff,
                groups=self.groups,
                progress=progress,
                total=total,
            )
        return add_up(batches, self.item_weights, progress, total)

    def select(self, scores: NDArray[np.int64], source: EntropySource) -> Selected:
        """Draw the released items from their weights: an int64 array of shape (codes,), in steps.

        A score of zero means that no unit has the item.
        """
        noisy = scores + self.noise.sample(len(scores), source)
        return Selected(np.flatnonzero((noisy > self.threshold) & (scores > 0)), None)


def set_union_in(selection: Selection) -> SetUnion | GreedySetUnion | None:
    """Return a selection if it is a set union, else None.

    It needs no measures, but which unit has which keys: the distinct pairs of both, which are read
    in steps, before any key is.
    """
    return selection if isinstance(selection, SetUnion | GreedySetUnion) else None


def set_union_for(
    weighting: Weighting,
    norm: int,
    price: PrivacyLoss,
    *,
    groups: int,
    alpha: float = 5.0,
    halves: bool = False,
) -> SetUnion:
    """Build the set union that costs at most ``price``.

    ``norm`` is 1 for Laplace and 2 for Gaussian noise; ``alpha`` concerns the policies only. For
    one publication Laplace noise spends all of delta on the threshold. Gaussian noise is then the
    one that allows the lowest threshold by ``delta_at``; with ``halves``, as Gopi et al. 2020 print
    it, the one that takes half of delta by the exact analysis of Balle & Wang 2018 and leaves the
    other half to the threshold. Raises ParameterError for parameters out of range, or a price too
    small for the noise.
    """
    _check(norm, groups, price.delta)
    if norm == 1:
        return _laplace_union(weighting, price, groups, alpha)
    divided = _in_halves if halves or price.delta > _LARGE_DELTA else _lowest
    sensitivity = 1.0 if price.gaussian else float(UNIT_WEIGHT_STEPS)
    if price.composition is Composition.BASIC and weighting is Weighting.COUNT:
        sensitivity *= math.sqrt(groups)
    while True:
        delta = price.delta
        match price.composition:
            case Composition.ZCDP:
                sigma = gaussian_sigma_for_rho(price.rho, Fraction(sensitivity) ** 2)
            case Composition.GDP:
                sigma = lattice_sigma(sensitivity**2 / (2 * price.rho))
            case Composition.BASIC:
                sigma, delta = divided(weighting, price.epsilon, groups, delta, sensitivity)
        union = SetUnion(weighting, DiscreteGaussian(sigma), groups, delta, alpha)
        if _keeps(union, price):
            return union
        sensitivity = max(union.sensitivity, sensitivity) * (1 + 1e-12)


def _keeps(union: SetUnion, price: PrivacyLoss) -> bool:
    """Tell whether a union costs at most ``price``."""
    if price.composition is Composition.BASIC:
        return union.delta_at(price.epsilon) <= price.delta
    return union.cost(price.composition, None) <= price.rho


def _laplace_union(weighting: Weighting, price: PrivacyLoss, groups: int, alpha: float) -> SetUnion:
    counts = weighting is Weighting.COUNT
    wanted = UNIT_WEIGHT_STEPS * (groups if counts else 1)
    match price.composition:
        case Composition.ZCDP:
            share = price.rho / groups if counts else price.rho
            scale = laplace_scale_for_rho(share, UNIT_WEIGHT_STEPS)
        case Composition.GDP:
            scale = wanted * (1 + 1e-12) / pure_of_gaussian_rho(price.rho) * (1 + 1e-11)
        case Composition.BASIC:
            scale = wanted / price.epsilon
            if Fraction(scale) * Fraction(price.epsilon) < wanted:
                scale = math.nextafter(scale, math.inf)
    while True:
        union = SetUnion(weighting, DiscreteLaplace(scale), groups, price.delta, alpha)
        if _keeps(union, price):
            return union
        scale *= 1 + 1e-12


def _in_halves(
    weighting: Weighting, epsilon: float, groups: int, delta: float, sensitivity: float
) -> tuple[float, float]:
    """Split delta in halves: for noise, and for items of a single unit."""
    half = delta / 2 * (1 - 2.0**-48)
    return lattice_gaussian_sigma(epsilon, half, sensitivity), half


def _lowest(
    weighting: Weighting, epsilon: float, groups: int, delta: float, sensitivity: float
) -> tuple[float, float]:
    """Find the noise with the lowest threshold, and the delta left for items of a single unit."""
    allowed = delta * (1 - 1e-11)

    def left(sigma: float) -> float:
        rest = allowed * (1 - 2e-9) - lattice_gaussian_delta(epsilon, sigma, sensitivity)
        if weighting is Weighting.POLICY or rest <= 1e-6 * allowed:
            return rest
        distance = sensitivity / smooth_sigma(sigma)

        def delta_of(exponent: float) -> float:
            return shared_out_delta(epsilon, distance, math.log1p(-math.exp(-exponent)))

        return math.exp(-crossing(delta_of, allowed, -math.log(allowed), -math.log(rest)))

    def threshold(sigma: float) -> float:
        fresh = left(sigma)
        if fresh <= 0:
            return math.inf
        return float(_threshold(weighting, DiscreteGaussian(sigma), groups, fresh))

    found = lowest_tau(threshold, lattice_gaussian_sigma(epsilon, delta, sensitivity))
    return found.sigma, left(found.sigma)


@lru_cache(maxsize=4096)
def _threshold(weighting: Weighting, noise: ScoreNoise, groups: int, delta: float) -> int:
    """Find the largest over t of w_t + quantile_t: both monotone, so whole ranges are ruled out."""
    norm = 1 if isinstance(noise, DiscreteLaplace) else 2

    def fresh(t: int) -> int:
        return _fresh_weight(weighting, norm, t)

    def margin(t: int) -> int:
        # (1 - p)^t >= 1 - delta  iff  p <= 1 - (1 - delta)^(1/t), rounded down a little.
        return noise.quantile_sf(-math.expm1(math.log1p(-delta) / t) * (1 - 1e-12))

    best = max(fresh(1) + margin(1), fresh(groups) + margin(groups))
    ranges = [(1, groups)]
    while ranges:
        low, high = ranges.pop()
        if high - low > 1 and fresh(low + 1) + margin(high) > best:
            middle = (low + high) // 2
            best = max(best, fresh(middle) + margin(middle))
            ranges += [(low, middle), (middle, high)]
    return best


def _fresh_weight(weighting: Weighting, norm: int, items: int) -> int:
    """Return the most that each of ``items`` items nobody else has can weigh, in steps.

    A policy raises them alike, by at most the equal share, and may round that up.
    """
    if weighting is Weighting.COUNT:
        return UNIT_WEIGHT_STEPS
    share = UNIT_WEIGHT_STEPS // items if norm == 1 else math.isqrt(UNIT_WEIGHT_STEPS**2 // items)
    return share + 1 if weighting is Weighting.POLICY else share


def _check(norm: int, groups: int, delta: float) -> None:
    if norm not in (1, 2):
        raise ParameterError("the norm must be 1 (Laplace) or 2 (Gaussian)", code="bad_parameter")
    if groups < 1:
        raise ParameterError("max_groups_contributed must be at least 1", code="bad_parameter")
    if not 0 < delta < 1:
        raise ParameterError("delta must lie strictly between 0 and 1", code="bad_parameter")
