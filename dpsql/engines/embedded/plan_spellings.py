"""Plans of other versions of DuckDB, written as 2.0.0 writes them.

A spelling is given each object of a plan once it was applied to all objects within. It rewrites the
objects that it knows to the last field. Any other is left as it is, and refused by who reads plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Spelling: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Writes an object of a plan as DuckDB 2.0.0 does."""

COMPARISONS: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "!=",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
}
"""Types of comparisons, and the functions that these are."""


def of_2_0_1(node: dict[str, Any]) -> dict[str, Any]:
    """Read an object of a plan of 2.0.1, which counts a call's unnamed arguments."""
    given = node.get("parameters", node.get("children", ()))  # of a leaf that is a function
    if node.get("named_arguments") == [] and node.get("positional_arguments") == len(given):
        del node["named_arguments"], node["positional_arguments"]
    if node.get("function_data") == {}:
        del node["function_data"]
    call = "children" in node  # the ends of frames are there as parsed, where a cast is no call
    return _without_cast(node) if call and node.get("type") == "OPERATOR_CAST" else node


def _without_cast(cast: dict[str, Any]) -> dict[str, Any]:
    """Write the constant of a cast to the type that it has, under the name of the cast."""
    (child,) = cast["children"]
    if child["type"] != "VALUE_CONSTANT" or child["value"]["type"] != cast["return_type"]:
        return cast
    return {**child, "alias": cast["alias"]}


# -- 1.5 ------------------------------------------------------------------------------------------

_COMMON: Final = frozenset({"expression_class", "type", "alias", "query_location"})
_CAST: Final = _COMMON | {"child", "return_type", "try_cast"}
_COMPARISON: Final = _COMMON | {"left", "right"}
_NAMED: Final = frozenset({"name", "catalog_name", "schema_name", "original_arguments"})
_SCANNED: Final = frozenset({"catalog", "schema", "table", "is_index_scan", "is_create_index"})
_OF_A_FILE: Final = frozenset({"file_filters", "total_files", "filtered_files", "sample_options"})
_UNSAID: Final[Mapping[object, Mapping[str, Any]]] = {
    "LOGICAL_LIMIT": {"unpruned_offset": None},
    "LOGICAL_GET": {
        "row_group_order_options": None,
        "scan_partition_indices": [],
        "source_ordinality": "WITHOUT_ORDINALITY",
        "table_filters_by_projection": True,
        "has_pushed_projection": False,
        "at_clause": None,
        "parameters": [],
        "named_parameters": [],
        "input_table_types": [],
        "input_table_names": [],
    },
    "BOUND_AGGREGATE": {"state_export": "NONE"},
    "BOUND_WINDOW": {
        "sql_range_start": None,
        "sql_range_end": None,
        "sql_range_order_type": None,
        "sql_range_start_boundary": None,
        "sql_range_end_boundary": None,
        "sql_range_order_casts": [],
    },
}
"""What 1.5 does not have and so does not write, by the class or type of an object."""


def of_1_5(node: dict[str, Any]) -> dict[str, Any]:
    """Read an object of a plan of 1.5: casts and comparisons are calls, names are paths."""
    keys, kind = node.keys(), node.get("type")
    if keys == {"filters"}:
        return {**node, "multi_column_filters": []}
    if keys == _OF_A_FILE:
        return {**node, "file_filter_expressions": None}
    if keys == _SCANNED | {"result_ids"}:
        path = [node["catalog"], node["schema"], node["table"]]
        return {**node, "qualified_name": {"path": path}}
    if kind == "LOGICAL_COMPARISON_JOIN" and node.get("predicate", "") is None:
        del node["predicate"]
    if kind == "LOGICAL_ANY_JOIN" and node.get("join_type") in ("LEFT", "RIGHT"):
        return _outer_join(node)
    if keys >= _NAMED:
        node = _with_path(node)
    expression = node.get("expression_class")
    if expression is None:  # an operator, a type, or some part without a type of its own
        return {**_UNSAID.get(kind, {}), **node} if isinstance(kind, str) else node
    if expression == "BOUND_CAST" and keys == _CAST:
        data = {"try_cast": node["try_cast"], "is_default_cast": False}
        call = _call(node, "__cast", [node["child"]], node["return_type"])
        return _without_cast({**call, "function_data": data})
    if expression == "BOUND_COMPARISON" and keys == _COMPARISON and kind in COMPARISONS:
        boolean = {"id": "BOOLEAN", "type_info": None}
        return _call(node, COMPARISONS[kind], [node["left"], node["right"]], boolean)
    if kind in ("WINDOW_LAG", "WINDOW_LEAD") and node.get("offset_expr") is not None:
        node = _with_distance(node)
    return {"query_location_length": 0, **_UNSAID.get(expression, {}), **node}


def _with_distance(window: dict[str, Any]) -> dict[str, Any]:
    """Write the distance of LAG or LEAD, and the NULL where there is no row, among its arguments.

    Any other default is left where it is.
    """
    nothing = {
        "expression_class": "BOUND_CONSTANT",
        "type": "VALUE_CONSTANT",
        "alias": "",
        "query_location": window["query_location"],
        "query_location_length": 0,
        "value": {"type": window["return_type"], "is_null": True},
    }
    children = [*window["children"], window["offset_expr"], nothing]
    return {**window, "children": children, "offset_expr": None}


def _outer_join(node: dict[str, Any]) -> dict[str, Any]:
    """Write an outer join on any condition as one whose condition compares no two sides."""
    condition = {"comparison": "INVALID", "left": node["condition"], "right": None}
    return {
        **{key: node[key] for key in node if key != "condition"},
        "type": "LOGICAL_COMPARISON_JOIN",
        "conditions": [condition],
        "mark_types": [],
        "duplicate_eliminated_columns": [],
        "delim_flipped": False,
    }


def _call(
    node: dict[str, Any], name: str, children: list[dict[str, Any]], type_: Any
) -> dict[str, Any]:
    return {
        "expression_class": "BOUND_FUNCTION",
        "type": node["type"],
        "alias": node["alias"],
        "query_location": node["query_location"],
        "query_location_length": 0,
        "return_type": type_,
        "children": children,
        "arguments": [],
        "qname": {"path": [name]},
        "has_serialize": True,
        "is_operator": True,
    }


def _with_path(node: dict[str, Any]) -> dict[str, Any]:
    """Write what a function is called as one path.

    Many an aggregate does not say where it is from: there are none but the built-in ones.
    """
    catalog, schema, name = node["catalog_name"], node["schema_name"], node["name"]
    path = [catalog, schema, name] if catalog or schema else [name]
    if path == [name] and node["type"] in ("BOUND_AGGREGATE", "WINDOW_AGGREGATE"):
        path = ["system", "main", name]
    return {**{key: node[key] for key in node if key not in _NAMED}, "qname": {"path": path}}
