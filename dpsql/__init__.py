"""dpsql: differentially private SQL over DuckDB and PostgreSQL.

import dpsql

con = dpsql.connect("demo.duckdb", policies="policies.yaml", ledger="budget.db", analyst="ana")
con.sql("SELECT dest, COUNT(DISTINCT tailnum) AS n FROM flights GROUP BY dest")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dpsql.core import display
from dpsql.errors import (
    AnswerWarning,
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
    StaleAnswerWarning,
    UnknownName,
    Warning,
)

if TYPE_CHECKING:
    from dpsql.accuracy.intervals import Interval
    from dpsql.budget import BudgetReport
    from dpsql.dbapi.connection import Connection, connect
    from dpsql.dbapi.remote import RemoteConnection
    from dpsql.engines.duckdb.engine import DuckDBEngine
    from dpsql.engines.postgresql.engine import PostgreSQLEngine
    from dpsql.engines.spark.engine import SparkEngine
    from dpsql.ledger import Ledger
    from dpsql.owner.conformance import check_policy
    from dpsql.policy.load import load_policy, parse_policy
    from dpsql.policy.model import Policy
    from dpsql.results.description import Description
    from dpsql.results.explanation import Explanation
    from dpsql.results.result import Cost, Result
    from dpsql.service.opening import open_dataset
    from dpsql.service.rights import Right
    from dpsql.service.session import Dataset, PreparedStatement, Session

__version__ = "0.1.0"

__all__ = [
    "AnswerWarning",
    "BudgetExceeded",
    "BudgetReport",
    "Connection",
    "Cost",
    "DataError",
    "DatabaseError",
    "Dataset",
    "Description",
    "DuckDBEngine",
    "EngineError",
    "Error",
    "Explanation",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "Ledger",
    "LedgerError",
    "NewLedgerWarning",
    "NotSupportedError",
    "OperationalError",
    "ParameterError",
    "Policy",
    "PolicyError",
    "PostgreSQLEngine",
    "PreparedStatement",
    "ProgrammingError",
    "QueryRefused",
    "RemoteConnection",
    "Result",
    "Right",
    "SQLSyntaxError",
    "Session",
    "SparkEngine",
    "StaleAnswerWarning",
    "UnknownName",
    "Warning",
    "check_policy",
    "connect",
    "load_policy",
    "open_dataset",
    "parse_policy",
]

# DuckDB, sqlglot and NumPy take half a second to load: they are loaded when first needed.
_LATER = {
    "BudgetReport": "dpsql.budget",
    "Connection": "dpsql.dbapi.connection",
    "Dataset": "dpsql.service.session",
    "PreparedStatement": "dpsql.service.session",
    "Right": "dpsql.service.rights",
    "Session": "dpsql.service.session",
    "Cost": "dpsql.results.result",
    "Description": "dpsql.results.description",
    "DuckDBEngine": "dpsql.engines.duckdb.engine",
    "Explanation": "dpsql.results.explanation",
    "Interval": "dpsql.accuracy.intervals",
    "Ledger": "dpsql.ledger",
    "Policy": "dpsql.policy.model",
    "PostgreSQLEngine": "dpsql.engines.postgresql.engine",
    "RemoteConnection": "dpsql.dbapi.remote",
    "Result": "dpsql.results.result",
    "SparkEngine": "dpsql.engines.spark.engine",
    "check_policy": "dpsql.owner.conformance",
    "connect": "dpsql.dbapi.connection",
    "open_dataset": "dpsql.service.opening",
    "load_policy": "dpsql.policy.load",
    "parse_policy": "dpsql.policy.load",
}
display.use(lambda: import_module("dpsql.present"))


# What IPython looks for on %load_ext dpsql.
_EXTENSION = ("load_ipython_extension", "unload_ipython_extension")


def __getattr__(name: str) -> object:
    if name in _EXTENSION:
        return getattr(import_module("dpsql.notebook"), name)
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
