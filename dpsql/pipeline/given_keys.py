"""Makes the domain of keys that an outer join keeps: the groups are those of public rows.

``FROM sites s LEFT JOIN visits v ON v.site = s.site GROUP BY s.site`` asks for a group of each
site, whether anybody has been there or not. The private rows of the block are those with a match,
and a row of sites without one belongs to nobody: all that the question asks of it is its key, which
is public. So keys must be those of public rows, and an aggregate that has a value for a public row
without a match, as ``COUNT(s.site)``, is refused: SQL's own answer would count it. What is looked
at are the statement, the policy, types, and public rows with NULLs beside them.

In SQL a condition on private rows in WHERE drops a group that nobody is left in. Here it is
answered, as all groups are whose keys are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, join, name, sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN
from dpsql.errors import QueryRefused
from dpsql.ir.query import OF_PUBLIC_ROWS, Block, Follower
from dpsql.ir.relations import PublicTable, RowSet, ViewScan, bottom_up, scanned
from dpsql.pipeline.public_keys import (
    OF_KNOWN,
    is_known_type,
    is_public,
    most_groups,
)
from dpsql.pipeline.tail.public_tables import PublicTables, values_of
from dpsql.policy.model import Policy
from dpsql.sql.blocks.followers import followers_of
from dpsql.sql.expressions.enum_order import is_enumerated
from dpsql.sql.expressions.totality import total_condition_sql, total_sql
from dpsql.sql.lineage.join_columns import conjuncts
from dpsql.sql.relations.from_clause import from_clause

_ORIGIN: Final = f"{OF_PUBLIC_ROWS} that the join keeps"
_FRACTIONS: Final = frozenset({"FLOAT", "DOUBLE"})


def with_keys_given(
    block: Block,
    engine: Engine,
    dialect: Dialect,
    policy: Policy,
    public: PublicTables,
    mechanism: str | None = None,
) -> Block:
    """Return a block with the keys of the public rows that its outer join keeps, if it keeps any.

    Raises ``QueryRefused`` (``join_keeps_public``) where its groups or values are none of public
    and of private rows, and ``EngineError`` where public tables cannot be read.
    """
    rows = block.source.given
    if rows is None or any(isinstance(node, ViewScan) for node in bottom_up(rows)):
        return block  # what reads views is refused later
    tables = [engine.schema[each.key] for each in dict.fromkeys(scanned(rows))]
    if not all(is_public(policy, table) for table in tables):  # they are looked at as they are
        raise _refused("an outer join keeps rows that are not public", "Write an inner JOIN.")
    given = _Given.of(block, rows, engine, public, tables)
    if given.passes_unmatched():
        raise _refused(
            "WHERE holds for public rows without a match, by their lack of private values",
            "Write conditions on private rows into ON: a row without a match is NULL there.",
        )
    measured = [measure.argument for measure in block.measures]
    for value in (*measured, *(quantile.ranked.argument for quantile in block.quantiles)):
        if value is not None and given.values_unmatched(value):
            raise _refused(
                "an aggregate has a value for public rows without a match",
                "Aggregate columns of private rows, which are NULL there: COUNT(v.x), SUM(v.x).",
            )
    return given.with_keys(dialect, mechanism) if block.keys else block


@dataclass(frozen=True, slots=True)
class _Given:
    """The public rows of a block, and the parts of its condition: on these alone, and others."""

    block: Block
    rows: Sql
    columns: tuple[Column, ...]
    own: tuple[exp.Expr, ...]
    others: tuple[exp.Expr, ...]
    engine: Engine
    read: Callable[[Sql], list[tuple[Any, ...]] | None]

    @classmethod
    def of(
        cls,
        block: Block,
        given: RowSet,
        engine: Engine,
        public: PublicTables,
        tables: Sequence[Table],
    ) -> _Given:
        """Take apart the condition of a block, whose public rows are those of some tables."""
        names = {column.name for column in given.columns}
        whole = block.condition
        parts = [] if whole is None else list(conjuncts(whole))
        own = [p for p in parts if {c.name for c in p.find_all(exp.Column)} <= names]
        sources = [PublicTable(table) for table in tables]
        return cls(
            block,
            from_clause(given, TWIN),
            given.columns,
            tuple(own),
            tuple(p for p in parts if p not in own),
            engine,
            lambda statement: public.computed(sources, statement),
        )

    def passes_unmatched(self) -> bool:
        """Tell whether a row without a match fulfils conditions that are not on it alone."""
        return bool(self.others) and self._finds(sql("TRUE"))

    def values_unmatched(self, node: exp.Expr) -> bool:
        """Tell whether an expression has a value for a row without a match that WHERE leaves."""
        return self._finds(sql("({}) IS NOT NULL", total_sql(node, self._table, TWIN)))

    def with_keys(self, dialect: Dialect, mechanism: str | None) -> Block:
        """Return the block with the values of its keys, without those that others decide."""
        block, most = self.block, most_groups(self.block)
        if not (block.measures or block.quantiles):
            raise _refused(
                "which groups there are is public, and no private rows are asked for",
                "Ask public tables alone for them, which costs nothing.",
            )
        if (block.mechanism or mechanism) not in OF_KNOWN:
            raise _refused(
                "the groups of a join that keeps public rows are known, and not discovered",
                "Leave out the mechanism, or write an inner JOIN.",
            )
        table = Table("given", self.columns)
        written = [total_sql(key.expression, table, TWIN) for key in block.keys]
        named = [sql("{} AS {}", w, name(f"{INTERNAL_PREFIX}k{i}")) for i, w in enumerate(written)]
        statement = sql(
            "SELECT DISTINCT {} FROM {} WHERE {} LIMIT {limit}",
            *(join(", ", named), self.rows, _all_true(self.own, table)),
            limit=most + 1,
        )
        types = [column.type for column in self.engine.bind(statement)]
        unlike = {i for i, type_ in enumerate(types) if not is_known_type(type_, dialect)}
        rows = self._computed(statement)
        if not 0 < len(rows) <= most:
            kept = f"more than {most:,} groups" if rows else "no public rows"
            raise _refused(
                f"the join keeps {kept}",
                f"From 1 to {most:,} groups can be answered.",
            )
        columns = zip(*rows, strict=True)
        domains = [values_of(*each) for each in zip(columns, types, strict=True)]
        measured = {i for i in unlike if types[i].is_decimal or types[i].kind in _FRACTIONS}
        needless = not measured and _is_product(domains, rows)
        followers = () if needless else self._followers(rows, types, measured)
        gone = {each.place for each in followers}
        for place in sorted(unlike - (gone & measured)):
            raise _refused(
                f"{block.keys[place].text} is of type {types[place]}, whose equal values may be "
                "spelled differently",
                "Group by a text, a whole number, a truth value, a date or a timestamp; a number "
                "with a fraction may stand beside a key that decides it.",
            )
        left = [place for place in range(len(types)) if place not in gone]
        if None in domains or not _is_product([domains[place] for place in left], rows):
            raise _refused(
                "the groups are not all combinations of the values of their keys",
                "Group by a column that tells the public rows apart, beside any others of them.",
            )
        keys = (
            replace(block.keys[i], domain=domains[i], origin=_ORIGIN, type=types[i]) for i in left
        )
        return replace(block, keys=tuple(keys), followers=followers)

    def _followers(
        self, rows: Sequence[tuple[Any, ...]], types: Sequence[SqlType], measured: Collection[int]
    ) -> tuple[Follower, ...]:
        """Return the keys that others decide; those of an ENUM have an order of their own."""
        if any(is_enumerated(key.expression) for key in self.block.keys):
            return ()
        return tuple(
            Follower(place, by, types[place], tuple(dict.fromkeys((r[by], r[place]) for r in rows)))
            for place, by in followers_of(rows, measured)
        )

    @property
    def _table(self) -> Table:
        """The columns of the block's rows, those of private rows behind those of public ones."""
        own = {column.name for column in self.columns}
        beside = [c for c in self.block.source.rows.columns if c.name not in own]
        return Table("given", (*self.columns, *beside))

    def _finds(self, condition: Sql) -> bool:
        """Tell whether a public row fulfils a condition, and WHERE, with NULLs beside it."""
        table = self._table
        nulls = [
            sql("CAST(NULL AS {}) AS {}", column.type.sql, name(column.name))
            for column in table.columns[len(self.columns) :]
        ]
        statement = sql(
            "SELECT 1 FROM (SELECT {} FROM {}) AS given WHERE {} AND {} LIMIT 1",
            join(", ", [*(name(column.name) for column in self.columns), *nulls]),
            *(self.rows, condition, _all_true((*self.own, *self.others), table)),
        )
        return bool(self._computed(statement))

    def _computed(self, statement: Sql) -> list[tuple[Any, ...]]:
        found = self.read(statement)
        if found is None:
            raise _refused(
                "the public rows that the join keeps cannot be computed beforehand",
                "Filter them, or join fewer of them.",
            )
        return found


def _is_product(domains: Sequence[tuple[object, ...] | None], rows: Sequence[object]) -> bool:
    return math.prod(len(domain or ()) for domain in domains) == len(rows)


def _all_true(conditions: Sequence[exp.Expr], table: Table) -> Sql:
    written = (sql("({})", total_condition_sql(each, table, TWIN)) for each in conditions)
    return join(" AND ", [sql("TRUE"), *written])


def _refused(reason: str, hint: str) -> QueryRefused:
    return QueryRefused(reason, code="join_keeps_public", hint=hint)
