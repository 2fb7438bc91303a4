"""GROUP BY the privacy unit inside a subquery: rows about one unit each, from that unit's rows.

Any aggregate of one unit's rows may stand here, exactly: what leaves is bounded like any other row.
It must not fail and must not depend on the order of rows, which the engine chooses by looking at
all of them. So sums of fractions are taken over decimals too few to overflow, and what MIN, MAX and
the keys leave open (0.0 or -0.0) is settled. FILTER is rewritten away, into CASE. Checked by
``tests/sql/test_lineage_sensitivity.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.policy.model import ColumnPolicy
from dpsql.sql.expressions.call import AggregateCall, is_aggregate, read_call
from dpsql.sql.expressions.legality import check_row_expression
from dpsql.sql.expressions.proven_integers import MOST_ROWS, column
from dpsql.sql.expressions.ranges import is_integral, is_number, is_truth, range_of
from dpsql.sql.lineage.names import Names, generated_column
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.sql.syntax.text import output_name, put

_EXACT = f"DECIMAL({38 - len(str(MOST_ROWS))}, 8)"  # sums of that many rows have 38 digits at most
_BIGINT = (-(2**63), 2**63 - 1)
_COUNTED = ColumnPolicy(0, 2**53)
_AGGREGATES = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max)
_ALLOWED = frozenset({"expressions", "from_", "joins", "where", "with_", "group", "having"})


def keys_with_unit(names: Names, select: exp.Select, source: Relation) -> list[exp.Expr] | None:
    """The GROUP BY keys of a SELECT, ordinals and aliases replaced; None if the unit is not one.

    Raises ``QueryRefused`` or ``UnknownName`` with the place of what is no column.
    """
    keys = [_key(names, key, select, source) for key in _written_keys(select)]
    if not any(isinstance(key, exp.Column) and source.is_unit(key.name) for key in keys):
        return None
    return keys


def _written_keys(select: exp.Select) -> list[exp.Expr]:
    group = select.args["group"]
    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions]
        return [item for item in items if item.find(exp.AggFunc) is None]
    return list(group.expressions)


def _key(names: Names, key: exp.Expr, select: exp.Select, source: Relation) -> exp.Expr:
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
) -> Relation:
    """The relation of a SELECT that groups ``source`` by ``keys``, one of which is the unit.

    Raises ``QueryRefused`` or ``UnknownName`` with the place of what cannot be used.
    """
    return _PerUnit(names, operators, select, source, keys).relation()


@dataclass
class _PerUnit:
    names: Names
    operators: Operators
    select: exp.Select
    source: Relation
    keys: list[exp.Expr]
    columns: dict[str, Field] = field(default_factory=dict)  # SQL text -> its column

    def relation(self) -> Relation:
        self._check()
        for key in self.keys:
            check_row_expression(key, self.names.text)
            self._column(self.source.total(key), self._key_field(key))
        grouped_by = len(self.columns)
        items = [self._item(item) for item in self.select.expressions]
        having = self.select.args.get("having")
        condition = None if having is None else exp.Where(this=self._over_groups(having.this))
        groups = self._groups(grouped_by)
        if condition is not None:
            groups = self.operators.filtered(groups, condition)
        return self.operators.projected(exp.Select(expressions=items), groups)

    def _check(self) -> None:
        group = self.select.args["group"]
        unusual = {name for name, value in group.args.items() if value} - {"expressions", "all"}
        extra = {name for name, value in self.select.args.items() if value} - _ALLOWED
        if extra or unusual or group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            raise self.names.refuse(
                "a subquery that groups by the privacy unit has plain keys, aggregates and HAVING",
                "clause_not_allowed",
                group if unusual or not extra else self.select.args[min(extra)],
            )

    def _column(self, text: str, known: Field) -> exp.Column:
        """The column of the groups that holds the value of ``text``."""
        found = self.columns.setdefault(text, known)
        return generated_column(found.column)

    def _groups(self, grouped_by: int) -> Relation:
        """The grouped rows: keys and aggregates under names of their own."""
        dialect = self.source.dialect
        selected = ", ".join(
            f"{text} AS {dialect.quote(f.column)}" for text, f in self.columns.items()
        )
        keys = ", ".join(str(position + 1) for position in range(grouped_by))
        sql = dialect.derived(f"SELECT {selected} FROM {self.source.sql} GROUP BY {keys}")
        types = self.operators.bind(f"SELECT * FROM {sql}")
        fields = tuple(
            _typed(known, column.type)
            for known, column in zip(self.columns.values(), types, strict=True)
        )
        unit = next(f.column for f in fields if f.identity is Identity.UNIT)
        source = self.source
        groups = Relation(
            sql=sql,
            fields=fields,
            unit_name=source.unit_name,
            unit=unit,
            tables=source.tables,
            joined=source.joined,
            dialect=dialect,
        )
        return self.operators.one_spelling(groups, self.select.args["group"])

    def _key_field(self, key: exp.Expr) -> Field:
        name = self.names.new_column()
        known = self.source.field_of(key.name) if isinstance(key, exp.Column) else None
        if known is None:
            identity = self.source.identity_of(key)
            return Field("", name, name, "", identity=identity)
        return Field(
            "", name, name, known.type, known.policy, known.origin, identity=known.identity
        )

    def _item(self, item: exp.Expr) -> exp.Expr:
        """A select item as an expression over the groups, under the name DuckDB would give it."""
        name = item.alias or output_name(item.unalias())
        return exp.alias_(self._over_groups(item.unalias()), name, quoted=True)

    def _over_groups(self, node: exp.Expr) -> exp.Expr:
        """An expression over keys and aggregates, as one over the columns of the groups."""
        holder = exp.Paren(this=self.names.over_aliases(node, self.select, self.source))
        self._replace(holder.this)
        over: exp.Expr = holder.this
        return over

    def _replace(self, node: exp.Expr) -> None:
        if any(node == key for key in self.keys):
            text = self.source.total(node)
            put(node, self._column(text, self.columns[text]))
        elif is_aggregate(node):
            text, known = self._aggregate(node)
            put(node, self._column(text, known))
        elif isinstance(node, exp.Column):
            raise self.names.refuse(
                f"column {output_name(node)} must be a GROUP BY key or stand inside an aggregate",
                "column_not_grouped",
                node,
            )
        else:
            for child in list(node.iter_expressions()):
                self._replace(child)

    def _aggregate(self, node: exp.Expr) -> tuple[str, Field]:
        """An aggregate's SQL, and what is known of its value."""
        call = self._call(node)
        function = call.function
        name = self.names.new_column()
        if isinstance(function, exp.Count | exp.CountIf):
            return self._count(call), Field("", name, name, "", _COUNTED)
        argument = call.filtered(function.this)
        summed = isinstance(function, exp.Sum)
        if isinstance(function, exp.Sum | exp.Avg):
            self._check_number(function.this)
        bounds = None if summed else range_of(argument, self.source.policy)
        known = ColumnPolicy(*bounds) if bounds else None
        identity = self.source.identity_of(argument)
        found = Field("", name, name, "", known, identity=identity)
        return self._computed(function, argument, self._text(argument)), found

    def _call(self, node: exp.Expr) -> AggregateCall:
        """An aggregate that is available per unit."""
        call = read_call(node, self.names.text)
        function, argument = call.function, call.function.this
        if call.per_row is not None or call.per_group is not None:
            raise self.names.refuse(
                "contribution bounds belong to an aggregate that is released, and this one is "
                "computed exactly, for each privacy unit",
                "bounds_do_not_apply",
                node,
                hint="Give them in the outer query, to the aggregate over this column. Here, "
                "values can be clamped: SUM(least(greatest(x, 0), 100)).",
            )
        counts = isinstance(function, exp.Count)
        known = isinstance(function, _AGGREGATES) and not function.args.get("zero_on_all_null")
        if isinstance(argument, exp.Distinct):
            plain = counts and len(argument.expressions) == 1
        elif argument is None or isinstance(argument, exp.Star):
            plain = counts
        else:
            plain = isinstance(argument, exp.Expr) and not isinstance(argument, exp.Order)
        if not known or not plain or function.expressions or call.order is not None:
            raise self.names.refuse(
                f"{function.sql_name().lower()} in this form is not available per privacy unit",
                "aggregate_not_supported",
                node,
                hint="Available: COUNT, COUNT(DISTINCT x), COUNT_IF, SUM, AVG, MIN and MAX, each "
                "with FILTER.",
            )
        return call

    def _check_number(self, node: exp.Expr) -> None:
        """Refuse what is cast to a decimal from a type of which nothing is known."""
        table = self.source.table
        if not (is_number(node, table) or is_truth(node, table)):
            raise self.names.refuse(
                "what is summed is not a number",
                "not_numeric",
                node,
                hint="Cast it to a number: x::INT.",
            )

    def _count(self, call: AggregateCall) -> str:
        value, word = call.function.this, ""
        if isinstance(call.function, exp.CountIf):
            value = exp.Case(ifs=[exp.If(this=value.copy(), true=exp.Literal.number(1))])
        elif value is None or isinstance(value, exp.Star):
            if call.condition is None:
                return "count(*)"
            value = exp.Literal.number(1)
        elif isinstance(value, exp.Distinct):
            (value,), word = value.expressions, "DISTINCT "
        return f"count({word}{self._text(call.filtered(value))})"

    def _text(self, argument: exp.Expr) -> str:
        """An aggregate's argument as generated SQL, which cannot fail."""
        check_row_expression(argument, self.names.text)
        return self.source.total(argument)

    def _computed(self, node: exp.AggFunc, argument: exp.Expr, text: str) -> str:
        if isinstance(node, exp.Min | exp.Max):
            return f"{'min' if isinstance(node, exp.Min) else 'max'}({text})"
        dialect = self.source.dialect
        if isinstance(node, exp.Sum) and is_integral(argument, self.source.table):
            value = column(dialect.try_cast(text, "BIGINT"), *_BIGINT, dialect=dialect)
            return dialect.try_cast(value.sum().sql, "BIGINT")
        exact = dialect.try_cast(text, _EXACT)
        total_ = dialect.cast(dialect.sum(exact), "DOUBLE")
        return total_ if isinstance(node, exp.Sum) else f"{total_} / count({exact})"


def _typed(known: Field, type_: str) -> Field:
    """The field with the type the engine finds, unless it is a column's own."""
    if known.type:
        return known
    return Field("", known.name, known.column, type_, known.policy, identity=known.identity)
