CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, first_name VARCHAR, last_name VARCHAR, email VARCHAR, country VARCHAR,
  city VARCHAR, segment VARCHAR, gender VARCHAR, birth_date DATE, created_at TIMESTAMP, acquisition_channel VARCHAR, is_subscriber BOOLEAN);
CREATE TABLE orders (order_id BIGINT PRIMARY KEY, customer_id BIGINT, order_ts TIMESTAMP, order_date DATE, status VARCHAR, channel VARCHAR,
  currency VARCHAR, total DOUBLE, tax DOUBLE, shipping DOUBLE, shipped_on DATE, delivered_on DATE, store_id INTEGER, promo_code VARCHAR);
CREATE TABLE order_lines (line_id BIGINT PRIMARY KEY, order_id BIGINT, product_id INTEGER, quantity INTEGER, unit_price DECIMAL(10,2), discount_pct DOUBLE);
CREATE TABLE payments (payment_id BIGINT PRIMARY KEY, order_id BIGINT, method VARCHAR, amount DOUBLE, paid_at TIMESTAMP, success BOOLEAN);
CREATE TABLE reviews (review_id BIGINT PRIMARY KEY, customer_id BIGINT, product_id INTEGER, stars INTEGER, title VARCHAR, reviewed_on DATE);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, product_name VARCHAR, category VARCHAR, subcategory VARCHAR, brand VARCHAR, cost DOUBLE, list_price DOUBLE, launched DATE);
CREATE TABLE stores (store_id INTEGER PRIMARY KEY, store_name VARCHAR, region VARCHAR, country VARCHAR, opened DATE);
CREATE TABLE dim_date (date_day DATE PRIMARY KEY, month_start DATE, quarter INTEGER, year INTEGER, is_weekend BOOLEAN, fiscal_period VARCHAR);
CREATE TABLE fx_rates (currency VARCHAR, month_start DATE, rate DOUBLE);
INSERT INTO products VALUES (1, 'Lamp', 'Home', 'Light', 'Lux', 8.0, 20.0, '2022-01-10'), (2, 'Chair', 'Home', 'Seats', 'Sit', 41.0, 80.0, '2022-03-01'),
  (3, 'Pen', 'Office', 'Paper', 'Ink', 0.5, 2.5, '2023-05-05'), (4, 'Desk', 'Office', 'Seats', 'Sit', 120.0, 250.0, '2024-02-01');
INSERT INTO stores VALUES (1, 'North', 'EMEA', 'DE', '2015-03-01'), (2, 'South', 'EMEA', 'FR', '2018-05-01'), (3, 'West', 'AMER', 'US', '2020-01-01');
INSERT INTO dim_date SELECT d::DATE, date_trunc('month', d)::DATE, quarter(d), year(d), dayofweek(d) IN (0, 6), strftime(d, 'FY%Y-P%m')
  FROM range(DATE '2024-01-01', DATE '2026-01-01', INTERVAL 1 DAY) t(d);
INSERT INTO fx_rates SELECT c, m::DATE, r FROM (VALUES ('EUR', 1.0), ('USD', 0.9), ('GBP', 1.2)) f(c, r), range(DATE '2024-01-01', DATE '2026-01-01', INTERVAL 1 MONTH) t(m);
INSERT INTO customers VALUES (1, 'Ann', 'A', 'a@x.org', 'DE', 'Berlin', 'Consumer', 'f', '1990-01-02', '2024-02-01 10:00:00', 'organic', true),
  (2, 'Bob', 'B', 'b@x.org', 'US', 'Boston', 'Corporate', 'm', '1980-05-06', '2024-05-03 11:00:00', 'paid', false);
INSERT INTO orders VALUES (1, 1, '2025-01-03 10:00:00', '2025-01-03', 'completed', 'web', 'EUR', 20.0, 3.0, 4.9, '2025-01-04', '2025-01-06', 1, NULL),
  (2, 2, '2025-02-03 12:00:00', '2025-02-03', 'refunded', 'app', 'USD', 160.0, 12.0, 0.0, '2025-02-04', NULL, 3, 'SALE');
INSERT INTO order_lines VALUES (1, 1, 1, 1, 20.0, 0.0), (2, 2, 2, 2, 80.0, 0.1);
INSERT INTO payments VALUES (1, 1, 'card', 20.0, '2025-01-03 10:01:00', true), (2, 2, 'paypal', 160.0, '2025-02-03 12:01:00', true);
INSERT INTO reviews VALUES (1, 1, 1, 5, 'Great lamp', '2025-01-20'), (2, 2, 2, 2, 'Wobbly', '2025-02-20');
