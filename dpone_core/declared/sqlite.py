"""What the SQLite source can do, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import ConnectorDescriptor, ConnectorType, SourceTraits

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.SQLITE,
    sql_dialect="sqlite",
    extra="sqlite",
    uri_schemes=("sqlite",),
    libraries=("pyarrow", "adbc_driver_sqlite"),
    source=SourceTraits(reader="adbc", metric_probe=True, statements=True, incremental=True, key_ranges=True),
)
