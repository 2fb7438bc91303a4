-- Telecom: churn, ARPU, usage, tickets; ClickHouse, MySQL, Grafana.
-- world: telco

-- answerable
SELECT Contract, COUNT(*) AS customers, SUM(CASE WHEN Churn = 'Yes' THEN 1 ELSE 0 END) AS churned, ROUND(SUM(CASE WHEN Churn = 'Yes' THEN 1 ELSE 0 END) * 100.0 / COUNT(*), 2) AS churn_rate FROM subscribers GROUP BY Contract ORDER BY churn_rate DESC;

-- answerable
SELECT AVG(CASE WHEN churn = 'Yes' THEN 1.0 ELSE 0.0 END) AS churn_rate FROM subscribers;

-- answerable
SELECT CASE WHEN tenure <= 12 THEN '0-1 yr' WHEN tenure <= 24 THEN '1-2 yr' WHEN tenure <= 48 THEN '2-4 yr' ELSE '4+ yr' END AS tenure_band, AVG(monthly_charges) AS arpu, COUNT(*) FROM subscribers GROUP BY 1;

-- answerable
SELECT p.family, SUM(i.amount) / COUNT(DISTINCT i.subscriber_id) AS arpu FROM invoices i JOIN subscribers s ON s.subscriber_id = i.subscriber_id JOIN plans p ON p.plan_id = s.plan_id WHERE i.issued >= '2024-01-01' AND i.issued < '2024-02-01' GROUP BY p.family;

-- answerable
SELECT DATE_TRUNC('month', issued) AS month, SUM(amount) AS revenue, COUNT(DISTINCT subscriber_id) AS subs, SUM(amount) / NULLIF(COUNT(DISTINCT subscriber_id), 0) AS arpu FROM invoices GROUP BY 1 ORDER BY 1;

-- answerable
SELECT c.city, SUM(d.bytes) / 1024 / 1024 / 1024 AS gb FROM cdrs d JOIN cells c ON d.cell_id = c.cell_id WHERE d.kind = 'data' GROUP BY c.city;

-- answerable
SELECT SUM(bytes) / POWER(1024, 3) AS gb, SUM(seconds) / 60.0 AS minutes FROM cdrs WHERE started >= NOW() - INTERVAL '30 days';

-- answerable
SELECT EXTRACT(HOUR FROM started) AS hour, COUNT(*) AS calls, AVG(seconds) AS acd FROM cdrs WHERE kind = 'voice' AND seconds > 0 GROUP BY 1 ORDER BY calls DESC;

-- answerable
SELECT COUNT(*) FILTER (WHERE seconds > 0) * 1.0 / COUNT(*) AS asr FROM cdrs WHERE kind = 'voice';

-- answerable
SELECT d.cell_id, COUNT(*) AS calls FROM cdrs d GROUP BY d.cell_id ORDER BY calls DESC LIMIT 5;

-- answerable
SELECT c.site, COUNT(DISTINCT d.subscriber_id) AS users FROM cells c LEFT JOIN cdrs d ON d.cell_id = c.cell_id GROUP BY c.site;

-- answerable
SELECT CASE WHEN CURRENT_DATE - due BETWEEN 1 AND 30 THEN '1-30' WHEN CURRENT_DATE - due BETWEEN 31 AND 60 THEN '31-60' WHEN CURRENT_DATE - due > 60 THEN '60+' ELSE 'not due' END AS bucket, SUM(amount) FROM invoices WHERE status = 'open' GROUP BY bucket;

-- answerable
SELECT SUM(CASE WHEN DATEDIFF(CURDATE(), due) BETWEEN 0 AND 30 THEN amount ELSE 0 END) AS d0_30, SUM(CASE WHEN DATEDIFF(CURDATE(), due) > 30 THEN amount ELSE 0 END) AS d30plus FROM invoices WHERE paid IS NULL;

-- answerable
SELECT COUNT(DISTINCT subscriber_id) FROM subscribers WHERE activated <= '2024-01-31' AND (churned IS NULL OR churned > '2024-01-31');

-- answerable
SELECT m.month, COUNT(s.subscriber_id) AS active FROM generate_series(DATE '2024-01-01', DATE '2024-06-01', INTERVAL 1 MONTH) AS m(month) LEFT JOIN subscribers s ON s.activated <= m.month AND (s.churned IS NULL OR s.churned > m.month) GROUP BY m.month ORDER BY m.month;

-- answerable
WITH RECURSIVE months AS (SELECT DATE '2024-01-01' AS m UNION ALL SELECT CAST(m + INTERVAL 1 MONTH AS DATE) FROM months WHERE m < DATE '2024-12-01') SELECT months.m, COUNT(s.subscriber_id) FROM months LEFT JOIN subscribers s ON date_trunc('month', s.churned) = months.m GROUP BY months.m;

-- answerable
WITH usage AS (SELECT subscriber_id, date_trunc('month', started) AS m, SUM(bytes) AS b FROM cdrs GROUP BY 1, 2) SELECT m, AVG(b / 1e9) AS avg_gb, MEDIAN(b / 1e9) AS med_gb FROM usage GROUP BY m ORDER BY m;

-- answerable
WITH usage AS (SELECT subscriber_id, SUM(bytes) AS b FROM cdrs GROUP BY 1) SELECT COUNT(*) FROM usage u JOIN subscribers s USING (subscriber_id) JOIN plans p USING (plan_id) WHERE u.b > p.allowance * 1000000;

-- answerable
SELECT AVG(csat), COUNT(csat), SUM(CASE WHEN csat >= 4 THEN 1 ELSE 0 END) * 100.0 / COUNT(csat) AS csat_pct FROM tickets;

-- answerable
SELECT reason, AVG(EXTRACT(EPOCH FROM (closed - opened)) / 3600) AS hours_to_close FROM tickets WHERE closed IS NOT NULL GROUP BY reason;

-- answerable
SELECT reason, AVG(TIMESTAMPDIFF(HOUR, opened, closed)) AS hours FROM tickets GROUP BY reason;

-- answerable
SELECT reason, AVG(TIMESTAMP_DIFF(closed, opened, MINUTE)) FROM tickets GROUP BY reason;

-- answerable
SELECT AVG(DATEDIFF(minute, opened, closed)) FROM tickets;

-- answerable
SELECT reason, AVG(dateDiff('hour', opened, closed)) FROM tickets GROUP BY reason;

-- answerable
SELECT COUNT(*) FROM tickets WHERE flags & 4 > 0;

-- answerable
SELECT COUNT(*) FROM tickets WHERE bitAnd(flags, 4) != 0;

-- answerable
SELECT COUNT(*) FROM tickets WHERE BIT_AND(flags, 4) <> 0;

-- answerable
SELECT COUNT(*) FROM tickets WHERE FIND_IN_SET('vip', tags) > 0;

-- answerable
SELECT COUNT(*) FROM tickets WHERE has(splitByChar(',', tags), 'vip');

-- answerable
SELECT COUNT(*) FROM tickets WHERE 'vip' = ANY(string_to_array(tags, ','));

-- answerable
SELECT COUNT(*) FROM tickets WHERE ARRAY_CONTAINS(SPLIT(tags, ','), 'vip');

-- answerable
SELECT COUNT(*) FROM tickets WHERE ',' || tags || ',' LIKE '%,vip,%';

-- answerable
SELECT toStartOfDay(started) AS d, count() AS calls, uniq(subscriber_id) AS subs FROM cdrs GROUP BY d ORDER BY d;

-- answerable
SELECT toStartOfInterval(started, INTERVAL 15 minute) AS t, count() FROM cdrs GROUP BY t ORDER BY t;

-- answerable
SELECT toStartOfFiveMinutes(started) AS t, count() FROM cdrs GROUP BY t;

-- answerable
SELECT countIf(roaming) / count() AS share, sumIf(bytes, roaming) AS roam_bytes FROM cdrs;

-- answerable
SELECT kind, quantile(0.95)(seconds) FROM cdrs GROUP BY kind;

-- answerable
SELECT kind, quantiles(0.5, 0.9)(seconds) FROM cdrs GROUP BY kind;

-- answerable
SELECT kind, topK(3)(cell_id) FROM cdrs GROUP BY kind;

-- answerable
SELECT multiIf(seconds = 0, 'failed', seconds < 60, 'short', 'long') AS len, count() FROM cdrs GROUP BY len;

-- answerable
SELECT formatDateTime(started, '%Y-%m') AS ym, count() FROM cdrs GROUP BY ym;

-- answerable
SELECT toUInt8(senior) AS s, count() FROM subscribers GROUP BY s;

-- answerable
SELECT if(empty(internet), 'none', internet) AS i, count() FROM subscribers GROUP BY i;

-- answerable
SELECT intDiv(tenure, 12) AS years, avg(monthly_charges) FROM subscribers GROUP BY years ORDER BY years;

-- answerable
SELECT avgIf(monthly_charges, churn = 'Yes') - avgIf(monthly_charges, churn = 'No') FROM subscribers;

-- answerable
SELECT senior, partner, internet, count(*) AS n, sum(case when churn = 'Yes' then 1 else 0 end) AS lost FROM subscribers GROUP BY CUBE (senior, partner, internet);

-- answerable
SELECT senior, partner, COUNT(*) AS n FROM subscribers GROUP BY ROLLUP(senior, partner) ORDER BY senior, partner;

-- answerable
SELECT payment, COUNT(*) FROM subscribers WHERE total_charges > (SELECT AVG(total_charges) FROM subscribers) GROUP BY payment;

-- answerable
SELECT CORR(tenure, monthly_charges), CORR(tenure, total_charges) FROM subscribers;

-- answerable
SELECT COUNT(*) FROM subscribers s WHERE NOT EXISTS (SELECT * FROM invoices i WHERE i.subscriber_id = s.subscriber_id AND i.status = 'open');

-- answerable
SELECT s.city, COUNT(DISTINCT t.subscriber_id)::FLOAT / COUNT(DISTINCT s.subscriber_id) AS contact_rate FROM subscribers s LEFT JOIN tickets t ON s.subscriber_id = t.subscriber_id GROUP BY s.city;

-- answerable
SELECT time_bucket('1 hour', started) AS t, SUM(seconds) FROM cdrs GROUP BY t ORDER BY t;

-- refused: invalid
SELECT $__timeGroup(started, '1h') FROM cdrs;

-- answerable
SELECT date_bin('15 minutes', started, TIMESTAMP '2001-01-01') AS t, COUNT(*) FROM cdrs GROUP BY 1;

-- answerable
SELECT floor(extract(epoch from started)/300)*300 AS "time", count(*) AS "value" FROM cdrs WHERE started BETWEEN '2024-05-01T00:00:00Z' AND '2024-05-02T00:00:00Z' GROUP BY 1 ORDER BY 1;

-- answerable
SELECT to_timestamp(floor(extract(epoch from started)/300)*300) AS "time", count(*) AS "value" FROM cdrs GROUP BY 1 ORDER BY 1;

-- answerable
SELECT UNIX_TIMESTAMP(started) DIV 300 * 300 AS time_sec, COUNT(*) AS value FROM cdrs GROUP BY 1 ORDER BY 1;

-- answerable
SELECT date_trunc('hour', started) AS time, kind AS metric, count(*) AS value FROM cdrs WHERE started >= '2024-05-01 00:00:00' AND started < '2024-05-08 00:00:00' GROUP BY time, metric ORDER BY time;

-- answerable
WITH w AS (SELECT subscriber_id, started, LAG(started) OVER (PARTITION BY subscriber_id ORDER BY started) AS prev FROM cdrs) SELECT COUNT(*) FROM w WHERE prev IS NULL OR started - prev > INTERVAL '30 minutes';

-- answerable
SELECT COUNT(*) FROM cdrs c JOIN cdrs n ON c.subscriber_id = n.subscriber_id AND n.started > c.started AND n.started <= c.started + INTERVAL 1 HOUR WHERE c.seconds = 0;

-- answerable
SELECT churn, ROUND(AVG(monthly_charges)::numeric, 2), ROUND(STDDEV(monthly_charges)::numeric, 2) FROM subscribers GROUP BY churn;

-- answerable
SELECT ntile, AVG(c) FROM (SELECT plan_id, NTILE(4) OVER (ORDER BY COUNT(*) DESC) AS ntile, COUNT(*) AS c FROM subscribers GROUP BY plan_id) GROUP BY ntile;

-- answerable
SELECT plan_id, SUM(amount) FROM invoices NATURAL JOIN subscribers GROUP BY plan_id;

-- answerable
SELECT COUNT(*) FROM subscribers WHERE activated BETWEEN DATE_SUB(CURDATE(), INTERVAL 1 YEAR) AND CURDATE();

-- answerable
SELECT COUNT(*) FROM subscribers WHERE PERIOD_DIFF(DATE_FORMAT(CURDATE(), '%Y%m'), DATE_FORMAT(activated, '%Y%m')) > 12;

-- answerable
SELECT TIMESTAMPDIFF(MONTH, activated, churned) AS life, COUNT(*) FROM subscribers WHERE churned IS NOT NULL GROUP BY life;

-- answerable
SELECT DATE_ADD(activated, INTERVAL 1 MONTH) AS renewal, COUNT(*) FROM subscribers GROUP BY 1;

-- refused: unit-keys
SELECT subscriber_id, COUNT(*) FROM tickets GROUP BY subscriber_id HAVING COUNT(*) > 3;

-- refused: rows
SELECT * FROM subscribers WHERE churn = 'Yes' LIMIT 100;

