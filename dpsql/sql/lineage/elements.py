"""The elements of lists in private rows, each in a row of its own, as joins with public numbers.

    SELECT patient_id, UNNEST(string_split(tags, ',')) AS tag FROM visits
    SELECT patient_id, CASE n.place WHEN 1 THEN split_part(tags, ',', 1) … END AS tag
    FROM visits JOIN range(1, 51) AS n(place) ON n.place <= len(string_split(tags, ','))

    SELECT t.tag, COUNT(*) FROM visits v, UNNEST(v.tags) AS t(tag) GROUP BY t.tag
    SELECT CASE n.place WHEN 1 THEN v.tags[1] … END AS tag, COUNT(*)
    FROM visits v JOIN range(1, 51) AS n(place) ON n.place <= len(v.tags) GROUP BY 1

A row becomes rows of its own unit, as by any join with a public table, and contributions are
bounded after that. It becomes at most as many as there are numbers: further elements of a list are
left out, as docs/sql.md says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.expressions.row_constants import text_literal_of
from dpsql.sql.lineage.relation import Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import NAMED, display, output_name, put, written_name

MOST_ELEMENTS: Final = 50
"""Elements of a list in a row that become rows."""
_MOST_LEVELS: Final = 3
_NUMBERS: Final = f"{INTERNAL_PREFIX}elements"
_PLACE: Final = f"{INTERNAL_PREFIX}place"
_ONE: Final = NodeArguments("this")
_SPLIT: Final = NodeArguments("this expression")
_UNNEST: Final = NodeArguments("expressions alias")
_LATERAL: Final = NodeArguments("this alias view? cross_apply?")
_JOIN: Final = NodeArguments("this on kind side method")
_ALIAS: Final = NodeArguments("this columns")
_OF_PATTERNS: Final = frozenset("\\.[]{}()*+?^$|")
_CROSS: Final = frozenset({"", "CROSS", "INNER"})


def lists_elements(select: exp.Select) -> bool:
    """Tell whether a SELECT may have a row for each element of a list."""
    return any(True for _ in _exploded(select)) or any(True for _ in _joined(select))


def place_elements(select: exp.Select, private: Callable[[], Relation | None]) -> None:
    """Write the lists of a SELECT over private rows as numbers that are joined; it is changed.

    ``private`` are the rows of its sources; None if they are not private. Several lists, outer
    joins, positions, windows over rows, names that may be others', ``*`` and lists of lists of
    lists of lists are left as they are, to be refused.
    """
    listed = [*_exploded(select), *_joined(select)]
    if len(listed) != 1 or _levels(select) > _MOST_LEVELS or _has_windows(select):
        return
    rows = private()
    if rows is None:
        return
    (node,) = listed
    if isinstance(node, exp.Explode):
        elements = _elements(node.this, rows)
        if elements is not None and not _is_by_pattern(node):
            _name_items(select)
            (node,) = _exploded(select)
            put(node, _written_as(elements[0], node))
            select.append("joins", _numbered(elements[1]))
        return
    source = node.this if isinstance(node, exp.Join) else node
    found = _source(source)
    elements = None if found is None else _elements(found[0], rows)
    if found is None or elements is None or not _is_inner(node):
        return
    _, table, column = found
    if any(_is_of(item, table) for item in select.expressions):
        return  # the elements are among the columns of * and u.*, and would be left out
    if _is_ambiguous(select, table, column, rows):
        return
    if isinstance(node, exp.Join):
        put(node, _numbered(elements[1]))
    else:
        select.set("laterals", None)
        select.append("joins", _numbered(elements[1]))
    _name_items(select)
    for reference in list(_references(select, table, column)):
        put(reference, _written_as(elements[0].copy(), reference))


def _written_as(element: exp.Expr, typed: exp.Expr) -> exp.Expr:
    """Keep how the element of a list was typed, for messages and names."""
    element.meta[NAMED] = display(typed)
    return element


def _levels(select: exp.Select) -> int:
    """Count the lists that become rows in a SELECT and below, as rows below are read for each."""
    return len(list(select.find_all(exp.Explode, exp.Unnest, exp.Lateral)))


def _has_windows(select: exp.Select) -> bool:
    """Tell whether windows stand beside a list: they may be over its elements, or over its rows."""
    parts = (part for item in select.iter_expressions() for part in outside_subqueries(item))
    return select.args.get("group") is None and any(isinstance(p, exp.Window) for p in parts)


def _is_of(item: exp.Expr, table: str) -> bool:
    """Tell whether an item of a select list is all columns, or all of a table."""
    return item.is_star and (not isinstance(item, exp.Column) or fold(item.table) == fold(table))


def _name_items(select: exp.Select) -> None:
    """Give the items of a select list the names that their words make."""
    for item in list(select.expressions):
        if not item.is_star and not isinstance(item, exp.Alias):
            name = item.name if isinstance(item, exp.Column) else output_name(item)
            put(item, exp.alias_(item.copy(), name, quoted=True))


def _exploded(select: exp.Select) -> Iterator[exp.Explode]:
    """Yield UNNEST in the select list."""
    for item in select.expressions:
        for node in outside_subqueries(item):
            if not isinstance(node, exp.Explode) or not _ONE.hold(node) or not _is_of_rows(node):
                continue
            if node.find_ancestor(exp.AggFunc, exp.Window, exp.Select) is select:
                yield node


def _joined(select: exp.Select) -> Iterator[exp.Join | exp.Lateral]:
    """Yield UNNEST beside the sources, and LATERAL VIEW."""
    for join in select.args.get("joins") or ():
        if isinstance(join.this, exp.Unnest | exp.Lateral) and _is_of_rows(join.this):
            yield join
    yield from select.args.get("laterals") or ()


def _is_of_rows(node: exp.Expr) -> bool:
    return node.find(exp.Column) is not None and node.find(exp.Query) is None


def _is_inner(node: exp.Join | exp.Lateral) -> bool:
    if isinstance(node, exp.Lateral):
        return True
    applied = node.this.args.get("cross_apply")  # False: OUTER APPLY keeps rows without elements
    if not _JOIN.hold(node) or applied is False:
        return False
    on = node.args.get("on")
    always = on is None or (isinstance(on, exp.Boolean) and on.this)
    return always and not node.side and not node.method and node.kind in _CROSS


def _source(node: exp.Expr) -> tuple[exp.Expr, str, str] | None:
    """Return the list of UNNEST, with the names of its rows and of their column."""
    alias = node.args.get("alias")
    if alias is not None and not _ALIAS.hold(alias):
        return None
    usual = "unnest"
    listed: exp.Expr
    if isinstance(node, exp.Lateral):
        if not _LATERAL.hold(node):
            return None
        if isinstance(node.this, exp.Split):  # T-SQL's STRING_SPLIT
            usual, listed = "value", node.this
        elif isinstance(node.this, exp.Explode) and _ONE.hold(node.this):
            usual, listed = "col", node.this.this
            if node.args.get("view") and _is_by_pattern(node.this):
                return None
        elif isinstance(node.this, exp.Unnest):
            inner = _source(node.this)
            if inner is None:
                return None
            listed = inner[0]
        else:
            return None
    elif isinstance(node, exp.Unnest) and _UNNEST.hold(node) and len(node.expressions) == 1:
        listed = node.expressions[0]
    else:
        return None
    columns = [] if alias is None else [each.name for each in alias.args.get("columns") or ()]
    table = "" if alias is None or alias.this is None else alias.this.name
    if len(columns) > 1:
        return None
    if columns:
        return listed, table, columns[0]
    # As of UNNEST of constants, the column is called like its rows, as in GoogleSQL.
    return listed, table, table if table and usual == "unnest" else usual


def _is_by_pattern(node: exp.Explode) -> bool:
    """Tell whether a text is split as Spark does, by a regular expression that is more than a mark.

    EXPLODE is Spark's word.
    """
    listed = node.this.unnest()
    if written_name(node) != "explode" or not isinstance(listed, exp.Split):
        return False
    return bool(set(text_literal_of(listed.expression) or "") & _OF_PATTERNS)


def _elements(listed: exp.Expr, rows: Relation) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the element at the place of a row of numbers, and how many a list has.

    Of a text that is split by a constant, or of a column of lists.
    """
    bare = listed.unnest()
    if isinstance(bare, exp.Split):
        mark = text_literal_of(bare.expression)
        if not mark or not _SPLIT.hold(bare):
            return None
    elif not isinstance(bare, exp.Column):
        return None
    else:
        named = rows.matches(bare.table, bare.name)
        if any(field.type.element is None for field in named):
            return None

    def at(place: int) -> exp.Expr:
        if isinstance(bare, exp.Split):
            return exp.SplitPart(
                this=bare.this.copy(),
                delimiter=bare.expression.copy(),
                part_index=exp.Literal.number(place),
            )
        return exp.Bracket(this=bare.copy(), expressions=[exp.Literal.number(place)])

    ifs = [
        exp.If(this=exp.Literal.number(place), true=at(place))
        for place in range(1, MOST_ELEMENTS + 1)
    ]
    return exp.Case(this=_place(), ifs=ifs), exp.Length(this=bare.copy())


def _place() -> exp.Expr:
    return exp.column(_PLACE, _NUMBERS, quoted=True)


def _numbered(count: exp.Expr) -> exp.Join:
    """Join with the numbers of elements, up to how many there are."""
    numbers = exp.GenerateSeries(
        start=exp.Literal.number(1),
        end=exp.Literal.number(MOST_ELEMENTS + 1),
        is_end_exclusive=True,
    )
    names = [exp.to_identifier(name, quoted=True) for name in (_NUMBERS, _PLACE)]
    alias = exp.TableAlias(this=names[0], columns=names[1:])
    return exp.Join(
        this=exp.Table(this=numbers, alias=alias), on=exp.LTE(this=_place(), expression=count)
    )


def _is_ambiguous(select: exp.Select, table: str, column: str, rows: Relation) -> bool:
    """Tell whether a column of a SELECT may be the elements and a column of its rows."""
    for part in select.iter_expressions():
        for node in outside_subqueries(part):
            if isinstance(node, exp.Column) and fold(node.name) == fold(column):
                named = fold(node.table) in ("", fold(table))
                if named and rows.matches(node.table, node.name):
                    return True
    return False


def _references(select: exp.Select, table: str, column: str) -> Iterator[exp.Column]:
    """Yield the columns of a SELECT that are the elements."""
    for part in select.iter_expressions():
        for node in outside_subqueries(part):
            if not isinstance(node, exp.Column) or fold(node.name) != fold(column):
                continue
            if fold(node.table) in ("", fold(table)):
                yield node
