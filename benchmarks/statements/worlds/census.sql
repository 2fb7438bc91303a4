CREATE TABLE pums (pid BIGINT PRIMARY KEY, age INTEGER, sex VARCHAR, educ INTEGER, race VARCHAR, income DOUBLE, married BOOLEAN,
  latino BOOLEAN, puma VARCHAR);
CREATE TABLE adult (id BIGINT PRIMARY KEY, age INTEGER, workclass VARCHAR, fnlwgt DOUBLE, education VARCHAR, education_num INTEGER,
  marital_status VARCHAR, occupation VARCHAR, relationship VARCHAR, race VARCHAR, sex VARCHAR, capital_gain DOUBLE,
  capital_loss DOUBLE, hours_per_week INTEGER, native_country VARCHAR, income VARCHAR);
CREATE TABLE reviews (review_id BIGINT PRIMARY KEY, customer_id BIGINT, rating INTEGER, product_key INTEGER, wrote TIMESTAMP);
CREATE TABLE trips (trip_id BIGINT PRIMARY KEY, rider_id BIGINT, driver VARCHAR, city_id INTEGER, fare DOUBLE, distance DOUBLE,
  status VARCHAR, requested TIMESTAMP);
CREATE TABLE riders (rider_id BIGINT PRIMARY KEY, home_city INTEGER, rating DOUBLE, joined DATE, signup_channel VARCHAR);
CREATE TABLE cities (id INTEGER PRIMARY KEY, name VARCHAR, country VARCHAR);
INSERT INTO cities VALUES (1, 'Lima', 'PE'), (2, 'Quito', 'EC'), (3, 'Cusco', 'PE');
INSERT INTO pums VALUES (1, 30, 'f', 12, 'a', 40000.0, true, false, '01'), (2, 50, 'm', 9, 'b', 30000.0, false, true, '02');
INSERT INTO adult VALUES (1, 39, 'Private', 77516.0, 'Bachelors', 13, 'Never-married', 'Sales', 'Own-child', 'White', 'Male', 2174.0,
  0.0, 40, 'Peru', '<=50K');
INSERT INTO reviews VALUES (1, 1, 5, 10, '2025-01-01 10:00:00');
INSERT INTO trips VALUES (1, 1, 'd1', 1, 8.5, 3.2, 'completed', '2025-01-01 08:00:00');
INSERT INTO riders VALUES (1, 1, 4.8, '2024-01-01', 'web');
