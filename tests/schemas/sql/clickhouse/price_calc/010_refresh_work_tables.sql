TRUNCATE TABLE price_calc.work;
INSERT INTO price_calc.work SELECT project_id, item_id, price FROM raw.prices;
