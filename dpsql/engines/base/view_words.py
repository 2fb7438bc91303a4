"""Remarks on the owner's views, in the same words for every engine."""

from __future__ import annotations

from typing import Final

from dpsql.core.schema import Remark

TABLES_BELOW: Final = "List the tables below it instead, or store its rows as a table."
AS_TABLE: Final = "Store its rows as a table."

SAMPLE: Final = Remark("takes a sample: its rows are others each time", TABLES_BELOW)
LOOKUP: Final = Remark(
    "looks one value up for each row by a subquery, which fails where it finds two",
    "Join the other table instead, with LEFT JOIN, grouped by the column of the lookup.",
)
COMPUTED_LIMIT: Final = Remark(
    "has a computed LIMIT or OFFSET, which fails where it is no number",
    "Write LIMIT and OFFSET with constants.",
)
COUNTED_AGAIN: Final = Remark(
    "makes as many rows as values of rows say, which can fail on a row",
    "Call range and generate_series with constants, and join the rows they give.",
)
FRAME: Final = Remark(
    "computes where a window begins or ends, which can fail on a row",
    "Leave the frame of the window out, or store its rows as a table.",
)
COLLATED: Final = Remark(
    "compares or computes text under a collation: different values are the same to it",
    "Store the text without COLLATE, or select such columns as they are.",
)

AGGREGATES_ROWS: Final = "aggregates rows, or asks whether others exist"
DISTINCT: Final = "makes equal rows one"
EXCEPT: Final = "leaves out rows that are elsewhere"
INTERSECT: Final = "leaves out rows that are not elsewhere"
LIMIT: Final = "keeps some rows out of all"
WINDOWS: Final = "computes over windows of rows"


def unknown_part(what: str) -> Remark:
    """Report a part of a view that is not in the lists."""
    return Remark(f"is made with {what}, which dpsql does not know", TABLES_BELOW)


def unknown_way(what: str) -> Remark:
    """Report a part of a view with an attribute that is not in the lists."""
    return Remark(f"is made with {what} in a way that dpsql does not know", TABLES_BELOW)


def foreign_call(name: str) -> Remark:
    """Report a view's call of a function that the engine did not come with."""
    return Remark(f"calls {name}(), which is not the engine's own", TABLES_BELOW)


def changing_call(name: str) -> Remark:
    """Report a view's call of a function that depends on more than its arguments."""
    reason = f"calls {name}(), which gives another value another time"
    return Remark(reason, "Compute it once, and store it in a table.")


def failing_call(call: str, hint: str = AS_TABLE) -> Remark:
    """Report an expression of a view that can fail on a row."""
    return Remark(
        f"computes {call}, which can fail on a row: failing queries would tell of that row", hint
    )


def over_several(said: str) -> Remark:
    """Report a view's effect on rows of several units."""
    return Remark(
        said, "Confirm that each of its rows depends on one unit's rows, or list what it reads."
    )
