"""GROUP BY the privacy unit inside a subquery: rows about one unit each, from that unit's rows.

Any aggregate of one unit's rows may stand here, exactly: what leaves is bounded like any other row.
It must not depend on the order of rows, so sums of fractions are taken over decimals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.quoting import quote
from dpsql.sql.intervals import is_integral
from dpsql.sql.expressions import check_row_expression, refusal
from dpsql.sql.relation import Field, Relation
from dpsql.sql.text import to_sql
from dpsql.sql.totality import total

if TYPE_CHECKING:
    from dpsql.sql.lineage import Lineage

_EXACT = "DECIMAL(30, 8)"


def per_unit(
    lineage: Lineage, select: exp.Select, source: Relation, keys: list[exp.Expr]
) -> Relation:
    """The relation of a SELECT that groups ``source`` by ``keys``, one of which is the unit.

    Raises ``QueryRefused`` or ``UnknownName`` with the place of what cannot be used.
    """
    return _PerUnit(lineage, select, source, keys).relation()


@dataclass
class _PerUnit:
    lineage: Lineage
    select: exp.Select
    source: Relation
    keys: list[exp.Expr]
    columns: dict[str, str] = field(default_factory=dict)  # SQL text -> its column

    def relation(self) -> Relation:
        self._check()
        for key in self.keys:
            check_row_expression(key, self.lineage.text)
            self._column(to_sql(total(key, self.source.table)))
        items = [self._over_groups(item) for item in self.select.expressions]
        having = self.select.args.get("having")
        condition = None if having is None else exp.Where(this=self._over_groups(having.this))
        groups = self._groups()
        outer = exp.Select(expressions=items)
        return self.lineage.projected(outer, self.lineage.filtered(groups, condition))

    def _check(self) -> None:
        allowed = {"expressions", "from_", "joins", "where", "with_", "group", "having"}
        group = self.select.args["group"]
        unusual = {name for name, value in group.args.items() if value} - {"expressions"}
        extra = {name for name, value in self.select.args.items() if value} - allowed
        if extra or unusual or group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            raise refusal(
                self.lineage.text,
                "a subquery that groups by the privacy unit has plain keys, aggregates and HAVING",
                "clause_not_allowed",
                group,
            )

    def _column(self, text: str) -> str:
        if text not in self.columns:
            self.columns[text] = self.lineage.new_column()
        return self.columns[text]

    def _groups(self) -> Relation:
        """The grouped rows: keys and aggregates under names of their own."""
        by_text = {to_sql(total(key, self.source.table)): key for key in self.keys}
        selected = ", ".join(f"{text} AS {quote(name)}" for text, name in self.columns.items())
        sql = f"(SELECT {selected} FROM {self.source.sql} GROUP BY {', '.join(by_text)})"
        types = self.lineage.bind(f"SELECT * FROM {sql}")
        fields = tuple(
            self._field(name, column.type, by_text.get(text))
            for (text, name), column in zip(self.columns.items(), types, strict=True)
        )
        unit = next(
            name
            for text, name in self.columns.items()
            if isinstance(key := by_text.get(text), exp.Column) and key.name == self.source.unit
        )
        return Relation(sql, fields, self.source.unit_name, unit, None, self.source.tables)

    def _field(self, name: str, type_: str, key: exp.Expr | None) -> Field:
        known = self.source.field_of(key.name) if isinstance(key, exp.Column) else None
        if known is None:
            return Field("", name, name, type_)
        return Field("", name, name, type_, known.policy, known.origin)

    def _over_groups(self, item: exp.Expr) -> exp.Expr:
        """An expression over keys and aggregates, as one over the columns of the groups."""
        name = item.alias or item.output_name
        node = item.unalias().copy()
        self.lineage.resolve(node, self.source)
        holder = exp.Paren(this=node)
        self._replace(node)
        return exp.alias_(holder.this, name, quoted=True) if name else holder.this

    def _replace(self, node: exp.Expr) -> None:
        if any(node == key for key in self.keys):
            node.replace(_column(self._column(to_sql(total(node, self.source.table)))))
        elif isinstance(node, exp.AggFunc):
            node.replace(_column(self._column(self._aggregate(node))))
        elif isinstance(node, exp.Column):
            raise refusal(
                self.lineage.text,
                f"column {node.meta.get('name', node.name)} must be a GROUP BY key or stand inside "
                "an aggregate",
                "column_not_grouped",
                node,
            )
        else:
            for child in list(node.iter_expressions()):
                self._replace(child)

    def _aggregate(self, node: exp.AggFunc) -> str:
        argument = node.this
        distinct = isinstance(argument, exp.Distinct)
        if distinct and len(argument.expressions) == 1:
            argument = argument.expressions[0]
        if isinstance(node, exp.Count) and (argument is None or isinstance(argument, exp.Star)):
            return "count(*)"
        known = isinstance(node, exp.Count | exp.Sum | exp.Avg | exp.Min | exp.Max)
        plain = isinstance(argument, exp.Expr) and not isinstance(
            argument, exp.Distinct | exp.Order
        )
        if (
            not known
            or not plain
            or node.expressions
            or (distinct and not isinstance(node, exp.Count))
        ):
            raise refusal(
                self.lineage.text,
                f"{node.sql_name().lower()} in this form is not available per privacy unit",
                "aggregate_not_supported",
                node,
                hint="Available: COUNT, COUNT(DISTINCT x), SUM, AVG, MIN and MAX.",
            )
        check_row_expression(argument, self.lineage.text)
        text = to_sql(total(argument, self.source.table))
        if isinstance(node, exp.Count):
            return f"count({'DISTINCT ' if distinct else ''}{text})"
        if isinstance(node, exp.Min | exp.Max):
            return f"{'min' if isinstance(node, exp.Min) else 'max'}({text})"
        if isinstance(node, exp.Sum) and is_integral(argument, self.source.table):
            return f"TRY_CAST(sum({text}) AS BIGINT)"
        exact = f"TRY_CAST({text} AS {_EXACT})"
        total_text = f"CAST(sum({exact}) AS DOUBLE)"
        return total_text if isinstance(node, exp.Sum) else f"{total_text} / count({exact})"


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))
