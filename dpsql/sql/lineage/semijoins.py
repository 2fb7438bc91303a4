"""Conditions that ask whether rows exist: IN and EXISTS, as joins.

A row's own values, and the rows of its own unit, decide which rows match it: public ones in any
way, private ones where an equality makes each pair of rows belong to one unit (see
:mod:`dpsql.sql.lineage.joins`). So what becomes of a row depends on what it depended on before.

Among conditions joined by AND such a test is a SEMI or ANTI join. Elsewhere, under OR or in a
CASE, it is a truth value of each row: from a LEFT JOIN with distinct rows where columns are
compared for equality, else from the rows with a match together with those without one.

NULLs are as SQL has them: ``x IN`` a set is true where some value equals x; else it is unknown
where x is NULL and the set is not empty, or a value of the set is NULL. Where ``x IN`` itself is
what makes rows belong to one unit, the set is taken for what other units have as well: then it is
unknown where x is NULL, and values that are NULL, whose rows belong to nobody, are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NoReturn

from sqlglot import exp

from dpsql.core.schema import Column, fold
from dpsql.core.sql_types import BOOLEAN
from dpsql.ir.relations import (
    Combined,
    Computed,
    Distinct,
    Extend,
    Filter,
    Join,
    JoinKind,
    Rename,
    RowSet,
    SemiJoin,
    SetOperator,
    Typed,
)
from dpsql.sql.expressions.call import is_aggregate
from dpsql.sql.expressions.comparisons import refuse_unlike
from dpsql.sql.expressions.first_answers import after_answering
from dpsql.sql.expressions.legality import check_row_expression, outside_subqueries, refusal
from dpsql.sql.lineage.join_columns import conjuncts, pairs_of
from dpsql.sql.lineage.joins import depending_on, is_one_unit, refuse_two_units, units_equal
from dpsql.sql.lineage.names import (
    Names,
    aliases_of,
    columns_below,
    generated_column,
    in_known_words,
    mark_resolved,
    resolved_column,
)
from dpsql.sql.lineage.relation import Field, Identity, Relation
from dpsql.syntax.arguments import NodeArguments
from dpsql.syntax.text import output_name, put

_READ: Final[Mapping[type[exp.Expr], NodeArguments]] = {
    exp.In: NodeArguments("this query"),
    exp.Exists: NodeArguments("this"),
}
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_BRACKETS: Final = NodeArguments("this")  # LIMIT and the like may stand behind them
_PLAIN = frozenset({"expressions", "from_", "joins", "where", "with_", "distinct"})


@dataclass(frozen=True, slots=True)
class SubqueryTest:
    """``subjects [NOT] IN (query)``, or ``[NOT] EXISTS (query)`` without subjects."""

    query: exp.Query
    subjects: tuple[exp.Expr, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class TestedRows:
    """The rows that a test looks among.

    ``values``, one for each subject, and the ``conditions`` are over these rows and the tested one;
    their names are not resolved yet.
    """

    relation: Relation
    values: tuple[exp.Expr, ...]
    conditions: tuple[exp.Expr, ...]


def split_tests(condition: exp.Expr) -> tuple[list[exp.Expr], list[SubqueryTest]]:
    """Split the operands of AND into plain conditions and tests by subquery."""
    parts = [(part, _test(part)) for part in conjuncts(condition)]
    plain = [part for part, test in parts if test is None]
    return plain, [test for _, test in parts if test is not None]


def tests_within(root: exp.Expr) -> Iterator[tuple[exp.Expr, SubqueryTest]]:
    """Yield the tests in an expression, each with its node, which is not negated."""
    for node in list(outside_subqueries(root)):
        test = _test(node) if isinstance(node, exp.In | exp.Exists) else None
        if test is not None:
            yield node, test


def _test(condition: exp.Expr) -> SubqueryTest | None:
    """Read a condition as a test, or return None if it is not of this form."""
    negated = False
    while isinstance(condition, exp.Not | exp.Paren):
        negated ^= isinstance(condition, exp.Not)
        condition = condition.this
    subject = condition.this if isinstance(condition, exp.In) else None
    query = condition.args.get("query") if subject is not None else condition.this
    while isinstance(query, exp.Subquery) and _BRACKETS.hold(query):
        query = query.this
    read = _READ.get(type(condition))
    if read is None or not read.hold(condition) or not isinstance(query, exp.Query):
        return None
    row = subject.unnest() if subject is not None else None
    subjects = row.expressions if isinstance(row, exp.Tuple) else [subject] if subject else []
    return SubqueryTest(query, tuple(subjects), negated)


def is_plain(query: exp.Query) -> bool:
    """Tell whether a query's rows are those of its FROM clause that satisfy its WHERE."""
    clauses = {clause for clause, value in query.args.items() if value}
    aggregates = any(isinstance(n, exp.AggFunc) for i in query.selects for n in i.walk())
    distinct = query.args.get("distinct")
    return (
        isinstance(query, exp.Select)
        and "from_" in clauses
        and clauses <= _PLAIN
        and not aggregates
        and (distinct is None or not distinct.args.get("on"))
    )


def semi_joined(names: Names, source: Relation, test: SubqueryTest, found: TestedRows) -> Relation:
    """Keep the rows that pass a test.

    Raises ``QueryRefused`` or ``UnknownName`` for conditions that are not of single rows, or that
    compare rows of two units.
    """
    matching = _Matching(names, source, test, found)
    conditions = matching.unless_unknown if test.negated else matching.true
    rows = SemiJoin(source.rows, found.relation.rows, conditions, negated=test.negated)
    kept = replace(matching.together, rows=rows)
    if not test.negated or matching.unknown_alone is None:
        return kept
    return replace(kept, rows=Filter(rows, exp.not_(matching.unknown_alone)))


def marked(
    names: Names, source: Relation, node: exp.Expr, test: SubqueryTest, found: TestedRows
) -> tuple[Relation, exp.Expr]:
    """Add the truth value of a test to each row; return the rows, and what stands for the test.

    Raises as :func:`semi_joined`.
    """
    matching = _Matching(names, source, test, found)
    among = found.relation
    rows, name = _with_truth(names, source.rows, among, matching.true)
    if test.subjects and not asks_if_true(node):
        unknown = [] if matching.unknown_alone is None else [matching.unknown_alone]
        if matching.unless_unknown != matching.true:
            rows, other = _with_truth(names, rows, among, matching.unless_unknown)
            unknown.append(generated_column(other))
        ifs = [
            exp.If(this=generated_column(name), true=exp.true()),
            exp.If(this=exp.or_(*unknown), true=exp.cast(exp.Null(), exp.DType.BOOLEAN)),
        ]
        rows, name = _with_column(names, rows, exp.Case(ifs=ifs, default=exp.false()))
    read = [
        source.field_of(column.name)
        for each in matching.true
        for column in each.find_all(exp.Column)
    ]
    own = [field for field in read if field is not None]
    told = any(field.identity is not Identity.NONE for field in own)
    field = Field(
        *("", name, name, BOOLEAN),
        merged=True,  # no star means it
        identity=Identity.DERIVED if told and not among.private else Identity.NONE,
        single=all(field.single for field in own),
    )
    shown = replace(matching.together, rows=rows, fields=(*source.fields, field))
    return shown, resolved_column(name, output_name(node))


def _with_truth(
    names: Names, rows: RowSet, among: Relation, conditions: tuple[exp.Expr, ...]
) -> tuple[RowSet, str]:
    """Add a column to rows: whether a row ``among`` others fulfils the conditions with it.

    Returns its name as well.
    """
    parts = [part for condition in conditions for part in conjuncts(condition)]
    types = {column.name: column.type for column in (*rows.columns, *among.rows.columns)}
    theirs = {column.name for column in among.rows.columns}
    alone = [c for c in parts if {column.name for column in c.find_all(exp.Column)} <= theirs]
    pairs = {}
    for pair in pairs_of(parts):
        one, other = pair if pair.other in theirs else (pair.other, pair.one)
        if one not in theirs and other in theirs and types[one].compares_exactly(types[other]):
            pairs[other] = one
    if pairs and len(pairs) + len(alone) == len(parts):
        right = among.rows if not alone else Filter(among.rows, exp.and_(*alone))
        new = {other: names.new_column() for other in pairs}
        found = Rename(Distinct(right, tuple(pairs)), tuple(new.items()))
        equal = [
            exp.EQ(this=generated_column(one), expression=generated_column(new[other]))
            for other, one in pairs.items()
        ]
        joined = Join(rows, found, JoinKind.LEFT, tuple(equal))
        return _with_column(names, joined, exp.not_(_is_null(equal[0].expression)))
    (left, yes), (right, no) = (
        _with_column(names, SemiJoin(rows, among.rows, conditions, negated=not truth), value)
        for truth, value in ((True, exp.true()), (False, exp.false()))
    )
    kept = tuple((column.name, column.name, column.name) for column in rows.columns)
    columns = (*kept, (yes, no, yes))
    return Combined(left, right, SetOperator.UNION, distinct=False, names=columns), yes


def _with_column(names: Names, rows: RowSet, value: exp.Expr) -> tuple[RowSet, str]:
    """Add a truth value to rows; return its name as well."""
    name = names.new_column()
    made = Extend(rows, (Computed(name, value),))
    return Typed(made, (Column(name, BOOLEAN),)), name


class _Matching:
    """The conditions on which a row of those found matches a tested row, names resolved.

    ``together`` are the tested rows, with all tables that they depend on now. All of ``true`` hold
    of a match; all of ``unless_unknown`` of whatever keeps the test from being false.
    ``unknown_alone`` says of a tested row that its test is unknown, whatever rows there are.
    """

    def __init__(
        self, names: Names, source: Relation, test: SubqueryTest, found: TestedRows
    ) -> None:
        rows = found.relation
        self._names, self._both = names, replace(source, fields=source.fields + rows.fields)
        subjects = [self._resolved(subject, source) for subject in test.subjects]
        values = [self._resolved(value, rows, source) for value in found.values]
        inside = [self._resolved(each, rows, source) for each in found.conditions]
        equal = [
            exp.EQ(this=exp.Paren(this=one), expression=exp.Paren(this=other))
            for one, other in zip(subjects, values, strict=True)
        ]
        for pair in equal:
            refuse_unlike(pair, self._both.type_of, names.text)
        self.true = (*inside, *equal)
        self.unknown_alone: exp.Expr | None = None
        self.together = source
        # What makes rows belong to one unit is compared as it is, and is never NULL in both.
        plain: list[exp.EQ] = []
        one_unit = not rows.private or is_one_unit(source, rows, list(pairs_of(inside)))
        units = None if one_unit else units_equal(source, rows, list(pairs_of(inside)))
        if not one_unit and units is None:
            units = units_equal(source, rows, list(pairs_of(self.true)))
            if units is not None:
                self.unknown_alone = exp.or_(*(_is_null(pair.this) for pair in equal))
        if units is not None:
            inside.append(units)
            self.true = (*inside, *equal)
        elif not one_unit:
            pairs = list(pairs_of(self.true))
            refuse_two_units(source, rows, pairs, test.query, names.text)
            binding = (p for p in equal if is_one_unit(source, rows, list(pairs_of([*inside, p]))))
            plain = list(islice(binding, 1)) or equal
            self.unknown_alone = exp.or_(*(_is_null(pair.this) for pair in plain))
        self.unless_unknown = (*inside, *(p if p in plain else _or_unknown(p) for p in equal))
        if rows.private:
            self.together = depending_on(source, rows)

    def _resolved(self, node: exp.Expr, *relations: Relation) -> exp.Expr:
        holder = exp.Paren(this=in_known_words(node.copy(), self._both))
        for column in columns_below(holder):
            seen = [r for r in relations if r.matches(column.table, column.name)]
            self._names.resolve_column(column, seen[0] if seen else self._both)
        check_row_expression(holder.this, self._names.text)
        refuse_unlike(holder.this, self._both.type_of, self._names.text)
        resolved: exp.Expr = holder.this
        return resolved


def _or_unknown(pair: exp.EQ) -> exp.Expr:
    return exp.or_(pair, _is_null(pair.this), _is_null(pair.expression))


def asks_if_true(node: exp.Expr) -> bool:
    """Tell whether a truth value that is unknown has the effect of a false one at its place."""
    above = node.parent
    while isinstance(above, exp.And | exp.Or | exp.Paren):
        above = above.parent
    return isinstance(above, exp.Where)


def quantified_as_tests(names: Names, root: exp.Expr, source: Relation) -> None:
    """Write ``x > ALL (SELECT …)`` and ``x < ANY (SELECT …)`` with EXISTS, in place.

    ALL is false where some value is not so compared, and ANY true where one is; else they are
    unknown where the comparison with some value is. What is compared is named as ``source`` has it,
    so that no column of the subquery is meant. Other forms are left as they are.
    """
    for node in list(outside_subqueries(root)):
        word = node.expression if isinstance(node, _COMPARISONS) else None
        query = word.this.unnest() if isinstance(word, exp.Any | exp.All) else None
        if not isinstance(query, exp.Select) or not is_plain(query) or len(query.selects) != 1:
            continue
        value = query.selects[0].unalias()
        subject = exp.Paren(this=node.this.copy())
        columns = columns_below(subject)
        known = all(len(source.matches(column.table, column.name)) == 1 for column in columns)
        if not known or isinstance(value, exp.Star) or subject.find(exp.Query):
            continue
        for column in columns:
            names.resolve_column(column, source)
            mark_resolved(column)
        compared = exp.paren(type(node)(this=subject.this, expression=exp.paren(value.copy())))
        every = isinstance(word, exp.All)
        deciding = exp.Not(this=compared.copy()) if every else compared.copy()
        if asks_if_true(node):
            if every:
                deciding = exp.Not(this=exp.Is(this=compared.copy(), expression=exp.true()))
            decided = _exists(query, deciding)
            put(node, exp.Not(this=decided) if every else decided)
            continue
        unknown = exp.cast(exp.null(), exp.DType.BOOLEAN)
        ifs = [
            exp.If(this=_exists(query, deciding), true=exp.Boolean(this=not every)),
            exp.If(this=_exists(query, _is_null(compared)), true=unknown),
        ]
        put(node, exp.paren(exp.Case(ifs=ifs, default=exp.Boolean(this=every))))


def _exists(query: exp.Select, condition: exp.Expr) -> exp.Exists:
    """Ask whether some row of a plain subquery fulfils a condition, too."""
    query = query.copy()
    query.set("expressions", [exp.Literal.number(1)])
    query.set("distinct", None)
    where = query.args.get("where")
    parts = [condition] if where is None else [exp.paren(where.this.copy()), condition]
    query.set("where", exp.Where(this=exp.and_(*parts)))
    return exp.Exists(this=query)


def _is_null(node: exp.Expr) -> exp.Is:
    return exp.Is(this=exp.paren(node), expression=exp.Null())


def refuse_form(test: SubqueryTest, text: str, *, private: bool) -> NoReturn:
    """Refuse a subquery whose rows are not those of tables. Raises ``QueryRefused``."""
    reason = "this form of subquery cannot stand in a condition over private rows"
    hint = "IN and EXISTS may ask for rows of tables: (SELECT column FROM table WHERE …)."
    if private:
        reason = "released groups cannot stand in a condition over private rows"
        hint = "Ask for the groups first, and write their names as a list: x IN ('a', 'b')."
    refused = refusal(text, reason, "subquery_over_private_rows", test.query, hint=hint)
    raise after_answering(test.query, refused)


def row_parts(select: exp.Select, source: Relation) -> list[exp.Expr]:
    """List a SELECT's expressions over single rows, beside its WHERE.

    These are its keys, wherever they are written, and the arguments of aggregates.
    """
    items = [item.unalias() for item in select.expressions]
    group = select.args.get("group")
    terms = (
        []
        if group is None
        else [
            term if isinstance(term, exp.Subquery) else term.unnest() for term in group.expressions
        ]
    )
    whole = group is not None and bool(group.args.get("all"))
    if whole or (group is None and select.args.get("distinct") is not None):
        keys = [item for item in items if not any(map(is_aggregate, outside_subqueries(item)))]
    else:
        named = aliases_of(select)
        keys = []
        for term in terms:
            if isinstance(term, exp.Literal) and term.is_int and 1 <= int(term.name) <= len(items):
                keys.append(items[int(term.name) - 1])
            elif isinstance(term, exp.Column) and not source.matches(term.table, term.name):
                keys += [named[fold(term.name)]] if fold(term.name) in named else []
            else:
                keys.append(term)
    said = set(keys)
    clauses = [select.args.get(name) for name in ("having", "qualify", "order")]
    roots = [*items, *(clause for clause in clauses if clause is not None)]
    nodes = [node for root in roots for node in outside_subqueries(root)]
    found = [node for node in nodes if is_aggregate(node) or node in said]
    return list({id(node): node for node in [*keys, *found]}.values())
