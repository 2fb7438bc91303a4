"""Counts of groups: the number of released groups, in two spellings.

A group that is too small is not released, and whatever counts or sums the groups of a release, or
excludes them from others, does without it. ``SELECT COUNT(*) FROM (SELECT DISTINCT x FROM t)``
means to ask how many values there are, which one number answers. Elsewhere an answer says what is
counted or excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.ir.query import Block
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.lineage.table_names import is_qualified
from dpsql.syntax.text import output_name

_COUNTS = frozenset({"expressions", "from_", "with_"})
_LISTS = frozenset({"expressions", "from_", "joins", "where", "group", "distinct"})
_ORDINALS = (
    *(exp.CumeDist, exp.DenseRank, exp.FirstValue, exp.Lag, exp.LastValue, exp.Lead, exp.NthValue),
    *(exp.Ntile, exp.PercentRank, exp.Rank, exp.RowNumber),
)
"""Window functions of position and neighbours, without counts or sums."""


def listed_below(select: exp.Select) -> exp.Select | None:
    """Find the list of one key that a SELECT only counts; None for other SELECTs.

    That is ``SELECT COUNT(*) FROM (SELECT DISTINCT x …)``, or with ``GROUP BY x``.
    """
    if {clause for clause, value in select.args.items() if value} - _COUNTS:
        return None
    from_ = select.args.get("from_")
    source = None if from_ is None else from_.this
    if not isinstance(source, exp.Subquery):
        return None
    listed = source.this
    if not isinstance(listed, exp.Select) or len(select.expressions) != 1:
        return None
    extra = {name for name, value in source.args.items() if value} - {"this", "alias"}
    alias = source.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        return None
    name = _listed_name(listed)
    counted = select.expressions[0].unalias()
    return listed if name is not None and _counts(counted, name) else None


def count_listed(select: exp.Select, listed: exp.Select) -> None:
    """Turn a count of the values that a subquery lists into their number: COUNT(DISTINCT x).

    A NULL among the values is not counted, as by any COUNT(DISTINCT x).
    """
    item = select.expressions[0]
    name = item.alias or output_name(item)
    key = listed.expressions[0].unalias()
    number = exp.Count(this=exp.Distinct(expressions=[key.copy()]))
    number.meta.update(item.unalias().meta)
    select.set("expressions", [exp.alias_(number, name, quoted=True, copy=False)])
    for clause in ("from_", "joins", "where"):
        select.set(clause, listed.args.get(clause))


def mark_counted(tree: exp.Query, blocks: Sequence[Block]) -> frozenset[str]:
    """Name the blocks whose groups the tail aggregates or excludes, and small ones are missing."""
    partial = {block.name for block in blocks if block.keys and not block.known_domain}
    if not partial:
        return frozenset()
    ctes: dict[str, list[exp.Expr]] = {}
    for cte in tree.find_all(exp.CTE):
        ctes.setdefault(fold(cte.alias), []).append(cte.this)
    aggregated = (
        source
        for select in tree.find_all(exp.Select)
        if any(map(_aggregates, _computed(select)))
        for source in (select.args.get("from_"), *select.args.get("joins", ()))
        if source is not None
    )
    return frozenset(partial & _read((*aggregated, *_excluded(tree)), ctes))


def _excluded(tree: exp.Query) -> Iterator[exp.Expr]:
    """Find what the rows of others must not be in: behind EXCEPT, NOT IN, NOT EXISTS, ANTI JOIN."""
    for node in tree.find_all(exp.Except, exp.Not, exp.Join):
        if isinstance(node, exp.Except):
            yield node.expression
        elif isinstance(node, exp.Join):
            if "ANTI" in (node.kind, node.side):
                yield node.this
        elif isinstance(node.this.unnest(), exp.In | exp.Exists):
            yield node.this


def _computed(select: exp.Select) -> Iterator[exp.Expr]:
    yield from select.expressions
    for clause in ("having", "qualify", "order"):
        if select.args.get(clause) is not None:
            yield select.args[clause]


def _aggregates(node: exp.Expr) -> bool:
    parts = outside_subqueries(node)
    return any(isinstance(part, exp.AggFunc) and not isinstance(part, _ORDINALS) for part in parts)


def _read(sources: Iterable[exp.Expr], ctes: dict[str, list[exp.Expr]]) -> set[str]:
    """Collect the names of all tables in parts of a statement, CTEs written out."""
    todo = list(sources)
    found: set[str] = set()
    while todo:
        for table in todo.pop().find_all(exp.Table):
            if table.name not in found and not is_qualified(table):
                found.add(table.name)
                todo += ctes.get(fold(table.name), ())
    return found


def _listed_name(listed: exp.Select) -> str | None:
    """Return the name of the one column that a query lists the values of."""
    if {clause for clause, value in listed.args.items() if value} - _LISTS:
        return None
    if len(listed.expressions) != 1 or not listed.args.get("from_"):
        return None
    (item,) = listed.expressions
    distinct, group = listed.args.get("distinct"), listed.args.get("group")
    key, name = item.unalias(), item.alias or output_name(item)
    if _aggregates(item) or isinstance(key, exp.Star) or key.find(exp.Query):
        return None
    if distinct is not None:
        return None if distinct.args.get("on") or group is not None else name
    if group is None or {name for name, value in group.args.items() if value} != {"expressions"}:
        return None
    if len(group.expressions) != 1:
        return None
    (by,) = group.expressions
    same = by == key or (isinstance(by, exp.Literal) and by.this == "1")
    return name if same else None


def _counts(node: exp.Expr, name: str) -> bool:
    if not isinstance(node, exp.Count) or node.expressions:
        return False
    counted = node.this
    if isinstance(counted, exp.Distinct) and len(counted.expressions) == 1:
        counted = counted.expressions[0]
    if isinstance(counted, exp.Star):
        return not any(counted.args.values())
    return isinstance(counted, exp.Column) and fold(counted.name) == fold(name)
