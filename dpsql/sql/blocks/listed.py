"""Aggregates that list the groups of a value, written with released groups.

    SELECT mode(ward) FROM visits
    SELECT (SELECT v FROM (SELECT ward AS v FROM visits WHERE ward IS NOT NULL GROUP BY ward
                           ORDER BY COUNT(*) DESC LIMIT 1))

    SELECT doctor, mode(ward) FROM visits GROUP BY doctor
    SELECT doctor, (SELECT v FROM (SELECT doctor AS k, ward AS v, COUNT(*) AS n FROM visits
                                   WHERE ward IS NOT NULL GROUP BY doctor, ward)
                    WHERE k = released.doctor AND n > 0 ORDER BY n DESC, v LIMIT 1)
    FROM (SELECT doctor FROM visits GROUP BY doctor) AS released

    SELECT string_agg(DISTINCT ward, ', ') FROM visits
    SELECT (SELECT string_agg(v, ', ' ORDER BY v) FROM (SELECT DISTINCT ward AS v FROM visits))

    SELECT approx_top_k(ward, 3) FROM visits
    SELECT (SELECT list(v ORDER BY n DESC, v) FROM
            (SELECT ward AS v, COUNT(*) AS n FROM visits WHERE ward IS NOT NULL GROUP BY ward
             ORDER BY COUNT(*) DESC LIMIT 3))

    SELECT histogram(ward) FROM visits
    SELECT (SELECT map_from_entries(list(row(v, n) ORDER BY v)) FROM
            (SELECT ward AS v, COUNT(*) AS n FROM visits WHERE ward IS NOT NULL GROUP BY ward))

    SELECT entropy(ward) FROM visits
    SELECT (SELECT log2(sum(n)) - sum(n * log2(n)) / sum(n) FROM (… the same … WHERE n > 0))

APPROX_TOP_COUNT(x, 3) lists the numbers of rows as well. Of each group, the most frequent values
are the first ones of a list of all. ANY_VALUE(x) is the same as mode(x): each value of the group is
right, and the most frequent one is what noise hides least. The question for the groups is a block
like any other, of its sensitivity and price; lists are made of what was released, in order. Other
aggregates beside stay a block of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.sql.expressions.call import WRAPPERS
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.lineage.names import generated_column
from dpsql.sql.lineage.relation import Identity, Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put

_HISTOGRAM, _ENTROPY = "histogram", "entropy"
_TOP_COUNT: Final = "approx_top_count"
_MOST_LISTED: Final = 1000
_USUAL: Final = (exp.Mode, exp.AnyValue)
_AROUND: Final = (*WRAPPERS, exp.Window, exp.IgnoreNulls, exp.RespectNulls)
_READ: Final[Mapping[type[exp.Expr], NodeArguments]] = {
    **dict.fromkeys(_USUAL, NodeArguments("this")),
    exp.ApproxTopK: NodeArguments("this expression"),
    exp.ArrayAgg: NodeArguments("this"),
    exp.GroupConcat: NodeArguments("this separator"),
    exp.Anonymous: NodeArguments("this expressions"),
    exp.Distinct: NodeArguments("expressions"),
    exp.Order: NodeArguments("this expressions"),
    exp.Ordered: NodeArguments("this desc nulls_first"),
    exp.Filter: NodeArguments("this expression"),
    exp.IgnoreNulls: NodeArguments("this"),
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
class ListedGroups:
    """An aggregate over the groups of a ``value``, of rows for which a ``condition`` holds."""

    function: exp.Expr
    value: exp.Expr
    condition: exp.Expr | None
    terms: tuple[exp.Ordered, ...] = ()
    first: int | None = None
    """How many of the most frequent values it lists; None if all."""

    @property
    def usual(self) -> bool:
        """True if it is the most frequent value, and no list."""
        return isinstance(self.function, _USUAL)


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


def _listings(select: exp.Select) -> Iterator[tuple[exp.Expr, ListedGroups]]:
    """Yield the aggregates that list groups, the outermost nodes of each."""
    for item in select.expressions:
        for node in list(outside_subqueries(item)):
            listing = listing_of(node)
            if listing is not None:
                yield node, listing


def listing_of(node: exp.Expr) -> ListedGroups | None:
    """Read an aggregate as one over groups; None for any other, and for other forms of it."""
    if isinstance(node.parent, _AROUND):
        return None
    condition: exp.Expr | None = None
    terms: list[exp.Expr] = []
    function = node
    if isinstance(function, exp.Filter) and _holds(function, function.expression):
        condition, function = function.expression.this, function.this
    while isinstance(function, exp.IgnoreNulls) and _holds(function):  # as they do anyway
        function = function.this
        if not isinstance(function, (*_USUAL, exp.IgnoreNulls)):
            return None
    within = isinstance(function, exp.WithinGroup)
    if within and _holds(function, function.expression):
        terms, function = function.expression.expressions, function.this
    if not _holds(function):
        return None
    value: exp.Expr | None = function.this if isinstance(function.this, exp.Expr) else None
    if isinstance(function, exp.AnyValue):
        return None if within or value is None else ListedGroups(function, value, condition)
    if isinstance(function, exp.Mode):
        if within == (value is not None) or len(terms) > 1 or not _holds(*terms):
            return None
        mode_of = terms[0].this if terms else value
        return None if mode_of is None else ListedGroups(function, mode_of, condition)
    if within:
        return None
    if isinstance(function, exp.ApproxTopK):
        return _most_frequent(function, value, function.expression, condition)
    if isinstance(function, exp.Anonymous) and fold(function.name) == _TOP_COUNT:
        match function.expressions:
            case [of, number]:
                return _most_frequent(function, of, number, condition)
        return None
    if isinstance(function, exp.Anonymous):
        known = fold(function.name) in (_HISTOGRAM, _ENTROPY)
        of_one = known and len(function.expressions) == 1
        return ListedGroups(function, function.expressions[0], condition) if of_one else None
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
    return ListedGroups(function, value, condition, ordered)


def _most_frequent(
    function: exp.Expr, value: exp.Expr | None, number: object, condition: exp.Expr | None
) -> ListedGroups | None:
    first = int(number.this) if isinstance(number, exp.Literal) and number.is_int else 0
    if value is None or not 0 < first <= _MOST_LISTED:
        return None
    return ListedGroups(function, value, condition, first=first)


def _holds(*nodes: exp.Expr) -> bool:
    """Tell whether nodes have arguments that are read, and no others."""
    read = [(_READ.get(type(node)), node) for node in nodes]
    return all(known is not None and known.hold(node) for known, node in read)


def by_group(
    listing: ListedGroups, keys: Sequence[tuple[exp.Expr, exp.Expr]], where: exp.Expr | None
) -> tuple[exp.Subquery, exp.Select]:
    """Write an aggregate of each released group as a value that is looked up in another question.

    Both are returned. ``keys`` are those of the rows, each with that of a released group; ``where``
    is the condition of all rows. The question has no FROM: it is over the same rows.
    """
    kept = [each for each in (where, listing.condition) if each is not None]
    if not _lists_keys(listing):
        kept.append(_known(listing.value))
    names = [f"{INTERNAL_PREFIX}key{place}" for place in range(len(keys))]
    own = [key for key, _ in keys]
    items = [*zip(own, names, strict=True), (listing.value, _VALUE)]
    groups = exp.Select(
        expressions=[exp.alias_(item.copy(), name, quoted=True) for item, name in items],
        group=exp.Group(expressions=[item.copy() for item, _ in items]),
    )
    if kept:
        groups.set("where", exp.Where(this=exp.and_(*(each.copy() for each in kept))))
    if not _lists_keys(listing):
        groups.append("expressions", _counted())
    same: list[exp.Expr] = [
        exp.NullSafeEQ(this=generated_column(name), expression=released.copy())
        for name, (_, released) in zip(names, keys, strict=True)
    ]
    found = _over(groups, _made(listing))
    if listing.usual:  # noise alone is no value that there is
        number, value = generated_column(_NUMBER), generated_column(_VALUE)
        same.append(exp.GT(this=number.copy(), expression=exp.Literal.number(0)))
        terms = [exp.Ordered(this=number, desc=True), exp.Ordered(this=value)]
        found.set("order", exp.Order(expressions=terms))
        found.set("limit", exp.Limit(expression=exp.Literal.number(1)))
    found.set("where", exp.Where(this=exp.and_(*same)))
    return exp.Subquery(this=found), groups


def _written(listing: ListedGroups, select: exp.Select) -> exp.Subquery:
    """Write what stands for an aggregate, over the rows of a SELECT."""
    kept = [] if listing.condition is None else [listing.condition]
    if not _lists_keys(listing):
        kept.append(_known(listing.value))
    groups = _rows(listing.value, kept, select)
    if _lists_keys(listing):
        groups.set("distinct", exp.Distinct())
    else:
        groups.set("group", exp.Group(expressions=[listing.value.copy()]))
    first = 1 if listing.usual else listing.first
    if first is not None:
        most = exp.Ordered(this=exp.Count(this=exp.Star()), desc=True)
        groups.set("order", exp.Order(expressions=[most]))
        groups.set("limit", exp.Limit(expression=exp.Literal.number(first)))
    if not listing.usual and not _lists_keys(listing):
        groups.append("expressions", _counted())
    return exp.Subquery(this=_over(groups, _made(listing)))


def _made(listing: ListedGroups) -> exp.Expr:
    """Write what an aggregate makes of released groups."""
    value, number = generated_column(_VALUE), generated_column(_NUMBER)
    if listing.usual:
        return value
    order = [
        exp.Ordered(this=value.copy(), **{name: term.args.get(name) for name in _DIRECTION})
        for term in listing.terms
    ] or [exp.Ordered(this=value.copy())]
    if listing.first is not None:
        return _most_frequent_of(listing, value, number)
    if isinstance(listing.function, exp.Anonymous) and fold(listing.function.name) == _ENTROPY:
        return _entropy(number)
    if not _lists_keys(listing):
        entry = exp.Anonymous(this="row", expressions=[value, number])
        entries = exp.ArrayAgg(this=exp.Order(this=entry, expressions=order))
        return exp.Anonymous(this="map_from_entries", expressions=[entries])
    made = listing.function.copy()
    made.set("this", exp.Order(this=value, expressions=order))
    return made


def _entropy(number: exp.Expr) -> exp.Expr:
    """Write the entropy in bits of numbers of rows; noise may make one of no rows negative."""
    zero = exp.Literal.number(0)
    some = exp.GT(this=number, expression=zero)

    def summed(value: exp.Expr) -> exp.Expr:
        return exp.Sum(this=exp.Case(ifs=[exp.If(this=some.copy(), true=value)]))

    def logarithm(value: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="log2", expressions=[value])

    weighted = exp.Mul(this=number.copy(), expression=logarithm(number.copy()))
    mean = exp.Div(this=summed(weighted), expression=summed(number.copy()))
    bits = exp.Sub(this=logarithm(summed(number.copy())), expression=mean)
    return exp.Coalesce(this=bits, expressions=[zero.copy()])


def _most_frequent_of(listing: ListedGroups, value: exp.Expr, number: exp.Expr) -> exp.Expr:
    """Write the list of the most frequent values, or of these with their numbers of rows."""
    order = [exp.Ordered(this=number.copy(), desc=True), exp.Ordered(this=value.copy())]
    entry = value
    if isinstance(listing.function, exp.Anonymous):
        parts = {"value": value, "count": number}
        named = [exp.PropertyEQ(this=exp.to_identifier(n), expression=v) for n, v in parts.items()]
        entry = exp.Struct(expressions=named)
    found = exp.ArrayAgg(this=exp.Order(this=entry, expressions=order))
    last = exp.Literal.number(listing.first)
    return exp.Bracket(
        this=found, expressions=[exp.Slice(this=exp.Literal.number(1), expression=last)]
    )


def _lists_keys(listing: ListedGroups) -> bool:
    """Tell whether an aggregate lists all values, NULL among them, and needs no numbers of them."""
    return isinstance(listing.function, exp.ArrayAgg | exp.GroupConcat)


def _over(groups: exp.Select, made: exp.Expr) -> exp.Select:
    """Select one value from the answer to a question for groups."""
    source = exp.Subquery(this=groups, alias=exp.TableAlias(this=exp.to_identifier("listed")))
    return exp.Select(expressions=[made], from_=exp.From(this=source))


def _counted() -> exp.Expr:
    return exp.alias_(exp.Count(this=exp.Star()), _NUMBER, quoted=True)


def _known(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=exp.paren(value.copy()), expression=exp.Null()))


def _rows(value: exp.Expr, kept: Sequence[exp.Expr], select: exp.Select) -> exp.Select:
    """Select a value from the rows of a SELECT for which conditions hold, too."""
    parts = {clause: select.args.get(clause) for clause in _OF_ROWS}
    made = exp.Select(expressions=[exp.alias_(value.copy(), _VALUE, quoted=True)])
    for clause, part in parts.items():
        copied = [each.copy() for each in part] if isinstance(part, list) else part and part.copy()
        made.set(clause, copied)
    if kept:
        where = made.args.get("where")
        before = [] if where is None else [where.this]
        both = exp.and_(*before, *(each.copy() for each in kept))
        made.set("where", exp.Where(this=both))
    return made
