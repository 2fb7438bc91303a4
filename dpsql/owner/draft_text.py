"""Writes a draft of a policies file."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from dpsql.core.formatting import printable
from dpsql.core.names import is_account_name
from dpsql.core.quoting import quote
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.core.table_name import TableName
from dpsql.errors import PolicyError
from dpsql.owner.checks import Checked
from dpsql.owner.conformance import check_policy, doubtful_unit, shown_type
from dpsql.owner.draft import (
    MAX_DRAFTED_NAME,
    Draft,
    bare_name,
    guess_unit,
    guess_unit_name,
    likely_units,
    listed_values,
    numeric_columns,
    says_whose,
)
from dpsql.owner.draft_links import with_foreign_keys
from dpsql.owner.draft_options import _TRUTHS
from dpsql.owner.keys import references, unique_columns_of
from dpsql.policy.load import parse_policy
from dpsql.policy.model import DELTA_SHARE, ROW, ROW_PROMISE, PrivacyUnit
from dpsql.policy.parameters import Automatic, Parameters


def checked(schema: Schema, draft: Draft) -> str:
    """Return the draft's text, once it reads back and fits the database. Raises ``PolicyError``."""
    text = draft_policy(schema, draft)
    errors = [
        f for f in check_policy(parse_policy(text, "the draft"), schema) if f.level == "error"
    ]
    if errors:
        raise PolicyError(
            f"{errors[0].subject}: {errors[0].message}",
            code="policy_does_not_fit",
            hint=errors[0].hint,
        )
    return text


_PLAIN_WORDS: Final = frozenset({*_TRUTHS, "null", "yes", "no", "on", "off", "y", "n"})
_MEANINGS: Final = {
    "epsilon": "privacy loss of a query: smaller is more private, and noisier",
    "delta": "keep far below 1 / number of people; without it, a part of the account's",
    "max_groups_contributed": "groups one person may influence, or: unlimited",
    "max_rows_contributed": "rows one person may add to a group",
    "k_bar": "how many of the largest groups a top-k looks at",
    "min_units_per_group": "leave out groups of fewer people",
}
_FOUND_OUT: Final = {
    "max_groups_contributed": """\
  # How many groups one person may influence, a question finds out privately. A number holds for
  # all questions:
  # max_groups_contributed: {usual}""",
    "max_rows_contributed": """\
  # How many rows one person may add to a group, a question finds out privately, for a part of its
  # price. A number holds for all of them, and costs nothing:
  # max_rows_contributed: {usual}""",
}
_OF_ENUM: Final = "its ENUM's list: declare it unless it was collected from rows"
_OF_THE_ACCOUNT: Final = f"""\
  # delta is {DELTA_SHARE:.0%} of the account's, which should be far below 1 / number of people"""
_MAXIMA: Final = {"epsilon": 1.0, "delta": 1e-7}
_ACCOUNTS: Final = {"analyst": (3.0, 1e-6)}
_HEAD: Final = """\
# yaml-language-server: $schema=policies.schema.json
# (Editors complete this file with it. It is written by: dpsql schema -o policies.schema.json)
#
# What analysts may ask of this database, and whom it protects.
#
{origin}
# Before use: confirm every line marked GUESS, decide every table marked DECIDE, and fill in bounds
# from public knowledge (what a value can be), never from the data (what it happens to be): a bound
# that depends on the data reveals it. Where nothing is known, leave them out.

version: 1

# The budget belongs to this name. Keep it for as long as the data: a new name is a new budget.
dataset: {dataset}

# Where it is kept: a file, relative to this one, or a postgresql:// URL. Another file is another
# budget too.
ledger: budget.db

# What a query uses unless it says otherwise.
defaults:
{defaults}

# The most a query may ask for.
maxima:
  epsilon: {epsilon}
  delta: {delta}
  k_bar: 10000

# One line per analyst: the total they may ever spend.
accounts:
{accounts}

# Tables that are not listed here do not exist for analysts.
# The names and types of columns are what every analyst sees. {typed}
# A column has lower and upper where these are public knowledge; of others a question finds bounds
# privately, for a part of its price. One whose values are public knowledge can list them, and each
# is then answered: `carrier: {{domain: [AA, B6, UA]}}`.
# A table that reaches its unit through another one is linked to it below `tables`, by a column that
# is unique there: `links: [lineitem.l_orderkey -> orders.o_orderkey]`.
tables:
"""


_UNSEEN: Final = "# Drafted from the names and types of tables and columns; no row was read."
_FOUND: Final = """\
# Drafted from the names and types of tables and columns, which were found in the first rows."""
_BY_CONSTRAINTS: Final = """
# What is marked KEY or CHECK is from constraints of the database, which hold for all rows: take out
# what is not public knowledge."""
_SEEN: Final = """\
# Drafted from names, types and, as its owner asked for, from the data. What is marked SEEN is what
# the data hold: bounds and domains taken from it are not private. They are there to compare."""


def draft_policy(schema: Schema, draft: Draft) -> str:
    """Return a commented ``policies.yaml`` from a database's schema and its owner's decisions.

    The text reads back as a valid policy unless decisions contradict each other. A table without a
    decision is protected by the column whose name looks most like a person's identifier, marked as
    a guess; one without such a column stays commented out, and so does not exist for analysts.
    """
    tables = sorted(schema.values(), key=_order)
    draft = replace(draft, types=sum(len(t.columns) for t in tables) <= _MOST_TYPED)
    said = draft.links.keys()
    draft = with_foreign_keys(draft, schema) if draft.guesses else draft
    text = _head(draft, schema) + "\n".join(_table(table, schema, draft) for table in tables)
    return text + _links(schema, draft, said)


_STORED: Final = "They are those that are stored."
_GUESSED: Final = """Those of {tables} were found
# in rows, or in names of directories, as such data have none of their own: read them through,
# remove what no analyst should see, and correct types. What is not listed does not exist; a value
# of another type is NULL."""
_MOST_TYPED: Final = 4_000
"""The number of columns up to which a draft writes the types of stored columns."""


def _typed(draft: Draft, schema: Schema) -> str:
    """Say where names and types are from."""
    names = [printable(str(t.name), 60) for t in schema.values() if t.name.key in draft.guessed]
    return _GUESSED.format(tables=", ".join(sorted(names))) if names else _STORED


def _head(draft: Draft, schema: Schema) -> str:
    settings = {name: getattr(Parameters(), name) for name in _MEANINGS}
    settings |= {"epsilon": draft.epsilon, "delta": draft.delta}
    defaults = [_default(name, value) for name, value in settings.items()]
    accounts = (draft.accounts or _ACCOUNTS).items()
    delta = draft.delta or DELTA_SHARE * max(delta for _, (_, delta) in accounts)
    return _HEAD.format(
        origin=(_SEEN if draft.seen else _FOUND if draft.guessed else _UNSEEN)
        + (_BY_CONSTRAINTS if draft.constraints else ""),
        typed=_typed(draft, schema),
        dataset=_quoted(draft.dataset if is_account_name(draft.dataset) else "my-dataset"),
        defaults="\n".join(defaults),
        epsilon=max(draft.epsilon, _MAXIMA["epsilon"]),
        delta=max(float(f"{delta:.12g}"), _MAXIMA["delta"]),
        accounts="\n".join(
            f"  {_quoted(name)}: {{epsilon: {epsilon}, delta: {delta}}}"
            for name, (epsilon, delta) in accounts
        ),
    )


def _default(name: str, value: object) -> str:
    """Write a default with its meaning; as a comment where a question finds the value itself."""
    if value is None:
        return _OF_THE_ACCOUNT
    if not isinstance(value, Automatic):
        return f"  {name}: {value}".ljust(30) + f"# {_MEANINGS[name]}"
    return _FOUND_OUT[name].format(usual=value.usual)


def _table(table: Table, schema: Schema, draft: Draft) -> str:
    name = _key(table.name)
    if len(str(table.name)) > MAX_DRAFTED_NAME:
        return f"  # A table is left out: its name has {len(str(table.name))} characters.\n"
    if table.name.key in draft.left_out:
        return f"  # {name} is left out: it does not exist for analysts.\n"
    if table.name.key in draft.public:
        return f"  {name}:\n    public: true\n{_columns(table, draft)}"
    view = "  # A view: list the tables below it instead, unless each row is one unit's.\n"
    head = view if table.is_view else ""
    unit = draft.units.get(table.name.key)
    guess = guess_unit(table, draft.constraints) if draft.guesses else None
    if unit is not None and unit.is_row:
        said = f"    privacy_unit: {ROW}  # {ROW_PROMISE}\n"
        return f"{head}  {name}:\n{said}{_columns(table, draft)}"
    if unit is not None:
        said = _unit(table, unit) + _promises(table, unit, schema, draft) + _time(table)
        return f"{head}  {name}:\n{said}{_columns(table, draft)}"
    if table.name.key in draft.links:
        says = "  # its link, below, says whose rows these are\n"
        column = draft.links[table.name.key].columns[0]
        one = _one_row(column) if draft.has_one_row(table, schema) else _unique(table, draft)
        return f"{head}  {name}:{says}{one}{_time(table)}{_columns(table, draft)}"
    if guess is None:
        return head + _undecided(table, schema, draft)
    caution = ", or does it number rows" if bare_name(guess.name) == "id" else ""
    question = f"    # GUESS: does each value of this column stand for one person{caution}?\n"
    unit = PrivacyUnit(guess_unit_name(table, guess), guess.name)
    draft = replace(draft, units={**draft.units, table.name.key: unit})
    said = _unit(table, unit) + _promises(table, unit, schema, draft) + _time(table)
    return f"{head}  {name}:\n{question}{said}{_columns(table, draft)}"


def _one_row(column: str) -> str:
    return f"    rows_per_unit: 1  # KEY: no two rows have the same {printable(column)}\n"


def _unique(table: Table, draft: Draft) -> str:
    """Declare the columns, several together, that keys hold to be unique."""
    found = unique_columns_of(table, draft.units, draft.links, draft.constraints)
    lists = [", ".join(_quoted(column.name) for column in columns) for columns in found]
    if not lists:
        return ""
    shown = ", ".join(f"[{names}]" for names in lists)
    return f"    unique: [{shown}]  # KEY: no two rows have the same of each list\n"


def _unit(table: Table, unit: PrivacyUnit) -> str:
    column = table.column(unit.column)
    doubt = None if column is None else doubtful_unit(column.type)
    caution = "" if doubt is None else f"    # LOOK: the privacy unit {doubt}.\n"
    said = f"    privacy_unit: {{name: {_quoted(unit.name)}, column: {_quoted(unit.column)}}}\n"
    return caution + said


def _promises(table: Table, unit: PrivacyUnit, schema: Schema, draft: Draft) -> str:
    """Declare the number of rows by a key, or propose facts about units that the data keep.

    The owner knows whether they always will.
    """
    if draft.has_one_row(table, schema):
        return _one_row(unit.column)
    unique = _unique(table, draft)
    key = (table.name.key, fold(unit.column))
    if key not in draft.single:
        return unique
    single, who = draft.single[key], printable(unit.name)
    if single is None:
        return unique + (
            f"    # rows_per_unit: 1  # SEEN: no {who} has two rows. Confirm that none ever can.\n"
        )
    names = "".join(f"    #   {_quoted(name)}\n" for name in single)
    return unique + (
        f"    # SEEN: no {who} has two values in these columns. To each of which that is always\n"
        f"    # so, add `one_per_unit: true` below `columns`:\n{names}"
    )


def _time(table: Table) -> str:
    """Propose the only date or timestamp of a table for materialized views."""
    moments = [column for column in table.columns if column.type.is_moment]
    if len(moments) != 1:
        return ""
    return f"    # time: {{column: {_quoted(moments[0].name)}}}  # for materialized views\n"


def _undecided(table: Table, schema: Schema, draft: Draft) -> str:
    name = _key(table.name)
    likely = ", ".join(_quoted(column.name) for column in likely_units(table, draft)[:5])
    keys = references(table, schema, draft.constraints)[:5]
    leads = ", ".join(printable(key.text, MAX_DRAFTED_NAME) for key in keys)
    return (
        f"  # DECIDE: no column of {name} looks like a person's identifier. Name the one that\n"
        "  # says whose row it is, or write `public: true` instead, for a table about nobody, or\n"
        f"  # `privacy_unit: {ROW}` if {ROW_PROMISE}.\n"
        + (f"  # It could be one of: {likely}\n" if likely else "")
        + (f"  # It could be linked, by one of its foreign keys: {leads}\n" if leads else "")
        + f"  # {name}:\n"
        "  #   privacy_unit: {name: WHO, column: COLUMN}\n"
        "  #   columns:\n" + "".join(f"  #     {line}\n" for line in _lines(table, draft))
    )


def _columns(table: Table, draft: Draft) -> str:
    lines = "".join(f"      {line}\n" for line in _lines(table, draft))
    return f"    columns:\n{lines}" if lines else ""


def _lines(table: Table, draft: Draft) -> Iterator[str]:
    """Write each column with its type, the owner's facts, and the parts left to complete."""
    guessed = table.name.key in draft.guessed
    for column in table.columns:
        said = _said(table, column, draft)
        type_ = column.type.declared if draft.types or guessed else None
        note = "" if said else _to_complete(table, column, draft)
        if said:
            typed = [] if type_ is None else [f"type: {_flow(str(type_))}"]
            checked = "  # CHECK" if _is_checked(table, column, draft) else ""
            yield f"{_quoted(column.name)}: {{{', '.join([*typed, *said])}}}{checked}"
        elif type_ is not None:
            yield f"{_quoted(column.name)}: {_block(str(type_))}{f'  # {note}' if note else ''}"
        elif note:
            yield f"# {_quoted(column.name)}: {note}"


def _flow(text: str) -> str:
    """Write a type inside of braces."""
    return text if re.fullmatch(r"[A-Z_]+( [A-Z]+)*", text) else _text(text)


def _block(text: str) -> str:
    """Write a type that stands for itself on a line."""
    return text if re.fullmatch(r"[A-Z][A-Za-z_ (),\[\]0-9\"]*", text) else _text(text)


def _said(table: Table, column: Column, draft: Draft) -> list[str]:
    """Write the facts that the owner or CHECK gave of a column; truth values are two."""
    known = draft.known(table, column)
    if known is None:
        return ["domain: [false, true]"] if column.type.kind == "BOOLEAN" else []
    parts = []
    if known.lower is not None:
        parts += [f"lower: {known.lower}", f"upper: {known.upper}"]
    if known.domain is not None:
        parts.append(f"domain: [{', '.join(map(_scalar, known.domain))}]")
    return parts


def _is_checked(table: Table, column: Column, draft: Draft) -> bool:
    """Tell whether some of the facts about a column are those of its CHECK constraints."""
    said = draft.columns.get((table.name.key, fold(column.name)))
    return draft.known(table, column) != said


def _to_complete(table: Table, column: Column, draft: Draft) -> str:
    """Write the part of a column that the owner has to complete, with its profile."""
    key = (table.name.key, fold(column.name))
    seen = f"; SEEN, not private: {draft.seen[key]}" if key in draft.seen else ""
    listed = listed_values(table, column, draft)
    typed = f"type: {_flow(str(column.type.declared or shown_type(column.type)))}, "
    if column in numeric_columns(table, draft):
        half = draft.checked.get(key, Checked())
        ends = (
            "LOWEST" if half.lower is None else f"{half.lower}",
            "HIGHEST" if half.upper is None else f"{half.upper}",
        )
        checked = ", one by CHECK" if half.one_ended else ""
        return f"to sum it: {{{typed}lower: {ends[0]}, upper: {ends[1]}}}{checked}{seen}"
    if says_whose(column, table, draft):
        return ""
    if listed is not None:
        values = ", ".join(map(_scalar, listed))
        return f"as keys: {{{typed}domain: [{values}]}}, {_OF_ENUM}"
    return f"as keys: {{{typed}domain: [VALUES]}}{seen}" if seen else ""


def _links(schema: Schema, draft: Draft, said: Collection[str]) -> str:
    """Write all links; those that nobody ``said`` are marked as foreign keys."""
    if not draft.links:
        return ""
    lines = []
    for child, link in sorted(draft.links.items()):
        start = _columns_of(schema[child].name, link.columns)
        text = _text(f"{start} -> {_columns_of(link.parent, link.parent_columns)}")
        lines.append(f"  - {text}{'' if child in said else '  # KEY: its foreign key'}\n")
    return f"\n# How tables without a privacy unit reach theirs.\nlinks:\n{''.join(lines)}"


def _columns_of(table: TableName, columns: Sequence[str]) -> str:
    """Write columns of a table as links have them: several in brackets."""
    names = [table.table] if table.in_main else [table.schema, table.table]
    *above, last = (n if re.fullmatch(r"[^\s.\",()]+", n) else quote(n) for n in (*names, *columns))
    if len(columns) == 1:
        return ".".join([*above, last])
    written, listed = above[: len(names)], [*above[len(names) :], last]
    return f"{'.'.join(written)}.({', '.join(listed)})"


def _order(table: Table) -> tuple[bool, str, str]:
    """Sort the tables of ``main`` first, those of other schemas by schema."""
    return not table.name.in_main, table.name.schema, table.name.table


def _key(name: TableName) -> str:
    """Write the name of a table as YAML: plain where all of its parts are."""
    parts = [name.table] if name.in_main else [name.schema, name.table]
    plain = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part) for part in parts)
    text = str(name)
    if plain and not name.in_main:
        return text
    single = text.startswith('"') and text.isprintable() and "'" not in text
    return f"'{text}'" if single else _quoted(text)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(name: str) -> str:
    """Write a text as YAML: plain when that is safe, else in double quotes, always on one line."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and fold(name) not in _PLAIN_WORDS
    return name if plain else _text(name)


def _text(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
