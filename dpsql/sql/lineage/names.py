"""Resolves names in expressions over rows: columns of a relation, or aliases.

A name is looked for by the analyst's spelling and becomes a column of generated SQL. What it was
called is kept beside it, for messages and for the names of the answer's columns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.core.sql_types import UNKNOWN, SqlType
from dpsql.errors import QueryRefused, UnknownName
from dpsql.sql.expressions.alike import write_alike
from dpsql.sql.expressions.enum_order import mark_enumerated
from dpsql.sql.expressions.legality import outside_subqueries, refusal
from dpsql.sql.lineage.relation import Field, Relation
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import put, to_sql

Meaning: TypeAlias = Callable[[exp.Column], exp.Expr | None]
"""The resolved expression that a name stands for, or None if it is to be a column's name."""

_RESOLVED: Final = "resolved"
_CLOCK_WITHOUT_BRACKETS: Final = frozenset({"sysdate", "systimestamp", "sysdatetime"})


def opaque(field: Field, node: exp.Expr, text: str) -> QueryRefused:
    """Build the error for a column of which nothing but its presence is known."""
    return refusal(
        text,
        f"of {field.name}, of type {field.type}, nothing can be asked but whether there is a value",
        "expression_not_allowed",
        node,
        hint=f"Available: {field.name} IS NULL, IS NOT NULL and COUNT({field.name}). For more, the "
        "owner adds a generated column of each part that is asked for.",
    )


def _asks_whether(node: exp.Column) -> bool:
    """Tell whether a column stands where its presence counts, or where it is passed on as it is."""
    place: exp.Expr = node
    while isinstance(place.parent, exp.Paren):
        place = place.parent
    above = place.parent
    if isinstance(above, exp.Is):
        return isinstance(above.expression, exp.Null)
    return above is None or isinstance(above, exp.Count | exp.Alias | exp.Select | exp.Group)


class Names:
    """Resolves the column names of one statement."""

    def __init__(self, tree: exp.Query, text: str) -> None:
        self.text = text
        self._mentioned = _mentioned(tree)
        self._named = 0

    def new_column(self) -> str:
        """Make a column name that nothing else in the statement has."""
        self._named += 1
        return f"{INTERNAL_PREFIX}c{self._named}"

    def new_alias(self) -> str:
        """Make an alias for a select item that is added to the statement and named in it."""
        name = self.new_column()
        if self._mentioned is not None:
            self._mentioned |= {name}
        return name

    def may_mean(self, field: Field) -> bool:
        """Tell whether the statement mentions a column, by its name or with its whole table."""
        return self._mentioned is None or fold(field.name) in self._mentioned

    def resolve(
        self, root: exp.Expr, relation: Relation, meaning: Meaning | None = None
    ) -> exp.Expr:
        """Replace the analyst's column names below ``root`` by those of the relation, in place.

        Parts that are written as others become those first; the expression is returned, which is
        another node if it is such a part. ``meaning`` is asked first what stands for a name.
        Raises ``UnknownName`` or ``QueryRefused`` with the place.
        """
        root = in_known_words(root, relation)
        for node in columns_below(root):
            instead = None if meaning is None else meaning(node)
            if instead is None:
                self.resolve_column(node, relation)
            else:
                put(node, instead)
        return root

    def resolve_column(self, node: exp.Column, relation: Relation) -> Field:
        """Replace one column's name. Raises as :meth:`resolve`."""
        if isinstance(node.this, exp.Star):
            raise self.refuse("whole rows and qualified stars cannot be released", "raw_rows", node)
        if node.args.get("db") is not None:  # a name of no table that stands here
            raise self._not_one(node, relation, 0)
        matches = relation.matches(node.table, node.name)
        if len(matches) != 1:
            raise self._not_one(node, relation, len(matches))
        if matches[0].type.is_opaque and not _asks_whether(node):
            raise opaque(matches[0], node, self.text)
        _point_to(node, matches[0])
        return matches[0]

    def over_aliases(self, node: exp.Expr, select: exp.Select, source: Relation) -> exp.Expr:
        """Copy an expression over rows, resolved; names that are no columns are aliases."""
        aliases = aliases_of(select)

        def meaning(column: exp.Column) -> exp.Expr | None:
            if column.table or source.matches("", column.name):
                return None
            found = aliases.get(fold(column.name))
            return None if found is None else exp.paren(self._resolved(found, source), copy=False)

        return self._resolved(node, source, meaning)

    def _resolved(
        self, node: exp.Expr, relation: Relation, meaning: Meaning | None = None
    ) -> exp.Expr:
        """Return a resolved copy."""
        holder = exp.Paren(this=node.copy())
        self.resolve(holder, relation, meaning)
        found: exp.Expr = holder.this
        return found

    def _not_one(self, node: exp.Column, relation: Relation, count: int) -> UnknownName:
        if count:
            return UnknownName(
                f"the column {node.name} stands for more than one column",
                code="ambiguous_column",
                place=place_of(self.text, node),
                hint="Write the table's name or alias before it.",
            )
        if node.table and relation.matches("", node.table):
            return UnknownName(
                f"{node.table} is a column, and its fields cannot be used here",
                code="unknown_column",
                place=place_of(self.text, node),
                hint="Ask the data owner for a view with the part as a column of its own.",
            )
        shown = (f.name for f in relation.fields if not f.name.startswith(INTERNAL_PREFIX))
        names = list(dict.fromkeys(shown))
        close = difflib.get_close_matches(node.name, names, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Columns: {', '.join(names[:20])}."
        if node.this.args.get("quoted") and not close:
            hint = (
                f"A text stands in single quotes: {to_sql(exp.Literal.string(node.name))}. {hint}"
            )
        elif fold(node.name) in _CLOCK_WITHOUT_BRACKETS:
            hint = "The day is CURRENT_DATE, the moment now()."
        written = ".".join(part.name for part in node.parts)
        where = f"table {relation.tables[0]} has" if len(relation.tables) == 1 else "there is"
        return UnknownName(
            f"{where} no column {written}",
            code="unknown_column",
            place=place_of(self.text, node),
            hint=hint,
        )

    def refuse(self, reason: str, code: str, node: object, hint: str | None = None) -> QueryRefused:
        """Build the error for a part of the statement, with its place."""
        return refusal(self.text, reason, code, node, hint)


def in_known_words(root: exp.Expr, relation: Relation) -> exp.Expr:
    """Write the parts of an expression, not resolved yet, as those that there are rules for."""

    def type_of(column: exp.Column) -> SqlType | None:
        if _RESOLVED in column.meta:
            return relation.type_of(column.name)
        matches = relation.matches(column.table, column.name)
        if len(matches) > 1:
            return UNKNOWN  # which is refused where names are resolved
        return matches[0].type if matches else None

    return write_alike(root, type_of)


def columns_below(root: exp.Expr) -> list[exp.Column]:
    """List the columns that an expression names outside its subqueries, in the text's order.

    Those that are resolved when they are made are no names any more.
    """
    return [
        node
        for node in outside_subqueries(root)
        if isinstance(node, exp.Column) and _RESOLVED not in node.meta
    ]


def aliases_of(select: exp.Select) -> dict[str, exp.Expr]:
    """Map the aliases of a select list, folded, to what they mean; the last of several alike."""
    items = select.expressions
    return {fold(item.alias): item.this for item in items if isinstance(item, exp.Alias)}


def sorting_key(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return what a key of ORDER BY or DISTINCT ON stands for: an alias, before any column.

    In other clauses, and within expressions, a column goes before an alias of its name.
    """
    bare = key.unnest()
    named = isinstance(bare, exp.Column) and not bare.table
    return aliases_of(select).get(fold(bare.name), key) if named else key


def generated_column(name: str) -> exp.Column:
    """Return a column node of generated SQL."""
    return exp.column(exp.to_identifier(name, quoted=True))


def resolved_column(name: str, called: str) -> exp.Column:
    """Return a column node for a part of a statement, under the name of the part."""
    column = mark_resolved(generated_column(name))
    column.meta["name"] = called
    return column


def mark_resolved(column: exp.Column) -> exp.Column:
    """Mark a column node as one of generated SQL, and return it."""
    column.meta[_RESOLVED] = True
    return column


def _mentioned(tree: exp.Query) -> frozenset[str] | None:
    """Collect the names a statement mentions, folded; None if it means columns unnamed."""
    names = set()
    for node in tree.walk():
        natural = isinstance(node, exp.Join) and node.method == "NATURAL"
        starred = isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count)
        if natural or starred or isinstance(node, exp.Pivot | exp.Columns):
            return None
        if isinstance(node, exp.Identifier):
            names.add(fold(node.name))
    return frozenset(names)


def _point_to(node: exp.Column, field: Field) -> None:
    """Resolve a column node to a field; its written name is kept for display."""
    if node.table:
        node.meta["table"] = node.table
        node.set("table", None)
    if field.column != field.name:
        node.meta["name"] = field.name
    if field.enumerated:
        mark_enumerated(node)
    node.this.set("this", field.column)
    node.this.set("quoted", True)
