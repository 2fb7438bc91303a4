-- Funnels, retention, sessions and experiments, in the words of several systems.
-- world: app

-- answerable
SELECT date_trunc('day', ts) AS day, COUNT(DISTINCT user_id) AS dau FROM events GROUP BY 1 ORDER BY 1;

-- answerable
WITH dau AS (SELECT ts::DATE AS d, COUNT(DISTINCT user_id) AS n FROM events GROUP BY 1), mau AS (SELECT date_trunc('month', ts)::DATE AS m, COUNT(DISTINCT user_id) AS n FROM events GROUP BY 1) SELECT mau.m, AVG(dau.n) / MAX(mau.n) AS stickiness FROM dau JOIN mau ON mau.m = date_trunc('month', dau.d) GROUP BY mau.m ORDER BY 1;

-- answerable
SELECT d.day, COUNT(DISTINCT e.user_id) AS wau FROM generate_series(DATE '2025-05-01', DATE '2025-05-31', INTERVAL 1 DAY) AS d(day) LEFT JOIN events e ON e.ts >= d.day - INTERVAL 6 DAY AND e.ts < d.day + INTERVAL 1 DAY GROUP BY d.day ORDER BY d.day;

-- answerable
WITH f AS (SELECT user_id, MAX(event_name = 'page_view') AS s1, MAX(event_name = 'add_to_cart') AS s2, MAX(event_name = 'purchase') AS s3 FROM events GROUP BY user_id) SELECT COUNT(*) FILTER (WHERE s1), COUNT(*) FILTER (WHERE s1 AND s2), COUNT(*) FILTER (WHERE s1 AND s2 AND s3) FROM f;

-- answerable
WITH a AS (SELECT user_id, MIN(ts) AS t1 FROM events WHERE event_name = 'signup' GROUP BY 1), b AS (SELECT e.user_id, MIN(e.ts) AS t2 FROM events e JOIN a ON a.user_id = e.user_id AND e.ts > a.t1 AND e.ts <= a.t1 + INTERVAL '7 days' WHERE event_name = 'purchase' GROUP BY 1) SELECT COUNT(a.user_id) AS signups, COUNT(b.user_id) AS purchased_within_7d FROM a LEFT JOIN b USING (user_id);

-- answerable
SELECT date_trunc('week', u.signed_up) AS cohort, floor(date_diff('day', u.signed_up, e.ts) / 7) AS week_no, COUNT(DISTINCT e.user_id) AS users FROM users u JOIN events e ON e.user_id = u.user_id WHERE e.ts >= u.signed_up GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
WITH cohort AS (SELECT user_id, date_trunc('month', signed_up) AS m FROM users), act AS (SELECT DISTINCT user_id, date_trunc('month', ts) AS m FROM events), size AS (SELECT m, COUNT(*) AS n FROM cohort GROUP BY m) SELECT c.m, date_diff('month', c.m, a.m) AS k, COUNT(*) AS retained, COUNT(*)::DOUBLE / MAX(s.n) AS rate FROM cohort c JOIN act a USING (user_id) JOIN size s ON s.m = c.m GROUP BY 1, 2;

-- answerable
SELECT COUNT(DISTINCT CASE WHEN e.ts::DATE = u.signed_up::DATE + 1 THEN u.user_id END) * 1.0 / COUNT(DISTINCT u.user_id) AS d1, COUNT(DISTINCT CASE WHEN e.ts::DATE = u.signed_up::DATE + 7 THEN u.user_id END) * 1.0 / COUNT(DISTINCT u.user_id) AS d7 FROM users u LEFT JOIN events e USING (user_id);

-- answerable
WITH x AS (SELECT user_id, ts, CASE WHEN ts - LAG(ts) OVER (PARTITION BY user_id ORDER BY ts) > INTERVAL '30 minutes' OR LAG(ts) OVER (PARTITION BY user_id ORDER BY ts) IS NULL THEN 1 ELSE 0 END AS is_new FROM events) SELECT SUM(is_new) AS sessions FROM x;

-- answerable
WITH x AS (SELECT user_id, ts, CASE WHEN date_diff('minute', LAG(ts) OVER w, ts) <= 30 THEN 0 ELSE 1 END AS s FROM events WINDOW w AS (PARTITION BY user_id ORDER BY ts)), y AS (SELECT user_id, ts, SUM(s) OVER (PARTITION BY user_id ORDER BY ts) AS sid FROM x), z AS (SELECT user_id, sid, COUNT(*) AS n, MAX(ts) - MIN(ts) AS dur FROM y GROUP BY 1, 2) SELECT AVG(n), MEDIAN(n), AVG(epoch(dur)) FROM z;

-- answerable
SELECT device, AVG(date_diff('second', started, ended)) AS avg_s, COUNT(*) FROM sessions WHERE ended IS NOT NULL GROUP BY device;

-- answerable
SELECT device, COUNT(*) FILTER (WHERE n = 1)::FLOAT / COUNT(*) AS bounce_rate FROM (SELECT s.session_id, s.device, COUNT(e.event_id) AS n FROM sessions s LEFT JOIN events e ON e.session_id = s.session_id AND e.user_id = s.user_id GROUP BY s.session_id, s.device, s.user_id) GROUP BY device;

-- answerable
SELECT utm_source, COUNT(DISTINCT s.user_id) AS visitors, COUNT(DISTINCT CASE WHEN e.event_name = 'purchase' THEN e.user_id END) AS buyers FROM sessions s LEFT JOIN events e ON e.user_id = s.user_id AND e.ts >= s.started GROUP BY utm_source;

-- answerable
SELECT c.name, COUNT(DISTINCT s.user_id), c.budget / NULLIF(COUNT(DISTINCT s.user_id), 0) AS cpa FROM campaigns c LEFT JOIN sessions s ON s.utm_campaign = c.utm_campaign AND s.started::DATE BETWEEN c.starts AND c.ends GROUP BY c.name, c.budget;

-- answerable
SELECT t.area, COUNT(*) FROM events e JOIN taxonomy t USING (event_name) WHERE t.is_core GROUP BY t.area;

-- answerable
SELECT t.step, t.event_name, COUNT(DISTINCT e.user_id) AS users FROM taxonomy t LEFT JOIN events e ON e.event_name = t.event_name GROUP BY t.step, t.event_name ORDER BY t.step;

-- answerable
SELECT step, users, users * 1.0 / FIRST_VALUE(users) OVER (ORDER BY step) AS pct_of_first, users * 1.0 / LAG(users) OVER (ORDER BY step) AS pct_of_prev FROM (SELECT t.step, COUNT(DISTINCT e.user_id) AS users FROM events e JOIN taxonomy t ON t.event_name = e.event_name GROUP BY t.step);

-- answerable
SELECT variant, COUNT(DISTINCT a.user_id) AS n, AVG(CASE WHEN p.user_id IS NOT NULL THEN 1.0 ELSE 0 END) AS conv FROM assignments a LEFT JOIN (SELECT DISTINCT user_id FROM events WHERE event_name = 'purchase') p ON p.user_id = a.user_id WHERE experiment = 'checkout_v2' GROUP BY variant;

-- answerable
SELECT a.variant, AVG(r.rev) AS arpu, STDDEV(r.rev) AS sd, COUNT(*) AS n FROM assignments a JOIN (SELECT user_id, SUM(revenue) AS rev FROM events GROUP BY user_id) r ON r.user_id = a.user_id WHERE a.experiment = 'checkout_v2' GROUP BY a.variant;

-- answerable
WITH s AS (SELECT variant, COUNT(*) AS n, SUM(conv) AS c FROM (SELECT a.user_id, a.variant, MAX(CASE WHEN e.event_name = 'purchase' AND e.ts >= a.assigned_at THEN 1 ELSE 0 END) AS conv FROM assignments a LEFT JOIN events e USING (user_id) GROUP BY 1, 2) GROUP BY variant) SELECT t.c / t.n - c.c / c.n AS lift, (t.c / t.n - c.c / c.n) / SQRT((t.c / t.n) * (1 - t.c / t.n) / t.n + (c.c / c.n) * (1 - c.c / c.n) / c.n) AS z FROM s t, s c WHERE t.variant = 'treatment' AND c.variant = 'control';

-- answerable
SELECT split_part(split_part(page_url, '://', 2), '/', 1) AS host, COUNT(*) FROM events GROUP BY host;

-- answerable
SELECT regexp_extract(page_url, 'https?://[^/]+(/[^?]*)', 1) AS path, COUNT(*) AS n FROM events GROUP BY path ORDER BY n DESC LIMIT 20;

-- answerable
SELECT parse_path(page_url)[1] AS p, COUNT(*) FROM events GROUP BY p;

-- answerable
SELECT props->>'$.plan' AS plan, COUNT(*) FROM events WHERE event_name = 'purchase' GROUP BY 1;

-- answerable
SELECT json_extract_string(props, '$.plan') AS plan, SUM(revenue) FROM events GROUP BY 1;

-- answerable
SELECT AVG(CAST(props->>'n' AS INTEGER)) FROM events;

-- answerable
SELECT tag, COUNT(*) FROM (SELECT user_id, UNNEST(tags) AS tag FROM events) GROUP BY tag ORDER BY 2 DESC;

-- answerable
SELECT t.tag, COUNT(DISTINCT e.user_id) FROM events e, UNNEST(e.tags) AS t(tag) GROUP BY t.tag;

-- answerable
SELECT COUNT(*) FROM events WHERE list_contains(tags, 'new');

-- answerable
SELECT len(tags) AS n, COUNT(*) FROM events GROUP BY n;

-- answerable
SELECT array_to_string(tags, ',') AS k, COUNT(*) FROM events GROUP BY k;

-- answerable
SELECT array_to_string(list_sort(tags), ',') AS k, COUNT(*) FROM events GROUP BY k;

-- answerable
SELECT COUNT(*) FROM events WHERE tags && ['new', 'beta'];

-- answerable
SELECT event_name, COUNT(*) FROM events WHERE 'web' = ANY(tags) GROUP BY event_name;

-- answerable
SELECT prev, event_name, COUNT(*) AS n FROM (SELECT event_name, LAG(event_name) OVER (PARTITION BY user_id ORDER BY ts) AS prev FROM events) GROUP BY 1, 2 ORDER BY n DESC LIMIT 25;

-- answerable
SELECT path, COUNT(*) FROM (SELECT session_id, user_id, string_agg(event_name, '>' ORDER BY ts) AS path FROM events GROUP BY session_id, user_id) GROUP BY path ORDER BY 2 DESC LIMIT 10;

-- answerable
SELECT COUNT(*) FROM (SELECT user_id, list(event_name ORDER BY ts) AS seq FROM events GROUP BY user_id) WHERE seq[1] = 'page_view' AND seq[2] = 'signup';

-- answerable
SELECT COUNT(*) FROM (SELECT user_id, string_agg(event_name, ',' ORDER BY ts) AS seq FROM events GROUP BY user_id) WHERE seq LIKE '%add_to_cart%purchase%';

-- answerable
SELECT plan, COUNT(*) AS users, COUNT(*) FILTER (WHERE is_trial) AS trials FROM users GROUP BY plan;

-- answerable
SELECT date_trunc('month', period_start) AS m, SUM(amount) AS mrr, COUNT(DISTINCT user_id) AS payers FROM billing WHERE state = 'paid' GROUP BY 1 ORDER BY 1;

-- answerable
WITH m AS (SELECT user_id, date_trunc('month', period_start) AS mo, SUM(amount) AS mrr FROM billing GROUP BY 1, 2), l AS (SELECT user_id, mo, mrr, LAG(mrr) OVER (PARTITION BY user_id ORDER BY mo) AS prev FROM m) SELECT mo, SUM(CASE WHEN prev IS NULL THEN mrr ELSE 0 END) AS new_mrr, SUM(CASE WHEN mrr > prev THEN mrr - prev ELSE 0 END) AS expansion, SUM(CASE WHEN mrr < prev THEN prev - mrr ELSE 0 END) AS contraction FROM l GROUP BY mo;

-- answerable
SELECT COUNT(DISTINCT b.user_id) * 1.0 / (SELECT COUNT(DISTINCT user_id) FROM billing WHERE period_start = '2025-04-01') AS renewal FROM billing a JOIN billing b ON a.user_id = b.user_id AND a.period_start = '2025-04-01' AND b.period_start = '2025-05-01';

-- answerable
SELECT COUNT(*) FROM billing x WHERE NOT EXISTS (SELECT * FROM billing y WHERE y.user_id = x.user_id AND y.period_start > x.period_start);

-- answerable
SELECT r.version, COUNT(*) FROM events e ASOF JOIN releases r ON e.ts >= r.released_at GROUP BY r.version;

-- answerable
SELECT (SELECT MAX(version) FROM releases r WHERE r.released_at <= e.ts) AS version, COUNT(*) FROM events e GROUP BY 1;

-- answerable
SELECT s.utm_source, COUNT(*) FROM events e ASOF JOIN sessions s ON e.user_id = s.user_id AND e.ts >= s.started WHERE e.event_name = 'purchase' GROUP BY 1;

-- answerable
WITH t AS (SELECT e.event_id, e.revenue, s.utm_source, ROW_NUMBER() OVER (PARTITION BY e.user_id, e.event_id ORDER BY s.started DESC) AS rn FROM events e JOIN sessions s ON s.user_id = e.user_id AND s.started <= e.ts WHERE e.event_name = 'purchase') SELECT utm_source, SUM(revenue) FROM t WHERE rn = 1 GROUP BY utm_source;

-- answerable
WITH touches AS (SELECT e.event_id, e.user_id, e.revenue, s.utm_source, COUNT(*) OVER (PARTITION BY e.user_id, e.event_id) AS k FROM events e JOIN sessions s ON s.user_id = e.user_id AND s.started <= e.ts WHERE e.event_name = 'purchase') SELECT utm_source, SUM(revenue / k) AS linear_attr FROM touches GROUP BY 1;

-- answerable
SELECT HOUR(ts) AS h, COUNT(*) / COUNT(DISTINCT ts::DATE) AS per_day FROM events GROUP BY h ORDER BY h;

-- answerable
SELECT country, os, COUNT(*) FROM users GROUP BY CUBE (country, os);

-- answerable
SELECT time_bucket(INTERVAL '1 hour', ts) AS time, event_name AS metric, COUNT(*) AS value FROM events WHERE ts BETWEEN '2025-06-14T00:00:00Z' AND '2025-06-15T00:00:00Z' GROUP BY 1, 2 ORDER BY 1;

-- answerable
SELECT floor(extract(epoch FROM ts) / 300) * 300 AS time, COUNT(*) AS value FROM events WHERE extract(epoch FROM ts) >= 1748736000 GROUP BY 1 ORDER BY 1;

-- answerable
SELECT to_timestamp(floor(epoch(ts) / 3600) * 3600) AS t, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT toStartOfHour(ts) AS h, uniq(user_id) AS u FROM events GROUP BY h;

-- answerable
SELECT toDate(ts) AS d, count() AS c, countIf(event_name = 'purchase') AS p, sumIf(revenue, event_name = 'purchase') AS rev FROM events GROUP BY d ORDER BY d;

-- answerable
SELECT uniqExact(user_id) FROM events WHERE toYYYYMM(ts) = 202505;

-- answerable
SELECT DATE_TRUNC(DATE(ts), MONTH) AS month, COUNT(DISTINCT user_id) AS mau, SUM(IFNULL(revenue, 0)) AS rev FROM `events` GROUP BY month ORDER BY month;

-- answerable
SELECT FORMAT_TIMESTAMP('%Y-%m', ts) AS month, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT FORMAT_DATE('%Y-%m', DATE(ts)) AS month, COUNTIF(event_name = 'signup') AS signups FROM events GROUP BY month;

-- answerable
SELECT TIMESTAMP_DIFF(ended, started, SECOND) AS s, COUNT(*) FROM sessions GROUP BY 1;

-- answerable
SELECT EXTRACT(ISOWEEK FROM ts) AS w, COUNT(*) FROM events GROUP BY w;

-- answerable
SELECT EXTRACT(DATE FROM ts) AS d, COUNT(*) FROM events GROUP BY d;

-- answerable
SELECT SAFE_DIVIDE(COUNTIF(event_name = 'purchase'), COUNT(DISTINCT session_id)) AS cr FROM events;

-- answerable
SELECT APPROX_TOP_COUNT(event_name, 5) FROM events;

-- answerable
SELECT event_name, COUNT(*) AS c FROM events GROUP BY 1 QUALIFY ROW_NUMBER() OVER (ORDER BY c DESC) <= 3;

-- answerable
SELECT DATEADD('day', -7, ts)::DATE AS shifted, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT DAYNAME(ts), COUNT_IF(revenue > 0), RATIO_TO_REPORT(COUNT(*)) OVER () FROM events GROUP BY 1;

-- answerable
SELECT LISTAGG(DISTINCT event_name, ',') FROM events;

-- answerable
SELECT IFF(revenue > 0, 'paid', 'free') AS k, COUNT(*) FROM events GROUP BY k;

-- answerable
SELECT TOP 10 event_name, COUNT(*) AS n FROM events GROUP BY event_name ORDER BY n DESC;

-- answerable
SELECT CONVERT(DATE, ts) AS d, COUNT(*) AS n FROM events GROUP BY CONVERT(DATE, ts);

-- answerable
SELECT DATEPART(hour, ts) AS h, COUNT(*) FROM events GROUP BY DATEPART(hour, ts);

-- answerable
SELECT YEAR(ts), MONTH(ts), COUNT_BIG(*) FROM events GROUP BY YEAR(ts), MONTH(ts);

-- answerable
SELECT FORMAT(ts, 'yyyy-MM') AS m, COUNT(*) FROM events GROUP BY FORMAT(ts, 'yyyy-MM');

-- answerable
SELECT LEFT(CONVERT(VARCHAR, ts, 120), 7) AS m, COUNT(*) FROM events GROUP BY LEFT(CONVERT(VARCHAR, ts, 120), 7);

-- answerable
SELECT CHARINDEX('/', page_url) AS p, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT LEN(page_url), COUNT(*) FROM events GROUP BY LEN(page_url);

-- answerable
SELECT SUBSTRING_INDEX(page_url, '/', 3) AS site, COUNT(*) FROM events GROUP BY site;

-- answerable
SELECT DATE_FORMAT(ts, '%Y-%m-%d') AS d, COUNT(*) FROM events GROUP BY d;

-- answerable
SELECT YEARWEEK(ts) AS yw, COUNT(*) FROM events GROUP BY yw;

-- answerable
SELECT UNIX_TIMESTAMP(ts) DIV 3600 AS h, COUNT(*) FROM events GROUP BY h;

-- answerable
SELECT FROM_UNIXTIME(UNIX_TIMESTAMP(ts), '%Y') AS y, COUNT(*) FROM events GROUP BY y;

-- answerable
SELECT GROUP_CONCAT(DISTINCT event_name ORDER BY event_name SEPARATOR ', ') FROM events;

-- answerable
SELECT date_format(ts, 'yyyy-MM') AS m, count(*) FROM events GROUP BY 1;

-- answerable
SELECT weekofyear(ts) AS w, count_if(event_name = 'purchase') FROM events GROUP BY w;

-- answerable
SELECT size(tags) AS n, count(1) FROM events GROUP BY n;

-- answerable
SELECT approx_count_distinct(user_id) AS u, percentile_approx(revenue, 0.9) AS p90 FROM events;

-- answerable
SELECT explode(tags) AS tag, count(*) FROM events GROUP BY tag;

-- answerable
SELECT to_char(ts, 'Day') AS d, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT to_char(date_trunc('week', ts), 'IYYY-IW') AS w, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT extract(isodow FROM ts) AS d, count(*) FROM events GROUP BY 1;

-- answerable
SELECT date_part('week', ts)::int AS w, count(*) FROM events GROUP BY w;

-- answerable
SELECT (ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin')::DATE AS local_day, COUNT(*) FROM events GROUP BY 1;

-- answerable
SELECT percentile_disc(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY revenue) FROM events;

-- answerable
SELECT count(*) FILTER (WHERE revenue IS NOT NULL), (count(DISTINCT user_id))::float8 FROM events;

-- answerable
SELECT bool_or(event_name = 'purchase') AS ever, bool_and(revenue IS NULL) FROM events;

-- answerable
SELECT generate_series, COUNT(e.event_id) FROM generate_series(0, 23) LEFT JOIN events e ON hour(e.ts) = generate_series GROUP BY 1;

-- answerable
SELECT n, COUNT(*) FROM (SELECT user_id, COUNT(DISTINCT ts::DATE) AS n FROM events WHERE ts >= '2025-05-01' AND ts < '2025-06-01' GROUP BY user_id) t GROUP BY n ORDER BY n;

-- answerable
SELECT COUNT(*) FROM (SELECT user_id FROM events WHERE ts::DATE BETWEEN '2025-05-01' AND '2025-05-07' GROUP BY user_id HAVING COUNT(DISTINCT ts::DATE) = 7);

-- answerable
SELECT AVG(hours) FROM (SELECT u.user_id, date_diff('hour', u.signed_up, MIN(e.ts)) AS hours FROM users u JOIN events e ON e.user_id = u.user_id AND e.event_name = 'purchase' GROUP BY u.user_id, u.signed_up);

-- refused: unit-keys
SELECT CASE WHEN COUNT(*) >= 10 THEN 'power' WHEN COUNT(*) >= 3 THEN 'regular' ELSE 'casual' END AS tier, user_id FROM events GROUP BY user_id;

-- answerable
SELECT tier, COUNT(*) FROM (SELECT CASE WHEN COUNT(*) >= 10 THEN 'power' WHEN COUNT(*) >= 3 THEN 'regular' ELSE 'casual' END AS tier FROM events GROUP BY user_id) GROUP BY tier;

-- answerable
SELECT COUNT(*) FROM events e1 WHERE e1.event_name = 'checkout' AND NOT EXISTS (SELECT 1 FROM events e2 WHERE e2.session_id = e1.session_id AND e2.user_id = e1.user_id AND e2.event_name = 'purchase');

-- answerable
SELECT COUNT(DISTINCT user_id) FROM events WHERE event_name = 'add_to_cart' AND user_id NOT IN (SELECT user_id FROM events WHERE event_name = 'purchase');

-- answerable
SELECT AVG(pages) FROM (SELECT session_id, COUNT(*) FILTER (WHERE event_name = 'page_view') AS pages FROM events GROUP BY session_id);

-- answerable
SELECT entry, COUNT(*) FROM (SELECT DISTINCT user_id, session_id, FIRST_VALUE(page_url) OVER (PARTITION BY user_id, session_id ORDER BY ts) AS entry FROM events) GROUP BY entry ORDER BY 2 DESC LIMIT 5;

-- answerable
SELECT exit_page, COUNT(*) FROM (SELECT user_id, session_id, LAST_VALUE(page_url) OVER (PARTITION BY user_id, session_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS exit_page FROM events) GROUP BY exit_page;

-- answerable
SELECT COUNT(*) FROM (SELECT user_id, SUM(revenue) OVER (PARTITION BY user_id ORDER BY ts ROWS UNBOUNDED PRECEDING) AS running FROM events) WHERE running >= 100;

-- answerable
SELECT AVG(prev7) FROM (SELECT user_id, ts, COUNT(*) OVER (PARTITION BY user_id ORDER BY ts RANGE BETWEEN INTERVAL '7' DAY PRECEDING AND INTERVAL '1' SECOND PRECEDING) AS prev7 FROM events WHERE event_name = 'purchase');

-- answerable
SELECT AVG(n) FROM (SELECT COUNT(*) OVER (PARTITION BY user_id ORDER BY ts::DATE RANGE BETWEEN 29 PRECEDING AND CURRENT ROW) AS n FROM events);

-- answerable
SELECT COUNT(*) FROM (SELECT user_id, LAG(ts, 2) OVER (PARTITION BY user_id ORDER BY ts) AS two_ago, ts FROM events) WHERE date_diff('minute', two_ago, ts) < 5;

-- answerable
SELECT AVG(gap) FROM (SELECT COALESCE(date_diff('day', LAG(started, 1, started) OVER (PARTITION BY user_id ORDER BY started), started), 0) AS gap FROM sessions);

-- answerable
SELECT AVG(x) FROM (SELECT LAST_VALUE(revenue IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY ts) AS x FROM events);

-- answerable
SELECT AVG(pr) FROM (SELECT PERCENT_RANK() OVER (PARTITION BY user_id ORDER BY revenue) AS pr FROM events);

-- answerable
SELECT COUNT(*) FROM (SELECT CUME_DIST() OVER (PARTITION BY user_id ORDER BY ts) AS cd, event_name FROM events) WHERE cd > 0.9 AND event_name = 'purchase';

-- answerable
SELECT second_event, COUNT(*) FROM (SELECT user_id, NTH_VALUE(event_name, 2) OVER (PARTITION BY user_id ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second_event FROM events) GROUP BY second_event;

-- answerable
SELECT AVG(epoch(ended - started)) FROM sessions;

-- answerable
SELECT COUNT(*) FROM sessions a JOIN sessions b ON a.user_id = b.user_id AND a.session_id < b.session_id AND a.started < b.ended AND b.started < a.ended;

-- answerable
SELECT SUM(CASE WHEN event_name = 'purchase' THEN 1 ELSE 0 END) * 1.0 / NULLIF(SUM(CASE WHEN event_name = 'checkout' THEN 1 ELSE 0 END), 0) FROM events;

-- answerable
WITH RECURSIVE days AS (SELECT DATE '2025-06-01' AS d UNION ALL SELECT d + 1 FROM days WHERE d < DATE '2025-06-14') SELECT days.d, COUNT(e.event_id) FROM days LEFT JOIN events e ON e.ts::DATE = days.d GROUP BY days.d;

-- answerable
SELECT country, plan, COUNT(*) FROM users WHERE signed_up > (SELECT MAX(released_at) FROM releases) GROUP BY ALL;

-- answerable
FROM events SELECT event_name, count() GROUP BY ALL ORDER BY ALL;

-- answerable
PIVOT (SELECT event_name, ts::DATE AS d FROM events) ON event_name IN ('signup', 'purchase') USING COUNT(*) GROUP BY d;

-- answerable
SELECT COUNT(*) FROM users WHERE user_id ^@ 'u1';

-- answerable
SELECT os, COUNT(*) FROM users WHERE os SIMILAR TO '(ios|android)%' GROUP BY os;

-- answerable
SELECT substring(user_id FROM 1 FOR 2) AS shard, COUNT(*) FROM users GROUP BY shard;

-- answerable
SELECT CASE WHEN referrer ~* 'google|bing' THEN 'search' WHEN referrer IN ('facebook', 'twitter') THEN 'social' WHEN referrer IS NULL THEN 'direct' ELSE 'other' END AS ch, COUNT(*) FROM users GROUP BY ch;

-- answerable
SELECT MAX(d) FROM (SELECT ts::DATE AS d, COUNT(DISTINCT user_id) AS n FROM events GROUP BY 1 HAVING COUNT(DISTINCT user_id) > 5);

-- answerable
SELECT event_name, corr(hour(ts), revenue) FROM events GROUP BY event_name;

-- answerable
SELECT SUM(revenue) / COUNT(DISTINCT user_id) AS arppu FROM events WHERE revenue > 0;

-- answerable
SELECT week, users, SUM(users) OVER (ORDER BY week) FROM (SELECT date_trunc('week', first_seen) AS week, COUNT(*) AS users FROM (SELECT user_id, MIN(ts) AS first_seen FROM events GROUP BY user_id) GROUP BY 1);

-- answerable
SELECT status, COUNT(*) FROM (SELECT u.user_id, CASE WHEN MAX(e.ts) >= TIMESTAMP '2025-06-01' THEN 'active' WHEN MAX(e.ts) IS NULL THEN 'never' ELSE 'dormant' END AS status FROM users u LEFT JOIN events e ON e.user_id = u.user_id GROUP BY u.user_id) GROUP BY status;

-- answerable
SELECT tag, COUNT(*) AS n, COUNT(DISTINCT e.user_id) AS users FROM events e CROSS JOIN UNNEST(e.tags) AS t(tag) JOIN taxonomy x ON x.event_name = t.tag GROUP BY tag;
