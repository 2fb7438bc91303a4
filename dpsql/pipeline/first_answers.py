"""Answers that stand in a statement in the place of subqueries.

Their values are constants of the statement around: public ones, or released ones. So they are part
of its question, and whatever is known of constants is known of them: ``country IN (SELECT country
… LIMIT 5)`` becomes a list, and its countries are the keys that there can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Final

from sqlglot import exp

from dpsql.core.schema import Column, fold
from dpsql.core.sql_types import INTEGER_BITS, SqlType
from dpsql.errors import QueryRefused
from dpsql.ir.query import Block
from dpsql.results.rows import Row
from dpsql.sql.expressions.first_answers import (
    GroupKeys,
    query_numbered,
    write_series_as_rows,
)
from dpsql.sql.lineage.correlated import asked_by_group, found_by_keys
from dpsql.sql.lineage.narrowed import TableOf, conditions_on_keys
from dpsql.syntax.placeholders import literal_node
from dpsql.syntax.probes import drop_unused_ctes
from dpsql.syntax.text import display, put

MOST_ANSWER_ROWS: Final = 400
"""Rows of an answer that can stand in a statement, each a part of its text: the days of a year."""
_MOST_SHOWN: Final = 80
_KEPT: Final = " What was released of it is kept: asked alone, it costs nothing."
_TYPICAL: Final = {
    "BOOLEAN": True,
    "VARCHAR": "a",
    "DATE": date(2000, 1, 1),
    "TIMESTAMP": datetime(2000, 1, 1),
    "TIME": time(0),
    "DOUBLE": 1.5,
    "FLOAT": 1.5,
    "TIMESTAMP WITH TIME ZONE": datetime(2000, 1, 1, tzinfo=UTC),
} | dict.fromkeys(INTEGER_BITS, 1)
_OTHER: Final = {
    "BOOLEAN": False,
    "VARCHAR": "b",
    "DATE": date(2001, 1, 1),
    "TIMESTAMP": datetime(2001, 1, 1),
    "TIME": time(1),
    "DOUBLE": 2.5,
    "FLOAT": 2.5,
    "TIMESTAMP WITH TIME ZONE": datetime(2001, 1, 1, tzinfo=UTC),
} | dict.fromkeys(INTEGER_BITS, 2)
_LEAVING_ONE: Final = ("where", "having", "qualify", "limit")
_PLAIN: Final = {"VARCHAR", *INTEGER_BITS}  # whose literals are of their type


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The answer to the subquery of a ``number`` in a statement.

    ``text`` is the subquery, in short. ``released`` says that it is of private rows; ``supposed``
    that it only stands for one. With ``keys`` its rows are groups, and the last column their value;
    groups can be ``missing`` among them.
    """

    number: int
    text: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    released: bool
    supposed: bool = False
    keys: GroupKeys = ()
    missing: bool = False

    def __post_init__(self) -> None:
        if len(self.rows) > MOST_ANSWER_ROWS:
            raise too_many_rows(self.text, released=self.released)
        moments = [place for place, each in enumerate(self.columns) if each.type.is_moment]
        if any(_has_no_moment(row[place]) for row in self.rows for place in moments):
            raise QueryRefused(
                f"the subquery {self.text} has a moment that is infinite or out of the years 1 to "
                "9999, which cannot stand beside private rows",
                code="expression_not_allowed",
                hint=f"Leave such moments out with a condition.{_KEPT * self.released}",
            )

    @property
    def has_constants(self) -> bool:
        """True if constants can be written of the types of all columns."""
        return all(
            column.type.is_decimal or column.type.kind in _TYPICAL for column in self.columns
        )


def has_too_many_groups(block: Block) -> bool:
    """Tell whether a question is known to have more groups than can stand in a statement."""
    return block.known_domain and block.domain_size > MOST_ANSWER_ROWS


def groups_can_be_missing(block: Block) -> bool:
    """Tell whether groups with rows may not come out of a question.

    Rows of a group that did not come out have no value of it.
    """
    return not block.known_domain or block.parameters.min_units_per_group > 1


def too_many_rows(text: str, *, released: bool) -> QueryRefused:
    """Build the error for a subquery, written as ``text``, with too many rows for a statement."""
    return QueryRefused(
        f"the subquery {text} has more than {MOST_ANSWER_ROWS} rows, too many to stand beside "
        "private rows",
        code="query_too_large",
        hint=f"Add ORDER BY … LIMIT to it.{_KEPT * released}",
    )


def _has_no_moment(value: object) -> bool:
    """Tell whether a value is a text in place of a moment."""
    return isinstance(value, str)


def stand_in(answer: FirstAnswer) -> FirstAnswer:
    """Return an answer with rows to plan with in place of its own.

    There is one, or another group for each key that tells groups apart.
    """
    row = [_typical(column.type) for column in answer.columns]
    others = [
        (*row[:place], _typical(answer.columns[place].type, other=True), *row[place + 1 :])
        for place in range(len(answer.keys))
    ]
    return replace(answer, rows=(tuple(row), *others), supposed=True)


def _typical(type_: SqlType, *, other: bool = False) -> object:
    """Return a value of a type, or the ``other`` one.

    Of decimals these are the least fractions, as some have no whole numbers.
    """
    if type_.is_decimal:
        return Decimal(1 + other).scaleb(-type_.digits[1])
    return (_OTHER if other else _TYPICAL).get(type_.kind)


def subquery_text(tree: exp.Query, number: int) -> str:
    """Write a subquery in short, as it stands in an explanation."""
    query = query_numbered(tree, number)
    assert query is not None, "it was numbered before"
    short = query.unnest().copy()
    for select in short.find_all(exp.Select):
        select.set("hint", None)  # its OPTIONS
    text = display(short)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def part_of(
    tree: exp.Query, number: int, keys: GroupKeys = (), table_of: TableOf = lambda _: None
) -> exp.Query:
    """Return a subquery as a statement, with the CTEs around it in one WITH.

    With ``keys`` it is asked for the groups of them that rows around can belong to, as far as the
    tables around say which these are.

    Raises ``QueryRefused`` where one WITH would give a name to another CTE.
    """
    query = query_numbered(tree, number)
    assert query is not None, "it was numbered before"
    part = query.unnest().copy()
    assert isinstance(part, exp.Query)
    write_series_as_rows(part)
    if keys:
        assert isinstance(part, exp.Select)
        part, around = asked_by_group(part, keys)
        for condition in conditions_on_keys(query, part.expressions[:-1], around, table_of):
            part.where(condition, copy=False)
    levels = [(part.args.get("with_"), list(part.ctes))]
    above: exp.Expr | None = query.parent
    below: exp.Expr = query
    while above is not None:
        with_ = above.args.get("with_") if isinstance(above, exp.Query) else None
        if isinstance(with_, exp.With):
            at = next((i for i, cte in enumerate(with_.expressions) if cte is below), None)
            levels.append((with_, [cte.copy() for cte in with_.expressions[:at]]))
        below = above if isinstance(above, exp.CTE) else below
        above = above.parent
    levels = [(with_, ctes) for with_, ctes in reversed(levels) if ctes]
    ctes = [cte for _, of_level in levels for cte in of_level]
    recursive = any(with_ is not None and with_.args.get("recursive") for with_, _ in levels)
    if len(levels) > 1 and (recursive or len({fold(cte.alias) for cte in ctes}) < len(ctes)):
        raise QueryRefused(
            "a subquery that is answered first has CTEs of one name, or recursive ones, around it "
            "and in it",
            code="subquery_over_private_rows",
            hint="Write all CTEs in the WITH of the statement, with names of their own.",
        )
    if ctes:
        part.set("with_", exp.With(expressions=ctes, recursive=recursive))
        drop_unused_ctes(part)
    return part


def place_answers(tree: exp.Query, answers: Sequence[FirstAnswer]) -> None:
    """Put answers in the places of their subqueries; ``tree`` is changed.

    Raises ``QueryRefused`` (``several_rows``) for several rows where one value stands.
    """
    for answer in answers:
        query = query_numbered(tree, answer.number)
        if query is None:
            continue  # in another answer's subquery
        _place(query, answer)


def _place(query: exp.Query, answer: FirstAnswer) -> None:
    outer: exp.Expr = query
    while isinstance(outer.parent, exp.Subquery | exp.Paren) and not outer.args.get("alias"):
        outer = outer.parent
    above = outer.parent
    if isinstance(above, exp.In) and outer.arg_key == "query":
        if answer.rows and len(answer.columns) == 1:
            type_ = answer.columns[0].type
            above.set("query", None)
            above.set("expressions", [_constant(value, type_) for (value,) in answer.rows])
        else:
            put(query, _rows(answer))
    elif isinstance(
        above, exp.From | exp.Join | exp.CTE | exp.SetOperation | exp.Exists | exp.Lateral
    ) or outer.args.get("alias"):
        put(query.unnest() if isinstance(query, exp.Subquery) else query, _rows(answer))
    elif answer.keys:
        put(outer, _of_group(query.unnest(), answer))
    else:
        put(outer, _value(query.unnest(), answer))


def _of_group(query: exp.Expr, answer: FirstAnswer) -> exp.Expr:
    """Write the value of the group whose keys equal those of the row around, as a lookup."""
    assert isinstance(query, exp.Select)
    groups = [row for row in answer.rows if None not in row[:-1]]  # NULL is equal to nothing
    return found_by_keys(query, answer.keys, _rows(replace(answer, rows=tuple(groups))))


def _value(query: exp.Expr, answer: FirstAnswer) -> exp.Expr:
    if len(answer.columns) > 1:
        raise QueryRefused(
            f"the subquery {answer.text} stands for one value and has several columns",
            code="several_rows",
            hint="Select one column.",
        )
    if len(answer.rows) > 1 or (answer.released and _is_of_groups(query)):
        raise QueryRefused(
            f"the subquery {answer.text} stands for one value and has several rows",
            code="several_rows",
            hint="Aggregate its rows, or limit them to one: (SELECT max(x) FROM …).",
        )
    value = answer.rows[0][0] if answer.rows else None
    return exp.Paren(this=_constant(value, answer.columns[0].type))


def _is_of_groups(query: exp.Expr) -> bool:
    """Tell whether a query has a row for each of some groups, and nothing that could leave one."""
    return query.args.get("group") is not None and not any(map(query.args.get, _LEAVING_ONE))


def _rows(answer: FirstAnswer) -> exp.Select:
    """Write rows of constants as a SELECT, with the names and types of its columns."""
    names = [f"c{place}" for place in range(len(answer.columns))]
    typical = tuple(_typical(column.type) for column in answer.columns)
    rows = answer.rows or (typical,)
    empty = [all(value is None for value in values) for values in zip(*rows, strict=True)]
    values = [
        exp.Tuple(
            expressions=[
                _constant(usual if nothing else value, column.type)
                for value, usual, nothing, column in zip(
                    row, typical, empty, answer.columns, strict=True
                )
            ]
        )
        for row in rows
    ]
    listed = exp.Values(
        expressions=values,
        alias=exp.TableAlias(
            this=exp.to_identifier("listed"), columns=[exp.to_identifier(name) for name in names]
        ),
    )
    columns = [
        exp.alias_(
            _null(column.type) if nothing else _cast(exp.column(name), column.type),
            column.name,
            quoted=True,
        )
        for name, column, nothing in zip(names, answer.columns, empty, strict=True)
    ]
    made = exp.Select(expressions=columns).from_(listed)
    return made if answer.rows else made.where(exp.false())


def _constant(value: object, type_: SqlType) -> exp.Expr:
    """Write a constant, with a cast where the type does not show; NULL is any type's."""
    if value is None:
        return exp.null()
    if isinstance(value, float):
        words = {math.inf: "inf", -math.inf: "-inf"}
        text = "nan" if math.isnan(value) else words.get(value, repr(value))
        return _cast(exp.Literal.string(text), type_)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return _cast(exp.Literal.string(value.isoformat(sep=" ")), type_)
    if isinstance(value, Decimal) and type_.digits == (38, 38):  # 39 with the zero before the point
        return _cast(exp.Literal.string(f"{value:f}"), type_)
    found = literal_node(value)
    return found if type_.kind in _PLAIN else _cast(found, type_)


def _null(type_: SqlType) -> exp.Expr:
    """Write a NULL of a type; a cast of NULL is not compared on every engine."""
    typical = _constant(_typical(type_), type_)
    return exp.Nullif(this=typical, expression=typical.copy())


def _cast(node: exp.Expr, type_: SqlType) -> exp.Expr:
    return exp.cast(node, exp.DataType.build(str(type_), dialect="duckdb"))
