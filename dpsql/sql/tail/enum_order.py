"""Order of ENUM values in a tail: by the list that the policy declares, or none.

Released keys of an ENUM are texts. ORDER BY such a key sorts by the values that are declared of
it, in their order; any other order of them, or one of values that nobody declared, is refused. A
name of a column is followed wherever it stands in the statement: it may have one meaning too many,
and never one too few.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.ir.query import Block
from dpsql.ir.relations import PublicSource
from dpsql.sql.expressions.enum_order import (
    enum_order,
    is_enumerated,
    ordered_operands,
    outcomes,
)
from dpsql.sql.lineage.names import generated_column

_PASSING: Final = (
    *(exp.Max, exp.Min, exp.AnyValue, exp.First, exp.Last, exp.FirstValue, exp.LastValue),
    *(exp.Lag, exp.Lead, exp.NthValue, exp.Mode, exp.ArgMax, exp.ArgMin, exp.Filter, exp.Window),
    *(exp.IgnoreNulls, exp.RespectNulls, exp.Distinct, exp.Alias),
)
"""Nodes with a value of their first part."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """A value of an ENUM, the values that are declared of it in their order, and its key."""

    values: tuple[object, ...] | None
    key: exp.Expr | None = field(default=None, compare=False)


def settle_enum_order(
    tree: exp.Query, blocks: Sequence[Block], public: Sequence[PublicSource], text: str
) -> None:
    """Have ORDER BY sort ENUM keys by their declared values; refuse every other order of them.

    Raises ``QueryRefused`` (``enum_order``).
    """
    enums = _Enums({block.name: block for block in blocks}, public)
    if not enums.any:
        return
    enums.follow(tree)
    for node in list(tree.walk()):
        for operand in ordered_operands(node):
            compared = enums.of(operand) if isinstance(operand, exp.Expr) else None
            if compared is not None:
                raise enum_order(compared.key or operand, text)
        if isinstance(node, exp.Ordered):
            for term in enums.sorted_by(node):
                found = enums.of(term)
                if found is None:
                    continue
                if found.values is None or not _may_compute(node):
                    raise enum_order(found.key or term, text)
                node.set("this", _place_in(found.values, term))


class _Enums:
    """Finds values of ENUMs in a statement, by the names of columns."""

    def __init__(self, blocks: Mapping[str, Block], public: Sequence[PublicSource]) -> None:
        self._blocks = blocks
        self._ctes: dict[str, exp.Expr] = {}
        columns = (column for source in public for column in source.table.columns)
        self._names = {fold(c.name): _Listed(None) for c in columns if c.enumerated}
        keys = (key.expression for block in blocks.values() for key in block.keys)
        self.any = bool(self._names) or any(map(is_enumerated, keys))

    def follow(self, tree: exp.Query) -> None:
        """Find the names that values of ENUMs get in a statement."""
        self._ctes = {fold(cte.alias): cte for cte in tree.find_all(exp.CTE)}
        before: dict[str, _Listed] | None = None
        while before != self._names:
            before = dict(self._names)
            for select in tree.find_all(exp.Select):
                for item in select.expressions:
                    self._note(item.alias_or_name, self.of(item))
            for alias in tree.find_all(exp.TableAlias):
                below = alias.parent.this if alias.parent is not None else None
                items = self._columns(below) if isinstance(below, exp.Query) else []
                for place, column in enumerate(alias.args.get("columns") or ()):
                    if items is None:
                        self._note(column.name, _Listed(None))
                    elif place < len(items):
                        self._note(column.name, self.of(items[place]))

    def _note(self, name: str, found: _Listed | None) -> None:
        if found is not None and name:
            before = self._names.setdefault(fold(name), found)
            if before != found:
                self._names[fold(name)] = _Listed(None)

    def of(self, node: exp.Expr) -> _Listed | None:
        """Return the ENUM that an expression has a value of; None for other values."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return self._of_column(node)
        if isinstance(node, _PASSING):
            parts: Iterator[object] = iter((node.this, *node.expressions))
        elif isinstance(node, exp.Query):
            parts = iter(node.selects)
        else:
            parts = outcomes(node)
        found = [self.of(part) for part in parts if isinstance(part, exp.Expr)]
        known = [each for each in found if each is not None]
        if not known:
            return None
        return known[0] if isinstance(node, exp.Alias) else _Listed(None)

    def _of_column(self, node: exp.Column) -> _Listed | None:
        if not node.name.startswith(INTERNAL_PREFIX):
            return self._names.get(fold(node.name))
        select = node.find_ancestor(exp.Select)
        from_ = None if select is None else select.args.get("from_")
        block = None if from_ is None else self._blocks.get(from_.this.name)
        for index, key in enumerate(() if block is None else block.keys):
            assert block is not None
            if block.key_column(index) == node.name and is_enumerated(key.expression):
                plain = isinstance(key.expression, exp.Column) and not key.origin
                return _Listed(key.domain if plain else None, key.expression)
        return None

    def sorted_by(self, ordered: exp.Ordered) -> list[exp.Expr]:
        """List what a term of ORDER BY sorts by: itself, or items of the select list."""
        term = ordered.this
        query = ordered.parent.parent if ordered.parent is not None else None
        if not isinstance(query, exp.Query):
            return [term]
        if isinstance(term, exp.Var) or (isinstance(term, exp.Literal) and term.is_int):
            items = self._columns(query)
            if items is None:  # of a star nobody knows what it stands for: of any column
                items = [generated_column(name) for name in self._names]
            elif isinstance(term, exp.Literal):  # and ORDER BY ALL sorts by each
                items = items[int(term.this) - 1 : int(term.this)]
            return items
        named = [item.unalias() for item in query.selects if _is_called(item, term)]
        return named[:1] or [term]

    def _columns(self, query: exp.Query) -> list[exp.Expr] | None:
        """List the columns of a query, by name where a star stands for them; None if unknown."""
        found: list[exp.Expr] = []
        for item in query.selects:
            if not item.is_star:
                found.append(item.unalias())
                continue
            select = item.find_ancestor(exp.Select)
            plain = isinstance(item, exp.Star) and not any(item.args.values())
            if select is None or not plain or select.args.get("joins"):
                return None
            source = select.args["from_"].this
            named = _names_of(self._ctes.get(fold(source.name)), source)
            if "*" in named:
                return None
            found += map(generated_column, named)
        return found


def _names_of(cte: exp.Expr | None, source: exp.Expr) -> list[str]:
    """List the columns of a subquery, or of a CTE by its name; a star for those not known."""
    of = cte if isinstance(source, exp.Table) else source
    query = None if of is None else of.this
    if of is None or not isinstance(query, exp.Query):
        return ["*"]
    renamed = (
        [column.name for column in of.args["alias"].args.get("columns") or ()] if of.alias else []
    )
    return [*renamed, *query.named_selects[len(renamed) :]]


def _is_called(item: exp.Expr, term: exp.Expr) -> bool:
    named = isinstance(item, exp.Alias) and isinstance(term, exp.Column) and not term.table
    return named and fold(item.alias) == fold(term.name)


def _may_compute(ordered: exp.Ordered) -> bool:
    """Tell whether a term of ORDER BY may be an expression that is not in the select list."""
    query = ordered.parent.parent if ordered.parent is not None else None
    if isinstance(ordered.this, exp.Var):
        return False
    if isinstance(query, exp.Select):
        return query.args.get("distinct") is None
    return isinstance(query, exp.Window)


def _place_in(values: Sequence[object], node: exp.Expr) -> exp.Expr:
    """Return the place of a value in a list, as an expression; NULL where it is NULL."""
    ifs = [
        exp.If(this=exp.Literal.string(str(value)), true=exp.Literal.number(place))
        for place, value in enumerate(values)
    ]
    return exp.Case(this=node.copy(), ifs=ifs)
