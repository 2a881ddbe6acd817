"""Read-only ADBC connections to one SQLite file; driver errors leave as ConnectorError."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as adbc

from dpone_core.connectors._sql.interruptible import interruptible
from dpone_core.connectors._sql.schema_rules import foreign_error

if TYPE_CHECKING:
    import pyarrow as pa

Parameters = Sequence[str | int | float]
BATCH_ROWS: Final = 32_768
_OPTION: Final = "adbc.sqlite.query.batch_rows"


class Database:
    """Opens connections lazily; `rows` shares one, each stream has its own."""

    def __init__(self, path: Path) -> None:
        self._uri = f"file:{quote(str(path))}?mode=ro"
        self._catalog: adbc.Connection | None = None

    def rows(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """All rows of a small query."""
        with self._cursor(self._catalog_connection()) as cursor, translate_errors("source_unreachable"):
            return _fetch(cursor, sql, parameters)

    def run(self, sql: str) -> None:
        """A temporary-schema statement; the file itself is open read only."""
        with self._cursor(self._catalog_connection()) as cursor, translate_errors("source_query_refused"):
            _fetch(cursor, sql, ())

    @contextmanager
    def reader(self, sql: str, parameters: Parameters) -> Iterator[pa.RecordBatchReader]:
        connection = self._connect()
        try:
            with self._cursor(connection) as cursor:
                with translate_errors("source_query_refused"):
                    interruptible(lambda: cursor.execute(sql, parameters or None), cursor.adbc_cancel)
                    reader = cursor.fetch_record_batch()
                try:
                    yield reader
                finally:
                    reader.close()
        finally:
            connection.close()

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _catalog_connection(self) -> adbc.Connection:
        if self._catalog is None:
            self._catalog = self._connect()
        return self._catalog

    def _connect(self) -> adbc.Connection:
        with translate_errors("source_unreachable"):
            return adbc.connect(self._uri, autocommit=True)

    @staticmethod
    @contextmanager
    def _cursor(connection: adbc.Connection) -> Iterator[adbc.Cursor]:
        cursor = connection.cursor(adbc_stmt_kwargs={_OPTION: str(BATCH_ROWS)})
        try:
            yield cursor
        finally:
            cursor.close()


def _fetch(cursor: adbc.Cursor, sql: str, parameters: Parameters) -> list[tuple[object, ...]]:
    def rows() -> list[tuple[object, ...]]:
        cursor.execute(sql, parameters or None)
        return list(cursor.fetchall())

    return interruptible(rows, cursor.adbc_cancel)


_SENTENCES: Final = {
    "source_unreachable": "the SQLite database could not be read",
    "source_query_refused": "SQLite refused the query of the source",
}


@contextmanager
def translate_errors(code: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the driver raises its own hierarchy, Arrow's and OSError
        raise foreign_error(error, _SENTENCES[code], code) from error
