"""An engine's row expressions: a table of operations, and a few facts.

:mod:`dpsql.engines.base.row_expressions` reads an expression, gives every part its type in DuckDB
and the name of an operation, and finds here the SQL of the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.row_types import TypedValue
from dpsql.engines.evidence.verdicts import verdict_type
from dpsql.errors import QueryRefused

Write: TypeAlias = Callable[..., Sql]
"""How an operation is written, of the SQL of its operands.

Of ``… integer`` it gets the type of the result after them; of ``… decimal`` the operands with their
types, and that of the result; of ``… interval`` the operand with its type. Units of time, numbers
of digits and patterns follow.
"""


def named_by_number(number: Sql, names: Iterable[Sql], first: int) -> Sql:
    """Write the name at a number's place in a list that begins at ``first``; NULL outside of it."""
    found = (sql("WHEN {} THEN {}", place, name) for place, name in enumerate(names, first))
    return sql("CASE {} {} END", number, join(" ", found))


@dataclass(frozen=True, slots=True)
class Refusing:
    """The words for refusals of an engine: its place, and its page."""

    place: str
    page: str

    def __call__(self, what: str, why: str, hint: str | None = None) -> QueryRefused:
        """Build the error."""
        usual = (
            "Compute it over released rows, or have the owner add a column or view that holds it; "
            f"docs/engines/{self.page} lists what is available."
        )
        return QueryRefused(
            f"{what} is not available over private rows {self.place}: {why}",
            code="expression_not_allowed",
            hint=hint or usual,
        )


def _named(operand: SqlType | str) -> str:
    return operand if isinstance(operand, str) else verdict_type(operand)


class RowEngine(ABC):
    """An engine's table of operations. What is not in it is refused."""

    refused: Refusing
    operations: Mapping[str, Write]
    """The operations that it has, by name: ``like``, ``+ integer``."""
    calls: Mapping[str, str | None]
    """The key of an operation in the verdicts; ``{}`` are types, None is not looked up."""
    written_alike: frozenset[str] = frozenset()
    """Operations that are written as DuckDB has them."""
    calls_of_given: bool
    """Whether verdicts are on operands as they are given, not on what they are widened to."""
    typed_nulls: bool
    """Whether NULL gets the type of its neighbours; otherwise few operations accept it."""
    mixes: bool
    """Whether two operands may be of different types where DuckDB compares them."""
    joins_many: bool
    """Whether several texts are joined at once, as a guard of two writes both of them twice."""
    longest: int | None
    """Characters that an expression may have; None where it does not grow by being nested."""
    last_place: int
    """The last place and the largest length that may be told of a text."""
    part_named: Callable[[object], str | None]
    """The functions that read parts of dates for EXTRACT."""

    def call(
        self,
        word: str,
        given: Sequence[TypedValue | str],
        used: Sequence[SqlType],
        unit: SqlType | str,
    ) -> str | None:
        """Name an operation on types, as verdicts do; None where none is needed."""
        form = self.calls.get(word, f"{word}({{}})")
        if form is None:
            return None
        types = [each.type if isinstance(each, TypedValue) else each for each in given]
        names = map(_named, types if self.calls_of_given else used)
        return form.format(", ".join(names), unit=_named(unit))

    @abstractmethod
    def column_type(self, type_: SqlType) -> SqlType | None:
        """Return the type in which a column is computed; None for a type without an equal."""

    @abstractmethod
    def text(self, text: str) -> Sql:
        """Write a text. Raises ``QueryRefused`` for one that the engine cannot hold."""

    @abstractmethod
    def number(self, text: str, type_: SqlType) -> Sql:
        """Write a number of a type, as it was written."""

    @abstractmethod
    def negated(self, value: TypedValue, written: exp.Expr) -> TypedValue | None:
        """Write a constant with a sign before it; None for anything else."""

    @abstractmethod
    def null(self, value: TypedValue, type_: SqlType) -> TypedValue:
        """Write a NULL without a type that stands where values have one."""

    @abstractmethod
    def reads_text(self, beside: frozenset[str]) -> bool:
        """Tell whether a text constant is read in the type of its neighbours."""

    @abstractmethod
    def widened(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Widen a value to a type; None where that could fail on a row."""

    @abstractmethod
    def looks_up_widening(self, value: TypedValue, *, choice: bool) -> bool:
        """Tell whether widening a value is an operation with a verdict of its own."""

    @abstractmethod
    def trivial_cast(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Write a cast that computes nothing, as of a constant; None for any other."""

    @abstractmethod
    def cast(self, value: TypedValue, type_: SqlType) -> TypedValue | None:
        """Cast a value, to NULL where it does not fit; None where no cast is known."""

    @abstractmethod
    def guarded(self, operands: Sequence[TypedValue], written: Sql) -> Sql:
        """Compute something of dates and timestamps only where it cannot fail."""
