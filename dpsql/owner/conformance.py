"""Policies and databases side by side: ``dpsql check``. By names and types, and by what it is told.

It never sees a row.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from dpsql.core.constraints import NO_CONSTRAINTS, ConstraintsOf
from dpsql.core.formatting import printable
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.core.sql_types import SqlType
from dpsql.core.table_name import TableName, only_namesake
from dpsql.engines.base.engine import Definition, Misfit
from dpsql.ledger import Ledger
from dpsql.owner.declared_values import held_value, same_declared
from dpsql.owner.keys import one_row_per_unit, unique_columns_of
from dpsql.policy.model import (
    ROW,
    AgentPolicy,
    ColumnPolicy,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
)
from dpsql.policy.parameters import suggestion

PERIOD_TYPES: Final = frozenset(
    {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
)
"""Types whose values lie in one period under every time zone."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not fit. An error makes some query impossible or wrong; a warning asks
    the owner to look."""

    level: Literal["error", "warning"]
    subject: str
    message: str
    hint: str


def _error(subject: str, message: str, hint: str) -> Finding:
    return Finding("error", subject, message, hint)


def _warning(subject: str, message: str, hint: str) -> Finding:
    return Finding("warning", subject, message, hint)


Definitions: TypeAlias = Callable[[TableName], Definition]
"""What each table of a schema is made of, by name."""


def check_policy(
    policy: Policy,
    schema: Schema,
    definitions: Definitions | None = None,
    constraints: ConstraintsOf = NO_CONSTRAINTS,
) -> list[Finding]:
    """List everything in the policy that does not fit the database, errors first.

    ``definitions`` and ``constraints`` are those of the engine the schema is of: without them, no
    view is looked into, and no key is known.
    """
    tables = policy.tables.values()
    findings = [
        *(f for table in tables for f in _check_table(table, schema)),
        *(f for table in tables for f in _check_definition(table, schema, definitions)),
        *_check_rows(policy, schema, constraints),
        *_check_unlisted(policy, schema),
        *_check_accounts(policy),
        *_check_agents(policy),
    ]
    return sorted(findings, key=lambda finding: finding.level != "error")


def _check_table(policy: TablePolicy, schema: Schema) -> Iterator[Finding]:
    table, shown = schema.get(policy.name.key), str(policy.name)
    if table is None:
        yield _error(shown, "the database has no such table", _no_table(policy, schema))
        return
    if table.unreadable is not None:
        yield _error(shown, table.unreadable.reason, table.unreadable.hint)
        return
    if table.is_view:
        yield _warning(
            shown,
            "is a view: dpsql cannot see whether its rows still belong to one unit each",
            "Confirm it, or list the tables below the view instead.",
        )
    yield from _check_left_out(table)
    yield from _check_declared(policy, table)
    yield from _check_unit(policy, table)
    yield from _check_link(policy, table, schema)
    yield from _check_time(policy, table)
    unknown = {name for names in policy.unique for name in names if table.column(name) is None}
    for name in sorted(unknown):
        yield _no_column(policy.name, name, table, "a column of `unique` ")
    declared = {fold(each.name) for each in policy.declared}
    for name, column_policy in policy.columns.items():
        column = table.column(name)
        if column is None and name in declared:
            continue
        if column is None:
            missing = _no_column(policy.name, name, table)
            typed = "If the data have no types of their own, give it one: `type: DOUBLE`."
            yield replace(missing, hint=f"{missing.hint} {typed}") if declared else missing
        else:
            yield from _check_column(f"{policy.name}.{column.name}", column_policy, column)


def _no_table(policy: TablePolicy, schema: Schema) -> str:
    """Suggest the table that the policy meant: in another schema, or of a similar name."""
    namesake = only_namesake(policy.name, (table.name for table in schema.values()))
    if namesake is not None:
        return f"Did you mean {namesake}?"
    names = {str(t.name): t for t in schema.values()}
    return suggestion(str(policy.name), names) or "Correct the name, or remove it from the policy."


def _check_definition(
    policy: TablePolicy, schema: Schema, definitions: Definitions | None
) -> Iterator[Finding]:
    """Yield problems in a view's definition: refused SQL, and rows that change between readings."""
    table = schema.get(policy.name.key)
    if table is None or table.unreadable is not None or definitions is None:
        return
    found = definitions(table.name)
    if found.refusal is not None:
        yield _error(str(table.name), found.refusal.reason, found.refusal.hint)
        return
    for remark in found.remarks:
        yield _warning(str(table.name), remark.reason, remark.hint)


def _check_left_out(table: Table) -> Iterator[Finding]:
    for left in table.left_out:
        yield _warning(
            f"{table.name}.{left.name}",
            f"is left out, because {left.reason}: it does not exist for analysts",
            "Store it in a column of a built-in type, under another name, if they should use it.",
        )


def _check_declared(policy: TablePolicy, table: Table) -> Iterator[Finding]:
    """Compare declared names and types with the names and types of the table's columns."""
    for declared in policy.declared:
        column = table.column(declared.name)
        if column is None:
            yield _no_column(policy.name, declared.name, table)
        elif not declared.type.is_declared_as(column.type):
            yield _error(
                f"{policy.name}.{column.name}",
                f"is declared as {shown_type(declared.type)}, but is {shown_type(column.type)}",
                f"Write `type: {shown_type(column.type)}`, or cast it where it is stored.",
            )
    names = {fold(declared.name) for declared in policy.declared}
    others = [
        printable(column.name, 40)
        for column in table.columns
        if fold(column.name) not in names and column.type.declared is not None
    ]
    if names and others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        yield _warning(
            str(policy.name),
            f"has columns that the policy does not declare: {', '.join(others[:5])}{more}",
            "Analysts see their names and types as they are stored. Declare their types, too, or "
            "make a view without them.",
        )


def _check_unit(policy: TablePolicy, table: Table) -> Iterator[Finding]:
    if policy.privacy_unit is None:
        return
    if policy.privacy_unit.is_row:
        yield from _check_word(policy, table)
        return
    name = policy.privacy_unit.column
    column = table.column(name)
    if column is None:
        yield _no_column(policy.name, name, table, "the privacy unit's column ")
    elif (doubt := doubtful_unit(column.type)) is not None:
        yield _warning(
            f"{policy.name}.{column.name}",
            f"the privacy unit {doubt}",
            "Use a whole-number or text column to tell people apart.",
        )
    yield from _check_collation(column, policy.name)
    yield from _check_period(policy, policy.privacy_unit, table)


def _check_word(policy: TablePolicy, table: Table) -> Iterator[Finding]:
    """Require a table without a column by the name of single rows as units."""
    column = table.column(ROW)
    if column is not None:
        yield _error(
            f"{policy.name}.{column.name}",
            f"has the name of a unit that is one row, so `privacy_unit: {ROW}` could mean both",
            f"Write `privacy_unit: {{name: WHO, column: {column.name}}}` if it says whose row it "
            "is, or make a view that calls it something else.",
        )


def doubtful_unit(type_: SqlType) -> str | None:
    """Say why values of a type do not tell people apart; None where they may."""
    shown = shown_type(type_)
    if type_.is_integer or type_.is_text or type_.is_decimal or type_.kind in ("UUID", "BLOB"):
        return None
    if type_.is_float:
        return f"is a {shown}: NaN would make many people into one"
    if type_.kind == "BOOLEAN":
        return f"is a {shown}: all rows would be those of two people"
    if type_.is_temporal or type_.kind == "INTERVAL":
        return f"is a {shown}: all rows of one time would be those of one person"
    return f"is a {shown}: such values, often of several parts, do not name people"


def _check_period(policy: TablePolicy, unit: PrivacyUnit, table: Table) -> Iterator[Finding]:
    """Require exact text of what tells the units of periods apart, or an exact period."""
    if unit.per is None:
        return
    who, when = table.column(unit.column), table.column(unit.per.column)
    if who is not None and not (who.type.is_integer or who.type.is_text):
        yield _error(
            f"{policy.name}.{who.name}",
            f"is the column of a privacy unit per period, but its type is {shown_type(who.type)}",
            "Use a whole-number or text column to tell people apart.",
        )
    if when is None:
        what = "the column of the privacy unit's periods "
        yield _no_column(policy.name, unit.per.column, table, what)
    elif when.type.kind not in PERIOD_TYPES:
        yield _error(
            f"{policy.name}.{when.name}",
            f"says in which period a row is, but its type is {shown_type(when.type)}",
            f"Store it as one of: {', '.join(sorted(PERIOD_TYPES))}.",
        )


def _check_link(policy: TablePolicy, table: Table, schema: Schema) -> Iterator[Finding]:
    """Compare the columns of links; whether the referenced ones are unique, the data say."""
    for link in policy.links:
        for pair in link.pairs:
            yield from _check_linked(policy, table, schema.get(link.parent.key), pair)


def _check_linked(
    policy: TablePolicy, table: Table, parent: Table | None, pair: tuple[str, str]
) -> Iterator[Finding]:
    column = table.column(pair[0])
    if column is None:
        yield _no_column(policy.name, pair[0], table, "the link's column ")
    if parent is None:
        return  # reported for the parent itself
    key = parent.column(pair[1])
    if key is None:
        what = "the column that a link refers to "
        yield _no_column(parent.name, pair[1], parent, what)
    for end, name in ((column, policy.name), (key, parent.name)):
        yield from _check_collation(end, name)
    if column is not None and key is not None and not column.type.compares_exactly(key.type):
        yield _error(
            f"{policy.name}.{column.name}",
            f"is {shown_type(column.type)}, but the link leads to {parent.name}.{key.name}, which "
            f"is {shown_type(key.type)}",
            "Give both columns one type: a cast could make two keys the same.",
        )


def check_links(
    policy: Policy, schema: Schema, repeats: Callable[[TableName, Sequence[str]], bool]
) -> list[Finding]:
    """List the links that lead to columns with values in several rows: these are no keys.

    ``repeats`` tells that of columns, from the data. The policy must fit the schema.
    """
    ends = {
        (link.parent.key, link.key): link
        for table in policy.tables.values()
        if (link := table.link) is not None
    }
    found = []
    for (key, _), link in sorted(ends.items()):
        table = schema[key]
        names = [c.name for n in link.parent_columns if (c := table.column(n)) is not None]
        if len(names) == len(link.key) and repeats(table.name, names):
            what = names[0] if len(names) == 1 else f"({column_words(names)})"
            found.append(_no_key(f"{table.name}.{what}"))
    return found


def _no_key(subject: str) -> Finding:
    return _error(
        subject,
        "a link leads to it, and a value stands in several rows: what is linked to it counts once "
        "for each of them, and belongs to all of their units",
        "Link to a column that is a key, or remove its duplicate values.",
    )


def _check_time(policy: TablePolicy, table: Table) -> Iterator[Finding]:
    if policy.time is None:
        return
    name = policy.time.column
    column = table.column(name)
    if column is None:
        yield _no_column(policy.name, name, table, "the time column ")
    elif not column.type.is_moment:
        yield _error(
            f"{policy.name}.{column.name}",
            f"is the time column, but its type is {shown_type(column.type)}",
            "Name a date or a timestamp, or remove `time`: it is for materialized views alone.",
        )


def _check_collation(column: Column | None, table: TableName) -> Iterator[Finding]:
    if column is not None and column.collated:
        yield _error(
            f"{table}.{column.name}",
            "has a collation, or stands beside one: different values could be the same unit",
            "Store the column without COLLATE, in a table without collations.",
        )


def _no_column(of: TableName, name: str, table: Table, what: str = "the column ") -> Finding:
    names = tuple(column.name for column in table.columns)
    hint = suggestion(name, names) or "Correct the name, or remove it from the policy."
    return _error(f"{of}.{name}", f"{what}does not exist in the table", hint)


def _check_column(subject: str, policy: ColumnPolicy, column: Column) -> Iterator[Finding]:
    dates = isinstance(policy.lower, date)
    fits = column.type.is_moment if dates else column.type.is_numeric
    if policy.lower is not None and not fits:
        yield _error(
            subject,
            f"has bounds{' that are dates' if dates else ''}, but its type is "
            f"{shown_type(column.type)}",
            "Write them as dates: 2020-01-01."
            if column.type.is_moment
            else "Remove lower and upper: only numbers, dates and timestamps can be clamped.",
        )
    misfits = [v for v in policy.domain or () if held_value(v, column.type) is None]
    if misfits:
        shown = ", ".join(map(_shown, misfits[:3]))
        more = f" and {len(misfits) - 3} more" if len(misfits) > 3 else ""
        yield _error(
            subject,
            f"no {shown_type(column.type)} can equal the domain's {shown}{more}",
            _domain_hint(column.type),
        )
    same = same_declared(policy.domain or (), column.type)
    if same is not None:
        yield _error(
            subject,
            f"the domain's {_shown(same[0])} and {_shown(same[1])} are one value of the type "
            f"{shown_type(column.type)}: each would have an answer, one of them of no rows",
            "Keep one of the two.",
        )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _domain_hint(type_: SqlType) -> str:
    if type_.is_text:
        return "Put the values in quotes."
    if type_.is_numeric:
        return "List numbers of that type, without quotes."
    if type_.kind == "BOOLEAN":
        return "List true and false, without quotes."
    return "List values of that type; dates are written 2024-12-31, without quotes."


def column_words(names: Iterable[str]) -> str:
    """Write names of columns beside each other."""
    return ", ".join(printable(name, 60) for name in names)


Unique: TypeAlias = Mapping[str, Sequence[tuple[str, ...]]]
"""Columns in all of which no two rows are the same, by the keys of their tables' names."""


def tables_of_one_row(policy: Policy, schema: Schema, constraints: ConstraintsOf) -> frozenset[str]:
    """List the tables, by the keys of their names, whose own keys prove one row per unit."""
    units, links = _ends(policy)
    return frozenset(
        key for key in policy.tables if one_row_per_unit(key, units, links, schema, constraints)
    )


def unique_by_keys(policy: Policy, schema: Schema, constraints: ConstraintsOf) -> Unique:
    """List, by the keys of tables' names, the columns that keys of several prove to be unique."""
    units, links = _ends(policy)
    tables = (schema[key] for key in policy.tables if key in schema)
    return {
        table.name.key: [
            tuple(column.name for column in columns)
            for columns in unique_columns_of(table, units, links, constraints)
        ]
        for table in tables
    }


def _ends(policy: Policy) -> tuple[dict[str, PrivacyUnit], dict[str, Link]]:
    tables = policy.tables.items()
    units = {key: t.privacy_unit for key, t in tables if t.privacy_unit is not None}
    return units, {key: t.link for key, t in tables if t.link is not None}


def _check_rows(policy: Policy, schema: Schema, constraints: ConstraintsOf) -> Iterator[Finding]:
    """Name the tables of one row per unit of which the policy does not say so."""
    single = tables_of_one_row(policy, schema, constraints)
    for key, lists in sorted(unique_by_keys(policy, schema, constraints).items()):
        table = policy.tables[key]
        for names in () if key in single or table.rows_per_unit == 1 else lists:
            if not any(set(said) <= set(map(fold, names)) for said in table.unique):
                yield _warning(
                    str(table.name),
                    f"has no two rows with the same {column_words(names)}, as a key proves, and "
                    "the policy does not say so",
                    f"Write `unique: [[{column_words(names)}]]`: questions by what is beside the "
                    "unit then have less noise, and leave out nothing.",
                )
    for key in sorted(single):
        if policy.tables[key].rows_per_unit != 1:
            yield _warning(
                str(policy.tables[key].name),
                "has one row per unit at most, as a key proves, and the policy does not say so",
                "Write `rows_per_unit: 1`: questions then have less noise, and leave out nothing.",
            )


def _check_unlisted(policy: Policy, schema: Schema) -> Iterator[Finding]:
    for table in schema.values():
        if policy.table(table.name) is None:
            yield _warning(
                str(table.name),
                "is not in the policy, so it does not exist for analysts",
                "Add it with a privacy_unit, or with public: true, if they should use it.",
            )


def misfit(table: TableName, found: Misfit) -> Finding:
    """Report data that do not fit the policy's declaration."""
    subject = str(table) if found.column is None else f"{table}.{found.column}"
    return Finding("error" if found.wrong else "warning", subject, found.reason, found.hint)


def unreadable_files(table: TableName) -> Finding:
    """Report a table whose files cannot be read to their ends."""
    return _error(
        str(table),
        "has files that cannot be read to their ends: text of invalid UTF-8, a time beyond a day, "
        "a decimal beyond its type or a damaged page",
        "Write them again, with the engine that wrote them or with the one that reads them, and "
        "leave such values out.",
    )


def no_tables(database: str) -> Finding:
    """Report a database without tables that a policy could list."""
    return _warning(
        database,
        "the database has no tables, in no schema",
        "Check that it is the right file.",
    )


def _check_accounts(policy: Policy) -> Iterator[Finding]:
    if not policy.accounts:
        yield _warning(
            "accounts",
            "there is none, so nobody can ask anything",
            "Add one: accounts: {ana: {epsilon: 3, delta: 1e-6}}.",
        )
    for account in policy.accounts.values():
        delta = policy.of_account(account.name).defaults.delta
        if account.epsilon < policy.defaults.epsilon:
            yield _warning(
                account.name,
                f"the account's epsilon {account.epsilon:g} is below the default of a single "
                f"query, {policy.defaults.epsilon:g}",
                "Raise the account's epsilon, or lower defaults.epsilon: as it is, each query has "
                "to ask for less.",
            )
        for table in policy.tables.values():
            asked = table.defaults.get("epsilon")
            if isinstance(asked, float) and account.epsilon < asked:
                yield _warning(
                    account.name,
                    f"the account's epsilon {account.epsilon:g} is below the default of "
                    f"{table.name}, {asked:g}",
                    f"Raise the account's epsilon, or lower that of {table.name}.",
                )
        if account.delta < delta:
            yield _warning(
                account.name,
                f"the account's delta {account.delta:g} is below the default of a single query, "
                f"{delta:g}",
                "Raise the account's delta, or lower defaults.delta.",
            )


def _check_agents(policy: Policy) -> Iterator[Finding]:
    """Yield limits of agents below the price of an ordinary question, or without effect."""
    for name in policy.agents:
        limits, asked = policy.agent(name, AgentPolicy()), policy.defaults.epsilon
        for key in ("epsilon_per_run", "epsilon_per_question"):
            value = getattr(limits, key)
            if value is not None and value < asked:
                yield _warning(
                    f"agents.{name}",
                    f"{key} {value:g} is below the default of a single query, {asked:g}",
                    "Raise it, or lower defaults.epsilon: as it is, an agent has to ask for less.",
                )
        most, above = limits.epsilon_per_question, limits.confirm_above
        if most is not None and above is not None and above >= most:
            yield _warning(
                f"agents.{name}",
                f"nobody is asked: no question may cost more than {most:g}, and confirm_above is "
                f"{above:g}",
                "Lower confirm_above below epsilon_per_question, or leave it out.",
            )


def agent_words(policy: Policy) -> Iterator[str]:
    """Say what the agents of each analyst may spend, if the policy limits any."""
    for name in policy.accounts if policy.agents else ():
        limits = policy.agent(name, AgentPolicy())
        said = [f"at most epsilon {limits.epsilon_per_run:g} a run"]
        if limits.epsilon_per_question is not None:
            said.append(f"{limits.epsilon_per_question:g} a question")
        if limits.confirm_above is not None:
            said.append(f"a person is asked above {limits.confirm_above:g}")
        yield f"Agents of {printable(name)}: {', '.join(said)}."


def check_ledger(policy: Policy, ledger: Ledger) -> list[Finding]:
    """List the analysts of a policy who look renamed beside the accounts of a ledger."""
    former = {each.former: each.name for each in ledger.renames()}
    renamed = {old: new for old, new in former.items() if old != new}
    return check_names(policy, ledger.accounts(), renamed)


def check_names(
    policy: Policy, paths: Iterable[str], renamed: Mapping[str, str] = MappingProxyType({})
) -> list[Finding]:
    """List the analysts of a policy who look renamed beside the accounts of its ledger.

    An account is known by its name: under another name all of a budget is there again, to learn
    about the same people, unless the account is ``renamed`` in the ledger: then what it was called
    is closed.
    """
    spent = [path.split("/") for path in paths]
    known = {path[1] for path in spent if path[0] == policy.dataset and len(path) > 1}
    of_all = {f"accounts.{name}": f"{policy.dataset}/{name}" for name in policy.accounts}
    of_all["dataset"] = policy.dataset
    closed = {where: renamed[path] for where, path in of_all.items() if path in renamed}
    gone = sorted(
        known - {*policy.accounts} - {path.rpartition("/")[2] for path in closed.values()}
    )
    new = sorted(name for name in {*policy.accounts} - known if f"accounts.{name}" not in closed)
    return [
        *(_closed(where, now) for where, now in closed.items()),
        *([_seem_renamed(policy.dataset, gone, new)] if gone and new else []),
    ]


def _closed(where: str, now: str) -> Finding:
    return _warning(
        printable(where, 60),
        f"the ledger has renamed this account: it is {printable(now, 80)} now, and nothing is "
        "asked or told under this name",
        "Write that name here too. For somebody else, choose a name that nobody had.",
    )


def _seem_renamed(dataset: str, gone: Sequence[str], new: Sequence[str]) -> Finding:
    before, after = (", ".join(printable(name, 40) for name in names[:5]) for names in (gone, new))
    old, other = "OLD", "NEW"
    if len(gone) == len(new) == 1:
        old, other = (shlex.quote(printable(f"{dataset}/{names[0]}")) for names in (gone, new))
    return _warning(
        "accounts",
        f"the ledger has {before}, which the policy has not, and nothing of {after}: a new "
        "name is a new budget",
        "An account with a new name takes along its spending: "
        f"`dpsql budget owner rename {old} {other}`. Of others, this says nothing.",
    )


def shown_type(type_: SqlType) -> str:
    """Return a type inside a comment or message: an ENUM can be long, and hold line ends."""
    return printable(str(type_), 60)
