"""Writes the stages of statements down as they are prepared, for whoever works on dpsql.

``DPSQL_TRACE=1`` in the environment writes to stderr, another value names a file to append to;
unset, empty or 0 writes nothing. The stages are the syntax tree, the private blocks, their plans,
the generated SQL and the public tail. There are no rows in any of them, as none has been read.

Values of query parameters are not written either. The tree is shown before they are put in; after
that, every constant of a statement that has values is a ``?``, and so is every name that stands
neither in its text nor in the schema (DuckDB names a column without an alias after its expression).
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from sqlglot import exp

from dpsql.core.formatting import printable
from dpsql.core.quoting import INTERNAL_PREFIX, quote
from dpsql.core.schema import Schema, fold
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import InterfaceError
from dpsql.ir.plan import BlockPlan, PreparedBlock
from dpsql.ir.query import Block, Query
from dpsql.results.explanation import BlockExplanation, explain_block
from dpsql.sql.relations.from_clause import from_clause
from dpsql.syntax.text import pretty, to_sql

VARIABLE: Final = "DPSQL_TRACE"
_BEGINS: Final = b"dpsql trace "
_CONSTANTS: Final = frozenset({"true", "false", "null"})
_TOKEN: Final = re.compile(
    r"""(?P<string>'(?:[^']|'')*')
    |"(?P<name>(?:[^"]|"")*)"
    |(?P<word>[^\W\d]\w*)
    |(?P<number>\.?\d[\w.]*(?:(?<=[eE])[+-]\d+)?)""",
    re.VERBOSE,
)
_NUMBERS: Final = count(1)  # of the statements that this process has traced
_LOCK: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Trace:
    """Where the stages of statements are written: a file's path, or None for stderr."""

    path: str | None

    def statement(self, text: str, schema: Schema, *, hidden: bool) -> StatementTrace:
        """Return the trace of one statement's stages, without its constants if ``hidden``."""
        if not hidden:
            return StatementTrace(self, next(_NUMBERS), None)
        columns = (column.name for table in schema.values() for column in table.columns)
        tables = (part for t in schema.values() for part in (t.name.table, t.name.schema))
        names = (*re.findall(r"\w+", text), *tables, *columns)
        return StatementTrace(self, next(_NUMBERS), frozenset(map(fold, names)))

    def write(self, text: str) -> None:
        """Append a text. Raises ``InterfaceError`` if that is not possible."""
        try:
            with _LOCK:
                if self.path is None:
                    _write_error(text)
                else:
                    with open(self.path, "a", encoding="utf-8", errors="backslashreplace") as file:
                        file.write(text)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise InterfaceError(
                f"the trace cannot be written: {reason}",
                code="file_not_writable",
                hint=f"{VARIABLE} in the environment names the file; 1 is stderr, 0 is no trace.",
            ) from None


@dataclass(frozen=True, slots=True)
class StatementTrace:
    """Writes the stages of one statement, each under its number and name.

    ``names`` are those that may be shown where constants may not; None where all may.
    """

    trace: Trace
    number: int
    names: frozenset[str] | None

    def tree(self, tree: exp.Query) -> None:
        """Write the syntax tree, before values are put in."""
        self._write("tree", [repr(tree)])

    def blocks(self, query: Query, dialect: Dialect) -> None:
        """Write the parts of each private block, rows as SQL in a dialect."""
        for number, block in enumerate(query.blocks, 1):
            self._write(f"block {number}", map(self._redacted, _block_parts(block, dialect)))

    def plans(self, plans: Sequence[BlockPlan]) -> None:
        """Write how each block is to be answered."""
        for number, plan in enumerate(plans, 1):
            self._write(f"plan {number}", map(self._redacted, _plan_parts(explain_block(plan, ""))))

    def sql(self, blocks: Sequence[PreparedBlock], tail: str) -> None:
        """Write the generated SQL of each block, and of the tail over all of them."""
        for number, block in enumerate(blocks, 1):
            self._write(f"sql {number}", [self._redacted(pretty(block.text))])
        self._write("tail", [self._redacted(pretty(tail))])

    def _write(self, stage: str, parts: Iterable[str]) -> None:
        lines = (line for part in parts for line in part.split("\n"))
        written = "".join(f"  {printable(line)}\n" for line in lines)
        self.trace.write(f"dpsql trace {self.number}: {stage}\n{written}")

    def _redacted(self, part: str) -> str:
        """Remove from a part what may be the value of a query parameter, if there are any."""
        if self.names is None:
            return part
        shown = _TOKEN.sub(self._redacted_token, part)
        return "?" if "'" in shown else shown  # a quote that is none of a constant

    def _redacted_token(self, token: re.Match[str]) -> str:
        assert self.names is not None
        name, word = token["name"], token["word"]
        if word is not None:
            return "?" if word.lower() in _CONSTANTS else word
        known = name is not None and (name.startswith(INTERNAL_PREFIX) or fold(name) in self.names)
        return token.group() if known else "?"


def trace_from(environment: Mapping[str, str]) -> Trace | None:
    """Open the trace named in the environment; None without one.

    Raises ``InterfaceError`` if its file cannot be written, or holds anything but traces.
    """
    asked = environment.get(VARIABLE, "")
    if asked in ("", "0"):
        return None
    trace = Trace(None if asked == "1" else asked)
    trace.write("")
    _refuse_other_files(trace)
    return trace


def _refuse_other_files(trace: Trace) -> None:
    """Refuse to append to what is no trace: a database, a ledger, a policies file."""
    if trace.path is None or not os.path.isfile(trace.path):
        return
    with open(trace.path, "rb") as file:
        begins = file.read(len(_BEGINS))
    if begins and begins != _BEGINS:
        raise InterfaceError(
            "the trace cannot be written: its file holds something else",
            code="file_in_use",
            hint=f"Name a new file, or one that only traces were written to, in {VARIABLE}.",
        )


def _write_error(text: str) -> None:
    if sys.stderr is not None:  # as in programs without a console
        sys.stderr.write(text)
        sys.stderr.flush()


def _block_parts(block: Block, dialect: Dialect) -> Iterator[str]:
    """Yield the parts of a block for the trace, in SQL with all names quoted."""
    rows = from_clause(block.source.rows, dialect).render(dialect.renderer)
    yield f"rows: {rows}"
    yield f"unit: {quote(block.unit_column)}"
    if block.source.share is not None:
        yield f"sample of units: {block.source.share}"
    if block.condition is not None:
        yield f"where: {to_sql(block.condition)}"
    for key in block.keys:
        yield f"key: {to_sql(key.expression)}"
    for measure in block.measures:
        argument = "" if measure.argument is None else f" {to_sql(measure.argument)}"
        yield f"measure: {measure.kind.value}{argument}"
    for aggregate in block.aggregates:
        yield f"aggregate: {aggregate.kind.value.name}"


def _plan_parts(plan: BlockExplanation) -> Iterator[str]:
    """Yield how a block is answered and priced."""
    yield f"mechanism: {plan.mechanism}"
    yield f"contributions: {plan.bounding}"
    for column in plan.columns:
        yield f"noise: {column.noise} of scale {column.noise_scale:g}"
    reserved = plan.reserved
    yield f"reserves: rho {reserved.rho:g}, epsilon {reserved.epsilon:g}, delta {reserved.delta:g}"
