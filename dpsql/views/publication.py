"""The release of a view's step: its rows, and the bytes that the ledger keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import LedgerError
from dpsql.kinds.released import drawn_columns
from dpsql.pipeline.kept.release_codec import lines_of
from dpsql.views.plan import ViewPlan

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


def packed(release: StepRelease) -> Iterator[bytes]:
    """Return the release of a step as bytes, in pieces of some groups, one line each.

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


def unpacked(plan: ViewPlan, step: int, parts: Iterable[bytes]) -> StepRelease:
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
