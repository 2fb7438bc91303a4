"""Reads the single fields of a policies file."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic import (
    ValidationError,
    ValidationInfo,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from dpsql.accounting.zcdp import Composition
from dpsql.core.names import RULE, is_account_name
from dpsql.errors import ParameterError
from dpsql.policy.ledger_place import is_url
from dpsql.policy.limits import (
    ResourceFailures,
    limit_problem,
)
from dpsql.policy.model import (
    PLAIN_NAME,
    Link,
)
from dpsql.policy.parameters import (
    check_value,
)
from dpsql.policy.yaml_tree import Path

BOUND_LIMIT: Final = 2**53
"""Bounds stay where every whole number is an exact double."""


def _problem(message: str, hint: str | None = None) -> PydanticCustomError:
    # The message travels as data: as a template its braces would be filled in.
    return PydanticCustomError("policy", "{message}", {"message": message, "hint": hint})


def _raise_all(found: list[tuple[Path, PydanticCustomError]]) -> None:
    """Raise several problems at once, each at its own path below the value being validated."""
    if found:
        lines = [InitErrorDetails(type=error, loc=path, input=...) for path, error in found]
        raise ValidationError.from_exception_data("policy", lines)


def _from_parameter_error(error: ParameterError) -> PydanticCustomError:
    # dpsql's own limits need no advice; the hint is about queries and would only confuse here.
    return _problem(error.reason, None if error.code == "parameter_out_of_range" else error.hint)


def _parameter(value: object, info: ValidationInfo) -> object:
    try:
        return check_value(str(info.field_name), value)
    except ParameterError as error:
        raise _from_parameter_error(error) from None


def _limit(value: object, info: ValidationInfo) -> object:
    name = str(info.field_name)
    if name == "resource_failures" and isinstance(value, str) and value in set(ResourceFailures):
        value = ResourceFailures(value)
    problem = limit_problem(name, value)
    if problem is not None:
        reason, hint = problem
        raise _problem(reason, hint)
    return value


def _version(value: object) -> int:
    if type(value) is not int or value != 1:
        raise _problem("this dpsql reads version 1 only", "Write `version: 1`.")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise _problem(f"must be text, but is {_kind(value)}", "Put it in quotes.")
    if not value.strip() or value != value.strip() or not value.isprintable() or len(value) > 200:
        raise _problem(
            "must be 1 to 200 printable characters without spaces at the ends",
            "Choose a plain name.",
        )
    return value


def _ledger(value: object) -> str:
    if not isinstance(value, str):
        raise _problem(f"must be text, but is {_kind(value)}", "Put it in quotes.")
    if not value.strip() or value != value.strip() or not value.isprintable():
        raise _problem("is not a path", "Write it like `ledger: budget.db`, or remove it.")
    if is_url(value) and not value.startswith(("postgresql://", "postgres://")):
        raise _problem(
            "is neither a file nor a PostgreSQL database",
            "Write it like `ledger: postgresql://host/database`.",
        )
    return value


def _dataset(value: object) -> str:
    name = _name(value)
    if not is_account_name(name):
        raise _problem(f"the name {RULE}", PLAIN_NAME)
    return name


def _column_name(value: object) -> str:
    if not isinstance(value, str):
        raise _problem(f"must be text, but is {_kind(value)}", "Put it in quotes.")
    if not value:
        raise _problem("is empty", "Name the column that says whose row it is.")
    return value


def _composition(value: object) -> Composition:
    try:
        return Composition(value)  # type: ignore[arg-type]
    except ValueError:
        raise _problem(
            "must be zcdp or basic",
            "Write `composition: zcdp` (rho adds up: best for a session) or `composition: basic` "
            "(epsilon and delta add up: best for a single publication), or remove it.",
        ) from None


def _bound(value: object) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _problem(
            f"must be a number, but is {_kind(value)}",
            "Write the bound as a number in the column's own unit.",
        )
    if abs(value) > BOUND_LIMIT:
        raise _problem(
            f"must be within ±{BOUND_LIMIT} (2^53)",
            "Give the range that real values can have; noise grows with it.",
        )
    return value


def _domain(value: object) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _problem(f"must be a list, but is {_kind(value)}", "Write it as [a, b, c].")
    if not value:
        raise _problem("lists no values", "List every possible value, or remove the line.")
    kinds = [_DOMAIN_KINDS.get(type(item)) for item in value]
    if set(kinds) == {"a whole number", "a number"}:
        value, kinds = [float(item) for item in value], ["a number"] * len(kinds)
    first: dict[object, int] = {}
    found: list[tuple[Path, PydanticCustomError]] = []
    for position, (item, kind) in enumerate(zip(value, kinds, strict=True)):
        if kind is None:
            what = f"a domain holds text, numbers, true/false or dates, not {_kind(item)}"
            found.append(((position,), _problem(what, "Put it in quotes if it is text.")))
        elif kind != kinds[0]:
            what = f"{kind} in a domain that starts with {kinds[0] or 'something else'}"
            hint = "Use one kind of value; put text that looks like another kind in quotes."
            found.append(((position,), _problem(what, hint)))
        elif first.setdefault(item, position) != position:
            what = f"the same value as item {first[item] + 1}"
            found.append(((position,), _problem(what, "Keep one of the two.")))
    _raise_all(found)
    return tuple(value)


def _link(text: object) -> tuple[str, Link]:
    """``child.column -> parent.column`` as the child's name and its link."""
    found = _LINK.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise _problem(
            "must be `child.column -> parent.column`",
            "For example `lineitem.l_orderkey -> orders.o_orderkey`. Put names with dots or spaces "
            "in double quotes, and the whole in single quotes.",
        )
    child, column, parent, parent_column = (name.strip('"') for name in found.groups())
    return child, Link(column, parent, parent_column)


def _links(value: object) -> tuple[tuple[str, Link], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _problem(
            f"must be a list, but is {_kind(value)}",
            "Write each link on a line of its own, with -.",
        )
    links: list[tuple[str, Link]] = []
    found: list[tuple[Path, PydanticCustomError]] = []
    for position, item in enumerate(value):
        try:
            links.append(_link(item))
        except PydanticCustomError as error:
            found.append(((position,), error))
    _raise_all(found)
    return tuple(links)


_NAME = r'("[^"]+"|[^\s."]+)'
_LINK: Final = re.compile(rf"\s*{_NAME}\.{_NAME}\s*->\s*{_NAME}\.{_NAME}\s*")


def _section(value: object) -> object:
    """A group with nothing (or only comments) below it is an empty group."""
    return {} if value is None else value


_DOMAIN_KINDS: Final[Mapping[type, str]] = {
    str: "text",
    bool: "true/false",
    int: "a whole number",
    float: "a number",
    datetime.date: "a date",
    datetime.datetime: "a timestamp",
}


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, dict):
        return "a group"
    return "a list" if isinstance(value, list) else _DOMAIN_KINDS.get(type(value), "invalid")


# ----------------------------------------------------------------------------- models

# Descriptions and JSON schemas are what editors and docs/policies.md show. The validators above
# decide; a schema says of them what can be said without looking at other values.


_Json: TypeAlias = dict[str, Any]
