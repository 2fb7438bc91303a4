CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, name VARCHAR, segment VARCHAR, birth_date DATE, gender VARCHAR,
  postcode VARCHAR, income DOUBLE, joined DATE, email VARCHAR, phone VARCHAR, risk_score DOUBLE, dependants INTEGER);
CREATE TABLE accounts (account_id BIGINT PRIMARY KEY, customer_id BIGINT, branch_id INTEGER, kind VARCHAR, currency VARCHAR,
  balance DOUBLE, credit_limit DOUBLE, opened DATE, closed DATE, status VARCHAR, flags INTEGER);
CREATE TABLE transactions (txn_id BIGINT PRIMARY KEY, account_id BIGINT, ts TIMESTAMP, posted DATE, amount DECIMAL(12,2),
  kind VARCHAR, merchant VARCHAR, mcc VARCHAR, channel VARCHAR, memo VARCHAR);
CREATE TABLE loans (loan_id BIGINT PRIMARY KEY, customer_id BIGINT, principal DOUBLE, rate DOUBLE, term INTEGER, disbursed DATE,
  status VARCHAR, purpose VARCHAR);
CREATE TABLE installments (installment_id BIGINT PRIMARY KEY, loan_id BIGINT, due DATE, paid DATE, due_amount DOUBLE, paid_amount DOUBLE);
CREATE TABLE branches (branch_id INTEGER PRIMARY KEY, name VARCHAR, city VARCHAR, region VARCHAR);
CREATE TABLE fx (currency VARCHAR PRIMARY KEY, rate DOUBLE);
INSERT INTO branches VALUES (1, 'Main', 'Riga', 'North'), (2, 'Port', 'Riga', 'North'), (3, 'Mill', 'Ghent', 'South');
INSERT INTO fx VALUES ('EUR', 1.0), ('USD', 0.9), ('GBP', 1.2);
INSERT INTO customers VALUES (1, 'Ann Lee', 'retail', '1980-02-29', 'F', 'LV-1010', 42000, '2019-05-01', 'ann@x.org', '+371 200', 610, 2),
  (2, 'Bo', 'private', '1975-11-30', 'M', 'BE-9000', 98000, '2021-01-31', 'bo@y.com', NULL, 720, 0);
INSERT INTO accounts VALUES (1, 1, 1, 'checking', 'EUR', 1200.5, 500, '2019-05-01', NULL, 'open', 3),
  (2, 2, 3, 'savings', 'USD', 15000, 0, '2021-02-01', '2024-03-31', 'closed', 4);
INSERT INTO transactions VALUES (1, 1, '2024-01-31 23:59:59', '2024-02-01', 19.99, 'debit', 'Kiosk', '5411', 'pos', 'food; daily'),
  (2, 2, '2024-02-29 08:00:00', '2024-02-29', -250.00, 'credit', NULL, NULL, 'web', NULL);
INSERT INTO loans VALUES (1, 1, 9000, 0.07, 36, '2023-03-31', 'active', 'car'), (2, 2, 150000, 0.03, 240, '2021-06-15', 'late', 'home');
INSERT INTO installments VALUES (1, 1, '2024-01-31', '2024-02-03', 280, 280), (2, 2, '2024-02-29', NULL, 830, 0);
