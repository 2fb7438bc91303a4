"""Samples of privacy units: what ``TABLESAMPLE`` and ``random() < 0.1`` mean over private rows.

A sample takes each privacy unit with a probability, with all of its rows or none, so that it is a
subset of the units. Which ones a block takes is decided once, by a salted hash of the unit that is
drawn when the rows are read. It is no step of reading the rows of one table: a mark in the
relation stands for it, and is legal where the units of the sampled rows are those of the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from dpsql.errors import QueryRefused
from dpsql.ir.relations import (
    Distinct,
    Extend,
    Filter,
    Join,
    JoinKind,
    LinkJoin,
    OneSpelling,
    PerUnit,
    Placed,
    Rename,
    RowSet,
    Sampled,
    SemiJoin,
    Typed,
    bottom_up,
)
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.lineage.names import Names
from dpsql.sql.lineage.relation import Relation
from dpsql.syntax.arguments import NodeArguments

_PERCENT: Final = NodeArguments("percent method")
_BARE: Final = NodeArguments("")
_SIDES: Final = NodeArguments("this expression")
_NUMBER: Final = NodeArguments("this")
_METHODS: Final = frozenset({"BERNOULLI", "SYSTEM"})
_MOST_DIGITS: Final = 20
"""Of a share: a longer number is no probability that anybody means."""
_BELOW: Final = (exp.LT, exp.LTE)
_ABOVE: Final = (exp.GT, exp.GTE)
_OF_ONE: Final = (*(Distinct, Extend, Filter, OneSpelling, PerUnit, Placed, Rename), Typed)
"""Relations each of whose rows is made of rows of one unit: of fewer units they have fewer rows."""
_HINT: Final = (
    "Over private rows a sample is a share of the privacy units: FROM t TABLESAMPLE 10%, or WHERE "
    "random() < 0.1. For less work or a faster answer nothing is gained by it: a question over "
    "all rows has less noise at the same price."
)


def share_of_sample(node: exp.Expr, rows: Relation, names: Names) -> Fraction:
    """Read the share of a sample clause over private rows. Raises ``QueryRefused`` for others."""
    if not rows.private:
        raise _refused(names, node, "rows of public tables beside private ones are not sampled")
    method = node.args.get("method")
    if method is not None and method.name.upper() not in _METHODS:
        raise _refused(names, node, "a sample of a number of rows is not available")
    if not isinstance(node, exp.TableSample) or not _PERCENT.hold(node):
        raise _refused(names, node, "this form of sample is not available")
    percent = _number(node.args.get("percent"))
    share = None if percent is None else percent / 100
    if share is None or not 0 < share <= 1:
        raise _refused(names, node, "the share of a sample is a number above 0 and up to 100%")
    return share


def split_shares(condition: exp.Expr) -> tuple[list[Fraction], list[exp.Expr]]:
    """Split the operands of AND into shares of units and all other conditions.

    A share is ``random() < 0.1`` with a number above 0 and up to 1; other uses of ``random()`` are
    left among the conditions, where they are refused.
    """
    parts = [(part, _share(part)) for part in conjuncts(condition)]
    shares = [share for _, share in parts if share is not None]
    return shares, [part for part, share in parts if share is None]


def sampled(rows: Relation, share: Fraction) -> Relation:
    """Mark rows as those of a sample of their units."""
    return replace(rows, rows=Sampled(rows.rows, share))


def sample_share(rows: Relation, select: exp.Select, names: Names) -> Fraction | None:
    """Return the share of units whose rows a block reads, None for all of them.

    Raises ``QueryRefused`` for a sample that is not one of the block's units as a whole.
    """
    shares: dict[int, Fraction | None] = {}
    for node in bottom_up(rows.rows):
        below = [shares[id(source)] for source in node.sources]
        found = [share for share in below if share is not None]
        if len(found) > 1 or (found and isinstance(node, Sampled)):
            raise _refused(names, select, "a sample is taken of another one")
        if found and not _keeps_units(node, below):
            raise _refused(names, select, "a sample stands where rows of all other units are kept")
        shares[id(node)] = node.share if isinstance(node, Sampled) else next(iter(found), None)
    share = shares[id(rows.rows)]
    if share is not None and rows.rows_are_units:
        raise _refused(names, select, "tables without an id, whose rows are units, have no samples")
    return share


def _keeps_units(node: RowSet, below: list[Fraction | None]) -> bool:
    """Tell whether a relation has no rows of the units that the sample below it leaves out.

    Then it is the same to leave these out in all of it.
    """
    if isinstance(node, (*_OF_ONE, LinkJoin)):
        return True
    if isinstance(node, Join):
        kept = _KEPT.get(node.kind)
        return kept is None or below[kept] is not None
    return isinstance(node, SemiJoin) and below[0] is not None


_KEPT: Final[Mapping[JoinKind, int]] = {JoinKind.LEFT: 0, JoinKind.RIGHT: 1}
"""The side of which an outer join keeps all rows."""


def _share(condition: exp.Expr) -> Fraction | None:
    """Read ``random() < 0.1`` or another way to write it; None for any other condition."""
    condition = condition.unnest()
    if not isinstance(condition, (*_BELOW, *_ABOVE)) or not _SIDES.hold(condition):
        return None
    one, other = condition.this.unnest(), condition.expression.unnest()
    below = isinstance(condition, _BELOW)
    if not _is_random(one):
        one, other, below = other, one, not below
    bound = _number(other)
    if not _is_random(one) or bound is None:
        return None
    share = bound if below else 1 - bound
    return share if 0 < share <= 1 else None


def _is_random(node: exp.Expr) -> bool:
    return isinstance(node, exp.Rand) and _BARE.hold(node)


def _number(node: object) -> Fraction | None:
    """Read a number as it is typed; None for anything else, and for one of too many digits."""
    if not isinstance(node, exp.Literal) or node.is_string or not _NUMBER.hold(node):
        return None
    text = str(node.this)
    plain = text.replace(".", "", 1).isdecimal() and text.isascii()
    return Fraction(text) if plain and len(text) <= _MOST_DIGITS else None


def _refused(names: Names, node: exp.Expr, reason: str) -> QueryRefused:
    return refusal(names.text, reason, "sample_not_available", node, hint=_HINT)
