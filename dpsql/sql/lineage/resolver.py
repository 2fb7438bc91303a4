"""Follows the privacy unit through FROM clauses, subqueries, CTEs and set operations.

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

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from sqlglot import exp

from dpsql.core.schema import Schema, fold
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused, UnknownName
from dpsql.ir.relations import Combined, Join, PublicSource, bottom_up, scanned
from dpsql.policy.model import Policy
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.first_answers import after_answering, to_answer_first
from dpsql.sql.expressions.legality import check_row_expression, outside_subqueries
from dpsql.sql.lineage.correlated import group_keys
from dpsql.sql.lineage.elements import lists_elements, place_elements
from dpsql.sql.lineage.full_joins import fully_joined
from dpsql.sql.lineage.join_columns import (
    column_equalities,
    conjuncts,
    filter_pairs,
    made_one,
    pairs_of,
    shared_columns,
    side_by_side,
)
from dpsql.sql.lineage.joins import (
    is_one_unit,
    joined,
    kind_of,
    refuse_many,
    refuse_right_after_comma,
    units_equal,
)
from dpsql.sql.lineage.lookups import FindsOne, LookedUp, Stand, names_others, value_of
from dpsql.sql.lineage.names import Names, columns_below, generated_column, resolved_column
from dpsql.sql.lineage.operators import Bind, Operators
from dpsql.sql.lineage.pivots import PivotedRows, place_pivot
from dpsql.sql.lineage.preaggregate import keys_with_unit, linking_field, per_unit, with_value_of
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.sql.lineage.samples import sampled, share_of_sample, split_shares
from dpsql.sql.lineage.semijoins import (
    SubqueryTest,
    TestedRows,
    asks_if_true,
    is_plain,
    marked,
    quantified_as_tests,
    refuse_form,
    row_parts,
    semi_joined,
    split_tests,
    tests_within,
)
from dpsql.sql.lineage.set_operations import combined
from dpsql.sql.lineage.summaries import is_summarized, place_summary
from dpsql.sql.lineage.table_names import is_qualified
from dpsql.sql.lineage.tables import Cte, Scope, Tables
from dpsql.sql.lineage.unit_lists import move_into, write_lists
from dpsql.sql.lineage.unit_quantiles import asks_for_places, with_quantiles
from dpsql.sql.lineage.unit_values import (
    check_order,
    correlation,
    first_rows,
    is_call,
    is_first,
    values_within,
    with_value,
)
from dpsql.sql.lineage.windows import looks_at_rows, placed, rows_apart, windows_written_out
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put

_Node = TypeVar("_Node", bound=exp.Expr)
_WITH = NodeArguments("expressions recursive")
_CTE = NodeArguments("this alias materialized?")
_OUTER_JOINS = frozenset({"left", "right", "full"})
_ROW_CLAUSES = frozenset({"expressions", "from_", "joins", "where", "with_", "distinct", "sample"})
_SOURCE_PARTS = frozenset({"this", "alias", "db", "joins", "sample"})

_ELEMENTS: Final = (
    "The elements of one column of lists, or of string_split(s, ','), are rows of their own if "
    "they have a name that no other column has, and * is not asked for: SELECT e.tag, COUNT(*) "
    "FROM t, UNNEST(t.tags) AS e(tag) GROUP BY e.tag. Windows and positions are none of them: a "
    "window goes into a query around it."
)


class Lineage:
    """Builds relations for one statement.

    ``bind`` finds the types of computed columns, of SQL in a ``dialect``. ``beside`` are public
    tables that are not of the policy. ``finds_one`` looks for keys of public rows.
    """

    def __init__(
        self,
        tree: exp.Query,
        text: str,
        policy: Policy,
        schema: Schema,
        bind: Bind,
        dialect: Dialect,
        beside: Sequence[PublicSource] = (),
        finds_one: FindsOne = lambda *_: False,
    ) -> None:
        self.names = Names(tree, text)
        self.tables = Tables(policy, schema, text, beside)
        self.operators = Operators(self.names, self.tables, bind, dialect)
        self._dialect = dialect
        self._finds_one = finds_one
        self._by_unit: dict[int, tuple[exp.Expr, bool]] = {}
        self._read: dict[int, tuple[exp.Expr, Relation | None]] = {}

    # -- FROM clauses -------------------------------------------------------------------------

    def of_from(self, select: exp.Select, scope: Scope) -> Relation | None:
        """Resolve the rows of a FROM clause, or return None if all are public.

        Raises ``QueryRefused`` or ``UnknownName`` for private rows that are used illegally.
        """
        if not any(self.tables.may_be_private(source, scope) for source in _sources(select)):
            return None
        self._move_lists(select, scope)
        return self._of_sources(select, scope)

    def _move_lists(self, select: exp.Select, scope: Scope) -> None:
        """Move questions about lists of a unit's values into the subqueries that make them."""

        def is_by_unit(inner: exp.Select) -> bool:
            if id(inner) not in self._by_unit:  # the node is kept, so that its id stays its own
                self._by_unit[id(inner)] = inner, self._is_by_unit(inner, scope)
            return self._by_unit[id(inner)][1]

        move_into(select, is_by_unit, self.names.new_alias)

    def _is_by_unit(self, inner: exp.Select, scope: Scope) -> bool:
        """Tell whether a SELECT groups private rows by their unit."""
        try:
            rows = self._of_sources(inner, self._with_ctes(inner, scope))
            if rows is None or not rows.private:
                return False
            rows = self.operators.settled(rows)
            return keys_with_unit(self.names, inner, rows, self.tables.link_keys) is not None
        except (QueryRefused, UnknownName):
            return False  # refused where it is read

    def write_pivots(self, select: exp.Select, scope: Scope) -> None:
        """Write out SUMMARIZE, and PIVOT and lists of private rows; ``select`` is changed.

        Raises as :meth:`of_from`.
        """
        if lists_elements(select):
            place_elements(select, partial(self._private_below, select, scope))
        for source in _sources(select):
            summarized = is_summarized(source)
            pivoted = source.args.get("pivots") and self.tables.may_be_private(source, scope)
            if not summarized and not pivoted:
                continue
            bare = source.copy()
            bare.set("pivots", source.args["pivots"][:-1] if summarized else None)
            rows = self._piece(bare, scope, unique=False)
            if summarized:
                if rows is None and isinstance(bare, exp.Table):
                    self._refuse_unknown(bare, scope)
                place_summary(select, bare, rows, self.names, self.tables)
            elif rows is not None and rows.private:
                public = partial(self._reads_public, scope=scope)
                below = PivotedRows(rows, public, self.names, self._dialect)
                place_pivot(select, source, bare, below)

    def _private_below(self, select: exp.Select, scope: Scope) -> Relation | None:
        """Resolve the rows beside the lists of a SELECT; None if they are not private.

        Conditions on public rows that are joined behind a list may name its elements.
        """
        below = select.copy()
        behind = bool(below.args.get("laterals"))
        for join in list(below.args.get("joins") or ()):
            if isinstance(join.this, exp.Unnest | exp.Lateral):
                behind = True
                join.pop()
                continue
            public = behind and not self.tables.may_be_private(join.this, scope)
            if public and join.args.get("on") is not None:
                join.set("on", exp.true())
        rows = self._of_sources(below, scope)
        return rows if rows is not None and rows.private else None

    def _reads_public(self, query: exp.Expr, scope: Scope) -> bool:
        """Tell whether a query reads public tables alone, by their names."""
        named = [
            None if fold(table.name) in scope else self.tables.named(table)
            for table in query.find_all(exp.Table)
        ]
        return all(table is not None and table.public is not None for table in named)

    def tested(self, select: exp.Select, relation: Relation, scope: Scope) -> Relation:
        """Apply the subqueries in conditions on the rows of a SELECT's FROM clause.

        They leave the SELECT, so that this is done once. Raises as :meth:`of_from`.
        """
        made = Stand()
        relation = self._sampled_by(select, relation)
        select.set("sample", None)
        where = select.args.get("where")
        if where is not None:
            relation, rest = self._semi_joined(relation, where, scope, made)
            select.set("where", rest)
        _name_subqueries(select)
        for part in row_parts(select, relation):
            relation, value = self._marked(relation, part, scope, made)
            if value is not part:
                put(part, value)
        self._check_lookups(select, relation, scope)
        return relation

    def _check_lookups(self, select: exp.Select, relation: Relation, scope: Scope) -> None:
        """Refuse lookups by keys, for released groups, with several public rows for one."""
        clauses = [select.args.get(name) for name in ("having", "qualify", "order")]
        for root in [*select.expressions, *(clause for clause in clauses if clause is not None)]:
            for node, query in values_within(root) if relation.given is None else ():
                with suppress(UnknownName):  # an alias
                    self._looked_up(relation, node, query, scope, Stand())

    def columns_around(
        self, query: exp.Expr, around: Relation, scope: Scope
    ) -> Sequence[exp.Column]:
        """List the columns in a subquery over public rows or groups that are of rows around it."""
        select = query.unnest()
        if not isinstance(select, exp.Select) or not select.args.get("from_"):
            return ()
        try:
            scope = self._with_ctes(select, scope)
            rows = self.of_from(select, scope) or self._of_sources(select, scope)
        except (QueryRefused, UnknownName):
            return ()  # refused as a part of its own
        own, outside = (None if rows is None else _columns_of(rows)), _columns_of(around)
        if rows is None or own is None or (rows.private and not group_keys(select, own, outside)):
            return ()  # refused as a part of its own
        return [
            column
            for part in select.iter_expressions()
            for column in columns_below(part)
            if not own(column) and len(around.matches(column.table, column.name)) == 1
        ]

    def _of_sources(self, select: exp.Select, scope: Scope) -> Relation | None:
        """Resolve the rows of a SELECT's FROM, before its WHERE; None if they are not all rows.

        None too without a FROM, and if private tables are read but none of their rows come through:
        the statement reads released groups. Raises as :meth:`of_from`.
        """
        if select.args.get("from_") is None:
            return None
        joins = select.args.get("joins") or ()
        return self._all_joined(select.args["from_"].this, joins, select.args.get("where"), scope)

    def _all_joined(
        self, first: exp.Expr, joins: Sequence[exp.Join], where: exp.Where | None, scope: Scope
    ) -> Relation | None:
        sources = [first, *(join.this for join in joins)]
        found = self._pieces(sources, scope)
        if found is None:
            return None
        relation = found[0]
        filters = [] if where is None else list(column_equalities(where, found))
        for join, piece in zip(joins, found[1:], strict=True):
            relation = self._join(relation, piece, join, filters, scope)
        refuse_right_after_comma(joins, self.names.text)
        return relation

    def _pieces(self, sources: list[exp.Expr], scope: Scope) -> list[Relation] | None:
        """Resolve the rows of each source; those that may be private are read first."""
        unique = len(sources) > 1
        suspects = [i for i, s in enumerate(sources) if self.tables.may_be_private(s, scope)]
        pieces = {i: self._piece(sources[i], scope, unique=unique) for i in suspects}
        private = any(piece is not None and piece.private for piece in pieces.values())
        if suspects and not private:
            return None
        found: list[Relation] = []
        for i, source in enumerate(sources):
            piece = pieces[i] if i in pieces else self._public(source, scope, unique=unique)
            if piece is None:
                if private:
                    raise self._not_rows(source, scope)
                return None
            found.append(piece)
        return found

    def _public(self, source: exp.Expr, scope: Scope, *, unique: bool) -> Relation | None:
        """Resolve the rows of a public source; a subquery that is more than rows is computed first.

        Raises as :meth:`of_from`, for such a subquery with its mark.
        """
        try:
            return self._piece(source, scope, unique=unique)
        except QueryRefused as refused:
            query = self._query_of(source, scope)
            if query is None or to_answer_first(refused) is not None:
                raise
            raise after_answering(query, refused) from None

    def _query_of(self, source: exp.Expr, scope: Scope) -> exp.Query | None:
        """Return the query behind a source, if it is a subquery or a CTE."""
        if isinstance(source, exp.Subquery):
            inner = source.unnest()
            return inner if isinstance(inner, exp.Query) else None
        if isinstance(source, exp.Table) and not is_qualified(source):
            named = scope.get(fold(source.name))
            return None if named is None else named.query
        return None

    def _not_rows(self, source: exp.Expr, scope: Scope) -> QueryRefused | UnknownName:
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            self._refuse_unknown(source, scope)
        refused = self.names.refuse(
            "private rows can be joined with tables and their rows only",
            "join_not_supported",
            source,
            hint="Aggregate the private table first, then join the result in an outer query.",
        )
        query = self._query_of(source, scope)
        return refused if query is None else after_answering(query, refused)

    def _refuse_unknown(self, source: exp.Table, scope: Scope) -> None:
        """Refuse a name that neither a CTE nor a table has. Raises ``UnknownName``."""
        known = not is_qualified(source) and fold(source.name) in scope
        if not known and self.tables.named(source) is None:
            raise self.tables.unknown(source)

    def _join(
        self,
        left: Relation,
        right: Relation,
        join: exp.Join,
        filters: list[exp.EQ],
        scope: Scope,
    ) -> Relation:
        text = self.names.text
        kind = kind_of(join, text)
        plain, later = _split_condition(join.args.get("on"))
        if later and kind in _OUTER_JOINS:
            for part in later:
                left, right, told = self._marked_beside(left, right, part, scope)
                plain.append(told)
            later = []
        both = side_by_side(left, right)
        conditions = self._join_conditions(plain, later, kind, both)
        shared = shared_columns(left, right, join, text)
        conditions += [
            exp.EQ(this=generated_column(a.column), expression=generated_column(b.column))
            for a, b in shared
        ]
        pairs = [
            *pairs_of(conditions),
            *(filter_pairs(filters, both) if kind == "inner" else ()),
        ]
        if left.private and right.private and not is_one_unit(left, right, pairs):
            # That they meet on the unit may be known only once the links of both are followed.
            settled = self.operators.settled(left), self.operators.settled(right)
            if is_one_unit(*settled, pairs) or units_equal(*settled, pairs) is not None:
                left, right = settled
        if kind == "full":
            sides = left, right
            made = fully_joined(self.names, self.operators, *sides, join, conditions, pairs, shared)
        else:
            made = made_one(joined(left, right, join, conditions, pairs, text), shared, kind)
        refuse_many(made, self.tables.most_joined, join, text)
        self.operators.count_columns(len(made.fields), join)
        if later:
            made = self._filtered(made, exp.Where(this=exp.and_(*later)), scope, Stand())
        self.operators.check_size(made, join)
        return made

    def _join_conditions(
        self, parts: list[exp.Expr], later: list[exp.Expr], kind: str, both: Relation
    ) -> list[exp.Expr]:
        """Resolve the conditions of ON but those on the joined rows, which hold ``later``."""
        if later and kind != "inner":
            raise self.names.refuse(
                "a subquery can stand in the condition of an inner or outer join only",
                "subquery_over_private_rows",
                later[0],
                hint="Write the test in WHERE, or filter one side in a subquery: "
                f"{kind.upper()} JOIN (SELECT … WHERE x IN (SELECT …)) t ON ….",
            )
        conditions = [self.names.resolve(part, both) for part in parts]
        conditions = [_plainly_equal(condition, both) for condition in conditions]
        for condition in conditions:
            check_row_expression(condition, self.names.text)
            refuse_unlike(condition, both.type_of, self.names.text)
        return conditions

    def _marked_beside(
        self, left: Relation, right: Relation, part: exp.Expr, scope: Scope
    ) -> tuple[Relation, Relation, exp.Expr]:
        """Add what the subqueries in a condition of an outer join say to the rows of one side.

        It is then a condition as any other: a row and what is added depend on rows of its own
        unit. Returns both sides, and the condition over their columns. Raises as :meth:`of_from`.
        """
        both = side_by_side(left, right)
        named = [c for c in columns_below(part) if len(both.matches(c.table, c.name)) != 1]
        if named:  # of none, or of both
            self.names.resolve_column(named[0], both)
        sides = [
            (side, other)
            for side, other in ((right, left), (left, right))
            if not self._asks(part, other, scope)
        ]
        unknown: UnknownName | None = None
        for side, other in sides:
            try:
                marked, told = self._marked(side, exp.Paren(this=part), scope, Stand())
            except UnknownName as wrong:  # of private rows it is known where they are looked for
                unknown = unknown or wrong
            else:
                return (*((other, marked) if side is right else (marked, other)), told.this)
        if unknown is not None:
            raise unknown
        raise self.names.refuse(
            "a subquery in the condition of an outer join is about the rows of one side",
            "subquery_over_private_rows",
            part,
            hint="Join the tables in a subquery first, or split the condition with AND.",
        )

    def _asks(self, part: exp.Expr, rows: Relation, scope: Scope) -> bool:
        """Tell whether tests and subqueries of a condition name columns of some rows around."""
        queries = [query for query in part.find_all(exp.Query) if query.parent is not None]
        subjects = [query.parent.this for query in queries if isinstance(query.parent, exp.In)]
        return any(
            rows.matches(column.table, column.name)
            for subject in subjects
            for column in columns_below(subject)
        ) or any(self.columns_around(query, rows, scope) for query in queries)

    # -- one source ---------------------------------------------------------------------------

    def _piece(self, source: exp.Expr, scope: Scope, *, unique: bool) -> Relation | None:
        """Resolve the rows of one source, under its alias; None for other sources.

        ``unique``: give its columns names that no other relation of the statement has.
        """
        joins = source.args.get("joins")
        if joins:  # FROM a JOIN b JOIN c ON … ON …: the second join is part of the first's right
            bare = source.copy()
            bare.set("joins", None)
            nested = self._all_joined(bare, joins, None, scope)
            if nested is not None and nested.given is not None:
                raise self._kept_below(source)
            return nested
        found: Relation | None = None
        if isinstance(source, exp.Table):
            found = self._of_table(source, scope)
        elif isinstance(source, exp.Subquery):
            found = self._of_subquery(source, scope)
        elif isinstance(source, exp.Values | exp.Unnest):
            found = self._of_list(source)
        if found is None:
            return None
        extra = {name for name, value in source.args.items() if value} - _SOURCE_PARTS
        if isinstance(source, exp.Values | exp.Unnest):
            extra -= {"expressions"}
        if extra:
            raise self.names.refuse(
                "a table is named plainly here: no version, pivot or limit",
                "table_form_not_allowed",
                source,
            )
        found = self._sampled_by(source, found)
        if source.alias_or_name:
            found = self._named_as(source, found)
        return self.operators.fresh(found) if unique else found

    def _kept_below(self, node: exp.Expr) -> QueryRefused:
        """Build the error for an outer join that keeps public rows, with more to do above it."""
        return self.names.refuse(
            "an outer join may keep public rows where they are grouped, and nothing stands between",
            "join_keeps_public",
            node,
            hint="Let the join stand in the FROM of the SELECT that groups and counts; filter and "
            "compute below it: FROM (SELECT … FROM sites WHERE …) s LEFT JOIN visits v ON ….",
        )

    def _named_as(self, source: exp.Expr, found: Relation) -> Relation:
        """Put the relation under the alias of a source, and under its column aliases."""
        alias = source.args.get("alias")
        names = [] if alias is None else [c.name for c in alias.args.get("columns") or ()]
        if len(names) > sum(not f.merged for f in found.fields):
            raise self.names.refuse(
                "there are more column aliases than columns", "too_many_aliases", source
            )
        return found.named(source.alias_or_name, names)

    def _of_table(self, source: exp.Table, scope: Scope) -> Relation | None:
        if not is_qualified(source) and fold(source.name) in scope:
            return scope[fold(source.name)].read()
        if isinstance(source.this, exp.GenerateSeries):
            return self._of_range(source, source.this)
        table = self.tables.named(source)
        return None if table is None else self.tables.rows(table)

    def _of_list(self, source: exp.Values | exp.Unnest) -> Relation:
        """Resolve VALUES or UNNEST of constants: public rows, as DuckDB names their columns."""
        listed = source.expressions
        if isinstance(source, exp.Unnest):
            arrays = listed if all(isinstance(each, exp.Array) for each in listed) else []
            rows = [[value] for array in arrays[:1] for value in array.expressions]
            alike = bool(rows) and len(arrays) == 1 and not source.args.get("offset")
        else:
            rows = [row.expressions for row in listed if isinstance(row, exp.Tuple)]
            alike = len(rows) == len(listed) and len(set(map(len, rows))) == 1
        constants = [value for row in rows for value in row]
        if not alike or any(value.find(exp.Column, exp.Query) for value in constants):
            hint = _ELEMENTS if isinstance(source, exp.Unnest) else None
            raise self.names.refuse(
                "VALUES and UNNEST beside private rows are lists of constants, equally long",
                "join_not_supported",
                source,
                hint,
            )
        for value in constants:
            check_row_expression(value, self.names.text)
        made = self.operators.listed(rows)
        return made.named("", [source.alias or "unnest"] if isinstance(source, exp.Unnest) else [])

    def _of_range(self, source: exp.Table, numbers: exp.GenerateSeries) -> Relation:
        """Resolve range or generate_series between constants, as DuckDB names its column."""
        given = [numbers.args.get(part) for part in ("start", "end", "step")]
        low, high, step = (_whole(node) if node is not None else 1 for node in given)
        exclusive = bool(numbers.args.get("is_end_exclusive"))
        if low is None or high is None or not step or max(map(abs, (low, high, step))) >= 2**31:
            count = 0
        else:
            last = high - (1 if step > 0 else -1) * exclusive
            count = max(0, (last - low) // step + 1)
        if low is None or not step or not 0 < count < 2**31:
            raise self.names.refuse(
                "a range beside private rows has some numbers or times, between constants",
                "join_not_supported",
                source,
            )
        name = "range" if exclusive else "generate_series"
        return self.operators.numbered(low, step, count).named("", [source.alias or name])

    def _of_subquery(self, source: exp.Subquery, scope: Scope) -> Relation | None:
        if isinstance(source.this, exp.Table):  # a join in brackets
            return self._piece(source.this, scope, unique=False)
        return self._of_query(source.this, scope)

    # -- CTEs ---------------------------------------------------------------------------------

    def _with_ctes(self, query: exp.Query, scope: Scope) -> Scope:
        """Return the scope inside a query that has a WITH clause."""
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
        """Read a CTE: now if it may be private, else when somebody joins it."""

        def read() -> Relation | None:
            found = self._of_query(cte.this, scope)
            return None if found is None else self._named_as(cte, found)

        query = None if self._recursive(cte) else cte.this
        if not self.tables.may_be_private(cte.this, scope):
            return Cte(False, read, query)
        if not _CTE.hold(cte) or not isinstance(cte.parent, exp.With) or not _WITH.hold(cte.parent):
            raise self.names.refuse(
                "this form of WITH is not available over private rows",
                "clause_not_allowed",
                cte,
                hint="Write WITH name AS (SELECT …).",
            )
        relation = read()
        return Cte(relation is not None and relation.private, lambda: relation, query)

    def _recursive(self, cte: exp.CTE) -> bool:
        """Tell whether a CTE may name itself."""
        return isinstance(cte.parent, exp.With) and bool(cte.parent.args.get("recursive"))

    # -- subqueries over rows -----------------------------------------------------------------

    def _of_query(self, query: exp.Expr, scope: Scope) -> Relation | None:
        """Resolve the rows of a subquery or CTE; None if it releases aggregates or has no rows.

        Each query is read once. Raises ``QueryRefused`` or ``UnknownName`` for private rows that
        are used illegally.
        """
        if id(query) not in self._read:  # the node is kept, so that its id stays its own
            self._read[id(query)] = query, self._read_query(query, scope)
        return self._read[id(query)][1]

    def _read_query(self, query: exp.Expr, scope: Scope) -> Relation | None:
        if isinstance(query, exp.Subquery):
            return self._piece(query, scope, unique=False)
        if not isinstance(query, exp.SetOperation | exp.Select):
            return None
        scope = self._with_ctes(query, scope)
        if isinstance(query, exp.SetOperation):
            one, other = (self._of_query(side, scope) for side in (query.this, query.expression))
            link_keys = self.tables.link_keys
            return combined(self.names, self.operators, query, one, other, link_keys)
        if query.args.get("from_") is None:
            return None
        self.write_pivots(query, scope)
        self._move_lists(query, scope)
        source = self._of_sources(query, scope)
        found = None if source is None else self._of_select(query, source, scope)
        if found is not None and source is not None and source.given is not None:
            raise self._kept_below(query)
        return found

    def _of_select(self, select: exp.Select, source: Relation, scope: Scope) -> Relation | None:
        if source.private:
            select = windows_written_out(select)
        source = self._sampled_by(select, source)
        if select.args.get("group"):
            return self._per_unit(select, source, scope)
        if _has_aggregates(select):
            return None
        made = Stand()
        source = self._filtered(source, select.args.get("where"), scope, made)
        if source.private and looks_at_rows(select):
            source, listed = self._with_marks(
                select, rows_apart(self.operators, source), scope, Stand()
            )
            unit = source.unit_label
            source, listed = placed(
                self.names, self.operators, listed, source, unit, self.tables.link_keys
            )
            return self._listed(listed, source)
        source, listed = self._with_marks(select, source, scope, made)
        return self._listed(listed, source)

    def _listed(self, select: exp.Select, source: Relation) -> Relation | None:
        """Resolve the select list of a query over rows."""
        distinct = select.args.get("distinct")
        rows = self.operators.projected(select, source)
        if distinct is not None and rows.private:
            rows = self.operators.settled(rows)
            if not any(f.identity is Identity.UNIT for f in rows.fields):
                linking = linking_field(rows.fields, self.tables.link_keys)
                if linking is None:
                    return None  # it asks which keys exist
                rows = with_value_of(rows, linking)
        self._refuse_clauses(select, source)
        return rows if distinct is None else self.operators.distinct(rows, distinct)

    def _refuse_clauses(self, select: exp.Select, source: Relation) -> None:
        """Refuse clauses that a subquery over rows may not have; its order alone says nothing."""
        distinct, order = select.args.get("distinct"), select.args.get("order")
        unusual = {clause for clause, value in select.args.items() if value} - _ROW_CLAUSES
        if unusual == {"order"} and order is not None:
            for term in order.expressions:
                if not isinstance(term.this, exp.Literal):
                    self.names.over_aliases(term.this, select, source)
            return
        if unusual or (distinct is not None and distinct.args.get("on")):
            clause = min(unusual, default="distinct")
            raise self.names.refuse(
                f"{clause.rstrip('_').upper()} is not available in a subquery over private rows",
                "clause_not_allowed",
                select.args[clause],
                hint="A subquery over private rows may select, filter and join them. Which rows "
                "are first depends on those of others.",
            )

    def _per_unit(self, select: exp.Select, source: Relation, scope: Scope) -> Relation | None:
        """Resolve a pre-aggregation: GROUP BY keys that include the unit; None for other keys."""
        if not source.private:
            return None
        select = write_lists(select)
        placing = asks_for_places(select)
        source = rows_apart(self.operators, source) if placing else self.operators.settled(source)
        found = keys_with_unit(self.names, select, source, self.tables.link_keys)
        if found is None:
            return None
        made, (keys, source) = Stand(), found
        source = self._filtered(source, select.args.get("where"), scope, made)
        source, marked_up = self._with_marks(select, source, scope, made)
        if marked_up is not select:
            select = marked_up
            found = keys_with_unit(self.names, select, source, self.tables.link_keys)
            keys = keys if found is None else found[0]
        if placing:
            source, select = with_quantiles(self.names, self.operators, select, source, keys)
        groups, listed = per_unit(self.names, self.operators, select, source, keys)
        if looks_at_rows(listed):  # the groups' columns are their own already
            unit = source.unit_label
            groups, listed = placed(
                self.names, self.operators, listed, groups, unit, self.tables.link_keys
            )
        return self.operators.projected(listed, groups)

    # -- samples ------------------------------------------------------------------------------

    def _sampled_by(self, node: exp.Expr, rows: Relation) -> Relation:
        """Mark the rows of a source, or of a whole FROM, as the sample that stands behind it."""
        sample = node.args.get("sample")
        if sample is None:
            return rows
        return sampled(rows, share_of_sample(sample, rows, self.names))

    # -- conditions ---------------------------------------------------------------------------

    def _filtered(
        self, source: Relation, where: exp.Where | None, scope: Scope, made: Stand
    ) -> Relation:
        """Keep the rows that satisfy a WHERE clause."""
        if where is None:
            return source
        source, rest = self._semi_joined(source, where, scope, made)
        return source if rest is None else self.operators.filtered(source, rest)

    def _semi_joined(
        self, source: Relation, where: exp.Where, scope: Scope, made: Stand
    ) -> tuple[Relation, exp.Where | None]:
        """Keep the rows that pass subqueries of a WHERE clause; return the rest of the clause.

        So that units are taken at random, if it says so: that is no test of a row.
        """
        shares, parts = split_shares(where.this) if source.private else ([], [])
        if shares:
            for share in shares:
                source = sampled(source, share)
            if not parts:
                return source, None
            where = exp.Where(this=exp.and_(*parts))
        rest, tests = split_tests(where.this)
        source = self._tested(source, tests, scope)
        if not rest:
            return source, None
        left = exp.Where(this=exp.and_(*rest)) if tests else where
        return self._marked(source, left, scope, made)

    def _marked(
        self, source: Relation, root: _Node, scope: Scope, made: Stand
    ) -> tuple[Relation, _Node]:
        """Add what the subqueries in an expression say of each row to the rows.

        Returns the rows, and the expression with these in place of subqueries: a copy if there are
        any. ``made`` are those of the same SELECT, which stand for equal ones.
        """
        holder = exp.Paren(this=root.copy())
        quantified_as_tests(self.names, holder, source)
        tests, values = list(tests_within(holder)), list(values_within(holder))
        if not tests and not values:
            self._refuse_correlated(root, source, scope)
            return source, root
        for inner, query in values:
            same = inner.copy(), False
            if same not in made.values:
                source, made.values[same] = self._valued(source, inner, query, scope, made)
            put(inner, made.values[same].copy())
        if tests and source.given is not None:
            raise self._kept_below(tests[0][0])
        for node, test in tests:
            same = node.copy(), asks_if_true(node)
            if same not in made.values:
                found = self._found(test, scope)
                source, made.values[same] = marked(self.names, source, node, test, found)
                refuse_many(source, self.tables.most_joined, node, self.names.text)
                self.operators.check_size(source, node)  # its rows may be written twice
            put(node, made.values[same].copy())
        self._refuse_correlated(holder, source, scope)
        changed: _Node = holder.this
        return source, changed

    def _refuse_correlated(self, root: exp.Expr, source: Relation, scope: Scope) -> None:
        """Refuse a subquery for one value of a row's group: it is asked for all groups before."""
        for node in outside_subqueries(root):
            query = node.unnest() if isinstance(node, exp.Subquery) else None
            if not isinstance(query, exp.Select) or not query.args.get("where"):
                continue
            try:
                rows = self.of_from(query, scope) or self._of_sources(query, scope)
            except (QueryRefused, UnknownName):
                continue  # refused as any subquery here
            if rows is None:
                continue
            keys = group_keys(query, _columns_of(rows), _columns_of(source))
            if keys:
                refused = self.names.refuse(
                    "a subquery over groups cannot stand in an expression over private rows",
                    "subquery_over_private_rows",
                    query,
                    hint="It can where it has at most 400 groups: add conditions on its keys, or "
                    "on the tables around that they are compared with. Or join the groups: JOIN "
                    "(SELECT k, AVG(x) AS a FROM … GROUP BY k) g ON g.k = ….",
                )
                raise after_answering(query, refused, keys)

    def _valued(
        self, source: Relation, node: exp.Expr, query: exp.Select, scope: Scope, made: Stand
    ) -> tuple[Relation, exp.Expr]:
        """Add the value of a subquery, along the unit or of public rows, to the rows.

        Returns what stands for it: the subquery itself where it is of another form.
        """
        scope = self._with_ctes(query, scope)
        found = self.of_from(query, scope)
        if found is None:
            return self._looked_up(source, node, query, scope, made)
        if found.given is not None:
            return source, node
        rows = self.operators.fresh(found)
        equal = correlation(query, rows, source)
        if equal is None:
            return source, node
        if source.given is not None:
            raise self._kept_below(node)
        one = is_call(query) or self._is_one(rows, equal.inside)
        if not one and not is_first(query):
            raise self._several(node, rows)
        rows = self.operators.settled(rows)
        if equal.conditions:
            where = exp.Where(this=exp.and_(*equal.conditions, copy=True))
            rows = self._filtered(rows, where, scope, Stand())
        if one:
            check_order(self.names, query, rows)
        else:
            rows = first_rows(self.names, self.operators, rows, equal, query)
        valued = with_value(self.names, self.operators, source, rows, equal, node, query)
        refuse_many(valued[0], self.tables.most_joined, node, self.names.text)
        return valued

    def _looked_up(
        self, source: Relation, node: exp.Expr, query: exp.Select, scope: Scope, made: Stand
    ) -> tuple[Relation, exp.Expr]:
        """Add the value that a subquery looks up in public rows; as :meth:`_valued`."""
        (item,) = query.expressions
        if is_call(query):
            return source, node
        try:
            found = self._of_sources(query, scope)
        except (QueryRefused, UnknownName):
            found = None
        if found is None:
            for table in query.find_all(exp.Table):
                if isinstance(table.this, exp.Identifier):
                    self._refuse_unknown(table, scope)
        if found is None or found.private or not names_others(query, found):
            return source, node  # it is answered first, or refused as any subquery here
        if source.given is not None:
            raise self._kept_below(node)
        check_order(self.names, query, found)
        shared = query.copy()
        for clause in ("expressions", "order", "limit"):
            shared.set(clause, None)
        if shared not in made.lookups:
            lookup = LookedUp(self.names, self.operators, query)
            rows = rows_apart(self.operators, found)
            rows = self._filtered(rows, lookup.own(rows), scope, Stand())
            joined = lookup.joined(source, rows, self._finds_one)
            if joined is None:
                raise self._several(node, found)
            source, made.lookups[shared] = joined
            self.operators.count_columns(len(found.fields), node)
            self.operators.check_size(source, node)
        return source, value_of(self.names, item, source, made.lookups[shared], node)

    def _is_one(self, rows: Relation, by: Field) -> bool:
        """Tell whether a unit has one row at most of a value of a column, or a table has."""
        paired = any(isinstance(node, Join | Combined) for node in bottom_up(rows.rows))
        return rows.one_row_at([by.column]) or (self.tables.is_key(by) and not paired)

    def _several(self, node: exp.Expr, found: Relation) -> QueryRefused:
        """Build the error for a subquery for one value with several rows."""
        names = ", ".join(dict.fromkeys(str(name) for name in scanned(found.rows)))
        hint = (
            "Compare columns that tell its rows apart, or ask for one value of them: "
            "(SELECT max(x) FROM … WHERE …). A JOIN keeps all of the rows."
        )
        if found.private:
            hint = (
                "Ask for one value of them: (SELECT max(x) FROM … WHERE …), or the first by an "
                "order: (SELECT x FROM … WHERE … ORDER BY y LIMIT 1). Or join the tables. Where "
                "there is one row, the data owner can say so: rows_per_unit: 1."
            )
        return self.names.refuse(
            f"a subquery for one value could find several rows of {names or 'constants'} for one "
            "row",
            "several_rows",
            node,
            hint=hint,
        )

    def _with_marks(
        self, select: exp.Select, source: Relation, scope: Scope, made: Stand
    ) -> tuple[Relation, exp.Select]:
        """Add what the subqueries in a select list say to the rows; as :meth:`_marked`."""
        items = select.expressions
        if not any(map(_asks_others, items)):
            return source, select
        listed = select.copy()
        _name_subqueries(listed)
        for item in list(listed.expressions):
            source, value = self._marked(source, item, scope, made)
            if value is not item:
                put(item, value)
        return source, listed

    def _tested(self, source: Relation, tests: list[SubqueryTest], scope: Scope) -> Relation:
        """Keep the rows that pass all tests."""
        if tests and source.given is not None:
            raise self._kept_below(tests[0].query)
        for test in tests:
            source = semi_joined(self.names, source, test, self._found(test, scope))
            refuse_many(source, self.tables.most_joined, test.query, self.names.text)
        return source

    def _found(self, test: SubqueryTest, scope: Scope) -> TestedRows:
        """Resolve the rows that a subquery in a condition finds, under names of their own.

        One over public tables that is more than their rows is computed first.
        """
        try:
            return self._rows_of(test, scope)
        except QueryRefused as refused:
            private = self.tables.may_be_private(test.query, scope)
            if private or to_answer_first(refused) is not None:
                raise
            raise after_answering(test.query, refused) from None

    def _rows_of(self, test: SubqueryTest, scope: Scope) -> TestedRows:
        query, needed = test.query, len(test.subjects)
        starred = any(isinstance(item, exp.Star) for item in query.selects)
        if is_plain(query) and not (starred and needed):
            assert isinstance(query, exp.Select)
            return self._found_below(test, query, self._with_ctes(query, scope))
        rows = self._of_query(query, scope)
        if rows is None:
            refuse_form(test, self.names.text, private=self.tables.may_be_private(query, scope))
        rows = self.operators.fresh(rows, whole=True)
        shown = [field for field in rows.fields if not field.merged]
        self._check_width(test, len(shown))
        values = tuple(resolved_column(field.column, field.name) for field in shown[:needed])
        return TestedRows(rows, values, ())

    def _found_below(self, test: SubqueryTest, query: exp.Select, scope: Scope) -> TestedRows:
        """Resolve the rows of a subquery that only filters those of its FROM."""
        found = self._of_sources(query, scope)
        if found is None:
            odd = (s for s in _sources(query) if self._piece(s, scope, unique=True) is None)
            raise self._not_rows(next(odd), scope)
        where = query.args.get("where")
        conditions, tests = ([], []) if where is None else split_tests(where.this)
        found = self.operators.fresh(self._tested(found, tests, scope))
        self._check_width(test, len(query.selects))
        values = [item.unalias() for item in query.selects[: len(test.subjects)]]
        return TestedRows(found, tuple(values), tuple(conditions))

    def _check_width(self, test: SubqueryTest, columns: int) -> None:
        """Refuse an IN that compares rows of different widths."""
        if test.subjects and len(test.subjects) != columns:
            raise self.names.refuse(
                f"IN compares {len(test.subjects)} values with rows of {columns} columns",
                "subquery_over_private_rows",
                test.query,
                hint="Write x IN (SELECT y …), or (a, b) IN (SELECT c, d …).",
            )


def _split_condition(on: exp.Expr | None) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Split what ON says into conditions without subqueries, and those with."""
    parts = [] if on is None else list(conjuncts(on.copy()))
    later = [part for part in parts if next(tests_within(part), None) or part.find(exp.Query)]
    return [part for part in parts if not any(part is each for each in later)], later


def _columns_of(rows: Relation) -> Callable[[exp.Column], bool]:
    """Make a test of names: whether one is of a column of these rows."""
    return lambda column: bool(rows.matches(column.table, column.name))


def _asks_others(item: exp.Expr) -> bool:
    """Tell whether a subquery in a select item says something of each row."""
    found = (*tests_within(item), *values_within(item))
    return bool(found) or item.find(exp.Any, exp.All) is not None


def _name_subqueries(select: exp.Select) -> None:
    """Give select items with subqueries the aliases that they have as the answer's columns."""
    for item in list(select.expressions):
        if _asks_others(item) and not isinstance(item, exp.Alias):
            put(item, exp.alias_(item.copy(), output_name(item), quoted=True, copy=False))


def _sources(select: exp.Select) -> list[exp.Expr]:
    """List the sources of a FROM clause, first the leftmost."""
    from_, joins = select.args.get("from_"), select.args.get("joins") or ()
    return [] if from_ is None else [from_.this, *(join.this for join in joins)]


def _whole(node: exp.Expr) -> int | None:
    """Read a whole number; None for anything else."""
    if isinstance(node, exp.Neg):
        below = _whole(node.this)
        return None if below is None else -below
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _has_aggregates(select: exp.Select) -> bool:
    return any(
        isinstance(part, exp.AggFunc)
        and not isinstance(part.find_ancestor(exp.Window, exp.Query), exp.Window)
        for item in select.expressions
        for part in outside_subqueries(item)
    )


def _plainly_equal(condition: exp.Expr, both: Relation) -> exp.Expr:
    """Write IS NOT DISTINCT FROM as an equality where one side is a unit, which is never NULL."""
    if not isinstance(condition, exp.NullSafeEQ):
        return condition
    sides = condition.this.unnest(), condition.expression.unnest()
    if any(isinstance(side, exp.Column) and both.is_unit(side.name) for side in sides):
        return exp.EQ(this=condition.this, expression=condition.expression)
    return condition
