-- full_refresh
CREATE DATABASE IF NOT EXISTS `ops` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` (`id` Int64, `part` String, `name` Nullable(String), `__dpone__load_id` String, `__dpone__row_id` String) ENGINE = ReplicatedMergeTree PARTITION BY `part` ORDER BY (`id`);
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` AS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb`;
EXCHANGE TABLES `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` AND `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
-- incremental_append
CREATE DATABASE IF NOT EXISTS `ops` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` (`id` Int64, `part` String, `name` Nullable(String), `__dpone__load_id` String, `__dpone__row_id` String) ENGINE = ReplicatedMergeTree PARTITION BY `part` ORDER BY (`id`);
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` CLONE AS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb`;
EXCHANGE TABLES `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` AND `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
-- incremental_merge
CREATE DATABASE IF NOT EXISTS `ops` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` (`id` Int64, `part` String, `name` Nullable(String), `__dpone__load_id` String, `__dpone__row_id` String) ENGINE = ReplicatedMergeTree PARTITION BY `part` ORDER BY (`id`);
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` CLONE AS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb`;
EXCHANGE TABLES `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` AND `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
-- partition_replace
CREATE DATABASE IF NOT EXISTS `ops` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` (`id` Int64, `part` String, `name` Nullable(String), `__dpone__load_id` String, `__dpone__row_id` String) ENGINE = ReplicatedMergeTree PARTITION BY `part` ORDER BY (`id`);
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
CREATE TABLE `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` CLONE AS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb`;
EXCHANGE TABLES `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` AND `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main`;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3edb` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
DROP TABLE IF EXISTS `ops`.`__dpone__scratch_orders_3ae58c33_1a388e33e16e3ed0` ON CLUSTER `main` SYNC SETTINGS max_table_size_to_drop = 0;
