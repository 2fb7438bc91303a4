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
    from dpsql.budget import BudgetReport
    from dpsql.engines.duckdb import DuckDBEngine
    from dpsql.explain import Explanation
    from dpsql.intervals import Interval
    from dpsql.result import Cost, Result
    from dpsql.session import Connection, connect

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
    "Connection": "dpsql.session",
    "Cost": "dpsql.result",
    "DuckDBEngine": "dpsql.engines.duckdb",
    "Explanation": "dpsql.explain",
    "Interval": "dpsql.intervals",
    "Result": "dpsql.result",
    "connect": "dpsql.session",
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
