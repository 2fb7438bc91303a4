"""Power series with dyadic coefficients: products, and quotients with a rigorous error bound.

A series is a list of its first coefficients as integers, in units of a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class EnclosedSeries:
    """Coefficients known up to an error.

    Each true coefficient times ``2**precision`` lies within ``error`` of its entry.
    """

    coefficients: tuple[int, ...]
    precision: int
    error: int


def multiply_series(left: list[int], right: list[int], length: int) -> list[int]:
    """Multiply two integer series exactly, up to ``length`` coefficients.

    Both are packed into one large integer each (Kronecker substitution), so that a single product
    of integers does the work.
    """
    left, right = left[:length], right[:length]
    bits = max(map(abs, left)).bit_length() + max(map(abs, right)).bit_length()
    size = (bits + length.bit_length() + 2) // 8 + 1
    product = _pack(left, size) * _pack(right, size)
    return _unpack(product, size, len(left) + len(right) - 1)[:length]


def divide_series(
    numerator: list[int], denominator: list[int], bits: int, precision: int
) -> EnclosedSeries:
    """Enclose numerator/denominator: ``numerator`` integers, ``denominator`` in ``2**-bits``.

    Both have the same length n, and the denominator begins with 1, that is ``2**bits``. The inverse
    is found by Newton's method, and the error is bounded by what remains in exact arithmetic,
    whatever was rounded on the way: with g for a/c and r = cg - a, the error is r/c, at most
    max|r| * sum|1/c|. From ``precision >= bits*(n - 1)`` on the result is exact, the error 0.
    """
    length = len(denominator)
    if precision >= bits * (length - 1):
        return EnclosedSeries(
            _exact_quotient(numerator, denominator, bits, precision), precision, 0
        )
    inverse = _inverse(denominator, bits, precision)
    quotient = multiply_series(numerator, inverse, length)
    rest = _residual(denominator, inverse, [1] + [0] * (length - 1), bits + precision)
    spread = Fraction(length * rest, 1 << (bits + precision))
    assert spread < 1, "the precision does not reach"  # Newton's method leaves far less than this
    total = Fraction(sum(map(abs, inverse)), 1 << precision) / (1 - spread)
    remains = Fraction(_residual(denominator, quotient, numerator, bits + precision), 1 << bits)
    return EnclosedSeries(tuple(quotient), precision, int(total * remains) + 1)


def _residual(denominator: list[int], quotient: list[int], numerator: list[int], unit: int) -> int:
    """Compute the largest abs(c*g - a), in units of ``2**-unit``."""
    product = multiply_series(denominator, quotient, len(numerator))
    return max(abs(p - (a << unit)) for p, a in zip(product, numerator, strict=True))


def _exact_quotient(
    numerator: list[int], denominator: list[int], bits: int, precision: int
) -> tuple[int, ...]:
    """Divide exactly: coefficient k is a multiple of ``2**-(bits*k)``, so no shift drops a bit."""
    found: list[int] = []
    for k, a in enumerate(numerator):
        earlier = sum(c * q for c, q in zip(denominator[1 : k + 1], reversed(found), strict=True))
        found.append((a << precision) - (earlier >> bits))
    return tuple(found)


def _inverse(denominator: list[int], bits: int, precision: int) -> list[int]:
    """Compute about 1/c in units of ``2**-precision``: each step doubles the coefficients."""
    found, length = [1 << precision], 1
    while length < len(denominator):
        length = min(2 * length, len(denominator))
        doubt = [-(value >> bits) for value in multiply_series(denominator, found, length)]
        doubt[0] += 2 << precision
        found = [value >> precision for value in multiply_series(found, doubt, length)]
    return found


def _pack(series: list[int], size: int) -> int:
    """Pack the series into one number: its value at ``2**(8*size)``."""
    offset = 1 << (8 * size - 1)
    raised = b"".join((value + offset).to_bytes(size, "little") for value in series)
    return int.from_bytes(raised, "little") - _repeated(offset, size, len(series))


def _unpack(packed: int, size: int, length: int) -> list[int]:
    offset = 1 << (8 * size - 1)
    raised = packed + _repeated(offset, size, length)
    data = raised.to_bytes(size * length, "little")
    return [
        int.from_bytes(data[at : at + size], "little") - offset
        for at in range(0, size * length, size)
    ]


def _repeated(value: int, size: int, length: int) -> int:
    return int.from_bytes(value.to_bytes(size, "little") * length, "little")
