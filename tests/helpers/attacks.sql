-- Statements an attacker might try, below the promise that each tests: the outcome, a statement.

-- what the parser stumbles over is refused like anything else
not_understood: select count(*) from visits where var_map(k) is null
not_understood: select parameterized_agg(k, n, s) from visits

-- no condition can make the engine fail on the rows that it holds for
can_fail: select count(*) from visits where dayofweek(ts - d) = 1
fails: select count(*) from visits where nullif('x', 1) is null
can_fail: select count(*) from visits where case when uid = 27 and n >= 3 then week(interval 1 day) is null else true end
can_fail: select count(*) from visits where uid <> 27 or n < 3 or extract(timezone from d) = 0
can_fail: select count(*) from visits where case when uid = 27 then date_trunc('era', ts - d) is null else true end
can_fail: select count(*) from visits v join shops s on v.k = s.k and case when uid = 27 then isodow(ts - d) = 1 else true end
can_fail: select count(case when uid = 27 then date_diff('day', ts::time, ts::time) end) from visits
answers: select count(*) from visits where week(d) = 1 and date_trunc('week', d) = d
answers: select count(*) from visits where ts like '2024-01-0%' or substr(d, 1, 4) = '2024'
answers: select strftime('%Y', d) - 1 as y, count(*) from visits where strftime(d, '%m') in (1, 2) group by y
does_not_bind: select count(*) from visits where flag like 't%'
does_not_bind: select count(*) from visits where strftime(d, '%Y-%m') - 1 > 3
does_not_bind: select count(*) from visits where strftime(d, '%Y') - interval 1 day is null
groups_by_unit: select left(uid, 2), count(*) from visits group by 1
groups_by_unit: select regexp_replace(uid::varchar, '^(.*)$', '\1x'), count(*) from visits group by 1
groups_by_unit: select distinct uid, avg(n) over (partition by uid) from visits
answers: select bit_count(uid) as b, count(*) from visits group by b
answers: select count(*) from visits where age(ts, d::timestamp) > interval 27 days or age(d, date '0001-01-01') <= interval '999999 years'
raw_rows: select distinct n, avg(n) over (partition by k) from visits
raw_rows: select avg(n) over (), uid from visits limit 1
expression_not_allowed: select entropy(uid) from visits
answers: select entropy(k) from visits where uid = 27
answers: select s:a.b::int as j, count(*) from visits where k > 0 group by s:a.b::int

-- a name cannot be made to mean another table or column
answers: select count(*) from visits v
answers: select v.k, count(*) from visits v group by v.k
unknown_column: select visits.k, count(*) from visits v group by 1
tells: with visits as (select 1 as k) select k, count(*) from visits group by k
recursive_name: with recursive visits as (select 1 as k) select k, count(*) from visits group by k
recursive_name: with recursive visits as (select k, count(*) n from visits group by k) select * from visits
recursive_name: with recursive shops as (select k from shops union all select k + 1 from shops) select n from shops, (select count(*) n from visits)
recursive_name: select count(*) from (with recursive Visits as (select uid from mails union all select uid from visits) select * from visits)
answers: with visits as (select k, count(*) n from visits group by k) select * from visits
answers: with visits as (select count(distinct uid) n from visits) select n from visits
answers: with a as (select * from visits) select count(*) from a
answers: with a as (select k from visits), visits as (select 1 k) select count(*) from a
answers: with visits as (select * from visits) select count(*) from visits
answers: with a as (with visits as (select 1 as q) select * from visits) select a.q, b.n from a, (select count(*) n from visits) b
answers: select [v].[k], count(*) as [n] from [visits] as [v] group by [v].[k]
unknown_table: select count(*) from [secret]
unknown_table: select count(*) from [main visits]
reserved_name: select count(*) as [__dpsql_a0] from [visits]
raw_rows: select top (3) [uid] from [visits]
syntax_error: select count(*) from [visits where k = 1]]
answers: with "Visits" as (select 1 as k) select count(*) from VISITS, (select count(*) from mails)
answers: with shops as (select 1 as k) select shops.k, n from shops, (select count(*) n from visits)
unknown_table: select count(*) from vis\u200bits
unknown_table: select count(*) from ｖisits
reserved_name: select count(*) as __dpsql_a0 from visits
reserved_name: select __dpsql_a0 from (select count(*) from visits)
reserved_name: select "__DPSQL_a0", count(*) from visits
reserved_name: select count(*) from __dpsql_released_0
reserved_name: select * from (select count(*) from visits) as __dpsql_released_0
does_not_bind: select columns('__dpsql.*') from (select avg(x) from visits)
unknown_table: select * from answer_0, (select count(*) from visits)
unknown_table: select * from main.answer_0, (select count(*) from visits)
answers: select count(*) from main.visits
answers: select count(main.visits.k) from public.visits
answers: with visits as (select 1 as k) select count(*) from main.visits
raw_rows: with visits as (select 1 as k) select k from main.visits
does_not_bind: with visits as (select 1 as k) select main.visits.k from visits
unknown_column: select count(main.visits.k) from visits v
raw_rows: select (select count(*) from main.shops where main.visits.k = 1) from visits
unknown_table: select count(*) from "main.visits"
unknown_table: select count(*) from "main"."main.visits"
unknown_table: select count(*) from memory.main.visits
unknown_table: select count(*) from temp.visits
unknown_table: select count(*) from other.visits
reserved_name: select count(*) from __dpsql_data.main.visits
raw_rows: select * from main.visits
raw_rows: select main.visits.* from main.visits
unknown_table: select count(*) from secret
unknown_table: select n, v from secret, (select count(*) n from visits)
unknown_table: select n, v from (select count(*) n from visits) join secret on true
unknown_table: select name from shops where k = (select count(*) from visits) and 1 = (select 1 from secret)
unknown_table: select * from con, (select count(*) n from visits)
tells: select * from information_schema.tables
unknown_table: select count(*) from "/etc/passwd"
unknown_table: select * from '/etc/passwd'

-- the privacy unit is neither grouped by nor released nor laundered
groups_by_unit: select uid from visits group by uid
groups_by_unit: select UID, count(*) from visits group by UID
groups_by_unit: select "uid"+0, count(*) from visits group by 1
column_not_grouped: select uid as k, count(*) from visits group by k
groups_by_unit: select uid as person, count(*) from visits group by person
groups_by_unit: select k as a, a+uid as b, count(*) from visits group by b
groups_by_unit: select distinct uid from visits
groups_by_unit: select distinct k, uid from visits
column_not_grouped: select k from visits group by k having uid = 1
column_not_grouped: select k from visits group by k order by uid
groups_by_unit: select email, count(*) from mails group by email
answers: select count(distinct uid+1) from visits
answers: select count(distinct uid, k) from visits
answers: select count(distinct k) from visits
groups_by_unit: select case when uid = 3 then k end, count(*) from visits group by 1
answers: select 1 as uid, count(distinct uid) from (select 1 as uid from visits)

-- rows and exact values are not released
raw_rows: select * from visits
raw_rows: from visits
raw_rows: table visits
raw_rows: select * from (table visits)
raw_rows: select k from visits
raw_rows: from visits select k
unknown_column: select visits from visits
unknown_column: select visits, count(*) from visits group by visits
unknown_column: select rowid from visits
unknown_column: select rowid, count(*) from visits group by rowid
raw_rows: select columns(*) from visits
answers: select count(columns(*)) from visits
answers: select k, avg(columns(['x', 'N'])) filter (where flag), count(distinct (uid, s)), count(distinct row(k, d)) from visits group by k
unknown_column: select avg(columns(['x', '__dpsq'])) from visits
not_numeric: select avg(columns(*)) from visits
expression_not_allowed: select count(columns('.*')) from visits
expression_not_allowed: select max(columns(*)) - min(columns(['x'])) from visits
aggregate_not_supported: select count(columns(* replace (uid as k))) from visits
expression_not_allowed: select columns(['k']), count(*) from visits group by all
raw_rows: select sum(columns(['x'])) over () from visits
misplaced_aggregate: select count(distinct (k, max(x))) from visits
misplaced_aggregate: select k, count(*) from visits group by 1, 2
misplaced_aggregate: select k, sum(1) + 1 from visits group by k, 2
expression_not_allowed: select count(distinct (k, (s, x))) from visits
expression_not_allowed: select columns('.*'), count(*) from visits group by all
raw_rows: select * exclude (k) from visits
raw_rows: select * replace (1 as k) from visits
raw_rows: select visits.* from visits
raw_rows: select count(*), visits.* from visits group by all
raw_rows: select * like 'k%' from visits
expression_not_allowed: select distinct * from visits
raw_rows: select 1 from visits
column_not_grouped: select k, s from visits group by k
column_not_grouped: select k, count(*) from visits group by k order by s
column_not_grouped: select k from visits group by k having s = 'a'
column_not_grouped: select k, first_value(s) over w from visits group by k window w as (order by k)
column_not_grouped: select k, list_transform([1], x -> s), count(*) from visits group by k
column_not_grouped: select k, json_object('a', s) from visits group by k
answers: select name, count(*) from visits join shops on shops.k = visits.k group by shops.k having size > 2 order by size
answers: select name, count(*) from visits join shops on shops.k = visits.k group by visits.k having size > 2 order by size
column_not_grouped: select name, count(*) from visits join shops on shops.k = visits.k or shops.k = 1 group by visits.k having size > 2 order by size
column_not_grouped: select name, count(*) from visits join shops on shops.k > visits.k group by visits.k
column_not_grouped: select v.s, count(*) from visits v join shops using (k) group by shops.k
column_not_grouped: select n, name from visits join shops using (k) group by n
column_not_grouped: select a.name, count(*) from visits v join shops a on a.k = v.k join shops b on b.k = v.n group by b.k
column_not_grouped: select uid, count(*) from visits join shops using (k) group by shops.k
column_not_grouped: select m.k, count(*) from visits v join shops m using (k) where v.k = 27 group by v.n
raw_rows: select count(*) over () from visits
raw_rows: select k, row_number() over () from visits
raw_rows: select k, sum(x) over (partition by k) from visits
raw_rows: select k, row_number() over (order by x) from visits qualify row_number() over (partition by uid) = 1
answers: select count(*) from (select * from visits)
answers: select count(*) from (visits)
answers: select count(*) from ((visits))
answers: select k from visits union select k from shops
raw_rows: select k from visits union all select k from shops
raw_rows: select k from visits except all select k from shops
groups_by_unit: select uid from visits intersect select uid from mails
raw_rows: (select k from visits limit 1) union select k from shops
raw_rows: select 1 from visits union select k from shops
raw_rows: select * from visits union select k, s, n from shops
raw_rows: select row_number() over (order by k) from visits intersect select k from shops
answers: select k from visits group by k union select k from visits
answers: select name from shops where k in (select k from visits)
groups_by_unit: select name from shops where k not in (select uid from visits)
raw_rows: select name from shops where k in (select k from visits limit 1)
raw_rows: select name from shops where k in (select k from visits order by ts)
subquery_over_private_rows: select name from shops where k in (select k from visits where n = size)
raw_rows: select name from shops where exists (select 1 from visits)
raw_rows: select name, (select v.s from visits v limit 1) from shops
raw_rows: select name, q.s from shops, lateral (select s from visits) q
join_kind: select * from shops positional join visits
set_operation_mixed: with recursive r as (select k from visits union all select k from r) select * from r

-- aggregates that show single values are not available
answers: select max(k) from visits
answers: select min(x) from visits
aggregate_not_supported: select max(x, 2) from visits
not_numeric: select max(s) from visits
answers: select min(d), max(ts), median(d) from visits
answers: select k, max(d) - min(d) from visits group by k having max(ts) > timestamp '2024-01-01 00:00:00' order by max(d) desc limit 2
answers: select max(case when uid = 27 then ts end) filter (where n > 3) from visits
answers: select avg(ts) from visits where ts >= '2024-01-01' and ts < '2024-03-01'
answers: select max(d, contribution_bounds_per_row => (date '2020-01-01', '2030-01-01')) from visits
bad_bounds: select max(d, contribution_bounds_per_row => (0, 3650)) from visits
bad_bounds: select max(ts, contribution_bounds_per_row => (date '2030-01-01', date '2020-01-01')) from visits
not_numeric: select sum(d) from visits
no_noise_known: select dp_interval_low(max(d)) from visits
answers: select max(date_diff('day', date '2020-01-01', d), contribution_bounds_per_row => (0, 3650)) from visits
answers: select corr(x, n), regr_slope(x, n) filter (where flag), covar_samp(n, x) from visits
answers: select k, quantile_cont(x, [0.25, 0.5]) from visits group by k
aggregate_not_supported: select corr(x, n, contribution_bounds_per_row => (0, 9)) from visits
not_numeric: select corr(x, s) from visits
bad_fraction: select quantile_cont(x, [0.25, n]) from visits
answers: select std(x), var(n), var_samp(n) filter (where flag) from visits
aggregate_not_supported: select std(distinct x) from visits
answers: select bool_and(flag), every(k > 1) filter (where flag), logical_or(n > 3) from visits
answers: select k from visits group by k having bool_or(uid = 27) and not bool_and(x > 3)
answers: select bool_or(x > 3) from (select k, count(*) as x from visits group by k)
aggregate_not_supported: select bool_and(s) from visits
no_noise_known: select dp_interval_low(bool_or(flag)) from visits
aggregate_not_supported: select max(distinct x) from visits
answers: select any_value(s) from visits
answers: select k, any_value(s), mode(s) filter (where n > 3), max(n) from visits group by k having mode(c) = 'red'
answers: select k, any_value(k + 1) from visits group by k
answers: select k, any_value(s) ignore nulls, histogram(c), list(distinct s), string_agg(distinct s, ',' order by s desc) from visits group by k
answers: select v.k, mode(s) from visits v join shops using (k) where size > 1 group by rollup (v.k)
join_keeps_public: select shops.k, mode(s) from shops left join visits using (k) group by shops.k
aggregate_not_supported: select k, any_value(uid) from visits group by k
aggregate_not_supported: select k, mode(case when uid = 27 then s end) from visits group by k
groups_by_unit: select uid, mode(s) from visits group by uid
aggregate_not_supported: select k, any_value(count(*)) from visits group by k
expression_not_allowed: select k, any_value(s having max n) from visits group by k
expression_not_allowed: select k, any_value(distinct s) from visits group by k
aggregate_not_supported: select k, any_value(s) over () from visits group by k
aggregate_not_supported: select k, any_value(s) respect nulls from visits group by k
column_not_grouped: select k, mode(s) over (partition by k) from visits group by k
expression_not_allowed: select k, mode(s order by n) from visits group by k
aggregate_not_supported: select k, list(distinct s order by n) from visits group by k
no_noise_known: select k, dp_interval_low(mode(s)) from visits group by k
aggregate_not_supported: select any_value(uid) from visits
aggregate_not_supported: select any_value(s) from visits having count(*) > 3
aggregate_not_supported: select first(s) from visits
answers: select mode(s) from visits
aggregate_not_supported: select mode(uid) from visits
aggregate_not_supported: select mode(s) from visits having count(*) > 3
aggregate_not_supported: select mode(s, k) from visits
raw_rows: select k, mode(s) from visits
raw_rows: select mode(s) over () from visits
raw_rows: select mode(s), (select size from shops where shops.k = visits.k) from visits
misplaced_aggregate: select mode(mode(s)) from visits
unknown_column: select mode(s) from visits where v = 's1'
unknown_column: select mode(s) as m from visits where m = 's1'
expression_not_allowed: select mode(s), product(1) from visits
answers: select string_agg(distinct s, ',') from visits
answers: select list(distinct k order by k desc) filter (where n > 1), count(*) from visits
aggregate_not_supported: select list(distinct s order by n) from visits
aggregate_not_supported: select list(distinct uid) from visits
aggregate_not_supported: select string_agg(distinct s, s) from visits
aggregate_not_supported: select string_agg(s, ',') from visits
aggregate_not_supported: select list(s) from visits
aggregate_not_supported: select array_agg(s) from visits
aggregate_not_supported: select arg_max(s, x) from visits
answers: select histogram(k) from visits
expression_not_allowed: select histogram(k, 3) from visits
expression_not_allowed: select histogram(uid) from visits
answers: select approx_count_distinct(uid) from visits
answers: select approx_top_k(s, 3) from visits
answers: select median(x) from visits
answers: select quantile_cont(x, 0.5) from visits
bad_fraction: select quantile_cont(x, 1.5) from visits
aggregate_not_supported: select bool_or(distinct flag) from visits
misplaced_aggregate: select bool_or(count(*) > 3) from visits
aggregate_not_supported: select bit_xor(k) from visits
expression_not_allowed: select product(x) from visits
answers: select entropy(s) from visits
aggregate_not_supported: select k, array_agg(k) from visits group by k
answers: select count(*) filter (where k = 1) from visits
answers: select sum(distinct n), avg(distinct x) filter (where flag) from visits
answers: select k, sum(distinct amount) as a from visits group by k order by a desc limit 2
answers: select sum(distinct uid) from visits
answers: select strlen(s) as l, avg(strlen(c)) from visits where strlen(s || c) > 2 group by l
expression_not_allowed: select avg(strlen(s, 2)) from visits
does_not_bind: select avg(strlen(k)) from visits
answers: select skewness(x), kurtosis(n) filter (where flag) from visits
answers: select k from visits group by k having kurtosis(amount) > 0 or skewness(k / n) < 1
aggregate_not_supported: select skewness(x, contribution_bounds_per_row => (0, 9)) from visits
aggregate_not_supported: select kurtosis(distinct x) from visits
not_numeric: select skewness(s) from visits
bounds_do_not_apply: select sum(distinct n, contribution_bounds_per_group => (0, 3)) from visits
aggregate_not_supported: select sum(distinct n, k) from visits
aggregate_not_supported: select avg(distinct n, max_error => 3) from visits
aggregate_not_supported: select stddev(distinct n) from visits
aggregate_not_supported: select sum(n order by k) from visits
aggregate_not_supported: select count(n, k) from visits
answers: select sum(k, max_error => 20) from visits
unbounded_sum: select with differential_privacy options (epsilon = 0.000001) sum(k), avg(k + 1) from visits
unbounded_sum: select avg(d) from visits
answers: select sum(k) from visits
not_numeric: select sum(s) from visits
answers: select sum(uid) from visits
answers: select sum(n/0) from visits
answers: select sum(1e308*n) from visits
answers: select sum(n*n*n*n*n*n*n*n*n*n*n*n) from visits
bounds_too_large: select sum(n, contribution_bounds_per_row => (0, 1e16)) from visits
bounds_too_small: select sum(n, contribution_bounds_per_row => (0, 1e-200)) from visits
answers: select count(*) c, dp_interval_low(c) from visits
no_noise_known: select dp_interval_low(max(n)) from visits
no_noise_known: select k, dp_interval_low(k) from visits group by k
confidence_out_of_range: select dp_interval_low(count(*), 2) from visits
expression_not_allowed: select sum(dp_interval_low(n)) from visits
answers: select sum(n, contribution_bounds_per_row => (0, 5)) from visits
bad_bounds: select sum(n, contribution_bounds_per_row => (5, 0)) from visits
unknown_bounds: select sum(n, contribution_bounds => (0, 5)) from visits
answers: select sum(n, report_format => 'JSON') from visits
aggregate_not_supported: select sum(n, report_format => 'PROTO') from visits
aggregate_not_supported: select sum(n + (select count(*, report_format => json) from mails), report_format => json) from visits
aggregate_not_supported: select count(*, epsilon => 100) from visits
bad_option: select with differential_privacy options (privacy_unit_column = k) count(*) from visits
syntax_error: select with differential_privacy options (privacy_unit_column = visits.uid + 1) count(*) from visits
bad_option: select with anonymization options (privacy_unit_column = name) count(*) from visits
answers: select with aggregation_threshold options (threshold = 10, privacy_unit_column = uid) k, count(*) from visits group by k
bad_option: select with aggregation_threshold options (threshold = 10, privacy_unit_column = k) k, count(*) from visits group by k
bad_option: select with aggregation_threshold options (threshold = 10, epsilon = 100) k, count(*) from visits group by k
bad_option: select with aggregation_threshold count(*) from visits
parameter_out_of_range: select with aggregation_threshold options (threshold = 0) k, count(*) from visits group by k
expression_not_allowed: select anon_avg(n) from visits
answers: select anon_avg(n clamped between 0 and 3) from visits
answers: select k, avg(x / n, contribution_bounds_per_group => (-1e15, 1e15)) from visits group by k
bounds_do_not_apply: select variance(n, contribution_bounds_per_group => (0, 5)) from visits
bounds_too_large: select avg(n, contribution_bounds_per_group => (0, 1e16)) from visits
answers: select count(distinct uid, contribution_bounds_per_group => (0, 1)) from visits
bad_bounds: select count(distinct uid, contribution_bounds_per_group => (-1, 1)) from visits
bounds_do_not_apply: select count(*, contribution_bounds_per_row => (0, 5)) from visits
bounds_not_private: select sum(v, contribution_bounds_per_row => (0, 5)) from (select count(*) v from visits)
answers: select count(*, max_error => 20) from visits
max_error_too_small: select sum(x, max_error => 1e-9) from visits
error_not_public: select avg(n, max_error => 0.5) from visits
parameter_out_of_range: select count(*, max_error => -1) from visits
epsilon_and_max_error: select with differential_privacy options (epsilon = 1, max_error = 20) count(*) from visits
error_not_public: select with differential_privacy options (max_error = 20) distinct k from visits
bounds_not_private: select sum(v, max_error => 5) from (select count(*) v from visits)
misplaced_aggregate: select sum(count(*)) from visits
misplaced_aggregate: select count(sum(n)) from visits
not_numeric: select k, count(*) from visits group by k order by max(s)
aggregate_not_supported: select grouping(k), count(*) from visits group by k

-- nothing inside a private relation may pick, multiply or correlate rows
answers: select count(*) from visits join shops using (k)
answers: select count(*) from visits, shops
answers: select count(*) from shops join visits using (k)
join_units_differ: select count(*) from visits natural join mails
answers: select count(*) from visits v1 join visits v2 on v1.uid = v2.uid
join_needs_unit: select count(*) from visits cross join visits v2
answers: select count(*) from visits semi join shops using (k)
answers: select count(*) from visits asof join shops on visits.k >= shops.k
answers: select count(*) from visits v asof left join visits w on w.uid = v.uid and w.d < v.d
window_over_private_rows: select count(*) from visits v asof join visits w on w.k = v.k and w.d < v.d
join_kind: select count(*) from visits v asof join visits w on w.uid = v.uid and w.d < v.d and w.n > v.n
join_kind: select count(*) from visits v asof join visits w on w.uid = v.uid and w.d < v.d + w.k
join_kind: select count(*) from visits v asof join visits w using (uid, d)
join_kind: select count(*) from visits v asof right join shops s on v.k >= s.k
join_kind: select count(*) from visits v asof join shops s(a, b) on v.k >= s.a
join_kind: select count(*) from visits positional join shops
answers: select count(*) from visits left join shops on shops.k = visits.k
answers: select count(*) from visits, range(3)
answers: select g.d, count(v.k) from generate_series(date '2024-01-01', date '2024-01-03', interval 1 day) g(d) left join visits v on v.d = g.d group by g.d
answers: select count(*) from visits, unnest(range(3)) t(a) where a = k
answers: with g as (select generate_series(1, 3) as m) select m, count(v.k) from g left join visits v on k = m group by m
query_too_large: select count(*) from visits where k in (select generate_series(1, 10000))
join_not_supported: select count(*) from visits, (select range(1, 3) as r)
answers: with recursive r as (select 1 as i union all select i + 1 from r where i < 4) select r.i, count(v.k) from r left join visits v on v.k = r.i group by r.i
set_operation_mixed: with recursive r as (select k as i from visits union all select i + 1 from r where i < 4) select r.i, count(*) from r join visits v on v.k = r.i group by r.i
query_too_large: select count(*) from visits v join generate_series(date '0001-01-01', date '9999-01-01', interval 1 day) g(d) on v.d = g.d
join_not_supported: select count(*) from visits v join generate_series(date '2024-01-01', date '2024-02-01', interval 0 day) g(d) on v.d = g.d
answers: select count(*) from visits v join (select uid as u, max(k) as m from visits group by uid) w on v.uid is not distinct from w.u
join_needs_unit: select count(*) from visits v join (select uid as u, k as m from visits) w on v.k is not distinct from w.m
join_not_supported: select count(*) from visits, lateral (select 1)
answers: select k, count(*) from visits, unnest([1,2]) group by k
join_not_supported: select count(*) from visits v, unnest([v.k]) t(a)
answers: select t.w, count(*) from visits v, unnest(string_split(v.s, 's')) t(w) group by t.w
answers: select w, count(distinct uid) from (select uid, unnest(string_split(s, '1')) as w from visits) group by w
answers: select value, count(*) from visits cross apply string_split(s, '1') as t group by value
answers: select w, count(*) from visits lateral view explode(split(s, '1')) t as w where w <> '' group by w
expression_not_allowed: select count(*) from (select unnest(string_split(s, '1')), unnest(string_split(s, '2')) from visits)
join_not_supported: select count(*) from visits v left join lateral unnest(string_split(v.s, '1')) t(w) on true
raw_rows: select unnest(string_split(s, '1')) from visits
join_not_supported: select count(*) from visits v, unnest(string_split(v.s, v.s)) t(a)
join_not_supported: select count(*) from visits v, range(v.k) t(a)
join_needs_unit: select count(*) from visits, visits
join_keeps_public: select count(*) from shops left join visits using (k)
ambiguous_column: select k, count(*) from visits v join visits w on v.uid = w.uid group by k
too_many_aliases: select count(*) from (select k from visits) t(a, b)
join_column: select count(*) from visits v join visits w using (nothing)
unknown_qualifier: select count(*) from (select w.* from visits v)
window_over_private_rows: select count(*) from visits where row_number() over () = 1
set_operation_unit: select count(*) from (select k from visits union select n from visits)
set_operation_types: select count(*) from (select k from visits union all select s from visits)
too_many_grouping_sets: select k, count(*) from visits group by cube(k, s, n, x, d, flag)
order_not_selected: select k, count(*) from visits group by rollup(k) order by sum(n)
group_by_form: select k, count(*) from visits group by k with totals
clause_not_allowed: select distinct on (k) k, s from visits
groups_by_unit: select * from visits pivot (count(*) for k in (1,2))
pivot_not_public: select * from (pivot visits on k using count(*))
pivot_not_public: pivot visits on s using sum(n) group by k
pivot_not_public: pivot visits on s in (select s from visits group by s) using count(*) group by k
pivot_not_public: pivot visits on s in (select s from shops, visits group by s) using count(*) group by k
pivot_not_public: with r as (select s from visits group by s) pivot visits on s in (select s from r) using count(*) group by k
pivot_not_public: pivot visits on k in (n) using count(*) group by s
pivot_not_public: pivot shops on k using count(*) group by size
pivot_not_public: pivot (select k, s, count(*) as c from visits group by all) on k using sum(c)
groups_by_unit: pivot visits on k in (1, 2) using count(*)
groups_by_unit: pivot visits on k in (1, 2) using count(*) group by uid
clause_not_allowed: pivot visits on k in (1, 2) using count(*) group by rollup(s)
syntax_error: pivot visits on k in (1, 2) using sum(n) / count(*) group by s
clause_not_allowed: pivot visits on k in (1, 2) using coalesce(sum(n), count(*)) group by s
clause_not_allowed: pivot visits on k in (1, 2) using n group by s
clause_not_allowed: pivot visits on k in (1, 2) using count(*) filter (where n > 2) group by s
clause_not_allowed: pivot visits on s in ('a', 'A') using count(*) group by k
clause_not_allowed: select * from visits pivot (count(*) for k in (1)) pivot (count(*) for s in ('a'))
text_compared: pivot visits on s in (1, 2) using count(*) group by k
table_form_not_allowed: select count(*) from visits where exists (select * from visits pivot (count(*) for k in (1) group by uid))
answers: pivot visits on k in (1, 2) using count(*), sum(n) group by s
answers: pivot visits on flag using count(distinct uid) group by s
answers: select one, count(*) from visits pivot (count(*) for k in (1 as one) group by uid) group by one
raw_rows: unpivot visits on k, n
raw_rows: select * from visits unpivot (v for m in (k, n))
clause_not_allowed: select m, count(*) from visits unpivot ((v, w) for m in ((k, n))) group by m
clause_not_allowed: select name, count(*) from (unpivot visits on columns(* exclude (uid))) group by name
clause_not_allowed: select name, count(*) from (unpivot visits on k + 1, n) group by name
groups_by_unit: select value, count(*) from (unpivot visits on uid, n) group by value
answers: select m, count(*), sum(v) from visits unpivot (v for m in (k, n)) group by m
answers: select count(*) from visits as v(a,b,c)
table_form_not_allowed: select count(*) from visits at (version => 1)
table_form_not_allowed: select count(*) from only visits
clause_not_allowed: select count(*) from visits for update
clause_not_allowed: select count(*) from visits cluster by k
clause_not_allowed: select as struct count(*) from visits
answers: select k, count(*) from visits group by rollup(k)
answers: select k, count(*) from visits group by grouping sets ((k), ())
answers: select k, count(*) from visits where k in (select k from shops) group by k
answers: select k, count(*) from visits where k = (select max(k) from shops) group by k
join_needs_unit: select k, count(*) from visits where exists (select 1 from visits v where v.k = 1) group by k
answers: select k, (select count(*) from visits v2 where v2.k = shops.k) from shops
answers: select name, n from shops, lateral (select count(*) n from visits where visits.k = shops.k) q
answers: select count(*) from visits where k = any([1])
answers: select count(*) from visits where k = any([n])
answers: select count(*) from visits where k = any(select k from shops)

-- joins, subqueries and set operations keep every row with one unit
join_needs_unit: select count(*) from visits a join visits b on a.k = b.k
join_needs_unit: select count(*) from visits a join visits b on a.uid = b.uid or true
join_needs_unit: select count(*) from visits a join visits b on a.uid <> b.uid
join_needs_unit: select count(*) from visits a, visits b where a.uid = b.k
join_needs_unit: select count(*) from visits a, visits b where not (a.uid = b.uid)
join_needs_unit: select count(*) from visits a, visits b where (a.uid = b.uid) is null
join_needs_unit: select count(*) from visits a left join visits b on a.k = b.k where a.uid = b.uid
join_needs_unit: select count(*) from (select 1 as uid, k from visits) a join visits b using (uid)
join_needs_unit: select count(*) from (select k as uid from visits) a join visits b on a.uid = b.uid
join_needs_unit: select count(*) from (select uid + 0 as uid from visits) a join visits b using (uid)
join_needs_unit: with visits2(uid, k) as (select k, uid from visits) select count(*) from visits2 a join visits b using (uid)
join_needs_unit: select count(*) from visits a join shops s using (k) join visits b on s.k = b.k
join_units_differ: select count(*) from visits v join mails m on v.s = m.email
join_needs_unit: select count(*) from visits a semi join visits b using (k)
join_needs_unit: select count(*) from visits a anti join visits b on a.k = b.k and b.s = 'target'
answers: select count(*) from visits a full join visits b using (uid)
answers: select b.k, count(a.k) from visits a full join visits b on a.uid = b.uid and a.n < b.n group by b.k
join_kind: select count(*) from visits full join shops using (k)
join_needs_unit: select count(*) from visits a full join visits b on a.k = b.k
join_needs_unit: select count(*) from visits a full join visits b on a.uid = b.uid or true
groups_by_unit: select coalesce(a.uid, b.uid) as u, count(*) from visits a full join visits b on a.uid = b.uid group by u
groups_by_unit: select uid, count(*) from visits a full join visits b using (uid) group by uid
join_keeps_public: select count(*) from shops left join visits using (k)
join_keeps_public: select count(*) from shops anti join visits using (k)
answers: select s.k, count(v.n) from shops s left join visits v on s.k = v.k group by s.k
answers: select b.lo, count(v.n) from (values (0, 5), (5, 99)) b(lo, hi) left join visits v on v.n >= b.lo and v.n < b.hi group by b.lo
join_keeps_public: select s.k, count(s.k) from shops s left join visits v on s.k = v.k group by s.k
join_keeps_public: select s.k, count(v.n) from shops s left join visits v on s.k = v.k where v.n is null group by s.k
join_keeps_public: select v.k, count(v.n) from shops s left join visits v on s.k = v.k group by v.k
join_keeps_public: select s.k from shops s left join visits v on s.k = v.k group by s.k
groups_not_public: select with differential_privacy options (group_selection_strategy = public_groups) k, count(*) from visits group by k
groups_not_public: select with differential_privacy options (group_selection_strategy = public_groups) c, mode(s) from visits group by c
answers: select with differential_privacy options (group_selection_strategy = public_groups) s.k, count(v.n) from shops s left join visits v on s.k = v.k group by s.k
bad_option: select with differential_privacy options (group_selection_strategy = gaussian_threshold) k, count(*) from visits group by k
join_keeps_public: select with differential_privacy options (mechanism = 'cascade') s.k, count(v.n) from shops s left join visits v on s.k = v.k group by s.k
answers: select count(*) from visits v join (select k, count(*) c from visits group by k) t using (k)
answers: select count(*) from visits v join (select avg(x) m from visits) on v.x > m
unknown_column: select count(*) from visits v, (select w.k from visits w where w.uid = v.uid) t
set_operation_unit: select count(*) from (select k from visits except all select k from visits where uid = 3)
set_operation_unit: select count(*) from (select k from visits intersect all select k from visits where uid = 3)
set_operation_unit: select count(*) from (select uid as k from visits except select k from visits where uid = 3)
set_operation_unit: select count(*) from (select uid + 0 as k from visits intersect select k from visits)
answers: select count(*) from (select k from visits except select k from visits where uid = 3)
answers: select count(*) from (select k from visits intersect select k from visits where uid = 3)
answers: select s.k, s.size from shops s join (select k from visits where n > 1 intersect select k from visits where n < 1) t using (k)
answers: select count(*) from visits where k in (select k from visits intersect select n from visits)
set_operation_unit: select count(*) from (select k from visits union select k from visits)
set_operation_mixed: select count(*) from (select uid, k from visits union all select k, k from shops)
window_over_private_rows: select count(*) from (select distinct on (k) * from visits)
clause_not_allowed: select count(*) from (select * from visits order by x limit 1)
sample_not_available: select count(*) from (from visits) tablesample 1 rows
window_over_private_rows: select n, count(*) from (select n, row_number() over (order by x) r from visits) where r = 1 group by n
window_over_private_rows: select n, count(*) from (select uid, n from visits qualify row_number() over (partition by k order by n) = 1) group by n
window_over_private_rows: select n, count(*) from (select uid, n, lag(uid) over (partition by uid + 0 order by n) from visits) group by n
window_over_private_rows: select n, count(*) from (select distinct on (k) uid, n from visits order by k, n) group by n
answers: select t > 3, count(*) from (select uid, n, sum(x) over (partition by uid) as t from visits) group by 1
not_numeric: select t, count(*) from (select uid, sum(s) over (partition by uid) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select n, sum(n) over (order by n) as t from visits) group by t
answers: select t, count(*) from (select uid, sum(n) over (partition by uid order by n rows between 1 preceding and 2 following) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by n rows between 2 following and 1 preceding) as t from visits) group by t
answers: select t, count(*) from (select uid, sum(n) over (partition by uid order by n rows 40 preceding) as t from visits) group by t
answers: select t, count(*) from (select uid, sum(n) over (partition by uid order by n range between 1 preceding and 2 following) as t from visits) group by t
answers: select t, count(*) from (select uid, max(n) over (partition by uid order by n rows between 1 following and unbounded following) as t from visits) group by t
answers: select t, count(*) from (select uid, string_agg(s, '>' order by n) as t from visits group by uid) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by n rows 3000000000 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by d range between interval 1 month preceding and current row) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by s range 1 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by d, n range 1 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by n range between n preceding and current row) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by k order by n range 1 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, percent_rank() over (partition by k order by n) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, nth_value(n, k) over (partition by uid order by n) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, lag(n, 1, s) over (partition by uid order by n) as t from visits) group by t
aggregate_not_supported: select t, count(*) from (select uid, string_agg(s, s order by n) as t from visits group by uid) group by t
aggregate_not_supported: select t, count(*) from (select uid, string_agg(distinct s, ',' order by n) as t from visits group by uid) group by t
query_too_large: select t, count(*) from (select uid, string_agg(s || s || s, ',' order by n) as t from visits group by uid) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid rows 1 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, first_value(n) over (partition by uid order by n rows 1 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by k order by n rows 1 preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by n rows between n preceding and current row) as t from visits) group by t
answers: select l, count(*) from (select uid, mode(s) as l, median(x) as a, quantile_disc(n, 0.9) as d from visits group by uid having median(n) > 0) group by l
not_numeric: select l, count(*) from (select uid, median(s) as l from visits group by uid) group by l
bad_fraction: select l, count(*) from (select uid, quantile_disc(n, 1.5) as l from visits group by uid) group by l
bounds_do_not_apply: select avg(l) from (select uid, median(n, contribution_bounds_per_row => (0, 1)) as l from visits group by uid)
answers: select l, count(*) from (select uid, arg_max(s, x) as l, any_value(s) as a, stddev(x) as d from visits group by uid) group by l
aggregate_not_supported: select l, count(*) from (select uid, arg_max(s, x, 2) as l from visits group by uid) group by l
aggregate_not_supported: select l, count(*) from (select uid, arg_max(x > 1, n) as l from visits group by uid) group by l
aggregate_not_supported: select l, count(*) from (select uid, first(s) as l from visits group by uid) group by l
aggregate_not_supported: select f, count(*) from (select uid, bool_or(distinct n > 1) as f from visits group by uid) group by f
aggregate_not_supported: select f, count(*) from (select uid, bool_and(n) as f from visits group by uid) group by f
groups_by_unit: select uid, count(*) from (select uid, bool_or(n > 1) as f from visits group by uid) where f group by uid
aggregate_not_supported: select l, count(*) from (select k, arg_max(s, x) as l from visits group by k) group by l
answers: select n, count(*) from (select uid, n, count(*) over (partition by uid order by n range between 1 preceding and current row) from visits) group by n
window_over_private_rows: select n, count(*) from (select uid, n, lag(n, k) over (partition by uid order by n) from visits) group by n
window_over_private_rows: select n, count(*) from (select uid, n, max(lag(n) over (order by n)) over (partition by uid) from visits) group by n
window_over_private_rows: select n, count(*) from (select uid, n, count(*) filter (where n > 1) over (partition by uid) from visits) group by n
window_over_private_rows: select n, count(*) from (select uid, n, lag(n) over w from visits window w as (partition by k)) group by n
window_over_private_rows: select n, count(*) from (select uid, n, lag(n) over w from visits window v as (partition by uid)) group by n
window_over_private_rows: select n, count(*) from (select uid, n, lag(n) over (w partition by k) from visits window w as (partition by uid)) group by n
window_over_private_rows: select n, count(*) from (select uid, n, lag(n) over w from visits window w as (partition by uid), w as (partition by k)) group by n
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid rows unbounded preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by k order by n rows unbounded preceding) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by n rows between unbounded preceding and current row exclude current row) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, sum(n) over (partition by uid order by n groups unbounded preceding) as t from visits) group by t
answers: select t, count(*) from (select uid, last_value(n) over (partition by uid order by n) as t from visits) group by t
answers: select t, count(*) from (select uid, last_value(n ignore nulls) over (partition by uid order by n) as t from visits) group by t
answers: select t, count(*) from (select uid, lag(s ignore nulls) over (partition by uid order by n) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, lag(s ignore nulls) over (partition by k order by n) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, lag(n, 2 ignore nulls) over (partition by uid order by n) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, nth_value(n, 2 ignore nulls) over (partition by uid order by n) as t from visits) group by t
window_over_private_rows: select t, count(*) from (select uid, first_value(n ignore nulls) over (partition by uid order by n rows between 1 preceding and current row) as t from visits) group by t
raw_rows: select uid, lag(s ignore nulls) over (partition by uid order by n) from visits
window_over_private_rows: select t, count(*) from (select uid, rank() over (partition by uid order by n rows unbounded preceding) as t from visits) group by t
window_over_private_rows: select r, count(*) from (select uid, rank() over (order by count(*)) as r from visits group by uid) group by r
window_over_private_rows: select r, count(*) from (select uid, k, sum(count(*)) over (partition by k) as r from visits group by uid, k) group by r
answers: select k, count(*) from (select uid, k, row_number() over (partition by uid order by count(*)) as r from visits group by uid, k) where r = 1 group by k
aggregate_not_supported: select count(*) from (select uid, first(s) f from visits group by uid)
answers: select count(*) from (select uid, list(s) f from visits group by uid)
groups_by_unit: select u, count(*) from (select uid as u from visits) group by u
groups_by_unit: select u, count(*) from (select uid * 2 as u from visits) group by u
groups_by_unit: select b.uid, count(*) from visits a join visits b on a.uid = b.uid group by 1
groups_by_unit: select m, count(*) from (select max(uid) m from visits group by uid) group by m
join_needs_unit: select count(*) from visits where k in (select k from visits where uid = 3)
join_needs_unit: select count(*) from visits where exists (select 1 from visits where s = 'target')
join_units_differ: select count(*) from visits v where not exists (select 1 from mails where mails.k = v.k)
join_needs_unit: select count(*) from visits where uid in (select k from visits)
join_needs_unit: select count(*) from visits where uid + 0 in (select uid from visits)
join_needs_unit: select count(*) from visits where uid in (select uid + 0 from visits)
join_needs_unit: select count(*) from visits v where exists (select 1 from visits w where w.uid = v.uid or true)
join_needs_unit: select count(*) from visits where k > 1 or uid not in (select n from visits)
join_needs_unit: select k in (select k from visits) as p, count(*) from visits group by 1
join_needs_unit: select count(*) filter (where k in (select k from visits)) from visits
join_needs_unit: select count(*) from (select uid, exists (select 1 from visits where k = 1) as p from visits) where p
join_needs_unit: select count(*) from visits where (k, n) in (select k, n from visits)
answers: select count(*) from visits join (select * from shops where k in (select k from visits)) s using (k)
answers: select count(*) from visits join (select k, k in (select k from visits) as p from shops) s using (k) where p
answers: select count(*) from visits where k in (select k from visits group by k)
clause_not_allowed: select count(*) from visits where uid in (select uid from visits order by n limit 1)
subquery_over_private_rows: select count(*) from visits where k in (select k, n from shops)
answers: select uid in (select uid from shops) as p, count(*) from visits group by 1
answers: select case when uid % 2 = 0 then 'A' else 'B' end as arm, count(*) from visits group by 1
answers: select arm, count(*) from (select uid % 3 as arm from visits) group by arm
groups_by_unit: select uid % 100000 as arm, count(*) from visits group by 1
groups_by_unit: select case when uid < 9 then uid else 0 end as arm, count(*) from visits group by 1
answers: select count(*) from visits where uid in (select uid from visits where k = 1) or k = 2
unknown_table: select count(*) from visits where k in (select s.k from shops s, secret)
expression_not_allowed: select count(*) from visits where k in (select k from shops where random() < 0.5)
answers: select count(*) from visits where k in (select k from range(3) t(k))
unknown_table: select count(*) from visits join secret using (k)
unknown_table: select count(*) from visits join main.secret s on true
answers: select count(*) from visits where k not in (select k from shops)
answers: select count(distinct b.uid) from visits a join visits b on a.uid = b.uid
answers: select m, count(*) from (select uid, max(n) m from visits group by uid) group by m
answers: select count(*) from (select uid, k from visits except select uid, k + 1 from visits)

-- only queries are run, one at a time
tells: show tables
tells: describe visits
not_a_query: summarize 'visits.csv'
answers: summarize visits
answers: summarize select n, s from visits where k = 3
tells: summarize shops
unknown_table: summarize secret
clause_not_allowed: summarize select k, count(*) from visits group by k
table_form_not_allowed: summarize visits pivot (count(*) for k in (1))
syntax_error: describe select count(*) from visits
unknown_table: describe secret
several_statements: show parameters; drop table visits
statement_not_allowed: select * from (describe visits)
answers: select * from (summarize visits)
table_form_not_allowed: select count(*) from visits where exists (summarize visits)
unknown_table: select * from (show tables)
not_a_query: create table a as select count(*) from visits
not_a_query: create table a (b int)
not_a_query: insert into shops select 1,'a',2
statement_not_allowed: with a as (insert into shops values (1,'a',2) returning *) select * from a
statement_not_allowed: with a as (delete from visits returning *) select * from a
not_a_query: delete from visits
not_a_query: update visits set k=1
not_a_query: drop table visits
not_a_query: truncate visits
not_a_query: copy visits to '/tmp/x.csv'
not_a_query: copy (select count(*) from visits) to '/tmp/x.csv'
not_a_query: attach 'x.db'
not_a_query: detach x
tells: pragma table_info('visits')
unknown_parameter: set threads=1
tells: set epsilon = 5
parameter_out_of_range: set epsilon = 1e9
unknown_parameter: set variable a = 1
unknown_parameter: reset threads
not_a_query: install httpfs
not_a_query: load httpfs
not_a_query: call pragma_version()
not_a_query: savepoint a
tells: begin transaction read only
tells: commit
tells: rollback
syntax_error: begin isolation level serializable
tells: show search_path
tells: set application_name = 'x'
bad_parameter: set timezone = 'Europe/Berlin'
not_a_query: checkpoint
not_a_query: vacuum
not_a_query: analyze
syntax_error: export database 'x'
tells: explain select count(*) from visits
not_a_query: explain delete from visits
explain_analyze: explain analyze select count(*) from visits
not_a_query: prepare a as select count(*) from visits
not_a_query: execute a
tells: use main
pivot_not_public: pivot visits on k using count(*)
raw_rows: unpivot visits on n, big into name a value b
not_a_query: values (1)
statement_not_allowed: select count(*) into x from visits
several_statements: select count(*) from visits; select 1
several_statements: select count(*) from visits; drop table visits
syntax_error: ;
syntax_error: select

-- a view reads one table that says when its rows happened
no_view: create materialized view v with (step = '1 day', start = '2024-01-01') as select k, count(*) from visits group by k
unknown_view: refresh materialized view nowhere
unknown_view: drop materialized view visits
view_option_missing: create materialized view v as select count(*) from visits
not_a_query: create view v as select count(*) from visits
not_a_query: drop table visits
tells: show materialized views

-- files, settings, catalogs, state and time are out of reach
function_not_allowed: select * from query('select * from visits')
function_not_allowed: select * from query_table('visits')
function_not_allowed: select count(*) from query_table('visits')
function_not_allowed: select * from read_csv('/etc/passwd')
function_not_allowed: select n, content from (select count(*) n from visits), read_text('/etc/passwd')
table_function: select * from glob('/etc/*'), (select count(*) n from visits)
table_function: select * from sniff_csv('/etc/passwd'), (select count(*) n from visits)
table_function: select * from parquet_scan('a'), (select count(*) n from visits)
table_function: select * from sqlite_scan('a','b'), (select count(*) n from visits)
tells: select * from duckdb_tables()
table_function: select * from duckdb_settings(), (select count(*) n from visits)
table_function: select * from pragma_database_size(), (select count(*) n from visits)
table_function: select * from checkpoint(), (select count(*) n from visits)
table_function: select * from json_execute_serialized_sql('x'), (select count(*) n from visits)
table_function: select * from test_all_types(), (select count(*) n from visits)
table_function: select * from seq_scan('visits'), (select count(*) n from visits)
function_not_allowed: select getvariable('a'), count(*) from visits
function_not_allowed: select nextval('a'), count(*) from visits
function_not_allowed: select currval('a'), count(*) from visits
function_not_allowed: select getenv('HOME'), count(*) from visits
function_not_allowed: select current_setting('threads'), count(*) from visits
function_not_allowed: select set_config('a','b',false), count(*) from visits
function_not_allowed: select current_query(), count(*) from visits
function_not_allowed: select txid_current(), count(*) from visits
function_not_allowed: select current_query_id(), count(*) from visits
function_not_allowed: select json_serialize_plan('select current_setting(''threads'')', optimize := true)
function_not_allowed: select 'select 1'.json_serialize_plan(), count(*) from visits
function_not_allowed: select write_log('a'), n from (select count(*) n from visits)
function_not_allowed: select sleep_ms(10), count(*) from visits
function_not_allowed: select system.main.sleep_ms(10), count(*) from visits
function_not_allowed: select pg_sleep(1), count(*) from visits
function_not_allowed: select error('x'), count(*) from visits
function_not_allowed: select n from (select count(*) n from visits) where n = error('a')
table_function: select k, count(*) n from visits group by k order by n desc limit (select count(*) from duckdb_settings())

-- conditions are deterministic functions of one row
function_not_allowed: select count(*) from visits where error(s) is null
expression_not_allowed: select count(*) from visits where uuid() = s
answers: select count(*) from visits where now() > ts
answers: select count(*) from visits where current_date > d
expression_not_allowed: select count(*) from visits where now() at time zone s > ts
function_not_allowed: select count(*) from visits where sleep_ms(1000) is null
expression_not_allowed: select count(*) from visits where nothing(k)
expression_not_allowed: select count(*) from visits where s ~ '(a+)+$'
answers: select count(*) from visits where regexp_matches(s, 'a')
expression_not_allowed: select count(*) from visits where s ~ 'a\1'
expression_not_allowed: select count(*) from visits where s ~ c
does_not_bind: select count(*) from visits where list_contains(s, 'a')
expression_not_allowed: select count(*) from visits where 'a' in s
expression_not_allowed: select count(*) from visits where 'a' = any(s)
unknown_column: select s.a, count(*) from visits group by 1
does_not_bind: select struct_extract(s, 'a'), count(*) from visits group by 1
answers: select s->>'$.a[0]', s->'b'->>'c d', count(*) from visits where s->>'a' = 'x' group by all
answers: select (s->>'a')::int, count(*) from visits group by 1
expression_not_allowed: select s->>'$.*', count(*) from visits group by 1
expression_not_allowed: select s->>'$."*"', count(*) from visits group by 1
expression_not_allowed: select s->>c, count(*) from visits group by 1
expression_not_allowed: select s->'a', count(*) from visits group by 1
expression_not_allowed: select count(*) from visits where json_extract_string(s, ['a', 'b']) is null
can_fail: select k->>'a' as a_number_is_no_document, count(*) as n from visits group by 1
query_too_large: select s->>'a'->>'b'->>'c' as documents_in_documents, count(*) as n from visits group by 1
groups_by_unit: select concat('[', uid, ']')->>0, count(*) from visits group by 1
expression_not_allowed: select strftime(ts, '%'), count(*) from visits group by 1
expression_not_allowed: select regexp_replace(s, '', 'xxxxxxxxxx', 'g'), count(*) from visits group by 1
query_too_large: select count(*) from visits where replace(replace(s, 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa') = s
answers: select count(*) from visits where s collate nocase = 'a'
expression_not_allowed: select count(*) from visits where repeat(s, 1000000000) = 'a'
expression_not_allowed: select count(*) from visits where list_sum([k]) = 1
expression_not_allowed: select count(*) from visits where hash(s) = 1
answers: select count(*) from visits where chr(k * 1000000) is null or sin(1e308 * k) is null or acos(k) > 1
expression_not_allowed: select count(*) from visits where levenshtein(s, s) = 0
answers: select count(*) from visits where s like s
expression_not_allowed: select count(*) from visits where s like '%a_____________________%b'
answers: select count(*) from visits where (k, n) in ((1,2))
expression_not_allowed: select count(*) from visits where s::int[] is null
expression_not_allowed: select count(*) from visits where s::json is null
expression_not_allowed: select count(*) from visits where s::"nothing" is null
expression_not_allowed: select count(*) from visits where k is json
expression_not_allowed: select count(*) from visits where s = e'a\'b'
expression_not_allowed: select count(*) from visits where k = #1

-- text that is generated as it stands cannot smuggle SQL
expression_not_allowed: select EXTRACT("year FROM d), (select 1) --" FROM d), count(*) from visits group by 1
expression_not_allowed: select extract("year from d)) from visits; drop table visits; select (" from d), count(*) from visits group by 1
expression_not_allowed: select count(*) from visits where extract("year from d) > 0 or (1" from d) = 1
does_not_bind: select extract('ye''ar' from d), count(*) from visits group by 1
expression_not_allowed: select date_trunc('x''y', d), count(*) from visits group by 1
expression_not_allowed: select date_trunc(s, ts), count(*) from visits group by 1
expression_not_allowed: select count(*) from visits where date_trunc(d, '2024-01-01') < d
expression_not_allowed: select count(*) from visits where date_diff(s, d, d) = 0
answers: select count(*) as e'a\'b' from visits
answers: select k as \u200b, count(*) from visits group by k
expression_not_allowed: select date_diff('da''y', d, d), count(*) from visits group by 1
answers: select count(*) from visits where s = 'a\' or 1=1 --'
answers: select count(*) from visits where s = 'it''s'
unknown_column: select count(*) from visits where s = "it"
answers: select count(*) as "a"";drop table visits;--" from visits
syntax_error: select count(*) from visits where s::varchar(-1) = 'a'
does_not_bind: select count(*) from visits where s::decimal(k,2) = 1
answers: /* x */ select /* y */ count(*) /* z */ from visits -- '
syntax_error: select count(*) from visits /* unclosed

-- parameters, ordinals and limits out of range are refused or harmless
no_group_left: select c, count(*) from visits where c = 'no such key' group by c
constant_fails: select count(*) from visits limit 99999999999999999999999
constant_fails: select k, count(*) n from visits group by k order by n desc limit 99999999999999999999999
answers: select k, count(*) n from visits group by k order by n desc limit 9223372036854775807
does_not_bind: select k, count(*) n from visits group by k order by n desc limit -1
tells: select k, count(*) n from visits group by k order by n desc limit 0
answers: select k, count(*) n from visits group by k order by n desc limit 3.5
answers: select k, count(*) n from visits group by k order by n desc limit 10%
answers: select k, count(*) n from visits group by k order by n desc limit (select 3)
answers: select k, count(*) n from visits group by k order by n desc limit (select count(*) from visits)
answers: select k, count(*) n from visits group by k order by n desc limit 1+1
column_not_grouped: select k, count(*) n from visits group by k order by n desc limit k
parameter_missing: select k, count(*) n from visits group by k order by n desc limit ?
constant_fails: select k, count(*) n from visits group by k order by n desc limit 3 offset 99999999999999999999999
does_not_bind: select k, count(*) n from visits group by k order by n desc limit 3 offset -1
syntax_error: select k, count(*) n from visits group by k order by n desc fetch first 3 rows with ties
answers: select k, count(*) n from visits group by k order by n desc fetch first 3 rows only
does_not_bind: select k, count(*) n from visits group by k order by 99999999999999999999999 desc limit 3
does_not_bind: select k, count(*) n from visits group by k order by 0 desc limit 3
unknown_ordinal: select k, count(*) n from visits group by 99999999999999999999999
unknown_ordinal: select k, count(*) n from visits group by 0
constant_key: select k, count(*) n from visits group by -1
misplaced_aggregate: select k, count(*) n from visits group by 2
constant_key: select k, count(*) n from visits group by 1.5
answers: select 1, k, 'x' as c, count(*) from visits group by 1, k, c
constant_key: select 1, count(*) from visits group by 1
groups_by_unit: select 1, uid, count(*) from visits group by 1, uid
answers: select avg(extract(year from age(d))) from visits where date_part('year', age(current_date, d)) < 9
answers: select count(*) from visits where extract(month from age(d)) = 1
answers: select k, s, grouping(k) as g, count(*) as total from visits group by rollup (k, s) order by g, case when g = 0 then k end, total + 1
bad_option: select with differential_privacy options(epsilon = sqrt(2)) count(*) from visits
option_twice: select with differential_privacy options(epsilon = 1, epsilon = 2) count(*) from visits
options_not_private: select with differential_privacy n from (select count(*) n from visits)
mechanism_does_not_fit: select with differential_privacy options(mechanism = 'known_domain') k, count(*) from visits group by k
mechanism_needs_basic: select with differential_privacy options(mechanism = 'gaussian_sparse_histogram') k, count(*) from visits group by k
unknown_mechanism: select with differential_privacy options(mechanism = 'magic') count(*) from visits
nothing_released: select with differential_privacy options(answer_from = released) c, count(*) from visits group by c
nothing_released: select with differential_privacy options(answer_from = released, fresh = true) count(*) from visits
no_mechanism: select with differential_privacy options(max_groups_contributed = unlimited) k, count(*) from visits group by k
number_too_long: select count(*) from visits where k > 999999999999999999999999999999999999999
syntax_error: select quantile_cont(x, 0.5else from visits
syntax_error: select case when flag then 0.5else 1 end, count(*) from visits
syntax_error: select dp_interval_low(count(*), 0.5ea) from visits
syntax_error: select sum(n, contribution_bounds_per_row => (0, 5ea)) from visits
unknown_column: select sum(n + １) from visits
bad_fraction: select quantile_cont(x, 1e-999999999) from visits
too_many_relations: select count(*) from visits a join visits b0 using (uid) join visits b1 using (uid) join visits b2 using (uid) join visits b3 using (uid) join visits b4 using (uid) join visits b5 using (uid) join visits b6 using (uid) join visits b7 using (uid)
query_too_deep: select count(*) from visits where ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((k = 1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
query_too_large: select k as a0, a0 + a0 as a1, a1 + a1 as a2, a2 + a2 as a3, a3 + a3 as a4, a4 + a4 as a5, a5 + a5 as a6, a6 + a6 as a7, a7 + a7 as a8, a8 + a8 as a9, a9 + a9 as a10, a10 + a10 as a11, a11 + a11 as a12, a12 + a12 as a13, a13 + a13 as a14, count(*) from visits group by all
parameter_missing: select count(*) from visits where k = ?
parameter_missing: select count(*) from visits where k = $1
parameter_missing: select count(*) from visits where k = $a
parameter_missing: select count(*) from visits where k = :a
unknown_column: select count(*) from visits where k = @a
expression_not_allowed: select count(*) from visits where k = #1
parameter_missing: select ?, count(*) from visits
parameter_missing: select $1, count(*) from visits

-- equalities, FILTER, tests and names say what they say, and nothing of other people
answers: select count(*) from visits a join shops s on a.uid = s.k join visits b on b.uid = s.k
answers: select count(*) from visits a, visits b, visits c where a.uid = a.big and b.uid = a.big and c.uid = b.uid
join_needs_unit: select count(*) from visits a, visits b, visits c where a.uid = a.big and b.uid = a.big and c.uid = b.big
join_needs_unit: select count(*) from visits a left join shops s on a.uid = a.big join visits b on b.uid = a.big
join_needs_unit: select count(*) from visits a anti join shops s on a.uid = a.big join visits b on b.uid = a.big
join_needs_unit: select count(*) from visits a join shops s on not (a.uid <> a.big) join visits b on b.uid = a.big
join_needs_unit: select count(*) from visits a join shops s on a.uid = a.x join visits b on b.uid = a.x
text_compared: select count(*) from visits a join shops s on a.uid = a.big::varchar join visits b on b.uid = a.big
join_units_differ: select count(*) from visits a join visits b on a.uid = b.uid and a.k in (select k from mails)
join_needs_unit: select count(*) from visits a join visits b on a.uid = b.uid and exists (select 1 from visits c where c.k = a.k)
unknown_table: select count(*) from visits a join shops s on exists (select 1 from secret)
answers: select count(*) from visits a left join shops s on a.k in (select k from shops)
answers: select count(*) from visits a left join visits b on a.uid = b.uid and exists (select 1 from visits w where w.uid = b.uid and w.n > 3)
join_needs_unit: select count(*) from visits a left join visits b on a.uid = b.uid and b.s in (select s from visits)
join_keeps_public: select s.k, count(a.n) from shops s left join visits a on a.k = s.k and s.k in (select k from visits) group by s.k
join_keeps_public: select s.k, count(a.n) from shops s left join visits a on a.k = s.k and exists (select 1 from visits w where w.k = s.k) group by s.k
subquery_over_private_rows: select count(*) from visits a left join visits b on a.uid = b.uid and exists (select 1 from shops w where w.k = a.k and w.size = b.n)
ambiguous_column: select count(*) from visits a left join visits b on a.uid = b.uid and n in (select size from shops)
subquery_over_private_rows: select count(*) from visits a semi join visits b on a.uid = b.uid and b.n in (select size from shops)
answers: select count(*) from visits a join shops s on a.k = s.k and a.n in (select size from shops)
answers: select c, count(*) from (select uid, count(*) filter (where n > 3) c from visits group by uid) group by c
expression_not_allowed: select c, count(*) from (select uid, count(*) filter (where random() < 0.5) c from visits group by uid) group by c
answers: select c, count(*) from (select uid, count(*) filter (where n > (select avg(n) from visits)) c from visits group by uid) group by c
answers: select c, count(*) from (select k, count(*) filter (where uid = 1) c from visits group by k) group by c
aggregate_not_supported: select c, count(*) from (select uid, first(s) filter (where n > 3) c from visits group by uid) group by c
answers: select k, count(*) as n from visits group by k having n > 3
column_not_grouped: select k, count(*) as n from visits group by k having visits.n > 3
column_not_grouped: select k, count(*) as n from visits group by k order by visits.n
column_not_grouped: select k, count(*) as uid from visits group by k order by uid + 0
groups_by_unit: select k % 2 as uid, count(*) from visits group by rollup (uid)
groups_by_unit: select count(*) as uid from visits group by rollup (uid)

-- what reads no private table costs nothing and comes nowhere near one
tells: select 1
tells: SELECT 1 AS ping -- from a tool
tells: select version(), current_schema()
tells: select now() is not null, random() < 2
tells: from shops
tells: select k, sum(size) over (order by k) from shops where name like 's%'
tells: select count(*) from shops s, shops t where s.k < t.k
tells: with recursive r(i) as (select 1 union all select i + 1 from r where i < 9) from r
tells: select * from (values (1), (2)) t(a), range(3), unnest(['x', 'y'])
tells: select (select max(size) from shops) - (select min(size) from shops)
raw_rows: select 1 where exists (select 1 from visits)
raw_rows: select (select k from visits limit 1)
raw_rows: select * from shops where k in (select k from visits union all select k from visits)
subquery_over_private_rows: select * from shops s, lateral (select s.k from visits) t
answers: select * from shops where k = (select count(*) from visits v where v.k = shops.k)
subquery_over_private_rows: select * from shops where k = (select count(*) from visits v where v.uid = shops.k)
subquery_over_private_rows: select * from shops where k = (select count(*) + 1 from visits v where v.k = shops.k)
subquery_over_private_rows: select * from shops where k = (select coalesce(sum(n), 0) from visits v where v.k = shops.k)
subquery_over_private_rows: select * from shops where k = (select count(*) from visits v where v.k < shops.k)
subquery_over_private_rows: select * from shops where k = (select count(*) from visits v where v.k = shops.k or v.n = 1)
subquery_over_private_rows: select * from shops where k = (select n from visits v where v.k = shops.k)
subquery_over_private_rows: select * from shops where k = (select max(shops.size) from visits v where v.k = shops.k)
subquery_over_private_rows: select * from shops where k = (select count(*) from visits v where v.k = shops.k limit 1)
answers: select count(*) from visits v where n > (select avg(n) from visits w where w.c = v.c)
answers: select count(*) from visits v where n > (select avg(n) from visits w where w.k = v.k)
answers: select k, count(*) from visits v where n > 2 * (select max(n) from visits w where v.c = w.c) or n < 1 group by k
answers: select k, count(*) from visits v where n > 2 * (select max(n) from visits w where v.c = w.c and w.s = v.s) or n < 1 group by k
answers: select sum(n - (select avg(size) from shops where shops.k = visits.k)) from visits
subquery_over_private_rows: select count(*) from visits v where n > (select avg(n) from visits w where w.k > v.k)
subquery_over_private_rows: select count(*) from visits v where n > (select n from visits w where w.k = v.k)
subquery_over_private_rows: select count(*) from visits v where n > (select avg(n) from visits w where w.k = v.k and w.n > v.n)
raw_rows: from visits
unknown_table: select * from secret
unknown_table: select 1 where (select v from secret) = 'secret 1'
unknown_table: with t as (select * from secret) select 1
raw_rows: select * from main.visits
tells: select * from main.shops
tells: select * from information_schema.tables
unknown_table: select * from pg_catalog.pg_tables
unknown_table: select * from sqlite_master
tells: select * from duckdb_tables()
unknown_table: select * from 'world.duckdb'
unknown_table: select * from '/etc/passwd'
function_not_allowed: select * from read_text('/etc/passwd')
raw_rows: select * from shops union all select k, s, n from visits
function_not_allowed: select current_setting('threads')
function_not_allowed: select getenv('HOME')
function_not_allowed: select current_query()
reserved_name: select * from __dpsql_released_0
unknown_table: select * from answer_0
no_noise_known: select dp_interval_low(size) from shops
bounds_not_private: select sum(size, contribution_bounds_per_row => (0, 1)) from shops
options_not_private: select with differential_privacy count(*) from shops
does_not_bind: select uid from shops
unknown_table: select 1, 2 from nothing

-- what must fail or take all memory is refused before it is paid for
constant_fails: select count(*) + 'a' from visits
constant_fails: select k, count(*) from visits group by k having k = 's1'
constant_fails: select 'x'::date, count(*) from visits
constant_fails: select [1, 2]::int, count(*) from visits
constant_fails: select count(*)::date from visits
constant_fails: select 100000 * 100000 + count(*) from visits
several_rows: select k, count(*), (select size from shops) from visits group by k
several_rows: select (select size from shops s where s.k <= v.k) as x, count(*) from visits v group by x
several_rows: select k, (select size from shops s where s.size > v.k limit 1), count(*) from visits v group by k
several_rows: with s as (select k from shops) select count(*) > (select k from s) from visits
answers: select count(*), (select max(size) from shops), (select k from shops limit 1) from visits
answers: select try_cast('x' as date), try('y'::int), count(*) from visits
tail_too_large: select range(1000000000), count(*) from visits
tail_too_large: select 1 from (select count(*) from visits), range(len(range(500000000)))

-- malformed text is named as such
syntax_error: select count(*) from
syntax_error: select count(*) from visits where
syntax_error: selec count(*) from visits
syntax_error: select count(*)) from visits
empty_group_by: select count(*) from visits group by
answers: select top 3 k, count(*) from visits group by k
syntax_error: select top 3 percent k, count(*) from visits group by k
syntax_error: select x'41', count(*) from visits
unknown_table: select count(*) from nothing
unknown_column: select nothing, count(*) from visits group by all

-- what is harmless is answered
answers: select count(*) from visits where s
answers: select count(*) from visits where s is true or not s
constant_fails: select count(*) from visits where cast(s as int) > 1 or cast('abc' as int) = k
answers: select count(*) from visits where k // 0 = 1 or k % 0 = 1 or k / 0 = 1
constant_fails: select count(*) from visits where d = 'nonsense'
text_compared: select count(*) from visits where s in (1, 2) or s = 3
text_compared: select count(*) from visits where s = true
does_not_bind: select s, count(*) from visits group by s having s > 3
answers: select s, count(*) from visits group by s having try_cast(s as int) > 3
text_compared: select n from (select s, count(*) n from visits group by s) where s in (1, 2)
answers: select count(*) from visits where s::int in (1, 2) or s = '3'
answers: select k, count(*) from visits group by k having count(*) > (select count(*) / 9 from visits)
answers: select k, count(*) from visits group by k having k in (select k from visits)
answers: select count(*) from (select distinct uid from visits)
answers: select count(*) from (select distinct k from visits) t (c)
answers: select sum(n * n), sum(n * n + 1) from visits
answers: select name from shops where exists (select count(*) from visits)
answers: select name, n from shops, lateral (select count(*) n from visits) q
answers: select k, count(*), sum(count(*)) over () from visits group by k
answers: select list_transform([1,2], x -> x + k), count(*) from visits group by k
answers: select count(*) from visits union all values (3)
answers: select * from (select k, count(*) n from visits group by k) pivot (sum(n) for k in (1,2))
answers: select * from (select k, count(*) n from visits group by k) tablesample 50%
answers: select n, i from (select count(*) n from visits), range(3) t(i)
answers: with recursive r as (select count(*) i from visits union all select i + 1 from r where i < 3) select * from r
answers: select "order", count(*) from visits group by "order"

-- asking for columns alone tells names and types that the policy shows, and no more
tells: select * from visits where 1 = 0
tells: select * from visits where (false)
tells: select v.k, s from visits v where n > 3 and 1 = 0
tells: select * from (select * from visits) t limit 0
tells: select * from visits fetch first 0 rows only
tells: select k + 1, s || 'x' from visits limit 0 offset 2
tells: select * from (select k, count(*) n from visits group by k) t where 1 = 0
tells: with unused as (select count(*) from visits) select 1
tells: with a as (select count(*) n from visits), b as (select * from a) select 1
tells: with visits as (select count(*) n from visits) select 1
answers: with a as (select count(*) n from visits) select * from a
unknown_column: with a as (select nothing from visits) select 1
raw_rows: select * from visits where 1 = 1
raw_rows: select * from visits where 1 = 0 or true
raw_rows: select * from visits where not (1 = 0)
raw_rows: select * from visits where k = 0
raw_rows: select * from visits where '1' = 1
raw_rows: select * from visits where (select 1 = 0)
aggregate_not_supported: select max(n, 3) from visits
aggregate_not_supported: select m, count(*) from (select uid, max(n, 3) m from visits group by uid) group by m
raw_rows: select * from visits limit 1
raw_rows: select * from visits limit (select 0)
raw_rows: select * from visits offset 0
clause_not_allowed: select * from (select * from visits limit 0)
raw_rows: select * from visits where false union all select * from visits
answers: select count(*) from visits where 1 = 0
answers: select k, count(*) from visits where 1 = 0 group by k
answers: select histogram(k) from visits where 1 = 0
tells: select 1 where (select count(*) from visits) > 5 limit 0
unknown_table: select * from secret limit 0
join_not_supported: select * from visits, (select v from secret) limit 0
unknown_table: select *, (select v from secret) from visits limit 0
unknown_column: select rowid from visits limit 0
function_not_allowed: select * from read_text('/etc/passwd') limit 0
constant_fails: select repeat('x', 100000000000) from visits limit 0
tells: select * from information_schema.columns where table_name = 'secret'
tells: select table_name from duckdb_columns() c
does_not_bind: select estimated_size from duckdb_tables()
table_function: select * from duckdb_tables(1)
unknown_table: select * from information_schema.views
answers: select count(*) from visits, information_schema.tables
unknown_table: pragma table_info('secret')
several_statements: pragma table_info('visits'); select 1
syntax_error: pragma table_info
syntax_error: pragma table_info(visits, 1)
tells: pragma show_tables
not_a_query: pragma storage_info('visits')
tells: show all tables
tells: show databases
tells: show schemas
not_a_query: use secret
several_statements: use main; drop table visits

-- one value of a unit's rows beside a row: an equality makes both belong to one unit
answers: select count(*) from visits v where (select count(*) from visits w where w.uid = v.uid) > 1
answers: select k, sum((select max(n) from visits w where w.uid = v.uid and w.k = 1)) from visits v group by k
answers: select count(*) from visits v where (select count(*) from visits w where w.k = v.k) > 1
subquery_over_private_rows: select count(*) from visits v where (select count(*) from visits w where w.uid = v.uid or true) > 1
subquery_over_private_rows: select count(*) from visits v where (select count(*) from visits w where w.uid <> v.uid) > 1
subquery_over_private_rows: select count(*) from visits v where (select count(*) from visits w where w.uid = v.uid and w.n > v.n) > 1
several_rows: select count(*) from visits v where (select n from visits w where w.uid = v.uid) > 1
answers: select count(*) from visits v where (select count(*) from mails m where m.k = v.uid) > 1
sample_not_available: select count(*) from visits v where (select count(*) from visits w where w.uid = v.uid and random() < 0.5) > 1
groups_by_unit: select (select max(w.uid) from visits w where w.uid = v.uid) as u, count(*) from visits v group by u

-- a sample is one of units, each with all of its rows, which nobody chooses and no other unit decides
answers: select count(*) from visits tablesample 10%
answers: select count(*) from visits where random() < 0.5
answers: select k, count(*) from visits using sample 50 percent (bernoulli) group by k
answers: select n, count(*) from (select uid, count(*) n from visits tablesample system (50) group by uid) group by n
sample_not_available: select count(*) from visits using sample 10
sample_not_available: select count(*) from visits using sample reservoir(10 rows) repeatable (100)
sample_not_available: select count(*) from visits tablesample bernoulli (50) repeatable (7)
sample_not_available: select count(*) from visits using sample 50% (system, 7)
sample_not_available: select count(*) from visits tablesample (bucket 1 out of 2 on uid)
sample_not_available: select count(*) from visits tablesample 200%
sample_not_available: select count(*) from visits tablesample 10% where random() < 0.5
sample_not_available: select count(*) from visits v left join visits w tablesample 10% on v.uid = w.uid
sample_not_available: select count(*) from (select uid, k from visits union all select uid, k from visits tablesample 10%)
sample_not_available: select count(*) from visits where uid not in (select uid from visits tablesample 10%)
sample_not_available: select count(*) from visits join shops tablesample 10% using (k)
expression_not_allowed: select count(*) from visits where random() < 0.5 or uid = 27
expression_not_allowed: select count(*) from visits where random() < case when uid = 27 then 1 else 0.5 end
expression_not_allowed: select count(*) from visits where rand(uid) < 0.5

-- LATERAL: a subquery of one row is a value of the row around; any other is no join of units
answers: select k, count(*) from visits v, lateral (select max(n) as m from visits w where w.uid = v.uid) x where x.m > 3 group by k
answers: select x.m, count(*) from visits v, lateral (select v.n // 5 as m) x group by x.m
join_not_supported: select count(*) from visits v, lateral (select n from visits w where w.uid = v.uid) x
join_not_supported: select count(*) from visits v, lateral (select * from visits w where w.k = v.k limit 1) x
subquery_over_private_rows: select count(*) from visits v, lateral (select max(n) as m from visits w where w.n < v.n) x where x.m > 3
raw_rows: select x.m from visits v, lateral (select max(n) as m from visits w where w.uid = v.uid) x
subquery_over_private_rows: select s.k, x.m from shops s, lateral (select v.n as m from visits v where v.k = s.k) x
groups_by_unit: select x.m, count(*) from visits v, lateral (select v.uid as m) x group by x.m

-- lists of a unit's values: what is asked of them is an aggregate of the unit's rows
answers: select l, count(*) from (select uid, len(list(n)) as l from visits group by uid) group by l
answers: select count(*) from (select uid, list(s) as l from visits group by uid) where list_contains(l, 's1')
answers: select l[1], count(*) from (select uid, list(s order by n) as l from visits group by uid) group by all
aggregate_not_supported: select l[1], count(*) from (select uid, list(s) as l from visits group by uid) group by all
aggregate_not_supported: select l[2], count(*) from (select uid, list(s order by n) as l from visits group by uid) group by all
aggregate_not_supported: select l, count(*) from (select uid, list(s) as l from visits group by uid) group by l
aggregate_not_supported: select count(*) from (select uid, list(s) as l from visits group by uid) where list_contains(l, (select min(s) from visits))
aggregate_not_supported: select array_to_string(l, ','), count(*) from (select uid, list(s) as l from visits group by uid) group by all
raw_rows: select l[1] from (select uid, list(s order by n) as l from visits group by uid)
