"""Names in a private block: columns of its rows, or aliases of its select list.

An alias is written out where it is used, and may use those before it. That is more than a
subquery over rows knows of (``Names.over_aliases``): there no alias stands for another, so nothing
can double, and of several that are alike the last counts, as in DuckDB. Here they are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.errors import QueryRefused, UnknownName
from dpsql.sql.blocks.noise_columns import is_noise_call
from dpsql.sql.expressions.call import is_aggregate
from dpsql.sql.lineage.names import Names
from dpsql.sql.lineage.relation import Relation
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import output_name, put

_MAX_EXPANSION = 10_000  # nodes


class Aliases:
    """The aliases of a select list, known from their definition on."""

    def __init__(self, select: exp.Select, relation: Relation, names: Names) -> None:
        self._select = select
        self._relation = relation
        self._names = names
        self._defined: dict[str, exp.Expr] = {}
        self._ambiguous: set[str] = set()  # aliases of several select items that differ
        self._expanded = 0

    def __bool__(self) -> bool:
        return bool(self._defined)

    def define(self, item: exp.Alias) -> None:
        """Add the alias of a resolved select item."""
        name = fold(item.alias)
        if self._defined.setdefault(name, item.this) != item.this:
            self._ambiguous.add(name)

    def has(self, node: exp.Expr) -> bool:
        """Tell whether a node is nothing but the name of an alias."""
        return isinstance(node, exp.Column) and not node.table and fold(node.name) in self._defined

    def resolve(self, root: exp.Expr, *, aliased: bool = True) -> None:
        """Resolve all names below ``root`` in place: columns, or aliases if they may stand there.

        Raises ``UnknownName`` or ``QueryRefused`` with the place.
        """

        def meaning(node: exp.Column) -> exp.Expr | None:
            # Noise is known of aggregates only, so there an alias comes before a column.
            if self._relation.matches(node.table, node.name) and not is_noise_call(node.parent):
                return None
            if aliased and self.has(node):
                return self._definition(node, fold(node.name))
            if self._in_expression():
                raise self._correlated(node)
            return None

        self._names.resolve(root, self._relation, meaning)

    def prefer(self, node: exp.Expr, keys: Sequence[exp.Expr]) -> None:
        """Replace names in HAVING by the select items they mean, after columns were resolved.

        As in DuckDB, this is what a name means that is neither a key nor inside an aggregate.
        """
        if isinstance(node, exp.Query) or is_aggregate(node) or any(node == key for key in keys):
            return
        name = fold(output_name(node)) if isinstance(node, exp.Column) else ""
        if name in self._defined and "table" not in node.meta:
            put(node, self._definition(node, name))
            return
        for child in list(node.iter_expressions()):
            self.prefer(child, keys)

    def _definition(self, node: exp.Expr, name: str) -> exp.Expr:
        """Return the definition of an alias."""
        if name in self._ambiguous:
            raise UnknownName(
                f"{name} is the name of several columns of the answer",
                code="ambiguous_column",
                place=place_of(self._names.text, node),
                hint="Give each column a name of its own.",
            )
        return exp.paren(self._expansion(self._defined[name]))

    def _expansion(self, definition: exp.Expr) -> exp.Expr:
        """Copy what stands for an alias. Aliases of aliases can double at every step."""
        self._expanded += sum(1 for _ in definition.walk())
        if self._expanded > _MAX_EXPANSION:
            raise self._names.refuse(
                "the aliases stand for too large expressions",
                "query_too_large",
                self._select,
                hint="An alias of an alias is written out each time: use fewer levels of them.",
            )
        copy: exp.Expr = definition.copy()
        return copy

    def _in_expression(self) -> bool:
        """Tell whether the SELECT stands in an expression, where outer columns can be seen."""
        around = self._select.parent
        while isinstance(around, exp.Subquery | exp.Paren):
            around = around.parent
        sources = exp.From | exp.Join | exp.CTE | exp.SetOperation
        return around is not None and not isinstance(around, sources)

    def _correlated(self, node: exp.Column) -> QueryRefused:
        return self._names.refuse(
            f"there is no column {node.name} here, and a subquery over private rows cannot depend "
            "on a row of the outer query",
            "subquery_over_private_rows",
            node,
            hint="GROUP BY the compared columns in a subquery of its own, and join its answer.",
        )
