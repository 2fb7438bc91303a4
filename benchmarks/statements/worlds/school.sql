CREATE TABLE students (student_id BIGINT PRIMARY KEY, first_name VARCHAR, last_name VARCHAR, sex VARCHAR, birthday DATE, dept_id INTEGER,
  admitted DATE, gpa DOUBLE, city VARCHAR, scholarship BOOLEAN, major VARCHAR);
CREATE TABLE enrolments (enrolment_id BIGINT PRIMARY KEY, student_id BIGINT, course_id INTEGER, term VARCHAR, year INTEGER, grade VARCHAR,
  score DOUBLE, credits INTEGER, enrolled DATE);
CREATE TABLE attendance (attendance_id BIGINT PRIMARY KEY, student_id BIGINT, course_id INTEGER, day DATE, arrived TIMESTAMP, status VARCHAR);
CREATE TABLE survey (response_id BIGINT PRIMARY KEY, student_id BIGINT, submitted TIMESTAMP, q1 INTEGER, q2 INTEGER, q3 INTEGER, nps INTEGER,
  agreement VARCHAR, comment VARCHAR);
CREATE TABLE courses (course_id INTEGER PRIMARY KEY, title VARCHAR, dept_id INTEGER, level INTEGER, credits INTEGER);
CREATE TABLE departments (dept_id INTEGER PRIMARY KEY, name VARCHAR, building VARCHAR);
INSERT INTO departments VALUES (1, 'Maths', 'Gauss'), (2, 'History', 'Bede'), (3, 'Physics', 'Curie');
INSERT INTO courses VALUES (1, 'Algebra', 1, 100, 6), (2, 'Rome', 2, 200, 4), (3, 'Optics', 3, 300, 6);
INSERT INTO students VALUES (1, 'Ida', 'Noor', 'F', '2003-04-05', 1, '2021-09-01', 3.6, 'Lund', true, 'Maths'),
  (2, 'Max', 'Orr', 'M', '2002-12-31', 2, '2020-09-01', 2.9, 'Oslo', false, 'History');
INSERT INTO enrolments VALUES (1, 1, 1, 'Fall', 2023, 'A-', 91.5, 6, '2023-09-01'), (2, 2, 2, 'Spring', 2024, 'C', 71, 4, '2024-02-01');
INSERT INTO attendance VALUES (1, 1, 1, '2023-09-04', '2023-09-04 08:58:00', 'present'), (2, 2, 2, '2024-02-05', NULL, 'absent');
INSERT INTO survey VALUES (1, 1, '2024-05-01 10:00:00', 5, 4, 2, 9, 'Strongly agree', 'Good course'), (2, 2, '2024-05-02 11:00:00', 1, NULL, 3, 6, 'Disagree', NULL);
