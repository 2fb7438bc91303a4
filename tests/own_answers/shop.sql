-- Nested subqueries, CTEs that are used twice
SELECT n, COUNT(*) FROM (SELECT user_id, COUNT(*) AS n FROM (SELECT user_id, amount FROM orders WHERE amount > 5) WHERE amount < 900 GROUP BY user_id) GROUP BY n ORDER BY n;
SELECT big, COUNT(*) FROM (SELECT user_id, total > 300 AS big FROM (SELECT user_id, SUM(amount) AS total FROM orders GROUP BY user_id)) GROUP BY big;
WITH o AS (SELECT user_id, amount, status FROM orders WHERE quantity > 0) SELECT a.status, COUNT(*) FROM o a JOIN o b USING (user_id) WHERE a.amount < b.amount GROUP BY a.status;
WITH o AS (SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel) SELECT a.channel, a.n, b.n FROM o a LEFT JOIN o b ON a.n = b.n + 1 ORDER BY 1, 3;
WITH a AS (SELECT user_id, MIN(amount) AS least FROM orders GROUP BY user_id), b AS (SELECT user_id, least FROM a WHERE least > 1) SELECT COUNT(*), SUM(least) FROM b;
SELECT country, COUNT(*) FROM (SELECT u.country, o.amount FROM users u JOIN (SELECT * FROM orders WHERE status = 'paid') o ON o.user_id = u.user_id) t WHERE amount > 2 GROUP BY country;
SELECT AVG(n) FROM (SELECT user_id, COUNT(DISTINCT channel) AS n FROM orders GROUP BY user_id HAVING COUNT(*) > 1);
SELECT m, AVG(s) FROM (SELECT user_id, month(order_date) AS m, SUM(amount) AS s FROM orders GROUP BY user_id, month(order_date)) GROUP BY m;
SELECT c, COUNT(*) FROM (SELECT user_id, COUNT(coupon) AS c FROM orders GROUP BY user_id) GROUP BY c ORDER BY c;
SELECT x, COUNT(*) FROM (SELECT user_id, MAX(quantity) - MIN(quantity) AS x FROM orders GROUP BY user_id) GROUP BY x ORDER BY x NULLS FIRST;

-- Set operations
SELECT COUNT(*) FROM (SELECT user_id FROM orders UNION SELECT user_id FROM events);
SELECT COUNT(*) FROM (SELECT user_id, channel FROM orders UNION ALL SELECT user_id, kind FROM events);
SELECT channel, COUNT(*) FROM (SELECT user_id, channel FROM orders EXCEPT SELECT user_id, kind FROM events) GROUP BY channel;
SELECT COUNT(*) FROM (SELECT user_id, country FROM users INTERSECT SELECT user_id, country FROM events);
SELECT COUNT(*) FROM (SELECT user_id FROM orders EXCEPT ALL SELECT user_id FROM events);
SELECT COUNT(*) FROM (SELECT user_id FROM orders INTERSECT ALL SELECT user_id FROM events);
SELECT what, COUNT(*) FROM (SELECT user_id, status AS what FROM orders UNION ALL BY NAME SELECT plan AS what, user_id FROM subscriptions) GROUP BY what;
SELECT a, b, COUNT(*) FROM (SELECT user_id, channel AS a FROM orders UNION ALL BY NAME SELECT user_id, kind AS b FROM events) GROUP BY a, b;
SELECT channel AS k, COUNT(*) FROM orders GROUP BY channel UNION SELECT kind, COUNT(*) FROM events GROUP BY kind;
SELECT channel FROM orders GROUP BY channel INTERSECT SELECT kind FROM events GROUP BY kind;
SELECT channel FROM orders GROUP BY channel EXCEPT SELECT kind FROM events GROUP BY kind ORDER BY 1;
SELECT channel FROM orders INTERSECT SELECT kind FROM events;
SELECT channel FROM orders EXCEPT SELECT kind FROM events ORDER BY 1;
SELECT COUNT(*) FROM (SELECT channel FROM orders EXCEPT SELECT kind FROM events);
WITH both AS (SELECT country FROM users INTERSECT SELECT country FROM events) SELECT country FROM both ORDER BY 1;
SELECT country, COUNT(*) FROM users WHERE country IN (SELECT country FROM users INTERSECT SELECT country FROM events) GROUP BY country;
SELECT channel, coupon FROM orders WHERE amount < 20 UNION SELECT kind, country FROM events;
SELECT 1 AS a, COUNT(*) AS n FROM orders UNION ALL BY NAME SELECT COUNT(*) AS n, 2 AS a FROM events ORDER BY a;

-- HAVING and ORDER BY
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel HAVING COUNT(*) > 30 ORDER BY n DESC, channel NULLS FIRST;
SELECT channel, COUNT(*) FROM orders GROUP BY channel HAVING channel IS NULL;
SELECT channel, SUM(quantity) FROM orders GROUP BY channel HAVING SUM(quantity) BETWEEN 10 AND 400 ORDER BY channel DESC NULLS LAST;
SELECT channel, AVG(quantity) AS a FROM orders GROUP BY channel HAVING AVG(quantity) > (SELECT AVG(quantity) FROM orders) ORDER BY a;
SELECT month(order_date) AS m, COUNT(*) FROM orders GROUP BY m HAVING m > 3 OR m IS NULL ORDER BY m DESC NULLS FIRST;
SELECT channel FROM orders GROUP BY channel HAVING COUNT(DISTINCT user_id) > 12 ORDER BY COUNT(DISTINCT user_id) DESC, channel;
SELECT coupon, COUNT(*) FROM orders WHERE coupon <> '' GROUP BY coupon ORDER BY length(coupon), coupon;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY -n, channel COLLATE "C";
SELECT COUNT(*) FROM orders HAVING COUNT(*) > 1000000;
SELECT COUNT(*) FROM orders WHERE false;
SELECT SUM(amount), AVG(amount), COUNT(amount) FROM orders WHERE amount < 0;

-- CASE as keys, and conditions on NULL
SELECT CASE WHEN amount > 100 THEN 'dear' WHEN amount <= 100 THEN 'cheap' END AS class, COUNT(*) FROM orders GROUP BY class;
SELECT CASE quantity WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END AS q, COUNT(*), SUM(amount) FROM orders GROUP BY 1;
SELECT CASE WHEN coupon IS NULL THEN 'none' ELSE upper(trim(coupon)) END AS c, COUNT(*) FROM orders GROUP BY c;
SELECT CASE WHEN NOT (amount > 10) THEN 1 WHEN amount > 10 THEN 2 ELSE 3 END AS c, COUNT(*) FROM orders GROUP BY c ORDER BY c;
SELECT amount > 100 AND discount < 5 AS b, COUNT(*) FROM orders GROUP BY b;
SELECT amount > 100 OR discount < 5 AS b, COUNT(*) FROM orders GROUP BY b;
SELECT (amount > 100) IS TRUE, (amount > 100) IS NOT FALSE, COUNT(*) FROM orders GROUP BY ALL;
SELECT coupon IS DISTINCT FROM channel AS d, COUNT(*) FROM orders GROUP BY d;
SELECT coupon = channel AS d, COUNT(*) FROM orders GROUP BY d;
SELECT nullif(channel, 'web') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT coalesce(nullif(trim(coupon), ''), channel, '?') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT least(quantity, 3) AS q, greatest(quantity, 2) AS r, COUNT(*) FROM orders GROUP BY ALL;
SELECT if(quantity > 5, quantity, NULL) AS q, COUNT(*) FROM orders GROUP BY q;

-- Outer joins: conditions in ON and in WHERE
SELECT u.country, COUNT(o.order_id), COUNT(*) FROM users u LEFT JOIN orders o ON o.user_id = u.user_id AND o.amount > 100 GROUP BY u.country;
SELECT u.country, COUNT(o.order_id), COUNT(*) FROM users u LEFT JOIN orders o ON o.user_id = u.user_id WHERE o.amount > 100 GROUP BY u.country;
SELECT u.country, COUNT(*) FROM users u LEFT JOIN orders o ON o.user_id = u.user_id AND u.age > 20 WHERE o.order_id IS NULL GROUP BY u.country;
SELECT o.channel, COUNT(*) FROM users u RIGHT JOIN orders o ON o.user_id = u.user_id AND u.country = 'DE' GROUP BY o.channel;
SELECT COUNT(*), COUNT(u.user_id), COUNT(o.order_id) FROM users u FULL JOIN orders o ON o.user_id = u.user_id AND o.quantity > 3;
SELECT coalesce(u.country, '-') AS c, COUNT(*) FROM users u FULL JOIN orders o ON o.user_id = u.user_id WHERE o.amount IS NULL OR o.amount > 50 GROUP BY c;
SELECT p.category, COUNT(*) FROM orders o LEFT JOIN products p ON p.product_id = o.product_id AND p.list_price > 20 GROUP BY p.category;
SELECT p.category, COUNT(*) FROM orders o LEFT JOIN products p ON p.product_id = o.product_id WHERE p.list_price > 20 GROUP BY p.category;
SELECT p.brand, s.region, COUNT(*) FROM orders o LEFT JOIN products p USING (product_id) LEFT JOIN stores s USING (store_id) GROUP BY p.brand, s.region;
SELECT p.category, COUNT(o.order_id), SUM(o.amount) FROM products p LEFT JOIN orders o ON o.product_id = p.product_id AND o.status = 'paid' GROUP BY p.category;
SELECT p.category, COUNT(o.order_id) FROM products p LEFT JOIN orders o ON o.product_id = p.product_id WHERE o.amount > 100 GROUP BY p.category;
SELECT c.region, COUNT(u.user_id), AVG(u.age) FROM users u RIGHT JOIN countries c USING (country) GROUP BY c.region;
SELECT COUNT(*) FROM users NATURAL JOIN subscriptions;
SELECT COUNT(*) FROM orders SEMI JOIN events USING (user_id);
SELECT channel, COUNT(*) FROM orders ANTI JOIN subscriptions USING (user_id) GROUP BY channel;
SELECT COUNT(*), SUM(i.qty) FROM order_items i JOIN orders o USING (order_id) WHERE o.status = 'paid';
SELECT o.channel, SUM(i.qty * i.price) FROM order_items i LEFT JOIN orders o ON i.order_id = o.order_id AND o.quantity > 2 GROUP BY o.channel;
SELECT u.plan, COUNT(*) FROM order_items i JOIN orders o USING (order_id) JOIN users u USING (user_id) GROUP BY u.plan;
SELECT a.kind, b.kind, COUNT(*) FROM events a JOIN events b ON a.user_id = b.user_id AND a.event_id < b.event_id GROUP BY a.kind, b.kind;

-- IN, NOT IN and EXISTS, with NULL
SELECT COUNT(*) FROM orders WHERE channel IN ('web', 'app', NULL);
SELECT COUNT(*) FROM orders WHERE channel NOT IN ('web', 'app', NULL);
SELECT COUNT(*) FROM orders WHERE NOT (channel IN ('web', 'app'));
SELECT COUNT(*) FROM orders WHERE channel NOT IN ('web', 'app') OR channel IS NULL;
SELECT COUNT(*) FROM products WHERE product_id NOT IN (SELECT product_id FROM orders WHERE product_id IS NOT NULL);
SELECT COUNT(*) FROM products WHERE product_id NOT IN (SELECT product_id FROM orders);
SELECT COUNT(*) FROM products WHERE product_id IN (SELECT product_id FROM orders WHERE status = 'paid');
SELECT channel, COUNT(*) FROM orders GROUP BY channel HAVING channel IN (SELECT kind FROM events) OR channel IN (SELECT channel FROM orders WHERE amount > 50);
SELECT COUNT(*) FROM orders WHERE product_id NOT IN (SELECT product_id FROM products WHERE category = 'Home');
SELECT COUNT(*) FROM orders WHERE channel NOT IN (SELECT brand FROM products);
SELECT COUNT(*) FROM orders WHERE channel IN (SELECT brand FROM products);
SELECT COUNT(*) FROM orders WHERE coupon NOT IN (SELECT name FROM products WHERE list_price < -1000);
SELECT COUNT(*) FROM users WHERE user_id NOT IN (SELECT user_id FROM orders WHERE amount > 100);
SELECT COUNT(*) FROM users WHERE manager_id IN (SELECT user_id FROM orders);
SELECT plan, COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.user_id AND o.amount > 500) OR u.age < 30 GROUP BY plan;
SELECT plan, COUNT(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.user_id) AND NOT EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id AND e.kind = 'view') GROUP BY plan;
SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM countries c WHERE c.country = u.country AND c.population > 70000000) OR u.country IS NULL;
SELECT user_id IN (SELECT user_id FROM events WHERE kind = 'purchase') AS bought, COUNT(*) FROM users GROUP BY bought;
SELECT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.user_id AND o.coupon IS NULL) AS e, COUNT(*) FROM users u GROUP BY e;
SELECT COUNT(*) FROM orders WHERE (product_id, store_id) IN (SELECT product_id, store_id FROM products, stores WHERE category = 'Home');
SELECT COUNT(*) FROM orders WHERE amount > ALL (SELECT list_price FROM products);
SELECT COUNT(*) FROM orders WHERE amount = ANY (SELECT list_price FROM products);

-- Windows over released rows, ROLLUP and CUBE with FILTER
SELECT channel, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC, channel) AS r FROM orders GROUP BY channel ORDER BY r;
SELECT month(order_date) AS m, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY month(order_date) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM orders GROUP BY m ORDER BY m;
SELECT channel, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY channel NULLS LAST) AS d FROM orders GROUP BY channel;
SELECT channel, n, first_value(channel) OVER (ORDER BY n DESC, channel) FROM (SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel);
SELECT channel, quantity > 3 AS many, COUNT(*), SUM(COUNT(*)) OVER (PARTITION BY channel) FROM orders GROUP BY channel, many;
SELECT channel, COUNT(*) FROM orders GROUP BY channel QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC, channel) <= 3;
SELECT channel, quantity > 3 AS many, COUNT(*) FILTER (WHERE amount > 10), SUM(quantity) FILTER (WHERE coupon IS NULL) FROM orders GROUP BY ROLLUP (channel, many);
SELECT channel, kind, COUNT(*) FROM orders JOIN events USING (user_id) GROUP BY CUBE (channel, kind) HAVING COUNT(*) > 20;
SELECT channel, coupon, GROUPING(channel, coupon) AS g, COUNT(*) FROM orders GROUP BY GROUPING SETS ((channel), (coupon), ()) ORDER BY g, channel, coupon;
SELECT year(order_date) AS y, month(order_date) AS m, COUNT(*) FROM orders WHERE order_date IS NOT NULL GROUP BY ROLLUP (y, m);

-- DISTINCT, and counts of distinct values by group
SELECT DISTINCT channel FROM orders ORDER BY channel NULLS FIRST;
SELECT DISTINCT upper(trim(channel)) FROM orders;
SELECT DISTINCT channel, quantity > 2 FROM orders;
SELECT DISTINCT year(order_date) AS y FROM orders ORDER BY y;
SELECT channel, COUNT(DISTINCT product_id), COUNT(DISTINCT coupon), COUNT(DISTINCT user_id) FROM orders GROUP BY channel;
SELECT COUNT(DISTINCT channel), COUNT(DISTINCT lower(channel)), COUNT(DISTINCT trim(channel)), COUNT(DISTINCT quantity) FROM orders;
SELECT status, COUNT(DISTINCT order_date) FILTER (WHERE amount > 20) FROM orders WHERE status IS NOT NULL GROUP BY status;
SELECT COUNT(DISTINCT (channel, status)) FROM orders;
SELECT COUNT(DISTINCT channel, coupon) FROM orders;
SELECT COUNT(DISTINCT CASE WHEN amount > 100 THEN user_id END) FROM orders;
SELECT COUNT(*) FROM (SELECT DISTINCT user_id, channel FROM orders);
SELECT SUM(n) FROM (SELECT COUNT(DISTINCT user_id) AS n FROM orders GROUP BY channel);

-- Dates at ends of months
SELECT order_date + INTERVAL 1 MONTH AS d, COUNT(*) FROM orders GROUP BY d;
SELECT order_date - INTERVAL 1 MONTH AS d, COUNT(*) FROM orders GROUP BY d;
SELECT order_date + INTERVAL 1 YEAR AS d, COUNT(*) FROM orders WHERE day(order_date) = 29 AND month(order_date) = 2 GROUP BY d;
SELECT last_day(order_date) AS d, COUNT(*) FROM orders GROUP BY d;
SELECT date_trunc('week', order_date) AS w, COUNT(*) FROM orders GROUP BY w;
SELECT date_trunc('quarter', ts) AS q, COUNT(*) FROM orders GROUP BY q ORDER BY q NULLS FIRST;
SELECT date_diff('month', order_date, DATE '2025-03-31') AS m, COUNT(*) FROM orders GROUP BY m;
SELECT date_diff('year', order_date, DATE '2025-01-01') AS y, date_diff('week', order_date, DATE '2025-01-01') AS w, COUNT(*) FROM orders GROUP BY y, w;
SELECT AVG(date_diff('day', order_date, shipped_at)), AVG(date_diff('hour', ts, shipped_at)), AVG(date_diff('minute', ts, shipped_at)) FROM orders;
SELECT AVG(EXTRACT(day FROM shipped_at - ts)), AVG(EXTRACT(hour FROM shipped_at - ts)), AVG(EXTRACT(month FROM shipped_at - ts)) FROM orders;
SELECT EXTRACT(day FROM shipped_at - ts) AS days, COUNT(*) FROM orders GROUP BY days;
SELECT EXTRACT(hour FROM b - a) AS hours, COUNT(*) FROM (SELECT user_id, MIN(ts) AS a, MAX(ts) AS b FROM events GROUP BY user_id) GROUP BY hours;
SELECT AVG(day(gap)) FROM (SELECT user_id, shipped_at - ts AS gap FROM orders);
SELECT week(order_date) AS w, isodow(order_date) AS i, dayofweek(order_date) AS d, COUNT(*) FROM orders GROUP BY ALL;
SELECT weekofyear(order_date), yearweek(order_date), COUNT(*) FROM orders GROUP BY ALL;
SELECT EXTRACT(isoyear FROM order_date) AS y, EXTRACT(doy FROM order_date) AS d, COUNT(*) FROM orders GROUP BY ALL;
SELECT order_date - DATE '2025-01-31' AS n, COUNT(*) FROM orders GROUP BY n;
SELECT AVG(order_date - DATE '2025-01-31') FROM orders;
SELECT COUNT(*) FROM orders WHERE ts >= order_date AND ts < order_date + 1;
SELECT COUNT(*) FROM orders WHERE ts::DATE = order_date OR CAST(ts AS TIME) = TIME '23:59:59';
SELECT dayname(order_date), monthname(ts), COUNT(*) FROM orders GROUP BY ALL;
SELECT strftime(ts, '%Y-%m-%d %H') AS h, COUNT(*) FROM orders GROUP BY h;
SELECT time_bucket(INTERVAL 10 DAY, order_date) AS b, COUNT(*) FROM orders GROUP BY b;
SELECT second(ts), minute(ts), COUNT(*) FROM events GROUP BY ALL;
SELECT epoch(ts) // 86400 AS day, COUNT(*) FROM orders GROUP BY day;
SELECT make_date(2025, month(order_date), 1) AS d, COUNT(*) FROM orders GROUP BY d;
SELECT COUNT(*) FROM orders WHERE order_date BETWEEN SYMMETRIC '2025-02-28' AND '2024-12-31';

-- Integers: division and remainder of negatives
SELECT (quantity - 5) // 3 AS q, COUNT(*) FROM orders GROUP BY q;
SELECT (quantity - 5) % 3 AS q, COUNT(*) FROM orders GROUP BY q;
SELECT (quantity - 5) / 2 AS q, COUNT(*) FROM orders GROUP BY q;
SELECT mod(quantity - 5, 4) AS q, COUNT(*) FROM orders GROUP BY q;
SELECT quantity // NULLIF(quantity - 2, 0) AS q, COUNT(*) FROM orders GROUP BY q;
SELECT SUM(quantity // 2), SUM(quantity % 2), SUM((quantity - 9) // 2), SUM((quantity - 9) % 4) FROM orders;
SELECT AVG(-quantity), SUM(-amount), AVG(abs(quantity - 7)), SUM(sign(quantity - 3)) FROM orders;
SELECT round(amount / 3) AS r, floor(-amount / 100) AS f, ceil(amount / 100) AS c, COUNT(*) FROM orders GROUP BY ALL;
SELECT round(discount, 1) AS r, trunc(-discount) AS t, COUNT(*) FROM orders GROUP BY ALL;
SELECT quantity::DOUBLE / 4 AS q, COUNT(*) FROM orders GROUP BY q;
SELECT (amount * 0.1)::INTEGER AS i, COUNT(*) FROM orders GROUP BY i;
SELECT CAST(amount AS DECIMAL(10, 1)) AS a, COUNT(*) FROM orders GROUP BY a;
SELECT SUM(quantity * quantity), SUM(quantity - 1), AVG(quantity * 2.5), SUM(quantity ** 2) FROM orders;
SELECT VAR_POP(quantity), VAR_SAMP(quantity), STDDEV_POP(quantity), STDDEV_SAMP(quantity) FROM orders;
SELECT status, VAR_POP(amount), STDDEV(discount) FROM orders WHERE status IS NOT NULL GROUP BY status;
SELECT SUM(quantity) / COUNT(*), SUM(quantity) // COUNT(*), SUM(quantity) % 7, COUNT(*) / 0 FROM orders;
SELECT 7 // 2 * COUNT(*), -7 // 2, -7 % 3, 7 / 2 FROM orders;

-- Texts
SELECT length(coupon) AS n, COUNT(*) FROM orders GROUP BY n;
SELECT lower(channel) AS c, COUNT(*) FROM orders GROUP BY c;
SELECT trim(channel) || '-' || coalesce(coupon, '') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT channel || coupon AS c, COUNT(*) FROM orders GROUP BY c;
SELECT concat(channel, coupon) AS c, COUNT(*) FROM orders GROUP BY c;
SELECT concat_ws('/', channel, coupon, status) AS c, COUNT(*) FROM orders GROUP BY c;
SELECT left(channel, 2) AS l, right(channel, 2) AS r, COUNT(*) FROM orders GROUP BY ALL;
SELECT left(channel, -1) AS l, right(channel, -1) AS r, COUNT(*) FROM orders GROUP BY ALL;
SELECT substring(channel, 0, 2) AS a, substring(channel, -2, 1) AS b, substring(channel, 2) AS c, COUNT(*) FROM orders GROUP BY ALL;
SELECT replace(channel, 'n', '') AS c, strpos(channel, 'n') AS p, COUNT(*) FROM orders GROUP BY ALL;
SELECT json_extract_string(concat('{"c": ["', channel, '"]}'), '$.c[0]') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT concat('{"c": {"d": "', channel, '"}}')->'c'->>'d' AS c, SUM(amount) FROM orders GROUP BY c;
SELECT split_part(channel, 'n', 1) AS a, split_part(channel, '', 1) AS b, COUNT(*) FROM orders GROUP BY ALL;
SELECT lpad(channel, 4, '*') AS c, rpad(coupon, 3, '.') AS d, COUNT(*) FROM orders GROUP BY ALL;
SELECT COUNT(*) FROM orders WHERE channel LIKE '%n_';
SELECT COUNT(*) FROM orders WHERE channel LIKE 'a!_b%' ESCAPE '!';
SELECT COUNT(*) FROM orders WHERE channel NOT LIKE '%';
SELECT COUNT(*) FROM orders WHERE channel ILIKE 'ANNA%' AND NOT channel ~~ 'anna';
SELECT COUNT(*) FROM orders WHERE channel > 'Anna' AND channel <= 'web';
SELECT COUNT(*) FROM orders WHERE channel BETWEEN '' AND 'a';
SELECT COUNT(*) FROM orders WHERE starts_with(channel, '') AND ends_with(channel, 'a') AND contains(channel, 'nn');
SELECT regexp_extract(channel, '[a-z]+') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT regexp_replace(channel, '[^a-zA-Z]', '', 'g') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT COUNT(*) FROM orders WHERE regexp_full_match(channel, '\s*[Aa]nna\s*');
SELECT TRY_CAST(coupon AS INTEGER) AS n, COUNT(*) FROM orders GROUP BY n;
SELECT quantity::VARCHAR || 'x' AS q, COUNT(*) FROM orders GROUP BY q;
SELECT amount::VARCHAR AS a, COUNT(*) FROM orders GROUP BY a;
SELECT order_date::VARCHAR AS d, COUNT(*) FROM orders GROUP BY d;
SELECT (quantity > 3)::VARCHAR AS b, (quantity > 3)::INTEGER AS i, COUNT(*) FROM orders GROUP BY ALL;
SELECT md5(channel) AS m, COUNT(*) FROM orders GROUP BY m;

-- LIMIT and OFFSET, names, shadows
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY n DESC LIMIT 3 OFFSET 1;
SELECT channel, COUNT(DISTINCT user_id) AS n FROM orders GROUP BY channel ORDER BY n DESC, channel LIMIT 4;
SELECT quantity, COUNT(*) AS n FROM orders GROUP BY quantity ORDER BY n LIMIT 3;
SELECT channel, SUM(amount) AS s FROM orders GROUP BY channel ORDER BY s DESC NULLS LAST LIMIT 5;
SELECT channel AS status, status AS channel, COUNT(*) FROM orders WHERE status = 'paid' GROUP BY ALL;
SELECT upper(channel) AS channel, COUNT(*) FROM orders GROUP BY channel;
SELECT upper(channel) AS channel, COUNT(*) FROM orders GROUP BY 1 HAVING COUNT(*) > 5;
SELECT quantity + 1 AS quantity, COUNT(*) FROM orders WHERE quantity > 3 GROUP BY 1 ORDER BY quantity;
SELECT -quantity AS quantity, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY quantity;
SELECT "CHANNEL" AS "Channel", COUNT(*) AS "N of It" FROM "Orders" AS "O o" GROUP BY "O o"."channel" ORDER BY "N of It" DESC, 1;
SELECT o.n FROM (SELECT COUNT(*) AS n FROM orders) o(n);
SELECT x, COUNT(*) FROM (SELECT user_id, channel FROM orders) t(u, x) GROUP BY x;
SELECT users.country, COUNT(*) FROM orders users JOIN events orders ON users.user_id = orders.user_id CROSS JOIN (SELECT 'DE' AS country) c WHERE orders.country = c.country GROUP BY users.channel;
WITH orders AS (SELECT * FROM orders WHERE amount > 10) SELECT COUNT(*) FROM orders;
WITH users AS (SELECT * FROM orders) SELECT channel, COUNT(*) FROM users GROUP BY channel;
SELECT COUNT(*) n, channel c FROM orders GROUP BY c ORDER BY n DESC, c LIMIT 2;

-- Answered first, and values of a unit's rows
SELECT COUNT(*) FROM orders WHERE quantity > (SELECT AVG(quantity) FROM orders);
SELECT channel, COUNT(*) FROM orders WHERE channel IN (SELECT channel FROM orders GROUP BY channel HAVING COUNT(*) > 20) GROUP BY channel;
SELECT COUNT(*) FROM orders WHERE amount * 2 > (SELECT MAX(list_price) FROM products);
WITH t AS (SELECT channel, AVG(quantity) AS a FROM orders GROUP BY channel) SELECT COUNT(*) FROM orders o JOIN t ON o.channel = t.channel WHERE o.quantity > t.a;
WITH t AS (SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel) SELECT o.status, COUNT(*) FROM orders o LEFT JOIN t ON o.channel = t.channel WHERE t.n > 30 OR t.n IS NULL GROUP BY o.status;
SELECT plan, COUNT(*) FROM users u WHERE (SELECT COUNT(*) FROM orders o WHERE o.user_id = u.user_id) >= 2 GROUP BY plan;
SELECT plan, AVG((SELECT SUM(amount) FROM orders o WHERE o.user_id = u.user_id)) FROM users u GROUP BY plan;
SELECT COUNT(*) FROM orders o WHERE amount = (SELECT MAX(amount) FROM orders i WHERE i.user_id = o.user_id);
SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM events e WHERE e.user_id = o.user_id AND e.ts < o.ts) > 1;
SELECT status, COUNT(*) FROM orders o WHERE (SELECT SUM(qty) FROM order_items i WHERE i.order_id = o.order_id) IS NULL GROUP BY status;
SELECT (SELECT COUNT(*) FROM users) AS users, (SELECT COUNT(*) FROM orders) AS orders, (SELECT COUNT(*) FROM users) * 1.0 / (SELECT COUNT(*) FROM orders) AS ratio;

-- Windows within a unit
SELECT n, COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY order_id) AS n FROM orders) GROUP BY n ORDER BY n;
SELECT channel, COUNT(*) FROM (SELECT *, RANK() OVER (PARTITION BY user_id ORDER BY amount DESC NULLS LAST) AS r FROM orders) WHERE r = 1 GROUP BY channel;
SELECT COUNT(*) FROM (SELECT user_id, amount - LAG(amount) OVER (PARTITION BY user_id ORDER BY order_id) AS d FROM orders) WHERE d > 0;
SELECT a, b, COUNT(*) FROM (SELECT user_id, channel AS a, LEAD(channel) OVER (PARTITION BY user_id ORDER BY order_id) AS b FROM orders) GROUP BY a, b;
SELECT f, COUNT(*) FROM (SELECT user_id, FIRST_VALUE(channel) OVER (PARTITION BY user_id ORDER BY order_id DESC) AS f FROM orders) GROUP BY f;
SELECT COUNT(*) FROM (SELECT user_id, amount, MAX(amount) OVER (PARTITION BY user_id) AS most FROM orders) WHERE amount = most;
SELECT n, COUNT(*) FROM (SELECT user_id, channel, COUNT(*) OVER (PARTITION BY user_id, channel) AS n FROM orders) GROUP BY n;
SELECT o, a, COUNT(*) FROM (SELECT user_id, BOOL_OR(amount > 100) AS o, BOOL_AND(quantity > 1) FILTER (WHERE status = 'paid') AS a FROM orders GROUP BY user_id) GROUP BY o, a;
SELECT COUNT(*) FROM (SELECT user_id FROM orders GROUP BY user_id HAVING BOOL_AND(quantity > 1) AND NOT BOOL_OR(coupon IS NULL));
SELECT COUNT(*) FROM (SELECT user_id, SUM(amount) OVER (PARTITION BY user_id ORDER BY order_id ROWS UNBOUNDED PRECEDING) AS t FROM orders) WHERE t > 100;
SELECT t, COUNT(*) FROM (SELECT user_id, SUM(quantity) OVER (PARTITION BY user_id ORDER BY quantity ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t FROM orders) WHERE t < 9 GROUP BY t;
SELECT f, l, COUNT(*) FROM (SELECT DISTINCT user_id, FIRST_VALUE(channel) OVER w AS f, LAST_VALUE(channel) OVER w AS l FROM orders WINDOW w AS (PARTITION BY user_id ORDER BY order_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) GROUP BY f, l;
WITH f AS (SELECT user_id, channel, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY COUNT(*) DESC, channel) AS r FROM orders GROUP BY user_id, channel) SELECT channel, COUNT(*) FROM f WHERE r = 1 GROUP BY channel;
SELECT AVG(share) FROM (SELECT user_id, channel, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY user_id) AS share FROM orders GROUP BY user_id, channel);
SELECT channel, COUNT(*) FROM (SELECT user_id, channel FROM orders GROUP BY user_id, channel QUALIFY RANK() OVER w = 1 WINDOW w AS (PARTITION BY user_id ORDER BY SUM(quantity) DESC)) GROUP BY channel;
SELECT a, b, COUNT(*) FROM (SELECT user_id, LAG(channel) OVER w AS a, LEAD(channel) OVER w AS b FROM orders WINDOW w AS (PARTITION BY user_id ORDER BY order_id)) GROUP BY a, b;
SELECT AVG(d) FROM (SELECT user_id, month(order_date) AS m, SUM(quantity) - LAG(SUM(quantity)) OVER (PARTITION BY user_id ORDER BY month(order_date)) AS d FROM orders GROUP BY user_id, month(order_date));

-- Lists of groups
SELECT mode(channel) FROM orders;
SELECT mode(status) FILTER (WHERE amount > 10) AS usual, COUNT(*), mode() WITHIN GROUP (ORDER BY channel) FROM orders WHERE quantity > 0;
SELECT list_sort(list(DISTINCT channel)) AS channels FROM orders WHERE channel IS NOT NULL;
SELECT array_agg(DISTINCT channel ORDER BY channel DESC NULLS FIRST), AVG(quantity) FROM orders;
SELECT string_agg(DISTINCT o.channel, ', ' ORDER BY o.channel) FROM orders o JOIN users u USING (user_id) WHERE u.age > 20;
SELECT upper(string_agg(DISTINCT channel, ';' ORDER BY channel DESC)) || '.', 1 + 1 FROM orders;
SELECT histogram(channel) FROM orders;
SELECT round(entropy(channel), 9) AS bits, COUNT(*) FROM orders;
SELECT status, round(entropy(channel) FILTER (WHERE quantity > 0), 9) AS bits FROM orders GROUP BY status;
SELECT DISTINCT status, SUM(quantity) OVER (PARTITION BY status) + 1 AS s, COUNT(*) OVER (PARTITION BY status) FROM orders WHERE quantity > 0;
SELECT COUNT(*) OVER () AS n FROM orders WHERE amount > 10 LIMIT 1;
SELECT regexp_replace(channel, '^([a-z])(.*)$', '\2-\1') AS c, COUNT(*) FROM orders GROUP BY c;
SELECT COUNT(*) FROM orders WHERE age(shipped_at, ts) > INTERVAL '36 hours' OR age(order_date, DATE '2024-01-31') >= INTERVAL '3 months';
SELECT quantity, quantile_disc(quantity, [0.25, 0.75])[2] AS q FROM orders GROUP BY quantity;
SELECT COUNT(*) FROM orders WHERE channel = (SELECT mode(channel) FROM orders);
SELECT m, COUNT(*) OVER () FROM (SELECT mode(kind) AS m FROM events WHERE kind <> 'x');
SELECT mode(channel) FROM orders WHERE amount IS NULL AND amount > 1;
SELECT status, COUNT(*), string_agg(DISTINCT channel, ', ' ORDER BY channel) AS all_of_them FROM orders GROUP BY status;
SELECT status, histogram(channel) FROM orders WHERE quantity > 0 GROUP BY status HAVING COUNT(*) > 1;
SELECT status, array_agg(DISTINCT channel ORDER BY channel DESC NULLS FIRST) FROM orders GROUP BY ROLLUP (status);
SELECT upper(status) AS s, any_value(upper(status) || '.'), mode(status) FROM orders GROUP BY s;
SELECT channel, any_value(channel), any_value(status) FILTER (WHERE status = 'paid') AS paid FROM orders GROUP BY channel ORDER BY paid NULLS FIRST, channel;
SELECT u.country, mode(o.status) FILTER (WHERE o.status = 'paid') AS m FROM orders o JOIN users u USING (user_id) GROUP BY 1;
SELECT channel, mode(o.quantity) AS m FROM (SELECT channel, 5 + quantity * 0 AS quantity, user_id FROM orders WHERE quantity > 1) o GROUP BY channel HAVING m = 5;

-- Spines beside private rows
SELECT g.d, COUNT(o.order_id) FROM orders o JOIN generate_series(DATE '2025-01-01', DATE '2025-03-05', INTERVAL 2 DAY) g(d) ON g.d = o.order_date GROUP BY g.d ORDER BY g.d;
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT r.i, COUNT(o.quantity) FROM r JOIN orders o ON o.quantity = r.i GROUP BY r.i ORDER BY r.i;
-- Values of the group that a row belongs to
SELECT COUNT(*) FROM orders o WHERE quantity > (SELECT AVG(quantity) FROM orders i WHERE i.status = o.status);
SELECT channel, COUNT(*) FROM orders o WHERE amount < (SELECT 0.9 * AVG(i.quantity) FROM orders i WHERE o.status = i.status AND i.quantity > 0) OR amount IS NULL GROUP BY channel;
SELECT COUNT(*) FROM events u WHERE (SELECT COUNT(*) FROM events e WHERE e.device = u.device AND e.kind <> 'x') > 10;
SELECT COUNT(*) FROM events u WHERE (SELECT COUNT(*) FROM events e WHERE e.device = u.device AND e.kind = 'none such') = 0;
SELECT COUNT(*) FROM orders o JOIN products p USING (product_id) WHERE p.list_price > 1.2 * (SELECT AVG(j.list_price) FROM products j WHERE j.category = p.category);
SELECT category, (SELECT COUNT(*) FROM orders o WHERE o.product_id = products.product_id) AS n FROM products ORDER BY product_id;
SELECT COUNT(*) FROM products p WHERE list_price > (SELECT 2 * AVG(amount) FROM orders WHERE product_id = p.product_id AND quantity < 5);
SELECT product_id, coalesce((SELECT SUM(quantity) FROM orders o WHERE o.product_id = p.product_id AND o.channel = 'app'), -1) FROM products p ORDER BY 1;

-- Columns that keys decide
SELECT p.name, p.category, COUNT(*) AS n FROM orders o JOIN products p USING (product_id) GROUP BY p.product_id ORDER BY n DESC, p.list_price;
SELECT p.name, AVG(o.quantity) FROM orders o, products p WHERE o.product_id = p.product_id GROUP BY p.product_id HAVING p.list_price < 100;
SELECT p.name, any_value(upper(p.brand)), COUNT(o.order_id) FROM products p LEFT JOIN orders o ON o.product_id = p.product_id GROUP BY p.product_id;
SELECT c.region, p.brand, SUM(o.quantity) FROM orders o JOIN users u USING (user_id) JOIN countries c ON c.country = u.country JOIN products p USING (product_id) GROUP BY c.country, p.product_id;
SELECT p.name, COUNT(*) AS n FROM orders o JOIN products p ON p.product_id = o.product_id GROUP BY o.product_id ORDER BY n DESC, p.name;
SELECT c.region, COUNT(*) FROM users u JOIN countries c ON u.country = c.country WHERE u.age > 20 GROUP BY u.country;

-- Values looked up in public rows
SELECT (SELECT category FROM products p WHERE p.product_id = o.product_id) AS c, COUNT(*) FROM orders o GROUP BY c;
SELECT COALESCE((SELECT region FROM stores s WHERE s.store_id = o.store_id), 'none') AS r, COUNT(*), SUM(quantity) FROM orders o GROUP BY r;
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT list_price FROM products p WHERE p.product_id = o.product_id);
SELECT SUM((SELECT list_price FROM products p WHERE p.product_id = o.product_id)) FROM orders o WHERE (SELECT brand FROM products p WHERE p.product_id = o.product_id) IS NOT NULL;
SELECT CASE WHEN (SELECT list_price FROM products WHERE products.product_id = orders.product_id) > 20 THEN 'dear' ELSE 'cheap' END AS c, COUNT(*) FROM orders GROUP BY c;
SELECT c, COUNT(*) FROM (SELECT user_id, (SELECT upper(category) FROM products p WHERE p.product_id = o.product_id) AS c FROM orders o) GROUP BY c;
SELECT (SELECT b.label FROM (VALUES (0, 1, 'few'), (2, 5, 'some'), (6, 99, 'many')) b(low, high, label) WHERE o.quantity BETWEEN b.low AND b.high) AS q, COUNT(*) FROM orders o GROUP BY q;
SELECT o.product_id, (SELECT category FROM products p WHERE p.product_id = o.product_id) AS c, COUNT(*) FROM orders o GROUP BY o.product_id;
SELECT (SELECT channel FROM orders o WHERE o.order_id = i.order_id) AS c, COUNT(*), SUM(qty) FROM order_items i GROUP BY c;

-- Texts among values of several types, and calls in other words
SELECT COUNT(*) FROM orders WHERE order_date BETWEEN '2025-01-01 12:00:00' AND TIMESTAMP '2025-03-01';
SELECT COUNT(*) FROM orders WHERE quantity BETWEEN 1.5 AND '4.4';
SELECT COUNT(*) FROM orders WHERE (channel, quantity) IN (('web', 1), ('app', 2), ('store', NULL));
SELECT split_part(channel, 'e', -1) AS a, string_split(channel, 'e')[2] AS b, COUNT(*) FROM orders GROUP BY a, b;
SELECT strftime(order_date, '%Y/%W') AS w, strftime(order_date, '%w') AS d, COUNT(*) FROM orders GROUP BY ALL;
SELECT printf('%s:%02d', channel, quantity) AS k, translate(channel, 'eb', 'x') AS t, COUNT(*) FROM orders GROUP BY ALL;
SELECT r, t, COUNT(*) FROM (SELECT user_id, DENSE_RANK() OVER (PARTITION BY user_id ORDER BY channel) AS r, NTILE(2) OVER (PARTITION BY user_id ORDER BY order_id) AS t FROM orders) GROUP BY r, t;

-- Medians, quantiles and modes of a unit's rows
SELECT m, COUNT(*) FROM (SELECT user_id, MEDIAN(quantity) AS m FROM orders GROUP BY user_id) GROUP BY m;
SELECT AVG(m) FROM (SELECT user_id, channel, MEDIAN(amount) AS m FROM orders GROUP BY user_id, channel);
SELECT d, COUNT(*) FROM (SELECT user_id, QUANTILE_DISC(order_date, 0.5) AS d FROM orders GROUP BY user_id) GROUP BY d;
SELECT c, COUNT(*) FROM (SELECT user_id, MODE(channel) AS c FROM orders GROUP BY user_id HAVING COUNT(DISTINCT channel) = 1) GROUP BY c;

-- Values of the group of a row around, and NULLs passed over
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders p WHERE p.channel = o.channel);
SELECT channel, COUNT(*) FROM orders o WHERE amount > (SELECT 0.5 * AVG(amount) FROM orders p WHERE p.channel = o.channel) GROUP BY channel;
SELECT COUNT(*) FROM orders o WHERE o.channel IN ('web', 'app') AND amount > (SELECT AVG(amount) FROM orders p WHERE p.channel = o.channel);
SELECT status, COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM orders p WHERE p.channel = o.channel AND p.amount > 10) > 20 GROUP BY status;
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders p WHERE p.channel = o.channel AND p.status = o.status);
SELECT x, COUNT(*) FROM (SELECT user_id, LAST_VALUE(quantity IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LAST_VALUE(quantity IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LAST_VALUE(quantity IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, FIRST_VALUE(quantity IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, FIRST_VALUE(coupon IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LAG(coupon IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LEAD(coupon IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LAG(quantity IGNORE NULLS) OVER (PARTITION BY user_id, status ORDER BY ts DESC, order_id) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LAST_VALUE(quantity) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders) GROUP BY x;
SELECT x, COUNT(*) FROM (SELECT user_id, LAST_VALUE(quantity) OVER (PARTITION BY user_id ORDER BY order_id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS x FROM orders) GROUP BY x;
SELECT x - y AS d, COUNT(*) FROM (SELECT user_id, quantity AS y, LAG(quantity RESPECT NULLS) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders) GROUP BY d;
SELECT AVG(x), SUM(x) FROM (SELECT user_id, amount - LAG(amount IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_id) AS x FROM orders);
SELECT x, COUNT(*) FROM (SELECT user_id, LAST_VALUE(status IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY order_date) AS x, order_date FROM orders) GROUP BY x;
SELECT COUNT(*) FROM (SELECT user_id, MAX(quantity) OVER w AS m, LAST_VALUE(quantity IGNORE NULLS) OVER w AS l, NTH_VALUE(quantity, 2) OVER w AS n, DENSE_RANK() OVER w AS r FROM orders WINDOW w AS (PARTITION BY user_id ORDER BY order_id)) WHERE m > l AND n IS NOT NULL AND r > 2;
SELECT k, COUNT(*) FROM (SELECT user_id, plan AS k, LAST_VALUE(user_id IGNORE NULLS) OVER (PARTITION BY user_id ORDER BY subscription_id) AS x FROM subscriptions) GROUP BY k;

-- Lookups and tests in grouping sets and in ON of outer joins
SELECT (SELECT s.region FROM stores s WHERE s.store_id = o.store_id) AS region, status, SUM(amount), COUNT(*) FROM orders o GROUP BY ROLLUP (region, status);
SELECT (SELECT s.region FROM stores s WHERE s.store_id = o.store_id) AS region, channel, GROUPING(region) AS g, COUNT(*) FROM orders o GROUP BY CUBE (region, channel);
SELECT COUNT(*), (SELECT s.region FROM stores s WHERE s.store_id = o.store_id) AS region FROM orders o GROUP BY GROUPING SETS ((region), ());
SELECT store_id IN (SELECT store_id FROM stores WHERE region = 'EU') AS eu, status, COUNT(*) FROM orders o GROUP BY ROLLUP (eu, status);
SELECT status, (SELECT c.region FROM countries c WHERE c.country = o.status) AS region, COUNT(*) FROM orders o GROUP BY ROLLUP (status);
SELECT country, (SELECT c.region FROM countries c WHERE c.country = u.country) AS region, COUNT(*) FROM users u GROUP BY ROLLUP (country);
SELECT country, plan, (SELECT COUNT(*) FROM countries c WHERE c.country = u.country) AS region, COUNT(*) FROM users u GROUP BY CUBE (u.country, u.plan);
SELECT (SELECT s.region FROM stores s WHERE s.store_id = o.store_id), status, SUM(amount), COUNT(*) FROM orders o GROUP BY ROLLUP ((SELECT s.region FROM stores s WHERE s.store_id = o.store_id), status);
SELECT country, COUNT(order_id) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND o.store_id IN (SELECT store_id FROM stores WHERE region = 'EU') GROUP BY country;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND u.country IN (SELECT country FROM countries WHERE population > 1000) GROUP BY country;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND NOT EXISTS (SELECT 1 FROM stores s WHERE s.store_id = o.store_id AND s.region = 'EU') GROUP BY country;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND o.amount > (SELECT 10 * s.store_id FROM stores s WHERE s.store_id = o.store_id) GROUP BY country;
SELECT status, COUNT(u.user_id), COUNT(*) FROM users u RIGHT JOIN orders o ON u.user_id = o.user_id AND u.country NOT IN (SELECT country FROM countries WHERE region = 'EU') GROUP BY status;
SELECT status, COUNT(u.user_id), COUNT(*) FROM users u FULL JOIN orders o ON u.user_id = o.user_id AND (o.amount > 100 OR o.store_id IN (SELECT store_id FROM stores WHERE region = 'EU')) GROUP BY status;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND EXISTS (SELECT 1 FROM events e WHERE e.user_id = o.user_id AND e.kind = 'purchase') GROUP BY country;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND o.order_id IN (SELECT order_id FROM order_items WHERE qty > 2) GROUP BY country;
SELECT region, COUNT(order_id) FROM orders o LEFT JOIN stores s ON s.store_id = o.store_id AND s.region IN (SELECT region FROM countries) GROUP BY region;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND (SELECT s.region FROM stores s WHERE s.store_id = o.store_id) = 'EU' AND o.amount > 5 GROUP BY country;
SELECT country, COUNT(order_id), COUNT(*) FROM users u LEFT JOIN orders o ON u.user_id = o.user_id AND o.amount > (SELECT AVG(amount) FROM orders) GROUP BY country;

-- LATERAL subqueries of one row
SELECT COUNT(*) FROM orders o JOIN LATERAL (SELECT SUM(l.qty) AS q FROM order_items l WHERE l.order_id = o.order_id) t ON true WHERE t.q > 3;
SELECT u.country, AVG(x.h), COUNT(*) FROM users u, LATERAL (SELECT SUM(amount) AS h FROM orders o WHERE o.user_id = u.user_id) x GROUP BY u.country;
SELECT n, COUNT(*) FROM users u CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.user_id = u.user_id) x GROUP BY n;
SELECT x.d, COUNT(*) FROM users u CROSS JOIN LATERAL (SELECT u.age // 10 * 10) AS x(d) GROUP BY x.d;
SELECT y.e, COUNT(*) FROM users u, LATERAL (SELECT u.age // 10 AS d) x, LATERAL (SELECT x.d * 2 AS e) y WHERE x.d > 1 GROUP BY y.e;
SELECT s.store_name, t.n FROM stores s CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.store_id = s.store_id) t ORDER BY 1;
SELECT first_status, COUNT(*) FROM users u LEFT JOIN LATERAL (SELECT status AS first_status FROM orders o WHERE o.user_id = u.user_id ORDER BY ts, order_id LIMIT 1) f ON true GROUP BY first_status;
SELECT t.q, COUNT(*) AS c FROM orders o, LATERAL (SELECT COUNT(*) AS q, MAX(price) AS m FROM order_items l WHERE l.order_id = o.order_id) t WHERE t.m > 10 OR t.m IS NULL GROUP BY t.q HAVING COUNT(*) > 1 ORDER BY c DESC, 1;
SELECT x.a, COUNT(*) FROM orders o, LATERAL (SELECT MAX(z.v) AS a FROM order_items l, LATERAL (SELECT l.qty + 1 AS v) z WHERE l.order_id = o.order_id) x GROUP BY x.a;
SELECT r.status, x.m FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) r, LATERAL (SELECT r.n * 2 AS m) x ORDER BY x.m;
SELECT COUNT(*) FROM users u, LATERAL (SELECT AVG(amount) AS a FROM orders o WHERE o.user_id = u.user_id) x WHERE EXISTS (SELECT 1 FROM orders p WHERE p.user_id = u.user_id AND p.amount > 100) AND x.a > 50;

-- Lists of a unit's values
SELECT len, COUNT(*) FROM (SELECT user_id, len(array_agg(DISTINCT channel)) AS len FROM orders GROUP BY user_id) GROUP BY len;
SELECT COUNT(*) FROM (SELECT user_id FROM orders GROUP BY user_id HAVING list_contains(list(status), 'paid') AND len(list(amount)) > 2);
SELECT AVG(s) FROM (SELECT user_id, list_sum(list(quantity)) AS s FROM orders GROUP BY user_id);
SELECT COUNT(*) FROM (SELECT user_id, list(kind ORDER BY ts, event_id) AS seq FROM events GROUP BY user_id) WHERE list_contains(seq, 'purchase');
SELECT array_length(seq) AS n, COUNT(*) FROM (SELECT user_id, array_agg(status ORDER BY order_id) AS seq FROM orders GROUP BY user_id) GROUP BY 1;
SELECT seq[1] AS first, seq[-1] AS last, COUNT(*) FROM (SELECT user_id, list(status ORDER BY order_id) AS seq FROM orders GROUP BY user_id) GROUP BY ALL;
SELECT array_to_string(seq, '>') AS path, COUNT(*) FROM (SELECT user_id, list(status ORDER BY order_id) AS seq FROM orders WHERE quantity > 2 GROUP BY user_id) GROUP BY path;
SELECT path, COUNT(*) FROM (SELECT user_id, array_to_string(list_sort(list(DISTINCT channel)), '+') AS path FROM orders GROUP BY user_id) GROUP BY path;
SELECT x.plan, COUNT(*) FROM users x JOIN (SELECT user_id, list(channel) AS cs FROM orders GROUP BY user_id) o ON o.user_id = x.user_id WHERE list_has_any(o.cs, ['web', 'app']) AND NOT list_has_all(o.cs, ['web', 'app']) GROUP BY x.plan;
SELECT len(cs) AS n, COUNT(*) FROM (SELECT user_id, list(coupon) FILTER (WHERE amount > 50) AS cs FROM orders GROUP BY user_id) GROUP BY n;
SELECT list_contains(cs, 'web') AS w, 'app' IN cs AS a, COUNT(*) FROM (SELECT user_id, list(channel) FILTER (WHERE amount > 50) AS cs FROM orders GROUP BY user_id) GROUP BY ALL;
SELECT list_unique(cs) AS w, len(list_distinct(cs)) AS d, COUNT(*) FROM (SELECT user_id, list(channel) AS cs FROM orders GROUP BY user_id) GROUP BY ALL;
SELECT len(list(DISTINCT coupon)) AS w FROM (SELECT 1 AS coupon) GROUP BY coupon;
SELECT channel, len(list(DISTINCT status)) AS n FROM orders GROUP BY channel ORDER BY channel;
SELECT month(order_date) AS m, AVG(n) FROM (SELECT user_id, order_date, len(list(status)) AS n FROM orders GROUP BY user_id, order_date) GROUP BY m;
SELECT upper(status)[1] AS a, (status || 'x')[3] AS b, CAST(order_date AS VARCHAR)[4] AS c, lower(status)[-1] AS d, upper(status)[0] AS e, COUNT(*) FROM orders GROUP BY ALL;
SELECT quantity, quantile_disc(quantity, [0.25, 0.75])[-1] AS q, quantile_disc(quantity, [0.25, 0.75])[1:2] AS both FROM orders WHERE quantity >= 0 GROUP BY quantity;
SELECT DISTINCT status, COUNT(*) OVER (PARTITION BY status) AS n FROM orders WHERE quantity > 0 ORDER BY COUNT(*) OVER (PARTITION BY status) DESC LIMIT 2;
SELECT COUNT(*) FROM orders WHERE quantity NOT IN (SELECT COUNT(*) OVER () FROM products WHERE list_price > 1e9 LIMIT 1);
