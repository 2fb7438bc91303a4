"""Conditions on the groups that rows around a subquery can belong to.

    … FROM items i, kinds k WHERE i.kind = k.id AND k.dear
      AND price > (SELECT 1.2 * AVG(price) FROM items j WHERE j.kind = k.id)

Rows around that other conditions leave out need no value of their group. So the groups that are
asked for are those of the public rows which these conditions leave, ``j.kind IN (SELECT id FROM
kinds k WHERE k.dear)``, and of the values that they leave of a private column. It is a condition on
keys, by constants and public rows: it changes whose groups come out, and no value of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import Table, fold
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.lineage.names import columns_below
from dpsql.syntax.arguments import NodeArguments

_PLAIN: Final = NodeArguments("this alias? db? catalog?")
_NAME: Final = NodeArguments("this columns?")
_EQUAL: Final = NodeArguments("this expression")
_PLACES: Final = ("where", "expressions")
_OF_OTHERS: Final = (exp.Query, exp.Window, exp.AggFunc, exp.Rand)
_INNER: Final = ("", "INNER", "CROSS")
TableOf: TypeAlias = Callable[[exp.Table], tuple[Table, bool] | None]
"""Returns the columns of a table of a FROM clause, and whether it is public; None for others."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A table of the FROM clause around, under its name there."""

    node: exp.Table
    table: Table
    public: bool

    def means(self, column: exp.Column) -> bool:
        """Tell whether a name can mean one of its columns."""
        if column.table and fold(column.table) != fold(self.node.alias_or_name):
            return False
        return any(fold(each.name) == fold(column.name) for each in self.table.columns)


def conditions_on_keys(
    query: exp.Query, inside: Sequence[exp.Expr], around: Sequence[exp.Expr], table_of: TableOf
) -> list[exp.Expr]:
    """Find conditions on the keys ``inside`` that all rows around a subquery fulfil.

    The keys ``around`` equal them, one by one. There are none where names could mean several
    columns, or those of a subquery.
    """
    select = query.find_ancestor(exp.Select)
    if select is None or _place(query, select) not in _PLACES:
        return []
    sources: list[_Source] = []
    for node in _written_sources(select):
        source = _source(node, table_of)
        if source is None:
            return []
        sources.append(source)
    where = select.args.get("where")
    parts = [] if where is None else list(conjuncts(where.this))
    parts = [part for part in parts if part.find(*_OF_OTHERS) is None]
    equal = [*parts, *_joined_on(select)]
    found: list[exp.Expr] = []
    for key, other in zip(inside, (key.unnest() for key in around), strict=True):
        if not isinstance(other, exp.Column):
            continue
        for column in (other, *_equals(other, equal)):
            source = _owner(column, sources)
            if source is not None and source.public:
                own = [part for part in parts if _is_of(part, source, sources)]
                found.append(_among(key, column, source, own))
                break
        if _owner(other, sources) is not None:
            found += [_of_key(part, key) for part in parts if _names_alone(part, other)]
    return found


def _written_sources(select: exp.Select) -> list[exp.Expr]:
    from_, joins = select.args.get("from_"), select.args.get("joins") or []
    return [] if from_ is None else [from_.this, *(join.this for join in joins)]


def _source(node: exp.Expr, table_of: TableOf) -> _Source | None:
    """Read a table of a FROM clause; None for any other source."""
    if not isinstance(node, exp.Table) or not _PLAIN.hold(node) or _is_cte(node):
        return None
    alias = node.args.get("alias")
    if alias is not None and (not _NAME.hold(alias) or alias.args.get("columns")):
        return None
    found = table_of(node)
    return None if found is None else _Source(node, *found)


def _among(
    key: exp.Expr, column: exp.Column, source: _Source, conditions: Sequence[exp.Expr]
) -> exp.Expr:
    """Write that a key is one of the values of a public column, under conditions on its table."""
    listed = exp.Select(expressions=[column.copy()]).from_(source.node.copy())
    if conditions:
        listed.set("where", exp.Where(this=exp.and_(*conditions, copy=True)))
    return exp.In(this=exp.paren(key.copy()), query=exp.Subquery(this=listed))


def _names_alone(part: exp.Expr, column: exp.Column) -> bool:
    """Tell whether a condition names one column and no other."""
    columns = columns_below(part)
    return bool(columns) and all(each == column for each in columns)


def _is_cte(node: exp.Table) -> bool:
    """Tell whether a CTE around a table could have its name."""
    above: exp.Expr | None = node
    while above is not None:
        ctes = above.ctes if isinstance(above, exp.Query) else []
        if any(fold(cte.alias) == fold(node.name) for cte in ctes):
            return True
        above = above.parent
    return False


def _place(query: exp.Expr, select: exp.Select) -> str | None:
    """Return the clause of a SELECT that a subquery stands in."""
    while query.parent is not None and query.parent is not select:
        query = query.parent
    return query.arg_key


def _joined_on(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the conditions of inner joins."""
    for join in select.args.get("joins") or []:
        on = join.args.get("on")
        if on is not None and not join.side and join.kind in _INNER and not join.method:
            yield from conjuncts(on)


def _equals(column: exp.Column, conditions: Sequence[exp.Expr]) -> Iterator[exp.Column]:
    """Yield the columns that conditions make equal to a column, by its name as written."""
    for condition in conditions:
        if not isinstance(condition, exp.EQ) or not _EQUAL.hold(condition):
            continue
        sides = condition.this.unnest(), condition.expression.unnest()
        for one, other in (sides, sides[::-1]):
            if one == column and isinstance(other, exp.Column):
                yield other


def _owner(column: exp.Column, sources: Sequence[_Source]) -> _Source | None:
    """Find the one source that a name can mean a column of."""
    found = [source for source in sources if source.means(column)]
    return found[0] if len(found) == 1 else None


def _is_of(part: exp.Expr, source: _Source, sources: Sequence[_Source]) -> bool:
    """Tell whether a condition names columns of one source alone, and some."""
    columns = list(columns_below(part))
    return bool(columns) and all(_owner(column, sources) is source for column in columns)


def _of_key(part: exp.Expr, key: exp.Expr) -> exp.Expr:
    """Write a condition on a column around as one on the key inside."""
    holder = exp.Paren(this=part.copy())
    for column in list(columns_below(holder)):
        column.replace(exp.paren(key.copy()))
    return holder
