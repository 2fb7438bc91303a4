"""How much larger values can become in a query than they are in its tables.

Each SELECT may double a text, an expression or a row's width, and those around it double it again.
The functions that are allowed over private rows make nothing longer than their arguments together,
but for replacing, so the columns below a concatenation say what becomes of a text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.errors import Place, QueryRefused
from dpsql.sql.expressions.row_constants import grows_by

MAX_TEXT_DOUBLINGS = 6
JOINED: Final = 32
"""Values of a unit's rows that STRING_AGG puts together at most."""
MAX_WRITTEN_OUT = 10_000
"""Nodes of a statement's expressions over private rows, once they are made total."""
_TOGETHER = (exp.Concat, exp.DPipe)
REPLACED = (exp.Replace, exp.RegexpReplace)
_OF_JSON: Final = (exp.JSONExtract, exp.JSONExtractScalar)
_DOUBLINGS_OF_JSON: Final = 3
"""How often a part of JSON may double as it is written: ``1e20`` becomes 23 characters."""


def refuse_growing_text(tree: exp.Query) -> None:
    """Refuse texts that are put together again and again: the engine does not count their memory.

    Raises ``QueryRefused``. Checked by ``tests/pipeline/test_tail_limits.py``.
    """
    if tree.find(*_TOGETHER, exp.ConcatWs, exp.GroupConcat, *REPLACED, *_OF_JSON) is None:
        return
    if _doublings(tree, {}, texts=True) > MAX_TEXT_DOUBLINGS:
        raise QueryRefused(
            "the query puts texts together from texts that are put together, too many times",
            code="query_too_large",
            hint=f"From subquery to subquery, a text may become {1 << MAX_TEXT_DOUBLINGS} times "
            "as long.",
        )


def too_much_written_out(place: Place | None = None) -> QueryRefused:
    """Build the error for expressions with more nodes than ``MAX_WRITTEN_OUT``."""
    return QueryRefused(
        "the expressions over private rows are too large, or become it when they are written out",
        code="query_too_large",
        place=place,
        hint="CASE x WHEN …, x IN (…) over columns and x BETWEEN … compare x each time, "
        "string_split(x, ',')[2], x LIKE y and others have it several times: take a smaller x.",
    )


def written_out(node: exp.Expr) -> int:
    """Count the nodes that an expression over private rows has once it is made total."""
    sizes: dict[int, int] = {}
    for part in reversed(list(node.walk())):  # what is inside comes first
        sizes[id(part)] = size_of_node(part, sizes)
    return sizes[id(node)]


def size_of_node(part: exp.Expr, sizes: Mapping[int, int]) -> int:
    """Count the nodes of a node that is made total, from the sizes of its parts by ``id``.

    ``CASE x WHEN a`` becomes ``x = a``, an IN list of columns becomes ``x = a OR …``, BETWEEN
    becomes two comparisons, and of ``x[1]`` the elements are counted first: of an ``x`` that is
    large, or is made of others like it, the copies add up.
    """
    inside = {name: _size(value, sizes) for name, value in part.args.items()}
    size = 1 + sum(inside.values())
    match part:
        case exp.Between() | exp.Bracket():
            size += inside["this"]
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            size += inside["this"] + inside["expression"]
        case exp.Case(args={"this": exp.Expr()}):
            size += inside["this"] * len(part.args["ifs"])
        case exp.Like() | exp.ILike() if part.expression.find(exp.Column) is not None:
            size += 2 * inside["expression"]
        case exp.In() if not _is_constant(part.expressions):
            size += inside["this"] * len(part.expressions)
        case exp.In():
            size -= inside.get("expressions", 0)  # compared as they stand, all at once
    return size


def _is_constant(items: list[exp.Expr]) -> bool:
    return not any(item.find(exp.Column) for item in items)


def _size(value: object, sizes: Mapping[int, int]) -> int:
    values = value if isinstance(value, list) else [value]
    return sum(sizes[id(v)] for v in values if isinstance(v, exp.Expr))


def doublings(tree: exp.Query) -> int:
    """Count how many times a text, an expression or a row's width may double, rounding up."""
    return _doublings(tree, {}, texts=False)


def _doublings(query: exp.Expr, known: dict[str, int], *, texts: bool) -> int:
    """Count the doublings of a query itself, and of the one among its sources that has most.

    ``known`` are those of the CTEs in scope, by name.
    """
    known = dict(known)
    with_ = query.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        known[fold(cte.alias)] = _doublings(cte.this, known, texts=texts)
    own = most = 0
    if isinstance(query, exp.Select):
        own = _log2(_concatenated(query))
        if own or not texts:
            own += _log2(_expanded(query))
        if not texts:
            own += _log2(_width(query))
    for node in _own_nodes(query):
        if isinstance(node, exp.Table):
            most = max(most, known.get(fold(node.name), 0))
        elif isinstance(node, exp.Query) and node is not query:
            most = max(most, _doublings(node, known, texts=texts))
    return own + most


def _own_nodes(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of a query, down to where other queries begin; its CTEs are left out."""

    def is_end(node: exp.Expr) -> bool:
        return node is not query and isinstance(node, exp.Query | exp.With)

    found: Iterator[exp.Expr] = query.walk(prune=is_end)
    return found


def _concatenated(select: exp.Select) -> int:
    """Count the most columns that are put together in one text, times the growth by replacing."""
    kinds = (*_TOGETHER, exp.ConcatWs, exp.GroupConcat, *REPLACED, *_OF_JSON)
    texts = (node for node in _own_nodes(select) if isinstance(node, kinds))
    outermost = (node for node in texts if not isinstance(node.parent, exp.DPipe))
    return max(map(_times, outermost), default=0)


def _times(text: exp.Expr) -> int:
    replaced = math.prod(map(grows_by, text.find_all(*REPLACED)))
    documents = max(map(_documents_around, text.find_all(exp.JSONExtractScalar)), default=0)
    ordering = {id(c) for term in text.find_all(exp.Ordered) for c in term.find_all(exp.Column)}
    columns = sum(id(column) not in ordering for column in text.find_all(exp.Column))
    joined = JOINED if text.find(exp.GroupConcat) else 1
    return columns * replaced * joined << _DOUBLINGS_OF_JSON * documents


def _documents_around(part: exp.Expr) -> int:
    """Count how many documents a part of JSON is in, each written as a text in the next one."""
    found = 0
    node: exp.Expr | None = part
    while node is not None and not isinstance(node, exp.Query):
        found += isinstance(node, exp.JSONExtractScalar)
        node = node.parent
    return found


def _width(select: exp.Select) -> int:
    """Count how often its stars stand for the columns of a source."""
    stars = [item for item in select.expressions if item.is_star]
    sources = 1 + len(list(select.args.get("joins") or ()))
    return sum(sources if isinstance(star, exp.Star) else 1 for star in stars)


def _expanded(select: exp.Select) -> int:
    """Count how large an item becomes when aliases of items before it are written out."""
    sizes: dict[str, int] = {}
    largest = 1
    for item in select.expressions:
        named = item.find_all(exp.Column) if sizes else ()
        size = 1 + sum(sizes.get(fold(c.name), 0) for c in named if not c.table)
        largest = max(largest, size)
        if isinstance(item, exp.Alias):
            sizes[fold(item.alias)] = size
    return largest


def _log2(times: int) -> int:
    """Return the binary logarithm, rounded up."""
    return max(0, times - 1).bit_length()
