CREATE TABLE viewers (viewer_id BIGINT PRIMARY KEY, name VARCHAR, age INTEGER, sex VARCHAR, occupation VARCHAR, zip VARCHAR, member_since DATE);
CREATE TABLE ratings (rating_id BIGINT PRIMARY KEY, viewer_id BIGINT, movie_id INTEGER, rating DOUBLE, review VARCHAR, rated TIMESTAMP);
CREATE TABLE bookings (booking_id BIGINT PRIMARY KEY, passenger_id BIGINT, flight_no VARCHAR, day DATE, booked TIMESTAMP, fare DOUBLE, cabin VARCHAR,
  bags INTEGER, seat VARCHAR);
CREATE TABLE players (player_id BIGINT PRIMARY KEY, player_name VARCHAR, birthday TIMESTAMP, height DOUBLE, weight INTEGER, club VARCHAR,
  preferred_foot VARCHAR, overall_rating INTEGER, position VARCHAR);
CREATE TABLE appearances (appearance_id BIGINT PRIMARY KEY, player_id BIGINT, match_id INTEGER, goals INTEGER, minutes INTEGER, card VARCHAR);
CREATE TABLE movies (movie_id INTEGER PRIMARY KEY, title VARCHAR, released INTEGER, genre VARCHAR, director VARCHAR, gross DOUBLE);
CREATE TABLE flights (flight_no VARCHAR PRIMARY KEY, airline VARCHAR, origin VARCHAR, destination VARCHAR, distance INTEGER, price DOUBLE);
CREATE TABLE airports (code VARCHAR PRIMARY KEY, city VARCHAR, country VARCHAR);
CREATE TABLE matches (match_id INTEGER PRIMARY KEY, season VARCHAR, played DATE, home VARCHAR, away VARCHAR, home_goals INTEGER, away_goals INTEGER);
INSERT INTO movies VALUES (1, 'Dune', 1984, 'SciFi', 'Lynch', 30.9), (2, 'Heat', 1995, 'Crime', 'Mann', 187), (3, 'Alien', 1979, 'SciFi', 'Scott', 104);
INSERT INTO flights VALUES ('AZ1', 'ITA', 'FCO', 'CDG', 1100, 120), ('AF9', 'Air France', 'CDG', 'JFK', 5830, 640), ('LH3', 'Lufthansa', 'FRA', 'CDG', 450, 90);
INSERT INTO airports VALUES ('FCO', 'Rome', 'Italy'), ('CDG', 'Paris', 'France'), ('JFK', 'New York', 'USA'), ('FRA', 'Frankfurt', 'Germany');
INSERT INTO matches VALUES (1, '2022/2023', '2022-08-13', 'Ajax', 'PSV', 2, 2), (2, '2022/2023', '2022-09-01', 'PSV', 'Ajax', 0, 1);
INSERT INTO viewers VALUES (1, 'Kim', 25, 'F', 'artist', '94110', '2020-02-01'), (2, 'Lou', 57, 'M', 'doctor', '10001', '2018-10-31');
INSERT INTO ratings VALUES (1, 1, 1, 4.5, 'great fun', '2023-01-01 20:00:00'), (2, 2, 2, 3, NULL, '2023-03-05 21:30:00');
INSERT INTO bookings VALUES (1, 1, 'AZ1', '2023-07-01', '2023-05-30 10:00:00', 133.5, 'economy', 1, '12A'), (2, 2, 'AF9', '2023-08-15', '2023-08-01 07:00:00', 2100, 'business', 2, NULL);
INSERT INTO players VALUES (1, 'P. One', '1995-05-05 00:00:00', 180.34, 165, 'Ajax', 'left', 77, 'mid'), (2, 'Q. Two', '1990-10-10 00:00:00', 190.5, 187, 'PSV', 'right', 81, 'back');
INSERT INTO appearances VALUES (1, 1, 1, 1, 90, NULL), (2, 2, 1, 0, 77, 'yellow');
