"""Reading ``policies.yaml``: text in, a frozen :class:`~dpsql.policy.model.Policy` out.

The file decides who is protected, so it is read strictly: a typing slip must never become a weaker
policy. The text passes three sieves, and every problem that any of them finds is reported at once,
each with its line:

1. the YAML tree (:mod:`dpsql.policy.yaml_tree`): no repeated names, aliases, tags or NaN;
2. the pydantic models below: every key known, every value of the right kind and in range;
3. what one value says against another: bounds in order, defaults within maxima.

pydantic is used in this module only.
"""

from __future__ import annotations

import datetime
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, NoReturn, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from dpsql.accounting.zcdp import Composition
from dpsql.core.names import RULE, is_account_name, look_alikes
from dpsql.core.schema import fold
from dpsql.errors import ParameterError, Place, PolicyError
from dpsql.policy.ledger_place import from_file, is_url
from dpsql.policy.model import (
    COUNT_LIMITS,
    DELTA_LIMITS,
    EPSILON_LIMITS,
    MEMORY,
    MEMORY_LIMITS,
    PARAMETER_NAMES,
    PLAIN_NAME,
    PRIVATE_RELATIONS_LIMITS,
    SECONDS_LIMIT,
    AccountPolicy,
    ColumnPolicy,
    ContributionBounding,
    Limits,
    Link,
    Maxima,
    Parameters,
    Policy,
    PrivacyUnit,
    ResourceFailures,
    TablePolicy,
    check_maximum,
    check_value,
    limit_problem,
    link_problems,
    look_alike_problem,
    suggestion,
)
from dpsql.policy.yaml_tree import Path, Problem, Tree, YamlSyntaxError, read_tree

MAX_BYTES: Final = 2**19
MAX_PARTS: Final = 15_000
"""Signs that may begin a value: commas, ends of lines, colons and brackets."""
MAX_LISTED: Final = 40
BOUND_LIMIT: Final = 2**53
"""Bounds stay where every whole number is an exact double."""


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a file. Raises PolicyError if it cannot be read or says anything wrong.

    A ledger that it names by a relative path is in the file's own directory.
    """
    source = os.fspath(path)
    data = _read_bytes(source)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        place = replace(Place.in_text(before, len(before), len(before)), source=source)
        raise PolicyError(
            "the policies file is not UTF-8 text",
            code="policy_not_utf8",
            place=place,
            hint="Save it as UTF-8.",
        ) from None
    policy = parse_policy(text, source)
    if policy.ledger is None:
        return policy
    return replace(policy, ledger=from_file(policy.ledger, source))


def parse_policy(text: str, source_name: str = "policies.yaml") -> Policy:
    """The policy in a text; ``source_name`` is what errors call it.

    Raises PolicyError with the first problem as its place and every problem in its hint:
    ``policy_syntax`` if the text is not YAML, ``policy_empty``, else ``policy_invalid``; or
    ``policy_too_large`` for a text that would take long to read.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    _refuse_large(text, source_name)
    try:
        tree = read_tree(text)
    except YamlSyntaxError as error:
        raise _policy_error("policy_syntax", [error.problem], text, source_name) from None
    if tree.value is None and not tree.problems:
        raise PolicyError(
            f"{source_name} is empty",
            code="policy_empty",
            hint="Write a starting policy with `dpsql init`.",
        )
    problems = [*tree.problems, *_null_problems(tree)]
    try:
        model = _File.model_validate(tree.value)
    except ValidationError as error:
        problems += _model_problems(error, tree, {problem.path for problem in problems})
        if not any(problem.path[:1] == ("links",) for problem in problems):
            problems += _unprotected_problems(tree)  # else they may only be linked wrongly
        raise _policy_error("policy_invalid", problems, text, source_name) from None
    problems += _unprotected_problems(tree)
    if problems:
        raise _policy_error("policy_invalid", problems, text, source_name)
    return model.policy()


def file_schema() -> dict[str, Any]:
    """The JSON schema of a policies file, as pydantic writes it."""
    return _File.model_json_schema()


# ----------------------------------------------------------------------------- values


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
_EPSILON: Final[_Json] = {
    "type": "number",
    "minimum": EPSILON_LIMITS[0],
    "maximum": EPSILON_LIMITS[1],
}
_DELTA: Final[_Json] = {"type": "number", "minimum": DELTA_LIMITS[0], "maximum": DELTA_LIMITS[1]}
_COUNT: Final[_Json] = {"type": "integer", "minimum": COUNT_LIMITS[0], "maximum": COUNT_LIMITS[1]}
_GROUPS: Final[_Json] = {"anyOf": [_COUNT, {"const": "unlimited"}]}
_BOUND: Final[_Json] = {"type": "number", "minimum": -BOUND_LIMIT, "maximum": BOUND_LIMIT}
_NAMED: Final[_Json] = {"type": "string", "pattern": r"^\S(.*\S)?$", "maxLength": 200}
_ACCOUNT_NAMED: Final[_Json] = {"pattern": r"^[^\s/]([^/]*[^\s/])?$", "maxLength": 200}


def _may_be_empty(schema: _Json) -> None:
    """A section with nothing but comments below its name is null to YAML."""
    inner = {key: schema.pop(key) for key in tuple(schema) if key not in ("default", "description")}
    schema["anyOf"] = [inner, {"type": "null"}]


def _of_accounts(schema: _Json) -> None:
    schema["propertyNames"] = _ACCOUNT_NAMED
    _may_be_empty(schema)


def _not_null(schema: _Json) -> None:
    schema.update(schema.pop("anyOf")[0])


def _or_name(schema: _Json) -> None:
    schema["anyOf"] = [schema["anyOf"][0], {"type": "string", "minLength": 1}]


Name = Annotated[str, PlainValidator(_name), WithJsonSchema(_NAMED)]
LedgerPlace = Annotated[
    str | None,
    PlainValidator(_ledger),
    WithJsonSchema({"type": "string", "pattern": r"^\S(.*\S)?$"}),
]
DatasetName = Annotated[
    str, PlainValidator(_dataset), WithJsonSchema({"type": "string", **_ACCOUNT_NAMED})
]
Bound = Annotated[float | int | None, PlainValidator(_bound), WithJsonSchema(_BOUND)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Defaults(_Section):
    """What a query uses unless it says otherwise."""

    epsilon: float = Field(
        default=Parameters().epsilon,
        description="Privacy loss of one query: smaller is more private, and noisier.",
        json_schema_extra=_EPSILON,
    )
    delta: float = Field(
        default=Parameters().delta,
        description="Chance that the guarantee of one query fails: far below 1 / number of units.",
        json_schema_extra=_DELTA,
    )
    max_groups_contributed: int | None = Field(
        default=Parameters().max_groups_contributed,
        description="Groups one unit may influence, or `unlimited` (top-k and declared keys).",
        json_schema_extra=_GROUPS,
    )
    max_rows_contributed: int = Field(
        default=Parameters().max_rows_contributed,
        description="Rows one unit may add to one group.",
        json_schema_extra=_COUNT,
    )
    k_bar: int = Field(
        default=Parameters().k_bar,
        description="How many of the largest groups a top-k looks at.",
        json_schema_extra=_COUNT,
    )
    min_units_per_group: int = Field(
        default=Parameters().min_units_per_group,
        description="Groups of fewer units are left out: never released where keys are discovered; "
        "where keys are declared, their noisy number of units decides. A query may raise it.",
        json_schema_extra=_COUNT,
    )
    contribution_bounding: ContributionBounding = Field(
        default=Parameters().contribution_bounding,
        description="Of a unit with more groups than it may influence, `sample` keeps as many in "
        "full and `weight` keeps more, each for less.",
        json_schema_extra={"enum": [str(choice) for choice in ContributionBounding]},
    )

    _checked = field_validator("*", mode="plain")(_parameter)


class _Maxima(_Section):
    """The most a query may ask for. What is left out has no maximum."""

    epsilon: float | None = Field(
        default=None, description="The most a query may cost, as ε.", json_schema_extra=_EPSILON
    )
    delta: float | None = Field(
        default=None, description="The most a query may cost, as δ.", json_schema_extra=_DELTA
    )
    max_groups_contributed: int | None = Field(
        default=None,
        description="The most groups a query may let one unit influence, or `unlimited`.",
        json_schema_extra=_GROUPS,
    )
    max_rows_contributed: int | None = Field(
        default=None,
        description="The most rows a query may let one unit add to one group.",
        json_schema_extra=_COUNT,
    )
    k_bar: int | None = Field(
        default=None,
        description="The most groups a top-k may look at.",
        json_schema_extra=_COUNT,
    )

    _checked = field_validator("*", mode="plain")(_parameter)


class _Limits(_Section):
    """The work one private statement may be."""

    seconds: float = Field(
        default=Limits().seconds,
        description="Seconds one private statement may run.",
        json_schema_extra={"type": "number", "exclusiveMinimum": 0, "maximum": SECONDS_LIMIT},
    )
    memory: str | None = Field(
        default=None,
        description="Memory one private statement may use, for example `8GB` or `512MB` "
        f"({MEMORY_LIMITS[0]} to {MEMORY_LIMITS[1]}). Left out, it is what the engine takes.",
        json_schema_extra={"type": "string", "pattern": f"^{MEMORY.pattern}$"},
    )
    private_relations: int = Field(
        default=Limits().private_relations,
        description="Private tables one statement may join, each counted as often as it is read.",
        json_schema_extra={
            "type": "integer",
            "minimum": PRIVATE_RELATIONS_LIMITS[0],
            "maximum": PRIVATE_RELATIONS_LIMITS[1],
        },
    )
    resource_failures: ResourceFailures = Field(
        default=Limits().resource_failures,
        description="What becomes of an account whose statement ran out of time or memory, which "
        "rows decide. `suspend`: it answers no private question until the owner reopens it. "
        "`keep`: only what was reserved stays spent.",
        json_schema_extra={"enum": [str(choice) for choice in ResourceFailures]},
    )

    _checked = field_validator("*", mode="plain")(_limit)


class _Account(_Section):
    """What an analyst may learn over all queries, ever."""

    epsilon: float = Field(description="The account's ε.", json_schema_extra=_EPSILON)
    delta: float = Field(
        description="The account's δ. It must be at least that of a query.",
        json_schema_extra=_DELTA,
    )
    composition: Annotated[Composition, PlainValidator(_composition)] = Field(
        default=Composition.ZCDP,
        description="How queries add up. `zcdp`: their ρ does, which is best for a session. "
        "`basic`: their ε and δ do, and each may use the exact analysis of its mechanism, which is "
        "best for a single publication. It cannot change once the account was charged.",
        json_schema_extra={"enum": [str(choice) for choice in Composition]},
    )

    _checked = field_validator("epsilon", "delta", mode="plain")(_parameter)


class _Total(_Section):
    """What all analysts together may learn. Their accounts must be of the same composition."""

    epsilon: float = Field(description="The total ε.", json_schema_extra=_EPSILON)
    delta: float = Field(description="The total δ.", json_schema_extra=_DELTA)

    _checked = field_validator("epsilon", "delta", mode="plain")(_parameter)


class _Unit(_Section):
    """Whom the rows of a table belong to, all of them protected together."""

    name: Name = Field(
        description="Who is protected, in the singular: `patient`. Tables with the same name "
        "protect the same units and can be joined on them.",
    )
    column: Annotated[str, PlainValidator(_column_name)] = Field(
        description="The column that says whose row it is.",
        json_schema_extra={"type": "string", "minLength": 1},
    )


class _Column(_Section):
    """Public knowledge about a column: what a value can be, never what it happens to be."""

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "dependentRequired": {"lower": ["upper"], "upper": ["lower"]},
        }
    )

    lower: Bound = Field(
        default=None, description="The lowest value that counts; lower ones are pulled up to it."
    )
    upper: Bound = Field(
        default=None,
        description="The highest value that counts; higher ones are pulled down to it. Noise grows "
        "with the bounds.",
    )
    domain: Annotated[tuple[Any, ...] | None, PlainValidator(_domain)] = Field(
        default=None,
        description="Every value a key can have, if that is public. All of them are answered, even "
        "those without rows, and no δ is spent on hiding which exist.",
        json_schema_extra={
            "type": "array",
            "minItems": 1,
            "uniqueItems": True,
            "anyOf": [{"items": {"type": kind}} for kind in ("string", "number", "boolean")],
        },
    )

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.lower is None and self.upper is None:
            if self.domain is None:
                raise _problem(
                    "says nothing about the column",
                    "Give lower and upper, or domain, or remove it: it can be used without.",
                )
        elif self.lower is None or self.upper is None:
            given, absent = ("upper", "lower") if self.lower is None else ("lower", "upper")
            error = _problem(f"needs {absent} as well", f"Add `{absent}: <number>`.")
            _raise_all([((given,), error)])
        elif self.lower >= self.upper:
            error = _problem("lower must be below upper", "Swap or correct the two bounds.")
            _raise_all([(("lower",), error)])
        return self


_ACCOUNT_NAME: Final = _problem(f"an account's name {RULE}", PLAIN_NAME)
_NEEDS_UNIT: Final = "a table needs either privacy_unit or public: true"
_UNIT_HINT: Final = "Name the column that says whose row it is; public tables get no protection."


class _Table(_Section):
    """A table that analysts may use: of a privacy unit, public, or linked to another table."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "required": ["privacy_unit", "public"],
                "properties": {"public": {"const": True}},
            }
        }
    )

    privacy_unit: _Unit | None = Field(
        default=None,
        description="Whose rows these are. A text alone is both the name and the column.",
        json_schema_extra=_or_name,
    )
    public: bool = Field(
        default=False,
        description="`true` for a table about nobody: it is read as it is, without noise.",
    )
    columns: Annotated[dict[str, _Column], BeforeValidator(_section)] = Field(
        default_factory=dict,
        description="What is publicly known about columns. Those left out can be used as keys and "
        "in conditions, but not summed.",
        json_schema_extra=_may_be_empty,
    )

    @field_validator("privacy_unit", mode="before")
    @classmethod
    def _shorthand(cls, value: object) -> object:
        return {"name": value, "column": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.privacy_unit is not None and self.public:
            raise _problem(f"{_NEEDS_UNIT}, not both", _UNIT_HINT)
        return self


class _File(_Section):
    """What analysts may ask of a database, and whom that protects."""

    version: Annotated[int, PlainValidator(_version)] = Field(
        description="The version of this format.", json_schema_extra={"const": 1}
    )
    dataset: DatasetName = Field(
        description="What the budget belongs to: keep it for as long as the data. A new name is a "
        "new budget; a renamed or copied file is not.",
    )
    defaults: Annotated[_Defaults, BeforeValidator(_section)] = Field(
        default_factory=_Defaults,
        description="What a query uses unless it says otherwise.",
        json_schema_extra=_may_be_empty,
    )
    maxima: Annotated[_Maxima, BeforeValidator(_section)] = Field(
        default_factory=_Maxima,
        description="The most a query may ask for. What is left out has no maximum.",
        json_schema_extra=_may_be_empty,
    )
    limits: Annotated[_Limits, BeforeValidator(_section)] = Field(
        default_factory=_Limits,
        description="The work one private statement may be.",
        json_schema_extra=_may_be_empty,
    )
    ledger: LedgerPlace = Field(
        default=None,
        description="Where the budget is kept: a file, relative to this one's directory, or a "
        "`postgresql://` URL. Without it, the file beside the database: `clinic.budget.db` beside "
        "`clinic.duckdb`.",
    )
    accounts: Annotated[dict[str, _Account], BeforeValidator(_section)] = Field(
        default_factory=dict,
        description="Analysts by name, and what each may learn over all queries, ever.",
        json_schema_extra=_of_accounts,
    )
    total: _Total | None = Field(
        default=None,
        description="What all analysts together may learn. Without it, each account stands for "
        "itself, and analysts who collude learn the sum.",
        json_schema_extra=_not_null,
    )
    tables: Annotated[dict[str, _Table], BeforeValidator(_section)] = Field(
        description="The tables that exist for analysts, by name, and no others.",
        json_schema_extra=_may_be_empty,
    )
    links: Annotated[tuple[tuple[str, Link], ...], PlainValidator(_links)] = Field(
        default=(),
        description="How tables without a privacy unit reach theirs: "
        "`lineitem.l_orderkey -> orders.o_orderkey`. The column on the right must be unique.",
        json_schema_extra={
            "anyOf": [
                {"type": "array", "items": {"type": "string", "pattern": f"^{_LINK.pattern}$"}},
                {"type": "null"},
            ]
        },
    )

    @field_validator("maxima", mode="after")
    @classmethod
    def _defaults_within(cls, maxima: _Maxima, info: ValidationInfo) -> _Maxima:
        defaults = info.data.get("defaults")  # absent when it has problems of its own
        found: list[tuple[Path, PydanticCustomError]] = []
        for name in _Maxima.model_fields if defaults is not None else ():
            try:
                check_maximum(Maxima(**maxima.model_dump()), name, getattr(defaults, name))
            except ParameterError as error:
                what = f"below the default: {error.reason}"
                found.append(((name,), _problem(what, f"Lower defaults.{name}, or raise this.")))
        _raise_all(found)
        return maxima

    @field_validator("accounts", mode="after")
    @classmethod
    def _accounts_are_one_part(cls, accounts: dict[str, _Account]) -> dict[str, _Account]:
        # The ledger joins names by slashes: a/b would be the account b below the analyst a.
        _raise_all([((name,), _ACCOUNT_NAME) for name in accounts if not is_account_name(name)])
        alike = look_alikes(accounts)
        _raise_all([((two,), _problem(*look_alike_problem(one, two))) for one, two in alike])
        return accounts

    @field_validator("total", mode="after")
    @classmethod
    def _total_adds_up(cls, total: _Total | None, info: ValidationInfo) -> _Total | None:
        accounts = info.data.get("accounts")  # absent when they have problems of their own
        if total is not None and len({a.composition for a in (accounts or {}).values()}) > 1:
            raise _problem(
                "the accounts differ in their composition, so they do not add up",
                "Give all accounts the same composition, or remove the total.",
            )
        return total

    @field_validator("links", mode="after")
    @classmethod
    def _links_lead_to_units(
        cls, links: tuple[tuple[str, Link], ...], info: ValidationInfo
    ) -> tuple[tuple[str, Link], ...]:
        tables = info.data.get("tables")  # absent when they have problems of their own
        if tables is not None:
            found = link_problems(links, {fold(name): table for name, table in tables.items()})
            _raise_all([((position,), _problem(*words)) for position, *words in found])
        return links

    def policy(self) -> Policy:
        """The same content as frozen values that the rest of dpsql uses."""
        return Policy(
            dataset=self.dataset,
            defaults=Parameters(**self.defaults.model_dump()),
            maxima=Maxima(**self.maxima.model_dump()),
            accounts={
                name: AccountPolicy(name, a.epsilon, a.delta, a.composition)
                for name, a in self.accounts.items()
            },
            tables=self._tables(),
            total=self._total(),
            limits=Limits(**self.limits.model_dump()),
            ledger=self.ledger,
        )

    def _total(self) -> AccountPolicy | None:
        if self.total is None:
            return None
        composition = next((a.composition for a in self.accounts.values()), Composition.ZCDP)
        return AccountPolicy(self.dataset, self.total.epsilon, self.total.delta, composition)

    def _tables(self) -> dict[str, TablePolicy]:
        links = {fold(child): link for child, link in self.links}
        return {
            fold(name): _table_policy(name, table, links.get(fold(name)))
            for name, table in self.tables.items()
        }


def _table_policy(name: str, table: _Table, link: Link | None) -> TablePolicy:
    unit = table.privacy_unit
    if unit is None and link is None and not table.public:
        raise AssertionError(f"{name} would be public, and nothing says so")
    return TablePolicy(
        name=name,
        privacy_unit=None if unit is None else PrivacyUnit(unit.name, unit.column),
        columns={
            fold(column): ColumnPolicy(c.lower, c.upper, c.domain)
            for column, c in table.columns.items()
        },
        link=link,
    )


# ----------------------------------------------------------------------------- problems

_SECTIONS: Final[Mapping[Path, type[_Section]]] = {
    (): _File,
    ("defaults",): _Defaults,
    ("maxima",): _Maxima,
    ("limits",): _Limits,
    ("accounts", "*"): _Account,
    ("total",): _Total,
    ("tables", "*"): _Table,
    ("tables", "*", "privacy_unit"): _Unit,
    ("tables", "*", "columns", "*"): _Column,
}
_MAY_BE_EMPTY: Final = frozenset(
    {(), ("defaults",), ("maxima",), ("limits",), ("accounts",), ("tables",), ("links",)}
    | {("tables", "*", "columns")}
)
_MISSING_HINTS: Final[Mapping[str, str]] = {
    "version": "Add `version: 1` at the top.",
    "dataset": "Add `dataset: <name>`: it names the budget, so keep it for as long as the data.",
    "tables": "Add `tables:` and below it each table that analysts may use.",
}


def _null_problems(tree: Tree) -> Iterator[Problem]:
    """Every known name with nothing after it, except groups that may be empty."""
    for path in tree.names:
        section = _SECTIONS.get(_pattern(path[:-1]))
        unknown = section is not None and path[-1] not in section.model_fields
        if unknown or _pattern(path) in _MAY_BE_EMPTY or _at(tree.value, path) is not None:
            continue
        if _pattern(path) == ("tables", "*"):
            hint = "Give it privacy_unit, or public: true. Write {} if links say whose it is."
        else:
            hint = "Write a value after the colon, or remove the line."
        yield Problem(path, tree.name_span(path), f"{_label(path)}: has no value", hint)


def _unprotected_problems(tree: Tree) -> Iterator[Problem]:
    """Every table that has neither a unit nor a link, and is not public."""
    document = tree.value if isinstance(tree.value, dict) else {}
    tables, links = document.get("tables"), document.get("links")
    matches = [_LINK.fullmatch(str(link)) for link in (links if isinstance(links, list) else ())]
    children = {fold(match[1].strip('"')) for match in matches if match is not None}
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if not isinstance(table, dict) or fold(name) in children:
            continue
        if "privacy_unit" not in table and table.get("public", False) is False:
            path = ("tables", name)
            what = f"{_label(path)}: {_NEEDS_UNIT}"
            yield Problem(path, tree.name_span(path), what, _UNIT_HINT)


def _model_problems(error: ValidationError, tree: Tree, known: set[Path]) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        path: Path = details["loc"]
        # What was reported as broken YAML is not reported again as a broken value.
        if not any(path[:n] in known for n in range(len(path) + 1)):
            message, hint = _in_words(details, path)
            about_name = details["type"] in ("extra_forbidden", "missing")
            about_name = about_name or isinstance(_at(tree.value, path), dict)
            span = tree.name_span(path) if about_name else tree.value_span(path)
            yield Problem(path, span, f"{_label(path)}: {message}" if path else message, hint)


def _in_words(details: ErrorDetails, path: Path) -> tuple[str, str | None]:
    context = details.get("ctx", {})
    match details["type"]:
        case "policy":
            return context["message"], context["hint"]
        case "missing":
            name = str(path[-1])
            return "missing", _MISSING_HINTS.get(name, f"Add `{name}: <value>`.")
        case "extra_forbidden":
            return "unknown key", _unknown_key_hint(path)
        case "model_type" | "dict_type":
            hint = "Write `name: value` lines, indented below it."
            return f"must be a group of names, but is {_kind(details['input'])}", hint
        case "bool_type":
            hint = "Write true or false, without quotes."
            return f"must be true or false, but is {_kind(details['input'])}", hint
        case _:
            return details["msg"], None


def _unknown_key_hint(path: Path) -> str:
    section = _SECTIONS[_pattern(path[:-1])]
    name = str(path[-1])
    if section is _Maxima and fold(name) == "min_units_per_group":
        return f"Set it under defaults: defaults.{name} is already the least a query may use."
    if section is _Maxima and fold(name) in PARAMETER_NAMES:
        return f"Set it under defaults: defaults.{name}. A query may choose either."
    known = tuple(section.model_fields)
    return suggestion(name, known) or f"Known here: {', '.join(known)}."


def _pattern(path: Path) -> Path:
    """The path with the owner's names (accounts, tables, columns) replaced by ``*``."""
    return tuple(
        "*" if i in (1, 3) and path[0] in ("tables", "accounts") else step
        for i, step in enumerate(path)
    )


def _at(value: object, path: Path) -> object:
    """The value at a path, or Ellipsis when the document has none there."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ...)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return ...
    return value


def _label(path: Path) -> str:
    """``tables.flights.columns.dep_delay.lower`` as people say it: ``flights.dep_delay.lower``."""
    steps = [str(s) if isinstance(s, str) else f"item {s + 1}" for s in path]
    if len(steps) > 1 and steps[0] == "tables":
        steps = steps[1:2] + steps[3 if steps[2:3] == ["columns"] and len(steps) > 3 else 2 :]
    return ".".join(steps)


def _policy_error(code: str, problems: list[Problem], text: str, source: str) -> PolicyError:
    """One error for all problems: the first in front, all of them listed when there are several."""
    ordered = sorted(problems, key=lambda problem: problem.span)
    places = [replace(Place.in_text(text, *p.span), source=source) for p in ordered[:MAX_LISTED]]
    first = ordered[0]
    if len(ordered) == 1:
        return PolicyError(first.message, code=code, place=places[0], hint=first.hint)
    lines = [f"{len(ordered)} problems in all:"]
    for place, problem in zip(places, ordered, strict=False):
        advice = f" ({problem.hint})" if problem.hint else ""
        lines.append(f"  line {place.line}, column {place.column}: {problem.message}{advice}")
    if len(ordered) > MAX_LISTED:
        lines.append(f"  and {len(ordered) - MAX_LISTED} more")
    hint = "\n".join(([first.hint] if first.hint else []) + lines)
    return PolicyError(
        f"{first.message}; {len(ordered) - 1} more below", code=code, place=places[0], hint=hint
    )


def _read_bytes(source: str) -> bytes:
    try:
        # Not a device or a pipe, which may never end.
        if not stat.S_ISREG(os.stat(source).st_mode):
            _unreadable(source, "is not a file", "Name the policies file itself.")
        with open(source, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        _unreadable(source, "does not exist", "Write a starting policy with `dpsql init`.")
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not a path"
        _unreadable(source, f"cannot be read: {reason}", "Check the path and its permissions.")
    if len(data) > MAX_BYTES:
        raise _too_large(source, f"is larger than {MAX_BYTES // 2**10} KiB")
    return data


def _refuse_large(text: str, source: str) -> None:
    """Refuse a text that would take more than a second to read, before anything reads it."""
    if len(text) > MAX_BYTES:
        raise _too_large(source, f"is longer than {MAX_BYTES:,} characters")
    if sum(map(text.count, "\n,:[{")) > MAX_PARTS:
        raise _too_large(source, f"has more than {MAX_PARTS:,} lines, commas, colons and brackets")


def _too_large(source: str, what: str) -> PolicyError:
    return PolicyError(
        f"the policies file {source} {what}",
        code="policy_too_large",
        hint="Check that this is the right file; declare only the domains you need.",
    )


def _unreadable(source: str, what: str, hint: str) -> NoReturn:
    raise PolicyError(f"the policies file {source} {what}", code="policy_unreadable", hint=hint)
