CREATE TABLE employees (emp_id BIGINT PRIMARY KEY, full_name VARCHAR, department_id INTEGER, title VARCHAR, level INTEGER, salary DOUBLE, bonus DOUBLE,
  hired DATE, left_on DATE, manager_id BIGINT, gender VARCHAR, birth DATE, office VARCHAR, remote BOOLEAN);
CREATE TABLE survey_responses (response_id BIGINT PRIMARY KEY, emp_id BIGINT, wave VARCHAR, submitted TIMESTAMP, q_pay INTEGER, q_manager INTEGER, q_growth INTEGER, nps INTEGER, comment VARCHAR, weight DOUBLE);
CREATE TABLE timesheets (emp_id BIGINT, project_id INTEGER, work_day DATE, hours DOUBLE, billable BOOLEAN);
CREATE TABLE leave_requests (request_id BIGINT PRIMARY KEY, emp_id BIGINT, kind VARCHAR, first_day DATE, last_day DATE, approved BOOLEAN);
CREATE TABLE trades (trade_id BIGINT PRIMARY KEY, emp_id BIGINT, symbol VARCHAR, side VARCHAR, qty INTEGER, price DOUBLE, fee DECIMAL(8,2), executed TIMESTAMP);
CREATE TABLE departments (department_id INTEGER PRIMARY KEY, department_name VARCHAR, division VARCHAR, cost_center VARCHAR);
CREATE TABLE projects (project_id INTEGER PRIMARY KEY, project_name VARCHAR, client VARCHAR, rate DOUBLE, starts DATE, ends DATE);
CREATE TABLE quotes (symbol VARCHAR, day DATE, close DOUBLE, sector VARCHAR);
CREATE TABLE bands (level INTEGER PRIMARY KEY, low DOUBLE, high DOUBLE, label VARCHAR);
INSERT INTO departments VALUES (1, 'Engineering', 'Tech', 'CC1'), (2, 'Sales', 'Go-to-market', 'CC2'), (3, 'Support', 'Go-to-market', 'CC3');
INSERT INTO projects VALUES (1, 'Apollo', 'ACME', 120.0, '2024-01-01', '2025-12-31'), (2, 'Zeus', 'Beta', 90.0, '2024-06-01', '2025-03-31');
INSERT INTO quotes VALUES ('AAA', '2024-12-31', 10.0, 'Tech'), ('AAA', '2025-02-01', 12.5, 'Tech'), ('BBB', '2025-01-02', 40.0, 'Energy'), ('BBB', '2025-05-31', 38.0, 'Energy');
INSERT INTO bands VALUES (1, 30000, 50000, 'Junior'), (2, 45000, 80000, 'Mid'), (3, 70000, 120000, 'Senior'), (4, 100000, 200000, 'Lead');
INSERT INTO employees VALUES (1, 'Ann', 1, 'Engineer', 2, 70000, 3000, '2019-01-02', NULL, NULL, 'f', '1990-01-02', 'Berlin', true), (2, 'Bob', 2, 'Rep', 1, 45000, 9000, '2021-04-05', '2025-03-01', 1, 'm', '1988-07-07', 'Paris', false);
INSERT INTO survey_responses VALUES (1, 1, '2025H1', '2025-03-01 10:00:00', 4, 5, 3, 9, 'fine', 1.0);
INSERT INTO timesheets VALUES (1, 1, '2025-03-03', 7.5, true);
INSERT INTO leave_requests VALUES (1, 1, 'vacation', '2025-04-01', '2025-04-05', true);
INSERT INTO trades VALUES (1, 1, 'AAA', 'buy', 10, 11.0, 1.25, '2025-01-15 10:00:00');
