"""How DuckDB publishes a staged load in one transaction.

One process has the file, and every publication runs in a transaction of one of its threads. No lock is needed: if two
threads conflict, one transaction fails. The load marker is in the comment of the target. Any error may come from the
COMMIT, so the marker decides after each one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpone_core.connectors._sql.fence import holds_by_update
from dpone_core.connectors._sql.publication import (
    Ask,
    CatalogDialect,
    MarkerDialect,
    PublicationDialect,
    StatementDialect,
    TransactionDialect,
    delete_partitions_ansi,
    key_list_ansi,
    same_key_ansi,
)
from dpone_core.connectors._sql.text import literal_ansi, quote_ansi
from dpone_core.connectors.duckdb.catalog import (
    TargetTable,
    artifact_of,
    attachments_of,
    comment_of,
    count_of,
    target_table,
)
from dpone_core.connectors.duckdb.database import Database, qualify, resolve
from dpone_core.connectors.duckdb.types import LAYOUT, column_definition
from dpone_core.errors import ConnectorError
from dpone_core.model.artifacts import comment_with_marker
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.control import HeldRow
from dpone_core.ports.sink import StagedHandle

_UPDATED: Final = re.compile(r"\[dpone updated (\d+)\]")


def publication_dialect(database: Database) -> PublicationDialect[TargetTable]:
    @contextmanager
    def begin(*, code: str, message: str) -> Iterator[Ask]:
        with database.transaction(code=code, message=message) as cursor:
            yield database.ask_in(cursor)

    return PublicationDialect(
        engine="DuckDB",
        transactions=TransactionDialect(begin=begin, rows=database.rows, holds=_holds, in_doubt=ConnectorError),
        catalog=CatalogDialect(
            resolve=resolve, artifact_of=artifact_of, find=target_table, attachments=attachments_of, count=count_of
        ),
        marker=MarkerDialect(write_marker=_write_marker, write_updates=_write_updates, read_updates=_read_updates),
        statements=StatementDialect(
            qualify=qualify,
            same_key=same_key_ansi,
            key_list=key_list_ansi,
            delete_partitions=lambda target, staged, by, column: delete_partitions_ansi(
                qualify(target), qualify(staged), by
            ),
            swap=_swap,
            add_columns=_add_columns,
            replacement="replace_in_transaction",
            full_memory=database.full_memory,
        ),
        layout=LAYOUT,
    )


def _holds(ask: Ask, row: HeldRow) -> bool:
    return holds_by_update(ask, row, qualify(TableName(schema=row.table.schema, name=row.table.name)))


def _add_columns(target: TableName, added: TableSchema) -> list[str]:
    return [f"ALTER TABLE {qualify(target)} ADD COLUMN {column_definition(column)}" for column in added.columns]


def _swap(ask: Ask, handle: StagedHandle, target: TableName, exists: bool) -> str:
    staged = handle.table
    if exists:
        ask(f"DROP TABLE {qualify(target)}", ())
    if (staged.schema or "").lower() == (target.schema or "").lower():
        ask(f"ALTER TABLE {qualify(staged)} RENAME TO {quote_ansi(target.name)}", ())
        return "swap_in_transaction"
    found = target_table(ask, staged)
    definitions = ", ".join(map(column_definition, found.schema.columns if found is not None else ()))
    ask(f"CREATE SCHEMA IF NOT EXISTS {quote_ansi(target.schema or '')}", ())
    ask(f"CREATE TABLE {qualify(target)} ({definitions})", ())  # no rename leads across schemas
    ask(f"INSERT INTO {qualify(target)} SELECT * FROM {qualify(staged)}", ())
    return "copy_in_transaction"


def _write_marker(ask: Ask, target: TableName, before: TargetTable | None, marker: str) -> None:
    """Writes the marker into the target's comment and keeps the text that its author wrote there."""
    comment = comment_with_marker(before.note if before is not None else "", marker)
    ask(f"COMMENT ON TABLE {qualify(target)} IS {literal_ansi(comment)}", ())


def _write_updates(ask: Ask, staged: TableName, updated: int) -> None:
    ask(f"COMMENT ON TABLE {qualify(staged)} IS '[dpone updated {updated}]'", ())


def _read_updates(ask: Ask, staged: TableName) -> int:
    noted = _UPDATED.search(comment_of(ask, staged) or "")
    return int(noted.group(1)) if noted is not None else 0
