"""Long answers page by page, in the pager of the user's choice."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping

from dpsql.interfaces.shell import ascii as fallback


def pager(environment: Mapping[str, str]) -> list[str] | None:
    """The pager's command: DPSQL_PAGER, PAGER or less; None if it is not there or is empty."""
    chosen = environment.get("DPSQL_PAGER", environment.get("PAGER", "less"))
    try:
        words = shlex.split(chosen)
    except ValueError:
        return None
    if not words or environment.get("TERM", "dumb") in ("", "dumb"):
        return None
    return words if shutil.which(words[0]) else None


def page(text: str, command: list[str], encoding: str) -> None:
    """Show a text in a pager and wait until it is left. Ctrl-C is the pager's."""
    # Long lines are cut rather than wrapped, and can be scrolled to; colours stay.
    environment = {"LESS": "-SRX", **os.environ}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.communicate(text.encode(encoding, fallback.NAME))
    finally:
        signal.signal(signal.SIGINT, before)
