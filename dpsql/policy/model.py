"""The policy: which tables analysts may ask about, whom it protects, and how much it may reveal.

Frozen values only, read from ``policies.yaml`` by :mod:`dpsql.policy.document`; nothing here reads
files. :func:`resolve` is the one place where a query's privacy parameters are decided: the nearest
setting wins, and whatever wins must lie within dpsql's own limits and the policy's maxima.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum, StrEnum
from typing import Any, Final, Protocol

from dpsql.accounting.zcdp import Composition
from dpsql.core.names import RULE, is_account_name, look_alikes
from dpsql.core.plain import NotPlain, plain, plain_text, type_name
from dpsql.core.schema import fold
from dpsql.errors import ParameterError, PolicyError, UnknownName


@dataclass(frozen=True, slots=True)
class _Odd:
    """Stands for an object that is no value of a built-in type, and is asked nothing."""

    kind: str


def _plain(value: object) -> object:
    """A setting as a value of exactly a built-in type, whatever object was passed for it."""
    if type(value) in (_Odd, NotGiven):
        return value
    try:
        return plain(value)
    except NotPlain:
        return _Odd(type_name(value))


class NotGiven(Enum):
    """The type of NOT_GIVEN."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN
"""A setting left out. Distinct from None, which for ``max_groups_contributed`` is a choice."""

UNLIMITED: Final = None
"""The value of ``max_groups_contributed`` when a unit may touch any number of groups."""

# dpsql's own limits, whatever a policy says. Beyond them nothing is protected (epsilon), the noise
# or its tail is no longer a finite double (epsilon and delta near 0), or counts leave 32 bits.
EPSILON_LIMITS: Final = (1e-6, 1000.0)
DELTA_LIMITS: Final = (1e-18, 0.5)
COUNT_LIMITS: Final = (1, 2**31 - 1)
SECONDS_LIMIT: Final = 86_400
MEMORY_LIMITS: Final = ("64MB", "64TB")
PRIVATE_RELATIONS_LIMITS: Final = (1, 64)
MAX_SUGGESTIONS: Final = 20


class ContributionBounding(StrEnum):
    """How a unit that touches more than ``max_groups_contributed`` groups is bounded.

    SAMPLE keeps that many of its groups, each in full. WEIGHT keeps more of them, each at less than
    full weight. Either way the unit's influence is the same, so this is not a matter of privacy.
    """

    SAMPLE = "sample"
    WEIGHT = "weight"


Setting = float | int | ContributionBounding | None
"""The value of a checked parameter."""


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Whom a table's rows belong to: ``name`` (``aircraft``) and the column that says which one.

    Two tables share a unit when they give the same name.
    """

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class ColumnPolicy:
    """Public knowledge about a column: an interval its values are clamped to, or their full list.

    ``lower`` and ``upper`` are both given or both None; ``domain`` lists distinct values of one
    type (str, int, float, bool, date or datetime), or is None when the values are not public.
    """

    lower: float | int | None = None
    upper: float | int | None = None
    domain: tuple[object, ...] | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """How a child table reaches its unit: its ``column`` holds keys of a ``parent`` table.

    A child row belongs to the unit of the parent row whose ``parent_column`` is the same; that
    column must be unique in the parent. Rows without a parent belong to nobody and are not read.
    """

    column: str
    parent: str
    parent_column: str


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A table analysts may use. With neither unit nor link it is public: read as it is.

    ``columns`` is keyed by folded column name; columns without an entry can still be used.
    """

    name: str
    privacy_unit: PrivacyUnit | None
    columns: Mapping[str, ColumnPolicy] = field(default_factory=dict)
    link: Link | None = None

    @property
    def public(self) -> bool:
        """True when the table protects nobody."""
        return self.privacy_unit is None and self.link is None

    def column(self, name: str) -> ColumnPolicy | None:
        """What the policy says about a column (ignoring ASCII case), or None if nothing."""
        return self.columns.get(fold(name))


@dataclass(frozen=True, slots=True)
class Parameters:
    """The privacy parameters of one query, complete and checked. The defaults are dpsql's own.

    ``epsilon``, ``delta``: what the query may cost at most. ``max_groups_contributed``: groups one
    unit may influence, None for unlimited. ``max_rows_contributed``: rows one unit may add to one
    group. ``k_bar``: how many of the largest groups a top-k mechanism looks at.
    ``min_units_per_group``: groups of fewer units are left out: with undeclared keys by their
    number of units, with declared ones by that number with noise.
    ``contribution_bounding``: how a unit with too many groups is bounded.
    """

    epsilon: float = 0.5
    delta: float = 1e-8
    max_groups_contributed: int | None = 10
    max_rows_contributed: int = 10
    k_bar: int = 1000
    min_units_per_group: int = 1
    contribution_bounding: ContributionBounding = ContributionBounding.SAMPLE


@dataclass(frozen=True, slots=True)
class Overrides:
    """Settings of a query or a connection. Each is NOT_GIVEN or a value, unchecked until resolve.

    Typed ``object`` because the values come from outside: SQL options, ``SET``, ``connect()``.
    """

    epsilon: object = NOT_GIVEN
    delta: object = NOT_GIVEN
    max_groups_contributed: object = NOT_GIVEN
    max_rows_contributed: object = NOT_GIVEN
    k_bar: object = NOT_GIVEN
    min_units_per_group: object = NOT_GIVEN
    contribution_bounding: object = NOT_GIVEN

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Overrides:
        """Overrides from names and values; names ignore case.

        Raises ParameterError (``unknown_parameter``) for a name that is not a parameter.
        """
        folded: dict[str, object] = {}
        for written, value in settings.items():
            name = plain_text("the name of a privacy parameter", written)
            check_parameter_name(name)
            folded[fold(name)] = _plain(value)
        return cls(**folded)


@dataclass(frozen=True, slots=True)
class Maxima:
    """The most a query may ask for; None is no maximum.

    There is none for ``min_units_per_group``, whose default is already the least a query may use,
    nor for ``contribution_bounding``, which is a choice and not an amount.
    """

    epsilon: float | None = None
    delta: float | None = None
    max_groups_contributed: int | None = None
    max_rows_contributed: int | None = None
    k_bar: int | None = None


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """A budget over all queries, an analyst's or everybody's, and how queries add up to it."""

    name: str
    epsilon: float
    delta: float
    composition: Composition = Composition.ZCDP


class ResourceFailures(StrEnum):
    """What becomes of an account whose statement ran out of time or memory on private rows.

    Rows decide whether a statement does, so its failing says something about them. SUSPEND lets
    the account ask no further private question until the owner reopens it. KEEP keeps the
    reservation and nothing else: for owners who trust their analysts not to ask that way.
    """

    SUSPEND = "suspend"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Limits:
    """The work one private statement may be.

    ``seconds`` and ``memory`` (a size as DuckDB writes it, None for the engine's own limit) bound
    its run; ``private_relations`` how many private tables it joins, each as often as it is read.
    Raises PolicyError (``policy_invalid``) for a value that is none, or outside dpsql's limits.
    """

    seconds: float = 600.0
    memory: str | None = None
    private_relations: int = 8
    resource_failures: ResourceFailures = ResourceFailures.SUSPEND

    def __post_init__(self) -> None:
        for setting in fields(self):
            problem = limit_problem(setting.name, getattr(self, setting.name))
            if problem is not None:
                reason, hint = problem
                raise PolicyError(
                    f"limits.{setting.name} {reason}", code="policy_invalid", hint=hint
                )


def limit_problem(name: str, value: object) -> tuple[str, str] | None:
    """What is wrong with a limit, as a reason and a hint, or None."""
    match name:
        case "seconds":
            right = type(value) in (int, float) and 0 < value <= SECONDS_LIMIT  # type: ignore[operator]
            reason = f"must be a number above 0 and at most {SECONDS_LIMIT}"
            hint = "Give the seconds one private statement may run."
        case "memory":
            right = value is None or (type(value) is str and _is_memory(value))
            least, most = MEMORY_LIMITS
            reason = f"must be a size from {least} to {most}"
            hint = "Write it as the engine does, for example 8GB or 512MB."
        case "private_relations":
            low, high = PRIVATE_RELATIONS_LIMITS
            right = type(value) is int and low <= value <= high
            reason = f"must be a whole number from {low} to {high}"
            hint = "Give how many private tables one statement may join."
        case _:
            right = isinstance(value, ResourceFailures)
            reason = "must be `suspend` or `keep`"
            hint = (
                "`suspend` closes the account until the owner reopens it, `keep` only keeps what "
                "was reserved."
            )
    return None if right else (reason, hint)


MEMORY: Final = re.compile(r"([1-9][0-9]{0,8})([KMGT])(i?)B")
"""A size of memory as the engine reads it."""


def _is_memory(text: str) -> bool:
    low, high = (_bytes(limit) or 0 for limit in MEMORY_LIMITS)
    return low <= (_bytes(text) or 0) <= high


def _bytes(text: str) -> int | None:
    """The bytes of a size, or None if the text is none."""
    found = MEMORY.fullmatch(text)
    if found is None:
        return None
    number, unit, binary = found.groups()
    exponent = " KMGT".index(unit)
    return int(number) << 10 * exponent if binary else int(number + "000" * exponent)


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policies file. ``dataset`` names the budget, so that a new file buys no new one.

    ``tables`` is keyed by folded table name, ``accounts`` by exact name. Raises PolicyError
    (``policy_invalid``) if they are not, if a link leads to no unit, or for names of the dataset
    and of accounts that could pass for another (:mod:`dpsql.core.names`). ``total``, if any, bounds
    what all analysts together may learn; its composition is that of every account. ``limits``
    bound the work of one private statement. ``ledger`` is where the budget is kept, an absolute
    path or a URL; without it, beside the database.
    """

    dataset: str
    defaults: Parameters = field(default_factory=Parameters)
    maxima: Maxima = field(default_factory=Maxima)
    accounts: Mapping[str, AccountPolicy] = field(default_factory=dict)
    tables: Mapping[str, TablePolicy] = field(default_factory=dict)
    total: AccountPolicy | None = None
    limits: Limits = field(default_factory=Limits)
    ledger: str | None = None

    def __post_init__(self) -> None:
        for reason, hint in self._name_problems():
            raise PolicyError(reason, code="policy_invalid", hint=hint)
        links = [(t.name, t.link) for t in self.tables.values() if t.link is not None]
        for _, reason, hint in link_problems(links, self.tables):
            raise PolicyError(reason, code="policy_invalid", hint=hint)
        for key, table in self.tables.items():
            if key != fold(table.name):
                raise PolicyError(
                    f"the table {_show(table.name)} is listed as {_show(key)}",
                    code="policy_invalid",
                    hint=f"Tables are listed by folded names, here {_show(fold(table.name))}.",
                )

    def _name_problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the names that paths of accounts are made of: reasons and hints."""
        for what, name in (("dataset", self.dataset), *(("account", n) for n in self.accounts)):
            if not is_account_name(name):
                yield f"the name of the {what} {_show(name)} is not one: it {RULE}", PLAIN_NAME
        for name, account in self.accounts.items():
            if account.name != name:
                reason = f"the account {_show(account.name)} is listed as {_show(name)}"
                yield reason, "Accounts are listed by their names."
        for first, second in look_alikes(self.accounts):
            yield look_alike_problem(first, second)

    def table(self, name: str) -> TablePolicy | None:
        """The table of that name (ignoring ASCII case), or None: it does not exist for analysts."""
        return self.tables.get(fold(name))

    def unit_name(self, table: TablePolicy) -> str | None:
        """The name of the unit a table protects, its own or its parents'; None if it is public."""
        while table.privacy_unit is None and table.link is not None:
            parent = self.table(table.link.parent)
            assert parent is not None, "links are checked when the policy is made"
            table = parent
        return None if table.privacy_unit is None else table.privacy_unit.name

    def refers_to_unit(self, link: Link) -> bool:
        """True if the column a link refers to is the parent's privacy unit itself."""
        parent = self.table(link.parent)
        unit = None if parent is None else parent.privacy_unit
        return unit is not None and fold(unit.column) == fold(link.parent_column)

    def account(self, name: str) -> AccountPolicy:
        """The account of that name. Raises UnknownName (``unknown_account``)."""
        account = self.accounts.get(name)
        if account is None:
            raise UnknownName(
                f"the policy has no account {_show(name)}",
                code="unknown_account",
                hint=suggestion(name, self.accounts)
                or "Ask the owner of the data to add it under `accounts` in the policies file.",
            )
        return account


PLAIN_NAME: Final = "Choose a plain name."


def look_alike_problem(first: str, second: str) -> tuple[str, str]:
    """What is wrong with two accounts that look the same: reason and hint."""
    reason = f"the accounts {_show(first)} and {_show(second)} look the same, and are two budgets"
    return reason, "Keep one of the two, or choose names that differ by more."


class Linkable(Protocol):
    """A table as far as links are concerned."""

    @property
    def privacy_unit(self) -> object | None: ...
    @property
    def public(self) -> bool: ...


def link_problems(
    links: Sequence[tuple[str, Link]], tables: Mapping[str, Linkable]
) -> Iterator[tuple[int, str, str]]:
    """What is wrong with links, each a child's name and its link: position, reason and hint.

    ``tables`` is keyed by folded name. Without a problem, every link leads to a privacy unit, and
    to one only: whose row a row is follows from its table alone.
    """
    ends: dict[str, str] = {}  # each child, and a table that its links lead to
    found = 0
    for position, (child, link) in enumerate(links):
        # Looking for a name like it takes a while among many: the first few are enough.
        problem = _wrong_ends(child, link, tables, suggest=found < MAX_SUGGESTIONS)
        if problem is None and fold(child) in ends:
            problem = (
                f"{child} has a link already",
                "A row belongs to one unit: keep one of the two.",
            )
        if problem is None:
            if _end_of_links(fold(link.parent), ends) != fold(child):
                ends[fold(child)] = fold(link.parent)
            else:
                problem = (
                    "the links go round in a circle",
                    "They must end at a table with a privacy_unit.",
                )
        if problem is not None:
            found += 1
            yield position, *problem


def _wrong_ends(
    child: str, link: Link, tables: Mapping[str, Linkable], *, suggest: bool
) -> tuple[str, str] | None:
    for name in (child, link.parent):
        if fold(name) not in tables:
            hint = (suggestion(name, tables) if suggest else None) or "List it under tables."
            return f"there is no table {name} in this policy", hint
    if tables[fold(child)].privacy_unit is not None:
        return (
            f"{child} has a privacy_unit of its own",
            "Remove one of the two: a link is for tables that do not say whose row it is.",
        )
    if tables[fold(child)].public:
        return f"{child} is public", "Remove `public: true`, or the link."
    if tables[fold(link.parent)].public:
        return (
            f"{link.parent} is public, so its rows belong to nobody",
            "A link leads to a table with a privacy_unit, or with a link of its own.",
        )
    return None


def _end_of_links(name: str, ends: dict[str, str]) -> str:
    """The table that a chain of links ends at; its tables are pointed there, for the next time."""
    passed = []
    while name in ends:
        passed.append(name)
        name = ends[name]
    ends.update(dict.fromkeys(passed, name))
    return name


PARAMETER_NAMES: Final = tuple(f.name for f in fields(Parameters))


def resolve(policy: Policy, *overrides: Overrides, base: Parameters | None = None) -> Parameters:
    """The parameters of a query: ``base``, then each override, the last one winning.

    ``base`` is the policy's defaults unless given; order overrides from far to near: connection,
    session, query, a SELECT's OPTIONS. Raises ParameterError
    (``parameter_not_number``, ``parameter_not_integer``, ``parameter_not_finite``,
    ``parameter_not_a_choice`` or ``parameter_out_of_range``) for the first winning value outside
    its range.
    """
    chosen: dict[str, object] = {n: getattr(base or policy.defaults, n) for n in PARAMETER_NAMES}
    for settings in overrides:
        for name in PARAMETER_NAMES:
            value = getattr(settings, name)
            if value is not NOT_GIVEN:
                chosen[name] = value
    checked: dict[str, Any] = {n: check_setting(policy, n, value) for n, value in chosen.items()}
    return Parameters(**checked)


def check_setting(policy: Policy, name: str, value: object) -> Setting:
    """One parameter of a query, checked against dpsql's limits and the policy's.

    Raises ParameterError as :func:`resolve` does.
    """
    checked = check_value(name, value)
    if isinstance(checked, ContributionBounding):
        return checked
    if name == "min_units_per_group":
        _check_minimum(policy.defaults.min_units_per_group, checked)
    else:
        check_maximum(policy.maxima, name, checked)
    return checked


def check_value(name: str, value: object) -> Setting:
    """One parameter, checked against dpsql's own limits alone.

    The word ``unlimited`` (or None) is a value of ``max_groups_contributed`` only. Raises
    ParameterError (also ``unknown_parameter``).
    """
    check_parameter_name(name)
    name, value = fold(name), _plain(value)
    if name == "max_groups_contributed" and _is_unlimited(value):
        return UNLIMITED
    if name == "epsilon":
        return _real(name, value, EPSILON_LIMITS)
    if name == "delta":
        return _real(name, value, DELTA_LIMITS)
    if name == "contribution_bounding":
        return _contribution_bounding(value)
    return _count(name, value)


def check_maximum(maxima: Maxima, name: str, value: float | int | None) -> None:
    """Raise ParameterError (``parameter_out_of_range``) if the value exceeds its maximum."""
    maximum: float | int | None = getattr(maxima, name)
    if maximum is None or (value is not UNLIMITED and value <= maximum):
        return
    given = "unlimited" if value is UNLIMITED else _show(value)
    raise ParameterError(
        f"{name} must be at most {maximum}, but is {given}",
        code="parameter_out_of_range",
        hint=f"The maximum is the policy's: maxima.{name} in the policies file.",
    )


def check_parameter_name(name: str) -> None:
    """Raise ParameterError (``unknown_parameter``) unless this names a privacy parameter."""
    if fold(name) not in PARAMETER_NAMES:
        raise ParameterError(
            f"there is no privacy parameter {_show(name)}",
            code="unknown_parameter",
            hint=suggestion(name, PARAMETER_NAMES) or f"One of: {', '.join(PARAMETER_NAMES)}.",
        )


def suggestion(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str | None:
    """``Did you mean `x`?`` for the known name most like this one, or None."""
    by_fold = {fold(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(fold(name), by_fold, n=1, cutoff=0.6)
    return f"Did you mean `{by_fold[close[0]]}`?" if close else None


def _check_minimum(minimum: int, value: float | int | None) -> None:
    if value is None or value < minimum:
        raise ParameterError(
            f"min_units_per_group must be at least {minimum}, but is {_show(value)}",
            code="parameter_out_of_range",
            hint="A query may raise the policy's defaults.min_units_per_group, never lower it.",
        )


def _real(name: str, value: object, limits: tuple[float, float]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ParameterError(
            f"{name} must be a number, but is {_show(value)}", code="parameter_not_number"
        )
    low, high = limits
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(
            f"{name} must be a finite number, but is {value}",
            code="parameter_not_finite",
            hint=f"Give a number between {low:g} and {high:g}.",
        )
    if not low <= value <= high:
        raise _outside(name, value, f"{low:g}", f"{high:g}")
    return float(value)


def _count(name: str, value: object) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(
            f"{name} must be a finite number, but is {value}",
            code="parameter_not_finite",
            hint=_count_hint(name),
        )
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(
            f"{name} must be a whole number, but is {_show(value)}",
            code="parameter_not_integer",
            hint=_count_hint(name),
        )
    low, high = COUNT_LIMITS
    if not low <= value <= high:
        raise _outside(name, value, str(low), str(high))
    return int(value)


def _contribution_bounding(value: object) -> ContributionBounding:
    try:
        return ContributionBounding(fold(value) if isinstance(value, str) else "")
    except ValueError:
        raise ParameterError(
            f"contribution_bounding must be `sample` or `weight`, but is {_show(value)}",
            code="parameter_not_a_choice",
            hint="`sample` keeps max_groups_contributed groups of a unit, `weight` keeps more, "
            "each at less than full weight.",
        ) from None


def _count_hint(name: str) -> str:
    word = ", or `unlimited`" if name == "max_groups_contributed" else ""
    return f"Give a whole number from {COUNT_LIMITS[0]} to {COUNT_LIMITS[1]}{word}."


def _outside(name: str, value: object, low: str, high: str) -> ParameterError:
    return ParameterError(
        f"{name} must be between {low} and {high}, but is {_show(value)}",
        code="parameter_out_of_range",
        hint="These are dpsql's own limits; a policy can narrow them, never widen them.",
    )


def _is_unlimited(value: object) -> bool:
    return value is UNLIMITED or (isinstance(value, str) and fold(value) == "unlimited")


def _show(value: object) -> str:
    """A setting as it may be quoted back: short, whatever was sent (a huge int has no repr)."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, bool | int | float | str) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a {value.kind if isinstance(value, _Odd) else type_name(value)}"
