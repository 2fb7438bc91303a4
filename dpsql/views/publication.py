"""What a step of a view publishes: exact totals and keyed noise in, released rows out, as bytes.

The noise of a step is a function of the keys of the steps so far, which are stored with what each
of them has added: whoever calls :func:`draw_step` has its totals from a state that has absorbed it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import LedgerError
from dpsql.ir.measures import MeasureKind
from dpsql.ir.query import Block
from dpsql.kinds.released import drawn_columns
from dpsql.kinds.values import aggregate_answers
from dpsql.pipeline.kept.release_codec import lines_of
from dpsql.views.listing_plan import ListingPlan
from dpsql.views.noise import ViewNoise
from dpsql.views.plan import ViewPlan
from dpsql.views.state import Totals

GroupTexts: TypeAlias = tuple[str | None, ...]
"""The keys of a group as texts; of a declared domain, their positions."""

_VERSION: Final = 2
_AT_ONCE: Final = 8192  # groups of one piece
_LARGE: Final = 2**20  # characters of keys, beyond which a piece ends
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
    plan: ViewPlan,
    step: int,
    totals: Totals,
    noise: ViewNoise,
    listed: Iterable[GroupTexts],
) -> StepRelease:
    """Draw what comes out at a step.

    ``listed`` are the groups of the step before: what came out once stays, with its noisy values,
    which is post-processing; of a top-k, and of a window, only what stands out now.
    Guarantee: over all steps ``plan.loss``, for totals within the bounds of a ``ViewState``.
    """
    if plan.block.known_domain:
        totals = _dense(plan.block, totals)
    noises = noise.at(step, totals.keys, totals.count)
    noisy = [exact + drawn for exact, drawn in zip(totals.values, noises, strict=True)]
    shown = plan.histogram.shown(step, totals.since_start[plan.score], noisy[plan.score])
    chosen = _chosen(plan, totals.keys, noisy, shown, frozenset(listed))
    kept = [values[chosen].astype(np.float64) for values in noisy]
    with np.errstate(all="ignore"):
        answers = aggregate_answers(plan.at(step), kept, {})
    columns = drawn_columns(plan.block)
    groups = tuple(_texts(totals.keys, int(i)) for i in chosen)
    return StepRelease(step, groups, {name: answers[name] for name in columns})


def exact_groups(block: Block, totals: Totals) -> tuple[list[GroupTexts], NDArray[np.int64]]:
    """Return the groups of a step and the exact values of its one measure, of shape (groups,).

    Of a declared domain all groups, by the positions of their keys, in its order; else in an order
    that is private.
    """
    found = _dense(block, totals) if block.known_domain else totals
    (values,) = found.values
    return [_texts(found.keys, i) for i in range(found.count)], values


def _dense(block: Block, totals: Totals) -> Totals:
    """Return the totals of all declared groups, by their keys' positions, in the domain's order."""
    sizes = [len(key.domain or ()) for key in block.keys]
    size = block.domain_size
    places = np.zeros(totals.count, dtype=np.int64)
    for column, number in zip(totals.keys, sizes, strict=True):
        places = places * number + np.array([int(text or 0) - 1 for text in column], dtype=np.int64)
    dense = [np.zeros(size, dtype=np.int64) for _ in totals.values]
    for whole, values in zip(dense, totals.values, strict=True):
        whole[places] = values
    positions = np.unravel_index(np.arange(size), sizes) if sizes else ()
    keys: list[list[str | None]] = [list(map(str, (row + 1).tolist())) for row in positions]
    return Totals(size, keys, dense, dense)  # all of them exist


def _texts(keys: Sequence[Sequence[str | None]], place: int) -> GroupTexts:
    return tuple([column[place] for column in keys])


def _chosen(
    plan: ViewPlan,
    keys: Sequence[Sequence[str | None]],
    noisy: Sequence[NDArray[np.int64]],
    shown: NDArray[np.bool_],
    listed: frozenset[GroupTexts],
) -> NDArray[np.intp]:
    """Return the places of the groups that come out, in the order of their keys."""
    block, top = plan.block, plan.block.top_k
    if block.hides_small_groups:
        kinds = [measure.kind for measure in plan.measures]
        units = noisy[kinds.index(MeasureKind.UNITS)]
        shown = shown & (units >= block.parameters.min_units_per_group)
    if listed and top is None and plan.definition.window is None and not block.hides_small_groups:
        groups = zip(*keys, strict=True) if keys else [()]
        shown = shown | np.array([group in listed for group in groups], dtype=np.bool_)
    # Before anything depends on the order: that of the totals is private.
    found = np.flatnonzero(shown)
    if not block.known_domain:
        found = found[_by_keys(keys, found)]
    if top is None:
        return found
    order = np.argsort(-noisy[top.measure][found], kind="stable")
    return found[np.sort(order[: top.limit])]


def _by_keys(keys: Sequence[Sequence[str | None]], places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the order of some groups by their keys as texts, NULL last."""
    ranks = [[(text is None, text or "") for text in (k[i] for i in places)] for k in keys]
    rows = list(zip(*ranks, strict=True)) if ranks else [()] * len(places)
    return np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.intp)


# -- bytes ----------------------------------------------------------------------------------------


def packed(release: StepRelease) -> Iterator[bytes]:
    """Return the release of a step as bytes, in pieces of some groups, each of which is a line.

    Going through them fails on no value: raises ``ValueError`` at once for what is no number.
    """
    if not all(np.isfinite(column).all() for column in release.values.values()):
        raise ValueError("a value of a step is no number")
    return (_line(release, part) for part in _parts(release.groups))


def _parts(groups: Sequence[GroupTexts]) -> Iterator[slice]:
    """Divide groups into parts of a moderate size, whatever their texts are; at least one."""
    first = size = 0
    for place, group in enumerate(groups):
        if place - first == _AT_ONCE or size > _LARGE:
            yield slice(first, place)
            first, size = place, 0
        size += sum(len(text) for text in group if text is not None)
    yield slice(first, len(groups))


def _line(release: StepRelease, part: slice) -> bytes:
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
    return text.encode("utf-8", "surrogatepass") + b"\n"


def unpacked(plan: ViewPlan | ListingPlan, step: int, parts: Iterable[bytes]) -> StepRelease:
    """Unpack the release that was packed. Raises ``LedgerError`` (``ledger_corrupt``) for all else.

    Whoever can write to the ledger can put anything there, and none of it is quoted.
    """
    names, width = drawn_columns(plan.block), len(plan.block.keys)
    groups: list[GroupTexts] = []
    values: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    try:
        for line in lines_of(parts):
            document = json.loads(line)
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
