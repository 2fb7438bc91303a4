"""What may stand in an expression over private rows: allow-lists of syntax nodes and types.

Everything here is deterministic, reads one row only, and either cannot fail or fails in a way that
``TRY`` turns into NULL. Whatever is not listed is refused, so a construct that a newer parser or
engine learns is closed until somebody has looked at it.
"""

from __future__ import annotations

from sqlglot import exp

_OPERATORS: tuple[type[exp.Expr], ...] = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Between,
    exp.In,
    exp.Like,
    exp.ILike,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.Neg,
    exp.DPipe,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.TryCast,
    exp.Paren,
)
_LEAVES: tuple[type[exp.Expr], ...] = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
)
_FUNCTIONS: tuple[type[exp.Expr], ...] = (
    exp.Abs,
    exp.Ceil,
    exp.Coalesce,
    exp.Concat,
    exp.Contains,
    exp.DateDiff,
    exp.Day,
    exp.DayOfMonth,
    exp.DayOfWeek,
    exp.DayOfWeekIso,
    exp.DayOfYear,
    exp.Exp,
    exp.Extract,
    exp.Floor,
    exp.Greatest,
    exp.Hour,
    exp.IsNan,
    exp.Least,
    exp.Left,
    exp.Length,
    exp.Ln,
    exp.Log,
    exp.Lower,
    exp.Minute,
    exp.Month,
    exp.Nullif,
    exp.Pow,
    exp.Quarter,
    exp.Right,
    exp.Round,
    exp.Second,
    exp.Sign,
    exp.Sqrt,
    exp.StartsWith,
    exp.Substring,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.Trim,
    exp.Trunc,
    exp.Upper,
    exp.Week,
    exp.WeekOfYear,
    exp.Year,
)
ROW_NODES = frozenset(_OPERATORS + _LEAVES + _FUNCTIONS)

# Casts to these types only: no nested types, no enumerations, no user-defined types.
CAST_TYPES = frozenset(
    {
        exp.DType.BIGINT,
        exp.DType.BOOLEAN,
        exp.DType.DATE,
        exp.DType.DECIMAL,
        exp.DType.DOUBLE,
        exp.DType.FLOAT,
        exp.DType.INT,
        exp.DType.SMALLINT,
        exp.DType.TEXT,
        exp.DType.TIME,
        exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPNTZ,
        exp.DType.TIMESTAMPTZ,
        exp.DType.TINYINT,
        exp.DType.UBIGINT,
        exp.DType.UINT,
        exp.DType.USMALLINT,
        exp.DType.UTINYINT,
        exp.DType.VARCHAR,
    }
)

# Statement-level nodes that may stand anywhere outside a private block. The tail runs on released
# rows alone, so its expressions are free; what changes state or reaches outside is not.
TAIL_FORBIDDEN: tuple[type[exp.Expr], ...] = (
    exp.DDL,
    exp.DML,
    exp.Command,
    exp.Set,
    exp.Pragma,
    exp.Use,
    exp.Attach,
    exp.Detach,
    exp.Copy,
    exp.Drop,
    exp.Describe,
    exp.Into,
    exp.Block,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Placeholder,
    exp.Parameter,
)

# Functions that read the engine's own state, files or time rather than their arguments.
TAIL_FORBIDDEN_FUNCTIONS = frozenset(
    {
        "currval",
        "current_query",
        "current_setting",
        "error",
        "getenv",
        "getvariable",
        "nextval",
        "pg_sleep",
        "query",
        "query_table",
        "read_blob",
        "read_csv",
        "read_csv_auto",
        "read_json",
        "read_json_auto",
        "read_parquet",
        "read_text",
        "set_config",
        "sleep",
        "sleep_ms",
        "stats",
        "txid_current",
        "write_log",
    }
)
