"""A statement that a signal stopped leaves a session that still works: the failure must be recordable.

DuckDB hands an interruption to whatever runs next when the interrupted statement has already ended.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone_core.connectors.duckdb.database import Database
from dpone_core.errors import ConnectorError


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(str(tmp_path / "w.duckdb"))
    database.rows("CREATE TABLE t (i INTEGER)")
    return database


def test_a_late_interruption_fails_neither_the_next_query_nor_the_next_transaction(database: Database) -> None:
    for _ in range(50):
        database.cursor().interrupt()
        assert database.rows("SELECT count(*) >= 0 FROM t") == [(True,)]
        database.cursor().interrupt()
        with database.transaction(code="x", message="x") as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
    assert database.rows("SELECT count(*) FROM t") == [(50,)]


def test_a_transaction_that_cannot_roll_back_is_given_up_and_the_next_one_works(database: Database) -> None:
    def ended_behind_our_back() -> None:
        with database.transaction(code="x", message="x") as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
            cursor.execute("ROLLBACK")
            cursor.execute("SELECT no_such_column FROM t")

    with pytest.raises(ConnectorError):
        ended_behind_our_back()
    with database.transaction(code="x", message="x") as cursor:
        cursor.execute("INSERT INTO t VALUES (2)")
    assert database.rows("SELECT i FROM t") == [(2,)]
