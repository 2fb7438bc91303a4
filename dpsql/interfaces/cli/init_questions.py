"""An owner's decisions for ``dpsql init``: from options, and from answers to questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import click

from dpsql.core.formatting import printable
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.core.sql_types import DOUBLE
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.opening import DatabasePlace, open_engine, unsurveyed
from dpsql.errors import Error
from dpsql.interfaces.cli.surveying import survey_if_wanted
from dpsql.owner.checks import Checked
from dpsql.owner.conformance import doubtful_unit, shown_type
from dpsql.owner.draft import (
    MAX_DRAFTED_NAME,
    Draft,
    guess_unit,
    guess_unit_name,
    key_columns,
    likely_units,
    listed_values,
    numeric_columns,
    whole_range,
)
from dpsql.owner.draft_links import likely_link
from dpsql.owner.draft_options import (
    asked_budget,
    bounds_of,
    column_in,
    column_named,
    domain_of,
    linked_columns,
    table_named,
)
from dpsql.owner.draft_text import checked
from dpsql.owner.keys import references
from dpsql.owner.profile import profile_columns, profile_units, values_of_types
from dpsql.policy.model import ROW, ROW_PROMISE, ColumnPolicy

_T = TypeVar("_T")
_Texts = tuple[str, ...]


def with_schema(draft: Draft, database: DatabasePlace, asking: bool) -> tuple[Draft, Schema, bool]:
    """Read a database's tables; add what types list and constraints say to the draft.

    Tells as well whether its engine has been surveyed. Raises ``InterfaceError``.
    """
    with closing(open_engine(database)) as found:
        survey_if_wanted(found, ask=asking)
        guessed = found.proposed() if isinstance(found, DuckDBEngine) else {}
        found.declare(guessed)
        listed = values_of_types(found)
        schema = found.catalog().tables
        read = replace(draft, listed=listed, guessed=frozenset(guessed))
        known = read.with_constraints(schema, found.constraints())
        return known, schema, not unsurveyed(found.version)


def with_numbers(schema: Schema, draft: Draft) -> Schema:
    """Take columns whose types were guessed for numbers where the owner has given bounds."""
    bounded = {key for key, known in draft.columns.items() if known.lower is not None}

    def typed(table: Table, column: Column) -> Column:
        key = (table.name.key, fold(column.name))
        guessed = key in bounded and table.name.key in draft.guessed
        number = Column(column.name, DOUBLE)
        return number if guessed and not column.type.is_numeric else column

    return {
        key: replace(table, columns=tuple(typed(table, column) for column in table.columns))
        for key, table in schema.items()
    }


def profiled(draft: Draft, schema: Schema, database: DatabasePlace, asking: bool) -> Draft:
    """Add to the draft what the data hold; an owner who can be asked is asked first."""
    if asking:
        click.confirm(
            "--look reads the data. What it shows is not private, and neither are bounds copied "
            "from it. Go on?",
            abort=True,
        )
    units = {key: unit.column for key, unit in draft.units.items() if not unit.is_row}
    for table in schema.values():
        guess = guess_unit(table, draft.constraints)
        if guess is not None and not draft.decided(table):
            units[table.name.key] = guess.name
    return replace(draft, seen=profile_columns(database), single=profile_units(database, units))


# -- options ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """The options that decide something, as they were written."""

    unit: _Texts
    row: _Texts
    link: _Texts
    public: _Texts
    only: _Texts
    bounds: _Texts
    domain: _Texts
    account: _Texts

    def decided(self, draft: Draft, schema: Schema) -> Draft:
        """Apply these decisions to a draft. Raises ``ParameterError`` for what makes no sense."""
        kept = [table_named(schema, name) for name in self.only]
        for table in schema.values():
            if kept and table not in kept:
                draft = draft.without(table)
        for name in self.public:
            draft = draft.with_public(table_named(schema, name))
        for name in self.row:
            draft = draft.with_rows(table_named(schema, name))
        for place, name in _split("--unit TABLE.COLUMN=NAME", self.unit):
            draft = draft.with_unit(*column_named(schema, place), name)
        for place, parent in _split("--link TABLE.COLUMN=TABLE.COLUMN", self.link):
            table, other, ((column, key), *more) = linked_columns(schema, place, parent)
            draft = draft.with_link(table, column, other, key, *more)
        for place, text in _split("--bounds TABLE.COLUMN=LOW:HIGH", self.bounds):
            draft = draft.with_column(*column_named(schema, place), bounds_of(text))
        for place, text in _split("--domain TABLE.COLUMN=A,B,C", self.domain):
            table, column = column_named(schema, place)
            draft = draft.with_column(table, column, domain_of(text, column))
        for name, text in _split("--account NAME=EPSILON,DELTA", self.account):
            draft = draft.with_account(name, *asked_budget(text))
        return draft


def _split(form: str, texts: _Texts) -> Iterator[tuple[str, str]]:
    option, _, shape = form.partition(" ")
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.strip() and value.strip()):
            raise click.UsageError(f"{option} {text}: write {option} {shape}")
        yield name.strip(), value.strip()


# -- questions ----------------------------------------------------------------------------------


_NONE: Final = "-"
BACK: Final = "<"
"""The answer that asks the question before again."""


class _Back(Exception):
    """The question before is to be asked again."""


class Questions:
    """Asks for what a draft leaves open, and again until an answer fits the database.

    What is asked follows from the answers alone. So to go back to a question is to begin anew with
    the answers before it.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._tables = sorted(schema.values(), key=lambda table: table.name.key)
        self._given: list[str] = []
        self._known: list[str] = []  # answers given before that are not asked for again

    def answered(self, draft: Draft, ask_dataset: bool, target: Path) -> Draft:
        """Ask until nothing of the draft is left open, and whether to write it to ``target``.

        Raises ``click.Abort`` if it is not to be written.
        """
        click.echo(f"{BACK} goes back to the question before, Ctrl-C stops without writing.")
        while True:
            self._known, self._given = self._given, []
            try:
                found = self._asked(draft, ask_dataset)
                self._say(f"\n{checked(self._schema, found)}")
                agreed = self._ask(f"Write this to {target}? yes, no", _yes_or_no, "yes")
            except _Back:
                continue
            if not agreed:
                raise click.Abort
            return found

    def _asked(self, draft: Draft, ask_dataset: bool) -> Draft:
        if ask_dataset:
            question = "The budget belongs to a name, for as long as the data. Which?"
            draft = self._ask(question, draft.with_dataset, draft.dataset)
        waiting = [
            table
            for table in self._tables
            if not draft.decided(table) and len(str(table.name)) <= MAX_DRAFTED_NAME
        ]
        linked: list[Table] = []
        for table in waiting:
            draft = self._whose(draft, table, linked)
        while linked:
            draft = self._linked(draft, linked[0], linked)
        for table in waiting:
            if draft.protects(table):
                draft = self._domains(self._bounds(draft, table), table)
        return draft if draft.accounts else self._accounts(draft)

    def _whose(self, draft: Draft, table: Table, linked: list[Table]) -> Draft:
        """Ask for a unit's column, or what else a table can be. Links are asked for at the end."""
        columns = ", ".join(f"{printable(c.name)} {shown_type(c.type)}" for c in table.columns)
        self._say(f"\n{printable(str(table.name))}{' (a view)' * table.is_view}: {columns}")
        guess, likely = guess_unit(table, draft.constraints), likely_units(table, draft)
        lead = likely_link(table, self._schema, draft)
        if lead is not None:
            self._say(f"A foreign key leads to a unit: {printable(lead.text)}")
        elif likely and guess is None:
            self._say(f"Likely: {', '.join(printable(column.name) for column in likely)}")
        elif guess is None:
            self._say(f"If no column does, the answer is {ROW}: {ROW_PROMISE}.")

        def answer(text: str) -> Column | str:
            word = fold(text)
            if word in ("link", "public", ROW, "skip") and table.column(text) is None:
                return word
            column = column_in(table, text)
            self._fitting(draft.with_unit(table, column, "unit"))
            return column

        found = self._ask(
            f"Whose rows are these? A column that says so, or: link, public, {ROW}, skip",
            answer,
            "link" if lead is not None else None if guess is None else guess.name,
        )
        if isinstance(found, Column):
            doubt = doubtful_unit(found.type)
            if doubt is not None:
                self._say(f"Look again: {printable(found.name)} {doubt}.")
            return self._ask(
                f"What does one {printable(found.name)} stand for? A word such as customer",
                lambda text: self._fitting(draft.with_unit(table, found, text)),
                guess_unit_name(table, found),
            )
        if found == "link":
            linked.append(table)
            return draft
        if found == ROW:
            return draft.with_rows(table)
        return draft.with_public(table) if found == "public" else draft.without(table)

    def _linked(
        self, draft: Draft, table: Table, linked: list[Table], below: tuple[Table, ...] = ()
    ) -> Draft:
        """Ask for a link; a parent table that waits for a link comes first."""
        linked.remove(table)

        def answer(text: str) -> tuple[Column, Table, Column]:
            name, _, end = text.partition("->")
            column, (parent, key) = column_in(table, name), column_named(self._schema, end)
            if parent in (table, *below):
                raise click.UsageError("the links would go round in a circle")
            if parent not in linked:
                self._fitting(draft.with_link(table, column, parent, key))
            return column, parent, key

        question = (
            f"Which column of {printable(str(table.name))} leads where? COLUMN -> TABLE.COLUMN"
        )
        ways = references(table, self._schema, draft.constraints)
        likely = [way for way in ways if way.parent in linked or draft.protects(way.parent)]
        way = None if len(likely) != 1 else likely[0].text
        column, parent, key = self._ask(question, answer, way)
        if parent in linked:
            draft = self._linked(draft, parent, linked, (table, *below))
        return self._fitting(draft.with_link(table, column, parent, key))

    def _bounds(self, draft: Draft, table: Table) -> Draft:
        """Ask for the bounds of those columns where they are publicly known."""
        numeric = [
            column
            for column in numeric_columns(table, draft)
            if (known := draft.known(table, column)) is None or known.lower is None
        ]
        question = (
            f"Of which of {printable(str(table.name))} is it publicly known what values can be "
            "(bounds of others are found privately)"
        )
        for column in self._chosen(question, table, numeric):
            draft = self._ask(
                f"What can {printable(column.name)} be, as is publicly known? LOW:HIGH, such as "
                f"0:100{_seen(draft, table, column)}{_one_end(draft, table, column)}",
                partial(self._with_column, draft, table, column, bounds_of),
            )
        return draft

    def _domains(self, draft: Draft, table: Table) -> Draft:
        """Ask for the values of columns with publicly known values."""
        keys = [
            column
            for column in key_columns(table, draft)
            if (known := draft.known(table, column)) is None or known.domain is None
        ]
        question = f"Of which of {printable(str(table.name))} are all values publicly known"
        ranges = [c for c in keys if whole_range(table, c, draft) and "," not in c.name]
        for column in self._chosen(question, table, keys, ranges):
            listed = listed_values(table, column, draft) or whole_range(table, column, draft)
            read = partial(_values, column, listed)
            draft = self._ask(
                f"Which values can {printable(column.name)} have? With commas, such as A,B,C"
                f"{_seen(draft, table, column)}",
                partial(self._with_column, draft, table, column, read),
                None if listed is None else _in_one(listed),
            )
        return draft

    def _chosen(
        self,
        question: str,
        table: Table,
        columns: Sequence[Column],
        usual: Sequence[Column] = (),
    ) -> list[Column]:
        """Ask which columns of a table are meant; of none there is nothing to ask."""
        if not columns:
            return []
        names = ", ".join(printable(column.name) for column in columns)

        def answer(text: str) -> list[Column]:
            parts = [] if text == _NONE else text.split(",")
            found = [column_in(table, part) for part in parts if part.strip()]
            for column in found:
                if column not in columns:
                    raise click.UsageError(f"{printable(column.name)} is none of them")
            return list(dict.fromkeys(found))

        if usual:
            asked = f"{question}, of: {names}? With commas; {_NONE} for none"
            return self._ask(asked, answer, ",".join(column.name for column in usual))
        return self._ask(f"{question}, of: {names}? With commas; none if left empty", answer, "")

    def _with_column(
        self,
        draft: Draft,
        table: Table,
        column: Column,
        read: Callable[[str], ColumnPolicy],
        text: str,
    ) -> Draft:
        return self._fitting(draft.with_column(table, column, read(text)))

    def _accounts(self, draft: Draft) -> Draft:
        names = self._ask(
            "\nWho may ask? Names of analysts, with commas",
            lambda text: [name.strip() for name in text.split(",") if name.strip()],
            "analyst",
        )
        for name in names:
            draft = self._account(draft, name)
        return draft

    def _account(self, draft: Draft, name: str) -> Draft:
        return self._ask(
            f"What may {printable(name)} learn in all? EPSILON,DELTA",
            lambda text: self._fitting(draft.with_account(name, *asked_budget(text))),
            "3,1e-6",
        )

    def _fitting(self, draft: Draft) -> Draft:
        checked(self._schema, draft)
        return draft

    def _say(self, text: str) -> None:
        if not self._known:
            click.echo(text)

    def _ask(self, question: str, answer: Callable[[str], _T], default: str | None = None) -> _T:
        """Ask until an answer is understood, and return its value."""

        def understood(text: str) -> _T:
            text = text.strip()
            if text == BACK:
                if not self._given:
                    raise click.UsageError("this is the first question")
                self._given.pop()
                raise _Back
            try:
                found = answer(text)
            except Error as error:
                raise click.UsageError(f"{error.reason}. {error.hint or ''}".strip()) from None
            self._given.append(text)
            return found

        if self._known:
            return understood(self._known.pop(0))
        found: _T = click.prompt(
            question, default=default, show_default=bool(default), value_proc=understood
        )
        return found


def _seen(draft: Draft, table: Table, column: Column) -> str:
    """Show the profile of a column, if its owner asked for it."""
    seen = draft.seen.get((table.name.key, fold(column.name)))
    return f" (the data hold {seen}: not private)" if seen else ""


def _one_end(draft: Draft, table: Table, column: Column) -> str:
    """Show the one end that CHECK constraints say of a column."""
    found = draft.checked.get((table.name.key, fold(column.name)), Checked())
    if not found.one_ended:
        return ""
    at, end = ("most", found.upper) if found.lower is None else ("least", found.lower)
    return f" (by CHECK at {at} {end})"


def _values(column: Column, listed: tuple[object, ...] | None, text: str) -> ColumnPolicy:
    """Read the values of a column; those that its type lists may hold commas."""
    if listed is not None and text == _in_one(listed):
        return ColumnPolicy(domain=listed)
    return domain_of(text, column)


def _in_one(values: tuple[object, ...]) -> str:
    return printable(",".join(map(str, values))).strip()


def _yes_or_no(text: str) -> bool:
    if fold(text) not in ("y", "yes", "n", "no"):
        raise click.UsageError("write yes or no")
    return fold(text) in ("y", "yes")
