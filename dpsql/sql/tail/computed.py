"""Columns that compute with released values, read as terms: for their intervals.

What is not read has no interval; the answer is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.ir.query import Block
from dpsql.ir.terms import (
    ChoiceTerm,
    Comparing,
    ConstantTerm,
    Operator,
    OperatorTerm,
    Term,
    TermComparison,
)
from dpsql.syntax.arguments import NodeArguments, Rules, reads


class TermReader(Protocol):
    """The surroundings of an expression, which know its columns."""

    def term(self, node: exp.Expr) -> Term | None:
        """Read an expression as a term; None for what intervals cannot follow."""

    def known(self, node: exp.Expr) -> Term | None:
        """Read an expression that does not depend on noise; None for others."""


_Rule: TypeAlias = Callable[[exp.Expr, TermReader], Term | None]
_WHOLE: Final = frozenset(
    {
        exp.DType.TINYINT,
        exp.DType.SMALLINT,
        exp.DType.INT,
        exp.DType.BIGINT,
        exp.DType.INT128,
    }
)
_FLOATING: Final = frozenset({exp.DType.DOUBLE, exp.DType.FLOAT})
_MOST_DIGITS: Final = 12
_BRANCH: Final = NodeArguments("this true false")


def released_aggregate(column: exp.Expr, block: Block) -> int | None:
    """Find the aggregate that a column of a released table is; none for keys and quantiles."""
    prefix = f"{INTERNAL_PREFIX}a"
    if not (isinstance(column, exp.Column) and column.name.startswith(prefix)):
        return None
    aggregate = int(column.name.removeprefix(prefix))
    return aggregate if block.aggregates[aggregate].quantile is None else None


def term_of(node: exp.Expr, read: TermReader) -> Term | None:
    """Read what an expression computes from its parts; None where there is no rule for it."""
    rule = _RULES.of(node)
    return None if rule is None else rule(node, read)


def _several(
    operator: Operator, *nodes: exp.Expr | None, read: TermReader, digits: int = 0
) -> Term | None:
    terms = [None if node is None else read.term(node) for node in nodes]
    found = tuple(term for term in terms if term is not None)
    return OperatorTerm(operator, found, digits) if len(found) == len(terms) else None


def _literal(node: exp.Expr, read: TermReader) -> Term | None:
    value = math.nan if node.args.get("is_string") else float(node.this)
    return ConstantTerm(value) if math.isfinite(value) else None


def _binary(operator: Operator) -> _Rule:
    return lambda node, read: _several(operator, node.this, node.expression, read=read)


def _inner(node: exp.Expr, read: TermReader) -> Term | None:
    return read.term(node.this)


def _unary(operator: Operator) -> _Rule:
    return lambda node, read: _several(operator, node.this, read=read)


def _among(operator: Operator) -> _Rule:
    return lambda node, read: _several(operator, node.this, *node.expressions, read=read)


def _negative(node: exp.Expr, read: TermReader) -> Term | None:
    return _several(Operator.SUBTRACT, exp.Literal.number(0), node.this, read=read)


def _rounded(node: exp.Expr, read: TermReader) -> Term | None:
    digits = node.args.get("decimals")
    number = 0 if digits is None else _whole(digits)
    if number is None:
        return None
    return _several(Operator.ROUND, node.this, read=read, digits=number)


def _whole(node: exp.Expr) -> int | None:
    """Read a small whole number."""
    found = node.unnest()
    written = found.this if isinstance(found, exp.Literal) and found.is_int else ""
    few = 0 < len(written) <= len(str(_MOST_DIGITS)) and int(written) <= _MOST_DIGITS
    return int(written) if few else None


def _cast(node: exp.Expr, read: TermReader) -> Term | None:
    to = node.args["to"]
    if to.this in _FLOATING:
        return read.term(node.this)
    if to.this in _WHOLE:
        return _several(Operator.ROUND, node.this, read=read)
    if to.this is not exp.DType.DECIMAL:
        return None
    sizes = [_whole(each.this) for each in to.expressions[1:]] or [3 if not to.expressions else 0]
    return (
        None
        if sizes[0] is None
        else _several(Operator.ROUND, node.this, read=read, digits=sizes[0])
    )


def _unless_equal(node: exp.Expr, read: TermReader) -> Term | None:
    """Read NULLIF of a constant: where it is NULL there is nothing to hold."""
    return read.term(node.this) if isinstance(read.term(node.expression), ConstantTerm) else None


def _case(node: exp.Expr, read: TermReader) -> Term | None:
    branches = node.args["ifs"]
    if not all(isinstance(each, exp.If) and _BRANCH.hold(each) for each in branches):
        return None
    return _choice(branches, node.args.get("default"), read)


def _condition(node: exp.Expr, read: TermReader) -> Term | None:
    return _choice([node], node.args.get("false"), read)


def _choice(branches: list[exp.Expr], default: exp.Expr | None, read: TermReader) -> Term | None:
    values = [*(branch.args["true"] for branch in branches), default]
    nulls = [value is None or isinstance(value, exp.Null) for value in values]
    terms = [None if null else read.term(value) for value, null in zip(values, nulls, strict=True)]
    conditions = [_comparison(branch.this.unnest(), read) for branch in branches]
    found = tuple(condition for condition in conditions if condition is not None)
    unread = any(term is None and not null for term, null in zip(terms, nulls, strict=True))
    if unread or len(found) < len(conditions):
        return None
    return ChoiceTerm(tuple(zip(found, terms, strict=False)), terms[-1])


def _comparison(node: exp.Expr, read: TermReader) -> TermComparison | None:
    known = read.known(node)
    if known is not None:
        return TermComparison(Comparing.EQUAL, known, ConstantTerm(1.0))
    relation = _RELATIONS.get(type(node))
    if relation is None or not _TWO.hold(node):
        return None
    terms = read.term(node.this), read.term(node.expression)
    term, other = terms[::-1] if isinstance(node, (exp.LT, exp.LTE)) else terms
    return None if term is None or other is None else TermComparison(relation, term, other)


_RELATIONS: Final[Mapping[type[exp.Expr], Comparing]] = {
    **dict.fromkeys((exp.GT, exp.LT), Comparing.LARGER),
    **dict.fromkeys((exp.GTE, exp.LTE), Comparing.AT_LEAST),
    exp.EQ: Comparing.EQUAL,
    exp.NEQ: Comparing.DIFFERENT,
}
_TWO: Final = NodeArguments("this expression")
_RULES: Final[Rules[_Rule]] = Rules(
    {
        exp.Literal: reads("this is_string", _literal),
        exp.Paren: reads("this", _inner),
        exp.Neg: reads("this", _negative),
        exp.Add: reads("this expression", _binary(Operator.ADD)),
        exp.Sub: reads("this expression", _binary(Operator.SUBTRACT)),
        exp.Mul: reads("this expression", _binary(Operator.MULTIPLY)),
        exp.Div: reads("this expression", _binary(Operator.DIVIDE)),
        exp.Abs: reads("this", _unary(Operator.ABSOLUTE)),
        exp.Sqrt: reads("this", _unary(Operator.ROOT)),
        exp.Exp: reads("this", _unary(Operator.EXPONENTIAL)),
        exp.Ln: reads("this", _unary(Operator.LOGARITHM)),
        exp.Floor: reads("this", _unary(Operator.ROUND)),
        exp.Ceil: reads("this", _unary(Operator.ROUND)),
        exp.Round: reads("this decimals", _rounded),
        exp.Cast: reads("this to", _cast),
        exp.TryCast: reads("this to safe?", _cast),
        exp.Least: reads("this expressions ignore_nulls!", _among(Operator.LEAST)),
        exp.Greatest: reads("this expressions ignore_nulls!", _among(Operator.GREATEST)),
        exp.Coalesce: reads("this expressions", _among(Operator.FIRST)),
        exp.Nullif: reads("this expression", _unless_equal),
        exp.Case: reads("ifs default", _case),
        exp.If: reads("this true false", _condition),
    }
)
