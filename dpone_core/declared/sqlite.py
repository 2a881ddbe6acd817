"""What the SQLite source can do, as plain data for planning."""

from __future__ import annotations

from typing import Final

from dpone_core.model.connector import (
    SQL_NAME,
    ConnectorDescriptor,
    ConnectorType,
    EmbeddedTraits,
    SourceTraits,
    SqlTraits,
    words,
)

_TABLE_FUNCTIONS: Final = words(
    """
    generate_series json_each json_tree pragma_foreign_key_list pragma_index_info pragma_index_list
    pragma_table_info pragma_table_list pragma_table_xinfo
    """
)

DESCRIPTOR: Final = ConnectorDescriptor(
    type=ConnectorType.SQLITE,
    sql=SqlTraits(
        dialect="sqlite",
        maintenance=rf"VACUUM|ANALYZE(\s+{SQL_NAME})?",
        table_functions=_TABLE_FUNCTIONS,
    ),
    extra="sqlite",
    uri_schemes=("sqlite",),
    libraries=("pyarrow", "adbc_driver_sqlite"),
    embedded=EmbeddedTraits(uri_schemes=("sqlite",)),
    source=SourceTraits(reader="adbc", metric_probe=True, statements=True, incremental=True, key_ranges=True),
)
