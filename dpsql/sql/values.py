"""Query parameters: their values become literals of the syntax tree, never text of the query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
from sqlglot import exp

from dpsql.errors import ParameterError, ProgrammingError
from dpsql.sql.parse import MAX_LENGTH, parse, place_of

Values = Sequence[object] | Mapping[str, object]

_INTEGERS = range(-(2**127), 2**127)


def bind_values(tree: exp.Query, values: Values, text: str) -> exp.Query:
    """The tree with every query parameter replaced by the literal of its value.

    A sequence gives the values of ``?`` in order, and of ``$1``, ``$2``, …; a mapping those of
    ``$name`` and ``:name``. Raises ``ProgrammingError`` if values are missing or left over, and
    ``ParameterError`` for a value that no SQL literal can hold.
    """
    if not values and not tree.find(exp.Placeholder):
        return tree
    marks = sorted(tree.find_all(exp.Placeholder), key=lambda mark: mark.meta.get("start", 0))
    names = _names(marks, values, text)
    literals = {name: _literal(name, value) for name, value in _given(values).items()}
    missing = [mark for mark, name in zip(marks, names, strict=True) if name not in literals]
    if missing:
        raise ProgrammingError(
            "a query parameter has no value",
            code="parameter_missing",
            place=place_of(text, missing[0]),
            hint="Pass the values of ? as a sequence, those of $name or :name as a mapping.",
        )
    unused = set(literals) - set(names)
    if unused:
        raise ProgrammingError(
            f"{len(literals)} values are given, but the query has {len(set(names))} parameters",
            code="parameter_unused",
        )
    for mark, name in zip(marks, names, strict=True):
        mark.replace(literals[name].copy())
    return tree


def parameter_names(text: str) -> tuple[str, ...]:
    """What ``$name`` and ``:name`` name in a query, each once. Raises as ``parse`` does."""
    marks = parse(text).find_all(exp.Placeholder)
    return tuple(dict.fromkeys(str(mark.name) for mark in marks if mark.this))


def values_key(values: Values) -> object:
    """The values as a key to remember a statement by; types tell 1, 1.0 and TRUE apart."""
    return tuple((name, type(value), repr(value)) for name, value in _given(values).items())


def _names(marks: list[exp.Placeholder], values: Values, text: str) -> list[str]:
    """What each parameter is called; plain question marks count from 1."""
    written = [str(mark.name) if mark.this else "" for mark in marks]
    if "" in written and any(written):
        raise ProgrammingError(
            "? cannot be mixed with named or numbered parameters",
            code="parameter_styles_mixed",
            place=place_of(text, marks[written.index("")]),
        )
    return [name or str(position) for position, name in enumerate(written, start=1)]


def _given(values: Values) -> dict[str, object]:
    if isinstance(values, Mapping):
        return {str(name): value for name, value in values.items()}
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ProgrammingError(
            "the values of query parameters must be a list, a tuple or a mapping",
            code="bad_values",
        )
    return {str(position): value for position, value in enumerate(values, start=1)}


def _literal(name: str, value: object) -> exp.Expr:
    """The literal of a value. Raises ``ParameterError``; values are never quoted back."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str) and len(value) <= MAX_LENGTH and _is_unicode(value):
        return exp.Literal.string(value)
    if isinstance(value, int) and value in _INTEGERS:
        return _number(str(abs(value)), negative=value < 0)
    if isinstance(value, float) and math.isfinite(value):
        return _number(repr(abs(value)), negative=value < 0)
    if isinstance(value, Decimal) and value.is_finite() and len(f"{value:f}") <= 40:
        return _number(f"{abs(value):f}", negative=value < 0)
    if isinstance(value, datetime) and value.tzinfo is None:
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
    if isinstance(value, date) and not isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
    if isinstance(value, time) and value.tzinfo is None:
        return exp.cast(exp.Literal.string(value.isoformat()), "TIME")
    raise ParameterError(
        f"the value of query parameter {name[:40]} is of type {type(value).__name__} and cannot be "
        "written in SQL",
        code="bad_value",
        hint="Values are None, bool, int (128 bits), finite float or Decimal, str, date, or "
        "datetime and time without a time zone.",
    )


def _number(digits: str, *, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _is_unicode(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
