"""From the text of a query to all that its answer needs, but for the budget and the rows.

Whatever can be refused is refused here, where nothing has been read or spent.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from dpsql.accounting.zcdp import Composition
from dpsql.core.schema import Column
from dpsql.engines.base import Engine
from dpsql.errors import QueryRefused
from dpsql.ir.plan import BlockPlan, PrivacyPlan
from dpsql.ir.query import Block, Query
from dpsql.pipeline.fingerprint import fingerprint
from dpsql.pipeline.release import refuse_unknown_noise
from dpsql.pipeline.tail import TailRoom
from dpsql.pipeline.tail_tables import released_columns
from dpsql.planner import plan_query
from dpsql.policy.model import Policy
from dpsql.policy.parameters import Parameters
from dpsql.results.explanation import Explanation, explain
from dpsql.sql.blocks.examined import can_fail, examined_expressions
from dpsql.sql.blocks.validate import validate
from dpsql.sql.dialects.registry import dialect_named
from dpsql.sql.expressions.legality import plain_column
from dpsql.sql.rewrite.rewrite import rewrite
from dpsql.sql.syntax.parse import MISREAD, parse
from dpsql.sql.syntax.placeholders import Values, bind_values, values_key
from dpsql.sql.tail.bind_check import check_sql

_REMEMBERED = 256  # statements a connection keeps planned
_LONGEST = 10_000  # characters of a statement that is kept: plans are some hundred times as large
_Key: TypeAlias = tuple[str, object, str | None, Parameters]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the text, its values, and how it is to be answered."""

    text: str
    values: Values
    mechanism: str | None
    parameters: Parameters
    fresh: bool

    @property
    def sound(self) -> bool:
        """True if text and mechanism are of their types: nothing promises that they are."""
        return isinstance(self.text, str) and isinstance(self.mechanism, str | None)

    @property
    def key(self) -> _Key:
        """What makes two questions the same."""
        return self.text, values_key(self.values), self.mechanism, self.parameters


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query that has been validated, planned, rewritten and bound: ready to be paid for."""

    query: Query
    plan: PrivacyPlan
    statements: tuple[str, ...]
    keys: tuple[tuple[Column, ...], ...]
    names: tuple[str, ...]
    fingerprint: str

    def blocks(self) -> Iterator[tuple[BlockPlan, str, tuple[Column, ...]]]:
        """Each block's plan, statement and released key columns."""
        return zip(self.plan.blocks, self.statements, self.keys, strict=True)

    @property
    def fresh(self) -> bool:
        """True if a block's OPTIONS ask for new noise."""
        return any(block.block.fresh for block in self.plan.blocks)

    def explain(self) -> Explanation:
        """The plan in words and numbers."""
        return explain(self.query, self.plan, self.statements)


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Refuse a statement that the parser or the generator of SQL stumbles over."""
    try:
        yield
    except MISREAD:
        stumbled = True
    else:
        stumbled = False
    # Raised outside the handler, so that its context quotes no value of a parameter.
    if stumbled:
        raise QueryRefused(
            "a part of the query cannot be understood",
            code="not_understood",
            hint="A function may have too many or too few arguments, or arguments of another kind "
            "than it takes.",
        )


class Preparer:
    """Prepares one connection's queries, and remembers them like a database's statements."""

    def __init__(
        self, engine: Engine, policy: Policy, composition: Composition, tail: TailRoom
    ) -> None:
        self._engine = engine
        self._dialect = dialect_named(engine.dialect)
        self._policy = policy
        self._composition = composition
        self._tail = tail
        self._remembered: dict[_Key, Prepared] = {}

    def prepare(self, question: Question) -> Prepared:
        """The query, ready to be paid for; each run of a remembered one gets a fresh salt.

        Raises ``QueryRefused``, ``UnknownName``, ``ParameterError`` or ``SQLSyntaxError``.
        """
        if not question.sound:
            return self._plan(question)  # refused there, with a reason
        key = question.key
        known = self._remembered.pop(key, None)
        if known is None:
            prepared = self._plan(question)
        else:
            prepared = replace(known, statements=self._rewritten(known.plan))
        if len(question.text) <= _LONGEST:
            self._remembered[key] = prepared
        if len(self._remembered) > _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        return prepared

    def _plan(self, question: Question) -> Prepared:
        text, schema = question.text, self._engine.schema()
        with _understood():
            tree = bind_values(parse(text), question.values, text)
            query = validate(
                tree,
                text,
                self._policy,
                schema,
                question.parameters,
                self._engine.bind,
                self._dialect,
            )
        plan = plan_query(query, question.mechanism, self._composition)
        refuse_unknown_noise(plan.blocks)
        statements = self._rewritten(plan)
        pairs = zip(plan.blocks, statements, strict=True)
        keys = tuple(self._key_columns(*pair, text) for pair in pairs)
        self._tail.load_public(query.public_tables)
        if query.plain is not None and query.plain.sure:
            names = query.plain.names
        else:
            self._tail.check(query, plan.blocks, keys)
            names = self._checked_names(query, plan.blocks, statements, keys)
        return Prepared(query, plan, statements, keys, names, fingerprint(plan.blocks))

    def _rewritten(self, plan: PrivacyPlan) -> tuple[str, ...]:
        return tuple(
            rewrite(block, block.block.source.table, secrets.randbits(62), self._dialect)
            for block in plan.blocks
        )

    def _checked_names(
        self,
        query: Query,
        plans: tuple[BlockPlan, ...],
        statements: tuple[str, ...],
        keys: tuple[tuple[Column, ...], ...],
    ) -> tuple[str, ...]:
        """The answer's column names, after checking all types where there are no rows."""
        released = [released_columns(*pair) for pair in zip(plans, keys, strict=True)]
        bound = self._engine.bind(check_sql(query, plans, statements, released))
        return tuple(column.name for column in bound)

    def _key_columns(self, plan: BlockPlan, statement: str, text: str) -> tuple[Column, ...]:
        """The released keys and their types, once nothing computed of private rows can fail.

        The types of plain columns are known from the catalog.
        """
        block = plan.block
        computed = examined_expressions(block, self._dialect)
        types = self._examined(block, computed, text) if computed else ()
        known = [block.source.table.column(plain_column(key)) for key in block.keys]
        found = [
            types[place] if column is None else column.type for place, column in enumerate(known)
        ]
        if None in found:
            found = [column.type for column in self._engine.bind(statement)[1:]]
        names = [block.key_column(i) for i in range(len(block.keys))]
        return tuple(Column(name, type_ or "") for name, type_ in zip(names, found, strict=False))

    def _examined(
        self, block: Block, expressions: Sequence[str], text: str
    ) -> tuple[str | None, ...]:
        examined = self._engine.examine(block.source.sql, expressions)
        if examined.objection is not None:
            raise can_fail(block, examined.objection, text)
        return examined.types
