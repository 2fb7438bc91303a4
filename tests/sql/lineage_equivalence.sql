SELECT count(*), count(DISTINCT p.uid), count(DISTINCT v.uid) FROM people p JOIN visits v ON p.uid = v.uid
SELECT p.city, count(*) FROM people p JOIN visits v ON p.uid = v.uid GROUP BY p.city ORDER BY 1
SELECT city, k, count(*) AS n FROM people JOIN visits USING (uid) GROUP BY city, k ORDER BY n DESC, city, k
SELECT city, count(DISTINCT uid) FROM people NATURAL JOIN visits GROUP BY city ORDER BY city
SELECT city, count(k), count(DISTINCT uid), count(DISTINCT visits.uid) FROM people LEFT JOIN visits USING (uid) GROUP BY city ORDER BY city
SELECT city, count(*), count(DISTINCT uid) FROM people RIGHT JOIN visits USING (uid) GROUP BY city ORDER BY city
SELECT count(*), count(DISTINCT uid), count(DISTINCT people.uid), count(DISTINCT orders.uid) FROM people RIGHT JOIN orders USING (uid)
SELECT v.k, count(*) FROM people p LEFT JOIN visits v ON p.uid = v.uid AND v.k > 2 GROUP BY v.k ORDER BY v.k
SELECT v.k, count(*) FROM people p LEFT JOIN visits v ON p.uid = v.uid WHERE v.k > 2 OR v.k IS NULL GROUP BY v.k ORDER BY v.k
SELECT v.k, count(*) FROM people p RIGHT JOIN visits v ON p.uid = v.uid AND p.age > 40 GROUP BY v.k ORDER BY v.k
SELECT count(*) FROM people SEMI JOIN visits USING (uid)
SELECT count(*) FROM people ANTI JOIN visits USING (uid)
SELECT city, count(*) FROM people p SEMI JOIN visits v ON p.uid = v.uid AND v.k = 3 GROUP BY city ORDER BY city
SELECT city, count(*) FROM people p ANTI JOIN visits v ON p.uid = v.uid AND v.k = 3 GROUP BY city ORDER BY city
SELECT count(*) FROM people p ANTI JOIN visits v ON p.uid = v.uid AND v.n > p.age
SELECT k, count(*) FROM visits SEMI JOIN shops USING (k) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits ANTI JOIN shops USING (k) GROUP BY k ORDER BY k
SELECT k, count(*) FROM people, visits WHERE people.uid = visits.uid AND age > 30 GROUP BY k ORDER BY k
SELECT v.k, o.k, count(*) FROM people p, visits v, orders o WHERE p.uid = v.uid AND v.uid = o.uid AND v.k < 3 GROUP BY v.k, o.k ORDER BY ALL
SELECT a.k, b.k, count(*) FROM visits a JOIN visits b ON a.uid = b.uid AND a.k < b.k GROUP BY a.k, b.k ORDER BY 1, 2
SELECT a.k, count(DISTINCT b.uid) FROM visits a, visits b WHERE b.uid = a.uid AND a.n = b.n AND a.s <> b.s GROUP BY a.k ORDER BY a.k
SELECT name, count(*), sum(n) FROM visits JOIN shops USING (k) GROUP BY name ORDER BY name
SELECT s.name, count(*), count(s.size) FROM visits v LEFT JOIN shops s ON v.k = s.k GROUP BY s.name ORDER BY s.name
SELECT s.name, count(*) FROM shops s RIGHT JOIN visits v ON s.k = v.k AND s.size > 10 GROUP BY s.name ORDER BY 1
SELECT s.name, count(*), avg(v.x) FROM visits v, shops s WHERE v.k < s.k GROUP BY s.name ORDER BY 1
SELECT region, name, count(*) FROM people JOIN visits USING (uid) LEFT JOIN towns USING (city) JOIN shops USING (k) GROUP BY ALL ORDER BY ALL
SELECT t.region, count(*) FROM shops s LEFT JOIN towns t ON s.name = t.city JOIN visits v ON v.k = s.k GROUP BY t.region ORDER BY 1
SELECT t.region, count(*) FROM (people p JOIN towns t ON p.city = t.city) GROUP BY t.region ORDER BY t.region
SELECT q.k, q.region, count(*) FROM (visits v JOIN towns t ON v.s = t.city) AS q GROUP BY q.k, q.region ORDER BY 1, 2
SELECT c.name, count(*) FROM visits a JOIN visits b JOIN shops c ON b.k = c.k ON a.uid = b.uid AND a.k = b.k GROUP BY c.name ORDER BY 1
SELECT count(*) FROM visits v CROSS JOIN shops s
SELECT k, count(*), sum(qty) FROM items GROUP BY k ORDER BY k
SELECT o.k, sum(i.qty), count(DISTINCT o.uid) FROM items i JOIN orders o ON i.okey = o.okey GROUP BY o.k ORDER BY o.k
SELECT o.k, sum(qty), sum(qty * price) FROM orders o, items i WHERE i.okey = o.okey GROUP BY o.k ORDER BY o.k
SELECT o.k, count(*) FROM items i LEFT JOIN orders o ON i.okey = o.okey AND o.price > 50 GROUP BY o.k ORDER BY o.k
SELECT i.k, count(*) FROM orders o LEFT JOIN items i ON i.okey = o.okey AND i.qty > 20 GROUP BY i.k ORDER BY i.k
SELECT o.k, count(*) FROM orders o RIGHT JOIN items i ON i.okey = o.okey AND o.price > 50 GROUP BY o.k ORDER BY o.k
SELECT count(*) FROM items i SEMI JOIN orders o ON i.okey = o.okey AND o.price > 50
SELECT count(*) FROM items i ANTI JOIN orders o ON i.okey = o.okey AND o.price > 50
SELECT count(*) FROM orders o ANTI JOIN items i ON i.okey = o.okey
SELECT a.k, b.k, count(*) FROM items a JOIN items b ON a.okey = b.okey AND a.ikey < b.ikey GROUP BY 1, 2 ORDER BY 1, 2
SELECT why, count(*), sum(n) FROM returns GROUP BY why ORDER BY why
SELECT o.k, r.why, count(*) FROM returns r JOIN items i ON r.ikey = i.ikey JOIN orders o ON o.okey = i.okey GROUP BY 1, 2 ORDER BY 1, 2
SELECT p.city, sum(i.qty) FROM people p, orders o, items i WHERE p.uid = o.uid AND o.okey = i.okey GROUP BY p.city ORDER BY p.city
SELECT k, count(*), count(DISTINCT uid) FROM logins GROUP BY k ORDER BY k
SELECT city, count(*) FROM logins l JOIN people p ON l.uid = p.uid GROUP BY city ORDER BY city
SELECT u.kk, count(DISTINCT u.who) FROM (SELECT uid AS who, k + 1 AS kk FROM visits WHERE n > 0) u GROUP BY u.kk ORDER BY u.kk
SELECT b, count(*) FROM (SELECT a * 2 AS b FROM (SELECT k + 1 AS a, * FROM visits) WHERE a > 2) GROUP BY b ORDER BY b
WITH a AS (SELECT uid, k FROM visits WHERE s = 's1'), b AS (SELECT uid AS u, city FROM people) SELECT city, count(*) FROM a JOIN b ON uid = u GROUP BY city ORDER BY city
WITH a AS (SELECT uid, k FROM visits) SELECT x.k, count(*) FROM a x JOIN a y ON x.uid = y.uid WHERE x.k = y.k + 1 GROUP BY x.k ORDER BY x.k
WITH a(who, what) AS (SELECT uid, k FROM visits) SELECT what, count(DISTINCT who) FROM a GROUP BY what ORDER BY what
WITH a AS (WITH visits AS (SELECT uid, age AS k FROM people) SELECT * FROM visits) SELECT a.k, count(*) FROM a JOIN visits v USING (uid) GROUP BY a.k ORDER BY a.k
WITH a AS (SELECT k, count(*) AS c FROM visits GROUP BY k), b AS (SELECT k, sum(qty) AS q FROM items GROUP BY k) SELECT k, c, q FROM a JOIN b USING (k) ORDER BY k
SELECT k, count(*) FROM (SELECT DISTINCT uid, k FROM visits) GROUP BY k ORDER BY k
SELECT count(*), count(DISTINCT uid) FROM (SELECT DISTINCT uid, x FROM visits)
SELECT s, count(*) FROM (SELECT DISTINCT v.uid, s, name FROM visits v JOIN shops USING (k)) GROUP BY s ORDER BY s
SELECT m, count(*) FROM (SELECT uid, max(n) AS m, min(n) AS l FROM visits GROUP BY uid HAVING m > l) GROUP BY m ORDER BY m
SELECT c, count(*) FROM (SELECT uid, count(*) AS c FROM visits GROUP BY uid) GROUP BY c ORDER BY c
SELECT c > 5 AS many, count(*), avg(a), sum(least(c, 7)) FROM (SELECT uid AS u, count(*) AS c, avg(n) AS a FROM visits GROUP BY u) GROUP BY many ORDER BY many
SELECT d, count(*) FROM (SELECT uid, k % 2 AS odd, count(DISTINCT s) AS d, sum(n) AS t FROM visits GROUP BY 1, 2 HAVING sum(n) > 0) GROUP BY d ORDER BY d
SELECT city, avg(m), count(*) FROM people JOIN (SELECT uid, max(x) AS m FROM visits GROUP BY uid) USING (uid) GROUP BY city ORDER BY city
SELECT q, count(*) FROM (SELECT o.uid, sum(i.qty) > 30 AS q FROM items i JOIN orders o USING (okey) GROUP BY o.uid) GROUP BY q ORDER BY q
SELECT "count_star()", count(*) FROM (SELECT uid, count(*) FROM orders GROUP BY ALL) GROUP BY 1 ORDER BY 1
SELECT t > 9, count(*) FROM (SELECT uid, sum(x) AS t, sum(price) FROM visits JOIN orders USING (uid) GROUP BY uid) GROUP BY 1 ORDER BY 1
SELECT k, count(*) FROM (SELECT uid, k FROM visits UNION ALL SELECT uid, k FROM orders) GROUP BY k ORDER BY k
SELECT k, count(DISTINCT uid), count(*) FROM (SELECT uid, k FROM visits UNION SELECT uid, k FROM orders) GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT k FROM visits UNION ALL SELECT k FROM items UNION ALL SELECT k FROM logins) GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT uid, k FROM visits EXCEPT SELECT uid, k FROM orders) GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT uid, k FROM visits EXCEPT ALL SELECT uid, k FROM orders) GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT uid, k FROM visits INTERSECT SELECT uid, k FROM orders) GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT uid, k FROM visits INTERSECT ALL SELECT uid, k FROM orders) GROUP BY k ORDER BY k
SELECT count(DISTINCT uid) FROM (SELECT uid FROM people EXCEPT (SELECT uid FROM visits UNION SELECT uid FROM orders))
SELECT k, sum(n), count(*) FROM (SELECT n, k FROM visits UNION ALL SELECT age, k FROM people JOIN logins USING (uid)) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE k IN (SELECT k FROM shops) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE k IN (SELECT k FROM shops WHERE size > 15) AND n > 0 GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE k NOT IN (SELECT k FROM shops) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE k NOT IN (SELECT k FROM shops WHERE k IS NOT NULL) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE k NOT IN (SELECT k FROM shops WHERE size > 9999) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE NOT (k IN (SELECT size // 10 FROM shops WHERE name IS NOT NULL AND size > 10)) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits v WHERE EXISTS (SELECT 1 FROM shops s WHERE s.k = v.k AND s.size > v.n) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE NOT EXISTS (SELECT * FROM shops WHERE shops.k = visits.k) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE EXISTS (SELECT 1 FROM shops WHERE size > 9999) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE n + 1 IN (SELECT size FROM shops WHERE shops.k = visits.k) GROUP BY k ORDER BY k
SELECT v.k, count(*) FROM visits v WHERE v.n NOT IN (SELECT s.size FROM shops s WHERE s.k = v.k) GROUP BY v.k ORDER BY v.k
SELECT city, count(*) FROM people WHERE city IN (SELECT city FROM towns WHERE region = 'north') GROUP BY city ORDER BY city
SELECT city, count(*) FROM people JOIN visits USING (uid) WHERE city IN (SELECT t.city FROM towns t JOIN shops s ON t.city <> s.name) AND EXISTS (FROM shops WHERE shops.k = visits.k) GROUP BY city ORDER BY city
SELECT c, count(*) FROM (SELECT uid, count(*) AS c FROM visits WHERE k IN (SELECT k FROM shops) GROUP BY uid) GROUP BY c ORDER BY c
WITH big AS (SELECT k FROM shops WHERE size > 10) SELECT k, count(*) FROM visits WHERE k IN (SELECT k FROM big) GROUP BY k ORDER BY k
WITH big AS (SELECT k, name FROM shops WHERE size > 10) SELECT name, count(*) FROM visits JOIN big USING (k) GROUP BY name ORDER BY name
SELECT name, count(*) FROM visits JOIN (SELECT k + 1 AS k, upper(name) AS name FROM shops WHERE size > 10) USING (k) GROUP BY name ORDER BY name
SELECT name, count(*) FROM visits JOIN (SELECT DISTINCT name, k FROM shops) USING (k) GROUP BY name ORDER BY name
SELECT r, count(*) FROM visits JOIN (SELECT s.k, t.region AS r FROM shops s JOIN towns t ON s.name <> t.city) USING (k) GROUP BY r ORDER BY r
SELECT count(*), count(n) FROM visits a JOIN people b USING (uid) WHERE a.k > 100
SELECT k, count(*) FROM visits JOIN people USING (uid) WHERE k > 100 GROUP BY k ORDER BY k
SELECT p.city, v.d, count(*) FROM people p JOIN (SELECT uid, CAST(s AS VARCHAR) AS d FROM visits) v ON p.uid = v.uid AND p.city = v.d GROUP BY ALL ORDER BY ALL
SELECT city, count(*) FROM people p JOIN visits v ON p.uid = v.uid AND CAST(right(v.s, 1) AS INT) = v.k GROUP BY city ORDER BY city
SELECT city, count(*) AS c FROM people JOIN visits USING (uid) GROUP BY city ORDER BY c DESC, city LIMIT 2
SELECT count(*) FROM shops s, (SELECT k, count(*) AS c FROM visits GROUP BY k) t WHERE s.k = t.k
SELECT a.k, b.c FROM (SELECT DISTINCT k FROM visits) a JOIN (SELECT k, count(*) AS c FROM orders GROUP BY k) b USING (k) ORDER BY 1
SELECT c, count(*) FROM (SELECT uid, count(*) FILTER (WHERE n > 3) AS c FROM visits GROUP BY uid) GROUP BY c ORDER BY c
SELECT c, d, count(*) FROM (SELECT uid, count(s) FILTER (WHERE k > 1 OR n < 0) AS c, count(DISTINCT k) FILTER (WHERE n // 2 > k) AS d FROM visits GROUP BY uid) GROUP BY c, d ORDER BY c, d
SELECT t, count(*) FROM (SELECT uid, sum(n) FILTER (WHERE k = 3) AS t FROM visits GROUP BY uid) GROUP BY t ORDER BY t
WITH t AS (SELECT uid, k % 2 AS odd, max(x) FILTER (WHERE s IS NOT NULL) AS m, min(n) FILTER (WHERE CAST(right(s, 1) AS INT) > 1) AS l FROM visits GROUP BY ALL HAVING count(*) FILTER (WHERE n > 0) > 2) SELECT odd, l, count(*), avg(m) FROM t GROUP BY odd, l ORDER BY odd, l
SELECT city, count(*), avg(a) FROM people JOIN (SELECT uid, avg(n) FILTER (WHERE k > 2) AS a FROM visits GROUP BY uid) USING (uid) GROUP BY city ORDER BY city
SELECT c, q, count(*) FROM (SELECT uid, count_if(n > 3) AS c, count_if(k = 1) FILTER (WHERE n > 3) + 1 AS q FROM visits GROUP BY uid) GROUP BY c, q ORDER BY c, q
SELECT i.k, count(*) FROM items i JOIN orders o ON i.okey = o.okey SEMI JOIN items j ON j.okey = i.okey AND j.ikey <> i.ikey GROUP BY i.k ORDER BY i.k
SELECT i.k, count(*) FROM items i JOIN orders o ON i.okey = o.okey ANTI JOIN items j ON j.okey = i.okey AND j.qty > i.qty GROUP BY i.k ORDER BY i.k
SELECT a.k, count(*), count(DISTINCT b.uid) FROM visits a JOIN shops s ON a.uid = s.uid LEFT JOIN orders b ON b.uid = s.uid AND b.k > a.k GROUP BY a.k ORDER BY a.k
SELECT a.k, b.k, count(*) FROM visits a, orders b WHERE a.uid = a.n AND b.uid = a.n GROUP BY a.k, b.k ORDER BY ALL
SELECT p.city, count(*) FROM people p JOIN visits v ON p.uid = v.uid AND v.k IN (SELECT k FROM shops WHERE size > 5) GROUP BY p.city ORDER BY p.city
SELECT p.city, count(*) FROM people p JOIN visits v ON p.uid = v.uid AND v.k NOT IN (SELECT k FROM shops WHERE k IS NOT NULL) AND v.n > 0 LEFT JOIN towns t ON t.city = p.city GROUP BY p.city ORDER BY p.city
SELECT v.k, count(*) FROM people p JOIN visits v ON NOT EXISTS (SELECT 1 FROM shops s WHERE s.k = v.k AND s.size > p.age) AND p.uid = v.uid GROUP BY v.k ORDER BY v.k
SELECT s.name, count(*) FROM visits v JOIN shops s ON v.k = s.k AND EXISTS (SELECT 1 FROM towns t WHERE t.city = v.s) AND s.size IN (SELECT size FROM shops) GROUP BY s.name ORDER BY s.name
SELECT p.city, count(v.uid) FROM people p LEFT JOIN (SELECT * FROM visits WHERE k IN (SELECT k FROM shops)) v ON p.uid = v.uid GROUP BY p.city ORDER BY p.city
SELECT v.k, count(*) FROM visits v LEFT JOIN (SELECT DISTINCT k AS y FROM shops) s ON v.k = s.y WHERE s.y IS NOT NULL OR v.n = 1 GROUP BY v.k ORDER BY v.k
SELECT s.k, count(v.uid) FROM shops s LEFT JOIN visits v ON v.k = s.k GROUP BY s.k ORDER BY s.k
SELECT s.name, count(DISTINCT v.uid) FROM visits v RIGHT JOIN (SELECT * FROM shops WHERE size > 7) s ON v.k = s.k AND v.n > 3 GROUP BY s.name ORDER BY s.name
SELECT t.a, count(v.uid), count(DISTINCT p.uid) FROM (VALUES (1, 's1'), (5, 's2'), (99, NULL)) AS t(a, b) LEFT JOIN (visits v JOIN people p ON v.uid = p.uid) ON v.k = t.a GROUP BY t.a ORDER BY t.a
SELECT b.lo, count(v.n) FROM visits v RIGHT JOIN (VALUES (0, 5), (5, 10), (90, 99)) AS b(lo, hi) ON v.n >= b.lo AND v.n < b.hi GROUP BY b.lo ORDER BY b.lo
SELECT t.city, count(p.age), count(o.okey) FROM towns t LEFT JOIN people p ON p.city = t.city LEFT JOIN orders o ON o.uid = p.uid GROUP BY t.city ORDER BY t.city
WITH t(a) AS (VALUES ('s1'), ('s2'), ('s1')) SELECT t.a, count(*) FROM visits v JOIN t ON v.s = t.a GROUP BY t.a ORDER BY t.a
SELECT item, count(v.uid) FROM visits v RIGHT JOIN unnest(['s1', 's3', 'none']) AS item ON v.s = item GROUP BY item ORDER BY item
SELECT h.lo, count(v.n) FROM range(-4, 20, 4) AS h(lo) LEFT JOIN visits v ON v.n >= h.lo AND v.n < h.lo + 4 GROUP BY h.lo ORDER BY h.lo
SELECT generate_series AS d, count(v.uid) FROM generate_series(6, 2, -2) LEFT JOIN visits v ON v.k = generate_series GROUP BY d ORDER BY d
SELECT v.k, count(*) FROM visits v JOIN range(2, 5) r ON v.k = r GROUP BY v.k ORDER BY v.k
SELECT v.k, count(*) FROM visits v WHERE v.k IN (SELECT range FROM range(2, 5)) GROUP BY v.k ORDER BY v.k
SELECT k, count(*) FROM visits WHERE uid IN (SELECT uid FROM people WHERE age > 30) GROUP BY k ORDER BY k
SELECT city, count(*) FROM people WHERE uid NOT IN (SELECT uid FROM visits WHERE n > 15) GROUP BY city ORDER BY city
SELECT city, count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = p.uid AND v.n > p.age - 25) GROUP BY city ORDER BY city
SELECT city, count(*) FROM people p WHERE NOT EXISTS (FROM orders o WHERE p.uid = o.uid AND o.price > 20) GROUP BY city ORDER BY city
SELECT city, count(*) FROM people WHERE uid IN (SELECT uid FROM visits GROUP BY uid HAVING count(*) > 9) OR age > 60 GROUP BY city ORDER BY city
SELECT city, count(*) FROM people WHERE uid IN (SELECT uid FROM orders UNION SELECT uid FROM logins WHERE k = 3) GROUP BY city ORDER BY city
SELECT city, count(*) FROM people WHERE age > 30 AND (uid NOT IN (SELECT uid FROM orders) OR city = 'town1') GROUP BY city ORDER BY city
SELECT uid IN (SELECT uid FROM orders) AS bought, count(*) FROM people GROUP BY 1 ORDER BY 1
SELECT uid IN (SELECT uid FROM orders), EXISTS (FROM logins l WHERE l.uid = p.uid), count(*) FROM people p GROUP BY ALL ORDER BY ALL
SELECT CASE WHEN uid IN (SELECT uid FROM orders) THEN 'b' ELSE city END AS c, count(*) FROM people GROUP BY CASE WHEN uid IN (SELECT uid FROM orders) THEN 'b' ELSE city END ORDER BY 1
SELECT city, count(*) FILTER (WHERE uid IN (SELECT uid FROM orders)) AS n, sum(CASE WHEN uid NOT IN (SELECT uid FROM visits) THEN age END) AS s FROM people GROUP BY city ORDER BY city
SELECT city, seen, count(*) FROM (SELECT city, EXISTS (FROM visits v WHERE v.uid = p.uid AND v.k = 2) AS seen FROM people p) GROUP BY ALL ORDER BY ALL
SELECT n, count(*) FROM (SELECT uid, count(*) AS n FROM visits WHERE uid IN (SELECT uid FROM people) OR k = 1 GROUP BY uid) GROUP BY n ORDER BY n
SELECT k, count(*) FROM visits v WHERE s NOT IN (SELECT w.s FROM visits w WHERE w.uid = v.uid AND w.n > v.n) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits v WHERE s IN (SELECT w.s FROM visits w WHERE w.uid = v.uid AND w.n > v.n) OR k IS NULL GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits v WHERE NOT (s IN (SELECT w.s FROM visits w WHERE w.uid = v.uid AND w.n > v.n) OR k > 3) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE NOT (s IN (SELECT name FROM shops) OR k > 3) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE (s IN (SELECT city FROM towns)) IS NULL OR k > 3 GROUP BY k ORDER BY k
SELECT s IN (SELECT city FROM towns) AS t, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT s IN (SELECT name FROM shops) AS t, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT k, count(*) FROM visits WHERE (uid, k) IN (SELECT uid, k FROM logins) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE (uid, k) NOT IN (SELECT uid, k FROM logins WHERE uid > 3) AND k IS NOT NULL GROUP BY k ORDER BY k
SELECT k, count(*) FROM items WHERE okey IN (SELECT okey FROM orders WHERE price > 20) GROUP BY k ORDER BY k
SELECT k, count(*) FROM items WHERE okey NOT IN (SELECT okey FROM orders WHERE price > 20) GROUP BY k ORDER BY k
SELECT k, count(*) FROM orders WHERE okey IN (SELECT okey FROM items WHERE qty > 20) OR k = 2 GROUP BY k ORDER BY k
SELECT k, count(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.okey = o.okey AND i.qty > 20) GROUP BY k ORDER BY k
SELECT k, count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM items i JOIN returns r ON r.ikey = i.ikey WHERE i.okey = o.okey) GROUP BY k ORDER BY k
SELECT k, count(*) FROM items i WHERE EXISTS (SELECT 1 FROM items j WHERE j.okey = i.okey AND j.k > i.k) GROUP BY k ORDER BY k
SELECT city, count(*) FROM people p JOIN visits v ON p.uid = v.uid AND (v.uid IN (SELECT uid FROM logins WHERE k = 1) OR v.n > 3) GROUP BY city ORDER BY city
SELECT city, count(*) FROM people WHERE uid IN (SELECT uid FROM visits WHERE k IN (SELECT k FROM shops WHERE size > 15) AND uid IN (SELECT uid FROM logins)) GROUP BY city ORDER BY city
SELECT city, count(v.k) FROM people p LEFT JOIN visits v ON v.uid = p.uid AND v.n > 12 WHERE v.uid NOT IN (SELECT uid FROM orders) GROUP BY city ORDER BY city
WITH busy AS (SELECT uid FROM visits GROUP BY uid HAVING sum(n) > 60) SELECT city, count(*) FROM people WHERE uid IN (SELECT uid FROM busy) AND uid NOT IN (FROM busy WHERE uid > 20) GROUP BY city ORDER BY city
SELECT city, age > 40 AS old, count(*) FROM people WHERE uid IN (SELECT uid FROM visits WHERE n > 12) OR age < 30 GROUP BY ROLLUP (city, old) ORDER BY city, old, count(*)
SELECT count(k) FROM (SELECT * EXCLUDE (n) FROM visits)
SELECT k, count(*) FROM (SELECT v.* EXCLUDE (uid, n) FROM visits v) GROUP BY k ORDER BY k
SELECT city, count(*) FROM (SELECT * EXCLUDE (k) FROM people JOIN visits USING (uid)) GROUP BY city ORDER BY city
SELECT a, count(*), count(DISTINCT uid) FROM (SELECT uid, k AS a FROM visits UNION ALL BY NAME SELECT age AS a, uid FROM people) GROUP BY a ORDER BY a
SELECT count(*) FROM (SELECT uid, k FROM visits EXCEPT SELECT uid, k FROM logins) WHERE k > 1
SELECT a, count(*) FROM (SELECT uid, k AS a FROM visits UNION BY NAME SELECT k AS a, uid FROM logins) GROUP BY a ORDER BY a
SELECT k, count(*) FROM (SELECT k, n AS m, uid FROM visits ORDER BY m DESC, n, 1) GROUP BY k ORDER BY k
SELECT city, count(*) FROM people WHERE uid = ANY (SELECT uid FROM visits WHERE n > 12) GROUP BY city ORDER BY city
SELECT k, count(*) FROM visits WHERE k <> ALL (SELECT k FROM shops WHERE size > 15) GROUP BY k ORDER BY k
SELECT k, count(*) FROM visits WHERE k = SOME (SELECT k FROM shops WHERE size > 15) AND n > 2 GROUP BY k ORDER BY k
SELECT t, count(*) FROM (SELECT okey, sum(qty) AS t FROM items GROUP BY okey) GROUP BY t ORDER BY t
SELECT n, k, count(*) FROM (SELECT okey, k, count(*) AS n FROM items WHERE k > 1 GROUP BY okey, k HAVING max(qty) > 3) GROUP BY n, k ORDER BY n, k
SELECT n, count(*) FROM (SELECT o.okey, count(i.k) AS n FROM orders o LEFT JOIN items i ON i.okey = o.okey GROUP BY o.okey) GROUP BY n ORDER BY n
SELECT city, count(*) FROM people p WHERE (SELECT count(*) FROM visits v WHERE v.uid = p.uid AND v.n > 3) > 2 GROUP BY city ORDER BY city
SELECT city, count(*) FROM people p WHERE (SELECT count(*) FROM visits WHERE uid = p.uid) = 0 OR (SELECT max(n) FROM visits WHERE p.uid = visits.uid) IS NULL GROUP BY city ORDER BY city
SELECT k, count(*) FROM visits v WHERE n > (SELECT avg(w.n) FROM visits w WHERE w.uid = v.uid) GROUP BY k ORDER BY k
SELECT (SELECT count(DISTINCT k) FROM visits WHERE visits.uid = people.uid) AS d, count(*), sum(age) FROM people GROUP BY d ORDER BY d
SELECT city, sum((SELECT count(*) FROM logins l WHERE l.uid = p.uid) % 10), count(DISTINCT uid) FILTER (WHERE (SELECT sum(k) FROM orders o WHERE o.uid = p.uid) > 5) FROM people p GROUP BY city ORDER BY city
SELECT m, count(*) FROM (SELECT uid, (SELECT min(s) FILTER (WHERE n > 2) FROM visits v WHERE v.uid = l.uid AND k IN (SELECT k FROM shops)) AS m FROM logins l) GROUP BY m ORDER BY m
SELECT k, count(*) FROM orders o WHERE (SELECT count(*) FROM items i WHERE i.okey = o.okey AND i.qty > 5) > 1 GROUP BY k ORDER BY k
SELECT k, count(*) FROM items i WHERE (SELECT max(price) FROM orders o WHERE o.okey = i.okey) > 20 GROUP BY k ORDER BY k
SELECT k, count(*) FROM items i WHERE qty < (SELECT max(qty) FROM items j WHERE j.okey = i.okey) GROUP BY k ORDER BY k
SELECT k, count(*) FROM orders o WHERE (SELECT count(*) FROM returns r JOIN items i USING (ikey) WHERE i.okey = o.okey) > 0 GROUP BY k ORDER BY k
SELECT city, count(*) FROM people p WHERE (SELECT count(*) FROM visits v WHERE v.uid = p.uid AND (SELECT count(*) FROM orders o WHERE o.uid = v.uid) > 2) > 3 GROUP BY city ORDER BY city
SELECT CASE WHEN (SELECT count_if(k > 2) FROM visits v WHERE v.uid = p.uid) > 1 THEN 'many' ELSE 'few' END AS g, count(*) FROM people p GROUP BY g ORDER BY g
SELECT count(*), count(p.uid), count(v.uid), count(DISTINCT p.uid), sum(v.n) FROM people p FULL JOIN visits v ON p.uid = v.uid
SELECT city, k, count(*) FROM people FULL OUTER JOIN orders USING (uid) GROUP BY city, k ORDER BY city, k
SELECT count(*), count(DISTINCT uid), count(DISTINCT people.uid), count(DISTINCT orders.uid) FROM people FULL JOIN orders USING (uid)
SELECT v.k, o.k, count(*) FROM visits v FULL JOIN orders o ON o.uid = v.uid AND o.k = v.k GROUP BY v.k, o.k ORDER BY v.k, o.k
SELECT v.k, count(o.okey) FROM visits v FULL JOIN orders o ON o.uid = v.uid AND o.price > 30 AND v.n > 3 WHERE v.k IS NULL OR o.k = 2 GROUP BY v.k ORDER BY v.k
SELECT k, count(*) FROM visits FULL JOIN logins USING (uid, k) GROUP BY k ORDER BY k
SELECT k, count(DISTINCT uid) FROM visits NATURAL FULL JOIN orders GROUP BY k ORDER BY k
SELECT n, count(*) FROM (SELECT uid, count(v.k) AS n FROM people FULL JOIN visits v USING (uid) GROUP BY uid) GROUP BY n ORDER BY n
SELECT city, count(*), count(v.k), count(o.k) FROM people FULL JOIN visits v USING (uid) FULL JOIN orders o USING (uid) GROUP BY city ORDER BY city
SELECT city, count(*), count(o.k) FROM people p FULL JOIN visits v ON p.uid = v.uid LEFT JOIN orders o ON o.uid = v.uid AND o.k > 1 GROUP BY city ORDER BY city
SELECT age, count(*) FROM (SELECT * FROM people FULL JOIN (SELECT uid, k AS age FROM orders) o USING (uid, age)) GROUP BY age ORDER BY age
SELECT k, count(*) FROM (SELECT uid, k FROM visits QUALIFY row_number() OVER (PARTITION BY uid ORDER BY n DESC, k, s, x) = 1) GROUP BY k ORDER BY k
SELECT k, count(*), count(DISTINCT uid) FROM (SELECT uid, k, row_number() OVER (PARTITION BY uid, s ORDER BY n, k, x) AS r FROM visits) WHERE r = 1 GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT DISTINCT ON (uid) uid, k FROM visits ORDER BY uid, n DESC NULLS FIRST, k, s, x) GROUP BY k ORDER BY k
WITH t AS (SELECT uid, k, n, lag(n) OVER (PARTITION BY uid ORDER BY n, k, s, x) AS before, lead(n, 2) OVER (PARTITION BY uid ORDER BY n, k, s, x) AS after FROM visits) SELECT k, count(*), count(before), count(after), sum(n - before) FROM t WHERE n - before < 8 OR before IS NULL GROUP BY k ORDER BY k
SELECT f, count(*) FROM (SELECT uid, first_value(s) OVER (PARTITION BY uid ORDER BY n DESC, k, s, x) AS f FROM visits) GROUP BY f ORDER BY f
SELECT m, count(*) FROM (SELECT uid, max(n) OVER (PARTITION BY uid ORDER BY k NULLS FIRST) - min(n) OVER (PARTITION BY uid) AS m FROM visits) GROUP BY m ORDER BY m
SELECT o.k, count(*) FROM (SELECT o.uid, o.k, i.qty FROM items i JOIN orders o ON i.okey = o.okey QUALIFY row_number() OVER (PARTITION BY o.uid ORDER BY qty DESC, ikey) <= 2) o GROUP BY o.k ORDER BY o.k
SELECT count(*), count(DISTINCT uid) FROM (SELECT uid, n > lag(n) OVER (PARTITION BY uid ORDER BY k, n, s, x) AS up FROM visits QUALIFY up AND count(*) OVER (PARTITION BY uid) > 3)
SELECT age > 40 AS old, count(*) FROM people p JOIN (SELECT uid AS u, n AS last FROM visits WHERE k > 1 QUALIFY row_number() OVER (PARTITION BY u ORDER BY n DESC NULLS LAST) = 1) v ON p.uid = v.u WHERE last > 3 GROUP BY old ORDER BY old
SELECT p.city, count(*) FROM items i LEFT JOIN orders o ON i.okey = o.okey LEFT JOIN people p ON o.uid = p.uid GROUP BY p.city ORDER BY p.city
SELECT p.city, sum(i.qty) FROM items i LEFT JOIN orders o ON i.okey = o.okey AND o.k > 1 JOIN people p ON o.uid = p.uid GROUP BY p.city ORDER BY p.city
SELECT p.city, count(*) FROM people p JOIN (SELECT i.k, o.uid AS buyer FROM items i LEFT JOIN orders o USING (okey)) t ON t.buyer = p.uid GROUP BY p.city ORDER BY p.city
SELECT k, count(*) FROM visits WHERE (uid, k) NOT IN (SELECT uid, k FROM logins WHERE uid > 3) GROUP BY k ORDER BY k
SELECT (uid, k) IN (SELECT uid, k FROM logins WHERE uid > 3) AS t, count(*) FROM visits GROUP BY 1 ORDER BY 1
SELECT n, count(*) FROM (SELECT o.okey, count(*) AS n FROM people p LEFT JOIN orders o ON o.uid = p.uid WHERE o.okey IS NOT NULL GROUP BY o.okey) GROUP BY n ORDER BY n
SELECT l, count(*) FROM (SELECT uid, arg_max(s, n * 1000 + k) AS l FROM visits WHERE s IS NOT NULL GROUP BY uid) GROUP BY l ORDER BY l
SELECT odd, round(d, 4) AS d, round(p, 4) AS p, count(*) FROM (SELECT uid, k % 2 AS odd, stddev(n) AS d, var_pop(x) FILTER (WHERE n > 0) AS p FROM visits GROUP BY ALL) GROUP BY odd, 2, 3 ORDER BY odd, 2, 3
SELECT t, count(*) FROM (SELECT uid, sum(n) OVER (PARTITION BY uid ORDER BY k) AS t FROM visits) GROUP BY t ORDER BY t
SELECT above, count(*) FROM (SELECT uid, x > avg(x) OVER (PARTITION BY uid) AS above, sum(x) OVER (PARTITION BY uid, k) AS total FROM visits) WHERE total > 1 GROUP BY above ORDER BY above
SELECT o.k, i.n > 1 AS several, count(*) FROM orders o JOIN (SELECT okey, count(*) AS n FROM items GROUP BY okey) i ON i.okey = o.okey GROUP BY ALL ORDER BY ALL
SELECT i.k, count(*), sum(r.n) FROM items i LEFT JOIN (SELECT ikey, max(n) AS n FROM returns GROUP BY ikey) r ON r.ikey = i.ikey GROUP BY i.k ORDER BY i.k
SELECT count(*) FROM (SELECT DISTINCT okey FROM items WHERE okey IS NOT NULL)
SELECT o.k, count(*), sum(d.qty) FROM (SELECT DISTINCT okey, qty FROM items WHERE okey IS NOT NULL) d LEFT JOIN orders o ON o.okey = d.okey GROUP BY o.k ORDER BY o.k
SELECT city, count(*) FROM people p JOIN visits v ON p.uid IS NOT DISTINCT FROM v.uid GROUP BY city ORDER BY city
SELECT city, count(*), count(v.k) FROM people p LEFT JOIN visits v ON p.uid IS NOT DISTINCT FROM v.uid AND v.k > 2 GROUP BY city ORDER BY city
SELECT name FROM shops WHERE k IN (SELECT k FROM visits) ORDER BY name
SELECT name FROM shops WHERE k NOT IN (SELECT k FROM visits WHERE k IS NOT NULL) ORDER BY name
SELECT k FROM visits UNION SELECT k FROM orders WHERE price > 3 ORDER BY k
SELECT k FROM visits EXCEPT SELECT o.k FROM orders o JOIN people p ON o.uid = p.uid ORDER BY k
WITH a AS (SELECT k FROM visits) SELECT name FROM shops WHERE k IN (SELECT k FROM a) ORDER BY name
SELECT k, count(*) FROM (SELECT uid, k, row_number() OVER (PARTITION BY uid ORDER BY count(*) DESC, k) AS r FROM visits GROUP BY uid, k) WHERE r = 1 GROUP BY k ORDER BY k
SELECT k, count(*) FROM (SELECT uid AS u, k FROM visits WHERE n > 1 GROUP BY uid, k HAVING count(*) > 1 QUALIFY sum(n) = max(sum(n)) OVER (PARTITION BY uid)) GROUP BY k ORDER BY k
SELECT k, count(*), count(DISTINCT uid) FROM (SELECT uid, k, count(*) / sum(count(*)) OVER (PARTITION BY uid) AS share FROM visits GROUP BY uid, k) WHERE share > 0.3 GROUP BY k ORDER BY k
SELECT r, count(*) FROM (SELECT uid, rank() OVER w AS r, lag(n) OVER (v ORDER BY n, k, s, x) AS b FROM visits WINDOW v AS (PARTITION BY uid), w AS (v ORDER BY k)) WHERE b > 1 GROUP BY r ORDER BY r
SELECT o, a, count(*) FROM (SELECT uid, bool_or(n > 4) AS o, bool_and(n > 1) FILTER (WHERE k > 1) AS a FROM visits GROUP BY uid) GROUP BY o, a ORDER BY o, a
SELECT count(*) FROM people p WHERE (SELECT bool_or(v.k = 3) FROM visits v WHERE v.uid = p.uid)
SELECT t, count(*) FROM (SELECT uid, sum(n) OVER (PARTITION BY uid ORDER BY k ROWS UNBOUNDED PRECEDING) AS t FROM (SELECT uid, k, 1 AS n FROM visits)) GROUP BY t ORDER BY t
SELECT t, c, count(*) FROM (SELECT uid, sum(n) OVER (PARTITION BY uid ORDER BY n, k, s, x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t, count(*) OVER (PARTITION BY uid ORDER BY k RANGE UNBOUNDED PRECEDING) AS c FROM visits) GROUP BY t, c ORDER BY t, c
SELECT l, m, count(*) FROM (SELECT uid, last_value(s) OVER w AS l, max(n) OVER w AS m FROM visits WINDOW w AS (PARTITION BY uid ORDER BY n, k, s, x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) GROUP BY l, m ORDER BY l, m
SELECT (SELECT region FROM towns t WHERE t.city = p.city) AS r, count(*) FROM people p GROUP BY r ORDER BY r
SELECT k, (SELECT region FROM towns WHERE towns.city = s) AS r, (SELECT upper(region) FROM towns WHERE towns.city = s) AS u, count(*) FROM visits GROUP BY ALL ORDER BY ALL
SELECT count(*), sum((SELECT size FROM shops s WHERE s.k = v.k AND s.name <> 'town1' AND s.uid = s.k)) FROM visits v WHERE coalesce((SELECT region FROM towns t WHERE t.city = v.s), 'none') <> 'south'
SELECT (SELECT b.low FROM (VALUES (0, 10), (10, 20), (20, 99)) b(low, high) WHERE v.n >= b.low AND v.n < b.high) AS low, count(*) FROM visits v GROUP BY low ORDER BY low
SELECT l, count(*) FROM (SELECT uid, (SELECT name FROM (VALUES (1, 'one'), (2, 'two')) b(k, name) WHERE b.k = v.k LIMIT 1) AS l FROM visits v) GROUP BY l ORDER BY l
SELECT city, (SELECT region FROM towns t WHERE t.city = p.city) AS r, count(*) FROM people p GROUP BY city ORDER BY city
SELECT city, count(*) FROM people GROUP BY city HAVING EXISTS (SELECT 1 FROM towns t WHERE t.city = people.city AND region = 'north') ORDER BY city
SELECT (SELECT o.k FROM orders o WHERE o.okey = i.okey) AS ok, count(*) FROM items i GROUP BY ok ORDER BY ok
SELECT c, count(*) FROM (SELECT uid, (SELECT k FROM visits v WHERE v.uid = p.uid ORDER BY n DESC, s, k, x LIMIT 1) AS c FROM people p) GROUP BY c ORDER BY c
SELECT t, count(*) FROM (SELECT uid, ntile(3) OVER (PARTITION BY uid ORDER BY n, k, s, x) AS t FROM visits) GROUP BY t ORDER BY t
SELECT t, count(*) FROM (SELECT uid, ntile(20) OVER (PARTITION BY uid ORDER BY n DESC, k, s, x) + 1 AS t FROM visits) GROUP BY t ORDER BY t
SELECT r, k, count(*) FROM (SELECT uid, k, dense_rank() OVER (PARTITION BY uid ORDER BY k DESC NULLS FIRST) AS r FROM visits) GROUP BY r, k ORDER BY r, k
SELECT s, count(*) FROM (SELECT uid, s FROM visits QUALIFY dense_rank() OVER (PARTITION BY uid ORDER BY n, s) = 2) GROUP BY s ORDER BY s
SELECT r, t, count(*) FROM (SELECT uid, dense_rank() OVER w AS r, ntile(2) OVER w AS t, rank() OVER w AS q FROM visits WINDOW w AS (PARTITION BY uid, s ORDER BY n, k, x)) WHERE q < 5 GROUP BY r, t ORDER BY r, t
SELECT (SELECT CASE WHEN p.age > 40 THEN t.region ELSE p.city END FROM towns t WHERE t.city = p.city) AS r, count(*) FROM people p GROUP BY r ORDER BY r
SELECT r, l, count(*) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY n, k, s, x) AS r, (SELECT region FROM towns t WHERE t.city = v.s) AS l FROM visits v) GROUP BY r, l ORDER BY r, l
SELECT l, count(*) FROM (SELECT DISTINCT ON (uid) uid, (SELECT region FROM towns t WHERE t.city = v.s) AS l FROM visits v ORDER BY uid, n, k, s, x) GROUP BY l ORDER BY l
SELECT b, count(*) FROM (SELECT DISTINCT ON (uid, k) uid, s AS k, -n AS n, n AS b FROM visits ORDER BY uid, k, n, x) GROUP BY b ORDER BY b
SELECT c, count(*) FROM (SELECT uid, (SELECT -n AS n FROM visits v WHERE v.uid = p.uid ORDER BY n LIMIT 1) AS c FROM people p) GROUP BY c ORDER BY c
SELECT c, count(*) FROM (SELECT uid, (SELECT n FROM visits v WHERE v.uid = p.uid ORDER BY 1 DESC LIMIT 1) AS c FROM people p) GROUP BY c ORDER BY c
SELECT (SELECT region FROM towns t WHERE t.city = p.city) IN ('north', 'east') AS r, count(*) FROM people p GROUP BY r ORDER BY r
SELECT count(*) FROM visits v WHERE v.n NOT IN (3, (SELECT b.n FROM (VALUES (1, 5), (2, 8)) b(k, n) WHERE b.k = v.k)) OR (SELECT max(n) FROM visits w WHERE w.uid = v.uid) IN (20, v.n)
SELECT m, count(*) FROM (SELECT uid, median(n) AS m FROM visits GROUP BY uid) GROUP BY m ORDER BY m
SELECT m, q, count(*) FROM (SELECT uid, k, quantile_disc(s, 0.4) AS m, quantile_cont(x, 0.75) FILTER (WHERE n > 0) AS q FROM visits GROUP BY uid, k HAVING median(n) > 1) GROUP BY m, q ORDER BY m, q
SELECT m, count(*) FROM (SELECT uid, percentile_cont(0.1) WITHIN GROUP (ORDER BY n DESC) AS m, count(*) AS c FROM visits WHERE k > 0 GROUP BY uid) WHERE c > 2 GROUP BY m ORDER BY m
SELECT m, count(*) FROM (SELECT uid, median(i.qty) - min(i.qty) AS m FROM items i JOIN orders o USING (okey) GROUP BY uid) GROUP BY m ORDER BY m
SELECT m, count(*) FROM (SELECT uid, k, mode(1000 * k) AS m FROM visits GROUP BY uid, k) GROUP BY m ORDER BY m
SELECT count(*) FROM (SELECT uid FROM visits GROUP BY uid HAVING min(n) = quantile_disc(n, 0) AND mode(CASE WHEN n > -9 THEN 'a' ELSE s END) = 'a')
SELECT c, m, count(*) FROM (SELECT uid, count(*) OVER w AS c, max(s) OVER w AS m FROM visits WINDOW w AS (PARTITION BY uid ORDER BY n, k, s, x ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)) GROUP BY c, m ORDER BY c, m
SELECT t, v, count(*) FROM (SELECT uid, sum(n + 1) OVER w AS t, count(x) OVER w AS v FROM visits WINDOW w AS (PARTITION BY uid ORDER BY n DESC, k, s, x ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING)) GROUP BY t, v ORDER BY t, v
SELECT a, count(*) FROM (SELECT uid, avg(k) OVER (PARTITION BY uid ORDER BY n, k, s, x ROWS 1 PRECEDING) AS a, min(n) OVER (PARTITION BY uid, k ORDER BY n, s, x ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS m FROM visits) WHERE m > 0 GROUP BY a ORDER BY a
SELECT n > ALL (SELECT size FROM shops WHERE size < 12) AS a, count(*) FROM visits GROUP BY a ORDER BY a
SELECT n < ANY (SELECT size FROM shops s WHERE s.k = v.k) AS a, count(*) FROM visits v GROUP BY a ORDER BY a
SELECT count(*) FROM visits v WHERE NOT n >= ALL (SELECT n FROM visits w WHERE w.uid = v.uid AND w.k = v.k) OR s = ALL (SELECT city FROM towns WHERE region = 'south')
SELECT a, count(*) FROM (SELECT uid, k <> ANY (SELECT k FROM shops) AS a FROM visits) GROUP BY a ORDER BY a
SELECT t, count(*) FROM (SELECT uid, max((SELECT size FROM shops s WHERE s.k = v.k AND s.name <> 'town1' AND s.uid = s.k)) AS t FROM visits v GROUP BY uid) GROUP BY t ORDER BY t
SELECT r, c, count(*) FROM (SELECT uid, (SELECT region FROM towns t WHERE t.city = v.s) AS r, count(*) FILTER (WHERE k IN (SELECT k FROM shops)) AS c FROM visits v GROUP BY uid, r) GROUP BY r, c ORDER BY r, c
SELECT v, count(*) FROM (SELECT uid, n AS v FROM visits UNION ALL SELECT uid, price FROM orders UNION ALL SELECT uid, NULL FROM logins) GROUP BY v ORDER BY v
SELECT v, count(*) FROM (SELECT uid, n AS v FROM visits INTERSECT SELECT uid, x FROM visits) GROUP BY v ORDER BY v
SELECT v > 30 AS o, count(*), count(s) FROM (SELECT uid, k AS v, NULL AS s FROM visits UNION ALL BY NAME SELECT city AS s, uid, age + 0.5e0 AS v FROM people) GROUP BY o ORDER BY o
