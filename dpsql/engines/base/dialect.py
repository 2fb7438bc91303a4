"""The dialect of an engine: the spellings that generated SQL needs, with their guarantees.

The rows that are read arrive as values (:mod:`dpsql.ir.relations`); the rewriting knows what a unit
may contribute and how measures are summed. How any of it is spelled is asked of a :class:`Dialect`:
there is no other place that knows an engine. Left to those who put it together
(:mod:`dpsql.sql.relations`, :mod:`dpsql.sql.rewrite`) is what all engines spell and mean alike:
SELECT, JOIN … ON and USING, GROUP BY, HAVING, set operations, CASE, COALESCE, COUNT, MIN, MAX,
window functions, ``+ - *``, ``/`` of DOUBLEs, comparisons, IS NULL.

SQL goes in and SQL comes out (:mod:`dpsql.core.sql`), which is no text: names and literals in it
are values until the engine writes them by :attr:`Dialect.renderer`. No method copies what an
analyst wrote: that arrives as a checked tree, and leaves by :meth:`Dialect.expression`.

A new dialect is a subclass and a line in :mod:`dpsql.engines.dialects`. The docstring of each
method says what its text has to guarantee. What an engine only spells in its own words is a line of
its class, ``is_nan = written_as("isnan({value})")``; what differs in structure is a method. Three
promises run through all of them:

* *Total.* No row makes a statement fail. Whether it fails would tell that there is such a row, and
  the price of the question would be gone.
* *Row by row.* The value of an expression depends on its own row, never on what else a table holds.
* *The same.* Equal statements over equal rows have equal exact rows, whatever plan is chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import EMPTY_SQL, Sql, SqlRenderer, literal, sql
from dpsql.core.sql_types import BIGINT, SqlType
from dpsql.engines.evidence.verdicts import Verdicts

FEW_COPIES: Final = 8
"""So many times its texts a statement takes whatever they are; of more copies, texts are short."""
COPIES_IN_EACH_ROW: Final = 64
"""As many copies are supposed where many rows have the text of one."""


class Dialect(ABC):
    """The spelling of generated SQL for one engine. Types are given as the schema writes them."""

    __slots__ = ()
    name: ClassVar[str]
    """The name of the engine, as evidence has it."""
    renderer: SqlRenderer
    """How names and literals become text, in generated SQL and nowhere else.

    Any text is a name and nothing more, its case kept; no text ends a literal early.
    """
    widest: ClassVar[tuple[int, int]]
    """The ends of the wide integer type, between which sums and products are exact.

    Ranges are proved to lie within; beyond it an engine would raise, or wrap around.
    """
    wide_type: ClassVar[SqlType]
    """The wide integer type."""
    sorts_rows: ClassVar[bool] = False
    """Whether window functions over rows take less time than grouping them by unit and keys.

    Only where ``row_number`` and ``rank`` have 64 bits: a unit may have any number of rows.
    """
    keeps_stages: ClassVar[bool] = True
    """Whether pairs of units and keys are stored once for the statements of a first question."""
    verdicts: Verdicts | None = None
    """The verdicts on row expressions of the engine's version; None for DuckDB's own dialect."""

    def streams_rows(self) -> bool:
        """Tell whether the engine streams integers of rows to this process, as is installed."""
        return False

    # -- names and constants ------------------------------------------------------------------

    @abstractmethod
    def table(self, table: Table) -> Sql:
        """Write the rows of a table of the owner's as they stand in a FROM clause.

        It has the columns of the schema, with values of the types that the schema says, and is of
        no other table of the same name in another schema.
        """

    @abstractmethod
    def double(self, value: float) -> Sql:
        """Write exactly this finite value as a literal of 64-bit floating point."""

    @abstractmethod
    def integer(self, value: int) -> Sql:
        """Write an integer of up to 64 bits as a literal wide enough for arithmetic with it.

        A product of two integers of 32 bits, as an engine may count rows in, need not.
        """

    def wide_literal(self, value: int) -> Sql:
        """Write an integer, also beyond 64 bits, as a literal of the wide integer type.

        It is a cast of text: a number of so many digits may be read as a DOUBLE.
        """
        return self.cast(literal(value), self.wide_type)

    # -- errors on rows -----------------------------------------------------------------------

    def copies(self, tree: exp.Expr) -> int:
        """Count the copies of long texts that a checked expression holds for many rows at once.

        None where an engine computes one row after the other.
        """
        return 0

    def short(self, value: Sql, type_: SqlType, copies: int = COPIES_IN_EACH_ROW) -> Sql:
        """Write a value that a statement holds several copies of, or NULL where it is long."""
        return value

    @abstractmethod
    def expression(self, tree: exp.Expr, table: Table) -> Sql:
        """Write a checked expression over the columns of ``table`` as SQL; uses up the tree.

        It must mean what DuckDB means by it, row by row. Raises ``QueryRefused`` for whatever the
        engine has no equal of: to leave a part out, or to put something similar in its place, could
        take away what :meth:`try_` guards.
        """

    @abstractmethod
    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Wrap an expression to be NULL where it fails. The result must never raise, on any row.

        It is over the columns of ``table``, and is used up. All that stands inside evaluates all of
        its operands. An engine without such a construct has to guard each operation for itself, and
        to refuse those that it cannot guard. Rows that fail are as cheap as the engine can have it:
        any part of the rows may.
        """

    def try_truth(self, node: exp.Expr) -> exp.Expr:
        """Turn an infallible expression into a truth value, NULL for values that are none."""
        return exp.TryCast(this=node, to=exp.DataType.build("BOOLEAN"))

    @abstractmethod
    def type_of(self, tree: exp.Expr, table: Table) -> SqlType:
        """Return the type of an expression's values, for :meth:`try_cast`.

        UNKNOWN in a dialect whose casts find out for themselves.
        """

    @abstractmethod
    def try_cast(self, value: Sql, type_: SqlType, source: SqlType) -> Sql:
        """Cast a value to a type, to NULL where it does not fit. It must never raise, on any row.

        Numbers that become integers are rounded to a nearest one. ``source`` is the type it has,
        as :meth:`type_of` tells it.
        """

    @abstractmethod
    def declared(self, value: object, type_: SqlType) -> Sql:
        """Write a value that the policy declares as a constant of a column's type.

        NULL for one that does not fit the type: no row has it.
        """

    @abstractmethod
    def comparison_family(self, type_: SqlType) -> str | None:
        """Name the family of a type: values within one can be compared with each other.

        Comparisons within a family must never raise, on any row: those are left without a guard.
        Literals are of the families ``number`` and ``text``. None for types of which nothing is
        sure.
        """

    # -- integers -----------------------------------------------------------------------------

    def integer_type(self, *, wide: bool) -> SqlType:
        """Return the wide integer type, or the one of 64 bits."""
        return self.wide_type if wide else BIGINT

    @abstractmethod
    def cast(self, value: Sql, type_: SqlType) -> Sql:
        """Cast a value to a type that is known to hold it."""

    @abstractmethod
    def divided(self, dividend: Sql, divisor: Sql, *, wide: bool) -> Sql:
        """Divide integers, rounding towards zero and exact beyond 2^53; in brackets.

        Rounded in another direction, a removed unit's contributions could move a sum by more.
        ``wide``: one of the two is of the wide type, and so is the result.
        """

    def remainder(self, dividend: Sql, divisor: Sql) -> Sql:
        """Compute the remainder of a division, with the sign of the dividend; in brackets."""
        return sql("({} % {})", dividend, divisor)

    @abstractmethod
    def sum(self, value: Sql, *, wide: bool, distinct: bool = False) -> Sql:
        """Sum a group's integers, or its decimals whose sum is known to fit.

        It is exact, of the wide type for integers, without NULLs, and NULL for no value. It must
        not wrap around, and not depend on the order of rows. ``wide``: the values are of the wide
        type or decimals already, and else of 64 bits or fewer. ``distinct``: equal ones once.
        """

    def least(self, one: Sql, other: Sql) -> Sql:
        """Take the smaller of two integers. A NULL must be ignored: clamping makes it the limit."""
        return sql("least({}, {})", one, other)

    def greatest(self, one: Sql, other: Sql) -> Sql:
        """Take the larger of two integers. A NULL must be ignored: clamping makes it the limit."""
        return sql("greatest({}, {})", one, other)

    # -- floating point -----------------------------------------------------------------------

    @abstractmethod
    def is_nan(self, value: Sql) -> Sql:
        """Test whether a DOUBLE is NaN; NULL for NULL, or rows without a value would be counted."""

    @abstractmethod
    def quotient(self, value: Sql, quantum: float) -> Sql:
        """Divide a DOUBLE, which is neither NaN nor large, by a power of two.

        The quotient is the exact one, or rounds to the same integer. It must not raise where the
        value or the quotient is too small for a DOUBLE.
        """

    @abstractmethod
    def rounded(self, value: Sql) -> Sql:
        """Round a DOUBLE to an integer next to it, as a DOUBLE; integers stay exactly the same."""

    @abstractmethod
    def root(self, value: Sql) -> Sql:
        """Compute the root of an integer below 2^52, rounded down, as an integer of 64 bits."""

    @abstractmethod
    def divided_by_root(self, dividend: int, value: Sql) -> Sql:
        """Divide a number by the root of a positive integer: rounded down, of 64 bits.

        Quotient and root are those of IEEE 754, as Python has them: weights that a mechanism proves
        something of are computed by both.
        """

    # -- chance and order ---------------------------------------------------------------------

    @abstractmethod
    def salted_hash(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Hash columns to 64 bits: the order in which bounding keeps a unit's keys.

        It must depend on the salt and on all of the columns, NULLs and their places among them; be
        equal for values that the engine groups as equal; and be uniform over salts *for each row*:
        a combination of columns in which some keys come first for every unit would drop the others
        everywhere. Privacy does not rest on it, as ties are broken by the columns; fairness does.
        ``salt`` is below 2^62.
        """

    @abstractmethod
    def salted_bits(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Take the upper half of the salted hash: an integer from 0 to 2^32 - 1, of 64 bits."""

    @abstractmethod
    def one_spelling(self, value: Sql, type_: SqlType) -> Sql:
        """Give one spelling to all values that the engine groups as equal.

        Grouping keeps a spelling that depends on all rows and on the plan: 0.0 or -0.0, NaN with or
        without a sign, 30 days or a month, texts that a collation holds equal.
        """

    @abstractmethod
    def same(self, one: Sql, other: Sql) -> Sql:
        """Test whether two values are equal or both NULL, as GROUP BY has it; never NULL itself."""

    @abstractmethod
    def ascending(self, value: Sql) -> Sql:
        """Write a term of ORDER BY that depends on values alone, equal only where grouped.

        Values may be of any type. NULLs come at one end, always the same. A collation would not do
        where it makes values equal that GROUP BY tells apart: which of a unit's keys come first
        would be open.
        """

    def descending(self, value: Sql) -> Sql:
        """Write a term of ORDER BY for integers that are never NULL, the largest first."""
        return sql("{} DESC", value)

    @abstractmethod
    def position(self, values: Sequence[Sql], value: Sql) -> Sql:
        """Find the place of a value among constants, from 1: NULL, and not 0, if it is not there.

        What has no place belongs to no declared group and is left out by its NULL.
        """

    # -- rows ---------------------------------------------------------------------------------

    def derived(self, statement: Sql, alias: Sql = EMPTY_SQL) -> Sql:
        """Write a statement as rows of a FROM clause, with an alias or without.

        No two that stand beside each other without an alias have the same text: an engine that
        wants one for each can make it of a digest of that.
        """
        return sql("({}) {}", statement, alias) if alias else sql("({})", statement)

    def to_group(self, rows: Sql, columns: Sequence[Sql]) -> Sql:
        """Write rows of a FROM clause as they are best grouped by ``columns``: by default as is.

        ``rows`` is such rows. The columns are a unit and keys, with nearly as many values as there
        are rows. Only the order of rows may change, on which nothing depends.
        """
        return rows

    def materialized(self, name: Sql, statement: Sql) -> Sql:
        """Write a member of a WITH clause that is the same however often it is read.

        It is computed once, as a row number could stand for two different rows otherwise; or an
        engine that numbers no rows in it computes it again, of rows that lie still.
        """
        return sql("{} AS MATERIALIZED ({})", name, statement)

    def row_number(self) -> Sql:
        """Number the rows of a statement: distinct, ascending in the order of rows."""
        return sql("row_number() OVER ()")

    def numbered_within(self, window: Sql) -> Sql:
        """Number the rows of each part of an ordered window from 1, in 64 bits."""
        return sql("row_number() OVER ({})", window)

    def ranked_within(self, window: Sql) -> Sql:
        """Rank the rows of each part of an ordered window, in 64 bits: equals by the first."""
        return sql("rank() OVER ({})", window)

    def first_within(self, value: Sql, window: Sql) -> Sql:
        """Read a value of the first row of each part of an ordered window."""
        return sql("first_value({}) OVER ({})", value, window)

    def beside_within(self, value: Sql, distance: int, window: Sql) -> Sql:
        """Read a value of the row so many rows after each in an ordered window, or before it.

        A negative ``distance`` counts rows before. NULL where there is no such row.
        """
        function = sql("lag") if distance < 0 else sql("lead")
        return sql("{}({}, {}) OVER ({})", function, value, abs(distance), window)

    def sorted_by(self, value: Sql, *, descending: bool, nulls_first: bool) -> Sql:
        """Write a term of ORDER BY for any values."""
        term = sql("{} DESC", value) if descending else value
        return sql("{} NULLS {}", term, sql("FIRST") if nulls_first else sql("LAST"))

    @abstractmethod
    def numbers(self, count: int, alias: Sql, column: Sql) -> Sql:
        """Write the integers from 1 to ``count`` as rows of a FROM clause with one column."""

    def limited(self, statement: Sql, rows: int) -> Sql:
        """Keep the first rows of a statement that ends in ORDER BY, however many are equal."""
        return sql("{} LIMIT {}", statement, rows)

    @abstractmethod
    def semi_join(self, left: Sql, right: Sql, condition: Sql, *, negated: bool) -> Sql:
        """Keep the rows of ``left`` with a match in ``right``, or those with none: each once.

        ``left`` may be joins, and the text may stand on the left of more: without such joins, a
        derived table whose condition is EXISTS.
        """

    @abstractmethod
    def pairs(self, one: Sql, other: Sql) -> Sql:
        """Aggregate both values of each row into a list, for a statement that shows them."""

    # -- parameters ---------------------------------------------------------------------------

    def parameter(self, position: int) -> Sql:
        """Write the place of an integer that is given when a statement runs, from 1."""
        return sql("?")

    @abstractmethod
    def among_given(self, value: Sql, *, few: bool) -> Sql:
        """Test whether an integer is in the list given to a statement when it runs.

        ``few``: the list is so short that to look through it is faster than a join.
        """
