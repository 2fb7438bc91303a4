# ruff: noqa: E501
"""Statements an attacker might try: what each must lead to, and why.

``outcome`` is the code of the error, which costs nothing, or ``ANSWERS``, or ``TELLS`` for what is
answered at no cost, from the policy, the schema, the account and public tables alone.
"""

from __future__ import annotations

from dataclasses import dataclass

ANSWERS = "answers"
TELLS = "tells"


@dataclass(frozen=True, slots=True)
class Attack:
    """One statement, its outcome and the promise it tests."""

    sql: str
    outcome: str
    why: str


_ATTACKS: dict[str, list[tuple[str, str]]] = {
    "what the parser stumbles over is refused like anything else": [
        ("select count(*) from visits where var_map(k) is null", "not_understood"),
        ("select parameterized_agg(k, n, s) from visits", "not_understood"),
    ],
    "no condition can make the engine fail on the rows that it holds for": [
        ("select count(*) from visits where dayofweek(ts - d) = 1", "can_fail"),
        ("select count(*) from visits where nullif('x', 1) is null", "fails"),
        (
            "select count(*) from visits where case when uid = 27 and n >= 3 then week(interval 1 day) is null else true end",
            "can_fail",
        ),
        (
            "select count(*) from visits where uid <> 27 or n < 3 or extract(timezone from d) = 0",
            "can_fail",
        ),
        (
            "select count(*) from visits where case when uid = 27 then date_trunc('era', ts - d) is null else true end",
            "can_fail",
        ),
        (
            "select count(*) from visits v join shops s on v.k = s.k and case when uid = 27 then isodow(ts - d) = 1 else true end",
            "can_fail",
        ),
        (
            "select count(case when uid = 27 then date_diff('day', ts::time, ts::time) end) from visits",
            "can_fail",
        ),
        ("select count(*) from visits where week(d) = 1 and date_trunc('week', d) = d", ANSWERS),
    ],
    "a name cannot be made to mean another table or column": [
        ("select count(*) from visits v", ANSWERS),
        ("select v.k, count(*) from visits v group by v.k", ANSWERS),
        ("select visits.k, count(*) from visits v group by 1", "unknown_column"),
        ("with visits as (select 1 as k) select k, count(*) from visits group by k", TELLS),
        (
            "with recursive visits as (select 1 as k) select k, count(*) from visits group by k",
            "recursive_name",
        ),
        (
            "with recursive visits as (select k, count(*) n from visits group by k) select * from visits",
            "recursive_name",
        ),
        (
            "with recursive shops as (select k from shops union all select k + 1 from shops) select n from shops, (select count(*) n from visits)",
            "recursive_name",
        ),
        (
            "select count(*) from (with recursive Visits as (select uid from mails union all select uid from visits) select * from visits)",
            "recursive_name",
        ),
        (
            "with visits as (select k, count(*) n from visits group by k) select * from visits",
            ANSWERS,
        ),
        ("with visits as (select count(distinct uid) n from visits) select n from visits", ANSWERS),
        ("with a as (select * from visits) select count(*) from a", ANSWERS),
        (
            "with a as (select k from visits), visits as (select 1 k) select count(*) from a",
            ANSWERS,
        ),
        ("with visits as (select * from visits) select count(*) from visits", ANSWERS),
        (
            "with a as (with visits as (select 1 as q) select * from visits) select a.q, b.n from a, (select count(*) n from visits) b",
            ANSWERS,
        ),
        (
            'with "Visits" as (select 1 as k) select count(*) from VISITS, (select count(*) from mails)',
            ANSWERS,
        ),
        (
            "with shops as (select 1 as k) select shops.k, n from shops, (select count(*) n from visits)",
            ANSWERS,
        ),
        ("select count(*) from vis\u200bits", "unknown_table"),
        ("select count(*) from ｖisits", "unknown_table"),
        ("select count(*) as __dpsql_a0 from visits", "reserved_name"),
        ("select __dpsql_a0 from (select count(*) from visits)", "reserved_name"),
        ('select "__DPSQL_a0", count(*) from visits', "reserved_name"),
        ("select count(*) from __dpsql_released_0", "reserved_name"),
        ("select * from (select count(*) from visits) as __dpsql_released_0", "reserved_name"),
        ("select columns('__dpsql.*') from (select avg(x) from visits)", "does_not_bind"),
        ("select * from answer_0, (select count(*) from visits)", "unknown_table"),
        ("select * from main.answer_0, (select count(*) from visits)", "unknown_table"),
        ("select count(*) from main.visits", "unknown_table"),
        ("select count(*) from memory.main.visits", "unknown_table"),
        ("select count(*) from world.visits", "unknown_table"),
        ("select * from main.visits", "unknown_table"),
        ("select count(*) from secret", "unknown_table"),
        ("select n, v from secret, (select count(*) n from visits)", "unknown_table"),
        ("select n, v from (select count(*) n from visits) join secret on true", "unknown_table"),
        (
            "select name from shops where k = (select count(*) from visits) and 1 = (select 1 from secret)",
            "unknown_table",
        ),
        ("select * from con, (select count(*) n from visits)", "unknown_table"),
        ("select * from information_schema.tables", "unknown_table"),
        ('select count(*) from "/etc/passwd"', "unknown_table"),
        ("select * from '/etc/passwd'", "unknown_table"),
    ],
    "the privacy unit is neither grouped by nor released nor laundered": [
        ("select uid from visits group by uid", "groups_by_unit"),
        ("select UID, count(*) from visits group by UID", "groups_by_unit"),
        ('select "uid"+0, count(*) from visits group by 1', "groups_by_unit"),
        ("select uid as k, count(*) from visits group by k", "column_not_grouped"),
        ("select uid as person, count(*) from visits group by person", "groups_by_unit"),
        ("select k as a, a+uid as b, count(*) from visits group by b", "groups_by_unit"),
        ("select distinct uid from visits", "groups_by_unit"),
        ("select distinct k, uid from visits", "groups_by_unit"),
        ("select k from visits group by k having uid = 1", "column_not_grouped"),
        ("select k from visits group by k order by uid", "column_not_grouped"),
        ("select email, count(*) from mails group by email", "groups_by_unit"),
        ("select count(distinct uid+1) from visits", ANSWERS),
        ("select count(distinct uid, k) from visits", "aggregate_not_supported"),
        ("select count(distinct k) from visits", ANSWERS),
        ("select case when uid = 3 then k end, count(*) from visits group by 1", "groups_by_unit"),
        (
            "select 1 as uid, count(distinct uid) from (select 1 as uid from visits)",
            ANSWERS,
        ),
    ],
    "rows and exact values are not released": [
        ("select * from visits", "raw_rows"),
        ("from visits", "raw_rows"),
        ("table visits", "raw_rows"),
        ("select * from (table visits)", "raw_rows"),
        ("select k from visits", "raw_rows"),
        ("from visits select k", "raw_rows"),
        ("select visits from visits", "unknown_column"),
        ("select visits, count(*) from visits group by visits", "unknown_column"),
        ("select rowid from visits", "unknown_column"),
        ("select rowid, count(*) from visits group by rowid", "unknown_column"),
        ("select columns(*) from visits", "raw_rows"),
        ("select count(columns(*)) from visits", "expression_not_allowed"),
        ("select columns('.*'), count(*) from visits group by all", "expression_not_allowed"),
        ("select * exclude (k) from visits", "raw_rows"),
        ("select * replace (1 as k) from visits", "raw_rows"),
        ("select visits.* from visits", "raw_rows"),
        ("select count(*), visits.* from visits group by all", "raw_rows"),
        ("select * like 'k%' from visits", "raw_rows"),
        ("select distinct * from visits", "expression_not_allowed"),
        ("select 1 from visits", "raw_rows"),
        ("select k, s from visits group by k", "column_not_grouped"),
        ("select k, count(*) from visits group by k order by s", "column_not_grouped"),
        ("select k from visits group by k having s = 'a'", "column_not_grouped"),
        (
            "select k, first_value(s) over w from visits group by k window w as (order by k)",
            "column_not_grouped",
        ),
        (
            "select k, list_transform([1], x -> s), count(*) from visits group by k",
            "column_not_grouped",
        ),
        ("select k, json_object('a', s) from visits group by k", "column_not_grouped"),
        ("select count(*) over () from visits", "raw_rows"),
        ("select k, row_number() over () from visits", "raw_rows"),
        ("select k, sum(x) over (partition by k) from visits", "raw_rows"),
        (
            "select k, row_number() over (order by x) from visits qualify row_number() over (partition by uid) = 1",
            "raw_rows",
        ),
        ("select count(*) from (select * from visits)", ANSWERS),
        ("select count(*) from (visits)", ANSWERS),
        ("select count(*) from ((visits))", ANSWERS),
        ("select k from visits union select k from shops", "raw_rows"),
        ("select k from visits group by k union select k from visits", "raw_rows"),
        ("select name from shops where k in (select k from visits)", "raw_rows"),
        ("select name from shops where exists (select 1 from visits)", "raw_rows"),
        ("select name, (select v.s from visits v limit 1) from shops", "raw_rows"),
        ("select name, q.s from shops, lateral (select s from visits) q", "raw_rows"),
        ("select * from shops positional join visits", "join_kind"),
        (
            "with recursive r as (select k from visits union all select k from r) select * from r",
            "set_operation_mixed",
        ),
    ],
    "aggregates that show single values are not available": [
        ("select max(k) from visits", "aggregate_not_supported"),
        ("select min(x) from visits", "aggregate_not_supported"),
        ("select any_value(s) from visits", "aggregate_not_supported"),
        ("select first(s) from visits", "aggregate_not_supported"),
        ("select mode(s) from visits", "aggregate_not_supported"),
        ("select string_agg(s, ',') from visits", "aggregate_not_supported"),
        ("select list(s) from visits", "aggregate_not_supported"),
        ("select array_agg(s) from visits", "aggregate_not_supported"),
        ("select arg_max(s, x) from visits", "aggregate_not_supported"),
        ("select histogram(k) from visits", "raw_rows"),
        ("select approx_count_distinct(uid) from visits", "aggregate_not_supported"),
        ("select approx_top_k(s, 3) from visits", "aggregate_not_supported"),
        ("select median(x) from visits", ANSWERS),
        ("select quantile_cont(x, 0.5) from visits", ANSWERS),
        ("select quantile_cont(x, 1.5) from visits", "bad_fraction"),
        ("select bool_or(flag) from visits", "aggregate_not_supported"),
        ("select bit_xor(k) from visits", "aggregate_not_supported"),
        ("select product(x) from visits", "raw_rows"),
        ("select entropy(s) from visits", "raw_rows"),
        ("select k, array_agg(k) from visits group by k", "aggregate_not_supported"),
        ("select count(*) filter (where k = 1) from visits", ANSWERS),
        ("select sum(distinct n) from visits", "aggregate_not_supported"),
        ("select sum(n order by k) from visits", "aggregate_not_supported"),
        ("select count(n, k) from visits", "aggregate_not_supported"),
        ("select sum(k) from visits", "unbounded_sum"),
        ("select sum(s) from visits", "not_numeric"),
        ("select sum(uid) from visits", "unbounded_sum"),
        ("select sum(n/0) from visits", "unbounded_sum"),
        ("select sum(1e308*n) from visits", "unbounded_sum"),
        ("select sum(n*n*n*n*n*n*n*n*n*n*n*n) from visits", "bounds_too_large"),
        (
            "select sum(n, contribution_bounds_per_row => (0, 1e-200)) from visits",
            "bounds_too_small",
        ),
        ("select count(*) c, dp_interval_low(c) from visits", ANSWERS),
        ("select dp_interval_low(max(n)) from visits", "aggregate_not_supported"),
        ("select k, dp_interval_low(k) from visits group by k", "no_noise_known"),
        ("select dp_interval_low(count(*), 2) from visits", "confidence_out_of_range"),
        ("select sum(dp_interval_low(n)) from visits", "expression_not_allowed"),
        ("select sum(n, contribution_bounds_per_row => (0, 5)) from visits", ANSWERS),
        ("select sum(n, contribution_bounds_per_row => (5, 0)) from visits", "bad_bounds"),
        ("select sum(n, contribution_bounds => (0, 5)) from visits", "unknown_bounds"),
        (
            "select count(*, contribution_bounds_per_row => (0, 5)) from visits",
            "bounds_do_not_apply",
        ),
        (
            "select sum(v, contribution_bounds_per_row => (0, 5)) from (select count(*) v from visits)",
            "bounds_not_private",
        ),
        ("select count(*, max_error => 20) from visits", ANSWERS),
        ("select sum(x, max_error => 1e-9) from visits", "max_error_too_small"),
        ("select avg(n, max_error => 0.5) from visits", "error_not_public"),
        ("select count(*, max_error => -1) from visits", "parameter_out_of_range"),
        (
            "select with differential_privacy options (epsilon = 1, max_error = 20) count(*) from visits",
            "epsilon_and_max_error",
        ),
        (
            "select with differential_privacy options (max_error = 20) distinct k from visits",
            "error_not_public",
        ),
        (
            "select sum(v, max_error => 5) from (select count(*) v from visits)",
            "bounds_not_private",
        ),
        ("select sum(count(*)) from visits", "misplaced_aggregate"),
        ("select count(sum(n)) from visits", "misplaced_aggregate"),
        ("select k, count(*) from visits group by k order by max(s)", "aggregate_not_supported"),
        ("select grouping(k), count(*) from visits group by k", "aggregate_not_supported"),
    ],
    "nothing inside a private relation may pick, multiply or correlate rows": [
        ("select count(*) from visits join shops using (k)", ANSWERS),
        ("select count(*) from visits, shops", ANSWERS),
        ("select count(*) from shops join visits using (k)", ANSWERS),
        ("select count(*) from visits natural join mails", "join_units_differ"),
        ("select count(*) from visits v1 join visits v2 on v1.uid = v2.uid", ANSWERS),
        ("select count(*) from visits cross join visits v2", "join_needs_unit"),
        ("select count(*) from visits semi join shops using (k)", ANSWERS),
        (
            "select count(*) from visits asof join shops on visits.k >= shops.k",
            "join_kind",
        ),
        ("select count(*) from visits positional join shops", "join_kind"),
        ("select count(*) from visits left join shops on shops.k = visits.k", ANSWERS),
        ("select count(*) from visits, range(3)", "join_not_supported"),
        ("select count(*) from visits, lateral (select 1)", "join_not_supported"),
        ("select k from visits, unnest([1,2]) group by k", "join_not_supported"),
        ("select count(*) from visits, visits", "join_needs_unit"),
        ("select count(*) from shops left join visits using (k)", "join_keeps_public"),
        (
            "select k, count(*) from visits v join visits w on v.uid = w.uid group by k",
            "ambiguous_column",
        ),
        ("select count(*) from (select k from visits) t(a, b)", "too_many_aliases"),
        ("select count(*) from visits v join visits w using (nothing)", "join_column"),
        ("select count(*) from (select w.* from visits v)", "unknown_qualifier"),
        ("select count(*) from visits where row_number() over () = 1", "window_over_private_rows"),
        (
            "select count(*) from (select k from visits union select n from visits)",
            "set_operation_unit",
        ),
        (
            "select count(*) from (select k from visits union all select s from visits)",
            "set_operation_types",
        ),
        (
            "select k, count(*) from visits group by cube(k, s, n, x, d, flag)",
            "too_many_grouping_sets",
        ),
        (
            "select k, count(*) from visits group by rollup(k) order by sum(n)",
            "order_not_selected",
        ),
        ("select k, count(*) from visits group by k with totals", "group_by_form"),
        ("select count(*) from visits tablesample 10%", "table_form_not_allowed"),
        ("select count(*) from visits using sample 10", "clause_not_allowed"),
        (
            "select count(*) from visits using sample reservoir(10 rows) repeatable (100)",
            "clause_not_allowed",
        ),
        ("select distinct on (k) k, s from visits", "clause_not_allowed"),
        ("select * from visits pivot (count(*) for k in (1,2))", "table_form_not_allowed"),
        ("select * from (pivot visits on k using count(*))", "raw_rows"),
        ("select count(*) from visits as v(a,b,c)", ANSWERS),
        ("select count(*) from visits at (version => 1)", "table_form_not_allowed"),
        ("select count(*) from only visits", "table_form_not_allowed"),
        ("select count(*) from visits for update", "clause_not_allowed"),
        ("select count(*) from visits cluster by k", "clause_not_allowed"),
        ("select as struct count(*) from visits", "clause_not_allowed"),
        ("select k, count(*) from visits group by rollup(k)", ANSWERS),
        ("select k, count(*) from visits group by grouping sets ((k), ())", ANSWERS),
        (
            "select k, count(*) from visits where k in (select k from shops) group by k",
            ANSWERS,
        ),
        (
            "select k, count(*) from visits where k = (select max(k) from shops) group by k",
            "subquery_over_private_rows",
        ),
        (
            "select k, count(*) from visits where exists (select 1 from visits v where v.k = 1) group by k",
            "subquery_over_private_rows",
        ),
        (
            "select k, (select count(*) from visits v2 where v2.k = shops.k) from shops",
            "subquery_over_private_rows",
        ),
        (
            "select name, n from shops, lateral (select count(*) n from visits where visits.k = shops.k) q",
            "subquery_over_private_rows",
        ),
        ("select count(*) from visits where k = any([1])", "expression_not_allowed"),
    ],
    "joins, subqueries and set operations keep every row with one unit": [
        ("select count(*) from visits a join visits b on a.k = b.k", "join_needs_unit"),
        ("select count(*) from visits a join visits b on a.uid = b.uid or true", "join_needs_unit"),
        ("select count(*) from visits a join visits b on a.uid <> b.uid", "join_needs_unit"),
        ("select count(*) from visits a, visits b where a.uid = b.k", "join_needs_unit"),
        ("select count(*) from visits a, visits b where not (a.uid = b.uid)", "join_needs_unit"),
        (
            "select count(*) from visits a, visits b where (a.uid = b.uid) is null",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a left join visits b on a.k = b.k where a.uid = b.uid",
            "join_needs_unit",
        ),
        (
            "select count(*) from (select 1 as uid, k from visits) a join visits b using (uid)",
            "join_needs_unit",
        ),
        (
            "select count(*) from (select k as uid from visits) a join visits b on a.uid = b.uid",
            "join_needs_unit",
        ),
        (
            "select count(*) from (select uid + 0 as uid from visits) a join visits b using (uid)",
            "join_needs_unit",
        ),
        (
            "with visits2(uid, k) as (select k, uid from visits) select count(*) from visits2 a join visits b using (uid)",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a join shops s using (k) join visits b on s.k = b.k",
            "join_needs_unit",
        ),
        ("select count(*) from visits v join mails m on v.s = m.email", "join_units_differ"),
        ("select count(*) from visits a semi join visits b using (k)", "join_needs_unit"),
        (
            "select count(*) from visits a anti join visits b on a.k = b.k and b.s = 'target'",
            "join_needs_unit",
        ),
        ("select count(*) from visits a full join visits b using (uid)", "join_kind"),
        ("select count(*) from shops left join visits using (k)", "join_keeps_public"),
        ("select count(*) from shops anti join visits using (k)", "join_keeps_public"),
        (
            "select count(*) from visits v join (select k, count(*) c from visits group by k) t using (k)",
            "join_not_supported",
        ),
        (
            "select count(*) from visits v join (select avg(x) m from visits) on v.x > m",
            "join_not_supported",
        ),
        (
            "select count(*) from visits v, (select w.k from visits w where w.uid = v.uid) t",
            "unknown_column",
        ),
        (
            "select count(*) from (select k from visits except select k from visits where uid = 3)",
            "set_operation_unit",
        ),
        (
            "select count(*) from (select k from visits intersect select k from visits where uid = 3)",
            "set_operation_unit",
        ),
        (
            "select count(*) from (select k from visits union select k from visits)",
            "set_operation_unit",
        ),
        (
            "select count(*) from (select uid, k from visits union all select k, k from shops)",
            "set_operation_mixed",
        ),
        ("select count(*) from (select distinct on (k) * from visits)", "clause_not_allowed"),
        ("select count(*) from (select * from visits order by x limit 1)", "clause_not_allowed"),
        ("select count(*) from (from visits) tablesample 1 rows", "table_form_not_allowed"),
        (
            "select n, count(*) from (select n, row_number() over (order by x) r from visits) where r = 1 group by n",
            "window_over_private_rows",
        ),
        (
            "select count(*) from (select uid, first(s) f from visits group by uid)",
            "aggregate_not_supported",
        ),
        (
            "select count(*) from (select uid, list(s) f from visits group by uid)",
            "aggregate_not_supported",
        ),
        ("select u, count(*) from (select uid as u from visits) group by u", "groups_by_unit"),
        ("select u, count(*) from (select uid * 2 as u from visits) group by u", "groups_by_unit"),
        (
            "select b.uid, count(*) from visits a join visits b on a.uid = b.uid group by 1",
            "groups_by_unit",
        ),
        (
            "select m, count(*) from (select max(uid) m from visits group by uid) group by m",
            "groups_by_unit",
        ),
        (
            "select count(*) from visits where k in (select k from visits where uid = 3)",
            "subquery_over_private_rows",
        ),
        (
            "select count(*) from visits where exists (select 1 from visits where s = 'target')",
            "subquery_over_private_rows",
        ),
        (
            "select count(*) from visits v where not exists (select 1 from mails where mails.k = v.k)",
            "subquery_over_private_rows",
        ),
        (
            "select count(*) from visits where k in (select s.k from shops s, secret)",
            "unknown_table",
        ),
        (
            "select count(*) from visits where k in (select k from shops where random() < 0.5)",
            "expression_not_allowed",
        ),
        (
            "select count(*) from visits where k in (select k from range(3) t(k))",
            "join_not_supported",
        ),
        ("select count(*) from visits join secret using (k)", "unknown_table"),
        ("select count(*) from visits join main.secret s on true", "unknown_table"),
        ("select count(*) from visits where k not in (select k from shops)", ANSWERS),
        ("select count(distinct b.uid) from visits a join visits b on a.uid = b.uid", ANSWERS),
        (
            "select m, count(*) from (select uid, max(n) m from visits group by uid) group by m",
            ANSWERS,
        ),
        (
            "select count(*) from (select uid, k from visits except select uid, k + 1 from visits)",
            ANSWERS,
        ),
    ],
    "only queries are run, one at a time": [
        ("show tables", TELLS),
        ("describe visits", TELLS),
        ("summarize visits", "not_a_query"),
        ("describe select count(*) from visits", "syntax_error"),
        ("describe secret", "unknown_table"),
        ("show parameters; drop table visits", "several_statements"),
        ("select * from (describe visits)", "statement_not_allowed"),
        ("select * from (summarize visits)", "raw_rows"),
        ("select * from (show tables)", "unknown_table"),
        ("create table a as select count(*) from visits", "not_a_query"),
        ("create table a (b int)", "not_a_query"),
        ("insert into shops select 1,'a',2", "not_a_query"),
        (
            "with a as (insert into shops values (1,'a',2) returning *) select * from a",
            "statement_not_allowed",
        ),
        ("with a as (delete from visits returning *) select * from a", "statement_not_allowed"),
        ("delete from visits", "not_a_query"),
        ("update visits set k=1", "not_a_query"),
        ("drop table visits", "not_a_query"),
        ("truncate visits", "not_a_query"),
        ("copy visits to '/tmp/x.csv'", "not_a_query"),
        ("copy (select count(*) from visits) to '/tmp/x.csv'", "not_a_query"),
        ("attach 'x.db'", "not_a_query"),
        ("detach x", "not_a_query"),
        ("pragma table_info('visits')", "not_a_query"),
        ("set threads=1", "unknown_parameter"),
        ("set epsilon = 5", TELLS),
        ("set epsilon = 1e9", "parameter_out_of_range"),
        ("set variable a = 1", "unknown_parameter"),
        ("reset threads", "unknown_parameter"),
        ("install httpfs", "not_a_query"),
        ("load httpfs", "not_a_query"),
        ("call pragma_version()", "not_a_query"),
        ("begin", "not_a_query"),
        ("begin transaction", "not_a_query"),
        ("commit", "not_a_query"),
        ("checkpoint", "not_a_query"),
        ("vacuum", "not_a_query"),
        ("analyze", "not_a_query"),
        ("export database 'x'", "syntax_error"),
        ("explain select count(*) from visits", TELLS),
        ("explain delete from visits", "not_a_query"),
        ("explain analyze select count(*) from visits", "explain_analyze"),
        ("prepare a as select count(*) from visits", "not_a_query"),
        ("execute a", "not_a_query"),
        ("use main", "not_a_query"),
        ("pivot visits on k using count(*)", "not_a_query"),
        ("unpivot visits on n, big into name a value b", "not_a_query"),
        ("values (1)", "not_a_query"),
        ("select count(*) into x from visits", "statement_not_allowed"),
        ("select count(*) from visits; select 1", "several_statements"),
        ("select count(*) from visits; drop table visits", "several_statements"),
        (";", "syntax_error"),
        ("select", "syntax_error"),
    ],
    "a view reads one table that says when its rows happened": [
        (
            "create materialized view v with (step = '1 day', start = '2024-01-01') as select k, count(*) from visits group by k",
            "no_view",
        ),
        ("refresh materialized view nowhere", "unknown_view"),
        ("drop materialized view visits", "unknown_view"),
        ("create materialized view v as select count(*) from visits", "view_option_missing"),
        ("create view v as select count(*) from visits", "not_a_query"),
        ("drop table visits", "not_a_query"),
        ("show materialized views", TELLS),
    ],
    "files, settings, catalogs, state and time are out of reach": [
        ("select * from query('select * from visits')", "function_not_allowed"),
        ("select * from query_table('visits')", "function_not_allowed"),
        ("select count(*) from query_table('visits')", "function_not_allowed"),
        ("select * from read_csv('/etc/passwd')", "function_not_allowed"),
        (
            "select n, content from (select count(*) n from visits), read_text('/etc/passwd')",
            "function_not_allowed",
        ),
        ("select * from glob('/etc/*'), (select count(*) n from visits)", "table_function"),
        (
            "select * from sniff_csv('/etc/passwd'), (select count(*) n from visits)",
            "table_function",
        ),
        ("select * from parquet_scan('a'), (select count(*) n from visits)", "table_function"),
        ("select * from sqlite_scan('a','b'), (select count(*) n from visits)", "table_function"),
        ("select * from duckdb_tables()", "table_function"),
        ("select * from duckdb_settings(), (select count(*) n from visits)", "table_function"),
        ("select * from pragma_database_size(), (select count(*) n from visits)", "table_function"),
        ("select * from checkpoint(), (select count(*) n from visits)", "table_function"),
        (
            "select * from json_execute_serialized_sql('x'), (select count(*) n from visits)",
            "table_function",
        ),
        ("select * from test_all_types(), (select count(*) n from visits)", "table_function"),
        ("select * from seq_scan('visits'), (select count(*) n from visits)", "table_function"),
        ("select getvariable('a'), count(*) from visits", "function_not_allowed"),
        ("select nextval('a'), count(*) from visits", "function_not_allowed"),
        ("select currval('a'), count(*) from visits", "function_not_allowed"),
        ("select getenv('HOME'), count(*) from visits", "function_not_allowed"),
        ("select current_setting('threads'), count(*) from visits", "function_not_allowed"),
        ("select set_config('a','b',false), count(*) from visits", "function_not_allowed"),
        ("select current_query(), count(*) from visits", "function_not_allowed"),
        ("select txid_current(), count(*) from visits", "function_not_allowed"),
        ("select write_log('a'), n from (select count(*) n from visits)", "function_not_allowed"),
        ("select sleep_ms(10), count(*) from visits", "function_not_allowed"),
        ("select system.main.sleep_ms(10), count(*) from visits", "function_not_allowed"),
        ("select pg_sleep(1), count(*) from visits", "function_not_allowed"),
        ("select error('x'), count(*) from visits", "function_not_allowed"),
        (
            "select n from (select count(*) n from visits) where n = error('a')",
            "function_not_allowed",
        ),
        (
            "select k, count(*) n from visits group by k order by n desc limit (select count(*) from duckdb_settings())",
            "table_function",
        ),
    ],
    "conditions are deterministic functions of one row": [
        ("select count(*) from visits where error(s) is null", "function_not_allowed"),
        ("select count(*) from visits where random() < 0.5", "expression_not_allowed"),
        ("select count(*) from visits where uuid() = s", "expression_not_allowed"),
        ("select count(*) from visits where now() > ts", "expression_not_allowed"),
        ("select count(*) from visits where current_date > d", "expression_not_allowed"),
        ("select count(*) from visits where sleep_ms(1000) is null", "function_not_allowed"),
        ("select count(*) from visits where nothing(k)", "expression_not_allowed"),
        ("select count(*) from visits where s ~ '(a+)+$'", "expression_not_allowed"),
        ("select count(*) from visits where regexp_matches(s, 'a')", "expression_not_allowed"),
        ("select count(*) from visits where s collate nocase = 'a'", "expression_not_allowed"),
        ("select count(*) from visits where repeat(s, 1000000000) = 'a'", "expression_not_allowed"),
        ("select count(*) from visits where list_sum([k]) = 1", "expression_not_allowed"),
        ("select count(*) from visits where hash(s) = 1", "expression_not_allowed"),
        ("select count(*) from visits where (k, n) in ((1,2))", "expression_not_allowed"),
        ("select count(*) from visits where s::int[] is null", "expression_not_allowed"),
        ("select count(*) from visits where s::json is null", "expression_not_allowed"),
        ('select count(*) from visits where s::"nothing" is null', "expression_not_allowed"),
        ("select count(*) from visits where k is json", "expression_not_allowed"),
        ("select count(*) from visits where s = e'a\\'b'", "expression_not_allowed"),
        ("select count(*) from visits where k = #1", "expression_not_allowed"),
    ],
    "text that is generated as it stands cannot smuggle SQL": [
        (
            'select EXTRACT("year FROM d), (select 1) --" FROM d), count(*) from visits group by 1',
            "expression_not_allowed",
        ),
        (
            'select extract("year from d)) from visits; drop table visits; select (" from d), count(*) from visits group by 1',
            "expression_not_allowed",
        ),
        (
            'select count(*) from visits where extract("year from d) > 0 or (1" from d) = 1',
            "expression_not_allowed",
        ),
        ("select extract('ye''ar' from d), count(*) from visits group by 1", "does_not_bind"),
        ("select date_trunc('x''y', d), count(*) from visits group by 1", "expression_not_allowed"),
        ("select date_trunc(s, ts), count(*) from visits group by 1", "expression_not_allowed"),
        (
            "select count(*) from visits where date_trunc(d, '2024-01-01') < d",
            "expression_not_allowed",
        ),
        ("select count(*) from visits where date_diff(s, d, d) = 0", "expression_not_allowed"),
        ("select count(*) as e'a\\'b' from visits", ANSWERS),
        ("select k as \u200b, count(*) from visits group by k", ANSWERS),
        (
            "select date_diff('da''y', d, d), count(*) from visits group by 1",
            "expression_not_allowed",
        ),
        ("select count(*) from visits where s = 'a\\' or 1=1 --'", ANSWERS),
        ("select count(*) from visits where s = 'it''s'", ANSWERS),
        ('select count(*) from visits where s = "it"', "unknown_column"),
        ('select count(*) as "a"";drop table visits;--" from visits', ANSWERS),
        ("select count(*) from visits where s::varchar(-1) = 'a'", "syntax_error"),
        ("select count(*) from visits where s::decimal(k,2) = 1", "does_not_bind"),
        ("/* x */ select /* y */ count(*) /* z */ from visits -- '", ANSWERS),
        ("select count(*) from visits /* unclosed", "syntax_error"),
    ],
    "parameters, ordinals and limits out of range are refused or harmless": [
        ("select count(*) from visits limit 99999999999999999999999", "does_not_bind"),
        (
            "select k, count(*) n from visits group by k order by n desc limit 99999999999999999999999",
            "does_not_bind",
        ),
        (
            "select k, count(*) n from visits group by k order by n desc limit 9223372036854775807",
            ANSWERS,
        ),
        ("select k, count(*) n from visits group by k order by n desc limit -1", "does_not_bind"),
        ("select k, count(*) n from visits group by k order by n desc limit 0", ANSWERS),
        ("select k, count(*) n from visits group by k order by n desc limit 3.5", ANSWERS),
        ("select k, count(*) n from visits group by k order by n desc limit 10%", ANSWERS),
        ("select k, count(*) n from visits group by k order by n desc limit (select 3)", ANSWERS),
        (
            "select k, count(*) n from visits group by k order by n desc limit (select count(*) from visits)",
            ANSWERS,
        ),
        ("select k, count(*) n from visits group by k order by n desc limit 1+1", ANSWERS),
        (
            "select k, count(*) n from visits group by k order by n desc limit k",
            "column_not_grouped",
        ),
        (
            "select k, count(*) n from visits group by k order by n desc limit ?",
            "parameter_missing",
        ),
        (
            "select k, count(*) n from visits group by k order by n desc limit 3 offset 99999999999999999999999",
            "does_not_bind",
        ),
        (
            "select k, count(*) n from visits group by k order by n desc limit 3 offset -1",
            "does_not_bind",
        ),
        (
            "select k, count(*) n from visits group by k order by n desc fetch first 3 rows with ties",
            ANSWERS,
        ),
        (
            "select k, count(*) n from visits group by k order by n desc fetch first 3 rows only",
            ANSWERS,
        ),
        (
            "select k, count(*) n from visits group by k order by 99999999999999999999999 desc limit 3",
            "does_not_bind",
        ),
        ("select k, count(*) n from visits group by k order by 0 desc limit 3", "does_not_bind"),
        ("select k, count(*) n from visits group by 99999999999999999999999", "unknown_ordinal"),
        ("select k, count(*) n from visits group by 0", "unknown_ordinal"),
        ("select k, count(*) n from visits group by -1", "constant_key"),
        ("select k, count(*) n from visits group by 2", "misplaced_aggregate"),
        ("select k, count(*) n from visits group by 1.5", "constant_key"),
        (
            "select with differential_privacy options(epsilon = sqrt(2)) count(*) from visits",
            "bad_option",
        ),
        (
            "select with differential_privacy options(epsilon = 1, epsilon = 2) count(*) from visits",
            "option_twice",
        ),
        (
            "select with differential_privacy n from (select count(*) n from visits)",
            "options_not_private",
        ),
        (
            "select with differential_privacy options(mechanism = 'known_domain') k, count(*) from visits group by k",
            "mechanism_does_not_fit",
        ),
        (
            "select with differential_privacy options(mechanism = 'gaussian_sparse_histogram') k, count(*) from visits group by k",
            "mechanism_needs_basic",
        ),
        (
            "select with differential_privacy options(mechanism = 'magic') count(*) from visits",
            "unknown_mechanism",
        ),
        (
            "select with differential_privacy options(answer_from = released) c, count(*) from visits group by c",
            "nothing_released",
        ),
        (
            "select with differential_privacy options(answer_from = released, fresh = true) count(*) from visits",
            "nothing_released",
        ),
        (
            "select with differential_privacy options(max_groups_contributed = unlimited) k, count(*) from visits group by k",
            "no_mechanism",
        ),
        (f"select count(*) from visits where k > {'9' * 39}", "number_too_long"),
        (f"select quantile_cont(x, 0.{'9' * 5000}) from visits", "bad_fraction"),
        ("select quantile_cont(x, 0.5else from visits", "syntax_error"),
        ("select case when flag then 0.5else 1 end, count(*) from visits", "syntax_error"),
        ("select dp_interval_low(count(*), 0.5ea) from visits", "syntax_error"),
        ("select sum(n, contribution_bounds_per_row => (0, 5ea)) from visits", "syntax_error"),
        ("select sum(n + １) from visits", "unknown_column"),
        ("select quantile_cont(x, 1e-999999999) from visits", "bad_fraction"),
        (
            "select count(*) from visits a"
            + "".join(f" join visits b{i} using (uid)" for i in range(8)),
            "too_many_relations",
        ),
        (
            f"select count(*) from visits group by {', '.join(['cube (k, s)'] * 200)}",
            "too_many_grouping_sets",
        ),
        (f"select {'k, ' * 250}count(*) from visits group by k", "query_too_large"),
        (f"select {'count(*), ' * 100}count(*) from visits", "query_too_large"),
        (f"select * from {', '.join(['(select count(*) from visits)'] * 101)}", "query_too_large"),
        (f"select count(*) from visits{' join shops using (k)' * 251}", "query_too_large"),
        (f"select {','.join(['1'] * 15_100)}, count(*) from visits", "query_too_large"),
        (f"select count(*) from visits where {'(' * 70}k = 1{')' * 70}", "query_too_deep"),
        (f"select count(*) from visits where s = '{'x' * 100_000}'", "query_too_long"),
        (
            f"select k as a0, {', '.join(f'a{i} + a{i} as a{i + 1}' for i in range(14))}, count(*) from visits group by all",
            "query_too_large",
        ),
        ("select count(*) from visits where k = ?", "parameter_missing"),
        ("select count(*) from visits where k = $1", "parameter_missing"),
        ("select count(*) from visits where k = $a", "parameter_missing"),
        ("select count(*) from visits where k = :a", "parameter_missing"),
        ("select count(*) from visits where k = @a", "unknown_column"),
        ("select count(*) from visits where k = #1", "expression_not_allowed"),
        ("select ?, count(*) from visits", "parameter_missing"),
        ("select $1, count(*) from visits", "parameter_missing"),
    ],
    "equalities, FILTER, tests and names say what they say, and nothing of other people": [
        (
            "select count(*) from visits a join shops s on a.uid = s.k join visits b on b.uid = s.k",
            ANSWERS,
        ),
        (
            "select count(*) from visits a, visits b, visits c where a.uid = a.big and b.uid = a.big and c.uid = b.uid",
            ANSWERS,
        ),
        (
            "select count(*) from visits a, visits b, visits c where a.uid = a.big and b.uid = a.big and c.uid = b.big",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a left join shops s on a.uid = a.big join visits b on b.uid = a.big",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a anti join shops s on a.uid = a.big join visits b on b.uid = a.big",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a join shops s on not (a.uid <> a.big) join visits b on b.uid = a.big",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a join shops s on a.uid = a.x join visits b on b.uid = a.x",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a join shops s on a.uid = a.big::varchar join visits b on b.uid = a.big",
            "join_needs_unit",
        ),
        (
            "select count(*) from visits a join visits b on a.uid = b.uid and a.k in (select k from mails)",
            "subquery_over_private_rows",
        ),
        (
            "select count(*) from visits a join visits b on a.uid = b.uid and exists (select 1 from visits c where c.k = a.k)",
            "subquery_over_private_rows",
        ),
        (
            "select count(*) from visits a join shops s on exists (select 1 from secret)",
            "unknown_table",
        ),
        (
            "select count(*) from visits a left join shops s on a.k in (select k from shops)",
            "subquery_over_private_rows",
        ),
        (
            "select count(*) from visits a join shops s on a.k = s.k and a.n in (select size from shops)",
            ANSWERS,
        ),
        (
            "select c, count(*) from (select uid, count(*) filter (where n > 3) c from visits group by uid) group by c",
            ANSWERS,
        ),
        (
            "select c, count(*) from (select uid, count(*) filter (where random() < 0.5) c from visits group by uid) group by c",
            "expression_not_allowed",
        ),
        (
            "select c, count(*) from (select uid, count(*) filter (where n > (select avg(n) from visits)) c from visits group by uid) group by c",
            "subquery_over_private_rows",
        ),
        (
            "select c, count(*) from (select k, count(*) filter (where uid = 1) c from visits group by k) group by c",
            ANSWERS,
        ),
        (
            "select c, count(*) from (select uid, first(s) filter (where n > 3) c from visits group by uid) group by c",
            "aggregate_not_supported",
        ),
        ("select k, count(*) as n from visits group by k having n > 3", ANSWERS),
        (
            "select k, count(*) as n from visits group by k having visits.n > 3",
            "column_not_grouped",
        ),
        ("select k, count(*) as n from visits group by k order by visits.n", "column_not_grouped"),
        ("select k, count(*) as uid from visits group by k order by uid + 0", "column_not_grouped"),
        ("select k % 2 as uid, count(*) from visits group by rollup (uid)", "groups_by_unit"),
        ("select count(*) as uid from visits group by rollup (uid)", "groups_by_unit"),
    ],
    "what reads no private table costs nothing and comes nowhere near one": [
        ("select 1", TELLS),
        ("SELECT 1 AS ping -- from a tool", TELLS),
        ("select version(), current_schema()", TELLS),
        ("select now() is not null, random() < 2", TELLS),
        ("from shops", TELLS),
        ("select k, sum(size) over (order by k) from shops where name like 's%'", TELLS),
        ("select count(*) from shops s, shops t where s.k < t.k", TELLS),
        (
            "with recursive r(i) as (select 1 union all select i + 1 from r where i < 9) from r",
            TELLS,
        ),
        ("select * from (values (1), (2)) t(a), range(3), unnest(['x', 'y'])", TELLS),
        ("select (select max(size) from shops) - (select min(size) from shops)", TELLS),
        ("select 1 where exists (select 1 from visits)", "raw_rows"),
        ("select (select k from visits limit 1)", "raw_rows"),
        ("select * from shops where k in (select k from visits)", "raw_rows"),
        ("select * from shops s, lateral (select s.k from visits) t", "subquery_over_private_rows"),
        (
            "select * from shops where k = (select count(*) from visits v where v.k = shops.k)",
            "subquery_over_private_rows",
        ),
        ("from visits", "raw_rows"),
        ("select * from secret", "unknown_table"),
        ("select 1 where (select v from secret) = 'secret 1'", "unknown_table"),
        ("with t as (select * from secret) select 1", "unknown_table"),
        ("select * from main.visits", "unknown_table"),
        ("select * from main.shops", "unknown_table"),
        ("select * from information_schema.tables", "unknown_table"),
        ("select * from pg_catalog.pg_tables", "unknown_table"),
        ("select * from sqlite_master", "unknown_table"),
        ("select * from duckdb_tables()", "table_function"),
        ("select * from 'world.duckdb'", "unknown_table"),
        ("select * from '/etc/passwd'", "unknown_table"),
        ("select * from read_text('/etc/passwd')", "function_not_allowed"),
        ("select * from shops union all select k, s, n from visits", "raw_rows"),
        ("select current_setting('threads')", "function_not_allowed"),
        ("select getenv('HOME')", "function_not_allowed"),
        ("select current_query()", "function_not_allowed"),
        ("select * from __dpsql_released_0", "reserved_name"),
        ("select * from answer_0", "unknown_table"),
        ("select dp_interval_low(size) from shops", "no_noise_known"),
        (
            "select sum(size, contribution_bounds_per_row => (0, 1)) from shops",
            "bounds_not_private",
        ),
        ("select with differential_privacy count(*) from shops", "options_not_private"),
        ("select uid from shops", "does_not_bind"),
        ("select 1, 2 from nothing", "unknown_table"),
    ],
    "what must fail or take all memory is refused before it is paid for": [
        ("select count(*) + 'a' from visits", "constant_fails"),
        ("select k, count(*) from visits group by k having k = 's1'", "constant_fails"),
        ("select 'x'::date, count(*) from visits", "constant_fails"),
        ("select [1, 2]::int, count(*) from visits", "constant_fails"),
        ("select count(*)::date from visits", "constant_fails"),
        ("select 100000 * 100000 + count(*) from visits", "constant_fails"),
        ("select try_cast('x' as date), try('y'::int), count(*) from visits", ANSWERS),
        ("select range(1000000000), count(*) from visits", "tail_too_large"),
        (
            f"select count(*) from {'(select uid, s || s as s from ' * 30}visits{')' * 30} where s > ''",
            "query_too_large",
        ),
        (
            "select 1 from (select count(*) from visits), range(len(range(500000000)))",
            "tail_too_large",
        ),
    ],
    "malformed text is named as such": [
        ("select count(*) from", "syntax_error"),
        ("select count(*) from visits where", "syntax_error"),
        ("selec count(*) from visits", "syntax_error"),
        ("select count(*)) from visits", "syntax_error"),
        ("select count(*) from visits group by", "empty_group_by"),
        ("select top 3 k, count(*) from visits group by k", "syntax_error"),
        ("select x'41', count(*) from visits", "syntax_error"),
        ("select count(*) from nothing", "unknown_table"),
        ("select nothing, count(*) from visits group by all", "unknown_column"),
    ],
    "what is harmless is answered": [
        ("select count(*) from visits where s", ANSWERS),
        ("select count(*) from visits where s is true or not s", ANSWERS),
        ("select count(*) from visits where cast(s as int) > 1 or cast('abc' as int) = k", ANSWERS),
        ("select count(*) from visits where k // 0 = 1 or k % 0 = 1 or k / 0 = 1", ANSWERS),
        ("select count(*) from visits where d = 'nonsense'", ANSWERS),
        ("select count(*) from visits where s in (1, 2) or s = 3", "text_compared"),
        ("select count(*) from visits where s = true", "text_compared"),
        ("select s, count(*) from visits group by s having s > 3", "text_compared"),
        ("select s, count(*) from visits group by s having s::int > 3", ANSWERS),
        (
            "select n from (select s, count(*) n from visits group by s) where s in (1, 2)",
            "text_compared",
        ),
        ("select count(*) from visits where s::int in (1, 2) or s = '3'", ANSWERS),
        (
            "select k, count(*) from visits group by k having count(*) > (select count(*) / 9 from visits)",
            ANSWERS,
        ),
        (
            "select k, count(*) from visits group by k having k in (select k from visits)",
            "raw_rows",
        ),
        ("select count(*) from (select distinct uid from visits)", ANSWERS),
        ("select count(*) from (select distinct k from visits) t (c)", ANSWERS),
        ("select sum(n * n), sum(n * n + 1) from visits", ANSWERS),
        ("select name from shops where exists (select count(*) from visits)", ANSWERS),
        ("select name, n from shops, lateral (select count(*) n from visits) q", ANSWERS),
        ("select k, count(*), sum(count(*)) over () from visits group by k", ANSWERS),
        ("select list_transform([1,2], x -> x + k), count(*) from visits group by k", ANSWERS),
        ("select count(*) from visits union all values (3)", ANSWERS),
        (
            "select * from (select k, count(*) n from visits group by k) pivot (sum(n) for k in (1,2))",
            ANSWERS,
        ),
        ("select * from (select k, count(*) n from visits group by k) tablesample 50%", ANSWERS),
        ("select n, i from (select count(*) n from visits), range(3) t(i)", ANSWERS),
        (
            "with recursive r as (select count(*) i from visits union all select i + 1 from r where i < 3) select * from r",
            ANSWERS,
        ),
        ('select "order", count(*) from visits group by "order"', ANSWERS),
    ],
}
ATTACKS = [Attack(sql, outcome, why) for why, cases in _ATTACKS.items() for sql, outcome in cases]


GRID = """CREATE TABLE grid (
    uid BIGINT, a INTEGER, b INTEGER, point STRUCT(x DOUBLE, y DOUBLE))"""
"""A table of its own for what the small world is too small for: a and b have 2,000 values each."""

GRID_ATTACKS = [
    Attack(sql, outcome, "what cannot be grouped by is refused")
    for sql, outcome in (
        ("select a, b, count(*) from grid group by a, b", "domain_too_large"),
        ("select point, count(*) from grid group by point", "key_type"),
    )
]


PLAYS = """CREATE TABLE plays AS SELECT
    range % 50 AS uid, 's' || range % 4 AS song, range % 9 AS n,
    TIMESTAMP '2024-01-01' + to_hours(range) AS played_at FROM range(400)"""
"""A table of its own that says when its rows happened, for materialized views."""

VIEW_WITH = "with (step = '1 day', start = '2024-01-01', steps = 30)"

VIEWS = (
    f"create materialized view songs {VIEW_WITH} as "
    "select song, count(*) as plays from plays group by song",
    f"create materialized view sums {VIEW_WITH} as "
    "select song, sum(n) as n from plays group by song",
)
"""Two views of it, made before the owner changed the bounds of n."""

VIEW_ATTACKS = [
    Attack(sql, outcome, "views are apart from private rows, and keep to what they were priced by")
    for sql, outcome in (
        (
            "select song, count(*) from plays join songs using (song) group by song",
            "view_beside_rows",
        ),
        ("refresh materialized view sums", "view_changed"),
        ("describe sums", "view_changed"),
        (
            f"create materialized view v {VIEW_WITH} as select count(*) as n from plays",
            "view_not_allowed",
        ),
    )
]
