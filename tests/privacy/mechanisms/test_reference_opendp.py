"""Our samplers against OpenDP's, which were written independently: one law, two programs."""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from dpsql.privacy.sampling.noise import DiscreteGaussian, DiscreteLaplace, OSEntropy

pytestmark = pytest.mark.slow
dp.enable_features("contrib")
DRAWS = 40_000


def opendp_draws(kind: str, scale: float) -> np.ndarray:
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "gaussian":
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    else:
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    return np.array(mechanism([0] * DRAWS))


def same_law(ours: np.ndarray, theirs: np.ndarray) -> float:
    """p-value of a two-sample chi-square over bins with enough draws in both."""
    edges = np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0, 1, 31)[1:-1]))
    bins = np.concatenate([[-np.inf], edges + 0.5, [np.inf]])
    table = np.array([np.histogram(sample, bins)[0] for sample in (ours, theirs)])
    table = table[:, table.sum(axis=0) >= 20]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("scale", [0.7, 3.3, 50.0])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_samplers_agree_with_opendp(kind: str, scale: float) -> None:
    make = DiscreteGaussian if kind == "gaussian" else DiscreteLaplace
    theirs = opendp_draws(kind, scale)
    assert same_law(make(scale).sample(DRAWS, OSEntropy()), theirs) > 1e-9
    assert same_law(make(1.3 * scale).sample(DRAWS, OSEntropy()), theirs) < 1e-9
