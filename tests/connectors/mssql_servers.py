"""The server under test of the SQL Server suites: DPONE_TEST_MSSQL_URI, a container, else the TDS double.

A real server needs a login that may create a database. What the double cannot
encode or evaluate is skipped with the word UNVERIFIED, one cell at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from dpone_core.connectors.mssql.address import address_of
from dpone_core.connectors.mssql.driver import driver_path
from tests.connectors.sessions import connection
from tests.connectors.tds_double import TdsDouble, tds_double
from tests.connectors.unixodbc import require_unixodbc
from tests.live.compose import started
from tests.live.servers import MSSQL, with_database


@dataclass(frozen=True, slots=True, kw_only=True)
class MssqlServer:
    """`double` is None for a real server."""

    uri: str
    double: TdsDouble | None

    def run(self, *batches: str) -> list[tuple[Any, ...]]:
        """Over the wire on a connection of its own; the rows of the last batch."""
        from dpone_core.connectors.mssql.odbc import pyodbc

        odbc = address_of(connection(self.uri)).odbc(driver_path())
        with closing(pyodbc.connect(odbc, autocommit=True)) as session:
            cursor = session.cursor()
            for batch in batches:
                cursor.execute(batch)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def fill_orders(self, rows: int) -> None:
        if self.double is not None:
            self.double.native(
                "INSERT INTO orders SELECT i, CASE WHEN i % 2 = 0 THEN 'n' END, i::DECIMAL(18,4) / 10000"
                f" FROM range({rows}) AS r(i)"
            )
            return
        self.run(
            f"WITH n AS (SELECT TOP ({rows}) ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) - 1 AS i"
            " FROM sys.all_columns a CROSS JOIN sys.all_columns b)"
            " INSERT INTO dbo.orders SELECT i, CASE WHEN i % 2 = 0 THEN 'n' END, i / 10000.0 FROM n"
        )

    def needs_a_server(self, why: str) -> None:
        """Skips on the double: the cell is UNVERIFIED there."""
        if self.double is not None:
            pytest.skip(f"UNVERIFIED: {why}; the TDS double cannot show it, set {MSSQL.variable}")


@contextmanager
def mssql_server() -> Iterator[MssqlServer]:
    """A database of its own on a server: the environment variable's, else a container's; else the double."""
    require_unixodbc()
    given = os.environ.get(MSSQL.variable) or started(MSSQL.service)
    if not given:
        with tds_double() as double:
            yield MssqlServer(uri=double.uri, double=double)
        return
    name = f"dpone_test_{os.getpid()}_{uuid4().hex[:8]}"
    whole = MssqlServer(uri=given if "?" in given else f"{given}?encrypt=yes", double=None)
    whole.run(f"CREATE DATABASE {name}")
    try:
        yield MssqlServer(uri=with_database(whole.uri, name), double=None)
    finally:
        whole.run(f"ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE", f"DROP DATABASE {name}")
