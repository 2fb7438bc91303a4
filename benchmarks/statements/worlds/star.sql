CREATE TABLE lineorder (orderkey BIGINT, linenumber INTEGER, custkey BIGINT, partkey INTEGER, suppkey INTEGER, orderdate INTEGER,
  quantity INTEGER, extendedprice INTEGER, discount INTEGER, revenue INTEGER, supplycost INTEGER);
CREATE TABLE customer (custkey BIGINT PRIMARY KEY, name VARCHAR, city VARCHAR, nation VARCHAR, region VARCHAR);
CREATE TABLE supplier (suppkey INTEGER PRIMARY KEY, name VARCHAR, city VARCHAR, nation VARCHAR, region VARCHAR);
CREATE TABLE part (partkey INTEGER PRIMARY KEY, mfgr VARCHAR, category VARCHAR, brand VARCHAR);
CREATE TABLE dates (datekey INTEGER PRIMARY KEY, year INTEGER, yearmonthnum INTEGER, yearmonth VARCHAR, weeknuminyear INTEGER);
INSERT INTO supplier VALUES (1, 's1', 'CHINA    1', 'CHINA', 'ASIA'), (2, 's2', 'UNITED ST2', 'UNITED STATES', 'AMERICA');
INSERT INTO part VALUES (1, 'MFGR#1', 'MFGR#12', 'MFGR#1221'), (2, 'MFGR#2', 'MFGR#14', 'MFGR#2239');
INSERT INTO dates SELECT y * 10000 + m * 100 + 1, y, y * 100 + m, 'M' || m || y, m * 4 FROM range(1992, 1999) a(y), range(1, 13) b(m);
INSERT INTO customer VALUES (1, 'c1', 'CHINA    1', 'CHINA', 'ASIA');
INSERT INTO lineorder VALUES (1, 1, 1, 1, 1, 19930101, 20, 1000, 2, 980, 600);
