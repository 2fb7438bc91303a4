"""Errors as PostgreSQL's clients read them: SQLSTATE, place, hint.

A ``dpsql.Error`` has no data values, and is told as it is. Of any other exception nothing is told
but a number, under which the log has its class and where it was raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dpsql import errors
from dpsql.server.faults import logged_fault
from dpsql.server.wire.messages import ProtocolError

_OF_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ambiguous_column": "42702",
        "closed": "57P01",
        "does_not_bind": "42804",
        "cancelled": "57014",
        "interrupted": "57014",
        "statement_timeout": "57014",
        "time_limit": "57014",
        "login_failed": "28P01",
        "not_allowed": "42501",
        "several_statements": "42601",
        "server_busy": "53300",
        "unknown_column": "42703",
        "unknown_dataset": "3D000",
        "unknown_table": "42P01",
        "question_too_dear": "53400",
    }
)
_OF_CLASSES: Final[tuple[tuple[type[errors.Error], str], ...]] = (
    (errors.SQLSyntaxError, "42601"),
    (errors.UnknownName, "42704"),
    (errors.ParameterError, "22023"),
    (errors.BudgetExceeded, "53400"),
    (errors.LedgerError, "58000"),
    (errors.EngineError, "58000"),
    (errors.QueryRefused, "0A000"),
    (errors.NotSupportedError, "0A000"),
    (errors.ProgrammingError, "42000"),
    (errors.DataError, "22000"),
    (errors.PolicyError, "58000"),
    (errors.InterfaceError, "55000"),
)
"""The SQLSTATE of each class: the first that holds decides."""

FATAL, ERROR = "FATAL", "ERROR"


def sqlstate_of(error: errors.Error) -> str:
    """Return PostgreSQL's code for an error."""
    own = _OF_CODES.get(error.code)
    if own is not None:
        return own
    return next((state for kind, state in _OF_CLASSES if isinstance(error, kind)), "XX000")


def fields(text: str, sqlstate: str, severity: str = ERROR) -> dict[str, str]:
    """Return the fields of an error or notice that the server makes itself."""
    return {"S": severity, "V": severity, "C": sqlstate, "M": text}


def error_fields(error: Exception, statement: str = "", before: int = 0) -> dict[str, str]:
    """Return the fields of an error in a statement, with so many characters ``before`` it."""
    if isinstance(error, ProtocolError):
        return fields(error.text, error.sqlstate)
    if not isinstance(error, errors.Error):
        number = logged_fault(error)
        return fields(f"internal error {number}: the server's log has more", "XX000")
    found = fields(f"{error.reason} [{error.code}]", sqlstate_of(error))
    if error.hint:
        found["H"] = error.hint
    place = error.place
    if place is not None and place.source == "query":
        lines = statement.split("\n")[: place.line - 1]
        offset = sum(len(line) + 1 for line in lines) + place.column - 1
        if offset <= len(statement):
            found["P"] = str(before + offset + 1)
    return found
