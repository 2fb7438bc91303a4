"""Whose rows they are: the relations of FROM clauses, subqueries, CTEs and set operations.

The privacy unit is followed from the catalog through the syntax tree, never by a column's name:

* a private table brings its unit, or reaches it through a declared link;
* a subquery hands it on whether it selects the unit or not; one that groups by the unit is a
  pre-aggregation per unit;
* two private relations may be joined where an equality makes each pair of rows belong to one unit:
  of the two units, or along a declared link;
* a private relation may be joined with public rows in any way that keeps its own rows.

So every row of a relation depends on the rows of one unit and on public tables alone. What a join
does to the number of a unit's rows does not matter: contributions are bounded afterwards.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.errors import QueryRefused, UnknownName
from dpsql.policy import ColumnPolicy, Policy, TablePolicy
from dpsql.query import INTERNAL_PREFIX
from dpsql.quoting import quote
from dpsql.schema import Column, Schema, base_type, fold
from dpsql.sql.bounds import interval_of
from dpsql.sql.expressions import check_row_expression, outside_subqueries, refusal
from dpsql.sql.joins import Pair, joined
from dpsql.sql.parse import place_of
from dpsql.sql.preaggregate import per_unit
from dpsql.sql.relation import Field, Pending, Relation
from dpsql.sql.text import to_sql
from dpsql.sql.totality import total, total_condition


@dataclass(frozen=True, slots=True)
class Cte:
    """A CTE: whether it is made of private rows, and its rows (None if it is not about rows)."""

    private: bool
    read: Callable[[], Relation | None]


Scope = Mapping[str, Cte]
"""The CTEs in scope, by folded name."""
Bind = Callable[[str], tuple[Column, ...]]
"""The columns that a generated statement would return; reads no row."""

_ROW_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "with_", "distinct"})


class Lineage:
    """Builds relations for one statement; ``bind`` finds the types of computed columns."""

    def __init__(self, text: str, policy: Policy, schema: Schema, bind: Bind) -> None:
        self.text = text
        self.policy = policy
        self.schema = schema
        self.bind = bind
        self._named = 0

    # -- FROM clauses -------------------------------------------------------------------------

    def of_from(self, select: exp.Select, scope: Scope) -> Relation | None:
        """The rows a SELECT reads, or None if none of them are private.

        Raises ``QueryRefused`` or ``UnknownName`` for private rows that are used illegally.
        """
        from_ = select.args.get("from_")
        if from_ is None:
            return None
        joins = list(select.args.get("joins") or ())
        if not any(self._may_be_private(source, scope) for source in _sources(from_.this, joins)):
            return None
        return self._of_sources(from_.this, joins, select.args.get("where"), scope)

    def _may_be_private(self, source: exp.Expr, scope: Scope) -> bool:
        """Whether a private table is in a position from which its rows could come through."""
        if isinstance(source, exp.Table):
            if any(self._may_be_private(j.this, scope) for j in source.args.get("joins") or ()):
                return True
            if not source.db and fold(source.name) in scope:
                return scope[fold(source.name)].private
            table = self._table_policy(source)
            return table is not None and not table.public
        if isinstance(source, exp.Subquery):
            return self._may_be_private(source.this, scope)
        if isinstance(source, exp.SetOperation):
            sides = (source.this, source.expression)
            return any(self._may_be_private(side, scope) for side in sides)
        if isinstance(source, exp.Select):
            from_ = source.args.get("from_")
            joins = source.args.get("joins") or ()
            inner = self.with_ctes(source, scope)
            return from_ is not None and any(
                self._may_be_private(s, inner) for s in _sources(from_.this, joins)
            )
        return False

    def _of_sources(
        self, first: exp.Expr, joins: list[exp.Join], where: exp.Where | None, scope: Scope
    ) -> Relation | None:
        several = bool(joins) or bool(first.args.get("joins"))
        relation = self._piece(first, scope, unique=several)
        pieces = [(join, self._piece(join.this, scope, unique=True)) for join in joins]
        if not any(piece is not None and piece.private for _, piece in [(None, relation), *pieces]):
            return None  # released blocks in subqueries: this is a tail
        if relation is None:
            raise self._not_rows(first)
        filters = [] if where is None else list(_conjuncts(where.this))
        for join, piece in pieces:
            if piece is None:
                raise self._not_rows(join.this)
            relation = self._join(relation, piece, join, filters)
        return relation

    def _not_rows(self, source: exp.Expr) -> QueryRefused:
        return self._refuse(
            "private rows can be joined with tables and their rows only",
            "join_not_supported",
            source,
            hint="Aggregate the private table first, then join the result in an outer query.",
        )

    def with_ctes(self, query: exp.Query, scope: Scope) -> Scope:
        """The scope inside a query that has a WITH clause."""
        inner = dict(scope)
        for cte in query.ctes:
            inner[fold(cte.alias)] = self.cte(cte.this, dict(inner))
        return inner

    def cte(self, query: exp.Expr, scope: Scope) -> Cte:
        """A CTE defined by ``query``, as yet unread."""
        if not self._may_be_private(query, scope):
            return Cte(False, lambda: self.of_query(query, scope))
        relation = self.of_query(query, scope)
        return Cte(relation is not None and relation.private, lambda: relation)

    # -- one source ---------------------------------------------------------------------------

    def _piece(self, source: exp.Expr, scope: Scope, *, unique: bool) -> Relation | None:
        """The rows of one source, under its alias; None if it is not a relation of rows.

        ``unique``: give its columns names that no other relation of the statement has.
        """
        found: Relation | None = None
        if isinstance(source, exp.Table):
            found = self._of_table(source, scope)
        elif isinstance(source, exp.Subquery):
            found = self._of_subquery(source, scope)
        if found is None:
            return None
        alias = source.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self._refuse(
                "column aliases of a table are not available here", "table_form_not_allowed", source
            )
        if source.alias_or_name:
            found = found.renamed(source.alias_or_name)
        return self._fresh(found) if unique else found

    def _of_table(self, source: exp.Table, scope: Scope) -> Relation | None:
        if not source.db and not source.catalog and fold(source.name) in scope:
            return scope[fold(source.name)].read()
        table = self._table_policy(source)
        if table is None:
            return None
        extra = {name for name, value in source.args.items() if value} - {"this", "alias", "joins"}
        if extra:
            raise self._refuse(
                "a table is named plainly here: no schema, sample or pivot",
                "table_form_not_allowed",
                source,
            )
        return self._leaf(table)

    def _table_policy(self, source: exp.Table) -> TablePolicy | None:
        plain = isinstance(source.this, exp.Identifier) and not source.db and not source.catalog
        return self.policy.table(source.name) if plain else None

    def _leaf(self, policy: TablePolicy) -> Relation:
        table = self.schema[fold(policy.name)]
        name = fold(policy.name)
        fields = tuple(
            Field(name, c.name, c.name, c.type, policy.column(c.name), (name, fold(c.name)))
            for c in table.columns
        )
        unit = None
        if policy.privacy_unit is not None:
            column = table.column(policy.privacy_unit.column)
            assert column is not None, "the policy is checked against the schema first"
            unit = column.name
        pending = None
        if policy.link is not None:
            column = table.column(policy.link.column)
            assert column is not None, "the policy is checked against the schema first"
            if self.policy.refers_to_unit(policy.link):
                unit = column.name
            else:
                parent = (fold(policy.link.parent), fold(policy.link.parent_column))
                pending = Pending(column.name, parent)
        return Relation(
            sql=quote(table.name),
            fields=fields,
            unit_name=self.policy.unit_name(policy),
            unit=unit,
            pending=pending,
            tables=() if policy.public else (table.name,),
            catalog=True,
        )

    def _of_subquery(self, source: exp.Subquery, scope: Scope) -> Relation | None:
        if isinstance(source.this, exp.Table):  # a join in brackets
            inner = source.this
            return self._of_sources(inner, list(inner.args.get("joins") or ()), None, scope)
        return self.of_query(source.this, scope)

    # -- names and types ----------------------------------------------------------------------

    def new_column(self) -> str:
        """A column name that nothing else in the statement has."""
        self._named += 1
        return f"{INTERNAL_PREFIX}c{self._named}"

    def _fresh(self, relation: Relation) -> Relation:
        """The relation with column names of its own."""
        carried = [f.column for f in relation.fields]
        carried += [relation.unit] if relation.unit is not None else []
        carried += [relation.pending.column] if relation.pending is not None else []
        names = {column: self.new_column() for column in dict.fromkeys(carried)}
        columns = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in names.items())
        pending = relation.pending
        return replace(
            relation,
            sql=f"(SELECT {columns} FROM {relation.sql})",
            fields=tuple(replace(f, column=names[f.column]) for f in relation.fields),
            unit=None if relation.unit is None else names[relation.unit],
            pending=None if pending is None else replace(pending, column=names[pending.column]),
            catalog=False,
        )

    def resolve(self, root: exp.Expr, relation: Relation) -> None:
        """Replace the analyst's column names below ``root`` by those of the relation, in place.

        Raises ``UnknownName`` or ``QueryRefused`` with the place.
        """
        for node in [n for n in outside_subqueries(root) if isinstance(n, exp.Column)]:
            self.resolve_column(node, relation)

    def resolve_column(self, node: exp.Column, relation: Relation) -> Field:
        """Replace one column's name. Raises as :meth:`resolve`."""
        if node.args.get("db") or node.args.get("catalog") or isinstance(node.this, exp.Star):
            raise self._refuse(
                "whole rows and qualified stars cannot be released", "raw_rows", node
            )
        matches = relation.matches(node.table, node.name)
        if len(matches) != 1:
            raise self._not_one(node, relation, len(matches))
        point_to(node, matches[0])
        return matches[0]

    def _not_one(self, node: exp.Column, relation: Relation, count: int) -> UnknownName:
        if count:
            return UnknownName(
                f"the column {node.name} stands for more than one column",
                code="ambiguous_column",
                place=place_of(self.text, node),
                hint="Write the table's name or alias before it.",
            )
        names = list(dict.fromkeys(f.name for f in relation.fields))
        close = difflib.get_close_matches(node.name, names, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Columns: {', '.join(names[:20])}."
        written = f"{node.table}.{node.name}" if node.table else node.name
        where = f"table {relation.tables[0]} has" if len(relation.tables) == 1 else "there is"
        return UnknownName(
            f"{where} no column {written}",
            code="unknown_column",
            place=place_of(self.text, node),
            hint=hint,
        )

    # -- joins --------------------------------------------------------------------------------

    def _join(
        self, left: Relation, right: Relation, join: exp.Join, filters: list[exp.Expr]
    ) -> Relation:
        both = replace(left, fields=left.fields + right.fields, tables=left.tables + right.tables)
        on = join.args.get("on")
        conditions: list[exp.Expr] = []
        if on is not None:
            condition = on.copy()
            self.resolve(condition, both)
            check_row_expression(condition, self.text)
            conditions = list(_conjuncts(condition))
        merged, equalities = self._using(left, right, join)
        conditions += equalities
        plain = not join.side and join.kind in ("", "INNER", "CROSS")
        pairs = [*_pairs(conditions), *(self._filter_pairs(filters, both) if plain else ())]
        right = replace(
            right,
            fields=tuple(replace(f, merged=f.merged or f.column in merged) for f in right.fields),
        )
        texts = [to_sql(total_condition(c, both.table)) for c in conditions]
        return joined(left, right, join, texts, pairs, self)

    def _using(
        self, left: Relation, right: Relation, join: exp.Join
    ) -> tuple[set[str], list[exp.Expr]]:
        """The columns of the right side that USING or NATURAL merges, and the equalities."""
        names = [identifier.name for identifier in join.args.get("using") or ()]
        if join.method == "NATURAL":
            names = [f.name for f in left.fields if not f.merged and right.matches("", f.name)]
        merged: set[str] = set()
        equalities: list[exp.Expr] = []
        for name in dict.fromkeys(names):
            sides = [relation.matches("", name) for relation in (left, right)]
            if any(len(side) != 1 for side in sides):
                raise self._refuse(
                    f"USING ({name}) needs that column exactly once on both sides",
                    "unknown_column",
                    join,
                )
            one, other = (column_of(side[0]) for side in sides)
            merged.add(sides[1][0].column)
            equalities.append(exp.EQ(this=one, expression=other))
        return merged, equalities

    def _filter_pairs(self, filters: list[exp.Expr], both: Relation) -> Iterator[Pair]:
        """Equalities of the WHERE clause between columns that are known by now."""
        for condition in filters:
            columns = [condition.args.get("this"), condition.args.get("expression")]
            if not isinstance(condition, exp.EQ):
                continue
            found = [both.matches(c.table, c.name) for c in columns if isinstance(c, exp.Column)]
            if [len(matches) for matches in found] == [1, 1]:
                yield Pair(found[0][0].column, found[1][0].column)

    def parent_of(self, pending: Pending) -> tuple[Relation, str]:
        """The parent a link leads to, with its unit known, and its referenced column."""
        policy = self.policy.table(pending.parent[0])
        assert policy is not None, "links are checked when the policy is read"
        parent = self.settled(self._fresh(self._leaf(policy)))
        column = next(f.column for f in parent.fields if f.origin == pending.parent)
        return parent, column

    def settled(self, relation: Relation) -> Relation:
        """The relation with its unit known: a link that is still pending is followed."""
        if relation.pending is None:
            return relation
        parent, key = self.parent_of(relation.pending)
        on = f"{quote(relation.pending.column)} = {quote(key)}"
        sql = f"{relation.sql} JOIN {parent.sql} ON ({on})"
        return replace(relation, sql=sql, unit=parent.unit, pending=None, catalog=False)

    # -- SELECTs over rows --------------------------------------------------------------------

    def of_query(self, query: exp.Expr, scope: Scope) -> Relation | None:
        """The rows of a subquery or CTE, or None if it releases aggregates or is not about rows.

        Raises ``QueryRefused`` or ``UnknownName`` for private rows that are used illegally.
        """
        if isinstance(query, exp.Subquery):
            return self._of_subquery(query, scope)
        if isinstance(query, exp.SetOperation):
            return self._of_set_operation(query, scope)
        if not isinstance(query, exp.Select) or query.args.get("from_") is None:
            return None
        inner = self.with_ctes(query, scope)
        joins = list(query.args.get("joins") or ())
        where = query.args.get("where")
        source = self._of_rows(query.args["from_"].this, joins, where, inner)
        return None if source is None else self._of_select(query, source)

    def _of_rows(
        self, first: exp.Expr, joins: list[exp.Join], where: exp.Where | None, scope: Scope
    ) -> Relation | None:
        """Like a FROM clause, but public rows are welcome on their own."""
        if any(self._may_be_private(source, scope) for source in _sources(first, joins)):
            return self._of_sources(first, joins, where, scope)
        if joins:
            return None
        return self._piece(first, scope, unique=False)

    def _of_select(self, select: exp.Select, source: Relation) -> Relation | None:
        if select.args.get("group"):
            return self._per_unit(select, source)
        if _has_aggregates(select):
            return None
        refuse = {clause for clause, value in select.args.items() if value} - _ROW_CLAUSES
        if refuse:
            clause = sorted(refuse)[0]
            raise self._refuse(
                f"{clause.rstrip('_').upper()} is not available in a subquery over private rows",
                "clause_not_allowed",
                select.args[clause],
                hint="A subquery over private rows may select, filter and join them.",
            )
        rows = self.projected(select, self.filtered(source, select.args.get("where")))
        return self._distinct(rows) if select.args.get("distinct") else rows

    def _distinct(self, rows: Relation) -> Relation | None:
        """Distinct rows, if the unit is among the columns; else DISTINCT asks which keys exist."""
        rows = self.settled(rows) if rows.private else rows
        columns = [f.column for f in rows.fields]
        if rows.private and rows.unit not in columns:
            return None
        selected = ", ".join(map(quote, dict.fromkeys(columns)))
        return replace(rows, sql=f"(SELECT DISTINCT {selected} FROM {rows.sql})", catalog=False)

    def _per_unit(self, select: exp.Select, source: Relation) -> Relation | None:
        """A pre-aggregation: GROUP BY keys that include the unit. None if they do not."""
        if not source.private:
            return None
        source = self.settled(source)
        keys = [self._group_key(key, select) for key in select.args["group"].expressions]
        for key in keys:
            self.resolve(key, source)
        if not any(isinstance(key, exp.Column) and key.name == source.unit for key in keys):
            return None
        return per_unit(self, select, self.filtered(source, select.args.get("where")), keys)

    def _group_key(self, key: exp.Expr, select: exp.Select) -> exp.Expr:
        """A GROUP BY key with ordinals and aliases replaced."""
        items = [item.unalias() for item in select.expressions]
        if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.this) <= len(items):
            key = items[int(key.this) - 1]
        copy: exp.Expr = key.copy()
        return copy

    def filtered(self, source: Relation, where: exp.Where | None) -> Relation:
        """The rows that satisfy a WHERE clause."""
        if where is None:
            return source
        condition = where.this.copy()
        self.resolve(condition, source)
        check_row_expression(condition, self.text)
        text = to_sql(total_condition(condition, source.table))
        return replace(source, sql=f"(SELECT * FROM {source.sql} WHERE {text})", catalog=False)

    def projected(self, select: exp.Select, source: Relation) -> Relation:
        """The rows with the columns of a select list."""
        fields: list[Field] = []
        computed: list[tuple[int, str]] = []
        for item in select.expressions:
            node = item.unalias().copy()
            if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
                fields += self._starred(node, source)
                continue
            self.resolve(node, source)
            check_row_expression(node, self.text)
            bare = node.unnest()
            if isinstance(bare, exp.Column):
                known = source.field_of(bare.name)
                assert known is not None
                fields.append(replace(known, qualifier="", name=item.alias or known.name))
                continue
            computed.append((len(fields), to_sql(total(node, source.table))))
            fields.append(self._computed(node, item.alias or item.output_name, source))
        if not computed:
            return replace(source, fields=tuple(fields))
        texts = [f"{text} AS {quote(fields[i].column)}" for i, text in computed]
        for (index, _), column in zip(
            computed, self.bind(f"SELECT {', '.join(texts)} FROM {source.sql}"), strict=True
        ):
            fields[index] = replace(fields[index], type=column.type)
        sql = f"(SELECT *, {', '.join(texts)} FROM {source.sql})"
        return replace(source, sql=sql, fields=tuple(fields), catalog=False)

    def _starred(self, node: exp.Expr, source: Relation) -> list[Field]:
        star = node if isinstance(node, exp.Star) else node.this
        if any(star.args.values()):
            raise self._refuse(
                "EXCLUDE, REPLACE and RENAME are not available here", "expression_not_allowed", node
            )
        qualifier = fold(node.table) if isinstance(node, exp.Column) else None
        return [
            replace(f, qualifier="")
            for f in source.fields
            if (not f.merged if qualifier is None else f.qualifier == qualifier)
        ]

    def _computed(self, node: exp.Expr, name: str, source: Relation) -> Field:
        bounds = interval_of(node, source.policy)
        known = None if bounds is None else ColumnPolicy(*bounds)
        return Field("", name, self.new_column(), "", known)

    # -- set operations -----------------------------------------------------------------------

    def _of_set_operation(self, query: exp.SetOperation, scope: Scope) -> Relation | None:
        sides = [self.of_query(side, scope) for side in (query.this, query.expression)]
        if not any(side is not None and side.private for side in sides):
            return None
        left, right = (None if side is None else self.settled(side) for side in sides)
        if left is None or right is None or left.unit_name != right.unit_name:
            raise self._refuse(
                "both sides of a set operation must hold private rows of the same unit",
                "set_operation_mixed",
                query,
                hint="Aggregate each side on its own, then combine the results.",
            )
        if any(query.args.get(name) for name in ("by_name", "order", "limit", "offset")):
            raise self._refuse(
                "this form of set operation is not available over private rows",
                "clause_not_allowed",
                query,
            )
        self._check_alike(left, right, query)
        return self._combined(left, right, query)

    def _check_alike(self, left: Relation, right: Relation, query: exp.SetOperation) -> None:
        pairs = list(zip(left.fields, right.fields, strict=False))
        alike = all(base_type(a.type) == base_type(b.type) for a, b in pairs)
        if len(left.fields) != len(right.fields) or not alike:
            raise self._refuse(
                "both sides of a set operation must have columns of the same types",
                "set_operation_types",
                query,
                hint="Write CAST(… AS …) on one side.",
            )
        keeps_all = isinstance(query, exp.Union) and not query.args.get("distinct")
        if not keeps_all and not any(
            (a.column, b.column) == (left.unit, right.unit) for a, b in pairs
        ):
            raise self._refuse(
                "a set operation that compares rows must select the privacy unit on both sides",
                "set_operation_unit",
                query,
                hint="Select the unit's column in the same place on both sides, or use UNION ALL.",
            )

    def _combined(self, left: Relation, right: Relation, query: exp.SetOperation) -> Relation:
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(query)]
        word += "" if query.args.get("distinct") else " ALL"
        names = [self.new_column() for _ in left.fields]
        unit = self.new_column()

        def side(relation: Relation) -> str:
            columns = [f.column for f in relation.fields]
            assert relation.unit is not None
            pairs = [*zip(columns, names, strict=True), (relation.unit, unit)]
            selected = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in pairs)
            return f"SELECT {selected} FROM {relation.sql}"

        fields = tuple(
            Field("", a.name, name, a.type, _hull(a.policy, b.policy))
            for a, b, name in zip(left.fields, right.fields, names, strict=True)
        )
        return Relation(
            sql=f"({side(left)} {word} {side(right)})",
            fields=fields,
            unit_name=left.unit_name,
            unit=unit,
            tables=tuple(dict.fromkeys(left.tables + right.tables)),
        )

    def _refuse(
        self, reason: str, code: str, node: object, hint: str | None = None
    ) -> QueryRefused:
        return refusal(self.text, reason, code, node, hint)


def point_to(node: exp.Column, field: Field) -> None:
    """Make a column node stand for a field; what it was called is kept for display."""
    node.set("table", None)
    if field.column != field.name:
        node.meta["name"] = field.name
    node.this.set("this", field.column)
    node.this.set("quoted", True)


def column_of(field: Field) -> exp.Column:
    """A column node that stands for a field."""
    return exp.column(exp.to_identifier(field.column, quoted=True))


def _hull(one: ColumnPolicy | None, other: ColumnPolicy | None) -> ColumnPolicy | None:
    """What is known of values that come from either column."""
    if one is None or other is None:
        return None
    domain = one.domain if one.domain == other.domain else None
    if None in (one.lower, one.upper, other.lower, other.upper):
        return None if domain is None else ColumnPolicy(domain=domain)
    lower, upper = min(one.lower, other.lower), max(one.upper, other.upper)  # type: ignore[type-var]
    return ColumnPolicy(lower, upper, domain)


def _sources(first: exp.Expr, joins: list[exp.Join] | tuple[exp.Join, ...]) -> list[exp.Expr]:
    return [first, *(join.this for join in joins)]


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _pairs(conditions: list[exp.Expr]) -> Iterator[Pair]:
    for condition in conditions:
        sides = (condition.args.get("this"), condition.args.get("expression"))
        if isinstance(condition, exp.EQ) and all(isinstance(s, exp.Column) for s in sides):
            yield Pair(condition.this.name, condition.expression.name)


def _has_aggregates(select: exp.Select) -> bool:
    return any(
        isinstance(part, exp.AggFunc) and not isinstance(part.parent, exp.Window)
        for item in select.expressions
        for part in outside_subqueries(item)
    )
