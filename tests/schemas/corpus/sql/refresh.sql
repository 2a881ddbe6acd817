INSERT INTO orders_mart SELECT * FROM orders
