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
from dpsql.core.sql import EMPTY_SQL, Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.ir.measures import Measure, MeasureKind
from dpsql.ir.plan import BlockPlan
from dpsql.privacy.mechanisms.cascade import KEPT_CHOICES
from dpsql.privacy.mechanisms.weighted_histogram import weight_of
from dpsql.sql.rewrite.contributions import Gathered, summed
from dpsql.sql.rewrite.quantile_histograms import GROUPS
from dpsql.sql.rewrite.rewrite import unit_pairs
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
    tables: tuple[tuple[str, Sql], ...]
    dropped: tuple[str, ...]
    named: Sql
    left: Sql
    counted: Sql
    sql: Sql

    def sizes(self, table: str) -> Sql:
        """Count the pairs of each unit in a table, to be stored as ``sizes_of(table)``."""
        return _sizes(self.rows, table)

    def unit_sizes(self, table: str) -> Sql:
        """Count how many units have each number of pairs in a table.

        One unit more or less changes one of these counts, by one.
        """
        size, sizes = self.rows.internal("size"), quoted(sizes_of(table))
        return sql(
            "SELECT {size}, count(*) AS {} FROM {sizes} GROUP BY {size}",
            self.rows.internal("units"),
            size=size,
            sizes=sizes,
        )

    def weights(self, table: str, kept: int) -> Sql:
        """Weigh the groups in a table, of which a unit keeps ``kept``.

        Row ids, weights, and 1 where the minimum of units keep the group, otherwise 0. One unit
        more or less moves the weights by one whole weight in l2 at most, and brings or takes
        ``kept`` groups at most.
        """
        return _round(self.rows, table, kept)

    def totals(self, cap: int) -> Sql:
        """Sum what units add to the counted groups, by their weights at a cap, after the row ids.

        One unit more or less moves each measure by sqrt(``cap``) times its sensitivity at most, in
        l2. Measures without noise of their own are left out.
        """
        rows, table = self.rows, quoted(COUNTED_PAIRS)
        names = _value_columns(rows)
        columns = join(", ", [rows.row_id, *names, rows.internal("weight")])
        weights = _unit_weights(rows, COUNTED_PAIRS, cap)
        weighed = rows.dialect.derived(
            sql(
                "SELECT {columns} FROM {table} JOIN {weights} USING ({unit})",
                columns=columns,
                table=table,
                weights=weights,
                unit=rows.unit,
            )
        )
        sums = [
            sql("{} AS {}", _total(rows, noisy.measure, name), name)
            for noisy, name in zip(rows.plan.measures, rows.measures, strict=True)
            if noisy.noise is not None
        ]
        return sql(
            "SELECT {} FROM {} GROUP BY {}", join(", ", [rows.row_id, *sums]), weighed, rows.row_id
        )


def cascade_sql(rows: PrivateRows) -> CascadeSQL:
    """Write the statements of a cascade.

    The salt is a fresh random number for each question, the same for all of its steps. Checked by
    ``tests/sql/test_cascade_queries.py``.
    """
    dialect, derived = rows.dialect, rows.dialect.derived
    values = _value_columns(rows)
    order, raw = rows.internal("order"), quoted(_RAW_PAIRS)
    keys = join(", ", rows.keys)
    pairs = sql(
        "SELECT {}, {} AS {order} FROM {}",
        join(", ", [rows.unit, keys, *values]),
        rows.hashed([rows.unit, *rows.keys]),
        derived(unit_pairs(rows)),
        order=order,
    )
    number = sql("row_number() OVER (ORDER BY {})", join(", ", rows.ascending(rows.keys)))
    found = derived(sql("SELECT DISTINCT {} FROM {}", keys, raw))
    groups = sql(
        "SELECT {number} AS {row_id}, {keys} FROM {found}",
        number=number,
        row_id=rows.row_id,
        keys=keys,
        found=found,
    )
    same = join(" AND ", (dialect.same(sql("p.{}", key), sql("g.{}", key)) for key in rows.keys))
    shown = join(", ", [rows.unit, sql("g.{}", rows.row_id), order, *values])
    staged = sql(
        "SELECT {shown} FROM {raw} p JOIN {} g ON {same}",
        quoted(GROUPS),
        shown=shown,
        raw=raw,
        same=same,
    )
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
        named=sql(
            "SELECT {} FROM {} WHERE {}",
            rows.row_id,
            quoted(GROUPS),
            dialect.among_given(rows.row_id, few=False),
        ),
        left=_of_named(rows, negated=True),
        counted=_of_named(rows, negated=False),
        sql=_as_one(rows, tables),
    )


def _of_named(rows: PrivateRows, *, negated: bool) -> Sql:
    """Select the pairs whose group has a name, or has none."""
    row_id = rows.row_id
    joined = rows.dialect.semi_join(
        sql("{} p", quoted(STAGED_PAIRS)),
        sql("{} g", quoted(NAMED_IDS)),
        sql("p.{row_id} = g.{row_id}", row_id=row_id),
        negated=negated,
    )
    columns = [rows.unit, row_id, rows.internal("order"), *_value_columns(rows)]
    return sql("SELECT {} FROM {}", join(", ", columns), joined)


def _value_columns(rows: PrivateRows) -> list[Sql]:
    """List the columns of what is counted beside units, which need none."""
    return [
        name
        for noisy, name in zip(rows.plan.measures, rows.measures, strict=True)
        if noisy.measure.kind is not MeasureKind.UNITS
    ]


def _sizes(rows: PrivateRows, table: str) -> Sql:
    size = rows.internal("size")
    return sql(
        "SELECT {unit}, count(*) AS {size} FROM {} GROUP BY {unit}",
        quoted(table),
        unit=rows.unit,
        size=size,
    )


def _unit_weights(rows: PrivateRows, table: str, cap: int, where: Sql = EMPTY_SQL) -> Sql:
    """Write the units of a table of pairs with what each weighs in a group, at a cap."""
    weight = sql("{} AS {}", unit_weight(rows, cap).sql, rows.internal("weight"))
    sizes = quoted(sizes_of(table))
    return rows.dialect.derived(
        sql(
            "SELECT {unit}, {weight} FROM {sizes}{where}",
            unit=rows.unit,
            weight=weight,
            sizes=sizes,
            where=where,
        )
    )


def _round(rows: PrivateRows, table: str, kept: int) -> Sql:
    """Weigh groups: a unit keeps its first keys, and has one unit of l2 norm for them."""
    dialect, unit, row_id = rows.dialect, rows.unit, rows.row_id
    size, rank, order, weight = (rows.internal(n) for n in ("size", "rank", "order", "weight"))
    pairs, sizes = quoted(table), quoted(sizes_of(table))
    weights = _unit_weights(rows, table, 1, sql(" WHERE {} <= {}", size, kept))
    few = sql(
        "SELECT {row_id}, {weight} FROM {pairs} JOIN {weights} USING ({unit})",
        row_id=row_id,
        weight=weight,
        pairs=pairs,
        weights=weights,
        unit=unit,
    )
    crowded = dialect.derived(
        sql(
            "SELECT {unit} FROM {sizes} WHERE {size} > {kept}",
            unit=unit,
            sizes=sizes,
            size=size,
            kept=kept,
        )
    )
    window = sql("PARTITION BY {} ORDER BY {}, {}", unit, order, row_id)
    ranked = dialect.derived(
        sql(
            "SELECT {row_id}, row_number() OVER ({window}) AS {rank} FROM {pairs} JOIN "
            "{crowded} USING ({unit})",
            row_id=row_id,
            window=window,
            rank=rank,
            pairs=pairs,
            crowded=crowded,
            unit=unit,
        )
    )
    many = sql(
        "SELECT {row_id}, {} FROM {ranked} WHERE {rank} <= {kept}",
        weight_of(1, kept),
        row_id=row_id,
        ranked=ranked,
        rank=rank,
        kept=kept,
    )
    weighed = dialect.derived(sql("{} UNION ALL {}", few, many))
    total = summed(rows, _units(rows.plan), unit_weight(rows, 1))
    minimum = rows.plan.block.parameters.min_units_per_group
    enough = sql(
        "CASE WHEN count(*) >= {} THEN 1 ELSE 0 END AS {}", minimum, rows.internal("enough")
    )
    return sql(
        "SELECT {row_id}, {total} AS {weight}, {enough} FROM {weighed} GROUP BY {row_id}",
        row_id=row_id,
        total=total,
        weight=weight,
        enough=enough,
        weighed=weighed,
    )


def _units(plan: BlockPlan) -> Measure:
    assert plan.score is not None
    return plan.measures[plan.score].measure


def _total(rows: PrivateRows, measure: Measure, name: Sql) -> Sql:
    most = rows.plan.block.parameters.max_rows_contributed
    added = Gathered(name, name, most, rows.dialect).contribution(measure)
    return summed(rows, measure, added.named(name))


def _as_one(rows: PrivateRows, tables: tuple[tuple[str, Sql], ...]) -> Sql:
    dialect = rows.dialect
    steps = join(", ", (dialect.materialized(quoted(name), written) for name, written in tables))
    weights = dialect.derived(_round(rows, STAGED_PAIRS, KEPT_CHOICES[-1]))
    shown = (rows.internal("weight"), rows.internal("enough"))
    columns = join(", ", [rows.row_id, *rows.keys, *shown])
    return sql(
        "WITH {steps} SELECT {columns} FROM {} JOIN {weights} USING ({row_id})",
        quoted(GROUPS),
        steps=steps,
        columns=columns,
        weights=weights,
        row_id=rows.row_id,
    )
