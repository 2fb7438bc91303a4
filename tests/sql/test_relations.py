# ruff: noqa: E501
"""Relations are values that name no engine, and each dialect writes them in its own words."""

from __future__ import annotations

import ast
import gc
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from helpers.columns import column_of
from helpers.linked_tables import BIND, CREATE, planned_here
from helpers.sql_text import generated, text
from helpers.support import SALT
from sqlglot import exp
from test_lineage_equivalence import CORPUS, FILL, NOBODY

from dpsql.core.schema import Column, Table
from dpsql.core.sql import EMPTY_SQL, Sql, name
from dpsql.core.sql import sql as template
from dpsql.core.sql_types import UNKNOWN
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.duckdb.dialect import DUCKDB, DuckDBDialect
from dpsql.errors import QueryRefused
from dpsql.ir import relations as algebra
from dpsql.ir.relations import (
    BinaryOperator,
    Combined,
    Computed,
    Derived,
    Distinct,
    EachRow,
    Extend,
    Filter,
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
    ViewScan,
    bottom_up,
)
from dpsql.kinds.registry import release_kind
from dpsql.pipeline.kept.description import VOCABULARY, Descriptions
from dpsql.sql import lineage
from dpsql.sql.relations import from_clause as writer
from dpsql.sql.relations.from_clause import FromClauses, from_clause

described = Descriptions(VOCABULARY).of


def tree(text: str) -> exp.Expr:
    """An expression over columns in quotes, as lineage leaves it."""
    found = sqlglot.parse_one(text, read="duckdb")
    for column in found.find_all(exp.Column):
        column.this.set("quoted", True)
    return found


def scan(name: str, *columns: str) -> Scan:
    split = (column.split(maxsplit=1) for column in columns)
    return Scan(Table(name, tuple(column_of(each, type_) for each, type_ in split)))


def t() -> Scan:
    return scan("t", "u BIGINT", "x DOUBLE", "s VARCHAR")


def p() -> Scan:
    return scan('p"', "k BIGINT", "z INTEGER")


def values(function: UnitFunction, argument: str | None = "x") -> PerUnit:
    """Groups by ``u`` with one value."""
    value = UnitValue("v", function, None if argument is None else tree(argument))
    return PerUnit(t(), (Computed("g", tree("u")),), (value,))


SHORT = '(SELECT "u", "x", CASE WHEN strlen("s") <= 16384 THEN "s" END AS "s" FROM "t")'

NODES: dict[str, tuple[Callable[[], RowSet], str]] = {
    "scan": (t, '"t"'),
    "a name with a quote": (p, '"p"""'),
    "numbers": (lambda: NumberedRows("n", 3), 'range(1, 4) AS "__dpsql_numbers"("n")'),
    "rename": (lambda: Rename(t(), (("x", "a"), ("u", 'b"'))), '(SELECT "x" AS "a", "u" AS "b""" FROM "t")'),
    "each row": (lambda: EachRow(p(), "r"), '(SELECT *, row_number() OVER () AS "r" FROM "p""")'),
    "filter": (lambda: Filter(t(), tree("x > 1")), '(SELECT * FROM "t" WHERE "x" > 1)'),
    "sampled": (lambda: Sampled(t(), Fraction(1, 10)), '"t"'),
    "a condition that could fail": (
        lambda: Filter(t(), tree("s::INT = 1 OR x > 1")),
        '(SELECT * FROM "t" WHERE TRY(TRY_CAST("s" AS INT) = 1) OR "x" > 1)',
    ),
    "extend": (
        lambda: Extend(t(), (Computed("a", tree("x + 1")), Computed("b", tree("s")))),
        '(SELECT *, TRY("x" + 1) AS "a", "s" AS "b" FROM "t")',
    ),
    "typed": (
        lambda: Typed(Extend(t(), (Computed("a", tree("s")),)), (column_of("a", "VARCHAR"),)),
        '(SELECT *, "s" AS "a" FROM "t")',
    ),
    "types of computed columns are used": (
        lambda: Filter(Typed(Extend(t(), (Computed("a", tree("s")),)), (column_of("a", "VARCHAR"),)), tree("a = 'y'")),
        """(SELECT * FROM (SELECT *, "s" AS "a" FROM "t") WHERE "a" = 'y')""",
    ),
    "distinct": (lambda: Distinct(t(), ("s", "u")), '(SELECT DISTINCT "s", "u" FROM "t")'),
    "one spelling": (
        lambda: OneSpelling(t(), ("x", "s"), ("u",)),
        """(SELECT CASE WHEN isnan("x") THEN CAST('NaN' AS DOUBLE) ELSE "x" + 0 END AS "x", "s" AS "s", "u" FROM "t")""",
    ),
    "one spelling as it is": (lambda: OneSpelling(t(), ("s", "u")), '"t"'),
    "rows of a unit": (lambda: values(UnitFunction.ROWS, None), '(SELECT "u" AS "g", count(*) AS "v" FROM "t" GROUP BY 1)'),
    "values of a unit": (lambda: values(UnitFunction.VALUES), '(SELECT "u" AS "g", count("x") AS "v" FROM "t" GROUP BY 1)'),
    "distinct values": (
        lambda: values(UnitFunction.DISTINCT_VALUES, "x + 1"),
        '(SELECT "u" AS "g", count(DISTINCT TRY("x" + 1)) AS "v" FROM "t" GROUP BY 1)',
    ),
    "sum of integers": (
        lambda: values(UnitFunction.WHOLE_SUM, "u"),
        '(SELECT "u" AS "g", TRY_CAST(sum(TRY_CAST("u" AS BIGINT)) AS BIGINT) AS "v" FROM "t" GROUP BY 1)',
    ),
    "sum": (
        lambda: values(UnitFunction.SUM),
        '(SELECT "u" AS "g", CAST(sum(TRY_CAST("x" AS DECIMAL(25, 8))) AS DOUBLE) AS "v" FROM "t" GROUP BY 1)',
    ),
    "average": (
        lambda: values(UnitFunction.AVERAGE),
        '(SELECT "u" AS "g", CAST(sum(TRY_CAST("x" AS DECIMAL(25, 8))) AS DOUBLE) / count(TRY_CAST("x" AS DECIMAL(25, 8))) AS "v" FROM "t" GROUP BY 1)',
    ),
    "least": (lambda: values(UnitFunction.LEAST), '(SELECT "u" AS "g", min("x") AS "v" FROM "t" GROUP BY 1)'),
    "largest": (lambda: values(UnitFunction.LARGEST), '(SELECT "u" AS "g", max("x") AS "v" FROM "t" GROUP BY 1)'),
    "several keys": (
        lambda: PerUnit(t(), (Computed("g", tree("u")), Computed("h", tree("x / 2"))), ()),
        '(SELECT "u" AS "g", TRY("x" / 2) AS "h" FROM "t" GROUP BY 1, 2)',
    ),
    "places of rows": (
        lambda: Placed(
            t(),
            (
                PlaceValue("v", PlaceFunction.BEFORE, "s", ("u",), (Sorted("x", True, True), Sorted("s")), 2),
                PlaceValue("w", PlaceFunction.ROWS, None, ("u", "s"), ()),
            ),
        ),
        '(SELECT *, lag("s", 2) OVER (PARTITION BY "u" ORDER BY "x" DESC NULLS FIRST, "s" NULLS LAST) AS "v", '
        'count(*) OVER (PARTITION BY "u", "s") AS "w" FROM "t")',
    ),
    "join": (
        lambda: Join(t(), p(), JoinKind.INNER, (tree("u = k"), tree("s = z"))),
        '"t" JOIN "p""" ON (("u" = "k") AND (TRY("s" = "z")))',
    ),
    "left join": (lambda: Join(t(), p(), JoinKind.LEFT, (tree("u = k"),)), f'{SHORT} LEFT JOIN "p""" ON (("u" = "k"))'),
    "right join": (lambda: Join(t(), p(), JoinKind.RIGHT, (tree("u = k"),)), f'{SHORT} RIGHT JOIN "p""" ON (("u" = "k"))'),
    "every pair": (lambda: Join(t(), p(), JoinKind.INNER, ()), f'{SHORT} JOIN "p""" ON (TRUE)'),
    "along a link": (lambda: LinkJoin(t(), p(), "u", "k"), '"t" JOIN "p""" ON ("u" = "k")'),
    "semi join": (lambda: SemiJoin(t(), p(), (tree("u = k"),), negated=False), '"t" SEMI JOIN "p""" ON (("u" = "k"))'),
    "anti join": (lambda: SemiJoin(t(), p(), (), negated=True), '"t" ANTI JOIN "p""" ON (TRUE)'),
    "union all": (
        lambda: Combined(t(), p(), SetOperator.UNION, False, (("x", "z", "a"), ("u", "k", "b"))),
        '(SELECT "x" AS "a", "u" AS "b" FROM "t" UNION ALL SELECT "z" AS "a", "k" AS "b" FROM "p""")',
    ),
    "except": (
        lambda: Combined(t(), p(), SetOperator.EXCEPT, True, (("u", "k", "b"),)),
        '(SELECT "u" AS "b" FROM "t" EXCEPT SELECT "k" AS "b" FROM "p""")',
    ),
    "intersect": (
        lambda: Combined(t(), p(), SetOperator.INTERSECT, True, (("u", "k", "b"),)),
        '(SELECT "u" AS "b" FROM "t" INTERSECT SELECT "k" AS "b" FROM "p""")',
    ),
}  # fmt: skip


KINDS = {
    found
    for name, found in vars(algebra).items()
    if isinstance(found, type) and issubclass(found, RowSet) and found is not RowSet
    if not name.startswith("_")
} - {ViewScan, BinaryOperator, Derived}
"""All nodes, but for abstract ones and rows of materialized views: no statement reads these."""


# -- values ---------------------------------------------------------------------------------------


def test_every_node_stands_among_them() -> None:
    assert {type(build()) for build, _ in NODES.values()} == KINDS


@pytest.mark.few(100)
@pytest.mark.parametrize("name", NODES)
def test_a_relation_is_a_value(name: str) -> None:
    build, _ = NODES[name]
    one, other = build(), build()
    assert one is not other
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))
    assert one.columns == other.columns
    assert described(one) == described(other)
    for field in fields(one):
        with pytest.raises(FrozenInstanceError):
            setattr(one, field.name, None)


def test_different_relations_are_told_apart() -> None:
    found = [build() for build, _ in NODES.values()]
    assert len(set(found)) == len(found)
    assert len(set(map(described, found))) == len(found)


def test_a_rebuilt_relation_knows_its_columns() -> None:
    renamed = Rename(t(), (("x", "a"),))
    assert renamed.columns == (column_of("a", "DOUBLE"),)
    assert replace(renamed, names=(("u", "a"),)).columns == (column_of("a", "BIGINT"),)


def test_layout_of_an_expression_does_not_change_the_fingerprint() -> None:
    plain, spaced = (
        Filter(t(), tree(text)) for text in ("x > 1 AND u = 7", "((x > 1)) AND (u = 007)")
    )
    assert described(plain) == described(spaced)
    assert described(plain) != described(Filter(t(), tree("x > 1 AND u = 8")))


@pytest.mark.slow
def test_no_engine_is_in_a_relation() -> None:
    """What lineage builds does not depend on the dialect that it asks for types."""
    for sql in CORPUS:
        one, other = (planned_here(sql, dialect=dialect).plans for dialect in (DUCKDB, STRICT))
        assert [plan.block.source for plan in one] == [plan.block.source for plan in other]
        assert list(map(described, one)) == list(map(described, other))


@pytest.mark.slow
def test_lineage_writes_no_sql() -> None:
    """It hands the dialect on to the writer of what it asks the types of, and calls none of it."""
    calls = {"quote", "derived", "semi_join", "try_cast", "try_", "literal", "limited", "total_sql"}
    for path in Path(lineage.__path__[0]).glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used |= {
            alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
        }
        assert not used & calls, path.name


# -- columns --------------------------------------------------------------------------------------


def relations(sql: str) -> Iterator[RowSet]:
    """Each node of what a statement reads."""
    for plan in planned_here(sql).plans:
        yield from bottom_up(plan.block.source.rows)


@pytest.mark.slow
def test_a_relation_has_the_columns_that_it_says() -> None:
    met: Counter[type[RowSet]] = Counter()
    for node in (node for sql in CORPUS for node in relations(sql)):
        found = BIND(generated(f"SELECT * FROM {text(from_clause(node, DUCKDB))}"))
        met[type(node)] += 1
        assert [c.name for c in node.columns] == [c.name for c in found]
        known = [(c.name, c.type) for c in node.columns if c.type != UNKNOWN]
        if not isinstance(node, Combined):  # whose types are settled once the engine was asked
            assert set(known) <= {(c.name, c.type) for c in found}
        if isinstance(node, Typed):
            assert all(c.type != UNKNOWN for c in node.columns)
    # No table of the corpus has rows that are units, and samples are no part of a block's rows.
    assert set(met) == KINDS - {EachRow, Sampled}


# -- writing --------------------------------------------------------------------------------------


@pytest.mark.few(100)
@pytest.mark.parametrize("name", NODES)
def test_duckdb_writes_it(name: str) -> None:
    build, expected = NODES[name]
    assert text(from_clause(build(), DUCKDB)) == expected
    assert text(FromClauses(DUCKDB).text(build())) == expected


def test_what_is_computed_and_what_is_read_are_statements() -> None:
    written, rows = FromClauses(DUCKDB), Extend(t(), (Computed("a", tree("x + 1")),))
    assert text(written.computed(rows)) == 'SELECT TRY("x" + 1) AS "a" FROM "t"'
    assert written.selected(rows, ["u", "a"]) == template(
        "SELECT {}, {} FROM {}", name("u"), name("a"), written.text(rows)
    )


def counting() -> tuple[Dialect, Counter[str]]:
    """A dialect that counts what it is asked for."""
    asked: Counter[str] = Counter()

    def counted(method: str) -> Callable[..., Any]:
        plain = getattr(DuckDBDialect, method)

        def spell(*args: Any, **named: Any) -> Any:
            asked[method] += 1
            return plain(*args, **named)

        return spell

    methods = {m: counted(m) for m in ("expression", "derived", "semi_join")}
    return type("Counting", (DuckDBDialect,), {"__slots__": (), **methods})(), asked


def test_each_node_is_written_once() -> None:
    dialect, asked = counting()
    written, shared = FromClauses(dialect), Extend(t(), (Computed("a", tree("x + 1")),))
    written.computed(shared)
    whole = Combined(shared, shared, SetOperator.UNION, False, (("a", "x", "b"),))
    for _ in range(3):
        written.text(whole)
        written.text(Filter(whole, tree("b > 0")))
    assert asked == {"expression": 1 + 3, "derived": 2 + 3}


def test_a_statement_is_planned_without_writing_anything_twice() -> None:
    dialect, asked = counting()
    sql = (
        "WITH v AS (SELECT uid, k + 1 AS k, n FROM visits WHERE n > 3 AND s LIKE 'a%') "
        "SELECT a.k, count(*) FROM v a JOIN v b ON a.uid = b.uid AND a.k < b.n "
        "WHERE a.k IN (SELECT size FROM shops) GROUP BY a.k"
    )
    plan = planned_here(sql, dialect=dialect).plans[0]
    nodes, first = list(bottom_up(plan.block.source.rows)), Counter(asked)
    release_kind(plan).statement(SALT, dialect)  # as each further run of the statement
    again = asked - first
    derived = (Rename, Filter, Extend, PerUnit, Combined)
    assert first["derived"] - again["derived"] == sum(isinstance(n, derived) for n in nodes) == 5
    assert first["semi_join"] == sum(isinstance(n, SemiJoin) for n in nodes) == 1
    assert again["semi_join"] == 0


@pytest.mark.slow
def test_what_is_kept_goes_with_the_relation() -> None:
    rows = Filter(t(), tree("x > 41"))
    written = from_clause(rows, DUCKDB)
    assert from_clause(rows, DUCKDB) is written
    place = id(rows)
    assert place in writer._KEPT._found
    del rows
    gc.collect()
    assert place not in writer._KEPT._found


def test_each_dialect_has_its_own_text() -> None:
    rows = SemiJoin(t(), p(), (tree("u = k"),), negated=False)
    texts = [text(from_clause(rows, each)) for each in (DUCKDB, STRICT, DUCKDB, STRICT)]
    assert texts[:2] == texts[2:]
    assert "EXISTS" not in texts[0]
    assert "EXISTS" in texts[1]


@pytest.mark.slow
def test_depth_is_no_limit() -> None:
    rows: RowSet = t()
    for _ in range(1200):
        rows = Filter(rows, tree("x > 1"))
    assert text(from_clause(rows, DUCKDB)).count("WHERE") == 1200
    assert described(rows) != described(Filter(rows, tree("x > 1")))


def test_what_is_read_twice_at_every_step_has_a_fingerprint() -> None:
    def doubled(times: int) -> RowSet:
        rows: RowSet = t()
        for _ in range(times):
            rows = Combined(rows, rows, SetOperator.UNION, False, (("u", "u", "u"),))
        return rows

    assert described(doubled(100)) == described(doubled(100)) != described(doubled(101))
    assert len(list(bottom_up(doubled(100)))) == 101


def test_a_node_that_nobody_writes_is_no_text() -> None:
    class Odd(Filter):
        __slots__ = ()

    assert from_clause(Odd(t(), tree("x > 1")), DUCKDB) == from_clause(
        Filter(t(), tree("x > 1")), DUCKDB
    )

    class Other(RowSet):
        __slots__ = ()
        sources = ()

        def _columns(self) -> tuple[Column, ...]:
            return ()

    with pytest.raises(TypeError, match="Other"):
        from_clause(Other(), DUCKDB)


# -- another engine -------------------------------------------------------------------------------


class StrictDialect(DuckDBDialect):
    """An engine in which derived tables must have aliases, and there are no joins for semi joins."""

    __slots__ = ()

    name = "strict"

    def derived(self, statement: Sql, alias: Sql = EMPTY_SQL) -> Sql:
        digest = hashlib.sha256(text(statement).encode()).hexdigest()[:12]
        return template("({}) AS {}", statement, alias or name(f"__dpsql_t_{digest}"))

    def semi_join(self, left: Sql, right: Sql, condition: Sql, *, negated: bool) -> Sql:
        found = template("EXISTS (SELECT 1 FROM {} WHERE {})", right, condition)
        kept = template("NOT {}", found) if negated else found
        return self.derived(template("SELECT * FROM {} WHERE {}", left, kept))


class TimidDialect(DuckDBDialect):
    """An engine without any function of its own."""

    __slots__ = ()

    def expression(self, tree: exp.Expr, table: Table) -> Sql:
        if tree.find(exp.Func, exp.Anonymous) is not None:
            raise QueryRefused("not here", code="expression_not_allowed")
        return super().expression(tree, table)


STRICT, TIMID = StrictDialect(), TimidDialect()


def complaints(sql: str) -> list[str]:
    """What the strict engine would not accept: two tables of one name, or one without, or a join."""
    found = []
    for select in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Select):
        from_ = select.args.get("from_")
        joins = select.args.get("joins") or []
        todo = [*([from_.this] if from_ is not None else []), *(join.this for join in joins)]
        sources = []
        for source in todo:
            if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Subquery):
                todo.append(source.this)  # a join in brackets
                within = source.this.args.get("joins") or []
                joins = [*joins, *within]
                todo += [join.this for join in within]
            else:
                sources.append(source)
        names = [source.alias_or_name for source in sources]
        found += [f"unnamed: {s}" for s in sources if isinstance(s, exp.Subquery) and not s.alias]
        found += [f"twice: {name}" for name, times in Counter(names).items() if times > 1]
        found += [f"join: {join.kind}" for join in joins if join.kind in ("SEMI", "ANTI")]
    return found


TOLD = "SELECT count(*), sum(hash(r)::HUGEINT) FROM ({}) AS r"
"""What rows are told apart by, in whatever order they come."""


@pytest.fixture(scope="module")
def filled() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": "2"}) as connection:
        for statement in (*CREATE, *FILL, *NOBODY):
            connection.execute(statement)
        yield connection


def pairs(sql: str) -> Iterator[tuple[str, str]]:
    """What reads a statement's rows, and what computes its exact rows: here, and over there."""
    ours, theirs = planned_here(sql), planned_here(sql, dialect=STRICT)
    for one, other in zip(ours.plans, theirs.plans, strict=True):
        texts = (
            text(from_clause(one.block.source.rows, DUCKDB)),
            text(from_clause(other.block.source.rows, STRICT)),
        )
        yield f"SELECT * FROM {texts[0]}", f"SELECT * FROM {texts[1]}"
    for here, there in zip(ours.statements, theirs.statements, strict=True):
        # Row numbers are in the order in which rows come, which is left open.
        numbered = "SELECT * EXCLUDE (__dpsql_rid) FROM ({}) AS q"
        yield numbered.format(here), numbered.format(there)


@pytest.mark.slow
def test_another_engine_writes_all_in_its_own_way() -> None:
    found = [texts for sql in CORPUS for texts in pairs(sql)]
    assert [theirs for _, theirs in found if complaints(theirs)] == []
    assert sum(complaints(ours) != [] for ours, _ in found) > 100


@pytest.mark.few(20)
@pytest.mark.parametrize("sql", CORPUS)
def test_another_engine_reads_the_same_rows(sql: str, filled: duckdb.DuckDBPyConnection) -> None:
    for texts in pairs(sql):
        ours, theirs = (filled.sql(TOLD.format(text)).fetchall() for text in texts)
        assert ours == theirs


def test_an_engine_refuses_what_it_cannot_compute_where_the_rows_are_written() -> None:
    plain, computed = Filter(t(), tree("x > 1")), Filter(t(), tree("s::INT > 1"))
    assert from_clause(plain, TIMID) == from_clause(plain, DUCKDB)
    assert "TRY" in text(from_clause(computed, DUCKDB))
    with pytest.raises(QueryRefused):
        from_clause(computed, TIMID)
    with pytest.raises(QueryRefused):
        planned_here("SELECT count(*) FROM (SELECT upper(s) AS s FROM visits)", dialect=TIMID)
