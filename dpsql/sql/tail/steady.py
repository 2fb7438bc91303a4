"""Tails that give the same rows whenever they run over the same ones.

Each node is one that is known: what it computes is the same whenever it is. A function that nobody
listed may ask for chance, the clock or the place.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.ir.query import TailKind
from dpsql.syntax.clock import clock_words


def is_steady(tree: exp.Query, kind: TailKind) -> bool:
    """Tell whether a finished tail of a ``kind`` gives the same rows whenever it runs."""
    if kind is TailKind.UNBOUNDED:  # it has nodes that nobody listed
        return False
    return tree.find(exp.Rand, exp.TableSample) is None and not any(clock_words(tree))
