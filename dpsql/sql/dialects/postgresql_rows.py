"""Expressions over one row as PostgreSQL computes them, without a way to fail.

PostgreSQL has no TRY: what cannot be computed ends the statement. So every operation is written
with a guard of its own, and means what DuckDB means by it inside TRY: NULL where that fails. Types
are those that DuckDB gives the same expression. Nothing is taken for granted: each operation on its
types has a name, as ``+(INTEGER, INTEGER)``, and is written only if the table of verdicts
(:mod:`dpsql.sql.dialects.verdicts`) has found it to be the same on rows of edge values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Table, base_type
from dpsql.core.sql import EMPTY_SQL, Sql, bare_word, digits, join, literal, name, number, sql
from dpsql.engines.postgresql_reading import within_years
from dpsql.errors import QueryRefused
from dpsql.sql.dialects import postgresql_types as pg
from dpsql.sql.dialects.postgresql_types import PgValue, once
from dpsql.sql.dialects.verdicts import Verdicts, verdict_type
from dpsql.sql.syntax.arguments import (
    NodeArguments,
    Rules,
    extracted_part,
    grouped_rules,
    when_branches,
    word_of,
)
from dpsql.sql.syntax.row_nodes import is_row_node
from dpsql.sql.syntax.text import to_sql

_YEARS: Final = 4000  # that may be added to a date, so that the server can hold the result
_DAYS: Final = 1_400_000
_LONGEST_TEXT: Final = 2**27  # bytes of what texts are joined to; the server's limit is 2^30
_COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_PARTS: Final[dict[type[exp.Expr], str]] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfYear: "doy",
    exp.DayOfWeek: "dow",
    exp.DayOfWeekIso: "isodow",
    exp.Week: "week",
    exp.WeekOfYear: "week",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_EXTRACTED: Final = {
    **{name: name for name in _PARTS.values()},
    "dayofmonth": "day",
    "dayofyear": "doy",
    "dayofweek": "dow",
    "isodow": "isodow",
    "weekofyear": "week",
}
_TRUNCATED: Final = frozenset(
    {"year", "quarter", "month", "week", "day", "hour", "minute", "second"}
)
_INTERVAL: Final = NodeArguments("this unit")
_COUNT: Final = re.compile(r"-?[0-9]{1,9}")
_UNITS: Final = {"year": 12, "quarter": 3, "month": 1}
_MICROSECONDS: Final = {"week": 7 * 86_400, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}


class RowExpressions:
    """Writes checked expressions over the columns of a table. Raises ``QueryRefused``.

    Without ``verdicts`` everything that can be written is: for the survey, which collects the names
    of ``calls`` in the order in which they are met.
    """

    def __init__(self, table: Table, verdicts: Verdicts | None) -> None:
        self._table = table
        self._verdicts = verdicts
        self.calls: list[tuple[str, bool]] = []

    def value(self, node: exp.Expr) -> PgValue:
        """Write an expression, with the type that it has."""
        written = _RULES.of(node)
        if written is None:
            why = "this form of it" if type(node) in _RULES else "it"
            raise _refused(_called(node), f"{why} has no equal there that never fails")
        return written(self, node)

    def values(self, *nodes: exp.Expr) -> list[PgValue]:
        """Write several expressions."""
        return [self.value(node) for node in nodes]

    def settled(self, node: exp.Expr) -> PgValue:
        """Write an expression that stands for itself, so that the type of a constant is settled."""
        found = self.value(node)
        return replace(found, constant=None)

    def called(self, name: str, *types: str, plain: bool = False) -> None:
        """Record that an operation on types is needed, or refuse it."""
        call = f"{name}({', '.join(map(verdict_type, types))})"
        self.calls.append((call, plain))
        if self._verdicts is not None:
            objection = self._verdicts.objection(call)
            if objection is not None:
                raise _refused(call, objection)

    # -- leaves -------------------------------------------------------------------------------

    def column(self, node: exp.Expr) -> PgValue:
        found = self._table.column(node.name) if is_row_node(node.this) else None
        if found is None or pg.sql_type(found.type) is None:
            type_ = "" if found is None else f" of type {base_type(found.type)}"
            raise _refused(f"a value{type_}", "nothing is computed of these there")
        return PgValue(name(found.name), found.type)

    def literal(self, node: exp.Expr) -> PgValue:
        text = node.name
        if node.is_string:
            if "\0" in text:
                raise _refused("a text with a zero byte", "no text has one")
            return PgValue(pg.text_literal(text), "VARCHAR", text)
        return _number(text)

    def boolean(self, node: exp.Expr) -> PgValue:
        return PgValue(sql("TRUE") if node.this else sql("FALSE"), "BOOLEAN")

    def null(self, node: exp.Expr) -> PgValue:
        return PgValue(sql("NULL"), pg.UNTYPED)

    def paren(self, node: exp.Expr) -> PgValue:
        return self.value(node.this)

    # -- logic --------------------------------------------------------------------------------

    def truth(self, node: exp.Expr) -> PgValue:
        """Write a truth value."""
        found = self.value(node)
        if found.kind not in ("BOOLEAN", pg.UNTYPED):
            raise _refused(f"{found.kind} as a condition", "a condition is TRUE or FALSE there")
        if found.kind == pg.UNTYPED:
            return PgValue(sql("CAST(NULL AS BOOLEAN)"), "BOOLEAN")
        return found

    def connective(self, node: exp.Expr) -> PgValue:
        word = "AND" if isinstance(node, exp.And) else "OR"
        self.called(word.lower(), plain=True)
        one, two = self.truth(node.this), self.truth(node.expression)
        return _made(sql("({} {} {})", one.sql, bare_word(word), two.sql), "BOOLEAN", one, two)

    def negation(self, node: exp.Expr) -> PgValue:
        self.called("not", plain=True)
        found = self.truth(node.this)
        return _made(sql("(NOT {})", found.sql), "BOOLEAN", found)

    def is_(self, node: exp.Expr) -> PgValue:
        """Write IS: before it stands what TRY has made NULL where it fails."""
        if isinstance(node.expression, exp.Null):
            self.called("is null", plain=True)
            return PgValue(sql("({} IS NULL)", self.value(node.this).sql), "BOOLEAN")
        if not isinstance(node.expression, exp.Boolean):
            raise _refused("is", "it stands before NULL, TRUE and FALSE alone")
        self.called("is", "BOOLEAN", plain=True)
        word = self.value(node.expression).sql
        return PgValue(sql("({} IS {})", self.truth(node.this).sql, word), "BOOLEAN")

    def comparison(self, node: exp.Expr) -> PgValue:
        return self._compared(_COMPARISONS[type(node)], self.value(node.this), node.expression)

    def _compared(self, sign: str, left: PgValue, other: exp.Expr) -> PgValue:
        one, two = self._alike(sign, [left, self.value(other)])
        self.called(sign, one.type, one.type, plain=True)
        return _made(sql("({} {} {})", one.sql, _SIGN[sign], two.sql), "BOOLEAN", one, two)

    def null_safe(self, node: exp.Expr) -> PgValue:
        given = _strict(self.values(node.this, node.expression))
        one, two = self._alike("=", given)
        self.called("=", one.type, one.type, plain=True)
        if isinstance(node, exp.NullSafeNEQ):
            return PgValue(sql("({} IS DISTINCT FROM {})", one.sql, two.sql), "BOOLEAN")
        return PgValue(sql("({} IS NOT DISTINCT FROM {})", one.sql, two.sql), "BOOLEAN")

    def between(self, node: exp.Expr) -> PgValue:
        given = self.values(node.this, node.args["low"], node.args["high"])
        value, least, most = self._alike(">=", given)
        self.called(">=", value.type, value.type, plain=True)
        self.called("<=", value.type, value.type, plain=True)
        text = sql("({} BETWEEN {} AND {})", value.sql, least.sql, most.sql)
        return _made(text, "BOOLEAN", value, least, most)

    def among(self, node: exp.Expr) -> PgValue:
        value, *items = self._alike("=", self.values(node.this, *node.expressions))
        self.called("=", value.type, value.type, plain=True)
        text = sql("({} IN ({}))", value.sql, join(", ", (item.sql for item in items)))
        return _made(text, "BOOLEAN", value, *items)

    # -- choices: each part is one that TRY has made NULL where it fails ------------------------

    def case(self, node: exp.Expr) -> PgValue:
        branches = [(branch.this, branch.args["true"]) for branch in when_branches(node)]
        return self._cases(node.this, branches, node.args.get("default"))

    def if_(self, node: exp.Expr) -> PgValue:
        return self._cases(None, [(node.this, node.args["true"])], node.args.get("false"))

    def _cases(
        self,
        subject: exp.Expr | None,
        branches: Sequence[tuple[exp.Expr, exp.Expr]],
        default: exp.Expr | None,
    ) -> PgValue:
        tests = [
            self.truth(test).sql
            if subject is None
            else self._compared("=", self.value(subject), test).sql
            for test, _ in branches
        ]
        given = [value for _, value in branches] + ([] if default is None else [default])
        values = self._alike("case", self.values(*given))
        self.called("case", values[0].type, plain=True)
        whens = join(
            " ",
            (
                sql("WHEN {} THEN {}", test, value.sql)
                for test, value in zip(tests, values, strict=False)
            ),
        )
        end = EMPTY_SQL if default is None else sql(" ELSE {}", values[-1].sql)
        return PgValue(sql("(CASE {}{} END)", whens, end), values[0].type)

    def coalesce(self, node: exp.Expr) -> PgValue:
        values = self._alike("coalesce", self.values(node.this, *node.expressions))
        self.called("coalesce", values[0].type, plain=True)
        return PgValue(sql("coalesce({})", _all(values)), values[0].type)

    def nullif(self, node: exp.Expr) -> PgValue:
        first = self.settled(node.this)
        given = self.values(node.this, node.expression)
        _strict(given[1:])
        one, two = self._alike("nullif", given)
        if one.type != first.type:
            raise _refused(f"nullif({first.kind}, {two.kind})", "the two are of different types")
        self.called("nullif", one.type, plain=True)
        return _made(sql("NULLIF({}, {})", one.sql, two.sql), one.type, one)

    def extreme(self, node: exp.Expr) -> PgValue:
        word = "least" if isinstance(node, exp.Least) else "greatest"
        given = _strict(self.values(node.this, *node.expressions))
        values = self._alike(word, given)
        self.called(word, values[0].type, plain=True)
        return PgValue(sql("{}({})", bare_word(word), _all(values)), values[0].type)

    def _alike(self, what: str, values: Sequence[PgValue]) -> list[PgValue]:
        """Give values one type, as DuckDB would; casts that could fail on a row are refused."""
        target = _common([value for value in values if not value.is_literal])
        if target is None:
            raise _refused(f"{what}({_list(values)})", "its values are of different types")
        target = _with_literals(target, [value for value in values if value.is_literal])
        if target is None:
            raise _refused(f"{what}({_list(values)})", "its values are of different types")
        return [self._as(what, value, target, values) for value in values]

    # -- numbers ------------------------------------------------------------------------------

    def arithmetic(self, node: exp.Expr) -> PgValue:
        sign = _SIGNS[type(node)]
        left, right = self.value(node.this), node.expression
        if isinstance(right, exp.Interval):
            return self._moved(sign, left, right)
        one, two = left, self.value(right)
        if one.kind in pg.MOMENTS or two.kind in pg.MOMENTS:
            return self._of_dates(sign, one, two)
        kinds = {value.kind for value in (one, two)} - {pg.UNTYPED}
        if "DOUBLE" in kinds or (sign == "/" and kinds <= {*pg.INTEGERS, "DECIMAL"}):
            one, two = (self._as(sign, value, "DOUBLE") for value in (one, two))
            return self._doubles(sign, one, two)
        if kinds <= set(pg.INTEGERS) and kinds:
            one, two = self._alike(sign, [one, two])
            return self._integers(sign, one, two)
        if kinds <= {*pg.INTEGERS, "DECIMAL"} and kinds:
            return self._decimals(sign, one, two)
        raise _refused(f"{sign}({_list([one, two])})", "it is not computed there on these types")

    def _as(self, what: str, value: PgValue, type_: str, beside: Sequence[PgValue] = ()) -> PgValue:
        """Widen a value to a type, as far as that cannot fail on any row."""
        found = _converted(value, type_)
        if found is None:
            why = "its values are of different types" if beside else "it is not computed there"
            raise _refused(f"{what}({_list(beside or [value])})", why)
        if not value.is_literal and value.type not in (type_, pg.UNTYPED):
            self.called(f"CAST AS {verdict_type(type_)}", value.type)
        return found

    def _integers(self, sign: str, one: PgValue, two: PgValue) -> PgValue:
        type_ = _wider_integer(one, two)
        self.called(sign, type_, type_)
        wide = "NUMERIC" if type_ == "BIGINT" else "BIGINT"
        left, right = sql("CAST({} AS {})", one.sql, bare_word(wide)), two.sql
        if sign in ("+", "-", "*"):
            plain = sql("({} {} {})", left, _SIGN[sign], right)
            return PgValue(pg.clamped_or_null(plain, type_), type_, fails=True)
        if sign == "//":
            quotient = sql("({} / NULLIF({}, 0))", left, right)
            if wide == "NUMERIC":
                quotient = sql("div({}, NULLIF({}, 0))", left, right)
            return PgValue(pg.clamped_or_null(quotient, type_), type_, fails=True)
        least = digits(pg.ends(type_)[0])
        if sign == "%":  # where the quotient does not fit, DuckDB fails

            def rest(divisor: Sql) -> Sql:
                some = sql("NULLIF({}, 0)", divisor)
                plain = pg.clamped_or_null(sql("({} % {})", left, some), type_)
                fits = sql("{} <> -1 OR {} > {}", divisor, one.sql, least)
                return sql("CASE WHEN {} THEN {} END", fits, plain)

            return PgValue(once(right, rest), type_, fails=True)
        raise _refused(f"{sign}({type_}, {type_})", "it is not computed there on these types")

    def _decimals(self, sign: str, one: PgValue, two: PgValue) -> PgValue:
        type_ = _decimal_result(sign, _as_decimal(one), _as_decimal(two))
        if type_ is None:
            raise _refused(f"{sign}({_list([one, two])})", "its result has too many digits")
        self.called(sign, _decimal(one), _decimal(two))
        left, right = (_operand(sign, value, type_) for value in (one, two))
        plain = sql("({} {} {})", left, _SIGN[sign], right)
        return PgValue(pg.decimal_or_null(plain, type_), type_, fails=True)

    def _doubles(self, sign: str, one: PgValue, two: PgValue) -> PgValue:
        self.called(sign, "DOUBLE", "DOUBLE")
        written = _DOUBLES.get(sign)
        if written is None:
            raise _refused(f"{sign}(DOUBLE, DOUBLE)", "it has no equal there")
        text = once(one.sql, lambda a: once(two.sql, lambda b: written(a, b)))
        return _made(text, "DOUBLE", one, two)

    def negative(self, node: exp.Expr) -> PgValue:
        found = self.value(node.this)
        if found.is_literal and isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _number(f"-{node.this.name}")
        if found.kind in pg.INTEGERS:
            self.called("-", found.type)
            wide = "NUMERIC" if found.kind == "BIGINT" else "BIGINT"
            plain = sql("(- CAST({} AS {}))", found.sql, bare_word(wide))
            value = pg.clamped_or_null(plain, found.type)
            return PgValue(value, found.type, fails=True)
        if found.kind in ("DOUBLE", "DECIMAL"):
            self.called("-", found.type, plain=True)
            return _made(sql("(- {})", found.sql), found.type, found)
        raise _refused(f"-({found.kind})", "it is not computed there on this type")

    def absolute(self, node: exp.Expr) -> PgValue:
        found = self.settled(node.this)
        if found.kind in pg.INTEGERS:
            self.called("abs", found.type)
            wide = "NUMERIC" if found.kind == "BIGINT" else "BIGINT"
            plain = sql("abs(CAST({} AS {}))", found.sql, bare_word(wide))
            value = pg.clamped_or_null(plain, found.type)
            return PgValue(value, found.type, fails=True)
        if found.kind in ("DOUBLE", "DECIMAL"):
            self.called("abs", found.type, plain=True)
            return _made(sql("abs({})", found.sql), found.type, found)
        raise _refused(f"abs({found.kind})", "it is not computed there on this type")

    def sign(self, node: exp.Expr) -> PgValue:
        found = self.settled(node.this)
        if found.kind not in (*pg.INTEGERS, "DOUBLE", "DECIMAL"):
            raise _refused(f"sign({found.kind})", "it is not computed there on this type")
        self.called("sign", found.type)
        zero = once(
            found.sql,
            lambda v: sql(
                "CASE WHEN {none} THEN 0 WHEN {v} > 0 THEN 1 WHEN {v} < 0 THEN -1 "
                "WHEN {v} = 0 THEN 0 END",
                none=_nan(v, found),
                v=v,
            ),
        )
        return _made(sql("CAST({} AS SMALLINT)", zero), "TINYINT", found)

    def whole(self, node: exp.Expr) -> PgValue:
        """Write floor, ceil, trunc, and round without digits."""
        word = _WHOLE[type(node)]
        found = self.settled(node.this)
        digits = node.args.get("decimals")
        if digits is not None:
            return self._rounded_to(word, found, digits)
        if found.kind in pg.INTEGERS and word == "round":
            self.called("round", found.type, plain=True)
            return found
        if found.kind in pg.INTEGERS and word in ("floor", "ceil"):
            self.called(word, found.type)
            return _made(pg.cast_to(found.sql, "DOUBLE"), "DOUBLE", found)
        if found.kind == "DOUBLE":
            self.called(word, "DOUBLE", plain=word != "round")
            plain = sql("{}({})", bare_word(word), found.sql)
            text = pg.half_away(found.sql) if word == "round" else plain
            return _made(text, "DOUBLE", found)
        if found.kind == "DECIMAL":
            self.called(word, found.type)
            width, _ = pg.width_and_scale(found.type)
            type_ = f"DECIMAL({width},0)"
            plain = sql("{}({})", bare_word(word), found.sql)
            return PgValue(pg.decimal_or_null(plain, type_), type_, fails=True)
        raise _refused(f"{word}({found.kind})", "it is not computed there on this type")

    def _rounded_to(self, word: str, found: PgValue, digits: exp.Expr) -> PgValue:
        places = self.value(digits).constant
        if found.kind != "DECIMAL" or word != "round" or not isinstance(places, int):
            raise _refused(f"{word}({found.kind}, …)", "digits are told of decimals alone there")
        width, scale = pg.width_and_scale(found.type)
        if not 0 <= places < scale:
            raise _refused("round", f"a value with {scale} digits cannot be rounded to {places}")
        self.called("round", found.type, "CONSTANT")
        type_ = f"DECIMAL({width},{places})"
        text = pg.decimal_or_null(sql("round({}, {})", found.sql, places), type_)
        return PgValue(text, type_, fails=True)

    def of_double(self, node: exp.Expr) -> PgValue:
        """Write a function of one double."""
        word = _OF_DOUBLE[type(node)]
        found = self._as(word, self.settled(node.this), "DOUBLE")
        self.called(word, "DOUBLE")
        return _made(once(found.sql, _GUARDED[word]), "DOUBLE", found)

    def logarithm(self, node: exp.Expr) -> PgValue:
        if node.args.get("expression") is not None:
            raise _refused("log with a base", "it has no equal there")
        found = self._as("log", self.settled(node.this), "DOUBLE")
        self.called("log", "DOUBLE")
        return _made(once(found.sql, _GUARDED["log"]), "DOUBLE", found)

    def is_nan(self, node: exp.Expr) -> PgValue:
        found = self.settled(node.this)
        if found.kind != "DOUBLE":
            raise _refused(f"isnan({found.kind})", "it is not computed there on this type")
        self.called("isnan", "DOUBLE")
        return _made(sql("({} = {})", found.sql, pg.NAN), "BOOLEAN", found)

    def cast(self, node: exp.Expr) -> PgValue:
        found = self.value(node.this)
        type_ = target_type(node)
        if found.is_literal and pg.sql_type(type_) is not None:
            written = self._cast_constant(found, type_)
            if written is not None:
                return written
        made = pg.cast(replace(found, constant=None), type_)
        if made is None:
            raise _refused(f"CAST({found.kind} AS {base_type(type_)})", "it has no equal there")
        self.called(f"CAST AS {verdict_type(type_)}", found.type)
        return made

    def _cast_constant(self, found: PgValue, type_: str) -> PgValue | None:
        try:
            text = pg.constant(found.constant, type_)
        except KeyError:
            return None
        return PgValue(text or pg.cast_to(sql("NULL"), type_), type_)

    # -- texts --------------------------------------------------------------------------------

    def _text(self, what: str, node: exp.Expr) -> PgValue:
        found = self.value(node)
        if found.kind not in ("VARCHAR", pg.UNTYPED):
            raise _refused(f"{what}({found.kind})", "it is computed there of texts alone")
        return found

    def length(self, node: exp.Expr) -> PgValue:
        found = self._text("length", node.this)
        self.called("length", "VARCHAR")
        return _made(sql("CAST(char_length({}) AS BIGINT)", found.sql), "BIGINT", found)

    def substring(self, node: exp.Expr) -> PgValue:
        found = self._text("substr", node.this)
        first = self._whole_number("substr", node.args.get("start"), 1)
        self.called("substr", "VARCHAR", "CONSTANT", plain=True)
        if node.args.get("length") is None:
            return _made(sql("substr({}, {})", found.sql, first), "VARCHAR", found)
        size = self._whole_number("substr", node.args["length"], 0)
        return _made(sql("substr({}, {}, {})", found.sql, first, size), "VARCHAR", found)

    def side(self, node: exp.Expr) -> PgValue:
        word = "left" if isinstance(node, exp.Left) else "right"
        found = self._text(word, node.this)
        size = self._whole_number(word, node.expression, 0)
        self.called(word, "VARCHAR", "CONSTANT", plain=True)
        return _made(sql("{}({}, {})", bare_word(word), found.sql, size), "VARCHAR", found)

    def _whole_number(self, what: str, node: exp.Expr | None, least: int) -> int:
        value = None if node is None else self.value(node).constant
        if not isinstance(value, int) or not least <= value < 2**31 - 2**20:
            raise _refused(what, f"places and lengths are constants from {least} on there")
        return value

    def trim(self, node: exp.Expr) -> PgValue:
        found = self._text("trim", node.this)
        self.called("trim", "VARCHAR")
        return _made(sql("btrim({}, ' ')", found.sql), "VARCHAR", found)

    def like(self, node: exp.Expr) -> PgValue:
        found, pattern = self._text("like", node.this), self._text("like", node.expression)
        self.called("like", "VARCHAR", "VARCHAR")
        text = sql("({} LIKE {} ESCAPE '')", found.sql, pattern.sql)
        if node.args.get("negate"):
            text = sql("({} NOT LIKE {} ESCAPE '')", found.sql, pattern.sql)
        return _made(text, "BOOLEAN", found, pattern)

    def contains(self, node: exp.Expr) -> PgValue:
        found, part = self._text("contains", node.this), self._text("contains", node.expression)
        self.called("contains", "VARCHAR", "VARCHAR")
        return _made(sql("(strpos({}, {}) > 0)", found.sql, part.sql), "BOOLEAN", found, part)

    def starts_with(self, node: exp.Expr) -> PgValue:
        found, part = (self._text("starts_with", n) for n in (node.this, node.expression))
        self.called("starts_with", "VARCHAR", "VARCHAR", plain=True)
        return _made(sql("starts_with({}, {})", found.sql, part.sql), "BOOLEAN", found, part)

    def joined(self, node: exp.Expr) -> PgValue:
        """Write ``||``, which is NULL if either is."""
        one, two = (self._as_text("||", n) for n in (node.this, node.expression))
        self.called("||", "VARCHAR", "VARCHAR")
        return _made(_joined_once(one.sql, two.sql), "VARCHAR", one, two)

    def concat(self, node: exp.Expr) -> PgValue:
        """Write concat, which passes over NULL."""
        texts = _strict([self._as_text("concat", n) for n in node.expressions])
        parts = [sql("coalesce({}, '')", text.sql) for text in texts]
        self.called("concat", "VARCHAR", "...")
        whole = parts[0]
        for part in parts[1:]:
            whole = _joined_once(whole, part)
        return PgValue(whole, "VARCHAR")

    def _as_text(self, what: str, node: exp.Expr) -> PgValue:
        found = self.value(node)
        if found.kind in ("VARCHAR", pg.UNTYPED):
            return found
        made = pg.cast(replace(found, constant=None), "VARCHAR")
        if made is None:
            raise _refused(f"{what}({found.kind})", "it is computed there of texts alone")
        self.called("CAST AS VARCHAR", found.type)
        return made

    # -- dates --------------------------------------------------------------------------------

    def _moment(self, what: str, node: exp.Expr) -> PgValue:
        found = self.value(node)
        if found.kind not in pg.MOMENTS:
            raise _refused(f"{what}({found.kind})", "it is computed there of DATE and TIMESTAMP")
        return found

    def part(self, node: exp.Expr) -> PgValue:
        return self._part(_PARTS[type(node)], node.this)

    def extract(self, node: exp.Expr) -> PgValue:
        word = extracted_part(node.this)
        name = _EXTRACTED.get(word)
        if name is None:
            raise _refused(f"extract({word})", "it has no equal there")
        return self._part(name, node.expression)

    def _part(self, part: str, node: exp.Expr) -> PgValue:
        found = self._moment(part, node)
        if found.kind == "DATE" and part in ("hour", "minute", "second"):
            raise _refused(f"{part}(DATE)", "a date has none there")
        self.called(part, found.type)
        text = sql("CAST(trunc(EXTRACT({} FROM {})) AS BIGINT)", bare_word(part), found.sql)
        return _made(text, "BIGINT", found)

    def truncated(self, node: exp.Expr) -> PgValue:
        unit = (word_of(node.args["unit"]) or "").lower()
        found = self._moment("date_trunc", node.this)
        if unit not in _TRUNCATED:
            raise _refused(f"date_trunc('{unit}')", "it has no equal there")
        self.called(f"date_trunc '{unit}'", found.type)
        text = sql("date_trunc({}, CAST({} AS TIMESTAMP))", literal(unit), found.sql)
        return _made(text, "TIMESTAMP", found)

    def _moved(self, sign: str, moment: PgValue, interval: exp.Interval) -> PgValue:
        """Write a date or timestamp plus or minus a constant number of units."""
        unit = (word_of(interval.args.get("unit")) or "").lower().removesuffix("s")
        count = interval.this if _INTERVAL.hold(interval) else None
        written = ""
        if isinstance(count, exp.Literal) and is_row_node(count):
            written = str(count.this)
        number = int(written) if _COUNT.fullmatch(written) else None
        known = unit in _UNITS or unit in _MICROSECONDS
        if moment.kind not in pg.MOMENTS or sign not in "+-" or not known or number is None:
            raise _refused("an interval", "a constant number of units is added to a date there")
        years = number * _UNITS[unit] / 12 if unit in _UNITS else 0
        years = years or number * _MICROSECONDS.get(unit, 0) / (365 * 86_400)
        if abs(years) > _YEARS:
            raise _refused("an interval", f"it has more than {_YEARS} years")
        self.called(f"{sign} interval '{unit}'", moment.type)
        if unit == "quarter":
            number, unit = 3 * number, "month"
        plain = sql(
            "(CAST({} AS TIMESTAMP) {} INTERVAL {})",
            moment.sql,
            _SIGN[sign],
            literal(f"{number} {unit}"),
        )
        return PgValue(once(plain, within_years), "TIMESTAMP", fails=moment.fails)

    def _of_dates(self, sign: str, one: PgValue, two: PgValue) -> PgValue:
        if sign == "-" and one.kind == two.kind == "DATE":
            self.called("-", "DATE", "DATE")
            return _made(sql("CAST({} - {} AS BIGINT)", one.sql, two.sql), "BIGINT", one, two)
        if sign in "+-" and one.kind == "DATE" and two.kind in ("SMALLINT", "INTEGER"):
            self.called(sign, "DATE", two.type)

            def moved(days: Sql) -> Sql:
                there = sql("({} {} CAST({} AS INTEGER))", one.sql, _SIGN[sign], days)
                return sql(
                    "CASE WHEN {days} BETWEEN {least} AND {most} THEN {there} END",
                    days=days,
                    least=digits(-_DAYS),
                    most=_DAYS,
                    there=once(there, within_years),
                )

            return PgValue(once(two.sql, moved), "DATE", fails=True)
        raise _refused(f"{sign}({_list([one, two])})", "it is not computed there on these types")

    def difference(self, node: exp.Expr) -> PgValue:
        """Write date_diff: how many boundaries of units lie between."""
        unit = (word_of(node.args.get("unit")) or "").lower()
        end, start = (self._moment("date_diff", n) for n in (node.this, node.expression))
        if end.kind != start.kind or unit not in ("year", "month", "day"):
            raise _refused(f"date_diff('{unit}')", "it has no equal there on these types")
        self.called(f"date_diff '{unit}'", end.type, start.type)
        if unit == "day":
            days = sql("CAST({} AS DATE) - CAST({} AS DATE)", end.sql, start.sql)
            return _made(sql("CAST({} AS BIGINT)", days), "BIGINT", end, start)
        ends = [sql("EXTRACT(year FROM {})", m.sql) for m in (end, start)]
        if unit == "month":
            months = [sql("EXTRACT(month FROM {})", m.sql) for m in (end, start)]
            ends = [sql("({} * 12 + {})", y, m) for y, m in zip(ends, months, strict=True)]
        return _made(sql("CAST({} - {} AS BIGINT)", ends[0], ends[1]), "BIGINT", end, start)


# -- doubles: results too large are infinite, results too small are 0, and nothing is raised ------

_BIG, _SMALL = pg.double_sql(1e150), pg.double_sql(1e-150)
_LARGEST: Final = pg.double_sql(1.7976931348623157e308)
_HALF: Final = pg.double_sql(2.0**1023)
_LOG_LARGEST: Final = pg.double_sql(709.7827128)
_LOG_LEAST: Final = pg.double_sql(-745.13)


def _usual(value: Sql) -> Sql:
    return sql("abs({}) BETWEEN {} AND {}", value, _SMALL, _BIG)


def _endless(value: Sql) -> Sql:
    return sql("abs({}) > {}", value, _LARGEST)  # so is NaN


def _sum(sign: Sql) -> Callable[[Sql, Sql], Sql]:
    def half(value: Sql) -> Sql:
        return sql("CASE WHEN abs({v}) < 1 THEN 0 ELSE {v} * 0.5 END", v=value)

    # Halves of what is large do not overflow, and what is small beside it does not count.
    return lambda a, b: sql(
        "CASE WHEN abs({a}) < {half} AND abs({b}) < {half} OR {endless} OR {too} "
        "THEN {a} {sign} {b} "
        "WHEN {total} >= {half} THEN {infinity} "
        "WHEN {total} <= -{half} THEN {minus} "
        "WHEN {total} IS NOT NULL THEN {a} {sign} {b} END",
        a=a,
        b=b,
        sign=sign,
        half=_HALF,
        endless=_endless(a),
        too=_endless(b),
        total=sql("({} {} {})", half(a), sign, half(b)),
        infinity=pg.INFINITY,
        minus=pg.MINUS_INFINITY,
    )


def _product(a: Sql, b: Sql) -> Sql:
    return _scaled(
        sql("{} * {}", a, b),
        log=sql("(ln(abs({})) + ln(abs({})))", a, b),
        operands=(a, b),
        zero=sql("{} = 0 OR {} = 0", a, b),
        grows=sql("abs({}) > 1 AND abs({}) > 1", a, b),
    )


def _quotient(a: Sql, b: Sql) -> Sql:
    """Write a quotient; by zero it is NaN or infinite, as IEEE 754 has it."""
    by_zero = sql(
        "CASE WHEN {nan} OR {a} = 0 THEN {none} "
        "WHEN ({a} * CASE WHEN CAST({b} AS TEXT) = '-0' THEN -1 ELSE 1 END) > 0 "
        "THEN {infinity} ELSE {minus} END",
        nan=_nan_text(a),
        a=a,
        b=b,
        none=pg.NAN,
        infinity=pg.INFINITY,
        minus=pg.MINUS_INFINITY,
    )
    plain = _scaled(
        sql("{} / {}", a, b),
        log=sql("(ln(abs({})) - ln(abs({})))", a, b),
        operands=(a, b),
        zero=sql("{} = 0", a),
        grows=sql("abs({}) < 1", b),
    )
    return sql(
        "CASE WHEN {b} = 0 THEN CASE WHEN {a} IS NOT NULL THEN {by_zero} END ELSE {plain} END",
        a=a,
        b=b,
        by_zero=by_zero,
        plain=plain,
    )


def _scaled(plain: Sql, *, log: Sql, operands: tuple[Sql, Sql], zero: Sql, grows: Sql) -> Sql:
    """Write a product or quotient; logarithms tell where it is too large or too small."""
    a, b = operands
    return sql(
        "CASE WHEN {usual} AND {too} THEN {plain} "
        "WHEN {zero} OR {endless} OR {either} THEN {plain} "
        "WHEN {log} > {most} AND {grows} THEN {signs} * {infinity} "
        "WHEN {log} < {least} THEN {signs} * 0e0 "
        "WHEN {log} IS NOT NULL THEN {plain} END",
        usual=_usual(a),
        too=_usual(b),
        plain=plain,
        zero=zero,
        endless=_endless(a),
        either=_endless(b),
        log=log,
        most=_LOG_LARGEST,
        least=_LOG_LEAST,
        grows=grows,
        signs=sql("(sign({}) * sign({}))", a, b),
        infinity=pg.INFINITY,
    )


def _nan_text(value: Sql) -> Sql:
    return sql("{} = {}", value, pg.NAN)


def _nan(value: Sql, of: PgValue) -> Sql:
    return _nan_text(value) if of.kind == "DOUBLE" else sql("FALSE")


_DOUBLES: Final[dict[str, Callable[[Sql, Sql], Sql]]] = {
    "+": _sum(sql("+")),
    "-": _sum(sql("-")),
    "*": _product,
    "/": _quotient,
}


def _logarithm(word: Sql) -> Callable[[Sql], Sql]:
    return lambda v: sql(
        "CASE WHEN {v} > 0 THEN {word}({v}) WHEN {v} = 0 THEN {minus} WHEN {v} < 0 THEN {nan} END",
        v=v,
        word=word,
        minus=pg.MINUS_INFINITY,
        nan=pg.NAN,
    )


_GUARDED: Final[dict[str, Callable[[Sql], Sql]]] = {
    "sqrt": lambda v: sql("CASE WHEN {v} < 0 THEN {nan} ELSE sqrt({v}) END", v=v, nan=pg.NAN),
    "ln": _logarithm(sql("ln")),
    "log": _logarithm(sql("log")),
    "exp": lambda v: sql(
        "CASE WHEN {none} THEN {v} WHEN {v} > {most} "
        "THEN {infinity} WHEN {v} < {least} THEN {zero} "
        "ELSE exp({v}) END",
        v=v,
        none=_nan_text(v),
        most=pg.double_sql(709.782),
        infinity=pg.INFINITY,
        least=pg.double_sql(-745.1),
        zero=pg.double_sql(0),
    ),
}
_OF_DOUBLE: Final[dict[type[exp.Expr], str]] = {exp.Sqrt: "sqrt", exp.Ln: "ln", exp.Exp: "exp"}


def _joined_once(one: Sql, other: Sql) -> Sql:
    return once(one, lambda a: once(other, lambda b: _joined([a, b])))


def _joined(parts: Sequence[Sql]) -> Sql:
    """Write texts one behind the other, NULL where the result would be too long for the server."""
    sizes = (sql("CAST(octet_length({}) AS BIGINT)", part) for part in parts)
    return sql(
        "CASE WHEN {} < {} THEN {} END", join(" + ", sizes), _LONGEST_TEXT, join(" || ", parts)
    )


# -- types ----------------------------------------------------------------------------------------


def target_type(node: exp.Expr) -> str:
    """Name the type of a cast as the schema does."""
    if not all(map(is_row_node, node.args["to"].walk())):
        raise _refused("this cast", "it has no equal there")
    text = to_sql(node.args["to"]).upper()
    kind = base_type(text)
    return text.replace(" ", "") if kind == "DECIMAL" and "(" in text else _PLAIN.get(kind, kind)


_PLAIN: Final = {"DECIMAL": "DECIMAL(18,3)", "TIMESTAMPNTZ": "TIMESTAMP"}


def _number(text: str) -> PgValue:
    """Write a number as it is written, of the type that DuckDB gives it."""
    unsigned = text.lstrip("-")
    if "e" in unsigned.lower():
        value = float(text)
        return PgValue(pg.double_sql(value), "DOUBLE")
    if "." not in unsigned:
        whole = int(text)
        for type_ in ("INTEGER", "BIGINT"):
            low, high = pg.ends(type_)
            if low <= whole <= high:
                return PgValue(number(whole), type_, whole)
        raise _refused("a number of more than 64 bits", "there are no such integers there")
    before, after = unsigned.split(".")
    width = max(len(before.lstrip("0")) + len(after), len(after) + 1, 1)
    if width > pg.MOST_DIGITS:
        raise _refused("a number of that many digits", "decimals have 38 at most")
    plain = digits(Decimal(text))
    shown = sql("({})", plain) if text.startswith("-") else plain
    return PgValue(shown, f"DECIMAL({width},{len(after)})", _Digits(text))


class _Digits(str):
    """The text of a decimal number that was written down."""

    __slots__ = ()


def _common(values: Sequence[PgValue]) -> str | None:
    """Name the type to which values are widened; empty for none, None where there is none."""
    types = dict.fromkeys(value.type for value in values if value.type != pg.UNTYPED)
    kinds = {base_type(type_) for type_ in types}
    if len(types) <= 1:
        return next(iter(types), "")
    if kinds <= set(pg.INTEGERS):
        return max(types, key=pg.INTEGERS.index)
    if kinds <= {*pg.INTEGERS, "DECIMAL"}:
        return _wide_decimal([_as_decimal(value) for value in values if value.type != pg.UNTYPED])
    if kinds <= {*pg.INTEGERS, "DECIMAL", "DOUBLE"} or kinds == {"FLOAT", "DOUBLE"}:
        return "DOUBLE"
    return "TIMESTAMP" if kinds == set(pg.MOMENTS) else None


def _common_type(*types: str) -> str | None:
    return _common([PgValue(EMPTY_SQL, type_) for type_ in types])


def _with_literals(target: str, literals: Sequence[PgValue]) -> str | None:
    """Widen a type to what constants need that stand beside its values."""
    if not target:
        return _common([replace(value, constant=None) for value in literals]) or pg.UNTYPED
    for value in literals:
        if value.kind == "VARCHAR":
            continue  # read as the type
        if base_type(target) in pg.INTEGERS and isinstance(value.constant, int):
            low, high = pg.ends(target)
            fits = low <= value.constant <= high
            found = target if fits else _common_type(target, value.type)
        else:
            found = _common_type(target, value.type)
        if found is None:
            return None
        target = found
    return target


def _converted(value: PgValue, type_: str) -> PgValue | None:
    """Widen a value to a type, as far as that cannot fail on any row."""
    if value.type == type_ and not value.is_literal:
        return value
    if value.type == pg.UNTYPED:
        if pg.sql_type(type_) is None:
            return value
        return PgValue(pg.cast_to(sql("NULL"), type_), type_)
    if value.is_literal:
        if value.kind == "VARCHAR" and type_ == "VARCHAR":
            return replace(value, constant=None)
        return _constant(value, type_)
    widened = {*pg.INTEGERS, "DECIMAL", "DOUBLE", "FLOAT"}
    numbers = value.kind in widened and base_type(type_) in widened - {"FLOAT"}
    moments = value.kind == "DATE" and type_ == "TIMESTAMP"
    return pg.cast(value, type_) if numbers or moments else None


def _constant(value: PgValue, type_: str) -> PgValue | None:
    digits = str(value.constant).strip().lstrip("+-")
    if base_type(type_) in pg.INTEGERS and value.kind == "VARCHAR" and not digits.isdigit():
        return None  # read as a number, and rounded: nobody means that
    try:
        text = pg.constant(value.constant, type_)
    except KeyError:
        return None
    return None if text is None else PgValue(text, type_)


def _wider_integer(one: PgValue, two: PgValue) -> str:
    return max(one.type, two.type, key=pg.INTEGERS.index)


def _as_decimal(value: PgValue) -> tuple[int, int]:
    if value.kind == "DECIMAL":
        return pg.width_and_scale(value.type)
    return pg.INTEGER_DIGITS[value.kind], 0


def _decimal(value: PgValue) -> str:
    width, scale = _as_decimal(value)
    return f"DECIMAL({width},{scale})"


def _operand(sign: str, value: PgValue, type_: str) -> Sql:
    """Write an operand of a sum as a value of the sum's type, as DuckDB adds; a factor as it is."""
    width, scale = _as_decimal(value)
    most, places = pg.width_and_scale(type_)
    plain = sql("CAST({} AS NUMERIC)", value.sql)
    return (
        plain if sign == "*" or width - scale <= most - places else pg.decimal_or_null(plain, type_)
    )


def _wide_decimal(found: Sequence[tuple[int, int]]) -> str | None:
    scale = max(scale for _, scale in found)
    whole = max(width - scale for width, scale in found)
    return f"DECIMAL({whole + scale},{scale})" if whole + scale <= pg.MOST_DIGITS else None


def _decimal_result(sign: str, one: tuple[int, int], two: tuple[int, int]) -> str | None:
    """Name the type that DuckDB gives a sum or product of decimals."""
    narrow = False
    if sign == "*":
        width, scale = one[0] + two[0], one[1] + two[1]
        narrow = max(one[0], two[0]) <= 18 and scale < 18
    elif sign in "+-":
        scale = max(one[1], two[1])
        width = max(one[0] - one[1], two[0] - two[1]) + scale + 1
    else:
        return None
    if scale > pg.MOST_DIGITS:
        return None
    return f"DECIMAL({min(width, 18 if narrow else pg.MOST_DIGITS)},{scale})"


def _list(values: Sequence[PgValue]) -> str:
    return ", ".join(value.kind for value in values)


def _called(node: exp.Expr) -> str:
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()


def _all(values: Sequence[PgValue]) -> Sql:
    return join(", ", (value.sql for value in values))


def _made(written: Sql, type_: str, *operands: PgValue) -> PgValue:
    """Return a value that is NULL where an operand is, and fails where one does."""
    return PgValue(written, type_, fails=any(operand.fails for operand in operands))


def _strict(values: list[PgValue]) -> list[PgValue]:
    """Return operands none of which can fail, where NULL does not make the result NULL.

    TRY makes NULL of the whole, and here only the operand would be. Raises ``QueryRefused``.
    """
    if any(value.fails for value in values):
        raise QueryRefused(
            "a value that can overflow, or fail otherwise, cannot stand here over private rows of "
            "a PostgreSQL database",
            code="expression_not_allowed",
            hint="Say what it is then: COALESCE(…, 0), or compute it in a subquery.",
        )
    return values


def _refused(what: str, why: str) -> QueryRefused:
    return QueryRefused(
        f"{what} is not available over private rows of a PostgreSQL database: {why}",
        code="expression_not_allowed",
        hint="Compute it over released rows, or have the owner add a column or view that holds it; "
        "docs/engines/postgresql.md lists what is available.",
    )


_SIGN: Final[Mapping[str, Sql]] = {
    "=": sql("="),
    "<>": sql("<>"),
    ">": sql(">"),
    ">=": sql(">="),
    "<": sql("<"),
    "<=": sql("<="),
    "+": sql("+"),
    "-": sql("-"),
    "*": sql("*"),
}
_SIGNS: Final[dict[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_WHOLE: Final[dict[type[exp.Expr], str]] = {
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Round: "round",
    exp.Trunc: "trunc",
}
_Rule = Callable[[RowExpressions, exp.Expr], PgValue]
_RULES: Final[Rules[_Rule]] = grouped_rules(
    {
        "": {exp.Null: RowExpressions.null},
        "this": {
            exp.Column: RowExpressions.column,  # names were resolved to one word before
            exp.Boolean: RowExpressions.boolean,
            exp.Paren: RowExpressions.paren,
            exp.Not: RowExpressions.negation,
            exp.Neg: RowExpressions.negative,
            exp.Abs: RowExpressions.absolute,
            exp.Sign: RowExpressions.sign,
            exp.IsNan: RowExpressions.is_nan,
            exp.Length: RowExpressions.length,
            exp.Trim: RowExpressions.trim,
            **dict.fromkeys(_OF_DOUBLE, RowExpressions.of_double),
            **dict.fromkeys(_PARTS, RowExpressions.part),
        },
        "this is_string": {exp.Literal: RowExpressions.literal},
        "this expression": {
            exp.And: RowExpressions.connective,
            exp.Or: RowExpressions.connective,
            exp.Is: RowExpressions.is_,
            exp.NullSafeEQ: RowExpressions.null_safe,
            exp.NullSafeNEQ: RowExpressions.null_safe,
            exp.Nullif: RowExpressions.nullif,
            exp.Log: RowExpressions.logarithm,
            exp.Left: RowExpressions.side,
            exp.Right: RowExpressions.side,
            exp.Contains: RowExpressions.contains,
            exp.StartsWith: RowExpressions.starts_with,
            exp.Extract: RowExpressions.extract,
            **dict.fromkeys(_COMPARISONS, RowExpressions.comparison),
            **dict.fromkeys(_SIGNS, RowExpressions.arithmetic),
        },
        "this expression safe?": {exp.DPipe: RowExpressions.joined},
        "this expression negate": {exp.Like: RowExpressions.like},
        "this low high": {exp.Between: RowExpressions.between},
        "this expressions": {exp.In: RowExpressions.among, exp.Coalesce: RowExpressions.coalesce},
        "this expressions ignore_nulls!": {
            exp.Greatest: RowExpressions.extreme,
            exp.Least: RowExpressions.extreme,
        },
        "expressions safe? coalesce!": {exp.Concat: RowExpressions.concat},
        "this ifs default": {exp.Case: RowExpressions.case},
        "this true false": {exp.If: RowExpressions.if_},
        "this to safe?": {exp.Cast: RowExpressions.cast, exp.TryCast: RowExpressions.cast},
        "this decimals": dict.fromkeys(_WHOLE, RowExpressions.whole),
        "this start length": {exp.Substring: RowExpressions.substring},
        "this unit": {
            exp.TimestampTrunc: RowExpressions.truncated,
            exp.DateTrunc: RowExpressions.truncated,
        },
        "this expression unit date_part_boundary!": {exp.DateDiff: RowExpressions.difference},
    }
)
