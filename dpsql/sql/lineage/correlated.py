"""Subqueries for one value of the group that a row belongs to, by equal columns.

    … WHERE price > (SELECT 1.2 * AVG(price) FROM items j WHERE j.kind = i.kind)

They are asked for all groups at once, ``SELECT j.kind, 1.2 * AVG(price) … GROUP BY j.kind``: a
question like any other, over private rows with the sensitivity of its aggregates. A row around has
the value of the group whose keys equal its own: a function of what was released. Without such a
group, also where it was too small to come out, a count is 0 and any other value NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import count
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.call import is_aggregate
from dpsql.sql.expressions.first_answers import GroupKeys
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.lineage.names import columns_below, generated_column
from dpsql.syntax.arguments import NodeArguments

_READ: Final = NodeArguments("expressions from_ joins where hint")
_EQUAL: Final = NodeArguments("this expression")
_COUNTS: Final = (exp.Count, exp.CountIf, exp.ApproxDistinct)
_STRICT: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.Literal)
"""What is NULL where the aggregates in it are."""
Holds = Callable[[exp.Column], bool]


def group_keys(query: exp.Select, own: Holds, around: Holds) -> GroupKeys:
    """Find the conditions that name the group of a row around; none for other subqueries.

    ``own`` tells columns of the subquery's rows, ``around`` those of the rows around it.
    """
    where, items = query.args.get("where"), query.expressions
    if where is None or not query.args.get("from_") or not _READ.hold(query) or len(items) != 1:
        return ()
    item = items[0].unalias()
    parts = [part for root in (item, where.this) for part in outside_subqueries(root)]
    if any(isinstance(part, exp.Query) for part in parts):
        return ()
    if not (_is_count(query) or _is_strict(item)) or not all(map(own, columns_below(item))):
        return ()
    keys = []
    for place, condition in enumerate(conjuncts(where.this)):
        if all(map(own, columns_below(condition))):
            continue
        inside = _inside(condition, own, around)
        if inside is None:
            return ()
        keys.append((place, inside))
    return tuple(keys)


def _is_count(query: exp.Select) -> bool:
    """Tell whether a subquery counts, so that its value is 0 where there are no rows."""
    return isinstance(query.expressions[0].unalias().unnest(), _COUNTS)


def asked_by_group(query: exp.Select, keys: GroupKeys) -> tuple[exp.Select, list[exp.Expr]]:
    """Ask a subquery for all groups, keys first; return it with the keys of a row around."""
    conditions = list(conjuncts(query.args["where"].this))
    inside = [conditions[place].args[side].copy() for place, side in keys]
    others = {"this": "expression", "expression": "this"}
    around = [conditions[place].args[others[side]].copy() for place, side in keys]
    places = {place for place, _ in keys}
    rest = [each.copy() for place, each in enumerate(conditions) if place not in places]
    grouped = query.copy()
    grouped.set("where", exp.Where(this=exp.and_(*rest)) if rest else None)
    grouped.set("expressions", [*inside, grouped.expressions[0].unalias()])
    grouped.set("group", exp.Group(expressions=[key.unnest().copy() for key in inside]))
    return grouped, around


def looked_up(query: exp.Select, keys: GroupKeys) -> exp.Expr:
    """Write a subquery as the value of a group among all groups."""
    grouped, _ = asked_by_group(query, keys)
    return found_by_keys(query, keys, grouped)


def found_by_keys(query: exp.Select, keys: GroupKeys, groups: exp.Select) -> exp.Expr:
    """Write a subquery as the value, in the last column of ``groups``, of the row around's group.

    The other columns are the keys.
    """
    _, around = asked_by_group(query, keys)
    value_name, *names = _free_names(around)
    items = zip(groups.expressions, [*names, value_name], strict=True)
    groups = groups.copy()
    groups.set("expressions", [exp.alias_(i.unalias(), name, quoted=True) for i, name in items])
    same = [
        exp.EQ(this=generated_column(name), expression=exp.paren(key))
        for name, key in zip(names, around, strict=True)
    ]
    made = exp.Select(
        expressions=[generated_column(value_name)],
        from_=exp.From(
            this=exp.Subquery(this=groups, alias=exp.TableAlias(this=exp.to_identifier("grouped")))
        ),
        where=exp.Where(this=exp.and_(*same)),
    )
    value = exp.Subquery(this=made)
    if not _is_count(query):
        return value
    return exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])


def _free_names(around: Sequence[exp.Expr]) -> list[str]:
    """Name a value and its keys as none of the columns around is named."""
    taken = {fold(column.name) for key in around for column in key.find_all(exp.Column)}
    mark = next(mark for mark in ("_" * n for n in count()) if not _beginning(mark, taken))
    return [f"{mark}value", *(f"{mark}key{place}" for place in range(len(around)))]


def _beginning(mark: str, names: Collection[str]) -> bool:
    return any(name.startswith((f"{mark}value", f"{mark}key")) for name in names)


def _is_strict(item: exp.Expr) -> bool:
    """Tell whether a value is computed of aggregates, and is NULL where these are."""
    if is_aggregate(item):
        return item.find(*_COUNTS) is None
    below = list(item.iter_expressions())
    return isinstance(item, _STRICT) and any(map(_is_strict, below)) and all(map(_computes, below))


def _computes(item: exp.Expr) -> bool:
    return _is_strict(item) or all(isinstance(part, _STRICT) for part in item.walk())


def _inside(condition: exp.Expr, own: Holds, around: Holds) -> str | None:
    """Find the side of an equality that is of the subquery's rows, the other being of those around.

    None for other conditions.
    """
    if not isinstance(condition, exp.EQ) or not _EQUAL.hold(condition):
        return None
    for side, other in (("this", "expression"), ("expression", "this")):
        inner, outer = (columns_below(condition.args[name]) for name in (side, other))
        if inner and outer and all(map(own, inner)):
            outside = not any(map(own, outer)) and all(map(around, outer))
            return side if outside else None
    return None
