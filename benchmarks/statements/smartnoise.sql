-- In the shapes of the tests and guides of SmartNoise SQL.
-- world: census

-- answerable
SELECT COUNT(*) FROM census.pums;

-- answerable
SELECT COUNT(*) AS n, AVG(age) AS age FROM pums;

-- answerable
SELECT sex, AVG(age) AS age FROM main.pums GROUP BY sex;

-- answerable
SELECT married, COUNT(pid) AS n FROM pums GROUP BY married;

-- answerable
SELECT sex, educ, COUNT(*) AS n, AVG(income) AS income FROM pums GROUP BY sex, educ ORDER BY n DESC;

-- answerable
SELECT TOP 5 educ, COUNT(*) AS c FROM pums GROUP BY educ ORDER BY c DESC;

-- answerable
SELECT educ, COUNT(DISTINCT pid) FROM pums GROUP BY educ HAVING COUNT(DISTINCT pid) > 100;

-- answerable
SELECT SUM(income) / COUNT(*) AS mean, SQRT(VAR(income)) AS sd FROM pums;

-- answerable
SELECT VAR(age), STDDEV(age), VARIANCE(income) FROM pums;

-- answerable
SELECT STD(age) FROM pums;

-- answerable
SELECT STDEV(age) AS s FROM pums WHERE age > 20 AND age < 60;

-- answerable
SELECT MIN(age), MAX(age) FROM pums;

-- answerable
SELECT COUNT(DISTINCT educ) FROM pums;

-- answerable
SELECT COUNT(educ) FROM pums WHERE sex = 'f' AND (married = TRUE OR race IN ('a', 'b'));

-- answerable
SELECT race, SUM(CASE WHEN married THEN 1 ELSE 0 END) AS m FROM pums GROUP BY race;

-- answerable
SELECT CASE WHEN age >= 65 THEN 'senior' ELSE 'other' END AS g, COUNT(*) FROM pums GROUP BY CASE WHEN age >= 65 THEN 'senior' ELSE 'other' END;

-- answerable
SELECT ROUND(AVG(age), 1) AS a, FLOOR(SUM(income)) AS s FROM pums;

-- answerable
SELECT educ, 100 * COUNT(*) / (SELECT COUNT(*) FROM pums) AS pct FROM pums GROUP BY educ;

-- answerable
SELECT g.educ, g.n FROM (SELECT educ, COUNT(*) AS n FROM pums GROUP BY educ) AS g WHERE g.n > 10 ORDER BY g.n;

-- answerable
SELECT COUNT(*) FROM (SELECT pid, age FROM pums WHERE income > 10000) AS p;

-- answerable
SELECT COUNT(*) FROM pums AS p WHERE p.age BETWEEN 30 AND 40;

-- answerable
SELECT COUNT(*) FROM pums WHERE NOT (age > 30) AND race IS NOT NULL;

-- answerable
SELECT POWER(age, 2) AS sq, COUNT(*) FROM pums GROUP BY POWER(age, 2);

-- answerable
SELECT SUM(POWER(age, 2)) FROM pums;

-- answerable
SELECT AVG(ABS(income - 20000)) FROM pums;

-- answerable
SELECT AVG(LOG(income + 1)), AVG(LN(income + 1)), AVG(SQRT(income)) FROM pums;

-- answerable
SELECT age + 5 AS a, COUNT(*) FROM pums GROUP BY age + 5;

-- answerable
SELECT age % 10 AS last, COUNT(*) FROM pums GROUP BY last ORDER BY last;

-- answerable
SELECT UPPER(sex) AS s, COUNT(*) FROM pums GROUP BY s;

-- answerable
SELECT educ, COUNT(*) FROM pums GROUP BY educ LIMIT 5;

-- answerable
SELECT educ FROM pums GROUP BY educ;

-- answerable
SELECT DISTINCT educ FROM pums;

-- answerable
SELECT rating, COUNT(*) FROM reviews GROUP BY rating;

-- answerable
SELECT COUNT(*), COUNT(DISTINCT customer_id), AVG(rating) FROM reviews;

-- answerable
SELECT product_key, AVG(rating) FROM reviews GROUP BY product_key HAVING COUNT(*) > 50 ORDER BY AVG(rating) DESC;

-- answerable
SELECT HOUR(wrote) AS h, COUNT(*) FROM reviews GROUP BY HOUR(wrote);

-- answerable
SELECT MONTH(wrote) AS m, YEAR(wrote) AS y, AVG(rating) FROM reviews GROUP BY m, y;

-- answerable
SELECT COUNT(*) FROM pums WHERE age < (SELECT AVG(age) FROM pums);

-- answerable
SELECT COUNT(*) FROM pums WHERE latino = 1;

-- answerable
SELECT APPROX_COUNT_DISTINCT(pid) FROM pums;

-- answerable
SELECT MEDIAN(income) FROM pums;

-- answerable
SELECT PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY income) FROM pums;

-- answerable
SELECT sex, AVG(age) FROM pums GROUP BY sex ORDER BY RANDOM();

-- answerable
SELECT COUNT(*) FROM pums WHERE RANDOM() < 0.1;

-- refused: rows
SELECT age, income FROM pums;

-- refused: rows
SELECT * FROM pums WHERE age > 90;

-- refused: unit-keys
SELECT pid, AVG(income) FROM pums GROUP BY pid;

-- refused: rows
SELECT AVG(age) + income FROM pums GROUP BY income, pid;

-- refused: joins
SELECT COUNT(*) FROM pums AS a, pums AS b WHERE a.age = b.age;

-- refused: names
SELECT AVG(height) FROM pums;

-- answerable
SELECT IIF(age > 40, 'old', 'young') AS o, AVG(income) FROM pums GROUP BY o;

-- answerable
SELECT puma, COUNT(*) AS n FROM pums WHERE puma LIKE '0%' GROUP BY puma ORDER BY n DESC, puma;
