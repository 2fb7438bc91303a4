CREATE TABLE subscribers (subscriber_id BIGINT PRIMARY KEY, plan_id INTEGER, activated DATE, churned DATE, contract VARCHAR,
  monthly_charges DOUBLE, total_charges DOUBLE, senior INTEGER, partner VARCHAR, internet VARCHAR, payment VARCHAR, tenure INTEGER,
  churn VARCHAR, city VARCHAR);
CREATE TABLE cdrs (cdr_id BIGINT PRIMARY KEY, subscriber_id BIGINT, started TIMESTAMP, seconds INTEGER, bytes BIGINT, cell_id INTEGER,
  kind VARCHAR, roaming BOOLEAN);
CREATE TABLE invoices (invoice_id BIGINT PRIMARY KEY, subscriber_id BIGINT, issued DATE, due DATE, paid DATE, amount DOUBLE, status VARCHAR);
CREATE TABLE tickets (ticket_id BIGINT PRIMARY KEY, subscriber_id BIGINT, opened TIMESTAMP, closed TIMESTAMP, reason VARCHAR, csat INTEGER,
  flags INTEGER, tags VARCHAR);
CREATE TABLE plans (plan_id INTEGER PRIMARY KEY, name VARCHAR, family VARCHAR, price DOUBLE, allowance BIGINT);
CREATE TABLE cells (cell_id INTEGER PRIMARY KEY, site VARCHAR, city VARCHAR, lat DOUBLE, lon DOUBLE);
INSERT INTO plans VALUES (1, 'Start', 'prepaid', 10, 5000), (2, 'Flex', 'postpaid', 25, 20000), (3, 'Max', 'postpaid', 45, 100000);
INSERT INTO cells VALUES (1, 'A1', 'Turin', 45.07, 7.68), (2, 'B7', 'Milan', 45.46, 9.19), (3, 'B8', 'Milan', 45.48, 9.2);
INSERT INTO subscribers VALUES (1, 1, '2022-01-15', NULL, 'Month-to-month', 29.85, 300.5, 0, 'Yes', 'DSL', 'Electronic check', 12, 'No', 'Turin'),
  (2, 3, '2020-07-31', '2024-06-30', 'Two year', 89.1, 4200, 1, 'No', 'Fiber optic', 'Mailed check', 47, 'Yes', 'Milan');
INSERT INTO cdrs VALUES (1, 1, '2024-05-05 23:59:30', 65, 0, 1, 'voice', false), (2, 2, '2024-05-06 00:10:00', 0, 1048576, 2, 'data', true);
INSERT INTO invoices VALUES (1, 1, '2024-05-01', '2024-05-15', '2024-05-20', 29.85, 'paid'), (2, 2, '2024-05-01', '2024-05-15', NULL, 89.1, 'open');
INSERT INTO tickets VALUES (1, 1, '2024-03-01 09:00:00', '2024-03-02 10:30:00', 'billing', 4, 5, 'vip,late'), (2, 2, '2024-03-03 12:00:00', NULL, 'network', NULL, 2, NULL);
