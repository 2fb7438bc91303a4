# ruff: noqa: E501
r"""Statements an attacker might try: what each must lead to, and why.

``outcome`` is the code of the error, which costs nothing, or ``ANSWERS``, or ``TELLS`` for what is
answered at no cost, from the policy, the schema, the account and public tables alone. The catalogue
is ``attacks.sql``, and a ``\u200b`` there is that character; what is too long for a line is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ANSWERS = "answers"
TELLS = "tells"


@dataclass(frozen=True, slots=True)
class Attack:
    """One statement, its outcome and the promise it tests."""

    sql: str
    outcome: str
    why: str


_LONG: dict[str, list[tuple[str, str]]] = {
    "parameters, ordinals and limits out of range are refused or harmless": [
        (f"select quantile_cont(x, 0.{'9' * 5000}) from visits", "bad_fraction"),
        (
            f"select count(*) from visits group by {', '.join(['cube (k, s)'] * 200)}",
            "too_many_grouping_sets",
        ),
        (f"select {'k, ' * 250}count(*) from visits group by k", "query_too_large"),
        (f"select {'count(*), ' * 100}count(*) from visits", "query_too_large"),
        (f"select * from {', '.join(['(select count(*) from visits)'] * 101)}", "query_too_large"),
        (f"select count(*) from visits{' join shops using (k)' * 251}", "query_too_large"),
        (f"select {','.join(['1'] * 15_100)}, count(*) from visits", "query_too_large"),
        (f"select count(*) from visits where s = '{'x' * 100_000}'", "query_too_long"),
    ],
    "what must fail or take all memory is refused before it is paid for": [
        (
            f"select count(*) from {'(select uid, s || s as s from ' * 30}visits{')' * 30} where s > ''",
            "query_too_large",
        ),
    ],
}


def _catalogue() -> Iterator[Attack]:
    """The attacks of the catalogue, each with the promise above it."""
    why = ""
    text = (Path(__file__).parent / "attacks.sql").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        if line.startswith("-- "):
            why = line.removeprefix("-- ")
            yield from (Attack(sql, outcome, why) for sql, outcome in _LONG.get(why, ()))
        elif line:
            outcome, _, sql = line.partition(": ")
            yield Attack(
                re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), sql), outcome, why
            )


ATTACKS = list(_catalogue())


GRID = """CREATE TABLE grid (
    uid BIGINT, a INTEGER, b INTEGER, point STRUCT(x DOUBLE, y DOUBLE), size ENUM ('small', 'large'));
CREATE TABLE answers (k INTEGER, n INTEGER)"""
"""Tables for what the small world is too small for: a and b have 2,000 values each, and each row of
answers is a unit."""

GRID_ATTACKS = [
    Attack(sql, outcome, "what cannot be grouped or ordered by is refused")
    for sql, outcome in (
        ("select a, b, count(*) from grid group by a, b", "domain_too_large"),
        ("select point, count(*) from grid group by point", "key_type"),
        ("select count(*) from grid where size < 'large'", "enum_order"),
        ("select size, count(*) from grid group by size order by size", "enum_order"),
    )
]
GRID_ATTACKS += [
    Attack(sql, outcome, "a row that is a unit of its own stands alone, and once")
    for sql, outcome in (
        ("select count(*) from answers, range(9)", "unit_row_repeats"),
        ("select count(*) from (from answers union all from answers)", "unit_row_repeats"),
        ("select count(*) from answers a join answers b on a.k = b.k", "join_units_differ"),
        ("select count(*) from answers, grid where k = uid", "join_units_differ"),
        ("select count(*) from (from answers union from answers)", "set_operation_unit"),
        ("select rowid, count(*) from answers group by rowid", "unknown_column"),
    )
]


PLAYS = """CREATE TABLE plays AS SELECT
    range % 50 AS uid, 's' || range % 4 AS song, range % 9 AS n,
    TIMESTAMP '2024-01-01' + to_hours(range) AS played_at FROM range(400)"""
"""A table of its own that says when its rows happened, for materialized views."""

VIEW_WITH = "with (step = '1 day', start = '2024-01-01', steps = 30)"

VIEWS = (
    f"create materialized view songs {VIEW_WITH} as "
    "select song, count(*) as plays from plays group by song",
    f"create materialized view sums {VIEW_WITH} as "
    "select song, sum(n) as n from plays group by song",
)
"""Two views of it, made before the owner changed the bounds of n."""

VIEW_ATTACKS = [
    Attack(sql, outcome, "views are apart from private rows, and keep to what they were priced by")
    for sql, outcome in (
        (
            "select song, count(*) from plays join songs using (song) group by song",
            "view_beside_rows",
        ),
        ("refresh materialized view sums", "view_not_allowed"),
        ("describe sums", "view_changed"),
        (
            f"create materialized view v {VIEW_WITH} as select count(*) as n from plays",
            "view_not_allowed",
        ),
    )
]
