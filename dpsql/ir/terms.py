"""Terms: what a column of an answer computes from the released values of its row.

    COUNT(*) / NULLIF(COUNT(DISTINCT id), 0)    ROUND(100.0 * COUNT_IF(c) / COUNT(*), 1)

They say how such a column follows from released values, so that its interval can be found; the
column itself is computed by the tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Operator(Enum):
    """An operator on numbers.

    ``ROUND`` moves a number by less than one digit, in either direction. ``FIRST`` takes the first
    of its numbers that is not NULL.
    """

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    ABSOLUTE = "absolute"
    ROOT = "root"
    EXPONENTIAL = "exponential"
    LOGARITHM = "logarithm"
    LEAST = "least"
    GREATEST = "greatest"
    ROUND = "round"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class AggregateTerm:
    """A released value of a computed column, by its index."""

    aggregate: int


@dataclass(frozen=True, slots=True)
class KnownTerm:
    """A value without noise, as of a public table, by its index among those of the column."""

    known: int


@dataclass(frozen=True, slots=True)
class ConstantTerm:
    """A number that the question gives."""

    value: float


@dataclass(frozen=True, slots=True)
class OperatorTerm:
    """An operator on other terms; ``digits`` are those after the point that ``ROUND`` leaves."""

    operator: Operator
    terms: tuple[Term, ...]
    digits: int = 0


class Comparing(Enum):
    """A comparison of two numbers."""

    LARGER = "larger"
    AT_LEAST = "at least"
    EQUAL = "equal"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class TermComparison:
    """The condition that one term has a relation to another."""

    relation: Comparing
    term: Term
    other: Term


@dataclass(frozen=True, slots=True)
class ChoiceTerm:
    """The value of a CASE, under its first true condition, or ``otherwise``.

    None stands for NULL.
    """

    cases: tuple[tuple[TermComparison, Term | None], ...]
    otherwise: Term | None


Term: TypeAlias = AggregateTerm | ConstantTerm | KnownTerm | OperatorTerm | ChoiceTerm


def parts_of(term: Term) -> tuple[Term, ...]:
    """List the terms that a term is made of."""
    if isinstance(term, OperatorTerm):
        return term.terms
    if not isinstance(term, ChoiceTerm):
        return ()
    compared = [each for one, _ in term.cases for each in (one.term, one.other)]
    chosen = [*(each for _, each in term.cases), term.otherwise]
    return (*compared, *(each for each in chosen if each is not None))


def aggregates_of(term: Term) -> Iterator[int]:
    """Yield the released values of a term, each as often as it occurs."""
    if isinstance(term, AggregateTerm):
        yield term.aggregate
    for part in parts_of(term):
        yield from aggregates_of(part)
