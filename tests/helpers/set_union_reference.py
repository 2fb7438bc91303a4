"""Gopi et al. 2020, Algorithms 1 to 6, line by line: slow, in 50-digit decimals, no lattice.

Corrected where the print cannot be meant: Algorithm 3 loops to |G| (not |B|) and leaves its outer
loop after spending the last of the budget; Algorithm 6 takes its cutoff from the Gaussian
threshold (not the Laplace one). The continuous noise is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal, localcontext

Histogram = dict[Hashable, Decimal]
Update = Callable[[Histogram, Sequence[Hashable]], None]
DIGITS = 50


def algorithm_1(
    histogram: Mapping[Hashable, Decimal], threshold: Decimal, noise: Callable[[], Decimal]
) -> set[Hashable]:
    """High-level meta-algorithm: noise on each weight, names above the threshold."""
    released = set()
    for u, weight in histogram.items():
        if weight + noise() > threshold:
            released.add(u)
    return released


def algorithm_2(users: Iterable[Sequence[Hashable]], update: Update) -> Histogram:
    """Build the weighted histogram. Users come in hash order, with at most Δ0 items each."""
    histogram: Histogram = {}
    with localcontext() as context:
        context.prec = DIGITS
        for items in users:
            for u in items:
                histogram.setdefault(u, Decimal(0))
            update(histogram, items)
    return histogram


def algorithm_3(cutoff: Decimal) -> Update:
    """l1-descent."""

    def update(H: Histogram, W: Sequence[Hashable]) -> None:
        G = {}
        for u in W:
            if H[u] < cutoff:
                G[u] = cutoff - H[u]
        budget = Decimal(1)
        K = len(G)
        order = sorted(G, key=lambda u: G[u])
        for j in range(len(order)):
            gap = G[order[j]]
            cost = gap * K
            if cost <= budget:
                for u in order[j:]:
                    H[u] += gap
                    G[u] -= gap
                budget -= cost
                K -= 1
            else:
                for u in order[j:]:
                    H[u] += budget / K
                break

    return update


def algorithm_4(
    users: Iterable[Sequence[Hashable]],
    threshold: Decimal,
    scale: Decimal,
    alpha: Decimal,
    noise: Callable[[], Decimal],
) -> set[Hashable]:
    """Policy Laplace, given ρ_Lap and λ."""
    histogram = algorithm_2(users, algorithm_3(threshold + alpha * scale))
    return algorithm_1(histogram, threshold, noise)


def algorithm_5(cutoff: Decimal) -> Update:
    """l2-descent."""

    def update(H: Histogram, W: Sequence[Hashable]) -> None:
        G = {}
        for u in W:
            G[u] = cutoff - H[u]
        Z = sum((g * g for g in G.values()), Decimal(0)).sqrt()
        if Z <= 1:
            for u in W:
                H[u] = cutoff
        else:
            for u in W:
                H[u] += G[u] / Z

    return update


def algorithm_6(
    users: Iterable[Sequence[Hashable]],
    threshold: Decimal,
    sigma: Decimal,
    alpha: Decimal,
    noise: Callable[[], Decimal],
) -> set[Hashable]:
    """Policy Gaussian, given ρ_Gauss and σ."""
    histogram = algorithm_2(users, algorithm_5(threshold + alpha * sigma))
    return algorithm_1(histogram, threshold, noise)


def weighted_laplace(H: Histogram, W: Sequence[Hashable]) -> None:
    """Algorithm 7."""
    for u in W:
        H[u] += Decimal(1) / len(W)


def weighted_gaussian(H: Histogram, W: Sequence[Hashable]) -> None:
    """Algorithm 8."""
    for u in W:
        H[u] += (Decimal(1) / len(W)).sqrt()


def count(H: Histogram, W: Sequence[Hashable]) -> None:
    """Section 1.1, before weighting."""
    for u in W:
        H[u] += 1


def greedy(cutoff: Decimal) -> Update:
    """Algorithm 9, which is not contractive: the negative control."""

    def update(H: Histogram, W: Sequence[Hashable]) -> None:
        G = {u: cutoff - H[u] for u in W if H[u] < cutoff}
        budget = Decimal(1)
        for u in sorted(G, key=lambda u: G[u]):
            step = min(G[u], budget)
            H[u] += step
            budget -= step

    return update
