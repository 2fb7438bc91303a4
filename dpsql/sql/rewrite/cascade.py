"""The SQL of cascades: the distinct pairs of units and keys on a stage, then a statement per step.

The stage is made of tables of one question, each stored by a generated SELECT over earlier ones:

* ``pairs``: one row per unit and keys, with what the unit adds to the group, and the salted hash by
  which a unit's keys are ordered;
* ``groups``: every key with a row id, its rank among them;
* ``staged``: the pairs with the row id in place of the keys.

Steps read the stage, or what is left of it: ``named`` holds the groups with a name, ``left`` the
pairs of all others, ``counted`` the pairs of those that are counted. Which groups have a name comes
as a list of row ids, from released rows. Beside each table of pairs is one of how many of them each
unit has there (:func:`sizes_of`), which all that reads the pairs needs.

The order of a unit's keys depends on the unit, the key and the salt, and is the same in each round:
so is a row id relative to another, but not the row id, which is why the hash is not one of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Table
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan
from dpsql.mechanisms.cascade import KEPT_CHOICES
from dpsql.mechanisms.weighted_histogram import weight_of
from dpsql.sql.dialects.base import Dialect
from dpsql.sql.rewrite.contributions import clamped, summed
from dpsql.sql.rewrite.quantile_histograms import GROUPS
from dpsql.sql.rewrite.rows import PrivateRows
from dpsql.sql.rewrite.weighting import unit_weight

STAGED_PAIRS, NAMED_IDS, LEFT_PAIRS, COUNTED_PAIRS = (
    f"{INTERNAL_PREFIX}{name}" for name in ("staged", "named", "left", "counted")
)
_RAW_PAIRS = f"{INTERNAL_PREFIX}pairs"


def sizes_of(pairs: str) -> str:
    """Name the table of how many pairs each unit has in a table of pairs."""
    return f"{pairs}_sizes"


@dataclass(frozen=True, slots=True)
class CascadeSQL:
    """The statements of one cascade.

    ``tables`` are names and SELECTs, to be stored in this order; those in ``dropped`` are not
    needed once all are. ``named`` is stored as NAMED_IDS and takes a list of row ids; after it
    ``left`` is stored as LEFT_PAIRS, or ``counted`` as COUNTED_PAIRS. ``sql`` is all up to the
    first round as one statement: row id, keys, weight, and whether enough units keep the group, a
    unit keeping as many keys as it ever may.
    """

    rows: PrivateRows
    tables: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    named: str
    left: str
    counted: str
    sql: str

    def sizes(self, table: str) -> str:
        """Count the pairs of each unit in a table, to be stored as ``sizes_of(table)``."""
        return _sizes(self.rows, table)

    def unit_sizes(self, table: str) -> str:
        """Count how many units have each number of pairs in a table.

        One unit more or less changes one of these counts, by one.
        """
        size, sizes = self.rows.internal("size"), self.rows.dialect.quote(sizes_of(table))
        return (
            f"SELECT {size}, count(*) AS {self.rows.internal('units')} FROM {sizes} GROUP BY {size}"
        )

    def weights(self, table: str, kept: int) -> str:
        """Weigh the groups in a table, of which a unit keeps ``kept``.

        Row ids, weights, and 1 where the minimum of units keep the group, otherwise 0. One unit
        more or less moves the weights by one whole weight in l2 at most, and brings or takes
        ``kept`` groups at most.
        """
        return _round(self.rows, table, kept)

    def totals(self, cap: int) -> str:
        """Sum what units add to the counted groups, by their weights at a cap, after the row ids.

        One unit more or less moves each measure by sqrt(``cap``) times its sensitivity at most, in
        l2. Measures without noise of their own are left out.
        """
        rows, table = self.rows, self.rows.dialect.quote(COUNTED_PAIRS)
        names = _value_columns(rows.plan, rows)
        columns = ", ".join([rows.row_id, *names, rows.internal("weight")])
        weights = _unit_weights(rows, COUNTED_PAIRS, cap)
        weighed = rows.dialect.derived(
            f"SELECT {columns} FROM {table} JOIN {weights} USING ({rows.unit})"
        )
        sums = [
            f"{_total(rows, noisy.measure, name)} AS {name}"
            for noisy, name in zip(rows.plan.measures, rows.measures, strict=True)
            if noisy.noise is not None
        ]
        return f"SELECT {', '.join([rows.row_id, *sums])} FROM {weighed} GROUP BY {rows.row_id}"


def cascade_sql(
    plan: BlockPlan, table: Table, salt: int, contributions: str, dialect: Dialect
) -> CascadeSQL:
    """Write the statements of a cascade; ``contributions`` has a row per unit and keys.

    ``salt`` is a fresh random number for each question, the same for all of its steps. Checked by
    ``tests/sql/test_cascade_queries.py``.
    """
    rows = PrivateRows(plan, table, salt, dialect)
    quote, derived = dialect.quote, dialect.derived
    values = _value_columns(plan, rows)
    order, raw = rows.internal("order"), quote(_RAW_PAIRS)
    keys = ", ".join(rows.keys)
    pairs = (
        f"SELECT {', '.join([rows.unit, keys, *values])}, "
        f"{rows.hashed([rows.unit, *rows.keys])} AS {order} FROM {derived(contributions)}"
    )
    number = f"row_number() OVER (ORDER BY {', '.join(rows.ascending(rows.keys))})"
    found = derived(f"SELECT DISTINCT {keys} FROM {raw}")
    groups = f"SELECT {number} AS {rows.row_id}, {keys} FROM {found}"
    same = " AND ".join(dialect.same(f"p.{key}", f"g.{key}") for key in rows.keys)
    shown = ", ".join([rows.unit, f"g.{rows.row_id}", order, *values])
    staged = f"SELECT {shown} FROM {raw} p JOIN {quote(GROUPS)} g ON {same}"
    tables = (
        (_RAW_PAIRS, pairs),
        (GROUPS, groups),
        (STAGED_PAIRS, staged),
        (sizes_of(STAGED_PAIRS), _sizes(rows, STAGED_PAIRS)),
    )
    return CascadeSQL(
        rows=rows,
        tables=tables,
        dropped=(_RAW_PAIRS,),
        named=f"SELECT {rows.row_id} FROM {quote(GROUPS)} "
        f"WHERE {dialect.among_given(rows.row_id, few=False)}",
        left=_of_named(rows, negated=True),
        counted=_of_named(rows, negated=False),
        sql=_as_one(rows, tables),
    )


def _of_named(rows: PrivateRows, *, negated: bool) -> str:
    """Select the pairs whose group has a name, or has none."""
    row_id, quote = rows.row_id, rows.dialect.quote
    joined = rows.dialect.semi_join(
        f"{quote(STAGED_PAIRS)} p",
        f"{quote(NAMED_IDS)} g",
        f"p.{row_id} = g.{row_id}",
        negated=negated,
    )
    columns = [rows.unit, row_id, rows.internal("order"), *_value_columns(rows.plan, rows)]
    return f"SELECT {', '.join(columns)} FROM {joined}"


def _value_columns(plan: BlockPlan, rows: PrivateRows) -> list[str]:
    """List the columns of what is counted beside units, which need none."""
    return [
        name
        for noisy, name in zip(plan.measures, rows.measures, strict=True)
        if noisy.measure.kind is not MeasureKind.UNITS
    ]


def _sizes(rows: PrivateRows, table: str) -> str:
    size = rows.internal("size")
    return (
        f"SELECT {rows.unit}, count(*) AS {size} FROM {rows.dialect.quote(table)} "
        f"GROUP BY {rows.unit}"
    )


def _unit_weights(rows: PrivateRows, table: str, cap: int, where: str = "") -> str:
    """Write the units of a table of pairs with what each weighs in a group, at a cap."""
    weight = f"{unit_weight(rows, cap).sql} AS {rows.internal('weight')}"
    sizes = rows.dialect.quote(sizes_of(table))
    return rows.dialect.derived(f"SELECT {rows.unit}, {weight} FROM {sizes}{where}")


def _round(rows: PrivateRows, table: str, kept: int) -> str:
    """Weigh groups: a unit keeps its first keys, and has one unit of l2 norm for them."""
    dialect, unit, row_id = rows.dialect, rows.unit, rows.row_id
    size, rank, order, weight = (rows.internal(n) for n in ("size", "rank", "order", "weight"))
    pairs, sizes = dialect.quote(table), dialect.quote(sizes_of(table))
    weights = _unit_weights(rows, table, 1, f" WHERE {size} <= {kept}")
    few = f"SELECT {row_id}, {weight} FROM {pairs} JOIN {weights} USING ({unit})"
    crowded = dialect.derived(f"SELECT {unit} FROM {sizes} WHERE {size} > {kept}")
    window = f"PARTITION BY {unit} ORDER BY {order}, {row_id}"
    ranked = dialect.derived(
        f"SELECT {row_id}, row_number() OVER ({window}) AS {rank} "
        f"FROM {pairs} JOIN {crowded} USING ({unit})"
    )
    many = f"SELECT {row_id}, {weight_of(1, kept)} FROM {ranked} WHERE {rank} <= {kept}"
    weighed = dialect.derived(f"{few} UNION ALL {many}")
    total = summed(rows, _units(rows.plan), unit_weight(rows, 1))
    minimum = rows.plan.block.parameters.min_units_per_group
    enough = f"CASE WHEN count(*) >= {minimum} THEN 1 ELSE 0 END AS {rows.internal('enough')}"
    return f"SELECT {row_id}, {total} AS {weight}, {enough} FROM {weighed} GROUP BY {row_id}"


def _units(plan: BlockPlan) -> Measure:
    assert plan.score is not None
    return plan.measures[plan.score].measure


def _total(rows: PrivateRows, measure: Measure, name: str) -> str:
    most = rows.plan.block.parameters.max_rows_contributed
    contribution = clamped(measure, name, most, rows.dialect).named(name)
    return summed(rows, measure, contribution)


def _as_one(rows: PrivateRows, tables: tuple[tuple[str, str], ...]) -> str:
    dialect = rows.dialect
    steps = ", ".join(dialect.materialized(dialect.quote(name), sql) for name, sql in tables)
    weights = dialect.derived(_round(rows, STAGED_PAIRS, KEPT_CHOICES[-1]))
    shown = (rows.internal("weight"), rows.internal("enough"))
    columns = ", ".join([rows.row_id, *rows.keys, *shown])
    return (
        f"WITH {steps} SELECT {columns} FROM {dialect.quote(GROUPS)} "
        f"JOIN {weights} USING ({rows.row_id})"
    )
