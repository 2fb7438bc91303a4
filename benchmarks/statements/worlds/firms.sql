CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, name VARCHAR, email VARCHAR, phone VARCHAR, city VARCHAR, state VARCHAR,
  country VARCHAR, joined DATE, status VARCHAR);
CREATE TABLE tickers (ticker_id INTEGER PRIMARY KEY, symbol VARCHAR, name VARCHAR, type VARCHAR, exchange VARCHAR);
CREATE TABLE daily_prices (ticker_id INTEGER, day DATE, open DOUBLE, high DOUBLE, low DOUBLE, close DOUBLE, volume BIGINT);
CREATE TABLE transactions (tx_id BIGINT PRIMARY KEY, customer_id BIGINT, ticker_id INTEGER, tx_time TIMESTAMP, tx_type VARCHAR,
  shares DOUBLE, price DOUBLE, amount DOUBLE, commission DOUBLE, status VARCHAR);
CREATE TABLE cars (car_id INTEGER PRIMARY KEY, make VARCHAR, model VARCHAR, year INTEGER, color VARCHAR, engine VARCHAR, cost DOUBLE);
CREATE TABLE salespersons (salesperson_id INTEGER PRIMARY KEY, first_name VARCHAR, last_name VARCHAR, hire_date DATE, end_date DATE);
CREATE TABLE sales (sale_id BIGINT PRIMARY KEY, car_id INTEGER, salesperson_id INTEGER, customer_id BIGINT, sale_price DOUBLE, sale_date DATE);
CREATE TABLE payments (payment_id BIGINT PRIMARY KEY, sale_id BIGINT, paid_on DATE, amount DOUBLE, method VARCHAR);
CREATE TABLE patients (patient_id BIGINT PRIMARY KEY, gender VARCHAR, birth DATE, ins_type VARCHAR, height_cm DOUBLE, weight_kg DOUBLE,
  address VARCHAR);
CREATE TABLE doctors (doc_id INTEGER PRIMARY KEY, last_name VARCHAR, specialty VARCHAR, years INTEGER, state VARCHAR);
CREATE TABLE diagnoses (diag_id INTEGER PRIMARY KEY, diag_code VARCHAR, diag_name VARCHAR);
CREATE TABLE drugs (drug_id INTEGER PRIMARY KEY, drug_name VARCHAR, drug_type VARCHAR, manufacturer VARCHAR, fda_date DATE);
CREATE TABLE treatments (treatment_id BIGINT PRIMARY KEY, patient_id BIGINT, doc_id INTEGER, drug_id INTEGER, diag_id INTEGER, start_dt DATE,
  end_dt DATE, is_placebo BOOLEAN, dose DOUBLE);
CREATE TABLE outcomes (outcome_id BIGINT PRIMARY KEY, treatment_id BIGINT, assess_dt DATE, day7_itch INTEGER, day30_itch INTEGER, relapse BOOLEAN);
CREATE TABLE adverse_events (ae_id BIGINT PRIMARY KEY, treatment_id BIGINT, reported DATE, severity VARCHAR);
CREATE TABLE wallet_users (uid BIGINT PRIMARY KEY, country VARCHAR, created TIMESTAMP, status VARCHAR, kyc VARCHAR);
CREATE TABLE merchants (mid INTEGER PRIMARY KEY, name VARCHAR, category VARCHAR, country VARCHAR, status VARCHAR);
CREATE TABLE wallet_transactions (txid BIGINT PRIMARY KEY, sender_id BIGINT, merchant_id INTEGER, amount DOUBLE, status VARCHAR, type VARCHAR,
  created TIMESTAMP);
CREATE TABLE user_sessions (session_id BIGINT PRIMARY KEY, uid BIGINT, began TIMESTAMP, ended TIMESTAMP, device VARCHAR);
CREATE TABLE notifications (nid BIGINT PRIMARY KEY, uid BIGINT, type VARCHAR, status VARCHAR, created TIMESTAMP);
CREATE TABLE coupons (cid INTEGER PRIMARY KEY, merchant_id INTEGER, code VARCHAR, discount DOUBLE, starts DATE, ends DATE);
CREATE TABLE restaurants (id INTEGER PRIMARY KEY, name VARCHAR, food_type VARCHAR, city VARCHAR, rating DOUBLE);
INSERT INTO tickers VALUES (1, 'AMZN', 'Amazon', 'stock', 'NASDAQ'), (2, 'AAPL', 'Apple', 'stock', 'NASDAQ'), (3, 'SPY', 'S&P', 'etf', 'NYSE');
INSERT INTO daily_prices VALUES (1, '2025-01-02', 10, 12, 9, 11, 1000), (2, '2025-01-02', 20, 22, 19, 21, 500);
INSERT INTO cars VALUES (1, 'Toyota', 'Camry', 2021, 'red', 'V6', 20000), (2, 'Ford', 'F150', 2022, 'blue', 'V8', 30000);
INSERT INTO salespersons VALUES (1, 'Ann', 'Li', '2020-01-01', NULL), (2, 'Bo', 'Ek', '2021-01-01', '2024-01-01');
INSERT INTO doctors VALUES (1, 'Smith', 'dermatology', 12, 'CA'), (2, 'Chen', 'immunology', 4, 'NY');
INSERT INTO diagnoses VALUES (1, 'L40', 'Psoriasis'), (2, 'L20', 'Eczema');
INSERT INTO drugs VALUES (1, 'Derm', 'biologic', 'Pharma', '2020-01-01'), (2, 'Calm', 'topical', 'Labs', NULL);
INSERT INTO merchants VALUES (1, 'Cafe', 'food', 'US', 'active'), (2, 'Books', 'retail', 'CA', 'active');
INSERT INTO coupons VALUES (1, 1, 'TEN', 10, '2025-01-01', '2025-12-31');
INSERT INTO restaurants VALUES (1, 'Luigi', 'italian', 'Rome', 4.5), (2, 'Sushi Go', 'japanese', 'Kyoto', 4.1);
INSERT INTO customers VALUES (1, 'A', 'a@x.org', '555', 'Boston', 'MA', 'USA', '2024-01-01', 'active');
INSERT INTO transactions VALUES (1, 1, 1, '2025-01-02 10:00:00', 'buy', 10, 11, 110, 1, 'success');
INSERT INTO sales VALUES (1, 1, 1, 1, 25000, '2025-01-05');
INSERT INTO payments VALUES (1, 1, '2025-01-06', 25000, 'credit_card');
INSERT INTO patients VALUES (1, 'F', '1980-01-01', 'private', 170, 65, 'x');
INSERT INTO treatments VALUES (1, 1, 1, 1, 1, '2025-01-01', NULL, false, 10);
INSERT INTO outcomes VALUES (1, 1, '2025-01-10', 5, 2, false);
INSERT INTO adverse_events VALUES (1, 1, '2025-01-09', 'mild');
INSERT INTO wallet_users VALUES (1, 'US', '2024-01-01 00:00:00', 'active', 'approved');
INSERT INTO wallet_transactions VALUES (1, 1, 1, 20, 'success', 'debit', '2025-01-01 10:00:00');
INSERT INTO user_sessions VALUES (1, 1, '2025-01-01 09:00:00', '2025-01-01 09:20:00', 'phone');
INSERT INTO notifications VALUES (1, 1, 'promotion', 'read', '2025-01-01 08:00:00');
