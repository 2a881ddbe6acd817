"""How PostgreSQL publishes a staged load in one transaction.

Every publication of a target first takes an advisory lock that ends with its transaction, so another session that takes
the lock waits until the outcome is known. Other writers wait for a table lock. The load marker is in the comment of the
target.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dpone_core.connectors._sql.fence import holds_by_lock
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
from dpone_core.connectors.postgres.catalog import qualify
from dpone_core.connectors.postgres.database import Database
from dpone_core.model.artifacts import comment_with_marker
from dpone_core.model.load_config import TableName
from dpone_core.model.table_schema import TableSchema
from dpone_core.ports.sink import StagedHandle

from .catalog import TargetTable, artifact_of, attachments_of, count_of, resolve, target_table
from .types import LAYOUT, new_column

_UPDATED: Final = re.compile(r"\[dpone updated (\d+)\]")


def publication_dialect(database: Database, *, lock_timeout_seconds: float) -> PublicationDialect[TargetTable]:
    """`lock_timeout_seconds` bounds each wait for a lock."""

    @contextmanager
    def begin(*, code: str, message: str) -> Iterator[Ask]:
        with database.transaction(code=code, message=message, lock_timeout_seconds=lock_timeout_seconds) as cursor:
            yield database.ask_in(cursor)

    return PublicationDialect(
        engine="PostgreSQL",
        transactions=TransactionDialect(
            begin=begin,
            rows=database.rows,
            holds=holds_by_lock(lambda table: qualify(resolve(table)), "${}", suffix=" FOR UPDATE"),
            keep_publications_out=_keep_publications_out,
            keep_writers_out=_keep_writers_out,
        ),
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
            before_merge=lambda staged: (f"ANALYZE {qualify(staged)}",),
        ),
        layout=LAYOUT,
    )


def publication_lock(target: TableName) -> int:
    """The advisory lock of a target: 64 bits of its name, signed as PostgreSQL wants them."""
    digest = hashlib.sha256(f"dpone|{target.schema}|{target.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _keep_publications_out(ask: Ask, target: TableName) -> None:
    ask("SELECT pg_catalog.pg_advisory_xact_lock($1)", (publication_lock(target),))


def _keep_writers_out(ask: Ask, target: TableName) -> None:
    ask(f"LOCK TABLE {qualify(target)} IN SHARE ROW EXCLUSIVE MODE", ())


def _add_columns(target: TableName, added: TableSchema) -> list[str]:
    actions = ", ".join(f"ADD COLUMN {new_column(column).definition}" for column in added.columns)
    return [f"ALTER TABLE {qualify(target)} {actions}"]


def _swap(ask: Ask, handle: StagedHandle, target: TableName, exists: bool) -> str:
    moved = handle.table
    staged = target_table(ask, moved)
    if staged is not None and not staged.is_logged:
        ask(f"ALTER TABLE {qualify(moved)} SET LOGGED", ())
    if exists:
        ask(f"DROP TABLE {qualify(target)}", ())
    if moved.schema != target.schema:
        _require_schema(ask, target.schema or "")
        ask(f"ALTER TABLE {qualify(moved)} SET SCHEMA {quote_ansi(target.schema or '')}", ())
        moved = TableName(schema=target.schema, name=moved.name)
    ask(f"ALTER TABLE {qualify(moved)} RENAME TO {quote_ansi(target.name)}", ())
    return "swap_in_transaction"


def _require_schema(ask: Ask, schema: str) -> None:
    """Creates the schema unless it exists; the existing one needs no right to create."""
    if not ask("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", (schema,)):
        ask(f"CREATE SCHEMA {quote_ansi(schema)}", ())


def _write_marker(ask: Ask, target: TableName, before: TargetTable | None, marker: str) -> None:
    """Writes the marker into the target's comment and keeps the text that its author wrote there."""
    comment = comment_with_marker(before.note if before is not None else "", marker)
    ask(f"COMMENT ON TABLE {qualify(target)} IS {literal_ansi(comment)}", ())


def _write_updates(ask: Ask, staged: TableName, updated: int) -> None:
    ask(f"COMMENT ON TABLE {qualify(staged)} IS '[dpone updated {updated}]'", ())


def _read_updates(ask: Ask, staged: TableName) -> int:
    found = target_table(ask, staged)
    noted = _UPDATED.search(found.note) if found is not None else None
    return int(noted.group(1)) if noted is not None else 0
