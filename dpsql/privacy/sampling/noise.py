"""The noise that mechanisms draw: one import for distributions, tails, scales and rankings."""

from __future__ import annotations

from dpsql.privacy.sampling.difference import difference_log_sf, difference_quantile_sf
from dpsql.privacy.sampling.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    LatticeNoise,
    gaussian_sigma_for_rho,
    laplace_scale_for_rho,
)
from dpsql.privacy.sampling.entropy import EntropySource, OSEntropy
from dpsql.privacy.sampling.gumbel import gumbel_order
from dpsql.privacy.sampling.numeric import MAX_SCALE, MIN_SCALE

__all__ = [
    "MAX_SCALE",
    "MIN_SCALE",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "EntropySource",
    "LatticeNoise",
    "OSEntropy",
    "difference_log_sf",
    "difference_quantile_sf",
    "gaussian_sigma_for_rho",
    "gumbel_order",
    "laplace_scale_for_rho",
]
