"""Stored releases: a release as bytes and back, so that the same question again costs nothing.

The bytes are JSON: the keys of the groups that came out, the values that were drawn for them, and
the law of the noise in them, by which releases under other parameters can be pooled.
What follows from those and the plan (intervals, noise columns, the tail) is computed again.

A release of many rows is a document on each line: the first says what there is, the others have
some thousand rows each. So neither writing nor reading takes more than a few of them at a time.

The laws of noise are public, like the plan that a release was of.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpsql.core.schema import Column
from dpsql.engines.base.engine import ArrowStream, KeyArrays
from dpsql.errors import ParameterError
from dpsql.ir.plan import BlockPlan, PreparedBlock, ReleaseNoise
from dpsql.kinds.registry import release_kind
from dpsql.kinds.released import NumericArray, ReleasedBlock, ReleasedRows, drawn_columns
from dpsql.kinds.stored_json import (
    corrupt_release,
    fits_type,
    json_list,
    json_object,
    require_sound,
    stored_text,
)
from dpsql.pipeline.kept.roll_up_source import RollUpSource, checked_description, described
from dpsql.pipeline.tail.key_spelling import KeySpelling
from dpsql.privacy.accounting.zcdp import ZERO
from dpsql.privacy.mechanisms.pooling import PublishedNoise, noise_of_law

_VERSION: Final = 3
_LARGE_VERSION: Final = 4  # on lines
_WHOLE: Final = 32_768  # rows of a release that is one document
_LINE: Final = 8192  # rows of a line
_PARTS: Final = frozenset({"types", "positions", "dtypes", "keys", "values", "noise"})
_LINE_PARTS: Final = frozenset({"block", "positions", "keys", "values"})
_DTYPES: Final = frozenset(
    {np.dtype(kind).str for kind in ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "d", "O")}
)
_NUMBERS: Final = "if"  # kinds of numpy's types, of values and of keys
_KEYS: Final = "biuO"


def encode_release(
    spelling: KeySpelling, released: Sequence[ReleasedBlock], *, alone: bool = False
) -> Iterable[bytes] | None:
    """Pack a release into pieces of bytes, or return None where keys have no exact text.

    They can be gone through again and again. ``alone`` notes that it was asked for afresh, to stand
    alone. Going through the pieces of a large release may raise ``EngineError``.
    """
    if sum(each.rows.count for each in released) > _WHOLE:
        large = _LargeRelease(spelling, tuple(released), alone)
        return large if large.exact else None
    blocks = []
    for each in released:
        packed = _packed_block(spelling, each.block, each.rows)
        if packed is None:
            return None
        blocks.append(packed | {"noise": _noise_of(each, alone)})
    sums = described([each.block.plan for each in released])
    return (_json({"release": _VERSION, "blocks": blocks, "sums": sums}),)


class _LargeRelease:
    """A release of many rows, as lines."""

    def __init__(
        self, spelling: KeySpelling, released: tuple[ReleasedBlock, ...], alone: bool
    ) -> None:
        self._spelling = spelling
        self._released = released
        self._alone = alone

    @property
    def exact(self) -> bool:
        """True if all keys have exact texts."""
        return all(
            rows.keys is None
            or isinstance(rows.keys, dict)
            or self._spelling.exact(each.block.keys, rows.keys, rows.row_ids)
            for each in self._released
            for rows in (each.rows,)
        )

    def __iter__(self) -> Iterator[bytes]:
        blocks = [
            {
                "types": [str(column.type) for column in each.block.keys],
                "dtypes": _dtypes(each),
                "values": {name: each.rows.values[name].dtype.str for name in _drawn_of(each)},
                "noise": _noise_of(each, self._alone),
            }
            for each in self._released
        ]
        sums = described([each.block.plan for each in self._released])
        yield _json({"release": _LARGE_VERSION, "blocks": blocks, "sums": sums}) + b"\n"
        for number, each in enumerate(self._released):
            for places, keys in self._in_order(each):
                line = {
                    "block": number,
                    "positions": _row_ids(each, places),
                    "keys": keys,
                    "values": {
                        name: each.rows.values[name][places].tolist() for name in _drawn_of(each)
                    },
                }
                yield _json(line) + b"\n"

    def _in_order(self, each: ReleasedBlock) -> Iterator[tuple[NDArray[np.int64], list[list[Any]]]]:
        """Go through a block's rows, some at a time, in an order that keys alone decide."""
        rows, columns = each.rows, each.block.keys
        if rows.keys is not None and not isinstance(rows.keys, dict):
            yield from self._spelling.texts_in_order(columns, rows.keys, rows.row_ids, _LINE)
            return
        if each.block.plan.declared:
            order, arrays = np.argsort(rows.row_ids, kind="stable"), []
        else:
            assert rows.keys is not None, "groups without declared keys have some"
            arrays = [rows.keys[column.name] for column in columns]
            order = np.lexsort([rank for array in reversed(arrays) for rank in _ranks(array)])
        for start in range(0, rows.count, _LINE):
            places = order[start : start + _LINE].astype(np.int64)
            yield places, [array[places].tolist() for array in arrays]


def _ranks(array: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the ranks of a column's values, and which of them are missing: to sort by."""
    missing = np.ma.getmaskarray(array)
    filled = np.ma.getdata(array)
    if filled.dtype.hasobject:
        missing = missing | np.array([value is None for value in filled], dtype=bool)
        filled = np.where(missing, "", filled)
    else:
        filled = np.where(missing, filled.dtype.type(0), filled)
    return np.unique(filled, return_inverse=True)[1].astype(np.int64), missing


def _row_ids(each: ReleasedBlock, places: NDArray[np.int64]) -> list[int] | None:
    """Return positions in the declared domain; row numbers of the exact rows stay behind."""
    found: list[int] = each.rows.row_ids[places].tolist()
    return found if each.block.plan.declared else None


def _dtypes(each: ReleasedBlock) -> list[str] | None:
    keys = each.rows.keys
    if not isinstance(keys, dict):
        return None
    return [keys[column.name].dtype.str for column in each.block.keys]


def _drawn_of(each: ReleasedBlock) -> list[str]:
    return _drawn(each.block.plan, each.rows)


def _noise_of(each: ReleasedBlock, alone: bool) -> dict[str, Any] | None:
    plan = each.block.plan
    noise = release_kind(plan).published(each.rows.count, alone=alone)
    return None if noise is None else packed_noise(noise)


def _json(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def decode_release(
    spelling: KeySpelling, blocks: Sequence[PreparedBlock], pieces: Iterable[bytes]
) -> tuple[ReleasedBlock, ...] | None:
    """Unpack a release, at no cost; None for a release of other blocks.

    Raises ``LedgerError`` (``ledger_corrupt``) for what no release was packed as. Whoever can write
    to the ledger's file can put anything there, and none of it is quoted.
    """
    document = _document(pieces)
    if document is None:
        return None
    packed = json_list(document.get("blocks"))
    for part in packed:
        require_sound(isinstance(part, dict) and part.keys() == _PARTS)
    types = [[str(column.type) for column in block.keys] for block in blocks]
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


def decode_roll_up_source(pieces: Iterable[bytes]) -> RollUpSource | None:
    """Unpack a release whose groups can be rolled up; None for all other releases.

    Raises ``LedgerError`` (``ledger_corrupt``) as :func:`decode_release` does.
    """
    document = _document(pieces)
    if document is None or document.get("sums") is None:
        return None
    sums, packed = checked_description(document["sums"]), json_list(document.get("blocks"))
    require_sound(len(packed) == 1 and isinstance(packed[0], dict) and packed[0].keys() == _PARTS)
    (part,) = packed
    measures = [(digest, column) for digest, column in sums["measures"]]
    noise = unpacked_noise(part["noise"], len(measures))
    if noise is None:
        return None
    require_sound(isinstance(part["values"], dict))
    known, count = part["values"], len(json_list(part["positions"]))
    require_sound(part["positions"] == list(range(count)))
    values = {}
    for _, name in measures:
        column = known.get(name)
        values[name] = _column(_NUMBERS, column)
        require_sound(type(values[name]) is np.ndarray and len(values[name]) == count)
    columns = {digest: (name, index) for index, (digest, name) in enumerate(measures)}
    keys = tuple(sums["keys"])
    return RollUpSource(sums["rows"], keys, sums["kept"], columns, values, noise)


def _document(pieces: Iterable[bytes]) -> dict[str, Any] | None:
    """Read a release: columns are lists, or arrays where it was on lines; None for other formats.

    Raises ``LedgerError`` (``ledger_corrupt``) for what is no release.
    """
    require_sound(not isinstance(pieces, bytes | str))
    lines = lines_of(pieces)
    found = json_object(next(lines, b""))
    require_sound(type(found.get("release")) is int)
    if found["release"] == _LARGE_VERSION:
        return _joined(found, lines)
    require_sound(next(lines, None) is None or found["release"] != _VERSION)
    return found if found["release"] == _VERSION else None


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Divide pieces of bytes into lines; a rest without a line's end is one as well."""
    held: list[bytes] = []
    for piece in pieces:
        require_sound(isinstance(piece, bytes))
        *ended, rest = piece.split(b"\n")
        for part in ended:
            yield b"".join((*held, part))
            held = []
        held.append(rest)
    last = b"".join(held)
    if last:
        yield last


def _joined(first: dict[str, Any], lines: Iterable[bytes]) -> dict[str, Any]:
    """Make of a release on lines the document that it would be, with arrays as columns."""
    blocks = json_list(first.get("blocks"))
    for block in blocks:
        require_sound(isinstance(block, dict))
        require_sound(block.keys() == {"types", "dtypes", "values", "noise"})
        require_sound(isinstance(block["values"], dict))
    columns = [_Columns(block) for block in blocks]
    for line in lines:
        found = json_object(line)
        require_sound(found.keys() == _LINE_PARTS and type(found["block"]) is int)
        require_sound(0 <= found["block"] < len(columns))
        columns[found["block"]].add(found)
    joined = [
        {"types": block["types"], "dtypes": block["dtypes"], "noise": block["noise"]}
        | each.joined()
        for block, each in zip(blocks, columns, strict=True)
    ]
    return {"release": _VERSION, "blocks": joined, "sums": first.get("sums")}


class _Columns:
    """The columns of a block that is on lines, as far as they are read."""

    def __init__(self, block: dict[str, Any]) -> None:
        self._dtypes = None if block["dtypes"] is None else json_list(block["dtypes"])
        self._names: dict[str, Any] = block["values"]
        self._positions: list[int] | None = None
        self._keys: list[list[Any]] | None = None
        self._values: dict[str, list[NDArray[Any]]] = {name: [] for name in self._names}

    def add(self, line: dict[str, Any]) -> None:
        """Take the rows of a line."""
        keys, values = [json_list(column) for column in json_list(line["keys"])], line["values"]
        require_sound(isinstance(values, dict) and values.keys() == self._names.keys())
        if self._keys is None:
            self._keys = [[] for _ in keys]
            self._positions = None if line["positions"] is None else []
        require_sound(len(keys) == len(self._keys))
        require_sound((line["positions"] is None) == (self._positions is None))
        if self._positions is not None:
            self._positions += json_list(line["positions"])
        known = self._dtypes
        require_sound(known is None or len(known) == len(keys))
        for index, column in enumerate(keys):
            # Numbers as arrays, which are many times smaller.
            if known is None:
                self._keys[index] += column
            else:
                self._keys[index].append(_unpacked(_KEYS, known[index], column))
        for name, dtype in self._names.items():
            self._values[name].append(_unpacked(_NUMBERS, dtype, values[name]))

    def joined(self) -> dict[str, Any]:
        """Return positions, keys and values as a document has them."""
        keys: list[Any] = self._keys or []
        if self._dtypes is not None:
            keys = [_concatenated(column) for column in keys]
        values = {
            name: {"dtype": self._names[name], "values": np.concatenate(found)}
            for name, found in self._values.items()
            if found
        }
        return {"positions": self._positions, "keys": keys, "values": values}


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
        "types": [str(column.type) for column in columns],
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
        lists = [_listed(found) for found in json_list(packed["keys"])]
        require_sound(0 < len(lists) == len(columns))
        positions = list(range(1, len(lists[0]) + 1))
        require_sound(all(len(found) == len(positions) for found in lists))
        keys = unpacked_keys(spelling, columns, packed["dtypes"], lists, positions)
    require_sound(all(len(found) == len(positions) for found in values.values()))
    return ReleasedRows(
        row_ids=np.array(positions, dtype=np.int64),
        keys=keys,
        values=release_kind(plan).with_noise_columns(values),
        loss=ZERO,
    )


def _concatenated(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Put arrays of shape (rows,) end to end; the result is masked if one of them is."""
    joined = np.concatenate([np.ma.getdata(array) for array in arrays])
    if not any(map(np.ma.isMaskedArray, arrays)):
        return joined
    mask = np.concatenate([np.ma.getmaskarray(array) for array in arrays])
    masked: NDArray[Any] = np.ma.array(joined, mask=mask)
    return masked


def _positions(plan: BlockPlan, found: object) -> list[int]:
    """Read positions in the declared domain, each once and in order."""
    positions = json_list(found)
    require_sound(all(type(position) is int for position in positions))
    require_sound(all(0 <= position < plan.block.domain_size for position in positions))
    require_sound(all(one < other for one, other in pairwise(positions)))
    return positions


def _unpacked_values(plan: BlockPlan, found: object) -> dict[str, NumericArray]:
    """Read the values of each column that was drawn, and of no others, in the plan's order.

    Columns that an earlier format lacks, all of them together, are NaN.
    """
    names, later = drawn_columns(plan.block), release_kind(plan).later_columns
    require_sound(isinstance(found, dict))
    columns: dict[str, Any] = found  # type: ignore[assignment]
    if later.isdisjoint(columns):
        names = [name for name in names if name not in later]
    require_sound(list(columns) == names)
    drawn = {name: _column(_NUMBERS, packed) for name, packed in columns.items()}
    require_sound(all(type(column) is np.ndarray for column in drawn.values()))  # none is masked
    count = len(next(iter(drawn.values()), ()))
    missing = dict.fromkeys(later - drawn.keys(), np.full(count, np.nan))
    return {name: (drawn | missing)[name] for name in drawn_columns(plan.block)}


def unpacked_keys(
    spelling: KeySpelling,
    columns: Sequence[Column],
    dtypes: object,
    lists: list[Any],
    positions: list[int],
) -> KeyArrays | ArrowStream:
    """Return keys from the lists of :func:`key_lists`; raise ``LedgerError`` for other values."""
    if dtypes is None:
        for texts in lists:
            require_sound(all(stored_text(text) for text in texts))
        stream = spelling.keys_of_texts(columns, lists, positions)
        require_sound(stream is not None)
        assert stream is not None
        return stream
    known = json_list(dtypes)
    require_sound(len(known) == len(columns))
    found = zip(columns, known, lists, strict=True)
    return {
        column.name: _column(_KEYS, {"dtype": dtype, "values": values})
        for column, dtype, values in found
    }


def _listed(column: object) -> Any:
    """Return a column of keys, which is a list or an array read from lines."""
    return column if isinstance(column, np.ndarray) else json_list(column)


def _column(kinds: str, packed: object) -> NDArray[Any]:
    """Read a column: of a document, or one that was read from lines, and so is right."""
    require_sound(isinstance(packed, dict) and packed.keys() == {"dtype", "values"})
    found: dict[str, Any] = packed  # type: ignore[assignment]
    if isinstance(found["values"], np.ndarray):
        return found["values"]
    return _unpacked(kinds, **found)


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
    type_, listed = np.dtype(str(dtype)), json_list(values)
    require_sound(type_.kind in kinds)
    missing = [value is None for value in listed]
    require_sound(
        all(gone or fits_type(value, type_) for value, gone in zip(listed, missing, strict=True))
    )
    if not any(missing):
        return np.array(listed, dtype=type_)
    filler = None if type_.hasobject else 0
    filled = [filler if gone else value for value, gone in zip(listed, missing, strict=True)]
    column: NDArray[Any] = np.ma.array(np.array(filled, dtype=type_), mask=missing)
    return column


_FIELDS: Final = frozenset({"measures", "decided", "appears_half", "appears_95", "alone"})
_SCALES: Final = frozenset({"scale", "shared"})
_MOST: Final = 2**62  # of sensitivities and numbers of groups


def packed_noise(noise: ReleaseNoise) -> dict[str, Any]:
    """Write the noise of a release as values that JSON has."""
    return {
        "measures": [each.law for each in noise.measures],
        "decided": noise.decided,
        "appears_half": noise.appears_half,
        "appears_95": noise.appears_95,
        "alone": noise.alone,
    }


def unpacked_noise(packed: object, measures: int) -> ReleaseNoise | None:
    """Read the noise of a release of so many measures.

    Raises ``LedgerError`` (``ledger_corrupt``) for what :func:`packed_noise` does not write.
    """
    if packed is None:
        return None
    require_sound(isinstance(packed, dict) and packed.keys() == _FIELDS)
    found: dict[str, Any] = packed  # type: ignore[assignment]
    laws, decided = found["measures"], found["decided"]
    require_sound(isinstance(laws, list) and len(laws) == measures)
    require_sound(decided is None or (type(decided) is int and decided >= 0))
    half, surely = found["appears_half"], found["appears_95"]
    require_sound(all(size is None or _is_finite(size) for size in (half, surely)))
    require_sound(type(found["alone"]) is bool)
    return ReleaseNoise(tuple(map(_law, laws)), decided, half, surely, found["alone"])


def _law(packed: object) -> PublishedNoise:
    require_sound(isinstance(packed, dict))
    found: dict[str, Any] = packed  # type: ignore[assignment]
    require_sound(found.keys() >= {"law", "groups"})
    law, groups = found["law"], found["groups"]
    require_sound(type(law) is str)
    require_sound(type(groups) is int and 0 <= groups < _MOST)
    parameters = {name: found[name] for name in found.keys() - {"law", "groups"}}
    for name, value in parameters.items():
        whole = type(value) is int and 0 < value < _MOST
        require_sound(_is_finite(value) if name in _SCALES else whole)
        parameters[name] = float(value) if name in _SCALES else value
    try:
        return noise_of_law(law, groups, parameters)
    except ParameterError:
        raise corrupt_release() from None


def _is_finite(value: object) -> bool:
    if type(value) is int:
        return abs(value) < _MOST
    return type(value) is float and math.isfinite(value)
