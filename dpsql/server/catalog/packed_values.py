"""Values of answers as JSON and back, each with its type.

A process that runs what anybody asks is trusted with no more than this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

_MICROSECOND: Final = timedelta(microseconds=1)
_WAYS: Final[Mapping[type, tuple[Callable[[Any], Any], Callable[[Any], object]]]] = (
    MappingProxyType(
        {
            bytes: (bytes.hex, bytes.fromhex),
            date: (date.isoformat, date.fromisoformat),
            datetime: (datetime.isoformat, datetime.fromisoformat),
            Decimal: (str, Decimal),
            dict: (
                lambda of: [[packed_value(k), packed_value(v)] for k, v in of.items()],
                lambda pairs: {unpacked_value(k): unpacked_value(v) for k, v in pairs},
            ),
            list: (
                lambda of: list(map(packed_value, of)),
                lambda of: list(map(unpacked_value, of)),
            ),
            time: (time.isoformat, time.fromisoformat),
            timedelta: (
                lambda of: of // _MICROSECOND,
                lambda of: timedelta(microseconds=of),
            ),
            tuple: (
                lambda of: list(map(packed_value, of)),
                lambda of: tuple(map(unpacked_value, of)),
            ),
            UUID: (str, UUID),
        }
    )
)
_BY_NAME: Final = {kind.__name__: back for kind, (_, back) in _WAYS.items()}
_PLAIN: Final = (type(None), bool, int, float, str)


def packed_value(value: object) -> object:
    """Write a value of DuckDB's for JSON: plain ones as they are, others with their type."""
    if type(value) in _PLAIN:
        return value
    ways = _WAYS.get(type(value))
    if ways is None:
        return str(value)
    return [type(value).__name__, ways[0](value)]


def unpacked_value(written: object) -> object:
    """Read a value. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what is none."""
    if not isinstance(written, list):
        return written
    kind, value = written
    return _BY_NAME[kind](value)
