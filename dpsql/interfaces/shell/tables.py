"""Facts as tables."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from dpsql.core.formatting import cell
from dpsql.render.tables import titled
from dpsql.results.result import Result


def facts(result: Result, only: str = "") -> Table:
    """Facts as a table; nothing is written where there is nothing to say."""
    table = titled(*(name.replace("_", " ") for name in result.columns))
    for row in result:
        if only in ("", row[0]):
            table.add_row(*(Text("" if value is None else cell(value)) for value in row))
    return table
