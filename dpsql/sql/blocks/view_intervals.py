"""DP_INTERVAL_LOW, DP_INTERVAL_HIGH and DP_NOISE_SCALE of a view's columns, as expressions.

The noise of a step is public, so an interval is the value and a number that the step decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.accuracy.intervals import check_confidence
from dpsql.core.formatting import DEFAULT_CONFIDENCE
from dpsql.core.schema import fold
from dpsql.ir.query import NoiseFigure
from dpsql.ir.relations import PublishedView
from dpsql.sql.blocks.noise_columns import is_noise_call
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.table_names import name_of, tables_named
from dpsql.syntax.parse import place_of
from dpsql.syntax.text import put

STEP: Final = "step"
"""The column of every view that holds the number of a step, from 1 on."""

NoiseFigures: TypeAlias = Callable[[PublishedView, str, float | None], Sequence[float] | None]
"""By step, the half-width of the intervals of a view's column at a confidence, or without one the
standard deviation of its noise; None for a column without noise of its own."""


def place_view_intervals(
    tree: exp.Query, views: Mapping[str, PublishedView], figures: NoiseFigures, text: str
) -> None:
    """Replace the calls on columns of views, in SELECTs that read these in their own FROM.

    Calls on other columns are left alone, those of a CTE named like a view among them. Raises
    ``QueryRefused`` for columns without noise of their own, ``ParameterError`` for a confidence
    that is none.
    """
    named = {id(table) for table in tables_named(tree)}
    for call in list(tree.find_all(exp.Anonymous)):
        if is_noise_call(call) and call.expressions:
            found = _column_of(call, views, named)
            if found is not None:
                put(call, _figure(call, *found, figures, text))


def _column_of(
    call: exp.Anonymous, views: Mapping[str, PublishedView], named: Set[int]
) -> tuple[exp.Column, str, exp.Table, PublishedView] | None:
    """Find a call's column, the column's name in its view, and the view in the FROM clause."""
    column, select = call.expressions[0].unnest(), call.find_ancestor(exp.Select)
    if not isinstance(column, exp.Column) or select is None:
        return None
    clauses = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for source in (clause.this for clause in clauses if clause is not None):
        if not isinstance(source, exp.Table) or id(source) not in named:
            continue
        name = name_of(source)
        if name is None or name.key not in views:
            continue
        if column.table and fold(column.table) != fold(source.alias_or_name):
            continue
        view = views[name.key]
        known = view.table.column(column.name)
        if known is not None:
            return column, known.name, source, view
    return None


def _figure(
    call: exp.Anonymous,
    column: exp.Column,
    name: str,
    source: exp.Table,
    view: PublishedView,
    figures: NoiseFigures,
    text: str,
) -> exp.Expr:
    kind = NoiseFigure(fold(call.name).removeprefix("dp_"))
    scale = kind is NoiseFigure.SCALE
    found = figures(view, name, None if scale else _confidence(call, text))
    if found is None:
        raise refusal(
            text,
            f"{call.name.upper()} is not known of this column of {source.name}",
            "no_noise_known",
            call,
            hint="It is known of counts and sums; averages and keys have no noise of one size.",
        )
    numbers = exp.Array(expressions=[exp.Literal.number(repr(float(each))) for each in found])
    step = exp.column(STEP, table=source.alias_or_name, quoted=True)
    size = exp.cast(exp.Anonymous(this="list_extract", expressions=[numbers, step]), "DOUBLE")
    if scale:
        return size
    value = exp.cast(column.copy(), "DOUBLE")
    low = kind is NoiseFigure.LOW
    ends = (exp.Sub if low else exp.Add)(this=value, expression=size)
    return exp.Paren(this=ends)


def _confidence(call: exp.Anonymous, text: str) -> float:
    if len(call.expressions) < 2:
        return DEFAULT_CONFIDENCE
    given, place = call.expressions[1].unnest(), place_of(text, call)
    if len(call.expressions) > 2 or not isinstance(given, exp.Literal) or given.is_string:
        raise refusal(
            text,
            f"{call.name.upper()} takes a column and a confidence",
            "no_noise_known",
            call,
            hint="Write DP_INTERVAL_LOW(n, 0.95).",
        )
    return check_confidence(float(given.this), place)
