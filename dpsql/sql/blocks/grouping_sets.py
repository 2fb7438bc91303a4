"""ROLLUP, CUBE and GROUPING SETS: each set is a private block of its own, with its own price.

A SELECT with several grouping sets becomes a UNION ALL of plain ones. A key that a set leaves out
is NULL there, and GROUPING(...) is a number:

    SELECT a, COUNT(*) FROM t GROUP BY ROLLUP (a) ORDER BY 1
    SELECT * FROM (SELECT a, COUNT(*) FROM t GROUP BY a
                   UNION ALL SELECT NULL, COUNT(*) FROM t) ORDER BY 1
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations, count, product
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.call import WRAPPERS
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.relation import Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put

_GROUP: Final = NodeArguments("expressions rollup cube grouping_sets")
MAX_SETS = 32
MAX_NODES = 3_000
"""Of the syntax trees of all sets together."""

Keys = tuple[exp.Expr, ...]
_SHARED: Final = "copied into every set"
_shared_numbers: Final = count()

_UNSELECTED = (
    *(exp.Column, exp.AggFunc, exp.Query, exp.Subquery, exp.Window, exp.Star),
    *(exp.Grouping, exp.GroupingId),
)
"""What an ORDER BY term of a union of sets has no place for, unless it is selected."""
_OUTER = ("order", "limit", "offset", "distinct", "with_")


def expand_grouping_sets(select: exp.Select, relation: Relation, text: str) -> bool:
    """Rewrite a SELECT with several grouping sets in place; False if it has none.

    ``relation`` is what its FROM clause means: as keys its columns go before select aliases.

    Raises ``QueryRefused`` for more than MAX_SETS sets, if they are too large together, or for an
    ORDER BY term of what is not in the select list.
    """
    group = select.args.get("group")
    if group is None or not _has_sets(group):
        return False
    if not _GROUP.hold(group):
        raise refusal(
            text,
            "this form of GROUP BY is not available",
            "group_by_form",
            group,
            hint="Write GROUP BY a, b, or ROLLUP, CUBE or GROUPING SETS of keys.",
        )
    definitions = {
        fold(item.alias): item.this
        for item in select.expressions
        if isinstance(item, exp.Alias) and not relation.matches("", item.alias)
    }
    _write_grouping(select, definitions)
    items = [item.unalias() for item in select.expressions]
    number, size = _count(group), sum(1 for _ in select.walk())
    if not 0 < number <= MAX_SETS:
        raise refusal(
            text,
            f"GROUP BY makes {number if number < 10**9 else 'very many'} grouping sets, and "
            f"{MAX_SETS} are the most",
            "too_many_grouping_sets",
            group,
            hint="Each set is a private answer with its own price: ask for fewer.",
        )
    if number * size > MAX_NODES:
        raise refusal(
            text,
            "the SELECT is too large to be answered for so many grouping sets",
            "query_too_large",
            group,
            hint="Each set is a SELECT of its own: ask for fewer sets, or fewer columns.",
        )
    sets = _sets_of_group(group, items, definitions)
    order = select.args.get("order")
    for term in order.expressions if order is not None else ():
        _order_by_outputs(term, select, relation, text)
    keys = tuple(dict.fromkeys(key for keys in sets for key in keys))
    _mark_shared(select)
    parts = [_part(select, keys, kept) for kept in sets]
    _become_union(select, parts)
    return True


def _write_grouping(select: exp.Select, definitions: Mapping[str, exp.Expr]) -> None:
    """Write what aliases stand for in GROUPING(…)."""
    for item in select.expressions:
        for node in list(item.find_all(exp.Grouping, exp.GroupingId)):
            for argument in list(node.expressions):
                named = isinstance(argument, exp.Column) and not argument.table
                if named and fold(argument.name) in definitions:
                    put(argument, definitions[fold(argument.name)].copy())


def shared_query(select: exp.Select) -> int | None:
    """Return the number of a subquery that several SELECTs share; None for other subqueries."""
    found: int | None = select.meta.get(_SHARED)
    return found


def _mark_shared(select: exp.Select) -> None:
    """Give numbers to the subqueries that every set has a copy of: one answer does for all."""
    roots = [*select.expressions, select.args.get("having"), select.args.get("qualify")]
    for root in roots:
        for subquery in () if root is None else root.find_all(exp.Select):
            subquery.meta[_SHARED] = next(_shared_numbers)


def _has_sets(group: exp.Group) -> bool:
    extra = any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets"))
    return extra or any(map(_is_sets, group.expressions))


def _is_sets(node: exp.Expr) -> bool:
    return isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets)


# -- which sets -----------------------------------------------------------------------------------


def _count(group: exp.Group) -> int:
    """Count the sets without making them.

    A hundred CUBEs have more than there is memory for.
    """
    plain = len(group.expressions)
    if group.args.get("rollup"):
        elements = [plain + 1]
    elif group.args.get("cube"):
        elements = [2**plain]
    else:
        elements = [_size(element) for element in group.expressions]
    elements += [_size(named) for named in group.args.get("grouping_sets") or ()]
    return math.prod(elements)


def _size(element: exp.Expr) -> int:
    members = len(element.expressions)
    if isinstance(element, exp.Rollup):
        return members + 1
    if isinstance(element, exp.Cube):
        return int(2**members)
    if isinstance(element, exp.GroupingSets):
        return sum(_size(member) for member in element.expressions)
    return 1


def _sets_of_group(
    group: exp.Group, items: list[exp.Expr], definitions: dict[str, exp.Expr]
) -> list[Keys]:
    """Multiply the elements of GROUP BY, each a list of sets."""

    def key(node: exp.Expr) -> exp.Expr:
        node = node if isinstance(node, exp.Subquery) else node.unnest()
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.this) <= len(items):
            return items[int(node.this) - 1]
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in definitions:
            return definitions[fold(node.name)]
        return node

    def keys(node: exp.Expr) -> Keys:
        if isinstance(node, exp.Tuple):
            return tuple(map(key, node.expressions))
        return (key(node),)

    def sets(node: exp.Expr) -> list[Keys]:
        members = [keys(member) for member in node.expressions]
        if isinstance(node, exp.Rollup):
            return [_joined(members[:size]) for size in range(len(members), -1, -1)]
        if isinstance(node, exp.Cube):
            sizes = range(len(members), -1, -1)
            return [_joined(chosen) for size in sizes for chosen in combinations(members, size)]
        return [
            found
            for member in node.expressions
            for found in (sets(member) if _is_sets(member) else [keys(member)])
        ]

    elements = [sets(e) if _is_sets(e) else [keys(e)] for e in group.expressions]
    if group.args.get("rollup"):  # GROUP BY a, b WITH ROLLUP
        elements = [[_joined(p) for p in _prefixes([e[0] for e in elements])]]
    elif group.args.get("cube"):
        whole = exp.Cube(expressions=[e.copy() for e in group.expressions])
        elements = [sets(whole)]
    for named in group.args.get("grouping_sets") or ():
        elements.append(sets(named))
    return [_joined(chosen) for chosen in product(*elements)]


def _prefixes(members: list[Keys]) -> list[list[Keys]]:
    return [members[:size] for size in range(len(members), -1, -1)]


def _joined(members: list[Keys] | tuple[Keys, ...]) -> Keys:
    return tuple(dict.fromkeys(key for member in members for key in member))


# -- one SELECT per set ---------------------------------------------------------------------------


def _part(select: exp.Select, keys: Keys, kept: Keys) -> exp.Select:
    """Build the SELECT of one grouping set: keys outside of it are NULL."""
    part = select.copy()
    part.meta.pop(_SHARED, None)  # of the whole, not of each of its sets
    for clause in _OUTER:
        part.set(clause, None)
    named = [
        exp.Alias(this=i.unalias(), alias=exp.to_identifier(i.alias or output_name(i), quoted=True))
        for i in part.expressions
    ]
    part.set("expressions", named)
    group = exp.Group(expressions=[key.copy() for key in kept]) if kept else None
    part.set("group", group)
    missing = [key for key in keys if not _is_one_of(key, kept)]
    roots = [*part.expressions, part.args.get("having"), part.args.get("qualify")]
    for root in roots:
        if root is not None:
            _leave_out(root, keys, missing, _sources(part))
    return part


def _sources(select: exp.Select) -> set[str]:
    """List the names by which columns of a FROM clause can be qualified."""
    from_, joins = select.args.get("from_"), select.args.get("joins") or []
    sources = [] if from_ is None else [from_.this, *(join.this for join in joins)]
    return {fold(source.alias_or_name) for source in sources} - {""}


def _leave_out_below(root: exp.Query, sources: set[str], missing: list[exp.Expr]) -> None:
    """Replace left-out keys by NULL in a subquery, where they are qualified by a source around."""
    for query in list(root.find_all(exp.Select)):
        around = sources - {name for each in query.find_all(exp.Select) for name in _sources(each)}
        for column in list(query.find_all(exp.Column)):
            if fold(column.table) in around and _is_one_of(column, missing):
                put(column, exp.null())


def _leave_out(node: exp.Expr, keys: Keys, missing: list[exp.Expr], sources: set[str]) -> None:
    """Replace left-out keys by NULL, and GROUPING(...) by its value.

    It goes top down, so that of a key inside another the outer one counts. An aggregate is of the
    rows, in which no key is left out.
    """
    if isinstance(node, exp.Grouping | exp.GroupingId):
        arguments = node.expressions
        if all(_is_one_of(argument, keys) for argument in arguments):  # else it is refused later
            bits = [_is_one_of(argument, missing) for argument in reversed(arguments)]
            number = sum(bit << position for position, bit in enumerate(bits))
            put(node, exp.Literal.number(number))
    elif _is_one_of(node, missing):
        put(node, exp.null())
    elif isinstance(node, (exp.AggFunc, *WRAPPERS)) or _is_one_of(node, keys):
        return
    elif isinstance(node, exp.Query):
        _leave_out_below(node, sources, missing)
    else:
        for child in list(node.iter_expressions()):
            _leave_out(child, keys, missing, sources)


def _is_one_of(node: exp.Expr, keys: Iterable[exp.Expr]) -> bool:
    return any(_same(node, key) for key in keys)


def _same(one: exp.Expr, other: exp.Expr) -> bool:
    """Tell whether two expressions are the same key, qualified or not."""
    if isinstance(one, exp.Column) and isinstance(other, exp.Column):
        tables = {fold(one.table), fold(other.table)} - {""}
        return fold(one.name) == fold(other.name) and len(tables) <= 1
    return one == other


# -- what stays outside ---------------------------------------------------------------------------


def _order_by_outputs(term: exp.Ordered, select: exp.Select, relation: Relation, text: str) -> None:
    """Make an ORDER BY term an ordinal of the select list, or an expression of its columns."""
    node = term.this
    if isinstance(node, exp.Literal) and node.is_int:
        return
    position = _output(node, select)
    if position is not None:
        node.replace(exp.Literal.number(position + 1))
    elif isinstance(node, exp.Literal) or not _of_outputs(node, select, relation):
        raise refusal(
            text,
            "with several grouping sets, ORDER BY is of columns of the select list",
            "order_not_selected",
            node,
            hint="Add what it names to the select list, under names of their own.",
        )


def _output(node: exp.Expr, select: exp.Select) -> int | None:
    """Return the place of a term in the select list, by name or by form."""
    name = fold(node.name) if isinstance(node, exp.Column) and not node.table else None
    for position, item in enumerate(select.expressions):
        if name == fold(item.alias_or_name) or _same(node, item.unalias()):
            return position
    return None


def _of_outputs(node: exp.Expr, select: exp.Select, relation: Relation) -> bool:
    """Write an expression of columns of the select list with their names, in place, top down.

    False if something in it is none of them. Inside of an expression a column of the tables goes
    before one of the select list.
    """
    if isinstance(node, _UNSELECTED):
        return False
    names = [fold(item.alias or output_name(item)) for item in select.expressions]
    for child in list(node.iter_expressions()):
        position = _output(child, select)
        if position is None:
            if not _of_outputs(child, select, relation):
                return False
            continue
        item = select.expressions[position]
        hidden = not _same(child, item.unalias()) and relation.matches("", child.name)
        if hidden or names.count(names[position]) > 1:
            return False
        put(child, exp.column(item.alias or output_name(item), quoted=True))
    return True


def _become_union(select: exp.Select, parts: list[exp.Select]) -> None:
    union: exp.Query = parts[0]
    for part in parts[1:]:
        union = exp.Union(this=union, expression=part, distinct=False)
    for clause in [name for name in select.args if name not in _OUTER]:
        select.set(clause, None)
    select.set("expressions", [exp.Star()])
    select.set("from_", exp.From(this=exp.Subquery(this=union)))
