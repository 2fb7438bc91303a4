-- Shipments and sensors: lanes, delays, dwell times, readings, flags.
-- world: freight

-- answerable
SELECT c.name, COUNT(*) AS shipments, AVG(s.cost) AS avg_cost, SUM(s.weight) / 1000.0 AS tonnes FROM shipments s JOIN carriers c USING (carrier_id) GROUP BY c.name;

-- answerable
SELECT carrier_id, 100.0 * SUM(CASE WHEN CAST(delivered AS DATE) <= promised THEN 1 ELSE 0 END) / COUNT(*) AS otd FROM shipments WHERE delivered IS NOT NULL GROUP BY carrier_id;

-- answerable
SELECT origin || ' → ' || destination AS lane, COUNT(*) AS n FROM shipments GROUP BY lane ORDER BY n DESC LIMIT 10;

-- answerable
SELECT CONCAT_WS('-', origin, destination) AS lane, AVG(DATE_DIFF('hour', shipped, delivered)) AS hours FROM shipments GROUP BY 1;

-- answerable
SELECT CASE WHEN delivered::DATE > promised THEN 'late' WHEN delivered IS NULL AND promised < CURRENT_DATE THEN 'overdue' WHEN delivered IS NULL THEN 'open' ELSE 'on time' END AS sla, COUNT(*) FROM shipments GROUP BY sla;

-- answerable
SELECT date_trunc('week', shipped)::date AS wk, COUNT(*), SUM(cost) FROM shipments GROUP BY wk ORDER BY wk;

-- answerable
SELECT LEAST(DATE_DIFF('day', promised, CAST(delivered AS DATE)), 10) AS days_late, COUNT(*) FROM shipments WHERE delivered > promised GROUP BY days_late;

-- answerable
SELECT QUANTILE_CONT(LEAST(GREATEST(DATE_DIFF('hour', shipped, delivered), 0), 1000), 0.95) FROM shipments;

-- answerable
SELECT AVG(EXTRACT(EPOCH FROM delivered - shipped)) / 3600 FROM shipments;

-- answerable
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY EXTRACT(EPOCH FROM delivered - shipped) / 86400) AS p90_days FROM shipments;

-- answerable
SELECT h.city, COUNT(*) FROM scans s JOIN hubs h ON h.hub_id = s.hub_id WHERE s.event = 'in' GROUP BY h.city;

-- answerable
WITH dwell AS (SELECT shipment_id, hub_id, MAX(ts) - MIN(ts) AS d FROM scans GROUP BY shipment_id, hub_id) SELECT hub_id, AVG(EXTRACT(EPOCH FROM d) / 3600.0) AS hours FROM dwell GROUP BY hub_id;

-- answerable
WITH dwell AS (SELECT shipment_id, hub_id, date_diff('minute', MIN(ts) FILTER (WHERE event = 'in'), MAX(ts) FILTER (WHERE event = 'out')) AS m FROM scans GROUP BY 1, 2) SELECT hub_id, MEDIAN(LEAST(m, 2000)) FROM dwell WHERE m >= 0 GROUP BY hub_id;

-- answerable
SELECT n, COUNT(*) FROM (SELECT shipment_id, COUNT(*) AS n FROM scans GROUP BY shipment_id) GROUP BY n;

-- answerable
WITH s AS (SELECT shipment_id, event, LEAD(event) OVER (PARTITION BY shipment_id ORDER BY ts) AS nxt FROM scans) SELECT event, nxt, COUNT(*) FROM s GROUP BY event, nxt;

-- answerable
SELECT COUNT(*) FROM shipments s WHERE NOT EXISTS (SELECT 1 FROM scans c WHERE c.shipment_id = s.shipment_id);

-- answerable
SELECT UPPER(LEFT(tracking, 2)) AS prefix, COUNT(*) FROM shipments GROUP BY 1;

-- answerable
SELECT TRY_CAST(SPLIT_PART(tracking, '-', 2) AS INTEGER) % 10 AS d, COUNT(*) FROM shipments GROUP BY d;

-- answerable
SELECT COUNT(*) FROM shipments WHERE tracking SIMILAR TO '(SW|HU)-[0-9]+';

-- answerable
SELECT COUNT(*) FROM shipments WHERE tracking LIKE 'SW\_%' ESCAPE '\';

-- answerable
SELECT COUNT(*) FROM shipments WHERE tags LIKE '%fragile%' OR tags LIKE '%cold%';

-- answerable
SELECT COUNT(*) FROM shipments WHERE tags LIKE ANY ('%fragile%', '%cold%');

-- answerable
SELECT COUNT(*) FROM shipments WHERE list_contains(string_split(tags, ','), 'fragile');

-- answerable
SELECT COUNT(*) FROM shipments WHERE 'cold' IN (SELECT UNNEST(string_split(tags, ',')));

-- answerable
SELECT len(string_split(tags, ',')) AS n_tags, COUNT(*) FROM shipments GROUP BY n_tags;

-- answerable
SELECT CASE priority WHEN 1 THEN 'express' WHEN 2 THEN 'fast' ELSE 'standard' END AS p, SUM(cost), AVG(cost) FROM shipments GROUP BY p ORDER BY p;

-- answerable
SELECT width_bucket(weight, 0, 1000, 20) * 50 AS w, COUNT(*) FROM shipments GROUP BY w;

-- answerable
SELECT ROUND(weight, -2) AS w, COUNT(*) FROM shipments GROUP BY w;

-- answerable
SELECT ROUND(cost / NULLIF(weight, 0), 2) AS per_kg, COUNT(*) FROM shipments GROUP BY per_kg;

-- answerable
SELECT SUM(cost) FILTER (WHERE status = 'lost') / SUM(cost) AS lost_share FROM shipments;

-- answerable
SELECT COUNT(*) FROM shipments WHERE shipped::TIME >= TIME '18:00' OR shipped::TIME < TIME '06:00';

-- answerable
SELECT COUNT(*) FROM shipments WHERE EXTRACT(ISODOW FROM shipped) IN (6, 7);

-- answerable
SELECT EXTRACT(WEEK FROM shipped) AS wk, EXTRACT(ISOYEAR FROM shipped) AS y, COUNT(*) FROM shipments GROUP BY 1, 2;

-- answerable
SELECT TO_CHAR(shipped, 'IYYY-IW') AS isoweek, COUNT(*) FROM shipments GROUP BY 1;

-- answerable
SELECT TO_CHAR(shipped, 'Day') AS d, COUNT(*) FROM shipments GROUP BY 1;

-- answerable
SELECT TO_CHAR(shipped, 'Mon YYYY') AS m, COUNT(*) FROM shipments GROUP BY 1;

-- answerable
SELECT TO_CHAR(shipped, 'HH24:MI') AS t, COUNT(*) FROM shipments GROUP BY 1;

-- answerable
SELECT date_part('doy', shipped) AS doy, COUNT(*) FROM shipments GROUP BY doy;

-- answerable
SELECT COUNT(*) FROM shipments WHERE age(delivered, shipped) > INTERVAL '5 days';

-- answerable
SELECT COUNT(*) FROM shipments WHERE delivered - shipped > INTERVAL '5 days';

-- answerable
SELECT COUNT(*) FROM shipments WHERE julian(delivered) - julian(shipped) > 5;

-- answerable
SELECT COUNT(*) FROM shipments WHERE promised - CAST(shipped AS DATE) > 7;

-- answerable
SELECT COUNT(*) FROM shipments WHERE shipped + INTERVAL '3' DAY < delivered;

-- answerable
SELECT COUNT(*) FROM shipments WHERE shipped BETWEEN '2024-01-01' AND '2024-01-31 23:59:59';

-- answerable
SELECT COUNT(*) FROM shipments WHERE shipped >= make_date(2024, 1, 1) AND shipped < make_date(2024, 2, 1);

-- answerable
SELECT COUNT(*) FROM shipments WHERE DATE_PART('month', shipped) = 1 AND DATE_PART('year', shipped) = 2024;

-- answerable
SELECT time_bucket(INTERVAL '5 minutes', ts) AS t, AVG(temperature) FROM readings GROUP BY t ORDER BY t;

-- answerable
SELECT date_trunc('hour', ts) AS h, sensor, AVG(temperature), MIN(temperature), MAX(temperature) FROM readings GROUP BY 1, 2;

-- answerable
SELECT sensor, COUNT(*) FILTER (WHERE temperature > 30) * 1.0 / COUNT(*) FROM readings GROUP BY sensor;

-- answerable
SELECT COUNT(*) FROM readings WHERE (flags & 1) <> 0 AND (flags & 2) = 0;

-- answerable
SELECT (flags >> 1) & 1 AS door, COUNT(*) FROM readings GROUP BY door;

-- answerable
SELECT COUNT(*) FROM readings WHERE bitwise_and(flags, 8) = 8;

-- answerable
SELECT COUNT(*) FROM readings WHERE flags & (1 << 3) > 0;

-- answerable
SELECT COUNT(*) FROM readings WHERE get_bit(flags, 3) = 1;

-- answerable
SELECT TO_HEX(flags) AS f, COUNT(*) FROM readings GROUP BY f;

-- answerable
SELECT BIT_OR(flags) FROM readings;

-- answerable
SELECT ROUND(temperature * 2) / 2 AS half_degree, COUNT(*) FROM readings GROUP BY 1;

-- answerable
SELECT CAST(temperature * 9 / 5 + 32 AS INT) AS f, COUNT(*) FROM readings GROUP BY f;

-- answerable
SELECT AVG(temperature * 9.0 / 5 + 32) FROM readings;

-- answerable
SELECT sensor, AVG(d) FROM (SELECT household_id, sensor, temperature - LAG(temperature) OVER (PARTITION BY household_id, sensor ORDER BY ts) AS d FROM readings) GROUP BY sensor;

-- answerable
SELECT COUNT(*) FROM (SELECT household_id, ts, LEAD(ts) OVER (PARTITION BY household_id, sensor ORDER BY ts) - ts AS gap FROM readings) WHERE gap > INTERVAL '1 hour';

-- answerable
SELECT COUNT(DISTINCT household_id) FROM readings WHERE battery < 20 AND ts > NOW() - INTERVAL 1 DAY;

-- answerable
SELECT FLOOR(6.11 * EXP(17.27 * temperature / (237.7 + temperature))) AS e, COUNT(*) FROM readings GROUP BY e;

-- answerable
SELECT SIN(RADIANS(temperature)) > 0 AS s, COUNT(*) FROM readings GROUP BY s;

-- answerable
SELECT DEGREES(ATAN2(humidity, temperature)) > 45 AS s, COUNT(*) FROM readings GROUP BY s;

-- answerable
SELECT PI() * POWER(humidity / 100, 2) > 1 AS s, COUNT(*) FROM readings GROUP BY s;

-- answerable
SELECT CBRT(battery) > 4 AS s, COUNT(*) FROM readings GROUP BY s;

-- answerable
SELECT AVG(CAST(payload->>'$.rssi' AS INT), contribution_bounds_per_row => (-120, 0)) FROM readings;

-- answerable
SELECT CAST(json_extract_string(payload, '$.rssi') AS INT) // 10 * 10 AS band, COUNT(*) FROM readings GROUP BY band;

-- refused: rows
SELECT last(temperature ORDER BY ts) FROM readings;

-- answerable
SELECT household_id % 4 AS shard, COUNT(*) FROM readings GROUP BY shard;

-- answerable
SELECT CASE WHEN HOUR(ts) BETWEEN 6 AND 11 THEN 'morning' WHEN HOUR(ts) BETWEEN 12 AND 17 THEN 'afternoon' WHEN HOUR(ts) BETWEEN 18 AND 22 THEN 'evening' ELSE 'night' END AS part, AVG(humidity) FROM readings GROUP BY part;

-- answerable
SELECT sensor, SUM(temperature < 0) AS frost, SUM(temperature >= 0) AS above FROM readings GROUP BY sensor;

-- answerable
SELECT COUNT(*) FROM readings WHERE temperature NOT BETWEEN -10 AND 40 OR humidity IS NULL;

-- answerable
SELECT s.status, COUNT(*) FROM shipments s LEFT JOIN carriers c ON c.carrier_id = s.carrier_id WHERE c.carrier_id IS NULL GROUP BY s.status;

-- answerable
SELECT NULLIF(status, '') AS st, COUNT(*) FROM shipments GROUP BY 1;

-- answerable
SELECT COALESCE(CAST(delivered AS VARCHAR), 'n/a') = 'n/a' AS open, COUNT(*) FROM shipments GROUP BY open;

-- answerable
SELECT REPEAT('*', priority) AS stars, COUNT(*) FROM shipments GROUP BY stars;

-- answerable
SELECT STRPOS(tracking, '-') AS p, COUNT(*) FROM shipments GROUP BY p;

-- answerable
SELECT RIGHT(tracking, 1) AS last_digit, COUNT(*) FROM shipments GROUP BY last_digit;

-- answerable
SELECT TRIM(BOTH ' -' FROM tracking) AS t, COUNT(*) FROM shipments GROUP BY t;

-- answerable
SELECT REPLACE(LOWER(origin), ' ', '_') AS slug, COUNT(*) FROM shipments GROUP BY slug;

-- answerable
SELECT TRANSLATE(origin, 'éè', 'ee') AS o, COUNT(*) FROM shipments GROUP BY o;

-- answerable
SELECT SOUNDEX(origin) AS o, COUNT(*) FROM shipments GROUP BY o;

-- answerable
SELECT levenshtein(origin, 'Lyon') AS d, COUNT(*) FROM shipments GROUP BY d;

-- answerable
SELECT STUFF(tracking, 1, 3, '') AS s, COUNT(*) FROM shipments GROUP BY STUFF(tracking, 1, 3, '');

-- answerable
SELECT OVERLAY(tracking PLACING 'XX' FROM 1 FOR 2) AS s, COUNT(*) FROM shipments GROUP BY s;

-- answerable
SELECT ASCII(tracking) AS a, COUNT(*) FROM shipments GROUP BY a;

-- answerable
SELECT CHAR_LENGTH(origin) AS a, COUNT(*) FROM shipments GROUP BY a;

-- answerable
SELECT OCTET_LENGTH(origin::BLOB) AS a, COUNT(*) FROM shipments GROUP BY a;

-- answerable
SELECT BIT_LENGTH(origin) AS a, COUNT(*) FROM shipments GROUP BY a;

-- answerable
SELECT COUNT(*) FROM shipments WHERE shipped >= TIMESTAMP '2024-01-01 00:00:00' AT TIME ZONE 'UTC';

-- answerable
SELECT COUNT(*) FROM shipments WHERE (origin, destination) IN (('Lyon', 'Ulm'), ('Bari', 'Lyon'));

-- answerable
SELECT COUNT(*) FROM shipments WHERE status NOT IN ('lost', 'returned') AND cost IS NOT NULL AND NOT (priority > 3);

-- answerable
SELECT ANY_VALUE(c.mode), c.name, COUNT(*) FROM shipments s JOIN carriers c USING (carrier_id) GROUP BY c.name;

-- answerable
SELECT COUNT(*) FROM shipments WHERE carrier_id = (SELECT carrier_id FROM carriers WHERE name = 'Hull');

-- refused: rows
SELECT tracking, status FROM shipments WHERE promised < CURRENT_DATE;

-- refused: unit-keys
SELECT household_id, MAX(temperature) FROM readings GROUP BY household_id;
-- answerable
SELECT c.name AS carrier, COUNT(*) AS total, ROUND(100.0 * COUNT(CASE WHEN s.delivered::date <= s.promised THEN 1 END) / COUNT(*), 1) AS on_time_pct FROM shipments s JOIN carriers c ON c.carrier_id = s.carrier_id WHERE s.delivered IS NOT NULL GROUP BY c.name ORDER BY on_time_pct DESC;
-- answerable
SELECT DATE_TRUNC('week', shipped) AS wk, SUM(cost) / NULLIF(SUM(weight), 0) AS cost_per_kg FROM shipments GROUP BY 1 ORDER BY 1;
-- answerable
SELECT origin || ' -> ' || destination AS lane, COUNT(*) AS n, AVG(cost) AS avg_cost FROM shipments GROUP BY 1 HAVING COUNT(*) >= 50 ORDER BY n DESC LIMIT 20;
-- answerable
SELECT CASE WHEN weight < 1 THEN 'parcel' WHEN weight < 30 THEN 'small freight' WHEN weight < 500 THEN 'pallet' ELSE 'bulk' END AS class, COUNT(*), AVG(EXTRACT(EPOCH FROM (delivered - shipped)) / 86400) AS transit_days FROM shipments WHERE delivered IS NOT NULL GROUP BY class;
-- answerable
SELECT h.city, h.country, COUNT(DISTINCT sc.shipment_id) AS handled FROM scans sc JOIN hubs h ON h.hub_id = sc.hub_id WHERE sc.event = 'in' AND sc.ts >= NOW() - INTERVAL '30 days' GROUP BY h.city, h.country;
-- answerable
WITH dwell AS (SELECT shipment_id, hub_id, MAX(ts) - MIN(ts) AS stay FROM scans GROUP BY shipment_id, hub_id) SELECT hub_id, AVG(EXTRACT(EPOCH FROM stay) / 3600) AS hours FROM dwell GROUP BY hub_id;
-- answerable
SELECT hub_id, AVG(mins) AS avg_dwell FROM (SELECT hub_id, event, date_diff('minute', LAG(ts) OVER (PARTITION BY shipment_id ORDER BY ts), ts) AS mins FROM scans) WHERE event = 'out' GROUP BY hub_id;
-- answerable
SELECT EXTRACT(ISODOW FROM shipped) AS weekday, EXTRACT(HOUR FROM shipped) AS hr, COUNT(*) FROM shipments GROUP BY 1, 2;
-- answerable
SELECT COUNT(*) FILTER (WHERE status = 'lost') * 1e6 / COUNT(*) AS lost_per_million FROM shipments;
-- answerable
SELECT status, PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY DATE_PART('day', delivered - shipped)) AS p95_days FROM shipments WHERE delivered IS NOT NULL GROUP BY status;
-- answerable
SELECT TO_CHAR(shipped, 'YYYY-MM') AS month, carrier_id, SUM(cost) AS freight_spend FROM shipments WHERE EXTRACT(YEAR FROM shipped) = 2024 GROUP BY TO_CHAR(shipped, 'YYYY-MM'), carrier_id;
-- answerable
SELECT LEFT(tracking, 2) AS prefix, COUNT(*) FROM shipments WHERE tracking SIMILAR TO '[A-Z]{2}-[0-9]+' GROUP BY LEFT(tracking, 2);
-- answerable
SELECT carrier_id, COUNT(*) AS late FROM shipments WHERE GREATEST(DATEDIFF('day', promised, delivered), 0) BETWEEN 1 AND 3 GROUP BY carrier_id;
-- answerable
SELECT UPPER(TRIM(origin)) AS o, UPPER(TRIM(destination)) AS d, SUM(weight) / 1000 AS tonnes FROM shipments GROUP BY o, d ORDER BY tonnes DESC FETCH FIRST 10 ROWS ONLY;
-- answerable
SELECT COUNT(*) FROM shipments WHERE regexp_matches(tags, '(^|,)hazmat(,|$)');
-- answerable
SELECT tag, COUNT(*) AS n FROM (SELECT customer_id, UNNEST(STRING_TO_ARRAY(tags, ',')) AS tag FROM shipments) t GROUP BY tag ORDER BY n DESC;
-- answerable
SELECT scans_per_shipment, COUNT(*) FROM (SELECT shipment_id, COUNT(*) AS scans_per_shipment FROM scans GROUP BY shipment_id) x GROUP BY scans_per_shipment;
-- answerable
SELECT COUNT(*) FROM shipments s WHERE NOT EXISTS (SELECT 1 FROM scans sc WHERE sc.shipment_id = s.shipment_id);
-- answerable
WITH last_scan AS (SELECT shipment_id, event, hub_id, ROW_NUMBER() OVER (PARTITION BY shipment_id ORDER BY ts DESC) AS rn FROM scans) SELECT h.city, COUNT(*) AS stuck FROM last_scan l JOIN hubs h USING (hub_id) JOIN shipments s USING (shipment_id) WHERE l.rn = 1 AND s.delivered IS NULL GROUP BY h.city;
-- answerable
SELECT time_bucket(INTERVAL '15 minutes', ts) AS slot, sensor, AVG(temperature) FROM readings WHERE sensor IN ('kitchen', 'attic') GROUP BY slot, sensor ORDER BY slot;
-- answerable
SELECT sensor, AVG(temperature) - AVG(AVG(temperature)) OVER () AS deviation FROM readings GROUP BY sensor;
-- answerable
SELECT CAST(JSON_EXTRACT(payload, '$.rssi') AS INTEGER) < -80 AS weak, COUNT(*) FROM readings GROUP BY weak;
-- answerable
SELECT sensor, CORR(temperature, humidity) AS r FROM readings GROUP BY sensor;
-- answerable
SELECT (flags & 4) <> 0 AS tamper, COUNT(*) FROM readings GROUP BY 1;
-- answerable
SELECT COUNT(DISTINCT household_id) FROM readings WHERE battery < 20 AND ts > (SELECT MAX(ts) FROM readings) - INTERVAL 1 DAY;
-- answerable
SELECT FLOOR(temperature / 5) * 5 AS bin, COUNT(*) FROM readings GROUP BY bin ORDER BY bin;
-- answerable
SELECT APPROX_QUANTILE(cost / weight, 0.5) FROM shipments WHERE weight > 0;
-- answerable
SELECT month, spend, spend - LAG(spend) OVER (ORDER BY month) AS delta FROM (SELECT date_trunc('month', shipped) AS month, SUM(cost) AS spend FROM shipments GROUP BY 1) ORDER BY month;
-- answerable
SELECT cr.mode, SUM(CASE WHEN s.status = 'returned' THEN 1 ELSE 0 END)::FLOAT / COUNT(*) AS return_rate FROM carriers cr LEFT JOIN shipments s ON s.carrier_id = cr.carrier_id GROUP BY cr.mode;
-- answerable
SELECT COALESCE(c.mode, 'all') AS mode, COALESCE(s.status, 'all') AS status, COUNT(*) FROM shipments s JOIN carriers c USING (carrier_id) GROUP BY ROLLUP (c.mode, s.status);
-- answerable
SELECT SUM(weight * 0.062 * CASE mode WHEN 'air' THEN 9.5 WHEN 'sea' THEN 0.2 ELSE 1 END) AS kg_co2 FROM shipments JOIN carriers USING (carrier_id);
-- refused: rows
SELECT shipment_id, tracking, status FROM shipments WHERE delivered IS NULL AND promised < CURRENT_DATE ORDER BY promised;

-- answerable
SELECT arrayJoin(splitByChar(',', tags)) AS tag, count() FROM shipments GROUP BY tag;
