"""What may stand in an expression over private rows: allow-lists of syntax nodes and types.

Everything here is deterministic, reads one row only, and either cannot fail or fails in a way that
``TRY`` turns into NULL. Whatever is not listed is refused, so a construct that a newer parser or
engine learns is closed until somebody has looked at it.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.wordlists import words


def nodes_named(names: str) -> tuple[type[exp.Expr], ...]:
    """Return the parser's classes of these names.

    Raises ``AttributeError`` for one that it has not.
    """
    return tuple(getattr(exp, name) for name in words(names))


_OPERATORS: Final = nodes_named(
    """
    And Or Not EQ NEQ GT GTE LT LTE Is NullSafeEQ NullSafeNEQ Between In Like ILike Add Sub Mul
    Div IntDiv Mod Neg DPipe Case If Cast TryCast Paren
    """
)
_LEAVES: Final = nodes_named(
    "Column Identifier Literal Boolean Null DataType DataTypeParam Interval Var"
)
_FUNCTIONS: Final = nodes_named(
    """
    Abs Ceil Coalesce Concat Contains DateDiff Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear
    Exp Extract Floor Greatest Hour IsNan Least Left Length Ln Log Lower Minute Month Nullif Pow
    Quarter Right Round Second Sign Sqrt StartsWith Substring TimestampTrunc DateTrunc Trim
    Trunc Upper Week WeekOfYear Year
    """
)
FUNCTION_NAMES = tuple(
    sorted({fold(n) for kind in _FUNCTIONS if issubclass(kind, exp.Func) for n in kind.sql_names()})
)
"""What functions of a row may be called; most may be called otherwise as well."""
ROW_NODES = frozenset(_OPERATORS + _LEAVES + _FUNCTIONS)

# Casts to these types only: no nested types, no enumerations, no user-defined types.
CAST_TYPES = frozenset(
    exp.DType[name]
    for name in words(
        """
        BIGINT BOOLEAN DATE DECIMAL DOUBLE FLOAT INT SMALLINT TEXT TIME TIMESTAMP
        TIMESTAMPNTZ TIMESTAMPTZ TINYINT UBIGINT UINT USMALLINT UTINYINT VARCHAR
        """
    )
)

# Statement-level nodes that may stand anywhere outside a private block. The tail runs on released
# rows alone, so its expressions are free; what changes state or reaches outside is not.
TAIL_FORBIDDEN: Final = nodes_named(
    """
    DDL DML Command Set Pragma Use Attach Detach Copy Drop Describe Into Block Transaction
    Commit Rollback Placeholder Parameter
    """
)

# Functions that read the engine's own state, files or time rather than their arguments.
TAIL_FORBIDDEN_FUNCTIONS = frozenset(
    words(
        """
        currval current_query current_setting error getenv getvariable nextval pg_sleep
        query query_table read_blob read_csv read_csv_auto read_json read_json_auto
        read_parquet read_text set_config sleep sleep_ms stats txid_current write_log
        """
    )
)
