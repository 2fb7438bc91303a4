-- Schools and surveys: enrolments, attendance, Likert scales; SQLite and text-to-SQL.
-- world: school

-- answerable
SELECT d.name, AVG(s.gpa) AS avg_gpa FROM students s JOIN departments d ON s.dept_id = d.dept_id GROUP BY d.name ORDER BY avg_gpa DESC;

-- answerable
SELECT c.title, COUNT(*) FROM enrolments e JOIN courses c ON e.course_id = c.course_id GROUP BY c.title ORDER BY COUNT(*) DESC LIMIT 1;

-- answerable
SELECT T2.title, count(*) FROM enrolments AS T1 JOIN courses AS T2 ON T1.course_id = T2.course_id GROUP BY T1.course_id;

-- answerable
SELECT count(DISTINCT T1.student_id) FROM enrolments AS T1 JOIN courses AS T2 ON T1.course_id = T2.course_id WHERE T2.title = "Algebra";

-- answerable
SELECT count(*) FROM students WHERE sex = 'F' AND city = "Lund";

-- answerable
SELECT COUNT(*) FROM students WHERE student_id NOT IN (SELECT student_id FROM enrolments);

-- answerable
SELECT title FROM courses EXCEPT SELECT T2.title FROM enrolments AS T1 JOIN courses AS T2 ON T1.course_id = T2.course_id;

-- answerable
SELECT avg(score), min(score), max(score) FROM enrolments WHERE term = 'Fall';

-- answerable
SELECT grade, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM enrolments) FROM enrolments GROUP BY grade;

-- answerable
SELECT CASE grade WHEN 'A' THEN 4 WHEN 'A-' THEN 3.7 WHEN 'B' THEN 3 WHEN 'C' THEN 2 WHEN 'D' THEN 1 ELSE 0 END AS points, COUNT(*) FROM enrolments GROUP BY points;

-- answerable
SELECT SUM(credits * CASE grade WHEN 'A' THEN 4.0 WHEN 'B' THEN 3.0 WHEN 'C' THEN 2.0 WHEN 'D' THEN 1.0 ELSE 0.0 END) / SUM(credits) AS gpa FROM enrolments;

-- answerable
SELECT c.title, 100.0 * SUM(CASE WHEN e.grade IN ('D', 'F') THEN 1 ELSE 0 END) / COUNT(*) AS dfw_rate FROM enrolments e INNER JOIN courses c ON c.course_id = e.course_id GROUP BY c.title HAVING COUNT(*) > 20;

-- answerable
SELECT term, year, COUNT(DISTINCT student_id) AS headcount, SUM(credits) / 15.0 AS fte FROM enrolments GROUP BY term, year ORDER BY year, term;

-- answerable
SELECT CAST(SUM(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(student_id) FROM students;

-- answerable
SELECT CAST(COUNT(CASE WHEN scholarship THEN student_id ELSE NULL END) AS FLOAT) / COUNT(*) FROM students WHERE strftime('%Y', admitted) = '2021';

-- answerable
SELECT COUNT(*) FROM students WHERE STRFTIME('%J', 'now') - STRFTIME('%J', birthday) > 9131;

-- answerable
SELECT COUNT(*) FROM students WHERE (julianday('now') - julianday(birthday)) / 365.25 > 25;

-- answerable
SELECT COUNT(*) FROM students WHERE birthday LIKE '2003%';

-- answerable
SELECT SUBSTR(birthday, 1, 4) AS y, COUNT(*) FROM students GROUP BY SUBSTR(birthday, 1, 4);

-- answerable
SELECT COUNT(*) FROM students WHERE date(admitted) = '2021-09-01';

-- answerable
SELECT COUNT(*) FROM students WHERE first_name || ' ' || last_name LIKE '%Max%';

-- answerable
SELECT count(*) FROM students WHERE major LIKE '%math%' COLLATE NOCASE;

-- answerable
SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM enrolments GROUP BY student_id);

-- answerable
SELECT COUNT(*) FROM (SELECT student_id FROM enrolments GROUP BY student_id HAVING COUNT(DISTINCT course_id) >= 2);

-- answerable
SELECT COUNT(*) FROM (SELECT student_id FROM enrolments WHERE grade = 'A' INTERSECT SELECT student_id FROM enrolments WHERE grade = 'F');

-- answerable
SELECT course_id, AVG(score) FROM enrolments GROUP BY course_id HAVING AVG(score) > (SELECT AVG(score) FROM enrolments);

-- answerable
SELECT dept_id FROM students GROUP BY dept_id ORDER BY COUNT(*) DESC LIMIT 1;

-- answerable
SELECT d.building, COUNT(*) FILTER (WHERE s.gpa >= 3.5) AS honours FROM departments d JOIN students s USING (dept_id) GROUP BY d.building;

-- answerable
SELECT status, COUNT(*) FROM attendance WHERE day >= '2023-09-01' GROUP BY status;

-- answerable
SELECT STRFTIME('%w', day) AS weekday, AVG(status = 'absent') AS absence FROM attendance GROUP BY weekday;

-- answerable
SELECT AVG(CASE WHEN status IN ('present', 'late') THEN 100.0 ELSE 0 END) AS rate FROM attendance;

-- answerable
SELECT CASE WHEN CAST(arrived AS TIME) > TIME '09:00:00' THEN 'late' ELSE 'on time' END AS a, COUNT(*) FROM attendance WHERE arrived IS NOT NULL GROUP BY a;

-- answerable
SELECT COUNT(*) FROM attendance WHERE arrived::time BETWEEN '08:30' AND '09:15';

-- answerable
WITH chronic AS (SELECT student_id, SUM(CASE WHEN status = 'absent' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS rate FROM attendance GROUP BY student_id) SELECT COUNT(*) FROM chronic WHERE rate >= 0.1;

-- answerable
SELECT q1, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM survey GROUP BY q1 ORDER BY q1;

-- answerable
SELECT AVG(q1) AS q1, AVG(q2) AS q2, AVG(q3) AS q3, STDDEV(q1), STDDEV(q2) FROM survey;

-- answerable
SELECT AVG((q1 + q2 + q3) / 3.0) AS scale FROM survey;

-- answerable
SELECT 100.0 * (COUNT(*) FILTER (WHERE nps >= 9) - COUNT(*) FILTER (WHERE nps <= 6)) / COUNT(nps) AS nps FROM survey;

-- answerable
SELECT CASE WHEN nps >= 9 THEN 'promoter' WHEN nps >= 7 THEN 'passive' WHEN nps IS NOT NULL THEN 'detractor' END AS kind, COUNT(*) FROM survey GROUP BY 1;

-- answerable
SELECT SUM(CASE WHEN q1 IN (4, 5) THEN 1 ELSE 0 END) * 1.0 / COUNT(q1) AS top2box, SUM(CASE WHEN q1 IN (1, 2) THEN 1 ELSE 0 END) * 1.0 / COUNT(q1) AS bottom2box FROM survey;

-- answerable
SELECT question, AVG(answer) FROM survey UNPIVOT (answer FOR question IN (q1, q2, q3)) GROUP BY question;

-- answerable
SELECT question, answer, COUNT(*) FROM (SELECT student_id, 'q1' AS question, q1 AS answer FROM survey UNION ALL SELECT student_id, 'q2', q2 FROM survey UNION ALL SELECT student_id, 'q3', q3 FROM survey) t WHERE answer IS NOT NULL GROUP BY question, answer;

-- answerable
SELECT CASE agreement WHEN 'Strongly disagree' THEN 1 WHEN 'Disagree' THEN 2 WHEN 'Neutral' THEN 3 WHEN 'Agree' THEN 4 WHEN 'Strongly agree' THEN 5 END AS score, COUNT(*) FROM survey GROUP BY score;

-- answerable
SELECT 6 - q2 AS reversed, COUNT(*) FROM survey GROUP BY reversed;

-- answerable
SELECT AVG(GREATEST(q1, q2, q3)) FROM survey;

-- answerable
SELECT (q1 IS NULL)::INT + (q2 IS NULL)::INT + (q3 IS NULL)::INT AS missing, COUNT(*) FROM survey GROUP BY missing;

-- answerable
SELECT COUNT(*) FROM survey WHERE comment IS NOT NULL AND LENGTH(TRIM(comment)) > 10;

-- answerable
SELECT LENGTH(comment) - LENGTH(REPLACE(comment, ' ', '')) + 1 AS words, COUNT(*) FROM survey GROUP BY words;

-- answerable
SELECT array_length(string_to_array(comment, ' '), 1) AS words, COUNT(*) FROM survey GROUP BY 1;

-- answerable
SELECT COUNT(*) FROM survey WHERE comment ~* '\mgood\M';

-- answerable
SELECT COUNT(*) FROM survey WHERE q1 = 1 XOR q2 = 1;

-- answerable
SELECT s.sex, AVG(v.q1) FROM survey v JOIN students s ON s.student_id = v.student_id GROUP BY s.sex;

-- answerable
SELECT q1, q2, COUNT(*) FROM survey GROUP BY q1, q2;

-- answerable
SELECT CORR(q1, q2) FROM survey;

-- answerable
SELECT VAR_SAMP(q1) AS v1, VAR_SAMP(q2) AS v2, VAR_SAMP(q1 + q2) AS v12 FROM survey;

-- answerable
SELECT INITCAP(city) AS c, COUNT(*) FROM students GROUP BY c;

-- answerable
SELECT UPPER(SUBSTRING(city, 1, 1)) AS letter, COUNT(*) FROM students GROUP BY letter;

-- answerable
SELECT CASE WHEN MONTH(birthday) IN (12, 1, 2) THEN 'winter' WHEN MONTH(birthday) IN (3, 4, 5) THEN 'spring' ELSE 'other' END AS season, COUNT(*) FROM students GROUP BY season;

-- answerable
SELECT year - 1 || '/' || year AS ay, COUNT(*) FROM enrolments GROUP BY ay;

-- answerable
SELECT CAST(year AS TEXT) || '-' || term AS t, AVG(score) FROM enrolments GROUP BY t;

-- answerable
SELECT COUNT(*) FROM students WHERE DATE_PART('year', CURRENT_DATE) - DATE_PART('year', birthday) >= 21;

-- answerable
SELECT ROUND(julianday(MAX(enrolled)) - julianday(MIN(enrolled))) FROM enrolments;

-- answerable
SELECT ROUND(AVG(julianday(e.enrolled) - julianday(s.admitted)), 1) FROM students s JOIN enrolments e USING (student_id);

-- answerable
SELECT group_concat(DISTINCT term ORDER BY term) FROM enrolments;

-- answerable
SELECT total(credits) FROM enrolments WHERE year = 2023;

-- answerable
SELECT COUNT(*), IFNULL(SUM(credits), 0) FROM enrolments WHERE year = 1990;

-- answerable
SELECT year, term, PERCENT_RANK() OVER (ORDER BY SUM(credits)) FROM enrolments WHERE credits > 0 GROUP BY year, term;

-- refused: rows
SELECT first_name, last_name FROM students WHERE gpa > 3.8;

-- refused: rows
SELECT comment FROM survey WHERE q1 = 1;

-- refused: unit-keys
SELECT student_id, AVG(score) FROM enrolments GROUP BY student_id ORDER BY 2 DESC LIMIT 1;

