"""Writes relations as FROM clauses, in the SQL of an engine: the only place that does.

What all engines write alike stands here, whatever they write differently is asked of the dialect.
Expressions are made total on the way, over the columns of the rows that they are computed of.

A statement's relations grow out of each other and are asked for as they grow, so each node is
written once for a statement (:class:`FromClauses`). The clause of a block is written again with
each of its runs: its text is kept as long as the relation itself (:func:`from_clause`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from dpsql.core.identity_memory import IdentityMemory
from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import Column, Table
from dpsql.core.sql import EMPTY_SQL, Sql, join, number, sql
from dpsql.core.sql import name as quoted
from dpsql.core.sql_types import BIGINT, DOUBLE, SqlType
from dpsql.engines.base.dialect import COPIES_IN_EACH_ROW, FEW_COPIES, Dialect
from dpsql.ir.relations import (
    Combined,
    Computed,
    Distinct,
    EachRow,
    Extend,
    Filter,
    Frame,
    Join,
    JoinKind,
    LinkJoin,
    NumberedRows,
    OneSpelling,
    PerUnit,
    Placed,
    PlaceFunction,
    PlaceValue,
    Rename,
    RowSet,
    Sampled,
    Scan,
    SemiJoin,
    SetOperator,
    Sorted,
    Typed,
    UnitFunction,
    UnitValue,
    bottom_up,
    computed_by,
    most_rows,
)
from dpsql.sql.expressions.proven_integers import MOST_ROWS, column
from dpsql.sql.expressions.totality import total_condition_sql, total_sql

_EXACT: Final = SqlType.of(
    f"DECIMAL({38 - len(str(MOST_ROWS))}, 8)"
)  # sums of that many have 38 digits
_NUMBERS: Final = quoted(f"{INTERNAL_PREFIX}numbers")
_BIGINT: Final = (-(2**63), 2**63 - 1)
_JOINS: Final = {
    JoinKind.INNER: sql("JOIN"),
    JoinKind.LEFT: sql("LEFT JOIN"),
    JoinKind.RIGHT: sql("RIGHT JOIN"),
}
_KEPT: Final = IdentityMemory[RowSet, Dialect, Sql]()
_OPERATORS: Final = {
    SetOperator.UNION: sql("UNION"),
    SetOperator.EXCEPT: sql("EXCEPT"),
    SetOperator.INTERSECT: sql("INTERSECT"),
}
_OF_ONE_ROW: Final = {PlaceFunction.FIRST, PlaceFunction.LEAST, PlaceFunction.LARGEST}
"""Functions by which one row's value may be that of many, in an order."""


def from_clause(rows: RowSet, dialect: Dialect) -> Sql:
    """Write a relation as it stands behind FROM, in a dialect; more joins may follow.

    No row makes it fail. Raises ``QueryRefused`` for what the engine cannot compute as written.
    """
    if isinstance(rows, Scan):
        return dialect.table(rows.table)
    return _KEPT.get(rows, dialect) or FromClauses(dialect).kept(rows)


def short_values(
    columns: Sequence[Column],
    rows: Sql,
    dialect: Dialect,
    copies: int,
    kept: Container[str] = (),
) -> Sql:
    """Write rows whose long texts and lists are NULL, but for ``kept`` columns."""
    names = [quoted(each.name) for each in columns]
    written = [
        name if each.name in kept else dialect.short(name, each.type, copies)
        for each, name in zip(columns, names, strict=True)
    ]
    if written == names:
        return rows
    listed = (
        name if text == name else sql("{} AS {}", text, name)
        for text, name in zip(written, names, strict=True)
    )
    return dialect.derived(sql("SELECT {} FROM {}", join(", ", listed), rows))


def _keys_compared(conditions: Iterable[exp.Expr]) -> set[str]:
    """Return the columns that conditions say are the same as others."""
    sides = ((each.this, each.expression) for each in conditions if isinstance(each, exp.EQ))
    same = (pair for pair in sides if all(isinstance(side, exp.Column) for side in pair))
    return {side.name for pair in same for side in pair}


class FromClauses:
    """The FROM clauses of one statement in a dialect; each relation is written once."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        # By identity; the relation is kept, so that its id stays its own.
        self._texts: dict[int, tuple[RowSet, Sql]] = {}
        self._computed: dict[int, tuple[Extend, Sql]] = {}
        self._copies = 0  # of long texts, by all that stands in the statement

    def text(self, rows: RowSet) -> Sql:
        """Write a relation as :func:`from_clause` does."""
        nodes = list(bottom_up(rows, self._texts))
        for node in nodes:
            self._copies += sum(map(self._dialect.copies, computed_by(node)))
        for node in nodes:
            self._texts[id(node)] = node, self._written(node)
        return self._texts[id(rows)][1]

    def kept(self, rows: RowSet) -> Sql:
        """Write a relation that :func:`from_clause` will be asked for again."""
        text = self.text(rows)
        if not isinstance(rows, Scan):
            text.render(self._dialect.renderer)  # of which the texts of statements are made
            _KEPT.keep(rows, self._dialect, text)
        return text

    def computed(self, rows: Extend) -> Sql:
        """Write the statement that computes the new columns of a relation alone."""
        return sql("SELECT {} FROM {}", self._columns_computed(rows), self.text(rows.source))

    def selected(self, rows: RowSet, names: Iterable[str]) -> Sql:
        """Write the statement that reads some columns of a relation."""
        return sql("SELECT {} FROM {}", self._listed(names), self.text(rows))

    # -- nodes --------------------------------------------------------------------------------

    def _written(self, node: RowSet) -> Sql:
        """Write a node, once the texts of its sources are known."""
        match node:
            case Scan():
                text, copies = self._dialect.table(node.table), self._copies
                if copies <= FEW_COPIES:
                    return text
                return short_values(node.columns, text, self._dialect, copies)
            case NumberedRows():
                return self._dialect.numbers(node.count, _NUMBERS, quoted(node.name))
            case Typed() | Sampled():  # which units are taken, the block says
                return self._of(node.source)
            case OneSpelling():
                return self._one_spelling(node)
            case Join():
                on = self._all_true(node.conditions, node.columns)
                left, right = self._of(node.left), self._right(node.right)
                if not any(most_rows(source) == 1 for source in node.sources):
                    keys = _keys_compared(node.conditions)
                    left = self._short(node.left, left, keys)
                    right = self._short(node.right, right, keys)
                return sql("{} {} {} ON ({on})", left, _JOINS[node.kind], right, on=on)
            case LinkJoin():
                return self._link_join(node)
            case SemiJoin():
                return self._semi_join(node)
        return self._dialect.derived(self._statement(node))

    def _statement(self, node: RowSet) -> Sql:
        """Write the statement that a node is in brackets."""
        match node:
            case Rename():
                return sql("SELECT {} FROM {}", self._renamed(node.names), self._of(node.source))
            case EachRow():
                number = sql("{} AS {}", self._dialect.row_number(), quoted(node.name))
                return sql("SELECT *, {} FROM {}", number, self._of(node.source))
            case Filter():
                condition = self._condition(node.condition, _over(node.source.columns))
                return sql("SELECT * FROM {} WHERE {}", self._of(node.source), condition)
            case Extend():
                return sql(
                    "SELECT *, {} FROM {}", self._columns_computed(node), self._of(node.source)
                )
            case Distinct():
                return sql(
                    "SELECT DISTINCT {} FROM {}", self._listed(node.names), self._of(node.source)
                )
            case PerUnit():
                return self._per_unit(node)
            case Placed():
                types = {column.name: column.type for column in node.source.columns}
                made = join(", ", (self._place_value(value, types) for value in node.values))
                return sql("SELECT *, {} FROM {}", made, self._of(node.source))
            case Combined():
                return self._combined(node)
        raise TypeError(f"{type(node).__name__} is no relation that can be written")

    def _of(self, node: RowSet) -> Sql:
        return self._texts[id(node)][1]

    def _right(self, node: RowSet) -> Sql:
        """Write the right side of a join: a join in brackets, as Spark needs it."""
        text = self._of(node)
        while isinstance(node, Typed | Sampled | OneSpelling) and self._of(node.source) is text:
            node = node.source
        is_join = isinstance(node, Join | LinkJoin | SemiJoin)
        return sql("({})", text) if is_join else text

    def _short(self, side: RowSet, text: Sql, keys: Container[str]) -> Sql:
        """Write a side of a join, one row of which may be in many.

        A key that is compared is in each of the rows that it meets as well.
        """
        return short_values(side.columns, text, self._dialect, COPIES_IN_EACH_ROW, keys)

    def _one_spelling(self, node: OneSpelling) -> Sql:
        """Spell equal values alike, or return the rows where they already are."""
        rows = self._of(node.source)
        types = {c.name: c.type for c in node.columns}
        spelled = {n: self._dialect.one_spelling(quoted(n), types[n]) for n in node.names}
        if all(text == quoted(name) for name, text in spelled.items()):
            return rows
        selected = [sql("{} AS {}", text, quoted(name)) for name, text in spelled.items()]
        selected += map(quoted, node.kept)
        return self._dialect.derived(sql("SELECT {} FROM {}", join(", ", selected), rows))

    def _link_join(self, node: LinkJoin) -> Sql:
        column, key = map(quoted, (node.column, node.key))
        return sql(
            "{} JOIN {} ON ({column} = {key})",
            self._of(node.left),
            self._short(node.right, self._right(node.right), {node.key}),
            column=column,
            key=key,
        )

    def _semi_join(self, node: SemiJoin) -> Sql:
        on = self._all_true(node.conditions, node.left.columns + node.right.columns)
        left, right = self._of(node.left), self._right(node.right)
        keys = _keys_compared(node.conditions)
        if any(each.name not in keys for c in node.conditions for each in c.find_all(exp.Column)):
            left = self._short(node.left, left, keys)
            right = self._short(node.right, right, keys)
        return self._dialect.semi_join(left, right, on, negated=node.negated)

    def _combined(self, node: Combined) -> Sql:
        word = _OPERATORS[node.operator]
        if not node.distinct:
            word = sql("{} ALL", word)
        ones = [(one, new) for one, _, new in node.names]
        others = [(other, new) for _, other, new in node.names]
        return sql(
            "SELECT {} FROM {} {word} SELECT {} FROM {}",
            self._renamed(ones),
            self._of(node.left),
            self._renamed(others),
            self._of(node.right),
            word=word,
        )

    def _per_unit(self, node: PerUnit) -> Sql:
        table = _over(node.source.columns)
        keys = [(key.name, self._value(key.expression, table)) for key in node.keys]
        values = [(value.name, self._unit_value(value, table)) for value in node.values]
        selected = join(
            ", ", (sql("{} AS {}", text, quoted(name)) for name, text in (*keys, *values))
        )
        places = join(", ", (number(place + 1) for place in range(len(keys))))
        return sql("SELECT {} FROM {} GROUP BY {}", selected, self._of(node.source), places)

    def _place_value(self, value: PlaceValue, types: Mapping[str, SqlType]) -> Sql:
        """Write a function of a row's place; one row's value may be that of all rows."""
        among = self._listed(value.among)
        window = sql("PARTITION BY {}", among)
        if value.order:
            window = sql("{} ORDER BY {}", window, join(", ", map(self._sorted_by, value.order)))
        if value.frame is not None:
            window = sql("{} {}", window, self._frame(value.frame))
        of = sql("*") if value.argument is None else quoted(value.argument)
        if value.argument is not None and value.order and value.function in _OF_ONE_ROW:
            of = self._dialect.short(of, types[value.argument])
        over, distance, dialect = sql("OVER ({})", window), value.distance, self._dialect
        match value.function:
            case PlaceFunction.NUMBER:
                text = dialect.numbered_within(window)
            case PlaceFunction.RANK:
                text = dialect.ranked_within(window)
            case PlaceFunction.ROWS | PlaceFunction.VALUES:
                text = sql("count({}) {}", of, over)
            case PlaceFunction.LEAST:
                text = sql("min({}) {}", of, over)
            case PlaceFunction.LARGEST:
                text = sql("max({}) {}", of, over)
            case PlaceFunction.WHOLE_SUM:
                text = self._whole_sum(of, types[value.argument or ""], over)
            case PlaceFunction.SUM:
                text = self._sum(of, types[value.argument or ""], over)[0]
            case PlaceFunction.AVERAGE:
                text = sql("{} / {}", *self._sum(of, types[value.argument or ""], over))
            case PlaceFunction.FIRST:
                text = dialect.first_within(of, window)
            case PlaceFunction.BEFORE:
                text = dialect.beside_within(of, -distance, window)
            case PlaceFunction.AFTER:
                text = dialect.beside_within(of, distance, window)
        return sql("{} AS {}", text, quoted(value.name))

    def _frame(self, frame: Frame) -> Sql:
        def end(distance: float | None, open_: Sql) -> Sql:
            if distance is None:
                return open_
            if distance == 0:
                return sql("CURRENT ROW")
            away = abs(distance)
            written = self._dialect.double(away) if frame.by_value else number(int(away))
            return sql("{} {}", written, sql("PRECEDING") if distance < 0 else sql("FOLLOWING"))

        return sql(
            "{} BETWEEN {} AND {}",
            sql("RANGE") if frame.by_value else sql("ROWS"),
            end(frame.first, sql("UNBOUNDED PRECEDING")),
            end(frame.last, sql("UNBOUNDED FOLLOWING")),
        )

    def _sorted_by(self, column: Sorted) -> Sql:
        first, name = column.nulls_first, quoted(column.name)
        return self._dialect.sorted_by(name, descending=column.descending, nulls_first=first)

    # -- columns ------------------------------------------------------------------------------

    def _listed(self, names: Iterable[str]) -> Sql:
        return join(", ", map(quoted, names))

    def _renamed(self, names: Iterable[tuple[str, str]]) -> Sql:
        return join(", ", (sql("{} AS {}", quoted(old), quoted(new)) for old, new in names))

    def _value(self, expression: exp.Expr, table: Table) -> Sql:
        return total_sql(expression, table, self._dialect)

    def _condition(self, condition: exp.Expr, table: Table) -> Sql:
        return total_condition_sql(condition, table, self._dialect)

    def _columns_computed(self, node: Extend) -> Sql:
        """Write the new columns of a relation, as they stand in a SELECT."""
        if id(node) not in self._computed:
            table = _over(node.source.columns)
            text = join(", ", (self._named(made, table) for made in node.computed))
            self._computed[id(node)] = node, text
        return self._computed[id(node)][1]

    def _named(self, made: Computed, table: Table) -> Sql:
        return sql("{} AS {}", self._value(made.expression, table), quoted(made.name))

    def _all_true(self, conditions: Sequence[exp.Expr], columns: tuple[Column, ...]) -> Sql:
        if not conditions:
            return sql("TRUE")
        table = _over(columns)
        texts = (self._condition(c, table) for c in conditions)
        return join(" AND ", (sql("({})", text) for text in texts))

    def _unit_value(self, value: UnitValue, table: Table) -> Sql:
        """Write a function of a unit's rows, which neither fails nor depends on their order."""
        if value.argument is None:
            return sql("count(*)")
        text, dialect = self._value(value.argument, table), self._dialect
        source = dialect.type_of(value.argument, table)
        match value.function:
            case UnitFunction.VALUES:
                return sql("count({})", text)
            case UnitFunction.DISTINCT_VALUES:
                return sql("count(DISTINCT {})", text)
            case UnitFunction.LEAST:
                return sql("min({})", text)
            case UnitFunction.LARGEST:
                return sql("max({})", text)
            case UnitFunction.WHOLE_SUM:
                return self._whole_sum(text, source)
        total, number = self._sum(text, source)
        return total if value.function is UnitFunction.SUM else sql("{} / {}", total, number)

    def _whole_sum(self, text: Sql, source: SqlType, over: Sql = EMPTY_SQL) -> Sql:
        """Sum integers as a BIGINT, NULL where it is none: of a group, or ``over`` a window."""
        number = self._dialect.try_cast(text, BIGINT, source)
        whole = column(number, *_BIGINT, dialect=self._dialect).sum()
        return self._dialect.try_cast(_within(whole.sql, over), BIGINT, whole.type)

    def _sum(self, text: Sql, source: SqlType, over: Sql = EMPTY_SQL) -> tuple[Sql, Sql]:
        """Sum numbers as decimals, and count them: of a group, or ``over`` a window."""
        exact = self._dialect.try_cast(text, _EXACT, source)
        total = _within(self._dialect.sum(exact, wide=True), over)
        return self._dialect.cast(total, DOUBLE), _within(sql("count({})", exact), over)


def _within(aggregate: Sql, over: Sql) -> Sql:
    return sql("{} {}", aggregate, over) if over else aggregate


def _over(columns: tuple[Column, ...]) -> Table:
    """Return the columns that an expression is over."""
    return Table("", columns)
