CREATE TABLE users (user_id BIGINT PRIMARY KEY, name VARCHAR, email VARCHAR, country VARCHAR, city VARCHAR,
  plan VARCHAR, age INTEGER, gender VARCHAR, signup DATE, referrer VARCHAR, manager_id BIGINT);
CREATE TABLE orders (order_id BIGINT PRIMARY KEY, user_id BIGINT, product_id INTEGER, store_id INTEGER, status VARCHAR,
  channel VARCHAR, amount DOUBLE, discount DOUBLE, quantity INTEGER, coupon VARCHAR, ts TIMESTAMP, order_date DATE,
  shipped_at TIMESTAMP);
CREATE TABLE order_items (item_id BIGINT PRIMARY KEY, order_id BIGINT, product_id INTEGER, qty INTEGER, price DOUBLE);
CREATE TABLE events (event_id BIGINT PRIMARY KEY, user_id BIGINT, session_id VARCHAR, kind VARCHAR, page VARCHAR,
  referrer VARCHAR, device VARCHAR, country VARCHAR, duration DOUBLE, ts TIMESTAMP);
CREATE TABLE subscriptions (subscription_id BIGINT PRIMARY KEY, user_id BIGINT, plan VARCHAR, mrr DOUBLE, started DATE,
  ended DATE, status VARCHAR);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, name VARCHAR, category VARCHAR, brand VARCHAR, list_price DOUBLE);
CREATE TABLE stores (store_id INTEGER PRIMARY KEY, store_name VARCHAR, region VARCHAR, opened DATE);
CREATE TABLE countries (country VARCHAR PRIMARY KEY, region VARCHAR, population BIGINT);
CREATE TABLE calendar (ds DATE PRIMARY KEY, week DATE, month DATE, quarter DATE, year DATE, is_holiday BOOLEAN);
INSERT INTO products VALUES (1, 'Lamp', 'Home', 'Lux', 20.0), (2, 'Chair', 'Home', 'Sit', 80.0), (3, 'Pen', 'Office', 'Ink', 2.5),
  (4, 'Desk', 'Office', 'Sit', 250.0);
INSERT INTO stores VALUES (1, 'North', 'EMEA', '2015-03-01'), (2, 'South', 'EMEA', '2018-05-01'), (3, 'West', 'AMER', '2020-01-01');
INSERT INTO countries VALUES ('DE', 'EMEA', 83000000), ('FR', 'EMEA', 67000000), ('US', 'AMER', 330000000);
INSERT INTO calendar SELECT d::DATE, date_trunc('week', d)::DATE, date_trunc('month', d)::DATE, date_trunc('quarter', d)::DATE,
  date_trunc('year', d)::DATE, false FROM range(DATE '2024-01-01', DATE '2026-01-01', INTERVAL 1 DAY) t(d);
INSERT INTO users VALUES (1, 'A', 'a@x.org', 'DE', 'Berlin', 'free', 30, 'f', '2024-02-01', 'ads', NULL),
  (2, 'B', 'b@x.org', 'US', 'Boston', 'pro', 40, 'm', '2024-05-03', 'blog', 1);
INSERT INTO orders VALUES (1, 1, 1, 1, 'paid', 'web', 20.0, 0.0, 1, NULL, '2025-01-03 10:00:00', '2025-01-03', '2025-01-04 10:00:00'),
  (2, 2, 2, 3, 'returned', 'app', 160.0, 5.0, 2, 'X', '2025-02-03 12:00:00', '2025-02-03', NULL);
INSERT INTO order_items VALUES (1, 1, 1, 1, 20.0), (2, 2, 2, 2, 80.0);
INSERT INTO events VALUES (1, 1, 's1', 'view', '/home', 'ads', 'phone', 'DE', 3.5, '2025-01-03 09:50:00'),
  (2, 2, 's2', 'purchase', '/cart', NULL, 'desktop', 'US', 12.0, '2025-02-03 11:55:00');
INSERT INTO subscriptions VALUES (1, 2, 'pro', 30.0, '2024-05-03', NULL, 'active');
