"""Reads what an owner decides for a draft: units, bounds, domains, budgets."""

from __future__ import annotations

import datetime
import math
from typing import Final

from dpsql.core.formatting import printable
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName, read_parts, written_part
from dpsql.errors import ParameterError
from dpsql.owner.conformance import shown_type
from dpsql.policy.fields import link_of
from dpsql.policy.model import ColumnPolicy
from dpsql.policy.parameters import check_value, suggestion


def column_named(schema: Schema, text: str) -> tuple[Table, Column]:
    """Return the column that ``table.column`` or ``schema.table.column`` names.

    A column that is called like no other needs no table. Parts with dots stand in double quotes.
    Raises ``ParameterError``.
    """
    parts = read_parts(text.strip())
    if len(parts) == 1:
        found = [(t, column) for t in schema.values() if (column := t.column(parts[0].strip()))]
        if len(found) == 1:
            return found[0]
        if found:
            raise wrong_option(
                f"several tables have a column {text.strip()[:80]}",
                "Write the table in front: TABLE.COLUMN.",
            )
    if len(parts) in (2, 3):
        table = schema.get(TableName(*reversed(parts[:-1])).key)
        column = None if table is None else table.column(parts[-1].strip())
        if table is not None and column is not None:
            return table, column
    spelled = tuple(
        f"{table.name}.{written_part(column.name)}"
        for table in schema.values()
        for column in table.columns
    )
    hint = _known(text, spelled)
    if any(fold(text.strip()).startswith(f"{fold(each)}.") for each in spelled):
        hint = "A part of a value is no column. Write the data again with a column of its own."
    raise wrong_option(f"there is no column {text.strip()[:80]}", hint)


def linked_columns(
    schema: Schema, child: str, parent: str
) -> tuple[Table, Table, list[tuple[Column, Column]]]:
    """Return two tables and the columns that a link compares: one each, or as many in brackets.

    Raises ``ParameterError``.
    """
    if not (child.strip().endswith(")") and parent.strip().endswith(")")):
        (table, column), (other, key) = column_named(schema, child), column_named(schema, parent)
        return table, other, [(column, key)]
    found = link_of(f"{child} -> {parent}")
    if found is None:
        raise wrong_option(
            f"not a link: {child.strip()[:80]}={parent.strip()[:80]}",
            "Write as many columns on both sides: TABLE.(A, B)=TABLE.(C, D).",
        )
    name, link = found
    ends = [
        [
            column_named(schema, ".".join(map(written_part, (of.schema, of.table, column))))
            for column in columns
        ]
        for of, columns in ((name, link.columns), (link.parent, link.parent_columns))
    ]
    pairs = [(one, two) for (_, one), (_, two) in zip(*ends, strict=True)]
    return ends[0][0][0], ends[1][0][0], pairs


def column_in(table: Table, name: str) -> Column:
    """Find the column of that name. Raises ``ParameterError``."""
    found = table.column(name.strip())
    if found is None:
        names = tuple(column.name for column in table.columns)
        what = f"{printable(str(table.name))} has no column {name.strip()[:80]}"
        raise wrong_option(what, _known(name, names))
    return found


def table_named(schema: Schema, text: str) -> Table:
    """Return the table of that name. Raises ``ParameterError``."""
    name = TableName.read(text.strip())
    found = None if name is None else schema.get(name.key)
    if found is None:
        names = tuple(str(table.name) for table in schema.values())
        raise wrong_option(f"there is no table {text.strip()[:80]}", _known(text, names))
    return found


def bounds_of(text: str) -> ColumnPolicy:
    """Read ``LOW:HIGH`` as bounds. Raises ``ParameterError``."""
    low, colon, high = text.partition(":")
    try:
        bounds = [_number(part) for part in (low, high)] if colon else []
    except ValueError:
        bounds = []
    if not bounds or not bounds[0] < bounds[1]:
        raise wrong_option(f"not bounds: {text[:80]}", "Write LOW:HIGH, such as 0:100.")
    return ColumnPolicy(bounds[0], bounds[1])


def domain_of(text: str, column: Column) -> ColumnPolicy:
    """Read ``a,b,c`` as the values of a column, in its type. Raises ``ParameterError``."""
    try:
        values = tuple(_value(part.strip(), column.type) for part in text.split(","))
    except ValueError:
        raise wrong_option(
            f"{column.name} is {shown_type(column.type)}, and some values of its domain are not",
            "Write values with commas between them, such as a,b,c.",
        ) from None
    return ColumnPolicy(domain=values)


def asked_budget(text: str) -> tuple[float, float]:
    """Read ``EPSILON,DELTA``, within dpsql's limits. Raises ``ParameterError``."""
    parts = text.split(",")
    try:
        epsilon, delta = map(float, parts)
    except ValueError:
        raise wrong_option(
            f"not a budget: {text[:80]}", "Write EPSILON,DELTA, such as 3,1e-6."
        ) from None
    check_value("epsilon", epsilon)
    check_value("delta", delta)
    return epsilon, delta


def _known(text: str, names: tuple[str, ...]) -> str:
    if not names:
        return "The database has no tables: check that it is the right file."
    shown = f"There are: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}."
    return suggestion(text.strip(), names) or shown


def wrong_option(reason: str, hint: str) -> ParameterError:
    return ParameterError(reason, code="draft_unclear", hint=hint)


def _number(text: str) -> float | int:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _value(text: str, type_: SqlType) -> object:
    """Read a value of a column's type. Raises ValueError."""
    if type_.is_integer:
        return int(text)
    if type_.is_float or type_.is_decimal:
        return _number(text)
    if type_.kind == "BOOLEAN":
        return _truth(text)
    if type_.kind == "DATE":
        return datetime.date.fromisoformat(text)
    if type_.kind.startswith("TIMESTAMP"):
        return datetime.datetime.fromisoformat(text)
    return text


def _truth(text: str) -> bool:
    if fold(text) not in _TRUTHS:
        raise ValueError(text)
    return fold(text) == "true"


# -- guesses ------------------------------------------------------------------------------------


_TRUTHS: Final = frozenset({"true", "false"})
