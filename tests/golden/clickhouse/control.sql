CREATE DATABASE IF NOT EXISTS `ops`;
CREATE TABLE IF NOT EXISTS `ops`.`__dpone__example` (`k` String, `t` Nullable(DateTime64(6, 'UTC')), `n` Nullable(Int64), `note` Nullable(String), `version` DateTime64(6, 'UTC')) ENGINE = ReplacingMergeTree(`version`) ORDER BY (`k`);
INSERT INTO `ops`.`__dpone__example` SETTINGS insert_deduplicate = 0 FORMAT JSONEachRow;
ALTER TABLE `ops`.`__dpone__example` DELETE WHERE `k` = 'a';
