"""Stages that are stored: the draw of a block's bounds reads them, then the block.

A stage is there for one run, in scratch space of its own. It is stored for a draw, which is paid
for by then, and taken by one block at most. Whatever ends the run drops it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from dpsql.core.schema import Column
from dpsql.core.sql import Sql
from dpsql.core.sql import name as quoted
from dpsql.core.table_name import TableName
from dpsql.engines.base.engine import ArrowStream, ExactRows, PrivateSource, Reads, Scratch
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.stage import Stage


@dataclass(frozen=True, slots=True)
class StoredStage:
    """A stage stored as a table, and a reader of statements over it.

    ``salt`` is that of the block that takes it.
    """

    stage: Stage
    table: str
    salt: int
    place: Scratch

    def under(self, rows: PrivateRows) -> PrivateRows:
        """Return the rows as they are read over it."""
        return self.stage.under(rows, quoted(self.table))

    def exact(self, statement: Sql, keys: Sequence[Column], measures: Sequence[str]) -> ExactRows:
        """Run a generated query over it."""
        return self.place.exact(statement, keys, measures)

    def pairs(self, statement: Sql) -> ArrowStream:
        """Stream the rows of a generated query over it."""
        return self.place.pairs(statement)

    def scratch(self) -> AbstractContextManager[Scratch]:
        """Lend its place for one reading."""
        return self.place.within()


class Stages:
    """The stages of one run that no block has taken yet."""

    def __init__(self, source: PrivateSource, held: ExitStack) -> None:
        self._source = source
        self._held = held
        self._stored: list[tuple[StoredStage, ExitStack]] = []

    def store(self, stage: Stage, tables: tuple[TableName, ...], table: str) -> StoredStage:
        """Store the rows of a stage, which scans these tables, under a name of its own."""
        salt, own = fresh_salt(), self._held.enter_context(ExitStack())
        place = own.enter_context(self._source.over(Reads(tables, salt)).scratch())
        place.store(table, stage.statement)
        stored = StoredStage(stage, table, salt, place)
        self._stored.append((stored, own))
        return stored

    @property
    def waiting(self) -> tuple[StoredStage, ...]:
        """The stored stages, without those taken by blocks."""
        return tuple(stored for stored, _ in self._stored)

    @contextmanager
    def taken(self, stage: Stage | None) -> Iterator[StoredStage | None]:
        """Lend the stored table of a stage to a block, and drop it afterwards; None without one."""
        for place, (stored, own) in enumerate(self._stored):
            if stored.stage == stage:
                del self._stored[place]
                with own:
                    yield stored
                return
        yield None


def fresh_salt() -> int:
    """Draw a salt that no other read has: neither of the same question, nor the one shown.

    All have as many digits and one type, so that no plan depends on which it is.
    """
    return 2**61 + secrets.randbits(61)
