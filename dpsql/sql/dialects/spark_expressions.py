"""Checked expressions over private rows as Spark's SQL, value by value.

Nothing is passed through: every node of the tree has a rule of its own, by its type and those of
its operands, and what has none is refused. Every operation is written so that no row makes it
raise; where DuckDB would raise it is NULL, which is what TRY makes of it there. What an operation
computes was compared with DuckDB on edge values (:mod:`dpsql.engines.spark_survey`): one that is
not in that table, or computes something else, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import Table, base_type
from dpsql.core.sql import EMPTY_SQL, Sql, bare_word, join, literal, name, sql
from dpsql.engines.spark_evidence import spark_evidence
from dpsql.sql.dialects import spark_functions as functions
from dpsql.sql.dialects.spark_casts import cast_of
from dpsql.sql.dialects.spark_values import (
    NUMBERS,
    SPARK_NULL,
    SparkValue,
    common,
    refused_in_spark,
    widened,
    written_number,
)
from dpsql.sql.dialects.verdicts import verdict_type
from dpsql.sql.syntax.arguments import NodeArguments, Rules, reads, when_branches, word_of
from dpsql.sql.syntax.row_nodes import is_row_node

_MOST: Final = 50_000  # characters of an expression: rounding writes its argument several times
_Rule: TypeAlias = Callable[["Translator", exp.Expr], SparkValue]
_SIGN: Final[Mapping[str, Sql]] = {
    "=": sql("="),
    "<>": sql("<>"),
    ">": sql(">"),
    ">=": sql(">="),
    "<": sql("<"),
    "<=": sql("<="),
    "<=>": sql("<=>"),
}
_INTERVAL: Final = NodeArguments("this unit")
_KINDS: Final = frozenset({*NUMBERS, "BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"})
_READ_AS: Final = {"TINYINT": "INTEGER", "SMALLINT": "INTEGER", "FLOAT": "DOUBLE"}
_CASTS: Final = {
    exp.DType.BIGINT: "BIGINT",
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.DATE: "DATE",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.INT: "INTEGER",
    exp.DType.TEXT: "VARCHAR",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
    exp.DType.VARCHAR: "VARCHAR",
}


def translated(tree: exp.Expr, table: Table) -> SparkValue:
    """Write an expression over a table's columns. Raises ``QueryRefused`` for what has no rule."""
    return Translator(table, spark_evidence().verdicts).value(tree)


class Translator:
    """Writes expressions over the columns of one table.

    ``verdicts`` say which operations compute what DuckDB does; None allows all that have a rule,
    to find out.
    """

    def __init__(self, table: Table, verdicts: Mapping[str, str] | None) -> None:
        self._table = table
        self._verdicts = verdicts

    def value(self, node: exp.Expr) -> SparkValue:
        """Write a node and all below it."""
        rule = _RULES.of(node)
        if rule is None:
            form = "this form of " if type(node) in _RULES else ""
            raise refused_in_spark(f"{form}{type(node).__name__.lower()} is not available")
        made = rule(self, node)
        if made.sql.size > _MOST:
            raise refused_in_spark(
                "the expression is too large", "Compute some of it in a subquery."
            )
        return made

    def values(self, nodes: Sequence[exp.Expr]) -> list[SparkValue]:
        """Write several nodes."""
        return [self.value(node) for node in nodes]

    def column(self, node: exp.Expr) -> SparkValue:
        """Write a column."""
        found = self._table.column(node.name) if is_row_node(node.this) else None
        kind = "" if found is None else base_type(found.type)
        kind = _READ_AS.get(kind, kind)
        if found is None or kind not in _KINDS:
            shown = "unknown" if found is None else found.type
            raise refused_in_spark(f"a column of type {shown} cannot be computed with")
        return SparkValue(name(found.name), found.type if kind == "DECIMAL" else kind)

    def known(self, operation: str, *operands: SparkValue | str) -> None:
        """Refuse an operation unless it is known to compute what DuckDB does."""
        if self._verdicts is None:
            return
        kinds = (verdict_type(x if isinstance(x, str) else x.type) for x in operands)
        call = f"{operation}({', '.join(kinds)})"
        verdict = self._verdicts.get(call)
        if verdict is None or verdict.startswith("differs"):
            reason = "is not known to compute" if verdict is None else "does not compute"
            raise refused_in_spark(f"{call} {reason} what it does elsewhere")


# -- leaves ---------------------------------------------------------------------------------------


def _column(at: Translator, node: exp.Expr) -> SparkValue:
    return at.column(node)


def _literal(at: Translator, node: exp.Expr) -> SparkValue:
    if node.args.get("is_string"):
        return SparkValue(literal(node.this), "VARCHAR", constant=str(node.this))
    return written_number(str(node.this))


def _boolean(at: Translator, node: exp.Expr) -> SparkValue:
    return SparkValue(sql("TRUE") if node.this else sql("FALSE"), "BOOLEAN")


def _null(at: Translator, node: exp.Expr) -> SparkValue:
    return SparkValue(sql("NULL"), SPARK_NULL)


def _paren(at: Translator, node: exp.Expr) -> SparkValue:
    return at.value(node.this)


def _tried(at: Translator, node: exp.Expr) -> SparkValue:
    """Write what stands inside TRY: there is nothing in it that raises."""
    if node.name != "TRY" or len(node.expressions) != 1:
        raise refused_in_spark(f"the function {node.name} is not available")
    return at.value(node.expressions[0])


# -- logic ----------------------------------------------------------------------------------------


def _truth(value: SparkValue) -> SparkValue:
    if value.kind not in ("BOOLEAN", SPARK_NULL):
        raise refused_in_spark(f"a value of type {value.type} is no truth value")
    return value


def _connective(word: str) -> _Rule:
    def rule(at: Translator, node: exp.Expr) -> SparkValue:
        one, other = map(_truth, at.values((node.this, node.expression)))
        text = sql("({} {} {})", one.sql, bare_word(word), other.sql)
        return SparkValue(text, "BOOLEAN", one.fails or other.fails)

    return rule


def _not(at: Translator, node: exp.Expr) -> SparkValue:
    value = _truth(at.value(node.this))
    return SparkValue(sql("(NOT {})", value.sql), "BOOLEAN", value.fails)


def _is(at: Translator, node: exp.Expr) -> SparkValue:
    value = at.value(node.this)
    if isinstance(node.expression, exp.Null):
        return SparkValue(sql("({} IS NULL)", value.sql), "BOOLEAN")
    if not isinstance(node.expression, exp.Boolean):
        raise refused_in_spark("IS stands before NULL, TRUE and FALSE alone")
    word = at.value(node.expression).sql
    return SparkValue(sql("({} <=> {})", _truth(value).sql, word), "BOOLEAN")


def _comparison(sign: str) -> _Rule:
    def rule(at: Translator, node: exp.Expr) -> SparkValue:
        return compared(at, sign, *at.values((node.this, node.expression)))

    return rule


def compared(at: Translator, sign: str, *values: SparkValue) -> SparkValue:
    """Compare two values as ones of a common type."""
    at.known("compare", *[value for value in values if value.kind != SPARK_NULL])
    type_ = common(list(values))
    one, other = (value if value.kind == SPARK_NULL else widened(value, type_) for value in values)
    text = sql("({} {} {})", one.sql, _SIGN[sign], other.sql)
    # A comparison that fails is NULL; of values that failed, <=> is none.
    return SparkValue(text, "BOOLEAN", one.fails or other.fails)


def _null_safe(*, negated: bool) -> _Rule:
    def rule(at: Translator, node: exp.Expr) -> SparkValue:
        values = at.values((node.this, node.expression))
        strict(values)
        same = compared(at, "<=>", *values)
        return SparkValue(sql("(NOT {})", same.sql) if negated else same.sql, "BOOLEAN")

    return rule


def _between(at: Translator, node: exp.Expr) -> SparkValue:
    value, low, high = at.values((node.this, node.args["low"], node.args["high"]))
    above, below = compared(at, ">=", value, low), compared(at, "<=", value, high)
    return SparkValue(
        sql("({} AND {})", above.sql, below.sql), "BOOLEAN", above.fails or below.fails
    )


def _in(at: Translator, node: exp.Expr) -> SparkValue:
    value, *items = at.values((node.this, *node.expressions))
    texts = [compared(at, "=", value, item) for item in items]
    listed = join(" OR ", (text.sql for text in texts))
    return SparkValue(sql("({})", listed), "BOOLEAN", any(text.fails for text in texts))


def _case(at: Translator, node: exp.Expr) -> SparkValue:
    subject = None if node.this is None else at.value(node.this)
    tests = []
    branches = when_branches(node)
    for branch in branches:
        test = at.value(branch.this)
        tests.append(_truth(test) if subject is None else compared(at, "=", subject, test))
    values = [branch.args["true"] for branch in branches]
    return _cases(at, tests, values, node.args.get("default"))


def _if(at: Translator, node: exp.Expr) -> SparkValue:
    return _cases(at, [_truth(at.value(node.this))], [node.args["true"]], node.args.get("false"))


def _cases(
    at: Translator, tests: list[SparkValue], branches: list[exp.Expr], default: exp.Expr | None
) -> SparkValue:
    values = at.values([*branches, *([] if default is None else [default])])
    type_, values = alike_in_spark(at, values)
    whens = join(
        "",
        (
            sql(" WHEN {} THEN {}", test.sql, value.sql)
            for test, value in zip(tests, values, strict=False)
        ),
    )
    last = EMPTY_SQL if default is None else sql(" ELSE {}", values[-1].sql)
    return SparkValue(sql("CASE{}{} END", whens, last), type_)


def _coalesce(at: Translator, node: exp.Expr) -> SparkValue:
    type_, values = alike_in_spark(at, at.values((node.this, *node.expressions)))
    return SparkValue(sql("coalesce({})", join(", ", (value.sql for value in values))), type_)


def alike_in_spark(at: Translator, values: list[SparkValue]) -> tuple[str, list[SparkValue]]:
    """Make values of one type of several: where each may stand for another."""
    type_ = common(values)
    for value in values:
        if value.type not in (type_, SPARK_NULL):
            at.known("cast", value, type_)
    return type_, [value if value.kind == SPARK_NULL else widened(value, type_) for value in values]


# -- casts ----------------------------------------------------------------------------------------


def _cast(at: Translator, node: exp.Expr) -> SparkValue:
    value, type_ = at.value(node.this), cast_type(node.args["to"])
    if value.type == type_:
        return value
    if value.kind != SPARK_NULL:
        at.known("cast", value, type_)
    return SparkValue(cast_of(value, type_), type_, fails=True)


def cast_type(to: exp.DataType) -> str:
    """Name the type of the schema that a cast goes to. Raises ``QueryRefused`` for others."""
    if not all(map(is_row_node, to.walk())):
        raise refused_in_spark("this cast is not available")
    if to.this is exp.DType.DECIMAL:
        digits = [parameter.name for parameter in to.expressions]
        if not all(text.isdigit() for text in digits):
            raise refused_in_spark("this cast is not available")
        width, scale = [*digits, "0"][:2] if digits else ("18", "3")
        return f"DECIMAL({int(width)},{int(scale)})"
    found = _CASTS.get(to.this)
    if found is None or to.expressions:
        raise refused_in_spark(f"casts to {to.sql('duckdb')} are not available")
    return found


# -- what rules share -----------------------------------------------------------------------------


def strict(values: Sequence[SparkValue]) -> None:
    """Refuse operands that can fail, where NULL does not make the result NULL.

    TRY makes NULL of the whole, and here only the operand would be.
    """
    if any(value.fails for value in values):
        raise refused_in_spark(
            "a value that can overflow, or fail otherwise, cannot stand here",
            "Say what it is then: COALESCE(…, 0), or compute it in a subquery.",
        )


def _function(rule: functions.Rule) -> _Rule:
    """Make a rule of a function of values: what it is called, and of which parts of a node."""

    def made(at: Translator, node: exp.Expr) -> SparkValue:
        nodes: list[exp.Expr] = []
        units: list[str] = []
        for part in rule.parts:
            found = node.args.get(part)
            if part == rule.word:
                units.append((word_of(found) or "").upper())
            else:
                nodes += found if isinstance(found, list) else [found] if found is not None else []
        values = [
            _interval(each) if isinstance(each, exp.Interval) else at.value(each) for each in nodes
        ]
        if rule.swallows:
            strict(values)
        call = rule.make(node, values, units)
        at.known(call.name, *call.operands)
        return call.value

    return made


def _interval(node: exp.Interval) -> SparkValue:
    """Read a constant interval of one unit; it has the kind INTERVAL, which nothing else has."""
    count, unit = node.this, word_of(node.args.get("unit"))
    plain = isinstance(count, exp.Literal) and is_row_node(count) and _INTERVAL.hold(node)
    text = str(count.this) if plain else ""
    if unit is None or not text.isdigit() or len(text) > 5:
        raise refused_in_spark("an interval is a constant number of one unit: INTERVAL 7 DAY")
    return SparkValue(literal(text), "INTERVAL", constant=unit.upper().removesuffix("S"))


_RULES: Final[Rules[_Rule]] = Rules(
    {
        exp.Column: reads("this", _column),  # names were resolved to one word before
        exp.Literal: reads("this is_string", _literal),
        exp.Boolean: reads("this", _boolean),
        exp.Null: reads("", _null),
        exp.Paren: reads("this", _paren),
        exp.Anonymous: reads("this expressions", _tried),
        exp.And: reads("this expression", _connective("AND")),
        exp.Or: reads("this expression", _connective("OR")),
        exp.Not: reads("this", _not),
        exp.Is: reads("this expression", _is),
        exp.EQ: reads("this expression", _comparison("=")),
        exp.NEQ: reads("this expression", _comparison("<>")),
        exp.GT: reads("this expression", _comparison(">")),
        exp.GTE: reads("this expression", _comparison(">=")),
        exp.LT: reads("this expression", _comparison("<")),
        exp.LTE: reads("this expression", _comparison("<=")),
        exp.NullSafeEQ: reads("this expression", _null_safe(negated=False)),
        exp.NullSafeNEQ: reads("this expression", _null_safe(negated=True)),
        exp.Between: reads("this low high", _between),
        exp.In: reads("this expressions", _in),
        exp.Case: reads("this ifs default", _case),
        exp.If: reads("this true false", _if),
        exp.Coalesce: reads("this expressions", _coalesce),
        exp.Cast: reads("this to safe?", _cast),
        exp.TryCast: reads("this to safe?", _cast),
        **{node: reads(r.arguments, _function(r)) for node, r in functions.RULES.items()},
    }
)
