"""Keys as bytes: equal keys are one group, different keys are different groups."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import struct
import uuid
from decimal import Decimal

import numpy as np
import pytest

from dpsql.errors import ParameterError
from dpsql.privacy.streams.encoding import GroupValue, encode_group, encode_texts

UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))
NAN = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]

EQUAL: list[tuple[GroupValue, GroupValue]] = [
    (0.0, -0.0),
    (math.nan, NAN),
    (Decimal("1.50"), Decimal("1.5")),
    (Decimal("100"), Decimal("1e2")),
    (Decimal("0.00"), Decimal("-0")),
    (dt.datetime(2026, 1, 1, 12, tzinfo=UTC), dt.datetime(2026, 1, 1, 17, 30, tzinfo=EAST)),
    (np.int64(7), 7),
    (np.float64(0.5), 0.5),
    (np.str_("a"), "a"),
    (np.datetime64("2026-01-01T12:00", "m"), dt.datetime(2026, 1, 1, 12)),
    (np.datetime64("2026-01-01T12:00", "ns"), np.datetime64("2026-01-01T12:00", "us")),
    (np.datetime64("2026-01-01", "D"), dt.date(2026, 1, 1)),
    (np.timedelta64(-3, "s"), dt.timedelta(seconds=-3)),
    (np.datetime64("NaT", "us"), None),
]
DIFFERENT: list[GroupValue] = [
    None, "", "0", "a", "a\0", "é", "e\u0301", "nan", "NULL", "\ud800", b"", b"a", True, False,
    0, 1, -1, 127, 128, -128, -129, 255, 256, 2**63, -(2**63), 2**127,
    0.0, 1.0, 1.5, -1.5, 5e-324, math.inf, -math.inf, math.nan,
    Decimal(0), Decimal(1), Decimal(10), Decimal("0.1"), Decimal(-1), Decimal("Infinity"),
    dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(1, 1, 1),
    dt.datetime(1970, 1, 1, tzinfo=UTC), dt.time(0), dt.time(0, tzinfo=UTC),
    dt.time(0, tzinfo=EAST), dt.timedelta(0),
    dt.timedelta(microseconds=-1), np.datetime64(1, "ns"), np.datetime64(2**62, "us"),
    uuid.UUID(int=0), uuid.UUID(int=1),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), EQUAL)
def test_equal_keys_are_equal_bytes(one: GroupValue, two: GroupValue) -> None:
    assert encode_group((one,)) == encode_group((two,))


def test_different_keys_are_different_bytes() -> None:
    singles = [(value,) for value in DIFFERENT]
    pairs = list(itertools.product(DIFFERENT, repeat=2))
    codes = {encode_group(values) for values in [(), *singles, *pairs]}
    assert len(codes) == 1 + len(singles) + len(pairs)


def test_values_do_not_run_into_each_other() -> None:
    tails = [encode_group(("x",))[4:], encode_group((None,))[4:]]
    for tail in tails:
        text = tail.decode("latin-1")
        assert encode_group(("x" + text,)) != encode_group(("x", None))
        assert encode_group((text,)) != encode_group((None, "x"))
    assert encode_group(("ab", "c")) != encode_group(("a", "bc"))


def test_decimals_do_not_depend_on_the_context() -> None:
    value = Decimal("1234567890.123456789")
    wide = encode_group((value,))
    with decimal.localcontext(prec=3):
        assert encode_group((value,)) == wide
        assert encode_group((Decimal("1234567890.123456788"),)) != wide


def test_what_is_not_recognised_is_refused() -> None:
    class Odd(str):
        __slots__ = ()

    for value in ([1], (1,), {"a": 1}, 1j, Odd("a"), object(), np.timedelta64(1, "Y")):
        with pytest.raises(ParameterError):
            encode_group((value,))  # type: ignore[arg-type]


def test_texts_by_column_are_encoded_as_groups_are() -> None:
    columns = [["a", None, "", "ä\ud800"], ["b", "", None, "x" * 300]]
    rows = list(zip(*columns, strict=True))
    assert encode_texts(columns, 4) == [encode_group(row) for row in rows]
    assert encode_texts(columns[:1], 4) == [encode_group(row[:1]) for row in rows]
    assert encode_texts([], 1) == [encode_group(())]
