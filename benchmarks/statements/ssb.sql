-- The questions of the Star Schema Benchmark.
-- world: star

-- answerable
SELECT SUM(extendedprice * discount) AS revenue FROM lineorder, dates WHERE orderdate = datekey AND year = 1993 AND discount BETWEEN 1 AND 3 AND quantity < 25;

-- answerable
SELECT SUM(extendedprice * discount) AS revenue FROM lineorder, dates WHERE orderdate = datekey AND yearmonthnum = 199401 AND discount BETWEEN 4 AND 6 AND quantity BETWEEN 26 AND 35;

-- answerable
SELECT SUM(extendedprice * discount) AS revenue FROM lineorder, dates WHERE orderdate = datekey AND weeknuminyear = 6 AND year = 1994 AND discount BETWEEN 5 AND 7 AND quantity BETWEEN 26 AND 35;

-- answerable
SELECT SUM(revenue), year, brand FROM lineorder l, dates d, part p, supplier s WHERE l.orderdate = d.datekey AND l.partkey = p.partkey AND l.suppkey = s.suppkey AND p.category = 'MFGR#12' AND s.region = 'AMERICA' GROUP BY year, brand ORDER BY year, brand;

-- answerable
SELECT SUM(revenue), year, brand FROM lineorder l, dates d, part p, supplier s WHERE l.orderdate = d.datekey AND l.partkey = p.partkey AND l.suppkey = s.suppkey AND p.brand BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s.region = 'ASIA' GROUP BY year, brand ORDER BY year, brand;

-- answerable
SELECT SUM(revenue), year, brand FROM lineorder l, dates d, part p, supplier s WHERE l.orderdate = d.datekey AND l.partkey = p.partkey AND l.suppkey = s.suppkey AND p.brand = 'MFGR#2239' AND s.region = 'EUROPE' GROUP BY year, brand ORDER BY year, brand;

-- answerable
SELECT c.nation, s.nation, d.year, SUM(l.revenue) AS revenue FROM customer c, lineorder l, supplier s, dates d WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.orderdate = d.datekey AND c.region = 'ASIA' AND s.region = 'ASIA' AND d.year >= 1992 AND d.year <= 1997 GROUP BY c.nation, s.nation, d.year ORDER BY d.year ASC, revenue DESC;

-- answerable
SELECT c.city, s.city, d.year, SUM(l.revenue) AS revenue FROM customer c, lineorder l, supplier s, dates d WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.orderdate = d.datekey AND c.nation = 'UNITED STATES' AND s.nation = 'UNITED STATES' AND d.year BETWEEN 1992 AND 1997 GROUP BY c.city, s.city, d.year ORDER BY d.year ASC, revenue DESC;

-- answerable
SELECT c.city, s.city, d.year, SUM(l.revenue) AS revenue FROM customer c, lineorder l, supplier s, dates d WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.orderdate = d.datekey AND (c.city = 'UNITED KI1' OR c.city = 'UNITED KI5') AND (s.city = 'UNITED KI1' OR s.city = 'UNITED KI5') AND d.year BETWEEN 1992 AND 1997 GROUP BY c.city, s.city, d.year ORDER BY d.year, revenue DESC;

-- answerable
SELECT c.city, s.city, d.year, SUM(l.revenue) AS revenue FROM customer c, lineorder l, supplier s, dates d WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.orderdate = d.datekey AND c.city IN ('UNITED KI1', 'UNITED KI5') AND s.city IN ('UNITED KI1', 'UNITED KI5') AND d.yearmonth = 'Dec1997' GROUP BY c.city, s.city, d.year ORDER BY d.year, revenue DESC;

-- answerable
SELECT d.year, c.nation, SUM(l.revenue - l.supplycost) AS profit FROM dates d, customer c, supplier s, part p, lineorder l WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.partkey = p.partkey AND l.orderdate = d.datekey AND c.region = 'AMERICA' AND s.region = 'AMERICA' AND (p.mfgr = 'MFGR#1' OR p.mfgr = 'MFGR#2') GROUP BY d.year, c.nation ORDER BY d.year, c.nation;

-- answerable
SELECT d.year, s.nation, p.category, SUM(l.revenue - l.supplycost) AS profit FROM dates d, customer c, supplier s, part p, lineorder l WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.partkey = p.partkey AND l.orderdate = d.datekey AND c.region = 'AMERICA' AND s.region = 'AMERICA' AND (d.year = 1997 OR d.year = 1998) AND (p.mfgr = 'MFGR#1' OR p.mfgr = 'MFGR#2') GROUP BY d.year, s.nation, p.category ORDER BY d.year, s.nation, p.category;

-- answerable
SELECT d.year, s.city, p.brand, SUM(l.revenue - l.supplycost) AS profit FROM dates d, customer c, supplier s, part p, lineorder l WHERE l.custkey = c.custkey AND l.suppkey = s.suppkey AND l.partkey = p.partkey AND l.orderdate = d.datekey AND c.region = 'AMERICA' AND s.nation = 'UNITED STATES' AND d.year IN (1997, 1998) AND p.category = 'MFGR#14' GROUP BY d.year, s.city, p.brand ORDER BY d.year, s.city, p.brand;
