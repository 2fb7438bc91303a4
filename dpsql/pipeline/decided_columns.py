"""Finds keys of public tables among columns of rows: these decide the other columns of the table.

``FROM visits v JOIN wards w ON w.ward = v.ward GROUP BY w.ward`` has one name of a ward in each
group if no two rows of wards have the same ward. Whether they do is read off wards itself, which is
public; no private row could change it. Where a key is NULL there is none, as an outer join has such
rows too, of which all other columns are NULL.
"""

from __future__ import annotations

from collections.abc import Collection

from dpsql.core.sql import join, name, sql
from dpsql.engines.dialects import TWIN
from dpsql.ir.relations import PublicTable, RowSet, Scan
from dpsql.pipeline.column_origins import Base, bases_of
from dpsql.pipeline.public_keys import is_public
from dpsql.pipeline.tail.public_tables import PublicTables
from dpsql.policy.model import Policy
from dpsql.sql.lineage.names import generated_column
from dpsql.sql.relations.from_clause import from_clause


def decide(
    columns: Collection[str], column: str, rows: RowSet, policy: Policy, public: PublicTables | None
) -> bool:
    """Tell whether some columns of rows decide another, as a key of its public table.

    False where that cannot be found out. Of no rows, without ``public`` tables, any are a key.
    Raises ``EngineError`` if the table cannot be read.
    """
    (base,) = bases_of(rows, generated_column(column))
    if base.table is None or not is_public(policy, base.table):
        return False
    others = [each for one in columns for each in bases_of(rows, generated_column(one))]
    key = sorted({each.column for each in others if _is_beside(each, base)})
    if not key or public is None:
        return bool(key)
    columns_of_key = [name(each) for each in key]
    again = sql(
        "SELECT 1 FROM {} GROUP BY {} HAVING COUNT(*) > 1 OR ({}) LIMIT 1",
        from_clause(Scan(base.table), TWIN),
        join(", ", columns_of_key),
        join(" AND ", (sql("{} IS NULL", each) for each in columns_of_key)),
    )
    return public.computed([PublicTable(base.table)], again) == []


def _is_beside(base: Base, other: Base) -> bool:
    """Tell whether two columns are of one row of one table."""
    return base.table == other.table and base.path == other.path
