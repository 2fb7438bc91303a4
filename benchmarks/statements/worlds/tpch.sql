INSERT INTO region VALUES (0, 'AFRICA', ''), (1, 'AMERICA', ''), (2, 'ASIA', ''), (3, 'EUROPE', '');
INSERT INTO nation VALUES (0, 'ALGERIA', 0, ''), (1, 'BRAZIL', 1, ''), (2, 'CHINA', 2, ''), (3, 'FRANCE', 3, ''), (4, 'GERMANY', 3, '');
INSERT INTO supplier VALUES (1, 's1', '', 2, '', 10, ''), (2, 's2', '', 3, '', 20, '');
INSERT INTO part (p_partkey, p_name, p_brand, p_type, p_size, p_container, p_retailprice) VALUES
  (1, 'green almond', 'Brand#12', 'PROMO BRASS', 5, 'SM BOX', 901), (2, 'blue linen', 'Brand#23', 'ECONOMY STEEL', 15, 'MED BOX', 1902);
INSERT INTO partsupp (ps_partkey, ps_suppkey, ps_availqty, ps_supplycost) VALUES (1, 1, 10, 500), (2, 2, 20, 700);
