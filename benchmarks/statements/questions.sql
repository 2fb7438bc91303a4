-- Questions of films, flights and football, and SQL that dashboards and metrics layers write.
-- world: leisure

-- answerable
SELECT COUNT(player_name) FROM players WHERE height > 180;

-- answerable
SELECT AVG(height) FROM players WHERE height IS NOT NULL AND preferred_foot = 'left';

-- answerable
SELECT CAST(COUNT(CASE WHEN weight > 180 THEN 1 END) AS REAL) * 100 / COUNT(*) FROM players;

-- answerable
SELECT AVG(overall_rating) FROM players WHERE strftime('%Y', birthday) < '1995';

-- answerable
SELECT AVG(height) FROM players WHERE substr(birthday, 1, 4) BETWEEN '1990' AND '1995';

-- answerable
SELECT COUNT(*) FROM players WHERE datetime('now') - datetime(birthday) > 34;

-- answerable
SELECT COUNT(*) FROM players WHERE CAST(strftime('%Y', 'now') AS INTEGER) - CAST(strftime('%Y', birthday) AS INTEGER) >= 30;

-- answerable
SELECT COUNT(DISTINCT position) FROM players;

-- answerable
SELECT club, AVG(overall_rating) FROM players GROUP BY club HAVING COUNT(*) > 5 ORDER BY AVG(overall_rating) DESC LIMIT 3;

-- answerable
SELECT position FROM players GROUP BY position ORDER BY COUNT(position) DESC LIMIT 1;

-- answerable
SELECT m.season, SUM(a.goals) FROM appearances a JOIN matches m ON a.match_id = m.match_id GROUP BY m.season;

-- answerable
SELECT SUM(t2.goals) FROM players t1 INNER JOIN appearances t2 ON t1.player_id = t2.player_id WHERE t1.club = 'Ajax' AND t2.minutes >= 45;

-- answerable
SELECT DIVIDE(SUM(goals), COUNT(*)) FROM appearances;

-- answerable
SELECT SUM(goals) / COUNT(DISTINCT match_id) FROM appearances;

-- answerable
SELECT SUM(goals) * 90.0 / SUM(minutes) AS per90 FROM appearances;

-- answerable
SELECT card, COUNT(*) FROM appearances WHERE card IS NOT NULL GROUP BY card;

-- answerable
SELECT COUNT(CASE WHEN card = 'yellow' THEN 1 ELSE NULL END) - COUNT(CASE WHEN card = 'red' THEN 1 ELSE NULL END) FROM appearances;

-- answerable
SELECT COUNT(*) FROM (SELECT player_id FROM appearances GROUP BY player_id HAVING SUM(goals) >= 10) AS t;

-- answerable
SELECT AVG(T2.rating) FROM movies AS T1 INNER JOIN ratings AS T2 ON T1.movie_id = T2.movie_id WHERE T1.director = 'Mann';

-- answerable
SELECT T1.title FROM movies AS T1 JOIN ratings AS T2 ON T1.movie_id = T2.movie_id GROUP BY T1.title ORDER BY AVG(T2.rating) DESC LIMIT 1;

-- answerable
SELECT title, AVG(rating) AS r, COUNT(*) FROM ratings NATURAL JOIN movies GROUP BY title HAVING COUNT(*) > 50;

-- answerable
SELECT genre, AVG(rating) FROM ratings r, movies m WHERE r.movie_id = m.movie_id AND released BETWEEN 1980 AND 1989 GROUP BY genre;

-- answerable
SELECT released / 10 * 10 AS decade, COUNT(*) FROM ratings JOIN movies USING (movie_id) GROUP BY decade;

-- answerable
SELECT FLOOR(released / 10) * 10 AS decade, AVG(rating) FROM ratings JOIN movies USING (movie_id) GROUP BY 1;

-- answerable
SELECT (released / 10)::INT * 10 AS decade, AVG(rating) FROM ratings JOIN movies USING (movie_id) GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM movies WHERE movie_id NOT IN (SELECT movie_id FROM ratings);

-- answerable
SELECT sex, occupation, AVG(rating) FROM ratings JOIN viewers USING (viewer_id) GROUP BY sex, occupation;

-- answerable
SELECT ROUND(rating) AS stars, COUNT(*) FROM ratings GROUP BY stars ORDER BY stars;

-- answerable
SELECT rating, COUNT(*) AS "Number of Ratings" FROM ratings GROUP BY rating ORDER BY rating DESC;

-- answerable
SELECT COUNT(*) FROM viewers WHERE zip GLOB '9*';

-- answerable
SELECT SUBSTRING(zip FROM 1 FOR 3) AS area, COUNT(*) FROM viewers GROUP BY area;

-- answerable
SELECT CASE WHEN age < 18 THEN 'Under 18' WHEN age BETWEEN 18 AND 24 THEN '18-24' WHEN age BETWEEN 25 AND 34 THEN '25-34' ELSE '35+' END AS age_group, COUNT(*) FROM viewers GROUP BY age_group;

-- answerable
SELECT age / 10 * 10 AS decade, COUNT(*) FROM viewers GROUP BY age / 10 * 10;

-- answerable
SELECT CAST(age / 10 AS INTEGER) * 10 AS decade, COUNT(*) FROM viewers GROUP BY 1;

-- answerable
SELECT age - age % 10 AS decade, COUNT(*) FROM viewers GROUP BY decade;

-- answerable
SELECT airline, SUM(fare) FROM bookings b JOIN flights f ON b.flight_no = f.flight_no GROUP BY airline;

-- answerable
SELECT T3.city, count(*) FROM bookings AS T1 JOIN flights AS T2 ON T1.flight_no = T2.flight_no JOIN airports AS T3 ON T2.destination = T3.code GROUP BY T3.city ORDER BY count(*) DESC LIMIT 1;

-- answerable
SELECT count(*) FROM bookings AS T1 JOIN flights AS T2 ON T1.flight_no = T2.flight_no JOIN airports AS T3 ON T2.origin = T3.code WHERE T3.country = "Italy";

-- answerable
SELECT city FROM airports WHERE code NOT IN (SELECT f.destination FROM bookings b JOIN flights f USING (flight_no));

-- answerable
SELECT a.city, COUNT(b.booking_id) FROM airports a LEFT JOIN flights f ON f.destination = a.code LEFT JOIN bookings b ON b.flight_no = f.flight_no GROUP BY a.city;

-- answerable
SELECT cabin, AVG(fare / NULLIF(distance, 0)) AS yield FROM bookings JOIN flights USING (flight_no) GROUP BY cabin;

-- answerable
SELECT SUM(fare - price) FROM bookings JOIN flights USING (flight_no);

-- answerable
SELECT COUNT(*) FROM bookings b JOIN flights f USING (flight_no) WHERE b.fare > f.price * 1.5;

-- answerable
SELECT DATE_DIFF('day', booked, day) AS lead, COUNT(*) FROM bookings GROUP BY lead;

-- answerable
SELECT CASE WHEN day - CAST(booked AS DATE) < 7 THEN 'last week' WHEN day - CAST(booked AS DATE) < 30 THEN 'last month' ELSE 'early' END AS lead, AVG(fare) FROM bookings GROUP BY lead;

-- answerable
SELECT SUBSTR(seat, -1) AS col, COUNT(*) FROM bookings GROUP BY col;

-- answerable
SELECT SUBSTR(seat, 0, 2) AS r, COUNT(*) FROM bookings GROUP BY r;

-- answerable
SELECT SUBSTR(seat, LENGTH(seat), 1) AS col, COUNT(*) FROM bookings GROUP BY col;

-- answerable
SELECT COUNT(*) FROM bookings WHERE seat IN ('12A', '12B') OR seat IS NULL;

-- answerable
SELECT SUM(bags) FROM bookings WHERE day LIKE '2023-07%';

-- answerable
SELECT COUNT(*) FROM bookings WHERE day >= '2023-07-01' AND day <= '2023-07-31';

-- answerable
SELECT passenger_class, cnt FROM (SELECT cabin AS passenger_class, COUNT(*) AS cnt FROM bookings GROUP BY cabin) sub WHERE cnt > 100 ORDER BY cnt DESC;

-- answerable
SELECT 'total' AS label, COUNT(*) AS n FROM bookings UNION ALL SELECT cabin, COUNT(*) FROM bookings GROUP BY cabin;

-- answerable
SELECT COUNT(*) AS c, cabin FROM bookings WHERE 1=1 AND fare > 0 GROUP BY cabin ORDER BY c DESC LIMIT 50000;

-- answerable
SELECT "cabin" AS "cabin", SUM("fare") AS "SUM(fare)" FROM (SELECT * FROM "bookings") AS "virtual_table" WHERE "day" >= TO_DATE('2023-01-01', 'YYYY-MM-DD') AND "day" < TO_DATE('2024-01-01', 'YYYY-MM-DD') GROUP BY "cabin" ORDER BY "SUM(fare)" DESC LIMIT 1000;

-- answerable
SELECT DATE_TRUNC('DAY', "booked") AS __timestamp, COUNT(*) AS count FROM "main"."bookings" WHERE "booked" >= TO_TIMESTAMP('2023-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND "booked" < TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('DAY', "booked") ORDER BY count DESC LIMIT 50000;

-- answerable
SELECT "source"."cabin" AS "cabin", COUNT(*) AS "count" FROM (SELECT "main"."bookings"."cabin" AS "cabin", CASE WHEN "main"."bookings"."fare" > 500 THEN 'high' ELSE 'low' END AS "Fare" FROM "main"."bookings") AS "source" GROUP BY "source"."cabin" ORDER BY "source"."cabin" ASC;

-- answerable
SELECT CAST(DATE_TRUNC('month', "main"."bookings"."day") AS DATE) AS "day", SUM("main"."bookings"."fare") AS "sum" FROM "main"."bookings" WHERE "main"."bookings"."day" >= CAST((CAST(now() AS timestamp) + (INTERVAL '-12 month')) AS date) GROUP BY CAST(DATE_TRUNC('month', "main"."bookings"."day") AS DATE) ORDER BY CAST(DATE_TRUNC('month', "main"."bookings"."day") AS DATE) ASC;

-- answerable
SELECT bookings.cabin AS "bookings.cabin", COALESCE(SUM(bookings.fare), 0) AS "bookings.total_fare", COUNT(DISTINCT bookings.passenger_id) AS "bookings.passengers" FROM bookings AS bookings WHERE ((( bookings.booked ) >= ((DATEADD(day,-29, DATE_TRUNC('day', GETDATE())))) AND ( bookings.booked ) < ((DATEADD(day,30, DATEADD(day,-29, DATE_TRUNC('day', GETDATE()) )))))) GROUP BY 1 ORDER BY 2 DESC FETCH NEXT 500 ROWS ONLY;

-- answerable
SELECT TO_CHAR(DATE_TRUNC('month', bookings.day), 'YYYY-MM') AS "bookings.day_month", AVG(bookings.fare) AS "bookings.avg_fare" FROM bookings GROUP BY (DATE_TRUNC('month', bookings.day)) ORDER BY 1 DESC LIMIT 500;

-- answerable
SELECT "bookings"."cabin" AS "cabin", SUM("bookings"."fare") AS "sum:fare:ok", AVG(CAST("bookings"."bags" AS double precision)) AS "avg:bags:ok" FROM "main"."bookings" "bookings" GROUP BY 1;

-- answerable
SELECT DATE_TRUNC('quarter', CAST("bookings"."booked" AS DATE)) AS "tqr:booked:ok", COUNT(DISTINCT "bookings"."passenger_id") AS "ctd:passenger:ok" FROM "bookings" WHERE (CASE WHEN "bookings"."fare" > 100 THEN TRUE ELSE FALSE END) GROUP BY 1;

-- answerable
SELECT TOP (1000001) [t0].[cabin], SUM(CAST([t0].[fare] AS FLOAT)) AS [a0], COUNT_BIG(*) AS [a1] FROM [bookings] AS [t0] WHERE [t0].[fare] >= 10 GROUP BY [t0].[cabin];

-- answerable
select "_"."cabin", sum("_"."fare") as "Total" from "main"."bookings" "_" group by "_"."cabin";

-- answerable
SELECT "bookings".cabin "bookings__cabin", date_trunc('day', ("bookings".booked::timestamptz AT TIME ZONE 'UTC')) "bookings__booked_day", count("bookings".booking_id) "bookings__count" FROM main.bookings AS "bookings" WHERE ("bookings".booked >= '2023-01-01T00:00:00.000Z'::timestamptz AND "bookings".booked <= '2023-12-31T23:59:59.999Z'::timestamptz) GROUP BY 1, 2 ORDER BY 2 ASC LIMIT 10000;

-- answerable
SELECT metric_time__day, SUM(revenue) AS revenue FROM (SELECT DATE_TRUNC('day', booked) AS metric_time__day, fare AS revenue FROM bookings bookings_src_1) subq_1 GROUP BY metric_time__day;

-- answerable
SELECT COALESCE(subq_4.metric_time__month, subq_9.metric_time__month) AS metric_time__month, MAX(subq_4.fares) AS fares, MAX(subq_9.ratings) AS ratings FROM (SELECT DATE_TRUNC('month', booked) AS metric_time__month, SUM(fare) AS fares FROM bookings GROUP BY 1) subq_4 FULL OUTER JOIN (SELECT DATE_TRUNC('month', rated) AS metric_time__month, COUNT(*) AS ratings FROM ratings GROUP BY 1) subq_9 ON subq_4.metric_time__month = subq_9.metric_time__month GROUP BY COALESCE(subq_4.metric_time__month, subq_9.metric_time__month);

-- answerable
WITH __stage0 AS (SELECT group_set, CASE WHEN group_set=0 THEN base."cabin" END AS "cabin__0", CASE WHEN group_set=0 THEN COUNT(1) END AS "n__0" FROM bookings AS base CROSS JOIN (SELECT UNNEST(GENERATE_SERIES(0,0,1)) AS group_set) GROUP BY 1, 2) SELECT "cabin__0" AS "cabin", MAX(CASE WHEN group_set=0 THEN "n__0" END) AS "n" FROM __stage0 GROUP BY 1 ORDER BY 2 DESC NULLS LAST;

-- answerable
SELECT base."cabin" AS "cabin", COUNT(1) AS "n", COALESCE(SUM(base."fare"), 0) AS "total", AVG(base."fare") AS "avg" FROM bookings AS base GROUP BY 1 ORDER BY 2 DESC NULLS LAST;

-- answerable
SELECT MODE() WITHIN GROUP (ORDER BY cabin) FROM bookings;

-- answerable
SELECT CHOOSE(bags + 1, 'none', 'one', 'two') AS b, COUNT(*) FROM bookings GROUP BY CHOOSE(bags + 1, 'none', 'one', 'two');

-- answerable
SELECT DATEPART(weekday, booked) AS wd, COUNT(*) FROM bookings GROUP BY DATEPART(weekday, booked);

-- answerable
SELECT DATEPART(quarter, day) AS q, COUNT(*) FROM bookings GROUP BY DATEPART(quarter, day);

-- answerable
SELECT DATEFROMPARTS(YEAR(day), MONTH(day), 1) AS m, SUM(fare) FROM bookings GROUP BY DATEFROMPARTS(YEAR(day), MONTH(day), 1);

-- answerable
SELECT DATEADD(month, DATEDIFF(month, 0, day), 0) AS m, SUM(fare) FROM bookings GROUP BY DATEADD(month, DATEDIFF(month, 0, day), 0);

-- answerable
SELECT TRY_CONVERT(INT, LEFT(seat, 2)) AS row_no, COUNT(*) FROM bookings GROUP BY TRY_CONVERT(INT, LEFT(seat, 2));

-- answerable
SELECT IIF(PATINDEX('%A', seat) > 0, 'window', 'other') AS w, COUNT(*) FROM bookings GROUP BY IIF(PATINDEX('%A', seat) > 0, 'window', 'other');

-- answerable
SELECT COUNT(*) FROM bookings WHERE seat LIKE '[0-9][0-9]A';

-- answerable
SELECT STRING_AGG(DISTINCT cabin, ',') WITHIN GROUP (ORDER BY cabin) FROM bookings;

-- answerable
SELECT AVG(CAST(fare AS DECIMAL(10,2))) FROM bookings;

-- answerable
SELECT COUNT(*) FROM bookings (NOLOCK);

-- answerable
SELECT COUNT(*) FROM bookings WITH (NOLOCK) WHERE fare > 10;

-- answerable
SELECT COUNT(*) FROM bookings FINAL;

-- answerable
SELECT COUNT(1) FROM bookings t;

-- answerable
SELECT COUNT(ALL fare) FROM bookings;

-- answerable
SELECT SUM(ALL fare), COUNT(DISTINCT(cabin)) FROM bookings;

-- answerable
SELECT COUNT(DISTINCT cabin, flight_no) FROM bookings;

-- answerable
SELECT MIN(fare) AS lo, MAX(fare) AS hi, MAX(fare) - MIN(fare) AS span FROM bookings WHERE cabin = 'economy';

-- answerable
SELECT AVG(rating) FROM ratings WHERE review LIKE '%fun%' AND LENGTH(review) BETWEEN 5 AND 200;

-- answerable
SELECT sex, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () FROM viewers GROUP BY sex;

-- answerable
SELECT ROUND(AVG(rating), 1) AS r, movie_id FROM ratings GROUP BY movie_id ORDER BY r DESC LIMIT 10;

-- answerable
SELECT month, COUNT(*) FROM (SELECT DATE_FORMAT(rated, 'MMM') AS month FROM ratings) GROUP BY month;

-- answerable
SELECT month, AVG(r) OVER (ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM (SELECT date_trunc('month', rated) AS month, AVG(rating) AS r FROM ratings GROUP BY 1);

-- answerable
SELECT SUM(CASE WHEN rating = 5 THEN 1 END) AS five, SUM(CASE WHEN rating = 1 THEN 1 END) AS one FROM ratings;

-- answerable
SELECT COUNT(*) FROM viewers WHERE member_since < '2019-01-01' AND viewer_id IN (SELECT viewer_id FROM ratings WHERE rated >= '2023-01-01');

-- answerable
SELECT COUNT(DISTINCT viewer_id) FROM ratings WHERE movie_id IN (SELECT movie_id FROM movies WHERE genre = 'SciFi' ORDER BY gross DESC LIMIT 2);

-- answerable
SELECT COUNT(*) FROM (SELECT viewer_id, COUNT(DISTINCT movie_id) AS n FROM ratings GROUP BY viewer_id) t WHERE n = (SELECT COUNT(*) FROM movies);

-- answerable
SELECT overall_rating >= 80 AND preferred_foot = 'left' AS star, COUNT(*) FROM players GROUP BY star;

-- answerable
SELECT height, weight, weight / 2.205 / POWER(height / 100, 2) AS bmi FROM (SELECT AVG(height) AS height, AVG(weight) AS weight FROM players);

-- answerable
SELECT CASE WHEN weight * 0.4536 / POWER(height / 100, 2) > 25 THEN 'heavy' ELSE 'ok' END AS b, COUNT(*) FROM players GROUP BY b;

-- refused: rows
SELECT player_name FROM players ORDER BY height DESC LIMIT 1;

-- refused: rows
SELECT name, age FROM viewers WHERE age = (SELECT MAX(age) FROM viewers);

-- refused: invalid
SELECT cabin, COUNT(*) FROM bookings;

