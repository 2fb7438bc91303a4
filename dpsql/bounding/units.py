"""Units with all of their pairs: several at once, or one that is larger than memory in parts.

Whatever is computed of units takes one path. What a unit has in all is added up over its parts;
which of its groups it keeps is told part by part; and what needs both, the weight that follows from
all groups and the groups themselves, reads the parts twice. So a unit with any number of groups is
bounded as others are, to the same integers, in the memory of one part.

Parts are by the first bits of the hashes that order a unit's groups, ascending. So the first groups
of a unit in that order are those of its first parts: of the next part it keeps the first ones of as
many as are left. Sensitivity is that of units at once, as the pairs kept are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.bounding.pairs import Int64s, Pairs, kept_flags
from dpsql.bounding.specification import Specification

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_WIDE: Final = 1 << 61


@dataclass(frozen=True, slots=True)
class Again(Generic[_Item]):
    """Items that are made anew each time they are read."""

    make: Callable[[], Iterator[_Item]]

    def __iter__(self) -> Iterator[_Item]:
        return self.make()


ReadAgain: TypeAlias = tuple[_Item, ...] | Again[_Item]
"""Items that can be read any number of times: one at most in memory, or those of parts."""


@dataclass(frozen=True, slots=True)
class GatheredUnits:
    """Some units with all of their pairs.

    ``parts`` are one at most, of any number of units, or several of a single unit, each with groups
    of its own. None of them is empty.
    """

    parts: ReadAgain[Pairs]

    @classmethod
    def of(cls, parts: Callable[[], Iterator[Pairs]], *, divided: bool) -> GatheredUnits:
        """Take the pairs of several units at once; those of a ``divided`` unit only when read."""

        def some() -> Iterator[Pairs]:
            return (pairs for pairs in parts() if len(pairs))

        return cls(Again(some) if divided else tuple(some()))

    @property
    def divided(self) -> bool:
        """Whether this is a unit in parts."""
        return isinstance(self.parts, Again)

    @property
    def number(self) -> int:
        """The number of units; one in parts is there."""
        return 1 if isinstance(self.parts, Again) else sum(len(each.starts) for each in self.parts)

    def changed(self, change: Callable[[Pairs], Pairs]) -> GatheredUnits:
        """Change the pairs of each part, or leave some of them out."""
        return GatheredUnits.of(lambda: map(change, self.parts), divided=self.divided)

    def each(self, make: Callable[[Pairs], _Made]) -> ReadAgain[_Made]:
        """Make something of each part: once of units in memory, else whenever it is read."""
        if isinstance(self.parts, Again):
            return Again(lambda: map(make, self.parts))
        return tuple(map(make, self.parts))

    def of_each(self, measure: Callable[[Pairs], Int64s]) -> Int64s:
        """Add up what each unit has, over its parts."""
        return added_up(map(measure, self.parts))


class FirstGroups:
    """Tells which groups units keep, asked of one part after the other."""

    def __init__(self, spec: Specification) -> None:
        self._spec = spec

    @property
    def full(self) -> bool:
        """Whether a unit in parts keeps none of those that follow."""
        return self._spec.kept == 0

    def flags(self, pairs: Pairs) -> NDArray[np.bool_] | None:
        """Tell which pairs are kept, as :func:`kept_flags` does; None stands for all."""
        flags = kept_flags(self._spec, pairs)
        if self._spec.kept is not None:  # what is left matters where parts follow, of the same unit
            had = len(pairs) if flags is None else int(np.count_nonzero(flags))
            self._spec = replace(self._spec, kept=max(0, self._spec.kept - had))
        return flags

    def of(self, pairs: Pairs) -> Pairs:
        """Return the pairs that are kept."""
        flags = self.flags(pairs)
        return pairs if flags is None else pairs.at(np.flatnonzero(flags))


def kept_units(spec: Specification, units: GatheredUnits) -> GatheredUnits:
    """Keep each unit's first groups in the order of a salted hash, then of their numbers."""
    if spec.kept is None:
        return units

    def kept() -> Iterator[Pairs]:
        first = FirstGroups(spec)
        for pairs in units.parts:
            yield first.of(pairs)
            if units.divided and first.full:
                break

    return GatheredUnits.of(kept, divided=units.divided)


def added_up(parts: Iterable[Int64s]) -> Int64s:
    """Add up numbers of units, the last axis, over parts: in Python's integers where they need to.

    Several parts are of a single unit. Without any there are no units.
    """
    found: Int64s | None = None
    for part in parts:
        if found is not None:
            part = part + (found.astype(object) if _wide(found) or _wide(part) else found)
        found = part
    return np.zeros(0, dtype=np.int64) if found is None else found


def _wide(numbers: Int64s) -> bool:
    return numbers.dtype == object or bool((np.abs(numbers) > _WIDE).any())
