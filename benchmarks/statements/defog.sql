-- In the shapes of defog's questions: brokers, car dealers, a clinic, a wallet.
-- world: firms

-- answerable
SELECT COUNT(DISTINCT t.customer_id) FROM transactions AS t JOIN customers AS c ON t.customer_id = c.customer_id WHERE t.tx_type = 'buy' AND c.country = 'USA';

-- answerable
SELECT t.symbol, COUNT(tx.tx_id) AS num_transactions, SUM(tx.amount) AS total_amount FROM tickers t JOIN transactions tx ON t.ticker_id = tx.ticker_id WHERE tx.tx_type = 'buy' AND tx.tx_time >= CURRENT_DATE - INTERVAL '10 days' GROUP BY t.symbol ORDER BY total_amount DESC NULLS LAST LIMIT 2;

-- answerable
SELECT c.state, COUNT(t.tx_id) AS trades, AVG(t.shares) AS avg_shares FROM customers c LEFT JOIN transactions t ON c.customer_id = t.customer_id GROUP BY c.state ORDER BY trades DESC;

-- answerable
SELECT AVG(EXTRACT(DAY FROM t.tx_time - c.joined)) FROM customers c JOIN transactions t ON c.customer_id = t.customer_id;

-- answerable
SELECT DATE_TRUNC('month', tx_time) AS month, COUNT(*) FROM transactions WHERE tx_time >= DATE_TRUNC('month', CURRENT_DATE) - INTERVAL '12 months' GROUP BY 1 ORDER BY 1;

-- answerable
SELECT SUM(amount) FROM transactions JOIN tickers USING (ticker_id) WHERE tickers.type = 'stock' AND transactions.status = 'success';

-- answerable
SELECT tickers.exchange, SUM(CASE WHEN tx_type = 'sell' THEN shares ELSE -shares END) AS net FROM transactions JOIN tickers ON tickers.ticker_id = transactions.ticker_id GROUP BY tickers.exchange;

-- answerable
SELECT COUNT(*) FROM customers WHERE joined >= '2025-01-01' AND email LIKE '%@gmail.com';

-- answerable
SELECT COUNT(customer_id) FROM customers WHERE (email ILIKE '%goog%' OR email ILIKE '%yahoo%') AND country <> 'USA';

-- answerable
SELECT state, COUNT(*) AS c FROM customers WHERE joined > DATE '2024-06-01' GROUP BY state HAVING COUNT(*) >= 20 ORDER BY c DESC;

-- answerable
SELECT c.country, AVG(t.amount) FROM customers c JOIN transactions t ON c.customer_id = t.customer_id WHERE t.tx_time > '2025-01-01 00:00:00' GROUP BY c.country ORDER BY AVG(t.amount) DESC LIMIT 5;

-- answerable
SELECT COUNT(*) FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM transactions);

-- answerable
SELECT COUNT(*) FROM customers c LEFT JOIN transactions t ON c.customer_id = t.customer_id WHERE t.customer_id IS NULL;

-- answerable
SELECT symbol FROM tickers WHERE ticker_id NOT IN (SELECT DISTINCT ticker_id FROM transactions);

-- answerable
SELECT symbol, MAX(high) - MIN(low) AS spread FROM daily_prices JOIN tickers USING (ticker_id) WHERE day BETWEEN '2025-01-01' AND '2025-01-31' GROUP BY symbol ORDER BY spread DESC LIMIT 3;

-- answerable
SELECT t.symbol, AVG(tx.price - p.close) FROM transactions tx JOIN tickers t ON tx.ticker_id = t.ticker_id JOIN daily_prices p ON p.ticker_id = tx.ticker_id AND p.day = DATE(tx.tx_time) GROUP BY t.symbol;

-- answerable
SELECT TO_CHAR(tx_time, 'YYYY-MM') AS month, COUNT(DISTINCT customer_id) AS active FROM transactions GROUP BY month ORDER BY month;

-- answerable
SELECT DATE_PART('week', joined) AS week, COUNT(*) FROM customers WHERE EXTRACT(YEAR FROM joined) = 2025 GROUP BY week;

-- answerable
WITH popular AS (SELECT ticker_id, COUNT(*) AS c FROM transactions GROUP BY ticker_id) SELECT t.symbol, p.c, RANK() OVER (ORDER BY p.c DESC) FROM popular p JOIN tickers t ON t.ticker_id = p.ticker_id;

-- answerable
WITH success_rate AS (SELECT customer_id, COUNT(CASE WHEN status = 'success' THEN 1 END) * 100.0 / COUNT(*) AS rate FROM transactions GROUP BY customer_id) SELECT AVG(rate) FROM success_rate;

-- answerable
WITH first_tx AS (SELECT customer_id, MIN(tx_time) AS first_time FROM transactions GROUP BY customer_id) SELECT COUNT(*) FROM customers c JOIN first_tx f ON c.customer_id = f.customer_id WHERE f.first_time <= c.joined + INTERVAL '30 days';

-- answerable
SELECT SUM(amount) FROM transactions WHERE ticker_id IN (SELECT ticker_id FROM tickers WHERE symbol ~ '(AMZN|AAPL|GOOGL)');

-- answerable
SELECT SUM(t.amount) FROM transactions t WHERE t.customer_id IN (SELECT c.customer_id FROM customers c WHERE c.city ILIKE '%york%');

-- answerable
SELECT COUNT(*) FROM transactions WHERE amount > (SELECT AVG(amount) FROM transactions WHERE tx_type = 'buy');

-- answerable
SELECT SUM(CASE WHEN t.tx_type = 'sell' THEN t.amount - t.commission END) * 100 / SUM(t.amount) AS cr FROM transactions t JOIN tickers k ON k.ticker_id = t.ticker_id;

-- answerable
SELECT k.symbol, SUM(t.amount) / NULLIF(COUNT(DISTINCT t.customer_id), 0) AS per_customer FROM transactions t JOIN tickers k USING (ticker_id) GROUP BY k.symbol ORDER BY 2 DESC NULLS LAST;

-- answerable
SELECT COUNT(*) FROM transactions WHERE tx_time::DATE = '2025-04-01' AND tx_type = 'buy';

-- answerable
SELECT MAX(amount) FROM transactions WHERE status = 'success';

-- answerable
SELECT c.make, c.model, COUNT(s.sale_id) AS num_sales FROM cars c LEFT JOIN sales s ON c.car_id = s.car_id GROUP BY c.make, c.model ORDER BY num_sales DESC;

-- answerable
SELECT c.make, SUM(s.sale_price) AS revenue FROM sales s JOIN cars c ON s.car_id = c.car_id WHERE s.sale_date >= '2025-01-01' GROUP BY c.make ORDER BY revenue DESC LIMIT 5;

-- answerable
SELECT AVG(s.sale_price) FROM sales s JOIN customers c ON s.customer_id = c.customer_id WHERE c.state = 'CA' AND s.sale_date BETWEEN CURRENT_DATE - INTERVAL '6 months' AND CURRENT_DATE;

-- answerable
SELECT sp.first_name, sp.last_name, COUNT(*) AS n, SUM(s.sale_price) AS total FROM salespersons sp JOIN sales s ON sp.salesperson_id = s.salesperson_id WHERE s.sale_date >= DATE_TRUNC('month', CURRENT_DATE) - INTERVAL '3 months' GROUP BY sp.first_name, sp.last_name ORDER BY total DESC;

-- answerable
SELECT sp.salesperson_id, sp.first_name, sp.last_name, COUNT(s.sale_id) AS sold FROM salespersons sp LEFT JOIN sales s ON sp.salesperson_id = s.salesperson_id GROUP BY sp.salesperson_id, sp.first_name, sp.last_name ORDER BY sold DESC;

-- answerable
SELECT c.make, AVG(s.sale_price - c.cost) AS margin FROM sales s JOIN cars c ON s.car_id = c.car_id GROUP BY c.make;

-- answerable
SELECT (SUM(s.sale_price) - SUM(c.cost)) / SUM(c.cost) * 100 AS gpm FROM sales s JOIN cars c ON s.car_id = c.car_id WHERE EXTRACT(YEAR FROM s.sale_date) = 2025;

-- answerable
SELECT DATE_TRUNC('quarter', s.sale_date) AS quarter, cu.state, SUM(s.sale_price) FROM sales s JOIN customers cu ON s.customer_id = cu.customer_id GROUP BY 1, 2 HAVING SUM(s.sale_price) > 0 ORDER BY 1, 2;

-- answerable
SELECT method, SUM(amount) AS total FROM payments WHERE paid_on >= DATE_TRUNC('week', CURRENT_DATE) - INTERVAL '1 week' AND paid_on < DATE_TRUNC('week', CURRENT_DATE) GROUP BY method ORDER BY total DESC;

-- answerable
SELECT AVG(p.paid_on - s.sale_date) AS days_to_payment FROM sales s JOIN payments p ON s.sale_id = p.sale_id;

-- answerable
SELECT ROUND(AVG(DATE_DIFF('day', s.sale_date, p.first_paid)), 2) FROM sales s JOIN (SELECT sale_id, MIN(paid_on) AS first_paid FROM payments GROUP BY sale_id) p ON p.sale_id = s.sale_id;

-- answerable
SELECT EXTRACT(YEAR FROM s.sale_date) AS yr, c.engine, COUNT(*) FROM sales s JOIN cars c USING (car_id) WHERE c.engine IN ('V6', 'V8') GROUP BY yr, c.engine;

-- answerable
WITH monthly AS (SELECT DATE_TRUNC('month', sale_date) AS m, SUM(sale_price) AS total FROM sales GROUP BY 1) SELECT m, total, total - LAG(total) OVER (ORDER BY m) AS change FROM monthly ORDER BY m;

-- answerable
WITH months AS (SELECT generate_series(DATE '2025-01-01', DATE '2025-06-01', INTERVAL '1 month') AS m) SELECT m, COUNT(s.sale_id) FROM months LEFT JOIN sales s ON DATE_TRUNC('month', s.sale_date) = m GROUP BY m;

-- answerable
WITH latest AS (SELECT car_id, MAX(sale_date) AS last_sold FROM sales GROUP BY car_id) SELECT c.make, l.last_sold FROM cars c JOIN latest l ON l.car_id = c.car_id;

-- answerable
WITH recent AS (SELECT s.car_id, COUNT(*) AS n FROM sales s WHERE s.sale_date >= CURRENT_DATE - 30 GROUP BY s.car_id) SELECT c.make, c.model, r.n FROM cars c JOIN recent r ON c.car_id = r.car_id ORDER BY r.n DESC LIMIT 5;

-- answerable
SELECT COUNT(*) FROM sales WHERE sale_price > (SELECT AVG(cost) FROM cars);

-- answerable
SELECT COUNT(*) FROM sales s JOIN salespersons sp ON s.salesperson_id = sp.salesperson_id WHERE sp.end_date IS NULL AND s.sale_date - sp.hire_date < 365;

-- answerable
SELECT color, AVG(sale_price) FROM sales JOIN cars USING (car_id) WHERE year >= 2020 GROUP BY color ORDER BY 2;

-- refused: unit-keys
SELECT c.name, SUM(s.sale_price) AS spent FROM customers c JOIN sales s ON c.customer_id = s.customer_id GROUP BY c.customer_id, c.name ORDER BY spent DESC LIMIT 3;

-- refused: rows
SELECT name, phone FROM customers WHERE customer_id IN (SELECT customer_id FROM sales WHERE sale_date = CURRENT_DATE - 1);

-- refused: rows
SELECT sale_id, sale_price FROM sales WHERE sale_price = (SELECT MAX(sale_price) FROM sales);

-- answerable
SELECT gender, COUNT(DISTINCT p.patient_id) FROM patients p JOIN treatments t ON p.patient_id = t.patient_id GROUP BY gender;

-- answerable
SELECT d.drug_name, COUNT(*) AS n FROM treatments t JOIN drugs d ON t.drug_id = d.drug_id WHERE t.start_dt >= CURRENT_DATE - INTERVAL '6 months' GROUP BY d.drug_name ORDER BY n DESC LIMIT 5;

-- answerable
SELECT dg.diag_name, COUNT(*) AS n, AVG(t.end_dt - t.start_dt) AS days FROM treatments t JOIN diagnoses dg USING (diag_id) GROUP BY dg.diag_name ORDER BY days DESC NULLS FIRST;

-- answerable
SELECT AVG(weight_kg / ((height_cm / 100) * (height_cm / 100))) AS bmi FROM patients WHERE gender = 'F';

-- answerable
SELECT p.ins_type, AVG(o.day30_itch - o.day7_itch) FROM patients p JOIN treatments t ON t.patient_id = p.patient_id JOIN outcomes o ON o.treatment_id = t.treatment_id GROUP BY p.ins_type;

-- answerable
SELECT ins_type, AVG(height_cm), AVG(weight_kg) FROM patients GROUP BY ins_type ORDER BY AVG(height_cm) ASC NULLS LAST;

-- answerable
SELECT COUNT(*) FROM patients WHERE DATE_PART('year', AGE(CURRENT_DATE, birth)) > 50;

-- answerable
SELECT AVG(EXTRACT(YEAR FROM AGE(birth))) FROM patients WHERE ins_type = 'private';

-- answerable
SELECT FLOOR(DATE_DIFF('year', birth, CURRENT_DATE) / 10) * 10 AS decade, COUNT(*) FROM patients GROUP BY decade;

-- answerable
SELECT doc.specialty, COUNT(t.treatment_id) FROM doctors doc LEFT JOIN treatments t ON doc.doc_id = t.doc_id GROUP BY doc.specialty;

-- answerable
SELECT doc.last_name, COUNT(DISTINCT t.patient_id) AS patients FROM doctors doc JOIN treatments t USING (doc_id) WHERE doc.state = 'CA' GROUP BY doc.last_name ORDER BY patients DESC LIMIT 3;

-- answerable
SELECT d.drug_type, COUNT(ae.ae_id) * 1.0 / COUNT(DISTINCT t.treatment_id) AS rate FROM treatments t JOIN drugs d ON d.drug_id = t.drug_id LEFT JOIN adverse_events ae ON ae.treatment_id = t.treatment_id GROUP BY d.drug_type;

-- answerable
SELECT severity, COUNT(*) FROM adverse_events WHERE reported >= DATE_TRUNC('month', CURRENT_DATE - INTERVAL '1 month') GROUP BY severity;

-- answerable
SELECT COUNT(*) FROM treatments WHERE is_placebo AND start_dt < '2025-01-01' AND (end_dt IS NULL OR end_dt > '2025-01-01');

-- answerable
SELECT COUNT(DISTINCT patient_id) FROM treatments WHERE treatment_id IN (SELECT treatment_id FROM adverse_events WHERE severity = 'severe');

-- answerable
SELECT COUNT(*) FROM treatments t WHERE t.drug_id = (SELECT drug_id FROM drugs WHERE drug_name = 'Derm');

-- answerable
SELECT COUNT(DISTINCT t.patient_id) FROM treatments t JOIN (SELECT drug_id, fda_date FROM drugs WHERE fda_date IS NOT NULL) d ON t.drug_id = d.drug_id AND t.start_dt < d.fda_date;

-- answerable
WITH doc_first AS (SELECT doc_id, MIN(start_dt) AS first FROM treatments GROUP BY doc_id) SELECT doc.specialty, AVG(f.first - DATE '2020-01-01') FROM doctors doc JOIN doc_first f USING (doc_id) GROUP BY 1;

-- answerable
WITH relapsed AS (SELECT t.patient_id, MAX(CASE WHEN o.relapse THEN 1 ELSE 0 END) AS r FROM treatments t JOIN outcomes o ON o.treatment_id = t.treatment_id GROUP BY t.patient_id) SELECT p.gender, 100.0 * SUM(r) / COUNT(*) FROM relapsed JOIN patients p USING (patient_id) GROUP BY p.gender;

-- answerable
SELECT CORR(weight_kg, height_cm) FROM patients;

-- answerable
SELECT MEDIAN(dose), STDDEV(dose) FROM treatments WHERE NOT is_placebo;

-- answerable
SELECT drug_name, manufacturer FROM drugs WHERE fda_date > '2019-01-01' ORDER BY drug_name;

-- refused: rows
SELECT patient_id, birth FROM patients WHERE weight_kg = (SELECT MAX(weight_kg) FROM patients);

-- refused: unit-keys
SELECT t.patient_id, COUNT(*) FROM treatments t GROUP BY t.patient_id HAVING COUNT(*) > 1;

-- answerable
SELECT COUNT(*) AS n, SUM(amount) AS total FROM wallet_transactions WHERE status = 'success' AND created >= NOW() - INTERVAL '1 month';

-- answerable
SELECT m.category, COUNT(DISTINCT w.sender_id) AS users, SUM(w.amount) AS volume FROM wallet_transactions w JOIN merchants m ON w.merchant_id = m.mid WHERE m.status = 'active' GROUP BY m.category ORDER BY volume DESC;

-- answerable
SELECT m.name, SUM(w.amount) AS volume, RANK() OVER (ORDER BY SUM(w.amount) DESC) AS mrr FROM merchants m JOIN wallet_transactions w ON m.mid = w.merchant_id WHERE w.status = 'success' GROUP BY m.name LIMIT 2;

-- answerable
SELECT u.country, AVG(EXTRACT(EPOCH FROM (s.ended - s.began)) / 60) AS minutes FROM user_sessions s JOIN wallet_users u ON s.uid = u.uid GROUP BY u.country;

-- answerable
SELECT device, SUM(EXTRACT(EPOCH FROM ended - began)) FROM user_sessions WHERE began >= '2025-01-01' AND ended < '2025-02-01' GROUP BY device;

-- answerable
SELECT AVG(DATE_DIFF('second', began, ended)) FROM user_sessions;

-- answerable
SELECT DATE_TRUNC('week', created) AS week, COUNT(*) AS notif, COUNT(CASE WHEN EXTRACT(DOW FROM created) IN (0, 6) THEN 1 END) AS weekend FROM notifications WHERE created >= DATE_TRUNC('week', CURRENT_DATE) - INTERVAL '3 weeks' GROUP BY week;

-- answerable
SELECT u.country, COUNT(CASE WHEN n.status = 'read' THEN 1 END) * 1.0 / COUNT(*) AS read_rate FROM notifications n JOIN wallet_users u ON n.uid = u.uid WHERE n.type = 'promotion' GROUP BY u.country;

-- answerable
SELECT COUNT(*) FROM wallet_users WHERE uid NOT IN (SELECT sender_id FROM wallet_transactions) AND status = 'active';

-- answerable
SELECT COUNT(DISTINCT u.uid) FROM wallet_users u LEFT JOIN notifications n ON u.uid = n.uid WHERE n.nid IS NULL AND u.created > CURRENT_DATE - INTERVAL '1 year';

-- answerable
SELECT DATE_TRUNC('month', u.created) AS cohort, COUNT(DISTINCT u.uid) AS users, COUNT(DISTINCT s.uid) AS returned FROM wallet_users u LEFT JOIN user_sessions s ON s.uid = u.uid AND s.began > u.created + INTERVAL '7 days' GROUP BY 1 ORDER BY 1;

-- answerable
SELECT m.country, COUNT(c.cid) FROM merchants m LEFT JOIN coupons c ON m.mid = c.merchant_id GROUP BY m.country;

-- answerable
SELECT c.code, COUNT(*) FROM wallet_transactions w JOIN coupons c ON c.merchant_id = w.merchant_id AND w.created BETWEEN c.starts AND c.ends GROUP BY c.code;

-- answerable
WITH user_tx AS (SELECT sender_id, SUM(amount) AS s FROM wallet_transactions GROUP BY sender_id) SELECT u.country, AVG(s), MEDIAN(s) FROM user_tx JOIN wallet_users u ON u.uid = user_tx.sender_id GROUP BY u.country;

-- answerable
WITH ranked AS (SELECT uid, created, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY created DESC) AS rn, status FROM notifications) SELECT status, COUNT(*) FROM ranked WHERE rn = 1 GROUP BY status;

-- answerable
WITH ordered AS (SELECT sender_id, created, LAG(created) OVER (PARTITION BY sender_id ORDER BY created) AS prev FROM wallet_transactions) SELECT AVG(DATE_DIFF('hour', prev, created)) FROM ordered WHERE prev IS NOT NULL;

-- answerable
SELECT COUNT(DISTINCT a.sender_id) FROM wallet_transactions a WHERE EXISTS (SELECT 1 FROM user_sessions s WHERE s.uid = a.sender_id AND a.created BETWEEN s.began AND s.ended);

-- answerable
SELECT SUM(w.amount) / COUNT(DISTINCT DATE_TRUNC('day', w.created)) FROM wallet_transactions w WHERE w.type = 'debit';

-- answerable
SELECT food_type, COUNT(*) FROM restaurants GROUP BY food_type HAVING AVG(rating) > 4;

-- answerable
SELECT city FROM restaurants GROUP BY city ORDER BY COUNT(*) DESC LIMIT 1;

-- answerable
SELECT u.kyc, APPROX_COUNT_DISTINCT(w.merchant_id) FROM wallet_users u JOIN wallet_transactions w ON w.sender_id = u.uid GROUP BY u.kyc;

-- answerable
SELECT country, COUNT(*) FILTER (WHERE status = 'active')::FLOAT / COUNT(*) FROM wallet_users GROUP BY country ORDER BY 2 DESC;

-- answerable
SELECT CASE WHEN amount < 10 THEN '<10' WHEN amount < 100 THEN '10-100' ELSE '100+' END AS bucket, COUNT(*), SUM(amount) FROM wallet_transactions GROUP BY 1;

-- refused: names
SELECT AVG(balance) FROM wallet_users;

-- answerable
SELECT m.name FROM merchants m WHERE m.mid IN (SELECT merchant_id FROM wallet_transactions GROUP BY merchant_id HAVING SUM(amount) > 1000);

-- answerable
SELECT m.name, COUNT(w.txid) AS txs FROM merchants m JOIN wallet_transactions w ON w.merchant_id = m.mid WHERE w.created >= DATE '2025-06-08' - INTERVAL '150 days' GROUP BY m.name ORDER BY txs DESC NULLS LAST LIMIT 10;
