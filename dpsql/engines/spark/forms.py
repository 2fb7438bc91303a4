"""The operators and expressions allowed in plans of Spark's, in closed lists written by hand.

They are of the words in the text of an analysed plan, in which no text of an analyst's stands
(:mod:`dpsql.engines.spark.masked`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ANY_EXPRESSIONS: Final = "…"
"""What stands for expressions in the form of an operator."""

SPARK_OPERATORS: Final[Mapping[str, tuple[str, ...]]] = {
    "Project": (r"Project …",),
    "Filter": (r"Filter …",),
    "Aggregate": (r"Aggregate …",),
    "Window": (r"Window …",),
    "Sort": (r"Sort …, true",),  # the whole, not each part of the rows
    "Join": (
        r"Join Inner, …",
        r"Join Cross",
        r"Join LeftOuter, …",
        r"Join RightOuter, …",
        r"Join LeftSemi, …",
        r"Join LeftAnti, …",
    ),
    "Union": (r"Union false, false",),  # by position, no column added
    "Except": (r"Except false", r"Except All true"),
    "Intersect": (r"Intersect false", r"Intersect All true"),
    "Distinct": (r"Distinct",),
    "GlobalLimit": (r"GlobalLimit \d+",),
    "LocalLimit": (r"LocalLimit \d+",),
    "SubqueryAlias": (r"SubqueryAlias [a-z_][a-z0-9_]*",),  # with a dot it is of a catalog
    "WithCTE": (r"WithCTE",),
    "CTERelationDef": (r"CTERelationDef \d+, false",),
    "CTERelationRef": (r"CTERelationRef \d+, true, …, false, false",),  # no recursion
    "OneRowRelation": (r"OneRowRelation",),
    "LocalRelation": (r"LocalRelation …",),
    "Range": (r"Range \(\d+, \d+, step=1\)",),
}
"""Operators, each with the texts that its line may be; views of tables aside."""

SPARK_FUNCTIONS: Final = frozenset(
    {"cast", "try_cast", "coalesce", "greatest", "least", "isnull", "isnotnull", "xxhash64"}
    | {"monotonically_increasing_id", "rint", "round", "FLOOR", "SQRT", "shiftrightunsigned"}
    | {"try_add", "try_subtract", "try_multiply", "try_divide", "try_mod"}
    | {"row_number", "dense_rank", "windowspecdefinition", "first_value", "lag", "lead"}
)
"""Functions that generated SQL is put together of, as plans name them."""

SPARK_AGGREGATES: Final = frozenset({"count", "sum", "min", "max"})
"""Aggregates, also over windows."""

SPARK_ON_ROWS: Final = frozenset(
    {"abs", "CEIL", "EXP", "ln", "LOG10", "LOG2", "pow", "between", "RLIKE"}
    | {"lower", "upper", "char_length", "trim", "ltrim", "rtrim", "left", "right", "substring"}
    | {"octet_length", "ascii", "add_months"}
    | {"concat", "concat_ws", "Contains", "StartsWith", "date_trunc", "date_add", "datediff"}
    | {"last_day", "EndsWith", "instr", "replace", "md5", "sha2", "unix_micros"}
    | {"timestamp_micros"}
    | {"make_date", "date_format", "regexp_extract", "regexp_replace"}
    | {"year", "quarter", "month", "day", "dayofweek", "dayofyear", "weekday", "weekofyear"}
    | {"hour", "minute", "second"}
)
"""Functions that analysts' expressions over rows are written with."""

SPARK_SIGNS: Final = frozenset({"=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%"})
"""Operators between expressions that are written as signs."""

SPARK_WORDS: Final = frozenset(
    {"AS", "CASE", "WHEN", "THEN", "ELSE", "END", "AND", "OR", "NOT", "IN", "div"}
    | {"ASC", "DESC", "NULLS", "FIRST", "LAST", "null", "true", "false", "as"}
)
"""Other words of expressions."""

SPARK_TYPES: Final = frozenset(
    {"bigint", "int", "string", "double", "boolean", "date", "timestamp_ntz", "timestamp"}
    | {"decimal", "binary"}
)
"""Types that values are cast to."""

SPARK_SHAPES: Final[Mapping[str, str]] = {
    "a list that depends on no other row": r"list#\d+ \[\]",
    "a column that is a whole condition": r"[a-z_][a-z0-9_]*#\d+: boolean$",
    "a pattern that is a constant": r"LIKE 0 ESCAPE '0'",
    "the characters that are trimmed": r", Some\(0\)",
    "the zone of a moment": r", Some\(UTC\)",
    "no texts": r"cast\(null as array<string>\)",
    "an interval": r"INTERVAL '[0-9 :.-]+' [A-Z]+(?: TO [A-Z]+)?",
    "a count or a sum of distinct values": r"(?:count|sum)\(distinct ",
    "a frame of rows": r"specifiedwindowframe\(RowFrame, "
    r"(?:unboundedpreceding\$\(\)|currentrow\$\(\)|-?\d+), "
    r"(?:unboundedfollowing\$\(\)|currentrow\$\(\)|-?\d+)\)",
    "a frame of doubles, or of equals": r"specifiedwindowframe\(RangeFrame, "
    r"(?:unboundedpreceding\$\(\)|currentrow\$\(\)|-?\d+\.\d+(?:E-?\d+)?), "
    r"(?:unboundedfollowing\$\(\)|currentrow\$\(\)|-?\d+\.\d+(?:E-?\d+)?)\)",
}
"""Parts of expressions that are listed as wholes."""
