"""Generated SQL as DuckDB reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Final

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import UnsupportedError

from dpsql.core.extras import installed
from dpsql.core.quoting import table_sql
from dpsql.core.schema import Table
from dpsql.core.sql import Sql, Written, digits, join, literal, sql, written_as
from dpsql.core.sql_types import BIGINT, UNKNOWN, VARCHAR, SqlType
from dpsql.core.wordlists import words
from dpsql.engines.base.dialect import COPIES_IN_EACH_ROW, Dialect
from dpsql.engines.base.row_types import MOST_OF_COMPUTED, MOST_TEXT_BYTES, PIECES_BETWEEN
from dpsql.engines.embedded.letters import in_case
from dpsql.engines.embedded.spelling import DUCKDB_TEXT, one_spelling
from dpsql.errors import QueryRefused
from dpsql.syntax.arguments import NodeArguments, extracted_part
from dpsql.syntax.inner_types import inner_type
from dpsql.syntax.patterns import (
    ONE_CHARACTER,
    PatternRefused,
    like_pattern,
    part_pattern,
    read_pattern,
)
from dpsql.syntax.row_functions import PARTS
from dpsql.syntax.row_nodes import is_row_node
from dpsql.syntax.text import put

_GENERATOR: Final = DuckDB()
_COMPARED_AS_THEY_ARE: Final = frozenset(
    {"BOOLEAN", "BLOB", "DATE", "DECIMAL", "ENUM", "HUGEINT", "TIME", "TIMESTAMP", "UHUGEINT"}
    | {"TIMESTAMP WITH TIME ZONE", "UUID"}
)
# NULL wherever one operand is; checked by ``tests/sql/test_quick_casts.py``.
_NULL_OF_NULL: Final = tuple(
    getattr(exp, name)
    for name in words(
        """
        Paren Neg Add Sub Mul Div IntDiv Mod EQ NEQ GT GTE LT LTE Like ILike Abs Ceil Floor Round
        Sign Sqrt Ln Exp Pow Extract Year Quarter Month Week Day Hour Minute DateTrunc
        TimestampTrunc Lower Upper Length
        """
    )
)
# Nothing fails to become a text; and a TRY_CAST of a BIGNUM is none, as it fails.
_NOT_TRIED: Final = frozenset({exp.DType.TEXT, exp.DType.VARCHAR})
_FAILS_TO_CAST: Final = "BIGNUM"
_CALL: Final = NodeArguments("this expressions")


def _parts_called(tree: exp.Expr, nodes: Sequence[exp.Expr]) -> exp.Expr:
    """Write EXTRACT(hour FROM t) as hour(t), and parts of values as functions of these.

    The first is the function that all versions of DuckDB plan, the others need no brackets. Uses
    up the tree, of which ``nodes`` are written so, what is inside first: some are written twice.
    """
    for node in reversed(nodes):
        call: exp.Expr | None
        if type(node) in _CALLED:
            call = _CALLED[type(node)](node)
        elif (function := PARTS.get(extracted_part(node.this))) is not None:
            call = _call(function.name, node.expression)
        else:
            continue
        if call is not None:
            tree = call if node is tree else tree
            put(node, call)
    return tree


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _two(name: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: _call(name, node.this, node.expression)


def _element(node: exp.Expr) -> exp.Expr:
    """Extract an element where there is one.

    DuckDB copies another row's element for each row whose list has none at the place, so a large
    one would be copied two thousand times.
    """
    (place,) = node.expressions
    there = exp.GTE(this=_call("length", node.this.copy()), expression=place.copy())
    found = _call("array_extract", node.this, place)
    return exp.Case(ifs=[exp.If(this=there, true=found)])


def _with_lists(tree: exp.Expr, table: Table) -> exp.Expr:
    """Cast arrays of a fixed size to lists where an element is read; uses up the tree.

    DuckDB does so itself, but has no length of an array for :func:`_element`.
    """

    def type_of(column: exp.Column) -> SqlType | None:
        found = table.column(column.name)
        return None if found is None else found.type

    for node in list(tree.find_all(exp.Bracket)):
        type_ = inner_type(node.this, type_of)
        element = None if type_ is None or type_.kind.endswith("[]") else type_.element
        if element is not None:
            listed = exp.cast(node.this.copy(), f"{element.text}[]", dialect="duckdb")
            node.set("this", listed)
    return tree


def _part(node: exp.Expr) -> exp.Expr:
    mark, place = node.args["delimiter"].name, int(node.args["part_index"].name)
    pattern = exp.Literal.string(part_pattern(mark, place, backtracks=False))
    return _call("regexp_extract", node.this, pattern, exp.Literal.number(1))


def _like(node: exp.Expr) -> exp.Expr | None:
    """Search for a pattern whose pieces DuckDB would look for in every way.

    Version 1.5 tries each place of a text for each %, if a piece has a _ or the case is ignored.
    """
    without_case = type(node) is exp.ILike
    if not isinstance(node.expression, exp.Literal):
        return _like_computed(node)
    text, given = node.this, str(node.expression.this)
    if not (without_case or ONE_CHARACTER in given):
        return None
    pattern = like_pattern(in_case(given, "lower") if without_case else given, backtracks=False)
    if pattern is None:
        return None
    if without_case:
        text = exp.Lower(this=text)
    found = _call("regexp_matches", text, exp.Literal.string(pattern))
    return exp.Not(this=found) if node.args.get("negate") else found


def _like_computed(node: exp.Expr) -> exp.Expr:
    """Match a pattern that columns are part of, NULL where it is long or has pieces between two %.

    DuckDB tries all of a pattern at each place of a text then, and no more.
    """
    pattern = node.expression
    short = exp.LTE(
        this=_call("strlen", pattern.copy()), expression=exp.Literal.number(MOST_OF_COMPUTED)
    )
    between = _call("regexp_matches", pattern.copy(), exp.Literal.string(f"(?s){PIECES_BETWEEN}"))
    found = node.copy()
    return exp.Case(ifs=[exp.If(this=exp.and_(short, exp.Not(this=between)), true=found)])


_CALLED: Final[Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]]] = {
    exp.ArrayContains: _two("list_contains"),
    exp.ArrayPosition: _two("list_position"),
    exp.JSONExtractScalar: _two("json_extract_string"),
    exp.StructExtract: _two("struct_extract"),
    exp.Bracket: _element,
    exp.SplitPart: _part,
    exp.Like: _like,
    exp.ILike: _like,
}
"""How a node is called with its arguments; None if it is written as it is."""
_PARTS_CALLED: Final = _CALLED.keys() | {exp.Extract}


def _times_as_long(node: exp.Expr, size: Callable[[str], int]) -> int:
    """Return how many times as long as its text a replacement may be, rounding up."""
    put_, taken = (str(node.args[name].this) for name in ("replacement", "expression"))
    if type(node) is exp.Replace:
        return max(1, -(-size(put_) // max(1, size(taken))))
    try:
        least = read_pattern(taken).least
    except PatternRefused:
        least = 0
    # It may match between any two letters, too.
    return max(1, -(-size(put_) // least) if least else size(put_) + 1)


def _bytes(text: str) -> int:
    return len(text.encode())


def _longer(node: exp.Expr) -> bool:
    """Tell whether a replacement may take more bytes than it is put in the place of."""
    return _times_as_long(node, _bytes) > 1


def _of_several(node: exp.Expr) -> bool:
    return len(list(islice(node.find_all(exp.Column), 2))) > 1


def _by_columns(node: exp.Expr) -> bool:
    return node.expression.find(exp.Column) is not None


_LARGER_THAN_TEXTS: Final[Mapping[type[exp.Expr], Callable[[exp.Expr], bool]]] = {
    exp.Concat: _of_several,
    exp.DPipe: _of_several,
    exp.Replace: _longer,
    exp.RegexpReplace: _longer,
    exp.JSONExtractScalar: lambda node: True,  # 16 bytes for each value, twice over
    exp.Levenshtein: lambda node: True,  # a step for each letter of the constant
    exp.Contains: _of_several,  # version 1.5 compares each place with the whole of the other
    exp.StrPosition: _of_several,
    exp.Like: _by_columns,  # each place, with the whole of the pattern
    exp.ILike: _by_columns,
}
"""What takes many times the memory, or the time, of the texts that it is computed of; and when."""
_MADE: Final = frozenset(
    {exp.Lower, exp.Upper, exp.Reverse, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Concat}
    | {exp.DPipe, exp.Replace, exp.RegexpReplace, exp.RegexpExtract, exp.SplitPart}
    | {exp.JSONExtractScalar, exp.JSONExtract}
)
"""What makes a text as long as one that it is computed of, which is held beside it."""
_BYTES_OF_LETTER: Final = 4
_COPIES: Final = 2
"""Copies of the longest texts that are held for each row."""
_TEXTS: Final = frozenset({"VARCHAR", "JSON"})
_OF_TEXTS: Final = frozenset({"BLOB", "BIT"})


def _size(column: exp.Expr, type_: SqlType) -> exp.Expr | None:
    """Count the bytes of a column's values as texts; None if all are short."""
    if type_.kind in _TEXTS:
        return _call("strlen", column)
    if type_.is_nested or type_.kind in _OF_TEXTS:
        return _call("strlen", exp.cast(column, exp.DType.VARCHAR))
    return None


def _copies(tree: exp.Expr) -> Mapping[int, int]:
    """Count the texts of columns that each node's value may have copies of, by its ``id``."""
    copies: dict[int, int] = {}
    letters: dict[int, int] = {}  # times as many letters, of which each has four bytes at most
    for part in reversed(list(tree.walk())):  # what is inside comes first
        inside, of_letters = (
            sum(each[id(below)] for below in part.iter_expressions()) for each in (copies, letters)
        )
        if type(part) in (exp.Replace, exp.RegexpReplace):
            inside *= _times_as_long(part, _bytes)
            of_letters *= _times_as_long(part, len)
        own = isinstance(part, exp.Column)
        letters[id(part)] = of_letters + own
        copies[id(part)] = min(inside, _BYTES_OF_LETTER * of_letters) + own
    return copies


def _is_larger(node: exp.Expr) -> bool:
    """Tell whether a node takes many times as much as the texts that it is computed of."""
    return type(node) in _LARGER_THAN_TEXTS and _LARGER_THAN_TEXTS[type(node)](node)


def _held(found: Iterable[exp.Expr], copies: Mapping[int, int]) -> int:
    return sum(max(_COPIES, copies[id(n)]) if _is_larger(n) else copies[id(n)] for n in found)


def _limited(tree: exp.Expr, table: Table) -> exp.Expr:
    """Read long values as NULL below what takes many times as much as they; uses up the tree.

    A node's values are held for two thousand rows at once, those of all nodes together. So each
    column may have as many bytes as two copies of the longest text have, over the copies in all.
    Of lists and records, whose texts are of any size, the whole is measured. They are the columns
    in the tree, so nothing is written twice, whatever stands between. What is computed of them is a
    column of the next SELECT, where it is looked at again.
    """
    found = [node for node in tree.walk() if _is_larger(node)]
    if not found:
        return tree
    most = MOST_TEXT_BYTES * _COPIES // _held(found, _copies(tree))
    columns = {id(each): each for node in found for each in node.find_all(exp.Column)}
    for each in columns.values():
        column = table.column(each.name)
        size = None if column is None else _size(each.copy(), column.type)
        if size is not None:
            few = exp.LT(this=size, expression=exp.Literal.number(most))
            put(each, exp.Case(ifs=[exp.If(this=few, true=each.copy())]))
    return tree


def _with_null_casts(node: exp.Expr, table: Table) -> exp.Expr:
    """Turn casts inside an expression into TRY_CAST where the NULL makes the whole NULL.

    The whole is NULL in either case, as everything above them is of NULL. Uses up the tree.
    """
    cast = type(node) is exp.Cast
    if not cast and not isinstance(node, (*_NULL_OF_NULL, exp.TryCast)):
        return node
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr) and key != "to":
            node.set(key, _with_null_casts(value, table))
    if not cast or node.args["to"].this in _NOT_TRIED:
        return node
    types = (table.column(column.name) for column in node.find_all(exp.Column))
    if any(column is None or column.type.kind == _FAILS_TO_CAST for column in types):
        return node
    return exp.TryCast(this=node.this, to=node.args["to"])


def _is_try(node: exp.Expr) -> bool:
    plain = isinstance(node, exp.Anonymous) and _CALL.hold(node)
    return plain and node.this == "TRY" and len(node.expressions) == 1


def _not_written() -> QueryRefused:
    return QueryRefused(
        "an expression over private rows has a part that the engine cannot compute as written",
        code="expression_not_allowed",
    )


class DuckDBDialect(Dialect):
    """DuckDB's spelling; checked by all tests that run generated SQL."""

    __slots__ = ()

    name = "duckdb"
    renderer = DUCKDB_TEXT
    widest = (-(2**127) + 1, 2**127 - 1)  # without its minimum, short of which products stop
    wide_type = SqlType.of("HUGEINT")
    sorts_rows = True  # windows of the same order share one sort, and a hash table takes as long

    def streams_rows(self) -> bool:
        """Tell whether pyarrow can be loaded, and load it before anything is paid for."""
        if not installed("pyarrow"):
            return False
        import_module("pyarrow")
        return True

    # -- names and constants ------------------------------------------------------------------

    def table(self, table: Table) -> Sql:
        """Write ``"schema"."table"``, or ``"table"`` for ``main``: nothing else is searched."""
        return table_sql(table.name)

    def double(self, value: float) -> Sql:
        """Write the digits of Python's repr, with an exponent: without one it were a DECIMAL."""
        written = digits(float(value))
        return written if "e" in repr(float(value)) else sql("{}e0", written)

    def integer(self, value: int) -> Sql:
        """Write the digits: operands beside it have 64 bits."""
        return digits(value)

    # -- errors on rows -----------------------------------------------------------------------

    def copies(self, tree: exp.Expr) -> int:
        """Count those of all that makes texts."""
        found = [node for node in tree.walk() if type(node) in _MADE or _is_larger(node)]
        return _held(found, _copies(tree)) if found else 0

    def short(self, value: Sql, type_: SqlType, copies: int = COPIES_IN_EACH_ROW) -> Sql:
        """Compare its size: copies are held for two thousand rows at once."""
        if type_.is_nested or type_.kind in _OF_TEXTS:
            text = self.cast(value, VARCHAR)
        elif type_.kind in _TEXTS:
            text = value
        else:
            return value
        most = MOST_TEXT_BYTES * _COPIES // copies
        return sql("CASE WHEN strlen({}) <= {} THEN {} END", text, most, value)

    def expression(self, tree: exp.Expr, table: Table) -> Sql:
        """Write the tree as the parser read it, every name in quotes, and parts of dates called.

        The generator leaves out arguments that it does not know: of nodes that have no others than
        those that an expression may have, all are written.
        """
        kinds = set()
        for part in tree.walk():
            if not (is_row_node(part) or _is_try(part)):
                raise _not_written()
            kinds.add(type(part))
        if exp.Bracket in kinds:
            tree = _with_lists(tree, table)
        if not kinds.isdisjoint(_LARGER_THAN_TEXTS):
            tree = _limited(tree, table)
        if not kinds.isdisjoint(_PARTS_CALLED):
            called = [part for part in tree.walk() if type(part) in _PARTS_CALLED]
            tree = _parts_called(tree, called)
        generator = _GENERATOR.generator(
            comments=False, identify=True, unsupported_level=ErrorLevel.RAISE
        )
        try:
            return Sql(Written(generator.generate(tree, copy=False)))
        except UnsupportedError:
            pass
        # Raised outside the handler, so that its context quotes nothing.
        raise _not_written()

    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Write ``TRY(…)``, which turns an expression's failure on a row into NULL.

        That takes 28 µs a row. ``TRY_CAST`` takes none, so casts are written so where TRY would be
        NULL because one of them is.
        """
        return exp.Anonymous(this="TRY", expressions=[_with_null_casts(node, table)])

    def type_of(self, tree: exp.Expr, table: Table) -> SqlType:
        """Return none: the engine knows."""
        return UNKNOWN

    def try_cast(self, value: Sql, type_: SqlType, source: SqlType) -> Sql:
        """Write ``TRY_CAST``, which rounds to even."""
        return sql("TRY_CAST({} AS {})", value, type_.sql)

    def declared(self, value: object, type_: SqlType) -> Sql:
        """Write a cast of text, which is NULL where it does not fit."""
        return self.try_cast(literal(value), type_, VARCHAR)

    def comparison_family(self, type_: SqlType) -> str | None:
        """Name the family of texts, of machine integers and floats, or of a single type."""
        if type_.kind == "VARCHAR":
            return "text"
        # HUGEINT and DECIMAL are cast to a common decimal, which can overflow.
        if (type_.is_integer and not type_.is_huge_integer) or type_.is_float:
            return "number"
        return type_.text if type_.kind in _COMPARED_AS_THEY_ARE else None

    # -- integers -----------------------------------------------------------------------------

    def cast(self, value: Sql, type_: SqlType) -> Sql:
        """Write ``CAST``, which raises where a value does not fit."""
        return sql("CAST({} AS {})", value, type_.sql)

    def divided(self, dividend: Sql, divisor: Sql, *, wide: bool) -> Sql:
        """Write ``//``, which truncates integers of every width."""
        return sql("({} // {})", dividend, divisor)

    def sum(self, value: Sql, *, wide: bool, distinct: bool = False) -> Sql:
        """Write ``sum``, which is a HUGEINT for any integers."""
        return sql("sum(DISTINCT {})", value) if distinct else sql("sum({})", value)

    # -- floating point -----------------------------------------------------------------------

    is_nan = written_as("isnan({value})")  # NULL for NULL

    def quotient(self, value: Sql, quantum: float) -> Sql:
        """Write ``/``: a quotient that is too small is 0."""
        return sql("{} / {}", value, self.double(quantum))

    rounded = written_as("round({value})")  # halves away from zero

    root = written_as("CAST(floor(sqrt({value})) AS BIGINT)")  # a DOUBLE holds such integers

    divided_by_root = written_as("CAST(floor({dividend} / sqrt({value})) AS BIGINT)")  # of DOUBLEs

    # -- chance and order ---------------------------------------------------------------------

    def salted_hash(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Hash the hash of the salt and the columns.

        DuckDB's hash of several values is the exclusive or of hashes of each. Sorting by that would
        favour some keys, the same ones for all units and every salt; a hash of it does not.
        """
        return sql("hash(hash({}))", join(", ", [digits(salt), *columns]))

    def salted_bits(self, salt: int, columns: Sequence[Sql]) -> Sql:
        """Shift the hash, which is unsigned."""
        return self.cast(sql("{} >> 32", self.salted_hash(salt, columns)), BIGINT)

    def one_spelling(self, value: Sql, type_: SqlType) -> Sql:
        """Normalise floats and intervals; a schema has no columns with texts of a collation."""
        return one_spelling(value, type_)

    same = written_as("{one} IS NOT DISTINCT FROM {other}")  # a join on it is a hash join

    ascending = written_as("{value}")  # by the bytes of texts, NULLs last, NaN above all numbers

    def position(self, values: Sequence[Sql], value: Sql) -> Sql:
        """Write ``list_position``, which is NULL where the list does not hold the value."""
        return sql("list_position([{}], {})", join(", ", values), value)

    # -- rows ---------------------------------------------------------------------------------

    def numbers(self, count: int, alias: Sql, column: Sql) -> Sql:
        """Write a range from 1; its end is exclusive."""
        return sql("range(1, {}) AS {}({})", count + 1, alias, column)

    def semi_join(self, left: Sql, right: Sql, condition: Sql, *, negated: bool) -> Sql:
        """Write joins of the engine's own, after which more joins may follow."""
        word = sql("ANTI") if negated else sql("SEMI")
        return sql("{} {} JOIN {} ON ({})", left, word, right, condition)

    pairs = written_as("list([{one}, {other}])")

    # -- parameters ---------------------------------------------------------------------------

    def among_given(self, value: Sql, *, few: bool) -> Sql:
        """Give the list as one parameter, of type BIGINT[]."""
        if few:
            return sql("list_contains(?::BIGINT[], {})", value)
        return sql("{} IN (SELECT unnest(?::BIGINT[]))", value)


DUCKDB: Final = DuckDBDialect()


class _AsTyped(DuckDBDialect):
    """Writes expressions as they were typed, nothing caught: to be planned, never run over rows."""

    __slots__ = ()

    def try_(self, node: exp.Expr, table: Table) -> exp.Expr:
        """Leave an expression as it is."""
        return node

    def try_truth(self, node: exp.Expr) -> exp.Expr:
        """Leave a truth value to be cast by the engine."""
        return node


AS_TYPED: Final = _AsTyped()
"""Writes failing constants without TRY, so that DuckDB's plan shows them."""
