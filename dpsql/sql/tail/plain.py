"""Tails that only name, sort and limit the released columns of one block."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.query import Block, PlainTail, SortTerm
from dpsql.sql.expressions.totality import is_sure_condition

_PLAIN_CLAUSES = frozenset({"expressions", "from_", "order", "limit", "offset"})
_INT64_DIGITS = 19
_NOT_PLAIN = -1


def plain_tail(tree: exp.Query, blocks: Sequence[Block], dialect: Dialect) -> PlainTail | None:
    """Read a tail as a value if it only names, sorts and limits one block's released columns.

    The statement is sure to bind if its rows are those of one table as well, its keys and arguments
    are columns, and its conditions compare like with like.
    """
    if _root_block(tree, blocks) is None or len(blocks) > 1:
        return None
    present = {clause for clause, value in tree.args.items() if value}
    if present - _PLAIN_CLAUSES:
        return None
    items = [item.unalias() for item in tree.selects]
    names = tuple(item.alias for item in tree.selects)
    distinct = {fold(name) for name in names} - {""}
    if len(distinct) < len(items) or not all(isinstance(item, exp.Column) for item in items):
        return None
    columns = tuple(item.name for item in items)
    order = _sort_terms(tree, columns, names)
    limit, offset = _row_count(tree, "limit"), _row_count(tree, "offset")
    if order is None or limit == _NOT_PLAIN or offset == _NOT_PLAIN:
        return None
    sure = _is_plain_block(blocks[0], dialect)
    return PlainTail(columns, names, order, limit, offset or 0, sure)


def _root_block(tree: exp.Query, blocks: Sequence[Block]) -> int | None:
    """Find the block that the outermost SELECT reads; None for another source."""
    from_ = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    if from_ is None or not isinstance(from_.this, exp.Table):
        return None
    names = [block.name for block in blocks]
    return names.index(from_.this.name) if from_.this.name in names else None


def _is_plain_block(block: Block, dialect: Dialect) -> bool:
    table = block.source.table
    arguments = [m.argument for m in block.measures if m.argument is not None]
    arguments += [quantile.ranked.argument for quantile in block.quantiles]
    return (
        block.source.catalog
        and all(isinstance(key.expression, exp.Column) for key in block.keys)
        and all(isinstance(argument, exp.Column) for argument in arguments)
        and (block.condition is None or is_sure_condition(block.condition, table, dialect))
    )


def _sort_terms(
    tree: exp.Query, columns: tuple[str, ...], names: tuple[str, ...]
) -> tuple[SortTerm, ...] | None:
    """Read ORDER BY terms as released columns, or return None if one is anything else."""
    order = tree.args.get("order")
    aliases = dict(zip(map(fold, names), columns, strict=True))
    terms = []
    for ordered in order.expressions if order is not None else ():
        column = _sorted_column(ordered.this, columns, aliases)
        if column is None or ordered.args.get("with_fill"):
            return None
        terms.append(SortTerm(column, bool(ordered.args.get("desc")), _nulls_first(ordered)))
    return tuple(terms)


def _nulls_first(ordered: exp.Ordered) -> bool:
    return bool(ordered.args.get("nulls_first"))


def _sorted_column(term: exp.Expr, columns: tuple[str, ...], aliases: dict[str, str]) -> str | None:
    if isinstance(term, exp.Literal) and term.is_int:
        position = int(term.this)
        return columns[position - 1] if 1 <= position <= len(columns) else None
    if not isinstance(term, exp.Column) or term.table:
        return None
    if fold(term.name) in aliases:
        return aliases[fold(term.name)]
    return term.name if term.name.startswith(INTERNAL_PREFIX) else None


def _row_count(tree: exp.Query, clause: str) -> int | None:
    """Read the number of a LIMIT or OFFSET, None without one, ``_NOT_PLAIN`` for others."""
    node = tree.args.get(clause)
    if node is None:
        return None
    rows = node.expression
    literal = isinstance(rows, exp.Literal) and rows.is_int and len(rows.this) < _INT64_DIGITS
    if not literal or node.args.get("limit_options"):
        return _NOT_PLAIN
    return int(rows.this)
