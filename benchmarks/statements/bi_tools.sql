-- In the shapes of Superset, Metabase, Tableau, Looker, Power BI, Grafana, Cube and dbt.
-- world: shop

-- answerable
SELECT DATE_TRUNC('day', ts) AS __timestamp, COUNT(*) AS "count" FROM orders WHERE ts >= TIMESTAMP '2025-01-01 00:00:00' AND ts < TIMESTAMP '2025-02-01 00:00:00' GROUP BY DATE_TRUNC('day', ts) ORDER BY "count" DESC LIMIT 10000;

-- answerable
SELECT DATE_TRUNC('week', ts) AS "__timestamp", channel AS channel, SUM(amount) AS "SUM(amount)" FROM main.orders JOIN (SELECT channel AS channel__, SUM(amount) AS mme_inner__ FROM main.orders WHERE ts >= '2025-01-01 00:00:00.000000' GROUP BY channel ORDER BY mme_inner__ DESC LIMIT 5) AS series_limit ON channel = channel__ WHERE ts >= '2025-01-01 00:00:00.000000' GROUP BY channel, DATE_TRUNC('week', ts) ORDER BY "SUM(amount)" DESC LIMIT 50000;

-- answerable
SELECT status AS status, count(*) AS count FROM (SELECT * FROM orders WHERE channel = 'web') AS virtual_table WHERE ts >= TIMESTAMP '2025-03-01' GROUP BY status ORDER BY count DESC LIMIT 100;

-- answerable
SELECT count(*) AS count FROM (SELECT o.*, u.country FROM orders o JOIN users u ON o.user_id = u.user_id) AS virtual_table WHERE ((country = 'DE')) AND (("channel" IN ('web', 'app'))) LIMIT 50000;

-- answerable
SELECT country AS country, AVG(age) AS "AVG(age)", COUNT(DISTINCT user_id) AS "COUNT_DISTINCT(user_id)" FROM main.users WHERE plan IN ('pro', 'team') GROUP BY country HAVING ((COUNT(*) > 10)) ORDER BY "AVG(age)" DESC LIMIT 1000;

-- answerable
SELECT sum(amount) AS revenue, count(DISTINCT CASE WHEN status = 'returned' THEN order_id END) AS returned FROM orders WHERE ts >= '2025-01-01' AND ts < '2026-01-01' LIMIT 50000;

-- answerable
SELECT DATE_TRUNC('month', ts) AS __timestamp, status, SUM(amount) AS total FROM orders WHERE status NOT IN ('cancelled') OR status IS NULL GROUP BY 1, 2 ORDER BY total DESC LIMIT 10000;

-- answerable
SELECT device AS device, quantile_cont(duration, 0.25) AS q1, quantile_cont(duration, 0.5) AS med, quantile_cont(duration, 0.75) AS q3, MIN(duration) AS lo, MAX(duration) AS hi FROM events GROUP BY device;

-- answerable
SELECT DATE_TRUNC('day', ts) AS __timestamp, SUM(SUM(amount)) OVER (ORDER BY DATE_TRUNC('day', ts) ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM orders GROUP BY 1 ORDER BY 1;

-- answerable
SELECT CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS "age band", count(*) AS count FROM users GROUP BY CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'senior' END ORDER BY count DESC LIMIT 10;

-- answerable
SELECT kind AS kind, COUNT(DISTINCT session_id) AS sessions FROM events WHERE ts >= NOW() - INTERVAL '7 days' GROUP BY kind ORDER BY sessions DESC LIMIT 25;

-- answerable
SELECT DISTINCT channel FROM orders WHERE ts >= '2024-01-01' LIMIT 1000;

-- answerable
SELECT DISTINCT channel AS channel FROM main.orders ORDER BY channel ASC LIMIT 1001;

-- answerable
SELECT MIN(ts) AS "min_ts", MAX(ts) AS "max_ts" FROM orders;

-- answerable
SELECT "source"."month" AS "month", SUM("source"."amount") AS "sum" FROM (SELECT DATE_TRUNC('month', "main"."orders"."ts") AS "month", "main"."orders"."amount" AS "amount" FROM "main"."orders") AS "source" GROUP BY "source"."month" ORDER BY "source"."month" ASC;

-- answerable
SELECT CAST("main"."orders"."ts" AS date) AS "ts", COUNT(*) AS "count" FROM "main"."orders" WHERE "main"."orders"."ts" >= CAST((CAST(NOW() AS timestamp) + (INTERVAL '-30 day')) AS date) AND "main"."orders"."ts" < CAST(NOW() AS date) GROUP BY CAST("main"."orders"."ts" AS date) ORDER BY CAST("main"."orders"."ts" AS date) ASC;

-- answerable
SELECT "Products"."category" AS "Products__category", SUM("main"."orders"."amount") AS "sum", AVG("main"."orders"."quantity") AS "avg" FROM "main"."orders" LEFT JOIN "main"."products" AS "Products" ON "main"."orders"."product_id" = "Products"."product_id" GROUP BY "Products"."category" ORDER BY "sum" DESC, "Products"."category" ASC;

-- answerable
SELECT SUM(CASE WHEN "main"."orders"."status" = 'paid' THEN "main"."orders"."amount" ELSE 0.0 END) AS "sum-where", COUNT(CASE WHEN "main"."orders"."status" = 'paid' THEN 1 END) AS "count-where" FROM "main"."orders";

-- answerable
SELECT CAST(SUM(CASE WHEN "main"."orders"."discount" > 0 THEN 1 ELSE 0.0 END) AS DOUBLE) / NULLIF(COUNT(*), 0) AS "share" FROM "main"."orders";

-- answerable
SELECT FLOOR((("main"."orders"."amount" - 0.0) / 25.0)) * 25.0 + 0.0 AS "amount", COUNT(*) AS "count" FROM "main"."orders" GROUP BY FLOOR((("main"."orders"."amount" - 0.0) / 25.0)) * 25.0 + 0.0 ORDER BY 1 ASC;

-- answerable
SELECT "main"."users"."plan" AS "plan", COUNT(DISTINCT "main"."users"."city") AS "count" FROM "main"."users" WHERE (LOWER("main"."users"."country") LIKE '%d%') GROUP BY "main"."users"."plan" ORDER BY "main"."users"."plan" ASC;

-- answerable
SELECT EXTRACT(isodow FROM "main"."events"."ts") AS "dow", EXTRACT(hour FROM "main"."events"."ts") AS "hour", COUNT(*) AS "count" FROM "main"."events" GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
SELECT STDDEV_SAMP("main"."orders"."amount") AS "stddev", VAR_SAMP("main"."orders"."amount") AS "var", PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY "main"."orders"."amount") AS "p90" FROM "main"."orders";

-- answerable
SELECT "month", "sum", "sum" - LAG("sum", 1) OVER (ORDER BY "month") AS "diff" FROM (SELECT DATE_TRUNC('month', ts) AS "month", SUM(amount) AS "sum" FROM orders GROUP BY 1) AS s ORDER BY "month";

-- answerable
SELECT "breakout", SUM("sum") OVER (ORDER BY "breakout" ASC ROWS UNBOUNDED PRECEDING) AS "cum" FROM (SELECT DATE_TRUNC('month', signup) AS "breakout", COUNT(*) AS "sum" FROM users GROUP BY DATE_TRUNC('month', signup)) x;

-- answerable
SELECT "source"."n" AS "n", COUNT(*) AS "count" FROM (SELECT "main"."orders"."user_id" AS "user_id", COUNT(*) AS "n" FROM "main"."orders" GROUP BY "main"."orders"."user_id") "source" GROUP BY "source"."n" ORDER BY "source"."n" ASC;

-- answerable
SELECT AVG("source"."count") AS "avg" FROM (SELECT "main"."orders"."user_id" AS "user_id", COUNT(*) AS "count" FROM "main"."orders" GROUP BY "main"."orders"."user_id") AS "source";

-- answerable
SELECT COUNT(*) FROM "main"."orders" WHERE ("main"."orders"."coupon" IS NULL OR "main"."orders"."coupon" = '') AND "main"."orders"."amount" BETWEEN 10 AND 250.5;

-- answerable
SELECT "main"."users"."country", MAX("main"."users"."age") AS "max" FROM "main"."users" GROUP BY "main"."users"."country";

-- refused: rows
SELECT "main"."orders"."order_id" AS "order_id", "main"."orders"."amount" AS "amount", "main"."orders"."status" AS "status" FROM "main"."orders" LIMIT 2000;

-- answerable
SELECT "orders"."status" AS "status", SUM("orders"."amount") AS "sum:amount:ok" FROM "main"."orders" "orders" GROUP BY 1;

-- answerable
SELECT CAST(DATE_TRUNC('QUARTER', CAST("orders"."ts" AS DATE)) AS DATE) AS "tqr:ts:ok", SUM("orders"."amount") AS "sum:amount:ok" FROM "main"."orders" "orders" WHERE (CAST(EXTRACT(YEAR FROM "orders"."ts") AS INTEGER) = 2025) GROUP BY 1;

-- answerable
SELECT MIN("users"."plan") AS "TEMP(attr:plan)(1)", MAX("users"."plan") AS "TEMP(attr:plan)(2)", "users"."country" AS "country", COUNT(1) AS "cnt" FROM "main"."users" "users" GROUP BY 3;

-- answerable
SELECT "t0"."category" AS "category", "t0"."x" AS "sum" FROM (SELECT "products"."category" AS "category", SUM("orders"."amount") AS "x" FROM "main"."orders" "orders" INNER JOIN "main"."products" "products" ON ("orders"."product_id" = "products"."product_id") GROUP BY 1) "t0" INNER JOIN (SELECT "products"."category" AS "category", SUM("orders"."quantity") AS "$__alias__0" FROM "main"."orders" "orders" INNER JOIN "main"."products" "products" ON ("orders"."product_id" = "products"."product_id") GROUP BY 1 ORDER BY 2 DESC LIMIT 2) "t1" ON ("t0"."category" = "t1"."category");

-- answerable
SELECT "orders"."channel" AS "channel", SUM("orders"."amount") AS "sum" FROM "main"."orders" "orders" INNER JOIN (SELECT "orders"."channel" AS "channel", SUM("orders"."amount") AS "$__alias__0" FROM "main"."orders" "orders" GROUP BY 1 ORDER BY 2 DESC, 1 ASC LIMIT 10) "t0" ON ("orders"."channel" = "t0"."channel") GROUP BY 1;

-- answerable
SELECT AVG("t0"."total") AS "avg:lod:ok", "users"."country" AS "country" FROM "main"."users" "users" INNER JOIN (SELECT "orders"."user_id" AS "user_id", SUM("orders"."amount") AS "total" FROM "main"."orders" "orders" GROUP BY 1) "t0" ON ("users"."user_id" IS NOT DISTINCT FROM "t0"."user_id") GROUP BY 2;

-- answerable
SELECT COUNT(DISTINCT "users"."user_id") AS "ctd:user_id:ok", (CASE WHEN "users"."age" >= 18 AND "users"."age" < 30 THEN '18-29' WHEN "users"."age" < 50 THEN '30-49' ELSE '50+' END) AS "bin" FROM "main"."users" "users" GROUP BY 2;

-- answerable
SELECT SUM(("orders"."amount" * (1 - ("orders"."discount" / 100)))) AS "sum:Calculation_1:ok" FROM "main"."orders" "orders" HAVING (COUNT(1) > 0);

-- answerable
SELECT "orders"."status" AS "status", (CASE WHEN SUM("orders"."quantity") = 0 THEN NULL ELSE SUM("orders"."amount") / SUM("orders"."quantity") END) AS "usr:price:ok" FROM "main"."orders" "orders" GROUP BY 1;

-- answerable
SELECT CAST(TRUNC(EXTRACT(YEAR FROM "orders"."ts")) AS INTEGER) AS "yr:ts:ok", COUNT(DISTINCT "orders"."order_id") AS "ctd" FROM "main"."orders" "orders" WHERE ("orders"."ts" >= (TIMESTAMP '2024-01-01 00:00:00.000') AND "orders"."ts" <= (TIMESTAMP '2025-12-31 00:00:00.000')) GROUP BY 1;

-- answerable
SELECT "orders"."channel" AS "channel" FROM "main"."orders" "orders" GROUP BY 1 ORDER BY 1 ASC;

-- answerable
SELECT SUM(1) AS "cnt:Number of Records:ok", MIN("orders"."amount") AS "min:amount:ok", MAX("orders"."amount") AS "max:amount:ok" FROM "main"."orders" "orders" HAVING (COUNT(1) > 0);

-- answerable
SELECT orders.status AS "orders.status", COALESCE(SUM(orders.amount), 0) AS "orders.total_amount" FROM main.orders AS orders WHERE ((( orders.ts ) >= ((DATE_ADD(DATE_TRUNC('day', CURRENT_TIMESTAMP), INTERVAL '-29 day'))) AND ( orders.ts ) < ((DATE_ADD(DATE_ADD(DATE_TRUNC('day', CURRENT_TIMESTAMP), INTERVAL '-29 day'), INTERVAL '30 day'))))) GROUP BY 1 ORDER BY 2 DESC LIMIT 500;

-- answerable
SELECT (DATE_FORMAT(DATE_TRUNC('month', orders.ts), '%Y-%m')) AS "orders.created_month", COUNT(*) AS "orders.count" FROM main.orders AS orders GROUP BY 1 ORDER BY 1 DESC LIMIT 500;

-- answerable
SELECT STRFTIME(DATE_TRUNC('month', orders.ts), '%Y-%m') AS "orders.created_month", COUNT(*) AS "orders.count" FROM main.orders AS orders GROUP BY 1 ORDER BY 1 DESC LIMIT 500;

-- answerable
SELECT users.country AS "users.country", COUNT(DISTINCT orders.order_id) AS "orders.count", COUNT(DISTINCT CASE WHEN orders.status = 'returned' THEN orders.order_id ELSE NULL END) AS "orders.count_returned" FROM main.order_items AS order_items LEFT JOIN main.orders AS orders ON order_items.order_id = orders.order_id LEFT JOIN main.users AS users ON orders.user_id = users.user_id GROUP BY 1 ORDER BY 2 DESC LIMIT 500;

-- answerable
SELECT products.brand AS "products.brand", COALESCE(SUM(order_items.price * order_items.qty), 0) AS "order_items.revenue" FROM main.order_items AS order_items LEFT JOIN main.products AS products ON order_items.product_id = products.product_id WHERE products.category = 'Home' GROUP BY 1 HAVING COALESCE(SUM(order_items.price * order_items.qty), 0) > 1000 ORDER BY 2 DESC LIMIT 500;

-- answerable
SELECT COALESCE(CAST((SUM(DISTINCT (CAST(FLOOR(COALESCE(orders.amount, 0) * 1000000) AS DECIMAL(38, 0))) + hash(orders.order_id)) - SUM(DISTINCT hash(orders.order_id))) AS DOUBLE) / 1000000.0, 0) AS "orders.total" FROM main.order_items AS order_items LEFT JOIN main.orders AS orders ON order_items.order_id = orders.order_id;

-- answerable
SELECT SUM(DISTINCT orders.amount) AS "orders.total_distinct" FROM main.order_items AS order_items LEFT JOIN main.orders AS orders ON order_items.order_id = orders.order_id;

-- answerable
SELECT * FROM (SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) AS z___pivot_row_rank FROM (SELECT *, MIN(z___rank) OVER (PARTITION BY "month") AS z___min_rank FROM (SELECT *, RANK() OVER (ORDER BY "month" DESC, z__pivot_col_rank) AS z___rank FROM (SELECT *, DENSE_RANK() OVER (ORDER BY "status") AS z__pivot_col_rank FROM (SELECT DATE_TRUNC('month', orders.ts) AS "month", orders.status AS "status", COUNT(*) AS "count" FROM orders GROUP BY 1, 2) ww) bb WHERE z__pivot_col_rank <= 16384) aa) xx) zz WHERE z___pivot_row_rank <= 500 ORDER BY z___pivot_row_rank;

-- answerable
WITH user_facts AS (SELECT user_id, COUNT(*) AS lifetime_orders, SUM(amount) AS lifetime_value, MIN(ts) AS first_order FROM orders GROUP BY user_id) SELECT CASE WHEN user_facts.lifetime_orders >= 10 THEN '10+' WHEN user_facts.lifetime_orders >= 3 THEN '3 to 9' ELSE 'Under 3' END AS tier, COUNT(DISTINCT users.user_id) AS users FROM users LEFT JOIN user_facts ON users.user_id = user_facts.user_id GROUP BY 1;

-- answerable
WITH user_facts AS (SELECT user_id, SUM(amount) AS lifetime_value FROM orders GROUP BY user_id) SELECT users.country, AVG(user_facts.lifetime_value) AS "average lifetime value" FROM users LEFT JOIN user_facts ON users.user_id = user_facts.user_id GROUP BY 1 ORDER BY 2 DESC LIMIT 500;

-- answerable
SELECT COUNT(*) AS "orders.count" FROM main.orders AS orders WHERE (orders.user_id IN (SELECT users.user_id FROM main.users AS users WHERE users.country = 'DE'));

-- answerable
SELECT stores.region AS "stores.region", COUNT(orders.order_id) AS "orders.count" FROM main.stores AS stores LEFT JOIN main.orders AS orders ON stores.store_id = orders.store_id GROUP BY 1 ORDER BY 1;

-- answerable
SELECT APPROX_COUNT_DISTINCT(orders.user_id) AS "orders.users" FROM main.orders AS orders;

-- answerable
SELECT TOP (1000001) * FROM (SELECT [t0].[channel], SUM([t0].[amount]) AS [a0] FROM [orders] AS [t0] GROUP BY [t0].[channel]) AS [MainTable] WHERE (NOT(([a0] IS NULL)));

-- answerable
SELECT "_"."channel", SUM("_"."amount") AS "a0" FROM "main"."orders" "_" GROUP BY "_"."channel" LIMIT 1000001;

-- answerable
SELECT "rows"."country" AS "country", SUM("rows"."amount") AS "a0", COUNT("rows"."order_id") AS "a1" FROM (SELECT "$Outer"."amount", "$Outer"."order_id", "$Inner"."country" FROM "orders" AS "$Outer" LEFT OUTER JOIN "users" AS "$Inner" ON ("$Outer"."user_id" = "$Inner"."user_id")) AS "rows" GROUP BY "rows"."country";

-- answerable
SELECT SUM("C1") AS a0, "month" FROM (SELECT "ITBL"."amount" AS "C1", CAST(DATE_PART('month', "ITBL"."ts") AS INTEGER) AS "month" FROM "orders" AS "ITBL" WHERE DATE_PART('year', "ITBL"."ts") = 2025) AS "T" GROUP BY "month";

-- answerable
SELECT COUNT(DISTINCT "user_id") + MAX(CASE WHEN "user_id" IS NULL THEN 1 ELSE 0 END) AS "a0" FROM (SELECT "user_id", "status" FROM "orders" WHERE "status" = 'paid') AS "ITBL";

-- answerable
SELECT "plan", SUM("mrr") AS "a0" FROM (SELECT "plan", "mrr" FROM "subscriptions" WHERE "started" <= DATE '2025-06-30' AND ("ended" IS NULL OR "ended" > DATE '2025-06-30')) AS "ITBL" GROUP BY "plan";

-- answerable
WITH cur AS (SELECT SUM(amount) AS v FROM orders WHERE ts >= DATE '2025-06-01' AND ts < DATE '2025-07-01'), prev AS (SELECT SUM(amount) AS v FROM orders WHERE ts >= DATE '2024-06-01' AND ts < DATE '2024-07-01') SELECT cur.v, prev.v, (cur.v - prev.v) / NULLIF(prev.v, 0) AS "YoY%" FROM cur, prev;

-- answerable
SELECT time_bucket(INTERVAL '5 minutes', ts) AS "time", count(*) AS value FROM events WHERE ts BETWEEN '2025-01-03T09:00:00Z' AND '2025-01-03T12:00:00Z' GROUP BY 1 ORDER BY 1;

-- answerable
SELECT floor(extract(epoch FROM ts) / 300) * 300 AS "time", kind AS metric, count(*) AS value FROM events WHERE extract(epoch FROM ts) >= 1735689600 AND extract(epoch FROM ts) <= 1735776000 GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
SELECT date_trunc('minute', ts) AS "time", avg(duration) AS "avg", quantile_cont(duration, 0.95) AS "p95", quantile_cont(duration, 0.99) AS "p99" FROM events WHERE ts >= now() - INTERVAL '6 hours' GROUP BY 1 ORDER BY 1;

-- answerable
SELECT date_trunc('hour', ts) AS "time", count(*) FILTER (WHERE kind = 'error') * 100.0 / count(*) AS "error rate" FROM events WHERE ts > current_timestamp - INTERVAL 1 DAY GROUP BY 1 ORDER BY 1;

-- answerable
SELECT DISTINCT device AS __text, device AS __value FROM events ORDER BY 1;

-- answerable
SELECT epoch(date_trunc('hour', ts)) AS time, device AS metric, count(DISTINCT user_id) AS value FROM events GROUP BY 1, 2 ORDER BY 1;

-- answerable
SELECT "orders".status "orders__status", count("orders".order_id) "orders__count" FROM main.orders AS "orders" GROUP BY 1 ORDER BY 2 DESC LIMIT 10000;

-- answerable
SELECT date_trunc('day', ("orders".ts::timestamptz AT TIME ZONE 'UTC')) "orders__created_at_day", sum("orders".amount) "orders__total" FROM main.orders AS "orders" WHERE ("orders".ts >= '2025-01-01T00:00:00.000Z'::timestamptz AND "orders".ts <= '2025-01-31T23:59:59.999Z'::timestamptz) GROUP BY 1 ORDER BY 1 ASC LIMIT 10000;

-- answerable
SELECT q_0."users__country", "orders__count" "orders__count", "users__count" "users__count" FROM (SELECT "users".country "users__country", count("orders".order_id) "orders__count" FROM orders AS "orders" LEFT JOIN users AS "users" ON "orders".user_id = "users".user_id GROUP BY 1) AS q_0 INNER JOIN (SELECT "users".country "users__country", count(distinct "users".user_id) "users__count" FROM users AS "users" GROUP BY 1) AS q_1 ON (q_0."users__country" = q_1."users__country" OR (q_0."users__country" IS NULL AND q_1."users__country" IS NULL)) ORDER BY 2 DESC LIMIT 10000;

-- answerable
SELECT "users__country", sum("main__amount") AS "total" FROM (SELECT keys."users__country", "orders_key__orders".amount "main__amount" FROM (SELECT DISTINCT "users".country "users__country", "orders".order_id "orders__order_id" FROM orders AS "orders" LEFT JOIN users AS "users" ON "orders".user_id = "users".user_id) AS keys LEFT JOIN orders AS "orders_key__orders" ON keys."orders__order_id" = "orders_key__orders".order_id) t GROUP BY 1;

-- answerable
SELECT sum("orders__rolling") FROM (SELECT date_from, sum("orders".amount) "orders__rolling" FROM (SELECT ds AS date_from, ds + INTERVAL '1 day' AS date_to FROM calendar WHERE ds >= '2025-01-01' AND ds < '2025-02-01') s LEFT JOIN orders "orders" ON "orders".ts > date_to - INTERVAL '7 day' AND "orders".ts <= date_to GROUP BY 1) x;

-- answerable
SELECT count(distinct "events".session_id) "sessions__count", approx_count_distinct("events".user_id) "users__approx" FROM events AS "events" WHERE ("events".kind = 'view') LIMIT 10000;

-- answerable
select date_trunc('month', order_date) as date_month, channel, sum(amount) as revenue, count(distinct user_id) as customers from orders where order_date >= date '2024-01-01' group by 1, 2;

-- answerable
with orders_stg as (select order_id, user_id as customer_id, order_date, status, amount from main.orders), customer_orders as (select customer_id, min(order_date) as first_order, max(order_date) as most_recent_order, count(order_id) as number_of_orders, sum(amount) as value from orders_stg group by 1), final as (select c.user_id as customer_id, c.country, coalesce(o.number_of_orders, 0) as number_of_orders, coalesce(o.value, 0) as customer_lifetime_value, o.first_order from users c left join customer_orders o on c.user_id = o.customer_id) select country, count(*) as customers, sum(number_of_orders) as orders, avg(customer_lifetime_value) as clv from final group by country;

-- answerable
with recursive spine as (select date '2025-01-01' as d union all select d + 1 from spine where d < date '2025-01-31') select s.d, count(o.order_id) as orders from spine s left join orders o on o.order_date = s.d group by 1 order by 1;

-- answerable
select date_trunc('month', order_date) as month, sum(case when status = 'paid' then amount else 0 end) as paid_amount, sum(case when status = 'returned' then amount else 0 end) as returned_amount, sum(case when status = 'shipped' then amount else 0 end) as shipped_amount from orders group by 1;

-- answerable
select count(*) as failures from (select user_id from orders where user_id is null) dbt_internal_test;

-- answerable
select count(*) as failures, count(*) != 0 as should_warn from (select order_id from orders group by order_id having count(*) > 1) dbt_internal_test;

-- answerable
select status as value_field, count(*) as n_records from orders group by status having status not in ('paid', 'shipped', 'returned', 'cancelled');

-- answerable
with months as (select distinct month from calendar where ds between '2025-01-01' and '2025-12-31'), mrr as (select m.month, s.user_id, s.mrr from months m join subscriptions s on s.started <= m.month and (s.ended is null or s.ended > m.month)) select month, sum(mrr) as mrr, count(distinct user_id) as customers from mrr group by month order by month;

-- answerable
with mrr as (select user_id, date_trunc('month', started) as month, mrr, lag(mrr) over (partition by user_id order by started) as previous from subscriptions) select month, sum(case when previous is null then mrr else 0 end) as new_mrr, sum(case when mrr > previous then mrr - previous else 0 end) as expansion from mrr group by month;

-- answerable
with ranked as (select *, row_number() over (partition by user_id order by ts) as n from orders) select date_trunc('month', ts) as month, count(*) as first_orders, sum(amount) as first_amount from ranked where n = 1 group by 1;

-- answerable
with deduplicated as (select * from events qualify row_number() over (partition by event_id order by ts desc) = 1) select kind, count(*) from deduplicated group by kind;

-- answerable
select age // 10 * 10 as decade, count(*) from users group by 1 order by 1;

-- answerable
select date_diff('day', o.ts, o.shipped_at) as days_to_ship, count(*) as n from orders o where shipped_at is not null group by 1 order by 1;

-- answerable
select avg(date_diff('hour', ts, shipped_at)) as hours_to_ship from orders where shipped_at is not null;

-- answerable
select p.category, o.status, count(*) as orders, round(100.0 * count(*) / sum(count(*)) over (partition by p.category), 2) as pct from orders o join products p using (product_id) group by 1, 2 order by 1, 4 desc;

-- answerable
select coalesce(country, 'Total') as country, coalesce(plan, 'All') as plan, count(*) as users from users group by rollup (country, plan) order by 1, 2;

-- answerable
select grouping(channel) as g, channel, sum(amount) from orders group by grouping sets ((channel), ()) order by g;

-- answerable
SELECT CONCAT(EXTRACT(YEAR FROM ts), '-Q', EXTRACT(QUARTER FROM ts)) AS quarter, SUM(amount) AS revenue FROM orders GROUP BY 1 ORDER BY 1;

-- answerable
SELECT CASE WHEN referrer ILIKE '%google%' THEN 'search' WHEN referrer ILIKE '%facebook%' OR referrer ILIKE '%twitter%' THEN 'social' WHEN referrer IS NULL THEN 'direct' ELSE 'other' END AS source, COUNT(DISTINCT user_id) FROM events GROUP BY 1 ORDER BY 2 DESC;

-- answerable
SELECT SPLIT_PART(page, '/', 2) AS section, COUNT(*) AS views FROM events WHERE kind = 'view' GROUP BY 1 ORDER BY views DESC LIMIT 20;

-- answerable
SELECT regexp_extract(page, '^/([a-z]+)', 1) AS section, COUNT(*) AS views FROM events GROUP BY 1 ORDER BY 2 DESC LIMIT 20;

-- answerable
SELECT DAYNAME(ts) AS weekday, AVG(amount) AS avg_amount FROM orders GROUP BY DAYNAME(ts);

-- answerable
SELECT to_char(ts, 'YYYY-MM') AS month, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1;

-- answerable
SELECT `channel` AS `channel`, SUM(`amount`) AS `revenue` FROM `orders` GROUP BY `channel` ORDER BY `revenue` DESC LIMIT 1000;

-- answerable
SELECT DATE_FORMAT(ts, '%Y-%m-01') AS ts_month, COUNT(*) AS cnt FROM orders GROUP BY 1;

-- answerable
SELECT LAST_DAY(order_date) AS month_end, SUM(amount) AS revenue FROM orders GROUP BY 1 ORDER BY 1;

-- answerable
SELECT country, median(age) AS median_age, mode(plan) AS usual_plan FROM users GROUP BY country ORDER BY 1;

-- answerable
SELECT kind, count(*) AS n, count(DISTINCT user_id) AS users, count(*) * 1.0 / count(DISTINCT user_id) AS per_user FROM events GROUP BY kind ORDER BY n DESC;

-- answerable
SELECT week, wau, avg(wau) OVER (ORDER BY week ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS smooth FROM (SELECT date_trunc('week', ts) AS week, count(DISTINCT user_id) AS wau FROM events GROUP BY 1) t ORDER BY week;

-- answerable
SELECT a.month, a.revenue, b.revenue AS last_year FROM (SELECT date_trunc('month', ts) AS month, sum(amount) AS revenue FROM orders GROUP BY 1) a LEFT JOIN (SELECT date_trunc('month', ts) + INTERVAL 1 YEAR AS month, sum(amount) AS revenue FROM orders GROUP BY 1) b USING (month) ORDER BY 1;

-- answerable
SELECT category, brand, revenue FROM (SELECT category, brand, sum(amount) AS revenue, row_number() OVER (PARTITION BY category ORDER BY sum(amount) DESC) AS rn FROM orders JOIN products USING (product_id) GROUP BY 1, 2) t WHERE rn <= 3;

-- answerable
SELECT p.name, sum(oi.qty) AS units FROM order_items oi JOIN products p ON p.product_id = oi.product_id JOIN orders o ON o.order_id = oi.order_id WHERE o.status <> 'cancelled' AND o.order_date >= CURRENT_DATE - INTERVAL '90 days' GROUP BY p.name ORDER BY units DESC LIMIT 10;

-- refused: unit-keys
SELECT u.user_id, u.name, SUM(o.amount) AS spent FROM users u JOIN orders o ON u.user_id = o.user_id GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 10;

-- refused: unit-keys
SELECT order_id, SUM(qty * price) AS total FROM order_items GROUP BY order_id ORDER BY total DESC LIMIT 100;

-- refused: rows
SELECT * FROM (SELECT * FROM events WHERE kind = 'purchase') AS virtual_table LIMIT 100;

-- refused: rows
SELECT name, email FROM users WHERE country = 'DE' ORDER BY signup DESC LIMIT 50;

-- refused: other-statements
CREATE TABLE main.daily_revenue AS SELECT order_date, SUM(amount) FROM orders GROUP BY 1;

-- answerable
SELECT 1;

-- answerable
SELECT COUNT(*) FROM products;

-- answerable
SELECT DISTINCT category FROM products ORDER BY 1;

-- answerable
SELECT channel, sum(amount) FILTER (WHERE order_date >= '2025-01-01') AS this_year, sum(amount) FILTER (WHERE order_date < '2025-01-01') AS last_year FROM orders GROUP BY channel;

-- answerable
PIVOT orders ON status USING sum(amount) GROUP BY channel;

-- answerable
SELECT * FROM (SELECT channel, status, amount FROM orders) PIVOT (sum(amount) FOR status IN ('paid', 'returned'));

-- answerable
SELECT channel, MAX(CASE WHEN status = 'paid' THEN n END) AS paid, MAX(CASE WHEN status = 'returned' THEN n END) AS returned FROM (SELECT channel, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) t GROUP BY channel;

-- answerable
SELECT u.country, COUNT(DISTINCT o.user_id) * 1.0 / COUNT(DISTINCT u.user_id) AS conversion FROM users u LEFT JOIN orders o ON o.user_id = u.user_id AND o.status = 'paid' GROUP BY u.country;

-- answerable
SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.user_id);

-- answerable
SELECT country, COUNT(*) FROM users WHERE country IN (SELECT country FROM countries WHERE region = 'EMEA') GROUP BY country;

-- answerable
SELECT date_trunc('month', ts) AS m, sum(amount) FROM orders WHERE ts >= (SELECT max(ts) FROM orders) - INTERVAL '12 months' GROUP BY 1;

-- answerable
SELECT channel, sum(amount) AS revenue FROM orders WHERE channel IN (SELECT channel FROM orders GROUP BY channel ORDER BY sum(amount) DESC LIMIT 5) GROUP BY channel;

-- answerable
SELECT CASE WHEN rnk <= 5 THEN channel ELSE 'Others' END AS channel, SUM(revenue) AS revenue FROM (SELECT channel, SUM(amount) AS revenue, RANK() OVER (ORDER BY SUM(amount) DESC) AS rnk FROM orders GROUP BY channel) t GROUP BY 1;

-- answerable
SELECT corr(amount, quantity) AS correlation FROM orders;

-- answerable
SELECT r.region, SUM(o.amount) FROM orders o JOIN users u USING (user_id) JOIN countries r ON r.country = u.country WHERE o.order_date BETWEEN DATE '2025-01-01' AND DATE '2025-03-31' GROUP BY r.region;

-- answerable
SELECT c.quarter, COUNT(*) AS orders FROM orders o JOIN calendar c ON o.order_date = c.ds WHERE NOT c.is_holiday GROUP BY c.quarter ORDER BY 1;

-- answerable
SELECT list(DISTINCT channel) AS channels FROM orders;

-- answerable
SELECT string_agg(DISTINCT channel, ', ') FROM orders;

-- answerable
SELECT histogram(status) FROM orders;

-- answerable
SELECT BOOL_OR(status = 'returned') AS any_returned, channel FROM orders GROUP BY channel;
