-- In the shapes that MetricFlow generates: simple, ratio, cumulative, derived and conversion metrics.
-- world: shop

-- answerable
SELECT SUM(subq_1.revenue) AS revenue FROM (SELECT amount AS revenue, DATE_TRUNC('day', ts) AS ds__day, user_id AS user FROM main.orders orders_src_10000) subq_1;

-- answerable
SELECT metric_time__day, SUM(bookings) AS bookings FROM (SELECT DATE_TRUNC('day', ts) AS metric_time__day, 1 AS bookings FROM main.orders bookings_source_src_28000) subq_2 GROUP BY metric_time__day;

-- answerable
SELECT metric_time__month, SUM(txn_count) AS txn_count FROM (SELECT DATE_TRUNC('month', ts) AS metric_time__month, 1 AS txn_count FROM main.orders orders_src_1 WHERE DATE_TRUNC('day', ts) BETWEEN '2025-01-01' AND '2025-12-31') subq_3 GROUP BY metric_time__month ORDER BY metric_time__month;

-- answerable
SELECT order__status, COUNT(DISTINCT buyers) AS buyers FROM (SELECT status AS order__status, user_id AS buyers FROM main.orders o) subq_2 GROUP BY order__status;

-- answerable
SELECT subq_2.user__country AS user__country, SUM(subq_2.revenue) AS revenue FROM (SELECT users_src.country AS user__country, subq_1.revenue AS revenue FROM (SELECT user_id AS user, amount AS revenue FROM main.orders orders_src) subq_1 LEFT OUTER JOIN main.users users_src ON subq_1.user = users_src.user_id) subq_2 GROUP BY subq_2.user__country;

-- answerable
SELECT product__category, SUM(units) AS units FROM (SELECT products_src.category AS product__category, subq_3.units AS units FROM (SELECT product_id AS product, quantity AS units FROM main.orders orders_src) subq_3 LEFT OUTER JOIN main.products products_src ON subq_3.product = products_src.product_id) subq_5 WHERE product__category = 'Home' GROUP BY product__category;

-- answerable
SELECT metric_time__day, CAST(returned AS DOUBLE) / CAST(NULLIF(orders, 0) AS DOUBLE) AS return_rate FROM (SELECT metric_time__day, SUM(returned) AS returned, SUM(orders) AS orders FROM (SELECT DATE_TRUNC('day', ts) AS metric_time__day, CASE WHEN status = 'returned' THEN 1 ELSE 0 END AS returned, 1 AS orders FROM main.orders src) subq_4 GROUP BY metric_time__day) subq_5;

-- answerable
SELECT COALESCE(subq_4.metric_time__day, subq_9.metric_time__day) AS metric_time__day, CAST(MAX(subq_4.revenue) AS DOUBLE) / CAST(NULLIF(MAX(subq_9.views), 0) AS DOUBLE) AS revenue_per_view FROM (SELECT DATE_TRUNC('day', ts) AS metric_time__day, SUM(amount) AS revenue FROM main.orders GROUP BY DATE_TRUNC('day', ts)) subq_4 FULL OUTER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, SUM(CASE WHEN kind = 'view' THEN 1 ELSE 0 END) AS views FROM main.events GROUP BY DATE_TRUNC('day', ts)) subq_9 ON subq_4.metric_time__day = subq_9.metric_time__day GROUP BY COALESCE(subq_4.metric_time__day, subq_9.metric_time__day);

-- answerable
SELECT revenue - discounts AS net_revenue FROM (SELECT MAX(subq_3.revenue) AS revenue, MAX(subq_7.discounts) AS discounts FROM (SELECT SUM(amount) AS revenue FROM main.orders) subq_3 CROSS JOIN (SELECT SUM(discount) AS discounts FROM main.orders) subq_7) subq_8;

-- answerable
SELECT metric_time__day, revenue AS revenue_all_time FROM (SELECT subq_3.ds AS metric_time__day, SUM(subq_1.revenue) AS revenue FROM main.calendar subq_3 INNER JOIN (SELECT amount AS revenue, DATE_TRUNC('day', ts) AS metric_time__day FROM main.orders) subq_1 ON subq_1.metric_time__day <= subq_3.ds GROUP BY subq_3.ds) subq_5;

-- answerable
SELECT subq_10.ds AS metric_time__day, SUM(subq_8.revenue) AS trailing_7_day_revenue FROM main.calendar subq_10 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue FROM main.orders) subq_8 ON (subq_8.metric_time__day <= subq_10.ds) AND (subq_8.metric_time__day > subq_10.ds - INTERVAL 7 day) GROUP BY subq_10.ds;

-- answerable
SELECT subq_10.month AS metric_time__month, SUM(subq_8.revenue) AS revenue_mtd FROM main.calendar subq_10 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue FROM main.orders) subq_8 ON (subq_8.metric_time__day <= subq_10.ds) AND (subq_8.metric_time__day >= DATE_TRUNC('month', subq_10.ds)) GROUP BY subq_10.month;

-- answerable
SELECT subq_3.ds AS metric_time__day, COUNT(DISTINCT subq_1.active) AS trailing_28_actives FROM main.calendar subq_3 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS ds__day, user_id AS active FROM main.events) subq_1 ON (subq_1.ds__day <= subq_3.ds) AND (subq_1.ds__day > subq_3.ds - INTERVAL 28 day) WHERE subq_3.ds BETWEEN '2025-01-01' AND '2025-02-28' GROUP BY subq_3.ds;

-- answerable
SELECT metric_time__day, bookings, bookings_14_days_ago, bookings - bookings_14_days_ago AS growth FROM (SELECT COALESCE(subq_4.d, subq_9.d) AS metric_time__day, MAX(subq_4.bookings) AS bookings, MAX(subq_9.bookings_14_days_ago) AS bookings_14_days_ago FROM (SELECT DATE_TRUNC('day', ts) AS d, COUNT(*) AS bookings FROM main.orders GROUP BY 1) subq_4 FULL OUTER JOIN (SELECT subq_7.ds AS d, SUM(subq_6.one) AS bookings_14_days_ago FROM main.calendar subq_7 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, 1 AS one FROM main.orders) subq_6 ON subq_7.ds - INTERVAL 14 day = subq_6.metric_time__day GROUP BY subq_7.ds) subq_9 ON subq_4.d = subq_9.d GROUP BY COALESCE(subq_4.d, subq_9.d)) subq_10;

-- answerable
SELECT subq_5.ds AS metric_time__day, COALESCE(subq_3.bookings, 0) AS bookings_fill_nulls_with_0 FROM main.calendar subq_5 LEFT OUTER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, SUM(1) AS bookings FROM main.orders GROUP BY DATE_TRUNC('day', ts)) subq_3 ON subq_5.ds = subq_3.metric_time__day;

-- answerable
SELECT CAST(MAX(subq_19.buys) AS DOUBLE) / CAST(NULLIF(MAX(subq_6.visits), 0) AS DOUBLE) AS visit_buy_conversion_rate FROM (SELECT SUM(visits) AS visits FROM (SELECT 1 AS visits FROM main.events WHERE kind = 'view') subq_4) subq_6 CROSS JOIN (SELECT SUM(buys) AS buys FROM (SELECT DISTINCT FIRST_VALUE(v.visits) OVER (PARTITION BY b.user, b.metric_time__day, b.mf_internal_uuid ORDER BY v.metric_time__day DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS visits, b.mf_internal_uuid AS mf_internal_uuid, b.buys AS buys FROM (SELECT DATE_TRUNC('day', ts) AS metric_time__day, user_id AS user, 1 AS visits FROM main.events WHERE kind = 'view') v INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, user_id AS user, 1 AS buys, GEN_RANDOM_UUID() AS mf_internal_uuid FROM main.orders) b ON v.user = b.user AND v.metric_time__day <= b.metric_time__day AND v.metric_time__day > b.metric_time__day - INTERVAL 7 day) subq_16) subq_19;

-- answerable
SELECT COALESCE(subq_6.referrer, subq_19.referrer) AS visit__referrer, MAX(subq_19.buys) / NULLIF(MAX(subq_6.visits), 0) AS rate FROM (SELECT referrer, COUNT(*) AS visits FROM main.events WHERE kind = 'view' GROUP BY referrer) subq_6 FULL OUTER JOIN (SELECT referrer, SUM(buys) AS buys FROM (SELECT DISTINCT FIRST_VALUE(v.referrer) OVER (PARTITION BY b.user, b.ds, b.uuid ORDER BY v.ds DESC) AS referrer, b.uuid, b.buys FROM (SELECT user_id AS user, referrer, DATE_TRUNC('day', ts) AS ds FROM main.events WHERE kind = 'view') v INNER JOIN (SELECT user_id AS user, DATE_TRUNC('day', ts) AS ds, 1 AS buys, GEN_RANDOM_UUID() AS uuid FROM main.orders) b ON v.user = b.user AND v.ds <= b.ds) x GROUP BY referrer) subq_19 ON subq_6.referrer = subq_19.referrer GROUP BY COALESCE(subq_6.referrer, subq_19.referrer);

-- answerable
SELECT AVG(order_value) AS average_order_value FROM (SELECT amount AS order_value, status AS order__status FROM main.orders) subq_2 WHERE order__status = 'paid';

-- answerable
SELECT MAX(amount) AS largest_order FROM (SELECT amount FROM main.orders orders_src) subq_1;

-- answerable
SELECT user__plan, MIN(signup_day) AS first_signup FROM (SELECT plan AS user__plan, signup AS signup_day FROM main.users) subq_2 GROUP BY user__plan;

-- answerable
SELECT PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY (booking_value)) AS p95_booking_value FROM (SELECT amount AS booking_value FROM main.orders) subq_3;

-- answerable
SELECT APPROX_QUANTILE(booking_value, 0.5) AS approx_median FROM (SELECT amount AS booking_value FROM main.orders) subq_3;

-- answerable
SELECT QUANTILE_DISC(booking_value, 0.99) AS p99_disc, listing__channel FROM (SELECT amount AS booking_value, channel AS listing__channel FROM main.orders) subq_3 GROUP BY listing__channel;

-- answerable
SELECT user__country FROM (SELECT country AS user__country FROM main.users users_src) subq_1 GROUP BY user__country;

-- answerable
SELECT COALESCE(subq_2.user__country, subq_5.event__country) AS country FROM (SELECT country AS user__country, user_id AS user FROM main.users) subq_2 FULL OUTER JOIN (SELECT country AS event__country, user_id AS user FROM main.events) subq_5 ON subq_2.user = subq_5.user GROUP BY 1;

-- answerable
SELECT metric_time__day, user__plan FROM (SELECT subq_2.ds AS metric_time__day, users_src.plan AS user__plan FROM main.users users_src CROSS JOIN main.calendar subq_2) subq_4 WHERE metric_time__day = '2025-01-01' GROUP BY metric_time__day, user__plan;

-- answerable
SELECT SUM(subq_4.account_balance) AS total_account_balance_first_day FROM (SELECT user_id, MIN(started) AS ds__complete FROM main.subscriptions GROUP BY user_id) subq_5 INNER JOIN (SELECT user_id, started, mrr AS account_balance FROM main.subscriptions) subq_4 ON subq_4.started = subq_5.ds__complete AND subq_4.user_id = subq_5.user_id;

-- answerable
SELECT SUM(subq_4.mrr) AS mrr_last_day FROM (SELECT started AS ds, mrr FROM main.subscriptions) subq_4 INNER JOIN (SELECT MAX(started) AS ds__complete FROM main.subscriptions) subq_5 ON subq_4.ds = subq_5.ds__complete;

-- answerable
SELECT subq_7.metric_time__week, AVG(subq_7.daily) AS avg_daily_revenue FROM (SELECT DATE_TRUNC('day', ts) AS metric_time__day, DATE_TRUNC('week', ts) AS metric_time__week, SUM(amount) AS daily FROM main.orders GROUP BY 1, 2) subq_7 GROUP BY subq_7.metric_time__week;

-- answerable
SELECT metric_time__month, FIRST_VALUE(revenue_cumulative) OVER (PARTITION BY metric_time__month ORDER BY metric_time__day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS revenue_cumulative FROM (SELECT c.ds AS metric_time__day, c.month AS metric_time__month, SUM(o.amount) AS revenue_cumulative FROM main.calendar c INNER JOIN main.orders o ON DATE_TRUNC('day', o.ts) <= c.ds WHERE c.ds BETWEEN '2025-01-01' AND '2025-03-31' GROUP BY c.ds, c.month) subq_11;

-- answerable
SELECT user__order_count_bucket, SUM(users) AS users FROM (SELECT CASE WHEN subq_3.n > 5 THEN 'many' ELSE 'few' END AS user__order_count_bucket, 1 AS users FROM main.users u LEFT OUTER JOIN (SELECT user_id AS user, SUM(1) AS n FROM main.orders GROUP BY user_id) subq_3 ON u.user_id = subq_3.user) subq_5 GROUP BY user__order_count_bucket;

-- answerable
SELECT user__orders, SUM(users) AS users FROM (SELECT subq_3.n AS user__orders, 1 AS users FROM (SELECT user_id AS user FROM main.users) subq_1 LEFT OUTER JOIN (SELECT user_id AS user, COUNT(*) AS n FROM main.orders GROUP BY user_id) subq_3 ON subq_1.user = subq_3.user) subq_5 WHERE user__orders > 2 GROUP BY user__orders;

-- answerable
SELECT metric_time__day, SUM(instant_revenue) AS instant_revenue FROM (SELECT subq_2.metric_time__day, subq_2.amount AS instant_revenue, users_src.country AS user__country, users_src.plan AS user__plan FROM (SELECT DATE_TRUNC('day', ts) AS metric_time__day, user_id AS user, amount FROM main.orders) subq_2 LEFT OUTER JOIN main.users users_src ON subq_2.user = users_src.user_id) subq_6 WHERE user__country = 'DE' AND user__plan IN ('pro', 'team') GROUP BY metric_time__day;

-- answerable
SELECT EXTRACT(year FROM ts) AS metric_time__extract_year, EXTRACT(isodow FROM ts) AS metric_time__extract_dow, SUM(1) AS bookings FROM main.orders GROUP BY EXTRACT(year FROM ts), EXTRACT(isodow FROM ts);

-- answerable
SELECT SUM(CASE WHEN amount > 100 THEN 1 ELSE 0 END) AS big_bookings, SUM(1) AS bookings FROM main.orders;

-- answerable
SELECT subq_2.store__region, SUM(subq_2.revenue) AS revenue FROM (SELECT stores_src.region AS store__region, o.amount AS revenue FROM main.orders o LEFT OUTER JOIN main.stores stores_src ON o.store_id = stores_src.store_id WHERE stores_src.opened < '2020-01-01') subq_2 GROUP BY subq_2.store__region ORDER BY revenue DESC LIMIT 1;

-- refused: unit-keys
SELECT subq_2.order__order_id, SUM(subq_2.units) AS units FROM (SELECT order_id AS order__order_id, qty AS units FROM main.order_items) subq_2 GROUP BY subq_2.order__order_id;

-- refused: unit-keys
SELECT subq_2.user, SUM(subq_2.revenue) AS revenue FROM (SELECT user_id AS user, amount AS revenue FROM main.orders) subq_2 GROUP BY subq_2.user;

-- answerable
SELECT COUNT(DISTINCT user) AS buyers FROM (SELECT user_id AS user, DATE_TRUNC('day', ts) AS d FROM main.orders) subq_2 WHERE d >= '2025-01-01';

-- answerable
SELECT user__country, user__plan, CAST(buyers AS DOUBLE) / CAST(NULLIF(users, 0) AS DOUBLE) AS buyer_share FROM (SELECT COALESCE(a.user__country, b.user__country) AS user__country, COALESCE(a.user__plan, b.user__plan) AS user__plan, MAX(a.buyers) AS buyers, MAX(b.users) AS users FROM (SELECT u.country AS user__country, u.plan AS user__plan, COUNT(DISTINCT o.user_id) AS buyers FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id GROUP BY u.country, u.plan) a FULL OUTER JOIN (SELECT country AS user__country, plan AS user__plan, COUNT(DISTINCT user_id) AS users FROM main.users GROUP BY country, plan) b ON a.user__country = b.user__country AND a.user__plan = b.user__plan GROUP BY 1, 2) subq_12;

-- answerable
SELECT SUM(listings) AS listings, SUM(smallest) AS smallest FROM (SELECT 1 AS listings, age AS smallest FROM main.users WHERE country IS NOT NULL) subq_1;

-- answerable
SELECT a.ds__day, a.views, b.buys FROM (SELECT DATE_TRUNC('day', ts) AS ds__day, SUM(1) AS views FROM main.events WHERE kind = 'view' GROUP BY 1) a FULL OUTER JOIN (SELECT DATE_TRUNC('day', ts) AS ds__day, SUM(1) AS buys FROM main.orders GROUP BY 1) b ON a.ds__day = b.ds__day ORDER BY a.ds__day DESC LIMIT 100;

-- answerable
SELECT user__country, SUM(subq_1.one) AS n FROM (SELECT user_id AS u, user_id AS b, 1 AS one FROM main.orders) subq_1 LEFT OUTER JOIN (SELECT user_id, country AS user__country FROM main.users) t ON subq_1.u = t.user_id GROUP BY user__country;

-- answerable
WITH sma_28009_cte AS (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue, discount AS discounts FROM main.orders) SELECT metric_time__day, SUM(revenue) AS revenue, SUM(discounts) AS discounts FROM sma_28009_cte GROUP BY metric_time__day;

-- answerable
WITH cm_2_cte AS (SELECT DATE_TRUNC('month', ts) AS metric_time__month, SUM(amount) AS revenue FROM main.orders GROUP BY 1), cm_3_cte AS (SELECT DATE_TRUNC('month', started) AS metric_time__month, SUM(mrr) AS mrr FROM main.subscriptions GROUP BY 1) SELECT COALESCE(cm_2_cte.metric_time__month, cm_3_cte.metric_time__month) AS metric_time__month, MAX(cm_2_cte.revenue) AS revenue, MAX(cm_3_cte.mrr) AS mrr FROM cm_2_cte FULL OUTER JOIN cm_3_cte ON cm_2_cte.metric_time__month = cm_3_cte.metric_time__month GROUP BY 1;

-- answerable
WITH rss AS (SELECT ds AS ds__day, month AS ds__month FROM main.calendar) SELECT rss.ds__month AS metric_time__month, SUM(s.txn) AS txn_all_time FROM rss INNER JOIN (SELECT DATE_TRUNC('day', ts) AS d, amount AS txn FROM main.orders) s ON s.d <= rss.ds__day WHERE rss.ds__day BETWEEN '2025-01-01' AND '2025-01-31' GROUP BY rss.ds__month;

-- answerable
SELECT subq_7.metric_time__week, subq_7.user__country, SUM(subq_7.revenue) AS revenue FROM (SELECT DATE_TRUNC('week', o.ts) AS metric_time__week, u.country AS user__country, o.amount AS revenue FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id WHERE u.plan = 'pro') subq_7 GROUP BY subq_7.metric_time__week, subq_7.user__country;

-- answerable
SELECT user__country, metric_time__week, CAST(app_orders AS DOUBLE) / CAST(NULLIF(orders, 0) AS DOUBLE) AS app_share FROM (SELECT u.country AS user__country, DATE_TRUNC('week', o.ts) AS metric_time__week, SUM(CASE WHEN channel = 'app' THEN 1 ELSE 0 END) AS app_orders, SUM(1) AS orders FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id GROUP BY 1, 2) subq_4 ORDER BY metric_time__week;

-- answerable
SELECT subq_7.metric_time__quarter, subq_7.user__plan, SUM(subq_7.revenue) AS revenue FROM (SELECT DATE_TRUNC('quarter', o.ts) AS metric_time__quarter, u.plan AS user__plan, o.amount AS revenue FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id WHERE u.age BETWEEN 18 AND 65) subq_7 GROUP BY subq_7.metric_time__quarter, subq_7.user__plan;

-- answerable
SELECT user__plan, metric_time__quarter, CAST(app_orders AS DOUBLE) / CAST(NULLIF(orders, 0) AS DOUBLE) AS app_share FROM (SELECT u.plan AS user__plan, DATE_TRUNC('quarter', o.ts) AS metric_time__quarter, SUM(CASE WHEN channel = 'app' THEN 1 ELSE 0 END) AS app_orders, SUM(1) AS orders FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id GROUP BY 1, 2) subq_4 ORDER BY metric_time__quarter;

-- answerable
SELECT subq_7.metric_time__year, subq_7.user__referrer, SUM(subq_7.revenue) AS revenue FROM (SELECT DATE_TRUNC('year', o.ts) AS metric_time__year, u.referrer AS user__referrer, o.amount AS revenue FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id WHERE u.country IN ('DE', 'FR')) subq_7 GROUP BY subq_7.metric_time__year, subq_7.user__referrer;

-- answerable
SELECT user__referrer, metric_time__year, CAST(app_orders AS DOUBLE) / CAST(NULLIF(orders, 0) AS DOUBLE) AS app_share FROM (SELECT u.referrer AS user__referrer, DATE_TRUNC('year', o.ts) AS metric_time__year, SUM(CASE WHEN channel = 'app' THEN 1 ELSE 0 END) AS app_orders, SUM(1) AS orders FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id GROUP BY 1, 2) subq_4 ORDER BY metric_time__year;

-- answerable
SELECT subq_7.metric_time__hour, subq_7.user__gender, SUM(subq_7.revenue) AS revenue FROM (SELECT DATE_TRUNC('hour', o.ts) AS metric_time__hour, u.gender AS user__gender, o.amount AS revenue FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id WHERE u.signup >= '2025-01-01') subq_7 GROUP BY subq_7.metric_time__hour, subq_7.user__gender;

-- answerable
SELECT user__gender, metric_time__hour, CAST(app_orders AS DOUBLE) / CAST(NULLIF(orders, 0) AS DOUBLE) AS app_share FROM (SELECT u.gender AS user__gender, DATE_TRUNC('hour', o.ts) AS metric_time__hour, SUM(CASE WHEN channel = 'app' THEN 1 ELSE 0 END) AS app_orders, SUM(1) AS orders FROM main.orders o LEFT OUTER JOIN main.users u ON o.user_id = u.user_id GROUP BY 1, 2) subq_4 ORDER BY metric_time__hour;

-- answerable
SELECT subq_10.ds AS metric_time__day, SUM(subq_8.one) AS trailing_orders FROM main.calendar subq_10 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, 1 AS one FROM main.orders) subq_8 ON (subq_8.metric_time__day <= subq_10.ds) AND (subq_8.metric_time__day > subq_10.ds - INTERVAL 3 month) WHERE subq_10.ds BETWEEN '2025-06-01' AND '2025-06-30' GROUP BY subq_10.ds;

-- answerable
SELECT subq_5.ds AS metric_time__day, SUM(subq_4.revenue) AS revenue_3_month_ago FROM main.calendar subq_5 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue FROM main.orders) subq_4 ON subq_5.ds - INTERVAL 3 month = subq_4.metric_time__day GROUP BY subq_5.ds ORDER BY 1;

-- answerable
SELECT COUNT(DISTINCT v.user_id) AS converted FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL 3 month WHERE v.kind = 'view';

-- answerable
SELECT subq_10.ds AS metric_time__day, SUM(subq_8.one) AS trailing_orders FROM main.calendar subq_10 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, 1 AS one FROM main.orders) subq_8 ON (subq_8.metric_time__day <= subq_10.ds) AND (subq_8.metric_time__day > subq_10.ds - INTERVAL 4 week) WHERE subq_10.ds BETWEEN '2025-06-01' AND '2025-06-30' GROUP BY subq_10.ds;

-- answerable
SELECT subq_5.ds AS metric_time__day, SUM(subq_4.revenue) AS revenue_4_week_ago FROM main.calendar subq_5 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue FROM main.orders) subq_4 ON subq_5.ds - INTERVAL 4 week = subq_4.metric_time__day GROUP BY subq_5.ds ORDER BY 1;

-- answerable
SELECT COUNT(DISTINCT v.user_id) AS converted FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL 4 week WHERE v.kind = 'view';

-- answerable
SELECT subq_10.ds AS metric_time__day, SUM(subq_8.one) AS trailing_orders FROM main.calendar subq_10 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, 1 AS one FROM main.orders) subq_8 ON (subq_8.metric_time__day <= subq_10.ds) AND (subq_8.metric_time__day > subq_10.ds - INTERVAL 90 day) WHERE subq_10.ds BETWEEN '2025-06-01' AND '2025-06-30' GROUP BY subq_10.ds;

-- answerable
SELECT subq_5.ds AS metric_time__day, SUM(subq_4.revenue) AS revenue_90_day_ago FROM main.calendar subq_5 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue FROM main.orders) subq_4 ON subq_5.ds - INTERVAL 90 day = subq_4.metric_time__day GROUP BY subq_5.ds ORDER BY 1;

-- answerable
SELECT COUNT(DISTINCT v.user_id) AS converted FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL 90 day WHERE v.kind = 'view';

-- answerable
SELECT subq_10.ds AS metric_time__day, SUM(subq_8.one) AS trailing_orders FROM main.calendar subq_10 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, 1 AS one FROM main.orders) subq_8 ON (subq_8.metric_time__day <= subq_10.ds) AND (subq_8.metric_time__day > subq_10.ds - INTERVAL 1 year) WHERE subq_10.ds BETWEEN '2025-06-01' AND '2025-06-30' GROUP BY subq_10.ds;

-- answerable
SELECT subq_5.ds AS metric_time__day, SUM(subq_4.revenue) AS revenue_1_year_ago FROM main.calendar subq_5 INNER JOIN (SELECT DATE_TRUNC('day', ts) AS metric_time__day, amount AS revenue FROM main.orders) subq_4 ON subq_5.ds - INTERVAL 1 year = subq_4.metric_time__day GROUP BY subq_5.ds ORDER BY 1;

-- answerable
SELECT COUNT(DISTINCT v.user_id) AS converted FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL 1 year WHERE v.kind = 'view';

-- answerable
SELECT subscription__status, SUM(total_mrr) AS total_mrr FROM (SELECT status AS subscription__status, mrr AS total_mrr FROM main.subscriptions subscriptions_src_28004) subq_2 WHERE subscription__status <> 'trial' GROUP BY subscription__status;

-- answerable
SELECT subscription__status, AVG(average_mrr) AS average_mrr FROM (SELECT status AS subscription__status, mrr AS average_mrr FROM main.subscriptions subscriptions_src_28004) subq_2 WHERE subscription__status <> 'trial' GROUP BY subscription__status;

-- answerable
SELECT subscription__status, MAX(max_mrr) AS max_mrr FROM (SELECT status AS subscription__status, mrr AS max_mrr FROM main.subscriptions subscriptions_src_28004) subq_2 WHERE subscription__status <> 'trial' GROUP BY subscription__status;

-- answerable
SELECT subscription__status, COUNT(subscriptions) AS subscriptions FROM (SELECT status AS subscription__status, mrr AS subscriptions FROM main.subscriptions subscriptions_src_28004) subq_2 WHERE subscription__status <> 'trial' GROUP BY subscription__status;

-- answerable
SELECT subscription__status, MEDIAN(median_mrr) AS median_mrr FROM (SELECT status AS subscription__status, mrr AS median_mrr FROM main.subscriptions subscriptions_src_28004) subq_2 WHERE subscription__status <> 'trial' GROUP BY subscription__status;

-- answerable
SELECT DATE_TRUNC('day', subq_9.ts) AS metric_time__day, SUM(1) AS buys_within FROM (SELECT DISTINCT b.order_id, b.ts FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL '3 day') subq_9 GROUP BY DATE_TRUNC('day', subq_9.ts);

-- answerable
SELECT DATE_TRUNC('day', subq_9.ts) AS metric_time__day, SUM(1) AS buys_within FROM (SELECT DISTINCT b.order_id, b.ts FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL '1 hour') subq_9 GROUP BY DATE_TRUNC('day', subq_9.ts);

-- answerable
SELECT DATE_TRUNC('day', subq_9.ts) AS metric_time__day, SUM(1) AS buys_within FROM (SELECT DISTINCT b.order_id, b.ts FROM main.events v INNER JOIN main.orders b ON v.user_id = b.user_id AND v.ts <= b.ts AND v.ts > b.ts - INTERVAL '30 minute') subq_9 GROUP BY DATE_TRUNC('day', subq_9.ts);

-- answerable
SELECT product__brand, SUM(lines) AS lines, SUM(line_value) AS line_value FROM (SELECT p.brand AS product__brand, 1 AS lines, i.qty * i.price AS line_value FROM main.order_items i LEFT OUTER JOIN main.products p ON i.product_id = p.product_id LEFT OUTER JOIN main.orders o ON i.order_id = o.order_id LEFT OUTER JOIN main.users u ON o.user_id = u.user_id WHERE u.plan = 'pro') subq_11 GROUP BY product__brand;

-- answerable
SELECT product__brand, SUM(lines) AS lines, SUM(line_value) AS line_value FROM (SELECT p.brand AS product__brand, 1 AS lines, i.qty * i.price AS line_value FROM main.order_items i LEFT OUTER JOIN main.products p ON i.product_id = p.product_id LEFT OUTER JOIN main.orders o ON i.order_id = o.order_id LEFT OUTER JOIN main.users u ON o.user_id = u.user_id WHERE u.plan = 'team') subq_11 GROUP BY product__brand;
