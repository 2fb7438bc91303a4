"""Keys of groups as bytes: equal keys are equal bytes, different ones are not.

A group draws its noise by these bytes. Were one key spelled in two ways, its group would have two
noises, and their mean less of it; were two keys spelled alike, their difference would be exact.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import uuid
from collections.abc import Callable, Sequence

import numpy as np

from dpsql.errors import ParameterError

GroupValue = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | decimal.Decimal
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | uuid.UUID
    | np.generic
)
"""A value of a key: what a column of a group's keys may hold."""

_NULL = b"0" + bytes(8)  # its tag, and no payload
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NANOSECONDS = {
    "D": 86_400 * 10**9,
    "h": 3_600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 1_000,
    "ns": 1,
}


def encode_group(values: Sequence[GroupValue]) -> bytes:
    """Encode the values of a group's keys as bytes, injectively and canonically.

    Every value carries its type and its length, so that no two tuples of values of the same types
    meet: NULL is no text, a text no number. Equal values are equal bytes: 0.0 and -0.0, all NaN,
    decimals of any number of places, times of one instant in any zone. Raises ParameterError for a
    type that is not listed; no value of a listed type fails. Checked by
    ``tests/privacy/streams/test_continual_encoding.py``.
    """
    parts = [len(values).to_bytes(4, "big")]
    for value in values:
        tag, payload = _encoded(value)
        parts += (tag, len(payload).to_bytes(8, "big"), payload)
    return b"".join(parts)


def encode_texts(columns: Sequence[Sequence[str | None]], count: int) -> list[bytes]:
    """Encode groups whose keys are texts, given by column: the bytes of :func:`encode_group`.

    There are ``count`` groups, and each column has as many values.
    """
    head = len(columns).to_bytes(4, "big")
    if not columns:
        return [head] * count
    coded = [[_encoded_text(text) for text in column] for column in columns]
    if len(coded) == 1:
        return [head + value for value in coded[0]]
    return [head + b"".join(values) for values in zip(*coded, strict=True)]


def _encoded_text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    payload = text.encode("utf-8", "surrogatepass")
    return b"u" + len(payload).to_bytes(8, "big") + payload


def _encoded(value: object) -> tuple[bytes, bytes]:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpy_time(value)
    plain = value.item() if isinstance(value, np.generic) else value
    encode = _ENCODERS.get(type(plain))
    if encode is None:
        raise _not_encoded(value)
    return encode(plain)


def _not_encoded(value: object) -> ParameterError:
    return ParameterError(
        f"groups of type {type(value).__name__} have no keyed noise", code="bad_parameter"
    )


def _numpy_time(value: np.datetime64 | np.timedelta64) -> tuple[bytes, bytes]:
    """Encode as the standard library's types are: a day is a date, all else in nanoseconds."""
    if np.isnat(value):
        return b"0", b""
    unit, count = np.datetime_data(value.dtype)
    number = int(value.astype(np.int64)) * count
    if isinstance(value, np.datetime64) and unit == "D":
        return b"D", _integer(number + _EPOCH.toordinal())
    if unit not in _NANOSECONDS:
        raise _not_encoded(value)
    tag = b"s" if isinstance(value, np.datetime64) else b"v"
    return tag, _integer(number * _NANOSECONDS[unit])


def _integer(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _float(value: float) -> bytes:
    if math.isnan(value):
        return b"nan"
    return struct.pack(">d", value + 0.0)  # -0.0 + 0.0 is 0.0


def _decimal(value: decimal.Decimal) -> bytes:
    if not value.is_finite():
        return b"nan" if value.is_nan() else str(value).encode()
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    assert isinstance(exponent, int)
    # The exponent of the last digit that is not 0, and no sign or exponent for 0.
    return (
        f"{'-' if sign else ''}{kept}e{exponent + len(text) - len(kept)}".encode() if kept else b""
    )


def _datetime(value: datetime.datetime) -> tuple[bytes, bytes]:
    """Encode as nanoseconds since 1970, of the clock or, with a zone, of the instant."""
    offset = value.utcoffset()
    clock = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    if offset is None:
        return b"s", _integer(clock * 1_000)
    return b"S", _integer((clock - offset // _MICROSECOND) * 1_000)


def _time(value: datetime.time) -> tuple[bytes, bytes]:
    """Encode as microseconds since midnight; a zone is kept, as engines tell such times apart."""
    clock = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    offset = value.utcoffset()
    if offset is None:
        return b"t", _integer(clock)
    return b"T", _integer(clock) + b"|" + _integer(offset // _MICROSECOND)


_ENCODERS: dict[type, Callable[..., tuple[bytes, bytes]]] = {
    type(None): lambda _: (b"0", b""),
    bool: lambda value: (b"b", b"\1" if value else b"\0"),
    int: lambda value: (b"i", _integer(value)),
    float: lambda value: (b"f", _float(value)),
    decimal.Decimal: lambda value: (b"d", _decimal(value)),
    # Lone surrogates are no text, but must not fail.
    str: lambda value: (b"u", value.encode("utf-8", "surrogatepass")),
    bytes: lambda value: (b"x", value),
    bytearray: lambda value: (b"x", bytes(value)),
    datetime.datetime: _datetime,
    datetime.date: lambda value: (b"D", _integer(value.toordinal())),
    datetime.time: _time,
    datetime.timedelta: lambda value: (b"v", _integer(value // _MICROSECOND * 1_000)),
    uuid.UUID: lambda value: (b"U", value.bytes),
}
