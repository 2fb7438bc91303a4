"""Stored releases: a release as bytes and back, so that the same question again costs nothing.

The bytes are JSON: the keys of the groups that came out, the values that were drawn for them, and
the law of the noise in them, by which releases under other parameters can be put together.
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
from dpsql.accuracy.combination import release_noise
from dpsql.core.schema import Column
from dpsql.engines.base import ArrowStream, KeyArrays
from dpsql.errors import ParameterError
from dpsql.ir.plan import BlockPlan, PreparedBlock, PreparedLook
from dpsql.ledger import MAX_RELEASE
from dpsql.mechanisms.left_out import LeftOutNoise, LeftOutRelease, left_out_noise
from dpsql.pipeline.damaged_release import corrupt_release, require_sound
from dpsql.pipeline.finer import FinerRelease, checked_description, described
from dpsql.pipeline.key_spelling import KeySpelling
from dpsql.pipeline.noise_codec import packed_noise, unpacked_noise
from dpsql.pipeline.released import (
    NumericArray,
    ReleasedBlock,
    ReleasedLook,
    ReleasedRows,
    drawn_columns,
    with_noise_columns,
)

_VERSION: Final = 3
_LOOK_VERSION: Final = 1
STALE_PRICE: Final = 0.25
"""The part of a look's present price below which an older release of it is asked for anew."""
_LOOK_PARTS: Final = frozenset({"look", "rho", "epsilon", "kept", "rungs"})
_LEAST_BYTES = 2  # that a row takes in JSON
_PARTS: Final = frozenset({"types", "positions", "dtypes", "keys", "values", "noise"})
_DTYPES: Final = frozenset(
    {np.dtype(kind).str for kind in ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "d", "O")}
)
_NUMBERS: Final = "if"  # kinds of numpy's types, of values and of keys
_KEYS: Final = "biuO"
_MOST: Final = 2.0**1000  # beyond any value, and its intervals are numbers still


def encode_release(
    spelling: KeySpelling, released: Sequence[ReleasedBlock], *, alone: bool = False
) -> bytes | None:
    """Pack a release into bytes, or None where it is too large or keys have no exact text.

    ``alone`` notes that it was asked for afresh, to stand alone.
    """
    if sum(each.rows.count for each in released) * _LEAST_BYTES > MAX_RELEASE:
        return None
    blocks = []
    for each in released:
        packed = _packed_block(spelling, each.block, each.rows)
        if packed is None:
            return None
        noise = release_noise(each.block.plan, each.rows.count, alone=alone)
        blocks.append(packed | {"noise": None if noise is None else packed_noise(noise)})
    sums = described([each.block.plan for each in released])
    document = {"release": _VERSION, "blocks": blocks, "sums": sums}
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
        require_sound(isinstance(part, dict) and part.keys() == _PARTS)
    types = [[column.type for column in block.keys] for block in blocks]
    if [part["types"] for part in packed] != types:
        return None
    with np.errstate(all="ignore"):  # of values that no noise has
        return tuple(
            ReleasedBlock(
                block,
                _unpacked_rows(spelling, block, part),
                unpacked_noise(part["noise"], len(block.plan.block.measures)),
            )
            for block, part in zip(blocks, packed, strict=True)
        )


def decode_finer(payload: bytes) -> FinerRelease | None:
    """Unpack a release whose groups can be added up; None if it is none, or of another format.

    Raises ``LedgerError`` (``ledger_corrupt``) as :func:`decode_release` does.
    """
    document = _document(payload)
    if document["release"] != _VERSION or document.get("sums") is None:
        return None
    sums, packed = checked_description(document["sums"]), _list(document.get("blocks"))
    require_sound(len(packed) == 1 and isinstance(packed[0], dict) and packed[0].keys() == _PARTS)
    (part,) = packed
    measures = [(digest, column) for digest, column in sums["measures"]]
    noise = unpacked_noise(part["noise"], len(measures))
    if noise is None:
        return None
    require_sound(isinstance(part["values"], dict))
    known, count = part["values"], len(_list(part["positions"]))
    require_sound(part["positions"] == list(range(count)))
    values = {}
    for _, name in measures:
        column = known.get(name)
        require_sound(isinstance(column, dict) and column.keys() == {"dtype", "values"})
        values[name] = _unpacked(_NUMBERS, **column)
        require_sound(type(values[name]) is np.ndarray and len(values[name]) == count)
    columns = {digest: (name, index) for index, (digest, name) in enumerate(measures)}
    keys = tuple(sums["keys"])
    return FinerRelease(sums["rows"], keys, sums["kept"], columns, values, noise)


def encode_look(found: ReleasedLook) -> bytes:
    """Pack what was released of a look into bytes, with the price that says how noisy it is."""
    noise, release = found.noise, found.release
    document = {
        "look": _LOOK_VERSION,
        "rho": noise.rho,
        "epsilon": noise.epsilon,
        "kept": release.kept,
        "rungs": release.rungs,
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def decode_look(look: PreparedLook, payload: bytes) -> ReleasedLook | None:
    """Unpack what was released of a look; None if it is too noisy to be used again.

    That is a release of less than ``STALE_PRICE`` of what the look costs now. Raises
    ``LedgerError`` (``ledger_corrupt``) for what no look was packed as.
    """
    document = _json_object(payload)
    require_sound(document.keys() == _LOOK_PARTS)
    if document["look"] != _LOOK_VERSION:
        return None
    float64, rungs = np.dtype(np.float64), _list(document["rungs"])
    now = look.look.noise
    require_sound(len(rungs) == now.ladder.rungs)
    require_sound(all(_fits(document[part], float64) for part in ("rho", "epsilon", "kept")))
    require_sound(all(_fits(rung, float64) for rung in rungs))
    rho, epsilon = float(document["rho"]), float(document["epsilon"])
    require_sound(0.0 <= min(rho, epsilon) == 0.0 < max(rho, epsilon))
    if rho < STALE_PRICE * now.rho or epsilon < STALE_PRICE * now.epsilon:
        return None
    release = LeftOutRelease(float(document["kept"]), tuple(map(float, rungs)))
    return ReleasedLook(_noise_at(now, rho, epsilon), release)


def _noise_at(noise: LeftOutNoise, rho: float, epsilon: float) -> LeftOutNoise:
    """Build the same noise at the price that was paid for it."""
    if (rho, epsilon) == (noise.rho, noise.epsilon):
        return noise
    try:
        return left_out_noise(noise.most, noise.ladder, rho=rho, epsilon=epsilon)
    except ParameterError:
        raise corrupt_release() from None


def _json_object(payload: object) -> dict[str, Any]:
    try:
        require_sound(isinstance(payload, str | bytes))
        document = json.loads(payload, parse_constant=_no_constant)  # type: ignore[arg-type]
    except (ValueError, RecursionError, MemoryError):
        raise corrupt_release() from None
    require_sound(isinstance(document, dict))
    found: dict[str, Any] = document
    return found


def _document(payload: object) -> dict[str, Any]:
    found = _json_object(payload)
    require_sound(type(found.get("release")) is int)
    return found


def _no_constant(name: str) -> None:
    """Refuse NaN and the infinities, which Python's reader of JSON knows."""
    raise ValueError


def _list(value: object) -> list[Any]:
    require_sound(isinstance(value, list))
    found: list[Any] = value  # type: ignore[assignment]
    return found


def _packed_block(
    spelling: KeySpelling, block: PreparedBlock, rows: ReleasedRows
) -> dict[str, Any] | None:
    """Pack one block in an order that its keys decide.

    Row numbers and their order stay behind: they are those of the exact rows, and would tell the
    true ranks of groups, or how many there are. Checked by ``tests/pipeline/test_stored.py``.
    """
    plan, columns = block.plan, block.keys
    found, dtypes = key_lists(spelling, columns, rows)
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
        require_sound(packed["keys"] == [] and packed["dtypes"] is None)
        keys: KeyArrays | ArrowStream | None = None
    else:
        require_sound(packed["positions"] is None)
        lists = [_list(found) for found in _list(packed["keys"])]
        require_sound(0 < len(lists) == len(columns))
        positions = list(range(1, len(lists[0]) + 1))
        require_sound(all(len(found) == len(positions) for found in lists))
        keys = unpacked_keys(spelling, columns, packed["dtypes"], lists, positions)
    require_sound(all(len(found) == len(positions) for found in values.values()))
    return ReleasedRows(
        row_ids=np.array(positions, dtype=np.int64),
        keys=keys,
        values=with_noise_columns(plan, values),
        loss=ZERO,
    )


def _positions(plan: BlockPlan, found: object) -> list[int]:
    """Read positions in the declared domain, each once and in order."""
    positions = _list(found)
    require_sound(all(type(position) is int for position in positions))
    require_sound(all(0 <= position < plan.block.domain_size for position in positions))
    require_sound(all(one < other for one, other in pairwise(positions)))
    return positions


def _unpacked_values(plan: BlockPlan, found: object) -> dict[str, NumericArray]:
    """Read the values of each column that was drawn, and of no others, in the plan's order."""
    require_sound(isinstance(found, dict) and list(found) == drawn_columns(plan.block))
    columns: dict[str, Any] = found  # type: ignore[assignment]
    for packed in columns.values():
        require_sound(isinstance(packed, dict) and packed.keys() == {"dtype", "values"})
    drawn = {name: _unpacked(_NUMBERS, **packed) for name, packed in columns.items()}
    require_sound(all(type(column) is np.ndarray for column in drawn.values()))  # none is masked
    return drawn


def unpacked_keys(
    spelling: KeySpelling,
    columns: Sequence[Column],
    dtypes: object,
    lists: list[list[Any]],
    positions: list[int],
) -> KeyArrays | ArrowStream:
    """Return keys from lists of :func:`key_lists`; raise ``LedgerError`` for what is no such."""
    if dtypes is None:
        for texts in lists:
            require_sound(all(_is_text(text) for text in texts))
        stream = spelling.keys_of_texts(columns, lists, positions)
        require_sound(stream is not None)
        assert stream is not None
        return stream
    known = _list(dtypes)
    require_sound(len(known) == len(columns))
    found = zip(columns, known, lists, strict=True)
    return {column.name: _unpacked(_KEYS, dtype, values) for column, dtype, values in found}


def _drawn(plan: BlockPlan, rows: ReleasedRows) -> list[str]:
    told = {plan.block.noise_column(index) for index in range(len(plan.block.noise_columns))}
    return [name for name in rows.values if name not in told]


def key_lists(
    spelling: KeySpelling, columns: Sequence[Column], rows: ReleasedRows
) -> tuple[list[list[Any]] | None, list[str] | None]:
    """Return keys as values of plain types, with these, or as the engine's texts of others.

    No lists where keys have no exact text, and empty ones where they are declared.
    """
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
    require_sound(isinstance(dtype, str) and dtype in _DTYPES)
    type_, listed = np.dtype(str(dtype)), _list(values)
    require_sound(type_.kind in kinds)
    missing = [value is None for value in listed]
    require_sound(
        all(gone or _fits(value, type_) for value, gone in zip(listed, missing, strict=True))
    )
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
