"""Lists of a unit's values, in a subquery by unit: questions about them are other aggregates.

    SELECT patient_id, len(list(ward)), list_contains(list(ward), 'eyes'),
           array_to_string(list(ward ORDER BY day), ' > ') FROM visits GROUP BY patient_id

The length of a list is a number of rows, whether it has a value is that of a count of rows, its
elements in an order are first or last values, and their text is STRING_AGG. Each is an aggregate of
the unit's rows, exactly as other ones are, on every engine; no list is made, however many rows a
unit has. Of a list itself, and of its order where none is written, nothing can be asked.

Where the list is a column of the subquery, questions about it around move inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put

_LISTED: Final = NodeArguments("this")
_SORTED: Final = NodeArguments("this nulls_first?")
_DISTINCT: Final = NodeArguments("expressions")
_ALONE: Final = NodeArguments("this expression? check_null? binary? encoding?")
_TWO: Final = NodeArguments("this expression ensure_variant? check_null? null_safe?")
_FILTERED: Final = NodeArguments("this expression")
_PLACE: Final = NodeArguments("this expressions offset? safe?")
_ELEMENTS: Final = NodeArguments("expressions bracket_notation? value_constructor?")
_SUMMED: Final[Mapping[str, type[exp.AggFunc]]] = {
    "list_sum": exp.Sum,
    "list_avg": exp.Avg,
    "list_min": exp.Min,
    "list_max": exp.Max,
}


class _List:
    """A list of values of rows, in an order or none."""

    def __init__(self, node: exp.ArrayAgg, condition: exp.Where | None) -> None:
        of = node.this
        self._order = of if isinstance(of, exp.Order) else None
        of = of.this if isinstance(of, exp.Order) else of
        self.distinct = isinstance(of, exp.Distinct)
        self.value: exp.Expr = of.expressions[0] if isinstance(of, exp.Distinct) else of
        self.condition = condition

    def of_rows(self, made: exp.Expr) -> exp.Expr:
        """Write an aggregate of the rows of the list."""
        if self.condition is None:
            return made
        return exp.Filter(this=made, expression=self.condition.copy())

    def where_there(self, value: exp.Expr) -> exp.Expr:
        """Write a value that is NULL where there is no list, as no row is in it."""
        if self.condition is None:  # a group has a row
            return exp.paren(value)
        some = exp.GT(this=self.of_rows(exp.Count(this=exp.Star())), expression=_number(0))
        return exp.paren(exp.Case(ifs=[exp.If(this=some, true=value)]))

    def size(self) -> exp.Expr:
        if not self.distinct:
            return self.where_there(self.of_rows(exp.Count(this=exp.Star())))
        values = exp.Count(this=exp.Distinct(expressions=[self.value.copy()]))
        missing = exp.Is(this=exp.paren(self.value.copy()), expression=exp.null())
        some = exp.GT(this=self.of_rows(exp.CountIf(this=missing)), expression=_number(0))
        one = exp.Case(ifs=[exp.If(this=some, true=_number(1))], default=_number(0))
        return self.where_there(exp.Add(this=self.of_rows(values), expression=exp.paren(one)))

    def values(self) -> exp.Expr:
        """Write the number of its values, each once, without NULL."""
        values = exp.Count(this=exp.Distinct(expressions=[self.value.copy()]))
        return self.where_there(self.of_rows(values))

    def has(self, element: exp.Expr) -> exp.Expr:
        same = exp.EQ(this=exp.paren(self.value.copy()), expression=exp.paren(element.copy()))
        return exp.GT(this=self.of_rows(exp.CountIf(this=same)), expression=_number(0))

    def summed(self, function: type[exp.AggFunc]) -> exp.Expr | None:
        if self.distinct:
            return None
        return exp.paren(self.of_rows(function(this=self.value.copy())))

    def end(self, place: int) -> exp.Expr | None:
        """Write its first or last element, in an order that is said."""
        if self._order is None or self.distinct or self.condition is not None:
            return None
        ordered = self._order.copy()
        function = {1: exp.First, -1: exp.Last}.get(place)
        return None if function is None else exp.paren(function(this=ordered))

    def text(self, separator: exp.Expr) -> exp.Expr | None:
        if self._order is None and not self.distinct:
            return None  # no order is said, and the text has one
        of = self._order.copy() if self._order is not None else self._each()
        return exp.paren(self.of_rows(exp.GroupConcat(this=of, separator=separator.copy())))

    def _each(self) -> exp.Expr:
        return exp.Distinct(expressions=[self.value.copy()])


def write_lists(select: exp.Select) -> exp.Select:
    """Write questions about lists, in a SELECT by unit, as other aggregates."""
    if not any(True for _ in _lists(select)):
        return select
    select = select.copy()
    for item in list(select.expressions):
        if not isinstance(item, exp.Alias) and item.find(exp.ArrayAgg) is not None:
            name = exp.to_identifier(output_name(item), quoted=True)
            put(item, exp.Alias(this=item.copy(), alias=name))
    for node in list(_asked(select)):
        found = _written(node, _list_of)
        if found is not None:
            put(node, found)
    return select


def move_into(
    select: exp.Select, is_by_unit: Callable[[exp.Select], bool], new: Callable[[], str]
) -> None:
    """Move questions about lists of a subquery by unit into it; both are changed.

    ``new`` makes an alias that nothing else in the statement has.
    """
    from_, joins = select.args.get("from_"), select.args.get("joins") or []
    for source in [] if from_ is None else [from_.this, *(join.this for join in joins)]:
        inner = source.this if isinstance(source, exp.Subquery) else None
        if not isinstance(inner, exp.Select) or not inner.args.get("group"):
            continue
        lists = {
            fold(item.alias): item
            for item in inner.expressions
            if isinstance(item, exp.Alias) and _list_of(item.this) is not None
        }
        if lists and not any(item.is_star for item in select.expressions) and is_by_unit(inner):
            _move(select, source, inner, lists, new)


def _move(
    select: exp.Select,
    source: exp.Subquery,
    inner: exp.Select,
    lists: Mapping[str, exp.Alias],
    new: Callable[[], str],
) -> None:
    names = [fold(item.alias or output_name(item)) for item in inner.expressions]
    alias = source.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return

    def listed(node: exp.Expr) -> _List | None:
        node = node.unnest()
        if not isinstance(node, exp.Column) or names.count(fold(node.name)) != 1:
            return None
        if node.table and fold(node.table) != fold(source.alias):
            return None
        item = lists.get(fold(node.name))
        return None if item is None else _list_of(item.this)

    for node in list(_asked(select)):
        found = _written(node, listed)
        if found is None:
            continue
        name = new()
        inner.append(
            "expressions", exp.Alias(this=found, alias=exp.to_identifier(name, quoted=True))
        )
        column = exp.column(name, table=source.alias or None, quoted=True)
        is_item = node.parent is select and node.arg_key == "expressions"
        shown = exp.to_identifier(output_name(node), quoted=True)
        put(node, exp.Alias(this=column, alias=shown) if is_item else column)
    used = {fold(column.name) for column in select.find_all(exp.Column)}
    kept = [
        each
        for each in inner.expressions
        if each.alias_or_name not in lists or fold(each.alias) in used
    ]
    inner.set("expressions", kept)


def _parts(select: exp.Select) -> Iterator[exp.Expr]:
    clauses = ("where", "group", "having", "qualify", "order")
    roots = [*select.expressions, *(select.args.get(name) for name in clauses)]
    for root in roots:
        if root is not None:
            yield from outside_subqueries(root)


def _lists(select: exp.Select) -> Iterator[exp.Expr]:
    return (node for node in _parts(select) if isinstance(node, exp.ArrayAgg))


def _asked(select: exp.Select) -> list[exp.Expr]:
    """List the calls that may ask something of a list, outer ones first."""
    kinds = (
        *(exp.Length, exp.ArraySize, exp.ArrayContains, exp.ArrayOverlaps, exp.ArrayToString),
        *(exp.Bracket, exp.Anonymous, exp.In),
    )
    return [node for node in _parts(select) if isinstance(node, kinds)]


def _list_of(node: exp.Expr) -> _List | None:
    """Read a list of values; None for anything else."""
    node = node.unnest()
    condition = None
    if isinstance(node, exp.Filter) and _FILTERED.hold(node):
        node, condition = node.this, node.expression
    if not isinstance(node, exp.ArrayAgg) or not _LISTED.hold(node):
        return None
    of = node.this.this if isinstance(node.this, exp.Order) else node.this
    if isinstance(of, exp.Distinct) and (not _DISTINCT.hold(of) or len(of.expressions) != 1):
        return None
    return _List(node, condition) if isinstance(of, exp.Expr) else None


_Reads = Callable[[exp.Expr], _List | None]


def _written(node: exp.Expr, read: _Reads) -> exp.Expr | None:
    """Write a call on a list with aggregates; None for any other call."""
    match node:
        case exp.Length() | exp.ArraySize() if _ALONE.hold(node) and _is_one(node.expression):
            inner = node.this.unnest()
            if isinstance(inner, exp.ArrayDistinct):
                found = read(inner.this)
                return None if found is None else found.values()
            found = read(node.this)
            return None if found is None else found.size()
        case exp.ArrayContains() if _TWO.hold(node):
            return _having(read(node.this), [node.expression])
        case exp.In() if node.args.get("field") is not None:
            return _having(read(node.args["field"]), [node.this])
        case exp.ArrayOverlaps() if _TWO.hold(node):
            return _having(read(node.this), _elements(node.expression))
        case exp.ArrayToString() if _TWO.hold(node):
            inner = node.this.unnest()
            found = read(node.this)
            if isinstance(inner, exp.ArraySort) and _SORTED.hold(inner):
                found = read(inner.this)
                found = found if found is not None and found.distinct else None
            return None if found is None else found.text(node.expression)
        case exp.Bracket() if _PLACE.hold(node) and len(node.expressions) == 1:
            found = read(node.this)
            return None if found is None else found.end(_place(node.expressions[0]))
        case exp.Anonymous() if node.expressions:
            return _of_name(fold(node.name), read(node.expressions[0]), node.expressions[1:])
    return None


def _of_name(name: str, found: _List | None, others: list[exp.Expr]) -> exp.Expr | None:
    if found is None:
        return None
    if name == "list_has_all" and len(others) == 1:
        return _having(found, _elements(others[0]), every=True)
    if name in ("list_unique", "array_unique") and not others:
        return found.values()
    function = _SUMMED.get(name)
    return None if function is None or others else found.summed(function)


def _having(
    found: _List | None, elements: list[exp.Expr] | None, *, every: bool = False
) -> exp.Expr | None:
    """Write whether a list has some elements, or all of them; they are constants."""
    if (
        found is None
        or not elements
        or not all(isinstance(e.unnest(), exp.Literal) for e in elements)
    ):
        return None
    tests = [found.has(element) for element in elements]
    return found.where_there(exp.and_(*tests) if every else exp.or_(*tests))


def _elements(node: exp.Expr) -> list[exp.Expr] | None:
    node = node.unnest()
    return node.expressions if isinstance(node, exp.Array) and _ELEMENTS.hold(node) else None


def _is_one(dimension: object) -> bool:
    return dimension is None or (isinstance(dimension, exp.Literal) and dimension.name == "1")


def _place(index: exp.Expr) -> int:
    """Read a place in a list: 1 for the first, -1 for the last; 0 for another."""
    if isinstance(index, exp.Neg) and isinstance(index.this, exp.Literal):
        return -1 if index.this.name == "1" else 0
    return 1 if isinstance(index, exp.Literal) and index.name == "1" else 0


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
