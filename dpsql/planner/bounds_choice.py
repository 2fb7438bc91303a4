"""Prices the choice of bounds, of units and of values, from public parameters only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Block, UnboundedValue
from dpsql.planner.budget import QueryBudget
from dpsql.planner.max_error import error_targets
from dpsql.privacy.accounting.zcdp import PrivacyLoss
from dpsql.privacy.mechanisms.bounds_choice import (
    BASE_OF_NONE,
    BASE_OF_ZERO,
    NONE,
    POWER_OF_AVERAGES,
    POWER_OF_GROUPS,
    POWER_OF_NAMED,
    POWER_OF_RANKED,
    POWER_OF_ROWS,
    POWER_OF_SHARED,
    BoundDraw,
    BoundsChoice,
    bound_draw,
    centre_draw,
    groups_target,
    ladder,
    rows_target,
    weight_in_steps,
)
from dpsql.privacy.mechanisms.value_bounds import ValueBounds, value_bounds
from dpsql.privacy.sampling.numeric import MAX_SCALE

_ROWS_SHARE: Final = 0.05
_TOTAL_SHARE: Final = 0.25
_GROUPS_SHARE: Final = 0.1
"""The part of a price that chooses a number of groups. Found best by simulation, as the target is:
half of it is as near the best number, and less of the truth lies within intervals."""
_CUT_OF_AVERAGES: Final = 15.0
"""How many times as many pairs are cut where only quantiles, averages and spreads are asked for.

Rows that are cut are missing from a count, but of an average they are missing above and below: it
is off by how their values differ from those kept, supposed to be a part of half its range."""
_CUT_OF_DEVIATIONS: Final = 5.0
"""How many times as many pairs are cut where each counts by how far its average deviates.

What is cut on one side of an average is made up for, mostly, by what is on the other: supposed is
that a fifth is not. Found best, with the shares and the base measure, over 33 averages of public
data by up to 22 groups."""
_CENTRES_SHARE: Final = 0.02
"""The part of a price that chooses the centres from which averages deviate."""
_GROUPS_NAMED: Final = 50
"""The number of groups that are supposed to come out where nothing public says it."""
_BESIDE_SHOWN: Final = 5
"""How many times as many groups as LIMIT shows supposedly count, where rounds name them.

Rows are cut in all groups, and most of them in the largest, which are shown: with all of the usual
number, the largest of products with 19% of all rows lacks a fifth of its rows in most answers."""
_CUT_OF_RANKED: Final = 4.0
"""How many times as many units are cut where a top-k ranks groups: those for the least error."""
_CUT_BESIDE_ERROR: Final = 0.2
"""How many times as many pairs are cut where a maximum error is asked for.

What each rung of the ladder cuts adds up there. So 88 to 100% of counts of flights by carrier are
within the error, with noise at 95%, and 67 to 100% of those by month."""
_PART_OF_AVERAGES: Final = Fraction(2, 5)
_PART_OF_TOTALS: Final = Fraction(1, 20)
"""The part of all units that may be in more groups than count, where keys are unknown.

Thresholds grow with the root of the number, and most groups are named where about half of all units
count in all of theirs. Averages, spreads and quantiles are as good of a sample of their groups;
counts and sums lack what is left out, which no interval takes in: with a fifth, that was more than
noise in most answers, and with nothing a third as many titles of films are named."""
_PART_PER_NOISE: Final = Fraction(1, 100)
"""The same of counts and sums, for each standard deviation of the noise on a count, if less."""
_MOST_GROUPS: Final = 2**10
"""The largest number of groups that is drawn where it is not known how many there are."""
_SPARE: Final = 16.0
"""How many times the noise of a count must be in range at the largest bounds."""


_CUT_OF_VALUES: Final = 0.6
"""How many times as many values are cut as pairs, where bounds of values are drawn."""
_SIGN_PART: Final = 0.15
"""The part of the price of a value's bounds that each sign has; 0.1 to 0.2 do as well."""
_VALUES_SHARE: Final = 0.1
_VALUES_TOTAL_SHARE: Final = 0.2
"""The part of a price that chooses the bounds of values: that of a single total, as for rows."""


def priced_bounds(
    block: Block,
    budget: QueryBudget,
    others: float = 0.0,
    payer: QueryBudget | None = None,
    times_noise: float | None = None,
) -> tuple[BoundsChoice | None, tuple[ValueBounds, ...]]:
    """Return the draws of a block's bounds: of units, and of each value without bounds.

    ``payer`` is what they have their share of, if another budget than that of the answer, and
    ``times_noise`` how many times as wide as of one answer the noise of a view is: then it can be
    drawn that too few units have rows to tell a number, or values to tell bounds. None and none
    where they are known, or not asked for. Raises ``QueryRefused`` where the price buys no bounds
    of values.
    """
    beside = others + _values_share(block)
    values = _value_bounds(block, budget, others, payer or budget, times_noise)
    return priced_bounds_choice(block, budget, beside, payer, times_noise), values


def _value_bounds(
    block: Block,
    budget: QueryBudget,
    others: float,
    payer: QueryBudget,
    times_noise: float | None,
) -> tuple[ValueBounds, ...]:
    found = block.bounds_found
    if found is None or found.known or not found.values:
        return ()
    size, limit = _groups(block), block.parameters.groups_limit
    sigma = math.sqrt(max(1, len(block.measures)) / (2 * budget.noise_rho)) * (times_noise or 1.0)
    kept = size if limit is None else min(limit, size)
    target = _CUT_OF_VALUES * rows_target(size, kept, sigma)
    number, share = len(found.values), _values_share(block)
    size_price, sign_price = (
        payer.part_beside(share, others, number / part) for part in (1 - 2 * _SIGN_PART, _SIGN_PART)
    )
    zero = BASE_OF_ZERO if times_noise is None else BASE_OF_NONE
    try:
        return tuple(
            value_bounds(size_price, sign_price, target, whole=value.whole, base_of_zero=zero)
            if error is None
            else value_bounds(
                size_price,
                sign_price,
                _weight_beside(block, error),
                whole=value.whole,
                falling=True,
            )
            for value, error in zip(found.values, _errors(block, found.values), strict=True)
        )
    except ParameterError:
        raise QueryRefused(
            f"the price is too small to find bounds of {found.values[0].text}, and it has none",
            code="unbounded_sum",
            hint="Raise epsilon, or say where its values are clamped: "
            "contribution_bounds_per_row => (lower, upper).",
        ) from None


def _errors(block: Block, values: Sequence[UnboundedValue]) -> Iterator[float | None]:
    """Yield the least maximum error that a sum of each value has, None without one."""
    exact = [(a.max_error.value, a.measures) for a in block.aggregates if a.max_error is not None]
    for value in values:
        named = {index for index, m in enumerate(block.measures) if m.argument == value.argument}
        yield min((error for error, measures in exact if named & {*measures}), default=None)


def _weight_beside(block: Block, error: float) -> float:
    """Return the weight in units to be cut at a bound of 1, beside noise with a maximum error.

    So that what is cut of a group is a part of the noise's standard deviation, half the error, if
    each unit has as many rows and groups as count.
    """
    size, limit = _groups(block), block.parameters.groups_limit
    kept = size if limit is None else min(limit, size)
    return _CUT_BESIDE_ERROR * error / 2 * size / (kept * block.parameters.rows_limit)


def _values_share(block: Block) -> float:
    """Return the part of a block's price that chooses the bounds of its values."""
    found = block.bounds_found
    if found is None or not found.values:
        return 0.0
    return max(_VALUES_SHARE, _VALUES_TOTAL_SHARE / _groups(block))


def priced_bounds_choice(
    block: Block,
    budget: QueryBudget,
    others: float = 0.0,
    payer: QueryBudget | None = None,
    times_noise: float | None = None,
) -> BoundsChoice | None:
    """Return the draws of a block's bounds; None where they are known, or not asked for.

    They aim at a small mean error of a count by group: of the known groups, of those that a
    top-k shows, or of a usual number of them. Where a maximum error is asked for, ``budget`` is the
    one that keeps it with the bounds of the block's parameters; noise of that width is drawn
    whatever the bounds are, and the larger they are, the less may be cut. ``others`` is the part of
    the price that goes to estimates. ``payer`` is what the draws have their share of, if another
    budget. The ladders end before noise would be out of range. None where no draw in range is so
    cheap.

    ``times_noise`` is how many times as wide as of one answer the noise of a view is. As it goes on
    with what is drawn, it can be drawn that there are too few rows to tell: ``NONE``.
    """
    found = block.bounds_found
    if found is None or found.known:
        return None
    size, of_rows, payer = _groups(block), _rows_share(block), payer or budget
    sigma = math.sqrt(max(1, len(block.measures)) / (2 * budget.noise_rho)) * (times_noise or 1.0)
    least = () if times_noise is None else (NONE,)
    try:
        groups = None
        if found.groups:
            price = payer.part_beside(_GROUPS_SHARE, others + of_rows)
            groups = _of_groups(block, price, sigma, least)
        limit = block.parameters.groups_limit
        kept = (size if limit is None else min(limit, size),) if groups is None else groups.rungs
        most = math.floor(MAX_SCALE / (_SPARE * kept[-1] * sigma))
        if not found.rows or not most:
            return None if groups is None else BoundsChoice(groups, None)
        times, fixed = 1.0 if block.totals else _CUT_OF_AVERAGES, bool(error_targets(block))
        centres = None
        if block.averages_alone and not least:
            beside = others + of_rows + _GROUPS_SHARE * found.groups
            price = payer.part_beside(_CENTRES_SHARE, beside)
            centres = centre_draw(price, len(block.averages_alone))
            times = _CUT_OF_DEVIATIONS
        if fixed:
            times *= block.parameters.rows_limit * _CUT_BESIDE_ERROR
        targets = [
            times * rows_target(size, min(each, size), sigma * _beside_usual(block, each))
            for each in (max(1, groups) for groups in kept)
        ]
        rungs = (*least, *ladder(min(most, found.most_rows or most)))
        price = payer.part_beside(of_rows, others)
        aims = targets[-1:] * len(rungs)
        shared = bool(block.values_alone)
        power = POWER_OF_SHARED if shared else POWER_OF_AVERAGES if centres else POWER_OF_ROWS
        rows = bound_draw(
            *(price, rungs, power, aims),
            lasting=fixed,
            base_of_zero=BASE_OF_NONE,
            shared=shared,
        )
        return BoundsChoice(groups, rows, tuple(map(weight_in_steps, targets)), centres)
    except ParameterError:
        return None


def with_supposed_weights(plan: BlockPlan, budget: QueryBudget, others: float = 0.0) -> BlockPlan:
    """Add to a plan what a found number of rows supposedly cuts, and cannot tell.

    ``budget`` and ``others`` are those that the number was found for. Both weights are 0 of a given
    number, and where a maximum error is asked for, beside which they are little.
    """
    block, found = plan.block, plan.block.bounds_found
    if found is None or not (found.known and found.rows) or error_targets(block):
        return plan
    open_block = replace(block, bounds_found=replace(found, known=False))
    choice = priced_bounds_choice(open_block, budget, others + _values_share(block))
    if choice is None:
        return plan
    limit, rows = block.parameters.groups_limit, block.parameters.rows_limit
    groups = _groups(block) if limit is None else limit
    cut, untold = choice.weight_cut(groups, rows), choice.weight_untold(groups)
    return replace(plan, weight_cut=cut, weight_untold=untold)


def _of_groups(block: Block, price: PrivacyLoss, sigma: float, least: tuple[int, ...]) -> BoundDraw:
    """Build the draw of a number of groups of a unit.

    A top-k of unknown keys names a group beyond a threshold that grows with it, and what is cut
    changes no order: it takes fewer.
    """
    found, known = block.bounds_found, block.known_domain
    assert found is not None
    rungs = (*least, *ladder(found.most_groups or _MOST_GROUPS))
    size, times = (block.domain_size, 1.0) if known else (_GROUPS_NAMED, _CUT_OF_RANKED)
    targets = [
        times * groups_target(size, each, sigma * _beside_usual(block, each)) if each else 0.0
        for each in rungs
    ]
    power, lasting = POWER_OF_GROUPS if known else POWER_OF_RANKED, bool(error_targets(block))
    part = Fraction(0)
    if not (known or lasting) and block.top_k is None:
        power = POWER_OF_NAMED
        part = _PART_OF_AVERAGES
        if block.totals:
            part = min(_PART_OF_TOTALS, _PART_PER_NOISE * Fraction(round(sigma, 3)))
    return bound_draw(
        *(price, rungs, power, targets),
        lasting=lasting,
        part=part,
        base_of_zero=BASE_OF_NONE,
    )


def _beside_usual(block: Block, groups: int) -> float:
    """Return the factor by which the noise at one row and group grows to be as wide for fewer.

    That is where a maximum error is asked for, beside the usual number of groups; 1 elsewhere.
    """
    usual = block.parameters.groups_limit
    return math.sqrt(usual / groups) if usual is not None and error_targets(block) else 1.0


def bounds_share(block: Block, *, of_view: bool = False) -> float:
    """Return the part of a block's price that chooses its bounds, of units and of values."""
    found = block.bounds_found
    if found is None:
        return 0.0
    centres = _CENTRES_SHARE * bool(found.rows and block.averages_alone and not of_view)
    share = _rows_share(block) + centres + _GROUPS_SHARE * found.groups
    return share + _values_share(block)


def _rows_share(block: Block) -> float:
    """Return the part of a block's price that chooses its number of rows per unit.

    The noise on a single total is small beside what a wrong number cuts: its choice has a quarter,
    that of several groups less by the root of their number, down to a twentieth, which that of
    averages has. Found best by simulation, over counts of light and heavy tails.
    """
    found = block.bounds_found
    if found is None or not found.rows:
        return 0.0
    if block.averages_alone or not block.totals:
        return _ROWS_SHARE
    return max(_ROWS_SHARE, _TOTAL_SHARE / math.sqrt(_groups(block)))


def few_shown(block: Block) -> int | None:
    """Return the LIMIT of groups named in rounds, if so few have bounds of their own.

    None for as many that the usual number of groups counts.
    """
    limited = block.limited
    few = limited is not None and _BESIDE_SHOWN * limited.limit < _GROUPS_NAMED
    return limited.limit if limited is not None and few else None


def _groups(block: Block) -> int:
    size = block.domain_size if block.known_domain else _GROUPS_NAMED
    shown = few_shown(block)
    if shown is not None:
        size = min(size, _BESIDE_SHOWN * shown)
    return size if block.top_k is None else min(size, block.top_k.limit)
