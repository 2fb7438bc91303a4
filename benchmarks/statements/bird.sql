-- In the shapes of BIRD's questions: a forum, a bank, a clinic, schools.
-- world: forum

-- answerable
SELECT COUNT(id) FROM users WHERE strftime(creation_date, '%Y') = '2011';

-- answerable
SELECT COUNT(T1.id) FROM users AS T1 INNER JOIN posts AS T2 ON T1.id = T2.owner_user_id WHERE T1.display_name = 'csgillespie' AND T2.score > 10;

-- answerable
SELECT AVG(up_votes), AVG(age) FROM users WHERE id IN (SELECT owner_user_id FROM posts GROUP BY owner_user_id HAVING COUNT(owner_user_id) > 10);

-- answerable
SELECT COUNT(T1.id) FROM badges AS T1 INNER JOIN users AS T2 ON T1.user_id = T2.id WHERE T1.name = 'Autobiographer' AND T2.reputation > 1000;

-- answerable
SELECT CAST(SUM(IIF(T2.name = 'Teacher', 1, 0)) AS REAL) * 100 / COUNT(T1.id) FROM users AS T1 INNER JOIN badges AS T2 ON T1.id = T2.user_id;

-- answerable
SELECT CAST(COUNT(CASE WHEN age > 65 THEN id ELSE NULL END) AS REAL) * 100 / COUNT(id) FROM users;

-- answerable
SELECT COUNT(*) FROM posts WHERE tags LIKE '%<bayesian>%' AND score > 5;

-- answerable
SELECT MAX(view_count) FROM posts WHERE answer_count > 3;

-- refused: rows
SELECT title, view_count FROM posts ORDER BY view_count DESC LIMIT 1;

-- answerable
SELECT COUNT(T1.id) FROM comments AS T1 JOIN users AS T2 ON T1.user_id = T2.id WHERE T2.location LIKE '%United Kingdom%' AND T1.score BETWEEN 1 AND 5;

-- refused: joins
SELECT COUNT(T1.id) FROM comments AS T1 INNER JOIN posts AS T2 ON T1.post_id = T2.id WHERE T2.score > 60;

-- refused: joins
SELECT COUNT(T1.id) FROM votes AS T1 INNER JOIN posts AS T2 ON T1.post_id = T2.id WHERE T2.tags LIKE '%<r>%';

-- refused: rows
SELECT display_name, age FROM users WHERE views = (SELECT MAX(views) FROM users);

-- refused: rows
SELECT T2.display_name FROM posts AS T1 INNER JOIN users AS T2 ON T1.owner_user_id = T2.id ORDER BY T1.favorite_count DESC LIMIT 1;

-- refused: names
SELECT COUNT(*) FROM posts WHERE closed_date IS NOT NULL;

-- answerable
SELECT COUNT(id) FROM votes WHERE vote_type = 2 AND creation_date BETWEEN '2011-01-01' AND '2011-12-31';

-- answerable
SELECT name FROM badges GROUP BY name ORDER BY COUNT(*) DESC LIMIT 5;

-- answerable
SELECT strftime('%Y', creation_date) AS y, COUNT(*) FROM posts GROUP BY y;

-- answerable
SELECT COUNT(DISTINCT T1.id) FROM users T1 JOIN badges T2 ON T1.id = T2.user_id WHERE T2.name = 'Supporter' AND STRFTIME('%Y', T2.date) = '2010';

-- answerable
SELECT T1.location, AVG(T2.score) FROM users T1 JOIN posts T2 ON T2.owner_user_id = T1.id GROUP BY T1.location HAVING COUNT(*) > 100;

-- answerable
SELECT (SELECT COUNT(*) FROM posts WHERE post_type = 1) - (SELECT COUNT(*) FROM posts WHERE post_type = 2) AS diff;

-- answerable
SELECT CAST(SUM(CASE WHEN T1.post_type = 2 THEN 1 ELSE 0 END) AS REAL) / COUNT(T1.id) FROM posts T1 JOIN users T2 ON T1.owner_user_id = T2.id WHERE T2.age BETWEEN 19 AND 65;

-- answerable
SELECT AVG(T1.view_count) FROM posts AS T1 INNER JOIN tags AS T2 ON T1.tags LIKE '%<' || T2.tag_name || '>%' WHERE T2.tag_name = 'r';

-- answerable
SELECT tag_name FROM tags WHERE count = (SELECT MAX(count) FROM tags);

-- answerable
SELECT COUNT(*) FROM users WHERE reputation > (SELECT AVG(reputation) FROM users);

-- answerable
SELECT AVG(n) FROM (SELECT user_id, COUNT(name) AS n FROM badges GROUP BY user_id);

-- answerable
SELECT COUNT(*) FROM (SELECT user_id FROM badges GROUP BY user_id HAVING COUNT(name) > 5) T;

-- answerable
SELECT CAST(SUM(T2.score) AS REAL) / COUNT(DISTINCT T1.id) FROM users T1 JOIN posts T2 ON T1.id = T2.owner_user_id WHERE T1.creation_date > '2012-01-01';

-- answerable
SELECT SUM(IIF(vote_type = 8, bounty, 0)) FROM votes WHERE date_part('year', creation_date) = 2012;

-- answerable
SELECT COUNT(id) FROM comments WHERE score = 0 AND text LIKE '%thank%' AND creation_date LIKE '2012-01%';

-- answerable
SELECT COUNT(T2.client_id) FROM district AS T1 INNER JOIN client AS T2 ON T1.district_id = T2.district_id WHERE T2.gender = 'F' AND T1.a3 = 'Prague';

-- answerable
SELECT COUNT(T2.client_id) FROM client T2 JOIN district T1 ON T1.district_id = T2.district_id WHERE T2.gender = 'M' AND T1.a2 = (SELECT a2 FROM district ORDER BY a15 DESC LIMIT 1);

-- answerable
SELECT COUNT(*) FROM client WHERE district_id IN (SELECT district_id FROM district ORDER BY a11 DESC LIMIT 5);

-- answerable
SELECT T1.a2, COUNT(*) FROM district T1 JOIN account T2 ON T1.district_id = T2.district_id WHERE T2.frequency = 'POPLATEK MESICNE' GROUP BY T1.a2 ORDER BY COUNT(*) DESC LIMIT 10;

-- answerable
SELECT AVG(T1.a15) FROM district AS T1 INNER JOIN account AS T2 ON T1.district_id = T2.district_id WHERE STRFTIME(T2.date, '%Y') >= '1997';

-- answerable
SELECT AVG(T1.a11) FROM district T1 JOIN client T2 USING (district_id) WHERE T2.gender = 'F';

-- answerable
SELECT CAST(SUM(T2.gender = 'F') AS REAL) * 100 / COUNT(T2.client_id) FROM district T1 INNER JOIN client T2 ON T1.district_id = T2.district_id WHERE T1.a11 > 10000;

-- answerable
SELECT T1.a3, SUM(T3.amount) FROM district AS T1 INNER JOIN account AS T2 ON T1.district_id = T2.district_id INNER JOIN loan AS T3 ON T2.account_id = T3.account_id GROUP BY T1.a3;

-- answerable
SELECT AVG(amount) FROM loan WHERE status IN ('C', 'D') AND duration = 60;

-- answerable
SELECT status, COUNT(*), AVG(payments) FROM loan GROUP BY status;

-- answerable
SELECT CAST(SUM(CASE WHEN status = 'A' THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(*) FROM loan WHERE amount < 100000;

-- answerable
SELECT COUNT(T1.account_id) FROM account T1 JOIN loan T2 ON T1.account_id = T2.account_id WHERE T2.date BETWEEN '1995-01-01' AND '1997-12-31' AND T1.frequency = 'POPLATEK MESICNE' AND T2.amount >= 250000;

-- answerable
SELECT operation, AVG(amount), MAX(balance) FROM trans GROUP BY operation;

-- answerable
SELECT SUM(T2.amount) FROM account T1 JOIN trans T2 ON T1.account_id = T2.account_id JOIN client T3 ON T3.client_id = T1.client_id WHERE T3.gender = 'F' AND T2.type = 'VYDAJ';

-- answerable
SELECT COUNT(DISTINCT T1.account_id) FROM account T1 WHERE NOT EXISTS (SELECT 1 FROM loan T2 WHERE T2.account_id = T1.account_id);

-- answerable
SELECT (MAX(a11) - MIN(a11)) FROM district;

-- answerable
SELECT COUNT(*) FROM client T1 JOIN account T2 ON T1.client_id = T2.client_id WHERE STRFTIME('%Y', T1.birth_date) < '1950';

-- answerable
SELECT AVG(CAST(STRFTIME(birth_date, '%Y') AS INTEGER)) FROM client;

-- answerable
SELECT COUNT(*) FROM client WHERE year(birth_date) BETWEEN 1970 AND 1980 AND gender = 'M';

-- answerable
SELECT CAST(SUM(CASE WHEN admission = '+' THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(id) FROM patient WHERE sex = 'F';

-- answerable
SELECT COUNT(DISTINCT T1.id) FROM patient AS T1 INNER JOIN laboratory AS T2 ON T1.id = T2.id WHERE T2.ua <= 8.0 AND T1.sex = 'M';

-- answerable
SELECT AVG(T2.got) FROM patient T1 JOIN laboratory T2 ON T1.id = T2.id WHERE T1.diagnosis = 'SLE' AND T2.date >= '1995-01-01';

-- answerable
SELECT COUNT(DISTINCT T1.id) FROM examination T1 JOIN laboratory T2 ON T1.id = T2.id WHERE T1.thrombosis IN (1, 2) AND T2.plt > 100 AND T2.plt < 400;

-- answerable
SELECT diagnosis, COUNT(*) FROM examination GROUP BY diagnosis ORDER BY COUNT(*) DESC LIMIT 1;

-- answerable
SELECT COUNT(*) FROM patient WHERE STRFTIME(first_date, '%Y') - STRFTIME(birthday, '%Y') > 60;

-- answerable
SELECT AVG(year(CURRENT_TIMESTAMP) - year(birthday)) FROM patient WHERE sex = 'F';

-- answerable
SELECT COUNT(*) FROM laboratory WHERE wbc BETWEEN 3.5 AND 9.0 AND gpt < 60;

-- answerable
SELECT T1.sex, AVG(T2.tcho) FROM patient T1 JOIN laboratory T2 USING (id) WHERE T2.tcho IS NOT NULL GROUP BY T1.sex;

-- answerable
SELECT COUNT(DISTINCT id) FROM laboratory WHERE got = (SELECT MAX(got) FROM laboratory WHERE got < 60);

-- answerable
SELECT COUNT(*) FROM patient WHERE id NOT IN (SELECT id FROM examination);

-- answerable
SELECT COUNT(*) FROM patient T1 WHERE T1.sex = 'M' AND EXISTS (SELECT * FROM laboratory T2 WHERE T2.id = T1.id AND T2.wbc > 10);

-- refused: rows
SELECT id, birthday FROM patient WHERE diagnosis = 'RA' AND sex = 'F';

-- refused: rows
SELECT T1.diagnosis, T2.date FROM patient T1 JOIN laboratory T2 ON T1.id = T2.id WHERE T1.id = 43003;

-- refused: rows
SELECT id FROM laboratory ORDER BY ua DESC LIMIT 1;

-- refused: unit-keys
SELECT id, AVG(gpt) FROM laboratory GROUP BY id;

-- refused: names
SELECT AVG(T1.height) FROM patient AS T1;

-- refused: names
SELECT COUNT(*) FROM lab_results;

-- answerable
SELECT T2.county, AVG(T1.math) FROM pupils T1 JOIN schools T2 ON T1.cds_code = T2.cds_code WHERE T2.charter = 1 GROUP BY T2.county ORDER BY AVG(T1.math) DESC LIMIT 3;

-- answerable
SELECT COUNT(*) FROM pupils T1 INNER JOIN schools T2 ON T1.cds_code = T2.cds_code WHERE T2.county = 'Fresno' AND T1.frpm AND T1.reading > 600;

-- answerable
SELECT CAST(COUNT(CASE WHEN T1.math >= 700 THEN 1 END) AS REAL) / COUNT(*) * 100 FROM pupils T1 JOIN schools T2 USING (cds_code) WHERE T2.city = 'Oakland';

-- answerable
SELECT T2.grades, COUNT(T1.pupil_id) FROM schools T2 LEFT JOIN pupils T1 ON T1.cds_code = T2.cds_code GROUP BY T2.grades;

-- answerable
SELECT grade, AVG(math + reading) FROM pupils GROUP BY grade;

-- answerable
SELECT AVG(CASE WHEN frpm THEN math END) - AVG(CASE WHEN NOT frpm THEN math END) FROM pupils;

-- answerable
SELECT T2.county FROM pupils T1 JOIN schools T2 ON T1.cds_code = T2.cds_code GROUP BY T2.county HAVING AVG(T1.reading) > 500;

-- answerable
SELECT city FROM schools WHERE charter = 1;

-- answerable
SELECT COUNT(*) FROM pupils WHERE math > (SELECT AVG(math) FROM pupils) AND grade = 8;

-- answerable
SELECT `T2`.`county`, COUNT(*) FROM `pupils` AS `T1` INNER JOIN `schools` AS `T2` ON `T1`.`cds_code` = `T2`.`cds_code` GROUP BY `T2`.`county`;

-- answerable
SELECT T2.county, T2.city, COUNT(*) FROM pupils T1 JOIN schools T2 ON T1.cds_code = T2.cds_code GROUP BY T2.cds_code, T2.county, T2.city ORDER BY COUNT(*) DESC LIMIT 1;

-- answerable
WITH t AS (SELECT cds_code, RANK() OVER (ORDER BY city) AS r FROM schools) SELECT t.r, COUNT(*) FROM pupils p JOIN t ON p.cds_code = t.cds_code GROUP BY t.r;
