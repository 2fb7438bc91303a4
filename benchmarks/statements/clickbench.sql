-- The questions of ClickBench over a table of our own.
-- world: hits

-- answerable
SELECT COUNT(*) FROM hits;

-- answerable
SELECT COUNT(*) FROM hits WHERE campaign <> 0;

-- answerable
SELECT SUM(campaign), COUNT(*), AVG(width) FROM hits;

-- answerable
SELECT AVG(visitor) FROM hits;

-- answerable
SELECT COUNT(DISTINCT visitor) FROM hits;

-- answerable
SELECT COUNT(DISTINCT phrase) FROM hits;

-- answerable
SELECT MIN(day), MAX(day) FROM hits;

-- answerable
SELECT campaign, COUNT(*) FROM hits WHERE campaign <> 0 GROUP BY campaign ORDER BY COUNT(*) DESC;

-- answerable
SELECT region, COUNT(DISTINCT visitor) AS u FROM hits GROUP BY region ORDER BY u DESC LIMIT 10;

-- answerable
SELECT region, SUM(campaign), COUNT(*) AS c, AVG(width), COUNT(DISTINCT visitor) FROM hits GROUP BY region ORDER BY c DESC LIMIT 10;

-- answerable
SELECT phone_model, COUNT(DISTINCT visitor) AS u FROM hits WHERE phone_model <> '' GROUP BY phone_model ORDER BY u DESC LIMIT 10;

-- answerable
SELECT phone, phone_model, COUNT(DISTINCT visitor) AS u FROM hits WHERE phone_model <> '' GROUP BY phone, phone_model ORDER BY u DESC LIMIT 10;

-- answerable
SELECT phrase, COUNT(*) AS c FROM hits WHERE phrase <> '' GROUP BY phrase ORDER BY c DESC LIMIT 10;

-- answerable
SELECT phrase, COUNT(DISTINCT visitor) AS u FROM hits WHERE phrase <> '' GROUP BY phrase ORDER BY u DESC LIMIT 10;

-- answerable
SELECT engine, phrase, COUNT(*) AS c FROM hits WHERE phrase <> '' GROUP BY engine, phrase ORDER BY c DESC LIMIT 10;

-- refused: unit-keys
SELECT visitor, COUNT(*) FROM hits GROUP BY visitor ORDER BY COUNT(*) DESC LIMIT 10;

-- refused: unit-keys
SELECT visitor, phrase, COUNT(*) FROM hits GROUP BY visitor, phrase ORDER BY COUNT(*) DESC LIMIT 10;

-- refused: unit-keys
SELECT visitor, phrase, COUNT(*) FROM hits GROUP BY visitor, phrase LIMIT 10;

-- refused: unit-keys
SELECT visitor, extract(minute FROM seen) AS m, phrase, COUNT(*) FROM hits GROUP BY visitor, m, phrase ORDER BY COUNT(*) DESC LIMIT 10;

-- refused: rows
SELECT visitor FROM hits WHERE visitor = 435090932899640449;

-- answerable
SELECT COUNT(*) FROM hits WHERE url LIKE '%mail%';

-- answerable
SELECT phrase, MIN(url), COUNT(*) AS c FROM hits WHERE url LIKE '%mail%' AND phrase <> '' GROUP BY phrase ORDER BY c DESC LIMIT 10;

-- answerable
SELECT phrase, MIN(url), MIN(title), COUNT(*) AS c, COUNT(DISTINCT visitor) FROM hits WHERE title LIKE '%News%' AND url NOT LIKE '%.news.%' AND phrase <> '' GROUP BY phrase ORDER BY c DESC LIMIT 10;

-- refused: rows
SELECT * FROM hits WHERE url LIKE '%mail%' ORDER BY seen LIMIT 10;

-- refused: rows
SELECT phrase FROM hits WHERE phrase <> '' ORDER BY seen LIMIT 10;

-- refused: rows
SELECT phrase FROM hits WHERE phrase <> '' ORDER BY phrase LIMIT 10;

-- refused: rows
SELECT phrase FROM hits WHERE phrase <> '' ORDER BY seen, phrase LIMIT 10;

-- answerable
SELECT site, AVG(strlen(url)) AS l, COUNT(*) AS c FROM hits WHERE url <> '' GROUP BY site HAVING COUNT(*) > 100000 ORDER BY l DESC LIMIT 25;

-- answerable
SELECT regexp_replace(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, AVG(strlen(referer)) AS l, COUNT(*) AS c, MIN(referer) FROM hits WHERE referer <> '' GROUP BY k HAVING COUNT(*) > 100000 ORDER BY l DESC LIMIT 25;

-- answerable
SELECT SUM(width), SUM(width + 1), SUM(width + 2), SUM(width + 3), SUM(width + 4), SUM(width + 5), SUM(width + 6), SUM(width + 7), SUM(width + 8), SUM(width + 9), SUM(width + 10), SUM(width + 11), SUM(width + 12), SUM(width + 13), SUM(width + 14), SUM(width + 15), SUM(width + 16), SUM(width + 17), SUM(width + 18), SUM(width + 19), SUM(width + 20) FROM hits;

-- answerable
SELECT engine, ip, COUNT(*) AS c, SUM(refresh), AVG(width) FROM hits WHERE phrase <> '' GROUP BY engine, ip ORDER BY c DESC LIMIT 10;

-- answerable
SELECT hit_id, ip, COUNT(*) AS c, SUM(refresh), AVG(width) FROM hits WHERE phrase <> '' GROUP BY hit_id, ip ORDER BY c DESC LIMIT 10;

-- answerable
SELECT hit_id, ip, COUNT(*) AS c, SUM(refresh), AVG(width) FROM hits GROUP BY hit_id, ip ORDER BY c DESC LIMIT 10;

-- answerable
SELECT url, COUNT(*) AS c FROM hits GROUP BY url ORDER BY c DESC LIMIT 10;

-- answerable
SELECT 1, url, COUNT(*) AS c FROM hits GROUP BY 1, url ORDER BY c DESC LIMIT 10;

-- answerable
SELECT ip, ip - 1, ip - 2, ip - 3, COUNT(*) AS c FROM hits GROUP BY ip, ip - 1, ip - 2, ip - 3 ORDER BY c DESC LIMIT 10;

-- answerable
SELECT url, COUNT(*) AS views FROM hits WHERE site = 62 AND day >= '2013-07-01' AND day <= '2013-07-31' AND internal = 0 AND refresh = 0 AND url <> '' GROUP BY url ORDER BY views DESC LIMIT 10;

-- answerable
SELECT title, COUNT(*) AS views FROM hits WHERE site = 62 AND day >= '2013-07-01' AND day <= '2013-07-31' AND internal = 0 AND refresh = 0 AND title <> '' GROUP BY title ORDER BY views DESC LIMIT 10;

-- answerable
SELECT url, COUNT(*) AS views FROM hits WHERE site = 62 AND day BETWEEN '2013-07-01' AND '2013-07-31' AND refresh = 0 AND link <> 0 AND download = 0 GROUP BY url ORDER BY views DESC LIMIT 10 OFFSET 1000;

-- answerable
SELECT source, engine, campaign, CASE WHEN (engine = 0 AND campaign = 0) THEN referer ELSE '' END AS src, url AS dst, COUNT(*) AS views FROM hits WHERE site = 62 AND day >= '2013-07-01' AND day <= '2013-07-31' AND refresh = 0 GROUP BY source, engine, campaign, src, dst ORDER BY views DESC LIMIT 10 OFFSET 1000;

-- answerable
SELECT url_hash, day, COUNT(*) AS views FROM hits WHERE site = 62 AND day >= '2013-07-01' AND day <= '2013-07-31' AND refresh = 0 AND source IN (-1, 6) AND referer_hash = 3594120000172545465 GROUP BY url_hash, day ORDER BY views DESC LIMIT 10 OFFSET 100;

-- answerable
SELECT width, height, COUNT(*) AS views FROM hits WHERE site = 62 AND day >= '2013-07-01' AND day <= '2013-07-31' AND refresh = 0 AND internal = 0 AND url_hash = 2868770270353813622 GROUP BY width, height ORDER BY views DESC LIMIT 10 OFFSET 10000;

-- answerable
SELECT date_trunc('minute', seen) AS m, COUNT(*) AS views FROM hits WHERE site = 62 AND day >= '2013-07-14' AND day <= '2013-07-15' AND refresh = 0 AND internal = 0 GROUP BY date_trunc('minute', seen) ORDER BY date_trunc('minute', seen) LIMIT 10 OFFSET 1000;
