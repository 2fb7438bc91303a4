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

