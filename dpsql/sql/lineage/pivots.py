"""PIVOT and UNPIVOT of private rows, written out.

    PIVOT visits ON ward IN ('eyes', 'ears') USING SUM(cost) GROUP BY doctor
    SELECT doctor, SUM(cost) FILTER (WHERE ward = 'eyes') AS "eyes", … FROM visits GROUP BY doctor

    SELECT … FROM visits UNPIVOT (value FOR name IN (cost, tip))
    SELECT … FROM (SELECT …, n.name, CASE n.name WHEN 'cost' THEN cost … END AS value
                   FROM visits, (VALUES ('cost'), ('tip')) AS n(name)) WHERE value IS NOT NULL

What is written out is a question like any other: that alone is bounded and paid for. The names of
columns are those that DuckDB gives. It finds the values of ``ward`` in the rows, unless they are
listed; here they must be public, as names and number of the answer's columns would follow from
private values else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.schema import fold
from dpsql.engines.base.dialect import Dialect
from dpsql.errors import QueryRefused
from dpsql.sql.expressions.finite_values import finite_values
from dpsql.sql.expressions.first_answers import after_answering
from dpsql.sql.expressions.legality import refusal
from dpsql.sql.lineage.names import Names
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.dialect import BoundedAggregate
from dpsql.syntax.parse import MAX_AGGREGATES
from dpsql.syntax.placeholders import literal_node
from dpsql.syntax.text import display, output_name, put

_PARTS: Final = "expressions fields unpivot? group alias columns? "
_PIVOT: Final = NodeArguments(
    _PARTS + "identify_pivot_strings? prefixed_pivot_columns? pivot_column_naming?"
)
_UNPIVOT: Final = NodeArguments(_PARTS + "include_nulls value_columns_first?")
_GROUP: Final = NodeArguments("expressions")
_LISTED: Final = NodeArguments("this expressions")
_ALIASED: Final = NodeArguments("this alias")
_NAME: Final = NodeArguments("this quoted?")
_COLUMN: Final = NodeArguments("this")
_TYPED: Final = NodeArguments("this to")
_CLAUSES: Final = frozenset({"expressions", "from_", "order", "limit", "offset", "with_", "hint"})
_AROUND: Final = (BoundedAggregate, exp.WithinGroup)
_UNPIVOTED, _NAMED = f"{INTERNAL_PREFIX}unpivoted", f"{INTERNAL_PREFIX}name"
_GIVE: Final = "List the values: ON x IN ('a', 'b'), or FOR x IN ('a', 'b')."


@dataclass(frozen=True, slots=True)
class _Cells:
    """The columns of one value of ON: a part of their ``name``, the ``condition`` on their rows."""

    name: str
    condition: exp.Expr


@dataclass(frozen=True, slots=True)
class PivotedRows:
    """Private rows under a PIVOT, and a test for queries over public tables alone."""

    relation: Relation
    reads_public: Callable[[exp.Expr], bool]
    names: Names
    dialect: Dialect


def place_pivot(select: exp.Select, source: exp.Expr, bare: exp.Expr, rows: PivotedRows) -> None:
    """Write out the PIVOT or UNPIVOT of a source of a SELECT; ``select`` is changed.

    ``bare`` is the source without it, and ``rows`` the private rows of that. Raises
    ``QueryRefused`` or ``UnknownName``.
    """
    pivots = source.args["pivots"]
    pivot = pivots[0]
    unpivot = bool(pivot.args.get("unpivot"))
    if len(pivots) > 1 or not (_UNPIVOT if unpivot else _PIVOT).hold(pivot):
        raise rows.names.refuse(
            "this form of PIVOT is not available over private rows",
            "clause_not_allowed",
            pivot,
            hint="Write PIVOT t ON x IN ('a', 'b') USING SUM(y) GROUP BY z, or conditions: "
            "SELECT z, SUM(y) FILTER (WHERE x = 'a') AS a ….",
        )
    writer = _Writer(pivot, rows)
    alias = pivot.args.get("alias")
    whole = not unpivot and alias is None and _shows_all(select)
    written = writer.unpivoted(bare) if unpivot else writer.pivoted(bare, whole=whole)
    if whole:
        select.set("expressions", written.expressions)
        select.set("from_", written.args["from_"])
        select.set("group", written.args.get("group"))
    else:
        put(source, exp.Subquery(this=written, alias=alias))


def refuse_unknown_columns(select: exp.Select, text: str) -> None:
    """Refuse a PIVOT of public or released rows in a FROM clause without a list of values."""
    from_ = select.args.get("from_")
    sources = [] if from_ is None else [from_, *(select.args.get("joins") or ())]
    for source in (each.this for each in sources):
        for pivot in source.args.get("pivots") or ():
            unlisted = (f for f in pivot.args["fields"] if not isinstance(f, exp.In))
            field = next(unlisted, None)
            if field is not None:
                raise refusal(
                    text,
                    "the values that make the columns of PIVOT are not listed",
                    "pivot_not_public",
                    field,
                    hint=_GIVE,
                )


def _shows_all(select: exp.Select) -> bool:
    """Tell whether a SELECT only sorts and limits the rows of its source."""
    (*_, item) = select.expressions
    star = isinstance(item, exp.Star) and len(select.expressions) == 1
    clauses = {clause for clause, value in select.args.items() if value}
    return star and clauses <= _CLAUSES and not any(item.args.values())


class _Writer:
    """Writes out one PIVOT or UNPIVOT."""

    def __init__(self, pivot: exp.Pivot, rows: PivotedRows) -> None:
        self.pivot = pivot
        self.rows = rows.relation
        self.names = rows.names
        self._dialect = rows.dialect
        self._reads_public = rows.reads_public

    def pivoted(self, bare: exp.Expr, *, whole: bool) -> exp.Select:
        """Write a PIVOT as groups, with an aggregate of the rows with each value.

        ``whole``: the groups are shown, so they may not be those of units.
        """
        cells = self._cells()
        aggregates = self.pivot.expressions
        if len(cells) * len(aggregates) > MAX_AGGREGATES:
            raise self.names.refuse(
                f"PIVOT makes {len(cells) * len(aggregates)} columns",
                "query_too_large",
                self.pivot,
                hint=f"At most {MAX_AGGREGATES} aggregates stand in a query. Group by both: SELECT "
                "z, x, SUM(y) … GROUP BY z, x.",
            )
        keys = self._keys(whole=whole)
        made = [
            exp.alias_(self._within(each, cell.condition), self._name(cell, each), quoted=True)
            for cell in cells
            for each in aggregates
        ]
        self._refuse_repeated([*(key.name for key in keys), *(each.alias for each in made)])
        select = exp.Select(expressions=[*keys, *made], from_=exp.From(this=bare))
        if keys:
            select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return select

    def unpivoted(self, bare: exp.Expr) -> exp.Select:
        """Write an UNPIVOT as a join with the names of its columns, and the value of each."""
        (field, *others), values = self.pivot.args["fields"], self.pivot.expressions
        listed = isinstance(field, exp.In) and _LISTED.hold(field) and field.expressions
        called = _identifier(values[0]) if len(values) == 1 else None
        named = _identifier(field.this) if listed else None
        plain = listed and not others and not self.pivot.args.get("group")
        if not plain or named is None or called is None:
            raise self._refused_unpivot(field)
        columns = [self._unpivoted_column(item) for item in field.expressions]
        mark = exp.column(
            exp.to_identifier(_NAMED, quoted=True), exp.to_identifier(_UNPIVOTED, quoted=True)
        )
        value = exp.Case(
            ifs=[
                exp.If(
                    this=exp.EQ(this=mark.copy(), expression=exp.Literal.string(name)), true=column
                )
                for name, column in columns
            ]
        )
        used = {fold(column.name) for _, column in columns}
        names = exp.Values(
            expressions=[exp.Tuple(expressions=[exp.Literal.string(name)]) for name, _ in columns],
            alias=exp.TableAlias(
                this=exp.to_identifier(_UNPIVOTED, quoted=True),
                columns=[exp.to_identifier(_NAMED, quoted=True)],
            ),
        )
        select = exp.Select(
            expressions=[
                *(_column(f.name) for f in self._shown() if fold(f.name) not in used),
                exp.alias_(mark, named.copy()),
                exp.alias_(value, called.copy()),
            ],
            from_=exp.From(this=bare),
            joins=[exp.Join(this=names, kind="CROSS")],
        )
        if not self.pivot.args.get("include_nulls"):
            there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
            select.set("where", exp.Where(this=there))
        return select

    def _shown(self) -> Iterator[Field]:
        return (field for field in self.rows.fields if not field.merged)

    # -- UNPIVOT ------------------------------------------------------------------------------

    def _unpivoted_column(self, item: exp.Expr) -> tuple[str, exp.Column]:
        """Read a column of UNPIVOT, and the name of its rows."""
        aliased = isinstance(item, exp.PivotAlias | exp.Alias) and _ALIASED.hold(item)
        column = item.this if aliased else item
        if not isinstance(column, exp.Column) or not _COLUMN.hold(column):
            raise self._refused_unpivot(item)
        self.names.resolve_column(column.copy(), self.rows)
        return item.args["alias"].name if aliased else column.name, column.copy()

    def _refused_unpivot(self, node: exp.Expr) -> QueryRefused:
        return self.names.refuse(
            "UNPIVOT over private rows takes a list of columns",
            "clause_not_allowed",
            node,
            hint="Write SELECT name, AVG(value) FROM t UNPIVOT (value FOR name IN (a, b)) GROUP BY "
            "name.",
        )

    # -- PIVOT --------------------------------------------------------------------------------

    def _keys(self, *, whole: bool) -> list[exp.Column]:
        """List the keys of a PIVOT: the given columns, or else all unmentioned ones."""
        group = self.pivot.args.get("group")
        if group is not None:
            keys = group.expressions
            plain = all(isinstance(key, exp.Column) and _COLUMN.hold(key) for key in keys)
            if not plain or not _GROUP.hold(group):
                raise self.names.refuse(
                    "PIVOT groups by columns alone",
                    "clause_not_allowed",
                    group,
                    hint="Compute the key in a subquery: PIVOT (SELECT year(d) AS y, …) ON ….",
                )
            return [key.copy() for key in keys]
        parts = [*self.pivot.args["fields"], *self.pivot.expressions]
        used = {fold(column.name) for part in parts for column in part.find_all(exp.Column)}
        left = [field for field in self._shown() if fold(field.name) not in used]
        unit = next((field for field in left if field.identity is not Identity.NONE), None)
        if whole and unit is not None:
            raise self.names.refuse(
                f"PIVOT groups by all columns that it does not mention, {unit.name} among them, so "
                f"each group would be one {self.rows.unit_name}'s",
                "groups_by_unit",
                self.pivot.args["fields"][0],
                hint="Say what to group by: PIVOT … GROUP BY z. Or have no other columns: PIVOT "
                "(SELECT x, y FROM t) ON x USING SUM(y).",
            )
        return [_column(field.name) for field in left]

    def _cells(self) -> list[_Cells]:
        """List the combinations of values that make columns, in DuckDB's order."""
        lists = [self._values(field) for field in self.pivot.args["fields"]]
        return [
            _Cells("_".join(each.name for each in row), exp.and_(*(e.condition for e in row)))
            for row in product(*lists)
        ]

    def _values(self, field: exp.Expr) -> list[_Cells]:
        """List the values of one part of ON: the written ones, or else all possible ones."""
        if not isinstance(field, exp.In):
            known = self._known(field)
            if known is None:
                raise self.names.refuse(
                    f"not all values of {display(field)} are known, so the columns of PIVOT would "
                    "follow from private rows",
                    "pivot_not_public",
                    field,
                    hint=f"{_GIVE} Or group by both: SELECT z, x, SUM(y) … GROUP BY z, x.",
                )
            return [self._cell(field, value) for value in known]
        query = field.args.get("query")
        if query is not None and self._reads_public(query):
            raise after_answering(query, self._not_listed(field))
        if not field.expressions or not _LISTED.hold(field):
            raise self._not_listed(field)
        return [self._cell(field.this, value) for value in field.expressions]

    def _known(self, node: exp.Expr) -> Sequence[exp.Expr] | None:
        """Write all possible values of an expression but NULL, sorted; None for unknown ones."""
        resolved = self.names.resolve(node.copy(), self.rows)
        found = self.rows.field_of(resolved.name) if isinstance(resolved, exp.Column) else None
        declared = None if found is None or found.policy is None else found.policy.domain
        values = declared or finite_values(resolved, self.rows.table, self._dialect, MAX_AGGREGATES)
        if values is None:
            return None
        plain = sorted(value for value in values if value is not None)  # type: ignore[type-var]
        return [literal_node(value) for value in plain]

    def _not_listed(self, node: exp.Expr) -> QueryRefused:
        return self.names.refuse(
            "PIVOT over private rows takes a list of constants, or values of public tables",
            "pivot_not_public",
            node,
            hint=_GIVE,
        )

    def _cell(self, subject: exp.Expr, value: exp.Expr) -> _Cells:
        aliased = isinstance(value, exp.PivotAlias) and _ALIASED.hold(value)
        constant = value.this if aliased else value
        name = _constant_name(constant)
        if name is None:
            raise self._not_listed(value)
        null = isinstance(constant, exp.Null)
        kind = exp.Is if null else exp.EQ
        plain = isinstance(subject, exp.Column)
        one = subject.copy() if plain else exp.paren(subject.copy())
        condition = kind(this=one, expression=constant.copy())
        return _Cells(value.args["alias"].name if aliased else name, condition)

    def _within(self, aggregate: exp.Expr, condition: exp.Expr) -> exp.Expr:
        """Write an aggregate of the rows with a condition."""
        holder = exp.Paren(this=aggregate.unalias().copy())
        found = list(holder.find_all(exp.AggFunc))
        # DuckDB drops a FILTER here without a word.
        if len(found) != 1 or holder.find(exp.Window, exp.Query, exp.Filter):
            raise self.names.refuse(
                "each column of PIVOT is made by one aggregate, without FILTER",
                "clause_not_allowed",
                aggregate,
                hint="Write USING SUM(x), COUNT(*): compute with these in an outer query, filter "
                "in a subquery: PIVOT (SELECT … WHERE …) ON ….",
            )
        outer: exp.Expr = found[0]
        while isinstance(outer.parent, _AROUND):
            outer = outer.parent
        where = exp.Where(this=condition.copy())
        put(outer, exp.Filter(this=outer.copy(), expression=where))
        made: exp.Expr = holder.this
        return made

    def _name(self, cell: _Cells, aggregate: exp.Expr) -> str:
        """Name a column as DuckDB does: by its value, and its aggregate if that has an alias."""
        alone = len(self.pivot.expressions) == 1 and not aggregate.alias
        return cell.name if alone else f"{cell.name}_{aggregate.alias or output_name(aggregate)}"

    def _refuse_repeated(self, written: Sequence[str]) -> None:
        folded = [fold(name) for name in written]
        repeated = next(
            (n for n, f in zip(written, folded, strict=True) if folded.count(f) > 1), None
        )
        if repeated is not None:
            raise self.names.refuse(
                f"PIVOT makes several columns called {repeated}",
                "clause_not_allowed",
                self.pivot,
                hint="Give the values names of their own: FOR x IN ('a' AS first, 'A' AS second).",
            )


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _identifier(node: exp.Expr | None) -> exp.Identifier | None:
    """Return the name in a part of UNPIVOT; None for other parts."""
    if isinstance(node, exp.Column) and _COLUMN.hold(node):
        node = node.this
    return node if isinstance(node, exp.Identifier) and _NAME.hold(node) else None


def _constant_name(node: exp.Expr) -> str | None:
    """Return the text of a constant, as DuckDB names a column by it; None for anything else."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Null):
        return "NULL"
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    if isinstance(node, exp.Neg):
        number = node.this
        plain = isinstance(number, exp.Literal) and not number.is_string
        return f"-{number.this}" if plain else None
    if isinstance(node, exp.Cast) and _TYPED.hold(node):
        return str(node.this.this) if isinstance(node.this, exp.Literal) else None
    return None
