"""The parse nodes allowed in the owner's views on PostgreSQL, with their fields, by hand.

An owner's view is SQL that runs inside every statement over it. The server keeps the tree that it
has made of it. Every node of that tree is to be here, with all of its fields and what may stand in
them; every function and aggregate with the types that it is called for. What is listed has a value
for whatever rows there are, as each was tried on the extremes of its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpsql.engines.postgresql.forms import NODES, Fields, fields_of

_OF_STATEMENTS: Final = frozenset({"ROWEXPR"})

VIEW_NODES: Final[Mapping[str, Fields]] = {
    **{kind: fields for kind, fields in NODES.items() if kind not in _OF_STATEMENTS},
    "QUERY": {
        **NODES["QUERY"],
        "groupingSets": None,
        "hasTargetSRFs": frozenset({"false"}),
    },
    "GROUPINGSET": fields_of("kind content location"),
    "RANGETBLENTRY": {
        **NODES["RANGETBLENTRY"],
        "values_lists": None,
        "rtekind": frozenset({"0", "1", "2", "3", "5", "6", "9"}),  # VALUES, too
    },
    "JOINEXPR": {**NODES["JOINEXPR"], "jointype": frozenset({"0", "1", "2", "3"})},  # FULL, too
    "AGGREF": {**NODES["AGGREF"], "aggfilter": None},
    "WINDOWCLAUSE": {
        **NODES["WINDOWCLAUSE"],
        "startOffset": frozenset({"<>"}),
        "endOffset": frozenset({"<>"}),
        "startInRangeFunc": frozenset({"0"}),
        "endInRangeFunc": frozenset({"0"}),
    },
    "WINDOWFUNC": {**NODES["WINDOWFUNC"], "aggfilter": None},
    "BOOLEANTEST": {**NODES["BOOLEANTEST"], "booltesttype": None},
    "PARAM": {**NODES["PARAM"], "paramkind": frozenset({"2"})},  # of a subquery
}
"""What the tree of a view may be made of. Fields that a version does not have are not there."""

TOTAL_FUNCTIONS: Final = frozenset(
    # casts to wider types
    {"int4(smallint)", "int8(smallint)", "int8(integer)"}
    | {f"numeric({kind})" for kind in ("smallint", "integer", "bigint")}
    | {f"float4({kind})" for kind in ("smallint", "integer", "bigint")}
    | {f"float8({kind})" for kind in ("smallint", "integer", "bigint", "real")}
    | {"int4(boolean)", "bool(integer)", "text(boolean)"}
    | {"date(timestamp without time zone)", "time(timestamp without time zone)"}
    # lengths
    | {"length(text)", "char_length(text)", "octet_length(text)"}
)
"""Functions that have a value, and the same one each time, for all values of these types."""

TOTAL_AGGREGATES: Final = frozenset(
    {'count("any")', "count()"}
    | {f"{name}(boolean)" for name in ("bool_and", "bool_or", "every")}
    | {f"sum({kind})" for kind in ("smallint", "integer", "bigint")}
    | {"sum(numeric)"}  # of columns that are declared with their digits
    | {
        f"{name}({kind})"
        for name in ("min", "max")
        for kind in (
            *("smallint", "integer", "bigint", "real", "double precision", "numeric", "text"),
            *("date", "time without time zone", "timestamp without time zone"),
            "timestamp with time zone",
        )
    }
)
"""Aggregates that have a value for whatever rows there are."""

TOTAL_WINDOWS: Final = frozenset({"row_number()", "rank()", "dense_rank()"})
"""Window functions that have a value for whatever rows there are, beside aggregates."""

COUNTING: Final = frozenset(
    {"generate_series(integer, integer)", "generate_series(bigint, bigint)"}
)
"""Functions that may make rows in a FROM clause, of constants."""

EXTRACTED: Final[Mapping[str, frozenset[str]]] = {
    "extract(text, date)": frozenset(
        {"day", "dow", "doy", "isodow", "isoyear", "month", "quarter", "week", "year"}
    ),
    "extract(text, timestamp without time zone)": frozenset(
        {"day", "dow", "doy", "isodow", "isoyear", "month", "quarter", "week", "year"}
        | {"hour", "minute", "second"}
    ),
}
"""Functions of parts of moments, with the parts that may be asked for: others always fail."""

SINGLE: Final = frozenset(
    {"bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar"}
    | {"bpchar", "name", "bytea", "uuid", "date", "time", "timestamp", "timestamptz", "interval"}
)
"""Types of single values. Each two compare whatever they are, under one collation."""

WRITTEN: Final = frozenset(
    {"int2", "int4", "int8", "float4", "float8", "numeric", "uuid", "date", "time", "timestamp"}
)
"""Types of which every value can be written as a text, the same each time."""
