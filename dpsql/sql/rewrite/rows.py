"""Private rows as generated SQL sees them: a unit, keys, arguments, and a cap on keys per unit.

No user text is copied: expressions come from the checked tree, are made total, and names are
quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsql.core.quoting import INTERNAL_PREFIX, literal, quote
from dpsql.core.schema import Table
from dpsql.ir.plan import BlockPlan
from dpsql.ir.query import Key
from dpsql.sql.expressions.totality import total_condition_sql, total_sql

UNIT = quote(f"{INTERNAL_PREFIX}unit")
"""The privacy unit's column in generated SQL."""
_RANK = quote(f"{INTERNAL_PREFIX}rank")


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """The rows of one block's private table; ``salt`` is a fresh random number for each query."""

    plan: BlockPlan
    table: Table
    salt: int

    @property
    def keys(self) -> list[str]:
        """The quoted key columns."""
        return [quote(self.plan.block.key_column(i)) for i in range(len(self.plan.block.keys))]

    @property
    def measures(self) -> list[str]:
        """The quoted measure columns."""
        return [quote(self.plan.block.measure_column(i)) for i in range(len(self.plan.measures))]

    @property
    def known(self) -> bool:
        """True if the keys are declared, and stand for their positions in the declared lists."""
        return self.plan.declared

    def select(self, extra: Sequence[str] = ()) -> str:
        """Rows of units that are not NULL and satisfy the condition: unit, keys, ``extra``."""
        block = self.plan.block
        keys = [
            f"{self._key(key)} AS {name}" for key, name in zip(block.keys, self.keys, strict=True)
        ]
        unit = quote(block.unit_column)
        columns = ", ".join([f"{unit} AS {UNIT}", *keys, *extra])
        conditions = [f"{unit} IS NOT NULL"]
        if block.condition is not None:
            conditions.append(f"({total_condition_sql(block.condition, self.table)})")
        rows = f"SELECT {columns} FROM {block.source.sql} WHERE {' AND '.join(conditions)}"
        if not self.known:
            return rows
        outside = " AND ".join(f"{name} IS NOT NULL" for name in self.keys)
        return f"SELECT * FROM ({rows}) WHERE {outside}" if keys else rows

    def capped(self, rows: str) -> str:
        """A FROM clause that keeps, of each unit, its first keys in the order of a salted hash.

        A unit keeps at most ``plan.bounding.kept`` keys; which ones depends on its own rows alone,
        even where hashes collide. Checked by ``tests/sql/test_sensitivity.py``.
        """
        bounding = self.plan.bounding
        keys = self.keys
        if bounding is None or not keys:
            return f"({rows})"
        window = f"PARTITION BY {UNIT} ORDER BY {self.hashed([UNIT, *keys])}, {', '.join(keys)}"
        ranked = f"SELECT *, dense_rank() OVER ({window}) AS {_RANK} FROM ({rows})"
        return f"({ranked}) WHERE {_RANK} <= {bounding.kept}"

    def hashed(self, columns: Sequence[str]) -> str:
        """The salted hash of some columns.

        DuckDB's hash of several values is the exclusive or of hashes of each. Sorting by that would
        favour some keys, the same ones for all units and every salt; a hash of it does not.
        """
        return f"hash(hash({', '.join([str(self.salt), *columns])}))"

    def _key(self, key: Key) -> str:
        """The key's expression, or its position in the declared domain (NULL outside it)."""
        expression = total_sql(key.expression, self.table)
        if not self.known:
            return expression
        assert key.domain is not None
        column = self.table.column(key.expression.name)
        assert column is not None
        values = ", ".join(_typed_literal(value, column.type) for value in key.domain)
        return f"list_position([{values}], {expression})"


def _typed_literal(value: object, column_type: str) -> str:
    """A declared domain value as a literal of the column's type (NULL if it does not fit)."""
    return f"TRY_CAST({literal(value)} AS {column_type})"
