"""The policy: the tables of analysts, the protected units, and the budgets.

Frozen values only, read from ``policies.yaml`` by :mod:`dpsql.policy.document`; nothing here reads
files. :func:`resolve` is the one place where a query's privacy parameters are decided: the nearest
setting wins, and whatever wins must lie within dpsql's own limits and the policy's maxima.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final, Protocol

from dpsql.core.names import RULE, is_account_name, look_alikes
from dpsql.core.periods import Period
from dpsql.core.schema import Column, fold
from dpsql.core.sql_types import TYPE_HINT
from dpsql.core.table_name import TableName
from dpsql.errors import ParameterError, PolicyError, UnknownName
from dpsql.policy.limits import Limits
from dpsql.policy.parameters import (
    COUNT_LIMITS,
    DELTA_LIMITS,
    MAX_SUGGESTIONS,
    TABLE_PARAMETERS,
    Maxima,
    Parameters,
    ParameterValue,
    _show,
    check_maximum,
    check_value,
    suggestion,
)
from dpsql.privacy.accounting.zcdp import CONVERSION_SHARE, Composition


@dataclass(frozen=True, slots=True)
class UnitPeriod:
    """The periods in which a unit is protected, one at a time: a length and a column.

    Periods follow each other from the start of 1970 on, in the column's own wall time.
    """

    column: str
    every: Period


ROW: Final = "row"
"""The word for a privacy unit that is one row, and the name of that unit."""
ROW_PROMISE: Final = "each row is one person; nobody with two rows is protected as one"
"""The promise of a table whose rows are units of their own."""


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The unit that a table's rows belong to: a name (``aircraft``), and its column.

    Two tables share a unit when they give the same name. With ``per``, a unit is what one of them
    did in one period, and rows of no period belong to nobody. Each row is a unit of its own where
    there is no column (:data:`EACH_ROW`): no other table shares it, whatever its unit is called.
    """

    name: str
    column: str
    per: UnitPeriod | None = None

    @property
    def is_row(self) -> bool:
        """True if each row is a unit of its own."""
        return not self.column

    @property
    def words(self) -> str:
        """The columns of a unit in words: one, or ``user_id per 1 day of played_at``."""
        if self.is_row:
            return ROW_PROMISE
        if self.per is None:
            return self.column
        return f"{self.column} per {self.per.every} of {self.per.column}"

    @property
    def period(self) -> Period | None:
        """The length of the periods a unit is protected in; None for all time."""
        return None if self.per is None else self.per.every


EACH_ROW: Final = PrivacyUnit(ROW, "")
"""The unit of tables in which each row is one person."""


@dataclass(frozen=True, slots=True)
class ColumnPolicy:
    """Public knowledge about a column: an interval its values are clamped to, or their full list.

    ``lower`` and ``upper`` are both given or both None; ``domain`` lists distinct values of one
    type (str, int, float, bool, date or datetime), or is None when the values are not public.
    ``one_per_unit`` is the owner's word that all rows of a unit have one value of it, or NULL all
    of them: so bounds are chosen, and kept by the SQL whether it is true or not.
    """

    lower: float | int | date | None = None
    upper: float | int | date | None = None
    domain: tuple[object, ...] | None = None
    one_per_unit: bool = False


@dataclass(frozen=True, slots=True, init=False)
class Link:
    """How a child table reaches its unit: its ``columns`` hold keys of a ``parent`` table.

    A child row belongs to the unit of the parent row whose ``parent_columns`` are all the same;
    together these must be unique in the parent. Rows without a parent, which are those with NULL in
    a column as well, belong to nobody and are not read.

    Of a child with a unit of its own, it says that a row and those it refers to have the same unit.
    That is not trusted: rows are joined along it where their units are equal, too.
    """

    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]

    def __init__(
        self,
        columns: str | Sequence[str],
        parent: TableName | str,
        parent_columns: str | Sequence[str],
    ) -> None:
        for name, given in (("columns", columns), ("parent_columns", parent_columns)):
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        object.__setattr__(self, "parent", TableName.of(parent))

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The columns of the child, each with the parent's that it is compared with."""
        return tuple(zip(self.columns, self.parent_columns, strict=True))

    @property
    def key(self) -> tuple[str, ...]:
        """The parent's columns, folded and in order: the same for all links to one key."""
        return tuple(sorted(map(fold, self.parent_columns)))


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The column with the time of a row, and the zone of the steps."""

    column: str
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, init=False)
class TablePolicy:
    """A table analysts may use. With neither unit nor link it is public: read as it is.

    A name that is a text has no schema.

    ``columns`` is keyed by folded column name; columns without an entry can still be used.
    ``declared`` are the columns whose types the owner has written, in order. A source that has no
    types of its own, such as CSV, has these columns and no others; elsewhere types must be these.
    ``time`` says when a row happened, which materialized views need. ``rows_per_unit`` is the
    owner's word on how many rows a unit has at most, which is trusted as ``one_per_unit`` of a
    column is. ``unique`` are lists of folded names of columns in all of which no two rows are the
    same, NULL taken for a value: the owner's word, trusted likewise. ``defaults`` are checked
    privacy parameters of questions that read the table. ``unit_links`` are the links of a table
    with a unit of its own.
    """

    name: TableName
    privacy_unit: PrivacyUnit | None
    columns: Mapping[str, ColumnPolicy] = field(default_factory=dict)
    link: Link | None = None
    time: TimeColumn | None = None
    rows_per_unit: int | None = None
    defaults: Mapping[str, ParameterValue] = field(default_factory=dict)
    declared: tuple[Column, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    unit_links: tuple[Link, ...] = ()

    def __init__(
        self,
        name: TableName | str,
        privacy_unit: PrivacyUnit | None,
        columns: Mapping[str, ColumnPolicy] | None = None,
        link: Link | None = None,
        time: TimeColumn | None = None,
        rows_per_unit: int | None = None,
        defaults: Mapping[str, ParameterValue] | None = None,
        declared: tuple[Column, ...] = (),
        unique: tuple[tuple[str, ...], ...] = (),
        unit_links: tuple[Link, ...] = (),
    ) -> None:
        known: dict[str, object] = {"name": TableName.of(name), "privacy_unit": privacy_unit}
        known |= {"link": link, "columns": {} if columns is None else columns, "time": time}
        known |= {"rows_per_unit": rows_per_unit, "defaults": {} if defaults is None else defaults}
        known |= {"declared": declared, "unique": unique, "unit_links": unit_links}
        for each, value in known.items():
            object.__setattr__(self, each, value)

    @property
    def public(self) -> bool:
        """True if the table protects nobody."""
        return self.privacy_unit is None and self.link is None

    @property
    def links(self) -> tuple[Link, ...]:
        """All links of the table."""
        return self.unit_links if self.link is None else (self.link, *self.unit_links)

    def column(self, name: str) -> ColumnPolicy | None:
        """Return the policy on a column (ignoring ASCII case), or None."""
        return self.columns.get(fold(name))


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """A budget over all queries, an analyst's or everybody's, and how queries add up to it.

    ``delta_for_conversion`` is the part of delta, between 0 and 1, that turns what queries add up
    to into epsilon; under basic composition it means nothing.
    """

    name: str
    epsilon: float
    delta: float
    composition: Composition = Composition.ZCDP
    delta_for_conversion: float = CONVERSION_SHARE


DELTA_SHARE: Final = 0.01
"""The part of an account's δ that a query uses if the policies file says nothing of it.

A hundred questions with thresholds use it up. A smaller part would buy little more of them, as
thresholds grow with the logarithm of 1/δ only, and a larger one little less noise.
"""


@dataclass(frozen=True, slots=True)
class ViewsPolicy:
    """Materialized views: their creators, the views shared with all, and the place of their state.

    ``create`` lists accounts, None for all of them. ``shared`` are accounts that pay for views once
    and for everybody. ``directory`` is for the private states of views, an absolute path; without
    it, they lie beside the database.
    """

    create: tuple[str, ...] | None = None
    shared: tuple[str, ...] = ()
    directory: str | None = None

    def strangers(self, accounts: Container[str]) -> Iterator[tuple[tuple[str, int], str]]:
        """Find the names that are none of the accounts: where each is listed, and the name."""
        for key, names in (("create", self.create or ()), ("shared", self.shared)):
            yield from (((key, at), name) for at, name in enumerate(names) if name not in accounts)


@dataclass(frozen=True, slots=True)
class AgentPolicy:
    """What the agents of an analyst may spend, below the analyst's own account.

    ``epsilon_per_run`` limits the account of each run, ``epsilon_per_question`` the worst case of
    one question; above ``confirm_above`` a person must agree to the price. None says nothing.
    """

    epsilon_per_run: float | None = None
    epsilon_per_question: float | None = None
    confirm_above: float | None = None

    def __post_init__(self) -> None:
        for name in AGENT_LIMITS:
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ParameterError(
                    f"{name} must be a number above 0, not {value:g}",
                    code="bad_parameter",
                    hint="Leave it out for no limit of your own.",
                )

    def narrowed(self, other: AgentPolicy) -> AgentPolicy:
        """Return the lower of each two limits; a limit that stands alone holds."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in AGENT_LIMITS)
        lower = (min((x for x in pair if x is not None), default=None) for pair in pairs)
        return AgentPolicy(*lower)


AGENT_LIMITS: Final = ("epsilon_per_run", "epsilon_per_question", "confirm_above")
RUN_SHARE: Final = 0.5
"""The part of an account's ε that a run of its agents may spend where nobody says otherwise.

No loop that has gone astray then uses up the account, whose ε never comes back.
"""


def agent_problems(
    agents: Mapping[str, AgentPolicy], accounts: Mapping[str, AccountLike]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield problems in the limits of agents: where below ``agents``, reason and hint."""
    for name, agent in agents.items():
        account = accounts.get(name)
        if account is None:
            yield (name,), *stranger_problem(name, accounts)
            continue
        for key in AGENT_LIMITS:
            value = getattr(agent, key)
            if value is not None and value > account.epsilon:
                what = f"is above the account's epsilon, {account.epsilon:g}"
                yield (name, key), what, "Lower it, or leave it out."
        run, question = agent.epsilon_per_run, agent.epsilon_per_question
        if run is not None and question is not None and run < question <= account.epsilon:
            what = f"is above epsilon_per_run, {run:g}"
            yield (name, "epsilon_per_question"), what, "Lower it, or leave it out."


class AccountLike(Protocol):
    """An account, or a section of a file that becomes one."""

    @property
    def epsilon(self) -> float:
        """The account's ε."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policies file. ``dataset`` names the budget, so that a new file buys no new one.

    ``tables`` is keyed by the keys of their names, ``accounts`` by exact name. Raises PolicyError
    (``policy_invalid``) if they are not, if a link leads to no unit, if a public table has a time,
    if views or agents are of accounts that do not exist, or for names of the dataset and of
    accounts that could pass for another (:mod:`dpsql.core.names`). ``total``, if any, bounds what
    all analysts together may learn; its composition is that of every account. ``limits``
    bound the work of one private statement. ``ledger`` is where the budget is kept, an absolute
    path or a URL; without it, beside the database. ``edition`` tells editions of the data apart: a
    question about another one is another question. With a ``delta_share`` the δ of a query is that
    part of its account's, and not the one in ``defaults``.
    """

    dataset: str
    defaults: Parameters = field(default_factory=Parameters)
    maxima: Maxima = field(default_factory=Maxima)
    accounts: Mapping[str, AccountPolicy] = field(default_factory=dict)
    tables: Mapping[str, TablePolicy] = field(default_factory=dict)
    total: AccountPolicy | None = None
    limits: Limits = field(default_factory=Limits)
    ledger: str | None = None
    views: ViewsPolicy = field(default_factory=ViewsPolicy)
    delta_share: float | None = None
    edition: str = ""
    agents: Mapping[str, AgentPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for reason, hint in self._name_problems():
            raise PolicyError(reason, code="policy_invalid", hint=hint)
        for _, reason, hint in period_problems({str(t.name): t for t in self.tables.values()}):
            raise PolicyError(reason, code="policy_invalid", hint=hint)
        for table in self.tables.values():
            for reason, hint in _misplaced_links(table):
                raise PolicyError(reason, code="policy_invalid", hint=hint)
        links = [(t.name, link) for t in self.tables.values() for link in t.links]
        for _, reason, hint in link_problems(links, self.tables):
            raise PolicyError(reason, code="policy_invalid", hint=hint)
        for _, account in self.views.strangers(self.accounts):
            what, hint = stranger_problem(account, self.accounts)
            raise PolicyError(f"views: {what}", code="policy_invalid", hint=hint)
        for at, what, hint in agent_problems(self.agents, self.accounts):
            raise PolicyError(f"agents.{'.'.join(at)}: {what}", code="policy_invalid", hint=hint)
        for key, table in self.tables.items():
            for what, hint in self._table_problems(table):
                raise PolicyError(f"{table.name}: {what}", code="policy_invalid", hint=hint)
            if key != table.name.key:
                raise PolicyError(
                    f"the table {_show(str(table.name))} is listed as {_show(key)}",
                    code="policy_invalid",
                    hint=f"Tables are listed by folded names, here {_show(table.name.key)}.",
                )

    def _table_problems(self, table: TablePolicy) -> Iterator[tuple[str, str]]:
        """Yield problems in a table's declarations: reasons and hints."""
        if table.public and table.time is not None:
            yield PUBLIC_TIME
        unit, columns = table.privacy_unit, table.columns.values()
        promised = table.rows_per_unit is not None or bool(table.unique)
        promised = promised or any(c.one_per_unit for c in columns)
        if table.public and (promised or table.defaults):
            yield PUBLIC_PROMISE
        if promised and unit is not None and unit.is_row:
            yield ROW_IS_ONE
        for column in table.declared:
            if column.type.declared is None:
                yield f"the column {_show(column.name)} has no type that is known", TYPE_HINT
        rows = table.rows_per_unit
        if rows is not None and (type(rows) is not int or not _within(rows, COUNT_LIMITS)):
            yield f"rows_per_unit {_show(rows)}", ROWS_HINT
        for name, value in table.defaults.items():
            problem = table_default_problem(self.maxima, name, value)
            if problem is not None:
                yield problem

    def _name_problems(self) -> Iterator[tuple[str, str]]:
        """Yield problems in names that become parts of account paths: reasons and hints."""
        for what, name in (("dataset", self.dataset), *(("account", n) for n in self.accounts)):
            if not is_account_name(name):
                yield f"the name of the {what} {_show(name)} is not one: it {RULE}", PLAIN_NAME
        for name, account in self.accounts.items():
            if account.name != name:
                reason = f"the account {_show(account.name)} is listed as {_show(name)}"
                yield reason, "Accounts are listed by their names."
        for first, second in look_alikes(self.accounts):
            yield look_alike_problem(first, second)

    def of_account(self, name: str) -> Policy:
        """Return the policy as an account has it: its defaults then have the δ of its queries.

        A part of the whole account, whatever is left of it, and of nothing that is not public: the
        same question asked again is the same question. Raises ``UnknownName``.
        """
        account = self.account(name)
        if self.delta_share is None:
            return self
        limits = [self.delta_share * account.delta]
        limits += [] if self.maxima.delta is None else [self.maxima.delta]
        delta = max(DELTA_LIMITS[0], min(limits))
        return replace(self, defaults=replace(self.defaults, delta=delta), delta_share=None)

    def table(self, name: TableName | str) -> TablePolicy | None:
        """Return the table of this name (ignoring ASCII case), or None for an unlisted one.

        A text is the name of a table without a schema.
        """
        return self.tables.get(TableName.of(name).key)

    @property
    def names(self) -> tuple[TableName, ...]:
        """The names of the tables, in order."""
        return tuple(table.name for table in self.tables.values())

    @property
    def declared(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of tables that the owner has declared, by the keys of the tables' names."""
        return {key: table.declared for key, table in self.tables.items() if table.declared}

    def unit_of(self, table: TablePolicy) -> PrivacyUnit | None:
        """Return the unit a table protects, its own or its parents'; None if it is public."""
        while table.privacy_unit is None and table.link is not None:
            parent = self.table(table.link.parent)
            assert parent is not None, "links are checked when the policy is made"
            table = parent
        return table.privacy_unit

    def unit_name(self, table: TablePolicy) -> str | None:
        """Name the unit a table protects, its own or its parents'; None if it is public."""
        unit = self.unit_of(table)
        return None if unit is None else unit.name

    @property
    def units_per_period(self) -> tuple[str, ...]:
        """The units of one period each, in words: ``user-day (user_id per 1 day of played_at)``."""
        units = [t.privacy_unit for t in self.tables.values() if t.privacy_unit is not None]
        found = [f"{unit.name} ({unit.words})" for unit in units if unit.per is not None]
        return tuple(dict.fromkeys(found))

    @property
    def tables_of_rows(self) -> tuple[TableName, ...]:
        """The tables in which each row is a unit of its own."""
        tables = ((t.name, t.privacy_unit) for t in self.tables.values())
        return tuple(name for name, unit in tables if unit is not None and unit.is_row)

    def refers_to_unit(self, link: Link) -> bool:
        """Tell whether the only column a link refers to is the parent's privacy unit itself."""
        parent = self.table(link.parent)
        unit = None if parent is None else parent.privacy_unit
        return unit is not None and is_all_of(unit, *link.parent_columns)

    def account(self, name: str) -> AccountPolicy:
        """Return the account of that name. Raises UnknownName (``unknown_account``)."""
        account = self.accounts.get(name)
        if account is None:
            raise UnknownName(
                f"the policy has no account {_show(name)}",
                code="unknown_account",
                hint=suggestion(name, self.accounts)
                or "Ask the owner of the data to add it under `accounts` in the policies file.",
            )
        return account

    def agent(self, name: str, given: AgentPolicy) -> AgentPolicy:
        """Return what a run of an account's agents may spend, started with limits of its own.

        These only narrow what the policy says of the account. A run that neither limits may spend
        half of the account's ε. Raises ``UnknownName`` (``unknown_account``).
        """
        account = self.account(name)
        found = self.agents.get(name, AgentPolicy()).narrowed(given)
        if found.epsilon_per_run is not None:
            return found
        return replace(found, epsilon_per_run=RUN_SHARE * account.epsilon)


PLAIN_NAME: Final = "Choose a plain name."
PUBLIC_TIME: Final = (
    "a public table needs no time",
    "Views read the time of the private table: remove `time`, or `public: true`.",
)
"""What is wrong with a public table that has a time: reason and hint."""


PUBLIC_PROMISE: Final = (
    "a public table has no units, so nothing is promised of them, and no default is for it",
    "Remove `rows_per_unit`, `unique`, `one_per_unit` and `defaults`, or `public: true`.",
)
"""The problem of a public table with declarations about units: reason and hint."""
ROW_IS_ONE: Final = (
    "each row is a unit of its own, so a unit has one row and one value of each column",
    "Remove `rows_per_unit`, `unique` and `one_per_unit`.",
)
"""The problem of a table of single rows with declarations about a unit's rows."""
ROWS_HINT: Final = f"Give a whole number from {COUNT_LIMITS[0]} to {COUNT_LIMITS[1]}."


def _within(value: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= value <= limits[1]


def table_default_problem(
    maxima: Maxima, name: str, value: ParameterValue
) -> tuple[str, str] | None:
    """Find a problem in a table's default for a parameter: reason and hint, or None."""
    if name not in TABLE_PARAMETERS:
        return f"a table has no default {_show(name)}", f"One of: {', '.join(TABLE_PARAMETERS)}."
    try:
        checked = check_value(name, value)
        if hasattr(maxima, name):
            assert not isinstance(checked, str | Period)
            check_maximum(maxima, name, checked)
    except ParameterError as error:
        hint = f"Lower it, or raise maxima.{name}." if "at most" in error.reason else error.hint
        return error.reason, hint or "Correct it."
    return None


def stranger_problem(name: str, accounts: Mapping[str, object]) -> tuple[str, str]:
    """Report a name without an account: reason and hint."""
    reason = f"the policy has no account {_show(name)}"
    return reason, suggestion(name, accounts) or "Add it under `accounts`, or remove it here."


def look_alike_problem(first: str, second: str) -> tuple[str, str]:
    """Report two accounts with look-alike names: reason and hint."""
    reason = f"the accounts {_show(first)} and {_show(second)} look the same, and are two budgets"
    return reason, "Keep one of the two, or choose names that differ by more."


class UnitLike(Protocol):
    """A privacy unit as far as other tables are concerned."""

    @property
    def name(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def is_row(self) -> bool: ...
    @property
    def period(self) -> Period | None: ...


def is_all_of(unit: UnitLike, *columns: str) -> bool:
    """Tell whether a column alone identifies the unit, without a period."""
    return not (unit.is_row or unit.period) and [fold(unit.column)] == [*map(fold, columns)]


class Linkable(Protocol):
    """A table as far as links are concerned."""

    @property
    def privacy_unit(self) -> UnitLike | None: ...
    @property
    def public(self) -> bool: ...


def period_problems(tables: Mapping[str, Linkable]) -> Iterator[tuple[str, str, str]]:
    """Tell which tables have another period than those of the same unit: name, reason, hint."""
    first: dict[str, tuple[str, Period | None]] = {}
    for name, table in tables.items():
        unit = table.privacy_unit
        if unit is None:
            continue
        other, period = first.setdefault(unit.name, (name, unit.period))
        if period != unit.period:
            yield (
                name,
                f"{name} and {other} give different periods to one privacy unit",
                "Give both the same `per: {every: …}`, or their units different names.",
            )


def link_problems(
    links: Sequence[tuple[TableName, Link]], tables: Mapping[str, Linkable]
) -> Iterator[tuple[int, str, str]]:
    """Find problems in links, given as pairs of child and link: position, reason and hint.

    ``tables`` is keyed by the keys of their names. Without a problem, every link leads to a privacy
    unit, and to one only: whose row a row is follows from its table alone. Tables with units of
    their own are linked if these are units of one name, which columns identify.
    """
    ends: dict[str, str] = {}  # each child, and a table that its links lead to
    found = 0
    for position, (child, link) in enumerate(links):
        # Looking for a name like it takes a while among many: the first few are enough.
        problem = _wrong_ends(child, link, tables, suggest=found < MAX_SUGGESTIONS)
        if problem is None and tables[child.key].privacy_unit is not None:
            continue  # whose row it is, its own column says
        if problem is None and child.key in ends:
            problem = (
                f"{child} has a link already",
                "A row belongs to one unit: keep one of the two.",
            )
        if problem is None:
            if _end_of_links(link.parent.key, ends) != child.key:
                ends[child.key] = link.parent.key
            else:
                problem = (
                    "the links go round in a circle",
                    "They must end at a table with a privacy_unit.",
                )
        if problem is not None:
            found += 1
            yield position, *problem


def _wrong_ends(
    child: TableName, link: Link, tables: Mapping[str, Linkable], *, suggest: bool
) -> tuple[str, str] | None:
    for name in (child, link.parent):
        if name.key not in tables:
            hint = (suggestion(str(name), tables) if suggest else None) or "List it under tables."
            return f"there is no table {name} in this policy", hint
    if len(set(map(fold, link.columns))) < len(link.columns) or len(set(link.key)) < len(link.key):
        return f"a link of {child} names a column twice", "Name each column of a key once."
    if tables[child.key].public:
        return f"{child} is public", "Remove `public: true`, or the link."
    own, unit = tables[child.key].privacy_unit, tables[link.parent.key].privacy_unit
    if own is not None and (
        unit is None or unit.name != own.name or any(u.is_row or u.period for u in (own, unit))
    ):
        return _own_unit(child)
    if unit is not None and unit.is_row:
        return (
            f"each row of {link.parent} is a unit of its own, which no other table shares",
            f"Where rows of {child} belong to its people, its unit is the column that the link "
            f"refers to: `privacy_unit: {{name: WHO, column: {', '.join(link.parent_columns)}}}`.",
        )
    if unit is not None and unit.period and (fold(unit.column),) == link.key:
        return (
            f"{link.parent}.{link.parent_columns[0]} says who, but not in which period",
            "Link to a column that is unique there, such as the number of the row.",
        )
    if tables[link.parent.key].public:
        return (
            f"{link.parent} is public, so its rows belong to nobody",
            "A link leads to a table with a privacy_unit, or with a link of its own.",
        )
    return None


def _misplaced_links(table: TablePolicy) -> Iterator[tuple[str, str]]:
    """Yield problems of links beside a privacy unit, or without one: reasons and hints."""
    if table.privacy_unit is not None and table.link is not None:
        yield _own_unit(table.name)
    if table.privacy_unit is None and table.unit_links:
        yield f"{table.name} has no privacy_unit of its own", "Give its link as `link`."


def _own_unit(child: TableName) -> tuple[str, str]:
    return (
        f"{child} has a privacy_unit of its own",
        "Remove one of the two. A table that says itself whose row it is can be linked to one that "
        "says it of the same unit: both in a column, and not per period.",
    )


def _end_of_links(name: str, ends: dict[str, str]) -> str:
    """Find the table where a chain of links ends; its tables then point there at once."""
    passed = []
    while name in ends:
        passed.append(name)
        name = ends[name]
    ends.update(dict.fromkeys(passed, name))
    return name
