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

from dpsql.core.quoting import quote
from dpsql.core.schema import Column, Schema, Table, canonical, fold, has_one_spelling, same_values
from dpsql.errors import QueryRefused, UnknownName
from dpsql.ir.query import INTERNAL_PREFIX
from dpsql.policy.model import ColumnPolicy, Policy, TablePolicy
from dpsql.sql.blocks.aggregates import output_name
from dpsql.sql.expressions.legality import check_row_expression, outside_subqueries, put, refusal
from dpsql.sql.expressions.ranges import interval_of
from dpsql.sql.expressions.totality import total_condition_sql, total_sql
from dpsql.sql.lineage.joins import Pair, joined, kind_of
from dpsql.sql.lineage.preaggregate import per_unit
from dpsql.sql.lineage.relation import Field, Identity, Pending, Relation
from dpsql.sql.lineage.semijoins import SubqueryTest, semi_joined, subquery_test
from dpsql.sql.syntax.parse import place_of
from dpsql.sql.syntax.text import display


@dataclass(frozen=True, slots=True)
class Cte:
    """A CTE: whether it is made of private rows, and its rows (None if it is not about rows)."""

    private: bool
    read: Callable[[], Relation | None]


Scope = Mapping[str, Cte]
"""The CTEs in scope, by folded name."""
Bind = Callable[[str], tuple[Column, ...]]
"""The columns that a generated statement would return; reads no row."""

MAX_COLUMNS = 50_000
"""Columns of all joins and subqueries: stars of stars can double them at every step."""
MAX_GENERATED = 100_000
"""Characters of a FROM clause: queries that use others twice can double it at every step."""
MAX_BOUND = 100_000
"""Characters of the generated SQL of all blocks and subqueries together."""
_ROW_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "with_", "distinct"})
_SOURCE_PARTS = frozenset({"this", "alias", "joins"})


class Lineage:
    """Builds relations for one statement; ``bind`` finds the types of computed columns."""

    def __init__(
        self, tree: exp.Query, text: str, policy: Policy, schema: Schema, bind: Bind
    ) -> None:
        self.text = text
        self.policy = policy
        self.schema = schema
        self._bind = bind
        self._mentioned = _mentioned(tree)
        links = {fold(t.name): t.link for t in policy.tables.values() if t.link is not None}
        self._referred = {(fold(k.parent), fold(k.parent_column)) for k in links.values()}
        self.link_keys = self._referred | {(name, fold(k.column)) for name, k in links.items()}
        self._named = 0
        self._columns = 0
        self._generated = 0
        self._read: dict[int, tuple[exp.Expr, Relation | None]] = {}

    def bind(self, sql: str) -> tuple[Column, ...]:
        """The columns that generated SQL would return.

        Raises ``QueryRefused`` where a statement asks too much of the engine by then: subqueries of
        subqueries are bound again at every level.
        """
        self.count_generated(sql)
        return self._bind(sql)

    def count_generated(self, sql: str) -> None:
        """Count generated SQL that an engine is to bind. Raises as :meth:`bind`."""
        self._generated += len(sql)
        if self._generated > MAX_BOUND:
            raise self._too_large(None)

    # -- FROM clauses -------------------------------------------------------------------------

    def of_from(self, select: exp.Select, scope: Scope) -> Relation | None:
        """The rows that a block reads, or None if none of them are private.

        Conditions with subqueries leave the SELECT: they become part of the rows. Raises
        ``QueryRefused`` or ``UnknownName`` for private rows that are used illegally.
        """
        from_, where = select.args.get("from_"), select.args.get("where")
        joins = select.args.get("joins") or ()
        sources = [] if from_ is None else [from_.this, *(join.this for join in joins)]
        if not any(self._may_be_private(source, scope) for source in sources):
            return None
        relation = self.of_sources(select, scope)
        if relation is None or where is None:
            return relation
        relation, rest = self._semi_joined(relation, where, scope)
        select.set("where", rest)
        return relation

    def _may_be_private(self, source: exp.Expr, scope: Scope) -> bool:
        """Whether a private table is in a position from which its rows could come through."""
        joins = source.args.get("joins") or ()
        if isinstance(source, exp.Query) and source.args.get("with_"):
            scope = self._suspected(source, scope)
        if isinstance(source, exp.Table):
            if not source.db and fold(source.name) in scope:
                found = scope[fold(source.name)].private
            else:
                table = self._table_policy(source)
                found = table is not None and not table.public
        elif isinstance(source, exp.Subquery):
            found = self._may_be_private(source.this, scope)
        elif isinstance(source, exp.SetOperation):
            sides = (source.this, source.expression)
            found = any(self._may_be_private(side, scope) for side in sides)
        elif isinstance(source, exp.Select):
            from_ = source.args.get("from_")
            found = from_ is not None and self._may_be_private(from_.this, scope)
        else:
            return False
        return found or any(self._may_be_private(join.this, scope) for join in joins)

    def _suspected(self, query: exp.Query, scope: Scope) -> Scope:
        """The scope inside a query, its own CTEs taken for private where they may be."""
        inner = dict(scope)
        for cte in query.ctes:
            suspect = self._may_be_private(cte.this, inner)
            inner[fold(cte.alias)] = Cte(suspect, lambda: None)
        return inner

    def of_sources(self, select: exp.Select, scope: Scope) -> Relation | None:
        """The rows of a SELECT's FROM clause, before its WHERE; None if they are not all rows.

        None too if private tables are read but none of their rows come through: the statement
        reads released groups. Raises as :meth:`of_from`.
        """
        joins = list(select.args.get("joins") or ())
        return self._of_sources(select.args["from_"].this, joins, select.args.get("where"), scope)

    def _of_sources(
        self, first: exp.Expr, joins: list[exp.Join], where: exp.Where | None, scope: Scope
    ) -> Relation | None:
        sources = [first, *(join.this for join in joins)]
        suspects = [i for i, s in enumerate(sources) if self._may_be_private(s, scope)]
        pieces = {i: self._piece(sources[i], scope, unique=bool(joins)) for i in suspects}
        private = any(piece is not None and piece.private for piece in pieces.values())
        if suspects and not private:
            return None
        found: list[Relation] = []
        for i, source in enumerate(sources):
            piece = pieces[i] if i in pieces else self._piece(source, scope, unique=bool(joins))
            if piece is None:
                if private:
                    raise self._not_rows(source, scope)
                return None
            found.append(piece)
        relation = found[0]
        filters = [] if where is None else list(self._column_equalities(where, found))
        for join, piece in zip(joins, found[1:], strict=True):
            relation = self._join(relation, piece, join, filters, scope)
        if any(map(_is_comma, joins)) and any(join.side == "RIGHT" for join in joins):
            raise self._refuse(
                "RIGHT JOIN after a comma is not available over private rows",
                "join_kind",
                next(join for join in joins if join.side == "RIGHT"),
                hint="Write JOIN … ON instead of the comma.",
            )
        return relation

    def _not_rows(self, source: exp.Expr, scope: Scope) -> QueryRefused | UnknownName:
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            known = not source.db and fold(source.name) in scope
            if not known and self._table_policy(source) is None:
                return self.unknown_table(source)
        return self._refuse(
            "private rows can be joined with tables and their rows only",
            "join_not_supported",
            source,
            hint="Aggregate the private table first, then join the result in an outer query.",
        )

    def unknown_table(self, table: exp.Table) -> UnknownName:
        """The error for a table that the policy does not list."""
        names = [policy.name for policy in self.policy.tables.values()]
        close = difflib.get_close_matches(table.name, names, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Tables: {', '.join(sorted(names))}."
        return UnknownName(
            f"there is no table {display(table)[:80]}",
            code="unknown_table",
            place=place_of(self.text, table),
            hint=hint,
        )

    def with_ctes(self, query: exp.Query, scope: Scope) -> Scope:
        """The scope inside a query that has a WITH clause."""
        with_ = query.args.get("with_")
        if with_ is None:
            return scope
        inner = dict(scope)
        for cte in with_.expressions:
            if with_.args.get("recursive"):
                inner[fold(cte.alias)] = Cte(False, lambda: None)
            inner[fold(cte.alias)] = self.cte(cte, dict(inner))
        return inner

    def cte(self, cte: exp.CTE, scope: Scope) -> Cte:
        """A CTE, read now if it may be private and else when somebody joins it."""

        def read() -> Relation | None:
            found = self.of_query(cte.this, scope)
            return None if found is None else self._named_as(cte, found)

        if not self._may_be_private(cte.this, scope):
            return Cte(False, read)
        relation = read()
        return Cte(relation is not None and relation.private, lambda: relation)

    # -- one source ---------------------------------------------------------------------------

    def _piece(self, source: exp.Expr, scope: Scope, *, unique: bool) -> Relation | None:
        """The rows of one source, under its alias; None if it is not a relation of rows.

        ``unique``: give its columns names that no other relation of the statement has.
        """
        joins = source.args.get("joins")
        if joins:  # FROM a JOIN b JOIN c ON … ON …: the second join is part of the first's right
            bare = source.copy()
            bare.set("joins", None)
            return self._of_sources(bare, joins, None, scope)
        found: Relation | None = None
        if isinstance(source, exp.Table):
            found = self._of_table(source, scope)
        elif isinstance(source, exp.Subquery):
            found = self._of_subquery(source, scope)
        if found is None:
            return None
        extra = {name for name, value in source.args.items() if value} - _SOURCE_PARTS
        if extra:
            raise self._refuse(
                "a table is named plainly here: no schema, sample, pivot or limit",
                "table_form_not_allowed",
                source,
            )
        if source.alias_or_name:
            found = self._named_as(source, found)
        return self._fresh(found) if unique else found

    def _named_as(self, source: exp.Expr, found: Relation) -> Relation:
        """The relation under the alias of a source, and under its column aliases."""
        alias = source.args.get("alias")
        names = [] if alias is None else [c.name for c in alias.args.get("columns") or ()]
        if len(names) > sum(not f.merged for f in found.fields):
            raise self._refuse(
                "there are more column aliases than columns", "too_many_aliases", source
            )
        return found.named(source.alias_or_name, names)

    def _of_table(self, source: exp.Table, scope: Scope) -> Relation | None:
        if not source.db and not source.catalog and fold(source.name) in scope:
            return scope[fold(source.name)].read()
        table = self._table_policy(source)
        return None if table is None else self._leaf(table)

    def _table_policy(self, source: exp.Table) -> TablePolicy | None:
        plain = isinstance(source.this, exp.Identifier) and not source.db and not source.catalog
        return self.policy.table(source.name) if plain else None

    def _leaf(self, policy: TablePolicy) -> Relation:
        table = self.schema[fold(policy.name)]
        name = fold(policy.name)
        unit, pending = None, None
        if policy.privacy_unit is not None:
            unit = _spelled(table, policy.privacy_unit.column)
        if policy.link is not None:
            column = _spelled(table, policy.link.column)
            if self.policy.refers_to_unit(policy.link):
                unit = column
            else:
                parent = (fold(policy.link.parent), fold(policy.link.parent_column))
                pending = Pending(column, parent)
        fields = tuple(
            Field(
                qualifier=name,
                name=c.name,
                column=c.name,
                type=c.type,
                policy=policy.column(c.name),
                origin=(name, fold(c.name)),
                identity=Identity.UNIT if c.name == unit else Identity.NONE,
            )
            for c in table.columns
            if not c.collated
        )
        return Relation(
            sql=quote(table.name),
            fields=fields,
            unit_name=self.policy.unit_name(policy),
            unit=unit,
            pending=pending,
            tables=() if policy.public else (table.name,),
            catalog=True,
            joined=0 if policy.public else 1,
        )

    def _of_subquery(self, source: exp.Subquery, scope: Scope) -> Relation | None:
        if isinstance(source.this, exp.Table):  # a join in brackets
            return self._piece(source.this, scope, unique=False)
        return self.of_query(source.this, scope)

    # -- names and types ----------------------------------------------------------------------

    def new_column(self) -> str:
        """A column name that nothing else in the statement has."""
        self._named += 1
        return f"{INTERNAL_PREFIX}c{self._named}"

    def _fresh(self, relation: Relation) -> Relation:
        """The relation with column names of its own; its SQL has those that can be needed."""
        carried = [f.column for f in relation.fields if self._may_need(f)]
        carried += [relation.unit] if relation.unit is not None else []
        carried += [relation.pending.column] if relation.pending is not None else []
        carried = carried or [f.column for f in relation.fields[:1]]  # rows that are only counted
        names = {column: self.new_column() for column in dict.fromkeys(carried)}
        columns = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in names.items())
        names.update(
            {f.column: self.new_column() for f in relation.fields if f.column not in names}
        )
        pending = relation.pending
        return replace(
            relation,
            sql=f"(SELECT {columns} FROM {relation.sql})",
            fields=tuple(replace(f, column=names[f.column]) for f in relation.fields),
            unit=None if relation.unit is None else names[relation.unit],
            pending=None if pending is None else replace(pending, column=names[pending.column]),
            catalog=False,
            equal=tuple(
                frozenset(names[c] for c in columns if c in names) for columns in relation.equal
            ),
        )

    def _may_need(self, field: Field) -> bool:
        """Whether a column is mentioned in the statement, or other tables' links refer to it."""
        if self._mentioned is None or fold(field.name) in self._mentioned:
            return True
        return field.origin in self._referred

    def one_spelling(self, rows: Relation, node: exp.Expr) -> Relation:
        """Rows that were made distinct or grouped, each value in one spelling of its equals.

        Raises ``QueryRefused`` for columns of types that have no such spelling.
        """
        columns = {f.column: f for f in rows.fields}
        odd = next((f for f in columns.values() if not has_one_spelling(f.type)), None)
        if odd is not None:
            raise self._refuse(
                f"values of type {odd.type} cannot be told apart or grouped here",
                "key_type",
                node,
            )
        spelled = {name: canonical(quote(name), f.type) for name, f in columns.items()}
        if all(text == quote(name) for name, text in spelled.items()):
            return rows
        selected = [f"{text} AS {quote(name)}" for name, text in spelled.items()]
        selected += [quote(rows.unit)] if rows.unit is not None and rows.unit not in columns else []
        return replace(rows, sql=f"(SELECT {', '.join(selected)} FROM {rows.sql})", catalog=False)

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
        self,
        left: Relation,
        right: Relation,
        join: exp.Join,
        filters: list[exp.EQ],
        scope: Scope,
    ) -> Relation:
        kind = kind_of(join, self.text)
        both = _side_by_side(left, right)
        on = join.args.get("on")
        conditions, tests = ([], []) if on is None else self._with_tests(on.copy(), scope)
        if tests and kind != "inner":
            raise self._refuse(
                "IN and EXISTS over a table can stand in the condition of an inner join only",
                "subquery_over_private_rows",
                tests[0].query,
                hint="Write the test in WHERE, or filter one side in a subquery: "
                f"{join.side or join.kind} JOIN (SELECT … WHERE x IN (SELECT …)) t ON ….",
            )
        for condition in conditions:
            self.resolve(condition, both)
            check_row_expression(condition, self.text)
        shared = self._using(left, right, join)
        conditions += [exp.EQ(this=column_of(a), expression=column_of(b)) for a, b in shared]
        pairs = [
            *_pairs(conditions),
            *(self._filter_pairs(filters, both) if kind == "inner" else ()),
        ]
        table = both.table
        texts = [total_condition_sql(c, table) for c in conditions]
        made = joined(left, right, join, texts, pairs, self.text)
        self._check_joined(made, join)
        self._count_columns(len(made.fields), join)
        made = self._tested(made, tests, scope)
        self._check_size(made, join)
        return _merged(made, [(a.column, b.column) for a, b in shared], kind)

    def _using(self, left: Relation, right: Relation, join: exp.Join) -> list[tuple[Field, Field]]:
        """The columns of both sides that USING or NATURAL makes one."""
        names = [identifier.name for identifier in join.args.get("using") or ()]
        if join.method == "NATURAL":
            names = [f.name for f in left.fields if not f.merged and right.matches("", f.name)]
            if not names:
                raise self._refuse(
                    "NATURAL JOIN needs a column of the same name on both sides",
                    "join_column",
                    join,
                    hint="Write JOIN … ON with the columns to compare.",
                )
        shared: list[tuple[Field, Field]] = []
        for name in dict.fromkeys(map(fold, names)):
            one, other = (relation.matches("", name) for relation in (left, right))
            if len(one) != 1 or len(other) != 1:
                raise self._refuse(
                    f"USING ({name}) needs that column exactly once on both sides",
                    "join_column",
                    join,
                    hint="Write JOIN … ON with the columns to compare.",
                )
            shared.append((one[0], other[0]))
        return shared

    def _column_equalities(self, where: exp.Where, pieces: list[Relation]) -> Iterator[exp.EQ]:
        """The equalities of a WHERE clause between columns that mean the same at every join."""
        everything = tuple(f for piece in pieces for f in piece.fields)
        whole = Relation("", everything)
        for condition in conjuncts(where.this):
            sides = (condition.args.get("this"), condition.args.get("expression"))
            if isinstance(condition, exp.EQ) and all(
                isinstance(s, exp.Column) and len(whole.matches(s.table, s.name)) == 1
                for s in sides
            ):
                yield condition

    def _filter_pairs(self, filters: list[exp.EQ], both: Relation) -> Iterator[Pair]:
        for condition in filters:
            sides = (condition.this, condition.expression)
            found = [both.matches(side.table, side.name) for side in sides]
            if [len(matches) for matches in found] == [1, 1]:
                yield Pair(found[0][0].column, found[1][0].column)

    def parent_of(self, pending: Pending) -> tuple[Relation, str]:
        """The parent a link leads to, with its unit known, and its referenced column."""
        policy = self.policy.table(pending.parent[0])
        assert policy is not None, "links are checked when the policy is made"
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
        if id(query) not in self._read:  # the node is kept, so that its id stays its own
            self._read[id(query)] = query, self._of_query(query, scope)
        return self._read[id(query)][1]

    def _of_query(self, query: exp.Expr, scope: Scope) -> Relation | None:
        if isinstance(query, exp.Subquery):
            return self._piece(query, scope, unique=False)
        if not isinstance(query, exp.SetOperation | exp.Select):
            return None
        scope = self.with_ctes(query, scope)
        if isinstance(query, exp.SetOperation):
            return self._of_set_operation(query, scope)
        if query.args.get("from_") is None:
            return None
        source = self.of_sources(query, scope)
        return None if source is None else self._of_select(query, source, scope)

    def _of_select(self, select: exp.Select, source: Relation, scope: Scope) -> Relation | None:
        if select.args.get("group"):
            return self._per_unit(select, source, scope)
        if _has_aggregates(select):
            return None
        distinct = select.args.get("distinct")
        rows = self.projected(select, self._filtered(source, select.args.get("where"), scope))
        if distinct is not None and rows.private:
            rows = self.settled(rows)
            if not any(f.identity is Identity.UNIT for f in rows.fields):
                return None  # it asks which keys exist
        unusual = {clause for clause, value in select.args.items() if value} - _ROW_CLAUSES
        if unusual or (distinct is not None and distinct.args.get("on")):
            clause = min(unusual, default="distinct")
            raise self._refuse(
                f"{clause.rstrip('_').upper()} is not available in this form in a subquery over "
                "private rows",
                "clause_not_allowed",
                select.args[clause],
                hint="A subquery over private rows may select, filter and join them.",
            )
        return rows if distinct is None else self._distinct(rows, distinct)

    def _distinct(self, rows: Relation, node: exp.Expr) -> Relation:
        """Distinct rows; of private rows, one column is the unit."""
        columns = dict.fromkeys(f.column for f in rows.fields)
        units = (f.column for f in rows.fields if f.identity is Identity.UNIT)
        sql = f"(SELECT DISTINCT {', '.join(map(quote, columns))} FROM {rows.sql})"
        return self.one_spelling(
            replace(rows, sql=sql, unit=next(units, None), catalog=False), node
        )

    def _per_unit(self, select: exp.Select, source: Relation, scope: Scope) -> Relation | None:
        """A pre-aggregation: GROUP BY keys that include the unit. None if they do not."""
        if not source.private:
            return None
        source = self.settled(source)
        keys = [self._group_key(key, select, source) for key in _group_keys(select)]
        if not any(isinstance(key, exp.Column) and source.is_unit(key.name) for key in keys):
            return None
        return per_unit(self, select, self._filtered(source, select.args.get("where"), scope), keys)

    def _group_key(self, key: exp.Expr, select: exp.Select, source: Relation) -> exp.Expr:
        """A GROUP BY key with ordinals and aliases replaced."""
        items = [item.unalias() for item in select.expressions]
        if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.this) <= len(items):
            key = items[int(key.this) - 1]
        return self.over_aliases(key.unnest(), select, source).unnest()

    def over_aliases(self, node: exp.Expr, select: exp.Select, source: Relation) -> exp.Expr:
        """A copy of an expression over rows, resolved; names that are no columns are aliases."""
        aliases = {
            fold(item.alias): item.this
            for item in select.expressions
            if isinstance(item, exp.Alias)
        }
        holder = exp.Paren(this=node.copy())
        for column in [n for n in outside_subqueries(holder) if isinstance(n, exp.Column)]:
            known = column.table or source.matches("", column.name)
            if not known and fold(column.name) in aliases:
                put(column, exp.paren(aliases[fold(column.name)].copy()))
        self.resolve(holder, source)
        resolved: exp.Expr = holder.this
        return resolved

    def _filtered(self, source: Relation, where: exp.Where | None, scope: Scope) -> Relation:
        """The rows that satisfy a WHERE clause."""
        if where is None:
            return source
        source, rest = self._semi_joined(source, where, scope)
        return source if rest is None else self.filtered(source, rest)

    def filtered(self, source: Relation, where: exp.Where) -> Relation:
        """The rows that satisfy a WHERE clause without subqueries."""
        condition = where.this.copy()
        self.resolve(condition, source)
        check_row_expression(condition, self.text)
        text = total_condition_sql(condition, source.table)
        return replace(source, sql=f"(SELECT * FROM {source.sql} WHERE {text})", catalog=False)

    def _semi_joined(
        self, source: Relation, where: exp.Where, scope: Scope
    ) -> tuple[Relation, exp.Where | None]:
        """The rows that pass the subqueries of a WHERE clause, and what remains of it."""
        rest, tests = self._with_tests(where.this, scope)
        if not tests:
            return source, where
        source = self._tested(source, tests, scope)
        return source, exp.Where(this=exp.and_(*rest)) if rest else None

    def _with_tests(
        self, condition: exp.Expr, scope: Scope
    ) -> tuple[list[exp.Expr], list[SubqueryTest]]:
        """The parts that AND puts together: plain ones, and those that ask for public rows."""
        plain: list[exp.Expr] = []
        tests: list[SubqueryTest] = []
        for part in conjuncts(condition):
            test = subquery_test(part)
            if test is None:
                plain.append(part)
                continue
            if self._may_be_private(test.query, scope):
                raise self._refuse(
                    "a subquery over a private table cannot stand in a condition",
                    "subquery_over_private_rows",
                    test.query,
                    hint="Join the private tables on their privacy unit instead.",
                )
            tests.append(test)
        return plain, tests

    def _tested(self, source: Relation, tests: list[SubqueryTest], scope: Scope) -> Relation:
        for test in tests:
            source = semi_joined(self, source, test, self.with_ctes(test.query, scope))
        return source

    def public_rows(self, select: exp.Select, scope: Scope) -> Relation:
        """The rows that a subquery over public tables reads, under names of their own.

        Raises as :meth:`of_from`.
        """
        found = self.of_sources(select, scope)
        if found is None:
            joins = select.args.get("joins") or ()
            sources = [select.args["from_"].this, *(join.this for join in joins)]
            odd = (s for s in sources if self._piece(s, scope, unique=True) is None)
            raise self._not_rows(next(odd), scope)
        return self._fresh(found)

    def projected(self, select: exp.Select, source: Relation) -> Relation:
        """The rows with the columns of a select list."""
        fields: list[Field] = []
        computed: list[tuple[int, str]] = []
        for item in select.expressions:
            node = item.unalias().copy()
            if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
                fields += self._starred(node, source)
                self._count_columns(len(source.fields), item)
                continue
            name = item.alias or output_name(node)
            self.resolve(node, source)
            check_row_expression(node, self.text)
            bare = node.unnest()
            if isinstance(bare, exp.Column):
                known = source.field_of(bare.name)
                assert known is not None
                name = item.alias or known.name
                fields.append(replace(known, qualifier="", name=name, merged=False))
                continue
            computed.append((len(fields), total_sql(node, source.table)))
            fields.append(self._computed(node, name, source))
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
        named = isinstance(node, exp.Column) and node.table
        qualifier = fold(named) if named else None
        found = [
            replace(f, qualifier="", merged=False)
            for f in source.fields
            if (not f.merged if qualifier is None else f.qualifier == qualifier)
        ]
        if not found:
            raise self._refuse(
                f"no table of this FROM is called {named}",
                "unknown_qualifier",
                node,
                hint="Before .* stands the alias of a table, or its name if it has none.",
            )
        return found

    def _computed(self, node: exp.Expr, name: str, source: Relation) -> Field:
        bounds = interval_of(node, source.policy)
        known = None if bounds is None else ColumnPolicy(*bounds)
        return Field("", name, self.new_column(), "", known, identity=source.identity_of(node))

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
        allowed = {"this", "expression", "distinct", "with_"}
        if {name for name, value in query.args.items() if value} - allowed:
            raise self._refuse(
                "this form of set operation is not available over private rows",
                "clause_not_allowed",
                query,
            )
        self._check_alike(left, right, query)
        return self._combined(left, right, query)

    def _check_alike(self, left: Relation, right: Relation, query: exp.SetOperation) -> None:
        pairs = list(zip(_shown(left), _shown(right), strict=False))
        alike = all(same_values(a.type, b.type) for a, b in pairs)
        if len(_shown(left)) != len(_shown(right)) or not alike:
            raise self._refuse(
                "both sides of a set operation must have columns of the same types",
                "set_operation_types",
                query,
                hint="Write CAST(… AS …) on one side.",
            )
        keeps_all = isinstance(query, exp.Union) and not query.args.get("distinct")
        if not keeps_all and not any(a.identity is b.identity is Identity.UNIT for a, b in pairs):
            raise self._refuse(
                "a set operation that compares rows must select the privacy unit on both sides",
                "set_operation_unit",
                query,
                hint="Select the unit's column in the same place on both sides, or use UNION ALL.",
            )

    def _combined(self, left: Relation, right: Relation, query: exp.SetOperation) -> Relation:
        word = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}[type(query)]
        word += "" if query.args.get("distinct") else " ALL"
        names = [self.new_column() for _ in _shown(left)]
        unit = self.new_column()

        def side(relation: Relation) -> str:
            columns = [f.column for f in _shown(relation)]
            assert relation.unit is not None
            pairs = [*zip(columns, names, strict=True), (relation.unit, unit)]
            selected = ", ".join(f"{quote(old)} AS {quote(new)}" for old, new in pairs)
            return f"SELECT {selected} FROM {relation.sql}"

        sql = f"({side(left)} {word} {side(right)})"
        types = self._combined_types(left, right, sql, query)
        fields = tuple(
            Field(
                qualifier="",
                name=a.name,
                column=name,
                type=type_,
                policy=_hull(a.policy, b.policy),
                identity=_combined_identity(a.identity, b.identity),
            )
            for a, b, name, type_ in zip(_shown(left), _shown(right), names, types, strict=True)
        )
        tables = tuple(dict.fromkeys(left.tables + right.tables))
        # Unlike those of a join, the rows of the sides add up.
        most = max(left.joined, right.joined)
        rows = Relation(sql, fields, left.unit_name, unit, None, tables, joined=most)
        self._check_size(rows, query)
        return rows if word == "UNION ALL" else self.one_spelling(rows, query)

    def _combined_types(
        self, left: Relation, right: Relation, sql: str, query: exp.SetOperation
    ) -> list[str]:
        """The types of the columns; that the units are of comparable types is checked too."""
        units = [self._unit_type(side) for side in (left, right)]
        if not same_values(*units):
            raise self._refuse(
                "the privacy units of both sides are of different types",
                "set_operation_types",
                query,
            )
        types = [f.type for f in _shown(left)]
        if types == [f.type for f in _shown(right)]:
            return types
        return [column.type for column in self.bind(f"SELECT * FROM {sql}")[:-1]]

    def _unit_type(self, relation: Relation) -> str:
        assert relation.unit is not None
        shown = [f.type for f in relation.fields if f.identity is Identity.UNIT]
        if shown:
            return shown[0]
        return self.bind(f"SELECT {quote(relation.unit)} FROM {relation.sql}")[0].type

    def _check_size(self, rows: Relation, node: exp.Expr) -> None:
        if len(rows.sql) > MAX_GENERATED:
            raise self._too_large(node)

    def _count_columns(self, columns: int, node: exp.Expr) -> None:
        self._columns += columns
        if self._columns > MAX_COLUMNS:
            raise self._too_large(node)

    def _too_large(self, node: exp.Expr | None) -> QueryRefused:
        return self._refuse(
            "the statement stands for too large a query",
            "query_too_large",
            node,
            hint="Stars, subqueries and CTEs are written out as often as they are used.",
        )

    def _check_joined(self, rows: Relation, node: exp.Expr) -> None:
        most = self.policy.limits.private_relations
        if rows.joined > most:
            raise self._refuse(
                f"more than {most} private tables are joined",
                "too_many_relations",
                node,
                hint="Each counts as often as it is read, also through a CTE. Aggregate per unit "
                "or per group first, or ask the data owner to raise limits.private_relations in "
                "the policies file.",
            )

    def _refuse(
        self, reason: str, code: str, node: object, hint: str | None = None
    ) -> QueryRefused:
        return refusal(self.text, reason, code, node, hint)


def _mentioned(tree: exp.Query) -> frozenset[str] | None:
    """The names that a statement mentions, folded; None if it means columns without their names."""
    natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
    starred = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    if natural or starred:
        return None
    return frozenset(fold(identifier.name) for identifier in tree.find_all(exp.Identifier))


def point_to(node: exp.Column, field: Field) -> None:
    """Make a column node stand for a field; what it was called is kept for display."""
    if node.table:
        node.meta["table"] = node.table
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


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND puts together."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
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


def _combined_identity(one: Identity, other: Identity) -> Identity:
    lower, higher = min(one, other), max(one, other)
    if lower >= Identity.NULLABLE or higher is Identity.NONE:
        return lower
    return Identity.DERIVED


def _shown(relation: Relation) -> list[Field]:
    return [f for f in relation.fields if not f.merged]


def _spelled(table: Table, name: str) -> str:
    """A column's name as the catalog spells it."""
    column = table.column(name)
    assert column is not None, "the policy is checked against the schema first"
    return column.name


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(name) for name in ("on", "using", "method", "side", "kind"))


def _side_by_side(left: Relation, right: Relation) -> Relation:
    """What the condition of a join may name."""
    return replace(left, fields=left.fields + right.fields, tables=left.tables + right.tables)


def _merged(rows: Relation, shared: list[tuple[str, str]], kind: str) -> Relation:
    """The rows of a join with USING, where an unqualified name means the side that is kept.

    Among the columns of a star it has the place of the left one.
    """
    if kind != "right":
        hidden = {right for _, right in shared}
        return replace(
            rows, fields=tuple(_hide(f) if f.column in hidden else f for f in rows.fields)
        )
    kept = {left: rows.field_of(right) for left, right in shared}
    hidden = {column for pair in shared for column in pair}
    fields: list[Field] = []
    for f in rows.fields:
        stands_for = None if f.merged else kept.get(f.column)
        if stands_for is not None:
            fields.append(replace(stands_for, qualifier="", name=f.name))
        fields.append(_hide(f) if f.column in hidden else f)
    return replace(rows, fields=tuple(fields))


def _hide(field: Field) -> Field:
    return replace(field, merged=True)


def _group_keys(select: exp.Select) -> list[exp.Expr]:
    group = select.args["group"]
    if group.args.get("all"):
        items = [item.unalias() for item in select.expressions]
        return [item for item in items if item.find(exp.AggFunc) is None]
    return list(group.expressions)
