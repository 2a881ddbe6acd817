SELECT order_id, amount FROM orders WHERE updated_at >= {{ data_interval_start }}
