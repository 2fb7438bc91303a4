"""Policies and databases side by side: ``check`` compares them, ``init`` drafts a policy.

Both see a schema (names and types) and never a row. That matters most for the draft: a bound or a
domain taken from the data would itself reveal the data, so the draft leaves them to be filled in
from public knowledge.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from dpsql.policy import ColumnPolicy, Parameters, Policy, TablePolicy, suggestion
from dpsql.schema import (
    INTEGER_BITS,
    Column,
    Schema,
    Table,
    base_type,
    fold,
    is_decimal,
    is_float,
    is_integer,
    is_numeric,
    is_text,
    same_values,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not fit. An error makes some query impossible or wrong; a warning asks
    the owner to look."""

    level: Literal["error", "warning"]
    subject: str
    message: str
    hint: str


# ----------------------------------------------------------------------------- check


def check_policy(policy: Policy, schema: Schema) -> list[Finding]:
    """Everything in the policy that does not fit the database, errors first."""
    findings = [
        *(f for table in policy.tables.values() for f in _check_table(table, schema)),
        *_check_unlisted(policy, schema),
        *_check_accounts(policy),
    ]
    return sorted(findings, key=lambda finding: finding.level != "error")


def _check_table(policy: TablePolicy, schema: Schema) -> Iterator[Finding]:
    table = schema.get(fold(policy.name))
    if table is None:
        names = {t.name: t for t in schema.values()}
        hint = suggestion(policy.name, names) or "Correct the name, or remove it from the policy."
        yield Finding("error", policy.name, "the database has no such table", hint)
        return
    if table.is_view:
        yield Finding(
            "warning",
            policy.name,
            "is a view: dpsql cannot see whether its rows still belong to one unit each",
            "Confirm it, or list the tables below the view instead.",
        )
    yield from _check_unit(policy, table)
    yield from _check_link(policy, table, schema)
    for name, column_policy in policy.columns.items():
        column = table.column(name)
        if column is None:
            yield _no_column(f"{policy.name}.{name}", name, table)
        else:
            yield from _check_column(f"{policy.name}.{column.name}", column_policy, column)


def _check_unit(policy: TablePolicy, table: Table) -> Iterator[Finding]:
    if policy.privacy_unit is None:
        return
    name = policy.privacy_unit.column
    column = table.column(name)
    if column is None:
        yield _no_column(f"{policy.name}.{name}", name, table, "the privacy unit's column ")
    elif is_float(column.type):
        yield Finding(
            "warning",
            f"{policy.name}.{column.name}",
            f"the privacy unit is a {column.type}: NaN would make many people into one",
            "Use a whole-number or text column to tell people apart.",
        )
    yield from _check_collation(column, policy.name)


def _check_link(policy: TablePolicy, table: Table, schema: Schema) -> Iterator[Finding]:
    """A link compares two columns; that the referenced one is unique cannot be seen here."""
    link = policy.link
    if link is None:
        return
    column = table.column(link.column)
    if column is None:
        what = "the link's column "
        yield _no_column(f"{policy.name}.{link.column}", link.column, table, what)
    parent = schema.get(fold(link.parent))
    if parent is None:
        return  # reported for the parent itself
    key = parent.column(link.parent_column)
    if key is None:
        what = "the column that a link refers to "
        yield _no_column(f"{parent.name}.{link.parent_column}", link.parent_column, parent, what)
    for end, name in ((column, policy.name), (key, parent.name)):
        yield from _check_collation(end, name)
    if column is not None and key is not None and not same_values(column.type, key.type):
        yield Finding(
            "error",
            f"{policy.name}.{column.name}",
            f"is {_one_line(column.type)}, but the link leads to {parent.name}.{key.name}, which "
            f"is {_one_line(key.type)}",
            "Give both columns one type: a cast could make two keys the same.",
        )


def _check_collation(column: Column | None, table: str) -> Iterator[Finding]:
    if column is not None and column.collated:
        yield Finding(
            "error",
            f"{table}.{column.name}",
            "has a collation, or stands beside one: different values could be the same unit",
            "Store the column without COLLATE, in a table without collations.",
        )


def _no_column(subject: str, name: str, table: Table, what: str = "") -> Finding:
    names = tuple(column.name for column in table.columns)
    hint = suggestion(name, names) or "Correct the name, or remove it from the policy."
    return Finding("error", subject, f"{what or 'the column '}does not exist in the table", hint)


def _check_column(subject: str, policy: ColumnPolicy, column: Column) -> Iterator[Finding]:
    if policy.lower is not None and not is_numeric(column.type):
        yield Finding(
            "error",
            subject,
            f"has bounds, but its type is {_one_line(column.type)}",
            "Remove lower and upper: only numbers can be clamped.",
        )
    misfits = [v for v in policy.domain or () if not _fits(v, column.type)]
    if misfits:
        shown = ", ".join(repr(v) if isinstance(v, str) else str(v) for v in misfits[:3])
        more = f" and {len(misfits) - 3} more" if len(misfits) > 3 else ""
        yield Finding(
            "error",
            subject,
            f"no {_one_line(column.type)} can equal the domain's {shown}{more}",
            _domain_hint(column.type),
        )


def _fits(value: object, type_text: str) -> bool:
    """Whether a column of this type can hold the value, so that the two can ever be equal."""
    if is_text(type_text):
        return isinstance(value, str)
    if isinstance(value, bool) or base_type(type_text) == "BOOLEAN":
        return isinstance(value, bool) and base_type(type_text) == "BOOLEAN"
    if isinstance(value, int | float):
        return _number_fits(value, type_text)
    if isinstance(value, datetime.datetime):
        return base_type(type_text).startswith("TIMESTAMP")
    if isinstance(value, datetime.date):
        return base_type(type_text) == "DATE" or base_type(type_text).startswith("TIMESTAMP")
    return isinstance(value, str) and base_type(type_text) in ("UUID", "BLOB")


def _number_fits(value: int | float, type_text: str) -> bool:
    if is_integer(type_text):
        signed, bits = INTEGER_BITS[base_type(type_text)]
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return value == math.floor(value) and low <= value <= high
    if is_decimal(type_text):
        width, scale = _decimal_shape(type_text)
        scaled = Decimal(str(value)).scaleb(scale)
        return scaled == scaled.to_integral_value() and abs(scaled) < 10**width
    return is_float(type_text)


def _decimal_shape(type_text: str) -> tuple[int, int]:
    """(width, scale) of a DECIMAL; DuckDB's own when the type does not say."""
    match = re.search(r"\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", type_text)
    return (int(match[1]), int(match[2] or 0)) if match else (18, 3)


def _domain_hint(type_text: str) -> str:
    if is_text(type_text):
        return "Put the values in quotes."
    if is_numeric(type_text):
        return "List numbers of that type, without quotes."
    if base_type(type_text) == "BOOLEAN":
        return "List true and false, without quotes."
    return "List values of that type; dates are written 2024-12-31, without quotes."


def _check_unlisted(policy: Policy, schema: Schema) -> Iterator[Finding]:
    for table in schema.values():
        if policy.table(table.name) is None:
            yield Finding(
                "warning",
                table.name,
                "is not in the policy, so it does not exist for analysts",
                "Add it with a privacy_unit, or with public: true, if they should use it.",
            )


def _check_accounts(policy: Policy) -> Iterator[Finding]:
    for account in policy.accounts.values():
        if account.delta < policy.defaults.delta:
            yield Finding(
                "warning",
                account.name,
                f"the account's delta {account.delta:g} is below the default of a single query, "
                f"{policy.defaults.delta:g}",
                "Raise the account's delta, or lower defaults.delta.",
            )


# ----------------------------------------------------------------------------- init

# Likely names of the column that says whose row it is, most telling first, without underscores.
_UNIT_NAMES: Final = (
    *("userid", "customerid", "patientid", "personid", "memberid", "clientid", "subjectid"),
    *("employeeid", "studentid", "passengerid", "playerid", "citizenid", "householdid"),
    *("accountid", "deviceid", "visitorid", "participantid", "respondentid"),
    *("custid", "memid", "empid", "uid", "ssn", "username", "email", "emailaddress"),
    *("user", "customer", "patient", "person", "member", "client", "subject"),
    "id",
)
_PLAIN_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

_MEANINGS: Final = {
    "epsilon": "privacy loss of a query: smaller is more private, and noisier",
    "delta": "keep far below 1 / number of people",
    "max_groups_contributed": "groups one person may influence, or: unlimited",
    "max_rows_contributed": "rows one person may add to a group",
    "k_bar": "how many of the largest groups a top-k looks at",
    "min_units_per_group": "never release a group of fewer people",
}

_HEAD: Final = """\
# What analysts may ask of this database, and whom it protects.
#
# Drafted from the names and types of tables and columns; no row was read.
# Before use: confirm every line marked GUESS, decide every table marked DECIDE, and fill in bounds
# from public knowledge (what a value can be), never from the data (what it happens to be): a bound
# that depends on the data reveals it.

version: 1

# The budget belongs to this name. Keep it for as long as the data: a new name is a new budget.
dataset: {dataset}

# What a query uses unless it says otherwise.
defaults:
{defaults}

# The most a query may ask for.
maxima:
  epsilon: 1.0
  delta: 1e-7
  max_rows_contributed: 100
  k_bar: 10000

# One line per analyst: the total they may ever spend.
accounts:
  analyst: {{epsilon: 3.0, delta: 1e-6}}

# Tables that are not listed here do not exist for analysts.
# A column needs lower and upper to be summed or averaged. One whose values are public knowledge
# can list them, and each is then answered: `carrier: {{domain: [AA, B6, UA]}}`.
# A table that reaches its unit through another one is linked to it below `tables`, by a column that
# is unique there: `links: [lineitem.l_orderkey -> orders.o_orderkey]`.
tables:
"""

MAX_NAME: Final = 200
"""Characters in a table name that a draft still writes out."""


def draft_policy(schema: Schema, dataset: str) -> str:
    """A commented starting ``policies.yaml`` for a database, made from its schema alone.

    The text always reads back as a valid policy. A table is protected by the column whose name
    looks most like a person's identifier, marked as a guess; a table with none stays commented
    out, and so does not exist for analysts, until its owner decides.
    """
    defaults = "\n".join(
        f"  {name}: {getattr(Parameters(), name)}".ljust(30) + f"# {meaning}"
        for name, meaning in _MEANINGS.items()
    )
    head = _HEAD.format(dataset=_quoted(_plain(dataset, "my-dataset")), defaults=defaults)
    tables = sorted(schema.values(), key=lambda table: table.name)
    return head + "\n".join(_draft_table(table) for table in tables)


def _draft_table(table: Table) -> str:
    unit = guess_unit(table)
    view = "  # A view: list the tables below it instead, unless each row is one unit's.\n"
    head = view if table.is_view else ""
    if len(table.name) > MAX_NAME:
        return f"  # A table is left out: its name has {len(table.name)} characters.\n"
    if unit is None:
        return head + _draft_undecided(table)
    name, column = _quoted(_unit_name(table, unit)), _quoted(unit.name)
    caution = ", or does it number rows" if _bare(unit.name) == "id" else ""
    return (
        f"{head}  {_quoted(table.name)}:\n"
        f"    # GUESS: does each value of this column stand for one person{caution}?\n"
        f"    privacy_unit: {{name: {name}, column: {column}}}\n"
        "    columns:\n" + "".join(f"      # {line}\n" for line in _bound_lines(table, unit))
    )


def _draft_undecided(table: Table) -> str:
    name = _quoted(table.name)
    return (
        f"  # DECIDE: no column of {name} looks like a person's identifier. Name the one that\n"
        "  # says whose row it is, or write `public: true` instead, for a table about nobody.\n"
        f"  # {name}:\n"
        "  #   privacy_unit: {name: WHO, column: COLUMN}\n"
        "  #   columns:\n" + "".join(f"  #     {line}\n" for line in _bound_lines(table, None))
    )


def _bound_lines(table: Table, unit: Column | None) -> Iterator[str]:
    for column in table.columns:
        if column is not unit and is_numeric(column.type):
            name, type_text = _quoted(column.name), _one_line(column.type)
            yield f"{name}: {{lower: LOWEST, upper: HIGHEST}}  # {type_text}"


def guess_unit(table: Table) -> Column | None:
    """The column whose name most looks like a person's identifier, or None. Only a guess."""
    usable = {
        _bare(column.name): column
        for column in reversed(table.columns)
        if is_integer(column.type) or is_text(column.type) or base_type(column.type) == "UUID"
    }
    return next((usable[name] for name in _UNIT_NAMES if name in usable), None)


def _bare(name: str) -> str:
    return fold(name).replace("_", "").replace(" ", "").replace("-", "")


def _unit_name(table: Table, unit: Column) -> str:
    """``user_id`` -> ``user``; a bare ``id`` takes its table's name: ``patients``, ``patient``."""
    bare = _bare(unit.name)
    if bare == "id":
        name = _plain(fold(table.name), "unit")
        return name[:-1] if name.endswith("s") and len(name) > 3 else name
    return bare[:-2] if bare.endswith("id") and len(bare) > 3 else bare


def _plain(name: str, otherwise: str) -> str:
    """The name if a policy accepts it as its own (printable, no outer spaces), else the other."""
    return name if name.isprintable() and name and name == name.strip() else otherwise


def _quoted(name: str) -> str:
    """A name as YAML: plain when that is safe, else in double quotes, always on one line."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and fold(name) not in _PLAIN_WORDS:
        return name
    return '"' + "".join(_escaped(character) for character in name) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _one_line(type_text: str) -> str:
    """A type inside a comment or message: an ENUM can be long, and hold line ends."""
    text = "".join(_escaped(c) if not c.isprintable() else c for c in type_text)
    return text if len(text) <= 60 else text[:57] + "..."
