"""Resolves names of tables in FROM clauses, and in columns like ``schema.table.column``.

Every name gets the one form that the rest of validation reads: tables have no catalog, and a schema
only where they need one; columns have no schema. What names no table of this database is left as it
is, to be refused where it is looked up. No CTE answers a name with a schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.table_name import MAIN, NameRules, TableName
from dpsql.errors import UnknownName
from dpsql.syntax.parse import parse, place_of

_QUALIFIERS: Final = ("catalog", "db")


def is_qualified(table: exp.Table) -> bool:
    """Tell whether a table's name has several parts, which rules out a CTE."""
    return any(table.args.get(part) is not None for part in _QUALIFIERS)


def name_of(table: exp.Table) -> TableName | None:
    """Return the name of the table that a node names; None for other databases and functions."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("catalog") is not None:
        return None
    schema = table.args.get("db")
    return TableName(table.name, MAIN if schema is None else schema.name)


def tables_named(node: exp.Expr, ctes: Set[str] = frozenset()) -> Iterator[exp.Table]:
    """Yield the references that no CTE in scope answers; of recursive ones, parts may mean a table.

    ``ctes`` are the folded names in scope. In a CTE those before it are, and not its own.
    """
    if isinstance(node, exp.Table) and (is_qualified(node) or fold(node.name) not in ctes):
        yield node
    with_ = node.args.get("with_")
    if with_ is not None:
        for cte in with_.expressions:
            yield from tables_named(cte, ctes)
            if not with_.args.get("recursive"):
                ctes = ctes | {fold(cte.alias)}
    for child in node.iter_expressions():
        if child is not with_:
            yield from tables_named(child, ctes)


def parsed(text: str, rules: NameRules) -> exp.Query:
    """Parse a query and settle its names. Raises what these do."""
    tree = parse(text)
    settle_names(tree, text, rules)
    return tree


def settle_names(tree: exp.Expr, text: str, rules: NameRules) -> None:
    """Give the names of tables and columns their one form, in place; a second time changes nothing.

    Raises ``UnknownName`` (``ambiguous_column``) for a column of a table that another one of the
    same name hides.
    """
    ctes = {fold(cte.alias) for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if is_qualified(table):
            _settle_table(table, ctes, rules)
    columns = [c for c in tree.find_all(exp.Column) if c.args.get("db") is not None]
    if columns:
        _Columns(tree, text, rules).settle(columns)


def _settle_table(table: exp.Table, ctes: Set[str], rules: NameRules) -> None:
    found = rules.named(_parts(table))
    if found is None or not isinstance(table.this, exp.Identifier):
        return
    if fold(found.schema) not in rules.listed:  # errors show the name as it was written
        return
    # Without its schema, a CTE of that name would answer it.
    plain = found.in_main and fold(table.name) not in ctes
    table.set("catalog", None)
    table.set("db", None if plain else exp.to_identifier(found.schema, quoted=True))


def _parts(node: exp.Table | exp.Column) -> list[str]:
    """List the parts of a name up to the table's own."""
    last = "this" if isinstance(node, exp.Table) else "table"
    found = (node.args.get(part) for part in (*_QUALIFIERS, last))
    return [part.name for part in found if part is not None]


class _Columns:
    """Finds the sources that columns with a schema belong to."""

    def __init__(self, tree: exp.Expr, text: str, rules: NameRules) -> None:
        self._text = text
        self._rules = rules
        self._tables = {id(table) for table in tables_named(tree)}
        self._taken = {fold(name.name) for name in tree.find_all(exp.Identifier)}

    def settle(self, columns: list[exp.Column]) -> None:
        for column in columns:
            name = self._rules.named(_parts(column))
            found = None if name is None else self._source(column, name)
            if found is not None:
                column.set("table", exp.to_identifier(found.alias_or_name, quoted=True))
                column.set("db", None)
                column.set("catalog", None)

    def _source(self, column: exp.Column, name: TableName) -> exp.Expr | None:
        """Find the table of a qualified column, in the nearest SELECT that reads it."""
        shown: set[str] = set()
        above = column.find_ancestor(exp.Select)
        while above is not None:
            sources = list(_sources(above))
            for source in sources:
                if self._is(source, name):
                    self._tell_apart(source, sources, above, column, shown)
                    return source
            shown.update(fold(source.alias_or_name) for source in sources)
            above = above.find_ancestor(exp.Select)
        return None

    def _is(self, source: exp.Expr, name: TableName) -> bool:
        """Tell whether a source is that table, under no other name."""
        if not isinstance(source, exp.Table) or id(source) not in self._tables:
            return False
        if name_of(source) != name:
            return False
        alias = source.args.get("alias")
        return alias is None or alias.this is None or alias.meta.get(_GIVEN) is True

    def _tell_apart(
        self,
        source: exp.Expr,
        sources: list[exp.Expr],
        select: exp.Select,
        column: exp.Column,
        hidden: Set[str],
    ) -> None:
        """Give a source of a SELECT a name that tells it from the others, if its own does not.

        The others are those of the same FROM, and ``hidden``, the names of SELECTs within it.
        """
        own = fold(source.alias_or_name)
        same = [each for each in sources if fold(each.alias_or_name) == own]
        bare = len(same) > 1 and any(_is_bare(c, own) for c in select.find_all(exp.Column))
        if bare or any(e.args.get("alias") for e in same if e is not source):
            raise UnknownName(
                f"{source.alias_or_name} stands for more than one table here",
                code="ambiguous_column",
                place=place_of(self._text, column),
                hint="Give the tables aliases, and write these before the columns.",
            )
        if len(same) > 1:
            for each in same:
                self._name(each)
        elif own in hidden:
            meant = [c for c in select.find_all(exp.Column) if self._means(c, source, own)]
            self._name(source)
            for each in meant:
                each.set("table", exp.to_identifier(source.alias_or_name, quoted=True))

    def _means(self, column: exp.Column, source: exp.Expr, name: str) -> bool:
        """Tell whether a column written with a table's own name alone means that source."""
        above = column.find_ancestor(exp.Select) if _is_bare(column, name) else None
        while above is not None:
            found = [each for each in _sources(above) if fold(each.alias_or_name) == name]
            if found:
                return len(found) == 1 and found[0] is source
            above = above.find_ancestor(exp.Select)
        return False

    def _name(self, source: exp.Expr) -> None:
        """Give a table an alias of both its names: one of them says too little now."""
        name = name_of(source) if isinstance(source, exp.Table) else None
        if name is None:
            return
        alias = f"{name.schema}.{name.table}"
        while fold(alias) in self._taken:
            alias += "_"
        self._taken.add(fold(alias))
        given = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        given.meta[_GIVEN] = True
        source.set("alias", given)


def _is_bare(column: exp.Column, table: str) -> bool:
    """Tell whether a column is written with the table's own name alone."""
    return column.args.get("db") is None and fold(column.table) == table


_GIVEN: Final = "given by its schema"


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the named sources of a FROM clause, also in brackets."""
    from_ = select.args.get("from_")
    waiting = [*(select.args.get("joins") or ()), *([] if from_ is None else [from_])]
    while waiting:
        source = waiting.pop().this
        waiting += source.args.get("joins") or ()
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Table):
            waiting.append(source)
        else:
            yield source
