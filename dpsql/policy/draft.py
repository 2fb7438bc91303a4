"""``dpsql init``: a policies file drafted from a database's schema and its owner's decisions.

The schema has names and types and no row. That matters: a bound or a domain taken from the data
would itself reveal the data, so what the owner does not say is left to be filled in from public
knowledge.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dpsql.core.formatting import printable
from dpsql.core.names import is_account_name, look_alikes
from dpsql.core.schema import (
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
)
from dpsql.errors import ParameterError, PolicyError
from dpsql.policy.conformance import check_policy, shown_type
from dpsql.policy.document import parse_policy
from dpsql.policy.model import (
    ColumnPolicy,
    Link,
    Parameters,
    PrivacyUnit,
    check_value,
    suggestion,
)

MAX_NAME: Final = 200
"""Characters in a table name that a draft still writes out."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What an owner has decided. What is not decided is guessed, marked, or left open.

    Tables are named by their folded names, columns by pairs of folded names. A table is of a unit
    (``units``), linked (``links``), public, or left out; the others are drafted from ``guesses``.
    ``seen`` says what the data hold in a column, where the owner has asked to look.
    """

    dataset: str
    units: Mapping[str, PrivacyUnit] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    public: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    columns: Mapping[tuple[str, str], ColumnPolicy] = field(default_factory=dict)
    accounts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    epsilon: float = Parameters().epsilon
    delta: float = Parameters().delta
    seen: Mapping[tuple[str, str], str] = field(default_factory=dict)
    guesses: bool = True

    def decided(self, table: Table) -> bool:
        """True if the owner has said whose rows a table has."""
        name = fold(table.name)
        return self.protects(table) or name in self.public or name in self.left_out

    def protects(self, table: Table) -> bool:
        """True if the owner has said that a table's rows belong to a unit."""
        return fold(table.name) in {*self.units, *self.links}

    def with_dataset(self, name: str) -> Draft:
        """What the budget belongs to. Raises ``ParameterError`` for what cannot be a name."""
        if not is_account_name(name):
            raise _wrong(f"not a name: {name[:80]}", "Choose a plain name.")
        return replace(self, dataset=name)

    def with_unit(self, table: Table, column: Column, name: str) -> Draft:
        """The rows of a table belong to the unit in a column.

        This and the next three decide a table. Raises ``ParameterError`` if it is decided already.
        """
        units = {**self.units, self._undecided(table): PrivacyUnit(name, column.name)}
        return replace(self, units=units)

    def with_link(self, child: Table, column: Column, parent: Table, key: Column) -> Draft:
        """The rows of a table belong to whom those of another one do."""
        links = {**self.links, self._undecided(child): Link(column.name, parent.name, key.name)}
        return replace(self, links=links)

    def with_public(self, table: Table) -> Draft:
        """A table is about nobody."""
        return replace(self, public=self.public | {self._undecided(table)})

    def without(self, table: Table) -> Draft:
        """A table does not exist for analysts."""
        return replace(self, left_out=self.left_out | {self._undecided(table)})

    def _undecided(self, table: Table) -> str:
        if self.decided(table):
            what = f"{printable(table.name)} is decided twice"
            raise _wrong(what, "A table has a unit or a link, or is public, or is left out.")
        return fold(table.name)

    def with_column(self, table: Table, column: Column, known: ColumnPolicy) -> Draft:
        """What is known of a column, beside what was said of it before.

        Raises ``ParameterError`` if it was said before, or of a table that is left out.
        """
        if fold(table.name) in self.left_out:
            what = f"{printable(table.name)} is left out, so nothing is known of its columns"
            raise _wrong(what, "Draft the table as well, or say nothing about it.")
        key = (fold(table.name), fold(column.name))
        before = self.columns.get(key, ColumnPolicy())
        twice = (before.lower is not None and known.lower is not None) or (
            before.domain is not None and known.domain is not None
        )
        if twice:
            what = f"{printable(table.name)}.{printable(column.name)} is decided twice"
            raise _wrong(what, "Give a column its bounds once, and its domain once.")
        merged = ColumnPolicy(
            before.lower if known.lower is None else known.lower,
            before.upper if known.upper is None else known.upper,
            before.domain if known.domain is None else known.domain,
        )
        return replace(self, columns={**self.columns, key: merged})

    def with_account(self, name: str, epsilon: float, delta: float) -> Draft:
        """An analyst's budget. Raises ``ParameterError`` for a name that cannot be or is taken."""
        if not is_account_name(name):
            raise _wrong(f"not a name of an account: {name[:80]}", "Choose a plain name without /.")
        if name in self.accounts or any(look_alikes((*self.accounts, name))):
            raise _wrong(f"the account {name} is given twice", "Keep one of the two.")
        return replace(self, accounts={**self.accounts, name: (epsilon, delta)})

    def with_parameters(self, *, epsilon: float | None, delta: float | None) -> Draft:
        """What a query costs unless it says otherwise, as far as given. Raises ParameterError."""
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if value is not None:
                check_value(name, value)
        return replace(
            self,
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=self.delta if delta is None else delta,
        )


# -- what owners write --------------------------------------------------------------------------


def column_named(schema: Schema, text: str) -> tuple[Table, Column]:
    """The column that ``table.column`` names. Raises ``ParameterError``."""
    known = {
        f"{fold(table.name)}.{fold(column.name)}": (table, column)
        for table in schema.values()
        for column in table.columns
    }
    found = known.get(fold(text.strip()))
    if found is None:
        spelled = tuple(f"{table.name}.{column.name}" for table, column in known.values())
        raise _wrong(f"there is no column {text.strip()[:80]}", _known(text, spelled))
    return found


def column_in(table: Table, name: str) -> Column:
    """The column of that name. Raises ``ParameterError``."""
    found = table.column(name.strip())
    if found is None:
        names = tuple(column.name for column in table.columns)
        what = f"{printable(table.name)} has no column {name.strip()[:80]}"
        raise _wrong(what, _known(name, names))
    return found


def table_named(schema: Schema, text: str) -> Table:
    """The table of that name. Raises ``ParameterError``."""
    found = schema.get(fold(text.strip()))
    if found is None:
        names = tuple(table.name for table in schema.values())
        raise _wrong(f"there is no table {text.strip()[:80]}", _known(text, names))
    return found


def bounds_of(text: str) -> ColumnPolicy:
    """``LOW:HIGH`` as bounds. Raises ``ParameterError``."""
    low, colon, high = text.partition(":")
    try:
        bounds = [_number(part) for part in (low, high)] if colon else []
    except ValueError:
        bounds = []
    if not bounds or not bounds[0] < bounds[1]:
        raise _wrong(f"not bounds: {text[:80]}", "Write LOW:HIGH, such as 0:100.")
    return ColumnPolicy(bounds[0], bounds[1])


def domain_of(text: str, column: Column) -> ColumnPolicy:
    """``a,b,c`` as the values a column can have, read as its type. Raises ``ParameterError``."""
    try:
        values = tuple(_value(part.strip(), column.type) for part in text.split(","))
    except ValueError:
        raise _wrong(
            f"{column.name} is {shown_type(column.type)}, and some values of its domain are not",
            "Write values with commas between them, such as a,b,c.",
        ) from None
    return ColumnPolicy(domain=values)


def budget_of(text: str) -> tuple[float, float]:
    """``EPSILON,DELTA`` as numbers within dpsql's limits. Raises ``ParameterError``."""
    parts = text.split(",")
    try:
        epsilon, delta = map(float, parts)
    except ValueError:
        raise _wrong(f"not a budget: {text[:80]}", "Write EPSILON,DELTA, such as 3,1e-6.") from None
    check_value("epsilon", epsilon)
    check_value("delta", delta)
    return epsilon, delta


def checked(schema: Schema, draft: Draft) -> str:
    """The draft's text, once it reads back and fits the database. Raises ``PolicyError``."""
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


def _known(text: str, names: tuple[str, ...]) -> str:
    shown = f"There are: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}."
    return suggestion(text.strip(), names) or shown


def _wrong(reason: str, hint: str) -> ParameterError:
    return ParameterError(reason, code="draft_unclear", hint=hint)


def _number(text: str) -> float | int:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _value(text: str, type_text: str) -> object:
    """A value of a column's type. Raises ValueError."""
    if is_integer(type_text):
        return int(text)
    if is_float(type_text) or is_decimal(type_text):
        return _number(text)
    if base_type(type_text) == "BOOLEAN":
        return _truth(text)
    if base_type(type_text) == "DATE":
        return datetime.date.fromisoformat(text)
    if base_type(type_text).startswith("TIMESTAMP"):
        return datetime.datetime.fromisoformat(text)
    return text


def _truth(text: str) -> bool:
    if fold(text) not in _TRUTHS:
        raise ValueError(text)
    return fold(text) == "true"


# -- guesses ------------------------------------------------------------------------------------

# Likely names of the column that says whose row it is, most telling first, without underscores.
_UNIT_NAMES: Final = (
    *("userid", "customerid", "patientid", "personid", "memberid", "clientid", "subjectid"),
    *("employeeid", "studentid", "passengerid", "playerid", "citizenid", "householdid"),
    *("accountid", "deviceid", "visitorid", "participantid", "respondentid"),
    *("custid", "memid", "empid", "uid", "ssn", "username", "email", "emailaddress"),
    *("user", "customer", "patient", "person", "member", "client", "subject"),
    "id",
)


def guess_unit(table: Table) -> Column | None:
    """The column whose name most looks like a person's identifier, or None. Only a guess."""
    usable = {
        _bare(column.name): column
        for column in reversed(table.columns)
        if is_integer(column.type) or is_text(column.type) or base_type(column.type) == "UUID"
    }
    return next((usable[name] for name in _UNIT_NAMES if name in usable), None)


def likely_units(table: Table) -> list[Column]:
    """The columns whose names end like identifiers: ``patient_id``, ``userId``, ``ID``."""
    return [c for c in table.columns if re.search(r"(_id|[a-z]Id|^id|ID)$", c.name)]


def guess_unit_name(table: Table, unit: Column) -> str:
    """``user_id`` -> ``user``; a bare ``id`` takes its table's name: ``patients``, ``patient``."""
    bare = _bare(unit.name)
    if bare == "id":
        name = plain_name(fold(table.name), "unit")
        return name[:-1] if name.endswith("s") and len(name) > 3 else name
    return plain_name(bare[:-2] if bare.endswith("id") and len(bare) > 3 else bare, "unit")


def numeric_columns(table: Table, draft: Draft) -> list[Column]:
    """The columns that could be summed: numbers that are neither unit nor link."""
    name = fold(table.name)
    unit, link = draft.units.get(name), draft.links.get(name)
    taken = {fold(unit.column)} if unit else {fold(link.column)} if link else set()
    if not draft.decided(table) and draft.guesses and (guess := guess_unit(table)) is not None:
        taken = {fold(guess.name)}
    return [c for c in table.columns if is_numeric(c.type) and fold(c.name) not in taken]


def plain_name(name: str, otherwise: str) -> str:
    """The name if a policy accepts it as its own (printable, no outer spaces), else the other."""
    plain = name.isprintable() and name == name.strip() and 0 < len(name) <= MAX_NAME
    return name if plain else otherwise


def _bare(name: str) -> str:
    return fold(name).replace("_", "").replace(" ", "").replace("-", "")


# -- the text -----------------------------------------------------------------------------------

_TRUTHS: Final = frozenset({"true", "false"})
_PLAIN_WORDS: Final = frozenset({*_TRUTHS, "null", "yes", "no", "on", "off", "y", "n"})

_MEANINGS: Final = {
    "epsilon": "privacy loss of a query: smaller is more private, and noisier",
    "delta": "keep far below 1 / number of people",
    "max_groups_contributed": "groups one person may influence, or: unlimited",
    "max_rows_contributed": "rows one person may add to a group",
    "k_bar": "how many of the largest groups a top-k looks at",
    "min_units_per_group": "leave out groups of fewer people",
}
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
# that depends on the data reveals it.

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
  max_rows_contributed: 100
  k_bar: 10000

# One line per analyst: the total they may ever spend.
accounts:
{accounts}

# Tables that are not listed here do not exist for analysts.
# A column needs lower and upper to be summed or averaged. One whose values are public knowledge
# can list them, and each is then answered: `carrier: {{domain: [AA, B6, UA]}}`.
# A table that reaches its unit through another one is linked to it below `tables`, by a column that
# is unique there: `links: [lineitem.l_orderkey -> orders.o_orderkey]`.
tables:
"""
_UNSEEN: Final = "# Drafted from the names and types of tables and columns; no row was read."
_SEEN: Final = """\
# Drafted from names, types and, as its owner asked for, from the data. What is marked SEEN is what
# the data hold: bounds and domains taken from it are not private. They are there to compare."""


def draft_policy(schema: Schema, draft: Draft) -> str:
    """A commented ``policies.yaml`` from a database's schema and its owner's decisions.

    The text reads back as a valid policy unless decisions contradict each other. A table without a
    decision is protected by the column whose name looks most like a person's identifier, marked as
    a guess; one without such a column stays commented out, and so does not exist for analysts.
    """
    tables = sorted(schema.values(), key=lambda table: table.name)
    text = _head(draft) + "\n".join(_table(table, draft) for table in tables)
    return text + _links(schema, draft)


def _head(draft: Draft) -> str:
    settings = {name: getattr(Parameters(), name) for name in _MEANINGS}
    settings |= {"epsilon": draft.epsilon, "delta": draft.delta}
    defaults = [f"  {n}: {v}".ljust(30) + f"# {_MEANINGS[n]}" for n, v in settings.items()]
    accounts = (draft.accounts or _ACCOUNTS).items()
    return _HEAD.format(
        origin=_SEEN if draft.seen else _UNSEEN,
        dataset=_quoted(draft.dataset if is_account_name(draft.dataset) else "my-dataset"),
        defaults="\n".join(defaults),
        epsilon=max(draft.epsilon, _MAXIMA["epsilon"]),
        delta=max(draft.delta, _MAXIMA["delta"]),
        accounts="\n".join(
            f"  {_quoted(name)}: {{epsilon: {epsilon}, delta: {delta}}}"
            for name, (epsilon, delta) in accounts
        ),
    )


def _table(table: Table, draft: Draft) -> str:
    name = _quoted(table.name)
    if len(table.name) > MAX_NAME:
        return f"  # A table is left out: its name has {len(table.name)} characters.\n"
    if fold(table.name) in draft.left_out:
        return f"  # {name} is left out: it does not exist for analysts.\n"
    if fold(table.name) in draft.public:
        lines = "".join(f"      {line}\n" for line in _decided_lines(table, draft))
        return f"  {name}:\n    public: true\n" + (f"    columns:\n{lines}" if lines else "")
    view = "  # A view: list the tables below it instead, unless each row is one unit's.\n"
    head = view if table.is_view else ""
    unit, guess = draft.units.get(fold(table.name)), guess_unit(table) if draft.guesses else None
    if unit is not None:
        return f"{head}  {name}:\n{_unit(unit)}{_columns(table, draft)}"
    if fold(table.name) in draft.links:
        return f"{head}  {name}:  # its link, below, says whose rows these are\n" + _columns(
            table, draft
        )
    if guess is None:
        return head + _undecided(table, draft)
    caution = ", or does it number rows" if _bare(guess.name) == "id" else ""
    question = f"    # GUESS: does each value of this column stand for one person{caution}?\n"
    unit = PrivacyUnit(guess_unit_name(table, guess), guess.name)
    return f"{head}  {name}:\n{question}{_unit(unit)}{_columns(table, draft)}"


def _unit(unit: PrivacyUnit) -> str:
    return f"    privacy_unit: {{name: {_quoted(unit.name)}, column: {_quoted(unit.column)}}}\n"


def _undecided(table: Table, draft: Draft) -> str:
    name = _quoted(table.name)
    return (
        f"  # DECIDE: no column of {name} looks like a person's identifier. Name the one that\n"
        "  # says whose row it is, or write `public: true` instead, for a table about nobody.\n"
        f"  # {name}:\n"
        "  #   privacy_unit: {name: WHO, column: COLUMN}\n"
        "  #   columns:\n"
        + "".join(f"  #     {line}\n" for line in _decided_lines(table, draft))
        + "".join(f"  #     {line}\n" for line in _open_lines(table, draft))
    )


def _columns(table: Table, draft: Draft) -> str:
    lines = [*_decided_lines(table, draft), *(f"# {line}" for line in _open_lines(table, draft))]
    return "    columns:\n" + "".join(f"      {line}\n" for line in lines)


def _decided_lines(table: Table, draft: Draft) -> Iterator[str]:
    for column in table.columns:
        known = draft.columns.get((fold(table.name), fold(column.name)))
        if known is None:
            continue
        parts = []
        if known.lower is not None:
            parts += [f"lower: {known.lower}", f"upper: {known.upper}"]
        if known.domain is not None:
            parts.append(f"domain: [{', '.join(map(_scalar, known.domain))}]")
        yield f"{_quoted(column.name)}: {{{', '.join(parts)}}}"


def _open_lines(table: Table, draft: Draft) -> Iterator[str]:
    """Columns to fill in, and what was seen in those that nothing is known of."""
    for column in table.columns:
        key = (fold(table.name), fold(column.name))
        seen = f"; SEEN, not private: {draft.seen[key]}" if key in draft.seen else ""
        if key in draft.columns:
            continue
        if column in numeric_columns(table, draft):
            type_text = shown_type(column.type)
            yield f"{_quoted(column.name)}: {{lower: LOWEST, upper: HIGHEST}}  # {type_text}{seen}"
        elif seen and not _says_whose(column, table, draft):
            yield f"{_quoted(column.name)}: {{domain: [VALUES]}}  # {seen.removeprefix('; ')}"


def _says_whose(column: Column, table: Table, draft: Draft) -> bool:
    unit = draft.units.get(fold(table.name))
    return unit is not None and fold(unit.column) == fold(column.name)


def _links(schema: Schema, draft: Draft) -> str:
    if not draft.links:
        return ""
    lines = [
        f"{_end(schema[child].name, link.column)} -> {_end(link.parent, link.parent_column)}"
        for child, link in sorted(draft.links.items())
    ]
    return "\n# How tables without a privacy unit reach theirs.\nlinks:\n" + "".join(
        f"  - {_text(line)}\n" for line in lines
    )


def _end(*names: str) -> str:
    return ".".join(name if re.fullmatch(r"[^\s.\"]+", name) else f'"{name}"' for name in names)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(name: str) -> str:
    """A text as YAML: plain when that is safe, else in double quotes, always on one line."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and fold(name) not in _PLAIN_WORDS
    return name if plain else _text(name)


def _text(text: str) -> str:
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
