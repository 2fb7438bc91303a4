"""The aggregates of a private block: their measures and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX, quote
from dpsql.core.schema import fold
from dpsql.errors import ParameterError, QueryRefused
from dpsql.ir.measures import (
    Aggregate,
    AggregateKind,
    Lattice,
    MaxError,
    Measure,
    MeasureKind,
    Quantile,
)
from dpsql.ir.query import UnboundedValue
from dpsql.policy.parameters import USUAL_VALUES
from dpsql.sql.blocks.formulas import FORMULAS, PAIR_FORMULAS, SHAPES, TRUTHS
from dpsql.sql.blocks.moments import AVERAGES, as_numbers
from dpsql.sql.blocks.quantiles import points_for
from dpsql.sql.expressions.call import AggregateCall, read_call
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.lattices import lattice_for, room_for, steps_of
from dpsql.sql.expressions.legality import check_row_expression, refusal
from dpsql.sql.expressions.moments import is_span, with_moments
from dpsql.sql.expressions.quantile_calls import (
    EXTREMES,
    QUANTILES,
    is_continuous,
    quantile_parts,
)
from dpsql.sql.expressions.ranges import (
    Range,
    interval_of,
    is_exact,
    is_integral,
    is_number,
    is_truth,
    range_of,
    with_truths,
)
from dpsql.sql.lineage.names import generated_column
from dpsql.sql.lineage.relation import Identity, Relation
from dpsql.syntax.arguments import NodeArguments, branches
from dpsql.syntax.dialect import MAX_ERROR, PER_GROUP, PER_ROW
from dpsql.syntax.options import AskedOptions
from dpsql.syntax.parse import MAX_AGGREGATES, place_of, too_large
from dpsql.syntax.text import display, output_name, written_name

_COMPOSED = {node: kind for kind in AggregateKind if kind.composed for node in kind.value.nodes}
AGGREGATE_NAMES = tuple(fold(name) for kind in AggregateKind for name in kind.value.written)
"""What aggregates over private rows may be called; most may be called otherwise as well."""
_FARTHEST = 2.0**40
"""Ranges that reach farther say nothing of where values are, as that of a count: 0 to 2**53."""
_AVAILABLE = (
    "Available: COUNT, COUNT(DISTINCT x), COUNT_IF, SUM, AVG, VARIANCE and STDDEV (of a population "
    "or of a sample), CORR, COVAR_POP, REGR_SLOPE and their like, MEDIAN, QUANTILE, MIN and MAX, "
    "each with FILTER."
)

_OF_ONE_ROW = (exp.ArgMax, exp.ArgMin, exp.AnyValue, exp.First, exp.Last)
_LARGEST_GROUP = "SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY n DESC LIMIT 1."
_INSTEAD: Final[Mapping[type[exp.AggFunc], str]] = {
    exp.ApproxQuantiles: "Write APPROX_QUANTILES(x, 4)[OFFSET(1)], or [ORDINAL(2)]: systems count "
    "the elements of a list from 0, or from 1. Alone it divides rows in 2, 4, 5, 10, 20 … parts.",
    exp.ApproxTopK: "Group by the value: SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY n DESC "
    "LIMIT 5.",
    **dict.fromkeys(
        (exp.ArgMax, exp.ArgMin),
        "Ask for a value near the end, MIN(x) or MAX(x), or count the rows beyond one: "
        "COUNT_IF(x > 100).",
    ),
    **dict.fromkeys(
        TRUTHS,
        "Write it of one condition, without bounds, DISTINCT and ORDER BY, as BOOL_OR(x > 100); or "
        "count the rows for which the condition holds: COUNT_IF(x > 100, max_error => 20).",
    ),
    **dict.fromkeys(
        (exp.First, exp.Last),
        f"Group by the value, or ask for the usual one: MODE(x), or {_LARGEST_GROUP}",
    ),
    **dict.fromkeys(
        (exp.AnyValue, exp.Mode),
        "Ask for the usual value of a column that is not of one unit, as MODE(x) or MODE(x) FILTER "
        f"(WHERE y > 3), without HAVING where there is no GROUP BY. Or: {_LARGEST_GROUP}",
    ),
    **dict.fromkeys(
        SHAPES,
        "Write it of a number, without bounds, DISTINCT and ORDER BY, as SKEWNESS(x) FILTER "
        "(WHERE x > 0). Quantiles show the shape of values, too: QUANTILE(x, [0.1, 0.5, 0.9]).",
    ),
    **dict.fromkeys(
        PAIR_FORMULAS,
        "Write it of two values of a row, without bounds, DISTINCT and ORDER BY, as CORR(y, x) "
        "FILTER (WHERE x > 0); or put it together from what has bounds of its own: the covariance "
        "is AVG(x * y) - AVG(x) * AVG(y).",
    ),
    **dict.fromkeys(
        (exp.ArrayAgg, exp.GroupConcat),
        "A list of values shows rows. Ask for distinct ones, LIST(DISTINCT x) or "
        "STRING_AGG(DISTINCT x, ', '), ordered by themselves; or for a row for each value: "
        "SELECT x, COUNT(*) FROM t GROUP BY x.",
    ),
}
"""What to ask for instead of an aggregate that is not available."""


class Aggregates:
    """Collects a block's aggregates and the measures they share, each once."""

    def __init__(
        self,
        relation: Relation,
        options: AskedOptions,
        text: str,
        values: Sequence[Range] | None = None,
        condition: exp.Expr | None = None,
    ) -> None:
        """Collect nothing yet, of rows that a ``condition`` leaves.

        ``values`` are the bounds that were found for values without any, in their order; empty
        until they are, None where none can be found.
        """
        assert relation.unit is not None
        self._values = values
        self.unbounded: list[UnboundedValue] = []
        self.relation = relation
        policy = with_truths(relation.policy, relation.table)
        self.policy = with_moments(policy, relation.table, condition)
        self.table = relation.table
        self.options = options
        self.parameters = options.parameters
        self.text = text
        self.measures: list[Measure] = []
        self.found: list[Aggregate] = []

    def add(self, node: exp.Expr) -> exp.Expr:
        """Read an aggregate, and return its expression in the tail."""
        text = output_name(node)
        moment = as_numbers(node, self.table, self.text)
        of_moments = moment is not None and moment.since_1970
        call = replace(read_call(node, self.text), of_moments=of_moments)
        aggregate = self._aggregate(call, text)
        aggregate = replace(aggregate, max_error=self._max_error(call, aggregate))
        released = f"{INTERNAL_PREFIX}a{self._index_of(aggregate, call)}"
        return generated_column(released) if moment is None else moment.of(released)

    def _index_of(self, aggregate: Aggregate, call: AggregateCall) -> int:
        if aggregate in self.found:
            index = self.found.index(aggregate)
            self.found[index] = _tighter(self.found[index], aggregate)
            return index
        if len(self.found) >= MAX_AGGREGATES:  # one that is written can be a formula of several
            raise too_large(place_of(self.text, call.function))
        self.found.append(aggregate)
        return len(self.found) - 1

    def range_of(self, value: exp.Expr) -> Range | None:
        """Return the bounds of a value of a row, by what is declared."""
        return range_of(value, self.policy, self.table)

    def is_condition(self, value: exp.Expr) -> bool:
        """Tell whether a value of a row is true or false, or NULL, and nothing else."""
        value = value.unnest()
        if isinstance(value, exp.Case | exp.If | exp.Coalesce):
            return all(map(self.is_condition, branches(value)))
        cast = isinstance(value, exp.Cast) and value.to.is_type(exp.DType.BOOLEAN)
        return cast or isinstance(value, exp.Null) or is_truth(value, self.table)

    def _aggregate(self, call: AggregateCall, text: str) -> Aggregate:
        if isinstance(call.function, QUANTILES):
            return Aggregate(AggregateKind.QUANTILE, (), text, self._quantile(call))
        kind, measures = self._read(call)
        rows = any(m.kind is MeasureKind.ROWS and m.per_group is None for m in measures)
        one = rows and self.parameters.rows_limit == 1
        return Aggregate(kind, tuple(map(self._noted, measures)), text, one_row=one)

    def _read(self, call: AggregateCall) -> tuple[AggregateKind, tuple[Measure, ...]]:
        function = call.function
        if call.order is not None:
            raise self._not_available(function)
        if isinstance(function, exp.Count):
            return self._count(call)
        if isinstance(function, exp.ApproxDistinct):  # exact but for the noise
            return self._count_distinct(call, exp.Distinct(expressions=[function.this]))
        if isinstance(function, exp.CountIf):
            return AggregateKind.COUNT, (self._count_if(call),)
        if isinstance(function, exp.Sum) and isinstance(function.this, exp.Distinct):
            return AggregateKind.SUM, (self._sum_distinct(call, function.this),)
        if isinstance(function, exp.Sum):
            return AggregateKind.SUM, (self._sum(call),)
        kind = _COMPOSED.get(type(function))
        if kind is not None and call.per_group is not None:
            return self._of_units(call, kind, call.per_group)
        if kind is not None:
            return kind, self._parts(call, kind.value.parts)
        raise self._not_available(function)

    # -- errors -------------------------------------------------------------------------------

    def _max_error(self, call: AggregateCall, aggregate: Aggregate) -> MaxError | None:
        """Return how far noise may move an aggregate: as is said beside it, or for all of them.

        Raises ``QueryRefused`` for one whose intervals are as wide as the released values make
        them: no epsilon can promise their width beforehand.
        """
        general = self.options.parameters.max_error
        error = call.max_error or (None if general is None else MaxError(general))
        if error is None:
            return None
        if call.max_error is not None and self.options.own_epsilon:
            raise ParameterError(
                "epsilon and max_error cannot be given together: each decides the other",
                code="epsilon_and_max_error",
                place=error.place,
                hint="Leave out max_error here, or epsilon in the OPTIONS of this SELECT.",
            )
        self._check_public_width(call, aggregate)
        return replace(error, place=error.place or place_of(self.text, call.function))

    def _check_public_width(self, call: AggregateCall, aggregate: Aggregate) -> None:
        kind = aggregate.kind
        if not kind.composed and aggregate.quantile is None:
            return
        why = f"the error of the {kind.value.noun} of a group depends on how many rows it has"
        if aggregate.quantile is not None:
            why = "how far a quantile is from the true one depends on the values around it"
        raise self._refusal(
            f"{why}: no epsilon keeps {MAX_ERROR} whatever the rows are",
            "error_not_public",
            call.function,
            hint=f"Give epsilon instead, or {MAX_ERROR} beside the counts and sums alone: "
            f"COUNT(*, {MAX_ERROR} => 20).",
        )

    # -- counts -------------------------------------------------------------------------------

    def _count(self, call: AggregateCall) -> tuple[AggregateKind, tuple[Measure, ...]]:
        argument = call.function.this
        if call.function.expressions:
            raise self._refusal(
                "COUNT takes one argument",
                "aggregate_not_supported",
                call.function,
                hint="Count rows that have all of them: COUNT_IF(a IS NOT NULL AND b IS NOT NULL).",
            )
        if isinstance(argument, exp.Distinct):
            return self._count_distinct(call, argument)
        if argument is None or isinstance(argument, exp.Star | exp.Literal):
            if call.condition is None:
                if self.relation.given is not None:
                    raise self._counts_public(call)
                return AggregateKind.COUNT, (self._counted(call, MeasureKind.ROWS, None),)
            argument = exp.Literal.number(1)
        return AggregateKind.COUNT, (self._counted(call, MeasureKind.VALUES, argument),)

    def _count_if(self, call: AggregateCall) -> Measure:
        condition = call.function.this
        if call.function.args.get("zero_on_all_null") is not None:
            raise self._refusal(
                "COUNT_IF takes one argument",
                "aggregate_not_supported",
                call.function,
                hint="Join conditions with AND.",
            )
        one = exp.If(this=condition.copy(), true=exp.Literal.number(1))
        return self._counted(call, MeasureKind.VALUES, exp.Case(ifs=[one]))

    def _count_distinct(
        self, call: AggregateCall, distinct: exp.Distinct
    ) -> tuple[AggregateKind, tuple[Measure, ...]]:
        parts = _parts_of_row(distinct)
        value = _as_one(distinct.expressions) if parts is None else _row_as_one(parts)
        identity = self._identity(value)
        if identity < Identity.NULLABLE:
            return AggregateKind.COUNT, (self._counted(call, MeasureKind.DISTINCT, value),)
        if call.per_row is not None:
            raise self._no_bounds(call, "a unit adds one to a count of units")
        if call.per_group is not None:
            self._count_bounds(call, call.per_group)  # a unit adds one whatever they are
        if call.condition is None and identity is Identity.UNIT:
            return AggregateKind.COUNT_UNITS, (Measure(MeasureKind.UNITS),)
        measure = self._counted(call, MeasureKind.MATCHING_UNITS, value)
        return AggregateKind.COUNT_UNITS, (measure,)

    def _identity(self, node: exp.Expr) -> Identity:
        """Find the relation of a value to its row's unit; CASE WHEN c THEN unit END may be NULL."""
        node = node.unnest()
        if isinstance(node, exp.Case | exp.If):
            found = map(self._identity, branches(node))
            return min(Identity.NULLABLE, min(found, default=Identity.NONE))
        if not isinstance(node, exp.Column):
            return Identity.NONE
        field = self.relation.field_of(node.name)
        return Identity.NONE if field is None else field.identity

    def _counted(
        self, call: AggregateCall, kind: MeasureKind, argument: exp.Expr | None
    ) -> Measure:
        if call.per_row is not None:
            raise self._no_bounds(call, "a row adds one to a count")
        per_group = None if call.per_group is None else self._count_bounds(call, call.per_group)
        if argument is None:
            return Measure(kind, per_group=per_group)
        return self._of(call, kind, argument, per_group)

    def _count_bounds(self, call: AggregateCall, bounds: Range) -> tuple[int, int]:
        low, high = bounds
        if low != 0 or high != int(high) or high > 2**31 - 1:
            raise self._refusal(
                "the bounds of a count go from 0 to a whole number below 2147483648",
                "bad_bounds",
                call.function,
                hint=f"For example {PER_GROUP} => (0, 5).",
            )
        return 0, int(high)

    # -- sums ---------------------------------------------------------------------------------

    def _sum(self, call: AggregateCall) -> Measure:
        argument = self._summed(call)
        integral = is_integral(argument, self.table)
        if call.per_group is None:
            bounds = self._bounds_to_sum(call, argument)
        else:
            known = call.per_row or range_of(argument, self.policy, self.table)
            bounds = known or room_for(call.per_group)
        rows = self.parameters.rows_limit
        lattice = lattice_for(bounds, integral, rows, call.per_group)
        steps = None if call.per_group is None else steps_of(call.per_group, lattice.quantum)
        return Measure(MeasureKind.SUM, argument, display(argument), lattice, steps)

    def _sum_distinct(self, call: AggregateCall, distinct: exp.Distinct) -> Measure:
        """Return the sum of distinct values, of which a unit adds a limited number."""
        if call.per_group is not None:
            raise self._no_bounds(call, "units share the values of a sum of distinct ones")
        if len(distinct.expressions) != 1:
            raise self._refusal(
                "a sum is of one value",
                "aggregate_not_supported",
                call.function,
                hint="Write SUM(DISTINCT x), or count pairs: COUNT(DISTINCT a, b).",
            )
        function = call.function.copy()
        function.set("this", distinct.expressions[0].copy())
        call = replace(call, function=function)
        argument = self._summed(call)
        integral = is_integral(argument, self.table)
        bounds = self._bounds_to_sum(call, argument)
        lattice = lattice_for(bounds, integral, self.parameters.rows_limit)
        return Measure(MeasureKind.DISTINCT, argument, display(argument), lattice)

    def _parts(self, call: AggregateCall, kinds: Sequence[MeasureKind]) -> tuple[Measure, ...]:
        """Return the measures that an average or a spread is computed from."""
        argument = self._number(call)
        bounds = self._bounds_to_sum(call, argument)
        rows = self.parameters.rows_limit
        lattice = lattice_for(bounds, is_integral(argument, self.table), rows)
        return tuple(self._part(kind, argument, lattice) for kind in kinds)

    def _of_units(
        self, call: AggregateCall, kind: AggregateKind, bounds: Range
    ) -> tuple[AggregateKind, tuple[Measure, ...]]:
        """Read an aggregate of the averages that units have in a group, within bounds for these.

        A unit counts once, however many rows it has.
        """
        if kind.of_units is None:
            raise self._no_bounds(call, f"spreads are bounded by {PER_ROW}")
        argument = self._number(call)
        rows = call.per_row or range_of(argument, self.policy, self.table) or room_for(bounds)
        lattice = lattice_for(rows, False, 1, bounds).averages(bounds)
        averages, values = kind.of_units.value.parts
        units = replace(self._part(values, argument, lattice), per_group=(0, 1))
        return kind.of_units, (Measure(averages, argument, display(argument), lattice), units)

    def _part(self, kind: MeasureKind, argument: exp.Expr, lattice: Lattice) -> Measure:
        text = display(argument)
        match kind:
            case MeasureKind.VALUES:
                # NaN takes no part in a sum, so it must not be counted either.
                exact = is_exact(argument, self.table)
                return Measure(kind if exact else MeasureKind.NUMBERS, argument, text)
            case MeasureKind.CENTERED_SQUARES:
                squares = lattice.squares(self.parameters.rows_limit)
                return Measure(kind, argument, text, squares)
            case _:
                assert kind is MeasureKind.CENTERED_SUM
                return Measure(kind, argument, text, lattice)

    def _quantile(self, call: AggregateCall) -> Quantile:
        argument, fraction = quantile_parts(call, self.text)
        if call.per_group is not None:
            raise self._no_bounds(call, f"quantiles are bounded by {PER_ROW}")
        extreme, continuous = isinstance(call.function, EXTREMES), is_continuous(call.function)
        if not extreme:
            call = replace(call, function=exp.Median(this=argument))
        argument = self._number(call)
        bounds = call.per_row or range_of(argument, self.policy, self.table)
        if bounds is None:
            bounds = self._found_bounds(
                call, argument, interval_of(argument, self.policy, self.table)
            )
        integral = is_integral(argument, self.table)
        ranked = points_for(argument, bounds, integral)
        whole = integral and not continuous
        return Quantile(ranked, fraction, whole, extreme)

    def _number(self, call: AggregateCall) -> exp.Expr:
        """Return a number that is no truth value."""
        if is_truth(call.function.this, self.table):
            raise self._not_numeric(call)
        return self._summed(call)

    def _bounds_to_sum(self, call: AggregateCall, argument: exp.Expr) -> Range:
        """Return the bounds of a value that is summed; they are found where none are close enough.

        Noise grows with them.
        """
        known = range_of(argument, self.policy, self.table)
        if call.per_row is not None or known is None:
            within = interval_of(argument, self.policy, self.table)
            return call.per_row or self._found_bounds(call, argument, within)
        if self._values is None or max(map(abs, known)) <= _FARTHEST:
            return known
        return self._found_bounds(call, argument, known)

    def _found_bounds(
        self, call: AggregateCall, argument: exp.Expr, known: Range = (-math.inf, math.inf)
    ) -> Range:
        """Return the bounds that were found for a value, or until then those of a usual size.

        They are within those that are ``known`` of it, unless no number is in both. Raises
        ``QueryRefused`` where none can be found.
        """
        averaged = call.of_moments and isinstance(call.function, AVERAGES)
        if self._values is None or averaged:
            raise self._unbounded(call)
        arguments = [value.argument for value in self.unbounded]
        if argument in arguments:
            return self.unbounded[arguments.index(argument)].bounds
        place, whole = len(arguments), is_integral(argument, self.table)
        bounds = self._values[place] if place < len(self._values) else USUAL_VALUES
        low, high = max(bounds[0], known[0]), min(bounds[1], known[1])
        bounds = (low, high) if low <= high else bounds
        self.unbounded.append(UnboundedValue(argument, display(argument), whole, bounds))
        return bounds

    def _summed(self, call: AggregateCall) -> exp.Expr:
        """Return the summed value, as a number or NULL."""
        argument = call.function.this
        if not isinstance(argument, exp.Expr) or isinstance(argument, exp.Distinct | exp.Order):
            raise self._refusal(
                "DISTINCT and ORDER BY inside this aggregate are not available",
                "aggregate_not_supported",
                call.function,
                hint="COUNT(DISTINCT x), SUM(DISTINCT x) and AVG(DISTINCT x) are, of one value and "
                "without max_error in AVG. Or aggregate per unit in a subquery first.",
            )
        check_row_expression(argument, self.text)
        if is_truth(argument, self.table):
            argument = exp.cast(argument.copy(), exp.DType.INT)
        elif not is_number(argument, self.table):
            raise self._not_numeric(call)
        filtered = call.filtered(argument)
        check_row_expression(filtered, self.text)
        refuse_unlike(filtered, self.relation.type_of, self.text)
        return filtered

    def _of(
        self,
        call: AggregateCall,
        kind: MeasureKind,
        argument: exp.Expr,
        per_group: tuple[int, int] | None,
    ) -> Measure:
        if isinstance(argument, exp.Order):
            raise self._refusal(
                "ORDER BY inside this aggregate is not available",
                "aggregate_not_supported",
                call.function,
                hint="Counts do not depend on the order of rows.",
            )
        filtered = call.filtered(argument)
        check_row_expression(filtered, self.text)
        refuse_unlike(filtered, self.relation.type_of, self.text)
        return Measure(kind, filtered, display(filtered), per_group=per_group)

    def _noted(self, measure: Measure) -> int:
        # A unit that may add one row per group adds its one row or nothing: rows count units.
        if measure.kind is MeasureKind.ROWS and self._rows_of(measure) == 1:
            measure = Measure(MeasureKind.UNITS)
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def _rows_of(self, measure: Measure) -> int:
        return measure.reach(self.parameters.rows_limit)

    # -- refusals -----------------------------------------------------------------------------

    def _counts_public(self, call: AggregateCall) -> QueryRefused:
        return self._refusal(
            "this count has the public rows that the join keeps without a match, each as 1",
            "join_keeps_public",
            call.function,
            hint="Count private rows, which they are not: COUNT(DISTINCT "
            f"{self.relation.unit_label}), or COUNT of another private column.",
        )

    def _not_available(self, function: exp.AggFunc) -> QueryRefused:
        name = written_name(function)
        return self._refusal(
            f"{name} reveals the value of a single row"
            if isinstance(function, _OF_ONE_ROW)
            else f"the aggregate {name} is not available"
            + " in this form" * (type(function) in FORMULAS),
            "aggregate_not_supported",
            function,
            hint=_INSTEAD.get(type(function), _AVAILABLE),
        )

    def _no_bounds(self, call: AggregateCall, reason: str) -> QueryRefused:
        return self._refusal(
            f"these bounds do not apply here: {reason}",
            "bounds_do_not_apply",
            call.function,
            hint=f"{PER_ROW} bounds what is summed or averaged, {PER_GROUP} what a unit adds to a "
            "sum or a count, and the average of its rows in an AVG of such averages.",
        )

    def _not_numeric(self, call: AggregateCall) -> QueryRefused:
        column = next(call.function.find_all(exp.Column), None)
        found = None if column is None else self.table.column(column.name)
        if found is not None and found.type.is_text and isinstance(call.function, EXTREMES):
            return self._refusal(
                f"{written_name(call.function)} of a text would show that of a single row",
                "not_numeric",
                column,
                hint=f"Group by it, or ask for the usual one: {_LARGEST_GROUP}",
            )
        alone = call.function.this.unnest()
        if found is not None and isinstance(alone, exp.Column):
            written = output_name(alone)  # what a subquery computes has another below
            reason = f"column {written} is of type {found.type} and cannot be summed"
            name = written if written.isidentifier() else quote(written)
            hint = f"Cast it to a number: CAST({name} AS DOUBLE)."
            if found.type.is_temporal:
                hint = (
                    "Ask for the time since a moment: "
                    f"date_diff('day', DATE '2020-01-01', {name}), {PER_ROW} => (0, 3650)."
                )
        else:
            reason = "what is summed is not a number"
            name, hint = "b - a", "Cast it to a number: CAST(x AS DOUBLE)."
        if is_span(call.function.this, self.table):
            hint = f"Ask for its seconds: epoch({name})."
        return self._refusal(reason, "not_numeric", column or call.function, hint=hint)

    def _unbounded(self, call: AggregateCall) -> QueryRefused:
        if call.of_moments:
            return self._refusal(
                "an average of dates or timestamps needs bounds close to them, and none are public",
                "unbounded_sum",
                call.function,
                hint=f"Say between which they lie: AVG(x, {PER_ROW} => (DATE '2020-01-01', DATE "
                "'2030-01-01')), or by conditions on the column. MEDIAN(x) needs none.",
            )
        return self._refusal(
            "the summed expression has no declared bounds, and here none can be found first",
            "unbounded_sum",
            call.function,
            hint="Say where its values are clamped: "
            f"{written_name(call.function).upper()}(x, {PER_ROW} => (lower, upper)). Or ask the "
            "data owner to declare lower and upper for its columns under "
            f"tables.{self.policy.name}.columns in the policies file.",
        )

    def _refusal(
        self, reason: str, code: str, node: exp.Expr | None, hint: str | None = None
    ) -> QueryRefused:
        return refusal(self.text, reason, code, node, hint)


def _as_one(values: Sequence[exp.Expr]) -> exp.Expr:
    """Join several values into one text, or into NULL; leave a single value alone.

    Each but the last stands after its length: so no two ways of dividing a text among them are
    alike.
    """
    *before, last = values
    if not before:
        return last
    parts: list[exp.Expr] = []
    for value in before:
        text = exp.cast(value.copy(), exp.DType.TEXT)
        parts += [exp.cast(exp.Length(this=text), exp.DType.TEXT), exp.Literal.string(":"), text]
    parts.append(exp.cast(last.copy(), exp.DType.TEXT))
    return reduce(lambda one, other: exp.DPipe(this=one, expression=other), parts)


def _parts_of_row(distinct: exp.Distinct) -> list[exp.Expr] | None:
    """Return the values of the row that is told apart: (a, b), ROW(a, b) or {'x': a, 'y': b}."""
    row = distinct.expressions[0].unnest() if len(distinct.expressions) == 1 else None
    named = isinstance(row, exp.Anonymous) and fold(row.name) == "row"
    if not (named or isinstance(row, exp.Tuple | exp.Struct)):
        return None
    assert row is not None
    parts = [each.expression if type(each) is exp.PropertyEQ else each for each in row.expressions]
    known = _ROW.hold(row) and all(_FIELD.hold(e) for e in row.expressions if e not in parts)
    return parts if known and parts else None


def _row_as_one(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Join the values of a row into one text, in which NULL is a value like any other.

    Each stands after its length, and NULL as a sign that is no length.
    """
    texts: list[exp.Expr] = []
    for part in parts:
        text = exp.cast(part.copy(), exp.DType.TEXT)
        size: exp.Expr = exp.cast(exp.Length(this=text), exp.DType.TEXT)
        for more in (exp.Literal.string(":"), text.copy()):
            size = exp.DPipe(this=size, expression=more)
        texts.append(exp.Coalesce(this=size, expressions=[exp.Literal.string("-")]))
    return reduce(lambda one, other: exp.DPipe(this=one, expression=other), texts)


_ROW: Final = NodeArguments("expressions this?")
_FIELD: Final = NodeArguments("this expression")


def _tighter(known: Aggregate, again: Aggregate) -> Aggregate:
    """Return an aggregate that is named twice with the smaller of the errors it may have.

    And with what a number of rows cuts of either: one may have a given bound.
    """
    errors = [one.max_error for one in (known, again) if one.max_error is not None]
    least = min(errors, key=lambda error: error.value, default=None)
    return replace(known, max_error=least, one_row=known.one_row or again.one_row)
