# ruff: noqa: E501
"""Outside eyes: what meets noise in one world and in the other, and how far it may differ.

Record and replay, after the auditor of Gorla and others (arXiv 2602.17454): of each primitive that
draws noise, the table below declares what of its input is exact, and in which metric that of two
neighbouring worlds may differ by how much; all else that it is given must be equal. Both are held
over the real pipeline, for each release that a program brings about.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from helpers.sensitivity import Difference, choice_moves_beyond

import dpsql.privacy.mechanisms
from dpsql.core.quoting import ROW_ID
from dpsql.ir.plan import PreparedBlock
from dpsql.kinds.cascade import CascadeKind, ExactCascade
from dpsql.kinds.groups import ExactGroups
from dpsql.kinds.union import ExactUnion, UnionKind
from dpsql.privacy.mechanisms.bounds_choice import BoundsChoice, FoundBounds
from dpsql.privacy.mechanisms.value_bounds import ValueBounds
from dpsql.privacy.mechanisms.weighted_histogram import WEIGHT_STEPS
from dpsql.privacy.sampling.entropy import EntropySource
from dpsql.views.plan import ViewPlan

from . import tape as tapes

Groups = dict[tuple[object, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A method that draws noise: what of its input is exact, and what bounds its difference."""

    exact: str
    metric: str
    bound: str


_COUNTS: Final = Primitive("scores", "l∞ and l2 over groups", "one unit's, in its kept groups")
_VALUES: Final = Primitive("values", "l∞ and l2 over groups", "Measure.sensitivity, kept groups")
DECLARED: Final[dict[str, Primitive]] = {
    **dict.fromkeys(
        (
            "topk.GumbelTopK.select", "topk.GaussianTopK.select", "known_topk.KnownDomainTopK.select",
            "choose_k_bar.GumbelTopKChosenKBar.select", "choose_k_bar.GumbelTopKChosenKBar.choose",
            "sparse_histogram.SparseHistogram.select", "weighted_histogram._Weighted.select",
            "histogram.PositiveCounts.select", "histogram.KnownDomain.select",
            "correlated_topk.CorrelatedTopK.select", "topk_laplace.LaplaceTopK.select",
            "topk_laplace.FixedThreshold.select", "set_union.SetUnion.select",
            "greedy_union.GreedySetUnion.select",
            "cascade.Cascade.select", "selection.Selection.select",
        ),
        _COUNTS,
    ),
    **dict.fromkeys((
            "additive.Additive.add", "additive.IndependentNoise.add", "additive.CorrelatedGaussian.add",
            "elliptic.EllipticGaussian.add", "correlated_topk.TopKCounts.add",
        ), _VALUES),
    "quantiles.ExponentialQuantile.draw": Primitive(
        "histograms", "rows that are added or taken", "max_rows_contributed of one unit"
    ),
    "bounds_choice.BoundDraw.draw": Primitive(
        "weights", "l1 of sums over units", "one unit's weight, 1"
    ),
    **dict.fromkeys(
        ("bounds_choice.CentreDraw.draw", "bounds_choice.CentreDraw.by_rung"),
        Primitive(
            "weights by part of the range", "l1 of sums over units",
            "one unit's weight, 1, of all values together"
        ),
    ),
    "bounds_choice.BoundsChoice.draw": Primitive(
        "weights by rows, weights by groups", "l1 of sums over units",
        "one unit's weight, 1, in each; of shared values, those it names"
    ),
    "value_bounds.ValueBounds.draw": Primitive(
        "weights above 0, weights below", "l1 of sums over units", "one unit's weight, 1, in each"
    ),
    "left_out.LeftOutNoise.release": Primitive(
        "kept, climbed", "l1 of sums over units", "what one unit adds"
    ),
    "cascade.Cascade.name_groups": Primitive("weights of rounds", "l2", "one unit's weight, 1"),
    "cascade.Cascade.choose_cap_of_units": Primitive("units by size", "l1", "one unit in one bin"),
    "cascade.Cascade.choose_cap_of_values": Primitive(
        "units by norm, shares", "l1", "one unit in one bin, and one share"
    ),
    "cascade.PilotNoise.histogram": Primitive("units by size", "l1", "one unit in one bin"),
    "naming.RoundMemory.named": Primitive("weights of a round", "l2", "one unit's weight, 1"),
}  # fmt: skip
"""Every method of a mechanism that draws, by its module and class; a test compares the list."""


def primitives() -> dict[str, Callable[..., Any]]:
    """All public methods of dpsql's mechanisms that are given a source of entropy."""
    found: dict[str, Callable[..., Any]] = {}
    package = dpsql.privacy.mechanisms
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, kind in vars(module).items():
            if not inspect.isclass(kind) or kind.__module__ != module.__name__:
                continue
            for method, function in vars(kind).items():
                if method.startswith("_") or not inspect.isfunction(function):
                    continue
                if "source" in inspect.signature(function).parameters:
                    found[f"{info.name}.{name}.{method}"] = function
    return found


@contextlib.contextmanager
def recorded() -> Iterator[None]:
    """Have each primitive written down with all that it is, where it is called by no other."""
    patches = []
    for label, function in primitives().items():
        module, name, method = label.split(".")
        kind = getattr(importlib.import_module(f"dpsql.privacy.mechanisms.{module}"), name)
        patches.append((kind, method, function))
        setattr(kind, method, _recording(label, function))
    try:
        yield
    finally:
        for kind, method, function in patches:
            setattr(kind, method, function)


def _recording(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        tape = tapes.current()
        if tape is None:
            return function(self, *arguments, **named)
        if tape.drawing == 0 and not tape.adaptive:
            tape.primitives.append(f"{label} of {self!r}")
            tape.counted["primitives"] += 1
        tape.drawing += 1
        try:
            drawn = function(self, *arguments, **named)
        finally:
            tape.drawing -= 1
        return _one_outcome(self) if isinstance(self, BoundsChoice | ValueBounds) else drawn

    return run


def _one_outcome(choice: BoundsChoice | ValueBounds) -> FoundBounds:
    """The same bounds for both worlds: all that comes next follows from those that were drawn."""
    if isinstance(choice, ValueBounds):
        size = choice.sizes[len(choice.sizes) // 3]
        return FoundBounds(values=((-size, size),))
    rows, groups = (
        None if each is None else each.rungs[len(each.rungs) // 3]
        for each in (choice.rows, choice.groups)
    )
    return FoundBounds(rows, groups)


# -- exact values of both worlds -------------------------------------------------------------------


def look(name: str, arguments: tuple[Any, ...]) -> Any:
    """What is exact of a release, by groups."""
    if name == "release_block":
        block, exact = arguments[0], arguments[1]
        tape = tapes.current()
        if tape is not None:
            # What a cascade draws next depends on what it drew: its worlds drift apart inside.
            tape.adaptive = isinstance(exact, ExactCascade)
        if isinstance(exact, ExactGroups):
            return _groups(block, exact)
        if isinstance(exact, ExactUnion):
            return _union(block, exact)
        if isinstance(exact, ExactCascade):
            return _cascade(block, exact)
    if name in ("release_estimate", "release_bounds"):
        return arguments[1]
    if name == "draw_step":
        totals = arguments[2]
        keys = list(zip(*totals.keys, strict=True)) or [()] * totals.count
        values = list(zip(*(v.tolist() for v in totals.values), strict=True))
        return {key: value for key, value in zip(keys, values, strict=True) if any(value)}
    return None


def _rows_of(keys: Any, names: list[str], ids: list[int]) -> list[tuple[object, ...]]:
    if not names:
        return [()] * len(ids)
    if isinstance(keys, dict):
        lists = [np.ma.asarray(keys[name]).tolist() for name in names]
        return [tuple(map(_normal, row)) for row in zip(*lists, strict=True)]
    table = pa.table(keys)
    places = {row: place for place, row in enumerate(table[ROW_ID].to_pylist())}
    lists = [_plain(table[name]).to_pylist() for name in names]
    return [tuple(_normal(column[places[row]]) for column in lists) for row in ids]


def _plain(column: Any) -> Any:
    """A column whose values Python has: dates and moments of any year become numbers."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _normal(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _groups(block: PreparedBlock, exact: ExactGroups) -> Groups:
    plan, rows = block.plan, exact.rows
    names = [key.name for key in block.keys]
    ids = rows.row_ids.tolist()
    if plan.declared:
        keys = list(zip(*(rows.measures[n].tolist() for n in names), strict=True)) or [()] * len(
            ids
        )
    elif exact.keys_of is not None:
        keys = _rows_of(exact.keys_of(rows.row_ids), names, ids)
    else:
        keys = _rows_of(rows.keys, names, ids)
    columns = [plan.block.measure_column(i) for i in range(len(plan.measures))]
    values = list(zip(*(rows.measures[c].tolist() for c in columns), strict=True)) or [()] * len(
        ids
    )
    return dict(zip(keys, values, strict=True))


def _union(block: PreparedBlock, exact: ExactUnion) -> Groups:
    ids = np.arange(1, len(exact.weights) + 1)
    named = exact.named(ids)
    keys = _rows_of(named.keys, [key.name for key in block.keys], named.row_ids.tolist())
    weights = [int(exact.weights[i - 1]) for i in named.row_ids.tolist()]
    return {key: (weight,) for key, weight in zip(keys, weights, strict=True)}


def _cascade(block: PreparedBlock, exact: ExactCascade) -> Groups:
    found = exact.rows.unnamed_weights(np.array([], dtype=np.int64), 3000)
    ids = np.sort(found.ids)
    keys = _rows_of(exact.keys_of(ids), [key.name for key in block.keys], ids.tolist())
    weights = dict(zip(found.ids.tolist(), found.weights.tolist(), strict=True))
    return {key: (int(weights[i]),) for key, i in zip(keys, ids.tolist(), strict=True)}


def compare(name: str, planned: Any, one: Any, other: Any) -> Iterator[str]:
    """What exact values of two worlds differ in beyond what the plan declares of one unit.

    Either of them may be the one with the unit.
    """
    if name == "release_block":
        problems = min((_moves(planned, *pair) for pair in ((one, other), (other, one))), key=len)
    elif name == "draw_step":
        problems = _stream_moves(planned, one, other)
    elif name == "release_bounds":
        pairs = ((one, other), (other, one))
        problems = min((choice_moves_beyond(planned.choice, *pair) for pair in pairs), key=len)
    else:
        return
    for problem in problems[:1]:
        yield f"sensitivity: {problem}"


def _moves(block: PreparedBlock, without: Groups, with_unit: Groups) -> list[str]:
    plan = block.plan
    if UnionKind.fits(plan):
        union = UnionKind(plan).union
        if union.in_sequence:
            return []  # in an order of units: tests of the attacker compare what is read
        return _within(union.norm, union.sensitivity, without, with_unit)
    if CascadeKind.fits(plan):
        return _within(2, WEIGHT_STEPS, without, with_unit)
    return Difference(without, with_unit).violations(plan)


def _within(norm: int, bound: float, one: Groups, other: Groups) -> list[str]:
    changes = [other.get(k, (0,))[0] - one.get(k, (0,))[0] for k in one.keys() | other.keys()]
    size = sum(map(abs, changes)) if norm == 1 else math.sqrt(sum(c * c for c in changes))
    return [f"weights move by {size}, more than {bound}"] if size > bound else []


def _stream_moves(plan: ViewPlan, one: Groups, other: Groups) -> list[str]:
    reaches = [each.reach for each in plan.contributions]
    nothing = (0,) * len(reaches)
    found, touched = [], 0
    for key in one.keys() | other.keys():
        before, after = one.get(key, nothing), other.get(key, nothing)
        touched += before != after
        for reach, a, b in zip(reaches, before, after, strict=True):
            if abs(a - b) > reach:
                found.append(f"a group of a view moves by {abs(a - b)}, more than {reach}")
    if plan.groups is not None and touched > plan.groups:
        found.append(f"{touched} groups of a view move, more than {plan.groups}")
    return found


__all__ = ["DECLARED", "EntropySource", "Primitive", "compare", "look", "primitives", "recorded"]
