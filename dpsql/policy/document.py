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

from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dpsql.accounting.zcdp import Composition
from dpsql.core.names import RULE, is_account_name, look_alikes
from dpsql.core.schema import fold
from dpsql.errors import ParameterError
from dpsql.policy.fields import (
    _LINK,
    BOUND_LIMIT,
    _bound,
    _column_name,
    _composition,
    _dataset,
    _domain,
    _Json,
    _ledger,
    _limit,
    _links,
    _name,
    _parameter,
    _problem,
    _raise_all,
    _section,
    _version,
)
from dpsql.policy.limits import (
    MEMORY,
    MEMORY_LIMITS,
    PRIVATE_RELATIONS_LIMITS,
    SECONDS_LIMIT,
    Limits,
    ResourceFailures,
)
from dpsql.policy.model import (
    PLAIN_NAME,
    AccountPolicy,
    ColumnPolicy,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
    link_problems,
    look_alike_problem,
)
from dpsql.policy.parameters import (
    PARAMETERS,
    ContributionBounding,
    Maxima,
    Parameters,
    ParameterSpec,
    check_maximum,
)
from dpsql.policy.yaml_tree import Path


def _json(spec: ParameterSpec) -> _Json:
    """What an editor is told of a parameter's values."""
    if spec.words:
        return {"enum": list(map(str, spec.words))}
    low, high = spec.limits
    kind = "number" if spec.type is float else "integer"
    number: _Json = {"type": kind, "minimum": low, "maximum": high}
    return {"anyOf": [number, {"const": "unlimited"}]} if spec.unlimited else number


_EPSILON: Final = _json(PARAMETERS["epsilon"])
_DELTA: Final = _json(PARAMETERS["delta"])
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


def _default(name: str) -> Any:
    """The field of a parameter that a query need not give."""
    spec = PARAMETERS[name]
    value = getattr(Parameters(), name)
    return Field(default=value, description=spec.default, json_schema_extra=_json(spec))


def _maximum(name: str) -> Any:
    """The field of the most that a query may ask for."""
    spec = PARAMETERS[name]
    return Field(default=None, description=spec.maximum, json_schema_extra=_json(spec))


class _Defaults(_Section):
    """What a query uses unless it says otherwise."""

    epsilon: float = _default("epsilon")
    delta: float = _default("delta")
    max_groups_contributed: int | None = _default("max_groups_contributed")
    max_rows_contributed: int = _default("max_rows_contributed")
    k_bar: int = _default("k_bar")
    min_units_per_group: int = _default("min_units_per_group")
    contribution_bounding: ContributionBounding = _default("contribution_bounding")

    _checked = field_validator("*", mode="plain")(_parameter)


class _Maxima(_Section):
    """The most a query may ask for. What is left out has no maximum."""

    epsilon: float | None = _maximum("epsilon")
    delta: float | None = _maximum("delta")
    max_groups_contributed: int | None = _maximum("max_groups_contributed")
    max_rows_contributed: int | None = _maximum("max_rows_contributed")
    k_bar: int | None = _maximum("k_bar")

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
