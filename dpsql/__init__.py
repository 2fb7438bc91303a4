"""dpsql: differentially private SQL over DuckDB.

import dpsql

con = dpsql.connect("demo.duckdb", policies="policies.yaml", ledger="budget.db", analyst="ana")
con.sql("SELECT dest, COUNT(DISTINCT tailnum) AS n FROM flights GROUP BY dest")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    NewLedgerWarning,
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

if TYPE_CHECKING:
    from dpsql.accuracy.intervals import Interval
    from dpsql.budget import BudgetReport
    from dpsql.connection.connection import Connection, connect
    from dpsql.engines.duckdb import DuckDBEngine
    from dpsql.results.explanation import Explanation
    from dpsql.results.result import Cost, Result

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
    "NewLedgerWarning",
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

# DuckDB, sqlglot and NumPy take half a second to load: they are loaded when first needed.
_LATER = {
    "BudgetReport": "dpsql.budget",
    "Connection": "dpsql.connection.connection",
    "Cost": "dpsql.results.result",
    "DuckDBEngine": "dpsql.engines.duckdb",
    "Explanation": "dpsql.results.explanation",
    "Interval": "dpsql.accuracy.intervals",
    "Result": "dpsql.results.result",
    "connect": "dpsql.connection.connection",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
