SELECT count(*) FROM visits
SELECT COUNT(*) AS n FROM visits
SELECT count(DISTINCT uid) FROM visits
SELECT count(DISTINCT Uid) AS people, count(*) AS total FROM visits
SELECT count(k), count(s), count(x), count(1), count(*) FROM visits
SELECT sum(n), sum(big), sum(amount), sum(x) FROM visits
SELECT avg(n), avg(x), avg(amount) FROM visits
SELECT count(*) FROM visits WHERE k = 3
SELECT count(*) FROM visits WHERE k IS NULL
SELECT count(*) FROM visits WHERE NOT k = 3
SELECT count(*) FROM visits WHERE k <> 3 OR s = 's1' AND x > 2
SELECT count(*) FROM visits WHERE k BETWEEN 2 AND 4 AND s LIKE 's%'
SELECT count(*) FROM visits WHERE k IN (1, 2, NULL)
SELECT count(*) FROM visits WHERE k NOT IN (1, 2)
SELECT count(*) FROM visits WHERE k IS DISTINCT FROM 3
SELECT count(*) FROM visits WHERE k IS NOT DISTINCT FROM n
SELECT count(*) FROM visits WHERE flag
SELECT count(*) FROM visits WHERE flag IS NOT TRUE
SELECT count(*) FROM visits WHERE NOT flag AND d >= '2024-01-20'
SELECT count(*) FROM visits WHERE d BETWEEN DATE '2024-01-05' AND DATE '2024-01-10'
SELECT count(*) FROM visits WHERE ts > TIMESTAMP '2024-01-10 12:00:00'
SELECT count(*) FROM visits WHERE CASE k WHEN 1 THEN n > 3 WHEN 2 THEN flag ELSE FALSE END
SELECT count(*) FROM visits WHERE coalesce(k, 99) > 4
SELECT count(*) FROM visits WHERE n % 3 = 1 AND n // 2 > 1 AND -n < 5 AND abs(n) <> 2
SELECT count(*) FROM visits WHERE x / 2 > 1 AND x * n > 3.5
SELECT count(*) FROM visits WHERE CAST(right(s, 1) AS INT) > 1
SELECT count(*) FROM visits WHERE length(s) = 2 AND upper(s) = 'S1' OR lower(s) || 'x' = 's2x'
SELECT k, count(*) FROM visits GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits GROUP BY k ORDER BY k NULLS FIRST
SELECT k, count(DISTINCT uid) FROM visits GROUP BY 1 ORDER BY 2, 1
SELECT k AS kk, count(*) AS n FROM visits GROUP BY kk ORDER BY n DESC, kk
SELECT k, s, count(*) FROM visits GROUP BY k, s ORDER BY ALL
SELECT k, s, count(*) FROM visits GROUP BY ALL ORDER BY 1, 2
SELECT s, k, count(*) FROM visits GROUP BY 2, 1 ORDER BY 3, 1, 2
SELECT count(*), k FROM visits GROUP BY k ORDER BY 2
SELECT v.k, count(*) FROM visits AS v WHERE v.n > 3 GROUP BY v.k ORDER BY v.k
SELECT visits.k, count(*) FROM visits GROUP BY visits.k ORDER BY 1
SELECT k % 2, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT k + 1 AS next, sum(n) AS total FROM visits GROUP BY k + 1 ORDER BY next
SELECT k * 2 AS a, a + 1 AS b, count(*) FROM visits GROUP BY ALL ORDER BY 1
SELECT k + 1, k + 1 + 1, count(*) FROM visits GROUP BY k + 1 ORDER BY 1
SELECT upper(s) AS name, avg(x) AS mean FROM visits GROUP BY name ORDER BY name
SELECT year(d) AS y, month(d) AS m, count(*) FROM visits GROUP BY y, m ORDER BY y, m
SELECT date_trunc('month', d) AS m, count(*) FROM visits GROUP BY m ORDER BY m
SELECT extract(hour FROM ts) AS h, count(*) FROM visits GROUP BY h ORDER BY h
SELECT CASE WHEN n > 10 THEN 'high' WHEN n > 0 THEN 'low' END AS b, count(*) FROM visits GROUP BY b ORDER BY b
SELECT flag, count(*), sum(n) FROM visits GROUP BY flag ORDER BY flag
SELECT d, count(*) FROM visits GROUP BY d ORDER BY d
SELECT ts, count(*) FROM visits WHERE n = 3 GROUP BY ts ORDER BY ts
SELECT amount, count(*) FROM visits WHERE n < 4 GROUP BY amount ORDER BY amount
SELECT x, count(*) FROM visits GROUP BY x ORDER BY x
SELECT "order", count(*) FROM visits GROUP BY "order" ORDER BY "order"
SELECT k, avg(x), avg(n), sum(x), sum(n), count(*), count(x) FROM visits GROUP BY k ORDER BY k
SELECT k, sum(n * 2 + 1), sum(-n), sum(n - big) FROM visits WHERE k < 4 GROUP BY k ORDER BY k
SELECT k, sum(CASE WHEN s = 's1' THEN n ELSE 0 END) FROM visits GROUP BY k ORDER BY k
SELECT k, count(CASE WHEN n > 5 THEN 1 END) AS high FROM visits GROUP BY k ORDER BY k
SELECT k, count(*) AS n FROM visits GROUP BY k HAVING count(*) > 80 ORDER BY k
SELECT k, count(*) AS m FROM visits GROUP BY k HAVING m > 80 AND sum(n) > 10 ORDER BY k
SELECT k FROM visits GROUP BY k HAVING avg(n) > 6.5 ORDER BY k
SELECT k, count(*) FROM visits GROUP BY k HAVING k > 2 ORDER BY k
SELECT k, count(*) + 1 AS m, 2 * sum(n) - count(*) AS z FROM visits GROUP BY k ORDER BY k
SELECT k, sum(n) / count(*) AS mean, round(100.0 * count(*) / 600, 1) FROM visits GROUP BY k ORDER BY k
SELECT k, CASE WHEN count(*) > 80 THEN 'many' ELSE 'few' END AS size FROM visits GROUP BY k ORDER BY k
SELECT k, count(*) AS n, rank() OVER (ORDER BY count(*) DESC, k) AS r FROM visits GROUP BY k ORDER BY r
SELECT k, count(*), sum(count(*)) OVER () AS total FROM visits GROUP BY k ORDER BY k
SELECT k, sum(count(*)) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING) AS running FROM visits GROUP BY k ORDER BY k
SELECT k, lag(sum(n)) OVER w AS before FROM visits GROUP BY k WINDOW w AS (ORDER BY k) ORDER BY k
SELECT k, count(*) AS m FROM visits GROUP BY k QUALIFY row_number() OVER (ORDER BY m DESC, k) <= 2 ORDER BY k
SELECT k, count(*) AS c FROM visits GROUP BY k ORDER BY c DESC, k LIMIT 3
SELECT k, count(*) AS c FROM visits GROUP BY k ORDER BY c DESC, k LIMIT 2 OFFSET 2
SELECT k, sum(big) FROM visits GROUP BY k ORDER BY 2 DESC, 1 LIMIT 4
SELECT k, count(DISTINCT uid), avg(n) FROM visits GROUP BY k ORDER BY sum(big) DESC, k LIMIT 3
SELECT k FROM visits GROUP BY k ORDER BY count(*) DESC, k LIMIT 1
SELECT k, count(*) AS c FROM visits GROUP BY k ORDER BY k LIMIT 3
SELECT k, count(*) AS c FROM visits GROUP BY k ORDER BY c, k LIMIT 3
SELECT DISTINCT k FROM visits ORDER BY k
SELECT DISTINCT k, s FROM visits WHERE n > 3 ORDER BY k, s
SELECT DISTINCT k + 1 AS a FROM visits ORDER BY a DESC
SELECT k FROM visits GROUP BY k ORDER BY k DESC NULLS LAST
SELECT DISTINCT count(*) > 70 AS large FROM visits GROUP BY k ORDER BY large
WITH t AS (SELECT k, count(*) AS n FROM visits GROUP BY k) SELECT max(n), min(n), sum(n) FROM t
WITH t AS (SELECT k, count(*) AS n FROM visits GROUP BY k), u AS (SELECT * FROM t WHERE n > 80) SELECT count(*) FROM u
WITH visits AS (SELECT k, count(*) AS n FROM visits GROUP BY k) SELECT * FROM visits ORDER BY ALL
SELECT * FROM (SELECT k, sum(n) AS n FROM visits GROUP BY k) WHERE n > 100 ORDER BY k
SELECT t.k % 2 AS odd, sum(t.c) FROM (SELECT k, count(*) AS c FROM visits GROUP BY k) AS t GROUP BY odd ORDER BY odd
SELECT s.name, t.c FROM (SELECT k, count(*) AS c FROM visits GROUP BY k) t JOIN shops s USING (k) ORDER BY s.name
SELECT s.name, coalesce(t.c, 0) AS c FROM shops s LEFT JOIN (SELECT k, count(*) AS c FROM visits WHERE k > 1 GROUP BY k) t ON s.k = t.k ORDER BY 1
SELECT name FROM shops WHERE size < (SELECT avg(n) FROM visits) * 4 ORDER BY name
SELECT name FROM shops WHERE k IN (SELECT k FROM visits GROUP BY k HAVING count(*) > 80) ORDER BY 1
SELECT (SELECT count(*) FROM visits) AS a, (SELECT count(*) FROM mails) AS b
SELECT a.c - b.c AS gap FROM (SELECT count(*) c FROM visits) a, (SELECT count(*) c FROM mails) b
SELECT 'v' AS t, count(*) AS n FROM visits UNION ALL SELECT 'm', count(*) FROM mails ORDER BY 1
SELECT k FROM visits GROUP BY k INTERSECT SELECT k FROM mails GROUP BY k ORDER BY 1
SELECT k FROM visits GROUP BY k EXCEPT SELECT k FROM shops ORDER BY 1
(SELECT count(*) FROM visits)
FROM visits SELECT k, count(*) GROUP BY k ORDER BY k
SELECT k, k, count(*), count(*) FROM visits GROUP BY k ORDER BY 1
SELECT k AS a, s AS a, count(*) FROM visits GROUP BY 1, 2 ORDER BY 1, 2, 3
SELECT count(*) AS "Count of rows", k AS "select" FROM visits GROUP BY k ORDER BY 2
SELECT k, unnest([1, 2]) AS i, count(*) FROM visits GROUP BY k ORDER BY 1, 2
SELECT k, [count(*), sum(n)] AS both FROM visits GROUP BY k ORDER BY k
SELECT c, count(*) FROM visits WHERE c IS NOT NULL GROUP BY c ORDER BY c
SELECT c, avg(n), sum(x) FROM visits WHERE c IN ('red', 'green', 'blue') GROUP BY c ORDER BY c DESC
SELECT k, count(*) FROM visits WHERE s = 'it''s "quoted" -- not a comment' GROUP BY k
SELECT count(*) FILTER (WHERE n > 3), count(s) FILTER (WHERE k > 2), sum(n) FILTER (WHERE flag) FROM visits
SELECT k, count(*) FILTER (WHERE n > 3) AS high, avg(x) FILTER (WHERE x > 0 AND n < 15) AS mean FROM visits GROUP BY k ORDER BY k
SELECT k, count(DISTINCT uid) FILTER (WHERE n > 12), count(DISTINCT uid) FROM visits GROUP BY k ORDER BY k
SELECT k, count(DISTINCT CASE WHEN n > 12 THEN uid END) AS some FROM visits GROUP BY k ORDER BY k
SELECT k, count(DISTINCT CASE WHEN flag THEN CASE WHEN n > 2 THEN uid END END) FILTER (WHERE s = 's1') AS some FROM visits GROUP BY k ORDER BY k
SELECT count(DISTINCT CASE WHEN n > 12 THEN uid END), count(*), sum(n) FROM visits
SELECT k, sum(CASE WHEN flag THEN n END) FILTER (WHERE s = 's1') AS t FROM visits WHERE n > 0 GROUP BY k ORDER BY k
SELECT k, sum(n) FILTER (WHERE CAST(right(s, 1) AS INT) > 1) AS t, count(*) FROM visits GROUP BY k ORDER BY k
SELECT k, sum(n) FILTER (s IS NULL) FROM visits GROUP BY k HAVING count(*) FILTER (WHERE flag) > 20 ORDER BY k
SELECT count_if(n > 3) AS a, count_if(s IS NULL) AS b, count_if(NOT flag) AS c, count_if(flag), countif(flag) FROM visits
SELECT k, count_if(n > 3) FILTER (WHERE flag) AS c FROM visits GROUP BY k ORDER BY c DESC, k LIMIT 3
SELECT sum(flag), sum(n > 3) AS t, sum(CAST(flag AS INT)) AS u FROM visits
SELECT k, count(*) FILTER (WHERE flag) AS c FROM visits GROUP BY k ORDER BY c DESC, k LIMIT 2
SELECT k, sum(count(*)) FILTER (WHERE k > 2) OVER () AS t FROM visits GROUP BY k ORDER BY k
SELECT count(DISTINCT s), count(DISTINCT k), count(DISTINCT x), count(DISTINCT d) FROM visits
SELECT k, count(DISTINCT s) FROM visits GROUP BY k ORDER BY k
SELECT k, count(DISTINCT s) AS a, count(DISTINCT uid) AS b, count(*) AS c, sum(n) AS d, avg(x) AS e FROM visits GROUP BY k ORDER BY k
SELECT count(DISTINCT s), count(DISTINCT n), sum(n), count(*), count(DISTINCT uid) FROM visits WHERE k = 2
SELECT k, count(DISTINCT n) FILTER (WHERE flag) AS a, count(DISTINCT n % 3) AS b FROM visits GROUP BY k ORDER BY k
SELECT k, count(DISTINCT s) AS c FROM visits GROUP BY k ORDER BY c DESC, k LIMIT 3
SELECT k, count(DISTINCT n) AS c, avg(n) FROM visits GROUP BY k ORDER BY c DESC, k LIMIT 4
SELECT c, count(DISTINCT s), sum(n) FROM visits WHERE c IS NOT NULL GROUP BY c ORDER BY c
SELECT count(DISTINCT x) FROM visits WHERE x IS NULL
SELECT var_pop(n), var_samp(n), variance(n), stddev_pop(n), stddev_samp(n), stddev(n) FROM visits
SELECT k, var_pop(x), stddev(x), avg(x), stddev_pop(n) FROM visits GROUP BY k ORDER BY k
SELECT corr(x, n) AS c, covar_pop(x, n) AS p, covar_samp(n, x) AS s, regr_r2(x, n) AS r FROM visits
SELECT k, regr_slope(x, n) AS b, regr_intercept(x, n) AS a, regr_count(x, n) AS c FROM visits GROUP BY k ORDER BY k
SELECT k, regr_avgx(x, n), regr_avgy(x, n), regr_sxx(x, n), regr_syy(x, n), regr_sxy(x, n) FILTER (WHERE flag) AS f FROM visits GROUP BY k ORDER BY k
SELECT k, var_samp(n) FILTER (WHERE flag) AS v, stddev(amount) FROM visits GROUP BY k ORDER BY k
SELECT c, stddev(big), variance(n * 2) FROM visits WHERE c IS NOT NULL GROUP BY c ORDER BY c
SELECT k FROM visits GROUP BY k HAVING stddev(n) > 6.3 ORDER BY k
SELECT k, stddev(n) / avg(n + 10) AS spread FROM visits GROUP BY k ORDER BY k
SELECT sum(n / 2), sum(n // 2), sum(n % 7), sum(abs(n)), sum(x / 3), sum(abs(x)), avg(n / 4) FROM visits
SELECT sum(coalesce(n, 0)), sum(coalesce(x, 1)), sum(nullif(n, 3)) AS a, avg(nullif(n, 3)) AS b, sum(round(x)), sum(round(x, 1)) FROM visits
SELECT sum(floor(x)), sum(ceil(x)), sum(trunc(x)), sum(sign(n)), sum(CAST(x AS INT)) AS i, sum(CAST(n AS DOUBLE)) FROM visits
SELECT sum(month(d)), avg(day(d)), sum(hour(ts)), avg(extract(dow FROM ts)), sum(quarter(d)) FROM visits
SELECT sum(least(greatest(k, 0), 3)), sum(if(flag, n, 0)), sum(n * n), avg(x * x), sum(n ** 2), sum(sqrt(big)) FROM visits
SELECT k, sum(x * (1 - amount / 100)) AS discounted, sum(CASE WHEN flag THEN big ELSE -n END) FROM visits GROUP BY k ORDER BY k
SELECT sum(big + amount * 2 - x) AS t, avg(coalesce(x, n, 0) / 2) AS u FROM visits
SELECT k, count(*) AS n FROM visits GROUP BY k HAVING n > 80 ORDER BY k
SELECT k, count(*) AS n FROM visits GROUP BY k ORDER BY n DESC, k
SELECT k, count(*) AS n FROM visits GROUP BY k HAVING n + 1 > 80 AND sum(n) > n * 2 ORDER BY n, k
SELECT k, sum(n) AS n FROM visits GROUP BY k HAVING n > 10 ORDER BY n DESC LIMIT 3
SELECT k, count(*) AS n FROM visits GROUP BY k HAVING count(*) FILTER (WHERE n > 3) > 20 ORDER BY sum(n), k
SELECT count(*) AS n FROM visits HAVING n > 3
SELECT -k AS k, count(*) AS c FROM visits GROUP BY k HAVING k > 3 ORDER BY k
SELECT -k AS k, count(*) AS c FROM visits GROUP BY k ORDER BY k + 0
SELECT -k AS k, count(*) AS c FROM visits GROUP BY k ORDER BY visits.k DESC
SELECT k % 2 AS k, count(*) AS c FROM visits GROUP BY 1 HAVING k > 0 ORDER BY k
SELECT n % 2 AS n, count(*) AS q FROM visits GROUP BY n % 2 HAVING n % 2 = 1 OR n IS NULL ORDER BY 1
SELECT k, n % 2 AS s, count(*) AS q FROM visits GROUP BY k, 2 HAVING s > 0 ORDER BY k, s
SELECT count(*) AS k FROM visits GROUP BY k HAVING k > 3 ORDER BY k
SELECT s AS k, k AS s, count(*) AS q FROM visits GROUP BY k, s ORDER BY k, s
SELECT k AS a, count(*) AS k FROM visits GROUP BY visits.k ORDER BY k, a
SELECT k % 3 AS r, count(*) FROM visits WHERE r = 1 GROUP BY r ORDER BY r
SELECT year(d) AS y, k AS g, count(*) FROM visits WHERE y = 2024 AND g > 2 GROUP BY y, g ORDER BY y, g
SELECT n AS k, count(*) FROM visits WHERE k > 3 GROUP BY n ORDER BY 1
SELECT upper(s) AS t, k AS u, count(*) FROM visits WHERE t <> 'S1' AND u < 4 GROUP BY t, u ORDER BY t, u
PIVOT visits ON k IN (1, 2, 3) USING count(*) GROUP BY s ORDER BY s
PIVOT visits ON k IN (2, 1) USING sum(n) AS total, count(*) GROUP BY flag ORDER BY flag
PIVOT visits ON s IN ('s1', 's2'), flag USING count(n) GROUP BY d ORDER BY d LIMIT 5
PIVOT (SELECT flag, s, n FROM visits WHERE n > 2) ON flag USING sum(n), count(DISTINCT n) AS different ORDER BY s
PIVOT visits ON k IN (SELECT k FROM shops WHERE k < 3) USING count(n) GROUP BY flag ORDER BY flag
PIVOT visits ON k IN (1, NULL) GROUP BY flag ORDER BY flag
WITH r AS (SELECT * FROM visits WHERE k < 4) PIVOT r ON month(d) IN (1, 2) USING count(*) GROUP BY k ORDER BY k
SELECT * FROM (SELECT s, k, n FROM visits) PIVOT (sum(n), count(*) AS c FOR k IN (1 AS one, 2)) ORDER BY s
SELECT q.a - q.b AS difference, flag FROM visits PIVOT (count(*) FOR s IN ('s1', 's2') GROUP BY flag) AS q(flag, a, b) ORDER BY flag
SELECT one, count(*) FROM visits PIVOT (count(*) FOR k IN (1 AS one, 2 AS two) GROUP BY uid) GROUP BY one ORDER BY one
SELECT name, value, count(*) FROM (UNPIVOT visits ON k, n) GROUP BY name, value ORDER BY name, value
SELECT m, count(*), sum(v), count(DISTINCT uid) FROM visits UNPIVOT INCLUDE NULLS (v FOR m IN (n, x AS 'ex')) GROUP BY m ORDER BY m
SELECT s, m, count(v) FROM (UNPIVOT (SELECT uid, s, k, n FROM visits) ON k AS "K", n INTO NAME m VALUE v) GROUP BY s, m ORDER BY s, m
