"""Factorisations: A = B C for the C that is used, errors as published, noise rounded exactly."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.privacy.streams.buffers import optimal_buffers
from dpsql.privacy.streams.factorisation import (
    MAX_STEPS,
    BaseTree,
    BufferedToeplitz,
    Factorisation,
    SlidingWindow,
    SquareRoot,
    Toeplitz,
    TreeFactorisation,
    TreeFromBelow,
    best_tree,
)
from dpsql.privacy.streams.series import divide_series, multiply_series

# Worst and rms error by T: the tree of the best base, the one from below, the square root; then the
# worst of two, three and four buffers. In units of a single answer's at the same rho.
TABLE = {
    30: ((4, 4.243, 3.240), (3.722, 2.867), (2.1463, 1.9918), (2.1468, 2.1463, 2.1463)),
    365: ((5, 7.211, 5.254), (6.574, 4.689), (2.9441, 2.7815), (2.9684, 2.9454, 2.9441)),
    1000: ((4, 8.367, 6.084), (7.282, 5.357), (3.2650, 3.1022), (3.3213, 3.2699, 3.2654)),
    10000: ((5, 11.489, 8.124), (10.112, 7.131), (3.9980, 3.8356), (4.2158, 4.0333, 4.0031)),
}
SMALL: tuple[Factorisation, ...] = (
    SquareRoot(12, 8),
    SlidingWindow(12, 3, 8),
    SlidingWindow(12, 12, 8),
    BufferedToeplitz(12, (0.9, 0.3), (0.1, 0.3), 8),
    BaseTree(12, 2, 8),
    BaseTree(12, 3, 8),
    TreeFromBelow(12, 8),
    SquareRoot(1, 8),
)


def columns_of_c(factorisation: Factorisation) -> list[dict[int, Fraction]]:
    """C by columns, each by the number of the draw that belongs to a row of it."""
    steps, unit = factorisation.steps, 1 << factorisation.bits
    if isinstance(factorisation, Toeplitz):
        c = factorisation.coefficients()
        return [{t: Fraction(c[t - s], unit) for t in range(s, steps)} for s in range(steps)]
    assert isinstance(factorisation, TreeFactorisation)
    levels = [(level, factorisation.degree**level) for level in range(factorisation.levels)]
    return [{level * steps + s // w: Fraction(1) for level, w in levels} for s in range(steps)]


def exact_row(factorisation: Factorisation, step: int, bits: int = 400) -> dict[int, Fraction]:
    """A row of B, to ``bits`` binary places, through nothing but the rounding of the noise."""
    numbers = factorisation.row(step).draws.tolist()
    found = {}
    for place, number in enumerate(numbers):
        draws = [0] * len(numbers)
        draws[place] = 1 << (bits + factorisation.bits)
        found[number] = Fraction(factorisation.rounded_noise(step, draws), 1 << bits)
    return found


@pytest.mark.parametrize("factorisation", SMALL, ids=repr)
def test_b_times_c_is_the_running_sum(factorisation: Factorisation) -> None:
    width = factorisation.span if isinstance(factorisation, Toeplitz) else factorisation.steps
    columns = columns_of_c(factorisation)
    for step in range(1, factorisation.steps + 1):
        row = exact_row(factorisation, step)
        for s, column in enumerate(columns):
            products = (weight * column.get(number, 0) for number, weight in row.items())
            entry = sum(products, Fraction(0))
            wanted = 1 if step - width <= s < step else 0
            assert abs(entry - wanted) < Fraction(1, 2**300)


@pytest.mark.parametrize("factorisation", SMALL, ids=repr)
def test_norms_are_those_of_the_exact_matrices(factorisation: Factorisation) -> None:
    columns = columns_of_c(factorisation)
    norms = [sum(entry**2 for entry in column.values()) for column in columns]
    assert factorisation.norm_squared == max(norms)
    for step, bound in enumerate(factorisation.row_norms(), start=1):
        exact = sum(weight**2 for weight in exact_row(factorisation, step).values())
        assert exact <= Fraction(float(bound)) ** 2 * (1 + Fraction(1, 2**300))
        assert bound == pytest.approx(math.sqrt(exact), rel=1e-11)


@pytest.mark.parametrize("steps", [30, 365, 1000, pytest.param(10000, marks=pytest.mark.slow)])
def test_errors_are_those_of_the_table(steps: int) -> None:
    (base, *tree), below, root, buffered = TABLE[steps]
    found = best_tree(steps)
    assert found.base == base
    for factorisation, wanted in (
        (found, tree),
        (TreeFromBelow(steps), below),
        (SquareRoot(steps), root),
    ):
        assert [factorisation.worst(), factorisation.rms()] == pytest.approx(wanted, rel=1e-3)
    for buffers, worst in zip((2, 3, 4), buffered, strict=True):
        assert optimal_buffers(steps, buffers).worst() == pytest.approx(worst, rel=1e-3)


@pytest.mark.parametrize(("width", "worst"), [(7, 1.778), (30, 2.368), (90, 2.810)])
def test_a_window_costs_by_its_width_alone(width: int, worst: float) -> None:
    assert SlidingWindow(365, width).worst() == pytest.approx(worst, rel=1e-3)
    assert SlidingWindow(730, width).worst() == pytest.approx(worst, rel=1e-2)


def test_a_tree_of_one_step_and_a_window_of_one_cost_a_single_answer() -> None:
    for factorisation in (best_tree(1), SquareRoot(1), optimal_buffers(1, 2), SlidingWindow(50, 1)):
        assert factorisation.worst() == pytest.approx(1.0)


def hidden_shifts(b: list[list[Fraction]], step: int) -> list[Fraction]:
    """By how much draws must move to hide one event at ``step``: the solution of B m = A u."""
    found: list[Fraction] = []
    for t, row in enumerate(b):
        moved = sum((row[j] * m for j, m in enumerate(found)), Fraction(0))
        found.append((int(t >= step) - moved) / row[t])
    return found


def test_only_with_c_rounded_an_event_moves_draws_along_their_lattice() -> None:
    factorisation = SquareRoot(8, 6)
    rows = [exact_row(factorisation, t) for t in range(1, 9)]
    exact = [[row.get(j, Fraction(0)) for j in range(8)] for row in rows]
    lattice = Fraction(1, 1 << factorisation.bits)
    for step in range(8):
        for shift in hidden_shifts(exact, step):
            assert abs(shift / lattice - round(shift / lattice)) < Fraction(1, 2**200)
    # The broken twin rounds B instead: no draws of the neighbour give the same answers.
    rounded = [[round(w / lattice) * lattice for w in row] for row in exact]
    shifts = hidden_shifts(rounded, 0)
    assert any(abs(s / lattice - round(s / lattice)) > Fraction(1, 1000) for s in shifts)


def test_a_half_is_rounded_up_however_close_floats_are() -> None:
    root = SquareRoot(20)
    half = 1 << (root.bits - 1)
    assert [root.rounded_noise(1, [d]) for d in (half, half - 1, -half, -half - 1)] == [1, 0, 0, -1]
    below = TreeFromBelow(20)
    third = 3 << (below.bits - 1)  # with weights of 1/3 and 2/3
    assert [below.rounded_noise(2, [d, 0, 0]) for d in (third, third - 1)] == [1, 0]
    # In the second step of a root the draws weigh 1/2 and 1.
    for nudge, wanted in ((0, 1), (-1, 0)):
        assert root.rounded_noise(2, [2 * half, nudge]) == wanted


@pytest.mark.parametrize("length", [1, 2, 3, 17, 40])
def test_quotients_lie_within_their_error(length: int) -> None:
    draw = random.Random(length)
    for _ in range(20):
        c = [1 << 10] + [draw.randrange(-(1 << 9), 1 << 9) for _ in range(length - 1)]
        a = [draw.randrange(-3, 4) for _ in range(length)]
        exact = divide_series(a, c, 10, 10 * length)
        assert exact.error == 0
        assert multiply_series(c, list(exact.coefficients), length) == [
            x << (10 + 10 * length) for x in a
        ]
        rough = divide_series(a, c, 10, 64)
        for x, y in zip(rough.coefficients, exact.coefficients, strict=True):
            true = Fraction(y, 1 << exact.precision)
            assert abs(Fraction(x, 1 << rough.precision) - true) * (1 << rough.precision) <= (
                rough.error
            )
        assert rough.error < 2**40


def test_products_of_series_are_exact() -> None:
    draw = random.Random(1)
    left = [draw.randrange(-(10**30), 10**30) for _ in range(30)]
    right = [draw.randrange(-(10**20), 10**20) for _ in range(30)]
    wanted = [sum(left[j] * right[i - j] for j in range(i + 1)) for i in range(30)]
    assert multiply_series(left, right, 30) == wanted


def test_coefficients_are_the_nearest_on_the_lattice() -> None:
    ideal = np.cumprod([1.0] + [(2 * i - 1) / (2 * i) for i in range(1, 365)])
    got = np.array(SquareRoot(365).coefficients()) / 2.0**24
    assert np.abs(got - ideal).max() <= 2.0**-25 * (1 + 1e-6)
    wide = np.array(SlidingWindow(40, 7).coefficients()) / 2.0**24
    square = np.convolve(wide, wide)[:40]
    assert np.abs(square - (np.arange(40) < 7)).max() < 1e-5


@pytest.mark.parametrize(
    "build",
    [
        lambda: SquareRoot(0),
        lambda: SquareRoot(MAX_STEPS + 1),
        lambda: SquareRoot(10, 41),
        lambda: SquareRoot(True),
        lambda: SlidingWindow(10, 11),
        lambda: SlidingWindow(10, 0),
        lambda: BaseTree(10, 1),
        lambda: best_tree(0),
        lambda: optimal_buffers(10, 5),
        lambda: BufferedToeplitz(10, (1.0,), (0.1,)),
        lambda: BufferedToeplitz(10, (0.5,), (math.nan,)),
        lambda: BufferedToeplitz(10, (), ()),
    ],
)
def test_parameters_out_of_range_are_refused(build: object) -> None:
    with pytest.raises(ParameterError):
        build()  # type: ignore[operator]
