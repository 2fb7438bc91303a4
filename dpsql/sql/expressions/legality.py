"""Legality of expressions over private rows, with the list of functions they may call."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.core.wordlists import words
from dpsql.errors import QueryRefused
from dpsql.ir.query import Key
from dpsql.sql.expressions.enum_order import refuse_enum_order
from dpsql.sql.expressions.first_answers import after_answering
from dpsql.sql.expressions.row_constants import constants_objection
from dpsql.sql.expressions.text_growth import MAX_WRITTEN_OUT, too_much_written_out, written_out
from dpsql.syntax.dialect import WRITTEN_NAME
from dpsql.syntax.other_words import INSTEAD
from dpsql.syntax.parse import MAX_DIGITS, number_too_long, place_of
from dpsql.syntax.row_nodes import FUNCTION_NAMES, ROW_NODES, is_row_node, nodes_named
from dpsql.syntax.text import written_name

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

BY_QUANTILES: Final = (
    "Bands of all rows by size are asked by quantiles: WITH q AS (SELECT QUANTILE(x, 0.25) AS a, "
    "QUANTILE(x, 0.5) AS b, QUANTILE(x, 0.75) AS c FROM t) SELECT CASE WHEN x <= a THEN 1 WHEN "
    "x <= b THEN 2 WHEN x <= c THEN 3 ELSE 4 END AS band, COUNT(*) FROM t, q GROUP BY band. Rows "
    "of equal values are in one band."
)
"""What to write instead of NTILE and the like over rows of several units."""

# Statement-level nodes that may stand anywhere outside a private block. The tail runs on released
# rows alone, so its expressions are free; what changes state or reaches outside is not.
TAIL_FORBIDDEN: Final = nodes_named(
    """
    DDL DML Command Set Pragma Use Attach Detach Copy Drop Describe Into Block Transaction
    Commit Rollback Placeholder Parameter
    """
)

# Functions that read or change the engine's own state, files or time rather than their arguments,
# or plan SQL that is given as a text, by which all of these would be reached.
TAIL_FORBIDDEN_FUNCTIONS = frozenset(
    words(
        """
        current_connection_id current_query current_query_id current_setting
        current_transaction_id currval error getenv getvariable json_serialize_plan nextval
        pg_sleep query query_table read_blob read_csv read_csv_auto read_json read_json_auto
        read_parquet read_text set_config setval sleep sleep_ms stats txid_current
        vector_type write_log
        """
    )
)


_ALIKE = 0.7  # of two names: above it, one may be meant by the other
_WORD = re.compile(r"[A-Za-z_]+")
_CAPITAL = re.compile(r"[A-Z][a-z]+")
_SIGNS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Array: "a list […]",
    exp.Bracket: "x[…]",
    exp.BitwiseAnd: "&",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseNot: "~",
    exp.BitwiseOr: "|",
    exp.BitwiseRightShift: ">>",
    exp.Dot: "x.y(…)",
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.RegexpILike: "~*",
    exp.RegexpLike: "~",
    exp.Struct: "a record {…}",
    exp.Tuple: "a list (…, …)",
}
"""How nodes are typed whose class is not the word for them."""
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?")


def outside_subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield an expression's nodes in prefix order, subqueries themselves but nothing in them."""
    # With a list of what is left to do: generators within generators take a step for each level.
    left = [node]
    while left:
        here = left.pop()
        yield here
        if not isinstance(here, exp.Query):
            left.extend(here.iter_expressions(reverse=True))


def refuse_written_out(nodes: Iterable[exp.Expr], text: str) -> None:
    """Refuse expressions that become too large together when they are made total.

    Raises ``QueryRefused``.
    """
    size = 0
    for node in nodes:
        size += written_out(node)
        if size > MAX_WRITTEN_OUT:
            raise too_much_written_out(place_of(text, node))


def check_row_expression(node: exp.Expr, text: str) -> None:
    """Refuse whatever is not on the allow-list of expressions over one private row."""
    refuse_written_out([node], text)
    for part in outside_subqueries(node):
        if isinstance(part, exp.Exists) or (isinstance(part, exp.In) and part.args.get("query")):
            raise QueryRefused(
                "IN and EXISTS over a table cannot stand here",
                code="subquery_over_private_rows",
                place=place_of(text, part),
                hint="They may stand in WHERE, in the ON of an inner join, in a select list, in "
                "keys and in aggregates.",
            )
        if isinstance(part, exp.Query):
            refused = QueryRefused(
                "a subquery cannot stand in an expression over private rows",
                code="subquery_over_private_rows",
                place=place_of(text, part),
                hint="Write the values as a list, or filter the released rows in an outer query.",
            )
            raise after_answering(part, refused)
        if isinstance(part, exp.AggFunc):
            raise QueryRefused(
                "an aggregate cannot stand here",
                code="misplaced_aggregate",
                place=place_of(text, part),
                hint="Filter on aggregates with HAVING, or in an outer query.",
            )
        if isinstance(part, exp.Window):
            raise QueryRefused(
                "a window function cannot run over private rows",
                code="window_over_private_rows",
                place=place_of(text, part),
                hint="Windows may be used over the released groups, and in a subquery over rows of "
                f"one unit: PARTITION BY its column. {BY_QUANTILES}",
            )
        if type(part) not in ROW_NODES:
            raise QueryRefused(
                f"{_kind_of(part)} is not available over private rows",
                code="expression_not_allowed",
                place=place_of(text, part),
                hint=_near(part),
            )
        _check_arguments(part, text)
        wrong = constants_objection(part)
        if wrong is not None:
            reason, hint = wrong
            raise refusal(text, reason, "expression_not_allowed", part, hint)
        refuse_enum_order(part, text)


def _check_arguments(part: exp.Expr, text: str) -> None:
    """Refuse variants of allowed nodes that carry more than the plain form does."""
    if isinstance(part, exp.Literal) and not part.is_string and len(part.this) > MAX_DIGITS:
        raise number_too_long(text, part)
    if not is_row_node(part):
        unsupported = True
    elif isinstance(part, exp.Cast):
        unsupported = part.to.this not in CAST_TYPES
    elif isinstance(part, exp.Is):
        unsupported = not isinstance(part.expression, exp.Null | exp.Boolean)
    else:
        unsupported = _holds_raw_text(part)
    if unsupported:
        raise QueryRefused(
            "this form is not available over private rows",
            code="expression_not_allowed",
            place=place_of(text, part),
            hint="Casts go to plain scalar types; IN takes a list of values; a part of a date is "
            "named by a single word.",
        )


def _holds_raw_text(part: exp.Expr) -> bool:
    """Tell whether a node holds text other than a word, which would be generated as it is.

    ``EXTRACT("year FROM d), (SELECT …" FROM d)`` parses with everything in quotes as the part.
    """
    if isinstance(part, exp.Identifier) or (isinstance(part, exp.Literal) and part.is_string):
        return False  # generated in quotes
    word = _NUMBER if isinstance(part, exp.Literal) else _WORD
    texts = [value for value in part.args.values() if isinstance(value, str)]
    return not all(word.fullmatch(value) for value in texts)


def _kind_of(node: exp.Expr) -> str:
    written = isinstance(node, exp.Anonymous) or WRITTEN_NAME in node.meta
    if isinstance(node, exp.Func) and written:
        return f"the function {written_name(node)}"
    if isinstance(node, exp.Star):
        return "*"
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return "a query parameter"
    return _SIGNS.get(type(node)) or _CAPITAL.sub(r" \g<0>", type(node).__name__).strip().upper()


def _near(node: exp.Expr) -> str:
    """Suggest an alternative by the spelling."""
    name = written_name(node) if isinstance(node, exp.Func) else fold(_kind_of(node))
    if name in INSTEAD:
        return INSTEAD[name]
    close = difflib.get_close_matches(name, FUNCTION_NAMES, n=1, cutoff=_ALIKE)
    if close and close[0] != name:
        return f"Did you mean {close[0]}? docs/sql.md lists the functions of a row."
    return "docs/sql.md lists the functions of a row that can be used here."


def plain_column(key: Key) -> str:
    """Return the name of the column that a key is, or an empty name if it is an expression."""
    return key.expression.name if isinstance(key.expression, exp.Column) else ""


def refusal(
    text: str, reason: str, code: str, node: object, hint: str | None = None
) -> QueryRefused:
    """Build the error for a part of the query, with its place."""
    place = place_of(text, node) if isinstance(node, exp.Expr) else None
    return QueryRefused(reason, code=code, place=place, hint=hint)
