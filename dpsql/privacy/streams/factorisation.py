"""Factorisations A = B C of running sums: what noise each step of a stream gets.

A stream of T steps has increments x, answers A x, and draws z, independent for each group. Released
is A x + B z = B (C x + z): post-processing of C x + z, whose privacy depends on the columns of C
alone, while the error depends on the rows of B. A is lower triangular with ones, or with a window
of ones.

Everything here is exact. The entries of C are multiples of ``2**-bits``, and so are the draws, so
that C x + z is a discrete Gaussian mechanism on a lattice. B is what belongs to *this* C and is
never rounded: another B would put the answers of neighbours on disjoint sets. Rounded is only B z,
to the nearest integer, which is post-processing as A x is an integer.

Sources: Rivera Cardoso & Rogers 2022 (trees of any base); Honaker 2015 (estimation from below);
Fichtenberger, Henzinger & Upadhyay 2023 and Henzinger, Upadhyay & Upadhyay 2023 (square root);
McMahan, Xu & Zhang 2024 (buffered linear Toeplitz); Denisov et al. 2022 (adaptive streams).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import ParameterError
from dpsql.privacy.streams.series import EnclosedSeries, divide_series

MAX_STEPS = 10_000
"""The longest stream: its noise must be computed in reasonable time."""
MAX_BITS = 40
"""The finest lattice, in binary places."""
DEFAULT_BITS = 24
"""The lattice of counts: coefficients and draws have this many binary places."""

_PRECISION = 128  # binary places of B's entries that decide almost every rounding
_UP = 1 + 1e-12  # exceeds the rounding of sums and roots below, relatively


@dataclass(frozen=True, slots=True)
class NoiseRow:
    """A row of B: the numbers of the ``draws`` that a step uses, and their weights as floats.

    No weight differs from the true one by more than ``2**-53`` of itself plus ``slack``.
    """

    draws: NDArray[np.int64]
    weights: NDArray[np.float64]
    slack: float


class Factorisation(ABC):
    """A = B C for a stream of ``steps`` steps, with all entries of C multiples of ``2**-bits``."""

    __slots__ = ()

    steps: int
    bits: int

    @property
    @abstractmethod
    def name(self) -> str:
        """Its standard name."""

    @property
    @abstractmethod
    def norm_squared(self) -> Fraction:
        """The largest squared l2 norm of a column of C, exactly: the price of one event."""

    @abstractmethod
    def row(self, step: int) -> NoiseRow:
        """Return the row of B for a step, 1 to ``steps``."""

    @abstractmethod
    def first_steps(self, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first step that uses each of some draws, by their numbers: shape (draws,).

        No step before it depends on them: the rows of C that they are added to say nothing of
        later increments, so they need not exist before.
        """

    @abstractmethod
    def rounded_noise(self, step: int, draws: Sequence[int]) -> int:
        """Round (B z)_step to the nearest integer, halves up, exactly.

        ``draws`` are those that :meth:`row` names, in units of ``2**-bits``.
        """

    @abstractmethod
    def row_norms(self) -> NDArray[np.float64]:
        """Bound the l2 norms of the rows of B from above, of shape (steps,).

        The noise's standard deviations, in units of that of a draw; tight to a relative 1e-11.
        """

    def relative_std(self) -> NDArray[np.float64]:
        """Compute the standard deviation of each step, of shape (steps,).

        In units of that of a single answer at the same rho.
        """
        return self.row_norms() * math.sqrt(self.norm_squared)

    def on_lattice(self, bits: int) -> Self:
        """Return the same factorisation with entries and draws in units of ``2**-bits``."""
        return replace(self, bits=bits)  # type: ignore[type-var]

    def worst(self) -> float:
        """Return the largest relative standard deviation."""
        return float(self.relative_std().max())

    def rms(self) -> float:
        """Compute the root of the mean relative variance."""
        return math.sqrt(float(np.mean(self.relative_std() ** 2)))


# -- Toeplitz ---------------------------------------------------------------------------------


class Toeplitz(Factorisation):
    """C with equal diagonals: draw j of a stream belongs to its step j."""

    __slots__ = ()

    @abstractmethod
    def ideal(self, precision: int) -> list[int]:
        """Compute the first column of C before it is rounded, in units of ``2**-precision``."""

    @property
    def span(self) -> int:
        """How many steps an answer sums up."""
        return self.steps

    def coefficients(self) -> tuple[int, ...]:
        """Return the first column of C, in units of ``2**-bits``; it begins with 1."""
        return _coefficients(self)

    @property
    def norm_squared(self) -> Fraction:
        return Fraction(sum(c * c for c in self.coefficients()), 1 << (2 * self.bits))

    def row(self, step: int) -> NoiseRow:
        weights, slack = _float_column(self)
        return NoiseRow(np.arange(step, dtype=np.int64), weights[step - 1 :: -1], slack)

    def first_steps(self, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the step of each draw, of shape (draws,): every step has one of its own."""
        return draws + 1

    def row_norms(self) -> NDArray[np.float64]:
        """Bound the l2 norms of the beginnings of B's first column, of shape (steps,)."""
        weights, slack = _float_column(self)
        norms: NDArray[np.float64] = np.sqrt(np.cumsum((np.abs(weights) + slack) ** 2)) * _UP
        return norms

    def rounded_noise(self, step: int, draws: Sequence[int]) -> int:
        series, precision = _column(self, self.steps, _PRECISION), _PRECISION
        size = sum(map(abs, draws))
        while True:
            weights = series.coefficients[:step]
            total = sum(w * z for w, z in zip(reversed(weights), draws, strict=True))
            scale = series.precision + self.bits
            low, high = (
                (total + error + (1 << (scale - 1))) >> scale
                for error in (-series.error * size, series.error * size)
            )
            if low == high:
                return low
            # Ends at the latest when the weights are exact, at bits*(step - 1) binary places.
            precision *= 2
            series = _column(self, step, precision)


@lru_cache(maxsize=64)
def _coefficients(shape: Toeplitz) -> tuple[int, ...]:
    drop = 64
    first, *others = shape.ideal(shape.bits + drop)
    assert first == 1 << (shape.bits + drop)
    return (1 << shape.bits, *((c + (1 << (drop - 1))) >> drop for c in others))


@lru_cache(maxsize=64)
def _column(shape: Toeplitz, length: int, precision: int) -> EnclosedSeries:
    """Enclose the first ``length`` entries of B's first column."""
    span = min(shape.span, length)
    workload = [1] * span + [0] * (length - span)
    return divide_series(workload, list(shape.coefficients()[:length]), shape.bits, precision)


@lru_cache(maxsize=64)
def _float_column(shape: Toeplitz) -> tuple[NDArray[np.float64], float]:
    series = _column(shape, shape.steps, _PRECISION)
    unit = 1 << series.precision
    weights = np.array([c / unit for c in series.coefficients])
    weights.flags.writeable = False
    return weights, math.nextafter((series.error + 1) / unit, 1.0)


def _square_root(length: int, precision: int) -> list[int]:
    """Compute the coefficients of (1 - x)**(-1/2), each below by at most ``length`` units."""
    found = [1 << precision]
    for i in range(1, length):
        found.append(found[-1] * (2 * i - 1) // (2 * i))
    return found


@dataclass(frozen=True, slots=True)
class SquareRoot(Toeplitz):
    """C = A**(1/2): within a fifth of the best possible error for up to 10,000 steps.

    Fichtenberger, Henzinger & Upadhyay 2023. Raises ParameterError for steps or bits out of range.
    """

    name: ClassVar[str] = "toeplitz"

    steps: int
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        _check_stream(self.steps, self.bits)

    def ideal(self, precision: int) -> list[int]:
        return _square_root(self.steps, precision)


@dataclass(frozen=True, slots=True)
class SlidingWindow(Toeplitz):
    """The square root for answers that sum up the last ``width`` steps only.

    C(x)**2 = 1 + x + ... + x**(width - 1). Raises ParameterError for parameters out of range.
    """

    name: ClassVar[str] = "window"

    steps: int
    width: int
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        _check_stream(self.steps, self.bits)
        if not 1 <= self.width <= self.steps:
            raise ParameterError(
                "the window must be at least 1 step and at most all of them", code="bad_parameter"
            )

    @property
    def span(self) -> int:
        return self.width

    def ideal(self, precision: int) -> list[int]:
        """Multiply (1 - x**width)**(1/2) by (1 - x)**(-1/2), whose series is moved and weighed."""
        root = _square_root(self.steps, precision)
        total = root[:]
        weight, numerator = 1 << precision, -1
        for block in range(1, -(-self.steps // self.width)):
            weight = weight * numerator // (2 * block)
            numerator += 2
            moved = block * self.width
            for i in range(moved, self.steps):
                total[i] += weight * root[i - moved] >> precision
        return total


@dataclass(frozen=True, slots=True)
class BufferedToeplitz(Toeplitz):
    """C_i = sum over buffers of weight * decay**(i - 1): as good, with a state of a few numbers.

    ``decays`` and ``weights`` are taken as exact. They belong to the stream: an optimiser may find
    others another time (``buffers.optimal_buffers``). McMahan, Xu & Zhang 2024. Raises
    ParameterError for parameters out of range.
    """

    steps: int
    decays: tuple[float, ...]
    weights: tuple[float, ...]
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        _check_stream(self.steps, self.bits)
        if not (
            1 <= len(self.decays) == len(self.weights) <= 8
            and all(0 <= d < 1 for d in self.decays)
            and all(0 <= w <= 1 for w in self.weights)
        ):
            raise ParameterError(
                "decays must lie in [0, 1) and weights in [0, 1], one to eight of each",
                code="bad_parameter",
            )

    @property
    def name(self) -> str:
        return f"blt_{len(self.decays)}"

    def ideal(self, precision: int) -> list[int]:
        decays = [int(Fraction(d) * (1 << precision)) for d in self.decays]
        powers = [int(Fraction(w) * (1 << precision)) for w in self.weights]
        found = [1 << precision]
        while len(found) < self.steps:
            found.append(sum(powers))
            powers = [
                power * decay >> precision for power, decay in zip(powers, decays, strict=True)
            ]
        return found


# -- trees ------------------------------------------------------------------------------------


class TreeFactorisation(Factorisation):
    """C sums up nodes of a tree: draw ``level*steps + i`` belongs to node i of a level."""

    __slots__ = ()

    @property
    @abstractmethod
    def degree(self) -> int:
        """How many children a node has."""

    @property
    def levels(self) -> int:
        """How many nodes a step is in, at most: floor(log_degree(steps)) + 1."""
        found, width = 1, self.degree
        while width <= self.steps:
            found, width = found + 1, width * self.degree
        return found

    @property
    def norm_squared(self) -> Fraction:
        return Fraction(self.levels)

    def nodes(self, step: int) -> list[tuple[int, int]]:
        """Find the (level, node) whose sum is the count at a step: by the digits of the step."""
        found, start = [], 0
        for level in reversed(range(self.levels)):
            width = self.degree**level
            while start + width <= step:
                found.append((level, start // width))
                start += width
        return found

    @abstractmethod
    def node_variance(self, level: int) -> float:
        """Return the variance of a node's estimate, in units of that of a draw."""

    @abstractmethod
    def exact_row(self, step: int) -> list[tuple[int, Fraction]]:
        """Return the numbers of the draws that a step uses, and their weights."""

    def row(self, step: int) -> NoiseRow:
        return _tree_row(self, step)

    def first_steps(self, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last step of each node, of shape (draws,): its sum is complete then."""
        levels, nodes = np.divmod(draws, self.steps)
        found: NDArray[np.int64] = (nodes + 1) * self.degree**levels
        return found

    def rounded_noise(self, step: int, draws: Sequence[int]) -> int:
        weights = [weight for _, weight in self.exact_row(step)]
        total = sum((w * z for w, z in zip(weights, draws, strict=True)), Fraction(0))
        return math.floor(total / (1 << self.bits) + Fraction(1, 2))

    def row_norms(self) -> NDArray[np.float64]:
        """Bound the l2 norms of the rows by the variances of their nodes, of shape (steps,)."""
        return _tree_norms(self)


@lru_cache(maxsize=256)
def _tree_row(tree: TreeFactorisation, step: int) -> NoiseRow:
    row = tree.exact_row(step)
    draws = np.array([draw for draw, _ in row], dtype=np.int64)
    return NoiseRow(draws, np.array([float(weight) for _, weight in row]), 0.0)


@lru_cache(maxsize=256)
def _tree_norms(tree: TreeFactorisation) -> NDArray[np.float64]:
    steps = np.arange(1, tree.steps + 1)
    squares = np.zeros(tree.steps)
    for level in range(tree.levels):
        squares += steps // tree.degree**level % tree.degree * tree.node_variance(level)
    norms: NDArray[np.float64] = np.sqrt(squares) * _UP
    norms.flags.writeable = False
    return norms


@dataclass(frozen=True, slots=True)
class BaseTree(TreeFactorisation):
    """A tree of any base: a count is the sum of a few noisy nodes, at most log(steps) draws.

    BaseMech of Rivera Cardoso & Rogers 2022, Algorithm 1. Raises ParameterError for parameters out
    of range.
    """

    name: ClassVar[str] = "tree"

    steps: int
    base: int
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        _check_stream(self.steps, self.bits)
        if not 2 <= self.base <= MAX_STEPS:
            raise ParameterError("the base of a tree must be at least 2", code="bad_parameter")

    @property
    def degree(self) -> int:
        return self.base

    def node_variance(self, level: int) -> float:
        return 1.0

    def exact_row(self, step: int) -> list[tuple[int, Fraction]]:
        return [(level * self.steps + node, Fraction(1)) for level, node in self.nodes(step)]


@dataclass(frozen=True, slots=True)
class TreeFromBelow(TreeFactorisation):
    """A binary tree whose nodes are estimated from all draws below them.

    In a subtree of height h the draws of height g weigh 2**g/(2**(h+1) - 1): the weighted mean of a
    node's own draw and of its children's estimates, by their variances (Honaker 2015, Section 3).
    Raises ParameterError for parameters out of range.
    """

    degree: ClassVar[int] = 2
    name: ClassVar[str] = "tree_from_below"

    steps: int
    bits: int = DEFAULT_BITS

    def __post_init__(self) -> None:
        _check_stream(self.steps, self.bits)

    def node_variance(self, level: int) -> float:
        return 2.0**level / (2.0 ** (level + 1) - 1)

    def exact_row(self, step: int) -> list[tuple[int, Fraction]]:
        return [
            (level * self.steps + below, Fraction(2**level, 2 ** (height + 1) - 1))
            for height, node in self.nodes(step)
            for level in range(height + 1)
            for below in range(node << (height - level), (node + 1) << (height - level))
        ]


@lru_cache(maxsize=256)
def best_tree(steps: int, bits: int = DEFAULT_BITS) -> BaseTree:
    """Choose the tree whose base has the least worst error, of all bases up to 64.

    A larger one is never better within MAX_STEPS. Raises ParameterError for parameters out of
    range.
    """
    bases = range(2, max(2, min(steps, 64)) + 1)
    return min((BaseTree(steps, base, bits) for base in bases), key=BaseTree.worst)


def _check_stream(steps: int, bits: int) -> None:
    if not (type(steps) is int and 1 <= steps <= MAX_STEPS):
        raise ParameterError(
            f"a stream must have a whole number of steps from 1 to {MAX_STEPS:,}",
            code="bad_parameter",
        )
    if not (type(bits) is int and 0 <= bits <= MAX_BITS):
        raise ParameterError(
            f"a lattice must have 0 to {MAX_BITS} binary places", code="bad_parameter"
        )
