"""Which entries of the lists for PostgreSQL's trees are of some versions alone."""

from __future__ import annotations

SINCE: dict[int, str] = {
    16: "RTEPERMISSIONINFO; QUERY rteperminfos; RANGETBLENTRY perminfoindex; VAR varnullingrels; "
    "AGGREF aggpresorted",
    17: "QUERY mergeTargetRelation; QUERY mergeJoinCondition; WINDOWFUNC runCondition",
    18: "QUERY hasGroupRTE; QUERY returningOldAlias; QUERY returningNewAlias; "
    "RANGETBLENTRY groupexprs; RANGETBLENTRY rtekind 9; VAR varreturningtype; "
    "SORTGROUPCLAUSE reverse_sort; ARRAYEXPR list_start; ARRAYEXPR list_end",
}
"""Entries of the lists by the version whose trees have them first."""
UNTIL: dict[int, str] = {
    15: "RANGETBLENTRY requiredPerms; RANGETBLENTRY checkAsUser; RANGETBLENTRY selectedCols; "
    "RANGETBLENTRY insertedCols; RANGETBLENTRY updatedCols; RANGETBLENTRY extraUpdatedCols",
    16: "QUERY mergeUseOuterJoin; WINDOWCLAUSE runCondition",
}
"""Entries by the version whose trees have them last."""


def is_of(version: int, entry: str) -> bool:
    """Whether trees of a version have what an entry of the lists allows."""
    since = (
        each for first, entries in SINCE.items() if first > version for each in entries.split("; ")
    )
    until = (
        each for last, entries in UNTIL.items() if last < version for each in entries.split("; ")
    )
    return not any(f"{entry} ".startswith(f"{each} ") for each in (*since, *until))
