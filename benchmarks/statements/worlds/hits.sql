CREATE TABLE hits (hit_id BIGINT PRIMARY KEY, visitor BIGINT, seen TIMESTAMP, day DATE, site INTEGER, region INTEGER, engine SMALLINT,
  phrase VARCHAR, url VARCHAR, referer VARCHAR, title VARCHAR, phone SMALLINT, phone_model VARCHAR, width INTEGER, height INTEGER,
  ip INTEGER, campaign SMALLINT, refresh SMALLINT, internal SMALLINT, link SMALLINT, download SMALLINT, source SMALLINT, url_hash BIGINT,
  referer_hash BIGINT, age SMALLINT, sex SMALLINT, os SMALLINT, agent SMALLINT);
INSERT INTO hits VALUES (1, 435090932899640449, '2013-07-15 10:00:00', '2013-07-15', 62, 229, 0, '', 'https://example.org/', '', 'Home', 0, '', 1600,
  900, 12345, 0, 0, 0, 0, 0, 0, 1, 2, 30, 1, 3, 5);
