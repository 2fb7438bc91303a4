"""Averages of conditions, read as those of 1 and 0.

SELECT AVG(status = 'late') FROM orders
SELECT AVG(CASE WHEN status = 'late' THEN 1 WHEN NOT (status = 'late') THEN 0 END) FROM orders
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.syntax.text import NAMED, display


def settle_averages(tree: exp.Expr) -> None:
    """Read ``AVG(status = 'late')`` as that of 1 and 0, as SQLite and MySQL do; it is changed."""
    for average in list(tree.find_all(exp.Avg)):
        test = average.this.unnest() if isinstance(average.this, exp.Expr) else None
        if not isinstance(test, exp.Predicate | exp.Connector | exp.Not) or test.find(exp.Query):
            continue
        false = exp.If(this=exp.Not(this=exp.paren(test.copy())), true=exp.Literal.number(0))
        true = exp.If(this=test.copy(), true=exp.Literal.number(1))
        value = exp.Case(ifs=[true, false])
        value.meta[NAMED] = display(test)
        average.set("this", value)
