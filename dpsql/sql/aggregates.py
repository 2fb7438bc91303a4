"""The aggregates of one private block: what they are computed from, and with which bounds."""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import QueryRefused
from dpsql.policy import Parameters
from dpsql.query import Aggregate, AggregateKind, Measure, MeasureKind
from dpsql.schema import fold, is_float, is_numeric
from dpsql.sql.bounds import interval_of, is_integral, lattice_for
from dpsql.sql.expressions import check_row_expression, refusal
from dpsql.sql.relation import Relation
from dpsql.sql.text import display


class Aggregates:
    """Collects a block's aggregates and the measures they share, each once."""

    def __init__(self, relation: Relation, parameters: Parameters, text: str) -> None:
        assert relation.unit is not None
        self.policy = relation.policy
        self.table = relation.table
        self.unit_column = relation.unit
        self.unit_label = relation.unit_label
        self.parameters = parameters
        self.text = text
        self.measures: list[Measure] = []
        self.found: list[Aggregate] = []

    def add(self, node: exp.AggFunc) -> int:
        """The index of an aggregate, read and noted if it is new."""
        aggregate = self._read(node)
        if aggregate in self.found:
            return self.found.index(aggregate)
        self.found.append(aggregate)
        return len(self.found) - 1

    def _read(self, node: exp.AggFunc) -> Aggregate:
        text = output_name(node)
        if isinstance(node, exp.Count):
            kind, measures = self._count(node)
        elif isinstance(node, exp.Sum):
            kind, measures = AggregateKind.SUM, (self._sum_measure(node, MeasureKind.SUM),)
        elif isinstance(node, exp.Avg):
            kind = AggregateKind.AVG
            argument = self._argument(node)
            centered = self._sum_measure(node, MeasureKind.CENTERED_SUM)
            # NaN takes no part in a sum, so it must not be counted either.
            counted = MeasureKind.VALUES if self._never_nan(argument) else MeasureKind.NUMBERS
            measures = (centered, self._measure(Measure(counted, argument, display(argument))))
        else:
            raise self._refusal(
                f"the aggregate {node.sql_name().lower()} is not available",
                "aggregate_not_supported",
                node,
                hint="Available: COUNT(DISTINCT unit), COUNT(*), COUNT(x), SUM(x), AVG(x). "
                "MIN, MAX and the like reveal single rows.",
            )
        return Aggregate(kind, measures, text)

    def _count(self, node: exp.Count) -> tuple[AggregateKind, tuple[int, ...]]:
        argument = node.this
        if isinstance(argument, exp.Distinct):
            values = argument.expressions
            if len(values) == 1 and self._is_unit(values[0]):
                measure = self._measure(Measure(MeasureKind.UNITS))
                return AggregateKind.COUNT_UNITS, (measure,)
            raise self._refusal(
                "COUNT(DISTINCT …) is available for the privacy unit only",
                "count_distinct_not_unit",
                node,
                hint=f"COUNT(DISTINCT {self.unit_label}) counts privacy units.",
            )
        if node.expressions:
            raise self._refusal("COUNT takes one argument", "aggregate_not_supported", node)
        if argument is None or isinstance(argument, exp.Star | exp.Literal):
            return AggregateKind.COUNT, (self._measure(Measure(MeasureKind.ROWS)),)
        checked = self._argument(node)
        return AggregateKind.COUNT, (
            self._measure(Measure(MeasureKind.VALUES, checked, display(checked))),
        )

    def _is_unit(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and fold(node.name) == fold(self.unit_column)

    def _argument(self, node: exp.AggFunc) -> exp.Expr:
        argument = node.this
        if not isinstance(argument, exp.Expr) or isinstance(argument, exp.Distinct | exp.Order):
            raise self._refusal(
                "DISTINCT and ORDER BY inside this aggregate are not available",
                "aggregate_not_supported",
                node,
            )
        check_row_expression(argument, self.text)
        return argument.copy()

    def _sum_measure(self, node: exp.AggFunc, kind: MeasureKind) -> int:
        argument = self._argument(node)
        bounds = interval_of(argument, self.policy)
        if bounds is None:
            raise self._unbounded(node, argument)
        rows = self.parameters.max_rows_contributed
        lattice = lattice_for(bounds, is_integral(argument, self.table), rows)
        return self._measure(Measure(kind, argument, display(argument), lattice))

    def _unbounded(self, node: exp.AggFunc, argument: exp.Expr) -> QueryRefused:
        column = next(argument.find_all(exp.Column), None)
        found = None if column is None else self.table.column(column.name)
        if found is not None and not is_numeric(found.type):
            return self._refusal(
                f"column {found.name} is of type {found.type} and cannot be summed",
                "not_numeric",
                column,
            )
        return self._refusal(
            "the summed expression has no declared bounds",
            "unbounded_sum",
            node,
            hint=f"Ask the data owner to declare lower and upper for its columns under "
            f"tables.{self.policy.name}.columns in the policies file.",
        )

    def _never_nan(self, argument: exp.Expr) -> bool:
        columns = [self.table.column(c.name) for c in argument.find_all(exp.Column)]
        return not any(c is None or is_float(c.type) for c in columns)

    def _measure(self, measure: Measure) -> int:
        # A unit that may add one row per group adds its one row or nothing: rows count units.
        if measure.kind is MeasureKind.ROWS and self.parameters.max_rows_contributed == 1:
            measure = Measure(MeasureKind.UNITS)
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def _refusal(
        self, reason: str, code: str, node: exp.Expr | None, hint: str | None = None
    ) -> QueryRefused:
        return refusal(self.text, reason, code, node, hint)


def output_name(node: exp.Expr) -> str:
    """The name DuckDB gives an unaliased select item (for counts, sums and plain columns)."""
    if isinstance(node, exp.Column):
        return str(node.meta.get("name", node.name))
    if isinstance(node, exp.Count) and (node.this is None or isinstance(node.this, exp.Star)):
        return "count_star()"
    return display(node)
