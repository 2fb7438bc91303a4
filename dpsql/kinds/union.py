"""Set unions: keys alone, named by the units that have them.

Units and their keys are stored, and streamed past a policy that weighs the keys, or a count of
votes. Tables are stored one after the other, each by a generated SELECT over earlier ones:

* ``kept``: the distinct pairs of unit and keys, of which a unit keeps its first
  ``max_groups_contributed`` in the order of a salted hash, or all where it has one vote;
* ``keys``: every kept key with a row id, its rank among them, for votes by a salted hash;
* for fixed weights, ``keys`` also has the sum of what units give to each;
* for a policy or for votes, ``pairs``: the kept pairs as numbers, the unit's position in the order
  of a salted hash and the key's row id.

The rank of keys depends on no more than which keys there are, and the position of one unit
relative to another on these two units alone: what the proof of the policies relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsql.accuracy.appearance import Appearance, appearance
from dpsql.accuracy.wording import Part, groups_chosen, printable_name
from dpsql.core.formatting import figure_above
from dpsql.core.progress import Percent, ReadingProgress
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column
from dpsql.core.sql import Sql, digits, join, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import ExactRows, Scratch
from dpsql.ir.plan import BlockPlan, BoundedBy, Maker
from dpsql.kinds.base import FEW, GROUPS, BlockReading, ReleaseKind
from dpsql.kinds.left_out import ExactLeftOut
from dpsql.kinds.released import ReleasedRows
from dpsql.kinds.streamed import bounded_by
from dpsql.kinds.streamed_union import streamed_weights_of_keys
from dpsql.policy.limits import BoundingLimit
from dpsql.privacy.mechanisms.greedy_union import GreedySetUnion
from dpsql.privacy.mechanisms.set_union import SetUnion, set_union_in
from dpsql.privacy.mechanisms.set_union_weights import UNIT_WEIGHT_STEPS, UnitItems
from dpsql.privacy.sampling.noise import EntropySource
from dpsql.sql.expressions.proven_integers import Ranged, column
from dpsql.sql.rewrite.rows import PrivateRows

KEPT_TABLE, KEYS_TABLE, UNITS_TABLE, PAIRS_TABLE = (
    f"{INTERNAL_PREFIX}{name}" for name in ("kept", "keys", "units", "pairs")
)
_SATURATION = 2**62
_PAIRS_AT_ONCE = 2**19
_STORED = 60  # percent, once what a policy reads is stored


@dataclass(frozen=True, slots=True)
class ExactUnion:
    """The weights of all keys of a set union, in the order of their row ids, which start at 1.

    ``weights``: int64 array of shape (keys,), in steps. ``named`` reads the keys with some row ids.
    """

    weights: NDArray[np.int64]
    named: Callable[[NDArray[np.int64]], ExactRows]
    estimates: Mapping[str, ExactLeftOut] = field(default_factory=dict)

    def release(self, plan: BlockPlan, source: EntropySource) -> ReleasedRows:
        """Draw which keys are named.

        Guarantee: ``plan.loss(released)``, for tables within the sensitivity of ``set_union_sql``.
        """
        chosen = UnionKind(plan).union.select(self.weights, source).indices
        named = self.named(chosen + 1)
        return ReleasedRows(named.row_ids, named.keys, {}, plan.loss(len(chosen)))

    def rehearse(self, plan: BlockPlan) -> None:
        """Ask for named keys."""
        self.named(FEW)


class UnionKind(ReleaseKind):
    """Keys alone, named by the units that have them."""

    @classmethod
    def fits(cls, plan: BlockPlan) -> bool:
        """Tell whether a set union names the keys."""
        return set_union_in(plan.selection) is not None

    @property
    def union(self) -> SetUnion | GreedySetUnion:
        """The set union that names the keys."""
        found = set_union_in(self.plan.selection)
        assert found is not None
        return found

    def sql(self, salt: int, dialect: Dialect) -> SetUnionSQL:
        """Write its statements."""
        return set_union_sql(self.private_rows(salt, dialect), self.union)

    def statement(self, salt: int, dialect: Dialect) -> Sql:
        """Write the keys with their weights, or with the units that have them."""
        return self.sql(salt, dialect).sql

    @contextmanager
    def read(self, reading: BlockReading) -> Iterator[ExactUnion]:
        """Store units and their keys, and weigh these."""
        plan, keys = self.plan, reading.block.keys
        with reading.rows.scratch() as scratch:
            if reading.block.bounded_by.maker is Maker.NUMPY:
                yield self._streamed(reading, scratch)
                return
            union = self.sql(reading.salt, reading.dialect)
            yield read_set_union(plan, union, scratch, keys, reading.progress)

    def _streamed(self, reading: BlockReading, scratch: Scratch) -> ExactUnion:
        progress = _WeighingProgress(reading.progress)
        weights = streamed_weights_of_keys(
            reading, self.union, scratch, progress.weighed, progress.stored
        )
        progress.end()
        named = _named(self.private_rows(reading.salt, reading.dialect), GROUPS)
        return ExactUnion(weights, lambda ids: scratch.keys(named, reading.block.keys, ids))

    def bounded_by(self, dialect: Dialect, bounding: BoundingLimit) -> BoundedBy:
        """Choose NumPy where it bounds the units of such rows."""
        return bounded_by(self.private_rows(0, dialect), bounding, read_often=True)

    def sentences(self, part: Part, confidence: float) -> Iterator[str]:
        """Yield which keys are listed, and how many of them a unit has."""
        found = self.appearance()
        if found is not None:
            yield _listed(self.plan, found)
        yield from groups_chosen(self.plan)

    def appearance(self) -> Appearance | None:
        """Tell how often keys are listed; for policies by an estimate (see ``SetUnion.share``)."""
        return appearance(self.plan, above=True)

    @property
    def counted_by(self) -> str | None:
        """Units with as many keys as they may have."""
        return f"units of {self.plan.groups} groups each"

    @property
    def bounding(self) -> str:
        """How many keys a unit has, and what they weigh."""
        return self.union.bounding


def _listed(plan: BlockPlan, found: Appearance) -> str:
    """State a threshold on weights that units divide among their keys."""
    unit, half, surely = (
        printable_name(plan.block.unit_name),
        figure_above(found.half),
        figure_above(found.surely),
    )
    if UnionKind(plan).union.in_sequence:
        return (
            f"All that is listed exists. By an estimate a key needs about {half} units ({unit}) to "
            f"be listed half the time, and {surely} for 95% (after bounding)."
        )
    return (
        f"All that is listed exists. A key that keeps {half} units ({unit}) is listed at least "
        f"half the time, one with {surely} at least 95%."
    )


class _WeighingProgress:
    """Tells of stored tables, then of weighed units, as a part of the reading."""

    def __init__(self, percent: Percent) -> None:
        self._progress = ReadingProgress(percent)

    def stored(self, tables: int = 1, of: int = 1, *, whole: bool = False) -> None:
        """Tell that so many tables are there; they are the ``whole`` work without a pass."""
        self._progress.reach((100 if whole else _STORED) * tables // of)

    def weighed(self, done: int, total: int | None) -> None:
        """Tell that so many units are weighed."""
        self._progress.reach(_STORED + (100 - _STORED) * done // (total or done))

    def end(self) -> None:
        """Tell that all is read, also where there are no units."""
        self._progress.reach(100)


def read_set_union(
    plan: BlockPlan,
    sql: SetUnionSQL,
    scratch: Scratch,
    keys: Sequence[Column],
    percent: Percent = lambda _: None,
) -> ExactUnion:
    """Read the weights of all keys. Keys themselves are read only once they are named."""
    progress = _WeighingProgress(percent)
    rows = {}
    for number, (name, select) in enumerate(sql.tables, 1):
        rows[name] = scratch.store(name, select)
        progress.stored(number, len(sql.tables), whole=sql.weights is not None)
    for name in sql.dropped:
        scratch.drop(name)
    if sql.weights is not None:
        (weights,) = scratch.integers(sql.weights)
    else:
        assert sql.pairs is not None
        weights = _weighed(
            UnionKind(plan).union,
            scratch,
            sql.pairs,
            rows[UNITS_TABLE],
            rows[PAIRS_TABLE],
            progress,
        )

    def named(ids: NDArray[np.int64]) -> ExactRows:
        return scratch.keys(sql.named, keys, ids)

    return ExactUnion(weights, named)


def _weighed(
    union: SetUnion | GreedySetUnion,
    scratch: Scratch,
    between: Sql,
    units: int,
    pairs: int,
    progress: _WeighingProgress,
) -> NDArray[np.int64]:
    """Weigh the keys by a policy's pass over all units, some of them at a time."""
    in_order = units_in_order(scratch, between, units, pairs)
    weights = union.weigh(in_order, progress.weighed, units)
    progress.end()
    return weights


def units_in_order(scratch: Scratch, between: Sql, units: int, pairs: int) -> Iterator[UnitItems]:
    """Read pairs of units and keys, some units at a time; once also where no unit is there."""
    step = max(1, _PAIRS_AT_ONCE * units // max(1, pairs))
    for first in range(0, max(1, units), step):
        yield UnitItems(*scratch.integers(between, first, first + step))


@dataclass(frozen=True, slots=True)
class SetUnionSQL:
    """The statements of one set union.

    ``tables`` are names and SELECTs, to be stored in this order; those in ``dropped`` are not
    needed once all are. ``weights`` lists the keys' weights in order of row id, in steps, and is
    None for a policy. ``pairs`` is None for all others: it takes two positions, from 0, and lists
    in order the position and key code, from 0, of the pairs of all units between them. ``named``
    takes a list of row ids and returns these and their keys. ``sql`` is all of it as one statement:
    row id and keys, then the weight, or for a policy the position of each unit that has them.
    """

    tables: tuple[tuple[str, Sql], ...]
    dropped: tuple[str, ...]
    weights: Sql | None
    pairs: Sql | None
    named: Sql
    sql: Sql


def set_union_sql(rows: PrivateRows, union: SetUnion | GreedySetUnion) -> SetUnionSQL:
    """Write a set union's statements, under a salt that is a fresh random number for each query.

    Sensitivity: ``SetUnion.sensitivity`` for the weights they lead to, or one vote. One unit is in
    at most ``plan.groups`` pairs, but where it has one vote; without it, all other pairs stay, and
    their order too. Checked by ``tests/sql/test_set_union_sql.py``.
    """
    if union.in_sequence:
        return _in_sequence(rows, rows.hashed(rows.keys) if union.keys_by_hash else None)
    return _fixed(rows, union.norm)


def _fixed(rows: PrivateRows, norm: int) -> SetUnionSQL:
    """Write the weight of every key: the sum of its units' equal shares of 1, rounded down."""
    keys, unit, kept = join(", ", rows.keys), rows.unit, quoted(KEPT_TABLE)
    weight, size = rows.internal("weight"), rows.internal("size")
    share = _share(size, norm, rows.dialect)
    total = sql("{} AS {}", share.sum().at_most(_SATURATION).narrowed().sql, weight)
    sizes = sql(
        "SELECT {unit}, count(*) AS {size} FROM {kept} GROUP BY {unit}",
        unit=unit,
        size=size,
        kept=kept,
    )
    weighed = sql(
        "SELECT {keys}, {total} FROM {kept} JOIN {} USING ({unit}) GROUP BY {keys}",
        rows.dialect.derived(sizes),
        keys=keys,
        total=total,
        kept=kept,
        unit=unit,
    )
    ranked = sql("SELECT {}, {} FROM {}", _ranked(rows), weight, rows.dialect.derived(weighed))
    tables = ((KEPT_TABLE, _kept(rows)), (KEYS_TABLE, ranked))
    in_order = sql("FROM {} ORDER BY {}", quoted(KEYS_TABLE), rows.row_id)
    return SetUnionSQL(
        tables=tables,
        dropped=(KEPT_TABLE,),
        weights=sql("SELECT {} {}", weight, in_order),
        pairs=None,
        named=_named(rows),
        sql=_as_one(
            rows,
            tables,
            sql(
                "SELECT {row_id}, {keys}, {weight} {in_order}",
                row_id=rows.row_id,
                keys=keys,
                weight=weight,
                in_order=in_order,
            ),
        ),
    )


def _share(size: Sql, norm: int, dialect: Dialect) -> Ranged:
    """Compute a unit's weight for each of its keys.

    The results are those of ``SetUnion.item_weights``, in float64 as well, for every size that it
    allows.
    """
    if norm == 1:
        share = dialect.cast(dialect.divided(digits(UNIT_WEIGHT_STEPS), size, wide=False), BIGINT)
    else:
        share = dialect.divided_by_root(UNIT_WEIGHT_STEPS, size)
    return column(share, 0, UNIT_WEIGHT_STEPS, dialect=dialect)


def _in_sequence(rows: PrivateRows, first: Sql | None) -> SetUnionSQL:
    """Number units and keys; pairs of them are sorted as the pass takes them.

    Keys are numbered by ``first`` if it is given, and then in their own order.
    """
    dialect, unit, row_id = rows.dialect, rows.unit, rows.row_id
    kept, all_keys, all_units, pairs = map(
        quoted, (KEPT_TABLE, KEYS_TABLE, UNITS_TABLE, PAIRS_TABLE)
    )
    keys, position = join(", ", rows.keys), rows.internal("position")
    distinct_keys = dialect.derived(sql("SELECT DISTINCT {} FROM {}", keys, kept))
    distinct_units = dialect.derived(sql("SELECT DISTINCT {} FROM {}", unit, kept))
    same_keys = join(
        " AND ", (dialect.same(sql("p.{}", key), sql("k.{}", key)) for key in rows.keys)
    )
    order = sql("ORDER BY {}, {}", position, row_id)
    tables = (
        (KEPT_TABLE, _kept(rows)),
        (KEYS_TABLE, sql("SELECT {} FROM {}", _ranked(rows, first), distinct_keys)),
        (UNITS_TABLE, numbered_units(rows, distinct_units)),
        (
            PAIRS_TABLE,
            sql(
                "SELECT {position}, {row_id} FROM {kept} p JOIN {all_keys} k ON {same_keys} "
                "JOIN {all_units} USING ({unit}) {order}",
                position=position,
                row_id=row_id,
                kept=kept,
                all_keys=all_keys,
                same_keys=same_keys,
                all_units=all_units,
                unit=unit,
                order=order,
            ),
        ),
    )
    last = sql(
        "SELECT {row_id}, {keys}, {position} FROM {pairs} JOIN {all_keys} USING ({row_id}) {order}",
        row_id=row_id,
        keys=keys,
        position=position,
        pairs=pairs,
        all_keys=all_keys,
        order=order,
    )
    return SetUnionSQL(
        tables=tables,
        dropped=(KEPT_TABLE, UNITS_TABLE),
        weights=None,
        pairs=pairs_between(rows, PAIRS_TABLE),
        named=_named(rows),
        sql=_as_one(rows, tables, last),
    )


def numbered_units(rows: PrivateRows, units: Sql) -> Sql:
    """Write the distinct units of a FROM clause with their positions, by a salted hash, from 0."""
    order = sql("{}, {}", rows.hashed([rows.unit]), rows.dialect.ascending(rows.unit))
    position = sql("row_number() OVER (ORDER BY {}) - 1 AS {}", order, rows.internal("position"))
    return sql("SELECT {}, {} FROM {}", rows.unit, position, units)


def pairs_between(rows: PrivateRows, pairs: str) -> Sql:
    """Write what reads a table of positions and row ids, from one position up to another."""
    return sql(
        "SELECT {position}, {row_id} - 1 FROM {pairs} WHERE {position} >= {first} AND "
        "{position} < {end} ORDER BY {position}, {row_id}",
        position=rows.internal("position"),
        row_id=rows.row_id,
        pairs=quoted(pairs),
        first=rows.dialect.parameter(1),
        end=rows.dialect.parameter(2),
    )


def _kept(rows: PrivateRows) -> Sql:
    columns = join(", ", [rows.unit, *rows.keys])
    every = rows.dialect.to_group(rows.dialect.derived(rows.select()), [rows.unit, *rows.keys])
    pairs = sql("SELECT DISTINCT {} FROM {}", columns, every)
    return sql("SELECT {} FROM {}", columns, rows.capped(pairs))


def _ranked(rows: PrivateRows, first: Sql | None = None) -> Sql:
    order = join(", ", [*([] if first is None else [first]), *rows.ascending(rows.keys)])
    return sql(
        "row_number() OVER (ORDER BY {}) AS {}, {}", order, rows.row_id, join(", ", rows.keys)
    )


def _named(rows: PrivateRows, table: str = KEYS_TABLE) -> Sql:
    columns = join(", ", [rows.row_id, *rows.keys])
    chosen = rows.dialect.among_given(rows.row_id, few=False)
    return sql("SELECT {} FROM {} WHERE {}", columns, quoted(table), chosen)


def _as_one(rows: PrivateRows, tables: tuple[tuple[str, Sql], ...], last: Sql) -> Sql:
    dialect = rows.dialect
    steps = join(", ", (dialect.materialized(quoted(name), written) for name, written in tables))
    return sql("WITH {} {}", steps, last)
