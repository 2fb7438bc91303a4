"""The base of dialects without TRY: expressions are written value by value."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import Sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.row_engine import RowEngine
from dpsql.engines.base.row_expressions import RowExpressions
from dpsql.engines.evidence.verdicts import Verdicts


class ServerDialect(Dialect):
    """The dialect of a server, limited to operations that a survey found equal to DuckDB's."""

    __slots__ = ("verdicts",)
    rows: ClassVar[RowEngine]
    """How the engine writes what is computed of a row's values."""
    verdicts: Verdicts

    def __init__(self, verdicts: Verdicts) -> None:
        self.verdicts = verdicts

    def expression(self, tree: exp.Expr, table: Table) -> Sql:
        """Write the tree with a guard at each operation that could fail."""
        return RowExpressions(table, self.rows, self.verdicts).result(tree).sql

    def type_of(self, tree: exp.Expr, table: Table) -> SqlType:
        """Return the type that DuckDB gives the expression."""
        return RowExpressions(table, self.rows, self.verdicts).result(tree.copy()).type
