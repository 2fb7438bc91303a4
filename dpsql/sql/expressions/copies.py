"""How large expressions become where an engine writes out the columns that they are made of.

    WITH a AS (SELECT CASE WHEN k > 0 THEN k END AS k FROM t),
         b AS (SELECT CASE WHEN k > 0 THEN k END AS k FROM a) SELECT COUNT(*) FROM b WHERE k < 3

An optimiser carries a condition down to the rows, and puts what computes a column in its place.
Each level that names a column twice doubles it then, in memory that no limit of an engine counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.errors import QueryRefused
from dpsql.sql.expressions.text_growth import size_of_node
from dpsql.syntax.parse import place_of

MAX_COPIES: Final = 10_000
"""Nodes of an expression, once all columns of subqueries in it are written out."""
_FROM: Final = ("from_", "joins", "laterals")
_NOT_COPIED: Final = (exp.AggFunc, exp.Window)
_Sizes: TypeAlias = dict[str, int]


def refuse_copies(tree: exp.Query, text: str) -> None:
    """Refuse expressions over columns of subqueries that are copied too often from one to the next.

    Raises ``QueryRefused``. Checked by ``tests/sql/test_copies.py``, on the engine.
    """
    _Reading(text).outputs(tree, {}, None)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The columns that a SELECT may name: of its sources, of items before, and of those around.

    Sources have their names and the sizes of their columns, which are None of a table.
    """

    sources: list[tuple[str, _Sizes | None]] = field(default_factory=list)
    aliases: _Sizes = field(default_factory=dict)
    around: _Scope | None = None

    def size(self, column: exp.Column) -> int:
        """Return the largest size that a column can have, of any name where its own is missing."""
        name, table = fold(column.name), fold(column.table)
        sources = [sizes for alias, sizes in self.sources if not table or alias == table]
        found = [sizes[name] for sizes in sources if sizes is not None and name in sizes]
        if not table and name in self.aliases:
            found.append(self.aliases[name])
        if not found:  # an engine names ``k + k`` itself, and a table's column may be meant
            found = [size for sizes in sources for size in (sizes or {}).values()]
            if self.around is not None and None not in sources:
                found.append(self.around.size(column))
        return max(found, default=1)


class _Reading:
    def __init__(self, text: str) -> None:
        self.text = text

    def outputs(self, query: exp.Expr, ctes: Mapping[str, _Sizes], around: _Scope | None) -> _Sizes:
        """Return the sizes of the columns of a query by name, in order."""
        ctes = dict(ctes)
        with_ = query.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            ctes[fold(cte.alias)] = _named(cte, self.outputs(cte.this, ctes, around))
        if isinstance(query, exp.Subquery):
            return self.outputs(query.this, ctes, around)
        if isinstance(query, exp.SetOperation):
            sides = [self.outputs(side, ctes, around) for side in (query.this, query.expression)]
            others = list(sides[1].values())
            by_place = dict(zip(sides[0], others, strict=False))
            return {
                name: max(size, by_place.get(name, 1), sides[1].get(name, 1))
                for name, size in {**sides[1], **sides[0]}.items()
            }
        if isinstance(query, exp.Select):
            return self._of_select(query, ctes, around)
        return {}

    def _of_select(
        self, select: exp.Select, ctes: Mapping[str, _Sizes], around: _Scope | None
    ) -> _Sizes:
        scope = _Scope(around=around)
        for node in _own(select, _FROM):
            if isinstance(node, exp.Table):
                found = ctes.get(fold(node.name))
                named = found if found is None else _named(node, found)
                scope.sources.append((fold(node.alias_or_name), named))
            elif isinstance(node, exp.Query):
                inner = _named(node, self.outputs(node, ctes, scope))
                scope.sources.append((fold(node.alias_or_name), inner))
        for join in select.args.get("joins") or ():
            if join.args.get("on") is not None:
                self._size(join.args["on"], ctes, scope)
        outputs: _Sizes = {}
        for item in select.expressions:
            if item.is_star:
                self._add_all(item, ctes, scope, outputs)
                continue
            name = fold(item.alias_or_name)
            size = self._size(item, ctes, scope)
            outputs[name] = max(size, outputs.get(name, 1))
            if isinstance(item, exp.Alias):
                scope.aliases[name] = max(size, scope.aliases.get(name, 1))
        others = set(select.args) - {*_FROM, "expressions", "with_"}
        for node in _tops(select, others):
            self._size(node, ctes, scope)
        return outputs

    def _add_all(
        self, star: exp.Expr, ctes: Mapping[str, _Sizes], scope: _Scope, outputs: _Sizes
    ) -> None:
        """Add the columns of a star, renamed and replaced ones too."""
        table = fold(star.table) if isinstance(star, exp.Column) else ""
        for alias, sizes in scope.sources:
            if not table or alias == table:
                for name, size in (sizes or {}).items():
                    outputs[name] = max(size, outputs.get(name, 1))
        for node in star.find_all(exp.Alias):
            name = fold(node.alias)
            outputs[name] = max(self._size(node.this, ctes, scope), outputs.get(name, 1))

    def _size(self, node: exp.Expr, ctes: Mapping[str, _Sizes], scope: _Scope) -> int:
        """Count the nodes of an expression with all that its columns are made of."""
        sizes: dict[int, int] = {}
        copied = False  # an expression of the statement's own is as large as it is written
        parts = node.walk(prune=lambda each: isinstance(each, exp.Query))
        for part in reversed(list(parts)):  # what is inside comes first
            if isinstance(part, exp.Column):
                size = scope.size(part)
            elif isinstance(part, exp.Query):
                size = max(self.outputs(part, ctes, scope).values(), default=1)
            else:
                size = size_of_node(part, sizes)
            copied = copied or (size > 1 and isinstance(part, exp.Column | exp.Query))
            if copied and size > MAX_COPIES:
                raise QueryRefused(
                    "the query names columns of subqueries in expressions that are columns of "
                    "others, too many times",
                    code="query_too_large",
                    place=place_of(self.text, part),
                    hint=f"Written out, an expression may have {MAX_COPIES:,} parts: name a "
                    "computed column once in each subquery.",
                )
            sizes[id(part)] = 1 if isinstance(part, _NOT_COPIED) else size
        return sizes[id(node)]


def _named(source: exp.Expr, sizes: _Sizes) -> _Sizes:
    """Return the sizes of a source's columns by the names that its alias gives them."""
    columns = [fold(name) for name in getattr(source, "alias_column_names", [])]
    if not columns:
        return sizes
    given = list(sizes.values())
    return {**sizes, **dict(zip(columns, given, strict=False))}


def _own(select: exp.Select, clauses: Iterable[str]) -> Iterator[exp.Expr]:
    """Yield the nodes of some clauses, down to other queries."""
    for top in _tops(select, clauses):
        yield from top.walk(prune=lambda each: isinstance(each, exp.Query))


def _tops(select: exp.Select, clauses: Iterable[str]) -> Iterator[exp.Expr]:
    """Yield the topmost nodes of some clauses."""
    for clause in clauses:
        value = select.args.get(clause)
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Expr):
                yield node
