"""Reports of aggregates as JSON, in GoogleSQL's words: their answers, and intervals of the noise.

    SUM(x, report_format => JSON)

    {"result":{"value":480},"noise_confidence_interval":
     {"lower_bound":451,"upper_bound":509,"confidence_level":0.95}}

It is text over released values, as an analyst could write it, and costs nothing.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from sqlglot import exp

from dpsql.core.formatting import DEFAULT_CONFIDENCE
from dpsql.core.schema import fold
from dpsql.ir.measures import AggregateKind
from dpsql.sql.expressions.call import WRAPPERS
from dpsql.syntax.dialect import REPORT_FORMAT, BoundedAggregate
from dpsql.syntax.text import output_name

_JSON: Final = "JSON"
_NO_INTERVAL: Final = (*AggregateKind.QUANTILE.value.nodes, exp.ApproxQuantiles)
"""Aggregates that are drawn: there is no noise to have an interval."""


def write_reports(tree: exp.Expr) -> None:
    """Replace each aggregate with a report of JSON by the text of it; ``tree`` is changed.

    One of another format is left to be refused, as is one around another aggregate.
    """
    for node in list(tree.find_all(BoundedAggregate)):
        asked = [each for each in node.expressions if fold(each.this.name) == REPORT_FORMAT]
        formats = {str(each.expression.name).upper() for each in asked}
        if len(asked) != 1 or formats != {_JSON} or node.this.find(BoundedAggregate):
            continue
        _write_report(node, [each for each in node.expressions if each not in asked])


def _write_report(node: BoundedAggregate, others: list[exp.Expr]) -> None:
    drawn = isinstance(node.this, _NO_INTERVAL)
    whole: exp.Expr = node
    while isinstance(whole.parent, WRAPPERS):
        whole = whole.parent
    name, item = output_name(whole), isinstance(whole.parent, exp.Select)
    marked = exp.Paren(this=whole.copy())
    plain = next(marked.find_all(BoundedAggregate))
    if others:
        plain.set("expressions", others)
    else:
        plain.replace(plain.this)
    report = _report(marked.this, drawn=drawn)
    whole.replace(exp.alias_(report, name, quoted=True) if item else report)


def _report(value: exp.Expr, *, drawn: bool) -> exp.Expr:
    """Write the text of a report, with the ends of the interval unless the value is ``drawn``."""
    parts = [_text('{"result":{"value":'), _shown(value.copy())]
    if not drawn:
        parts += [
            _text('},"noise_confidence_interval":{"lower_bound":'),
            _shown(exp.Anonymous(this="dp_interval_low", expressions=[value.copy()])),
            _text(',"upper_bound":'),
            _shown(exp.Anonymous(this="dp_interval_high", expressions=[value.copy()])),
            _text(f',"confidence_level":{DEFAULT_CONFIDENCE}'),
        ]
    parts.append(_text("}}"))
    return exp.Paren(this=reduce(lambda one, other: exp.DPipe(this=one, expression=other), parts))


def _shown(value: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=exp.cast(value, exp.DType.TEXT), expressions=[_text("null")])


def _text(text: str) -> exp.Expr:
    return exp.Literal.string(text)
