"""Does what owners and auditors ask for, and writes it to the audit log before and after."""

from __future__ import annotations

from contextlib import suppress

from dpsql.agents.replies import ReplyPart
from dpsql.errors import Error, OperationalError
from dpsql.server.desk import Desk
from dpsql.server.http.administration.act import Act
from dpsql.server.http.administration.operations import DOING


def done(desk: Desk, act: Act) -> ReplyPart:
    """Do what is asked for, unless it cannot be written to the audit log first.

    Raises a ``dpsql.Error`` for what is refused; the log has its code.
    """
    desk.audit.write("action", **act.who(), asked=act.asked())
    try:
        found = DOING[act.operation](desk, act)
    except Exception as error:
        code = error.code if isinstance(error, Error) else "internal_error"
        with suppress(OperationalError):  # it is refused in any case
            desk.audit.write("action_refused", **act.who(), code=code)
        raise
    with suppress(OperationalError):  # it is done; what comes next is refused
        desk.audit.write("action_done", **act.who())
    return found
