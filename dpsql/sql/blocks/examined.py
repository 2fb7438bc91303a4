"""Examination of a block before it is paid for: every expression over its private rows.

As parts of it stand behind conditions that hold for few rows, or for none of those it is tried on,
every part is examined for itself as well, and all of it over rows that the conditions of subqueries
leave out, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.core.schema import Table, fold
from dpsql.core.sql import Sql, join, sql
from dpsql.core.sql_types import BIGINT, DOUBLE, SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine
from dpsql.engines.base.twin import not_tried
from dpsql.engines.dialects import AS_TYPED, TWIN
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block
from dpsql.ir.relations import Join, RowSet, Scan, bottom_up, unnumbered
from dpsql.ir.trial_rows import computed_steps, unfiltered
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.expressions.totality import total_condition_sql, total_sql
from dpsql.sql.relations.from_clause import from_clause
from dpsql.sql.tail.bind_check import constant_fails

_SIMPLE = (exp.Column, exp.Literal, exp.Paren, exp.Boolean, exp.Null)
_OF_OTHERS = (exp.And, exp.Or, exp.Not)
"""Infallible combinations of truth values, whose operands are examined by themselves."""
MAX_EXAMINED = 50_000
"""Characters of all parts of a block: those of a long chain of operators add up to its square.

Numbers and texts of a list after IN, which is no part of a chain, are not counted.
"""
_NO_VALUES = (exp.Identifier, exp.DataType, exp.DataTypeParam, exp.Var, exp.If, exp.Star)


def examine(block: Block, engine: Engine, text: str) -> tuple[SqlType | None, ...]:
    """Examine all row expressions of a block, and return their types, keys first.

    Empty for a block that reads nothing but columns of one table. ``text`` is the statement. Raises
    ``QueryRefused`` for a block with a call that may fail on a row, with a constant that can never
    be computed, or of which all parts together are too large; ``InternalError`` where there are no
    synthetic rows to try it on.
    """
    expressions = examined_expressions(block, TWIN)
    if not expressions:
        return ()
    source = _source(block)
    rows = from_clause(source, TWIN)
    # What is made total turns a constant that fails, as '2024-13-01' beside a date, into NULL: it
    # would be paid for, and answered as if no row matched.
    rows_as_typed, as_typed = from_clause(source, AS_TYPED), _whole(block, AS_TYPED)
    changed = rows_as_typed != rows or not set(as_typed) <= set(expressions)
    typed = sql("SELECT {} FROM {}", join(", ", as_typed or [sql("1")]), rows_as_typed)
    behind = unfiltered(source)
    found = engine.examine(rows, expressions, typed if changed else None, from_clause(behind, TWIN))
    if found.objection is not None:
        raise _can_fail(block, found.objection, text)
    if found.failing is not None:
        raise constant_fails(text, found.failing.reason, found.failing.literals)
    if behind is not source and not found.rows:
        _try_on_all_pairs(behind, expressions, engine)
    # A subquery's condition can hold for no synthetic row: then nothing above it was tried.
    for below, computed in computed_steps(source):
        if all(isinstance(node, exp.Column) for node in computed):
            continue
        parts = list(_with_parts(computed, below, TWIN))
        step = engine.examine(from_clause(below, TWIN), parts)
        if step.objection is not None:
            raise _can_fail(block, step.objection, text)
        if not step.rows:
            _try_on_all_pairs(below, parts, engine)
    return found.types


def _try_on_all_pairs(rows: RowSet, expressions: Sequence[Sql], engine: Engine) -> None:
    """Try expressions whatever rows meet: of a calendar no day may be among the synthetic ones."""
    met = from_clause(unfiltered(rows, paired=False), TWIN)
    if not engine.examine(met, expressions).rows:
        raise not_tried()


def _with_parts(computed: Iterable[exp.Expr], rows: RowSet, dialect: Dialect) -> dict[Sql, None]:
    """Write expressions over the columns of rows, and their parts that have a text alone."""
    table, found = Table("", rows.columns), dict[Sql, None]()
    for whole in computed:
        found[total_sql(whole, table, dialect)] = None
        for part in _parts(whole):
            with contextlib.suppress(QueryRefused):
                found[total_sql(part, table, dialect)] = None
    found.pop(sql("NULL"), None)  # of no type, and nothing is computed
    return found or {dialect.cast(sql("NULL"), BIGINT): None}


def _whole(block: Block, dialect: Dialect) -> list[Sql]:
    """Write the SQL of all that a block computes of single rows, its keys first."""
    table = block.source.table
    found = [total_sql(node, table, dialect) for node in block.valued]
    if block.condition is not None:
        found.append(total_condition_sql(block.condition, table, dialect))
    return found


def examined_expressions(block: Block, dialect: Dialect) -> list[Sql]:
    """Write the SQL of all that a block computes of single rows, its keys first, then of its parts.

    Empty for a block that reads nothing but columns of one table. Raises ``QueryRefused`` for a
    block of which all parts together are too large.
    """
    table = block.source.table
    plain = all(isinstance(node, exp.Column) for node in block.valued)
    if plain and block.condition is None and block.source.catalog:
        return []
    found = _whole(block, dialect)
    parts = dict.fromkeys(found)
    size = 0
    for part in (part for node in block.computed for part in _parts(node)):
        written = total_sql(part, table, dialect)
        size += written.size - _listed(part)
        if size > MAX_EXAMINED:
            raise QueryRefused(
                "the expressions over private rows are too large",
                code="query_too_large",
                hint="Each part of an expression is examined for itself: split up long chains of "
                "operators, or compute some of it over released rows.",
            )
        parts[written] = None
    return [*found, *list(parts)[len(dict.fromkeys(found)) :]] or [sql("1")]


def _listed(part: exp.Expr) -> int:
    """Return how many characters numbers and texts have that IN lists, or less."""
    if not isinstance(part, exp.In):
        return 0
    return sum(len(value.this) for value in part.expressions if isinstance(value, exp.Literal))


def _tried_expressions(block: Block, dialect: Dialect) -> list[Sql]:
    """Write all row expressions of a block in the SQL of its engine.

    Parts come for themselves as well, unless the engine has no text for them alone, as for an
    interval; and what is summed comes with the casts that bounding puts around it. Raises
    ``QueryRefused`` for what the engine cannot compute.
    """
    table = block.source.table
    found = {total_sql(node, table, dialect): None for node in block.valued}
    if block.condition is not None:
        found[total_condition_sql(block.condition, table, dialect)] = None
    for part in (part for node in block.computed for part in _parts(node)):
        with contextlib.suppress(QueryRefused):
            found[total_sql(part, table, dialect)] = None
    for summed in [m.argument for m in block.measures] + [
        q.ranked.argument for q in block.quantiles
    ]:
        if summed is not None:
            found.update(dict.fromkeys(_numbers(summed, table, dialect)))
    found.pop(sql("NULL"), None)  # of no type, and nothing is computed
    return list(found) or [dialect.cast(sql("NULL"), BIGINT)]


def _numbers(node: exp.Expr, table: Table, dialect: Dialect) -> Iterator[Sql]:
    """Yield the casts of a value for summing, if its type has such casts."""
    for type_ in (DOUBLE, BIGINT):
        with contextlib.suppress(QueryRefused):
            source = dialect.type_of(node, table)
            yield dialect.try_cast(total_sql(node, table, dialect), type_, source)


def trials_of(block: Block, dialect: Dialect) -> Iterator[tuple[RowSet, list[Sql]]]:
    """Yield the expressions of a block for an engine to try, with the rows of edge values for them.

    First the expressions of the block; where rows are joined, over all pairs of rows as well, as
    none of them may be alike. Then those of subqueries with conditions, which its rows are without.
    Raises ``QueryRefused`` for what the engine cannot compute.
    """
    source = _source(block)
    rows = unfiltered(source)
    expressions = _tried_expressions(block, dialect)
    yield _columns_read(rows, block.computed), expressions
    if any(isinstance(node, Join) for node in bottom_up(rows)):
        yield unfiltered(source, paired=False), expressions
    for below, computed in computed_steps(source):
        if not all(isinstance(node, exp.Column) for node in computed):
            read = _columns_read(below, computed)
            yield read, list(_with_parts(computed, read, dialect))


def _columns_read(rows: RowSet, computed: Iterable[exp.Expr]) -> RowSet:
    """Return rows with the columns read by some expressions; only those of a table are fewer.

    The fewer columns, the shorter is a statement with constants for each of them.
    """
    if not isinstance(rows, Scan):
        return rows
    read = {fold(c.name) for node in computed for c in node.find_all(exp.Column)}
    columns = tuple(c for c in rows.table.columns if fold(c.name) in read)
    return Scan(replace(rows.table, columns=columns or rows.table.columns[:1]))


def _source(block: Block) -> RowSet:
    """Return the rows of a block, without the numbers of those that are units of their own."""
    return unnumbered(block.source.rows) if block.rows_are_units else block.source.rows


def _can_fail(block: Block, call: str, text: str) -> QueryRefused:
    """Build the error for a block with a call that may fail on a row, as ``week(INTERVAL)``."""
    return refusal(
        text,
        f"{call} can fail on some values, or is not known never to: it is not available over "
        "private rows",
        "can_fail",
        _blamed(block, call),
        hint="What fails on a row would tell whether there is such a row. Cast the argument to "
        "another type, or compute this over released rows; docs/sql.md says what is available.",
    )


def _blamed(block: Block, call: str) -> exp.Expr | None:
    """Find the part of a block that a call in an engine's error comes from, by its name."""
    name = call.partition("(")[0].lower()
    whole = block.computed
    for part in (part for node in whole for part in node.walk()):
        named = isinstance(part, exp.Func) and part.sql_name().lower() == name
        if named or (isinstance(part, exp.Extract) and part.name.lower() == name):
            return part
        if name.endswith("cast") and isinstance(part, exp.Cast):
            return part
    return None


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions below a node that are computed, and have a value of their own."""
    for part in node.walk():
        if part is node or isinstance(part, (*_SIMPLE, *_NO_VALUES, *_OF_OTHERS)):
            continue
        if not (isinstance(part, exp.Neg) and isinstance(part.this, exp.Literal)):
            yield part
