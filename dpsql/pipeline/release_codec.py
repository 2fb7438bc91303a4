"""Stored releases: a release as bytes and back, so that the same question again costs nothing.

The bytes are JSON: the keys of the groups that came out, and the values that were drawn for them.
What follows from those and the plan (intervals, noise columns, the tail) is computed again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.zcdp import ZERO
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream, KeyArrays
from dpsql.errors import LedgerError
from dpsql.ir.plan import BlockPlan, PreparedBlock
from dpsql.ledger import MAX_RELEASE
from dpsql.pipeline.key_spelling import KeySpelling
from dpsql.pipeline.released import (
    NumericArray,
    ReleasedBlock,
    ReleasedRows,
    drawn_columns,
    with_noise_columns,
)

_VERSION: Final = 1
_LEAST_BYTES = 2  # that a row takes in JSON
_PARTS: Final = frozenset({"types", "positions", "dtypes", "keys", "values"})
_DTYPES: Final = frozenset(
    {np.dtype(kind).str for kind in ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "d", "O")}
)
_NUMBERS: Final = "if"  # kinds of numpy's types, of values and of keys
_KEYS: Final = "biuO"
_MOST: Final = 2.0**1000  # beyond any value, and its intervals are numbers still


def encode_release(spelling: KeySpelling, released: Sequence[ReleasedBlock]) -> bytes | None:
    """Pack a release into bytes, or None where it is too large or keys have no exact text."""
    if sum(each.rows.count for each in released) * _LEAST_BYTES > MAX_RELEASE:
        return None
    blocks = []
    for each in released:
        packed = _packed_block(spelling, each.block, each.rows)
        if packed is None:
            return None
        blocks.append(packed)
    document = {"release": _VERSION, "blocks": blocks}
    payload = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    encoded = payload.encode()
    return encoded if len(encoded) <= MAX_RELEASE else None


def decode_release(
    spelling: KeySpelling, blocks: Sequence[PreparedBlock], payload: bytes
) -> tuple[ReleasedBlock, ...] | None:
    """Unpack a release, at no cost; None if it is not one of these blocks.

    Raises ``LedgerError`` (``ledger_corrupt``) for what no release was packed as. Whoever can write
    to the ledger's file can put anything there, and none of it is quoted.
    """
    document = _document(payload)
    if document["release"] != _VERSION:
        return None
    packed = _list(document.get("blocks"))
    for part in packed:
        _require(isinstance(part, dict) and part.keys() == _PARTS)
    types = [[column.type for column in block.keys] for block in blocks]
    if [part["types"] for part in packed] != types:
        return None
    with np.errstate(all="ignore"):  # of values that no noise has
        return tuple(
            ReleasedBlock(block, _unpacked_rows(spelling, block, part))
            for block, part in zip(blocks, packed, strict=True)
        )


def _document(payload: object) -> dict[str, Any]:
    try:
        _require(isinstance(payload, str | bytes))
        document = json.loads(payload, parse_constant=_no_constant)  # type: ignore[arg-type]
    except (ValueError, RecursionError, MemoryError):
        raise _corrupt() from None
    _require(isinstance(document, dict) and type(document.get("release")) is int)
    found: dict[str, Any] = document
    return found


def _no_constant(name: str) -> None:
    """Refuse NaN and the infinities, which Python's reader of JSON knows."""
    raise ValueError


def _list(value: object) -> list[Any]:
    _require(isinstance(value, list))
    found: list[Any] = value  # type: ignore[assignment]
    return found


def _require(sound: bool) -> None:
    if not sound:
        raise _corrupt()


def _corrupt() -> LedgerError:
    return LedgerError(
        "a stored release in the ledger is damaged",
        code="ledger_corrupt",
        hint="Run `dpsql budget verify`, and restore the ledger from a backup. Asked afresh, the "
        "question is paid for again.",
    )


def _packed_block(
    spelling: KeySpelling, block: PreparedBlock, rows: ReleasedRows
) -> dict[str, Any] | None:
    """Pack one block in an order that its keys decide.

    Row numbers and their order stay behind: they are those of the exact rows, and would tell the
    true ranks of groups, or how many there are. Checked by ``tests/pipeline/test_stored.py``.
    """
    plan, columns = block.plan, block.keys
    found, dtypes = _key_lists(spelling, columns, rows)
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


def _unpacked_rows(
    spelling: KeySpelling, block: PreparedBlock, packed: dict[str, Any]
) -> ReleasedRows:
    plan, columns = block.plan, block.keys
    values = _unpacked_values(plan, packed["values"])
    if plan.declared:
        positions = _positions(plan, packed["positions"])
        _require(packed["keys"] == [] and packed["dtypes"] is None)
        keys: KeyArrays | ArrowStream | None = None
    else:
        _require(packed["positions"] is None)
        lists = [_list(found) for found in _list(packed["keys"])]
        _require(0 < len(lists) == len(columns))
        positions = list(range(1, len(lists[0]) + 1))
        _require(all(len(found) == len(positions) for found in lists))
        keys = _unpacked_keys(spelling, columns, packed["dtypes"], lists, positions)
    _require(all(len(found) == len(positions) for found in values.values()))
    return ReleasedRows(
        row_ids=np.array(positions, dtype=np.int64),
        keys=keys,
        values=with_noise_columns(plan, values),
        loss=ZERO,
    )


def _positions(plan: BlockPlan, found: object) -> list[int]:
    """Read positions in the declared domain, each once and in order."""
    positions = _list(found)
    _require(all(type(position) is int for position in positions))
    _require(all(0 <= position < plan.block.domain_size for position in positions))
    _require(all(one < other for one, other in pairwise(positions)))
    return positions


def _unpacked_values(plan: BlockPlan, found: object) -> dict[str, NumericArray]:
    """Read the values of each column that was drawn, and of no others, in the plan's order."""
    _require(isinstance(found, dict) and list(found) == drawn_columns(plan.block))
    columns: dict[str, Any] = found  # type: ignore[assignment]
    for packed in columns.values():
        _require(isinstance(packed, dict) and packed.keys() == {"dtype", "values"})
    drawn = {name: _unpacked(_NUMBERS, **packed) for name, packed in columns.items()}
    _require(all(type(column) is np.ndarray for column in drawn.values()))  # none is masked
    return drawn


def _unpacked_keys(
    spelling: KeySpelling,
    columns: Sequence[Column],
    dtypes: object,
    lists: list[list[Any]],
    positions: list[int],
) -> KeyArrays | ArrowStream:
    if dtypes is None:
        for texts in lists:
            _require(all(_is_text(text) for text in texts))
        stream = spelling.keys_of_texts(columns, lists, positions)
        _require(stream is not None)
        assert stream is not None
        return stream
    known = _list(dtypes)
    _require(len(known) == len(columns))
    found = zip(columns, known, lists, strict=True)
    return {column.name: _unpacked(_KEYS, dtype, values) for column, dtype, values in found}


def _drawn(plan: BlockPlan, rows: ReleasedRows) -> list[str]:
    told = {plan.block.noise_column(index) for index in range(len(plan.block.noise_columns))}
    return [name for name in rows.values if name not in told]


def _key_lists(
    spelling: KeySpelling, columns: Sequence[Column], rows: ReleasedRows
) -> tuple[list[list[Any]] | None, list[str] | None]:
    """Return keys as values of plain types, with these, or as the engine's texts of others."""
    if rows.keys is None:
        return [], None
    if isinstance(rows.keys, dict):
        arrays = [rows.keys[column.name] for column in columns]
        return [array.tolist() for array in arrays], [array.dtype.str for array in arrays]
    return spelling.key_texts(columns, rows.keys, rows.row_ids), None


def _packed(column: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": column.dtype.str, "values": column.tolist()}


def _unpacked(kinds: str, dtype: object, values: object) -> NDArray[Any]:
    """Read a column of one of these kinds of types, its values all of that type or missing."""
    _require(isinstance(dtype, str) and dtype in _DTYPES)
    type_, listed = np.dtype(str(dtype)), _list(values)
    _require(type_.kind in kinds)
    missing = [value is None for value in listed]
    _require(all(gone or _fits(value, type_) for value, gone in zip(listed, missing, strict=True)))
    if not any(missing):
        return np.array(listed, dtype=type_)
    filler = None if type_.hasobject else 0
    filled = [filler if gone else value for value, gone in zip(listed, missing, strict=True)]
    column: NDArray[Any] = np.ma.array(np.array(filled, dtype=type_), mask=missing)
    return column


def _fits(value: object, type_: np.dtype[Any]) -> bool:
    """Tell whether a value is one that a column of the type had."""
    match type_.kind:
        case "b":
            return type(value) is bool
        case "f":
            return type(value) in (int, float) and abs(value) <= _MOST  # type: ignore[arg-type]
        case "O":
            return value is not None and _is_text(value)
    limits = np.iinfo(type_)
    return type(value) is int and limits.min <= value <= limits.max


def _is_text(value: object) -> bool:
    """Tell whether a value is NULL, or a text that an engine can hold."""
    if value is None:
        return True
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)
