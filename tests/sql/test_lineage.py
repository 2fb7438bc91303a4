# ruff: noqa: E501
"""Whose rows they are, told from the SQL: what is accepted, what is refused, and where."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import duckdb
import pytest
from helpers.columns import column_of
from helpers.linked_tables import BIND, POLICY_TABLES, RULES, SCHEMA
from helpers.present import present
from helpers.sql_text import generated, text
from helpers.support import binding

import dpsql
from dpsql.core.schema import Column, Schema, Table, schema_of
from dpsql.core.sql import Sql
from dpsql.core.sql_types import SqlType
from dpsql.engines.duckdb.dialect import DUCKDB
from dpsql.ir.measures import AggregateKind
from dpsql.ir.query import Block, Query
from dpsql.planner.groups import with_groups_decided
from dpsql.policy.model import ColumnPolicy, Policy, PrivacyUnit, TablePolicy
from dpsql.policy.resolve import resolve
from dpsql.sql.blocks.validate import validate
from dpsql.sql.relations.from_clause import from_clause
from dpsql.syntax.parse import parse


def query_of(sql: str, rules: Policy = RULES, schema: Schema = SCHEMA) -> Query:
    """The statement split into blocks, each of which the engine can bind."""
    bind = BIND if schema is SCHEMA else binding(schema)
    query = validate(
        parse(sql), sql, rules, schema, resolve(rules), bind, DUCKDB, with_groups_decided
    )
    for found in query.blocks:
        bind(generated(f"SELECT {found.unit_column} FROM {rows_of(found)}"))
    return query


def rows_of(found: Block) -> str:
    """The FROM clause of a block."""
    return text(from_clause(found.source.rows, DUCKDB))


def block(sql: str) -> Block:
    (found,) = query_of(sql).blocks
    return found


def refusal(sql: str, rules: Policy = RULES, schema: Schema = SCHEMA) -> dpsql.Error:
    with pytest.raises(dpsql.Error) as caught:
        query_of(sql, rules, schema)
    error = caught.value
    assert "__dpsql" not in f"{error} {error.reason} {error.hint}"
    return error


def kinds(sql: str) -> list[AggregateKind]:
    return [aggregate.kind for aggregate in block(sql).aggregates]


# -- the unit is recognised wherever it went ------------------------------------------------------

UNITS_COUNTED = [
    "SELECT count(DISTINCT uid) FROM people",
    "SELECT count(DISTINCT u) FROM (SELECT uid AS u FROM people)",
    "SELECT count(DISTINCT t.u) FROM (SELECT uid AS u FROM people) t",
    "SELECT count(DISTINCT u) FROM (SELECT v AS u FROM (SELECT UID AS v FROM people))",
    "SELECT count(DISTINCT u) FROM (SELECT (uid) AS u FROM people)",
    "SELECT count(DISTINCT n) FROM (SELECT uid AS n, n AS uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT * FROM people)",
    "SELECT count(DISTINCT uid) FROM (SELECT p.* FROM people p)",
    "SELECT count(DISTINCT z) FROM (SELECT * FROM visits) t(z)",
    "SELECT count(DISTINCT z) FROM visits AS t(z, y)",
    "WITH a AS (SELECT uid FROM people) SELECT count(DISTINCT uid) FROM a",
    "WITH a(z) AS (SELECT uid FROM people) SELECT count(DISTINCT z) FROM a",
    "WITH a AS (SELECT uid AS u FROM people), b AS (SELECT u AS w FROM a) "
    "SELECT count(DISTINCT w) FROM b",
    "WITH a AS (WITH b AS (SELECT uid AS u FROM people) SELECT u AS w FROM b) "
    "SELECT count(DISTINCT w) FROM a",
    "SELECT count(DISTINCT p.uid) FROM people p JOIN visits v ON p.uid = v.uid",
    "SELECT count(DISTINCT v.uid) FROM people p JOIN visits v ON p.uid = v.uid",
    "SELECT count(DISTINCT v.uid) FROM people p, visits v WHERE p.uid = v.uid",
    "SELECT count(DISTINCT v.uid) FROM people p, visits v WHERE v.k > 1 AND (v.uid = p.uid)",
    "SELECT count(DISTINCT o.uid) FROM people p JOIN orders o ON p.uid = o.uid",
    "SELECT count(DISTINCT uid) FROM people JOIN visits USING (uid)",
    "SELECT count(DISTINCT visits.uid) FROM people JOIN visits USING (uid)",
    "SELECT count(DISTINCT uid) FROM people NATURAL JOIN visits",
    "SELECT count(DISTINCT uid) FROM people LEFT JOIN visits USING (uid)",
    "SELECT count(DISTINCT uid) FROM people RIGHT JOIN visits USING (uid)",
    "SELECT count(DISTINCT visits.uid) FROM people RIGHT JOIN visits USING (uid)",
    "SELECT count(DISTINCT uid) FROM people SEMI JOIN visits USING (uid)",
    "SELECT count(DISTINCT uid) FROM people ANTI JOIN visits USING (uid)",
    "SELECT count(DISTINCT v.uid) FROM visits v JOIN shops s ON v.uid = s.uid",
    "SELECT count(DISTINCT v.uid) FROM visits v LEFT JOIN shops s ON v.k = s.k",
    "SELECT count(DISTINCT v.uid) FROM shops s RIGHT JOIN visits v ON v.k = s.k",
    "SELECT count(DISTINCT v.uid) FROM (visits v JOIN shops s ON v.k = s.k)",
    "SELECT count(DISTINCT t.uid) FROM (visits v JOIN towns ON v.s = city) AS t",
    "SELECT count(DISTINCT c.uid) FROM visits a JOIN visits b ON a.uid = b.uid JOIN visits c ON "
    "b.uid = c.uid",
    "SELECT count(DISTINCT c.uid) FROM people a LEFT JOIN visits b ON a.uid = b.uid JOIN visits c "
    "ON b.uid = c.uid",
    "SELECT count(DISTINCT a.uid) FROM visits a JOIN visits b JOIN shops c ON b.k = c.k ON "
    "a.uid = b.uid",
    "SELECT count(DISTINCT uid) FROM logins",
    "SELECT count(DISTINCT l.uid) FROM logins l JOIN people p ON l.uid = p.uid",
    "SELECT count(DISTINCT o.uid) FROM items i JOIN orders o ON i.okey = o.okey",
    "SELECT count(DISTINCT o.uid) FROM orders o, items i WHERE i.okey = o.okey",
    "SELECT count(DISTINCT o.uid) FROM returns r JOIN items i ON r.ikey = i.ikey JOIN orders o ON "
    "i.okey = o.okey",
    "SELECT count(DISTINCT p.uid) FROM people p, orders o, items i WHERE p.uid = o.uid AND "
    "o.okey = i.okey",
    "SELECT count(DISTINCT u) FROM (SELECT DISTINCT uid AS u, k FROM visits)",
    "SELECT count(DISTINCT u) FROM (SELECT DISTINCT v.uid AS u, v.k FROM people p JOIN visits v ON "
    "p.uid = v.uid)",
    "SELECT count(DISTINCT u) FROM (SELECT uid AS u, max(n) FROM visits GROUP BY uid)",
    "SELECT count(DISTINCT u) FROM (SELECT uid AS u, k, count(*) FROM visits GROUP BY u, k)",
    "SELECT count(DISTINCT u) FROM (SELECT uid AS u, count(*) FROM visits GROUP BY ALL)",
    "SELECT count(DISTINCT u) FROM (SELECT v.uid AS u FROM people p JOIN visits v USING (uid) "
    "GROUP BY v.uid)",
    "SELECT count(DISTINCT u) FROM (SELECT uid AS u FROM visits UNION ALL SELECT uid FROM orders)",
    "SELECT count(DISTINCT uid) FROM (SELECT uid, k FROM visits UNION SELECT uid, k FROM orders)",
    "SELECT count(DISTINCT uid) FROM (SELECT uid FROM visits INTERSECT SELECT uid FROM logins)",
    "SELECT count(DISTINCT uid) FROM (SELECT uid FROM people EXCEPT SELECT uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT uid FROM people EXCEPT ALL SELECT uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (FROM people)",
    "SELECT count(DISTINCT uid) FROM visits WHERE k IN (SELECT k FROM shops)",
]


@pytest.mark.parametrize("sql", UNITS_COUNTED)
def test_units_are_counted_under_whatever_name_they_have(sql: str) -> None:
    found = block(sql)
    assert [measure.kind.value for measure in found.measures] == ["units"]
    assert found.unit_name == "person"


NOT_UNITS = [
    "SELECT count(DISTINCT uid) FROM (SELECT 1 AS uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT n AS uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT uid + 0 AS uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT CAST(uid AS BIGINT) AS uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT coalesce(uid, 7) AS uid FROM visits)",
    "SELECT count(DISTINCT uid) FROM (SELECT * FROM visits) t(k, uid)",
    "WITH a(k, uid) AS (SELECT uid, k FROM visits) SELECT count(DISTINCT uid) FROM a",
    "SELECT count(DISTINCT s.uid) FROM visits v JOIN shops s ON v.k = s.k",
    "SELECT count(DISTINCT s.uid) FROM visits v JOIN shops s ON v.uid = s.uid",
    "SELECT count(DISTINCT i.okey) FROM items i JOIN orders o ON i.okey = o.okey",
    "SELECT count(DISTINCT u) FROM (SELECT uid AS u FROM visits UNION ALL SELECT k FROM visits)",
    "SELECT count(DISTINCT u) FROM (SELECT k AS u FROM visits UNION ALL SELECT uid FROM visits)",
    "SELECT count(DISTINCT m) FROM (SELECT uid, max(uid) AS m FROM visits GROUP BY uid)",
]


@pytest.mark.parametrize("sql", NOT_UNITS)
def test_a_column_that_is_only_called_or_computed_from_the_unit_never_passes_for_it(
    sql: str,
) -> None:
    found = block(sql)
    assert {measure.kind.value for measure in found.measures}.isdisjoint(
        {"units", "matching_units"}
    )


def test_the_side_of_an_outer_join_that_may_be_null_holds_the_unit_or_null() -> None:
    for sql in (
        "SELECT count(DISTINCT v.uid) FROM people p LEFT JOIN visits v ON p.uid = v.uid",
        "SELECT count(DISTINCT people.uid) FROM people RIGHT JOIN visits USING (uid)",
        "SELECT count(DISTINCT o.uid) FROM items i LEFT JOIN orders o ON i.okey = o.okey",
    ):
        assert [measure.kind.value for measure in block(sql).measures] == ["matching_units"]


# -- joins on what is equal to the unit or the link -----------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM shops s JOIN visits a ON a.uid = s.uid JOIN visits b ON s.uid = b.uid",
        "SELECT count(*) FROM visits a JOIN shops s ON a.uid = s.uid LEFT JOIN visits b ON s.uid = b.uid",
        "SELECT count(*) FROM visits a JOIN shops s ON a.uid = s.uid ANTI JOIN visits b ON s.uid = b.uid",
        "SELECT count(*) FROM visits a, shops s, shops t, visits b WHERE a.uid = s.uid AND s.uid = t.uid "
        "AND b.uid = t.uid",
        "SELECT count(*) FROM visits a JOIN visits b ON a.uid = a.k AND b.uid = a.k",
        "SELECT count(*) FROM visits a JOIN shops s ON a.uid = a.k JOIN visits b ON b.uid = a.k",
        "SELECT count(*) FROM visits a LEFT JOIN visits b ON a.uid = b.k AND b.uid = b.k",
        "SELECT count(*) FROM items i JOIN orders o ON i.okey = o.okey SEMI JOIN items j ON j.okey = i.okey",
        "SELECT count(*) FROM items i JOIN orders o USING (okey) ANTI JOIN items j ON j.okey = i.okey",
        "SELECT count(*) FROM items i, orders o SEMI JOIN items j ON j.okey = i.okey WHERE i.okey = o.okey",
        "SELECT count(*) FROM returns r JOIN items i ON r.ikey = i.ikey JOIN orders o ON o.okey = i.okey "
        "JOIN returns q ON q.ikey = r.ikey LEFT JOIN items j ON j.okey = i.okey",
        "SELECT count(*) FROM (SELECT o.*, i.okey AS w FROM items i JOIN orders o ON i.okey = o.okey) t "
        "JOIN items j ON j.okey = t.w",
        "SELECT count(*) FROM (SELECT DISTINCT o.*, i.okey AS w FROM items i JOIN orders o ON "
        "i.okey = o.okey) t JOIN items j ON j.okey = t.w",
    ],
)  # fmt: skip
def test_what_is_equal_to_the_unit_or_a_link_stands_for_it(sql: str) -> None:
    assert block(sql).unit_name == "person"


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT count(*) FROM people p JOIN visits v ON p.age = v.k", "the privacy unit: … ON p.uid = v.uid."),
        ("SELECT count(*) FROM items i JOIN orders o ON i.k = o.k", "the link: … ON i.okey = o.okey."),
        ("SELECT count(*) FROM orders o JOIN items ON items.k = o.k", "the link: … ON items.okey = o.okey."),
        (
            "SELECT count(*) FROM items i JOIN orders o ON i.okey = o.okey SEMI JOIN items j ON j.k = i.okey",
            "the link: … ON j.okey = o.okey.",
        ),
        ("SELECT count(*) FROM items i JOIN items j USING (k)", "the link: … ON i.okey = j.okey."),
        (
            "SELECT count(*) FROM returns r JOIN orders o ON r.n = o.k",
            "First join items, where the link leads: … ON r.ikey = items.ikey.",
        ),
        (
            "SELECT count(*) FROM visits v JOIN items i ON v.k = i.k",
            "First join orders, where the link leads: … ON i.okey = orders.okey.",
        ),
    ],
)  # fmt: skip
def test_the_hint_names_the_columns_by_which_two_tables_can_be_joined(sql: str, hint: str) -> None:
    error = refusal(sql)
    assert error.code == "join_needs_unit"
    assert error.hint is not None
    assert hint in error.hint


@pytest.mark.parametrize("kind", ["SEMI", "ANTI"])
def test_a_test_in_a_semi_join_is_refused_with_the_way_to_write_it(kind: str) -> None:
    sql = f"SELECT count(*) FROM visits v {kind} JOIN {{}} ON v.uid = p.uid{{}}"
    test = " AND p.age IN (SELECT k FROM shops)"
    error = refusal(sql.format("people p", test))
    assert error.hint is not None
    assert f"{kind} JOIN (SELECT … WHERE x IN (SELECT …)) t ON …" in error.hint
    inner = f"(SELECT * FROM people p WHERE true{test}) p"
    assert block(sql.format(inner, "")).unit_name == "person"


def test_what_a_test_finds_is_no_part_of_the_rows() -> None:
    """A star means the columns of the table, and the unit is found under its own name."""
    tested = "(SELECT * FROM visits WHERE uid IN (SELECT uid FROM orders) OR k = 1) t"
    found = block(f"SELECT count(DISTINCT uid) FROM {tested}")
    assert found.unit_name == "person"
    assert [m.counts_units for m in found.measures] == [True]
    assert refusal(f"SELECT okey FROM {tested}").code == "unknown_column"


# -- grouping by the unit -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT u, count(*) FROM (SELECT uid AS u FROM people) GROUP BY u",
        "SELECT v.uid, count(*) FROM people p JOIN visits v ON p.uid = v.uid GROUP BY v.uid",
        "SELECT v.uid, count(*) FROM people p LEFT JOIN visits v ON p.uid = v.uid GROUP BY 1",
        "SELECT uid, count(*) FROM people RIGHT JOIN visits USING (uid) GROUP BY uid",
        "SELECT people.uid, count(*) FROM people RIGHT JOIN visits USING (uid) GROUP BY ALL",
        "SELECT u, count(*) FROM (SELECT uid + 0 AS u FROM people) GROUP BY u",
        "SELECT u + 1, count(*) FROM (SELECT uid AS u FROM people) GROUP BY 1",
        "SELECT m, count(*) FROM (SELECT uid, max(uid) AS m FROM visits GROUP BY uid) GROUP BY m",
        "SELECT u, count(*) FROM (SELECT uid AS u FROM visits UNION ALL SELECT k FROM visits) "
        "GROUP BY u",
        "SELECT uid, count(*) FROM (SELECT uid FROM visits EXCEPT SELECT uid FROM logins) GROUP BY 1",
        "WITH a(z) AS (SELECT uid FROM people) SELECT DISTINCT z FROM a",
        "SELECT uid, count(*) FROM logins GROUP BY uid",
        "SELECT o.uid, count(*) FROM items i JOIN orders o ON i.okey = o.okey GROUP BY 1",
    ],
)
def test_grouping_by_the_unit_is_refused_under_any_name(sql: str) -> None:
    assert refusal(sql).code == "groups_by_unit"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT okey, count(*) FROM items GROUP BY okey",
        "SELECT okey, count(*) FROM orders GROUP BY okey",
        "SELECT (OKEY), k, count(*) FROM orders GROUP BY ALL",
        "SELECT DISTINCT (ikey) FROM items",
        "SELECT a, count(*) FROM (SELECT okey AS a FROM items) GROUP BY a",
        "SELECT i.okey, r.why, count(*) FROM returns r JOIN items i USING (ikey) GROUP BY 1, 2",
        "SELECT o.okey, count(*) FROM people JOIN orders o USING (uid) GROUP BY o.okey",
        "SELECT a, count(*) FROM (SELECT uid, okey AS a FROM orders GROUP BY uid, okey) GROUP BY a",
        "SELECT k, okey, count(*) FROM orders GROUP BY ROLLUP (k, okey)",
    ],
)
def test_grouping_by_a_link_is_refused_as_its_groups_are_one_units_each(sql: str) -> None:
    error = refusal(sql)
    assert error.code == "groups_by_unit"
    assert "belongs to one person" in error.reason


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT okey // 10, count(*) FROM items GROUP BY 1",
        "SELECT k, count(DISTINCT okey) FROM orders GROUP BY k",
        "SELECT k AS okey, count(*) FROM orders GROUP BY k",
        "SELECT v, count(*) FROM (SELECT okey AS v FROM orders UNION ALL SELECT k FROM orders) "
        "GROUP BY v",
        "SELECT n, count(*) FROM returns GROUP BY n",
        "SELECT s.uid, count(*) FROM visits v JOIN shops s ON v.k = s.k GROUP BY s.uid",
    ],
)
def test_what_is_computed_from_a_link_or_called_like_one_may_be_grouped_by(sql: str) -> None:
    assert block(sql).keys


def test_counts_of_a_unit_are_no_unit() -> None:
    sql = "SELECT c, count(*) FROM (SELECT count(uid) AS c FROM visits GROUP BY uid) GROUP BY c"
    assert len(block(sql).keys) == 1


# -- what is refused, with which code, and where --------------------------------------------------

REFUSED = [
    # joins that do not make the units equal
    ("SELECT count(*) FROM people p, visits v", "join_needs_unit", "visits v"),
    ("SELECT count(*) FROM people p CROSS JOIN visits v", "join_needs_unit", "visits v"),
    ("SELECT count(*) FROM people p JOIN visits v ON p.uid = v.k", "join_needs_unit", "visits v"),
    ("SELECT count(*) FROM people p JOIN visits v ON p.age = v.n", "join_needs_unit", "visits v"),
    ("SELECT count(*) FROM people p JOIN visits v ON p.uid >= v.uid", "join_needs_unit", "visits"),
    ("SELECT count(*) FROM people p JOIN visits v ON p.uid + 0 = v.uid", "join_needs_unit", "visits"),
    ("SELECT count(*) FROM people p JOIN visits v ON p.uid = v.uid OR v.k = 1", "join_needs_unit", ""),
    ("SELECT count(*) FROM people p JOIN visits v ON NOT p.uid = v.uid", "join_needs_unit", ""),
    (
        "SELECT count(*) FROM people p JOIN visits v ON p.age IS NOT DISTINCT FROM v.uid",
        "join_needs_unit",
        "visits v",
    ),
    ("SELECT count(*) FROM people p, visits v WHERE p.uid = v.uid OR v.k = 1", "join_needs_unit", ""),
    ("SELECT count(*) FROM people p JOIN badges b ON p.uid = b.uid", "text_compared", "p.uid"),
    ("SELECT count(*) FROM people JOIN badges USING (uid)", "text_compared", "badges USING (uid)"),
    ("SELECT count(*) FROM visits NATURAL JOIN (SELECT uid, k::text AS k FROM people JOIN visits USING (uid)) p", "text_compared", ""),
    ("SELECT count(*) FROM visits LEFT JOIN (SELECT name AS k FROM shops) s USING (k)", "text_compared", ""),
    ("SELECT count(*) FROM badges WHERE uid IN (SELECT k FROM shops)", "text_compared", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT name FROM shops)", "text_compared", ""),
    ("SELECT count(*) FROM visits WHERE k NOT IN (SELECT size::text FROM shops)", "text_compared", ""),
    (
        "SELECT count(*) FROM people p JOIN badges b ON CAST(p.uid AS VARCHAR) = b.uid",
        "join_needs_unit",
        "badges b",
    ),
    ("SELECT count(*) FROM people p JOIN items i ON p.uid = i.okey", "join_needs_unit", "items i"),
    ("SELECT count(*) FROM orders o JOIN items i ON o.k = i.okey", "join_needs_unit", "items i"),
    ("SELECT count(*) FROM orders o JOIN items i ON o.okey = i.k", "join_needs_unit", "items i"),
    ("SELECT count(*) FROM orders o JOIN items i ON o.uid = i.okey", "join_needs_unit", "items i"),
    (
        "SELECT count(*) FROM (SELECT uid, k AS okey FROM orders) o JOIN items i USING (okey)",
        "join_needs_unit",
        "items i",
    ),
    (
        "SELECT count(*) FROM (SELECT uid, okey + 0 AS okey FROM orders) o JOIN items i USING (okey)",
        "join_needs_unit",
        "items i",
    ),
    ("SELECT count(*) FROM orders o JOIN returns r ON o.okey = r.ikey", "join_needs_unit", "returns"),
    ("SELECT count(*) FROM items i JOIN returns r ON i.okey = r.ikey", "join_needs_unit", "returns"),
    ("SELECT count(*) FROM items a JOIN items b ON a.k = b.k", "join_needs_unit", "items b"),
    ("SELECT count(*) FROM people SEMI JOIN visits ON age = n", "join_needs_unit", "visits"),
    ("SELECT count(*) FROM people ANTI JOIN visits ON age = n", "join_needs_unit", "visits"),
    ("SELECT count(*) FROM visits a ANTI JOIN visits b USING (k)", "join_needs_unit", "visits b"),
    ("SELECT count(*) FROM people p LEFT JOIN visits v ON p.age = v.n", "join_needs_unit", ""),
    (
        "SELECT count(*) FROM people p LEFT JOIN visits v ON p.age = v.n WHERE p.uid = v.uid",
        "join_needs_unit",
        "visits v",
    ),
    (
        "SELECT count(*) FROM (SELECT 1 AS uid, k FROM visits) a JOIN visits b USING (uid)",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM (SELECT n AS uid FROM visits) a JOIN visits b ON a.uid = b.uid",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM (SELECT uid + 0 AS uid FROM visits) a JOIN visits b USING (uid)",
        "join_needs_unit",
        "visits b",
    ),
    # equalities that do not hold in every row, or not as what they are
    (
        "SELECT count(*) FROM visits a LEFT JOIN shops s ON a.uid = a.k JOIN visits b ON b.uid = a.k",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM shops s RIGHT JOIN visits a ON a.uid = a.k JOIN visits b ON b.uid = a.k",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM visits a ANTI JOIN shops s ON a.uid = a.k JOIN visits b ON b.uid = a.k",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM visits a JOIN shops s ON a.uid = s.uid OR a.k = 1 JOIN visits b ON b.uid = s.uid",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM badges a JOIN shops s ON a.uid = s.uid JOIN badges b ON b.uid = s.uid",
        "text_compared",
        "s.uid",
    ),
    (
        "SELECT count(*) FROM visits a JOIN shops s ON a.uid = a.x JOIN visits b ON b.uid = a.x",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM (SELECT a.uid, a.k FROM visits a JOIN shops s ON a.uid = a.k UNION ALL "
        "SELECT uid, k FROM visits) a JOIN visits b ON b.uid = a.k",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM (SELECT a.uid, a.k + 0 AS k FROM visits a JOIN shops s ON a.uid = a.k) a "
        "JOIN visits b ON b.uid = a.k",
        "join_needs_unit",
        "visits b",
    ),
    (
        "SELECT count(*) FROM people p LEFT JOIN orders o ON p.uid = o.uid JOIN items i ON i.okey = p.age",
        "join_needs_unit",
        "items i",
    ),
    (
        "SELECT count(*) FROM (SELECT uid AS u FROM visits UNION ALL SELECT k FROM visits) a "
        "JOIN people p ON a.u = p.uid",
        "join_needs_unit",
        "people p",
    ),
    ("SELECT count(*) FROM visits v JOIN mails m ON v.s = m.email", "join_units_differ", "mails m"),
    ("SELECT count(*) FROM visits NATURAL JOIN mails", "join_units_differ", "mails"),
    # joins whose rows would belong to nobody
    ("SELECT count(*) FROM shops s LEFT JOIN visits v ON s.k = v.k", "join_keeps_public", "count(*)"),
    ("SELECT count(1) FROM visits v RIGHT JOIN shops s ON s.k = v.k", "join_keeps_public", "count(1)"),
    (
        "SELECT v.k, count(v.n) FROM shops s LEFT JOIN visits v ON s.k = v.k GROUP BY v.k",
        "join_keeps_public",
        "v.k",
    ),
    (
        "SELECT s.k, count(v.n) FROM shops s LEFT JOIN visits v ON s.k = v.k JOIN people p ON p.uid = v.uid "
        "GROUP BY s.k",
        "join_keeps_public",
        "people p",
    ),
    (
        "SELECT s.k, count(v.n) FROM shops s LEFT JOIN visits v ON s.k = v.k LEFT JOIN towns t ON TRUE GROUP BY s.k",
        "join_keeps_public",
        "towns t",
    ),
    (
        "SELECT k, count(n) FROM (SELECT s.k, v.n FROM shops s LEFT JOIN visits v ON s.k = v.k) GROUP BY k",
        "join_keeps_public",
        "SELECT s.k, v.n FROM shops s LEFT JOIN visits v ON s.k = v.k",
    ),
    ("SELECT count(*) FROM shops SEMI JOIN visits USING (k)", "join_keeps_public", "visits"),
    ("SELECT count(*) FROM shops ANTI JOIN visits USING (k)", "join_keeps_public", "visits"),
    # kinds of joins
    ("SELECT count(*) FROM items i FULL JOIN orders o ON i.okey = o.okey", "join_kind", "orders o"),
    ("SELECT count(*) FROM people p FULL JOIN visits v ON p.uid = v.k", "join_needs_unit", "visits v"),
    ("SELECT count(*) FROM shops s, people p FULL JOIN visits v ON p.uid = v.uid", "join_kind", "visits v"),
    ("SELECT count(*) FROM people p FULL OUTER JOIN shops s ON s.k = p.age", "join_kind", "shops s"),
    ("SELECT count(*) FROM people p ASOF JOIN visits v ON p.uid = v.uid AND p.age >= v.n AND p.age > v.k", "join_kind", ""),
    ("SELECT count(*) FROM people p ASOF JOIN visits v ON p.age >= v.n", "join_kind", ""),
    ("SELECT count(*) FROM (SELECT LAG(n, 1, 0.5) OVER (PARTITION BY uid ORDER BY k) AS w FROM visits) WHERE w > 1", "window_over_private_rows", "0.5"),
    ("SELECT count(*) FROM (SELECT uid, FIRST(n > 1 ORDER BY k) AS w FROM visits GROUP BY uid) WHERE w", "aggregate_not_supported", "FIRST(n > 1 ORDER BY k)"),
    ("SELECT count(*) FROM (SELECT uid, LAST(n > 1 ORDER BY k) AS w FROM visits GROUP BY uid) WHERE w", "aggregate_not_supported", "LAST(n > 1 ORDER BY k)"),
    ("SELECT count(*) FROM (SELECT MAX(n > 1) OVER (PARTITION BY uid) AS w FROM visits) WHERE w", "window_over_private_rows", ""),
    ("SELECT count(*) FROM (SELECT MIN(n > 1) OVER (PARTITION BY uid ORDER BY k) AS w FROM visits) WHERE w", "window_over_private_rows", ""),
    ("SELECT count(*) FROM (SELECT LEAD(n, 1, x) OVER (PARTITION BY uid ORDER BY k) AS w FROM visits) WHERE w > 1", "window_over_private_rows", "x"),
    ("SELECT count(*) FROM people POSITIONAL JOIN visits", "join_kind", "visits"),
    ("SELECT count(*) FROM visits POSITIONAL JOIN shops", "join_kind", "shops"),
    ("SELECT count(*) FROM visits LEFT SEMI JOIN shops USING (k)", "join_kind", "shops"),
    ("SELECT count(*) FROM people p, shops s RIGHT JOIN visits v ON s.k = v.k", "join_needs_unit", ""),
    ("SELECT count(*) FROM towns t, shops s RIGHT JOIN visits v ON s.k = v.k", "join_kind", "visits v"),
    ("SELECT count(*) FROM visits, range(3.5)", "join_not_supported", "range(3.5)"),
    ("SELECT count(*) FROM visits, range(3, 1)", "join_not_supported", "range(3, 1)"),
    ("SELECT count(*) FROM visits v, unnest([1, v.k])", "join_not_supported", "1, v.k"),
    ("SELECT count(*) FROM visits v, unnest([1], [2])", "join_not_supported", "1], [2"),
    ("SELECT count(*) FROM visits, LATERAL (SELECT 1)", "join_not_supported", "1"),
    ("SELECT count(*) FROM visits v, (SELECT * FROM orders o WHERE o.uid = v.uid) t", "unknown_column", "v.uid"),
    ("SELECT count(*) FROM visits, (VALUES (1), (1, 2)) t(a)", "join_not_supported", "1), (1, 2"),
    ("SELECT count(*) FROM visits v, (VALUES (v.k)) t(a)", "join_not_supported", "v.k"),
    # released groups beside rows
    (
        "SELECT count(*) FROM visits JOIN (SELECT k, count(*) AS c FROM orders GROUP BY k) USING (k)",
        "join_not_supported",
        "SELECT k, count(*) AS c FROM orders GROUP BY k",
    ),
    (
        "WITH g AS (SELECT k, count(*) AS c FROM visits GROUP BY k) SELECT count(*) FROM visits "
        "JOIN g USING (k)",
        "join_not_supported",
        "g",
    ),
    (
        "SELECT count(*) FROM visits JOIN (SELECT DISTINCT k FROM orders) USING (k)",
        "join_not_supported",
        "SELECT DISTINCT k FROM orders",
    ),
    ("SELECT count(*) FROM visits JOIN nothing USING (k)", "unknown_table", "nothing"),
    ("SELECT count(*) FROM visits JOIN mall.shops USING (k)", "unknown_table", "shops"),
    # names
    ("SELECT count(*) FROM people p JOIN visits v ON uid = v.uid", "ambiguous_column", "uid"),
    ("SELECT count(uid) FROM people p JOIN visits v ON p.uid = v.uid", "ambiguous_column", "uid"),
    ("SELECT count(*) FROM people p JOIN visits v ON p.uid = v.uid WHERE uid = 1", "ambiguous_column", "uid"),
    ("SELECT count(*) FROM visits a, visits b WHERE uid = uid", "join_needs_unit", "visits b"),
    ("SELECT count(*) FROM visits, visits WHERE visits.uid = visits.uid", "join_needs_unit", "visits"),
    ("SELECT count(people.age) FROM people p", "unknown_column", "people.age"),
    ("SELECT count(v.age) FROM people p JOIN visits v ON p.uid = v.uid", "unknown_column", "v.age"),
    ("SELECT count(visits.k) FROM people SEMI JOIN visits USING (uid)", "unknown_column", "visits.k"),
    ("SELECT count(*) FROM people JOIN visits USING (nothing)", "join_column", ""),
    ("SELECT count(*) FROM visits JOIN people USING (k)", "join_column", ""),
    ("SELECT count(*) FROM people NATURAL JOIN returns", "join_column", ""),
    ("SELECT count(k) FROM (SELECT * FROM visits a JOIN visits b ON a.uid = b.uid)", "ambiguous_column", "k"),
    ("SELECT count(k) FROM (SELECT uid FROM visits)", "unknown_column", "k"),
    ("SELECT count(*) FROM (SELECT nothing FROM visits)", "unknown_column", "nothing"),
    ("SELECT count(*) FROM (SELECT q.* FROM visits)", "unknown_qualifier", ""),
    ("SELECT count(*) FROM visits AS t(a, b, c, d, e, f)", "too_many_aliases", ""),
    ("SELECT count(t.k) FROM (SELECT k FROM visits)", "unknown_column", "t.k"),
    # clauses of subqueries that pick rows
    ("SELECT count(*) FROM (SELECT k FROM visits LIMIT 3)", "clause_not_allowed", "3"),
    ("SELECT count(*) FROM ((SELECT k FROM visits) LIMIT 3)", "table_form_not_allowed", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits ORDER BY k OFFSET 3)", "clause_not_allowed", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits USING SAMPLE 3)", "sample_not_available", "USING SAMPLE 3"),
    ("SELECT count(*) FROM (SELECT k FROM visits) TABLESAMPLE 10 ROWS", "sample_not_available", "TABLESAMPLE 10 ROWS"),
    ("WITH a AS (FROM visits) SELECT count(*) FROM a TABLESAMPLE reservoir(10%)", "sample_not_available", "TABLESAMPLE reservoir(10%)"),
    ("SELECT count(*) FROM visits v JOIN shops s TABLESAMPLE 10% USING (k)", "sample_not_available", "TABLESAMPLE 10%"),
    ("SELECT * FROM (FROM visits) PIVOT (count(*) FOR k IN (1, 2))", "groups_by_unit", "k IN (1, 2)"),
    ("SELECT count(*) FROM people WHERE uid IN (FROM visits PIVOT (count(*) FOR k IN (1)))", "groups_by_unit", "k IN (1)"),
    ("SELECT count(*) FROM people WHERE EXISTS (FROM visits PIVOT (count(*) FOR k IN (1)))", "table_form_not_allowed", ""),
    ("SELECT count(*) FROM (SELECT DISTINCT ON (k) uid, n FROM visits)", "window_over_private_rows", ""),
    (
        "SELECT count(*) FROM (SELECT row_number() OVER () AS r FROM visits)",
        "window_over_private_rows",
        "row_number()",
    ),
    ("SELECT count(*) FROM (SELECT * REPLACE (1 AS k) FROM visits)", "expression_not_allowed", ""),
    ("SELECT count(*) FROM (SELECT * EXCLUDE (nothing) FROM visits)", "unknown_column", "nothing"),
    ("SELECT count(*) FROM (SELECT * EXCLUDE (visits.k) FROM visits)", "expression_not_allowed", "visits.k"),
    ("SELECT count(k) FROM (SELECT * EXCLUDE (k) FROM visits)", "unknown_column", "k"),
    ("SELECT count(*) FROM (SELECT uid, k FROM visits UNION ALL BY NAME SELECT uid FROM visits)", "set_operation_types", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits ORDER BY nothing)", "unknown_column", "nothing"),
    ("SELECT count(*) FROM (SELECT k FROM visits ORDER BY k LIMIT 3)", "clause_not_allowed", ""),
    ("SELECT count(*) FROM (SELECT random() AS r FROM visits)", "expression_not_allowed", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits WHERE random() < 2)", "expression_not_allowed", ""),
    ("SELECT count(*) FROM visits a JOIN visits b ON a.uid = b.uid AND random() < 1", "expression_not_allowed", ""),
    ("SELECT count(*) FROM visits a JOIN visits b ON a.uid = b.uid AND a.k = (SELECT 1)", "subquery_over_private_rows", "1"),
    # per unit
    (
        "SELECT count(*) FROM (SELECT uid, list(n) FROM visits GROUP BY uid)",
        "aggregate_not_supported",
        "list(n)",
    ),
    ("SELECT count(*) FROM (SELECT uid, first(s) FROM visits GROUP BY uid)", "aggregate_not_supported", ""),
    ("SELECT count(*) FROM (SELECT uid, sum(DISTINCT n) FROM visits GROUP BY uid)", "aggregate_not_supported", ""),
    ("SELECT count(*) FROM (SELECT uid, avg(s) FROM visits GROUP BY uid)", "not_numeric", "s"),
    ("SELECT count(*) FROM (SELECT uid, count(DISTINCT n, k) FROM visits GROUP BY uid)", "aggregate_not_supported", ""),
    ("SELECT count(*) FROM (SELECT uid, k FROM visits GROUP BY uid)", "column_not_grouped", "k"),
    ("SELECT count(*) FROM (SELECT uid FROM visits GROUP BY uid HAVING k > 1)", "column_not_grouped", "k"),
    ("SELECT count(*) FROM (SELECT uid, count(*) FROM visits GROUP BY ROLLUP (uid))", "groups_by_unit", ""),
    ("SELECT count(*) FROM (SELECT uid, count(*) FROM visits GROUP BY uid LIMIT 3)", "clause_not_allowed", "3"),
    ("SELECT count(*) FROM (SELECT DISTINCT uid FROM visits GROUP BY uid)", "clause_not_allowed", ""),
    (
        "SELECT count(*) FROM (SELECT uid, sum(n) OVER () FROM visits GROUP BY uid, n)",
        "window_over_private_rows",
        "",
    ),
    (
        "SELECT count(*) FROM (SELECT uid, list(n) FILTER (WHERE k = 1) FROM visits GROUP BY uid)",
        "aggregate_not_supported",
        "list(n) FILTER (WHERE k = 1)",
    ),
    (
        "SELECT count(*) FROM (SELECT uid, sum(n) FILTER (WHERE k = 1) OVER () FROM visits GROUP BY uid)",
        "column_not_grouped",
        "n",
    ),
    (
        "SELECT count(*) FROM (SELECT uid, sum(n) FILTER (WHERE sum(k) > 1) FROM visits GROUP BY uid)",
        "misplaced_aggregate",
        "sum(k)",
    ),
    (
        "SELECT count(*) FROM (SELECT uid, sum(n) FILTER (WHERE k IN (SELECT k FROM orders)) FROM visits GROUP BY uid)",
        "join_needs_unit",
        "k IN (SELECT k FROM orders)",
    ),
    ("SELECT count(*) FROM (SELECT uid, count(DISTINCT *) FROM visits GROUP BY uid)", "expression_not_allowed", "*"),
    ("SELECT count(*) FROM (SELECT uid, max(n ORDER BY k) FROM visits GROUP BY uid)", "aggregate_not_supported", ""),
    (
        "SELECT count(*) FROM (SELECT uid, sum(n, contribution_bounds_per_row => (0, 3)) FROM visits GROUP BY uid)",
        "bounds_do_not_apply",
        "sum(n, contribution_bounds_per_row",
    ),
    (
        "WITH t AS (SELECT uid, count(*, contribution_bounds_per_group => (0, 3)) AS c FROM visits GROUP BY uid) SELECT count(*) FROM t",
        "bounds_do_not_apply",
        "count(*, contribution_bounds_per_group",
    ),
    # set operations
    ("SELECT count(*) FROM (SELECT k FROM visits UNION ALL SELECT k FROM shops)", "set_operation_mixed", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits UNION ALL SELECT k FROM mails)", "set_operation_mixed", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits UNION ALL SELECT 1)", "set_operation_mixed", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits UNION SELECT k FROM visits)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits EXCEPT ALL SELECT k FROM orders)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT okey FROM orders EXCEPT SELECT okey FROM items)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT okey + 0 AS o FROM orders INTERSECT SELECT okey FROM items)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT uid + 0 AS u FROM visits EXCEPT SELECT k FROM orders)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT okey FROM orders EXCEPT SELECT k FROM shops)", "set_operation_mixed", ""),
    ("SELECT count(*) FROM (SELECT uid, k FROM visits EXCEPT SELECT k, uid FROM orders)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT uid, k FROM visits EXCEPT SELECT uid + 0, k FROM visits)", "set_operation_unit", ""),
    ("SELECT count(*) FROM (SELECT uid, k FROM visits UNION ALL SELECT uid FROM orders)", "set_operation_types", ""),
    ("SELECT count(*) FROM (SELECT s FROM visits UNION ALL SELECT price FROM orders)", "set_operation_types", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits UNION ALL SELECT k FROM badges)", "set_operation_types", ""),
    ("SELECT count(*) FROM (SELECT k FROM visits UNION ALL SELECT k FROM orders LIMIT 3)", "clause_not_allowed", ""),
    ("SELECT count(*) FROM ((SELECT k FROM visits LIMIT 1) UNION ALL SELECT k FROM orders)", "clause_not_allowed", ""),
    (
        "WITH RECURSIVE r AS (SELECT k FROM visits UNION ALL SELECT k + 1 FROM r) SELECT count(*) FROM r",
        "set_operation_mixed",
        "",
    ),
    (
        "SELECT count(*) FROM (WITH RECURSIVE visits AS (SELECT k FROM orders UNION ALL SELECT k + 1 "
        "FROM visits) SELECT * FROM visits)",
        "recursive_name",
        "visits",
    ),
    # rows are not released from any of these
    ("SELECT k FROM (SELECT k FROM visits)", "raw_rows", ""),
    ("SELECT p.city, v.k FROM people p JOIN visits v ON p.uid = v.uid", "raw_rows", ""),
    ("SELECT uid, max(n) FROM visits GROUP BY uid", "groups_by_unit", "uid"),
    ("SELECT * FROM (SELECT uid, max(n) FROM visits GROUP BY uid)", "raw_rows", "*"),
    ("SELECT uid FROM visits EXCEPT SELECT uid FROM orders", "groups_by_unit", "uid"),
    ("SELECT k FROM visits EXCEPT ALL SELECT k FROM orders", "raw_rows", ""),
    ("SELECT name FROM shops WHERE k IN (SELECT k FROM visits LIMIT 3)", "raw_rows", ""),
    ("WITH a AS (SELECT k FROM visits) SELECT k FROM a", "raw_rows", "k"),
    ("WITH shops AS (SELECT k FROM visits) SELECT k FROM shops", "raw_rows", "k"),
    # subqueries in conditions
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM orders)", "join_needs_unit", "SELECT k FROM orders"),
    ("SELECT count(*) FROM visits WHERE uid IN (SELECT k FROM orders)", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits WHERE EXISTS (SELECT 1 FROM orders)", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.uid > v.uid)", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM orders o WHERE o.uid = v.uid OR o.k = 1)", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits v WHERE uid IN (SELECT o.uid + 0 FROM orders o) OR k = 1", "join_needs_unit", ""),
    ("SELECT count(*) FROM badges b WHERE EXISTS (SELECT 1 FROM people p WHERE p.uid::VARCHAR = b.uid)", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits WHERE uid IN (SELECT k FROM mails)", "join_units_differ", ""),
    ("SELECT count(*) FROM items WHERE ikey IN (SELECT okey FROM orders)", "join_needs_unit", ""),
    ("SELECT count(*) FROM items i WHERE EXISTS (SELECT 1 FROM people p WHERE p.uid = i.okey)", "join_needs_unit", ""),
    ("WITH a AS (FROM orders) SELECT count(*) FROM visits WHERE k IN (SELECT k FROM a)", "join_needs_unit", ""),
    ("WITH shops AS (FROM orders) SELECT count(*) FROM visits WHERE k IN (SELECT k FROM shops)", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM shops JOIN orders USING (k))", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM (SELECT k FROM orders))", "join_needs_unit", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM shops UNION SELECT k FROM orders)", "set_operation_mixed", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM shops WHERE k IN (SELECT k FROM orders))", "join_keeps_public", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT max(k) FROM shops)", "subquery_over_private_rows", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM orders GROUP BY k)", "subquery_over_private_rows", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM shops LIMIT 1)", "clause_not_allowed", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k, size FROM shops)", "subquery_over_private_rows", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT * FROM shops)", "subquery_over_private_rows", ""),
    ("SELECT count(*) FROM visits WHERE k = (SELECT k FROM shops)", "subquery_over_private_rows", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM shops WHERE random() < 1)", "expression_not_allowed", ""),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT k FROM nothing)", "unknown_table", "nothing"),
    ("SELECT count(*) FROM visits WHERE k IN (SELECT nothing FROM shops)", "unknown_column", "nothing"),
    # subqueries in the conditions of joins
    (
        "SELECT count(*) FROM visits v JOIN people p ON v.uid = p.uid AND v.k IN (SELECT k FROM orders)",
        "join_needs_unit",
        "SELECT k FROM orders",
    ),
    (
        "SELECT count(*) FROM visits v LEFT JOIN people p ON v.uid = p.uid AND v.k + p.age IN (SELECT k FROM shops)",
        "subquery_over_private_rows",
        "SELECT k FROM shops",
    ),
    (
        "SELECT count(*) FROM visits v ANTI JOIN people p ON v.uid = p.uid AND NOT EXISTS (SELECT k FROM shops)",
        "subquery_over_private_rows",
        "SELECT k FROM shops",
    ),
    ("SELECT count(*) FROM visits v JOIN people p ON v.uid IN (SELECT uid FROM shops WHERE uid = p.uid)", "join_needs_unit", "people p"),
    ("SELECT count(*) FROM visits v JOIN people p ON v.k IN (SELECT k FROM shops)", "join_needs_unit", "people p"),
    ("SELECT count(*) FROM visits v JOIN people p ON EXISTS (SELECT 1 FROM shops s WHERE s.uid = v.uid AND s.uid = p.uid)", "join_needs_unit", ""),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "code", "part"), REFUSED, ids=[case[0][:70] for case in REFUSED])
def test_what_could_mix_units_is_refused_where_it_stands(sql: str, code: str, part: str) -> None:
    error = refusal(sql)
    assert error.code == code
    if part:
        assert error.place is not None
        start = error.place.column - 1
        assert part in sql[start : start + error.place.length] or (
            sql[start : start + error.place.length] in part
        )


def test_bounds_per_unit_are_refused_with_the_place_where_they_belong() -> None:
    bounds = ", contribution_bounds_per_row => (0, 3)"
    per_unit = "(SELECT uid, {} AS t FROM visits GROUP BY uid)"
    error = refusal(f"SELECT sum(t) FROM {per_unit.format(f'sum(n{bounds})')}")
    assert error.hint is not None
    assert "in the outer query" in error.hint
    assert block(f"SELECT sum(t{bounds}) FROM {per_unit.format('sum(n)')}").measures
    assert "SUM(least(greatest(x, 0), 100))" in error.hint
    assert block(
        f"SELECT count(*) FROM {per_unit.format('sum(least(greatest(n, 0), 100))')}"
    ).measures


# -- what is accepted means what it says ----------------------------------------------------------


def test_a_table_alone_is_read_as_it_stands() -> None:
    """The plain path binds nothing and wraps nothing."""
    sql = "SELECT k, count(*), count(DISTINCT uid) FROM visits WHERE n > 3 GROUP BY k"

    def bind(statement: Sql) -> tuple[Column, ...]:
        raise AssertionError(text(statement))

    (found,) = validate(
        parse(sql), sql, RULES, SCHEMA, resolve(RULES), bind, DUCKDB, with_groups_decided
    ).blocks
    assert rows_of(found) == '"visits"'
    assert found.source.catalog


def test_a_cte_shadows_a_table_only_where_it_is_in_scope() -> None:
    inside = "WITH visits AS (SELECT uid, 1 AS q FROM people) SELECT count(q) FROM visits"
    assert '"people"' in rows_of(block(inside))
    outside = (
        "WITH a AS (WITH visits AS (SELECT uid, age AS k FROM people) SELECT * FROM visits) "
        "SELECT count(a.k), count(v.s) FROM a JOIN visits v USING (uid)"
    )
    assert {'"people"', '"visits"'} <= set(re.findall(r'"[a-z]+"', rows_of(block(outside))))
    nested = (
        "SELECT count(k) FROM (WITH visits AS (SELECT k, uid FROM orders) SELECT k FROM visits)"
    )
    assert '"orders"' in rows_of(block(nested))
    union = (
        "SELECT count(k) FROM (WITH visits AS (FROM orders) SELECT k FROM visits UNION ALL "
        "SELECT k FROM visits)"
    )
    assert rows_of(block(union)).count('"orders"') == 2
    public = "WITH visits AS (FROM shops) SELECT n FROM visits, (SELECT count(*) AS n FROM orders)"
    assert [each.table.name.key for each in query_of(public).public_tables] == ["shops"]


def test_a_cte_may_be_used_twice_and_its_columns_stay_apart() -> None:
    sql = (
        "WITH a AS (SELECT uid, k + 1 AS k FROM visits) SELECT x.k, y.k, count(*) FROM a x JOIN a y "
        "ON x.uid = y.uid GROUP BY x.k, y.k"
    )
    one, other = (key.expression.name for key in block(sql).keys)
    assert one != other


# -- bounds and domains ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "bounds"),
    [
        ("SELECT sum(v.n) FROM people p JOIN visits v ON p.uid = v.uid", (-5, 20)),
        ("SELECT sum(m) FROM (SELECT n AS m FROM visits)", (-5, 20)),
        ("SELECT sum(m) FROM (SELECT n * 2 AS m FROM visits)", (-10, 40)),
        ("SELECT sum(m + age) FROM (SELECT uid, n * 2 AS m FROM visits) JOIN people USING (uid)", (-10, 140)),
        ("SELECT sum(s.size) FROM visits v JOIN shops s ON v.k = s.k", (0, 100)),
        ("SELECT sum(s.size) FROM visits v LEFT JOIN shops s ON v.k = s.k", (0, 100)),
        ("SELECT sum(i.qty * o.price) FROM items i JOIN orders o USING (okey)", (0, 5000)),
        ("SELECT sum(m) FROM (SELECT uid, max(n) AS m FROM visits GROUP BY uid)", (-5, 20)),
        ("SELECT sum(m) FROM (SELECT uid, avg(x) AS m FROM visits GROUP BY uid)", (-2.5, 10)),
        ("SELECT sum(least(c, 10)) FROM (SELECT uid, count(*) AS c FROM visits GROUP BY uid)", (0, 10)),
        ("SELECT sum(n) FROM (SELECT n FROM visits UNION ALL SELECT age FROM people)", (-5, 100)),
        ("SELECT sum(n) FROM (SELECT uid, n FROM visits EXCEPT SELECT uid, age FROM people)", (-5, 100)),
        ("SELECT sum(b) FROM visits AS t(a, b, c, d)", None),
        ("SELECT sum(d) FROM visits AS t(a, b, c, d)", (-5, 20)),
        ("SELECT sum(n) FROM (SELECT k AS n, n AS k FROM visits)", None),
        ("SELECT sum(s.k) FROM visits v JOIN shops s ON v.k = s.k", None),
        ("SELECT sum(m) FROM (SELECT uid, sum(n) AS m FROM visits GROUP BY uid)", None),
        ("SELECT sum(n) FROM (SELECT n FROM visits UNION ALL SELECT k FROM visits)", None),
    ],
)  # fmt: skip
def test_declared_bounds_travel_with_their_column_and_with_nothing_else(
    sql: str, bounds: tuple[float, float] | None
) -> None:
    if bounds is None:
        assert refusal(sql).code == "unbounded_sum"
        return
    (measure,) = block(sql).measures
    assert measure.lattice is not None
    assert (measure.lattice.lower, measure.lattice.upper) == bounds


def test_declared_values_travel_with_their_column() -> None:
    def domain(sql: str) -> object:
        return block(sql).keys[0].domain

    assert domain("SELECT s.k, count(*) FROM visits v JOIN shops s USING (k) GROUP BY s.k") == (
        0,
        1,
        2,
        3,
    )
    assert domain("SELECT q, count(*) FROM (SELECT v.uid, s.k AS q FROM visits v LEFT JOIN shops s ON "
                  "v.k = s.k) GROUP BY q") == (0, 1, 2, 3)  # fmt: skip
    assert domain("SELECT k, count(*) FROM visits GROUP BY k") is None
    assert domain("SELECT v.k, count(*) FROM visits v JOIN shops s USING (k) GROUP BY 1") is None


# -- types that make two units one ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("BIGINT", "BIGINT", True),
        ("BIGINT", "INTEGER", True),
        ("UBIGINT", "BIGINT", True),
        ("VARCHAR", "VARCHAR", True),
        ("UUID", "UUID", True),
        ("DECIMAL(18,3)", "DECIMAL(18,3)", True),
        ("HUGEINT", "UHUGEINT", False),
        ("HUGEINT", "BIGINT", False),
        ("DOUBLE", "BIGINT", False),
        ("DOUBLE", "FLOAT", False),
        ("DECIMAL(38,0)", "DECIMAL(38,30)", False),
        ("VARCHAR", "BIGINT", False),
        ("DATE", "TIMESTAMP", False),
        ("VARCHAR", "ENUM('a')", False),
    ],
)
def test_units_are_compared_only_as_what_they_are(one: str, other: str, alike: bool) -> None:
    assert SqlType.of(one).compares_exactly(SqlType.of(other)) is alike
    schema = schema_of(
        Table("a", (column_of("u", one), column_of("k", "INTEGER"))),
        Table("b", (column_of("u", other), column_of("k", "INTEGER"))),
    )
    unit = PrivacyUnit("person", "u")
    rules = replace(RULES, tables={name: TablePolicy(name, unit) for name in ("a", "b")})
    for sql, code in (
        ("SELECT count(*) FROM a JOIN b ON a.u = b.u", "join_needs_unit"),
        ("SELECT count(*) FROM (SELECT k FROM a UNION ALL SELECT k FROM b)", "set_operation_types"),
        ("SELECT count(*) FROM (SELECT u FROM a EXCEPT SELECT u FROM b)", "set_operation_types"),
    ):
        if alike:
            assert len(query_of(sql, rules, schema).blocks) == 1
        else:
            assert refusal(sql, rules, schema).code in (code, "text_compared")


@pytest.mark.parametrize(("one", "other"), [("HUGEINT", "UHUGEINT"), ("BIGINT", "DOUBLE")])
def test_the_engine_does_take_different_units_of_unlike_types_for_one(one: str, other: str) -> None:
    """Why unlike types are refused: were this to change, the rule could be relaxed."""
    low, high = {"UHUGEINT": (2**127 - 1, 2**127), "DOUBLE": (2**53 + 1, 2**53)}[other]
    sql = f"SELECT CAST('{low}' AS {one}) = CAST('{high}' AS {other})"
    assert present(duckdb.sql(sql)).fetchall() == [(True,)]


def test_columns_with_a_collation_are_not_there_for_analysts() -> None:
    schema = schema_of(
        Table("a", (column_of("u", "BIGINT"), column_of("s", "VARCHAR", collated=True)))
    )
    rules = replace(RULES, tables={"a": TablePolicy("a", PrivacyUnit("person", "u"))})
    assert refusal("SELECT s, count(*) FROM a GROUP BY s", rules, schema).code == "unknown_column"
    assert query_of("SELECT count(*) FROM a", rules, schema).blocks


# -- values that are equal and look different -----------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("DOUBLE", ["0.0", "'-0.0'"]),
        ("FLOAT", ["0.0", "'-0.0'"]),
        ("DOUBLE", ["'nan'", "'-nan'"]),
        ("INTERVAL", ["'30 days'", "'1 month'", "'720 hours'"]),
    ],
)
def test_equal_values_have_one_spelling(type_: str, values: list[str]) -> None:
    rows = ", ".join(f"(CAST({value} AS {type_}))" for value in values)
    plain = duckdb.sql(
        f"SELECT count(DISTINCT v), count(DISTINCT v::VARCHAR) FROM (VALUES {rows}) t(v)"
    )
    assert present(plain).fetchall() == [(1, len(values))]
    one = text(DUCKDB.one_spelling(generated("v"), SqlType.of(type_)))
    spelled = f"SELECT count(DISTINCT ({one})::VARCHAR) FROM (VALUES {rows}) t(v)"
    assert present(duckdb.sql(spelled)).fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("type_", "one"),
    [
        ("DOUBLE", True),
        ("INTERVAL", True),
        ("INTEGER[]", True),
        ("STRUCT(a INTEGER)", True),
        ("DOUBLE[]", False),
        ("STRUCT(a FLOAT)", False),
        ("MAP(VARCHAR, INTERVAL)", False),
        ("VARIANT", False),
        ("ENUM('DOUBLE', 'x')", True),
    ],
)
def test_nested_values_that_look_different_cannot_be_grouped(type_: str, one: bool) -> None:
    assert SqlType.of(type_).has_one_spelling is one
    schema = schema_of(Table("a", (column_of("u", "BIGINT"), column_of("v", type_))))
    rules = replace(RULES, tables={"a": TablePolicy("a", PrivacyUnit("person", "u"))})
    for sql in (
        "SELECT v, count(*) FROM a GROUP BY v",
        "SELECT count(*) FROM (SELECT DISTINCT u, v FROM a)",
        "SELECT count(*) FROM (SELECT u, v, count(*) FROM a GROUP BY u, v)",
        "SELECT count(*) FROM (SELECT u, v FROM a EXCEPT SELECT u, v FROM a)",
    ):
        if one:
            assert query_of(sql, rules, schema).blocks
        else:
            assert refusal(sql, rules, schema).code == "key_type"


@pytest.mark.parametrize("of", ["MODE(n > 1)", "MODE() WITHIN GROUP (ORDER BY n > 1)"])
def test_a_mode_of_conditions_is_refused_by_its_own_name(of: str) -> None:
    error = refusal(
        f"SELECT m, count(*) FROM (SELECT uid, {of} AS m FROM visits GROUP BY uid) GROUP BY m"
    )
    assert error.code == "aggregate_not_supported"
    assert error.reason.startswith("mode of a condition")
    assert error.place is not None


# -- sizes ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_joins_that_double_at_every_step_are_refused_in_time() -> None:
    steps = ["a0 AS (SELECT uid, k FROM visits)"]
    steps += [
        f"a{i} AS (SELECT x.uid, y.k FROM a{i - 1} x JOIN a{i - 1} y ON x.uid = y.uid)"
        for i in range(1, 40)
    ]
    began = time.process_time()
    error = refusal(f"WITH {', '.join(steps)} SELECT count(*) FROM a39")
    assert error.code == "too_many_relations"
    assert time.process_time() - began < 5


def test_tests_of_rows_that_double_them_are_refused_in_time() -> None:
    """A test by another comparison than equality has its rows written twice."""
    tests = (f"n > ALL (SELECT size + {each} FROM shops)" for each in range(10))
    began = time.process_time()
    error = refusal(f"SELECT SUM(CASE WHEN {' OR '.join(tests)} THEN 1 ELSE 0 END) FROM visits")
    assert time.process_time() - began < 5
    assert error.code == "query_too_large"


def test_set_operations_that_double_at_every_step_are_refused_in_time() -> None:
    steps = ["a0 AS (SELECT uid, k FROM visits)"]
    steps += [f"a{i} AS (FROM a{i - 1} UNION ALL FROM a{i - 1})" for i in range(1, 40)]
    began = time.process_time()
    error = refusal(f"WITH {', '.join(steps)} SELECT count(*) FROM a39")
    assert error.code == "query_too_large"
    assert time.process_time() - began < 5


@pytest.mark.slow
def test_hundreds_of_equalities_are_put_together_in_time() -> None:
    def equalities(first: int, last: int) -> str:
        if last - first == 1:
            return f"a.c{first} = b.c{last}"
        middle = (first + last) // 2
        return f"({equalities(first, middle)} AND {equalities(middle, last)})"

    columns = [column_of("uid", "BIGINT"), *(column_of(f"c{i}", "BIGINT") for i in range(301))]
    rules = Policy("wide", tables={"wide": TablePolicy("wide", PrivacyUnit("person", "uid"))})
    sql = f"SELECT count(*) FROM wide a JOIN wide b ON a.uid = a.c7 AND {equalities(0, 300)}"
    began = time.process_time()
    error = refusal(
        f"{sql} JOIN wide c ON a.c9 = c.c9", rules, schema_of(Table("wide", tuple(columns)))
    )
    assert error.code == "join_needs_unit"
    assert time.process_time() - began < 5


@pytest.mark.parametrize("shape", ["WITH a AS ({}) SELECT * FROM a", "SELECT * FROM ({})"])
def test_nested_queries_take_no_exponential_time(shape: str) -> None:
    sql = "SELECT uid, k FROM visits"
    for _ in range(25):
        sql = shape.format(sql)
    began = time.process_time()
    assert query_of(f"SELECT count(*) FROM ({sql})").blocks
    assert time.process_time() - began < 5


def test_every_table_of_the_world_is_private_or_public_as_declared() -> None:
    for name, table in POLICY_TABLES.items():
        sql = f"SELECT * FROM {name}"
        if table.public:
            assert [each.table.name.key for each in query_of(sql).public_tables] == [name]
            assert query_of(sql).blocks == ()
        else:
            assert refusal(sql).code == "raw_rows"
    assert ColumnPolicy() == ColumnPolicy(None, None, None)
