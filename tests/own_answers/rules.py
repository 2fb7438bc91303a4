"""By which rules an answer without noise differs from the engine's own: the only ones there are.

Each is a change of the engine's question, of its rows, or of what cells are taken for the same,
after which both answers are equal. docs/sql.md has the same table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import duckdb

Row = tuple[Any, ...]
Cell = Callable[[Any, Any], bool]

_INSIDE = r"((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)"
_EXTREMES = re.compile(r"\b(?:MIN|MAX|MEDIAN|\w*QUANTILE\w*|\w*PERCENTILE\w*)\(", re.IGNORECASE)
_SUMMED = re.compile(
    r"\b(?:SUM|AVG|MEAN|COUNT_?IF|STD\w*|VAR\w*|MIN|MAX|MEDIAN|\w*QUANTILE\w*|PERC\w*)\(", re.I
)
_TRUTHS = re.compile(r"\b(?:BOOL_OR|BOOL_AND|LOGICAL_OR|LOGICAL_AND|EVERY)\(", re.IGNORECASE)
_WINDOW = re.compile(
    r"\bOVER\s*\(|\bDISTINCT ON\b|\bARG_M\w+\(|\bQUALIFY\b|\b\w*(?:STRING|LIST)_?AGG\("
    r"|\bASOF\b|\bGROUP_CONCAT\(",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"\s+LIMIT \d+(?: OFFSET \d+)?(?=\s*\)*;?\s*$)", re.IGNORECASE)
_BOUNDED = re.compile(r"\b(?:CLAMPED BETWEEN|contribution_bounds_per_\w+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Rule:
    """One difference: where docs/sql.md tells of it, and in which words."""

    section: str
    words: str


RULES: Final[dict[str, Rule]] = {
    "nobody": Rule(
        "joins",
        "Rows without a unit, or whose link leads to no row, belong to nobody and are not read.",
    ),
    "declared values": Rule(
        "groups",
        "Of a key whose values the policy declares there are these groups and no others: rows with "
        "another value, or NULL, are in none.",
    ),
    "known keys": Rule(
        "keys-that-are-known",
        "All values of a key that are known come out, also those without rows, with counts and "
        "sums of 0.",
    ),
    "given groups": Rule(
        "groups-that-a-question-gives",
        "Groups of public rows that an outer join keeps come out, also where `WHERE` leaves no "
        "row.",
    ),
    "of nothing": Rule(
        "aggregates",
        "Where there is no value a sum is 0, an average or a quantile lies within its bounds, a "
        "spread is a number, `BOOL_OR` false and `BOOL_AND` true: only the engine's own is NULL.",
    ),
    "NaN": Rule("aggregates", "NaN is no value: sums, averages and quantiles pass it over."),
    "quantiles": Rule(
        "quantiles",
        "A quantile is a value of that rank, and not one between two rows; smallest and largest "
        "values are near the end, all in steps of a grid between the bounds.",
    ),
    "lists": Rule(
        "lists-of-groups",
        "Lists of distinct values come in their order where none is asked for.",
    ),
    "any value": Rule(
        "lists-of-groups",
        "`ANY_VALUE` is the most frequent value of the group; the engine takes what it finds "
        "first.",
    ),
    "distinct": Rule(
        "subqueries-ctes-set-operations",
        "`APPROX_COUNT_DISTINCT` is the count of distinct values.",
    ),
    "ties": Rule(
        "windows-within-a-unit",
        "Of rows that `ORDER BY` leaves equal, the other columns of the statement decide in a "
        "window within a unit, and `LIMIT` takes any; the engine takes what it finds first.",
    ),
    "small groups": Rule(
        "the-largest-groups",
        "Groups that nothing is counted or summed of are not among the largest.",
    ),
    "no error": Rule(
        "subqueries-ctes-set-operations",
        "What fails on a row, such as a cast, is NULL there.",
    ),
}


def near(value: Any, right: Any) -> bool:
    """Tell whether two cells are the same, numbers up to the steps of their lattice."""
    if isinstance(value, bool) or not (_is_number(value) and _is_number(right)):
        return bool(value == right) and isinstance(value, bool) == isinstance(right, bool)
    if math.isnan(value) or math.isnan(right):
        return math.isnan(value) and math.isnan(right)
    return math.isclose(value, right, rel_tol=1e-6, abs_tol=1e-2)


def near_or_of_nothing(value: Any, right: Any) -> bool:
    """Tell whether they are the same, or the engine's own is NULL beside a number."""
    return near(value, right) or (right is None and _is_number(value))


def near_or_truth_of_nothing(value: Any, right: Any) -> bool:
    """Tell whether they are the same, or the engine's own is NULL beside true or false."""
    return near(value, right) or (right is None and isinstance(value, bool))


def near_or_nan(value: Any, right: Any) -> bool:
    """Tell whether they are the same, or the engine's own is NaN."""
    return near(value, right) or (isinstance(right, float) and math.isnan(right))


def near_on_a_grid(value: Any, right: Any) -> bool:
    """Tell whether they are the same up to the steps in which quantiles come.

    An interval with months is text in Python; the engine's own counts them as 30 days.
    """
    if isinstance(value, str) and isinstance(right, timedelta):
        ((value,),) = duckdb.execute("SELECT CAST(? AS INTERVAL)", [value]).fetchall()
    if isinstance(value, datetime) and isinstance(right, datetime):
        return abs(value - right) <= timedelta(hours=1)
    if isinstance(value, timedelta) and isinstance(right, timedelta):
        return abs(value - right) <= timedelta(hours=1)
    if isinstance(value, list) and isinstance(right, list):
        return equal(tuple(value), tuple(right), near_on_a_grid)
    if not (_is_number(value) and _is_number(right)):
        return near_or_of_nothing(value, right)
    return math.isclose(value, right, rel_tol=1e-4, abs_tol=4)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def alike(rows: Sequence[Row], right: Sequence[Row], cell: Cell = near, part: bool = False) -> bool:
    """Tell whether rows are the same in whatever order, or are some of the right ones."""
    if len(rows) > len(right) or (len(rows) < len(right) and not part):
        return False
    left, todo = list(right), list(rows)
    for same in (near, cell):  # the same rows first, so that none takes another's place
        unmatched = []
        for row in todo:
            place = next((i for i, other in enumerate(left) if equal(row, other, same)), None)
            if place is None:
                unmatched.append(row)
            else:
                del left[place]
        todo = unmatched
    return not todo


def equal(row: Row, right: Row, cell: Cell = near) -> bool:
    """Tell whether two rows are the same, cell by cell."""
    return len(row) == len(right) and all(map(cell, row, right))


def _replaced(pattern: str, by: str) -> Callable[[str], str]:
    found = re.compile(pattern, re.IGNORECASE)
    return lambda text: found.sub(by, text)


def _with_values_of_rows(text: str) -> str:
    text = re.sub(
        rf"\b(?:APPROX_)?MEDIAN\({_INSIDE}\)", r"QUANTILE_DISC(\1, 0.5)", text, flags=re.I
    )
    text = re.sub(r"\bPERCENTILE_CONT\(", "PERCENTILE_DISC(", text, flags=re.I)
    return re.sub(r"\b(?:QUANTILE_CONT|APPROX_QUANTILE)\(", "QUANTILE_DISC(", text, flags=re.I)


CHANGES: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("quantiles", _with_values_of_rows),
    (
        "lists",
        _replaced(r"\b(LIST|ARRAY_AGG)\(DISTINCT (\w+)\)", r"\1(DISTINCT \2 ORDER BY \2)"),
    ),
    (
        "lists",
        _replaced(
            r"\b(?:STRING_AGG|LISTAGG)\(DISTINCT ([\w.]+), ('[^']*')\)",
            r"STRING_AGG(DISTINCT \1, \2 ORDER BY \1)",
        ),
    ),
    ("any value", _replaced(r"\bANY_VALUE\(", "MODE(")),
    ("distinct", _replaced(rf"\bAPPROX_COUNT_DISTINCT\({_INSIDE}\)", r"COUNT(DISTINCT \1)")),
    (
        "of nothing",
        _replaced(rf"\bSUM\({_INSIDE}\)(?!\s*(?:OVER|FILTER))", r"COALESCE(SUM(\1), 0)"),
    ),
)
"""Of the engine's question."""


def rules_between(
    rows: Sequence[Row], ask: Callable[[str], Sequence[Row]], text: str
) -> frozenset[str] | None:
    """Find rules that make the engine's own answer that of dpsql; None if there are none."""
    texts = {text: frozenset[str]()}
    for rule, change in CHANGES:
        changed = {change(each): rules | {rule} for each, rules in texts.items()}
        texts = {**changed, **texts}
    for each, rules in sorted(texts.items(), key=lambda pair: len(pair[1])):
        own = ask(each)
        if alike(rows, own):
            return rules
        for rule, cell, where in (
            ("of nothing", near_or_of_nothing, _SUMMED),
            ("of nothing", near_or_truth_of_nothing, _TRUTHS),
            ("NaN", near_or_nan, re.compile("/")),
            ("quantiles", near_on_a_grid, _EXTREMES),
        ):
            if where.search(each) and alike(rows, own, cell):
                return rules | {rule}
        if _LIMIT.search(each):
            if len(rows) == len(own) and alike(
                rows, ask(_LIMIT.sub("", each)), near_or_of_nothing, part=True
            ):
                return rules | {"ties"}
            counted = [row for row in own if not any(_is_number(v) and v == 0 for v in row)]
            if len(counted) < len(own) and alike(rows, counted):
                return rules | {"small groups"}
    return None


def has_ties(text: str) -> bool:
    """Tell whether rows with the same moment can matter."""
    return _WINDOW.search(text) is not None


def gives_groups(text: str) -> bool:
    """Tell whether a join can keep rows that belong to nobody."""
    return re.search(r"\b(?:LEFT|RIGHT)\b", text, re.IGNORECASE) is not None


def is_bounded(sql: str) -> bool:
    """Tell whether a statement has bounds of its own, which cut as they say."""
    return _BOUNDED.search(sql) is not None
