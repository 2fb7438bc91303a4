# ruff: noqa: E501
"""Over several tables, one unit moves the exact rows by no more than the plan declares.

A unit is removed from all tables at once: its own rows, the children of its rows, and theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from helpers import linked_tables as lineage_world
from helpers.columns import column_of
from helpers.linked_tables import COLUMNS, RULES, planned_here
from helpers.random_examples import examples_of, many_examples_of
from helpers.sensitivity import Groups, Row, WorldLab, moved_by_units, plan_violations, units_of
from helpers.support import Planned, listed_engine
from helpers.unchecked_runs import unread
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from dpsql.core.quoting import ROW_ID
from dpsql.core.schema import Table
from dpsql.core.sql_types import DOUBLE, SqlType
from dpsql.engines.base.dialect import Dialect
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import PolicyError, QueryRefused
from dpsql.ir.relations import Computed, PerUnit, UnitFunction, UnitValue
from dpsql.policy import model as policy
from dpsql.policy.model import Link, PrivacyUnit, TablePolicy
from dpsql.sql.expressions import totality
from dpsql.sql.lineage import full_joins, joins, resolver, semijoins, unit_values, windows
from dpsql.sql.lineage.operators import Operators
from dpsql.sql.lineage.relation import Relation
from dpsql.sql.relations import from_clause

World = Mapping[str, Sequence[Row]]
UNITS = ("people", "visits", "orders", "logins", "badges", "boxes", "refunds", "stamps", "gifts")
LINKS = (  # child, its key, parent, its key
    ("items", slice(0, 1), "orders", slice(1, 2)),
    ("returns", slice(0, 1), "items", slice(1, 2)),
    ("parts", slice(0, 2), "boxes", slice(1, 3)),
)


LAB = WorldLab(COLUMNS)


def without(world: World, unit: object) -> World:
    """The world without one unit: in every table, children and their children included."""
    left = {
        name: [row for row in rows if name not in UNITS or row[0] != unit]
        for name, rows in world.items()
    }
    for child, foreign, parent, key in LINKS:
        gone = {row[key] for row in world.get(parent, ()) if row not in left.get(parent, ())}
        left[child] = [row for row in left.get(child, ()) if row[foreign] not in gone]
    return left


def groups_of(world: World, found: Planned) -> Groups:
    """The exact rows of a question over a world."""
    LAB.fill(world)
    return LAB.groups(found.statements[0], found.plans[0])


def audit(world: World, found: Planned) -> dict[object, list[str]]:
    """Violations for each unit."""
    units = sorted(set[object]().union(*(units_of(world.get(n, ())) for n in UNITS)), key=str)
    allowed = plan_violations(found.plans[0])
    return moved_by_units(world, units, without, lambda each: groups_of(each, found), allowed)


def plan_of(sql: str, **parameters: Any) -> Planned | None:
    """The plan, or None where no mechanism answers, or where joins make a key the unit."""
    try:
        return planned_here(sql, **parameters)
    except QueryRefused as refused:
        if refused.code not in ("no_mechanism", "groups_by_unit", "query_too_large"):
            raise
        return None


# -- random worlds --------------------------------------------------------------------------------

WHO = st.sampled_from([1, 1, 2, 2, 3, 4, None])
SMALL = st.sampled_from([0, 1, 2, 3, None])
FEW = st.sampled_from([0, 1, None])
TEXT = st.sampled_from(["1", "2", "bad", "", None])
NAN = float("nan")
REAL = st.sampled_from([0.0, -0.0, 1.5, NAN, 1e308, -1e308, 3.0, None])
WIDE = st.sampled_from([-5, 0, 1, 2, 20, 2**31 - 1, None])


def rows_of(*columns: st.SearchStrategy[object], size: int = 7) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(*columns), max_size=size)


def keyed(rows: Sequence[Row], column: int, first: int) -> list[Row]:
    """Rows with distinct keys in a column: what a link refers to is unique."""
    return [(*row[:column], first + i, *row[column + 1 :]) for i, row in enumerate(rows)]


WORLDS = st.fixed_dictionaries(
    {
        "people": rows_of(WHO, TEXT, SMALL, size=5),
        "visits": rows_of(WHO, SMALL, TEXT, WIDE, REAL, size=10),
        "orders": rows_of(WHO, st.just(0), SMALL, REAL).map(lambda rows: keyed(rows, 1, 0)),
        "items": rows_of(st.sampled_from([*range(8), None]), st.just(0), SMALL, WIDE).map(
            lambda rows: keyed(rows, 1, 0)
        ),
        "returns": rows_of(st.sampled_from([*range(8), None]), TEXT, SMALL, size=5),
        "logins": rows_of(WHO, SMALL, size=5),
        "boxes": rows_of(WHO, FEW, FEW, SMALL).map(
            lambda rows: list(
                {
                    (row[1], row[2], None in row[1:3] and i): row for i, row in enumerate(rows)
                }.values()
            )
        ),
        "parts": rows_of(FEW, FEW, SMALL),
        "refunds": rows_of(WHO, FEW, FEW, SMALL),
        "stamps": rows_of(WHO, FEW, SMALL),
        "gifts": rows_of(WHO, WHO, SMALL),
        "shops": rows_of(SMALL, TEXT, WIDE, SMALL, size=4),
        "towns": rows_of(TEXT, TEXT, size=3),
    }
)

# -- random statements ----------------------------------------------------------------------------

# Sources of rows with the columns uid, k and v.
ROWS = (
    "(SELECT uid, age AS k, city AS v FROM people)",
    "(SELECT uid, k, s AS v FROM visits)",
    "(SELECT uid, k, 'c' AS v FROM orders)",
    "(SELECT uid, k, 'd' AS v FROM logins)",
    "(SELECT uid, CAST(s AS INT) AS k, upper(s) AS v FROM visits WHERE NOT (n > 1 AND CAST(s AS INT) > 1))",
    "(SELECT uid, n % k AS k, s AS v FROM visits WHERE n * n > 3 OR n IS NULL)",
    "(SELECT DISTINCT uid, k, s AS v FROM visits)",
    "(SELECT DISTINCT uid, 1 AS k, CAST(x AS VARCHAR) AS v FROM (SELECT DISTINCT uid, x FROM visits))",
    "(SELECT uid, max(n) AS k, min(s) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, k, CAST(count(*) AS VARCHAR) AS v FROM visits GROUP BY uid, k)",
    "(SELECT uid, count(DISTINCT k) AS k, CAST(sum(x) AS VARCHAR) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, sum(n) AS k, CAST(avg(n) AS VARCHAR) AS v FROM visits GROUP BY uid HAVING count(*) > 1)",
    "(SELECT uid, count(*) FILTER (WHERE NOT (k > 1 AND CAST(s AS INT) > 1)) AS k, min(s) FILTER (WHERE n > 0) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, sum(n) FILTER (WHERE k < 2) AS k, CAST(count_if(n % k = 1) AS VARCHAR) AS v FROM visits GROUP BY uid HAVING max(n) FILTER (WHERE k > 0) > 0)",
    "(SELECT uid, k, s AS v FROM visits UNION ALL SELECT uid, age, city FROM people)",
    "(SELECT uid, k, s AS v FROM visits UNION ALL BY NAME SELECT city AS v, uid, age AS k FROM people)",
    "(SELECT * EXCLUDE (n), s AS v FROM visits)",
    "(SELECT uid, one AS k, CAST(s AS VARCHAR) AS v FROM visits PIVOT (count(*) FOR k IN (1 AS one, 2) GROUP BY uid, s))",
    "(SELECT uid, k, m AS v FROM visits UNPIVOT INCLUDE NULLS (k FOR m IN (k, n)))",
    "(SELECT uid, k, s AS v FROM visits UNION SELECT uid, age, city FROM people)",
    "(SELECT uid, k, 'e' AS v FROM visits EXCEPT SELECT uid, k, 'e' FROM orders)",
    "(SELECT uid, k, 'e' AS v FROM visits EXCEPT ALL SELECT uid, k, 'e' FROM logins)",
    "(SELECT uid, k, 'e' AS v FROM visits INTERSECT SELECT uid, k, 'e' FROM orders)",
    "(SELECT uid, k, 'e' AS v FROM visits INTERSECT ALL SELECT uid, k, 'e' FROM logins)",
    "(SELECT o.uid, i.k, 'f' AS v FROM items i JOIN orders o ON i.okey = o.okey)",
    "(SELECT o.uid, i.k, 'f' AS v FROM orders o LEFT JOIN items i ON i.okey = o.okey AND i.qty > 1)",
    "(SELECT o.uid, sum(i.qty) AS k, 'f' AS v FROM items i, orders o WHERE i.okey = o.okey GROUP BY o.uid)",
    "(SELECT o.uid, o.k, r.why AS v FROM returns r JOIN items i USING (ikey) JOIN orders o USING (okey))",
    "(SELECT uid, k, s AS v FROM visits SEMI JOIN orders USING (uid))",
    "(SELECT v.uid, v.k, v.s AS v FROM visits v ANTI JOIN logins l ON v.uid = l.uid AND v.k <= l.k)",
    "(SELECT b.uid, a.k, b.s AS v FROM visits a JOIN shops s ON a.uid = s.uid LEFT JOIN visits b ON b.uid = s.uid AND a.k < b.k)",
    "(SELECT a.uid, a.k, 'm' AS v FROM visits a JOIN shops s ON a.uid = a.k ANTI JOIN visits b ON b.uid = a.k AND b.n > a.n)",
    "(SELECT o.uid, i.k, 'n' AS v FROM items i JOIN orders o ON i.okey = o.okey SEMI JOIN items j ON j.okey = i.okey AND j.k <> i.k)",
    "(SELECT o.uid, j.k, 'n' AS v FROM items i, orders o LEFT JOIN items j ON j.okey = i.okey AND j.k <> o.k WHERE i.okey = o.okey)",
    "(SELECT a.uid, a.k, b.v FROM visits a JOIN (SELECT uid, s AS v, n FROM visits) b ON a.uid = b.uid AND a.k IN (SELECT k FROM shops WHERE size > b.n))",
    "(SELECT a.uid, a.k, 'o' AS v FROM visits a JOIN shops s ON a.k = s.k AND NOT EXISTS (SELECT 1 FROM towns WHERE city = a.s) LEFT JOIN people p ON p.uid = a.uid)",
    "(SELECT uid, k, s AS v FROM visits WHERE k IN (SELECT k FROM shops))",
    "(SELECT uid, k, s AS v FROM visits WHERE k NOT IN (SELECT size FROM shops WHERE shops.k = n))",
    "(SELECT uid, k, s AS v FROM visits WHERE uid IN (SELECT uid FROM logins WHERE logins.k < n))",
    "(SELECT uid, k, s AS v FROM visits WHERE uid NOT IN (SELECT uid FROM orders WHERE price > 1) OR k > 1)",
    "(SELECT uid, k, CAST(uid IN (SELECT uid FROM orders) AS VARCHAR) AS v FROM logins)",
    "(SELECT uid, k, CAST(k IN (SELECT k FROM orders o WHERE o.uid = l.uid) AS VARCHAR) AS v FROM logins l)",
    "(SELECT uid, k, CAST(NOT EXISTS (SELECT 1 FROM items i WHERE i.okey = o.okey AND i.qty > 1) AS VARCHAR) AS v FROM orders o)",
    "(SELECT uid, k, CAST(k IN (SELECT k FROM shops) AS VARCHAR) AS v FROM visits WHERE NOT (k IN (SELECT size FROM shops) AND n > 1))",
    "(SELECT uid, k, s AS v FROM visits WHERE (uid, k) NOT IN (SELECT uid, k FROM logins))",
    "(SELECT uid, k, s AS v FROM visits FULL JOIN orders USING (uid, k))",
    "(SELECT v.uid, v.k, city AS v FROM visits v JOIN people p ON v.uid IS NOT DISTINCT FROM p.uid)",
    "(SELECT p.uid, v.k, city AS v FROM people p LEFT JOIN visits v ON v.uid IS NOT DISTINCT FROM p.uid AND v.n > 0)",
    "(SELECT p.uid, v.k, city AS v FROM people p LEFT JOIN visits v ON v.uid = p.uid AND (v.n > 4 OR v.s IN (SELECT city FROM towns)))",
    "(SELECT p.uid, v.k, city AS v FROM people p FULL JOIN visits v ON v.uid = p.uid AND EXISTS (SELECT 1 FROM visits w WHERE w.uid = v.uid AND w.k < 3))",
    "(SELECT v.uid, v.k, city AS v FROM people p RIGHT JOIN visits v ON v.uid = p.uid AND p.city <> (SELECT region FROM towns t WHERE t.city = v.s))",
    "(SELECT uid, count(n) AS k, min(city) AS v FROM people p FULL JOIN visits USING (uid) GROUP BY uid)",
    "(SELECT uid, (SELECT count(*) FROM visits w WHERE w.uid = l.uid AND w.n > 0) AS k, 'q' AS v FROM logins l)",
    "(SELECT uid, k, s AS v FROM visits v WHERE n < (SELECT max(n) FROM visits w WHERE w.uid = v.uid) OR k = 2)",
    "(SELECT uid, k, (SELECT min(CAST(qty AS VARCHAR)) FROM items i WHERE i.okey = o.okey) AS v FROM orders o)",
    "(SELECT uid, k, 'r' AS v FROM people p JOIN (SELECT uid AS u, k FROM logins) ON u = uid WHERE (SELECT sum(x) FROM visits WHERE uid = u) IS NULL)",
    "(SELECT uid, k, (SELECT name FROM shops s WHERE s.k = v.n AND s.size > 1) AS v FROM visits v)",
    "(SELECT uid, (SELECT size + 1 FROM shops WHERE uid = l.uid) AS k, (SELECT name FROM shops WHERE shops.uid = l.uid LIMIT 1) AS v FROM logins l)",
    "(SELECT uid, k, 't' AS v FROM visits v WHERE (SELECT s.k FROM shops s WHERE s.k <= v.k AND v.n < s.size) > n OR k = 2)",
    "(SELECT uid, (SELECT n FROM visits v WHERE v.uid = p.uid AND k > 0 ORDER BY n DESC, s LIMIT 1) AS k, city AS v FROM people p)",
    "(SELECT o.uid, i.k, (SELECT why FROM returns r WHERE r.ikey = i.ikey ORDER BY why DESC LIMIT 1) AS v FROM items i JOIN orders o USING (okey))",
    "(SELECT uid, NTILE(3) OVER (PARTITION BY uid ORDER BY n) AS k, s AS v FROM visits)",
    "(SELECT uid, DENSE_RANK() OVER (PARTITION BY uid, k ORDER BY s DESC) AS k, CAST(n AS VARCHAR) AS v FROM visits)",
    "(SELECT r.uid, x.k, 'u' AS v FROM boxes x JOIN refunds r ON x.a = r.a AND r.b = x.b)",
    "(SELECT x.uid, r.k, 'u' AS v FROM boxes x LEFT JOIN refunds r USING (b, a))",
    "(SELECT x.uid, x.k, 'u' AS v FROM boxes x ANTI JOIN refunds r ON x.a = r.a AND r.b = x.b AND r.k > 0)",
    "(SELECT uid, k, CAST((a, b) IN (SELECT a, b FROM refunds) AS VARCHAR) AS v FROM boxes)",
    "(SELECT uid, k, 'u' AS v FROM boxes WHERE (b, a) NOT IN (SELECT b, a FROM refunds WHERE k > 0) OR k = 1)",
    "(SELECT uid, k, 'u' AS v FROM stamps s WHERE EXISTS (SELECT 1 FROM stamps t WHERE t.no = s.no AND t.k <> s.k))",
    "(SELECT uid, k, 'u' AS v FROM stamps WHERE no NOT IN (SELECT no FROM stamps WHERE k > 1))",
    "(SELECT r.uid, y.k, 'u' AS v FROM refunds r JOIN refunds y ON y.a = r.a AND y.b = r.b)",
    "(SELECT p.uid, g.k, city AS v FROM people p JOIN gifts g ON g.whom = p.uid)",
    "(SELECT g.uid, g.k, city AS v FROM gifts g LEFT JOIN people p ON g.whom = p.uid AND p.age > 0)",
    "(SELECT uid, age AS k, CAST(uid IN (SELECT whom FROM gifts WHERE k > 0) AS VARCHAR) AS v FROM people)",
    "(SELECT p.uid, age AS k, 'g' AS v FROM people p WHERE EXISTS (SELECT 1 FROM gifts g WHERE g.whom = p.uid) AND NOT EXISTS (SELECT 1 FROM gifts g WHERE whom = p.uid AND g.k > 1))",
    "(SELECT uid, k, 'g' AS v FROM gifts WHERE whom NOT IN (SELECT uid FROM people WHERE age > 1))",
    "(SELECT g.uid, h.k, 'g' AS v FROM gifts g JOIN gifts h ON g.whom = h.whom AND g.k < h.k)",
    "(SELECT uid, k, s AS v FROM visits QUALIFY row_number() OVER (PARTITION BY uid ORDER BY n DESC) = 1)",
    "(SELECT DISTINCT ON (uid, k) uid, k, s AS v FROM visits ORDER BY x)",
    "(SELECT uid, arg_max(n, x) AS k, arg_min(s, n) FILTER (WHERE k > 0) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, sum(n) OVER (PARTITION BY uid ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS k, CAST(avg(x) OVER (PARTITION BY uid ORDER BY n ROWS 2 PRECEDING) AS VARCHAR) AS v FROM visits)",
    "(SELECT uid, count(*) OVER (PARTITION BY uid ORDER BY x DESC RANGE BETWEEN 2 PRECEDING AND 1.5 FOLLOWING) AS k, CAST(sum(x) OVER (PARTITION BY uid ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS VARCHAR) AS v FROM visits)",
    "(SELECT uid, max(n) OVER (PARTITION BY uid ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING) AS k, nth_value(s, 2) OVER (PARTITION BY uid ORDER BY n) AS v FROM visits)",
    "(SELECT uid, lag(n, 1, k) OVER (PARTITION BY uid ORDER BY x) AS k, CAST(percent_rank() OVER (PARTITION BY uid ORDER BY n) + cume_dist() OVER (PARTITION BY k, uid ORDER BY x) AS VARCHAR) AS v FROM visits)",
    "(SELECT o.uid, rank() OVER (PARTITION BY i.okey ORDER BY i.qty) AS k, CAST(sum(i.qty) OVER (PARTITION BY o.okey ORDER BY i.k ROWS 1 PRECEDING) AS VARCHAR) AS v FROM items i JOIN orders o USING (okey))",
    "(SELECT uid, first(k ORDER BY x DESC) AS k, string_agg(s, '>' ORDER BY n) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, last(n ORDER BY s) AS k, string_agg(DISTINCT s, ',' ORDER BY s DESC) FILTER (WHERE k > 0) AS v FROM visits GROUP BY uid, k % 2)",
    "(SELECT uid, max((SELECT size FROM shops s WHERE s.k = v.k AND s.size < 20 LIMIT 1)) AS k, 'v' AS v FROM visits v GROUP BY uid)",
    "(SELECT uid, k, CAST(n > ALL (SELECT n FROM visits w WHERE w.uid = v.uid AND w.k <> v.k) AS VARCHAR) AS v FROM visits v WHERE k < ANY (SELECT size FROM shops))",
    "(SELECT uid, k, CAST(v AS VARCHAR) AS v FROM (SELECT uid, k, n AS v FROM visits UNION SELECT uid, NULL, x FROM visits))",
    "(SELECT uid, quantile_disc(n, 0.3) AS k, mode(s) FILTER (WHERE k > 0) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, mode(k) AS k, CAST(median(x) AS VARCHAR) AS v FROM visits GROUP BY uid, n % 2 HAVING quantile_cont(n, 0.9) > 1)",
    "(SELECT uid, any_value(n) AS k, CAST(stddev(x) AS VARCHAR) AS v FROM visits GROUP BY uid, k % 2)",
    "(SELECT uid, sum(n) OVER (PARTITION BY uid ORDER BY k) AS k, CAST(avg(x) OVER (PARTITION BY uid) AS VARCHAR) AS v FROM visits)",
    "(SELECT uid, lag(n, 2) OVER (PARTITION BY uid ORDER BY x) AS k, first_value(s) OVER (PARTITION BY k, uid ORDER BY n) AS v FROM visits)",
    "(SELECT o.uid, rank() OVER (PARTITION BY o.uid ORDER BY i.qty) AS k, CAST(count(i.k) OVER (PARTITION BY o.uid) AS VARCHAR) AS v FROM items i JOIN orders o ON i.okey = o.okey)",
    "(SELECT uid, n - lead(n) OVER (PARTITION BY uid ORDER BY k) AS k, CAST(max(x) OVER (PARTITION BY uid ORDER BY s NULLS FIRST) AS VARCHAR) AS v FROM visits QUALIFY min(n) OVER (PARTITION BY uid, s) > 0)",
    "(SELECT uid, sum(n) OVER (PARTITION BY uid ORDER BY k ROWS UNBOUNDED PRECEDING) AS k, last_value(s) OVER (PARTITION BY uid ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS v FROM visits)",
    "(SELECT uid, lag(n IGNORE NULLS) OVER (PARTITION BY uid ORDER BY x) AS k, last_value(s IGNORE NULLS) OVER (PARTITION BY uid ORDER BY k) AS v FROM visits)",
    "(SELECT uid, lead(n IGNORE NULLS) OVER (PARTITION BY uid ORDER BY k) AS k, CAST(first_value(x IGNORE NULLS) OVER (PARTITION BY uid ORDER BY s) AS VARCHAR) AS v FROM visits)",
    "(SELECT uid, len(list(DISTINCT n)) AS k, array_to_string(list(s ORDER BY n), '-') AS v FROM visits GROUP BY uid)",
    "(SELECT l.uid, len(l.ks) AS k, l.ss[1] AS v FROM (SELECT uid, list(k) FILTER (WHERE n > 2) AS ks, list(s ORDER BY x) AS ss FROM visits GROUP BY uid) l WHERE list_has_any(l.ks, [1, 3]) IS NOT FALSE)",
    "(SELECT uid, CASE WHEN bool_or(n > 1) THEN 1 ELSE 2 END AS k, CAST(bool_and(x > 0) FILTER (WHERE k > 0) AS VARCHAR) AS v FROM visits GROUP BY uid)",
    "(SELECT uid, k, CAST(row_number() OVER (PARTITION BY uid ORDER BY count(*) DESC) AS VARCHAR) AS v FROM visits GROUP BY uid, k)",
    "(SELECT uid, max(n) AS k, max(s) AS v FROM visits GROUP BY uid, k QUALIFY rank() OVER w < 3 WINDOW w AS (PARTITION BY uid ORDER BY sum(x)))",
)  # fmt: skip
# Rows whose unit no column shows, with the columns k and v.
HIDDEN = (
    "(SELECT k, 'g' AS v FROM items)",
    "(SELECT n AS k, why AS v FROM returns)",
    "(SELECT k, 'v' AS v FROM parts)",
    "(SELECT max(k) AS k, 'u' AS v FROM stamps GROUP BY no)",
    "(SELECT max(v.k) AS k, 'l' AS v FROM visits v LEFT JOIN people p ON p.uid = v.uid AND p.age > 0 GROUP BY p.uid)",
    "(SELECT sum(i.k) AS k, 'l' AS v FROM items i LEFT JOIN orders o ON i.okey = o.okey AND o.k > 0 GROUP BY o.uid)",
    "(SELECT k, CAST(row_number() OVER (PARTITION BY no ORDER BY k) AS VARCHAR) AS v FROM stamps)",
    "(SELECT p.k, CAST(x.k AS VARCHAR) AS v FROM parts p JOIN boxes x ON p.a = x.a AND p.b = x.b)",
    "(SELECT p.k, CAST(x.k AS VARCHAR) AS v FROM parts p LEFT JOIN boxes x ON p.a = x.a AND p.b = x.b AND x.k > 0)",
    "(SELECT p.k, CAST(q.k AS VARCHAR) AS v FROM parts p JOIN parts q USING (a, b))",
    "(SELECT p.k, CAST(r.k AS VARCHAR) AS v FROM parts p JOIN boxes x USING (a, b) JOIN refunds r ON x.a = r.a AND x.b = r.b)",
    "(SELECT k, 'v' AS v FROM parts WHERE (a, b) NOT IN (SELECT a, b FROM boxes WHERE k > 0))",
    "(SELECT x.k, CAST(r.k AS VARCHAR) AS v FROM boxes x FULL JOIN refunds r ON x.a = r.a AND x.b = r.b)",
    "(SELECT i.k, CAST(o.price AS VARCHAR) AS v FROM items i LEFT JOIN orders o ON i.okey = o.okey AND o.k > 0)",
    "(SELECT i.k, o.k AS w, 'h' AS v FROM orders o RIGHT JOIN items i ON i.okey = o.okey AND o.price > 1)",
    "(SELECT a.k, 'i' AS v FROM items a JOIN items b ON a.okey = b.okey)",
    "(SELECT a.k, 'i' AS v FROM items a ANTI JOIN items b ON a.okey = b.okey AND a.ikey <> b.ikey)",
    "(SELECT i.k, 'j' AS v FROM items i ANTI JOIN orders o ON i.okey = o.okey AND o.k > 0)",
    "(SELECT i.k, 'j' AS v FROM items i SEMI JOIN returns r ON r.ikey = i.ikey)",
    "(SELECT k, CAST(okey IN (SELECT okey FROM orders WHERE price > 1) AS VARCHAR) AS v FROM items)",
    "(SELECT k, 'p' AS v FROM items WHERE okey NOT IN (SELECT okey FROM orders WHERE k > 0) OR ikey IN (SELECT ikey FROM returns))",
    "(SELECT i.k, r.why AS v FROM returns r LEFT JOIN items i ON r.ikey = i.ikey AND i.qty > 1)",
    "(SELECT k, s AS v FROM visits UNION ALL SELECT k, 'k' FROM items)",
    "(SELECT okey + 0 AS k, CAST(sum(qty) AS VARCHAR) AS v FROM items GROUP BY okey)",
    "(SELECT i.k, p.city AS v FROM items i LEFT JOIN orders o ON i.okey = o.okey AND o.k > 0 LEFT JOIN people p ON o.uid = p.uid)",
    "(SELECT n AS k, why AS v FROM returns UNION ALL SELECT k, 'l' FROM items)",
    "(SELECT k, 's' AS v FROM items i WHERE (SELECT max(price) FROM orders o WHERE o.okey = i.okey) > 1)",
    "(SELECT (SELECT count(*) FROM items j WHERE j.okey = i.okey) AS k, 't' AS v FROM items i)",
    "(SELECT o.k, i.v FROM orders o JOIN (SELECT okey, CAST(min(qty) AS VARCHAR) AS v FROM items GROUP BY okey) i ON i.okey = o.okey)",
    "(SELECT i.k, r.v FROM items i LEFT JOIN (SELECT ikey, min(why) AS v FROM returns GROUP BY ikey) r ON r.ikey = i.ikey)",
    "(SELECT i.k, 'w' AS v FROM items i ANTI JOIN (SELECT okey, max(k) AS k FROM orders GROUP BY okey) o ON o.okey = i.okey AND o.k > 0)",
    "(SELECT DISTINCT k, CAST(okey AS VARCHAR) AS v FROM items)",
    "(SELECT d.k, CAST(o.price AS VARCHAR) AS v FROM (SELECT DISTINCT okey, k FROM items) d LEFT JOIN orders o ON o.okey = d.okey)",
)  # fmt: skip
CONDITIONS = (
    "a.k > 1",
    "a.v IS NOT NULL",
    "NOT (a.k > 1 AND CAST(a.v AS INT) > 1)",
    "a.k IN (SELECT k FROM shops)",
    "a.k NOT IN (SELECT k FROM shops)",
    "EXISTS (SELECT 1 FROM shops WHERE size > a.k)",
    "NOT EXISTS (SELECT 1 FROM towns WHERE city = a.v)",
    "a.k IN (SELECT k FROM shops) OR a.v IS NULL",
)
ON = (
    "a.k = b.k",
    "a.k < b.k",
    "a.v = b.v",
    "NOT (a.k > 1 AND CAST(b.v AS INT) > 1)",
    "CAST(a.v AS INT) = b.k",
    "b.k > 0 OR a.k IS NULL",
    "a.k % b.k = 1",
)
PUBLIC = (
    "JOIN shops s ON s.k = a.k",
    "LEFT JOIN shops s ON s.size < a.k",
    "SEMI JOIN shops s ON s.k = a.k",
    "ANTI JOIN shops s ON s.name = a.v",
    "JOIN (SELECT DISTINCT k, size + 1 AS size FROM shops WHERE k > 0) s ON CAST(a.v AS INT) = s.k",
    "CROSS JOIN towns t",
    "JOIN (VALUES (1, 's1'), (2, 's2'), (1, NULL)) t(k, name) ON t.k = a.k OR t.name = a.v",
)
KEYS = ("a.k", "a.v", "CAST(a.v AS INT)", "a.k > 1")
MEASURES = ("count(*)", "count(a.k)", "count(a.v)")


@st.composite
def sources(draw: st.DrawFn) -> tuple[str, list[str], list[str], list[str]]:
    """A FROM clause around ``a``; conditions, keys and measures that fit it."""
    conditions, keys, measures = list(CONDITIONS), list(KEYS), list(MEASURES)
    if draw(st.integers(0, 3)) == 0:
        return f"{draw(st.sampled_from(HIDDEN))} a", conditions, keys, measures
    first = f"{draw(st.sampled_from(ROWS))} a"
    measures.append("count(DISTINCT a.uid)")
    shape = draw(st.sampled_from(["alone", "join", "join", "join", "comma", "twice", "public"]))
    if shape == "public":
        return f"{first} {draw(st.sampled_from(PUBLIC))}", conditions, keys, measures
    if shape == "alone":
        return first, conditions, keys, measures
    other = f"{draw(st.sampled_from(ROWS))} b"
    if shape == "comma":
        conditions = [f"a.uid = b.uid AND ({c})" for c in [*conditions, *ON]]
        return f"{first}, {other}", conditions, [*keys, "b.k", "b.v"], [*measures, "count(b.k)"]
    kind = draw(
        st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
    )
    extra = draw(st.lists(st.sampled_from(ON), max_size=1))
    from_ = (
        f"{first} {kind} {other} ON {' AND '.join(['a.uid = b.uid', *(f'({c})' for c in extra)])}"
    )
    if kind in ("SEMI JOIN", "ANTI JOIN"):
        return from_, conditions, keys, measures
    keys += ["b.k", "b.v", "coalesce(a.k, b.k)"]
    measures += ["count(DISTINCT b.uid)", "count(b.v)"]
    if shape == "twice":
        third = draw(st.sampled_from(ROWS))
        from_ += f" {draw(st.sampled_from(['JOIN', 'LEFT JOIN', 'FULL JOIN', 'ANTI JOIN']))} {third} c ON "
        from_ += f"{draw(st.sampled_from(['a', 'b']))}.uid = c.uid AND c.k >= b.k"
    return from_, conditions, keys, measures


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A statement of the accepted grammar and parameters for it."""
    from_, conditions, keys, measures = draw(sources())
    chosen = draw(st.lists(st.sampled_from(keys), max_size=2, unique=True))
    values = draw(st.lists(st.sampled_from(measures), min_size=1, max_size=2, unique=True))
    needed = ", (SELECT" in from_
    where = draw(st.lists(st.sampled_from(conditions), min_size=int(needed), max_size=1))
    sql = f"SELECT {', '.join([*chosen, *values])} FROM {from_}"
    sql += f" WHERE {where[0]}" if where else ""
    sql += f" GROUP BY {', '.join(chosen)}" if chosen else ""
    parameters: dict[str, Any] = {
        "max_groups_contributed": draw(st.integers(1, 3)),
        "max_rows_contributed": draw(st.integers(1, 3)),
        "min_units_per_group": draw(st.sampled_from([1, 1, 1, 2])),
        "contribution_bounding": draw(st.sampled_from(["sample", "sample", "weight"])),
    }
    return sql, parameters


def check(question: tuple[str, dict[str, Any]], world: World) -> dict[object, list[str]]:
    sql, parameters = question
    found = plan_of(sql, **parameters)
    return {} if found is None else audit(world, found)


@pytest.mark.slow
@many_examples_of(600)
@given(questions(), WORLDS)
def test_one_unit_moves_exact_rows_of_several_tables_within_the_sensitivity(
    question: tuple[str, dict[str, Any]], world: World
) -> None:
    assert check(question, world) == {}


# -- the order of rows ----------------------------------------------------------------------------

REORDERED = (
    "SELECT v, count(*) FROM (SELECT uid, CAST(min(x) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(max(x) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(sum(x) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(avg(x) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT 1 / x AS v, count(*) FROM (SELECT uid, x, count(*) FROM visits GROUP BY uid, x) GROUP BY v",
    "SELECT CAST(x AS VARCHAR) AS v, count(*) FROM (SELECT DISTINCT uid, x FROM visits) GROUP BY v",
    "SELECT CAST(x AS VARCHAR) AS v, count(*) FROM (SELECT uid, x FROM visits UNION SELECT uid, price "
    "FROM orders) GROUP BY v",
    "SELECT CAST(x AS VARCHAR) AS v, count(*) FROM (SELECT uid, x FROM visits INTERSECT SELECT uid, "
    "price FROM orders) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT o.uid, CAST(min(CASE WHEN i.k > 1 THEN x ELSE x * -1 END) AS "
    "VARCHAR) AS v FROM visits JOIN orders o USING (uid) JOIN items i USING (okey) GROUP BY o.uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(max(x) OVER (PARTITION BY uid) AS VARCHAR) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, s AS v FROM visits QUALIFY row_number() OVER (PARTITION BY uid ORDER BY k) = 1) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT DISTINCT ON (uid) uid, CAST(x AS VARCHAR) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, lag(n) OVER (PARTITION BY uid ORDER BY k) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, arg_max(s, k) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(arg_min(x, k) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(sum(x) OVER (PARTITION BY uid ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS VARCHAR) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, mode(s) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(median(x) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, any_value(s) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(stddev(x) AS VARCHAR) AS v FROM visits GROUP BY uid) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(sum(x) OVER (PARTITION BY uid ORDER BY k) AS VARCHAR) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(avg(x) OVER (PARTITION BY uid) AS VARCHAR) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, CAST(sum(x) OVER (PARTITION BY uid ORDER BY k ROWS UNBOUNDED PRECEDING) AS VARCHAR) AS v FROM visits) GROUP BY v",
    "SELECT v, count(*) FROM (SELECT uid, s AS v FROM visits GROUP BY uid, s QUALIFY row_number() OVER (PARTITION BY uid ORDER BY count(*)) = 1) GROUP BY v",
)  # fmt: skip


def reordered(world: World, sql: str) -> bool:
    """Whether the exact rows change when the rows are stored in the opposite order."""
    found = plan_of(sql, max_groups_contributed=3)
    assert found is not None
    turned = {name: list(reversed(rows)) for name, rows in world.items()}
    return groups_of(turned, found) != groups_of(world, found)


@pytest.mark.slow
@examples_of(60)
@given(st.sampled_from(REORDERED), WORLDS)
def test_exact_rows_do_not_depend_on_the_order_of_rows(sql: str, world: World) -> None:
    assert not reordered(world, sql)


SIGNED: World = {
    "visits": [(u, 1, "1", 1, x) for u in (1, 2, 3) for x in (0.0, -0.0)],
    "orders": [(u, u, 1, x) for u, x in ((1, -0.0), (2, 0.0), (3, -0.0))],
}
UNEVEN: World = {"visits": [(1, 1, "1", 1, x) for x in (1e17, 1.0, -1e17, 1.0)]}


@pytest.mark.parametrize("sql", [REORDERED[0], *REORDERED[4:7], REORDERED[9], REORDERED[11]])
def test_the_order_shows_where_equal_values_keep_their_looks(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reordered(SIGNED, sql)
    monkeypatch.setattr(Operators, "one_spelling", lambda self, rows, node: rows)
    assert reordered(SIGNED, sql)


TIED: World = {"visits": [(1, 1, s, n, 0.5) for s, n in (("2", 2), ("1", 1), ("3", 3))]}


@pytest.mark.parametrize("sql", [REORDERED[10], REORDERED[12]])
def test_the_order_shows_where_equal_rows_are_told_apart(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reordered(TIED, sql)
    monkeypatch.setattr(windows, "_OF_ONE_ROW", frozenset())
    assert reordered(TIED, sql)


def test_the_order_shows_where_doubles_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not reordered(UNEVEN, REORDERED[2])
    monkeypatch.setattr(from_clause, "_EXACT", DOUBLE)
    assert reordered(UNEVEN, REORDERED[2])


@pytest.mark.slow
@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT", "INTERVAL"])
def test_a_released_key_does_not_show_which_row_came_first(type_: str, tmp_path: Path) -> None:
    values = ("'30 days'", "'1 month'") if type_ == "INTERVAL" else ("'0.0'", "'-0.0'")
    shown = set()
    for number, (first, second) in enumerate((values, values[::-1])):
        path = tmp_path / f"{number}.duckdb"
        with duckdb.connect(str(path)) as writer:
            writer.execute(f"CREATE TABLE t (v {type_})")
            writer.execute(f"INSERT INTO t VALUES ({first}), ({second})")
        engine = DuckDBEngine(path)
        sql = f"SELECT 1 AS {ROW_ID}, v, count(*) AS m FROM t GROUP BY v"
        rows = unread(listed_engine(engine).run()).exact(sql, [column_of("v", type_)], ["m"])
        assert rows.measures["m"].tolist() == [2]
        with duckdb.connect(":memory:") as tail:
            tail.register("keys", rows.keys)
            shown |= set(tail.execute("SELECT CAST(v AS VARCHAR) FROM keys").fetchall())
        engine.close()
    assert len(shown) == 1


# -- the data cannot raise an error ---------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM (SELECT uid, sum(n * 50000000000000000000000000000) AS t FROM "
        "visits GROUP BY uid)",
        "SELECT count(*) FROM (SELECT uid, sum(x * 1e300) AS t, avg(x * x) AS m FROM visits GROUP BY uid)",
        "SELECT count(*) FROM visits a JOIN visits b ON a.uid = b.uid AND CAST(a.s AS INT) = b.n * b.n",
        "SELECT count(*) FROM visits a LEFT JOIN visits b ON a.uid = b.uid AND a.n // b.k = CAST(b.s AS INT)",
        "SELECT count(*) FROM visits ANTI JOIN shops ON CAST(s AS INT) = size * 2147483647",
        "SELECT count(*) FROM visits WHERE CAST(s AS INT) NOT IN (SELECT CAST(name AS INT) FROM shops)",
        "SELECT count(*) FROM visits WHERE n IN (SELECT size * 2147483647 * 4294967296 FROM shops)",
        "SELECT count(*) FROM (SELECT CAST(s AS INT) AS v FROM visits) WHERE v * 2147483647 > 3",
        "SELECT count(*) FROM visits JOIN people ON visits.uid = people.uid AND visits.s::INT = people.age",
        "SELECT count(*) FROM (SELECT uid, max(CAST(s AS INT)) AS m FROM visits GROUP BY uid HAVING "
        "m * 2147483647 > 0)",
        "SELECT count(*) FROM (SELECT uid, stddev(x * x) AS t, var_pop(n * n) AS m, "
        "arg_max(CAST(s AS INT), x) AS a FROM visits GROUP BY uid)",
        "SELECT count(*) FROM (SELECT uid, sum(n * 5000000000000000000) OVER (PARTITION BY uid) AS t, "
        "sum(x * 1e300) OVER (PARTITION BY uid ORDER BY k) AS m, avg(x * x) OVER (PARTITION BY uid) "
        "AS a FROM visits) WHERE t IS NULL OR m > 0 OR a > 0",
    ],
)  # fmt: skip
def test_no_row_of_any_table_raises_an_error(sql: str) -> None:
    found = plan_of(sql)
    assert found is not None
    world: World = {
        "people": [(1, "bad", 2**31 - 1), (2, "", None)],
        "visits": [(1, 0, "bad", 2**31 - 1, 1e308)] * 3 + [(2, None, "9", -(2**31), NAN)],
        "shops": [(0, "bad", 2**31 - 1, 1), (None, None, None, None)],
    }
    groups_of(world, found)


# -- negative controls: the audit notices each way of getting it wrong ----------------------------

CROWD: World = {
    "people": [(u, "1", u % 3) for u in range(1, 7)],
    "visits": [(u, k, "1", 1, 0.5) for u in range(1, 7) for k in range(4)],
    "orders": [(u, 10 * u + j, j, 1.0) for u in range(1, 7) for j in range(3)],
    "items": [(10 * u + j, 100 * u + j, u % 3, 5) for u in range(1, 7) for j in range(3)],
    "shops": [(k, f"s{k}", k, k) for k in range(4)],
    "badges": [("1", 1), ("01", 1), (" 1", 1)],
}
ONE = {"max_groups_contributed": 1, "max_rows_contributed": 1}


def caught(world: World, sql: str, **parameters: Any) -> bool:
    found = plan_of(sql, **{**ONE, **parameters})
    assert found is not None
    return audit(world, found) != {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
def test_the_audit_notices_joins_that_forget_the_unit(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    legal = f"SELECT p.age, count(*) FROM people p {kind} visits v ON p.uid = v.uid GROUP BY p.age"
    assert not caught(CROWD, legal)
    monkeypatch.setattr(joins, "_same_unit", lambda *_: True)
    key = "v.k" if kind in ("LEFT JOIN", "FULL JOIN") else "p.age"
    illegal = f"SELECT {key}, count(*) FROM people p {kind} visits v ON p.age = v.k GROUP BY {key}"
    world = {**CROWD, "visits": [(u, u % 3, "1", 1, 0.5) for u in (1, 2, 3)]}
    assert caught(world, illegal)


@pytest.mark.slow
def test_the_audit_notices_public_rows_taken_for_a_units(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT v.k, count(*) FROM {} ON s.uid = v.uid GROUP BY v.k"
    assert not caught(CROWD, sql.format("visits v LEFT JOIN shops s"))
    of_public = "SELECT s.k, count(v.k) FROM {} ON s.k = v.k GROUP BY s.k"
    assert not caught(CROWD, of_public.format("shops s LEFT JOIN visits v"))
    tables = {**RULES.tables, "shops": TablePolicy("shops", RULES.tables["people"].privacy_unit)}
    monkeypatch.setattr(lineage_world, "RULES", replace(RULES, tables=tables))
    assert caught(CROWD, sql.format("shops s LEFT JOIN visits v"))


@pytest.mark.slow
def test_the_audit_notices_a_link_followed_to_the_wrong_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = "SELECT k + 0, count(*) FROM items GROUP BY 1"
    assert not caught(CROWD, sql)
    tables = {
        **RULES.tables,
        "items": replace(RULES.tables["items"], link=Link("k", "orders", "k")),
    }
    monkeypatch.setattr(lineage_world, "RULES", replace(RULES, tables=tables))
    assert caught({**CROWD, "items": [(10, 100, 0, 5)]}, sql)


def test_the_audit_notices_a_table_that_has_a_unit_and_a_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why a policy cannot be made of such tables: they would follow the link, past the unit."""
    sql = "SELECT count(*) FROM visits"
    world = {**CROWD, "visits": [(1, 10 * u, "1", 1, 0.5) for u in range(1, 7)]}
    assert not caught(world, sql)
    both = replace(RULES.tables["visits"], link=Link("k", "orders", "okey"))
    tables = {**RULES.tables, "visits": both}
    with pytest.raises(PolicyError):
        replace(RULES, tables=tables)
    monkeypatch.setattr(policy, "link_problems", lambda links, tables: iter(()))
    monkeypatch.setattr(policy, "_misplaced_links", lambda table: iter(()))
    monkeypatch.setattr(lineage_world, "RULES", replace(RULES, tables=tables))
    assert caught(world, sql)


def test_the_audit_notices_a_key_that_is_compared_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a link on several columns, no part makes rows belong to one unit, nor do two rows' parts."""
    whole = "SELECT x.k, count(*) FROM parts p JOIN boxes x ON p.a = x.a AND p.b = x.b GROUP BY x.k"
    part = "SELECT x.k, count(*) FROM parts p JOIN boxes x ON p.a = x.a GROUP BY x.k"
    two = (
        "SELECT x.k, count(*) FROM parts p JOIN (SELECT x.k, x.a, y.b FROM boxes x JOIN boxes y "
        "ON x.uid = y.uid) x ON p.a = x.a AND p.b = x.b GROUP BY x.k"
    )
    world: World = {
        "boxes": [(u, i, u + i, 1) for u in range(1, 7) for i in range(2)],
        "parts": [(0, 1, 2)],
    }
    assert not caught(world, whole)
    for other in (part, two, part.replace("p.a = x.a", "p.a = x.a AND p.b < x.b")):
        with pytest.raises(QueryRefused, match="one privacy unit"):
            plan_of(other)
    monkeypatch.setattr(
        joins, "_all_meet", lambda ones, others, equal: joins._meet(ones, others, equal)
    )
    assert caught(world, part)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
def test_the_audit_notices_links_between_units_that_are_believed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an owner says of a key is not trusted: a refund of somebody else's box meets none."""
    key = "x.k" if kind in ("SEMI JOIN", "ANTI JOIN") else "r.k"
    sql = f"SELECT {key}, count(*) FROM boxes x {kind} refunds r ON x.a = r.a AND x.b = r.b GROUP BY {key}"
    world: World = {
        "boxes": [(u, 0, 0, 1) for u in range(2, 7)],
        "refunds": [(1, 0, 0, 2)],
    }
    assert not caught(world, sql)
    with pytest.raises(QueryRefused, match="one privacy unit"):
        plan_of(sql.replace("AND x.b = r.b", ""))
    units_equal = joins.units_equal
    monkeypatch.setattr(
        joins,
        "units_equal",
        lambda *given: (
            None if units_equal(*given) is None else exp.EQ(this=exp.true(), expression=exp.true())
        ),
    )
    assert caught(world, sql)


@pytest.mark.slow
def test_the_audit_notices_subqueries_along_links_that_are_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = "SELECT count(*) FROM stamps WHERE {}"
    world: World = {"stamps": [(1, 5, 1), *((u, 5, 3) for u in range(2, 7))]}
    tests = (
        "no NOT IN (SELECT no FROM stamps WHERE k < 2)",
        "k > 2 AND no IN (SELECT no FROM stamps WHERE k < 2)",
        "k > 2 AND EXISTS (SELECT 1 FROM stamps s WHERE s.no = stamps.no AND s.k < 2)",
    )
    assert not any(caught(world, sql.format(test)) for test in tests)
    units_equal = joins.units_equal
    monkeypatch.setattr(
        semijoins,
        "units_equal",
        lambda *given: (
            None if units_equal(*given) is None else exp.EQ(this=exp.true(), expression=exp.true())
        ),
    )
    assert all(caught(world, sql.format(test)) for test in tests)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT p.city, count(*) FROM people p JOIN gifts g ON g.whom = p.uid GROUP BY p.city",
        "SELECT city, count(*) FROM people WHERE uid IN (SELECT whom FROM gifts) GROUP BY city",
        "SELECT city, count(*) FROM people WHERE uid NOT IN (SELECT whom FROM gifts) GROUP BY city",
        "SELECT city, count(*) FROM people p WHERE age > 5 OR NOT EXISTS (SELECT 1 FROM gifts g WHERE g.whom = p.uid) GROUP BY city",
    ],
)
def test_the_audit_notices_gifts_that_count_for_whom_they_are_given_to(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One unit names any number of others in its rows: they meet none of theirs."""
    world: World = {
        "people": [(u, "1", 1) for u in range(1, 7)],
        "gifts": [(1, u, 0) for u in range(1, 7)],
    }
    assert not caught(world, sql)
    units_equal = joins.units_equal
    for module in (joins, semijoins):
        monkeypatch.setattr(
            module,
            "units_equal",
            lambda *given: (
                None
                if units_equal(*given) is None
                else exp.EQ(this=exp.true(), expression=exp.true())
            ),
        )
    assert caught(world, sql)


def test_a_gift_counts_where_both_of_its_units_are_one() -> None:
    sql = "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM gifts g WHERE g.whom = p.uid)"
    world: World = {
        "people": [(u, "1", 1) for u in range(1, 7)],
        "gifts": [(1, 1, 0), (1, 2, 0), (3, 3, 0), (None, 4, 0), (5, None, 0)],
    }
    (row,) = groups_of(world, planned_here(sql)).values()
    assert row == (2,)


def test_a_link_must_refer_to_a_unique_column() -> None:
    """Why the policy asks for it: a child with two parents is moved by both."""
    sql = "SELECT k, count(*) FROM items GROUP BY k"
    world = {**CROWD, "orders": [(1, 7, 0, 1.0), *((u, 7, 0, 1.0) for u in (2, 3, 4))]}
    world["items"] = [(7, 1, 0, 5)]
    assert caught(world, sql)


def test_the_audit_notices_a_cast_that_makes_two_units_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT b.k, count(*) FROM badges b JOIN people p ON p.uid = b.uid GROUP BY b.k"
    monkeypatch.setattr(resolver, "refuse_unlike", lambda node, type_of, text: None)
    monkeypatch.setattr(SqlType, "compares_exactly", lambda one, other: True)
    assert caught(CROWD, sql)


@pytest.mark.slow
@pytest.mark.parametrize("clause", ["WHERE", "JOIN people p ON v.uid = p.uid AND"])
def test_the_audit_notices_conditions_that_ask_for_private_rows(
    clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = f"SELECT count(*) FROM visits v {clause} v.k IN (SELECT k FROM {{}})"
    world = {**CROWD, "orders": [(1, 10, 3, 1.0)]}
    assert not caught(world, sql.format("shops"))
    with pytest.raises(QueryRefused, match="one privacy unit"):
        plan_of(sql.format("orders"))
    monkeypatch.setattr(semijoins, "is_one_unit", lambda *_: True)
    assert caught(world, sql.format("orders"))


@pytest.mark.slow
def test_the_audit_notices_rows_without_a_match_under_another_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    join = "FROM people p FULL JOIN orders o ON p.uid = o.uid"
    sql = f"SELECT o.k, count(o.okey) {join} GROUP BY o.k"
    orders = [(unit, 10 * unit + i, 1, 1.0) for unit in (1, 2, 3) for i in range(3)]
    world = {**CROWD, "people": [], "orders": orders}
    assert not caught(world, sql)
    either = full_joins._either

    def of_the_next_column(one: str, other: str) -> exp.Expr:
        stem = other.rstrip("0123456789")
        return either(one, f"{stem}{int(other[len(stem) :]) + 1}")  # of the order, not the person

    monkeypatch.setattr(full_joins, "_either", of_the_next_column)
    assert caught(world, sql)


@pytest.mark.slow
def test_the_audit_notices_values_of_the_rows_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT count(*) FROM visits v WHERE (SELECT count(*) FROM orders o WHERE {}) > 0"
    world = {**CROWD, "orders": [(1, 10, 3, 1.0)]}
    assert not caught(world, sql.format("o.uid = v.uid"))
    for other in ("o.k = v.k", "o.uid = v.uid AND o.k > v.k", "o.uid <= v.uid"):
        with pytest.raises(QueryRefused, match=r"a subquery (over groups )?cannot stand"):
            plan_of(sql.format(other))
    monkeypatch.setattr(unit_values, "is_one_unit", lambda *_: True)
    assert caught(world, sql.format("o.k = v.k"))


@pytest.mark.slow
@pytest.mark.parametrize("other", ["LEFT JOIN shops s", "ANTI JOIN shops s"])
def test_the_audit_notices_equalities_of_joins_that_keep_rows_without_a_match(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT b.k, count(*) FROM visits a {} ON a.uid = a.k JOIN visits b ON b.uid = {} GROUP BY 1"
    world = {**CROWD, "visits": [(1, 3, "1", 1, 0.5), *((u, 1, "1", 1, 0.5) for u in range(2, 7))]}
    assert not caught(world, sql.format(other, "a.uid"))
    with pytest.raises(QueryRefused, match="one privacy unit"):
        plan_of(sql.format(other, "a.k"))
    monkeypatch.setattr(joins, "_lasting", lambda left, right, equal, kind: equal)
    assert caught(world, sql.format(other, "a.k"))


@pytest.mark.slow
def test_the_audit_notices_casts_among_equalities(monkeypatch: pytest.MonkeyPatch) -> None:
    world = {**CROWD, "badges": [("1", 1), ("01", 2), (" 1", 3)]}
    sql = "SELECT count(*) FROM badges b JOIN {} s ON b.uid = s.uid JOIN badges c ON c.uid = s.uid"
    sql += " AND c.k = 2"
    monkeypatch.setattr(resolver, "refuse_unlike", lambda node, type_of, text: None)
    assert not caught(world, sql.format("badges"))
    with pytest.raises(QueryRefused, match="one privacy unit"):
        plan_of(sql.format("shops"))
    monkeypatch.setattr(SqlType, "compares_exactly", lambda one, other: True)
    assert caught(world, sql.format("shops"))


@pytest.mark.slow
def test_the_audit_notices_rows_made_distinct_across_units(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT k, count(*) FROM (SELECT DISTINCT uid, k FROM visits) GROUP BY k"
    assert not caught(CROWD, sql)

    def across(self: Operators, rows: Relation, node: exp.Expr) -> Relation:
        k, uid = (exp.column(name, quoted=True) for name in ("k", "uid"))
        first = UnitValue("uid", UnitFunction.LEAST, uid)
        return replace(rows, rows=PerUnit(rows.rows, (Computed("k", k),), (first,)))

    monkeypatch.setattr(Operators, "distinct", across)
    assert caught(CROWD, sql)


@pytest.mark.slow
def test_the_audit_notices_windows_of_several_units(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT c, count(*) FROM (SELECT uid, count(*) OVER (PARTITION BY {}) AS c FROM visits) "
    sql += "GROUP BY c"
    world = {**CROWD, "visits": [(u, 0, "1", 1, 0.5) for u in range(1, 7)]}
    assert not caught(world, sql.format("uid"))
    monkeypatch.setattr(windows, "_names_unit", lambda keys, source: True)
    assert caught(world, sql.format("k"))


@pytest.mark.slow
def test_the_audit_notices_groups_of_several_units(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT c, count(*) FROM (SELECT {0}, count(*) AS c FROM visits GROUP BY {0}) GROUP BY c"
    assert not caught(CROWD, sql.format("uid"))
    world = {**CROWD, "visits": [(u, 0, "1", 1, 0.5) for u in range(1, 7)]}
    tables = {**RULES.tables, "visits": TablePolicy("visits", PrivacyUnit("person", "k"))}
    monkeypatch.setattr(lineage_world, "RULES", replace(RULES, tables=tables))
    assert caught(world, sql.format("k"))


def test_the_audit_notices_errors_caught_around_a_whole_join_condition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statistics of all rows decide whether a failing operand is evaluated at all."""
    sql = (
        "SELECT count(*) FROM people p JOIN visits v ON p.uid = v.uid AND "
        "NOT (v.k > 2 AND CAST(v.s AS INT) > 2)"
    )
    world: World = {
        "people": [(u, "", 0) for u in range(1, 5)],
        "visits": [*((u, 0, "bad", 0, 0.0) for u in (1, 2, 3)), (4, 3, "1", 0, 0.0)],
    }
    assert not caught(world, sql)

    def around(node: exp.Expr, table: Table, dialect: Dialect) -> exp.Expr:
        return exp.Anonymous(this="TRY", expressions=[node])

    monkeypatch.setattr(totality, "total_condition", around)
    assert caught(world, sql)


def test_the_audit_notices_errors_caught_around_a_whole_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql = (
        "SELECT c, count(*) FROM (SELECT uid, count(*) FILTER (WHERE NOT (k > 2 AND CAST(s AS INT) "
        "> 2)) AS c FROM visits GROUP BY uid) GROUP BY c"
    )
    visits: list[Row] = [*((u, 0, "bad", 0, 0.0) for u in (1, 2, 3)), (4, 3, "1", 0, 0.0)]
    assert not caught({"visits": visits}, sql)

    def around(node: exp.Expr, table: Table, dialect: Dialect) -> exp.Expr:
        for case in node.find_all(exp.If):
            case.set("this", exp.Anonymous(this="TRY", expressions=[case.this]))
        return node

    monkeypatch.setattr(totality, "total", around)
    assert caught({"visits": visits}, sql)
