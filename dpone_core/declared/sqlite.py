"""What the SQLite source can do, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.declared.functions import sqlite as names
from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    EmbeddedTraits,
    SourceTraits,
    SqlNames,
    SqlTraits,
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.SQLITE,
    sql=SqlTraits(
        dialect="sqlite",
        maintenance=rf"VACUUM|ANALYZE(\s+{SQL_NAME})?",
        names=SqlNames(functions=names.FUNCTIONS, table_functions=names.TABLE_FUNCTIONS),
    ),
    extra="sqlite",
    uri_schemes=("sqlite",),
    libraries=("pyarrow", "adbc_driver_sqlite"),
    embedded=EmbeddedTraits(uri_schemes=("sqlite",)),
    source=SourceTraits(reader="adbc", metric_probe=True, statements=True, incremental=True, key_ranges=True),
)
