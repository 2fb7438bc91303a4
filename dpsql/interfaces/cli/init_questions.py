"""An owner's decisions for ``dpsql init``: from options, and from answers to questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import click

from dpsql.core.formatting import printable
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.engines.opening import DatabasePlace, open_engine
from dpsql.engines.profile import look
from dpsql.errors import Error
from dpsql.policy.conformance import shown_type
from dpsql.policy.draft import (
    MAX_DRAFTED_NAME,
    Draft,
    guess_unit,
    guess_unit_name,
    likely_units,
    numeric_columns,
)
from dpsql.policy.draft_options import (
    asked_budget,
    bounds_of,
    column_in,
    column_named,
    domain_of,
    table_named,
)
from dpsql.policy.draft_text import checked

_T = TypeVar("_T")
_Texts = tuple[str, ...]


def database_schema(database: DatabasePlace) -> Schema:
    """Read the names and types of a database's tables. Raises ``InterfaceError``."""
    engine = open_engine(database)
    try:
        return engine.schema()
    finally:
        engine.close()


def looked(draft: Draft, database: DatabasePlace, asking: bool) -> Draft:
    """Add to the draft what the data hold; an owner who can be asked is asked first."""
    if asking:
        click.confirm(
            "--look reads the data. What it shows is not private, and neither are bounds copied "
            "from it. Go on?",
            abort=True,
        )
    return replace(draft, seen=look(database))


# -- options ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """The options that decide something, as they were written."""

    unit: _Texts
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
        for place, name in _split("--unit", self.unit):
            draft = draft.with_unit(*column_named(schema, place), name)
        for place, parent in _split("--link", self.link):
            draft = draft.with_link(*column_named(schema, place), *column_named(schema, parent))
        for place, text in _split("--bounds", self.bounds):
            draft = draft.with_column(*column_named(schema, place), bounds_of(text))
        for place, text in _split("--domain", self.domain):
            table, column = column_named(schema, place)
            draft = draft.with_column(table, column, domain_of(text, column))
        for name, text in _split("--account", self.account):
            draft = draft.with_account(name, *asked_budget(text))
        return draft


def _split(option: str, texts: _Texts) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.strip() and value.strip()):
            raise click.UsageError(f"{option} {text}: write NAME=VALUE")
        yield name.strip(), value.strip()


# -- questions ----------------------------------------------------------------------------------


class Questions:
    """Asks for what a draft leaves open, and again until an answer fits the database."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._tables = sorted(schema.values(), key=lambda table: table.name.key)

    def answered(self, draft: Draft, ask_dataset: bool) -> Draft:
        """Ask until nothing of the draft is left open."""
        if ask_dataset:
            question = "The budget belongs to a name, for as long as the data. Which?"
            draft = _ask(question, draft.with_dataset, draft.dataset)
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
                draft = self._bounds(draft, table)
        return draft if draft.accounts else self._accounts(draft)

    def _whose(self, draft: Draft, table: Table, linked: list[Table]) -> Draft:
        """Ask for a unit's column, or what else a table can be. Links are asked for at the end."""
        columns = ", ".join(f"{printable(c.name)} {shown_type(c.type)}" for c in table.columns)
        click.echo(f"\n{printable(str(table.name))}{' (a view)' * table.is_view}: {columns}")
        guess, likely = guess_unit(table), likely_units(table)
        if likely and guess is None:
            click.echo(f"Likely: {', '.join(printable(column.name) for column in likely)}")

        def answer(text: str) -> Column | str:
            word = fold(text)
            if word in ("link", "public", "skip") and table.column(text) is None:
                return word
            column = column_in(table, text)
            self._fitting(draft.with_unit(table, column, "unit"))
            return column

        found = _ask(
            "Whose rows are these? A column that says so, or: link, public, skip",
            answer,
            None if guess is None else guess.name,
        )
        if isinstance(found, Column):
            return _ask(
                "What is one of them called?",
                lambda text: self._fitting(draft.with_unit(table, found, text)),
                guess_unit_name(table, found),
            )
        if found == "link":
            linked.append(table)
            return draft
        return draft.with_public(table) if found == "public" else draft.without(table)

    def _linked(
        self, draft: Draft, table: Table, linked: list[Table], below: tuple[Table, ...] = ()
    ) -> Draft:
        """Ask for a link; where it leads to a table that waits for one, that comes first."""
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
        column, parent, key = _ask(question, answer)
        if parent in linked:
            draft = self._linked(draft, parent, linked, (table, *below))
        return self._fitting(draft.with_link(table, column, parent, key))

    def _bounds(self, draft: Draft, table: Table) -> Draft:
        """Ask for the bounds of those columns that are to be summed."""
        numeric = [
            column
            for column in numeric_columns(table, draft)
            if (table.name.key, fold(column.name)) not in draft.columns
        ]
        if not numeric:
            return draft
        names = ", ".join(printable(column.name) for column in numeric)
        chosen = _ask(
            f"Which of {printable(str(table.name))} are to be summed or averaged, of: {names}?",
            lambda text: [column_in(table, part) for part in text.split(",") if part.strip()],
            "",
        )
        for column in chosen:
            draft = self._bounded(draft, table, column)
        return draft

    def _bounded(self, draft: Draft, table: Table, column: Column) -> Draft:
        seen = draft.seen.get((table.name.key, fold(column.name)))
        shown = f" (the data hold {seen}: not private)" if seen else ""
        return _ask(
            f"What can {printable(column.name)} be, as is publicly known? LOW:HIGH{shown}",
            lambda text: self._fitting(draft.with_column(table, column, bounds_of(text))),
        )

    def _accounts(self, draft: Draft) -> Draft:
        names = _ask(
            "\nWho may ask? Names of analysts, with commas",
            lambda text: [name.strip() for name in text.split(",") if name.strip()],
            "analyst",
        )
        for name in names:
            draft = self._account(draft, name)
        return draft

    def _account(self, draft: Draft, name: str) -> Draft:
        return _ask(
            f"What may {printable(name)} learn in all? EPSILON,DELTA",
            lambda text: self._fitting(draft.with_account(name, *asked_budget(text))),
            "3,1e-6",
        )

    def _fitting(self, draft: Draft) -> Draft:
        checked(self._schema, draft)
        return draft


def _ask(question: str, answer: Callable[[str], _T], default: str | None = None) -> _T:
    """Ask until an answer means something, and return what it means."""

    def understood(text: str) -> _T:
        try:
            return answer(text.strip())
        except Error as error:
            raise click.UsageError(f"{error.reason}. {error.hint or ''}".strip()) from None

    found: _T = click.prompt(
        question, default=default, show_default=bool(default), value_proc=understood
    )
    return found
