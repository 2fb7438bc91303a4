"""From a syntax tree to a ``Query``: separates private from public parts, refuses the rest.

The statement is walked by scope. A SELECT whose source is a private table becomes a private block;
every other SELECT belongs to the tail and may read released blocks, public tables and CTEs only.
Names are resolved against the policy, so a table that it does not list does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Schema, fold, rules_of
from dpsql.core.table_name import TableName
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block, Query, TailKind
from dpsql.ir.relations import PublicSource
from dpsql.policy.model import Policy
from dpsql.policy.parameters import Parameters
from dpsql.privacy.mechanisms.bounds_choice import FoundBounds
from dpsql.sql.blocks.build import Decides, build_block
from dpsql.sql.blocks.followers import place_followers
from dpsql.sql.blocks.grouping_sets import expand_grouping_sets, shared_query
from dpsql.sql.blocks.listed import write_listed
from dpsql.sql.blocks.memberships import list_once
from dpsql.sql.blocks.noise_columns import place_noise_columns
from dpsql.sql.blocks.reports import write_reports
from dpsql.sql.expressions.call import refuse_bounds
from dpsql.sql.expressions.copies import refuse_copies
from dpsql.sql.expressions.first_answers import GroupKeys
from dpsql.sql.expressions.legality import (
    TAIL_FORBIDDEN,
    TAIL_FORBIDDEN_FUNCTIONS,
    refuse_written_out,
)
from dpsql.sql.expressions.text_growth import refuse_growing_text
from dpsql.sql.lineage.correlated import group_keys, looked_up
from dpsql.sql.lineage.lookups import FindsOne
from dpsql.sql.lineage.operators import Bind
from dpsql.sql.lineage.pivots import refuse_unknown_columns
from dpsql.sql.lineage.relation import Identity, Relation
from dpsql.sql.lineage.resolver import Lineage
from dpsql.sql.lineage.table_names import is_qualified, settle_names
from dpsql.sql.lineage.tables import Cte, Scope, Tables
from dpsql.sql.tail.enum_order import settle_enum_order
from dpsql.sql.tail.group_counts import count_listed, listed_below, mark_counted
from dpsql.sql.tail.growth_class import tail_kind
from dpsql.sql.tail.outputs import trace_outputs
from dpsql.sql.tail.passed_on import PassedColumns
from dpsql.sql.tail.plain import plain_tail
from dpsql.sql.tail.public_values import public_values
from dpsql.sql.tail.steady import is_steady
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.options import AskedOptions, refuse_options, take_options
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import output_name, put, to_sql, written_name


def validate(
    tree: exp.Query,
    text: str,
    policy: Policy,
    schema: Schema,
    parameters: Parameters,
    bind: Bind,
    dialect: Dialect,
    decide: Callable[[Block], Block],
    *,
    pools: bool = False,
    catalog: str = "",
    beside: Sequence[PublicSource] = (),
    bounds: Sequence[FoundBounds | None] | None = None,
    decides: Decides = lambda *_: False,
    finds_one: FindsOne = lambda *_: False,
) -> Query:
    """Split a parsed statement into private blocks and a public tail; ``tree`` is used up.

    ``catalog`` is the database's own name, which may stand before that of a schema. ``beside`` are
    public tables that the policy does not list. ``bounds`` are the bounds that were found
    for each block, in their order, as far as they are asked to be found; None where bounds of
    values cannot be. ``decides`` tells which columns of public tables are decided by others,
    ``finds_one`` whether comparisons find one public row.

    ``decide`` says what each block gets that was given no number of groups per unit, as what it
    releases depends on that. ``pools`` makes room for saying of each row from which releases it
    is put together.

    A statement over public tables alone, or over none, is all tail and has no blocks.
    ``bind`` tells the columns that generated SQL would return, without reading a row; it is written
    in the ``dialect``.

    Raises ``QueryRefused`` or ``UnknownName``; nothing has been read or spent when it does.
    """
    _refuse_forbidden(tree, text)
    write_reports(tree)
    settle_names(tree, text, rules_of(schema, catalog, policy.names))
    lineage = Lineage(tree, text, policy, schema, bind, dialect, beside, finds_one)
    _refuse_doubtful_names(tree, text, lineage.tables)
    refuse_growing_text(tree)
    refuse_copies(tree, text)
    splitter = _Splitter(policy, parameters, lineage, bounds, decides)
    splitter.visit(tree, {})
    refuse_bounds(tree, text)
    refuse_written_out(_row_expressions(splitter.blocks), text)
    counted = mark_counted(tree, splitter.blocks)
    found = [
        replace(
            decide(block),
            source=replace(block.source, edition=policy.edition),
            pools=pools,
            counted=block.name in counted,
        )
        for block in splitter.blocks
    ]
    for block in found:
        _refuse_discovery(block, text)
    casts = any(type(node) is exp.Cast for node in tree.walk())
    place_followers(tree, found)
    passed = PassedColumns(tree, found)
    blocks = place_noise_columns(tree, found, text, passed)
    settle_enum_order(tree, blocks, list(splitter.public_tables.values()), text)
    traced = trace_outputs(tree, blocks, passed, list(splitter.public_tables.values()))
    passed.hide()
    for chosen in traced.chosen:
        blocks[chosen] = replace(blocks[chosen], chosen_after=True)
    plain = plain_tail(tree, blocks, dialect)
    kind = tail_kind(tree) if plain is None else TailKind.SURE
    steady = is_steady(tree, kind)
    typed, values = to_sql(tree), tuple(public_values(tree, text))
    return Query(
        text=text,
        blocks=tuple(blocks),
        tail=typed,
        run=_caught(tree, typed),
        public_tables=tuple(source for _, source in sorted(splitter.public_tables.items())),
        outputs=traced.outputs,
        computed=traced.computed,
        hidden=traced.hidden,
        plain=plain,
        tail_kind=kind,
        steady=steady,
        casts=casts,
        values=values,
    )


def _refuse_discovery(block: Block, text: str) -> None:
    """Refuse a block that asks for public groups, with a key of unknown values."""
    unknown = next((key for key in block.keys if key.domain is None), None)
    if block.public_groups and unknown is not None:
        raise QueryRefused(
            f"not all values of {unknown.text} are known, so its groups are not public",
            code="groups_not_public",
            place=place_of(text, unknown.expression),
            hint="Leave out group_selection_strategy to have groups discovered. Or give them: by a "
            "condition on the key, or by public rows, FROM sites s LEFT JOIN visits v ON ….",
        )


def _check_unit(named: exp.Column, private: Relation, text: str) -> None:
    """Refuse a privacy_unit_column other than the column of the unit."""
    found = private.matches(named.table, named.name)
    if [field.identity for field in found] != [Identity.UNIT]:
        raise QueryRefused(
            f"{output_name(named)} does not say which {private.unit_name} a row belongs to",
            code="bad_option",
            place=place_of(text, named),
            hint=f"The policy says it: the {private.unit_name} of these rows is "
            f"{private.unit_label}. Name that, or leave privacy_unit_column out.",
        )


def _caught(tree: exp.Query, typed: str) -> str:
    """Write the tail with casts and whole divisions that are NULL where they fail.

    Rows are paid for by then: noise may take a number out of the range of a type, or to 0, and no
    type says which text is a number. Constants that fail are found before, in the tail as it is
    ``typed``, which is the same where there are no such parts. ``tree`` is used up.
    """
    failing = list(tree.find_all(exp.Cast, exp.IntDiv, exp.Mod))
    for node in failing:
        if type(node) is exp.Cast:
            node.replace(exp.TryCast(**node.args))
        elif not isinstance(node, exp.Cast):
            divisor = exp.Nullif(this=node.expression, expression=exp.Literal.number(0))
            node.set("expression", divisor)
    return to_sql(tree, copy=False) if failing else typed


def _row_expressions(blocks: Iterable[Block]) -> Iterator[exp.Expr]:
    """Yield the expressions of all blocks that are evaluated on private rows."""
    for block in blocks:
        if block.condition is not None:
            yield block.condition
        yield from (key.expression for key in block.keys)
        yield from (m.argument for m in block.measures if m.argument is not None)
        yield from (quantile.ranked.argument for quantile in block.quantiles)


def _refuse_forbidden(tree: exp.Query, text: str) -> None:
    for node in tree.walk():
        if isinstance(node, TAIL_FORBIDDEN) and not isinstance(node, exp.Query):
            raise QueryRefused(
                f"{type(node).__name__.upper()} cannot stand in a query",
                code="statement_not_allowed",
                place=place_of(text, node),
                hint="A query reads and computes: it holds SELECT, VALUES and their clauses.",
            )
        if isinstance(node, exp.Identifier) and fold(node.name).startswith(INTERNAL_PREFIX):
            raise QueryRefused(
                f"names beginning with {INTERNAL_PREFIX} are reserved",
                code="reserved_name",
                place=place_of(text, node),
                hint="Choose another name.",
            )
        if isinstance(node, exp.Func) and _function_name(node) in TAIL_FORBIDDEN_FUNCTIONS:
            raise QueryRefused(
                f"the function {written_name(node)} is not available",
                code="function_not_allowed",
                place=place_of(text, node),
                hint="Functions compute from their arguments; files, settings, other statements "
                "and time are out of reach, over released rows too.",
            )


def _refuse_doubtful_names(tree: exp.Query, text: str, tables: Tables) -> None:
    """Refuse recursive CTEs named like tables: parts of them mean the table, parts themselves."""
    for with_ in tree.find_all(exp.With):
        for cte in with_.expressions if with_.args.get("recursive") else ():
            if tables.of_name(TableName(cte.alias)) is not None:
                raise QueryRefused(
                    f"{cte.alias} is a table, so a recursive CTE cannot have its name",
                    code="recursive_name",
                    place=place_of(text, cte.args["alias"]),
                    hint="Give the CTE another name.",
                )


def _function_name(node: exp.Func) -> str:
    return fold(node.name if isinstance(node, exp.Anonymous) else node.sql_name())


_BARE: Final = NodeArguments("this")
_NO_VALUES: Final = (
    *(exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Subquery, exp.Lateral),
    *(exp.In, exp.Exists, exp.Any, exp.All),
)
"""Where a subquery stands for rows."""


class _Splitter:
    """Walks a statement, turning private SELECTs into blocks as it finds them."""

    def __init__(
        self,
        policy: Policy,
        parameters: Parameters,
        lineage: Lineage,
        bounds: Sequence[FoundBounds | None] | None,
        decides: Decides,
    ) -> None:
        self.text = lineage.names.text
        self.policy = policy
        self.parameters = parameters
        self.lineage = lineage
        self.blocks: list[Block] = []
        self._decides = decides
        self._bounds = bounds or ()
        self._finds = bounds is not None
        self.public_tables: dict[str, PublicSource] = {}  # by their names' keys
        self._shared: dict[int | None, exp.Query] = {}

    def visit(self, query: exp.Query, ctes: Scope) -> None:
        """Validate and split one query expression; ``ctes`` are the CTEs in scope.

        Of the copies of a subquery in several grouping sets, the first stands for all.
        """
        shared = shared_query(query) if isinstance(query, exp.Select) else None
        if shared in self._shared:
            query.replace(self._shared[shared].copy())
            return
        before = len(self.blocks)
        self._visit(query, ctes)
        if shared is not None and len(self.blocks) > before:
            self._shared[shared] = query

    def _visit(self, query: exp.Query, ctes: Scope) -> None:
        ctes = self._visit_ctes(query, ctes)
        if isinstance(query, exp.Select):
            self._count_in_one(query, ctes)
            self.lineage.write_pivots(query, ctes)
            private = self.lineage.of_from(query, ctes)
            keys = () if private is None else self._keys_around(query, private)
            if keys:
                self._look_up(query, keys, ctes)
            elif private is None or write_listed(query, private):
                refuse_options(query, self.text)
                refuse_unknown_columns(query, self.text)
                self._visit_children(query, ctes)
            elif expand_grouping_sets(query, private, self.text):
                self._visit_children(query, ctes)
            else:
                list_once(query)
                private = self.lineage.tested(query, private, ctes)
                self._build(query, self.lineage.operators.settled(private), ctes)
        elif isinstance(query, exp.SetOperation | exp.Subquery | exp.Values):
            self._visit_children(query, ctes)
        else:
            raise QueryRefused(
                f"this form of query ({type(query).__name__.lower()}) is not available",
                code="statement_not_allowed",
                place=place_of(self.text, query),
                hint="Write SELECT … FROM ….",
            )

    def _keys_around(self, query: exp.Select, private: Relation) -> GroupKeys:
        """Find how a subquery for one value names the group of a row around it."""
        value = query.parent
        if not isinstance(value, exp.Subquery) or not _BARE.hold(value) or value.parent is None:
            return ()
        if isinstance(value.parent, _NO_VALUES):
            return ()

        def own(column: exp.Column) -> bool:
            return bool(private.matches(column.table, column.name))

        keys = group_keys(query, own, lambda column: not own(column))
        sides = (query.args["where"], *query.expressions) if keys else ()
        named = [column for side in sides for column in side.find_all(exp.Column)]
        fields = (f for column in named for f in private.matches(column.table, column.name))
        return () if any(f.identity is not Identity.NONE for f in fields) else keys

    def _look_up(self, query: exp.Select, keys: GroupKeys, ctes: Scope) -> None:
        """Ask a subquery for all groups, and look the value of a row's group up among them."""
        value = query.parent
        assert value is not None
        name, item = output_name(value), isinstance(value.parent, exp.Select)
        found = looked_up(query, keys)
        named = exp.Alias(this=found, alias=exp.to_identifier(name, quoted=True))
        put(value, named if item else found)
        self._visit_children(found, ctes)

    def _count_in_one(self, select: exp.Select, ctes: Scope) -> None:
        """Count the values of a private key by one number instead of listing and counting them."""
        listed = listed_below(select)
        if listed is not None and self.lineage.tables.may_be_private(listed, ctes):
            count_listed(select, listed)

    def _visit_ctes(self, query: exp.Query, ctes: Scope) -> Scope:
        """Return the scope with the query's CTEs; those of private rows leave the tail."""
        with_ = query.args.get("with_")
        if with_ is None:
            return ctes
        inner = dict(ctes)
        for cte in list(with_.expressions):
            if not isinstance(cte.this, exp.Query):
                raise QueryRefused(
                    "a WITH clause may only hold queries",
                    code="statement_not_allowed",
                    place=place_of(self.text, cte.this),
                    hint="Write WITH name AS (SELECT …).",
                )
            name = fold(cte.alias)
            if with_.args.get("recursive"):
                inner[name] = Cte(False, lambda: None)
            made = self.lineage.cte(cte, dict(inner))
            if made.private:
                cte.pop()
            else:
                self.visit(cte.this, inner)
            inner[name] = made
        if not with_.expressions:
            with_.pop()
        return inner

    def _visit_children(self, node: exp.Expr, ctes: Scope) -> None:
        """Visit the nested queries and table references below a node of the tail."""
        for child in list(node.iter_expressions()):
            if isinstance(child, exp.With):
                continue
            if isinstance(child, exp.Table):
                self._check_tail_table(child, ctes)
                self._visit_children(child, ctes)
            elif isinstance(child, exp.Query):
                self.visit(child, ctes)
            else:
                self._visit_children(child, ctes)

    def _check_tail_table(self, table: exp.Table, ctes: Scope) -> None:
        if isinstance(table.this, exp.GenerateSeries | exp.Unnest):
            return
        if not isinstance(table.this, exp.Identifier):
            raise QueryRefused(
                "table functions are not available",
                code="table_function",
                place=place_of(self.text, table),
                hint="range(), generate_series() and unnest() are the exceptions.",
            )
        if not is_qualified(table) and fold(table.name) in ctes:
            return
        found = self.lineage.tables.named(table)
        if found is None:
            raise self.lineage.tables.unknown(table)
        if found.public is None:
            # Reached only where a private table stands in a position no SELECT accounts for.
            raise QueryRefused(
                "a private table cannot be read here",
                code="raw_rows",
                place=place_of(self.text, table),
                hint="Aggregate it in a SELECT of its own, which may then stand here.",
            )
        self.public_tables[found.table.name.key] = found.public

    def _build(self, select: exp.Select, private: Relation, ctes: Scope) -> None:
        self.lineage.operators.count_block(private.rows)
        asked = take_options(select, self.text, self.policy, self.parameters, private.tables)
        if asked.unit_column is not None:
            _check_unit(asked.unit_column, private, self.text)
        self._ask(select, private, asked, ctes)

    def _ask(
        self,
        select: exp.Select,
        private: Relation,
        asked: AskedOptions,
        ctes: Scope,
        *,
        resolved: bool = False,
    ) -> None:
        """Make a block of a SELECT, and blocks of the SELECTs over the same rows beside it."""
        subqueries: list[exp.Query] = []  # visited once this block has its number
        others: list[exp.Select] = []
        number = len(self.blocks)
        block = build_block(
            select,
            name=f"{INTERNAL_PREFIX}released_{number}",
            relation=private,
            names=self.lineage.names,
            link_keys=self.lineage.tables.link_keys,
            asked=asked,
            descend=subqueries.append,
            beside=others.append,
            around=lambda query: self.lineage.columns_around(query, private, ctes),
            decides=self._decides,
            found=self._bounds[number] if number < len(self._bounds) else None,
            finds=self._finds,
            resolved=resolved,
        )
        self.blocks.append(block)
        asked_for: list[tuple[exp.Select, exp.Select]] = []  # as it was, and as it became
        for other in others:
            known = next((made for before, made in asked_for if before == other), None)
            if known is not None:
                put(other, known.copy())
                continue
            asked_for.append((other.copy(), other))
            self.lineage.operators.count_block(private.rows)
            self._ask(other, private, asked, ctes, resolved=True)
        for subquery in subqueries:
            self.visit(subquery, ctes)
