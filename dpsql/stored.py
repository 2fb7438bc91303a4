"""Stored releases: a release as bytes and back, so that the same question again costs nothing.

The bytes are JSON: the keys of the groups that came out, and the values that were drawn for them.
What follows from those and the plan (intervals, noise columns, the tail) is computed again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting import ZERO
from dpsql.engines.base import ArrowStream, KeyArrays
from dpsql.ledger import MAX_RELEASE
from dpsql.plan import BlockPlan
from dpsql.release import ReleasedRows, with_noise_columns
from dpsql.schema import Column
from dpsql.tail import TailRoom

_VERSION: Final = 1
_LEAST_BYTES = 2  # that a row takes in JSON


def pack(
    room: TailRoom,
    plans: Sequence[BlockPlan],
    keys: Sequence[Sequence[Column]],
    released: Sequence[ReleasedRows],
) -> bytes | None:
    """A statement's release as bytes, or None where it is too large or keys have no exact text."""
    if sum(rows.count for rows in released) * _LEAST_BYTES > MAX_RELEASE:
        return None
    blocks = []
    for plan, columns, rows in zip(plans, keys, released, strict=True):
        packed = _packed_block(room, plan, columns, rows)
        if packed is None:
            return None
        blocks.append(packed)
    document = {"release": _VERSION, "blocks": blocks}
    payload = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    encoded = payload.encode()
    return encoded if len(encoded) <= MAX_RELEASE else None


def unpack(
    room: TailRoom,
    plans: Sequence[BlockPlan],
    keys: Sequence[Sequence[Column]],
    payload: bytes,
) -> tuple[ReleasedRows, ...] | None:
    """The release that was packed, at no cost; None if it is not one of these plans and keys."""
    document = json.loads(payload)
    if document.get("release") != _VERSION:
        return None
    types = [[column.type for column in columns] for columns in keys]
    if [block["types"] for block in document["blocks"]] != types:
        return None
    blocks = zip(plans, keys, document["blocks"], strict=True)
    return tuple(_unpacked_block(room, *each) for each in blocks)


def _packed_block(
    room: TailRoom, plan: BlockPlan, columns: Sequence[Column], rows: ReleasedRows
) -> dict[str, Any] | None:
    """One block in an order that its keys decide.

    Row numbers and their order stay behind: they are those of the exact rows, and would tell the
    true ranks of groups, or how many there are. Checked by ``tests/test_stored.py``.
    """
    found, dtypes = _key_lists(room, columns, rows)
    if found is None:
        return None
    places = sorted(
        range(rows.count),
        key=lambda row: [(column[row] is None, str(column[row])) for column in found],
    )
    if plan.declared:  # rows are positions in the declared domain, which are public
        places = np.argsort(rows.row_ids, kind="stable").tolist()
    return {
        "types": [column.type for column in columns],
        "positions": rows.row_ids[places].tolist() if plan.declared else None,
        "dtypes": dtypes,
        "keys": [[column[row] for row in places] for column in found],
        "values": {name: _packed(rows.values[name][places]) for name in _drawn(plan, rows)},
    }


def _unpacked_block(
    room: TailRoom, plan: BlockPlan, columns: Sequence[Column], block: dict[str, Any]
) -> ReleasedRows:
    values = {name: _unpacked(**packed) for name, packed in block["values"].items()}
    positions = block["positions"]
    keys: KeyArrays | ArrowStream | None = None
    if positions is None:
        positions = list(range(1, len(block["keys"][0]) + 1))
        if block["dtypes"] is None:
            keys = room.keys_of_texts(columns, block["keys"], positions)
        else:
            lists = zip(columns, block["dtypes"], block["keys"], strict=True)
            keys = {column.name: _unpacked(dtype, found) for column, dtype, found in lists}
    return ReleasedRows(
        row_ids=np.array(positions, dtype=np.int64),
        keys=keys,
        values=with_noise_columns(plan, values),
        loss=ZERO,
    )


def _drawn(plan: BlockPlan, rows: ReleasedRows) -> list[str]:
    told = {plan.block.noise_column(index) for index in range(len(plan.block.noise_columns))}
    return [name for name in rows.values if name not in told]


def _key_lists(
    room: TailRoom, columns: Sequence[Column], rows: ReleasedRows
) -> tuple[list[list[Any]] | None, list[str] | None]:
    """Keys as values of plain types, with these, or as the engine's texts of others."""
    if rows.keys is None:
        return [], None
    if isinstance(rows.keys, dict):
        arrays = [rows.keys[column.name] for column in columns]
        return [array.tolist() for array in arrays], [array.dtype.str for array in arrays]
    return room.key_texts(columns, rows.keys, rows.row_ids), None


def _packed(column: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": column.dtype.str, "values": column.tolist()}


def _unpacked(dtype: str, values: list[Any]) -> NDArray[Any]:
    type_ = np.dtype(dtype)
    missing = [value is None for value in values]
    if not any(missing):
        return np.array(values, dtype=type_)
    filler = None if type_.hasobject else 0
    filled = [filler if value is None else value for value in values]
    column: NDArray[Any] = np.ma.array(np.array(filled, dtype=type_), mask=missing)
    return column
