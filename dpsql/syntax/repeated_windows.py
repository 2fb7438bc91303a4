"""Windows whose value is the same on all rows of a group, read as aggregates of the groups.

    SELECT DISTINCT ward, MEDIAN(cost) OVER (PARTITION BY ward) FROM visits
    SELECT ward, MEDIAN(cost) FROM visits GROUP BY ward

    SELECT MEDIAN(cost) OVER () FROM visits LIMIT 1
    SELECT MEDIAN(cost) FROM visits

T-SQL has quantiles as windows alone, and GoogleSQL exact ones. A window without an order has a
value for each group, and DISTINCT leaves one row of it; so does LIMIT 1, where all rows are one
group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.syntax.arguments import NodeArguments

_SELECT: Final = NodeArguments("expressions from_ joins where distinct limit order with_ hint")
_WINDOW: Final = NodeArguments("this partition_by over?")
_DISTINCT: Final = NodeArguments("")
_LIMIT: Final = NodeArguments("expression")
_OF_GROUPS: Final = (
    *(exp.Sum, exp.Avg, exp.Count, exp.CountIf, exp.Min, exp.Max, exp.Median, exp.Quantile),
    *(exp.PercentileCont, exp.PercentileDisc, exp.ApproxQuantile, exp.ApproxDistinct),
    *(exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop),
)
_OF_ROWS: Final = (
    *(exp.Column, exp.Star, exp.Query, exp.AggFunc, exp.Anonymous),
    *(exp.Rand, exp.Randn, exp.Uuid),
)


def settle_repeated_windows(tree: exp.Expr) -> None:
    """Read SELECTs of windows that are the same in each group as of groups; ``tree`` is changed.

    All windows divide rows by the same expressions, each of which is selected, and nothing else is.
    Without such expressions it is the statement itself, which has one row then of no rows, too.
    """
    ctes = {fold(cte.alias) for cte in tree.find_all(exp.CTE)}
    for select in list(tree.find_all(exp.Select)):
        terms = list(_terms(select))
        windows = [window for item in (*select.expressions, *terms) for window in _windows(item)]
        if not windows or not _SELECT.hold(select) or not all(map(_is_of_groups, windows)):
            continue
        keys = windows[0].args.get("partition_by") or []
        if any((each.args.get("partition_by") or []) != keys for each in windows):
            continue
        items = [item.unalias() for item in select.expressions]
        if not all(_is_decided(item, keys) for item in (*items, *terms)):
            continue
        if keys and _is_distinct(select) and all(_is_key(key) and key in items for key in keys):
            select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        elif keys or select is not tree or _reads(select, ctes):
            continue  # of no rows a window has no value, which a query around it could tell
        elif _is_of_one(select):
            select.set("limit", None)
        elif not _is_distinct(select):
            continue
        select.set("distinct", None)
        for window in windows:
            window.replace(window.this)


def _windows(node: exp.Expr) -> Iterator[exp.Window]:
    """Yield the windows of an item, but for those of its subqueries."""
    is_end = (exp.Window, exp.Query)
    for part in node.walk(prune=lambda each: isinstance(each, is_end)):
        if isinstance(part, exp.Window):
            yield part


def _is_of_groups(window: exp.Window) -> bool:
    """Tell whether a window has one value in each of its groups of rows, not of released groups."""
    function = window.this
    while isinstance(function, exp.WithinGroup | exp.Filter):
        function = function.this
    rows = not any(part is not function for part in window.this.find_all(exp.AggFunc))
    return _WINDOW.hold(window) and isinstance(function, _OF_GROUPS) and rows


def _is_key(key: exp.Expr) -> bool:
    """Tell whether a key is no constant: a number among the keys of GROUP BY is a place."""
    return key.find(exp.Column) is not None


def _is_decided(item: exp.Expr, keys: Iterable[exp.Expr]) -> bool:
    """Tell whether an item has one value where keys have, as of constants, keys and windows."""
    if isinstance(item, exp.Window) or item in list(keys):
        return True
    if isinstance(item, _OF_ROWS):
        return False
    return all(_is_decided(part, keys) for part in item.iter_expressions())


def _terms(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield what rows are ordered by, but for the names of items."""
    names = {fold(item.alias) for item in select.expressions if item.alias}
    order = select.args.get("order")
    for term in () if order is None else order.expressions:
        of = term.this if isinstance(term, exp.Ordered) else term
        if not (isinstance(of, exp.Column) and not of.table and fold(of.name) in names):
            yield of


def _is_distinct(select: exp.Select) -> bool:
    distinct = select.args.get("distinct")
    return distinct is not None and _DISTINCT.hold(distinct)


def _is_of_one(select: exp.Select) -> bool:
    """Tell whether one row is left, whichever."""
    limit = select.args.get("limit")
    one = limit is not None and _LIMIT.hold(limit) and limit.expression == exp.Literal.number(1)
    return one and select.args.get("distinct") is None and select.args.get("order") is None


def _reads(select: exp.Select, ctes: Iterable[str]) -> bool:
    """Tell whether a SELECT is of more than tables: of what has no rows it would have none."""
    from_ = select.args.get("from_")
    joined = [join.this for join in select.args.get("joins") or ()]
    sources = [*joined, *([] if from_ is None else [from_.this])]
    tables = all(isinstance(each, exp.Table) and fold(each.name) not in ctes for each in sources)
    return from_ is None or not tables
