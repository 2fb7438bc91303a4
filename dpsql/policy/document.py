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

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from dpsql.core.names import look_alikes
from dpsql.core.periods import Period
from dpsql.core.schema import Column, fold
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName
from dpsql.errors import ParameterError
from dpsql.policy.fields import (
    CONVERSION_LIMITS,
    AccountName,
    AnyName,
    Bound,
    ColumnName,
    ColumnType,
    DatasetName,
    Domain,
    EditionName,
    JsonSchema,
    LedgerPlace,
    Links,
    MayBeEmpty,
    MayBeLeftOut,
    PeriodText,
    RowsPerUnit,
    Version,
    ViewsPlace,
    ZoneName,
    checked_agent_limit,
    checked_conversion_share,
    checked_default,
    checked_limit,
    checked_parameter,
    checked_parameter_maximum,
    problem_with,
    raise_all,
    table_key,
)
from dpsql.policy.limits import (
    MEMORY,
    MEMORY_LIMITS,
    PRIVATE_RELATIONS_LIMITS,
    SECONDS_LIMIT,
    BoundingLimit,
    Limits,
    ResourceFailures,
)
from dpsql.policy.model import (
    DELTA_SHARE,
    EACH_ROW,
    PUBLIC_PROMISE,
    PUBLIC_TIME,
    ROW,
    ROW_IS_ONE,
    ROW_PROMISE,
    RUN_SHARE,
    AccountPolicy,
    AgentPolicy,
    ColumnPolicy,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
    TimeColumn,
    UnitPeriod,
    ViewsPolicy,
    agent_problems,
    link_problems,
    look_alike_problem,
    period_problems,
    stranger_problem,
    table_default_problem,
)
from dpsql.policy.parameters import (
    AUTO,
    PARAMETERS,
    TABLE_PARAMETERS,
    AnswerFrom,
    Automatic,
    ContributionBounding,
    Maxima,
    Parameters,
    ParameterSpec,
    ParameterValue,
    Pooling,
    check_maximum,
)
from dpsql.policy.yaml_tree import Path
from dpsql.privacy.accounting.zcdp import CONVERSION_SHARE, Composition


def _json(spec: ParameterSpec) -> JsonSchema:
    """Describe a parameter's values to an editor."""
    if spec.period:
        return {"type": "string"}
    if spec.words:
        return {"enum": list(map(str, spec.words))}
    low, high = spec.limits
    kind = "number" if spec.type is float else "integer"
    number: JsonSchema = {"type": kind, "minimum": low, "maximum": high}
    return {"anyOf": [number, {"const": "unlimited"}]} if spec.unlimited else number


_EPSILON: Final = _json(PARAMETERS["epsilon"])
_DELTA: Final = _json(PARAMETERS["delta"])
_SHARE: Final[dict[str, Any]] = {
    "type": "number",
    "minimum": CONVERSION_LIMITS[0],
    "maximum": CONVERSION_LIMITS[1],
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def _default(name: str) -> Any:
    """Build the field of a parameter that a query need not give."""
    spec = PARAMETERS[name]
    value = getattr(Parameters(), name)
    values = _json(spec)
    if spec.automatic is not None:
        values = {"anyOf": [*values.get("anyOf", [values]), {"const": AUTO}]}
    if isinstance(value, Automatic):  # what a file without it means has no word in a file
        return Field(
            default_factory=lambda: value, description=spec.default, json_schema_extra=values
        )
    return Field(default=value, description=spec.default, json_schema_extra=values)


def _table_default(name: str) -> Any:
    """Build the field of a parameter that questions over one table have another default of."""
    field = _default(name)
    values, spec = field.json_schema_extra, PARAMETERS[name]
    which = f"Of several tables, the {spec.several} holds."
    return Field(default=None, description=f"{spec.option} {which}", json_schema_extra=values)


def _maximum(name: str) -> Any:
    """Build the field of the most that a query may ask for."""
    spec = PARAMETERS[name]
    return Field(default=None, description=spec.maximum, json_schema_extra=_json(spec))


class DefaultsSection(Section):
    """Parameters of queries that do not give their own."""

    epsilon: float = _default("epsilon")
    # None is a part of the account's.
    delta: float | None = Field(
        default=None,
        description="Chance that the guarantee of one query fails: far below 1 / number of units. "
        f"`auto` is {DELTA_SHARE:.0%} of its account's δ, whatever is left of that: a hundred "
        "questions with thresholds.",
        json_schema_extra={"anyOf": [_DELTA, {"const": AUTO}], "default": AUTO},
    )
    max_groups_contributed: int | Automatic | None = _default("max_groups_contributed")
    max_rows_contributed: int | Automatic = _default("max_rows_contributed")
    k_bar: int = _default("k_bar")
    min_units_per_group: int = _default("min_units_per_group")
    contribution_bounding: ContributionBounding = _default("contribution_bounding")
    max_error: float | None = _default("max_error")
    left_out_share: float = _default("left_out_share")
    combine: Pooling = _default("combine")
    answer_from: AnswerFrom = _default("answer_from")
    max_age: Period | None = _default("max_age")

    _checked = field_validator("*", mode="plain")(checked_default)


class MaximaSection(Section):
    """The most a query may ask for. What is left out has no maximum."""

    epsilon: float | None = _maximum("epsilon")
    delta: float | None = _maximum("delta")
    max_groups_contributed: int | None = _maximum("max_groups_contributed")
    max_rows_contributed: int | None = _maximum("max_rows_contributed")
    k_bar: int | None = _maximum("k_bar")

    _checked = field_validator("*", mode="plain")(checked_parameter_maximum)


class LimitsSection(Section):
    """The work one private statement may be."""

    seconds: float = Field(
        default=Limits().seconds,
        description="Seconds one private statement may run; a first question that finds its bounds "
        "has twice as many.",
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

    bounding: BoundingLimit = Field(
        default=Limits().bounding,
        description="What bounds the contributions of units. `sql`: generated SQL. `any`: NumPy in "
        "the process of dpsql where it can, for rows that DuckDB streams to it. `auto`: the same "
        "on up to two processors, three for keys alone, four for what is counted of keys named in "
        "rounds; on more of them SQL, which uses all.",
        json_schema_extra={"enum": [str(choice) for choice in BoundingLimit]},
    )

    _checked = field_validator("*", mode="plain")(checked_limit)


class AccountSection(Section):
    """The budget of an analyst, over all queries, ever."""

    epsilon: float = Field(description="The account's ε.", json_schema_extra=_EPSILON)
    delta: float = Field(
        description="The account's δ. It must be at least that of a query.",
        json_schema_extra=_DELTA,
    )
    composition: Annotated[
        Composition,
        Field(strict=False),
        WithJsonSchema({"enum": [str(choice) for choice in Composition]}),
    ] = Field(
        default=Composition.ZCDP,
        description="How queries add up. `zcdp`: their ρ does, which is best for a session. "
        "`basic`: their ε and δ do, and each may use the exact analysis of its mechanism, which is "
        "best for a single publication. `gdp`: their μ² does, which buys a session of counts and "
        "sums 6% less noise and makes picks of a top-k and quantiles dearer; no materialized views "
        "that choose groups. It cannot change once the account was charged.",
    )
    delta_for_conversion: float = Field(
        default=CONVERSION_SHARE,
        description="The part of δ, between 0 and 1, that turns what queries add up to into ε. The "
        "rest pays for groups that should have stayed unnamed: where all keys are declared hardly "
        "any is needed, and 0.95 buys more. Not for `basic`. It cannot change once the account was "
        "charged.",
        json_schema_extra=_SHARE,
    )

    _checked = field_validator("epsilon", "delta", mode="plain")(checked_parameter)
    _shared = field_validator("delta_for_conversion", mode="plain")(checked_conversion_share)


class TotalSection(Section):
    """The budget of all analysts together. Their accounts must be of the same composition."""

    epsilon: float = Field(description="The total ε.", json_schema_extra=_EPSILON)
    delta: float = Field(description="The total δ.", json_schema_extra=_DELTA)
    delta_for_conversion: float = Field(
        default=CONVERSION_SHARE,
        description="The part of the total δ that turns what all queries add up to into ε, as in "
        "accounts.",
        json_schema_extra=_SHARE,
    )

    _checked = field_validator("epsilon", "delta", mode="plain")(checked_parameter)
    _shared = field_validator("delta_for_conversion", mode="plain")(checked_conversion_share)


class AgentSection(Section):
    """The most that runs of an analyst's agents may spend, each below the analyst's account.

    Options of `dpsql mcp` can lower these limits, and never raise them. At a server,
    a token is a run.
    """

    epsilon_per_run: float | None = Field(
        default=None,
        description="The most one run may spend. Left out, and where the run is started without a "
        f"limit, {RUN_SHARE:.0%} of the account's ε.",
        json_schema_extra=_EPSILON,
    )
    epsilon_per_question: float | None = Field(
        default=None,
        description="The most one question may cost at worst, all its parts together. Left out, "
        "what is left to the run.",
        json_schema_extra=_EPSILON,
    )
    confirm_above: float | None = Field(
        default=None,
        description="Above this price the agent's client must ask its person. Left out, it never "
        "must.",
        json_schema_extra=_EPSILON,
    )

    _checked = field_validator("*", mode="plain")(checked_agent_limit)

    def as_policy(self) -> AgentPolicy:
        """Return the same content as a frozen value."""
        return AgentPolicy(self.epsilon_per_run, self.epsilon_per_question, self.confirm_above)


class PerSection(Section):
    """Periods of time; a unit is protected in each period separately."""

    column: ColumnName = Field(
        description="The column that says when a row happened: a DATE, or a TIMESTAMP without a "
        "zone. Rows without a time belong to nobody and are not read."
    )
    every: PeriodText = Field(
        description="How long a period is: `1 day`, `15 minutes`, `week`, `2 quarters`. Whoever "
        "has rows in several is protected in each of them, not in all together."
    )


class UnitSection(Section):
    """The unit that owns the rows of a table; all its rows are protected together."""

    name: AnyName = Field(
        description="Who is protected, in the singular: `patient`. Tables with the same name "
        "protect the same units and can be joined on them."
    )
    column: ColumnName = Field(description="The column that says whose row it is.")
    per: MayBeLeftOut[PerSection] = Field(
        default=None,
        description="Protects what a unit did in one period of time only, a weaker promise with "
        "less noise. Left out, all rows of a unit are protected together, whenever they happened.",
    )

    @property
    def period(self) -> Period | None:
        """The length of the periods, None without any."""
        return None if self.per is None else Period.read(self.per.every, "every")

    def as_unit(self) -> PrivacyUnit:
        """Return the same content as a frozen value."""
        period = self.period
        per = None if self.per is None or period is None else UnitPeriod(self.per.column, period)
        return PrivacyUnit(self.name, self.column, per)

    @property
    def is_row(self) -> bool:
        """True if each row is a unit of its own."""
        return False


class RowUnitSection(UnitSection):
    """The word ``row``: each row is a unit of its own."""

    def as_unit(self) -> PrivacyUnit:
        """Return the same content as a frozen value."""
        return EACH_ROW

    @property
    def is_row(self) -> bool:
        """True."""
        return True


class TimeSection(Section):
    """When the rows of a table happened, which materialized views count their steps by."""

    column: ColumnName = Field(description="The column that says when: a date or a timestamp.")
    zone: ZoneName = Field(
        default="UTC",
        description="The time zone in which steps begin and end, by its IANA name: "
        "`Europe/Berlin`. Timestamps without a zone are taken to be in it.",
    )


class ColumnSection(Section):
    """Public knowledge about a column: the values it can have, never the values it has.

    A text alone is its type.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 1,
            "dependentRequired": {"lower": ["upper"], "upper": ["lower"]},
        }
    )

    type: MayBeLeftOut[ColumnType] = Field(
        default=None,
        description="The type of the column: `BIGINT`, `VARCHAR`, `DECIMAL(18,3)`. Of files and "
        "data that have no types of their own (CSV, JSON, directories `key=value`), the columns "
        "with a type are those that there are, and a value that does not fit is NULL. Elsewhere it "
        "must be the type that is stored.",
    )
    lower: Bound = Field(
        default=None,
        description="The lowest value that counts; lower ones are pulled up to it. A number, or a "
        "date for a column of dates or timestamps: `2020-01-01`.",
    )
    upper: Bound = Field(
        default=None,
        description="The highest value that counts; higher ones are pulled down to it. Noise grows "
        "with the bounds.",
    )
    domain: MayBeLeftOut[Domain] = Field(
        default=None,
        description="Every value a key can have, if that is public. All of them are answered, even "
        "those without rows, and no δ is spent on hiding which exist.",
    )
    one_per_unit: bool = Field(
        default=False,
        description="`true`, in your word, if all rows of a unit have the same value here, such as "
        "the country of birth of a customer. A unit then counts in one group of such keys, with "
        "less noise. Of a unit with several values all but one would be left out, so that it is "
        "protected all the same.",
    )

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.lower is None and self.upper is None:
            if self.type is None and self.domain is None and not self.one_per_unit:
                raise problem_with(
                    "says nothing about the column",
                    "Give a type, or lower and upper, or domain, or one_per_unit, or remove it: it "
                    "can be used without.",
                )
        elif self.lower is None or self.upper is None:
            given, absent = ("upper", "lower") if self.lower is None else ("lower", "upper")
            error = problem_with(f"needs {absent} as well", f"Add `{absent}: <number>`, or a date.")
            raise_all([((given,), error)])
        elif not _alike(self.lower, self.upper):
            error = problem_with(
                "lower and upper must be two numbers, two dates or two timestamps",
                "Write both in the same way.",
            )
            raise_all([(("lower",), error)])
        elif self.lower >= self.upper:  # type: ignore[operator]
            error = problem_with("lower must be below upper", "Swap or correct the two bounds.")
            raise_all([(("lower",), error)])
        return self

    @property
    def is_type_alone(self) -> bool:
        """True if nothing but the type is said of the column."""
        return self.lower is None and self.domain is None and not self.one_per_unit


def _alike(lower: object, upper: object) -> bool:
    """Tell whether two bounds are of one kind: the whole numbers and others are one."""
    moments = isinstance(lower, date), isinstance(upper, date)
    return not any(moments) or type(lower) is type(upper)


NOT_A_TABLE: Final = (
    "is not the name of a table",
    "Write `table`, or `schema.table` for those of another schema than `main`. Put names with dots "
    "in double quotes, and the whole in single quotes: '\"my.table\"'.",
)
"""What is wrong with a key of ``tables`` that cannot be read: reason and hint."""
NEEDS_UNIT: Final = "a table needs either privacy_unit or public: true"
UNIT_HINT: Final = "Name the column that says whose row it is; public tables get no protection."


def _named(value: object) -> object:
    if isinstance(value, str) and fold(value) == ROW:
        return RowUnitSection(name=ROW, column=ROW)
    return {"name": value, "column": value} if isinstance(value, str) else value


def _typed(value: object) -> object:
    return {"type": value} if isinstance(value, str) else value


class TableDefaultsSection(Section):
    """The parameters of a question that reads the table, where the question gives none.

    It goes before `defaults` at the top. Where a question joins tables, those that say something
    decide: for numbers of groups, rows and units the largest, for what limits a question the least.
    """

    epsilon: float | None = _table_default("epsilon")
    delta: float | None = _table_default("delta")
    max_groups_contributed: int | Automatic | None = _table_default("max_groups_contributed")
    max_rows_contributed: int | Automatic | None = _table_default("max_rows_contributed")
    k_bar: int | None = _table_default("k_bar")
    min_units_per_group: int | None = _table_default("min_units_per_group")
    max_age: Period | None = _table_default("max_age")

    _checked = field_validator("*", mode="plain")(checked_parameter)

    def given(self) -> dict[str, ParameterValue]:
        """Return the defaults that the section has, by name."""
        return {name: getattr(self, name) for name in TABLE_PARAMETERS if self.has(name)}

    def has(self, name: str) -> bool:
        """Tell whether the section says something of a parameter."""
        return name in self.model_fields_set


class TableSection(Section):
    """A table that analysts may use: of a privacy unit, public, or linked to another table."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "required": ["public"],
                "anyOf": [
                    {"required": [key]}
                    for key in ("privacy_unit", "time", "rows_per_unit", "unique")
                ],
                "properties": {"public": {"const": True}},
            }
        }
    )

    privacy_unit: Annotated[
        UnitSection | None, BeforeValidator(_named, json_schema_input_type=UnitSection | ColumnName)
    ] = Field(
        default=None,
        description="Whose rows these are. A text alone is both the name and the column, but for "
        f"`{ROW}`: {ROW_PROMISE}.",
    )
    public: bool = Field(
        default=False,
        description="`true` for a table about nobody: it is read as it is, without noise.",
    )
    time: MayBeLeftOut[TimeSection] = Field(
        default=None,
        description="When a row happened. Materialized views are made of tables that say so.",
    )
    rows_per_unit: MayBeLeftOut[RowsPerUnit] = Field(
        default=None,
        description="The most rows that a unit has here, in your word: 1 where each unit has at "
        "most one. Questions then take no larger bounds, and have less noise. Rows beyond it "
        "would be left out, so that a unit with more is protected all the same.",
    )
    unique: MayBeLeftOut[
        Annotated[
            list[Annotated[list[ColumnName], Field(min_length=1)]],
            Field(min_length=1),
        ]
    ] = Field(
        default=None,
        description="Lists of columns in all of which no two rows have the same values, in your "
        "word, NULL taken for a value: `[[person, year]]` where a person has one row a year. A "
        "question by year, or about one year, then counts one row of a unit in a group. Rows "
        "beyond it would be left out, so that a unit with more is protected all the same.",
    )
    defaults: MayBeEmpty[TableDefaultsSection] = Field(
        default_factory=TableDefaultsSection,
        description="What a question that reads this table uses unless it says otherwise.",
    )
    columns: MayBeEmpty[
        dict[
            str,
            Annotated[
                ColumnSection,
                BeforeValidator(_typed, json_schema_input_type=ColumnSection | ColumnType),
            ],
        ]
    ] = Field(
        default_factory=dict,
        description="What is publicly known about columns: their types, and what values can be. "
        "Where data have types of their own, those left out can be used as well; bounds of what is "
        "summed are then found privately.",
    )

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.privacy_unit is not None and self.public:
            raise problem_with(f"{NEEDS_UNIT}, not both", UNIT_HINT)
        if self.privacy_unit is not None and self.privacy_unit.is_row:
            of_units = [path for path in self._promises() if path != ("defaults",)]
            raise_all([(path, problem_with(*ROW_IS_ONE)) for path in of_units])
        if self.public and self.time is not None:
            raise_all([(("time",), problem_with(*PUBLIC_TIME))])
        if self.public:
            raise_all([(path, problem_with(*PUBLIC_PROMISE)) for path in self._promises()])
        return self

    def _promises(self) -> Iterator[Path]:
        """Yield where something is said of units."""
        if self.rows_per_unit is not None:
            yield ("rows_per_unit",)
        if self.unique is not None:
            yield ("unique",)
        if self.defaults.given():
            yield ("defaults",)
        for name, column in self.columns.items():
            if column.one_per_unit:
                yield ("columns", name, "one_per_unit")


class ViewsSection(Section):
    """Materialized views: answers that are kept up to date, paid for once."""

    create: MayBeLeftOut[list[str]] = Field(
        default=None, description="The accounts that may create views. Left out, all of them may."
    )
    shared: list[str] = Field(
        default_factory=list,
        description="Accounts that create views for everybody: every analyst may read theirs.",
    )
    directory: MayBeLeftOut[ViewsPlace] = Field(
        default=None,
        description="Where the private states of views are kept, relative to this file's "
        "directory; they tell as much as the data. Without it, beside the database: "
        "`clinic.views` beside `clinic.duckdb`.",
    )

    def as_policy(self) -> ViewsPolicy:
        """Return the same content as a frozen value."""
        create = None if self.create is None else tuple(self.create)
        return ViewsPolicy(create, tuple(self.shared), self.directory)


# -- what one value says against another ---------------------------------------------------------

# What comes before in the file is given by name; what has problems of its own is absent.
_Before: TypeAlias = Mapping[str, Any]
_Problems: TypeAlias = Iterator[tuple[Path, str, str]]


def _lower_than_defaults(maxima: MaximaSection, before: _Before) -> _Problems:
    defaults = before.get("defaults")
    for name in MaximaSection.model_fields if defaults is not None else ():
        default = getattr(defaults, name)
        if name == "delta" and default is None:
            continue  # a part of the account's, and the maximum at most
        try:
            check_maximum(Maxima(**maxima.model_dump()), name, default)
        except ParameterError as error:
            what = f"below the default: {error.reason}"
            yield (name,), what, f"Lower defaults.{name}, or raise this."


def _look_alikes(accounts: dict[str, AccountSection], before: _Before) -> _Problems:
    for one, two in look_alikes(accounts):
        yield (two,), *look_alike_problem(one, two)


def _adds_up_to_nothing(total: TotalSection | None, before: _Before) -> _Problems:
    found = {account.composition for account in (before.get("accounts") or {}).values()}
    if total is not None and len(found) > 1:
        yield (
            (),
            "the accounts differ in their composition, so they do not add up",
            "Give all accounts the same composition, or remove the total.",
        )
    shared = total is not None and total.delta_for_conversion != CONVERSION_SHARE
    if shared and found == {Composition.BASIC}:
        what = "delta_for_conversion means nothing where accounts are `composition: basic`"
        yield (), what, "Remove it."


def _strangers(views: ViewsSection, before: _Before) -> _Problems:
    if "accounts" in before:
        for at, name in views.as_policy().strangers(before["accounts"]):
            yield at, *stranger_problem(name, before["accounts"])


def _agents_beyond(agents: dict[str, AgentSection], before: _Before) -> _Problems:
    if "accounts" in before:
        found = {name: section.as_policy() for name, section in agents.items()}
        yield from agent_problems(found, before["accounts"])


def _names_of_no_table(tables: dict[str, TableSection], before: _Before) -> _Problems:
    first: dict[str, str] = {}
    for name in tables:
        earlier = first.setdefault(table_key(name), name)
        if TableName.read(name) is None:
            yield (name,), *NOT_A_TABLE
        elif earlier != name:
            yield (name,), f"is the same table as `{earlier}`", "Keep one of the two."


def _defaults_beyond(tables: dict[str, TableSection], before: _Before) -> _Problems:
    if "maxima" in before:
        most = Maxima(**before["maxima"].model_dump())
        for name, table in tables.items():
            for parameter, value in table.defaults.given().items():
                found = table_default_problem(most, parameter, value)
                if found is not None:
                    yield (name, "defaults", parameter), *found


def _other_periods(tables: dict[str, TableSection], before: _Before) -> _Problems:
    for name, reason, hint in period_problems(tables):
        yield (name, "privacy_unit"), reason, hint


def _links_to_no_unit(links: list[tuple[TableName, Link]], before: _Before) -> _Problems:
    if "tables" in before:
        by_key = {table_key(name): table for name, table in before["tables"].items()}
        for position, reason, hint in link_problems(links, by_key):
            yield (position,), reason, hint


_CHECKS: Final[Mapping[str, tuple[Callable[[Any, _Before], _Problems], ...]]] = {
    "maxima": (_lower_than_defaults,),
    "accounts": (_look_alikes,),
    "total": (_adds_up_to_nothing,),
    "views": (_strangers,),
    "agents": (_agents_beyond,),
    "tables": (_names_of_no_table, _defaults_beyond, _other_periods),
    "links": (_links_to_no_unit,),
}
"""Of each section in order: a later check is made where the earlier have found nothing."""


class PoliciesFile(Section):
    """The policies of a database: what analysts may ask, and who is protected."""

    version: Version = Field(description="The version of this format.")
    dataset: DatasetName = Field(
        description="What the budget belongs to: keep it for as long as the data. A new name is a "
        "new budget; a renamed or copied file is not."
    )
    edition: MayBeLeftOut[EditionName] = Field(
        default=None,
        description="Which edition of the data this is, in words of yours: `2026-11`. Under "
        "another one every question is new, and paid for again; the account stays. Without it, "
        "answers are given again for as long as the question is the same, and say so if the file "
        "was written since; of a lake, its snapshot is the edition.",
    )
    defaults: MayBeEmpty[DefaultsSection] = Field(
        default_factory=DefaultsSection, description="What a query uses unless it says otherwise."
    )
    maxima: MayBeEmpty[MaximaSection] = Field(
        default_factory=MaximaSection,
        description="The most a query may ask for. What is left out has no maximum.",
    )
    limits: MayBeEmpty[LimitsSection] = Field(
        default_factory=LimitsSection, description="The work one private statement may be."
    )
    ledger: MayBeLeftOut[LedgerPlace] = Field(
        default=None,
        description="Where the budget is kept: a file, relative to this one's directory, or a "
        "`postgresql://` URL. Without it, the file beside the database: `clinic.budget.db` beside "
        "`clinic.duckdb`.",
    )
    accounts: MayBeEmpty[dict[AccountName, AccountSection]] = Field(
        default_factory=dict,
        description="Analysts by name, and what each may learn over all queries, ever.",
    )
    total: MayBeLeftOut[TotalSection] = Field(
        default=None,
        description="What all analysts together may learn. Without it, each account stands for "
        "itself, and analysts who collude learn the sum.",
    )
    views: MayBeEmpty[ViewsSection] = Field(
        default_factory=ViewsSection,
        description="Who may create materialized views, and where their states are kept.",
    )
    agents: MayBeEmpty[dict[str, AgentSection]] = Field(
        default_factory=dict,
        description="What language models that ask for an analyst may spend, by the analyst's "
        "name.",
    )
    tables: MayBeEmpty[dict[str, TableSection]] = Field(
        description="The tables that exist for analysts, by name, and no others: `orders`, or "
        "`mart.fact` for those of another schema than `main`. A name that has a dot itself stands "
        "in double quotes: `'\"my.table\"'`."
    )
    links: Links = Field(
        default_factory=list,
        description="How tables without a privacy unit reach theirs: "
        "`lineitem.l_orderkey -> orders.o_orderkey`. The column on the right must be unique. "
        "Several columns stand in brackets: `returns.(item, order) -> sales.(item, order)`. Of a "
        "table with a unit of its own, a link says that rows with the same key have one unit: they "
        "may be joined by it, which keeps those whose units are the same. "
        "Tables of another schema than `main` have its name before theirs.",
    )

    @field_validator(*_CHECKS, mode="after")
    @classmethod
    def _fits_what_comes_before(cls, value: Any, info: ValidationInfo) -> Any:
        for check in _CHECKS[str(info.field_name)]:
            found = check(value, info.data)
            raise_all([(at, problem_with(reason, hint)) for at, reason, hint in found])
        return value

    def policy(self) -> Policy:
        """Return the same content as frozen values that the rest of dpsql uses."""
        given = {name: value for name, value in self.defaults if name != "delta"}
        delta = self.defaults.delta
        return Policy(
            dataset=self.dataset,
            edition=self.edition or "",
            defaults=Parameters(**given) if delta is None else Parameters(**given, delta=delta),
            delta_share=DELTA_SHARE if delta is None else None,
            maxima=Maxima(**self.maxima.model_dump()),
            accounts={
                name: AccountPolicy(name, a.epsilon, a.delta, a.composition, a.delta_for_conversion)
                for name, a in self.accounts.items()
            },
            tables=self._tables(),
            total=self._total(),
            limits=Limits(**self.limits.model_dump()),
            ledger=self.ledger,
            views=self.views.as_policy(),
            agents={name: agent.as_policy() for name, agent in self.agents.items()},
        )

    def _total(self) -> AccountPolicy | None:
        if self.total is None:
            return None
        composition = next((a.composition for a in self.accounts.values()), Composition.ZCDP)
        total = self.total
        share = total.delta_for_conversion
        return AccountPolicy(self.dataset, total.epsilon, total.delta, composition, share)

    def _tables(self) -> dict[str, TablePolicy]:
        links: dict[str, list[Link]] = {}
        for child, link in self.links:
            links.setdefault(child.key, []).append(link)
        names = ((TableName.of(TableName.read(n) or n), table) for n, table in self.tables.items())
        return {
            name.key: _table_policy(name, table, tuple(links.get(name.key, ())))
            for name, table in names
        }


def _table_policy(name: TableName, table: TableSection, links: tuple[Link, ...]) -> TablePolicy:
    unit = table.privacy_unit
    if unit is None and not links and not table.public:
        raise AssertionError(f"{name} would be public, and nothing says so")
    return TablePolicy(
        name=name,
        privacy_unit=None if unit is None else unit.as_unit(),
        columns={
            fold(column): ColumnPolicy(
                c.lower, c.upper, None if c.domain is None else tuple(c.domain), c.one_per_unit
            )
            for column, c in table.columns.items()
            if not c.is_type_alone
        },
        link=links[0] if unit is None and links else None,
        unit_links=() if unit is None else links,
        time=None if table.time is None else TimeColumn(table.time.column, table.time.zone),
        rows_per_unit=table.rows_per_unit,
        defaults=table.defaults.given(),
        declared=tuple(
            Column(name, SqlType.of(column.type))
            for name, column in table.columns.items()
            if column.type is not None
        ),
        unique=tuple(tuple(map(fold, columns)) for columns in table.unique or ()),
    )
