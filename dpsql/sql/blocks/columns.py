"""COLUMNS in the aggregates of a private block: an aggregate for each column that is meant.

    AVG(COLUMNS(['cost', 'age']))     AVG(cost) AS cost, AVG(age) AS age
    COUNT(COLUMNS(* EXCLUDE (ward)))  COUNT of each other column, under its name

Names and order of columns are those of the schema, which is public; each is asked for, bounded and
paid for as if it had been written. Other forms are left as they are, to be refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.core.schema import fold
from dpsql.sql.expressions.legality import outside_subqueries
from dpsql.sql.lineage.names import Names
from dpsql.sql.lineage.relation import Field, Relation
from dpsql.syntax.arguments import NodeArguments

_COLUMNS = NodeArguments("this")
_STAR = NodeArguments("except_?")
_LIST = NodeArguments("expressions value_constructor? bracket_notation?")


def expand_columns(select: exp.Select, relation: Relation, names: Names) -> None:
    """Replace select items with COLUMNS in an aggregate by one for each column of ``relation``.

    Raises ``UnknownName`` for a name in a list that no column has.
    """
    items: list[exp.Expr] = []
    for item in select.expressions:
        found = [node for node in outside_subqueries(item) if isinstance(node, exp.Columns)]
        aggregated = all(node.find_ancestor(exp.AggFunc, exp.Query) is not select for node in found)
        alike = all(node == found[0] for node in found)
        fields = _meant(found[0], relation, names) if found and aggregated and alike else None
        if fields is None:
            items.append(item)
        else:
            items += [_of_column(item, field, relation) for field in fields]
    select.set("expressions", items)


def _meant(columns: exp.Columns, relation: Relation, names: Names) -> Sequence[Field] | None:
    """List the columns that COLUMNS means, in the order of the schema; None for other forms."""
    shown, chosen = [field for field in relation.fields if not field.merged], columns.this
    if not _COLUMNS.hold(columns):
        return None
    if isinstance(chosen, exp.Star) and _STAR.hold(chosen):
        written, left_out = chosen.args.get("except_") or [], True
    elif isinstance(chosen, exp.Array) and _LIST.hold(chosen):
        written, left_out = chosen.expressions, False
        if not all(isinstance(each, exp.Literal) and each.is_string for each in written):
            return None
    else:
        return None
    if any(isinstance(each, exp.Column) and each.table for each in written):
        return None
    for each in written:
        if not relation.matches("", each.name):
            names.resolve_column(_placed(exp.column(each.name), columns), relation)
    named = {fold(each.name) for each in written}
    fields = [field for field in shown if (fold(field.name) in named) is not left_out]
    return fields or None


def _of_column(item: exp.Expr, field: Field, relation: Relation) -> exp.Expr:
    """Write a select item of one column, under its name unless it has another."""
    made = item.copy()
    alone = len(relation.matches("", field.name)) == 1
    for node in [node for node in outside_subqueries(made) if isinstance(node, exp.Columns)]:
        column = exp.column(
            exp.to_identifier(field.name, quoted=True),
            table=None if alone else exp.to_identifier(field.qualifier, quoted=True),
        )
        node.replace(_placed(column, node))
    return made if isinstance(made, exp.Alias) else exp.alias_(made, field.name, quoted=True)


def _placed(column: exp.Column, columns: exp.Columns) -> exp.Column:
    """Give a column the place in the text of the COLUMNS that it stands for."""
    for name in ("start", "end"):
        if name in columns.meta:
            column.this.meta[name] = columns.meta[name]
    return column
