"""The columns of an answer, from the tail's form alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.engines.base.dialect import Dialect
from dpsql.ir.query import (
    Block,
    ComputedColumn,
    OutputColumn,
    PlainTail,
    SortTerm,
    SupportColumn,
)
from dpsql.ir.terms import AggregateTerm, Term, aggregates_of
from dpsql.sql.expressions.totality import is_sure_condition
from dpsql.sql.tail.computed import released_aggregate, term_of
from dpsql.sql.tail.passed_on import (
    PassedColumns,
    ReadTable,
    is_star,
    name_of_item,
    quoted_column,
    sources_of,
)

_PLAIN_CLAUSES = frozenset({"expressions", "from_", "order", "limit", "offset"})
_PASSING_CLAUSES = _PLAIN_CLAUSES | {"where", "qualify", "windows", "with_"}
_PLAIN_SOURCE = frozenset({"this", "alias"})
_INT64_DIGITS = 19
_NOT_PLAIN = -1
_MOST_READ = 2_000


@dataclass(frozen=True, slots=True)
class TracedOutputs:
    """The columns of an answer with intervals, and the hidden ones for these.

    ``chosen`` is the block whose rows outer SELECTs choose by noisy values, None without one.
    """

    outputs: tuple[OutputColumn | None, ...] = ()
    computed: tuple[ComputedColumn | None, ...] = ()
    supports: tuple[SupportColumn, ...] = ()
    chosen: int | None = None


def trace_outputs(tree: exp.Query, blocks: Sequence[Block], passed: PassedColumns) -> TracedOutputs:
    """Find the answer columns that are aggregates as released, or computed from these.

    The interval of an average or a variance needs the noisy measures that it is computed from, and
    where groups are named in rounds that of a count needs how it was counted; that of a column that
    computes with aggregates needs these. Hidden columns for them are appended to the select list,
    and to those of subqueries that hand them on. A quantile has no interval and is left out. Traced
    is a statement whose outermost SELECT reads the rows of one block, each once at most, as they
    are or through subqueries and CTEs; for others all is empty.
    """
    layers = _layers(tree, blocks, passed)
    if layers is None:
        return TracedOutputs()
    select, block = layers.selects[0], blocks[layers.block]
    layers.write_stars_out()
    items = [item.unalias() for item in select.expressions]
    if any(map(is_star, items)):
        return TracedOutputs()
    terms = [layers.term(item, block) for item in items]
    shown = [one.aggregate if isinstance(one, AggregateTerm) else None for one in terms]
    outputs = tuple(None if one is None else OutputColumn(layers.block, one) for one in shown)
    chosen = layers.block if layers.choose_by_noise else None
    if select.args.get("distinct"):
        plain = (None if o is None or block.support_columns(o.aggregate) else o for o in outputs)
        return TracedOutputs(tuple(plain), tuple(None for _ in outputs), chosen=chosen)
    computed = tuple(
        None
        if term is None or one is not None or not any(True for _ in aggregates_of(term))
        else ComputedColumn(layers.block, term)
        for term, one in zip(terms, shown, strict=True)
    )
    names = [name for one in shown if one is not None for name in block.support_columns(one)]
    names += [
        name
        for found in computed
        if found is not None
        for aggregate in aggregates_of(found.term)
        for name in block.interval_columns(aggregate)
    ]
    supports = tuple(dict.fromkeys(names))
    for name in supports:
        column = layers.column(name)
        select.append("expressions", exp.alias_(column, name, quoted=True))
    hidden = tuple(SupportColumn(layers.block, name) for name in supports)
    return TracedOutputs(outputs, computed, hidden, chosen)


@dataclass(frozen=True, slots=True)
class _Layers:
    """The SELECTs from the outermost one down to the reader of a released table.

    Each of them but the last reads the next one, as ``sources`` of it, and passes its rows on, each
    once at most.
    """

    block: int
    selects: tuple[exp.Select, ...]
    sources: tuple[ReadTable, ...]
    passed: PassedColumns
    # SELECTs that each read a column twice double it: so many columns are read as terms at most.
    _reads: Iterator[int] = field(default_factory=lambda: iter(range(_MOST_READ)))
    _keys: dict[tuple[int, str, str, bool], bool] = field(default_factory=dict)

    def term(self, node: exp.Expr, block: Block, depth: int = 0) -> Term | None:
        """Read an expression of a SELECT as a term over the block's aggregates."""
        node = node.unnest()
        return term_of(node, lambda column: self._column_term(column, block, depth))

    def _column_term(self, column: exp.Column, block: Block, depth: int) -> Term | None:
        if next(self._reads, None) is None:
            return None
        if depth == len(self.sources):
            aggregate = released_aggregate(column, block)
            return None if aggregate is None else AggregateTerm(aggregate)
        item = self._item(column, depth)
        return None if item is None else self.term(item, block, depth + 1)

    def _item(self, column: exp.Column, depth: int) -> exp.Expr | None:
        """Return the expression of a column in the SELECT below its own."""
        if column.table and fold(column.table) != fold(self.sources[depth].alias_or_name):
            return None
        return self.passed.item(self.selects[depth + 1], column.name)

    def column(self, name: str) -> exp.Column:
        """Return a released column in the outermost SELECT, handed on to it."""
        column = quoted_column(name)
        for source, inner in zip(self.sources[::-1], self.selects[:0:-1], strict=True):
            column = self.passed.hand_on(source, inner, column)
        return column

    def write_stars_out(self) -> None:
        """Replace stars by the columns that they stand for, from the last SELECT outwards."""
        for select, source, inner in list(
            zip(self.selects, self.sources, self.selects[1:], strict=False)
        )[::-1]:
            names = [name_of_item(item) for item in inner.expressions]
            shown = [name for name in names if not name.startswith(INTERNAL_PREFIX)]
            if not all(names) or len({*map(fold, shown)}) < len(shown):
                return
            written: list[exp.Expr] = []
            for item in select.expressions:
                star = item.this if isinstance(item, exp.Column) else item
                plain = is_star(item) and not any(star.args.values())
                columns = [quoted_column(name, source.alias_or_name) for name in shown]
                written += columns if plain else [item]
            select.set("expressions", written)
            if any(map(is_star, written)):
                return

    @property
    def choose_by_noise(self) -> bool:
        """True if SELECTs around the last one may choose rows by noisy values."""
        return any(self._chooses(depth) for depth in range(len(self.sources)))

    def _chooses(self, depth: int) -> bool:
        select = self.selects[depth]
        clauses = [select.args.get(clause) for clause in ("where", "qualify")]
        if select.args.get("qualify"):
            clauses += select.args.get("windows") or []
        if any(self._is_noisy(each, depth, clause=True) for each in clauses if each is not None):
            return True
        if not (select.args.get("limit") or select.args.get("offset")):
            return False
        order = select.args.get("order")  # without one, that of what it reads
        return order is None or any(self._sorts_by_noise(each, depth) for each in order.expressions)

    def _sorts_by_noise(self, ordered: exp.Expr, depth: int) -> bool:
        """Tell whether a term of ORDER BY may sort by anything but keys."""
        items, by = self.selects[depth].expressions, ordered.this.unnest()
        if isinstance(by, exp.Var):  # ORDER BY ALL
            return any(is_star(each) or self._is_noisy(each, depth) for each in items)
        if isinstance(by, exp.Literal):
            place = int(by.this) - 1 if by.is_int else -1
            starred = any(map(is_star, items))
            return starred or place not in range(len(items)) or self._is_noisy(items[place], depth)
        return self._is_noisy(by, depth, clause=True)

    def _is_noisy(self, node: exp.Expr, depth: int, *, clause: bool = False) -> bool:
        """Tell whether an expression may depend on anything but keys.

        In a ``clause`` it may mean select items by their aliases.
        """
        if node.find(exp.Query, exp.Window) is not None:
            return True
        columns = node.find_all(exp.Column)
        return not all(self._is_key(column, depth, clause=clause) for column in columns)

    def _is_key(self, column: exp.Column, depth: int, *, clause: bool) -> bool:
        asked = depth, fold(column.table), fold(column.name), clause
        if asked not in self._keys:
            self._keys[asked] = self._leads_to_keys(column, depth, clause=clause)
        return self._keys[asked]

    def _leads_to_keys(self, column: exp.Column, depth: int, *, clause: bool) -> bool:
        if depth == len(self.sources):
            return column.name.startswith(f"{INTERNAL_PREFIX}k")
        item = self._item(column, depth)
        noisy = [] if item is None else [self._is_noisy(item, depth + 1)]
        if clause and not column.table:  # which of both is meant differs between clauses
            own = (i for i in self.selects[depth].selects if fold(i.alias) == fold(column.name))
            noisy += [self._is_noisy(each.unalias(), depth) for each in own]
        return bool(noisy) and not any(noisy)


def _layers(tree: exp.Query, blocks: Sequence[Block], passed: PassedColumns) -> _Layers | None:
    """Find the SELECTs from the outermost one to a released table; None if others mix in."""
    selects, sources, select = list[exp.Select](), list[ReadTable](), tree
    while isinstance(select, exp.Select):
        selects.append(select)
        block = _root_block(select, blocks)
        if block is not None:
            return _Layers(block, tuple(selects), tuple(sources), passed)
        source = _only_source(select)
        inner = None if source is None else passed.inner(source)
        if source is None or inner is None or not passed.can_hand_on(source, inner):
            return None
        sources.append(source)
        select = inner
    return None


def _only_source(select: exp.Select) -> ReadTable | None:
    """Return what a SELECT reads, if it passes its rows on, each once at most."""
    if {clause for clause, value in select.args.items() if value} - _PASSING_CLAUSES:
        return None
    for node in select.find_all(exp.AggFunc, exp.Anonymous, exp.UDTF, exp.Explode):
        inside = node.find_ancestor(exp.Window, exp.Select)
        if inside is select:
            return None
    found = list(sources_of(select))
    return found[0] if len(found) == 1 and _is_plain_source(found[0]) else None


def _is_plain_source(source: exp.Expr) -> bool:
    """Tell whether a source has no clauses of its own, in whatever brackets it stands."""
    if {name for name, value in source.args.items() if value} - _PLAIN_SOURCE:
        return False
    return not isinstance(source, exp.Subquery) or (
        isinstance(source.this, exp.Select) or _is_plain_source(source.this)
    )


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
