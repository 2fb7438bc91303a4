-- In the shapes of CWI's tests of private aggregation over TPC-H.
-- world: tpch

-- answerable
SELECT COUNT(*) FROM customer;

-- answerable
SELECT SUM(l_quantity) FROM lineitem;

-- answerable
SELECT COUNT(*) FROM customer, orders WHERE c_custkey = o_custkey;

-- answerable
SELECT c_mktsegment, SUM(o_totalprice) FROM customer JOIN orders ON o_custkey = c_custkey GROUP BY c_mktsegment;

-- answerable
SELECT l_returnflag, l_linestatus, SUM(l_quantity), AVG(l_discount), COUNT(*) FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY ALL ORDER BY ALL;

-- answerable
SELECT SUM(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;

-- answerable
SELECT COUNT(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey;

-- answerable
SELECT COUNT(*) FROM lineitem, orders, customer WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey AND c_mktsegment = 'BUILDING';

-- answerable
SELECT COUNT(*) FROM lineitem l LEFT JOIN orders o ON l.l_orderkey = o.o_orderkey LEFT JOIN customer c ON o.o_custkey = c.c_custkey;

-- answerable
SELECT COUNT(*) FROM customer LEFT JOIN orders ON c_custkey = o_custkey WHERE o_orderkey IS NULL;

-- answerable
SELECT c_count, COUNT(*) AS custdist FROM (SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer LEFT JOIN orders ON c_custkey = o_custkey GROUP BY c_custkey) GROUP BY c_count ORDER BY custdist DESC;

-- answerable
SELECT SUM(x) FROM (SELECT SUM(l_quantity) AS x FROM lineitem GROUP BY l_orderkey);

-- answerable
SELECT AVG(cnt) FROM (SELECT COUNT(*) AS cnt FROM lineitem GROUP BY l_orderkey) t;

-- answerable
SELECT o_orderpriority, COUNT(*) FROM orders WHERE EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority;

-- answerable
SELECT COUNT(*) FROM orders WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_quantity > 45);

-- answerable
SELECT COUNT(*) FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders);

-- answerable
SELECT COUNT(*) FROM customer WHERE c_acctbal > (SELECT AVG(c_acctbal) FROM customer WHERE c_acctbal > 0);

-- answerable
SELECT COUNT(*) FROM orders WHERE o_totalprice > (SELECT AVG(o_totalprice) FROM orders);

-- answerable
SELECT COUNT(*) FROM lineitem l WHERE l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem i WHERE i.l_partkey = l.l_partkey);

-- answerable
SELECT p_brand, SUM(l_quantity) FROM lineitem JOIN part ON p_partkey = l_partkey GROUP BY p_brand;

-- answerable
SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem JOIN supplier ON s_suppkey = l_suppkey JOIN nation ON n_nationkey = s_nationkey GROUP BY n_name ORDER BY revenue DESC;

-- answerable
SELECT YEAR(o_orderdate) AS y, COUNT(DISTINCT o_custkey) FROM orders GROUP BY y;

-- answerable
SELECT COUNT(DISTINCT c_nationkey) FROM customer;

-- answerable
SELECT MIN(o_totalprice), MAX(o_totalprice) FROM orders;

-- answerable
SELECT l_shipmode, MAX(l_extendedprice) FROM lineitem GROUP BY l_shipmode;

-- answerable
SELECT STDDEV(l_extendedprice), VAR_SAMP(l_quantity) FROM lineitem;

-- answerable
SELECT MEDIAN(l_extendedprice) FROM lineitem;

-- answerable
SELECT COUNT(*) FILTER (WHERE l_returnflag = 'R') AS returned, COUNT(*) FROM lineitem;

-- answerable
SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' THEN 1 ELSE 0 END) AS high FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') GROUP BY l_shipmode;

-- answerable
SELECT 100.0 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) / SUM(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE l_partkey = p_partkey;

-- answerable
SELECT c_mktsegment, AVG(c_acctbal) FROM customer GROUP BY c_mktsegment HAVING AVG(c_acctbal) > 4000;

-- answerable
SELECT * FROM (SELECT l_shipmode, COUNT(*) AS n FROM lineitem GROUP BY l_shipmode) ORDER BY n LIMIT 1;

-- answerable
SELECT l_shipmode, SUM(l_quantity) / (SELECT SUM(l_quantity) FROM lineitem) FROM lineitem GROUP BY l_shipmode;

-- answerable
WITH rev AS (SELECT l_suppkey AS sk, SUM(l_extendedprice) AS r FROM lineitem GROUP BY l_suppkey) SELECT s_name, r FROM rev JOIN supplier ON s_suppkey = sk WHERE r = (SELECT MAX(r) FROM rev);

-- answerable
WITH a AS (SELECT o_custkey, SUM(o_totalprice) AS t FROM orders GROUP BY o_custkey) SELECT c_mktsegment, AVG(t) FROM a JOIN customer ON c_custkey = o_custkey GROUP BY c_mktsegment;

-- answerable
WITH a AS (SELECT o_custkey, SUM(l_quantity) AS q FROM orders JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_custkey) SELECT COUNT(*) FROM a WHERE q > 300;

-- answerable
SELECT SUM(l_quantity) FROM lineitem UNION ALL SELECT COUNT(*) FROM orders;

-- answerable
SELECT COUNT(*) FROM (SELECT c_custkey FROM customer EXCEPT SELECT o_custkey FROM orders);

-- answerable
SELECT o_orderstatus, COUNT(*), SUM(COUNT(*)) OVER () FROM orders GROUP BY o_orderstatus;

-- answerable
SELECT o_orderdate, SUM(o_totalprice) FROM orders GROUP BY o_orderdate ORDER BY 2 DESC LIMIT 10;

-- answerable
SELECT date_trunc('month', l_shipdate) AS m, SUM(l_extendedprice) FROM lineitem GROUP BY m ORDER BY m;

-- answerable
SELECT o1.o_orderpriority, COUNT(*) FROM orders o1 JOIN orders o2 ON o1.o_custkey = o2.o_custkey WHERE o1.o_orderdate < o2.o_orderdate GROUP BY 1;

-- refused: invalid
SELECT COUNT(*) FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderdate) = 1;

-- answerable
SELECT COUNT(*) FROM (SELECT o_orderkey FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderdate) = 1);

-- answerable
SELECT AVG(r) FROM (SELECT o_totalprice - LAG(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderdate) AS r FROM orders);

-- answerable
SELECT r_name, COUNT(*) FROM region LEFT JOIN nation ON n_regionkey = r_regionkey LEFT JOIN customer ON c_nationkey = n_nationkey GROUP BY r_name;

-- answerable
SELECT n_name, COUNT(c_custkey) FROM nation LEFT JOIN customer ON c_nationkey = n_nationkey GROUP BY n_name;

-- answerable
SELECT n_name FROM nation WHERE n_nationkey IN (SELECT c_nationkey FROM customer);

-- answerable
SELECT COUNT(*) FROM supplier WHERE s_suppkey IN (SELECT l_suppkey FROM lineitem WHERE l_returnflag = 'R');

-- answerable
SELECT p_type, AVG(ps_supplycost) FROM partsupp JOIN part ON ps_partkey = p_partkey GROUP BY p_type;

-- answerable
SELECT SUM(ps_supplycost * l_quantity) FROM lineitem, partsupp WHERE ps_suppkey = l_suppkey AND ps_partkey = l_partkey;

-- answerable
SELECT SUM(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit FROM lineitem, partsupp WHERE ps_suppkey = l_suppkey AND ps_partkey = l_partkey;

-- answerable
SELECT AVG(p_retailprice) FROM lineitem JOIN part ON p_partkey = l_partkey;

-- answerable
SELECT AVG(l_receiptdate - l_commitdate) FROM lineitem;

-- answerable
SELECT COUNT(*) FROM lineitem WHERE l_shipinstruct = 'DELIVER IN PERSON' AND l_quantity BETWEEN 1 AND 11 AND l_partkey IN (SELECT p_partkey FROM part WHERE p_brand = 'Brand#12' AND p_size BETWEEN 1 AND 5);

-- answerable
SELECT SUBSTRING(c_phone, 1, 2) AS cntrycode, COUNT(*), SUM(c_acctbal) FROM customer WHERE SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23') GROUP BY cntrycode;

-- answerable
SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cc, COUNT(*) FROM customer WHERE NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey) GROUP BY cc;

-- answerable
SELECT AVG(total) FROM (SELECT o_orderkey, SUM(l_extendedprice) AS total FROM orders JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_orderkey);

-- answerable
SELECT BIT_XOR(o_orderkey) FROM orders;

-- answerable
SELECT SUM(DISTINCT l_quantity) FROM lineitem;

-- answerable
SELECT COUNT(DISTINCT l_suppkey) FROM lineitem WHERE l_returnflag = 'R';

-- refused: unit-keys
SELECT c_custkey, SUM(o_totalprice) FROM customer, orders WHERE c_custkey = o_custkey GROUP BY c_custkey;

-- refused: unit-keys
SELECT l_orderkey, SUM(l_quantity) FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300;

-- refused: rows
SELECT c_name, c_acctbal FROM customer ORDER BY c_acctbal DESC LIMIT 1;

-- refused: rows
SELECT l_quantity FROM lineitem WHERE l_orderkey = 7;

-- refused: joins
SELECT COUNT(*) FROM customer a JOIN customer b ON a.c_nationkey = b.c_nationkey;

-- refused: joins
SELECT COUNT(*) FROM orders a, lineitem b WHERE a.o_orderdate = b.l_shipdate;

-- refused: rows
SELECT COUNT(*) + c_acctbal FROM customer GROUP BY c_custkey, c_acctbal;
