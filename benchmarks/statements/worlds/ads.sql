CREATE TABLE impressions (imp_id BIGINT PRIMARY KEY, user_id BIGINT, campaign_id INTEGER, ts TIMESTAMP, cost DOUBLE, device VARCHAR,
  country VARCHAR, url VARCHAR, user_agent VARCHAR, placement VARCHAR, flags INTEGER, viewable BOOLEAN);
CREATE TABLE clicks (click_id BIGINT PRIMARY KEY, imp_id BIGINT, ts TIMESTAMP, x INTEGER, y INTEGER);
CREATE TABLE conversions (conversion_id BIGINT PRIMARY KEY, user_id BIGINT, campaign_id INTEGER, ts TIMESTAMP, value DOUBLE, kind VARCHAR);
CREATE TABLE profiles (user_id BIGINT PRIMARY KEY, country VARCHAR, age INTEGER, created TIMESTAMP, interests VARCHAR, props VARCHAR);
CREATE TABLE campaigns (campaign_id INTEGER PRIMARY KEY, name VARCHAR, advertiser VARCHAR, budget DOUBLE, start_date DATE, end_date DATE);
INSERT INTO campaigns VALUES (1, 'Spring', 'Acme', 5000, '2024-03-01', '2024-05-31'), (2, 'Brand', 'Acme', 20000, '2024-01-01', '2024-12-31'),
  (3, 'Launch', 'Zed', 9000, '2024-06-01', '2024-06-30');
INSERT INTO impressions VALUES (1, 1, 1, '2024-03-03 10:00:00', 0.01, 'mobile', 'FR', 'https://news.example.com/a?utm_source=x', 'Mozilla/5.0', 'top', 1, true),
  (2, 2, 2, '2024-03-04 11:00:00', 0.03, 'desktop', 'US', 'http://blog.example.org/b', 'Opera', 'side', 6, false);
INSERT INTO clicks VALUES (1, 1, '2024-03-03 10:00:05', 10, 20), (2, 2, '2024-03-04 11:01:00', 5, 700);
INSERT INTO conversions VALUES (1, 1, 1, '2024-03-05 09:00:00', 49.9, 'sale'), (2, 2, 2, '2024-03-08 10:00:00', 0, 'signup');
INSERT INTO profiles VALUES (1, 'FR', 33, '2023-01-01 00:00:00', 'golf,cars', '{"tier": "gold"}'), (2, 'US', 51, '2023-06-15 12:00:00', NULL, NULL);
