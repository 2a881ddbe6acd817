"""Renders every DDL statement of the ClickHouse sink, so that each of them gets ON CLUSTER."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dpone_core.connectors._sql.text import literal_backslash, quote_backtick
from dpone_core.model.load_config import PartitionBy, PartitionGranularity, TableName
from dpone_core.model.table_schema import Column, TableSchema

from .types import COMMENTS, type_text

DEDUPLICATION_WINDOW: Final = 10_000
WINDOW_SETTING: Final = "non_replicated_deduplication_window"
_GRANULARITY: Final = {
    PartitionGranularity.VALUE: "{}",
    PartitionGranularity.DAY: "toYYYYMMDD({})",
    PartitionGranularity.MONTH: "toYYYYMM({})",
    PartitionGranularity.YEAR: "toYear({})",
}


def qualify(table: TableName) -> str:
    name = quote_backtick(table.name)
    return f"{quote_backtick(table.schema)}.{name}" if table.schema else name


def column_definition(column: Column) -> str:
    comment = COMMENTS.get(column.type.kind)
    suffix = f" COMMENT {literal_backslash(comment)}" if comment else ""
    return f"{quote_backtick(column.name)} {type_text(column)}{suffix}"


def order_by_text(columns: Iterable[str]) -> str:
    listed = ", ".join(map(quote_backtick, columns))
    return f"({listed})" if listed else "tuple()"


def partition_by_text(partition: PartitionBy) -> str:
    return _GRANULARITY[partition.granularity].format(quote_backtick(partition.column))


class Ddl:
    """DDL statements for one cluster; None means this server only."""

    def __init__(self, cluster: str | None) -> None:
        self._on = f" ON CLUSTER {quote_backtick(cluster)}" if cluster else ""

    def create_database(self, name: str) -> str:
        return f"CREATE DATABASE IF NOT EXISTS {quote_backtick(name)}{self._on}"

    def create_table(self, table: TableName, schema: TableSchema, *, order_by: str, partition_by: str | None) -> str:
        """CREATE TABLE. On a cluster the table is a replicated one, because rows must reach every replica."""
        columns = ", ".join(column_definition(column) for column in schema.columns)
        engine = "ReplicatedMergeTree" if self._on else "MergeTree"
        partition = f" PARTITION BY {partition_by}" if partition_by else ""
        return f"CREATE TABLE {qualify(table)}{self._on} ({columns}) ENGINE = {engine}{partition} ORDER BY {order_by}"

    def create_like(self, table: TableName, model: TableName) -> str:
        return f"CREATE TABLE {qualify(table)}{self._on} AS {qualify(model)}"

    def clone(self, table: TableName, model: TableName) -> str:
        return f"CREATE TABLE {qualify(table)}{self._on} CLONE AS {qualify(model)}"

    def drop(self, table: TableName) -> str:
        return f"DROP TABLE IF EXISTS {qualify(table)}{self._on} SYNC SETTINGS max_table_size_to_drop = 0"

    def alter(self, table: TableName, actions: Iterable[str]) -> str:
        return f"ALTER TABLE {qualify(table)}{self._on} {', '.join(actions)}"

    def exchange(self, staged: TableName, target: TableName) -> str:
        return f"EXCHANGE TABLES {qualify(staged)} AND {qualify(target)}{self._on}"

    def rename(self, table: TableName, to: TableName) -> str:
        return f"RENAME TABLE {qualify(table)} TO {qualify(to)}{self._on}"

    def move_partition(self, staged: TableName, target: TableName, partition_id: str) -> str:
        return self.alter(staged, [f"MOVE PARTITION ID {literal_backslash(partition_id)} TO TABLE {qualify(target)}"])

    def attach_partition(self, shadow: TableName, staged: TableName, partition_id: str) -> str:
        return self.alter(shadow, [f"ATTACH PARTITION ID {literal_backslash(partition_id)} FROM {qualify(staged)}"])

    def replace_partition(self, target: TableName, staged: TableName, partition_id: str) -> str:
        return self.alter(target, [f"REPLACE PARTITION ID {literal_backslash(partition_id)} FROM {qualify(staged)}"])

    def drop_partition(self, shadow: TableName, partition_id: str) -> str:
        action = f"DROP PARTITION ID {literal_backslash(partition_id)}"
        return f"{self.alter(shadow, [action])} SETTINGS max_partition_size_to_drop = 0"

    def set_comment(self, table: TableName, comment: str) -> str:
        return self.alter(table, [f"MODIFY COMMENT {literal_backslash(comment)}"])

    def set_window(self, table: TableName) -> str:
        return self.alter(table, [f"MODIFY SETTING {WINDOW_SETTING} = {DEDUPLICATION_WINDOW}"])

    def reset_window(self, table: TableName) -> str:
        return self.alter(table, [f"RESET SETTING {WINDOW_SETTING}"])

    def set_defaults(self, table: TableName, defaults: dict[str, str]) -> str:
        return self.alter(
            table,
            [f"MODIFY COLUMN {quote_backtick(name)} DEFAULT {expression}" for name, expression in defaults.items()],
        )

    def remove_defaults(self, table: TableName, names: Iterable[str]) -> str:
        return self.alter(table, [f"MODIFY COLUMN {quote_backtick(name)} REMOVE DEFAULT" for name in names])

    def add_columns(self, table: TableName, schema: TableSchema) -> str:
        return self.alter(table, [f"ADD COLUMN IF NOT EXISTS {column_definition(column)}" for column in schema.columns])
