"""Relational operators: the relation after a filter, a projection or DISTINCT.

Each keeps what is known of the unit. Together they count what a statement has grown into: stars
of stars, and queries that use others twice, can double it at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.schema import Column, fold
from dpsql.core.sql import Sql, sql
from dpsql.core.sql_types import UNKNOWN
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused, UnknownName
from dpsql.ir.relations import (
    Computed,
    Distinct,
    Extend,
    Filter,
    Join,
    JoinKind,
    LinkJoin,
    NumberedRows,
    OneSpelling,
    Rename,
    RowSet,
    Typed,
)
from dpsql.policy.model import ColumnPolicy
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.enum_order import is_enumerated
from dpsql.sql.expressions.legality import check_row_expression
from dpsql.sql.expressions.ranges import range_of
from dpsql.sql.lineage.names import Names, columns_below, generated_column, in_known_words
from dpsql.sql.lineage.relation import Field, Identity, LinkedKey, Pending, Relation
from dpsql.sql.lineage.tables import Tables
from dpsql.sql.relations.from_clause import FromClauses
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import output_name

Bind: TypeAlias = Callable[[Sql], tuple[Column, ...]]
"""The columns that a generated statement would return; reads no row."""

MAX_RELATION_COLUMNS = 50_000
"""Columns of all joins and subqueries: stars of stars can double them at every step."""
MAX_GENERATED = 100_000
"""Characters of a FROM clause: queries that use others twice can double it at every step."""
MAX_BOUND = 100_000
"""Characters of the generated SQL of all blocks and subqueries together."""


class Operators:
    """Relational operators of one statement.

    ``bind`` finds the types of computed columns, of SQL in a ``dialect``.
    """

    def __init__(self, names: Names, tables: Tables, bind: Bind, dialect: Dialect) -> None:
        self._names = names
        self._tables = tables
        self._bind = bind
        self._written = FromClauses(dialect)
        self._columns = 0
        self._generated = 0

    # -- sizes --------------------------------------------------------------------------------

    def bind(self, rows: RowSet, *names: str) -> tuple[Column, ...]:
        """Return the columns of rows, or some of them, with the types that the engine finds.

        Raises ``QueryRefused`` where a statement asks too much of the engine by then: subqueries of
        subqueries are bound again at every level.
        """
        written = self._written
        if names:
            return self._bound(written.selected(rows, names))
        return self._bound(sql("SELECT * FROM {}", written.text(rows)))

    def _bound(self, statement: Sql) -> tuple[Column, ...]:
        self._count_generated(statement)
        return self._bind(statement)

    def count_block(self, rows: RowSet) -> None:
        """Count the rows of a block, which an engine is to bind. Raises as :meth:`bind`."""
        self._count_generated(self._written.kept(rows))

    def _count_generated(self, statement: Sql) -> None:
        self._generated += statement.size
        if self._generated > MAX_BOUND:
            raise self._too_large(None)

    def count_columns(self, columns: int, node: exp.Expr) -> None:
        """Count the columns that a part of the statement adds. Raises ``QueryRefused``."""
        self._columns += columns
        if self._columns > MAX_RELATION_COLUMNS:
            raise self._too_large(node)

    def check_size(self, rows: Relation, node: exp.Expr) -> None:
        """Refuse a relation whose SQL is too long. Raises ``QueryRefused``."""
        if self._written.text(rows.rows).size > MAX_GENERATED:
            raise self._too_large(node)

    def _too_large(self, node: exp.Expr | None) -> QueryRefused:
        return self._names.refuse(
            "the statement stands for too large a query",
            "query_too_large",
            node,
            hint="Stars, subqueries and CTEs are written out as often as they are used.",
        )

    # -- rows ---------------------------------------------------------------------------------

    def fresh(self, relation: Relation, *, whole: bool = False) -> Relation:
        """Give a relation column names of its own; its rows keep the columns that can be needed.

        ``whole``: all of them are.
        """
        carried = [f.column for f in relation.fields if whole or self._may_need(f)]
        carried += [relation.unit] if relation.unit is not None else []
        carried += relation.pending.columns if relation.pending is not None else ()
        carried = carried or [f.column for f in relation.fields[:1]]  # rows that are only counted
        made = self._names.new_column
        names = {column: made() for column in dict.fromkeys(carried)}
        rows = Rename(relation.rows, tuple(names.items()))
        names.update({f.column: made() for f in relation.fields if f.column not in names})
        pending = relation.pending
        return replace(
            relation,
            rows=rows,
            fields=tuple(replace(f, column=names[f.column]) for f in relation.fields),
            unit=None if relation.unit is None else names[relation.unit],
            pending=None
            if pending is None
            else replace(pending, columns=tuple(names[c] for c in pending.columns)),
            equal=tuple(
                frozenset(names[c] for c in columns if c in names) for columns in relation.equal
            ),
            unique=tuple(
                frozenset(names[c] for c in columns)
                for columns in relation.unique
                if columns <= names.keys()
            ),
            parents=renamed_keys(relation.parents, names),
            shared=renamed_keys(relation.shared, names),
        )

    def _may_need(self, field: Field) -> bool:
        """Tell whether a statement mentions a column, or other tables' links refer to it."""
        return self._names.may_mean(field) or self._tables.is_referred(field)

    def settled(self, relation: Relation) -> Relation:
        """Make the unit of a relation known: a link that is still pending is followed."""
        if relation.pending is None:
            return relation
        parent, keys = self._parent(relation.pending)
        pairs = list(zip(relation.pending.columns, keys, strict=True))
        rows: RowSet
        if len(pairs) == 1:
            rows = LinkJoin(relation.rows, parent.rows, *pairs[0])
        else:
            equal = tuple(
                exp.EQ(this=generated_column(one), expression=generated_column(other))
                for one, other in pairs
            )
            rows = Join(relation.rows, parent.rows, JoinKind.INNER, equal)
        return replace(relation, rows=rows, unit=parent.unit, pending=None)

    def _parent(self, pending: Pending) -> tuple[Relation, list[str]]:
        """Return the parent a link leads to, with its unit known, and its referenced columns."""
        parent = self.settled(self.fresh(self._tables.parent_rows(pending)))
        columns = {f.origin: f.column for f in reversed(parent.fields)}
        return parent, [columns[origin] for origin in pending.parent]

    def filtered(self, source: Relation, where: exp.Where) -> Relation:
        """Keep the rows that satisfy a WHERE clause without subqueries."""
        condition = where.this.copy()
        return self.keeping(source, self._names.resolve(condition, source))

    def keeping(self, source: Relation, condition: exp.Expr) -> Relation:
        """Keep the rows that satisfy a resolved condition."""
        check_row_expression(condition, self._names.text)
        refuse_unlike(condition, source.type_of, self._names.text)
        return replace(source, rows=Filter(source.rows, condition)).where(condition)

    def distinct(self, rows: Relation, node: exp.Expr) -> Relation:
        """Make rows distinct, private ones with their unit among the columns or beside them."""
        columns = dict.fromkeys(f.column for f in rows.fields)
        unit = next((f.column for f in rows.fields if f.identity is Identity.UNIT), rows.unit)
        if unit is not None:
            columns[unit] = None
        found = Distinct(rows.rows, tuple(columns))
        if all(f.single for f in rows.fields):
            rows = rows.of_rows_per_unit(1)
        unique = (*rows.unique, frozenset(columns))
        return self.one_spelling(replace(rows, rows=found, unit=unit, unique=unique), node)

    def one_spelling(self, rows: Relation, node: exp.Expr) -> Relation:
        """Spell each value of distinct or grouped rows as all its equals are spelled.

        Raises ``QueryRefused`` for columns of types that have no such spelling.
        """
        columns = {f.column: f for f in rows.fields}
        odd = next((f for f in columns.values() if not f.type.has_one_spelling), None)
        if odd is not None:
            raise self._names.refuse(
                f"values of type {odd.type} cannot be told apart or grouped here",
                "key_type",
                node,
            )
        kept = () if rows.unit is None or rows.unit in columns else (rows.unit,)
        return replace(rows, rows=OneSpelling(rows.rows, tuple(columns), kept))

    # -- select lists -------------------------------------------------------------------------

    def projected(self, select: exp.Select, source: Relation) -> Relation:
        """Compute the columns of a select list over rows."""
        fields: list[Field] = []
        computed: list[tuple[int, exp.Expr]] = []
        for item in select.expressions:
            node = item.unalias().copy()
            if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
                fields += self._starred(node, source)
                self.count_columns(len(source.fields), item)
                continue
            written = node
            if isinstance(node.unnest(), exp.Column) and columns_below(node):
                node = in_known_words(node, source)  # a name may be that of a field
            bare = node.unnest()
            known = None
            if isinstance(bare, exp.Column):
                found = bool(columns_below(bare)) and self._names.resolve_column(bare, source)
                known = found or source.field_of(bare.name)
            if known is not None:
                check_row_expression(node, self._names.text)
                name = item.alias or (output_name(bare) if known.merged else known.name)
                fields.append(replace(known, qualifier="", name=name, merged=False))
                continue
            name = item.alias or output_name(written)
            node = self._names.resolve(node, source)
            check_row_expression(node, self._names.text)
            refuse_unlike(node, source.type_of, self._names.text)
            computed.append((len(fields), node))
            fields.append(self._computed(node, name, source))
        return self._extended(source, fields, computed)

    def extended(self, source: Relation, computed: Mapping[str, exp.Expr]) -> Relation:
        """Add columns of resolved expressions that no name and no star means."""
        fields = list(source.fields)
        made = []
        for column, node in computed.items():
            made.append((len(fields), node))
            fields.append(replace(self._computed(node, column, source), column=column, merged=True))
        return self._extended(source, fields, made)

    def _extended(
        self, source: Relation, fields: list[Field], computed: list[tuple[int, exp.Expr]]
    ) -> Relation:
        """Return rows with these fields, some of which are computed by expressions."""
        if not computed:
            return replace(source, fields=tuple(fields))
        made = tuple(Computed(fields[i].column, node) for i, node in computed)
        extended = Extend(source.rows, made)
        types = self._bound(self._written.computed(extended))
        for (index, _), column in zip(computed, types, strict=True):
            fields[index] = replace(fields[index], type=column.type)
        return replace(source, rows=Typed(extended, types), fields=tuple(fields))

    def listed(self, rows: Sequence[Sequence[exp.Expr]]) -> Relation:
        """Make rows of constants: numbers, and columns with a constant for each of them."""
        place = self._names.new_column()
        made = [
            Computed(self._names.new_column(), _at_places(place, column))
            for column in zip(*rows, strict=True)
        ]
        return self._public(Extend(NumberedRows(place, len(rows)), tuple(made)))

    def numbered(self, low: int, step: int, count: int) -> Relation:
        """Make rows of numbers, from ``low`` on in steps."""
        place = self._names.new_column()
        steps = exp.Mul(this=generated_column(place), expression=_number(step))
        number = exp.Add(this=exp.Paren(this=steps), expression=_number(low - step))
        made = Computed(self._names.new_column(), exp.cast(number, exp.DType.BIGINT))
        return self._public(Extend(NumberedRows(place, count), (made,)))

    def _public(self, extended: Extend) -> Relation:
        """Return computed columns as a public relation, under the names of VALUES."""
        types = self._bound(self._written.computed(extended))
        fields = [
            Field("", f"col{index}", column.name, column.type) for index, column in enumerate(types)
        ]
        return Relation(Typed(extended, types), tuple(fields))

    def _starred(self, node: exp.Expr, source: Relation) -> list[Field]:
        star = node if isinstance(node, exp.Star) else node.this
        if any(value for part, value in star.args.items() if part != "except_"):
            raise self._names.refuse(
                "REPLACE and RENAME are not available here", "expression_not_allowed", node
            )
        named = isinstance(node, exp.Column) and node.table
        qualifier = fold(named) if named else None
        found = [
            replace(f, qualifier="", merged=False)
            for f in source.fields
            if (not f.merged if qualifier is None else f.qualifier == qualifier)
        ]
        if not found:
            raise self._names.refuse(
                f"no table of this FROM is called {named}",
                "unknown_qualifier",
                node,
                hint="Before .* stands the alias of a table, or its name if it has none.",
            )
        return self._without(found, star.args.get("except_") or [])

    def _without(self, fields: list[Field], excluded: Sequence[exp.Expr]) -> list[Field]:
        """Leave out the columns of EXCLUDE; raises ``UnknownName`` for one without a field."""
        left = fields
        for name in excluded:
            if not isinstance(name, exp.Column) or name.table or name.name == "*":
                raise self._names.refuse(
                    "EXCLUDE takes the names of columns alone", "expression_not_allowed", name
                )
            before = left
            left = [field for field in left if fold(field.name) != fold(name.name)]
            if len(left) == len(before):
                raise UnknownName(
                    f"there is no column {name.name} to be excluded",
                    code="unknown_column",
                    place=place_of(self._names.text, name),
                )
        return left

    def _computed(self, node: exp.Expr, name: str, source: Relation) -> Field:
        bounds = range_of(node, source.policy, source.table)
        known = None if bounds is None else ColumnPolicy(*bounds)
        column, identity = self._names.new_column(), source.identity_of(node)
        single = source.single(node)
        return Field(
            *("", name, column, UNKNOWN, known),
            identity=identity,
            single=single,
            enumerated=is_enumerated(node),
        )


def renamed_keys(keys: Sequence[LinkedKey], names: Mapping[str, str]) -> tuple[LinkedKey, ...]:
    """Return those of the keys whose columns have new names, under these."""
    return tuple(
        replace(key, columns=tuple(names[c] for c in key.columns))
        for key in keys
        if set(key.columns) <= names.keys()
    )


def _number(value: int) -> exp.Expr:
    number = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number


def _at_places(place: str, values: Sequence[exp.Expr]) -> exp.Expr:
    """Return the constant at a place, from 1 on, as an expression of the place."""
    *first, last = (value.copy() for value in values)
    if not first:
        first = [last.copy()]
    return exp.Case(
        this=generated_column(place),
        ifs=[
            exp.If(this=exp.Literal.number(index), true=value)
            for index, value in enumerate(first, start=1)
        ],
        default=last,
    )
