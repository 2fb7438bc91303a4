"""SUMMARIZE, written out: all that can be told of the columns of some rows at one price.

    SUMMARIZE visits
    SELECT column_name, …, CASE place WHEN 0 THEN … END AS min, …
    FROM (SELECT COUNT(*) AS n, COUNT(cost) AS …, MIN(cost) AS …, … FROM visits) AS s,
    (VALUES (0, 'cost', 'DOUBLE'), …) AS c(place, column_name, column_type)

It is one SELECT over the rows, whose aggregates share its ε, and a tail that lays out what was
released as DuckDB does: a row for each column. What does not apply to a column is NULL: of private
rows, values near the ends and averages are those of numbers, and an identifier, the unit's or one
that links tables, is only named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from dpsql.core.quoting import INTERNAL_PREFIX
from dpsql.core.sql_types import SqlType
from dpsql.sql.lineage.names import Names
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.sql.lineage.tables import Tables
from dpsql.syntax.dialect import Summarizing
from dpsql.syntax.parse import MAX_AGGREGATES

_MADE, _COLUMNS = f"{INTERNAL_PREFIX}summary", f"{INTERNAL_PREFIX}columns"
_PLACE: Final = "place"
_ROWS: Final = "n"
_COUNT: Final = "count"
_DISTINCT: Final = "approx_unique"
_TEXTS: Final = ("min", "max", "avg", "std", "q25", "q50", "q75")
"""Figures that are texts, as those of columns of several types stand below each other."""
_ENDS: Final = ("min", "max")


def is_summarized(source: exp.Expr) -> bool:
    """Tell whether the columns of a source are to be summarised."""
    return any(isinstance(each, Summarizing) for each in source.args.get("pivots") or ())


@dataclass(frozen=True, slots=True)
class _Summary:
    """The figures of a column: of each, the name of the aggregate that it is."""

    field: Field
    figures: dict[str, str]


def place_summary(
    select: exp.Select, bare: exp.Expr, rows: Relation | None, names: Names, tables: Tables
) -> None:
    """Write out SUMMARIZE in place of a SELECT of a summarised source; ``select`` is changed.

    ``bare`` is the source, and ``rows`` what it means; None for released groups. Raises
    ``QueryRefused`` for these, and for very many columns.
    """
    if rows is None:
        raise names.refuse(
            "SUMMARIZE describes rows, and these are groups or numbers",
            "clause_not_allowed",
            bare,
            hint="Ask for them, and describe the answer: result.df().describe().",
        )
    shown = [field for field in rows.fields if not field.merged]
    made: list[exp.Expr] = [exp.alias_(exp.Count(this=exp.Star(), big_int=True), _ROWS)]
    columns = []
    for field in shown:
        figures = {}
        for figure, aggregate in _figures(field, rows, tables):
            figures[figure] = f"c{len(made)}"
            made.append(exp.alias_(aggregate, figures[figure]))
        columns.append(_Summary(field, figures))
    if len(made) > MAX_AGGREGATES:
        raise names.refuse(
            f"SUMMARIZE of {len(shown)} columns asks for {len(made)} figures",
            "query_too_large",
            bare,
            hint=f"At most {MAX_AGGREGATES} are asked for at once, and all share the price: name "
            "some columns, SUMMARIZE SELECT a, b FROM t.",
        )
    released = exp.Select(expressions=made, from_=exp.From(this=bare))
    select.set("expressions", _outputs(columns))
    select.set("from_", exp.From(this=exp.Subquery(this=released, alias=_alias(_MADE))))
    listed = exp.Values(
        expressions=[
            exp.Tuple(
                expressions=[
                    exp.Literal.number(place),
                    exp.Literal.string(column.field.name),
                    exp.Literal.string(str(column.field.type)),
                ]
            )
            for place, column in enumerate(columns)
        ],
        alias=_alias(_COLUMNS, _PLACE, "column_name", "column_type"),
    )
    select.set("joins", [exp.Join(this=listed, kind="CROSS")])
    select.set("order", exp.Order(expressions=[exp.Ordered(this=_of(_PLACE, _COLUMNS))]))


def _figures(field: Field, rows: Relation, tables: Tables) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the aggregates that are asked of a column."""
    type_, column = field.type, exp.column(exp.to_identifier(field.name, quoted=True))
    linking = tables.is_referred(field) or field.origin in tables.link_keys
    if rows.private and (field.identity is not Identity.NONE or linking or not _is_told(type_)):
        return
    yield _COUNT, exp.Count(this=column.copy(), big_int=True)
    numeric = type_.is_numeric and not type_.is_huge_integer
    if not rows.private:
        yield _DISTINCT, exp.ApproxDistinct(this=column.copy())
    elif type_.is_text or type_.is_integer or type_.kind == "DATE":
        distinct = exp.Distinct(expressions=[column.copy()])
        yield _DISTINCT, exp.Count(this=distinct, big_int=True)
    if numeric or not rows.private:
        yield "min", exp.Min(this=column.copy())
        yield "max", exp.Max(this=column.copy())
    if numeric:
        yield "avg", exp.Avg(this=column.copy())
        yield "std", exp.StddevSamp(this=column.copy())
        for name, fraction in (("q25", "0.25"), ("q50", "0.5"), ("q75", "0.75")):
            share = exp.Literal.number(fraction)
            quantile = exp.Quantile if rows.private else exp.ApproxQuantile
            yield name, quantile(this=column.copy(), quantile=share)


def _is_told(type_: SqlType) -> bool:
    """Tell whether anything of values of a type is told."""
    return type_.is_numeric or type_.is_text or type_.is_temporal or type_.kind == "BOOLEAN"


def _outputs(columns: Sequence[_Summary]) -> list[exp.Expr]:
    """Write the columns of the answer, named and typed as DuckDB's."""
    rows = _of(_ROWS, _MADE)
    zero, hundred = exp.Literal.number(0), exp.Literal.number(100)
    there = exp.Mul(this=exp.Literal.number("100.0"), expression=_figure(_COUNT, columns))
    missing = exp.Paren(
        this=exp.Sub(this=hundred.copy(), expression=exp.Div(this=there, expression=rows.copy()))
    )
    bounded = exp.Greatest(
        this=zero.copy(), expressions=[exp.Least(this=hundred, expressions=[missing])]
    )
    known = exp.GT(this=rows.copy(), expression=zero.copy())
    share = exp.Case(ifs=[exp.If(this=known, true=bounded)])
    distinct = _figure(_DISTINCT, columns)
    least = exp.Greatest(this=zero.copy(), expressions=[distinct])
    unique = exp.Case(
        ifs=[
            exp.If(
                this=exp.Not(this=exp.Is(this=distinct.copy(), expression=exp.null())), true=least
            )
        ]
    )
    texts = {name: exp.cast(_figure(name, columns, as_text=True), "VARCHAR") for name in _TEXTS}
    return [
        _of("column_name", _COLUMNS),
        _of("column_type", _COLUMNS),
        *(exp.alias_(texts[name], name) for name in _ENDS),
        exp.alias_(exp.cast(unique, "BIGINT"), _DISTINCT),
        *(exp.alias_(texts[name], name) for name in _TEXTS if name not in _ENDS),
        exp.alias_(rows.copy(), _COUNT),
        exp.alias_(exp.cast(share, "DECIMAL(9,2)"), "null_percentage"),
    ]


def _figure(name: str, columns: Sequence[_Summary], *, as_text: bool = False) -> exp.Expr:
    """Write a figure of the column of a row; NULL for columns without it."""
    place = _of(_PLACE, _COLUMNS)
    found = [
        (index, _of(column.figures[name], _MADE))
        for index, column in enumerate(columns)
        if name in column.figures
    ]
    if not found:
        return exp.null()
    return exp.Case(
        this=place,
        ifs=[
            exp.If(
                this=exp.Literal.number(index),
                true=exp.cast(value, "VARCHAR") if as_text else value,
            )
            for index, value in found
        ],
    )


def _of(name: str, table: str) -> exp.Column:
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True)
    )


def _alias(name: str, *columns: str) -> exp.TableAlias:
    return exp.TableAlias(
        this=exp.to_identifier(name, quoted=True),
        columns=[exp.to_identifier(column, quoted=True) for column in columns],
    )
