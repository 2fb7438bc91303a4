"""Query parameters: their values become literals of the syntax tree, never text of the query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal

from sqlglot import exp

from dpsql.core.plain import plain_items, plain_or, type_name
from dpsql.errors import ParameterError, ProgrammingError
from dpsql.syntax.parse import MAX_LENGTH, parse, place_of
from dpsql.syntax.text import put, to_sql

PlaceholderValues = Sequence[object] | Mapping[str, object]

MAX_PLACEHOLDERS = 3_000
MAX_PLACEHOLDER_TEXT = 500_000
"""Characters of all texts among the values, each as often as it is named."""
_MAX_DIGITS = 38


def plain_values(passed: object) -> PlaceholderValues:
    """Turn the values of query parameters into built-in ones, whatever objects were passed.

    Raises ``ProgrammingError`` (``bad_values``, ``too_many_values``) if they are no sequence and
    no mapping, and ``ParameterError`` (``bad_value``) for values that no SQL literal can hold or
    that are too long.
    """
    found = plain_items(passed, MAX_PLACEHOLDERS)
    given = found if isinstance(found, dict) else _numbered(found)
    values = {name: plain_or(value, ...) for name, value in given.items()}
    _refuse_long(values.values())
    for name, value in values.items():
        if not _has_literal(value):
            raise _no_literal(name, given[name])
    return values if isinstance(found, dict) else tuple(values.values())


def bind_values(tree: exp.Query, values: PlaceholderValues, text: str) -> exp.Query:
    """Replace every query parameter of a tree by the literal of its value.

    A sequence gives the values of ``?`` in order, and of ``$1``, ``$2``, …; a mapping those of
    ``$name`` and ``:name``. Raises ``ProgrammingError`` if values are missing or left over, and
    ``ParameterError`` for values that are too long, or that no SQL literal can hold.
    """
    if not values and not tree.find(exp.Placeholder):
        return tree
    marks = _marks(tree)
    names = _names(marks, text)
    given = _given(plain_values(values))
    missing = [mark for mark, name in zip(marks, names, strict=True) if name not in given]
    if missing:
        raise ProgrammingError(
            "a query parameter has no value",
            code="parameter_missing",
            place=place_of(text, missing[0]),
            hint="Pass the values of ? as a sequence, those of $name or :name as a mapping.",
        )
    unused = set(given) - set(names)
    if unused:
        raise ProgrammingError(
            f"{len(given)} values are given, but the query has {len(set(names))} parameters",
            code="parameter_unused",
        )
    _refuse_long(given[name] for name in names)
    for mark, name in zip(marks, names, strict=True):
        put(mark, literal_node(given[name]))
    return tree


def parameter_names(text: str) -> tuple[str, ...]:
    """List the names of ``$name`` and ``:name`` in a query, each once. Raises as ``parse`` does."""
    marks = parse(text).find_all(exp.Placeholder)
    return tuple(dict.fromkeys(str(mark.name) for mark in marks if mark.this))


def query_parameters(text: str) -> tuple[str, ...]:
    """List a query's parameters in their order, each once; ``?`` are counted from 1.

    Raises as ``parse`` does, and ``ProgrammingError`` for parameters of several styles.
    """
    return tuple(dict.fromkeys(_names(_marks(parse(text)), text)))


def literals(values: PlaceholderValues) -> dict[str, str]:
    """Write the SQL of the values of query parameters, by name. They must be plain ones."""
    return {name: to_sql(literal_node(value)) for name, value in _given(values).items()}


def values_key(values: PlaceholderValues) -> object:
    """Build a key to remember a statement's values by; types tell 1, 1.0 and TRUE apart."""
    return tuple((name, type(value), repr(value)) for name, value in _given(values).items())


def _marks(tree: exp.Query) -> list[exp.Placeholder]:
    """List the query parameters of a query, in the order of its text."""
    return sorted(tree.find_all(exp.Placeholder), key=lambda mark: mark.meta.get("start", 0))


def _names(marks: list[exp.Placeholder], text: str) -> list[str]:
    """Name each parameter; plain question marks count from 1."""
    written = [str(mark.name) if mark.this else "" for mark in marks]
    if "" in written and any(written):
        raise ProgrammingError(
            "? cannot be mixed with named or numbered parameters",
            code="parameter_styles_mixed",
            place=place_of(text, marks[written.index("")]),
        )
    return [name or str(position) for position, name in enumerate(written, start=1)]


def _given(values: PlaceholderValues) -> dict[str, object]:
    return dict(values) if isinstance(values, Mapping) else _numbered(values)


def _numbered(values: Sequence[object]) -> dict[str, object]:
    return {str(position): value for position, value in enumerate(values, start=1)}


def _no_literal(name: str, value: object) -> ParameterError:
    """Build the error for a value, which is never quoted back."""
    return ParameterError(
        f"the value of query parameter {name[:40]} is of type {type_name(value)} and cannot be "
        "written in SQL",
        code="bad_value",
        hint="Values are None, bool, int (128 bits), finite float or Decimal (38 digits), str, "
        "date, or datetime and time to the microsecond and without a time zone.",
    )


def _has_literal(value: object) -> bool:
    match value:
        case None | bool():
            return True
        case int():
            return -(2**127) <= value < 2**127
        case float():
            return math.isfinite(value)
        case str():
            return len(value) <= MAX_LENGTH and _is_unicode(value)
        case Decimal():
            return _is_short(value)
        case datetime() | time():
            return value.tzinfo is None
    return isinstance(value, date)


def _is_short(value: Decimal) -> bool:
    """Tell whether there are at most 38 digits around the point, zeros at the ends included."""
    if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS:
        return False
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole, fraction = max(len(digits) + exponent, 1), max(-exponent, 0)
    return whole + fraction <= _MAX_DIGITS


def _refuse_long(values: Iterable[object]) -> None:
    texts = (value for value in values if isinstance(value, str))
    if sum(map(len, texts)) > MAX_PLACEHOLDER_TEXT:
        raise ParameterError(
            f"the texts among the values are longer than {MAX_PLACEHOLDER_TEXT:,} characters "
            "in all",
            code="bad_value",
            hint="Long lists of values belong in a public table that the query joins.",
        )


def literal_node(value: object) -> exp.Expr:
    """Write the literal of a value that has one."""
    match value:
        case None:
            return exp.null()
        case bool():
            return exp.Boolean(this=value)
        case str():
            return exp.Literal.string(value)
        case int():
            return _number(str(abs(value)), negative=value < 0)
        case float():
            return _number(repr(abs(value)), negative=value < 0)
        case Decimal():
            return _number(f"{value.copy_abs():f}", negative=value < 0)
        case datetime():
            return _cast(value.isoformat(sep=" "), exp.DType.TIMESTAMP)
        case date():
            return _cast(value.isoformat(), exp.DType.DATE)
        case time():
            return _cast(value.isoformat(), exp.DType.TIME)
    raise AssertionError("values are made plain first")


def _cast(text: str, type_: exp.DType) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=type_, nested=False))


def _number(digits: str, *, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _is_unicode(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
