"""Counts of named groups for units that add at several steps: their cost, and whose it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.step_keys import step_keys
from numpy.typing import NDArray

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.streams.encoding import encode_group
from dpsql.privacy.streams.factorisation import SquareRoot
from dpsql.privacy.streams.mechanism import StreamGroups
from dpsql.privacy.streams.shared import (
    SeparateContinualNoise,
    SharedContinualNoise,
    named_groups_noise,
)
from dpsql.privacy.streams.sparse import sparse_top_k
from dpsql.privacy.streams.topk import scheduled_top_k

STEPS, GROUPS, RHO = 12, 9, 0.3
KEYS = step_keys(200)


def cost(moved: NDArray[np.float64], own: float, shared: float) -> float:
    """rho of a unit that adds ``moved``, of shape (groups, steps), to counts of that covariance."""
    factorisation = SquareRoot(STEPS)
    rows = np.zeros((STEPS, STEPS))
    for t in range(1, STEPS + 1):
        rows[t - 1, :t] = factorisation.row(t).weights
    among = own**2 * np.eye(len(moved)) + shared**2
    covariance = np.kron(among, rows @ rows.T)
    shift = moved.cumsum(axis=1).reshape(-1)
    return float(shift @ np.linalg.solve(covariance, shift)) / 2


def units() -> list[NDArray[np.float64]]:
    """Units that add at most 1 to each group: at one step, at one step each, spread, at random."""
    together = np.zeros((GROUPS, STEPS))
    together[:, 0] = 1
    apart = np.zeros((GROUPS, STEPS))
    apart[np.arange(GROUPS), np.arange(GROUPS)] = 1
    generator = np.random.default_rng(0)
    random = [generator.dirichlet(np.full(STEPS, 0.05), GROUPS) for _ in range(40)]
    return [together, apart, np.full((GROUPS, STEPS), 1 / STEPS), *random]


def test_no_unit_costs_more_whatever_its_steps_are() -> None:
    found = named_groups_noise(RHO, SquareRoot(STEPS), 1, GROUPS, one_step=False)
    assert isinstance(found, SeparateContinualNoise)
    costs = [cost(moved, found.noise.sigma, 0.0) for moved in units()]
    assert 0.99 * RHO < max(costs) <= found.rho(GROUPS) * (1 + 1e-9) <= RHO * (1 + 1e-9)
    assert found.rho(3) == pytest.approx(RHO / 3)


def test_a_shared_part_does_not_hide_units_that_add_at_several_steps() -> None:
    """The broken twin, which is right for a single step."""
    found = named_groups_noise(RHO, SquareRoot(STEPS), 1, GROUPS, one_step=True)
    assert isinstance(found, SharedContinualNoise)
    own, shared = found.sigma, found.sigma / GROUPS**0.25
    together, apart, *_ = units()
    assert cost(together, own, shared) <= RHO * (1 + 1e-9)
    assert cost(apart, own, shared) > 1.5 * RHO


def test_noise_is_drawn_once_for_each_group_and_has_the_stated_size() -> None:
    found = named_groups_noise(RHO, SquareRoot(STEPS), 2, GROUPS, one_step=False)
    groups = [encode_group((str(i),)) for i in range(4000)]
    zeros = np.zeros(len(groups), dtype=np.int64)
    noisy = found.add(STEPS, zeros, groups, KEYS, "counts")
    assert noisy.std() == pytest.approx(found.std(STEPS), rel=6.5 / math.sqrt(2 * len(groups)))
    assert (found.add(STEPS, zeros[:7], groups[:7], KEYS, "counts") == noisy[:7]).all()
    assert (np.abs(noisy) <= found.half_widths(0.95)[STEPS - 1]).mean() > 0.94


@pytest.mark.parametrize("one_step", [True, False])
def test_mechanisms_with_either_noise_spend_their_budget(one_step: bool) -> None:
    price, k_bar = PrivacyLoss(RHO, 1e-6), StreamGroups(k_bar=30)
    known = scheduled_top_k(price, STEPS, StreamGroups(20), k=3, one_step=one_step)
    unknown = scheduled_top_k(price, STEPS, k_bar, k=3, one_step=one_step)
    sparse = sparse_top_k(RHO, STEPS, k=3, size=20, switches=2, margin=5, one_step=one_step)
    assert known is not None
    assert unknown is not None
    for mechanism in (known, unknown, sparse):
        assert isinstance(mechanism.counts, SharedContinualNoise) == one_step
        assert 0.99 * RHO < mechanism.loss.rho <= RHO
