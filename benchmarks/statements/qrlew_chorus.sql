-- In the shapes of the tests of Qrlew and of the queries that Chorus was measured with.
-- world: census

-- answerable
SELECT AVG(age) FROM adult;

-- answerable
SELECT SUM(capital_gain) / COUNT(*) FROM adult WHERE capital_gain > 0.;

-- answerable
SELECT education, AVG(hours_per_week) AS h FROM adult GROUP BY education;

-- answerable
SELECT sex, race, COUNT(*) FROM adult WHERE education_num > 9 GROUP BY sex, race;

-- answerable
SELECT COUNT(*) FROM adult WHERE capital_loss > 2231. AND capital_loss < 4356.;

-- answerable
SELECT COUNT(DISTINCT native_country) FROM adult WHERE income = '>50K';

-- answerable
SELECT STDDEV(hours_per_week), VARIANCE(age) FROM adult;

-- answerable
SELECT marital_status, STD(age) FROM adult GROUP BY marital_status;

-- answerable
SELECT MAX(hours_per_week) FROM adult;

-- answerable
SELECT workclass, MIN(age), MAX(age) FROM adult GROUP BY workclass;

-- answerable
SELECT CASE WHEN age > 90 THEN 1 ELSE 0 END AS c1, AVG(education_num) FROM adult GROUP BY c1;

-- answerable
SELECT 1 + COUNT(*) AS a, 2 * AVG(age) AS b FROM adult;

-- answerable
SELECT LN(1 + capital_gain) AS l, COUNT(*) FROM adult GROUP BY l;

-- answerable
SELECT SUM(EXP(-age / 10)) FROM adult;

-- answerable
SELECT COUNT(*) FROM adult WHERE native_country IN ('Peru', 'Cuba') AND workclass IS NOT NULL;

-- answerable
SELECT occupation FROM adult GROUP BY occupation;

-- answerable
WITH young AS (SELECT id, income, hours_per_week FROM adult WHERE age < 30) SELECT income, AVG(hours_per_week) FROM young GROUP BY income;

-- answerable
WITH t AS (SELECT education AS e, SUM(capital_gain) AS g FROM adult GROUP BY education) SELECT e FROM t WHERE g > 1000;

-- answerable
SELECT a.sex, COUNT(*) FROM adult a JOIN adult b ON a.id = b.id GROUP BY a.sex;

-- answerable
SELECT age, COUNT(*) AS n FROM adult GROUP BY age HAVING COUNT(*) > 20 ORDER BY age;

-- answerable
SELECT COUNT(*) FROM adult WHERE age > (SELECT AVG(age) FROM adult);

-- answerable
SELECT SUM(DISTINCT capital_gain) FROM adult;

-- answerable
SELECT AVG(DISTINCT age) FROM adult;

-- answerable
SELECT sex, COUNT(DISTINCT age), COUNT(age), SUM(DISTINCT age) FROM adult GROUP BY sex;

-- answerable
SELECT CONCAT(sex, '-', race) AS k, COUNT(*) FROM adult GROUP BY k;

-- answerable
SELECT SUBSTRING(education FROM 1 FOR 3) AS e, COUNT(*) FROM adult GROUP BY e;

-- answerable
SELECT POSITION('a' IN workclass) AS p, COUNT(*) FROM adult GROUP BY p;

-- answerable
SELECT MD5(occupation) AS m, COUNT(*) FROM adult GROUP BY m;

-- answerable
SELECT COALESCE(workclass, 'none') AS w, COUNT(*) FROM adult GROUP BY w;

-- answerable
SELECT CAST(age AS TEXT) AS a, COUNT(*) FROM adult GROUP BY a;

-- answerable
SELECT GREATEST(capital_gain, capital_loss) > 0 AS any_capital, COUNT(*) FROM adult GROUP BY any_capital;

-- answerable
SELECT COUNT(*) FROM adult WHERE workclass ~ 'gov';

-- answerable
SELECT age FROM adult WHERE age > 60 GROUP BY age ORDER BY age LIMIT 10;

-- answerable
SELECT SUM(t.n) FROM (SELECT education, COUNT(*) AS n FROM adult GROUP BY education) t;

-- answerable
SELECT s.e, s.n / t.total FROM (SELECT education AS e, COUNT(*) AS n FROM adult GROUP BY 1) s CROSS JOIN (SELECT COUNT(*) AS total FROM adult) t;

-- answerable
SELECT t1.city_id, COUNT(*) FROM trips t1 GROUP BY t1.city_id;

-- answerable
SELECT c.name, COUNT(*) FROM trips t JOIN cities c ON t.city_id = c.id WHERE c.country = 'PE' GROUP BY c.name;

-- answerable
SELECT COUNT(*) FROM trips t, cities c WHERE t.city_id = c.id AND c.name = 'Lima' AND t.status = 'completed';

-- answerable
SELECT COUNT(DISTINCT t.rider_id) FROM trips t JOIN riders r ON t.rider_id = r.rider_id WHERE r.signup_channel = 'web';

-- answerable
SELECT r.home_city, AVG(t.fare) FROM riders r JOIN trips t ON r.rider_id = t.rider_id GROUP BY r.home_city;

-- answerable
SELECT driver, COUNT(*) FROM trips GROUP BY driver ORDER BY COUNT(*) DESC LIMIT 10;

-- answerable
SELECT COUNT(*) FROM (SELECT rider_id, COUNT(*) AS n FROM trips WHERE requested >= '2025-01-01' GROUP BY rider_id) x WHERE n > 5;

-- answerable
SELECT n, COUNT(*) FROM (SELECT rider_id, COUNT(DISTINCT city_id) AS n FROM trips GROUP BY rider_id) x GROUP BY n;

-- answerable
SELECT date_trunc('week', requested) AS w, COUNT(*) FROM trips WHERE status = 'completed' GROUP BY 1;

-- answerable
SELECT requested::date AS d, SUM(fare) FROM trips GROUP BY requested::date ORDER BY d;

-- answerable
SELECT COUNT(*) FROM trips a JOIN trips b ON a.rider_id = b.rider_id AND a.trip_id < b.trip_id AND b.requested < a.requested + INTERVAL '1 hour';

-- answerable
SELECT COUNT(*) FROM trips WHERE city_id IN (SELECT id FROM cities WHERE country = 'EC');

-- answerable
SELECT COUNT(*) FROM riders WHERE rider_id NOT IN (SELECT rider_id FROM trips);

-- answerable
SELECT COUNT(*) FROM riders r WHERE EXISTS (SELECT * FROM trips t WHERE t.rider_id = r.rider_id AND t.status = 'canceled');

-- answerable
SELECT COUNT(*) FROM riders r LEFT JOIN trips t ON r.rider_id = t.rider_id WHERE t.trip_id IS NULL;

-- answerable
WITH a AS (SELECT COUNT(*) AS n FROM trips WHERE status = 'completed'), b AS (SELECT COUNT(*) AS n FROM trips) SELECT a.n * 1.0 / b.n FROM a, b;

-- answerable
WITH counts AS (SELECT city_id, COUNT(*) AS n FROM trips GROUP BY city_id) SELECT name, n FROM counts JOIN cities ON city_id = id WHERE n > 100;

-- answerable
SELECT city_id, status, COUNT(*) FROM trips GROUP BY GROUPING SETS ((city_id), (status), ());

-- answerable
SELECT fare > 20 AS expensive, AVG(distance) FROM trips GROUP BY 1;

-- answerable
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY fare) FROM trips;

-- answerable
SELECT ROUND(distance) AS km, AVG(fare / distance) FROM trips WHERE distance > 0 GROUP BY km;

-- answerable
SELECT COUNT(*) FROM trips UNION SELECT COUNT(*) FROM riders;

-- refused: joins
SELECT COUNT(*) FROM trips a JOIN trips b ON a.driver = b.driver;

-- refused: rows
SELECT fare FROM trips WHERE driver = 'd1';

-- refused: unit-keys
SELECT rider_id, SUM(fare) FROM trips GROUP BY rider_id;

-- refused: unit-keys
SELECT MAX(n) FROM (SELECT rider_id, COUNT(*) AS n FROM trips GROUP BY rider_id) x GROUP BY rider_id;

-- answerable
SELECT MAX(n) FROM (SELECT rider_id, COUNT(*) AS n FROM trips GROUP BY rider_id) x;

-- answerable
SELECT COUNT(*) FROM trips WHERE fare = (SELECT MAX(fare) FROM trips);

-- answerable
SELECT AVG(x.total) FROM (SELECT rider_id, SUM(fare) AS total FROM trips GROUP BY rider_id) AS x;
