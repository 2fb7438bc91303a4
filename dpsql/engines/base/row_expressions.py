"""Checked expressions over one row, written value by value in the SQL of an engine without TRY.

Nothing is passed through: every node of the tree has a rule here, by the arguments that it reads,
which gives it its type in DuckDB and the name of an operation. How that is written, so that no row
makes it raise, an engine says in its table (:mod:`dpsql.engines.base.row_engine`). It means what
DuckDB means by it inside TRY: NULL where that fails. Nothing is taken for granted: each operation
on its types has a name, as ``+(INTEGER, INTEGER)``, and is written only if a table of verdicts
(:mod:`dpsql.engines.evidence.verdicts`) has found it to be the same on rows of edge values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.schema import Table
from dpsql.core.sql import EMPTY_SQL, Sql, bare_word, join, name, sql
from dpsql.core.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    SqlType,
)
from dpsql.engines.base.row_engine import RowEngine, Write
from dpsql.engines.base.row_types import (
    BLANKS,
    EXACT,
    INTEGERS,
    UNTYPED,
    TypedValue,
    decimal_result,
    number_type,
    shared_type,
)
from dpsql.engines.embedded.letters import in_case
from dpsql.engines.evidence.verdicts import Verdicts
from dpsql.errors import QueryRefused
from dpsql.syntax.arguments import (
    NodeArguments,
    Rules,
    extracted_part,
    grouped_rules,
    reads,
    when_branches,
)
from dpsql.syntax.row_functions import (
    ANY_NUMBERS,
    MOMENTS,
    PARTS,
    ROW_FUNCTIONS,
    TEXTS,
)
from dpsql.syntax.row_nodes import is_row_node
from dpsql.syntax.text import display, to_sql

_COMPARISONS: Final[Mapping[type[exp.Expr], tuple[str, Sql]]] = {
    exp.EQ: ("=", sql("=")),
    exp.NEQ: ("<>", sql("<>")),
    exp.GT: (">", sql(">")),
    exp.GTE: (">=", sql(">=")),
    exp.LT: ("<", sql("<")),
    exp.LTE: ("<=", sql("<=")),
}
_SIGNS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
}
_WHOLE: Final[Mapping[type[exp.Expr], str]] = {
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Round: "round",
    exp.Trunc: "trunc",
}
_UNITS: Final = frozenset({"year", "quarter", "month", "week", "day", "hour", "minute", "second"})
_TRIMMED: Final = {"None": "trim", "BOTH": "trim both", "LEADING": "ltrim", "TRAILING": "rtrim"}
_INTERVAL: Final = NodeArguments("this unit")
_MICROSECONDS: Final[Mapping[str, int]] = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
}
"""Units of which each has one length."""
_LONGEST: Final = 365_250 * _MICROSECONDS["day"]
_LEAST_PLACES: Final[Mapping[str, int]] = {
    "DOUBLE": -15,
    **{kind: 1 - SqlType.of(kind).digits[0] for kind in INTEGERS},
}
"""The places before the point that a number is rounded to: of integers, less than it has digits."""
_LENGTHS_HINT: Final = (
    "Take EXTRACT(epoch FROM …) of the difference of both moments, or date_diff('day', …, …)."
)
_COUNT: Final = re.compile(r"-?[0-9]{1,9}")
_UNLIKE: Final = "its values are of different types"
_CAST_AS: Final = {"DECIMAL": "DECIMAL(18,3)", "TIMESTAMPNTZ": "TIMESTAMP"}


class RowExpressions:
    """Writes checked expressions over the columns of a table. Raises ``QueryRefused``.

    Without ``verdicts`` everything that can be written is: for the survey, which collects the names
    of ``calls`` in the order in which they are met, and whether they are written as they stand.
    """

    def __init__(self, table: Table, engine: RowEngine, verdicts: Verdicts | None) -> None:
        self._table = table
        self._engine = engine
        self._refused = engine.refused
        self._verdicts = verdicts
        self.calls: list[tuple[str, bool]] = []

    def value(self, node: exp.Expr) -> TypedValue:
        """Write an expression, with the type that it has."""
        rule = RULES.of(node)
        if rule is None:
            why = "this form of it" if type(node) in RULES else "it"
            raise self._refused(_called(node), f"{why} has no equal there that never fails")
        made = rule(self, node)
        if self._engine.longest is not None and made.sql.size > self._engine.longest:
            hint = "Compute some of it in a subquery."
            raise self._refused("an expression of this size", "it is too large", hint)
        return made

    def result(self, node: exp.Expr) -> TypedValue:
        """Write an expression whose value is read: lengths of time are computed with alone."""
        made = self.value(node)
        if made.type == INTERVAL:
            what = f"a length of time, {display(node)},"
            raise self._refused(what, "it is computed with there alone", _LENGTHS_HINT)
        return made

    def values(self, *nodes: exp.Expr) -> list[TypedValue]:
        """Write several expressions."""
        return [self.value(node) for node in nodes]

    def settled(self, node: exp.Expr) -> TypedValue:
        """Write an expression by itself, which settles the type of a constant."""
        return self.value(node).settled

    # -- what rules share ---------------------------------------------------------------------

    def _look_up(
        self,
        operation: str,
        given: Sequence[TypedValue | str],
        used: Sequence[SqlType],
        word: str | None = None,
        unit: SqlType | str = "",
    ) -> None:
        """Record that an operation on types is needed, or refuse it."""
        call = self._engine.call(word or operation, given, used, unit)
        if call is None:
            return
        self.calls.append((call, operation in self._engine.written_alike))
        objection = None if self._verdicts is None else self._verdicts.objection(call)
        if objection is not None:
            raise self._refused(call, objection)

    def _operation(self, operation: str) -> Write:
        """Return how the engine writes an operation. Raises ``QueryRefused`` if it has none."""
        found = self._engine.operations.get(operation)
        if found is None:
            raise self._refused(operation, "it has no equal there that never fails")
        return found

    def _made(
        self,
        operation: str,
        operands: Sequence[TypedValue],
        type_: SqlType,
        *more: object,
        given: Sequence[TypedValue | str] | None = None,
        word: str | None = None,
        used: Sequence[SqlType] | None = None,
        unit: str = "",
        fails: bool = False,
    ) -> TypedValue:
        """Write an operation: NULL where an operand is, and failing where one does."""
        word = word or operation.partition(" ")[0]
        if operation != word and operation not in self._engine.operations:
            raise self._unfit(word, operands)
        write = self._operation(operation)
        used = [operand.type for operand in operands] if used is None else used
        self._look_up(operation, operands if given is None else given, used, word, unit)
        if operation.endswith((" decimal", " interval")):
            written = write(*operands, type_, *more)
        elif operation.endswith(" integer"):
            written = write(*(operand.sql for operand in operands), type_, *more)
        else:
            written = write(*(operand.sql for operand in operands), *more)
        failed = fails or any(operand.fails for operand in operands)
        return TypedValue(self._engine.guarded(operands, written), type_, fails=failed)

    def _unfit(
        self,
        what: str,
        values: Sequence[TypedValue],
        why: str = "it is not computed there on these types",
    ) -> QueryRefused:
        return self._refused(f"{what}({', '.join(value.kind for value in values)})", why)

    def _alike(
        self, what: str, values: Sequence[TypedValue], *, choice: bool = False
    ) -> tuple[SqlType, list[TypedValue]]:
        """Give values one type, as DuckDB would; casts that could fail on a row are refused."""
        target = shared_type(values)
        read = any(value.is_literal and value.kind == "VARCHAR" for value in values)
        others = frozenset(v.kind for v in values if v.kind not in ("VARCHAR", UNTYPED.kind))
        if target is None or (read and others and not self._engine.reads_text(others)):
            raise self._unfit(what, values, _UNLIKE)
        return target, [self._widened(what, value, target, values, choice) for value in values]

    def _widened(
        self,
        what: str,
        value: TypedValue,
        type_: SqlType,
        beside: Sequence[TypedValue],
        choice: bool = False,
    ) -> TypedValue:
        """Widen a value to a type, as far as that cannot fail on any row."""
        if value.type == UNTYPED:
            return self._engine.null(value, type_)
        if value.type == type_ and not value.is_literal:
            return value
        found = self._engine.widened(value, type_)
        if found is None:
            raise self._unfit(what, beside, _UNLIKE)
        if value.type != type_ and self._engine.looks_up_widening(value, choice=choice):
            self._look_up("CAST", [value], [value.type], unit=type_)
        return found

    def _strict(self, values: list[TypedValue]) -> list[TypedValue]:
        """Return infallible operands; refuse others, where NULL would not make the result NULL.

        TRY makes NULL of the whole, and here only the operand would be. Raises ``QueryRefused``.
        """
        if any(value.fails for value in values):
            why = "it can overflow, or fail otherwise, and NULL means something here"
            hint = "Say what it is then: COALESCE(…, 0), or compute it in a subquery."
            raise self._refused("one of these values", why, hint)
        return values

    # -- leaves -------------------------------------------------------------------------------

    def column(self, node: exp.Expr) -> TypedValue:
        found = self._table.column(node.name) if is_row_node(node.this) else None
        type_ = None if found is None else self._engine.column_type(found.type)
        if found is None or type_ is None:
            of_type = "" if found is None else f" of type {found.type.kind}"
            hint = _LENGTHS_HINT if found is not None and found.type == INTERVAL else None
            why = "nothing is computed of these there"
            raise self._refused(f"a value{of_type}", why, hint)
        return TypedValue(name(found.name), type_)

    def literal(self, node: exp.Expr) -> TypedValue:
        text = node.name
        if node.is_string:
            return TypedValue(self._engine.text(text), VARCHAR, text)
        return number_value(text, self._engine)

    def boolean(self, node: exp.Expr) -> TypedValue:
        return TypedValue(sql("TRUE") if node.this else sql("FALSE"), BOOLEAN)

    def null(self, node: exp.Expr) -> TypedValue:
        return TypedValue(sql("NULL"), UNTYPED)

    def paren(self, node: exp.Expr) -> TypedValue:
        return self.value(node.this)

    def tried(self, node: exp.Expr) -> TypedValue:
        """Write the inside of TRY, which cannot raise here."""
        if node.name != "TRY" or len(node.expressions) != 1 or "try" not in self._engine.operations:
            raise self._refused(f"the function {node.name}", "it has no equal there")
        return self.value(node.expressions[0])

    # -- logic --------------------------------------------------------------------------------

    def _truth(self, node: exp.Expr) -> TypedValue:
        """Write a truth value."""
        found = self.value(node)
        if found.kind not in ("BOOLEAN", UNTYPED.kind):
            raise self._refused(
                f"{found.kind} as a condition", "a condition is TRUE or FALSE there"
            )
        return self._engine.null(found, BOOLEAN) if found.type == UNTYPED else found

    def connective(self, node: exp.Expr) -> TypedValue:
        word = "AND" if isinstance(node, exp.And) else "OR"
        self._look_up(word.lower(), [], [])
        one, two = self._truth(node.this), self._truth(node.expression)
        text = sql("({} {} {})", one.sql, bare_word(word), two.sql)
        return TypedValue(text, BOOLEAN, fails=one.fails or two.fails)

    def negation(self, node: exp.Expr) -> TypedValue:
        self._look_up("not", [], [])
        found = self._truth(node.this)
        return TypedValue(sql("(NOT {})", found.sql), BOOLEAN, fails=found.fails)

    def is_(self, node: exp.Expr) -> TypedValue:
        """Write IS for NULL, TRUE and FALSE."""
        if isinstance(node.expression, exp.Null):
            self._look_up("is null", [], [])
            return TypedValue(sql("({} IS NULL)", self.value(node.this).sql), BOOLEAN)
        if not isinstance(node.expression, exp.Boolean):
            raise self._refused("is", "it stands before NULL, TRUE and FALSE alone")
        self._look_up("is", [], [BOOLEAN])
        write = self._operation("is")
        word = self.value(node.expression).sql
        return TypedValue(write(self._truth(node.this).sql, word), BOOLEAN)

    def comparison(self, node: exp.Expr) -> TypedValue:
        return self._compared(type(node), *self.values(node.this, node.expression))

    def _compared(self, kind: type[exp.Expr], left: TypedValue, right: TypedValue) -> TypedValue:
        word, sign = _COMPARISONS[kind]
        one, two = self._comparable(word, left, right)
        text = sql("({} {} {})", one.sql, sign, two.sql)
        return TypedValue(text, BOOLEAN, fails=one.fails or two.fails)

    def _comparable(self, word: str, *given: TypedValue) -> list[TypedValue]:
        """Give values the type that they are compared in."""
        type_, found = self._alike(word, given)
        typed = [value for value in given if value.type != UNTYPED]
        pair = typed * 2 if len(typed) == 1 else typed  # beside NULL, as beside its like
        self._look_up(word, pair, (type_, type_))
        return found

    def null_safe(self, node: exp.Expr) -> TypedValue:
        one, two = self._comparable("=", *self._strict(self.values(node.this, node.expression)))
        differs = isinstance(node, exp.NullSafeNEQ)
        write = self._operation("is distinct" if differs else "is not distinct")
        return TypedValue(write(one.sql, two.sql), BOOLEAN)

    def between(self, node: exp.Expr) -> TypedValue:
        value, low, high = self.values(node.this, node.args["low"], node.args["high"])
        write = self._engine.operations.get("between")
        if write is None:
            above, below = self._compared(exp.GTE, value, low), self._compared(exp.LTE, value, high)
            text = sql("({} AND {})", above.sql, below.sql)
            return TypedValue(text, BOOLEAN, fails=above.fails or below.fails)
        found = self._comparable(">=", value, low, high)
        self._look_up("<=", found, [each.type for each in found[:2]])
        made = write(*(each.sql for each in found))
        return TypedValue(made, BOOLEAN, fails=any(each.fails for each in found))

    def among(self, node: exp.Expr) -> TypedValue:
        value, *items = self.values(node.this, *node.expressions)
        write = self._engine.operations.get("in")
        if write is None:
            found = [self._compared(exp.EQ, value, item) for item in items]
            made = sql("({})", join(" OR ", (each.sql for each in found)))
        else:
            found = self._comparable("=", value, *items)
            made = write(*(each.sql for each in found))
        return TypedValue(made, BOOLEAN, fails=any(each.fails for each in found))

    # -- choices: each part is one that TRY has made NULL where it fails ------------------------

    def case(self, node: exp.Expr) -> TypedValue:
        branches = [(branch.this, branch.args["true"]) for branch in when_branches(node)]
        return self._cases(node.this, branches, node.args.get("default"))

    def if_(self, node: exp.Expr) -> TypedValue:
        return self._cases(None, [(node.this, node.args["true"])], node.args.get("false"))

    def _cases(
        self,
        subject: exp.Expr | None,
        branches: Sequence[tuple[exp.Expr, exp.Expr]],
        default: exp.Expr | None,
    ) -> TypedValue:
        tests = [
            self._truth(test)
            if subject is None
            else self._compared(exp.EQ, *self.values(subject, test))
            for test, _ in branches
        ]
        given = [value for _, value in branches] + ([] if default is None else [default])
        type_, values = self._alike("case", self.values(*given), choice=True)
        self._look_up("case", values, [type_])
        whens = [
            sql("WHEN {} THEN {}", test.sql, value.sql)
            for test, value in zip(tests, values, strict=False)
        ]
        end = EMPTY_SQL if default is None else sql(" ELSE {}", values[-1].sql)
        whole = sql("CASE {}{} END", join(" ", whens), end)
        return TypedValue(self._operation("case")(whole), type_)

    def coalesce(self, node: exp.Expr) -> TypedValue:
        given = self.values(node.this, *node.expressions)
        type_, values = self._alike("coalesce", given, choice=True)
        self._look_up("coalesce", values, [type_])
        return TypedValue(sql("coalesce({})", join(", ", (v.sql for v in values))), type_)

    def nullif(self, node: exp.Expr) -> TypedValue:
        given = self.values(node.this, node.expression)
        self._strict(given[1:])
        type_, (one, two) = self._alike("nullif", given)
        first = given[0]
        if type_ != first.type and not self._engine.mixes:
            raise self._unfit("nullif", given, _UNLIKE)
        self._look_up("nullif", given, [type_])
        made = self._operation("nullif")(one.sql, two.sql, first.sql)
        return TypedValue(made, first.type, fails=first.fails)

    def extreme(self, node: exp.Expr) -> TypedValue:
        word = "least" if isinstance(node, exp.Least) else "greatest"
        given = self._strict(self.values(node.this, *node.expressions))
        type_, values = self._alike(word, given)
        self._look_up(word, sorted({value.kind for value in given}), [type_])
        return TypedValue(self._operation(word)(*(v.sql for v in values)), type_)

    # -- numbers ------------------------------------------------------------------------------

    def arithmetic(self, node: exp.Expr) -> TypedValue:
        sign = _SIGNS[type(node)]
        left = self.value(node.this)
        if isinstance(node.expression, exp.Interval):
            return self._moved(sign, left, node.expression)
        given = [left, self.value(node.expression)]
        kinds = {value.kind for value in given}
        if kinds & set(MOMENTS):
            return self._of_dates(sign, *given)
        if self._engine.typed_nulls:
            kinds -= {UNTYPED.kind}
        elif UNTYPED.kind in kinds:
            raise self._unfit(sign, given)
        if "DOUBLE" in kinds or (sign == "/" and kinds <= EXACT):
            doubles = [self._widened(sign, value, DOUBLE, given) for value in given]
            divisor = [given[1].constant] if sign == "/" else []
            operation, fails = f"{sign} double", sign == "//"  # by zero
            return self._made(operation, doubles, DOUBLE, *divisor, given=given, fails=fails)
        if kinds and kinds <= set(INTEGERS):
            type_, alike = self._alike(sign, given)
            return self._made(f"{sign} integer", alike, type_, given=given, fails=True)
        if not kinds <= EXACT or any(value.type == UNTYPED for value in given):
            raise self._unfit(sign, given)
        result = decimal_result(sign, *(value.type for value in given))
        if result is None:
            raise self._unfit(sign, given)
        used = [SqlType.decimal(*value.type.digits) for value in given]
        return self._made(f"{sign} decimal", given, result, used=used, fails=True)

    def negative(self, node: exp.Expr) -> TypedValue:
        found = self.value(node.this)
        constant = self._engine.negated(found, node.this)
        return self._signed("-", found) if constant is None else constant

    def absolute(self, node: exp.Expr) -> TypedValue:
        return self._signed("abs", self.settled(node.this))

    def _signed(self, word: str, found: TypedValue) -> TypedValue:
        operation = f"{'negative' if word == '-' else word} {_sort(found)}"
        overflows = found.kind in INTEGERS
        return self._made(operation, [found], found.type, word=word, fails=overflows)

    def sign(self, node: exp.Expr) -> TypedValue:
        found = self.settled(node.this)
        return self._made(f"sign {_sort(found)}", [found], TINYINT)

    def whole(self, node: exp.Expr) -> TypedValue:
        """Write floor, ceil, trunc, and round with and without digits."""
        word = _WHOLE[type(node)]
        found = self.settled(node.this)
        digits = node.args.get("decimals")
        if digits is not None:
            return self._rounded_to(word, found, digits)
        operation = f"{word} {_sort(found)}"
        if found.kind in INTEGERS:
            type_ = found.type if word in ("round", "trunc") else DOUBLE
            return self._made(operation, [found], type_)
        if found.kind == "DECIMAL":
            type_ = SqlType.decimal(found.type.digits[0], 0)
            return self._made(operation, [found], type_, fails=True)
        return self._made(operation, [found], found.type)

    def _rounded_to(self, word: str, found: TypedValue, digits: exp.Expr) -> TypedValue:
        places = self.value(digits).constant
        least = _LEAST_PLACES.get(found.kind, 0)
        if word != "round" or not isinstance(places, int) or not least <= places:
            why = f"places of {found.kind} are a constant of ROUND from {least} on there"
            raise self._refused(f"{word}({found.kind}, …)", why)
        type_, decimal = found.type, found.kind == "DECIMAL"
        if decimal:
            width, scale = found.type.digits
            type_ = SqlType.decimal(width, min(scale, places))
        operation = f"round to {_sort(found)}"
        fails = decimal or places < 0
        return self._made(operation, [found], type_, places, word="round to", fails=fails)

    def logarithm(self, node: exp.Expr) -> TypedValue:
        """Write the logarithm to base 10; one of another base comes with that first."""
        if node.args.get("expression") is None:
            return self._computed("log", ANY_NUMBERS, DOUBLE, node.this)
        base = self.value(node.this).constant
        word = f"log{base}"
        if not isinstance(base, int) or word not in self._engine.operations:
            raise self._refused("log with that base", "it has no equal there")
        return self._computed(word, ANY_NUMBERS, DOUBLE, node.expression)

    def cast(self, node: exp.Expr) -> TypedValue:
        found, type_ = self.value(node.this), self._target(node.args["to"])
        made = self._engine.trivial_cast(found, type_)
        return self._cast(found.settled, type_) if made is None else made

    def _cast(self, found: TypedValue, type_: SqlType) -> TypedValue:
        made = self._engine.cast(found, type_)
        if made is None:
            raise self._refused(f"CAST({found.kind} AS {type_.kind})", "it has no equal there")
        self._look_up("CAST", [found], [found.type], unit=made.type)
        return made

    def _target(self, to: exp.DataType) -> SqlType:
        """Read the type of a cast as the schema has it."""
        if not all(map(is_row_node, to.walk())):
            raise self._refused("this cast", "it has no equal there")
        found = SqlType.of(to_sql(to).upper().replace(" ", ""))
        named = found.text if "(" in found.text else _CAST_AS.get(found.kind, found.kind)
        return SqlType.of(named)

    # -- functions ----------------------------------------------------------------------------

    def function(self, node: exp.Expr) -> TypedValue:
        """Write a function of the table."""
        found = ROW_FUNCTIONS[type(node)]
        operands = [node.args[operand] for operand in found.operands]
        if found.constant:
            return self._with_constants(found.name, found.takes, found.gives, *operands)
        return self._computed(found.name, found.takes, found.gives, *operands)

    def _with_constants(
        self, word: str, takes: Sequence[str], gives: SqlType, node: exp.Expr, *more: exp.Expr
    ) -> TypedValue:
        """Write a function of a value; the engine's table gets the others as they are."""
        found = self._operand(word, takes, self.value(node))
        constants = [self.value(each).constant for each in more]
        if any(constant is None for constant in constants):
            raise self._refused(word, "all but its first argument are constants there")
        return self._made(word, [found], gives, *constants, given=[found, "CONSTANT"])

    def _computed(
        self, word: str, takes: Sequence[str], gives: SqlType, *nodes: exp.Expr
    ) -> TypedValue:
        given = self.values(*nodes)
        if [value.type for value in given] == [INTERVAL] and "TIMESTAMP" in takes:
            return self._made(f"{word} apart", given, gives, word=word)
        operands = [self._operand(word, takes, value) for value in given]
        return self._made(word, operands, gives, given=given)

    def _operand(self, what: str, takes: Sequence[str], found: TypedValue) -> TypedValue:
        """Return a value of one of some kinds; NULL is a number and a text as well."""
        if found.type == UNTYPED and self._engine.typed_nulls and takes == TEXTS:
            return replace(found, type=VARCHAR)
        if takes == ANY_NUMBERS and (found.type != UNTYPED or self._engine.typed_nulls):
            return self._widened(what, found.settled, DOUBLE, [found])
        if found.kind not in takes:
            raise self._unfit(what, [found])
        return found

    def _text(self, what: str, node: exp.Expr) -> TypedValue:
        return self._operand(what, TEXTS, self.value(node))

    def substring(self, node: exp.Expr) -> TypedValue:
        found = self._text("substr", node.this)
        places = [self._place("substr", node.args.get("start"), -self._engine.last_place)]
        if node.args.get("length") is not None:
            places.append(self._place("substr", node.args["length"], 0))
        given: list[TypedValue | str] = [found, *["place"] * len(places)]
        return self._made("substr", [found], VARCHAR, *places, given=given)

    def side(self, node: exp.Expr) -> TypedValue:
        word = "left" if isinstance(node, exp.Left) else "right"
        found = self._text(word, node.this)
        size = self._place(word, node.expression, -self._engine.last_place)
        return self._made(word, [found], VARCHAR, size, given=[found, "place"])

    def _place(self, what: str, node: exp.Expr | None, least: int) -> int:
        value = None if node is None else self.value(node).constant
        if not isinstance(value, int) or not least <= value <= self._engine.last_place:
            why = f"places and lengths are constants from {least} on there"
            raise self._refused(what, why)
        return value

    def trim(self, node: exp.Expr) -> TypedValue:
        word = _TRIMMED.get(str(node.args.get("position")), "trim of its own")
        characters = node.args.get("expression")
        removed = BLANKS if characters is None else self._text("trim", characters).constant
        if not isinstance(removed, str):
            raise self._refused("trim", "the characters that it removes are a constant there")
        return self._made(word, [self._text("trim", node.this)], VARCHAR, removed)

    def like(self, node: exp.Expr) -> TypedValue:
        operands = [self._text("like", part) for part in (node.this, node.expression)]
        pattern = operands[1].constant
        if isinstance(node, exp.ILike):
            pattern = None if pattern is None else in_case(str(pattern), "lower")
            small = [self._made("lower", [text], VARCHAR) for text in operands]
            if pattern is not None:  # some engines take no other pattern than a constant
                small[1] = TypedValue(self._engine.text(pattern), VARCHAR)
            operands = small
        operation = "not like" if node.args.get("negate") else "like"
        given: list[TypedValue | str] = [operands[0], "pattern"]
        return self._made(operation, operands, BOOLEAN, pattern, given=given, word="like")

    def joined(self, node: exp.Expr) -> TypedValue:
        """Write ``||``, which is NULL if either is."""
        parts = [node.this, node.expression]
        while self._engine.joins_many and RULES.of(parts[0]) is RowExpressions.joined:
            parts[:1] = [parts[0].this, parts[0].expression]
        given = [self._operand("||", TEXTS, self._as_text("||", part)) for part in parts]
        for each in given[2:]:
            self._look_up("||", [VARCHAR.kind, each], [VARCHAR, each.type])
        return self._made("||", given, VARCHAR, given=given[:2])

    def concat(self, node: exp.Expr) -> TypedValue:
        """Write concat, which passes over NULL."""
        texts = self._strict([self._as_text("concat", n) for n in node.expressions])
        for text in texts:
            if text.type != UNTYPED:
                self._operand("concat", TEXTS, text)
        return self._made("concat", texts, VARCHAR)

    def _as_text(self, what: str, node: exp.Expr) -> TypedValue:
        found = self.value(node)
        if found.kind in ("VARCHAR", UNTYPED.kind):
            return found
        return self._cast(found.settled, VARCHAR)

    # -- dates --------------------------------------------------------------------------------

    def _moment(self, what: str, node: exp.Expr) -> TypedValue:
        return self._operand(what, MOMENTS, self.value(node))

    def extract(self, node: exp.Expr) -> TypedValue:
        word = (self._engine.part_named(node.this) or "").lower()
        part = PARTS.get(word)
        if part is None:
            raise self._refused(f"extract({word})", "it has no equal there")
        return self._computed(part.name, part.takes, part.gives, node.expression)

    def truncated(self, node: exp.Expr) -> TypedValue:
        unit = _unit(node)
        found = self._moment("date_trunc", node.this)
        if unit not in _UNITS:
            raise self._refused(f"date_trunc('{unit}')", "it has no equal there")
        return self._made("date_trunc", [found], TIMESTAMP, unit, unit=unit)

    def difference(self, node: exp.Expr) -> TypedValue:
        """Write date_diff: how many boundaries of units lie between; the later one is first."""
        unit = _unit(node)
        end, start = (self._moment("date_diff", n) for n in (node.this, node.expression))
        operation = f"date_diff {unit}"
        if operation not in self._engine.operations:
            raise self._refused(f"date_diff('{unit}')", "it has no equal there")
        if end.kind != start.kind and not self._engine.mixes:
            _, (end, start) = self._alike("date_diff", [end, start])
        return self._made(operation, [end, start], BIGINT, given=[start, end], unit=unit)

    def _moved(self, sign: str, moment: TypedValue, interval: exp.Interval) -> TypedValue:
        """Write a date or timestamp plus or minus a constant number of units."""
        found = _constant_interval(interval)
        computed = isinstance(interval.this, exp.Paren) and _INTERVAL.hold(interval)
        if moment.kind in MOMENTS and found is None and computed:
            return self._moved_by(sign, moment, interval)
        if moment.kind not in MOMENTS or found is None:
            raise self._refused(
                "an interval", "a constant number of units is added to a date there"
            )
        text, unit = found
        operation = f"{sign} interval"
        return self._made(operation, [moment], TIMESTAMP, text, unit, word=operation, unit=unit)

    def _moved_by(self, sign: str, moment: TypedValue, interval: exp.Interval) -> TypedValue:
        """Write a date or timestamp plus or minus a computed number of units."""
        unit, count = _unit(interval).removesuffix("s"), self.settled(interval.this)
        if count.kind == "DOUBLE" and unit != "second":  # of which fractions count
            count = self._cast(self._made("trunc double", [count], DOUBLE), BIGINT)
        operation = f"{sign} number of {unit}s"
        if operation not in self._engine.operations or count.kind not in INTEGERS:
            why = f"no {count.kind} number of this unit is added to a date there"
            raise self._refused("an interval", why)
        return self._made(operation, [moment, count], TIMESTAMP, word=operation, fails=True)

    def interval(self, node: exp.Expr) -> TypedValue:
        """Write a constant length of time, which lengths are compared with."""
        return TypedValue(self._operation("length of time")(self._length(node)), INTERVAL)

    def _length(self, node: exp.Expr | None) -> int:
        """Read a constant length of time, in microseconds. Raises ``QueryRefused`` for others."""
        found = _constant_interval(node)
        if found is None or found[1] not in _MICROSECONDS:
            why = "a length of time is a constant number of weeks, days, hours, or shorter there"
            raise self._refused("an interval", why)
        length = int(found[0]) * _MICROSECONDS[found[1]]
        if abs(length) > _LONGEST:  # a moment less by more is beyond what a server can hold
            raise self._refused("an interval", "a length of time is of 1000 years at most there")
        return length

    def bucket(self, node: exp.Expr) -> TypedValue:
        """Write time_bucket: the last moment by a number of whole lengths from 2000-01-03 on."""
        found, length = self._moment("time_bucket", node.expression), self._length(node.this)
        whole_days = length % _MICROSECONDS["day"] == 0
        if length <= 0 or (found.kind == "DATE" and not whole_days):
            raise self._refused("time_bucket", "its length is above zero, of dates in whole days")
        operation = f"time_bucket {'day' if found.kind == 'DATE' else 'moment'}"
        return self._made(operation, [found], found.type, length)

    def _of_dates(self, sign: str, one: TypedValue, two: TypedValue) -> TypedValue:
        if one.kind == two.kind == "DATE":
            return self._made(f"{sign} date", [one, two], BIGINT)
        if one.kind == "DATE" and two.kind in ("SMALLINT", "INTEGER"):
            return self._made(f"{sign} days", [one, two], DATE, fails=True)
        if {one.kind, two.kind} <= set(MOMENTS):
            _, moments = self._alike(sign, [one, two])
            return self._made(f"{sign} moments", moments, INTERVAL, word=f"{sign} moments")
        raise self._unfit(sign, [one, two])


def number_value(text: str, engine: RowEngine) -> TypedValue:
    """Write a number as written, in the type that DuckDB gives it."""
    type_ = number_type(text)
    if type_ is None:
        raise engine.refused("a number of that many digits", "no type there has them")
    constant = None if type_ == DOUBLE else int(text) if type_.kind in INTEGERS else text
    return TypedValue(engine.number(text, type_), type_, constant)


def _constant_interval(node: exp.Expr | None) -> tuple[str, str] | None:
    """Return the number and the unit of a constant interval; None for anything else."""
    if not isinstance(node, exp.Interval) or not _INTERVAL.hold(node):
        return None
    unit, count = _unit(node).removesuffix("s"), node.this
    text = count.name if isinstance(count, exp.Literal) and is_row_node(count) else ""
    return (text, unit) if unit in _UNITS and _COUNT.fullmatch(text) else None


def _sort(value: TypedValue) -> str:
    """Name the sort of a number: operations on integers of any size are written alike."""
    return "integer" if value.kind in INTEGERS else value.kind.lower()


def _unit(node: exp.Expr) -> str:
    return extracted_part(node.args.get("unit"))


def _called(node: exp.Expr) -> str:
    return node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower()


_Rule: TypeAlias = Callable[[RowExpressions, exp.Expr], TypedValue]
RULES: Final[Rules[_Rule]] = grouped_rules(
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
            exp.Extract: RowExpressions.extract,
            exp.DateBin: RowExpressions.bucket,
            **dict.fromkeys(_COMPARISONS, RowExpressions.comparison),
            **dict.fromkeys(_SIGNS, RowExpressions.arithmetic),
        },
        "this expression safe?": {exp.DPipe: RowExpressions.joined},
        "this expression negate": {exp.Like: RowExpressions.like, exp.ILike: RowExpressions.like},
        "this low high": {exp.Between: RowExpressions.between},
        "this expressions": {
            exp.Anonymous: RowExpressions.tried,
            exp.Coalesce: RowExpressions.coalesce,
            exp.In: RowExpressions.among,
        },
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
        "this expression position": {exp.Trim: RowExpressions.trim},
        "this unit": {
            exp.TimestampTrunc: RowExpressions.truncated,
            exp.DateTrunc: RowExpressions.truncated,
        },
        "this expression unit date_part_boundary?": {exp.DateDiff: RowExpressions.difference},
        "this unit?": {exp.Interval: RowExpressions.interval},
    },
    {node: reads(each.reads, RowExpressions.function) for node, each in ROW_FUNCTIONS.items()},
)
"""The rules by the arguments that they read."""
