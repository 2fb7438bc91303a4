"""DP_INTERVAL_LOW, DP_INTERVAL_HIGH and DP_NOISE_SCALE: what is known of the noise, as columns.

    SELECT k, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM visits GROUP BY k
    SELECT k, DP_INTERVAL_HIGH(n, 0.99) FROM (SELECT k, COUNT(*) AS n FROM visits GROUP BY k)

Each call becomes a column of the released table, which the release fills in. Where the call stands
outside the SELECT that aggregates, the SELECTs between hand the column on under a hidden name, and
their stars leave it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.accuracy.intervals import check_confidence
from dpsql.core.formatting import DEFAULT_CONFIDENCE
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block, NoiseColumn, NoiseFigure
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.table_names import is_qualified
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import output_name, put

MAX_NOISE_COLUMNS = 250
"""Columns that are added to released tables and subqueries: each is computed for every group."""
_FIGURES = {f"dp_{figure.value}": figure for figure in NoiseFigure}
_HINT = (
    "It takes an aggregate, or the name of a column that is one: SELECT k, COUNT(*) AS n, "
    "DP_INTERVAL_LOW(n) AS low …. Give it a name there, and use that name in outer queries."
)


def place_noise_columns(tree: exp.Query, blocks: Sequence[Block], text: str) -> list[Block]:
    """Replace the calls in a tail by columns; returns the blocks with these columns added.

    Raises ``QueryRefused`` for a call on anything but an aggregate as it was released, and
    ``ParameterError`` for a confidence that is no number between 0 and 1.
    """
    calls = [node for node in tree.find_all(exp.Anonymous) if is_noise_call(node)]
    if not calls:
        return list(blocks)
    return _Placer(tree, blocks, text).place(calls)


def is_noise_call(node: exp.Expr | None) -> bool:
    """Tell whether a node is a call of one of the three functions."""
    return isinstance(node, exp.Anonymous) and fold(node.name) in _FIGURES


class _Placer:
    def __init__(self, tree: exp.Query, blocks: Sequence[Block], text: str) -> None:
        self.tree = tree
        self.blocks = list(blocks)
        self.text = text
        self.numbers = {block.name: index for index, block in enumerate(blocks)}
        self.handed: dict[int, dict[str, str]] = defaultdict(dict)  # id(SELECT) -> column -> name
        self.named: set[int] = set()  # id(SELECT)
        self.found: dict[tuple[object, ...], exp.Column] = {}
        self.added = 0
        natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
        self.by_position = natural or tree.find(exp.Pivot, exp.Columns) is not None

    def place(self, calls: list[exp.Anonymous]) -> list[Block]:
        """Replace every call by a column; stars leave out the columns added for it."""
        _keep_names(next(self.tree.find_all(exp.Select)), exp.Query)
        for call in calls:
            column, figure, confidence = self._read(call)
            select = call.find_ancestor(exp.Select)
            if select is None:
                raise self._refusal(call, "stands in a SELECT")
            found = self._figure(call, select, column, figure, confidence)
            if id(select) not in self.named:
                self.named.add(id(select))
                _keep_names(select, exp.Anonymous)
            put(call, found.copy())
        if self.handed:
            for select in self.tree.find_all(exp.Select):
                self._hide(select)
        return self.blocks

    def _read(self, call: exp.Anonymous) -> tuple[exp.Column, NoiseFigure, float]:
        """Read the column, the figure and the confidence of a call."""
        figure, arguments = _FIGURES[fold(call.name)], call.expressions
        column = arguments[0].unnest() if arguments else None
        most = 1 if figure is NoiseFigure.SCALE else 2
        if len(arguments) > most or not isinstance(column, exp.Column):
            raise self._refusal(call, "takes an aggregate as it was released")
        if len(arguments) == 1:
            return column, figure, DEFAULT_CONFIDENCE
        written = arguments[1].unnest()
        number = isinstance(written, exp.Literal) and not written.is_string
        confidence = float(written.this) if number else 0.0
        check_confidence(confidence, place_of(self.text, call))
        return column, figure, confidence

    def _figure(
        self,
        call: exp.Anonymous,
        select: exp.Select,
        column: exp.Column,
        figure: NoiseFigure,
        confidence: float,
    ) -> exp.Column:
        """Return the column of a SELECT with the noise figure of another of its columns."""
        asked = (id(select), column.table, column.name, figure, confidence)
        if asked not in self.found:
            self.found[asked] = self._find(call, select, column, figure, confidence)
        return self.found[asked]

    def _find(
        self,
        call: exp.Anonymous,
        select: exp.Select,
        column: exp.Column,
        figure: NoiseFigure,
        confidence: float,
    ) -> exp.Column:
        source = self._source_of(call, select, column)
        block = self.numbers.get(source.name) if isinstance(source, exp.Table) else None
        if block is not None:
            return _column(self._released(call, block, column.name, figure, confidence))
        inner = self._inner(source)
        if inner is None or not self._can_hand_on(source, inner):
            raise self._refusal(call, "cannot reach an aggregate from here")
        found = self._figure(call, inner, self._item(call, inner, column.name), figure, confidence)
        handed = self.handed[id(inner)]
        if found.name not in handed:
            handed[found.name] = f"{INTERNAL_PREFIX}h{self._add(call)}"
            inner.append("expressions", exp.alias_(found, handed[found.name], quoted=True))
        return _column(handed[found.name], source.alias_or_name)

    def _released(
        self, call: exp.Anonymous, index: int, name: str, figure: NoiseFigure, confidence: float
    ) -> str:
        """Name the released column, which is added to its block if it is new."""
        block, prefix = self.blocks[index], f"{INTERNAL_PREFIX}a"
        if not name.startswith(prefix):
            raise self._refusal(call, "takes an aggregate as it was released, and this is a key")
        number = int(name.removeprefix(prefix))
        aggregate = block.aggregates[number]
        if aggregate.quantile is not None:
            raise self._refusal(call, "has no answer for a quantile, which is drawn and not noisy")
        if figure is NoiseFigure.SCALE:
            confidence = DEFAULT_CONFIDENCE  # it has none
            if aggregate.kind.composed:
                raise self._refusal(
                    call, "has no answer for what is computed from several noisy values"
                )
        column = NoiseColumn(number, figure, confidence)
        if column not in block.noise_columns:
            self._add(call)
            block = replace(block, noise_columns=(*block.noise_columns, column))
            self.blocks[index] = block
        return block.noise_column(block.noise_columns.index(column))

    def _add(self, call: exp.Anonymous) -> int:
        """Count a column that is added, and return how many there were before."""
        self.added += 1
        if self.added > MAX_NOISE_COLUMNS:
            raise refusal(
                self.text,
                f"the noise columns of the query are more than {MAX_NOISE_COLUMNS} columns",
                "query_too_large",
                call,
                "Ask where the aggregate is: each subquery around it hands a column on.",
            )
        return self.added - 1

    # -- from a column to where it comes from -------------------------------------------------

    def _source_of(
        self, call: exp.Anonymous, select: exp.Select, column: exp.Column
    ) -> exp.Table | exp.Subquery:
        sources = list(_sources(select))
        if column.table:
            sources = [s for s in sources if fold(s.alias_or_name) == fold(column.table)]
        elif len(sources) > 1:
            sources = [s for s in sources if self._holds(s, column.name)]
        if len(sources) != 1:
            raise self._refusal(call, f"finds no one column called {column.name} here")
        return sources[0]

    def _holds(self, source: exp.Table | exp.Subquery, name: str) -> bool:
        """Tell whether a subquery or CTE has an output column of that name."""
        inner = self._inner(source)
        if inner is None:
            return False
        if any(fold(item.alias_or_name) == fold(name) for item in inner.expressions):
            return True
        starred = any(map(_is_star, inner.expressions))
        return starred and any(self._holds(deeper, name) for deeper in _sources(inner))

    def _item(self, call: exp.Anonymous, inner: exp.Select, name: str) -> exp.Column:
        """Return the column of ``inner`` that its output column is."""
        for item in inner.expressions:
            if not _is_star(item) and fold(item.alias_or_name) == fold(name):
                node = item.unalias().unnest()
                if isinstance(node, exp.Column):
                    return node
                raise self._refusal(call, f"takes an aggregate as it was released; {name} is not")
        for item in filter(_is_star, inner.expressions):
            qualifier = item.table if isinstance(item, exp.Column) else ""
            return _column(name, qualifier)
        raise self._refusal(call, f"finds no one column called {name} here")

    def _inner(self, source: exp.Table | exp.Subquery) -> exp.Select | None:
        """Return the SELECT behind a subquery or the name of a CTE."""
        query: exp.Expr | None = source
        if isinstance(source, exp.Table):
            query = _cte(source)
        while isinstance(query, exp.Subquery):
            query = query.this
        return query if isinstance(query, exp.Select) else None

    def _can_hand_on(self, source: exp.Table | exp.Subquery, inner: exp.Select) -> bool:
        """Tell whether one more column changes nothing but the columns there are."""
        alias = source.args.get("alias")
        renamed = alias is not None and alias.args.get("columns")
        clauses = any(inner.args.get(name) for name in ("distinct", "group", "having"))
        return not (renamed or clauses or self.by_position)

    # -- what is handed on ----------------------------------------------------------------------

    def _hide(self, select: exp.Select) -> None:
        """Remove from a SELECT's stars the columns that were added to its sources."""
        for item in select.expressions:
            if not _is_star(item):
                continue
            star, qualifier = (
                (item.this, item.table) if isinstance(item, exp.Column) else (item, "")
            )
            names = [
                name
                for source in _sources(select)
                if not qualifier or fold(source.alias_or_name) == fold(qualifier)
                for name in self.handed.get(id(self._inner(source)), {}).values()
            ]
            if names:
                star.set("except_", [*(star.args.get("except_") or ()), *map(_column, names)])

    def _refusal(self, call: exp.Anonymous, reason: str) -> QueryRefused:
        return refusal(self.text, f"{call.name.upper()} {reason}", "no_noise_known", call, _HINT)


def _sources(select: exp.Select) -> Iterator[exp.Table | exp.Subquery]:
    from_ = select.args.get("from_")
    if from_ is None:
        return
    for source in (from_.this, *(join.this for join in select.args.get("joins") or ())):
        if isinstance(source, exp.Table | exp.Subquery):
            yield source
            for join in source.args.get("joins") or ():
                if isinstance(join.this, exp.Table | exp.Subquery):
                    yield join.this


def _cte(table: exp.Table) -> exp.Expr | None:
    """Find the CTE of a name in the WITH clauses around it, the nearest first."""
    above: exp.Expr | None = None if is_qualified(table) else table
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None and not with_.args.get("recursive"):
            for cte in reversed(with_.expressions):
                if fold(cte.alias) == fold(table.name):
                    body: exp.Expr = cte.this
                    return None if cte.args["alias"].args.get("columns") else body
        above = above.parent
    return None


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def _keep_names(select: exp.Select, rewritten: type[exp.Expr]) -> None:
    """Give select items with rewritten parts the names that they have as written."""
    named: list[exp.Expr] = []
    for item in select.expressions:
        if isinstance(item, exp.Alias) or not item.find(rewritten):
            named.append(item)
        else:
            named.append(exp.alias_(item, output_name(item), quoted=True, copy=False))
    select.set("expressions", named)


def _column(name: str, table: str = "") -> exp.Column:
    qualifier = exp.to_identifier(table, quoted=True) if table else None
    return exp.column(exp.to_identifier(name, quoted=True), table=qualifier)
