-- Questions about staff: pay, surveys, hours, leave and trades.
-- world: staff

-- answerable
SELECT COUNT(*) FROM employees WHERE left_on IS NULL;

-- answerable
SELECT d.department_name, COUNT(*) AS headcount FROM employees e JOIN departments d ON e.department_id = d.department_id WHERE e.left_on IS NULL GROUP BY d.department_name ORDER BY headcount DESC;

-- answerable
SELECT T2.department_name FROM employees AS T1 JOIN departments AS T2 ON T1.department_id = T2.department_id GROUP BY T2.department_id, T2.department_name ORDER BY COUNT(*) DESC LIMIT 1;

-- answerable
SELECT d.department_name FROM departments d WHERE d.department_id NOT IN (SELECT department_id FROM employees WHERE department_id IS NOT NULL);

-- answerable
SELECT AVG(salary) FROM employees WHERE title = 'Engineer' AND gender = 'f';

-- answerable
SELECT gender, AVG(salary), MEDIAN(salary), COUNT(*) FROM employees GROUP BY gender;

-- answerable
SELECT 1 - AVG(CASE WHEN gender = 'f' THEN salary END) / AVG(CASE WHEN gender = 'm' THEN salary END) AS pay_gap FROM employees;

-- answerable
SELECT level, AVG(salary) FILTER (WHERE gender = 'f') / AVG(salary) FILTER (WHERE gender = 'm') AS ratio FROM employees GROUP BY level ORDER BY level;

-- answerable
SELECT b.label, COUNT(*) FROM employees e JOIN bands b ON e.salary >= b.low AND e.salary < b.high GROUP BY b.label;

-- answerable
SELECT b.label, COUNT(e.emp_id) FROM bands b LEFT JOIN employees e ON e.level = b.level GROUP BY b.label;

-- answerable
SELECT COUNT(*) FROM employees e JOIN bands b USING (level) WHERE e.salary NOT BETWEEN b.low AND b.high;

-- answerable
SELECT AVG((e.salary - b.low) / (b.high - b.low)) AS range_penetration FROM employees e JOIN bands b ON b.level = e.level;

-- answerable
SELECT COUNT(*) FROM employees WHERE salary > (SELECT AVG(salary) FROM employees);

-- answerable
SELECT COUNT(*) FROM employees e WHERE salary > (SELECT AVG(salary) FROM employees x WHERE x.department_id = e.department_id);

-- answerable
SELECT COUNT(*) FROM employees e WHERE e.salary > (SELECT m.salary FROM employees m WHERE m.emp_id = e.manager_id);

-- refused: joins
SELECT e.title, COUNT(*) FROM employees e JOIN employees m ON e.manager_id = m.emp_id WHERE e.salary > m.salary GROUP BY e.title;

-- answerable
SELECT date_trunc('year', hired) AS y, COUNT(*) AS hires FROM employees GROUP BY y ORDER BY y;

-- answerable
SELECT m.m, COUNT(e.emp_id) AS headcount FROM (SELECT unnest(generate_series(DATE '2024-01-01', DATE '2025-06-01', INTERVAL 1 MONTH)) AS m) m LEFT JOIN employees e ON e.hired <= m.m AND (e.left_on IS NULL OR e.left_on > m.m) GROUP BY m.m ORDER BY m.m;

-- answerable
WITH s AS (SELECT COUNT(*) FILTER (WHERE left_on BETWEEN '2025-01-01' AND '2025-03-31') AS leavers, COUNT(*) FILTER (WHERE hired <= '2025-01-01' AND (left_on IS NULL OR left_on > '2025-01-01')) AS opening FROM employees) SELECT leavers * 4.0 / opening AS annualised_turnover FROM s;

-- answerable
SELECT AVG(date_diff('month', hired, COALESCE(left_on, DATE '2025-06-15'))) / 12.0 AS tenure_years FROM employees;

-- answerable
SELECT CASE WHEN date_diff('year', hired, COALESCE(left_on, CURRENT_DATE)) < 1 THEN '<1' WHEN date_diff('year', hired, COALESCE(left_on, CURRENT_DATE)) < 5 THEN '1-5' ELSE '5+' END AS tenure, COUNT(*) FROM employees GROUP BY tenure;

-- answerable
SELECT office, COUNT(*) FILTER (WHERE remote)::DOUBLE / COUNT(*) AS remote_share FROM employees GROUP BY office;

-- answerable
SELECT wave, AVG(q_pay) AS pay, AVG(q_manager) AS mgr, AVG(q_growth) AS growth, COUNT(DISTINCT emp_id) AS n FROM survey_responses GROUP BY wave;

-- answerable
SELECT wave, 100.0 * (SUM(CASE WHEN nps >= 9 THEN 1 ELSE 0 END) - SUM(CASE WHEN nps <= 6 THEN 1 ELSE 0 END)) / COUNT(nps) AS enps FROM survey_responses GROUP BY wave;

-- answerable
SELECT q_pay, q_manager, COUNT(*) FROM survey_responses GROUP BY q_pay, q_manager;

-- answerable
SELECT q_pay AS answer, COUNT(*) AS n, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct, SUM(weight) / SUM(SUM(weight)) OVER () AS weighted FROM survey_responses GROUP BY q_pay ORDER BY q_pay;

-- answerable
SELECT SUM(q_pay * weight) / SUM(weight) AS weighted_mean FROM survey_responses WHERE wave = '2025H1';

-- answerable
SELECT AVG(CASE WHEN q_growth >= 4 THEN 100.0 ELSE 0 END) AS top2box, AVG(CASE WHEN q_growth <= 2 THEN 100.0 ELSE 0 END) AS bottom2box FROM survey_responses;

-- answerable
SELECT name, AVG(value) AS mean, COUNT(*) FILTER (WHERE value >= 4) AS fav FROM (UNPIVOT survey_responses ON q_pay, q_manager, q_growth) GROUP BY name;

-- answerable
SELECT question, AVG(score) FROM (SELECT emp_id, 'pay' AS question, q_pay AS score FROM survey_responses UNION ALL SELECT emp_id, 'manager', q_manager FROM survey_responses UNION ALL SELECT emp_id, 'growth', q_growth FROM survey_responses) GROUP BY question;

-- answerable
SELECT corr(q_pay, nps), corr(q_manager, nps), regr_slope(nps, q_growth) FROM survey_responses;

-- answerable
SELECT d.department_name, AVG(r.nps) FROM survey_responses r JOIN employees e USING (emp_id) JOIN departments d USING (department_id) GROUP BY d.department_name;

-- answerable
SELECT COUNT(DISTINCT r.emp_id) * 1.0 / (SELECT COUNT(*) FROM employees WHERE left_on IS NULL) AS response_rate FROM survey_responses r WHERE r.wave = '2025H1';

-- answerable
WITH a AS (SELECT emp_id, nps FROM survey_responses WHERE wave = '2024H2'), b AS (SELECT emp_id, nps FROM survey_responses WHERE wave = '2025H1') SELECT AVG(b.nps - a.nps) AS change, COUNT(*) FROM a JOIN b USING (emp_id);

-- answerable
SELECT COUNT(*) FROM survey_responses WHERE comment ILIKE '%salary%' OR comment ILIKE '%pay%';

-- answerable
SELECT word, COUNT(*) FROM (SELECT emp_id, unnest(string_split(lower(comment), ' ')) AS word FROM survey_responses) WHERE length(word) > 3 GROUP BY word ORDER BY 2 DESC LIMIT 30;

-- answerable
SELECT AVG(length(comment) - length(replace(comment, ' ', '')) + 1) AS avg_words FROM survey_responses;

-- answerable
SELECT p.project_name, SUM(t.hours) AS hours, SUM(t.hours * p.rate) AS billed FROM timesheets t JOIN projects p USING (project_id) WHERE t.billable GROUP BY p.project_name;

-- answerable
SELECT date_trunc('month', work_day) AS m, SUM(CASE WHEN billable THEN hours ELSE 0 END) / SUM(hours) AS utilisation FROM timesheets GROUP BY m;

-- answerable
SELECT AVG(weekly) FROM (SELECT emp_id, date_trunc('week', work_day) AS w, SUM(hours) AS weekly FROM timesheets GROUP BY emp_id, w);

-- answerable
SELECT COUNT(DISTINCT emp_id) FROM (SELECT emp_id, date_trunc('week', work_day) AS w FROM timesheets GROUP BY emp_id, w HAVING SUM(hours) > 48);

-- answerable
SELECT AVG(r7) FROM (SELECT emp_id, work_day, SUM(hours) OVER (PARTITION BY emp_id ORDER BY work_day RANGE BETWEEN INTERVAL 6 DAY PRECEDING AND CURRENT ROW) AS r7 FROM timesheets);

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, SUM(h) OVER (PARTITION BY emp_id ORDER BY d RANGE BETWEEN 6 PRECEDING AND CURRENT ROW) AS s FROM (SELECT emp_id, date_diff('day', DATE '2024-01-01', work_day) AS d, SUM(hours) AS h FROM timesheets GROUP BY 1, 2)) WHERE s > 60;

-- answerable
SELECT kind, AVG(last_day - first_day + 1) AS days, COUNT(*) FROM leave_requests WHERE approved GROUP BY kind;

-- answerable
SELECT g.day, COUNT(l.request_id) AS away FROM generate_series(TIMESTAMP '2025-04-01', TIMESTAMP '2025-04-30', INTERVAL 1 DAY) AS g(day) LEFT JOIN leave_requests l ON g.day BETWEEN l.first_day AND l.last_day AND l.approved GROUP BY g.day;

-- answerable
SELECT AVG(days) FROM (SELECT e.emp_id, COALESCE(SUM(l.last_day - l.first_day + 1), 0) AS days FROM employees e LEFT JOIN leave_requests l ON l.emp_id = e.emp_id AND l.kind = 'sick' GROUP BY e.emp_id);

-- answerable
SELECT SUM(SQUARE(cnt) * days) AS bradford FROM (SELECT emp_id, COUNT(*) AS cnt, SUM(last_day - first_day + 1) AS days FROM leave_requests WHERE kind = 'sick' GROUP BY emp_id);

-- answerable
SELECT symbol, SUM(CASE side WHEN 'buy' THEN qty ELSE -qty END) AS net_position, SUM(qty * price) / SUM(qty) AS vwap FROM trades GROUP BY symbol;

-- answerable
SELECT date_trunc('day', executed) AS d, SUM(qty * price) AS notional, SUM(fee) AS fees, COUNT(*) FROM trades GROUP BY d;

-- answerable
SELECT q.sector, SUM(t.qty * t.price) FROM trades t JOIN (SELECT DISTINCT symbol, sector FROM quotes) q ON q.symbol = t.symbol GROUP BY q.sector;

-- answerable
SELECT t.symbol, AVG(t.price - q.close) AS slippage FROM trades t ASOF JOIN quotes q ON t.symbol = q.symbol AND t.executed >= q.day GROUP BY t.symbol;

-- answerable
SELECT t.symbol, SUM(t.qty * (q.close - t.price)) AS pnl FROM trades t LEFT JOIN quotes q ON q.symbol = t.symbol AND q.day = (SELECT MAX(day) FROM quotes x WHERE x.symbol = t.symbol) GROUP BY t.symbol;

-- answerable
SELECT symbol, AVG(close) FROM quotes WHERE symbol IN (SELECT symbol FROM trades GROUP BY symbol HAVING COUNT(DISTINCT emp_id) > 3) GROUP BY symbol;

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, SUM(CASE WHEN side = 'buy' THEN qty * price ELSE -qty * price END) OVER (PARTITION BY emp_id, symbol ORDER BY executed) AS exposure FROM trades) WHERE exposure > 10000;

-- answerable
SELECT AVG(ret) FROM (SELECT emp_id, symbol, price / LAG(price) OVER (PARTITION BY emp_id, symbol ORDER BY executed) - 1 AS ret FROM trades);

-- answerable
SELECT symbol, STDDEV_SAMP(price), VAR_POP(price), AVG(price), AVG(price) + 2 * STDDEV_SAMP(price) AS upper_band FROM trades GROUP BY symbol;

-- answerable
SELECT title, COUNT(*) FROM employees GROUP BY title HAVING COUNT(*) = (SELECT MAX(c) FROM (SELECT COUNT(*) AS c FROM employees GROUP BY title));

-- answerable
SELECT title, AVG(salary) AS s FROM employees GROUP BY title ORDER BY s DESC LIMIT 3 OFFSET 1;

-- answerable
SELECT DISTINCT title FROM employees ORDER BY title;

-- answerable
SELECT COUNT(DISTINCT title) FROM employees WHERE department_id = 1 OR office LIKE 'B%';

-- answerable
SELECT department_id, title FROM employees GROUP BY department_id, title HAVING COUNT(salary) > 0 AND AVG(salary) > 60000;

-- answerable
SELECT d.division, d.department_name, SUM(e.salary + COALESCE(e.bonus, 0)) AS payroll FROM employees e JOIN departments d USING (department_id) GROUP BY GROUPING SETS ((d.division), (d.division, d.department_name), ());

-- answerable
SELECT d.division, COUNT(*) AS n, LISTAGG(DISTINCT e.office, '; ') WITHIN GROUP (ORDER BY e.office) FROM employees e JOIN departments d USING (department_id) GROUP BY d.division;

-- answerable
SELECT cost_center, SUM(hours) FROM timesheets t JOIN employees e ON e.emp_id = t.emp_id JOIN departments d ON d.department_id = e.department_id GROUP BY cost_center;

-- answerable
SELECT office, gender, COUNT(*) AS n FROM employees WHERE birth BETWEEN '1980-01-01' AND '1999-12-31' GROUP BY office, gender ORDER BY office, gender;

-- answerable
SELECT CASE WHEN birth < '1965-01-01' THEN 'Boomer' WHEN birth < '1981-01-01' THEN 'Gen X' WHEN birth < '1997-01-01' THEN 'Millennial' ELSE 'Gen Z' END AS generation, AVG(nps) FROM employees e JOIN survey_responses s ON s.emp_id = e.emp_id GROUP BY 1;

-- answerable
SELECT month(birth) AS m, day(birth) AS d, COUNT(*) FROM employees GROUP BY m, d;

-- answerable
SELECT AVG(age) FROM (SELECT date_part('year', age(DATE '2025-06-15', birth)) AS age FROM employees);

-- answerable
SELECT hired + INTERVAL 6 MONTH AS probation_end, COUNT(*) FROM employees GROUP BY probation_end;

-- answerable
SELECT COUNT(*) FROM employees WHERE add_months(hired, 6) > DATE '2025-06-15';

-- answerable
SELECT COUNT(*) FROM employees WHERE months_between(DATE '2025-06-15', hired) > 24;

-- answerable
SELECT COUNT(*) FROM employees WHERE hired > DATE '2025-06-15' - INTERVAL '2' YEAR;

-- answerable
SELECT make_date(year(hired), month(hired), 1) AS m, COUNT(*) FROM employees GROUP BY m;

-- answerable
SELECT concat(left(full_name, 1), '.') AS initial, COUNT(*) FROM employees GROUP BY 1;

-- answerable
SELECT position(' ' IN full_name) > 0 AS has_last, COUNT(*) FROM employees GROUP BY 1;

-- answerable
SELECT ascii(upper(full_name)) % 2 AS parity, COUNT(*) FROM employees GROUP BY parity;

-- answerable
SELECT bit_count(emp_id) AS b, COUNT(*) FROM employees GROUP BY b;

-- answerable
SELECT emp_id & 3 AS arm, COUNT(*) FROM employees GROUP BY arm;

-- answerable
SELECT sign(bonus - 1000) AS s, COUNT(*) FROM employees GROUP BY s;

-- answerable
SELECT ceil(salary / 10000.0) * 10000 AS bucket, COUNT(*) FROM employees GROUP BY bucket ORDER BY bucket;

-- answerable
SELECT SQRT(AVG(POWER(salary - 60000, 2))) FROM employees;

-- answerable
SELECT EXP(AVG(LN(salary))) AS geo_mean FROM employees WHERE salary > 0;

-- answerable
SELECT SUM(POW(bonus, 2)) FROM employees;

-- answerable
SELECT MAD(salary) FROM employees;

-- answerable
SELECT ENTROPY(title) FROM employees;

-- refused: rows
SELECT ARG_MAX(title, salary) FROM employees;

-- answerable
SELECT SUM(salary) FILTER (WHERE title IS DISTINCT FROM 'Engineer') FROM employees;

-- answerable
SELECT COUNT(*) FROM employees WHERE (title, office) IN (('Engineer', 'Berlin'), ('Rep', 'Paris'));

-- answerable
SELECT COUNT(*) FROM employees WHERE office IS NULL OR office = '' OR trim(office) = 'n/a';

-- answerable
SELECT ROUND(AVG(salary), 2) AS avg_salary, CAST(MIN(salary) AS INTEGER) AS lo, CAST(MAX(salary) AS INTEGER) AS hi FROM employees WHERE department_id IN (SELECT department_id FROM departments WHERE division = 'Tech');

-- answerable
WITH ranked AS (SELECT department_id, salary, PERCENT_RANK() OVER (PARTITION BY department_id ORDER BY salary) AS pr FROM employees) SELECT department_id, AVG(salary) FROM ranked WHERE pr >= 0.9 GROUP BY department_id;

-- answerable
SELECT title, COUNT(*) AS n FROM employees GROUP BY title HAVING n > (SELECT COUNT(*) FROM employees) / 10;

-- answerable
SELECT t.project_id, COUNT(DISTINCT t.emp_id) FROM timesheets t WHERE t.work_day >= (SELECT p.starts FROM projects p WHERE p.project_id = t.project_id) GROUP BY t.project_id;

-- answerable
SELECT COUNT(*) FROM timesheets t JOIN projects p ON p.project_id = t.project_id AND t.work_day NOT BETWEEN p.starts AND p.ends;

-- answerable
SELECT e.office, AVG(x.h) FROM employees e, LATERAL (SELECT SUM(hours) AS h FROM timesheets t WHERE t.emp_id = e.emp_id) x GROUP BY e.office;

-- answerable
SELECT emps, COUNT(*) FROM (SELECT project_id, COUNT(DISTINCT emp_id) AS emps FROM timesheets GROUP BY project_id) GROUP BY emps;

-- answerable
SELECT e.office, s.wave, AVG(s.nps) FROM employees e FULL OUTER JOIN survey_responses s ON s.emp_id = e.emp_id GROUP BY 1, 2;

-- answerable
SELECT AVG(top) FROM (SELECT emp_id, MAX(hours) AS top, project_id FROM timesheets GROUP BY emp_id, project_id);

-- answerable
SELECT AVG(s) FROM (SELECT emp_id, list_sum(list(hours)) AS s FROM timesheets GROUP BY emp_id);

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, array_agg(wave ORDER BY submitted) AS waves FROM survey_responses GROUP BY emp_id) WHERE array_length(waves) > 1;

-- answerable
SELECT kinds, COUNT(*) FROM (SELECT emp_id, string_agg(DISTINCT kind, '+' ORDER BY kind) AS kinds FROM leave_requests GROUP BY emp_id) GROUP BY kinds;

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, product(1 + nps) AS p FROM survey_responses GROUP BY emp_id) WHERE p > 100;

-- answerable
SELECT AVG(rng) FROM (SELECT emp_id, MAX(hours) - MIN(hours) AS rng, STDDEV_POP(hours) AS sd FROM timesheets GROUP BY emp_id) WHERE sd > 1;

-- answerable
SELECT AVG(hi) FROM (SELECT emp_id, quantile_cont(hours, 0.9) AS hi FROM timesheets GROUP BY emp_id);

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, SUM(hours) FILTER (WHERE billable) / SUM(hours) AS util FROM timesheets GROUP BY emp_id) WHERE util >= 0.8;

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, count_if(billable) AS b, bool_and(billable) AS all_b FROM timesheets GROUP BY emp_id) WHERE all_b AND b > 3;

-- answerable
SELECT COUNT(*) FROM (SELECT emp_id, MIN(work_day) AS a, MAX(work_day) AS b, COUNT(DISTINCT work_day) AS n FROM timesheets GROUP BY emp_id) WHERE n < (b - a + 1) / 2;

-- answerable
SELECT AVG(c) FROM (SELECT emp_id, corr(hours, project_id) AS c FROM timesheets GROUP BY emp_id);

-- answerable
SELECT DISTINCT department_id, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY salary) OVER (PARTITION BY department_id) AS med FROM employees ORDER BY med DESC;
