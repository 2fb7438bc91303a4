CREATE TABLE shipments (shipment_id BIGINT PRIMARY KEY, customer_id BIGINT, carrier_id INTEGER, origin VARCHAR, destination VARCHAR,
  shipped TIMESTAMP, promised DATE, delivered TIMESTAMP, weight DOUBLE, cost DECIMAL(10,2), status VARCHAR, priority INTEGER, tags VARCHAR,
  tracking VARCHAR);
CREATE TABLE scans (scan_id BIGINT PRIMARY KEY, shipment_id BIGINT, ts TIMESTAMP, hub_id INTEGER, event VARCHAR);
CREATE TABLE readings (reading_id BIGINT PRIMARY KEY, household_id BIGINT, sensor VARCHAR, ts TIMESTAMP, temperature DOUBLE, humidity DOUBLE,
  battery INTEGER, flags INTEGER, payload VARCHAR);
CREATE TABLE carriers (carrier_id INTEGER PRIMARY KEY, name VARCHAR, mode VARCHAR);
CREATE TABLE hubs (hub_id INTEGER PRIMARY KEY, city VARCHAR, country VARCHAR);
INSERT INTO carriers VALUES (1, 'Swift', 'air'), (2, 'Hull', 'sea'), (3, 'Rail One', 'rail');
INSERT INTO hubs VALUES (1, 'Lyon', 'FR'), (2, 'Ulm', 'DE'), (3, 'Bari', 'IT');
INSERT INTO shipments VALUES (1, 1, 1, 'Lyon', 'Ulm', '2024-01-29 10:00:00', '2024-02-01', '2024-02-02 09:00:00', 3.5, 12.50, 'delivered', 1, 'fragile,cold', 'SW-001'),
  (2, 2, 2, 'Bari', 'Lyon', '2024-03-01 18:00:00', '2024-03-20', NULL, 120, 310.00, 'in transit', 3, NULL, 'HU-77');
INSERT INTO scans VALUES (1, 1, '2024-01-30 02:00:00', 1, 'in'), (2, 1, '2024-01-30 06:00:00', 1, 'out'), (3, 2, '2024-03-05 11:00:00', 3, 'in');
INSERT INTO readings VALUES (1, 1, 'kitchen', '2024-01-01 00:05:00', 21.5, 40, 90, 3, '{"rssi": -60}'), (2, 2, 'attic', '2024-01-01 00:20:00', -3, 81, 15, 8, NULL);
