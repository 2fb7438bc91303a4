"""The SQL of quantiles: how many rows of each group have which value, each unit's share bounded.

Groups are stored first, with a row id; then one statement for each value that quantiles are asked
of counts its rows in the groups that come out. Rows go through the same cap on the keys of a unit
as those that are summed. Of the rows a unit has beyond ``max_rows_contributed`` in a group it keeps
a systematic sample: in the order of their values every n/m-th one, from a start that a salted hash
draws. All of its rows are as likely to be kept, and those that are resemble the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.core.quoting import INTERNAL_PREFIX, ROW_ID
from dpsql.core.sql import EMPTY_SQL, Sql, join, sql
from dpsql.core.sql import name as quoted
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.measures import Ranked
from dpsql.ir.plan import Bounding
from dpsql.sql.expressions.proven_integers import MOST_ROWS, Ranged, column
from dpsql.sql.expressions.totality import total_sql
from dpsql.sql.rewrite.contributions import RowValue, clamped_step
from dpsql.sql.rewrite.rows import PrivateRows

GROUPS = f"{INTERNAL_PREFIX}groups"
_FEW = 50  # groups that are found faster one by one than by a join


@dataclass(frozen=True, slots=True)
class HistogramSQL:
    """The statements of a plan with quantiles.

    ``groups`` is to be stored as GROUPS: row id, keys, measures. Those of ``counts`` take a list of
    row ids and return, for these groups, the row id, each point that has rows and how many, in
    order. ``sql`` is all of it as one statement, with a list of points for each of ``counts``.
    """

    groups: Sql
    counts: tuple[tuple[Ranked, Sql], ...]
    sql: Sql


def stored_groups(columns: Sequence[str], dialect: Dialect) -> Sql:
    """Write the query of row ids and some columns of the groups that are stored as GROUPS."""
    return sql("SELECT {} FROM {}", join(", ", map(quoted, (ROW_ID, *columns))), quoted(GROUPS))


def chosen_groups(columns: Sequence[str], chosen: int, dialect: Dialect) -> Sql:
    """Write the same query of so many groups, whose row ids are given as a list."""
    among = dialect.among_given(quoted(ROW_ID), few=chosen <= _FEW)
    return sql("{} WHERE {}", stored_groups(columns, dialect), among)


def histogram_sql(rows: PrivateRows, groups: Sql) -> HistogramSQL:
    """Write the statements of a plan with quantiles over ``groups``, its exact rows' statement.

    Sensitivity: when one unit is added or removed, counts change in at most ``plan.groups`` groups
    (any number without a cap), and in each of them at most ``max_rows_contributed`` rows are added,
    or as many taken away. Checked by ``tests/sql/test_quantile_queries.py``.
    """
    plan = rows.plan
    if plan.bounding is not None and plan.bounding.weighted:
        # Units count in full here, in as many groups as they weigh.
        rows = replace(rows, plan=replace(plan, bounding=Bounding.sample(plan.bounding.groups)))
    asked = dict.fromkeys(noisy.quantile.ranked for noisy in plan.quantiles)
    chosen = sql(" AND {}", rows.dialect.among_given(sql("g.{}", rows.row_id), few=False))
    return HistogramSQL(
        groups=groups,
        counts=tuple((ranked, _counted(rows, ranked, chosen)) for ranked in asked),
        sql=_as_one(rows, groups, [_counted(rows, ranked, EMPTY_SQL) for ranked in asked]),
    )


def _counted(rows: PrivateRows, ranked: Ranked, chosen: Sql) -> Sql:
    most = rows.plan.block.parameters.max_rows_contributed
    row_id, point, start = rows.row_id, rows.internal("point"), rows.internal("start")
    number, size = rows.internal("number"), rows.internal("size")
    unit = sql("PARTITION BY {}, {}", row_id, rows.unit)
    numbered = sql(
        "SELECT {row_id}, {point}, {start}, row_number() OVER ({unit} ORDER BY "
        "{point}) AS {number}, count(*) OVER ({unit}) AS {size} FROM {}",
        rows.dialect.derived(_placed(rows, ranked, chosen)),
        row_id=row_id,
        point=point,
        start=start,
        unit=unit,
        number=number,
        size=size,
    )
    place = column(number, 1, MOST_ROWS, dialect=rows.dialect)
    taken, before = _taken(rows, place, most), _taken(rows, place - 1, most)
    return sql(
        "SELECT {row_id}, {point}, count(*) AS {} FROM {} WHERE {size} <= {most} OR "
        "{taken} > {before} GROUP BY {row_id}, {point} ORDER BY {row_id}, {point}",
        rows.internal("rows"),
        rows.dialect.derived(numbered),
        row_id=row_id,
        point=point,
        size=size,
        most=most,
        taken=taken.sql,
        before=before.sql,
    )


def _taken(rows: PrivateRows, number: Ranged, most: int) -> Ranged:
    """Count how many of a unit's first rows are in its sample."""
    size = column(rows.internal("size"), 1, MOST_ROWS, dialect=rows.dialect)
    start = column(rows.internal("start"), 0, 2**32 - 1, dialect=rows.dialect)
    return (number * most + start % size) // size


def _placed(rows: PrivateRows, ranked: Ranked, chosen: Sql) -> Sql:
    """Select rows with their group's row id, their point and their unit's start."""
    dialect, groups = rows.dialect, quoted(GROUPS)
    value, point, start = (rows.internal(name) for name in ("value", "point", "start"))
    argument = sql("{} AS {}", total_sql(ranked.argument, rows.table, dialect), value)
    given = RowValue.of(ranked.argument, value, rows.table, dialect)
    place = clamped_step(ranked.lattice, given, dialect) - ranked.lattice.low
    # One more column than the cap hashes, so that the two are independent.
    drawn = dialect.salted_bits(rows.salt, [rows.unit, *rows.keys, sql("0")])
    columns = join(", ", [rows.unit, *rows.keys])
    points = dialect.derived(
        sql(
            "SELECT {columns}, {place} AS {point}, {drawn} AS {start} FROM {}",
            rows.capped(rows.select([argument])),
            columns=columns,
            place=place.sql,
            point=point,
            drawn=drawn,
            start=start,
        ),
        alias=sql("p"),
    )
    equal = [dialect.same(sql("p.{}", key), sql("g.{}", key)) for key in rows.keys]
    same = join(" AND ", equal or [sql("TRUE")])
    return sql(
        "SELECT g.{row_id}, {unit}, {point}, {start} FROM {points} JOIN {groups} g ON "
        "{same} WHERE {point} IS NOT NULL{chosen}",
        row_id=rows.row_id,
        unit=rows.unit,
        point=point,
        start=start,
        points=points,
        groups=groups,
        same=same,
        chosen=chosen,
    )


def _as_one(rows: PrivateRows, groups: Sql, counts: list[Sql]) -> Sql:
    dialect, row_id, stored = rows.dialect, rows.row_id, quoted(GROUPS)
    both = dialect.pairs(rows.internal("point"), rows.internal("rows"))
    lists = []
    for i, count in enumerate(counts):
        values = sql("{} AS {} FROM {}", both, rows.internal(f"d{i}"), dialect.derived(count))
        listed = dialect.derived(
            sql("SELECT {row_id}, {values} GROUP BY {row_id}", row_id=row_id, values=values)
        )
        lists.append(sql(" LEFT JOIN {} USING ({})", listed, row_id))
    return sql(
        "WITH {} SELECT * FROM {stored}{} ORDER BY {row_id}",
        dialect.materialized(stored, groups),
        join("", lists),
        stored=stored,
        row_id=row_id,
    )
