"""The registry of mechanisms that select groups: one entry each.

The planner, the calculator, completion and the tests of the documentation read the entries, so that
a mechanism is built in one way wherever it is compared, calibrated or drawn from. A builder takes
public sizes and a price. It raises ``ParameterError`` for parameters out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar

from dpsql.errors import ParameterError
from dpsql.privacy.accounting.zcdp import Composition, PrivacyLoss
from dpsql.privacy.mechanisms.additive import gaussian, laplace
from dpsql.privacy.mechanisms.cascade import Cascade, CascadeGoal
from dpsql.privacy.mechanisms.choose_k_bar import GumbelTopKChosenKBar, gumbel_top_k_chosen_k_bar
from dpsql.privacy.mechanisms.correlated_topk import CorrelatedTopK, correlated_top_k
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion, greedy_set_union
from dpsql.privacy.mechanisms.histogram import KnownDomain, PositiveCounts, positive_counts
from dpsql.privacy.mechanisms.known_topk import KnownDomainTopK, known_domain_top_k
from dpsql.privacy.mechanisms.price import priced
from dpsql.privacy.mechanisms.selection import Histogram, JointHistogram, Selection
from dpsql.privacy.mechanisms.set_union import SetUnion, Weighting, set_union_for
from dpsql.privacy.mechanisms.sparse_histogram import SparseHistogram, joint_sparse_histogram
from dpsql.privacy.mechanisms.topk import GaussianTopK, GumbelTopK, gaussian_top_k, gumbel_top_k
from dpsql.privacy.mechanisms.topk_laplace import (
    FixedThreshold,
    LaplaceTopK,
    fixed_threshold,
    laplace_top_k,
)
from dpsql.privacy.mechanisms.weighted_histogram import (
    WeightedPositiveCounts,
    WeightedSparseHistogram,
    Weights,
    kept_groups,
    weighted_positive_counts,
    weighted_sparse_histogram,
)

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


_Z, _G, _B = Composition.ZCDP, Composition.GDP, Composition.BASIC
_WORDS = {_Z: "zCDP", _G: "Gaussian DP", _B: "(epsilon, delta)"}


@dataclass(frozen=True, slots=True)
class MechanismEntry(Generic[_S]):
    """A mechanism that selects groups: its name, class, purpose, and how it is built for a price.

    ``build`` takes a price in one of the compositions that it is ``priced_in``: one without zCDP is
    *one-shot*. Of basic composition a price is the (epsilon, delta) of a single publication.
    ``build`` may find no noise in range and return None. ``planned``: queries may be answered by
    it.
    """

    name: str
    family: Family
    answers: str
    kind: type[_S]
    build: Callable[[Sizes, PrivacyLoss], _S | None]
    priced_in: frozenset[Composition]
    planned: bool = True

    @property
    def one_shot(self) -> bool:
        """True if it states (epsilon, delta) and no zCDP."""
        return Composition.ZCDP not in self.priced_in

    def unpriced(self, composition: Composition) -> str:
        """Say that it cannot be built for a price in a composition."""
        return f"its cost in {_WORDS[composition]} is not proved"

    def within(self, sizes: Sizes, price: PrivacyLoss) -> _S | None:
        """Build the mechanism for at most ``price``; None where its analysis has no noise.

        Raises ``ParameterError`` where it has no price of that kind.
        """
        if price.composition not in self.priced_in:
            raise ParameterError(
                self.unpriced(price.composition),
                code="bad_parameter",
                hint="Accounts of another composition can ask for it.",
            )
        return self.build(sizes, price)

    def built(self, sizes: Sizes, price: PrivacyLoss) -> _S:
        """Build the mechanism, for a kind of price at which it always has noise."""
        found = self.within(sizes, price)
        assert found is not None
        return found


# -- declared keys ----------------------------------------------------------------------------

KNOWN_DOMAIN = MechanismEntry(
    "known_domain",
    Family.KNOWN_DOMAIN,
    "every declared group",
    KnownDomain,
    lambda sizes, price: KnownDomain(sizes.domain),
    frozenset({_Z, _G, _B}),
)
KNOWN_DOMAIN_TOP_K = MechanismEntry(
    "known_domain_top_k",
    Family.KNOWN_DOMAIN,
    "the names of the k largest declared groups in order",
    KnownDomainTopK,
    lambda sizes, price: known_domain_top_k(
        price, sensitivity=sizes.sensitivity, k=sizes.k, size=sizes.domain
    ),
    frozenset({_Z, _G}),
)

# -- unknown keys -----------------------------------------------------------------------------

GAUSSIAN_POSITIVE_COUNTS = MechanismEntry(
    "gaussian_positive_counts",
    Family.HISTOGRAM,
    "unknown keys; groups whose noisy unit count exceeds a threshold",
    PositiveCounts,
    lambda sizes, price: positive_counts(gaussian, price, sizes.groups, sizes.floor),
    frozenset({_Z, _G}),
)
LAPLACE_POSITIVE_COUNTS = MechanismEntry(
    "laplace_positive_counts",
    Family.HISTOGRAM,
    GAUSSIAN_POSITIVE_COUNTS.answers,
    PositiveCounts,
    lambda sizes, price: positive_counts(laplace, price, sizes.groups, sizes.floor),
    frozenset({_Z, _G, _B}),
)
GAUSSIAN_SPARSE_HISTOGRAM: MechanismEntry[SparseHistogram] = MechanismEntry(
    "gaussian_sparse_histogram",
    Family.HISTOGRAM,
    "gaussian-positive-counts by its (epsilon, delta) analyses",
    SparseHistogram,
    lambda sizes, price: joint_sparse_histogram(
        price.epsilon, price.delta, sizes.groups, sizes.floor, sizes.shared
    ),
    frozenset({_B}),
)


def weights(sizes: Sizes) -> Weights:
    """Weigh units as much as ``groups`` groups, in as many as are kept of that."""
    return Weights(sizes.groups, kept_groups(sizes.groups))


WEIGHTED_POSITIVE_COUNTS = MechanismEntry(
    "weighted_gaussian_positive_counts",
    Family.WEIGHTED,
    "gaussian-positive-counts; units keep more groups, each for less",
    WeightedPositiveCounts,
    lambda sizes, price: weighted_positive_counts(price, weights(sizes), sizes.floor),
    frozenset({_Z, _G}),
)
WEIGHTED_SPARSE_HISTOGRAM: MechanismEntry[WeightedSparseHistogram] = MechanismEntry(
    "weighted_gaussian_sparse_histogram",
    Family.WEIGHTED,
    "gaussian-sparse-histogram; units keep more groups, each for less",
    WeightedSparseHistogram,
    lambda sizes, price: weighted_sparse_histogram(
        price.epsilon, price.delta, weights(sizes), sizes.floor, sizes.shared
    ),
    frozenset({_B}),
)

# -- the largest groups -----------------------------------------------------------------------


def _ranked(build: Callable[..., _T]) -> Callable[[Sizes, PrivacyLoss], _T]:
    """Call ``build`` with what all mechanisms with a base take, for any number of groups."""
    return lambda sizes, price: build(
        price, sensitivity=sizes.sensitivity, k=sizes.k, k_bar=sizes.k_bar, floor=sizes.floor
    )


def _gumbel_top_k(sizes: Sizes, price: PrivacyLoss) -> GumbelTopK | None:
    groups = None if sizes.groups == ANY_GROUPS else sizes.groups
    return _ranked(partial(gumbel_top_k, groups=groups))(sizes, price)


GUMBEL_TOP_K = MechanismEntry(
    "gumbel_top_k",
    Family.TOP_K,
    "the names of the k largest groups in order, any number of groups per unit",
    GumbelTopK,
    _gumbel_top_k,
    frozenset({_Z, _G}),
)
GAUSSIAN_TOP_K = MechanismEntry(
    "gaussian_top_k",
    Family.TOP_K,
    "the largest groups with counts, a limited number of groups per unit",
    GaussianTopK,
    lambda sizes, price: gaussian_top_k(
        price,
        sensitivity=sizes.sensitivity,
        groups=sizes.groups,
        k_bar=sizes.k_bar,
        floor=sizes.floor,
    ),
    frozenset({_Z, _G}),
)
CORRELATED_TOP_K = MechanismEntry(
    "correlated_top_k",
    Family.TOP_K,
    "the k largest groups with counts, any number of groups per unit",
    CorrelatedTopK,
    _ranked(correlated_top_k),
    frozenset({_Z, _G, _B}),
)
GUMBEL_TOP_K_CHOSEN_K_BAR = MechanismEntry(
    "gumbel_top_k_chosen_k_bar",
    Family.TOP_K,
    "gumbel-top-k that spends one more pick on choosing k_bar",
    GumbelTopKChosenKBar,
    _ranked(gumbel_top_k_chosen_k_bar),
    frozenset({_Z, _G}),
)
LAPLACE_TOP_K: MechanismEntry[LaplaceTopK] = MechanismEntry(
    "laplace_top_k",
    Family.TOP_K,
    GAUSSIAN_TOP_K.answers,
    LaplaceTopK,
    lambda sizes, price: laplace_top_k(
        price, groups=sizes.groups, k_bar=sizes.k_bar, floor=sizes.floor
    ),
    frozenset({_B}),
)
FIXED_THRESHOLD: MechanismEntry[FixedThreshold] = MechanismEntry(
    "fixed_threshold",
    Family.TOP_K,
    "the names of groups far above the (k+1)-th, any number of groups per unit",
    FixedThreshold,
    lambda sizes, price: fixed_threshold(
        price.epsilon, delta=price.delta, k=sizes.k, floor=sizes.floor
    ),
    frozenset({_B}),
)

# -- which keys exist -------------------------------------------------------------------------

_WEIGHED = {
    Weighting.POLICY: "weights by descent",
    Weighting.WEIGHTED: "equal shares",
    Weighting.COUNT: "unit counts",
}


def _set_union(weighting: Weighting, norm: int, noise: str) -> MechanismEntry[SetUnion]:
    return MechanismEntry(
        f"{weighting.value}_{noise}_set_union",
        Family.SET_UNION,
        f"which keys exist; {noise} noise on {_WEIGHED[weighting]}",
        SetUnion,
        lambda sizes, price: set_union_for(weighting, norm, price, groups=sizes.groups),
        frozenset({_Z, _G, _B}),
        planned=weighting is not Weighting.COUNT,  # counting units is what positive counts do
    )


SET_UNIONS = tuple(
    _set_union(weighting, norm, noise)
    for weighting in _WEIGHED
    for norm, noise in ((2, "gaussian"), (1, "laplace"))
)

GREEDY_SET_UNION: MechanismEntry[GreedySetUnion] = MechanismEntry(
    GreedySetUnion.name,
    Family.SET_UNION,
    "which keys exist; one vote of each unit, and the best chances that votes allow",
    GreedySetUnion,
    lambda sizes, price: greedy_set_union(price, sizes.floor),
    frozenset({_Z, _G, _B}),
)

# -- without a number of groups ---------------------------------------------------------------


def _cascade(goal: CascadeGoal) -> Callable[[Sizes, PrivacyLoss], Cascade]:
    def build(sizes: Sizes, price: PrivacyLoss) -> Cascade:
        most = None if sizes.groups == ANY_GROUPS else sizes.groups
        return priced(Cascade(price, sizes.floor, most, goal), price)

    return build


CASCADES: Mapping[CascadeGoal, MechanismEntry[Cascade]] = {
    goal: MechanismEntry(
        Cascade.name,
        Family.CASCADE,
        "unknown keys, named in rounds after a private pilot histogram of the keys of units",
        Cascade,
        _cascade(goal),
        frozenset({_Z, _G}),
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
    GREEDY_SET_UNION,
    CASCADES[CascadeGoal.COUNTS],
)


HISTOGRAMS: tuple[MechanismEntry[Histogram], ...] = (
    GAUSSIAN_POSITIVE_COUNTS,
    LAPLACE_POSITIVE_COUNTS,
    WEIGHTED_POSITIVE_COUNTS,
)
"""Those of every group that is large enough, for each measure's part of a price."""
JOINT_HISTOGRAMS: tuple[MechanismEntry[JointHistogram], ...] = (
    GAUSSIAN_SPARSE_HISTOGRAM,
    WEIGHTED_SPARSE_HISTOGRAM,
)
"""Those that leave further measures their part of one publication."""


def names(family: Family | None = None, *, one_shot: bool = True) -> tuple[str, ...]:
    """List the names that a query can ask for, one-shot mechanisms only if ``one_shot``."""
    return tuple(
        entry.name
        for entry in ENTRIES
        if entry.planned
        and (family is None or entry.family is family)
        and (one_shot or not entry.one_shot)
    )
