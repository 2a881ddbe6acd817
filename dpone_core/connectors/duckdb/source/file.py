"""A DuckDB file as a source: open read only while it is read, and for writing only while a hook script runs.

Other processes may read beside it. A process that writes holds the engine's lock, and then nothing opens: that is
`embedded_directory_locked`, never a wait without end.
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
    """Opens on first use and again after a script; the engine has one mode per file and process."""

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
        """Ends every reading cursor of this process first."""
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
    """StatementPort: scripts open the file for writing, one answer is read from the file as it is open."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file

    def execute(self, script: StatementScript) -> int:
        with self._file.open_for_writing() as database:
            return DuckDbStatements(database).execute(script)

    def answer(self, script: StatementScript) -> StatementAnswer:
        return DuckDbStatements(self._file.open_for_reading()).answer(script)
