"""What the suite of all engines needs of one engine, and how it reads exact rows of any.

An *engine world* is a place with an engine in it: a database that tests fill as its owner, and the
engine's own way to it. A new engine is a world, and a subclass of
:class:`engine_suite.EngineSuite`.
"""

from __future__ import annotations

import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from helpers.columns import column_of
from helpers.dialects import POSTGRESQL, SPARK
from helpers.support import SALT, Planned, binding

from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import Column, Schema, Table, schema_of
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ArrowStream, Engine, ExactRows, KeyArrays, Reads, Run
from dpsql.engines.dialects import dialect_of
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.plan import BlockPlan, PreparedBlock
from dpsql.ir.relations import scanned
from dpsql.kinds.cascade import ExactCascade, units_alone
from dpsql.kinds.groups import ExactGroups
from dpsql.kinds.quantiles import ExactQuantiles
from dpsql.kinds.registry import release_kind
from dpsql.kinds.union import ExactUnion
from dpsql.pipeline.release import read_exact
from dpsql.privacy.mechanisms.cascade import Caps

Row = tuple[Any, ...]
Groups = dict[tuple[object, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Filled:
    """A table with its rows: columns by name, in DuckDB's types, values as Python has them."""

    columns: tuple[tuple[str, str], ...]
    rows: Sequence[Row] = ()

    def without(self, column: int, value: object) -> Filled:
        """The same without the rows that have a value in a column."""
        return Filled(self.columns, [row for row in self.rows if row[column] != value])


def schema_for(tables: Mapping[str, Filled]) -> Schema:
    """The schema of these tables."""
    return schema_of(
        *(Table(name, tuple(column_of(*c) for c in t.columns)) for name, t in tables.items())
    )


class EngineWorld(ABC):
    """One engine with a database that tests may fill."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in test reports."""

    @property
    @abstractmethod
    def types(self) -> frozenset[str]:
        """The (DuckDB) types of columns that its tables can have."""

    @abstractmethod
    def engine(self, tables: Mapping[str, Filled]) -> Engine:
        """A locked engine over tables with exactly these rows. An earlier one may be closed."""

    @abstractmethod
    def close(self) -> None:
        """End all that was started."""

    @property
    @abstractmethod
    def failing(self) -> str:
        """A statement of one column that fails on a value, ``quoted-value``, at run time."""

    @property
    @abstractmethod
    def endless(self) -> str:
        """A statement with a row id and a column ``m`` that would run for hours."""

    @property
    def snapshots(self) -> bool:
        """True if others can write while an engine reads; then ``write`` does."""
        return False

    def write(self, name: str, row: Row) -> None:
        """Add a row to a table as its owner, from outside, and commit."""
        raise NotImplementedError

    @property
    def dialect(self) -> Dialect:
        """The dialect of its engines."""
        known: dict[str, Dialect] = {each.name: each for each in (DUCKDB, POSTGRESQL, SPARK)}
        return known[self.name]

    @property
    def lenient(self) -> Callable[[str, str], str | None]:
        """Says of a golden case's title, and the code of its refusal, why it is refused there."""
        return lambda title, code: None


# -- reading ---------------------------------------------------------------------------------------


def normal(value: object) -> object:
    """A key as engines group it: one NaN, one zero; types of one value told apart no further."""
    if isinstance(value, float | np.floating):
        return "NaN" if math.isnan(value) else float(value) + 0.0
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    return None if value is np.ma.masked else value


def prepared(plan: BlockPlan, schema: Schema) -> PreparedBlock:
    """A block with its statement for DuckDB, and its keys with the types they have there."""
    statement = release_kind(plan).statement(SALT, DUCKDB)
    found = binding(schema)(statement)[1:]
    names = [plan.block.key_column(i) for i in range(len(plan.block.keys))]
    keys = tuple(Column(n, c.type) for n, c in zip(names, found, strict=False))
    return PreparedBlock(plan, keys, write=lambda: statement, renderer=DUCKDB.renderer)


def key_rows(
    keys: KeyArrays | ArrowStream, names: Sequence[str], row_ids: Sequence[int]
) -> list[Row]:
    """The keys of rows, in the order of their row ids."""
    if isinstance(keys, dict):
        lists = [keys[name].tolist() for name in names]
        return [tuple(map(normal, row)) for row in zip(*lists, strict=True)] or [
            () for _ in row_ids if not names
        ]
    table = pa.table(keys)
    places = {row_id: place for place, row_id in enumerate(table[ROW_ID].to_pylist())}
    lists = [table[name].to_pylist() for name in names]
    return [tuple(normal(column[places[row_id]]) for column in lists) for row_id in row_ids]


def groups_of(exact: ExactRows, block: PreparedBlock) -> Groups:
    """Exact rows as a mapping of keys to measures."""
    ids, names = exact.row_ids.tolist(), [key.name for key in block.keys]
    assert ids == list(range(1, len(ids) + 1)) or len(set(ids)) == len(ids)
    assert ids == sorted(ids)
    if block.plan.declared:
        keys: list[Row] = list(zip(*(exact.measures[n].tolist() for n in names), strict=True))
        keys = keys or [() for _ in ids if not names]
    else:
        keys = key_rows(exact.keys, names, ids)
    measures = [block.plan.block.measure_column(i) for i in range(len(block.plan.measures))]
    values = list(zip(*(exact.measures[name].tolist() for name in measures), strict=True))
    found = dict(zip(keys, values or [() for _ in ids], strict=True))
    assert len(found) == len(ids), "a group appears twice"
    return found


def statement_groups(run: Run, block: PreparedBlock, dialect: Dialect, salt: int = SALT) -> Groups:
    """The groups of a block, read by the statement that a dialect writes."""
    plan = block.plan
    rows = run.over(Reads(scanned(plan.block.source.rows)))
    sql = release_kind(plan).statement(salt, dialect)
    measures = [plan.block.measure_column(i) for i in range(len(plan.measures))]
    if plan.declared:
        return groups_of(rows.exact(sql, (), [*(k.name for k in block.keys), *measures]), block)
    return groups_of(rows.exact(sql, block.keys, measures), block)


@dataclass
class Found:
    """All that can be read of a block with the caps lifted, whatever numbers its rows have."""

    groups: dict[Any, Any] = field(default_factory=dict)
    others: dict[Any, Any] = field(default_factory=dict)


def read_all(engine: Engine, block: PreparedBlock) -> Found:
    """Read a block as a query does, and ask for all that a release could ask for."""
    dialect = dialect_of(engine.verdicts)
    with engine.run(120) as run, read_exact(run, block, dialect, lambda _: None) as exact:
        match exact:
            case ExactGroups():
                return read_block(exact, block)
            case ExactUnion():
                return _read_union(exact, block)
            case ExactCascade():
                return _read_cascade(exact, block)
            case _:
                raise AssertionError(exact)


def read_block(exact: ExactGroups, block: PreparedBlock) -> Found:
    """Read the groups of a block, and their histograms."""
    ids = exact.rows.row_ids
    if exact.keys_of is None:
        found = groups_of(exact.rows, block)
    else:
        names = [key.name for key in block.keys]
        keys = key_rows(exact.keys_of(ids), names, ids.tolist())
        columns = [block.plan.block.measure_column(i) for i in range(len(block.plan.measures))]
        values = zip(*(exact.rows.measures[name].tolist() for name in columns), strict=True)
        found = dict(zip(keys, list(values) or [() for _ in keys], strict=True))
    others: dict[Any, Any] = {}
    if isinstance(exact, ExactQuantiles):
        for place, noisy in enumerate(block.plan.quantiles):
            histogram = exact.histograms(noisy.quantile.ranked, ids)
            start = 0
            for key, end in zip(found, histogram.ends.tolist(), strict=True):
                entries = zip(
                    histogram.points[start:end].tolist(),
                    histogram.counts[start:end].tolist(),
                    strict=True,
                )
                others[place, key], start = sorted(entries), end
    return Found(dict(found), others)


def _read_union(exact: ExactUnion, block: PreparedBlock) -> Found:
    ids = np.arange(1, len(exact.weights) + 1)
    names = [key.name for key in block.keys]
    keys = key_rows(exact.named(ids).keys, names, ids.tolist())
    return Found(dict(zip(keys, exact.weights.tolist(), strict=True)))


def _read_cascade(exact: ExactCascade, block: PreparedBlock) -> Found:
    none = np.array([], dtype=np.int64)
    sizes = exact.rows.unit_sizes(None)
    weighed = exact.rows.unnamed_weights(none, 3000)
    order = np.argsort(weighed.ids)
    ids = weighed.ids[order]
    names = [key.name for key in block.keys]
    keys = key_rows(exact.keys_of(ids), names, ids.tolist())
    found = Found(dict(zip(keys, weighed.weights[order].tolist(), strict=True)))
    found.others["sizes"] = sorted(zip(*(part.tolist() for part in _arrays(sizes)), strict=True))
    if any(noisy.noise is not None for noisy in block.plan.measures):
        some = ids[::2]
        left = exact.rows.unnamed_weights(some, 3000)
        found.others["left"] = sorted(left.weights.tolist())
        if not units_alone(block.plan):
            norms = _arrays(exact.rows.unit_norms(some))
            found.others["norms"] = sorted(zip(*(n.tolist() for n in norms), strict=True))
            found.others["shares"] = exact.rows.norm_shares(some)
        for place, column in enumerate(exact.totals(some, Caps(1000, 1000))):
            found.others["totals", place] = dict(zip(keys[::2], column.tolist(), strict=True))
    return found


def _arrays(sizes: Any) -> list[Any]:
    return [getattr(sizes, name) for name in type(sizes).__dataclass_fields__]


def blocks_of(found: Planned, schema: Schema) -> list[PreparedBlock]:
    """The blocks of a question that was planned."""
    return [prepared(plan, schema) for plan in found.plans]
