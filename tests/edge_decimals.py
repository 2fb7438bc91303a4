"""Decimals at the ends of their widths and scales, and the values that they may fail on."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

_EXACT: Final = Context(prec=100)
DECIMALS: Final = (
    *((1, 0), (1, 1), (4, 0), (4, 1), (4, 4)),
    *((5, 2), (9, 0), (9, 9)),
    *((10, 5), (12, 2), (18, 0), (18, 3), (18, 18)),
    *((19, 4), (38, 0), (38, 10), (38, 38)),
)
"""Widths and scales at the ends of what is stored alike, and some between."""


def decimals(width: int, scale: int) -> tuple[str, ...]:
    """Edge values of a decimal: its ends, the least step, halves, what doubles just hold."""
    most = _EXACT.subtract(Decimal(10) ** (width - scale), Decimal(10) ** -scale)
    ends = [most, Decimal(10) ** -scale]
    ends += map(Decimal, ("0", "0.5", "2.5", "1.55", "1", "7", "9007199254740993"))
    ends += map(Decimal, ("0.49", "9223372036854775808", "1234567890123456789012345678.0123456789"))
    found: dict[str, None] = {}
    for end in (end for each in ends for end in (each, each.copy_negate())):
        fits = end.copy_abs() < Decimal(10) ** (width - scale)
        if fits and end == _EXACT.quantize(end, Decimal(10) ** -scale):
            found[f"{end:f}"] = None
    return tuple(found)
