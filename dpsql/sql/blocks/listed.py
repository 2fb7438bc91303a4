"""Aggregates that list the groups of a value, in a SELECT without keys: from released groups.

    SELECT mode(ward) FROM visits
    SELECT (SELECT v FROM (SELECT ward AS v FROM visits WHERE ward IS NOT NULL GROUP BY ward
                           ORDER BY COUNT(*) DESC LIMIT 1))

    SELECT string_agg(DISTINCT ward, ', ') FROM visits
    SELECT (SELECT string_agg(v, ', ' ORDER BY v) FROM (SELECT DISTINCT ward AS v FROM visits))

    SELECT histogram(ward) FROM visits
    SELECT (SELECT map_from_entries(list(row(v, n) ORDER BY v)) FROM
            (SELECT ward AS v, COUNT(*) AS n FROM visits WHERE ward IS NOT NULL GROUP BY ward))

The question for the groups is a block like any other, of its sensitivity and price; lists are made
of what was released, in order. Other aggregates beside stay a block of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.lineage.names import generated_column
from dpsql.sql.lineage.relation import Identity, Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put

_HISTOGRAM: Final = "histogram"
_READ: Final[Mapping[type[exp.Expr], NodeArguments]] = {
    exp.Mode: NodeArguments("this"),
    exp.ArrayAgg: NodeArguments("this"),
    exp.GroupConcat: NodeArguments("this separator"),
    exp.Anonymous: NodeArguments("this expressions"),
    exp.Distinct: NodeArguments("expressions"),
    exp.Order: NodeArguments("this expressions"),
    exp.Ordered: NodeArguments("this desc nulls_first"),
    exp.Filter: NodeArguments("this expression"),
    exp.Where: NodeArguments("this"),
    exp.WithinGroup: NodeArguments("this expression"),
}
_PLAIN: Final = NodeArguments("expressions from_ joins where with_ hint")
_OF_ROWS: Final = ("from_", "joins", "where", "hint")
_OVER_ROWS: Final = (exp.Column, exp.Star, exp.AggFunc, exp.Window)
_DIRECTION: Final = ("desc", "nulls_first")
_VALUE: Final = f"{INTERNAL_PREFIX}value"  # no condition can name them
_NUMBER: Final = f"{INTERNAL_PREFIX}number"


@dataclass(frozen=True, slots=True)
class _Listing:
    """An aggregate over the groups of a ``value``, of rows for which a ``condition`` holds."""

    function: exp.Expr
    value: exp.Expr
    condition: exp.Expr | None
    terms: tuple[exp.Ordered, ...] = ()


def write_listed(select: exp.Select, private: Relation) -> bool:
    """Write a SELECT's aggregates that list groups as subqueries; tell whether no others are left.

    Then its FROM is gone. ``private`` are the rows of it. One with clauses beyond conditions is
    left as it is, and so are lists of units.
    """
    if not _PLAIN.hold(select):
        return False
    listings = [
        (node, listing)
        for node, listing in _listings(select)
        if not any(
            field.identity is Identity.UNIT
            for column in listing.value.find_all(exp.Column)
            for field in private.matches(column.table, column.name)
        )
    ]
    names = [output_name(item) for item in select.expressions]
    made: set[int] = set()
    for node, listing in listings:
        written = _written(listing, select)
        made.add(id(written))
        put(node, written)
    if not listings:
        return False
    alone = not any(_needs_rows(item, made) for item in select.expressions)
    for place, name in enumerate(names):
        item = select.expressions[place]
        if not isinstance(item, exp.Alias):
            named = exp.to_identifier(name, quoted=True)
            put(item, exp.Alias(this=item.copy(), alias=named))
    for clause in _OF_ROWS if alone else ():
        select.set(clause, None)
    return alone


def _needs_rows(item: exp.Expr, made: Collection[int]) -> bool:
    """Tell whether a select item asks for more than the subqueries that were made in it."""
    parts = list(outside_subqueries(item))
    if any(isinstance(part, _OVER_ROWS) for part in parts):
        return True
    if any(isinstance(part, exp.Query) and id(part) not in made for part in parts):
        return True
    calls = (part for part in parts if isinstance(part, exp.Anonymous))  # perhaps aggregates
    return any(call.find(exp.Query) is None for call in calls)


def _listings(select: exp.Select) -> Iterator[tuple[exp.Expr, _Listing]]:
    """Yield the aggregates that list groups, the outermost nodes of each."""
    for item in select.expressions:
        for node in list(outside_subqueries(item)):
            wrapped = isinstance(node.parent, exp.Filter | exp.WithinGroup | exp.Window)
            listing = None if wrapped else _listing(node)
            if listing is not None:
                yield node, listing


def _listing(node: exp.Expr) -> _Listing | None:
    """Read an aggregate as one over groups; None for any other, and for other forms of it."""
    condition: exp.Expr | None = None
    terms: list[exp.Expr] = []
    function = node
    if isinstance(function, exp.Filter) and _holds(function, function.expression):
        condition, function = function.expression.this, function.this
    within = isinstance(function, exp.WithinGroup)
    if within and _holds(function, function.expression):
        terms, function = function.expression.expressions, function.this
    if not _holds(function):
        return None
    value: exp.Expr | None = function.this if isinstance(function.this, exp.Expr) else None
    if isinstance(function, exp.Mode):
        if within == (value is not None) or len(terms) > 1 or not _holds(*terms):
            return None
        mode_of = terms[0].this if terms else value
        return None if mode_of is None else _Listing(function, mode_of, condition)
    if within:
        return None
    if isinstance(function, exp.Anonymous):
        of_one = fold(function.name) == _HISTOGRAM and len(function.expressions) == 1
        return _Listing(function, function.expressions[0], condition) if of_one else None
    if not isinstance(function, exp.ArrayAgg | exp.GroupConcat):
        return None
    if isinstance(value, exp.Order) and _holds(value, *value.expressions):
        terms, value = value.expressions, value.this
    if not isinstance(value, exp.Distinct) or not _holds(value) or len(value.expressions) != 1:
        return None
    (value,) = value.expressions
    separator = function.args.get("separator")
    constant = separator is None or isinstance(separator, exp.Literal)
    if not constant or any(term.this != value for term in terms):
        return None
    ordered = tuple(term for term in terms if isinstance(term, exp.Ordered))
    return _Listing(function, value, condition, ordered)


def _holds(*nodes: exp.Expr) -> bool:
    """Tell whether nodes have arguments that are read, and no others."""
    read = [(_READ.get(type(node)), node) for node in nodes]
    return all(known is not None and known.hold(node) for known, node in read)


def _written(listing: _Listing, select: exp.Select) -> exp.Subquery:
    """Write what stands for an aggregate, over the rows of a SELECT."""
    function = listing.function
    value, number = generated_column(_VALUE), generated_column(_NUMBER)
    order = [
        exp.Ordered(this=value.copy(), **{name: term.args.get(name) for name in _DIRECTION})
        for term in listing.terms
    ] or [exp.Ordered(this=value.copy())]
    if isinstance(function, exp.Mode):
        groups = _groups(listing, select, counted=False)
        most = exp.Ordered(this=exp.Count(this=exp.Star()), desc=True)
        groups.set("order", exp.Order(expressions=[most]))
        groups.set("limit", exp.Limit(expression=exp.Literal.number(1)))
        made: exp.Expr = value
    elif isinstance(function, exp.Anonymous):
        groups = _groups(listing, select, counted=True)
        entry = exp.Anonymous(this="row", expressions=[value, number])
        entries = exp.ArrayAgg(this=exp.Order(this=entry, expressions=order))
        made = exp.Anonymous(this="map_from_entries", expressions=[entries])
    else:
        groups = _rows(listing.value, listing.condition, select)
        groups.set("distinct", exp.Distinct())
        made = function.copy()
        made.set("this", exp.Order(this=value, expressions=order))
    source = exp.Subquery(this=groups, alias=exp.TableAlias(this=exp.to_identifier("listed")))
    return exp.Subquery(this=exp.Select(expressions=[made], from_=exp.From(this=source)))


def _groups(listing: _Listing, select: exp.Select, *, counted: bool) -> exp.Select:
    """Write the question for the groups of values that are not NULL."""
    value = listing.value
    known = exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))
    kept = known if listing.condition is None else exp.and_(listing.condition.copy(), known)
    groups = _rows(value, kept, select)
    groups.set("group", exp.Group(expressions=[value.copy()]))
    if counted:
        groups.append("expressions", exp.alias_(exp.Count(this=exp.Star()), _NUMBER, quoted=True))
    return groups


def _rows(value: exp.Expr, condition: exp.Expr | None, select: exp.Select) -> exp.Select:
    """Select a value from the rows of a SELECT for which a condition holds, too."""
    parts = {clause: select.args.get(clause) for clause in _OF_ROWS}
    made = exp.Select(expressions=[exp.alias_(value.copy(), _VALUE, quoted=True)])
    for clause, part in parts.items():
        copied = [each.copy() for each in part] if isinstance(part, list) else part and part.copy()
        made.set(clause, copied)
    if condition is not None:
        where = made.args.get("where")
        both = condition.copy() if where is None else exp.and_(where.this, condition.copy())
        made.set("where", exp.Where(this=both))
    return made
