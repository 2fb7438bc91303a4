"""The maker in NumPy over the tables of a lab, in batches and memory as a test wants."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import RawIOBase
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from unittest import mock

import duckdb
import numpy as np
from numpy.typing import NDArray

from dpsql.bounding import maker, partitions, points, unit_order, units
from dpsql.bounding.pairs import Pairs
from dpsql.core.quoting import ROW_ID
from dpsql.core.sql import Sql
from dpsql.engines.base.engine import ExactRows, Scratch
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.engines.embedded.spelling import DUCKDB_TEXT
from dpsql.ir.plan import BlockPlan
from dpsql.kinds.base import GROUPS, BlockReading
from dpsql.kinds.streamed import streamed_rows
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.streamed import Streamed
from helpers.sensitivity import Groups, normal

_T = TypeVar("_T")
PLENTY = 1 << 40


@contextmanager
def small_steps() -> Iterator[None]:
    """Limits at which a few rows are sorted, worked on and merged in several steps."""
    with (
        mock.patch.object(partitions, "_SORTED_AT", 4),
        mock.patch.object(partitions, "_TOGETHER", 2),
        mock.patch.object(partitions, "CHUNK_ROWS", 3),
        mock.patch.object(maker, "_MERGED_AT", 2),
        mock.patch.object(unit_order, "_LEAST", 16),
        mock.patch.object(points, "_MERGED_AT", 2),
        mock.patch.object(points, "_MOST_CELLS", 0),
    ):
        yield


@contextmanager
def spilling_at_once() -> Iterator[None]:
    """No memory for rows, which all go to a file."""

    def made(key: Any, room: int, share: Any, file: Any) -> partitions.Partitions:
        return partitions.Partitions(key, room, lambda: 0, file)

    with mock.patch.object(maker, "Partitions", made):
        yield


def memory_for(pairs: int, fields: int = 1) -> int:
    """Compute the share of memory that so many pairs fit, with so many numbers each."""
    return pairs * maker._WORK * (fields + 2)


@contextmanager
def divided_units() -> Iterator[list[int]]:
    """List the numbers of parts of units that are larger than memory, once they are read."""
    found: list[int] = []
    real = units.GatheredUnits.of

    def noted(parts: Callable[[], Iterator[Pairs]], *, divided: bool) -> units.GatheredUnits:
        def counted() -> Iterator[Pairs]:
            number = 0
            for pairs in parts():
                number += len(pairs) > 0
                yield pairs
            found.append(number)

        return real(counted if divided else parts, divided=divided)

    with mock.patch.object(units.GatheredUnits, "of", noted):
        yield found


@dataclass
class Batches:
    """Rows of a query as a stream: shuffled, in batches of up to ``size``."""

    rows: Sequence[NDArray[Any]]
    size: int
    share: int
    spilled: int = 0

    def __iter__(self) -> Iterator[Sequence[NDArray[Any]]]:
        for begin in range(0, len(self.rows[0]), self.size):
            yield [column[begin : begin + self.size] for column in self.rows]

    def proceed(self) -> None:
        pass

    def file(self) -> RawIOBase:
        self.spilled += 1
        return cast(RawIOBase, tempfile.TemporaryFile(buffering=0))


class Place:
    """A scratch over a connection of DuckDB."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, seed: int, size: int, share: int
    ) -> None:
        self._connection = connection
        self._random = random.Random(seed)
        self._size = size
        self._share = share
        self.streams: list[Batches] = []

    def store(self, name: str, statement: Sql) -> int:
        text = statement.render(DUCKDB_TEXT)
        made = f'CREATE OR REPLACE TEMP TABLE "{name}" AS {text}'
        return int(self._connection.execute(made).fetchall()[0][0])

    def integers(self, statement: Sql) -> list[NDArray[np.int64]]:
        found = self._connection.execute(statement.render(DUCKDB_TEXT)).fetchnumpy()
        return [np.ma.getdata(column).astype(np.int64) for column in found.values()]

    def streamed(self, statement: Sql, work: Callable[[Batches], _T]) -> _T:
        found = self._connection.execute(statement.render(DUCKDB_TEXT)).fetchnumpy()
        columns = list(found.values())
        assert not any(np.ma.is_masked(column) for column in columns)
        order = list(range(len(columns[0])))
        self._random.shuffle(order)
        rows = [np.ma.getdata(column)[np.array(order, dtype=np.intp)] for column in columns]
        self.streams.append(Batches(rows, self._size, self._share))
        return work(self.streams[-1])

    def drop(self, name: str) -> None:
        self._connection.execute(f'DROP TABLE "{name}"')

    def worked(self, work: Callable[[], _T]) -> _T:
        return work()


def takes(plan: BlockPlan) -> bool:
    """Tell whether a plan can be bounded in NumPy."""
    return bool(plan.measures) and Streamed(PrivateRows(plan, 0, DUCKDB)).objection() is None


def numpy_rows(
    connection: duckdb.DuckDBPyConnection,
    plan: BlockPlan,
    salt: int,
    seed: int = 0,
    size: int = 3,
    share: int = PLENTY,
) -> ExactRows:
    """The exact rows of a plan, bounded in NumPy."""
    place = Place(connection, seed, size, share)
    reading = SimpleNamespace(plan=plan, salt=salt, dialect=DUCKDB, estimates=(), pairs=None)
    found, _ = streamed_rows(cast(BlockReading, reading), cast(Scratch, place))
    return found


def numpy_estimates(
    connection: duckdb.DuckDBPyConnection, plan: BlockPlan, salt: int, **how: int
) -> list[list[int]]:
    """What is kept and what is climbed in each span, of each of a plan's estimates."""
    place = Place(connection, how.get("seed", 0), how.get("size", 3), how.get("share", PLENTY))
    estimates = [
        SimpleNamespace(plan=each, fingerprint=str(number))
        for number, each in enumerate(plan.estimates)
    ]
    reading = SimpleNamespace(plan=plan, salt=salt, dialect=DUCKDB, estimates=estimates, pairs=None)
    _, told = streamed_rows(cast(BlockReading, reading), cast(Scratch, place))
    return [[each.kept, *each.climbed] for each in told.values()]


def numpy_groups(
    connection: duckdb.DuckDBPyConnection, plan: BlockPlan, salt: int, **how: int
) -> Groups:
    """The exact rows of a plan as ``Lab.groups`` has them, bounded in NumPy."""
    exact = numpy_rows(connection, plan, salt, **how)
    block = plan.block
    measures = [exact.measures[block.measure_column(i)] for i in range(len(plan.measures))]
    names = [block.key_column(i) for i in range(len(block.keys))]
    if plan.declared:
        keys = list(zip(*(exact.measures[name].tolist() for name in names), strict=True))
        keys = keys or [()] * len(exact.row_ids)
    else:
        listed = ", ".join(f'"{each}"' for each in (ROW_ID, *names))
        found = connection.execute(f'SELECT {listed} FROM "{GROUPS}"').fetchall()
        by_id = {row[0]: tuple(map(normal, row[1:])) for row in found}
        keys = [by_id[each] for each in exact.row_ids.tolist()]
    values = zip(*(column.tolist() for column in measures), strict=True)
    return dict(zip(keys, values, strict=True))
