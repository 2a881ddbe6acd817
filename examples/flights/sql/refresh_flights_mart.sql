-- The mart is calculated where the data lives, in one transaction: a reader of the source sees the old or the new one.
BEGIN;
DROP TABLE IF EXISTS flights_mart;
CREATE TABLE flights_mart (
    flight_id       INTEGER     NOT NULL PRIMARY KEY,
    scheduled_on    DATE        NOT NULL,
    carrier         VARCHAR(2)  NOT NULL,
    carrier_name    TEXT        NOT NULL,
    flight          INTEGER     NOT NULL,
    tailnum         VARCHAR(8),
    origin          VARCHAR(3)  NOT NULL,
    dest            VARCHAR(3)  NOT NULL,
    dep_delay       INTEGER,
    arr_delay       INTEGER,
    air_time        INTEGER,
    distance_miles  INTEGER     NOT NULL,
    speed_mph       DECIMAL(7, 1)
);
INSERT INTO flights_mart
SELECT f.flight_id,
       printf('%04d-%02d-%02d', f.year, f.month, f.day),
       f.carrier,
       a.name,
       f.flight,
       f.tailnum,
       f.origin,
       f.dest,
       f.dep_delay,
       f.arr_delay,
       f.air_time,
       f.distance,
       CASE WHEN f.air_time > 0 THEN printf('%.1f', f.distance * 60.0 / f.air_time) END
FROM flights AS f
JOIN airlines AS a ON a.carrier = f.carrier;
COMMIT;
