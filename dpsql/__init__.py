"""dpsql: differentially private SQL over DuckDB.

>>> import dpsql
>>> con = dpsql.connect("demo.duckdb", policies="policies.yaml", ledger="budget.db", analyst="ana")
... # doctest: +SKIP
>>> con.sql("SELECT dest, COUNT(DISTINCT tailnum) AS n FROM flights GROUP BY dest")
... # doctest: +SKIP
"""

from __future__ import annotations

from dpsql.engines.duckdb import DuckDBEngine
from dpsql.errors import (
    BudgetExceeded,
    DatabaseError,
    DataError,
    EngineError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    LedgerError,
    NotSupportedError,
    OperationalError,
    ParameterError,
    PolicyError,
    ProgrammingError,
    QueryRefused,
    SQLSyntaxError,
    UnknownName,
    Warning,
)
from dpsql.explain import Explanation
from dpsql.result import Cost, Interval, Result
from dpsql.session import BudgetReport, Connection, connect

__version__ = "0.1.0"

__all__ = [
    "BudgetExceeded",
    "BudgetReport",
    "Connection",
    "Cost",
    "DataError",
    "DatabaseError",
    "DuckDBEngine",
    "EngineError",
    "Error",
    "Explanation",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "LedgerError",
    "NotSupportedError",
    "OperationalError",
    "ParameterError",
    "PolicyError",
    "ProgrammingError",
    "QueryRefused",
    "Result",
    "SQLSyntaxError",
    "UnknownName",
    "Warning",
    "connect",
]
