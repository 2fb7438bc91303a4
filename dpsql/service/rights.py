"""Rights: what a session may do. They are given by the program that opens it, never by SQL."""

from __future__ import annotations

from enum import Enum
from typing import Final

from dpsql.errors import NotSupportedError
from dpsql.syntax.statements import (
    Command,
    CreateView,
    DropView,
    Explain,
    RefreshView,
    Reset,
    Select,
    Set,
)


class Right(Enum):
    """Something that a session may do. Explaining and describing are free, and need none."""

    ASK = "ask questions"
    SET = "set privacy parameters"
    CREATE_VIEWS = "create or drop materialized views"
    REFRESH_VIEWS = "refresh materialized views"


ALL_RIGHTS: Final = frozenset(Right)


def refuse_without(rights: frozenset[Right], needed: Right) -> None:
    """Raise ``NotSupportedError`` (``not_allowed``) where a right is not among those given."""
    if needed not in rights:
        raise NotSupportedError(
            f"this session may not {needed.value}",
            code="not_allowed",
            hint="Who opened the session has decided so; what it may do cannot be changed by SQL.",
        )


def right_for(statement: Select | Explain | Command) -> Right | None:
    """Return the right that a statement needs; None where it needs none."""
    match statement:
        case Select():
            return Right.ASK
        case Set() | Reset():
            return Right.SET
        case CreateView(explained=False) | DropView():
            return Right.CREATE_VIEWS
        case RefreshView():
            return Right.REFRESH_VIEWS
    return None
