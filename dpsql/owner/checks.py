"""Facts about columns in CHECK constraints: the bounds of their values, or a list of them.

A condition holds for every row unless a NULL leaves it undecided. So what is found here holds for
every value that is not NULL. Only the simple forms are read: comparisons of a column with a
constant, BETWEEN, IN, and what AND and OR make of them; all others say nothing.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp, parse_one

from dpsql.core.schema import Column, Table, fold
from dpsql.owner.declared_values import held_value
from dpsql.policy.model import ColumnPolicy
from dpsql.syntax.parse import MISREAD

_DIALECT: Final = "postgres"  # which reads what DuckDB writes of conditions, too
MAX_RANGE: Final = 31
"""How many whole numbers between two bounds are a list of values, such as months and days."""
_MOST_EXACT: Final = 2**53
_WHOLE: Final = frozenset(
    {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT, exp.DType.INT128}
)
_FRACTIONS: Final = frozenset({exp.DType.DECIMAL, exp.DType.FLOAT, exp.DType.DOUBLE})
_TEXTS: Final = frozenset({exp.DType.TEXT, exp.DType.VARCHAR})
_TRUTHS: Final = {"t": "True", "f": "False"}  # as DuckDB 1 writes them
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of the values of a column: a lower end, an upper one, or all values."""

    lower: int | float | None = None
    upper: int | float | None = None
    values: tuple[object, ...] | None = None

    @property
    def bounded(self) -> bool:
        """True if both ends are known, and are two."""
        return self.lower is not None and self.upper is not None and self.lower < self.upper

    @property
    def one_ended(self) -> bool:
        """True if one end is known, and the other one is not."""
        return (self.lower is None) is not (self.upper is None)

    @property
    def policy(self) -> ColumnPolicy | None:
        """The same as a policy declares it; None where it cannot."""
        if not self.bounded and self.values is None:
            return None
        ends = (self.lower, self.upper) if self.bounded else (None, None)
        return ColumnPolicy(*ends, self.values)


_Found: TypeAlias = Mapping[str, Checked]


class _Constant(NamedTuple):
    """A constant of a condition: its kind, and its text."""

    kind: str
    text: str


def checked_values(table: Table, conditions: Iterable[str], most: int) -> Mapping[str, Checked]:
    """Return what conditions say of a table's columns, by their folded names.

    Lists of more than ``most`` values are not returned.
    """
    found: _Found = {}
    for text in conditions:
        try:
            tree = parse_one(text, read=_DIALECT)
        except MISREAD:
            continue
        found = _both(found, _said(tree, table))
    whole = {fold(column.name) for column in table.columns if column.type.is_integer}
    listed = {name: _complete(each, name in whole) for name, each in found.items()}
    short = {
        name: replace(each, values=None) if len(each.values or ()) > most else each
        for name, each in listed.items()
    }
    return {name: each for name, each in short.items() if each != Checked()}


def _complete(found: Checked, whole: bool) -> Checked:
    """Add the ends of a list of numbers, and the list of a few ``whole`` ones between two ends.

    Drops what contradicts itself.
    """
    if found.values is not None and not found.values:
        return Checked()
    numbers = [v for v in found.values or () if isinstance(v, int | float) and type(v) is not bool]
    if numbers and len(numbers) == len(found.values or ()):
        return Checked(min(numbers), max(numbers), found.values)
    if found.lower is not None and found.upper is not None and found.lower > found.upper:
        return Checked()
    if whole and found.values is None and found.lower is not None and found.upper is not None:
        between = range(math.ceil(found.lower), math.floor(found.upper) + 1)
        return replace(found, values=tuple(between)) if len(between) <= MAX_RANGE else found
    return found


def _said(node: exp.Expr, table: Table) -> _Found:
    """Return what a condition says of columns."""
    node = node.unnest()
    if isinstance(node, exp.And):
        return _both(_said(node.left, table), _said(node.right, table))
    if isinstance(node, exp.Or):
        return _either(list(node.flatten()), table)
    if isinstance(node, exp.Between):
        if node.args.get("symmetric"):
            return {}
        low, high = node.args["low"], node.args["high"]
        return _both(
            _compared(exp.GTE, node.this, low, table), _compared(exp.LTE, node.this, high, table)
        )
    if isinstance(node, exp.In):
        plain = {name for name, value in node.args.items() if value} == {"this", "expressions"}
        return _listed(node.this, node.expressions, table) if plain else {}
    if isinstance(node, exp.EQ):
        if isinstance(node.right, exp.Any):
            return _listed(node.left, _elements(node.right.this), table)
        return _listed(node.left, [node.right], table) or _listed(node.right, [node.left], table)
    if isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return _compared(type(node), node.left, node.right, table) or _compared(
            _MIRRORED[type(node)], node.right, node.left, table
        )
    return {}


def _both(one: _Found, other: _Found) -> _Found:
    """Combine the facts of two conditions, both of which hold."""
    return {
        name: _narrowed(one.get(name, Checked()), other.get(name, Checked()))
        for name in dict.fromkeys((*one, *other))
    }


def _narrowed(one: Checked, other: Checked) -> Checked:
    lower = [end for end in (one.lower, other.lower) if end is not None]
    upper = [end for end in (one.upper, other.upper) if end is not None]
    values = one.values if other.values is None else other.values
    if one.values is not None and other.values is not None:
        values = tuple(value for value in one.values if value in other.values)
    return Checked(max(lower, default=None), min(upper, default=None), values)


def _either(branches: Sequence[exp.Expr], table: Table) -> _Found:
    """Combine the facts of conditions of an OR: a column has a value from any of their lists.

    ``x IS NULL`` says nothing of values of x, and leaves open those of all other columns.
    """
    empty = {_null(branch, table) for branch in branches} - {None}
    found = [_said(branch, table) for branch in branches if _null(branch, table) is None]
    if not found:
        return {}
    names = reduce(lambda names, each: names & each.keys(), found[1:], set(found[0]))
    if empty:
        names = names & empty if len(empty) == 1 else set()
    if len(found) == 1:
        return {name: found[0][name] for name in names}
    lists = {name: [each[name].values for each in found] for name in sorted(names)}
    return {
        name: Checked(values=tuple(dict.fromkeys(v for values in each for v in values or ())))
        for name, each in lists.items()
        if None not in each
    }


def _null(node: exp.Expr, table: Table) -> str | None:
    """Return the name of the column that a condition wants to be NULL; None without one."""
    node = node.unnest()
    if not isinstance(node, exp.Is) or not isinstance(node.expression, exp.Null):
        return None
    column = _column(node.this, table)
    return None if column is None else fold(column.name)


def _compared(kind: type[exp.Expr], column: exp.Expr, end: exp.Expr, table: Table) -> _Found:
    """Return the end that a comparison of a column with a constant sets."""
    found, constant = _column(column, table), _constant(end)
    if found is None or constant is None or not found.type.is_numeric:
        return {}
    number = _number(constant)
    if number is None or abs(number) >= _MOST_EXACT:
        return {}
    below = kind in (exp.GT, exp.GTE)
    if found.type.is_integer:
        whole = math.ceil(number) if below else math.floor(number)
        strict = kind in (exp.GT, exp.LT) and whole == number
        value: int | float = whole + (strict if below else -strict)
    else:
        value = _plain(number)
    return {fold(found.name): Checked(lower=value) if below else Checked(upper=value)}


def _listed(column: exp.Expr, values: Sequence[exp.Expr], table: Table) -> _Found:
    """Return the values that a column is said to have one of."""
    found = _column(column, table)
    if found is None or not values:
        return {}
    listed = []
    for each in values:
        constant = _constant(each)
        value = None if constant is None else _value(constant, found)
        if value is None or held_value(value, found.type) is None:
            return {}
        listed.append(value)
    return {fold(found.name): Checked(values=tuple(dict.fromkeys(listed)))}


def _elements(node: exp.Expr) -> list[exp.Expr]:
    """Return the elements of a list, also of one that is cast to a list of texts."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and [t.this for t in node.to.expressions] == [exp.DType.TEXT]:
        node = node.this.unnest()
    return node.expressions if isinstance(node, exp.Array) else []


def _column(node: exp.Expr, table: Table) -> Column | None:
    """Find the column of an expression without anything else, casts of texts to texts apart."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.this in _TEXTS and not node.to.expressions:
        found = _column(node.this, table)
        return found if found is not None and found.type.is_text else None
    if not isinstance(node, exp.Column) or node.table:
        return None
    return table.spelled(node.name)


def _constant(node: exp.Expr) -> _Constant | None:
    """Read a constant that casts, if there are any, leave as it is."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        found = _constant(node.this)
        negative = found is not None and found.kind == "number"
        return _Constant("number", f"-{found.text}") if negative and found is not None else None
    if isinstance(node, exp.Literal):
        return _Constant("text" if node.is_string else "number", node.this)
    if isinstance(node, exp.Boolean):
        return _Constant("truth", str(node.this))
    if not isinstance(node, exp.Cast) or node.to.expressions or isinstance(node, exp.TryCast):
        return None
    found, to = _constant(node.this), node.to.this
    if found is None or found.kind == "truth":
        return None
    if to is exp.DType.BOOLEAN and found.text in _TRUTHS:
        return _Constant("truth", _TRUTHS[found.text])
    if to in _TEXTS or to is exp.DType.DATE:
        return found if found.kind == "text" else None
    number = _number(found._replace(kind="number")) if to in _WHOLE | _FRACTIONS else None
    if number is None or (to in _WHOLE and number != number.to_integral_value()):
        return None
    return found._replace(kind="number")


def _number(constant: _Constant) -> Decimal | None:
    try:
        number = Decimal(constant.text) if constant.kind == "number" else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _plain(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() else float(number)


def _value(constant: _Constant, column: Column) -> object:
    """Return a constant as a value of a column, as policies list them; None if it is none."""
    kind, number = column.type.kind, _number(constant)
    if column.type.is_text:
        return constant.text if constant.kind == "text" else None
    if kind == "BOOLEAN":
        return (
            {"True": True, "False": False}.get(constant.text) if constant.kind == "truth" else None
        )
    if kind == "DATE" and constant.kind == "text":
        try:
            return datetime.date.fromisoformat(constant.text)
        except ValueError:
            return None
    exact = (
        column.type.is_integer or column.type.is_decimal
    )  # two texts of a float may be one value
    return _plain(number) if number is not None and exact else None
