"""GROUP BY the privacy unit inside a subquery: rows about one unit each, from that unit's rows.

Any aggregate of one unit's rows may stand here, exactly: what leaves is bounded like any other row.
It must not fail and must not depend on the order of rows, which the engine chooses by looking at
all of them. So sums of fractions are taken over decimals too few to overflow, and what MIN, MAX and
the keys leave open (0.0 or -0.0) is settled. The value at the largest or smallest other is looked
for in a window of the group, the least of several: no two rows can change places there. FILTER is
rewritten away, into CASE. Checked by ``tests/sql/test_lineage_sensitivity.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.sql_types import UNKNOWN, SqlType
from dpsql.ir.measures import AggregateKind
from dpsql.ir.relations import (
    Computed,
    Filter,
    PerUnit,
    Placed,
    PlaceFunction,
    PlaceValue,
    RowSet,
    Sorted,
    Typed,
    UnitFunction,
    UnitValue,
)
from dpsql.policy.model import ColumnPolicy
from dpsql.sql.expressions.call import AggregateCall, is_aggregate, read_call
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.enum_order import (
    enum_order,
    is_enumerated,
    mark_enumerated,
    refuse_enum_order,
)
from dpsql.sql.expressions.legality import check_row_expression
from dpsql.sql.expressions.ranges import is_integral, is_number, is_truth, range_of
from dpsql.sql.lineage.names import Names, generated_column
from dpsql.sql.lineage.operators import Operators, renamed_keys
from dpsql.sql.lineage.relation import Field, Identity, Origin, Relation
from dpsql.syntax.text import output_name, put, to_sql, written_name

_COUNTED = ColumnPolicy(0, 2**53)
_AT_ENDS = (exp.ArgMax, exp.ArgMin)
_VALUES_OF_ROWS = (*_AT_ENDS, exp.AnyValue)
"""Aggregates that are some value of a row: truth values have no least in PostgreSQL."""
_AGGREGATES = (
    *(exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.AnyValue),
    *_AT_ENDS,
)
_TRUTHS = (exp.LogicalOr, exp.LogicalAnd)
_SPREADS: Final[Mapping[type[exp.Expr], AggregateKind]] = {
    node: kind for kind in AggregateKind if kind.is_spread for node in kind.value.nodes
}
_FUNCTIONS: Final[Mapping[type[exp.Expr], UnitFunction]] = {
    exp.Sum: UnitFunction.SUM,
    exp.Avg: UnitFunction.AVERAGE,
    exp.Min: UnitFunction.LEAST,
    exp.Max: UnitFunction.LARGEST,
    exp.AnyValue: UnitFunction.LEAST,  # one that the rows of the unit decide
}
_ALLOWED = frozenset(
    {"expressions", "from_", "joins", "where", "with_", "group", "having", "qualify", "sample"}
)


def keys_with_unit(
    names: Names, select: exp.Select, source: Relation, link_keys: Collection[Origin]
) -> tuple[list[exp.Expr], Relation] | None:
    """Resolve a SELECT's GROUP BY keys, ordinals and aliases too; None if the unit is not one.

    Returns them with the rows to group. All rows with one value of a column that links tables
    belong to one unit, as do those with one of a unit that an outer join may have made NULL: the
    unit is a key beside it, which makes no other groups. Rows without a value, as outer joins keep
    them, belong to several, and are in no group. Raises
    ``QueryRefused`` or ``UnknownName`` with the place of what is no column.
    """
    keys = [key_over_rows(names, key, select, source) for key in _written_keys(select)]
    columns = [key.name for key in keys if isinstance(key, exp.Column)]
    if any(map(source.is_unit, columns)):
        return keys, source
    fields = [field for field in map(source.field_of, columns) if field is not None]
    known = next((field for field in fields if field.identity is Identity.NULLABLE), None)
    linking = linking_field(fields, link_keys) if known is None else known
    if linking is None or source.unit is None:
        return None
    return [*keys, generated_column(source.unit)], with_value_of(source, linking)


def linking_field(fields: Iterable[Field], link_keys: Collection[Origin]) -> Field | None:
    """Find a column that links tables. All rows with one value of it belong to one unit."""
    return next((field for field in fields if field.origin in link_keys), None)


def with_value_of(rows: Relation, field: Field) -> Relation:
    """Leave out the rows that have no value in a column."""
    there = exp.not_(exp.Is(this=generated_column(field.column), expression=exp.Null()))
    return replace(rows, rows=Filter(rows.rows, there))


def _written_keys(select: exp.Select) -> list[exp.Expr]:
    group = select.args["group"]
    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions]
        return [item for item in items if item.find(exp.AggFunc) is None]
    return list(group.expressions)


def key_over_rows(names: Names, key: exp.Expr, select: exp.Select, source: Relation) -> exp.Expr:
    """Resolve a key, which may be an alias or the place of a select item. Raises as names do."""
    items = [item.unalias() for item in select.expressions]
    if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.this) <= len(items):
        key = items[int(key.this) - 1]
    return names.over_aliases(key.unnest(), select, source).unnest()


def per_unit(
    names: Names,
    operators: Operators,
    select: exp.Select,
    source: Relation,
    keys: list[exp.Expr],
) -> tuple[Relation, exp.Select]:
    """Group ``source`` by ``keys``, with the unit among them, as a SELECT asks.

    Returns the groups, and what is left of the SELECT: its list and QUALIFY, over these. Raises
    ``QueryRefused`` or ``UnknownName`` with the place of what cannot be used.
    """
    return _PerUnit(names, operators, select, source, keys).grouped()


_Name: TypeAlias = tuple[UnitFunction | None, str]
"""The computations of a group, each once: function and text of the argument; None for a key."""


@dataclass(frozen=True, slots=True)
class _AtEnd:
    """A value at the end of a group, and columns for it, its place, and what is found.

    ``of`` and ``by`` are NULL together: where either is.
    """

    value: str
    place: str
    found: str
    of: exp.Expr
    by: exp.Expr
    largest: bool


def _where_there(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """Write a value that is NULL where another is."""
    there = exp.not_(exp.Is(this=exp.Paren(this=other.copy()), expression=exp.null()))
    return exp.Case(ifs=[exp.If(this=there, true=value.copy())])


@dataclass
class _PerUnit:
    names: Names
    operators: Operators
    select: exp.Select
    source: Relation
    keys: list[exp.Expr]
    made: dict[_Name, tuple[Field, Computed | UnitValue]] = field(default_factory=dict)
    ends: dict[tuple[str, ...], _AtEnd] = field(default_factory=dict)

    def grouped(self) -> tuple[Relation, exp.Select]:
        self._check()
        for key in self.keys:
            check_row_expression(key, self.names.text)
            refuse_unlike(key, self.source.type_of, self.names.text)
            known = self._key_field(key)
            self._column((None, to_sql(key)), known, Computed(known.column, key))
        items = [self._item(item) for item in self.select.expressions]
        left = exp.Select(expressions=items)
        qualify = self.select.args.get("qualify")
        if qualify is not None:
            left.set("qualify", exp.Qualify(this=self._over_groups(qualify.this)))
        having = self.select.args.get("having")
        condition = None if having is None else exp.Where(this=self._over_groups(having.this))
        groups = self._groups()
        if condition is not None:
            groups = self.operators.filtered(groups, condition)
        return groups, left

    def _check(self) -> None:
        group = self.select.args["group"]
        unusual = {name for name, value in group.args.items() if value} - {"expressions", "all"}
        extra = {name for name, value in self.select.args.items() if value} - _ALLOWED
        if extra or unusual or group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            raise self.names.refuse(
                "a subquery that groups by the privacy unit has plain keys, aggregates, HAVING and "
                "QUALIFY",
                "clause_not_allowed",
                group if unusual or not extra else self.select.args[min(extra)],
            )

    def _column(self, name: _Name, known: Field, made: Computed | UnitValue) -> exp.Column:
        """Return the groups' column that holds a value: the first made of this name."""
        found, _ = self.made.setdefault(name, (known, made))
        return generated_column(found.column)

    def _groups(self) -> Relation:
        """Build the grouped rows: keys and aggregates under names of their own."""
        made = [value for _, value in self.made.values()]
        keys = tuple(key for key in made if isinstance(key, Computed))
        values = tuple(value for value in made if isinstance(value, UnitValue))
        rows = PerUnit(self._with_ends(), keys, values)
        types = self.operators.bind(rows)
        fields = tuple(
            _typed(known, column.type)
            for (known, _), column in zip(self.made.values(), types, strict=True)
        )
        unit = next(f.column for f in fields if f.identity is Identity.UNIT)
        source = self.source
        plain = [key.name for key in self.keys if isinstance(key, exp.Column)]
        renamed = {
            name: self.made[None, to_sql(generated_column(name))][0].column for name in plain
        }
        groups = Relation(
            rows=Typed(rows, types),
            fields=fields,
            unit_name=source.unit_name,
            unit=unit,
            tables=source.tables,
            joined=source.joined,
            unique=(frozenset(key.name for key in keys),),
            shared=renamed_keys(source.shared, renamed),
        ).of_rows_per_unit(self._most_groups())
        return self.operators.one_spelling(groups, self.select.args["group"])

    def _with_ends(self) -> RowSet:
        """Put beside each row the values at the ends of its group that are asked for."""
        if not self.ends:
            return self.source.rows
        columns: dict[str, exp.Expr] = {}
        for key in self.keys:
            if not isinstance(key, exp.Column):
                columns[self.names.new_column()] = key
        plain = [key.name for key in self.keys if isinstance(key, exp.Column)]
        among = tuple(dict.fromkeys([*plain, *columns]))
        for end in self.ends.values():
            columns |= {end.value: end.of, end.place: end.by}
        source = self.operators.extended(self.source, columns)
        odd = [name for end in self.ends.values() for name in (end.value, end.place)]
        for name in odd:
            if not source.type_of(name).has_one_spelling:
                raise self.names.refuse(
                    f"values of type {source.type_of(name)} cannot be ordered here",
                    "key_type",
                    self.select.args["group"],
                )
        values = tuple(
            PlaceValue(
                end.found,
                PlaceFunction.FIRST,
                end.value,
                among,
                (Sorted(end.place, descending=end.largest), Sorted(end.value)),
            )
            for end in self.ends.values()
        )
        return Placed(source.rows, values)

    def _most_groups(self) -> int | None:
        """Return how many groups a unit has at most: one, where its keys have one value each."""
        return 1 if all(map(self.source.single, self.keys)) else self.source.rows_per_unit

    def _key_field(self, key: exp.Expr) -> Field:
        name = self.names.new_column()
        known = self.source.field_of(key.name) if isinstance(key, exp.Column) else None
        if known is None and key == generated_column(self.source.unit or ""):
            return Field(*("", name, name, UNKNOWN), identity=Identity.UNIT, single=True)
        if known is None:
            identity, single = self.source.identity_of(key), self.source.single(key)
            return Field(
                *("", name, name, UNKNOWN),
                identity=identity,
                single=single,
                enumerated=is_enumerated(key),
            )
        # As it is, under a name of its own.
        return replace(known, qualifier="", name=name, column=name, merged=False)

    def _item(self, item: exp.Expr) -> exp.Expr:
        """Rewrite a select item over the groups, under the name DuckDB would give it."""
        name = item.alias or output_name(item.unalias())
        return exp.alias_(self._over_groups(item.unalias()), name, quoted=True)

    def _over_groups(self, node: exp.Expr) -> exp.Expr:
        """Rewrite an expression over keys and aggregates as one over columns of the groups."""
        holder = exp.Paren(this=self.names.over_aliases(node, self.select, self.source))
        self._replace(holder.this)
        over: exp.Expr = holder.this
        return over

    def _replace(self, node: exp.Expr) -> None:
        if any(node == key for key in self.keys):
            key_name = None, to_sql(node)
            column = self._column(key_name, *self.made[key_name])
            if is_enumerated(node):
                mark_enumerated(column)
                column.meta["name"] = output_name(node)
            put(node, column)
        elif isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue):
            self._replace(node.this)
            put(node, node.this)
        elif is_aggregate(node):
            formula = self._formula(node)
            if formula is None:
                put(node, self._column(*self._aggregate(node)))
            else:
                holder = exp.Paren(this=formula)
                self._replace(holder)
                put(node, holder)
        elif isinstance(node, exp.Column):
            raise self.names.refuse(
                f"column {output_name(node)} must be a GROUP BY key or stand inside an aggregate",
                "column_not_grouped",
                node,
            )
        else:
            for child in list(node.iter_expressions()):
                self._replace(child)

    def _formula(self, node: exp.Expr) -> exp.Expr | None:
        """Write an aggregate of a unit's rows with others; None for those computed as they are."""
        call = read_call(node, self.names.text)
        if isinstance(call.function, _TRUTHS) or self._is_extreme_truth(call.function):
            return self._truth(call, node)
        kind = _SPREADS.get(type(call.function))
        return None if kind is None else self._spread(call, kind, node)

    def _is_extreme_truth(self, function: exp.Expr) -> bool:
        """Tell whether it is the least or the greatest truth value, which not all engines have."""
        extreme = isinstance(function, exp.Min | exp.Max) and not function.expressions
        return extreme and is_truth(function.this, self.source.table)

    def _truth(self, call: AggregateCall, node: exp.Expr) -> exp.Expr:
        """Write BOOL_OR and BOOL_AND, or MAX and MIN of truth values, with counts.

        NULL where no row has a truth value.
        """
        every = isinstance(call.function, exp.LogicalAnd | exp.Min)
        condition = call.function.this
        self._check_plain(call, node, plain=is_truth(condition, self.source.table))
        deciding = exp.Not(this=exp.paren(condition)) if every else condition
        decided, known = (
            exp.GT(this=counted, expression=exp.Literal.number(0))
            for counted in (
                exp.CountIf(this=call.filtered(deciding)),
                exp.Count(this=call.filtered(condition)),
            )
        )
        return exp.Case(
            ifs=[
                exp.If(this=decided, true=exp.Boolean(this=not every)),
                exp.If(this=known, true=exp.Boolean(this=every)),
            ]
        )

    def _spread(self, call: AggregateCall, kind: AggregateKind, node: exp.Expr) -> exp.Expr:
        """Write a variance or a deviation of a unit's rows with sums.

        The sums are exact, so that the order of rows does not matter.
        """
        self._check_plain(call, node, plain=not isinstance(call.function.this, exp.Distinct))
        self._check_number(call.function.this)
        value = exp.cast(call.filtered(call.function.this), exp.DType.DOUBLE)

        def summed(of: exp.Expr) -> exp.Expr:
            return exp.Sum(this=of)

        square = exp.Mul(this=value.copy(), expression=value.copy())
        number: exp.Expr = exp.Count(this=value.copy())
        average = exp.Div(
            this=exp.Mul(this=summed(value.copy()), expression=summed(value.copy())),
            expression=exp.Nullif(this=number.copy(), expression=exp.Literal.number(0)),
        )
        if kind.of_sample:
            number = exp.Paren(this=exp.Sub(this=number, expression=exp.Literal.number(1)))
        variance = exp.Div(
            this=exp.Paren(this=exp.Sub(this=summed(square), expression=average)),
            expression=exp.Nullif(this=number, expression=exp.Literal.number(0)),
        )
        zero = exp.cast(exp.Literal.number(0), exp.DType.DOUBLE)
        negative = exp.LT(this=variance.copy(), expression=zero.copy())
        found = exp.Case(ifs=[exp.If(this=negative, true=zero)], default=variance)
        return exp.Sqrt(this=found) if kind.is_deviation else found

    def _at_end(self, call: AggregateCall, name: str) -> tuple[_Name, Field, UnitValue]:
        """Read ARG_MAX or ARG_MIN: the value where another is largest or smallest.

        Rows that lack either are passed over. Of several values, it is the least.
        """
        value, by = call.filtered(call.function.this), call.function.expression
        for part in (value, by):
            check_row_expression(part, self.names.text)
            refuse_unlike(part, self.source.type_of, self.names.text)
        if is_enumerated(by):
            raise enum_order(by, self.names.text)
        largest = isinstance(call.function, exp.ArgMax)
        known = (str(largest), to_sql(value), to_sql(by))
        new = self.names.new_column
        of, place = _where_there(value, by), _where_there(by, value)
        end = self.ends.setdefault(known, _AtEnd(new(), new(), new(), of, place, largest))
        bounds = range_of(value, self.source.policy, self.source.table)
        found = Field(
            *("", name, name, UNKNOWN),
            ColumnPolicy(*bounds) if bounds else None,
            identity=self.source.identity_of(value),
            enumerated=is_enumerated(value),
        )
        argument = generated_column(end.found)
        return (
            (UnitFunction.LEAST, to_sql(argument)),
            found,
            UnitValue(name, UnitFunction.LEAST, argument),
        )

    def _aggregate(self, node: exp.Expr) -> tuple[_Name, Field, UnitValue]:
        """Read an aggregate: its name, the facts about its value, and its computation."""
        call = self._call(node)
        function = call.function
        name = self.names.new_column()
        if isinstance(function, _VALUES_OF_ROWS) and is_truth(function.this, self.source.table):
            raise self.names.refuse(
                f"{written_name(function)} of a condition is not available per privacy unit",
                "aggregate_not_supported",
                node,
                hint="Write what it stands for: CASE WHEN x > 1 THEN 'yes' ELSE 'no' END.",
            )
        if isinstance(function, _AT_ENDS):
            return self._at_end(call, name)
        refuse_enum_order(function, self.names.text)
        if isinstance(function, exp.Count | exp.CountIf):
            return self._named(Field("", name, name, UNKNOWN, _COUNTED), *self._count(call))
        argument = call.filtered(function.this)
        summed = isinstance(function, exp.Sum)
        if isinstance(function, exp.Sum | exp.Avg):
            self._check_number(function.this)
        bounds = None if summed else range_of(argument, self.source.policy, self.source.table)
        known = ColumnPolicy(*bounds) if bounds else None
        identity = self.source.identity_of(argument)
        found = Field("", name, name, UNKNOWN, known, identity=identity)
        if summed and is_integral(argument, self.source.table):
            return self._named(found, UnitFunction.WHOLE_SUM, argument)
        return self._named(found, _FUNCTIONS[type(function)], argument)

    def _named(
        self, known: Field, function: UnitFunction, argument: exp.Expr | None
    ) -> tuple[_Name, Field, UnitValue]:
        """Build an aggregate with known facts, after a check of its argument."""
        if argument is None:
            return (function, ""), known, UnitValue(known.column, function, None)
        check_row_expression(argument, self.names.text)
        refuse_unlike(argument, self.source.type_of, self.names.text)
        made = function, to_sql(argument)
        return made, known, UnitValue(known.column, function, argument.copy())

    def _call(self, node: exp.Expr) -> AggregateCall:
        """Read an aggregate that is available per unit."""
        call = read_call(node, self.names.text)
        function, argument = call.function, call.function.this
        counts = isinstance(function, exp.Count)
        known = isinstance(function, _AGGREGATES) and not function.args.get("zero_on_all_null")
        if isinstance(argument, exp.Distinct):
            plain = counts and len(argument.expressions) == 1
        elif argument is None or isinstance(argument, exp.Star):
            plain = counts
        else:
            ordered = (argument, function.args.get("expression"))
            plain = isinstance(argument, exp.Expr) and not any(
                isinstance(part, exp.Order) for part in ordered
            )
        self._check_plain(call, node, plain=known and plain)
        return call

    def _check_plain(self, call: AggregateCall, node: exp.Expr, *, plain: bool) -> None:
        """Refuse an aggregate that is not ``plain``, or says more than is read per unit."""
        if call.per_row is not None or call.per_group is not None:
            raise self.names.refuse(
                "contribution bounds belong to an aggregate that is released, and this one is "
                "computed exactly, for each privacy unit",
                "bounds_do_not_apply",
                node,
                hint="Give them in the outer query, to the aggregate over this column. Here, "
                "values can be clamped: SUM(least(greatest(x, 0), 100)).",
            )
        if call.max_error is not None:
            raise self.names.refuse(
                "max_error belongs to an aggregate that is released, and this one is computed "
                "exactly, for each privacy unit",
                "bounds_do_not_apply",
                node,
                hint="Give it in the outer query, to the aggregate over this column.",
            )
        if not plain or call.function.expressions or call.order is not None:
            raise self.names.refuse(
                f"{written_name(call.function)} in this form is not available per privacy unit",
                "aggregate_not_supported",
                node,
                hint="Available: COUNT, COUNT(DISTINCT x), COUNT_IF, SUM, AVG, MIN, MAX, "
                "ANY_VALUE, BOOL_OR, BOOL_AND, variances and deviations, each with FILTER; for the "
                "first or last value in an order ARG_MIN(x, day) and ARG_MAX(x, day).",
            )

    def _check_number(self, node: exp.Expr) -> None:
        """Refuse to sum values of a type that is no number."""
        table = self.source.table
        if not (is_number(node, table) or is_truth(node, table)):
            raise self.names.refuse(
                "the summed value is not a number",
                "not_numeric",
                node,
                hint="Cast it to a number: CAST(x AS DOUBLE).",
            )

    @staticmethod
    def _count(call: AggregateCall) -> tuple[UnitFunction, exp.Expr | None]:
        """Return the counted value, and its function."""
        value, function = call.function.this, UnitFunction.VALUES
        if isinstance(call.function, exp.CountIf):
            value = exp.Case(ifs=[exp.If(this=value.copy(), true=exp.Literal.number(1))])
        elif value is None or isinstance(value, exp.Star):
            if call.condition is None:
                return UnitFunction.ROWS, None
            value = exp.Literal.number(1)
        elif isinstance(value, exp.Distinct):
            (value,), function = value.expressions, UnitFunction.DISTINCT_VALUES
        return function, call.filtered(value)


def _typed(known: Field, type_: SqlType) -> Field:
    """Give a field the type the engine finds, unless it is a column's own."""
    return replace(known, type=type_) if known.type == UNKNOWN else known
