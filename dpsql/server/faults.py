"""Unexpected errors: a number for whoever asked, under which the log says where it was raised."""

from __future__ import annotations

import secrets

from dpsql.server.audit import LOG


def logged_fault(error: BaseException) -> str:
    """Log an error's class and where it was raised, never its text; return its number."""
    number = secrets.token_hex(4)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
    LOG.error("internal error %s: %s in %s", number, type(error).__name__, where)
    return number
