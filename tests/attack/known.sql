-- What attackers found once, minimal: a world, and a statement that must hold every net.
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 AND i32 >= 3 THEN week(INTERVAL 1 DAY) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN week(d) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN dayofweek(iv) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN extract(timezone FROM d) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN date_trunc('era', d) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN date_trunc('week', d) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN extract(yearweek FROM d) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE CASE WHEN uid = 27 THEN date_diff('day', tm, tm) IS NULL ELSE TRUE END
plain: SELECT count(*) FROM t WHERE nullif('x', 1) IS NULL
plain: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (contribution_bounding = 'weight') s, sum(f64, contribution_bounds_per_row => (0, 1e-15), contribution_bounds_per_group => (-1e15, -5e14)) FROM t GROUP BY s
plain: SELECT sum(f64, contribution_bounds_per_row => (0, 1e-15), contribution_bounds_per_group => (1e14, 1.5e14)) FROM t
plain: SELECT sum(f64, contribution_bounds_per_row => (0, 1e-306)) FROM t
plain: SELECT sum(u128, contribution_bounds_per_row => (-5, 100)) FROM t
plain: SELECT avg(u128, contribution_bounds_per_row => (-5, 100)) FROM t
plain: SELECT median(u128, contribution_bounds_per_row => (-5, 100)) FROM t
macros: SELECT s, sum(i32) FROM t GROUP BY s
macros: SELECT sum(i32) FROM t
types: DESCRIBE typed
types: SELECT sum(s) FROM typed
types: SELECT count(*) FROM typed WHERE s > i32
types: SELECT s, count(*) FROM typed GROUP BY s
collations: SELECT s, count(*) FROM folded GROUP BY s
oracles: SELECT sum(f64, contribution_bounds_per_row => (0, 1)) FROM sums
oracles: SELECT count(w) FROM weeks
oracles: SELECT w, count(*) FROM weeks GROUP BY w
views: SELECT w, count(*) FROM weeks GROUP BY w
views: SELECT sum(f64, contribution_bounds_per_row => (0, 1)), count(DISTINCT s) FROM sums
plain: SELECT count(*) FROM t WHERE var_map(ts_s) IS NULL
plain: SELECT count(*) FROM t WHERE f64 > CAST('nan' AS DOUBLE)
plain: SELECT f32, i8 FROM t WHERE b = b GROUP BY 1, 2
plain: SELECT parameterized_agg(tz, u8, id) FROM t
plain: SELECT 999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999
plain: SELECT FROM t GROUP BY u8 ORDER BY u8

-- Of columns in which one unit holds every awkward value: conditions on them, as filters and as keys.
plain: SELECT count(*) FROM t WHERE CAST(s AS INT) > 1
plain: SELECT (CAST(s AS INT) > 1) AS v, count(*), count_if(CAST(s AS INT) > 1), sum(f64) FILTER (WHERE CAST(s AS INT) > 1), count(DISTINCT uid) FILTER (WHERE CAST(s AS INT) > 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(s AS DATE) > '2020-01-01'
plain: SELECT (CAST(s AS DATE) > '2020-01-01') AS v, count(*), count_if(CAST(s AS DATE) > '2020-01-01'), sum(f64) FILTER (WHERE CAST(s AS DATE) > '2020-01-01'), count(DISTINCT uid) FILTER (WHERE CAST(s AS DATE) > '2020-01-01') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(s AS DOUBLE) > 1
plain: SELECT (CAST(s AS DOUBLE) > 1) AS v, count(*), count_if(CAST(s AS DOUBLE) > 1), sum(f64) FILTER (WHERE CAST(s AS DOUBLE) > 1), count(DISTINCT uid) FILTER (WHERE CAST(s AS DOUBLE) > 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(s AS BOOLEAN)
plain: SELECT (CAST(s AS BOOLEAN)) AS v, count(*), count_if(CAST(s AS BOOLEAN)), sum(f64) FILTER (WHERE CAST(s AS BOOLEAN)), count(DISTINCT uid) FILTER (WHERE CAST(s AS BOOLEAN)) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s
plain: SELECT (s) AS v, count(*), count_if(s), sum(f64) FILTER (WHERE s), count(DISTINCT uid) FILTER (WHERE s) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s IS TRUE
plain: SELECT (s IS TRUE) AS v, count(*), count_if(s IS TRUE), sum(f64) FILTER (WHERE s IS TRUE), count(DISTINCT uid) FILTER (WHERE s IS TRUE) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE NOT s
plain: SELECT (NOT s) AS v, count(*), count_if(NOT s), sum(f64) FILTER (WHERE NOT s), count(DISTINCT uid) FILTER (WHERE NOT s) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s = 3
plain: SELECT (s = 3) AS v, count(*), count_if(s = 3), sum(f64) FILTER (WHERE s = 3), count(DISTINCT uid) FILTER (WHERE s = 3) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s IN (1, 2)
plain: SELECT (s IN (1, 2)) AS v, count(*), count_if(s IN (1, 2)), sum(f64) FILTER (WHERE s IN (1, 2)), count(DISTINCT uid) FILTER (WHERE s IN (1, 2)) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s BETWEEN 1 AND 5
plain: SELECT (s BETWEEN 1 AND 5) AS v, count(*), count_if(s BETWEEN 1 AND 5), sum(f64) FILTER (WHERE s BETWEEN 1 AND 5), count(DISTINCT uid) FILTER (WHERE s BETWEEN 1 AND 5) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s < d
plain: SELECT (s < d) AS v, count(*), count_if(s < d), sum(f64) FILTER (WHERE s < d), count(DISTINCT uid) FILTER (WHERE s < d) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE d = s
plain: SELECT (d = s) AS v, count(*), count_if(d = s), sum(f64) FILTER (WHERE d = s), count(DISTINCT uid) FILTER (WHERE d = s) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s IS DISTINCT FROM 3
plain: SELECT (s IS DISTINCT FROM 3) AS v, count(*), count_if(s IS DISTINCT FROM 3), sum(f64) FILTER (WHERE s IS DISTINCT FROM 3), count(DISTINCT uid) FILTER (WHERE s IS DISTINCT FROM 3) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE coalesce(CAST(s AS INT), 3) = 3
plain: SELECT (coalesce(CAST(s AS INT), 3) = 3) AS v, count(*), count_if(coalesce(CAST(s AS INT), 3) = 3), sum(f64) FILTER (WHERE coalesce(CAST(s AS INT), 3) = 3), count(DISTINCT uid) FILTER (WHERE coalesce(CAST(s AS INT), 3) = 3) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CASE s WHEN 3 THEN TRUE END
plain: SELECT (CASE s WHEN 3 THEN TRUE END) AS v, count(*), count_if(CASE s WHEN 3 THEN TRUE END), sum(f64) FILTER (WHERE CASE s WHEN 3 THEN TRUE END), count(DISTINCT uid) FILTER (WHERE CASE s WHEN 3 THEN TRUE END) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CASE WHEN i32 > 0 THEN CAST(s AS INT) ELSE 1 END = 3
plain: SELECT (CASE WHEN i32 > 0 THEN CAST(s AS INT) ELSE 1 END = 3) AS v, count(*), count_if(CASE WHEN i32 > 0 THEN CAST(s AS INT) ELSE 1 END = 3), sum(f64) FILTER (WHERE CASE WHEN i32 > 0 THEN CAST(s AS INT) ELSE 1 END = 3), count(DISTINCT uid) FILTER (WHERE CASE WHEN i32 > 0 THEN CAST(s AS INT) ELSE 1 END = 3) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i64 * i64 > 0
plain: SELECT (i64 * i64 > 0) AS v, count(*), count_if(i64 * i64 > 0), sum(f64) FILTER (WHERE i64 * i64 > 0), count(DISTINCT uid) FILTER (WHERE i64 * i64 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i64 + 1 > 0 AND i64 - 1 < 0
plain: SELECT (i64 + 1 > 0 AND i64 - 1 < 0) AS v, count(*), count_if(i64 + 1 > 0 AND i64 - 1 < 0), sum(f64) FILTER (WHERE i64 + 1 > 0 AND i64 - 1 < 0), count(DISTINCT uid) FILTER (WHERE i64 + 1 > 0 AND i64 - 1 < 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE -i64 > 0
plain: SELECT (-i64 > 0) AS v, count(*), count_if(-i64 > 0), sum(f64) FILTER (WHERE -i64 > 0), count(DISTINCT uid) FILTER (WHERE -i64 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE abs(i64) > 0
plain: SELECT (abs(i64) > 0) AS v, count(*), count_if(abs(i64) > 0), sum(f64) FILTER (WHERE abs(i64) > 0), count(DISTINCT uid) FILTER (WHERE abs(i64) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i32 * i32 * i32 > 0
plain: SELECT (i32 * i32 * i32 > 0) AS v, count(*), count_if(i32 * i32 * i32 > 0), sum(f64) FILTER (WHERE i32 * i32 * i32 > 0), count(DISTINCT uid) FILTER (WHERE i32 * i32 * i32 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i64 // i32 > 0
plain: SELECT (i64 // i32 > 0) AS v, count(*), count_if(i64 // i32 > 0), sum(f64) FILTER (WHERE i64 // i32 > 0), count(DISTINCT uid) FILTER (WHERE i64 // i32 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i64 % i32 = 0
plain: SELECT (i64 % i32 = 0) AS v, count(*), count_if(i64 % i32 = 0), sum(f64) FILTER (WHERE i64 % i32 = 0), count(DISTINCT uid) FILTER (WHERE i64 % i32 = 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i64 / i32 > 0
plain: SELECT (i64 / i32 > 0) AS v, count(*), count_if(i64 / i32 > 0), sum(f64) FILTER (WHERE i64 / i32 > 0), count(DISTINCT uid) FILTER (WHERE i64 / i32 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i128 + 1 > 0
plain: SELECT (i128 + 1 > 0) AS v, count(*), count_if(i128 + 1 > 0), sum(f64) FILTER (WHERE i128 + 1 > 0), count(DISTINCT uid) FILTER (WHERE i128 + 1 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i128 = i64
plain: SELECT (i128 = i64) AS v, count(*), count_if(i128 = i64), sum(f64) FILTER (WHERE i128 = i64), count(DISTINCT uid) FILTER (WHERE i128 = i64) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i128 > 0.5
plain: SELECT (i128 > 0.5) AS v, count(*), count_if(i128 > 0.5), sum(f64) FILTER (WHERE i128 > 0.5), count(DISTINCT uid) FILTER (WHERE i128 > 0.5) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE u128 = i128
plain: SELECT (u128 = i128) AS v, count(*), count_if(u128 = i128), sum(f64) FILTER (WHERE u128 = i128), count(DISTINCT uid) FILTER (WHERE u128 = i128) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE u64 > i64
plain: SELECT (u64 > i64) AS v, count(*), count_if(u64 > i64), sum(f64) FILTER (WHERE u64 > i64), count(DISTINCT uid) FILTER (WHERE u64 > i64) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE u64 = -1
plain: SELECT (u64 = -1) AS v, count(*), count_if(u64 = -1), sum(f64) FILTER (WHERE u64 = -1), count(DISTINCT uid) FILTER (WHERE u64 = -1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE dec38 * 10 > 0
plain: SELECT (dec38 * 10 > 0) AS v, count(*), count_if(dec38 * 10 > 0), sum(f64) FILTER (WHERE dec38 * 10 > 0), count(DISTINCT uid) FILTER (WHERE dec38 * 10 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE dec38 = i128
plain: SELECT (dec38 = i128) AS v, count(*), count_if(dec38 = i128), sum(f64) FILTER (WHERE dec38 = i128), count(DISTINCT uid) FILTER (WHERE dec38 = i128) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE dec18 = dec38
plain: SELECT (dec18 = dec38) AS v, count(*), count_if(dec18 = dec38), sum(f64) FILTER (WHERE dec18 = dec38), count(DISTINCT uid) FILTER (WHERE dec18 = dec38) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE dec18 * dec18 > 0
plain: SELECT (dec18 * dec18 > 0) AS v, count(*), count_if(dec18 * dec18 > 0), sum(f64) FILTER (WHERE dec18 * dec18 > 0), count(DISTINCT uid) FILTER (WHERE dec18 * dec18 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE dec18 > 1e300
plain: SELECT (dec18 > 1e300) AS v, count(*), count_if(dec18 > 1e300), sum(f64) FILTER (WHERE dec18 > 1e300), count(DISTINCT uid) FILTER (WHERE dec18 > 1e300) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE f64 * f64 > 0
plain: SELECT (f64 * f64 > 0) AS v, count(*), count_if(f64 * f64 > 0), sum(f64) FILTER (WHERE f64 * f64 > 0), count(DISTINCT uid) FILTER (WHERE f64 * f64 > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(f64 AS INT) > 0
plain: SELECT (CAST(f64 AS INT) > 0) AS v, count(*), count_if(CAST(f64 AS INT) > 0), sum(f64) FILTER (WHERE CAST(f64 AS INT) > 0), count(DISTINCT uid) FILTER (WHERE CAST(f64 AS INT) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(f64 AS BIGINT) > 0
plain: SELECT (CAST(f64 AS BIGINT) > 0) AS v, count(*), count_if(CAST(f64 AS BIGINT) > 0), sum(f64) FILTER (WHERE CAST(f64 AS BIGINT) > 0), count(DISTINCT uid) FILTER (WHERE CAST(f64 AS BIGINT) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(f64 AS DECIMAL(4, 1)) > 0
plain: SELECT (CAST(f64 AS DECIMAL(4, 1)) > 0) AS v, count(*), count_if(CAST(f64 AS DECIMAL(4, 1)) > 0), sum(f64) FILTER (WHERE CAST(f64 AS DECIMAL(4, 1)) > 0), count(DISTINCT uid) FILTER (WHERE CAST(f64 AS DECIMAL(4, 1)) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(i64 AS TINYINT) > 0
plain: SELECT (CAST(i64 AS TINYINT) > 0) AS v, count(*), count_if(CAST(i64 AS TINYINT) > 0), sum(f64) FILTER (WHERE CAST(i64 AS TINYINT) > 0), count(DISTINCT uid) FILTER (WHERE CAST(i64 AS TINYINT) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(i128 AS BIGINT) > 0
plain: SELECT (CAST(i128 AS BIGINT) > 0) AS v, count(*), count_if(CAST(i128 AS BIGINT) > 0), sum(f64) FILTER (WHERE CAST(i128 AS BIGINT) > 0), count(DISTINCT uid) FILTER (WHERE CAST(i128 AS BIGINT) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(d AS TIMESTAMP) > '2020-01-01'
plain: SELECT (CAST(d AS TIMESTAMP) > '2020-01-01') AS v, count(*), count_if(CAST(d AS TIMESTAMP) > '2020-01-01'), sum(f64) FILTER (WHERE CAST(d AS TIMESTAMP) > '2020-01-01'), count(DISTINCT uid) FILTER (WHERE CAST(d AS TIMESTAMP) > '2020-01-01') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE CAST(ts AS DATE) > '2020-01-01'
plain: SELECT (CAST(ts AS DATE) > '2020-01-01') AS v, count(*), count_if(CAST(ts AS DATE) > '2020-01-01'), sum(f64) FILTER (WHERE CAST(ts AS DATE) > '2020-01-01'), count(DISTINCT uid) FILTER (WHERE CAST(ts AS DATE) > '2020-01-01') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE d + INTERVAL 1 DAY > '2020-01-01'
plain: SELECT (d + INTERVAL 1 DAY > '2020-01-01') AS v, count(*), count_if(d + INTERVAL 1 DAY > '2020-01-01'), sum(f64) FILTER (WHERE d + INTERVAL 1 DAY > '2020-01-01'), count(DISTINCT uid) FILTER (WHERE d + INTERVAL 1 DAY > '2020-01-01') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE ts - INTERVAL 1000000 YEAR < '2020-01-01'
plain: SELECT (ts - INTERVAL 1000000 YEAR < '2020-01-01') AS v, count(*), count_if(ts - INTERVAL 1000000 YEAR < '2020-01-01'), sum(f64) FILTER (WHERE ts - INTERVAL 1000000 YEAR < '2020-01-01'), count(DISTINCT uid) FILTER (WHERE ts - INTERVAL 1000000 YEAR < '2020-01-01') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE year(d) = 2024
plain: SELECT (year(d) = 2024) AS v, count(*), count_if(year(d) = 2024), sum(f64) FILTER (WHERE year(d) = 2024), count(DISTINCT uid) FILTER (WHERE year(d) = 2024) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE month(ts) = 1
plain: SELECT (month(ts) = 1) AS v, count(*), count_if(month(ts) = 1), sum(f64) FILTER (WHERE month(ts) = 1), count(DISTINCT uid) FILTER (WHERE month(ts) = 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE date_trunc('month', d) = '2024-01-01'
plain: SELECT (date_trunc('month', d) = '2024-01-01') AS v, count(*), count_if(date_trunc('month', d) = '2024-01-01'), sum(f64) FILTER (WHERE date_trunc('month', d) = '2024-01-01'), count(DISTINCT uid) FILTER (WHERE date_trunc('month', d) = '2024-01-01') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE extract(epoch FROM ts) > 0
plain: SELECT (extract(epoch FROM ts) > 0) AS v, count(*), count_if(extract(epoch FROM ts) > 0), sum(f64) FILTER (WHERE extract(epoch FROM ts) > 0), count(DISTINCT uid) FILTER (WHERE extract(epoch FROM ts) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE date_diff('day', d, CAST(ts AS DATE)) = 0
plain: SELECT (date_diff('day', d, CAST(ts AS DATE)) = 0) AS v, count(*), count_if(date_diff('day', d, CAST(ts AS DATE)) = 0), sum(f64) FILTER (WHERE date_diff('day', d, CAST(ts AS DATE)) = 0), count(DISTINCT uid) FILTER (WHERE date_diff('day', d, CAST(ts AS DATE)) = 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE date_diff('microsecond', ts, TIMESTAMP '2024-01-01') = 0
plain: SELECT (date_diff('microsecond', ts, TIMESTAMP '2024-01-01') = 0) AS v, count(*), count_if(date_diff('microsecond', ts, TIMESTAMP '2024-01-01') = 0), sum(f64) FILTER (WHERE date_diff('microsecond', ts, TIMESTAMP '2024-01-01') = 0), count(DISTINCT uid) FILTER (WHERE date_diff('microsecond', ts, TIMESTAMP '2024-01-01') = 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE ln(f64) > 0 OR sqrt(f64) > 0 OR log(f64) > 0
plain: SELECT (ln(f64) > 0 OR sqrt(f64) > 0 OR log(f64) > 0) AS v, count(*), count_if(ln(f64) > 0 OR sqrt(f64) > 0 OR log(f64) > 0), sum(f64) FILTER (WHERE ln(f64) > 0 OR sqrt(f64) > 0 OR log(f64) > 0), count(DISTINCT uid) FILTER (WHERE ln(f64) > 0 OR sqrt(f64) > 0 OR log(f64) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE exp(f64) > 1
plain: SELECT (exp(f64) > 1) AS v, count(*), count_if(exp(f64) > 1), sum(f64) FILTER (WHERE exp(f64) > 1), count(DISTINCT uid) FILTER (WHERE exp(f64) > 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE pow(f64, f64) > 1
plain: SELECT (pow(f64, f64) > 1) AS v, count(*), count_if(pow(f64, f64) > 1), sum(f64) FILTER (WHERE pow(f64, f64) > 1), count(DISTINCT uid) FILTER (WHERE pow(f64, f64) > 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE pow(i64, 9) > 1
plain: SELECT (pow(i64, 9) > 1) AS v, count(*), count_if(pow(i64, 9) > 1), sum(f64) FILTER (WHERE pow(i64, 9) > 1), count(DISTINCT uid) FILTER (WHERE pow(i64, 9) > 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE round(f64, 2) > 1
plain: SELECT (round(f64, 2) > 1) AS v, count(*), count_if(round(f64, 2) > 1), sum(f64) FILTER (WHERE round(f64, 2) > 1), count(DISTINCT uid) FILTER (WHERE round(f64, 2) > 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE ceil(f64) > 1 AND floor(f64) > 0
plain: SELECT (ceil(f64) > 1 AND floor(f64) > 0) AS v, count(*), count_if(ceil(f64) > 1 AND floor(f64) > 0), sum(f64) FILTER (WHERE ceil(f64) > 1 AND floor(f64) > 0), count(DISTINCT uid) FILTER (WHERE ceil(f64) > 1 AND floor(f64) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE left(s, 3) = '3'
plain: SELECT (left(s, 3) = '3') AS v, count(*), count_if(left(s, 3) = '3'), sum(f64) FILTER (WHERE left(s, 3) = '3'), count(DISTINCT uid) FILTER (WHERE left(s, 3) = '3') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE substring(s, 2, 1) = ''
plain: SELECT (substring(s, 2, 1) = '') AS v, count(*), count_if(substring(s, 2, 1) = ''), sum(f64) FILTER (WHERE substring(s, 2, 1) = ''), count(DISTINCT uid) FILTER (WHERE substring(s, 2, 1) = '') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE length(s) > 0
plain: SELECT (length(s) > 0) AS v, count(*), count_if(length(s) > 0), sum(f64) FILTER (WHERE length(s) > 0), count(DISTINCT uid) FILTER (WHERE length(s) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE upper(s) || lower(s) = '33'
plain: SELECT (upper(s) || lower(s) = '33') AS v, count(*), count_if(upper(s) || lower(s) = '33'), sum(f64) FILTER (WHERE upper(s) || lower(s) = '33'), count(DISTINCT uid) FILTER (WHERE upper(s) || lower(s) = '33') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE concat(s, s, i64) = '333'
plain: SELECT (concat(s, s, i64) = '333') AS v, count(*), count_if(concat(s, s, i64) = '333'), sum(f64) FILTER (WHERE concat(s, s, i64) = '333'), count(DISTINCT uid) FILTER (WHERE concat(s, s, i64) = '333') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE s LIKE '%9'
plain: SELECT (s LIKE '%9') AS v, count(*), count_if(s LIKE '%9'), sum(f64) FILTER (WHERE s LIKE '%9'), count(DISTINCT uid) FILTER (WHERE s LIKE '%9') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE trim(s) = '3'
plain: SELECT (trim(s) = '3') AS v, count(*), count_if(trim(s) = '3'), sum(f64) FILTER (WHERE trim(s) = '3'), count(DISTINCT uid) FILTER (WHERE trim(s) = '3') FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE contains(s, 'a')
plain: SELECT (contains(s, 'a')) AS v, count(*), count_if(contains(s, 'a')), sum(f64) FILTER (WHERE contains(s, 'a')), count(DISTINCT uid) FILTER (WHERE contains(s, 'a')) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE least(i32, i64) > 0
plain: SELECT (least(i32, i64) > 0) AS v, count(*), count_if(least(i32, i64) > 0), sum(f64) FILTER (WHERE least(i32, i64) > 0), count(DISTINCT uid) FILTER (WHERE least(i32, i64) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE greatest(f64, i32) > 0
plain: SELECT (greatest(f64, i32) > 0) AS v, count(*), count_if(greatest(f64, i32) > 0), sum(f64) FILTER (WHERE greatest(f64, i32) > 0), count(DISTINCT uid) FILTER (WHERE greatest(f64, i32) > 0) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE nullif(CAST(s AS INT), i32) = 3
plain: SELECT (nullif(CAST(s AS INT), i32) = 3) AS v, count(*), count_if(nullif(CAST(s AS INT), i32) = 3), sum(f64) FILTER (WHERE nullif(CAST(s AS INT), i32) = 3), count(DISTINCT uid) FILTER (WHERE nullif(CAST(s AS INT), i32) = 3) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE isnan(f64)
plain: SELECT (isnan(f64)) AS v, count(*), count_if(isnan(f64)), sum(f64) FILTER (WHERE isnan(f64)), count(DISTINCT uid) FILTER (WHERE isnan(f64)) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE sign(i64) = 1
plain: SELECT (sign(i64) = 1) AS v, count(*), count_if(sign(i64) = 1), sum(f64) FILTER (WHERE sign(i64) = 1), count(DISTINCT uid) FILTER (WHERE sign(i64) = 1) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE NOT (i32 > 5 AND CAST(s AS INT) > 2)
plain: SELECT (NOT (i32 > 5 AND CAST(s AS INT) > 2)) AS v, count(*), count_if(NOT (i32 > 5 AND CAST(s AS INT) > 2)), sum(f64) FILTER (WHERE NOT (i32 > 5 AND CAST(s AS INT) > 2)), count(DISTINCT uid) FILTER (WHERE NOT (i32 > 5 AND CAST(s AS INT) > 2)) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i32 BETWEEN 5 AND CAST(s AS INT)
plain: SELECT (i32 BETWEEN 5 AND CAST(s AS INT)) AS v, count(*), count_if(i32 BETWEEN 5 AND CAST(s AS INT)), sum(f64) FILTER (WHERE i32 BETWEEN 5 AND CAST(s AS INT)), count(DISTINCT uid) FILTER (WHERE i32 BETWEEN 5 AND CAST(s AS INT)) FROM t GROUP BY 1
plain: SELECT count(*) FROM t WHERE i32 NOT IN (7, CAST(s AS INT))
plain: SELECT (i32 NOT IN (7, CAST(s AS INT))) AS v, count(*), count_if(i32 NOT IN (7, CAST(s AS INT))), sum(f64) FILTER (WHERE i32 NOT IN (7, CAST(s AS INT))), count(DISTINCT uid) FILTER (WHERE i32 NOT IN (7, CAST(s AS INT))) FROM t GROUP BY 1

-- The same columns and what is computed of them, under bounds of the question's own.
plain: SELECT sum(i64, contribution_bounds_per_row => (-1.5, 7)), sum(i64, contribution_bounds_per_group => (2, 9)), avg(i64, contribution_bounds_per_row => (0, 1e15)), stddev(i64, contribution_bounds_per_row => (-1e-9, 1e-9)), count(i64, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT i64, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT i64), count(i64), count(*) FROM t
plain: SELECT sum(i32, contribution_bounds_per_row => (-1.5, 7)), sum(i32, contribution_bounds_per_group => (2, 9)), avg(i32, contribution_bounds_per_row => (0, 1e15)), stddev(i32, contribution_bounds_per_row => (-1e-9, 1e-9)), count(i32, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT i32, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT i32), count(i32), count(*) FROM t
plain: SELECT sum(i8, contribution_bounds_per_row => (-1.5, 7)), sum(i8, contribution_bounds_per_group => (2, 9)), avg(i8, contribution_bounds_per_row => (0, 1e15)), stddev(i8, contribution_bounds_per_row => (-1e-9, 1e-9)), count(i8, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT i8, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT i8), count(i8), count(*) FROM t
plain: SELECT sum(u64, contribution_bounds_per_row => (-1.5, 7)), sum(u64, contribution_bounds_per_group => (2, 9)), avg(u64, contribution_bounds_per_row => (0, 1e15)), stddev(u64, contribution_bounds_per_row => (-1e-9, 1e-9)), count(u64, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT u64, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT u64), count(u64), count(*) FROM t
plain: SELECT sum(i128, contribution_bounds_per_row => (-1.5, 7)), sum(i128, contribution_bounds_per_group => (2, 9)), avg(i128, contribution_bounds_per_row => (0, 1e15)), stddev(i128, contribution_bounds_per_row => (-1e-9, 1e-9)), count(i128, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT i128, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT i128), count(i128), count(*) FROM t
plain: SELECT sum(u128, contribution_bounds_per_row => (-1.5, 7)), sum(u128, contribution_bounds_per_group => (2, 9)), avg(u128, contribution_bounds_per_row => (0, 1e15)), stddev(u128, contribution_bounds_per_row => (-1e-9, 1e-9)), count(u128, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT u128, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT u128), count(u128), count(*) FROM t
plain: SELECT sum(f64, contribution_bounds_per_row => (-1.5, 7)), sum(f64, contribution_bounds_per_group => (2, 9)), avg(f64, contribution_bounds_per_row => (0, 1e15)), stddev(f64, contribution_bounds_per_row => (-1e-9, 1e-9)), count(f64, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT f64, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT f64), count(f64), count(*) FROM t
plain: SELECT sum(f32, contribution_bounds_per_row => (-1.5, 7)), sum(f32, contribution_bounds_per_group => (2, 9)), avg(f32, contribution_bounds_per_row => (0, 1e15)), stddev(f32, contribution_bounds_per_row => (-1e-9, 1e-9)), count(f32, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT f32, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT f32), count(f32), count(*) FROM t
plain: SELECT sum(dec18, contribution_bounds_per_row => (-1.5, 7)), sum(dec18, contribution_bounds_per_group => (2, 9)), avg(dec18, contribution_bounds_per_row => (0, 1e15)), stddev(dec18, contribution_bounds_per_row => (-1e-9, 1e-9)), count(dec18, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT dec18, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT dec18), count(dec18), count(*) FROM t
plain: SELECT sum(dec38, contribution_bounds_per_row => (-1.5, 7)), sum(dec38, contribution_bounds_per_group => (2, 9)), avg(dec38, contribution_bounds_per_row => (0, 1e15)), stddev(dec38, contribution_bounds_per_row => (-1e-9, 1e-9)), count(dec38, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT dec38, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT dec38), count(dec38), count(*) FROM t
plain: SELECT sum(s, contribution_bounds_per_row => (-1.5, 7)), sum(s, contribution_bounds_per_group => (2, 9)), avg(s, contribution_bounds_per_row => (0, 1e15)), stddev(s, contribution_bounds_per_row => (-1e-9, 1e-9)), count(s, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT s, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT s), count(s), count(*) FROM t
plain: SELECT sum(d, contribution_bounds_per_row => (-1.5, 7)), sum(d, contribution_bounds_per_group => (2, 9)), avg(d, contribution_bounds_per_row => (0, 1e15)), stddev(d, contribution_bounds_per_row => (-1e-9, 1e-9)), count(d, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT d, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT d), count(d), count(*) FROM t
plain: SELECT sum(ts, contribution_bounds_per_row => (-1.5, 7)), sum(ts, contribution_bounds_per_group => (2, 9)), avg(ts, contribution_bounds_per_row => (0, 1e15)), stddev(ts, contribution_bounds_per_row => (-1e-9, 1e-9)), count(ts, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT ts, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT ts), count(ts), count(*) FROM t
plain: SELECT sum(tz, contribution_bounds_per_row => (-1.5, 7)), sum(tz, contribution_bounds_per_group => (2, 9)), avg(tz, contribution_bounds_per_row => (0, 1e15)), stddev(tz, contribution_bounds_per_row => (-1e-9, 1e-9)), count(tz, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT tz, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT tz), count(tz), count(*) FROM t
plain: SELECT sum(tm, contribution_bounds_per_row => (-1.5, 7)), sum(tm, contribution_bounds_per_group => (2, 9)), avg(tm, contribution_bounds_per_row => (0, 1e15)), stddev(tm, contribution_bounds_per_row => (-1e-9, 1e-9)), count(tm, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT tm, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT tm), count(tm), count(*) FROM t
plain: SELECT sum(b, contribution_bounds_per_row => (-1.5, 7)), sum(b, contribution_bounds_per_group => (2, 9)), avg(b, contribution_bounds_per_row => (0, 1e15)), stddev(b, contribution_bounds_per_row => (-1e-9, 1e-9)), count(b, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT b, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT b), count(b), count(*) FROM t
plain: SELECT sum(iv, contribution_bounds_per_row => (-1.5, 7)), sum(iv, contribution_bounds_per_group => (2, 9)), avg(iv, contribution_bounds_per_row => (0, 1e15)), stddev(iv, contribution_bounds_per_row => (-1e-9, 1e-9)), count(iv, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT iv, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT iv), count(iv), count(*) FROM t
plain: SELECT sum(blob, contribution_bounds_per_row => (-1.5, 7)), sum(blob, contribution_bounds_per_group => (2, 9)), avg(blob, contribution_bounds_per_row => (0, 1e15)), stddev(blob, contribution_bounds_per_row => (-1e-9, 1e-9)), count(blob, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT blob, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT blob), count(blob), count(*) FROM t
plain: SELECT sum(id, contribution_bounds_per_row => (-1.5, 7)), sum(id, contribution_bounds_per_group => (2, 9)), avg(id, contribution_bounds_per_row => (0, 1e15)), stddev(id, contribution_bounds_per_row => (-1e-9, 1e-9)), count(id, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT id, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT id), count(id), count(*) FROM t
plain: SELECT sum(e, contribution_bounds_per_row => (-1.5, 7)), sum(e, contribution_bounds_per_group => (2, 9)), avg(e, contribution_bounds_per_row => (0, 1e15)), stddev(e, contribution_bounds_per_row => (-1e-9, 1e-9)), count(e, contribution_bounds_per_group => (0, 2)) FROM t
plain: SELECT e, count(DISTINCT uid), count(*) FROM t GROUP BY 1
plain: SELECT count(DISTINCT e), count(e), count(*) FROM t
plain: SELECT sum(CAST(s AS DOUBLE), contribution_bounds_per_row => (-3, 3)), avg(CAST(s AS DOUBLE), contribution_bounds_per_row => (-3, 3)), sum(CAST(s AS DOUBLE), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(CAST(s AS INT), contribution_bounds_per_row => (-3, 3)), avg(CAST(s AS INT), contribution_bounds_per_row => (-3, 3)), sum(CAST(s AS INT), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(f64 / f32, contribution_bounds_per_row => (-3, 3)), avg(f64 / f32, contribution_bounds_per_row => (-3, 3)), sum(f64 / f32, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(i32 / i32, contribution_bounds_per_row => (-3, 3)), avg(i32 / i32, contribution_bounds_per_row => (-3, 3)), sum(i32 / i32, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(i64 % i32, contribution_bounds_per_row => (-3, 3)), avg(i64 % i32, contribution_bounds_per_row => (-3, 3)), sum(i64 % i32, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(f64 % f32, contribution_bounds_per_row => (-3, 3)), avg(f64 % f32, contribution_bounds_per_row => (-3, 3)), sum(f64 % f32, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(pow(i64, 0.5), contribution_bounds_per_row => (-3, 3)), avg(pow(i64, 0.5), contribution_bounds_per_row => (-3, 3)), sum(pow(i64, 0.5), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(ln(f64), contribution_bounds_per_row => (-3, 3)), avg(ln(f64), contribution_bounds_per_row => (-3, 3)), sum(ln(f64), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(sqrt(f64), contribution_bounds_per_row => (-3, 3)), avg(sqrt(f64), contribution_bounds_per_row => (-3, 3)), sum(sqrt(f64), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(i64 * i64, contribution_bounds_per_row => (-3, 3)), avg(i64 * i64, contribution_bounds_per_row => (-3, 3)), sum(i64 * i64, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(i128 * i128, contribution_bounds_per_row => (-3, 3)), avg(i128 * i128, contribution_bounds_per_row => (-3, 3)), sum(i128 * i128, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(date_diff('day', d, CAST(ts AS DATE)), contribution_bounds_per_row => (-3, 3)), avg(date_diff('day', d, CAST(ts AS DATE)), contribution_bounds_per_row => (-3, 3)), sum(date_diff('day', d, CAST(ts AS DATE)), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(length(s), contribution_bounds_per_row => (-3, 3)), avg(length(s), contribution_bounds_per_row => (-3, 3)), sum(length(s), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(CAST(f64 AS DECIMAL(4, 1)), contribution_bounds_per_row => (-3, 3)), avg(CAST(f64 AS DECIMAL(4, 1)), contribution_bounds_per_row => (-3, 3)), sum(CAST(f64 AS DECIMAL(4, 1)), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(coalesce(CAST(s AS INT), f64), contribution_bounds_per_row => (-3, 3)), avg(coalesce(CAST(s AS INT), f64), contribution_bounds_per_row => (-3, 3)), sum(coalesce(CAST(s AS INT), f64), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(CASE WHEN CAST(s AS INT) > 1 THEN f64 ELSE i64 END, contribution_bounds_per_row => (-3, 3)), avg(CASE WHEN CAST(s AS INT) > 1 THEN f64 ELSE i64 END, contribution_bounds_per_row => (-3, 3)), sum(CASE WHEN CAST(s AS INT) > 1 THEN f64 ELSE i64 END, contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(nullif(CAST(s AS INT), i32), contribution_bounds_per_row => (-3, 3)), avg(nullif(CAST(s AS INT), i32), contribution_bounds_per_row => (-3, 3)), sum(nullif(CAST(s AS INT), i32), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(abs(i8), contribution_bounds_per_row => (-3, 3)), avg(abs(i8), contribution_bounds_per_row => (-3, 3)), sum(abs(i8), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(d - CAST(ts AS DATE), contribution_bounds_per_row => (-3, 3)), avg(d - CAST(ts AS DATE), contribution_bounds_per_row => (-3, 3)), sum(d - CAST(ts AS DATE), contribution_bounds_per_group => (-3, 3)) FROM t
plain: SELECT sum(i64), avg(i64), sum(i64 * 2 + 1), sum(-i64) FROM t
plain: SELECT sum(i32), avg(i32), sum(i32 * 2 + 1), sum(-i32) FROM t
plain: SELECT sum(i8), avg(i8), sum(i8 * 2 + 1), sum(-i8) FROM t
plain: SELECT sum(u64), avg(u64), sum(u64 * 2 + 1), sum(-u64) FROM t
plain: SELECT sum(i128), avg(i128), sum(i128 * 2 + 1), sum(-i128) FROM t
plain: SELECT sum(u128), avg(u128), sum(u128 * 2 + 1), sum(-u128) FROM t
plain: SELECT sum(f64), avg(f64), sum(f64 * 2 + 1), sum(-f64) FROM t
plain: SELECT sum(f32), avg(f32), sum(f32 * 2 + 1), sum(-f32) FROM t
plain: SELECT sum(dec18), avg(dec18), sum(dec18 * 2 + 1), sum(-dec18) FROM t
plain: SELECT sum(dec38), avg(dec38), sum(dec38 * 2 + 1), sum(-dec38) FROM t
plain: SELECT stddev(i64), var_samp(i64 / 2), avg(abs(i64)) FROM t
plain: SELECT stddev(i32), var_samp(i32 / 2), avg(abs(i32)) FROM t
plain: SELECT stddev(i8), var_samp(i8 / 2), avg(abs(i8)) FROM t
plain: SELECT stddev(u64), var_samp(u64 / 2), avg(abs(u64)) FROM t
plain: SELECT stddev(i128), var_samp(i128 / 2), avg(abs(i128)) FROM t
plain: SELECT stddev(u128), var_samp(u128 / 2), avg(abs(u128)) FROM t
plain: SELECT stddev(f64), var_samp(f64 / 2), avg(abs(f64)) FROM t
plain: SELECT stddev(f32), var_samp(f32 / 2), avg(abs(f32)) FROM t
plain: SELECT stddev(dec18), var_samp(dec18 / 2), avg(abs(dec18)) FROM t
plain: SELECT stddev(dec38), var_samp(dec38 / 2), avg(abs(dec38)) FROM t
plain: SELECT sum(i64 * i64), sum(i64 * i64 + 1) FROM t
plain: SELECT count(CAST(s AS INT) + 1), count(CAST(s AS INT) + 2) FROM t
plain: SELECT CAST(s AS INT) AS a, CAST(s AS INT) + 1 AS b, count(*) FROM t GROUP BY 1, 2
plain: SELECT CAST(s AS INT) AS a, count(*) FROM t WHERE CAST(s AS INT) > 0 GROUP BY 1
plain: SELECT DISTINCT s FROM t
plain: SELECT s, f64, i64, count(*), sum(i32), avg(f64), sum(f64) FROM t GROUP BY 1, 2, 3
plain: SELECT s, count(*), sum(i32), avg(f64) FROM answers GROUP BY s
plain: SELECT count(*), sum(f64), stddev(f64) FROM answers
plain: SELECT d, count(*) FROM answers WHERE i32 * i32 > 5 GROUP BY d ORDER BY 2 DESC LIMIT 3
plain: SELECT i32 % 3, median(f64), count(DISTINCT s) FROM answers GROUP BY 1
plain: SELECT DISTINCT s FROM answers
plain: SELECT count(*) FROM answers, range(3)
plain: SELECT s, count(*) FROM (FROM answers UNION ALL FROM answers) GROUP BY s
plain: SELECT p.k, count(*) FROM parts p JOIN boxes x ON p.a = x.a AND p.b = x.b GROUP BY p.k
plain: SELECT count(*) FROM boxes x LEFT JOIN refunds r ON x.a = r.a AND x.b = r.b WHERE r.k IS NULL
plain: SELECT count(*) FROM boxes x FULL JOIN refunds r USING (a, b)
plain: SELECT count(*) FROM stamps WHERE no NOT IN (SELECT no FROM stamps WHERE k > 1)
plain: SELECT count(*) FROM visits WHERE random() < 0.5
