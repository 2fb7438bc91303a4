"""Listings of SHOW and DESCRIBE: facts of the policy, the schema and the account, never of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from dpsql.accuracy.wording import enumerated
from dpsql.budget import BudgetReport
from dpsql.budget.account import AccountReport
from dpsql.core.quoting import quote_text
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.core.sql_types import BIGINT, BOOLEAN, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType
from dpsql.core.table_name import TableName, only_namesake
from dpsql.errors import Place, UnknownName
from dpsql.policy.model import Policy, TablePolicy
from dpsql.policy.parameters import (
    NOT_GIVEN,
    PARAMETER_NAMES,
    Overrides,
    Parameters,
    parameter_text,
    suggestion,
)
from dpsql.policy.resolve import defaults_of, resolve
from dpsql.privacy.accounting.zcdp import Composition
from dpsql.sql.blocks.catalog import MAIN_SCHEMA, tables_of_policy
from dpsql.syntax.client_settings import Unchanged

if TYPE_CHECKING:
    from dpsql.views.prepare import PreparedView
    from dpsql.views.views import Refreshed, View


def _columns(*names: str, numbers: Collection[str] = ()) -> tuple[Column, ...]:
    return tuple(Column(name, DOUBLE if name in numbers else VARCHAR) for name in names)


BUDGET_COLUMNS: Final = _columns(
    *("account", "quantity", "spent", "remaining", "limit"), numbers=("spent", "remaining", "limit")
)
TABLE_COLUMNS: Final = (
    *_columns("name", "access", "privacy_unit"),
    Column("rows_per_unit", BIGINT),
    *_columns("defaults"),
)
_EITHER: Final = ("epsilon", "max_error")  # of these the nearer one holds
PARAMETER_COLUMNS: Final = _columns("parameter", "value", "source", "limit")
COLUMN_COLUMNS: Final = _columns(
    *("column_name", "column_type", "access", "lower", "upper", "domain"),
    numbers=("lower", "upper"),
)
PLAN_COLUMNS: Final = _columns("plan")
"""The columns of each statement's listing; ``PLAN_COLUMNS`` for EXPLAIN."""


VIEW_COLUMNS: Final = (
    *_columns("name", "step"),
    Column("steps", BIGINT),
    Column("published", BIGINT),
    Column("last", TIMESTAMP),
    Column("shared", BOOLEAN),
    *_columns("found", "query"),
)
REFRESH_COLUMNS: Final = (
    *_columns("view"),
    Column("published", BIGINT),
    Column("rows", BIGINT),
    Column("remaining", BIGINT),
)


ALL_TABLE_COLUMNS: Final = (
    *_columns("database", "schema", "name"),
    Column("column_names", SqlType.of("VARCHAR[]")),
    Column("column_types", SqlType.of("VARCHAR[]")),
    Column("temporary", BOOLEAN),
)
DATABASE_COLUMNS: Final = _columns("database_name")
SCHEMA_COLUMNS: Final = _columns("database_name", "schema_name")
TABLE_INFO_COLUMNS: Final = (
    Column("cid", INTEGER),
    *_columns("name", "type"),
    Column("notnull", BOOLEAN),
    *_columns("dflt_value"),
    Column("pk", BOOLEAN),
)
"""The columns of listings for DuckDB's tools, as DuckDB has them."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows that cost nothing, and their columns."""

    columns: tuple[Column, ...]
    rows: list[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Layer:
    """Some parameters and where they were given."""

    source: str
    given: Overrides


def unchanged_listing(statement: Unchanged) -> Listing:
    """List the value that holds, as a setting's own column."""
    return Listing(_columns(statement.name), [(statement.value,)])


def plan_listing(text: str) -> Listing:
    """List the text of an explanation as one column, line by line."""
    return Listing(PLAN_COLUMNS, [(line,) for line in text.split("\n")])


def budget_listing(report: BudgetReport) -> Listing:
    """List the limits and spending of the analyst's accounts, one row each, and the promises.

    The account that pays comes first, the analyst's above it follows. What is promised of all
    analysts together has the dataset's name.
    """
    rows: list[tuple[object, ...]] = []
    for account in report.accounts:
        rows += [(account.path, *row) for row in _counted(account)]
    if report.suspended_above:
        rows.append((report.dataset, "suspended", 1.0, None, None))
    if report.shown.views:
        rows.append((report.analyst, "views of others", float(report.shown.views), None, None))
    promise = report.promise
    if promise is not None:
        rows.append((promise.account, "promised epsilon", None, None, promise.epsilon))
        rows.append((promise.account, "promised delta", None, None, promise.delta))
    return Listing(BUDGET_COLUMNS, rows)


def _counted(account: AccountReport) -> Iterator[tuple[object, ...]]:
    """Yield the quantities of one account: spent, remaining, the limit; NULL without."""
    loss, bound = account.spent.loss, account.binding
    limit = None if bound is None else bound.budget.limit.loss.rho
    yield _row("epsilon", account.spent.epsilon, None if bound is None else bound.budget.epsilon)
    if account.composition is not Composition.BASIC:
        yield _row("rho", loss.rho, limit)
    yield _row("delta", loss.delta, account.delta_limit)
    carried = account.carried
    if carried.rho or carried.epsilon or carried.delta:
        name = "epsilon" if account.composition is Composition.BASIC else "rho"
        yield f"carried {name}", getattr(carried, name), None, None
        yield "carried delta", carried.delta, None, None
    yield "queries", float(account.spent.queries), None, None
    yield "looks", float(account.spent.looks), None, None
    yield "unsettled queries", float(account.spent.unsettled), None, None
    if account.suspended:
        yield "suspended", 1.0, None, None


def _row(name: str, spent: float, limit: float | None) -> tuple[object, ...]:
    return name, spent, None if limit is None else max(0.0, limit - spent), limit


def table_listing(policy: Policy) -> Listing:
    """List the tables an analyst may use: those of the policy, no others exist."""
    listed = sorted(
        policy.tables.values(), key=lambda table: (not table.name.in_main, table.name.key)
    )
    rows: list[tuple[object, ...]] = [
        (str(t.name), _access(t), _whose(policy, t), _most_rows(t), _defaults(policy, t))
        for t in listed
    ]
    return Listing(TABLE_COLUMNS, rows)


def _whose(policy: Policy, table: TablePolicy) -> str | None:
    """Name the unit of a table, with the promise of single rows."""
    unit = policy.unit_of(table)
    if unit is None:
        return None
    return f"{unit.name} ({unit.words})" if unit.is_row else unit.name


def _most_rows(table: TablePolicy) -> int | None:
    """Return how many rows a unit of a table has at most; None where that is not declared."""
    unit = table.privacy_unit
    return 1 if unit is not None and unit.is_row else table.rows_per_unit


def _defaults(policy: Policy, table: TablePolicy) -> str | None:
    """Write the parameters that questions over a table have, unless they say otherwise."""
    values = (
        f"{each.parameter} = {parameter_text(each.parameter, each.value)}"
        for each in defaults_of(policy, table)
    )
    return ", ".join(values) or None


def all_table_listing(policy: Policy, schema: Schema, catalog: str) -> Listing:
    """List the tables an analyst may use with their columns, as DuckDB's SHOW ALL TABLES does.

    ``catalog`` is the database's name, as names of tables may have it in front.
    """
    rows: list[tuple[object, ...]] = [
        (
            *(catalog, table.name.schema, table.name.table),
            *([column.name for column in table.columns], [str(c.type) for c in table.columns]),
            False,
        )
        for table in tables_of_policy(policy, schema)
    ]
    return Listing(ALL_TABLE_COLUMNS, rows)


def database_listing(catalog: str) -> Listing:
    """List the one database there is, by its name."""
    return Listing(DATABASE_COLUMNS, [(catalog,)])


def schema_listing(policy: Policy, catalog: str) -> Listing:
    """List the schemas that the policy has tables of, and ``main``, where everybody is."""
    others = {name.schema for name in policy.names if not name.in_main}
    schemas = [MAIN_SCHEMA, *sorted(others)]
    return Listing(SCHEMA_COLUMNS, [(catalog, schema) for schema in schemas])


def table_info_listing(
    policy: Policy, schema: Schema, name: TableName | None, written: str, place: Place
) -> Listing:
    """List a table's columns as DuckDB's ``table_info`` does. Raises as ``column_listing``."""
    columns = _table_of(policy, schema, name, written, place)[1].columns
    rows: list[tuple[object, ...]] = [
        (number, column.name, str(column.type), False, None, False)
        for number, column in enumerate(columns)
    ]
    return Listing(TABLE_INFO_COLUMNS, rows)


def view_listing(found: Iterable[View]) -> Listing:
    """List the views that may be read: steps, how far they are published, found bounds."""
    rows: list[tuple[object, ...]] = []
    for view in found:
        steps, published = view.definition.steps, view.record.published
        last = steps.end(published[-1].step) if published else None
        query = " ".join(view.definition.text.split())
        counts = steps.count, len(published)
        bounds = view.definition.found_bounds
        rows.append((view.name, str(steps.period), *counts, last, view.shared, bounds, query))
    return Listing(VIEW_COLUMNS, rows)


def refresh_listing(found: Refreshed) -> Listing:
    """List the outcome of a refresh."""
    row = (found.view, len(found.steps), found.rows, found.left)
    return Listing(REFRESH_COLUMNS, [row])


def view_column_listing(view: PreparedView) -> Listing:
    """List the columns of a view, noisy ones marked."""
    noisy = {column.name for column in view.columns if column.aggregate is not None}
    rows: list[tuple[object, ...]] = [
        (c.name, str(c.type), "noisy" if c.name in noisy else "released", None, None, None)
        for c in view.shown
    ]
    return Listing(COLUMN_COLUMNS, rows)


def parameter_listing(policy: Policy, layers: Iterable[Layer], only: str | None = None) -> Listing:
    """List the privacy parameters in force, where each comes from, and the policy's limit to it.

    ``layers`` are in order from far to near; what none of them gives is the policy's default.
    """
    given = list(layers)
    values = resolve(policy, *(layer.given for layer in given))
    rows: list[tuple[object, ...]] = []
    for name in PARAMETER_NAMES if only is None else (only,):
        names = _EITHER if name in _EITHER else (name,)
        sources = [
            layer.source
            for layer in given
            if any(getattr(layer.given, one) is not NOT_GIVEN for one in names)
        ]
        source = sources[-1] if sources else "policy"
        rows.append((name, _value_text(values, name), source, _limit(policy, name)))
    return Listing(PARAMETER_COLUMNS, rows)


def column_listing(
    policy: Policy, schema: Schema, name: TableName | None, written: str, place: Place
) -> Listing:
    """List the columns of a table and what the policy declares about each.

    ``written`` is its name as in the statement; ``name`` is None if that is of another database.
    Raises ``UnknownName`` for a table that the policy does not list, whether it exists or not.
    """
    table, found = _table_of(policy, schema, name, written, place)
    return Listing(
        COLUMN_COLUMNS, [_described(policy, table, found, each) for each in found.columns]
    )


def _table_of(
    policy: Policy, schema: Schema, name: TableName | None, written: str, place: Place
) -> tuple[TablePolicy, Table]:
    table = None if name is None else policy.table(name)
    if table is None:
        names = tuple(sorted(map(str, policy.names)))
        namesake = None if name is None else only_namesake(name, policy.names)
        close = suggestion(written, names) if namesake is None else f"Did you mean {namesake}?"
        raise UnknownName(
            f"there is no table {written[:80]}",
            code="unknown_table",
            place=place,
            hint=close or f"Tables: {', '.join(names)}.",
        )
    return table, schema[table.name.key]


def _described(
    policy: Policy, table: TablePolicy, found: Table, column: Column
) -> tuple[object, ...]:
    known = table.column(column.name)
    ends = (None, None) if known is None else (known.lower, known.upper)
    lower, upper = (float(end) if isinstance(end, int | float) else None for end in ends)
    domain = None if known is None or known.domain is None else ", ".join(map(_value, known.domain))
    role = _role(policy, table, column)
    if known is not None and known.one_per_unit:
        role += f", one per {policy.unit_name(table)}"
    if isinstance(ends[0], date):
        role += f", from {ends[0]} to {ends[1]}"
    for names in (names for names in table.unique if fold(column.name) in names):
        others = [
            each.name for each in found.columns if fold(each.name) in names and each != column
        ]
        role += f", unique with {enumerated(others)}" if others else ", unique"
    return column.name, str(column.type), role, lower, upper, domain


def _value(value: object) -> str:
    return quote_text(value) if isinstance(value, str) else str(value)


def _access(table: TablePolicy) -> str:
    return "public" if table.public else "private"


def _role(policy: Policy, table: TablePolicy, column: Column) -> str:
    """Name the role of a column: the unit, a link to it, or merely private or public."""
    unit = table.privacy_unit
    if unit is not None and unit.per is not None:
        if fold(column.name) in (fold(unit.column), fold(unit.per.column)):
            return f"part of the privacy unit: {unit.name} ({unit.words})"
    elif unit is not None and unit.is_row:
        return f"{_access(table)}; {unit.words}"
    elif unit is not None and fold(unit.column) == fold(column.name):
        return f"privacy unit: {unit.name}"
    for link in table.links:
        for own, parent in link.pairs:
            if fold(own) == fold(column.name):
                part = "part of a link" if len(link.columns) > 1 else "link"
                return f"{part} to {link.parent}.{parent}, privacy unit: {policy.unit_name(table)}"
    return _access(table)


def _value_text(parameters: Parameters, name: str) -> str:
    if name == "epsilon" and parameters.max_error is not None:
        return "as max_error needs"
    return parameter_text(name, getattr(parameters, name))


def _limit(policy: Policy, name: str) -> str | None:
    """Write the bound the policy sets to a parameter, or None if there is none."""
    if name == "min_units_per_group":
        return f"at least {policy.defaults.min_units_per_group}"
    most = getattr(policy.maxima, name, None)
    return None if most is None else f"at most {most}"
