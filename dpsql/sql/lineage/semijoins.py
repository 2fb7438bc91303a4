"""Conditions that ask whether public rows exist: IN and EXISTS over public tables, as joins.

A row's own values decide which public rows match it, so the rows that remain depend on what they
depended on before. NULLs are as SQL has them: ``x IN`` a set keeps a row where some value equals x;
``x NOT IN`` a set keeps it where the set is empty, or neither x nor any value is NULL and none
equals x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from dpsql.ir.relations import SemiJoin
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.legality import check_row_expression, refusal
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.lineage.names import Names, columns_below, in_known_words
from dpsql.sql.lineage.relation import Relation
from dpsql.syntax.arguments import NodeArguments

_READ: Final[Mapping[type[exp.Expr], NodeArguments]] = {
    exp.In: NodeArguments("this query"),
    exp.Exists: NodeArguments("this"),
}
_BRACKETS: Final = NodeArguments("this")  # LIMIT and the like may stand behind them
_PLAIN = frozenset({"expressions", "from_", "joins", "where", "with_", "distinct"})


@dataclass(frozen=True, slots=True)
class SubqueryTest:
    """``subject [NOT] IN (query)``, or ``[NOT] EXISTS (query)`` without a subject."""

    query: exp.Query
    subject: exp.Expr | None
    negated: bool


def split_tests(condition: exp.Expr) -> tuple[list[exp.Expr], list[SubqueryTest]]:
    """Split the operands of AND into plain conditions and tests by subquery."""
    parts = [(part, _test(part)) for part in conjuncts(condition)]
    plain = [part for part, test in parts if test is None]
    return plain, [test for _, test in parts if test is not None]


def _test(condition: exp.Expr) -> SubqueryTest | None:
    """Read a condition as a test, or return None if it is not of this form."""
    negated = False
    while isinstance(condition, exp.Not | exp.Paren):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    subject = condition.this if isinstance(condition, exp.In) else None
    query = condition.args.get("query") if subject is not None else condition.this
    while isinstance(query, exp.Subquery) and _BRACKETS.hold(query):
        query = query.this
    read = _READ.get(type(condition))
    if read is not None and read.hold(condition) and isinstance(query, exp.Query):
        return SubqueryTest(query, subject, negated)
    return None


def plain_query(test: SubqueryTest, text: str) -> exp.Select:
    """Return the SELECT of a test, if it has only FROM and WHERE.

    Raises ``QueryRefused`` for queries that are more than that.
    """
    query = test.query
    if (
        not isinstance(query, exp.Select)
        or not _is_plain(query)
        or (test.subject is not None and len(query.selects) != 1)
    ):
        raise refusal(
            text,
            "this form of subquery cannot stand in a condition over private rows",
            "subquery_over_private_rows",
            query,
            hint="IN and EXISTS may ask for rows of public tables: (SELECT column FROM table "
            "WHERE …).",
        )
    return query


def semi_joined(
    names: Names, source: Relation, test: SubqueryTest, query: exp.Select, found: Relation
) -> Relation:
    """Keep the rows that pass a test; ``found`` are the public rows of its query's FROM.

    Raises ``QueryRefused`` or ``UnknownName`` for conditions that are not of single rows.
    """
    both = replace(source, fields=source.fields + found.fields)

    def condition_of(node: exp.Expr, *relations: Relation) -> exp.Expr:
        holder = exp.Paren(this=in_known_words(node.copy(), both))
        for column in columns_below(holder):
            seen = [r for r in relations if r.matches(column.table, column.name)]
            names.resolve_column(column, seen[0] if seen else both)
        check_row_expression(holder.this, names.text)
        refuse_unlike(holder.this, both.type_of, names.text)
        resolved: exp.Expr = holder.this
        return resolved

    conditions = []
    where = query.args.get("where")
    if where is not None:
        conditions.append(condition_of(where.this, found, source))
    if test.subject is not None:
        value = condition_of(query.selects[0].unalias(), found, source)
        subject = condition_of(test.subject, source)
        pair = exp.EQ(this=subject.copy(), expression=value.copy())
        refuse_unlike(pair, both.type_of, names.text)
        conditions.append(_matching(subject, value, test.negated))
    return replace(
        source, rows=SemiJoin(source.rows, found.rows, tuple(conditions), negated=test.negated)
    )


def _is_plain(query: exp.Select) -> bool:
    """Tell whether a query's rows are those of its FROM clause that satisfy its WHERE."""
    clauses = {clause for clause, value in query.args.items() if value}
    starred = any(isinstance(item, exp.Star) for item in query.selects)
    aggregates = any(isinstance(n, exp.AggFunc) for i in query.selects for n in i.walk())
    distinct = query.args.get("distinct")
    return (
        "from_" in clauses
        and clauses <= _PLAIN
        and not aggregates
        and (distinct is None or not distinct.args.get("on"))
        and not (starred and len(query.selects) > 1)
    )


def _matching(subject: exp.Expr, value: exp.Expr, negated: bool) -> exp.Expr:
    """Write when a public row speaks for IN, or against NOT IN."""
    one, other = exp.Paren(this=subject), exp.Paren(this=value)
    equal = exp.EQ(this=one, expression=other)
    if not negated:
        return equal
    unknown = [exp.Is(this=side.copy(), expression=exp.Null()) for side in (one, other)]
    return exp.or_(equal, *unknown)
