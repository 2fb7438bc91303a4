-- What analysts type when they look around.
-- world: shop

-- answerable
SELECT COUNT(*) FROM users;

-- answerable
SELECT count(distinct user_id) FROM orders WHERE order_date = CURRENT_DATE;

-- answerable
select count(*) from orders where order_date >= current_date - 7;

-- answerable
SELECT strftime(ts, '%Y-%m') AS month, COUNT(*) FROM orders GROUP BY month ORDER BY month;

-- answerable
SELECT date_part('hour', ts) AS h, COUNT(*) FROM events GROUP BY h ORDER BY h;

-- answerable
SELECT dayofweek(ts), count(*) FROM events GROUP BY 1;

-- answerable
SELECT monthname(order_date) AS m, sum(amount) FROM orders GROUP BY m;

-- answerable
SELECT avg(amount), min(amount), max(amount), stddev(amount) FROM orders;

-- answerable
SELECT MIN(age), MAX(age), AVG(age) FROM users;

-- answerable
SELECT plan, max(age) FROM users GROUP BY plan;

-- answerable
SELECT max(order_date) - min(order_date) FROM orders;

-- answerable
SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders);

-- answerable
SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) + 3 * STDDEV(amount) FROM orders);

-- answerable
SELECT country, COUNT(*) FROM users WHERE age > (SELECT MEDIAN(age) FROM users) GROUP BY country;

-- answerable
WITH s AS (SELECT AVG(amount) AS mu, STDDEV(amount) AS sd FROM orders) SELECT COUNT(*) FROM orders, s WHERE ABS(amount - mu) > 2 * sd;

-- answerable
WITH q AS (SELECT quantile_cont(amount, 0.25) AS q1, quantile_cont(amount, 0.75) AS q3 FROM orders) SELECT COUNT(*) AS outliers FROM orders CROSS JOIN q WHERE amount < q1 - 1.5 * (q3 - q1) OR amount > q3 + 1.5 * (q3 - q1);

-- answerable
SELECT status, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM orders) AS pct FROM orders GROUP BY status;

-- answerable
SELECT status, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM orders GROUP BY status;

-- answerable
SELECT COUNT(*) FROM users WHERE user_id IN (SELECT user_id FROM orders);

-- answerable
SELECT COUNT(*) FROM users WHERE user_id NOT IN (SELECT user_id FROM orders WHERE order_date > '2025-01-01');

-- answerable
SELECT avg(age) FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.user_id AND o.amount > 100);

-- answerable
SELECT COUNT(*) FROM orders WHERE user_id IN (SELECT user_id FROM users WHERE country = 'DE' AND age < 30);

-- answerable
SELECT country, count(*) FROM users WHERE user_id IN (SELECT user_id FROM orders GROUP BY user_id HAVING COUNT(*) >= 3) GROUP BY country;

-- answerable
SELECT COUNT(*) FROM products WHERE product_id NOT IN (SELECT product_id FROM orders);

-- answerable
SELECT name FROM products WHERE product_id NOT IN (SELECT DISTINCT product_id FROM orders);

-- answerable
SELECT n, COUNT(*) AS users FROM (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id) GROUP BY n ORDER BY n;

-- answerable
SELECT AVG(n) FROM (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id);

-- answerable
SELECT MEDIAN(n) FROM (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY user_id);

-- answerable
SELECT avg(total) FROM (SELECT user_id, SUM(amount) AS total FROM orders GROUP BY user_id);

-- answerable
SELECT AVG(spent) AS arpu FROM (SELECT user_id, SUM(amount) AS spent FROM orders WHERE order_date >= '2025-01-01' GROUP BY user_id HAVING SUM(amount) > 0);

-- answerable
SELECT AVG(t) FROM (SELECT order_id, SUM(qty * price) AS t FROM order_items GROUP BY order_id);

-- answerable
SELECT CASE WHEN total > 500 THEN 'big' WHEN total > 100 THEN 'medium' ELSE 'small' END AS segment, COUNT(*) FROM (SELECT user_id, SUM(amount) AS total FROM orders GROUP BY user_id) t GROUP BY segment;

-- refused: rows
SELECT DISTINCT ON (user_id) status, amount FROM orders ORDER BY user_id, ts DESC;

-- answerable
SELECT status, COUNT(*) FROM (SELECT DISTINCT ON (user_id) user_id, status FROM orders ORDER BY user_id, ts DESC) GROUP BY status;

-- answerable
SELECT channel, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) AS rn FROM orders) WHERE rn = 1 GROUP BY channel;

-- answerable
SELECT channel, AVG(amount) FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY ts) = 1) GROUP BY channel;

-- answerable
SELECT country, COUNT(*) AS n FROM users GROUP BY country QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) <= 5;

-- answerable
SELECT AVG(gap) FROM (SELECT user_id, date_diff('day', LAG(ts) OVER (PARTITION BY user_id ORDER BY ts), ts) AS gap FROM orders) WHERE gap IS NOT NULL;

-- answerable
SELECT AVG(date_diff('day', u.signup, o.first_order)) FROM users u JOIN (SELECT user_id, MIN(order_date) AS first_order FROM orders GROUP BY user_id) o USING (user_id);

-- answerable
SELECT MEDIAN(date_diff('minute', a, b)) FROM (SELECT user_id, session_id, MIN(ts) AS a, MAX(ts) AS b FROM events GROUP BY user_id, session_id);

-- answerable
SELECT AVG(len) FROM (SELECT user_id, session_id, epoch(MAX(ts)) - epoch(MIN(ts)) AS len FROM events GROUP BY ALL);

-- answerable
SELECT AVG(pages) FROM (SELECT session_id, COUNT(*) AS pages FROM events GROUP BY session_id);

-- answerable
SELECT date_trunc('month', u.signup) AS cohort, date_diff('month', u.signup, o.order_date) AS month_number, COUNT(DISTINCT o.user_id) AS active FROM users u JOIN orders o USING (user_id) GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
WITH first AS (SELECT user_id, date_trunc('month', MIN(order_date)) AS cohort FROM orders GROUP BY user_id) SELECT cohort, date_trunc('month', o.order_date) AS m, COUNT(DISTINCT user_id) FROM first JOIN orders o USING (user_id) GROUP BY ALL;

-- answerable
WITH cohort AS (SELECT user_id, MIN(order_date) AS d0 FROM orders GROUP BY 1), size AS (SELECT date_trunc('month', d0) AS c, COUNT(*) AS n FROM cohort GROUP BY 1), kept AS (SELECT date_trunc('month', d0) AS c, COUNT(DISTINCT o.user_id) AS k FROM cohort JOIN orders o ON o.user_id = cohort.user_id AND o.order_date > d0 + 30 GROUP BY 1) SELECT c, n, k, k / n AS retention FROM size JOIN kept USING (c) ORDER BY c;

-- answerable
SELECT COUNT(DISTINCT a.user_id) * 1.0 / (SELECT COUNT(DISTINCT user_id) FROM events WHERE date_trunc('month', ts) = '2025-01-01') FROM events a JOIN events b ON a.user_id = b.user_id WHERE date_trunc('month', a.ts) = '2025-01-01' AND date_trunc('month', b.ts) = '2025-02-01';

-- answerable
SELECT COUNT(DISTINCT CASE WHEN kind = 'view' THEN user_id END) AS viewed, COUNT(DISTINCT CASE WHEN kind = 'cart' THEN user_id END) AS carted, COUNT(DISTINCT CASE WHEN kind = 'purchase' THEN user_id END) AS bought FROM events;

-- answerable
WITH steps AS (SELECT user_id, MAX(CASE WHEN kind = 'view' THEN 1 ELSE 0 END) AS s1, MAX(CASE WHEN kind = 'cart' THEN 1 ELSE 0 END) AS s2, MAX(CASE WHEN kind = 'purchase' THEN 1 ELSE 0 END) AS s3 FROM events GROUP BY user_id) SELECT SUM(s1), SUM(s1 * s2), SUM(s1 * s2 * s3) FROM steps;

-- answerable
SELECT COUNT(*) FROM (SELECT user_id, MIN(ts) FILTER (WHERE kind = 'view') AS v, MIN(ts) FILTER (WHERE kind = 'purchase') AS p FROM events GROUP BY user_id) WHERE p > v AND p <= v + INTERVAL 1 DAY;

-- answerable
SELECT plan, MEDIAN(n) FROM users JOIN (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY 1) USING (user_id) GROUP BY plan;

-- answerable
SELECT histogram(age) FROM users;

-- answerable
SELECT width_bucket(age, 0, 100, 10) AS b, COUNT(*) FROM users GROUP BY b ORDER BY b;

-- answerable
SELECT floor(age / 5) * 5 AS bin, COUNT(*) FROM users GROUP BY bin ORDER BY bin;

-- answerable
SELECT round(amount, -1) AS bin, COUNT(*) FROM orders GROUP BY bin ORDER BY bin;

-- answerable
SELECT ntile, AVG(amount) FROM (SELECT amount, NTILE(10) OVER (ORDER BY amount) AS ntile FROM orders) GROUP BY ntile;

-- refused: unit-keys
PIVOT orders ON status USING COUNT(*);

-- answerable
PIVOT (SELECT channel, status, amount FROM orders) ON status USING SUM(amount) GROUP BY channel;

-- answerable
SUMMARIZE orders;

-- answerable
SUMMARIZE SELECT amount, quantity FROM orders;

-- answerable
FROM orders SELECT COUNT(*);

-- refused: rows
FROM orders;

-- refused: rows
SELECT * FROM users LIMIT 10;

-- refused: rows
SELECT * FROM orders ORDER BY amount DESC LIMIT 5;

-- refused: rows
SELECT name, age FROM users WHERE age = (SELECT MAX(age) FROM users);

-- refused: unit-keys
SELECT user_id, SUM(amount) FROM orders GROUP BY user_id ORDER BY 2 DESC LIMIT 10;

-- refused: unit-keys
SELECT user_id, COUNT(*) FROM events GROUP BY user_id HAVING COUNT(*) > 100;

-- refused: unit-keys
SELECT COUNT(*), order_id FROM order_items GROUP BY order_id;

-- refused: unit-keys
SELECT DISTINCT user_id FROM orders WHERE status = 'returned';

-- refused: joins
SELECT a.name, COUNT(*) FROM users a JOIN users b ON a.manager_id = b.user_id GROUP BY a.name;

-- refused: joins
SELECT COUNT(*) FROM users a, users b WHERE a.city = b.city AND a.user_id < b.user_id;

-- refused: conditions
SELECT COUNT(*) FROM orders WHERE coupon = 10;

-- refused: names
SELECT COUNT(*) FROM customers;

-- refused: names
SELECT SUM(total_amount) FROM orders;

-- refused: other-statements
DELETE FROM orders WHERE order_date < '2020-01-01';

-- refused: other-statements
UPDATE users SET plan = 'free' WHERE user_id = 1;

-- refused: other-statements
COPY (SELECT * FROM users) TO 'users.csv';

-- answerable
SELECT channel, SUM(amount) AS s FROM orders GROUP BY channel ORDER BY s DESC LIMIT 3;

-- answerable
SELECT channel, product_id, COUNT(*) FROM orders GROUP BY ALL ORDER BY COUNT(*) DESC LIMIT 10;

-- answerable
SELECT p.name, COUNT(DISTINCT o.user_id) AS buyers FROM orders o JOIN products p USING (product_id) GROUP BY p.name ORDER BY buyers DESC LIMIT 1;

-- answerable
SELECT p.name, COUNT(o.order_id) FROM products p LEFT JOIN orders o USING (product_id) GROUP BY p.name;

-- answerable
SELECT p.name, COUNT(*) FROM products p LEFT JOIN orders o USING (product_id) GROUP BY p.name;

-- answerable
SELECT SUM(o.quantity * p.list_price) FROM orders o JOIN products p USING (product_id);

-- answerable
SELECT AVG(o.amount / o.quantity) FROM orders o WHERE quantity > 0;

-- answerable
SELECT AVG(amount / NULLIF(quantity, 0)) FROM orders;

-- answerable
SELECT AVG(ln(amount + 1)) FROM orders;

-- answerable
SELECT exp(avg(ln(amount))) AS geometric_mean FROM orders WHERE amount > 0;

-- answerable
SELECT sqrt(avg(amount * amount) - avg(amount) * avg(amount)) FROM orders;

-- answerable
SELECT corr(age, n) FROM users JOIN (SELECT user_id, COUNT(*) AS n FROM orders GROUP BY 1) USING (user_id);

-- answerable
SELECT regr_slope(amount, quantity), regr_intercept(amount, quantity) FROM orders;

-- answerable
SELECT skewness(amount), kurtosis(amount) FROM orders;

-- answerable
SELECT mode(status) FROM orders;

-- answerable
SELECT mode() WITHIN GROUP (ORDER BY channel) FROM orders;

-- answerable
SELECT any_value(channel) FROM orders;

-- answerable
SELECT COUNT(DISTINCT (country, city)) FROM users;

-- answerable
SELECT COUNT(*) FROM (SELECT DISTINCT country, city FROM users);

-- answerable
SELECT approx_count_distinct(user_id) FROM events;

-- answerable
SELECT approx_quantile(amount, 0.5) FROM orders;

-- answerable
SELECT quantile_cont(amount, [0.25, 0.5, 0.75]) FROM orders;

-- answerable
SELECT arg_max(channel, amount) FROM orders;

-- answerable
SELECT last_channel, COUNT(*) FROM (SELECT user_id, arg_max(channel, ts) AS last_channel FROM orders GROUP BY user_id) GROUP BY last_channel;

-- answerable
SELECT COUNT(*) FROM events WHERE page LIKE '/product/%';

-- answerable
SELECT COUNT(*) FROM events WHERE regexp_matches(page, '^/p(roduct)?/');

-- answerable
SELECT COUNT(*) FROM events WHERE page ~ '/checkout/[0-9]+';

-- answerable
SELECT COUNT(*) FROM events WHERE page SIMILAR TO '/cart.*';

-- answerable
SELECT COUNT(*) FROM users WHERE email ILIKE '%@gmail.com';

-- answerable
SELECT split_part(email, '@', 2) AS domain, COUNT(*) FROM users GROUP BY domain ORDER BY 2 DESC LIMIT 20;

-- answerable
SELECT left(city, 1) AS initial, COUNT(*) FROM users GROUP BY initial;

-- answerable
SELECT upper(trim(city)), COUNT(*) FROM users GROUP BY 1;

-- answerable
SELECT replace(channel, '_', ' ') AS ch, COUNT(*) FROM orders GROUP BY ch;

-- answerable
SELECT length(name) AS l, COUNT(*) FROM users GROUP BY l;

-- answerable
SELECT COUNT(*) FILTER (WHERE coupon IS NULL) AS without, COUNT(coupon) AS with_coupon FROM orders;

-- answerable
SELECT SUM(coupon IS NULL) / COUNT(*) FROM orders;

-- answerable
SELECT SUM(amount) FROM orders WHERE order_date BETWEEN '2025-01-01' AND '2025-03-31';

-- answerable
SELECT SUM(amount) FROM orders WHERE year(order_date) = 2025 AND month(order_date) IN (1, 2, 3);

-- refused: invalid
SELECT SUM(amount) FROM orders WHERE ts >= '2025-01';

-- answerable
SELECT order_date, SUM(amount), SUM(SUM(amount)) OVER (ORDER BY order_date) FROM orders WHERE order_date >= '2025-01-01' AND order_date < '2025-02-01' GROUP BY order_date;

-- answerable
SELECT week(order_date) AS w, COUNT(*) FROM orders WHERE year(order_date) = year(today()) GROUP BY w;

-- answerable
SELECT now(), COUNT(*) FROM orders;

-- answerable
SELECT current_date, COUNT(*) FROM orders;

-- answerable
SELECT COUNT(*) FROM orders WHERE ts > now() - INTERVAL '24 hours';

-- answerable
SELECT age(max(ts)) FROM orders;

-- answerable
SELECT time_bucket(INTERVAL '15 minutes', ts) AS t, COUNT(*) FROM events GROUP BY t ORDER BY t;

-- answerable
SELECT is_weekend, AVG(amount) FROM (SELECT amount, dayofweek(ts) IN (0, 6) AS is_weekend FROM orders) GROUP BY is_weekend;

-- answerable
SELECT t.label, COUNT(*) FROM users JOIN (VALUES (0, 18, 'child'), (18, 65, 'adult'), (65, 150, 'old')) AS t(lo, hi, label) ON age >= lo AND age < hi GROUP BY t.label;

-- answerable
SELECT d.ds, COUNT(o.order_id) FROM calendar d LEFT JOIN orders o ON o.order_date = d.ds WHERE d.ds BETWEEN '2025-01-01' AND '2025-01-31' GROUP BY d.ds ORDER BY 1;

-- answerable
SELECT g.d, COUNT(o.order_id) FROM generate_series(DATE '2025-01-01', DATE '2025-01-31', INTERVAL 1 DAY) g(d) LEFT JOIN orders o ON o.order_date = g.d GROUP BY 1;

-- answerable
SELECT kind, device, COUNT(*) FROM events GROUP BY CUBE (kind, device);

-- answerable
SELECT COUNT(*) FROM orders TABLESAMPLE 10%;

-- answerable
SELECT COUNT(*) FROM orders USING SAMPLE 1000 ROWS;

-- answerable
SELECT AVG(amount) FROM (SELECT amount FROM orders ORDER BY ts DESC LIMIT 1000);

-- answerable
SELECT u.country, SUM(o.amount) / COUNT(DISTINCT u.user_id) AS per_head FROM users u LEFT JOIN orders o ON u.user_id = o.user_id GROUP BY u.country ORDER BY per_head DESC;

-- answerable
SELECT COUNT(*) FROM users u LEFT JOIN orders o USING (user_id) WHERE o.order_id IS NULL;

-- answerable
SELECT COUNT(*) FROM users u FULL OUTER JOIN orders o ON u.user_id = o.user_id;

-- answerable
SELECT plan, COUNT(*) FROM users GROUP BY plan HAVING COUNT(*) > 10 AND AVG(age) < 40;

-- answerable
SELECT plan, CASE WHEN AVG(age) > 40 THEN 'older' ELSE 'younger' END FROM users GROUP BY plan;

-- answerable
SELECT a.country, a.n AS users, b.n AS events FROM (SELECT country, COUNT(*) n FROM users GROUP BY 1) a LEFT JOIN (SELECT country, COUNT(*) n FROM events GROUP BY 1) b USING (country);

-- answerable
SELECT COUNT(*) AS churned FROM users WHERE user_id IN (SELECT user_id FROM events GROUP BY user_id HAVING MAX(ts) < CURRENT_DATE - INTERVAL 30 DAY);

-- answerable
SELECT COUNT(*) FROM (SELECT user_id FROM orders WHERE year(ts) = 2024 INTERSECT SELECT user_id FROM orders WHERE year(ts) = 2025);

-- answerable
SELECT COUNT(*) FROM (SELECT user_id FROM orders WHERE year(ts) = 2024 EXCEPT SELECT user_id FROM orders WHERE year(ts) = 2025);

-- answerable
SELECT 'orders' AS t, COUNT(*) FROM orders UNION ALL SELECT 'events', COUNT(*) FROM events UNION ALL SELECT 'users', COUNT(*) FROM users;

-- answerable
SELECT * FROM (SELECT country, count(*) AS n FROM users GROUP BY country) WHERE n > 100 ORDER BY n DESC;

-- answerable
SELECT * EXCLUDE (n) FROM (SELECT country, avg(age) AS a, count(*) AS n FROM users GROUP BY country);

-- answerable
SELECT COLUMNS('a.*') FROM (SELECT avg(age) AS a, avg(age) AS a2 FROM users);

-- answerable
SELECT AVG(COLUMNS(['amount', 'discount'])) FROM orders;

-- answerable
SELECT amount > 100 AS big, COUNT(*) FROM orders WHERE big GROUP BY big;

-- answerable
SELECT COUNT(*) FROM users WHERE age BETWEEN 18 AND 25 OR age IS NULL;

-- answerable
SELECT COUNT(*) FROM users WHERE age >= 18.0;

-- answerable
SELECT COUNT(*) FROM orders WHERE quantity BETWEEN 1.5 AND 3;

-- answerable
SELECT gender, AVG(age) FROM users GROUP BY gender UNION ALL SELECT 'all', AVG(age) FROM users;

-- answerable
SELECT sum(if(status = 'paid', amount, 0)) FROM orders;

-- answerable
SELECT nullif(sum(amount), 0) / nullif(count(*), 0) FROM orders;

-- answerable
SELECT status, bar(count(*), 0, 1000, 20) FROM orders GROUP BY status;

-- answerable
SELECT bool_and(amount > 0) FROM orders;

-- answerable
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders i WHERE i.user_id = o.user_id);

-- answerable
SELECT SUM(mx) FROM (SELECT user_id, MAX(amount) AS mx FROM orders GROUP BY user_id);

-- answerable
SELECT AVG(d) FROM (SELECT user_id, COUNT(DISTINCT order_date) AS d FROM orders GROUP BY user_id);

-- answerable
SELECT AVG(top.share) FROM (SELECT user_id, MAX(amount) / SUM(amount) AS share FROM orders GROUP BY user_id) top;

-- answerable
SELECT SUM(amount) FILTER (WHERE rk <= 10) / SUM(amount) FROM (SELECT amount, RANK() OVER (ORDER BY amount DESC) AS rk FROM orders);
