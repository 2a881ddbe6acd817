"""A DuckDB file as a source: opened read only for reading, and for writing only while a hook script runs.

Other processes may read the file at the same time. While another process writes it, it cannot be opened: ConnectorError
`embedded_directory_locked`, after a bounded wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from dpone_core.connectors._sql.embedded import exclusive_lock
from dpone_core.connectors.duckdb.database import Database
from dpone_core.connectors.duckdb.statements import DuckDbStatements
from dpone_core.ports.statements import StatementAnswer, StatementScript


class SourceFile:
    """Opens the file on first use, and again after a hook script. DuckDB opens a file in one mode per process."""

    def __init__(self, path: str, *, lock_timeout_seconds: float, holder: str) -> None:
        self._path = path
        self._lock_timeout_seconds = lock_timeout_seconds
        self._holder = holder
        self._reading: Database | None = None

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        return self.open_for_reading().new_cursor()

    def open_for_reading(self) -> Database:
        if self._reading is None:
            self._reading = Database(self._path, read_only=True)
        return self._reading

    @contextmanager
    def open_for_writing(self) -> Iterator[Database]:
        """Opens the file for writing until the block ends; first closes every reading cursor of this process."""
        self.close()
        with exclusive_lock(self._path, timeout_seconds=self._lock_timeout_seconds, holder=self._holder):
            database = Database(self._path)
            try:
                yield database
            finally:
                database.close()

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None


class DuckDbSourceStatements:
    """StatementPort of a source file: hook scripts that may write open the file for writing; others, and a single
    answer, are read through the connection that is open."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file

    def execute(self, script: StatementScript) -> int:
        if script.read_only:
            return DuckDbStatements(self._file.open_for_reading()).execute(script)
        with self._file.open_for_writing() as database:
            return DuckDbStatements(database).execute(script)

    def answer(self, script: StatementScript) -> StatementAnswer:
        return DuckDbStatements(self._file.open_for_reading()).answer(script)
