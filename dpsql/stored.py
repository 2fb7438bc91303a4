"""Stored releases: a release as bytes and back, so that the same question again costs nothing.

The bytes are JSON: which groups of each block came out, their keys, the values that were drawn.
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
        packed = _packed_keys(room, columns, rows)
        if packed is None and rows.keys is not None:
            return None
        drawn = {name: _packed(rows.values[name]) for name in _drawn(plan, rows)}
        blocks.append(
            {
                "row_ids": rows.row_ids.tolist(),
                "types": [column.type for column in columns],
                "keys": packed,
                "values": drawn,
            }
        )
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
    return tuple(
        ReleasedRows(
            row_ids=np.array(block["row_ids"], dtype=np.int64),
            keys=_unpacked_keys(room, columns, block),
            values=with_noise_columns(
                plan, {name: _unpacked(value) for name, value in block["values"].items()}
            ),
            loss=ZERO,
        )
        for plan, columns, block in zip(plans, keys, document["blocks"], strict=True)
    )


def _drawn(plan: BlockPlan, rows: ReleasedRows) -> list[str]:
    told = {plan.block.noise_column(index) for index in range(len(plan.block.noise_columns))}
    return [name for name in rows.values if name not in told]


def _packed_keys(room: TailRoom, columns: Sequence[Column], rows: ReleasedRows) -> list[Any] | None:
    """Keys as JSON: values of plain types, or the engine's texts of others."""
    if rows.keys is None:
        return None
    if isinstance(rows.keys, dict):
        return [_packed(rows.keys[column.name]) for column in columns]
    return room.key_texts(columns, rows.keys, rows.row_ids)


def _unpacked_keys(
    room: TailRoom, columns: Sequence[Column], block: dict[str, Any]
) -> KeyArrays | ArrowStream | None:
    packed = block["keys"]
    if packed is None:
        return None
    if packed and isinstance(packed[0], dict):
        return {c.name: _unpacked(value) for c, value in zip(columns, packed, strict=True)}
    return room.keys_of_texts(columns, packed, block["row_ids"])


def _packed(column: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": column.dtype.str, "values": column.tolist()}


def _unpacked(packed: dict[str, Any]) -> NDArray[Any]:
    dtype, values = np.dtype(packed["dtype"]), packed["values"]
    missing = [value is None for value in values]
    if not any(missing):
        return np.array(values, dtype=dtype)
    filler = None if dtype.hasobject else 0
    filled = [filler if value is None else value for value in values]
    column: NDArray[Any] = np.ma.array(np.array(filled, dtype=dtype), mask=missing)
    return column
