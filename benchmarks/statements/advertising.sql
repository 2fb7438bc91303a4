-- Advertising: CTR, reach, frequency, attribution; GoogleSQL and Snowflake.
-- world: ads

-- answerable
SELECT c.name, COUNT(*) AS impressions, SUM(i.cost) AS spend, SUM(i.cost) / COUNT(*) * 1000 AS cpm FROM impressions i JOIN campaigns c ON c.campaign_id = i.campaign_id GROUP BY c.name;

-- answerable
SELECT i.campaign_id, COUNT(k.click_id) * 100.0 / COUNT(*) AS ctr FROM impressions i LEFT JOIN clicks k ON k.imp_id = i.imp_id GROUP BY i.campaign_id;

-- answerable
SELECT COUNT(DISTINCT k.click_id) / NULLIF(COUNT(DISTINCT i.imp_id), 0)::DOUBLE AS ctr FROM impressions i LEFT JOIN clicks k USING (imp_id) WHERE i.ts >= '2024-03-01' AND i.ts < '2024-04-01';

-- answerable
SELECT freq, COUNT(*) AS users FROM (SELECT user_id, COUNT(*) AS freq FROM impressions WHERE campaign_id = 1 GROUP BY user_id) GROUP BY freq ORDER BY freq;

-- answerable
SELECT CASE WHEN freq >= 10 THEN '10+' ELSE CAST(freq AS VARCHAR) END AS f, COUNT(*) AS reach FROM (SELECT user_id, campaign_id, COUNT(*) AS freq FROM impressions GROUP BY user_id, campaign_id) t GROUP BY 1;

-- answerable
SELECT campaign_id, COUNT(DISTINCT user_id) AS reach, COUNT(*) * 1.0 / COUNT(DISTINCT user_id) AS avg_frequency FROM impressions GROUP BY campaign_id;

-- answerable
WITH touches AS (SELECT v.user_id, v.conversion_id, v.value, i.campaign_id, ROW_NUMBER() OVER (PARTITION BY v.user_id, v.conversion_id ORDER BY i.ts DESC) AS rn FROM conversions v JOIN impressions i ON i.user_id = v.user_id AND i.ts <= v.ts AND i.ts >= v.ts - INTERVAL 7 DAY) SELECT campaign_id, COUNT(*) AS conv, SUM(value) AS revenue FROM touches WHERE rn = 1 GROUP BY campaign_id;

-- answerable
WITH touches AS (SELECT v.user_id, v.conversion_id, v.value, i.campaign_id, COUNT(*) OVER (PARTITION BY v.user_id, v.conversion_id) AS n FROM conversions v JOIN impressions i ON i.user_id = v.user_id AND i.ts < v.ts) SELECT campaign_id, SUM(value / n) AS linear_revenue FROM touches GROUP BY campaign_id;

-- answerable
SELECT campaign_id, SUM(value) FROM conversions WHERE kind = 'sale' GROUP BY campaign_id;

-- answerable
SELECT c.advertiser, SUM(v.value) / NULLIF(SUM(i.cost), 0) AS roas FROM campaigns c JOIN impressions i ON i.campaign_id = c.campaign_id JOIN conversions v ON v.user_id = i.user_id GROUP BY c.advertiser;

-- answerable
WITH s AS (SELECT campaign_id, SUM(cost) AS spend FROM impressions GROUP BY 1), r AS (SELECT campaign_id, SUM(value) AS revenue FROM conversions GROUP BY 1) SELECT c.name, s.spend, r.revenue, r.revenue / NULLIF(s.spend, 0) AS roas, s.spend / c.budget AS pacing FROM campaigns c LEFT JOIN s USING (campaign_id) LEFT JOIN r USING (campaign_id);

-- answerable
SELECT DATE(ts) AS d, device, COUNT(*) FROM impressions WHERE DATE(ts) BETWEEN '2024-03-01' AND '2024-03-07' GROUP BY d, device;

-- answerable
SELECT TIMESTAMP_TRUNC(ts, DAY) AS d, APPROX_COUNT_DISTINCT(user_id) AS uu FROM impressions GROUP BY d;

-- answerable
SELECT EXTRACT(DAYOFWEEK FROM ts) AS dow, COUNT(*) FROM impressions GROUP BY dow;

-- answerable
SELECT FORMAT_TIMESTAMP('%Y-%m-%d', ts) AS day, COUNTIF(viewable) / COUNT(*) AS viewability FROM impressions GROUP BY day;

-- answerable
SELECT FORMAT_DATE('%A', DATE(ts)) AS dayname, COUNT(*) FROM impressions GROUP BY dayname;

-- answerable
SELECT DATE_TRUNC(DATE(ts), WEEK(MONDAY)) AS week, COUNT(*) FROM impressions GROUP BY week;

-- answerable
SELECT NET.HOST(url) AS host, COUNT(*) FROM impressions GROUP BY host;

-- answerable
SELECT REGEXP_EXTRACT(url, r'https?://([^/]+)/') AS host, COUNT(*) AS n FROM impressions GROUP BY host ORDER BY n DESC LIMIT 10;

-- answerable
SELECT split_part(split_part(url, '://', 2), '/', 1) AS host, COUNT(*) FROM impressions GROUP BY 1;

-- answerable
SELECT regexp_extract(url, 'utm_source=([^&]+)', 1) AS utm, COUNT(*) FROM impressions GROUP BY utm;

-- answerable
SELECT SAFE_DIVIDE(COUNTIF(viewable), COUNT(*)) FROM impressions;

-- answerable
SELECT IFNULL(country, '(not set)') AS country, COUNT(*) AS n FROM impressions GROUP BY 1 ORDER BY 2 DESC;

-- answerable
SELECT ANY_VALUE(name), COUNT(*) FROM impressions JOIN campaigns USING (campaign_id) GROUP BY campaign_id;

-- answerable
SELECT device, COUNT(*) AS n FROM impressions WHERE STARTS_WITH(url, 'https') GROUP BY device;

-- answerable
SELECT LOWER(REGEXP_SUBSTR(user_agent, 'Chrome|Firefox|Safari|Opera')) AS browser, COUNT(*) FROM impressions GROUP BY browser;

-- answerable
SELECT CASE WHEN user_agent LIKE '%Firefox%' THEN 'Firefox' WHEN user_agent LIKE '%Chrome%' THEN 'Chrome' ELSE 'Other' END AS browser, COUNT(DISTINCT user_id) FROM impressions GROUP BY browser;

-- answerable
SELECT CASE WHEN CONTAINS(user_agent, 'Mobile') THEN 1 ELSE 0 END AS mob, COUNT(*) FROM impressions GROUP BY mob;

-- answerable
SELECT ts::DATE AS d, COUNT(*) FROM impressions WHERE ts >= DATEADD('day', -7, CURRENT_DATE()) GROUP BY d;

-- answerable
SELECT DATE_PART('hour', ts)::INT AS hr, DECODE(DAYOFWEEK(ts), 0, 'Sun', 6, 'Sat', 'weekday') AS d, COUNT(*) FROM impressions GROUP BY 1, 2;

-- answerable
SELECT TO_VARCHAR(ts, 'YYYY-MM-DD') AS d, COUNT(*) FROM impressions GROUP BY d;

-- answerable
SELECT TO_DATE(ts) AS d, COUNT(*) FROM impressions GROUP BY d;

-- answerable
SELECT TRY_TO_NUMBER(placement) AS p, COUNT(*) FROM impressions GROUP BY p;

-- answerable
SELECT TO_NUMBER(placement) AS p, COUNT(*) FROM impressions GROUP BY p;

-- answerable
SELECT DIV0(SUM(value), COUNT(*)) FROM conversions;

-- answerable
SELECT ZEROIFNULL(SUM(value)) FROM conversions;

-- answerable
SELECT BOOLOR_AGG(viewable) FROM impressions;

-- refused: invalid
SELECT COUNT(*) FROM impressions QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) = 1;

-- answerable
SELECT HLL(user_id) FROM impressions;

-- answerable
SELECT ARRAY_AGG(DISTINCT device) FROM impressions;

-- answerable
SELECT TO_JSON_STRING(device), COUNT(*) FROM impressions GROUP BY 1;

-- answerable
SELECT PARSE_JSON(props):tier::STRING AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT props:tier::STRING AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT JSON_EXTRACT_SCALAR(props, '$.tier') AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT JSON_VALUE(props, '$.tier') AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT GET_JSON_OBJECT(props, '$.tier') AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT props->>'tier' AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT JSON_UNQUOTE(JSON_EXTRACT(props, '$.tier')) AS tier, COUNT(*) FROM profiles GROUP BY tier;

-- answerable
SELECT RANK() OVER (ORDER BY n DESC) AS rank, country, n FROM (SELECT country, COUNT(*) AS n FROM impressions GROUP BY country);

-- answerable
SELECT campaign_id, ts::date - start_date AS day_n, COUNT(*) FROM impressions JOIN campaigns USING (campaign_id) GROUP BY 1, 2;

-- answerable
SELECT AVG(datediff('second', i.ts, k.ts)) AS secs FROM impressions i JOIN clicks k ON k.imp_id = i.imp_id;

-- answerable
SELECT COUNT(*) FROM clicks WHERE x BETWEEN 0 AND 300 AND y < 250;

-- answerable
SELECT FLOOR(x / 100) AS gx, FLOOR(y / 100) AS gy, COUNT(*) FROM clicks GROUP BY gx, gy;

-- answerable
SELECT width_bucket(x, ARRAY[0, 100, 500]) AS b, COUNT(*) FROM clicks GROUP BY b;

-- answerable
SELECT SQRT(x * x + y * y) > 100 AS far, COUNT(*) FROM clicks GROUP BY far;

-- answerable
SELECT COUNT(DISTINCT user_id) FROM impressions WHERE user_id IN (SELECT user_id FROM conversions WHERE kind = 'signup') AND device = 'mobile';

-- answerable
SELECT COUNT(DISTINCT i.user_id) AS exposed, COUNT(DISTINCT v.user_id) AS converted FROM impressions i LEFT JOIN conversions v ON v.user_id = i.user_id AND v.ts > i.ts;

-- answerable
SELECT CASE WHEN MOD(user_id, 2) = 0 THEN 'control' ELSE 'test' END AS arm, AVG(value) FROM conversions GROUP BY arm;

-- answerable
SELECT CASE WHEN MOD(ABS(FARM_FINGERPRINT(CAST(user_id AS STRING))), 2) = 0 THEN 'A' ELSE 'B' END AS arm, COUNT(*) FROM conversions GROUP BY arm;

-- answerable
SELECT COUNT(*) FROM impressions WHERE ts BETWEEN TIMESTAMP('2024-03-01') AND TIMESTAMP('2024-03-31');

-- answerable
SELECT COUNT(*) FROM impressions WHERE DATE_TRUNC('week', ts) = DATE_TRUNC('week', CURRENT_TIMESTAMP);

-- answerable
SELECT APPROX_TOP_COUNT(country, 5) FROM impressions;

-- answerable
SELECT APPROX_TOP_K(country, 5) FROM impressions;

-- refused: rows
SELECT MAX_BY(country, cost) FROM impressions;

-- answerable
SELECT COUNT(*) FROM impressions TABLESAMPLE SYSTEM (10 PERCENT);

-- answerable
SELECT t.d, COUNT(i.imp_id) FROM UNNEST(GENERATE_DATE_ARRAY('2024-03-01', '2024-03-31')) AS t(d) LEFT JOIN impressions i ON DATE(i.ts) = t.d GROUP BY t.d;

-- answerable
SELECT PERCENTILE_CONT(cost, 0.5) OVER () FROM impressions LIMIT 1;

-- refused: names
SELECT COUNT(*) FROM impressions WHERE _PARTITIONDATE = '2024-03-01';

-- answerable
SELECT DATETIME_DIFF(ts, created, DAY) AS age_days, COUNT(*) FROM conversions JOIN profiles USING (user_id) GROUP BY 1;

-- answerable
SELECT HOUR(ts) % 6 AS block, COUNT(*) FROM impressions GROUP BY ALL;

-- answerable
SELECT IF(device = 'mobile', 'm', 'd') d, SUM(cost) s FROM impressions GROUP BY d HAVING s > 10;

-- answerable
SELECT SUM(IF(device = 'mobile', cost, 0)) AS m, SUM(IF(device = 'desktop', cost, 0)) AS d FROM impressions;

-- answerable
SELECT LOG(2, cost + 1) AS l, COUNT(*) FROM impressions GROUP BY l;

-- answerable
SELECT LOG10(cost * 1000 + 1) > 1 AS l, COUNT(*) FROM impressions GROUP BY l;

-- answerable
SELECT LOG(cost) FROM (SELECT AVG(cost) AS cost FROM impressions);

-- answerable
SELECT RANK() OVER (ORDER BY SUM(cost) DESC) AS r, country FROM impressions GROUP BY country;

-- answerable
SELECT country, COUNT(*) AS n FROM impressions GROUP BY country ORDER BY n DESC NULLS LAST FETCH FIRST 5 ROWS ONLY;

-- answerable
SELECT country, COUNT(*) AS n FROM impressions GROUP BY country ORDER BY n DESC OFFSET 5 ROWS FETCH NEXT 5 ROWS ONLY;

-- answerable
SELECT country, n FROM (SELECT country, COUNT(*) AS n FROM impressions GROUP BY country) LIMIT 3, 5;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon=1, delta=1e-8, privacy_unit_column=user_id) device, COUNT(*) AS n FROM impressions GROUP BY device;

-- refused: names
SELECT COUNT(*) FROM impressions WHERE _TABLE_SUFFIX = '20240301';

-- refused: rows
SELECT url FROM impressions WHERE cost > 0.5;
-- answerable
SELECT c.advertiser, DATE_TRUNC('day', i.ts) AS day, COUNT(*) AS imps, COUNT(k.click_id) AS clicks, ROUND(COUNT(k.click_id)::numeric / NULLIF(COUNT(*), 0) * 100, 3) AS ctr_pct FROM impressions i JOIN campaigns c USING (campaign_id) LEFT JOIN clicks k USING (imp_id) GROUP BY 1, 2 ORDER BY 1, 2;
-- answerable
SELECT campaign_id, SUM(cost) AS spent, MAX(budget) AS budget, SUM(cost) / MAX(budget) AS pacing FROM impressions JOIN campaigns USING (campaign_id) GROUP BY campaign_id;
-- answerable
SELECT c.name, SUM(i.cost) / NULLIF(COUNT(DISTINCT v.conversion_id), 0) AS cpa FROM campaigns c JOIN impressions i ON i.campaign_id = c.campaign_id LEFT JOIN conversions v ON v.user_id = i.user_id AND v.campaign_id = i.campaign_id AND v.ts >= i.ts AND v.ts < i.ts + INTERVAL '7 days' GROUP BY c.name;
-- answerable
SELECT CASE WHEN age < 18 THEN '<18' WHEN age BETWEEN 18 AND 24 THEN '18-24' WHEN age BETWEEN 25 AND 34 THEN '25-34' ELSE '35+' END AS bracket, COUNT(DISTINCT i.user_id) AS reach FROM impressions i JOIN profiles p ON p.user_id = i.user_id WHERE i.campaign_id = 3 GROUP BY bracket;
-- answerable
SELECT device, country, COUNT(*) AS imps, RANK() OVER (PARTITION BY device ORDER BY COUNT(*) DESC) AS rk FROM impressions GROUP BY device, country;
-- refused: invalid
WITH first_touch AS (SELECT DISTINCT ON (user_id) user_id, campaign_id FROM impressions ORDER BY user_id, ts) SELECT campaign_id, COUNT(*) AS conversions, SUM(value) AS revenue FROM conversions v JOIN first_touch f USING (user_id) GROUP BY f.campaign_id;
-- answerable
WITH last_click AS (SELECT i.user_id, i.campaign_id, k.ts, ROW_NUMBER() OVER (PARTITION BY i.user_id ORDER BY k.ts DESC) AS rn FROM clicks k JOIN impressions i ON i.imp_id = k.imp_id) SELECT c.name, SUM(v.value) AS revenue FROM last_click l JOIN conversions v ON v.user_id = l.user_id JOIN campaigns c ON c.campaign_id = l.campaign_id WHERE l.rn = 1 GROUP BY c.name;
-- answerable
SELECT LEAST(n, 20) AS frequency, COUNT(*) AS users, SUM(converted) AS converters FROM (SELECT i.user_id, COUNT(*) AS n, MAX(CASE WHEN v.user_id IS NOT NULL THEN 1 ELSE 0 END) AS converted FROM impressions i LEFT JOIN (SELECT DISTINCT user_id FROM conversions) v ON v.user_id = i.user_id GROUP BY i.user_id) t GROUP BY 1 ORDER BY 1;
-- answerable
SELECT regexp_replace(url, '^https?://([^/?]+).*$', '\1') AS domain, COUNT(*) AS imps, AVG(CASE WHEN viewable THEN 1.0 ELSE 0 END) AS viewability FROM impressions GROUP BY domain ORDER BY imps DESC LIMIT 25;
-- answerable
SELECT regexp_extract(url, '[?&]utm_campaign=([^&#]*)', 1) AS utm, COUNT(DISTINCT user_id) AS users FROM impressions WHERE url LIKE '%utm_campaign=%' GROUP BY utm;
-- answerable
SELECT lower(split_part(url, '/', 3)) AS host, SUM(cost) AS spend FROM impressions GROUP BY host HAVING SUM(cost) > 10;
-- answerable
SELECT COUNT(*) FILTER (WHERE viewable AND device = 'mobile') AS m, COUNT(*) FILTER (WHERE viewable AND device = 'desktop') AS d FROM impressions;
-- answerable
SELECT strftime(ts, '%H') AS hour, AVG(cost) * 1000 AS ecpm FROM impressions GROUP BY hour ORDER BY hour;
-- answerable
SELECT interest, COUNT(DISTINCT user_id) AS audience FROM (SELECT user_id, unnest(string_split(interests, ',')) AS interest FROM profiles) GROUP BY interest ORDER BY audience DESC LIMIT 30;
-- answerable
SELECT TRIM(s.value) AS interest, COUNT(*) FROM profiles CROSS APPLY STRING_SPLIT(interests, ',') AS s GROUP BY TRIM(s.value);
-- answerable
SELECT json_extract_string(props, '$.tier') AS tier, AVG(value) AS aov FROM profiles JOIN conversions USING (user_id) GROUP BY 1;
-- answerable
SELECT kind, MEDIAN(value), QUANTILE_CONT(value, 0.9) FROM conversions GROUP BY kind;
-- answerable
SELECT AVG(hours) FROM (SELECT v.user_id, date_diff('hour', MIN(i.ts), MIN(v.ts)) AS hours FROM impressions i JOIN conversions v ON v.user_id = i.user_id GROUP BY v.user_id);
-- answerable
SELECT COUNT(DISTINCT a.user_id) AS overlap FROM impressions a JOIN impressions b ON a.user_id = b.user_id WHERE a.campaign_id = 1 AND b.campaign_id = 2;
-- answerable
SELECT user_id % 100 < 10 AS holdout, COUNT(*) AS buyers, AVG(value) AS avg_value, STDDEV(value) AS sd FROM conversions WHERE kind = 'sale' GROUP BY 1;
-- answerable
SELECT day, SUM(imps) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS rolling7 FROM (SELECT CAST(ts AS DATE) AS day, COUNT(*) AS imps FROM impressions GROUP BY CAST(ts AS DATE)) d ORDER BY day;
-- answerable
SELECT cohort, months, COUNT(DISTINCT user_id) AS active FROM (SELECT p.user_id, date_trunc('month', p.created) AS cohort, date_diff('month', p.created, i.ts) AS months FROM profiles p JOIN impressions i ON i.user_id = p.user_id) GROUP BY cohort, months;
-- answerable
SELECT CASE WHEN user_agent ILIKE '%iphone%' OR user_agent ILIKE '%ipad%' THEN 'iOS' WHEN user_agent ILIKE '%android%' THEN 'Android' ELSE 'Other' END AS os, COUNT(*) FROM impressions GROUP BY 1;
-- answerable
SELECT regexp_extract(user_agent, '(Chrome|Firefox|Safari)/(\d+)', 2)::INT AS major, COUNT(*) FROM impressions GROUP BY major;
-- answerable
SELECT width_bucket(value, 0, 500, 10) AS bucket, COUNT(*) FROM conversions WHERE kind = 'sale' GROUP BY bucket;
-- answerable
SELECT campaign_id, COUNT(*) FROM clicks JOIN impressions USING (imp_id) WHERE clicks.ts - impressions.ts < INTERVAL '1 second' GROUP BY campaign_id;
-- answerable
SELECT i.placement, SUM(i.cost) AS cost, SUM(SUM(i.cost)) OVER () AS total, SUM(i.cost) / SUM(SUM(i.cost)) OVER () AS share FROM impressions i GROUP BY i.placement;
-- answerable
SELECT c.name, COALESCE(x.n, 0) AS conversions FROM campaigns c LEFT JOIN (SELECT campaign_id, COUNT(*) AS n FROM conversions GROUP BY campaign_id) x ON x.campaign_id = c.campaign_id WHERE CURRENT_DATE BETWEEN c.start_date AND c.end_date;
-- answerable
SELECT BIT_COUNT(flags) AS signals, COUNT(*) FROM impressions GROUP BY 1;
-- answerable
SELECT MD5(LOWER(TRIM(country))) AS k, APPROX_COUNT_DISTINCT(user_id) FROM impressions GROUP BY 1;
-- refused: rows
SELECT user_id, SUM(value) AS ltv FROM conversions GROUP BY user_id ORDER BY ltv DESC LIMIT 100;
