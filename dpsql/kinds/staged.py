"""Stages that are stored: the draw of a block's bounds reads them, then the block.

A stage is there for one run, in scratch space of its own. It is stored for a draw, which is paid
for by then, and taken by one block at most. Whatever ends the run drops it. Where SQL bounds it is
a table; where NumPy does, arrays of pairs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from dpsql.bounding.kept_pairs import KeptPairs
from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import ArrowStream, ExactRows, PrivateSource, Reads, Scratch
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.stage import Stage
from dpsql.sql.rewrite.streamed import StreamedPairs


@dataclass(frozen=True, slots=True)
class _Stored:
    """A reader of a stored stage; ``salt`` is that of the block taking the stage."""

    salt: int
    place: Scratch

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Run a generated query over it."""
        return self.place.exact(statement, keys, measures)

    def pairs(self, statement: Sql) -> ArrowStream:
        """Stream the rows of a generated query over it."""
        return self.place.pairs(statement)

    def scratch(self) -> AbstractContextManager[Scratch]:
        """Lend its place for one reading."""
        return self.place.within()


@dataclass(frozen=True, slots=True)
class StoredStage(_Stored):
    """A stage stored as a table, and a reader of statements over it."""

    stage: Stage
    table: str

    def under(self, rows: PrivateRows) -> PrivateRows:
        """Return the rows as they are read over it."""
        return self.stage.under(rows, quoted(self.table))


@dataclass(frozen=True, slots=True)
class StoredPairs(_Stored):
    """A stage kept as pairs of units and so many groups, whose keys are stored where found.

    ``plain`` is the same stage without what estimates add: its columns are the first ones.
    """

    stage: StreamedPairs
    kept: KeptPairs
    groups: int
    plain: StreamedPairs

    def without_estimates(self) -> StoredPairs:
        """Return the same pairs as those of ``plain``."""
        places = list(map(self.stage.tallies.index, self.plain.tallies))
        return replace(self, stage=self.plain, kept=self.kept.of_fields(places))


StagedRows: TypeAlias = StoredStage | StoredPairs


def stage_tables(stored: Iterable[StagedRows]) -> list[tuple[Stage, str]]:
    """List the stages stored as tables, which a block reads by other statements than its rows.

    Kept pairs are read by none that is not sent without them.
    """
    return [(each.stage, each.table) for each in stored if isinstance(each, StoredStage)]


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """A place for a stage, under a salt of its own."""

    salt: int
    place: Scratch
    _own: ExitStack

    def close(self) -> None:
        """Drop what is stored there."""
        self._own.close()


class Stages:
    """The stages of one run that no block has taken yet."""

    def __init__(self, source: PrivateSource, held: ExitStack) -> None:
        self._source = source
        self._held = held
        self._stored: list[tuple[StagedRows, OpenPlace]] = []

    def open(self, tables: tuple[TableName, ...]) -> OpenPlace:
        """Open a place for a stage that scans these tables."""
        salt, own = fresh_salt(), self._held.enter_context(ExitStack())
        return OpenPlace(
            salt, own.enter_context(self._source.over(Reads(tables, salt)).scratch()), own
        )

    def store(self, stage: Stage, tables: tuple[TableName, ...], table: str) -> StoredStage:
        """Store the rows of a stage, which scans these tables, under a name of its own."""
        place = self.open(tables)
        place.place.store(table, stage.statement)
        stored = StoredStage(place.salt, place.place, stage, table)
        self._stored.append((stored, place))
        return stored

    def keep(
        self,
        stage: StreamedPairs,
        place: OpenPlace,
        pairs: KeptPairs,
        groups: int,
        plain: StreamedPairs,
    ) -> None:
        """Keep the pairs of a stage, also as a ``plain`` one, whose keys are stored in a place."""
        stored = StoredPairs(place.salt, place.place, stage, pairs, groups, plain)
        self._stored.append((stored, place))

    @property
    def waiting(self) -> tuple[StagedRows, ...]:
        """The stored stages, without those taken by blocks."""
        return tuple(stored for stored, _ in self._stored)

    @contextmanager
    def taken(self, stage: Stage | StreamedPairs | None) -> Iterator[StagedRows | None]:
        """Lend a stored stage to a block, and drop it afterwards; None if there is none."""
        for number, (stored, place) in enumerate(self._stored):
            found = _serving(stored, stage)
            if found is not None:
                del self._stored[number]
                with closing(place):
                    yield found
                return
        yield None


def _serving(stored: StagedRows, stage: Stage | StreamedPairs | None) -> StagedRows | None:
    """Return the stored stage, if it is the wanted one."""
    if stored.stage == stage:
        return stored
    if isinstance(stored, StoredPairs) and stored.plain == stage:
        return stored.without_estimates()
    return None


def fresh_salt() -> int:
    """Draw a salt that no other read has: neither of the same question, nor the one shown.

    All have as many digits and one type, so that no plan depends on which it is.
    """
    return 2**61 + secrets.randbits(61)
