-- Cohorts, quality checks and characterisation over OMOP's tables.
-- world: clinic

-- answerable
SELECT p.gender_concept_id AS stratum_1, COUNT_BIG(DISTINCT p.person_id) AS count_value FROM person p GROUP BY p.gender_concept_id;

-- answerable
SELECT year_of_birth AS stratum_1, COUNT(DISTINCT person_id) AS count_value FROM person GROUP BY year_of_birth;

-- answerable
SELECT c.concept_name AS gender, COUNT(*) AS n FROM person p JOIN concept c ON c.concept_id = p.gender_concept_id GROUP BY c.concept_name;

-- answerable
SELECT YEAR(op.index_date) - p.year_of_birth AS age, COUNT(*) FROM person p JOIN (SELECT person_id, MIN(observation_period_start_date) AS index_date FROM observation_period GROUP BY person_id) op ON op.person_id = p.person_id GROUP BY 1;

-- answerable
SELECT floor((year(o.observation_period_start_date) - p.year_of_birth) / 10) * 10 AS decade, p.gender_concept_id, COUNT(*) FROM observation_period o JOIN person p USING (person_id) GROUP BY 1, 2;

-- answerable
SELECT AVG(date_diff('day', observation_period_start_date, observation_period_end_date)) AS avg_days, MIN(date_diff('day', observation_period_start_date, observation_period_end_date)), MAX(date_diff('day', observation_period_start_date, observation_period_end_date)) FROM observation_period;

-- answerable
SELECT floor(date_diff('day', observation_period_start_date, observation_period_end_date) / 30) AS months_observed, COUNT(DISTINCT person_id) FROM observation_period GROUP BY 1;

-- answerable
SELECT YEAR(m) * 100 + MONTH(m) AS ym, COUNT(DISTINCT op.person_id) FROM observation_period op CROSS JOIN (SELECT * FROM generate_series(DATE '2024-01-01', DATE '2025-06-01', INTERVAL 1 MONTH) g(m)) WHERE op.observation_period_start_date <= m AND op.observation_period_end_date >= m + INTERVAL 1 MONTH - INTERVAL 1 DAY GROUP BY 1;

-- answerable
SELECT num_periods, COUNT(*) FROM (SELECT person_id, COUNT(*) AS num_periods FROM observation_period GROUP BY person_id) GROUP BY num_periods;

-- answerable
SELECT visit_concept_id, YEAR(visit_start_date) * 100 + MONTH(visit_start_date) AS ym, COUNT(*) FROM visit_occurrence GROUP BY 1, 2;

-- answerable
SELECT c.concept_name, AVG(date_diff('day', visit_start_date, visit_end_date)) AS los FROM visit_occurrence v JOIN concept c ON c.concept_id = v.visit_concept_id GROUP BY c.concept_name;

-- answerable
SELECT cs.care_site_name, COUNT(v.visit_occurrence_id) FROM care_site cs LEFT JOIN visit_occurrence v ON v.care_site_id = cs.care_site_id GROUP BY cs.care_site_name;

-- answerable
SELECT co.condition_concept_id, COUNT(DISTINCT co.person_id) AS persons, COUNT(*) AS records FROM condition_occurrence co GROUP BY co.condition_concept_id HAVING COUNT(DISTINCT co.person_id) > 10 ORDER BY persons DESC;

-- answerable
SELECT COUNT(DISTINCT person_id) FROM condition_occurrence WHERE condition_concept_id IN (SELECT descendant_concept_id FROM concept_ancestor WHERE ancestor_concept_id = 201826);

-- answerable
SELECT COUNT(DISTINCT co.person_id) FROM condition_occurrence co JOIN concept_ancestor ca ON ca.descendant_concept_id = co.condition_concept_id AND ca.ancestor_concept_id = 316866;

-- answerable
SELECT COUNT(DISTINCT c.person_id) FROM condition_occurrence c JOIN drug_exposure d ON d.person_id = c.person_id AND d.drug_exposure_start_date BETWEEN c.condition_start_date AND c.condition_start_date + 90 WHERE c.condition_concept_id = 201826 AND d.drug_concept_id = 1503297;

-- answerable
WITH idx AS (SELECT person_id, MIN(condition_start_date) AS d FROM condition_occurrence WHERE condition_concept_id = 201826 GROUP BY person_id), obs AS (SELECT i.person_id, i.d FROM idx i JOIN observation_period o ON o.person_id = i.person_id AND i.d >= o.observation_period_start_date + 365 AND i.d <= o.observation_period_end_date) SELECT year(d) AS y, COUNT(*) AS incident_cases FROM obs GROUP BY y;

-- answerable
SELECT CASE WHEN 2025 - year_of_birth < 18 THEN 'child' WHEN 2025 - year_of_birth < 65 THEN 'adult' ELSE 'elderly' END AS grp, COUNT(*) FROM person GROUP BY 1;

-- answerable
SELECT AVG(2025 - year_of_birth) AS mean_age, STDDEV(2025 - year_of_birth) AS sd_age, quantile_cont(2025 - year_of_birth, [0.1, 0.25, 0.5, 0.75, 0.9]) FROM person;

-- answerable
WITH last_bp AS (SELECT person_id, arg_max(value_as_number, measurement_date) AS bp FROM measurement WHERE measurement_concept_id = 3004249 GROUP BY person_id) SELECT CASE WHEN bp < 120 THEN 'normal' WHEN bp < 140 THEN 'elevated' ELSE 'hypertension' END AS cls, COUNT(*) FROM last_bp GROUP BY cls;

-- answerable
SELECT AVG(last - first) FROM (SELECT person_id, arg_min(value_as_number, measurement_date) AS first, arg_max(value_as_number, measurement_date) AS last FROM measurement GROUP BY person_id HAVING COUNT(*) >= 2);

-- answerable
SELECT unit, MIN(value_as_number), quantile_cont(value_as_number, 0.25), MEDIAN(value_as_number), quantile_cont(value_as_number, 0.75), MAX(value_as_number) FROM measurement GROUP BY unit;

-- answerable
WITH v AS (SELECT person_id, visit_start_date, visit_end_date, LEAD(visit_start_date) OVER (PARTITION BY person_id ORDER BY visit_start_date) AS next_start FROM visit_occurrence WHERE visit_concept_id = 9201) SELECT SUM(CASE WHEN next_start - visit_end_date BETWEEN 1 AND 30 THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS readmission_rate FROM v;

-- answerable
SELECT COUNT(*) FROM visit_occurrence a WHERE EXISTS (SELECT 1 FROM visit_occurrence b WHERE b.person_id = a.person_id AND b.visit_occurrence_id <> a.visit_occurrence_id AND b.visit_start_date > a.visit_end_date AND b.visit_start_date <= a.visit_end_date + INTERVAL 30 DAY);

-- answerable
SELECT AVG(n_conditions) FROM (SELECT person_id, COUNT(DISTINCT condition_concept_id) AS n_conditions FROM condition_occurrence GROUP BY person_id);

-- answerable
SELECT n, COUNT(*) FROM (SELECT p.person_id, COUNT(DISTINCT c.condition_concept_id) AS n FROM person p LEFT JOIN condition_occurrence c ON c.person_id = p.person_id GROUP BY p.person_id) GROUP BY n ORDER BY n;

-- answerable
SELECT a.condition_concept_id, b.condition_concept_id AS other, COUNT(DISTINCT a.person_id) FROM condition_occurrence a JOIN condition_occurrence b ON a.person_id = b.person_id AND a.condition_concept_id < b.condition_concept_id GROUP BY 1, 2;

-- answerable
SELECT d.drug_concept_id, SUM(d.days_supply) / COUNT(DISTINCT d.person_id) AS days_per_patient FROM drug_exposure d GROUP BY d.drug_concept_id;

-- answerable
SELECT AVG(pdc) FROM (SELECT person_id, LEAST(SUM(days_supply) * 1.0 / NULLIF(MAX(drug_exposure_end_date) - MIN(drug_exposure_start_date) + 1, 0), 1) AS pdc FROM drug_exposure WHERE drug_concept_id = 1503297 GROUP BY person_id);

-- answerable
WITH g AS (SELECT person_id, drug_exposure_start_date AS s, drug_exposure_start_date + days_supply AS e, MAX(drug_exposure_start_date + days_supply) OVER (PARTITION BY person_id ORDER BY drug_exposure_start_date ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prev_end FROM drug_exposure) SELECT COUNT(*) AS eras FROM g WHERE prev_end IS NULL OR s > prev_end + 30;

-- answerable
WITH g AS (SELECT person_id, drug_exposure_start_date AS s, LAG(drug_exposure_end_date) OVER (PARTITION BY person_id ORDER BY drug_exposure_start_date) AS pe FROM drug_exposure) SELECT AVG(CASE WHEN s > pe THEN s - pe ELSE 0 END) AS mean_gap FROM g;

-- answerable
SELECT line, COUNT(*) FROM (SELECT person_id, string_agg(c.concept_name, ' -> ' ORDER BY d.drug_exposure_start_date) AS line FROM drug_exposure d JOIN concept c ON c.concept_id = d.drug_concept_id GROUP BY person_id) GROUP BY line ORDER BY 2 DESC LIMIT 20;

-- answerable
SELECT year(death_date) AS y, COUNT(*) FROM death GROUP BY y;

-- answerable
SELECT COUNT(d.person_id) * 1000.0 / COUNT(p.person_id) AS per_1000 FROM person p LEFT JOIN death d ON d.person_id = p.person_id;

-- answerable
SELECT COUNT(*) FROM death d JOIN (SELECT person_id, MAX(visit_end_date) AS last_visit FROM visit_occurrence GROUP BY person_id) v ON v.person_id = d.person_id WHERE date_diff('day', v.last_visit, d.death_date) <= 30;

-- answerable
SELECT COUNT(*) FROM condition_occurrence c JOIN death d USING (person_id) WHERE c.condition_start_date > d.death_date;

-- answerable
SELECT COUNT(*) FROM condition_occurrence WHERE condition_end_date < condition_start_date;

-- answerable
SELECT COUNT(*) FROM condition_occurrence co LEFT JOIN observation_period op ON op.person_id = co.person_id AND co.condition_start_date >= op.observation_period_start_date AND co.condition_start_date <= op.observation_period_end_date WHERE op.person_id IS NULL;

-- answerable
SELECT COUNT(*) FROM condition_occurrence co LEFT JOIN concept c ON c.concept_id = co.condition_concept_id WHERE c.concept_id IS NULL;

-- answerable
SELECT 'condition' AS domain, COUNT(DISTINCT person_id) AS persons FROM condition_occurrence UNION ALL SELECT 'drug', COUNT(DISTINCT person_id) FROM drug_exposure UNION ALL SELECT 'measurement', COUNT(DISTINCT person_id) FROM measurement;

-- answerable
SELECT COUNT(*) FROM person p WHERE p.person_id IN (SELECT person_id FROM condition_occurrence WHERE condition_concept_id = 201826) AND p.person_id IN (SELECT person_id FROM condition_occurrence WHERE condition_concept_id = 320128) AND p.person_id NOT IN (SELECT person_id FROM death);

-- answerable
SELECT gender_source_value, COUNT(*) FILTER (WHERE has_dm) * 100.0 / COUNT(*) AS prevalence FROM (SELECT p.person_id, p.gender_source_value, EXISTS (SELECT 1 FROM condition_occurrence c WHERE c.person_id = p.person_id AND c.condition_concept_id = 201826) AS has_dm FROM person p) GROUP BY gender_source_value;

-- answerable
SELECT date_trunc('quarter', condition_start_date) AS q, COUNT(DISTINCT person_id) FROM condition_occurrence WHERE condition_concept_id = 320128 GROUP BY q ORDER BY q;

-- answerable
SELECT c.concept_name, COUNT(DISTINCT co.person_id) AS n FROM condition_occurrence co JOIN concept c ON co.condition_concept_id = c.concept_id WHERE lower(c.concept_name) LIKE '%diabetes%' GROUP BY 1 ORDER BY n DESC;

-- answerable
SELECT EXTRACT(YEAR FROM AGE(v.visit_start_date, p.birth_datetime)) AS age_at_visit, COUNT(*) FROM visit_occurrence v JOIN person p USING (person_id) GROUP BY 1;

-- answerable
SELECT date_part('month', age(condition_start_date, birth_datetime)) AS m, COUNT(*) FROM condition_occurrence JOIN person USING (person_id) GROUP BY 1;

-- answerable
SELECT date_sub('year', p.birth_datetime, v.visit_start_date::TIMESTAMP) AS age_years, COUNT(*) FROM visit_occurrence v JOIN person p USING (person_id) GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM person WHERE birth_datetime + INTERVAL '65 years' <= TIMESTAMP '2025-06-15';

-- answerable
SELECT COUNT(*) FROM drug_exposure WHERE drug_exposure_start_date + INTERVAL (days_supply) DAY > drug_exposure_end_date;

-- answerable
SELECT COUNT(*) FROM drug_exposure WHERE DATEADD(day, days_supply, drug_exposure_start_date) > DATE '2025-06-15';

-- answerable
SELECT COUNT(*) FROM drug_exposure WHERE drug_exposure_start_date + to_days(days_supply) > DATE '2025-06-15';

-- answerable
SELECT COUNT(*) FROM visit_occurrence WHERE visit_end_date >= visit_start_date + INTERVAL '6 months';

-- answerable
SELECT SUM(los) FROM (SELECT person_id, SUM(visit_end_date - visit_start_date) AS los FROM visit_occurrence GROUP BY person_id) WHERE los > 7;

-- answerable
SELECT care_site_id, COUNT(DISTINCT person_id) AS pts, RANK() OVER (ORDER BY COUNT(DISTINCT person_id) DESC) AS rk FROM visit_occurrence GROUP BY care_site_id;

-- answerable
SELECT person_count, concept_id FROM (SELECT condition_concept_id AS concept_id, COUNT(DISTINCT person_id) AS person_count FROM condition_occurrence GROUP BY 1) ORDER BY person_count DESC LIMIT 10;

-- refused: unit-keys
SELECT person_id, COUNT(*) FROM visit_occurrence GROUP BY person_id;

-- refused: rows
SELECT * FROM person WHERE year_of_birth < 1940;

-- answerable
SELECT AVG(charlson) FROM (SELECT person_id, MAX(CASE WHEN condition_concept_id = 201826 THEN 1 ELSE 0 END) + MAX(CASE WHEN condition_concept_id = 320128 THEN 2 ELSE 0 END) AS charlson FROM condition_occurrence GROUP BY person_id);

-- answerable
SELECT COUNT(*) FROM (SELECT person_id FROM measurement WHERE measurement_concept_id = 3004249 AND value_as_number >= 140 GROUP BY person_id HAVING COUNT(DISTINCT measurement_date) >= 2 AND MAX(measurement_date) - MIN(measurement_date) >= 7);

-- answerable
SELECT m.unit, AVG(m.value_as_number) FROM measurement m JOIN visit_occurrence v ON v.person_id = m.person_id AND m.measurement_date BETWEEN v.visit_start_date AND v.visit_end_date GROUP BY m.unit;

-- answerable
SELECT quarter, med FROM (SELECT date_trunc('quarter', measurement_date) AS quarter, MEDIAN(value_as_number) AS med FROM measurement WHERE measurement_concept_id = 3004249 GROUP BY 1) ORDER BY 1;

-- answerable
WITH RECURSIVE anc AS (SELECT descendant_concept_id AS id FROM concept_ancestor WHERE ancestor_concept_id = 316866 UNION SELECT ca.descendant_concept_id FROM concept_ancestor ca JOIN anc ON ca.ancestor_concept_id = anc.id) SELECT COUNT(DISTINCT person_id) FROM condition_occurrence WHERE condition_concept_id IN (SELECT id FROM anc);

-- answerable
SELECT variance(value_as_number), skewness(value_as_number) FROM measurement;

-- answerable
SELECT v.visit_concept_id, COUNT(*) FROM visit_occurrence v ANTI JOIN condition_occurrence c USING (person_id) GROUP BY 1;

-- answerable
WITH t AS (SELECT p.person_id, p.gender_concept_id, MAX(CASE WHEN d.person_id IS NOT NULL THEN 1 ELSE 0 END) AS dead, MIN(o.observation_period_start_date) AS s, MAX(COALESCE(d.death_date, o.observation_period_end_date)) AS e FROM person p JOIN observation_period o ON o.person_id = p.person_id LEFT JOIN death d ON d.person_id = p.person_id GROUP BY 1, 2) SELECT gender_concept_id, SUM(dead) * 365.25 / SUM(e - s) AS rate FROM t GROUP BY 1;

-- answerable
SELECT MAX(gap) FROM (SELECT measurement_date - LAG(measurement_date) OVER (PARTITION BY person_id, measurement_concept_id ORDER BY measurement_date) AS gap FROM measurement);

-- answerable
SELECT concept.concept_name FROM concept WHERE concept_id NOT IN (SELECT condition_concept_id FROM condition_occurrence WHERE condition_concept_id IS NOT NULL) AND domain_id = 'Condition';

-- answerable
SELECT value_as_number > ALL (SELECT value_as_number FROM measurement m2 WHERE m2.person_id = m.person_id AND m2.measurement_id <> m.measurement_id) AS is_max, COUNT(*) FROM measurement m GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM person WHERE month_of_birth = 2 AND year_of_birth % 4 = 0;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.0, delta = 1e-6, privacy_unit_column = person_id) visit_concept_id, COUNT(*) FROM visit_occurrence GROUP BY visit_concept_id;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = 2, privacy_unit_column = person_id) measurement_concept_id, AVG(value_as_number, contribution_bounds_per_group => (0, 300)) AS average FROM measurement GROUP BY measurement_concept_id;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 2, delta = 1e-5, kappa = 1) condition_concept_id, ANON_COUNT(* CLAMPED BETWEEN 0 AND 5) AS n FROM condition_occurrence GROUP BY condition_concept_id;

-- answerable
SELECT COUNT(*) AS n, AVG(year_of_birth) AS a FROM clinic.person WHERE race_concept_id = 8516;

-- answerable
SELECT gender_source_value AS sex, race_concept_id AS race, AVG(2025 - year_of_birth) AS age FROM person GROUP BY sex, race ORDER BY age DESC;
