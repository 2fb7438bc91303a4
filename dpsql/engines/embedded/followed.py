"""Propagates constants through a plan: a subquery's constant column is put where it is used.

``WITH p AS (SELECT 'xyz' AS w) SELECT date_trunc(w, d) FROM r, p`` has a constant argument, too.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from dpsql.engines.embedded.plan_sql import constant_sql
from dpsql.engines.embedded.plans import PlanNode

_Columns: TypeAlias = "list[PlanNode | None] | None"
"""The constants of columns by position, None for other columns; None for an unknown number."""

_SAME: Final = frozenset(
    {"LOGICAL_FILTER", "LOGICAL_ORDER_BY", "LOGICAL_LIMIT", "LOGICAL_DISTINCT", "LOGICAL_WINDOW"}
)
"""Operators that pass on the columns of their input first."""


def with_constants(plan: PlanNode) -> PlanNode:
    """Put constants in place of the columns that always have them, in a plan read from JSON.

    Changes ``plan``, and returns it.
    """
    ctes: dict[int, _Columns] = {}
    for root in plan.get("plans") or ():
        _follow(root, ctes)
    return plan


def _follow(operator: PlanNode, ctes: dict[int, _Columns]) -> _Columns:
    """Put constants in place up to an operator; returns what its columns always are."""
    kind, children = operator["type"], operator.get("children") or []
    if kind == "LOGICAL_CTE_REF":
        return ctes.get(operator["cte_index"]) or [None] * len(operator["bound_columns"])
    if kind == "LOGICAL_MATERIALIZED_CTE":
        defined, rest = children
        ctes[operator["table_index"]] = _follow(defined, ctes)
        return _follow(rest, ctes)
    found = [_follow(child, ctes) for child in children]
    if kind == "LOGICAL_CROSS_PRODUCT":
        return None if None in found else [each for one in found for each in one or ()]
    if len(children) == 1 and found[0] is not None:
        for key, value in operator.items():
            if key != "children":
                operator[key] = _put(value, found[0])
    if kind == "LOGICAL_PROJECTION":
        return [
            each if constant_sql(each) is not None else None for each in operator["expressions"]
        ]
    if kind == "LOGICAL_DUMMY_SCAN":
        return []
    return found[0] if kind in _SAME else None


def _put(value: Any, columns: list[PlanNode | None]) -> Any:
    """Put constants in place of references to columns, in expressions and lists of them."""
    if isinstance(value, list):
        return [_put(each, columns) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("expression_class") == "BOUND_REF":
        place = value["index"]
        constant = columns[place] if place < len(columns) else None
        return value if constant is None else constant
    return {key: _put(each, columns) for key, each in value.items()}
