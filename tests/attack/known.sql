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
