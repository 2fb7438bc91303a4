"""An exact, fast sampler for a symmetric log-concave distribution on the integers.

The target has P[x] proportional to exp(-energy(x)), where ``energy`` is even, convex and zero at
zero. Sampling is rejection from a histogram whose weights are *integers*, so that choosing a bar
is exact integer arithmetic and no normalising constant is ever needed.

Picture ``2**32`` unit-width strips. Every cell of ``step`` neighbouring integers owns as many
strips as are needed to stand above A*exp(-energy(x)) for all its integers x (A is a fixed float,
taken as an exact rational). One uniform 32-bit number picks a strip, hence a cell and a *height*
within it; independent uniform bits pick an integer x of the cell. Then (x, height + V), with V
uniform on [0, 1), is uniform under the cell's bar, and keeping it iff

    height + V < A * exp(-energy(x))

keeps x with probability exactly proportional to exp(-energy(x)). Everything else is speed:

* *Box.* The lowest strips of a cell lie below the curve for each of its integers: always kept.
* *Guide.* If all 2**16 strips with the same leading 16 bits are in one box, those 16 bits decide,
  and the other 16 are never drawn. This happens for over 90% of the draws.
* *Doubt.* Otherwise the curve is evaluated in float64 with a relative error below ``slack``. If
  [height, height + 1) is clear of that interval the answer is known for every V. If not (about
  one draw in 10**7), V's bits are drawn one word at a time and compared with enclosures of
  exp(-energy) of growing precision until they separate, which happens with probability one.
* *Tail.* Beyond the cells, one more outcome stands for both tails: a fair bit picks the side, fair
  coin flips pick the block j = 0, 1, 2, ... with probability 2**-(j+1), and a uniform offset the
  integer in the block. Blocks are wide enough that the energy grows by at least ln 2 from one to
  the next (convexity makes the first the worst), so this proposal dominates the curve in every
  block; the same lazy comparison accepts or rejects.

Float errors therefore only decide how often the slow path is taken, never what comes out, as long
as ``slack`` bounds the relative error of ``A * exp(-energy)`` in float64. The default, 2**-36, is
some 2**16 units in the last place; the real error is below 2**12 of them (energies below the
underflow limit of 745, computed to 4 units, times one ``exp``).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.privacy.sampling.entropy import EntropySource, bits16, bits32, uniform_bits

_STRIPS = 1 << 32
_BLOCK = 1 << 16  # draws per pass: the working arrays stay in cache


class Energy(Protocol):
    """A distribution as the sampler needs it: exp(-energy) up to a constant."""

    @property
    def spread(self) -> float:
        """The scale: energy(x + spread) >= energy(x) + ln 2 for x >= reach * spread."""
        ...

    @property
    def reach(self) -> float:
        """How many spreads from zero the cells should go; only a matter of speed."""
        ...

    def energy(self, x: NDArray[np.int64]) -> NDArray[np.float64]:
        """Compute energies in float64 for integers of any shape, to 4 units in the last place."""
        ...

    def exact_energy(self, x: int) -> Fraction:
        """Compute the energy of one integer, exactly."""
        ...


class LatticeSampler:
    """The prepared histogram for one distribution; immutable, so threads may share it.

    ``slack`` is the relative error ascribed to float64 evaluations. A larger one is still exact and
    only slower: tests use it to make the rare paths common.
    """

    __slots__ = (
        "_box",
        "_first",
        "_guide",
        "_height",
        "_noise",
        "_offset_bits",
        "_slack",
        "_start",
        "_tail_from",
        "_tail_ratio",
        "_tail_step",
    )

    def __init__(self, noise: Energy, *, slack: float = 2.0**-36) -> None:
        self._noise = noise
        self._slack = slack
        # Between 16 and 32 cells per spread: few enough to set up in microseconds, fine enough
        # that only about 3% of the draws miss the boxes.
        self._offset_bits = max(0, math.floor(math.log2(noise.spread / 16)))
        step = 1 << self._offset_bits
        cells = math.ceil(noise.reach * noise.spread / step) + 1
        self._tail_from = cells * step
        self._tail_step = 1 << max(0, math.ceil(math.log2(noise.spread)))

        # Cell [first, first + step) on the right, its mirror image [-first - step, -first) on the
        # left; the curve is highest at a cell's end nearest zero and lowest at the other.
        first = np.arange(cells, dtype=np.int64) * step
        edges = np.concatenate((first, [self._tail_from]))
        curve = np.exp(-noise.energy(edges))
        inner = np.exp(-noise.energy(first + 1)) if step > 1 else curve[1:]
        outer = np.exp(-noise.energy(first + (step - 1))) if step > 1 else curve[:-1]
        near = np.concatenate((inner[::-1], curve[:-1]))
        far = np.concatenate((curve[:0:-1], outer))
        tail = 4.0 * (self._tail_step / step) * float(curve[-1])

        # Shrinking the curve a little leaves room for rounding each bar up to whole strips.
        spare = 1.0 - 2.0 * slack - 4.0 * (len(near) + 2) / _STRIPS
        self._height = _STRIPS * spare / (float(near.sum()) + tail)
        bars = np.floor(self._height * near * (1 + slack)).astype(np.int64) + 1
        tail_strips = math.floor(self._height * tail * (1 + slack)) + 1
        self._box = np.floor(self._height * far * (1 - slack)).astype(np.int64)
        self._box = np.append(self._box, [0, 0])
        self._start = np.concatenate(([0], np.cumsum(bars)))
        self._start = np.append(self._start, self._start[-1] + tail_strips)
        assert self._start[-1] <= _STRIPS, "the bars exceed the strips"  # guards the proof above
        self._first = np.concatenate((-first[::-1] - step, first, [0, 0]))
        self._tail_ratio = Fraction(self._height) * 4 * self._tail_step / (step * tail_strips)
        self._guide = self._build_guide()

    def _build_guide(self) -> NDArray[np.int16]:
        """Build the table of cells decided by 16-bit prefixes, -1 where a prefix decides none."""
        low = (self._start + 0xFFFF) >> 16
        high = np.maximum((self._start + self._box) >> 16, low)
        edges = np.stack((low, high), axis=1).ravel()
        runs = np.diff(edges, prepend=0, append=1 << 16)
        cells = np.full(len(runs), -1, dtype=np.int16)
        cells[1:-1:2] = np.arange(len(low))
        return np.repeat(cells, runs)

    def sample(self, n: int, source: EntropySource) -> NDArray[np.int64]:
        """Draw ``n`` independent values, exactly distributed: an int64 array of shape (n,)."""
        out = np.empty(n, dtype=np.int64)
        for begin in range(0, n, _BLOCK):
            self._fill(out[begin : begin + _BLOCK], source)
        return out

    @property
    def offset_bits(self) -> int:
        """How many uniform bits choose an integer within a cell: the ``offset`` of a proposal."""
        return self._offset_bits

    def decide(
        self,
        strip: NDArray[np.int64],
        offset: NDArray[np.int64],
        doubts: Callable[[int], EntropySource],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Propose integers and mark accepted ones: a draw is the first accepted proposal.

        All arrays have shape (proposals,). ``strip`` are uniform on [0, 2**32), ``offset`` on
        [0, 2**offset_bits), independent of each other and of what ``doubts(i)`` supplies where more
        bits must decide on proposal i.
        """
        prefix = strip >> 16
        cell = self._guide.take(prefix)
        value = self._first.take(cell, mode="wrap")  # -1 wraps to a value replaced below
        value += offset
        kept = cell >= 0
        todo = np.flatnonzero(~kept)
        value[todo], kept[todo] = self._weigh(
            strip[todo], offset[todo], lambda i: doubts(int(todo[i]))
        )
        return value, kept

    def _fill(self, out: NDArray[np.int64], source: EntropySource) -> None:
        prefix = bits16(source, len(out))
        cell = self._guide.take(prefix)
        self._first.take(cell, out=out, mode="wrap")  # -1 wraps to a value replaced below
        if self._offset_bits:
            out += uniform_bits(source, len(out), self._offset_bits)
        todo = np.flatnonzero(cell < 0)
        strip = (prefix[todo].astype(np.int64) << 16) | bits16(source, len(todo))
        while len(todo):
            value, kept = self._decide(strip, source)
            out[todo[kept]] = value[kept]
            todo = todo[~kept]
            strip = bits32(source, len(todo)).astype(np.int64)

    def _decide(
        self, strip: NDArray[np.int64], source: EntropySource
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Propose an integer for each strip, and decide whether it is kept."""
        offset = uniform_bits(source, len(strip), self._offset_bits)
        return self._weigh(strip, offset, lambda _: source)

    def _weigh(
        self,
        strip: NDArray[np.int64],
        offset: NDArray[np.int64],
        doubts: Callable[[int], EntropySource],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        cell = self._start.searchsorted(strip, side="right") - 1
        height = strip - self._start[cell]
        value = self._first[cell] + offset
        kept = height < self._box[cell]
        unsure = np.flatnonzero(~kept & (cell < len(self._start) - 2))
        curve = self._height * np.exp(-self._noise.energy(value[unsure]))
        kept[unsure] = height[unsure] + 1 <= curve * (1 - self._slack)
        # The addend covers curves that underflowed: a height of zero is never surely above.
        above = height[unsure] >= curve * (1 + self._slack) + 2.0**-900
        for i in unsure[~kept[unsure] & ~above]:
            energy, source = self._noise.exact_energy(int(value[i])), doubts(int(i))
            kept[i] = uniform_below(Fraction(self._height), energy, int(height[i]), source)
        for i in np.flatnonzero(cell == len(self._start) - 2):
            value[i], kept[i] = self._propose_tail(doubts(int(i)))
        return value, kept

    def _propose_tail(self, source: EntropySource) -> tuple[int, bool]:
        block = 0
        while (word := int(source.words(1)[0])) == 0:
            block += 64
        block += 64 - word.bit_length()
        offset = int(uniform_bits(source, 1, self._tail_step.bit_length() - 1)[0])
        value = self._tail_from + block * self._tail_step + offset
        value = ~value if int(source.words(1)[0]) & 1 else value
        ratio = self._tail_ratio * (1 << block)
        return value, uniform_below(ratio, self._noise.exact_energy(value), 0, source)


def uniform_below(factor: Fraction, energy: Fraction, floor: int, source: EntropySource) -> bool:
    """Tell whether ``floor + V < factor * exp(-energy)`` for a fresh V uniform on [0, 1), exactly.

    V's bits are drawn only until the two sides separate: they are equal with probability zero.
    """
    numerator, bits = 0, 0
    while True:
        numerator = numerator << 64 | int(source.words(1)[0])
        bits += 64
        low, high = exp_enclosure(energy, digits=bits // 2 + 20)
        if floor + Fraction(numerator + 1, 1 << bits) <= factor * low:
            return True
        if floor + Fraction(numerator, 1 << bits) >= factor * high:
            return False


def exp_enclosure(energy: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Enclose exp(-energy), energy >= 0, by rationals about ``digits`` significant digits apart.

    The division errs by a relative 5 * 10**-digits, which exp turns into 5 * energy * 10**-digits;
    ``Decimal.exp`` is correctly rounded; the margin is twice their sum.
    """
    context = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    exponent = context.divide(
        decimal.Decimal(-energy.numerator), decimal.Decimal(energy.denominator)
    )
    value = Fraction(context.exp(exponent))
    margin = Fraction(10 * (math.floor(energy) + 2), 10**digits)
    return value * (1 - margin), value * (1 + margin)
