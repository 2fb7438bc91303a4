"""Makes the domain of keys of which public facts say all values there can be.

``WHERE name IN ('a', 'b') GROUP BY name`` can have two groups, and ``GROUP BY month(d)`` twelve and
one for NULL, whatever the rows are. So no threshold has to hide which of them exist. The sources of
a key's values are, in this order:

* the conditions of the statement on the key (``sql.expressions.values_left``);
* the values that its expression has for those that the conditions leave of its only column, or
  that are declared of it, computed by the twin of the engine, which has no rows of the owner's;
* the form of its expression (``sql.expressions.finite_values``);
* the rows of a public table that it comes from, or that a join or an IN compares it with;
* the declared bounds of the numbers in it. Rows outside of these are in no group, as are those
  whose declared key has another value.

NULL is left out where no row that is read can have it: rows without a unit are not, conditions
exclude it, and what is computed of such columns mostly has a value, too.

Each is a function of the statement, the policy, the types of columns and public tables: of nothing
that a private row could change. Tests take units away and compare
(``tests/pipeline/test_public_keys.py``). Keys are made where all of a block's are known then,
something is measured, there are not too many groups, and no two keys have something in common; else
they are found by discovery as if nothing were known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Final

from sqlglot import exp

from dpsql.accuracy.wording import enumerated
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, Table
from dpsql.core.sql import Sql, join, name, sql
from dpsql.core.sql_types import BIGINT, SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.base.engine import Engine
from dpsql.engines.dialects import TWIN
from dpsql.errors import QueryRefused
from dpsql.ir.query import (
    DECLARED_BOUNDS,
    DECLARED_VALUES,
    OF_CASE,
    OF_PUBLIC_ROWS,
    Block,
    Follower,
    Key,
)
from dpsql.ir.relations import NumberedRows, RowSet
from dpsql.pipeline.column_origins import (
    ColumnBehind,
    KeyCondition,
    RelationPath,
    bases_of,
    columns_behind,
    conditions_on,
    definition_of,
)
from dpsql.pipeline.known_keys import constant_of, satisfying
from dpsql.pipeline.public_rows import PublicRows, public_rows
from dpsql.pipeline.tail.public_tables import PublicTables, values_of
from dpsql.policy.model import ColumnPolicy, Policy
from dpsql.privacy.mechanisms.registry import KNOWN_DOMAIN, KNOWN_DOMAIN_TOP_K
from dpsql.sql.blocks.followers import followers_of
from dpsql.sql.expressions.enum_order import is_enumerated
from dpsql.sql.expressions.finite_values import NOTHING_DECLARED, finite_values, whole_values
from dpsql.sql.expressions.totality import total_condition_sql, total_sql
from dpsql.sql.expressions.values_left import (
    EVERYTHING,
    Left,
    WholeSpan,
    as_value,
    met,
    values_in,
    values_left,
)
from dpsql.sql.relations.from_clause import from_clause
from dpsql.syntax.arguments import extracted_part
from dpsql.syntax.row_functions import DAYS, MONTHS, PARTS, ROW_FUNCTIONS
from dpsql.syntax.text import output_name

MOST_GROUPS: Final = 1_000
"""Groups that are made: noise depends on how many a unit counts in, which is given or drawn."""
_MOST_UNLIMITED: Final = 100
"""Groups that are made where a unit counts in all of them, by the wish of whoever asks."""
OF_KNOWN: Final = (None, KNOWN_DOMAIN.name, KNOWN_DOMAIN_TOP_K.name)
"""Mechanisms of known keys, and none, which is to be chosen."""
_MOST_POINTS: Final = 20_000
"""Values of a column for which an expression of it is computed."""
_HOUR: Final = 3_600_000_000
_DAY: Final = 24 * _HOUR
_DAYS_AND_MORE: Final = frozenset(
    (
        *("day", "week", "isoyear", "month", "quarter", "year", "dayofyear", "dayofweek", "isodow"),
        *("dayname", "monthname"),
    )
)
# What a part of a moment tells of it, and what is left of a moment that is cut off after a part.
_OF_MOMENTS: Final = ("year", "month", "day", "weekday", "hour", "minute", "second")
_ALL_TOLD: Final = frozenset(_OF_MOMENTS)
_TOLD: Final[Mapping[str, frozenset[str]]] = {
    **{part: frozenset((part,)) for part in _OF_MOMENTS if part != "weekday"},
    "quarter": frozenset(("month",)),
    # Not all months have all days.
    **dict.fromkeys(("month", "monthname", "week", "dayofyear"), frozenset(("month", "day"))),
    **dict.fromkeys(("dayofweek", "isodow", "dayname"), frozenset(("weekday",))),
}
_TOLD_BY_CUTS: Final[Mapping[str, frozenset[str]]] = {
    "year": frozenset(_OF_MOMENTS[:1]),
    **dict.fromkeys(("quarter", "month"), frozenset(_OF_MOMENTS[:2])),
    "week": frozenset(_OF_MOMENTS[:3]),
    "day": frozenset(_OF_MOMENTS[:4]),
    "hour": frozenset(_OF_MOMENTS[:5]),
}
# Names of days and months by numbers: what is computed of the values of a column is a number.
_NUMBERED: Final[Mapping[type[exp.Expr], tuple[type[exp.Expr], Mapping[object, str]]]] = {
    exp.Dayname: (exp.DayOfWeek, dict(enumerate(DAYS))),
    exp.Monthname: (exp.Month, dict(enumerate(MONTHS, 1))),
}
_WRITTEN: Final[Mapping[str, Callable[[Sql], Sql]]] = {
    "DATE": lambda whole: sql("DATE '1970-01-01' + CAST({} AS INTEGER)", whole),
    "TIMESTAMP": lambda whole: sql("make_timestamp({})", whole),
}
_KEY: Final = f"{INTERNAL_PREFIX}key"
_KINDS: Final = ("BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP")
_INFINITE: Final = 2**63 - 1
# Values as whole numbers, and whole numbers as values; infinite moments are beyond those of Python.
_CODES: Final[Mapping[str, Callable[[Sql], Sql]]] = {
    "BOOLEAN": lambda value: sql("CAST({} AS INTEGER)", value),
    "DATE": lambda value: _finite_or(sql("date_diff('day', DATE '1970-01-01', {})", value), value),
    "TIMESTAMP": lambda value: _finite_or(sql("epoch_us({})", value), value),
}


def with_keys_made(
    block: Block,
    engine: Engine,
    dialect: Dialect,
    policy: Policy,
    public: PublicTables,
    mechanism: str | None = None,
) -> Block:
    """Return the block with the domains of keys that public facts give.

    ``dialect`` is that of the engine, in which the keys are going to be computed. Who asks for a
    ``mechanism`` that discovers keys has them discovered.
    """
    if block.known_domain or not (block.measures or block.quantiles):
        return block
    if (block.mechanism or mechanism) not in OF_KNOWN:
        return block
    source = block.source
    declared = {
        key.expression.name: key.domain
        for key in source.declared
        if isinstance(key.expression, exp.Column) and key.domain is not None
    }
    maker = _Maker(
        *(source.rows, block.condition, source.table, source.bounds, declared, block.unit_column),
        *(engine, dialect, policy, public),
    )
    together, followers = maker.together(block.keys)
    keys = tuple(
        maker.made(key) if key.domain is None else key
        for place, key in enumerate(together)
        if place not in {each.place for each in followers}
    )
    sizes = [len(key.domain or ()) for key in keys]
    fits = 0 < math.prod(sizes) <= most_groups(block) and not maker.overlap(keys)
    return replace(block, keys=keys, followers=followers) if fits else block


def most_groups(block: Block) -> int:
    """Return how many groups are made for a block."""
    unlimited = not block.parameters.automatic and block.parameters.groups_limit is None
    return _MOST_UNLIMITED if unlimited else MOST_GROUPS


def is_known_type(type_: SqlType, dialect: Dialect) -> bool:
    """Tell whether values of a type can be listed: its equal values look alike, on the engine."""
    try:
        dialect.declared(0, type_)
    except QueryRefused:  # the engine has no such type
        return False
    return type_.kind in _KINDS or type_.is_integer


def is_public(policy: Policy, table: Table) -> bool:
    """Tell whether the policy lists a table as public."""
    found = policy.table(table.name)
    return found is not None and found.public


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes domains of keys over rows that fulfil a condition.

    ``bounds`` are those that the policy declares of columns, ``declared`` all their values. The
    ``unit`` is a column that is not NULL in any of the rows; empty where that is not known.
    """

    rows: RowSet
    condition: exp.Expr | None
    table: Table
    bounds: tuple[tuple[str, ColumnPolicy], ...]
    declared: Mapping[str, tuple[object, ...]]
    unit: str
    engine: Engine
    dialect: Dialect
    policy: Policy
    public: PublicTables

    def made(self, key: Key) -> Key:
        """Return a key with its values and their origin, or as it is if they are not known.

        So it is where they cannot be computed: an expression that the engine does not take is
        refused when it is examined, and any other can be computed of the rows.
        """
        try:
            return self._made(key)
        except (QueryRefused, OverflowError):  # a moment may be too late for Python
            return key

    def _made(self, key: Key) -> Key:
        node = key.expression
        type_ = self._type(node)
        if type_ is None:
            return key
        conditions = list(self._conditions(node))
        for origin, values in self._sources(node, type_):
            if values is not None:
                left = self._fulfilling(values, type_, conditions)
                return replace(key, domain=left, origin=origin, type=type_)
        return key

    def _type(self, node: exp.Expr) -> SqlType | None:
        """Find the type of a key; None for types whose equal values may be spelled differently."""
        column = self.table.column(node.name) if isinstance(node, exp.Column) else None
        if column is None:
            rows = from_clause(self.rows, TWIN)
            written = total_sql(node, self.table, TWIN)
            column = self.engine.bind(sql("SELECT {} FROM {}", written, rows))[0]
        known = is_known_type(column.type, self.dialect) and not column.collated
        return column.type if known else None

    def _conditions(self, node: exp.Expr) -> Iterator[KeyCondition]:
        """Yield the conditions on a key; where it is an expression, on ``_KEY`` for it."""
        if isinstance(node, exp.Column):
            yield from conditions_on(self.condition, self.rows, node.name)
        elif self.condition is not None:
            stands = exp.column(_KEY)
            of_key = self.condition.transform(lambda n: stands.copy() if n == node else n)
            yield from conditions_on(of_key, self.rows, _KEY)

    def _sources(
        self, node: exp.Expr, type_: SqlType
    ) -> Iterator[tuple[str, tuple[object, ...] | None]]:
        """Yield the values of a key by each source, and None where a source says nothing."""
        yield "the conditions on it", self._conditioned(type_, list(self._conditions(node)))
        if isinstance(node, exp.Column):
            yield from self._public(node, type_)
            yield from self._defined(node, type_)
            if type_.kind == "BOOLEAN":
                yield "its type BOOLEAN", self._finite(node)
            return
        column = self._only_column(node)
        if column is not None and (type_.kind != "VARCHAR" or type(node) in _NUMBERED):
            left = self._span(exp.column(column.name))
            known = self._declared(column)
            origin = "the conditions on its column" if known == EVERYTHING else DECLARED_VALUES
            yield origin, self._computed(node, column, type_, met(left, known))
        yield from self._public(node, type_)
        yield _form(node, type_), self._finite(node)
        yield DECLARED_BOUNDS, self._bounded(node)

    def _public(
        self, node: exp.Expr, type_: SqlType
    ) -> Iterator[tuple[str, tuple[object, ...] | None]]:
        """Yield the values of a key in the rows of public tables that its columns are behind."""
        names = sorted({column.name for column in node.find_all(exp.Column)})
        for behind in product(*map(self._behind, names)) if names else ():
            found = self._computed_of(dict(zip(names, behind, strict=True)), [(node, type_)])
            if found is not None:
                rows, origin = found
                yield origin, values_of((value for (value,) in rows), type_)

    def _behind(self, column: str) -> Iterator[ColumnBehind]:
        """Yield the columns of public tables that the values of a column are among."""
        own = self.table.column(column)
        for found in columns_behind(self.rows, column):
            held = found.table.column(found.column)
            if held is None or own is None or held.type != own.type or held.collated:
                continue
            if is_public(self.policy, found.table):
                yield found

    def _computed_of(
        self, behind: Mapping[str, ColumnBehind], nodes: Sequence[tuple[exp.Expr, SqlType]]
    ) -> tuple[Sequence[tuple[object, ...]], str] | None:
        """Have the engine compute expressions, with their types, of the public rows behind columns.

        Also tells where the rows are from. None where these are not of tables that conditions join,
        or may be missing one without another, or where something may fail on a row: then there were
        groups that the statement excludes.
        """
        first, *others = behind.values()
        joined = self._joined(first)
        if joined is None or not all(each.path in joined.tables for each in others):
            return None
        nulled = any(each.nulled for each in behind.values())
        if nulled and any(each.path != first.path for each in others):
            return None
        table = Table("joined", joined.rows.columns)
        values = [joined.over(node, behind) for node, _ in nodes]
        totals = [
            *(total_sql(value, table, TWIN) for value in values),
            *(total_condition_sql(each, table, TWIN) for each in joined.conditions),
        ]
        if self.engine.examine(from_clause(joined.pairs, TWIN), totals).objection is not None:
            return None
        sources = [from_clause(joined.rows, self.dialect)]
        if nulled:
            nulls = (
                sql("{} AS {}", self.dialect.cast(sql("NULL"), each.type), name(each.name))
                for each in table.columns
            )
            missing = sql("SELECT {} FROM {}", join(", ", nulls), sources[0])
            sources.append(self.dialect.derived(missing))
        columns = [Column(f"{_KEY}{place}", type_) for place, (_, type_) in enumerate(nodes)]
        selected = [
            sql("{} AS {}", total_sql(value, table, self.dialect), name(column.name))
            for value, column in zip(values, columns, strict=True)
        ]
        tables = [each.name for each in joined.tables.values()]
        found: dict[tuple[object, ...], None] = {}
        for source in sources:
            statement = sql("SELECT DISTINCT {} FROM {}", join(", ", selected), source)
            rows = self.public.found(tables, statement, columns, MOST_GROUPS)
            if not rows:  # too many, or none: then nothing tells the values of a row of NULLs
                return None
            found |= dict.fromkeys(rows)
        return [*found], f"{OF_PUBLIC_ROWS} of {enumerated([*dict.fromkeys(map(str, tables))])}"

    def _joined(self, found: ColumnBehind) -> PublicRows | None:
        return public_rows(
            self.rows, self.condition, found, lambda table: is_public(self.policy, table)
        )

    def together(self, keys: Sequence[Key]) -> tuple[Sequence[Key], tuple[Follower, ...]]:
        """Return keys, and as followers those that another of their public table decides."""
        behind: dict[frozenset[RelationPath], dict[int, ColumnBehind]] = {}
        for place, key in enumerate(keys):
            node = key.expression
            if isinstance(node, exp.Column) and key.domain is None and not is_enumerated(node):
                for found in self._behind(node.name):
                    joined = self._joined(found)
                    if joined is not None:
                        behind.setdefault(frozenset(joined.tables), {}).setdefault(place, found)
        made, followers = list(keys), dict[int, Follower]()
        done: set[int] = set()
        for columns in behind.values():
            left = {place: each for place, each in columns.items() if place not in done}
            try:
                known = self._of_joined(keys, left) if len(left) > 1 else ()
            except (QueryRefused, OverflowError):  # as in made
                continue
            for place, one in known:
                done.add(place)
                if isinstance(one, Key):
                    made[place] = one
                else:
                    followers[place] = one
        return made, tuple(followers[place] for place in sorted(followers))

    def _of_joined(
        self, keys: Sequence[Key], columns: Mapping[int, ColumnBehind]
    ) -> Sequence[tuple[int, Key | Follower]]:
        """Make keys of the columns of public tables, if one decides all others; else none."""
        places, nodes = list(columns), [keys[place].expression for place in columns]
        types = [self._type(node) for node in nodes]
        typed = [(node, t) for node, t in zip(nodes, types, strict=True) if t is not None]
        behind = {node.name: each for node, each in zip(nodes, columns.values(), strict=True)}
        if len(typed) < len(nodes) or len({each.nulled for each in columns.values()}) > 1:
            return ()
        found = self._computed_of(behind, typed)
        if found is None:
            return ()
        rows, origin = found
        decided = dict(followers_of(rows)) if rows else {}
        if len(decided) < len(places) - 1:
            return ()
        (by,) = set(range(len(places))) - decided.keys()
        known = [
            values_of(column, type_)
            for column, type_ in zip(zip(*rows, strict=True), types, strict=True)
            if type_ is not None
        ]
        values, type_ = known[by], types[by]
        if None in known or values is None or type_ is None:
            return ()
        left = self._fulfilling(values, type_, list(self._conditions(nodes[by])))
        key = replace(keys[places[by]], domain=left, origin=origin, type=type_)
        pairs = ((i, tuple(dict.fromkeys((row[by], row[i]) for row in rows))) for i in decided)
        followers = (
            (places[i], Follower(places[i], places[by], type_of, given))
            for i, given in pairs
            if (type_of := types[i]) is not None
        )
        return [(places[by], key), *followers]

    def overlap(self, keys: Sequence[Key]) -> bool:
        """Tell whether keys have something in common, so that some pairs of values cannot be.

        As a month and its quarter have, or two columns of a public table; not so an hour and a day
        of the week.
        """
        several = [key for key in keys if len(key.domain or ()) > 1]
        sharing: list[list[Key]] = []
        for key in several:
            alike = [each for each in sharing if any(self._share(key, one) for one in each)]
            sharing = [each for each in sharing if each not in alike]
            sharing.append([*chain.from_iterable(alike), key])
        return not all(len(each) == 1 or self._are_apart(each) for each in sharing)

    def _share(self, one: Key, other: Key) -> bool:
        """Tell whether two keys, not both of declared values, depend on the same."""
        made = bool(one.origin or other.origin)
        return made and bool(self._marks(one) & self._marks(other))

    def _marks(self, key: Key) -> set[object]:
        """Collect what a key depends on: columns at the bottom, and public tables as a whole."""
        marks: set[object] = set()
        node = key.expression
        for base in bases_of(self.rows, node):
            marks.add((base.path, base.column))
            if base.table is not None and is_public(self.policy, base.table):
                marks.add(base.path)
        behind = columns_behind(self.rows, node.name) if isinstance(node, exp.Column) else ()
        return marks | {found.path for found in behind if is_public(self.policy, found.table)}

    def _are_apart(self, keys: Sequence[Key]) -> bool:
        """Tell whether keys are parts of one moment, all of whose values meet there.

        All together: each two of a quarter, a day of the month and a day of the week meet within
        two years, and all three of them do not.
        """
        (rows, _), *others = computed = [self._where_computed(key) for key in keys]
        nodes = [node for _, node in computed]
        columns = {each._only_column(node) for each, node in computed}
        column = columns.pop()
        if columns or column is None or any(each.rows != rows.rows for each, _ in others):
            return False
        if any(parts_told(one) & parts_told(other) for one, other in combinations(nodes, 2)):
            return False
        left = rows._span(exp.column(column.name))
        if left == EVERYTHING:
            return True
        points = _points(left, exp.Tuple(expressions=[node.copy() for node in nodes]), column)
        if points is None:
            return False
        table = Table("points", (column,))
        named = [(name(f"part{place}"), node) for place, node in enumerate(nodes)]
        whole = sql(
            "SELECT CAST(count(*) = {} AS INTEGER) "
            "FROM (SELECT DISTINCT {} FROM ({}) AS points) AS met",
            join(" * ", [sql("count(DISTINCT {})", own) for own, _ in named]),
            join(", ", [sql("{} AS {}", total_sql(n, table, TWIN), own) for own, n in named]),
            points,
        )
        return self.engine.compute_constants(whole) == [1]

    def _where_computed(self, key: Key) -> tuple[_Maker, exp.Expr]:
        """Return a key's expression over columns, and the rows that it is computed of."""
        node = key.expression
        found = definition_of(self.rows, node.name) if isinstance(node, exp.Column) else None
        return (self, node) if found is None else (self._below(found.rows), found.expression)

    def _below(self, rows: RowSet) -> _Maker:
        """Return what makes keys of the rows of a subquery."""
        table = Table("rows", rows.columns)
        return replace(
            self, rows=rows, condition=None, table=table, bounds=(), declared={}, unit=""
        )

    def _defined(
        self, node: exp.Column, type_: SqlType
    ) -> Iterator[tuple[str, tuple[object, ...] | None]]:
        """Yield the values of the expression that computes a column in a subquery."""
        found = definition_of(self.rows, node.name)
        if found is None:
            return
        for origin, values in self._below(found.rows)._sources(found.expression, type_):
            null = values is not None and found.nulled and None not in values
            yield origin, (*values, None) if values is not None and null else values

    def _conditioned(
        self, type_: SqlType, conditions: Sequence[KeyCondition]
    ) -> tuple[object, ...] | None:
        """List the values of a key under its conditions, NULL last if it is among them."""
        left = _left(conditions, type_)
        values = None if left == EVERYTHING else values_in(left, MOST_GROUPS)
        if values is None:
            return None
        found = tuple(as_value(v, type_) if isinstance(v, int) else v for v in values)
        above = _left([each for each in conditions if each.always], type_)
        return found if above != EVERYTHING else (*found, None)

    def _finite(self, node: exp.Expr) -> tuple[object, ...] | None:
        valued, finite = self._known(node)
        return finite_values(node, self.table, self.dialect, MOST_GROUPS, valued, finite)

    def _bounded(self, node: exp.Expr) -> tuple[object, ...] | None:
        """List the whole numbers between what declared bounds make of an expression."""
        policy = replace(NOTHING_DECLARED, columns=dict(self.bounds))
        return whole_values(node, self.table, policy, MOST_GROUPS, *self._known(node))

    def _known(self, node: exp.Expr) -> tuple[frozenset[str], frozenset[str]]:
        """Return the columns of an expression without NULL, and those of finite moments alone."""
        spans = {column.name: self._span(column) for column in node.find_all(exp.Column)}
        valued = (c for c, left in spans.items() if left != EVERYTHING or self._is_valued(c))
        finite = (c for c, left in spans.items() if self._is_moment(c) and _has_ends(left))
        return frozenset(valued), frozenset(finite)

    def _is_moment(self, column: str) -> bool:
        own = self.table.column(column)
        return own is not None and own.type.kind in _WRITTEN

    def _is_valued(self, column: str) -> bool:
        """Tell whether a column is the unit's, or a condition says that it is not NULL."""
        if column == self.unit:
            return True
        found = (
            each.condition
            for each in conditions_on(self.condition, self.rows, column)
            if each.always and each.alone
        )
        return any(
            isinstance(each, exp.Not)
            and isinstance(each.this.unnest(), exp.Is)
            and isinstance(each.this.unnest().this.unnest(), exp.Column)
            and isinstance(each.this.unnest().expression, exp.Null)
            for each in found
        )

    def _declared(self, column: Column) -> Left:
        """Return the declared values of a column, of whole numbers and texts."""
        values = self.declared.get(column.name)
        kind: type = int if column.type.is_integer else str
        known = column.type.is_integer or column.type.kind == "VARCHAR"
        if values is None or not known or not all(type(value) is kind for value in values):
            return EVERYTHING
        return frozenset(values)

    def _span(self, column: exp.Column) -> Left:
        """Return the values of a column that the conditions on it leave on every row."""
        known = self.table.column(column.name)
        if known is None:
            return EVERYTHING
        if isinstance(self.rows, NumberedRows):
            return WholeSpan(1, self.rows.count)
        found = [
            each for each in conditions_on(self.condition, self.rows, column.name) if each.always
        ]
        return _left(found, known.type)

    def _only_column(self, node: exp.Expr) -> Column | None:
        names = {column.name for column in node.find_all(exp.Column)}
        return self.table.column(names.pop()) if len(names) == 1 else None

    def _computed(
        self, node: exp.Expr, column: Column, type_: SqlType, left: Left
    ) -> tuple[object, ...] | None:
        """Compute an expression for all values that are left of its only column."""
        numbered = _NUMBERED.get(type(node))
        if numbered is not None:
            number, names = numbered
            numbers = self._computed(number(this=node.this.copy()), column, BIGINT, left)
            return None if numbers is None else tuple(map(names.get, numbers))
        points = _points(left, node, column)
        if points is None:
            return None
        key = name(_KEY)
        written = total_sql(node, Table("points", (column,)), TWIN)
        values = sql("SELECT DISTINCT {} AS {} FROM ({}) AS points", written, key, points)
        code = whole_number_of(key, type_)
        found = self.engine.compute_constants(sql("SELECT {} FROM ({}) AS v", code, values))
        known = sorted(value for value in found if value is not None)
        made = tuple(as_value(value, type_) for value in known)
        return made if len(known) == len(found) else (*made, None)

    def _fulfilling(
        self, values: tuple[object, ...], type_: SqlType, conditions: Sequence[KeyCondition]
    ) -> tuple[object, ...]:
        """Keep the values that fulfil the conditions on a key; of NULL, those of all rows count."""
        known = tuple(value for value in values if value is not None)
        places: Sequence[int] = range(len(known))
        empty = len(known) < len(values)
        for each in (condition for condition in conditions if condition.alone):
            column = Column(each.column, type_)
            places = satisfying(known, places, column, each.condition, self.engine)
            if empty and each.always:
                empty = bool(satisfying((None,), (0,), column, each.condition, self.engine))
        left = tuple(known[place] for place in places)
        return (*left, None) if empty else left


def _left(conditions: Sequence[KeyCondition], type_: SqlType) -> Left:
    left: Left = EVERYTHING
    for each in conditions:
        left = met(left, values_left(each.condition, each.column, type_))
    return left


def _has_ends(left: Left) -> bool:
    """Tell whether values are listed, or between two ends: then none is an infinite moment."""
    if not isinstance(left, WholeSpan):
        return True
    return math.isfinite(left.low) and math.isfinite(left.high)


def whole_number_of(value: Sql, type_: SqlType) -> Sql:
    """Write the whole number that stands for a value of a type."""
    return _CODES.get(type_.kind, _as_it_is)(value)


def _as_it_is(value: Sql) -> Sql:
    return value


def _finite_or(code: Sql, value: Sql) -> Sql:
    """Write a moment's number, which the engine's functions have none of for infinite ones."""
    return sql("CASE WHEN isfinite({}) IS FALSE THEN {} ELSE {} END", value, _INFINITE, code)


def _form(node: exp.Expr, type_: SqlType) -> str:
    """Name what the values of an expression follow from."""
    if type_.kind == "BOOLEAN":
        return "its truth values"
    if isinstance(node, exp.Case | exp.If):
        typed = output_name(node).partition("(")[0]
        return f"{typed}()" if typed == exp.WidthBucket.sql_name().lower() else OF_CASE
    word = node.sql_name().lower() if isinstance(node, exp.Func) else ""
    return f"{word}()" if type(node) in ROW_FUNCTIONS or word == "extract" else "its range"


def _points(left: Left, node: exp.Expr, column: Column) -> Sql | None:
    """Write a statement of values of a column: all, or enough for all values of an expression.

    None where they are too many.
    """
    kind, own = column.type.kind, name(column.name)
    if isinstance(left, frozenset):
        if not 0 < len(left) <= _MOST_POINTS:
            return None
        known = (as_value(v, column.type) if isinstance(v, int) else v for v in left)
        values = (sql("({})", constant_of(value, column.type)) for value in known)
        return sql("SELECT {own} FROM (VALUES {}) AS values_in({own})", join(", ", values), own=own)
    step = _grain(node) if kind == "TIMESTAMP" else 1
    if step is None or not 0 < left.size <= _MOST_POINTS * step:
        return None
    low, high = int(left.low), int(left.high)
    begin = low // step
    place = name(f"{INTERNAL_PREFIX}place")
    whole = sql("greatest({}, ({} + ({} - 1)) * {})", low, begin, place, step)
    written = _WRITTEN.get(kind, _as_it_is)(whole)
    return sql(
        "SELECT CAST({} AS {}) AS {} FROM {}",
        *(written, column.type.sql, own),
        TWIN.numbers(high // step - begin + 1, sql("places"), place),
    )


def _grain(node: exp.Expr) -> int | None:
    """Return microseconds of steps within which an expression of a timestamp has one value.

    None where nothing is known of how it reads the timestamp.
    """
    steps = [_step(column.parent) for column in node.find_all(exp.Column)]
    known = [step for step in steps if step is not None]
    return min(known) if len(known) == len(steps) else None


def _step(reading: exp.Expr | None) -> int | None:
    """Return the step of an expression that reads a timestamp: an hour, a day, or none."""
    part, _ = _part_read(reading)
    return _HOUR if part == "hour" else _DAY if part in _DAYS_AND_MORE else None


def parts_told(node: exp.Expr) -> frozenset[str]:
    """Name the parts of a moment that an expression of it tells; all for any other expression."""
    part, cut = _part_read(node)
    read = node.args.get("expression" if isinstance(node, exp.Extract) else "this")
    told = (_TOLD_BY_CUTS if cut else _TOLD).get(part)
    return told if told is not None and isinstance(read, exp.Column) else _ALL_TOLD


def _part_read(reading: exp.Expr | None) -> tuple[str, bool]:
    """Name the part of a moment that is read, and tell whether the moment is cut off after it.

    An empty name for other expressions.
    """
    if isinstance(reading, exp.Cast):
        return ("day", True) if reading.to.this == exp.DType.DATE else ("", False)
    if isinstance(reading, exp.DateTrunc | exp.TimestampTrunc):
        return extracted_part(reading.args.get("unit")), True
    if isinstance(reading, exp.Extract):
        found = PARTS.get(extracted_part(reading.this))
    else:
        found = None if reading is None else ROW_FUNCTIONS.get(type(reading))
    return "" if found is None else found.name, False
