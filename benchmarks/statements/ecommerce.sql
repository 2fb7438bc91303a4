-- What analysts, dashboards and models of dbt ask of an online shop.
-- world: retail

-- answerable
SELECT date_trunc('week', order_ts) AS wk, SUM(total) AS revenue, COUNT(DISTINCT customer_id) AS buyers FROM orders GROUP BY 1 ORDER BY 1;

-- answerable
SELECT SUM(total - tax - shipping) AS net_revenue FROM orders WHERE status = 'completed' AND order_date >= '2025-01-01' AND order_date < '2025-04-01';

-- answerable
SELECT channel, SUM(total) AS rev, SUM(total) * 100.0 / SUM(SUM(total)) OVER () AS pct FROM orders GROUP BY channel;

-- answerable
SELECT p.category, SUM(l.quantity * l.unit_price * (1 - l.discount_pct)) AS revenue, SUM(l.quantity * (l.unit_price - p.cost)) AS margin FROM order_lines l JOIN products p USING (product_id) GROUP BY p.category ORDER BY revenue DESC;

-- answerable
WITH monthly AS (SELECT date_trunc('month', order_date) AS m, SUM(total) AS rev FROM orders WHERE status <> 'cancelled' GROUP BY 1) SELECT m, rev, LAG(rev) OVER (ORDER BY m) AS prev, rev / LAG(rev) OVER (ORDER BY m) - 1 AS mom FROM monthly ORDER BY m;

-- answerable
WITH monthly AS (SELECT date_trunc('month', order_date) AS m, SUM(total) AS rev FROM orders GROUP BY 1) SELECT a.m, a.rev, b.rev AS last_year, (a.rev - b.rev) / b.rev AS yoy FROM monthly a LEFT JOIN monthly b ON a.m = b.m + INTERVAL '1 year';

-- answerable
SELECT m, rev, AVG(rev) OVER (ORDER BY m ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS ma3 FROM (SELECT date_trunc('month', order_date) AS m, SUM(total) AS rev FROM orders GROUP BY 1);

-- answerable
WITH cat AS (SELECT p.category, SUM(l.quantity * l.unit_price) AS rev FROM order_lines l JOIN products p ON p.product_id = l.product_id GROUP BY 1), c AS (SELECT category, rev, SUM(rev) OVER (ORDER BY rev DESC) / SUM(rev) OVER () AS cum FROM cat) SELECT category, rev, CASE WHEN cum <= 0.8 THEN 'A' WHEN cum <= 0.95 THEN 'B' ELSE 'C' END AS abc FROM c;

-- answerable
WITH rfm AS (SELECT customer_id, date_diff('day', MAX(order_date), DATE '2025-06-30') AS recency, COUNT(*) AS frequency, SUM(total) AS monetary FROM orders WHERE status = 'completed' GROUP BY customer_id) SELECT CASE WHEN recency <= 30 AND frequency >= 5 THEN 'Champions' WHEN recency <= 90 THEN 'Active' WHEN recency <= 180 THEN 'At risk' ELSE 'Lost' END AS segment, COUNT(*) AS customers, AVG(monetary) AS avg_value FROM rfm GROUP BY 1 ORDER BY 2 DESC;

-- answerable
WITH rfm AS (SELECT customer_id, MAX(order_date) AS last_order, COUNT(DISTINCT order_id) AS f, SUM(total) AS m FROM orders GROUP BY customer_id), scored AS (SELECT *, NTILE(5) OVER (ORDER BY last_order) AS r_score, NTILE(5) OVER (ORDER BY f) AS f_score FROM rfm) SELECT r_score, f_score, COUNT(*) FROM scored GROUP BY 1, 2;

-- answerable
SELECT AVG(cnt) AS avg_orders_per_customer FROM (SELECT customer_id, COUNT(order_id) AS cnt FROM orders GROUP BY customer_id) t;

-- answerable
SELECT COUNT(*) FILTER (WHERE n > 1) * 1.0 / COUNT(*) AS repeat_rate FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY 1);

-- answerable
WITH first_orders AS (SELECT customer_id, MIN(order_date) AS first_date FROM orders GROUP BY customer_id) SELECT date_trunc('month', f.first_date) AS cohort, date_diff('month', date_trunc('month', f.first_date), date_trunc('month', o.order_date)) AS period, COUNT(DISTINCT o.customer_id) AS customers FROM orders o JOIN first_orders f USING (customer_id) GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
WITH o AS (SELECT customer_id, order_date, LAG(order_date) OVER (PARTITION BY customer_id ORDER BY order_date) AS prev_date FROM orders) SELECT AVG(order_date - prev_date) AS avg_days_between FROM o WHERE prev_date IS NOT NULL;

-- answerable
WITH o AS (SELECT customer_id, order_date, LEAD(order_date) OVER (PARTITION BY customer_id ORDER BY order_date) AS next_date FROM orders) SELECT COUNT(*) AS churned FROM o WHERE next_date IS NULL AND order_date < DATE '2025-06-30' - INTERVAL '90 days';

-- answerable
SELECT CASE WHEN rn = 1 THEN 'new' ELSE 'returning' END AS kind, date_trunc('month', order_date) AS m, SUM(total) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_ts) AS rn FROM orders) GROUP BY 1, 2;

-- answerable
SELECT promo_code, COUNT(*) AS uses, AVG(total) AS aov FROM orders WHERE promo_code IS NOT NULL GROUP BY promo_code HAVING COUNT(*) >= 10 ORDER BY uses DESC LIMIT 20;

-- answerable
SELECT EXTRACT(DOW FROM order_ts) AS dow, EXTRACT(HOUR FROM order_ts) AS hr, COUNT(*) FROM orders GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
SELECT s.region, s.store_name, COUNT(o.order_id) AS orders, SUM(o.total) AS sales FROM stores s LEFT JOIN orders o ON o.store_id = s.store_id GROUP BY s.region, s.store_name;

-- answerable
SELECT d.fiscal_period, COALESCE(SUM(o.total), 0) AS sales FROM dim_date d LEFT JOIN orders o ON o.order_date = d.date_day WHERE d.year = 2025 GROUP BY d.fiscal_period ORDER BY 1;

-- answerable
SELECT d.is_weekend, AVG(o.total) FROM orders o JOIN dim_date d ON d.date_day = o.order_date GROUP BY d.is_weekend;

-- answerable
SELECT SUM(o.total * f.rate) AS revenue_eur FROM orders o JOIN fx_rates f ON f.currency = o.currency AND f.month_start = date_trunc('month', o.order_date);

-- answerable
SELECT o.currency, SUM(o.total * COALESCE(f.rate, 1)) FROM orders o LEFT JOIN fx_rates f ON f.currency = o.currency AND f.month_start = date_trunc('month', o.order_date)::DATE GROUP BY 1;

-- answerable
SELECT AVG(delivered_on - shipped_on) AS avg_transit, MAX(delivered_on - shipped_on) AS worst FROM orders WHERE delivered_on IS NOT NULL;

-- answerable
SELECT PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY delivered_on - order_date) AS p95_lead_time FROM orders;

-- answerable
SELECT store_id, AVG(CASE WHEN delivered_on <= shipped_on + 3 THEN 1.0 ELSE 0.0 END) AS on_time_rate FROM orders WHERE shipped_on IS NOT NULL GROUP BY store_id;

-- answerable
SELECT p.brand, AVG(r.stars) AS rating, COUNT(*) AS n FROM reviews r JOIN products p USING (product_id) GROUP BY p.brand HAVING COUNT(*) > 5 ORDER BY rating DESC;

-- answerable
SELECT stars, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM reviews GROUP BY stars ORDER BY stars;

-- answerable
SELECT p.product_name, COUNT(CASE WHEN r.stars >= 4 THEN 1 END) - COUNT(CASE WHEN r.stars <= 2 THEN 1 END) AS net FROM reviews r JOIN products p ON r.product_id = p.product_id GROUP BY 1 ORDER BY net DESC LIMIT 5;

-- answerable
SELECT COUNT(DISTINCT c.customer_id) FROM customers c JOIN orders o ON c.customer_id = o.customer_id JOIN order_lines l ON l.order_id = o.order_id JOIN products p ON p.product_id = l.product_id WHERE p.category = 'Home' AND c.country = 'DE';

-- answerable
SELECT c.country, SUM(l.quantity) AS units FROM customers c JOIN orders o USING (customer_id) JOIN order_lines l USING (order_id) GROUP BY c.country ORDER BY units DESC LIMIT 10;

-- answerable
SELECT c.segment, p.category, SUM(l.quantity * l.unit_price) FROM order_lines l, orders o, customers c, products p WHERE l.order_id = o.order_id AND o.customer_id = c.customer_id AND p.product_id = l.product_id GROUP BY c.segment, p.category;

-- answerable
SELECT a.product_id AS p1, b.product_id AS p2, COUNT(*) AS together FROM order_lines a JOIN order_lines b ON a.order_id = b.order_id AND a.product_id < b.product_id GROUP BY 1, 2 ORDER BY together DESC LIMIT 20;

-- answerable
SELECT AVG(basket) FROM (SELECT order_id, SUM(quantity) AS basket FROM order_lines GROUP BY order_id);

-- answerable
SELECT items, COUNT(*) FROM (SELECT order_id, COUNT(DISTINCT product_id) AS items FROM order_lines GROUP BY order_id) GROUP BY items ORDER BY items;

-- answerable
SELECT method, COUNT(*) AS attempts, AVG(CASE WHEN success THEN 1 ELSE 0 END) AS success_rate FROM payments GROUP BY method;

-- answerable
SELECT method, SUM(amount) FROM payments WHERE success GROUP BY ROLLUP (method);

-- answerable
SELECT COALESCE(c.country, 'All') AS country, COALESCE(c.segment, 'All') AS seg, SUM(o.total) FROM orders o JOIN customers c USING (customer_id) GROUP BY ROLLUP (c.country, c.segment);

-- answerable
SELECT GROUPING(country) AS g, country, COUNT(*) FROM customers GROUP BY GROUPING SETS ((country), ());

-- answerable
SELECT year(order_date) AS y, SUM(total) FILTER (WHERE quarter(order_date) = 1) AS q1, SUM(total) FILTER (WHERE quarter(order_date) = 2) AS q2, SUM(total) FILTER (WHERE quarter(order_date) = 3) AS q3, SUM(total) FILTER (WHERE quarter(order_date) = 4) AS q4 FROM orders GROUP BY y ORDER BY y;

-- answerable
SELECT country, COUNT(*) FROM customers WHERE age(DATE '2025-06-30', birth_date) >= INTERVAL '18 years' GROUP BY country;

-- answerable
SELECT CASE WHEN date_part('year', age(birth_date)) < 25 THEN '<25' WHEN date_part('year', age(birth_date)) < 45 THEN '25-44' ELSE '45+' END AS age_group, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT floor((DATE '2025-06-30' - birth_date) / 365.25 / 10) * 10 AS decade, COUNT(*) FROM customers GROUP BY 1 ORDER BY 1;

-- answerable
SELECT split_part(email, '@', 2) AS domain, COUNT(*) AS n FROM customers GROUP BY domain ORDER BY n DESC LIMIT 10;

-- answerable
SELECT lower(trim(city)) AS city, COUNT(*) FROM customers WHERE city IS NOT NULL AND city <> '' GROUP BY 1;

-- answerable
SELECT substr(last_name, 1, 1) AS initial, COUNT(*) FROM customers GROUP BY 1 ORDER BY 1;

-- answerable
SELECT COUNT(*) FROM customers WHERE email NOT LIKE '%@%.%' OR email IS NULL;

-- answerable
SELECT COUNT(*) AS total, COUNT(email) AS with_email, COUNT(*) - COUNT(email) AS missing, COUNT(DISTINCT email) AS distinct_emails FROM customers;

-- answerable
SELECT COUNT(*) FROM (SELECT customer_id FROM orders WHERE channel = 'web' INTERSECT SELECT customer_id FROM orders WHERE channel = 'app');

-- answerable
SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(DISTINCT channel) >= 2);

-- answerable
SELECT COUNT(*) FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND o.order_date >= '2025-01-01');

-- answerable
SELECT c.acquisition_channel, COUNT(DISTINCT c.customer_id) AS signups, COUNT(DISTINCT o.customer_id) AS buyers, COUNT(DISTINCT o.customer_id)::DOUBLE / COUNT(DISTINCT c.customer_id) AS conv FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY 1;

-- answerable
SELECT c.acquisition_channel, AVG(ltv) FROM customers c JOIN (SELECT customer_id, SUM(total) AS ltv FROM orders GROUP BY customer_id) x USING (customer_id) GROUP BY 1;

-- answerable
SELECT c.acquisition_channel, AVG(COALESCE(x.ltv, 0)) AS ltv FROM customers c LEFT JOIN (SELECT customer_id, SUM(total) AS ltv FROM orders GROUP BY customer_id) x ON x.customer_id = c.customer_id GROUP BY c.acquisition_channel;

-- answerable
SELECT date_trunc('month', c.created_at) AS cohort, SUM(CASE WHEN o.order_date <= c.created_at::DATE + 30 THEN o.total END) AS rev_30d, SUM(CASE WHEN o.order_date <= c.created_at::DATE + 90 THEN o.total END) AS rev_90d FROM customers c JOIN orders o USING (customer_id) GROUP BY 1;

-- answerable
WITH b AS (SELECT customer_id, SUM(total) AS spend FROM orders GROUP BY 1), r AS (SELECT spend, PERCENT_RANK() OVER (ORDER BY spend DESC) AS pr FROM b) SELECT SUM(CASE WHEN pr <= 0.2 THEN spend ELSE 0 END) / SUM(spend) AS top20_share FROM r;

-- answerable
SELECT APPROX_QUANTILE(total, 0.5) AS p50, APPROX_QUANTILE(total, 0.9) AS p90 FROM orders;

-- answerable
SELECT STDDEV(total) / AVG(total) AS cv FROM orders WHERE status = 'completed';

-- answerable
SELECT store_id, total_sales, RANK() OVER (ORDER BY total_sales DESC) AS rk FROM (SELECT store_id, SUM(total) AS total_sales FROM orders GROUP BY store_id) s ORDER BY rk;

-- answerable
SELECT * FROM (SELECT country, city, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY country ORDER BY COUNT(*) DESC, city) AS rn FROM customers GROUP BY country, city) WHERE rn <= 3;

-- refused: rows
SELECT customer_id, first_name, total FROM orders JOIN customers USING (customer_id) ORDER BY total DESC LIMIT 10;

-- refused: unit-keys
SELECT customer_id, SUM(total) FROM orders GROUP BY customer_id ORDER BY 2 DESC LIMIT 5;

-- refused: unit-keys
SELECT email, COUNT(*) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.customer_id, email;

-- answerable
SELECT o.status, string_agg(DISTINCT o.channel, ', ') AS channels FROM orders o GROUP BY o.status;

-- answerable
SELECT path, COUNT(*) AS n FROM (SELECT customer_id, string_agg(channel, ' > ' ORDER BY order_ts) AS path FROM orders GROUP BY customer_id) GROUP BY path ORDER BY n DESC LIMIT 10;

-- answerable
SELECT len, COUNT(*) FROM (SELECT customer_id, len(array_agg(DISTINCT channel)) AS len FROM orders GROUP BY customer_id) GROUP BY len;

-- answerable
SELECT basket, COUNT(*) FROM (SELECT order_id, list_sort(list(DISTINCT product_id)) AS basket FROM order_lines GROUP BY order_id) GROUP BY basket ORDER BY 2 DESC LIMIT 10;

-- answerable
SELECT combo, COUNT(*) FROM (SELECT o.customer_id, string_agg(DISTINCT p.category, ',' ORDER BY p.category) AS combo FROM orders o JOIN order_lines l USING (order_id) JOIN products p USING (product_id) GROUP BY o.customer_id) GROUP BY combo ORDER BY 2 DESC;

-- answerable
SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING list_contains(list(status), 'refunded'));

-- answerable
SELECT AVG(rolling) FROM (SELECT customer_id, SUM(total) OVER (PARTITION BY customer_id ORDER BY order_date RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND CURRENT ROW) AS rolling FROM orders);

-- answerable
SELECT COUNT(DISTINCT customer_id) FROM (SELECT customer_id, COUNT(*) OVER (PARTITION BY customer_id ORDER BY order_ts RANGE BETWEEN INTERVAL '7 days' PRECEDING AND CURRENT ROW) AS n7 FROM orders) WHERE n7 >= 3;

-- answerable
SELECT COUNT(*) FROM (SELECT customer_id, order_date, MAX(total) OVER (PARTITION BY customer_id ORDER BY order_date ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best_before, total FROM orders) WHERE total > best_before;

-- answerable
SELECT AVG(total - first_total) FROM (SELECT customer_id, total, FIRST_VALUE(total) OVER (PARTITION BY customer_id ORDER BY order_ts) AS first_total FROM orders);

-- answerable
SELECT channel, COUNT(*) FROM (SELECT DISTINCT ON (customer_id) customer_id, channel FROM orders ORDER BY customer_id, order_ts DESC) GROUP BY channel;

-- answerable
SELECT first_channel, last_channel, COUNT(*) FROM (SELECT customer_id, arg_min(channel, order_ts) AS first_channel, arg_max(channel, order_ts) AS last_channel FROM orders GROUP BY customer_id) GROUP BY 1, 2;

-- answerable
SELECT first_channel, COUNT(*) FROM (SELECT customer_id, FIRST(channel ORDER BY order_ts) AS first_channel FROM orders GROUP BY customer_id) GROUP BY 1;

-- answerable
SELECT (SELECT COUNT(*) FROM orders WHERE status = 'refunded') * 100.0 / (SELECT COUNT(*) FROM orders) AS refund_pct;

-- answerable
SELECT category, rev, rev / (SELECT SUM(quantity * unit_price) FROM order_lines) AS share FROM (SELECT p.category, SUM(l.quantity * l.unit_price) AS rev FROM order_lines l JOIN products p USING (product_id) GROUP BY 1);

-- answerable
SELECT COUNT(*) FROM orders WHERE total > (SELECT quantile_cont(total, 0.99) FROM orders);

-- answerable
SELECT p.category, COUNT(*) FROM order_lines l JOIN products p USING (product_id) WHERE l.unit_price < p.list_price * 0.9 GROUP BY p.category;

-- answerable
SELECT COUNT(*) FROM order_lines l WHERE l.unit_price > (SELECT p.list_price FROM products p WHERE p.product_id = l.product_id);

-- answerable
SELECT p.category, AVG(l.quantity) FROM order_lines l JOIN products p USING (product_id) WHERE p.product_id IN (SELECT product_id FROM products WHERE launched >= '2023-01-01') GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM order_lines l JOIN orders o USING (order_id) JOIN products p USING (product_id) WHERE o.order_date < p.launched;

-- answerable
WITH daily AS (SELECT order_date, SUM(total) AS s FROM orders GROUP BY order_date) SELECT AVG(s), STDDEV(s), MIN(s), MAX(s) FROM daily;

-- answerable
WITH daily AS (SELECT order_date AS d, COUNT(*) AS n FROM orders GROUP BY 1) SELECT d, n, SUM(n) OVER (ORDER BY d) AS running_total FROM daily ORDER BY d;

-- answerable
SELECT d, SUM(n) OVER (ORDER BY d RANGE BETWEEN INTERVAL 6 DAYS PRECEDING AND CURRENT ROW) AS rolling7 FROM (SELECT order_date AS d, COUNT(*) AS n FROM orders GROUP BY 1);

-- answerable
SELECT date_trunc('month', order_date) AS m, COUNT(DISTINCT customer_id) FILTER (WHERE status = 'completed') AS active, COUNT(DISTINCT CASE WHEN status = 'refunded' THEN customer_id END) AS refunders FROM orders GROUP BY ALL ORDER BY ALL;

-- answerable
SELECT CAST(order_ts AS DATE) AS day, channel, COUNT(*) AS c FROM orders WHERE order_ts BETWEEN TIMESTAMP '2025-05-01 00:00:00' AND TIMESTAMP '2025-05-31 23:59:59' GROUP BY CAST(order_ts AS DATE), channel;

-- answerable
SELECT strftime(order_ts, '%G-W%V') AS isoweek, COUNT(*) FROM orders GROUP BY 1;

-- answerable
SELECT monthname(order_ts) || ' ' || year(order_ts) AS label, SUM(total) FROM orders GROUP BY 1;

-- answerable
SELECT CASE WHEN total < 50 THEN '0-50' WHEN total < 100 THEN '50-100' WHEN total < 500 THEN '100-500' ELSE '500+' END AS bucket, COUNT(*), SUM(total) FROM orders GROUP BY 1 ORDER BY MIN(total);

-- answerable
SELECT width_bucket(total, 0, 1000, 10) AS b, COUNT(*) FROM orders GROUP BY b ORDER BY b;

-- answerable
SELECT round(total / 50) * 50 AS bin, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1;

-- answerable
SELECT c.city, COUNT(*) FROM customers c WHERE c.customer_id IN (SELECT o.customer_id FROM orders o JOIN order_lines l ON l.order_id = o.order_id WHERE l.product_id = 4) GROUP BY c.city;

-- answerable
SELECT COUNT(DISTINCT o.order_id) FROM orders o WHERE o.order_id NOT IN (SELECT order_id FROM payments WHERE success);

-- answerable
SELECT COUNT(*) FROM orders o LEFT JOIN payments p ON p.order_id = o.order_id WHERE p.payment_id IS NULL;

-- answerable
SELECT SUM(o.total) - SUM(p.paid) FROM orders o JOIN (SELECT order_id, SUM(amount) AS paid FROM payments WHERE success GROUP BY order_id) p USING (order_id);

-- answerable
SELECT o.channel, AVG(epoch(p.paid_at) - epoch(o.order_ts)) / 60 AS minutes_to_pay FROM orders o JOIN payments p USING (order_id) GROUP BY o.channel;

-- answerable
SELECT hash(customer_id) % 10 AS bucket, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT CASE customer_id % 2 WHEN 0 THEN 'control' ELSE 'test' END AS arm, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM customers WHERE city GLOB 'B*';

-- answerable
SELECT COUNT(*) FROM orders WHERE order_date BETWEEN DATE '2025-06-30' - INTERVAL 1 YEAR AND DATE '2025-06-30';

-- answerable
SELECT order_date + INTERVAL 1 MONTH AS due, COUNT(*) FROM orders GROUP BY due ORDER BY due;

-- answerable
SELECT date_diff('month', created_at, order_ts) AS months_since_signup, COUNT(*) FROM orders JOIN customers USING (customer_id) GROUP BY 1;

-- answerable
SELECT datediff('day', c.created_at, o.first_ts) AS d, COUNT(*) FROM customers c JOIN (SELECT customer_id, MIN(order_ts) AS first_ts FROM orders GROUP BY 1) o USING (customer_id) GROUP BY 1;

-- answerable
SELECT status, COUNT(*) AS n FROM orders GROUP BY status UNION ALL SELECT 'total', COUNT(*) FROM orders;

-- answerable
SELECT status, COUNT(*) FROM orders WHERE channel IN ('web', 'app') AND (promo_code IS NULL OR promo_code <> 'TEST') GROUP BY status ORDER BY CASE status WHEN 'completed' THEN 1 WHEN 'pending' THEN 2 ELSE 3 END;

-- answerable
SELECT MAX(total) FILTER (WHERE channel = 'web') AS max_web, MIN(total) AS min_all FROM orders;

-- answerable
SELECT o.order_date, COUNT(*) FROM orders o ASOF JOIN fx_rates f ON o.currency = f.currency AND o.order_date >= f.month_start GROUP BY 1;

-- answerable
SELECT AVG(o.total * f.rate) FROM orders o ASOF LEFT JOIN fx_rates f ON o.currency = f.currency AND o.order_date >= f.month_start;

-- answerable
SELECT c.segment, x.last_stars, COUNT(*) FROM customers c ASOF JOIN (SELECT customer_id, reviewed_on, stars AS last_stars FROM reviews) x ON c.customer_id = x.customer_id AND c.birth_date <= x.reviewed_on GROUP BY 1, 2;

-- refused: rows
SELECT p.category, l.* EXCLUDE (line_id, order_id) FROM order_lines l JOIN products p USING (product_id) LIMIT 5;

-- answerable
SELECT COUNT(*) FROM orders o JOIN LATERAL (SELECT SUM(l.quantity) AS q FROM order_lines l WHERE l.order_id = o.order_id) t ON true WHERE t.q > 3;

-- answerable
SELECT channel, MEDIAN(total) AS med, MODE(status) AS usual FROM orders GROUP BY channel;

-- answerable
SELECT channel, AVG(total) AS a, AVG(total) - (SELECT AVG(total) FROM orders) AS diff FROM orders GROUP BY channel;

-- answerable
SELECT s.store_name, t.n FROM stores s CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.store_id = s.store_id) t;

-- answerable
SELECT s.store_name, (SELECT COUNT(*) FROM orders o WHERE o.store_id = s.store_id) AS n FROM stores s ORDER BY n DESC;

-- answerable
SELECT product_id, SUM(quantity) AS q FROM order_lines GROUP BY product_id HAVING SUM(quantity) > (SELECT AVG(q) FROM (SELECT SUM(quantity) AS q FROM order_lines GROUP BY product_id));

-- answerable
WITH t AS (SELECT product_id, SUM(quantity) AS q FROM order_lines GROUP BY product_id) SELECT p.product_name, COALESCE(t.q, 0) FROM products p LEFT JOIN t ON t.product_id = p.product_id ORDER BY 2;

-- answerable
SELECT COUNT(*) FROM orders WHERE dayname(order_ts) IN ('Saturday', 'Sunday') AND hour(order_ts) BETWEEN 9 AND 17;

-- answerable
SELECT SUM(GREATEST(total - 100, 0)) FROM orders;

-- answerable
SELECT SUM(IF(status = 'refunded', -total, total)) AS net FROM orders;

-- answerable
SELECT floor(ln(total + 1)) AS x, COUNT(*) FROM orders GROUP BY floor(ln(total + 1));

-- answerable
SELECT floor(log10(total + 1)) AS magnitude, COUNT(*) FROM orders GROUP BY 1;

-- answerable
SELECT country, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM customers) AS share FROM customers GROUP BY country HAVING COUNT(*) > 10;

-- answerable
SELECT COUNT(DISTINCT customer_id || '-' || channel) FROM orders;

-- answerable
SELECT COUNT(DISTINCT (customer_id, order_date)) FROM orders;

-- answerable
SELECT COUNT(DISTINCT order_id) AS orders, SUM(quantity) * 1.0 / COUNT(DISTINCT order_id) AS upt FROM order_lines;

-- answerable
SELECT DISTINCT category FROM products p JOIN order_lines l USING (product_id);

-- answerable
SELECT initcap(city) AS c, COUNT(*) FROM customers GROUP BY c;

-- answerable
SELECT regexp_replace(lower(promo_code), '[^a-z]', '', 'g') AS family, COUNT(*) FROM orders GROUP BY 1;

-- answerable
SELECT coalesce(nullif(trim(promo_code), ''), '(none)') AS code, COUNT(*) FROM orders GROUP BY code;

-- answerable
SELECT chr(65 + CAST(floor(total / 100) AS INTEGER)) AS band, COUNT(*) FROM orders GROUP BY 1;

-- answerable
SELECT year(order_date) * 100 + month(order_date) AS yyyymm, COUNT(*) FROM orders GROUP BY yyyymm ORDER BY yyyymm;

-- answerable
SELECT CAST(strftime(order_date, '%Y%m%d') AS INTEGER) AS date_key, SUM(total) FROM orders GROUP BY 1;

-- answerable
SELECT last_day(order_date) AS month_end, SUM(total) FROM orders GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM orders WHERE order_ts::TIME >= TIME '18:00:00';

-- answerable
SELECT date_trunc('hour', order_ts) + INTERVAL (15 * floor(minute(order_ts) / 15)) MINUTE AS q, COUNT(*) FROM orders GROUP BY 1;

-- answerable
SELECT segment, COUNT(*) FILTER (is_subscriber) AS subs, COUNT(*) FILTER (NOT is_subscriber) AS non FROM customers GROUP BY segment;

-- answerable
SELECT COUNT(*) FROM customers NATURAL JOIN orders;

-- answerable
SELECT o.channel, SUM(l.quantity) FROM orders AS o INNER JOIN order_lines AS l ON (o.order_id = l.order_id AND l.quantity > 1) WHERE o.status IN ('completed') GROUP BY o.channel;

-- answerable
SELECT MAX(n) FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id);

-- answerable
SELECT n_orders, COUNT(*) AS customers, SUM(COUNT(*)) OVER (ORDER BY n_orders DESC) AS at_least FROM (SELECT customer_id, COUNT(*) AS n_orders FROM orders GROUP BY customer_id) GROUP BY n_orders ORDER BY n_orders;

-- answerable
SELECT COUNT(*) FROM (SELECT customer_id, order_date, order_date - ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_date)::INT AS grp FROM (SELECT DISTINCT customer_id, order_date FROM orders)) GROUP BY grp;

-- answerable
WITH d AS (SELECT DISTINCT customer_id, order_date FROM orders), g AS (SELECT customer_id, order_date - CAST(ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_date) AS INTEGER) AS island FROM d), s AS (SELECT customer_id, island, COUNT(*) AS streak FROM g GROUP BY customer_id, island) SELECT streak, COUNT(*) FROM s GROUP BY streak ORDER BY streak;

-- answerable
WITH s AS (SELECT customer_id, MAX(total) AS mx, MIN(total) AS mn FROM orders GROUP BY customer_id HAVING COUNT(*) > 1) SELECT AVG(mx - mn), MEDIAN(mx / NULLIF(mn, 0)) FROM s;

-- answerable
SELECT AVG(qty_before) FROM (SELECT l.order_id, SUM(l.quantity) OVER (PARTITION BY l.order_id ORDER BY l.line_id) AS qty_before FROM order_lines l);

-- answerable
SELECT p.category, COUNT(*) FROM (SELECT *, RANK() OVER (PARTITION BY order_id ORDER BY unit_price DESC) AS r FROM order_lines) l JOIN products p USING (product_id) WHERE r = 1 GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM orders o WHERE o.total = (SELECT MAX(total) FROM orders i WHERE i.customer_id = o.customer_id);

-- answerable
SELECT COUNT(*) FROM orders o WHERE o.order_ts = (SELECT MIN(i.order_ts) FROM orders i WHERE i.customer_id = o.customer_id) AND o.promo_code IS NOT NULL;

-- answerable
SELECT c.country, COUNT(*) FROM customers c WHERE 3 <= (SELECT COUNT(*) FROM orders o WHERE o.customer_id = c.customer_id) GROUP BY c.country;

-- answerable
SELECT COUNT(*) FROM orders o WHERE o.total > 1.5 * (SELECT AVG(i.total) FROM orders i WHERE i.customer_id = o.customer_id);

-- answerable
SELECT c.segment, SUM((SELECT SUM(o.total) FROM orders o WHERE o.customer_id = c.customer_id)) FROM customers c GROUP BY c.segment;

-- answerable
SELECT COALESCE((SELECT p.category FROM products p WHERE p.product_id = r.product_id), 'unknown') AS cat, AVG(stars) FROM reviews r GROUP BY cat;

-- answerable
SELECT (SELECT s.region FROM stores s WHERE s.store_id = o.store_id) AS region, status, SUM(total) FROM orders o GROUP BY ROLLUP (1, 2);

-- answerable
SELECT COUNT(*) FROM orders o JOIN customers c ON c.customer_id = o.customer_id AND c.country = (SELECT s.country FROM stores s WHERE s.store_id = o.store_id);

-- answerable
SELECT COUNT(*) FROM reviews r WHERE EXISTS (SELECT 1 FROM orders o JOIN order_lines l ON l.order_id = o.order_id WHERE o.customer_id = r.customer_id AND l.product_id = r.product_id AND o.order_date <= r.reviewed_on);

-- answerable
SELECT MIN(order_date), MAX(order_date), COUNT(DISTINCT order_date) FROM orders;

-- answerable
SELECT AVG(total) FROM orders WHERE total BETWEEN (SELECT quantile_cont(total, 0.05) FROM orders) AND (SELECT quantile_cont(total, 0.95) FROM orders);
