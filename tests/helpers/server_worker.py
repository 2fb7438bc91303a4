"""A server that is killed at a moment of the test's choosing: the ``LEFT``-th of all it passes.

``broken`` is one that shows what the ledger does not know.
"""

from __future__ import annotations

import os
import sys

from dpsql.interfaces.cli import main
from dpsql.server.guard import Guard
from dpsql.server.wire.portals import PortalRows
from dpsql.service.answering import Answerer
from helpers.ledger_worker import Failpoints, backend_of, between_statements
from helpers.session_worker import STEPS, between_steps, never_settles

SERVER_STEPS = ((Guard, "admit", "admit"), (PortalRows, "fetch", "send"))


if __name__ == "__main__":
    points = Failpoints(int(sys.argv.pop(1)), 2)
    if sys.argv.pop(1) == "broken":
        Answerer._settle = never_settles  # type: ignore[assignment]
    between_steps(points, (*STEPS, *SERVER_STEPS))
    between_statements(backend_of("budget.db"), points)
    os.environ.setdefault("DPSQL_LEDGER", "budget.db")
    main()
