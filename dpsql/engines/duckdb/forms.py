"""The plan nodes allowed in generated SQL on DuckDB: a closed list, written by hand.

A plan before optimisation is a tree of operators with expressions in them, each an object with
fields. Here is every operator and every expression that there may be, with every field that it has
and what may stand in it. Whatever is not here is refused: a field that another version adds, too.
Fields that only say where a column is, what it is called or of what type it is, are ``ANYTHING``.

A test goes over all entries: without any one of them some statement that dpsql sends is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

from dpsql.engines.embedded.plan_spellings import COMPARISONS


class PlanPart(Enum):
    """What stands in a field and is looked into with another of the lists."""

    ANYTHING = auto()  # places, names and types: nothing that is computed
    OPERATOR = auto()
    VALUE = auto()  # an expression
    TABLE = auto()  # the name of a table: counted
    CALL = auto()  # the name of a function
    AGGREGATE = auto()  # the name of an aggregate
    TYPE = auto()  # what is cast to, unless it is NULL or an array that becomes a list
    LIST = auto()  # what an array becomes that is cast to a list
    CONDITION = auto()  # of a join
    ELEMENT = auto()  # an expression over an element of a list or record
    BYTES = auto()  # the name of a function over such an element
    ONE_GROUPING = auto()  # not several sets of keys
    DISTANCE = auto()  # of an end of a frame: nothing, a constant, or the row's own DOUBLE and one


Form: TypeAlias = (
    "PlanPart | frozenset[object] | list[Form] | tuple[Form, ...] | Mapping[str, Form]"
)
"""What may stand in a field: a part, one of some values, a list of any length, of one length, or an
object with exactly these fields."""


def only(*values: object) -> frozenset[object]:
    """Return the form of a field with one of these values."""
    return frozenset(values)


def _built_in(function: str) -> Form:
    return (only("system"), only("main"), only(function))


_ANYTHING: Final = PlanPart.ANYTHING
_VALUE: Final = PlanPart.VALUE
_VALUES: Final[Form] = [PlanPart.VALUE]
_ONE: Final = (PlanPart.OPERATOR,)
_TWO: Final = (PlanPart.OPERATOR, PlanPart.OPERATOR)
_NONE: Final = only(None)
_NO: Final = only(False)
_EMPTY: Final = ()

TYPES: Final = frozenset(
    {"BOOLEAN", "VARCHAR", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT"}
    | {"USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE"}
    | {"TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "BLOB", "UUID"}
    | {"TIMESTAMP WITH TIME ZONE", "INTERVAL"}
)
"""Types that values may be cast to."""

# -- operators ------------------------------------------------------------------------------------

_JOIN: Final[Mapping[str, Form]] = {
    "children": _TWO,
    "mark_index": _ANYTHING,
    "left_projection_map": _EMPTY,
    "right_projection_map": _EMPTY,
}
_ORDER: Final[Form] = [
    {
        "type": only("ASCENDING", "DESCENDING"),
        "null_order": only("NULLS LAST"),
        "expression": _VALUE,
    }
]
_ASCENDING: Final[Form] = [
    {"type": only("ASCENDING"), "null_order": only("NULLS LAST"), "expression": _VALUE}
]
_SORTED: Final[Form] = [
    {
        "type": only("ASCENDING", "DESCENDING"),
        "null_order": only("NULLS LAST", "NULLS FIRST"),
        "expression": _VALUE,
    }
]
_SET_OPERATION: Final[Mapping[str, Form]] = {
    "children": _TWO,
    "table_index": _ANYTHING,
    "column_count": _ANYTHING,
    "allow_out_of_order": _ANYTHING,
}
_LEAF: Final[Mapping[str, Form]] = {
    "children": _EMPTY,
    "table_index": _ANYTHING,
    "returned_types": _ANYTHING,
    "names": _ANYTHING,
    "projection_ids": _EMPTY,
    "table_filters": {"filters": _EMPTY, "multi_column_filters": _EMPTY},
    "named_parameters": _EMPTY,
    "projected_input": _EMPTY,
    "column_indexes": _ANYTHING,
    "extra_info": {
        "file_filters": only(""),
        "total_files": _ANYTHING,
        "filtered_files": _ANYTHING,
        "sample_options": _NONE,
        "file_filter_expressions": _NONE,
    },
    "ordinality_idx": _ANYTHING,
    "row_group_order_options": _NONE,
    "scan_partition_indices": _EMPTY,
    "source_ordinality": only("WITHOUT_ORDINALITY"),
    "table_filters_by_projection": _ANYTHING,
    "has_pushed_projection": _NO,
    "at_clause": _NONE,
}
_WHOLE_NUMBER: Final[Form] = {"type": _ANYTHING, "is_null": _NO, "value": _ANYTHING}

SCAN: Final[Mapping[str, Form]] = {
    **_LEAF,
    "arguments": _EMPTY,
    "qname": {"path": (only("seq_scan"),)},
    "has_serialize": _ANYTHING,
    "function_data": {
        "catalog": _ANYTHING,  # said again by the whole name
        "schema": _ANYTHING,
        "table": _ANYTHING,
        "is_index_scan": _NO,
        "is_create_index": _NO,
        "result_ids": _EMPTY,
        "qualified_name": {"path": PlanPart.TABLE},
    },
    "parameters": _EMPTY,
    "input_table_types": _EMPTY,
    "input_table_names": _EMPTY,
}
"""A leaf that reads a table."""
CONSTANT_RANGE: Final[Mapping[str, Form]] = {
    **_LEAF,
    "arguments": _ANYTHING,
    "qname": {"path": _built_in("range")},
    "has_serialize": _ANYTHING,
    "parameters": (_WHOLE_NUMBER, _WHOLE_NUMBER),
    "input_table_types": _ANYTHING,
    "input_table_names": (only(""), only("")),
}
"""A leaf that makes the numbers between two constants."""

OPERATORS: Final[dict[str, tuple[Mapping[str, Form], ...]]] = {
    "LOGICAL_GET": (SCAN, CONSTANT_RANGE),
    "LOGICAL_DUMMY_SCAN": ({"children": _EMPTY, "table_index": _ANYTHING},),
    "LOGICAL_PROJECTION": ({"children": _ONE, "table_index": _ANYTHING, "expressions": _VALUES},),
    "LOGICAL_FILTER": ({"children": _ONE, "expressions": _VALUES, "projection_map": _EMPTY},),
    "LOGICAL_AGGREGATE_AND_GROUP_BY": (
        {
            "children": _ONE,
            "expressions": _VALUES,
            "group_index": _ANYTHING,
            "aggregate_index": _ANYTHING,
            "groupings_index": _ANYTHING,
            "groups": _VALUES,
            "grouping_sets": PlanPart.ONE_GROUPING,
            "grouping_functions": _EMPTY,
            "distinct_validity": _ANYTHING,
        },
    ),
    "LOGICAL_WINDOW": ({"children": _ONE, "window_index": _ANYTHING, "expressions": _VALUES},),
    "LOGICAL_DISTINCT": (
        {
            "children": _ONE,
            "distinct_type": only("DISTINCT"),
            "distinct_targets": _VALUES,
            "order_by": _NONE,
        },
    ),
    "LOGICAL_COMPARISON_JOIN": (
        {
            **_JOIN,
            "join_type": only("INNER", "LEFT", "RIGHT", "SEMI", "ANTI", "MARK"),
            "conditions": [PlanPart.CONDITION],
            "mark_types": _ANYTHING,
            "duplicate_eliminated_columns": _EMPTY,
            "delim_flipped": _NO,
        },
    ),
    "LOGICAL_ANY_JOIN": (
        {**_JOIN, "join_type": only("INNER", "LEFT", "RIGHT", "SEMI", "ANTI"), "condition": _VALUE},
    ),
    "LOGICAL_CROSS_PRODUCT": ({"children": _TWO},),
    "LOGICAL_UNION": (
        {**_SET_OPERATION, "children": [PlanPart.OPERATOR], "setop_all": only(True)},
    ),
    "LOGICAL_EXCEPT": ({**_SET_OPERATION, "setop_all": only(True, False)},),
    "LOGICAL_INTERSECT": ({**_SET_OPERATION, "setop_all": only(True, False)},),
    "LOGICAL_MATERIALIZED_CTE": (
        {
            "children": _TWO,
            "table_index": _ANYTHING,
            "column_count": _ANYTHING,
            "ctename": _ANYTHING,
            "materialize": only("CTE_MATERIALIZE_ALWAYS"),
        },
    ),
    "LOGICAL_CTE_REF": (
        {
            "children": _EMPTY,
            "table_index": _ANYTHING,
            "cte_index": _ANYTHING,
            "chunk_types": _ANYTHING,
            "bound_columns": _ANYTHING,
            "is_recurring": _NO,
        },
    ),
    "LOGICAL_ORDER_BY": ({"children": _ONE, "orders": _ORDER, "projections": _EMPTY},),
    "LOGICAL_LIMIT": (
        {
            "children": _ONE,
            "limit_val": {
                "type": only("CONSTANT_VALUE"),
                "constant_integer": _ANYTHING,
                "constant_percentage": only(-1.0),
                "expression": _NONE,
            },
            "offset_val": {
                "type": only("UNSET"),
                "constant_integer": only(0),
                "constant_percentage": only(-1.0),
                "expression": _NONE,
            },
            "unpruned_offset": _ANYTHING,
        },
    ),
    "LOGICAL_UNNEST": ({"children": _ONE, "unnest_index": _ANYTHING, "expressions": _VALUES},),
}
"""The allowed operators of plans, by type."""

CONDITIONS: Final[dict[str, Mapping[str, Form]]] = {
    **{kind: {"left": _VALUE, "right": _VALUE} for kind in COMPARISONS},
    "INVALID": {"left": _VALUE, "right": _NONE},  # a condition that compares no two sides
}
"""The allowed join conditions, by comparison."""

# -- expressions ----------------------------------------------------------------------------------

_COMMON: Final[Mapping[str, Form]] = {
    "alias": _ANYTHING,
    "query_location": _ANYTHING,
    "query_location_length": _ANYTHING,
}
_CALL: Final[Mapping[str, Form]] = {
    **_COMMON,
    "expression_class": only("BOUND_FUNCTION"),
    "return_type": _ANYTHING,
    "children": _VALUES,
    "arguments": _ANYTHING,
    "has_serialize": _ANYTHING,
    "is_operator": _ANYTHING,
}
_OPERATOR: Final[Mapping[str, Form]] = {
    **_COMMON,
    "expression_class": only("BOUND_OPERATOR"),
    "return_type": _ANYTHING,
    "children": _VALUES,
}
_WINDOW: Final[Mapping[str, Form]] = {
    **_COMMON,
    "expression_class": only("BOUND_WINDOW"),
    "return_type": _ANYTHING,
    "partitions": _VALUES,
    "orders": _SORTED,
    "filters": _NONE,
    "ignore_nulls": _NO,
    "start": only("UNBOUNDED_PRECEDING"),
    "end": only("CURRENT_ROW_RANGE"),
    "start_expr": _NONE,
    "end_expr": _NONE,
    "offset_expr": _NONE,
    "default_expr": _NONE,
    "exclude_clause": only("NO_OTHER"),
    "distinct": _NO,
    "arg_orders": _EMPTY,
    "sql_range_start": _NONE,
    "sql_range_end": _NONE,
    "sql_range_order_type": _ANYTHING,
    "sql_range_start_boundary": _NONE,
    "sql_range_end_boundary": _NONE,
    "sql_range_order_casts": _EMPTY,
}
_PLACE: Final[Mapping[str, Form]] = {**_WINDOW, "children": _EMPTY}
_AWAY: Final = (
    *("EXPR_PRECEDING_ROWS", "EXPR_FOLLOWING_ROWS"),
    *("EXPR_PRECEDING_RANGE", "EXPR_FOLLOWING_RANGE"),
)
"""Ends of frames that are some way from the row."""

_EXPRESSIONS: Final[dict[str, Mapping[str, Form]]] = {
    "BOUND_REF": {
        **_COMMON,
        "expression_class": only("BOUND_REF"),
        "return_type": _ANYTHING,
        "index": _ANYTHING,
    },
    "VALUE_CONSTANT": {
        **_COMMON,
        "expression_class": only("BOUND_CONSTANT"),
        "value": _ANYTHING,
    },
    "VALUE_PARAMETER": {
        **_COMMON,
        "expression_class": only("BOUND_PARAMETER"),
        "return_type": _ANYTHING,
        "identifier": _ANYTHING,
        "parameter_data": _ANYTHING,
    },
    "CASE_EXPR": {
        **_COMMON,
        "expression_class": only("BOUND_CASE"),
        "return_type": _ANYTHING,
        "case_checks": [{"when_expr": _VALUE, "then_expr": _VALUE}],
        "else_expr": _VALUE,
    },
    "CONJUNCTION_AND": {
        **_COMMON,
        "expression_class": only("BOUND_CONJUNCTION"),
        "children": _VALUES,
    },
    "CONJUNCTION_OR": {
        **_COMMON,
        "expression_class": only("BOUND_CONJUNCTION"),
        "children": _VALUES,
    },
    **dict.fromkeys(
        (
            *("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_NOT", "OPERATOR_COALESCE"),
            *("OPERATOR_TRY", "COMPARE_IN"),
        ),
        _OPERATOR,
    ),
    **{kind: {**_CALL, "qname": {"path": (only(sign),)}} for kind, sign in COMPARISONS.items()},
    "OPERATOR_CAST": {
        **_CALL,
        "qname": {"path": (only("__cast"),)},
        "return_type": PlanPart.TYPE,
        "function_data": {"try_cast": only(True, False), "is_default_cast": _ANYTHING},
    },
    "BOUND_FUNCTION": {**_CALL, "qname": {"path": PlanPart.CALL}},
    "BOUND_AGGREGATE": {
        **_COMMON,
        "expression_class": only("BOUND_AGGREGATE"),
        "return_type": _ANYTHING,
        "children": _VALUES,
        "arguments": _ANYTHING,
        "qname": {"path": PlanPart.AGGREGATE},
        "has_serialize": _ANYTHING,
        "aggregate_type": only("DISTINCT", "NON_DISTINCT"),
        "filter": _NONE,
        "order_bys": _NONE,
        "state_export": only("NONE"),
    },
    "BOUND_UNNEST": {
        **_COMMON,
        "expression_class": only("BOUND_UNNEST"),
        "return_type": _ANYTHING,
        "child": _VALUE,
    },
    "WINDOW_FIRST_VALUE": {**_WINDOW, "children": (_VALUE,)},
    "WINDOW_LAG": {**_WINDOW, "children": (_VALUE, _VALUE, _VALUE)},
    "WINDOW_LEAD": {**_WINDOW, "children": (_VALUE, _VALUE, _VALUE)},
    "WINDOW_ROW_NUMBER": _PLACE,
    "WINDOW_RANK": _PLACE,
    "WINDOW_RANK_DENSE": {**_PLACE, "orders": _ASCENDING},
    "WINDOW_AGGREGATE": {
        **_WINDOW,
        "start": only("UNBOUNDED_PRECEDING", "CURRENT_ROW_ROWS", "CURRENT_ROW_RANGE", *_AWAY),
        "end": only("UNBOUNDED_FOLLOWING", "CURRENT_ROW_ROWS", "CURRENT_ROW_RANGE", *_AWAY),
        "start_expr": PlanPart.DISTANCE,
        "end_expr": PlanPart.DISTANCE,
        **dict.fromkeys(  # said again, before it was bound
            (
                *("sql_range_start", "sql_range_end"),
                *("sql_range_start_boundary", "sql_range_end_boundary"),
            ),
            _ANYTHING,
        ),
        "children": _VALUES,
        "arguments": _ANYTHING,
        "qname": {"path": PlanPart.AGGREGATE},
        "has_serialize": _ANYTHING,
    },
}
_OF_DECIMALS: Final[Mapping[str, Form]] = {
    **_EXPRESSIONS["BOUND_FUNCTION"],
    "function_data": {
        "check_overflow": only(True, False),
        "return_type": _ANYTHING,
        "arguments": _ANYTHING,
    },
}
"""A call of ``+``, ``-`` or ``*`` on decimals, which says whether it looks for overflow."""
_FIRST_OF_EQUALS: Final[Mapping[str, Form]] = {
    **_EXPRESSIONS["BOUND_AGGREGATE"],
    "alias": only("__collated_group"),  # which no SQL can give to an aggregate
    "qname": {"path": _built_in("first")},
    "aggregate_type": only("NON_DISTINCT"),
}
"""The engine's own, of keys that it groups by something made of them: all of a group are equal."""
_BODY: Final[Mapping[str, Form]] = {"lambda_expr": PlanPart.ELEMENT}
_OF_LISTS: Final[Mapping[str, Form]] = {
    **_CALL,
    "qname": {"path": _built_in("list_transform")},
    "function_data": {**_BODY, "return_type": _ANYTHING, "has_index": _NO, "has_initial": _NO},
}
_OF_RECORDS: Final[Mapping[str, Form]] = {
    **_CALL,
    "qname": {"path": _built_in("invoke")},
    "function_data": _BODY,
}
_LAMBDA: Final[Mapping[str, Form]] = {
    **_COMMON,
    **_BODY,
    "expression_class": only("BOUND_LAMBDA"),
    "return_type": _ANYTHING,
    "captures": _EMPTY,
    "parameter_count": only(1),
    "parameter_names": _ANYTHING,
}
EXPRESSIONS: Final[dict[str, tuple[Mapping[str, Form], ...]]] = {
    **{kind: (form,) for kind, form in _EXPRESSIONS.items()},
    "BOUND_FUNCTION": (*(_EXPRESSIONS["BOUND_FUNCTION"], _OF_DECIMALS, _OF_LISTS, _OF_RECORDS),),
    "LAMBDA": (_LAMBDA,),
    "BOUND_AGGREGATE": (_FIRST_OF_EQUALS, _EXPRESSIONS["BOUND_AGGREGATE"]),
}
"""The allowed expressions, by type."""

_ELEMENTS: Final[Form] = [PlanPart.ELEMENT]
ELEMENTS: Final[dict[str, tuple[Mapping[str, Form], ...]]] = {
    "BOUND_REF": EXPRESSIONS["BOUND_REF"],
    "VALUE_CONSTANT": EXPRESSIONS["VALUE_CONSTANT"],
    "OPERATOR_IS_NULL": ({**_OPERATOR, "children": _ELEMENTS},),
    "CASE_EXPR": (
        {
            **_EXPRESSIONS["CASE_EXPR"],
            "case_checks": ({"when_expr": PlanPart.ELEMENT, "then_expr": PlanPart.ELEMENT},),
            "else_expr": PlanPart.ELEMENT,
        },
    ),
    "BOUND_FUNCTION": (
        {**_CALL, "children": _ELEMENTS, "qname": {"path": PlanPart.BYTES}},
        {**_OF_LISTS, "children": _ELEMENTS},
        {**_OF_RECORDS, "children": _ELEMENTS},
        {
            **_CALL,
            "children": _ELEMENTS,
            "qname": {"path": _built_in("struct_pack")},
            "positional_arguments": only(0),
            "named_arguments": _ANYTHING,
            "function_data": {"variable_return_type": _ANYTHING},
        },
    ),
    "LAMBDA": EXPRESSIONS["LAMBDA"],
    "OPERATOR_CAST": (
        {
            **_EXPRESSIONS["OPERATOR_CAST"],
            "children": _ELEMENTS,
            "return_type": PlanPart.LIST,
            "function_data": {"try_cast": _NO, "is_default_cast": _ANYTHING},
        },
    ),
}
"""Operations on elements of list and record keys: the encoding by which DuckDB groups them."""

SUMMED: Final = frozenset({"count", "count_star", "sum", "min", "max"})
"""Aggregates, also over windows."""

BYTES: Final = frozenset({"bitstring_byte_comparable", "timetz_byte_comparable"})
"""The engine's own functions, of keys that it groups and sorts by bytes."""
OF_ELEMENTS: Final = BYTES | {"struct_extract_at", "normalized_interval"}
"""Those functions, of keys that are lists and records."""
OWN_FUNCTIONS: Final = frozenset(
    {"+", "-", "*", "/", "//", "%", ">>", "floor", "round", "sqrt", "greatest", "least", "isnan"}
    | {"hash", "list_contains", "list_position", "list_value", "normalized_interval", "strlen"}
    | BYTES
)
"""Functions that generated SQL is put together of."""
CALLED_ON_ROWS: Final = frozenset(
    {"~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape"}
    | {"not_ilike_escape", "||", "concat", "contains", "length", "lower", "upper", "left", "right"}
    | {"substring", "starts_with", "prefix", "suffix", "trim", "ltrim", "rtrim"}
    | {"**", "^", "power", "abs", "ceil", "trunc", "sign", "exp", "ln", "log"}
    | {"date_diff", "date_trunc", "century", "day", "dayname", "dayofmonth", "dayofweek"}
    | {"ends_with", "strpos", "replace", "array_extract"}
    | {"sin", "cos", "tan", "asin", "acos", "atan", "atan2", "cbrt"}
    | {"bit_count", "chr", "hex", "levenshtein"}
    | {"md5", "sha256", "make_date", "strftime", "time_bucket", "json_extract_string"}
    | {"list_contains", "list_position", "struct_extract", "reverse", "ascii", "unicode"}
    | {"regexp_matches", "regexp_full_match", "regexp_extract", "regexp_replace"}
    | {"dayofyear", "decade", "epoch", "epoch_ms", "era", "hour", "isodow", "isoyear", "julian"}
    | {"last_day", "microsecond", "millennium", "millisecond", "minute", "month", "monthname"}
    | {"nanosecond", "quarter"}
    | {"second", "week", "weekday", "weekofyear", "year", "yearweek", "timezone"}
    | {"timezone_hour", "timezone_minute", "to_centuries", "to_days", "to_decades", "to_hours"}
    | {"to_microseconds", "to_millennia", "to_milliseconds", "to_minutes", "to_months"}
    | {"to_quarters", "to_seconds", "to_weeks", "to_years"}
)
"""Functions that analysts may call on rows, where :mod:`dpsql.engines.evidence.evidence` finds no
fault."""
