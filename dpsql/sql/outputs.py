"""What can be said of an answer's columns from the tail's form alone."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.query import INTERNAL_PREFIX, AggregateKind, Block, OutputColumn
from dpsql.schema import Schema, Table, fold
from dpsql.sql.totality import is_sure_condition

_PLAIN_CLAUSES = frozenset({"expressions", "from_", "order", "limit", "offset"})
_INT64_DIGITS = 19


def trace_outputs(
    tree: exp.Query, blocks: Sequence[Block]
) -> tuple[tuple[OutputColumn | None, ...], tuple[OutputColumn, ...]]:
    """Which answer columns are aggregates as released, and the columns added for averages.

    An average's interval needs its noisy count, so that is appended to the select list. Only a
    statement whose outermost SELECT is itself a block is traced; for others both are empty.
    """
    index = _root_block(tree, blocks)
    if index is None:
        return (), ()
    assert isinstance(tree, exp.Select)
    outputs = tuple(_pass_through(item, index) for item in tree.expressions)
    averages = dict.fromkeys(o for o in outputs if o is not None and _is_average(blocks, o))
    if tree.args.get("distinct"):
        return tuple(None if o in averages else o for o in outputs), ()
    for output in averages:
        name = blocks[index].support_column(output.aggregate)
        column = exp.column(exp.to_identifier(name, quoted=True))
        tree.append("expressions", exp.alias_(column, name, quoted=True))
    return outputs, tuple(averages)


def certain_names(
    tree: exp.Query, blocks: Sequence[Block], schema: Schema
) -> tuple[str, ...] | None:
    """The answer's column names, if the statement is so plain that it cannot fail to bind.

    That is: keys and arguments are columns, conditions compare like with like, and the tail only
    names, sorts and limits released columns. None means that the types have to be checked.
    """
    if _root_block(tree, blocks) is None or len(blocks) > 1:
        return None
    plain = _is_plain_block(blocks[0], schema[fold(blocks[0].table)]) and _is_plain_tail(tree)
    return tuple(item.alias for item in tree.selects) if plain else None


def _root_block(tree: exp.Query, blocks: Sequence[Block]) -> int | None:
    """The block that the outermost SELECT reads, or None if it reads something else."""
    from_ = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    if from_ is None or not isinstance(from_.this, exp.Table):
        return None
    names = [block.name for block in blocks]
    return names.index(from_.this.name) if from_.this.name in names else None


def _is_average(blocks: Sequence[Block], output: OutputColumn) -> bool:
    return blocks[output.block].aggregates[output.aggregate].kind is AggregateKind.AVG


def _pass_through(item: exp.Expr, block: int) -> OutputColumn | None:
    node = item.unalias().unnest()
    prefix = f"{INTERNAL_PREFIX}a"
    if isinstance(node, exp.Column) and node.name.startswith(prefix):
        return OutputColumn(block, int(node.name.removeprefix(prefix)))
    return None


def _is_plain_block(block: Block, table: Table) -> bool:
    arguments = [m.argument for m in block.measures if m.argument is not None]
    return (
        all(isinstance(key.expression, exp.Column) for key in block.keys)
        and all(isinstance(argument, exp.Column) for argument in arguments)
        and (block.condition is None or is_sure_condition(block.condition, table))
    )


def _is_plain_tail(tree: exp.Query) -> bool:
    present = {clause for clause, value in tree.args.items() if value}
    if present - _PLAIN_CLAUSES:
        return False
    items, order = tree.selects, tree.args.get("order")
    terms = [] if order is None else [term.this for term in order.expressions]
    limits = [tree.args[c].expression for c in ("limit", "offset") if tree.args.get(c)]
    names = {fold(item.alias) for item in items}
    return (
        len(names - {""}) == len(items)
        and all(isinstance(item.unalias(), exp.Column) for item in items)
        and all(_is_plain_term(term, names, len(items)) for term in terms)
        and all(isinstance(limit, exp.Literal) and limit.is_int for limit in limits)
        and all(len(limit.this) < _INT64_DIGITS for limit in limits)
    )


def _is_plain_term(term: exp.Expr, names: set[str], width: int) -> bool:
    if isinstance(term, exp.Literal):
        return bool(term.is_int) and 1 <= int(term.this) <= width
    if not isinstance(term, exp.Column) or term.table:
        return False
    return fold(term.name) in names or term.name.startswith(INTERNAL_PREFIX)
