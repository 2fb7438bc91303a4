"""DP_INTERVAL_LOW, DP_INTERVAL_HIGH and DP_NOISE_SCALE: what is known of the noise, as columns.

    SELECT k, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM visits GROUP BY k
    SELECT k, DP_INTERVAL_HIGH(n, 0.99) FROM (SELECT k, COUNT(*) AS n FROM visits GROUP BY k)

Each call becomes a column of the released table, which the release fills in. Where the call stands
outside the SELECT that aggregates, the SELECTs between hand the column on under a hidden name, and
their stars leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.accuracy.intervals import check_confidence
from dpsql.core.formatting import DEFAULT_CONFIDENCE
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block, NoiseColumn, NoiseFigure
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.tail.passed_on import PassedColumns, ReadTable, keep_names, quoted_column
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import put

MAX_NOISE_COLUMNS = 250
"""Columns that are added to released tables and subqueries: each is computed for every group."""
_FIGURES = {f"dp_{figure.value}": figure for figure in NoiseFigure}
_HINT = (
    "It takes an aggregate, or the name of a column that is one: SELECT k, COUNT(*) AS n, "
    "DP_INTERVAL_LOW(n) AS low …. Give it a name there, and use that name in outer queries."
)


def place_noise_columns(
    tree: exp.Query, blocks: Sequence[Block], text: str, passed: PassedColumns
) -> list[Block]:
    """Replace the calls in a tail by columns; returns the blocks with these columns added.

    Columns that subqueries have to hand on for it are ``passed``, and not hidden yet.

    Raises ``QueryRefused`` for a call on anything but an aggregate as it was released, and
    ``ParameterError`` for a confidence that is no number between 0 and 1.
    """
    calls = [node for node in tree.find_all(exp.Anonymous) if is_noise_call(node)]
    if not calls:
        return list(blocks)
    return _Placer(tree, blocks, text, passed).place(calls)


def is_noise_call(node: exp.Expr | None) -> bool:
    """Tell whether a node is a call of one of the three functions."""
    return isinstance(node, exp.Anonymous) and fold(node.name) in _FIGURES


class _Placer:
    def __init__(
        self, tree: exp.Query, blocks: Sequence[Block], text: str, passed: PassedColumns
    ) -> None:
        self.tree = tree
        self.blocks = list(blocks)
        self.text = text
        self.passed = passed
        self.named: set[int] = set()  # id(SELECT)
        self.found: dict[tuple[object, ...], exp.Column] = {}
        self.added = 0

    def place(self, calls: list[exp.Anonymous]) -> list[Block]:
        """Replace every call by a column."""
        keep_names(next(self.tree.find_all(exp.Select)), exp.Query)
        for call in calls:
            column, figure, confidence = self._read(call)
            select = call.find_ancestor(exp.Select)
            if select is None:
                raise self._refusal(call, "stands in a SELECT")
            found = self._figure(call, select, column, figure, confidence)
            if id(select) not in self.named:
                self.named.add(id(select))
                keep_names(select, exp.Anonymous)
            put(call, found.copy())
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
        block = self.passed.block_of(source)
        if block is not None:
            return quoted_column(self._released(call, block, column.name, figure, confidence))
        inner = self.passed.inner(source)
        if inner is None or not self.passed.can_hand_on(source, inner):
            raise self._refusal(call, "cannot reach an aggregate from here")
        found = self._figure(call, inner, self._item(call, inner, column.name), figure, confidence)
        self._add(call)
        return self.passed.hand_on(source, inner, found)

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

    def _add(self, call: exp.Anonymous) -> None:
        """Count a column that is added."""
        self.added += 1
        if self.added > MAX_NOISE_COLUMNS:
            raise refusal(
                self.text,
                f"the noise columns of the query are more than {MAX_NOISE_COLUMNS} columns",
                "query_too_large",
                call,
                "Ask where the aggregate is: each subquery around it hands a column on.",
            )

    def _source_of(self, call: exp.Anonymous, select: exp.Select, column: exp.Column) -> ReadTable:
        source = self.passed.source_of(select, column)
        if source is None:
            raise self._refusal(call, f"finds no one column called {column.name} here")
        return source

    def _item(self, call: exp.Anonymous, inner: exp.Select, name: str) -> exp.Column:
        """Return the column of ``inner`` that its output column is."""
        item = self.passed.item(inner, name)
        if item is None:
            raise self._refusal(call, f"finds no one column called {name} here")
        node = item.unnest()
        if not isinstance(node, exp.Column):
            raise self._refusal(call, f"takes an aggregate as it was released; {name} is not")
        return node

    def _refusal(self, call: exp.Anonymous, reason: str) -> QueryRefused:
        return refusal(self.text, f"{call.name.upper()} {reason}", "no_noise_known", call, _HINT)
