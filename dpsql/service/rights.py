"""Rights: what a session may do. They are given by the program that opens it, never by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from dpsql.errors import NotSupportedError
from dpsql.policy.parameters import PARAMETER_NAMES
from dpsql.syntax.client_settings import Unchanged
from dpsql.syntax.options import sets_parameters
from dpsql.syntax.statements import (
    Command,
    CreateView,
    Describe,
    DropView,
    Explain,
    RefreshView,
    Reset,
    Select,
    Set,
    Show,
)


class Right(Enum):
    """Something that a session may do. Explaining and describing are free, and need none.

    ``SET`` is needed wherever SQL sets a privacy parameter: OPTIONS of a SELECT and of a view, too.
    Arguments of the program's own calls need none.
    """

    ASK = "ask questions"
    SET = "set privacy parameters"
    CREATE_VIEWS = "create or drop materialized views"
    REFRESH_VIEWS = "refresh materialized views"


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The most that a session may spend, beside the limits of the accounts above its own.

    ``epsilon`` limits the session's own account, in the ledger, at the delta of the analyst's.
    ``epsilon_per_question`` limits the worst case of one question, as it is worth alone. None
    limits nothing.
    """

    epsilon: float | None = None
    epsilon_per_question: float | None = None


NO_LIMITS: Final = SessionLimits()
ALL_RIGHTS: Final = frozenset(Right)


def refuse_statement(rights: frozenset[Right], statement: Select | Explain | Command) -> None:
    """Raise ``NotSupportedError`` (``not_allowed``) for a statement that needs other rights."""
    if rights >= ALL_RIGHTS:
        return  # no text is read for nothing
    for right in _needed(statement, set_too=Right.SET not in rights):
        if right not in rights:
            raise NotSupportedError(
                f"this session may not {right.value}",
                code="not_allowed",
                hint="Who opened the session has decided so; what it may do cannot be changed by "
                "SQL.",
            )


def _needed(statement: Select | Explain | Command, *, set_too: bool) -> Iterator[Right]:
    """Tell which rights a statement needs.

    Its text is parsed only once the first are there, and where SET is one that is ``set_too``: for
    whoever may set parameters, nothing depends on whether it does.
    """
    match statement:
        case Select(text):
            yield Right.ASK
            if set_too and sets_parameters(text):
                yield Right.SET
        case Set() | Reset():
            yield Right.SET
        case CreateView(explained=False) as view:
            yield Right.CREATE_VIEWS
            given = not view.options.keys().isdisjoint(PARAMETER_NAMES)
            if set_too and (given or sets_parameters(view.text)):
                yield Right.SET
        case DropView():
            yield Right.CREATE_VIEWS
        case RefreshView():
            yield Right.REFRESH_VIEWS
        case Explain() | Show() | Describe() | CreateView() | Unchanged():
            return  # they pay nothing, and change nothing
        case _:
            assert_never(statement)
