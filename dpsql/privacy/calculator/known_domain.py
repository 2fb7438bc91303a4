"""A declared domain: every group is answered, so there is noise and no threshold."""

from __future__ import annotations

import math
from dataclasses import replace

from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.calculator.request import flag, refused
from dpsql.privacy.calculator.values import (
    BALLE,
    CANONNE,
    LEBEDA,
    VALUE,
    Calibrate,
    Figures,
    Found,
    Mechanism,
)
from dpsql.privacy.mechanisms.additive import (
    Additive,
    CorrelatedGaussian,
    correlated_gaussian,
    gaussian,
    laplace,
)
from dpsql.privacy.mechanisms.calibration import analytic_gaussian_sigma
from dpsql.privacy.mechanisms.elliptic import EllipticGaussian, elliptic_gaussian
from dpsql.privacy.mechanisms.registry import Sizes
from dpsql.privacy.sampling.numeric import scale_error


def _laplace(sizes: Sizes, price: PrivacyLoss) -> Found:
    noise = laplace(price, sizes.sensitivity, sizes.groups)
    composed = "discrete Laplace noise, composed over the groups"
    pure = "Dwork, McSherry, Nissim & Smith 2006"
    return _every_group(noise, sizes, pure if price.epsilon else composed)


def _gaussian(sizes: Sizes, price: PrivacyLoss) -> Found:
    noise = gaussian(price, sizes.sensitivity, sizes.groups)
    if not price.epsilon:
        return _every_group(noise, sizes, CANONNE)
    distance = sizes.sensitivity * math.sqrt(sizes.groups)
    sigma = distance * analytic_gaussian_sigma(price.epsilon, price.delta)
    continuous = Figures("gaussian, continuous", "sigma", sigma, sigma)
    return _every_group(noise, sizes, BALLE, continuous)


def _correlated(sizes: Sizes, price: PrivacyLoss) -> Found:
    """Calibrate correlated noise on declared groups, for one publication exactly.

    A unit moves value_i by v_i: by v_i - Δ∞/2 in its own noise, by Δ∞/2 in the shared one. With Var
    Z_i = σ² and Var Z = σ²/√d that is at most Δ∞ sqrt(d + √d)/(2σ) standard deviations in l2: one
    Gaussian mechanism.
    """
    groups = sizes.groups
    noise = correlated_gaussian(price, sizes.sensitivity, groups)
    if not price.epsilon:
        return _every_group(noise, sizes, f"{LEBEDA}, Algorithm 2 and Section 7")
    distance = sizes.sensitivity * math.sqrt(groups + math.sqrt(groups)) / 2
    sigma = distance * analytic_gaussian_sigma(price.epsilon, price.delta)
    std = sigma * math.hypot(1.0, groups**-0.25)
    continuous = Figures("correlated gaussian, continuous", "sigma", sigma, std)
    return _every_group(noise, sizes, f"{LEBEDA}, Algorithm 2; {BALLE}", continuous)


def _elliptic(sizes: Sizes, price: PrivacyLoss) -> Found:
    noise = elliptic_gaussian(price, sizes.sensitivity, sizes.groups, sizes.k)
    source = f"{CANONNE}; {BALLE}" if price.epsilon else CANONNE
    return _every_group(_shareable(noise, sizes), sizes, source)


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


def _declared(
    noise: str, calibrate: Calibrate, analysis: str, summary: str, takes: tuple[str, ...]
) -> Mechanism:
    return Mechanism(
        name=f"{noise}-known-domain",
        summary=summary,
        takes=takes,
        may_take=("sensitivity",),
        zcdp=calibrate,
        one_shot={analysis: calibrate},
        family="known-domain",
        noise=noise,
        aliases=(noise,),
        measured=VALUE,
        thresholded=False,
    )


_EVERY = "every declared group is answered"
_OF_ALL = f"{_EVERY}, a unit raises any number of them"
_OF_SOME = "all k declared groups are answered, a unit raises only some of them"
_GAUSSIAN = _declared("gaussian", _gaussian, "exact", _EVERY, ("groups",))

KNOWN_DOMAIN_MECHANISMS: tuple[Mechanism, ...] = (
    _declared("laplace", _laplace, "pure", _EVERY, ("groups",)),
    _GAUSSIAN,
    replace(
        _GAUSSIAN,
        name="analytic-gaussian",
        summary="gaussian-known-domain by its exact analysis only",
        zcdp=None,
        noise="analytic-gaussian",
        aliases=(),
        instead="gaussian-known-domain",
    ),
    _declared("correlated-gaussian", _correlated, "exact", _OF_ALL, ("groups",)),
    _declared("elliptic-gaussian", _elliptic, "exact", _OF_SOME, ("k", "groups")),
)
