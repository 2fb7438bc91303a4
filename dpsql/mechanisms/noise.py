"""The noise that mechanisms draw: one import for distributions, tails, scales and rankings."""

from __future__ import annotations

from dpsql.mechanisms.difference import difference_log_sf, difference_quantile_sf
from dpsql.mechanisms.distributions import DiscreteGaussian, DiscreteLaplace, LatticeNoise
from dpsql.mechanisms.entropy import EntropySource, OSEntropy
from dpsql.mechanisms.gumbel import gumbel_order
from dpsql.mechanisms.numeric import MAX_SCALE, MIN_SCALE
from dpsql.mechanisms.scales import gaussian_sigma_for_rho, laplace_scale_for_rho

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
