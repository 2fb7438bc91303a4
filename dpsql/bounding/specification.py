"""Specifications of bounding: the columns of a stream, and the bounds of units.

It is made of a plan and a salt, as the SQL is that bounds the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from dpsql.ir.measures import Measure
from dpsql.ir.plan import LeftOutPlan


@dataclass(frozen=True, slots=True)
class StepColumn:
    """A column of the stream: a row's steps, from ``low`` to ``high``.

    ``missing`` is the integer that stands for NULL, outside of these; None where 0 does, and nobody
    counts the rows with a value.
    """

    low: int
    high: int
    missing: int | None


@dataclass(frozen=True, slots=True)
class MeasureColumns:
    """The columns, by index, that a measure is gathered from.

    ``summed`` is added up, or with a ``midpoint`` its squared distance from that. The rows where
    ``counted`` has a value are counted; None stands for all rows.
    """

    measure: Measure
    summed: int | None = None
    midpoint: int | None = None
    counted: int | None = None


@dataclass(frozen=True, slots=True)
class EstimateColumns:
    """The columns of an estimate of rows and values left out by bounding.

    Those of its measure are ``source``. ``outside`` tells the values that lie outside their bounds,
    where the estimate is of those. Of its groups a unit keeps ``groups``, None for all of them.
    """

    plan: LeftOutPlan
    source: MeasureColumns
    outside: int | None = None
    groups: int | None = None


@dataclass(frozen=True, slots=True)
class Specification:
    """The bounds of units, over a stream of unit, number of the group, and ``columns``.

    Groups are numbered from 0, below ``groups``, in the order of their keys. A unit keeps at most
    ``kept`` of them, None for all, in the order of a hash of the unit and of the group's
    ``hashes``: of keys that are found in rows, so that it does not depend on what other keys there
    are; None where numbers are public. Groups that fewer than ``minimum`` units keep are left out.
    ``always``: the only group is
    there without any rows. ``estimates`` are taken at the same rows. ``beside`` are the columns of
    values, and of those out of their bounds, that are added up for others to be taken later.
    The last ``rank_bits`` of units depend on other units, and stay out of hashes.
    """

    columns: tuple[StepColumn, ...]
    sources: tuple[MeasureColumns, ...]
    groups: int
    kept: int | None
    max_rows: int
    minimum: int
    salt: int
    always: bool = False
    estimates: tuple[EstimateColumns, ...] = ()
    beside: tuple[tuple[MeasureColumns, int], ...] = ()
    hashes: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    rank_bits: int = 0

    def hashed(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what stands for some groups in hashes."""
        return groups if self.hashes is None else self.hashes[groups]

    @property
    def words(self) -> NDArray[np.uint64]:
        """Four numbers of 64 bits that follow from the salt, to key hashes with."""
        return self._words(b"")

    @property
    def sample_words(self) -> NDArray[np.uint64]:
        """Four others, for samples of a unit's rows: they know nothing of the groups it keeps."""
        return self._words(b"sample")

    @property
    def order_key(self) -> np.uint64:
        """The key of a hash that orders units, and knows nothing of their groups."""
        return np.uint64(self._words(b"order")[0])

    def _words(self, purpose: bytes) -> NDArray[np.uint64]:
        salt = self.salt.to_bytes(16, "little")
        digest = blake2b(salt, digest_size=32, person=purpose).digest()
        return np.frombuffer(digest, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """The exact integers of the groups that are there.

    ``groups`` are their numbers, ascending, and ``measures`` one array each in that order.
    ``left_out`` are the sums of estimates: what is kept, then what is climbed in each span.
    """

    groups: NDArray[np.int64]
    measures: tuple[NDArray[np.int64], ...]
    left_out: tuple[tuple[int, ...], ...] = ()
