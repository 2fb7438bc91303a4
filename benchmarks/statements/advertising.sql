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

-- answerable
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

