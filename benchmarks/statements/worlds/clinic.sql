CREATE TABLE person (person_id BIGINT PRIMARY KEY, gender_concept_id INTEGER, year_of_birth INTEGER, month_of_birth INTEGER, race_concept_id INTEGER,
  gender_source_value VARCHAR, birth_datetime TIMESTAMP);
CREATE TABLE observation_period (observation_period_id BIGINT PRIMARY KEY, person_id BIGINT, observation_period_start_date DATE, observation_period_end_date DATE);
CREATE TABLE visit_occurrence (visit_occurrence_id BIGINT PRIMARY KEY, person_id BIGINT, visit_concept_id INTEGER, visit_start_date DATE, visit_end_date DATE, care_site_id INTEGER, admitted_from VARCHAR);
CREATE TABLE condition_occurrence (condition_occurrence_id BIGINT PRIMARY KEY, person_id BIGINT, condition_concept_id INTEGER, condition_start_date DATE, condition_end_date DATE, visit_occurrence_id BIGINT);
CREATE TABLE drug_exposure (drug_exposure_id BIGINT PRIMARY KEY, person_id BIGINT, drug_concept_id INTEGER, drug_exposure_start_date DATE, drug_exposure_end_date DATE, days_supply INTEGER, quantity DOUBLE, refills INTEGER);
CREATE TABLE measurement (measurement_id BIGINT PRIMARY KEY, person_id BIGINT, measurement_concept_id INTEGER, measurement_date DATE, value_as_number DOUBLE, unit VARCHAR);
CREATE TABLE death (person_id BIGINT, death_date DATE, cause_concept_id INTEGER);
CREATE TABLE concept (concept_id INTEGER PRIMARY KEY, concept_name VARCHAR, domain_id VARCHAR, vocabulary_id VARCHAR, standard_concept VARCHAR);
CREATE TABLE concept_ancestor (ancestor_concept_id INTEGER, descendant_concept_id INTEGER, min_levels_of_separation INTEGER);
CREATE TABLE care_site (care_site_id INTEGER PRIMARY KEY, care_site_name VARCHAR, place VARCHAR);
INSERT INTO concept VALUES (8507, 'MALE', 'Gender', 'Gender', 'S'), (8532, 'FEMALE', 'Gender', 'Gender', 'S'), (201826, 'Type 2 diabetes mellitus', 'Condition', 'SNOMED', 'S'),
  (320128, 'Essential hypertension', 'Condition', 'SNOMED', 'S'), (1503297, 'metformin', 'Drug', 'RxNorm', 'S'), (9201, 'Inpatient Visit', 'Visit', 'Visit', 'S'), (9202, 'Outpatient Visit', 'Visit', 'Visit', 'S'), (3004249, 'Systolic blood pressure', 'Measurement', 'LOINC', 'S');
INSERT INTO concept_ancestor VALUES (201826, 201826, 0), (316866, 320128, 1), (1503297, 1503297, 0);
INSERT INTO care_site VALUES (1, 'General', 'North'), (2, 'Clinic', 'South');
INSERT INTO person VALUES (1, 8507, 1950, 3, 8527, 'M', '1950-03-04 00:00:00'), (2, 8532, 1985, 7, 8516, 'F', '1985-07-08 00:00:00');
INSERT INTO observation_period VALUES (1, 1, '2024-01-01', '2025-06-01'), (2, 2, '2024-02-01', '2025-05-01');
INSERT INTO visit_occurrence VALUES (1, 1, 9201, '2025-01-03', '2025-01-09', 1, 'ER'), (2, 2, 9202, '2025-02-03', '2025-02-03', 2, NULL);
INSERT INTO condition_occurrence VALUES (1, 1, 201826, '2025-01-03', NULL, 1), (2, 2, 320128, '2025-02-03', '2025-02-20', 2);
INSERT INTO drug_exposure VALUES (1, 1, 1503297, '2025-01-05', '2025-02-04', 30, 60.0, 2);
INSERT INTO measurement VALUES (1, 1, 3004249, '2025-01-03', 142.0, 'mmHg');
INSERT INTO death VALUES (1, '2025-06-01', 201826);
