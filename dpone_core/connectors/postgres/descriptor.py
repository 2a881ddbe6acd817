"""What the PostgreSQL source can do, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import ConnectorDescriptor, ConnectorType, SourceTraits

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.POSTGRES,
    sql_dialect="postgres",
    extra="postgres",
    uri_schemes=("postgresql", "postgres"),
    libraries=("pyarrow", "adbc_driver_postgresql", "psycopg"),
    source=SourceTraits(reader="adbc", metric_probe=True, statements=True, incremental=True),
)
