CREATE TABLE users (user_id VARCHAR PRIMARY KEY, signed_up TIMESTAMP, country VARCHAR, os VARCHAR, plan VARCHAR, is_trial BOOLEAN, referrer VARCHAR);
CREATE TABLE sessions (session_id VARCHAR PRIMARY KEY, user_id VARCHAR, started TIMESTAMP, ended TIMESTAMP, device VARCHAR, utm_source VARCHAR, utm_campaign VARCHAR, landing_page VARCHAR);
CREATE TABLE events (event_id BIGINT PRIMARY KEY, user_id VARCHAR, session_id VARCHAR, event_name VARCHAR, ts TIMESTAMP, page_url VARCHAR, revenue DOUBLE, props VARCHAR, tags VARCHAR[]);
CREATE TABLE assignments (user_id VARCHAR, experiment VARCHAR, variant VARCHAR, assigned_at TIMESTAMP);
CREATE TABLE billing (invoice_id BIGINT PRIMARY KEY, user_id VARCHAR, period_start DATE, period_end DATE, amount DOUBLE, plan VARCHAR, state VARCHAR);
CREATE TABLE taxonomy (event_name VARCHAR PRIMARY KEY, area VARCHAR, is_core BOOLEAN, step INTEGER);
CREATE TABLE campaigns (utm_campaign VARCHAR PRIMARY KEY, name VARCHAR, starts DATE, ends DATE, budget DOUBLE);
CREATE TABLE releases (version VARCHAR, released_at TIMESTAMP);
INSERT INTO taxonomy VALUES ('page_view', 'web', false, 1), ('signup', 'growth', true, 2), ('add_to_cart', 'shop', true, 3), ('checkout', 'shop', true, 4), ('purchase', 'shop', true, 5);
INSERT INTO campaigns VALUES ('spring', 'Spring sale', '2025-03-01', '2025-05-31', 5000.0), ('brand', 'Brand', '2024-01-01', '2025-12-31', 20000.0);
INSERT INTO releases VALUES ('1.0', '2024-01-01 00:00:00'), ('1.1', '2024-09-01 00:00:00'), ('2.0', '2025-03-15 00:00:00');
INSERT INTO users VALUES ('u1', '2024-02-01 08:00:00', 'DE', 'ios', 'free', true, 'google'), ('u2', '2024-05-03 09:00:00', 'US', 'android', 'pro', false, 'direct');
INSERT INTO sessions VALUES ('s1', 'u1', '2025-01-03 09:50:00', '2025-01-03 10:20:00', 'mobile', 'google', 'spring', '/'), ('s2', 'u2', '2025-02-03 11:50:00', NULL, 'desktop', NULL, NULL, '/pricing');
INSERT INTO events VALUES (1, 'u1', 's1', 'page_view', '2025-01-03 09:50:00', 'https://x.org/home?a=1', NULL, '{"plan": "free", "n": 3}', ['new', 'web']),
  (2, 'u2', 's2', 'purchase', '2025-02-03 11:55:00', 'https://x.org/buy', 49.0, '{"plan": "pro"}', ['web']);
INSERT INTO assignments VALUES ('u1', 'checkout_v2', 'control', '2025-01-01 00:00:00'), ('u2', 'checkout_v2', 'treatment', '2025-01-01 00:00:00');
INSERT INTO billing VALUES (1, 'u2', '2025-01-01', '2025-01-31', 49.0, 'pro', 'paid');
