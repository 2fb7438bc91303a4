"""The plan operators allowed in the owner's views on DuckDB, with their fields, by hand.

An owner's view is SQL that runs inside every statement over it. An operator may fail on a row as
well as a function: a subquery that finds a second row, a limit that is computed, numbers up to a
value of a row, the frame of a window. So each operator that a view may have is here with all of its
fields and what may stand in them, as found by trying each on an actual file; every other is
refused. What is computed in an operator's expressions, :mod:`dpsql.engines.evidence.evidence`
judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpsql.engines.duckdb.forms import CONSTANT_RANGE, OPERATORS, Form, PlanPart, only

_ANYTHING: Final = PlanPart.ANYTHING
_JOINED: Final = only("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "MARK")
_COUNT: Final[Form] = {
    "type": only("CONSTANT_VALUE", "CONSTANT_PERCENTAGE", "UNSET"),
    "constant_integer": _ANYTHING,
    "constant_percentage": _ANYTHING,
    "expression": only(None),
}


def _seen_elsewhere(form: Form) -> Form:
    """Return a form without what is looked at by itself: operators below, and expressions."""
    match form:
        case PlanPart.OPERATOR | PlanPart.VALUE | PlanPart.CONDITION | PlanPart.TABLE:
            return _ANYTHING
        case [PlanPart.VALUE | PlanPart.CONDITION]:
            return _ANYTHING
        case tuple():
            return tuple(map(_seen_elsewhere, form))
        case Mapping():
            return {name: _seen_elsewhere(part) for name, part in form.items()}
    return form


def _fields(name: str, **other: Form) -> Mapping[str, Form]:
    """Return the fields of an operator of generated SQL, with other values in some of them."""
    (fields, *_) = OPERATORS[name]
    seen = _seen_elsewhere(fields)
    assert isinstance(seen, Mapping)
    assert other.keys() <= seen.keys()
    return {**seen, **other}


def _join(name: str) -> Mapping[str, Form]:
    """Return the fields of a join operator, which passes on some columns."""
    columns = {"left_projection_map": _ANYTHING, "right_projection_map": _ANYTHING}
    return _fields(name, join_type=_JOINED, **columns)


def _numbers(function: str, arguments: int) -> Mapping[str, Form]:
    """Return the fields of a leaf that makes rows of so many constants."""
    constant: Form = {"type": _ANYTHING, "is_null": only(False), "value": _ANYTHING}
    return {
        **CONSTANT_RANGE,
        "qname": {"path": (only("system"), only("main"), only(function))},
        "parameters": (constant,) * arguments,
        "input_table_names": _ANYTHING,
    }


VIEW_OPERATORS: Final[Mapping[str, tuple[Mapping[str, Form], ...]]] = {
    "LOGICAL_GET": (
        _fields("LOGICAL_GET"),
        *(_numbers(name, n) for name in ("range", "generate_series") for n in (1, 2, 3)),
    ),
    "LOGICAL_DUMMY_SCAN": (_fields("LOGICAL_DUMMY_SCAN"),),
    "LOGICAL_EMPTY_RESULT": ({"children": (), "return_types": _ANYTHING, "bindings": _ANYTHING},),
    "LOGICAL_EXPRESSION_GET": (
        {
            "children": (_ANYTHING,),
            "table_index": _ANYTHING,
            "expr_types": _ANYTHING,
            "expressions": _ANYTHING,
        },
    ),
    "LOGICAL_PROJECTION": (_fields("LOGICAL_PROJECTION"),),
    "LOGICAL_FILTER": (_fields("LOGICAL_FILTER", projection_map=_ANYTHING),),
    "LOGICAL_ORDER_BY": (_fields("LOGICAL_ORDER_BY", orders=_ANYTHING),),
    "LOGICAL_UNNEST": (_fields("LOGICAL_UNNEST"),),
    "LOGICAL_MATERIALIZED_CTE": (_fields("LOGICAL_MATERIALIZED_CTE", materialize=_ANYTHING),),
    "LOGICAL_CTE_REF": (_fields("LOGICAL_CTE_REF"),),
    "LOGICAL_COMPARISON_JOIN": (_join("LOGICAL_COMPARISON_JOIN"),),
    "LOGICAL_ANY_JOIN": (_join("LOGICAL_ANY_JOIN"),),
    "LOGICAL_ASOF_JOIN": (_join("LOGICAL_COMPARISON_JOIN"),),
    "LOGICAL_POSITIONAL_JOIN": (_fields("LOGICAL_CROSS_PRODUCT"),),
    "LOGICAL_CROSS_PRODUCT": (_fields("LOGICAL_CROSS_PRODUCT"),),
    "LOGICAL_UNION": (_fields("LOGICAL_UNION", setop_all=_ANYTHING),),
    "LOGICAL_EXCEPT": (_fields("LOGICAL_EXCEPT", setop_all=_ANYTHING),),
    "LOGICAL_INTERSECT": (_fields("LOGICAL_INTERSECT", setop_all=_ANYTHING),),
    "LOGICAL_AGGREGATE_AND_GROUP_BY": (
        _fields(
            "LOGICAL_AGGREGATE_AND_GROUP_BY",
            grouping_sets=_ANYTHING,
            grouping_functions=_ANYTHING,
        ),
    ),
    "LOGICAL_DISTINCT": (
        _fields(
            "LOGICAL_DISTINCT",
            distinct_type=only("DISTINCT", "DISTINCT_ON"),
            order_by=_ANYTHING,
        ),
    ),
    "LOGICAL_LIMIT": (_fields("LOGICAL_LIMIT", limit_val=_COUNT, offset_val=_COUNT),),
    "LOGICAL_WINDOW": (_fields("LOGICAL_WINDOW"),),
}
"""The allowed operators of views, by type."""

FRAMES: Final = ("start_expr", "end_expr", "sql_range_start", "sql_range_end")
"""Fields of windows with values that a frame begins or ends at, which can fail on a row."""
