-- In the shapes of Spider's questions: students and pets, concerts, employees, flights.
-- world: forum

-- answerable
SELECT count(*) FROM student;

-- answerable
SELECT count(*) FROM student WHERE age > 20 AND sex = 'F';

-- answerable
SELECT avg(age), min(age), max(age) FROM student WHERE sex = 'M';

-- answerable
SELECT DISTINCT major FROM student;

-- answerable
SELECT sex, count(*) FROM student GROUP BY sex;

-- answerable
SELECT major, avg(age) FROM student GROUP BY major HAVING count(*) >= 2;

-- answerable
SELECT city_code FROM student GROUP BY city_code ORDER BY count(*) DESC LIMIT 1;

-- answerable
SELECT city_code, count(*) FROM student GROUP BY city_code HAVING count(*) > 5;

-- answerable
SELECT count(DISTINCT pet_id) FROM has_pet;

-- answerable
SELECT count(*) FROM student AS T1 JOIN has_pet AS T2 ON T1.stu_id = T2.stu_id WHERE T1.age > 20;

-- answerable
SELECT count(*) FROM student AS T1 JOIN has_pet AS T2 ON T1.stu_id = T2.stu_id JOIN pets AS T3 ON T2.pet_id = T3.pet_id WHERE T1.sex = 'F' AND T3.pet_type = 'dog';

-- answerable
SELECT T3.pet_type, count(*) FROM student AS T1 JOIN has_pet AS T2 ON T1.stu_id = T2.stu_id JOIN pets AS T3 ON T2.pet_id = T3.pet_id GROUP BY T3.pet_type;

-- answerable
SELECT avg(age) FROM student WHERE stu_id NOT IN (SELECT stu_id FROM has_pet);

-- answerable
SELECT count(*) FROM student WHERE stu_id IN (SELECT T1.stu_id FROM has_pet AS T1 JOIN pets AS T2 ON T1.pet_id = T2.pet_id WHERE T2.pet_type = 'cat');

-- answerable
SELECT T1.major, T1.age FROM student AS T1 GROUP BY T1.major, T1.age;

-- answerable
SELECT major FROM student EXCEPT SELECT T1.major FROM student AS T1 JOIN has_pet AS T2 ON T1.stu_id = T2.stu_id;

-- answerable
SELECT avg(weight) FROM pets AS T1 JOIN has_pet AS T2 ON T1.pet_id = T2.pet_id;

-- answerable
SELECT max(weight), pet_type FROM pets GROUP BY pet_type;

-- answerable
SELECT pet_type FROM pets ORDER BY weight DESC LIMIT 1;

-- refused: rows
SELECT first_name, age FROM student;

-- refused: rows
SELECT first_name FROM student WHERE age = (SELECT min(age) FROM student);

-- refused: unit-keys
SELECT T1.stu_id, count(*) FROM student AS T1 JOIN has_pet AS T2 ON T1.stu_id = T2.stu_id GROUP BY T1.stu_id;

-- refused: rows
SELECT DISTINCT T1.first_name, T1.age FROM student T1 JOIN has_pet T2 ON T1.stu_id = T2.stu_id ORDER BY T1.age, T1.stu_id;

-- answerable
SELECT count(*) FROM singer WHERE country = 'France';

-- answerable
SELECT country, count(*) FROM singer GROUP BY country ORDER BY count(*) DESC;

-- answerable
SELECT DISTINCT country FROM singer WHERE age > 20;

-- answerable
SELECT avg(age), min(age), max(age) FROM singer WHERE country = 'France';

-- answerable
SELECT country FROM singer WHERE age > 40 INTERSECT SELECT country FROM singer WHERE age < 30;

-- answerable
SELECT country FROM singer GROUP BY country HAVING count(*) >= 3;

-- answerable
SELECT T2.concert_name, T2.theme, count(*) FROM singer_in_concert AS T1 JOIN concert AS T2 ON T1.concert_id = T2.concert_id GROUP BY T2.concert_id;

-- answerable
SELECT T2.concert_name, T2.theme, count(*) FROM singer_in_concert AS T1 JOIN concert AS T2 ON T1.concert_id = T2.concert_id GROUP BY T2.concert_name, T2.theme;

-- answerable
SELECT T3.name, count(DISTINCT T1.singer_id) FROM singer_in_concert AS T1 JOIN concert AS T2 ON T1.concert_id = T2.concert_id JOIN stadium AS T3 ON T2.stadium_id = T3.stadium_id GROUP BY T3.name ORDER BY 2 DESC LIMIT 1;

-- answerable
SELECT T2.year FROM singer_in_concert AS T1 JOIN concert AS T2 ON T1.concert_id = T2.concert_id GROUP BY T2.year ORDER BY count(*) DESC LIMIT 1;

-- answerable
SELECT name FROM stadium WHERE stadium_id NOT IN (SELECT stadium_id FROM concert);

-- answerable
SELECT max(capacity), average FROM stadium GROUP BY average;

-- answerable
SELECT count(*) FROM concert WHERE stadium_id = (SELECT stadium_id FROM stadium ORDER BY capacity DESC LIMIT 1);

-- answerable
SELECT count(*) FROM singer WHERE age > (SELECT avg(age) FROM singer);

-- answerable
SELECT count(*) FROM singer_in_concert WHERE concert_id = (SELECT concert_id FROM concert ORDER BY year DESC LIMIT 1);

-- answerable
SELECT is_male, count(*), avg(age) FROM singer GROUP BY is_male;

-- refused: rows
SELECT name FROM singer ORDER BY age DESC LIMIT 1;

-- refused: rows
SELECT T2.name FROM singer_in_concert AS T1 JOIN singer AS T2 ON T1.singer_id = T2.singer_id JOIN concert AS T3 ON T1.concert_id = T3.concert_id WHERE T3.year = 2014;

-- answerable
SELECT city, count(*) FROM employee GROUP BY city;

-- answerable
SELECT city FROM employee WHERE age < 30 GROUP BY city HAVING count(*) > 1;

-- answerable
SELECT T2.name, count(*) FROM employee AS T1 JOIN department AS T2 ON T1.department_id = T2.department_id GROUP BY T2.name;

-- answerable
SELECT T2.name FROM employee AS T1 JOIN department AS T2 ON T1.department_id = T2.department_id GROUP BY T2.department_id ORDER BY count(*) DESC LIMIT 1;

-- answerable
SELECT T2.name, avg(T1.salary), max(T1.salary) FROM employee T1 JOIN department T2 USING (department_id) GROUP BY T2.name;

-- answerable
SELECT count(*) FROM employee WHERE salary BETWEEN 8000 AND 12000 AND hired > '2018-01-01';

-- answerable
SELECT sum(salary) FROM employee WHERE department_id IN (SELECT department_id FROM department WHERE location = 'Rome');

-- answerable
SELECT T1.location, avg(T2.salary) FROM department T1 LEFT JOIN employee T2 ON T1.department_id = T2.department_id GROUP BY T1.location;

-- answerable
SELECT count(*) FROM department WHERE department_id NOT IN (SELECT department_id FROM employee);

-- answerable
SELECT department_id, std(salary) FROM employee GROUP BY department_id;

-- answerable
SELECT city, max(salary) - min(salary) FROM employee GROUP BY city;

-- refused: rows
SELECT name FROM employee WHERE salary > (SELECT avg(salary) FROM employee);

-- answerable
SELECT T2.airline, count(*) FROM passengers AS T1 JOIN flights AS T2 ON T1.flight_no = T2.flight_no WHERE T2.dest = 'ABR' GROUP BY T2.airline;

-- answerable
SELECT airline FROM flights WHERE source = 'APG' INTERSECT SELECT airline FROM flights WHERE source = 'ABR';

-- answerable
SELECT T2.airline FROM passengers AS T1 JOIN flights AS T2 ON T1.flight_no = T2.flight_no GROUP BY T2.airline HAVING count(*) < 200;

-- answerable
SELECT class, avg(fare) FROM passengers GROUP BY class ORDER BY avg(fare) DESC;

-- answerable
SELECT sum(T2.distance) FROM passengers T1 JOIN flights T2 ON T1.flight_no = T2.flight_no;

-- answerable
SELECT count(*) FROM passengers WHERE flight_no IN (SELECT flight_no FROM flights WHERE airline = 'United');

-- answerable
SELECT count(DISTINCT source) FROM flights;
