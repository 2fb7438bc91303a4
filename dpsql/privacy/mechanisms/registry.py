"""Every mechanism that decides which groups are released: one entry each.

The planner, the calculator, completion and the tests of the documentation read the entries, so that
a mechanism is built in one way wherever it is compared, calibrated or drawn from. A builder takes
public sizes and a budget: (rho, delta) under zCDP, (epsilon, delta) for a single publication. It
raises ``ParameterError`` for parameters out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar

from dpsql.errors import ParameterError
from dpsql.privacy.mechanisms.additive import (
    IndependentNoise,
    gaussian,
    laplace,
    one_shot_gaussian,
    one_shot_laplace,
)
from dpsql.privacy.mechanisms.cascade import Cascade, CascadeGoal
from dpsql.privacy.mechanisms.choose_k_bar import gumbel_top_k_chosen_k_bar
from dpsql.privacy.mechanisms.correlated_topk import correlated_top_k, one_shot_top_k
from dpsql.privacy.mechanisms.gaussian_cost import (
    laplace_for_gaussian_rho,
    set_union_for_gaussian_rho,
    zcdp_of_picks,
)
from dpsql.privacy.mechanisms.histogram import KnownDomain, PositiveCounts
from dpsql.privacy.mechanisms.known_topk import known_domain_top_k
from dpsql.privacy.mechanisms.selection import Selection
from dpsql.privacy.mechanisms.set_union import (
    SetUnion,
    Weighting,
    set_union_for_rho,
    set_union_one_shot,
)
from dpsql.privacy.mechanisms.sparse_histogram import SparseHistogram, joint_sparse_histogram
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK, gumbel_top_k, moved_scores
from dpsql.privacy.mechanisms.topk_laplace import FixedThreshold, LaplaceTopK, fixed_threshold
from dpsql.privacy.mechanisms.weighted_histogram import (
    WEIGHT_STEPS,
    WeightedPositiveCounts,
    WeightedSparseHistogram,
    Weights,
    kept_groups,
    weighted_positive_counts,
    weighted_sparse_histogram,
)
from dpsql.privacy.sampling.noise import DiscreteGaussian

ANY_GROUPS = 10**9
"""As good as any number of groups."""


class Family(StrEnum):
    """The shape of question that a mechanism answers."""

    KNOWN_DOMAIN = "declared keys"
    HISTOGRAM = "unknown keys, every group that is large enough"
    WEIGHTED = "unknown keys, units with many groups weigh less in each"
    TOP_K = "unknown keys, the largest groups only"
    SET_UNION = "unknown keys without aggregates"
    CASCADE = "unknown keys, with max_groups_contributed = auto"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The public sizes of a query. Those that a mechanism does not use keep their defaults.

    ``groups`` bounds how many groups a unit may influence. ``domain`` is the number of declared
    groups, ``floor`` the minimum units - 1, and ``shared`` the number of measures, the unit count
    included, that the (epsilon, delta) of a single publication is for.
    """

    k: int = 1
    groups: int = ANY_GROUPS
    k_bar: int = 1
    sensitivity: int = 1
    domain: int = 1
    floor: int = 0
    shared: int = 1


_S = TypeVar("_S", bound=Selection, covariant=True)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class MechanismEntry(Generic[_S]):
    """A mechanism: its name, what it answers, and how it is built for a budget.

    ``composed`` builds it from (rho, delta); None for a *one-shot* mechanism, which states no zCDP.
    ``once`` builds it from the (epsilon, delta) of a single publication, where it has an analysis
    of that. ``gaussian`` builds it from (mu**2/2, delta), where it has a cost in Gaussian DP
    (``mechanisms/gaussian_cost.py``). Each may find no noise in range and return None. ``planned``:
    queries may be answered by it.
    """

    name: str
    family: Family
    answers: str
    composed: Callable[[Sizes, float, float], _S | None] | None = None
    once: Callable[[Sizes, float, float], _S] | None = None
    planned: bool = True
    gaussian: Callable[[Sizes, float, float], _S | None] | None = None

    @property
    def one_shot(self) -> bool:
        """True if it states (epsilon, delta) and no zCDP."""
        return self.composed is None

    def within_rho(self, sizes: Sizes, rho: float, delta: float) -> _S | None:
        """Build it under zCDP; None if its analysis has no noise for such a rho."""
        assert self.composed is not None
        return self.composed(sizes, rho, delta)

    def at_rho(self, sizes: Sizes, rho: float, delta: float) -> _S:
        """Build it under zCDP, for mechanisms that have noise for every rho."""
        found = self.within_rho(sizes, rho, delta)
        assert found is not None
        return found

    def within_gaussian_rho(self, sizes: Sizes, rho: float, delta: float) -> _S | None:
        """Build it in Gaussian DP; None if there is no noise for such a cost.

        Raises ``ParameterError`` where it has no cost in Gaussian DP.
        """
        if self.gaussian is None:
            raise ParameterError(
                "its cost in Gaussian DP is not proved",
                code="bad_parameter",
                hint="Accounts of another composition can ask for it.",
            )
        return self.gaussian(sizes, rho, delta)

    def published_once(self, sizes: Sizes, epsilon: float, delta: float) -> _S:
        """Build it for a single publication."""
        assert self.once is not None
        return self.once(sizes, epsilon, delta)


# -- declared keys ----------------------------------------------------------------------------

KNOWN_DOMAIN = MechanismEntry(
    "known_domain",
    Family.KNOWN_DOMAIN,
    "every declared group",
    composed=lambda sizes, rho, delta: KnownDomain(sizes.domain),
    gaussian=lambda sizes, rho, delta: KnownDomain(sizes.domain),
    once=lambda sizes, epsilon, delta: KnownDomain(sizes.domain),
)
KNOWN_DOMAIN_TOP_K = MechanismEntry(
    "known_domain_top_k",
    Family.KNOWN_DOMAIN,
    "the names of the k largest declared groups in order",
    composed=lambda sizes, rho, delta: known_domain_top_k(
        rho, sensitivity=sizes.sensitivity, k=sizes.k, size=sizes.domain
    ),
    gaussian=lambda sizes, rho, delta: known_domain_top_k(
        zcdp_of_picks(rho, min(sizes.k, sizes.domain)),
        sensitivity=sizes.sensitivity,
        k=sizes.k,
        size=sizes.domain,
    ),
)

# -- unknown keys -----------------------------------------------------------------------------


def _positive_counts(noise: IndependentNoise, sizes: Sizes, delta: float) -> PositiveCounts:
    return PositiveCounts(noise, sizes.groups, delta, sizes.floor)


def _laplace_positive_counts_once(sizes: Sizes, epsilon: float, delta: float) -> PositiveCounts:
    """Build positive counts of Laplace noise for one publication: (epsilon, delta)-DP.

    Epsilon is for the noise and delta for the threshold, neither divided. Of the ``groups`` groups
    that a unit raises by one let j exist without it, and let psi >= 1 - delta be the chance that
    none of the others, which only the unit has, is released. With the unit an event has probability
    at most 1 - psi plus e^(j/b) times that without it. Without the unit it has A <= e^(j/b) B,
    where B psi is at most that with the unit: A exceeds e^epsilon times that by at most A (1 -
    psi). Checked by ``tests/privacy/calculator/test_calibrate.py``.
    """
    return _positive_counts(one_shot_laplace(epsilon, 1, sizes.groups), sizes, delta)


GAUSSIAN_POSITIVE_COUNTS = MechanismEntry(
    "gaussian_positive_counts",
    Family.HISTOGRAM,
    "unknown keys; groups whose noisy unit count exceeds a threshold",
    composed=lambda sizes, rho, delta: _positive_counts(
        gaussian(rho, 1, sizes.groups), sizes, delta
    ),
    gaussian=lambda sizes, rho, delta: _positive_counts(
        one_shot_gaussian(2 * rho, 1, sizes.groups), sizes, delta
    ),
)
LAPLACE_POSITIVE_COUNTS = MechanismEntry(
    "laplace_positive_counts",
    Family.HISTOGRAM,
    GAUSSIAN_POSITIVE_COUNTS.answers,
    composed=lambda sizes, rho, delta: _positive_counts(
        laplace(rho, 1, sizes.groups), sizes, delta
    ),
    once=_laplace_positive_counts_once,
    gaussian=lambda sizes, rho, delta: _positive_counts(
        laplace_for_gaussian_rho(rho, 1, sizes.groups), sizes, delta
    ),
)
GAUSSIAN_SPARSE_HISTOGRAM: MechanismEntry[SparseHistogram] = MechanismEntry(
    "gaussian_sparse_histogram",
    Family.HISTOGRAM,
    "gaussian-positive-counts by its (epsilon, delta) analyses",
    once=lambda sizes, epsilon, delta: joint_sparse_histogram(
        epsilon, delta, sizes.groups, sizes.floor, sizes.shared
    ),
)


def weights(sizes: Sizes) -> Weights:
    """Weigh units as much as ``groups`` groups, in as many as are kept of that."""
    return Weights(sizes.groups, kept_groups(sizes.groups))


def _weighted_for_gaussian_rho(sizes: Sizes, rho: float, delta: float) -> WeightedPositiveCounts:
    noise = one_shot_gaussian(2 * rho, WEIGHT_STEPS, sizes.groups).noise
    assert isinstance(noise, DiscreteGaussian)
    return WeightedPositiveCounts(noise, weights(sizes), delta, sizes.floor)


WEIGHTED_POSITIVE_COUNTS = MechanismEntry(
    "weighted_gaussian_positive_counts",
    Family.WEIGHTED,
    "gaussian-positive-counts; units keep more groups, each for less",
    composed=lambda sizes, rho, delta: weighted_positive_counts(
        rho, delta, weights(sizes), sizes.floor
    ),
    gaussian=lambda sizes, rho, delta: _weighted_for_gaussian_rho(sizes, rho, delta),
)
WEIGHTED_SPARSE_HISTOGRAM: MechanismEntry[WeightedSparseHistogram] = MechanismEntry(
    "weighted_gaussian_sparse_histogram",
    Family.WEIGHTED,
    "gaussian-sparse-histogram; units keep more groups, each for less",
    once=lambda sizes, epsilon, delta: weighted_sparse_histogram(
        epsilon, delta, weights(sizes), sizes.floor, sizes.shared
    ),
)

# -- the largest groups -----------------------------------------------------------------------


def _ranked(build: Callable[..., _T]) -> Callable[[Sizes, float, float], _T]:
    """Call ``build`` with what all mechanisms with a base take, for any number of groups."""
    return lambda sizes, budget, delta: build(
        budget,
        sensitivity=sizes.sensitivity,
        k=sizes.k,
        k_bar=sizes.k_bar,
        delta=delta,
        floor=sizes.floor,
    )


def _gaussian_top_k(sizes: Sizes, rho: float, delta: float) -> GaussianTopK:
    noise = gaussian(rho, sizes.sensitivity, moved_scores(sizes.groups, sizes.k_bar))
    return GaussianTopK(noise, sizes.groups, sizes.k_bar, delta, sizes.floor)


def _gumbel_top_k(sizes: Sizes, rho: float, delta: float) -> GumbelTopK | None:
    groups = None if sizes.groups == ANY_GROUPS else sizes.groups
    return _ranked(partial(gumbel_top_k, groups=groups))(sizes, rho, delta)


def _gaussian_top_k_for_gaussian_rho(sizes: Sizes, rho: float, delta: float) -> GaussianTopK:
    moved = moved_scores(sizes.groups, sizes.k_bar)
    noise = one_shot_gaussian(2 * rho, sizes.sensitivity, moved)
    return GaussianTopK(noise, sizes.groups, sizes.k_bar, delta, sizes.floor)


def _laplace_top_k(sizes: Sizes, epsilon: float, delta: float) -> LaplaceTopK:
    each = epsilon / moved_scores(sizes.groups, sizes.k_bar) * (1 - 1e-12)
    return LaplaceTopK(each, sizes.groups, sizes.k_bar, delta, sizes.floor)


GUMBEL_TOP_K = MechanismEntry(
    "gumbel_top_k",
    Family.TOP_K,
    "the names of the k largest groups in order, any number of groups per unit",
    composed=_gumbel_top_k,
    gaussian=lambda sizes, rho, delta: _gumbel_top_k(sizes, zcdp_of_picks(rho, sizes.k), delta),
)
GAUSSIAN_TOP_K = MechanismEntry(
    "gaussian_top_k",
    Family.TOP_K,
    "the largest groups with counts, a limited number of groups per unit",
    composed=_gaussian_top_k,
    gaussian=_gaussian_top_k_for_gaussian_rho,
)
CORRELATED_TOP_K = MechanismEntry(
    "correlated_top_k",
    Family.TOP_K,
    "the k largest groups with counts, any number of groups per unit",
    composed=_ranked(correlated_top_k),
    once=_ranked(one_shot_top_k),
)
GUMBEL_TOP_K_CHOSEN_K_BAR = MechanismEntry(
    "gumbel_top_k_chosen_k_bar",
    Family.TOP_K,
    "gumbel-top-k that spends one more pick on choosing k_bar",
    composed=_ranked(gumbel_top_k_chosen_k_bar),
    gaussian=lambda sizes, rho, delta: _ranked(gumbel_top_k_chosen_k_bar)(
        sizes, zcdp_of_picks(rho, sizes.k + 1), delta
    ),
)
LAPLACE_TOP_K: MechanismEntry[LaplaceTopK] = MechanismEntry(
    "laplace_top_k", Family.TOP_K, GAUSSIAN_TOP_K.answers, once=_laplace_top_k
)
FIXED_THRESHOLD: MechanismEntry[FixedThreshold] = MechanismEntry(
    "fixed_threshold",
    Family.TOP_K,
    "the names of groups far above the (k+1)-th, any number of groups per unit",
    once=lambda sizes, epsilon, delta: fixed_threshold(
        epsilon, delta=delta, k=sizes.k, floor=sizes.floor
    ),
)

# -- which keys exist -------------------------------------------------------------------------

_WEIGHED = {
    Weighting.POLICY: "weights by descent",
    Weighting.WEIGHTED: "equal shares",
    Weighting.COUNT: "unit counts",
}


def _set_union(weighting: Weighting, norm: int, noise: str) -> MechanismEntry[SetUnion]:
    def composed(sizes: Sizes, rho: float, delta: float) -> SetUnion:
        return set_union_for_rho(weighting, norm, rho, groups=sizes.groups, delta=delta)

    def once(sizes: Sizes, epsilon: float, delta: float) -> SetUnion:
        return set_union_one_shot(weighting, norm, epsilon, groups=sizes.groups, delta=delta)

    def for_gaussian_rho(sizes: Sizes, rho: float, delta: float) -> SetUnion | None:
        return set_union_for_gaussian_rho(weighting, norm, rho, groups=sizes.groups, delta=delta)

    return MechanismEntry(
        f"{weighting.value}_{noise}_set_union",
        Family.SET_UNION,
        f"which keys exist; {noise} noise on {_WEIGHED[weighting]}",
        composed,
        once,
        planned=weighting is not Weighting.COUNT,  # counting units is what positive counts do
        gaussian=for_gaussian_rho,
    )


SET_UNIONS = tuple(
    _set_union(weighting, norm, noise)
    for weighting in _WEIGHED
    for norm, noise in ((2, "gaussian"), (1, "laplace"))
)

# -- without a number of groups ---------------------------------------------------------------


def _cascade(goal: CascadeGoal) -> Callable[[Sizes, float, float], Cascade]:
    def build(sizes: Sizes, rho: float, delta: float) -> Cascade:
        most = None if sizes.groups == ANY_GROUPS else sizes.groups
        return Cascade(rho, delta, sizes.floor, most, goal)

    return build


CASCADES: Mapping[CascadeGoal, MechanismEntry[Cascade]] = {
    goal: MechanismEntry(
        Cascade.name,
        Family.CASCADE,
        "unknown keys, named in rounds after a private look at the keys of units",
        composed=_cascade(goal),
    )
    for goal in CascadeGoal
}
"""The same rounds, with the budget divided for what is asked."""

ENTRIES: tuple[MechanismEntry[Selection], ...] = (
    KNOWN_DOMAIN,
    KNOWN_DOMAIN_TOP_K,
    GAUSSIAN_POSITIVE_COUNTS,
    LAPLACE_POSITIVE_COUNTS,
    GAUSSIAN_SPARSE_HISTOGRAM,
    WEIGHTED_POSITIVE_COUNTS,
    WEIGHTED_SPARSE_HISTOGRAM,
    GUMBEL_TOP_K,
    GAUSSIAN_TOP_K,
    CORRELATED_TOP_K,
    GUMBEL_TOP_K_CHOSEN_K_BAR,
    LAPLACE_TOP_K,
    FIXED_THRESHOLD,
    *SET_UNIONS,
    CASCADES[CascadeGoal.COUNTS],
)


def names(family: Family | None = None, *, one_shot: bool = True) -> tuple[str, ...]:
    """List the names that a query can ask for, one-shot mechanisms only if ``one_shot``."""
    return tuple(
        entry.name
        for entry in ENTRIES
        if entry.planned
        and (family is None or entry.family is family)
        and (one_shot or not entry.one_shot)
    )
