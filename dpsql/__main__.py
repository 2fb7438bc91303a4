"""``python -m dpsql``: the same as the ``dpsql`` command."""

from __future__ import annotations

from dpsql.interfaces.cli import main

main()
