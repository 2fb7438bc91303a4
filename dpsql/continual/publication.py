"""What a step of a view publishes: exact totals and keyed noise in, released rows out, as bytes.

The noise of a step is a function of the view's key: it must be added to one state of the data only.
Whoever calls :func:`draw_step` has marked the step as used before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.continual.listing_plan import ListingPlan
from dpsql.continual.plan import ViewPlan
from dpsql.continual.state import Totals
from dpsql.errors import LedgerError
from dpsql.ir.measures import MeasureKind
from dpsql.ir.query import Block
from dpsql.mechanisms.continual.encoding import encode_group
from dpsql.mechanisms.continual.keyed import StreamKey
from dpsql.pipeline.release import aggregate_answers
from dpsql.pipeline.released import drawn_columns

GroupTexts: TypeAlias = tuple[str | None, ...]
"""The keys of a group as texts; of a declared domain, their positions."""

_VERSION: Final = 1
_AT_ONCE: Final = 20_000  # groups of one part
_KINDS: Final = {"i": int, "f": float}


@dataclass(frozen=True, slots=True)
class StepRelease:
    """The released rows of one step: keys as texts, and each drawn column of shape (groups,).

    Rows are in the order of their keys; of declared keys they are all groups of the domain.
    """

    step: int
    groups: tuple[GroupTexts, ...]
    values: dict[str, NDArray[Any]]


def draw_step(
    plan: ViewPlan, step: int, totals: Totals, key: StreamKey, listed: Iterable[GroupTexts]
) -> StepRelease:
    """Draw what comes out at a step.

    ``listed`` are the groups of the step before: what came out once stays, with its noisy values,
    which is post-processing; of a top-k, and of a window, only what stands out now.
    Guarantee: over all steps ``plan.loss``, for totals within the bounds of a ``ViewState``.
    """
    groups, exact = _dense(plan.block, totals) if plan.block.known_domain else _listed(totals)
    encoded = [encode_group(group) for group in groups]
    deciding, shown = plan.histogram.release(step, exact[plan.score], encoded, key)
    noisy = [
        deciding
        if index == plan.score
        else noise.add(step, values, encoded, key, plan.block.measure_column(index))
        for index, (noise, values) in enumerate(zip(plan.noises, exact, strict=True))
    ]
    chosen = _chosen(plan, groups, noisy, shown, frozenset(listed))
    kept = [values[chosen].astype(np.float64) for values in noisy]
    with np.errstate(all="ignore"):
        answers = aggregate_answers(plan.at(step), kept, {})
    columns = drawn_columns(plan.block)
    return StepRelease(
        step, tuple(groups[i] for i in chosen), {name: answers[name] for name in columns}
    )


def _listed(totals: Totals) -> tuple[list[GroupTexts], list[NDArray[np.int64]]]:
    """The groups that there are, in the order of their keys, and their exact values."""
    return list(zip(*totals.keys, strict=True)), totals.values


def exact_groups(block: Block, totals: Totals) -> tuple[list[GroupTexts], NDArray[np.int64]]:
    """Return the groups of a step and the exact values of its one measure, of shape (groups,).

    Of a declared domain all groups, by the positions of their keys, in its order.
    """
    groups, (values,) = _dense(block, totals) if block.known_domain else _listed(totals)
    return groups, values


def _dense(block: Block, totals: Totals) -> tuple[list[GroupTexts], list[NDArray[np.int64]]]:
    """All declared groups, by the positions of their keys, in the domain's order."""
    sizes = [len(key.domain or ()) for key in block.keys]
    size = block.domain_size
    places = np.zeros(len(totals.values[0]), dtype=np.int64)
    for column, number in zip(totals.keys, sizes, strict=True):
        places = places * number + np.array([int(text or 0) - 1 for text in column], dtype=np.int64)
    dense = [np.zeros(size, dtype=np.int64) for _ in totals.values]
    for whole, values in zip(dense, totals.values, strict=True):
        whole[places] = values
    positions = np.unravel_index(np.arange(size), sizes) if sizes else ()
    rows = zip(*positions, strict=True) if sizes else [()]
    groups: list[GroupTexts] = [tuple(str(place + 1) for place in row) for row in rows]
    return groups, dense


def _chosen(
    plan: ViewPlan,
    groups: Sequence[GroupTexts],
    noisy: Sequence[NDArray[np.int64]],
    shown: NDArray[np.bool_],
    listed: frozenset[GroupTexts],
) -> NDArray[np.intp]:
    """The places of the groups that come out, in the order of their keys."""
    block, top = plan.block, plan.block.top_k
    if block.hides_small_groups:
        kinds = [measure.kind for measure in plan.measures]
        units = noisy[kinds.index(MeasureKind.UNITS)]
        shown = shown & (units >= block.parameters.min_units_per_group)
    if top is not None:
        found = np.flatnonzero(shown)
        order = np.argsort(-noisy[top.measure][found], kind="stable")
        return np.sort(found[order[: top.limit]])
    if plan.definition.window is None and not block.hides_small_groups and listed:
        shown = shown | np.array([group in listed for group in groups], dtype=np.bool_)
    return np.flatnonzero(shown)


# -- bytes ----------------------------------------------------------------------------------------


def packed(release: StepRelease) -> Iterator[bytes]:
    """The release of a step as bytes, in parts of a moderate size; at least one."""
    count = len(release.groups)
    for first in range(0, max(1, count), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        document = {
            "view": _VERSION,
            "step": release.step,
            "groups": release.groups[part],
            "values": {
                name: {"kind": column.dtype.kind, "values": column[part].tolist()}
                for name, column in release.values.items()
            },
        }
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        yield text.encode("utf-8", "surrogatepass")


def unpacked(plan: ViewPlan | ListingPlan, step: int, parts: Iterable[bytes]) -> StepRelease:
    """The release that was packed. Raises ``LedgerError`` (``ledger_corrupt``) for anything else.

    Whoever can write to the ledger can put anything there, and none of it is quoted.
    """
    names, width = drawn_columns(plan.block), len(plan.block.keys)
    groups: list[GroupTexts] = []
    values: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    try:
        for part in parts:
            document = json.loads(part)
            _require(document["view"] == _VERSION and document["step"] == step)
            _require(list(document["values"]) == names)
            found = [tuple(group) for group in document["groups"]]
            _require(all(len(group) == width for group in found))
            _require(all(text is None or type(text) is str for group in found for text in group))
            groups += found
            for name, column in document["values"].items():
                values[name].append(_column(column, len(found)))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise _corrupt() from None
    if not all(values.values()):
        raise _corrupt()
    return StepRelease(step, tuple(groups), {n: np.concatenate(c) for n, c in values.items()})


def _column(packed_column: Any, size: int) -> NDArray[Any]:
    kind, listed = packed_column["kind"], packed_column["values"]
    _require(kind in _KINDS and type(listed) is list and len(listed) == size)
    _require(all(type(value) is _KINDS[kind] for value in listed))
    return np.array(listed, dtype=np.int64 if kind == "i" else np.float64)


def _require(sound: bool) -> None:
    if not sound:
        raise _corrupt()


def _corrupt() -> LedgerError:
    return LedgerError(
        "a published step in the ledger is damaged",
        code="ledger_corrupt",
        hint="run `dpsql budget verify`, and restore the ledger from a backup",
    )
