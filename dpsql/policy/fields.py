"""Checks single values of a policies file, as far as their types do not say it already."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from dpsql.core.names import RULE, is_account_name
from dpsql.core.periods import Period, zone_named
from dpsql.core.schema import fold
from dpsql.core.sql_types import TYPE_HINT, SqlType
from dpsql.core.table_name import MAIN, TableName, unquoted
from dpsql.errors import ParameterError
from dpsql.policy.ledger_place import is_url
from dpsql.policy.limits import BoundingLimit, ResourceFailures, limit_problem
from dpsql.policy.model import PLAIN_NAME, Link
from dpsql.policy.parameters import AUTO, COUNT_LIMITS, PARAMETERS, Automatic, check_value
from dpsql.policy.yaml_tree import Path
from dpsql.privacy.accounting.zcdp import Composition

BOUND_LIMIT: Final = 2**53
"""Bounds stay where every whole number is an exact double."""
MAX_NAME: Final = 200
JsonSchema: TypeAlias = dict[str, Any]


def problem_with(message: str, hint: str | None = None) -> PydanticCustomError:
    """Build pydantic's error for a problem, in dpsql's words."""
    # The message travels as data: as a template its braces would be filled in.
    return PydanticCustomError("policy", "{message}", {"message": message, "hint": hint})


def raise_all(found: list[tuple[Path, PydanticCustomError]]) -> None:
    """Raise several problems at once, each at its own path below the value being validated."""
    if found:
        lines = [InitErrorDetails(type=error, loc=path, input=...) for path, error in found]
        raise ValidationError.from_exception_data("policy", lines)


def checked_parameter(value: object, info: ValidationInfo) -> object:
    """Check the value of the privacy parameter that the field is named after."""
    try:
        return check_value(str(info.field_name), value)
    except ParameterError as error:
        # dpsql's own limits need no advice; the hint is about queries and would only confuse here.
        hint = None if error.code == "parameter_out_of_range" else error.hint
        raise problem_with(error.reason, hint) from None


def checked_default(value: object, info: ValidationInfo) -> object:
    """Check the default of the privacy parameter that the field is named after.

    None for a δ that is a part of the account's.
    """
    if info.field_name == "delta" and isinstance(value, str) and fold(value) == AUTO:
        return None
    return checked_parameter(value, info)


def checked_parameter_maximum(value: object, info: ValidationInfo) -> object:
    """Check a query's maximum for the parameter that names the field."""
    checked = checked_parameter(value, info)
    if isinstance(checked, Automatic):
        spec = PARAMETERS[info.field_name or ""]
        raise problem_with(
            f"must be a number{', or `unlimited`' if spec.unlimited else ''}",
            "`auto` is a default; a maximum limits it, too.",
        )
    return checked


def checked_agent_limit(value: object, info: ValidationInfo) -> object:
    """Check a limit of what agents spend: an epsilon like any."""
    try:
        return check_value("epsilon", value)
    except ParameterError as error:
        hint = "Leave it out for no limit of its own."
        raise problem_with(error.reason.removeprefix("epsilon "), hint) from None


CONVERSION_LIMITS: Final = (0.01, 0.99)
"""The least and the most part of an account's delta that may be for its conversion."""


def checked_conversion_share(value: object, info: ValidationInfo) -> float:
    """Check the share of an account's delta that converts rho to epsilon."""
    low, high = CONVERSION_LIMITS
    if not (isinstance(value, float) and low <= value <= high):
        raise problem_with(
            f"must be a number from {low} to {high}",
            "It is a part of delta: 0.5 is half of it, 0.95 suits accounts with declared keys.",
        )
    if info.data.get("composition") is Composition.BASIC:
        raise problem_with(
            "means nothing under `composition: basic`, which converts nothing", "Remove it."
        )
    return value


def checked_limit(value: object, info: ValidationInfo) -> object:
    """Check the value of the limit that the field is named after."""
    name = str(info.field_name)
    if name == "resource_failures" and isinstance(value, str) and value in set(ResourceFailures):
        value = ResourceFailures(value)
    if name == "bounding" and isinstance(value, str) and value in set(BoundingLimit):
        value = BoundingLimit(value)
    problem = limit_problem(name, value)
    if problem is not None:
        raise problem_with(*problem)
    return value


def _version(value: object) -> int:
    # Not Literal[1], of which pydantic thinks that 1.0 and true are.
    if type(value) is not int or value != 1:
        raise problem_with("this dpsql reads version 1 only", "Write `version: 1`.")
    return value


def _name(value: str) -> str:
    if not _is_plain(value) or len(value) > MAX_NAME:
        what = f"must be 1 to {MAX_NAME} printable characters without spaces at the ends"
        raise problem_with(what, PLAIN_NAME)
    return value


def _is_plain(value: str) -> bool:
    return bool(value) and value == value.strip() and value.isprintable()


def _edition(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError("an edition is a word or two, like 2026-11")
    return value


def _dataset(value: str) -> str:
    if not is_account_name(value):
        raise problem_with(f"the name {RULE}", PLAIN_NAME)
    return value


def _account_name(value: str) -> str:
    # The ledger joins names by slashes: a/b would be the account b below the analyst a.
    if not is_account_name(value):
        raise problem_with(f"an account's name {RULE}", PLAIN_NAME)
    return value


def _ledger(value: str) -> str:
    if not _is_plain(value):
        raise problem_with("is not a path", "Write it like `ledger: budget.db`, or remove it.")
    if is_url(value) and not value.startswith(("postgresql://", "postgres://")):
        raise problem_with(
            "is neither a file nor a PostgreSQL database",
            "Write it like `ledger: postgresql://host/database`.",
        )
    return value


def _directory(value: str) -> str:
    if not _is_plain(value) or is_url(value):
        raise problem_with(
            "is not a directory", "Write it like `directory: clinic.views`, or remove it."
        )
    return value


def _zone(value: str) -> str:
    try:
        zone_named(value)
    except ParameterError as error:
        raise problem_with(error.reason, error.hint) from None
    return value


def _period(value: str) -> str:
    try:
        Period.read(value, "every")
    except ParameterError as error:
        raise problem_with(error.reason, error.hint) from None
    return value


def _rows_per_unit(value: object) -> int:
    low, high = COUNT_LIMITS
    if type(value) is not int or not low <= value <= high:
        raise problem_with(f"must be a whole number from {low} to {high}", "Write 1, or remove it.")
    return value


def _type(value: str) -> str:
    found = SqlType.of(value).declared
    if found is None:
        raise problem_with(
            "is no type that a column can have", f"{TYPE_HINT} Put types with commas in quotes."
        )
    return str(found)


def _bound(value: object) -> float | int | datetime.date:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        raise problem_with("must have no time zone", "Write it as it is in UTC, without a zone.")
    if isinstance(value, datetime.date):
        return value
    # Not a float of pydantic's, which would round integers before they are compared.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise problem_with(
            f"must be a number or a date, but is {kind_in_words(value)}",
            "Write the bound as a number in the column's own unit, or as a date: 2020-01-01.",
        )
    if abs(value) > BOUND_LIMIT:
        raise problem_with(
            f"must be within ±{BOUND_LIMIT} (2^53)",
            "Give the range that real values can have; noise grows with it.",
        )
    return value


def _domain(value: list[Any]) -> list[Any]:
    kinds = [_DOMAIN_KINDS.get(type(item)) for item in value]
    if set(kinds) == {"a whole number", "a number"}:
        value, kinds = [float(item) for item in value], ["a number"] * len(kinds)
    first: dict[object, int] = {}
    found: list[tuple[Path, PydanticCustomError]] = []
    for position, (item, kind) in enumerate(zip(value, kinds, strict=True)):
        if kind is None:
            what = f"a domain holds text, numbers, true/false or dates, not {kind_in_words(item)}"
            found.append(((position,), problem_with(what, "Put it in quotes if it is text.")))
        elif kind != kinds[0]:
            what = f"{kind} in a domain that starts with {kinds[0] or 'something else'}"
            hint = "Use one kind of value; put text that looks like another kind in quotes."
            found.append(((position,), problem_with(what, hint)))
        elif first.setdefault(item, position) != position:
            what = f"the same value as item {first[item] + 1}"
            found.append(((position,), problem_with(what, "Keep one of the two.")))
    raise_all(found)
    return value


_QUOTED = r'"(?:[^"]|"")+"'
_NAME = rf'({_QUOTED}|[^\s."]+)'
_PART = rf'(?:{_QUOTED}|[^\s.",()]+)'
_LIST = rf"\(\s*({_PART}(?:\s*,\s*{_PART})+)\s*\)"
_COLUMNS = rf"(?:{_NAME}\.)?{_NAME}\.(?:{_LIST}|{_NAME})"
LINK: Final = re.compile(rf"\s*{_COLUMNS}\s*->\s*{_COLUMNS}\s*")
"""``child.column -> parent.column``, names with dots or spaces in double quotes.

A schema may stand before a table. Several columns stand in brackets: ``child.(a, b)``.
"""


def link_of(text: object) -> tuple[TableName, Link] | None:
    """Read the child's name and its link, or None if the text is not of a link."""
    found = LINK.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    names = found.groups()
    (child, columns), (parent, parent_columns) = map(_columns_of, (names[:4], names[4:]))
    if len(columns) != len(parent_columns):
        return None
    return child, Link(columns, parent, parent_columns)


def _columns_of(names: Sequence[str | None]) -> tuple[TableName, list[str]]:
    """Return the table and the columns of a schema's name, if any, a table's and theirs."""
    schema, table, listed, column = (name or "" for name in names)
    columns = re.findall(_PART, listed) if listed else [column]
    name = TableName(unquoted(table), unquoted(schema) if schema else MAIN)
    return name, [unquoted(each) for each in columns]


def table_key(text: str) -> str:
    """Return the key that all spellings of a table's name in a file share."""
    found = TableName.read(text)
    return fold(text) if found is None else found.key


def _link(text: object) -> tuple[TableName, Link]:
    link = link_of(text)
    if link is None:
        raise problem_with(
            "must be `child.column -> parent.column`",
            "For example `lineitem.l_orderkey -> orders.o_orderkey`. A schema may stand before a "
            "table: `mart.items.okey -> mart.orders.okey`. Several columns stand in brackets, as "
            "many on both sides: `returns.(item, order) -> sales.(item, order)`. Put names with "
            "dots or spaces in double quotes, and the whole in single quotes.",
        )
    return link


_DOMAIN_KINDS: Final[Mapping[type, str]] = {
    str: "text",
    bool: "true/false",
    int: "a whole number",
    float: "a number",
    datetime.date: "a date",
    datetime.datetime: "a timestamp",
}


def kind_in_words(value: object) -> str:
    """Say in words what kind of value the document has."""
    if value is None:
        return "missing"
    if isinstance(value, dict):
        return "a group"
    return "a list" if isinstance(value, list) else _DOMAIN_KINDS.get(type(value), "invalid")


# ----------------------------------------------------------------------------- types

# A type checks and tells editors at once. Where only our own code can check, a schema says of it
# what can be said without looking at other values.

_ACCOUNT_NAME: Final[JsonSchema] = {"pattern": r"^[^\s/]([^/]*[^\s/])?$", "maxLength": MAX_NAME}
_PLAIN: Final[JsonSchema] = {"pattern": r"^\S(.*\S)?$"}


def _may_be_empty(schema: JsonSchema) -> None:
    inner = {key: schema.pop(key) for key in tuple(schema) if key not in ("default", "description")}
    schema["anyOf"] = [inner, {"type": "null"}]


def _not_null(schema: JsonSchema) -> None:
    schema.update(schema.pop("anyOf")[0])


T = TypeVar("T")
MayBeEmpty = Annotated[
    T,
    BeforeValidator(lambda value: {} if value is None else value),
    Field(json_schema_extra=_may_be_empty),
]
"""A group with nothing, or only comments, below its name is null to YAML, and an empty group."""
MayBeLeftOut = Annotated[T | None, Field(json_schema_extra=_not_null)]
"""An optional value, which is never null."""
Version = Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})]
AnyName = Annotated[
    str, AfterValidator(_name), Field(json_schema_extra={**_PLAIN, "maxLength": MAX_NAME})
]
DatasetName = Annotated[AnyName, AfterValidator(_dataset), Field(json_schema_extra=_ACCOUNT_NAME)]
EditionName = Annotated[AnyName, AfterValidator(_edition)]
AccountName = Annotated[
    # Inside of allOf, or pydantic moves the pattern to patternProperties, where it refuses nothing.
    str, AfterValidator(_account_name), WithJsonSchema({"type": "string", "allOf": [_ACCOUNT_NAME]})
]
ColumnName = Annotated[str, Field(min_length=1)]
ViewsPlace = Annotated[str, AfterValidator(_directory), Field(json_schema_extra=_PLAIN)]
PeriodText = Annotated[AnyName, AfterValidator(_period)]
ZoneName = Annotated[AnyName, AfterValidator(_zone)]
LedgerPlace = Annotated[str, AfterValidator(_ledger), Field(json_schema_extra=_PLAIN)]
RowsPerUnit = Annotated[
    int,
    PlainValidator(_rows_per_unit),
    WithJsonSchema({"type": "integer", "minimum": COUNT_LIMITS[0], "maximum": COUNT_LIMITS[1]}),
]
ColumnType = Annotated[str, AfterValidator(_type), Field(json_schema_extra={"minLength": 1})]
Bound = Annotated[
    float | int | datetime.date | None,
    PlainValidator(_bound),
    WithJsonSchema(
        {
            "type": ["number", "string"],
            "minimum": -BOUND_LIMIT,
            "maximum": BOUND_LIMIT,
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}",
        }
    ),
]
Domain = Annotated[
    list[Any],
    Field(
        min_length=1,
        json_schema_extra={
            "uniqueItems": True,
            "anyOf": [{"items": {"type": kind}} for kind in ("string", "number", "boolean")],
        },
    ),
    AfterValidator(_domain),
]
_LinkText = Annotated[
    tuple[TableName, Link],
    PlainValidator(_link),
    WithJsonSchema({"type": "string", "pattern": f"^{LINK.pattern}$"}),
]
Links = Annotated[
    list[_LinkText],
    BeforeValidator(lambda value: [] if value is None else value),
    Field(json_schema_extra=_may_be_empty),
]
