"""``dpsql init``: a policies file drafted from a database's schema and its owner's decisions.

The schema has names and types and no row. That matters: a bound or a domain taken from the data
would itself reveal the data, so what the owner does not say is left to be filled in from public
knowledge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dpsql.core.constraints import NO_CONSTRAINTS, Constraints, ConstraintsOf
from dpsql.core.formatting import printable
from dpsql.core.names import is_account_name, look_alikes
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.owner.checks import Checked, checked_values
from dpsql.owner.draft_options import wrong_option
from dpsql.owner.keys import key_columns_of, one_row_per_unit
from dpsql.policy.model import EACH_ROW, ColumnPolicy, Link, PrivacyUnit
from dpsql.policy.parameters import Parameters, check_value

MAX_DRAFTED_NAME: Final = 200
"""Characters in a table name that a draft still writes out."""
MAX_PROPOSED_KEYS: Final = 100
"""Values of a type that a draft proposes as keys."""
_ROW_NUMBERS: Final = frozenset(
    {"rownames", "rowname", "rownum", "rownumber", "rowid", "unnamed:0"}
)


@dataclass(frozen=True, slots=True)
class Draft:
    """The owner's decisions in a draft. What is not decided is guessed, marked, or left open.

    Tables are named by the keys of their names, columns by that and their own folded names. A table
    is of a unit (``units``), linked (``links``), public, or left out; the others are drafted from
    ``guesses``.
    ``seen`` says what the data hold in a column, where the owner has asked to look, and ``single``
    of which columns a unit has one value alone, by the table and the column of its unit; None where
    it has one row. ``listed`` has the values that types list, which may have been collected from
    rows, so the owner is asked. ``constraints`` are those of the database's tables, and ``checked``
    is what its CHECK constraints say of a column. ``guessed`` are tables whose names and types were
    found in rows, whose ``types`` are written even where those of all other tables are not.
    Without a ``delta`` it follows from each account's.
    """

    dataset: str
    units: Mapping[str, PrivacyUnit] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    public: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    columns: Mapping[tuple[str, str], ColumnPolicy] = field(default_factory=dict)
    accounts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    epsilon: float = Parameters().epsilon
    delta: float | None = None
    seen: Mapping[tuple[str, str], str] = field(default_factory=dict)
    single: Mapping[tuple[str, str], tuple[str, ...] | None] = field(default_factory=dict)
    listed: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    constraints: ConstraintsOf = field(default_factory=dict)
    checked: Mapping[tuple[str, str], Checked] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()
    types: bool = True
    guesses: bool = True

    def with_constraints(self, schema: Schema, constraints: ConstraintsOf) -> Draft:
        """Add what the definitions of a database's tables hold their rows to."""
        checked = {
            (key, name): found
            for key, each in constraints.items()
            if (table := schema.get(key)) is not None
            for name, found in checked_values(table, each.conditions, MAX_PROPOSED_KEYS).items()
        }
        return replace(self, constraints=constraints, checked=checked)

    def known(self, table: Table, column: Column) -> ColumnPolicy | None:
        """Return the facts about a column: the owner's, and those of its CHECK constraints."""
        key = (table.name.key, fold(column.name))
        said, checked = self.columns.get(key), self.checked.get(key, Checked()).policy
        if said is None or checked is None:
            return said or checked
        bounds = checked if said.lower is None else said
        domain = checked.domain if said.domain is None else said.domain
        return replace(said, lower=bounds.lower, upper=bounds.upper, domain=domain)

    def has_one_row(self, table: Table, schema: Schema) -> bool:
        """Tell whether keys prove that no unit has two rows in a decided table."""
        name = table.name.key
        return one_row_per_unit(name, self.units, self.links, schema, self.constraints)

    def decided(self, table: Table) -> bool:
        """Tell whether the owner has said whose rows a table has."""
        name = table.name.key
        return self.protects(table) or name in self.public or name in self.left_out

    def protects(self, table: Table) -> bool:
        """Tell whether the owner has said that a table's rows belong to a unit."""
        return table.name.key in {*self.units, *self.links}

    def with_dataset(self, name: str) -> Draft:
        """Name what the budget is for. Raises ``ParameterError`` for what cannot be a name."""
        if not is_account_name(name):
            raise wrong_option(f"not a name: {name[:80]}", "Choose a plain name.")
        return replace(self, dataset=name)

    def with_unit(self, table: Table, column: Column, name: str) -> Draft:
        """Declare that the rows of a table belong to the unit in a column.

        This and the next four decide a table. Raises ``ParameterError`` if it is decided already.
        """
        units = {**self.units, self._undecided(table): PrivacyUnit(name, column.name)}
        return replace(self, units=units)

    def with_rows(self, table: Table) -> Draft:
        """Declare that each row of a table is a unit of its own."""
        return replace(self, units={**self.units, self._undecided(table): EACH_ROW})

    def with_link(
        self, child: Table, column: Column, parent: Table, key: Column, *more: tuple[Column, Column]
    ) -> Draft:
        """Declare a link: the rows of a table belong to the unit of the row they refer to.

        ``more`` are further columns of the link, each with the parent's.
        """
        columns, keys = zip((column, key), *more, strict=True)
        link = Link([c.name for c in columns], parent.name, [c.name for c in keys])
        return replace(self, links={**self.links, self._undecided(child): link})

    def with_public(self, table: Table) -> Draft:
        """Declare that a table is about nobody."""
        return replace(self, public=self.public | {self._undecided(table)})

    def without(self, table: Table) -> Draft:
        """Declare that a table does not exist for analysts."""
        return replace(self, left_out=self.left_out | {self._undecided(table)})

    def _undecided(self, table: Table) -> str:
        if self.decided(table):
            what = f"{printable(str(table.name))} is decided twice"
            raise wrong_option(what, "A table has a unit or a link, or is public, or is left out.")
        return table.name.key

    def with_column(self, table: Table, column: Column, known: ColumnPolicy) -> Draft:
        """Declare facts about a column, in addition to earlier ones.

        Raises ``ParameterError`` if it was said before, or of a table that is left out.
        """
        if table.name.key in self.left_out:
            what = f"{printable(str(table.name))} is left out, so nothing is known of its columns"
            raise wrong_option(what, "Draft the table as well, or say nothing about it.")
        key = (table.name.key, fold(column.name))
        before = self.columns.get(key, ColumnPolicy())
        twice = (before.lower is not None and known.lower is not None) or (
            before.domain is not None and known.domain is not None
        )
        if twice:
            what = f"{printable(str(table.name))}.{printable(column.name)} is decided twice"
            raise wrong_option(what, "Give a column its bounds once, and its domain once.")
        merged = ColumnPolicy(
            before.lower if known.lower is None else known.lower,
            before.upper if known.upper is None else known.upper,
            before.domain if known.domain is None else known.domain,
        )
        return replace(self, columns={**self.columns, key: merged})

    def with_account(self, name: str, epsilon: float, delta: float) -> Draft:
        """Give an analyst a budget. Raises ``ParameterError`` for a name that is bad or taken."""
        if not is_account_name(name):
            raise wrong_option(
                f"not a name of an account: {name[:80]}", "Choose a plain name without /."
            )
        if name in self.accounts or any(look_alikes((*self.accounts, name))):
            raise wrong_option(f"the account {name} is given twice", "Keep one of the two.")
        return replace(self, accounts={**self.accounts, name: (epsilon, delta)})

    def with_parameters(self, *, epsilon: float | None, delta: float | None) -> Draft:
        """Set what a query costs by default, as far as given. Raises ParameterError."""
        for name, value in (("epsilon", epsilon), ("delta", delta)):
            if value is not None:
                check_value(name, value)
        return replace(
            self,
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=self.delta if delta is None else delta,
        )


# -- what owners write --------------------------------------------------------------------------


# Likely names of the column that says whose row it is, most telling first, without underscores.
_UNIT_NAMES: Final = (
    *("userid", "customerid", "patientid", "personid", "memberid", "clientid", "subjectid"),
    *("employeeid", "studentid", "passengerid", "playerid", "citizenid", "householdid"),
    *("accountid", "deviceid", "visitorid", "participantid", "respondentid"),
    *("custid", "memid", "empid", "uid", "ssn", "username", "email", "emailaddress"),
    *("user", "customer", "patient", "person", "member", "client", "subject"),
    "id",
)


_ADDRESSES: Final = frozenset({"username", "email", "emailaddress"})


def guess_unit(table: Table, constraints: ConstraintsOf = NO_CONSTRAINTS) -> Column | None:
    """Guess the column with a person's identifier; None without a guess.

    From the names of columns, or of a table that is called like people and has one key: only a
    guess.
    """
    usable = {
        bare_name(column.name): column
        for column in reversed(table.columns)
        if column.type.is_integer or column.type.is_text or column.type.kind == "UUID"
    }
    named = next((usable[name] for name in _UNIT_NAMES if name in usable), None)
    keys = [each for each in key_columns_of(table, constraints) if each in usable.values()]
    if named is not None and bare_name(named.name) in _ADDRESSES:
        # What other tables call a row by says whose it is before an address does, which changes.
        named = next((key for key in keys if _is_referred_to(table, key, constraints)), named)
    if named is not None or not _is_of_people(table):
        return named
    return keys[0] if len(keys) == 1 else None


def _is_referred_to(table: Table, key: Column, constraints: ConstraintsOf) -> bool:
    """Tell whether a foreign key of some table leads to a key."""
    return any(
        reference.parent.key == table.name.key and fold(reference.parent_column) == fold(key.name)
        for each in constraints.values()
        for reference in each.references
    )


def _is_of_people(table: Table) -> bool:
    """Tell whether a table is called like people: ``customer``, ``Patients``."""
    return not {_one_of(table), f"{_one_of(table)}id"}.isdisjoint(_UNIT_NAMES)


def _one_of(table: Table) -> str:
    """Name what a row of a table is: ``patients`` -> ``patient``."""
    name = plain_name(fold(table.name.table), "unit")
    return name[:-1] if name.endswith("s") and len(name) > 3 else name


def is_telling(table: Table, guess: Column) -> bool:
    """Tell whether names say that a guessed column stands for people: it may number rows."""
    return bare_name(guess.name) != "id" or _is_of_people(table)


def likely_units(table: Table, draft: Draft) -> list[Column]:
    """Return keys, and the columns whose names end like ``patientId`` or ``license_number``."""
    ending = r"(_id|[a-z]Id|^id|ID|(_| |[a-z](?=N))([Nn]umber|no|nr|NO|NR))$"
    keys = key_columns_of(table, draft.constraints)
    return [c for c in table.columns if c in keys or re.search(ending, c.name)]


def guess_unit_name(table: Table, unit: Column) -> str:
    """Name a unit: ``user_id`` -> ``user``; ``id`` and ``no`` of ``patients`` -> ``patient``."""
    bare = bare_name(unit.name)
    if bare == "id" or (bare not in _UNIT_NAMES and _is_of_people(table)):
        return _one_of(table)
    return plain_name(bare[:-2] if bare.endswith("id") and len(bare) > 3 else bare, "unit")


def numeric_columns(table: Table, draft: Draft) -> list[Column]:
    """Return the columns that could be summed: numbers of neither units, links, keys nor rows."""
    found = draft.constraints.get(table.name.key, Constraints())
    keys = {*found.keys, *(reference.column for reference in found.references)}
    return [
        column
        for column in table.columns
        if column.type.is_numeric
        and bare_name(column.name) not in _ROW_NUMBERS
        and column.name not in keys
        and not says_whose(column, table, draft)
    ]


def key_columns(table: Table, draft: Draft) -> list[Column]:
    """Return the columns whose values could be listed. Those of truth values need not be."""
    return [
        column
        for column in table.columns
        if column.type.is_text or column.type.is_integer
        if bare_name(column.name) not in _ROW_NUMBERS
        and not says_whose(column, table, draft)
        and column not in key_columns_of(table, draft.constraints)
    ]


def listed_values(table: Table, column: Column, draft: Draft) -> tuple[str, ...] | None:
    """Return the values that the type of a column lists (ENUM), if these are few."""
    listed = draft.listed.get((table.name.key, fold(column.name)))
    return listed if listed is not None and len(listed) <= MAX_PROPOSED_KEYS else None


def whole_range(table: Table, column: Column, draft: Draft) -> tuple[int, ...] | None:
    """Return the whole numbers that a column can be by its bounds, if these are few."""
    known = draft.known(table, column)
    if known is None or not column.type.is_integer:
        return None
    if not isinstance(known.lower, int | float) or not isinstance(known.upper, int | float):
        return None
    values = range(math.ceil(known.lower), math.floor(known.upper) + 1)
    return tuple(values) if len(values) <= MAX_PROPOSED_KEYS else None


def says_whose(column: Column, table: Table, draft: Draft) -> bool:
    """Tell whether a column is a table's unit or link, or guessed to be its unit."""
    name = table.name.key
    unit, link = draft.units.get(name), draft.links.get(name)
    taken = [] if unit is None else [unit.column]
    taken += () if link is None else link.columns
    guess = guess_unit(table, draft.constraints) if draft.guesses else None
    if not draft.decided(table) and guess is not None:
        taken = [guess.name]
    return fold(column.name) in map(fold, taken)


def plain_name(name: str, otherwise: str) -> str:
    """Return a name that a policy accepts (printable, no outer spaces), else the other one."""
    plain = name.isprintable() and name == name.strip() and 0 < len(name) <= MAX_DRAFTED_NAME
    return name if plain else otherwise


def bare_name(name: str) -> str:
    return fold(name).replace("_", "").replace(" ", "").replace("-", "")


# -- the text -----------------------------------------------------------------------------------
