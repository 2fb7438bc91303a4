"""A declared domain: every group is answered, so there is noise and no threshold."""

from __future__ import annotations

import math

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.calculator.request import flag, refused
from dpsql.privacy.calculator.values import BALLE, CANONNE, LEBEDA, VALUE, Figures, Found, Mechanism
from dpsql.privacy.mechanisms.additive import (
    Additive,
    CorrelatedGaussian,
    correlated_gaussian,
    gaussian,
    laplace,
    one_shot_correlated_gaussian,
    one_shot_distance,
    one_shot_gaussian,
    one_shot_laplace,
)
from dpsql.privacy.mechanisms.calibration import analytic_gaussian_sigma
from dpsql.privacy.mechanisms.elliptic import (
    EllipticGaussian,
    elliptic_gaussian,
    one_shot_elliptic_gaussian,
)
from dpsql.privacy.mechanisms.registry import Sizes
from dpsql.privacy.sampling.numeric import scale_error


def _laplace_known_domain(sizes: Sizes, rho: float, delta: float) -> Found:
    noise = laplace(rho, sizes.sensitivity, sizes.groups)
    return _every_group(noise, sizes, "discrete Laplace noise, composed over the groups")


def _laplace_known_domain_pure(sizes: Sizes, epsilon: float, delta: float) -> Found:
    noise = one_shot_laplace(epsilon, sizes.sensitivity, sizes.groups)
    return _every_group(noise, sizes, "Dwork, McSherry, Nissim & Smith 2006")


def _gaussian_known_domain(sizes: Sizes, rho: float, delta: float) -> Found:
    noise = gaussian(rho, sizes.sensitivity, sizes.groups)
    return _every_group(noise, sizes, CANONNE)


def _analytic_gaussian(sizes: Sizes, epsilon: float, delta: float) -> Found:
    allowed = one_shot_distance(epsilon, delta)
    noise = one_shot_gaussian(allowed, sizes.sensitivity, sizes.groups)
    sigma = sizes.sensitivity * math.sqrt(sizes.groups) * analytic_gaussian_sigma(epsilon, delta)
    continuous = Figures("gaussian, continuous", "sigma", sigma, sigma)
    return _every_group(noise, sizes, BALLE, continuous)


def _correlated_known_domain(sizes: Sizes, rho: float, delta: float) -> Found:
    noise = correlated_gaussian(rho, sizes.sensitivity, sizes.groups)
    return _every_group(noise, sizes, f"{LEBEDA}, Algorithm 2 and Section 7")


def _correlated_known_domain_exact(sizes: Sizes, epsilon: float, delta: float) -> Found:
    """Calibrate correlated noise on declared groups for one publication, exactly.

    A unit moves value_i by v_i: by v_i - Δ∞/2 in its own noise, by Δ∞/2 in the shared one. With Var
    Z_i = σ² and Var Z = σ²/√d that is at most Δ∞ sqrt(d + √d)/(2σ) standard deviations in l2: one
    Gaussian mechanism.
    """
    groups, allowed = sizes.groups, one_shot_distance(epsilon, delta)
    noise = one_shot_correlated_gaussian(allowed, sizes.sensitivity, groups)
    distance = sizes.sensitivity * math.sqrt(groups + math.sqrt(groups)) / 2
    sigma = distance * analytic_gaussian_sigma(epsilon, delta)
    std = sigma * math.hypot(1.0, groups**-0.25)
    continuous = Figures("correlated gaussian, continuous", "sigma", sigma, std)
    return _every_group(noise, sizes, f"{LEBEDA}, Algorithm 2; {BALLE}", continuous)


def _elliptic_known_domain(sizes: Sizes, rho: float, delta: float) -> Found:
    noise = elliptic_gaussian(rho, sizes.sensitivity, sizes.groups, sizes.k)
    return _every_group(_shareable(noise, sizes), sizes, CANONNE)


def _elliptic_known_domain_exact(sizes: Sizes, epsilon: float, delta: float) -> Found:
    allowed = one_shot_distance(epsilon, delta)
    noise = one_shot_elliptic_gaussian(allowed, sizes.sensitivity, sizes.groups, sizes.k)
    return _every_group(_shareable(noise, sizes), sizes, f"{CANONNE}; {BALLE}")


def _shareable(noise: EllipticGaussian | None, sizes: Sizes) -> EllipticGaussian:
    if noise is not None:
        return noise
    if 1 < sizes.groups < sizes.k:
        raise scale_error("sigma")
    raise refused(
        "nothing can be shared: a unit must have some of the groups, more than one and not all",
        hint=f"{flag('k')} is the number of groups, {flag('groups')} how many of them a unit has.",
    )


def _every_group(
    noise: Additive, sizes: Sizes, source: str, continuous: Figures | None = None
) -> Found:
    lattice = "half-integers" if isinstance(noise, CorrelatedGaussian) else "integers"
    if isinstance(noise, EllipticGaussian):
        lattice = f"steps of 2^-{noise.fineness.bit_length() - 1}"
    drawn = Figures(
        distribution=f"{noise.name.replace('_', ' ')}, {lattice}",
        parameter="b" if noise.name == "laplace" else "sigma",
        scale=noise.scale,
        std=noise.std(sizes.groups),
    )
    return Found(source, drawn, continuous, PrivacyLoss(noise.rho(sizes.groups), 0.0))


KNOWN_DOMAIN_MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism(
        name="laplace-known-domain",
        summary="every declared group is answered",
        takes=("groups",),
        may_take=("sensitivity",),
        zcdp=_laplace_known_domain,
        one_shot={"pure": _laplace_known_domain_pure},
        family="known-domain",
        noise="laplace",
        aliases=("laplace",),
        measured=VALUE,
        thresholded=False,
    ),
    Mechanism(
        name="gaussian-known-domain",
        summary="every declared group is answered",
        takes=("groups",),
        may_take=("sensitivity",),
        zcdp=_gaussian_known_domain,
        one_shot={"exact": _analytic_gaussian},
        family="known-domain",
        noise="gaussian",
        aliases=("gaussian",),
        measured=VALUE,
        thresholded=False,
    ),
    Mechanism(
        name="analytic-gaussian",
        summary="gaussian-known-domain by its exact analysis only",
        takes=("groups",),
        may_take=("sensitivity",),
        one_shot={"exact": _analytic_gaussian},
        family="known-domain",
        noise="analytic-gaussian",
        measured=VALUE,
        thresholded=False,
        instead="gaussian-known-domain",
    ),
    Mechanism(
        name="correlated-gaussian-known-domain",
        summary="every declared group is answered, a unit raises any number of them",
        takes=("groups",),
        may_take=("sensitivity",),
        zcdp=_correlated_known_domain,
        one_shot={"exact": _correlated_known_domain_exact},
        family="known-domain",
        noise="correlated-gaussian",
        aliases=("correlated-gaussian",),
        measured=VALUE,
        thresholded=False,
    ),
    Mechanism(
        name="elliptic-gaussian-known-domain",
        summary="all k declared groups are answered, a unit raises only some of them",
        takes=("k", "groups"),
        may_take=("sensitivity",),
        zcdp=_elliptic_known_domain,
        one_shot={"exact": _elliptic_known_domain_exact},
        family="known-domain",
        noise="elliptic-gaussian",
        aliases=("elliptic-gaussian",),
        measured=VALUE,
        thresholded=False,
    ),
)
