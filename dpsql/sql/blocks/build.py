"""One private block: from a SELECT over a private table to a ``Block`` and its released form.

Building a block rewrites its SELECT in place: what the block computes (keys and aggregates) becomes
columns of a released table, and everything else the SELECT does (arithmetic, HAVING, ORDER BY,
LIMIT, window functions) is left standing on those columns, as part of the public tail.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.core.sql_types import Spellings, SqlType
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block, BoundsFound, Key, LimitedOrder, Source, TopK
from dpsql.ir.relations import RowSet, unsampled
from dpsql.policy.model import ColumnPolicy
from dpsql.policy.parameters import Automatic, Parameters
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.sql.blocks.aggregates import AGGREGATE_NAMES, Aggregates
from dpsql.sql.blocks.aliases import Aliases
from dpsql.sql.blocks.columns import expand_columns
from dpsql.sql.blocks.formulas import formula_of
from dpsql.sql.blocks.listed import ListedGroups, by_group, listing_of
from dpsql.sql.blocks.time_bounds import STEP_NUMBER
from dpsql.sql.expressions.call import is_aggregate
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.legality import check_row_expression, outside_subqueries
from dpsql.sql.lineage.names import Names, aliases_of, generated_column
from dpsql.sql.lineage.relation import Identity, Origin, Relation
from dpsql.sql.lineage.samples import sample_share
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.inner_types import INSIDE, inner_type
from dpsql.syntax.options import AskedOptions
from dpsql.syntax.other_words import INSTEAD
from dpsql.syntax.parse import refuse_deep
from dpsql.syntax.row_nodes import FUNCTION_NAMES
from dpsql.syntax.text import output_name, put, written_name

_ALL: Final = NodeArguments("all")
_CONSTANTS: Final = (
    *(exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Paren),
    *(exp.Cast, exp.DataType, exp.DataTypeParam),
)
_CLAUSES = frozenset(
    {"expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit"}
    | {"offset", "distinct", "windows", "with_"}
)
_ALIKE = 0.7  # of two names: above it, one may be meant by the other
Descend = Callable[[exp.Query], None]
Beside = Callable[[exp.Select], None]
Around = Callable[[exp.Query], Sequence[exp.Column]]
"""Lists the columns in a subquery that are of the rows around it."""
Decides = Callable[[RowSet, Collection[str], str], bool]
"""Tells whether some columns of rows decide another of a public table, as a key of it."""


def build_block(
    select: exp.Select,
    *,
    name: str,
    relation: Relation,
    names: Names,
    link_keys: Collection[Origin],
    asked: AskedOptions,
    descend: Descend,
    beside: Beside,
    around: Around,
    decides: Decides,
    found: FoundBounds | None = None,
    finds: bool = False,
    resolved: bool = False,
) -> Block:
    """Turn a SELECT over private rows into a block, rewriting the SELECT into its tail.

    ``relation`` is what its FROM clause means, ``names`` resolves columns, ``link_keys`` are those
    by which tables are linked. ``descend`` is called for every subquery of the tail part,
    ``beside`` for every SELECT over the same rows, whose names are ``resolved``. ``around`` lists
    what subqueries name of these, ``decides`` looks for keys of public tables. ``found`` are the
    bounds that were found for it, if any were asked to be; ``finds`` says that bounds of values can
    be found. Raises ``QueryRefused`` or ``UnknownName`` with the place of what cannot be answered.
    """
    return _BlockBuilder(
        *(select, name, relation, names, link_keys, asked),
        *(descend, beside, around),
        decides,
        *(found, finds, resolved),
    ).build()


@dataclass(eq=False)
class _BlockBuilder:
    select: exp.Select
    name: str
    relation: Relation
    names: Names
    link_keys: Collection[Origin]
    options: AskedOptions
    descend: Descend
    beside: Beside
    around: Around
    decides: Decides
    found: FoundBounds | None
    finds: bool
    resolved: bool

    def __post_init__(self) -> None:
        relation = self.relation
        assert relation.unit is not None
        self.text = self.names.text
        self.policy = relation.policy
        self.table = relation.table
        self.unit_column = relation.unit
        self.keys: list[Key] = []
        self.condition: exp.Expr | None = None
        # Apart from the SELECT from here on: it is no clause of it.
        self.step_number: exp.Expr | None = self.select.args.pop(STEP_NUMBER, None)

    def build(self) -> Block:
        self._refuse_repeated_units()
        share = sample_share(self.relation, self.select, self.names)
        self._check_clauses()
        if not self.resolved:
            expand_columns(self.select, self.relation, self.names)
            self._resolve_columns()
        refuse_deep(self.select)
        condition = self.condition = self._condition()
        self._collect_keys()
        self._bound_rows(condition)
        top_k_order = self._top_k_candidate()
        aliases = self._replace_everywhere()
        top_k = self._top_k(top_k_order, aliases)
        limited_order = self._limited_order(aliases) if top_k is None else None
        self._check_error_applies()
        chosen_after = self._chosen_after(aliases, limited=bool(top_k or limited_order))
        self._detach_private_clauses()
        single = all(self.relation.single(key.expression) for key in self.keys)
        in_groups = 1 if single else self.relation.rows_per_unit
        parameters, most = self._with_most_groups(self.asked.parameters, in_groups)
        rows, usual = parameters.rows_limit, self.options.parameters.rows_limit
        return Block(
            name=self.name,
            table=self.relation.names,
            source=Source(
                unsampled(self.relation.rows),
                self.table,
                tuple(self._declared_keys()),
                bounds=tuple(self._bounds()),
                given=self.relation.given,
                share=share,
            ),
            unit_name=self.relation.unit_name or "",
            unit_column=self.unit_column,
            condition=condition,
            keys=tuple(self.keys),
            measures=tuple(self.aggregates.measures),
            aggregates=tuple(self.aggregates.found),
            top_k=top_k,
            parameters=parameters,
            mechanism=self.asked.mechanism,
            fresh=self.asked.fresh,
            most_rows=rows if rows < usual and self.found_rows is None else None,
            most_groups=most,
            unit_rows=self.most_in_group,
            unit_groups=in_groups,
            table_defaults=self._table_defaults(),
            step_number=self.step_number,
            bounds_found=self._bounds_found(),
            public_groups=self.asked.public_groups,
            limited_order=limited_order,
            chosen_after=chosen_after,
        )

    def _bound_rows(self, condition: exp.Expr | None) -> None:
        """Take no more rows of a unit in a group than there can be, by what is declared."""
        if condition is not None:
            self.relation = self.relation.where(condition)
        columns = (key.expression.unnest() for key in self.keys)
        same = {column.name for column in columns if isinstance(column, exp.Column)}
        most = 1 if self.relation.one_row_at(same) else self.relation.rows_per_unit
        self.most_in_group, self.asked = most, self.options.with_most_rows(most)
        asked = self.asked.parameters.max_rows_contributed
        self.found_rows = asked if isinstance(asked, Automatic) else None
        if self.found_rows is not None:
            rows = self.found and self.found.rows
            self.asked = self.asked.with_rows(rows or self.asked.parameters.rows_limit)
        if self.found is not None and self.found.groups is not None:
            self.asked = self.asked.with_groups(self.found.groups)
        values = (() if self.found is None else self.found.values) if self.finds else None
        self.aggregates = Aggregates(self.relation, self.asked, self.text, values, condition)

    def _bounds_found(self) -> BoundsFound | None:
        """Say which bounds are found privately, or were, where they change anything.

        Whether a number of groups is to be found is decided once it is known which groups there
        are.
        """
        measures, found = self.aggregates.measures, self.aggregates.found
        counted = any(m.bounded_by_rows for m in measures)
        quantiles = any(a.quantile is not None for a in found)
        given = self.found or FoundBounds()
        changes = counted or quantiles or given.rows == 1
        rows, groups = self.found_rows is not None and changes, given.groups is not None
        values = tuple(self.aggregates.unbounded)
        if not rows and not groups and not values:
            return None
        most = None if self.found_rows is None else self.found_rows.most
        return BoundsFound(rows, groups, most, values=values, known=self.found is not None)

    def _with_most_groups(
        self, parameters: Parameters, most: int | None
    ) -> tuple[Parameters, int | None]:
        """Return the parameters with no more groups than a unit is in, and that number if fewer.

        A unit is in one group where each key has one value of it, and in no more than it has rows.
        Only the bound follows from what is declared: it is kept by the SQL like any other.
        """
        asked = parameters.max_groups_contributed
        if not self.keys or most is None:
            return parameters, None
        if isinstance(asked, Automatic) and most > 1:
            fewer = replace(asked, most=most if asked.most is None else min(asked.most, most))
            return replace(parameters, max_groups_contributed=fewer), most
        limit = parameters.groups_limit
        if limit is not None and limit <= most and not parameters.automatic:
            return parameters, None
        return replace(parameters, max_groups_contributed=most), most

    def _table_defaults(self) -> tuple[tuple[str, str], ...]:
        found = self.asked.table_defaults
        return tuple((each.parameter, str(each.table)) for each in found)

    # -- what the SELECT may contain --------------------------------------------------------

    def _refuse_repeated_units(self) -> None:
        """Refuse a relation with several rows for one of a table of single rows."""
        if self.relation.may_repeat_units:
            raise self.names.refuse(
                f"each row of {self.relation.names} is a privacy unit, and could stand here in "
                "several rows",
                "unit_row_repeats",
                self.select,
                hint="Such a table is read alone and once. Rows of public tables may test it: "
                "WHERE x IN (SELECT …). Or aggregate it first, and join the result.",
            )

    def _check_clauses(self) -> None:
        present = {clause for clause, value in self.select.args.items() if value}
        unknown = sorted(present - _CLAUSES)
        if unknown:
            raise self.names.refuse(
                f"{unknown[0].rstrip('_').upper()} is not available over a private table",
                "clause_not_allowed",
                self.select.args[unknown[0]],
                hint="Over private rows there are WHERE and GROUP BY. Over released rows, in an "
                "outer query, there is every clause.",
            )
        distinct = self.select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.names.refuse(
                "DISTINCT ON picks rows and is not available over a private table",
                "clause_not_allowed",
                distinct,
                hint="Use GROUP BY, or DISTINCT ON over released rows in an outer query.",
            )

    def _check_error_applies(self) -> None:
        """Refuse a maximum error for keys alone, which have no intervals."""
        if self.asked.parameters.max_error is None or self.aggregates.found or not self.keys:
            return
        raise self.names.refuse(
            "max_error has nothing to keep: keys alone are released, and no numbers",
            "error_not_public",
            self.select,
            hint="Give epsilon instead: it decides which keys come out.",
        )

    # -- names --------------------------------------------------------------------------------

    def _resolve_columns(self) -> None:
        """Give every column its catalog spelling; replace references to select aliases."""
        aliases = Aliases(self.select, self.relation, self.names)
        for item in self.select.expressions:
            aliases.resolve(item)
            if isinstance(item, exp.Alias):
                aliases.define(item)
        where = self.select.args.get("where")
        if where is not None:
            aliases.resolve(where)
        if self.step_number is not None:
            aliases.resolve(self.step_number, aliased=False)
        for clause in ("group", "having", "qualify", "windows"):
            value = self.select.args.get(clause)
            for node in value if isinstance(value, list) else [value]:
                if node is not None:
                    aliases.resolve(node)
        having, group = self.select.args.get("having"), self.select.args.get("group")
        # GROUP BY ALL would have to group by what HAVING names, too.
        if having is not None and aliases and not (group is not None and group.args.get("all")):
            aliases.prefer(having, self._key_expressions())
        order = self.select.args.get("order")
        if order is not None:
            for term in order.expressions:
                if not aliases.has(term.this):
                    aliases.resolve(term)

    # -- the private half ---------------------------------------------------------------------

    def _condition(self) -> exp.Expr | None:
        where = self.select.args.get("where")
        if where is None:
            return None
        check_row_expression(where.this, self.text)
        refuse_unlike(where.this, self.relation.type_of, self.text)
        condition: exp.Expr = where.this.copy()
        return condition

    def _collect_keys(self) -> None:
        expressions = self._key_expressions()
        self._refuse_aggregates(expressions)
        dividing = [each for each in expressions if each.find(exp.Column) is not None]
        for expression in dividing or expressions:
            check_row_expression(expression, self.text)
            refuse_unlike(expression, self.relation.type_of, self.text)
            columns = list(expression.find_all(exp.Column))
            if self.relation.identity_of(expression) is not Identity.NONE:
                raise self.names.refuse(
                    f"grouping by {output_name(expression)} would release the privacy unit itself",
                    "groups_by_unit",
                    expression,
                    hint="Count units with COUNT(DISTINCT ...) per some other column.",
                )
            if self._is_link_key(expression) or self._equals_unit(expression):
                raise self.names.refuse(
                    f"each value of {output_name(expression.unnest())} belongs to one "
                    f"{self.relation.unit_name}, so its group would be too small to release",
                    "groups_by_unit",
                    expression,
                    hint="Group by what many share: another column, or ranges of this one.",
                )
            if not columns:
                raise self.names.refuse(
                    "a GROUP BY key must depend on a column",
                    "constant_key",
                    expression,
                    hint="Leave it out; a constant can be added to the released rows.",
                )
            self._add_key(expression)
        if self.keys:
            self._add_decided_keys()

    def _refuse_aggregates(self, keys: Sequence[exp.Expr]) -> None:
        """Refuse aggregates as keys, which an ordinal may mean; constants divide nothing."""
        for key in keys:
            if _has_aggregate(key) and key.find(exp.Window) is None:
                raise self.names.refuse(
                    "a GROUP BY key is a value of a row, and this is an aggregate",
                    "misplaced_aggregate",
                    key,
                    hint="Group by columns and expressions of them.",
                )

    def _add_key(self, expression: exp.Expr) -> None:
        self._check_given(expression)
        self._check_spelling(expression)
        if self._key_index(expression) is None:
            key = expression.copy()
            self.keys.append(Key(key, output_name(key), self._domain(key)))

    def _add_decided_keys(self) -> None:
        """Group by the columns of public tables, too, that the keys decide: as a key of the table.

        Groups are the same with them, and so is what a unit has a part in.
        """
        args = self.select.args
        roots = [*self.select.expressions, args.get("having"), args.get("qualify")]
        roots += [args.get("order"), *(args.get("windows") or ())]
        loose = [column for root in roots if root is not None for column in self._loose(root)]
        plain = (key.expression for key in self.keys)
        keys = {key.name for key in plain if isinstance(key, exp.Column)}
        decided = self._decided_by(keys, {column.name for column in loose})
        for column in loose:
            if column.name in decided:
                self._add_key(column)

    def _decided_by(self, keys: set[str], wanted: set[str]) -> set[str]:
        """Find the wanted columns that keys decide, as keys of one table or of several.

        A column that an inner join compares with one of them, as what it is, has its value.
        """
        known, found = set(keys), set[str]()
        others = [field.column for field in self.relation.fields]
        while True:
            known |= {name for same in self.relation.equal if same & known for name in same}
            rows = self.relation.rows
            found |= {name for name in wanted - found if self.decides(rows, known, name)}
            if found == wanted:
                return found
            more = {c for c in others if c not in known and self.decides(rows, known, c)}
            if not more:
                return found
            known |= more

    def _loose(self, node: exp.Expr) -> Iterator[exp.Column]:
        """Yield the columns outside of keys and aggregates; those that ANY_VALUE takes, too."""
        listing = listing_of(node)
        if listing is not None and listing.usual and listing.condition is None:
            node = listing.value
        elif is_aggregate(node):
            return
        if isinstance(node, exp.Query) or self._key_index(node) is not None:
            return
        if isinstance(node, exp.Column):
            if self.relation.field_of(node.name) is not None and not self._is_output_alias(node):
                yield node
            return
        for child in node.iter_expressions():
            yield from self._loose(child)

    def _check_given(self, key: exp.Expr) -> None:
        """Refuse a key of private rows where an outer join keeps public ones."""
        given = self.relation.given
        named = {column.name for column in key.find_all(exp.Column)}
        if given is None or named <= {column.name for column in given.columns}:
            return
        raise self.names.refuse(
            f"{output_name(key)} is a column of private rows, and the join keeps public ones",
            "join_keeps_public",
            key,
            hint="Group by columns of the side that the join keeps, or write an inner JOIN.",
        )

    def _is_link_key(self, key: exp.Expr) -> bool:
        """Tell whether a key links tables, so that each of its groups belongs to one unit.

        Not a matter of privacy: such groups are too small to come out, and cost as much as others.
        """
        column = key.unnest()
        field = self.relation.field_of(column.name) if isinstance(column, exp.Column) else None
        return field is not None and field.origin in self.link_keys

    def _equals_unit(self, key: exp.Expr) -> bool:
        """Tell whether a join made a key equal to the unit, with the same consequences."""
        column = key.unnest()
        if not isinstance(column, exp.Column):
            return False
        alike = (f for columns in self.relation.equal if column.name in columns for f in columns)
        return any(name == self.unit_column or self.relation.is_unit(name) for name in alike)

    def _check_spelling(self, key: exp.Expr) -> None:
        """Refuse keys of types whose equal values have several spellings; a cast has one."""
        columns = () if isinstance(key.unnest(), exp.Cast) else key.find_all(exp.Column)
        for column in columns:
            found = self.relation.field_of(column.name)
            if found is not None and self._has_one_spelling_inside(column, found.type):
                continue
            if found is not None and found.type.is_opaque and column is not key.unnest():
                continue  # whether there is a value has one spelling
            if found is not None and not found.type.has_one_spelling:
                raise self.names.refuse(
                    f"column {output_name(column)} is of type {found.type}, by which rows cannot "
                    "be grouped",
                    "key_type",
                    column,
                    hint="Group by a cast to a plain type, such as VARCHAR.",
                )

    def _has_one_spelling_inside(self, column: exp.Column, type_: SqlType) -> bool:
        """Tell whether no more is asked of a column than a value inside it, of one spelling."""
        part: exp.Expr = column
        while isinstance(part.parent, INSIDE) and part.arg_key == "this":
            part = part.parent
        if (
            isinstance(part.parent, exp.ArrayContains | exp.ArrayPosition)
            and part.arg_key == "this"
        ):
            return True  # elements are compared, and none comes out
        inner = None if part is column else inner_type(part, lambda _: type_)
        return inner is not None and inner.spellings is Spellings.ONE and not inner.is_opaque

    def _domain(self, expression: exp.Expr) -> tuple[object, ...] | None:
        if not isinstance(expression, exp.Column):
            return None
        column = self.policy.column(expression.name)
        return None if column is None else column.domain

    def _declared_keys(self) -> Iterator[Key]:
        """Yield the columns of declared values as keys; the statement need not have them."""
        for field in self.relation.fields:
            domain = None if field.policy is None else field.policy.domain
            if domain is not None:
                yield Key(generated_column(field.column), field.name, domain)

    def _bounds(self) -> Iterator[tuple[str, ColumnPolicy]]:
        """Yield the folded names of columns with bounds, and their declarations."""
        for field in self.relation.fields:
            if field.policy is not None and field.policy.lower is not None:
                yield fold(field.column), field.policy

    def _key_expressions(self) -> list[exp.Expr]:
        group = self.select.args.get("group")
        if group is None:
            return self._distinct_keys()
        items = [item.unalias() for item in self.select.expressions]
        if group.args.get("all") and _ALL.hold(group):
            return [item for item in items if not (_has_aggregate(item) or _is_constant(item))]
        if not any(group.args.values()):
            raise self.names.refuse(
                "GROUP BY names no keys",
                "empty_group_by",
                self.select,
                hint="Name the keys, write GROUP BY ALL, or leave it out for one row in all.",
            )
        if any(value for clause, value in group.args.items() if clause != "expressions"):
            raise self.names.refuse(
                "this form of GROUP BY is not available",
                "group_by_form",
                group,
                hint="Write GROUP BY a, b, or ROLLUP, CUBE or GROUPING SETS of keys.",
            )
        return [self._ordinal(expression, items).unnest() for expression in group.expressions]

    def _distinct_keys(self) -> list[exp.Expr]:
        """List the keys of ``SELECT DISTINCT a, b`` without aggregates: GROUP BY a, b."""
        items = [item.unalias() for item in self.select.expressions]
        if self.select.args.get("distinct") is None or any(map(_has_aggregate, items)):
            return []
        return items

    def _ordinal(self, expression: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
        if isinstance(expression, exp.Literal) and expression.is_int:
            position = int(expression.this)
            if not 1 <= position <= len(items):
                raise self.names.refuse(
                    f"GROUP BY {position}: the select list has {len(items)} columns",
                    "unknown_ordinal",
                    expression,
                    hint="Ordinals count from 1; a column's name is safer.",
                )
            return items[position - 1]
        return expression

    # -- the released half --------------------------------------------------------------------

    def _replace_everywhere(self) -> dict[str, exp.Expr]:
        """Replace keys and aggregates by released columns throughout the tail part."""
        self._named_outputs()
        for item in list(self.select.expressions):
            self._replace(item)
        for clause in ("having", "qualify", "order", "windows", "limit", "offset"):
            value = self.select.args.get(clause)
            for node in value if isinstance(value, list) else [value]:
                if node is not None:
                    self._replace(node)
        return aliases_of(self.select)

    def _named_outputs(self) -> None:
        """Give every select item an alias, so that answers keep the names DuckDB would give."""
        named: list[exp.Expr] = []
        for item in self.select.expressions:
            if isinstance(item, exp.Star):
                raise self._raw_rows(item)
            if isinstance(item, exp.Alias):
                named.append(item)
            else:
                named.append(exp.alias_(item, output_name(item), quoted=True, copy=False))
        self.select.set("expressions", named)

    def _replace(self, node: exp.Expr) -> None:
        """Rewrite one expression of the tail part, top down."""
        if isinstance(node, exp.Query):
            self._place_keys(node)
            self.descend(node)
            return
        key = self._key_index(node)
        if key is not None:
            put(node, generated_column(f"{INTERNAL_PREFIX}k{key}"))
            return
        listing = listing_of(node) if self.keys else None
        if listing is not None and self._has_groups(listing):
            self._list(node, listing)
            return
        if is_aggregate(node):
            formula = formula_of(node, self.aggregates.range_of, self.aggregates.is_condition)
            if formula is not None:
                put(node, formula)
                self._replace(formula)
                return
            put(node, self.aggregates.add(node))
            return
        if isinstance(node, exp.Column) and not self._is_output_alias(node):
            raise self._ungrouped(node)
        for child in list(node.iter_expressions()):
            self._replace(child)

    def _place_keys(self, query: exp.Query) -> None:
        """Write the keys that a subquery of the tail names as columns of the released groups."""
        left = {id(column): column for column in self.around(query)}
        for column in left.values():
            self.names.resolve_column(column, self.relation)
        for column in list(left.values()):
            node: exp.Expr | None = column
            while node is not None and node is not query and id(column) in left:
                key = self._key_index(node)
                inside = list(node.find_all(exp.Column))
                if key is not None and all(id(each) in left for each in inside):
                    table = exp.to_identifier(self.name, quoted=True)
                    put(node, exp.column(f"{INTERNAL_PREFIX}k{key}", table=table, quoted=True))
                    for each in inside:
                        del left[id(each)]
                node = node.parent
        for column in left.values():
            raise self._ungrouped(column)

    def _has_groups(self, listing: ListedGroups) -> bool:
        """Tell whether the values of an aggregate can be groups: columns, and none of the unit."""
        value = listing.value
        told = self.relation.identity_of(value) is not Identity.NONE
        return value.find(exp.Column) is not None and not told

    def _list(self, node: exp.Expr, listing: ListedGroups) -> None:
        """Write an aggregate over the groups of a value: by a question of its own for these."""
        if listing.usual and listing.condition is None and self._is_fixed(listing.value):
            value = exp.paren(listing.value.copy())  # all rows of a group agree in it
            put(node, value)
            self._replace(value)
            return
        keys = [
            (key.expression, generated_column(f"{INTERNAL_PREFIX}k{place}"))
            for place, key in enumerate(self.keys)
        ]
        written, groups = by_group(listing, keys, self.condition)
        put(node, written)
        self.beside(groups)

    def _is_fixed(self, node: exp.Expr) -> bool:
        """Tell whether an expression over rows is one of keys and constants."""
        if self._key_index(node) is not None:
            return True
        if isinstance(node, exp.Column | exp.Query):
            return False
        return all(map(self._is_fixed, node.iter_expressions()))

    def _key_index(self, node: exp.Expr) -> int | None:
        return next((i for i, key in enumerate(self.keys) if key.expression == node), None)

    def _is_output_alias(self, node: exp.Column) -> bool:
        """Tell whether an ORDER BY term names a select alias, which the tail resolves."""
        order = node.parent.parent if isinstance(node.parent, exp.Ordered) else None
        return (
            isinstance(order, exp.Order)
            and isinstance(order.parent, exp.Select)
            and "table" not in node.meta
            and fold(node.name) in {fold(item.alias) for item in self.select.expressions}
        )

    def _ungrouped(self, node: exp.Column) -> QueryRefused:
        call = _unknown_call(node)
        if call is not None:
            return self._unknown_function(call)
        if not self.keys and self.select.args.get("group") is None and not self.aggregates.found:
            return self._raw_rows(node)
        of_rows = (
            "Windows here are over groups. One over the rows of a unit stands in a subquery, with "
            f"QUALIFY too: FROM (SELECT …, RANK() OVER (PARTITION BY {self.relation.unit_label} "
            "ORDER BY x) AS place FROM …)."
        )
        hint = "Add it to GROUP BY, or put it inside COUNT, SUM or AVG."
        return self.names.refuse(
            f"column {output_name(node)} must be a GROUP BY key or stand inside an aggregate",
            "column_not_grouped",
            node,
            hint=hint if node.find_ancestor(exp.Window) is None else of_rows,
        )

    def _unknown_function(self, call: exp.Anonymous) -> QueryRefused:
        """Build the error for private rows in an unknown function."""
        name = written_name(call)
        close = difflib.get_close_matches(name, (*AGGREGATE_NAMES, *FUNCTION_NAMES), 1, _ALIKE)
        meant = f"Did you mean {close[0]}? " if close else ""
        return self.names.refuse(
            f"the function {name} is not available over private rows",
            "expression_not_allowed",
            call,
            hint=INSTEAD.get(name)
            or f"{meant}docs/sql.md lists the aggregates and the functions of a row.",
        )

    def _raw_rows(self, node: exp.Expr) -> QueryRefused:
        return self.names.refuse(
            "rows of a private table cannot be released",
            "raw_rows",
            node,
            hint=f"Ask for counts or sums per group: SELECT key, COUNT(DISTINCT "
            f"{self.relation.unit_label}) FROM {self.relation.names} GROUP BY key.",
        )

    # -- top-k --------------------------------------------------------------------------------

    def _top_k_candidate(self) -> tuple[exp.Expr, int] | None:
        """Return the first ORDER BY term and how many rows are asked for, if this is top-k."""
        args = self.select.args
        order, limit, offset = args.get("order"), args.get("limit"), args.get("offset")
        plain = not (args.get("having") or args.get("qualify") or args.get("distinct"))
        rows = _whole(limit)
        if not (self.keys and order and plain) or rows is None:
            return None
        skipped = 0 if offset is None else _whole(offset)
        if skipped is None:
            return None
        wanted = rows + skipped
        first = order.expressions[0]
        return (first, wanted) if first.args.get("desc") and wanted > 0 else None

    def _top_k(
        self, candidate: tuple[exp.Expr, int] | None, aliases: dict[str, exp.Expr]
    ) -> TopK | None:
        """Return top-k if the leading term is a count or a sum that only grows with units."""
        if candidate is None:
            return None
        term, wanted = candidate
        score: exp.Expr | None = term.this
        if isinstance(score, exp.Literal) and score.is_int:
            position = int(score.this)
            in_range = 1 <= position <= len(self.select.expressions)
            score = self.select.expressions[position - 1].this if in_range else None
        elif isinstance(score, exp.Column) and fold(score.name) in aliases:
            score = aliases[fold(score.name)]
        while isinstance(score, exp.Paren):
            score = score.this
        prefix = f"{INTERNAL_PREFIX}a"
        if not (isinstance(score, exp.Column) and score.name.startswith(prefix)):
            return None
        aggregate = self.aggregates.found[int(score.name.removeprefix(prefix))]
        if len(aggregate.measures) != 1:
            return None
        (measure,) = aggregate.measures
        if not self.aggregates.measures[measure].monotone:
            return None
        unseen = aggregate.max_error is None and self._only_named_in(term)
        return TopK(measure, wanted, unseen=unseen)

    def _limited_order(self, aliases: dict[str, exp.Expr]) -> LimitedOrder | None:
        """Return the LIMIT of an ORDER BY over noisy values; None for other orders."""
        args = self.select.args
        order, limit = args.get("order"), args.get("limit")
        if not (self.keys and order and limit):
            return None
        said, options = limit.expression, limit.args.get("limit_options")
        if not isinstance(said, exp.Literal) or said.is_string:
            return None
        prefix, found = f"{INTERNAL_PREFIX}a", set[int]()
        for term in self._order_terms(order, aliases):
            columns = {column.name for column in term.find_all(exp.Column)}
            found |= {int(c.removeprefix(prefix)) for c in columns if c.startswith(prefix)}
        measures = {m for index in found for m in self.aggregates.found[index].measures}
        percent = options is not None and bool(options.args.get("percent"))
        number = float(said.this) if percent else _rounded(said.this)
        named = tuple(sorted(measures))
        return LimitedOrder(named, number, percent) if named else None

    def _chosen_after(self, aliases: dict[str, exp.Expr], *, limited: bool) -> bool:
        """Tell whether clauses choose rows by noisy values, beside a LIMIT that is ``limited``."""
        args = self.select.args
        clauses = [args.get("having"), args.get("qualify")]
        if args.get("offset") or (args.get("limit") and not limited):
            clauses += self._order_terms(args["order"], aliases) if args.get("order") else []
        if args.get("qualify"):
            clauses += args.get("windows") or []
        known: set[str] = set()

        def noisy(node: exp.Expr) -> bool:
            for column in node.find_all(exp.Column):
                if column.name.startswith(f"{INTERNAL_PREFIX}a"):
                    return True
                meant = None if column.table else aliases.get(fold(column.name))
                if meant is not None and fold(column.name) not in known:
                    known.add(fold(column.name))
                    if noisy(meant):
                        return True
            return False

        return any(noisy(each) for each in clauses if each is not None)

    def _order_terms(self, order: exp.Expr, aliases: dict[str, exp.Expr]) -> Iterator[exp.Expr]:
        """Yield what an ORDER BY sorts by, over released columns, as far as it decides something.

        No two groups are alike in all keys.
        """
        keys = {f"{INTERNAL_PREFIX}k{place}" for place in range(len(self.keys))}
        for term in self._terms_written(order, aliases):
            yield term
            if isinstance(term, exp.Column):
                keys.discard(term.name)
            if not keys:
                return

    def _terms_written(self, order: exp.Expr, aliases: dict[str, exp.Expr]) -> Iterator[exp.Expr]:
        items = [item.unalias() for item in self.select.expressions]
        for term in order.expressions:
            by = term.this.unnest()
            if isinstance(by, exp.Var):  # ORDER BY ALL
                yield from items
            elif isinstance(by, exp.Literal) and by.is_int:
                yield from items[int(by.this) - 1 : int(by.this)]
            else:
                yield by.transform(_said(aliases))

    def _only_named_in(self, term: exp.Expr) -> bool:
        """Tell whether a term names the only aggregate, and nothing else in the SELECT does."""
        named, others = (
            sum(
                column.name.startswith(f"{INTERNAL_PREFIX}a")
                for column in part.find_all(exp.Column)
            )
            for part in (term, self.select)
        )
        return named == others == len(self.aggregates.found) == 1

    # -- the SELECT that stays ----------------------------------------------------------------

    def _detach_private_clauses(self) -> None:
        """Leave a SELECT over the released table: no WHERE, no GROUP BY, HAVING as WHERE."""
        if not self.keys and not self.aggregates.found:
            unknown = self.select.find(exp.Anonymous)
            if unknown is not None:
                raise self._unknown_function(unknown)
            raise self._raw_rows(self.select)
        released = exp.Table(this=exp.to_identifier(self.name))
        self.select.set("from_", exp.From(this=released))
        self.select.set("joins", None)
        having = self.select.args.get("having")
        self.select.set("where", exp.Where(this=having.this) if having is not None else None)
        self.select.set("having", None)
        if self.select.args.get("group") is None and not self.aggregates.found:
            self.select.set("distinct", None)  # its columns are the keys: groups are distinct
        self.select.set("group", None)


def _said(aliases: Mapping[str, exp.Expr]) -> Callable[[exp.Expr], exp.Expr]:
    """Return a function from the name of an alias to its expression; other nodes stay."""

    def said(node: exp.Expr) -> exp.Expr:
        bare = isinstance(node, exp.Column) and not node.table
        meant = aliases.get(fold(node.name)) if bare else None
        return node if meant is None else meant.copy()

    return said


def _whole(limit: exp.Expr | None) -> int | None:
    """Return how many rows LIMIT or OFFSET says; None without it, or where it is no plain number.

    A number with a sign of percent is none.
    """
    rows = None if limit is None or limit.args.get("limit_options") else limit.expression
    return int(rows.this) if isinstance(rows, exp.Literal) and rows.is_int else None


def _rounded(said: str) -> float:
    """Round a number of rows as the tail does: half of a decimal up, of a floating one to even."""
    half = ROUND_HALF_EVEN if "e" in said.lower() else ROUND_HALF_UP
    return float(Decimal(said).to_integral_value(half))


def _unknown_call(node: exp.Expr) -> exp.Anonymous | None:
    """Find the innermost function around a node that the parser does not know."""
    above = node.parent
    while above is not None and not isinstance(above, exp.Query):
        if isinstance(above, exp.Anonymous):
            return above
        above = above.parent
    return None


def _is_constant(node: exp.Expr) -> bool:
    """Tell whether a node is a value as it is written, in which all rows agree."""
    return all(isinstance(part, _CONSTANTS) for part in node.walk())


def _has_aggregate(node: exp.Expr) -> bool:
    return any(isinstance(part, exp.AggFunc) for part in outside_subqueries(node))
