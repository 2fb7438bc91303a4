"""The tables and CTEs that FROM clauses name, and where private rows could come through them.

A private table brings its unit, or the link by which it reaches its unit. Names are looked up in
the policy: a table that it does not list does not exist.

A unit may be protected in one period at a time: what somebody did on one day, and not on all days
together. The unit of a row is then its user and the period of its time, as one computed column:
text that begins with the number of the period, which has no colon, so that no two units have the
same. It is NULL, so that the row belongs to nobody, where the user or the time is NULL or the time
is infinite, and a function of its own row alone. Checked by ``tests/sql/test_unit_periods.py``.

Where each row is a unit of its own, the unit is a number that no two rows share. It tells rows
apart within a statement, and means nothing beyond: that each unit has one row, so that nothing is
chosen by it, is required of each block (:attr:`Relation.may_repeat_units`). Checked by
``tests/sql/test_row_units.py``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from dpsql.core.periods import Period
from dpsql.core.schema import Column, Schema, Table, fold
from dpsql.core.sql_types import VARCHAR
from dpsql.core.table_name import TableName, only_namesake
from dpsql.errors import UnknownName
from dpsql.ir.relations import (
    Computed,
    EachRow,
    Extend,
    PublicSource,
    PublicTable,
    PublishedView,
    RowSet,
    Scan,
    Typed,
    ViewScan,
)
from dpsql.policy.model import ROW_PROMISE, Link, Policy, PrivacyUnit, TablePolicy
from dpsql.sql.lineage.names import generated_column
from dpsql.sql.lineage.relation import (
    Field,
    Identity,
    LinkedKey,
    Origin,
    Origins,
    Pending,
    Relation,
)
from dpsql.sql.lineage.table_names import is_qualified, name_of
from dpsql.syntax.parse import place_of


@dataclass(frozen=True, slots=True)
class Cte:
    """A CTE: whether it reads private rows, its rows (None for an aggregated one) and its query.

    The query is None where it cannot be asked alone.
    """

    private: bool
    read: Callable[[], Relation | None]
    query: exp.Query | None = None


Scope: TypeAlias = Mapping[str, Cte]
"""The CTEs in scope, by folded name."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table in a statement, with its policy and columns.

    ``public`` says where the rows of a public table come from; None for private ones.
    """

    policy: TablePolicy
    table: Table
    public: PublicSource | None


class Tables:
    """The tables of the policy, as the schema has them, and public ones ``beside`` these.

    What the policy lists comes first: it hides a materialized view of its name. Of private tables
    whose types alone are shown, nothing else is known.
    """

    def __init__(
        self, policy: Policy, schema: Schema, text: str, beside: Sequence[PublicSource] = ()
    ) -> None:
        self._policy = policy
        self._schema = schema
        self._text = text
        self._views = [view for view in beside if isinstance(view, PublishedView)]
        self._meant = {
            source.table.name.key: NamedTable(
                TablePolicy(source.table.name, None), source.table, source
            )
            for source in beside
            if source not in self._views or policy.table(source.table.name) is None
        }
        links = {t.name.key: t.link for t in policy.tables.values() if t.link is not None}
        self._parents = {origins_of(link.parent, link.key) for link in links.values()}
        self._shared = {
            origins_of(link.parent, link.key)
            for table in policy.tables.values()
            for link in table.unit_links
        }
        self._referred = {origin for key in self._parents for origin in key}
        # What decides alone whose row it is: not a part of a key, nor a second person that a row
        # names. Between tables with units of their own that is a promise, and the unit stands
        # beside it wherever rows are grouped.
        promised = [
            (table.name.key, link)
            for table in policy.tables.values()
            for link in table.unit_links
            if not policy.refers_to_unit(link)
        ]
        every = [link for link in (*links.items(), *promised) if len(link[1].columns) == 1]
        self.link_keys: frozenset[Origin] = frozenset(
            {origin for _, link in every for origin in origins_of(link.parent, link.key)}
            | {(name, fold(column)) for name, link in every for column in link.columns}
        )
        self.most_joined = policy.limits.private_relations

    def named(self, source: exp.Table) -> NamedTable | None:
        """Return the table of a FROM clause; None for an unlisted one or a CTE."""
        name = name_of(source)
        return None if name is None else self.of_name(name)

    def of_name(self, name: TableName) -> NamedTable | None:
        """Return the table of a name; None for an unlisted one."""
        if name.key not in self._meant:
            policy = self._policy.table(name)
            if policy is None:
                return None
            table = self._schema[name.key]
            public = PublicTable(table) if policy.public else None
            self._meant[name.key] = NamedTable(policy, table, public)
        return self._meant[name.key]

    def unknown(self, table: exp.Table) -> UnknownName:
        """Build the error for a table that the policy does not list."""
        names = (*self._policy.names, *(view.table.name for view in self._views))
        close = _likely(name_of(table) or TableName(table.name), names)
        known = ", ".join(sorted(map(str, names)))
        hint = f"Tables: {known}." if close is None else f"Did you mean {close}?"
        return UnknownName(
            f"there is no table {'.'.join(part.name for part in table.parts)[:80]}",
            code="unknown_table",
            place=place_of(self._text, table),
            hint=hint,
        )

    def rows(self, named: NamedTable) -> Relation:
        """Return the rows of a table, as it stands in the schema."""
        policy, table, name = named.policy, named.table, named.table.name.key
        unit, pending = None, None
        scan = ViewScan if isinstance(named.public, PublishedView) else Scan
        rows: RowSet = scan(Table(table.name, table.columns))
        who: str | None = None  # which column only says whose row it is once the period is known
        if policy.privacy_unit is not None and policy.privacy_unit.is_row:
            unit = _free(table, ROW_PROMISE)
            rows = EachRow(rows, unit)
        elif policy.privacy_unit is not None:
            unit = _spelled(table, policy.privacy_unit.column)
            if policy.privacy_unit.per is not None:
                who = unit
                rows, unit = per_period(rows, table, policy.privacy_unit)
        links = policy.unit_links
        if policy.link is not None:
            links = (*links, policy.link)
            referring = self._referring(table, policy.link)
            if self._policy.refers_to_unit(policy.link):
                (unit,) = referring.columns
            else:
                pending = Pending(referring.columns, referring.of)
        fields = tuple(
            Field(
                qualifier=fold(policy.name.table),
                name=c.name,
                column=c.name,
                type=c.type,
                policy=policy.column(c.name),
                origin=(name, fold(c.name)),
                identity=_identity(c.name, unit, who),
                single=c.name in (unit, who) or _declared_single(policy, c.name),
                enumerated=c.enumerated,
            )
            for c in table.columns
            if not c.collated
        )
        return Relation(
            rows=rows,
            fields=fields,
            unit_name=self._policy.unit_name(policy),
            unit=unit,
            pending=pending,
            tables=() if policy.public else (table.name,),
            joined=0 if policy.public else 1,
            unique=tuple(
                frozenset(_spelled(table, name) for name in names) for names in policy.unique
            ),
            parents=tuple(key for key in self._own(table, self._parents) if len(key.of) > 1),
            shared=(
                *self._own(table, self._parents | self._shared),
                *(self._referring(table, link) for link in links),
            ),
        ).of_rows_per_unit(1 if isinstance(rows, EachRow) else policy.rows_per_unit)

    def _referring(self, table: Table, link: Link) -> LinkedKey:
        """Return the columns of a table that a link compares, in the order of the parent's key."""
        of = {fold(parent): column for column, parent in link.pairs}
        columns = tuple(_spelled(table, of[name]) for name in link.key)
        return LinkedKey(columns, origins_of(link.parent, link.key))

    def _own(self, table: Table, keys: Collection[Origins]) -> list[LinkedKey]:
        """List those of the keys that are a table's own."""
        found = sorted(key for key in keys if key[0][0] == table.name.key)
        return [LinkedKey(tuple(_spelled(table, name) for _, name in key), key) for key in found]

    def parent_rows(self, pending: Pending) -> Relation:
        """Return the rows of the table that a link leads to."""
        parent = self._policy.tables.get(pending.parent[0][0])
        found = None if parent is None else self.of_name(parent.name)
        assert found is not None, "links are checked when the policy is made"
        return self.rows(found)

    def is_referred(self, field: Field) -> bool:
        """Tell whether links of other tables refer to a column."""
        return field.origin in self._referred

    def is_key(self, field: Field) -> bool:
        """Tell whether links of other tables refer to a column alone: no two rows share it."""
        return field.origin is not None and (field.origin,) in self._parents

    def may_be_private(self, source: exp.Expr, scope: Scope) -> bool:
        """Tell whether ``source`` has a private table whose rows could come through."""
        joins = source.args.get("joins") or ()
        if isinstance(source, exp.Query) and source.args.get("with_"):
            scope = self._suspected(source, scope)
        if isinstance(source, exp.Table):
            if not is_qualified(source) and fold(source.name) in scope:
                found = scope[fold(source.name)].private
            else:
                table = self.named(source)
                found = table is not None and table.public is None
        elif isinstance(source, exp.Subquery):
            found = self.may_be_private(source.this, scope)
        elif isinstance(source, exp.SetOperation):
            sides = (source.this, source.expression)
            found = any(self.may_be_private(side, scope) for side in sides)
        elif isinstance(source, exp.Select):
            from_ = source.args.get("from_")
            found = from_ is not None and self.may_be_private(from_.this, scope)
        else:
            return False
        return found or any(self.may_be_private(join.this, scope) for join in joins)

    def _suspected(self, query: exp.Query, scope: Scope) -> Scope:
        """Return the scope inside a query, its CTEs taken for private where they may be."""
        inner = dict(scope)
        for cte in query.ctes:
            suspect = self.may_be_private(cte.this, inner)
            inner[fold(cte.alias)] = Cte(suspect, lambda: None)
        return inner


def origins_of(table: TableName, names: Sequence[str]) -> Origins:
    """Return the columns of a table by their folded names."""
    return tuple((table.key, name) for name in names)


def _likely(name: TableName, known: Sequence[TableName]) -> str | None:
    """Suggest the table that was meant: the same name in another schema, or a similar name."""
    namesake = only_namesake(name, known)
    if namesake is not None:
        return str(namesake)
    return next(iter(difflib.get_close_matches(str(name), map(str, known), n=1)), None)


def _declared_single(policy: TablePolicy, name: str) -> bool:
    known = policy.column(name)
    return known is not None and known.one_per_unit


def _identity(column: str, unit: str | None, who: str | None) -> Identity:
    """Find the relation of a table's column to the unit of its row."""
    if column == unit:
        return Identity.UNIT
    return Identity.DERIVED if column == who else Identity.NONE


def _spelled(table: Table, name: str) -> str:
    """Spell a column's name as the catalog does."""
    column = table.column(name)
    assert column is not None, "the policy is checked against the schema first"
    return column.name


def _free(table: Table, name: str) -> str:
    """Return a name beside the columns of a table, the given one if it is free."""
    while table.column(name) is not None:
        name += "_"
    return name


_DAY: Final = 86_400
_MINUTE: Final = 60


def per_period(rows: RowSet, table: Table, unit: PrivacyUnit) -> tuple[RowSet, str]:
    """Add to rows of a table the column that names their unit and period.

    Returns the rows and the column's name, which says in words what a unit is. The columns of the
    unit are those of the table, of types of which each value has one text and one period.
    """
    assert unit.per is not None
    who, when = table.column(unit.column), table.column(unit.per.column)
    assert who is not None, "the policy is checked against the schema first"
    assert when is not None, "the policy is checked against the schema first"
    name = _free(table, unit.words)
    user = exp.cast(generated_column(who.name), exp.DType.VARCHAR)
    number = exp.cast(_period_number(when, unit.per.every), exp.DType.VARCHAR)
    start = exp.DPipe(this=number, expression=exp.Literal.string(":"))
    made = Extend(rows, (Computed(name, exp.DPipe(this=start, expression=user)),))
    return Typed(made, (Column(name, VARCHAR),)), name


def _period_number(when: Column, every: Period) -> exp.Expr:
    """Count from 1970 to the start of a row's period, in months, days or minutes."""
    day = exp.cast(generated_column(when.name), exp.DType.DATE)
    if every.months:
        return _floor(_since(day, "MONTH"), every.months)
    days = _since(day, "DAY")
    if every.whole_days:
        return _floor(days, every.seconds // _DAY)
    minutes = _product(days, _DAY // _MINUTE)
    if when.type.kind != "DATE":
        hours = _product(exp.Hour(this=generated_column(when.name)), 60)
        minutes = _sum(minutes, _sum(hours, exp.Minute(this=generated_column(when.name))))
    return _floor(minutes, every.seconds // _MINUTE)


def _since(day: exp.Expr, unit: str) -> exp.Expr:
    """Count the calendar's units that begin after 1970-01-01 and up to a day; NULL if infinite."""
    epoch = exp.cast(exp.Literal.string("1970-01-01"), exp.DType.DATE)
    return exp.DateDiff(this=day, expression=epoch, unit=exp.var(unit))


def _floor(number: exp.Expr, step: int) -> exp.Expr:
    """Return the largest multiple of a step that is not above a whole number."""
    if step == 1:
        return number
    rest = _mod(_sum(_mod(number, step), exp.Literal.number(step)), step)
    return exp.Paren(this=exp.Sub(this=exp.Paren(this=number.copy()), expression=rest))


def _mod(number: exp.Expr, step: int) -> exp.Expr:
    of = exp.Paren(this=number.copy())
    return exp.Paren(this=exp.Mod(this=of, expression=exp.Literal.number(step)))


def _product(number: exp.Expr, factor: int) -> exp.Expr:
    return exp.Paren(this=exp.Mul(this=number, expression=exp.Literal.number(factor)))


def _sum(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=one, expression=other))
