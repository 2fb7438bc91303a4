-- In the shapes of the vendors' guides to differential privacy: BigQuery, Snowflake, Databricks.
-- world: hospital

-- answerable
SELECT COUNT(DISTINCT patient_id) FROM patients;

-- answerable
SELECT state, COUNT(DISTINCT patient_id) AS patients FROM patients GROUP BY state ORDER BY 2 DESC;

-- answerable
SELECT gender, AVG(age), DP_INTERVAL_LOW(AVG(age)), DP_INTERVAL_HIGH(AVG(age)) FROM patients GROUP BY gender;

-- answerable
SELECT COUNT(*) AS c, DP_INTERVAL_LOW(c), DP_INTERVAL_HIGH(c) FROM hospital WHERE diagnosis = 'flu';

-- answerable
SELECT p.state, COUNT(DISTINCT h.patient_id) FROM hospital h INNER JOIN patients p ON h.patient_id = p.patient_id WHERE h.diagnosis = 'asthma' GROUP BY p.state;

-- answerable
SELECT p.state, SUM(h.cost) FROM patients p LEFT JOIN hospital h ON p.patient_id = h.patient_id GROUP BY p.state;

-- answerable
SELECT COUNT(*) FROM patients p FULL OUTER JOIN hospital h ON p.patient_id = h.patient_id;

-- answerable
SELECT COUNT(*) FROM (SELECT patient_id FROM hospital GROUP BY patient_id HAVING SUM(cost) > 1000);

-- answerable
SELECT gender, COUNT(*) FROM patients NATURAL JOIN hospital GROUP BY gender;

-- answerable
SELECT age_group, COUNT(*) FROM (SELECT CASE WHEN age < 20 THEN 'young' ELSE 'old' END AS age_group FROM patients) GROUP BY age_group;

-- answerable
SELECT FLOOR(age / 10) * 10 AS age_bin, COUNT(*) FROM patients WHERE age BETWEEN 20 AND 79 GROUP BY age_bin ORDER BY age_bin;

-- answerable
SELECT CASE WHEN age BETWEEN 0 AND 17 THEN 1 WHEN age BETWEEN 18 AND 64 THEN 2 ELSE 3 END AS band, AVG(days) FROM patients p JOIN hospital h USING (patient_id) GROUP BY band;

-- answerable
SELECT diagnosis, COUNT(*) FROM hospital WHERE diagnosis IN ('flu', 'asthma', 'covid') GROUP BY diagnosis;

-- answerable
SELECT COUNT(IFF(has_insurance, 1, NULL)) FROM patients;

-- answerable
SELECT COUNT(DISTINCT IFF(cost > 100, patient_id, NULL)) FROM hospital;

-- answerable
SELECT SUM(IFF(gender = 'f', 1, 0)) / COUNT(*) FROM patients;

-- answerable
SELECT state, COUNT_IF(has_insurance) FROM patients GROUP BY state;

-- answerable
SELECT SUM(cost) FROM hospital WHERE cost < 1000 AND cost > 0;

-- answerable
SELECT STDDEV(cost), VARIANCE(days) FROM hospital;

-- answerable
SELECT YEAR(admitted) AS y, MONTH(admitted) AS m, COUNT(*) FROM hospital GROUP BY y, m;

-- answerable
SELECT DATE_TRUNC('MONTH', admitted), SUM(cost) FROM hospital WHERE admitted >= '2025-01-01'::DATE GROUP BY 1;

-- answerable
SELECT DATE_TRUNC(MONTH, admitted), COUNT(*) FROM hospital GROUP BY 1;

-- answerable
SELECT DATEDIFF('day', admitted, CURRENT_DATE()) AS ago, COUNT(*) FROM hospital GROUP BY ago;

-- answerable
SELECT DATEDIFF(day, admitted, '2025-12-31'::DATE) > 30 AS old, COUNT(*) FROM hospital GROUP BY old;

-- answerable
SELECT diagnosis, COUNT(*) FROM hospital SAMPLE (10) GROUP BY diagnosis;

-- answerable
SELECT zip, COUNT(DISTINCT patient_id) FROM hospital GROUP BY zip;

-- answerable
SELECT LEFT(zip, 3) AS area, COUNT(DISTINCT patient_id) FROM hospital GROUP BY area;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.0, delta = 1e-7, privacy_unit_column = patient_id) diagnosis, COUNT(DISTINCT patient_id) FROM hospital GROUP BY diagnosis;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.0, delta = 1e-7) ward, AVG(cost, contribution_bounds_per_group => (0, 5000)) FROM hospital GROUP BY ward;

-- answerable
SELECT WITH AGGREGATION_THRESHOLD OPTIONS (threshold = 10, privacy_unit_column = patient_id) diagnosis, COUNT(*) FROM hospital GROUP BY diagnosis;

-- answerable
WITH sick AS (SELECT patient_id, COUNT(*) AS stays FROM hospital GROUP BY 1) SELECT state, AVG(stays) FROM sick JOIN patients USING (patient_id) GROUP BY state;

-- answerable
SELECT a.ward, COUNT(*) FROM hospital a JOIN hospital b ON a.patient_id = b.patient_id AND b.admitted > a.admitted AND b.admitted <= a.admitted + 30 GROUP BY a.ward;

-- answerable
SELECT COUNT(DISTINCT a.patient_id) FROM (SELECT patient_id FROM hospital WHERE diagnosis = 'flu') a JOIN (SELECT patient_id FROM hospital WHERE diagnosis = 'asthma') b ON a.patient_id = b.patient_id;

-- answerable
SELECT COUNT(*) FROM (SELECT DISTINCT patient_id FROM hospital WHERE diagnosis = 'flu' UNION SELECT DISTINCT patient_id FROM hospital WHERE diagnosis = 'asthma');

-- answerable
SELECT MIN(age), MAX(age) FROM patients;

-- answerable
SELECT state, MAX(cost) FROM hospital JOIN patients USING (patient_id) GROUP BY state;

-- refused: rows
SELECT * FROM hospital;

-- refused: rows
SELECT diagnosis, cost FROM hospital WHERE zip = '10001';

-- refused: unit-keys
SELECT patient_id, COUNT(*) FROM hospital GROUP BY patient_id;

-- refused: joins
SELECT COUNT(*) FROM hospital a JOIN hospital b ON a.zip = b.zip;

-- answerable
SELECT AVG(cost) FROM hospital WHERE cost > (SELECT AVG(cost) FROM hospital);

-- answerable
SELECT APPROX_PERCENTILE(cost, 0.5) FROM hospital;

-- answerable
SELECT MEDIAN(cost) FROM hospital;
