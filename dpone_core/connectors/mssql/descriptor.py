"""What the SQL Server source can do, as plain data for planning. Wire-tested against a TDS double."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import ConnectorDescriptor, ConnectorType, SourceTraits

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.MSSQL,
    sql_dialect="tsql",
    extra="mssql",
    uri_schemes=("mssql",),
    libraries=("pyarrow", "arrow_odbc", "pyodbc", "mssql_python_odbc"),
    source=SourceTraits(
        reader="arrow-odbc in a child process (pyodbc if asked)",
        metric_probe=True,
        statements=True,
        incremental=True,
        key_ranges=True,
    ),
)
