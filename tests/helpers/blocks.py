"""Private blocks made by hand, for tests that start below the SQL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.ir.measures import Aggregate, AggregateKind, Measure, MeasureKind
from dpsql.ir.query import Block, Key, Query, Source, TopK
from dpsql.ir.relations import Scan
from dpsql.policy.parameters import Parameters
from dpsql.sql.expressions.lattices import lattice_for
from helpers.columns import column_of

UNITS = Measure(MeasureKind.UNITS)
ROWS = Measure(MeasureKind.ROWS)


def summed(
    parameters: Parameters, lower: float, upper: float, *, centered: bool = False
) -> Measure:
    """A sum of an integer column with the given bounds."""
    kind = MeasureKind.CENTERED_SUM if centered else MeasureKind.SUM
    lattice = lattice_for((lower, upper), True, parameters.rows_limit)
    return Measure(kind, argument=exp.column("x"), lattice=lattice)


def aggregate_of(index: int, measure: Measure) -> Aggregate:
    kinds = {MeasureKind.UNITS: AggregateKind.COUNT_UNITS, MeasureKind.SUM: AggregateKind.SUM}
    return Aggregate(kinds.get(measure.kind, AggregateKind.COUNT), (index,), f"a{index}")


def block(
    parameters: Parameters,
    *measures: Measure,
    domain: int | None = None,
    limit: int | None = None,
    average: bool = False,
) -> Block:
    """A block over one key (of a declared domain of that size), ordered by its first measure.

    With ``average`` the first two measures are the centred sum and the count of an average.
    """
    values = None if domain is None else tuple(range(domain))
    aggregates = tuple(aggregate_of(i, measure) for i, measure in enumerate(measures))
    if average:
        aggregates = (Aggregate(AggregateKind.AVG, (0, 1), "avg"),)
    table = Table("t", (column_of("person", "BIGINT"), column_of("k", "BIGINT")))
    return Block(
        name="__dpsql_b0",
        table="t",
        source=Source(Scan(table), table),
        unit_name="person",
        unit_column="person",
        condition=None,
        keys=(Key(exp.column("k"), "k", values),),
        measures=measures,
        aggregates=aggregates,
        top_k=None if limit is None else TopK(0, limit),
        parameters=parameters,
    )


def query(*blocks: Block) -> Query:
    """A query of these blocks, as far as the planner looks at it."""
    return cast(Query, SimpleNamespace(blocks=blocks))
