"""Fills the staging table in one ADBC transaction: creates it, copies the rows and gives it its final form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import adbc_driver_postgresql.dbapi as adbc

from dpone_core.connectors._sql.interruptible import interruptible
from dpone_core.connectors._sql.text import quote_ansi
from dpone_core.connectors.postgres.adbc_rows import fetch
from dpone_core.connectors.postgres.catalog import qualify
from dpone_core.connectors.postgres.database import Database
from dpone_core.connectors.postgres.errors import connect_error, server_error, sqlstate_of
from dpone_core.errors import ConnectorError, ETLExecutionError
from dpone_core.model.load_config import TableName

from .payload import PayloadRows
from .types import StoredColumn

_VALUE_CLASSES: Final = ("22", "23")
_SAVEPOINT: Final = "SAVEPOINT dpone_cast"


class CopyTransaction:
    """An open transaction on a connection of its own."""

    def __init__(self, connection: adbc.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return fetch(self._connection, sql, parameters)

    def copy(self, table: TableName, rows: PayloadRows) -> None:
        """Copies every row of `rows`; raises the error of a batch or of the reader unchanged."""
        with closing(self._connection.cursor()) as cursor:
            try:
                interruptible(
                    lambda: cursor.adbc_ingest(table.name, rows.reader(), mode="append", db_schema_name=table.schema),
                    cursor.adbc_cancel,
                )
            except Exception as error:
                raise rows.failure or error from error

    def alter(self, table: TableName, actions: list[str], cast: tuple[StoredColumn, ...]) -> None:
        """All actions in one rewrite of the table; ConnectorError names the column that cannot be cast."""
        if not actions:
            return
        self.run(_SAVEPOINT)
        try:
            self.run(f"ALTER TABLE {qualify(table)} {', '.join(actions)}")
        except adbc.Error as error:
            if not (sqlstate_of(error) or "").startswith(_VALUE_CLASSES):
                raise
            raise self._refusal(table, cast) from error

    def _refusal(self, table: TableName, cast: tuple[StoredColumn, ...]) -> ConnectorError:
        for stored in cast:
            quoted = quote_ansi(stored.column.name)
            self.run(f"ROLLBACK TO {_SAVEPOINT}")
            try:
                self.run(f"SELECT count({quoted}::{stored.declared_type}) FROM {qualify(table)}")
            except adbc.Error:
                return ConnectorError(
                    f"column {stored.column.name!r}: a value is no {stored.declared_type}", code="staged_value_refused"
                )
        return ConnectorError("PostgreSQL refused a staged value", code="staged_value_refused")


@contextmanager
def begin_copy(database: Database) -> Iterator[CopyTransaction]:
    """Opens the transaction; it commits at the end of the block. On an error the connection closes: a rollback."""
    try:
        connection = adbc.connect(database.uri, autocommit=True)
    except adbc.Error as error:
        raise connect_error(error, unreachable=database.side.unreachable) from error
    with closing(connection):
        open_copy = CopyTransaction(connection)
        try:
            for setting in database.settings:
                open_copy.run(setting)
            open_copy.run("BEGIN")
            yield open_copy
            open_copy.run("COMMIT")
        except ETLExecutionError:
            raise
        except (adbc.Error, OSError) as error:
            raise _staging_error(database, error) from error


def _staging_error(database: Database, error: Exception) -> ETLExecutionError:
    if (sqlstate_of(error) or "").startswith(_VALUE_CLASSES):
        return ConnectorError("PostgreSQL refused a staged value", code="staged_value_refused")
    if sqlstate_of(error) == "42501":
        return server_error(
            error, "staging was not created", code="staging_refused", unreachable=database.side.unreachable
        )
    return server_error(
        error,
        "PostgreSQL did not take the staged rows",
        code="sink_statement_refused",
        unreachable=database.side.unreachable,
    )
