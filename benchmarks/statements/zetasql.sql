-- In the shapes of GoogleSQL and ZetaSQL: differential privacy and anonymization clauses.
-- world: hospital

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = 2) item, AVG(quantity, contribution_bounds_per_group => (0, 100)) AS average_quantity FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = 2, privacy_unit_column = id) item, SUM(quantity, contribution_bounds_per_group => (0, 100)) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id) item, COUNT(*) AS n FROM students GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, max_groups_contributed = 1) item, COUNT(*, contribution_bounds_per_group => (0, 5)) AS times_requested FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) item, COUNT(quantity, contribution_bounds_per_group => (0, 2)) AS n FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) item, COUNT(DISTINCT id, contribution_bounds_per_group => (0, 1)) AS people FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, SUM(quantity, contribution_bounds_per_group => (0, 100), report_format => "JSON") AS quantity FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, COUNT(*, contribution_bounds_per_group => (0, 100), report_format => "PROTO") AS n FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, AVG(quantity, report_format => 'JSON') FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, APPROX_QUANTILES(quantity, 4, contribution_bounds_per_row => (0, 100)) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = 1) item, PERCENTILE_CONT(quantity, 0.5, contribution_bounds_per_row => (0, 100)) AS percentile_requested FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, PERCENTILE_CONT(quantity, 0.9, contribution_bounds_per_row => (0, 50)) FROM professors WHERE quantity > 0 GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, VAR_POP(quantity, contribution_bounds_per_row => (0, 100)) AS v FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01) item, STDDEV_POP(quantity, contribution_bounds_per_row => (0, 100)) AS s FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_rows_contributed = 3) SUM(quantity) FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = NULL) item, COUNT(*) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, min_privacy_units_per_group = 5) item, COUNT(*) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, group_selection_strategy = LAPLACE_THRESHOLD) item, COUNT(*) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, max_groups_contributed = 2, group_selection_strategy = PUBLIC_GROUPS) i.item, AVG(p.quantity, contribution_bounds_per_group => (0, 100)) AS average_quantity FROM professors p RIGHT OUTER JOIN (SELECT DISTINCT item FROM items) i ON p.item = i.item GROUP BY i.item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, max_groups_contributed = 2, group_selection_strategy = PUBLIC_GROUPS) i.item, COUNT(p.id) FROM UNNEST(['pen', 'paper']) AS i(item) LEFT OUTER JOIN professors p USING (item) GROUP BY i.item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, privacy_unit_column = id) department, AVG(salary) FROM staff GROUP BY department;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01, kappa = 2) item, ANON_COUNT(*) FROM professors GROUP BY item;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01, kappa = 2) item, ANON_AVG(quantity CLAMPED BETWEEN 0 AND 100) average_quantity FROM professors GROUP BY item;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01) item, ANON_SUM(quantity CLAMPED BETWEEN 0 AND 100) AS q FROM professors GROUP BY item;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = 1) item, ANON_QUANTILES(quantity, 4 CLAMPED BETWEEN 0 AND 100) FROM professors GROUP BY item;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01) ANON_PERCENTILE_CONT(quantity, 0.5 CLAMPED BETWEEN 0 AND 100) FROM professors;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01) item, ANON_VAR_POP(quantity CLAMPED BETWEEN 0 AND 100), ANON_STDDEV_POP(quantity CLAMPED BETWEEN 0 AND 100) FROM professors GROUP BY item;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01) ANON_COUNT(quantity CLAMPED BETWEEN 0 AND 5) FROM professors;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01) item, ANON_SUM(quantity WITH REPORT(FORMAT JSON)) FROM professors GROUP BY item;

-- answerable
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 10, delta = .01) ANON_COUNT(DISTINCT id) FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) COUNT(*) FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) COUNT(*) AS n, SUM(quantity) AS s, AVG(quantity) AS a FROM professors WHERE item != 'pen';

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY item, COUNT(*) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS () item, COUNT(*) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, COUNT(*) AS n FROM professors GROUP BY item HAVING COUNT(*) > 10;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, COUNT(*) AS n FROM professors GROUP BY item ORDER BY n DESC LIMIT 2;

-- answerable
SELECT item, n FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, COUNT(*) AS n FROM professors GROUP BY item) WHERE n > 5;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) COUNT(*) FROM professors p JOIN students s ON p.id = s.id;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) p.item, SUM(s.quantity) FROM professors p JOIN students s USING (id) GROUP BY p.item;

-- refused: joins
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) COUNT(*) FROM professors p JOIN students s ON p.item = s.item;

-- refused: joins
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) COUNT(*) FROM professors CROSS JOIN students;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) i.kind, SUM(p.quantity) FROM professors p JOIN items i USING (item) GROUP BY i.kind;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, SUM(q) FROM (SELECT id, item, SUM(quantity) AS q FROM professors GROUP BY id, item) GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) AVG(q, contribution_bounds_per_group => (0, 50)) FROM (SELECT id, SUM(quantity) AS q FROM professors GROUP BY id);

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, COUNT(*) FROM (SELECT id, item FROM professors UNION ALL SELECT id, item FROM students) GROUP BY item;

-- answerable
WITH both AS (SELECT id, item, quantity FROM professors UNION ALL SELECT id, item, quantity FROM students) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1.5, delta = 1e-7) item, AVG(quantity) FROM both GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, SUM(CASE WHEN quantity > 2 THEN 1 ELSE 0 END) AS bulk FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, SUM(IF(quantity > 2, quantity, 0), contribution_bounds_per_group => (0, 10)) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) EXTRACT(YEAR FROM hired) AS y, COUNT(DISTINCT id) FROM professors GROUP BY y;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, city, COUNT(*) FROM professors GROUP BY ROLLUP (item, city);

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) DISTINCT item FROM professors;

-- refused: unit-keys
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) id, COUNT(*) FROM professors GROUP BY id;

-- refused: rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, quantity FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) item, MAX(quantity) FROM professors GROUP BY item;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) APPROX_COUNT_DISTINCT(id) FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6, privacy_unit_column = s.id) s.department, SUM(p.quantity) FROM professors p JOIN staff s ON p.id = s.id GROUP BY s.department;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) department, LOGICAL_OR(female) FROM staff GROUP BY department;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) COUNTIF(quantity > 3) FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) CAST(AVG(quantity) AS INT64) FROM professors;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) `item`, COUNT(*) FROM `professors` GROUP BY 1;

-- answerable
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) DATE_TRUNC(hired, YEAR) AS y, COUNT(*) FROM professors GROUP BY y;
