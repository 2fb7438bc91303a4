-- Banks: balances, delinquency, vintages, aging; Oracle, T-SQL and MySQL beside DuckDB.
-- world: bank

-- answerable
SELECT DATE_TRUNC('month', opened) AS month, COUNT(*) AS opened_accounts FROM accounts GROUP BY 1 ORDER BY 1;

-- answerable
SELECT segment, AVG(income) AS avg_income, MEDIAN(income), STDDEV(income) FROM customers GROUP BY segment;

-- answerable
SELECT b.region, SUM(a.balance) AS deposits FROM accounts a JOIN branches b ON a.branch_id = b.branch_id WHERE a.status = 'open' GROUP BY b.region ORDER BY deposits DESC;

-- answerable
SELECT SUM(a.balance * f.rate) AS balance_eur FROM accounts a JOIN fx f USING (currency);

-- answerable
SELECT kind, SUM(CASE WHEN balance < 0 THEN 1 ELSE 0 END) AS overdrawn, COUNT(*) AS n, ROUND(100.0 * SUM(CASE WHEN balance < 0 THEN 1 ELSE 0 END) / COUNT(*), 2) AS pct FROM accounts GROUP BY kind;

-- answerable
SELECT CASE WHEN DATEDIFF('day', due, CURRENT_DATE) <= 0 THEN 'current' WHEN DATEDIFF('day', due, CURRENT_DATE) <= 30 THEN '1-30' WHEN DATEDIFF('day', due, CURRENT_DATE) <= 60 THEN '31-60' WHEN DATEDIFF('day', due, CURRENT_DATE) <= 90 THEN '61-90' ELSE '90+' END AS bucket, COUNT(*) AS n, SUM(due_amount - paid_amount) AS outstanding FROM installments WHERE paid IS NULL GROUP BY 1;

-- answerable
SELECT DATE_TRUNC('quarter', l.disbursed) AS vintage, DATE_DIFF('month', l.disbursed, i.due) AS mob, SUM(CASE WHEN i.paid IS NULL OR i.paid > i.due + INTERVAL 30 DAY THEN i.due_amount ELSE 0 END) / SUM(i.due_amount) AS dq30 FROM loans l JOIN installments i ON i.loan_id = l.loan_id GROUP BY 1, 2 ORDER BY 1, 2;

-- answerable
SELECT purpose, SUM(principal) AS total, SUM(principal * rate) / SUM(principal) AS wavg_rate FROM loans GROUP BY purpose HAVING COUNT(*) >= 10;

-- answerable
SELECT COUNT(*) AS customers, COUNT(*) FILTER (WHERE risk_score >= 700) AS prime, COUNT(*) FILTER (WHERE risk_score < 620) AS subprime FROM customers;

-- answerable
SELECT WIDTH_BUCKET(risk_score, 300, 850, 11) AS band, COUNT(*) FROM customers GROUP BY band ORDER BY band;

-- answerable
SELECT FLOOR(income / 10000) * 10000 AS income_band, COUNT(DISTINCT customer_id) FROM customers GROUP BY 1;

-- answerable
SELECT EXTRACT(YEAR FROM AGE(CURRENT_DATE, birth_date)) AS age, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT CASE WHEN date_part('year', age(birth_date)) < 30 THEN 'under 30' WHEN date_part('year', age(birth_date)) < 60 THEN '30-59' ELSE '60+' END AS age_group, AVG(risk_score) FROM customers GROUP BY 1;

-- answerable
SELECT channel, COUNT(*) AS txns, SUM(ABS(amount)) AS volume, AVG(ABS(amount)) AS ticket FROM transactions WHERE posted BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY channel;

-- answerable
SELECT mcc, SUM(amount) AS spend FROM transactions WHERE kind = 'debit' GROUP BY mcc ORDER BY spend DESC LIMIT 10;

-- answerable
SELECT LEFT(mcc, 2) AS mcc_group, COUNT(*) FROM transactions GROUP BY LEFT(mcc, 2);

-- answerable
SELECT strftime(posted, '%Y-%m') AS ym, SUM(amount) FILTER (WHERE amount > 0) AS inflow, SUM(amount) FILTER (WHERE amount < 0) AS outflow FROM transactions GROUP BY ym ORDER BY ym;

-- answerable
SELECT COUNT(DISTINCT customer_id) FROM accounts WHERE status = 'open' AND account_id NOT IN (SELECT account_id FROM transactions WHERE posted >= CURRENT_DATE - INTERVAL '90 days');

-- answerable
SELECT AVG(n_accounts) FROM (SELECT customer_id, COUNT(*) AS n_accounts FROM accounts WHERE closed IS NULL GROUP BY customer_id) t;

-- answerable
SELECT products_held, COUNT(*) AS customers FROM (SELECT customer_id, COUNT(DISTINCT kind) AS products_held FROM accounts GROUP BY customer_id) x GROUP BY products_held ORDER BY products_held;

-- answerable
SELECT APPROX_QUANTILE(balance, 0.95) FROM accounts;

-- answerable
SELECT SUM(balance) / NULLIF(SUM(credit_limit), 0) AS utilization FROM accounts WHERE kind = 'card';

-- answerable
SELECT CASE WHEN credit_limit = 0 THEN 'no limit' WHEN balance / credit_limit > 0.8 THEN 'high' WHEN balance / credit_limit > 0.3 THEN 'mid' ELSE 'low' END AS util, COUNT(*) FROM accounts GROUP BY util;

-- answerable
SELECT regexp_extract(email, '@(.+)$', 1) AS domain, COUNT(*) AS n FROM customers GROUP BY domain ORDER BY n DESC LIMIT 20;

-- answerable
SELECT SUBSTR(postcode, 1, 2) AS country, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT SPLIT_PART(email, '@', 2) AS domain, COUNT(*) FROM customers WHERE email LIKE '%@%' GROUP BY 1;

-- answerable
SELECT MONTHS_BETWEEN(CURRENT_DATE, joined) AS months, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT FLOOR(MONTHS_BETWEEN(SYSDATE, joined) / 12) AS years, COUNT(*) FROM customers GROUP BY FLOOR(MONTHS_BETWEEN(SYSDATE, joined) / 12);

-- answerable
SELECT TO_CHAR(posted, 'YYYY-"Q"Q') AS quarter, SUM(amount) FROM transactions GROUP BY 1;

-- answerable
SELECT TRUNC(posted, 'MM') AS month, COUNT(*) FROM transactions GROUP BY TRUNC(posted, 'MM');

-- answerable
SELECT DECODE(status, 'open', 'Active', 'closed', 'Closed', 'Other') AS label, COUNT(*) FROM accounts GROUP BY DECODE(status, 'open', 'Active', 'closed', 'Closed', 'Other');

-- answerable
SELECT NVL(channel, 'unknown'), COUNT(*) FROM transactions GROUP BY NVL(channel, 'unknown');

-- answerable
SELECT COUNT(*) FROM transactions WHERE BITAND(txn_id, 1) = 1;

-- answerable
SELECT COUNT(*) FROM accounts WHERE flags & 2 = 2;

-- answerable
SELECT flags & 1 AS frozen, COUNT(*) FROM accounts GROUP BY flags & 1;

-- answerable
SELECT flags >> 2 AS tier, COUNT(*) FROM accounts GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM accounts WHERE (flags | 4) = flags;

-- answerable
SELECT bit_count(flags) AS bits, COUNT(*) FROM accounts GROUP BY bits;

-- answerable
SELECT xor(flags, 1) AS x, COUNT(*) FROM accounts GROUP BY x;

-- answerable
SELECT COUNT(*) FROM customers WHERE MONTH(birth_date) = MONTH(CURRENT_DATE) AND DAY(birth_date) = DAY(CURRENT_DATE);

-- answerable
SELECT COUNT(*) FROM customers WHERE phone IS NULL OR TRIM(phone) = '';

-- answerable
SELECT LENGTH(REGEXP_REPLACE(phone, '[^0-9]', '', 'g')) AS digits, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT CHR(65 + CAST(FLOOR(risk_score / 100) AS INTEGER) - 3) AS grade, COUNT(*) FROM customers GROUP BY 1;

-- answerable
SELECT MOD(ABS(HASH(customer_id)), 10) AS fold, COUNT(*) FROM customers GROUP BY fold;

-- answerable
SELECT CASE WHEN amount BETWEEN 0 AND 9.99 THEN '<10' WHEN amount < 100 THEN '10-99' ELSE '100+' END AS band, COUNT(*), SUM(amount) FROM transactions WHERE amount >= 0 GROUP BY ALL;

-- answerable
SELECT SUM(amount) OVER () FROM (SELECT kind, SUM(amount) AS amount FROM transactions GROUP BY kind);

-- answerable
WITH monthly AS (SELECT date_trunc('month', posted) AS m, SUM(amount) AS total FROM transactions GROUP BY 1) SELECT m, total, total - LAG(total) OVER (ORDER BY m) AS delta, 100.0 * (total - LAG(total) OVER (ORDER BY m)) / NULLIF(LAG(total) OVER (ORDER BY m), 0) AS growth FROM monthly ORDER BY m;

-- answerable
WITH bal AS (SELECT customer_id, SUM(balance) AS total FROM accounts GROUP BY customer_id) SELECT CASE WHEN total < 1000 THEN 'mass' WHEN total < 50000 THEN 'affluent' ELSE 'private' END AS tier, COUNT(*), AVG(total) FROM bal GROUP BY 1;

-- answerable
WITH last_txn AS (SELECT a.customer_id, MAX(t.posted) AS last FROM accounts a JOIN transactions t ON t.account_id = a.account_id GROUP BY a.customer_id) SELECT COUNT(*) FROM last_txn WHERE last < CURRENT_DATE - 180;

-- answerable
SELECT COUNT(*) FROM loans WHERE disbursed + term * INTERVAL '1 month' < CURRENT_DATE;

-- answerable
SELECT COUNT(*) FROM loans WHERE ADD_MONTHS(disbursed, 12) <= CURRENT_DATE;

-- answerable
SELECT COUNT(*) FROM loans WHERE DATEADD(month, term, disbursed) > GETDATE();

-- answerable
SELECT ROUND(POWER(1 + rate / 12, term)) AS growth, COUNT(*) FROM loans GROUP BY 1;

-- answerable
SELECT AVG(principal * (rate / 12) / (1 - POWER(1 + rate / 12, -term))) AS avg_payment FROM loans WHERE rate > 0;

-- answerable
SELECT CONCAT(YEAR(disbursed), '-Q', QUARTER(disbursed)) AS cohort, COUNT(*) FROM loans GROUP BY 1;

-- answerable
SELECT YEAR(disbursed) || '-' || LPAD(MONTH(disbursed)::VARCHAR, 2, '0') AS ym, SUM(principal) FROM loans GROUP BY 1;

-- answerable
SELECT purpose, SUM(principal) AS p, SUM(SUM(principal)) OVER () AS total, SUM(principal) / SUM(SUM(principal)) OVER () AS share FROM loans GROUP BY purpose;

-- answerable
SELECT status, COUNT(*) c, SUM(principal) s FROM loans GROUP BY GROUPING SETS ((status), ());

-- answerable
SELECT AVG(DATEDIFF('day', due, paid)) AS avg_days_late FROM installments WHERE paid > due;

-- answerable
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY due_amount) FROM installments;

-- answerable
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM loans l WHERE l.customer_id = c.customer_id AND l.status = 'late') AND c.income > 50000;

-- answerable
SELECT COUNT_IF(paid_amount >= due_amount) / COUNT(*) AS on_time_rate FROM installments;

-- answerable
SELECT STRING_AGG(DISTINCT kind, ', ') FROM accounts;

-- answerable
SELECT GROUP_CONCAT(DISTINCT kind ORDER BY kind SEPARATOR '; ') FROM accounts;

-- answerable
SELECT GROUP_CONCAT(DISTINCT kind ORDER BY kind DESC SEPARATOR '|') AS kinds FROM accounts;

-- answerable
SELECT LISTAGG(DISTINCT currency, ',') WITHIN GROUP (ORDER BY currency) FROM accounts;

-- answerable
SELECT array_to_string(array_agg(DISTINCT currency), ', ') FROM accounts;

-- answerable
SELECT ISNULL(segment, 'none') AS seg, COUNT(*) AS [Customer Count] FROM [main].[customers] GROUP BY ISNULL(segment, 'none');

-- answerable
SELECT CONVERT(VARCHAR(7), posted, 120) AS ym, SUM(amount) FROM transactions GROUP BY CONVERT(VARCHAR(7), posted, 120);

-- answerable
SELECT CONVERT(DATE, ts) AS d, COUNT(*) FROM transactions GROUP BY CONVERT(DATE, ts);

-- answerable
SELECT CAST(ts AS DATE) AS d, DATENAME(weekday, ts) AS wd, COUNT(*) FROM transactions GROUP BY CAST(ts AS DATE), DATENAME(weekday, ts);

-- answerable
SELECT DATENAME(month, posted) AS m, COUNT(*) FROM transactions GROUP BY DATENAME(month, posted);

-- answerable
SELECT TOP 5 mcc, COUNT(*) AS n FROM transactions GROUP BY mcc ORDER BY n DESC;

-- answerable
SELECT COUNT(*) FROM transactions WHERE CHARINDEX('food', memo) > 0;

-- answerable
SELECT LEN(memo) AS l, COUNT(*) FROM transactions GROUP BY LEN(memo);

-- answerable
SELECT COUNT(*) FROM transactions WHERE INSTR(memo, 'food') > 0;

-- answerable
SELECT COUNT(*) FROM transactions WHERE LOCATE('food', memo) > 0;

-- answerable
SELECT COUNT(*) FROM transactions WHERE POSITION('food' IN memo) > 0;

-- answerable
SELECT COUNT(*) FROM transactions WHERE memo REGEXP 'food|rent';

-- answerable
SELECT COUNT(*) FROM transactions WHERE memo RLIKE '^food';

-- answerable
SELECT COUNT(*) FROM transactions WHERE REGEXP_LIKE(memo, 'food', 'i');

-- answerable
SELECT COUNT(*) FROM transactions WHERE REGEXP_CONTAINS(memo, r'food|rent');

-- answerable
SELECT COUNT(*) FROM transactions WHERE LOWER(memo) LIKE '%food%' AND merchant NOT ILIKE 'kiosk%';

-- answerable
SELECT WEEKDAY(ts) AS wd, COUNT(*) FROM transactions GROUP BY wd;

-- answerable
SELECT DAYOFWEEK(ts) AS wd, COUNT(*) FROM transactions GROUP BY wd;

-- answerable
SELECT HOUR(ts) AS h, COUNT(*) FROM transactions GROUP BY h ORDER BY h;

-- answerable
SELECT DATE_FORMAT(ts, '%Y-%m-01') AS m, SUM(amount) FROM transactions GROUP BY m;

-- answerable
SELECT YEARWEEK(posted) AS yw, COUNT(*) FROM transactions GROUP BY yw;

-- answerable
SELECT FROM_UNIXTIME(UNIX_TIMESTAMP(ts) - MOD(UNIX_TIMESTAMP(ts), 900)) AS bucket, COUNT(*) FROM transactions GROUP BY bucket;

-- answerable
SELECT ROUND(SUM(amount), 2) AS total, FORMAT(SUM(amount), 2) AS pretty FROM transactions;

-- answerable
SELECT CEIL(risk_score / 50) * 50 AS b, COUNT(*) FROM customers GROUP BY b;

-- answerable
SELECT SIGN(balance) AS s, COUNT(*) FROM accounts GROUP BY s;

-- answerable
SELECT IF(balance > 0, 'pos', 'neg') AS s, COUNT(*) FROM accounts GROUP BY s;

-- answerable
SELECT ELT(dependants + 1, 'none', 'one', 'two') AS d, COUNT(*) FROM customers GROUP BY d;

-- answerable
SELECT FIELD(segment, 'retail', 'private') AS f, COUNT(*) FROM customers GROUP BY f;

-- answerable
SELECT LAST_DAY(posted) AS month_end, SUM(amount) FROM transactions GROUP BY 1;

-- answerable
SELECT EOMONTH(posted) AS month_end, SUM(amount) FROM transactions GROUP BY EOMONTH(posted);

-- refused: rows
SELECT name, balance FROM customers JOIN accounts USING (customer_id) ORDER BY balance DESC LIMIT 10;

-- refused: unit-keys
SELECT customer_id, SUM(balance) FROM accounts GROUP BY customer_id;

